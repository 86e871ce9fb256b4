"""Read what the API reference shows of a function or class: its signature, docstring and public members.

Annotations are shown as the source writes them, except that array types become `ndarray` and aliases of literals become
their values. Nothing here depends on the machine: a default without a readable form is shown as `…`.
"""

from __future__ import annotations

import ast
import dataclasses
import inspect
import re
import sys
import textwrap
from collections.abc import Iterator
from functools import cached_property
from typing import Any, Literal, NamedTuple, get_args, get_origin

from sightline.settings.options import Settings

WIDTH = 110
SHORT = 90
MOST_CHOICES = 7
"""An alias of more literals keeps its name."""
_ARRAY_ALIASES = frozenset(
    [
        "Array",
        "FloatArray",
        "IntArray",
        "BoolArray",
        "Floats",
        "Doubles",
        "Integers",
        "Booleans",
        "Values",
        "Counts",
        "Importance",
        "Matrix",
        "Vector",
    ]
)
_ARRAY = re.compile(r"(?:npt\.)?NDArray\[(?:[^\[\]]|\[[^\[\]]*\])*\]")
_PREFIX = re.compile(r"\b(?:npt|pd|typing|collections\.abc)\.(?=[A-Za-z])")


class Member(NamedTuple):
    """One public attribute or method of a class."""

    name: str
    declaration: str
    """How it is written: `labels: tuple[str, ...]`, `top(k=10)`."""
    text: str
    """Its docstring; empty if it has none."""
    signature: str = ""
    """The typed signature of a method."""


def docstring(value: Any) -> str:
    """Return the docstring of a function, class or property."""
    return inspect.getdoc(value) or ""


def first_paragraph(text: str) -> str:
    """Return the first paragraph of a docstring as one line."""
    return " ".join(text.split("\n\n")[0].split())


def signature_of(function: Any, name: str, *, bound: bool = False) -> str:
    """Return `name(…) -> …` with types, on one line if it fits and with one parameter per line otherwise."""
    scope = vars(sys.modules[function.__module__])
    parameters, returned = _parameters(function, bound)
    parts = [_with_stars(p, _typed(p, scope)) for p in parameters]
    arrow = _arrow(returned, scope)
    parts = _with_separators(parameters, parts)
    line = f"{name}({', '.join(parts)}){arrow}"
    if len(line) <= WIDTH:
        return line
    return "\n".join([f"{name}(", *(f"    {part}," for part in parts), f"){arrow}"])


def short_signature(function: Any, name: str, *, bound: bool = False) -> str:
    """Return `name(a, b=1) -> list[str]`, without the types of arguments; without the result if that gets too long."""
    parameters, returned = _parameters(function, bound)
    parts = [
        _with_stars(p, p.name if p.default is inspect.Parameter.empty else f"{p.name}={_value(p.default)}")
        for p in parameters
    ]
    call = f"{name}({', '.join(_with_separators(parameters, parts))})"
    with_result = call + _arrow(returned, vars(sys.modules[function.__module__]))
    return with_result if len(with_result) <= SHORT else call


def _arrow(returned: Any, scope: dict[str, Any]) -> str:
    return "" if returned in (inspect.Signature.empty, None, "None") else f" -> {_annotation(returned, scope)}"


def _parameters(function: Any, bound: bool) -> tuple[list[inspect.Parameter], Any]:
    signature = inspect.signature(function)
    return list(signature.parameters.values())[1 if bound else 0 :], signature.return_annotation


def _with_stars(parameter: inspect.Parameter, text: str) -> str:
    return {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "") + text


def _with_separators(parameters: list[inspect.Parameter], parts: list[str]) -> list[str]:
    """Put `*` before the first parameter that can be given by name only."""
    kinds = [parameter.kind for parameter in parameters]
    if inspect.Parameter.KEYWORD_ONLY not in kinds or inspect.Parameter.VAR_POSITIONAL in kinds:
        return parts
    first = kinds.index(inspect.Parameter.KEYWORD_ONLY)
    return [*parts[:first], "*", *parts[first:]]


def _typed(parameter: inspect.Parameter, scope: dict[str, Any]) -> str:
    text = parameter.name
    if parameter.annotation is not inspect.Parameter.empty:
        text += f": {_annotation(parameter.annotation, scope)}"
    return text if parameter.default is inspect.Parameter.empty else f"{text} = {_value(parameter.default)}"


def _annotation(annotation: Any, scope: dict[str, Any]) -> str:
    text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    text = _ARRAY.sub("ndarray", text)

    def resolve(match: re.Match[str]) -> str:
        name = match[0]
        if name in _ARRAY_ALIASES:
            return "ndarray"
        choices = get_args(scope.get(name)) if get_origin(scope.get(name)) is Literal else ()
        return " | ".join(_value(choice) for choice in choices) if 0 < len(choices) <= MOST_CHOICES else name

    text = re.sub(r"(?<![\w.'\"])[A-Z]\w+\b(?!['\"])", resolve, text)
    text = re.sub(r"\bLiteral\[([^\]]*)\]", lambda match: match[1].replace("'", '"').replace(", ", " | "), text)
    return _PREFIX.sub("", text)


def _value(value: Any) -> str:
    """Return a default as Python writes it, or `…` if that would name an address or fill lines."""
    if isinstance(value, str):
        return '"' + value.replace('"', '\\"') + '"'
    if isinstance(value, tuple):
        return f"({', '.join(map(_value, value))}{',' if len(value) == 1 else ''})"
    if value is None or isinstance(value, bool | int | float):
        return repr(value)
    return "…"


class ClassEntry:
    """What the reference shows of one class."""

    def __init__(self, kind: type, shown_elsewhere: tuple[type, ...] = ()) -> None:
        self._kind = kind
        self._hidden = shown_elsewhere

    @cached_property
    def attributes(self) -> list[Member]:
        """Fields, instance attributes that have a docstring, and properties, in the order of the source."""
        members = {}
        for kind in self._own_classes():
            members.update({member.name: member for member in _fields(kind)})
            for name, value in vars(kind).items():
                function = getattr(value, "fget", None) or getattr(value, "func", None)
                if not name.startswith("_") and function is not None:
                    returned = inspect.signature(function).return_annotation
                    scope = vars(sys.modules[kind.__module__])
                    members[name] = Member(name, f"{name}: {_annotation(returned, scope)}", docstring(value))
        return list(members.values())

    @cached_property
    def methods(self) -> list[Member]:
        """Public methods, in the order of the source."""
        members = {}
        for kind in self._own_classes():
            for name, value in vars(kind).items():
                of_class = isinstance(value, classmethod | staticmethod)
                function = value.__func__ if of_class else value
                if not name.startswith("_") and inspect.isfunction(function):
                    shown = f"{self._kind.__name__}.{name}" if of_class else name
                    bound = not isinstance(value, staticmethod)
                    typed = signature_of(function, shown, bound=bound)
                    short = short_signature(function, shown, bound=bound)
                    members[name] = Member(name, short, docstring(function), typed)
        return list(members.values())

    def _own_classes(self) -> Iterator[type]:
        """Yield the class and its bases in this package, bases first, without what is shown elsewhere."""
        for kind in reversed(self._kind.__mro__):
            if kind.__module__.startswith("sightline") and kind not in (*self._hidden, Settings):
                yield kind


def _fields(kind: type) -> Iterator[Member]:
    """Yield annotated fields with the string below each, and attributes of `__init__` that have such a string."""
    scope = vars(sys.modules[kind.__module__])
    tree = ast.parse(textwrap.dedent(inspect.getsource(kind))).body[0]
    assert isinstance(tree, ast.ClassDef)
    defaults = {f.name: f for f in dataclasses.fields(kind)} if dataclasses.is_dataclass(kind) else {}
    for statement, text in _with_strings(tree.body):
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            name = statement.target.id
            if not name.startswith("_") and not ast.unparse(statement.annotation).startswith("ClassVar"):
                # The help of an option stands for the string below it.
                option = defaults[name].metadata.get("option") if name in defaults else None
                text = text or (option.help if option else "")
                declaration = f"{name}: {_annotation(ast.unparse(statement.annotation), scope)}"
                yield Member(name, declaration + _default(defaults.get(name)), text)
        if isinstance(statement, ast.FunctionDef) and statement.name == "__init__":
            for assignment, note in _with_strings(statement.body):
                if note and isinstance(assignment, ast.Assign) and isinstance(assignment.targets[0], ast.Attribute):
                    yield Member(assignment.targets[0].attr, assignment.targets[0].attr, note)


def _default(field: dataclasses.Field[Any] | None) -> str:
    if field is None:
        return ""
    if field.default is not dataclasses.MISSING:
        return f" = {_value(field.default)}"
    return "" if field.default_factory is dataclasses.MISSING else f" = {_value_of_factory(field.default_factory)}"


def _value_of_factory(factory: Any) -> str:
    return {dict: "{}", list: "[]", tuple: "()"}.get(factory, "…")


def _with_strings(body: list[ast.stmt]) -> Iterator[tuple[ast.stmt, str]]:
    """Yield every statement with the string literal right below it, if there is one."""
    for number, statement in enumerate(body):
        after = body[number + 1] if number + 1 < len(body) else None
        text = ""
        if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant) and isinstance(after.value.value, str):
            text = inspect.cleandoc(after.value.value)
        yield statement, text
