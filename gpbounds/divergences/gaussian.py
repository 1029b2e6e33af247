"""Kullback-Leibler and Rényi divergence of two Gaussian laws, accurate also where the laws nearly agree."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from gpbounds.arrays import Array, Float, array_of, as_reals, has_axes, host, is_cupy, namespace
from gpbounds.errors import NonFinite, NotPositiveDefinite, shown
from gpbounds.linalg.psd import Cholesky, cholesky, failures_raise, require_symmetric
from gpbounds.numerics.scalars import log1p_residual
from gpbounds.validation import finite, function, non_negative, scalar
from gpbounds.whitening import sums_of_squares


def gaussian_kl(
    mean1: ArrayLike | Array, cov1: ArrayLike | Array, mean2: ArrayLike | Array, cov2: ArrayLike | Array
) -> float:
    """KL[N(μ₁, Σ₁)‖N(μ₂, Σ₂)] = ½[Tr(Σ₂⁻¹Σ₁) − n − log(|Σ₁|/|Σ₂|) + (μ₁ − μ₂)ᵀΣ₂⁻¹(μ₁ − μ₂)].

    Claims R-kl, R-KLU.  The function adds no jitter, which would make the value too small. The value is 0 only for
    equal laws.

    Parameters
    ----------
    mean1, mean2 : arrays (n,), NumPy or CuPy, or numbers for n = 1
    cov1, cov2 : arrays (n, n), positive definite, or numbers for n = 1
        All on one device.

    Raises
    ------
    ValueError
        for wrong shapes, NaN, or an asymmetric covariance.
    NotPositiveDefinite
        when a covariance does not factorise, or cov1 is singular relative to cov2 at double precision.

    >>> round(gaussian_kl([0.0], [[2.0]], [1.0], [[1.0]]), 6)  # 1 - log(2)/2
    0.653426
    """
    return gaussian_renyi(mean1, cov1, mean2, cov2, 1.0)


def gaussian_renyi(
    mean1: ArrayLike | Array,
    cov1: ArrayLike | Array,
    mean2: ArrayLike | Array,
    cov2: ArrayLike | Array,
    alpha: float,
) -> float:
    """The Rényi divergence D_α[N1‖N2] = (α−1)⁻¹ log ∫ N1^α N2^(1−α) of two Gaussian laws, any real order.

    D_α = (α/2) mᵀΣ⁻¹m + {log|Σ| − (1−α) log|Σ₁| − α log|Σ₂|}/(2(1−α)), m = μ₁ − μ₂, Σ = αΣ₂ + (1−α)Σ₁.

    Claim R-def; non-negative and non-decreasing in α on (0, 1]; α = 1 is `gaussian_kl`, α = 0 gives 0.  Outside [0, 1]
    the integral diverges if Σ is not positive definite: the value is then +∞ (α > 1) or −∞ (α < 0, where D_α ≤ 0).

    Parameters
    ----------
    mean1, cov1, mean2, cov2 : as in `gaussian_kl`
    alpha : float
        Order.

    Raises
    ------
    ValueError, NotPositiveDefinite
        as in `gaussian_kl`.

    >>> gaussian_renyi([0.0], [[1.0]], [2.0], [[1.0]], 0.5)
    1.0
    >>> gaussian_renyi(0.0, 2.0, 0.0, 1.0, 2.5)
    inf
    """
    return between((mean1, cov1), (mean2, cov2), scalar(finite, "alpha", alpha), ("mean1", "cov1"), ("mean2", "cov2"))


LEAST = 2.3e-308
"""Smaller variances are no normal doubles: their quotients overflow."""
Law = tuple[Any, Any]
"""Mean and covariance."""
Names = tuple[str, str]
"""What the caller calls them."""


def between(first: Law, second: Law, a: float, names1: Names, names2: Names) -> float:
    """D_a[first‖second], with the names of the caller's arguments in errors."""
    namespace(*(value for value in (*first, *second) if has_axes(value)))
    m1, S1 = _law(first, names1)
    m2, S2 = _law(second, names2)
    if m1.shape != m2.shape:
        raise ValueError(f"{names1[0]}, {names2[0]}: expected equal lengths, got {m1.size} and {m2.size}")
    names = f"{names1[1]}, {names2[1]}"
    chol1, chol2 = cholesky(S1, name=names1[1]), cholesky(S2, name=names2[1])
    if a < 0.0:  # D_α[N1‖N2] = α/(1−α) · D_(1−α)[N2‖N1]
        return a / (1.0 - a) * _renyi(m2 - m1, S2 - S1, chol1, 1.0 - a, names)
    return _renyi(m1 - m2, S1 - S2, chol2, a, names)


def _law(law: Law, names: Names) -> tuple[Array, Array]:
    xp, both = namespace(*law), ", ".join(names)
    m, S = (as_reals(xp, name, value) for name, value in zip(names, law, strict=True))
    if not bool(xp.isfinite(m).all() & xp.isfinite(S).all()):
        raise NonFinite(f"{both}: expected finite numbers, got infinity")
    m, S = xp.atleast_1d(m), xp.atleast_2d(S)
    if m.ndim != 1 or S.shape != (m.size, m.size):
        raise ValueError(f"{both}: expected shapes (n,) and (n, n), got {m.shape} and {S.shape}")
    require_symmetric(names[1], S)
    if xp is np and m.size and not float(S.diagonal().max()) > LEAST:
        raise NotPositiveDefinite(f"{names[1]}: expected variances above {LEAST:g}, got {float(S.diagonal().max()):g}")
    return m, S


def _renyi(shift: Array, difference: Array, chol2: Cholesky, alpha: float, names: str) -> float:
    """D_α, α ≥ 0: in the basis where Σ₂ = I, Σ₁ = I + diag(x), a sum of a term of x and a term of the shift."""
    whitened = chol2.solve_lower(chol2.solve_lower(0.5 * (difference + difference.T)).T)
    x, basis = _eigh(0.5 * (whitened + whitened.T))
    if x[0] <= -1.0:
        raise NotPositiveDefinite(
            f"{names}: one is singular relative to the other at double precision, so the divergence is unknown. "
            "Drop the directions in which one law is (nearly) deterministic."
        )
    beta = 1.0 - alpha
    if 1.0 + beta * x[-1] <= 0.0:
        return np.inf
    z = host(basis.T @ chol2.solve_lower(shift))
    with np.errstate(over="ignore"):
        return float(0.5 * alpha * (z * z / (1.0 + beta * x)).sum() + _volume(x, alpha).sum())


def _eigh(A: Array) -> tuple[Float, Array]:
    """Eigenvalues in increasing order, in host memory, and eigenvectors of a symmetric matrix."""
    xp = namespace(A)
    if xp is np:
        from scipy.linalg import eigh

        return eigh(A)
    with failures_raise(xp):
        values, vectors = xp.linalg.eigh(A)
    return host(values), vectors


def _volume(x: Float, alpha: float) -> Any:
    """½[log(1 + βx)/β − log(1 + x)] for x > −1 and α ≥ 0, without cancellation near x = 0, α = 0 and α = 1."""
    beta = 1.0 - alpha
    w = -x / (1.0 + x)  # 1 + βx = (1 + x)(1 + αw), (1 + x)(1 + w) = 1
    near = np.abs(x) < 0.5
    if alpha < 0.5:
        small = alpha * log1p_residual(np.where(near, w, 0.0)) - log1p_residual(alpha * np.where(near, w, 0.0))
        return 0.5 * np.where(near, small, np.log1p(alpha * w) + alpha * np.log1p(x)) / beta
    if beta == 0.0:
        return 0.5 * np.where(near, log1p_residual(np.where(near, x, 0.0)), x - np.log1p(x))
    small = log1p_residual(np.where(near, x, 0.0)) - log1p_residual(beta * np.where(near, x, 0.0)) / beta
    return 0.5 * np.where(near, small, np.log1p(beta * x) / beta - np.log1p(x))


# Predictions of a posterior, and checks of the arguments that all posteriors share.

PriorMean = Callable[[Array], Array] | None
"""m(x) as a function of points (n, D) that gives (n,); None for m = 0."""


@dataclass(frozen=True, eq=False)
class Prediction:
    """Marginal laws N(mean, variance) of the latent f at n inputs, without noise, as a Gibbs risk needs them.

    Attributes
    ----------
    mean, variance : arrays (n,)
    mean_error, variance_error : arrays (n,)
        Bounds on their rounding errors; infinite where no bound exists.
    """

    mean: Array
    variance: Array
    mean_error: Array
    variance_error: Array


def absolute_error(value: Any) -> float:
    """An absolute error ≥ 0 of the kernel's values, one number."""
    return scalar(non_negative, "entry_error", value)


def mean_at(prior_mean: PriorMean, X: Array) -> Array:
    """m(x) at the rows of X, checked."""
    xp = namespace(X)
    if prior_mean is None:
        return xp.zeros(X.shape[0])
    values = array_of(xp, "prior_mean", function("prior_mean", prior_mean, "a function of points (n, D)")(X))
    if values.shape != (X.shape[0],) or values.dtype.kind not in "biuf":
        raise ValueError(f"prior_mean: expected {X.shape[0]} real numbers for {X.shape[0]} points, got {shown(values)}")
    if not bool(xp.isfinite(values).all()):
        raise NonFinite("prior_mean: expected finite values, got NaN or infinity")
    return values.astype(np.float64, copy=False)


def double(points: Array, name: str) -> Array:
    """``points`` in double precision; float32 is refused."""
    if points.dtype == np.float32:
        raise ValueError(
            f"{name}: expected float64, got float32: convert it, since the guarantee holds for exactly these numbers"
        )
    return points


def vector(name: str, value: Any, like: Array) -> Array:
    """Finite float64 numbers of shape (n,), n the number of rows of ``like``, on its device."""
    xp, n = namespace(like), like.shape[0]
    if is_cupy(value) != (xp is not np) and has_axes(value):
        raise ValueError(f"{name}: expected an array of {xp.__name__} like the other arguments, got another kind")
    numbers = array_of(xp, name, value)
    if numbers.dtype.kind not in "biuf" or numbers.shape != (n,):
        raise ValueError(f"{name}: expected {n} real numbers, shape ({n},), got {numbers.dtype} of {numbers.shape}")
    if not bool(xp.isfinite(numbers).all()):
        raise NonFinite(f"{name}: expected finite numbers, got NaN or infinity")
    numbers = numbers.astype(np.float64, copy=False)
    if xp is np:
        sums_of_squares(numbers, name)
    return numbers


def rounded_up(variance: Array, allowed: Any, name: str) -> Array:
    """``variance`` with negative entries set to 0; an entry below −``allowed`` is refused."""
    xp = namespace(variance)
    low = variance + allowed
    if bool((low < 0.0).any()):
        raise NotPositiveDefinite(
            f"{name}: expected variances >= 0, but one is {float(variance.min()):.3g}, less than rounding explains. "
            "Usual cause: inducing points so close that Kuu is nearly singular. Take fewer of them."
        )
    return xp.maximum(variance, 0.0)
