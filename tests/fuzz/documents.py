"""Documents: valid files of every format with damaged bytes, damaged parts and hostile mark-up."""

from __future__ import annotations

import io
import zipfile
import zlib
from pathlib import Path
from random import Random

import sightline as sl
from sightline.errors import InputError
from sightline.text import documents
from sightline.text.documents import extraction
from sightline.text.documents.parts import ExtractionError
from tests.fuzz.mutations import HOSTILE_STRINGS, damage_bytes, odd_text
from tests.text.documents.samples import archive, docx, odt, paragraph, pdf

_SECRET = "the-content-of-another-file"
_CHILD_SHARE = 0.03
"""Share of the cases that are read as users read them; starting a process for each would take most of the time."""
_XML = (
    "<w:t>",
    "</w:t>",
    "<w:tr><w:tc>",
    "</w:tc></w:tr>",
    "<w:del>",
    "<w:tab/>",
    "<text:note>",
    "&a;",
    "&#x1b;",
    "<!--",
    "]]>",
    "<![CDATA[",
    "<?x ?>",
    "<w:p>" * 500,
)
_HTML = (
    "<!--",
    "-->",
    "<![",
    "<![if x]>",
    "<!doctype",
    "<?",
    "</",
    "<script>",
    "<svg>",
    "<pre>",
    "</pre>",
    "&#",
    "&#xD800;",
    "&#27;",
    "&lt",
    "<td>",
    "<br/>",
    "<a b='",
)
_PDF = (
    b"/Count 1000000000000",
    b"/Kids [2 0 R]",
    b"/Contents 2 0 R",
    b"/Parent 3 0 R",
    b"/Length 999999999",
    b"/Filter /FlateDecode",
    b"/Filter [/LZWDecode /RunLengthDecode]",
    b"/DecodeParms << /Predictor 15 /Columns 1000000000 >>",
    b"/OpenAction << /S /JavaScript /JS (app.alert(1)) >>",
    b"/Encrypt 3 0 R",
    b"/Prev 9",
    b"<< << [ [",
    b"(",
    b"BI /W 9999999 ID",
    b"-1",
    b"99999999999999999999",
)


class Documents:
    """`read_document` on files, and the readers of all formats."""

    def prepare(self, workspace: Path) -> None:
        self.secret = workspace / "secret"
        self.secret.write_text(_SECRET)

    def build(self, random: Random, folder: Path, canary: Path) -> object:
        suffix = random.choice(("docx", "docx", "odt", "html", "pdf", "pdf", "txt"))
        content = getattr(self, f"_build_{suffix}")(random)
        if random.random() < 0.35:
            content = damage_bytes(random, content)
        name = random.choice(("a", "a", "a", "\x1b[31m", "b\nc", "\u202e", "n" * 200))
        path = folder / f"{name}.{random.choice((suffix, suffix, suffix, 'html', 'bin'))}"
        path.write_bytes(content)
        if random.random() < 0.01:
            path.unlink()
            path.symlink_to(random.choice(("/dev/zero", "/dev/null", "/nowhere", str(path), str(folder))))
        return path, random.random() < _CHILD_SHARE

    def open(self, case: object, folder: Path) -> str:
        assert isinstance(case, tuple)
        path, child = case
        document = sl.read_document(path) if child else _read_here(path)
        assert _SECRET not in document.text, "another file was read"
        document.text.encode()
        assert all(notice.isprintable() for notice in document.notices)
        return document.format

    def _build_txt(self, random: Random) -> bytes:
        return odd_text(random).encode(random.choice(("utf-8", "utf-16", "latin-1")), errors="replace")

    def _build_html(self, random: Random) -> bytes:
        pieces = [
            "<html><p>The seller is liable.",
            *random.choices(_HTML, k=random.randint(0, 12)),
            odd_text(random, 80),
        ]
        random.shuffle(pieces)
        pieces[0] *= random.choice((1, 1, 1, 1_000))
        return "".join(pieces).encode(errors="replace")

    def _build_docx(self, random: Random) -> bytes:
        body = self._xml(random, paragraph("The seller is liable."))
        parts = {f"word__{part}.xml": body for part in ("footnotes", "comments") if random.random() < 0.2}
        if random.random() < 0.2:
            return archive(**{"word__document.xml": self._doctype(random) + body, **parts})
        return _rearrange(random, docx(body, **parts))

    def _build_odt(self, random: Random) -> bytes:
        return _rearrange(random, odt(self._xml(random, "<text:p>The seller is liable.<text:s/></text:p>")))

    def _build_pdf(self, random: Random) -> bytes:
        content = pdf(*[["The seller is liable.", "The buyer pays."]] * random.choice((1, 2, 5)))
        if random.random() < 0.2:
            content = content.replace(b"stream\nBT", b"stream\n" + zlib.compress(b" " * 10**6) + b"BT", 1)
        for _ in range(random.randint(0, 4)):
            places = [place for place in range(len(content)) if content[place : place + 1] in b"/ \n<"]
            place = random.choice(places)
            content = content[:place] + b" " + random.choice(_PDF) + b" " + content[place:]
        return content

    def _xml(self, random: Random, valid: str) -> str:
        pieces = [valid] * random.randint(1, 4)
        for _ in range(random.choice((0, 0, 1, 2))):
            pieces.insert(random.randrange(len(pieces) + 1), random.choice((*_XML, *HOSTILE_STRINGS[2:])))
        return "".join(pieces).encode(errors="replace").decode()

    def _doctype(self, random: Random) -> str:
        kind = random.choice(("a", "% a"))
        return f'<!DOCTYPE w [<!ENTITY {kind} SYSTEM "{self.secret.as_uri()}">{"%a;" * (kind == "% a")}]>'


def _read_here(path: Path) -> documents.DocumentText:
    """Read a document as `read_document` does, but without a process of its own."""
    content = path.read_bytes() if path.is_file() else b""
    name = "The file"
    file_format = documents._recognise(content, name, path.suffix)
    if file_format == "text":
        return sl.read_document(path)
    try:
        extracted = extraction.extract(content, file_format)
    except ExtractionError as error:
        raise InputError(f"{name} {error}") from None
    except Exception as error:
        # The process would end here, and the parent say that there is no answer.
        raise InputError(f"{name} cannot be read: {type(error).__name__}.") from None
    return documents.DocumentText(extracted.text, file_format, tuple(extracted.notices))


def _rearrange(random: Random, content: bytes) -> bytes:
    """Return the archive with other methods of compression, entries twice, or odd entries besides; often as it is."""
    if random.random() < 0.6:
        return content
    stream = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as source, zipfile.ZipFile(stream, "w") as target:
        for name in source.namelist() * random.choice((1, 1, 2)):
            target.writestr(name, source.read(name), compress_type=random.choice((0, 8, 12, 14)))
        for _ in range(random.choice((0, 1, 300))):
            target.writestr(random.choice(("../up", "/etc/x", "word/media/" + "n" * 60_000, "word/header1.xml")), b"")
    raw = bytearray(stream.getvalue())
    if random.random() < 0.3:  # a method or a flag that the content does not have
        place = raw.find(b"PK\x01\x02") + random.choice((8, 10))
        raw[place] = random.choice((1, 9, 12, 93, 99))
    return bytes(raw)
