"""Store: the results of a run, queried with SQL (DuckDB; the Parquet files are streamed, not loaded).

    store = sl.open_run("explained")
    store.documents()                       one row per row of the data set
    store.document(17)                      a Report
    store.aggregate(by="word", method="attcat", class_="spam", rule="mean-all")
    store.sql("SELECT label, count(*) FROM documents WHERE NOT correct GROUP BY label")

The views `documents`, `words`, `tokens`, `explanations`, `heads`, `similarity`, `errors`, `rows` and `texts` hold what
was finished when the store was opened. `document` is their key (`corpus.tables`).

Other fields of the data set are columns of `documents` (`metadata_columns`).
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sightline.corpus import tables
from sightline.corpus.aggregation import aggregate as aggregate_words
from sightline.corpus.checked_tables import TableReader
from sightline.corpus.manifest import read_manifest
from sightline.corpus.plan import Plan, block_name, read_plan
from sightline.corpus.rebuild import rebuild_report
from sightline.corpus.run_storage import ROWS, TEXTS, RunFolder
from sightline.corpus.settings import PREDICTED
from sightline.corpus.tables import pa, quote
from sightline.errors import InputError, OptionError
from sightline.files.foreign import printable
from sightline.metrics.statistics import mean_interval
from sightline.models import ALL
from sightline.models.classes import Label, classes_of
from sightline.models.target import class_index
from sightline.models.tasks import TASKS
from sightline.registry import suggestion
from sightline.results.report import Report
from sightline.settings.extras import require

if TYPE_CHECKING:
    import duckdb
    import pandas as pd
else:
    duckdb = require("duckdb", "corpus", "Reading the results of a run")

_LONGEST_REASON = 1_000
_EXPANDED = """
CREATE VIEW documents AS
SELECT r.row, r.document, r.id, coalesce(l.name, r.label) AS label, l.class AS label_class,
       d.prediction, d.class AS prediction_class, d.probability,
       CASE WHEN l.class IS NULL OR d.class IS NULL THEN NULL ELSE l.class = d.class END AS correct,
       d.tokens, d.words, d.dropped,
       CASE WHEN r.document IS NULL THEN 'unreadable' WHEN e.document IS NOT NULL THEN 'failed'
            WHEN d.document IS NULL THEN 'pending' ELSE 'done' END AS status,
       coalesce(r.error, e.error) AS error, d.digest{metadata}
FROM rows r LEFT JOIN results d USING (document) LEFT JOIN errors e USING (document)
     LEFT JOIN label_classes l ON r.label = l.label
"""
_WORDS = """
CREATE VIEW words AS
SELECT document, word, any_value(coalesce(written, type)) AS text, any_value(type) AS type,
       any_value(segment) AS segment,
       min(start) AS start, max("end") AS "end", min(position) AS position, sum(received) AS received{scores}
FROM tokens WHERE word >= 0 GROUP BY document, word
"""


class Store:
    """What a run has computed so far."""

    def __init__(self, path: str | Path) -> None:
        self.folder = RunFolder(path)
        manifest = read_manifest(self.folder)
        if manifest is None:
            raise InputError(f"'{path}' contains no results of `sightline run`: there is no manifest.json.")
        if manifest["plan"] is None:
            raise InputError(f"The run in '{path}' was stopped before it had read its data set. Start it again.")
        self.manifest = manifest

    def __repr__(self) -> str:
        plan = self.manifest["plan"]
        return (
            f"<Store '{self.folder.path}': {plan['rows']:,} rows, {plan['documents']:,} documents, model "
            f"'{self.manifest['model']['name']}', methods: {', '.join(self.methods)}>"
        )

    @property
    def path(self) -> Path | str:
        """The folder of the run, or its URI."""
        return self.folder.path

    @property
    def methods(self) -> tuple[str, ...]:
        """The methods of the run."""
        return tuple(self.manifest["settings"]["methods"])

    @property
    def labels(self) -> tuple[str, ...]:
        """The classes of the model."""
        return tuple(self.manifest["model"]["labels"])

    @cached_property
    def complete(self) -> bool:
        """Whether every document was computed or has failed."""
        return len(self.folder.finished_units(self.plan.units)) == len(self.plan.units)

    @cached_property
    def plan(self) -> Plan:
        """The units of the run."""
        return read_plan(self.folder, self.manifest["plan"])

    @cached_property
    def connection(self) -> duckdb.DuckDBPyConnection:
        """The database that contains the views. It opens no files: the views read the run through Arrow."""
        connection = duckdb.connect()
        connection.execute("SET temp_directory = ?", [str(Path(tempfile.gettempdir()) / "sightline-duckdb")])
        connection.execute("SET enable_progress_bar = false")
        blocks = [block_name(number) for number in range(self.plan.blocks)]
        self._register(connection, "rows", tables.ROWS, [self.folder.file(ROWS, block) for block in blocks])
        self._register(connection, TEXTS, tables.TEXTS, [self.folder.file(TEXTS, unit) for unit in self.plan.units])
        for name, schema in tables.SCHEMAS.items():
            units = self.folder.units_with(name, self.plan.units)
            self._register(connection, name, schema, [self.folder.file(name, unit) for unit in units])
        with self._named_errors():
            self._create_views(connection)
        connection.execute("SET enable_external_access = false")
        connection.execute("SET lock_configuration = true")
        return connection

    @cached_property
    def _reader(self) -> TableReader:
        by_class = self.labels if self.manifest["settings"]["target"] == ALL else ()
        return TableReader(
            self.folder.storage,
            max(self.plan.characters, default=0),
            self.methods,
            (*self.methods, *(f"{method}:{label}" for method in self.methods for label in by_class)),
            # The number of an answer is the index of its first token.
            math.inf if self.manifest["model"]["task"] == "question_answering" else len(self.labels),
        )

    def _register(
        self, connection: duckdb.DuckDBPyConnection, table: str, schema: pa.Schema, names: Sequence[str]
    ) -> None:
        view = "results" if table == tables.FINISHED else table
        connection.register(view, self._reader.open(table, names) if names else schema.empty_table())

    def _create_views(self, connection: duckdb.DuckDBPyConnection) -> None:
        for table, key in (("rows", "row"), ("results", "document"), ("errors", "document")):
            self.check_unique(table, key, connection)
        labels = [label for (label,) in connection.execute("SELECT DISTINCT label FROM rows").fetchall()]
        classes = self._label_classes(labels)
        names = [None if index is None else self.labels[index] for index in classes.values()]
        connection.register(
            "label_classes",
            pa.table(
                {
                    "label": pa.array(classes.keys(), pa.string()),
                    "class": pa.array(classes.values(), pa.int32()),
                    "name": pa.array(names, pa.string()),
                }
            ),
        )
        connection.execute(_EXPANDED.format(metadata=""))
        taken = [str(column[0]) for column in connection.execute("SELECT * FROM documents LIMIT 0").description or []]
        connection.execute("DROP VIEW documents")
        connection.execute(_EXPANDED.format(metadata=metadata_columns(connection, taken)))
        sums = "".join(
            f", sum({tables.quote(name)}) AS {tables.quote(name)}" for name in self._score_columns(connection)
        )
        connection.execute(_WORDS.format(scores=sums))

    def check_unique(self, table: str, key: str, connection: duckdb.DuckDBPyConnection | None = None) -> None:
        """Raise InputError if two rows of a table have the same key: a join would multiply them."""
        query = f"SELECT 1 FROM {table} GROUP BY {key} HAVING count(*) > 1 LIMIT 1"
        with self._named_errors():
            if (connection or self.connection).execute(query).fetchall():
                raise self._reader.damaged(table, f"two rows have the same '{key}'.")

    def _score_columns(self, connection: duckdb.DuckDBPyConnection) -> list[str]:
        known = set(tables.SCHEMAS["tokens"].names)
        described = connection.execute("SELECT * FROM tokens LIMIT 0").description or []
        return [str(column[0]) for column in described if column[0] not in known]

    def _label_classes(self, labels: list[str | None]) -> dict[Label, int | None]:
        """Return the class that each label of the data stands for, None if the model has no such class."""
        task = TASKS[self.manifest["model"]["task"]]
        if not task.classes_are_tokens:
            return classes_of(labels, self.labels) if task.has_named_classes else {}
        tokens = {token: number for number, token in reversed(list(enumerate(self.labels)))}
        return {label: tokens.get(label) for label in labels if label is not None}

    def sql(self, query: str, *, arrow: bool = False) -> pd.DataFrame | pa.Table:
        """Return the result of a SELECT statement as a DataFrame, or as an Arrow table."""
        with self._named_errors():
            kinds = [statement.type for statement in duckdb.extract_statements(query)]
            if kinds != [duckdb.StatementType.SELECT]:
                raise OptionError("A store answers one SELECT statement at a time and changes nothing.")
            return self.connection.sql(query).to_arrow_table() if arrow else self.connection.execute(query).df()

    def _rows(self, query: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Return the rows of a query with placeholders $1, $2, …"""
        with self._named_errors():
            rows: list[tuple[Any, ...]] = self.connection.execute(query, list(values)).fetchall()
        return rows

    @contextmanager
    def _named_errors(self) -> Iterator[None]:
        """Turn an exception of DuckDB into the error of the table reader that caused it, or into an OptionError."""
        self._reader.problem = ""
        try:
            yield
        except duckdb.PermissionException:
            raise OptionError(
                "A query reads the tables of the run and no files: name a table, such as documents or words."
            ) from None
        except (duckdb.Error, UnicodeError) as error:
            if self._reader.problem:
                raise InputError(self._reader.problem) from None
            lines = " ".join(line.strip() for line in str(error).strip().splitlines()[:2])
            reason = printable(lines, _LONGEST_REASON).rstrip(".")
            raise OptionError(f"The query cannot be answered: {reason}.") from None

    def documents(self, where: str | None = None) -> pd.DataFrame:
        """Return one row per row of the data set: label, prediction, probability, correct, status, error, other fields.

        A field of the data set with the name of one of these columns gets the prefix "data_".

        where: an SQL condition on these columns, for example "NOT correct AND probability > 0.9".
        """
        return self.sql(f"SELECT * FROM documents{_condition(where)} ORDER BY row")

    def tokens(self, where: str | None = None) -> pd.DataFrame:
        """Return one row per token, with one column of scores per method."""
        return self.sql(f"SELECT * FROM tokens{_condition(where)} ORDER BY document, position")

    def words(self, where: str | None = None) -> pd.DataFrame:
        """Return one row per word with its place and its scores, which are sums over its tokens."""
        return self.sql(f"SELECT * FROM words{_condition(where)} ORDER BY document, word")

    def errors(self) -> pd.DataFrame:
        """Return the rows that could not be read or explained, each with its error."""
        return self.sql("SELECT row, id, status, error FROM documents WHERE error IS NOT NULL ORDER BY row")

    aggregate = aggregate_words

    def heads(self) -> pd.DataFrame:
        """Return the mean importance of every head over the documents, raw and mapped onto 0 to 1."""
        return self.sql(
            """WITH means AS (
                 SELECT layer, head, avg(importance) AS raw
                 FROM heads JOIN rows USING (document) GROUP BY layer, head),
               ends AS (SELECT min(raw) AS low, max(raw) AS high FROM means)
               SELECT layer, head, raw, CASE WHEN high > low THEN (raw - low) / (high - low) ELSE 1 END AS importance
               FROM means, ends ORDER BY layer, head"""
        )

    def similarity(self, *, seed: int = 0) -> pd.DataFrame:
        """Return how similar attention and attribution are: mean over documents with interval, beside chance.

        scaled_by_document: heads are weighted by their importance in each document; `inspect_dataset` uses their
        importance over the data set. Where all classes were explained, the predicted class is compared.
        """
        import pandas as pd

        groups = ("method", "layers", "scaled_by_document", "masked", "statistic")
        values = self._rows(
            f"""WITH single AS (
                  SELECT s.* FROM similarity s JOIN results d USING (document)
                  QUALIFY row_number() OVER (
                    PARTITION BY s.document, {", ".join(groups)} ORDER BY s.class = d.prediction DESC, s.class) = 1)
                SELECT {", ".join(groups)}, list(value ORDER BY row), avg(chance), count(*)
                FROM single JOIN rows USING (document) GROUP BY {", ".join(groups)} ORDER BY {", ".join(groups)}"""
        )
        rows = []
        for *group, scores, chance, documents in values:
            rows.append((*group, *mean_interval(scores, seed=seed), chance, documents))
        return pd.DataFrame(rows, columns=[*groups, "mean", "low", "high", "chance", "documents"])

    def document(self, identity: int | str) -> Report:
        """Return one document as a `Report`: by the number of its row, its `id` in the data, or its digest."""
        return rebuild_report(self, self.find_row(identity))

    def find_row(self, identity: int | str) -> int:
        """Return the number of the row with this number, `id` or digest."""
        named = isinstance(identity, str)
        condition, value = ("id = $1 OR digest = $1", identity) if named else ("row = $1", int(identity))
        query = f"SELECT row FROM documents WHERE {condition} ORDER BY row LIMIT 1"
        rows = self._rows(query, [value])
        if not rows and named and str(identity).isdigit():
            return self.find_row(int(identity))
        if not rows:
            raise InputError(f"There is no document {identity!r} in '{self.path}'; documents() lists them.")
        return int(rows[0][0])

    def score_column(self, method: str | None, class_: str | int | None) -> tuple[str, str | None]:
        """Return the column of scores of a method and class, and the class that documents must be explained for.

        The class is None if all documents were explained for the same one.
        """
        method = self.methods[0] if method is None else method
        if method not in self.methods:
            hint = suggestion(method, list(self.methods))
            raise OptionError(f"The run has no method '{method}'.{hint} Its methods: {', '.join(self.methods)}.")
        target = self.manifest["settings"]["target"]
        columns = self._score_columns(self.connection)
        if target == ALL and method not in columns:
            if class_ is None:
                raise OptionError(f"All classes were explained: choose one with class_ ({', '.join(self.labels)}).")
            return f"{method}:{self.labels[class_index(class_, self.labels)]}", None
        if class_ is None or target == ALL:
            return method, None
        wanted = self.labels[class_index(class_, self.labels)]
        if target == PREDICTED:
            return method, wanted
        if isinstance(target, list) or self.labels[class_index(target, self.labels)] != wanted:
            raise OptionError(
                f"The run explained '{target}', not '{wanted}': run it again with that target, or with 'all'."
            )
        return method, None


def open_run(path: str | Path) -> Store:
    """Open the results of `run` in a folder, or at the URI of an object store."""
    return Store(path)


def _condition(where: str | None) -> str:
    return "" if where is None else f" WHERE ({where})"


MOST_FIELDS = 1_000
"""Fields that become columns; each is read once to see whether it holds numbers."""
_WHOLE = r"\s*[+-]?(0|[1-9]\d{0,17})\s*"
_DIGITS = r"\s*[+-]?\d{1,31}\s*"
_NUMBER = r"\s*[+-]?\d{1,31}(\.\d*)?([eE][+-]?\d{1,3})?\s*"
"""As in `streaming`: a column of digits alone, with leading zeros or of more than 64 bits, holds names."""


def metadata_columns(connection: duckdb.DuckDBPyConnection, taken: Sequence[str]) -> str:
    """Return the SQL for one column per field of `rows.metadata`, each after a comma; "" if there are none.

    A column whose values are all numbers becomes numeric, with nulls for empty cells. A field whose name is taken gets
    the prefix "data_".
    """
    names = {name.casefold() for name in taken}
    keys = connection.execute(
        "SELECT json_keys(metadata) AS keys FROM rows WHERE metadata IS NOT NULL AND json_type(metadata) = 'OBJECT' "
        "GROUP BY keys ORDER BY min(row)"
    ).fetchall()
    parts = []
    for field in islice(dict.fromkeys(key for (group,) in keys for key in group), MOST_FIELDS):
        name = field
        while name.casefold() in names:
            name = f"data_{name}"
        names.add(name.casefold())
        pointer = "/" + field.replace("~", "~0").replace("/", "~1").replace("'", "''")
        value = f"json_extract_string(r.metadata, '{pointer}')"
        whole, digits, number = connection.execute(
            f"""SELECT bool_and(regexp_full_match(cell, $1)), bool_and(regexp_full_match(cell, $2)),
                bool_and(regexp_full_match(cell, $3))
                FROM (SELECT {value} AS cell FROM rows r) WHERE trim(cell) != ''""",
            [_WHOLE, _DIGITS, _NUMBER],
        ).fetchall()[0]
        if number and (whole or not digits):
            value = f"TRY_CAST(nullif(trim({value}), '') AS {'BIGINT' if whole else 'DOUBLE'})"
        parts.append(f", {value} AS {quote(name)}")
    return "".join(parts)
