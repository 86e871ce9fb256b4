"""What every registered metric keeps to: finite, inside its range, at its chance level for random scores, defined for
constants, ties and one token, the same in a batch and alone; and a new metric needs nothing but its decorator.
"""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from sightline.api.load import load
from sightline.evaluation import evaluate
from sightline.evaluation.result import MODEL
from sightline.metrics import METRICS, SightlineWarning, chance_level, list_metrics, measure_scores, metric
from sightline.metrics.measurement import FaithfulnessSettings
from sightline.metrics.registry import RANDOM_ORDERS, SHUFFLED_SCORES
from sightline.view.evaluate.folder import write_evaluation
from tests.tiny_models import tiny_module
from tests.tiny_tokenizers import wordpiece

ENTRIES = list_metrics()
ON_ARRAYS = [entry for entry in ENTRIES if entry.plan is not None or "model" not in entry.needs]
SAMPLED = [entry for entry in ENTRIES if entry.chance is not None and entry.chance.level is not None]
SHUFFLED = [entry for entry in ENTRIES if entry.chance is SHUFFLED_SCORES]
ON_CURVES = [entry for entry in ENTRIES if entry.chance is RANDOM_ORDERS]
TEXTS = ("hello old miller! the river", "the mills; old world the mill")
ROWS = [
    {"text": TEXTS[0], "label": 1, "rationale": [(6, 16)], "answer": [(17, 26)], "id": "first"},
    {"text": TEXTS[1], "label": 0, "rationale": [(0, 3), (11, 20)], "answer": [(4, 9)], "id": "second"},
]
METHODS = ["attcat", "rollout", "random"]


def name_of(entry):
    return entry.name


def draw(generator, n, form="normal"):
    """Return scores (n,): random, all zero, all equal, or with many ties."""
    match form:
        case "normal":
            return generator.normal(size=n)
        case "tied":
            return generator.integers(-1, 2, n).astype(float)
        case "huge":
            return generator.normal(size=n) * 1e200
        case "tiny":
            return generator.normal(size=n) * 1e-200
    return np.full(n, {"zero": 0.0, "constant": -3.0}[form])


def supply(generator, n, form="normal"):
    """Return what `evaluate` could supply for a document of n tokens."""
    inside = np.sort(generator.choice(n, size=max(1, n // 4), replace=False))
    spans = np.column_stack([inside, inside + 1])
    ratios = np.linspace(0.0, 1.0, 7)
    probabilities = {"zero": np.zeros(7), "constant": np.full(7, 0.5)}.get(form, generator.random(7))
    return {
        "scores": draw(generator, n, form),
        "other_scores": draw(generator, n, form),
        "class_scores": np.stack([draw(generator, n, form) for _ in range(3)]),
        "target": 1,
        "rationale": spans,
        "answer": spans,
        "special": np.isin(np.arange(n), (0, n - 1)),
        "hidden_states": np.stack([draw(generator, 5, form) for _ in range(n)]),
        "probabilities": probabilities,
        "original": float(generator.random()),
        "ratios": ratios,
        "compat": None,
        "bounds": (-1.0, 1.0, True),
    }


def compute(entry, supplied):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SightlineWarning)
        return entry.compute(supplied.__getitem__)


@pytest.mark.parametrize("form", ["normal", "tied", "zero", "constant", "huge", "tiny"])
@pytest.mark.parametrize("n", [1, 2, 3, 40])
@pytest.mark.parametrize("entry", ON_ARRAYS, ids=name_of)
def test_values_are_finite_inside_the_declared_range_and_repeatable(entry, n, form):
    low, high = entry.range
    for seed in range(5):
        value = compute(entry, supply(np.random.default_rng(seed), n, form))
        assert isinstance(value, float)
        assert np.isfinite(value)
        assert low <= value <= high
        assert compute(entry, supply(np.random.default_rng(seed), n, form)) == value


@pytest.mark.parametrize("entry", SAMPLED, ids=name_of)
def test_random_scores_land_at_the_declared_chance_level(entry):
    generator = np.random.default_rng(0)
    fixed = supply(generator, 30)
    values = []
    for _ in range(1000):
        random = {"scores": generator.random(30), "class_scores": generator.random((3, 30))}
        values.append(compute(entry, fixed | random))
    arguments = {parameter: fixed[need] for parameter, need in entry.arguments.items() if parameter != "compat"}
    expected = entry.chance.level(**arguments, **entry.options)
    assert np.mean(values) == pytest.approx(expected, abs=4 * np.std(values) / np.sqrt(len(values)) + 1e-12)


@pytest.mark.parametrize("entry", SHUFFLED, ids=name_of)
def test_unrelated_scores_agree_as_much_as_shuffled_ones(entry):
    generator = np.random.default_rng(1)
    differences = []
    for _ in range(300):
        a, b = generator.normal(size=(2, 30))
        chance = chance_level(entry.name, a, b, permutations=30)
        differences.append(entry.compute({"scores": a, "other_scores": b}.__getitem__) - chance.mean)
    assert np.mean(differences) == pytest.approx(0.0, abs=4 * np.std(differences) / np.sqrt(len(differences)))


@pytest.fixture(scope="module")
def model():
    return load(tiny_module(), tokenizer=wordpiece())


def test_random_explanations_are_as_faithful_as_random_orders(model):
    encoding = model.encode(TEXTS[0])
    generator = np.random.default_rng(2)
    draws = {str(number): generator.random(len(encoding)) for number in range(60)}
    settings = FaithfulnessSettings(random_orderings=60, reference_order=False)
    names = [entry.name for entry in ON_CURVES]
    measured = measure_scores(model.network, encoding, model.trace(encoding).target, draws, names, settings, seed=3)
    for entry in ON_CURVES:
        values = [measured.by[name, entry.name].value for name in draws]
        low, high = entry.range
        assert all(low <= value <= high for value in values)
        floor = measured.by["0", entry.name].floor
        assert np.mean(values) == pytest.approx(floor, abs=4 * np.std(values) * np.sqrt(2 / 60) + 1e-12)


def facts_of(evaluation):
    return {
        (record.document, record.method, record.metric): (record.value, record.floor, record.reference, record.status)
        for record in evaluation.records
    }


def test_every_metric_gives_the_same_in_a_batch_and_alone(model):
    chosen = {"metrics": "all", "reference": "gradient", "random_orderings": 2}
    together = facts_of(evaluate(model, ROWS, METHODS, **chosen))
    alone = [evaluate(model, [row], METHODS, **chosen) for row in ROWS]
    assert set(alone[0].metrics) == set(METRICS.names())
    assert together == facts_of(alone[0]) | facts_of(alone[1])
    for entry in ENTRIES:
        needed = {"reference": "gradient"} if "other_scores" in entry.needs else {}
        needed |= {} if entry.plan is None else {"random_orderings": 2}
        single = evaluate(model, ROWS[:1], METHODS[:1], [entry.name], **needed)
        for key, value in facts_of(single).items():
            # Other metrics change which perturbed documents share a batch, and so the order of sums inside the model.
            assert value[:-1] == pytest.approx(together[key][:-1], abs=1e-12), key


@pytest.mark.parametrize("text", ["hello", "old old old"])
def test_every_metric_has_a_value_or_a_reason_for_one_word_and_for_constant_scores(model, text):
    rows = [{"text": text, "rationale": [(0, 3)], "answer": [(0, 3)]}]
    evaluation = evaluate(model, rows, METHODS, "all", reference="gradient", random_orderings=1)
    for record in evaluation.records:
        assert (record.status == "ok") == (record.value is not None) == (not record.error)
        low, high = METRICS.get(record.metric).range
        assert record.value is None or low <= record.value <= high


# A metric added through the public decorator --------------------------------------------------------------------------


@pytest.fixture
def new_metrics(monkeypatch):
    """One metric of each kind; the registry forgets them afterwards."""
    monkeypatch.setattr(METRICS, "_entries", dict(METRICS._entries))
    facts = {"higher_is_better": True, "summary": "A new metric.", "citation": "None 2000"}

    @metric(name="new_dispersion", kind="dispersion", needs={"hidden_states"}, **facts)
    def new_dispersion(hidden_states):
        assert hidden_states.ndim == 2
        return 12345.0

    @metric(name="new_share", kind="dispersion", needs={"scores", "special"}, **facts)
    def new_share(special, scores):
        return float(special.sum()) / len(scores)

    @metric(name="new_faithfulness", kind="faithfulness", needs={"scores", "model"}, **facts)
    def new_faithfulness(probabilities, original, *, ratios):
        assert len(probabilities) == len(ratios) == 11
        return original - probabilities[-1]

    @metric(name="new_removal", kind="faithfulness", needs={"scores", "model", "encoding"}, **facts)
    def new_removal(scores, model, encoding):
        return float(model.trace(encoding).probabilities.max())

    @metric(name="new_agreement", kind="agreement", needs={"left": "other_scores", "right": "scores"}, **facts)
    def new_agreement(left, right):
        return float(np.sign(left) @ np.sign(right)) / len(left)

    @metric(name="new_plausibility", kind="plausibility", needs={"scores", "rationale"}, **facts)
    def new_plausibility(scores, rationale):
        return float(sum(scores[start:end].sum() for start, end in rationale))

    @metric(name="new_retrieval", kind="retrieval", needs={"scores", "answer"}, options={"k": 2}, **facts)
    def new_retrieval(scores, answer, *, k):
        return float(k)

    @metric(name="new_confidence", kind="confidence", needs={"class_scores", "target"}, **facts)
    def new_confidence(class_scores, target):
        return float(np.abs(np.delete(class_scores, target, axis=0) - class_scores[target]).max())

    return [entry for entry in METRICS if entry.name.startswith("new_")]


@pytest.mark.slow
def test_a_new_metric_of_each_kind_runs_through_evaluate(model, new_metrics, tmp_path):
    assert {entry.kind for entry in new_metrics} == {entry.kind for entry in ENTRIES}
    evaluation = evaluate(model, ROWS, METHODS, reference="gradient", random_orderings=2)
    records = {(record.document, record.method, record.metric): record for record in evaluation.records}
    for entry in new_metrics:
        assert entry.name in evaluation.metrics
        for method in [MODEL] if entry.describes_model else METHODS:
            assert records["first", method, entry.name].status == "ok", records["first", method, entry.name].error
    assert records["first", MODEL, "new_dispersion"].value == 12345.0
    aopc, new = records["first", "attcat", "aopc"], records["first", "attcat", "new_faithfulness"]
    curve = evaluation.curves_by["first", "attcat", "aopc"]
    assert new.value == pytest.approx(curve.values[-1], abs=1e-15)
    assert new.calls == aopc.calls == 11
    assert None not in (new.floor, new.reference)
    explanation = model.explain(TEXTS[0], "attcat")
    scores = np.array([word.score for word in explanation.words()])
    assert records["first", "attcat", "new_plausibility"].value == pytest.approx(scores[1:3].sum(), abs=1e-12)
    assert records["first", "attcat", "new_agreement"].floor is not None
    assert records["first", "rollout", "new_confidence"].value == 0.0
    assert records["first", "attcat", "new_share"].value == 2 / len(explanation.tokens)
    page = write_evaluation(evaluation, tmp_path).read_text()
    assert all(entry.name in page for entry in new_metrics)
    alone = evaluate(model, ROWS, ["attcat"], [entry.name for entry in new_metrics], reference="gradient")
    assert {record.status for record in alone.records} == {"ok"}


def test_a_metric_that_fails_or_gives_no_number_says_so_and_the_others_go_on(model, monkeypatch):
    monkeypatch.setattr(METRICS, "_entries", dict(METRICS._entries))
    facts = {"kind": "dispersion", "needs": {"scores"}, "higher_is_better": None, "summary": "New.", "citation": "None"}
    metric(name="new_nan", **facts)(lambda scores: np.nan)
    metric(name="new_error", **facts)(lambda scores: 1 / 0)
    nan, error, entropy = evaluate(model, TEXTS[:1], ["attcat"], ["new_nan", "new_error", "entropy"]).records
    assert (nan.status, nan.error) == ("missing", "The metric 'new_nan' returned nan.")
    assert (error.status, error.error) == ("missing", "ZeroDivisionError: division by zero")
    assert entropy.status == "ok"
