"""What a model's head computes: five tasks, and how each turns logits into a prediction, a target and a readout.

| task | logits of one document | the readout (rows of the last layer the target depends on) |
|---|---|---|
| sequence_classification | (C,) | the first token; all tokens alike under mean pooling; the last of a causal model |
| token_classification | (n, C) | the token asked for |
| masked_lm | (n, V) | the masked token |
| causal_lm | (n, V) | the last token, behind which the next one is predicted |
| question_answering | (n, 2) start and end | first and last token of the answer, half each |

`bind_task` reads from config, family and tokenizer what a task needs: labels, pooling, and the ids of pad, mask and
unknown token.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sightline.errors import InputError, ModelError, OptionError, TargetError, UnsupportedError
from sightline.files.foreign import quote
from sightline.models.answers import QuestionAnswering
from sightline.models.families import Family
from sightline.models.target import ALL, Prediction, Request, Target
from sightline.models.task import Positions, Task, TaskFacts
from sightline.settings.values import check_position
from sightline.text import Encoding

LISTED_TOKENS = 50
"""How many of the likeliest tokens a language model's prediction lists."""


class SequenceClassification(Task):
    """One decision about the whole document."""

    name = "sequence_classification"
    auto_class = "AutoModelForSequenceClassification"
    suffix = "ForSequenceClassification"
    reads_windows = True

    def document_logits(self, outputs: Any, document: int, length: int) -> Tensor:
        """Return (C,): the head has already reduced the document."""
        return self.read_output(outputs, "logits")[document]

    def logits_shape(self, tokens: int) -> tuple[int, ...]:
        """Return (C,)."""
        return (len(self.facts.labels),)

    def position(self, logits: Tensor, encoding: Encoding, asked: int | None) -> int | None:
        """Return None: the head reads the whole document."""
        if asked is not None:
            raise TargetError(
                "A position can be chosen only where the model scores single tokens; this one classifies documents."
            )
        return None

    def readout(self, target: Target, encoding: Encoding) -> NDArray[np.float64]:
        """Return weight 1 for the first token; equal weights for mean pooling; the last non-pad token if causal."""
        if self.facts.mean_pooling:
            return np.full(len(encoding), 1.0 / len(encoding))
        if self.facts.reads_last:
            words = np.flatnonzero(encoding.ids != self.facts.pad_id)
            last = np.zeros(len(encoding))
            last[words[-1] if len(words) else 0] = 1.0
            return last
        return super().readout(target, encoding)

    def combine_windows(self, logits: Sequence[Tensor], positions: Positions, encoding: Encoding) -> Tensor:
        """Return the mean of the windows' logits, the largest of every class, or those of the first window, (C,)."""
        assert encoding.windows is not None
        stacked, aggregation = torch.stack(list(logits)), encoding.windows.aggregation
        if aggregation == "first":
            return stacked[0]
        return stacked.mean(dim=0) if aggregation == "mean" else stacked.max(dim=0).values


WORD = "word:"
"""Begins a target that names an entity by its word."""


class TokenClassification(Task):
    """A label for every token; the most confident label other than "O" is explained by default."""

    name = "token_classification"
    auto_class = "AutoModelForTokenClassification"
    suffix = "ForTokenClassification"
    reads_windows = True

    def position(self, logits: Tensor, encoding: Encoding, asked: int | None) -> int | None:
        """Return the requested token, else the one with the most confident label that is not "outside"."""
        if asked is not None:
            return check_position(asked, len(encoding), error=TargetError)
        scores = torch.softmax(logits.detach(), dim=-1).clone()
        if self.facts.outside_label is not None and scores.shape[-1] > 1:
            scores[:, self.facts.outside_label] = -1.0
        best = scores.max(dim=-1).values
        if not encoding.special.all():
            best[torch.tensor(encoding.special).to(best.device)] = -1.0
        return int(best.argmax())

    def entities(self, logits: Tensor, encoding: Encoding, quantity: str | None) -> dict[str, Target]:
        """Return one target per entity, under its words and label: the label of its first token, at that token.

        An entity is a run of words whose first tokens have labels other than "O" of one type ("B-PER", "I-PER": PER); a
        label that begins with "B-" begins a new one. Tokens that continue a word follow its first.
        """
        targets: dict[str, Target] = {}
        for kind, run in self._runs(logits, encoding):
            name = f"{_text_between(encoding, run)} ({kind})"
            key = name if name not in targets else f"{name} at token {run[0]}"
            targets[key] = self._target_at(logits, run[0], quantity)
        return targets

    def resolve(self, logits: Tensor, encoding: Encoding, request: Request) -> Target:
        """Turn what the user asked for into a `Target`; "word:Lovelace" is the entity of that word (`_first_token`)."""
        wanted = request.target
        if not isinstance(wanted, str) or not wanted.startswith(WORD) or wanted in self.facts.labels:
            return super().resolve(logits, encoding, request)
        if request.position is not None:
            raise OptionError(f"'{wanted}' says which token is explained: leave position out.")
        first = self._first_token(logits, encoding, wanted.removeprefix(WORD))
        return self._target_at(logits, first, request.quantity)

    def _first_token(self, logits: Tensor, encoding: Encoding, words: str) -> int:
        """Return the first token of the first entity that is, or contains, `words`; else that of the word itself.

        Upper and lower case do not count.
        """
        wanted = words.strip().casefold()
        for _, run in self._runs(logits, encoding):
            entity = _text_between(encoding, run).casefold()
            if wanted == entity or wanted in entity.split():
                return run[0]
        for word, positions in zip(encoding.words, encoding.word_positions(), strict=True):
            if word.text.casefold() == wanted and len(positions):
                return int(positions[0])
        raise TargetError(f"The text has no word '{words.strip()}', nor an entity of these words.")

    def _target_at(self, logits: Tensor, position: int, quantity: str | None) -> Target:
        """Return the target of the predicted label of one token."""
        index = int(logits[position].argmax())
        label = self.facts.labels[index]
        return Target(index=index, label=label, quantity=self.choose_quantity(quantity), position=position)

    def _runs(self, logits: Tensor, encoding: Encoding) -> list[tuple[str, list[int]]]:
        """Return type and tokens of every entity."""
        labels, predicted = self.facts.labels, logits.detach().argmax(dim=-1).tolist()
        runs: list[tuple[str, list[int]]] = []
        previous: str | None = None
        for positions in encoding.word_positions():
            if not len(positions):
                continue
            label = labels[predicted[positions[0]]]
            kind = label.removeprefix("B-").removeprefix("I-")
            if predicted[positions[0]] == self.facts.outside_label:
                previous = None
                continue
            if kind != previous or label.startswith("B-"):
                runs.append((kind, []))
            runs[-1][1].extend(positions.tolist())
            previous = kind
        return runs

    def combine_windows(self, logits: Sequence[Tensor], positions: Positions, encoding: Encoding) -> Tensor:
        """Return for every token the logits of the window in which it has most context on its shorter side, (n, C).

        The rule is that of Devlin et al. 2019 for overlapping windows, whatever the aggregation.
        """
        context = np.full((len(positions), len(encoding)), -1)
        for window, tokens_read in enumerate(positions):
            places = np.arange(len(tokens_read))
            context[window, tokens_read] = np.minimum(places, places[::-1])
        owners = context.argmax(axis=0)
        rows = [logits[window][int(np.searchsorted(positions[window], token))] for token, window in enumerate(owners)]
        return torch.stack(rows)


class MaskedLanguageModel(Task):
    """The token behind the mask."""

    name = "masked_lm"
    auto_class = "AutoModelForMaskedLM"
    suffix: ClassVar[str | tuple[str, ...]] = ("ForMaskedLM", "WithLMHeadModel")
    classes_are_tokens = True
    has_named_classes = False

    def position(self, logits: Tensor, encoding: Encoding, asked: int | None) -> int | None:
        """Return the requested token, else the mask; raise InputError if there is none, or more than one."""
        if asked is not None:
            return check_position(asked, len(encoding), error=TargetError)
        masks = np.flatnonzero(encoding.ids == (-1 if self.facts.mask_id is None else self.facts.mask_id))
        if not len(masks):
            if encoding.dropped:
                raise InputError(
                    f"The first {len(encoding)} tokens, which are all that this model reads, contain no mask token: "
                    f"shorten the text, which is {encoding.dropped} tokens too long."
                )
            mask = "[MASK]" if self.facts.mask_id is None else self.facts.labels[self.facts.mask_id]
            raise InputError(
                f"This model predicts masked words and the text has no mask token. Write {mask} where a word is to be "
                "predicted, or choose a token with position= (--position)."
            )
        if len(masks) > 1:
            places = ", ".join(str(place) for place in masks[:-1])
            raise InputError(
                f"The text has {len(masks)} mask tokens (tokens {places} and {masks[-1]}): choose one with position= "
                "(--position)."
            )
        return int(masks[0])

    def all_targets(self, logits: Tensor, encoding: Encoding, request: Request) -> list[Target]:
        """Raise TargetError: a vocabulary is too large to explain every token of it."""
        size = len(self.facts.labels)
        word = f" (the word '{ALL}' is {self.facts.labels.index(ALL)})" if ALL in self.facts.labels else ""
        raise TargetError(
            f"'{ALL}' stands for all classes, which here are the {size:,} tokens of the vocabulary; "
            f"name one as target, by word or number{word}."
        )

    def prediction(self, logits: Tensor, encoding: Encoding, position: int | None) -> Prediction:
        """Return a prediction that lists the likeliest tokens only."""
        full = super().prediction(logits, encoding, position)
        likeliest = _largest(full.probabilities, LISTED_TOKENS)
        return replace(
            full,
            labels=tuple(full.labels[i] for i in likeliest),
            logits=full.logits[likeliest],
            probabilities=full.probabilities[likeliest],
        )


class CausalLanguageModel(MaskedLanguageModel):
    """The token that comes next."""

    name = "causal_lm"
    auto_class = "AutoModelForCausalLM"
    suffix = ("ForCausalLM", "LMHeadModel")

    def problem_with_pair(self, pair: str | None) -> str | None:
        """Return a sentence if there is a second text."""
        if pair is None:
            return None
        return (
            "This model continues one text and reads no second one (pair=, --pair): write both into one text, or give "
            "what follows the first as continuation= (--continuation)."
        )

    def position(self, logits: Tensor, encoding: Encoding, asked: int | None) -> int | None:
        """Return the requested token, else the last one; the token that follows it is explained."""
        return len(encoding) - 1 if asked is None else check_position(asked, len(encoding), error=TargetError)


def _largest(values: NDArray[np.floating[Any]], count: int) -> NDArray[np.int64]:
    """Return the places of the largest values, largest first, equal ones in order; without sorting all of them."""
    if len(values) > count:
        places = np.flatnonzero(values >= np.partition(values, -count)[-count])
    else:
        places = np.arange(len(values))
    return np.asarray(places[np.argsort(-values[places], kind="stable")][:count])


def _text_between(encoding: Encoding, positions: Sequence[int]) -> str:
    """Return the text from the first to the last of some tokens of one segment."""
    source = encoding.segment_texts[int(encoding.segments[positions[0]])]
    return source[int(encoding.offsets[positions[0], 0]) : int(encoding.offsets[positions[-1], 1])]


TASKS: dict[str, type[Task]] = {
    task.name: task
    for task in (
        SequenceClassification,
        TokenClassification,
        MaskedLanguageModel,
        CausalLanguageModel,
        QuestionAnswering,
    )
}


def task_of_architecture(architecture: str) -> type[Task] | None:
    """Return the task whose head the name of an architecture names ("BertForMaskedLM"), if there is one."""
    return next((task for task in TASKS.values() if architecture.endswith(task.suffix)), None)


def task_class(task: str | None, architectures: list[str] | None) -> type[Task]:
    """Return the task by name, or infer it from the architecture written in the model's config."""
    if task is not None:
        if not isinstance(task, str):
            raise OptionError(f"A task is a name, not {type(task).__name__}; a tokenizer is given as tokenizer=.")
        if task not in TASKS:
            raise OptionError(f"There is no task '{task}'. Known: {', '.join(TASKS)}.")
        return TASKS[task]
    for architecture in architectures or []:
        if (inferred := task_of_architecture(architecture)) is not None:
            return inferred
    listed = ", ".join(quote(name) for name in architectures or []) or "none"
    raise UnsupportedError(
        f"The model's config names no architecture with a head that Sightline can explain (found: {listed}). If the "
        f"weights have a head, name its task (task=, --task): {', '.join(TASKS)}; if not, train one (sightline train)."
    )


ENDS = 2


def bind_task(head: type[Task], module: Any, family: Family, tokenizer: Any) -> Task:
    """Bind the task to what the config and tokenizer say about labels, pooling and the mask."""
    config = module.config
    outside = None
    if issubclass(head, MaskedLanguageModel):
        labels = _vocabulary(tokenizer, int(config.vocab_size))
    else:
        labels = _distinct([str(config.id2label[i]) for i in range(config.num_labels)])
        if len(labels) > 1 and config.problem_type == "regression" and head.name == "sequence_classification":
            raise UnsupportedError(
                f"This model predicts {len(labels)} numbers at once (problem_type 'regression'), which have no "
                "probabilities; Sightline explains classes, or one number."
            )
        if issubclass(head, QuestionAnswering) and len(labels) != ENDS:
            raise ModelError(
                f"The model has {len(labels)} outputs per token; one that answers questions has {ENDS}, the scores of "
                "the answer's start and end. Give the task that it was trained for (task=, --task)."
            )
        outside = next((i for i, label in enumerate(labels) if label.upper() == "O"), None)
    return head(
        TaskFacts(
            labels=labels,
            multi_label=config.problem_type == "multi_label_classification",
            mean_pooling=getattr(config, "classifier_pooling", "cls") == "mean",
            reads_last=family.causal,
            pad_id=config.pad_token_id,
            mask_id=special_token_ids(module, family, tokenizer).get("mask"),
            outside_label=outside,
        )
    )


def _distinct(labels: list[str]) -> tuple[str, ...]:
    """Return the labels, with the number of the class where several have the same name or one has none."""
    return tuple(
        f"LABEL_{i}" if not label.strip() else f"{label} ({i})" if labels.count(label) > 1 else label
        for i, label in enumerate(labels)
    )


def special_token_ids(module: Any, family: Family, tokenizer: Any) -> dict[str, int]:
    """Return the ids of the pad, mask and unknown tokens that tokenizer or config define and the vocabulary holds.

    Causal models often have no pad token; padding with the end-of-text token is the usual practice, also here.
    """
    ids = {name: getattr(tokenizer, f"{name}_token_id", None) for name in ("pad", "mask", "unk")}
    if ids["pad"] is None:
        ids["pad"] = module.config.pad_token_id
    maybe_causal = family.causal or family.attention_layout == "unseen"
    if ids["pad"] is None and maybe_causal and isinstance(getattr(module.config, "eos_token_id", None), int):
        ids["pad"] = module.config.eos_token_id
    if tokenizer is None:
        ids = {name: dict(family.token_ids).get(name) if index is None else index for name, index in ids.items()}
    return {name: int(i) for name, i in ids.items() if i is not None and 0 <= i < module.config.vocab_size}


def _vocabulary(tokenizer: Any, size: int) -> tuple[str, ...]:
    if tokenizer is None:
        return tuple(str(i) for i in range(size))
    words = {index: word for word, index in tokenizer.get_vocab().items()}
    return tuple(
        tokenizer.convert_tokens_to_string([words[i]]).removeprefix("##").strip() if i in words else str(i)
        for i in range(size)
    )
