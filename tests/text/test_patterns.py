"""Expressions of tokenizers in use are accepted; those that can take exponential or very long time are not."""

import pytest

from sightline.text.tokenizer_limits import MAX_LENGTH, why_unsafe

IN_USE = {
    "GPT-2": r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
    "Llama 3": r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+",
    "GPT-4o": r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    "BLOOM": r" ?[^(\s|[.,!?…。，、।۔،])]+",
    "CLIP": r"<\|startoftext\|>|<\|endoftext\|>|'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+",
    "DeepSeek": r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"
    r"| ?[\p{P}\p{S}]+[\r\n]*",
    "SentencePiece spaces": " {2,}",
    "brace": "a{b",
    "flags": "(?i)abc",
    "bracket first": "[]a]+",
    "optional group": "(?:a+b)?c",
}


@pytest.mark.parametrize("name", sorted(IN_USE))
def test_expressions_in_use_are_accepted(name):
    assert why_unsafe(IN_USE[name]) is None


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        ("(a+)+$", "repeats a group"),
        ("(?:a*)*", "repeats a group"),
        ("((a+)b?)+", "repeats a group"),
        ("(a|a)*b", "repeats a group"),
        ("(?:a|ab|b){2,}", "repeats a group"),
        ("(a?){60}", "repeats a group"),
        ("(a{0,9}){0,9}", "repeats a group"),
        ("a+*", "repeats a repetition"),
        (r"(a)\1", "refers back"),
        (r"(?<n>a)\k<n>", "refers back"),
        (r"(a\g<1>?)", "refers back"),
        (r"(?~abc)", "refers back"),
        ("a*a*a*a*a*b", "more than 4 repetitions"),
        ("(?:a*b)(?:a*c)(?:a*d)(?:a*e)(?:a*f)", "more than 4 repetitions"),
        ("a{1,99999}" * 5, "more than 4 repetitions"),
        ("(a", "leaves a group open"),
        ("a)", "was not opened"),
        ("x" * (MAX_LENGTH + 1), "is longer than"),
    ],
)
def test_expressions_that_could_take_forever_are_named(pattern, reason):
    assert reason in why_unsafe(pattern)
