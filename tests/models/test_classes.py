"""A label means one class, whoever reads it: names first, then numbers of classes, never both in one column."""

from __future__ import annotations

import contextlib
import itertools

import pytest

from sightline.errors import InputError, TargetError
from sightline.models.classes import classes_of
from sightline.models.target import class_index

NAMED, STARS, SIGNS = ("negative", "positive"), ("1", "2"), ("-1", "1")


@pytest.mark.parametrize(
    ("column", "names", "classes"),
    [
        ([0, 1, None], NAMED, {0: 0, 1: 1}),
        (["Negative", "positive "], NAMED, {"Negative": 0, "positive ": 1}),
        ([1, 2], STARS, {1: 0, 2: 1}),
        (["1.0", "2"], STARS, {"1.0": 0, "2": 1}),
        ([2], STARS, {2: 1}),
        ([1, 3], STARS, {1: 0, 3: None}),
        ([-1, 1], SIGNS, {-1: 0, 1: 1}),
        ([-1, 1], NAMED, {-1: None, 1: None}),
        ([1, 2], NAMED, {1: None, 2: None}),
        (["positive", "unheard-of"], NAMED, {"positive": 1, "unheard-of": None}),
        (["Bad", "bad"], ("bad", "Bad"), {"Bad": 1, "bad": 0}),
        (["cafe\N{COMBINING ACUTE ACCENT}"], ("caf\N{LATIN SMALL LETTER E WITH ACUTE}",), {"cafe\u0301": 0}),
    ],
)
def test_a_column_holds_names_or_numbers(column, names, classes):
    assert classes_of(column, names) == classes


def test_a_column_of_both_is_refused():
    with pytest.raises(InputError, match="can only be the number of a class"):
        classes_of([0, 1, "negative"], NAMED)


@pytest.mark.parametrize("names", [STARS, SIGNS, ("1", "2", "3", "4", "5"), ("0", "1", "10"), NAMED])
def test_a_label_means_the_same_class_in_a_data_set_and_in_a_part_of_it(names):
    """Or it means none, or the data set is refused."""
    labels = [-1, 0, 1, 2, 3, *names]
    meanings: dict[object, set[int]] = {}
    for column in itertools.chain.from_iterable(itertools.combinations(labels, n) for n in (1, 2, 3)):
        with contextlib.suppress(InputError):
            for label, index in classes_of(column, names).items():
                meanings.setdefault(label, set()).update([] if index is None else [index])
    assert all(len(classes) <= 1 for classes in meanings.values())
    assert all(meanings[name] == {index} for index, name in enumerate(names))


@pytest.mark.parametrize("column", [[0], [0, 1], [0, 2]])
def test_a_number_that_may_be_a_position_is_refused_where_classes_are_named_by_numbers(column):
    with pytest.raises(InputError, match="no class named '0'"):
        classes_of(column, STARS)


def test_a_name_that_two_classes_share_but_for_case_is_refused():
    with pytest.raises(TargetError, match="may be the class 'bad' or 'Bad'"):
        classes_of(["BAD"], ("bad", "Bad"))


def test_a_number_alone_is_a_name_where_classes_are_named_by_other_numbers():
    assert class_index(1, STARS) == class_index("1", STARS) == 0
    assert class_index(1, NAMED) == class_index("POSITIVE", NAMED) == 1
    assert class_index(-1, SIGNS) == 0
    for names in (STARS, SIGNS):
        with pytest.raises(TargetError, match="no class named '0'"):
            class_index(0, names)


def test_a_number_is_the_id_of_a_token_in_a_vocabulary():
    assert class_index(1, STARS, closed=False) == 1
