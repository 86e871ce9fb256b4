"""Small documents of every format, written by hand."""

from __future__ import annotations

import io
import zipfile

WORD = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"


def archive(**parts: str) -> bytes:
    """Return a ZIP archive; `__` in a name stands for a slash."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in parts.items():
            file.writestr(name.replace("__", "/"), content)
    return stream.getvalue()


def docx(body: str, **parts: str) -> bytes:
    """Return a .docx whose body is this XML, in which `w:` is the namespace of Word."""
    document = (
        f'<?xml version="1.0" encoding="UTF-8"?><w:document xmlns:w="{WORD}" '
        'xmlns:mc="http://schemas.openxmlformats.org/markup-compatibility/2006">'
        f"<w:body>{body}</w:body></w:document>"
    )
    return archive(**{"word__document.xml": document, **parts})


def paragraph(*runs: str) -> str:
    """Return a paragraph of Word with these runs of text."""
    return "<w:p>" + "".join(f'<w:r><w:t xml:space="preserve">{run}</w:t></w:r>' for run in runs) + "</w:p>"


def odt(body: str) -> bytes:
    """Return an .odt whose text is this XML; `text:` and `table:` are the namespaces of OpenDocument."""
    office = "urn:oasis:names:tc:opendocument:xmlns:"
    content = (
        f'<office:document-content xmlns:office="{office}office:1.0" xmlns:text="{office}text:1.0" '
        f'xmlns:table="{office}table:1.0"><office:body><office:text>{body}</office:text></office:body>'
        "</office:document-content>"
    )
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as file:
        file.writestr("mimetype", "application/vnd.oasis.opendocument.text")
        file.writestr("content.xml", content)
    return stream.getvalue()


def pdf(*pages: list[str]) -> bytes:
    """Return a PDF with these lines on its pages, in Helvetica."""
    objects = [b"<< /Type /Catalog /Pages 2 0 R >>", b"", b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>"]
    kids = []
    for lines in pages:
        drawn = " ".join(f"({line}) Tj T*" for line in lines)
        stream = f"BT /F1 10 Tf 12 TL 50 750 Td {drawn} ET".encode("latin-1")
        objects.append(b"<< /Length %d >>\nstream\n%s\nendstream" % (len(stream), stream))
        objects.append(
            b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Resources << /Font << /F1 3 0 R >> >> "
            b"/Contents %d 0 R >>" % len(objects)
        )
        kids.append(len(objects))
    listed = " ".join(f"{kid} 0 R" for kid in kids)
    objects[1] = f"<< /Type /Pages /Kids [{listed}] /Count {len(kids)} >>".encode()
    content, places = b"%PDF-1.4\n", []
    for number, body in enumerate(objects, start=1):
        places.append(len(content))
        content += b"%d 0 obj\n%s\nendobj\n" % (number, body)
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    size = len(objects) + 1
    return (
        content
        + b"xref\n0 %d\n0000000000 65535 f \n%strailer << /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n"
        % (
            size,
            table,
            size,
            len(content),
        )
    )
