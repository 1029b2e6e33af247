"""Pull cotangents of r² = Σ_d (x_d − z_d)²/lengthscale_d² back to inputs and lengthscales; no N × M × D array."""

from __future__ import annotations

from typing import Any

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
    x, z, near = _centred(left, right, expand)
    squares, moved = xp.empty(D), xp.empty((z.shape[0], D), dtype=z.dtype)
    if near.any():
        columns = xp.asarray(np.flatnonzero(near))
        z = z[:, columns]
        squares[columns], moved[:, columns] = _expanded((_table(x[:, columns]).T @ W).T, z)
    for d in np.flatnonzero(~near):
        difference = left[:, d, None] - right[None, :, d]
        weighted = W * difference
        moved[:, d] = weighted.sum(axis=0)
        squares[d] = xp.einsum("ij,ij->", weighted, difference)
    return host(squares), moved


def pull_sums(
    left: Array, right: Array, E: Array, weights: Array, K: Array, a: Array, b: Array
) -> tuple[float, Float, Array]:
    """ΣW, and `pull_distances`, of W_ij = s_i E_ij + K_ij a_i b_j with s = ``weights`` (n,); ``E`` may be overwritten.

    Where a matrix product serves all dimensions, W itself is not computed.

    >>> import numpy as np
    >>> x, z, E, s = np.array([[1.0], [4.0]]), np.array([[2.0]]), np.array([[1.0], [10.0]]), np.array([3.0, 1.0])
    >>> pull_sums(x, z, E, s, E, np.zeros(2), np.zeros(1))
    (13.0, array([43.]), array([[17.]]))
    """
    x, z, near = _centred(left, right, True)
    if not near.all():
        E *= weights[:, None]
        E += K * (a[:, None] * b)
        return float(E.sum()), *pull_distances(left, right, E)
    table = _table(x)
    sums = ((table * weights[:, None]).T @ E).T
    sums += b[:, None] * ((table * a[:, None]).T @ K).T
    squares, moved = _expanded(sums, z)
    return float(sums[:, -1].sum()), host(squares), moved


def _centred(left: Array, right: Array, expand: bool) -> tuple[Array, Array, Any]:
    """x and z about the middle of z, and the dimensions, in host memory, whose sums may be expanded there."""
    middle = right.mean(axis=0)
    x, z = left - middle, right - middle
    reach = host((x * x).max(axis=0) + (z * z).max(axis=0))
    return x, z, expand & (reach <= NEAR)


def _table(x: Array) -> Array:
    """[x, x², 1]."""
    xp = namespace(x)
    return xp.concatenate([x, x * x, xp.ones((x.shape[0], 1), dtype=x.dtype)], axis=1)


def _expanded(sums: Array, z: Array) -> tuple[Array, Array]:
    """Σ_ij W_ij (x_id − z_jd)² and Σ_i W_ij (x_id − z_jd), from ``sums`` = Wᵀ[x, x², 1]."""
    n = z.shape[1]
    first, weights = sums[:, :n], sums[:, -1:]
    return (sums[:, n:-1] + z * (z * weights - 2.0 * first)).sum(axis=0), first - z * weights
