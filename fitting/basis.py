"""Features of rows: what a low-rank approximation Q = VVᵀ of K is made of, and the way back for derivatives."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

from fitting.statistics import Statistics
from gpbounds.arrays import Array, Float


@dataclass(frozen=True, eq=False)
class Pulled(Statistics):
    """Derivatives in the parameters of a basis.

    Attributes
    ----------
    kernel : array (p,)
        In the kernel's `log_parameters`.
    Z : array (M, D)
        In the inducing inputs.
    """

    kernel: Float
    Z: Array


class PullBack(ABC):
    """Collects the cotangents of the features of chunks; one object a lane."""

    @abstractmethod
    def features(self, X: Array, cotangent: Array, K: Array) -> None:
        """V̄ (n, M), of the features V of X; it is overwritten.  ``K`` is what `Basis.fill` left."""

    @abstractmethod
    def lifted(self, X: Array, cotangent: Array, K: Array) -> None:
        """The same, already through `Basis.lift`; it is overwritten."""

    @abstractmethod
    def diagonal(self, X: Array, cotangent: Array) -> None:
        """d̄ (n,), of k(x, x)."""

    @abstractmethod
    def statistics(self) -> Pulled:
        """What has been collected."""


class Basis(ABC):
    """A map from rows x to features v(x) in R^M, with Q = VVᵀ.

    Rows of data are rows of arrays: V is (n, M), C-contiguous.
    """

    @property
    @abstractmethod
    def rank(self) -> int:
        """M, the number of features."""

    @property
    @abstractmethod
    def width(self) -> int:
        """How many numbers a row the pull-back needs again, besides the features."""

    def prepare(self) -> None:  # noqa: B027  (nothing, for most)
        """Compute, once, what several lanes are about to read."""

    @abstractmethod
    def fill(self, X: Array, K: Array, V: Array) -> None:
        """Write the features of X (n, D) into ``V`` (n, M), and what the pull-back needs into ``K`` (n, width)."""

    @abstractmethod
    def residual(self, X: Array, V: Array) -> Array:
        """The diagonal of K − Q (n,), not negative: what the features leave of k(x, x)."""

    @abstractmethod
    def lift(self, B: Array) -> Array:
        """Overwrite the rows of ``B`` (n, M), cotangents of features, with those of the functions they are made of."""

    @abstractmethod
    def pull_back(self) -> PullBack:
        """A collector, with nothing in it."""

    @abstractmethod
    def finish(self, pulled: Pulled, outer: Array) -> Pulled:
        """All derivatives, from what all lanes have collected and V̄ᵀV (M, M) summed over all rows."""
