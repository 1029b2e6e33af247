"""Solves with K + σ²I at large N: preconditioned conjugate gradients, each solution certified by its residual."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpbounds.arrays import Array, Float, distinct_rows, host, namespace
from gpbounds.exact import factor_of
from gpbounds.kdpp import select
from gpbounds.kernels import Kernel
from gpbounds.kernels.tiles import Products
from gpbounds.linalg import Cholesky
from gpbounds.linalg.krylov import conjugate_gradients
from gpbounds.once import cached_property
from gpbounds.renyi.streamed import Streamed, streamed
from gpbounds.vecchia import Blocks, Factor, factor, near

BLOCK, NEIGHBOURS = 200, 800
"""Rows of a block of the Vecchia factor, and rows on which it is conditioned."""
STEPS = 400
"""Most products with K in one round of conjugate gradients."""
EVERY = 8
"""Steps on a GPU between two reads of the residuals' energies."""
ROUNDS = 6
"""Rounds, each of which begins at the recomputed residual of the one before."""
COLUMNS = 2**23
"""Entries of the right-hand sides that are solved for at a time."""
_SMALLEST_RATIO = 1e-10
"""Smallest factor by which a round is to reduce the energy of a residual."""

MEMORY = 2.0**31
"""Bytes: the triangle of K is kept if it needs no more."""
SOLVES = 80
"""N/n up to which a factor is faster for n solves: N³/3 flops, against 20 to 40 products of 2N²n in half the digits."""
WIDE = 400, 1600
"""Block and neighbours of `fast_solver`: many more than of training, as the factor serves for hundreds of columns."""
INDUCING = 500
"""Most inducing points of the preconditioner Q + σ²I."""
EXPLAINED = 0.1
"""Q + σ²I serves if its inducing points leave a mean variance of at most so many noise variances unexplained."""


def nothing() -> None:
    """Do nothing, where nobody counts products."""


@dataclass(frozen=True, eq=False)
class Vecchia:
    """The preconditioner (UᵀU)⁻¹ ≈ K + σ²I, U the block Vecchia factor of the rows in the order of its blocks."""

    U: Factor

    @property
    def order(self) -> Any:
        """The numbers of the rows in the order in which a `Solver` has them."""
        return self.U.blocks.order

    def solve(self, R: Array) -> Array:
        """UᵀUR."""
        return self.U.transposed_times(self.U.times(R))


@dataclass(frozen=True, eq=False)
class LowRank:
    """The preconditioner Q + σ²I; the condition number is at most 1 + λ_max(K − Q)/σ²."""

    problem: Streamed

    @cached_property
    def order(self) -> Any:
        """All rows in their order."""
        return np.arange(self.problem.N)

    def solve(self, R: Array) -> Array:
        """(Q + σ²I)⁻¹R."""
        return self.problem.solve(R)


@dataclass(frozen=True, eq=False)
class Solver:
    """B ↦ (K + σ²I)⁻¹B for the rows of ``K.X``, which are in the order of the preconditioner.

    Attributes
    ----------
    preconditioner : Vecchia or LowRank
    K : Products
    single : bool
        Whether conjugate gradients multiply in single precision, which is twice as fast, as long as this reduces the
        residuals; residuals are recomputed in doubles.
    advance : function
        Called at each product with K.
    """

    preconditioner: Vecchia | LowRank
    K: Products
    single: bool = False
    advance: Callable[[], Any] = nothing

    @property
    def noise(self) -> float:
        """σ²."""
        return self.K.noise

    @property
    def order(self) -> Any:
        """The numbers of the rows, in the order of ``K.X``."""
        return self.preconditioner.order

    def solve(self, B: Array, allowed: Callable[[Array, Array, Float], Float]) -> tuple[Array, Array, Float]:
        """(V, R, e): V ≈ (K + σ²I)⁻¹B, the residual R = B − (K + σ²I)V, and e_i = |r_i|²/σ² ≥ r_iᵀ(K + σ²I)⁻¹r_i.

        ``allowed(V, R, e)`` returns an upper limit of each e_i.  Rounds end when no e_i exceeds its limit, or when a
        round in doubles reduces the largest ratio of an e_i to its limit by less than a factor of 4.

        For any V, bᵀ(K + σ²I)⁻¹b − vᵀ(b + r) = rᵀ(K + σ²I)⁻¹r is between 0 and e.
        """
        xp = namespace(B)
        V, R, single = xp.zeros_like(B), B.copy(), self.single
        errors = host((R * R).sum(axis=0)) / self.noise
        for _ in range(ROUNDS):
            limits = allowed(V, R, errors)
            left = np.flatnonzero(errors > limits)
            if left.size == 0:
                break
            columns = xp.asarray(left)
            solved = V[:, columns] + self._change(R[:, columns], 0.3 * limits[left] / errors[left], single)
            rest = B[:, columns] - self.K.times(solved)
            self.advance()
            fewer = host((rest * rest).sum(axis=0)) / self.noise
            better = np.flatnonzero(fewer < errors[left])  # not those that overflowed
            before, errors[left[better]] = errors[left], fewer[better]
            V[:, xp.asarray(left[better])], R[:, xp.asarray(left[better])] = solved[:, better], rest[:, better]
            if not (errors[left] / limits[left]).max() <= 0.25 * (before / limits[left]).max():
                if not single:
                    break
                single = False
        return V, R, errors

    def _change(self, R: Array, ratios: Float, single: bool) -> Array:
        """(K + σ²I)⁻¹R, approximately: conjugate gradients until the energies of R fall by the ``ratios``."""
        precondition, xp = self.preconditioner.solve, namespace(R)
        targets = np.clip(ratios, _SMALLEST_RATIO, 1e-2) * host((R * precondition(R)).sum(axis=0))

        def reached(energies: Array) -> bool:
            return bool((host(energies) <= targets).all())

        def times(D: Array) -> Array:
            self.advance()
            return self.K.times_single(D) if single else self.K.times(D)

        return conjugate_gradients(times, precondition, R, enough=reached, steps=STEPS, every=1 if xp is np else EVERY)


@dataclass(frozen=True, eq=False)
class Factored:
    """B ↦ (K + σ²I)⁻¹B by a Cholesky factor of all rows, with the interface of a `Solver`."""

    chol: Cholesky
    K: Products
    advance: Callable[[], Any] = nothing

    @property
    def order(self) -> Any:
        """All rows in their order."""
        return slice(None)

    def solve(self, B: Array, allowed: Callable[[Array, Array, Float], Float]) -> tuple[Array, Array, Float]:
        """As `Solver.solve`: solutions are refined as long as this reduces residuals above their limits."""
        V = self.chol.solve(B)
        R, errors = self._left(B, V)
        for _ in range(ROUNDS):
            limits = allowed(V, R, errors)
            left = np.flatnonzero(errors > limits)
            if left.size == 0:
                break
            better = V[:, left] + self.chol.solve(R[:, left])
            rest, fewer = self._left(B[:, left], better)
            with np.errstate(divide="ignore", invalid="ignore"):  # a limit below the least double is 0
                stalled = (fewer / limits[left]).max() > 0.25 * (errors[left] / limits[left]).max()
            if stalled:
                break
            V[:, left], R[:, left], errors[left] = better, rest, fewer
        return V, R, errors

    def _left(self, B: Array, V: Array) -> tuple[Array, Float]:
        """The residuals, and their errors e."""
        self.advance()
        R = B - self.K.times(V)
        return R, host((R * R).sum(axis=0)) / self.K.noise


def factor_pays(N: int, n: int, memory: float = MEMORY) -> bool:
    """Whether a factor is faster than conjugate gradients for n solves, and N so small that K is kept, too.

    K takes 4N² bytes, at most ``memory``, and the factor 8N².
    """
    return 4.0 * N * N <= memory and N <= SOLVES * n


def factored(kernel: Kernel, X: Float, *, noise: float, advance: Callable[[], Any] = nothing) -> Factored:
    """The factor of K + σ²I for rows X (N, D), in 8N² bytes.

    Raises
    ------
    NotPositiveDefinite
        if σ² is below the rounding error of K.
    """
    return Factored(factor_of(kernel, X, noise=noise), Products(kernel, X, noise=noise, memory=0.0), advance)


def blocks_of(kernel: Kernel, X: Array) -> Blocks:
    """Blocks of near rows, which depend on nothing else than the arguments."""
    return near(kernel, X, block=BLOCK, neighbours=NEIGHBOURS, rng=0)


def solver(kernel: Kernel, X: Array, *, noise: float, blocks: Blocks, memory: float = MEMORY) -> Solver:
    """The solver for rows X (N, D) in the order of ``blocks``; K is kept if it needs at most ``memory`` bytes.

    >>> from gpbounds.kernels import SquaredExponential
    >>> X, kernel = np.array([[0.0], [1.0], [2.0]]), SquaredExponential()
    >>> S = solver(kernel, X, noise=0.5, blocks=blocks_of(kernel, X))
    >>> V, R, errors = S.solve(np.eye(3), lambda V, R, errors: 1e-20 + 0.0 * errors)
    >>> order = S.preconditioner.order
    >>> bool(np.allclose(V, np.linalg.inv(kernel(X) + 0.5 * np.eye(3))[:, order][order]))
    True
    """
    U = factor(kernel, X, noise=noise, blocks=blocks)
    return Solver(Vecchia(U), Products(kernel, X, noise=noise, memory=memory))


def fast_solver(
    kernel: Kernel, X: Array, *, noise: float, memory: float = MEMORY, advance: Callable[[], Any] = nothing
) -> Solver:
    """The solver for rows X (N, D) in any order, with the preconditioner and the precision that suit them.

    Its rows are those of X in the order ``preconditioner.order``.
    """
    chosen = preconditioned(kernel, X, noise=noise)
    ordered = X[namespace(X).asarray(chosen.order)]
    within = 1e-12 < float(kernel.largest_variance(X)) < 1e12  # in the range of single precision, with room for sums
    single = namespace(X) is np and within
    return Solver(chosen, Products(kernel, ordered, noise=noise, memory=memory), single, advance)


def preconditioned(kernel: Kernel, X: Array, *, noise: float) -> Vecchia | LowRank:
    """Q + σ²I of greedy inducing points where few of them explain the rows, else a block Vecchia factor.

    Few steps suffice with Q if Tr(K − Q) is small beside Nσ², as for smooth functions of many inputs; else a Vecchia
    factor, which knows near rows, needs fewer.
    """
    points = np.asarray(host(X))
    most = min(INDUCING, distinct_rows(points))
    chosen = select(kernel, points, most, trace=0.1 * EXPLAINED * len(points) * noise)
    if chosen.Z.shape[0] and chosen.trace <= EXPLAINED * len(points) * noise:
        empty = namespace(X).zeros((len(points), 1))
        return LowRank(streamed(kernel, X, empty, namespace(X).asarray(chosen.Z), noise, "auto"))
    blocks = near(kernel, X, block=WIDE[0], neighbours=WIDE[1], rng=0)
    order = namespace(X).asarray(blocks.order)
    return Vecchia(factor(kernel, X[order], noise=noise, blocks=blocks))
