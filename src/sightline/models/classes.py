"""Which class of a model a label means: one rule for targets, for the labels of a data set, and between two models.

1. A label that is the name of a class means that class. The names are compared exactly first, then without regard to
   case, to blanks around them, and to how an accent or a whole number is written ("1", "1.0" and "+1" are one number).
2. A whole number that is no name is the number of a class, counted from 0. Where a class is named by a number other
   than its own, as with the classes "1" and "2", every number is a name: 1 means the class "1", 3 means no class, and
   0, which could be meant as the number of a class, is refused.
3. The labels of one column are all names or all numbers of classes, never both.

A label therefore never means one class in a whole data set and another one in a part of it. It may mean none in the
whole: 1 and 2 for two classes were not counted from 0, which a part with the label 1 alone does not show.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from typing import TypeAlias

from sightline.errors import InputError, TargetError

Label: TypeAlias = "int | str"
_WHOLE_NUMBER = re.compile(r"\s*[+-]?\d{1,18}(\.0+)?\s*")
_MOST_LISTED = 20


def class_named(label: Label, names: Sequence[str]) -> int | None:
    """Return the class with this name (rule 1), or None; raise TargetError if several classes match."""
    return _Names(names).find(label)


def are_named_by_numbers(names: Sequence[str]) -> bool:
    """Whether a class is named by a number other than its own, as with the classes "1" and "2"."""
    return any((number := whole_number(name)) is not None and number != index for index, name in enumerate(names))


def no_class_number(number: Label, names: Sequence[str]) -> str:
    """Return the error sentence for a number that does not name a class, where classes are named by numbers."""
    return (
        f"There is no class named '{number}'. The classes of this model are named by numbers, so that a number is "
        f"always a name: {list_names(names)}."
    )


def classes_of(labels: Iterable[Label | None], names: Sequence[str]) -> dict[Label, int | None]:
    """Return the class of every label in a column by the rule above; None for a label that means no class.

    Numbers of which some are no class mean none: 1 and 2 for two classes were not counted from 0. InputError for a
    column of both names and numbers of classes, and for a number that may be meant as the number of a class where
    classes are named by numbers.
    """
    distinct = [label for label in dict.fromkeys(labels) if label is not None]
    known = _Names(names)
    named = {label: known.find(label) for label in distinct}
    numbers = {label: number for label in distinct if (number := whole_number(label)) is not None}
    only_numbers = [label for label, number in numbers.items() if named[label] is None and 0 <= number < len(names)]
    if not only_numbers:
        return named
    if are_named_by_numbers(names):
        raise InputError(no_class_number(only_numbers[0], names))
    if all(0 <= number < len(names) for number in numbers.values()) and not any(
        index is not None for label, index in named.items() if label not in numbers
    ):
        return {label: numbers.get(label) for label in distinct}
    with_name = next((label for label, index in named.items() if index is not None), None)
    if with_name is None:
        return dict.fromkeys(distinct)
    raise InputError(
        f"The labels cannot be told apart: '{only_numbers[0]}' can only be the number of a class, counted from 0, and "
        f"'{with_name}' only its name. Write the names of the classes in all rows: {list_names(names)}."
    )


def whole_number(label: Label) -> int | None:
    """Return a label as an integer; None if it is not a whole number."""
    if isinstance(label, str):
        return int(label.strip().partition(".")[0]) if _WHOLE_NUMBER.fullmatch(label) else None
    return int(label)


def list_names(names: Sequence[str]) -> str:
    """Return the names of classes for a message, the first twenty of them."""
    return ", ".join(names[:_MOST_LISTED]) + (", …" if len(names) > _MOST_LISTED else "")


def no_class(label: Label | None, names: Sequence[str]) -> str:
    """Return the error sentence for a label that does not identify a class."""
    return f"The label '{label}' is not a class of the model. Its classes: {list_names(names)}."


class _Names:
    """The names of classes, to look labels up."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names = names
        self.exact = {name: index for index, name in reversed(list(enumerate(names)))}
        self.alike: dict[str, list[int]] = {}
        for index, name in enumerate(names):
            self.alike.setdefault(fold_label(name), []).append(index)

    def find(self, label: Label) -> int | None:
        """Return the class with this name, or None; raise TargetError if several classes match."""
        if str(label) in self.exact:
            return self.exact[str(label)]
        alike = self.alike.get(fold_label(label), [])
        if len(alike) > 1:
            first, second = (self.names[index] for index in alike[:2])
            raise TargetError(f"'{label}' may be the class '{first}' or '{second}': write it as the model does.")
        return alike[0] if alike else None


def fold_label(label: Label) -> str:
    """Return a key that ignores case, blanks, and how a whole number or an accent is written.

    An accent may be a character of its own, which nobody sees.
    """
    number = whole_number(label)
    return " ".join(unicodedata.normalize("NFC", str(label)).casefold().split()) if number is None else str(number)
