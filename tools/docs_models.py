"""Write docs/models.md: which method applies to which family of models, from the registries.

python -m tools.docs_models            writes the page
python -m tools.docs_models --check    says whether the page is up to date (exit code 1 if not)
"""

from __future__ import annotations

import sys
from pathlib import Path

from sightline.methods import list_methods
from sightline.methods.applicability import applies
from sightline.models.families import FAMILIES

PAGE = Path(__file__).parents[1] / "docs" / "models.md"
HEAD = """# Models and methods

Generated from the registries by `python -m tools.docs_models`. A method that does not apply to a model says so before
anything is computed.

- **Single attention**: a bidirectional LSTM or a small Transformer under one row of attention weights. There is no
  token that attends, so methods that follow attention from token to token do not apply.
- **Sparse heads**: any other family whose heads use sparsemax or entmax in place of softmax (`sightline convert
  --attention`). Relevance propagation has no rules for these projections.
"""


def page() -> str:
    """Return the whole page."""
    single = sorted(name for name, family in FAMILIES.items() if family.single_attention)
    others = sorted(name for name, family in FAMILIES.items() if not family.single_attention)
    columns = ("Transformer families", "sparse heads", "single attention")
    lines = [f"| method | {' | '.join(columns)} |", f"|---|{'---|' * len(columns)}"]
    for method in list_methods():
        marks = (
            applies(method.name, FAMILIES[others[0]]),
            applies(method.name, FAMILIES[others[0]], sparse_heads=True),
            applies(method.name, FAMILIES[single[0]]),
        )
        lines.append(
            f"| [`{method.name}`](methods.md#{method.name}) | {' | '.join('yes' if m else '–' for m in marks)} |"
        )
    families = f"Transformer families: {', '.join(others)}. Single attention: {', '.join(single)}."
    return "\n".join([HEAD.strip(), "", families, "", *lines]) + "\n"


if __name__ == "__main__":
    if "--check" in sys.argv:
        sys.exit(0 if PAGE.read_text() == page() else "docs/models.md is out of date: run python -m tools.docs_models")
    PAGE.write_text(page())
