"""Document files as text: plain text, HTML, Word, OpenDocument and PDF."""

from sightline.text.documents.decoding import (
    MOST_BYTES,
    DocumentText,
    decode_document,
    names_document,
    plain_text_of,
    read_content,
    read_document,
)

__all__ = [
    "MOST_BYTES",
    "DocumentText",
    "decode_document",
    "names_document",
    "plain_text_of",
    "read_content",
    "read_document",
]
