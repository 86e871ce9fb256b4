"""The check of one explanation against the same questions asked of the model one document at a time."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest

import sightline as sl
from sightline.api.load import load
from sightline.errors import OptionError
from sightline.metrics.check import SEARCH_STAGE, TEST_STAGE, upper_limit
from sightline.metrics.statistics import holm
from sightline.results.verdict import ALPHA
from sightline.view.words.headline import headline
from sightline.view.words.verdict import describe_verdict

TEXT = "this plain river is very good but the old mill of the miller was not so bad at all"
GOOD, BAD = {"good": 2.0, "river": 0.5, "mill": 0.25}, {"bad": 1.0, "not": 0.5}


def log_odds_of(text):
    words = text.split()
    return 0.1 + sum(GOOD.get(word, 0.0) for word in words) - sum(BAD.get(word, 0.0) for word in words) / 4


def additive():
    """A function of the words whose log-odds are a known sum, and the texts that it was asked about."""
    asked = []

    def answer(texts):
        asked.extend(texts)
        p = 1.0 / (1.0 + np.exp(-np.array([log_odds_of(text) for text in texts])))
        return np.stack([1.0 - p, p], axis=1)

    return load(answer, labels=["no", "yes"]), asked


@pytest.fixture(scope="module")
def checked():
    model, asked = additive()
    exp = model.explain(TEXT, "occlusion", replacement="delete")
    before = set(asked)
    asked.clear()
    return model.check(exp), {text for text in asked if text}, before


def test_readings_are_those_of_the_text_without_its_words(checked):
    exp, _, _ = checked
    words = TEXT.split()
    ranked = sorted(range(len(words)), key=lambda place: -(log_odds_of(words[place])))
    check = exp.check
    assert check.counts == (1, 2, 3)
    assert check.whole.value == pytest.approx(log_odds_of(TEXT))
    for count, reading in check.path:
        rest = " ".join(word for place, word in enumerate(words) if place not in ranked[:count])
        assert reading.value == pytest.approx(log_odds_of(rest))
        assert reading.label == ("yes" if log_odds_of(rest) > 0 else "no")
        assert reading.probability == pytest.approx(1 / (1 + np.exp(-log_odds_of(rest))))
    assert check.empty.value == pytest.approx(0.1)
    assert check.words == len(words)


def test_the_smallest_set_is_that_of_brute_force(checked):
    exp, _, _ = checked
    words = TEXT.split()
    for size in range(1, 4):
        enough = [
            chosen
            for chosen in combinations(range(len(words)), size)
            if log_odds_of(" ".join(word for place, word in enumerate(words) if place not in chosen)) < 0
        ]
        if enough:
            break
    found = exp.verdict.smallest_set
    if found is None:
        assert not enough or len(enough[0]) > len(words) // 5
    else:
        assert tuple(word.index for word in found.words) in enough


@pytest.mark.parametrize("weak", [0.0, 0.02, 0.3])
def test_false_words_put_first_are_not_named(weak):
    """The label depends on "good" alone: what was ranked before it is left out again."""

    def answer(texts):
        values = np.array([3.0 * ("good" in text.split()) - 1.0 + weak * ("river" in text.split()) for text in texts])
        p = 1.0 / (1.0 + np.exp(-values))
        return np.stack([1.0 - p, p], axis=1)

    model = load(answer, labels=["no", "yes"])
    exp = model.explain(TEXT, "occlusion", replacement="delete")
    order = ["plain", "old", "good", "river"]
    scores = np.array([5.0 - order.index(word) if word in order else 0.0 for word in TEXT.split()])
    units = exp.encoding.word_ids
    check = model.check(replace(exp, scores=np.where(units >= 0, scores[units], 0.0))).check
    assert [word.text for word in check.smallest_set.words] == ["good"]
    assert set(check.named) <= set(check.tested)


def test_every_document_is_read_once_and_counted(checked):
    exp, asked, _ = checked
    # The whole and the empty text are not among them: the one was read before, the other is blank.
    assert exp.verdict.calls - 2 <= len(asked) <= exp.verdict.calls
    model, again = additive()
    model.check(exp)
    assert len(again) == len(set(again))


def test_the_verdict_does_not_depend_on_company_or_on_how_documents_are_batched():
    model, _ = additive()
    several = model.explain(TEXT, methods=["occlusion", "owen"], check=True, occlusion={"replacement": "delete"})
    alone = model.explain(TEXT, "occlusion", replacement="delete", check=True)
    assert several["occlusion"].check == alone.check
    assert several["owen"].check is None
    both = model.explain(TEXT, methods=["owen", "occlusion"], check=True, check_all=True)
    turned = model.explain(TEXT, methods=["occlusion", "owen"], check=True, check_all=True)
    assert {name: exp.check for name, exp in both.items()} == {name: exp.check for name, exp in turned.items()}

    def one_by_one(texts):
        p = 1.0 / (1.0 + np.exp(-np.array([log_odds_of(text) for text in texts])))
        return np.stack([1.0 - p, p], axis=1)

    single = load(one_by_one, labels=["no", "yes"], batch_size=1)
    assert single.explain(TEXT, "occlusion", replacement="delete", check=True).check == alone.check


def test_several_explanations_share_the_level():
    model, _ = additive()
    methods = ["occlusion", "owen"]
    alone = [model.explain(TEXT, method, check=True).verdict.p_value for method in methods]
    both = model.explain(TEXT, methods=methods, check=True, check_all=True)
    assert [both[method].verdict.p_value for method in methods] == pytest.approx(holm(alone))
    assert max(alone) <= ALPHA / 2
    assert both["occlusion"].verdict.matters == "yes"


def test_readings_are_bounded_and_the_search_ends_first():
    model, _ = additive()
    exp = model.explain(TEXT, "occlusion", replacement="delete")
    for readings in (8, 12, 45, 130):
        verdict = model.check(exp, check_readings=readings).verdict
        assert verdict.calls <= readings
    assert model.check(exp, check_readings=8).verdict.matters != "yes"
    assert model.check(exp, check_readings=45).verdict.matters == "yes"
    with pytest.raises(OptionError, match="at least 8"):
        model.check(exp, check_readings=7)


def test_progress_names_both_stages_and_can_stop_the_check():
    model, _ = additive()
    exp = model.explain(TEXT, "occlusion", replacement="delete")
    seen = []
    model.check(exp, progress=lambda stage, done, total: seen.append((stage, done, total)))
    assert next(stage for stage, _, _ in seen) == TEST_STAGE
    assert any(stage == SEARCH_STAGE for stage, _, _ in seen)
    assert all(done <= total for stage, done, total in seen if stage == TEST_STAGE)

    def stop(stage, _done, _total):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        model.check(exp, progress=stop)


def test_a_value_has_a_smallest_set_where_a_threshold_says_what_changes():
    def answer(texts):
        return np.array([[10.0 + 5.0 * log_odds_of(text)] for text in texts])

    model = load(answer, labels=["score"], output="values")
    exp = model.explain(TEXT, "occlusion", replacement="delete", check=True)
    assert exp.verdict.matters == "yes"
    assert exp.verdict.smallest_set is None
    assert [word.text for word in exp.verdict.named][:1] != []
    bounded = model.check(exp, threshold=15.0).verdict
    assert [word.text for word in bounded.smallest_set.words] == ["good"]
    assert bounded.smallest_set.label == "below 15"
    assert model.check(exp, threshold=1000.0).verdict.smallest_set is None
    classes, _ = additive()
    with pytest.raises(OptionError, match="one output"):
        classes.explain(TEXT, check=True, threshold=1.0)


def test_a_model_that_hardly_reacts_shows_nothing():
    def answer(texts):
        p = 0.7 + 1e-4 * np.array([len(text) % 7 for text in texts])
        return np.stack([1.0 - p, p], axis=1)

    model = load(answer, labels=["no", "yes"])
    verdict = model.explain(TEXT, "occlusion", replacement="delete", check=True).verdict
    assert (verdict.matters, verdict.level, verdict.named) == ("too_small", "weak", ())
    assert "nothing_decides" in verdict.reasons


def test_words_that_push_the_other_way_are_found_out():
    model, _ = additive()
    exp = model.explain(TEXT, "occlusion", replacement="delete")
    inverted = model.check(replace(exp, scores=-exp.scores)).verdict
    assert inverted.matters in ("opposite", "not_shown")
    assert inverted.level in ("poor", "weak")
    assert inverted.named == ()


def test_the_strongest_opponent_is_named_if_it_outweighs_the_named_words():
    def answer(texts):
        values = np.array([1.0 * ("good" in t.split()) - 3.0 * ("bad" in t.split()) + 2.5 for t in texts])
        p = 1.0 / (1.0 + np.exp(-values))
        return np.stack([1.0 - p, p], axis=1)

    model = load(answer, labels=["no", "yes"])
    check = model.explain(TEXT, "occlusion", replacement="delete", check=True).check
    assert [word.text for word in check.named] == ["good"]
    assert check.opposing.text == "bad"


def test_the_bound_of_a_rate_is_exact():
    for hits, draws in ((0, 9), (0, 14), (3, 14), (5, 5), (0, 0)):
        bound = upper_limit(hits, draws)
        if hits < draws:
            # At the bound, as few hits or fewer have a probability of 5 %.
            from scipy import stats

            assert stats.binom.cdf(hits, draws, bound) == pytest.approx(0.05)
        else:
            assert bound == 1.0
    assert upper_limit(0, 9) == pytest.approx(0.283, abs=1e-3)


def test_a_tiny_model_is_read_in_double_precision():
    from tests.tiny_models import tiny_module
    from tests.tiny_tokenizers import wordpiece

    model = load(tiny_module(), tokenizer=wordpiece())
    exp = model.explain("hello old miller! the river mills; the world", "gradient", check=True)
    z = model.trace(exp.encoding).logits.reshape(-1).astype(np.float64)
    c = exp.target.index
    assert exp.check.whole.value == pytest.approx(z[c] - np.logaddexp.reduce(np.delete(z, c)), abs=1e-9)
    assert isinstance(exp, sl.Explanation)
    assert exp.verdict.alpha == ALPHA


def logistic(*, value):
    """A model whose log-odds are a function of the set of words."""

    def answer(texts):
        p = 1.0 / (1.0 + np.exp(-np.array([float(value(text.split())) for text in texts])))
        return np.stack([1.0 - p, p], axis=1)

    return load(answer, labels=["no", "yes"])


def ranked(model, text, *order):
    """An explanation that ranks these words first, in this order."""
    exp = model.explain(text, "occlusion", replacement="delete")
    scores = np.array([9.0 - order.index(word) if word in order else 0.1 for word in text.split()])
    return replace(exp, scores=np.where(exp.encoding.word_ids >= 0, scores[exp.encoding.word_ids], 0.0))


@pytest.mark.parametrize("text", ["good", "not good", "It stinks", "a b", "not so good", "good good good", "the the"])
@pytest.mark.parametrize("worth", [0.0, 1.0])
def test_a_text_of_a_few_words_is_checked_or_said_to_be_too_short(text, worth):
    model = logistic(value=lambda words: worth * (len(words) - 0.5))
    exp = model.explain(text, "occlusion", replacement="delete", check=True)
    exp = replace(exp, scores=np.ones_like(exp.scores))
    assert exp.verdict.matters in (None, "not_shown", "too_small")
    assert exp.verdict.level in ("weak", "unchecked")
    checked = model.check(exp)
    assert headline(checked)
    assert all(describe_verdict(checked).all_sentences)
    if worth and len(text.split()) == 2:
        assert "random" not in headline(checked) + describe_verdict(checked).sentences[-1] or checked.check.random


def test_nothing_decides_is_not_said_where_a_deletion_changed_the_label():
    text = "one two three good five six"
    model = logistic(value=lambda words: -1.0 if words and "good" not in words else 1.0)
    for order in (["good"], ["one", "two", "good"], ["one", "two", "six"]):
        checked = model.check(ranked(model, text, *order))
        assert checked.check.empty.label == checked.check.whole.label
        assert "nothing_decides" not in checked.verdict.reasons
        assert "decide this" not in headline(checked) or "not shown" in headline(checked)
    assert [word.text for word in model.check(ranked(model, text, "good")).check.smallest_set.words] == ["good"]
    constant = logistic(value=lambda words: 1.0 + 0.1 * ("one" in words))
    assert "nothing_decides" in constant.check(ranked(constant, text, "one")).verdict.reasons


def test_a_model_is_not_said_to_ignore_all_words_where_one_of_them_matters():
    """The words ranked first and most random ones change nothing; the empty text shows that some do."""
    text = " ".join(f"w{place}" for place in range(150)) + " good"
    model = logistic(value=lambda words: 2.0 * ("good" in words))
    assert model.check(ranked(model, text, "w3", "w5")).verdict.matters == "not_shown"
    still = logistic(value=lambda words: 0.3)
    assert still.check(ranked(still, text, "w3", "w5")).verdict.matters == "too_small"


@pytest.mark.parametrize(("value", "matters"), [(lambda t: 0.0, "too_small"), (lambda t: 1e6 + 5 * len(t), "other")])
def test_a_single_output_is_still_only_if_it_stays_the_same(value, matters):
    model = load(lambda texts: np.array([[value(text)] for text in texts]), labels=["score"], output="values")
    checked = model.explain(TEXT, "occlusion", replacement="delete", check=True)
    assert (checked.verdict.matters == "too_small") == (matters == "too_small")


def test_no_control_of_the_smallest_set_is_that_set():
    model = logistic(value=lambda words: 1.0 if "bad" in words else -1.0)
    check = model.check(ranked(model, "good film bad", "bad")).check
    assert check.smallest_set.random_changed == 0
    assert [word.text for word in check.smallest_set.words] == ["bad"]


def test_a_word_is_not_named_because_random_words_change_the_label_as_well():
    """Any deletion changes the label of a close decision; "good" does no more than others."""
    text = " ".join(f"w{place}" for place in range(120)) + " good bad"
    model = logistic(value=lambda words: 0.01 - (0.5 + len("".join(words)) % 7 / 100) * (len(words) < 122))
    checked = model.check(ranked(model, text, "good", "bad"))
    assert checked.check.smallest_set is not None
    assert checked.check.smallest_set.random_changed > 1
    assert checked.verdict.named == ()


def test_a_full_stop_is_not_named_for_the_set_it_was_tested_in():
    """All stop words do the same: deleting one changes the label."""
    text = " ".join(f"w{place}" for place in range(100)) + " the of and in to for . fine great"
    stops = {"the", "of", "and", "in", "to", "for", "."}
    model = logistic(value=lambda words: 0.5 - sum(stop not in words for stop in stops) + 0.1 * ("fine" in words))
    checked = model.check(ranked(model, text, ".", "fine", "great"))
    assert [word.text for word in checked.verdict.named] != ["."]


def test_the_limit_of_readings_is_said_to_be_reached():
    text = " ".join(f"w{place}" for place in range(300))
    first = [f"w{place}" for place in range(20)]
    model = logistic(value=lambda words: 1.0 + sum(word in first for word in words) * 0.2)
    checked = model.check(ranked(model, text, *first), check_readings=17)
    assert checked.verdict.matters == "yes"
    assert checked.check.limit_reached
    assert checked.verdict.named or "limit of readings" in headline(checked)
    assert "evidence_spread" not in checked.verdict.reasons
