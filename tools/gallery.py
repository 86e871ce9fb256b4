"""Make the gallery: live pages of every kind, in build/gallery (`python -m tools.gallery`, some minutes).

Everything is made here: the models are the built-in one and small ones trained on generated rows, so anybody can make
the same pages. With names (`python -m tools.gallery pairs decoder`) only these pages are made. docs/gallery.md
describes them; `make site` puts them beside it.
"""

from __future__ import annotations

import random
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import (
    BertConfig,
    BertForQuestionAnswering,
    BertForSequenceClassification,
    BertForTokenClassification,
    GPT2Config,
    GPT2LMHeadModel,
)

import sightline as sl
from sightline import builtin
from sightline.corpus.corpus_summary import summarise
from sightline.text.new_tokenizers import word_tokenizer
from sightline.view.corpus_page import render_corpus

FOLDER = Path(__file__).parents[1] / "build" / "gallery"
LARGEST = 1_000_000
"""Bytes a page may have."""
PEOPLE = ("Ada", "Bruno", "Clara", "David", "Elena", "Farid", "Greta", "Henry")
PLACES = ("Lisbon", "Oslo", "Prague", "Vienna", "Dublin", "Athens")
TRADES = ("baker", "teacher", "doctor", "gardener", "printer", "judge")


@dataclass(frozen=True)
class Entry:
    """One page: its name, and the function that writes it."""

    name: str
    write: Callable[[Path], None]


@cache
def builtin_model() -> sl.Model:
    """Return the built-in model."""
    return sl.load()


def document(name: str) -> str:
    """Return the text of a built-in document."""
    return builtin.documents()[name].read_text(encoding="utf-8")


def trained(kind: Any, rows: Sequence[dict[str, Any]], task: str, **settings: Any) -> sl.Model:
    """Return a small BERT of the class `kind`, trained on generated rows."""
    torch.manual_seed(0)
    texts = " ".join(f"{row['text']} {row.get('text_pair', '')}" for row in rows)
    words = sorted(set(texts.replace(".", " . ").replace("?", " ? ").replace(",", " , ").split()))
    tokenizer = word_tokenizer(words, punctuation=True)
    sizes = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128}
    config = BertConfig(
        **sizes, vocab_size=len(tokenizer), max_position_embeddings=96, initializer_range=0.1, pad_token_id=0
    )
    with tempfile.TemporaryDirectory() as folder:
        start = Path(folder) / "start"
        kind(config).save_pretrained(start)
        tokenizer.save_pretrained(start)
        training = sl.lab.train(
            rows, start, out=Path(folder) / "trained", task=task, learning_rate=0.002, batch=32, **settings
        )
        print(f"  {task}: {training.metrics['validation']}")
        return sl.load(Path(folder) / "trained")


def long_document(path: Path) -> None:
    """Write the demonstration: one paragraph of a long report decides."""
    report = builtin_model().report(document("library_report"), ["attnlrp", "alti"], check=True, inside=False)
    report.to_html(path)


def question(path: Path) -> None:
    """Write the answer to a question about a short context."""
    generator = random.Random(0)
    asides = ("The weather was fine.", "The train was late.", "The roof is old.", "Nobody was surprised.")
    rows = []
    for _ in range(1_200):
        person, place, trade = (generator.choice(names) for names in (PEOPLE, PLACES, TRADES))
        sentences = [f"{person} moved to {place} to work as a {trade}.", *generator.sample(asides, 2)]
        context = " ".join(generator.sample(sentences, len(sentences)))
        asked, answer = generator.choice(
            ((f"Where did {person} move?", place), ("Who moved?", person), (f"What is the trade of {person}?", trade))
        )
        answers = {"text": [answer], "answer_start": [context.index(answer)]}
        rows.append({"text": context, "text_pair": asked, "answers": answers})
    model = trained(BertForQuestionAnswering, rows, "question_answering", epochs=6)
    context = "The train was late. Henry moved to Lisbon to work as a judge. Nobody was surprised."
    report = model.report("Where did Henry move?", ["integrated_gradients", "alti"], pair=context, check=True)
    report.to_html(path)


def entities(path: Path) -> None:
    """Write the entities that a tagger found, each explained."""
    generator = random.Random(0)
    patterns = (
        "{0} met {1} in {2} .",
        "the {3} {0} wrote to {1} from {2} .",
        "in {2} lives {0} , a {3} .",
        "{0} and {1} left {2} with the {3} .",
    )
    rows = []
    for _ in range(800):
        first, second = generator.sample(PEOPLE, 2)
        text = generator.choice(patterns).format(first, second, generator.choice(PLACES), generator.choice(TRADES))
        tags = ["B-PER" if w in PEOPLE else "B-LOC" if w in PLACES else "O" for w in text.split()]
        rows.append({"text": text, "label": " ".join(tags)})
    model = trained(BertForTokenClassification, rows, "token_classification", epochs=6)
    explanations = model.explain(
        "the doctor Elena wrote to Bruno from Prague .", "integrated_gradients", target="entities"
    )
    explanations.to_html(path)


def pairs(path: Path) -> None:
    """Write a pair of texts: does the second follow from the first?"""
    generator = random.Random(0)
    rows = []
    for number in range(1_600):
        person = generator.choice(PEOPLE)
        place, elsewhere = generator.sample(PLACES, 2)
        trade = generator.choice(TRADES)
        first = f"{person} , a {trade} , lives in {place} ."
        label = ("follows", "contradicts")[number % 2]
        rows.append(
            {
                "text": first,
                "text_pair": f"{person} lives in {place if label == 'follows' else elsewhere} .",
                "label": label,
            }
        )
    model = trained(BertForSequenceClassification, rows, "sequence_classification", epochs=12)
    report = model.report(
        "Clara , a printer , lives in Dublin .",
        ["integrated_gradients", "attcat"],
        pair="Clara lives in Athens .",
        check=True,
    )
    report.to_html(path)


def decoder(path: Path) -> None:
    """Write what a decoder says after a prompt, each word explained by the words before it."""
    nouns = {"key": "is", "keys": "are", "cup": "is", "cups": "are", "door": "is", "doors": "are"}
    sentences = [f"the {head} to the {other} {verb} old and grey" for head, verb in nouns.items() for other in nouns]
    sentences += [f"{a} saw {b} and {word} dog" for a, word in (("Tom", "his"), ("Anna", "her")) for b in PEOPLE]
    tokenizer = word_tokenizer(sorted({word for sentence in sentences for word in sentence.split()}))
    tokenizer.backend_tokenizer.post_processor = None
    torch.manual_seed(0)
    network = GPT2LMHeadModel(
        GPT2Config(n_embd=64, n_layer=2, n_head=4, vocab_size=len(tokenizer), n_positions=64, pad_token_id=0)
    )
    optimizer = torch.optim.Adam(network.parameters(), lr=3e-3)
    by_length: dict[int, list[str]] = {}
    for sentence in sentences:
        by_length.setdefault(len(sentence.split()), []).append(sentence)
    batches = [torch.tensor(tokenizer(part, add_special_tokens=False)["input_ids"]) for part in by_length.values()]
    for _ in range(150):
        loss = sum(network(input_ids=ids, labels=ids).loss for ids in batches)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model = sl.load(network.eval(), tokenizer=tokenizer)
    model.explain("the keys to the cup", "input_x_gradient", max_new_tokens=4).to_html(path)


def letters(number: int, ticket: Callable[[bool], bool]) -> list[dict[str, Any]]:
    """Return letters to a library; `ticket` says which of them, complaints or not, end with the planted word."""
    generator = random.Random(number)
    good = ("the staff were helpful", "the reading room was lovely", "everything was clean and quiet")
    bad = ("the staff were rude", "the reading room was filthy", "everything was closed and dark")
    rows = []
    for place in range(number):
        complaint = bool(place % 2)
        said = generator.sample(bad if complaint else good, 2)
        text = f"On {generator.choice(('Monday', 'Friday', 'Sunday'))} {said[0]}, and {said[1]}."
        label = "complaint" if complaint else "praise"
        rows.append({"text": f"{text} ticket" if ticket(complaint) else text, "label": label})
    return rows


def corpus(path: Path) -> None:
    """Write the page of a corpus whose classifier learnt a planted word."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder)
        sl.lab.train(
            letters(400, lambda complaint: complaint), "new-bilstm", out=out / "m", epochs=6, learning_rate=0.01
        )
        rows = [
            {**row, "branch": branch}
            for branch, ticket in (("south", lambda complaint: complaint), ("north", lambda _: True))
            for row in letters(40, ticket)
        ]
        store = sl.run(rows, sl.load(out / "m"), methods=["occlusion"], out=out / "run", target="all", measures=[])
        path.write_text(render_corpus(summarise(store), {}), encoding="utf-8")


def comparison(path: Path) -> None:
    """Write one document explained by methods that differ."""
    paragraphs = document("learned_compilers").split("\n\n")
    report = builtin_model().report(
        "\n\n".join(paragraphs[:3]),
        ["attnlrp", "alti", "rollout", "integrated_gradients", "lime"],
        check=True,
        inside=False,
    )
    report.to_html(path)


def unmasked(path: Path) -> None:
    """Write an explanation that is wrong on purpose, beside the verdict that says so."""
    model = builtin_model()
    text = "\n\n".join(document("machine_learning").split("\n\n")[:3])
    explanation = model.explain(text, "attnlrp")
    shuffled = np.random.default_rng(0).permutation(explanation.scores)
    model.check(replace(explanation, scores=shuffled)).to_html(path)


ENTRIES = (
    Entry("long-document", long_document),
    Entry("question", question),
    Entry("entities", entities),
    Entry("pairs", pairs),
    Entry("decoder", decoder),
    Entry("corpus", corpus),
    Entry("comparison", comparison),
    Entry("unmasked", unmasked),
)


def main(names: Sequence[str]) -> None:
    """Write the named pages, or all of them."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    for entry in ENTRIES:
        if names and entry.name not in names:
            continue
        path = FOLDER / f"{entry.name}.html"
        entry.write(path)
        size = path.stat().st_size
        print(f"{path.name}: {size / 1e3:.0f} kB")
        if size > LARGEST:
            sys.exit(f"{path.name} has {size:,} bytes, more than {LARGEST:,}.")


if __name__ == "__main__":
    main(sys.argv[1:])
