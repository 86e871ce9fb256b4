"""Write docs/methods.md from the registry: one entry a method, the same facts as `sightline methods --long`.

python -m tools.docs            writes the page
python -m tools.docs --check    says whether the page is up to date (exit code 1 if not)
"""

from __future__ import annotations

import sys
from pathlib import Path

from sightline.methods import Method, list_methods

PAGE = Path(__file__).parents[1] / "docs" / "methods.md"
HEAD = """# Methods

Generated from the registry by `python -m tools.docs`; `sightline methods --long` prints the same facts.

Notation: n tokens, L layers, H heads; A^l the attention of layer l (row = the token that attends), Ā the mean of its
heads; x^l the input of layer l; e the word embeddings; y the number that is explained (the logit of the predicted class
unless asked otherwise); r the readout row, the token the model's head reads.
"""


def page() -> str:
    """Return the whole page."""
    methods = list_methods()
    rows = "\n".join(
        f"| [`{m.name}`](#{m.name}) | {m.summary} | {_yes(m.signed)} | {_yes(m.class_specific)} |" for m in methods
    )
    table = f"| method | what it computes | signed | knows the class |\n|---|---|---|---|\n{rows}"
    return "\n\n".join([HEAD.strip(), table, *(_entry(method) for method in methods)]) + "\n"


def _entry(method: Method) -> str:
    lines = [
        f"## {method.name}",
        "",
        method.summary,
        "",
        f"- **Formula:** {method.formula}",
        f"- **Signed:** {_yes(method.signed)}; **knows the class:** {_yes(method.class_specific)}",
        f"- **Cost:** {method.cost}",
        f"- **Use it:** {method.use}",
        f"- **Not:** {method.avoid}",
        f"- **Citation:** {method.citation}",
    ]
    options = method.facts()["options"]
    if options:
        lines += ["", "| option | default | values |", "|---|---|---|"]
        lines += [f"| `{name}` | `{o['default']}` | {o['values']} |" for name, o in options.items()]
    return "\n".join(lines)


def _yes(value: bool) -> str:
    return "yes" if value else "no"


if __name__ == "__main__":
    if "--check" in sys.argv:
        sys.exit(0 if PAGE.read_text() == page() else "docs/methods.md is out of date: run python -m tools.docs")
    PAGE.write_text(page())
