"""Settings: the options of a capability, declared once; every door derives its own form from the declaration.

A capability has one frozen dataclass. The type of a field says which values it takes, and `option` adds bounds, the
sentence of help and how the doors spell it:

    @dataclass(frozen=True, kw_only=True)
    class CheckSettings(Settings):
        check: bool = option(False, help="Test the explanation against random words.")
        check_readings: int | None = option(None, low=8, help="Most documents that the check may read.")

        rules = (unused("check_readings", when=lambda settings: not settings.check, reason="needs {check}."),)

A value that does not fit, and an option that would have no effect, are refused when the object is made: in Python, on
the command line and on the server alike. Messages spell options as the present door does (`through`).
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self, get_args, get_origin, get_type_hints

from sightline.errors import OptionError
from sightline.registry import suggestion
from sightline.settings.values import check_one_of, describe_type, fits, without_none

Door = Literal["python", "shell", "request"]
"""Where settings come from: keywords, the command line, or the body of a request to the server."""
_door: ContextVar[Door] = ContextVar("door", default="python")
_MOST_SENTENCES = 3


@dataclass(frozen=True)
class Option:
    """A field of a settings class."""

    help: str
    flag: tuple[str, ...] = ()
    """Spellings on the command line; by default the name with dashes."""
    positional: bool = False
    """Whether the command line takes it as an argument, not as an option."""
    metavar: str | None = None
    variable: str | None = None
    """The environment variable that the command line reads it from where it is not given."""
    low: float | None = None
    """Smallest number, or fewest items of a list."""
    high: float | None = None
    above: float | None = None
    """The number that a value must exceed."""
    below: float | None = None
    """The number that a value must stay under."""
    read: Callable[[Any], Any] | None = None
    """How the command line turns what was typed into the value, where the type alone does not say."""
    expects: str | None = None
    """In words, which values are accepted, where type and bounds do not say it."""
    server: bool | int = True
    """Whether a request to the server may set it; a number is the largest value, or longest list, of a request."""
    request_help: str | None = None
    """What the server's description says instead of `help`."""
    name: str = ""
    kind: Any = None
    default: Any = None

    def spell(self, value: Any = None) -> str:
        """Return the option as the present door spells it; of a switch, as it is set to `value`."""
        if _door.get() == "request":
            return f"The field '{self.name}'"
        if _door.get() == "python":
            return f"{self.name}={value}" if isinstance(value, bool) else self.name
        on, _, off = self.flags[0].partition("/")
        return off if value is False and off else on

    @property
    def flags(self) -> tuple[str, ...]:
        """All spellings on the command line."""
        return self.flag or (f"--{self.name.replace('_', '-')}",)

    def bounds(self) -> tuple[float | None, float | None]:
        """Return the smallest and the largest value, or length, that the present door accepts."""
        limited = _door.get() == "request" and not isinstance(self.server, bool)
        return self.low, self.server if limited else self.high

    def expected(self) -> str:
        """Return in words which values the present door accepts."""
        if self.expects is not None:
            return self.expects
        low, high = self.bounds()
        words = describe_type(without_none(self.kind), str)
        if self.above is not None or self.below is not None:
            ends = (("above", self.above), ("of at least", self.low), ("below", self.below))
            return f"{words} {' and '.join(f'{word} {end:g}' for word, end in ends if end is not None)}"
        if high is not None:
            span = f"{low or 0:g} to {high:g}"
            return words.replace("a list of", f"a list of {span}") if "list" in words else f"{words} from {span}"
        return words if low is None else f"{words} of at least {low:g}"

    def accepts(self, value: Any) -> bool:
        """Whether the value fits type and bounds."""
        if value is None or not fits(value, self.kind):
            return fits(value, self.kind)
        number = len(value) if isinstance(value, tuple) else value
        if isinstance(number, str | bool | Mapping) or not isinstance(number, int | float):
            return True
        low, high = self.bounds()
        outside = (
            (low is not None and number < low)
            or (high is not None and number > high)
            or (self.above is not None and number <= self.above)
            or (self.below is not None and number >= self.below)
        )
        return not outside


def option(default: Any = dataclasses.MISSING, *, help: str, flag: str | tuple[str, ...] = (), **facts: Any) -> Any:
    """Return a dataclass field that is an option; `facts` are further fields of `Option`."""
    flags = (flag,) if isinstance(flag, str) else flag
    metadata = {"option": Option(help, flags, default=default, **facts)}
    if default == {}:
        return dataclasses.field(default_factory=dict, metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


def declared_options(settings: type[Settings]) -> dict[str, Option]:
    """Return the options of a settings class by name, those of its bases first."""
    if settings not in _declared:
        _declared[settings] = _list_options(settings)
    return _declared[settings]


_declared: dict[type[Settings], dict[str, Option]] = {}


def _list_options(settings: type[Settings]) -> dict[str, Option]:
    hints = get_type_hints(settings)
    return {
        field.name: dataclasses.replace(field.metadata["option"], name=field.name, kind=hints[field.name])
        for field in dataclasses.fields(settings)
        if "option" in field.metadata
    }


OptionRule = Callable[[Any], None]
"""Raises OptionError if the values of a settings object are inconsistent."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Base of all settings: values are checked when the object is made."""

    rules: ClassVar[tuple[OptionRule, ...]] = ()

    def __post_init__(self) -> None:
        sentences = []
        for name, declared in declared_options(type(self)).items():
            value = getattr(self, name)
            if isinstance(value, list):
                value = tuple(value)
                object.__setattr__(self, name, value)
            if not declared.accepts(value):
                sentences.append(_complaint(declared, value))
        if sentences:
            raise OptionError(" ".join(sentences[:_MOST_SENTENCES]))
        for base in type(self).__mro__:
            for rule in vars(base).get("rules", ()):
                rule(self)

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Self:
        """Return the settings in the body of a request."""
        known = {name: declared for name, declared in declared_options(cls).items() if declared.server}
        sentences = [
            f"There is no field '{name[:60]}'.{suggestion(name, list(known))} Known: {', '.join(known)}."
            for name in record
            if name not in known
        ]
        sentences += [
            f"The field '{name}' is missing."
            for name, declared in known.items()
            if declared.default is dataclasses.MISSING and name not in record
        ]
        if sentences:
            raise OptionError(" ".join(sentences[:_MOST_SENTENCES]))
        with through("request"):
            return cls(**record)

    def keywords(self, function: Callable[..., Any], *, without: Collection[str] = ()) -> dict[str, Any]:
        """Return the settings that `function` takes, by the names of its parameters.

        without: names with another meaning there.
        """
        parameters = inspect.signature(function).parameters.values()
        named = {parameter.name for parameter in parameters if parameter.kind is not parameter.VAR_KEYWORD}
        return {
            name: getattr(self, name) for name in declared_options(type(self)) if name in named and name not in without
        }

    def is_given(self, name: str) -> bool:
        """Whether the option differs from its default."""
        return bool(getattr(self, name) != declared_options(type(self))[name].default)


def _complaint(declared: Option, value: Any) -> str:
    if _door.get() == "request":  # what is sent may be long
        return f"{declared.spell()} must be {declared.expected()}."
    kind = without_none(declared.kind)
    try:
        if get_origin(kind) is Literal:
            check_one_of(declared.spell(), value, get_args(kind))
    except OptionError as error:
        return str(error)
    return f"{declared.spell()} must be {declared.expected()}, not {value!r}."


def unused(*names: str, when: Callable[[Any], bool], reason: str) -> OptionRule:
    """Return a rule: none of these options may be given `when` it would have no effect.

    reason: the rest of the sentence; other options stand in braces, for example "needs a page: add {page} FOLDER.", a
    switch that is off with no_ before its name.
    """

    def rule(settings: Settings) -> None:
        if when(settings):
            declared = declared_options(type(settings))
            spelled = {
                name: other.spell(True if without_none(other.kind) is bool else None)
                for name, other in declared.items()
            }
            spelled |= {f"no_{name}": other.spell(False) for name, other in declared.items()}
            for name in names:
                if settings.is_given(name):
                    raise OptionError(f"{declared[name].spell(getattr(settings, name))} {reason.format(**spelled)}")

    return rule


@contextmanager
def through(door: Door) -> Iterator[None]:
    """Let messages spell options as `door` does, and apply its bounds."""
    token = _door.set(door)
    try:
        yield
    finally:
        _door.reset(token)
