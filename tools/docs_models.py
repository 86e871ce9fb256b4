"""docs/models.md: which method applies to which family of models, and how each task is explained."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import transformers

from sightline.methods import list_methods
from sightline.methods.applicability import reason_against
from sightline.models.families import FAMILIES, Family, unseen_family
from sightline.models.model_types import MAPPINGS, register_architectures
from sightline.models.tasks import TASKS

PAGE = Path(__file__).parents[1] / "docs" / "models.md"
HEAD = """# Models and methods

Generated from the registries by `python -m tools.docs`. A method that does not apply to a model raises an error before
anything is computed.

- **Single attention**: a bidirectional LSTM or a small Transformer with one row of attention weights on top. No token
  attends to another, so methods that follow attention from token to token do not apply.
- **Sparse heads**: any other family whose heads use sparsemax or entmax instead of softmax (`sightline convert
  --attention`). Relevance propagation has no rules for these projections.
- **Other types**: every other model of transformers that reads a text once and whose head is one of the tasks below
  (XLNet, FNet, Funnel, ConvBERT, …). Sightline knows only its word embeddings and its logits. Methods that look at
  layers or attention are not offered (`model.methods_not_offered` lists them with the reason), and documents are never
  padded.
- **Long documents** are longer than the model reads. *Merged*: the method runs on every window, and the scores are
  weighted by the window's share in the prediction and added up. *Whole*: the method calls the model on the whole
  document.
"""
TARGETS = {
    "sequence_classification": "a class, a contrast of two, all classes",
    "token_classification": "a label at a token, a contrast, all labels, all entities",
    "masked_lm": "a token at the mask, a contrast of two",
    "causal_lm": "the next token, a contrast of two, every token of a continuation",
    "question_answering": "the best answer, an answer by its text or tokens, one of its ends, no answer",
}
TASKS_HEAD = """## Tasks

Every method explains every task of a family it applies to. See [long documents and answers](guides/tasks.md)."""


FAMILIES_HEAD = """## Families, tasks and methods

- **exact**: on a tiny random model of the family, logits, attention weights, hidden states and the gradients of
  embeddings and attention equal those of transformers' own code: in double precision to 1e-11, and to 1e-5 where the
  library computes a softmax or a norm in single precision. Every method of the last column passes the contract suite;
  `tests/contract/test_heads.py` runs every such cell.
- **no such head**: transformers has none.
- **refused**: loading the model raises an error of one sentence."""
UNSUPPORTED = """**Encoders with a decoder** (BART, LED, T5 with its decoder) are not supported: the head reads the
decoder, which reads the text a second time. transformers 5 has no classifier on LED's encoder alone, so there is no
head to explain; Longformer is that encoder with one.

**Language models that see later tokens** (XLNet and XLM as language models) are not supported: their scores are not
those of the next token. Sightline changes the last token of a short text when it loads a model of another type, and
refuses the model if earlier scores move. XLNet classifiers are explained like other types.

**Models that read more than text** are not supported: LayoutLM, BROS and LiLT also read the place of every word on its
page, MarkupLM the place in a web page. Given text alone, they would run and predict something else.

**Vision Transformers** (ViT, DeiT, …) are not supported, by decision. Their attention goes through the same
interface as that of text models, so weights, rollout and relevance could be observed at once. Everything around them
is made for text: an encoding that knows characters, words and sentences, where a picture has patches in two dimensions;
the removal of words, on which occlusion and the check rest, where a patch needs a replacement whose effect on the
verdict would have to be measured anew; and a page that marks words, where a picture needs a map over it. That is about
a fifth of the code a second time, for results that toolkits for pictures such as Captum already give. Until there is a
reason for it, `sl.load` says in one sentence that such a model reads pictures."""
BLOCKS = """**BigBird** reads texts of up to (5 + 2r)·b tokens with full attention, as transformers does: 704 tokens
in the released models, with blocks of b = 64 tokens and r = 3 random blocks. Longer texts use its block-sparse
attention: a window of three blocks, and the first and the last block as global tokens.

- Random blocks are drawn in training only. In evaluation all of them are the first block, so a row reads the keys of
  that block 1 + r times. The weights shown are sums over these copies, so rows sum to one; the weights that
  transformers returns hold a single copy.
- Every document is read as if it were alone. transformers takes the last block of the padded batch instead, so that
  the logits of a document depend on its neighbours."""
RELEVANCE = """**Relevance propagation** treats position scores that depend on no word (T5, MPNet) as biases: with
`attnlrp` they absorb their part of the relevance, and with the other rules none. DeBERTa's products of words and
positions are treated as linear maps of the words, with constant weights."""


def reason_against_head(family: Family, task: str) -> str | None:
    """Return why a head of a family is not explained: "no such head", or why it is refused; None if it is explained."""
    register_architectures()
    models: Any = getattr(transformers, MAPPINGS[task])
    if transformers.CONFIG_MAPPING[family.model_type] not in models:
        return "no such head"
    if task == "causal_lm" and not family.causal:
        return "refused: run as a decoder"
    if family.encoder_only and task != "token_classification":
        return "refused: has a decoder"
    return None


def _applies(method: str, family: Family, sparse_heads: str | None = None) -> bool:
    """Whether a method means something for models of a family, with or without sparse projections in their heads."""
    return reason_against(method, family, sparse_heads=sparse_heads) is None


def page() -> str:
    """Return the whole page."""
    single = sorted(name for name, family in FAMILIES.items() if family.single_attention)
    others = sorted(name for name, family in FAMILIES.items() if not family.single_attention)
    columns = ("Transformer families", "sparse heads", "single attention", "other types", "long documents")
    lines = [f"| method | {' | '.join(columns)} |", f"|---|{'---|' * len(columns)}"]
    for method in list_methods():
        marks = (
            _applies(method.name, FAMILIES[others[0]]),
            _applies(method.name, FAMILIES[others[0]], sparse_heads="sparsemax"),
            _applies(method.name, FAMILIES[single[0]]),
            _applies(method.name, unseen_family("other")),
        )
        lines.append(
            f"| [`{method.name}`](methods.md#{method.name}) | {' | '.join('yes' if m else '–' for m in marks)} "
            f"| {'whole' if method.reads_documents else 'merged'} |"
        )
    families = f"Transformer families: {', '.join(others)}. Single attention: {', '.join(single)}."
    tasks = ["| task | what can be explained | long documents |", "|---|---|---|"]
    for name, task in TASKS.items():
        tasks.append(f"| `{name}` | {TARGETS[name]} | {'windows' if task.reads_windows else 'truncated'} |")
    heads = [f"| family | {' | '.join(f'`{name}`' for name in TASKS)} | methods |", f"|---|{'---|' * (len(TASKS) + 1)}"]
    for name, family in sorted(FAMILIES.items()):
        cells = [reason_against_head(family, task) or "exact" for task in TASKS]
        refused = [f"`{method.name}`" for method in list_methods() if not _applies(method.name, family)]
        heads.append(f"| {name} | {' | '.join(cells)} | {'all' if not refused else 'all but ' + ', '.join(refused)} |")
    parts = [
        HEAD.strip(),
        "",
        families,
        "",
        *lines,
        "",
        FAMILIES_HEAD,
        "",
        *heads,
        "",
        BLOCKS,
        "",
        RELEVANCE,
        "",
        UNSUPPORTED,
    ]
    return "\n".join([*parts, "", TASKS_HEAD, "", *tasks]) + "\n"
