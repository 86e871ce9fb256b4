"""A registry: entries looked up by name, listed in order, and extended by other packages through entry points.

A package adds entries by declaring an entry point in its own metadata; importing the module named there registers them:

    [project.entry-points."sightline.methods"]
    my-package = "my_package.methods"

Entry points are loaded on the first lookup or listing, after the entries of Sightline itself.
"""

from __future__ import annotations

import difflib
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Generic, Protocol, TypeVar

from sightline.errors import OptionError, PluginWarning

BUILT_IN = "sightline"
"""The origin of every entry that is part of Sightline."""
METHOD_PLUGINS = "sightline.methods"
METRIC_PLUGINS = "sightline.metrics"


class Entry(Protocol):
    """What every registered entry says about itself."""

    @property
    def name(self) -> str:
        """The name users type."""

    @property
    def summary(self) -> str:
        """One sentence: what it computes."""

    @property
    def citation(self) -> str:
        """Where it comes from."""

    @property
    def function(self) -> Callable[..., Any]:
        """The registered function."""

    @property
    def origin(self) -> str:
        """The package that registered it: see `origin_of`."""


E = TypeVar("E", bound=Entry)


def suggestion(name: str, known: list[str]) -> str:
    """Return " Did you mean 'x'?" when a known name is close, else an empty string."""
    close = difflib.get_close_matches(name, known, n=1)
    return f" Did you mean '{close[0]}'?" if close else ""


def origin_of(function: Callable[..., Any]) -> str:
    """Return who provides `function`: "sightline", the name and version of a plug-in's distribution, or a module."""
    module = getattr(function, "__module__", None) or type(function).__module__
    package = module.partition(".")[0]
    return BUILT_IN if package == BUILT_IN else _plugin_distributions().get(package, module)


@cache
def _plugin_distributions() -> dict[str, str]:
    """Return "name version" of every distribution that declares a plug-in, by its top-level package."""
    return {
        point.module.partition(".")[0]: _distribution(point)
        for group in (METHOD_PLUGINS, METRIC_PLUGINS)
        for point in entry_points(group=group)
    }


def _distribution(point: EntryPoint) -> str:
    return f"{point.dist.name} {point.dist.version}" if point.dist is not None else point.module


class Registry(Generic[E]):
    """An ordered mapping from name to entry.

    `kind` ("method", "metric") is used in messages; `plugins` is the entry-point group from which other packages are
    loaded, if any; `aliases` are other names that entries are known by; `modules` of this package register entries when
    they are imported, at the latest on the first lookup, and are listed in this order.
    """

    def __init__(
        self,
        kind: str,
        plugins: str | None = None,
        aliases: Mapping[str, str] | None = None,
        modules: Sequence[str] = (),
    ) -> None:
        self.kind = kind
        self._aliases = dict(aliases or {})
        self._plugins = plugins
        self._modules = list(modules)
        self._entries: dict[str, E] = {}
        self._lock = threading.RLock()

    def add(self, entry: E) -> None:
        """Register `entry`; a name can be taken again only by a new definition of the same function."""
        if not isinstance(entry.name, str) or not entry.name.isidentifier():
            raise OptionError(
                f"{entry.name!r} is not a valid {self.kind} name. Use letters, digits and underscores only, "
                f"for example 'my_{self.kind}'."
            )
        if entry.origin != BUILT_IN:
            self._load_modules()  # whose names are taken
        existing = self._entries.get(entry.name)
        if existing is not None and not _is_redefinition(existing, entry):
            raise OptionError(
                f"The {self.kind} name '{entry.name}' is already taken by {existing.origin}. Register yours under "
                "another name."
            )
        self._entries[entry.name] = entry

    def get(self, name: str) -> E:
        """Return the entry called `name`; raise OptionError with the known names if there is none."""
        if not isinstance(name, str):
            raise OptionError(f"A {self.kind} is chosen by its name, a string, not {type(name).__name__}.")
        entries = self._load()
        try:
            return entries[name if name in entries else self._aliases.get(name, name)]
        except KeyError:
            names = sorted(entries)
            raise OptionError(
                f"There is no {self.kind} called '{name}'.{suggestion(name, names)} Known: {', '.join(names)}."
            ) from None

    def names(self) -> list[str]:
        """All names in order of registration."""
        return list(self._load())

    def __iter__(self) -> Iterator[E]:
        return iter(list(self._load().values()))

    def __len__(self) -> int:
        return len(self._load())

    def __contains__(self, name: object) -> bool:
        return name in self._load()

    def _load(self) -> dict[str, E]:
        """Return the entries after loading the plug-ins, once; a plug-in that fails is left out with a warning."""
        with self._lock:
            self._load_modules()
            group, self._plugins = self._plugins, None  # cleared first: a plug-in may list the entries while it loads
            for point in sorted(entry_points(group=group), key=lambda point: point.name) if group else ():
                before = dict(self._entries)
                try:
                    point.load()
                except Exception as error:
                    self._entries = before
                    warnings.warn(
                        f"The plug-in '{point.name}' ({_distribution(point)}) was not loaded: "
                        f"{type(error).__name__}: {error}",
                        PluginWarning,
                        stacklevel=1,
                    )
            return self._entries

    def _load_modules(self) -> None:
        """Import the modules of this package, once, and put their entries in order."""
        with self._lock:
            modules, self._modules = self._modules, []
            for module in modules:
                import_module(module)
            if modules:
                places = {module: place for place, module in enumerate(modules)}
                last = len(modules)
                self._entries = dict(
                    sorted(self._entries.items(), key=lambda item: places.get(item[1].function.__module__, last))
                )


def _is_redefinition(existing: Entry, entry: Entry) -> bool:
    """Whether both entries hold the same function of the same module, as when a notebook cell is run again."""
    if existing.origin == BUILT_IN:
        return False
    before, after = existing.function, entry.function
    return all(getattr(before, name, before) == getattr(after, name, after) for name in ("__module__", "__qualname__"))
