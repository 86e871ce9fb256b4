"""Attention: the weights of one layer as an operator, with one protocol and two layouts."""

from sightline.attention.banded import BandedAttention
from sightline.attention.dense import DenseAttention
from sightline.attention.protocol import Attention, TopK

__all__ = ["Attention", "BandedAttention", "DenseAttention", "TopK"]
