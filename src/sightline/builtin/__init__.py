"""What ships inside the package: a small Longformer classifier and four long documents to try it on.

The classifier tells documents about programming languages from documents about artificial intelligence; its card,
`model/MODEL_CARD.md`, says what it learnt from, how good it is and where it fails. Importing this module loads nothing.
"""

from __future__ import annotations

from pathlib import Path

NAME = "built-in"
"""What the model is called in results."""

_HERE = Path(__file__).parent


def model_folder() -> Path:
    """Return the folder of the built-in model: configuration, weights, tokenizer and card."""
    return _HERE / "model"


def documents() -> dict[str, Path]:
    """Return the built-in documents by name.

    machine_learning and programming_languages are about one subject each, learned_compilers is about both, and in
    library_report, the report of a town library, a few words in one paragraph decide.
    """
    return {path.stem: path for path in sorted((_HERE / "documents").glob("*.txt"))}
