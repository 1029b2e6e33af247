"""The exact Gaussian process given N data: factor of K + σ²I, evidence, predictions.  O(N³) time, O(N²) memory.

Computations use only the lower triangle of the symmetric K, in chunks of rows [i, j) × [0, j).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from gpbounds.arrays import Array, namespace
from gpbounds.errors import NonFinite, NotPositiveDefinite
from gpbounds.kernels import Kernel
from gpbounds.linalg import Cholesky, cholesky
from gpbounds.linalg.parallel import ENTRY, share
from gpbounds.linalg.triangular import tiles
from gpbounds.linalg.workspace import Workspace
from gpbounds.once import cached_property
from gpbounds.small_variances import Given
from gpbounds.texts import in_one_line


@dataclass(frozen=True, eq=False)
class Triangle:
    """Chunks k(X[i:j], X[:j]) of the lower triangle of K, and memory for the factor of K + σ²I.

    Attributes
    ----------
    kernel : Kernel
    X : array (N, D)
    space : Workspace
        Buffers of 3N²/2 numbers; the next triangle can use the same workspace and then allocates nothing.
    """

    kernel: Kernel
    X: Array
    space: Workspace
    __repr__ = in_one_line

    @cached_property
    def parts(self) -> list[slice]:
        """The rows of each chunk; a GPU computes all rows at once."""
        N = int(self.X.shape[0])
        return tiles(N) if namespace(self.X) is np else [slice(0, N)]

    @cached_property
    def square(self) -> Array:
        """Memory for an N × N matrix."""
        N = self.X.shape[0]
        return self.space.array("square", (N, N), namespace(self.X))

    @cached_property
    def chunks(self) -> list[Array]:
        """Memory for the chunks of K, contiguous one after another."""
        sizes = [(rows.stop - rows.start) * rows.stop for rows in self.parts]
        whole, ends = self.space.array("K", (sum(sizes),), namespace(self.X)), np.cumsum(sizes)
        pieces = zip(self.parts, ends - sizes, ends, strict=True)
        return [whole[first:last].reshape(-1, rows.stop) for rows, first, last in pieces]

    def each(self, work: Callable[[int, slice, int], None], flops: float) -> None:
        """Call ``work(number, rows, worker)`` for every chunk, the longest first; ``flops`` as in `share`."""
        parts = self.parts
        self.chunks, self.square  # noqa: B018  (allocated once, before threads use them)

        def run(task: int, worker: int) -> None:
            number = len(parts) - 1 - task
            with np.errstate(over="ignore", invalid="ignore"):  # each thread has its own state
                work(number, parts[number], worker)

        share(len(parts), run, flops=flops)

    def factorise(self, noise: float) -> Cholesky:
        """Compute the chunks and factorise K + σ²I.

        Raises
        ------
        NotPositiveDefinite
            if σ² is below the rounding error of K.
        """
        sums = np.empty(len(self.parts))

        def fill(number: int, rows: slice, worker: int) -> None:
            K = self.kernel.fill(self.X[rows], self.X[: rows.stop], self.chunks[number])
            sums[number] = float(K.sum())
            self.square[rows, : rows.stop] = K

        self.each(fill, ENTRY * self.X.shape[0] ** 2 / 2.0)
        if not np.isfinite(sums.sum()):
            raise NonFinite("kernel: expected finite covariances, got NaN or infinity in K")
        self.square.reshape(-1)[:: self.X.shape[0] + 1] += noise
        return factor_noisy(self.square, noise)


def factor_of(kernel: Kernel, X: Array, *, noise: float) -> Cholesky:
    """The factor of K + σ²I, in 8N² bytes; `Triangle.factorise` keeps K as well.

    Raises
    ------
    NotPositiveDefinite
        if σ² is below the rounding error of K.
    """
    A = namespace(X).empty((X.shape[0], X.shape[0]))
    parts = tiles(int(X.shape[0]))

    def fill(task: int, worker: int) -> None:
        rows = parts[len(parts) - 1 - task]
        A[rows, : rows.stop] = kernel(X[rows], X[: rows.stop])

    share(len(parts), fill, flops=ENTRY * X.shape[0] ** 2 / 2.0)
    A.reshape(-1)[:: X.shape[0] + 1] += noise
    return factor_noisy(A, noise)


def factor_noisy(A: Array, noise: float) -> Cholesky:
    """The factor of A = K + σ²I, which may take the memory of ``A``.

    Raises
    ------
    NotPositiveDefinite
        which says whether σ² is below the rounding error of K, or K is not positive semi-definite.
    """
    largest, n = namespace(A).diagonal(A).max(), int(A.shape[0])
    try:
        return cholesky(A, name="K + σ²I", overwrite=True)
    except NotPositiveDefinite:
        rounding = n * n * 2.0**-53 * float(largest)
        reason = f"the noise is below the rounding error of K, about {rounding:.2g}. Use a larger noise variance."
        if noise > rounding:
            reason = (
                f"the rounding error of K, about {rounding:.2g}, is smaller, so the kernel is not positive "
                "semi-definite on these inputs. Use another kernel, or a larger noise variance."
            )
        raise NotPositiveDefinite(
            f"K + σ²I: expected a positive definite {n} x {n} matrix, but Cholesky fails at noise {noise:.3g}: {reason}"
        ) from None


@dataclass(frozen=True, eq=False)
class Exact:
    """A GP with Gaussian noise, conditioned on data (R-gp); `exact` creates it.

    Attributes
    ----------
    triangle : Triangle
        Chunks of K, the kernel and the inputs.
    Y : array (N, P)
        P outputs, independent given their common hyperparameters.
    noise : float
        σ².
    chol : Cholesky
        Factor of K + σ²I.
    """

    triangle: Triangle
    Y: Array
    noise: float
    chol: Cholesky
    __repr__ = in_one_line

    @property
    def log_evidence(self) -> float:
        """Σ_p log N(y_p; 0, K + σ²I)."""
        (N, P), half = self.Y.shape, self.chol.solve_lower(self.Y)
        return -0.5 * (P * (N * math.log(2.0 * math.pi) + self.chol.logdet) + float((half * half).sum()))

    @cached_property
    def weights(self) -> Array:
        """(K + σ²I)⁻¹Y (N, P)."""
        return self.chol.solve(self.Y)

    @cached_property
    def given(self) -> Given:
        """The rows as what variances are conditioned on."""
        return Given(self.triangle.kernel, self.triangle.X, self.noise, self.chol)

    def predict(self, X: Array, *, full_cov: bool = False) -> tuple[Array, Array]:
        """Latent means K_*f(K + σ²I)⁻¹Y (n, P) at X (n, D), and K_** − K_*f(K + σ²I)⁻¹K_f*, (n, n) or its diagonal.

        A variance whose rounding may exceed 2 % of it is computed anew: from features for kernels of finite rank, or in
        30 digits up to 1000 rows.  Where neither serves, a proved upper end is returned with a `RoundingWarning`
        (N-small).
        """
        cross = self.triangle.kernel(X, self.triangle.X)
        return cross @ self.weights, self.given.covariance(X, cross, full=full_cov)


def exact(kernel: Kernel, X: Array, Y: Array, *, noise: float, space: Workspace | None = None) -> Exact:
    """The exact GP for checked float64 arrays X (N, D), Y (N, P).

    Raises
    ------
    NotPositiveDefinite
        if σ² is below the rounding error of K.
    NonFinite
        if a covariance is not finite.

    >>> from gpbounds.kernels import SquaredExponential
    >>> X, Y = np.array([[0.0], [1.0], [2.0]]), np.array([[1.0], [0.5], [-0.5]])
    >>> round(exact(SquaredExponential(), X, Y, noise=0.1).log_evidence, 4)
    -3.2002
    """
    triangle = Triangle(kernel, X, Workspace() if space is None else space)
    return Exact(triangle, Y, noise, triangle.factorise(noise))
