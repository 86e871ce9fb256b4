"""Engines compute the units of a run: in this process, in processes of this machine, or on a Ray cluster."""

from sightline.corpus.engines.protocol import Engine, make_engine

__all__ = ["Engine", "make_engine"]
