"""Documents side by side: the same numbers as one after the other, and nothing lost when something goes wrong."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest
import torch

from sightline.api.load import load
from sightline.evaluation import evaluate
from sightline.evaluation.subject import LONGEST_CHARACTERS, each_document
from sightline.text import as_examples
from tests.tiny_models import tiny_module
from tests.tiny_tokenizers import wordpiece

pytestmark = pytest.mark.slow

TEXTS = [
    "hello old miller! the river",
    "the mills; old world the mill",
    "the river",
    "",
    "old mill the world",
    "hello hello",
]
METHODS = [
    "attcat",
    "rollout",
    "transatt",
    "integrated_gradients",
    "occlusion",
    "alti",
    "random",
    "gradient_shap",
    "lime",
]


@pytest.fixture(scope="module")
def model():
    return load(tiny_module(), tokenizer=wordpiece())


@pytest.fixture
def threads():
    """Set how many threads torch has; put back what there was."""
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


def numbers(evaluation):
    return [replace(record, seconds=0.0) for record in evaluation.records]


def test_two_threads_give_the_numbers_and_the_order_of_one(model, threads):
    threads(1)
    passes = model.network.forward_passes
    alone = evaluate(model, TEXTS, METHODS, random_orderings=2)
    ran = model.network.forward_passes - passes
    threads(2)
    together = evaluate(model, TEXTS, METHODS, random_orderings=2)
    assert numbers(together) == numbers(alone)
    assert together.documents == alone.documents == ("0", "1", "2", "3", "4", "5")
    assert (together.calls_made, together.calls_requested) == (alone.calls_made, alone.calls_requested)
    assert model.network.forward_passes - passes == 2 * ran
    assert torch.get_num_threads() == 2


def test_each_thread_has_a_model_of_its_own_and_one_core(model, threads):
    threads(2)
    barrier = threading.Barrier(2, timeout=30)  # both must be at work at once, or this breaks

    def work(own, example, watch):
        if example.id in ("0", "1"):
            barrier.wait()
        return id(own.network), torch.get_num_threads()

    results = dict(each_document(model, as_examples(TEXTS), work, None))
    assert sorted(results) == list(range(len(TEXTS)))
    assert results[0][0] != results[1][0]
    assert id(model.network) not in {network for network, _ in results.values()}
    assert {cores for _, cores in results.values()} == {1}


def test_few_or_long_documents_run_one_after_the_other_on_the_model_itself(model, threads):
    threads(2)
    for texts in (TEXTS[:3], [*TEXTS, "a" * (LONGEST_CHARACTERS + 1)]):
        results = list(each_document(model, as_examples(texts), lambda own, example, watch: (own, example.text), None))
        assert [number for number, _ in results] == list(range(len(texts)))
        assert all(own is model for _, (own, _) in results)


def test_an_interruption_keeps_what_is_finished_and_leaves_no_thread(model, threads):
    threads(2)
    before = threading.active_count()

    def interrupt(stage, done, total):
        if stage == "documents" and done == 2:
            raise KeyboardInterrupt

    result = evaluate(model, TEXTS * 4, ["attcat"], ["entropy"], progress=interrupt)
    assert not result.complete
    assert len(result.documents) == len(result.records) == 2
    assert threading.active_count() == before
    assert torch.get_num_threads() == 2


def test_progress_is_told_in_the_calling_thread_and_counts_every_document(model, threads):
    threads(2)
    told = []
    evaluate(
        model, TEXTS, ["attcat"], ["entropy"], progress=lambda *now: told.append((threading.current_thread(), now))
    )
    assert {thread for thread, _ in told} == {threading.current_thread()}
    counted = [now for _, now in told if now[0] == "documents"]
    assert [done for _, done, _ in counted] == [*range(len(TEXTS) + 1), len(TEXTS)]
    assert any(stage == "document 3 of 6: attcat" for _, (stage, _, _) in told)


def test_an_error_that_nobody_expected_reaches_the_caller(model, threads):
    threads(2)

    def work(own, example, watch):
        if example.id == "4":
            raise MemoryError("too much")
        return example.id

    with pytest.raises(MemoryError, match="too much"):
        list(each_document(model, as_examples(TEXTS), work, None))
