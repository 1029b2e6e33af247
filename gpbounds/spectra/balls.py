"""Ky Fan's bounds for a squared exponential kernel on an interval, rounded upwards by construction (N-ritz-sum)."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpbounds.arrays import Float
from gpbounds.rigor import above, at_bits, exact

BITS = 128
"""Bits beyond those that the recurrence of Legendre's polynomials loses, two for each degree."""


def enclosed_tails(g: float, vectors: Float, nodes: int, error: float) -> Float:
    """Upper bounds of 1 − (the M largest Ritz values in n Legendre polynomials), M = 0 ... n, for half width g.

    Parameters
    ----------
    vectors : array (n, n)
        V; the closer to orthonormal eigenvectors of the matrix A = (<e_i, Ke_j>), the sharper, and any gives bounds.
    nodes : int
        Number of Gauss's nodes for A.
    error : float
        Upper bound on their error in each entry of A.

    With f = ‖VᵀV − I‖_F < 1 the M largest Ritz values have at least the sum (1 − f)·Σ_{i<=M} v_iᵀAv_i.

    >>> enclosed_tails(1.0, np.eye(2), 20, 1e-20).round(6)
    array([1.      , 0.236044, 0.039756])
    """
    from flint import arb, arb_mat

    n = vectors.shape[0]
    with at_bits(BITS + 2 * n):
        pairs = [arb.legendre_p_root(nodes, k, weight=True) for k in range(nodes)]
        table = arb_mat([[weight / 2 * value for value in _legendre(x, n)] for x, weight in pairs])
        half = exact(g) * exact(g) / 2
        kernel = arb_mat([[(-half * ((x - y) * (x - y))).exp() for y, _ in pairs] for x, _ in pairs])
        V = arb_mat(vectors.tolist())
        images = table * V
        products = kernel * images
        gram = V.transpose() * V
        deviations = (gram[i, j] - int(i == j) for i in range(n) for j in range(n))
        f = sum((d * d for d in deviations), exact(0.0)).sqrt()
        if not bool(f < 1):
            return np.ones(n + 1)
        kept, tails = exact(0.0), [1.0]
        for i in range(n):
            quotient = sum((images[a, i] * products[a, i] for a in range(nodes)), exact(0.0))
            kept += quotient - n * (1 + f) * exact(error)  # (Σ_j |v_ij|)² <= n|v_i|²
            tails.append(above(1 - (1 - f) * kept))
    return np.array(tails)


def _legendre(x: Any, n: int) -> list[Any]:
    """√(2k+1) P_k(x), k < n, orthonormal under the uniform law on [−1, 1]."""
    values = [x**0, x]
    for k in range(1, n - 1):
        values.append(((2 * k + 1) * x * values[k] - k * values[k - 1]) / (k + 1))
    return [(2 * k + 1 + 0 * x).sqrt() * value for k, value in enumerate(values[:n])]
