"""Frequencies and weights of kernels of x − x' as functions of their hyperparameters, from draws that are made once.

A leaf is a kernel that is not made of others; its spectral measure is one of

    squared exponential, Matérn   ω = z/ℓ, z drawn once from the law at ℓ = 1  (L-55, N-student)
    rational quadratic            ω = z√τ/ℓ, τ = F⁻¹(u)/shape, F the distribution function of Gamma(shape), u uniform:
                                  at every shape τ has its law (N-gamma), and it is a smooth function of the shape
    periodic                      ω_d = 2πj_d/p_d, of weight Π_d c_j(1/ℓ_d²), c_j(κ) = e^{−κ}I_|j|(κ): the lines j stay,
                                  their weights change with ℓ  (N-line)
    constant                      ω = 0

A product of kernels is the characteristic function of a sum of independent frequencies.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from gpbounds.arrays import Float
from gpbounds.errors import NonFinite
from gpbounds.kernels import Constant, Kernel, Matern, Periodic, RationalQuadratic, SquaredExponential
from gpbounds.lowrank.features.fourier import student_factor
from gpbounds.spectra.base import smallest_totals

LARGE, STEP = 1000.0, 0.02
"""The shape from which on central differences replace the series of the incomplete gamma function; their step."""


class Lines(NamedTuple):
    """m frequencies of a leaf, with derivatives in its p log parameters.

    Attributes
    ----------
    frequencies, in_frequencies : arrays (m, d), (p, m, d)
    logs, in_logs : arrays (m,), (p, m)
        Logarithms of the weights, variance included.
    """

    frequencies: Float
    logs: Float
    in_frequencies: Float
    in_logs: Float


class Draw(ABC):
    """Numbers drawn or chosen once for a leaf, which determine its frequencies at all hyperparameters."""

    @abstractmethod
    def at(self, kernel: Any) -> Lines:
        """The frequencies at these hyperparameters."""


@dataclass(frozen=True, eq=False)
class Normal(Draw):
    """ω = z/ℓ: squared exponential, and Matérn with z of a multivariate t law; z (m, d)."""

    standard: Float

    def at(self, kernel: Any) -> Lines:
        frequencies = self.standard / kernel.lengthscales(self.standard.shape[1])
        return _stationary(frequencies, kernel, 1)


@dataclass(frozen=True, eq=False)
class Mixture(Draw):
    """ω = z√τ/ℓ: rational quadratic; z (m, d), u (m,)."""

    standard: Float
    uniform: Float

    def at(self, kernel: Any) -> Lines:
        root, slope = gamma_scale(kernel.shape, self.uniform)
        frequencies = self.standard * root[:, None] / kernel.lengthscales(self.standard.shape[1])
        lines = _stationary(frequencies, kernel, 2)
        lines.in_frequencies[1] = slope[:, None] * frequencies
        return lines


@dataclass(frozen=True, eq=False)
class Multiples(Draw):
    """ω_d = 2πj_d/p_d: periodic; j (m, d), and the logarithms (m,) of factors of the weights beside Π c_j."""

    numbers: Float
    more: Float

    def at(self, kernel: Any) -> Lines:
        m, d = self.numbers.shape
        widths, periods = kernel.scales(d)
        kappa = 0.25 * widths**2
        weights, slopes = log_line(np.abs(self.numbers), kappa)
        frequencies = 2.0 * math.pi * self.numbers / periods
        lengths, turns = np.zeros((d, m)), np.zeros((d, m, d))
        lengths[:] = -2.0 * (kappa * slopes).T
        turns[np.arange(d), :, np.arange(d)] = -frequencies.T
        lengths, turns = _shared(lengths, kernel.lengthscale), _shared(turns, kernel.period)
        before, after = 1 + len(lengths), len(turns)
        return Lines(
            frequencies,
            math.log(kernel.variance) + weights.sum(axis=1) + self.more,
            np.concatenate([np.zeros((before, m, d)), turns]),
            np.concatenate([np.ones((1, m)), lengths, np.zeros((after, m))]),
        )


@dataclass(frozen=True, eq=False)
class Zero(Draw):
    """m times the frequency 0 of a constant kernel, which has no coordinates."""

    m: int

    def at(self, kernel: Any) -> Lines:
        none = np.zeros((self.m, 0))
        return Lines(none, np.full(self.m, math.log(kernel.variance)), none[None], np.ones((1, self.m)))


def _stationary(frequencies: Float, kernel: Any, before: int) -> Lines:
    """The lines of a kernel whose parameters are the variance, then others, then the lengthscales."""
    m, d = frequencies.shape
    each = np.zeros((d, m, d))
    each[np.arange(d), :, np.arange(d)] = -frequencies.T
    moved = np.concatenate([np.zeros((before, m, d)), _shared(each, kernel.lengthscale)])
    in_logs = np.zeros((len(moved), m))
    in_logs[0] = 1.0
    return Lines(frequencies, np.full(m, math.log(kernel.variance)), moved, in_logs)


def _shared(each: Float, value: Any) -> Float:
    """Derivatives in ``value``: ``each`` for one value per dimension, their sum for one that all share."""
    return each if np.ndim(value) else each.sum(axis=0, keepdims=True)


def gamma_scale(shape: float, uniform: Float) -> tuple[Float, Float]:
    """√τ and d log √τ/d log shape, where τ = F⁻¹(u)/shape is Gamma(shape, rate shape) for uniform u.

    With g = F⁻¹(u) and S₀ = Σ g^n/(shape + 1)_n, S₁ = Σ H_n g^n/(shape + 1)_n, H_n = Σ_{j ≤ n} 1/(shape + j),
    P(shape, g) = g^shape e^{−g}S₀/Γ(shape + 1), and the derivative at constant P is

        d log g/d log shape = S₀(ψ(shape + 1) − log g) + S₁.

    Where g underflows to 0, so does the frequency, and the derivative is 0.  From a shape of `LARGE` on, where the
    series are long and log τ is nearly a polynomial in log shape, the derivative is a central difference of six values,
    whose error is below 1e-10.

    >>> root, slope = gamma_scale(0.5, np.array([0.5]))
    >>> above, below = (gamma_scale(0.5 * np.exp(h), np.array([0.5]))[0] for h in (1e-4, -1e-4))
    >>> bool(abs(np.log(above / below) / 2e-4 - slope)[0] < 1e-7)
    True
    """
    from scipy.special import digamma, gammaincinv

    if shape >= LARGE:
        scales = [shape * math.exp(n * STEP) for n in range(-3, 4)]
        logs = [np.log(gammaincinv(a, uniform) / a) for a in scales]
        rise = 45.0 * (logs[4] - logs[2]) - 9.0 * (logs[5] - logs[1]) + (logs[6] - logs[0])
        return np.exp(0.5 * logs[3]), 0.5 * rise / (60.0 * STEP)
    g = gammaincinv(shape, uniform)
    known = g > 0.0
    safe = np.where(known, g, 1.0)
    term, harmonic, n = np.ones_like(safe), 0.0, 0
    total, weighted = np.ones_like(safe), np.zeros_like(safe)
    while bool((term > 1e-17 * total).any()):
        n += 1
        term = term * (safe / (shape + n))
        harmonic += 1.0 / (shape + n)
        total, weighted = total + term, weighted + harmonic * term
    slope = total * (digamma(shape + 1.0) - np.log(safe)) + weighted
    return np.sqrt(g / shape), np.where(known, 0.5 * (slope - 1.0), 0.0)


def log_line(numbers: Float, kappa: Float) -> tuple[Float, Float]:
    """log c_j(κ) = log(e^{−κ}I_j(κ)) and its derivative in κ, for whole j ≥ 0 (m, d) and κ (d,).

    I_j'/I_j = I_{j+1}/I_j + j/κ.  Below 1e-280 the leading term of Debye's expansion of I_j takes its place: such a
    weight is below the rounding of the others.

    >>> log_line(np.array([[0.0], [1.0]]), np.array([1e-3]))[0].ravel().round(4).tolist()  # κ/2 = 0.0005
    [-0.001, -7.6019]
    """
    from scipy.special import ive

    value, further = ive(numbers, kappa), ive(numbers + 1.0, kappa)
    large = value > 1e-280
    root = np.hypot(numbers, kappa)
    debye = root - kappa + numbers * np.log(kappa / (numbers + root)) - 0.5 * np.log(2.0 * math.pi * root)
    safe = np.where(large, value, 1.0)
    return (
        np.where(large, np.log(safe), debye),
        np.where(large, further / safe + numbers / kappa, root / kappa) - 1.0,
    )


def drawn(kernel: Kernel, m: int, dim: int, rng: np.random.Generator) -> Draw:
    """``m`` random frequencies of a leaf; those of a periodic kernel are drawn at its lengthscale."""
    return DRAWN[kernel.formula_class](kernel, m, dim, rng)


def _multiples(kernel: Periodic, m: int, dim: int, rng: np.random.Generator) -> Draw:
    mean = np.broadcast_to(0.125 * kernel.scales(dim)[0] ** 2, (m, dim))  # 1/(2ℓ²)
    if mean.max() > 1e15:
        raise NonFinite("lengthscale: expected more than 2.3e-8, below which float64 cannot hold the lines")
    numbers = (rng.poisson(mean) - rng.poisson(mean)).astype(np.float64)
    return Multiples(numbers, -log_line(np.abs(numbers), 2.0 * mean[0])[0].sum(axis=1))


def _student(kernel: Matern, m: int, dim: int, rng: np.random.Generator) -> Draw:
    standard = rng.standard_normal((m, dim))
    return Normal(standard * student_factor(kernel.nu, m, rng)[:, None])


DRAWN: dict[type, Callable[[Any, int, int, np.random.Generator], Draw]] = {
    Constant: lambda kernel, m, dim, rng: Zero(m),
    Periodic: _multiples,
    RationalQuadratic: lambda kernel, m, dim, rng: Mixture(rng.standard_normal((m, dim)), 1.0 - rng.random(m)),
    Matern: _student,
    SquaredExponential: lambda kernel, m, dim, rng: Normal(rng.standard_normal((m, dim))),
}
"""The draw for each formula."""


def largest_lines(kernel: Periodic, m: int, dim: int) -> Multiples:
    """The ``m`` lines of largest weight at the kernel's lengthscale, one of each pair ±j, whose weight is 2Πc_j."""
    kappa = 0.25 * kernel.scales(dim)[0] ** 2
    costs = [-log_line(np.arange(m, dtype=np.float64)[:, None], kappa[d : d + 1])[0][:, 0] for d in range(dim)]
    rows: list[Float] = []
    for pattern in smallest_totals([cost - cost[0] for cost in costs], m)[1]:
        nonzero = np.flatnonzero(pattern)
        for signs in range(2 ** max(nonzero.size - 1, 0)):
            line = pattern.astype(np.float64)
            line[nonzero[1:]] *= np.where((signs >> np.arange(max(nonzero.size - 1, 0))) & 1, -1.0, 1.0)
            rows.append(line)
        if len(rows) >= m:
            break
    numbers = np.array(rows[:m])
    return Multiples(numbers, np.where(numbers.any(axis=1), math.log(2.0), 0.0))
