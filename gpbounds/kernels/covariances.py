"""A kernel between chunks of rows and fixed points: values, and derivatives summed over the chunks of a pass.

Where the kernel has a formula for a GPU and the points are there, `gpbounds.kernels.fused` computes both, with one
launch each and without reads; otherwise the methods of the kernel do.  Rows have been checked before.
"""

from __future__ import annotations

import numpy as np

from gpbounds.arrays import Array, Float, namespace
from gpbounds.kernels import fused
from gpbounds.kernels.base import Kernel
from gpbounds.readings import Unread, read


class Covariances:
    """k(·, Z) by the methods of the kernel.

    Attributes
    ----------
    kernel : Kernel
    Z : array (M, D)
    """

    def __init__(self, kernel: Kernel, Z: Array) -> None:
        self.kernel, self.Z = kernel, Z

    def fill(self, X: Array, out: Array) -> Array:
        """k(X, Z) written into ``out`` (n, M)."""
        return self.kernel.fill(X, self.Z, out)

    def fill_products(self, X: Array, out: Array) -> Array:
        """As `fill`, but faster: see `Kernel.fill_products`."""
        return self.kernel.fill_products(X, self.Z, out)

    def diag(self, X: Array) -> Array:
        """k(x, x) (n,)."""
        return self.kernel.diag(X)

    def pulling(self) -> _Pulling:
        """A new pull-back, with sums of 0."""
        return _Pulling(self.kernel, self.Z)


class _Pulling:
    """Sums derivatives of Σ_ij C_ij k(x_i, z_j) over chunks of rows; cotangents are overwritten."""

    def __init__(self, kernel: Kernel, Z: Array) -> None:
        self.kernel, self.Z = kernel, Z
        self.parameters = np.zeros(kernel.log_parameters.size)
        self.moved = namespace(Z).zeros(Z.shape)

    def add(self, X: Array, cotangent: Array, K: Array | None = None) -> None:
        """Add the cotangent C (n, M) of k(X, Z) = ``K``."""
        self._add(*self.kernel.pull(X, self.Z, cotangent, K))

    def add_rows(self, X: Array, Y: Array, weights: Array, a: Array, b: Array, K: Array) -> None:
        """Add the cotangent C_ij = s_i Y_ij + a_i b_j, s = ``weights``."""
        self._add(*self.kernel.pull_rows(X, self.Z, Y, weights, a, b, K))

    def add_block(self, X: Array, cotangent: Array, K: Array | None = None) -> None:
        """Add the symmetric cotangent (n, n) of k(X, X) = ``K``; X is not among the parameters."""
        self.parameters += self.kernel.pull(X, X, cotangent, K)[0]

    def add_diagonal(self, X: Array, cotangent: Array) -> None:
        """Add the cotangent (n,) of k(x, x)."""
        self.parameters += self.kernel.pull_diag(X, cotangent)

    def _add(self, parameters: Float, moved: Array) -> None:
        self.parameters += parameters
        self.moved += moved

    def result(self) -> tuple[Float, Array]:
        """Derivatives in the kernel's `log_parameters` (p,) and in Z (M, D)."""
        return self.parameters, self.moved


def pull(kernel: Kernel, X1: Array, X2: Array, cotangent: Array, K: Array | None = None) -> tuple[Float, Array]:
    """As `Kernel.pull` for checked points, on a GPU with one launch."""
    pulling = covariances(kernel, X2).pulling()
    if isinstance(pulling, _Pulling):
        return kernel.pull(X1, X2, cotangent, K)
    pulling.add(X1, cotangent)
    parameters, moved = pulling.result()
    return read(parameters), moved


def pull_both(
    known: Covariances | fused.Fused, rows: slice, cotangent: Array, K: Array
) -> tuple[Float | Unread, Array, Array]:
    """As `Kernel.pull_both` for some rows of Z and all of Z, where ``known`` is k(·, Z).

    A GPU, which takes all rows, does it with two launches, and all results stay there.
    """
    Z = known.Z
    if isinstance(known, Covariances):
        return known.kernel.pull_both(Z[rows], Z, cotangent, K)
    if rows != slice(0, int(Z.shape[0])):
        raise ValueError(f"rows: expected all {Z.shape[0]} on a GPU, got {rows}")
    first, second = known.pulling(), known.pulling()
    first.add(Z, namespace(K).ascontiguousarray(cotangent.T))
    second.add(Z, cotangent)
    return *second.result(), first.result()[1]


def covariances(kernel: Kernel, Z: Array) -> Covariances | fused.Fused:
    """k(·, Z) for chunks of rows on the device of ``Z`` (M, D).

    >>> from gpbounds.kernels import SquaredExponential
    >>> covariances(SquaredExponential(), np.zeros((1, 1))).fill(np.array([[0.0], [2.0]]), np.empty((2, 1))).round(4)
    array([[1.    ],
           [0.1353]])
    """
    on_device = namespace(Z) is not np and kernel.expression is not None
    return fused.Fused(kernel, Z) if on_device else Covariances(kernel, Z)
