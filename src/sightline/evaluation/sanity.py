"""Does an explanation depend on what the model has learnt?

Explanations of a trained network should differ from those of an untrained one (Adebayo et al. 2018). Two tests compare
the explanations of two models for the same documents and the same target:

- `weight_randomisation`: a copy whose weights are made random, at once ("full") or from the head downwards, one part
  after the other ("cascading");
- `label_permutation`: a model of the same kind trained on labels in random order, which has learnt nothing that
  holds for new documents.

Similarity is Spearman's ρ of the word scores, of their magnitudes and with their signs, mean over documents with its
bootstrap interval. Chance is the same ρ after one of the two is shuffled among the tokens and summed to words again,
the mean over documents of many draws: words of many tokens rank high with any weights. An explanation whose ranking
survives is reported as unchanged: it shows the text or the architecture, not the model's reasons. It is reported as
changed only if the interval excludes a similarity of 0.2: a few short documents show neither. Cost: one explanation per
document, method and stage.

The copy (`cascade`) is randomised part by part, from the head down to the embeddings. Every tensor is redrawn from a
normal distribution with its own mean and standard deviation: what it has learnt is lost, its scale stays. (At the small
scale of a fresh initialisation all attention would be uniform and all logits nearly equal, and an explanation would
change for that reason alone.) A tensor's draw depends only on the seed and its name, so that randomising everything at
once gives the same network as doing it part by part.
"""

from __future__ import annotations

import copy
import hashlib
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
import torch
from torch import nn

from sightline.analysis.source import track
from sightline.api.model import Model
from sightline.corpus import read_dataset
from sightline.errors import OptionError, SightlineError
from sightline.evaluation.result import frame_of
from sightline.evaluation.subject import encode_example, explain_by_each, seeded_options
from sightline.methods import METHODS
from sightline.metrics import SightlineWarning, spearman
from sightline.metrics.agreement import spearman_rows
from sightline.metrics.chance import TokenScores
from sightline.metrics.statistics import mean_interval
from sightline.models import Network, Target
from sightline.models.shared_weights import hash_weights
from sightline.progress import Progress
from sightline.settings.names import MethodName
from sightline.settings.values import check_one_of
from sightline.text import Example
from sightline.text.units import units_of

if TYPE_CHECKING:
    import pandas as pd

HEAD, EMBEDDINGS = "head", "embeddings"


def parts_from_the_top(network: Network) -> dict[str, list[tuple[str, nn.Parameter]]]:
    """Return the parameters in the order of the cascade: head, last layer … first layer, embeddings.

    The head is everything that is neither a layer nor part of the embeddings (pooler and final LayerNorm included).
    Layers that share their weights (ALBERT) are one part.
    """
    owner: dict[int, str] = {}
    layers: list[str] = []
    for number, layer in reversed(list(enumerate(network.layers))):
        name = f"layer {number}"
        fresh = [parameter for parameter in layer.parameters() if id(parameter) not in owner]
        if fresh:
            layers.append(name)
            owner.update((id(parameter), name) for parameter in fresh)
    tables = {id(parameter) for table in network.tables.values() for parameter in table.parameters()}
    parts: dict[str, list[tuple[str, nn.Parameter]]] = {name: [] for name in (HEAD, *layers, EMBEDDINGS)}
    for name, parameter in network.module.named_parameters():
        # Modules around the embedding tables (their LayerNorm, a projection) carry the same prefix in every family.
        embedded = id(parameter) in tables or "embed" in name
        part = owner.get(id(parameter)) or (EMBEDDINGS if embedded else HEAD)
        parts[part].append((name, parameter))
    return {name: parameters for name, parameters in parts.items() if parameters}


def cascade(model: Model, seed: int) -> Iterator[tuple[str, Model]]:
    """Yield (newly randomised part, model with all parts so far randomised), from the top down.

    The models share one copy of the network, which every step changes: use each before requesting the next.
    """
    original = model.network
    module = copy.deepcopy(original.module)

    def rebuilt() -> Network:
        # A new object at every step, because a network caches its fingerprint.
        return Network(
            module, original.family, original.task, name=original.name, token_ids=original.token_ids, untrained=True
        )

    for part, parameters in parts_from_the_top(rebuilt()).items():
        for name, parameter in parameters:
            redraw(parameter, name, seed)
        yield part, Model(rebuilt(), model.tokenizer)


def redraw(parameter: nn.Parameter, name: str, seed: int) -> None:
    """Fill a tensor with normal numbers of its own mean and standard deviation, seeded by `seed` and `name`.

    A constant tensor (a bias of zeros, a single number) stays unchanged: its spread is 0.
    """
    digest = hashlib.blake2b(f"{seed} {name}".encode(), digest_size=8).digest()
    generator = torch.Generator().manual_seed(int.from_bytes(digest, "little") >> 1)
    values = parameter.detach().to("cpu", torch.float64)
    noise = torch.randn(values.shape, generator=generator, dtype=torch.float64)
    with torch.no_grad():
        parameter.copy_(values.mean() + values.std(correction=0) * noise)


Mode = Literal["cascading", "full"]

UNCHANGED = 0.9
"""A similarity of at least this much is called unchanged."""
PARTLY = 0.2
"""Called changed if the upper end of the interval is smaller, partly changed if the mean is larger and above chance."""
SHUFFLES = 500
FEWEST_WORDS = 3
"""ρ of two words is 1 or −1 whatever they are."""

SUMMARY_COLUMNS = (
    *("method", "stage", "similarity", "low", "high", "chance_low", "chance_high"),
    *("similarity_signed", "signed_low", "signed_high", "documents", "failed"),
)


@dataclass(frozen=True)
class Comparison:
    """One document explained by one method for the original and for another model."""

    document: str
    method: str
    stage: str
    similarity: float | None
    """Spearman's ρ of the magnitudes of the word scores; None where there was nothing to compare."""
    similarity_signed: float | None
    words: int
    error: str = ""


@dataclass(frozen=True, eq=False, repr=False)
class SanityResult:
    """How similar explanations remain after the model has lost what it learnt."""

    test: str
    """"weight randomisation, cascading", "weight randomisation, full" or "label permutation"."""
    comparisons: tuple[Comparison, ...]
    methods: tuple[str, ...]
    stages: tuple[str, ...]
    """In order; at the last stage nothing learnt is left."""
    chance: Mapping[tuple[str, str], tuple[float, float]] = field(default_factory=dict)
    """Central 95 % of the mean ρ of shuffled scores, by (method, stage)."""
    seed: int = 0

    def to_frame(self) -> pd.DataFrame:
        """Return one row per document, method and stage."""
        return frame_of(self.comparisons, Comparison, numbers=("similarity", "similarity_signed"))

    def summary(self) -> pd.DataFrame:
        """Return one row per method and stage: mean similarity with bootstrap 95 % interval, beside chance.

        chance_low, chance_high: the range that would contain the mean of magnitudes in 95 of 100 cases if the two
        explanations were unrelated.
        """
        import pandas as pd

        rows = []
        for method in self.methods:
            for stage in self.stages:
                here = [
                    comparison
                    for comparison in self.comparisons
                    if (comparison.method, comparison.stage) == (method, stage)
                ]
                plain = [comparison.similarity for comparison in here if comparison.similarity is not None]
                signed = [
                    comparison.similarity_signed for comparison in here if comparison.similarity_signed is not None
                ]
                low, high = self.chance.get((method, stage), (float("nan"),) * 2)
                rows.append(
                    (
                        *(method, stage, *mean_interval(plain, seed=self.seed), low, high),
                        *(*mean_interval(signed, seed=self.seed), len(plain), len(here) - len(plain)),
                    )
                )
        return pd.DataFrame(rows, columns=list(SUMMARY_COLUMNS))

    def verdicts(self) -> dict[str, str]:
        """Return by method "unchanged", "partly", "changed", "not shown" or "unknown", from the last stage.

        unchanged: a mean similarity of at least 0.9; partly: of more than 0.2 and above the range of chance; changed:
        the upper end of its 95 % interval is below 0.2; not shown: too few or too short documents to say any of these
        (fewer than six documents have no interval); unknown: no document could be compared.
        """
        last = self.summary().set_index(["method", "stage"])
        verdicts = {}
        for method in self.methods:
            row = last.loc[(method, self.stages[-1])]
            if not row["documents"]:
                verdicts[method] = "unknown"
            elif row["similarity"] >= UNCHANGED:
                verdicts[method] = "unchanged"
            elif row["high"] < PARTLY:
                verdicts[method] = "changed"
            else:
                verdicts[method] = "partly" if row["similarity"] > max(PARTLY, row["chance_high"]) else "not shown"
        return verdicts

    def __repr__(self) -> str:
        heading = f"Sanity test: {self.test}, {len(self.methods)} methods"
        return f"{heading}\n{self.summary().round(3).to_string(index=False)}"


def weight_randomisation(
    model: Model,
    documents: Any,
    methods: Sequence[MethodName],
    mode: Mode = "cascading",
    seed: int = 0,
    *,
    progress: Progress | None = None,
) -> SanityResult:
    """Compare the explanations of a model with those of a copy whose weights are made random.

    The model itself is never changed: only the weights of a copy are, and the hash of the original weights is compared
    afterwards.

    documents: whatever `evaluate` accepts.
    mode: "cascading" makes the weights random step by step, from the top of the model; "full" makes all of them random.
    """
    check_one_of("mode", mode, get_args(Mode))
    before = hash_weights(model.network.module)

    def stages() -> Iterator[tuple[str, Model]]:
        for part, changed in cascade(model, seed):
            if mode == "cascading":
                yield part, changed
        if mode == "full":
            yield "all weights", changed

    result = _compare_stages(f"weight randomisation, {mode}", model, stages(), documents, methods, seed, progress)
    if hash_weights(model.network.module) != before:
        raise RuntimeError("the weights of the model changed during the test of its copy")
    return result


def label_permutation(
    model: Model,
    documents: Any,
    methods: Sequence[MethodName],
    *,
    compare_with: Model,
    seed: int = 0,
    progress: Progress | None = None,
) -> SanityResult:
    """Compare the explanations of a model with those of `compare_with`, trained on labels in random order."""
    if len(compare_with.labels) != len(model.labels):
        raise OptionError(
            f"The models have {len(model.labels)} and {len(compare_with.labels)} classes; "
            "compare_with= must be trained for the same classes."
        )
    stages = iter([("permuted labels", compare_with)])
    return _compare_stages("label permutation", model, stages, documents, methods, seed, progress)


def _compare_stages(
    test: str,
    model: Model,
    stages: Iterator[tuple[str, Model]],
    documents: Any,
    methods: Sequence[MethodName],
    seed: int,
    progress: Progress | None,
) -> SanityResult:
    if isinstance(methods, str) or not methods:
        raise OptionError("methods takes a list with at least one name, for example ['attcat', 'gradient'].")
    names = tuple(dict.fromkeys(METHODS.get(name).name for name in methods))
    examples = read_dataset(documents)
    originals = [
        _explain_document(model, example, names, None, seed)
        for example in track(examples, "explaining with the trained model", progress)
    ]
    comparisons: list[Comparison] = []
    chance: dict[tuple[str, str], tuple[float, float]] = {}
    seen: list[str] = []
    for stage, other in stages:
        seen.append(stage)
        pairs: dict[str, list[tuple[TokenScores, TokenScores]]] = {name: [] for name in names}
        watched = track(examples, f"explaining with random {stage}", progress)
        for example, original in zip(watched, originals, strict=True):
            changed = _explain_document(other, example, names, original.target, seed)
            for name in names:
                comparison, both = _comparison(example.id, name, stage, original.scores[name], changed.scores[name])
                comparisons.append(comparison)
                if both is not None:
                    pairs[name].append(both)
        for name in names:
            if pairs[name]:
                chance[name, stage] = _chance(pairs[name], seed)
    return SanityResult(test, tuple(comparisons), names, tuple(seen), chance, seed)


@dataclass(frozen=True)
class _Explained:
    """Scores of one document by method, or the reason why there are none."""

    scores: dict[str, TokenScores | str]
    target: Target | None = None


def _explain_document(
    model: Model, example: Example, names: Sequence[str], target: Target | None, seed: int
) -> _Explained:
    """Explain the predicted class, or `target`, by all methods in one shared pass."""
    try:
        encoding = encode_example(model, example)
        trace = model.trace(encoding, target)
    except SightlineError as error:
        return _Explained(dict.fromkeys(names, str(error)))

    def explain(name: str) -> TokenScores:
        # The same random numbers for both models, so that differences come from the weights only.
        scores = METHODS.get(name)(trace, **seeded_options(name, {}, seed, example.id)).scores
        return TokenScores(scores.astype(np.float64), units_of(encoding, "word"))

    explained, failures = explain_by_each(names, explain)
    return _Explained({**explained, **failures}, trace.target)


def _comparison(
    document: str, method: str, stage: str, first: TokenScores | str, second: TokenScores | str
) -> tuple[Comparison, tuple[TokenScores, TokenScores] | None]:
    for scores in (first, second):
        if isinstance(scores, str):
            return Comparison(document, method, stage, None, None, 0, scores), None
    assert not isinstance(first, str)
    assert not isinstance(second, str)
    words, second_words = len(first.units), len(second.units)
    if words < FEWEST_WORDS or words != second_words:
        reason = (
            f"The document has {words} words; a ranking needs at least {FEWEST_WORDS}."
            if words == second_words
            else f"The models read {words} and {second_words} words of the document: one of them reads a shorter part."
        )
        return Comparison(document, method, stage, None, None, words, reason), None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SightlineWarning)  # constant scores rank nothing: 0 by convention
        a, b = first.sums(), second.sums()
        plain, signed = spearman(np.abs(a), np.abs(b)), spearman(a, b)
    return Comparison(document, method, stage, plain, signed, words), (first, second)


def _chance(pairs: Sequence[tuple[TokenScores, TokenScores]], seed: int) -> tuple[float, float]:
    """Return the central 95 % of the mean over documents of ρ(|a|, |b shuffled|)."""
    generator = np.random.default_rng(seed)
    total = np.zeros(SHUFFLES)
    for first, second in pairs:
        rows = second.shuffle(SHUFFLES, generator, np.ones(len(second.units), dtype=np.bool_))
        total += spearman_rows(np.abs(first.sums()), np.abs(rows))
    low, high = np.quantile(total / len(pairs), [0.025, 0.975])
    return float(low), float(high)
