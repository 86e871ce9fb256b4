"""The API. Each handler checks, asks the dispatcher, and hands on bytes; none computes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Path, Query, Request
from fastapi.responses import JSONResponse, Response, StreamingResponse

from sightline import __version__
from sightline.serve.http import schemas
from sightline.serve.http.refusal import Refused
from sightline.serve.http.requests import checked, parsed, read_body
from sightline.serve.worker.dispatcher import Dispatcher
from sightline.serve.worker.jobs import Job

HEARTBEAT = 15.0
"""Seconds after which a silent stream of events says that it is still there."""
LARGEST_TILE = 1_024
MOST_PARTNERS = 200
MOST_TOKENS_A_UNIT = 1_000


def _dispatcher(request: Request) -> Dispatcher:
    found: Dispatcher = request.app.state.dispatcher
    return found


Desk = Annotated[Dispatcher, Depends(_dispatcher)]


def _job(id: Annotated[str, Path(description="The id of a job.")], desk: Desk) -> Job:
    job = desk.book.find(id)
    if job is None:
        raise Refused(
            404,
            f"There is no job '{id[:60]}'. The server keeps the latest {desk.settings.kept_jobs} results, and none "
            "when it is restarted: send the text again.",
        )
    return job


KnownJob = Annotated[Job, Depends(_job)]


def _finished(job: KnownJob) -> Job:
    if not job.over:
        raise Refused(409, f"The job is {job.status} and has no result yet. Ask again when its status is done.")
    if job.error is not None:
        raise Refused(job.error_status, job.error)
    return job


FinishedJob = Annotated[Job, Depends(_finished)]


def _errors(*statuses: int) -> dict[int | str, dict[str, Any]]:
    meanings = {
        404: "Unknown model or job",
        409: "No result (yet), or cancelled",
        413: "Too large",
        415: "Not JSON",
        422: "Something in the request is wrong",
        429: "The queue is full; Retry-After says when to try again",
        500: "Something failed inside",
        503: "The process that computes cannot be started",
        504: "It took too long",
    }
    return {status: {"model": schemas.ErrorAnswer, "description": meanings[status]} for status in statuses}


def _binary(description: str, **headers: str) -> dict[int | str, dict[str, Any]]:
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


router = APIRouter(prefix="/api")


@router.get("/health", tags=["server"])
async def health(desk: Desk) -> schemas.HealthAnswer:
    """How the server is and what it accepts."""
    limits = desk.settings
    return schemas.HealthAnswer(
        status="ok" if desk.ready else "starting",
        version=__version__,
        running=int(desk.current is not None),
        waiting=desk.waiting,
        limits=schemas.LimitsAnswer(
            max_characters=limits.max_characters,
            max_tokens=limits.max_tokens,
            queue=limits.queue,
            timeout=limits.timeout,
            kept_jobs=limits.kept_jobs,
        ),
    )


@router.get("/models", tags=["server"], response_model=list[schemas.ModelAnswer])
async def models(desk: Desk) -> Response:
    """The models that can be asked, the default first."""
    return _json(desk.catalogue["models"])


@router.get("/methods", tags=["server"], response_model=list[schemas.MethodAnswer])
async def methods(desk: Desk) -> Response:
    """The methods, with formula, cost, options, citation and when to use them."""
    return _json(desk.catalogue["methods"])


@router.get("/metrics", tags=["server"], response_model=list[schemas.MetricAnswer])
async def metrics(desk: Desk) -> Response:
    """The metrics known to the library; they are computed by `sightline evaluate`, not here."""
    return _json(desk.catalogue["metrics"])


@router.post(
    "/explain",
    tags=["explain"],
    response_model=schemas.ResultAnswer,
    responses={
        202: {"model": schemas.JobAnswer, "description": 'The job, with `"wait": false`'},
        **_errors(404, 413, 415, 422, 429, 500, 503, 504),
    },
    openapi_extra={
        "requestBody": {
            "required": True,
            "content": {"application/json": {"schema": schemas.ExplainRequest.model_json_schema()}},
        }
    },
)
async def explain(request: Request, desk: Desk) -> Response:
    """Explain what a model says about a text.

    Waits and answers with the result, or with `"wait": false` answers 202 with a job at once.
    """
    asked = parsed(await read_body(request, desk.settings.max_body))
    body = checked(asked, desk.settings, desk.model_names, desk.method_names)
    job = Job(body, asked.model or desk.model_names[0], asked.methods)
    desk.submit(job)
    headers = {"Location": f"/api/jobs/{job.id}"}
    if not asked.wait:
        return JSONResponse(job_record(job, desk), 202, headers)
    await _end_or_disconnect(job, request, desk)
    return _json(_finished(job).parts["result"], headers)


@router.get("/jobs/{id}", tags=["jobs"], response_model=schemas.JobAnswer, responses=_errors(404))
async def job_status(job: KnownJob, desk: Desk) -> Response:
    """How far a job is."""
    return JSONResponse(job_record(job, desk))


@router.delete("/jobs/{id}", tags=["jobs"], response_model=schemas.JobAnswer, responses=_errors(404))
async def cancel_job(job: KnownJob, desk: Desk) -> Response:
    """Cancel a job and wait until it has stopped; one that is over stays as it is."""
    desk.cancel(job)
    await job.end()
    return JSONResponse(job_record(job, desk))


@router.get(
    "/jobs/{id}/events",
    tags=["jobs"],
    response_class=StreamingResponse,
    responses={
        200: {
            "description": "Server-sent events: `progress` whenever something changed, `end` when the job is over; "
            "the data of each is the job.",
            "content": {"text/event-stream": {"schema": {"type": "string"}}},
        },
        **_errors(404),
    },
)
async def job_events(job: KnownJob, desk: Desk) -> StreamingResponse:
    """Follow a job as it goes on."""
    return StreamingResponse(_events(job, desk), media_type="text/event-stream")


@router.get(
    "/jobs/{id}/result",
    tags=["jobs"],
    response_model=schemas.ResultAnswer,
    responses=_errors(404, 409, 413, 422, 500, 503, 504),
)
async def job_result(job: FinishedJob) -> Response:
    """The result of a job, as `POST /api/explain` answers it."""
    return _json(job.parts["result"])


@router.get("/jobs/{id}/payload", tags=["view"], response_model=dict[str, Any], responses=_errors(404, 409))
async def job_payload(job: FinishedJob) -> Response:
    """What the page shows of a job: a JSON object that names the arrays beside it."""
    return _json(job.parts["payload"])


@router.get(
    "/jobs/{id}/arrays/{name}",
    tags=["view"],
    response_class=Response,
    responses={
        **_binary("The array, little-endian, in C order", X_Dtype="Type of the numbers", X_Shape="Lengths, as 12,4096"),
        **_errors(404, 409),
    },
)
async def job_array(job: FinishedJob, name: str) -> Response:
    """One of the arrays that the payload lists."""
    info = job.facts.get("arrays", {}).get(name)
    if info is None:
        raise Refused(404, f"This job has no array '{name[:60]}'. Its payload lists those it has.")
    headers = {"X-Dtype": info["dtype"], "X-Shape": _shape(info["shape"])}
    return Response(job.parts[f"array:{name}"], headers=headers, media_type="application/octet-stream")


@router.get(
    "/jobs/{id}/heads/{layer}/{head}",
    tags=["view"],
    response_class=Response,
    responses={
        **_binary("Mean weights (r, c), float16, little-endian", X_Dtype="float16", X_Shape="r,c"),
        **_errors(404, 409, 422, 429),
    },
)
async def head_tile(
    job: FinishedJob,
    desk: Desk,
    layer: int,
    head: int,
    rows: Annotated[str | None, Query(pattern=r"^\d{1,9}:\d{1,9}$", description="Tokens that attend, a:b")] = None,
    columns: Annotated[str | None, Query(pattern=r"^\d{1,9}:\d{1,9}$", description="Tokens attended to, c:d")] = None,
    size: Annotated[int, Query(ge=1, le=LARGEST_TILE, description="Most pixels a side")] = 256,
) -> Response:
    """Part of the attention map of one head, made smaller to fit `size`: row i attends, column j is attended to."""
    question = {
        "about": "head",
        "layer": layer,
        "head": head,
        "rows": _numbers(rows, ":"),
        "columns": _numbers(columns, ":"),
        "size": size,
    }
    frame = await desk.ask(job, question)
    headers = {"X-Dtype": "float16", "X-Shape": _shape(frame.facts["shape"])}
    return Response(frame.parts["answer"], headers=headers, media_type="application/octet-stream")


@router.get(
    "/jobs/{id}/relations",
    tags=["view"],
    response_model=schemas.PartnersAnswer,
    responses=_errors(404, 409, 422, 429),
)
async def relations(
    job: FinishedJob,
    desk: Desk,
    token: Annotated[list[int], Query(min_length=1, max_length=MOST_TOKENS_A_UNIT, description="Position; repeat it")],
    layers: Annotated[str | None, Query(pattern=r"^\d{1,4}(,\d{1,4})*$", description="0,1,…; all by default")] = None,
    heads: Annotated[str | None, Query(pattern=r"^\d{1,4}(,\d{1,4})*$", description="0,1,…; all by default")] = None,
    k: Annotated[int, Query(ge=1, le=MOST_PARTNERS)] = 8,
) -> Response:
    """What a token (or a word of several) attends to most and what attends to it most: mean of layers and heads."""
    question = {
        "about": "relations",
        "tokens": token,
        "layers": _numbers(layers, ","),
        "heads": _numbers(heads, ","),
        "k": k,
    }
    return _json((await desk.ask(job, question)).parts["answer"])


def job_record(job: Job, desk: Dispatcher) -> dict[str, Any]:
    """Return a job as the API shows it."""
    return {
        "id": job.id,
        "status": job.status,
        "model": job.model,
        "methods": job.methods,
        "progress": {"stage": job.progress.stage, "done": job.progress.done, "total": job.progress.total},
        "place": desk.place(job),
        "seconds": round(job.seconds, 3),
        "error": job.error,
    }


async def _end_or_disconnect(job: Job, request: Request, desk: Dispatcher) -> None:
    """Wait until a job is over; cancel it when the client that waits for it is gone."""

    async def gone() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            continue

    end, disconnect = asyncio.create_task(job.end()), asyncio.create_task(gone())
    try:
        await asyncio.wait({end, disconnect}, return_when=asyncio.FIRST_COMPLETED)
        if not job.over:
            desk.cancel(job)
            await job.end()
    finally:
        end.cancel()
        disconnect.cancel()


async def _events(job: Job, desk: Dispatcher) -> AsyncIterator[str]:
    while True:
        name = "end" if job.over else "progress"
        yield f"event: {name}\ndata: {json.dumps(job_record(job, desk))}\n\n"
        if job.over:
            return
        try:
            await asyncio.wait_for(job.change(), HEARTBEAT)
        except TimeoutError:
            yield ": still here\n\n"


def _json(body: bytes, headers: dict[str, str] | None = None) -> Response:
    return Response(body, headers=headers, media_type="application/json")


def _numbers(text: str | None, separator: str) -> list[int] | None:
    return None if text is None else [int(part) for part in text.split(separator)]


def _shape(lengths: Sequence[int]) -> str:
    return ",".join(str(length) for length in lengths)
