"""The mean over X and Z of Tr(K − Q) from the Mercer spectrum: the k-DPP's formula for the mean trace, applied to the
tails (N-pop)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gpbounds.arrays import EPS, Float
from gpbounds.kdpp.esp import scaled_esp
from gpbounds.numerics.convex import greatest_convex_below
from gpbounds.spectra import Spectrum
from gpbounds.spectra.geometric import GeometricSpectrum
from gpbounds.spectra.tables import table_size

FIRST, LAST = 64, 4096
"""Eigenvalues are tabulated for M up to 64, 128, ..., 4096; beyond, the value at 4096 is used, since the value
decreases in M."""
PER_POINT = 4
"""Number of eigenvalues for each M; those beyond enter as infinitely many infinitely small ones (N-cut)."""
SMALLEST_SHARE = 1e-280
"""Below this share of the trace the Gauss-Schmidt form is used, because products of such tails underflow."""


class PopulationTrace:
    """log R(μ), R(μ) = (M+1) e_{M+1}(μ)/e_M(μ), or an upper bound of it: E Tr(K − Q) <= N·R(μ) (N-pop).

    X iid with Mercer eigenvalues μ, Z | X from the k-DPP of size M.  The proofs are those of N-pop and N-cut.  N·R(μ)
    is never above the Gauss-Schmidt form of R-samp.  N may not be replaced by N − M.

    The computation uses only upper bounds T_k on the tails Σ_{m>k} μ_m.  The true tails are convex in k, hence at most
    the greatest convex sequence below T; its differences ν have tails at least those of μ, and R increases and is
    Schur-concave:
    R(μ) <= R(ν).  ν is cut at n terms: R(ν) <= R(ν_1 ... ν_n) + g0·T_n, g0 = 1 + M(1 − τ_M/τ_{M−1}) (N-cut).
    One dimension, squared exponential × Gaussian: v(M+1)(1−B)B^M/(1−B^{M+1}) in closed form (q-binomial theorem).

    Parameters
    ----------
    law : Spectrum

    >>> from gpbounds.inputs import Gaussian
    >>> from gpbounds.kernels import SquaredExponential
    >>> from gpbounds.spectra import spectrum
    >>> law = spectrum(SquaredExponential(), inputs=Gaussian())
    >>> np.exp(PopulationTrace(law).log(np.array([1.0, 5.0]))).round(6)   # Gauss and Schmidt: 0.763932, 0.048784
    array([0.552786, 0.030244])
    """

    def __init__(self, law: Spectrum) -> None:
        self.law = law
        self.closed = isinstance(law, GeometricSpectrum) and law.dim == 1
        self._blocks: dict[int, Float] = {}

    def log(self, M: Float) -> Float:
        """For whole numbers M >= 1 of any shape; +inf where no value is computed (tails below 1e-280 of the trace)."""
        law = self.law
        if self.closed:
            assert isinstance(law, GeometricSpectrum)
            log_B = law.log_B
            ratio = np.log(-np.expm1(log_B)) - np.log(-np.expm1((M + 1.0) * log_B))
            return math.log(law.trace) + np.log(M + 1.0) + M * log_B + ratio
        sizes = np.minimum(M, float(LAST)).astype(np.int64)
        return math.log(law.trace) + self._table(int(sizes.max(initial=1)))[sizes]

    def _table(self, last: int) -> Float:
        """log R/trace for M = 0 ... ``last`` or further.  The value at M does not depend on the other M requested."""
        joined, block = np.zeros(1), FIRST
        while True:
            if block not in self._blocks:
                self._blocks[block] = _log_shares(self.law, block)[joined.size :]
            joined = np.concatenate([joined, self._blocks[block]])
            if block >= last:
                return np.minimum.accumulate(joined)  # R falls with M
            block *= 2


def kept_eigenvalues(M: Float | int) -> Any:
    """The number of eigenvalues from which the value at M is computed at most, M <= LAST."""
    return PER_POINT * table_size(M, FIRST)


def _log_shares(law: Spectrum, last: int) -> Float:
    """log R/trace for M = 0 ... ``last``, from PER_POINT times as many eigenvalues; rounded upwards."""
    n = PER_POINT * last
    log_tails = law.log_tail(np.arange(n + 1.0)) - math.log(law.trace)
    n = int((log_tails >= math.log(SMALLEST_SHARE)).sum()) - 1
    n += n + 1 < log_tails.size and log_tails[n + 1] == -np.inf  # a spectrum that ends loses nothing
    tails = np.exp(log_tails[: n + 1])
    values = -np.diff(greatest_convex_below(tails))
    values = np.maximum.accumulate(values[::-1])[::-1]  # decreasing in spite of rounding
    values = values[values > 0.0]
    if not values.size:  # the eigenvalues are below the last digit of the trace
        return np.concatenate([[0.0], np.full(last, np.inf)])
    M = np.arange(min(last, values.size) + 1)
    mantissa, exponent = scaled_esp(values, int(M[-1]) + 1)
    trace = (M + 1.0) * np.ldexp(mantissa[M + 1] / mantissa[M], exponent[M + 1] - exponent[M])
    # Each e_j is a sum of positive products of at most 3j roundings, added up over n steps; the tails of ``values``
    # are those of ``tails`` up to n roundings.
    allowance = 1.0 + (4.0 * n + 8.0 * M) * EPS
    before = np.concatenate([[np.inf], trace[:-1]])
    slope = 1.0 + M * (1.0 - trace / before / allowance**2)
    with np.errstate(divide="ignore"):
        result = np.log((trace + slope * tails[n]) * allowance)
    return np.concatenate([result, np.full(last + 1 - M.size, np.inf)])
