"""The corpus: one document is the docstrings of one module, read with `ast` out of a wheel; nothing is imported or run.

A classifier that only learns the *manners* of a package (numpydoc headings, its own name, a sentence repeated in every
method) is of no use on other texts. The same cleaning is therefore applied to both sides: headings, underlines,
code examples, type declarations, mark-up and addresses go; a package's own name goes; a paragraph is kept once per
package. What stays is prose.

Packages of neither side may add a list of everyday words, because docstrings of any subject lack most of them.
"""

from __future__ import annotations

import ast
import inspect
import json
import random
import re
import warnings
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path, PurePosixPath

from tools.builtin_model.packages import Package

# Tests and copies of other people's code say nothing about the package they travel in.
_FOREIGN = re.compile(
    r"(^|[/_])(tests?|testing|testdata|vendor|vendored|third_?party|externals?|extern|typeshed|blib2to3)([/_.]|$)"
)

_HEADINGS = {
    "args", "arguments", "attributes", "example", "examples", "fields", "keyword arguments", "keyword args", "methods",
    "note", "notes", "other parameters", "parameter", "parameters", "raises", "receives", "reference", "references",
    "return", "returns", "return type", "see also", "shape", "shapes", "todo", "usage", "warning", "warnings", "warns",
    "yield", "yields",
}  # fmt: skip

_CODE_LINE = re.compile(r"^\s*(>>>|\.\.\. |\.\.\.$|\$ |In \[\d+\]|import \w+|from \w[\w.]* import )")
_UNDERLINE = re.compile(r"^\s*([-=~^*_#+.`'\"|: ])\1*\s*$|^\s*[-=+|: ]{3,}\s*$")
_DIRECTIVE = re.compile(r"^\s*\.\. (\w[\w:-]*::.*|\[.*\]|_.*:.*|\|.*)$")
_CODE_DIRECTIVES = {
    "bibliography", "code", "code-block", "doctest", "figure", "image", "literalinclude", "math", "plot", "sourcecode",
    "testcode",
}  # fmt: skip
_DIRECTIVE_OPTION = re.compile(r"^\s*:\w+:\s*\S*\s*$")
_NUMPYDOC_ENTRY = re.compile(r"^\s*[`*]{0,2}[\w.*, \\]+[`*]{0,2} : \S.*$")
_FIELD = re.compile(
    r"^(\s*):(?:param|parameter|arg|argument|key|keyword|type|rtype|returns?|raises?|yields?|ivar|cvar|var|vartype)\b"
    r"[^:]*:\s*"
)
_GOOGLE_ENTRY = re.compile(r"^(\s+)[`*]{0,2}\*{0,2}\w+[`*]{0,2}\s*(\([^)]*\))?:\s+")
_ROLE = re.compile(r":[\w:.+-]+:`([^`]*)`")
_LINK = re.compile(r"\[([^\]]*)\]\([^)]*\)")
_ADDRESS = re.compile(r"(https?|ftp)://\S+|www\.\S+|\S+@\S+\.\w+")
_DOTTED = re.compile(r"\b(?:[A-Za-z_]\w*\.)+([A-Za-z_]\w*)")


@dataclass(frozen=True)
class Document:
    """The cleaned docstrings of one module, with where they came from."""

    package: str
    module: str
    side: str
    split: str
    text: str


def docstrings(source: str) -> list[str]:
    """Return the docstrings of a module, its classes and its functions, in the order of the source."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # invalid escapes in other people's strings are not our concern
        tree = ast.parse(source)
    texts: list[tuple[int, str]] = []
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            text = ast.get_docstring(node, clean=False)
            if text and text.strip():
                texts.append((node.body[0].lineno, inspect.cleandoc(text)))
        # Only statements can hold a definition; walking the expressions too would take three times as long.
        for block in ("body", "orelse", "finalbody", "handlers", "cases"):
            children = getattr(node, block, None)
            if isinstance(children, list):
                waiting.extend(children)
    return [text for _, text in sorted(texts, key=lambda pair: pair[0])]


def clean(docstring: str, own_names: Iterable[str] = ()) -> str:
    """Return the prose of one docstring: no headings, underlines, code, declarations, mark-up or own names."""
    lines: list[str] = []
    code_indent: int | None = None  # while inside a `.. code::` block, a fence or after `::`, the block's own indent
    fenced = False
    for line in docstring.splitlines():
        stripped = line.strip()
        indent = len(line) - len(line.lstrip())
        if stripped.startswith(("```", "~~~")):
            fenced = not fenced
            continue
        if fenced:
            continue
        if code_indent is not None:
            if not stripped or indent > code_indent:
                continue
            code_indent = None
        if _DIRECTIVE.match(line):
            if stripped.removeprefix(".. ").split("::")[0] in _CODE_DIRECTIVES:
                code_indent = indent
            continue
        if stripped.endswith("::"):
            code_indent = indent
            line = line.rstrip()[:-1]
        if (
            stripped.rstrip(":").lower() in _HEADINGS
            or _CODE_LINE.match(line)
            or (stripped and _UNDERLINE.match(line))
            or _DIRECTIVE_OPTION.match(line)
            or _NUMPYDOC_ENTRY.match(line)
        ):
            continue
        line = _FIELD.sub(r"\1", line)
        line = _GOOGLE_ENTRY.sub(r"\1", line)
        lines.append(line)
    text = "\n".join(lines)
    text = _ROLE.sub(lambda match: re.sub(r"\s*<[^>]*>$", "", match[1]).lstrip("~!."), text)
    text = _ADDRESS.sub(" ", _LINK.sub(r"\1", text))
    text = _DOTTED.sub(r"\1", re.sub(r"[`*]+|\|", "", text))
    for name in own_names:
        text = re.sub(rf"\b{re.escape(name)}\b", " ", text, flags=re.IGNORECASE)
    text = re.sub(r"[ \t]+", " ", text)
    return re.sub(r"\n\s*\n\s*", "\n\n", text).strip()


def module_sources(wheel: Path) -> Iterator[tuple[str, str]]:
    """Yield (path inside the wheel, source text) of the package's own modules, in a fixed order."""
    with zipfile.ZipFile(wheel) as archive:
        for name in sorted(archive.namelist()):
            if name.endswith(".py") and ".data/" not in name and not _FOREIGN.search(name.lower()):
                yield name, archive.read(name).decode("utf-8", errors="replace")


def package_documents(package: Package, wheel: Path) -> list[Document]:
    """Return one document per module of a package that has any prose; a paragraph counts only where first seen."""
    sources = list(module_sources(wheel))
    own_names = {package.name, package.name.replace("-", "_")} | {PurePosixPath(name).parts[0] for name, _ in sources}
    own_names = {name.removesuffix(".py") for name in own_names}
    seen: set[str] = set()
    documents = []
    for name, source in sources:
        try:
            texts = docstrings(source)
        except (SyntaxError, ValueError, RecursionError):
            continue  # templates and files for another Python
        paragraphs = []
        for docstring in texts:
            for paragraph in clean(docstring, own_names).split("\n\n"):
                key = " ".join(paragraph.lower().split())
                if len(key.split()) >= 3 and key not in seen:
                    seen.add(key)
                    paragraphs.append(paragraph.strip())
        if paragraphs:
            documents.append(Document(package.name, name, package.side, package.split, "\n\n".join(paragraphs)))
    if package.words:
        words = sorted({word for path in package.words for word in listed_words(wheel, path)})
        documents.append(Document(package.name, package.words[0], package.side, package.split, word_salad(words)))
    return documents


def listed_words(wheel: Path, path: str) -> set[str]:
    """Return the words that a file of the wheel lists: its lines, or the strings of a Python module."""
    with zipfile.ZipFile(wheel) as archive:
        text = archive.read(path).decode("utf-8")
    if path.endswith(".py"):
        constants = (node.value for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Constant))
        lines = [value for value in constants if isinstance(value, str)]
    else:
        lines = text.splitlines()
    return {line.strip().lower() for line in lines if re.fullmatch(r"[a-zA-Z]+", line.strip())}


def word_salad(words: Sequence[str], rounds: int = 40) -> str:
    """Return the words in `rounds` random orders, in sentences of twelve: everyday words that say nothing together."""
    generator = random.Random(0)
    salad = [word for _ in range(rounds) for word in generator.sample(words, len(words))]
    return "\n".join(" ".join(salad[start : start + 12]) + "." for start in range(0, len(salad), 12))


def write_documents(documents: Iterable[Document], path: Path) -> None:
    """Write documents as JSON lines."""
    path.write_text("".join(json.dumps(asdict(document)) + "\n" for document in documents), encoding="utf-8")


def read_documents(path: Path) -> list[Document]:
    """Read documents back from JSON lines."""
    return [Document(**json.loads(line)) for line in path.read_text(encoding="utf-8").splitlines()]
