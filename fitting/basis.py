"""Features of rows, with Q = VVᵀ as low-rank approximation of K, and the pull-back of derivatives through them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from fitting.evaluation import Gradient, require_finite
from gpbounds.arrays import Array, Float, is_cupy, namespace
from gpbounds.mapreduce.statistics import Statistics
from gpbounds.readings import Readings, Unread, taken


@dataclass(frozen=True, eq=False)
class Pulled(Statistics):
    """Derivatives in the parameters of a basis.

    Attributes
    ----------
    kernel : array (p,) or Unread
        Derivatives in the kernel's `log_parameters`, in host memory, or on a GPU and not read yet.
    Z : array (M, D), or 0
        Derivatives in the inducing inputs, if the basis has them.
    weights : array (p,), or 0
        Derivatives in the weights of a feature map, if the basis has them.
    """

    kernel: Float | Unread
    Z: Array | float = 0.0
    weights: Float | float = 0.0

    def gradient(
        self,
        likelihood: Callable[[], Float],
        readings: Readings,
        *,
        scale: float = 1.0,
        overwrite: bool = False,
        **law: Array,
    ) -> Gradient:
        """``scale`` times these derivatives, with those in the likelihood and in the mean and factor of a free law.

        ``likelihood`` is called when ``readings``, from which it may take numbers, have been read.  With ``overwrite``
        the result takes the memory of Z and of the weights.
        """
        own: dict[str, Array] = {}
        for name, block in (("Z", self.Z), ("weights", self.weights)):
            if not isinstance(block, float):
                own[name] = namespace(block).multiply(block, scale, out=block if overwrite else None)
        on_device = {name: readings.take(block.sum()) for name, block in (own | law).items() if is_cupy(block)}
        kernel = taken(self.kernel, readings)
        gradient = Gradient(scale * kernel(), likelihood(), **own, **law, checked=bool(on_device))
        for name, total in on_device.items():
            require_finite(name, float(total))
        return gradient


class PullBack(ABC):
    """Sums the pulled-back cotangents of the features of chunks; every thread has its own object."""

    @abstractmethod
    def features(self, X: Array, cotangent: Array, K: Array, V: Array) -> None:
        """Add the cotangent V̄ (n, M) of the features of X, which is overwritten; `Basis.fill` has written K and V."""

    @abstractmethod
    def lifted(self, X: Array, cotangent: Array, K: Array, V: Array) -> None:
        """Add a cotangent to which `Basis.lift` has been applied already; it is overwritten."""

    @abstractmethod
    def diagonal(self, X: Array, cotangent: Array) -> None:
        """Add the cotangent d̄ (n,) of k(x, x)."""

    @abstractmethod
    def statistics(self) -> Pulled:
        """The sums so far."""


class Basis(ABC):
    """A map from rows x to features v(x) in R^M, with Q = VVᵀ.

    A row of data is a row of the array: V is (n, M), C-contiguous.
    """

    @property
    @abstractmethod
    def rank(self) -> int:
        """M, the number of features."""

    @property
    @abstractmethod
    def width(self) -> int:
        """The number of values per row that the pull-back needs besides the features."""

    @property
    def effort(self) -> int:
        """The number m for which a pass takes about m² flops per row; several lanes share passes that take long."""
        return self.rank

    @cached_property
    def readings(self) -> Readings:
        """The numbers of this basis, and of passes with it, that the host needs."""
        return Readings()

    @property
    def exact(self) -> bool:
        """Whether K = Q at all parameters, so that the residual is 0 and has no derivatives."""
        return False

    def prepare(self) -> None:  # noqa: B027  (most bases compute nothing)
        """Compute what several threads read later."""

    def require(self) -> None:  # noqa: B027  (most bases test every chunk at once)
        """Raise the errors of the chunks since the last call, on a GPU when `readings` are read."""

    @abstractmethod
    def fill(self, X: Array, K: Array, V: Array) -> None:
        """Write the features of X (n, D) into ``V`` (n, M), and into ``K`` (n, width) what the pull-back needs."""

    @abstractmethod
    def residual(self, X: Array, V: Array) -> Array:
        """The diagonal of K − Q (n,), which is not negative."""

    @abstractmethod
    def lift(self, B: Array) -> Array:
        """The cotangents of the functions k(z, ·) from those of features, the rows of ``B`` (n, M).

        The result may be in the memory of ``B``.
        """

    @abstractmethod
    def pull_back(self, memory: Callable[[int], Float] = np.zeros) -> PullBack:
        """A new pull-back, with sums of 0; ``memory`` makes a vector of zeros for many parameters."""

    @abstractmethod
    def finish(self, pulled: Pulled, outer: Array) -> Pulled:
        """All derivatives, from the sums of all threads and from V̄ᵀV (M, M) over all rows."""
