"""The tables of a corpus: names, columns, and what they mean.

`document` is the key of all tables: the number of the row in which a text occurs first. Rows with the same text are one
document; `rows` says which row is which document.

The scores of tokens have one column per method: `attcat`, or `attcat:LABEL` if several classes were explained and the
method tells them apart. They are rounded to 20 significant bits (`round_to_bits`), which saves a tenth of their
space.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from sightline.settings.extras import require

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.compute as pc
    from pyarrow import dataset, parquet
else:
    pa, pc, dataset, parquet = (
        require(module, "corpus", "Storing results in tables")
        for module in ("pyarrow", "pyarrow.compute", "pyarrow.dataset", "pyarrow.parquet")
    )

__all__ = ["dataset", "pa", "parquet", "pc"]
"""Arrow, which is part of the extra `corpus`; other modules take it from here."""

FINISHED = "documents"
"""The table that is written last."""
RESULTS = ("tokens", "explanations", "heads", "similarity", "errors", FINISHED)
"""What is computed for each unit, in the order in which it is written."""

ROWS = pa.schema(
    [
        ("row", pa.int64()),  # number in the data set, from 0
        ("document", pa.int64()),  # null if the row could not be read
        ("id", pa.string()),  # the field `id`, or the number
        ("label", pa.string()),  # as written in the data
        ("error", pa.string()),  # why the row could not be read
        ("metadata", pa.string()),  # the other fields of the row, JSON
    ]
)
UNITS = pa.schema([("unit", pa.string()), ("documents", pa.int32()), ("characters", pa.int64())])
TEXTS = pa.schema(
    [("document", pa.int64()), ("digest", pa.string()), ("text", pa.large_string()), ("pair", pa.large_string())]
)
SCHEMAS: Mapping[str, pa.Schema] = {
    "documents": pa.schema(
        [
            ("document", pa.int64()),
            ("digest", pa.string()),  # of text and pair
            ("tokens", pa.int32()),
            ("words", pa.int32()),
            ("dropped", pa.int32()),  # tokens lost to truncation
            ("windows", pa.string()),  # JSON: where the windows of a long document are; null if it was read at once
            ("prediction", pa.string()),
            ("class", pa.int32()),
            ("probability", pa.float64()),
            ("labels", pa.list_(pa.string())),
            ("logits", pa.list_(pa.float64())),
            ("probabilities", pa.list_(pa.float64())),
        ]
    ),
    # One row per token; the columns of scores follow.
    "tokens": pa.schema(
        [
            ("document", pa.int64()),
            ("position", pa.int32()),
            ("id", pa.int32()),
            ("type_id", pa.int8()),
            ("token", pa.string()),
            ("segment", pa.int8()),  # 0 text, 1 pair, -1 special
            ("start", pa.int32()),
            ("end", pa.int32()),
            ("word", pa.int32()),  # number of the word, -1 for specials
            ("type", pa.string()),  # the word in folded case; null for specials
            ("written", pa.string()),  # the word as written; null if that is its type
            ("first_of_word", pa.bool_()),
            ("first_of_type", pa.bool_()),  # first token of the first instance of the word in its document
            ("instances", pa.int32()),  # of the word in its document
            ("received", pa.float32()),  # attention, mean over all heads
            ("attended", pa.int32()),  # how often it is among the k tokens that a token attends to most
            ("attending", pa.int32()),
        ]
    ),
    "explanations": pa.schema(
        [
            ("document", pa.int64()),
            ("method", pa.string()),
            ("class", pa.string()),  # what was explained: a class, or a contrast "A:B"
            ("column", pa.string()),  # of the table of tokens
            ("signed", pa.bool_()),
            ("special_share", pa.float64()),
            ("verdict", pa.string()),
            ("matters", pa.string()),
            ("p_value", pa.float64()),
            ("fall", pa.float64()),
            ("random_mean", pa.float64()),
            ("target", pa.string()),  # JSON from here on
            ("checks", pa.string()),
            ("options", pa.string()),
            ("check", pa.string()),
        ]
    ),
    "heads": pa.schema(
        [("document", pa.int64()), ("layer", pa.int16()), ("head", pa.int16()), ("importance", pa.float64())]
    ),
    "similarity": pa.schema(
        [
            ("document", pa.int64()),
            ("method", pa.string()),
            ("class", pa.string()),
            ("layers", pa.string()),
            ("scaled_by_document", pa.bool_()),
            ("masked", pa.bool_()),
            ("statistic", pa.string()),
            ("value", pa.float64()),
            ("chance", pa.float64()),
        ]
    ),
    "errors": pa.schema([("document", pa.int64()), ("kind", pa.string()), ("error", pa.string())]),
}


SIGNIFICANT_BITS = 20
"""Of the 24 bits of single precision: the relative error, 5e-7, is that of computing in single precision."""


def round_to_bits(values: npt.NDArray[np.floating[Any]], bits: int = SIGNIFICANT_BITS) -> npt.NDArray[np.float32]:
    """Return values rounded to `bits` significant binary digits, ties to even; relative error at most 2^-bits.

    With v = m 2^e and 1/2 ≤ |m| < 1 that is round(m 2^bits) 2^(e - bits). The last of the four bytes of a
    single-precision number then takes few values, and the last bytes of a column, stored together, compress well.
    """
    mantissa, exponent = np.frexp(values.astype(np.float64))
    rounded: npt.NDArray[np.float64] = np.ldexp(np.round(np.ldexp(mantissa, bits)), exponent - bits)
    return rounded.astype(np.float32)


def token_schema(score_columns: Sequence[str]) -> pa.Schema:
    """Return the schema of the table of tokens with its columns of scores."""
    schema = SCHEMAS["tokens"]
    for name in score_columns:
        schema = schema.append(pa.field(name, pa.float32()))
    return schema


def quote(name: str) -> str:
    """Return the name of a column as SQL writes it."""
    return '"' + name.replace('"', '""') + '"'


def text_literal(text: str) -> str:
    """Return a text as SQL writes it, for conditions that are part of a larger query."""
    return "'" + text.replace("'", "''") + "'"
