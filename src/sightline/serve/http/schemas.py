"""Request and response types of the API, which validate requests, and what several routes share of its description."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictInt, StrictStr

MAX_METHODS = 32
MAX_NEW_TOKENS = 256

Class = StrictInt | StrictStr


class ExplainRequest(BaseModel):
    """A request for explanations. Only `text` is required."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [
                {"text": "The compiler infers the types of all expressions."},
                {
                    "text": "A neural network learns from data.",
                    "methods": ["attcat", "rollout"],
                    "target": "artificial intelligence",
                    "options": {"rollout": {"fusion": "max"}},
                    "wait": False,
                },
            ]
        },
    )

    text: StrictStr = Field(description="The text.")
    pair: StrictStr | None = Field(None, description="The second text, for models that take text pairs.")
    model: StrictStr | None = Field(None, description="A name from /api/models; by default, the first.")
    methods: Annotated[list[StrictStr], Field(min_length=1, max_length=MAX_METHODS)] | None = Field(
        None,
        description="Names from /api/methods; the methods share one pass of the model. By default, the "
        "`default_methods` of the model in /api/models.",
    )
    target: Class | Annotated[list[Class], Field(min_length=2, max_length=2)] | None = Field(
        None, description="A label or class number, or a list of two for a contrast; by default, the predicted class."
    )
    quantity: Literal["log_odds", "logit", "probability", "log_probability", "margin"] | None = Field(
        None,
        description="What is explained of the class; by default the log-odds.",
    )
    position: StrictInt | None = Field(None, description="Position of the token to explain, for token-level models.")
    continuation: StrictStr | None = Field(
        None,
        description="For decoders: explain every word of this text, which follows `text`. Leave out target, position, "
        "pair and check.",
    )
    max_new_tokens: Annotated[StrictInt, Field(ge=1, le=MAX_NEW_TOKENS)] | None = Field(
        None, description="For decoders: let the model continue `text` by at most this many tokens, and explain them."
    )
    options: dict[str, dict[str, Any]] = Field(
        default={}, description="Options by method, for example {'rollout': {'fusion': 'max'}}."
    )
    seed: StrictInt | None = Field(None, description="Seed for methods that draw random numbers.")
    global_tokens: list[StrictInt] | None = Field(
        None, description="Token positions with global attention (Longformer)."
    )
    check: StrictBool = Field(
        False,
        description="Compare each explanation with random orderings of the words; runs the model many times.",
    )
    relations: StrictBool = Field(False, description="Also collect attention relations and maps for the page.")
    wait: StrictBool = Field(
        True,
        description="Wait for the result; if false, answer at once with 202 and a job. A client that disconnects while "
        "waiting cancels its job.",
    )


class ErrorAnswer(BaseModel):
    """An error as one sentence."""

    error: str = Field(examples=["There is no method called 'rollot'. Did you mean 'rollout'?"])


class ClassProbability(BaseModel):
    """Probability and logit of one class."""

    label: str
    probability: float
    logit: float


class PredictionAnswer(BaseModel):
    """The prediction of the model; `classes` are in the model's order."""

    index: int
    label: str
    probability: float
    classes: list[ClassProbability]


class WordAnswer(BaseModel):
    """A word: its characters [start, end) in the text (segment 0) or the pair (1), and its token positions."""

    text: str
    start: int
    end: int
    segment: int
    tokens: list[int]


class TargetAnswer(BaseModel):
    """The quantity that is explained; `description` states it in words."""

    description: str
    index: int | None
    label: str
    contrast: int | None
    contrast_label: str | None
    quantity: str
    position: int | None
    span: list[int] | None


class RemovalAnswer(BaseModel):
    """Probability of the explained class after deleting a share `ratios` of the words, highest-ranked first.

    `random` holds the same probabilities for random orderings of the words, one list per ordering.
    """

    ratios: list[float]
    probabilities: list[float]
    random: list[list[float]]


class VerdictAnswer(BaseModel):
    """How far to trust an explanation, judged by the effect of deleting its highest-ranked words."""

    level: Literal["holds", "weak", "poor", "unchecked"]
    words: str = Field(description="The level as shown on the page.")
    meaning: str = Field(description="What the level means for a reader; empty if the sentences say so.")
    sentences: list[str] = Field(description="What was measured.")
    warning: str | None = None
    reasons: list[str] = Field(description="The same as codes; the first one decided the level.")
    numbers: dict[str, float] = Field(description="The numbers behind it, by their names in `checks`.")
    detail: str | None = Field(default=None, description="Why no comparison was possible.")


class ExplanationAnswer(BaseModel):
    """The scores of one method per token and per word, and how far to trust them."""

    target: TargetAnswer
    signed: bool = Field(
        description="Whether the sign means for (+) or against (−) the target; otherwise scores are magnitudes."
    )
    scores: list[float]
    word_scores: list[float]
    checks: dict[str, Any]
    verdict: VerdictAnswer
    sentences: list[str] = Field(description="Further statements: notices first, then checks.")
    removal: RemovalAnswer | None = Field(description='The measurements of `"check": true`.')
    options: dict[str, Any]


class ResultAnswer(BaseModel):
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


class ContinuationAnswer(BaseModel):
    """The result for a continuation: what `sightline explain --continuation TEXT --format json` prints.

    With several methods it is `{"format": "sightline-continuations", "continuations": […]}`, one such object per
    method. `matrix` has one row per generated token and one column per token of prompt and continuation.
    """

    model_config = ConfigDict(extra="allow")

    format: Literal["sightline-continuation", "sightline-continuations"]
    method: str | None = None
    origin: Literal["given", "generated"] | None = None
    text: str | None = None
    generated: list[str] | None = None
    tokens: list[str] | None = None
    probabilities: list[float] | None = None
    matrix: list[list[float]] | None = None


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
