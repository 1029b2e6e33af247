"""Mercer eigenvalues of squared exponential kernels under Gaussian inputs, and the sums of their tails, in balls."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import comb, prod
from typing import Any

import numpy as np

from gpbounds.enclosures.eigenvalues import Eigenvalues
from gpbounds.rigor import exact
from gpbounds.spectra.lower_sets import edges
from gpbounds.spectra.product import smallest_sums

LARGEST = 2**17
"""Largest number of eigenvalues that are put in order in several dimensions."""


@dataclass(frozen=True)
class Laws(Eigenvalues):
    """λ_n = v Π_d (1 − B_d) B_d^(n_d), n in {0, 1, ...}^D, B_d = e^(−2 arsinh(ℓ_d/(2s_d))) (R-se-eig, L-44, L-51).

    Parameters
    ----------
    variance : float
        v.
    lengthscales, stds : tuple of float
        ℓ_d and s_d, the rational numbers that these doubles are.
    """

    variance: float
    lengthscales: tuple[float, ...]
    stds: tuple[float, ...]

    @property
    def dim(self) -> int:  # type: ignore[override]
        """D."""
        return len(self.stds)

    @property
    def alike(self) -> bool:
        """Whether ℓ_d/s_d is the same number in all dimensions, exactly."""
        return len({Fraction(ell) / Fraction(s) for ell, s in zip(self.lengthscales, self.stds, strict=True)}) == 1

    def ratio(self, d: int = 0) -> Any:
        """B_d."""
        return (-2 * (exact(self.lengthscales[d]) / (2 * exact(self.stds[d]))).asinh()).exp()

    def eigenvalues(self, count: int) -> list[tuple[Any, int]]:
        """``count`` eigenvalues as (value, how often), to rounding in the order of the largest.

        Which ones are taken is decided in doubles, and matters only to how narrow a bound is.
        """
        if self.alike:
            B, left, k = self.ratio(), count, 0
            value = exact(self.variance) * (1 - B) ** self.dim
            levels = []
            while left > 0:
                often = min(left, comb(k + self.dim - 1, k))
                levels.append((value, often))
                value, left, k = value * B, left - often, k + 1
            return levels
        ratios, degrees = [self.ratio(d) for d in range(self.dim)], self._degrees(count)
        scale = exact(self.variance)
        for B in ratios:
            scale *= 1 - B
        return [(scale * power, 1) for power in _powers(ratios, degrees)]

    def tail(self, count: int) -> Any:
        """Σ of all eigenvalues but those of :meth:`eigenvalues`; a sum of positive terms (L-46, L-48)."""
        v = exact(self.variance)
        if count == 0:
            return v
        if self.dim == 1:
            return v * self.ratio() ** count
        if self.alike:
            k, full = self._level(count)
            B = self.ratio()
            beyond = sum((comb(k + i, i) * (1 - B) ** i for i in range(self.dim)), exact(0.0))
            rest = comb(k + self.dim - 1, k) - (count - full)
            return v * B**k * (rest * (1 - B) ** self.dim + B * beyond)
        ratios = [self.ratio(d) for d in range(self.dim)]
        total, weight = exact(0.0), exact(1.0)
        for d, (prefixes, starts) in enumerate(edges(self._degrees(count))):
            total += weight * sum(_powers(ratios, np.column_stack([prefixes, starts])), exact(0.0))
            weight *= 1 - ratios[d]
        return v * total

    def trace(self) -> Any:
        return exact(self.variance)

    def largest(self) -> Any:
        return exact(self.variance)

    def closed_trace(self, M: int) -> Any:
        """v(M+1)(1−B)B^M/(1−B^(M+1)) in one dimension (N-pop, q-binomial theorem)."""
        if self.dim > 1:
            return None
        B = self.ratio()
        return exact(self.variance) * (M + 1) * (1 - B) * B**M / (1 - B ** (M + 1))

    def _level(self, count: int) -> tuple[int, int]:
        """(k, number): ``count`` eigenvalues contain the levels 0 ... k − 1, which have ``number`` eigenvalues."""
        low, high = 0, 1
        while comb(high + self.dim - 1, self.dim) <= count:
            low, high = high, 2 * high
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if comb(middle + self.dim - 1, self.dim) <= count else (low, middle)
        return low, comb(low + self.dim - 1, self.dim) if low else 0

    def _degrees(self, count: int) -> Any:
        if count > LARGEST:
            raise ValueError(
                f"rigor: expected 'float' beyond {LARGEST} eigenvalues of a kernel with one ratio lengthscale/std for "
                f"each dimension, got {count}"
            )
        steps = [2.0 * np.arcsinh(ell / (2.0 * s)) for ell, s in zip(self.lengthscales, self.stds, strict=True)]
        return smallest_sums(np.array(steps), count)[1]


def _powers(ratios: list[Any], degrees: Any) -> list[Any]:
    """Π_d B_d^(n_d) for each row n of ``degrees``."""
    tables = []
    for d in range(degrees.shape[1]):
        table = [exact(1.0)]
        for _ in range(int(degrees[:, d].max(initial=0))):
            table.append(table[-1] * ratios[d])
        tables.append(table)
    return [prod(table[m] for table, m in zip(tables, n, strict=True)) for n in degrees.tolist()]


@dataclass(frozen=True)
class Rotated(Laws):
    """The same under Gaussian inputs with a covariance: ℓ_d/s_d = 1/√g_d, g the eigenvalues of Λ⁻¹ΣΛ⁻¹ (N-cov).

    ``lengthscales`` and ``stds`` are 1 and about √g_d, and decide only which eigenvalues are taken.

    Attributes
    ----------
    units : tuple of float
        The lengthscales of the kernel.
    cov : tuple of tuple of float
        Σ.
    """

    units: tuple[float, ...]
    cov: tuple[tuple[float, ...], ...]
    alike = False

    def ratio(self, d: int = 0) -> Any:
        return (-2 * (1 / (2 * self._variances()[d].sqrt())).asinh()).exp()

    def _variances(self) -> list[Any]:
        from flint import ctx

        return _principal_variances(self.cov, self.units, ctx.prec)


@lru_cache(maxsize=64)
def _principal_variances(cov: tuple[tuple[float, ...], ...], units: tuple[float, ...], bits: int) -> list[Any]:
    """The eigenvalues of Λ⁻¹ΣΛ⁻¹ at the present precision, which is ``bits``, decreasing."""
    from flint import acb_mat

    scaled = [
        [exact(entry) / (exact(a) * exact(b)) for entry, b in zip(row, units, strict=True)]
        for row, a in zip(cov, units, strict=True)
    ]
    return sorted((value.real for value in acb_mat(scaled).eig(multiple=True)), key=float, reverse=True)
