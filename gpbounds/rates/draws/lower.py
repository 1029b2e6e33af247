"""Lower bounds for every subset of the data, and for every choice that is made without y."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from gpbounds import validation
from gpbounds.arrays import EPS
from gpbounds.bound import Bound
from gpbounds.linalg.matrices import symmetric_matrix
from gpbounds.numerics.log1p import scaled_log1p
from gpbounds.renyi.floors import minimum_gap

SUBSET = "The inducing points are M of the data, chosen without y."
DOWN = 1.0 - 1e-11


def least_subset_trace(K: ArrayLike, M: ArrayLike) -> Any:
    """Tr(K − Q) of every subset of M data is at least this (N-sub).

    max{Σ_{m>M} λ_m(K), the sum of the N − M least 1/(K⁻¹)_jj}: rank Q ≤ M (Eckart, Young), and
    (K − Q)_jj = var(f_j | f_Z) ≥ var(f_j | f_i, i ≠ j) = 1/(K⁻¹)_jj for j outside Z.  Both are attained: the first by
    diagonal K for equal eigenvalues, the second at M = N − 1.

    Parameters
    ----------
    K : array (N, N)
        Symmetric positive semi-definite.  Eigenvalues are lowered by their rounding error, N·eps·λ_max; where the least
        is below it the second form is 0.
    M : int or array of int
        0 ≤ M ≤ N.

    Returns
    -------
    float, or array of M's shape
        In squared units of y.

    >>> least_subset_trace(np.diag([3.0, 2.0, 1.0]), [1, 2]).round(6)
    array([3., 1.])
    """
    matrix = symmetric_matrix("K", K, tolerance=1e-10)
    N = matrix.shape[0]
    sizes = validation.whole("M", M, 0).astype(np.int64)
    if (sizes > N).any():
        raise ValueError(f"M: expected at most N = {N} of the data, got {sizes.max()}")
    values, vectors = np.linalg.eigh(matrix)
    lowest = np.maximum(values - N * EPS * values[-1], 0.0)
    tails = np.append(np.cumsum(lowest), 0.0)  # tails[k]: the k + 1 least
    by_rank = np.append(0.0, tails[:-1])[N - sizes]
    alone = np.zeros(N)
    if lowest[0] > 0.0:
        alone = np.sort(1.0 / (vectors**2 / lowest).sum(axis=1))
    by_one = np.append(0.0, np.cumsum(alone))[N - sizes]
    result = np.maximum(by_rank, by_one) * DOWN
    return result if result.ndim else float(result)


def subset_gap(K: ArrayLike, M: ArrayLike, *, noise: float, alpha: float = 1.0) -> Bound:
    """E_y D_α of every subset of M data chosen without y, y from the prior, is at least this (N-sub, N-lowprior).

    T/(2σ²) at α = 1; else (α/(2β)) log(1 + βT/σ²), β = 1 − α; T as in :func:`least_subset_trace`.  Also at least
    (α/(2β)) Σ_{i>M} log(1 + βλ_i/σ²), for any inducing variables (N-lowprior); the larger is returned.

    The proofs are those of N-sub and N-lowprior.

    Parameters
    ----------
    K : array (N, N)
    M : int or array of int
        1 ≤ M ≤ N.
    noise : float
        σ² > 0.
    alpha : float
        In (0, 1].

    >>> float(subset_gap(np.diag([3.0, 2.0, 1.0]), 1, noise=0.5)).__round__(6)
    3.0
    """
    variance = validation.scalar(validation.positive, "noise", noise)
    order = validation.scalar(validation.order, "alpha", alpha)
    beta = 1.0 - order
    trace = np.asarray(least_subset_trace(K, M))
    by_trace = 0.5 * order * scaled_log1p(trace / variance, beta)
    values = np.linalg.eigvalsh(np.asarray(K, dtype=np.float64))
    lowest = np.maximum(values - values.size * EPS * values[-1], 0.0)
    any_choice = minimum_gap(lowest, M, noise=variance, alpha=order, y="prior")
    value = np.maximum(by_trace, any_choice) * DOWN
    return Bound(
        value if value.ndim else float(value),
        "lower",
        1.0,
        "N-sub, N-lowprior",
        {"trace": trace if trace.ndim else float(trace)},
        (SUBSET, "y is drawn from the prior; the bound is on the mean over y."),
        quantity=f"E_y D_{order:g}[q*||p]",
    )
