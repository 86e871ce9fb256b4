"""Relevance propagation: backward rules and the mode that applies them. The registered methods are in `lrp.py`."""
