"""Tables of the Longformer study over the data set: performance, similarity with chance and control, partners."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from sightline_studies.accuracy import CAPTION, accuracy_columns
from sightline_studies.longformer_example import COUNTED
from sightline_studies.study import Measured, StudyTable

if TYPE_CHECKING:
    import pandas as pd

STATISTICS = ("cosine_normalised", "kendall", "average_overlap", "jaccard")
"""What the published tables show; their "RBO" with p = 1 is the average overlap."""
MODES = {"unmasked": "all words", "dropped": "masked words left out", "zeroed": "masked words set to 0, as published"}
SOURCE = "author's repository, Attn_attr_sim_means.ipynb"
PUBLISHED: dict[tuple[str, str, bool], dict[str, float]] = {
    ("unmasked", "all", False): {"kendall": 0.131, "average_overlap": 0.582, "jaccard": 0.199},
    ("unmasked", "all", True): {"kendall": 0.134, "average_overlap": 0.581, "jaccard": 0.188},
    ("unmasked", "last", False): {"kendall": 0.157, "average_overlap": 0.590, "jaccard": 0.187},
    ("unmasked", "last", True): {"kendall": 0.168, "average_overlap": 0.594, "jaccard": 0.184},
    ("zeroed", "all", False): {"kendall": 0.737, "average_overlap": 0.774, "jaccard": 0.197},
    ("zeroed", "all", True): {"kendall": 0.733, "average_overlap": 0.770, "jaccard": 0.178},
    ("zeroed", "last", False): {"kendall": 0.739, "average_overlap": 0.777, "jaccard": 0.199},
    ("zeroed", "last", True): {"kendall": 0.743, "average_overlap": 0.778, "jaccard": 0.197},
}
"""(mode, layers, scaled) -> means over the papers. The cosine there is of unscaled vectors, another quantity."""
SHOWN = 10
"""Words of a table of partners."""
SIMILARITY = (
    "mean: over documents, with its 95 % interval. chance: the same statistic for attribution that was shuffled among "
    "the tokens and summed over words again. For Kendall's tau it is above 0 where words have several tokens: such "
    "words receive more attention and sum more scores, even shuffled ones. random weights: the same model with weights "
    "drawn anew, on {control:,} documents. layers: whose received attention is averaged. scaled: heads weighted by "
    "importance. average overlap is the published RBO with p = 1. published: from the "
    f"{SOURCE}, a run with a larger model on other papers; difference: measured minus published."
)
Entries = Sequence[Mapping[str, Any]]
Pairs = dict[int, tuple[float, float]]


def similarity_values(entries: Entries, mode: str, statistic: str, layers: str = "all", scaled: bool = False) -> Pairs:
    """Return (value, chance) by number of the document in one setting; documents without a value are left out."""
    return {
        number: (row[statistic][0], row[statistic][1])
        for number, entry in enumerate(entries)
        for row in entry["similarity"]
        if (row["mode"], row["layers"], row["scaled"]) == (mode, layers, scaled) and statistic in row
    }


def published_tau(mode: str, layers: str, *, scaled: bool = False) -> float:
    """Return Kendall's tau as published."""
    return PUBLISHED[mode, layers, scaled]["kendall"]


def mean_chance(pairs: Pairs) -> float:
    """Return the mean of the chance levels."""
    return float(np.mean([chance for _, chance in pairs.values()])) if pairs else float("nan")


def similarity_tables(trained: Entries, control: Entries, seed: int) -> list[StudyTable]:
    """Return one table per way to treat masked words, with one row per layers × heads × statistic."""
    return [
        StudyTable(
            f"similarity_{mode}",
            f"Attention against attribution: {title}",
            _similarity_frame(trained, control, mode, seed),
            SIMILARITY.format(control=len(control)),
        )
        for mode, title in MODES.items()
    ]


def _similarity_frame(trained: Entries, control: Entries, mode: str, seed: int) -> pd.DataFrame:
    import pandas as pd

    rows = []
    for layers in ("last", "all"):
        for scaled in (False, True):
            for statistic in STATISTICS:
                pairs = similarity_values(trained, mode, statistic, layers, scaled)
                measured = Measured.of([value for value, _ in pairs.values()], seed)
                random = similarity_values(control, mode, statistic, layers, scaled)
                rows.append(
                    {
                        "layers": layers,
                        "heads": "scaled" if scaled else "unscaled",
                        "statistic": statistic,
                        "published": (known := PUBLISHED.get((mode, layers, scaled), {}).get(statistic, np.nan)),
                        **measured.columns(),
                        "difference": measured.value - known,
                        "chance": mean_chance(pairs),
                        "random_weights": Measured.of([value for value, _ in random.values()], seed).value,
                        "documents": measured.documents,
                    }
                )
    return pd.DataFrame(rows)


def performance_tables(name: str, tested: Entries, classes: Sequence[str], seed: int) -> list[StudyTable]:
    """Return accuracy and F1 of the model, and precision, recall and F1 of every class."""
    import pandas as pd

    rows = []
    for name_of_class in classes:
        true, predicted = (
            np.array([str(entry[key]) == name_of_class for entry in tested]) for key in ("label", "predicted")
        )
        hits = int((true & predicted).sum())
        precision, recall = hits / max(1, int(predicted.sum())), hits / max(1, int(true.sum()))
        f1 = 2 * hits / max(1, int(predicted.sum() + true.sum()))
        rows.append(
            {
                "class": name_of_class,
                "precision": precision,
                "recall": recall,
                "f1": f1,
                "documents": int(true.sum()),
            }
        )
    by_class = pd.DataFrame(rows)
    columns = accuracy_columns(tested)
    after = {key: columns.pop(key) for key in ("learnt", "documents")}
    whole = {"model": name, **columns, "macro_f1": float(by_class["f1"].mean()), **after}
    return [
        StudyTable(
            "performance",
            "Performance of the classifier",
            pd.DataFrame([whole]),
            f"{CAPTION} macro f1: mean F1 of the classes.",
        ),
        StudyTable(
            "performance_classes",
            "Performance by class",
            by_class,
            "precision: share of the documents predicted as this class that are of it. recall: share of its documents "
            "that were predicted as it. f1: harmonic mean of both.",
        ),
    ]


def partner_table(entries: Entries) -> StudyTable:
    """Return the words most often attended and attending, by mean count per document."""
    import pandas as pd

    columns: dict[str, list[Any]] = {}
    for direction in ("attended", "attending"):
        total: defaultdict[str, float] = defaultdict(float)
        for entry in entries:
            for word, count in entry[direction]:
                total[word] += count / len(entries)
        best = sorted(total.items(), key=lambda pair: (-pair[1], pair[0]))[:SHOWN]
        best += [("", float("nan"))] * (SHOWN - len(best))
        columns |= {direction: [word for word, _ in best], f"{direction}_count": [count for _, count in best]}
    full = [entry["saturation"] for entry in entries if entry["saturation"] is not None]
    saturation = (
        f" The partners of a token in all layers and heads together are {100 * np.mean(full):.0f} % of the words that "
        "it may attend to; the higher this share, the more a count shows only how often a word occurs."
        if full
        else ""
    )
    return StudyTable(
        "partners",
        "Words most often attended and attending, over the data set",
        pd.DataFrame(columns),
        f"{COUNTED} Counts are summed over the instances of the word and averaged over documents.{saturation}",
    )
