"""A registry finds entries by name, protects the built-in ones, and loads those of installed packages once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from sightline.errors import OptionError
from sightline.metrics import METRICS
from sightline.registry import Registry, origin_of
from tests.plugin_packages import install_plugin, run_with_plugins

METRIC = """
import sightline as sl

@sl.metric(name="{name}", kind="agreement", needs={{"scores", "other_scores"}}, higher_is_better=True,
           summary="The larger score.", citation="None 2000")
def largest(a, b):
    return float(max(a.max(), b.max()))
"""
LIST = "import sightline as sl; print([(m.name, m.origin) for m in sl.list_metrics() if m.origin != 'sightline'])"


@dataclass(frozen=True)
class Thing:
    name: str
    function: Any
    summary: str = "A thing."
    citation: str = "None 2000"

    @property
    def origin(self) -> str:
        return origin_of(self.function)


def define(result: int) -> Any:
    def thing() -> int:
        return result

    return thing


def test_a_function_can_be_defined_again_but_its_name_not_taken_by_another():
    registry: Registry[Thing] = Registry("thing")
    registry.add(Thing("thing", define(1)))
    registry.add(Thing("thing", define(2)))
    assert registry.get("thing").function() == 2
    with pytest.raises(OptionError, match=r"The thing name 'thing' is already taken by tests\.test_registry\."):
        registry.add(Thing("thing", test_a_function_can_be_defined_again_but_its_name_not_taken_by_another))
    assert len(registry) == 1


def test_a_built_in_entry_cannot_be_replaced():
    with pytest.raises(OptionError, match="The metric name 'rbo' is already taken by sightline"):
        METRICS.add(METRICS.get("rbo"))


@pytest.mark.parametrize("name", ["", "two words", "a-b", 3])
def test_a_name_is_an_identifier(name):
    with pytest.raises(OptionError, match="is not a valid thing name"):
        Registry("thing").add(Thing(name, define(1)))


def test_entries_of_an_installed_package_are_listed_with_its_name_and_version(tmp_path):
    install_plugin(tmp_path, "largest_scores", METRIC.format(name="largest"), ("sightline.metrics",))
    done = run_with_plugins(tmp_path, "-c", LIST)
    assert done.stdout.strip() == "[('largest', 'largest_scores 1.2')]"
    assert done.stderr == ""
    # Importing the package first registers the same entry, which its entry point does not register again.
    assert run_with_plugins(tmp_path, "-c", f"import largest_scores; {LIST}").stdout == done.stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("raise RuntimeError('no licence')", "RuntimeError: no licence"),
        ("import a_module_that_is_not_installed", "ModuleNotFoundError: No module named"),
        (METRIC.format(name="rbo"), "OptionError: The metric name 'rbo' is already taken by sightline."),
        (METRIC.format(name="largest") + "1 / 0", "ZeroDivisionError: division by zero"),
    ],
)
def test_a_plugin_that_fails_is_left_out_with_a_warning(tmp_path, source, reason):
    install_plugin(tmp_path, "broken", source, ("sightline.metrics",))
    install_plugin(tmp_path, "sound", METRIC.format(name="sound_metric"), ("sightline.metrics",))
    done = run_with_plugins(tmp_path, "-c", f"{LIST}; {LIST}")
    assert done.stdout == "[('sound_metric', 'sound 1.2')]\n" * 2
    assert done.stderr.count(f"PluginWarning: The plug-in 'broken' (broken 1.2) was not loaded: {reason}") == 1
