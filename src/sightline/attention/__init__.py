"""Attention: the weights of one layer as an operator, with one protocol and three layouts."""

from sightline.attention.banded import BandedAttention
from sightline.attention.dense import DenseAttention
from sightline.attention.protocol import Attention, TopK
from sightline.attention.streamed import StreamedAttention

__all__ = ["Attention", "BandedAttention", "DenseAttention", "StreamedAttention", "TopK"]
