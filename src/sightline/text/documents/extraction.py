"""The child process that reads what is not plain text: `… -m sightline.text.documents.extraction FORMAT SECONDS`.

It reads the file from standard input and writes one JSON object to standard output: `{"text": …, "notices": […]}`, or
`{"error": …}` with the rest of a sentence that begins with the name of the file. Memory and computing time are limited
(`sightline.files.processes`). Nothing is loaded that a small process does not need.
"""

from __future__ import annotations

import json
import sys

from sightline.files.processes import limit_resources
from sightline.text.documents.html_text import extract_html
from sightline.text.documents.office_text import extract_docx, extract_odt
from sightline.text.documents.parts import Extracted, ExtractionError
from sightline.text.documents.pdf_text import extract_pdf

MOST_MEMORY = 2 * 2**30
"""Bytes that the process may take."""

EXTRACTORS = {"html": extract_html, "docx": extract_docx, "odt": extract_odt, "pdf": extract_pdf}


def extract(content: bytes, file_format: str) -> Extracted:
    """Return the text of a document in one of the formats in `EXTRACTORS`."""
    extracted = EXTRACTORS[file_format](content)
    if not extracted.text.strip():
        raise ExtractionError("contains no text.")
    return extracted


def main() -> None:
    """Read standard input, write the answer."""
    limit_resources(MOST_MEMORY, int(sys.argv[2]))
    try:
        extracted = extract(sys.stdin.buffer.read(), sys.argv[1])
        answer: dict[str, object] = {"text": extracted.text, "notices": extracted.notices}
    except ExtractionError as error:
        answer = {"error": str(error)}
    sys.stdout.write(json.dumps(answer))


if __name__ == "__main__":
    main()
