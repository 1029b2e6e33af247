"""Bounds on the extreme eigenvalues of B from Lanczos matrices of random start vectors (N-edge)."""

from __future__ import annotations

import numpy as np
from scipy.special import gammaincinv

from gpbounds.arrays import Float
from gpbounds.linalg.lanczos import Tridiagonal
from gpbounds.linalg.quadrature import Nodes, gauss
from gpbounds.validation import open_unit, scalar

INTERVALS = 26
"""Number of inner ends that are tried for each edge."""


def edges(T: Tridiagonal, *, delta: float) -> tuple[float, float]:
    """a ≤ λ_min(B) and b ≥ λ_max(B), each with probability at least 1 − delta, from start vectors z_j ~ N(0, I).

    With u the eigenvector of λ_min, Σ_j (uᵀz_j)² ~ χ²_m is at least its delta-quantile q with probability 1 − delta.
    Then for every polynomial g ≥ 0 of degree at most 2k − 1 at once

        g(λ_min)·q ≤ Σ_j (uᵀz_j)² g(λ_min) ≤ Σ_j z_jᵀg(B)z_j,

    and Gauss quadrature computes the right-hand side exactly.  g = T_d² of an affine map of [l, h] to [−1, 1], d < k,
    is at most cosh²(d·arcosh) outside [l, h] only where λ_min is near l.  The best of several l, h and d is kept, as q
    does not depend on g, nor on k, which the probes' own values may have decided.  The same holds for λ_max.  a may be
    negative, when it says nothing.

    >>> rng, values = np.random.default_rng(0), np.linspace(0.5, 2.0, 200)
    >>> from gpbounds.linalg.lanczos import Lanczos
    >>> run = Lanczos(lambda V: values[:, None] * V, rng.standard_normal((200, 7)))
    >>> run.advance(24)
    >>> a, b = edges(run.tridiagonal(), delta=0.001)
    >>> bool(0.45 < a <= 0.5 and 2.0 <= b < 2.05)
    True
    """
    share = scalar(open_unit, "delta", delta)
    if T.steps < 2:
        raise ValueError(f"T: expected at least 2 Lanczos steps, got {T.steps}")
    nodes = gauss(T)
    quantile = 2.0 * float(gammaincinv(0.5 * T.squares.size, share))
    low, high = (float(end) for end in _range(nodes))
    below = _outermost(nodes, quantile, T.steps - 1, low, high)
    above = _outermost(Nodes(-nodes.points, nodes.weights), quantile, T.steps - 1, -high, -low)
    return below, -above


def _range(nodes: Nodes) -> tuple[float, float]:
    """The least and the greatest node that has a weight."""
    points = nodes.points[nodes.weights > 0.0]
    return points.min(), points.max()


def _outermost(nodes: Nodes, quantile: float, degree: int, low: float, high: float) -> float:
    """The best lower bound on the least eigenvalue."""
    if high - low <= 1e-6 * abs(high):  # nearly one eigenvalue: any interval around it will do
        low, high = low - 1e-6 * abs(low), high + 1e-6 * abs(high)
    width = high - low
    inner = low + width * np.concatenate([[0.0], np.geomspace(1e-4, 0.5, INTERVALS - 1)])
    best = -np.inf
    for left in inner:
        for right in (high, high + 0.05 * width):
            half, middle = 0.5 * (right - left), 0.5 * (right + left)
            total = float((nodes.weights * _chebyshev(degree, (nodes.points - middle) / half) ** 2).sum())
            reached = np.sqrt(max(total / quantile, 1.0))
            best = max(best, middle - half * float(np.cosh(np.arccosh(reached) / degree)))
    return float(best)


def _chebyshev(degree: int, t: Float) -> Float:
    """|T_d(t)|, where t may lie outside [−1, 1]."""
    outside = np.abs(t) > 1.0
    inner = np.cos(degree * np.arccos(np.where(outside, 0.0, t)))
    return np.where(outside, np.cosh(degree * np.arccosh(np.where(outside, np.abs(t), 1.0))), np.abs(inner))
