"""The mean residual of a k-DPP and the plans built on it, in mpmath: the formulas without simplification."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import mpmath as mp

from gpbounds.reference.kdpp import esp, law, residual


def rest_ratios(eigenvalues: Sequence[Any], M: int) -> list[Any]:
    """r_i = e_M(λ without λ_i)/e_{M−1}(λ without λ_i), M ≥ 1."""
    ratios = []
    for i in range(len(eigenvalues)):
        e = esp([*eigenvalues[:i], *eigenvalues[i + 1 :]], M)
        ratios.append(e[M] / e[M - 1] if e[M - 1] else mp.mpf(0))
    return ratios


def miss(eigenvalues: Sequence[Any], M: int) -> list[Any]:
    """miss_i = e_M(λ without λ_i)/e_M(λ)  (N-res)."""
    whole = esp(eigenvalues, M)[M]
    return [esp([*eigenvalues[:i], *eigenvalues[i + 1 :]], M)[M] / whole for i in range(len(eigenvalues))]


def mean_residual(K: Any, M: int) -> Any:
    """E_Z(K − Q_Z) under the k-DPP, by enumeration; subsets of probability 0 are left out."""
    total = mp.zeros(K.rows)
    for Z, probability in law(K, M).items():
        if probability > 0:
            total += probability * residual(K, Z)
    return total


def best_given(values: Sequence[Any], squares: Sequence[Any], M: int, noise: Any, alpha: Any, p: Any) -> Any:
    """α(q̄ + b̄)/(2 max_a [p(1 − αa) − αΩ_a])  (N-given); ``squares`` are (Vᵀy)_i²."""
    return _level(values, M, noise, alpha, p, lambda rho, shifted: mp.fsum(
        r * mp.mpf(s) / t**2 for r, s, t in zip(rho, squares, shifted, strict=True)
    ))  # fmt: skip


def best_fixed(values: Sequence[Any], y_norm2: Any, M: int, noise: Any, alpha: Any, p: Any) -> Any:
    """The same with q̄ = ‖y‖² max ρ_i/(λ_i + σ²)²  (N-fixed)."""
    return _level(values, M, noise, alpha, p, lambda rho, shifted: y_norm2 * max(
        r / t**2 for r, t in zip(rho, shifted, strict=True)
    ))  # fmt: skip


def _level(values: Sequence[Any], M: int, noise: Any, alpha: Any, p: Any, quadratic: Callable[..., Any]) -> Any:
    basis, noise, alpha = [mp.mpf(value) for value in values], mp.mpf(noise), mp.mpf(alpha)
    missed = miss(basis, M)
    rho = [value * share for value, share in zip(basis, missed, strict=True)]
    shares = [value / (value + noise) for value in basis]
    excess = mp.fsum(r * h for r, h in zip(rho, shares, strict=True)) / noise

    def bracket(a: Any) -> Any:
        omega = mp.fsum(m * max(h - a, 0) for m, h in zip(missed, shares, strict=True))
        return p * (1 - alpha * a) - alpha * omega

    most = max(bracket(a) for a in [mp.mpf(0), *shares])
    mean = alpha * (quadratic(rho, [value + noise for value in basis]) + excess) / 2
    return mean / most if most > 0 else mp.inf
