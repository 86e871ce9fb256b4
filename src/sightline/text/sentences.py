"""Where the sentences and paragraphs of a text begin, found in the original string without a tokenizer.

- A sentence ends after one of . ! ? … and the quotes and brackets that close it, if white space follows and the next
  word does not begin in lower case ("e.g. this"). If a line ends there, the next word may begin in lower case. After
  the full-width signs 。！？ no white space is needed.
- The full stop of an abbreviation ends no sentence where the sentence goes on: `_ABBREVIATED` lists the cases, for
  English and for the references of German law.
- An item of a list begins a sentence. That is a line that begins with a number, a bullet or a clause marker ("1. ",
  "2) ", "• ", "(a) ", "(iv) ", "b) "), unless the line before ends in what the marker belongs to ("clause 4⏎(a) of");
  a line that begins with "1.2 " or "A. " after the end of a clause; and a number before a tab. Its number is part of
  it: in "1.2. Fees", "## 1. Definitions" and "Section 3. Price" the first full stop ends no sentence. Clause markers
  inside a line do not cut a sentence.
- A heading right above its text is a unit of its own: a line after the end of a sentence that begins with # or a
  number ("2.1 Data", "Article 4."), or a line of capitals above a line with other letters.
- A blank line ends a sentence and a paragraph.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import regex  # type: ignore[import-untyped]

Integers = npt.NDArray[np.int64]

# Runs of white space are matched as a whole (possessively): a text may end in thousands of line breaks.
_GAP = r"[^\S\n]*+(?:\n[^\S\n]*+)?+"
"""White space with at most one line break, so that no abbreviation reaches across a blank line."""
_CLOSING = r"""[\p{Pe}\p{Pf}"']"""
_LABEL = (
    r"(?i:articles?|sections?|clauses?|sub-?clauses?|sub-?sections?|paragraphs?|sub-?paragraphs?|parts?|chapters?|rules?"
    r"|items?|schedules?|annex(?:es)?|appendix|appendices|exhibits?|recitals?)"
)
"""What a number or letter of a contract belongs to: "Section 2", "Exhibit A"."""
_NUMBER = r"(?:\p{Nd}{1,3}(?:\.\p{Nd}{1,3}){0,4}|[IVXLC]{1,5}|\p{Lu})"

_SENTENCE_END = regex.compile(
    rf"""(?V1x)
      [.!?\u2026]{_CLOSING}*+\s++(?!\p{{Ll}})
    | [.!?\u2026]{_CLOSING}*+[^\S\n]*+\n\s*+
    | [\u3002\uFF01\uFF1F][\p{{Pe}}\p{{Pf}}]*+\s*+
    """
)
_PARAGRAPH_END = regex.compile(r"\n[^\S\n]*+\n\s*+")

_WITHIN = (
    r"e\.g|i\.e|cf|viz|vs?|approx|ca|incl|excl|resp"
    r"|Mr|Mrs|Ms|Mx|Messrs|Dr|Prof|Hon|Rev|Gen|Col|Capt|Lt|Sgt|Sen|Gov"
)
_BEFORE_NUMBER = (
    r"nos?|nr|arts?|abs|secs?|sect|cls?|paras?|ziff|chs?|chap|vols?|figs?|tabs?|eqs?|pp?|rn|reg|ref|tel|bldg|ste|apt"
    r"|jan|feb|mar|apr|jun|jul|aug|sept?|oct|nov|dec"
)
_COMPANY = r"Ltd|Inc|Corp|Co|Bros|Pty|Plc|LLC|LLP|LP|Intl|Cie|Mfg"
_STARTERS = (
    r"The|This|That|These|Those|There|It|Its|In|If|He|She|We|You|They|Their|Our|Your|An?|Each|Every|Any|All|Such|No"
    r"|Neither|Either|Both|For|On|At|By|To|As|When|Where|Upon|Unless|Until|Except|However|Notwithstanding|Subject|With"
    r"|Without|After|Before|During|But|And|Or|So|Then|Nothing|Here|What|Who|Why|How"
)
"""Words that begin sentences, but hardly ever go on with a name ("the U.S. Government", "J. Smith")."""
_LETTERED = rf"(?:{_LABEL}|Class|Series|Option|Plan|Group|Type|Grade|Table|Figure)"
"""Nouns that a letter distinguishes, where the letter is not an initial: "Exhibit A"."""
_REFERENCE = rf"(?:(?<=\S[^\S\n]){_LABEL}(?:[^\S\n]{_NUMBER})?|\b(?:{_BEFORE_NUMBER})\.|\u00A7)[^\S\n]?"
"""What a number at the beginning of the next line belongs to; a line that begins with a label is a heading."""
_MARKER = r"(?:\(?(?:(\p{L})\1?|[ivxl]{2,5}|[IVXL]{2,5})\)|\(\p{Nd}{1,2}\))"

_ABBREVIATED = regex.compile(
    rf"""(?V1x)
      # What comes next is named: "e.g. Acme", "Smith v. Jones", "Dr. Who".
      (?<=(?<![\w.])(?:{_WITHIN})\.{_GAP})
      # Numbers: "No. 5", "Reg. No. 5", "Art. 3", "Sec. IV", "Jan. 2021", "Ex. A", "lit. a".
    | (?<=(?<![\w.])(?i:{_BEFORE_NUMBER}|(?-i:S))\.{_GAP})(?=[(\[\u00A7]?\p{{Nd}}|(?:[IVXLC]{{2,}}|[VX])\b|N[or]\.)
    | (?<=(?<![\w.])(?:Exh?|Sched|lit)\.{_GAP})(?=\p{{L}}\b|\p{{Nd}})
      # Companies: "Acme Ltd. (the Supplier)", "Delta Co. Inc."; before another capital the sentence ends.
    | (?<=(?<![\w.])(?:{_COMPANY}|Jr|Sr|al|etc)\.{_GAP})(?=[(\[&\p{{Pd}}\p{{Ll}}]|(?:{_COMPANY})\b)
      # Points between letters: "the U.S. Government", "5 p.m. (CET)".
    | (?<=(?<![\w.])(?:\p{{L}}\.){{2,5}}{_GAP})(?=[(\[&\p{{Pd}}])
    | (?<=(?<![\w.])(?:\p{{Lu}}\.){{2,5}}{_GAP})(?=[\p{{Nd}}\p{{Ll}}]|(?!(?:{_STARTERS})\b)\p{{Lu}})
      # Initials: "John F. Kennedy", "signed by J. Smith", but not "see Exhibit A. Payment is due".
    | (?<=(?:\b\p{{Lu}}\.|\b(?:by|and|with|from|to|of|for|between)
        |(?<!\b{_LETTERED})(?<=\b\p{{Lu}}[\p{{L}}\-']{{1,40}}))
      [^\S\n][\p{{Lu}}--I]\.{_GAP})(?!(?:{_STARTERS})\b)(?=\p{{Lu}})
    """
)
"""Matches the empty string where the next word goes on with the sentence of an abbreviation."""
_ITEM_NUMBER = regex.compile(
    rf"""(?V1xm)(?<=
      ^[[\#*_>\s]--\n]*(?:
          \p{{Nd}}{{1,3}}(?:\.\p{{Nd}}{{1,3}}){{0,4}}
        | (?<!{_REFERENCE}\n[^\S\n]*)(?:[IVXLC]{{1,5}}|\p{{L}})
        | (?<=(?:\A|[.:;!?\u2026]{_CLOSING}?\s{{1,3}}|\n[^\S\n]?\n|[\#*])[^\S\n]*){_LABEL}[^\S\n]{_NUMBER}
      )\.[*_]*[^\S\n]+
    | \s\p{{Nd}}{{1,3}}\.\t[^\S\n]*
    )"""
)
"""Matches the empty string after the number of an item or a heading: its full stop ends no sentence."""
_ITEM_START = regex.compile(
    rf"""(?V1x)
      \n[^\S\n]*+(?=(?:\p{{Nd}}{{1,3}}[.)]|[•*])[^\S\n]++\S)
    | \s(?=\p{{Nd}}{{1,3}}\.\t)
    | \n(?<!{_REFERENCE}\n)[^\S\n]*+(?={_MARKER}[^\S\n]++(?!(?:of|and|or|to|through|above|below|hereof|thereof)\b)\S)
    | \n(?<=(?:[;:,]{_CLOSING}?|\b(?:and|or))[^\S\n]?\n)[^\S\n]*+
      (?=(?:\p{{Nd}}{{1,3}}(?:\.\p{{Nd}}{{1,3}}){{1,4}}\.?|\p{{Lu}}\.)[^\S\n]++[\p{{Ps}}\p{{Pi}}"']?\p{{Lu}})
    """
)

_HEADING = regex.compile(
    rf"""(?V1x)
      \#{{1,6}}\s+\S.*
    | (?:\p{{Nd}}{{1,2}}(?:\.\p{{Nd}}{{1,2}}){{0,3}}\.?|{_LABEL}\s{_NUMBER}[.:]?\s[\p{{Pd}}]?)
      \s*+(?<=\s)(?!.*\b(?:shall|means)\b)\p{{Lu}}.*[^.!?,;:\u2026]
      (?<!\b(?:an?|and|any|by|for|from|in|of|on|or|such|that|the|this|to|under|which|with))
    | {_LABEL}\s{_NUMBER}[.:]?
    | (?P<capitals>[^\p{{Ll}}]*\p{{Lu}}{{2}}[^\p{{Ll}}]*(?<![.!?,;\u2026]))
    """
)
_LONGEST_HEADING = 100
"""Characters of a line."""
_LINE_END = regex.compile(rf"(?V1)[.!?:\u2026\u3002\uFF01\uFF1F]{_CLOSING}*$")


def sentence_starts(text: str) -> Integers:
    """Return the characters at which a sentence begins, ascending, the first always 0."""
    starts = {
        place
        for place in _ends(_SENTENCE_END, text)
        if not (_ABBREVIATED.match(text, place) or _ITEM_NUMBER.match(text, place))
    }
    starts |= {0, *_ends(_PARAGRAPH_END, text), *_ends(_ITEM_START, text), *_heading_ends(text)}
    return np.array(sorted(starts), dtype=np.int64)


def paragraph_starts(text: str) -> Integers:
    """Return the characters at which a paragraph begins, ascending, the first always 0."""
    return np.array([0, *_ends(_PARAGRAPH_END, text)], dtype=np.int64)


def _ends(pattern: regex.Pattern[str], text: str) -> Iterator[int]:
    """Yield where matches end, unless nothing follows."""
    return (match.end() for match in pattern.finditer(text) if match.end() < len(text))


def _heading_ends(text: str) -> Iterator[int]:
    """Yield where the text right below a heading begins."""
    place, after_end = 0, True
    heading: regex.Match[str] | None = None
    for line in text.split("\n"):
        written = line.strip()
        mixed = any(character.islower() for character in written)
        if heading is not None and written and not written[0].islower() and (mixed or heading["capitals"] is None):
            yield place + line.index(written[0])
        may_head = after_end and len(written) <= _LONGEST_HEADING
        heading = _HEADING.fullmatch(written) if may_head else None
        after_end = not written or heading is not None or _LINE_END.search(written[-10:]) is not None
        place += len(line) + 1
