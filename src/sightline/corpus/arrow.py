"""Arrow, which all tables of a run are read and written with: part of the extra `corpus`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sightline.settings.extras import require

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.compute as pc
    from pyarrow import dataset
else:
    pa, pc, dataset = (
        require(module, "corpus", "Storing results in tables")
        for module in ("pyarrow", "pyarrow.compute", "pyarrow.dataset")
    )

__all__ = ["dataset", "pa", "pc"]
