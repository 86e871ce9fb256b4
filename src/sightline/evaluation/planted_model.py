"""A tiny BERT that learns the planted task in seconds on one core: 2 layers, 4 heads, 32 wide.

It is trained as BERT is: AdamW with weight decay, warm-up and linear decay, dropout, first weights of the same size.
The documents are read once, each batch a new one: nothing can be memorised, so the loss on new documents falls
with the training loss and no early stopping is needed. (Labels are drawn, so that the loss is smallest at finite
logits: see `planted_task.py`.)

Everything is seeded, nothing is downloaded, and the random state of the process is left as it was. The tokenizer
knows whole words only, so that a word is a token.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from sightline.api.model import Model, load
from sightline.evaluation.planted_task import LABELS, PlantedDocument, vocabulary
from sightline.progress import Progress
from sightline.text.new_tokenizers import word_tokenizer

WIDTH = 32
BATCH = 32
LEARNING_RATE = 2e-3
WEIGHT_DECAY = 0.01
DROPOUT = 0.1
INITIAL_SPREAD = 0.02 * (768 / WIDTH) ** 0.5
"""Standard deviation of the first weights, about 0.1: with BERT's 0.02 at a width of 768, a vector of embeddings (of
words, positions and types alike) has the same length and a matrix the same gain here as there."""


def planted_tokenizer() -> Any:
    """Return a tokenizer with one token for each word of the task."""
    return word_tokenizer(vocabulary())


def train(
    documents: Sequence[PlantedDocument],
    labels: Sequence[int],
    *,
    steps: int,
    seed: int,
    progress: Progress | None = None,
) -> Model:
    """Return a model trained on the documents with these labels: `steps` batches, each of the next documents in order.

    With fewer documents than steps · BATCH they are read again from the first.
    """
    from transformers import BertConfig, BertForSequenceClassification

    tokenizer = planted_tokenizer()
    config = BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=WIDTH,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=2 * WIDTH,
        max_position_embeddings=128,
        initializer_range=INITIAL_SPREAD,
        hidden_dropout_prob=DROPOUT,
        attention_probs_dropout_prob=DROPOUT,
        id2label=dict(enumerate(LABELS)),
        pad_token_id=tokenizer.pad_token_id,
    )
    encoded = tokenizer([document.text for document in documents], padding=True, return_tensors="pt")
    wanted = torch.tensor(list(labels))
    with torch.random.fork_rng(devices=[]):  # first weights and dropout
        torch.manual_seed(seed)
        module = BertForSequenceClassification(config).train()
        optimiser = torch.optim.AdamW(module.parameters(), lr=LEARNING_RATE, weight_decay=WEIGHT_DECAY, fused=True)
        schedule = torch.optim.lr_scheduler.LambdaLR(
            optimiser, lambda step: min(1.0, (step + 1) / 20, (steps - step) / (steps / 2))
        )
        for step in range(steps):
            if progress is not None:
                progress("training a tiny model", step, steps)
            batch = torch.arange(step * BATCH, (step + 1) * BATCH) % len(documents)
            outputs = module(**{name: values[batch] for name, values in encoded.items()})
            loss = nn.functional.cross_entropy(outputs.logits, wanted[batch])
            optimiser.zero_grad()
            torch.autograd.backward(loss)
            optimiser.step()
            schedule.step()
    module.config.name_or_path = "planted-shortcuts"
    return load(module.eval(), tokenizer=tokenizer)


def predict_classes(model: Model, texts: Sequence[str]) -> list[int]:
    """Return the class the model predicts for each text."""
    logits = model.network.run_many([model.encode(text) for text in texts])
    return [int(scores.argmax()) for scores in logits]
