"""The exact GP's predictions at large N, between proved ends, from approximate solves for many rows (N-solve)."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from gpbounds.arrays import Float, as_host_points
from gpbounds.errors import NotPositiveDefinite
from gpbounds.exact import Exact
from gpbounds.iterative.solves import MEMORY, Factored, Solver, factor_pays, factored, fast_solver
from gpbounds.kernels import Kernel
from gpbounds.kernels.base import as_kernel
from gpbounds.kernels.tiles import Products, additions
from gpbounds.linalg.parallel import one_blas_thread
from gpbounds.once import cached_property
from gpbounds.overflow import within_doubles
from gpbounds.progress import bar
from gpbounds.renyi.accuracy import U, errors_of_entries, gamma
from gpbounds.row_noise import UnitNoise, at_unit_noise, is_per_row
from gpbounds.validation import noise_variance, non_negative, positive, scalar
from gpbounds.whitening import as_targets, slices

Ends = tuple[Float, Float]
"""Lower and upper ends (n,)."""

COLUMNS = 2**25
"""Entries of the right-hand sides that are solved for at a time."""


@dataclass(frozen=True, eq=False)
class ExactPredictions:
    """Ends of the exact GP's latent means and variances at n points.

    Attributes
    ----------
    mean, variance : (array (n,), array (n,))
        Lower and upper ends; a lower end of a variance is at least 0.
    certified : bool
        Whether all rounding is proved; otherwise the error of the kernel's entries is only measured.
    method : "cholesky" or "conjugate gradients"
        How the solves were made; the ends do not depend on its accuracy.
    """

    mean: Ends
    variance: Ends
    certified: bool
    method: Literal["cholesky", "conjugate gradients"]


@within_doubles
def exact_predictions(
    kernel: Kernel,
    X: ArrayLike,
    y: ArrayLike,
    X_new: ArrayLike,
    *,
    noise: Any,
    tolerance: float = 1e-3,
    memory: float = MEMORY,
    progress: bool = False,
) -> ExactPredictions:
    """Mean and variance of the exact GP at ``X_new``, each between a proved lower and upper end.

    With A = K + σ²I, k = k(X, x), any α and v, and the residuals r = y − Aα, s = k − Av,

        |kᵀA⁻¹y − (vᵀy + αᵀs)| ≤ |r||s|/σ²,      0 ≤ kᵀA⁻¹k − vᵀ(k + s) ≤ |s|²/σ².

    Claim N-solve.  So the ends hold however α and v were computed; their distance is of second order in the residuals.
    The residuals are recomputed in doubles, and their rounding is added (N-solve-rounding).  α and v come from a
    Cholesky factor of A if it fits into ``memory`` and is faster, else from conjugate gradients in single precision for
    all points at once, preconditioned by Q + σ²I of greedy inducing points or by a block Vecchia factor.

    Cost: 2N²(n + 1) flops and N²/2 kernel entries (unless K is stored) for each of 5 to 50 products, or N³/3 flops.

    Parameters
    ----------
    kernel : Kernel
    X : array (N, D)
    y : array (N,)
        The prior mean is zero: pass residuals of another.
    X_new : array (n, D)
    noise : float or array (N,)
        σ², in squared units of y; an array: s_i², one noise variance for each row (N-rows-noise).
    tolerance : float
        The solves aim at ends of means within this many standard deviations of the noise, and of variances within this
        many noise variances, of the median noise where each row has its own.  Where rounding does not allow it, the
        ends are wider.
    memory : float
        Bytes for the triangle of K; where it fits, a Cholesky factor may use twice as many.
    progress : bool
        Show a bar that counts the products.

    Raises
    ------
    ValueError, NonFinite
        for wrong arguments.

    >>> from gpbounds.kernels import SquaredExponential
    >>> X = np.linspace(0.0, 6.0, 50)[:, None]
    >>> made = exact_predictions(SquaredExponential(), X, np.sin(X[:, 0]), [[2.0]], noise=0.01)
    >>> low, high = made.mean
    >>> bool(low < np.sin(2.0) + 1e-3 and high - low < 1e-4), made.certified
    (True, True)
    """
    as_kernel(kernel)
    if is_per_row(noise):
        return _of_rows(at_unit_noise(kernel, X, y, noise), kernel, X_new, tolerance, memory, progress)
    rows = as_host_points(X, "X").astype(np.float64, copy=False)
    new = as_host_points(X_new, "X_new", rows.shape[1]).astype(np.float64, copy=False)
    targets = as_targets(y, rows)
    if targets.ndim != 1:
        raise ValueError(f"y: expected shape (N,), got {targets.shape}")
    problem = _Problem(kernel, rows, targets, new, noise_variance(noise), scalar(positive, "tolerance", tolerance))
    space = scalar(non_negative, "memory", memory)
    with bar("The exact GP", None, "product", progress) as products, one_blas_thread():
        solver = _solver(problem, space, products.update)
        mean, variance = problem.ends(solver)
    method: Literal["cholesky", "conjugate gradients"] = (
        "cholesky" if isinstance(solver, Factored) else "conjugate gradients"
    )
    return ExactPredictions(mean, variance, problem.rounding.proved, method)


def predictions_by_factor(fit: Exact, X_new: Float, *, tolerance: float) -> ExactPredictions:
    """`exact_predictions` of one target by a factor of K + σ²I that is known already.

    >>> from gpbounds.exact import exact
    >>> from gpbounds.kernels import SquaredExponential
    >>> X = np.linspace(0.0, 6.0, 50)[:, None]
    >>> fit = exact(SquaredExponential(), X, np.sin(X), noise=0.01)
    >>> low, high = predictions_by_factor(fit, np.array([[2.0]]), tolerance=1e-3).mean
    >>> bool(low < np.sin(2.0) + 1e-3 and high - low < 1e-4)
    True
    """
    kernel, X, noise = fit.triangle.kernel, fit.triangle.X, fit.noise
    problem = _Problem(kernel, X, fit.Y[:, 0], X_new, noise, tolerance)
    with one_blas_thread():
        solver = Factored(fit.chol, Products(kernel, X, noise=noise, memory=0.0))
        mean, variance = problem.ends(solver)
    return ExactPredictions(mean, variance, problem.rounding.proved, "cholesky")


def _of_rows(
    unit: UnitNoise, kernel: Kernel, X_new: ArrayLike, tolerance: float, memory: float, progress: bool
) -> ExactPredictions:
    """The predictions of rows with noise of their own, from unit-noise rows and c·f, c a power of two (N-rows-noise).

    ``tolerance`` then refers to noise of the variance 1/c², which is near the median of the given ones.
    """
    new = as_host_points(X_new, "X_new", unit.X.shape[1] - 1)
    power = -math.frexp(math.sqrt(float(np.median(unit.noise))))[1]
    points = unit.points(new, "X_new")
    points[:, -1] = math.ldexp(1.0, power)
    own: dict[str, Any] = {"y": unit.y, "tolerance": tolerance, "memory": memory, "progress": progress}
    made = exact_predictions(unit.kernel, unit.X, X_new=points, noise=1.0, **own)
    ends = np.ldexp(made.mean, -power), np.ldexp(made.variance, -2 * power)
    mean, variance = unit.of_predictions(np.asarray(kernel.diag(new)), *((each[0], each[1]) for each in ends))
    return replace(made, mean=mean, variance=variance)


def _solver(problem: _Problem, memory: float, advance: Callable[[], Any]) -> Solver | Factored:
    """The faster of the two, if ``memory`` allows."""
    kernel, X, noise = problem.kernel, problem.X, problem.noise
    if factor_pays(len(X), len(problem.points), memory):
        with suppress(NotPositiveDefinite):  # conjugate gradients need no factor of all of A
            return factored(kernel, X, noise=noise, advance=advance)
    return fast_solver(kernel, X, noise=noise, memory=memory, advance=advance)


@dataclass(frozen=True, eq=False)
class _Problem:
    """The rows, their targets and the points, and how accurate the solves shall be."""

    kernel: Kernel
    X: Float
    y: Float
    points: Float
    noise: float
    tolerance: float

    def ends(self, solver: Solver | Factored) -> tuple[Ends, Ends]:
        """Ends of means and variances at the points, `COLUMNS` // N at a time, the first of them together with y."""
        points, N, first = self.points, len(self.X), True
        ordered = replace(self, X=self.X[solver.order], y=self.y[solver.order])
        alpha = rest = np.empty(0)
        means, variances = [], []
        for chosen in slices(len(points), max(1, COLUMNS // N)):
            K = self.kernel(ordered.X, points[chosen])
            B = np.column_stack([ordered.y, K]) if first else K
            limits = self.tolerance * np.append([1.0] if first else [], np.full(K.shape[1], self.noise))
            V, R, _ = solver.solve(B, _always(limits))
            if first:
                alpha, rest, V, R, first = V[:, 0], R[:, 0], V[:, 1:], R[:, 1:], False
            mean, variance = ordered._enclosed(points[chosen], K, alpha, rest, V, R)
            means.append(mean)
            variances.append(variance)
        return _joined(means), _joined(variances)

    def _enclosed(self, points: Float, K: Float, alpha: Float, rest: Float, V: Float, R: Float) -> tuple[Ends, Ends]:
        """N-solve, for K = k(X, points), y − A·alpha = ``rest`` and K − AV = R, up to rounding (N-solve-rounding)."""
        known, y, prior = self.rounding, self.y, self.kernel.diag(points)
        size, sizes = float(np.abs(alpha).sum()), np.abs(V).sum(axis=0)
        (_, length), (off, lengths) = known.of_residual(alpha, rest, y, 0.0), known.of_residual(V, R, K, known.entry)
        sums = gamma(len(y) + 8) + 4.0 * U
        middle = V.T @ y + R.T @ alpha
        terms = np.abs(V).T @ np.abs(y) + np.abs(R).T @ np.abs(alpha)
        reach = 1.01 * (length * lengths / self.noise + size * off + sums * terms)
        seen = (V * (K + R)).sum(axis=0)
        terms = prior + (np.abs(V) * np.abs(K + R)).sum(axis=0)
        rounded = 1.01 * (known.entry + sizes * (known.entry + off) + sums * terms)
        low, high = prior - seen - rounded - 1.01 * lengths**2 / self.noise, prior - seen + rounded
        return (middle - reach, middle + reach), (np.maximum(low, 0.0), np.minimum(high, prior + known.entry))

    @cached_property
    def rounding(self) -> _Rounding:
        """The rounding of residuals."""
        return _Rounding.of(self.kernel, np.concatenate([self.X, self.points]), len(self.X), self.noise)


@dataclass(frozen=True)
class _Rounding:
    """The rounding of residuals B − AV that `Products.times` helps to compute (N-solve-rounding).

    Attributes
    ----------
    entry : float
        The error of an entry of K and of B.
    product : float
        The error of an entry of KV as it is computed, for a column of V whose absolute values sum to 1.
    noise : float
    proved : bool
        Whether ``entry`` is proved.
    """

    entry: float
    product: float
    noise: float
    proved: bool

    @classmethod
    def of(cls, kernel: Kernel, rows: Float, N: int, noise: float) -> _Rounding:
        """For N data, and points that are the others of the ``rows``."""
        entry, proved = errors_of_entries(kernel, rows, rows)
        largest = float(kernel.largest_variance(rows)) + entry
        product = entry + largest * (kernel.products_error(rows.shape[1]) + gamma(additions(N)))
        return cls(entry, 1.02 * product, noise, proved)

    def of_residual(self, V: Float, R: Float, B: Float, own: float) -> tuple[Any, Any]:
        """Largest error of an entry of R, and at least the norm of the exact residual, for each column."""
        common = own + self.product * np.abs(V).sum(axis=0)
        each = 8.0 * U * (self.noise * np.abs(V) + np.abs(B) + np.abs(R))
        lengths = np.sqrt((R * R).sum(axis=0)) + np.sqrt((each * each).sum(axis=0)) + math.sqrt(len(R)) * common
        return common + each.max(axis=0), 1.01 * lengths


def _always(limits: Float) -> Callable[[Float, Float, Float], Float]:
    """Limits of errors that do not depend on the solutions."""
    return lambda V, R, errors: limits


def _joined(parts: list[Ends]) -> Ends:
    low, high = (np.concatenate(ends) for ends in zip(*parts, strict=True))
    return low, high
