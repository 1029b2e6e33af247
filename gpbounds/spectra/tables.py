"""Values at whole numbers M from tables whose length depends on M alone, so that they do not depend on other calls."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from gpbounds.arrays import Float


def table_size(M: Float | int, first: int) -> Float:
    """The least power of two that is >= M and >= ``first``, itself a power of two.

    >>> table_size(np.array([0.0, 64.0, 65.0]), 64)
    array([ 64.,  64., 128.])
    """
    share, exponent = np.frexp(np.maximum(M, float(first)))
    return np.ldexp(1.0, exponent - (share == 0.5))


def looked_up(M: Float, first: int, table: Callable[[int], Float]) -> Float:
    """table(s)[M] for s = `table_size`, entry by entry; the last entry of the table beyond it."""
    sizes, result = table_size(M, first), np.empty(M.shape)
    for size in np.unique(sizes):
        here, values = sizes == size, table(int(size))
        result[here] = values[np.minimum(M[here], values.size - 1.0).astype(np.int64)]
    return result
