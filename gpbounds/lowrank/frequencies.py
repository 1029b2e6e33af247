"""The number of random frequencies for a KL divergence, from the mass s̃ of their density and the effective dimension.

Frequencies η_1 … η_m iid ~ τ̃/s̃ with τ̃ ≥ τ_λ, weights w_k = p(η_k)s̃/τ̃(η_k), Σ = (1/m)Σ_k w_k Re z_k z_k*; λ is the noise
over the kernel's variance, s_λ = tr K(K + λI)⁻¹.  N, D and the data enter only through s̃ and s_λ.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gpbounds.arrays import Float
from gpbounds.lowrank.approximation import kappa, kappa_inverse
from gpbounds.numerics.search import least

GAPS = 1.0 - np.geomspace(1e-4, 0.95, 192)
"""Values of Δ that :func:`weighted_kl` tries; each gives a valid bound."""

ROUNDING = 5e-13
"""Relative rounding error of a failure probability and of a number of frequencies; both are rounded up by it."""


def lower_tail(x: Float) -> Any:
    """(e^x − 1)/(e^{2x} − 2x − 1), about e^{−x}; infinite for x < 0.1, where it is vacuous."""
    safe = np.maximum(x, 0.1)
    ratio = np.exp(-safe) * -np.expm1(-safe) / (-np.expm1(-2.0 * safe) - 2.0 * safe * np.exp(-2.0 * safe))
    return np.where(x < 0.1, np.inf, ratio)


def weighted_kl(m: Float, total: float, dimension: float, delta: float) -> Any:
    """A bound on KL(exact‖features) for each number m of frequencies, with probability at least 1 − δ (N-rff).

    For every Δ in (0, 1) with δ₂ = δ − s_λ (e^x − 1)/(e^{2x} − 2x − 1) > 0, x = mΔ²/(2s̃):

        KL ≤ (κ(Δ)/Δ²)·min{u²/δ₂, (u + √(2ℓ(s̃ + 2bu)/m) + bℓ/(3m))²},
        u² = s̃s_λ/m,  b² = s̃² + s_λ,  ℓ = log(1/δ₂).

    The result is the least value over a grid of Δ.  It depends on ε as L-28 does, with smaller constants, without
    ‖K‖ ≥ λ, and with log(1/δ) where L-28 has 1/δ.  It is infinite if m is too small for every Δ.

    The proof is that of N-rff.
    """
    return _over_gaps(m, total, dimension, delta).min(axis=-1)


def best_gap(m: float, total: float, dimension: float, delta: float) -> float:
    """The Δ of the grid with the least bound at m frequencies."""
    return float(GAPS[int(np.argmin(_over_gaps(np.asarray(m), total, dimension, delta)))])


def _over_gaps(m: Float, total: float, dimension: float, delta: float) -> Any:
    """The bound of :func:`weighted_kl` for each number of frequencies and each Δ of the grid."""
    m = np.asarray(m, dtype=np.float64)[..., None]
    failed = dimension * lower_tail(m * GAPS**2 / (2.0 * total)) * (1.0 + ROUNDING)
    remaining = delta - failed  # may cancel: rounded down
    valid = remaining > 0.0
    remaining = np.where(valid, remaining, 0.5)
    mean = total * dimension / m
    nats, top = -np.log(remaining), math.hypot(total, math.sqrt(dimension))
    with np.errstate(over="ignore"):
        norm = np.sqrt(mean) + np.sqrt(2.0 * nats * (total + 2.0 * top * np.sqrt(mean)) / m) + top * nats / (3.0 * m)
        value = kappa(GAPS) / GAPS**2 * np.minimum(mean / remaining, norm * norm)
    return np.where(valid, value, np.inf)


def sharpest(total: float, dimension: float, delta: float, target: float) -> float:
    """The least m with :func:`weighted_kl` <= target; exact up to 2^53, to 16 digits beyond."""

    def enough(m: int) -> bool:
        return bool(weighted_kl(np.asarray(float(m)), total, dimension, delta) <= target)

    m_least = least(enough, 1, share=2.0**-52)
    assert m_least is not None  # the bound falls to 0
    return float(m_least)


def _whole(m: float) -> float:
    return float(math.ceil(m * (1.0 + ROUNDING))) if m < math.inf else m


def spectral(total: float, dimension: float, delta: float, eps: float) -> float:
    """m = (8/3)Δ⁻² s̃ log((16s_λ + 8)/δ), Δ = min(κ⁻¹(ε), ½): KL ≤ εN by a Δ-spectral approximation (L-21, L-27)."""
    gap = min(float(kappa_inverse(eps)), 0.5)
    return _whole(8.0 / 3.0 / gap**2 * total * math.log((16.0 * dimension + 8.0) / delta))


def frobenius(total: float, dimension: float, delta: float, target: float) -> float:
    """m = max{(32/3)s̃ log((32s_λ + 16)/δ), 8κ(½)·s̃s_λ/(δεN)}: KL ≤ εN by the Frobenius norm (L-28)."""
    half = 32.0 / 3.0 * total * math.log((32.0 * dimension + 16.0) / delta)
    return _whole(max(half, 8.0 * float(kappa(0.5)) * total / delta * dimension / target))
