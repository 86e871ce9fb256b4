"""An inspection: the tables hold what the analysis says, the page shows all of it and runs nothing."""

from __future__ import annotations

import os
import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

import sightline as sl
from sightline import analysis
from sightline.analysis import InspectionSettings, TokenFilter, head_importance_of, inspect_dataset
from sightline.errors import InputError, OptionError, UsageError
from sightline.files.ownership import RECORD, check_output_folder
from sightline.view.frames import to_text
from sightline.view.inspect.attention import NEARLY_FULL, relations_section
from sightline.view.inspect.sections import document_sections, heads_section
from sightline.view.inspect.summary import (
    INSPECTION,
    compact,
    dataset_summary,
    document_summary,
    similarity_text,
    write_inspection,
)
from sightline.view.sections.pages import Picture, Section, Table, write_sections
from sightline.view.words.sentences import percent
from sightline.view.words.takeaways import TEXT_PAGE, takeaways
from tests.tiny_models import tiny_module
from tests.tiny_tokenizers import byte_level, wordpiece

pytestmark = pytest.mark.slow

HOSTILE = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "</style><svg onload=alert(1)>",
    "javascript:alert(1)",
    "$\\frac{1}{0}$",
    "\x1b[31m",
    "=HYPERLINK(1)",
    "\u202eevil",
    "--><b>",
]
TEXT = "The mill " + " ".join(HOSTILE) + " old mill."
DRAWN_FOR_SHORT_TEXTS = ("relations", "received", "attcat-layers", "rollout-layers")
LABELS = {0: "<i>AI</i>", 1: "<i>PL</i>", 2: "<script>alert(2)</script>"}


@pytest.fixture(scope="module")
def model():
    module = tiny_module("longformer", dtype=torch.float32, vocab_size=400, id2label=LABELS)
    return sl.load(module, tokenizer=byte_level())


@pytest.fixture(scope="module")
def small():
    return sl.load(tiny_module("bert", dtype=torch.float32), tokenizer=wordpiece())


@pytest.fixture(scope="module")
def inspection(model):
    return model.inspect(TEXT, top_k=4, permutations=20)


@pytest.fixture(scope="module")
def folder(inspection, tmp_path_factory):
    place = tmp_path_factory.mktemp("inspection")
    write_inspection(place, inspection)
    return place


class Elements(HTMLParser):
    def __init__(self, page: str):
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.text.append(data)


def page_of(folder: Path) -> Elements:
    return Elements((folder / "index.html").read_text(encoding="utf-8"))


def table(folder: Path, name: str) -> pd.DataFrame:
    return pd.read_csv(folder / "tables" / f"{name}.csv", keep_default_na=False, float_precision="round_trip")


def test_everything_the_page_names_is_there_and_everything_there_is_named(folder):
    named = {
        address
        for tag, attributes in page_of(folder).found
        for address in (attributes.get("src"), attributes.get("href"))
        if address and not address.startswith("#")
    }
    written = {str(path.relative_to(folder)) for path in folder.rglob("*.*")} - {"index.html", RECORD}
    assert named == written
    assert sum(name.endswith(".svg") for name in named) == sum(name.endswith(".png") for name in named) == 6


def test_no_text_of_the_document_or_the_model_becomes_part_of_the_page(folder):
    page = page_of(folder)
    known = {"html", "head", "meta", "title", "style", "body", "nav", "p", "ol", "li", "a", "main", "h1", "h2", "h3"}
    known |= {"section", "figure", "figcaption", "img", "div", "table", "thead", "tbody", "tr", "th", "td", "dl"}
    known |= {"dt", "dd", "caption", "details", "summary"}
    assert {tag for tag, _ in page.found} <= known
    for tag, attributes in page.found:
        assert not any(name.startswith("on") or name == "style" for name in attributes)
        if tag in ("a", "img"):
            address = attributes.get("href") or attributes["src"]
            assert re.fullmatch(r"#[\w-]+|(figures|tables)/[\w.-]+|page\.html", address)
    assert "alert(1)" in " ".join(page.text)
    assert "\x1b" not in " ".join(page.text)


def test_the_policy_allows_pictures_and_our_style_only(folder):
    policy = next(a["content"] for t, a in page_of(folder).found if a.get("http-equiv") == "Content-Security-Policy")
    assert policy.startswith("default-src 'none'; img-src 'self' file:; style-src 'sha256-")
    assert "unsafe" not in policy
    assert "script" not in policy


def test_no_table_holds_nan(folder):
    for path in (folder / "tables").iterdir():
        assert not re.search(r"\b(nan|inf)\b", path.read_text(), flags=re.IGNORECASE), path.name


def test_tables_hold_what_the_analysis_says(model, folder):
    encoding = model.encode(TEXT, truncate=True)
    trace = model.trace(encoding)
    kept = TokenFilter()
    importance = head_importance_of(model.trace(encoding))
    heads = table(folder, "head-importance")
    np.testing.assert_allclose(
        heads["importance"], importance[heads["layer"].to_numpy(), heads["head"].to_numpy()], rtol=1e-12
    )
    assert (heads["importance"].diff().dropna() <= 0).all()
    counts = analysis.relation_counts(trace, 4, kept)
    attended = counts.by_type("attended", top=20)
    assert table(folder, "attended-by-type")["count"].tolist() == attended["count"].tolist()
    received = analysis.totals(trace)
    np.testing.assert_array_equal(table(folder, "received-by-token")["all"], received.over("all"))
    explained = model.explain(encoding, method="attcat")
    words = analysis.attributions_by_type(explained, 4, filter=kept).to_frame()
    np.testing.assert_array_equal(table(folder, "attcat-by-type")["score"], words["score"])
    compared = analysis.document_similarity(
        trace, explained, head_weights=importance, filter=kept, permutations=20, seed=0
    )
    for masked, name in ((False, "unmasked"), (True, "masked")):
        expected = analysis.similarity_layout(compared, masked=masked)
        shown = table(folder, f"attcat-similarity-{name}")
        np.testing.assert_array_equal(shown["kendall"], expected["kendall"])
        np.testing.assert_array_equal(shown["kendall_chance"], expected["kendall_chance"])


def test_the_same_inspection_gives_the_same_bytes(model, inspection, tmp_path):
    again = model.inspect(TEXT, inspection.settings)
    for number, shown in enumerate((inspection, again)):
        tables = tuple(
            part for section in document_sections(shown) for part in section.parts if isinstance(part, Table)
        )
        some = [heads_section(shown), Section("tables", "Tables", (), tables)]
        write_sections(tmp_path / str(number), INSPECTION, "title", some, {"fact": "value"})
    first, second = (
        {path.relative_to(tmp_path / name): path.read_bytes() for path in (tmp_path / name).rglob("*.*")}
        for name in ("0", "1")
    )
    assert len(first) > 40
    assert first == second


def test_a_head_is_shown_in_full_where_it_is_asked_for(model, small, inspection):
    best = np.unravel_index(np.argmax(inspection.importance), inspection.importance.shape)
    assert inspection.head == best
    assert not any(part.name.startswith("attention-layer") for part in heads_section(inspection).parts)
    within = model.inspect(TEXT, layer=1, permutations=5)
    assert within.head == (1, int(np.argmax(within.importance[1])))
    asked = small.inspect(TEXT, layer=1, head=2, permutations=5)
    figure = next(part for part in heads_section(asked).parts if part.name == "attention-layer-1-head-2").draw()
    weights = np.asarray(small.trace(asked.encoding).attentions[1])[2]
    np.testing.assert_allclose(figure.axes[0].images[0].get_array(), weights, rtol=1e-6)


def test_the_page_of_the_text_is_that_of_the_report(inspection, folder):
    assert (folder / TEXT_PAGE).read_text(encoding="utf-8") == inspection.report.to_html()


def test_one_layer_and_head_count_alone(model):
    small_inspection = model.inspect(TEXT, layer=1, head=2, top_k=4, permutations=5)
    frame = next(part.frame for part in relations_section(small_inspection).parts if part.name == "attended-by-type")
    expected = small_inspection.relations.by_type("attended", 1, 2, top=20)
    assert frame["count"].tolist() == expected["count"].tolist()


@pytest.mark.parametrize("chosen", [{"layer": 1, "head": 2}, {"layer": -1}, {"head": 0}])
def test_the_words_shown_are_those_of_the_chosen_layer_and_head(small, chosen):
    text = "the old river runs; a mill stands by the old river of hello world"
    asked = small.inspect(text, top_k=4, stop_words=None, permutations=5, **chosen)
    layers = [chosen["layer"] % 3] if "layer" in chosen else [0, 1, 2]
    heads = [chosen["head"]] if "head" in chosen else range(4)
    trace = small.trace(asked.encoding)
    received = np.mean([trace.received[layer, head] for layer in layers for head in heads], axis=0)

    sections = document_sections(asked)
    tables = {part.name: part.frame for section in sections for part in section.parts if isinstance(part, Table)}
    listed = [name for name in tables if name.startswith("received-") and name != "received-by-token"]
    assert listed == ["received-chosen"]
    frame = tables["received-chosen"]
    ranked = sorted(
        ((received[list(word.tokens)].sum(), -word.tokens[0]) for word in asked.first.words()), reverse=True
    )[:4]
    assert frame["position"].tolist() == [-position for _, position in ranked]
    np.testing.assert_allclose(frame["received"], [value for value, _ in ranked], rtol=1e-6)

    named = {
        "layer": f"in layer {layers[0]}" + (", head 2" if "head" in chosen else ""),
        "head": "in head 0 of every layer",
    }[next(iter(chosen))]
    summary = document_summary(asked)
    assert f"Words that receive the most attention, {named}\n{to_text(frame)}".rstrip() in summary
    assert any(
        f"at position {-ranked[0][1]} receives the most attention {named}," in t.sentence for t in takeaways(asked)
    )
    for word in asked.disagreements["attcat"]["high_attention_low_attribution"]:
        tokens = next(w.tokens for w in asked.first.words() if w.tokens[0] == word.position)
        assert word.attention == pytest.approx(received[list(tokens)].sum(), rel=1e-6)


def test_a_single_head_shows_its_words_even_if_its_importance_is_zero(small):
    importance = small.inspect(TEXT, permutations=5).importance
    layer, head = (int(place) for place in np.unravel_index(np.argmin(importance), importance.shape))
    asked, plain = (
        small.inspect(TEXT, layer=layer, head=head, scaled=scaled, count="pairs", permutations=5)
        for scaled in (True, False)
    )
    assert importance[layer, head] == 0.0
    for each in (asked, plain):
        assert "receives the most attention in layer" in " ".join(t.sentence for t in takeaways(each))
    assert document_summary(asked) == document_summary(plain)


def test_scaled_heads_count_by_their_importance(model):
    small_inspection = model.inspect(TEXT, scaled=True, permutations=5)
    expected = analysis.totals(model.trace(model.encode(TEXT, truncate=True)), small_inspection.importance)
    np.testing.assert_allclose(small_inspection.totals.over("all"), expected.over("all"))


def test_without_head_importance_nothing_is_scaled(small):
    small_inspection = small.inspect("The old mill.", head_importance=False, permutations=5)
    assert small_inspection.importance is None
    assert not any(setting.scaled for setting in small_inspection.similarity["attcat"])
    assert [part.name for part in heads_section(small_inspection).parts] == ["attention-maps"]


@pytest.mark.parametrize("text", ["mill", "the", "the of and the", "!", "the old mill"])
def test_short_texts_and_texts_of_stop_words_say_so_in_sentences(small, text):
    small_inspection = small.inspect(text, methods=("attcat", "rollout"), top_k=10, permutations=5)
    summary = document_summary(small_inspection)
    assert "nan" not in summary.lower()
    for section in document_sections(small_inspection):
        for part in section.parts:
            if hasattr(part, "frame"):
                assert not part.frame.isna().to_numpy().any()
            elif getattr(part, "name", "") in DRAWN_FOR_SHORT_TEXTS:
                part.draw()
    if text == "the of and the":
        assert "Nothing is left to rank: the filter drops every word." in summary
        assert "Nothing is left to compare: the filter drops every word." in summary


@pytest.mark.parametrize(
    ("count", "counted"),
    [("tokens", "each querying token counted once per instance"), ("pairs", "each list of a layer and head counted")],
)
def test_the_figure_of_counts_says_how_relations_were_counted(small, count, counted):
    parts = relations_section(small.inspect("the old mill and the new mill", count=count, top_k=2)).parts
    (figure,) = (part.draw() for part in parts if isinstance(part, Picture))
    assert f"Partners among the top 2, {counted}." in " ".join(
        text.get_text().replace("\n", " ") for text in figure.texts
    )


def test_a_word_that_lists_leave_out_is_counted_among_all_words(small):
    inspection = small.inspect("the old mill and the new mill", word="the", top_k=2)
    section = relations_section(inspection)
    table = next(part for part in section.parts if isinstance(part, Table) and part.name == "word-instances")
    unfiltered = small.inspect("the old mill and the new mill", stop_words=None, top_k=2).relations.instances("the")
    pd.testing.assert_frame_equal(table.frame, unfiltered, check_dtype=False)
    sentence = "The lists leave out “the”; its instances are counted and ranked among all words."
    assert sentence in section.sentences
    assert sentence in document_summary(inspection)
    listed = small.inspect("the old mill and the new mill", word="new", top_k=2)
    assert not any("leave out" in sentence for sentence in relations_section(listed).sentences)


def test_a_word_that_does_not_occur_is_named(small):
    inspection = small.inspect("the old mill", word="giraffe")
    assert "The word “giraffe” does not occur in the document." in relations_section(inspection).sentences
    assert "The word “giraffe” does not occur in the document." in document_summary(inspection)


def test_captions_say_where_counts_are_saturated(small):
    text = "The old mill runs past the river. Miller runs past the old mill."
    full = small.inspect(text, top_k=40, permutations=5)
    picture = next(part for part in relations_section(full).parts if part.name == "relations")
    assert "saturated and do not rank words: in a text this short" in picture.sentence
    assert "saturated" in document_summary(full)
    assert all(takeaway.shown_in != "relations" for takeaway in takeaways(full))
    partly = small.inspect(text, top_k=17, layer=0, head=0, permutations=5)
    share = partly.relations.saturation("attended", 0, 0, count=partly.settings.counting)
    assert NEARLY_FULL <= share < 1
    assert f"lists of 17 hold {percent(share)} of the attended words" in document_summary(partly)
    ranked = small.inspect(text, top_k=1, layer=0, head=0, permutations=5)
    assert "saturated" not in document_summary(ranked)
    assert any(takeaway.shown_in == "relations" for takeaway in takeaways(ranked))


def test_keeping_stop_words_keeps_one_list_of_relations(small):
    small_inspection = small.inspect("the old mill", stop_words=None, permutations=5)
    assert small_inspection.all_relations is small_inspection.relations
    assert "the" in small_inspection.relations.by_type("attended")["type"].tolist()


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"stop_words": "klingon"}, "no list of stop words for 'klingon'"),
        ({"layer": 14}, "Layer 14 asked for, the model has 3"),
        ({"head": 9}, "Head 9 asked for, the model has 4"),
        ({"position": 500}, "Position 500 asked for"),
        ({"top_k": 0}, "top_k"),
        ({"methods": ("magic",)}, "magic"),
    ],
)
def test_a_wrong_request_is_refused_with_a_sentence(small, options, sentence):
    with pytest.raises(OptionError, match=sentence):
        small.inspect("the old mill", **options)


def test_nothing_to_write_and_a_file_in_the_way_are_refused(inspection, tmp_path):
    with pytest.raises(UsageError, match="nothing to write"):
        write_inspection(tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="it is a file"):
        write_inspection(tmp_path / "file", inspection)
    with pytest.raises(UsageError, match="'.*file' is a file"):
        write_inspection(tmp_path / "file" / "new", inspection)


def test_a_page_that_sightline_did_not_write_is_replaced_only_on_request(folder, tmp_path):
    page = tmp_path / "index.html"
    page.write_text("<!doctype html><title>Mine</title>")
    with pytest.raises(UsageError, match="was not written by Sightline"):
        check_output_folder(tmp_path, INSPECTION)
    assert page.read_text() == "<!doctype html><title>Mine</title>"
    assert check_output_folder(tmp_path, INSPECTION, overwrite=True) == tmp_path
    assert check_output_folder(folder, INSPECTION) == folder  # a page of ours is written again


def test_a_folder_is_checked_without_being_made(tmp_path):
    assert check_output_folder(tmp_path / "new" / "folder", INSPECTION) == tmp_path / "new" / "folder"
    assert not list(tmp_path.iterdir())
    with pytest.raises(UsageError, match="longer than 255 bytes|name too long"):
        check_output_folder(tmp_path / ("long" * 100) / "folder", INSPECTION)


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write everywhere")
def test_a_new_folder_in_a_place_that_cannot_be_written_is_refused(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(UsageError, match="permission denied"):
        check_output_folder(tmp_path / "new" / "folder", INSPECTION)


def test_numbers_for_people_have_a_minus_sign():
    frame = pd.DataFrame({"kendall": [-0.123, -0.001], "kendall_low": [-0.5, -0.5], "kendall_high": [0.1, 0.1]})
    assert compact(frame)["kendall"].tolist() == ["−0.12 [−0.50, 0.10]", "0.00 [−0.50, 0.10]"]


ROWS = [
    {"id": "a", "text": "The old mill runs past the river.", "label": 0},
    {"id": "empty", "text": "  ", "label": 1},
    {"id": "b", "text": "Hello, Miller! The mill is old.", "label": None},
]


def test_a_data_set_is_inspected_with_intervals_beside_chance(small, tmp_path):
    over_all = inspect_dataset(small, ROWS, InspectionSettings(permutations=5))
    assert over_all.documents == 2
    assert any("Document empty was left out" in note for note in over_all.notes)
    np.testing.assert_allclose(
        over_all.importance,
        analysis.head_importance(small, [ROWS[0]["text"], ROWS[2]["text"]], [0, None]),
        rtol=1e-6,
    )
    cell = next(
        kendall_cell for kendall_cell in over_all.similarity["attcat"].cells if kendall_cell.statistic == "kendall"
    )
    single = [
        analysis.document_similarity(
            small.trace(text), small.explain(text, method="attcat"), head_weights=over_all.importance, permutations=5
        )[0].values["kendall"]
        for text in (ROWS[0]["text"], ROWS[2]["text"])
    ]
    assert cell.mean.mean == pytest.approx(np.mean(single))
    said = dataset_summary(over_all)
    assert "2 documents." in said
    assert "chance" in said
    assert "[" not in similarity_text(over_all)  # two documents have no interval


def test_anisotropy_over_a_data_set_is_the_mean_of_its_documents(small, tmp_path):
    over_all = inspect_dataset(small, ROWS, InspectionSettings(permutations=5, anisotropy=True))
    texts = [row["text"] for row in ROWS if row["id"] != "empty"]
    single = [analysis.anisotropy_by_layer(small.trace(text)) for text in texts]
    for name in ("hidden", "outputs", "transformed", "transformed_in_row"):
        expected = np.mean([getattr(one, name) for one in single], axis=0)
        np.testing.assert_allclose(getattr(over_all.anisotropy, name), expected, atol=1e-6)
    assert "Anisotropy over the layers, mean over documents" in dataset_summary(over_all)
    write_inspection(tmp_path, dataset=over_all)
    assert (tmp_path / "figures" / "dataset-anisotropy.svg").exists()
    assert len(table(tmp_path, "dataset-anisotropy")) == len(single[0].outputs)
    assert inspect_dataset(small, ROWS, InspectionSettings(permutations=5)).anisotropy is None


def test_the_summary_of_a_data_set_lists_the_ranks_of_single_tokens(small):
    over_all = inspect_dataset(small, ROWS, InspectionSettings(permutations=5))
    said = dataset_summary(over_all)
    assert "Ranks of special tokens and punctuation by attcat." in said
    for token in ("[CLS]", "[SEP]", ",", "."):
        assert any(line.split()[:1] == [token] for line in said.splitlines())


def test_effective_attention_is_shown_on_request_where_values_can_cancel(small):
    text = "the old mill and the new mill near the river"
    inspection = small.inspect(text, effective=True, layer=1, head=2)
    trace = small.trace(text)
    np.testing.assert_allclose(inspection.effective.effective, analysis.effective_attention(trace, 1)[2], atol=1e-6)
    share = percent(float(analysis.cancelled_share(trace).mean()))
    assert f"On average, {share} of the squared attention weights" in document_summary(inspection)
    assert "cancelled-attention" in [part.name for part in heads_section(inspection).parts]
    assert "All attention has an effect" in document_summary(small.inspect("the mill", effective=True))
    plain = small.inspect(text)
    assert plain.effective is None
    assert "effective" not in document_summary(plain).lower()


def test_a_fixed_class_is_averaged_over_all_documents_unless_said_otherwise(small):
    texts = [row["text"] for row in ROWS if row["id"] != "empty"]
    predicted, fixed, present = (
        inspect_dataset(small, ROWS, InspectionSettings(permutations=5, stop_words=None, rule=rule), target=target)
        for target, rule in ((None, None), (1, None), (1, "mean-present"))
    )
    assert {words.rule for words in predicted.words} == {"mean-present"}
    assert [words.rule for words in (*fixed.words, *present.words)] == ["mean-all", "mean-present"]
    explained = [small.explain(text, method="attcat", target=1) for text in texts]
    mill = sum(score.score for one in explained for score in one.words() if score.text == "mill") / len(texts)
    frame = fixed.words[0].table.to_frame().set_index("text")
    assert frame.loc["mill", "score"] == pytest.approx(mill)
    assert "averaged over all documents" in dataset_summary(fixed)
    assert "averaged over all documents" not in dataset_summary(present)
    with pytest.raises(OptionError, match="name it with target="):
        inspect_dataset(small, ROWS, InspectionSettings(rule="mean-all"))


def test_a_data_set_without_a_readable_text_is_refused(small):
    with pytest.raises(InputError, match="No document of the data set can be read"):
        inspect_dataset(small, [{"text": ""}], InspectionSettings())


@pytest.mark.browser
@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (400, "dark")])
def test_the_page_shows_all_pictures_and_fits_the_window(browser, folder, width, scheme):
    troubles = []
    page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
    page.on("pageerror", lambda error: troubles.append(str(error)))
    page.on("console", lambda message: troubles.append(message.text))
    page.on("dialog", lambda dialog: troubles.append(dialog.message))
    page.on("request", lambda request: request.url.startswith(folder.as_uri()) or troubles.append(request.url))
    page.goto((folder / "index.html").as_uri())
    # Lazy pictures are loaded, and the promise fails for one that cannot be shown.
    page.evaluate("Promise.all([...document.images].map(one => { one.loading = 'eager'; return one.decode() }))")
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    page.close()
    assert troubles == []
