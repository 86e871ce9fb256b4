"""The model and the settings of a run: plain values that are sent to workers and recorded in the manifest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

from sightline.errors import OptionError
from sightline.models import TargetLike
from sightline.settings.explain import DEFAULT_METHODS
from sightline.settings.values import refuse_unused

if TYPE_CHECKING:
    from sightline.api.model import Model

Measure = Literal["received", "counts", "heads", "similarity"]
MEASURES: tuple[Measure, ...] = get_args(Measure)
PREDICTED = "predicted"


@dataclass(frozen=True)
class ModelSource:
    """How workers load the model; the fields are arguments of `sightline.load`."""

    source: str | None = None
    task: str | None = None
    tokenizer: str | None = None
    device: str | None = None
    dtype: str | None = None
    allow_pickle: bool = False
    allow_random: bool = False

    def __post_init__(self) -> None:
        # Workers may run in another folder.
        for name in ("source", "tokenizer"):
            value = getattr(self, name)
            if value is not None and Path(value).expanduser().exists():
                object.__setattr__(self, name, str(Path(value).expanduser().resolve()))

    def load(self) -> Model:
        """Load the model."""
        from sightline.api.load import load

        return load(**asdict(self))


@dataclass(frozen=True)
class RunSettings:
    """What is computed for every document. Changing any of these makes it a different run."""

    methods: tuple[str, ...] = DEFAULT_METHODS
    options: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Options by method."""
    target: str | int | tuple[int | str, int | str] = PREDICTED
    """A class or contrast to explain in all documents, "predicted", or "all" for every class."""
    truncate: bool = False
    """Truncate documents to what the model reads at once, instead of reading them in windows."""
    measures: tuple[Measure, ...] = MEASURES
    """What is measured of attention: received attention, counts of the top-k partners, importance of heads, and
    similarity of attention and attribution; not in documents that are read in windows."""
    check: bool = False
    """Compare every explanation with random orders of the words, for its verdict."""
    check_readings: int | None = None
    top_k: int = 10
    stop_words: str | None = "en"
    """Language whose stop words are left out of the masked similarity; None for none."""
    permutations: int = 20
    """Shuffles for the chance level of a similarity."""
    seed: int = 0
    unit_characters: int = 60_000
    """Characters after which a work unit is full: some seconds of computation."""
    unit_documents: int = 128
    """Documents after which a work unit is full."""

    def __post_init__(self) -> None:
        if not self.methods:
            raise OptionError(
                "methods= takes a list with at least one name, for example methods=['attcat', 'rollout']."
            )
        if not self.check:
            refuse_unused({"check_readings": self.check_readings}, "belongs to the check: add check=True.")
        if unknown := [name for name in self.measures if name not in MEASURES]:
            raise OptionError(f"There is no measure '{unknown[0]}'. Known: {', '.join(MEASURES)}.")
        object.__setattr__(self, "methods", tuple(dict.fromkeys(self.methods)))
        object.__setattr__(self, "measures", tuple(name for name in MEASURES if name in self.measures))

    @property
    def explained(self) -> TargetLike:
        """The target as `Model.explain` takes it."""
        return None if self.target == PREDICTED else self.target

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        record = asdict(self)
        lists = {name: list(value) for name, value in record.items() if isinstance(value, tuple)}
        return {**record, **lists, "options": {name: dict(chosen) for name, chosen in self.options.items()}}
