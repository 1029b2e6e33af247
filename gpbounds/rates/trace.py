"""E Tr(K - Q) for Z drawn from a k-DPP: bounded a priori from a spectrum, or exact for given data; its roundings."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from gpbounds.arrays import EPS, Float
from gpbounds.bound import ENCLOSED, FIXED, FIXED_IN_ADVANCE, MEASURED, drawn_from, exp_up, given_inputs
from gpbounds.inputs import Empirical, InputLaw
from gpbounds.kdpp.esp import scaled_esp
from gpbounds.kdpp.expectations import expected_trace
from gpbounds.kernels import Kernel
from gpbounds.kernels.errors import entry_bound
from gpbounds.kernels.pairs import pair_error, pair_variances
from gpbounds.numerics.scalars import greatest_convex_below
from gpbounds.numerics.search import least_each
from gpbounds.spectra import Spectrum, data_spectrum, sharpest_spectrum, spectrum
from gpbounds.spectra.base import table_size
from gpbounds.spectra.empirical import DataSpectrum
from gpbounds.spectra.gaussian import GeometricSpectrum

# The mean over X and Z of Tr(K − Q) from the Mercer spectrum: the k-DPP's formula for the mean trace, applied to the
# tails (N-pop).

FIRST, LAST = 64, 4096
"""Eigenvalues are tabulated for M up to 64, 128, ..., 4096; beyond, the value at 4096 is used, since the value
decreases in M."""
_PER_POINT = 4
"""Number of eigenvalues for each M; those beyond enter as infinitely many infinitely small ones (N-cut)."""
_SMALLEST_SHARE = 1e-280
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
        """log R(μ) for whole M >= 1 of any shape; +inf where no value is computed (tails below 1e-280 of the trace)."""
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
    """Largest number of eigenvalues used for the value at M <= LAST."""
    return _PER_POINT * table_size(M, FIRST)


def _log_shares(law: Spectrum, last: int) -> Float:
    """log R/trace for M = 0 ... ``last``, from _PER_POINT times as many eigenvalues; rounded upwards."""
    n = _PER_POINT * last
    log_tails = law.log_tail(np.arange(n + 1.0)) - math.log(law.trace)
    n = int((log_tails >= math.log(_SMALLEST_SHARE)).sum()) - 1
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


# How far `rate` in doubles may be below the bound that it computes, because of rounding (N-rate-rounding).

FAR, NEAR = 1492.0, 645.0
"""R-lem3 uses tails of at least e^-FAR of the trace, N-pop of at least e^-NEAR; lesser results become 2^-1022."""


def _before_data(spectrum: Spectrum, population: PopulationTrace | None, M: Float) -> Float:
    """c: the relative error of `rate` is at most c·2^-53; inf where the roundings of a spectrum are not counted.

    c = 1.2·max{s + 7800, p} + 1200, s the c of the tails up to M (`Spectrum.roundings`), p the c of `_from_population`,
    omitted for the printed form.

    >>> from gpbounds.inputs import Gaussian
    >>> from gpbounds.kernels import SquaredExponential
    >>> from gpbounds.spectra import spectrum
    >>> law = spectrum(SquaredExponential(), inputs=Gaussian(dim=2))
    >>> _before_data(law, PopulationTrace(law), np.array([64.0, 4096.0])) * 2.0**-53 < 1e-11
    array([ True, False])
    """
    tails = spectrum.roundings(M, FAR) + 7800.0
    means = tails if population is None else _from_population(population, M)
    return 1.2 * np.maximum(tails, means) + 1200.0


def _from_population(population: PopulationTrace, M: Float) -> Float:
    """c of N·R(μ): 57 000 for the closed form, else s + n + 3M + 21 100, s the c of the tails of n eigenvalues."""
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


# E Tr(K - Q) for Z drawn from a k-DPP: bounded a priori from a spectrum, or exact for given data.


def best_truncation(law: Spectrum, M: Float) -> Float:
    """The k in 0 ... M that makes (M+1)/(M+1-k)·tail(k) least (R-lem3, sharper), with O(log M) tails each.

    tail is convex in k and M+1-k is linear, so their quotient is quasi-convex in k: its minimum is at the
    first k with tail(k+1)/(M-k) >= tail(k)/(M+1-k).  Where ``law`` gives upper bounds, these may equal the trace up to
    some k: among those k = 0 is best, and the search starts beyond.
    """

    def no_longer_falls(k: Float) -> Any:
        with np.errstate(divide="ignore", invalid="ignore"):
            gain = law.log_tail(k) - law.log_tail(np.minimum(k + 1.0, M))
            return ~(gain > np.log(M + 1.0 - k) - np.log(M - k))  # also where both tails are 0

    whole = law.log_tail(0.0)
    falling = least_each(lambda k: law.log_tail(k) < whole, np.zeros_like(M), M)
    return least_each(no_longer_falls, falling, M)


def log_best_truncation(law: Spectrum, M: Float) -> Float:
    """log min_{0<=k<=M} (M+1)/(M+1-k)·tail(k), entry by entry; k = M, the printed form, and 0 are also evaluated."""
    k = best_truncation(law, M)
    best = np.minimum(law.log_tail(k) - np.log(M + 1.0 - k), law.log_tail(M))
    return np.minimum(best + np.log(M + 1.0), law.log_tail(0.0))


class TraceLaw(ABC):
    """Bounds on t = E Tr(K - Q) for N inputs, M of them drawn by a k-DPP."""

    spectrum: Spectrum
    claims: str
    assumptions: tuple[str, ...]

    @abstractmethod
    def sharpest(self, N: Float, M: Float) -> Float:
        """The least proved bound."""

    @abstractmethod
    def largest(self, N: Float, M: Float | float = 0.0) -> Float:
        """An upper bound on the mean over X of the largest Tr(K − Q) of any M points."""

    @abstractmethod
    def printed(self, N: Float, M: Float, tail_at: Float | None = None) -> Float:
        """(M+1) times the tail at M, as printed; the tail is taken at ``tail_at`` <= M if it is passed."""

    @abstractmethod
    def roundings(self, N: Float, M: Float, *, printed: bool = False) -> Float:
        """c: `rate` from t as computed errs by at most c·2^-53 of itself (N-rate-rounding); inf where it is measured.

        ``printed`` concerns the printed form.
        """

    def measured(self, roundings: Float) -> str | None:
        """The assumption that says what of the rounding is measured; None if the ``roundings`` are proved."""
        return None if self.spectrum.certified and np.isfinite(roundings).all() else MEASURED


class APriori(TraceLaw):
    """X iid from a law with a known spectrum: N·R(μ) (N-pop), or N·tail(k) (R-samp) in R-lem3 where that is less."""

    def __init__(self, kernel: Kernel, inputs: InputLaw) -> None:
        self.spectrum = spectrum(kernel, inputs=inputs)
        self.max_variance = kernel.max_variance
        population = sharpest_spectrum(kernel, inputs)
        self.population = PopulationTrace(population)
        self.claims = "R-lem3, R-samp, N-pop"
        self.assumptions = (drawn_from(inputs), FIXED, population.note)

    def sharpest(self, N: Float, M: Float) -> Float:
        sizes, index = np.unique(M, return_inverse=True)
        best = np.minimum(log_best_truncation(self.spectrum, sizes), self.population.log(sizes))
        return exp_up(np.log(N) + best[index].reshape(M.shape))

    def largest(self, N: Float, M: Float | float = 0.0) -> Float:
        """(N − M) sup k(x, x), and for a kernel without a largest variance N·E k(x, x), the mean of Tr K."""
        if math.isfinite(self.max_variance):
            return (N - M) * self.max_variance
        return N * self.spectrum.trace + 0.0 * M

    def printed(self, N: Float, M: Float, tail_at: Float | None = None) -> Float:
        log_tail = self.spectrum.log_tail(M if tail_at is None else tail_at)
        return exp_up(np.log(M + 1.0) + np.log(N) + log_tail)

    def roundings(self, N: Float, M: Float, *, printed: bool = False) -> Float:
        return _before_data(self.spectrum, None if printed else self.population, M)


class GivenData(TraceLaw):
    """X given: E_Z Tr(K - Q) = (M+1) e_{M+1}/e_M of the eigenvalues of K, exactly (R-lem3).

    e_{M+1}/e_M increases in every eigenvalue (Newton's inequalities), so eigenvalues rounded upward give an
    upper bound.  Where they are proved upper bounds, the ratio, which is computed by sums and products of positive
    numbers, fewer than 16N + 100 one after another, is raised by 40(N + 100)·2⁻⁵².
    """

    def __init__(self, kernel: Kernel, inputs: Empirical, rigor: str) -> None:
        self.spectrum: DataSpectrum = data_spectrum(kernel, inputs, rigor)
        proved = self.spectrum.certified
        self.up = 1.0 + (40.0 * (inputs.N + 100) * EPS if proved else 0.0)
        # k(x, x) of rows in single precision is rounded; the largest variance is a double, and sums of them round
        diagonal = kernel.max_variance * (1.0 + 1e-14) if proved else float(kernel.diag(inputs.X).max())
        if not math.isfinite(diagonal) and rigor == "auto":
            X = np.asarray(inputs.X, dtype=np.float64)
            diagonal = 1.01 * float(entry_bound(kernel, X, X) or 0.0) + float(kernel.diag(X).max()) * (1.0 + 1e-14)
        elif not math.isfinite(diagonal):
            X = np.asarray(inputs.X, dtype=np.float64)
            diagonal = float(pair_variances(kernel, X)[0].max()) * (1.0 + 1e-14) + pair_error(kernel, X)
        self.largest_variance = diagonal
        self.N = inputs.N
        self.claims = f"R-lem3, {'N-graded' if rigor == 'sharp' else 'N-enclosed'}" if proved else "R-lem3"
        platform = (ENCLOSED,) if proved and rigor == "auto" else ()
        self.assumptions = (given_inputs(self.N), FIXED_IN_ADVANCE, *platform)

    def _check(self, N: Float) -> None:
        if (N != self.N).any():
            raise ValueError(
                f"N: expected the number of rows of X, {self.N}, for inputs=Empirical(X), got {N.flat[0]:.0f}"
            )

    def sharpest(self, N: Float, M: Float) -> Float:
        self._check(N)
        sizes, index = np.unique(M, return_inverse=True)
        exact = expected_trace(self.spectrum.upper_eigenvalues() * self.N, sizes) * self.up
        return np.broadcast_to(exact[index].reshape(M.shape), np.broadcast_shapes(N.shape, M.shape))

    def largest(self, N: Float, M: Float | float = 0.0) -> Float:
        """(N − M) max_i k(x_i, x_i)."""
        return (N - M) * self.largest_variance

    def printed(self, N: Float, M: Float, tail_at: Float | None = None) -> Float:
        self._check(N)
        return np.exp(np.log(M + 1.0) + np.log(N) + self.spectrum.log_tail(M if tail_at is None else tail_at))

    def roundings(self, N: Float, M: Float, *, printed: bool = False) -> Float:
        return given_eigenvalues(N, M)

    def measured(self, roundings: Float) -> str | None:
        return None if self.spectrum.certified else self.spectrum.note


def trace_law(kernel: Kernel, inputs: InputLaw, rigor: str) -> TraceLaw:
    """The :class:`TraceLaw` for ``inputs``; ``rigor`` concerns `Empirical` inputs only."""
    return GivenData(kernel, inputs, rigor) if isinstance(inputs, Empirical) else APriori(kernel, inputs)
