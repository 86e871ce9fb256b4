"""Documents people have, read as text: what is kept, what is left out, what is refused."""

from __future__ import annotations

import io
import signal
import subprocess
import sys
import zipfile
from pathlib import Path

import psutil
import pytest

import sightline as sl
from sightline.errors import InputError
from sightline.text.documents import decode_document
from sightline.text.documents.extraction import extract
from sightline.text.documents.parts import ExtractionError
from sightline.text.documents.pdf_text import _lines, join_lines, remove_running_lines
from tests.patience import PATIENCE, wait_for
from tests.text.documents.samples import WORD, archive, docx, odt, paragraph, pdf

PARAGRAPHS = "The seller is liable.\n\nThe buyer pays.\n"
SAME_DOCUMENT = {
    "contract.docx": docx(paragraph("The seller ", "is liable.") + paragraph("The buyer pays.")),
    "contract.odt": odt(
        "<text:p>The seller <text:span>is liable.</text:span></text:p><text:h>The buyer pays.</text:h>"
    ),
    "contract.html": b"<html><head><title>x</title></head><p>The seller <b>is</b>\nliable.<p>The buyer pays.</html>",
    "contract.pdf": pdf(["The seller is liable.", "", "The buyer pays."]),
}


@pytest.mark.parametrize("name", SAME_DOCUMENT)
def test_every_format_gives_the_same_text(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(SAME_DOCUMENT[name])
    document = sl.read_document(path)
    assert document.text.split() == PARAGRAPHS.split()
    assert document.format == path.suffix[1:]
    if name != "contract.pdf":  # A PDF has no paragraphs; two short lines are two of them only by their width.
        assert document.text == PARAGRAPHS


def test_plain_text_is_returned_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "letter.txt"
    path.write_bytes("\ufeffA “letter”.\r\n\tTwo.".encode())
    assert sl.read_document(path).text == "A “letter”.\r\n\tTwo."
    path.write_bytes("Ein Brief aus Köln".encode("utf-16"))
    assert sl.read_document(str(path)).text == "Ein Brief aus Köln"


def test_html_is_read_as_it_is_on_request(tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    path.write_text("<p>Hello</p>")
    assert sl.read_document(path, plain_text=True).text == "<p>Hello</p>"
    assert decode_document(b"  <!DOCTYPE html><p>Hello", "It").text == "Hello\n"
    assert decode_document(b"a < b, and <html> is a tag", "It").format == "text"


def read_docx(body: str, **parts: str) -> tuple[str, list[str]]:
    extracted = extract(docx(body, **parts), "docx")
    return extracted.text, extracted.notices


def test_word_tables_are_lines_with_tabs() -> None:
    cell = "<w:tc>{}</w:tc>".format
    row = f"<w:tr>{cell(paragraph('Price') + paragraph('(net)'))}{cell(paragraph('10'))}</w:tr>"
    text, _ = read_docx(paragraph("Before.") + f"<w:tbl>{row}</w:tbl>" + paragraph("After."))
    assert text == "Before.\n\nPrice (net)\t10\n\nAfter.\n"


def test_word_tracked_changes_give_the_new_version() -> None:
    body = (
        "<w:p><w:r><w:t>The seller is </w:t></w:r><w:del><w:r><w:delText>not </w:delText><w:t>gone</w:t></w:r></w:del>"
        "<w:ins><w:r><w:t>fully </w:t></w:r></w:ins><w:r><w:t>liable.</w:t></w:r></w:p>"
    )
    text, notices = read_docx(body)
    assert text == "The seller is fully liable.\n"
    assert notices == ["The document has tracked changes: the text is the changed version, without what was deleted."]


def test_word_tab_stops_and_fallbacks_are_not_text() -> None:
    body = (
        '<w:p><w:pPr><w:tabs><w:tab w:val="left" w:pos="1"/></w:tabs></w:pPr><w:r><w:t>One</w:t><w:tab/><w:t>two</w:t>'
        "<w:br/></w:r><mc:AlternateContent><mc:Choice><w:txbxContent>"
        f"{paragraph('In a box.')}</w:txbxContent></mc:Choice><mc:Fallback>{paragraph('In a box.')}</mc:Fallback>"
        "</mc:AlternateContent><w:r><w:t>three</w:t></w:r></w:p>"
    )
    assert read_docx(body)[0] == "One\ttwo\nthree\n\nIn a box.\n"


def test_word_footnotes_follow_and_the_rest_is_named() -> None:
    notes = f'<w:footnotes xmlns:w="{WORD}">{paragraph("A note.")}</w:footnotes>'
    text, notices = read_docx(paragraph("Text."), **{"word__footnotes.xml": notes, "word__header1.xml": "<x/>"})
    assert text == "Text.\n\nA note.\n"
    assert notices == ["The text leaves out the headers and footers of the document."]


def test_open_document_comments_and_deletions_are_left_out() -> None:
    body = (
        "<text:tracked-changes><text:p>old</text:p></text:tracked-changes><text:p>One<text:tab/>two<text:line-break/>"
        "three<office:annotation><text:p>a comment</text:p></office:annotation></text:p>"
        "<table:table><table:table-row><table:table-cell><text:p>a</text:p></table:table-cell>"
        "<table:table-cell><text:p>b</text:p></table:table-cell></table:table-row></table:table>"
    )
    extracted = extract(odt(body), "odt")
    assert extracted.text == "One\ttwo\nthree\n\na\tb\n"
    assert len(extracted.notices) == 2


def test_open_document_footnotes_follow_their_paragraph() -> None:
    note = "<text:note><text:note-body><text:p>A note.</text:p></text:note-body></text:note>"
    body = f"<text:p>The seller{note} is liable.</text:p><text:p>Next.</text:p>"
    assert extract(odt(body), "odt").text == "The seller is liable.\n\nA note.\n\nNext.\n"


def test_soft_hyphens_are_not_text() -> None:
    assert extract("<p>li\u00adable</p>".encode(), "html").text == "liable\n"


def test_html_shows_what_a_reader_sees() -> None:
    page = (
        "<html><style>p {color: red}</style><script>alert('x')</script><h1>Terms &amp; conditions</h1>"
        "<div>One<br>two <svg><text>no</text></svg></div><table><tr><td>a<td>b</table><pre>x\n  y</pre>"
    )
    assert extract(page.encode(), "html").text == "Terms & conditions\n\nOne\ntwo\n\na\tb\n\nx\ny\n"


@pytest.mark.parametrize(
    ("page", "text"),
    [
        ("a < b and 3 <4, </p>", "a < b and 3 <4,\n"),
        ("<p title='a > b' class=\"x\">One<BR/>two", "One\ntwo\n"),
        ("<p>One<!-- <p>no --><!--><?php x ?><![if x]></ >two", "Onetwo\n"),
        ("<SCRIPT>if (a<b) '</p>'</script >One", "One\n"),
        ("One<script>two", "One\n"),
        ("One<!-- two", "One\n"),
        ("One <b and two", "One <b and two\n"),
        ("One<svg/><svg><svg><title>x</title>no</svg>two", "Onetwo\n"),
        ("<p>a&lt;b>&amp;amp; &eacute;&#233;", "a<b>&amp; éé\n"),
    ],
)
def test_broken_html_is_read_as_browsers_read_it(page: str, text: str) -> None:
    assert extract(page.encode(), "html").text == text


@pytest.mark.slow
@pytest.mark.parametrize(
    "piece",
    [
        "<a ",
        "<a b=",
        "<a b='",
        "<!--",
        "<![CDATA[",
        "</",
        "<",
        "&",
        "<svg>",
        "<a b=' c=\">",
        "<svg></title>",
        "<pre><td>",
    ],
)
def test_reading_html_takes_time_proportional_to_its_length(piece: str) -> None:
    """At this length a reader that goes back needs more than the 120 seconds that it may take."""
    page = b"<p>Some words.</p>" + piece.encode() * (9_000_000 // len(piece))
    assert decode_document(page, "The page", suffix=".html").text.startswith("Some words.\n")


def test_html_in_a_declared_encoding() -> None:
    page = '<meta charset="iso-8859-1"><p>Café</p>'
    assert extract(page.encode("latin-1"), "html").text == "Café\n"
    with pytest.raises(ExtractionError, match="is not UTF-8"):
        extract("<p>Café</p>".encode("latin-1"), "html")


def test_pdf_lines_become_paragraphs() -> None:
    lines = [
        "The seller shall deliver the goods to the address that is na-",
        "med in the order, at the time that the parties have agreed on",
        "and no later.",
        "The buyer pays within thirty days after the delivery of goods.",
    ]
    assert join_lines(lines) == [
        "The seller shall deliver the goods to the address that is named in the order, at the time that the parties "
        "have agreed on and no later.",
        lines[3],
    ]


def test_pdf_words_that_have_a_hyphen_elsewhere_keep_it() -> None:
    lines = ["The non-compete clause ends, as every non-", "compete agreement that is made by part-", "ners."]
    assert join_lines(lines) == [
        "The non-compete clause ends, as every non-compete agreement that is made by partners."
    ]


def test_pdf_ligatures_are_letters() -> None:
    assert _lines("the ﬁrst oﬄine workﬂow") == ["the first offline workflow"]


def test_pdf_running_titles_above_each_other_are_left_out() -> None:
    pages = [["Contract 7", "", str(n), "Draft", f"Clause {name}"] for n, name in enumerate("abcd", 1)]
    assert remove_running_lines(pages) == ([[f"Clause {name}"] for name in "abcd"], 12)


def test_pdf_running_titles_are_left_out() -> None:
    pages = [["Contract 7", f"Clause {name} says something.", f"Page {n} of 4"] for n, name in enumerate("abcd", 1)]
    shortened, removed = remove_running_lines(pages)
    assert shortened == [[f"Clause {name} says something."] for name in "abcd"]
    assert removed == 8
    assert remove_running_lines([["same"], ["same"]]) == ([["same"], ["same"]], 0)


def test_pdf_pages_without_text_are_named() -> None:
    extracted = extract(pdf(["A clause of the contract."], []), "pdf")
    assert extracted.notices == ["1 of 2 pages contain no text; they may be scanned pictures."]
    with pytest.raises(ExtractionError, match="may be a scan"):
        extract(pdf([]), "pdf")


LAUGHS = (
    '<!DOCTYPE x [<!ENTITY a "lol"><!ENTITY b "&a;&a;&a;&a;">]>'
    f'<w:document xmlns:w="{WORD}"><w:p><w:r><w:t>&b;</w:t></w:r></w:p></w:document>'
)
REFUSED = {
    "entities": (archive(**{"word__document.xml": LAUGHS}), "document type declaration"),
    "no XML": (archive(**{"word__document.xml": "The seller"}), "'word/document.xml' cannot be read"),
    "half an archive": (docx(paragraph("The seller"))[:-30], "not a complete archive"),
    "no text": (docx(paragraph(" ")), "contains no text"),
    "spreadsheet": (archive(**{"xl__workbook.xml": "<x/>"}), "is a ZIP archive"),
    "old Word": (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "old binary format"),
    "damaged PDF": (pdf(["The seller"])[:200], "is damaged"),
    "Latin-1": ("Café".encode("latin-1"), "is not UTF-8 text: byte 0xe9 at position 3"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_read_is_one_sentence(name: str) -> None:
    content, sentence = REFUSED[name]
    with pytest.raises(InputError, match="^The file 'a'") as caught:
        decode_document(content, "The file 'a'")
    assert sentence in str(caught.value)


def test_a_deep_or_huge_document_costs_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    deep = docx("<w:sdt>" * 100_000 + paragraph("Deep.") + "</w:sdt>" * 100_000)
    assert extract(deep, "docx").text == "Deep.\n"
    monkeypatch.setattr("sightline.text.documents.office_text.MOST_XML", 1_000_000)
    with pytest.raises(ExtractionError, match="made to do harm"):
        extract(docx(" " * 2_000_000), "docx")


def test_a_document_may_have_so_many_characters_and_take_so_long(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match=r"^It could not be read within 0\.001 seconds"):
        decode_document(b"<p>The mill.", "It", suffix=".html", seconds=0.001)
    monkeypatch.setattr("sightline.text.documents.parts.MOST_CHARACTERS", 1_000_000)
    with pytest.raises(ExtractionError, match="contains more than 1 million characters"):
        extract(docx(paragraph("old mill " * 200_000)), "docx")


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs limits on memory")
def test_a_process_with_limits_gets_no_more_memory() -> None:
    program = (
        "from sightline.files.processes import limit_resources\n"
        "limit_resources(2**28, 60)\n"
        "try: bytearray(2**29)\n"
        "except MemoryError: print('refused', len(bytearray(2**20)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == f"refused {2**20}\n"


def test_the_parts_of_an_archive_share_one_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sightline.text.documents.office_text.MOST_XML", 1_000_000)
    notes = f'<w:footnotes xmlns:w="{WORD}">{" " * 600_000}</w:footnotes>'
    assert extract(docx(paragraph("Short."), **{"word__footnotes.xml": notes}), "docx").text == "Short.\n"
    with pytest.raises(ExtractionError, match="made to do harm"):
        extract(docx(paragraph("Short."), **{"word__footnotes.xml": notes, "word__endnotes.xml": notes}), "docx")


@pytest.mark.parametrize("method", [9, 93])
def test_an_unknown_compression_is_not_called_encryption(method: int) -> None:
    content = bytearray(docx(paragraph("Hello.")))
    content[8] = content[content.find(b"PK\x01\x02") + 10] = method
    with pytest.raises(ExtractionError, match=r"compressed in a way that is not read here \('word/document.xml'\)"):
        extract(bytes(content), "docx")


def test_names_in_errors_cannot_control_the_terminal(tmp_path: Path) -> None:
    path = tmp_path / "a\x1b[31m\nb.docx"
    for content in (None, b"PK\x03\x04", docx("")):
        if content is not None:
            path.write_bytes(content)
        with pytest.raises(InputError) as caught:
            sl.read_document(path)
        assert str(caught.value).isprintable()


def test_an_encrypted_archive_is_refused() -> None:
    content = bytearray(docx(paragraph("Secret.")))
    with zipfile.ZipFile(io.BytesIO(bytes(content))) as file:
        entry = file.infolist()[0]
    content[entry.header_offset + 6] |= 1
    central = content.find(b"PK\x01\x02")
    content[central + 8] |= 1
    with pytest.raises(ExtractionError, match="is encrypted"):
        extract(bytes(content), "docx")


def test_nothing_is_imported_from_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody else's folder may hold a module named like one of ours, or like one of Python's."""
    trap = "import pathlib; pathlib.Path('executed').write_text('yes')\n"
    package = tmp_path / "sightline" / "text" / "documents"
    package.mkdir(parents=True)
    for path in (
        tmp_path / "zipfile.py",
        tmp_path / "sightline/__init__.py",
        package / "__init__.py",
        package / "extraction.py",
    ):
        path.write_text(trap)
    (tmp_path / "contract.docx").write_bytes(SAME_DOCUMENT["contract.docx"])
    monkeypatch.chdir(tmp_path)
    assert sl.read_document("contract.docx").text == PARAGRAPHS
    assert not (tmp_path / "executed").exists()


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs a signal at the death of the parent")
def test_a_reader_ends_with_a_parent_that_is_killed() -> None:
    program = (
        "from sightline.text.documents import decode_document\n"
        "decode_document(b'<p>Some words.' + b'<pre><td>' * 4_000_000, 'It', suffix='.html')"
    )
    parent = psutil.Popen([sys.executable, "-c", program])
    wait_for(parent.children)
    (reader,) = parent.children()
    wait_for(lambda: reader.rlimit(psutil.RLIMIT_CPU)[0] != psutil.RLIM_INFINITY)
    reader.suspend()  # so that it does not end by itself
    parent.kill()
    parent.wait()
    wait_for(lambda: not reader.is_running() or reader.status() == psutil.STATUS_ZOMBIE)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs limits on computing time")
def test_a_reader_whose_parent_is_gone_ends_by_itself() -> None:
    program = "from sightline.files.processes import limit_resources\nlimit_resources(2**30, 1)\nwhile True: pass"
    ended = subprocess.run([sys.executable, "-c", program], timeout=PATIENCE, check=False)
    assert ended.returncode in (-signal.SIGXCPU, -signal.SIGKILL)
