"""Every cell of the table of families and tasks: what is marked exact equals the library, and the rest is refused."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import transformers

from sightline.api.load import load
from sightline.errors import SightlineError
from sightline.models.families import FAMILIES as KNOWN
from sightline.models.model_types import MAPPINGS
from sightline.models.tasks import TASKS
from tests.tiny_models import FAMILIES, SINGLE_PRECISION, tiny_ids, tiny_module
from tools.docs_models import reason_against_head

CELLS = [(family, task) for family in FAMILIES for task in MAPPINGS]
EXACT = [cell for cell in CELLS if reason_against_head(KNOWN[cell[0]], cell[1]) is None]
WHERE = {
    "sequence_classification": {"target": 1},
    "token_classification": {"target": 1, "position": 2},
    "masked_lm": {"target": 7, "position": 2},
    "causal_lm": {"target": 7},
    "question_answering": {"target": (2, 3)},
}


def test_every_task_has_a_column():
    assert set(MAPPINGS) == set(TASKS)


@pytest.mark.parametrize(("family", "task"), EXACT)
def test_an_exact_cell_equals_the_library_and_is_explained(family, task):
    auto = getattr(transformers, TASKS[task].auto_class)
    ids = tiny_ids(family, 8)
    facts = {"num_labels": 2} if task == "question_answering" else {}
    extra = {}
    if family == "longformer":
        looks = (
            torch.eye(1, len(ids), dtype=torch.long) if task == "sequence_classification" else torch.zeros(1, len(ids))
        )
        extra = {"global_attention_mask": looks}
    outputs = tiny_module(family, auto=auto, **facts)(torch.tensor([ids]), **extra)
    scores = (
        torch.stack([outputs.start_logits, outputs.end_logits], dim=-1)
        if task == "question_answering"
        else outputs.logits
    )
    model = load(tiny_module(family, auto=auto, **facts), task=task)
    encoding = model.encode(ids=ids)
    tolerance = 1e-4 if family in SINGLE_PRECISION else 1e-9
    np.testing.assert_allclose(model.network.run([encoding])[0].detach(), scores[0].detach(), atol=tolerance)
    for method in ("attcat", "rollout", "alti", "input_x_gradient"):
        explanation = model.explain(encoding, method, **WHERE[task])
        assert explanation.scores.shape == (len(ids),)
        assert np.isfinite(explanation.scores).all()


@pytest.mark.parametrize(("family", "task"), [cell for cell in CELLS if cell not in EXACT])
def test_any_other_cell_is_refused_by_the_library_or_by_us(family, task):
    auto = getattr(transformers, TASKS[task].auto_class)
    with pytest.raises((ValueError, SightlineError)):
        load(tiny_module(family, auto=auto, is_decoder=True), task=task)
