"""Rebuild the model that Sightline ships: corpus, vocabulary, weights and card, from one command and a seed.

`python -m tools.builtin_model --seed 0` walks the stages in order, each one module here:

    packages.toml → download → corpus → vocabulary → train (embeddings) → evaluate (shortcuts) → card
"""
