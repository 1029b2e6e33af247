"""Sums of kernels: tails from those of the summands (N-direct)."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from gpbounds.arrays import EPS, Float
from gpbounds.errors import NotConverged
from gpbounds.spectra.base import Spectrum
from gpbounds.spectra.tables import looked_up, table_size
from gpbounds.spectra.tensor import FIRST, LARGEST_ORDER, convex_shares
from gpbounds.validation import count as one_count


class SumSpectrum(Spectrum):
    """k = Σ_i k_i on any columns, under any law: upper bounds of the tails (N-direct).

        tail_M(k)  <=  Σ_i tail_{M_i}(k_i)   for all whole numbers M_i >= 0 with Σ_i M_i <= M.

    The proof is that of N-direct.

    The bound is the tail of the M largest of all eigenvalues of the summands together, and equality holds if their
    images are orthogonal.  M_i counts the differences of convex sequences below the tails of the parts among the M
    largest; any M_i give a bound, so that only the last sum is rounded, and its logarithm is raised for this.

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
        differences = [convex_shares(part, size)[0] + math.log(part.trace) for part in self.parts]
        owners = np.repeat(np.arange(len(self.parts)), [each.size for each in differences])
        order = owners[np.argsort(-np.concatenate(differences), kind="stable")[:size]]
        logs = np.full(order.size + 1, -np.inf)
        for i, part in enumerate(self.parts):
            taken = np.append(0, np.cumsum(order == i))
            logs = np.logaddexp(logs, part.log_tail(taken))
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
