"""Does a method find words that are known to decide?

`planted_shortcuts` makes a task whose answer is known and trains a tiny model on it, checks on new documents that the
model's answers are nearly optimal and that removing the planted words changes its prediction, and measures for every
method precision@k: of the k words it scores highest for the predicted class, k the number of planted words, how many
were planted. Chance is k/n exactly, n the number of words.

This test has a known truth, but short texts and a tiny model: a method that fails it should not be trusted, and one
that passes it must still be tested on the model at hand.

The task (`PlantedTask`) plants words that decide the label into neutral text. The truth is a logistic model over words:
of the classes "first", "second" and "neither", with w(t) the weight of word t,

    z(text) = (Σ w(t) over words t of the first list, Σ w(t) over those of the second list, NEITHER),
    P(label | text) = softmax(z).

All other words weigh 0. So the effect of each word is known exactly, and so is the best possible answer.
The design, and its reasons:

- *Labels are drawn* from these probabilities, as people disagree on real texts. The right log-odds are then finite (a
  planted word makes its class 80 to 95 % likely): with certain labels, a model would become surer with every step of
  training, and its confidence would depend on when training stops.
- *Words differ in weight*, as "dreadful" and "slow" do in reviews.
- *Lists and numbers of words are independent*: a training text contains 0 to `planted` words of each list. So a text
  from which planted words were removed is a text like any other, the absence of one list is not evidence for the other,
  and each further word counts. With weights STRENGTHS / planted, a text with `planted` words of one
  list is equally clear for any `planted`, and needs all of them.
- *Distractors* are as rare and as frequent per text, with weight 0: being rare or repeated is not evidence.
- *Places and lengths* are drawn at random, so that the position of a word carries no information.

The model (`train`) is a BERT that learns the task in seconds on one core: 2 layers, 4 heads, 32 wide. It is trained as
BERT is: AdamW with weight decay, warm-up and linear decay, dropout, first weights of the same size. The documents are
read once, each batch a new one: nothing can be memorised, so the loss on new documents falls with the training loss and
no early stopping is needed. (Labels are drawn, so that the loss is smallest at finite logits.)

Everything is seeded, nothing is downloaded, and the random state of the process is left as it was. The tokenizer
knows whole words only, so that a word is a token.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from sightline.api.load import load
from sightline.api.model import Model
from sightline.errors import OptionError
from sightline.evaluation.result import frame_of
from sightline.evaluation.subject import describe_error, seeded_options
from sightline.methods import METHODS, method_name
from sightline.metrics import precision_at_k
from sightline.metrics.statistics import SIGNIFICANCE, holm, mean_interval, sign_flip_p
from sightline.progress import Progress
from sightline.settings.names import MethodName
from sightline.text.new_tokenizers import word_tokenizer

if TYPE_CHECKING:
    import pandas as pd

# fmt: off
NEUTRAL = (
    "table", "window", "garden", "river", "stone", "paper", "letter", "morning", "evening",
    "street", "corner", "bridge", "market", "village", "island", "harbour", "mountain", "valley",
    "forest", "meadow", "kitchen", "ladder", "bottle", "basket", "candle", "blanket", "curtain",
    "pocket", "button", "needle", "hammer", "bucket", "wheel", "wagon", "saddle", "feather",
    "pebble", "shadow", "whistle", "ribbon", "mirror", "pillow", "carpet", "drawer", "kettle",
    "spoon", "saucer", "lantern", "barrel", "anchor", "compass", "pencil", "notebook", "envelope",
    "stamp", "ticket", "station", "platform", "tunnel", "tower",
)
# fmt: on
FIRST = ("copper", "velvet", "thunder", "almond")
SECOND = ("silver", "linen", "drizzle", "walnut")
DISTRACTORS = ("marble", "cotton", "breeze", "cherry")
LABELS = ("first", "second", "neither")
STRENGTHS = (3.5, 4.0, 4.5, 5.0)
"""Weights of the words of each list, in order: alone, they make their class 80, 87, 91 and 95 % likely."""
NEITHER = 2.0
"""z of the third class: 79 % likely where no word is planted."""


@dataclass(frozen=True)
class PlantedDocument:
    """A text, its label (0 first, 1 second, 2 neither), and the places of its planted words among its words."""

    text: str
    label: int
    planted: tuple[int, ...]


@dataclass(frozen=True)
class PlantedTask:
    """Settings of the documents: between `shortest` and `longest` words, with up to `planted` of each list."""

    shortest: int = 12
    longest: int = 24
    planted: int = 2

    def __post_init__(self) -> None:
        if not 1 <= self.planted <= 4:
            raise OptionError(f"planted={self.planted} is outside its range; 1 to 4 words can be planted.")
        if not 3 * self.planted <= self.shortest <= self.longest <= 120:
            raise OptionError(
                f"Documents of {self.shortest} to {self.longest} words are not possible: the shortest needs at least "
                f"{3 * self.planted} words, the longest may have 120."
            )

    def documents(self, count: int, generator: np.random.Generator) -> list[PlantedDocument]:
        """Return `count` documents with 0 to `planted` words of each list, labels drawn from the truth."""
        numbers = generator.integers(self.planted + 1, size=(count, 3))
        return [self._document(first, second, third, generator) for first, second, third in numbers.tolist()]

    def clear_documents(self, count: int, generator: np.random.Generator) -> list[PlantedDocument]:
        """Return `count` documents with `planted` words of one list, the two lists in turn, and none of the other."""
        number = self.planted
        return [
            self._document(number * (1 - turn % 2), number * (turn % 2), number, generator) for turn in range(count)
        ]

    def probabilities(self, text: str) -> NDArray[np.float64]:
        """Return P(label | text), (3,): the truth."""
        words = text.split()
        logits = np.array(
            [
                *(sum(_strength(rare_words, word) for word in words) / self.planted for rare_words in (FIRST, SECOND)),
                NEITHER,
            ]
        )
        odds = np.exp(logits - logits.max())
        shares: NDArray[np.float64] = odds / odds.sum()
        return shares

    def _document(self, first: int, second: int, third: int, generator: np.random.Generator) -> PlantedDocument:
        """Return a document with these numbers of words of the first list, of the second list, and of distractors."""
        length = int(generator.integers(self.shortest, self.longest + 1))
        words = _draw(NEUTRAL, length, generator)
        places = generator.permutation(length).tolist()
        rare = [*_draw(FIRST, first, generator), *_draw(SECOND, second, generator)]
        planted = places[: len(rare)]
        rare += _draw(DISTRACTORS, third, generator)
        for place, word in zip(places, rare, strict=False):  # the remaining places stay neutral
            words[place] = word
        text = " ".join(words)
        label = int(generator.choice(len(LABELS), p=self.probabilities(text)))
        return PlantedDocument(text, label, tuple(sorted(planted)))


def vocabulary() -> list[str]:
    """Return every word a document can contain."""
    return [*NEUTRAL, *FIRST, *SECOND, *DISTRACTORS]


def _draw(words: tuple[str, ...], count: int, generator: np.random.Generator) -> list[Any]:
    return [words[place] for place in generator.integers(len(words), size=count)]


def _strength(rare_words: tuple[str, ...], word: str) -> float:
    return STRENGTHS[rare_words.index(word)] if word in rare_words else 0.0


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


MOST_REGRET = 0.05
"""A model whose accuracy is at most this much below the best possible has learnt the task."""
STEPS = 300
HELD_OUT = 300
SUMMARY_COLUMNS = ("method", "precision", "low", "high", "chance", "better_than_chance", "documents", "failed")


@dataclass(frozen=True)
class Planted:
    """A trained model, new documents whose deciding words are known, and the model's accuracy on them."""

    model: Model
    documents: tuple[PlantedDocument, ...]
    """New documents with planted words of one list."""
    task: PlantedTask
    seed: int
    steps: int
    accuracy: float
    """Share of right answers to expect on held-out documents: mean of P(the model's answer | document)."""
    decisive: float
    """Share of `documents` whose prediction changes when their planted words are removed."""
    attainable: float = 1.0
    """The same share for the best answers: mean of max P(label | document). Below 1, since labels are drawn."""

    @property
    def learnt(self) -> bool:
        """Whether the model's accuracy is close to the best possible."""
        return self.accuracy > self.attainable - MOST_REGRET


@dataclass(frozen=True)
class PlantedFinding:
    """How many of the planted words of one document a method ranks first."""

    document: int
    method: str
    precision: float | None
    chance: float
    error: str = ""


@dataclass(frozen=True, eq=False, repr=False)
class PlantedResult:
    """Precision@k of each method on documents whose deciding words are known."""

    findings: tuple[PlantedFinding, ...]
    methods: tuple[str, ...]
    planted: Planted

    def to_frame(self) -> pd.DataFrame:
        """Return one row for each document and method."""
        return frame_of(self.findings, PlantedFinding, numbers=("precision",))

    def summary(self) -> pd.DataFrame:
        """Return one row per method: mean precision@k with its bootstrap 95 % interval, beside chance."""
        import pandas as pd

        rows, p_values = [], self._beat_chance()
        for method in self.methods:
            here = [finding for finding in self.findings if finding.method == method]
            values = [finding.precision for finding in here if finding.precision is not None]
            mean, low, high = mean_interval(values, seed=self.planted.seed, within=(0.0, 1.0))
            chance = float(np.mean([finding.chance for finding in here]))
            better = p_values[method] < SIGNIFICANCE
            rows.append((method, mean, low, high, chance, better, len(values), len(here) - len(values)))
        return pd.DataFrame(rows, columns=list(SUMMARY_COLUMNS))

    def _beat_chance(self) -> dict[str, float]:
        """Return by method the one-sided p-value of a precision above chance, after Holm's correction."""
        p_values = []
        for method in self.methods:
            here = [f for f in self.findings if f.method == method and f.precision is not None]
            gains = np.array([[f.precision - f.chance] for f in here if f.precision is not None]).reshape(-1, 1)
            p_values += sign_flip_p(gains, alternative="greater", seed=self.planted.seed).tolist()
        return dict(zip(self.methods, holm(p_values), strict=True))

    def __repr__(self) -> str:
        heading = f"Planted words, {len(self.methods)} methods"
        return f"{heading}\n{self.summary().round(3).to_string(index=False)}"


def plant(
    seed: int = 0,
    *,
    documents: int = 60,
    shortest: int = 12,
    longest: int = 24,
    planted: int = 2,
    steps: int = STEPS,
    progress: Progress | None = None,
) -> Planted:
    """Return a planted task with a tiny model trained on it, checked on new documents.

    documents: how many there are to explain. shortest, longest: their number of words. planted: deciding words in each.
    steps: of training.
    """
    if documents < 1 or steps < 1:
        raise OptionError(f"documents={documents} and steps={steps} are not possible; both must be at least 1.")
    task = PlantedTask(shortest, longest, planted)
    training = task.documents(steps * BATCH, np.random.default_rng(seed))
    model = train(training, [document.label for document in training], steps=steps, seed=seed, progress=progress)
    # A separate random stream: no document is used both for training and for measuring, except by coincidence.
    generator = np.random.default_rng([seed, 1])
    held_out = [document.text for document in task.documents(HELD_OUT, generator)]
    truth = np.stack([task.probabilities(text) for text in held_out])
    accuracy = truth[np.arange(HELD_OUT), predict_classes(model, held_out)].mean()
    measured = task.clear_documents(documents, generator)
    with_them = predict_classes(model, [document.text for document in measured])
    without = predict_classes(model, [remove_planted(document) for document in measured])
    decisive = np.not_equal(with_them, without).mean()
    best = truth.max(axis=1).mean()
    return Planted(model, tuple(measured), task, seed, steps, float(accuracy), float(decisive), float(best))


def planted_shortcuts(
    methods: Sequence[MethodName] | None = None,
    seed: int = 0,
    *,
    setting: Planted | None = None,
    progress: Progress | None = None,
    **task: Any,
) -> PlantedResult:
    """Measure how many of the words that are known to decide each method ranks first (all methods by default).

    setting: what `plant` returned, to measure on it again without training. task: the other arguments of `plant`.
    """
    names = [method_name(name) for name in (METHODS.names() if methods is None else dict.fromkeys(methods))]
    if setting is None:
        setting = plant(seed, progress=progress, **task)
    findings = []
    for number, document in enumerate(setting.documents):
        if progress is not None:
            progress("looking for planted words", number, len(setting.documents))
        findings += [_measure(setting.model, number, document, name, setting.seed) for name in names]
    return PlantedResult(tuple(findings), tuple(names), setting)


def _measure(model: Model, number: int, document: PlantedDocument, method: MethodName, seed: int) -> PlantedFinding:
    words = document.text.split()
    chance = len(document.planted) / len(words)
    # With one seed for all documents, `random` would choose the same positions in each.
    options = seeded_options(method, {}, seed, str(number))
    try:
        explanation = model.explain(document.text, method=method, **options)
    except Exception as error:  # an error in one method must not stop the others
        return PlantedFinding(number, method, None, chance, describe_error(error))
    scores = [word.score for word in explanation.words()]
    spans = [(place, place + 1) for place in document.planted]
    return PlantedFinding(number, method, precision_at_k(scores, spans, k=len(spans)), chance)


def remove_planted(document: PlantedDocument) -> str:
    """Return the text of a document without its planted words."""
    return " ".join(word for place, word in enumerate(document.text.split()) if place not in document.planted)
