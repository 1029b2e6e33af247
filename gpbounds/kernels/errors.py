"""Proved bounds on the rounding error of each entry of a kernel matrix."""

from __future__ import annotations

import numpy as np

from gpbounds.arrays import EPS, Float
from gpbounds.kernels.base import Kernel, OnColumns, Product, Sum
from gpbounds.kernels.constant import Constant
from gpbounds.kernels.distances import squared_distances
from gpbounds.kernels.inner_products import InnerProduct, Polynomial
from gpbounds.kernels.matern import Matern
from gpbounds.kernels.periodic import Periodic
from gpbounds.kernels.rational_quadratic import FARTHEST, RationalQuadratic
from gpbounds.kernels.squared_exponential import SquaredExponential
from gpbounds.kernels.stationary import Stationary

U = 0.5 * EPS
"""Largest relative error of one operation in double precision."""
EXP_ULPS = 4
"""Largest error of the platform's exp that is allowed for, in units of the last place."""
TINY = 1e-300
"""Absolute error allowed for where a correlation underflows."""
SMALLEST = float(np.finfo(np.float64).tiny)
"""Added to each bound, as a product of two bounds may underflow to 0."""


def entry_errors(kernel: Kernel, X: Float, K: Float | None = None) -> Float:
    """E (N, N) with |k(x_i, x_j) − K_ij| ≤ E_ij, K = ``kernel(X)`` as it is computed in double precision.

    X and the hyperparameters are exact doubles, k is the kernel in exact arithmetic.  Every kernel of gpbounds but
    Matérn of other than half-integer ν; sums, products and kernels on some columns.

    Proof.  Let u = 2⁻⁵³.  Coordinates are multiplied by powers of two, which is exact where nothing underflows, and
    subtracted, with the relative error u; a weight (2^e/ℓ)² has the relative error 4u.  So s = r² has the relative
    error (D + 7)u, however large the coordinates are, and is off by 1e-300(1 + r) where a coordinate underflows.
    |d log k/d log s| is s/2 for the squared exponential; for Matérn at most z/2, z = √(2ν)r, as K_{ν−1} ≤ K_ν; and for
    the rational quadratic of shape a, with t = s/(2a), a t/(1 + t).  exp has the relative error 2u for each ulp.  So
    log k is off by at most

        κ = (s/2)(D + 9)u + 16u,
        κ = z(D/2 + 8)u + (20p + 20)u,  ν = p + ½,   or
        κ = a t/(1 + t)·(D + 14)u + a log(1 + t)·(2·(exp's ulps) + 2)u + 16u

    (for Matérn: p factors exp(−z/p), whose relative errors add up to zu + 2·(exp's ulps)·pu, and fewer than 12
    operations with positive numbers for each step of the recurrence), and |k − K| ≤ K(e^κ − 1).  For the periodic
    kernel see `_periodic_log_errors`, for inner products `_inner_product_errors`.

    Raises
    ------
    ValueError
        for another kernel.

    >>> X = np.array([[0.0], [1.0]])
    >>> bool((entry_errors(SquaredExponential(), X) < 1e-14).all())
    True
    """
    computed = kernel(X) if K is None else K
    if isinstance(kernel, Sum):
        return 1.01 * (entry_errors(kernel.k1, X) + entry_errors(kernel.k2, X) + U * np.abs(computed)) + SMALLEST
    if isinstance(kernel, Product):
        left, right = kernel.k1(X), kernel.k2(X)
        first, second = entry_errors(kernel.k1, X, left), entry_errors(kernel.k2, X, right)
        left, right = np.abs(left), np.abs(right)
        return 1.01 * (first * right + left * second + first * second + U * np.abs(computed)) + SMALLEST
    if isinstance(kernel, OnColumns):
        return entry_errors(kernel.kernel, kernel.chosen(X), computed)
    if type(kernel) is Constant:
        return np.zeros_like(computed)
    if isinstance(kernel, InnerProduct):
        return _inner_product_errors(kernel, X)
    known = isinstance(kernel, SquaredExponential | RationalQuadratic | Periodic)
    if known or (type(kernel) is Matern and kernel.is_half_integer):
        log_error = _periodic_log_errors(kernel, X) if isinstance(kernel, Periodic) else _log_errors(kernel, X)
        v = kernel.max_variance
        with np.errstate(over="ignore"):
            error = (computed + TINY * v) * np.expm1(log_error) * 1.01 + TINY * v + SMALLEST
        return np.minimum(error, 1.01 * v)
    raise ValueError(
        "kernel: expected a kernel of gpbounds (a Matérn kernel with half-integer nu), or sums and products of them, "
        f"whose rounding errors are proved, got {kernel!r}"
    )


def _inner_product_errors(kernel: InnerProduct, X: Float) -> Float:
    """As `entry_errors`, with every constant rounded up by more than the rounding of the bound itself.

    Proof.  A scaled coordinate a_id = √v_d·x_id has a relative error below 2.01u.  A term a_id a_jd has one below
    5.1u, and adding D terms in any order adds at most (D − 1)u: s is off by e = (D + 5)u Σ_d |a_id a_jd| and what
    underflows.  b = offset + s is off by e + u|b|, and |b^p − (b + e)^p| ≤ p e (|b| + e)^{p−1}; `power` rounds each of
    p factors at most p − 1 times.
    """
    scaled = np.abs(X * np.sqrt(kernel.variances(X.shape[1])))
    sums = scaled.sum(axis=1)
    error = 1.01 * (U * (X.shape[1] + 5.0) * (scaled @ scaled.T) + TINY * (sums[:, None] + sums)) + SMALLEST
    if not isinstance(kernel, Polynomial):
        return error
    signed = X * np.sqrt(kernel.variances(X.shape[1]))
    base = np.abs(signed @ signed.T + kernel.offset)
    error += U * 1.01 * base
    p, largest = kernel.degree, base + 2.0 * error
    return 1.02 * (p * error * largest ** (p - 1) + U * (p - 1.0) * largest**p) + SMALLEST


def _log_errors(kernel: Kernel, X: Float) -> Float:
    """κ, rounded up by more than its own rounding."""
    assert isinstance(kernel, Stationary)
    D, points = X.shape[1], kernel._in_powers(X, "X")
    squared = squared_distances(points, points, kernel._weights(D) ** 2)
    if isinstance(kernel, RationalQuadratic):
        a = kernel.shape
        ratio = np.minimum(squared, FARTHEST) / (2.0 * a)
        logs = a * np.log1p(ratio)
        rounded = a * ratio / (1.0 + ratio) * (D + 14.0) + logs * (2 * EXP_ULPS + 2.0) + 2 * EXP_ULPS + 8.0
        cut = np.where(squared >= FARTHEST, np.inf, 0.0)
        return 1.01 * U * rounded + cut
    if isinstance(kernel, Matern):
        scale, steps = np.sqrt(2.0 * kernel.nu), kernel.nu - 0.5
        ulps = 2 * EXP_ULPS * max(steps, 1.0) + 12.0 * steps + 12.0
        return 1.01 * U * (scale * np.sqrt(squared) * (0.5 * D + 8.0) + ulps)
    return 1.01 * U * (0.5 * squared * (D + 9.0) + 2 * EXP_ULPS + 8.0)


def _periodic_log_errors(kernel: Periodic, X: Float) -> Float:
    """As `_log_errors`, for the periodic kernel.

    Proof.  t = (x − z)/period is off by 2.01u|t|, and subtracting whole periods is exact; sin(πt) is off by π times as
    much, and by a relative error of (2·(sine's ulps) + 3)u.  So g = 2 sin(πt)/lengthscale is off by e = (2/lengthscale)
    [2.01πu|t| + (2·ulps + 5)u|sin(πt)|], and log k = −½Σg² by Σ(|g|e + e²/2) + ½(D + 2)uΣg² and the rounding of exp.
    """
    log_error, total = np.zeros((len(X), len(X))), np.zeros((len(X), len(X)))
    for turns, reduced, weight in kernel._waves(X, X):
        sines = np.abs(np.sin(np.pi * reduced))
        error = weight * U * (2.01 * np.pi * np.abs(turns) + (2 * EXP_ULPS + 5.0) * sines)
        log_error += weight * sines * error + error * error
        total += (weight * sines) ** 2
    return 1.02 * (log_error + U * (0.5 * total * (X.shape[1] + 4.0) + 2 * EXP_ULPS + 8.0))
