"""SE kernel, Gaussian inputs, another ratio lengthscale/std in each dimension: best-first order (L-46)."""

from __future__ import annotations

import numpy as np

from gpbounds.arrays import Float
from gpbounds.errors import NotConverged
from gpbounds.inputs import Gaussian, independent_stds
from gpbounds.kernels import SquaredExponential
from gpbounds.spectra.base import Spectrum
from gpbounds.spectra.geometric import log_ratio, tail_roundings
from gpbounds.spectra.lower_sets import Degrees, edges, log_sum, smallest_totals
from gpbounds.spectra.tables import looked_up, table_size
from gpbounds.validation import count as one_count

FIRST = 64
"""Length of the shortest order."""
LARGEST_ORDER = 2**24
"""Largest number of eigenvalues that are ordered: more would take gigabytes and minutes."""


def smallest_sums(steps: Float, count: int) -> tuple[Float, Degrees]:
    """The ``count`` smallest values of n·steps over n in {0, 1, ...}^D, increasing, and their n, shape (count, D)."""
    return smallest_totals([np.arange(count) * step for step in steps], count)


def log_complement(steps: Float, degrees: Degrees) -> float:
    """log of Σ Π_d (1-B_d) B_d^(n_d), B = e^(-steps), over all n outside the lower set ``degrees``, not as 1 - Σ.

    The weight of the orthant with prefix n' and start m in coordinate d is Π_{i<d} (1-B_i) B_i^(n'_i) · B_d^m, so the
    complement is a finite sum of positive terms.
    """
    log_q = np.log(-np.expm1(-steps))
    logs = [
        prefixes @ -steps[:d] + log_q[:d].sum() - starts * steps[d]
        for d, (prefixes, starts) in enumerate(edges(degrees))
    ]
    return log_sum(np.concatenate(logs))


def log_tails(log_terms: Float, log_rest: float) -> Float:
    """log(rest + Σ_{m>M} terms) for M = 0 ... n, for decreasing log terms; the smallest are added first.

    Sums are computed in linear scale, in blocks whose terms span less than e^600.
    """
    upward = log_terms[::-1]
    result = np.empty(upward.size + 1)
    result[0] = log_rest
    start = 0
    while start < upward.size:
        base = max(result[start], upward[start])
        stop = max(start + 1, int(np.searchsorted(upward, base + 600.0)))
        sums = np.cumsum(np.exp(upward[start:stop] - base)) + np.exp(result[start] - base)
        result[start + 1 : stop + 1] = base + np.log(sums)
        start = stop
    return result[::-1]


class ProductSpectrum(Spectrum):
    """SE × Gaussian with per-dimension ℓ_d/s_d: λ_n = v Π_d (1-B_d) B_d^(n_d), largest first (L-44, L-46, L-51).

    Ordering the first M takes O(D·M log M) time and memory.  The tail at M is computed from the order of the least
    power of two that is >= M, whatever else was asked for.
    """

    certified = True
    source = "L-44, L-46, L-51"
    note = "The eigenvalues are exact (squared exponential kernel, Gaussian inputs), taken in best-first order."

    def __init__(self, kernel: SquaredExponential, inputs: Gaussian) -> None:
        self.trace, self.dim = kernel.variance, inputs.dim
        self._steps = -log_ratio(kernel.lengthscales(inputs.dim), independent_stds(inputs))
        self._log_terms = np.empty(0)
        self._tables: dict[int, Float] = {}

    def _require(self, count: int) -> None:
        if count > LARGEST_ORDER:
            raise NotConverged(
                f"expected at most {LARGEST_ORDER} eigenvalues of a spectrum with per-dimension lengthscales, which "
                f"are sorted, got {count}: ask for fewer, or use one ratio lengthscale/std in all dimensions"
            )

    def _order(self, size: int) -> Float:
        """log tails / trace for M = 0 ... ``size``."""
        if size not in self._tables:
            sums, degrees = smallest_sums(self._steps, size)
            log_terms = np.log(-np.expm1(-self._steps)).sum() - sums
            self._tables[size] = log_tails(log_terms, log_complement(self._steps, degrees))
            self._log_terms = max(self._log_terms, log_terms, key=len)
        return self._tables[size]

    def eigenvalues(self, count: int) -> Float:
        count = one_count("count", count)
        if count > self._log_terms.size:
            self._require(count)
            self._order(int(table_size(np.asarray(float(count)), FIRST)))
        return self.trace * np.exp(self._log_terms[:count])

    def _log_tail(self, M: Float) -> Float:
        self._require(int(M.max(initial=0.0)))
        return np.log(self.trace) + looked_up(M, FIRST, self._order)

    def roundings(self, last: Float, size: Float | float) -> Float:
        return tail_roundings(self.dim, table_size(last, FIRST), size)
