"""What tells functions of the same name apart: a hash of their code, and of the estimators that they use.

It covers bytecode, constants, default values, and what the code reads from around it: functions of the same package,
estimators of scikit-learn, texts and numbers that it does not change itself. Other objects count by their type alone,
because they may change with every call. A function with an attribute `fingerprint` says itself what it is.
"""

from __future__ import annotations

import dis
import functools
import hashlib
from collections.abc import Iterable, Iterator, Mapping, Set
from types import CodeType, FunctionType, MethodType
from typing import Any

import numpy as np

Constant = str | bytes | int | float | complex | bool | None
_WRITES = frozenset({"STORE_GLOBAL", "STORE_DEREF", "DELETE_GLOBAL", "DELETE_DEREF"})


def fingerprint_function(source: Any) -> str:
    """Return a hash of what a function, or an object that answers like one, computes, as far as its code shows it."""
    own = getattr(source, "fingerprint", None)
    if own is not None:
        return str(own)
    package = (getattr(source, "__module__", None) or type(source).__module__).partition(".")[0]
    digest = hashlib.blake2b(digest_size=16)
    for part in _describe(source, {}, package):
        digest.update(part + b"\0")
    return digest.hexdigest()


def _describe(value: Any, seen: dict[int, Any], package: str) -> Iterator[bytes]:
    """Yield what identifies a value. Each object is described once; functions of other packages have names only."""
    held = value.value if isinstance(value, _Learned) else value
    yield f"{type(value).__qualname__} {type(held).__qualname__}".encode()
    if isinstance(held, Constant):
        yield repr(held).encode()
        return
    if id(held) in seen:
        return
    seen[id(held)] = held
    for part in _parts(value, package):
        yield from _describe(part, seen, package)


def _parts(value: Any, package: str) -> Iterable[Any]:
    if isinstance(value, FunctionType):
        name = (value.__module__, value.__qualname__)
        if (value.__module__ or "").partition(".")[0] != package:
            return name
        return [value.__code__, value.__defaults__, value.__kwdefaults__, *_surroundings(value)]
    if isinstance(value, MethodType):
        estimator = hasattr(value.__self__, "get_params")
        return [value.__qualname__ if estimator else value.__func__, value.__self__]
    if isinstance(value, functools.partial):
        return [value.func, value.args, *value.keywords.items()]
    if isinstance(value, CodeType):
        return [value.co_code, value.co_names, value.co_varnames, *value.co_consts]
    if isinstance(value, frozenset):
        return sorted(map(repr, value))
    if isinstance(value, _Learned):
        return value.parts()
    if isinstance(value, tuple):
        return value
    if hasattr(value, "get_params") and not isinstance(value, type):
        return [_Learned(vars(value))]
    called = vars(type(value)).get("__call__")
    return [called] if isinstance(called, FunctionType) else ()


def _surroundings(function: FunctionType) -> Iterator[Any]:
    """Yield what a function reads of the names around it and does not write, containers that may change left out."""
    written = {step.argval for step in dis.get_instructions(function) if step.opname in _WRITES}
    code, around = function.__code__, function.__globals__
    cells = dict(zip(code.co_freevars, function.__closure__ or (), strict=True))
    read = {name: around[name] for name in code.co_names if name in around}
    for name, cell in cells.items():
        try:
            read[name] = cell.cell_contents
        except ValueError:  # not assigned yet
            continue
    for name in sorted(read.keys() - written):
        yield name
        yield read[name]


class _Learned:
    """A part of an estimator, of which all that it holds counts."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def parts(self) -> Iterator[Any]:
        """Yield its parts, learned ones again as such."""
        value = self.value
        if isinstance(value, Constant | FunctionType):
            yield value
        elif isinstance(value, np.ndarray | np.generic):
            yield str((value.dtype, value.shape))
            if value.dtype.hasobject:
                yield from map(_Learned, np.asarray(value).ravel().tolist())
            else:
                yield np.ascontiguousarray(value).tobytes()
        elif isinstance(value, Mapping):
            for name, entry in value.items():
                yield from (_Learned(name), _Learned(entry))
        elif isinstance(value, Set):
            yield from sorted(map(repr, value))
        elif isinstance(value, list | tuple):
            yield from map(_Learned, value)
        else:
            compiled = getattr(value, "__dict__", None) is None and not isinstance(value, type)
            yield _Learned(value.__getstate__() if compiled else vars(value))
