"""Running a model on a document: forward and backward passes, traces, windows, prefixes, perturbed documents."""
