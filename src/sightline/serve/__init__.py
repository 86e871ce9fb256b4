"""The web application: a page that explains a pasted text, and the HTTP API behind it.

- `server`, `routes`, `documents`, `schemas`: listening socket and application, the addresses and what they answer.
- `guards`, `requests`, `refusal`: the checks that every request passes, and answers other than a result.
- `dispatcher`, `process`, `session`: jobs and their queue, the worker process, and the models that it holds.

Requires the extra `serve` (FastAPI, uvicorn). The process that answers HTTP requests never imports torch.
"""
