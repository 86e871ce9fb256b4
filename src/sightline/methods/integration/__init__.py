"""Integration of gradients along a path: paths, baselines and quadrature rules."""
