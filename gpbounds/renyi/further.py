"""Rows as further inducing points, each of the largest variance that is not explained yet."""

from __future__ import annotations

import numpy as np

from gpbounds.arrays import Float
from gpbounds.kernels import Kernel
from gpbounds.linalg import cholesky
from gpbounds.linalg.pivoted import Pivoted, pivoted
from gpbounds.renyi.members import CANDIDATES
from gpbounds.whitening import whiten


def further_rows(kernel: Kernel, X: Float, Z: Float | None, number: int) -> Float:
    """At most ``number`` rows of X, each of the largest variance given Z and those before it.

    Above 20 000 rows they are chosen among 20 000 that are evenly spaced in X; O(number · 20 000) memory then.
    """
    return further_path(kernel, X, Z, number)[0]


def further_path(kernel: Kernel, X: Float, Z: Float | None, number: int) -> tuple[Float, Pivoted]:
    """The rows of `further_rows`, and the factor of the choice."""
    N = len(X)
    rows = X if N <= CANDIDATES else X[np.linspace(0, N - 1, CANDIDATES).round().astype(np.int64)]
    most = min(number, N - 1)
    if Z is None:
        picked = pivoted(lambda i, columns: kernel(rows[i], rows[columns]), kernel.diag(rows), most)
        return rows[picked.indices], picked
    white = whiten(kernel, rows, Z)
    V = white.inducing.whiten(rows)
    picked = pivoted(
        lambda i, columns: kernel(rows[i], rows[columns]) - V[:, i].T @ V[:, columns], white.residual, most
    )
    return rows[picked.indices], picked


def variational_bounds(picked: Pivoted, y: Float, *, noise: float) -> Float:
    """The variational bound on log p(y) with the first 1, …, M of the points that were chosen among all rows.

    In doubles, without a proved error.  With V the factor of the choice and L_B that of I + VVᵀ/σ², the first M rows of
    V, of L_B and of L_B⁻¹Vy are those of the first M points: one pass of O(NM²) for every M.
    """
    B = picked.factor @ picked.factor.T / noise
    B[np.diag_indices_from(B)] += 1.0
    factor = cholesky(B, name="I + VVᵀ/σ²", overwrite=True)
    explained = np.cumsum((factor.solve_lower(picked.factor @ y) / noise) ** 2)
    log_det = len(y) * np.log(2.0 * np.pi * noise) + 2.0 * np.cumsum(np.log(factor.L.diagonal()))
    return np.asarray(-0.5 * (log_det + float(y @ y) / noise - explained + picked.traces[1:] / noise))
