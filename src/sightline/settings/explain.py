"""Settings of an explanation, and what other capabilities share with it: the model, how it reads, the check."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from sightline.settings.options import OptionRule, Settings, option, unused
from sightline.settings.values import read_numbers, split_assignments, split_names

Quantity = Literal["log_odds", "logit", "probability", "log_probability", "margin"]
Aggregation = Literal["mean", "max", "first"]
"""How the logits of windows make the logits of the document: their mean, the largest of each class, or the first's."""
Class = int | str

DEFAULT_METHODS = ("attnlrp", "alti")
"""Methods that explain a document by default; the first one is the default where a single method is used.

Chosen by measurement (docs/trust.md): `attnlrp` is signed, specific to a class, and finds the deciding words of models
whose rule is known; `alti` follows how tokens are mixed, without gradients, and is the second opinion."""
FALLBACK_METHODS = ("attcat",)
"""The same for models on which a default method means nothing or cannot run (`methods.applicability`)."""
UNSEEN_METHODS = ("integrated_gradients", "input_x_gradient")
"""The same for models of which only embeddings and logits are known."""
FUNCTION_METHODS = ("owen", "occlusion")
"""The same for functions, of which only the answers are known."""
INSPECT_METHODS = ("attcat",)
"""Methods that an inspection compares with attention: computed from the pass that records it, at no further cost."""

MODEL = "Model folder, or a hub model as owner/name or hf://name"
BUILT_IN = "[default: the built-in demonstration model]"
PLAIN_TEXT = "Read the file as plain text, whatever it is: HTML with its mark-up."
METHODS_HELP = f"Method, or several with commas; may be repeated. [default: {', '.join(DEFAULT_METHODS)}]"
TRUNCATE = "Cut off what the model cannot read at once, instead of reading windows."
PICKLE = "Read pickle weights, which can run code: only if you trust them."


@dataclass(frozen=True, kw_only=True)
class TrustSettings(Settings):
    """Which weights are accepted."""

    allow_pickle: bool = option(False, help=PICKLE)
    allow_random: bool = option(False, help="Accept missing weights; every result is marked as untrained.")


@dataclass(frozen=True, kw_only=True)
class LoadSettings(TrustSettings):
    """Which model is loaded."""

    model: str | None = option(None, metavar="PATH", help=f"{MODEL}. {BUILT_IN}")


@dataclass(frozen=True, kw_only=True)
class ReadSettings(Settings):
    """How a model reads a document."""

    pair: str | None = option(
        None, metavar="FILE|-", expects="a string or null", help="The second text, for models that read pairs."
    )
    global_tokens: tuple[int, ...] | None = option(
        None,
        metavar="0,17,…",
        read=read_numbers("--global-tokens", "token positions such as 0,17,42", int),
        help="Token positions with global attention (Longformer).",
    )


@dataclass(frozen=True, kw_only=True)
class WindowSettings(ReadSettings):
    """How a model reads a document that is longer than it reads at once."""

    truncate: bool = option(False, server=False, help=TRUNCATE)
    aggregation: Aggregation = option(
        "mean",
        flag="--windows",
        server=False,
        help="How the class scores of the windows of a long text are combined.",
    )
    max_windows: int | None = option(
        None,
        low=1,
        metavar="N",
        server=False,
        help="Read at most N windows of a long text. [default: 32,768 tokens, at least 8]",
    )

    rules: ClassVar[tuple[OptionRule, ...]] = (
        unused(
            "aggregation",
            "max_windows",
            when=lambda settings: settings.truncate,
            reason="is about windows, which {truncate} leaves out: give one of them.",
        ),
    )


@dataclass(frozen=True, kw_only=True)
class CheckSettings(Settings):
    """How an explanation is checked on the model; None leaves the choice to the command, function or server."""

    check: bool | None = option(
        None,
        flag="--check/--no-check",
        help="Test the explanation on the model: does deleting its words matter more than deleting random ones? Of "
        "several methods, the first is checked. [default: for a page of one class]",
    )
    check_all: bool = option(False, help="Check the explanations of all methods, not only of the first.")
    check_readings: int | None = option(
        None,
        low=8,
        metavar="N",
        server=False,
        help="Most documents that the check of one explanation may read. [default: no limit; usually 20 to 60, in "
        "texts of fewer than 100 words up to 200, and 40 more for every further method that is checked]",
    )
    threshold: float | None = option(
        None,
        metavar="VALUE",
        help="For models with one output: the value at which the answer changes. The check looks for the smallest set "
        "of words without which the value falls below it.",
    )
    artefacts: bool | None = option(
        None,
        flag="--artefacts/--no-artefacts",
        server=False,
        help="As part of the check, exchange the words to be named, to find scores that belong to their position. "
        "[default: artefacts]",
    )

    rules: ClassVar[tuple[OptionRule, ...]] = (
        unused(
            "check_all",
            "check_readings",
            "threshold",
            "artefacts",
            when=lambda settings: settings.check is False,
            reason="belongs to the check, which is not made: add {check}, or leave it out.",
        ),
    )


@dataclass(frozen=True, kw_only=True)
class ExplainSettings(CheckSettings, WindowSettings):
    """What is explained, and by which methods."""

    methods: tuple[str, ...] | None = option(
        None,
        flag=("--method", "--methods"),
        metavar="NAME,…",
        low=1,
        read=split_names,
        server=32,
        help=METHODS_HELP,
        request_help="Names from /api/methods; the methods share one pass of the model. By default, the "
        "`default_methods` of the model in /api/models.",
    )
    options: Mapping[str, Mapping[str, Any]] = option(
        {},
        flag="--option",
        metavar="KEY=VALUE",
        read=split_assignments,
        expects='an object of objects, such as {"rollout": {"fusion": "max"}}',
        help="Option of the method, or METHOD.KEY=VALUE; may be repeated.",
        request_help="Options by method, for example {'rollout': {'fusion': 'max'}}.",
    )
    target: Class | tuple[Class, Class] | None = option(
        None,
        metavar="LABEL|INDEX|A:B|all",
        expects="a label, a class number, or a list of two of these for a contrast",
        help="Class to explain, A against B, or every class in turn; 'entities' for every tagged entity; for "
        "answers, their text, the numbers of their first and last token (12:15, 12: or :15), start, end or "
        "'no answer'. [default: what is predicted]",
        request_help="A label or class number, or a list of two for a contrast; by default, the predicted class.",
    )
    quantity: Quantity | None = option(None, help="What is explained of the class. [default: log_odds]")
    position: int | None = option(None, metavar="N", help="Token to explain, for models that score single tokens.")
    seed: int | None = option(None, metavar="N", help="Seed for methods that draw random numbers.")
    continuation: str | None = option(
        None,
        metavar="TEXT",
        expects="a string or null",
        help="Explain every word of this text, which follows FILE (language models).",
        request_help="For decoders: explain every word of this text, which follows `text`. Leave out target, position, "
        "pair and check.",
    )
    max_new_tokens: int | None = option(
        None,
        low=1,
        metavar="N",
        server=256,
        help="Let the model continue FILE by at most N tokens, and explain them.",
        request_help="For decoders: let the model continue `text` by at most this many tokens, and explain them.",
    )
