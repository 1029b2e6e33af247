"""The problem of choosing the best of several draws: data, order, R and δ; and a law to draw from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from gpbounds.arrays import Float, Indices
from gpbounds.bound import Bound
from gpbounds.errors import NotPositiveDefinite
from gpbounds.kernels import Kernel
from gpbounds.linalg import Jitter
from gpbounds.renyi.attained import Attained, attained, negative_trace
from gpbounds.whitening import with_jitter


@dataclass(frozen=True, eq=False)
class Problem:
    """The data and the settings, already checked.

    Attributes
    ----------
    kernel : Kernel
    X : array (N, D)
    groups : array (N,)
        A number for each row, the same for equal rows.
    M : int
    Y : array (N, P) or None
        If None, −Tr(K − Q) takes the place of the objective.
    noise : float or None
        σ²; None if Y is None.
    alpha : float
        Order of the divergence.
    draws : int
        R; 1 if draws are made until one is proved to reach a level.
    delta : float
        Probability with which all R draws may be above the bound.
    """

    kernel: Kernel
    X: Float
    groups: Indices
    M: int
    Y: Float | None = None
    noise: float | None = None
    alpha: float = 1.0
    draws: int = 10
    delta: float = 0.05

    @cached_property
    def distinct(self) -> int:
        """Number of distinct rows."""
        return int(self.groups.max()) + 1

    def rows(self, picked: Indices, columns: Indices | slice) -> Float:
        """Rows of K."""
        return self.kernel(self.X[picked], self.X[columns])

    def attained(self, Z: Float, order: float, jitter: Jitter) -> Attained:
        """The objective of ``order`` at Z, or −Tr(K − Q) without Y."""

        def with_amount(amount: float) -> Attained:
            if self.Y is None:
                return negative_trace(self.kernel, self.X, Z, jitter=amount)
            assert self.noise is not None
            return attained(self.kernel, self.X, self.Y, Z, order, noise=self.noise, jitter=amount)

        return with_jitter(with_amount, self.kernel, Z, jitter)

    def without_jitter(self, Z: Float, order: float) -> Attained | None:
        """`attained` at jitter 0, or None if K_ZZ does not factorise."""
        try:
            return self.attained(Z, order, 0.0)
        except NotPositiveDefinite:
            return None


@dataclass(frozen=True, eq=False)
class Source:
    """A law of draws, and the bound that is proved for the best of R before any draw is made.

    Attributes
    ----------
    law : str
        In words.
    draw : function of a Generator
        Row numbers (M,).
    before : Bound
        For exact arithmetic; inf if nothing is proved.
    order : float
        Order of the objective that is compared: α, or 1 if ``before`` is α times the bound of order 1.
    factor : float
        The bound grows by this much for each nat of the objective that is lost: α if the order is 1, else 1.
    """

    law: str
    draw: Callable[[np.random.Generator], Indices]
    before: Bound
    order: float = 1.0
    factor: float = 1.0
