"""What users hold: `load` and `Model`, which explains, checks and reports."""
