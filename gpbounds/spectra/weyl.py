"""Weyl's law for Matérn kernels: the number of eigenvalues above a level, from a volume in phase space."""

from __future__ import annotations

import math

import numpy as np

from gpbounds.arrays import Float
from gpbounds.inputs import Gaussian, Uniform
from gpbounds.kernels import Matern
from gpbounds.spectra.legendre import gauss

STEP = 0.05


class WeylLaw:
    """N(λ) = (2π)^-D |{(x, ω): S(ω) p(x) > λ}| and the tail it implies, for variance 1.

    S is the spectral density, p the density of the inputs, so that N gives the exact trace, and the rate
    m^(-(2ν+D)/D) with its constant (Widom).  It is asymptotic: at finite m it is an estimate, too low where the
    boundary of the box matters.

    >>> law = WeylLaw(Matern(0.5), Uniform(0.0, 1.0))
    >>> float(np.exp(law.log_tail(np.array([1000.0])))[0].round(6))        # exactly 0.000203 at M = 1000
    0.000203
    """

    def __init__(self, kernel: Matern, inputs: Gaussian | Uniform) -> None:
        dim, nu = inputs.dim, kernel.nu
        self._rate = 2.0 * nu / dim  # the tail falls like M^-rate
        half = dim / 2.0
        ball = math.pi**half / math.gamma(half + 1.0)
        order = nu + half
        c2 = 2.0 * nu
        log_peak = half * math.log(4.0 * math.pi) + math.lgamma(order) - math.lgamma(nu) + nu * math.log(c2)
        lengthscales = kernel.lengthscales(dim)
        if isinstance(inputs, Uniform):
            log_sizes = float(np.log(inputs.widths / lengthscales).sum())
            radius, log_weight, log_density = np.zeros(1), np.full(1, log_sizes), -log_sizes
        else:
            log_sizes = float(np.log(inputs.stds / lengthscales).sum())
            radius, weights = gauss(200)  # of |x/std|, up to the largest radius of any level of the table
            reach = math.sqrt(2.0 * (60.0 + 120.0 * order / dim))
            radius = radius * reach
            with np.errstate(under="ignore"):
                log_weight = np.log(weights * reach * dim * ball) + (dim - 1.0) * np.log(radius) + log_sizes
            log_density = -half * math.log(2.0 * math.pi) - log_sizes
        log_density_at = log_density - radius**2 / 2.0
        top = log_peak - order * math.log(c2) + log_density
        span = 2.0 * order / dim * 30.0 + 40.0
        below = np.concatenate([np.geomspace(1e-6, STEP, 60)[:-1], STEP * np.arange(1, int(span / STEP) + 1)])
        log_levels = top - below
        excess = (log_peak + log_density_at[None, :] - log_levels[:, None]) / order - math.log(c2)
        with np.errstate(divide="ignore"):
            log_volume = np.where(excess > 0.0, np.log(np.expm1(np.clip(excess, 1e-300, 600.0))), -np.inf)
            log_volume = half * (log_volume + math.log(c2)) + log_weight[None, :]
        largest = log_volume.max(axis=1, keepdims=True)
        log_count = (largest + np.log(np.exp(log_volume - largest).sum(axis=1, keepdims=True)))[:, 0]
        log_count += math.log(ball) - dim * math.log(2.0 * math.pi)
        # tail = ∫_0^λ N dλ' - λN; below the last level N is a power of λ.
        area = log_levels + log_count
        share = 1.0 / (1.0 - dim / (2.0 * order))
        pieces = np.log(np.diff(below) / 2.0) + np.logaddexp(area[1:], area[:-1])
        log_area = np.logaddexp.accumulate(np.concatenate([[area[-1] + math.log(share)], pieces[::-1]]))[::-1]
        self._log_index = log_count
        self._log_value = log_levels
        self._log_tail = log_area + np.log(-np.expm1(np.minimum(area - log_area, -1e-12)))

    def log_value(self, m: Float) -> Float:
        """log of the m-th eigenvalue."""
        return self._interpolate(m, self._log_value, self._rate + 1.0)

    def log_tail(self, M: Float) -> Float:
        """log Σ_{m>M} λ_m, at most 0."""
        return np.minimum(self._interpolate(M, self._log_tail, self._rate), 0.0)

    def _interpolate(self, m: Float, table: Float, rate: float) -> Float:
        with np.errstate(divide="ignore"):
            log_m = np.log(m)
        beyond = np.maximum(log_m - self._log_index[-1], 0.0)
        return np.interp(log_m, self._log_index, table) - rate * beyond
