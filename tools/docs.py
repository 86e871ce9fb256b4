"""Write what is generated: docs/methods.md, metrics.md, models.md and api.md, and the types of names.

python -m tools.docs            writes the pages
python -m tools.docs --check    exits with code 1 if a page is out of date
"""

from __future__ import annotations

import sys
from pathlib import Path

from sightline.methods import Method, group_methods, list_methods
from sightline.registry import BUILT_IN
from tools import docs_api, docs_metrics, docs_models, docs_names

PAGE = Path(__file__).parents[1] / "docs" / "methods.md"
HEAD = """# Methods

Generated from the registry by `python -m tools.docs`; `sightline methods --long` prints the same facts.

Notation: n tokens, L layers, H heads; A^l the attention of layer l (row = the token that attends), Ā the mean over its
heads; x^l the input of layer l; e the word embeddings; y the number that is explained (by default the log-odds of the
predicted class); r the readout row, the token that the model's head reads; nnz the number of stored attention weights.

Methods of perturbation may replace every ordinary token, also the one whose output is explained. Special tokens stay,
and a token that the head reads is never deleted.
"""


def page() -> str:
    """Return the whole page."""
    groups = group_methods(list_methods())
    parts = [HEAD.strip()]
    for kind, methods in groups.items():
        parts += [f"## {kind.capitalize()}", _table(methods)]
    for methods in groups.values():
        parts += [_entry(method) for method in methods]
    return "\n\n".join(parts) + "\n"


def _table(methods: list[Method]) -> str:
    rows = [
        f"| [`{m.name}`](#{m.name}) | {m.summary}{_origin(m)} | {_yes(m.signed)} | {_yes(m.class_specific)} | "
        f"{m.cost or 'not stated'} |"
        for m in methods
    ]
    return "\n".join(["| method | what it computes | signed | class-specific | cost |", "|---|---|---|---|---|", *rows])


def _entry(method: Method) -> str:
    lines = [
        f"### {method.name}",
        "",
        f"**{method.title}**{_origin(method)}. {method.summary}",
        "",
        *([f"- **Formula:** {method.formula}"] if method.formula else []),
        f"- **Signed:** {_yes(method.signed)}; **class-specific:** {_yes(method.class_specific)}",
        *([f"- **Cost:** {method.cost}"] if method.cost else []),
        *(f"- {_with_bold_verb(advice)}" for advice in (method.use, method.avoid) if advice),
        *([f"- **Citation:** {method.citation}"] if method.citation else []),
    ]
    options = method.facts()["options"]
    if options:
        lines += ["", "| option | default | values |", "|---|---|---|"]
        lines += [f"| `{name}` | `{o['default']}` | {o['values']} |" for name, o in options.items()]
    return "\n".join(lines)


def _with_bold_verb(sentence: str) -> str:
    verb, _, rest = sentence.partition(" ")
    return f"**{verb}** {rest}"


def _origin(method: Method) -> str:
    return "" if method.origin == BUILT_IN else f" (from {method.origin})"


def _yes(value: bool) -> str:
    return "yes" if value else "no"


if __name__ == "__main__":
    pages = {PAGE: page()} | {part.PAGE: part.page() for part in (docs_api, docs_metrics, docs_models, docs_names)}
    if "--check" in sys.argv:
        outdated = [path.name for path, text in pages.items() if not path.exists() or path.read_text() != text]
        sys.exit(f"Out of date: {', '.join(outdated)}. Run python -m tools.docs." if outdated else 0)
    for path, text in pages.items():
        path.write_text(text)
