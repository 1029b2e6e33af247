"""The law N(0, A + σ²I): its arguments, checked, and its Cholesky factor."""

from __future__ import annotations

from numpy.typing import ArrayLike

from gpbounds.arrays import EPS, Array, namespace
from gpbounds.errors import NotPositiveDefinite
from gpbounds.linalg import Cholesky, cholesky
from gpbounds.linalg.matrices import finite_matrix

LOST = 8.0
"""A pivot below so many roundings of the diagonal entry that it is left of has no digit that is true."""


def as_features(features: ArrayLike, N: int) -> Array:
    """Ξ as a finite float64 matrix of N rows."""
    factor = finite_matrix("features", features, "shape (N, r) with r >= 1")
    if factor.shape[0] != N:
        raise ValueError(f"features: expected {N} rows, as K has, got shape {factor.shape}")
    return factor


def shifted(A: Array, amount: float) -> Array:
    """A + amount·I, a new matrix."""
    moved = A.copy()
    diagonal(moved)[...] += amount
    return moved


def diagonal(A: Array) -> Array:
    """The diagonal of a square matrix in row-major memory, as a view that can be written to."""
    return A.reshape(-1)[:: A.shape[0] + 1]


def noisy_factor(name: str, A: Array, noise: float) -> Cholesky:
    """The Cholesky factor of A + σ²I, refused where σ² is lost in the rounding of A's entries.

    Every pivot is at least σ² in exact arithmetic, and carries an error of about eps times its diagonal entry.

    Raises
    ------
    NotPositiveDefinite
        when it does not factorise, or a pivot is nothing but rounding.
    """
    xp = namespace(A)
    moved = shifted(A, noise)
    entries = diagonal(moved).copy()
    factor = cholesky(moved, name=f"{name} + noise I")
    pivots = xp.diagonal(factor.L) ** 2
    if bool((pivots < LOST * EPS * entries).any()):
        raise NotPositiveDefinite(
            f"{name}, noise: expected noise well above the rounding error of the entries of {name}, up to "
            f"{float(entries.max()) * EPS:.3g}, got {noise:.3g}: the law is not known to any digit"
        )
    return factor
