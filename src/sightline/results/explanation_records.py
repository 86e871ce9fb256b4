"""The stored form of an explanation and of its parts: target, prediction, document, scores."""

from __future__ import annotations

from itertools import pairwise
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

from sightline.errors import InputError
from sightline.methods.layer_kind import LayerKind
from sightline.models.target import Ends, Prediction, Quantity, Target
from sightline.results.check import Check, Exchange
from sightline.results.records import (
    ABOVE_ONE,
    LARGEST_WHOLE,
    ArrayRecord,
    Derived,
    FileRecord,
    FloatArrayRecord,
    FloatType,
    JsonObject,
    Listed,
    Record,
    Share,
    Whole,
    to_array,
    to_plain,
)
from sightline.results.verdict import read_checks
from sightline.text.encoding import Encoding, Windows
from sightline.text.words import Word


class TargetRecord(Record):
    """The quantity that is explained; `description` states it in words."""

    index: Whole | None
    label: str
    contrast: Whole | None
    contrast_label: str | None
    quantity: Quantity
    position: Whole | None
    span: tuple[Whole, Whole] | None
    ends: Ends
    window: Whole | None
    description: str

    @staticmethod
    def plain(target: Target) -> dict[str, Any]:
        """Return the record of a target as plain values."""
        names = [name for name in TargetRecord.model_fields if name != "description"]
        values = {name: getattr(target, name) for name in names}
        plain: dict[str, Any] = to_plain({**values, "description": target.description()})
        return plain

    def target(self, n: int) -> Target:
        """Return the target in a document of n tokens."""
        first, last = self.span or (0, 0)
        if not 0 <= first <= last < n:
            raise ValueError(f"target.span must be a range within the {n} tokens")
        for name, place in (("position", self.position), ("window", self.window)):
            if place is not None and place >= n:
                raise ValueError(f"target.{name} must be a whole number from 0 to {n - 1}, not {place}")
        return Target(**{name: getattr(self, name) for name in TargetRecord.model_fields if name != "description"})


class PredictionRecord(Record):
    """What the model predicted; the arrays have one entry per class."""

    index: Whole
    label: str
    probability: Share
    labels: list[str] = Field(min_length=1)
    probabilities: FloatArrayRecord
    logits: FloatArrayRecord

    @staticmethod
    def plain(prediction: Prediction) -> dict[str, Any]:
        """Return the record of a prediction as plain values."""
        return {
            "index": prediction.index,
            "label": prediction.label,
            "probability": prediction.probability,
            "labels": list(prediction.labels),
            "probabilities": ArrayRecord.plain(prediction.probabilities),
            "logits": ArrayRecord.plain(prediction.logits),
        }

    def prediction(self) -> Prediction:
        """Return the prediction."""
        shape = (len(self.labels),)
        probabilities = self.probabilities.array("prediction.probabilities", shape)
        if probabilities.min() < 0 or probabilities.max() > 1 + ABOVE_ONE:
            raise ValueError("prediction.probabilities must be from 0 to 1")
        logits = self.logits.array("prediction.logits", shape)
        return Prediction(self.index, self.label, self.probability, tuple(self.labels), logits, probabilities)


class EncodingRecord(Record):
    """Where each of the n tokens is in the text; offsets count Unicode characters."""

    text: str
    pair: str | None
    ids: Listed[Whole]
    type_ids: Listed[Whole]
    offsets: Listed[tuple[Whole, Whole]]
    segments: Listed[Literal[-1, 0, 1]] = Field(description="0 text, 1 pair, -1 special token.")
    special: Listed[bool]
    word_ids: Listed[Annotated[int, Field(ge=-1, le=LARGEST_WHOLE)]]
    words: Listed[tuple[Whole, Whole, Literal[0, 1]]] = Field(description="Start, end and segment of every word.")
    dropped: Whole
    global_tokens: Listed[Whole] | None
    windows: Windows | None
    vocabulary: str | None

    @staticmethod
    def plain(encoding: Encoding) -> dict[str, Any]:
        """Return the record of an encoding as plain values."""
        values = {name: getattr(encoding, name) for name in EncodingRecord.model_fields}
        words = [[word.start, word.end, word.segment] for word in encoding.words]  # the characters are in the text
        plain: dict[str, Any] = to_plain({**values, "words": words})
        return plain

    def encoding(self, tokens: list[str]) -> Encoding:
        """Return the document; every token, word and position must lie inside it."""
        texts = [self.text] if self.pair is None else [self.text, self.pair]
        n = len(tokens)
        for name in ("ids", "type_ids", "offsets", "segments", "special", "word_ids"):
            if len(getattr(self, name)) != n:
                raise ValueError(f"{name} must have {n} entries, not {len(getattr(self, name))}")
        for place, (start, end, segment) in enumerate(self.words):
            if segment >= len(texts) or not start < end <= len(texts[segment]):
                raise ValueError(f"words[{place}] must be a range of characters of the text")
        if self.global_tokens is not None and max(self.global_tokens, default=0) >= n:
            raise ValueError(f"global_tokens must be whole numbers from 0 to {n - 1}")
        self._check_places(tokens, texts)
        words = tuple(Word(texts[segment][start:end], start, end, segment) for start, end, segment in self.words)
        plain = {name: getattr(self, name) for name in EncodingRecord.model_fields}
        try:
            return Encoding(**{**plain, "tokens": tuple(tokens), "words": words})
        except InputError as error:
            raise ValueError(str(error)) from None

    def _check_places(self, tokens: list[str], texts: list[str]) -> None:
        """Raise ValueError unless every token is where the record says, and specials have no place in the text."""
        words = [(segment, start, end) for start, end, segment in self.words]
        if any(after < (before[0], before[2]) for before, after in pairwise(words)):
            raise ValueError("words must be in the order of the text and must not overlap")
        rows = zip(tokens, self.special, self.segments, self.offsets, self.word_ids, strict=True)
        for position, (token, special, segment, (start, end), word) in enumerate(rows):
            if special != (segment == -1) or segment >= len(texts):
                raise ValueError("segments must be -1 for special tokens, 0 for the text and 1 for its pair")
            if word >= len(words):
                raise ValueError(f"token {position} belongs to word {word} of {len(words)}")
            if special:
                if (start, end, word) != (0, 0, -1):
                    raise ValueError(f"token {position} is special and must have no place in the text")
            elif not start <= end <= len(texts[segment]) or texts[segment][start:end] != token:
                raise ValueError(f"token {position} is not at characters {start}-{end} of the text")
            elif word >= 0 and words[word][0] != segment:
                raise ValueError(f"token {position} belongs to a word of the other text")


class ScoresRecord(FileRecord):
    """The scores of one method for one target, and how far to trust them."""

    FORMAT = "sightline-explanation"
    CONTENT = "an explanation"

    method: str
    signed: bool = Field(
        description="Whether the sign means for (+) or against (−) the target; otherwise scores are magnitudes."
    )
    target: TargetRecord
    prediction: PredictionRecord
    verdict: Derived = None
    checks: Annotated[JsonObject, AfterValidator(read_checks)]
    check: Check | None = None
    exchange: Exchange | None = None
    options: JsonObject
    provenance: JsonObject
    scores: Listed[float]
    scores_dtype: FloatType
    layers: FloatArrayRecord | None
    layer_kind: LayerKind | None
    extras: dict[str, ArrayRecord] = Field(max_length=1_000)
    words: Derived = None
    sentences: Derived = None
    paragraphs: Derived = None
    artefacts: Derived = None
    headline: Derived = None
    notices: Derived = None
    strongest: Derived = None

    def arguments(self, encoding: Encoding) -> dict[str, Any]:
        """Return the arguments of the `Explanation` of a document; raise ValueError if they do not fit it."""
        n = len(encoding)
        if self.check is not None:
            self.check.require_words(encoding)
        if self.exchange is not None:
            self.exchange.require_tokens(n)
        return {
            "method": self.method,
            "signed": self.signed,
            "target": self.target.target(n),
            "prediction": self.prediction.prediction(),
            "checks": self.checks,
            "options": self.options,
            "provenance": self.provenance,
            "scores": to_array(self.scores, self.scores_dtype, "scores", n),
            "layers": None if self.layers is None else self.layers.array("layers", (None, n)),
            "layer_kind": self.layer_kind,
            "extras": {name: array.array(f"extras.{name}") for name, array in self.extras.items()},
            "encoding": encoding,
            "check": self.check,
            "exchange": self.exchange,
        }


class DocumentRecord(Record):
    """A document: its tokens as a person sees them, and where they are in the text."""

    tokens: Listed[str]
    encoding: EncodingRecord

    @staticmethod
    def plain(encoding: Encoding) -> dict[str, Any]:
        """Return the record of a document as plain values."""
        return {"tokens": list(encoding.tokens), "encoding": EncodingRecord.plain(encoding)}

    def document(self) -> Encoding:
        """Return the document."""
        return self.encoding.encoding(self.tokens)


class ExplanationRecord(DocumentRecord, ScoresRecord):
    """Everything in an explanation, as `Explanation.save` and `to_dict` write it."""
