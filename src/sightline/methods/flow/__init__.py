"""Maximum flow through the attention graph: bounds, graph, kernel, solver. The registered method: `max_flow.py`."""
