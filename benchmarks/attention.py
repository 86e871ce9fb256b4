"""One layer of a long document on its band, against the same questions put to the full matrices.

Shape: 4,096 tokens, 12 heads, a window of 512, one global token; random softmax weights in float32. The full form gets
its matrices ready made (the time to build them is reported, not counted) and works head by head, as anyone short of
memory would: top k by sorting every row (or every row of the transpose), received attention by column sums, pictures by
reshaping to blocks. `torch.topk` on the full matrices is measured beside the sort, without a target: it does not keep
the order of equal weights, nor to the positions a token may attend to.
"""

from __future__ import annotations

import torch

from benchmarks import harness
from sightline.attention import BandedAttention

K = 10
PIXELS = 64


def random_layer(tokens: int, heads: int, window: int, seed: int = 0) -> BandedAttention:
    """Softmax weights of random scores on a band of `window` // 2 keys to each side, first token global."""
    generator = torch.Generator().manual_seed(seed)
    reach = window // 2
    scores = torch.randn(heads, tokens, 2 * reach + 2, generator=generator)
    keys = torch.arange(tokens)[:, None] - reach + torch.arange(2 * reach + 1)
    scores[:, :, 1:].masked_fill_((keys < 1) | (keys >= tokens), -torch.inf)  # outside, or the global token
    local = torch.softmax(scores, dim=-1)
    local[:, 0] = 0
    global_rows = torch.softmax(torch.randn(heads, 1, tokens, generator=generator), dim=-1)
    return BandedAttention(local, global_rows, [0])


def sorted_top(matrices: torch.Tensor) -> torch.Tensor:
    """Values of the K largest weights of every row, (heads, n, K), by sorting."""
    best = []
    for matrix in matrices:
        order = torch.argsort(matrix, dim=-1, descending=True)[:, :K]
        best.append(matrix.gather(-1, order))
    return torch.stack(best)


def sorted_top_of_columns(matrices: torch.Tensor) -> torch.Tensor:
    """The same for every column: the transpose is copied first, which is six times faster than sorting down columns."""
    return torch.stack([sorted_top(matrix.T.contiguous()[None])[0] for matrix in matrices])


def block_means(matrices: torch.Tensor) -> torch.Tensor:
    """Pictures of PIXELS × PIXELS; the number of tokens is a multiple of PIXELS here."""
    heads, n, _ = matrices.shape
    return matrices.view(heads, PIXELS, n // PIXELS, PIXELS, n // PIXELS).mean((2, 4))


def ask_band(layer: BandedAttention) -> None:
    """All four questions, to the band."""
    layer.top_attended(K)
    layer.top_attending(K)
    layer.received()
    layer.image(PIXELS)


def ask_matrices(layer: BandedAttention) -> None:
    """All four questions, to the full matrices, which have to be made first."""
    matrices = torch.from_numpy(layer.dense())
    sorted_top(matrices)
    sorted_top_of_columns(matrices)
    matrices.sum(1)
    block_means(matrices)


def prepare_band(**shape: int) -> harness.Work:
    """For the measurement of memory; a small layer first, so that loading the compiled kernels is not counted."""
    ask_band(random_layer(tokens=64, heads=1, window=4))
    layer = random_layer(**shape)
    return lambda: ask_band(layer)


def prepare_matrices(**shape: int) -> harness.Work:
    """For the measurement of memory."""
    ask_matrices(random_layer(tokens=64, heads=1, window=4))
    layer = random_layer(**shape)
    return lambda: ask_matrices(layer)


def main() -> None:
    """Compare, check that both forms agree, report."""
    report = harness.start("attention", __doc__)
    shape = {"tokens": 512, "heads": 4, "window": 64} if report.quick else {"tokens": 4096, "heads": 12, "window": 512}
    report.fact("shape", shape)
    layer = random_layer(**shape)
    matrices = torch.from_numpy(layer.dense())
    report.fact("building the matrices, s", harness.median_seconds(layer.dense, 1))

    attended = torch.from_numpy(layer.top_attended(K).values)
    attending = torch.from_numpy(layer.top_attending(K).values)
    received, image = torch.from_numpy(layer.received()), torch.from_numpy(layer.image(PIXELS))
    report.fact(
        "largest difference",
        {
            "top_attended": float((attended - sorted_top(matrices)).abs().max()),
            "top_attending": float((attending - sorted_top_of_columns(matrices)).abs().max()),
            "received": float((received - matrices.sum(1)).abs().max()),
            "image": float((image - block_means(matrices)).abs().max()),
        },
    )

    def attend() -> object:
        return layer.top_attended(K)

    report.compare("top_attended", ours=attend, reference=lambda: sorted_top(matrices), target=30)
    report.compare("top_attended, torch.topk", ours=attend, reference=lambda: matrices.topk(K), reference_repeats=3)
    report.compare(
        "top_attending",
        ours=lambda: layer.top_attending(K),
        reference=lambda: sorted_top_of_columns(matrices),
        target=30,
    )
    often = {"repeats": 9, "reference_repeats": 9}
    report.compare("received", ours=layer.received, reference=lambda: matrices.sum(1), target=3, **often)
    report.compare("image", ours=lambda: layer.image(PIXELS), reference=lambda: block_means(matrices), **often)
    report.memory("band", "benchmarks.attention:prepare_band", **shape)
    report.memory("full matrices", "benchmarks.attention:prepare_matrices", **shape)
    report.finish()


if __name__ == "__main__":
    main()
