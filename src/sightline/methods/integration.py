"""Gradients integrated along a path: straight paths from a baseline to the input, and quadrature rules.

A baseline is the document without its content: every ordinary token replaced (by the pad or mask token, by zero
vectors, or by the tokens of another text), special tokens kept, positions as they were. Shapes: n tokens, m points, D
width of all the places together.

Gauss-Patterson rules have 1, 3, 7, 15, 31, 63 and 127 nodes, each rule containing all nodes of the one before. A rule
of n > 1 nodes integrates polynomials up to degree (3n + 1)/2 exactly (Patterson 1968), so smooth integrands need few
nodes, and refining a rule costs only its new nodes. The nodes are tabulated; the weights follow from the condition that
every Legendre polynomial P_1 … P_{n−1} integrates to 0 and P_0 to 2.

The gradient is summed along a path, (x − x') ∫₀¹ ∂y/∂x (x' + α(x − x')) dα, by a fixed or an adaptive rule. Adaptive:
Gauss-Patterson rules of 1, 3, 7, 15 … nodes, every evaluation reused. It stops when both the completeness gap |Σ s −
(y(x) − y(x'))| and the change that the next rule is expected to bring to the attributions s are under tolerance: the
gap alone can be small by accident. If the last two rules changed s by a and then by b < a, the next one is expected to
change it by b · b/a; on smooth paths it is less, for the errors fall faster than geometrically. Only products (n,) are
kept of every node, per place P of the path. Memory: one batch of points, as many as the machine has memory for
(`models.batching`).
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise
from typing import Literal

import numpy as np
import scipy.special
import torch
from numpy.typing import NDArray
from torch import Tensor

from sightline.attention.arrays import as_array
from sightline.errors import OptionError
from sightline.methods.registry import Check
from sightline.models import Target
from sightline.models.hooks import HookPlace
from sightline.passes.document_windows import window_targets
from sightline.passes.trace import Trace

Baseline = Literal["pad", "mask", "zero"] | Sequence[int]
"""A list of ids is a text given by the user: see `baseline_ids`."""
Embeddings = Literal["full", "word", "separate"]
"""x^0, all embeddings added up and normalised; the word embeddings alone; word, position and type side by side."""


@dataclass(frozen=True)
class Path:
    """x' + α(x − x') between two points, both (n, D): the outputs of `places` side by side."""

    places: tuple[HookPlace, ...]
    start: Tensor
    end: Tensor

    @property
    def difference(self) -> Tensor:
        """x − x', (n, D)."""
        return self.end - self.start

    def points(self, positions: Tensor) -> dict[HookPlace, Tensor]:
        """The points at every α of `positions` (m,), (m, n, ·) per place."""
        joint = torch.lerp(self.start[None], self.end[None], positions[:, None, None].to(self.start))
        return self.split(joint)

    def split(self, joint: Tensor) -> dict[HookPlace, Tensor]:
        """(…, D) -> one (…, ·) per place; all places are equally wide."""
        return dict(zip(self.places, joint.chunk(len(self.places), dim=-1), strict=True))


def build_path(trace: Trace, baseline: Baseline, baseline_text: str | None, embeddings: Embeddings) -> Path:
    """Return the path from the baseline, which a text may stand for, to the input.

    With "separate" embeddings the baseline's tokens have no position or segment of their own either, but that of the
    first token and type 0. (Zero vectors in all tables at once would meet the singularity of the LayerNorm behind.)
    Otherwise position and type are the input's all along.
    """
    network, encoding = trace.network, trace.encoding
    baseline = _choose_baseline(trace, baseline, baseline_text)
    chosen: dict[Embeddings, tuple[HookPlace, ...]] = {
        "full": (0,),
        "word": ("word",),
        "separate": tuple(network.tables),
    }
    places = chosen[embeddings]
    end = torch.cat([network.embed(encoding, place) for place in places], dim=-1)
    start = torch.cat([_baseline_part(trace, baseline, place) for place in places], dim=-1)
    special = torch.tensor(encoding.special).to(end.device)[:, None]
    return Path(places, torch.where(special, end, start), end)


@dataclass(frozen=True)
class PathPart:
    """The path of one window of a document, or of a whole document that is read at once."""

    trace: Trace
    positions: NDArray[np.int64]
    """The places of its tokens in the document."""
    path: Path


def build_paths(trace: Trace, baseline: Baseline, baseline_text: str | None, embeddings: Embeddings) -> list[PathPart]:
    """Return the path of every window; together they are the path of the document, from the document's baseline."""
    baseline = _choose_baseline(trace, baseline, baseline_text)
    ids = None if isinstance(baseline, str) else baseline_ids(trace, baseline)
    parts = []
    for window, positions in trace.parts():
        own = baseline if ids is None else ids[positions][~window.encoding.special].tolist()
        parts.append(PathPart(window, positions, build_path(window, own, None, embeddings)))
    return parts


def _choose_baseline(trace: Trace, baseline: Baseline, text: str | None) -> Baseline:
    """Return the baseline, or the ids of the text that stands for it."""
    if text is None:
        return baseline
    if not isinstance(baseline, str) or baseline != "pad":
        raise OptionError("Give either baseline= or baseline_text=, not both.")
    return read_baseline(trace, text)


def read_baseline(trace: Trace, text: str) -> Sequence[int]:
    """Return the ids of the ordinary tokens of a text."""
    if trace.reader is None:
        raise OptionError("A trace made by hand cannot read a baseline's text; give baseline= a list of token ids.")
    encoding = trace.reader(text)
    ids: Sequence[int] = encoding.ids[~encoding.special].tolist()
    return ids


def baseline_ids(trace: Trace, baseline: Literal["pad", "mask"] | Sequence[int]) -> NDArray[np.int64]:
    """Return the baseline's ids (n,): specials kept, and one token, or the ids given in their order, everywhere else.

    Ids beyond the document's length are not used; a document that is longer goes on with pads.
    """
    encoding = trace.encoding
    ordinary = np.flatnonzero(~encoding.special)
    ids = encoding.ids.copy()
    if isinstance(baseline, str):
        ids[ordinary] = trace.network.token_id(baseline)
        return ids
    text = np.asarray(baseline)
    size = int(trace.network.config.vocab_size)
    if text.ndim != 1 or text.dtype.kind not in "iu" or len(text) == 0 or text.min() < 0 or text.max() >= size:
        raise OptionError(
            "A baseline is pad, mask, zero, a text of at least one known token, or a list of token ids between 0 and "
            f"{size - 1}."
        )
    if len(text) < len(ordinary):
        ids[ordinary[len(text) :]] = trace.network.token_id("pad")
    ids[ordinary[: len(text)]] = text[: len(ordinary)]
    return ids


def _baseline_part(trace: Trace, baseline: Baseline, place: HookPlace) -> Tensor:
    """What the baseline is at one place, (n, ·)."""
    network, encoding = trace.network, trace.encoding
    if place == "position":
        positions = network.embed(encoding, place)
        return positions[:1].expand_as(positions)
    if place == "type":
        return network.embed(replace(encoding, type_ids=np.zeros_like(encoding.type_ids)), place)
    if isinstance(baseline, str) and baseline == "zero":
        return torch.zeros_like(network.embed(encoding, place))
    return network.embed(encoding.replace_ids(baseline_ids(trace, baseline)), place)


_NEW_NODES: dict[int, tuple[float, ...]] = {
    1: (),
    3: (0.774596669241483377,),
    7: (*(0.434243749346802558, 0.960491268708020283),),
    15: (*(0.223386686428966882, 0.621102946737226403, 0.888459232872256999, 0.993831963212755022),),
    31: (
        *(0.112488943133186626, 0.331135393257976833, 0.531319743644375624, 0.702496206491527079),
        *(0.836725938168868736, 0.929654857429740057, 0.981531149553740107, 0.999098124967667598),
    ),
    63: (
        *(0.05634431304659279, 0.168235251552207465, 0.277749822021824315, 0.383359324198730347),
        *(0.483618026945841028, 0.577195710052045815, 0.662909660024780595, 0.739756044352694759),
        *(0.806940531950217612, 0.863907938193690477, 0.910371156957004292, 0.946342858373402905),
        *(0.972182874748581797, 0.98868475754742948, 0.997206259372221959, 0.999872888120357612),
    ),
    127: (
        *(0.0281846489497456943, 0.0844540400837108837, 0.140424233152560175, 0.195897502711100154),
        *(0.250678730303483177, 0.304576441556714043, 0.357403837831532152, 0.408979821229888672),
        *(0.459130011989832333, 0.507687757533716602, 0.554495132631932549, 0.599403930242242893),
        *(0.642276642509759514, 0.682987431091079228, 0.721423085370098915, 0.757483966380513638),
        *(0.791084933799848361, 0.822156254364980407, 0.85064449476835028, 0.87651341448470527),
        *(0.899744899776940037, 0.920340025470012421, 0.938320397779592884, 0.953730006425761136),
        *(0.966637851558416567, 0.977141514639705714, 0.985371499598520371, 0.991495721178106132),
        *(0.995724104698407189, 0.998316635318407393, 0.999598799671910683, 0.999982430354891599),
    ),
}
"""The positive nodes on [−1, 1] that each rule adds to the one before; all have the node 0."""
SIZES = tuple(_NEW_NODES)


@cache
def nested_rules(largest: int) -> tuple[NDArray[np.float64], NDArray[np.float64], tuple[int, ...]]:
    """Return nodes (N,) and weights (R, N) on [0, 1] of the R rules with at most `largest` nodes, and their sizes.

    The first `size` nodes are those of the rule of that size; its other weights are 0. The smallest rule is
    always among them.
    """
    sizes = tuple(size for size in SIZES if size <= max(largest, SIZES[0]))
    positive = [node for size in sizes for node in _NEW_NODES[size]]
    nodes = np.array([0.0, *(signed for node in positive for signed in (-node, node))])
    weights = np.zeros((len(sizes), len(nodes)))
    for rule, size in enumerate(sizes):
        basis = np.polynomial.legendre.legvander(nodes[:size], size - 1)
        weights[rule, :size] = np.linalg.solve(basis.T, 2.0 * (np.arange(size) == 0))
    return (nodes + 1) / 2, weights / 2, sizes


FIRST_RULE = 2
"""The rules of 1, 3 and 7 nodes are evaluated together: fewer say nothing about their error."""
SMALLEST_SHARE = 0.05
"""Gaps are relative to |y(x) − y(x')|, or to Σ|s| where that difference is below this share of it."""
ROUNDING = 1e-6
"""Nor to less than this share of |y|: below it there is only rounding."""


@dataclass(frozen=True)
class Integral:
    """The attributions by place of the path, (P, n), and checks of their accuracy."""

    parts: Tensor
    checks: Mapping[str, Check]


class PathProducts:
    """(x − x') ⊙ ∂y/∂x at the nodes α_1, α_2, … of a path, summed over the width of every place: (P, n) per node.

    While all classes are explained, the first of them that needs a node also evaluates it for those that follow: one
    forward, and a backward for each. Adaptive rules of the classes of one document mostly stop at the same node.
    """

    def __init__(self, parts: Sequence[PathPart], nodes: NDArray[np.float64]) -> None:
        self.places = parts[0].path.places
        self._parts = parts
        self._nodes = nodes
        self._products: dict[Target, list[Tensor]] = {}
        self._start_logits: Tensor | None = None

    def first(self, trace: Trace, count: int) -> Tensor:
        """Return the products at the first `count` nodes for the target of the trace: (count, P, n)."""
        own = self._products.setdefault(trace.target, [])
        step = max(1, trace.network.graph_tokens // max(len(part.positions) for part in self._parts))
        while len(own) < count:
            start = len(own)
            nodes = torch.from_numpy(self._nodes[start : min(count, start + step)])
            targets = [trace.target, *(t for t in trace.later_targets if len(self._products.get(t, [])) == start)]
            for target, products in zip(targets, self._multiply(trace, nodes, targets), strict=True):
                self._products.setdefault(target, []).extend(products)
            if trace.progress is not None:
                trace.progress(len(own), 0)
        return torch.stack(own[:count])

    def _multiply(self, trace: Trace, nodes: Tensor, targets: Sequence[Target]) -> Tensor:
        """Σ_d (x − x') ⊙ ∂y/∂x of every place at m nodes, for T targets: (T, m, P, n).

        Tokens that several windows hold get the sum over these.
        """
        totals = torch.zeros(len(targets), len(nodes), len(self.places), trace.token_count, dtype=torch.float64)
        for part, rounds in zip(self._parts, self._part_targets(trace, nodes, targets), strict=True):
            differences = part.path.split(part.path.difference).values()
            for total, gradients in zip(totals, part.trace.gradients_at(part.path.points(nodes), rounds), strict=True):
                products = [(gradient * d).sum(dim=-1) for gradient, d in zip(gradients, differences, strict=True)]
                total[:, :, part.positions] += torch.from_numpy(as_array(torch.stack(products, dim=1))).double()
        return totals

    def _part_targets(self, trace: Trace, nodes: Tensor, targets: Sequence[Target]) -> list[list[list[Target]]]:
        """Return what is differentiated in each part, for each target and node: [part][target][node].

        In a window it is the linear function of its logits with the gradient of the document's y, which depends on
        what all windows say at that node; so they run once before, without gradient.
        """
        if not trace.windowed:
            return [[[target] * len(nodes) for target in targets]]
        task = trace.network.task
        logits = [part.trace.logits_at(part.path.points(nodes)) for part in self._parts]
        by_window = [
            [window_targets(task, trace.encoding, at_node, target) for at_node in zip(*logits, strict=True)]
            for target in targets
        ]
        return [[[at_node[w] for at_node in by_node] for by_node in by_window] for w in range(len(self._parts))]

    def ends(self, trace: Trace) -> NDArray[np.float64]:
        """y(x') and y(x), by forwards without gradient, one at most: y(x) is what the trace has computed already."""
        if self._start_logits is None:
            start = torch.zeros(1, dtype=torch.float64)
            logits = [part.trace.logits_at(part.path.points(start))[0] for part in self._parts]
            self._start_logits = trace.combine(logits)
        return np.array([trace.value_of(self._start_logits), trace.value])


def gauss_legendre_nodes(steps: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return nodes and weights (steps,) of the fixed rule on [0, 1]."""
    check_steps(steps)
    nodes, weights = scipy.special.roots_legendre(steps)
    return (nodes + 1) / 2, weights / 2


def gauss_legendre(trace: Trace, products: PathProducts, steps: int) -> Integral:
    """Integrate by a fixed rule with `steps` nodes, those of the products."""
    _, weights = gauss_legendre_nodes(steps)
    parts = _weighted(weights, products.first(trace, steps))
    gap = completeness_gap(parts.sum(dim=0), products.ends(trace))
    return Integral(parts, {"completeness_gap": gap, "evaluations": steps})


def nested(trace: Trace, products: PathProducts, tolerance: float, max_evaluations: int) -> Integral:
    """Integrate by nested rules, whose nodes are those of the products, until the attributions converge."""
    check_tolerance(tolerance)
    ends = products.ends(trace)
    _, weights, sizes = nested_rules(max_evaluations)
    rule = min(FIRST_RULE, len(sizes) - 1)
    while True:
        at_nodes = products.first(trace, sizes[rule])
        parts = [_weighted(weights[r, : sizes[rule]], at_nodes) for r in range(max(0, rule - 2), rule + 1)]
        attributions = [part.sum(dim=0) for part in parts]
        gap, change = completeness_gap(attributions[-1], ends), expected_change(attributions)
        if (gap <= tolerance and change <= tolerance) or rule == len(sizes) - 1:
            checks = convergence_checks(gap, change, tolerance, sizes[rule], trace.target.quantity)
            return Integral(parts[-1], checks)
        rule += 1


def _weighted(weights: NDArray[np.float64], at_nodes: Tensor) -> Tensor:
    """Σ_k w_k · products_k, (P, n)."""
    return torch.einsum("k,kpn->pn", torch.from_numpy(weights), at_nodes)


def expected_change(attributions: Sequence[Tensor]) -> float:
    """Return the relative change that one more rule will bring, from the attributions by the last three; 1 from fewer.

    Changes a, then b, are extrapolated to b · min(1, b/a).
    """
    if len(attributions) < 3:
        return 1.0
    before, last = (relative_change(*pair) for pair in pairwise(attributions))
    return last * min(1.0, last / before) if before else last


def check_steps(steps: int) -> None:
    """Raise OptionError for a rule without nodes."""
    if steps < 1:
        raise OptionError(f"The integral along the path needs at least one step, not {steps}.")


def check_tolerance(tolerance: float) -> None:
    """Raise OptionError unless the tolerance is a share."""
    if not 0 < tolerance < 1:
        raise OptionError(f"The tolerance of an integral is a share between 0 and 1, not {tolerance}.")


def convergence_checks(
    gap: float, change: float, tolerance: float, evaluations: int, quantity: str = "logit"
) -> dict[str, Check]:
    """Return the checks of an adaptive rule, and warn when it stopped before the attributions were settled.

    quantity: what is explained; logits are smoother than probabilities, so they are advised where they are not.
    """
    converged = gap <= tolerance and change <= tolerance
    if not converged:
        advice = _advise(max(gap, change), tolerance, evaluations)
        advice += "" if quantity in ("log_odds", "logit") else " or use the logit as target quantity"
        warnings.warn(
            f"The integral along the path stopped after {evaluations} evaluations with a completeness gap of {gap:.1%} "
            f"and a change of {change:.1%}; {advice}.",
            stacklevel=2,
        )
    return {"completeness_gap": gap, "change": change, "evaluations": evaluations, "converged": converged}


def _advise(error: float, tolerance: float, evaluations: int) -> str:
    """Return what would make the error small enough; beyond the largest nested rule, how many steps of a fixed one.

    Where y rises steeply in one place, as it often does while positions are faded in, errors fall with 1/steps.
    """
    if evaluations < SIZES[-1]:
        return "raise max_evaluations"
    steps = evaluations * error / tolerance
    rounded = int(float(f"{steps:.1e}"))
    return f"y is steep somewhere on this path: use steps={rounded} instead (fewer may do)"


def relative_change(before: Tensor, after: Tensor) -> float:
    """Σ|after − before| / Σ|after|; 0 where all is zero."""
    scale = float(after.abs().sum())
    return float((after - before).abs().sum()) / scale if scale else 0.0


def completeness_gap(attribution: Tensor, ends: NDArray[np.float64]) -> float:
    """|Σ s − (y(x) − y(x'))| relative to |y(x) − y(x')|, or to Σ|s| if the difference is near zero beside it.

    ends = (y(x'), y(x)). A difference below `SMALLEST_SHARE` of Σ|s| is what scores of both signs leave of each other.
    """
    rise, magnitude = float(ends[1] - ends[0]), float(attribution.abs().sum())
    near_zero = abs(rise) < SMALLEST_SHARE * magnitude
    scale = max(magnitude if near_zero else abs(rise), ROUNDING * float(np.abs(ends).max()))
    return abs(float(attribution.sum()) - rise) / scale if scale else 0.0
