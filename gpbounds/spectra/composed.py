"""Spectra of products of kernels on different, independent columns (N-tensor), and of sums (N-direct)."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from gpbounds.arrays import EPS, Float
from gpbounds.errors import NotConverged
from gpbounds.numerics.scalars import greatest_convex_below
from gpbounds.spectra.base import Spectrum, edges, log_sum, looked_up, smallest_totals, table_size
from gpbounds.spectra.gaussian import log_tails
from gpbounds.validation import count as one_count

FIRST = 256
"""Length of the shortest order."""
LARGEST_ORDER = 2**20
"""Largest number of eigenvalues that are ordered: more would take minutes."""
SMALLEST = 1e-280
"""Tails of a part below this share of its trace are raised to it, and no further eigenvalues are formed."""


class TensorSpectrum(Spectrum):
    """k(x, x') = Π_i k_i(x_i, x'_i), the blocks x_i of columns independent: upper bounds of the tails (N-tensor).

    The Mercer eigenvalues are the products of those of the parts.  Let T_M be upper bounds of the tails of a part as
    shares of its trace, H the greatest convex sequence below T_0 = 1, T_1 ... T_L, and ν_m = H_{m−1} − H_m.  Then

        tail(M)/trace  <=  1 − (the sum of the M largest products of the ν)  =  Σ (the others).

    The proof is that of N-tensor.

    The products kept are a lower set; what lies outside is a sum of positive terms over its edges, Π_{i<d} ν_{n_i}·H_m,
    without the subtraction 1 − Σ.  Tails are raised by (4·D·L + n + 64)·eps of themselves for the rounding of ν, of
    products and of sums, n the number of products kept, the least power of two that is >= M and >= 256.

    Parameters
    ----------
    parts : sequence of Spectrum
    scale : float
        A constant factor of the kernel.

    >>> from gpbounds import Matern, Uniform, spectrum
    >>> kernel = Matern(1.5).on([0]) * Matern(0.5, 1.0, 2.0).on([1])
    >>> law = spectrum(kernel, inputs=Uniform([0.0, 0.0], [1.0, 1.0]))
    >>> law.certified, law.tail([0, 1, 10, 100]).round(5).tolist()
    (True, [1.0, 0.25786, 0.02774, 0.00261])
    """

    def __init__(self, parts: Sequence[Spectrum], scale: float = 1.0) -> None:
        self.parts = tuple(parts)
        self.trace = scale * math.prod(part.trace for part in parts)
        self.certified = all(part.certified for part in parts)
        self.source = ", ".join(dict.fromkeys(["N-tensor", *(s for part in parts for s in part.source.split(", "))]))
        notes = " ".join(dict.fromkeys(part.note for part in parts))
        self.note = f"Eigenvalue sums are those of products over independent columns, from upper bounds. {notes}"
        self._tables: dict[int, Float] = {}

    def _require(self, count: int) -> None:
        if count > LARGEST_ORDER:
            raise NotConverged(
                f"expected at most {LARGEST_ORDER} eigenvalues of a product of kernels on different columns, which are "
                f"sorted, got {count}: ask for fewer"
            )

    def _order(self, size: int) -> Float:
        """log tails / trace for M = 0 ... ``size``, or as many as there are."""
        if size not in self._tables:
            self._tables[size] = self._ordered(size)
        return self._tables[size]

    def _ordered(self, size: int) -> Float:
        values, beyond = zip(*(_convex_shares(part, size) for part in self.parts), strict=True)
        sums, degrees = smallest_totals([value[0] - value for value in values], size)
        logs = [
            sum((values[i][prefixes[:, i]] for i in range(d)), beyond[d][starts])
            for d, (prefixes, starts) in enumerate(edges(degrees))
        ]
        log_terms = sum(float(value[0]) for value in values) - sums
        allowance = (4.0 * size * len(values) + sums.size + 64.0) * EPS
        return log_tails(log_terms, log_sum(np.concatenate(logs))) + allowance

    def eigenvalues(self, count: int) -> Float:
        """The largest products of the eigenvalues of the parts, which are exact or upper bounds, as their notes say."""
        count = one_count("count", count)
        with np.errstate(divide="ignore"):  # eigenvalues beyond a finite rank are 0
            logs = [np.log(part.eigenvalues(count)) for part in self.parts]
        sums, _ = smallest_totals([values[0] - values for values in logs], count)
        scale = self.trace / math.prod(part.trace for part in self.parts)
        return scale * np.exp(sum(float(values[0]) for values in logs) - sums)

    def _log_tail(self, M: Float) -> Float:
        self._require(int(M.max(initial=0.0)))
        return math.log(self.trace) + np.minimum(looked_up(M, FIRST, self._order), 0.0)

    def roundings(self, last: Float, size: Float | float) -> Float:
        n, D = table_size(last, FIRST), len(self.parts)
        of_parts = sum((part.roundings(n, -math.log(SMALLEST)) for part in self.parts), np.zeros(n.shape))
        return of_parts + 19.0 * size + 18_200.0 + D * (2.0 * size + 6700.0 + 15.0 * n) + n


def _convex_shares(part: Spectrum, size: int) -> tuple[Float, Float]:
    """(log ν_1 ... log ν_L, decreasing; log H_0 ... log H_L) as shares of the trace, L <= ``size``."""
    logs = np.minimum(part.log_tail(np.arange(size + 1.0)) - math.log(part.trace), 0.0)
    logs[1:] = np.where((logs[1:] < math.log(SMALLEST)) & (logs[1:] > -np.inf), math.log(SMALLEST), logs[1:])
    above = int((logs > math.log(SMALLEST)).sum())
    tails = np.exp(logs[: above + 1])  # the last one is 0 for a spectrum that ends
    tails[0] = 1.0
    convex = greatest_convex_below(np.minimum.accumulate(tails))
    values = -np.diff(convex)
    values = np.maximum.accumulate(values[::-1])[::-1]  # decreasing in spite of rounding
    values = values[values > 0.0]
    with np.errstate(divide="ignore"):
        return np.log(values), np.log(convex[: values.size + 1])


# Sums of kernels: tails from those of the summands (N-direct).


class SumSpectrum(Spectrum):
    """k = Σ_i k_i on any columns, under any law: upper bounds of the tails (N-direct).

        tail_M(k)  <=  Σ_i tail_{M_i}(k_i)   for all whole numbers M_i >= 0 with Σ_i M_i <= M.

    The proof is that of N-direct.

    The bound is the tail of the M largest of all eigenvalues of the summands together, and equality holds if their
    images are orthogonal.  M_i is the number of part i's differences among the M largest differences of the convex
    sequences below the parts' tails.  Any M_i give a bound, so only the last sum needs an allowance for rounding.

    Parameters
    ----------
    parts : sequence of Spectrum

    >>> from gpbounds import Gaussian, SquaredExponential, spectrum
    >>> from gpbounds.kernels import Constant, Linear
    >>> law = spectrum(SquaredExponential() + Linear(2.0) + Constant(3.0), inputs=Gaussian())
    >>> law.certified, law.tail([0, 1, 2, 3, 4]).round(4).tolist()
    (True, [6.0, 3.0, 1.0, 0.382, 0.1459])
    """

    def __init__(self, parts: Sequence[Spectrum]) -> None:
        self.parts = tuple(parts)
        self.trace = math.fsum(part.trace for part in parts)
        self.certified = all(part.certified for part in parts)
        self.source = ", ".join(dict.fromkeys(["N-direct", *(s for part in parts for s in part.source.split(", "))]))
        notes = " ".join(dict.fromkeys(part.note for part in parts))
        self.note = f"Eigenvalue sums are upper bounds, from those of the summands of the kernel. {notes}"
        self._tables: dict[int, Float] = {}

    def _require(self, count: int) -> None:
        if count > LARGEST_ORDER:
            raise NotConverged(
                f"expected at most {LARGEST_ORDER} eigenvalues of a sum of kernels, which are sorted, got {count}: ask "
                "for fewer"
            )

    def _order(self, size: int) -> Float:
        """log tails for M = 0 ... ``size``."""
        if size not in self._tables:
            self._tables[size] = self._ordered(size)
        return self._tables[size]

    def _ordered(self, size: int) -> Float:
        differences = [_convex_shares(part, size)[0] + math.log(part.trace) for part in self.parts]
        owners = np.repeat(np.arange(len(self.parts)), [each.size for each in differences])
        order = owners[np.argsort(-np.concatenate(differences), kind="stable")[:size]]
        logs = np.full(order.size + 1, -np.inf)
        for i, part in enumerate(self.parts):
            counts = np.append(0, np.cumsum(order == i))
            logs = np.logaddexp(logs, part.log_tail(counts))
        logs = np.minimum(logs, math.log(self.trace))
        allowances = (8.0 * len(self.parts) + 2.0 * np.where(np.isfinite(logs), np.abs(logs), 0.0)) * EPS
        return logs + allowances

    def eigenvalues(self, count: int) -> Float:
        """Upper bounds by Weyl's inequality, λ_{i+j−1}(A + B) <= λ_i(A) + λ_j(B), from those of the parts."""
        count = one_count("count", count)
        total = self.parts[0].eigenvalues(count)
        for part in self.parts[1:]:
            other = part.eigenvalues(count)
            total = np.array([(total[: m + 1] + other[m::-1]).min() for m in range(count)])
        return total * (1.0 + len(self.parts) * EPS)

    def _log_tail(self, M: Float) -> Float:
        self._require(int(M.max(initial=0.0)))
        return looked_up(M, FIRST, self._order)

    def roundings(self, last: Float, size: Float | float) -> Float:
        n, p = table_size(last, FIRST), len(self.parts)
        # a tail of less than e^-40 of the sum of tails does not count
        of_parts = np.max([part.roundings(n, size + 40.0) for part in self.parts], axis=0)
        return np.asarray(of_parts + (p + 1.0) * (size + 760.0) + 6001.0)
