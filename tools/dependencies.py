"""Pins, hashes and licences of everything that is installed: `make lock` writes them, `--check` compares them offline.

constraints.txt       exact versions of all direct and transitive dependencies; `make install` keeps to them
requirements.lock     the same with the hash of each archive for Linux x86-64 and Python 3.11, for CI (`make locked`);
                      torch is left out: it is installed first, from whichever index offers the CPU build
docs/licences.md      the licence of every package that the wheel pulls in

The versions are those of the environment that runs this program, so: install, test, then lock.
"""

from __future__ import annotations

import argparse
import ast
import json
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterable, Iterator
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
CONSTRAINTS = ROOT / "constraints.txt"
LOCK = ROOT / "requirements.lock"
LICENCES = ROOT / "docs" / "licences.md"
PROJECT = "sightline-xai"
UNHASHED = "torch"
IMPORT_NAMES = {"sklearn": "scikit-learn", "stop_words": "stop-words", "huggingface_hub": "huggingface-hub"}
"""Distributions whose modules have another name."""
_TORCH_REASON = "# A CPU build is enough for everything here; other releases may pull in gigabytes of GPU libraries."


def declared(*, development: bool) -> list[Requirement]:
    """Return what pyproject.toml requires: the base, the extras for users and, if requested, those of developers."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    texts = list(project["dependencies"])
    for extra, listed in project["optional-dependencies"].items():
        if development or extra not in {"dev", "docs"}:
            texts += listed
    requirements = (Requirement(text) for text in texts)
    return [requirement for requirement in requirements if requirement.name != PROJECT]


def closure(requirements: Iterable[Requirement]) -> dict[str, metadata.Distribution]:
    """Return the installed distributions that the requirements lead to, by canonical name."""
    distributions: dict[str, metadata.Distribution] = {}
    waiting = list(requirements)
    while waiting:
        requirement = waiting.pop()
        name = canonicalize_name(requirement.name)
        environments = [{"extra": extra} for extra in (requirement.extras or {""})]
        try:
            distribution = metadata.distribution(name)
        except metadata.PackageNotFoundError:
            continue  # optional, and not installed here
        seen = name in distributions
        distributions[name] = distribution
        if seen and not requirement.extras:
            continue
        for text in distribution.requires or []:
            inner = Requirement(text)
            wanted = inner.marker is None or any(inner.marker.evaluate(environment) for environment in environments)
            if wanted and not (canonicalize_name(inner.name) in distributions and not inner.extras):
                waiting.append(inner)
    return dict(sorted(distributions.items()))


def write_constraints(packages: dict[str, metadata.Distribution]) -> None:
    """Pin every package at its installed version."""
    lines = [f"{name}=={_public(package.version)}" for name, package in packages.items() if name != UNHASHED]
    text = [
        "# Written by `make lock`: the versions that the tests ran with.",
        _TORCH_REASON,
        f"torch=={_public(packages['torch'].version)}",
        *lines,
    ]
    CONSTRAINTS.write_text("\n".join(text) + "\n")


def write_lock(packages: dict[str, metadata.Distribution]) -> None:
    """Write version and hash of the archive that pip chooses for every package."""
    wanted = [f"{name}=={package.version}" for name, package in packages.items() if name != UNHASHED]
    with tempfile.NamedTemporaryFile(suffix=".json") as report:
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--ignore-installed", "--no-deps"]
        subprocess.run([*command, "--report", report.name, *wanted], check=True)
        chosen = json.loads(Path(report.name).read_text())["install"]
    hashes = {
        canonicalize_name(entry["metadata"]["name"]): (
            entry["metadata"]["version"],
            entry["download_info"]["archive_info"]["hashes"]["sha256"],
        )
        for entry in chosen
    }
    lines = [f"{name}=={version} --hash=sha256:{digest}" for name, (version, digest) in sorted(hashes.items())]
    LOCK.write_text("# Written by `make lock` for Linux x86-64 and Python 3.11.\n" + "\n".join(lines) + "\n")


def write_licences(packages: dict[str, metadata.Distribution]) -> None:
    """List the licence of every package that a user installs."""
    rows = [f"| {package.name} | {package.version} | {licence(package)} |" for package in packages.values()]
    LICENCES.write_text(
        "# Licences of the dependencies\n\n"
        "Everything that `pip install 'sightline-xai[all]'` brings, as the packages themselves state it.\n"
        "Written by `make lock`.\n\n"
        "| package | version | licence |\n|---|---|---|\n" + "\n".join(rows) + "\n"
    )


def licence(package: metadata.Distribution) -> str:
    """Return the licence that a package states: its SPDX expression, else its classifiers, else its own words."""
    facts = package.metadata
    if facts.get("License-Expression"):
        return str(facts["License-Expression"])
    classifiers = [c.rpartition(" :: ")[2] for c in facts.get_all("Classifier") or [] if c.startswith("License ::")]
    named = [c for c in classifiers if c != "OSI Approved"]
    if named:
        return "; ".join(named)
    words = (facts.get("License") or "").strip().splitlines()
    return words[0][:60] if words else "not stated"


def required_modules() -> Iterator[tuple[str, str, Path]]:
    """Yield every module that the package asks for with `require`, with its extra and the file that does."""
    for path in sorted((ROOT / "src").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "require":
                module, extras = node.args[:2]
                if isinstance(module, ast.Constant) and isinstance(extras, ast.Constant):
                    yield module.value.partition(".")[0], extras.value, path


def imported_modules() -> Iterator[tuple[str, Path]]:
    """Yield every third-party module that the package imports, with the file that does."""
    for path in sorted((ROOT / "src").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
                names = [node.module]
            else:
                continue
            for name in names:
                module = name.partition(".")[0]
                if module not in sys.stdlib_module_names and not module.startswith("sightline"):
                    yield module, path


def problems() -> Iterator[str]:
    """Yield what is wrong with declarations and pins, without using the network."""
    users = {canonicalize_name(requirement.name) for requirement in declared(development=False)}
    for module, path in sorted(set(imported_modules())):
        if canonicalize_name(IMPORT_NAMES.get(module, module)) not in users:
            yield f"{path.relative_to(ROOT)} imports {module}, which pyproject.toml does not declare"
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    for module, names, path in required_modules():
        offered = {canonicalize_name(Requirement(text).name) for name in names.split(",") for text in extras[name]}
        if canonicalize_name(module) not in offered:
            yield f"{path.relative_to(ROOT)} requires {module}, which the extra '{names}' does not bring"
    pins = _pins(CONSTRAINTS)
    for requirement in declared(development=True):
        name = canonicalize_name(requirement.name)
        if not any(specifier.operator in ("<", "<=", "==", "~=") for specifier in requirement.specifier):
            yield f"{name} has no upper bound"
        if name in pins and not requirement.specifier.contains(pins[name], prereleases=True):
            yield f"constraints.txt pins {name} {pins[name]}, outside {requirement.specifier}"
    locked = _pins(LOCK)
    for name in sorted((set(pins) | set(locked)) - {UNHASHED}):
        if pins.get(name) != locked.get(name):
            yield f"{name} is pinned at {pins.get(name)} and locked at {locked.get(name)}"
    for line in LOCK.read_text().splitlines():
        if not line.startswith("#") and " --hash=sha256:" not in line:
            yield f"requirements.lock has no hash for {line}"


def main() -> int:
    """Write the three files, or check them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing, ask nobody, and list what is wrong")
    if not parser.parse_args().check:
        everything = closure(declared(development=True))
        write_constraints(everything)
        write_lock(everything)
        write_licences(closure(declared(development=False)))
    wrong = list(problems())
    for problem in wrong:
        print(problem)
    return int(bool(wrong))


def _pins(path: Path) -> dict[str, str]:
    pins = {}
    for line in path.read_text().splitlines():
        if line and not line.startswith("#"):
            name, _, version = line.partition(" ")[0].partition("==")
            pins[canonicalize_name(name)] = version
    return pins


def _public(version: str) -> str:
    """Return a version without its local part ("+cpu"), which other indexes do not have."""
    return version.partition("+")[0]


if __name__ == "__main__":
    sys.exit(main())
