"""What the ALTI study measures of every sentence: agreement with references, ranks of marks, spread of representations.

Methods that follow how tokens are mixed (rollout, norm rollout, GlobEnc, ALTI) are compared by Spearman's ρ over all
tokens, as in Table 2, and over the words alone, with two references: the norm of the gradient, and blank-out, which
replaces every token in turn, the special ones too.

On sentiment, the class that is predicted is explained at [CLS]. On subject-verb agreement, the verb of a whole sentence
is masked, and a masked language model is explained for the right verb at [MASK]; it is right if it finds that verb more
probable than the one of the other number.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from sightline.analysis import anisotropy_by_layer
from sightline.errors import TargetError
from sightline.methods.decomposition.matrices import relevance_matrices
from sightline.metrics import SightlineWarning, normalised_rank, spearman
from sightline.passes.trace import Trace
from sightline.settings.names import MethodName
from sightline.text import Encoding, Example
from sightline_studies.workbench import Subject, Workbench

METHODS: tuple[MethodName, ...] = ("rollout", "norm_rollout", "globenc", "alti")
REFERENCES: dict[str, MethodName] = {"gradient": "gradient", "blank_out": "occlusion"}
GRADIENTS: tuple[MethodName, ...] = ("gradient", "input_x_gradient", "integrated_gradients")
"""Methods whose agreement between two models is compared with ALTI's."""
MARKS = {"cls": "first", "sep": "last", "comma": ",", "full_stop": "."}
"""Marks whose rank is reported: the special tokens before and after the text, comma, full stop."""
VECTORS = ("hidden", "y", "T")
"""Vectors whose anisotropy is measured: hidden states, outputs of the attention blocks, the vectors they sum."""
NUMBERS = ("singular", "plural")


def masked_sentences(rows: Sequence[Example]) -> list[Example]:
    """Return whole sentences with a gap "{}" at the verb, of the rows that hold the sentence and the two verbs."""
    sentences = []
    for row in rows:
        facts = row.metadata
        if not {"full", "verb", "wrong_verb", "verb_idx"} <= facts.keys():
            continue
        words = str(facts["full"]).replace("{", "(").replace("}", ")").split()
        words[int(facts["verb_idx"])] = "{}"
        verbs = {"verb": facts["verb"], "wrong_verb": facts["wrong_verb"]}
        sentences.append(Example(" ".join(words), label=row.label, id=row.id, metadata=verbs))
    return sentences


def measure_sentences(
    bench: Workbench, subject: Subject, examples: Sequence[Example], name: str
) -> list[dict[str, Any]]:
    """Return per sentence: prediction, ρ by reference and method, scores, ranks of marks, anisotropy by layer.

    A sentence that the model cannot read (its verbs are not in the vocabulary) has only the entry "label".
    """
    steps = bench.number("ig_steps")

    def measure(part: Sequence[Example]) -> Iterator[dict[str, Any]]:
        for example in part:
            yield measure_sentence(subject, example, steps)

    identity = {"model": subject.identity, "methods": METHODS, "gradients": GRADIENTS, "steps": steps}
    return bench.measure_documents(name, identity, examples, measure, at_once=10)


def measure_sentence(subject: Subject, example: Example, steps: int) -> dict[str, Any]:
    """Return the measurements of one sentence."""
    asked = _ask(subject, example)
    if asked is None:
        return {"label": example.label}
    trace, predicted = asked
    model, encoding = subject.model, trace.encoding
    names: list[MethodName] = [*METHODS, *GRADIENTS, "occlusion"]
    explained = model.explain(
        trace,
        methods=names,
        occlusion={"replacement": "unk", "quantity": "probability", "special": True, "budget": None},
        integrated_gradients={"baseline": "mask", "steps": steps},
    )
    scores = {name: np.abs(explained[name].scores.astype(np.float64)) for name in names}
    spread = anisotropy_by_layer(trace)
    words = np.flatnonzero(~encoding.special)
    entry: dict[str, Any] = {
        "predicted": predicted,
        "label": example.label,
        "ids": encoding.ids,
        "scores": {name: scores[name] for name in (*METHODS, *GRADIENTS)},
        "anisotropy": {"hidden": spread.hidden, "y": spread.outputs, "T": spread.transformed},
        "ranks": {name: _ranks_of_marks(normalised_rank(scores[name]), encoding) for name in (*METHODS, *GRADIENTS)},
    }
    for reference, source in REFERENCES.items():
        for method in METHODS:
            for over, places in (("all", slice(None)), ("words", words)):
                entry[f"{reference} {method} {over}"] = rank_correlation(scores[method][places], scores[source][places])
    return entry


def _ask(subject: Subject, example: Example) -> tuple[Trace, Any] | None:
    """Return the trace that is explained and what the model predicts."""
    model, verbs = subject.model, example.metadata
    if "wrong_verb" not in verbs:
        trace = model.trace(model.encode(str(example.text), truncate=True), quantity="logit")
        return trace, trace.prediction.index
    encoding = model.encode(str(example.text).format(model.tokenizer.mask_token), truncate=True)
    if model.tokenizer.mask_token_id not in encoding.ids:
        return None
    try:
        trace = model.trace(encoding, target=str(verbs["verb"]), quantity="logit")
        right, wrong = (trace.with_target(verbs[key], "probability").value for key in ("verb", "wrong_verb"))
    except TargetError:
        return None
    return trace, example.label if right > wrong else f"not {example.label}"


def rank_correlation(first: Any, second: Any) -> float | None:
    """Return Spearman's ρ of two score vectors (n,), None if one of them is constant or they are too short to rank."""
    if len(first) < 3 or np.ptp(first) == 0 or np.ptp(second) == 0:
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SightlineWarning)
        return spearman(first, second)


def agreements(first: Sequence[Mapping[str, Any]], second: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """Return ρ between the token scores of two models by method, one value per sentence.

    NaN where the models predict different classes or read different tokens.
    """
    values: dict[str, list[Any]] = {name: [] for name in (*METHODS, *GRADIENTS)}
    for one, other in zip(first, second, strict=False):
        alike = np.array_equal(one["ids"], other["ids"]) and one["predicted"] == other["predicted"]
        for name, column in values.items():
            column.append(rank_correlation(one["scores"][name], other["scores"][name]) if alike else None)
    return {name: [np.nan if value is None else value for value in column] for name, column in values.items()}


def explain_one(bench: Workbench, subject: Subject, example: Example) -> dict[str, Any]:
    """Return tokens, R^1 … R^L of ALTI and the scores of some methods for one sentence."""

    def explain() -> dict[str, Any]:
        model = subject.model
        encoding = model.encode(str(example.text), truncate=True)
        explained = model.explain(encoding, methods=["alti", "rollout", "gradient"], quantity="logit")
        return {
            "tokens": list(encoding.tokens),
            "matrices": relevance_matrices(model.trace(encoding), "alti"),
            **{name: explanation.scores for name, explanation in explained.items()},
        }

    record: dict[str, Any] = bench.step("example", {"model": subject.identity, "text": str(example.text)}, explain)
    return record


def _ranks_of_marks(ranks: Any, encoding: Encoding) -> dict[str, float]:
    """Return the mean normalised rank of every mark that the sentence has; 1 is the highest-scored token."""
    specials = np.flatnonzero(encoding.special)
    places: dict[str, Any] = {"first": specials[:1], "last": specials[1:][-1:]}
    for sign in (",", "."):
        places[sign] = [place for place, token in enumerate(encoding.tokens) if token.strip("Ġ▁") == sign]
    return {mark: float(np.mean(ranks[positions])) for mark, positions in places.items() if len(positions)}
