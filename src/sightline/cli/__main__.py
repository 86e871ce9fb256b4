"""`python -m sightline.cli` is `python -m sightline`, with the same care about the current folder."""

from runpy import run_module

run_module("sightline", run_name="__main__")
