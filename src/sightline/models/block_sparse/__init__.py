"""BigBird's block-sparse attention, computed so that it can be observed."""
