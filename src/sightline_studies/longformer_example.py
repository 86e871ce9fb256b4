"""One document of the Longformer study in detail: heat maps, partners by position, instances of a word, overlays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from sightline.analysis import AttentionMaps, average_maps, relation_counts, sinks, thumbnails, window_maps
from sightline.results.explanation import Explanation
from sightline.results.explanation_storage import to_record
from sightline.text import Example
from sightline_studies.data import describe_rows
from sightline_studies.longformer_steps import MASK, METHOD, PARTNERS, TOP, shorten
from sightline_studies.study import Figure, HeadMaps, InstanceCounts, Overlay, StudyTable
from sightline_studies.workbench import Subject, Workbench

if TYPE_CHECKING:
    import pandas as pd

RECEIVED: Final = "received_attention"
SIDE = 40
"""Pixels of a side of a heat map."""
COMPARED = 20
"""Length of the two lists whose common words are shown."""
COUNTED = (
    f"count: the number of tokens that have the word among their {PARTNERS} strongest partners in any layer and head "
    '(count="tokens"). Stop words, numbers and punctuation are left out.'
)


class ExampleDocument(NamedTuple):
    """What was measured of one document."""

    attribution: Explanation
    attention: Explanation
    """Attention received, averaged over heads and summed over layers."""
    maps: npt.NDArray[np.float64]
    """(L, H, s, s)."""
    windows: npt.NDArray[np.float64] | None
    """(L, H, s, s): rows of the band; None where a window is no small part of the document."""
    word: str
    """The word with the most instances."""
    frames: Mapping[str, pd.DataFrame]
    """Partners by position, common words, and the instances of the word."""

    @property
    def tokens(self) -> int:
        """Length of the document."""
        return len(self.attribution.encoding)


def measure_example(bench: Workbench, subject: Subject, example: Example) -> ExampleDocument:
    """Return maps, partners and two explanations of one document."""

    def measure() -> dict[str, Any]:
        model = subject.model
        trace = model.trace(shorten(model, example, bench.number("tokens")), quantity="logit")
        options: dict[str, Any] = {METHOD: {"steps": bench.number("steps")}}
        explanations = model.explain(trace, methods=[METHOD, RECEIVED], **options)
        counts = relation_counts(trace, PARTNERS, MASK)
        types = counts.by_type("attended", count="tokens")
        # Of equally frequent words, the one attended most.
        word = str(types.sort_values("instances", ascending=False, kind="stable")["type"].iloc[0]) if len(types) else ""
        frames = {
            **{f"{side}_positions": counts.by_position(side, count="tokens", top=TOP) for side in _SIDES},
            "common_types": counts.intersection(by="type", count="tokens", top=COMPARED),
            "common_positions": counts.intersection(by="position", count="tokens", top=COMPARED),
            "instances": counts.instances(word, count="tokens"),
        }
        windows = window_maps(trace, SIDE)
        return {
            "explanations": {name: to_record(explanation) for name, explanation in explanations.items()},
            "maps": _three_digits(thumbnails(trace, SIDE).pixels),
            "windows": None if windows is None else _three_digits(windows),
            "word": word,
            "frames": {name: frame.to_dict("list") for name, frame in frames.items()},
        }

    identity = {**_identity(bench, subject), "steps": bench.number("steps"), "partners": PARTNERS}
    record = bench.step("example", {**identity, "examples": describe_rows([example])}, measure)
    import pandas as pd

    explanations = {name: Explanation.from_record(stored) for name, stored in record["explanations"].items()}
    return ExampleDocument(
        attribution=explanations[METHOD],
        attention=explanations[RECEIVED],
        maps=np.array(record["maps"]),
        windows=None if record["windows"] is None else np.array(record["windows"]),
        word=record["word"],
        frames={name: pd.DataFrame(columns) for name, columns in record["frames"].items()},
    )


def measure_average_maps(bench: Workbench, subject: Subject, examples: Sequence[Example]) -> AttentionMaps:
    """Return the mean heat maps of the documents."""

    def measure() -> dict[str, Any]:
        encodings = [shorten(subject.model, example, bench.number("tokens")) for example in examples]
        maps = average_maps(subject.model, encodings, SIDE)
        return {"pixels": _three_digits(maps.pixels), "tokens": maps.tokens}

    record = bench.step("average-maps", {**_identity(bench, subject), "examples": describe_rows(examples)}, measure)
    return AttentionMaps(np.array(record["pixels"]), record["tokens"], "mean", len(examples))


def _identity(bench: Workbench, subject: Subject) -> dict[str, Any]:
    return {"model": subject.identity, "tokens": bench.number("tokens"), "side": SIDE}


_SIDES: tuple[Any, ...] = ("attended", "attending")


def _three_digits(values: npt.NDArray[Any]) -> Any:
    """Return an array as nested lists with three significant digits: what a picture needs, in a small file."""
    rounded = np.array([float(f"{value:.3g}") for value in values.ravel().tolist()])
    return rounded.reshape(values.shape).tolist()


def example_tables(example: ExampleDocument) -> list[StudyTable]:
    """Return the tables of partners."""
    common = f"Words among both the {COMPARED} most attended and the {COMPARED} most attending"
    tables = [
        StudyTable(
            "positions",
            "Words most often attended and attending in the first document, by position",
            _positions_frame(example),
            f"{COUNTED} position: the first token of the word.",
        ),
        StudyTable(
            "common_types",
            f"{common} in the first document",
            _whole_numbers(example.frames["common_types"]),
            f"{COUNTED} Counts are summed over the instances of the word.",
        ),
        StudyTable(
            "common_positions",
            f"{common} in the first document, by position",
            _whole_numbers(example.frames["common_positions"]),
            COUNTED,
        ),
        StudyTable(
            "instances",
            f"Every instance of “{example.word}” in the first document",
            _whole_numbers(
                example.frames["instances"][["position", "attended", "attended_rank", "attending", "attending_rank"]]
            ),
            f"{COUNTED} rank: among all words of the document at their positions.",
        ),
    ]
    return [replace(table, appendix=True) for table in tables if len(table.frame)]


def _positions_frame(example: ExampleDocument) -> pd.DataFrame:
    """Return both directions one below the other: direction, rank, word, position, count."""
    import pandas as pd

    sides = [_whole_numbers(example.frames[f"{side}_positions"]) for side in _SIDES]
    return pd.concat(sides, keys=_SIDES, names=["direction"]).reset_index("direction")


def _whole_numbers(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a frame whose numbers, all of them counts and ranks, are integers, with the words in a column "word"."""
    named = frame.rename(columns={"type": "word", "text": "word"})
    return named.astype({name: "int64" for name in named.columns if name != "word"})


def map_figures(example: ExampleDocument, average: AttentionMaps, importance: npt.NDArray[np.float64]) -> list[Figure]:
    """Return the heat maps of one document, its windows where these are a small part of it, and the mean maps."""
    rows = "Row: the token that attends; column: the token attended to."
    figures = [
        Figure(
            "maps",
            "Attention of all heads in the first document",
            HeadMaps(example.maps, example.tokens, importance),
            f"{rows} The document has {example.tokens:,} tokens. A band along the diagonal is attention within the "
            f"window, a column at the left edge attention to the global token.{_describe_sinks(example)}",
        )
    ]
    if example.windows is not None:
        figures.append(
            Figure(
                "windows",
                "Windows of all heads in the first document",
                HeadMaps(example.windows, example.tokens, importance),
                "Row: position of the attending token; column: distance to the attended token, 0 in the middle.",
            )
        )
    figures.append(
        Figure(
            "maps_average",
            "Attention of all heads, averaged over the data set",
            HeadMaps(average.pixels.astype(np.float64), average.tokens, importance),
            f"{rows} Mean over {average.documents:,} documents; each position is averaged over the documents that "
            "reach it.",
        )
    )
    return figures


def _describe_sinks(example: ExampleDocument) -> str:
    """Return a sentence on the tokens at multiples of 512 that draw attention whatever they say, if there are any."""
    found = sinks(example.attention.scores, example.attention.encoding.tokens)
    flagged = [f"{sink.position:,}" for sink in found if sink.flagged]
    if not flagged:
        return ""
    who, neighbours = (
        (f"The token at position {flagged[0]} receives", "its")
        if len(flagged) == 1
        else (f"The tokens at positions {', '.join(flagged)} receive", "their")
    )
    return (
        f" {who} at least three times as much attention as {neighbours} neighbours: probably an artefact of copied "
        "position embeddings, not a property of the text."
    )


def overlay_figures(example: ExampleDocument, true_label: str | None) -> list[Figure]:
    """Return attribution and attention on the text of the document."""
    explained = example.attribution.target.name
    return [
        Figure(
            "overlay",
            f"Integrated gradients on the text of the first document, for the class “{explained}”",
            Overlay(example.attribution, true_label, total=True),
            "Blue counts for the class, orange against it.",
        ),
        Figure(
            "overlay_attention",
            "Received attention on the text of the first document",
            Overlay(example.attention, true_label, total=True),
            "Attention that each word receives from all tokens, averaged over heads and summed over layers. In every "
            "layer each token gives 1 in all, so that the total is the number of tokens times the number of layers."
            f"{_describe_sinks(example)}",
        ),
    ]


def instance_figures(example: ExampleDocument) -> list[Figure]:
    """Return the counts of every instance of one word; nothing for a document without words."""
    frame = example.frames["instances"]
    if not len(frame):
        return []
    return [
        Figure(
            "instances",
            f"Every instance of “{example.word}” in the first document",
            InstanceCounts(
                frame["position"].astype("int64").tolist(),
                {side: frame[side].tolist() for side in _SIDES},
                example.tokens,
            ),
            COUNTED,
        )
    ]
