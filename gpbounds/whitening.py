"""Whitening, streamed: L Lᵀ = Kuu + jitter·I, V = L⁻¹Kuf by chunks of rows of X, and the sums that sparse models need.

Q = VᵀV, so that sparse models need only VVᵀ (M × M), Vy and the diagonal of K − Q, in O(NM²) time.  No N × M array is
stored: O(M² + M·chunk + N) memory, on NumPy or CuPy arrays.

A reverse pass streams the same chunks: with cotangents Ā of VVᵀ (symmetric), b̄ of Vy and d̄ of the diagonal,

    V̄ = 2ĀV + b̄yᵀ − 2V·diag(d̄),        K̄uf = L⁻ᵀV̄,        L̄ = −tril(L⁻ᵀV̄Vᵀ).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from gpbounds.arrays import EPS, Array, array_of, as_points, host, is_cupy, namespace, require_finite_rows
from gpbounds.errors import NonFinite, NotPositiveDefinite
from gpbounds.kernels import Kernel
from gpbounds.kernels.base import as_kernel
from gpbounds.kernels.covariances import covariances
from gpbounds.kernels.fused import Fused
from gpbounds.linalg import AUTO_LADDER, Cholesky, Jitter, cholesky, device
from gpbounds.linalg.parallel import ENTRY, groups, share
from gpbounds.linalg.residuals import least_sound_jitter
from gpbounds.readings import Readings
from gpbounds.texts import in_one_line
from gpbounds.validation import count, jitter_or_auto

CHUNK = 1024
"""Rows of X in a chunk: M × 1024 doubles fit a cache, and matrix products run at full speed."""

T = TypeVar("T")


@dataclass(frozen=True)
class Inducing:
    """The kernel, Z (M, D), and L with L Lᵀ = Kuu + jitter·I: whitens chunks of data.

    ``defect`` ≥ ‖LLᵀ − Kuu − jitter·I‖ where it has been measured.

    >>> from gpbounds.kernels import SquaredExponential
    >>> whitener = inducing(SquaredExponential(), [[0.0], [1.0]])
    >>> V = whitener.whiten(np.array([[0.0], [1.0]]))
    >>> bool(np.allclose(V.T @ V, whitener.kernel(whitener.Z)))  # Q = K at the inducing points
    True
    """

    kernel: Kernel
    Z: Array
    chol: Cholesky
    defect: float = np.inf
    __repr__ = in_one_line

    @property
    def M(self) -> int:
        """Number of inducing points."""
        return int(self.Z.shape[0])

    def whiten(self, X: Array) -> Array:
        """V = L⁻¹k(Z, X), shape (M, n), for X (n, D)."""
        return self.chol.solve_lower(self.kernel(X, self.Z).T)  # transposed, so that LAPACK needs no copy

    def known(self, X: Array) -> tuple[Any, int]:
        """As `matched` for Z; no row is known where Kuu has jitter."""
        N = int(X.shape[0])
        return matched(X, self.Z) if self.chol.jitter == 0.0 else (np.zeros(N, dtype=bool), N)

    def chunks(self, X: Array, chunk: int = CHUNK) -> Iterator[tuple[slice, Array]]:
        """(rows, V[:, rows]) for consecutive chunks of rows of X."""
        for rows in slices(X.shape[0], chunk):
            yield rows, self.whiten(X[rows])

    def times(self, X: Array, A: Array, chunk: int = CHUNK) -> Array:
        """V A, shape (M, P), for A (N, P), in O(NM): Kuf A is streamed, then whitened."""
        rows = slices(X.shape[0], chunk)
        return self.chol.solve_lower(sum(self.kernel(self.Z, X[i]) @ A[i] for i in rows))

    def lift(self, A: Array) -> Array:
        """L⁻ᵀA for A (M, P): VᵀA = k(X, Z) L⁻ᵀA."""
        return self.chol.solve_upper(A)

    def transposed_times(self, X: Array, A: Array, chunk: int = CHUNK) -> Iterator[tuple[slice, Array]]:
        """(rows, (VᵀA)[rows]) for A (M, P), in O(NM): k(X, Z)(L⁻ᵀA)."""
        lifted = self.lift(A)
        for rows in slices(X.shape[0], chunk):
            yield rows, self.kernel(X[rows], self.Z) @ lifted


class Whitened(Protocol):
    """The results of a pass over N rows that bounds need: `Whitening` without its values for single rows."""

    @property
    def inducing(self) -> Inducing:
        """Kernel, Z and L."""

    @property
    def gram(self) -> Array:
        """VVᵀ."""

    @property
    def rank(self) -> int:
        """An integer >= rank(K − Q)."""

    @property
    def N(self) -> int:
        """Number of data."""

    @property
    def M(self) -> int:
        """Number of inducing points."""

    @property
    def jitter(self) -> float:
        """The number that was added to the diagonal of Kuu."""

    @property
    def trace(self) -> float:
        """T = Tr(K − Q)."""

    @property
    def additions(self) -> int:
        """An upper bound on the number of additions that one entry of VVᵀ went through."""


@dataclass(frozen=True)
class Whitening:
    """Sums over N data, computed in O(NM²) time.

    Attributes
    ----------
    inducing : Inducing
        Kernel, Z and L; ``inducing.chunks(X)`` streams V again.
    X : array (N, D)
    gram : array (M, M)
        VVᵀ; its eigenvalues are the nonzero eigenvalues of Q.
    projected : array (M,) or (M, P)
        V y; shape (M, 0) without y.
    squares : array () or (P,)
        ‖y‖² of each output.
    residual : array (N,)
        Diagonal of K − Q: exactly 0 at known rows; values below 0 by rounding (at most 1e-10 of the variance) are set
        to 0.
    known : array (N,) of bool
        True for rows of X that are rows of Z, where K − Q is 0.  All False when jitter > 0.
    rank : int
        An integer >= rank(K − Q): the number of distinct rows of X that are not known; N when jitter > 0.
    """

    inducing: Inducing
    X: Array
    gram: Array
    projected: Array
    squares: Array
    residual: Array
    known: Any
    rank: int
    chunk: int = CHUNK

    @property
    def N(self) -> int:
        """Number of data."""
        return int(self.X.shape[0])

    @property
    def additions(self) -> int:
        """An upper bound on the number of additions that one entry of VVᵀ went through."""
        return min(self.N, self.chunk + -(-self.N // self.chunk))

    @property
    def M(self) -> int:
        """Number of inducing points."""
        return self.inducing.M

    @property
    def jitter(self) -> float:
        """The number that was added to the diagonal of Kuu."""
        return self.inducing.chol.jitter

    @property
    def trace(self) -> float:
        """T = Tr(K − Q)."""
        return float(self.residual.sum())


def slices(N: int, chunk: int = CHUNK) -> Iterator[slice]:
    """Consecutive slices of 0 ... N − 1.

    >>> list(slices(5, 3))
    [slice(0, 3, None), slice(3, 5, None)]
    """
    step = count("chunk", chunk)
    return (slice(start, min(start + step, N)) for start in range(0, N, step))


def inducing(kernel: Kernel, Z: ArrayLike, jitter: Jitter = "auto") -> Inducing:
    """Factorise Kuu + jitter·I.

    Raises
    ------
    NotPositiveDefinite
        for duplicated or numerically dependent rows of Z if ``jitter`` is too small.
    """
    points = as_points(Z, "Z")
    return _advised(jitter, lambda: Inducing(kernel, points, cholesky(kernel(points), jitter, name="Kuu")))


def _advised(jitter: Jitter, work: Callable[[], T]) -> T:
    """``work()``; an error advises another jitter to the caller who passed a number, and to no other."""
    try:
        return work()
    except NotPositiveDefinite as error:
        if jitter == "auto" or not error.fact.startswith(("Kuu", "K - Q")):
            raise
        raise NotPositiveDefinite(error.fact, "Or pass jitter='auto', or a larger jitter.") from None


def whiten(
    kernel: Kernel,
    X: ArrayLike,
    Z: ArrayLike,
    y: ArrayLike | None = None,
    *,
    jitter: Jitter = "auto",
    chunk: int = CHUNK,
) -> Whitening:
    """Stream V = L⁻¹Kuf once and compute VVᵀ, Vy, ‖y‖² and the diagonal of K − Q.

    O(NM²) time, O(M² + M·chunk + N) memory.

    Parameters
    ----------
    kernel : Kernel
    X : array (N, D), NumPy or CuPy
    Z : array (M, D)
        Inducing inputs.
    y : array (N,) or (N, P), optional
    jitter : float or "auto"
        Added to the diagonal of Kuu.  "auto" takes 0 where the factor of Kuu is near enough to be trusted, else the
        least sound amount (`least_sound_jitter`), or the smallest of a ladder with which Kuu factorises and no
        diagonal entry of K − Q falls below 0 by more than 1e-10 of the variance; the result's ``jitter`` is the
        amount.
    chunk : int
        Rows of X in a chunk.

    Raises
    ------
    ValueError
        for shapes that do not match.
    NonFinite
        for NaN or infinity in X, Z or y, or in the kernel's values.
    NotPositiveDefinite
        if Kuu does not factorise, or if its factor is so inaccurate that K − Q has a negative diagonal.

    >>> from gpbounds.kernels import SquaredExponential
    >>> white = whiten(SquaredExponential(), [0.0, 1.0, 2.0], [0.0, 2.0], [1.0, 0.5, -0.5])
    >>> white.rank, round(white.trace, 4), white.projected.round(4)
    (1, 0.3519, array([ 1.2356, -0.2307]))
    """
    points = as_points(X, "X")
    centres = as_points(Z, "Z", points.shape[1])
    targets = None if y is None else as_targets(y, points)
    return with_jitter(
        lambda amount: _whiten(kernel, points, centres, targets, amount, chunk), kernel, centres, jitter, sound=True
    )


def with_jitter(attempt: Callable[[float], T], kernel: Kernel, Z: Array, jitter: Jitter, *, sound: bool = False) -> T:
    """``attempt(jitter)``; "auto" tries the steps of the ladder, times the variance at Z, until one succeeds.

    With ``sound`` the ladder begins with `least_sound_jitter` in place of 0: bounds need a factor that is near Kuu's.
    An error advises a larger jitter only to a caller who passed a number.
    """
    as_kernel(kernel)
    jitter = jitter_or_auto(jitter)
    if jitter != "auto":
        return _advised(jitter, lambda: attempt(jitter))
    largest = kernel.largest_variance(Z)
    rungs = [step * largest for step in AUTO_LADDER]
    if sound and rungs[0] == 0.0:
        least = least_sound_jitter(kernel(Z))
        rungs = [least, *(rung for rung in rungs if rung > least)]
    for rung in rungs[:-1]:
        try:
            return attempt(rung)
        except NotPositiveDefinite:
            continue
    try:
        return attempt(rungs[-1])
    except NotPositiveDefinite as error:
        raise NotPositiveDefinite(error.fact) from None


def _whiten(kernel: Kernel, X: Array, Z: Array, y: Array | None, jitter: float, chunk: int) -> Whitening:
    namespace(X, Z)
    return whitened(inducing(kernel, Z, jitter), X, y, chunk)


def whitened(whitener: Inducing, X: Array, y: Array | None, chunk: int = CHUNK) -> Whitening:
    """As `whiten`, with the factor of Kuu given, for checked X (N, D) and y."""
    xp, kernel = namespace(X), whitener.kernel
    targets = xp.zeros((X.shape[0], 0), dtype=X.dtype) if y is None else y
    N, M, parts = X.shape[0], whitener.M, list(slices(X.shape[0], chunk))
    residual = xp.empty(N, dtype=X.dtype)
    sums = groups(len(parts), N, M) if xp is np else 1
    grams = [xp.zeros((M, M), dtype=X.dtype) for _ in range(sums)]
    projections = [xp.zeros((M, *targets.shape[1:]), dtype=targets.dtype) for _ in range(sums)]

    entries = kernel if xp is np else covariances(kernel, whitener.Z)
    doubles = X.dtype == whitener.Z.dtype == np.float64
    readings = None if xp is np else Readings()

    def add(group: int, worker: int) -> None:
        for rows in parts[group::sums]:
            if isinstance(entries, Fused) and doubles:
                V, variance = whitener.chol.solve_lower(entries.matrix(X[rows]).T), entries.diag(X[rows])
            else:
                V, variance = whitener.whiten(X[rows]), kernel.diag(X[rows])
            grams[group] += V @ V.T  # NumPy recognises V @ Vᵀ and computes half of it
            projections[group] += V @ targets[rows]
            residual[rows] = residual_diagonal(variance, V, readings)

    share(sums, add, flops=float(N * M * (2 * M + ENTRY)))
    if readings is not None:
        readings.settle()
    gram, projected = sum(grams[1:], grams[0]), sum(projections[1:], projections[0])
    known, rank = whitener.known(X)
    residual[xp.asarray(known)] = 0.0
    return Whitening(whitener, X, gram, projected, sums_of_squares(targets), residual, known, rank, chunk)


def residual_diagonal(diagonal: Array, V: Array, readings: Readings | None = None) -> Array:
    """The diagonal of K − VᵀV; an error if it is below 0 by more than rounding, or when ``readings`` are read."""
    xp, M, eps = namespace(V), V.shape[0], float(np.finfo(V.dtype).eps)
    residual = diagonal - xp.einsum("ij,ij->j", V, V)
    later = Readings() if readings is None else readings
    least, scale = later.take(residual.min()), later.take(diagonal.max())
    later.test(lambda: _require_finite_and_residual(float(least), float(scale), M, eps))
    if readings is None:
        later.settle()
    return xp.maximum(residual, 0.0)


class Residuals:
    """The diagonal of K − Q for chunks of rows on a GPU, where k(x, x) is constant; `require` reads their least entry.

    One read then serves all chunks of a pass.
    """

    def __init__(self, variance: float, readings: Readings) -> None:
        self.variance, self.readings, self.M = variance, readings, 0
        self._unread: list[Array] = []

    def of(self, V: Array) -> Array:
        """The diagonal (n,) from V = L⁻¹k(Z, X) by rows (n, M), with values below 0 set to 0."""
        residual = device.below(self.variance, V)
        self._unread.append(residual)
        self.M = int(V.shape[1])
        return namespace(V).maximum(residual, 0.0)

    def require(self) -> None:
        """Raise the errors of `residual_diagonal` for the chunks since the last call, when the readings are read."""
        if not self._unread:
            return
        least = self.readings.take(namespace(self._unread[0]).concatenate(self._unread).min())
        self._unread.clear()
        self.readings.test(lambda: _require_finite_and_residual(float(least), self.variance, self.M, EPS))


def _require_finite_and_residual(least: float, scale: float, M: int, eps: float) -> None:
    if not np.isfinite(least):
        raise NonFinite("kernel: expected finite covariances, got NaN or infinity in Kuf")
    require_residual(least, scale, M, eps)


def require_residual(least: float, scale: float, M: int, eps: float = EPS) -> None:
    """Refuse a diagonal of K − Q whose least entry is below 0 by more than rounding; K's is at most ``scale``."""
    allowed = max(1e-10, 100.0 * M * eps) * scale
    if not least >= -allowed:
        raise NotPositiveDefinite(
            f"K - Q: expected a diagonal >= 0, but its least entry is {least:.3g}, below the rounding error "
            f"{-allowed:.3g}. Usual cause: inducing points so close that Kuu is nearly singular. Take fewer of them."
        )


def as_targets(y: ArrayLike | Array, X: Array) -> Array:
    """``y`` as finite numbers of shape (N,) or (N, P), on the device and of the precision of ``X`` (N, D)."""
    xp, N = namespace(X), X.shape[0]
    if is_cupy(y) != (xp is not np):
        expected, came = ("a NumPy", "a CuPy") if xp is np else ("a CuPy", "a NumPy")
        raise ValueError(f"y: expected {expected} array, as X is, got {came} array")
    targets = array_of(xp, "y", y)
    if targets.dtype.kind not in "biuf":
        raise ValueError(f"y: expected real numbers, got dtype {targets.dtype}")
    if targets.ndim not in (1, 2) or targets.shape[0] != N or targets.shape[-1] == 0:
        raise ValueError(
            f"y: expected shape ({N},) or ({N}, P), one row of targets for each row of X, got {targets.shape}"
        )
    require_finite_rows("y", targets)
    if xp is np:
        sums_of_squares(targets.astype(np.float64, copy=False))
    return targets.astype(X.dtype, copy=False)


def sums_of_squares(targets: Array, name: str = "y") -> Array:
    """Σy² of each output; refused where it is no finite double."""
    xp = namespace(targets)
    with np.errstate(over="ignore"):
        squares = (targets * targets).sum(axis=0)
    if not bool(xp.isfinite(squares).all()):
        largest = float(xp.abs(targets).max())
        raise ValueError(
            f"{name}: expected numbers whose squares add to a double, got |{name}| up to {largest:.3g}: rescale y"
        )
    return squares


def matched(X: Array, Z: Array) -> tuple[Any, int]:
    """Which rows of X equal a row of Z, bit for bit, and the number of distinct rows of X that do not.

    >>> matched(np.array([[0.0], [1.0], [1.0], [2.0]]), np.array([[2.0], [7.0]]))
    (array([False, False, False,  True]), 2)
    """
    chosen, rows = set(_bytes(Z)), _bytes(X)
    return np.array([row in chosen for row in rows]), len(set(rows) - chosen)


def _bytes(points: Array) -> list[bytes]:
    return [row.tobytes() for row in host(points).astype(np.float64) + 0.0]  # turns -0.0 into 0.0
