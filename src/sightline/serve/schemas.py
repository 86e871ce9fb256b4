"""Response types of the API, and what several routes share of its description."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, Field

from sightline.results.check import ArtefactReason, Check, Matters, SmallestSet, TestedWord
from sightline.results.continuation import ContinuationRecord
from sightline.results.explanation_storage import TargetRecord
from sightline.results.records import Record


class ErrorAnswer(BaseModel):
    """An error as one sentence."""

    error: str = Field(examples=["There is no method called 'rollot'. Did you mean 'rollout'?"])


class ClassProbability(Record):
    """Probability and logit of one class."""

    label: str
    probability: float
    logit: float


class PredictionAnswer(Record):
    """The prediction of the model; `classes` are in the model's order."""

    index: int
    label: str
    probability: float
    classes: list[ClassProbability]


class ScoredWord(Record):
    """A word of an edited text, and its score."""

    text: str
    score: float


class EditedAnswer(PredictionAnswer):
    """The prediction for an edited text."""

    words: list[ScoredWord] | None = Field(
        default=None, description="The words with their scores, if the request names a method."
    )


class WordAnswer(Record):
    """A word: its characters [start, end) in the text (segment 0) or the pair (1), and its token positions."""

    text: str
    start: int
    end: int
    segment: int
    tokens: list[int]


class VerdictAnswer(Record):
    """How far to trust an explanation, judged by the effect of deleting its strongest words."""

    level: Literal["holds", "weak", "poor", "unchecked"]
    words: str = Field(description="The level as shown on the page.")
    meaning: str = Field(description="What the level means for a reader; empty if the sentences say so.")
    sentences: list[str] = Field(description="What was measured.")
    warning: str | None = None
    reasons: list[str] = Field(description="The same as codes; the first one decided the level.")
    matters: Matters | None = Field(
        description="Whether the strongest words matter more than random words; null if that was not tested."
    )
    p_value: float | None
    alpha: float = Field(description="The level of the test.")
    named: tuple[TestedWord, ...] = Field(
        description="The words that were tested together and that a summary may name."
    )
    smallest_set: SmallestSet | None = Field(description="The fewest strongest words without which the label changes.")
    calls: int = Field(description="Documents that the model read for the check.")
    numbers: dict[str, float] = Field(description="The measurements in short.")
    detail: str | None = Field(default=None, description="Why no comparison was possible.")


class ArtefactAnswer(Record):
    """Tokens whose score says nothing about a word; `reason` says why, as a code, and `meaning` in words."""

    text: str
    tokens: list[int]
    score: float
    reason: ArtefactReason
    meaning: str
    stays: float | None = Field(default=None, description="Share of the score that stays if the word is exchanged.")
    moves: float | None = Field(default=None, description="Share of the score that moves with the word.")


class ExplanationAnswer(Record):
    """The scores of one method per token and per word, and how far to trust them."""

    headline: str
    target: TargetRecord
    signed: bool = Field(
        description="Whether the sign means for (+) or against (−) the target; otherwise scores are magnitudes."
    )
    scores: list[float]
    word_scores: list[float]
    checks: dict[str, Any]
    verdict: VerdictAnswer
    sentences: list[str] = Field(description="Further statements: notices first, then checks.")
    check: Check | None = Field(description='The measurements of `"check": true`.')
    artefacts: list[ArtefactAnswer] = Field(description="Scores that say nothing about a word.")
    options: dict[str, Any]


class ResultAnswer(Record):
    """The result of a job. `offsets`, `start` and `end` count Unicode characters."""

    id: str
    model: str
    prediction: PredictionAnswer
    tokens: list[str]
    offsets: list[list[int]]
    segments: list[int] = Field(description="0 text, 1 pair, -1 special token.")
    special: list[bool]
    dropped_tokens: int = Field(description="Number of tokens beyond the model's maximum length.")
    words: list[WordAnswer]
    explanations: dict[str, ExplanationAnswer]
    consensus: dict[str, Any] | None = Field(
        default=None, description="Words that all methods rank highest, with the number expected by chance."
    )
    notes: list[str] = Field(description="Warnings of the methods.")
    provenance: dict[str, Any]
    seconds: float


class ContinuationAnswer(ContinuationRecord):
    """The result for a continuation: what `sightline explain --continuation TEXT --format json` prints.

    `matrix` has one row per generated token and one column per token of prompt and continuation.
    """

    generated: list[str]
    text: str
    matrix: list[list[float]]


class ContinuationsAnswer(Record):
    """The continuations by several methods."""

    format: Literal["sightline-continuations"]
    continuations: list[ContinuationAnswer]


class ProgressAnswer(BaseModel):
    """Progress of a job; `total` is 0 if unknown."""

    stage: str
    done: int
    total: int


class JobAnswer(BaseModel):
    """A job; `place` is the number of jobs ahead of it."""

    id: str = Field(examples=["mF0T8V2Jm5pSgm9TqEJ3hQ"])
    status: Literal["queued", "running", "done", "failed", "cancelled"]
    kind: Literal["explanation", "continuation"] = Field(
        description="What it explains: a prediction, or a continuation."
    )
    model: str
    methods: list[str]
    progress: ProgressAnswer
    place: int
    seconds: float
    notes: list[str] = Field(description="Warnings of the methods; the result of an explanation lists them as well.")
    error: str | None


class ModelAnswer(BaseModel):
    """An available model; `labels` is empty if they are a whole vocabulary."""

    name: str
    type: str
    task: str
    labels: list[str]
    max_tokens: int
    layers: int
    heads: int
    untrained: bool
    default_methods: list[str]


class OptionAnswer(BaseModel):
    """An option of a method: its default, its values in words and, where they can be listed, as a list."""

    default: Any
    values: str
    choices: list[Any] | None


class MethodAnswer(BaseModel):
    """A method with its description."""

    name: str
    title: str = Field(description="The name for people.")
    kind: str = Field(description="The family of the method, such as gradients.")
    summary: str
    plain_summary: str = Field(description="The summary for readers who do not know the method.")
    formula: str
    signed: bool
    class_specific: bool
    cost: str
    use: str
    avoid: str
    citation: str
    options: dict[str, OptionAnswer]


class MetricAnswer(BaseModel):
    """A metric; `needs` lists its inputs, `options` its parameters."""

    name: str
    summary: str
    kind: str
    higher_is_better: bool | None
    needs: list[str]
    options: dict[str, Any]
    citation: str


class LimitsAnswer(BaseModel):
    """The limits of the server."""

    max_characters: int
    max_tokens: int
    queue: int
    timeout: float
    kept_jobs: int
    token: bool = Field(description="Whether requests need the token of the server.")


class SessionAnswer(BaseModel):
    """The token was right; the response sets a cookie."""

    status: Literal["ok"]


class DocumentAnswer(BaseModel):
    """The text of a document; `notices` say what of the file is not in it."""

    text: str
    format: Literal["text", "html", "docx", "odt", "pdf"]
    notices: list[str]


class HealthAnswer(BaseModel):
    """The state of the server; `starting` while the worker process is being restarted."""

    status: Literal["ok", "starting"]
    version: str
    running: int
    waiting: int
    default_methods: list[str] = Field(description="The default methods of the first model.")
    corpus: bool = Field(description="Whether the server shows the results of a run, at /corpus.")
    limits: LimitsAnswer


class PartnersAnswer(BaseModel):
    """[position, weight] of the tokens attended to, and of the tokens attending, strongest first."""

    attended: list[tuple[int, float]]
    attending: list[tuple[int, float]]


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
