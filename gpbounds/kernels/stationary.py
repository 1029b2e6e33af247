"""Kernels that depend on the distance of two points, in lengthscales."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from gpbounds.arrays import EPS, Array, Float, as_points, host, is_cupy, namespace
from gpbounds.kernels import errors, per_dimension
from gpbounds.kernels.base import PIECE, Kernel, cannot, on_device
from gpbounds.kernels.expressions import DISTANCE, Expression, Leaf, Scalar
from gpbounds.once import cached_property
from gpbounds.validation import as_log_parameters, each_dimension, exponentials, positive, positive_each, scalar

# Squared distances without the cancellation of |x|² + |y|² − 2 x·y, and without an N × M × D array.
#
# On a GPU one kernel computes distance and covariance of each entry, without an intermediate array of distances.

_LOOP = """
long long row = i / columns, column = i - row * columns;
double s = 0.0;
for (int d = 0; d < dim; ++d) {
  double gap = (double)left[row * dim + d] - (double)right[column * dim + d];
  s += gap * gap * weights[d];
}
out = (R)(%s);
"""


@lru_cache(maxsize=16)
def _compiled(formula: str) -> Any:
    import cupy

    return cupy.ElementwiseKernel(
        "raw T left, raw S right, raw float64 weights, int64 columns, int32 dim, float64 variance",
        "R out",
        _LOOP % formula,
        "covariances",
    )


def fused(formula: str, left: Array, right: Array, weights: Float, variance: float, out: Array | None = None) -> Array:
    """``formula`` of s = Σ_d w_d (x_id − z_jd)² and the variance, for CuPy arrays x (N, D), z (M, D); shape (N, M).

    Sums are in double precision for every input type; the result has the precision of x, or of ``out``.
    """
    import cupy

    shape = (left.shape[0], right.shape[0])
    target = cupy.empty(shape, dtype=left.dtype) if out is None else out
    left, right = cupy.ascontiguousarray(left), cupy.ascontiguousarray(right)
    return _compiled(formula)(left, right, cupy.asarray(weights), shape[1], left.shape[1], variance, target)


def squared_distances(X1: Array, X2: Array, weights: Float | None = None, out: Array | None = None) -> Array:
    """Σ_d w_d (x_id − x_jd)² for the rows of X1 (N, D) and X2 (M, D); shape (N, M), exactly 0 for equal rows.

    Coordinates are subtracted as they are, so that an offset that all of them have costs no digit; ``weights`` (D,)
    are 1 by default.  If ``out`` is given, it is filled and returned; it must be (N, M), C-contiguous, with the
    precision of the inputs.
    """
    w = np.ones(X1.shape[1]) if weights is None else weights
    if namespace(X1, X2) is not np:
        return fused("s", X1, X2, w, 1.0, out)
    if out is not None and out.dtype == np.float64:
        return _weighted(X1, X2, w, out)
    squared = _weighted(X1, X2, w, None).astype(X1.dtype, copy=False)
    if out is None:
        return squared
    out[...] = squared
    return out


def _weighted(X1: Array, X2: Array, weights: Float, out: Array | None) -> Array:
    """One weight for all dimensions multiplies the sums."""
    from scipy.spatial.distance import cdist

    if weights.size and (weights != weights[0]).any():
        return cdist(X1, X2, "sqeuclidean", w=weights, out=out)
    squared = cdist(X1, X2, "sqeuclidean", out=out)
    if weights.size and weights[0] != 1.0:
        squared *= weights[0]
    return squared


def feature_distance(kernel: Any, step: float) -> float:
    """Upper bound on ‖φ(x) − φ(x + step)‖ on a line, k = φᵀφ a function of |x − x'|; allows 32 eps·k(x, x) of error."""
    ends = np.array([[0.0], [step]])
    scale = float(kernel.max_variance)
    return math.sqrt(max(2.0 * (scale - float(kernel(ends)[0, 1])), 0.0) + 64.0 * EPS * scale)


# Pull cotangents of r² = Σ_d (x_d − z_d)²/lengthscale_d² back to inputs and lengthscales; no N × M × D array.

NEAR = 1000.0
"""Squared scaled distance from the centre, in one dimension, up to which Σ W(x − z)² is expanded there; the error is at
most 1000 eps Σ W."""


def pull_distances(left: Array, right: Array, W: Array, expand: bool = True) -> tuple[Float, Array]:
    """Σ_ij W_ij (x_id − z_jd)² for each d, and Σ_i W_ij (x_id − z_jd), for x (N, D), z (M, D), W (N, M).

    One matrix product with [x, x², 1] serves all dimensions in which this loses no digits; the others take turns.

    Returns
    -------
    array (D,), in host memory
    array (M, D)

    >>> import numpy as np
    >>> squares, sums = pull_distances(np.array([[1.0], [4.0]]), np.array([[2.0]]), np.array([[1.0], [10.0]]))
    >>> squares, sums
    (array([41.]), array([[19.]]))
    """
    xp, D = namespace(left, right, W), left.shape[1]
    x, z, near = _centred(left, right, expand)
    squares, moved = xp.empty(D), xp.empty((z.shape[0], D), dtype=z.dtype)
    if near.any():
        columns = xp.asarray(np.flatnonzero(near))
        z = z[:, columns]
        squares[columns], moved[:, columns] = _expanded((_table(x[:, columns]).astype(W.dtype, copy=False).T @ W).T, z)
    for d in np.flatnonzero(~near):
        difference = left[:, d, None] - right[None, :, d]
        weighted = W * difference
        moved[:, d] = weighted.sum(axis=0)
        squares[d] = xp.einsum("ij,ij->", weighted, difference)
    return host(squares), moved


def pull_sums(
    left: Array, right: Array, E: Array, weights: Array, K: Array, a: Array, b: Array
) -> tuple[float, Float, Array]:
    """ΣW, and `pull_distances`, of W_ij = s_i E_ij + K_ij a_i b_j with s = ``weights`` (n,); ``E`` may be overwritten.

    Where a matrix product serves all dimensions, W itself is not computed.

    >>> import numpy as np
    >>> x, z, E, s = np.array([[1.0], [4.0]]), np.array([[2.0]]), np.array([[1.0], [10.0]]), np.array([3.0, 1.0])
    >>> pull_sums(x, z, E, s, E, np.zeros(2), np.zeros(1))
    (13.0, array([43.]), array([[17.]]))
    """
    x, z, near = _centred(left, right, True)
    if not near.all():
        E *= weights[:, None]
        E += K * (a[:, None] * b)
        return float(E.sum()), *pull_distances(left, right, E)
    table = _table(x)
    sums = ((table * weights[:, None]).T @ E).T
    sums += b[:, None] * ((table * a[:, None]).T @ K).T
    squares, moved = _expanded(sums, z)
    return float(sums[:, -1].sum()), host(squares), moved


def _centred(left: Array, right: Array, expand: bool) -> tuple[Array, Array, Any]:
    """x and z about the middle of z, and the dimensions, in host memory, whose sums may be expanded there."""
    middle = right.mean(axis=0)
    x, z = left - middle, right - middle
    reach = host((x * x).max(axis=0) + (z * z).max(axis=0))
    return x, z, expand & (reach <= NEAR)


def _table(x: Array) -> Array:
    """[x, x², 1]."""
    xp = namespace(x)
    return xp.concatenate([x, x * x, xp.ones((x.shape[0], 1), dtype=x.dtype)], axis=1)


def _expanded(sums: Array, z: Array) -> tuple[Array, Array]:
    """Σ_ij W_ij (x_id − z_jd)² and Σ_i W_ij (x_id − z_jd), from ``sums`` = Wᵀ[x, x², 1]."""
    n = z.shape[1]
    first, weights = sums[:, :n], sums[:, -1:]
    return (sums[:, n:-1] + z * (z * weights - 2.0 * first)).sum(axis=0), first - z * weights


# Kernels that depend on the distance of two points, in lengthscales.


@dataclass(frozen=True, eq=False)
class Stationary(Kernel):
    """k(x, x') = variance · ρ(r), r² = Σ_d (x_d - x'_d)² / lengthscale_d².

    Parameters
    ----------
    variance : float
        k(x, x), in squared units of y.
    lengthscale : float or array (D,)
        In the units of x: one for all dimensions, or one for each.
    """

    variance: float = 1.0
    lengthscale: ArrayLike = 1.0
    has_one_variance = is_positive = falls = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "variance", scalar(positive, "variance", self.variance))
        object.__setattr__(self, "lengthscale", positive_each("lengthscale", self.lengthscale))

    @cached_property
    def dim(self) -> int | None:
        """Number of dimensions if each has its own lengthscale, None if one lengthscale serves all."""
        return per_dimension.count(self.lengthscale)

    def lengthscales(self, dim: int) -> Float:
        """One lengthscale per dimension; raises ``ValueError`` if the kernel has another number of lengthscales."""
        return each_dimension("lengthscale", self.lengthscale, dim)

    @abstractmethod
    def correlation(self, squared: Array) -> Array:
        """ρ as a function of r² (any shape)."""

    def slope(self, squared: Array) -> Array:
        """−2 dρ/d(r²) (any shape), and 0 where the derivative does not exist."""
        raise cannot(self)

    @property
    def expands(self) -> bool:
        """Whether `slope` is smooth enough at r = 0 to expand sums Σ W(x − z)²."""
        return True

    @property
    def formula(self) -> str:
        """k as a CUDA expression in s = r² and the variance; empty if there is none."""
        return ""

    @property
    def slope_formula(self) -> str:
        """−2 dk/ds as a CUDA expression in s = r², the variance and k."""
        return ""

    @property
    def expression(self) -> Expression | None:
        if not self.formula:
            return None
        scalars = (Scalar("variance", self.variance, "k"),)
        return Leaf(self.formula, self.slope_formula, scalars, DISTANCE, 1.0 / np.asarray(self.lengthscale))

    def covariance(self, squared: Array) -> Array:
        """variance · ρ, where ``squared`` may be overwritten."""
        K = self.correlation(squared)
        K *= self.variance
        return K

    def fill(self, X1: Array, X2: Array, out: Array) -> Array:
        if is_cupy(out) and (K := on_device(self, X1, X2, out)) is not None:
            return K
        left, right = self._in_powers(X1, "X1"), self._in_powers(X2, "X2")
        weights = self._weights(left.shape[1]) ** 2
        on_host = namespace(left) is np
        step = max(1, PIECE // max(right.shape[0], 1) if on_host else left.shape[0])
        for start in range(0, left.shape[0], step):
            piece = out[start : start + step]
            K = self.covariance(squared_distances(left[start : start + step], right, weights, piece))
            if K is not piece:
                piece[...] = K
        return out

    @property
    def parameter_names(self) -> tuple[str, ...]:
        return ("variance", *per_dimension.names("lengthscale", self.lengthscale))

    @property
    def log_parameters(self) -> Float:
        return np.log(np.concatenate([[self.variance], np.atleast_1d(self.lengthscale)]))

    def with_log_parameters(self, values: ArrayLike) -> Kernel:
        variance, *lengthscales = exponentials(as_log_parameters(values, self.parameter_names), self.parameter_names)
        return replace(self, variance=variance, lengthscale=per_dimension.joined(lengthscales, self.lengthscale))

    def pull(self, X1: Array, X2: Array, cotangent: Array, value: Array | None = None) -> tuple[Float, Array]:
        left, right = self._in_powers(X1, "X1"), self._in_powers(X2, "X2")
        xp, squared = namespace(left), squared_distances(left, right, self._weights(left.shape[1]) ** 2)
        K = self.variance * self.correlation(squared) if value is None else value
        scale = float(xp.vdot(cotangent, K))
        cotangent *= self.slope(squared)
        cotangent *= self.variance
        return self._pulled(left, right, cotangent, scale)

    def _pulled(self, left: Array, right: Array, W: Array, scale: float) -> tuple[Float, Array]:
        """The result of `pull` from W = cotangent · variance · slope and the derivative in log variance."""
        return self._in_units(scale, *pull_distances(left, right, W, self.expands))

    def _in_units(self, scale: float, squares: Float, moved: Array) -> tuple[Float, Array]:
        """The result of `pull` from the derivative in log variance and the sums that `pull_distances` returns."""
        weights = self._weights(moved.shape[1])
        moved *= namespace(moved).asarray(weights / self.lengthscales(moved.shape[1]), dtype=moved.dtype)
        return np.concatenate([[scale], per_dimension.summed(weights**2 * squares, self.lengthscale)]), moved

    def pull_diag(self, X: Array, cotangent: Array) -> Float:
        sums = np.zeros(self.log_parameters.size)
        sums[0] = self.variance * float(cotangent.sum())
        return sums

    def _in_powers(self, X: ArrayLike | Array, name: str) -> Array:
        """x_d·2^−e with 2^(e−1) ≤ lengthscale_d < 2^e: the same digits, so that differences are those of x.

        x/lengthscale would be rounded before the subtraction, with an error that grows with |x|.
        """
        points = as_points(X, name)
        powers = each_dimension("lengthscale", self._powers[0], points.shape[1])
        return points * namespace(points).asarray(powers, dtype=points.dtype)

    def _weights(self, dim: int) -> Float:
        """2^e/lengthscale (D,), in (1, 2]: r² = Σ_d (weight_d·(difference of `_in_powers`))²."""
        return each_dimension("lengthscale", self._powers[1], dim)

    @cached_property
    def _powers(self) -> tuple[Any, Any]:
        """2^−e and 2^e/lengthscale, one or one per dimension; e is cut off where doubles cannot hold 2^±e."""
        exponents = np.clip(np.frexp(self.lengthscale)[1], -1000, 1000)
        return np.ldexp(1.0, -exponents), np.ldexp(1.0, exponents) / np.asarray(self.lengthscale)

    def __call__(self, X1: ArrayLike | Array, X2: ArrayLike | Array | None = None) -> Array:
        if is_cupy(X1) and (K := on_device(self, X1, X2)) is not None:
            return K
        left = self._in_powers(X1, "X1")
        right = left if X2 is None else self._in_powers(X2, "X2")
        if left.shape[1] != right.shape[1]:
            raise ValueError(f"expected X1 and X2 with equally many columns, got {left.shape} and {right.shape}")
        return self.covariance(squared_distances(left, right, self._weights(left.shape[1]) ** 2))

    def diag(self, X: ArrayLike | Array) -> Array:
        points = as_points(X, "X")
        self.lengthscales(points.shape[1])  # refuses another number of dimensions
        return namespace(points).full(points.shape[0], self.variance, dtype=points.dtype)

    @property
    def max_variance(self) -> float:
        return self.variance

    def lengths(self, X: Float) -> Float:
        return self.lengthscales(X.shape[1])

    def _squared(self, X: Float) -> Float:
        """r² of all rows of X (N, D), as `fill` computes it."""
        points = self._in_powers(X, "X")
        return squared_distances(points, points, self._weights(X.shape[1]) ** 2)

    def _proved(self, relative: float) -> tuple[float, float]:
        """`entry_bound` from a bound on the errors of ρ."""
        return self.variance * min(relative, 1.0) + errors.TINY * self.variance, self.variance

    def value_bound(self, reach: Float) -> tuple[float, float]:
        return self._anywhere(reach)

    def _anywhere(self, reach: Float, steps: float = 1.0, further: float = 0.0) -> tuple[float, float]:
        """`value_bound` with ``steps`` of a recurrence, and ``further`` errors.

        Proof.  r² is right to ½(D + 7) eps ≤ (D + 3) eps (`gpbounds.kernels.errors`) and |dk/d ln r²| ≤ v/e; exp and
        the Matérn recurrence, all of whose terms are positive, have a relative error of at most 8 eps per step.
        """
        return self.variance * EPS * (0.4 * (reach.size + 3.0) + 8.0 * (steps + 1.0) + further), self.variance

    def _key(self) -> tuple[object, ...]:
        return type(self), self.variance, tuple(np.atleast_1d(np.asarray(self.lengthscale))), self.dim

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stationary) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())
