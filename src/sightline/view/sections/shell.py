"""The index page of an inspection: sections with pictures, tables and sentences, in one file without scripts.

Pictures are in `figures/` beside the page, tables for other programs in `tables/`. Every string is escaped, and the
content security policy allows the page's own style by its hash, pictures from its own folder, and nothing else.
"""

from __future__ import annotations

import base64
import hashlib
import html
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from sightline.view import colours
from sightline.view.frames import first_rows, to_html
from sightline.view.sections.page_parts import ColouredText, Links, Part, Picture, Section, Table, Terms, Texts
from sightline.view.words.terminal import printable

if TYPE_CHECKING:
    import pandas as pd

SHOWN_ROWS = 20
"""Rows of a table that are visible at once; the others unfold."""
MOST_ROWS = 2000
"""Rows of one table on the page, so that browsers stay responsive; the CSV file has all of them."""
LONGEST_TITLE = 90
GENERATOR = '<meta name="generator" content="Sightline">'
"""Marks pages that Sightline wrote."""

# Firefox does not match file: URLs with 'self'.
_POLICY = "default-src 'none'; img-src 'self' file:; style-src {style}; base-uri 'none'; form-action 'none'"

_STYLE = """
:root{color-scheme:light dark;--quiet:#5f646b;--line:#e3e0d8;--panel:#f5f3ee;--accent:#1f5f9e;--shade:#c9c5ba;LIGHT}
@media(prefers-color-scheme:dark){:root{--quiet:#a3a7ad;--line:#2d3138;--panel:#1d2025;--accent:#8bbcf0;--shade:#4a505a;DARK}}
*{box-sizing:border-box}
body{margin:0;background:var(--background);color:var(--ink);font:15px/1.55 system-ui,-apple-system,"Segoe UI",
Roboto,"Noto Sans",sans-serif;display:grid;grid-template-columns:15rem minmax(0,1fr)}
a{color:var(--accent)}
:focus-visible{outline:2px solid var(--accent);outline-offset:2px}
nav{position:sticky;top:0;align-self:start;height:100vh;overflow-y:auto;padding:1.6rem 1.2rem;
background:var(--panel);border-inline-end:1px solid var(--line)}
nav ol{list-style:none;margin:1rem 0 0;padding:0}
nav li{margin:.35rem 0}
nav a{text-decoration:none}
nav a:hover{text-decoration:underline}
.brand{margin:0;font-size:.8rem;letter-spacing:.14em;text-transform:uppercase;color:var(--accent);font-weight:600}
main{padding:1.4rem clamp(1rem,4vw,3rem) 6rem;max-width:72rem;min-width:0}
h1{margin:.2rem 0 .6rem;font-size:1.6rem;line-height:1.25;overflow-wrap:anywhere}
h2{margin:2.8rem 0 .5rem;padding-top:.8rem;border-top:1px solid var(--line);font-size:1.3rem;scroll-margin-top:.5rem}
h3{margin:0 0 .2rem;font-size:1rem}
h3.apart{margin-top:1.8rem}
p{margin:.35rem 0;max-width:48rem}
.quiet{color:var(--quiet);font-size:.9rem}
figure{margin:1.4rem 0}
figure img{display:block;max-width:100%;height:auto;background:#fff;border:1px solid var(--line);
border-radius:.4rem;padding:.4rem}
.scroll{overflow-x:auto;margin-top:.5rem;background:
linear-gradient(to left,var(--background) 60%,transparent) right/2.5rem 100% no-repeat local,
linear-gradient(to left,var(--shade),transparent) right/1rem 100% no-repeat scroll}
table{border-collapse:collapse;font-size:.86rem}
th,td{padding:.22rem .65rem .22rem 0;text-align:start;border-bottom:1px solid var(--line);white-space:nowrap}
td{max-width:22rem;overflow:hidden;text-overflow:ellipsis}
th{color:var(--quiet);font-weight:600}
th:first-child,td:first-child{position:sticky;inset-inline-start:0;background:var(--background)}
details{margin-top:.5rem}
summary{cursor:pointer;color:var(--accent);font-size:.9rem}
details .scroll{max-height:34rem;overflow-y:auto}
details th{position:sticky;top:0;background:var(--background)}
details th:first-child{z-index:1}
.number{text-align:end;font-variant-numeric:tabular-nums}
dl{display:grid;grid-template-columns:max-content 1fr;gap:.1rem 1rem;overflow-wrap:anywhere}
dt{color:var(--quiet)}
dd{margin:0}
.takeaways{max-width:56rem;margin:.6rem 0;padding-inline-start:1.4rem;font-size:1.05rem}
.takeaways li{margin:.45rem 0}
figure:target{outline:2px solid var(--accent);outline-offset:.6rem;border-radius:.2rem}
figure{scroll-margin-top:1rem}
.terms{max-width:56rem;margin:.3rem 0}
.terms dt{color:var(--ink);font-weight:600}
.texts{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,20rem),1fr));gap:.6rem 1.6rem}
.texts article{min-width:0;padding:.6rem .9rem;border:1px solid var(--line);border-radius:.4rem}
.texts h4{margin:0 0 .3rem;font-size:.92rem}
.document{max-height:24rem;overflow-y:auto;line-height:1.75;overflow-wrap:anywhere}
.document p{white-space:pre-wrap}
mark{color:inherit;border-radius:.15rem;padding:0 .08em}
MARKS
@media(max-width:56rem){body{display:block}nav{position:static;height:auto;border:0;
border-bottom:1px solid var(--line);padding:1rem}nav ol{columns:2}figure img{min-width:34rem}
dl{grid-template-columns:1fr}dd{margin-bottom:.4rem}
th:first-child,td:first-child{max-width:40vw}}
@media print{body{display:block}nav{display:none}figure{break-inside:avoid}}
"""


def render_index(
    title: str, sections: Sequence[Section], facts: Mapping[str, str], sizes: Mapping[str, tuple[int, int]]
) -> str:
    """Return the page; `sizes` holds width and height in pixels of each picture, so that nothing moves on loading."""
    marks = "".join(f"mark.level-{level}{{background:var(--plain-{level})}}" for level in range(1, colours.LEVELS + 1))
    style = _STYLE.replace("LIGHT", colours.css_variables("light")).replace("DARK", colours.css_variables("dark"))
    style = style.replace("MARKS", marks)
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    policy = _POLICY.format(style=f"'sha256-{digest}'")
    entries = "".join(f'<li><a href="#{_text(section.anchor)}">{_text(section.title)}</a></li>' for section in sections)
    rows = "".join(f"<dt>{_text(name)}</dt><dd>{_text(value)}</dd>" for name, value in facts.items())
    body = "\n".join(_section(section, sizes) for section in sections)
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
{GENERATOR}
<title>{_text(title)} · Sightline</title>
<style>{style}</style>
</head>
<body>
<nav aria-label="Sections"><p class="brand">Sightline</p>
<ol>{entries}<li><a href="#settings">Settings</a></li></ol></nav>
<main>
<h1 dir="auto">{_text(title)}</h1>
{body}
<section id="settings"><h2>Settings and provenance</h2><dl>{rows}</dl></section>
</main>
</body>
</html>
"""


def document_title(text: str) -> str:
    """Return the first non-empty line of a document, shortened."""
    line = next((line.strip() for line in text.splitlines() if line.strip()), "Document")
    return line if len(line) <= LONGEST_TITLE else line[: LONGEST_TITLE - 1].rstrip() + "…"


def _section(section: Section, sizes: Mapping[str, tuple[int, int]]) -> str:
    parts = [_part(part, sizes) for part in section.parts]
    sentences = "".join(f"<p>{_text(sentence)}</p>" for sentence in section.sentences)
    return (
        f'<section id="{_text(section.anchor)}"><h2>{_text(section.title)}</h2>{sentences}\n'
        + "\n".join(parts)
        + "</section>"
    )


def _part(part: Part, sizes: Mapping[str, tuple[int, int]]) -> str:
    if isinstance(part, Picture):
        return _picture(part, sizes)
    if isinstance(part, Links):
        return _links(part, sizes)
    if isinstance(part, Texts):
        return _texts(part)
    return _table(part) if isinstance(part, Table) else _terms(part)


def _links(links: Links, sizes: Mapping[str, tuple[int, int]]) -> str:
    rows = "".join(
        f"<li>{_text(sentence)}"
        + (f' <a href="#figure-{_text(picture)}">Figure</a>' if picture in sizes else "")
        + "</li>"
        for sentence, picture in links.sentences
    )
    return f'<ol class="takeaways">{rows}</ol>'


def _texts(texts: Texts) -> str:
    columns = "".join(_coloured_text(column) for column in texts.columns)
    return (
        f"<figure><figcaption><h3>{_text(texts.title)}</h3><p>{_text(texts.sentence)}</p></figcaption>"
        f'<div class="texts">{columns}</div></figure>'
    )


def _coloured_text(text: ColouredText) -> str:
    blocks = []
    for segment in text.segments:
        pieces = [
            f'<mark class="level-{level}" title="{_text(note)}">{_text(piece)}</mark>' if level else _text(piece)
            for piece, level, note in segment
        ]
        blocks.append(f'<p dir="auto">{"".join(pieces)}</p>')
    return (
        f'<article><h4>{_text(text.title)}</h4><div class="document" tabindex="0">{"".join(blocks)}</div>'
        f'<p class="quiet">{_text(text.sentence)}</p></article>'
    )


def _terms(terms: Terms) -> str:
    rows = "".join(f"<dt>{_text(name)}</dt><dd>{_text(meaning)}</dd>" for name, meaning in terms.meanings.items())
    return f'<h3 class="apart">{_text(terms.title)}</h3><dl class="terms">{rows}</dl>'


def _picture(picture: Picture, sizes: Mapping[str, tuple[int, int]]) -> str:
    name = _text(picture.name)
    width, height = sizes[picture.name]
    sentence = f"<p>{_text(picture.sentence)}</p>" if picture.sentence else ""
    return (
        f'<figure id="figure-{name}"><figcaption><h3>{_text(picture.title)}</h3>{sentence}</figcaption>'
        f'<div class="scroll" tabindex="0" role="region" aria-label="{_text(picture.title)}">'
        f'<img src="figures/{name}.svg" width="{width}" height="{height}" decoding="async" '
        f'alt="{_text(f"{picture.title}. {picture.sentence}")}"></div>'
        f'<p class="quiet"><a href="figures/{name}.svg">SVG</a> · <a href="figures/{name}.png">PNG</a></p></figure>'
    )


def _table(table: Table) -> str:
    name = _text(table.name)
    whole = table.frame if table.shown is None else table.shown
    frame, title = first_rows(whole, table.title, SHOWN_ROWS)
    shown = to_html(frame, digits=table.digits) if len(frame) else '<p class="quiet">Nothing to list.</p>'
    rest = _all_rows(table, whole) if len(frame) < len(whole) else ""
    sentence = f"<p>{_text(table.sentence)}</p>" if table.sentence else ""
    files = " · ".join(f'<a href="tables/{name}.{end}">{label}</a>' for end, label in _TABLE_FILES.items() if name)
    return (
        f"<figure><figcaption><h3>{_text(title)}</h3>{sentence}</figcaption>"
        f'<div class="scroll" tabindex="0" role="region" aria-label="{_text(table.title)}">{shown}</div>{rest}'
        f'<p class="quiet">{files}</p></figure>'
    )


def _all_rows(table: Table, whole: pd.DataFrame) -> str:
    """Return the whole table, collapsed, in a scrolling box."""
    frame, title = first_rows(whole, table.title, MOST_ROWS)
    which = "All" if len(frame) == len(whole) else f"First {len(frame):,} of"
    return (
        f"<details><summary>{which} {len(whole):,} rows</summary>"
        f'<div class="scroll" tabindex="0" role="region" aria-label="{_text(title)}">'
        f"{to_html(frame, digits=table.digits)}</div></details>"
    )


_TABLE_FILES = {"csv": "CSV", "tex": "LaTeX", "md": "Markdown"}


def _text(text: str) -> str:
    return html.escape(printable(text))
