"""Gaussian inputs with any covariance: the same spectrum under independent columns, found by a rotation (N-cov)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from gpbounds.arrays import EPS, Float
from gpbounds.inputs import Gaussian
from gpbounds.kernels.stationary import Stationary
from gpbounds.linalg.errors import enclosed_eigen
from gpbounds.spectra.base import Spectrum

UP = 1.0 + 1e-8
"""Allows for the rounding of the allowance itself."""


class PrincipalSpectrum(Spectrum):
    """The spectrum of k(‖Λ⁻¹(x − x')‖) under N(μ, Σ), as that of k(‖w − w'‖) under N(0, diag g) (N-cov).

    Λ = diag(lengthscales), g the eigenvalues of Λ⁻¹ΣΛ⁻¹: the variances along the principal axes of the inputs in
    units of the lengthscales.

    The proof is that of N-cov; Σ may be singular.

    Rounding: the tails of the squared exponential kernel increase in every g_d, and so in Σ (Loewner order).  The
    eigenvalues computed are therefore raised by a proved bound on their error (`enclosed_eigen`), which includes the
    rounding of Λ⁻¹ΣΛ⁻¹ and, if Σ is singular, what rounding may hide of its negative part.

    Parameters
    ----------
    along_axes : Spectrum
        That of the kernel and the law of `principal_axes`.

    >>> from gpbounds.inputs import Gaussian
    >>> from gpbounds.kernels import SquaredExponential
    >>> from gpbounds.spectra import spectrum
    >>> law = spectrum(SquaredExponential(), inputs=Gaussian(cov=[[1.0, 0.9], [0.9, 1.0]]))
    >>> apart = spectrum(SquaredExponential(), inputs=Gaussian(dim=2))
    >>> [round(float(each.tail(10)), 6) for each in (law, apart)]
    [0.022507, 0.073909]
    """

    def __init__(self, along_axes: Spectrum) -> None:
        self.along_axes = along_axes
        self.trace, self.certified = along_axes.trace, along_axes.certified
        self.source = f"N-cov, {along_axes.source}"
        self.note = f"{along_axes.note} The columns of the inputs are rotated to be independent."

    def eigenvalues(self, count: int) -> Float:
        """As those of the rotated law: to rounding, where they are exact for independent columns."""
        return self.along_axes.eigenvalues(count)

    def _log_tail(self, M: Float) -> Float:
        return self.along_axes._log_tail(M)

    def roundings(self, last: Float, size: Float | float) -> Float:
        return self.along_axes.roundings(last, size)


def principal_axes(kernel: Stationary, inputs: Gaussian) -> tuple[Stationary, Gaussian, Float]:
    """The kernel with lengthscale 1, N(0, diag g), g decreasing, and the matrix that turns x − μ into w.

    Every g_d is rounded upwards by a proved bound on its error, so that none is 0.

    >>> from gpbounds.kernels import SquaredExponential
    >>> law = Gaussian(cov=[[1.0, 1.0], [1.0, 4.0]])
    >>> _, rotated, axes = principal_axes(SquaredExponential(1.0, [1.0, 2.0]), law)
    >>> rotated.stds**2  # the eigenvalues of ((1, 1/2), (1/2, 1))
    array([1.5, 0.5])
    >>> np.abs(axes).round(4)  # rows (1, 1)/√2 and (1, −1)/√2, in units of the lengthscales
    array([[0.7071, 0.3536],
           [0.7071, 0.3536]])
    """
    lengthscales = kernel.lengthscales(inputs.dim)
    largest = float((inputs.stds / lengthscales).max())
    units = lengthscales * largest
    scaled = np.asarray(inputs.cov) / np.outer(units, units)
    allowed = 2.0 * EPS * np.abs(scaled)  # four roundings of half an eps each
    # Gaussian has refused covariances with negative eigenvalues
    enclosed = enclosed_eigen(scaled, np.eye(inputs.dim), allowed, "cov", negative=np.inf)
    variances = enclosed.values + (enclosed.error + inputs.slack) * UP
    law = Gaussian(largest * np.sqrt(variances))
    return replace(kernel, lengthscale=1.0), law, enclosed.components / lengthscales
