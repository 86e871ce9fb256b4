"""Choices that several doors share: Python, command line, server and inspection use the same ones.

Nothing is imported here, so that `sightline --help` can name them without loading a library.
"""

from __future__ import annotations

DEFAULT_METHODS = ("attnlrp", "alti")
"""Methods that explain a document by default; the first one is the default where a single method is used.

Chosen by measurement (docs/trust.md): `attnlrp` is signed, specific to a class, and finds the deciding words of models
whose rule is known; `alti` follows how tokens are mixed, without gradients, and is the second opinion."""
FALLBACK_METHODS = ("attcat",)
"""The same for models on which a default method means nothing or cannot run (`methods.applicability`)."""
UNSEEN_METHODS = ("integrated_gradients", "input_x_gradient")
"""The same for models of which only embeddings and logits are known."""
FUNCTION_METHODS = ("owen", "occlusion")
"""The same for functions, of which only the answers are known."""
INSPECT_METHODS = ("attcat",)
"""Methods that an inspection compares with attention: computed from the pass that records it, at no further cost."""
