"""Agreement statistics at document length, against their quadratic forms and the `rbo` package.

Every form starts from the two score vectors. The quadratic forms are the definitions as they are usually written:
Kendall as a loop over all pairs of tokens, rank-biased overlap as a set intersection at every depth. The pairs are also
counted a row at a time with numpy, the best of the quadratic forms, for information.

`python -m benchmarks.similarity [--quick] [--json]`
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt
from rbo import RankingSimilarity

from benchmarks import harness
from sightline.metrics import average_overlap, chance_level, kendall, rbo

Scores = npt.NDArray[np.float64]


def kendall_by_pairs(a: Scores, b: Scores) -> float:
    """Tau-b with one step of Python for each pair of tokens."""
    first, second = a.tolist(), b.tolist()
    balance = untied_a = untied_b = 0
    for i in range(len(first)):
        x, y = first[i], second[i]
        for j in range(i + 1, len(first)):
            sign_a = (x > first[j]) - (x < first[j])
            sign_b = (y > second[j]) - (y < second[j])
            balance += sign_a * sign_b
            untied_a += sign_a != 0
            untied_b += sign_b != 0
    return float(balance / (untied_a * untied_b) ** 0.5)


def kendall_by_rows(a: Scores, b: Scores) -> float:
    """Tau-b with a few steps of numpy for each token."""
    balance = untied_a = untied_b = 0.0
    for i in range(len(a)):
        signs_a, signs_b = np.sign(a[i] - a[i + 1 :]), np.sign(b[i] - b[i + 1 :])
        balance += float(signs_a @ signs_b)
        untied_a += np.count_nonzero(signs_a)
        untied_b += np.count_nonzero(signs_b)
    return float(balance / (untied_a * untied_b) ** 0.5)


def ranking(scores: Scores) -> list[int]:
    """Token indices, highest score first."""
    order: list[int] = np.argsort(-scores, kind="stable").tolist()
    return order


def rbo_by_prefix_sets(a: Scores, b: Scores, *, p: float) -> float:
    """Extrapolated rank-biased overlap with both prefixes built again at every depth."""
    first, second = ranking(a), ranking(b)
    n = len(first)
    head = sum(p ** (d - 1) * len(set(first[:d]) & set(second[:d])) / d for d in range(1, n + 1))
    return p**n + (1 - p) * head


def rbo_by_package(a: Scores, b: Scores, *, p: float) -> float:
    """Extrapolated rank-biased overlap by the `rbo` package, given lists, which it reads no slower than arrays."""
    return float(RankingSimilarity(ranking(a), ranking(b)).rbo_ext(p=p))


def average_overlap_by_package(a: Scores, b: Scores) -> float:
    """Average overlap by the `rbo` package, where it is the case p = 1."""
    return float(RankingSimilarity(ranking(a), ranking(b)).rbo(p=1.0))


@dataclass(frozen=True)
class Comparison:
    """Our form and another of the same statistic; `calls` of the other make one measurement."""

    label: str
    ours: Callable[[Scores, Scores], float]
    reference: Callable[[Scores, Scores], float]
    calls: int
    target: float | None


COMPARISONS = (
    Comparison("kendall, all pairs", kendall, kendall_by_pairs, 1, 500.0),
    Comparison("kendall, numpy row by row", kendall, kendall_by_rows, 3, None),
    Comparison("rbo p=0.9, prefix sets", partial(rbo, p=0.9), partial(rbo_by_prefix_sets, p=0.9), 1, 500.0),
    Comparison("rbo p=0.98, prefix sets", partial(rbo, p=0.98), partial(rbo_by_prefix_sets, p=0.98), 1, 500.0),
    Comparison("rbo p=0.9, rbo package", partial(rbo, p=0.9), partial(rbo_by_package, p=0.9), 20, 10.0),
    Comparison("rbo p=0.98, rbo package", partial(rbo, p=0.98), partial(rbo_by_package, p=0.98), 20, 10.0),
    Comparison("average overlap, rbo package", average_overlap, average_overlap_by_package, 20, None),
)


def seconds_per_call(work: harness.Work, calls: int, repeats: int) -> float:
    """Median over `repeats` of the CPU seconds of one call among `calls` in a row.

    A statistic takes less time than the clean-up between two measurements disturbs, and is used for many heads and
    documents in a row: so it is measured in a row.
    """

    def row() -> None:
        for _ in range(calls):
            work()

    return harness.median_seconds(row, repeats) / calls


def main() -> None:
    """Measure at 4,096 tokens (512 with --quick)."""
    report = harness.start("similarity", __doc__)
    n = 512 if report.quick else 4096
    generator = np.random.default_rng(0)
    a = generator.standard_normal(n)
    b = a + generator.standard_normal(n)
    report.fact("tokens", n)
    for comparison in COMPARISONS:
        difference = abs(comparison.ours(a, b) - comparison.reference(a, b))  # also warms both up
        if difference > 1e-12:
            raise SystemExit(f"{comparison.label}: the two forms differ by {difference}.")
        ours = seconds_per_call(lambda work=comparison.ours: work(a, b), calls=20, repeats=11)
        reference = seconds_per_call(
            lambda work=comparison.reference: work(a, b), comparison.calls, repeats=1 if comparison.calls == 1 else 5
        )
        # The ratios grow with n: the targets are meant at full length.
        target = None if report.quick else comparison.target
        report.ratio(comparison.label, reference, ours, target, {"ours": ours, "reference": reference})
    for name in ("cosine", "kendall", "rbo"):
        seconds = harness.median_seconds(lambda name=name: chance_level(name, a, b, permutations=200), 3)
        report.fact(f"chance level of {name}, s", round(seconds, 4))
    report.finish()


if __name__ == "__main__":
    main()
