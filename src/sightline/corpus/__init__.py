"""corpus: data sets from files, folders and the hub."""

from sightline.corpus.readers import read_dataset, read_examples

__all__ = ["read_dataset", "read_examples"]
