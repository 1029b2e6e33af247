"""One proved bound on the rounding errors of all entries of k(X, Z), in O((N + M)D)."""

from __future__ import annotations

import math

import numpy as np

from gpbounds.arrays import Array, Float, host
from gpbounds.kernels.base import Kernel, OnColumns, Product, Sum
from gpbounds.kernels.constant import Constant
from gpbounds.kernels.errors import EXP_ULPS, TINY, U
from gpbounds.kernels.inner_products import InnerProduct, Polynomial
from gpbounds.kernels.matern import Matern
from gpbounds.kernels.periodic import Periodic
from gpbounds.kernels.rational_quadratic import FARTHEST, RationalQuadratic
from gpbounds.kernels.squared_exponential import SquaredExponential
from gpbounds.kernels.stationary import Stationary


def entry_bound(kernel: Kernel, X: Array, Z: Array) -> float | None:
    """κ with |k(x, z) − K_xz| ≤ κ and |k(x, x) − computed| ≤ κ for all rows x, z of X and Z; None if nothing is proved.

    X, Z and the hyperparameters are exact doubles, K = ``kernel(X, Z)``.  Every kernel of gpbounds but Matérn of other
    than half-integer ν.

    Claim N-entries.  Proof.  As `entry_errors`: r² has the relative error (D + 7)u, however large the coordinates are,
    as they are subtracted before anything is rounded.  So all roundings are relative errors of k, some of which grow
    with r; times k they are bounded by sup s·e^(−s/2) = 2/e, sup z·ρ(z) ≤ ∫ρ = √π Γ(ν + ½)/Γ(ν) ≤ √(πν) for a
    correlation ρ that decreases, and sup a·log(1 + t)(1 + t)^−a = 1/e, sup a·t(1 + t)^(−a−1) ≤ 1.  Sums add errors and
    the rounding of the sum; the errors a, b of the factors of a product add up to a·v₂ + b·v₁ + ab and its rounding.

    >>> from gpbounds.kernels import SquaredExponential
    >>> bool(entry_bound(SquaredExponential(), np.array([[0.0]]), np.array([[1.0]])) < 1e-14)
    True
    """
    points = host(X), host(Z)
    top = _entries(kernel, *points)
    return None if top is None else top[0]


def _entries(kernel: Kernel, X: Float, Z: Float) -> tuple[float, float] | None:
    """The bound, and one on |k| itself."""
    if isinstance(kernel, Sum | Product):
        first, second = _entries(kernel.k1, X, Z), _entries(kernel.k2, X, Z)
        if first is None or second is None:
            return None
        (a, v), (b, w) = first, second
        if isinstance(kernel, Sum):
            return 1.01 * (a + b + U * (v + w)), 1.01 * (v + w)
        return 1.01 * (a * w + b * v + a * b + U * v * w), 1.01 * v * w
    if isinstance(kernel, OnColumns):
        return _entries(kernel.kernel, kernel.chosen(X), kernel.chosen(Z))
    if type(kernel) is Constant:
        return 0.0, kernel.max_variance
    if isinstance(kernel, InnerProduct):
        return _inner(kernel, X, Z)
    if isinstance(kernel, Periodic):
        v = kernel.max_variance
        return v * _periodic(kernel, X, Z) + TINY * v, v
    if isinstance(kernel, SquaredExponential | RationalQuadratic | Matern):
        relative = _stationary(kernel, X, Z)
        v = kernel.max_variance
        return None if relative is None else (v * min(relative, 1.0) + TINY * v, v)
    return None


def _stationary(kernel: Stationary, X: Float, Z: Float) -> float | None:
    """Error of ρ."""
    D = X.shape[1]
    if isinstance(kernel, SquaredExponential):
        rounded = (D + 9.0) / math.e + 2 * EXP_ULPS + 8.0
    elif isinstance(kernel, RationalQuadratic):
        lengths = kernel.lengthscales(D)
        if not 1.01 * (_longest(X / lengths) + _longest(Z / lengths)) < math.sqrt(FARTHEST):  # r² is cut there
            return math.inf
        rounded = D + 14.0 + (2 * EXP_ULPS + 2.0) / math.e + 2 * EXP_ULPS + 8.0
    elif isinstance(kernel, Matern) and kernel.is_half_integer:
        steps = kernel.nu - 0.5
        rounded = (
            math.sqrt(math.pi * kernel.nu) * (0.5 * D + 8.0) + 2 * EXP_ULPS * max(steps, 1.0) + 12.0 * steps + 12.0
        )
    else:
        return None
    return 1.02 * U * rounded


def _periodic(kernel: Periodic, X: Float, Z: Float) -> float:
    """Error of ρ: |g|e^(−g²/2) ≤ e^-½, and g²e^(−g²/2) ≤ 2/e, as in `rounding._periodic_log_errors`."""
    D = X.shape[1]
    total = 0.0
    for d, (weight, period) in enumerate(zip(*kernel.scales(D), strict=True)):
        turns = (np.abs(X[:, d]).max(initial=0.0) + np.abs(Z[:, d]).max(initial=0.0)) / float(period)
        error = float(weight) * U * (2.01 * math.pi * float(turns) + (2 * EXP_ULPS + 5.0))
        total += math.exp(-0.5) * error + error * error
    return 1.03 * (total + U * ((D + 4.0) / math.e + 2 * EXP_ULPS + 8.0))


def _inner(kernel: InnerProduct, X: Float, Z: Float) -> tuple[float, float]:
    """As `rounding._inner_product_errors`, with Σ|a_d b_d| ≤ |a||b|; the diagonal is k(x, x) or k(z, z)."""
    D = X.shape[1]
    roots = np.sqrt(kernel.variances(D))
    longest = max(_longest(X * roots), _longest(Z * roots))
    size = longest * longest
    error = 1.01 * U * (D + 5.0) * size + 2.0 * TINY * (1.0 + longest) * math.sqrt(D)
    if not isinstance(kernel, Polynomial):
        return error, 1.01 * size
    base = 1.01 * (size + kernel.offset)
    error += U * 1.01 * base
    p, largest = kernel.degree, base + 2.0 * error
    return 1.02 * (p * error * largest ** (p - 1) + U * (p - 1.0) * largest**p), 1.01 * largest**p


def _longest(A: Float) -> float:
    """The longest row."""
    with np.errstate(over="ignore"):
        return float(np.sqrt((A * A).sum(axis=1)).max(initial=0.0))
