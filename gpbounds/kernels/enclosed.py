"""Kernel matrices with proved errors for every kernel that has them: in 30 digits, or in double precision."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from gpbounds.arrays import Float
from gpbounds.kernels.base import Kernel, OnColumns, Product, Sum
from gpbounds.kernels.pairs import has_pairs, pair_covariances, pair_error, pair_variances
from gpbounds.kernels.rounding import entry_errors
from gpbounds.kernels.stationary import Stationary
from gpbounds.numerics.pairs import Pair

UP = 1.0 + 1e-8
"""Allows for the rounding of norms and of sums of a few numbers."""
SMALLEST, LARGEST = 1e-100, 1e100
"""Between these variances no product in double-double numbers loses its low part by underflow."""


@dataclass(frozen=True, eq=False)
class EnclosedKernel:
    """The matrices of a kernel as a certificate defines it: of the doubles x_d/lengthscale_d where it is stationary.

    `of` checks the kernel.  Kernels with `has_pairs` have errors of about 1e-30 of the variance (N-pairs), the others
    those of `entry_errors`.

    Attributes
    ----------
    kernel : Kernel
    pairs : bool
    """

    kernel: Kernel
    pairs: bool

    @staticmethod
    def of(kernel: Kernel) -> EnclosedKernel:
        """The enclosed form of ``kernel``.

        Raises
        ------
        ValueError
            for a variance outside 1e-100 … 1e100; other kernels are refused when a matrix is asked for.
        """
        largest = kernel.max_variance
        if math.isfinite(largest) and not SMALLEST <= largest <= LARGEST:
            raise ValueError(f"kernel: expected a variance between {SMALLEST:g} and {LARGEST:g}, got {largest!r}")
        return EnclosedKernel(kernel, has_pairs(kernel))

    def gram(self, X: Float) -> tuple[Pair, float]:
        """k(X, X) (n, n), symmetric, and a bound on the Frobenius norm of its error.

        >>> from gpbounds.kernels import SquaredExponential
        >>> (high, low), error = EnclosedKernel.of(SquaredExponential()).gram(np.array([[0.0], [1.0]]))
        >>> high.round(4).tolist(), error < 1e-29
        ([[1.0, 0.6065], [0.6065, 1.0]], True)
        """
        if self.pairs:
            kernel, points = self._scaled(X)
            return pair_covariances(kernel, points, points), UP * len(X) * pair_error(kernel, points)
        K = self.kernel(X)
        errors = entry_errors(self.kernel, X, K)
        return (K, np.zeros_like(K)), UP * math.sqrt(2.0) * float(np.linalg.norm(errors))

    def cross(self, X: Float, Z: Float) -> tuple[Pair, float]:
        """k(X, Z) (n, M), and a bound on the Euclidean norm of the error of each row."""
        if self.pairs:
            kernel, points = self._scaled(X)
            _, centres = self._scaled(Z)
            error = UP * math.sqrt(len(Z)) * pair_error(kernel, np.concatenate([points, centres]))
            return pair_covariances(kernel, points, centres), error
        both = np.concatenate([X, Z])
        K = self.kernel(both)
        errors = entry_errors(self.kernel, both, K)[: len(X), len(X) :]
        high = np.ascontiguousarray(K[: len(X), len(X) :])
        rows = np.sqrt((errors * errors).sum(axis=1))
        return (high, np.zeros_like(high)), UP * float(rows.max(initial=0.0)) + 1e-150

    def diagonal(self, X: Float) -> tuple[Pair, float]:
        """k(x, x) for the rows of X (n, D), and a bound on the error of each."""
        if self.pairs:
            kernel, points = self._scaled(X)
            return pair_variances(kernel, points), pair_error(kernel, points)
        K = self.kernel(X)
        errors = entry_errors(self.kernel, X, K).diagonal()
        return (K.diagonal().copy(), np.zeros(len(X))), float(errors.max(initial=0.0))

    def _scaled(self, X: Float) -> tuple[Kernel, Float]:
        """`scaled`; an error where values of a kernel without a largest variance could overflow in products."""
        if not math.isfinite(self.kernel.max_variance):
            with np.errstate(over="ignore"):
                largest = float(self.kernel.diag(X).max(initial=0.0))
            if not largest <= LARGEST:
                raise ValueError(
                    f"kernel: expected variances k(x, x) of at most {LARGEST:g} at the rows, got {largest!r}"
                )
        return scaled(self.kernel, X)


def scaled(kernel: Kernel, X: Float) -> tuple[Kernel, Float]:
    """A kernel of lengthscales 1 and inputs such that it is ``kernel`` as a function of the doubles x_d/lengthscale_d.

    The columns of the new inputs are those of each part of a sum or a product, one part after the other.

    >>> from gpbounds.kernels import SquaredExponential
    >>> kernel, points = scaled(SquaredExponential(2.0, 3.0) + SquaredExponential(1.0, 2.0), np.array([[1.0]]))
    >>> points.tolist()
    [[0.3333333333333333, 0.5]]
    """
    if isinstance(kernel, Sum | Product):
        first, left = scaled(kernel.k1, X)
        second, right = scaled(kernel.k2, X)
        middle, end = left.shape[1], left.shape[1] + right.shape[1]
        parts = OnColumns(first, range(middle)), OnColumns(second, range(middle, end))
        return type(kernel)(*parts), np.concatenate([left, right], axis=1)
    if isinstance(kernel, OnColumns):
        return scaled(kernel.kernel, kernel.chosen(X))
    if isinstance(kernel, Stationary):
        return replace(kernel, lengthscale=1.0), X / kernel.lengthscales(X.shape[1])
    return kernel, X
