"""Documents longer than the model reads: merged scores equal a computation by hand, whatever the rule."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import AutoModelForQuestionAnswering, AutoModelForTokenClassification

from sightline.api.load import load
from sightline.errors import InputError, OptionError, TargetError, UnsupportedError
from sightline.methods import METHODS
from sightline.models.batching import window_positions
from sightline.results.explanation import Explanation
from sightline.text import cut_windows, encode_text, read_in_windows, window_encodings
from sightline.text.units import units_of
from sightline.text.windows import default_max_windows
from sightline.view.words.sentences import notices
from tests.contract.test_contract import QUICK
from tests.tiny_models import tiny_ids, tiny_model, tiny_module
from tests.tiny_tokenizers import wordpiece

LENGTH = 300
SENTENCES = "The old mill. Hello river world, hello miller! The river runs. "
THREE_DECIDE = 3
"""Seed of a document whose three classes have their largest logits in three windows, so that no two rules agree."""
LINEAR_ONLY = ("gradient_shap", "layer_conductance")
"""Methods that are refused where the windows enter the document's number in any other way."""
LINEAR = ("attcat", "input_x_gradient", "rollout", "alti", "raw_attention", "transatt", "lrp")


def long_encoding(model, n=LENGTH, seed=0, **options):
    return model.encode(ids=tiny_ids(model.network.config.model_type, n, seed), **options)


def windows_of(encoding):
    positions = window_positions(encoding)
    return list(zip(window_encodings(encoding, positions), positions, strict=True))


def logits_by_hand(model, encoding):
    """Logits (W, C) of every window, run alone by the library."""
    rows = []
    for window, _ in windows_of(encoding):
        ids = torch.from_numpy(window.ids)[None]
        with torch.no_grad():
            rows.append(model.network.module(input_ids=ids, attention_mask=torch.ones_like(ids)).logits[0])
    return torch.stack(rows)


@pytest.fixture(scope="module")
def model():
    return tiny_model()


# Cutting --------------------------------------------------------------------------------------------------------------


@settings(deadline=None, max_examples=60)
@given(
    sentences=st.lists(st.integers(1, 30), min_size=1, max_size=40),
    max_tokens=st.integers(24, 90),
    overlap=st.integers(0, 3) | st.none(),
    question=st.booleans(),
)
def test_windows_cover_the_text_fit_the_model_and_overlap(sentences, max_tokens, overlap, question):
    text = " ".join("river " * (size - 1) + "Mill." for size in sentences)
    encoding = encode_text(wordpiece(), *(("old mill", text) if question else (text,)), max_tokens=None)
    windows = cut_windows(encoding, max_tokens, overlap) if len(encoding) > max_tokens else None
    if windows is None:
        return
    first, last = windows.spans[0][0], windows.spans[-1][1]
    frame = len(encoding) - (last - first)
    room = max_tokens - frame
    least = room // 8 if overlap is None else overlap
    assert (encoding.segments[first:last] == int(question)).all()
    assert all(len(window) <= max_tokens for window, _ in windows_of(replace_windows(encoding, windows)))
    for (start, end), (following, _) in zip(windows.spans, windows.spans[1:], strict=False):
        assert start < following <= end
        assert least <= end - following <= 2 * least
        assert end - start > room // 2


def replace_windows(encoding, windows):
    from dataclasses import replace

    return replace(encoding, windows=windows)


def test_windows_begin_and_end_at_sentences():
    encoding = encode_text(wordpiece(), SENTENCES * 12, max_tokens=None)
    starts = {1, *units_of(encoding, "sentence").first_tokens.tolist(), len(encoding) - 1}
    for start, end in cut_windows(encoding, 60).spans:
        assert {start, end} <= starts


def test_no_window_is_a_short_remainder():
    encoding = encode_text(wordpiece(), "river " * 121, max_tokens=None)
    sizes = [end - start for start, end in cut_windows(encoding, 62, overlap=0).spans]
    assert max(sizes) - min(sizes) <= 1


def test_a_short_text_that_leaves_no_room_in_a_pair_means_truncation():
    model = load(tiny_module(), tokenizer=wordpiece())
    encoding = model.encode("the mill " * 60, "old river " * 60)
    assert encoding.windows is None
    assert encoding.dropped > 0


@pytest.mark.parametrize("overlap", [-1, 60])
def test_an_impossible_overlap_is_refused(model, overlap):
    with pytest.raises(OptionError, match=r"windows of \d+ tokens of text overlap by 0 to"):
        long_encoding(model, overlap=overlap)


def test_a_very_long_text_is_read_up_to_the_largest_number_of_windows():
    model = load(tiny_module(max_position_embeddings=24), tokenizer=wordpiece())
    text = SENTENCES * 40
    whole = encode_text(wordpiece(), text, max_tokens=None)
    encoding = model.encode(text, max_windows=5)
    assert len(encoding.windows) == 5
    assert encoding.dropped == len(whole) - len(encoding) > 0
    end = encoding.windows.spans[-1][1]
    np.testing.assert_array_equal(encoding.ids, [*whole.ids[:end], whole.ids[-1]])
    alone = model.explain(encoding, "attcat")
    assert alone.checks["dropped_tokens"] == encoding.dropped
    said = " ".join(notices(alone))
    assert f"{encoding.dropped:,} more were cut off" in said
    assert "A larger max_windows reads more of them." in said
    assert model.encode(text, max_windows=10_000).dropped == 0


def test_by_default_windows_have_a_bounded_number_of_tokens():
    assert default_max_windows(512) == 64
    assert default_max_windows(4096) == default_max_windows(100_000) == 8
    encoding = encode_text(wordpiece(), "river " * 40_000, max_tokens=None)
    windowed = read_in_windows(encoding, 512)
    assert len(windowed.windows) == 64
    assert len(windowed) + windowed.dropped == len(encoding)


@pytest.mark.parametrize("count", [0, -1, 2.5, "many"])
def test_an_impossible_number_of_windows_is_refused(model, count):
    with pytest.raises(OptionError, match="max_windows must be a whole number of at least 1"):
        long_encoding(model, max_windows=count)


def test_a_million_characters_cost_what_the_windows_cost(model, monkeypatch):
    """Windows are cut out of the document in proportion to their own length, not to that of the document."""
    touched = []
    original = type(long_encoding(model)).select

    def select(self, positions):
        touched.append(len(positions))
        return original(self, positions)

    def drop(self, positions):
        raise AssertionError("a window must not be made by dropping the rest of the document")

    encoding = long_encoding(model, 1200)
    monkeypatch.setattr(type(encoding), "select", select)
    monkeypatch.setattr(type(encoding), "drop", drop)
    model.explain(encoding, "attcat")
    assert touched
    assert max(touched) <= model.max_tokens


def test_borders_stay_between_the_same_tokens_when_tokens_are_deleted(model):
    encoding = long_encoding(model)
    removed = [3, 4, 120, 121, 250]
    left = np.delete(np.arange(LENGTH), removed)
    for (window, positions), (_, before) in zip(windows_of(encoding.drop(removed)), windows_of(encoding), strict=True):
        np.testing.assert_array_equal(left[positions], np.setdiff1d(before, removed))
        assert window.windows is None


# The function ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("family", ["bert", "roberta", "modernbert", "longformer", "gpt2"])
@pytest.mark.parametrize("aggregation", ["mean", "max", "first"])
def test_the_prediction_combines_the_windows_by_the_rule(family, aggregation):
    model = tiny_model(family)
    encoding = long_encoding(model, aggregation=aggregation)
    assert len(encoding) == LENGTH > model.max_tokens
    alone = torch.stack([model.network.run([window])[0] for window, _ in windows_of(encoding)])
    expected = {"mean": alone.mean(0), "max": alone.amax(0), "first": alone[0]}[aggregation].numpy()
    trace = model.trace(encoding)
    np.testing.assert_allclose(trace.logits, expected, atol=1e-10)
    np.testing.assert_allclose(model.network.run_many([encoding])[0], expected, atol=1e-10)
    assert trace.target.index == int(expected.argmax())


def test_windows_run_as_the_library_runs_them(model):
    encoding = long_encoding(model)
    explanation = model.explain(encoding, "raw_attention")
    np.testing.assert_allclose(explanation.extras["window_logits"], logits_by_hand(model, encoding), atol=1e-10)
    np.testing.assert_allclose(explanation.prediction.logits, logits_by_hand(model, encoding).mean(0), atol=1e-10)


def test_windows_shared_by_changed_documents_run_once(model):
    encoding = long_encoding(model)
    changed = []
    for place in (5, 6, 150):
        ids = encoding.ids.copy()
        ids[place] = 103
        changed.append(encoding.replace_ids(ids))
    seen = []
    original = model.network.run
    model.network.run = lambda encodings, *a, **k: seen.append(len(encodings)) or original(encodings, *a, **k)
    try:
        model.network.run_many([encoding, *changed])
    finally:
        del model.network.run
    assert sum(seen) == len(encoding.windows) + 3  # every place lies in one window


def test_the_document_that_tells_the_rules_apart_does_so(model):
    windows = logits_by_hand(model, long_encoding(model, seed=THREE_DECIDE)).argmax(0)
    assert sorted(windows.tolist()) == [0, 1, 2]
    assert windows[1] != 0


# Merged scores --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("aggregation", ["mean", "max", "first"])
@pytest.mark.parametrize("name", LINEAR)
def test_merged_scores_are_the_weighted_sum_over_windows(model, name, aggregation):
    encoding = long_encoding(model, seed=THREE_DECIDE, aggregation=aggregation)
    explanation = model.explain(encoding, name, target=1, quantity="logit")
    parts = windows_of(encoding)
    count = len(parts)
    largest = int(logits_by_hand(model, encoding)[:, 1].argmax())
    shares = {"mean": np.full(count, 1 / count), "max": np.eye(count)[largest], "first": np.eye(count)[0]}[aggregation]
    expected, held = np.zeros(LENGTH), np.zeros(LENGTH)
    layers = None
    for share, (window, positions) in zip(shares, parts, strict=True):
        alone = model.explain(window, name, target=1, quantity="logit")
        expected[positions] += share * alone.scores
        held[positions] += 1
        if alone.layers is not None:
            layers = np.zeros((len(alone.layers), LENGTH)) if layers is None else layers
            layers[:, positions] += share * alone.layers
    assert (held[~encoding.special] == 2).any()  # tokens in an overlap, whose scores of two windows are added
    np.testing.assert_allclose(explanation.extras["window_shares"], shares, atol=1e-12)
    np.testing.assert_allclose(explanation.scores, expected, atol=1e-9)
    if layers is not None:
        np.testing.assert_allclose(explanation.layers, layers, atol=1e-9)


def embeddings_function(model, encoding, value):
    """Return Σ_d x ⊙ ∂y/∂x (n,) by autograd through windows, their combination and the number itself."""
    module = model.network.module
    total = torch.zeros(LENGTH, dtype=torch.float64)
    table = module.get_input_embeddings()
    leaves = [table(torch.from_numpy(w.ids)[None]).detach().requires_grad_() for w, _ in windows_of(encoding)]
    logits = torch.stack([module(inputs_embeds=leaf).logits[0] for leaf in leaves])
    gradients = torch.autograd.grad(value(logits), leaves, allow_unused=True)
    for leaf, gradient, (_, positions) in zip(leaves, gradients, windows_of(encoding), strict=True):
        if gradient is not None:
            total[torch.from_numpy(positions)] += (leaf * gradient)[0].sum(-1).detach()
    return total.numpy()


NUMBERS = {
    "log_odds": lambda z: z[1] - torch.cat([z[:1], z[2:]]).logsumexp(0),
    "logit": lambda z: z[1],
    "probability": lambda z: z.softmax(0)[1],
    "log_probability": lambda z: z.log_softmax(0)[1],
    "margin": lambda z: z[1] - torch.cat([z[:1], z[2:]]).max(),
}
RULES = {"mean": lambda z: z.mean(0), "max": lambda z: z.max(0).values, "first": lambda z: z[0]}


@pytest.mark.parametrize("quantity", NUMBERS)
@pytest.mark.parametrize("aggregation", RULES)
def test_the_gradient_of_the_document_is_exact_for_every_quantity_and_rule(model, quantity, aggregation):
    encoding = long_encoding(model, seed=THREE_DECIDE, aggregation=aggregation)
    scores = model.explain(encoding, "input_x_gradient", target=1, quantity=quantity).scores
    expected = embeddings_function(model, encoding, lambda z: NUMBERS[quantity](RULES[aggregation](z)))
    np.testing.assert_allclose(scores, expected, atol=1e-9)


@pytest.mark.parametrize("aggregation", RULES)
def test_a_contrast_may_come_from_two_windows(model, aggregation):
    encoding = long_encoding(model, aggregation=aggregation)
    scores = model.explain(encoding, "input_x_gradient", target=(0, 2)).scores

    def contrast(z):
        combined = RULES[aggregation](z)
        return combined[0] - combined[2]

    np.testing.assert_allclose(scores, embeddings_function(model, encoding, contrast), atol=1e-9)


def test_integrated_gradients_add_up_over_the_document(model):
    encoding = long_encoding(model)
    explanation = model.explain(encoding, "integrated_gradients", target=1, quantity="logit")
    ids = np.where(encoding.special, encoding.ids, model.network.token_ids["pad"])
    whole, nothing = model.network.run_many([encoding, encoding.replace_ids(ids)])
    assert explanation.scores.sum() == pytest.approx(float(whole[1] - nothing[1]), rel=0.02)


@pytest.mark.parametrize("quantity", NUMBERS)
@pytest.mark.parametrize("aggregation", RULES)
def test_integrated_gradients_follow_the_document_along_the_path(model, quantity, aggregation):
    encoding = long_encoding(model, seed=THREE_DECIDE, aggregation=aggregation)
    options = {"target": 1, "quantity": quantity, "embeddings": "word", "baseline": list(range(20, 80))}
    explanation = model.explain(encoding, "integrated_gradients", steps=4, **options)
    ids = np.where(encoding.special, encoding.ids, model.network.token_ids["pad"])
    ids[np.flatnonzero(~encoding.special)[:60]] = options["baseline"]

    def number(z):
        return NUMBERS[quantity](RULES[aggregation](z))

    module = model.network.module
    table, parts = module.get_input_embeddings(), windows_of(encoding)
    ends = [table(torch.from_numpy(window.ids)[None]).detach() for window, _ in parts]
    starts = [table(torch.from_numpy(ids[positions])[None]).detach() for _, positions in parts]
    expected = torch.zeros(LENGTH, dtype=torch.float64)
    for node, weight in zip(*np.polynomial.legendre.leggauss(4), strict=True):
        leaves = [torch.lerp(a, b, (node + 1) / 2).requires_grad_() for a, b in zip(starts, ends, strict=True)]
        value = number(torch.stack([module(inputs_embeds=leaf).logits[0] for leaf in leaves]))
        gradients = torch.autograd.grad(value, leaves, materialize_grads=True, allow_unused=True)
        for (_, positions), gradient, a, b in zip(parts, gradients, starts, ends, strict=True):
            expected[torch.from_numpy(positions)] += weight / 2 * ((b - a) * gradient)[0].sum(-1)
    np.testing.assert_allclose(explanation.scores, expected, atol=1e-9)

    whole, empty = (number(logits_by_hand(model, document)) for document in (encoding, encoding.replace_ids(ids)))
    rise, total = float(whole - empty), explanation.scores.sum()
    scale = abs(rise) if abs(rise) >= 0.05 * np.abs(explanation.scores).sum() else np.abs(explanation.scores).sum()
    assert explanation.checks["completeness_gap"] == pytest.approx(abs(total - rise) / scale, abs=1e-6)


@pytest.mark.parametrize("method", LINEAR_ONLY)
@pytest.mark.parametrize(("quantity", "aggregation"), [("probability", "mean"), ("logit", "max"), ("margin", "mean")])
def test_path_methods_that_would_linearise_the_document_are_refused(model, method, quantity, aggregation):
    with pytest.raises(UnsupportedError, match="use the quantity 'log_odds' or 'logit'"):
        model.explain(long_encoding(model, 150, aggregation=aggregation), method, quantity=quantity)


@pytest.mark.parametrize("quantity", ["logit", "probability"])
@pytest.mark.parametrize("aggregation", RULES)
def test_leave_one_out_erases_a_token_in_every_window_and_measures_the_document(quantity, aggregation):
    model = tiny_model()
    encoding = long_encoding(model, 150, seed=THREE_DECIDE, aggregation=aggregation)
    scores = model.explain(encoding, "leave_one_out", target=1, quantity=quantity).scores
    held = np.bincount(np.concatenate([positions for _, positions in windows_of(encoding)]), minlength=150)

    def value(erased):
        rows = []
        for window, positions in windows_of(encoding):
            states = model.network.embed(window, 0).clone()
            states[torch.from_numpy(positions == erased)] = 0.0
            rows += model.network.run([window], given={0: states[None]})
        return float(NUMBERS[quantity](RULES[aggregation](torch.stack(rows))))

    whole = value(None)
    for token in (0, 1, int(np.flatnonzero(held == 2)[0]), 100, 148, 149):
        assert scores[token] == pytest.approx(whole - value(token), abs=1e-10)


@pytest.mark.slow
@pytest.mark.parametrize("aggregation", RULES)
def test_occlusion_changes_the_whole_document(model, aggregation):
    encoding = long_encoding(model, aggregation=aggregation)
    scores = model.explain(encoding, "occlusion", target=1, quantity="probability", budget=None).scores
    whole = RULES[aggregation](logits_by_hand(model, encoding)).softmax(0)[1]
    for place in (1, 100, 104, 150, LENGTH - 2):
        ids = encoding.ids.copy()
        ids[place] = model.network.token_ids["mask"]
        without = RULES[aggregation](logits_by_hand(model, encoding.replace_ids(ids))).softmax(0)[1]
        assert scores[place] == pytest.approx(float(whole - without), abs=1e-10)


@pytest.mark.parametrize(
    ("method", "aggregation"),
    [
        *((name, "mean") for name in METHODS.names()),
        *(pytest.param(name, "max", marks=pytest.mark.slow) for name in METHODS.names() if name not in LINEAR_ONLY),
    ],
)
def test_every_method_explains_a_long_document(model, method, aggregation):
    encoding = long_encoding(model, 150, aggregation=aggregation)
    explanation = model.explain(encoding, method, **QUICK.get(method, {}))
    again = model.explain(encoding, method, **QUICK.get(method, {}))
    assert explanation.scores.shape == (150,)
    np.testing.assert_array_equal(explanation.scores, again.scores)
    assert explanation.extras["window_spans"].shape == (len(encoding.windows), 2)
    shares = explanation.extras["window_shares"].sum()  # by "max", competing classes may come from several windows
    assert shares == pytest.approx(1.0) if aggregation != "max" else shares >= 1.0


def test_many_batches_of_windows_equal_one(model, monkeypatch):
    encoding = long_encoding(model)
    together = model.explain(encoding, methods=["attcat", "rollout"])
    monkeypatch.setattr("sightline.passes.document_windows.BATCH_TOKENS", 150)
    monkeypatch.setattr("sightline.passes.document_windows.LIVE_TOKENS", 150)
    apart = model.explain(encoding, methods=["attcat", "rollout"])
    for name, explanation in together.items():
        np.testing.assert_allclose(apart[name].scores, explanation.scores, atol=1e-10)


def test_all_windows_share_one_forward_and_one_backward(model):
    before = model.network.forward_passes, model.network.backward_passes
    model.explain(long_encoding(model), methods=["attcat", "rollout", "input_x_gradient"])
    assert (model.network.forward_passes - before[0], model.network.backward_passes - before[1]) == (1, 1)


def test_every_class_in_turn_equals_each_class_alone(model):
    encoding = long_encoding(model, aggregation="max")
    everything = model.explain(encoding, methods=["attcat", "rollout"], target="all")
    for name, classes in everything.explanations.items():
        for index, explanation in enumerate(classes.values()):
            alone = model.explain(encoding, name, target=index)
            np.testing.assert_allclose(explanation.scores, alone.scores, atol=1e-10)


def test_long_and_short_documents_in_one_list(model):
    documents = [long_encoding(model, n, seed=n) for n in (20, 300, 25, 200)]
    for document, explanation in zip(documents, model.explain(documents, "attcat"), strict=True):
        np.testing.assert_allclose(explanation.scores, model.explain(document, "attcat").scores, atol=1e-9)


# The whole road -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def reader():
    return load(tiny_module(), tokenizer=wordpiece())


def test_a_long_text_is_read_in_windows_and_says_so(reader):
    from sightline.view.words.sentences import notices

    report = reader.report(SENTENCES * 20, ["attcat", "occlusion"], check_readings=60)
    first = report.first
    assert first.encoding.windows is not None
    assert first.encoding.dropped == 0
    assert report.inside is None
    assert any("read in" in notice and "the mean of their scores" in notice for notice in notices(first))
    assert first.check.whole.probability == pytest.approx(first.prediction.probabilities[first.target.index])
    assert first.check.whole.label == first.prediction.label
    html = report.to_html()
    assert '"windows"' in html or "windows" in html


@pytest.mark.parametrize("option", [{"aggregation": "max"}, {"overlap": 4}, {"max_windows": 2}])
def test_options_of_windows_are_refused_for_a_truncated_text(option):
    with pytest.raises(OptionError, match="is about windows, which truncate=True leaves out"):
        tiny_model("bert").encode("mill", truncate=True, **option)


def test_truncation_stays_possible(reader):
    explanation = reader.explain(SENTENCES * 20, "attcat", truncate=True)
    assert len(explanation.encoding) == reader.max_tokens
    assert explanation.encoding.dropped > 0
    assert explanation.encoding.windows is None
    with pytest.raises(OptionError, match="truncate= goes with a text"):
        reader.explain(reader.encode(SENTENCES * 20), "attcat", truncate=True)


@pytest.mark.parametrize("suffix", [".json", ".parquet"])
def test_windows_are_saved(reader, tmp_path, suffix):
    explanation = reader.explain(SENTENCES * 20, "attcat")
    explanation.save(tmp_path / f"long{suffix}")
    again = Explanation.load(tmp_path / f"long{suffix}")
    assert again.encoding == explanation.encoding
    np.testing.assert_array_equal(again.extras["window_shares"], explanation.extras["window_shares"])


def test_the_inside_of_windows_is_refused_in_a_sentence(reader):
    trace = reader.trace(SENTENCES * 20)
    with pytest.raises(UnsupportedError, match="read in .* windows, .* truncate=True"):
        trace.attentions[0].received()
    with pytest.raises(UnsupportedError, match="windows"):
        _ = trace.embedding_gradient


# Heads that score tokens ----------------------------------------------------------------------------------------------


def test_tags_of_a_long_text_come_from_the_window_with_most_context():
    model = load(tiny_module(auto=AutoModelForTokenClassification))
    encoding = long_encoding(model)
    parts = windows_of(encoding)
    alone = [model.network.run([window])[0] for window, _ in parts]
    logits = model.network.run_many([encoding])[0]
    for token in range(1, LENGTH - 1):
        context = [
            min(place, len(positions) - 1 - place)
            if (place := np.searchsorted(positions, token)) < len(positions) and positions[place] == token
            else -1
            for _, positions in parts
        ]
        window = int(np.argmax(context))
        expected = alone[window][np.searchsorted(parts[window][1], token)]
        np.testing.assert_allclose(logits[token], expected, atol=1e-10)
    explanation = model.explain(encoding, "attcat", position=150, target=1)
    window = next(w for w, (_, positions) in enumerate(parts) if 150 in positions)
    place = int(np.searchsorted(parts[window][1], 150))
    by_hand = model.explain(parts[window][0], "attcat", position=place, target=1)
    np.testing.assert_allclose(explanation.scores[parts[window][1]], by_hand.scores, atol=1e-10)


@pytest.fixture(scope="module")
def answerer():
    return load(tiny_module(auto=AutoModelForQuestionAnswering, num_labels=2), tokenizer=wordpiece())


QUESTION = "The old mill?"


@pytest.fixture(scope="module")
def long_context(answerer):
    return answerer.encode(QUESTION, SENTENCES * 25)


def test_the_best_answer_over_windows_is_found(answerer, long_context):
    best = (-np.inf, None)
    for window, positions in windows_of(long_context):
        scores = answerer.network.run([window])[0].numpy()
        context = np.flatnonzero(window.segments == 1)
        for first in context:
            for last in context[(context >= first) & (context < first + 30)]:
                if scores[first, 0] + scores[last, 1] > best[0]:
                    best = scores[first, 0] + scores[last, 1], (positions[first], positions[last])
    trace = answerer.trace(long_context, quantity="logit")
    assert trace.target.span == best[1]
    assert trace.value == pytest.approx(best[0])
    assert trace.prediction.logits[0] == pytest.approx(best[0])
    nothing = min(float(answerer.network.run([w])[0][0].sum()) for w, _ in windows_of(long_context))
    assert trace.prediction.labels[1] == "no answer"
    assert trace.prediction.logits[1] == pytest.approx(nothing)
    assert answerer.trace(long_context, "no answer", quantity="logit").value == pytest.approx(nothing)


def test_an_answer_is_explained_in_its_window(answerer, long_context):
    explanation = answerer.explain(long_context, "attcat", quantity="logit")
    target = explanation.target
    window, positions = windows_of(long_context)[target.window]
    span = tuple(int(np.searchsorted(positions, end)) for end in target.span)
    by_hand = answerer.explain(window, "attcat", target=span, quantity="logit")
    expected = np.zeros(len(long_context))
    expected[positions] = by_hand.scores
    np.testing.assert_allclose(explanation.scores, expected, atol=1e-10)


@pytest.mark.parametrize("quantity", ["probability", "log_probability"])
def test_windows_compete_in_the_probability_of_an_answer(answerer, long_context, quantity):
    target = answerer.trace(long_context).target
    module, parts = answerer.network.module, windows_of(long_context)
    table = module.get_input_embeddings()
    leaves = [table(torch.from_numpy(w.ids)[None]).detach().requires_grad_() for w, _ in parts]
    outputs = [
        module(inputs_embeds=leaf, token_type_ids=torch.from_numpy(w.type_ids)[None])
        for leaf, (w, _) in zip(leaves, parts, strict=True)
    ]
    _, positions = parts[target.window]
    places = [int(np.searchsorted(positions, end)) for end in target.span]
    before = sum(len(p) for _, p in parts[: target.window])
    y = 0
    for side, place in zip(("start_logits", "end_logits"), places, strict=True):
        together = torch.cat([getattr(output, side)[0] for output in outputs])
        y = y + (together.softmax(0) if quantity == "probability" else together.log_softmax(0))[before + place]
    gradients = torch.autograd.grad(y, leaves)
    expected = np.zeros(len(long_context))
    for leaf, gradient, (_, own) in zip(leaves, gradients, parts, strict=True):
        expected[own] += (leaf * gradient)[0].sum(-1).detach().numpy()
    scores = answerer.explain(long_context, "input_x_gradient", quantity=quantity).scores
    np.testing.assert_allclose(scores, expected, atol=1e-9)


def test_the_check_of_an_answer_runs_on_the_whole_context(answerer, long_context):
    explanation = answerer.check(answerer.explain(long_context, "attcat"), check_readings=12)
    assert explanation.check.whole.probability == pytest.approx(explanation.prediction.probability)


def test_an_answer_too_long_for_every_window_is_refused(answerer, long_context):
    with pytest.raises(TargetError, match="No window holds the whole answer from token 6 to token 300"):
        answerer.explain(long_context, "attcat", target=(6, 300))


def test_a_long_document_of_special_tokens_is_refused():
    model = tiny_model()
    with pytest.raises(InputError, match=f"{LENGTH} ids were given, the model reads"):
        model.encode(ids=[101] * LENGTH)
