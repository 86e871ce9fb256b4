"""From the bytes of a request to a checked `ExplainRequest`, with a sentence for everything that is wrong with it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from fastapi import Request
from pydantic import ValidationError

from sightline.errors import InputError
from sightline.registry import suggestion
from sightline.serve.http.refusal import Refused
from sightline.serve.http.schemas import MOST_METHODS, ExplainRequest
from sightline.serve.settings import Settings
from sightline.text import check_text

EVERY_CLASS = "all"

_MUST_BE = {
    "text": "a string",
    "pair": "a string or null",
    "model": "the name of a model",
    "methods": f"a list of 1 to {MOST_METHODS} names of methods",
    "target": "a label, a class number, or a list of two of them for a contrast",
    "quantity": "one of logit, probability, log_probability, margin",
    "position": "a whole number",
    "options": 'an object of objects, such as {"rollout": {"fusion": "max"}}',
    "seed": "a whole number",
    "global_tokens": "a list of whole numbers",
    "check": "true or false",
    "relations": "true or false",
    "wait": "true or false",
}


async def read_body(request: Request, most: int) -> bytes:
    """Return the body; one that is too large is refused before it has arrived."""
    body = bytearray()
    announced = request.headers.get("content-length", "")
    if announced.isdecimal() and int(announced) > most:
        raise _too_large(most)
    async for chunk in request.stream():
        body += chunk
        if len(body) > most:
            raise _too_large(most)
    return bytes(body)


def parsed(body: bytes) -> ExplainRequest:
    """Return the request in `body`, or say what is wrong with it."""
    try:
        found = json.loads(body, parse_constant=_refuse_constant)
    except UnicodeDecodeError as error:
        place = f"byte 0x{body[error.start]:02x} at position {error.start:,} is wrong"
        raise Refused(422, f"The body is not JSON in UTF-8: {place}.") from None
    except (ValueError, RecursionError) as error:
        reason = "it is nested too deeply" if isinstance(error, RecursionError) else str(error).rstrip(".")
        raise Refused(422, f"The body is not JSON: {reason}.") from None
    if not isinstance(found, dict):
        raise Refused(422, 'The body must be a JSON object such as {"text": "…"}.')
    try:
        return ExplainRequest.model_validate(found)
    except ValidationError as error:
        raise Refused(422, _sentence(error)) from None


def checked(request: ExplainRequest, settings: Settings, models: Sequence[str], methods: Sequence[str]) -> bytes:
    """Check what can be checked without the models, and return the request as the worker reads it."""
    characters = len(request.text) + len(request.pair or "")
    if characters > settings.max_characters:
        raise Refused(
            413,
            f"The text has {characters:,} characters; this server reads at most {settings.max_characters:,}. "
            "Give it in parts.",
        )
    try:
        check_text(request.text)
        if request.pair is not None:
            check_text(request.pair, "second text")
    except InputError as error:
        raise Refused(422, str(error)) from None
    if request.model is not None:
        _check_known(request.model, models, "model", 404)
    for name in request.methods:
        _check_known(name, methods, "method", 422)
    if request.target == EVERY_CLASS:
        raise Refused(422, "This server explains one class at a time: send a request for each label of /api/models.")
    for name in request.options:
        if name not in request.methods:
            raise Refused(422, f"There are options for '{_shown(name)}', which is not among the methods asked for.")
    plain = request.model_dump(exclude={"wait"}) | {"model": request.model or models[0]}
    try:
        return json.dumps(plain, allow_nan=False).encode()
    except ValueError:
        raise Refused(422, "Numbers must be finite.") from None


def _check_known(name: str, known: Sequence[str], kind: str, status: int) -> None:
    if name not in known:
        hint = suggestion(name, list(known))
        raise Refused(status, f"There is no {kind} called '{_shown(name)}'.{hint} Known: {', '.join(known)}.")


def _sentence(error: ValidationError) -> str:
    """Return one sentence for every field that is wrong, each once."""
    sentences: dict[str, None] = {}
    for problem in error.errors(include_url=False, include_input=False, include_context=False):
        name = str(problem["loc"][0]) if problem["loc"] else ""
        if not name:
            sentences["Names of fields must be plain Unicode, without half a surrogate pair."] = None
        elif problem["type"] == "extra_forbidden":
            hint = suggestion(name, list(_MUST_BE))
            sentences[f"There is no field '{_shown(name)}'.{hint} Known: {', '.join(_MUST_BE)}."] = None
        elif problem["type"] == "missing":
            sentences[f"The field '{name}' is missing."] = None
        else:
            sentences[f"The field '{name}' must be {_MUST_BE[name]}."] = None
    return " ".join(list(sentences)[:3])


def parameter_sentence(errors: Sequence[Mapping[str, Any]]) -> str:
    """Return what is wrong with the first bad parameter of an address."""
    name = errors[0]["loc"][-1]
    message = str(errors[0]["msg"])
    return f"The parameter '{_shown(str(name))}' does not fit: {message[:1].lower()}{message[1:].rstrip('.')}."


def _shown(name: str) -> str:
    return name if len(name) <= 60 else name[:60] + "…"


def _refuse_constant(constant: str) -> Any:
    raise ValueError(f"{constant} is not a number")


def _too_large(most: int) -> Refused:
    return Refused(413, f"The request is larger than {most:,} bytes, which is all this server reads.")
