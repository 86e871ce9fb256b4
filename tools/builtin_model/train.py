"""Training: short and plain first, long and banded after.

1. A BERT of 4 layers (d = 128, 4 heads) learns from chunks of at most 256 tokens. Attention over 256 tokens is cheap,
   so many chunks are seen, short ones among them. Its word vectors come from embeddings.py and stay fixed, and three
   tokens in ten are hidden, so that it learns what kinds of words make a subject instead of the words of its training
   packages.
2. It becomes a Longformer (`sightline.lab.convert`) and learns a little from documents of up to 4,096 tokens at a
   tenth of the learning rate; a larger one forgets the first phase.

3. One temperature, chosen on the validation packages, makes its probabilities honest; it is folded into the last layer.

Every batch holds as many chunks of one side as of the other, and within a side a package is drawn with the square root
of its size, so that no large package speaks for its side. A third of every batch is undecided, with the label ½ / ½:
texts about anything else, everyday words, and texts of which everything or all but nothing is hidden. A model that
never sees those gives an empty text one of its labels. The validation packages choose the step whose weights stay.
"""

from __future__ import annotations

import copy
import json
import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import torch
from tokenizers import Tokenizer
from torch import nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
from transformers import BertConfig, BertForSequenceClassification, LongformerForSequenceClassification

from sightline.lab.convert import to_longformer
from tools.builtin_model.corpus import Document
from tools.builtin_model.embeddings import chunk_counts, latent_vectors
from tools.builtin_model.packages import NEITHER, SIDES
from tools.builtin_model.vocabulary import CLS, MASK, MAX_TOKENS, PAD, SEP

WINDOW = 128  # 64 tokens to each side
LABELS = {0: "programming languages", 1: "artificial intelligence"}
TARGETS = {"PL": (1.0, 0.0), "AI": (0.0, 1.0), NEITHER: (0.5, 0.5)}
"""The probabilities that a document of each side should get."""
TURN = ("PL", "AI", NEITHER)
"""The sides of the rows of a batch, one after the other."""


@dataclass(frozen=True)
class Settings:
    """All that decides a training run; the defaults are the ones chosen on the validation packages."""

    seed: int = 0
    chunk: int = 256
    lengths: tuple[int, ...] = (24, 64, 128, 256, 256)  # of the chunks of a batch of the short phase
    short_steps: int = 480
    short_batch: int = 24
    short_rate: float = 5e-4
    word_rate: float = 0.0  # of the word vectors, as a share of the rate: 0 leaves them as embeddings.py made them
    hidden_share: float = 0.3
    blank_share: float = 0.2  # of the undecided rows: nearly everything hidden, or empty
    label_smoothing: float = 0.0
    weight_decay: float = 0.05
    long_steps: int = 24
    long_batch: int = 6
    long_rate: float = 5e-5
    validate_every: int = 80
    long_validate_every: int = 6
    calibration_lengths: tuple[int, ...] = (64, 256, 1_024, MAX_TOKENS)


@dataclass
class Stream:
    """The token ids of one package, end to end: its modules one after the other, to cut chunks of any length from."""

    package: str
    side: str
    ids: list[int] = field(default_factory=list)


def streams(documents: Sequence[Document], tokenizer: Tokenizer) -> list[Stream]:
    """Join the documents of each package into one stream of token ids."""
    joined: dict[str, Stream] = {}
    encodings = tokenizer.encode_batch([document.text for document in documents], add_special_tokens=False)
    for document, encoding in zip(documents, encodings, strict=True):
        stream = joined.setdefault(document.package, Stream(document.package, document.side))
        stream.ids.extend(encoding.ids)
    return [stream for stream in joined.values() if len(stream.ids) >= 64]


class Sampler:
    """Draws balanced batches of chunks: a third of each side, packages by the square root of their size."""

    def __init__(self, parts: Sequence[Stream], seed: int, blank_share: float) -> None:
        self._random = random.Random(seed)
        self._sides = {side: [stream for stream in parts if stream.side == side] for side in TURN}
        self._weights = {side: [math.sqrt(len(stream.ids)) for stream in self._sides[side]] for side in TURN}
        self._blank_share = blank_share

    def batch(self, size: int, lengths: Sequence[int], hidden_share: float) -> tuple[torch.Tensor, torch.Tensor]:
        """Return ids (size, one of `lengths`) with [CLS] first and [SEP] last, and target probabilities (size, 2)."""
        length = self._random.choice(lengths)
        rows = []
        sides = [TURN[place % len(TURN)] for place in range(size)]
        for side in sides:
            stream = self._random.choices(self._sides[side], self._weights[side])[0]
            start = self._random.randrange(max(1, len(stream.ids) - (length - 2) + 1))
            piece = stream.ids[start : start + length - 2]
            hidden = hidden_share
            if side == NEITHER and self._random.random() < self._blank_share:
                piece = piece[: int(len(piece) * self._random.random() ** 3)]
                hidden = 1.0
            piece = [MASK if self._random.random() < hidden else token for token in piece]
            rows.append([CLS, *piece, SEP] + [PAD] * (length - 2 - len(piece)))
        return torch.tensor(rows), torch.tensor([TARGETS[side] for side in sides])


def mask_of(ids: torch.Tensor) -> torch.Tensor | None:
    """Return the attention mask of padded ids, or None where nothing is padded, which attention computes faster."""
    present = ids != PAD
    return None if bool(present.all()) else present.long()


def new_bert(vocabulary_size: int, chunk: int, width: int = 128) -> BertForSequenceClassification:
    """Return the untrained small BERT.

    Two starting values differ from BERT's. Weights have the spread 1/√d: the usual 0.02 suits d = 768, and at d = 128
    so little of the words reaches [CLS] that training sits at chance for hundreds of steps. Positions start at zero:
    a subject does not depend on word order, and what is not learnt should not add noise.
    """
    bert = BertForSequenceClassification(
        BertConfig(
            vocab_size=vocabulary_size,
            hidden_size=width,
            num_hidden_layers=4,
            num_attention_heads=4,
            intermediate_size=2 * width,
            max_position_embeddings=chunk,
            type_vocab_size=1,
            initializer_range=width**-0.5,
            attention_probs_dropout_prob=0.0,  # a quarter of the training time on a CPU; hidden tokens regularise more
            pad_token_id=PAD,
            bos_token_id=CLS,
            eos_token_id=SEP,
            id2label=LABELS,
            label2id={name: index for index, name in LABELS.items()},
        )
    )
    nn.init.zeros_(bert.bert.embeddings.position_embeddings.weight)
    return bert


def run_phase(
    model: BertForSequenceClassification | LongformerForSequenceClassification,
    draw: Callable[[], tuple[torch.Tensor, torch.Tensor]],
    steps: int,
    rate: float,
    settings: Settings,
    validate: Callable[[nn.Module], dict[str, float]],
    validate_every: int,
    log: Callable[[str], None],
) -> dict[str, float]:
    """Train for `steps` with AdamW, warm-up and linear decay; leave in `model` the weights best on validation.

    Validated and kept is the running average of the weights over about the last eighth of the steps: single steps
    swing between packages, their average does not. Best is the lowest validation loss; on some hundred documents
    accuracy is too coarse to tell neighbours apart.
    """
    words = model.get_input_embeddings().weight
    others = [weight for weight in model.parameters() if weight is not words]
    groups = [{"params": others}, {"params": [words], "lr": rate * settings.word_rate}]
    optimizer = torch.optim.AdamW(groups, lr=rate, weight_decay=settings.weight_decay)
    warm_up = max(1, steps // 10)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min((step + 1) / warm_up, max(0.02, (steps - step) / (steps - warm_up + 1)))
    )
    loss_function = nn.CrossEntropyLoss(label_smoothing=settings.label_smoothing)
    average = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(max(0.0, 1 - 8 / max(1, steps))))
    best = {**validate(model), "step": 0}
    best_weights = copy.deepcopy(model.state_dict())
    log(f"step 0: validation loss {best['loss']:.4f}, accuracy {best['accuracy']:.4f}")
    running = 0.0
    for step in range(1, steps + 1):
        model.train()
        ids, labels = draw()
        loss = loss_function(model(input_ids=ids, attention_mask=mask_of(ids)).logits, labels)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        average.update_parameters(model)
        running += loss.item()
        if step % validate_every == 0 or step == steps:
            validation = {**validate(average.module), "step": step}
            count = validate_every if step % validate_every == 0 else step % validate_every
            log(
                f"step {step}: training loss {running / count:.4f}, "
                f"validation loss {validation['loss']:.4f}, accuracy {validation['accuracy']:.4f}"
            )
            running = 0.0
            if validation["loss"] < best["loss"]:
                best, best_weights = validation, copy.deepcopy(average.module.state_dict())
    model.load_state_dict(best_weights)
    return best


@torch.inference_mode()
def document_logits(
    model: nn.Module, encoded: Sequence[Sequence[int]], max_tokens: int, batch: int = 4
) -> torch.Tensor:
    """Return logits (documents, 2) of documents given as token ids without specials, cut to `max_tokens` with them."""
    model.eval()
    order = sorted(range(len(encoded)), key=lambda i: len(encoded[i]))
    logits = torch.zeros(len(encoded), len(LABELS))
    for start in range(0, len(order), batch):
        places = order[start : start + batch]
        rows = [[CLS, *encoded[i][: max_tokens - 2], SEP] for i in places]
        width = max(map(len, rows))
        ids = torch.tensor([row + [PAD] * (width - len(row)) for row in rows])
        logits[places] = model(input_ids=ids, attention_mask=mask_of(ids)).logits.float()
    return logits


def scores(logits: torch.Tensor, sides: Sequence[str]) -> dict[str, float]:
    """Return the loss, as the mean over the sides, and the accuracy, as the mean over the two that have a label.

    The loss is the divergence from the target, so that ½ / ½ costs a text of neither side nothing.
    """
    targets = torch.tensor([TARGETS[side] for side in sides])
    losses = nn.functional.kl_div(logits.log_softmax(1), targets, reduction="none").sum(1)
    right = (logits.argmax(1) == targets.argmax(1)).float()
    of_side = {side: torch.tensor([one == side for one in sides]) for side in TURN if side in sides}
    return {
        "loss": sum(losses[rows].mean().item() for rows in of_side.values()) / len(of_side),
        "accuracy": sum(right[of_side[side]].mean().item() for side in SIDES) / len(SIDES),
    }


@torch.no_grad()
def calibrate(
    model: nn.Module, encoded: Sequence[Sequence[int]], sides: Sequence[str], lengths: Sequence[int]
) -> float:
    """Divide the logits by the temperature with the lowest loss over documents cut to each of `lengths`; return it.

    Temperature scaling (Guo et al. 2017, On calibration of modern neural networks), on the documents that have a label.
    The last layer is linear, so the division goes into its weights.
    """
    labelled = [place for place, side in enumerate(sides) if side in SIDES]
    encoded, sides = [encoded[place] for place in labelled], [sides[place] for place in labelled]
    logits = torch.cat([document_logits(model, encoded, length) for length in lengths])
    repeated = sides * len(lengths)
    temperatures = torch.logspace(-1, 1, 401).tolist()
    best = min(temperatures, key=lambda temperature: scores(logits / temperature, repeated)["loss"])
    model.classifier.out_proj.weight /= best
    model.classifier.out_proj.bias /= best
    return best


def train(
    training: Sequence[Document],
    validation: Sequence[Document],
    tokenizer: Tokenizer,
    settings: Settings,
    log: Callable[[str], None] = print,
    checkpoint: Path | None = None,
) -> tuple[LongformerForSequenceClassification, dict[str, object]]:
    """Run all phases; return the model in float32 and what the validation packages said on the way."""
    torch.manual_seed(settings.seed)
    parts = streams(training, tokenizer)
    sampler = Sampler(parts, settings.seed, settings.blank_share)
    encodings = tokenizer.encode_batch([document.text for document in validation], add_special_tokens=False)
    encoded = [encoding.ids for encoding in encodings]
    sides = [document.side for document in validation]

    # Phase one looks at the first three chunks of every validation document, as separate short texts.
    pieces = [ids[start : start + settings.chunk - 2] for ids in encoded for start in (0, 500, 1000)]
    piece_sides = [side for side in sides for _ in range(3)]
    bert = new_bert(tokenizer.get_vocab_size(), settings.chunk)
    counts = chunk_counts(
        [(part.side, part.ids) for part in parts], bert.config.vocab_size, settings.chunk, settings.seed
    )
    vectors = latent_vectors(counts, bert.config.hidden_size, bert.config.initializer_range, settings.seed)
    with torch.no_grad():
        bert.bert.embeddings.word_embeddings.weight.copy_(vectors)
    log(f"short phase: {settings.short_steps} steps of {settings.short_batch} × {settings.chunk} tokens")
    short = run_phase(
        bert,
        lambda: sampler.batch(settings.short_batch, settings.lengths, settings.hidden_share),
        settings.short_steps,
        settings.short_rate,
        settings,
        lambda model: scores(document_logits(model, pieces, settings.chunk, batch=32), piece_sides),
        settings.validate_every,
        log,
    )

    long = to_longformer(bert, MAX_TOKENS, WINDOW, "tile")
    if checkpoint is not None:
        long.save_pretrained(checkpoint)
    log(f"long phase: {settings.long_steps} steps of {settings.long_batch} × {MAX_TOKENS} tokens")
    best = run_phase(
        long,
        lambda: sampler.batch(settings.long_batch, (MAX_TOKENS,), settings.hidden_share),
        settings.long_steps,
        settings.long_rate,
        settings,
        lambda model: scores(document_logits(model, encoded, MAX_TOKENS), sides),
        settings.long_validate_every,
        log,
    )
    temperature = calibrate(long, encoded, sides, settings.calibration_lengths)
    log(f"temperature {temperature:.3f}")
    return long, {"short_phase": short, "long_phase": best, "temperature": temperature}


def save_model(model: LongformerForSequenceClassification, folder: Path) -> None:
    """Write configuration and weights, halved to float16; what is evaluated is what is read back from here.

    The configuration still says float32: the file is half as large, and the model computes in full precision.
    """
    copy.deepcopy(model).half().save_pretrained(folder)
    settings = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    settings["dtype"] = "float32"
    (folder / "config.json").write_text(json.dumps(settings, indent=2) + "\n", encoding="utf-8")
    (folder / "model.safetensors").chmod(0o644)  # written for the owner only, but shipped to everyone
