"""What the best of several draws is asked of: the data, the order, R and δ; and a law to draw from."""

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
    """The data and what is asked for; checked by who makes it.

    Attributes
    ----------
    kernel : Kernel
    X : array (N, D)
    groups : array (N,)
        A number for each row, the same for equal rows.
    M : int
    Y : array (N, P) or None
        Without it the trace stands for the objective.
    noise : float or None
        σ²; given with Y.
    alpha : float
        Order of the divergence.
    draws : int
        R.
    delta : float
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

        return with_jitter(with_amount, self.kernel, jitter)

    def without_jitter(self, Z: Float, order: float) -> Attained | None:
        """`attained` at jitter 0, or None where K_ZZ does not factorise."""
        try:
            return self.attained(Z, order, 0.0)
        except NotPositiveDefinite:
            return None


@dataclass(frozen=True, eq=False)
class Source:
    """A law of draws, and what is proved of the best of R before any is made.

    Attributes
    ----------
    law : str
        In words.
    draw : function of a Generator
        Row numbers (M,).
    before : Bound
        For exact arithmetic; inf where nothing is proved.
    order : float
        Order of the objective that is kept: α, or 1, where ``before`` is α times the bound of order 1.
    factor : float
        What a nat of the objective lost costs the bound: α where the objective of order 1 is kept, else 1.
    """

    law: str
    draw: Callable[[np.random.Generator], Indices]
    before: Bound
    order: float = 1.0
    factor: float = 1.0
