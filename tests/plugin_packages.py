"""Installed packages in miniature: a module and the metadata through which Sightline finds it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import sightline

ROOT = Path(__file__).parents[1]


def install_plugin(folder: Path, package: str, source: str, groups: tuple[str, ...]) -> None:
    """Write a package called `package` (version 1.2) and its entry points into `folder`, as an installer would."""
    folder.mkdir(exist_ok=True)
    (folder / f"{package}.py").write_text(source)
    info = folder / f"{package}-1.2.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.2\n")
    (info / "entry_points.txt").write_text("".join(f"[{group}]\n{package} = {package}\n" for group in groups))


def run_with_plugins(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run Python in a new process that sees the packages in `folder`."""
    path = os.pathsep.join([str(folder), str(Path(sightline.__file__).parents[1])])
    environment = {**os.environ, "PYTHONPATH": path, "HF_HUB_OFFLINE": "1"}
    return subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, env=environment, cwd=ROOT, check=False
    )
