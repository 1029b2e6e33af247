"""Matérn-½ kernel, uniform inputs on an interval: eigenvalues and tails exact to rounding."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from gpbounds.arrays import Float
from gpbounds.bound import Bound
from gpbounds.errors import NotConverged
from gpbounds.inputs import Uniform
from gpbounds.kernels import Matern
from gpbounds.spectra.base import Spectrum
from gpbounds.validation import count as one_count
from gpbounds.validation import whole

SWITCH = 2000  # beyond, sums are replaced by integrals: the next Euler-Maclaurin term is 1e-15 of the tail


def angle(index: Float, kappa: float) -> Float:
    """θ in (0, π/2] with θ = atan(κ/z), z = (index - 1) π/2 + θ; ``index`` may lie between whole numbers.

    θ - atan(κ/z) is concave and increases in θ, so that Newton's method increases to the root after its first step.

    >>> theta = angle(np.array([1.0]), 0.5)
    >>> bool(np.isclose(theta * np.tan(theta), 0.5))
    True
    """
    start = (index - 1.0) * (np.pi / 2.0)
    # θ tan θ <= κ - start tan θ and tan θ >= θ give this upper bound on the root.
    theta = np.minimum(2.0 * kappa / (start + np.sqrt(start**2 + 4.0 * kappa)), np.pi / 2.0)
    for _ in range(60):
        z = start + theta
        step = (theta - np.arctan2(kappa, z)) / (1.0 + 1.0 / (z / kappa * z + kappa))
        theta = theta - step
        if (np.abs(step) <= 4e-16 * theta).all():
            break
    # The derivative of θ - atan(κ/z) is at least 1, so that what is left bounds the error of θ.
    if not (np.abs(theta - np.arctan2(kappa, start + theta)) <= 1e-14 * theta).all():
        raise NotConverged(f"expected the roots of θ = atan(κ/z) to 1e-14 for κ = {kappa:g}, they are not found")
    return theta


def excess(theta: Float) -> Float:
    """2θ - sin 2θ for 0 <= θ <= π/2, without cancellation.

    >>> float(excess(np.array(1e-5)) / (4e-15 / 3.0)) - 1.0 < 1e-9
    True
    """
    double = 2.0 * theta
    square, series = double**2, np.zeros_like(theta)
    for k in range(11, 0, -1):
        series = square / (2.0 * k * (2.0 * k + 1.0)) * (1.0 - series)
    return np.where(double < 1.0, double * series, double - np.sin(double))


class MaternHalfUniform(Spectrum):
    """The Mercer spectrum of k(x, x') = v e^(-c|x - x'|), c = 1/lengthscale, for x uniform on an interval of width 2a.

    With κ = c a:  λ_k = v κ/(z_k² + κ²), z_k = (k - 1)π/2 + θ_k, and θ_k in (0, π/2) solves θ = atan(κ/z), for odd
    and even k (L-49b; paper 001 states only the rate).  Beyond 2000 terms the tail is the integral
    ∫_{M+½}^∞ λ dk = (2v/π)[θ + (2θ - sin 2θ)/(4κ)] at index M + ½, plus one Euler-Maclaurin term.

    Parameters
    ----------
    kernel : Matern with nu = 0.5
    inputs : Uniform in one dimension

    Raises
    ------
    ValueError
        for another kernel or another law.

    >>> s = MaternHalfUniform(Matern(0.5, lengthscale=1.0), Uniform(0.0, 1.0))
    >>> s.eigenvalues(3).round(6).tolist()
    [0.738811, 0.138004, 0.045088]
    >>> float(s.tail(1000).round(9)), float(s.tail_bound(1000).value.round(9))
    (0.000202744, 0.000202845)
    """

    certified = True
    source = "L-49b"
    note = "Exact to rounding: the roots of θ = atan(κ/z), and their sum by Euler-Maclaurin."

    def __init__(self, kernel: Matern, inputs: Uniform) -> None:
        if not isinstance(kernel, Matern) or kernel.nu != 0.5:
            raise ValueError(f"kernel: expected Matern(nu=0.5), got {kernel!r}")
        if not isinstance(inputs, Uniform) or inputs.dim != 1:
            raise ValueError(f"inputs: expected Uniform in one dimension, got {inputs!r}")
        self.kernel, self.inputs = kernel, inputs
        self.trace = kernel.variance
        self._kappa = float(inputs.widths[0] / kernel.lengthscales(1)[0]) / 2.0

    def eigenvalue(self, index: ArrayLike) -> Float:
        """λ_k for whole numbers k >= 1 of any shape, to a relative error of 1e-14.

        >>> s = MaternHalfUniform(Matern(0.5), Uniform(0.0, 1.0))
        >>> f"{s.eigenvalue(10**9):.6e}"
        '2.026424e-19'
        """
        return self._value(whole("index", index, 1))

    def _value(self, index: Float) -> Float:
        theta = angle(index, self._kappa)
        return self.trace * np.sin(theta) ** 2 / self._kappa

    def eigenvalues(self, count: int) -> Float:
        return self._value(np.arange(1.0, one_count("count", count) + 1.0))

    def _share_beyond(self, M: Float) -> Float:
        """Σ_{k>M} λ_k / v by the integral from M + ½ and the first Euler-Maclaurin term, for large M."""
        kappa, theta = self._kappa, angle(M + 0.5, self._kappa)
        value = np.sin(theta) ** 2 / kappa
        integral = (2.0 / np.pi) * (theta + excess(theta) / (4.0 * kappa))
        slope = -(np.pi / 2.0) * np.sin(2.0 * theta) / kappa * value / (1.0 + value)
        return integral + slope / 24.0

    @cached_property
    def _share_below(self) -> Float:
        """Σ_{k>M} λ_k / v for M = 0 ... SWITCH; the smallest terms are added first."""
        values = self._value(np.arange(SWITCH, 0.0, -1.0)) / self.trace
        end = self._share_beyond(np.array([float(SWITCH)]))
        return np.cumsum(np.concatenate([end, values]))[::-1]

    def _log_tail(self, M: Float) -> Float:
        near = self._share_below[np.minimum(M, SWITCH).astype(np.int64)]
        share = np.where(M < SWITCH, near, self._share_beyond(np.maximum(M, SWITCH)))
        return np.log(share) + np.log(self.trace)

    def roundings(self, last: Float, size: Float | float) -> Float:
        return 9.0 * size + 9600.0 + 0.0 * last

    def tail_bound(self, M: ArrayLike) -> Bound:
        """The closed bound Σ_{k>M} λ_k <= (2v/π) atan(2ac/(π(M - 1))), M >= 1 (v at M = 1); L-49b.

        It exceeds the tail by a factor 1 + O(1/M).  Parameters: whole numbers ``M`` of any shape.
        """
        counts = whole("M", M, 1)
        value = self.trace * (2.0 / np.pi) * np.arctan2(self._kappa, (np.pi / 2.0) * (counts - 1.0))
        hypotheses = ("Matérn kernel with nu = 0.5, inputs uniform on an interval.",)
        return Bound(value, "upper", 1.0, "L-49b", {}, hypotheses, quantity="tail of the spectrum")
