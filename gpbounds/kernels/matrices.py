"""Kernel matrices with proved errors for every kernel that has them: in 30 digits, or in double precision."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from gpbounds.arrays import Float
from gpbounds.errors import shown
from gpbounds.kernels.base import Kernel
from gpbounds.kernels.errors import entry_errors
from gpbounds.kernels.pairs import has_pairs, pair_covariances, pair_error, pair_variances
from gpbounds.numerics.pairs import Pair

UP = 1.0 + 1e-8
"""Allows for the rounding of norms and of sums of a few numbers."""
SMALLEST, LARGEST = 1e-100, 1e100
"""Between these variances no product in double-double numbers loses its low part by underflow."""


@dataclass(frozen=True, eq=False)
class EnclosedKernel:
    """Kernel matrices with proved errors; inputs and hyperparameters count as exact.

    `of` checks the kernel.  The errors are about 1e-30 of the variance for kernels with `has_pairs` (N-pairs), and
    those of `entry_errors` for others.

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
            raise ValueError(f"kernel: expected a variance between {SMALLEST:g} and {LARGEST:g}, got {shown(largest)}")
        return EnclosedKernel(kernel, has_pairs(kernel))

    def gram(self, X: Float) -> tuple[Pair, float]:
        """k(X, X) (n, n), symmetric, and a bound on the Frobenius norm of its error.

        >>> from gpbounds.kernels import SquaredExponential
        >>> (high, low), error = EnclosedKernel.of(SquaredExponential()).gram(np.array([[0.0], [1.0]]))
        >>> high.round(4).tolist(), error < 1e-29
        ([[1.0, 0.6065], [0.6065, 1.0]], True)
        """
        if self.pairs:
            self._require_products(X)
            return pair_covariances(self.kernel, X, X), UP * len(X) * pair_error(self.kernel, X)
        K = self.kernel(X)
        errors = entry_errors(self.kernel, X, K)
        return (K, np.zeros_like(K)), UP * math.sqrt(2.0) * float(np.linalg.norm(errors))

    def cross(self, X: Float, Z: Float) -> tuple[Pair, float]:
        """k(X, Z) (n, M), and a bound on the Euclidean norm of the error of each row."""
        if self.pairs:
            both = np.concatenate([X, Z])
            self._require_products(both)
            return pair_covariances(self.kernel, X, Z), UP * math.sqrt(len(Z)) * pair_error(self.kernel, both)
        both = np.concatenate([X, Z])
        K = self.kernel(both)
        errors = entry_errors(self.kernel, both, K)[: len(X), len(X) :]
        high = np.ascontiguousarray(K[: len(X), len(X) :])
        rows = np.sqrt((errors * errors).sum(axis=1))
        return (high, np.zeros_like(high)), UP * float(rows.max(initial=0.0)) + 1e-150

    def diagonal(self, X: Float) -> tuple[Pair, float]:
        """k(x, x) for the rows of X (n, D), and a bound on the error of each."""
        if self.pairs:
            self._require_products(X)
            return pair_variances(self.kernel, X), pair_error(self.kernel, X)
        K = self.kernel(X)
        errors = entry_errors(self.kernel, X, K).diagonal()
        return (K.diagonal().copy(), np.zeros(len(X))), float(errors.max(initial=0.0))

    def _require_products(self, X: Float) -> None:
        """Refuse rows at which values of a kernel without a largest variance could overflow in products."""
        if not math.isfinite(self.kernel.max_variance):
            with np.errstate(over="ignore"):
                largest = float(self.kernel.diag(X).max(initial=0.0))
            if not largest <= LARGEST:
                raise ValueError(
                    f"kernel: expected variances k(x, x) of at most {LARGEST:g} at the rows, got {shown(largest)}"
                )
