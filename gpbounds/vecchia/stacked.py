"""Products with a block Vecchia factor on a GPU: all row blocks at once, with nothing read or uploaded for a product.

The row blocks are padded with zeros to one shape and lie in one array.  Uᵀw is a sum over the blocks that hold a row,
which one thread adds up in the order of the blocks, so that results do not vary.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from gpbounds.arrays import Array
from gpbounds.vecchia.blocks import Blocks

SUM = """
double total = 0.0;
long long row = i / m, column = i % m;
for (long long j = starts[row]; j < starts[row + 1]; ++j) total += parts[places[j] * m + column];
out = total;
"""


@lru_cache
def _summed() -> Any:
    import cupy

    inputs = "raw float64 parts, raw int64 starts, raw int64 places, int64 m"
    return cupy.ElementwiseKernel(inputs, "float64 out", SUM, "summed")


class Stacked:
    """V ↦ UV and V ↦ UᵀV for CuPy arrays V (N, m); the weights are those of `gpbounds.vecchia.Factor`."""

    def __init__(self, blocks: Blocks, weights: Sequence[Array]) -> None:
        import cupy

        sizes = [part.stop - part.start for part in blocks.parts]
        columns = [int(W.shape[1]) for W in weights]
        count, b, c = len(weights), max(sizes), max(columns)
        self.weights = cupy.zeros((count, b, c))
        rows = np.zeros((count, c), dtype=np.int64)  # of V, for each column; padding has the weight 0
        for j, (W, used) in enumerate(zip(weights, blocks.rows, strict=True)):
            self.weights[j, : sizes[j], : columns[j]] = W
            rows[j, : columns[j]] = used
        numbers = np.arange(count)
        own = np.concatenate([j * b + np.arange(size) for j, size in zip(numbers, sizes, strict=True)])  # of UV
        padded = np.zeros((count, b), dtype=np.int64)
        for j, part in enumerate(blocks.parts):
            padded[j, : sizes[j]] = np.arange(part.start, part.stop)
        used = np.concatenate([j * c + np.arange(size) for j, size in zip(numbers, columns, strict=True)])
        order = np.argsort(rows.reshape(-1)[used], kind="stable")
        N = own.size
        starts = np.concatenate([[0], np.cumsum(np.bincount(rows.reshape(-1)[used], minlength=N))])
        moved = cupy.asarray(np.concatenate([rows.reshape(-1), own, padded.reshape(-1), starts, used[order]]))
        ends = np.cumsum([rows.size, own.size, padded.size, starts.size])
        self.rows, self.own = moved[: ends[0]].reshape(count, c), moved[ends[0] : ends[1]]
        self.padded, self.starts = moved[ends[1] : ends[2]].reshape(count, b), moved[ends[2] : ends[3]]
        self.places = moved[ends[3] :]

    def times(self, V: Array) -> Array:
        """UV."""
        count, b, _ = self.weights.shape
        return (self.weights @ V[self.rows]).reshape(count * b, V.shape[1])[self.own]

    def transposed_times(self, V: Array) -> Array:
        """UᵀV."""
        import cupy

        parts = self.weights.swapaxes(1, 2) @ V[self.padded]
        return _summed()(parts, self.starts, self.places, V.shape[1], cupy.empty(V.shape))
