"""What the model leans on: the words that move its decision most, and short sentences that fool it.

The figures go into the card. Words are measured on the validation packages by input times gradient of the difference
of the two logits (AI minus PL), summed over the pieces of a word and averaged over its occurrences.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import torch
from tokenizers import Tokenizer
from transformers import LongformerForSequenceClassification

from tools.builtin_model.corpus import Document
from tools.builtin_model.packages import SIDES
from tools.builtin_model.train import document_logits
from tools.builtin_model.vocabulary import CLS, SEP

# Plain sentences a reader decides at once; some use a word of the other field in its everyday sense.
SENTENCES = (
    ("PL", "The compiler lowers the syntax tree to bytecode."),
    ("PL", "A type checker rejects programs that add a string to an integer."),
    ("PL", "The parser learns the grammar of the language from a file."),
    ("PL", "We train new developers to write a linter."),
    ("PL", "The interpreter keeps a sample of the call stack for the profiler."),
    ("AI", "The network is trained with stochastic gradient descent."),
    ("AI", "We cluster the samples and plot the centroids."),
    ("AI", "The agent receives a reward for each step in the environment."),
    ("AI", "The function returns a module with the type of the attention."),
    ("AI", "Our translation system parses the source language into a tree."),
)


def leaning_words(
    model: LongformerForSequenceClassification,
    documents: Sequence[Document],
    tokenizer: Tokenizer,
    *,
    max_tokens: int = 1_024,
    least_packages: int = 5,
    shown: int = 20,
) -> dict[str, list[str]]:
    """Return, for each side, the words that push most towards it and occur in several packages."""
    model.eval()
    total: dict[str, float] = defaultdict(float)
    count: dict[str, int] = defaultdict(int)
    packages: dict[str, set[str]] = defaultdict(set)
    for document in documents:
        encoding = tokenizer.encode(document.text, add_special_tokens=False)
        ids = torch.tensor([[CLS, *encoding.ids[: max_tokens - 2], SEP]])
        embedded = model.get_input_embeddings()(ids).detach().requires_grad_()
        globally = torch.zeros_like(ids)
        globally[:, 0] = 1  # given embeddings instead of ids, the library cannot see where [CLS] is
        logits = model(inputs_embeds=embedded, global_attention_mask=globally).logits[0]
        (gradient,) = torch.autograd.grad(logits[1] - logits[0], embedded)
        scores = (gradient * embedded).sum(-1)[0, 1:-1].tolist()
        words: dict[int, tuple[str, float]] = {}
        for score, word, (start, end) in zip(scores, encoding.word_ids, encoding.offsets, strict=False):
            text, so_far = words.get(word, ("", 0.0))
            words[word] = (text + document.text[start:end].lower(), so_far + score)
        for text, score in words.values():
            if text.isalpha() and len(text) > 2:
                total[text] += score
                count[text] += 1
                packages[text].add(document.package)
    mean = {word: total[word] / count[word] for word in total if len(packages[word]) >= least_packages}
    ranked = sorted(mean, key=lambda word: mean[word])
    return {"PL": ranked[:shown], "AI": ranked[::-1][:shown]}


def sentence_readings(model: LongformerForSequenceClassification, tokenizer: Tokenizer) -> list[dict[str, object]]:
    """Return what the model says about each of the short sentences."""
    encoded = [tokenizer.encode(text, add_special_tokens=False).ids for _, text in SENTENCES]
    probabilities = document_logits(model, encoded, 128).softmax(1)
    return [
        {"sentence": text, "side": side, "probability_of_its_side": round(float(row[SIDES.index(side)]), 3)}
        for (side, text), row in zip(SENTENCES, probabilities, strict=True)
    ]
