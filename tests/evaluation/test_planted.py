"""Planted words are a known truth: the model needs them, some methods find them, and chance does not."""

from __future__ import annotations

import copy
import math

import numpy as np
import pytest
import torch
from torch import nn

from sightline.errors import OptionError
from sightline.evaluation.planted import (
    BATCH,
    DISTRACTORS,
    FIRST,
    LABELS,
    NEUTRAL,
    SECOND,
    Planted,
    PlantedDocument,
    PlantedFinding,
    PlantedResult,
    PlantedTask,
    plant,
    planted_shortcuts,
    planted_tokenizer,
    predict_classes,
    remove_planted,
    train,
)
from sightline.evaluation.sanity import label_permutation
from sightline.view.words.evaluation import planted_sentences

pytestmark = pytest.mark.slow

METHODS = ["integrated_gradients", "gradient", "attnlrp", "occlusion", "random"]
NEITHER = LABELS.index("neither")


@pytest.fixture(scope="module")
def setting() -> Planted:
    return plant(0, documents=30, planted=1)


@pytest.fixture(scope="module")
def result(setting) -> PlantedResult:
    return planted_shortcuts(METHODS, setting=setting)


def test_documents_hold_up_to_so_many_words_of_each_list():
    task = PlantedTask(shortest=9, longest=15, planted=3)
    numbers = set()
    for document in task.documents(600, np.random.default_rng(0)):
        words = document.text.split()
        assert 9 <= len(words) <= 15
        assert tuple(place for place, word in enumerate(words) if word in FIRST + SECOND) == document.planted
        numbers.add(tuple(sum(word in own for word in words) for own in (FIRST, SECOND, DISTRACTORS)))
    assert numbers == {(a, b, c) for a in range(4) for b in range(4) for c in range(4)}


def test_clear_documents_hold_all_their_planted_words_from_one_list():
    task = PlantedTask(shortest=9, longest=15, planted=3)
    for turn, document in enumerate(task.clear_documents(100, np.random.default_rng(0))):
        words = document.text.split()
        own = (FIRST, SECOND)[turn % 2]
        assert len(document.planted) == 3
        assert tuple(place for place, word in enumerate(words) if word in FIRST + SECOND) == document.planted
        assert all(words[place] in own for place in document.planted)
        assert sum(word in DISTRACTORS for word in words) == 3


def test_the_truth_adds_the_weights_of_the_planted_words():
    # copper 3.5 and almond 5 of the first list, linen 4 of the second, each halved where two are planted.
    odds = [math.exp((3.5 + 5.0) / 2), math.exp(4.0 / 2), math.exp(2.0)]
    probabilities = PlantedTask(planted=2).probabilities("table copper linen marble almond")
    np.testing.assert_allclose(probabilities, np.array(odds) / sum(odds), rtol=1e-12)
    alone = [PlantedTask(planted=1).probabilities(f"table {word} stone")[0] for word in FIRST]
    np.testing.assert_allclose(alone, [0.80, 0.87, 0.91, 0.95], atol=0.005)
    assert PlantedTask().probabilities("table marble").argmax() == NEITHER


def test_labels_are_drawn_from_the_truth():
    task = PlantedTask()
    documents = task.documents(6000, np.random.default_rng(3))
    shares = np.stack([task.probabilities(document.text) for document in documents])
    drawn = np.eye(len(LABELS))[[document.label for document in documents]]
    for group in (shares.max(axis=1) < 0.7, shares.max(axis=1) > 0.7):
        # The mean of at least 1000 Bernoulli draws: five standard errors are below 0.08.
        assert group.sum() > 1000
        np.testing.assert_allclose(drawn[group].mean(axis=0), shares[group].mean(axis=0), atol=0.08)


def test_nothing_but_the_planted_words_says_anything_about_the_label():
    documents = PlantedTask().documents(6000, np.random.default_rng(1))
    labels = np.array([document.label for document in documents])
    held = [frozenset(document.text.split()) for document in documents]
    for word in (*NEUTRAL, *DISTRACTORS):
        holds = np.array([word in words for words in held])
        shares = [holds[labels == label].mean() for label in range(len(LABELS))]
        # Each share has a standard error below 0.012: more than five of them apart would be a leak.
        assert max(shares) - min(shares) < 0.06, word


def test_planted_words_stand_anywhere():
    documents = PlantedTask(shortest=12, longest=12).clear_documents(1200, np.random.default_rng(2))
    counts = np.bincount([place for document in documents for place in document.planted], minlength=12)
    assert counts.min() > 60  # 100 expected, standard deviation 9.6


def test_the_vocabularies_do_not_overlap_and_every_word_is_a_token():
    words = [*NEUTRAL, *FIRST, *SECOND, *DISTRACTORS]
    assert len(set(words)) == len(words)
    tokenizer = planted_tokenizer()
    ids = tokenizer(" ".join(words))["input_ids"]
    assert len(ids) == len(words) + 2
    assert tokenizer.unk_token_id not in ids


def test_the_model_answers_nearly_as_well_as_anybody_can_and_is_no_surer_than_it_should_be(setting):
    assert setting.learnt
    assert 0.6 < setting.attainable - 0.03 < setting.accuracy <= setting.attainable
    assert setting.model.labels == LABELS
    logits = setting.model.network.run_many([setting.model.encode(document.text) for document in setting.documents])
    sure = np.mean([float(torch.softmax(torch.as_tensor(row), dim=-1).max()) for row in logits])
    truth = np.mean([setting.task.probabilities(document.text).max() for document in setting.documents])
    assert abs(sure - truth) < 0.05


def test_the_planted_words_are_what_the_model_needs_and_the_distractors_are_not(setting):
    texts = [document.text for document in setting.documents]
    lists = [turn % 2 for turn in range(len(texts))]
    assert predict_classes(setting.model, texts) == lists
    assert (
        predict_classes(setting.model, [remove_planted(document) for document in setting.documents]) == [NEITHER] * 30
    )
    assert setting.decisive == 1.0
    plain = [" ".join(word for word in text.split() if word not in DISTRACTORS) for text in texts]
    assert predict_classes(setting.model, plain) == lists


def test_methods_that_follow_the_model_find_the_planted_words(result):
    precision = result.summary().set_index("method")["precision"]
    assert (precision[["integrated_gradients", "gradient", "attnlrp", "occlusion"]] > 0.8).all()
    assert result.summary().set_index("method").loc["integrated_gradients", "better_than_chance"]


def test_where_two_words_add_up_every_gradient_method_finds_them():
    gradients = ["gradient", "input_x_gradient", "integrated_gradients", "cat", "attcat", "attgrads", "attnlrp"]
    result = planted_shortcuts([*gradients, "random"], planted=2, documents=20)
    assert result.planted.learnt
    assert result.planted.decisive == 1.0
    summary = result.summary().set_index("method")
    assert (summary.loc[gradients, "precision"] > 0.8).all()
    assert summary.loc[gradients, "better_than_chance"].all()
    assert summary.loc["random", "low"] <= summary.loc["random", "chance"] <= summary.loc["random", "high"]


class ConstantDenominator(nn.Module):
    """Layer normalisation whose division counts as one by a constant when gradients are taken."""

    def __init__(self, like: nn.LayerNorm) -> None:
        super().__init__()
        self.like = like

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """γ (x − mean) / σ + β, σ without gradient."""
        centred = x - x.mean(dim=-1, keepdim=True)
        sigma = (centred.square().mean(dim=-1, keepdim=True) + self.like.eps).sqrt().detach()
        return self.like.weight * centred / sigma + self.like.bias


class Scaled:
    """f(α): the logit of the predicted class, in float64, with the planted word's embedding e replaced by α e."""

    def __init__(self, planted: Planted, document: PlantedDocument) -> None:
        self.module = copy.deepcopy(planted.model.network.module).double().eval()
        ids = torch.tensor([planted_tokenizer()(document.text)["input_ids"]])
        self.embeddings = self.module.get_input_embeddings()(ids).detach()
        self.place = document.planted[0] + 1  # after [CLS]
        self.target = int(self.module(inputs_embeds=self.embeddings).logits.argmax())

    def __call__(self, alpha: float) -> float:
        changed = self.embeddings.clone()
        changed[0, self.place] *= alpha
        with torch.no_grad():
            return float(self.module(inputs_embeds=changed).logits[0, self.target])

    def product(self, *, constant_denominators: bool) -> np.ndarray:
        """Input times gradient of every word."""
        module = copy.deepcopy(self.module)
        if constant_denominators:
            norms = [name for name, part in module.named_modules() if isinstance(part, nn.LayerNorm)]
            for name in norms:
                module.set_submodule(name, ConstantDenominator(module.get_submodule(name)))
            assert len(norms) == 5
        leaf = self.embeddings.clone().requires_grad_()
        (gradient,) = torch.autograd.grad(module(inputs_embeds=leaf).logits[0, self.target], leaf)
        return (leaf * gradient).sum(dim=-1)[0, 1:-1].detach().numpy()


def test_one_deciding_word_is_on_a_plateau_that_layer_normalisation_makes(setting):
    """Why input × gradient fails here: e·∂f/∂e is the slope of f(αe) at α = 1, and f is flat there.

    A layer normalisation divides by the size of what it reads, so that beyond some size more of a word is no more.
    """
    for document in setting.documents[:10]:
        f = Scaled(setting, document)
        plain = f.product(constant_denominators=False)
        place = document.planted[0]
        slope = (f(1 + 1e-4) - f(1 - 1e-4)) / 2e-4
        assert plain[place] == pytest.approx(slope, abs=1e-6)
        words = setting.model.explain(document.text, method="input_x_gradient", quantity="logit").words()
        np.testing.assert_allclose([word.score for word in words], plain, atol=1e-5)  # no defect of ours
        effect = f(1) - f(0)
        assert effect > 1.5
        assert abs(slope) < 0.15 * effect
        assert abs(f(2) - f(1)) < 0.15 * effect
        # Not the sureness of the model, but the division: with it held constant the word is found.
        held = f.product(constant_denominators=True)
        assert held.argmax() == place
        assert held[place] > 0.15 * effect
        # And a single word's score is small only beside its effect: its magnitude is still the largest.
        assert np.abs(plain).argmax() == place


def test_random_scores_are_at_chance(result):
    row = result.summary().set_index("method").loc["random"]
    assert row["low"] <= row["chance"] <= row["high"]
    assert not row["better_than_chance"]
    assert "no better than chance" in next(
        sentence for sentence in planted_sentences(result) if sentence.startswith("random")
    )


def test_precision_is_the_share_of_planted_words_among_the_first(setting, result):
    frame = result.to_frame().set_index(["document", "method"])
    for number, document in enumerate(setting.documents[:10]):
        explanation = setting.model.explain(document.text, method="gradient")
        first = max(explanation.words(), key=lambda word: word.score)
        assert frame.loc[(number, "gradient"), "precision"] == float(first.index in document.planted)
        assert frame.loc[(number, "gradient"), "chance"] == 1 / len(document.text.split())


def test_the_same_seed_gives_the_same_model_and_the_caller_s_random_state_stays():
    documents = PlantedTask().documents(64, np.random.default_rng(0))
    labels = [document.label for document in documents]
    torch.manual_seed(7)
    before = torch.get_rng_state()
    first = train(documents, labels, steps=5, seed=1)
    assert torch.equal(torch.get_rng_state(), before)
    assert train(documents, labels, steps=5, seed=1).network.weights_hash == first.network.weights_hash
    assert train(documents, labels, steps=5, seed=2).network.weights_hash != first.network.weights_hash


def test_a_model_that_has_not_learnt_is_reported():
    result = planted_shortcuts(["random"], documents=4, steps=2)
    assert result.planted.accuracy < result.planted.attainable - 0.05
    assert "has NOT learnt the task" in planted_sentences(result)[0]
    assert "not a known truth here" in planted_sentences(result)[1]


def test_a_model_trained_on_labels_in_random_order_knows_nothing_and_explains_otherwise(setting):
    generator = np.random.default_rng(setting.seed)
    training = setting.task.documents(40 * BATCH, generator)
    labels = generator.permutation([document.label for document in training]).tolist()
    permuted = train(training, labels, steps=40, seed=setting.seed)
    texts = [document.text for document in setting.documents]
    right = np.equal(predict_classes(permuted, texts), predict_classes(setting.model, texts))
    assert right.mean() < 0.8
    result = label_permutation(setting.model, texts, ["integrated_gradients", "random"], compare_with=permuted)
    assert result.verdicts() == {"integrated_gradients": "changed", "random": "unchanged"}


def test_impossible_tasks_are_refused():
    with pytest.raises(OptionError, match="planted=0"):
        plant(planted=0)
    with pytest.raises(OptionError, match="the shortest needs at least 6 words"):
        plant(planted=2, shortest=5)
    with pytest.raises(OptionError, match="documents=0"):
        plant(documents=0)
    with pytest.raises(OptionError, match="Did you mean 'gradient'?"):
        planted_shortcuts(["gradeint"])


def test_a_method_that_misses_most_words_is_not_praised_for_beating_chance(setting):
    findings = tuple(PlantedFinding(number, "attcat", 0.2, 0.01) for number in range(40))
    sentence = planted_sentences(PlantedResult(findings, ("attcat",), setting))[-1]
    assert sentence.endswith("it misses most of them, but finds more than chance would.")


def test_few_documents_are_said_to_have_no_interval(setting):
    findings = tuple(PlantedFinding(number, "attcat", 0.2, 0.01) for number in range(5))
    sentence = planted_sentences(PlantedResult(findings, ("attcat",), setting))[-1]
    assert "first (no interval, chance 1.0 %)" in sentence


def test_attcat_finds_a_single_deciding_word_if_relevance_replaces_the_slope(setting):
    for document in setting.documents[:10]:
        words = setting.model.explain(document.text, "attcat", slope="relevance").words()
        assert max(words, key=lambda word: word.score).index in document.planted
