"""Pull cotangents of r² = Σ_d (x_d − z_d)²/lengthscale_d² back to inputs and lengthscales; no N × M × D array."""

from __future__ import annotations

import numpy as np

from gpbounds.arrays import Array, Float, host, namespace

NEAR = 1000.0
"""Squared scaled distance from the centre, in one dimension, up to which Σ W(x − z)² is expanded there; the error is at
most 1000 eps Σ W."""


def pull_distances(left: Array, right: Array, W: Array, expand: bool = True) -> tuple[Float, Array]:
    """Σ_ij W_ij (x_id − z_jd)² for each d, and Σ_i W_ij (x_id − z_jd), for x (N, D), z (M, D), W (N, M).

    One matrix product with [x, x², 1] serves all dimensions in which this loses no digits; the others take turns.

    Returns
    -------
    array (D,), in host memory
    array (M, D)

    >>> import numpy as np
    >>> squares, sums = pull_distances(np.array([[1.0], [4.0]]), np.array([[2.0]]), np.array([[1.0], [10.0]]))
    >>> squares, sums
    (array([41.]), array([[19.]]))
    """
    xp, D = namespace(left, right, W), left.shape[1]
    middle = right.mean(axis=0)
    x, z = left - middle, right - middle
    reach = host((x * x).max(axis=0) + (z * z).max(axis=0))
    near = expand & (reach <= NEAR)
    squares, moved = xp.empty(D), xp.empty((z.shape[0], D), dtype=z.dtype)
    if near.any():
        columns = xp.asarray(np.flatnonzero(near))
        x, z, n = x[:, columns], z[:, columns], columns.size
        table = xp.concatenate([x, x * x, xp.ones((x.shape[0], 1), dtype=x.dtype)], axis=1)
        sums = (table.T @ W).T
        first, weights = sums[:, :n], sums[:, -1:]
        squares[columns] = (sums[:, n:-1] + z * (z * weights - 2.0 * first)).sum(axis=0)
        moved[:, columns] = first - z * weights
    for d in np.flatnonzero(~near):
        difference = left[:, d, None] - right[None, :, d]
        weighted = W * difference
        moved[:, d] = weighted.sum(axis=0)
        squares[d] = xp.einsum("ij,ij->", weighted, difference)
    return host(squares), moved
