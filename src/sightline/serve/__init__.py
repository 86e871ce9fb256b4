"""serve: the web application. A page to paste a text into, and the API behind it.

settings     what whoever starts it decides
running      listening, and ending what was started
app, routes  the application and its end points; guards: what every request passes
jobs, dispatcher, process   what was asked, in which order it is done, the server's end of the worker
worker, desk, look          the process that computes: the models, and what can be asked of them
frames       messages between the two

Needs the extra `serve` (FastAPI, uvicorn). The server's own process never imports torch.
"""
