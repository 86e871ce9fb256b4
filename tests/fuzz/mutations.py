"""Damage that every door can use: values of the wrong type, broken JSON, flipped bytes, hostile strings."""

from __future__ import annotations

import json
from random import Random
from typing import Any

HOSTILE_STRINGS = (
    "",
    "\0",
    "\ud800",
    "\x1b[31m",
    "<script>alert(1)</script>",
    "../../../etc/passwd",
    "/dev/zero",
    "file:///etc/passwd",
    "https://example.invalid/x",
    "a" * 10_000,
    "日本語 \u202e 😀 e\u0301",
    "__class__",
    "nan",
    "1e999",
)
_DEEP = "[" * 3_000 + "]" * 3_000


def odd_value(random: Random) -> Any:
    """Return a JSON value that few programs expect."""
    return random.choice(
        [
            None,
            True,
            False,
            0,
            -1,
            1,
            2,
            3,
            7,
            -(2**31),
            2**31,
            2**63,
            10**30,
            random.randrange(10**9),
            0.5,
            -1.5,
            1e308,
            1e-320,
            [],
            {},
            [[]],
            {"a": {"b": [None]}},
            [0] * 1000,
            random.choice(HOSTILE_STRINGS),
            str(random.randrange(10**6)),
        ]
    )


def paths(value: Any, limit: int = 4_000) -> list[tuple[Any, Any]]:
    """Return (container, key) of the values inside `value`, at most `limit` of them."""
    places: list[tuple[Any, Any]] = []
    waiting = [value] if isinstance(value, dict | list) else []
    while waiting and len(places) < limit:
        container = waiting.pop(0)
        items = container.items() if isinstance(container, dict) else enumerate(container)
        for key, inner in list(items)[:200]:
            places.append((container, key))
            if isinstance(inner, dict | list):
                waiting.append(inner)
    return places


def damage_json(random: Random, content: Any) -> bytes:
    """Return JSON with one to three values changed, removed or renamed; now and then no JSON at all."""
    if random.random() < 0.1:
        return damage_bytes(random, json.dumps(content).encode())
    if random.random() < 0.05:
        return random.choice([b"true", b"[]", b"null", b"3", b'"x"', b"", b"{}", _DEEP.encode(), b"\xff\xfe{}"])
    for _ in range(random.randint(1, 3)):
        places = paths(content)
        if not places:
            break
        # Half of the time near the top, where the settings are.
        container, key = random.choice(places[:40] if random.random() < 0.5 else places)
        action = random.random()
        if action < 0.6:
            container[key] = odd_value(random)
        elif action < 0.75:
            del container[key]
        elif action < 0.85 and isinstance(container, dict):
            container[random.choice([*HOSTILE_STRINGS, str(key) + "_"])] = container.pop(key)
        else:
            other, other_key = random.choice(places)
            try:
                container[key] = json.loads(json.dumps(other[other_key]))
            except (KeyError, IndexError):  # removed meanwhile
                continue
    text = json.dumps(content)
    if random.random() < 0.03:
        text = (
            text.replace(":", ': NaN, "x":', 1) if random.random() < 0.5 else text.replace(":", f': {_DEEP}, "x":', 1)
        )
    return text.encode("utf-8", "surrogatepass")


def damage_bytes(random: Random, raw: bytes) -> bytes:
    """Return bytes with flips, a cut, an insertion or a repetition."""
    damaged = bytearray(raw)
    for _ in range(random.randint(1, 4)):
        if not damaged:
            break
        place = random.randrange(len(damaged))
        action = random.randrange(4)
        if action == 0:
            damaged[place] ^= 1 << random.randrange(8)
        elif action == 1:
            del damaged[place:]
        elif action == 2:
            damaged[place:place] = random.randbytes(random.randint(1, 16))
        else:
            damaged[place:place] = damaged[place : place + 64]
    return bytes(damaged)


def odd_text(random: Random, longest: int = 400) -> str:
    """Return a string of ordinary words, odd characters, or both."""
    alphabets = (
        "abc de. ",
        "the old miller hello world river, ",
        "éüñ日本語😀👩‍👩‍👧 e\u0301\u202e\u200d\ufeff ",
        "\t\n\r\x0b\x0c\x85\u2028 ",
        "\x00\x01\x1b\x7f\ud800\udfff",
        "[CLS][SEP]<s></s><mask>##▁Ġ ",
        "<>&\"'`{}()\\/%$#@!",
    )
    pieces = []
    for _ in range(random.randint(1, 12)):
        alphabet = random.choices(alphabets, weights=(6, 8, 5, 3, 1, 3, 3))[0]
        if random.random() < 0.1:
            pieces.append("".join(chr(random.randrange(0x110000)) for _ in range(random.randint(1, 8))))
        elif random.random() < 0.5:
            pieces.append("".join(random.choices(alphabet.split(" ") or [alphabet], k=random.randint(1, 9))))
        else:
            pieces.append("".join(random.choices(alphabet, k=random.randint(0, longest // 8))))
        pieces.append(random.choice(("", " ", "\n", " ")))
    return "".join(pieces)[:longest]
