"""An approximate eigendecomposition with a proved bound on its distance from the matrix."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from gpbounds.arrays import EPS, TINIEST, Float
from gpbounds.errors import NotPositiveDefinite
from gpbounds.linalg.psd import eigen

U = 0.5 * EPS
UP = 1.0 + 1e-8
"""Allows for the rounding of Frobenius norms: 4096² additions, each with a relative error of 2⁻⁵³, are 2e-9."""


@dataclass(frozen=True, eq=False)
class EnclosedEigen:
    """‖K − V diag(values) Vᵀ‖ ≤ error and ‖VᵀY − components‖_F ≤ components_error, for an orthogonal V.

    V is the polar factor of the computed eigenvectors.  It is never formed; the bounds use only its existence.

    Attributes
    ----------
    values : array (n,)
        ≥ 0, decreasing.
    error : float
        In the spectral norm; so K ⪯ V diag(values + error) Vᵀ, and |λ_i(K) − values_i| ≤ error.
    components : array (n, P)
    components_error : float
    """

    values: Float
    error: float
    components: Float
    components_error: float


def enclosed_eigen(
    A: Float, Y: Float, entry_errors: Float, name: str = "matrix", *, negative: float | None = None
) -> EnclosedEigen:
    """The computed eigendecomposition of a symmetric PSD A (n, n), and proved bounds on its errors.

    The bounds hold for every symmetric K with |K − A| ≤ ``entry_errors`` entry by entry.  Eigenvalues down to
    −``negative`` count as 0, which the error includes; the default is n·eps·λ_max.

    With W the computed vectors, Λ the computed values (those below 0 set to 0), R = AW − WΛ, f ≥ ‖WᵀW − I‖, f < 1,
    V = W(WᵀW)^-½ is orthogonal, and (N-enclosed)

        ‖A − VΛVᵀ‖ ≤ ‖R‖[(1 − f)^-½ + (1 + f)(1 − f)^(-3/2)],   twice ‖R‖ nearly.

    ‖K − A‖ ≤ max_i Σ_j (entry errors).  ‖V − W‖ ≤ f.  R is computed to far more than double precision: A and W split
    into leading parts of few bits, whose product is exact (Ozaki, Ogita, Oishi & Rump, Numer. Algorithms 59, 2012), and
    rests 2⁻²⁰ times as large.  Every other product has an error of at most n·2⁻⁵³/(1 − n·2⁻⁵³) times the product of
    absolute values, for every order of summation.

    Raises
    ------
    NotPositiveDefinite
        if an eigenvalue is below −``negative``, or the vectors are far from orthogonal.

    >>> A = np.array([[2.0, 1.0], [1.0, 2.0]])
    >>> found = enclosed_eigen(A, np.eye(2), np.zeros((2, 2)))
    >>> found.values.round(12), found.error < 1e-14
    (array([3., 1.]), True)
    """
    n = A.shape[0]
    # in units of a power of two near the largest entry, so that squares of residuals neither over- nor underflow
    exponent = math.frexp(float(np.abs(A).max(initial=0.0)))[1]
    A, entry_errors = (np.ldexp(matrix, -exponent) for matrix in (np.tril(A) + np.tril(A, -1).T, entry_errors))
    lowest = None if negative is None else math.ldexp(negative, -exponent) if math.isfinite(negative) else negative
    spectrum = eigen(A, name, vectors=True, rounding=lowest)
    values, W = spectrum.values, np.asarray(spectrum.vectors)
    gamma = 1.01 * n * U
    residual = _residual_norm(A, W, values, gamma)
    gram = W.T @ W
    gram[np.diag_indices(n)] -= 1.0
    size = float((W * W).sum()) * UP
    f = UP * (float(np.linalg.norm(gram)) + gamma * size + U * math.sqrt(n))
    if not f < 0.01:
        raise NotPositiveDefinite(f"{name}: expected eigenvectors that are nearly orthogonal, got ‖VᵀV − I‖ ≤ {f:.3g}")
    decomposed = residual * (1.0 / math.sqrt(1.0 - f) + (1.0 + f) / (1.0 - f) ** 1.5)
    error = UP * (decomposed + float(entry_errors.sum(axis=1).max())) + 2 * n * TINIEST  # entries that underflow
    projected = W.T @ Y
    # |fl(WᵀY) − WᵀY| ≤ γ|W|ᵀ|Y|
    rounded = gamma * math.sqrt(size) * float(np.linalg.norm(Y))
    with np.errstate(over="ignore"):
        values, error = np.ldexp(values, exponent), float(np.ldexp(error, exponent)) * (1.0 + EPS) + TINIEST
    return EnclosedEigen(values, error, projected, UP * (rounded + f * float(np.linalg.norm(Y))))


def _residual_norm(A: Float, W: Float, values: Float, gamma: float) -> float:
    """Upper bound on ‖AW − WΛ‖ in the spectral norm."""
    n = A.shape[0]
    bits = (53 - math.ceil(math.log2(n))) // 2 - 1
    A1, W1 = _leading(A, bits), _leading(W, bits)
    A2, W2 = A - A1, W - W1  # exact
    exact, scaled = A1 @ W1, W * values
    rest = A1 @ W2 + A2 @ W
    R = (exact - scaled) + rest
    norm = np.linalg.norm
    # products in `rest`; the product W·values; two additions
    rounding = gamma * (norm(A1) * norm(W2) + norm(A2) * norm(W)) + U * norm(scaled)
    rounding += U * (norm(exact - scaled) + norm(rest) + norm(R)) * 2.0
    whole = float(norm(R))
    # ‖R‖⁴ ≤ ‖RᵀR‖_F², less than the Frobenius norm of R where many singular values are of one size
    squared = float(norm(R.T @ R)) + gamma * whole**2
    return UP * (min(whole, math.sqrt(squared)) + float(rounding))


def _leading(B: Float, bits: int) -> Float:
    """B rounded to multiples of 2^−bits times a power of two that is not below its largest entry."""
    top = float(np.abs(B).max())
    if top == 0.0:
        return B.copy()
    unit = math.ldexp(1.0, math.frexp(top)[1] - bits)
    return np.asarray(np.rint(B / unit) * unit)
