"""Text in CSV files that spreadsheets show as text.

A spreadsheet runs a cell as a formula if it begins with =, +, - or @ (also in their full-width forms), or with a tab or
line break that it drops before looking for one of these; quotation marks do not prevent that. Such a cell is written
with an apostrophe in front, the spreadsheets' own mark for text; a sign alone and a number with a sign are no formulas.
Apostrophes that are already there are counted as part of the text, so that `restore_text(protect_text(cell)) == cell`
for every string. Data sets are read without `restore_text`: nobody can tell our apostrophe from one of their own.
"""

from __future__ import annotations

import re

_FORMULA = re.compile(r"'*[=+\-@\t\r\n＝＋－＠]")
_PROTECTED = re.compile(r"'+[=+\-@\t\r\n＝＋－＠]")
_SIGN_OR_NUMBER = re.compile(r"[+-]([0-9]+(\.[0-9]*)?([eE][+-]?[0-9]+)?)?")


def protect_text(cell: str) -> str:
    """Return the text as it is written: with an apostrophe in front if a spreadsheet would take it for a formula."""
    return f"'{cell}" if _FORMULA.match(cell) and not _SIGN_OR_NUMBER.fullmatch(cell) else cell


def restore_text(cell: str) -> str:
    """Return the text that `protect_text` was given."""
    return cell[1:] if _PROTECTED.match(cell) else cell
