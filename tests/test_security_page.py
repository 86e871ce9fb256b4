"""SECURITY.md names the limits that the code has; the tests of each limit are beside those of its module."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from sightline.corpus import data_files
from sightline.files import foreign
from sightline.models import weights
from sightline.results import explanation_storage, report_storage
from sightline.serve import documents as served_documents
from sightline.settings import serving as limits
from sightline.text import MAX_CHARACTERS, chat_rendering, documents, tokenizer_limits, tokenizers
from sightline.text.documents import extraction, office_text, parts

MB, MILLION = 1_000_000, 1_000_000
PAGE = " ".join(Path(__file__).parents[1].joinpath("SECURITY.md").read_text(encoding="utf-8").split())
NUMBERS = {2: "two", 4: "four"}
SENTENCES = [
    f"A model with random weights has at most {weights.MAX_RANDOM_NUMBERS // MILLION} million parameters.",
    f"at most {NUMBERS[tokenizer_limits.MAX_REPETITIONS]} repetitions in a row",
    f"lengthen a text at most {tokenizer_limits.MAX_GROWTH} times in all",
    f"a template may add {tokenizer_limits.MAX_PARTS} pieces of {tokenizer_limits.MAX_PARTS} tokens",
    f"a special token may have {tokenizer_limits.MAX_TOKEN} characters",
    f"A text of more than {tokenizer_limits.PIECE:,} characters is first read in pieces",
    f"refused if it becomes more than {tokenizer_limits.MAX_RATIO} times as long",
    f"may compute for {chat_rendering.CPU_SECONDS} seconds and take {chat_rendering.MEMORY // 10**9} GB",
    f"Templates of more than {tokenizers.TEMPLATE_CHARACTERS:,} characters are ignored.",
    f"files of up to {documents.MOST_BYTES // MB} MB are read in a process of their own that may take "
    f"{extraction.MOST_MEMORY // 2**30} GB and {documents.MOST_SECONDS} seconds",
    f"may unpack to {office_text.MOST_XML // MB} MB, and a text may have {parts.MOST_CHARACTERS // MILLION} million",
    f"The server reads documents of up to {limits.DOCUMENT_BYTES // MB} MB in the same way",
    f"{NUMBERS[limits.DOCUMENTS_AT_ONCE]} at a time and for at most {served_documents.SECONDS} seconds",
    f"A text may have up to {MAX_CHARACTERS // MILLION} million characters.",
    f"nesting ({foreign.JSON_DEPTH} levels) and sizes ({explanation_storage.LARGEST_FILE // MB} MB of JSON, "
    f"{report_storage.LARGEST_ARRAYS // 10**9} GB of arrays",
    f"A line may have at most {data_files.LONGEST_LINE // MB} MB, a JSON list {data_files.LARGEST_LIST // MB} MB",
    f"a table {data_files.MOST_COLUMNS:,} columns",
    f"until it has grown to {data_files.LARGEST_EXPANSION} times its size (or {data_files.FREE_EXPANSION // MB} MB)",
    f"JSON nested more than {foreign.JSON_DEPTH} levels deep",
    f"integers of more than {sys.int_info.default_max_str_digits:,} digits",
    f"at most {data_files.MOST_PARQUET_VALUES // MILLION} million values per row group",
]


@pytest.mark.parametrize("sentence", SENTENCES)
def test_the_page_names_the_limit_of_the_code(sentence):
    assert sentence in PAGE
