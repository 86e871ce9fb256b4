"""ContinuationExplanation: how much every earlier token contributed to each token of a generated text.

Row t explains generated token t as the prediction behind everything before it: an `Explanation` of the first p + t
tokens, where p is the number of tokens of the prompt. Put together, the rows are a matrix (g, n) of g generated tokens
by the n tokens of prompt and generated text, which is zero from the generated token on.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sightline import storage
from sightline.arguments import check_count
from sightline.errors import InputError, ModelError
from sightline.explanation import Explanation
from sightline.files import write_whole
from sightline.foreign import read_json
from sightline.record_checks import check_list, check_object, check_whole, is_newer, read_numbers
from sightline.text import Encoding
from sightline.text.units import Level, Units, units_of

if TYPE_CHECKING:
    import pandas as pd

FORMAT = "sightline-continuation"
VERSION = 1


@dataclass(frozen=True, eq=False, repr=False)
class ContinuationExplanation:
    """The explanations of all tokens of a generated text, by one method; g generated tokens, n tokens in all."""

    rows: tuple[Explanation, ...]
    """One explanation per generated token, each over the tokens before it."""
    encoding: Encoding
    """Prompt and generated text, n tokens."""
    prompt_length: int
    """Tokens of the prompt."""
    probabilities: NDArray[np.float64]
    """(g,) the probability that the model gives each generated token after what precedes it."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "rows", tuple(self.rows))
        probabilities = np.array(self.probabilities, dtype=np.float64)
        probabilities.setflags(write=False)
        object.__setattr__(self, "probabilities", probabilities)
        expected = range(self.prompt_length, len(self.encoding))
        lengths = [len(row.encoding) for row in self.rows]
        if not self.rows or lengths != list(expected) or probabilities.shape != (len(lengths),):
            raise ValueError("a continuation needs one explanation per generated token, over the tokens before it")

    def __repr__(self) -> str:
        return (
            f"<ContinuationExplanation by {self.method}: {len(self)} generated tokens after a prompt of "
            f"{self.prompt_length}: {self.text[:40]!r}>"
        )

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def method(self) -> str:
        """The method of all rows."""
        return self.rows[0].method

    @property
    def signed(self) -> bool:
        """Whether negative scores count against the generated token."""
        return self.rows[0].signed

    @property
    def provenance(self) -> dict[str, Any]:
        """What produced it: model, hash of its weights, versions."""
        return self.rows[0].provenance

    @property
    def tokens(self) -> tuple[str, ...]:
        """The tokens of prompt and generated text as a person sees them, one per column of the matrix."""
        return self.encoding.tokens

    @property
    def generated(self) -> tuple[str, ...]:
        """The generated tokens, one per row of the matrix."""
        return self.encoding.tokens[self.prompt_length :]

    @property
    def text(self) -> str:
        """The generated text."""
        positions = np.flatnonzero(~self.encoding.special[self.prompt_length :]) + self.prompt_length
        if not len(positions):
            return ""
        first, last = self.encoding.offsets[positions[0], 0], self.encoding.offsets[positions[-1], 1]
        return self.encoding.text[int(first) : int(last)]

    @cached_property
    def matrix(self) -> NDArray[np.floating[Any]]:
        """Scores (g, n): row t is zero from generated token t on."""
        matrix = np.zeros(
            (len(self), len(self.encoding)), dtype=np.result_type(*(row.scores.dtype for row in self.rows))
        )
        for number, row in enumerate(self.rows):
            matrix[number, : len(row.scores)] = row.scores
        matrix.setflags(write=False)
        return matrix

    def total(self) -> NDArray[np.float64]:
        """Return the scores (n,) summed over the generated tokens: what the whole text owes to every token."""
        return np.asarray(self.matrix.sum(axis=0, dtype=np.float64))

    def units(self, level: Level = "word") -> Units:
        """Return the words, sentences or paragraphs of prompt and generated text as groups of tokens."""
        return units_of(self.encoding, level)

    def sums(self, generated: Level = "word", tokens: Level = "word") -> NDArray[np.float64]:
        """Return the matrix summed over units, (generated units, units of all tokens).

        A unit counts as generated if its first token is. Special tokens belong to no unit.
        """
        columns, of_rows = self.units(tokens), self.generated_units(generated)
        folded = columns.fold(self.matrix)
        return np.stack([folded[list(rows)].sum(axis=0) for rows in of_rows.values()]) if of_rows else folded[:0]

    def generated_units(self, level: Level = "word") -> dict[int, tuple[int, ...]]:
        """Return the rows of every generated unit, by its number among `units(level)`."""
        units = self.units(level)
        return {
            number: tuple(int(position) - self.prompt_length for position in positions)
            for number, positions in enumerate(units.tokens)
            if positions[0] >= self.prompt_length
        }

    def top(self, k: int = 5, level: Level = "word") -> list[tuple[str, list[tuple[str, float]]]]:
        """Return every generated word with the k earlier words that score highest by magnitude, strongest first."""
        check_count("k", k, 1)
        units, sums = self.units(level), self.sums(level, level)
        listed = []
        for number, scores in zip(self.generated_units(level), sums, strict=True):
            order = [int(i) for i in np.argsort(-np.abs(scores), kind="stable")[:k] if scores[i] and i != number]
            listed.append((units.texts[number], [(units.texts[i], float(scores[i])) for i in order]))
        return listed

    def to_frame(self, level: Level = "token") -> pd.DataFrame:
        """Return a pandas frame with one row per generated unit and earlier unit, in the order of the text."""
        import pandas as pd

        if level == "token":
            matrix, columns = self.matrix, list(self.tokens)
            names = [(self.prompt_length + row, token) for row, token in enumerate(self.generated)]
        else:
            units = self.units(level)
            matrix, columns = self.sums(level, level), list(units.texts)
            names = [(number, units.texts[number]) for number in self.generated_units(level)]
        cells = [
            (place, name, column, text, float(scores[column]))
            for (place, name), scores in zip(names, matrix, strict=True)
            for column, text in enumerate(columns[:place])
        ]
        return pd.DataFrame(cells, columns=["generated_index", "generated", "index", level, "score"])

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain JSON values: the saved record, with the matrix and the generated text."""
        return {**self._record(), "generated": list(self.generated), "text": self.text, "matrix": self.matrix.tolist()}

    def save(self, path: str | Path) -> None:
        """Write everything to one `.json` file, from which `load` rebuilds it bit for bit."""
        place = Path(path)
        if place.suffix.lower() != ".json":
            raise InputError(f"A continuation is saved as .json, not as '{place.name}'.")
        write_whole(place, json.dumps(self._record(), allow_nan=False) + "\n")

    @classmethod
    def load(cls, path: str | Path) -> ContinuationExplanation:
        """Read a continuation written by `save`; a damaged file raises InputError."""
        content = read_json(Path(path), limit=storage.LARGEST_FILE, error=InputError, name=f"'{path}'")
        if not isinstance(content, dict) or content.get("format") != FORMAT:
            raise InputError(f"'{path}' is not a continuation saved by Sightline.")
        try:
            if is_newer(content["version"], VERSION):
                raise InputError(f"'{path}' was written by a newer Sightline. Update Sightline to read it.")
            return cls.from_record(content)
        except KeyError as error:
            raise InputError(f"'{path}' is damaged: {error} is missing.") from None
        except (TypeError, ValueError, ModelError) as error:
            raise InputError(f"'{path}' is damaged: {str(error).rstrip('.')}.") from None

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> ContinuationExplanation:
        """Rebuild a continuation from `to_dict`; a damaged record raises KeyError, TypeError or ValueError."""
        encoding = storage.read_encoding(record["encoding"], record["tokens"])
        prompt = check_whole(record["prompt_length"], "prompt_length", 1, len(encoding) - 1)
        listed = check_list(record["rows"], "rows", len(encoding) - prompt)
        rows = [
            Explanation.from_record(
                check_object(row, f"rows[{number}]"), encoding=encoding.select(np.arange(prompt + number))
            )
            for number, row in enumerate(listed)
        ]
        probabilities = read_numbers(record["probabilities"], "<f8", "probabilities", len(rows))
        return cls(tuple(rows), encoding, prompt, probabilities)

    def _record(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "version": VERSION,
            "method": self.method,
            "prompt_length": self.prompt_length,
            "probabilities": self.probabilities.tolist(),
            "tokens": list(self.encoding.tokens),
            "encoding": {name: value for name, value in self.encoding.to_dict().items() if name != "tokens"},
            "rows": [
                {name: value for name, value in storage.to_record(row).items() if name not in ("encoding", "tokens")}
                for row in self.rows
            ],
        }

    def to_html(self, path: str | Path | None = None, *, title: str | None = None) -> str:
        """Return one self-contained page of the generated text, and write it to `path` if given."""
        from sightline.view.continuation import render_continuation

        html = render_continuation([self], title=title)
        if path is not None:
            write_whole(path, html)
        return html

    def _repr_html_(self) -> str:
        from sightline.view.continuation import render_fragment

        return render_fragment(self)
