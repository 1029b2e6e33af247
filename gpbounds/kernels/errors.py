"""Proved bounds on the rounding errors of kernel matrices: of each entry, and one for all entries in O((N + M)D)."""

from __future__ import annotations

import numpy as np

from gpbounds.arrays import EPS, Array, Float, host
from gpbounds.kernels.base import Kernel
from gpbounds.kernels.facts import Fold, chosen, where_known

U = 0.5 * EPS
"""Largest relative error of one operation in double precision."""
EXP_ULPS = 4
"""Largest error of the platform's exp that is allowed for, in units of the last place."""
TINY = 1e-300
"""Absolute error allowed for where a correlation underflows."""
SMALLEST = float(np.finfo(np.float64).tiny)
"""Added to each bound, as a product of two bounds may underflow to 0."""

Matrix = tuple[Float, Float]
"""A matrix of covariances as it is computed, and the bounds on the errors of its entries."""


def entry_errors(kernel: Kernel, X: Float, K: Float | None = None) -> Float:
    """E (N, N) with |k(x_i, x_j) − K_ij| ≤ E_ij, K = ``kernel(X)`` as it is computed in double precision.

    X and the hyperparameters are exact doubles, k is the kernel in exact arithmetic: any kernel of gpbounds except
    Matérn kernels whose ν is not a half-integer, also in sums, in products and on some columns.

    Proof.  Let u = 2⁻⁵³.  Coordinates are multiplied by powers of two, which is exact where nothing underflows, and
    subtracted, with the relative error u; a weight (2^e/ℓ)² has the relative error 4u.  So s = r² has the relative
    error (D + 7)u, however large the coordinates are, and is off by 1e-300(1 + r) where a coordinate underflows.
    exp has the relative error 2u for each ulp.  So log k is off by at most a κ, which the method ``entry_errors`` of
    each kernel states, and |k − K| ≤ K(e^κ − 1); for the periodic kernel and inner products see there.

    Raises
    ------
    ValueError
        for another kernel.

    >>> from gpbounds.kernels import SquaredExponential
    >>> X = np.array([[0.0], [1.0]])
    >>> bool((entry_errors(SquaredExponential(), X) < 1e-14).all())
    True
    """

    def leaf(part: Kernel, points: Float) -> Matrix:
        computed = K if part is kernel and K is not None else part(points)
        return computed, part.entry_errors(points, computed)

    return kernel.fold(Fold(leaf, _sum, _product, chosen), X)[1]


def _sum(first: Matrix, second: Matrix) -> Matrix:
    K = first[0] + second[0]
    return K, 1.01 * (first[1] + second[1] + U * np.abs(K)) + SMALLEST


def _product(first: Matrix, second: Matrix) -> Matrix:
    K = first[0] * second[0]
    left, right = np.abs(first[0]), np.abs(second[0])
    return K, 1.01 * (first[1] * right + left * second[1] + first[1] * second[1] + U * np.abs(K)) + SMALLEST


def of_logarithms(v: float, K: Float, log_errors: Float) -> Float:
    """Bounds on |k − K| for a kernel with 0 ≤ k ≤ ``v`` from those on the errors κ of log k."""
    with np.errstate(over="ignore"):
        error = (K + TINY * v) * np.expm1(log_errors) * 1.01 + TINY * v + SMALLEST
    return np.minimum(error, 1.01 * v)


def entry_bound(kernel: Kernel, X: Array, Z: Array) -> float | None:
    """κ with |k(x, z) − K_xz| ≤ κ and |k(x, x) − computed| ≤ κ for all rows x, z of X and Z; None if nothing is proved.

    X, Z and the hyperparameters are exact doubles, K = ``kernel(X, Z)``.  Any kernel of gpbounds except Matérn kernels
    whose ν is not a half-integer.

    Claim N-entries.  Proof.  As `entry_errors`: r² has the relative error (D + 7)u, however large the coordinates are,
    as they are subtracted before anything is rounded.  So all roundings are relative errors of k, some of which grow
    with r; times k they are bounded by sup s·e^(−s/2) = 2/e, sup z·ρ(z) ≤ ∫ρ = √π Γ(ν + ½)/Γ(ν) ≤ √(πν) for a
    correlation ρ that decreases, and sup a·log(1 + t)(1 + t)^−a = 1/e, sup a·t(1 + t)^(−a−1) ≤ 1.  Sums add errors and
    the rounding of the sum; the errors a, b of the factors of a product add up to a·v₂ + b·v₁ + ab and its rounding.

    >>> from gpbounds.kernels import SquaredExponential
    >>> bool(entry_bound(SquaredExponential(), np.array([[0.0]]), np.array([[1.0]])) < 1e-14)
    True
    """
    top = kernel.fold(_BOUND, (host(X), host(Z)))
    return None if top is None else top[0]


_BOUND: Fold[tuple[Float, Float], tuple[float, float] | None] = Fold(
    lambda kernel, points: kernel.entry_bound(*points),
    where_known(lambda a, b: (1.01 * (a[0] + b[0] + U * (a[1] + b[1])), 1.01 * (a[1] + b[1]))),
    where_known(lambda a, b: (1.01 * (a[0] * b[1] + b[0] * a[1] + a[0] * b[0] + U * a[1] * b[1]), 1.01 * a[1] * b[1])),
    lambda kernel, points, inner: inner((kernel.chosen(points[0]), kernel.chosen(points[1]))),
)


def longest(A: Float) -> float:
    """The length of the longest row."""
    with np.errstate(over="ignore"):
        return float(np.sqrt((A * A).sum(axis=1)).max(initial=0.0))
