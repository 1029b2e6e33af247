"""What a covariance function is: a matrix, its diagonal, and the largest value k(x, x) takes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from gpbounds.arrays import Array, Float, as_points, namespace
from gpbounds.kernels.distances import squared_distances
from gpbounds.validation import positive


class Kernel(ABC):
    """A positive semi-definite function k(x, x') on R^D.

    Kernels add and multiply: ``k1 + k2``, ``k1 * k2``.
    """

    @abstractmethod
    def __call__(self, X1: ArrayLike | Array, X2: ArrayLike | Array | None = None) -> Array:
        """The matrix k(x_i, x_j), shape (N, M), for X1 (N, D) and X2 (M, D); X2 = X1 when it is left out."""

    @abstractmethod
    def diag(self, X: ArrayLike | Array) -> Array:
        """k(x_i, x_i) for the rows of X (N, D); shape (N,)."""

    @property
    @abstractmethod
    def max_variance(self) -> float:
        """v = sup_x k(x, x), in squared units of y."""

    def __add__(self, other: Kernel) -> Kernel:
        return Sum(self, other) if isinstance(other, Kernel) else NotImplemented

    def __mul__(self, other: Kernel) -> Kernel:
        return Product(self, other) if isinstance(other, Kernel) else NotImplemented


@dataclass(frozen=True)
class Sum(Kernel):
    """k1 + k2."""

    k1: Kernel
    k2: Kernel

    def __call__(self, X1: ArrayLike | Array, X2: ArrayLike | Array | None = None) -> Array:
        return self.k1(X1, X2) + self.k2(X1, X2)

    def diag(self, X: ArrayLike | Array) -> Array:
        return self.k1.diag(X) + self.k2.diag(X)

    @property
    def max_variance(self) -> float:
        return self.k1.max_variance + self.k2.max_variance


@dataclass(frozen=True)
class Product(Kernel):
    """k1 · k2, elementwise (Schur product)."""

    k1: Kernel
    k2: Kernel

    def __call__(self, X1: ArrayLike | Array, X2: ArrayLike | Array | None = None) -> Array:
        return self.k1(X1, X2) * self.k2(X1, X2)

    def diag(self, X: ArrayLike | Array) -> Array:
        return self.k1.diag(X) * self.k2.diag(X)

    @property
    def max_variance(self) -> float:
        return self.k1.max_variance * self.k2.max_variance


@dataclass(frozen=True, eq=False)
class Stationary(Kernel):
    """k(x, x') = variance · ρ(r), r² = Σ_d (x_d - x'_d)² / lengthscale_d².

    Parameters
    ----------
    variance : float
        k(x, x), in squared units of y.
    lengthscale : float or array (D,)
        In the units of x, the same for all dimensions or one each.
    """

    variance: float = 1.0
    lengthscale: ArrayLike = 1.0

    def __post_init__(self) -> None:
        variance, lengthscale = positive("variance", self.variance), positive("lengthscale", self.lengthscale)
        if variance.ndim:
            raise ValueError(f"variance: expected one number, got shape {variance.shape}")
        if lengthscale.ndim > 1 or lengthscale.size == 0:
            raise ValueError(f"lengthscale: expected a number or one per dimension, got shape {lengthscale.shape}")
        object.__setattr__(self, "variance", float(variance))
        object.__setattr__(self, "lengthscale", float(lengthscale) if lengthscale.ndim == 0 else lengthscale)

    @cached_property
    def dim(self) -> int | None:
        """Number of dimensions when there is a lengthscale for each, None when one serves them all."""
        lengthscale = np.asarray(self.lengthscale)
        return lengthscale.size if lengthscale.ndim else None

    def lengthscales(self, dim: int) -> Float:
        """One lengthscale per dimension; raises ``ValueError`` when the kernel has another number of them."""
        if self.dim not in (None, dim):
            raise ValueError(f"expected inputs with {self.dim} dimension(s), one per lengthscale, got {dim}")
        return np.broadcast_to(np.asarray(self.lengthscale, dtype=np.float64), (dim,))

    @abstractmethod
    def correlation(self, squared: Array) -> Array:
        """ρ as a function of r² (any shape)."""

    def _scaled(self, X: ArrayLike | Array, name: str) -> Array:
        points = as_points(X, name)
        xp = namespace(points)
        return points / xp.asarray(self.lengthscales(points.shape[1]), dtype=points.dtype)

    def __call__(self, X1: ArrayLike | Array, X2: ArrayLike | Array | None = None) -> Array:
        left = self._scaled(X1, "X1")
        right = left if X2 is None else self._scaled(X2, "X2")
        if left.shape[1] != right.shape[1]:
            raise ValueError(f"expected X1 and X2 with equally many columns, got {left.shape} and {right.shape}")
        return self.variance * self.correlation(squared_distances(left, right))

    def diag(self, X: ArrayLike | Array) -> Array:
        points = self._scaled(X, "X")
        return namespace(points).full(points.shape[0], self.variance, dtype=points.dtype)

    @property
    def max_variance(self) -> float:
        return self.variance

    def _key(self) -> tuple[object, ...]:
        return type(self), self.variance, tuple(np.atleast_1d(np.asarray(self.lengthscale))), self.dim

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stationary) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())
