"""PrefixPass: one pass over a text of a causal model, presented as passes over its beginnings.

In a causal model nothing before token m depends on what follows it, so one forward over a text contains the forward
over each of its prefixes: hidden states and attention cut to the first m rows and columns. Row t of a continuation is
the prefix that ends before generated token t, explained for that token. Every method sees a trace of the prefix alone,
and its scores are those of a pass over the prefix, to rounding.

Behind the last layer, norm and language-model head read every row by itself, so that one backward through them gives
∂y_t/∂x^L for all rows t at once (each y_t has its own row of x^L); the layers are then differentiated once per row, on
an accelerator for several rows together.

Cost for g rows of n tokens: one forward, one backward through the head, g backwards through the layers, where one pass
per generated token costs g forwards and g backwards through layers and head.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from typing import Any, TypeVar, cast

import numpy as np
import torch
from torch import Tensor

from sightline.attention import DenseAttention
from sightline.errors import UnsupportedError
from sightline.models import Network, Recorder, Target
from sightline.models.observe import DenseRecord
from sightline.models.recording import Padded, Summary
from sightline.models.target import Request
from sightline.passes.forward import Gradients, Pass
from sightline.text import Encoding

T = TypeVar("T")
TOGETHER_BYTES = 1_000_000_000
"""Size of the gradients of layers that are computed together on an accelerator (not measured there).

On a CPU one row at a time is faster: of 512 + 64 tokens on four layers of 256, 16 rows together took 1.35 times as long
and all 64 rows 1.46 times (one run each).
"""


class PrefixPass(Pass):
    """One pass over a text, whose documents are its first `prompt`, `prompt` + 1, … n - 1 tokens.

    Document t is explained for the token that follows it, the generated token t.
    """

    def __init__(self, network: Network, encoding: Encoding, prompt: int, quantity: str | None = None) -> None:
        if not network.family.causal:
            raise UnsupportedError("Only in a causal model is a pass over a text also one over its beginnings.")
        lengths = range(prompt, len(encoding))
        prefixes = [encoding.select(np.arange(length)) for length in lengths]
        requests = [Request(int(encoding.ids[length]), quantity, length - 1) for length in lengths]
        super().__init__(network, prefixes, requests)
        self._cached: dict[tuple[int, Hashable], Any] = {}
        self._seeds: dict[tuple[int, Target], Tensor] = {}
        self._whole: Recorder | None = None
        self._whole_logits: Tensor | None = None

    def longest(self, document: int) -> int:
        """Return the document that all others are prefixes of."""
        return len(self.encodings) - 1

    @property
    def recorder(self) -> Recorder:
        """What the forward pass recorded, as if there were one document per prefix; runs it if necessary."""
        if self._recorder is None:
            whole = Recorder(attention=self._attention, blocks=self._blocks)
            (logits,) = self.network.run([self.encodings[-1]], whole, gradient=self._gradient)
            self._whole, self._whole_logits, self._seeds = whole, logits, {}
            self._logits = [logits[: len(encoding)] for encoding in self.encodings]
            self._recorder = self._as_prefixes(whole)
            self._graph_alive = self._gradient
        return self._recorder

    def gradients(self, document: int, target: Target) -> Gradients:
        """Return ∂y/∂· for one prefix; on an accelerator, prefixes that follow are differentiated with it."""
        self.require("gradients")
        assert self.recorder is not None
        if (document, target) not in self._gradients:
            together = self._rows_together if target == self.target(document) else 1
            following = range(document + 1, min(document + together, len(self.encodings)))
            rows = [(document, target), *((row, self.target(row)) for row in following)]
            self._gradients = dict(zip(rows, self._differentiate(rows), strict=True))
        return self._gradients[document, target]

    def once(self, document: int, key: Hashable, make: Callable[[], T]) -> T:
        """Return make(), cached while its row is explained; what belongs to the longest document stays."""
        if (document, key) not in self._cached:
            made = make()
            self._cached = {k: v for k, v in self._cached.items() if k[0] in (document, self.longest(document))}
            self._cached[document, key] = made
        return cast(T, self._cached[document, key])

    def _as_prefixes(self, whole: Recorder) -> Recorder:
        """Return the record of the longest prefix as one of all of them; tensors are shared, not copied."""
        lengths = tuple(len(encoding) for encoding in self.encodings)

        def repeat(tensor: Tensor) -> Tensor:
            return tensor.expand(len(lengths), *tensor.shape[1:])

        assert whole.embeddings is not None
        return Recorder(
            lengths=lengths,
            attention=whole.attention,
            blocks=whole.blocks,
            layers=[PrefixRecord.of(record, lengths) for record in whole.layers],
            hidden=[repeat(hidden) for hidden in whole.hidden],
            block_outputs=[repeat(output) for output in whole.block_outputs],
            second_inputs=[repeat(output) for output in whole.second_inputs],
            layout=Padded(lengths),
            embeddings=repeat(whole.embeddings),
        )

    @property
    def _rows_together(self) -> int:
        assert self._whole is not None
        if self.network.device.type == "cpu":
            return 1
        recorded = [*self._whole.hidden, *(record.output for record in self._whole.layers)]
        return max(1, TOGETHER_BYTES // sum(tensor.nbytes for tensor in recorded))

    def _differentiate(self, rows: Sequence[tuple[int, Target]]) -> list[Gradients]:
        whole = self._whole
        assert whole is not None
        assert whole.embeddings is not None
        outputs = [record.output for record in whole.layers]
        inputs = [whole.embeddings, *whole.hidden[:-1], *outputs]
        seeds = self._seed(rows)
        top = whole.hidden[-1]
        self.network.backward_passes += len(rows)
        gradients = torch.autograd.grad(top, inputs, seeds, retain_graph=True, allow_unused=True, is_grads_batched=True)
        count = len(self.encodings)

        def of_row(place: int, tensors: Sequence[Tensor | None], likes: Sequence[Tensor]) -> list[Tensor]:
            filled = (torch.zeros_like(x) if g is None else g[place] for g, x in zip(tensors, likes, strict=True))
            return [gradient.expand(count, *gradient.shape[1:]) for gradient in filled]

        hidden = len(whole.hidden)
        return [
            Gradients(
                embeddings=of_row(place, gradients[:1], inputs[:1])[0],
                hidden=[*of_row(place, gradients[1:hidden], inputs[1:hidden]), seeds[place].expand(count, -1, -1)],
                outputs=of_row(place, gradients[hidden:], outputs),
            )
            for place in range(len(rows))
        ]

    def _seed(self, rows: Sequence[tuple[int, Target]]) -> Tensor:
        """Return ∂y_t/∂x^L (rows, 1, n, d): each row of x^L is read by one y_t alone."""
        whole = self._whole
        assert whole is not None
        top = whole.hidden[-1]
        if any(row not in self._seeds for row in rows):
            all_rows = [(row, self.target(row)) for row in range(len(self.encodings))]
            self._seeds |= self._differentiate_head(all_rows if all(row in all_rows for row in rows) else rows)
        seeds = top.new_zeros(len(rows), *top.shape)
        for place, (row, target) in enumerate(rows):
            seeds[place, 0, len(self.encodings[row]) - 1] = self._seeds[row, target]
        return seeds

    def _differentiate_head(self, rows: Sequence[tuple[int, Target]]) -> dict[tuple[int, Target], Tensor]:
        """Return ∂y_t/∂x^L (d,) of the row that y_t reads, for rows with different positions, in one backward."""
        assert self._whole is not None
        assert self._whole_logits is not None
        task, logits, top = self.network.task, self._whole_logits, self._whole.hidden[-1]
        positions = [len(self.encodings[row]) - 1 for row, _ in rows]
        leaves = [logits[position].detach().requires_grad_() for position in positions]
        with torch.enable_grad():
            values = [
                task.value(leaf[None], replace(target, position=0))
                for leaf, (_, target) in zip(leaves, rows, strict=True)
            ]
        seeds = torch.zeros_like(logits)
        for position, gradient in zip(positions, torch.autograd.grad(values, leaves), strict=True):
            seeds[position] = gradient
        (gradient,) = torch.autograd.grad(logits, top, seeds, retain_graph=True)
        return {row: gradient[0, position].clone() for row, position in zip(rows, positions, strict=True)}


class PrefixRecord(DenseRecord):
    """Attention of one layer over a text, as if it were a batch of the text's prefixes.

    The sums that methods ask of every prefix come from one mean over heads and one running sum over rows.
    """

    @classmethod
    def of(cls, record: Any, lengths: tuple[int, ...]) -> PrefixRecord:
        """Return the record of a single document as one of its prefixes; tensors are shared, not copied."""
        assert isinstance(record, DenseRecord)

        def repeat(tensor: Tensor) -> Tensor:
            return tensor.expand(len(lengths), *tensor.shape[1:])

        prefixes = cls(
            repeat(record.weight_batch), repeat(record.value_batch), repeat(record.output), record.mask, lengths
        )
        prefixes._mean = prefixes._running_sum = None
        return prefixes

    _mean: Tensor | None
    _running_sum: Tensor | None

    def summary(self, document: int, readout: Tensor, output_gradient: Tensor | None = None) -> Summary:
        """Sums of A, and of A ⊙ relu(∂y/∂A), over one prefix."""
        n = self.lengths[document]
        weights = self.weight_batch[0].detach()
        if self._mean is None or self._running_sum is None:
            self._mean, self._running_sum = weights.mean(dim=0, keepdim=True), weights.cumsum(dim=1)
        cut = weights[:, :n, :n]
        return Summary(
            mean=DenseAttention(self._mean[:, :n, :n], allowed=self._allowed(document)),
            received=self._running_sum[:, n - 1, :n],
            rows=torch.matmul(readout.to(weights), cut),
            gradient_received=None
            if output_gradient is None
            else (cut * self._gradient(document, output_gradient).relu_()).sum(dim=1),
        )
