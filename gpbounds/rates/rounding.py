"""How far `rate` in doubles may be below the bound that it computes, because of rounding (N-rate-rounding)."""

from __future__ import annotations

import numpy as np

from gpbounds.arrays import Float
from gpbounds.rates.population import FIRST, LAST, PER_POINT
from gpbounds.spectra import Spectrum
from gpbounds.spectra.geometric import GeometricSpectrum
from gpbounds.spectra.principal import PrincipalSpectrum
from gpbounds.spectra.product import ProductSpectrum


def before_data(law: Spectrum, M: Float) -> Float:
    """c: the relative error is at most c·2^-53 with the eigenvalues of ``law``; 0 for laws without a proof.

    c = 75 000 + 2000·D + 1.2·(D + 2)·n + 4·min(M, 4096), n the number of eigenvalues that are tabulated or ordered, 0
    in one dimension.  Most of it is for logarithms up to 1500 in size, whose exponentials are taken.  Where eigenvalues
    are ordered, n is that of the longest order which the spectrum was asked for, so c may grow with later calls.

    >>> from gpbounds.inputs import Gaussian
    >>> from gpbounds.kernels import SquaredExponential
    >>> from gpbounds.spectra import spectrum
    >>> law = spectrum(SquaredExponential(), inputs=Gaussian(dim=2))
    >>> before_data(law, np.array([64.0, 4096.0])) * 2.0**-53 < 1e-11
    array([ True, False])
    """
    axes = law.along_axes if isinstance(law, PrincipalSpectrum) else law
    points = np.minimum(M, float(LAST))
    kept = PER_POINT * np.maximum(float(FIRST), np.exp2(np.ceil(np.log2(points))))
    if isinstance(axes, GeometricSpectrum):
        dim = axes.dim
        if dim == 1 and axes is law:
            kept = np.zeros_like(kept)
    elif isinstance(axes, ProductSpectrum):
        dim, kept = axes.dim, np.maximum(kept, axes.ordered)
    else:
        return np.zeros_like(points)
    return 75_000.0 + 2000.0 * dim + 1.2 * (dim + 2.0) * kept + 4.0 * points


def given_eigenvalues(N: Float, M: Float) -> Float:
    """c: the relative error is at most c·2^-53, for N given numbers >= 0 in place of the eigenvalues of K.

    c = max{5N + 20M + 200, N + 26 000}; the second is for the printed form, which is computed from logarithms.

    >>> given_eigenvalues(np.array([300.0, 10_000.0]), np.array([20.0, 500.0])) * 2.0**-53 < 1e-11
    array([ True,  True])
    """
    return np.maximum(5.0 * N + 20.0 * M + 200.0, N + 26_000.0)
