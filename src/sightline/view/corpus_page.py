"""The page of a corpus: one folder that opens offline.

    page/index.html            words and documents that follow one selection, confusion counts, plots
    page/documents/ROW.html    the reading page of a document

    write_corpus_page(sl.open_run("explained"), "page")

The index embeds everything it shows and loads nothing; its script only filters rows that the page holds. Reading pages
are written for the first documents only (wrong predictions first): each takes some hundred kilobytes.
"""

from __future__ import annotations

import base64
import io
import math
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sightline.corpus.aggregation import SliceComparison
from sightline.corpus.corpus_summary import CorpusSummary, WordTable, summarise
from sightline.corpus.store import open_run
from sightline.files.ownership import claim_folder, keep_only
from sightline.files.writing import write_whole
from sightline.progress import Progress
from sightline.view.frames import to_records
from sightline.view.plots.rankings import confidence_scatter, slice_differences
from sightline.view.plots.style import require_matplotlib
from sightline.view.sections.pages import PAGE
from sightline.view.sections.shell import Shell, read_source, render_facts
from sightline.view.words.phrases import format_number, format_range, percent

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from sightline.corpus.store import Store

CORPUS_PAGE = "the page of a corpus"
"""The content type in the folder's record."""
DOCUMENTS = "documents"
PAGE_DOCUMENTS = 200
"""Documents that get a reading page unless a number is given."""
_SHELL = Shell(read_source("corpus.css"), read_source("corpus.js"), images="data:")
_RULES = {
    "mean-all": "mean over all documents of the sum of the word's scores",
    "mean-present": "mean over the documents that contain the word",
    "sum": "sum over all documents",
}


def write_corpus_page(
    store: Store,
    folder: Path | str,
    *,
    documents: int = PAGE_DOCUMENTS,
    progress: Progress | None = None,
) -> Path:
    """Write the index and the reading pages of at most `documents` documents; return the path of the index."""
    require_matplotlib()
    folder = Path(folder)
    summary = summarise(store)
    done = summary.documents[summary.documents["status"] == "done"]
    wrong_first = done.assign(right=done["correct"].fillna(True).astype(bool)).sort_values(["right", "row"])
    pages = {int(row): f"{DOCUMENTS}/{row}.html" for row in wrong_first["row"].head(documents)}
    names = [*pages.values(), PAGE]
    claim_folder(folder, CORPUS_PAGE, names)
    for number, (row, name) in enumerate(pages.items()):
        if progress is not None:
            progress("writing reading pages", number, len(pages))
        store.document(row).to_html(folder / name)
    write_whole(folder / PAGE, render_corpus(summary, pages))
    keep_only(folder, names)
    return folder / PAGE


def render_corpus(summary: CorpusSummary, pages: dict[int, str]) -> str:
    """Return the index as HTML; `pages` holds the address of each document that has a page."""
    content = "".join(
        [
            f"<h1>{escape(summary.title)}</h1><p>{escape(_opening(summary))}</p>",
            _explorer_section(summary),
            _confusion_section(summary.confusion),
            "<h2>Words with intervals</h2>",
            *(_word_section(table) for table in summary.words),
            _scatter_section(summary.documents),
            "" if summary.slices is None else _slice_section(summary.slices),
            f"<h2>What produced this</h2>{render_facts(summary.facts)}",
        ]
    )
    return _SHELL.render(summary.title, content, {"corpus": _explorer_data(summary, pages)})


def content_policy() -> str:
    """Return the content security policy of the index: its own style and script, pictures inside the page."""
    return _SHELL.policy


def _opening(summary: CorpusSummary) -> str:
    counts = summary.counts
    total = sum(counts.values())
    failed = counts.get("failed", 0) + counts.get("unreadable", 0)
    parts = [f"{counts.get('done', 0):,} of {total:,} rows are explained, {failed:,} failed"]
    if counts.get("pending"):
        parts.append(f"{counts['pending']:,} are not computed yet")
    known = summary.documents["correct"].dropna()
    if len(known):
        parts.append(
            f"{percent(float(known.astype(bool).mean()))} of the {len(known):,} labelled ones are predicted right"
        )
    return "; ".join(parts) + "."


def _explorer_section(summary: CorpusSummary) -> str:
    """Return the controls and empty tables, which the script fills."""
    total, listed = sum(summary.counts.values()), len(summary.documents)
    note = f'<p class="quiet">The first {listed:,} of {total:,} rows are listed.</p>' if listed < total else ""
    if summary.documents["vocabulary"].isna().all():
        note += (
            '<p class="quiet">These texts are too long for one page: the search looks at the excerpts only. To search '
            "whole texts, use sightline query with SELECT id FROM documents JOIN texts USING (document) WHERE "
            "contains(lower(text), &#x27;word&#x27;).</p>"
        )
    return (
        f'{note}<form id="filters"><label>search all texts<input name="search" type="search"></label>'
        '<label>outcome<select name="outcome"><option value="">all</option><option value="false">wrong only</option>'
        '<option value="true">right only</option></select></label><span id="facets"></span>'
        '<label>sure from (%)<input name="least" type="number" min="0" max="100"></label>'
        '<label>to (%)<input name="most" type="number" min="0" max="100"></label>'
        '<label>words in at least<input name="count" type="number" min="1" value="2"></label>'
        '<label class="row"><input name="quiet" type="checkbox">stop words and punctuation</label>'
        '<button id="clear" type="button">Clear</button></form>'
        '<div id="explorer"><div id="words"></div><div><h2 id="matches" role="status"></h2><p id="chosen"></p>'
        '<div class="wide"><table id="list"><thead><tr id="heads"></tr></thead><tbody></tbody></table></div>'
        '<button id="more" type="button" hidden>Show more</button></div></div>'
    )


def _confusion_section(confusion: pd.DataFrame) -> str:
    if confusion.empty:
        return '<h2>Labels and predictions</h2><p class="quiet">No row has a label that the model knows.</p>'
    counts = confusion.pivot_table(
        index="label", columns="prediction", values="documents", fill_value=0, sort=False, aggfunc="sum"
    )
    head = "".join(f'<th class="n">{escape(str(name))}</th>' for name in counts.columns)
    rows = "".join(
        f"<tr><th>{escape(str(label))}</th>" + "".join(f'<td class="n">{int(count):,}</td>' for count in row) + "</tr>"
        for label, row in zip(counts.index, counts.to_numpy(), strict=True)
    )
    return (
        "<h2>Labels and predictions</h2><p>Rows are labels of the data, columns predictions.</p>"
        f"<table><thead><tr><th>label</th>{head}</tr></thead><tbody>{rows}</tbody></table>"
    )


def _word_section(words: WordTable) -> str:
    """Return the words for and against a class, in one unit."""
    positive = words.table[words.table["score"] > 0]
    negative = words.table[words.table["score"] < 0].iloc[::-1]
    title = words.method if words.target is None else f"{words.method}: {words.target}"
    unit = _Unit.of(words.table["score"])
    sides = ((positive, "for"), (negative, "against"))
    halves = "".join(_word_table(half, name, unit) for half, name in sides if len(half))
    return (
        f"<h3>{escape(title)}</h3><p class=quiet>Score: {_RULES[words.rule]}, with a 95 % bootstrap interval over "
        f'documents.</p><div class="side">{halves or "<p>All scores are 0.</p>"}</div>'
    )


def _word_table(rows: pd.DataFrame, side: str, unit: _Unit) -> str:
    style = "pos" if side == "for" else "neg"
    body = "".join(
        f'<tr><td class="{style}">{escape(str(row["type"]))}</td><td class="n">{unit.format(row["score"])}</td>'
        f'<td class="n quiet">{format_range(row["low"], row["high"], unit.format)}</td>'
        f'<td class="n">{int(row["documents"]):,}</td></tr>'
        for row in rows.to_dict("records")
    )
    return (
        f'<table><thead><tr><th>{side}</th><th class="n">score{unit.name}</th><th class="n">interval</th>'
        f'<th class="n">documents</th></tr></thead><tbody>{body}</tbody></table>'
    )


@dataclass(frozen=True)
class _Unit:
    """A common power of ten and number of decimals for all numbers of a table."""

    exponent: int
    decimals: int

    @classmethod
    def of(cls, values: pd.Series) -> _Unit:
        """Return the unit in which the largest value has one digit before the point; 1 for ordinary numbers."""
        largest = float(values.abs().max()) if len(values) else 0.0
        exponent = math.floor(math.log10(largest)) if largest > 0 else 0
        # Three significant digits of the largest value.
        return cls(exponent, 2) if exponent < -2 or exponent > 3 else cls(0, max(0, 2 - exponent))

    @property
    def name(self) -> str:
        """The suffix of a column heading."""
        return f", 10<sup>{format_number(self.exponent, '.0f')}</sup>" if self.exponent else ""

    def format(self, value: float) -> str:
        """Return a value in this unit."""
        return format_number(value / 10.0**self.exponent, f".{self.decimals}f")


def _scatter_section(documents: pd.DataFrame) -> str:
    checked = documents[documents["fall"].notna()]
    if checked.empty:
        return (
            "<h2>Confidence and effect</h2><p>No explanation was checked. A run "
            "with <code>--check</code> adds verdicts, and a plot of confidence against effect.</p>"
        )
    correct = [row["correct"] for row in to_records(checked[["correct"]])]
    figure = confidence_scatter(
        checked["probability"].tolist(),
        checked["fall"].tolist(),
        correct,
        title="Confidence against effect",
    )
    picture = _picture(figure, "probability against the fall of the log-odds, per document")
    return f"<h2>Confidence and effect</h2>{picture}"


def _slice_section(comparison: SliceComparison) -> str:
    title = "Wrong against right predictions"
    unit = _Unit.of(comparison.rows[["first", "second"]].abs().max(axis=1))
    body = "".join(
        f"<tr><td>{escape(str(row[comparison.by]))}</td>"
        f'<td class="n">{unit.format(row["first"])}</td><td class="n">{unit.format(row["second"])}</td>'
        f'<td class="n">{format_range(row["low"], row["high"], unit.format)}</td>'
        f'<td class="n">{_p_value(row["p_corrected"])}</td></tr>'
        for row in comparison.rows.to_dict("records")
    )
    figure = slice_differences(comparison, title=title)
    predicted = (
        "" if comparison.predicted is None else f"Only documents predicted as “{escape(comparison.predicted)}”. "
    )
    return (
        f"<h2>{title}</h2><p>{predicted}Which words have another weight in documents that are predicted wrong "
        f"({comparison.documents[0]:,}) than in those predicted right ({comparison.documents[1]:,})? Scores: "
        f"{escape(comparison.scores)}. "
        f"{comparison.tested:,} words were tested; p-values are corrected for that.</p>"
        f'<div class="side"><table><thead><tr><th>word</th><th class="n">wrong{unit.name}</th>'
        f'<th class="n">right{unit.name}</th>'
        f'<th class="n">interval of the difference</th><th class="n">corrected p</th></tr></thead><tbody>{body}</tbody>'
        f"</table>{_picture(figure, title)}</div>"
    )


def _p_value(value: float) -> str:
    return "&lt; 0.001" if value < 0.001 else f"{value:.3f}"


def _picture(figure: Figure, description: str) -> str:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=120)
    content = base64.b64encode(buffer.getvalue()).decode()
    return f'<img alt="{escape(description)}" src="data:image/png;base64,{content}">'


def _explorer_data(summary: CorpusSummary, pages: dict[int, str]) -> dict[str, Any]:
    """Return the data that the script filters: documents, and words with indices and scores of their documents."""
    rows = to_records(summary.documents)
    places: dict[int, list[int]] = {}
    for place, row in enumerate(rows):
        if row.get("document") is not None:
            places.setdefault(int(row["document"]), []).append(place)
    names = ("row", "id", "label", "prediction", "probability", "correct", "status", "error", "verdict", "vocabulary")
    documents = [
        {
            **{name: row[name] for name in names},
            "text": row["excerpt"] or "",
            "facets": [row[name] for name in summary.facets],
            "marks": summary.marked.get(int(row["document"]), {}) if row.get("document") is not None else {},
            "page": pages.get(int(row["row"])),
        }
        for row in rows
    ]
    words = [
        {
            "target": of_class.target,
            "words": [
                {
                    "word": word,
                    "quiet": word in of_class.quiet,
                    "at": [place for document in group["document"] for place in places[document]],
                    "scores": [
                        float(f"{score:.4g}")
                        for document, score in zip(group["document"], group["score"], strict=True)
                        for _ in places[document]
                    ],
                }
                for word, group in of_class.scores.groupby("word", sort=False)
            ],
        }
        for of_class in summary.class_words
    ]
    return {"documents": documents, "facets": list(summary.facets), "words": words, "signed": summary.signed}


class CorpusPages:
    """Renders the pages of the run in a folder, or at a URI, for a server that serves them at `address`."""

    def __init__(self, path: str, address: str) -> None:
        self._address = address
        self._store = open_run(path)
        self._finished = -1
        self._index = ""

    def render_document(self, row: int) -> str:
        """Return the reading page of the document in a row of the data set."""
        return self._store.document(row).to_html()

    def render_index(self) -> str:
        """Return the index, with links to the reading pages of all explained documents that it lists.

        It is rendered again when the run has finished further units.
        """
        finished = len(self._store.folder.finished_units(self._store.plan.units))
        if finished != self._finished:
            self._store = open_run(self._store.path)
            summary = summarise(self._store)
            explained = summary.documents.loc[summary.documents["status"] == "done", "row"]
            self._index = render_corpus(summary, {int(row): f"{self._address}/documents/{row}" for row in explained})
            self._finished = finished
        return self._index
