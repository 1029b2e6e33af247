"""Factors and eigenvalues of positive (semi-)definite matrices; the results record jitter and clipping.

No silent jitter: ``jitter`` is a number, or ``"auto"``, which takes the least of 0, 1e-12 ... 1e-6 times the largest
diagonal entry with which the matrix factorises.  The result contains the jitter used.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from gpbounds.arrays import EPS, Array, Float, exactly, namespace, require_finite_rows
from gpbounds.errors import NonFinite, NotPositiveDefinite
from gpbounds.linalg.parallel import one_blas_thread
from gpbounds.linalg.triangular import factorise, solve_triangular
from gpbounds.readings import Readings
from gpbounds.texts import in_one_line
from gpbounds.validation import finite, jitter_or_auto

Jitter = float | Literal["auto"]
AUTO_LADDER = (0.0, 1e-12, 1e-11, 1e-10, 1e-9, 1e-8, 1e-7, 1e-6)


@dataclass(frozen=True)
class Cholesky:
    """Lower-triangular ``L`` with L Lᵀ = A + jitter·I."""

    L: Array
    jitter: float
    __repr__ = in_one_line

    def solve_lower(self, B: Array) -> Array:
        """L⁻¹ B."""
        return solve_triangular(self.L, B)

    def solve_upper(self, B: Array) -> Array:
        """L⁻ᵀ B."""
        return solve_triangular(self.L, B, transposed=True)

    def solve(self, B: Array) -> Array:
        """(A + jitter·I)⁻¹ B."""
        return self.solve_upper(self.solve_lower(B))

    @property
    def logdet(self) -> float:
        """log|A + jitter·I|."""
        return float(self.log_determinant)

    @property
    def log_determinant(self) -> Array:
        """log|A + jitter·I| on the device of L."""
        xp = namespace(self.L)
        return 2.0 * xp.log(xp.diagonal(self.L)).sum()


def _try(A: Array, jitter: float, overwrite: bool) -> Array | None:
    xp = namespace(A)
    if xp is np and A.dtype == np.float64 and A.size:
        L: Array = np.ascontiguousarray(A) if overwrite else np.array(A, order="C")
        if jitter:
            L.reshape(-1)[:: L.shape[0] + 1] += jitter
        return L if factorise(L) and np.isfinite(L).all() else None
    shifted = A if jitter == 0.0 else A + jitter * xp.eye(A.shape[0], dtype=A.dtype)
    try:
        with failures_raise(xp):
            L = xp.linalg.cholesky(shifted)
    except np.linalg.LinAlgError:
        return None
    return L if bool(xp.isfinite(L).all()) else None  # NaN in A passes the factorisation


def failures_raise(xp: Any) -> AbstractContextManager[None]:
    """Inside this context, failed linear algebra of ``xp`` raises `numpy.linalg.LinAlgError`, as NumPy always does.

    By default CuPy does not check the solver's status, and returns arbitrary numbers after a failure.
    """
    if xp is np:
        return nullcontext()
    import cupyx

    return cupyx.errstate(linalg="raise")


def cholesky(A: Array, jitter: Jitter = 0.0, name: str = "matrix", *, overwrite: bool = False) -> Cholesky:
    """Factorise a symmetric positive definite ``A`` (n × n) with the stated jitter.

    With ``overwrite`` the factor may use the memory of ``A``, whose entries are then undefined.  "auto" excludes
    ``overwrite``, because it may need ``A`` again.

    Raises
    ------
    NotPositiveDefinite
        if the factorisation fails with every allowed jitter.

    >>> round(cholesky(np.array([[4.0, 2.0], [2.0, 3.0]])).logdet, 12)  # log 8
    2.07944154168
    """
    jitter = jitter_or_auto(jitter)
    if overwrite and jitter == "auto":
        raise ValueError("overwrite: expected a jitter that is a number, got 'auto', which may need the matrix again")
    A = exactly(name, A)
    if A.dtype.kind in "iub":  # whole numbers, factorised as the same doubles are
        A = A.astype(np.float64)
    if jitter == "auto":
        scale = float(namespace(A).diagonal(A).max())
        ladder = [step * scale for step in AUTO_LADDER]
    else:
        ladder = [jitter]
    for amount in ladder:
        L = _try(A, amount, overwrite)
        if L is not None:
            return Cholesky(L, amount)
    zeros = [] if overwrite else namespace(A).flatnonzero(namespace(A).diagonal(A) == 0.0)[:1].tolist()
    if zeros:
        raise NotPositiveDefinite(
            f"{name}: expected a positive definite {A.shape[0]} x {A.shape[0]} matrix, but the variance of number "
            f"{zeros[0]} is 0, as that of a linear kernel is at x = 0: leave this point out, or add a Constant kernel."
        )
    raise _indefinite(name, int(A.shape[0]), ladder[-1])


def cholesky_unread(
    A: Array, jitter: float, name: str, readings: Readings, needed: Callable[[], bool] = lambda: True
) -> Cholesky:
    """As `cholesky` for a matrix or a stack on a GPU and a jitter that is a number, without waiting for the device.

    L is tested when ``readings`` are read, and its entries are arbitrary until then: it must have a positive diagonal
    and no entry of LLᵀ − A − jitter·I above 100·n·eps times the largest entry of the diagonal, which an unfinished
    factorisation does not pass.  The test is skipped if ``needed()`` is false then.
    """
    xp, n = namespace(A), int(A.shape[-1])
    shifted = A if jitter == 0.0 else A + jitter * xp.eye(n)
    L = xp.linalg.cholesky(shifted)
    entries, pivots = (xp.diagonal(each, axis1=-2, axis2=-1) for each in (shifted, L))
    parts = xp.abs(shifted - L @ L.swapaxes(-1, -2)).max(), entries.max(), pivots.min()
    error, scale, pivot = (readings.take(part) for part in parts)

    def test() -> None:
        good = float(pivot) > 0.0 and float(error) <= 100.0 * n * EPS * float(scale)  # False for NaN
        if not good and needed():
            raise _indefinite(name, n, jitter)

    readings.test(test)
    return Cholesky(L, jitter)


def _indefinite(name: str, n: int, jitter: float) -> NotPositiveDefinite:
    return NotPositiveDefinite(
        f"{name}: expected a positive definite {n} x {n} matrix, but Cholesky fails with jitter {jitter:.3g}. Usual "
        "causes: duplicated or nearly equal points, or a lengthscale much longer than their spacing. Remove "
        "duplicates, or use fewer points."
    )


@dataclass(frozen=True)
class Eigen:
    """Eigenvalues of a PSD matrix in decreasing order, with a bound on their absolute rounding error.

    Attributes
    ----------
    values : array (n,)
    vectors : array (n, n) or None
        Orthonormal columns, in the order of ``values``.
    rounding : float
        Bound on the error of each eigenvalue.
    clipped : int
        Number of eigenvalues in [-rounding, 0) that were set to 0.
    """

    values: Float
    vectors: Array | None
    rounding: float
    clipped: int


def eigen(A: Array, name: str = "matrix", *, vectors: bool = False, rounding: float | None = None) -> Eigen:
    """All eigenvalues of a symmetric PSD matrix in decreasing order, and with ``vectors`` its eigenvectors.

    Values in [-rounding, 0) are set to 0, and the result contains their number; a smaller value is an error.  The
    default of ``rounding`` is n·eps·λ_max.  A difference of two matrices needs a larger value, that of the larger
    matrix.

    Raises
    ------
    NonFinite
        for NaN or infinity in A.
    NotPositiveDefinite
        if an eigenvalue is below -rounding.

    >>> eigen(np.array([[2.0, 1.0], [1.0, 2.0]])).values.round(12)
    array([3., 1.])
    """
    xp, A = namespace(A), exactly(name, A)
    A = A if A.dtype.kind == "f" else A.astype(np.float64)
    if not bool(xp.isfinite(A).all()):
        raise NonFinite(f"{name}: expected finite entries, got NaN or infinity")
    if A.shape[0] == 0:
        return Eigen(np.zeros(0), np.zeros((0, 0)) if vectors else None, rounding or 0.0, 0)
    if xp is np:
        from scipy.linalg import eigh

        # divide and conquer gives vectors that are orthonormal to a few ulp, unlike "evr"
        with one_blas_thread():
            decomposition = eigh(A, eigvals_only=not vectors, driver="evd" if vectors else None, check_finite=False)
    else:
        with failures_raise(xp):
            decomposition = xp.linalg.eigh(A) if vectors else xp.linalg.eigvalsh(A)
    rising, basis = decomposition if vectors else (decomposition, None)
    values = (rising if xp is np else xp.asnumpy(rising))[::-1]
    if rounding is None:
        rounding = eigenvalue_rounding(values, float(np.finfo(A.dtype).eps))
    return clipped(values, None if basis is None else basis[:, ::-1], rounding, name)


def eigenvalue_rounding(values: Float, eps: float) -> float:
    """n·eps·λ_max, a bound on the rounding error of each of n eigenvalues."""
    return values.size * eps * max(float(values.max()), 0.0)


def computed_eigenvalues(name: str, value: ArrayLike, n: int | None = None) -> Float:
    """Eigenvalues that a caller has computed for a PSD matrix, as finite doubles ≥ 0 of any shape.

    Those in [−n·eps·λ_max, 0), which a computation may return for 0, count as 0; ``n`` is the order of the matrix, by
    default the number of eigenvalues.

    Raises
    ------
    NotPositiveDefinite
        if an eigenvalue is lower.

    >>> computed_eigenvalues("eigenvalues", [2.0, 1.0, -1e-17])
    array([2., 1., 0.])
    """
    values = finite(name, value)
    if values.size == 0:
        return values
    count = values.size if n is None else n
    allowed, least = count * EPS * max(float(values.max()), 0.0), float(values.min())
    if least < -allowed:
        place = tuple(int(i) for i in np.unravel_index(np.argmin(values), values.shape))
        raise NotPositiveDefinite(
            f"{name}: expected numbers >= 0, or at least {-allowed:.3g} where rounding has left that of 0 (N·eps times "
            f"the largest), got {least:.3g} at index {place}: if the matrix is positive semi-definite, clip at 0, "
            f"np.maximum({name}, 0)"
        )
    return np.maximum(values, 0.0)


def clipped(values: Float, vectors: Array | None, allowed: float, name: str) -> Eigen:
    """The record of eigenvalues in decreasing order, those in [−allowed, 0) set to 0; an error if one is lower."""
    if values[-1] < -allowed:
        raise NotPositiveDefinite(
            f"{name}: expected a positive semi-definite matrix, but its least eigenvalue is {values[-1]:.3g}, below "
            f"the rounding error {-allowed:.3g}. Usual cause: points so close that a factorised matrix is nearly "
            "singular; take fewer of them."
        )
    return Eigen(np.maximum(values, 0.0), vectors, allowed, int((values < 0).sum()))


# Checks of matrix arguments: finite, square, symmetric; on NumPy or CuPy.

TOLERANCE = 1e-8
"""Largest allowed difference |A_ij − A_ji|, relative to the largest entry."""
_STRIP = 512
"""Number of rows compared at a time; a full transposed copy would need another N² numbers."""


def finite_matrix(name: str, value: ArrayLike | Array, expected: str) -> Array:
    """``value`` as a finite, non-empty float64 matrix on its device; ``expected`` is text for the error message."""
    xp, given = namespace(value), exactly(name, value)
    try:
        A = xp.asarray(given)
    except ValueError:
        raise ValueError(f"{name}: expected rows of equal length, got ragged ones") from None
    if A.dtype.kind not in "biuf":
        raise ValueError(f"{name}: expected real numbers, got dtype {A.dtype}")
    if A.ndim != 2 or 0 in A.shape:
        raise ValueError(f"{name}: expected {expected}, got shape {A.shape}")
    A = A.astype(np.float64, copy=False)
    require_finite_rows(name, A)
    return A


def square_matrix(name: str, value: ArrayLike | Array, N: int | None = None) -> Array:
    """``value`` as a finite float64 matrix (N, N) on its device."""
    expected = "a square matrix (N, N)" if N is None else f"shape ({N}, {N})"
    A = finite_matrix(name, value, expected)
    if A.shape[0] != A.shape[1] or N not in (None, A.shape[0]):
        raise ValueError(f"{name}: expected {expected}, got shape {A.shape}")
    return A


def symmetric_matrix(
    name: str, value: ArrayLike | Array, N: int | None = None, *, tolerance: float = TOLERANCE
) -> Array:
    """``value`` as a finite symmetric float64 matrix (N, N) on its device.

    >>> symmetric_matrix("K", [[2.0, 1.0], [0.5, 2.0]])
    Traceback (most recent call last):
    ValueError: K: expected a symmetric matrix, got K[0, 1] = 1.0 and 0.5 across
    """
    A = square_matrix(name, value, N)
    require_symmetric(name, A, tolerance)
    return A


def require_symmetric(name: str, A: Array, tolerance: float = TOLERANCE) -> None:
    """Raise an error if |A_ij − A_ji| of a finite square matrix exceeds ``tolerance`` times its largest entry."""
    xp = namespace(A)
    size, worst, start = 0.0, 0.0, 0
    for first in range(0, A.shape[0], _STRIP):
        rows = slice(first, first + _STRIP)
        size = max(size, float(xp.abs(A[rows]).max()))
        gap = float(xp.abs(A[rows] - A[:, rows].T).max())
        if gap > worst:
            worst, start = gap, first
    if worst > tolerance * size:
        rows = slice(start, start + _STRIP)
        i, j = divmod(int(xp.abs(A[rows] - A[:, rows].T).argmax()), A.shape[0])
        i += start
        raise ValueError(
            f"{name}: expected a symmetric matrix, got {name}[{i}, {j}] = {float(A[i, j])} and {float(A[j, i])} across"
        )
