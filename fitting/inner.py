"""The posterior of the whitened inducing variables: q(v) = N(A⁻¹b, A⁻¹), A = I + G, G = VD⁻¹Vᵀ, b = VD⁻¹Y."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from gpbounds.arrays import Array, Float, namespace
from gpbounds.linalg import Cholesky, cholesky
from gpbounds.linalg.triangular import inverse


@dataclass(frozen=True)
class Inner:
    """q(v), u = Lv.

    Attributes
    ----------
    G : array (M, M)
    chol : Cholesky
        Factor of A = I + G.
    mean : array (M, P)
        w = A⁻¹b.
    """

    G: Array
    chol: Cholesky
    mean: Array

    @cached_property
    def covariance(self) -> Array:
        """S = A⁻¹."""
        return inverse(self.chol.L)

    @cached_property
    def gained(self) -> Array:
        """I − S = SG, without the cancellation of the difference where the data say little."""
        return self.chol.solve(self.G)


def inner(G: Array, b: Array) -> Inner:
    """Factorise A = I + G and solve for the mean.

    >>> import numpy as np
    >>> found = inner(np.array([[3.0]]), np.array([[2.0]]))
    >>> found.mean, found.covariance, found.gained
    (array([[0.5]]), array([[0.25]]), array([[0.75]]))
    """
    chol = cholesky(G + namespace(G).eye(G.shape[0]), name="I + VD⁻¹Vᵀ")
    return Inner(G, chol, chol.solve(b))


@dataclass(frozen=True)
class Gradient:
    """Derivatives of an objective.

    Attributes
    ----------
    kernel : array (p,)
        In the kernel's `log_parameters`.
    noise : float
        In log σ².
    Z : array (M, D) or None
        In the inducing inputs; None where none were given.
    """

    kernel: Float
    noise: float
    Z: Array | None


@dataclass(frozen=True)
class Evaluation:
    """An objective's value, its derivatives if they were asked for, and the jitter that Kuu needed."""

    value: float
    gradient: Gradient | None
    jitter: float = 0.0
