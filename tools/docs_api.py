"""Build docs/api.md, the reference of the Python API, from signatures and docstrings."""

from __future__ import annotations

import importlib
import inspect
import re
import textwrap
from pathlib import Path
from typing import Any, NamedTuple, get_args

import sightline as sl
from sightline.attention import Attention
from sightline.methods import METHODS
from sightline.metrics import METRICS
from sightline.metrics.registry import MetricNeed
from sightline.passes.forward import Need
from sightline.results.verdict import Reason
from tools.api_entries import ClassEntry, Member, docstring, first_paragraph, short_signature, signature_of

PAGE = Path(__file__).parents[1] / "docs" / "api.md"
WIDTH = 120
HEAD = """# Python API

Generated from signatures and docstrings by `python -m tools.docs`.

Everything below is reached through `import sightline as sl`. The page is ordered by what you want to do: load a model,
explain a document, check the explanation, look inside, evaluate methods, explain a corpus, train, extend.

- A data class is shown by its fields, which are also the arguments of its constructor, in this order.
- Shapes: n tokens, L layers, H heads, C classes. `ndarray` is a numpy array.
- `…` stands for a default that has no short form.
- Methods and metrics have pages of their own: [methods](methods.md), [metrics](metrics.md).
"""


class Section(NamedTuple):
    """A job and the public names it uses; `rooms` add whatever else is public there."""

    title: str
    text: str
    names: tuple[str, ...] = ()
    rooms: tuple[str, ...] = ()
    brief: bool = False
    """One line per name of the rooms."""


SECTIONS = (
    Section(
        "Load",
        "A model, and the text of a file.",
        ("load", "Model", "read_document", "text.documents.DocumentText"),
    ),
    Section(
        "Explain",
        "What `model.explain` and `model.report` return.",
        (
            "Explanation",
            "results.explanation.WordScore",
            "results.report.ByMethod",
            "Report",
            "analysis.consensus.Consensus",
            "ContinuationExplanation",
            "Prediction",
            "Target",
            "list_methods",
        ),
    ),
    Section(
        "Check",
        "What `model.check`, and `check=True`, add to an explanation.",
        (
            "Verdict",
            "results.check.Check",
            "results.check.Reading",
            "results.check.SmallestSet",
            "results.check.TestedWord",
            "results.check.Artefact",
            "results.check.Exchange",
        ),
    ),
    Section(
        "Inspect",
        "What the model read, what one pass recorded, the attention of each layer, and what is computed from them.",
        ("Encoding", "text.Word", "text.Units", "text.Windows", "Trace"),
        ("attention", "analysis"),
    ),
    Section(
        "Evaluate",
        "Methods measured and compared over a data set.",
        ("evaluate", "Evaluation", "compare", "list_metrics"),
        ("evaluation",),
    ),
    Section(
        "Explain a corpus",
        "Runs over whole data sets, and the store of their results.",
        ("run", "open_run", "Store", "Selection", "read_examples", "text.Example"),
        ("corpus",),
    ),
    Section("Train, convert, test attention", "The lab. Training needs the extra `lab`.", rooms=("lab",)),
    Section(
        "Run a paper again",
        "`from sightline_studies import run_study`; see [the guide](guides/studies.md).",
        rooms=("sightline_studies",),
    ),
    Section(
        "Extend",
        "Register methods and metrics of your own, and call the built-in ones as functions. "
        "[Contributing](../CONTRIBUTING.md) shows how.",
        ("method", "methods.Method", "methods.Attribution", "metric", "metrics.MetricEntry", "metrics.Chance"),
        ("methods", "metrics"),
    ),
    Section(
        "Below the surface",
        "Building blocks that few programs need: from a string to tokens, words and sentences, and the observable "
        "network below a `Model`.",
        rooms=("text", "models"),
        brief=True,
    ),
    Section(
        "Errors", "Every error that Sightline raises on purpose is a `SightlineError`.", rooms=("errors",), brief=True
    ),
)
ALIASES = {
    "Document": "a text, or an `Encoding` made by `model.encode`",
    "Readable": "a `Document`, or what `read_document` returns",
    "ReadableOrPair": "a `Readable`, or a pair (text, second text)",
    "Explainable": "a `Readable`, a `Chat`, or a `Trace` of the same model",
    "Chat": 'a list of messages such as `{"role": "user", "content": "Where are the keys?"}`',
    "TargetLike": "what to explain: a class by number or label, a pair of them for a contrast, a `Target`, or None for "
    "the predicted class",
    "Explanations": "explanations by method, and by class within a method if several classes are explained",
    "Progress": "a function that is called with the stage, the steps done and their total (0 if unknown)",
    "Reason": "why a verdict is what it is: " + ", ".join(f"`{reason}`" for reason in get_args(Reason)),
    "Need": "what a method asks of a trace: " + ", ".join(f"`{need}`" for need in get_args(Need)),
    "MetricNeed": "what a metric is given: " + ", ".join(f"`{need}`" for need in get_args(MetricNeed)),
}
"""Names in signatures that are not classes."""
FIGURES = """## Figures and tables

`sightline.view` draws results and computes nothing. Most of it is reached through `to_html`, `show` and the command
line; two modules are useful on their own: `sightline.view.plots` (functions that return matplotlib figures, and
`save_figure`) and `sightline.view.frames` (`to_csv`, `to_latex`, `to_markdown`, `to_html` of any frame). See
[look inside a model](guides/inspect.md#in-python).
"""
OWN_PAGES = {
    "methods": "`sl.methods.NAME(trace, **options)` returns the scores of a method on a `Trace`",
    "metrics": "`sl.metrics.NAME(…)` computes a metric from plain arrays",
}
FULL = {"Model"}
"""Classes whose methods are shown with types and the whole docstring, called on `model`."""


def page() -> str:
    """Return the whole page."""
    written: set[int] = set()
    bodies = [_section(section, written) for section in SECTIONS]
    contents = "\n".join(_contents(section) for section in SECTIONS)
    aliases = "\n".join(f"| `{name}` | {text} |" for name, text in ALIASES.items())
    table = f"Names in signatures that are not classes:\n\n| name | meaning |\n|---|---|\n{aliases}"
    return "\n\n".join([HEAD.strip(), contents, table, *bodies, FIGURES.strip()]) + "\n"


def _section(section: Section, written: set[int]) -> str:
    """Return one section; `written` holds the ids of the objects that are on the page already, and grows."""
    parts = [f"## {section.title}", _wrap(section.text)]
    for name in section.names:
        written.add(id(_resolve(name)))
        parts.append(_entry(name, _resolve(name)))
    for room in section.rooms:
        names = [name for name in _public_names(room) if id(_resolve(name)) not in written]
        written.update(id(_resolve(name)) for name in names)
        linked = [name for name in names if _has_own_page(name)]
        others = [name for name in names if name not in linked]
        if section.brief:
            parts.append("\n".join(_line(name, _resolve(name)) for name in others))
        else:
            parts += [_entry(name, _resolve(name)) for name in others]
        if linked:
            links = ", ".join(f"[`{name}`]({room}.md#{name})" for name in (n.split(".")[1] for n in linked))
            parts.append(_wrap(f"{OWN_PAGES[room]}: {links}."))
    return "\n\n".join(parts)


def _line(name: str, value: Any) -> str:
    shown = _displayed(name)
    if inspect.isfunction(value):
        return _bullet(Member(name, short_signature(value, shown), docstring(value)))
    if inspect.isclass(value):
        return _bullet(Member(name, shown, docstring(value)))
    return _wrap(f"- `{shown}`: {_constant(name, value)}", indent="  ")


def public_names() -> set[str]:
    """Return every name that the page must hold: what `sightline` and the rooms on the page export."""
    names = [name for name in sl.__all__ if not inspect.ismodule(getattr(sl, name))]
    return {_displayed(name) for name in names} | {
        _displayed(name) for section in SECTIONS for room in section.rooms for name in _public_names(room)
    }


def additional_names() -> set[str]:
    """Return the names on the page that no room exports: classes of results, and the methods of `Model`."""
    results = {_displayed(name) for section in SECTIONS for name in section.names} - public_names()
    return results | {f"sl.Model.{member.name}" for member in ClassEntry(sl.Model).methods}


def _public_names(room: str) -> list[str]:
    module = _module(room)
    if room == "errors":
        return [f"errors.{name}" for name, value in vars(module).items() if inspect.isclass(value)]
    exported = [name for name, value in vars(module).items() if name[0] != "_" and not inspect.ismodule(value)]
    names = sorted(getattr(module, "__all__", exported), key=lambda name: (not name[0].islower(), name.isupper(), name))
    return [f"{room}.{name}" for name in names]


def _resolve(name: str) -> Any:
    room, _, attribute = name.rpartition(".")
    return getattr(_module(room), attribute)


def _module(room: str) -> Any:
    return importlib.import_module(_full_name(room)) if room else sl


def _full_name(name: str) -> str:
    return name if name.startswith("sightline") else f"sightline.{name}"


def _displayed(name: str) -> str:
    """Return the name as a user writes it: shorter if `sl` itself has it, in full where `sl` does not reach it."""
    room, _, attribute = name.rpartition(".")
    if attribute in sl.__all__ and _resolve(name) is getattr(sl, attribute):
        return f"sl.{attribute}"
    return f"sl.{name}" if room in sl.__all__ else _full_name(name)


def _has_own_page(name: str) -> bool:
    room, _, attribute = name.rpartition(".")
    return (room == "methods" and attribute in METHODS.names()) or (room == "metrics" and attribute in METRICS.names())


def _contents(section: Section) -> str:
    links = [f"[`{name.rpartition('.')[2]}`](#{anchor(_displayed(name))})" for name in section.names]
    links += [f"`sl.{room}`" if room in sl.__all__ else f"`{_full_name(room)}`" for room in section.rooms]
    return _wrap(f"- [{section.title}](#{anchor(section.title)}): {', '.join(links)}", indent="  ")


def anchor(heading: str) -> str:
    """Return the anchor that GitHub gives a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def _entry(name: str, value: Any) -> str:
    shown = _displayed(name)
    heading = f"### {shown}"
    if inspect.isclass(value):
        return "\n\n".join([heading, *_class(value, shown)])
    if inspect.isfunction(value):
        return "\n\n".join([heading, _code(signature_of(value, shown)), _prose(docstring(value), value)])
    return "\n\n".join([heading, _constant(name, value)])


def _class(kind: type, name: str) -> list[str]:
    implements = kind is not Attention and Attention in kind.__mro__
    entry = ClassEntry(kind, (Attention, Exception) if implements else ())
    parts = []
    if _is_constructed_by_users(kind):
        parts.append(_code(signature_of(kind.__init__, name, bound=True)))
    parts.append(_prose(docstring(kind), kind))
    attributes, methods = entry.attributes, entry.methods
    if implements:
        protocol = ClassEntry(Attention)
        common = {member.name for member in (*protocol.attributes, *protocol.methods)}
        attributes = [member for member in attributes if member.name not in common]
        methods = [member for member in methods if member.name not in common]
        parts.append("It has all attributes and methods of [`Attention`](#slattentionattention).")
    if attributes:
        parts.append("\n".join(["Attributes:", "", *map(_bullet, attributes)]))
    if methods and kind.__name__ in FULL:
        parts += [_method_in_full(name, member, getattr(kind, member.name)) for member in methods]
    elif methods:
        parts.append("\n".join(["Methods:", "", *map(_bullet, methods)]))
    return parts


def _is_constructed_by_users(kind: type) -> bool:
    """Return whether the arguments of `__init__` are of interest and not shown as the fields of a record."""
    is_record = hasattr(kind, "__dataclass_fields__") or hasattr(kind, "_fields")
    is_abstract = getattr(kind, "_is_protocol", False) or issubclass(kind, Exception)
    return not is_record and not is_abstract and kind.__name__ not in {"Model", "Trace", "Store", "ByMethod"}


def _method_in_full(name: str, member: Member, function: Any) -> str:
    return "\n\n".join(
        [f"#### {name}.{member.name}", _code(f"model.{member.signature}"), _prose(member.text, function)]
    )


def _bullet(member: Member) -> str:
    text = _escape(first_paragraph(member.text))
    return _wrap(f"- `{member.declaration}`" + (f": {text}" if text else ""), indent="  ")


def _constant(name: str, value: Any) -> str:
    described = {
        "methods.METHODS": "The registry of methods: `METHODS.names()`, `METHODS.get(name)`.",
        "metrics.METRICS": "The registry of metrics: `METRICS.names()`, `METRICS.get(name)`.",
        "sightline_studies.STUDIES": "The studies by name.",
        "text.Aggregation": 'How the logits of windows become one: `"mean"`, `"max"` or `"first"`.',
        "text.Level": 'A kind of unit: `"token"`, `"word"`, `"sentence"` or `"paragraph"`.',
        "text.Chat": _sentence(ALIASES["Chat"]),
        "models.TargetLike": _sentence(ALIASES["TargetLike"]),
    }
    if name in described:
        return described[name]
    return _wrap(", ".join(f"`{item}`" for item in (value if isinstance(value, tuple) else (value,))) + ".")


def _sentence(phrase: str) -> str:
    return f"{phrase[0].upper()}{phrase[1:]}."


def _prose(text: str, value: Any) -> str:
    """Return a docstring as Markdown: prose wrapped, arguments as a list, indented blocks as they are."""
    function = value if inspect.isfunction(value) else value.__init__
    names = set(inspect.signature(function).parameters)
    parts = []
    for block in text.split("\n\n"):
        if block.startswith("Examples\n-"):
            parts.append(_code(block.split("\n", 2)[2], "pycon"))
        elif block.startswith(">>> "):
            parts.append(_code(block, "pycon"))
        elif block.startswith("    "):
            parts.append(_code(textwrap.dedent(block), "text"))
        elif re.match(r"\S+ {3,}\S", block) and "\n" in block:
            parts.append(_code(block, "text"))
        else:
            parts += _paragraphs(" ".join(block.split()), names)
    joined = "\n\n".join(parts)
    return re.sub(r"(\n- [^\n]*(?:\n  [^\n]*)*)\n\n(?=- )", r"\1\n", joined)  # neighbouring lists become one


def _paragraphs(text: str, names: set[str]) -> list[str]:
    """Split a paragraph before every `argument: ` and make a list of these parts."""
    if not names:
        return [_wrap(_escape(text))]
    argument = "|".join(sorted(map(re.escape, names), key=len, reverse=True))
    pieces = re.split(rf"(?:^|(?<=[.;)] ))(?=(?:{argument})(?:, (?:{argument}))*: )", text)
    prose, items = (pieces[0].strip(), pieces[1:])
    bullets = []
    for item in items:
        name, _, rest = item.strip().partition(": ")
        arguments = ", ".join(f"`{part}`" for part in name.split(", "))
        bullets.append(_wrap(f"- {arguments}: {_escape(rest.rstrip(';'))}", indent="  "))
    return ([_wrap(_escape(prose))] if prose else []) + (["\n".join(bullets)] if bullets else [])


def _escape(text: str) -> str:
    """Escape what Markdown would read as emphasis or as HTML, outside code."""
    pieces = re.split(r"(`[^`]*`)", text)
    return "".join(p if p.startswith("`") else re.sub(r"([*<])", r"\\\1", p) for p in pieces)


def _wrap(text: str, indent: str = "") -> str:
    return textwrap.fill(text, WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def _code(text: str, language: str = "text") -> str:
    return f"```{language}\n{text}\n```"
