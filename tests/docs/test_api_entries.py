"""What the API reference reads from functions and classes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from numpy.typing import NDArray

from sightline.results.explanation import Explanation
from tools.api_entries import ClassEntry, first_paragraph, short_signature, signature_of

Level = Literal["token", "word"]


def rank(
    scores: NDArray[Any], k: int = 10, *, level: Level = "word", key: Callable[..., Any] = len, **options: Any
) -> list[str]:
    """Rank.

    More.
    """


def test_a_signature_shows_literals_arrays_and_no_address():
    assert signature_of(rank, "rank").splitlines() == [
        "rank(",
        "    scores: ndarray,",
        "    k: int = 10,",
        "    *,",
        '    level: "token" | "word" = "word",',
        "    key: Callable[..., Any] = …,",
        "    **options: Any,",
        ") -> list[str]",
    ]


def test_a_short_signature_leaves_out_the_types_of_arguments():
    assert short_signature(rank, "rank") == 'rank(scores, k=10, *, level="word", key=…, **options) -> list[str]'


def test_a_class_has_its_public_fields_properties_and_methods_with_their_descriptions():
    entry = ClassEntry(Explanation)
    attributes = {member.name: member for member in entry.attributes}
    methods = {member.name: member for member in entry.methods}
    assert attributes["extras"].declaration == "extras: dict[str, ndarray] = {}"
    assert attributes["extras"].text == "Further arrays of the method, by name."
    assert attributes["verdict"].declaration == "verdict: Verdict"  # a property
    assert methods["load"].declaration == "Explanation.load(path) -> Explanation"  # a class method
    assert not [name for name in (*attributes, *methods) if name.startswith("_")]


def test_the_first_paragraph_is_one_line():
    assert first_paragraph("One\ntwo.\n\nThree.") == "One two."
