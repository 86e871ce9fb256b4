"""Parse and check the body of a request; every problem is reported as one sentence.

The options of methods have bounds (`OPTION_RANGES`). The library accepts any value that a method can compute with. A
server shared by several people also bounds the cost of one request and refuses values that only overflow or underflow.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, asdict, dataclass, replace
from typing import Any

from fastapi import Request
from pydantic import TypeAdapter

from sightline.errors import InputError, OptionError
from sightline.registry import suggestion
from sightline.serve.refusal import Refusal
from sightline.settings.explain import ExplainSettings
from sightline.settings.options import Option, Settings, declared_options, option, through
from sightline.settings.serving import ServerLimits as Limits
from sightline.text import check_text

LARGEST_NUMBER = 1e6
"""Bound on the magnitude of every number without an entry below."""
OPTION_RANGES: Mapping[str, tuple[float, float]] = {
    "samples": (1, 50_000),
    "steps": (1, 2_000),
    "max_evaluations": (1, 5_000),
    "budget": (1, 100_000),
    "tolerance": (1e-9, 1e6),
    "kernel_width": (1e-3, 1e3),
    "ridge": (0, 1e6),
    "noise": (0, 100),
    "seed": (0, 2**32 - 1),
}
"""Smallest and largest value by option name, for all methods that have the option."""


def check_options(options: Mapping[str, Mapping[str, Any]]) -> None:
    """Raise `Refusal` (422) if a number in the options of a method is outside its range."""
    for method, values in options.items():
        for name, value in values.items():
            low, high = OPTION_RANGES.get(name, (-LARGEST_NUMBER, LARGEST_NUMBER))
            for number in value if isinstance(value, list) else [value]:
                if isinstance(number, (int, float)) and not isinstance(number, bool) and not low <= number <= high:
                    raise Refusal(
                        422,
                        f"The option {name[:60]}={str(number)[:40]} of {method[:60]} is outside the range "
                        f"of this server, {low:,.10g} to {high:,.10g}.",
                    )


ALL_CLASSES = "all"


@dataclass(frozen=True, kw_only=True)
class ExplainRequest(ExplainSettings):
    """A request for explanations. Only `text` is required."""

    text: str = option(expects="a string", help="The text.")
    model: str | None = option(
        None, expects="the name of a model", help="A name from /api/models; by default, the first."
    )
    check: bool = option(
        False, help="Compare each explanation with random orderings of the words; runs the model many times."
    )
    relations: bool = option(False, help="Also collect attention relations and maps for the page.")
    wait: bool = option(
        True,
        help="Wait for the result; if false, answer at once with 202 and a job. A client that disconnects while "
        "waiting cancels its job.",
    )


def request_schema(settings: type[Settings], examples: Sequence[Mapping[str, Any]] = ()) -> dict[str, Any]:
    """Return the JSON schema of the requests that have these settings."""
    properties: dict[str, Any] = {}
    with through("request"):
        for name, declared in declared_options(settings).items():
            if declared.server:
                properties[name] = {**_value_schema(declared), "description": declared.request_help or declared.help}
                if declared.default is not MISSING:
                    properties[name]["default"] = declared.default
    return {
        "title": settings.__name__,
        "description": settings.__doc__,
        "type": "object",
        "properties": properties,
        "required": [name for name, schema in properties.items() if "default" not in schema],
        "additionalProperties": False,
        "examples": list(examples),
    }


def _value_schema(declared: Option) -> dict[str, Any]:
    schema = TypeAdapter(declared.kind).json_schema()
    kinds = {"integer": ("minimum", "maximum"), "number": ("minimum", "maximum"), "array": ("minItems", "maxItems")}
    for part in [schema, *schema.get("anyOf", [])]:
        for bound, value in zip(kinds.get(part.get("type"), ()), declared.bounds(), strict=False):
            if value is not None:
                part[bound] = value
    return schema


EXAMPLES = (
    {"text": "The compiler infers the types of all expressions."},
    {
        "text": "A neural network learns from data.",
        "methods": ["attcat", "rollout"],
        "target": "artificial intelligence",
        "options": {"rollout": {"fusion": "max"}},
        "wait": False,
    },
)


class PendingBytes:
    """Counts the bytes of all bodies that are being received, so that many slow clients cannot fill the memory."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._total = 0

    def add(self, count: int) -> None:
        """Count received bytes; raise `Refusal` if the server holds too many already."""
        if self._total + count > self._limit:
            raise Refusal(
                503, "The server is receiving too many large requests. Try again later.", {"Retry-After": "5"}
            )
        self._total += count

    def remove(self, count: int) -> None:
        """Stop counting the bytes of a body that has been read."""
        self._total -= count


async def read_body(request: Request, max_bytes: int, pending: PendingBytes) -> bytes:
    """Return the body; refuse one that is too large as soon as that is known."""
    declared = request.headers.get("content-length", "")
    if declared.isdecimal() and int(declared) > max_bytes:
        raise _too_large(max_bytes)
    body = bytearray()
    try:
        async for chunk in request.stream():
            if len(body) + len(chunk) > max_bytes:
                raise _too_large(max_bytes)
            pending.add(len(chunk))
            body += chunk
        return bytes(body)
    finally:
        pending.remove(len(body))


def parse_request(body: bytes) -> ExplainRequest:
    """Return the request in `body`; raise `Refusal` if it is not valid."""
    try:
        content = json.loads(body, parse_constant=_refuse_constant)
    except UnicodeDecodeError as error:
        position = f"byte 0x{body[error.start]:02x} at position {error.start:,} is invalid"
        raise Refusal(422, f"The body is not JSON in UTF-8: {position}.") from None
    except (ValueError, RecursionError) as error:
        reason = "it is nested too deeply" if isinstance(error, RecursionError) else str(error).rstrip(".")
        raise Refusal(422, f"The body is not JSON: {reason}.") from None
    if not isinstance(content, dict):
        raise Refusal(422, 'The body must be a JSON object such as {"text": "…"}.')
    if any(map(_has_surrogates, content)):
        raise Refusal(422, "Field names must be valid Unicode, without unpaired surrogates.")
    try:
        return ExplainRequest.from_record(content)
    except OptionError as error:
        raise Refusal(422, str(error)) from None


def parse_token(body: bytes) -> str:
    """Return the token in the body `{"token": "…"}` of a sign-in."""
    try:
        content = json.loads(body)
    except (ValueError, RecursionError):
        content = None
    if not isinstance(content, dict) or not isinstance(content.get("token"), str) or not content["token"].isascii():
        raise Refusal(422, 'The body must be a JSON object with a token: {"token": "…"}.')
    return str(content["token"])


def check_request(
    request: ExplainRequest, settings: Limits, models: Mapping[str, list[str]], methods: Sequence[str]
) -> tuple[bytes, list[str]]:
    """Check everything that does not need the models; return the request as JSON for the worker, and its methods.

    models: name -> the methods of a request that names none.
    """
    characters = len(request.text) + len(request.pair or "") + len(request.continuation or "")
    if characters > settings.max_characters:
        raise Refusal(
            413,
            f"The text has {characters:,} characters; this server accepts at most {settings.max_characters:,}. "
            "Send it in parts.",
        )
    try:
        check_text(request.text)
        if request.pair is not None:
            check_text(request.pair, "second text")
        if request.continuation is not None:
            check_text(request.continuation, "continuation")
    except InputError as error:
        raise Refusal(422, str(error)) from None
    if request.model is not None:
        _check_known(request.model, list(models), "model", 404)
    model = request.model or next(iter(models))
    chosen = models[model] if request.methods is None else list(request.methods)
    for name in chosen:
        _check_known(name, methods, "method", 422)
    if request.target == ALL_CLASSES:
        raise Refusal(
            422, "The server explains one class per request. Send one request per label listed in /api/models."
        )
    for name in request.options:
        if name not in chosen:
            raise Refusal(422, f"Options are given for '{_shorten(name)}', which is not one of the requested methods.")
    fields = asdict(replace(request, model=model, methods=tuple(chosen)))
    try:
        body = json.dumps(fields, allow_nan=False).encode()
    except ValueError:
        raise Refusal(422, "Numbers must be finite.") from None
    check_options(request.options)
    return body, chosen


def _check_known(name: str, known: Sequence[str], kind: str, status: int) -> None:
    if name not in known:
        hint = suggestion(name, list(known))
        raise Refusal(status, f"There is no {kind} called '{_shorten(name)}'.{hint} Known: {', '.join(known)}.")


def describe_parameter_error(errors: Sequence[Mapping[str, Any]]) -> str:
    """Return a sentence about the first invalid parameter of a URL."""
    name = errors[0]["loc"][-1]
    message = str(errors[0]["msg"])
    return f"The parameter '{_shorten(str(name))}' is invalid: {message[:1].lower()}{message[1:].rstrip('.')}."


def _has_surrogates(name: str) -> bool:
    return any("\ud800" <= character <= "\udfff" for character in name)


def _shorten(name: str) -> str:
    return name if len(name) <= 60 else name[:60] + "…"


def _refuse_constant(constant: str) -> Any:
    raise ValueError(f"{constant} is not a number")


def _too_large(max_bytes: int) -> Refusal:
    return Refusal(413, f"The request is larger than {max_bytes:,} bytes, the limit of this server.")
