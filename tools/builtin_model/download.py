"""Fetch the pinned wheels with pip and check what licence each one states. Nothing is installed, imported or run.

Wheels only: they unpack as zip files, while fetching a source archive would let pip run the package's build script.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tools.builtin_model.packages import Package, is_permissive, normalised, stated_licence, wheel_metadata


def find_wheel(package: Package, folder: Path) -> Path | None:
    """Return the wheel of exactly this package and version in `folder`, if it is there."""
    for wheel in sorted(folder.glob("*.whl")):
        name, version = wheel.name.split("-")[:2]
        if normalised(name) == normalised(package.name) and version == package.version:
            return wheel
    return None


def fetch(package: Package, folder: Path) -> Path:
    """Return the package's wheel, downloaded if it is not there yet."""
    if wheel := find_wheel(package, folder):
        return wheel
    pin = f"{package.name}=={package.version}"
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:"]
    done = subprocess.run([*command, "--dest", str(folder), pin], capture_output=True, text=True, check=False)
    wheel = find_wheel(package, folder)
    if done.returncode or wheel is None:
        raise RuntimeError(f"pip could not download {pin}: {done.stderr.strip()[-500:]}")
    return wheel


def check_licence(package: Package, wheel: Path) -> None:
    """Refuse a wheel that states no permissive licence, or another one than the list says."""
    stated = stated_licence(wheel_metadata(wheel))
    if not is_permissive(stated):
        raise ValueError(f"{wheel.name} states the licence {stated!r}, which is not permissive. Take it off the list.")
    if stated != package.licence:
        raise ValueError(f"{wheel.name} states the licence {stated!r}, packages.toml says {package.licence!r}.")


def download(packages: Sequence[Package], folder: Path, log: Callable[[str], None] = print) -> dict[str, Path]:
    """Fetch all packages, four at a time; return the wheel of each by package name."""
    folder.mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor(4) as pool:
        wheels = list(pool.map(lambda package: fetch(package, folder), packages))
    for package, wheel in zip(packages, wheels, strict=True):
        check_licence(package, wheel)
    log(f"{len(wheels)} wheels, {sum(wheel.stat().st_size for wheel in wheels) / 1e6:.0f} MB, licences checked")
    return {package.name: wheel for package, wheel in zip(packages, wheels, strict=True)}
