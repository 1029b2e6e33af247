"""E Tr(K - Q) for Z drawn from a k-DPP: bounded a priori from a spectrum, or exact for given data."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from gpbounds.arrays import EPS, Float
from gpbounds.inputs import Empirical, InputLaw
from gpbounds.kdpp.expectations import expected_trace
from gpbounds.kernels import Kernel
from gpbounds.kernels.errors import entry_bound
from gpbounds.kernels.pairs import pair_error, pair_variances
from gpbounds.numerics.search import least_each
from gpbounds.rates import errors
from gpbounds.rates.population import PopulationTrace
from gpbounds.spectra import Spectrum, data_spectrum, sharpest_spectrum, spectrum
from gpbounds.spectra.empirical import DataSpectrum
from gpbounds.statements import ENCLOSED, FIXED, FIXED_IN_ADVANCE, MEASURED, drawn_from, exp_up, given_inputs


def best_truncation(law: Spectrum, M: Float) -> Float:
    """The k in 0 ... M that makes (M+1)/(M+1-k)·tail(k) least (R-lem3, sharper), with O(log M) tails each.

    tail is convex in k and M+1-k is linear, so their quotient is quasi-convex in k: its minimum is at the
    first k with tail(k+1)/(M-k) >= tail(k)/(M+1-k).  Where ``law`` gives upper bounds, these may equal the trace up to
    some k: among those k = 0 is best, and the search starts beyond.
    """

    def turned(k: Float) -> Any:
        with np.errstate(divide="ignore", invalid="ignore"):
            gain = law.log_tail(k) - law.log_tail(np.minimum(k + 1.0, M))
            return ~(gain > np.log(M + 1.0 - k) - np.log(M - k))  # also where both tails are 0

    whole = law.log_tail(0.0)
    falling = least_each(lambda k: law.log_tail(k) < whole, np.zeros_like(M), M)
    return least_each(turned, falling, M)


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
        return errors.before_data(self.spectrum, None if printed else self.population, M)


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
        return errors.given_eigenvalues(N, M)

    def measured(self, roundings: Float) -> str | None:
        return None if self.spectrum.certified else self.spectrum.note


def trace_law(kernel: Kernel, inputs: InputLaw, rigor: str) -> TraceLaw:
    """The :class:`TraceLaw` for ``inputs``; ``rigor`` concerns `Empirical` inputs only."""
    return GivenData(kernel, inputs, rigor) if isinstance(inputs, Empirical) else APriori(kernel, inputs)
