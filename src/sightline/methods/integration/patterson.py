"""Gauss-Patterson rules: 1, 3, 7, 15, 31, 63 and 127 nodes, each rule containing all nodes of the one before.

A rule of n > 1 nodes integrates polynomials up to degree (3n + 1)/2 exactly (Patterson 1968), so smooth integrands need
few nodes, and refining a rule costs only its new nodes. The nodes are tabulated; the weights follow from the condition
that every Legendre polynomial P_1 … P_{n−1} integrates to 0 and P_0 to 2.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray

_NEW_NODES: dict[int, tuple[float, ...]] = {
    1: (),
    3: (0.774596669241483377,),
    7: (*(0.434243749346802558, 0.960491268708020283),),
    15: (*(0.223386686428966882, 0.621102946737226403, 0.888459232872256999, 0.993831963212755022),),
    31: (
        *(0.112488943133186626, 0.331135393257976833, 0.531319743644375624, 0.702496206491527079),
        *(0.836725938168868736, 0.929654857429740057, 0.981531149553740107, 0.999098124967667598),
    ),
    63: (
        *(0.05634431304659279, 0.168235251552207465, 0.277749822021824315, 0.383359324198730347),
        *(0.483618026945841028, 0.577195710052045815, 0.662909660024780595, 0.739756044352694759),
        *(0.806940531950217612, 0.863907938193690477, 0.910371156957004292, 0.946342858373402905),
        *(0.972182874748581797, 0.98868475754742948, 0.997206259372221959, 0.999872888120357612),
    ),
    127: (
        *(0.0281846489497456943, 0.0844540400837108837, 0.140424233152560175, 0.195897502711100154),
        *(0.250678730303483177, 0.304576441556714043, 0.357403837831532152, 0.408979821229888672),
        *(0.459130011989832333, 0.507687757533716602, 0.554495132631932549, 0.599403930242242893),
        *(0.642276642509759514, 0.682987431091079228, 0.721423085370098915, 0.757483966380513638),
        *(0.791084933799848361, 0.822156254364980407, 0.85064449476835028, 0.87651341448470527),
        *(0.899744899776940037, 0.920340025470012421, 0.938320397779592884, 0.953730006425761136),
        *(0.966637851558416567, 0.977141514639705714, 0.985371499598520371, 0.991495721178106132),
        *(0.995724104698407189, 0.998316635318407393, 0.999598799671910683, 0.999982430354891599),
    ),
}
"""The positive nodes on [−1, 1] that each rule adds to the one before; all have the node 0."""
SIZES = tuple(_NEW_NODES)


@cache
def nested_rules(largest: int) -> tuple[NDArray[np.float64], NDArray[np.float64], tuple[int, ...]]:
    """Return nodes (N,) and weights (R, N) on [0, 1] of the R rules with at most `largest` nodes, and their sizes.

    The first `size` nodes are those of the rule of that size; its other weights are 0. The smallest rule is
    always among them.
    """
    sizes = tuple(size for size in SIZES if size <= max(largest, SIZES[0]))
    positive = [node for size in sizes for node in _NEW_NODES[size]]
    nodes = np.array([0.0, *(signed for node in positive for signed in (-node, node))])
    weights = np.zeros((len(sizes), len(nodes)))
    for rule, size in enumerate(sizes):
        basis = np.polynomial.legendre.legvander(nodes[:size], size - 1)
        weights[rule, :size] = np.linalg.solve(basis.T, 2.0 * (np.arange(size) == 0))
    return (nodes + 1) / 2, weights / 2, sizes
