"""Exact k-DPP samples from a low-rank factor, L = VVᵀ, for N too large for an N × N matrix."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from gpbounds.arrays import EPS, Float, exactly, is_cupy
from gpbounds.errors import NonFinite
from gpbounds.kdpp.projection import Indices, choose_eigenvectors, draw_projection
from gpbounds.validation import count

_ROWS = 4096


def sample_factor(V: ArrayLike, M: int, rng: np.random.Generator | int) -> Indices:
    """M distinct points drawn from the k-DPP of L = VVᵀ: P(Z) = |V_Z V_Zᵀ| / e_M(λ), without an N × N matrix.

    The law is that of :func:`sample` for K = VVᵀ.  For a kernel matrix K ≈ VVᵀ it is the k-DPP of the approximation,
    not of K: theorems about a k-DPP of K then need a bound on the total variation between the two (`nystrom_tv`).
    Dual sampling (Kulesza & Taskar, 2012) on V = AΣUᵀ with Σ, U from a QR factorisation by blocks of rows, so that
    singular values down to N·eps·σ_max keep their accuracy; from VᵀV they would lose it at √eps·σ_max.
    O(N r (r + M)) time, O(N) memory in addition to V.  Ledger: section F.

    Parameters
    ----------
    V : array (N, r)
        Real and finite; features, or a (pivoted) Cholesky factor.
    M : int
        0 ≤ M ≤ numerical rank, the number of singular values of V above max(N, r)·eps·σ_max; the others count as 0.
    rng : numpy.random.Generator or int
        Source of randomness, or a seed.

    Returns
    -------
    array of int64 (M,)
        Row numbers, distinct, increasing.

    Raises
    ------
    ValueError
        if V is not two-dimensional and real, or M exceeds the numerical rank.
    NonFinite
        for NaN or infinity in V; the message names the row.

    >>> sample_factor([[1.0, 0.0], [0.0, 0.0], [0.0, 2.0]], 2, np.random.default_rng(0))
    array([0, 2])
    """
    return FactorSampler(V).draw(M, np.random.default_rng(rng))


class FactorSampler:
    """`sample_factor` for many draws: V is factorised once.

    Attributes
    ----------
    factor : array (N, r)
    singular : array (r,)
        Singular values of V above rounding, falling; their squares are the eigenvalues of VVᵀ.
    """

    def __init__(self, V: ArrayLike) -> None:
        if is_cupy(V):
            raise ValueError("V: expected a NumPy array, got a CuPy array: pass V.get()")
        factor = np.asarray(exactly("V", V))
        if factor.ndim != 2 or factor.size == 0 or factor.dtype.kind not in "biuf":
            raise ValueError(
                f"V: expected real numbers of shape (N, r), N, r >= 1, got shape {factor.shape}, dtype {factor.dtype}"
            )
        _, sigma, Ut = np.linalg.svd(_triangle(factor))
        self.cutoff = max(factor.shape) * EPS * float(sigma[0])
        rank = int((sigma > self.cutoff).sum())
        self.factor, self.singular, self._Ut = factor, sigma[:rank], Ut[:rank]

    def draw(self, M: int, rng: np.random.Generator) -> Indices:
        """M distinct rows, increasing."""
        M, rank = count("M", M, 0), self.singular.size
        if rank < M:
            raise ValueError(
                f"M: expected at most the numerical rank of V, {rank} singular values above {self.cutoff:.3g}, got "
                f"{M}: the k-DPP of that size is undefined. Take fewer points or more columns"
            )
        J = choose_eigenvectors(2.0 * np.log(self.singular), M, rng)
        W = self._Ut[J].T / self.singular[J]  # V W has orthonormal columns: the chosen eigenvectors of VVᵀ
        factor = self.factor
        leverage = np.empty(factor.shape[0])
        for rows, block in _blocks(factor):
            Y = block @ W
            np.einsum("ij,ij->i", Y, Y, out=leverage[rows])
        return draw_projection(lambda i: factor[i] @ W, leverage, M, rng)


def _blocks(factor: np.ndarray) -> Iterator[tuple[slice, Float]]:
    """(rows, block) for consecutive blocks of rows, in float64."""
    step = max(_ROWS, 2 * factor.shape[1])
    for start in range(0, factor.shape[0], step):
        rows = slice(start, start + step)
        yield rows, factor[rows].astype(np.float64, copy=False)


def _triangle(factor: np.ndarray) -> Float:
    """R (≤ r × r) with RᵀR = VᵀV, by QR factorisations of one block of rows at a time."""
    R: Any = np.empty((0, factor.shape[1]))
    for rows, block in _blocks(factor):
        if not np.isfinite(block).all():
            row = rows.start + int(np.flatnonzero(~np.isfinite(block).all(axis=1))[0])
            raise NonFinite(f"V: expected finite numbers, got NaN or infinity in row {row}")
        R = np.linalg.qr(np.vstack([R, block]), mode="r")
    return R
