"""Enclosures of the eigenvalues of A = LLᵀ + E, each relatively narrow, from a factor L in double-double numbers."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from gpbounds.arrays import EPS, Float
from gpbounds.linalg.pair_cholesky import PairFactor
from gpbounds.linalg.pair_products import UP, multiply
from gpbounds.linalg.parallel import one_blas_thread
from gpbounds.numerics.pairs import Pair

U = 0.5 * EPS
RESOLVED = 2.0**-17
"""Singular values above this multiple of the greatest one are accepted from a decomposition in double precision, with
relative errors of about 2⁻³⁶; the next decomposition, of the remaining columns, finds the others."""


@dataclass(frozen=True, eq=False)
class _EnclosedValues:
    """lower ≤ λ_i(A) ≤ upper for the N eigenvalues of A, both decreasing.

    Attributes
    ----------
    lower, upper : array (N,)
        They hold for every matrix within the error of the factor.
    """

    lower: Float
    upper: Float


@dataclass(frozen=True, eq=False)
class _GradedColumns:
    """B = LT + E with nearly orthogonal columns, for A near LLᵀ; `enclosed_values` defines the symbols.

    Attributes
    ----------
    B : pair of arrays (N, m)
    scales : array (m,)
        s, in the order of the columns.
    defect : float
        h.
    least, most : float
        g and G.
    apart : float
        A bound on ‖E‖.
    error : float
        A bound on ‖A − LLᵀ‖.
    """

    B: Pair
    scales: Float
    defect: float
    least: float
    most: float
    apart: float
    error: float

    @property
    def values(self) -> _EnclosedValues:
        """Bounds on the eigenvalues of A."""
        N, m = self.B[0].shape
        h, error, falling = self.defect, self.error, np.sort(self.scales)[::-1]
        if not h < 1.0:
            root_low, root_high = np.zeros(m), np.full(m, math.sqrt(m) * float(falling[0]) * (1.0 + h))
        else:
            root_low, root_high = falling * math.sqrt(1.0 - h), falling * math.sqrt(1.0 + h)
        below = np.maximum(root_low - self.apart, 0.0) ** 2 / self.most * (1.0 - 1e-14)
        above = (root_high + self.apart) ** 2 / self.least * (1.0 + 1e-14)
        lower, upper = np.zeros(N), np.full(N, error)
        lower[:m] = np.maximum(below - error, 0.0) * (1.0 - 1e-14)
        upper[:m] = (above + error) * (1.0 + 1e-14)
        return _EnclosedValues(lower, upper)


def graded_columns(factor: PairFactor, *, further: float = 0.0) -> _GradedColumns:
    """B = LT + E with nearly orthogonal columns, and the numbers from which `enclosed_values` bounds eigenvalues."""
    error = UP * (factor.error + further)
    (high, low), m = factor.L, factor.L[0].shape[1]
    if m == 0:
        return _GradedColumns((high, low), np.zeros(0), 0.0, 1.0, 1.0, 0.0, error)
    B, least, most, apart = _orthogonal_columns((high.copy(), low.copy()))
    s, h = _scales(B)
    return _GradedColumns(B, s, h, least, most, apart, error)


def enclosed_values(factor: PairFactor, *, further: float = 0.0) -> _EnclosedValues:
    """Bounds on all eigenvalues of a symmetric PSD A with ‖A − LLᵀ‖ ≤ factor.error + ``further`` (N-graded).

    Step k multiplies the columns by a matrix T_k of doubles, and computes B_k = B_{k−1}T_k + E_k in double-double,
    B₀ = L.  With T = T₁…T_p and E = Σ E_k T_{k+1}…T_p the last B is LT + E.  The proof is that of N-graded, with

    1. [g, G] from the steps: a step rotates the columns that are left, and subtracts multiples of the others;

    2. with doubles s_j > 0 near the norms of the columns, and Û the doubles next to B diag(s)⁻¹, BᵀB = S(I + F)S, S =
    diag(s), ‖F‖ ≤ h: the error of ÛᵀÛ − I in double precision, and 5u Σ|û|² for the rounding of Û, are part of h.

    The proof assumes nothing about the decompositions: a wrong one makes h or ‖E‖ large.  A factor 1 ± 1e-14 covers the
    rounding of these few numbers.

    >>> from gpbounds.linalg.pair_cholesky import pair_cholesky
    >>> A = np.diag([1.0, 1e-20, 0.0])
    >>> enclosure = enclosed_values(pair_cholesky(lambda rows, columns: (A[rows, columns], 0.0 * A[rows, columns]), 3))
    >>> bool(enclosure.upper[1] < 1.0000001e-20), bool(enclosure.lower[1] > 0.9999999e-20)
    (True, True)
    """
    return graded_columns(factor, further=further).values


def _orthogonal_columns(B: Pair) -> tuple[Pair, float, float, float]:
    """(B, g, G, ‖E‖) of `enclosed_values`; the columns are changed in place."""
    m, start = B[0].shape[1], 0
    least, most, apart = 1.0, 1.0, 0.0
    while start < m:
        done, rest = B[0][:, :start], B[0][:, start:]
        s = np.linalg.norm(done, axis=0)
        shear = (done / s).T @ rest / s[:, None] if start else np.zeros((0, m))
        values, V = _right_vectors(rest - done @ shear)
        T = np.concatenate([-shear @ V, V])
        (high, low), error = multiply(B, (T.T.copy(), np.zeros((m - start, m))))
        gram = V.T @ V
        gram[np.diag_indices_from(gram)] -= 1.0
        size = float((V * V).sum())
        f = UP * (float(np.linalg.norm(gram)) + 1.01 * (len(V) + 2) * U * size)
        w = UP * float(np.linalg.norm(T[:start]))
        B[0][:, start:], B[1][:, start:] = high, low
        high_step, low_step = math.sqrt(1.0 + f) + w, math.sqrt(max(1.0 - f, 0.0)) - w
        apart = UP * (apart * high_step + error)
        most *= _UP_STEP * high_step**2
        least *= max(low_step, 0.0) ** 2 / _UP_STEP
        resolved = int((values > RESOLVED * values[0]).sum())
        start = m if values[0] == 0.0 else start + resolved
    return B, max(least, 1e-300), most, apart


_UP_STEP = 1.0 + 1e-14


def _right_vectors(A: Float) -> tuple[Float, Float]:
    """Singular values, decreasing, and right singular vectors."""
    from scipy.linalg import qr, svd

    with one_blas_thread():
        if A.shape[0] > 2 * A.shape[1]:
            A = qr(A, mode="r", check_finite=False)[0][: A.shape[1]]
        _, values, Vt = svd(A, full_matrices=False, check_finite=False)
    return values, Vt.T


def _scales(B: Pair) -> tuple[Float, float]:
    """s and h of `enclosed_values`."""
    s = np.linalg.norm(B[0], axis=0)
    s[s == 0.0] = 1.0
    columns = (B[0] + B[1]) / s
    gram = columns.T @ columns
    gram[np.diag_indices_from(gram)] -= 1.0
    size = float((columns * columns).sum())
    h = float(np.linalg.norm(gram)) + U * (1.01 * (len(columns) + 2) + 5.0) * size
    return s, UP * h
