"""The exact Gaussian process, F = Σ_p log N(y_p; 0, K + σ²I): O(N³) time, O(N²) memory, no inducing points.

K̄ = ½[Σ_p α_pα_pᵀ − P(K + σ²I)⁻¹], α = (K + σ²I)⁻¹Y.  Of the symmetric matrices only the lower triangle is worked on,
by chunks of rows [i, j) × [0, j): C = 2K̄ below the diagonal and K̄ on it says the same as K̄.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from fitting.inner import Evaluation, Gradient
from fitting.streamed import Workspace
from gpbounds.arrays import Array, namespace
from gpbounds.errors import NonFinite
from gpbounds.kernels import Kernel
from gpbounds.linalg import Cholesky, cholesky
from gpbounds.linalg.lanes import share, threads
from gpbounds.linalg.products import add_product
from gpbounds.linalg.triangular import half_inverse
from gpbounds.whitening import slices

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
        """``work(number, rows)`` for every chunk, by as many threads as BLAS may use."""
        parts = self.parts
        self.chunks, self.square  # noqa: B018  (made once, before threads need them)
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


def factorised(kernel: Kernel, X: Array, noise: float) -> Cholesky:
    """The factor of K + σ²I; errors as in `Triangle.factorise`."""
    return Triangle(kernel, X, Workspace()).factorise(noise)


def evaluate(
    kernel: Kernel,
    X: Array,
    Y: Array,
    noise: float,
    Z: Array | None = None,
    *,
    gradient: bool = True,
    space: Workspace | None = None,
) -> Evaluation:
    """F and its derivatives; checked float64 arrays, Y (N, P).  Those in ``Z``, if it is given, are 0.

    ``space`` holds 3N²/2 numbers: give the same to the next call, which then need not ask for memory.

    >>> import numpy as np
    >>> from gpbounds.kernels import SquaredExponential
    >>> X, Y = np.array([[0.0], [1.0], [2.0]]), np.array([[1.0], [0.5], [-0.5]])
    >>> round(evaluate(SquaredExponential(), X, Y, 0.1).value, 4)  # gpbounds.renyi.log_evidence
    -3.2002
    """
    (N, P), xp = Y.shape, namespace(Y)
    triangle = Triangle(kernel, X, Workspace() if space is None else space)
    chol = triangle.factorise(noise)
    half = chol.solve_lower(Y)
    value = -0.5 * (P * (N * math.log(2.0 * math.pi) + chol.logdet) + float((half * half).sum()))
    if not gradient:
        return Evaluation(value, None)
    alpha = chol.solve(Y)
    inverse = half_inverse(chol.L).T
    turned, found = xp.ascontiguousarray(alpha.T), [(0.0, np.zeros(0))] * len(triangle.parts)

    def pull(number: int, rows: slice) -> None:
        cotangent, steps = inverse[rows, : rows.stop], xp.arange(rows.stop - rows.start)
        cotangent *= -P
        add_product(alpha[rows], turned[:, : rows.stop], cotangent)
        corner = cotangent[:, rows]
        corner[...] = xp.tril(corner)
        corner[steps, steps] -= 0.5 * (alpha[rows] ** 2).sum(axis=1)
        trace = float(corner.trace())
        found[number] = trace, kernel.pull(X[rows], X[: rows.stop], cotangent, triangle.chunks[number])[0]

    triangle.each(pull)
    trace, parameters = sum(t for t, _ in found), np.sum([p for _, p in found], axis=0)
    return Evaluation(value, Gradient(parameters, noise * trace, None if Z is None else xp.zeros_like(Z)))
