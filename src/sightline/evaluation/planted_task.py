"""A task with a known answer: words planted into neutral text decide the label.

A document is a row of neutral words. Documents of the first class hold `planted` words of one small list, those of the
second class as many of another list, those of the third class ("neither") none. Beside them stand as many
distractors: words just as rare and repeated just as often, in documents of every class alike. Positions and words are
drawn at random. Whoever knows the planted words knows the label, and nothing else in the text says anything about it;
without them, the right answer is "neither". So both lists have to be read: absence of one is no sign of the other.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sightline.errors import OptionError

# fmt: off
NEUTRAL = (
    "table", "window", "garden", "river", "stone", "paper", "letter", "morning", "evening",
    "street", "corner", "bridge", "market", "village", "island", "harbour", "mountain", "valley",
    "forest", "meadow", "kitchen", "ladder", "bottle", "basket", "candle", "blanket", "curtain",
    "pocket", "button", "needle", "hammer", "bucket", "wheel", "wagon", "saddle", "feather",
    "pebble", "shadow", "whistle", "ribbon", "mirror", "pillow", "carpet", "drawer", "kettle",
    "spoon", "saucer", "lantern", "barrel", "anchor", "compass", "pencil", "notebook", "envelope",
    "stamp", "ticket", "station", "platform", "tunnel", "tower",
)
# fmt: on
FIRST = ("copper", "velvet", "thunder", "almond")
SECOND = ("silver", "linen", "drizzle", "walnut")
DISTRACTORS = ("marble", "cotton", "breeze", "cherry")
LABELS = ("first", "second", "neither")
_CLASS_WORDS = (FIRST, SECOND, ())


@dataclass(frozen=True)
class PlantedDocument:
    """A text, its class (0 first, 1 second, 2 neither), and the places of its planted words among its words."""

    text: str
    label: int
    planted: tuple[int, ...]


@dataclass(frozen=True)
class PlantedTask:
    """How documents are made: between `shortest` and `longest` words, `planted` of them deciding the label."""

    shortest: int = 12
    longest: int = 24
    planted: int = 1

    def __post_init__(self) -> None:
        if not 1 <= self.planted <= 4:
            raise OptionError(f"planted={self.planted} is outside its range; 1 to 4 words can be planted.")
        if not 3 * self.planted <= self.shortest <= self.longest <= 120:
            raise OptionError(
                f"Documents of {self.shortest} to {self.longest} words are not possible: the shortest needs at least "
                f"{3 * self.planted} words, the longest may have 120."
            )

    def documents(self, count: int, generator: np.random.Generator, labels: int = len(LABELS)) -> list[PlantedDocument]:
        """Return `count` documents, the first `labels` classes in turn."""
        return [self._document(number % labels, generator) for number in range(count)]

    def _document(self, label: int, generator: np.random.Generator) -> PlantedDocument:
        length = int(generator.integers(self.shortest, self.longest + 1))
        words = list(generator.choice(NEUTRAL, size=length))
        places = generator.permutation(length)
        planted = places[: self.planted] if _CLASS_WORDS[label] else places[:0]
        for place in planted:
            words[place] = generator.choice(_CLASS_WORDS[label])
        for place in places[self.planted : 2 * self.planted]:
            words[place] = generator.choice(DISTRACTORS)
        return PlantedDocument(" ".join(words), label, tuple(sorted(int(place) for place in planted)))


def vocabulary() -> list[str]:
    """Return every word a document can hold."""
    return [*NEUTRAL, *FIRST, *SECOND, *DISTRACTORS]
