"""The routes of the API. Handlers check the request, ask the dispatcher and forward bytes; they compute nothing."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Path, Query, Request
from fastapi.responses import JSONResponse, Response, StreamingResponse

from sightline import __version__
from sightline.serve import schemas
from sightline.serve.dispatcher import Dispatcher, Job, JobKind
from sightline.serve.refusal import Refusal, queue_full
from sightline.serve.requests import (
    EXAMPLES,
    ExplainRequest,
    check_request,
    parse_request,
    parse_token,
    read_body,
    request_schema,
)
from sightline.serve.schemas import describe_binary, describe_errors, describe_page

HEARTBEAT = 15.0
"""Seconds of silence after which an event stream sends a comment to keep the connection open."""
MAX_TILE = 1_024
MAX_TOKEN_BYTES = 4_096
MAX_STREAMS = 64
"""Event streams open at once; each keeps a connection open for as long as its job runs."""
MAX_PARTNERS = 200
MAX_TOKENS_PER_UNIT = 1_000


def _dispatcher(request: Request) -> Dispatcher:
    dispatcher: Dispatcher = request.app.state.dispatcher
    return dispatcher


TheDispatcher = Annotated[Dispatcher, Depends(_dispatcher)]


def _job(id: Annotated[str, Path(description="The id of a job.")], dispatcher: TheDispatcher) -> Job:
    job = dispatcher.job_store.find(id)
    if job is None:
        raise Refusal(
            404,
            f"There is no job '{id[:60]}'. The server keeps the latest {dispatcher.settings.kept_jobs} results until "
            "it is restarted; send the text again.",
        )
    return job


KnownJob = Annotated[Job, Depends(_job)]


def _require_finished(job: KnownJob) -> Job:
    if not job.over:
        raise Refusal(409, f"The job is {job.status} and has no result yet. Ask again when its status is done.")
    if job.error is not None:
        raise Refusal(job.error_status, job.error)
    return job


FinishedJob = Annotated[Job, Depends(_require_finished)]


def _require_explanation(job: FinishedJob) -> Job:
    if job.kind != "explanation":
        raise Refusal(404, "This job explains a continuation: it has a result and a page, but no view data.")
    return job


FinishedExplanation = Annotated[Job, Depends(_require_explanation)]


_ATTACHMENT = {"Content-Disposition": "attachment"}
"""Sent with a page: shown by the browser, it would run under the address of this server."""

router = APIRouter(prefix="/api")


@router.post(
    "/session", tags=["server"], response_model=schemas.SessionAnswer, responses=describe_errors(401, 413, 422)
)
async def open_session(request: Request) -> Response:
    """Exchange the token of the server, `{"token": "…"}`, for a cookie; used by the page."""
    token = parse_token(await read_body(request, MAX_TOKEN_BYTES, request.app.state.pending))
    if not request.app.state.access.is_token(token):
        raise Refusal(401, "This is not the token of this server. It was chosen when the server was started.")
    return JSONResponse({"status": "ok"}, headers={"Set-Cookie": request.app.state.access.cookie()})


@router.get("/health", tags=["server"])
async def health(dispatcher: TheDispatcher) -> schemas.HealthAnswer:
    """The state of the server and its limits."""
    limits = dispatcher.settings
    return schemas.HealthAnswer(
        status="ok" if dispatcher.ready else "starting",
        version=__version__,
        running=int(dispatcher.current is not None),
        waiting=dispatcher.waiting,
        default_methods=dispatcher.default_methods[dispatcher.model_names[0]],
        corpus=limits.corpus is not None,
        limits=schemas.LimitsAnswer(
            max_characters=limits.max_characters,
            max_tokens=limits.max_tokens,
            queue=limits.queue,
            timeout=limits.timeout,
            kept_jobs=limits.kept_jobs,
            token=limits.token is not None,
        ),
    )


@router.get("/models", tags=["server"], response_model=list[schemas.ModelAnswer])
async def models(dispatcher: TheDispatcher) -> Response:
    """The available models, the default first."""
    return _json(dispatcher.catalogue["models"])


@router.get("/methods", tags=["server"], response_model=list[schemas.MethodAnswer])
async def methods(dispatcher: TheDispatcher) -> Response:
    """The available methods with formula, cost, options, citation and advice."""
    return _json(dispatcher.catalogue["methods"])


@router.get("/metrics", tags=["server"], response_model=list[schemas.MetricAnswer])
async def metrics(dispatcher: TheDispatcher) -> Response:
    """The metrics of the library; they are computed by `sightline evaluate`, not by the server."""
    return _json(dispatcher.catalogue["metrics"])


@router.post(
    "/explain",
    tags=["explain"],
    response_model=schemas.ResultAnswer | schemas.ContinuationAnswer | schemas.ContinuationsAnswer,
    responses={
        202: {"model": schemas.JobAnswer, "description": 'The job, with `"wait": false`'},
        **describe_errors(404, 413, 415, 422, 429, 500, 503, 504),
    },
    openapi_extra={
        "requestBody": {
            "required": True,
            "content": {"application/json": {"schema": request_schema(ExplainRequest, EXAMPLES)}},
        }
    },
)
async def explain(request: Request, dispatcher: TheDispatcher) -> Response:
    """Explain the prediction of a model for a text.

    Answers with the result or, with `"wait": false`, immediately with 202 and a job.
    """
    request_body = parse_request(await read_body(request, dispatcher.settings.max_body, request.app.state.pending))
    body, methods = check_request(
        request_body, dispatcher.settings, dispatcher.default_methods, dispatcher.method_names
    )
    continues = request_body.continuation is not None or request_body.max_new_tokens is not None
    kind: JobKind = "continuation" if continues else "explanation"
    job = Job(body, request_body.model or dispatcher.model_names[0], methods, kind)
    dispatcher.submit(job)
    headers = {"Location": f"/api/jobs/{job.id}"}
    if not request_body.wait:
        return JSONResponse(job_record(job, dispatcher), 202, headers)
    await _wait_or_cancel(job, request, dispatcher)
    return _json(_require_finished(job).parts["result"], headers)


@router.get("/jobs/{id}", tags=["jobs"], response_model=schemas.JobAnswer, responses=describe_errors(404))
async def job_status(job: KnownJob, dispatcher: TheDispatcher) -> Response:
    """The status and progress of a job."""
    return JSONResponse(job_record(job, dispatcher))


@router.delete("/jobs/{id}", tags=["jobs"], response_model=schemas.JobAnswer, responses=describe_errors(404))
async def cancel_job(job: KnownJob, dispatcher: TheDispatcher) -> Response:
    """Cancel a job and wait until it has stopped; a finished job is left unchanged."""
    dispatcher.cancel(job)
    await job.wait_until_over()
    return JSONResponse(job_record(job, dispatcher))


@router.get(
    "/jobs/{id}/events",
    tags=["jobs"],
    response_class=StreamingResponse,
    responses={
        200: {
            "description": "Server-sent events: `progress` after every change, `end` when the job is over; the data of "
            "each event is the job.",
            "content": {"text/event-stream": {"schema": {"type": "string"}}},
        },
        **describe_errors(404, 429),
    },
)
async def job_events(job: KnownJob, dispatcher: TheDispatcher) -> StreamingResponse:
    """The progress of a job as server-sent events."""
    if dispatcher.streams >= MAX_STREAMS:
        raise queue_full(15)
    return StreamingResponse(_events(job, dispatcher), media_type="text/event-stream")


@router.get(
    "/jobs/{id}/result",
    tags=["jobs"],
    response_model=schemas.ResultAnswer | schemas.ContinuationAnswer | schemas.ContinuationsAnswer,
    responses=describe_errors(404, 409, 413, 422, 500, 503, 504),
)
async def job_result(job: FinishedJob) -> Response:
    """The result of a job, as returned by `POST /api/explain`."""
    return _json(job.parts["result"])


@router.get(
    "/jobs/{id}/page",
    tags=["jobs"],
    response_class=Response,
    responses={
        **describe_page("The page as one HTML file that opens offline"),
        **describe_errors(404, 409, 413, 422, 429, 500, 503, 504),
    },
)
async def job_page(job: FinishedJob, dispatcher: TheDispatcher) -> Response:
    """The result of a job as a self-contained HTML file, as `sightline explain -o page.html` writes it."""
    if job.kind == "continuation":
        return Response(job.parts["page"], headers=_ATTACHMENT, media_type="text/html")
    question = {"about": "page", "optional": job.facts["optional"], "better": job.facts["better"]}
    parts = {name: part for name, part in job.parts.items() if name != "result"}
    message = await dispatcher.ask(job, question, parts)
    return Response(message.parts["answer"], headers=_ATTACHMENT, media_type="text/html")


@router.get(
    "/jobs/{id}/frame",
    tags=["view"],
    response_class=Response,
    responses={
        **describe_page("The page of a continuation"),
        **describe_errors(404, 409),
    },
)
async def job_frame(job: FinishedJob) -> Response:
    """The page of a continuation for a frame of the server's page; its scripts run without access to the server."""
    if job.kind != "continuation":
        raise Refusal(404, "This job explains a prediction: its page is at /page, and its view data at /payload.")
    policy = f"sandbox allow-scripts; {job.facts['policy']}; frame-ancestors 'self'"
    return Response(job.parts["page"], headers={"Content-Security-Policy": policy}, media_type="text/html")


@router.get("/jobs/{id}/payload", tags=["view"], response_model=dict[str, Any], responses=describe_errors(404, 409))
async def job_payload(job: FinishedExplanation) -> Response:
    """The data of the page for a job: a JSON object that lists the arrays available separately."""
    return _json(job.parts["payload"])


@router.get(
    "/jobs/{id}/arrays/{name}",
    tags=["view"],
    response_class=Response,
    responses={
        **describe_binary(
            "The array, little-endian, in C order", X_Dtype="Type of the numbers", X_Shape="Lengths, as 12,4096"
        ),
        **describe_errors(404, 409),
    },
)
async def job_array(job: FinishedExplanation, name: str) -> Response:
    """One of the arrays listed in the payload."""
    info = job.facts.get("arrays", {}).get(name)
    if info is None:
        raise Refusal(404, f"This job has no array '{name[:60]}'. Its payload lists the available arrays.")
    headers = {"X-Dtype": info["dtype"], "X-Shape": _shape(info["shape"])}
    return Response(job.parts[f"array:{name}"], headers=headers, media_type="application/octet-stream")


@router.get(
    "/jobs/{id}/heads/{layer}/{head}",
    tags=["view"],
    response_class=Response,
    responses={
        **describe_binary("Mean weights (r, c), float16, little-endian", X_Dtype="float16", X_Shape="r,c"),
        **describe_errors(404, 409, 422, 429),
    },
)
async def head_tile(
    job: FinishedExplanation,
    dispatcher: TheDispatcher,
    layer: int,
    head: int,
    rows: Annotated[str | None, Query(pattern=r"^\d{1,9}:\d{1,9}$", description="Tokens that attend, a:b")] = None,
    columns: Annotated[str | None, Query(pattern=r"^\d{1,9}:\d{1,9}$", description="Tokens attended to, c:d")] = None,
    size: Annotated[int, Query(ge=1, le=MAX_TILE, description="Maximum number of pixels per side")] = 256,
) -> Response:
    """A part of one head's attention map, pooled to at most `size` pixels per side: row i attends to column j."""
    question = {
        "about": "head",
        "layer": layer,
        "head": head,
        "rows": _numbers(rows, ":"),
        "columns": _numbers(columns, ":"),
        "size": size,
    }
    message = await dispatcher.ask(job, question)
    headers = {"X-Dtype": "float16", "X-Shape": _shape(message.facts["shape"])}
    return Response(message.parts["answer"], headers=headers, media_type="application/octet-stream")


@router.get(
    "/jobs/{id}/relations",
    tags=["view"],
    response_model=schemas.PartnersAnswer,
    responses=describe_errors(404, 409, 422, 429),
)
async def relations(
    job: FinishedExplanation,
    dispatcher: TheDispatcher,
    token: Annotated[
        list[int], Query(min_length=1, max_length=MAX_TOKENS_PER_UNIT, description="Token position; may be repeated")
    ],
    layers: Annotated[str | None, Query(pattern=r"^\d{1,4}(,\d{1,4})*$", description="0,1,…; all by default")] = None,
    heads: Annotated[str | None, Query(pattern=r"^\d{1,4}(,\d{1,4})*$", description="0,1,…; all by default")] = None,
    k: Annotated[int, Query(ge=1, le=MAX_PARTNERS)] = 8,
) -> Response:
    """The tokens most attended to by a token (or word), and those attending most to it: mean over layers and heads."""
    question = {
        "about": "relations",
        "tokens": token,
        "layers": _numbers(layers, ","),
        "heads": _numbers(heads, ","),
        "k": k,
    }
    return _json((await dispatcher.ask(job, question)).parts["answer"])


@router.post(
    "/jobs/{id}/predict",
    tags=["view"],
    response_model=schemas.EditedAnswer,
    responses=describe_errors(404, 409, 413, 415, 422, 429),
    openapi_extra={
        "requestBody": {
            "required": True,
            "content": {"application/json": {"schema": request_schema(ExplainRequest, EXAMPLES)}},
        }
    },
)
async def predict_edited(job: FinishedExplanation, request: Request, dispatcher: TheDispatcher) -> Response:
    """The prediction of the job's model for an edited text; with `methods`, also the scores of its words.

    Of the body only `text`, `pair`, the first of `methods` and `target` are used.
    """
    edited = parse_request(await read_body(request, dispatcher.settings.max_body, request.app.state.pending))
    check_request(edited, dispatcher.settings, dispatcher.default_methods, dispatcher.method_names)
    question: dict[str, Any] = {
        "about": "predict",
        "text": edited.text,
        "pair": edited.pair,
        "methods": list(edited.methods or ()),
    }
    if edited.target is not None:
        question["target"] = edited.target
    return _json((await dispatcher.ask(job, question)).parts["answer"])


def job_record(job: Job, dispatcher: Dispatcher) -> dict[str, Any]:
    """Return the JSON form of a job."""
    return {
        "id": job.id,
        "status": job.status,
        "kind": job.kind,
        "model": job.model,
        "methods": job.methods,
        "progress": {"stage": job.progress.stage, "done": job.progress.done, "total": job.progress.total},
        "place": dispatcher.place(job),
        "seconds": round(job.seconds, 3),
        "notes": job.facts.get("notes", []),
        "error": job.error,
    }


async def _wait_or_cancel(job: Job, request: Request, dispatcher: Dispatcher) -> None:
    """Wait until a job is over; cancel it if the waiting client disconnects."""

    async def wait_for_disconnect() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            continue

    end, disconnect = asyncio.create_task(job.wait_until_over()), asyncio.create_task(wait_for_disconnect())
    try:
        await asyncio.wait({end, disconnect}, return_when=asyncio.FIRST_COMPLETED)
        if not job.over:
            dispatcher.cancel(job)
            await job.wait_until_over()
    finally:
        end.cancel()
        disconnect.cancel()


async def _events(job: Job, dispatcher: Dispatcher) -> AsyncIterator[str]:
    dispatcher.streams += 1
    try:
        while True:
            name = "end" if job.over else "progress"
            yield f"event: {name}\ndata: {json.dumps(job_record(job, dispatcher))}\n\n"
            if job.over:
                return
            try:
                await asyncio.wait_for(job.wait_for_change(), HEARTBEAT)
            except TimeoutError:
                yield ": keep-alive\n\n"
    finally:
        dispatcher.streams -= 1


def _json(body: bytes, headers: dict[str, str] | None = None) -> Response:
    return Response(body, headers=headers, media_type="application/json")


def _numbers(text: str | None, separator: str) -> list[int] | None:
    return None if text is None else [int(part) for part in text.split(separator)]


def _shape(lengths: Sequence[int]) -> str:
    return ",".join(str(length) for length in lengths)
