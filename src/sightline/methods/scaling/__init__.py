"""Scaling of scores: to shares that sum to 1, and by the receptive field of causal models."""
