"""Systems without the Unix modules `fcntl` and `resource`: everything can be imported, and texts are explained."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import builtins
import importlib
import pkgutil
import sys

found = builtins.__import__


def hide(name, namespace=None, *rest, **named):
    # Other libraries decide by the name of the system, which is still Linux: only ours finds nothing.
    if name in ("fcntl", "resource") and (namespace or {}).get("__name__", "").startswith("sightline"):
        raise ImportError(name)
    return found(name, namespace, *rest, **named)


builtins.__import__ = hide

import sightline as sl

for module in pkgutil.walk_packages(sl.__path__, "sightline."):
    if not module.name.endswith("__main__"):
        importlib.import_module(module.name)

from sightline.text.documents import decode_document
from sightline.files.processes import resident_bytes

explanation = sl.load().explain("The compiler infers the types.")
assert explanation.words()
explanation.save(sys.argv[1] + "/explanation.json")
assert decode_document(b"<p>Some words.</p>", "The page", suffix=".html").text == "Some words.\\n"
store = sl.run([{"text": "The compiler infers the types."}], sl.load(), ["attcat"], out=sys.argv[1] + "/run")
assert store.complete
assert resident_bytes() == 0
"""


@pytest.mark.slow
def test_without_fcntl_and_resource_every_module_is_imported_and_texts_are_explained(tmp_path):
    done = subprocess.run([sys.executable, "-c", PROGRAM, str(tmp_path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
