"""a·k + b·q as a kernel of rows (x, v), q = v·v': the covariances Ξ and I + (β/σ²)(K − Q) of the Rényi bound."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from gpbounds.arrays import Array, Float
from gpbounds.kernels import Kernel


@dataclass(frozen=True, eq=False)
class Mixture(Kernel):
    """a·k(x, x') + b·v·v' for rows [x, v] with x of ``dim`` entries; positive semi-definite where the caller knows it.

    `log_parameters` are those of k, and the logarithm of a factor of the whole covariance, which is 1.

    Attributes
    ----------
    kernel : Kernel
        k.
    dim : int
    own, shared : float
        a and b.

    >>> from gpbounds.kernels import SquaredExponential
    >>> rows = np.array([[0.0, 0.5], [1.0, 0.5]])
    >>> Mixture(SquaredExponential(), 1, 2.0, -1.0)(rows).round(4)
    array([[1.75  , 0.9631],
           [0.9631, 1.75  ]])
    """

    kernel: Kernel
    dim: int
    own: float
    shared: float

    def __call__(self, X1: ArrayLike | Array, X2: ArrayLike | Array | None = None) -> Array:
        first: Any = X1
        second: Any = X1 if X2 is None else X2
        K = self.kernel(first[:, : self.dim], second[:, : self.dim])
        K *= self.own
        K += (self.shared * first[:, self.dim :]) @ second[:, self.dim :].T
        return K

    def diag(self, X: ArrayLike | Array) -> Array:
        rows: Any = X
        v = rows[:, self.dim :]
        return self.own * self.kernel.diag(rows[:, : self.dim]) + self.shared * (v * v).sum(axis=1)

    @property
    def max_variance(self) -> float:
        return (self.own + max(self.shared, 0.0)) * self.kernel.max_variance

    @property
    def parameter_names(self) -> tuple[str, ...]:
        return (*self.kernel.parameter_names, "factor")

    @property
    def log_parameters(self) -> Float:
        return np.append(self.kernel.log_parameters, 0.0)

    def pull(self, X1: Array, X2: Array, cotangent: Array, value: Array | None = None) -> tuple[Float, Array]:
        whole = float(((self(X1, X2) if value is None else value) * cotangent).sum())
        parameters, moved = self.kernel.pull(X1[:, : self.dim], X2[:, : self.dim], cotangent)
        return np.append(self.own * parameters, whole), moved
