"""The page of a generated text: click a generated word, see the words behind it."""

from sightline.view.continuation.page import POLICY, render_continuation, render_fragment

__all__ = ["POLICY", "render_continuation", "render_fragment"]
