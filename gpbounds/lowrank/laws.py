"""The law N(0, A + σ²I): argument checks and its Cholesky factor."""

from __future__ import annotations

from numpy.typing import ArrayLike

from gpbounds.arrays import EPS, Array, namespace
from gpbounds.errors import NotPositiveDefinite
from gpbounds.linalg import Cholesky, cholesky
from gpbounds.linalg.matrices import finite_matrix

LOST = 8.0
"""A pivot has no correct digit if it is below this multiple of eps times the diagonal entry of its row."""


def as_features(features: ArrayLike, N: int) -> Array:
    """Ξ as a finite float64 matrix of N rows."""
    factor = finite_matrix("features", features, "shape (N, r) with r >= 1")
    if factor.shape[0] != N:
        raise ValueError(f"features: expected {N} rows, as K has, got shape {factor.shape}")
    return factor


def shifted(A: Array, amount: float) -> Array:
    """A + amount·I, a new matrix."""
    result = A.copy()
    diagonal(result)[...] += amount
    return result


def diagonal(A: Array) -> Array:
    """The diagonal of a square row-major matrix, as a writable view."""
    return A.reshape(-1)[:: A.shape[0] + 1]


def noisy_factor(name: str, A: Array, noise: float) -> Cholesky:
    """The Cholesky factor of A + σ²I; an error if σ² is below the rounding error of A's entries.

    In exact arithmetic every pivot is at least σ²; its rounding error is about eps times its diagonal entry.

    Raises
    ------
    NotPositiveDefinite
        if A + σ²I does not factorise, or if a pivot has no correct digit.
    """
    xp = namespace(A)
    noisy = shifted(A, noise)
    entries = diagonal(noisy).copy()
    factor = cholesky(noisy, name=f"{name} + noise I")
    pivots = xp.diagonal(factor.L) ** 2
    if bool((pivots < LOST * EPS * entries).any()):
        raise NotPositiveDefinite(
            f"{name}, noise: expected noise well above the rounding error of the entries of {name}, up to "
            f"{float(entries.max()) * EPS:.3g}, got {noise:.3g}: rounding changes every digit of this law"
        )
    return factor
