"""Parts of the OpenAPI description that several routes share."""

from __future__ import annotations

from typing import Any

from sightline.serve.http.schemas import ErrorAnswer

Responses = dict[int | str, dict[str, Any]]
"""Answers of a route by status, as FastAPI's `responses` takes them."""


def describe_errors(*statuses: int) -> Responses:
    """Return the error answers of a route, by status."""
    meanings = {
        401: "Wrong token",
        404: "Unknown model or job",
        409: "No result yet, or cancelled",
        413: "Too large",
        415: "Not JSON",
        422: "Invalid request",
        429: "The queue is full; Retry-After says when to try again",
        500: "Internal error",
        503: "The worker process cannot be started",
        504: "Time limit exceeded",
    }
    return {status: {"model": ErrorAnswer, "description": meanings[status]} for status in statuses}


def describe_binary(description: str, **headers: str) -> Responses:
    """Return the description of an answer of raw bytes; `headers` maps names, with _ for -, to their meaning."""
    return {
        200: {
            "description": description,
            "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
            "headers": {
                name.replace("_", "-"): {"description": text, "schema": {"type": "string"}}
                for name, text in headers.items()
            },
        }
    }


def describe_page(description: str) -> Responses:
    """Return the description of an answer that is an HTML page."""
    return {200: {"description": description, "content": {"text/html": {"schema": {"type": "string"}}}}}
