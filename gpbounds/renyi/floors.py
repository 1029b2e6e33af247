"""Lower bounds on the gap for every choice of M inducing variables, and the least M that a target gap needs (N-low)."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from gpbounds.arrays import EPS, DistinctRows, Float, as_host_points, kind_of_caller
from gpbounds.kernels import Kernel
from gpbounds.kernels.base import as_kernel
from gpbounds.linalg import Eigen, eigen
from gpbounds.linalg.psd import computed_eigenvalues
from gpbounds.numerics.scalars import G, scaled_log1p
from gpbounds.overflow import within_doubles
from gpbounds.renyi.accuracy import accuracy, errors_of_entries
from gpbounds.row_noise import OF_EIGENVALUES, noise_per_row, one_for_all, unchanged
from gpbounds.validation import choice, count, order, positive, scalar, whole
from gpbounds.whitening import whiten

MARGIN = 20.0
"""Assumed error of LAPACK's eigenvalues, in units of N·eps·‖K‖."""
DENSE = 5000
"""Largest N at which all eigenvalues of K are computed."""


@kind_of_caller
@within_doubles
def minimum_gap(
    eigenvalues: ArrayLike, M: ArrayLike, alpha: float, y: Literal["any", "prior"] = "any", *, noise: float
) -> Float:
    """Lower bound on the gap of every choice of M inducing variables, from the eigenvalues of K alone.

    y = "any":    D_α(y) ≥ Σ_i G(λ_(M+i)(K)/σ²), for every y.
    y = "prior":  E_y D_α ≥ (α/(2β)) Σ_i log(1 + βλ_(M+i)(K)/σ²), for y ~ N(0, K + σ²I).

    Claim N-low, 0 < α ≤ 1.  The bound for y = "any" is attained at y = 0 by the M leading eigenvectors of K as inducing
    variables.

    Parameters
    ----------
    eigenvalues : array
        Eigenvalues of K, ≥ 0 up to rounding, in squared units of y, in any order.  Eigenvalues that are left out count
        as 0; the bound stays valid.
    M : whole number or array of them, >= 0
    noise : float
        σ², in squared units of y.
    alpha : float
        Order in (0, 1].
    y : "any" or "prior"

    Returns
    -------
    array of the shape of M

    Raises
    ------
    ValueError
        for wrong arguments.

    >>> minimum_gap([4.0, 2.0, 1.0], [0, 1, 2, 3], 1.0, y="prior", noise=0.5)
    array([7., 3., 1., 0.])
    """
    choice("y", y, ("any", "prior"))
    a, variance, counts = scalar(order, "alpha", alpha), one_for_all(noise, OF_EIGENVALUES), whole("M", M, 0)
    values = computed_eigenvalues("eigenvalues", eigenvalues)
    if values.ndim != 1:
        raise ValueError(f"eigenvalues: expected shape (N,), got {values.shape}")
    with np.errstate(over="ignore"):
        ratios = np.sort(values) / variance
    each = G(ratios, a) if y == "any" else 0.5 * a * scaled_log1p(ratios, 1.0 - a)
    tails = np.concatenate([[0.0], np.cumsum(each)])
    remaining = values.size - np.minimum(counts, values.size)
    return tails[remaining.astype(np.int64)]


@within_doubles
def needed_from_eigenvalues(eigenvalues_lower: ArrayLike, alpha: float, *, target: float, noise: float) -> int:
    """The least M ≥ 1 with `minimum_gap` ≤ ``target``: fewer inducing variables cannot reach the target.

    Claim N-low, for every y.  Σ_i G(λ_(M+i)(K)/σ²) increases with each eigenvalue, so with lower bounds on the
    eigenvalues the M returned is at most the true one.

    Parameters
    ----------
    eigenvalues_lower : array
        Lower bounds on the eigenvalues of K, in squared units of y, in any order; those left out count as 0.
    noise : float
        σ², in squared units of y.
    alpha : float
        Order in (0, 1].
    target : float
        The gap D_α(y) that is wanted, > 0, in nats.

    >>> needed_from_eigenvalues([4.0, 2.0, 1.0, 1e-6], 1.0, target=0.01, noise=0.5)
    3
    """
    largest = scalar(positive, "target", target)
    values = computed_eigenvalues("eigenvalues_lower", eigenvalues_lower)
    if values.ndim != 1:
        raise ValueError(f"eigenvalues_lower: expected shape (N,), got {values.shape}")
    gaps = minimum_gap(values, np.arange(1, max(values.size, 2)), alpha, noise=noise)
    above = np.flatnonzero(gaps > largest)
    return int(above[-1]) + 2 if above.size else 1


@noise_per_row(unchanged)
@within_doubles
def needed(
    kernel: Kernel, X: ArrayLike, alpha: float, *, target: float, noise: Any, landmarks: int | None = None
) -> int:
    """The least number of inducing variables that can reach the target gap on these inputs, for any y.

    D_α(y) ≥ Σ_i G(λ_(M+i)(K)/σ²) > target for every M below the number returned, whatever Z and y (N-low, 0 < α ≤ 1).

    Up to N = 5000 it is computed from all eigenvalues of K (O(N³)), each lowered by its rounding error.  Above, it is
    computed in O(N·landmarks²) from the eigenvalues of Q = Kfs Kss⁻¹Ksf for ``landmarks`` rows s, evenly spaced in X:
    Q ⪯ K gives λ_i(Q) ≤ λ_i(K) for every i, so the number stays valid but may be smaller; it never exceeds
    ``landmarks``.

    Parameters
    ----------
    kernel : Kernel
    X : array (N, D)
    noise : float or array (N,)
        σ², in squared units of y; an array: s_i², one noise variance for each row (N-rows-noise).
    alpha : float
        Order in (0, 1].
    target : float
        In nats, > 0.
    landmarks : int, optional
        Number of rows of X that define Q.  By default Q is not used up to N = 5000, and 1000 rows are used above.

    Raises
    ------
    ValueError
        for wrong arguments.

    >>> import numpy as np
    >>> from gpbounds.kernels import SquaredExponential
    >>> X = np.linspace(0.0, 10.0, 50)
    >>> needed(SquaredExponential(), X, 1.0, target=0.1, noise=0.1)
    11
    >>> needed(SquaredExponential(), X, 1.0, target=0.1, noise=0.1, landmarks=10)
    10
    """
    as_kernel(kernel)
    points = as_host_points(X, "X")
    N = points.shape[0]
    if landmarks is None and N <= DENSE:
        spectrum = eigen(kernel(points), "K")
        values = np.maximum(spectrum.values - eigenvalues_off(kernel, points, spectrum), 0.0)
        return needed_from_eigenvalues(values, alpha, noise=noise, target=target)
    size = min(count("landmarks", 1000 if landmarks is None else landmarks), N)
    chosen = points[np.linspace(0, N - 1, size).round().astype(np.int64)]
    white = whiten(kernel, points, DistinctRows.of(chosen).rows, jitter="auto")
    gram, known = white.gram, accuracy(white, *errors_of_entries(kernel, points, white.inducing.Z))
    rounding = MARGIN * size * EPS * float(gram.trace()) + known.gram + known.below  # of Q₋ ⪯ K (N-Q)
    spectrum = eigen(gram, "VVᵀ", rounding=rounding)
    return needed_from_eigenvalues(np.maximum(spectrum.values - rounding, 0.0), alpha, noise=noise, target=target)


def eigenvalues_off(kernel: Kernel, X: Float, spectrum: Eigen) -> float:
    """An upper bound on the error of each eigenvalue of K: N times that of an entry plus 20·N·eps·‖K‖_F for LAPACK.

    LAPACK's eigenvalues are those of K + E with ‖E‖ ≤ p(N)·eps·‖K‖, p modest; that p ≤ 20N is not proved here.
    """
    N, entry = X.shape[0], errors_of_entries(kernel, X, X)[0]
    norm = 1.01 * float(np.linalg.norm(spectrum.values))
    return max(spectrum.rounding, MARGIN * N * EPS * norm + N * entry)
