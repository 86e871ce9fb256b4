"""Write the names of the package's own methods and metrics as types, so that editors and type checkers know them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from sightline.methods import list_methods
from sightline.methods.registry import ALIASES
from sightline.metrics import list_metrics
from sightline.registry import BUILT_IN

PAGE = Path(__file__).parents[1] / "src" / "sightline" / "settings" / "names.py"
HEAD = '''"""Names of methods and metrics as types, so that editors and type checkers know them.

Written from the registries by `python -m tools.docs`.
"""

from typing import Literal
'''


def page() -> str:
    """Return the whole module."""
    methods = [method.name for method in list_methods() if method.origin == BUILT_IN]
    metrics = [metric.name for metric in list_metrics() if metric.origin == BUILT_IN]
    return "\n".join([HEAD, *_literal("MethodName", [*methods, *ALIASES]), *_literal("MetricName", metrics)]) + "\n"


def _literal(name: str, values: Iterable[str]) -> list[str]:
    return [f"{name} = Literal[", *(f'    "{value}",' for value in values), "]"]
