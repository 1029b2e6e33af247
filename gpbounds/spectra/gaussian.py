"""Squared exponential kernels under Gaussian inputs, and on boxes, which Gaussian laws dominate."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from gpbounds.arrays import EPS, Float
from gpbounds.errors import NotConverged
from gpbounds.inputs import Gaussian, Uniform, independent_stds
from gpbounds.kernels import SquaredExponential
from gpbounds.kernels.stationary import Stationary
from gpbounds.linalg.errors import enclosed_eigen
from gpbounds.numerics.search import golden
from gpbounds.spectra.base import Degrees, Spectrum, edges, log_sum, looked_up, smallest_totals, table_size
from gpbounds.validation import count as one_count


def log_ratio(lengthscale: Float, std: Float) -> Float:
    """log B = -2 arsinh(ℓ/(2s)): the ratio of successive eigenvalues in one dimension (R-se-eig, L-51).

    B = 1 + τ - √(τ² + 2τ) with τ = ℓ²/(2s²) is e^(-arcosh(1 + τ)), and arcosh(1 + 2u²) = 2 arsinh u.

    >>> float(np.exp(log_ratio(1.0, 1.0)).round(6))
    0.381966
    """
    return -2.0 * np.arcsinh(np.asarray(lengthscale) / (2.0 * np.asarray(std)))


def _full_level(M: Float, dim: int) -> tuple[Float, Float]:
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
    k, full = _full_level(M, dim)
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
    """c of `Spectrum.roundings` for SE × Gaussian in ``dim`` dimensions, for sums of at most ``ordered`` eigenvalues.

    c grows with ``size`` >= 500, as an error of |log tail|·2^-53 in a logarithm is one of the tail (N-tail-rounding).
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
        level, _ = _full_level(m, self.dim)
        return self.trace * np.exp(self.dim * np.log(-np.expm1(self.log_B)) + level * self.log_B)

    def _log_tail(self, M: Float) -> Float:
        return np.log(self.trace) + log_tail(np.asarray(self.log_B), M, self.dim)

    def roundings(self, last: Float, size: Float | float) -> Float:
        return tail_roundings(self.dim, 0.0 * last, size)


# SE kernel, Gaussian inputs, another ratio lengthscale/std in each dimension: best-first order (L-46).

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
    power of two that is >= M, independently of earlier calls.
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


# Gaussian inputs with any covariance: the same spectrum under independent columns, found by a rotation (N-cov).

UP = 1.0 + 1e-8
"""Allows for the rounding of the allowance itself."""


class PrincipalSpectrum(Spectrum):
    """The spectrum of k(‖Λ⁻¹(x − x')‖) under N(μ, Σ), as that of k(‖w − w'‖) under N(0, diag g) (N-cov).

    Λ = diag(lengthscales), g the eigenvalues of Λ⁻¹ΣΛ⁻¹: the variances along the principal axes of the inputs in
    units of the lengthscales.

    The proof is that of N-cov; Σ may be singular.

    Rounding: the tails of the squared exponential kernel increase in every g_d, and so in Σ (Loewner order).  The
    eigenvalues computed are therefore raised by a proved bound on their error (`enclosed_eigen`), which includes the
    rounding of Λ⁻¹ΣΛ⁻¹ and, if Σ is singular, what rounding may hide of its negative part.

    Parameters
    ----------
    along_axes : Spectrum
        The spectrum of the kernel and the law that `principal_axes` returns.

    >>> from gpbounds.inputs import Gaussian
    >>> from gpbounds.kernels import SquaredExponential
    >>> from gpbounds.spectra import spectrum
    >>> law = spectrum(SquaredExponential(), inputs=Gaussian(cov=[[1.0, 0.9], [0.9, 1.0]]))
    >>> apart = spectrum(SquaredExponential(), inputs=Gaussian(dim=2))
    >>> [round(float(each.tail(10)), 6) for each in (law, apart)]
    [0.022507, 0.073909]
    """

    def __init__(self, along_axes: Spectrum) -> None:
        self.along_axes = along_axes
        self.trace, self.certified = along_axes.trace, along_axes.certified
        self.source = f"N-cov, {along_axes.source}"
        self.note = f"{along_axes.note} The columns of the inputs are rotated to be independent."

    def eigenvalues(self, count: int) -> Float:
        """The eigenvalues under the rotated law; exact to rounding if they are so for independent columns."""
        return self.along_axes.eigenvalues(count)

    def _log_tail(self, M: Float) -> Float:
        return self.along_axes._log_tail(M)

    def roundings(self, last: Float, size: Float | float) -> Float:
        return self.along_axes.roundings(last, size)


def principal_axes(kernel: Stationary, inputs: Gaussian) -> tuple[Stationary, Gaussian, Float]:
    """The kernel with lengthscale 1, N(0, diag g), g decreasing, and the matrix that turns x − μ into w.

    Every g_d is rounded upwards by a proved bound on its error, so that none is 0.

    >>> from gpbounds.kernels import SquaredExponential
    >>> law = Gaussian(cov=[[1.0, 1.0], [1.0, 4.0]])
    >>> _, rotated, axes = principal_axes(SquaredExponential(1.0, [1.0, 2.0]), law)
    >>> rotated.stds**2  # the eigenvalues of ((1, 1/2), (1/2, 1))
    array([1.5, 0.5])
    >>> np.abs(axes).round(4)  # rows (1, 1)/√2 and (1, −1)/√2, in units of the lengthscales
    array([[0.7071, 0.3536],
           [0.7071, 0.3536]])
    """
    lengthscales = kernel.lengthscales(inputs.dim)
    largest = float((inputs.stds / lengthscales).max())
    units = lengthscales * largest
    scaled = np.asarray(inputs.cov) / np.outer(units, units)
    allowed = 2.0 * EPS * np.abs(scaled)  # four roundings of half an eps each
    # Gaussian has refused covariances with negative eigenvalues
    enclosed = enclosed_eigen(scaled, np.eye(inputs.dim), allowed, "cov", negative=np.inf)
    variances = enclosed.values + (enclosed.error + inputs.slack) * UP
    law = Gaussian(largest * np.sqrt(variances))
    return replace(kernel, lengthscale=1.0), law, enclosed.components / lengthscales


# SE kernel, inputs uniform on a box: upper bounds from Gaussian laws that dominate the uniform one.

TABULATED = 2**17
"""Below this M the tails come from a table, and their roundings are counted."""


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
        """For each M the s, in units of ℓ, that minimises C·tail(M)."""
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
            level, _ = _full_level(m, self.dim)
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
