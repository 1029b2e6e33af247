"""SE kernel, inputs uniform on a box: upper bounds from Gaussian laws that dominate the uniform one."""

from __future__ import annotations

import numpy as np

from gpbounds.arrays import Float
from gpbounds.inputs import Gaussian, Uniform
from gpbounds.kernels import SquaredExponential
from gpbounds.numerics.roots import golden
from gpbounds.spectra.base import Spectrum
from gpbounds.spectra.geometric import full_level, log_ratio, log_tail, tail_roundings
from gpbounds.spectra.product import FIRST, ProductSpectrum
from gpbounds.spectra.tables import table_size
from gpbounds.validation import count as one_count

TABULATED = 2**17
"""Tails for M below it are computed from a table, and their roundings counted."""


def log_domination(std: Float, half: Float) -> Float:
    """log C, C = √(2π) s/(2h)·e^(h²/(2s²)): the least C with (density of Uniform(-h, h)) <= C·N(0, s²)."""
    return np.log(np.sqrt(2.0 * np.pi) * std / (2.0 * half)) + 0.5 * (half / std) ** 2


def domination_family(lengthscales: Float, halves: Float) -> list[tuple[float, Float, ProductSpectrum]]:
    """(log C, stds, Gaussian law) for energies E: std in dimension d suits the degree n_d = E/log(1/B_d)."""
    laws = []
    unit = SquaredExponential(1.0, lengthscales)
    for energy in np.geomspace(0.25, 700.0, 36):
        std = halves.copy()
        for _ in range(100):  # fixed point of s²(1 + 2nℓ/√(4s² + ℓ²)) = h²; any s gives a bound
            degree = energy / -log_ratio(lengthscales, std)
            pull = 2.0 * degree * lengthscales / np.hypot(2.0 * std, lengthscales)
            std = 0.5 * (std + halves / np.sqrt(1.0 + pull))
        log_C = float(log_domination(std, halves).sum())
        laws.append((log_C, std, ProductSpectrum(unit, Gaussian(std, halves.size))))
    return laws


class DominatedSpectrum(Spectrum):
    """SE × Uniform: λ_m <= C·λ_m(Gaussian) and tail(M) <= C·tail_Gaussian(M) whenever p <= C·N(0, diag(s²)).

    The proof is that of N-dom.  The choice of s depends on M: s_d = ρ·ℓ_d with the best ρ if box and lengthscales have
    the same proportions, otherwise the best of a fixed family.  tail(M) <= trace always holds.
    """

    certified = True
    source = "L-44, L-48, domination of the uniform law by Gaussian ones"
    note = (
        "Eigenvalue sums are upper bounds (squared exponential kernel, uniform inputs, dominated by Gaussian inputs)."
    )

    def __init__(self, kernel: SquaredExponential, inputs: Uniform) -> None:
        self.dim = inputs.dim
        self.trace = kernel.variance
        self._lengthscales = kernel.lengthscales(self.dim)
        self._halves = 0.5 * inputs.widths
        ratios = self._halves / self._lengthscales
        # C increases in the ratio for the scales of tails, which are at most the ratio
        self._ratio = float(ratios.max()) if np.allclose(ratios, ratios[0], rtol=1e-12, atol=0.0) else None
        family = domination_family(self._lengthscales, self._halves) if self._ratio is None else None
        self._laws = None if family is None else [(log_C, law) for log_C, _, law in family]
        self._table = np.empty((2, 0))

    def _scale(self, M: Float) -> Float:
        """s in units of ℓ, for each M that with the least C·tail(M)."""
        assert self._ratio is not None
        half = np.asarray(self._ratio)

        def objective(log_std: Float) -> Float:
            return np.add(*self._parts(np.exp(log_std), M))

        high = np.full(M.shape, np.log(half))
        (low, high), _ = golden(objective, high - 0.5 * np.log1p(2.0 * (M + 1.0)), high, 44)
        return np.minimum(np.exp(0.5 * (low + high)), half)  # any scale gives a bound

    def _parts(self, std: Float, M: Float) -> tuple[Float, Float]:
        """(D·log C, log tail) for one ratio."""
        log_C = self.dim * log_domination(std, np.asarray(self._ratio))
        return log_C, log_tail(log_ratio(np.asarray(1.0), std), M, self.dim)

    def eigenvalues(self, count: int) -> Float:
        """Upper bounds on the ``count`` largest eigenvalues, decreasing; at most trace/m for the m-th."""
        count = one_count("count", count)
        m = np.arange(count, dtype=np.float64)
        if self._ratio is not None:
            # C·(1-B)^D B^k is least where h²√(4s² + 1) = (1 + 2k/D) s², in units of ℓ: often at s > h, unlike tails.
            level, _ = full_level(m, self.dim)
            power, square = 1.0 + 2.0 * level / self.dim, 2.0 * self._ratio**2
            std = self._ratio * np.sqrt(square + np.hypot(square, power)) / power
            log_B = log_ratio(np.asarray(1.0), std)
            log_C = log_domination(std, np.asarray(self._ratio))
            logs = self.dim * (log_C + np.log(-np.expm1(log_B))) + level * log_B
        else:
            assert self._laws is not None
            logs = np.min([log_C + np.log(law.eigenvalues(count)) for log_C, law in self._laws], axis=0)
        return self.trace * np.minimum.accumulate(np.minimum(np.exp(logs), 1.0 / (m + 1.0)))

    def _log_shares(self, M: Float) -> Float:
        """log of the bound on tail/trace, minimised for each M, and the c of its rounding (N-tail-rounding)."""
        if self._laws is None:
            log_C, share = self._parts(self._scale(M), M)
            ordered = np.zeros_like(M)
        else:
            constants, shares = (
                np.array([c for c, _ in self._laws]),
                np.array([law.log_tail(M) for _, law in self._laws]),
            )
            best = np.argmin(constants[:, None] + shares, axis=0)
            log_C, share = constants[best], shares[best, np.arange(M.size)]
            ordered = table_size(M, FIRST)
        logs = log_C + share
        of_share = tail_roundings(self.dim, ordered, np.maximum(np.abs(share), 500.0))
        return np.array([logs, 29.0 * log_C + 13.0 * self.dim + of_share + 2.0 * np.abs(logs)])

    def _tabulated(self, last: int) -> Float:
        """`_log_shares` for M = 0 ... ``last`` or further.  Planners need many neighbouring M."""
        if last >= self._table.shape[1]:
            self._table = self._log_shares(np.arange(max(1024.0, 2.0 ** last.bit_length())))
        return self._table

    def _log_tail(self, M: Float) -> Float:
        last = int(M.max(initial=0.0))
        logs = self._tabulated(last)[0, M.astype(np.int64)] if last < TABULATED else self._log_shares(M)[0]
        return np.log(self.trace) + np.minimum(logs, 0.0)

    def roundings(self, last: Float, size: Float | float) -> Float:
        inside = last < TABULATED
        places = np.where(inside, last, 0.0).astype(np.int64)
        logs, counts = self._tabulated(int(places.max(initial=0)))
        worst = np.maximum.accumulate(np.where(logs >= -np.max(size), counts, 0.0))[places]
        return np.where(inside, worst + 2.0 * size + 6800.0, np.inf)
