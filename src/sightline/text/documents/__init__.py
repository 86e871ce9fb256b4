"""Files people have, as the text a model reads: plain text, HTML, Word and OpenDocument, PDF."""

from sightline.text.documents.reading import (
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
