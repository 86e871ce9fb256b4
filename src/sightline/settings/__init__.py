"""Options: declarations, defaults and checks of values. Imports neither torch nor transformers."""
