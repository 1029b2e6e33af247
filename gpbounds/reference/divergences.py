"""Gaussian divergences in mpmath, straight from their closed forms (R-def).

Means are n × 1, covariances n × n matrices, positive definite; singular laws are compared on the subspace where they
live, by the caller.
"""

from __future__ import annotations

from typing import Any

from mpmath import cholesky, inf, log, mpf

from gpbounds.reference.matrices import det, inverse


def log_det(A: Any) -> Any:
    """log|A| of a matrix with positive determinant."""
    return log(det(A))


def solve(A: Any, B: Any) -> Any:
    """A⁻¹B."""
    return inverse(A) * B


def trace(A: Any) -> Any:
    """Sum of the diagonal."""
    return sum((A[i, i] for i in range(A.rows)), mpf(0))


def is_positive_definite(A: Any) -> bool:
    """Whether a symmetric matrix has a Cholesky factor."""
    try:
        cholesky(A)
    except ValueError:
        return False
    return True


def gaussian_kl(mean1: Any, cov1: Any, mean2: Any, cov2: Any) -> Any:
    """KL[N1‖N2] = ½[Tr(Σ₂⁻¹Σ₁) − n + m'Σ₂⁻¹m + log(|Σ₂|/|Σ₁|)], m = μ₁ − μ₂."""
    shift = mean1 - mean2
    quadratic = (shift.T * solve(cov2, shift))[0]
    return (trace(inverse(cov2) * cov1) - cov1.rows + quadratic + log_det(cov2) - log_det(cov1)) / 2


def gaussian_renyi(mean1: Any, cov1: Any, mean2: Any, cov2: Any, alpha: Any) -> Any:
    """D_α[N1‖N2] = (α/2) m'Σ⁻¹m + {log|Σ| − (1−α) log|Σ₁| − α log|Σ₂|}/(2(1−α)), Σ = αΣ₂ + (1−α)Σ₁.

    Where Σ is not positive definite the integral ∫ N1^α N2^(1−α) diverges: +∞ for α > 1, −∞ for α < 0.
    """
    alpha = mpf(alpha)
    if alpha == 1:
        return gaussian_kl(mean1, cov1, mean2, cov2)
    mixed = alpha * cov2 + (1 - alpha) * cov1
    if not 0 <= alpha <= 1 and not is_positive_definite(mixed):
        return inf if alpha > 1 else -inf
    shift = mean1 - mean2
    quadratic = alpha / 2 * (shift.T * solve(mixed, shift))[0]
    volumes = log_det(mixed) - (1 - alpha) * log_det(cov1) - alpha * log_det(cov2)
    return quadratic + volumes / (2 * (1 - alpha))
