"""What a study's page says in words: the summary of its verdicts, each finding, what differs from the paper."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from sightline.metrics.statistics import FEWEST_DOCUMENTS
from sightline.view.words.phrases import count, format_number
from sightline_studies.study import in_words, minus_control

if TYPE_CHECKING:
    from sightline_studies.study import Difference, Finding, StudyResult

MEANINGS = {
    "confirmed": "the measured interval supports the claim, and so does the difference to the control, if there is one",
    "contradicted": "the measured interval speaks against the claim, in at least one of these models and data sets",
    "undecided": "the documents are too few, or the effect or its difference to the control too small, to tell",
    "artefact": "the effect is there, and as large where its cause is absent: it comes from the measure or the data",
    "not measured": "the data or the model it needs were not given, or the model has not learnt its task",
}
"""Verdict -> what it says."""
CLAIMS = (
    "measured: mean over documents with its 95 % interval, of the number that the rule names. difference: measured "
    "minus published. control: the same number where the effect cannot be there, such as random weights. holds in: "
    "for claims about several models or comparisons, in how many the claim is confirmed; the number is from the one "
    "that supports it least."
)
"""Caption of the table of claims."""
FEW_DOCUMENTS = 16
FEW = (
    f"With fewer than {FEW_DOCUMENTS} documents the intervals are wide, and with fewer than {FEWEST_DOCUMENTS} "
    "there are none: most claims stay undecided."
)
TRIAL = "This is a trial on a handful of documents; its verdicts mean nothing."
"""For studies of size tiny."""


def opening_sentences(result: StudyResult) -> tuple[str, ...]:
    """Return the paper, the question and how the verdicts are divided."""
    verdicts = Counter(finding.verdict for finding in result.outcome.findings)
    divided = ", ".join(f"{number} {verdict}" for verdict, number in verdicts.items())
    sentences = [f"{result.study.paper}.", result.study.question, f"{count(verdicts.total(), 'claim')}: {divided}."]
    return (*sentences, *warnings(result))


def warnings(result: StudyResult) -> list[str]:
    """Return a sentence if too few documents were measured for a verdict."""
    if result.size == "tiny":
        return [TRIAL]
    counts = [finding.measured.documents for finding in result.outcome.findings if finding.measured is not None]
    return [FEW] if counts and min(counts) < FEW_DOCUMENTS else []


def finding_sentence(finding: Finding) -> str:
    """Return verdict, statement of the paper, evidence, where the published number is from, and rule."""
    sentences = [f"{finding.verdict.capitalize()}.", finding.claim.sentence, finding.evidence]
    measured, control = finding.measured, finding.control
    if measured is not None and control is not None:
        sentences.append(f"Measured minus control: {in_words(minus_control(measured, control))}.")
    if (published := finding.published) is not None:
        sentences.append(f"Published: {format_number(published.value, 'g')} ({published.where}).")
    return " ".join([*sentences, f"Rule: {finding.claim.rule}"])


def difference_sentence(difference: Difference) -> str:
    """Return what the paper has, what this run has, and why."""
    return f"Paper: {difference.paper}. Here: {difference.here}. Reason: {difference.why}."
