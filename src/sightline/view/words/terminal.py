"""The terminal's view: coloured passages and tables on a terminal, tab-separated lines in a pipe.

Control characters in the text of a document are replaced, so that it cannot move the cursor, change colours or hide
anything.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import accumulate
from typing import TYPE_CHECKING

from sightline.text.units import units_of
from sightline.view import colours
from sightline.view.words.headline import WordLists, headline, list_words
from sightline.view.words.phrases import SHARES_NOTE, describe_target, format_share, percent, predicted_value
from sightline.view.words.sentences import further_sentences, notices
from sightline.view.words.verdict import MARKS, describe_verdict

if TYPE_CHECKING:
    from rich.console import Console
    from rich.style import Style
    from rich.table import Table
    from rich.text import Text

    from sightline.results.explanation import Explanation

SHOWN_LINES = 12
"""Lines shown of a long document: the strongest ones, with one line of context on both sides."""
WHOLE_UP_TO = 24
"""Documents with at most this many lines are shown whole."""
SHOWN_CLASSES = 5
LONGEST_FIELD = 1_000
"""Largest number of characters in a field of a table: no sentence is cut, only words without an end."""
SHORTEST_WORD, LONGEST_WORD, PADDING = 8, 32, 2
"""Widths in the list of words, in cells."""

# C0 controls become their pictures (␛), other controls and the invisible marks that reorder text a replacement mark.
_CONTROLS = (
    {code: chr(0x2400 + code) for code in range(0x20) if chr(code) not in "\n\t"}
    | {0x7F: "␡"}
    | dict.fromkeys([*range(0x80, 0xA0), *range(0x202A, 0x202F), *range(0x2066, 0x206A), 0x2028, 0x2029], "�")
    | {ord("\t"): " "}
)


def printable(text: str) -> str:
    """Return `text` with every control character replaced by one that is printed; line breaks stay."""
    return text.translate(_CONTROLS)


def one_line(text: str) -> str:
    """Return `text` with every control character and line break replaced by one that is printed."""
    return printable(text).replace("\n", "␊").replace("\r", "␍")


def plain_report(explanation: Explanation, top: int = 10, *, all_words: bool = False) -> str:
    """Return the explanation as lines of tab-separated fields: facts first, then the strongest words.

    `all_words` lists stop words, punctuation and artefacts as well.
    """
    prediction, trust = explanation.prediction, describe_verdict(explanation)
    lists = list_words(explanation, top, all_words=all_words)
    lines: list[tuple[str, ...]] = [
        ("summary", headline(explanation)),
        *(("notice", sentence) for sentence in notices(explanation)),
        ("method", explanation.method),
        ("predicted", prediction.label, predicted_value(explanation) or f"{prediction.probability:.4f}"),
        ("target", describe_target(explanation)),
        ("tokens", str(len(explanation.encoding))),
        ("trust", trust.words, *trust.all_sentences),
        *((("warning", trust.warning),) if trust.warning is not None else ()),
        *(("check", sentence) for sentence in further_sentences(explanation)),
        *((("list", lists.note),) if lists.note else ()),
        ("shares", SHARES_NOTE),
        ("",),
        ("side", "rank", "word", "score", "count", "share"),
    ]
    share = partial(format_share, explanation, total=lists.total)
    for side, words in lists.sides:
        lines += [
            (side, str(rank), word.text, f"{word.score:.6g}", str(word.count), share(word.score))
            for rank, word in enumerate(words, start=1)
        ]
    return "\n".join("\t".join(_shorten_field(field) for field in line) for line in lines) + "\n"


def print_report(
    console: Console,
    explanations: Sequence[Explanation],
    top: int = 10,
    *,
    passages: bool = True,
    consensus: str | None = None,
    all_words: bool = False,
) -> None:
    """Print the prediction, then per explanation the passages (if asked for), the strongest words and the checks.

    `consensus` is the sentence on the words that all methods agree on, printed below the prediction.
    """
    from rich.padding import Padding
    from rich.text import Text

    console.print(Text(printable(headline(explanations[0])), style="bold"))
    for notice in notices(explanations[0]):
        console.print(Text(notice, style="bold #c26e10"))
    console.print(_prediction(explanations[0]))
    if consensus is not None:
        console.print(Text(printable(consensus)))
    for explanation in explanations:
        trust = describe_verdict(explanation)
        console.print()
        target = printable(describe_target(explanation))
        console.print(Text.assemble((explanation.method, "bold"), f" explains the {target}"))
        console.print()
        if passages:
            for passage in _passages(explanation, console.width - 4):
                console.print(Padding(passage, (0, 2)), soft_wrap=False)
            console.print()
        lists = list_words(explanation, top, all_words=all_words)
        console.print(_table(explanation, lists, console.width))
        if lists.note:
            console.print(Text(f"{lists.note} Add --all-words to list them.", style="dim"))
        console.print(Text(SHARES_NOTE, style="dim"))
        console.print()
        mark, words = MARKS[trust.level]
        console.print(Text.assemble((f"{mark} {words}. ", "bold"), printable(" ".join(trust.all_sentences))))
        if trust.warning is not None:
            console.print(Text(trust.warning, style="bold #c26e10"))
        for sentence in further_sentences(explanation):
            console.print(Text(f"· {printable(sentence)}", style="dim"))


def _shorten_field(field: str) -> str:
    """Return a field of a table on one line, shortened to `LONGEST_FIELD`."""
    if len(field) > LONGEST_FIELD:
        field = field[: LONGEST_FIELD - 1] + "…"
    return one_line(field)


def _prediction(explanation: Explanation) -> Text:
    from rich.text import Text

    prediction = explanation.prediction
    line = Text.assemble(
        "The model says ",
        (printable(prediction.label), "bold"),
        f" ({predicted_value(explanation) or percent(prediction.probability)})",
    )
    others = sorted(zip(prediction.probabilities.tolist(), prediction.labels, strict=True), key=lambda pair: -pair[0])
    rest = [f"{printable(label)} {percent(share)}" for share, label in others if label != prediction.label]
    if rest:
        line.append(f"   {' · '.join(rest[: SHOWN_CLASSES - 1])}", style="dim")
    return line


def _style(level: int, signed: bool) -> Style | None:
    """Return a style that is readable on light and dark terminals: coloured letters, then a coloured background."""
    from rich.style import Style

    strength = abs(level)
    if strength < 2:
        return None
    hue: colours.Hue = "plain" if not signed else "for" if level > 0 else "against"
    if strength > 5:
        return Style(color="#000000", bgcolor=colours.FULL["light"][hue], bold=strength == colours.LEVELS)
    return Style(color={"for": "#3d8bd4", "against": "#c26e10", "plain": "#9272cf"}[hue], bold=strength > 3)


def _passages(explanation: Explanation, width: int) -> Iterator[Text]:
    """Yield the whole text in colour, or its strongest lines and a note on what is left out."""
    from rich.text import Text

    units = units_of(explanation.encoding, "word").drawable(explanation.encoding)
    scores = units.fold(explanation.scores).tolist()
    levels = colours.levels(scores)
    last_read = {unit.segment: unit.end for unit in units}
    lines = [
        (segment, start, end)
        for segment, text in enumerate(explanation.encoding.segment_texts)
        for start, end in wrapped(text[: last_read.get(segment, 0)], max(width, 20))
    ]
    texts = [printable(text) for text in explanation.encoding.segment_texts]
    coloured = [Text(texts[segment][start:end], no_wrap=True, overflow="crop") for segment, start, end in lines]
    strength = [0.0] * len(lines)
    line = 0
    for unit, score, level in zip(units, scores, levels, strict=True):
        while (lines[line][0], lines[line][2]) < (unit.segment, unit.start + 1):
            line += 1
        start = lines[line][1]
        style = _style(int(level), explanation.signed)
        if style is not None:
            coloured[line].stylize(style, unit.start - start, unit.end - start)
        strength[line] += abs(score)
    shown = strongest_lines(strength)
    previous = -1
    for line in shown:
        if line > previous + 1:
            yield Text("⋯", style="dim")
        yield coloured[line]
        previous = line
    if previous + 1 < len(lines):
        yield Text("⋯", style="dim")
    if len(shown) < len(lines):
        yield Text(
            f"The strongest {len(shown)} of {len(lines)} lines; write a page with -o page.html to see them all.",
            style="dim",
        )


def strongest_lines(strength: Sequence[float]) -> list[int]:
    """Return all lines of a short text; else the strongest with a line on both sides, about SHOWN_LINES in all."""
    if len(strength) <= WHOLE_UP_TO:
        return list(range(len(strength)))
    shown: set[int] = set()
    for line in sorted(range(len(strength)), key=lambda i: -strength[i]):
        if len(shown) >= SHOWN_LINES:
            break
        shown |= {near for near in (line - 1, line, line + 1) if 0 <= near < len(strength)}
    return sorted(shown)


def wrapped(text: str, width: int) -> list[tuple[int, int]]:
    """Return the places [start, end) of display lines: the text's own lines, broken at spaces to fit `width` cells.

    Words wider than a line are broken anywhere; empty lines at the end are left out.
    """
    from rich.cells import get_character_cell_size

    cells = list(accumulate(map(get_character_cell_size, text), initial=0))
    lines: list[tuple[int, int]] = []
    for own_line in re.finditer(r"^.*$", text, re.MULTILINE):
        start, end = own_line.span()
        while cells[end] - cells[start] > width:
            cut = max(start + 1, bisect_right(cells, cells[start] + width) - 1)
            space = text.rfind(" ", start + 1, cut + 1)
            cut = space if space > 0 else cut
            lines.append((start, cut))
            start = cut
            while start < end and text[start] == " ":
                start += 1
        lines.append((start, end))
    while lines and lines[-1][0] == lines[-1][1]:
        lines.pop()
    return lines


def _table(explanation: Explanation, lists: WordLists, width: int) -> Table:
    """Return the lists side by side; words are shortened so that every score is shown in full."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, padding=(0, PADDING, 0, 0))
    label = printable(explanation.target.label)
    columns = lists.sides
    share = partial(format_share, explanation, total=lists.total)
    widest = max((len(share(word.score)) for _, words in columns for word in words), default=0)
    longest = max(SHORTEST_WORD, min(LONGEST_WORD, width // len(columns) - widest - 2 * PADDING))
    titles = {"for": f"For '{label}'", "against": f"Against '{label}'", "any": "Strongest words"}
    colour = {"for": "#3d8bd4", "against": "#c26e10", "any": "#9272cf"}
    for side, _ in columns:
        table.add_column(
            Text(titles[side], style=f"bold {colour[side]}"), overflow="ellipsis", no_wrap=True, max_width=longest
        )
        table.add_column("", justify="right", no_wrap=True, min_width=widest)
    for row in range(max((len(words) for _, words in columns), default=0)):
        cells: list[Text] = []
        for _, words in columns:
            if row < len(words):
                repeats = f" × {words[row].count}" if words[row].count > 1 else ""
                cells += [
                    Text.assemble(_shorten_field(words[row].text), (repeats, "dim")),
                    Text(share(words[row].score)),
                ]
            else:
                cells += [Text(), Text()]
        table.add_row(*cells)
    return table
