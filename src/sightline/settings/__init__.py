"""What can be chosen: defaults and the checks of values. Imports neither torch nor transformers."""
