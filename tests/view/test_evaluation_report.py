"""The report of an evaluation: everything escaped, nothing from outside, the same every time, honest sentences."""

from __future__ import annotations

import csv
import json
import re
from dataclasses import replace

import numpy as np
import pytest

from sightline.errors import InputError, UsageError
from sightline.evaluation import Evaluation, MetricCurve, Ranking, Record
from sightline.evaluation.planted import Planted, PlantedFinding, PlantedResult, PlantedTask
from sightline.evaluation.sanity import Comparison, SanityResult
from sightline.view.evaluate.folder import _draw_overview, write_evaluation
from sightline.view.evaluate.table import evaluation_text, floor_name
from sightline.view.words.evaluation import best_sentences, metric_sentences, opening_sentences, state_sentences
from sightline.view.words.phrases import format_number

pytestmark = pytest.mark.slow

NASTY = "<img src=x onerror=alert(1)>\"'&|$\\x"
RATIOS = np.array([0.0, 0.5, 1.0])


def evaluation(documents=("a", "b", NASTY), **facts) -> Evaluation:
    """`gradient` is much better than `rollout`, which is as good as random orders; one document fails for `rollout`."""
    records, curves = [], {}
    generator = np.random.default_rng(0)
    for number, document in enumerate(documents):
        for method, height in (("gradient", 0.8), ("rollout", 0.2)):
            if method == "rollout" and document == NASTY:
                records += [
                    Record(document, method, metric, None, status="failed", error=f"Failed on {NASTY}.")
                    for metric in ("aopc", "entropy")
                ]
                continue
            value = height + 0.01 * number
            floor = value + generator.normal(0, 0.05) if method == "rollout" else 0.2
            records.append(Record(document, method, "aopc", value, floor, 0.9, calls=3, seconds=0.1 * (1 + height)))
            records.append(Record(document, method, "entropy", 0.5, seconds=0.1))
            floors, reference = np.array([0, 0.2, 0.4]), np.array([0, 0.6, 0.9])
            curves[document, method, "aopc"] = MetricCurve(RATIOS, RATIOS * value, floors, reference)
    return Evaluation(
        records=tuple(records),
        documents=tuple(documents),
        methods=("rollout", "gradient"),
        metrics=("aopc", "entropy"),
        curves_by=curves,
        skipped={"auprc": f"No rationale {NASTY}.", "token_f1": f"No rationale {NASTY}."},
        settings={"seed": 0, "level": "word", "options": {}},
        provenance={"model": NASTY, "weights": "abc"},
        calls_requested=12,
        calls_made=7,
        seconds=3.2,
        **facts,
    )


def sanity() -> SanityResult:
    comparisons = [
        Comparison(document, method, stage, similarity, similarity, 9)
        for document in ("a", "b")
        for method, similarity in (("gradient", 0.0), ("rollout", 1.0))
        for stage in ("head", "embeddings")
    ]
    chance = {(method, stage): (-0.3, 0.3) for method in ("gradient", "rollout") for stage in ("head", "embeddings")}
    return SanityResult(
        "weight randomisation, cascading", tuple(comparisons), ("gradient", "rollout"), ("head", "embeddings"), chance
    )


def planted() -> PlantedResult:
    findings = [PlantedFinding(number, "gradient", 1.0, 0.05) for number in range(4)]
    return PlantedResult(tuple(findings), ("gradient",), Planted(None, (), PlantedTask(), 0, 200, 0.99, 1.0))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    out = tmp_path_factory.mktemp("report") / "out"
    write_evaluation(evaluation(), out, sanity=sanity(), planted=planted(), title=f"A report on {NASTY}")
    return out


def test_nothing_from_a_document_a_label_or_a_model_is_ever_markup(folder):
    page = (folder / "index.html").read_text()
    assert "<img src=x" not in page
    assert "&lt;img src=x onerror=alert(1)&gt;" in page
    assert re.findall(r"<script", page) == []
    for name in ("failures", "summary"):
        assert "<img" not in (folder / "tables" / f"{name}.md").read_text()
        assert not re.search(r"(?<!\\)\$", (folder / "tables" / f"{name}.tex").read_text())


def test_the_page_loads_nothing_from_outside(folder):
    page = (folder / "index.html").read_text()
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', page)[1]
    assert policy.startswith("default-src 'none'; img-src 'self' file:; style-src ")
    assert "unsafe" not in policy
    assert not re.search(r'(src|href)="(https?:|//)', page)
    for target in re.findall(r'(?:src|href)="([^"#]+)"', page):
        assert (folder / target).is_file(), target


def test_every_picture_and_table_is_written_in_every_form(folder):
    for name in ("cost", "curves_aopc", "cascade"):
        assert (folder / "figures" / f"{name}.svg").read_text().lstrip().startswith("<?xml")
        assert (folder / "figures" / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    for name in (
        "overview_faithfulness",
        "overview_dispersion",
        "summary",
        "metric_aopc",
        "metric_entropy",
        "paired",
        "sanity",
        "planted",
        "failures",
    ):
        assert {path.suffix for path in (folder / "tables").glob(f"{name}.*")} == {".csv", ".tex", ".md"}
    assert not list(folder.rglob("*.part"))


def test_the_evaluation_comes_back_from_the_folder(folder):
    assert Evaluation.load(folder).records == evaluation().records


def test_the_same_evaluation_gives_the_same_files(folder, tmp_path):
    write_evaluation(evaluation(), tmp_path, sanity=sanity(), planted=planted(), title=f"A report on {NASTY}")
    for path in folder.rglob("*"):
        if path.is_file():
            assert (tmp_path / path.relative_to(folder)).read_bytes() == path.read_bytes(), path.name


def test_sentences_name_the_best_and_those_that_are_no_better_than_chance():
    ranking = Ranking(evaluation(documents=tuple("abcdefgh")))
    sentences = metric_sentences(ranking, "aopc")
    assert sentences[0].startswith("Best by aopc: gradient, 0.835")
    assert sentences[1] == "It is clearly better than every other method."
    assert sentences[2] == "Not clearly better than random orders: rollout."
    assert metric_sentences(ranking, "entropy") == []  # neither direction is better


def test_few_documents_make_nothing_clear():
    sentences = metric_sentences(Ranking(evaluation()), "aopc")
    assert sentences[1:] == [
        "It is not clearly better than random orders.",
        "Not clearly worse, but not clearly better than random orders either: rollout.",
    ]


@pytest.mark.parametrize("count", [2, 5, 6, 8])
def test_a_method_that_is_better_on_every_document_is_clearly_better_where_chance_would_not_do_that(count):
    ranking = Ranking(evaluation(documents=tuple("abcdefgh"[:count])))
    enough = 2 * 0.5**count < 0.05
    assert ranking.better_than_floor("gradient", "aopc") is enough
    said = " ".join(state_sentences(ranking))
    assert ("cannot tell methods apart" in said) is not enough
    assert ("favour the same one of two equal methods in 6.2 % of all cases" in said) is (count == 5)


def test_every_floor_is_named_for_what_it_is():
    assert floor_name(["aopc", "log_odds"]) == "random orders (floor)"
    assert floor_name(["auprc", "token_f1"]) == "random scores (floor)"
    assert floor_name(["confidence"]) == "unrelated rankings (floor)"


def test_no_method_is_in_two_groups():
    for documents in (tuple("abc"), tuple("abcdefgh")):
        standing = Ranking(evaluation(documents=documents)).standing("aopc")
        named = [standing.best, *standing.close, *standing.undecided, *standing.weak]
        assert len(named) == len(set(named))


def test_what_failed_was_left_out_or_cut_short_is_reported():
    said = " ".join(state_sentences(Ranking(evaluation(complete=False))))
    assert "1 explanation of 1 document failed" in said
    assert "Left out: auprc, token_f1. No rationale" in said
    assert "stopped early" in said
    assert "requested 12 perturbed documents; the model read 7" in said


def test_the_overview_has_a_row_a_method_and_a_column_a_metric():
    table = Ranking(evaluation()).overview()
    assert list(table.columns) == ["method", "aopc", "entropy", "seconds"]
    assert table["method"].tolist() == ["rollout", "gradient"]
    assert table.loc[1, "aopc"] == pytest.approx(0.81)


def test_it_begins_with_what_was_done_and_what_came_of_it():
    measured = evaluation(documents=tuple("abcdefgh"))
    measured = replace(measured, records=tuple(replace(record, floor=0.2) for record in measured.records))
    done, outcome, figures = opening_sentences(Ranking(measured))
    assert done.startswith("2 methods explained 8 documents. The words that a method ranks highest were removed")
    assert outcome == "Most faithful is gradient, best by 1 of 1 metric."
    assert figures == "By aopc: gradient 0.835 (0.808 to 0.861), random orders 0.2, one word at a time 0.9."


def test_where_no_method_beats_random_orders_none_is_called_faithful():
    full = evaluation(documents=tuple("abcdefgh"))
    weak = replace(
        full, records=tuple(record for record in full.records if record.method == "rollout"), methods=("rollout",)
    )
    assert opening_sentences(Ranking(weak))[1] == "No method is clearly better than random orders; the best is rollout."


def test_without_a_metric_of_faithfulness_nothing_is_reported_about_it():
    (said,) = opening_sentences(Ranking(replace(evaluation(), metrics=("entropy",))))
    assert said.endswith("Faithfulness was not measured.")


def test_many_methods_that_are_all_as_good_are_not_listed():
    names = ("a", "b", "c", "d")
    records = tuple(Record("x", name, "aopc", 0.5 + place / 10) for place, name in enumerate(names))
    ranking = Ranking(Evaluation(records=records, documents=("x",), methods=names, metrics=("aopc",)))
    assert best_sentences(ranking, "aopc")[1] == (
        "None of the others is clearly worse (with this many methods, fewer than 8 documents cannot show it)."
    )


def lines_of_text(metrics=("aopc", "log_odds", "comprehensiveness", "sufficiency", "deletion"), **changes):
    """The text of an evaluation by several metrics whose values are those of aopc, negative for log_odds."""
    result = evaluation(documents=tuple("abcdefgh"))
    records = [
        replace(
            record, metric=name, value=sign * record.value, floor=sign * record.floor, reference=sign * record.reference
        )
        for name in metrics
        for sign in [-1 if name == "log_odds" else 1]
        for record in result.records
        if record.metric == "aopc"
    ]
    return evaluation_text(Ranking(replace(result, records=tuple(records), metrics=metrics, **changes))).splitlines()


def test_the_text_has_intervals_above_floor_and_reference_in_lines_of_limited_width():
    lines = lines_of_text()
    tables = [place for place, line in enumerate(lines) if line.startswith("method")]
    headings = [re.split(r"\s{2,}", lines[place]) for place in tables]
    assert headings == [
        ["method", "aopc ↑", "log odds ↓", "comprehensiveness ↑", "seconds"],
        ["method", "sufficiency ↓", "deletion ↓", "seconds"],
    ]
    assert max(len(line) for place in tables for line in lines[place : place + 6]) <= 110
    cells = {row[0]: row[1:] for row in (re.split(r"\s{2,}", line) for line in lines[tables[0] + 1 : tables[0] + 6])}
    assert list(cells) == ["gradient", "rollout", "random orders (floor)", "one at a time (reference)", "documents"]
    assert cells["gradient"][:2] == ["0.835 [0.808, 0.861]", "−0.835 [−0.861, −0.808]"]
    assert cells["rollout"][0].endswith("]*")
    assert cells["one at a time (reference)"] == ["0.900", "−0.900", "0.900"]
    assert cells["documents"] == ["8", "8", "8"]
    assert "* not clearly better than random orders." in "\n".join(lines)


def test_the_order_of_single_effects_is_called_a_reference_that_methods_can_exceed(folder):
    """A method passed what the page and its tables called a ceiling."""
    said = "which is no upper limit. Methods can do better, because words also act together."
    assert said in " ".join(lines_of_text())
    page = (folder / "index.html").read_text(encoding="utf-8")
    assert said in page
    assert "ceiling" not in re.sub(r"<script.*?</script>", "", page, flags=re.DOTALL)
    tables = [path.read_text(encoding="utf-8").splitlines()[0] for path in folder.rglob("*.csv")]
    assert any('"reference"' in columns for columns in tables)
    assert not any("ceiling" in columns for columns in tables)


def test_text_and_page_say_that_random_orders_favour_words_of_many_tokens(folder):
    said = "words of many tokens come first more often, as they do with methods that score tokens."
    assert said in " ".join(lines_of_text())
    assert said in (folder / "index.html").read_text(encoding="utf-8")


def test_every_metric_is_explained_above_its_column():
    lines = lines_of_text()
    (place,) = (place for place, line in enumerate(lines) if line.startswith("  log_odds ↓ "))
    assert "Mean log-ratio of the probability after and before" in lines[place]
    assert place < next(place for place, line in enumerate(lines) if line.startswith("method"))


def test_agreement_is_shown_beside_chance_method_by_method():
    records = tuple(
        Record(document, method, "spearman", value, chance)
        for document in "abcdef"
        for method, value, chance in (("gradient", 0.5, 0.25), ("rollout", 0.1, -0.125))
    )
    result = Evaluation(
        records=records, documents=tuple("abcdef"), methods=("gradient", "rollout"), metrics=("spearman",)
    )
    lines = evaluation_text(Ranking(result)).splitlines()
    start = next(place for place, line in enumerate(lines) if line.startswith("method"))
    assert [re.split(r"\s{2,}", line)[:3] for line in lines[start : start + 4]] == [
        ["method", "spearman ↑", "by chance"],
        ["gradient", "0.500 [0.500, 0.500]", "0.250"],
        ["rollout", "0.100 [0.100, 0.100]", "−0.125"],
        ["documents", "6"],
    ]


def test_a_metric_of_the_model_has_a_row_of_its_own():
    result = evaluation()
    records = (*result.records, Record("a", "(model)", "anisotropy", 0.75))
    text = evaluation_text(Ranking(replace(result, records=records, metrics=(*result.metrics, "anisotropy"))))
    assert re.search(r"^\(model\) +– +0\.750(?! \[)", text, re.MULTILINE)


def test_sentences_have_the_minus_sign_of_the_tables():
    assert any("Best by log_odds: gradient, −0.835 (−0.861 to −0.808)." in line for line in lines_of_text())
    assert format_number(-1.5, ".2f") == "−1.50"
    assert format_number(-0.001, ".2f") == "0.00"
    assert format_number(-1e-5) == "−1e-05"


def test_the_page_explains_a_metric_before_it_names_a_method_beside_it(folder):
    page = (folder / "index.html").read_text()
    assert page.index("2 methods explained") < page.index("the best is gradient") < page.index("<dl")
    meaning = (
        "<dt>aopc</dt><dd>Mean fall of the probability as the highest-scored words are deleted step by step (signed)."
    )
    assert page.index(f"{meaning} Higher is better.</dd>") < page.index("<table>")
    assert page.index("<dt>entropy</dt>") < page.index('<th scope="col">entropy</th>')


def test_the_overview_on_the_page_ends_with_floor_and_reference(folder):
    rows = list(csv.reader((folder / "tables" / "overview_faithfulness.csv").open(encoding="utf-8")))
    assert [row[0] for row in rows] == [
        "method",
        "gradient",
        "rollout",
        "random orders (floor)",
        "one at a time (reference)",
    ]
    assert float(rows[4][1]) == pytest.approx(0.9)


@pytest.mark.parametrize("width", [1280, 400])
def test_no_table_makes_the_page_wider_than_the_window(folder, browser, width):
    page = browser.new_page(viewport={"width": width, "height": 900})
    page.goto((folder / "index.html").as_uri())
    assert page.evaluate("document.documentElement.scrollWidth") == width
    cut = "[...document.querySelectorAll('.scroll')].filter(box => box.scrollWidth > box.clientWidth)"
    assert page.evaluate(f"{cut}.every(box => getComputedStyle(box).overflowX === 'auto')")
    first = "getComputedStyle(document.querySelector('.scroll td')).position"
    assert page.evaluate(first) == "sticky"  # what a row is about stays in sight
    page.close()


def test_text_and_json_hold_the_sanity_tests():
    ranking = Ranking(evaluation())
    text = evaluation_text(ranking, sanity=sanity(), planted=planted())
    assert "rollout does not change when every weight is random" in text
    assert "gradient ranks 100 % of the planted words first" in text
    content = json.loads(evaluation_text(ranking, "json", sanity=sanity(), planted=planted()))
    assert content["sanity"]["verdicts"] == {"gradient": "not shown", "rollout": "unchanged"}
    assert content["planted"]["summary"][0]["precision"] == 1.0


def test_a_report_without_any_value_can_be_written(tmp_path):
    records = tuple(Record("a", "gradient", "aopc", None, status="failed", error="No.") for _ in range(1))
    empty = Evaluation(records=records, documents=("a",), methods=("gradient",), metrics=("aopc",))
    page = write_evaluation(empty, tmp_path / "out")
    assert "1 explanation of 1 document failed" in page.read_text()


def test_a_place_that_is_not_a_folder_is_refused(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(UsageError, match="it is a file"):
        write_evaluation(evaluation(), tmp_path / "file")


def test_a_folder_that_was_used_before_keeps_nothing_of_it_but_what_others_put_there(tmp_path):
    write_evaluation(evaluation(), tmp_path, sanity=sanity())
    (tmp_path / "figures" / "mine.svg").write_text("<svg/>")
    (tmp_path / "notes.txt").write_text("mine")
    assert (tmp_path / "figures" / "cascade.svg").exists()
    write_evaluation(evaluation(), tmp_path)
    left = {path.name for path in tmp_path.rglob("*") if path.is_file()}
    assert not left & {"cascade.svg", "cascade.png", "sanity.csv", "sanity.tex", "sanity.md"}
    assert {"mine.svg", "notes.txt", "cost.svg", "cost.png", "overview_faithfulness.csv"} <= left


def test_a_page_of_someone_else_names_nothing_that_is_removed(tmp_path):
    (tmp_path / "figures").mkdir()
    (tmp_path / "figures" / "own.svg").write_text("<svg/>")
    (tmp_path / "index.html").write_text('<a href="figures/own.svg">my figure</a>')
    with pytest.raises(UsageError, match="was not written by Sightline"):
        write_evaluation(evaluation(), tmp_path)
    write_evaluation(evaluation(), tmp_path, overwrite=True)
    assert (tmp_path / "figures" / "own.svg").exists()


def test_every_row_of_a_long_table_is_on_the_page(tmp_path):
    names = [f"document-{number}" for number in range(30)] + [NASTY]
    result = evaluation(names)
    broken = [Record(name, "other", "aopc", None, status="failed", error=f"Reason of {name}.") for name in names]
    page = write_evaluation(replace(result, records=(*result.records, *broken)), tmp_path).read_text()
    folded = page.split("<details>")[-1]
    assert "<summary>All 33 rows</summary>" in folded
    assert all(f"Reason of {name}." in folded for name in names[:30])
    assert "<img src=x" not in page


def test_the_page_starts_with_the_overview_and_has_the_intervals_and_marks_of_the_terminal(tmp_path):
    many = evaluation(documents=tuple("abcdefghijkl"))
    write_evaluation(many, tmp_path / "out")
    page = (tmp_path / "out" / "index.html").read_text(encoding="utf-8")
    assert page.index("figures/overview.svg") < page.index("<table>")
    table = re.search(r"Means of faithfulness</h3>.*?</table>", page, re.S)[0]
    rows = re.findall(r"<tr>(.*?)</tr>", table, re.S)
    cells = [re.findall(r"<td[^>]*>(.*?)</td>", row) for row in rows[1:]]
    text = evaluation_text(Ranking(many))
    for row in cells:
        assert all(cell in text for cell in row), row
    weak = next(row for row in cells if row[0] == "rollout")
    assert re.fullmatch(r"0\.\d+ \[0\.\d+, 0\.\d+\]\*", weak[1])
    assert "* not clearly better than random orders." in page


def test_the_overview_draws_a_dot_per_method_hollow_where_chance_does_as_well():
    ranking = Ranking(evaluation())
    figure = _draw_overview(ranking, ["aopc"])
    axes = figure.axes[0]
    dots = [line for line in axes.lines if line.get_marker() == "o"]
    assert sorted(float(dot.get_xdata()[0]) for dot in dots) == pytest.approx(
        sorted(ranking.ranked("aopc")["mean"].tolist())
    )
    hollow = {float(dot.get_ydata()[0]) for dot in dots if dot.get_markerfacecolor() == "white"}
    methods = [label.get_text() for label in axes.get_yticklabels()]
    assert {methods[int(place)] for place in hollow} == set(ranking.no_better_than_floor("aopc"))
    levels = [line.get_xdata()[0] for line in axes.lines if list(line.get_ydata()) == [0, 1]]
    assert levels == pytest.approx([ranking.floors(["aopc"])["aopc"], ranking.references(["aopc"])["aopc"]])


@pytest.mark.browser
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1024, 1400, 1920])
def test_nothing_of_the_page_is_cut_off(browser, folder, width, scheme):
    page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
    page.goto((folder / "index.html").as_uri())
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    width_of_image = "image => image.decode().then(() => image.naturalWidth)"
    assert page.locator("img[src='figures/overview.svg']").evaluate(width_of_image) > 100
    page.close()


def test_an_evaluation_plots_its_methods_by_the_metrics_that_rank_them(tmp_path):
    figure = evaluation().plot(tmp_path / "overview.svg")
    said = {text.get_text() for axes in figure.axes for text in [*axes.get_yticklabels(), axes.title]}
    assert {"gradient", "rollout"} <= said
    assert (tmp_path / "overview.svg").read_text().startswith("<?xml")
    with pytest.raises(InputError, match="nothing to draw"):
        Evaluation(records=(), documents=("a",), methods=("gradient",), metrics=("aopc",)).plot()
