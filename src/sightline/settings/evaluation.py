"""Settings of capabilities that read a data set: which rows, how methods are measured or compared, where results go."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

from sightline.errors import UsageError
from sightline.settings.explain import BUILT_IN, MODEL, PICKLE, LoadSettings, Quantity, TrustSettings
from sightline.settings.options import OptionRule, Settings, option, unused
from sightline.settings.values import LARGEST_SEED, read_numbers, split_assignments, split_names

TableFormat = Literal["text", "csv", "json", "markdown", "latex"]
OVERWRITE = "Write into a folder of other files; those of the same names are replaced."
DATA = "CSV, TSV, JSON lines (also .gz), Parquet, a folder, or hf://name."


@dataclass(frozen=True, kw_only=True)
class SeedSettings(Settings):
    """The seed of everything that is drawn at random."""

    seed: int = option(0, low=0, high=LARGEST_SEED, metavar="N", help="Random seed.")


@dataclass(frozen=True, kw_only=True)
class FieldSettings(SeedSettings):
    """Which fields of a data set are read."""

    text: str = option("text", metavar="FIELD", help="Field of the data set that holds the text.")
    label: str = option("label", metavar="FIELD", help="Field of the data set that holds the label.")


@dataclass(frozen=True, kw_only=True)
class PairFieldSettings(FieldSettings):
    """The same for data sets that may have pairs of texts."""

    pair: str = option("text_pair", metavar="FIELD", help="Field of the data set that holds the second text.")


@dataclass(frozen=True, kw_only=True)
class Selection(PairFieldSettings):
    """Which fields and which rows of a data set are used; rows are chosen by `where`, then `limit`, then `sample`."""

    split: str | None = option(None, metavar="NAME", help="Use the rows of this split of the data set.")
    where: str | None = option(
        None, metavar="CONDITION", help="Use the rows for which an SQL condition on their fields holds."
    )
    limit: int | None = option(None, low=1, metavar="N", help="Use the first N rows.")
    sample: int | None = option(None, low=1, metavar="N", help="Use N rows drawn at random (see --seed).")


@dataclass(frozen=True, kw_only=True)
class SelectionSettings(Selection):
    """A data set, and which of its rows are used."""

    data: str = option(positional=True, metavar="DATA", help=DATA)


@dataclass(frozen=True, kw_only=True)
class FolderSettings(Settings):
    """A folder that results are written to."""

    output: Path | None = option(
        None, flag=("--output", "-o"), metavar="FOLDER", help="Write a page, tables, figures and all records here."
    )
    overwrite: bool = option(False, help=OVERWRITE)

    rules: ClassVar[tuple[OptionRule, ...]] = (
        unused(
            "overwrite",
            when=lambda settings: settings.output is None,
            reason="needs a folder to write to; add -o FOLDER.",
        ),
    )


EvaluatedLevel = Literal["word", "token"]
TargetChoice = Literal["predicted", "label"]
Replacement = Literal["delete", "pad", "mask", "unk"]
"""What happens to a removed token: it is deleted, or the pad, mask or unknown token takes its place."""
Compat = Literal["attcat"]
COMPARED_METHODS = ("raw_attention", "rollout", "gradient", "attcat", "alti")


def _names_or_all(given: list[str]) -> tuple[str, ...] | str:
    """Return the names from "a,b" and repeated options; "all" alone means all."""
    names = split_names(given)
    if "all" in names and len(names) > 1:
        raise UsageError("'all' cannot be combined with other names: leave them out.")
    return "all" if names == ("all",) else names


def _share(text: str) -> float:
    """Return a share from "0.1" or "10%"."""
    number = text.strip()
    return float(number[:-1]) / 100 if number.endswith("%") else float(number)


@dataclass(frozen=True, kw_only=True)
class OptionsSettings(Settings):
    """Options of several methods."""

    options: Mapping[str, Mapping[str, Any]] = option(
        {},
        flag="--option",
        metavar="METHOD.KEY=VALUE",
        read=split_assignments,
        help="Option of a method; may be repeated.",
    )


@dataclass(frozen=True, kw_only=True)
class MeasuredSettings(OptionsSettings, FolderSettings, SelectionSettings):
    """Options that evaluations and comparisons share."""

    level: EvaluatedLevel = option("word", help="What is ranked and removed.")
    target: TargetChoice = option("predicted", help="Explain the prediction, or the true label or answer.")
    quantity: Quantity = option("log_odds", help="What is explained of the class.")
    format: TableFormat = option("text", help="Format of the printed table.")


@dataclass(frozen=True, kw_only=True)
class EvaluateSettings(MeasuredSettings, LoadSettings):
    """Options of an evaluation."""

    methods: tuple[str, ...] | Literal["all"] | None = option(
        None,
        flag=("--methods", "--method"),
        metavar="NAME,…|all",
        read=_names_or_all,
        help="Methods to compare; may be repeated. [default: ten, from all groups]",
    )
    metrics: tuple[str, ...] | Literal["all"] | None = option(
        None,
        flag=("--metrics", "--metric"),
        metavar="NAME,…|all",
        read=_names_or_all,
        help="What to measure; may be repeated. [default: all that the data set allows]",
    )
    replacement: Replacement | None = option(
        None, help="What takes the place of removed words. [default: as each metric is defined]"
    )
    ratios: tuple[float, ...] | None = option(
        None,
        metavar="0,0.1,…",
        read=read_numbers("--ratios", "shares such as 0,0.1,0.5 or 0,10%,50%", _share),
        help="Shares of the words that are removed. [default: as each metric is defined]",
    )
    mask_pads: bool = option(False, help="Exclude pad tokens that replace words from attention.")
    random_orderings: int = option(5, low=0, metavar="N", help="Random orders of the words; their mean is the floor.")
    reference_order: bool = option(
        True,
        flag="--reference-order/--no-reference-order",
        help="Also measure the order of the words' effects when each is removed alone (a reference).",
    )
    compat: Compat | None = option(
        None, help="Measure AOPC, log-odds and confidence as the published AttCAT code does."
    )
    reference: str | None = option(None, metavar="NAME", help="Method that agreement metrics compare the others with.")
    k: tuple[int, ...] | None = option(
        None,
        metavar="5,20,…",
        read=read_numbers("--k", "whole numbers from 1 up, such as 5,10,20", int, least=1),
        help="Values of k for precision, recall and count at k. [default: 20]",
    )
    budget: int | None = option(None, low=1, metavar="N", help="Most model calls per document.")
    sanity: bool = option(False, help="Also run sanity tests with random weights and with planted words (slow).")


@dataclass(frozen=True, kw_only=True)
class CompareSettings(MeasuredSettings, TrustSettings):
    """Which explanations are compared."""

    models: tuple[str, ...] | None = option(
        None, flag="--model", metavar="PATH", help=f"{MODEL}; may be repeated. {BUILT_IN}"
    )
    methods: tuple[str, ...] = option(
        COMPARED_METHODS,
        flag=("--methods", "--method"),
        metavar="NAME,…",
        read=split_names,
        help=f"Methods to compare; may be repeated. [default: {', '.join(COMPARED_METHODS)}]",
    )
    metrics: tuple[str, ...] = option(
        ("spearman",),
        flag=("--metrics", "--metric"),
        metavar="NAME,…",
        read=split_names,
        help="Agreement metrics; may be repeated. [default: spearman]",
    )
    layers: bool = option(False, help="Compare the layers of each method, with --reference if it is given.")
    reference: str | None = option(None, metavar="NAME", help="Compare with this method only, for example occlusion.")
    magnitude: bool = option(False, help="Compare magnitudes: for signed scores beside unsigned ones.")
    special: bool = option(False, help="Compare special tokens too ([CLS], [SEP]), with --level token.")
    all_documents: bool = option(
        False, help="Compare models also on documents for which they predict different classes."
    )
    level: EvaluatedLevel = option("word", help="What is compared.")
    format: TableFormat = option("text", help="Form of what is printed.")
    output: Path | None = option(
        None, flag=("--output", "-o"), metavar="FOLDER", help="Write tables and pictures here, with a page."
    )

    @property
    def several(self) -> bool:
        """Whether models are compared with each other."""
        return len(self.models or ()) > 1

    rules: ClassVar[tuple[OptionRule, ...]] = (
        unused(
            "layers",
            "reference",
            when=lambda settings: settings.several,
            reason="is not for several models, which are compared with each other: leave out {layers} and {reference}.",
        ),
        unused(
            "all_documents",
            when=lambda settings: not settings.several,
            reason="applies to several models: give {models} at least twice.",
        ),
    )


@dataclass(frozen=True, kw_only=True)
class AdversarySettings(SelectionSettings):
    """Which other attention weights are looked for."""

    model: str = option(metavar="PATH", help="Folder of a model with a single attention.")
    tests: tuple[str, ...] | None = option(
        None,
        flag=("--tests", "--test"),
        metavar="NAME,…",
        read=split_names,
        help="uniform, permuted, frozen, retrained, unfrozen; may be repeated. [default: the first three]",
    )
    strengths: tuple[float, ...] | None = option(
        None,
        metavar="X,…",
        read=read_numbers("--strengths", "numbers such as 0.1,1,10", float),
        help="Values of λ of the last three: how much distance of the weights counts. [default: 0.1,1]",
    )
    output: Path | None = option(
        None,
        flag=("--output", "-o"),
        metavar="FILE",
        help="Write a page with the documents under both weights.",
    )
    allow_pickle: bool = option(False, help=PICKLE)
