"""The constant kernel."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from gpbounds.arrays import Array, Float, as_points, namespace
from gpbounds.kernels.base import Kernel
from gpbounds.kernels.expressions import Expression, Leaf, Scalar
from gpbounds.numerics.pairs import Pair
from gpbounds.validation import as_log_parameters, exponentials, positive, scalar


@dataclass(frozen=True)
class Constant(Kernel):
    """k(x, x') = variance: the covariance of an unknown constant, added to f.

    It is positive semi-definite because variance ≥ 0.

    Parameters
    ----------
    variance : float
        Variance of the constant, > 0, in squared units of y.

    Raises
    ------
    ValueError
        for a variance that is not positive and finite.

    >>> Constant(2.0)([[0.0], [1.0]])
    array([[2., 2.],
           [2., 2.]])
    """

    variance: float = 1.0

    in_pairs = is_positive = falls = has_one_variance = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "variance", scalar(positive, "variance", self.variance))

    def __call__(self, X1: ArrayLike | Array, X2: ArrayLike | Array | None = None) -> Array:
        left = as_points(X1, "X1")
        right = left if X2 is None else as_points(X2, "X2")
        if left.shape[1] != right.shape[1]:
            raise ValueError(f"expected X1 and X2 with equally many columns, got {left.shape} and {right.shape}")
        return namespace(left, right).full((left.shape[0], right.shape[0]), self.variance, dtype=left.dtype)

    def diag(self, X: ArrayLike | Array) -> Array:
        points = as_points(X, "X")
        return namespace(points).full(points.shape[0], self.variance, dtype=points.dtype)

    @property
    def max_variance(self) -> float:
        return self.variance

    def lengths(self, X: Float) -> Float:
        return np.full(X.shape[1], np.inf)

    def pair_entries(self, X1: Float, X2: Float) -> Pair:
        shape = np.broadcast_shapes(X1.shape[:2], X2.shape[:2])
        return np.full(shape, self.variance), np.zeros(shape)

    def pair_error(self, reach: Float) -> float:
        return 0.0

    def entry_errors(self, X: Float, K: Float) -> Float:
        return np.zeros_like(K)

    def entry_bound(self, X: Float, Z: Float) -> tuple[float, float]:
        return 0.0, self.variance

    def value_bound(self, reach: Float) -> tuple[float, float]:
        return 0.0, self.variance

    def polynomial(self, dim: int) -> tuple[float, Float, int]:
        return self.variance, np.zeros(0), 1

    @property
    def expression(self) -> Expression | None:
        return Leaf("variance", "0.0", (Scalar("variance", self.variance, "k"),))

    @property
    def parameter_names(self) -> tuple[str, ...]:
        return ("variance",)

    @property
    def log_parameters(self) -> Float:
        return np.log(np.array([self.variance]))

    def with_log_parameters(self, values: ArrayLike) -> Constant:
        return Constant(*exponentials(as_log_parameters(values, self.parameter_names), self.parameter_names))

    def pull(self, X1: Array, X2: Array, cotangent: Array, value: Array | None = None) -> tuple[Float, Array]:
        total = self.variance * float(cotangent.sum())
        return np.array([total]), namespace(X2).zeros(X2.shape)

    def pull_diag(self, X: Array, cotangent: Array) -> Float:
        return np.array([self.variance * float(cotangent.sum())])
