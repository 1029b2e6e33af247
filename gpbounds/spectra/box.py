"""SE kernel, inputs uniform on a box: tails from Ritz values in Legendre polynomials, per dimension (N-box)."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np

from gpbounds.arrays import EPS, Float
from gpbounds.inputs import Uniform
from gpbounds.kernels import SquaredExponential
from gpbounds.numerics.scalars import greatest_convex_below
from gpbounds.rigor import above, at_bits, exact
from gpbounds.spectra.base import Spectrum, gauss, values
from gpbounds.validation import count as one_count

# Ky Fan's bounds for a squared exponential kernel on an interval, rounded upwards by construction (N-ritz-sum).

BITS = 128
"""Precision in bits, besides two bits for each degree that the recurrence of Legendre's polynomials loses."""


def enclosed_tails(g: float, vectors: Float, nodes: int, error: float) -> Float:
    """Upper bounds of 1 − (the M largest Ritz values in n Legendre polynomials), M = 0 ... n, for half width g.

    Parameters
    ----------
    vectors : array (n, n)
        V; the closer to orthonormal eigenvectors of the matrix A = (<e_i, Ke_j>), the sharper, and any gives bounds.
    nodes : int
        Number of Gauss's nodes for A.
    error : float
        Upper bound on their error in each entry of A.

    With f = ‖VᵀV − I‖_F < 1 the M largest Ritz values have at least the sum (1 − f)·Σ_{i<=M} v_iᵀAv_i.

    >>> enclosed_tails(1.0, np.eye(2), 20, 1e-20).round(6)
    array([1.      , 0.236044, 0.039756])
    """
    from flint import arb, arb_mat

    n = vectors.shape[0]
    with at_bits(BITS + 2 * n):
        pairs = [arb.legendre_p_root(nodes, k, weight=True) for k in range(nodes)]
        table = arb_mat([[weight / 2 * value for value in _legendre(x, n)] for x, weight in pairs])
        half = exact(g) * exact(g) / 2
        kernel = arb_mat([[(-half * ((x - y) * (x - y))).exp() for y, _ in pairs] for x, _ in pairs])
        V = arb_mat(vectors.tolist())
        images = table * V
        products = kernel * images
        gram = V.transpose() * V
        deviations = (gram[i, j] - int(i == j) for i in range(n) for j in range(n))
        f = sum((d * d for d in deviations), exact(0.0)).sqrt()
        if not bool(f < 1):
            return np.ones(n + 1)
        kept, tails = exact(0.0), [1.0]
        for i in range(n):
            quotient = sum((images[a, i] * products[a, i] for a in range(nodes)), exact(0.0))
            kept += quotient - n * (1 + f) * exact(error)  # (Σ_j |v_ij|)² <= n|v_i|²
            tails.append(above(1 - (1 - f) * kept))
    return np.array(tails)


def _legendre(x: Any, n: int) -> list[Any]:
    """√(2k+1) P_k(x), k < n, orthonormal under the uniform law on [−1, 1]."""
    values = [x**0, x]
    for k in range(1, n - 1):
        values.append(((2 * k + 1) * x * values[k] - k * values[k - 1]) / (k + 1))
    return [(2 * k + 1 + 0 * x).sqrt() * value for k, value in enumerate(values[:n])]


# SE kernel, inputs uniform on a box: tails from Ritz values in Legendre polynomials, per dimension (N-box).

LARGEST = 40.0
"""Half widths in lengthscales up to which the Ritz values are computed."""
ROUNDING = 1e-11
"""Bound on the rounding of the logarithm of a tail in Legendre polynomials, whose terms are up to 3500 in size."""
KEPT = 2**14
"""Products of eigenvalues that are put in order."""
ENCLOSED = 6.0
"""Half widths in lengthscales up to which the roundings of the Ritz values are enclosed; at 6 it takes 0.2 s."""
SMALL, SMALLEST = 1e-18, 1e-26
"""Largest share of the trace lost by the omitted polynomials, or by quadrature; SMALLEST for enclosed quadrature."""


class BoxSpectrum(Spectrum):
    """SE × Uniform on a box of half widths h: majorants of the eigenvalues, and upper bounds of the tails (N-box).

    In one dimension (v = 1, g = h/ℓ) the tail is at most the least of

    - Ky Fan's bound (L-49c): Σ_{M<i<=n} of the Ritz values in n Legendre polynomials, plus the rest of the trace;
    - Σ_{j>=M} g^(2j)/(2j+1)!!: <e_j, Ke_j> = (2j+1) E j_j(ω)², ω ~ N(0, g²), for Legendre's e_j, and |j_j(ω)| <=
      ω^j/(2j+1)!!.

    Let ν be the differences of the greatest convex sequence below these bounds: its sum is 1, the trace, and its tails
    are at least the true ones, so μ majorises ν: ν = Sμ with S doubly stochastic.  In D dimensions the eigenvalues are
    products, and so are ν ⊗ ... ⊗ ν = (S ⊗ ... ⊗ S)(μ ⊗ ... ⊗ μ): the tails of the products of the ν are upper bounds.

    Up to 6 lengthscales from the middle to a side Ky Fan's bound is rounded upwards by construction (N-ritz-sum).
    Beyond, the allowance for the roundings of the Ritz values, 16 nodes·eps, is measured, and bounds that use these
    tails are not certified.

    Parameters
    ----------
    kernel : SquaredExponential
    inputs : Uniform
        At most 40 lengthscales from the middle to a side.

    >>> from gpbounds.spectra import spectrum
    >>> kernel, inputs = SquaredExponential(1.0, 0.2), Uniform()
    >>> better, dominated = BoxSpectrum(kernel, inputs), spectrum(kernel, inputs=inputs)
    >>> f"{better.tail(8):.2g} {dominated.tail(8):.2g}"
    '8.2e-05 0.0042'
    """

    certified = True
    source = "N-box, L-49c"
    note = "Eigenvalue sums are upper bounds (squared exponential kernel, uniform inputs, Legendre polynomials)."

    def __init__(self, kernel: SquaredExponential, inputs: Uniform) -> None:
        self.dim = inputs.dim
        self.trace = kernel.variance
        ratios = 0.5 * inputs.widths / kernel.lengthscales(self.dim)
        if (ratios > LARGEST).any():
            raise ValueError(f"inputs: expected at most {LARGEST:g} lengthscales to each side, got {ratios.max():.3g}")
        self._enclosed = bool((ratios <= ENCLOSED).all())
        shares, rest = np.ones(1), 0.0
        for ratio in ratios:
            shares, rest = _products(shares, majorant(float(ratio)))
        self._log_tails = np.log(rest + np.append(np.cumsum(shares[::-1])[::-1], 0.0))

    def eigenvalues(self, count: int) -> Float:
        """λ_m <= least over k < m of tail(k)/(m − k): upper bounds."""
        count = one_count("count", count)
        tails = np.exp(self._log_tail(np.arange(float(count))))
        m = np.arange(1, count + 1)
        return np.array([float((tails[:i] / (i - np.arange(i))).min()) for i in m])

    def _log_tail(self, M: Float) -> Float:
        last = self._log_tails.size - 1
        return math.log(self.trace) + np.minimum(self._log_tails[np.minimum(M, last).astype(np.int64)], 0.0)

    def roundings(self, last: Float, size: Float | float) -> Float:
        counted = 10.0 * size + 8000.0 + self._log_tails.size
        return (counted if self._enclosed else np.inf) + 0.0 * last


@lru_cache(maxsize=64)
def majorant(g: float) -> Float:
    """ν_1 ... ν_n, decreasing, for variance 1 and half width g in lengthscales; their sum is 1 − (bound on tail(n)).

    >>> bool(abs(majorant(1.0).sum() - 1.0) < 1e-12)
    True
    """
    n = 2
    while _log_legendre_tail(g, n) > math.log(SMALL):
        n += 1
    tails = np.minimum(_ritz_tails(g, n), np.exp([min(_log_legendre_tail(g, M) + ROUNDING, 0.0) for M in range(n + 1)]))
    tails[0] = 1.0
    tails = greatest_convex_below(np.minimum.accumulate(tails))
    shares = np.minimum.accumulate(-np.diff(tails))  # decreasing in spite of rounding, and not larger
    shares.flags.writeable = False
    return shares


def _ritz_tails(g: float, n: int) -> Float:
    """Ky Fan's bounds of the tails for M = 0 ... n from n Legendre polynomials, rounded upwards."""
    nodes, enough = n + 16, math.log(SMALLEST if g <= ENCLOSED else SMALL)
    while (lost := _log_quadrature_error(g, n, nodes)) > enough:
        nodes += 8
    x, w = gauss(nodes)
    table = values(n, x) * w[:, None]  # orthonormal on [0, 1]
    K = np.exp(-2.0 * g * g * (x[:, None] - x) ** 2)
    matrix = table.T @ K @ table
    if g <= ENCLOSED:
        return enclosed_tails(g, np.linalg.eigh(matrix)[1][:, ::-1], nodes, math.exp(lost + 1e-6))
    eigenvalues = np.maximum(np.linalg.eigvalsh(matrix)[::-1], 0.0)
    beyond = np.append(np.cumsum(eigenvalues[::-1])[::-1], 0.0)
    # Entries have errors of a few eps, eigenvalues and 1 − their sum of n eps.
    return beyond + max(1.0 - float(beyond[0]), 0.0) + 16.0 * nodes * EPS


def _log_quadrature_error(g: float, n: int, nodes: int) -> float:
    """log of a bound on the error of Gauss's rule in <e_i, Ke_j>, i, j < n, analytic in every ellipse with foci ±1.

    In the one with half axes (ρ ± 1/ρ)/2, |e_i| <= √(2i+1) ρ^i and |k| <= e^(g²b²/2), b = (ρ − 1/ρ)/2; the error of
    an integral over one variable is at most (64/15)·max·ρ^(−2q)/(1 − ρ^−2).
    """
    rho = np.geomspace(1.05, 200.0, 120)
    b = 0.5 * (rho - 1.0 / rho)
    largest = math.log(2.0 * n) + n * np.log(rho) + 0.5 * (g * b) ** 2
    errors = math.log(64.0 / 15.0) + largest - 2.0 * nodes * np.log(rho) - np.log1p(-(rho**-2.0))
    return float(errors.min()) + math.log(2.0 * n)


def _log_legendre_tail(g: float, M: int) -> float:
    """log of Σ_{j>=M} g^(2j)/(2j+1)!!, bounded by its first term and a geometric series; +inf where that diverges."""
    ratio = g * g / (2.0 * M + 3.0)
    if ratio >= 0.9:
        return math.inf
    double = math.lgamma(2.0 * M + 2.0) - M * math.log(2.0) - math.lgamma(M + 1.0)  # (2M + 1)!!
    return 2.0 * M * math.log(g) - double - math.log1p(-ratio)


def _products(left: Float, right: Float) -> tuple[Float, float]:
    """The largest products, decreasing, and an upper bound on the sum of the others; all products sum to at most 1."""
    size = min(KEPT, left.size * right.size)
    parts = [left[: max(size // (j + 1), 1)] * value for j, value in enumerate(right)]
    products = np.sort(np.concatenate(parts))[::-1][:size]
    return products, max(1.0 - float(products[::-1].sum()), 0.0) + (size + 64.0) * EPS
