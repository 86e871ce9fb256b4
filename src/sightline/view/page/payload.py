"""The page's data: one JSON object and named arrays, the same for report, notebook and server.

docs/guides/page-data.md is the contract, `web/src/payload.ts` its other side. Nothing is computed here beyond what an
explanation or an `Inside` contains: scores are passed unchanged, weights are stored in fewer bits.
"""

from __future__ import annotations

import json
import textwrap
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sightline.analysis.filters import TokenFilter
from sightline.results.check import REASONS
from sightline.text.units import LEVELS, Level, Unit, units_of
from sightline.view import colours
from sightline.view.page.graphics import (
    EDGE,
    encode_maps,
    fine_maps,
    heads_by_importance,
    pool_maps,
)
from sightline.view.words.headline import headline_parts
from sightline.view.words.phrases import describe_target, is_class, plain_summary, predicted_value
from sightline.view.words.sentences import LARGEST_LOSS, further_sentences, notices
from sightline.view.words.verdict import describe_verdict

if TYPE_CHECKING:
    from sightline.results.explanation import Explanation
    from sightline.results.inside import Inside, StraightWindows
    from sightline.results.report import Report
    from sightline.text import Encoding

FORMAT, VERSION = "sightline-page", 1
SHOWN_CLASSES = 6
MAX_UNREAD = 10_000
"""Characters beyond the last token that the page shows; the rest of a long text is only counted."""
LONGEST_TITLE = 70
SPECIAL, STOP_WORD, PUNCTUATION, ARTEFACT = 1, 2, 4, 8
"""Bits of `tokens.flags`."""
DIRECTIONS = ("attended", "attending")


@dataclass(frozen=True, eq=False)
class Payload:
    """The JSON object, the arrays it lists, and which of them may be left out."""

    json: dict[str, Any]
    arrays: dict[str, NDArray[Any]] = field(default_factory=dict)
    """As they are sent: little-endian, C order, in the type that `json["arrays"]` names."""
    optional: list[tuple[str, ...]] = field(default_factory=list)
    """Groups of arrays that are useful only together, the most useful group first."""
    better: dict[str, str] = field(default_factory=dict)
    """Array -> the more detailed array that makes it unnecessary."""

    def without(self, names: set[str]) -> Payload:
        """Return the same payload with some arrays left out."""
        arrays = {name: array for name, array in self.arrays.items() if name not in names}
        listed = {name: info for name, info in self.json["arrays"].items() if name not in names}
        groups = [group for group in self.optional if not names.intersection(group)]
        return Payload({**self.json, "arrays": listed}, arrays, groups, self.better)

    def add(self, name: str, values: NDArray[Any], dtype: str, *, scaled: bool = False) -> None:
        """List an array; `scaled` ones are divided by their greatest magnitude, so that float16 can hold them."""
        info: dict[str, Any] = {"dtype": dtype, "shape": list(values.shape)}
        if scaled:
            scale = float(np.abs(values).max(initial=0.0)) or 1.0
            info["scale"] = scale
            values = values / scale
        self.json["arrays"][name] = info
        self.arrays[name] = np.ascontiguousarray(values, dtype=np.dtype(dtype).newbyteorder("<"))

    def add_optional(self, arrays: dict[str, tuple[NDArray[Any], str]], *, scaled: bool = False) -> None:
        """List arrays that may be left out, all together."""
        for name, (values, dtype) in arrays.items():
            self.add(name, values, dtype, scaled=scaled)
        self.optional.append(tuple(arrays))


def build(report: Report, *, title: str | None = None) -> Payload:
    """Return the payload of a report; checked explanations include what was measured."""
    entries, inside, encoding = report.entries(), report.inside, report.encoding
    targets = _target_names(list(report))
    titles, summaries, formulas = report.titles, report.summaries, report.formulas
    payload = Payload(
        {
            "format": FORMAT,
            "version": VERSION,
            "title": title or _title(encoding),
            "document": {**_document(encoding, report.first), **_windows(report.first)},
            "explanations": [
                {
                    "method": method,
                    "title": titles[method],
                    "summary": plain_summary(explanation.method, summaries[method]),
                    "formula": formulas[method],
                    **_explanation(explanation, target),
                }
                for (method, _, explanation), target in zip(entries, targets, strict=True)
            ],
            "made": _origin(report),
            "inside": None if inside is None else _inside_facts(inside),
            "consensus": _consensus(report),
            "colours": {"levels": colours.LEVELS, "gamma": colours.GAMMA, "clipped": colours.CLIPPED_SHARE},
            "arrays": {},
        }
    )
    for level in LEVELS:
        _add_units(payload, report.first, level)
    payload.add("tokens.flags", token_flags(encoding) | _artefact_flags(report), "uint8")
    for number, explanation in enumerate(report):
        payload.add(f"scores.{number}", explanation.scores, "float32")
    if inside is not None:
        _add_overview(payload, inside)
    for number, explanation in enumerate(report):
        if explanation.layers is not None:
            payload.add_optional({f"layers.{number}": (explanation.layers, "float16")}, scaled=True)
    if inside is not None:
        _add_details(payload, inside)
    return payload


def token_flags(encoding: Encoding) -> NDArray[np.uint8]:
    """Return bits (n,) that mark tokens as specials, parts of (English) stop words, or punctuation."""
    stop_words = TokenFilter(stop_words="en", punctuation=False, specials=False, meaningful=True)
    punctuation = TokenFilter(stop_words=None, punctuation=True, specials=False)
    flags = np.zeros(len(encoding), dtype=np.uint8)
    flags[encoding.special] |= SPECIAL
    flags[~stop_words.keep_tokens(encoding)] |= STOP_WORD
    flags[~punctuation.keep_tokens(encoding)] |= PUNCTUATION
    return flags


def _artefact_flags(report: Report) -> NDArray[np.uint8]:
    """Bits (n,) for tokens that the check of any explanation found to be artefacts."""
    flags = np.zeros(len(report.encoding), dtype=np.uint8)
    for explanation in report:
        flags[list(_artefacts(explanation))] |= ARTEFACT
    return flags


def _artefacts(explanation: Explanation) -> dict[int, str]:
    """Token positions of words whose score belongs to their position -> what that means; specials have their flag."""
    exchange = explanation.exchange
    return {
        position: REASONS[artefact.reason]
        for artefact in (exchange.artefacts if exchange is not None else ())
        for position in artefact.tokens
    }


# The document ---------------------------------------------------------------------------------------------------------


def _document(encoding: Encoding, explanation: Explanation) -> dict[str, Any]:
    names = ("Question", "Context") if explanation.target.span is not None else ("Text", "Second text")
    segments = []
    for number, text in enumerate(encoding.segment_texts):
        ends = encoding.offsets[(encoding.segments == number) & ~encoding.special, 1]
        read = int(ends.max(initial=0)) if encoding.dropped else len(text)
        stored = text[: read + MAX_UNREAD]
        if len(stored) < len(text):
            stored += f" … ({len(text) - len(stored):,} more characters, which the model did not read)"
        segments.append({"name": names[number], "text": stored, "read": int(utf16_places(stored)[read])})
    specials = [[int(i), encoding.tokens[i]] for i in np.flatnonzero(encoding.special)]
    return {"tokens": len(encoding), "dropped": encoding.dropped, "segments": segments, "specials": specials}


def _windows(explanation: Explanation) -> dict[str, Any]:
    """Where the windows of a long document begin and end, how much each counts, and what it predicts by itself."""
    extras, encoding = explanation.extras, explanation.encoding
    if encoding.windows is None or "window_spans" not in extras:
        return {}
    probabilities = extras.get("window_probabilities")
    windows = []
    for number, (start, end) in enumerate(extras["window_spans"].tolist()):
        segment = int(encoding.segments[start:end].max(initial=0))
        places = utf16_places(encoding.segment_texts[segment])
        inside = encoding.offsets[start:end][encoding.segments[start:end] == segment]
        window: dict[str, Any] = {
            "segment": segment,
            "start": int(places[inside[0, 0]]),
            "end": int(places[inside[-1, 1]]),
            "share": float(extras["window_shares"][number]),
        }
        if probabilities is not None and len(explanation.prediction.labels) == probabilities.shape[1]:
            best = int(probabilities[number].argmax())
            window["label"] = explanation.prediction.labels[best]
            window["probability"] = float(probabilities[number, best])
        windows.append(window)
    return {"windows": windows, "aggregation": encoding.windows.aggregation}


def _add_units(payload: Payload, explanation: Explanation, level: Level) -> None:
    """Start, end and segment (U,) of the units of one level, and the unit (n,) of every token."""
    units = list(units_of(explanation.encoding, level).drawable(explanation.encoding))
    if level in ("token", "word"):
        units = _with_specials(units, explanation.encoding)
    places = [utf16_places(text) for text in explanation.encoding.segment_texts]
    of_token = np.full(len(explanation.encoding), -1, dtype=np.int32)
    for number, unit in enumerate(units):
        of_token[list(unit.tokens)] = number
    payload.add(f"units.{level}.start", np.array([places[u.segment][u.start] for u in units], dtype=np.int64), "int32")
    payload.add(f"units.{level}.end", np.array([places[u.segment][u.end] for u in units], dtype=np.int64), "int32")
    payload.add(f"units.{level}.segment", np.array([u.segment for u in units], dtype=np.int64), "uint8")
    payload.add(f"units.{level}.of", of_token, "int32")


def _with_specials(units: list[Unit], encoding: Encoding) -> list[Unit]:
    """Insert every special after the unit of the preceding token, as a unit without characters."""
    owner = {token: number for number, unit in enumerate(units) for token in unit.tokens}
    merged: list[list[Unit]] = [[] for _ in range(len(units) + 1)]
    behind, segment, place = 0, 0, 0
    for token in range(len(encoding)):
        if token in owner:
            behind = owner[token] + 1
            segment, place = units[behind - 1].segment, units[behind - 1].end
        elif encoding.special[token]:
            merged[behind].append(Unit("", segment, place, place, (token,)))
    result = merged[0]
    for number, unit in enumerate(units):
        result += [unit, *merged[number + 1]]
    return result


def utf16_places(text: str) -> NDArray[np.int64]:
    """Return for every character place 0 … len(text) how many UTF-16 units come before it."""
    characters = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype="<u4")
    return np.concatenate(([0], np.cumsum(1 + (characters > 0xFFFF))))


def _title(encoding: Encoding) -> str:
    """Return the first line of the document that is not blank, shortened."""
    line = next((line.strip() for line in encoding.text.splitlines() if line.strip()), "Explanation")
    shortened = textwrap.shorten(line, LONGEST_TITLE, placeholder=" …")
    # A first "word" longer than a title (a web address, a sentence in Chinese) is cut where it is.
    return line[:LONGEST_TITLE] if shortened == "…" else shortened


# The explanations -----------------------------------------------------------------------------------------------------


def _explanation(explanation: Explanation, target: str) -> dict[str, Any]:
    prediction = explanation.prediction
    ranked = sorted(zip(prediction.labels, prediction.probabilities.tolist(), strict=True), key=lambda pair: -pair[1])
    return {
        "signed": explanation.signed,
        "layer_kind": explanation.layer_kind,
        "target": {
            "name": target,
            "label": _label(explanation),
            "description": f"the {describe_target(explanation)}{_quantity_note(explanation)}",
            "is_class": is_class(explanation),
        },
        "prediction": {
            "label": prediction.label,
            "probability": prediction.probability,
            "value": predicted_value(explanation),
            "classes": ranked[:SHOWN_CLASSES],
        },
        "headline": [
            {"text": part.text} if part.token is None else {"text": part.text, "token": part.token}
            for part in headline_parts(explanation)
        ],
        "artefacts": list(_artefacts(explanation).items()),
        "notices": notices(explanation),
        "verdict": {**explanation.verdict.to_dict(), **describe_verdict(explanation).to_dict()},
        "checks": further_sentences(explanation),
        "order_only": float(explanation.checks.get("conservation_error", 0.0)) > LARGEST_LOSS,
        "check": None if explanation.check is None else explanation.check.to_dict(),
        "facts": _facts(explanation),
    }


def _quantity_note(explanation: Explanation) -> str:
    """Return how log-odds or a logit relate to the probability that people read."""
    target = explanation.target
    if target.contrast_label is not None or predicted_value(explanation) is not None:
        return ""
    return {"log_odds": " (the logarithm of p/(1 − p))", "logit": " (the score behind the probability)"}.get(
        target.quantity, ""
    )


def _origin(report: Report) -> dict[str, str]:
    """Model, version and date of a page, which a printed copy shows."""
    known = report.provenance
    facts = {"model": str(known.get("model", "")), "version": str(known.get("sightline", version("sightline-xai")))}
    return {**facts, "date": datetime.now(UTC).date().isoformat()}


def _label(explanation: Explanation) -> str:
    target = explanation.target
    return f"“{target.label}”" + (f" over “{target.contrast_label}”" if target.contrast_label is not None else "")


def _target_names(explanations: Sequence[Explanation]) -> list[str]:
    """Return the name of each target in the switch: its class, or its description where classes are not unique."""
    descriptions = {describe_target(explanation): _label(explanation) for explanation in explanations}
    labels = Counter(descriptions.values())
    return [
        label if labels[label := _label(explanation)] == 1 else describe_target(explanation)
        for explanation in explanations
    ]


def _facts(explanation: Explanation) -> list[tuple[str, str]]:
    """Settings and provenance as name and value, nested values as JSON."""
    facts = {"method": explanation.method, "tokens": f"{len(explanation.encoding):,}"}
    for values in (explanation.options, explanation.provenance):
        for name, value in values.items():
            facts[name.replace("_", " ")] = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return list(facts.items())


def _consensus(report: Report) -> dict[str, Any] | None:
    """Return how many words each method names, out of how many; which ones agree follows from the scores."""
    consensus = report.consensus
    return None if consensus is None else {"k": consensus.k, "words": consensus.document_words}


# The inside of the model ----------------------------------------------------------------------------------------------


def _inside_facts(inside: Inside) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "layers": inside.layers,
        "heads": inside.heads,
        "k": inside.k,
        "thumbnail": inside.thumbnails.shape[-1],
        "image": pool_maps(inside.images[0, 0], inside.tokens, EDGE).shape[-1],
    }
    return facts if inside.windows is None else {**facts, "reach": inside.windows.reach.tolist()}


def _add_overview(payload: Payload, inside: Inside) -> None:
    """Add the small data that nearly every view shows: totals, overall relations, thumbnails, importance."""
    if inside.importance is not None:
        payload.add_optional({"importance": (inside.importance, "float32")})
    _add_relations(payload, inside, "all")
    payload.add_optional({"received": (inside.received.mean(axis=1), "float16")}, scaled=True)
    if inside.windows is not None:
        coded, peak = encode_maps(inside.windows.thumbnails)
        payload.add_optional({"windows": (coded, "uint8"), "windows.peak": (peak, "float32")})
    coded, peak = encode_maps(inside.thumbnails)
    payload.add_optional({"thumbnails": (coded, "uint8"), "thumbnails.peak": (peak, "float32")})


def _add_details(payload: Payload, inside: Inside) -> None:
    """Relations of layers, larger maps, relations of heads: as many as there is room for.

    Where the windows can be straightened, maps of all pairs come last: they are a thin diagonal.
    """
    names = list(inside.relations)
    for name in names:
        if name.startswith("layer-"):
            _add_relations(payload, inside, name)
    if inside.windows is None:
        _add_maps(payload, inside)
    else:
        _add_windows(payload, inside, inside.windows)
    for name in names:
        if name.startswith("head-"):
            _add_relations(payload, inside, name)
    payload.add_optional({"received.heads": (inside.received, "float16")}, scaled=True)
    if inside.windows is not None:
        _add_maps(payload, inside)


def _add_windows(payload: Payload, inside: Inside, windows: StraightWindows) -> None:
    """The straightened windows of the heads, the most important first."""
    coded, peak = encode_maps(windows.maps)
    payload.add_optional({"window.peaks": (peak, "float32")})
    for layer, head in heads_by_importance(inside):
        payload.add_optional({f"window.{layer}.{head}": (coded[layer, head], "uint8")})


def _add_maps(payload: Payload, inside: Inside) -> None:
    """Larger maps of the heads, the most important first; the finest for as many as `fine_maps` gives."""
    maps = np.stack([pool_maps(layer, inside.tokens, EDGE) for layer in inside.images])
    if maps.shape != inside.images.shape:
        for layer, head, coded, peak in fine_maps(inside):
            name = f"fine.{layer}.{head}"
            payload.add_optional({name: (coded, "uint8"), f"{name}.peak": (peak, "float32")})
            payload.better[f"image.{layer}.{head}"] = name
    coded, peak = encode_maps(maps)
    payload.add_optional({"images.peak": (peak, "float32")})
    for layer, head in heads_by_importance(inside):
        payload.add_optional({f"image.{layer}.{head}": (coded[layer, head], "uint8")})


def _add_relations(payload: Payload, inside: Inside, name: str) -> None:
    kind = "uint16" if inside.tokens < 65_535 else "int32"
    arrays: dict[str, tuple[NDArray[Any], str]] = {}
    for direction, lists in zip(DIRECTIONS, inside.relations[name], strict=True):
        partners = np.where(lists.indices < 0, inside.tokens, lists.indices)
        arrays[f"relations.{name}.{direction}.partners"] = (partners, kind)
        arrays[f"relations.{name}.{direction}.weights"] = (lists.values, "float16")
    payload.add_optional(arrays)
