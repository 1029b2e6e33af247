"""SE × Gaussian eigenvalues in mpmath, by enumeration, and by 1 - Σ at a precision high enough for the cancellation."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import mpmath as mp


def ratio(lengthscale: Any, std: Any) -> Any:
    """B = 1 + τ - √(τ² + 2τ), τ = ℓ²/(2s²)."""
    tau = mp.mpf(lengthscale) ** 2 / (2 * mp.mpf(std) ** 2)
    return 1 + tau - mp.sqrt(tau**2 + 2 * tau)


def printed_eigenvalue(m: int, lengthscale: Any, variance: Any, a: Any) -> Any:
    """v √(2a/A) B^(m-1) with b = 1/(2ℓ²), c = √(a² + 2ab), A = a + b + c, B = b/A, as printed but for ``a``."""
    b = 1 / (2 * mp.mpf(lengthscale) ** 2)
    A = a + b + mp.sqrt(a**2 + 2 * a * b)
    return variance * mp.sqrt(2 * a / A) * (b / A) ** (m - 1)


def isotropic_tail(lengthscale: Any, std: Any, variance: Any, dim: int, M: int) -> Any:
    """Σ_{m>M} of v(1-B)^D B^k with multiplicity C(k+D-1, D-1): v minus the largest M, at sufficient precision."""
    spare = 100
    while True:
        with mp.workdps(mp.mp.dps + spare):
            B = ratio(lengthscale, std)
            left, k, rest = M, 0, mp.mpf(1)
            while left > 0:
                take = min(left, int(mp.binomial(k + dim - 1, dim - 1)))
                rest -= take * (1 - B) ** dim * B**k
                left -= take
                k += 1
            if rest > mp.mpf(10) ** -spare:
                return variance * rest
        spare *= 2


def isotropic_tails(lengthscale: Any, std: Any, variance: Any, dim: int, M: int) -> list[Any]:
    """The tails at 0, 1 ... M: :func:`isotropic_tail` at M, and the eigenvalues added upward."""
    B, level = ratio(lengthscale, std), 0
    levels: list[int] = []
    while len(levels) < M:
        levels += [level] * int(mp.binomial(level + dim - 1, dim - 1))
        level += 1
    tails = [isotropic_tail(lengthscale, std, variance, dim, M)]
    for k in reversed(levels[:M]):
        tails.append(tails[-1] + variance * (1 - B) ** dim * B**k)
    return tails[::-1]


def product_eigenvalues(lengthscales: Sequence[Any], stds: Sequence[Any], count: int, degree: int) -> list[Any]:
    """The ``count`` largest of Π_d (1-B_d) B_d^(n_d) over n in {0 ... degree}^D (full enumeration), v = 1."""
    ratios = [ratio(ell, s) for ell, s in zip(lengthscales, stds, strict=True)]
    axes = [[(1 - B) * B**n for n in range(degree + 1)] for B in ratios]
    values = sorted((mp.fprod(term) for term in itertools.product(*axes)), reverse=True)
    return values[:count]


def principal_variances(lengthscales: Sequence[Any], cov: Sequence[Sequence[Any]]) -> list[Any]:
    """The eigenvalues of AᵀΛ⁻²A, decreasing, A the lower factor of ``cov`` = AAᵀ and Λ the diagonal of lengthscales."""
    dim = len(lengthscales)
    A = mp.cholesky(mp.matrix([list(row) for row in cov]))
    scaled = mp.diag([1 / mp.mpf(ell) for ell in lengthscales]) * A
    return sorted(mp.eigsy(scaled.T * scaled, eigvals_only=True), reverse=True)[:dim]


def correlated_eigenvalues(
    lengthscales: Sequence[Any], cov: Sequence[Sequence[Any]], count: int, degree: int
) -> list[Any]:
    """The ``count`` largest eigenvalues under N(0, cov), v = 1: those of lengthscale 1 and the principal variances."""
    stds = [mp.sqrt(g) for g in principal_variances(lengthscales, cov)]
    return product_eigenvalues([1] * len(stds), stds, count, degree)


def tensor_tail(parts: Sequence[Sequence[Any]], M: int) -> Any:
    """1 − the sum of the M largest products of one entry of each of ``parts``, eigenvalues as shares of traces."""
    products = sorted((mp.fprod(term) for term in itertools.product(*parts)), reverse=True)
    return 1 - mp.fsum(products[:M])
