"""Pull cotangents of r² = Σ_d (x_d − z_d)²/lengthscale_d² back to inputs and lengthscales; no N × M × D array."""

from __future__ import annotations

from gpbounds.arrays import Array, Float, host, namespace

NEAR = 1000.0
"""Squared scaled distance from the centre up to which Σ W(x − z)² is expanded; the error is at most 1000 eps Σ W."""


def pull_distances(left: Array, right: Array, W: Array, expand: bool = True) -> tuple[Float, Array]:
    """Σ_ij W_ij (x_id − z_jd)² for each d, and Σ_i W_ij (x_id − z_jd), for x (N, D), z (M, D), W (N, M).

    The function uses one matrix product with [x, x², 1] if this loses no digits, and otherwise a loop over dimensions.

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
    reach = float((x * x).sum(axis=1).max()) + float((z * z).sum(axis=1).max())
    if expand and reach <= NEAR:
        table = xp.concatenate([x, x * x, xp.ones((x.shape[0], 1), dtype=x.dtype)], axis=1)
        sums = (table.T @ W).T
        first, weights = sums[:, :D], sums[:, -1:]
        squares = (sums[:, D:-1] + z * (z * weights - 2.0 * first)).sum(axis=0)
        return host(squares), first - z * weights
    squares = xp.empty(D)
    moved = xp.empty((z.shape[0], D), dtype=z.dtype)
    for d in range(D):
        difference = left[:, d, None] - right[None, :, d]
        weighted = W * difference
        moved[:, d] = weighted.sum(axis=0)
        squares[d] = xp.einsum("ij,ij->", weighted, difference)
    return host(squares), moved
