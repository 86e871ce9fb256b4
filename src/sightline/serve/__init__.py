"""The web application: a page that explains a pasted text, and the HTTP API behind it.

- `settings`: the limits chosen when the server is started.
- `refusal`: answers other than a result.
- `http/`: the application, its routes and schemas, the checks that every request passes, and the listening server.
- `worker/`: jobs and their queue (`jobs`, `dispatcher`), the worker process (`process`), with the
  models it holds (`session`).

Requires the extra `serve` (FastAPI, uvicorn). The process that answers HTTP requests never imports torch.
"""
