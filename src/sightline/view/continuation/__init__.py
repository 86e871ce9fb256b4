"""The page of a generated text: click a generated word, see the words behind it."""

from sightline.view.continuation.page import render_continuation, render_fragment

__all__ = ["render_continuation", "render_fragment"]
