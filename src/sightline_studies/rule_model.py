"""A Longformer whose weights are set, not trained, to follow a rule over a few words in documents of any length.

Two features of the word embeddings mark the words of the lists A and B, a third marks [CLS]; all other features are
random. In the first layer, head 0 of [CLS], which has global attention, looks for A and head 1 for B:

    score(CLS → t) = TARGET if t is in the list, SINK if t is [CLS] itself, about 0 otherwise.

exp(TARGET) ≫ exp(SINK) ≫ 4,096: [CLS] reads a planted word wherever it is, and itself if there is none. Each head
writes what it read to a feature of its own, from which the classifier computes logits that are linear in "A present"
and "B present" (STRENGTHS). The other heads, the feed-forward networks and the second layer have small random weights,
so that every word has a small influence, as in a trained model.

The deciding words are known exactly; how they decide is simpler than in a trained model. `seam` adds the artefact of
models stretched from short to long documents: a feature of the position embeddings that returns every `seam` positions
and that head 1 takes for a weak word of B.

The rules (`rule_document`): neutral words fill a long document; words of two lists, A and B, and distractors of a third
are planted at random places. With a and b saying whether any word of A and of B is present, the class is "yes" if

    any          a
    conjunction  a and b
    exception    a and not b

and "no" otherwise. The words that decide are known: those that make the rule true, or the words of B that prevent it.
A "no" for which no word is responsible (no A at all) has none.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import torch
from torch import Tensor, nn

from sightline.api.load import load
from sightline.api.model import Model
from sightline.errors import OptionError
from sightline.evaluation.planted import DISTRACTORS, FIRST, NEUTRAL, SECOND, vocabulary
from sightline.text.new_tokenizers import word_tokenizer

Rule = Literal["any", "conjunction", "exception"]
DocumentThird = Literal["start", "middle", "end"]
RULES: tuple[Rule, ...] = get_args(Rule)
PLACES: tuple[DocumentThird, ...] = get_args(DocumentThird)
LABELS = ("no", "yes")


@dataclass(frozen=True)
class RuleDocument:
    """A text, the answer of the rule, and the places of the words that decide it."""

    text: str
    rule: Rule
    label: int
    deciding: tuple[int, ...]
    """Places among the words; empty if no word is responsible."""
    place: DocumentThird | None = None
    """The third of the document that holds the planted words; None if they are anywhere."""

    @property
    def words(self) -> int:
        """Number of words."""
        return len(self.text.split())


def rule_document(
    rule: Rule,
    words: int,
    generator: np.random.Generator,
    *,
    first: int = 1,
    second: int = 0,
    distractors: int = 2,
    place: DocumentThird | None = None,
) -> RuleDocument:
    """Return a document of `words` words with `first` words of A, `second` words of B and some distractors."""
    if rule not in RULES:
        raise OptionError(f"Unknown rule '{rule}'. Use one of: {', '.join(RULES)}.")
    if words < 3 * (first + second + distractors):
        raise OptionError(f"A document of {words} words is too short for {first + second + distractors} planted ones.")
    content = generator.choice(NEUTRAL, size=words).tolist()
    low, high = (0, words) if place is None else _third(place, words)
    places = (low + generator.permutation(high - low)[: first + second + distractors]).tolist()
    planted = [(FIRST, first), (SECOND, second), (DISTRACTORS, distractors)]
    rare = [str(word) for source, count in planted for word in generator.choice(source, size=count)]
    for position, word in zip(places, rare, strict=True):
        content[position] = word
    label, responsible = _apply(rule, first > 0, second > 0)
    deciding = [*places[: first * responsible[0]], *places[first : first + second * responsible[1]]]
    return RuleDocument(" ".join(content), rule, label, tuple(sorted(deciding)), place)


def clear_documents(
    rule: Rule, words: int, count: int, generator: np.random.Generator, *, place: DocumentThird | None = None
) -> list[RuleDocument]:
    """Return documents in which words decide: one or two of each list that the rule needs, in turn."""
    return [
        rule_document(
            rule,
            words,
            generator,
            first=1 + number % 2,
            second=0 if rule == "any" or (rule == "exception" and number % 4 < 2) else 1,
            place=place,
        )
        for number in range(count)
    ]


def _apply(rule: Rule, has_first: bool, has_second: bool) -> tuple[int, tuple[bool, bool]]:
    """Return the answer of a rule, and which of the two lists is responsible for it."""
    if rule == "any":
        return int(has_first), (has_first, False)
    if rule == "conjunction":
        both = has_first and has_second
        return int(both), (both, both)
    if has_first and has_second:
        return 0, (False, True)
    return int(has_first), (has_first, False)


def _third(place: DocumentThird, words: int) -> tuple[int, int]:
    number = PLACES.index(place)
    return number * words // 3, (number + 1) * words // 3


WIDTH, HEADS, LAYERS, WINDOW, POSITIONS = 48, 4, 2, 64, 4096
TARGET, SINK = 16.0, 11.5
MARK = 4.0
"""Value of the feature that marks a word, beside random features of size 1."""
SMALL = 0.04
"""Standard deviation of the random weights."""
MARK_A, MARK_B, MARK_CLS, READ_A, READ_B = range(5)
"""Features with a meaning."""
STRENGTHS: dict[Rule, tuple[float, float, float]] = {
    "any": (5.0, 0.0, -2.5),
    "conjunction": (5.0, 5.0, -7.5),
    "exception": (5.0, -5.0, -2.5),
}
"""Margin of "yes" over "no": weight of A present, of B present, and constant."""


def rule_model(rule: Rule, seed: int = 0, *, seam: int | None = None) -> Model:
    """Return a model that answers as the rule does, for documents up to 4,096 tokens."""
    from transformers import LongformerConfig, LongformerForSequenceClassification

    tokenizer = word_tokenizer(vocabulary())
    tokenizer.model_max_length = POSITIONS
    config = LongformerConfig(
        vocab_size=len(tokenizer),
        hidden_size=WIDTH,
        num_hidden_layers=LAYERS,
        num_attention_heads=HEADS,
        intermediate_size=2 * WIDTH,
        attention_window=[WINDOW] * LAYERS,
        max_position_embeddings=POSITIONS + tokenizer.pad_token_id + 1,
        type_vocab_size=2,
        pad_token_id=tokenizer.pad_token_id,
        sep_token_id=tokenizer.sep_token_id,
        id2label=dict(enumerate(LABELS)),
        initializer_range=SMALL,
    )
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(seed)
        module = LongformerForSequenceClassification(config).eval()
        _mark_words(module, tokenizer, seam)
        _write_heads(module)
        states = _read_states(module, tokenizer, seed)
        _write_classifier(module, states, STRENGTHS[rule])
    module.config.name_or_path = f"rule-{rule}-{seed}"
    return load(module, tokenizer=tokenizer)


def _mark_words(module: Any, tokenizer: Any, seam: int | None) -> None:
    embeddings = module.longformer.embeddings
    words = embeddings.word_embeddings.weight
    words.normal_()
    words[:, : READ_B + 1] = 0.0
    for mark, marked in ((MARK_A, FIRST), (MARK_B, SECOND), (MARK_CLS, (tokenizer.cls_token,))):
        words[tokenizer.convert_tokens_to_ids(list(marked)), mark] = MARK
    positions = embeddings.position_embeddings.weight
    positions[:, : READ_B + 1] = 0.0
    if seam is not None:
        positions[module.config.pad_token_id + 1 + seam :: seam, MARK_B] = 0.7 * MARK


def _write_heads(module: Any) -> None:
    """Let heads 0 and 1 of the first layer look for A and B and write what they read."""
    attention = module.longformer.encoder.layer[0].attention
    size = WIDTH // HEADS
    # Embeddings are normalised before they are read: a mark of MARK beside random features of size 1 becomes this.
    mark = MARK / (1.0 + MARK**2 / WIDTH) ** 0.5
    gain = size**0.25 / mark
    for head, (looked_for, written) in enumerate(((MARK_A, READ_A), (MARK_B, READ_B))):
        row = head * size
        rows = slice(row, row + size)
        for name in ("query", "query_global", "key", "key_global", "value", "value_global"):
            getattr(attention.self, name).weight[rows] = 0.0
        for suffix in ("", "_global"):
            getattr(attention.self, f"query{suffix}").weight[row, MARK_CLS] = gain * TARGET**0.5
            key = getattr(attention.self, f"key{suffix}").weight
            key[row, looked_for] = gain * TARGET**0.5
            key[row, MARK_CLS] = gain * SINK / TARGET**0.5
            getattr(attention.self, f"value{suffix}").weight[row, looked_for] = 1.0
        attention.output.dense.weight[:, rows] = 0.0
        attention.output.dense.weight[written, row] = 1.0
    for written in (READ_A, READ_B):
        attention.output.dense.weight[written, 2 * size :] = 0.0


def _read_states(module: Any, tokenizer: Any, seed: int) -> Tensor:
    """Return the two features of [CLS] that hold what was read, (4, 2), for neither, A, B, and both present."""
    neutral = torch.randint(5, 5 + 60, (4, 60), generator=torch.Generator().manual_seed(seed))
    first, second = tokenizer.convert_tokens_to_ids([FIRST[0], SECOND[0]])
    neutral[1, 10] = neutral[3, 10] = first
    neutral[2, 40] = neutral[3, 40] = second
    ends = torch.tensor([tokenizer.cls_token_id, tokenizer.sep_token_id]).repeat(4, 1)
    ids = torch.cat([ends[:, :1], neutral, ends[:, 1:]], dim=1)
    focus = torch.zeros_like(ids)
    focus[:, 0] = 1
    state = module.longformer(ids, attention_mask=torch.ones_like(ids), global_attention_mask=focus)[0][:, 0]
    return torch.as_tensor(state[:, [READ_A, READ_B]])


def _write_classifier(module: Any, states: Tensor, strengths: tuple[float, float, float]) -> None:
    """Make the margin linear in what was read: least squares through the four states, after the tanh of the head."""
    head = module.classifier
    head.dense.weight[:2] = 0.0
    for row, feature in enumerate((READ_A, READ_B)):
        head.dense.weight[row, feature] = 0.2
    hidden = torch.tanh(0.2 * states)
    present = torch.tensor([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    margin = present @ torch.tensor(strengths[:2]) + strengths[2]
    # In double precision: the last digits of LAPACK's solution depend on where its arrays lie in memory, so that in
    # single precision two processes would make two models.
    system = torch.cat([hidden, torch.ones(4, 1)], dim=1).double()
    solution = torch.linalg.lstsq(system, margin[:, None].double()).solution[:, 0].float()
    nn.init.normal_(head.out_proj.weight, std=SMALL)
    for label, sign in enumerate((-0.5, 0.5)):
        head.out_proj.weight[label, :2] = sign * solution[:2]
        head.out_proj.bias[label] = sign * solution[2]
