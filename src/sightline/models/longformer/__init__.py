"""Longformer: the exact banded attention, its kernel, and the encoder that replaces the one in transformers."""
