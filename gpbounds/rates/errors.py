"""How far `rate` in doubles may be below the bound that it computes, because of rounding (N-rate-rounding)."""

from __future__ import annotations

import numpy as np

from gpbounds.arrays import Float
from gpbounds.rates.population import LAST, PopulationTrace, kept_eigenvalues
from gpbounds.spectra import Spectrum

FAR, NEAR = 1492.0, 645.0
"""Tails of at least e^-FAR of the trace are used in R-lem3, e^-NEAR in N-pop: what is less is raised to 2^-1022."""


def before_data(spectrum: Spectrum, population: PopulationTrace | None, M: Float) -> Float:
    """c: the relative error of `rate` is at most c·2^-53; inf where the roundings of a spectrum are not counted.

    c = 1.2·max{s + 7800, p} + 1200, s that of the tails up to M (`Spectrum.roundings`), p that of `from_population`,
    which is left out for the printed form.

    >>> from gpbounds.inputs import Gaussian
    >>> from gpbounds.kernels import SquaredExponential
    >>> from gpbounds.spectra import spectrum
    >>> law = spectrum(SquaredExponential(), inputs=Gaussian(dim=2))
    >>> before_data(law, PopulationTrace(law), np.array([64.0, 4096.0])) * 2.0**-53 < 1e-11
    array([ True, False])
    """
    tails = spectrum.roundings(M, FAR) + 7800.0
    means = tails if population is None else from_population(population, M)
    return 1.2 * np.maximum(tails, means) + 1200.0


def from_population(population: PopulationTrace, M: Float) -> Float:
    """c of N·R(μ): 57 000 for the closed form, else that of the tails, n more for n eigenvalues, 3M and 21 100."""
    if population.closed:
        return 57_000.0 + 0.0 * M
    points = np.minimum(M, float(LAST))
    kept = kept_eigenvalues(points)
    return population.law.roundings(kept, NEAR) + kept + 3.0 * points + 21_100.0


def given_eigenvalues(N: Float, M: Float) -> Float:
    """c: the relative error is at most c·2^-53, for N given numbers >= 0 in place of the eigenvalues of K.

    c = max{5N + 20M, N + 25 000} + 1200; the second is for the printed form, which is computed from logarithms.

    >>> given_eigenvalues(np.array([300.0, 10_000.0]), np.array([20.0, 500.0])) * 2.0**-53 < 1e-11
    array([ True,  True])
    """
    return np.maximum(5.0 * N + 20.0 * M, N + 25_000.0) + 1200.0
