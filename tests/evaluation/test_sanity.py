"""Sanity tests see a difference where there is one, say so where there is none, and leave the model alone."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
import torch
from scipy.stats import spearmanr

from sightline.api.load import load
from sightline.errors import OptionError
from sightline.evaluation.sanity import (
    Comparison,
    SanityResult,
    _chance,
    cascade,
    label_permutation,
    parts_from_the_top,
    redraw,
    weight_randomisation,
)
from sightline.methods.registry import METHODS as METHOD_REGISTRY
from sightline.methods.registry import method
from sightline.metrics.chance import TokenScores
from sightline.models.shared_weights import hash_weights
from sightline.view.words.evaluation import sanity_sentences
from tests.sample_units import bare_units
from tests.tiny_models import FAMILIES, tiny_model, tiny_module
from tests.tiny_tokenizers import wordpiece

pytestmark = pytest.mark.slow

TEXTS = [
    "the old mill and the river run past hello",
    "hello world the miller is old",
    "river rivers mill old world the",
]
METHODS = ["random", "gradient", "input_x_gradient"]


@pytest.fixture(scope="module")
def model():
    return load(tiny_module("bert", dtype=torch.float32, vocab_size=200), tokenizer=wordpiece())


@pytest.fixture(scope="module")
def cascading(model):
    return weight_randomisation(model, TEXTS, METHODS, seed=3)


@pytest.mark.parametrize("family", FAMILIES)
def test_the_cascade_goes_from_the_head_down_and_names_every_parameter_once(family):
    network = tiny_model(family).network
    parts = parts_from_the_top(network)
    named = [name for parameters in parts.values() for name, _ in parameters]
    assert sorted(named) == sorted(name for name, _ in network.module.named_parameters())
    order = list(parts)
    assert order[0] == "head"
    assert order[-1] == "embeddings"
    assert order[1:-1] == (["layer 2"] if family == "albert" else ["layer 2", "layer 1", "layer 0"])
    embedded = [parameter for _, parameter in parts["embeddings"]]
    assert any(parameter is network.module.get_input_embeddings().weight for parameter in embedded)
    assert any("classifier" in name or "score" in name for name, _ in parts["head"])


@pytest.mark.parametrize("family", FAMILIES)
def test_a_stage_changes_its_part_and_those_above_and_nothing_else(family):
    model = tiny_model(family)
    before = {name: value.clone() for name, value in model.network.module.named_parameters()}
    parts = {part: {name for name, _ in modules} for part, modules in parts_from_the_top(model.network).items()}
    changed: set[str] = set()
    for part, random_model in cascade(model, seed=1):
        changed |= parts[part]
        now = dict(random_model.network.module.named_parameters())
        assert {name for name in before if not torch.equal(before[name], now[name])} == changed
        assert random_model.network.untrained
    assert all(torch.equal(before[name], value) for name, value in model.network.module.named_parameters())


def test_a_redrawn_tensor_keeps_its_scale_and_depends_on_seed_and_name():
    trained = torch.randn(400, 50, generator=torch.Generator().manual_seed(0)) * 0.3 + 1.5
    drawn = [torch.nn.Parameter(trained.clone()) for _ in range(4)]
    for parameter, name, seed in zip(drawn, ["a", "a", "b", "a"], [0, 0, 0, 1], strict=True):
        redraw(parameter, name, seed)
    assert torch.equal(drawn[0], drawn[1])
    for other in drawn[2:]:
        assert abs(np.corrcoef(drawn[0].detach().ravel(), other.detach().ravel())[0, 1]) < 0.05
    assert abs(np.corrcoef(drawn[0].detach().ravel(), trained.ravel())[0, 1]) < 0.05
    assert drawn[0].mean().item() == pytest.approx(1.5, abs=0.02)
    assert drawn[0].std().item() == pytest.approx(0.3, abs=0.01)


def test_the_model_itself_is_unchanged(model):
    before = hash_weights(model.network.module)
    weight_randomisation(model, TEXTS[:1], ["gradient"], mode="full")
    assert hash_weights(model.network.module) == before


def test_similarity_is_spearman_of_word_scores_for_the_same_target(model, cascading):
    *_, (_, last) = cascade(model, seed=3)
    frame = cascading.to_frame().set_index(["document", "method", "stage"])
    for number, text in enumerate(TEXTS):
        original = model.explain(text, method="input_x_gradient")
        changed = last.explain(text, method="input_x_gradient", target=original.prediction.index)
        scores = [np.array([word.score for word in loaded.words()]) for loaded in (original, changed)]
        row = frame.loc[(str(number), "input_x_gradient", "embeddings")]
        assert row["similarity_signed"] == pytest.approx(spearmanr(*scores).statistic, abs=1e-12)
        assert row["similarity"] == pytest.approx(spearmanr(*map(np.abs, scores)).statistic, abs=1e-12)
        assert row["words"] == len(scores[0])


def test_an_explanation_that_does_not_change_is_reported_as_such(cascading):
    assert cascading.verdicts()["random"] == "unchanged"
    assert (cascading.to_frame().query("method == 'random'")["similarity"] > 1 - 1e-12).all()
    sentence = next(line for line in sanity_sentences(cascading) if line.startswith("random"))
    assert sentence.startswith("random does not change when every weight is random (similarity 1.00")


def test_explanations_that_depend_on_the_weights_are_told_from_those_that_do_not(cascading):
    assert cascading.verdicts()["gradient"] != "unchanged"
    assert cascading.verdicts()["input_x_gradient"] != "unchanged"


@pytest.mark.parametrize(
    ("similarity", "chance_high", "verdict"),
    [
        (1.0, 0.1, "unchanged"),
        (0.9, 0.1, "unchanged"),
        (0.5, 0.1, "partly"),
        (0.5, 0.6, "not shown"),
        (0.15, 0.05, "changed"),
        (-0.8, 0.1, "changed"),
        (None, 0.1, "unknown"),
    ],
)
def test_the_verdict_needs_both_size_and_more_than_chance(similarity, chance_high, verdict):
    assert verdict_of([similarity] * 8, chance_high) == verdict


def verdict_of(similarities, chance_high):
    """The verdict about documents with these similarities."""
    comparisons = tuple(
        Comparison(str(number), "gradient", "all weights", similarity, similarity, 9)
        for number, similarity in enumerate(similarities)
    )
    chance = {("gradient", "all weights"): (-chance_high, chance_high)}
    result = SanityResult("weight randomisation, full", comparisons, ("gradient",), ("all weights",), chance)
    (verdict,) = result.verdicts().values()
    sentence = sanity_sentences(result)[0]
    assert ("changes as it should" in sentence) == (verdict == "changed")
    assert ("is not shown to change" in sentence) == (verdict == "not shown")
    return verdict


def count_verdicts(documents, words, kept, trials=120):
    """How often each verdict is given where scores keep a share of their signal, and the rest is drawn anew."""
    generator = np.random.default_rng(0)
    verdicts = Counter()
    for _ in range(trials):
        first, noise = generator.normal(size=(2, documents, words))
        second = kept * first + (1 - kept) * noise
        pairs = [
            tuple(TokenScores(scores, bare_units(range(words))) for scores in both)
            for both in zip(first, second, strict=True)
        ]
        similarities = [spearmanr(*(np.abs(part.scores) for part in pair)).statistic for pair in pairs]
        verdicts[verdict_of(similarities, _chance(pairs, seed=0)[1])] += 1
    return verdicts


@pytest.mark.parametrize(("documents", "words"), [(1, 12), (6, 12)])
def test_a_method_that_keeps_half_its_signal_is_not_said_to_change(documents, words):
    assert count_verdicts(documents, words, kept=0.5)["changed"] <= 6  # 5 % of 120


def test_a_method_that_keeps_nothing_is_said_to_change_if_documents_are_enough():
    verdicts = count_verdicts(documents=10, words=60, kept=0.0, trials=40)
    assert verdicts["changed"] >= 38


def test_full_is_the_last_stage_of_cascading(model, cascading):
    full = weight_randomisation(model, TEXTS, METHODS, mode="full", seed=3)
    assert full.stages == ("all weights",)
    last = cascading.to_frame().query("stage == 'embeddings'")["similarity"].to_numpy()
    np.testing.assert_array_equal(full.to_frame()["similarity"].to_numpy(), last)


def test_the_same_seed_gives_the_same_result(model, cascading):
    again = weight_randomisation(model, TEXTS, METHODS, seed=3)
    assert again.comparisons == cascading.comparisons
    assert again.chance == cascading.chance


def unrelated(tokens_a_word, words=40, documents=8):
    """Pairs of token scores that have nothing to do with each other."""
    generator = np.random.default_rng(0)
    word = np.repeat(np.arange(words), tokens_a_word)
    return [
        tuple(TokenScores(generator.exponential(size=word.size), bare_units(word)) for _ in range(2))
        for _ in range(documents)
    ]


def mean_similarity(pairs):
    return np.mean([spearmanr(first.sums(), second.sums())[0] for first, second in pairs])


def test_chance_is_what_shuffled_scores_give():
    # ρ of shuffled scores has mean 0 and variance 1 / (n − 1) (Pitman 1937); this is the mean over eight documents.
    spread = (1 / 39 / 8) ** 0.5
    assert _chance(unrelated(1), seed=1) == pytest.approx((-1.96 * spread, 1.96 * spread), abs=0.2 * spread)


def test_words_of_many_tokens_are_no_similarity():
    pairs = unrelated(np.arange(40) % 4 + 1)
    low, high = _chance(pairs, seed=1)
    assert low < mean_similarity(pairs) < high
    assert low > 0.3


def test_a_document_that_cannot_be_explained_is_counted_and_the_others_go_on(model):
    result = weight_randomisation(model, [*TEXTS[:2], "", "hello"], ["gradient"], mode="full")
    row = result.summary().iloc[0]
    assert (row["documents"], row["failed"]) == (2, 2)
    errors = result.to_frame().set_index("document")["error"]
    assert "is empty" in errors["2"]
    assert "1 words" in errors["3"]


@pytest.fixture
def failing_method():
    """A method that fails, registered while a test runs."""

    @method(
        "failing",
        summary="Fails.",
        formula="none",
        citation="none",
        needs=set(),
        signed=False,
        class_specific=False,
        cost="none",
        use="In tests.",
        avoid="Elsewhere.",
    )
    def failing(trace):
        raise ZeroDivisionError("there is nothing here")

    yield "failing"
    del METHOD_REGISTRY._entries["failing"]


def test_a_method_that_fails_leaves_the_others(model, failing_method):
    result = weight_randomisation(model, TEXTS, ["gradient", failing_method], mode="full")
    rows = result.summary().set_index("method")
    assert (rows.loc["gradient", "documents"], rows.loc["gradient", "failed"]) == (3, 0)
    assert (rows.loc["failing", "documents"], rows.loc["failing", "failed"]) == (0, 3)
    assert "there is nothing here" in result.to_frame().query("method == 'failing'")["error"].iloc[0]
    assert result.verdicts()["failing"] == "unknown"
    assert "failing: no document could be compared." in sanity_sentences(result)


def test_labels_in_random_order_are_compared_in_the_same_way(model):
    other = load(tiny_module("bert", dtype=torch.float32, vocab_size=200, seed=5), tokenizer=wordpiece())
    result = label_permutation(model, TEXTS, METHODS, compare_with=other)
    assert result.stages == ("permuted labels",)
    assert result.verdicts()["random"] == "unchanged"
    assert "the labels were learnt in random order" in sanity_sentences(result)[0]
    same = label_permutation(model, TEXTS, METHODS, compare_with=model)
    assert set(same.verdicts().values()) == {"unchanged"}


def test_wrong_options_are_reported(model):
    with pytest.raises(OptionError, match="mode='half' is not known"):
        weight_randomisation(model, TEXTS, METHODS, mode="half")
    with pytest.raises(OptionError, match="Did you mean 'gradient'?"):
        weight_randomisation(model, TEXTS, ["gradeint"])
    with pytest.raises(OptionError, match="at least one name"):
        weight_randomisation(model, TEXTS, [])
    with pytest.raises(OptionError, match="3 and 2 classes"):
        label_permutation(model, TEXTS, METHODS, compare_with=tiny_model("bert", num_labels=2))


def test_progress_is_told(model):
    seen = []
    weight_randomisation(model, TEXTS[:2], ["gradient"], progress=lambda *step: seen.append(step))
    assert ("explaining with the trained model", 0, 2) in seen
    assert ("explaining with random embeddings", 1, 2) in seen
