"""The exact Gaussian process given N data: K + σ²I factorised, its evidence and its predictions.  O(N³), O(N²) memory.

Of the symmetric K only the lower triangle is worked on, by chunks of rows [i, j) × [0, j).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from gpbounds.arrays import Array, namespace
from gpbounds.errors import NonFinite
from gpbounds.kernels import Kernel
from gpbounds.linalg import Cholesky, cholesky
from gpbounds.linalg.parallel import share, threads
from gpbounds.linalg.workspace import Workspace
from gpbounds.whitening import residual_diagonal, slices

ROWS = 128
"""Rows of K at a time on a CPU: they stay in its cache.  On a GPU all are taken at once."""


@dataclass(frozen=True, eq=False)
class Triangle:
    """K by chunks of rows, each up to its last column: k(X[i:j], X[:j]), and where K + σ²I is factorised.

    Attributes
    ----------
    kernel : Kernel
    X : array (N, D)
    space : Workspace
        Holds 3N²/2 numbers: give the same to the next triangle, which then need not ask for memory.
    """

    kernel: Kernel
    X: Array
    space: Workspace

    @cached_property
    def parts(self) -> list[slice]:
        """The chunks."""
        N = int(self.X.shape[0])
        return list(slices(N, ROWS if namespace(self.X) is np else N))

    @cached_property
    def square(self) -> Array:
        """Memory for an N × N matrix."""
        N = self.X.shape[0]
        return self.space.array("square", (N, N), namespace(self.X))

    @cached_property
    def chunks(self) -> list[Array]:
        """Memory for the chunks of K, one after the other."""
        sizes = [(rows.stop - rows.start) * rows.stop for rows in self.parts]
        whole, ends = self.space.array("K", (sum(sizes),), namespace(self.X)), np.cumsum(sizes)
        pieces = zip(self.parts, ends - sizes, ends, strict=True)
        return [whole[first:last].reshape(-1, rows.stop) for rows, first, last in pieces]

    def each(self, work: Callable[[int, slice], None]) -> None:
        """``work(number, rows)`` for every chunk, by as many lanes as BLAS may use threads."""
        parts = self.parts
        self.chunks, self.square  # noqa: B018  (made once, before lanes need them)
        count = min(threads(), len(parts)) if len(parts) > 4 else 1

        def run(first: int) -> None:
            with np.errstate(over="ignore", invalid="ignore"):  # a thread has its own; refused later
                for number in range(first, len(parts), count):
                    work(number, parts[number])

        share(count, run)

    def factorise(self, noise: float) -> Cholesky:
        """Fill the chunks, and factorise K + σ²I.

        Raises
        ------
        NotPositiveDefinite
            where σ² is below the rounding error of K.
        """
        sums = np.empty(len(self.parts))

        def fill(number: int, rows: slice) -> None:
            K = self.kernel.fill(self.X[rows], self.X[: rows.stop], self.chunks[number])
            sums[number] = float(K.sum())
            self.square[rows, : rows.stop] = K

        self.each(fill)
        if not np.isfinite(sums.sum()):
            raise NonFinite("kernel: expected finite covariances, got NaN or infinity in K")
        self.square.reshape(-1)[:: self.X.shape[0] + 1] += noise
        return cholesky(self.square, name="K + σ²I", overwrite=True)


@dataclass(frozen=True, eq=False)
class Exact:
    """A GP with Gaussian noise given its data (R-gp); made by `exact`.

    Attributes
    ----------
    triangle : Triangle
        K by chunks, the kernel and the inputs.
    Y : array (N, P)
        P outputs, independent given the hyperparameters, which they share.
    noise : float
        σ².
    chol : Cholesky
        Factor of K + σ²I.
    """

    triangle: Triangle
    Y: Array
    noise: float
    chol: Cholesky

    @property
    def log_evidence(self) -> float:
        """Σ_p log N(y_p; 0, K + σ²I)."""
        (N, P), half = self.Y.shape, self.chol.solve_lower(self.Y)
        return -0.5 * (P * (N * math.log(2.0 * math.pi) + self.chol.logdet) + float((half * half).sum()))

    @cached_property
    def weights(self) -> Array:
        """α = (K + σ²I)⁻¹Y (N, P)."""
        return self.chol.solve(self.Y)

    def predict(self, X: Array, *, full_cov: bool = False) -> tuple[Array, Array]:
        """K_*f α (n, P), and K_** − K_*f(K + σ²I)⁻¹K_f*, in full (n, n) or its diagonal (n,), at X (n, D)."""
        kernel = self.triangle.kernel
        cross = kernel(X, self.triangle.X)
        half = self.chol.solve_lower(cross.T)
        mean = cross @ self.weights
        if full_cov:
            return mean, kernel(X) - half.T @ half
        return mean, residual_diagonal(kernel.diag(X), half)


def exact(kernel: Kernel, X: Array, Y: Array, *, noise: float, space: Workspace | None = None) -> Exact:
    """Factorise K + σ²I; checked float64 arrays X (N, D), Y (N, P).

    Raises
    ------
    NotPositiveDefinite
        where σ² is below the rounding error of K.
    NonFinite
        for covariances that are not finite.

    >>> from gpbounds.kernels import SquaredExponential
    >>> X, Y = np.array([[0.0], [1.0], [2.0]]), np.array([[1.0], [0.5], [-0.5]])
    >>> round(exact(SquaredExponential(), X, Y, noise=0.1).log_evidence, 4)
    -3.2002
    """
    triangle = Triangle(kernel, X, Workspace() if space is None else space)
    return Exact(triangle, Y, noise, triangle.factorise(noise))
