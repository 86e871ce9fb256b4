"""The pages of a corpus as the worker renders them: the index, and reading pages on request."""

from __future__ import annotations

from sightline.corpus.store import Store
from sightline.corpus.summary import summarise
from sightline.serve.limits import CORPUS_ADDRESS
from sightline.view.corpus_page import render_corpus


class CorpusPages:
    """Renders the pages of the run in a folder, or at a URI."""

    def __init__(self, path: str) -> None:
        self._store = Store(path)
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
            self._store = Store(self._store.path)
            summary = summarise(self._store)
            explained = summary.documents.loc[summary.documents["status"] == "done", "row"]
            self._index = render_corpus(summary, {int(row): f"{CORPUS_ADDRESS}/documents/{row}" for row in explained})
            self._finished = finished
        return self._index
