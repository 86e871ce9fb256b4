"""What the API takes and gives, as types: they check requests and document every answer in the OpenAPI description."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictInt, StrictStr

MOST_METHODS = 32

Class = StrictInt | StrictStr


class ExplainRequest(BaseModel):
    """What to explain. Only `text` is needed."""

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
    pair: StrictStr | None = Field(None, description="The second text, for models that read pairs.")
    model: StrictStr | None = Field(None, description="A name from /api/models; the first one by default.")
    methods: Annotated[list[StrictStr], Field(min_length=1, max_length=MOST_METHODS)] = Field(
        default=["attcat"], description="Names from /api/methods; they share one pass of the model."
    )
    target: Class | Annotated[list[Class], Field(min_length=2, max_length=2)] | None = Field(
        None, description="A label or class number, or two of them for a contrast; the predicted class by default."
    )
    quantity: Literal["logit", "probability", "log_probability", "margin"] | None = Field(
        None, description="Which number is explained; the logit by default, the probability where words are removed."
    )
    position: StrictInt | None = Field(None, description="Token to explain, for models that score single tokens.")
    options: dict[str, dict[str, Any]] = Field(
        default={}, description="Options by method, for example {'rollout': {'fusion': 'max'}}."
    )
    seed: StrictInt | None = Field(None, description="Seed for methods that draw random numbers.")
    global_tokens: list[StrictInt] | None = Field(
        None, description="Token positions with global attention (Longformer)."
    )
    check: StrictBool = Field(
        False,
        description="Compare each explanation with 20 random orderings of the words; runs the model many times.",
    )
    relations: StrictBool = Field(False, description="Also gather what attends to what, for the view.")
    wait: StrictBool = Field(
        True,
        description="Answer with the result; else answer 202 with a job to ask about. A client that goes away "
        "while it waits cancels its job.",
    )


class ErrorAnswer(BaseModel):
    """Why not, in one sentence."""

    error: str = Field(examples=["There is no method called 'rollot'. Did you mean 'rollout'?"])


class ClassProbability(BaseModel):
    """What the model says about one class."""

    label: str
    probability: float
    logit: float


class PredictionAnswer(BaseModel):
    """What the model predicted; `classes` in the model's order."""

    index: int
    label: str
    probability: float
    classes: list[ClassProbability]


class WordAnswer(BaseModel):
    """One word: its characters [start, end) of the text (segment 0) or the pair (1), and its token positions."""

    text: str
    start: int
    end: int
    segment: int
    tokens: list[int]


class TargetAnswer(BaseModel):
    """The number that is explained; `description` says it in words."""

    description: str
    index: int | None
    label: str
    contrast: int | None
    contrast_label: str | None
    quantity: str
    position: int | None
    span: list[int] | None


class RemovalAnswer(BaseModel):
    """Probabilities of the explained class while the share `ratios` of the words is deleted, highest-ranked first.

    `random` holds the same for random orderings of the words, a list for each.
    """

    ratios: list[float]
    probabilities: list[float]
    random: list[list[float]]


class VerdictAnswer(BaseModel):
    """How far to trust an explanation, judged by what deleting its strongest words does to the model."""

    level: Literal["holds", "weak", "poor", "unchecked"]
    words: str = Field(description="The level as a page shows it.")
    sentences: list[str]
    warning: str | None = None


class ExplanationAnswer(BaseModel):
    """Scores by one method: one for every token and one for every word, and how far to trust them."""

    target: TargetAnswer
    signed: bool = Field(description="Whether signs mean for (+) and against (−); else only how much.")
    scores: list[float]
    word_scores: list[float]
    checks: dict[str, Any]
    verdict: VerdictAnswer
    sentences: list[str] = Field(description="What else is known about it: notices first, then further checks.")
    removal: RemovalAnswer | None = Field(description='What `"check": true` measured.')
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
    dropped_tokens: int = Field(description="Tokens cut off because the model cannot read more.")
    words: list[WordAnswer]
    explanations: dict[str, ExplanationAnswer]
    notes: list[str] = Field(description="What the methods warned about.")
    provenance: dict[str, Any]
    seconds: float


class ProgressAnswer(BaseModel):
    """How far a job is; total 0 means not known."""

    stage: str
    done: int
    total: int


class JobAnswer(BaseModel):
    """A job; `place` counts the jobs before it."""

    id: str = Field(examples=["mF0T8V2Jm5pSgm9TqEJ3hQ"])
    status: Literal["queued", "running", "done", "failed", "cancelled"]
    model: str
    methods: list[str]
    progress: ProgressAnswer
    place: int
    seconds: float
    error: str | None


class ModelAnswer(BaseModel):
    """A model that can be asked; `labels` is empty where they are a whole vocabulary."""

    name: str
    type: str
    task: str
    labels: list[str]
    max_tokens: int
    layers: int
    heads: int
    untrained: bool


class OptionAnswer(BaseModel):
    """An option of a method: its default, its values in words, and as a list where they can be listed."""

    default: Any
    values: str
    choices: list[Any] | None


class MethodAnswer(BaseModel):
    """A method and what can be said about it."""

    name: str
    summary: str
    formula: str
    signed: bool
    class_specific: bool
    cost: str
    use: str
    avoid: str
    citation: str
    options: dict[str, OptionAnswer]


class MetricAnswer(BaseModel):
    """A metric; `needs` says what it compares, `options` what it is computed with."""

    name: str
    summary: str
    kind: str
    higher_is_better: bool | None
    needs: list[str]
    options: dict[str, Any]
    citation: str


class LimitsAnswer(BaseModel):
    """What the server accepts."""

    max_characters: int
    max_tokens: int
    queue: int
    timeout: float
    kept_jobs: int


class HealthAnswer(BaseModel):
    """How the server is; `starting` while the process that computes is started again."""

    status: Literal["ok", "starting"]
    version: str
    running: int
    waiting: int
    limits: LimitsAnswer


class PartnersAnswer(BaseModel):
    """[position, weight] of the tokens attended to, and of those attending, strongest first."""

    attended: list[tuple[int, float]]
    attending: list[tuple[int, float]]
