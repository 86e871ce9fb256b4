"""Argument checks: what is accepted, and the one sentence that is said otherwise."""

from __future__ import annotations

import numpy as np
import pytest

from sightline.errors import OptionError, TargetError
from sightline.settings.values import (
    check_count,
    check_fraction,
    check_head,
    check_index,
    check_layer,
    check_one_of,
    check_position,
    check_seed,
)


def test_whole_numbers_of_any_type_are_returned_as_ints():
    for value in (3, np.int64(3), np.uint8(3)):
        assert check_count("k", value) == 3
        assert type(check_count("k", value)) is int
    assert check_count("k", 0, 0) == 0
    assert check_count("seed", -5, None) == -5
    assert check_seed(2**32 - 1) == 2**32 - 1


def test_negative_layers_count_from_the_top_and_nothing_else_may_be_negative():
    assert [check_layer(layer, 4) for layer in (0, 3, -1, -4)] == [0, 3, 3, 0]
    assert check_head(3, 4) == check_position(3, 4) == check_index("Row", 3, 4) == 3


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: check_count("k", 0), "k must be a whole number of at least 1, not 0."),
        (lambda: check_count("k", 2.0), "k must be a whole number of at least 1, not 2.0."),
        (lambda: check_count("k", True), "k must be a whole number of at least 1, not True."),
        (lambda: check_count("seed", "x", None), "seed must be a whole number, not 'x'."),
        (lambda: check_seed(2**32), "seed must be a whole number from 0 to 4294967295, not 4294967296."),
        (lambda: check_fraction("share", 1.0), "share must lie strictly between 0 and 1, not 1.0."),
        (lambda: check_fraction("share", float("nan")), "share must lie strictly between 0 and 1, not nan."),
        (lambda: check_layer(14, 12), "Layer 14 asked for, the model has 12 (0-11)."),
        (lambda: check_layer(-13, 12), "Layer -13 asked for, the model has 12 (0-11)."),
        (lambda: check_layer("top", 12), "Layer must be a whole number, not 'top'."),
        (lambda: check_head(-1, 4), "Head -1 asked for, the model has 4 (0-3)."),
        (lambda: check_position(9, 9), "Token 9 asked for, the document has 9 (0-8)."),
        (lambda: check_one_of("pool", "meam", ("mean", "max")), "pool='meam' is not known. Did you mean 'mean'? "
         "Use one of: mean, max."),
    ],
)  # fmt: skip
def test_what_is_refused_is_named_with_what_is_allowed(call, sentence):
    with pytest.raises(OptionError) as error:
        call()
    assert str(error.value) == sentence


def test_the_kind_of_error_can_be_chosen():
    with pytest.raises(TargetError, match="Token 5 asked for"):
        check_position(5, 5, error=TargetError)
