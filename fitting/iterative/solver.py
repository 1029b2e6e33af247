"""Solves with K + σ²I by preconditioned conjugate gradients, each certified by its recomputed residual."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from fitting.iterative.layout import BLOCK, NEIGHBOURS
from gpbounds.arrays import Array, Float, host, namespace
from gpbounds.iterative.evidence import Products
from gpbounds.kernels import Kernel
from gpbounds.linalg.krylov import conjugate_gradients
from gpbounds.vecchia import Blocks, Factor, factor, near

STEPS = 400
"""Most products with K in one round of conjugate gradients."""
EVERY = 8
"""Steps on a GPU between two reads of what is left to solve for."""
ROUNDS = 6
"""Rounds, each of which begins at the recomputed residual of the one before."""
COLUMNS = 2**23
"""Entries of the right-hand sides that are solved for at a time."""
LEAST = 1e-10
"""Smallest factor by which a round is to reduce the energy of a residual."""


@dataclass(frozen=True, eq=False)
class Solver:
    """X ↦ (K + σ²I)⁻¹B for the rows of ``K.X``, which are in the order of the blocks."""

    U: Factor
    K: Products

    @property
    def noise(self) -> float:
        """σ²."""
        return self.K.noise

    def solve(self, B: Array, allowed: Callable[[Array, Array, Float], Float]) -> tuple[Array, Array, Float]:
        """(V, R, e): V ≈ (K + σ²I)⁻¹B, the residual R = B − (K + σ²I)V, and e_i = |r_i|²/σ² ≥ r_iᵀ(K + σ²I)⁻¹r_i.

        ``allowed(V, R, e)`` returns the largest e_i that is small enough, for each column.  Rounds end when all are, or
        when a round no longer reduces the largest e that is not.

        For any V, bᵀ(K + σ²I)⁻¹b − vᵀ(b + r) = rᵀ(K + σ²I)⁻¹r is between 0 and e.
        """
        xp = namespace(B)
        V, R = xp.zeros_like(B), B.copy()
        errors = host((R * R).sum(axis=0)) / self.noise
        for _ in range(ROUNDS):
            limits = allowed(V, R, errors)
            left = np.flatnonzero(errors > limits)
            if left.size == 0:
                break
            columns = xp.asarray(left)
            part = R[:, columns]
            ratios = np.clip(0.3 * limits[left] / errors[left], LEAST, 1e-2)
            targets = ratios * host((part * self._preconditioned(part)).sum(axis=0))

            def reached(energies: Array, targets: Float = targets) -> bool:
                return bool((host(energies) <= targets).all())

            options: dict[str, Any] = {"steps": STEPS, "every": 1 if xp is np else EVERY}
            change = conjugate_gradients(self.K.times, self._preconditioned, part, enough=reached, **options)
            V[:, columns] += change
            rest = B[:, columns] - self.K.times(V[:, columns])
            before, errors[left] = float(errors[left].max()), host((rest * rest).sum(axis=0)) / self.noise
            R[:, columns] = rest
            if errors[left].max() > 0.25 * before:
                break
        return V, R, errors

    def _preconditioned(self, V: Array) -> Array:
        return self.U.transposed_times(self.U.times(V))


def blocks_of(kernel: Kernel, X: Array) -> Blocks:
    """Blocks of near rows, which depend on nothing else than the arguments."""
    return near(kernel, X, block=BLOCK, neighbours=NEIGHBOURS, rng=0)


def solver(kernel: Kernel, X: Array, *, noise: float, blocks: Blocks, memory: float = 2.0**31) -> Solver:
    """The solver for rows X (N, D) in the order of ``blocks``; K is kept if it needs at most ``memory`` bytes.

    >>> from gpbounds.kernels import SquaredExponential
    >>> X, kernel = np.array([[0.0], [1.0], [2.0]]), SquaredExponential()
    >>> S = solver(kernel, X, noise=0.5, blocks=blocks_of(kernel, X))
    >>> V, R, errors = S.solve(np.eye(3), lambda V, R, errors: 1e-20 + 0.0 * errors)
    >>> bool(np.allclose(V, np.linalg.inv(kernel(X) + 0.5 * np.eye(3))[:, S.U.blocks.order][S.U.blocks.order]))
    True
    """
    return Solver(factor(kernel, X, noise=noise, blocks=blocks), Products(kernel, X, noise=noise, memory=memory))
