"""The attribution matrix of a generated text on one forward, beside one pass per generated token.

A random GPT-2 (12 layers, 768 wide, 50,257 tokens in the vocabulary), a prompt of 512 tokens and 64 generated ones,
input times gradient, single precision. Four forms:

matrix      `model.explain(prompt, continuation=...)`: one forward, one backward through the language-model head, one
            backward through the layers per generated token
one by one  our own `explain` of every next token, each on a pass of its own
captum      `LayerGradientXActivation` on the word embeddings, once per generated token, on the library's model
inseq       `load_model(..., "input_x_gradient").attribute(...)` of the logits, on the whole text; only if installed

A backward to the inputs costs about what the forward costs, and a pass of its own per token needs both through the
layers and the head (31 % of this model). The second and third form run on every eighth generated token and are
multiplied by eight. A second model is a quarter as wide and a third as deep.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers import AutoModelForCausalLM, GPT2Config

from benchmarks import harness
from sightline.api.load import load
from sightline.results.continuation import ContinuationExplanation

WANTED = 4.0
LARGEST_DIFFERENCE = 1e-3
STEP = 8
"""The references run on every so manieth generated token."""
SHAPES = {"GPT-2 small": (12, 768, 12), "4 layers, 192 wide": (4, 192, 4)}
QUICK_SHAPES = {"2 layers, 64 wide": (2, 64, 4)}


def random_module(layers: int, width: int, heads: int) -> Any:
    """A language model with random weights, as the library makes it."""
    torch.manual_seed(0)
    config = GPT2Config(n_layer=layers, n_embd=width, n_head=heads)
    return AutoModelForCausalLM.from_config(config).eval()


def captum_row(module: Any, ids: list[int], target: int) -> Tensor:
    """Scores (n,) of one next token by captum."""
    from captum.attr import LayerGradientXActivation

    def last_logits(inputs: Tensor) -> Tensor:
        logits: Tensor = module(inputs, use_cache=False).logits[:, -1]
        return logits

    method = LayerGradientXActivation(last_logits, module.transformer.wte)
    scores: Tensor = method.attribute(torch.tensor([ids]), target=target)
    return scores[0].sum(dim=-1).detach()


def prepare_inseq(module: Any, ids: list[int], prompt: int) -> Callable[[], Tensor]:
    """Return the work: scores (generated, n) of a whole text by inseq, which reads texts: token i is the word "wi"."""
    import inseq
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    words = Tokenizer(models.WordLevel({f"w{i}": i for i in range(module.config.vocab_size)}, unk_token="w0"))
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    special = dict.fromkeys(("bos_token", "eos_token", "pad_token", "unk_token"), "w50256")
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=words, **special)
    peer = inseq.load_model(module, "input_x_gradient", tokenizer=tokenizer)
    before, whole = (" ".join(f"w{i}" for i in part) for part in (ids[:prompt], ids))

    def attribute() -> Tensor:
        result = peer.attribute(before, whole, attributed_fn="logit", show_progress=False)
        scores: Tensor = result.sequence_attributions[0].target_attributions
        return (scores.sum(dim=-1) if scores.ndim == 3 else scores).T

    return attribute


def measure(report: harness.Report, name: str, shape: tuple[int, int, int], prompt: int, generated: int) -> None:
    """Time all forms on one model, and compare their scores."""
    model, module = load(random_module(*shape)), random_module(*shape)
    ids = torch.randint(0, 50_000, (prompt + generated,), generator=torch.Generator().manual_seed(1)).tolist()
    encoding = model.encode(ids=ids[:prompt])
    rows = list(range(0, generated, STEP))
    scale = generated / len(rows)
    captum_rows: list[Tensor] = []

    def matrix() -> ContinuationExplanation:
        return model.explain(encoding, "input_x_gradient", continuation=ids[prompt:])

    def one_by_one() -> None:
        for row in rows:
            before = model.encode(ids=ids[: prompt + row])
            model.explain(before, "input_x_gradient", target=ids[prompt + row])

    def captum() -> None:
        captum_rows[:] = [captum_row(module, ids[: prompt + row], ids[prompt + row]) for row in rows]

    repeats = 1 if report.quick else 2
    ours = harness.median_seconds(matrix, repeats)
    for label, reference in (("one by one", one_by_one), ("captum", captum)):
        theirs = harness.median_seconds(reference, repeats) * scale
        wanted = None if report.quick else WANTED
        report.ratio(f"{name}, {label}", theirs, ours, wanted, {"ours": ours, "reference": theirs})
    scores = matrix().matrix
    if find_spec("inseq") is not None:
        attribute = prepare_inseq(module, ids, prompt)
        peer_scores = attribute()
        theirs = harness.median_seconds(attribute, repeats)
        report.ratio(f"{name}, inseq", theirs, ours, None, {"ours": ours, "reference": theirs})
        difference = np.abs(peer_scores.nan_to_num().numpy()[:, :prompt] - scores[:, :prompt]).max()
        report.fact(f"difference from inseq, {name}", float(difference / np.abs(scores).max()))
    off = max(
        float(np.abs(scores[row, : prompt + row] - theirs.numpy()).max() / theirs.abs().max())
        for row, theirs in zip(rows, captum_rows, strict=True)
    )
    report.fact(f"difference from captum, {name}", off)
    report.ratio(f"difference limit, {name}", LARGEST_DIFFERENCE, max(off, 1e-16), target=1)


def main() -> None:
    """Measure every shape."""
    report = harness.start("decoders", __doc__)
    prompt, generated = (48, 16) if report.quick else (512, 64)
    for name, shape in (QUICK_SHAPES if report.quick else SHAPES).items():
        measure(report, name, shape, prompt, generated)
    report.finish()


if __name__ == "__main__":
    main()
