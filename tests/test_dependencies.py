"""What is imported is declared, what is declared is bounded, and pins and hashes agree."""

from __future__ import annotations

from packaging.utils import canonicalize_name

from tools.dependencies import LICENCES, closure, declared, licence, problems


def test_declarations_pins_and_hashes_agree():
    assert list(problems()) == []


def test_the_licence_of_every_direct_dependency_is_listed():
    listed = LICENCES.read_text()
    packages = closure(declared(development=False))
    for name in sorted({canonicalize_name(requirement.name) for requirement in declared(development=False)}):
        if name in packages:  # an extra may be absent
            assert licence(packages[name]) != "not stated", name
            assert f"| {packages[name].name} |" in listed
