"""What a study's page says in words: the summary of its verdicts, each finding, what differs from the paper."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from sightline.view.words.numbers import count, format_number

if TYPE_CHECKING:
    from sightline.studies.study import Difference, Finding, StudyResult

MEANINGS = {
    "confirmed": "the measured interval supports the claim, and no control shows the same effect",
    "not confirmed": "the measured interval does not support the claim, in at least one of these models and data sets",
    "artefact": "the effect is there, and as large where its cause is absent: it comes from the measure or the data",
    "not measured": "the data or the model it needs were not given, or the model has not learnt its task",
}
"""Verdict -> what it says."""
CLAIMS = (
    "measured: mean over documents with its 95 % interval, of the number that the rule names. difference: measured "
    "minus published. control: the same number where the effect cannot be there, such as random weights. holds in: "
    "for claims about several models or comparisons, in how many the interval supports the claim; the number is from "
    "the one that supports it least."
)
"""Caption of the table of claims."""
UNCERTAIN_CONTROL = (
    "The interval of the control reaches that of the measured number: it is not excluded that the effect is as large "
    "where its cause is absent."
)
FEW_DOCUMENTS = 16
"""Measured with normal effects around 0: 10 % are confirmed with 4 documents, 5 % with 8 to 12, 4 % with 16."""
FEW = (
    f"Verdicts from fewer than {FEW_DOCUMENTS} documents mean little: with 4 documents, 10 % of the effects that do "
    "not exist are confirmed, with 8 documents 5 %, instead of 2.5 %."
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
    if finding.verdict == "confirmed" and measured and control and control.documents and control.high >= measured.low:
        sentences.append(UNCERTAIN_CONTROL)
    if (published := finding.published) is not None:
        sentences.append(f"Published: {format_number(published.value, 'g')} ({published.where}).")
    return " ".join([*sentences, f"Rule: {finding.claim.rule}"])


def difference_sentence(difference: Difference) -> str:
    """Return what the paper has, what this run has, and why."""
    return f"Paper: {difference.paper}. Here: {difference.here}. Reason: {difference.why}."
