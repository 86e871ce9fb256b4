"""MODEL_CARD.md, written from metrics.json and packages.toml so that no figure of accuracy is typed by hand.

What a person has to say, how often the test packages were read and what the shortcuts mean, is in notes.toml.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tools.builtin_model.packages import NEITHER, SIDES, SPLITS, Package

_SET_NAMES = {"held_out_packages": "held-out packages", "papers": "research papers"}
_NEUTRAL_NAMES = {
    "empty": "the empty text",
    "everyday": "everyday sentences",
    "other_packages": "held-out packages on other subjects",
}


def accuracy_table(test: Mapping[str, Any]) -> str:
    """Return the table of test readings."""
    rows = [
        "| documents | classifier | right | accuracy | Wilson | over packages | PL / AI | calibration error |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name, title in _SET_NAMES.items():
        for classifier, figures in test.get(name, {}).items():
            label = "TF-IDF" if classifier == "tf_idf" else f"this model, {int(classifier.split('_')[1]):,} tokens"
            intervals = [figures["wilson_95"], figures.get("package_bootstrap_95")]
            low_high = [f"{pair[0]:.3f}–{pair[1]:.3f}" if pair else "" for pair in intervals]
            sides = " / ".join(f"{figures['per_side'][side]:.3f}" for side in SIDES)
            error = figures.get("calibration_error")
            cells = [
                title,
                label,
                f"{figures['right']} of {figures['documents']}",
                f"**{figures['accuracy']:.3f}**",
                *low_high,
                sides,
                "" if error is None else f"{error:.3f}",
            ]
            rows.append(f"| {' | '.join(cells)} |")
    return "\n".join(rows)


def neutral_table(neither: Mapping[str, Any]) -> str:
    """Return the table of texts about neither subject."""
    rows = [
        "| texts | number | mean probability of A.I. | between 40 and 60 % | 10th–90th percentile |",
        "|---|---|---|---|---|",
    ]
    for name, title in _NEUTRAL_NAMES.items():
        figures = neither[name]
        low, high = figures["percentiles_10_90"]
        rows.append(
            f"| {title} | {figures['documents']} | {figures['mean']:.2f} | {figures['between_40_and_60']:.0%} "
            f"| {low:.2f}–{high:.2f} |"
        )
    return "\n".join(rows)


def package_table(packages: Sequence[Package]) -> str:
    """Return the table of packages, versions, licences and splits."""
    rows = ["| package | version | side | split | licence as stated |", "|---|---|---|---|---|"]
    order = {split: place for place, split in enumerate(SPLITS)}
    rows += [
        f"| {package.name} | {package.version} | {package.side} | {package.split} | {package.licence} |"
        for package in sorted(packages, key=lambda p: (p.side, order[p.split], p.name.lower()))
    ]
    return "\n".join(rows)


def write_card(folder: Path, packages: Sequence[Package]) -> None:
    """Write MODEL_CARD.md next to the weights."""
    metrics = json.loads((folder / "metrics.json").read_text(encoding="utf-8"))
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    settings = metrics["settings"]
    counts = {
        side: [sum((p.side, p.split) == (side, split) for p in packages) for split in SPLITS]
        for side in (*SIDES, NEITHER)
    }
    sentences = ["  | sentence | subject | probability given to it |", "  |---|---|---|"]
    sentences += [
        f"  | {row['sentence']} | {row['side']} | {row['probability_of_its_side']:.2f} |"
        for row in metrics["sentences"]
    ]
    written = tomllib.loads(Path(__file__).with_name("notes.toml").read_text(encoding="utf-8"))
    template = Path(__file__).with_name("card_template.md").read_text(encoding="utf-8")
    text = template.format(
        layers=config["num_hidden_layers"],
        heads=config["num_attention_heads"],
        width=config["hidden_size"],
        window=config["attention_window"][0],
        half=config["attention_window"][0] // 2,
        parameters=metrics["parameters"],
        vocabulary=config["vocab_size"],
        package_count=len(packages),
        split_counts="; ".join(
            f"{side} " + ", ".join(f"{n} {split}" for n, split in zip(counts[side], SPLITS, strict=True))
            for side in (*SIDES, NEITHER)
        ),
        accuracy=accuracy_table(metrics["test"]),
        neutral=neutral_table(metrics["test"]["neither"]),
        temperature=metrics["validation"]["temperature"],
        readings=written["readings"].strip(),
        sentences="\n".join(sentences),
        words_pl=", ".join(metrics["leaning_words"]["PL"]),
        words_ai=", ".join(metrics["leaning_words"]["AI"]),
        shortcuts=written["shortcuts"].strip(),
        packages=package_table(packages),
        **settings,
    )
    (folder / "MODEL_CARD.md").write_text(text, encoding="utf-8")
