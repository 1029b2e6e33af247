"""Features of rows, with Q = VVᵀ as low-rank approximation of K, and the pull-back of derivatives through them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from fitting.objectives.point import Gradient, require_finite
from gpbounds.arrays import Array, Float, is_cupy, namespace
from gpbounds.kernels import Kernel
from gpbounds.kernels.covariances import Covariances, covariances
from gpbounds.kernels.fused import Fused
from gpbounds.linalg import Jitter
from gpbounds.linalg.parallel import ENTRY, share
from gpbounds.linalg.products import product
from gpbounds.linalg.psd import cholesky_unread
from gpbounds.linalg.triangular import inverse_factor, lift_rows, mirrored, multiply_rows, solve_rows
from gpbounds.once import cached_property
from gpbounds.readings import Readings, Unread, taken
from gpbounds.rows.program import Statistics
from gpbounds.whitening import Inducing, Residuals, inducing, residual_diagonal, slices


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
        scaled: dict[str, Array] = {}
        for name, block in (("Z", self.Z), ("weights", self.weights)):
            if not isinstance(block, float):
                scaled[name] = namespace(block).multiply(block, scale, out=block if overwrite else None)
        on_device = {name: readings.take(block.sum()) for name, block in (scaled | law).items() if is_cupy(block)}
        kernel = taken(self.kernel, readings)
        gradient = Gradient(scale * kernel(), likelihood(), **scaled, **law, checked=bool(on_device))
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
    def dtype(self) -> Any:
        """The precision of the features, of their products, and of what is pulled back for a chunk."""
        return np.float64

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


# Inducing points as a basis: v(x) = L⁻¹k(Z, x), L Lᵀ = Kuu + jitter·I, so that Q = Kfu Kuu⁻¹Kuf.
#
# With C the cotangent of Kuf, V̄ that of V and d̄ that of the diagonal of Kff:
#
#     C = L⁻ᵀV̄,    K̄uu = −½ L⁻ᵀ Φ L⁻¹,    Φ the symmetric matrix with the lower triangle of V̄Vᵀ,
#
# since L̄ = −tril(L⁻ᵀV̄Vᵀ), and the pull-back of a Cholesky factor depends only on tril(LᵀL̄) = −tril(V̄Vᵀ).

TAME = 1e5
"""Largest |L|·|L⁻¹| (Frobenius norms) for which V = L⁻¹Kuf is computed as a product with L⁻¹.  Measured errors of the
diagonal of Q, relative to the variance: below 2e-13 up to this limit; at 1e7, 2e-11, where a solve has an error of
1e-12."""

GENTLE = 100.0
"""Largest κ = |L|·|L⁻¹|/M for which features in single precision are harmless where rows are random.  Measured errors
of derivatives in Z are 2e-6·κ² of their size; those of two batches of 8·M rows lie .45 or more apart
(`benchmarks/README.md`, "Random rows first")."""

TINY, MOST = 1e-15, 1e-3
"""Entries of L⁻¹ below TINY of a typical one, and the share of them up to which rows may be in single precision: more
products of tiny numbers would be denormal, which take a hundred times as long."""

ROWS = 256
"""Rows of the cotangent of Kuu that a lane pulls back at a time."""


@dataclass(frozen=True, eq=False)
class InducingBasis(Basis):
    """The features of M inducing points.

    Attributes
    ----------
    kernel : Kernel
    Z : array (M, D)
        Checked float64 points.
    jitter : float or "auto"
        Added to the diagonal of Kuu.
    relative_jitter : float
        If positive, the jitter is relative_jitter·k(z, z), and derivatives include it; 0 for a constant jitter.
    single_precision : bool
        Whether features on a CPU are in single precision where |L|·|L⁻¹|/M ≤ `GENTLE`, and few entries are `TINY`.

    >>> from gpbounds.kernels import SquaredExponential
    >>> basis = InducingBasis(SquaredExponential(), np.array([[0.0], [2.0]]))
    >>> X, K, V = np.array([[0.0], [1.0], [2.0]]), np.empty((3, 2)), np.empty((3, 2))
    >>> basis.fill(X, K, V)
    >>> basis.residual(X, V).round(4) + 0.0
    array([0.    , 0.3519, 0.    ])
    """

    kernel: Kernel
    Z: Array
    jitter: Jitter = "auto"
    relative_jitter: float = 0.0
    single_precision: bool = False

    @property
    def rank(self) -> int:
        return int(self.Z.shape[0])

    @property
    def width(self) -> int:
        return int(self.Z.shape[0])

    @cached_property
    def inducing(self) -> Inducing:
        """The kernel, Z and L; raises `NotPositiveDefinite` where Kuu does not factorise, on a GPU when it is read."""
        if isinstance(self.covariances, Fused) and self.jitter != "auto":
            Kuu = self.covariances.matrix(self.Z)
            return Inducing(self.kernel, self.Z, cholesky_unread(Kuu, self.jitter, "Kuu", self.readings))
        return inducing(self.kernel, self.Z, self.jitter)

    @cached_property
    def inverse(self) -> Array | None:
        """L⁻¹ if |L|·|L⁻¹| ≤ `TAME`, so that multiplying is as accurate as solving, and faster; otherwise None."""
        L = self.inducing.chol.L
        inverse_of_L = inverse_factor(L, checked=True)  # Cholesky factors have been tested, or will be now
        return inverse_of_L if tame(L, inverse_of_L, self.readings) else None

    @cached_property
    def single_inverse(self) -> Array | None:
        """L⁻¹ in single precision if features are, otherwise None."""
        if not self.single_precision or namespace(self.Z) is not np or self.inverse is None:
            return None
        L = self.inducing.chol.L
        sizes = np.abs(self.inverse) * float(L[0, 0])
        has_few_tiny = np.count_nonzero((sizes > 0.0) & (sizes < TINY)) <= MOST * sizes.size
        gentle = has_few_tiny and tame(L, self.inverse, self.readings, GENTLE * self.rank)
        return self.inverse.astype(np.float32) if gentle else None

    @property
    def dtype(self) -> Any:
        return np.float64 if self.single_inverse is None else np.float32

    @cached_property
    def covariances(self) -> Covariances | Fused:
        """k(·, Z) for chunks of rows, on their device."""
        return covariances(self.kernel, self.Z)

    @cached_property
    def _residuals(self) -> Residuals | None:
        """For kernels that are constant on the diagonal, on a GPU."""
        known = self.covariances
        return Residuals(known.variance, self.readings) if isinstance(known, Fused) and known.is_constant else None

    def prepare(self) -> None:
        self.single_inverse  # noqa: B018
        self.inverse  # noqa: B018

    def fill(self, X: Array, K: Array, V: Array) -> None:
        self.covariances.fill(X, K)
        if self.inverse is None or namespace(V) is np:
            V[...] = K
            self.whiten(V)
        else:
            product(K, self.inverse.T, V)

    def residual(self, X: Array, V: Array) -> Array:
        if self._residuals is None:
            return residual_diagonal(self.kernel.diag(X), V.T)
        return self._residuals.of(V)

    def require(self) -> None:
        if self._residuals is not None:
            self._residuals.require()

    def whiten(self, B: Array) -> Array:
        """Overwrite the rows b of a chunk ``B`` (n, M) with L⁻¹b."""
        if self.single_inverse is not None and B.dtype == np.float32:
            return multiply_rows(self.single_inverse, B, whole=True)
        return (
            solve_rows(self.inducing.chol.L, B) if self.inverse is None else multiply_rows(self.inverse, B, whole=True)
        )

    def lift(self, B: Array, *, whole: bool = False) -> Array:
        """L⁻ᵀb for the rows b of ``B`` (n, M), which is overwritten on a CPU; ``whole`` if it is a lane's chunk."""
        L = self.inducing.chol.L
        if namespace(B) is not np and self.inverse is not None:
            return B @ self.inverse
        return lift_rows(L, B) if self.inverse is None else multiply_rows(self.inverse, B, transposed=True, whole=whole)

    def pull_back(self, memory: Callable[[int], Float] = np.zeros) -> InducingPullBack:
        return InducingPullBack(self)

    def finish(self, pulled: Pulled, outer: Array) -> Pulled:
        xp, Z = namespace(outer), self.Z
        half = self.lift(mirrored(outer.T))  # rows: (L⁻ᵀΦ)ᵀ = ΦL⁻¹
        half *= -0.5
        Kuu_bar = self.lift(xp.ascontiguousarray(half.T))
        own, shift = None, None
        if self.relative_jitter:  # before pulling, which overwrites Kuu_bar
            own, shift = self.pull_largest(self.relative_jitter * Kuu_bar.trace())
        parts = list(slices(self.rank, ROWS)) if xp is np else [slice(0, self.rank)]
        results: list[Any] = [None] * len(parts)

        def pull(number: int, worker: int) -> None:
            rows, pulling = parts[number], self.covariances.pulling()
            pulling.add(Z[rows], Kuu_bar[rows])
            results[number] = pulling.result()

        share(len(parts), pull, flops=ENTRY * self.rank**2)
        for parameters, moved in results:
            pulled += Pulled(parameters, 2.0 * moved)
        if own is not None:
            pulled += Pulled(own, 0.0 if shift is None else shift)
        return pulled

    def pull_largest(self, weight: Array) -> tuple[Any, Array | None]:
        """As `Kernel.pull_largest` at Z, without a read on a GPU where k(x, x) is constant."""
        if isinstance(self.covariances, Fused) and self.covariances.is_constant:
            return self.covariances.pull_variance(weight), None
        return self.kernel.pull_largest(self.Z, float(weight))


def tame(L: Array, inverse: Array, readings: Readings, most: float | None = None) -> bool:
    """Whether |L|·|L⁻¹| ≤ ``most``, by default `TAME`, for a factor and its computed inverse."""
    norm = namespace(L).linalg.norm
    sizes = [readings.take(norm(each)) for each in (inverse, L)]
    return float(sizes[0]) * float(sizes[1]) <= (TAME if most is None else most)


class InducingPullBack(PullBack):
    """Sums pulled-back cotangents of k(X, Z), of the diagonal of Kff and of blocks of Kff."""

    def __init__(self, basis: InducingBasis) -> None:
        self.basis, self.sums = basis, basis.covariances.pulling()

    def features(self, X: Array, cotangent: Array, K: Array, V: Array) -> None:
        self.lifted(X, self.basis.lift(cotangent, whole=True), K, V)

    def lifted(self, X: Array, cotangent: Array, K: Array, V: Array) -> None:
        self.sums.add(X, cotangent, K)

    def rows(self, X: Array, Y: Array, weights: Array, a: Array, b: Array, K: Array) -> None:
        """Add the cotangent s_i Y_ij + a_i b_j of k(X, Z) = ``K``, s = ``weights``; ``Y`` is overwritten."""
        self.sums.add_rows(X, Y, weights, a, b, K)

    def diagonal(self, X: Array, cotangent: Array) -> None:
        self.sums.add_diagonal(X, cotangent)

    def block(self, X: Array, cotangent: Array, K: Array) -> None:
        """Add the symmetric cotangent (n, n) of k(X, X) = ``K``; it is overwritten."""
        self.sums.add_block(X, cotangent, K)

    def statistics(self) -> Pulled:
        return Pulled(*self.sums.result())
