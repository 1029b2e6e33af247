"""SE kernel, Gaussian inputs, the same ratio lengthscale/std in every dimension: a negative binomial law."""

from __future__ import annotations

import math

import numpy as np

from gpbounds.arrays import Float
from gpbounds.inputs import Gaussian, independent_stds
from gpbounds.kernels import SquaredExponential
from gpbounds.spectra.base import Spectrum
from gpbounds.validation import count as one_count


def log_ratio(lengthscale: Float, std: Float) -> Float:
    """log B = -2 arsinh(ℓ/(2s)): the ratio of successive eigenvalues in one dimension (R-se-eig, L-51).

    B = 1 + τ - √(τ² + 2τ) with τ = ℓ²/(2s²) is e^(-arcosh(1 + τ)), and arcosh(1 + 2u²) = 2 arsinh u.

    >>> float(np.exp(log_ratio(1.0, 1.0)).round(6))
    0.381966
    """
    return -2.0 * np.arcsinh(np.asarray(lengthscale) / (2.0 * np.asarray(std)))


def full_level(M: Float, dim: int) -> tuple[Float, Float]:
    """(k, count): M eigenvalues contain k full levels, total degrees 0 ... k - 1, with count = C(k - 1 + D, D) <= M.

    Level k has C(k + D - 1, D - 1) equal eigenvalues.
    """
    if dim == 1:
        return M, M
    counts, k, last = [0.0], 0, float(M.max(initial=0.0))
    while counts[-1] <= last:
        counts.append(float(math.comb(k + dim, dim)))
        k += 1
    table = np.array(counts)
    level = np.searchsorted(table, M, side="right") - 1
    return level.astype(np.float64), table[level]


def log_tail(log_B: Float, M: Float, dim: int) -> Float:
    """log of the share of the trace beyond the M largest eigenvalues (1-B)^D B^k, level k having C(k+D-1, D-1).

    In 1-D it is M log B.  Otherwise, if the M largest are k full levels and j eigenvalues of level k, it is the sum of
    two positive parts: the other eigenvalues of level k, and I_B(k+1, D) = B^(k+1) Σ_{i<D} C(k+i, i) (1-B)^i (L-48,
    R-seD), a finite sum of positive terms.  ``log_B`` and ``M`` broadcast.
    """
    if dim == 1:
        return M * log_B
    k, full = full_level(M, dim)
    log_q = np.log(-np.expm1(log_B))  # log(1 - B)
    q = np.exp(log_q)
    term, beyond, size = np.ones(np.broadcast(k, q).shape), np.zeros(np.broadcast(k, q).shape), np.ones_like(k)
    for i in range(dim):
        beyond = beyond + term
        if i < dim - 1:
            size = size * ((k + i + 1.0) / (i + 1.0))  # after the loop C(k + D - 1, D - 1)
        term = term * (q * ((k + i + 1.0) / (i + 1.0)))
    rest = np.rint(size) - (M - full)
    # B^k is a factor of both parts; the logarithm of the rest is O(1).
    return k * log_B + np.log(rest * np.exp(dim * log_q) + np.exp(log_B) * beyond)


def tail_roundings(dim: int, ordered: Float | float, size: Float | float) -> Float:
    """c of `Spectrum.roundings` for SE × Gaussian in ``dim`` dimensions, from sums of ``ordered`` eigenvalues at most.

    It grows with log tails because these are computed, and their exponentials taken (N-tail-rounding); size >= 500.
    """
    return np.asarray(23.0 * size + 20_500.0 + dim * (size + 350.0) + (dim + 2.0) * ordered)


class GeometricSpectrum(Spectrum):
    """SE × Gaussian with one ratio ℓ/s: λ = v (1-B)^D B^k for total degree k (R-se-eig, R-se-tail, R-seD, L-44, L-48).

    In one dimension the tail is exactly v·B^M.
    """

    certified = True
    source = "R-se-eig, R-se-tail, R-seD, L-44, L-48, L-51"
    note = "The eigenvalues are exact (squared exponential kernel, Gaussian inputs)."

    def __init__(self, kernel: SquaredExponential, inputs: Gaussian) -> None:
        self.dim = inputs.dim
        self.trace = kernel.variance
        self.log_B = float(log_ratio(kernel.lengthscales(self.dim), independent_stds(inputs))[0])

    def eigenvalues(self, count: int) -> Float:
        count = one_count("count", count)
        m = np.arange(count, dtype=np.float64)
        level, _ = full_level(m, self.dim)
        return self.trace * np.exp(self.dim * np.log(-np.expm1(self.log_B)) + level * self.log_B)

    def _log_tail(self, M: Float) -> Float:
        return np.log(self.trace) + log_tail(np.asarray(self.log_B), M, self.dim)

    def roundings(self, last: Float, size: Float | float) -> Float:
        return tail_roundings(self.dim, 0.0 * last, size)
