"""The attention block as a sum over tokens, and norms of its terms. The registered methods are in `alti.py`."""
