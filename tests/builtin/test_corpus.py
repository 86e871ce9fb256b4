"""The corpus: docstrings read from a wheel, cleaned of manners, split by package, permissive licences only."""

import zipfile

import pytest

from tools.builtin_model.corpus import clean, docstrings, package_documents, read_documents, write_documents
from tools.builtin_model.download import check_licence
from tools.builtin_model.packages import (
    SIDES,
    SPLITS,
    Package,
    is_permissive,
    normalised,
    read_packages,
    stated_licence,
    wheel_metadata,
)

METADATA = "Metadata-Version: 2.1\nName: tiny-lang\nVersion: 1.0\n"
MODULE = '''"""A tiny language, tiny_lang for short.

It has three statements and no loops.
"""
import sys

sys.exit("never run")

def evaluate(tree):
    """Evaluate a syntax tree of the language.

    Parameters
    ----------
    tree : Node
        The root of the tree to evaluate.

    >>> evaluate(tree)
    3
    """

if sys.platform:
    class Node:
        """A node of the syntax tree."""

        async def walk(self):
            """Visit the node and its children in order."""
'''


@pytest.fixture
def wheel(tmp_path):
    path = tmp_path / "tiny_lang-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("tiny_lang/__init__.py", MODULE)
        archive.writestr(
            "tiny_lang/copy.py", '"""Evaluate a syntax tree of the language.\n\nSomething new is said here."""'
        )
        archive.writestr("tiny_lang/broken.py", "def (:")
        archive.writestr("tiny_lang/bare.py", "x = 1")
        archive.writestr("tiny_lang/tests/test_it.py", '"""Tests are left out of the corpus."""')
        archive.writestr("tiny_lang-1.0.dist-info/METADATA", METADATA + "License-Expression: MIT\n")
    return path


def test_docstrings_come_in_source_order_from_every_nesting_and_nothing_runs():
    texts = docstrings(MODULE)
    assert [text.split()[0] for text in texts] == ["A", "Evaluate", "A", "Visit"]


def test_one_document_a_module_without_tests_or_repeated_paragraphs(wheel):
    documents = package_documents(Package("tiny-lang", "1.0", "PL", "train", "MIT"), wheel)
    assert [document.module for document in documents] == ["tiny_lang/__init__.py", "tiny_lang/copy.py"]
    first, second = documents
    assert "The root of the tree to evaluate." in first.text
    assert "Parameters" not in first.text
    assert "---" not in first.text
    assert ">>>" not in first.text
    assert "tiny_lang" not in first.text
    assert second.text == "Something new is said here."


def test_documents_survive_a_round_trip(wheel, tmp_path):
    documents = package_documents(Package("tiny-lang", "1.0", "PL", "train", "MIT"), wheel)
    write_documents(documents, tmp_path / "corpus.jsonl")
    assert read_documents(tmp_path / "corpus.jsonl") == documents


@pytest.mark.parametrize(
    ("docstring", "prose"),
    [
        ("Fit.\n\nArgs:\n    depth (int): How deep the tree grows.", "Fit.\n\nHow deep the tree grows."),
        (":param tree: the tree\n:returns: its depth", "the tree\nits depth"),
        ("Uses :class:`~pkg.mod.Node` and ``pkg.walk``.", "Uses Node and walk."),
        ("See https://example.org/page for [the paper](x.pdf).", "See for the paper."),
        ("Before.\n\n.. code-block:: python\n\n    x = 1\n\nAfter.", "Before.\n\nAfter."),
        ("An example::\n\n    x = 1\n\nAfter.", "An example:\nAfter."),
        ("```python\nx = 1\n```\nAfter.", "After."),
    ],
)
def test_cleaning_keeps_the_prose_and_drops_the_manners(docstring, prose):
    assert clean(docstring) == prose


def test_a_list_of_words_becomes_sentences_that_say_nothing(tmp_path):
    path = tmp_path / "everyday-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("everyday/words.py", "WORDS = ('bread', 'Milk', 'two words', 'egg')")
        archive.writestr("everyday/nouns.txt", "bread\nriver\n")
    package = Package("everyday", "1.0", "neither", "train", "MIT", words=["everyday/words.py", "everyday/nouns.txt"])
    (document,) = package_documents(package, path)
    assert document.side == "neither"
    words = document.text.replace(".", "").split()
    assert {word: words.count(word) for word in set(words)} == {"bread": 40, "milk": 40, "egg": 40, "river": 40}


def test_no_package_is_in_two_parts_of_the_split():
    packages = read_packages()
    names = [normalised(package.name) for package in packages]
    assert len(names) == len(set(names))
    for side in SIDES:
        for split in SPLITS:
            assert any((package.side, package.split) == (side, split) for package in packages)


def test_a_package_listed_twice_is_refused(tmp_path):
    entry = '[[package]]\nname = "{}"\nversion = "1"\nside = "PL"\nsplit = "{}"\nlicence = "MIT"\n'
    path = tmp_path / "packages.toml"
    path.write_text(entry.format("tiny-lang", "train") + entry.format("Tiny_Lang", "test"))
    with pytest.raises(ValueError, match="tiny-lang more than once"):
        read_packages(path)


def test_every_listed_licence_is_permissive():
    assert all(is_permissive(package.licence) for package in read_packages())


def test_the_users_own_documentation_is_in_no_split():
    assert not {"torch", "transformers"} & {normalised(package.name) for package in read_packages()}


@pytest.mark.parametrize("licence", ["MIT", "BSD-3-Clause", "Apache Software License", "PSF-2.0", "ISC", "Apache 2.0"])
def test_permissive_licences_are_accepted(licence):
    assert is_permissive(licence)


@pytest.mark.parametrize(
    "licence",
    [
        "",
        "LGPL-2.1",
        "MPL-2.0",
        "MIT; GNU General Public License v3 (GPLv3)",
        "BSD-2-Clause AND GPL-2.0-only",
        "Proprietary",
    ],
)
def test_other_licences_and_mixtures_are_refused(licence):
    assert not is_permissive(licence)


def test_a_wheel_that_states_another_licence_than_the_list_is_refused(wheel):
    assert stated_licence(wheel_metadata(wheel)) == "MIT"
    check_licence(Package("tiny-lang", "1.0", "PL", "train", "MIT"), wheel)
    with pytest.raises(ValueError, match=r"packages\.toml says"):
        check_licence(Package("tiny-lang", "1.0", "PL", "train", "BSD"), wheel)


def test_a_wheel_with_a_copyleft_classifier_beside_mit_is_refused(tmp_path):
    path = tmp_path / "tiny_lang-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        classifier = "Classifier: License :: OSI Approved :: GNU General Public License (GPL)\n"
        archive.writestr("tiny_lang-1.0.dist-info/METADATA", METADATA + "License: MIT\n" + classifier)
    with pytest.raises(ValueError, match="not permissive"):
        check_licence(Package("tiny-lang", "1.0", "PL", "train", "MIT"), path)
