"""A-posteriori bounds for triangular factors: the residual of a Cholesky factor, and the norm of an inverse."""

from __future__ import annotations

import math

import numpy as np

from gpbounds.arrays import EPS, Array, Float, host, namespace
from gpbounds.errors import NotPositiveDefinite
from gpbounds.linalg.pair_products import UP
from gpbounds.linalg.parallel import one_blas_thread
from gpbounds.linalg.psd import cholesky
from gpbounds.linalg.triangular import inverse_factor

U = 0.5 * EPS
_SOUND = 0.01
"""Largest error of a factor, relative to the least eigenvalue, for which no jitter is needed."""
MEASURED = 1500
"""Largest matrix whose residual is computed; beyond, the bound is a priori."""
_BLOCK = 256
"""Rows and columns of a block of that residual."""


@one_blas_thread()
def factor_residual(L: Float, A: Float, jitter: float) -> float:
    """Upper bound on ‖LLᵀ − A − jitter·I‖_F for a lower triangular L and the symmetric A with the given lower triangle.

    Up to n = 1500 it is computed, LLᵀ by exact products of slices (N-slices).  Beyond, |LLᵀ − A'| ≤ γ_(n+2)|L||Lᵀ| for
    any order of sums, A' = A + jitter·I as rounded (Higham 2002, theorem 10.3), for an L that a Cholesky factorisation
    returned.

    >>> A = np.array([[4.0, 2.0], [2.0, 3.0]])
    >>> factor_residual(np.linalg.cholesky(A), A, 0.0) < 1e-15
    True
    """
    n = L.shape[0]
    power = int(np.frexp(np.abs(L).max(initial=0.0))[1])
    if abs(power) > 100:  # products of slices must neither under- nor overflow
        scaled = np.ldexp(L, -power), np.ldexp(A, -2 * power), math.ldexp(jitter, -2 * power)
        return math.ldexp(factor_residual(*scaled), 2 * power)
    diagonal = np.abs(A.diagonal()) + jitter
    if n > MEASURED:
        return 1.01 * ((n + 2.0) * U * float((L * L).sum()) + 2.0 * U * float(np.linalg.norm(diagonal)))
    squares, parts = 0.0, [slice(start, min(start + _BLOCK, n)) for start in range(0, n, _BLOCK)]
    for j, columns in enumerate(parts):
        k, block = columns.stop, A[columns, columns]
        block = np.tril(block) + np.tril(block, -1).T
        squares += _block_residual(L[columns, :k], L[columns, :k], block, jitter) ** 2
        for rows in parts[j + 1 :]:
            squares += 2.0 * _block_residual(L[rows, :k], L[columns, :k], A[rows, columns], 0.0) ** 2
    return UP * math.sqrt(squares) + 1e-150


def _block_residual(P: Float, Q: Float, A: Float, jitter: float) -> float:
    """Upper bound on ‖PQᵀ − A − jitter·I‖_F (N-slices, one slice).

    P = P₀ + P₁ and Q = Q₀ + Q₁ without rounding, P₀ and Q₀ one slice of each: P₀Q₀ᵀ has no rounding either, and the
    rest P₀Q₁ᵀ + P₁Qᵀ, one product of inner size 2k, errs by at most γ_2k(‖P₀‖‖Q₁‖ + ‖P₁‖‖Q‖).  A sum that is computed
    errs by at most u times itself, and what is left of P₀Q₀ᵀ − A is small.
    """
    k, first, second = P.shape[1], _slice(P), _slice(Q)
    rest = np.hstack([first, P - first]) @ np.hstack([Q - second, Q]).T
    unshifted = first @ second.T - A
    shifted = unshifted - jitter * np.eye(*A.shape) if jitter else unshifted
    sums = (unshifted, shifted, shifted + rest)
    norm = np.linalg.norm
    rounded = norm(first) * norm(Q - second) + norm(P - first) * norm(Q)
    own = U * (1.01 * (2.0 * k + 2.0) * rounded + sum(norm(each) for each in sums))
    return UP * float(norm(sums[-1]) + own)


def _slice(A: Float) -> Float:
    """A, each row rounded to at most 2^(b−1) multiples of a unit, 2b + log₂k ≤ 54: products of such rows are exact."""
    bits = (54 - math.ceil(math.log2(max(A.shape[1], 1)))) // 2
    _, exponents = np.frexp(np.abs(A).max(axis=1, initial=0.0))
    unit = np.ldexp(1.0, np.maximum(exponents, -600) - bits + 1)[:, None]
    return np.asarray(np.rint(A / unit) * unit)


def inverse_norms(L: Float) -> tuple[Float, float, float]:
    """X near L⁻¹, and upper bounds on ‖X‖_F and ‖LX − I‖_F; they give ‖L⁻¹‖ ≤ ‖X‖/(1 − ‖LX − I‖).

    >>> _, size, off = inverse_norms(np.eye(2))
    >>> round(size, 6), off < 1e-14
    (1.414214, True)
    """
    n = L.shape[0]
    with np.errstate(over="ignore", invalid="ignore"), one_blas_thread():
        X = inverse_factor(L, checked=True)
        size = UP * float(np.linalg.norm(X))
        rest = L @ X
        rest[np.diag_indices(n)] -= 1.0
        off = float(np.linalg.norm(rest)) + 1.01 * (n + 2.0) * U * float(np.linalg.norm(L)) * size
    return X, size, (UP * off if math.isfinite(off) else math.inf)


def largest_eigenvalue(A: Array, guess: float) -> float:
    """Upper bound on the eigenvalues of the symmetric A, just above ``guess`` if that is near λ_max.

    If the Cholesky factorisation of the computed μI − A succeeds, μI − A + E ⪰ 0 with ‖E‖ ≤ γ_(n+2)·Tr(μI + |A|)
    (Rump, Verification of positive definiteness, BIT 46, 2006).  Else the largest sum of absolute values in a row.

    >>> 3.0 <= largest_eigenvalue(np.array([[2.0, 1.0], [1.0, 2.0]]), 3.0) < 3.0 + 1e-9
    True
    """
    xp, n = namespace(A), int(A.shape[0])
    size = float(xp.abs(xp.diagonal(A)).sum())
    rows = UP * float(xp.abs(A).sum(axis=1).max())
    share = max(1e-13, 4.0 * n * n * U)
    for _ in range(3):
        mu = guess * (1.0 + share)
        if not mu < rows:
            return rows
        shifted = -A
        shifted.reshape(-1)[:: n + 1] += mu
        try:
            cholesky(shifted, overwrite=True)
        except NotPositiveDefinite:
            share *= 100.0
            continue
        return min(rows, (mu + 1.01 * (n + 2.0) * U * (n * mu + size)) * (1.0 + 4.0 * U))
    return rows


def least_sound_jitter(A: Array) -> float:
    """The jitter j of ``jitter="auto"`` in bounds; 0 where the Cholesky factor of A is accurate (N-sound-jitter).

    The computed factor has LLᵀ = A + jI + E, ‖E‖ ≤ γ_(n+1)Tr A; entries of A within 31 units of rounding of the largest
    variance add 31u·Tr A.  For these j = (n + 96)u·Tr A exceeds the sum e of both, so that LLᵀ ⪰ A for the exact A, and
    e/(j − e) < 1 in N-Q.  A bound computes its own e, and is wide where j is not above it.  Without jitter E may exceed
    the least eigenvalues, even if the factorisation succeeds; j = 0 if 32u·Tr A·‖L⁻¹‖_F² is below 1/100.

    >>> least_sound_jitter(np.eye(2)), 0.0 < least_sound_jitter(np.ones((2, 2)) + 1e-15 * np.eye(2)) < 1e-13
    (0.0, True)
    """
    n = int(A.shape[0])
    trace = float(namespace(A).diagonal(A).sum())
    try:
        _, size, off = inverse_norms(np.asarray(host(cholesky(A).L)))
    except NotPositiveDefinite:
        size, off = math.inf, math.inf
    if off < 0.5 and 32.0 * U * trace * size * size < _SOUND:
        return 0.0
    return (n + 96.0) * U * trace
