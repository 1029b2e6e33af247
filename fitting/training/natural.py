"""Natural-gradient steps for a free law q(v) = N(w, CCᵀ), which stay positive definite.

With Λ = (CCᵀ)⁻¹ and the derivatives w̄, S̄ of J in the mean and the covariance, a step of rate ρ is

    Λ' = Λ + ρ(2/β)S̄ + ½ρ²(2/β)²S̄Λ⁻¹S̄,      w' = w − (ρ/β)Λ'⁻¹w̄.

Without its last term this is the natural gradient in the parameters (Λw, Λ): for J of a Gaussian likelihood, ρ = 1
reaches the optimum from everywhere.  Losses that are convex in f keep Λ' positive definite then, for ρ ≤ 1.  Direct
losses and Student-t do not; with the last term Λ' is positive definite for all S̄ (Lin, Schmidt and Khan, 2020).

A direct loss curves more in the mean than its slope in the variance says: its steps need a smaller ρ.

Everything is computed from C: with E = (2/β)CᵀS̄C, S' = CA⁻¹Cᵀ for A = I + ρE + ½ρ²E².
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from fitting.objectives.triangle import diagonal_of, joined, read_triangle, size_of
from gpbounds.arrays import Float
from gpbounds.linalg import cholesky
from gpbounds.linalg.parallel import Tasks
from gpbounds.linalg.products import product
from gpbounds.linalg.triangular import multiply_rows, solve_rows
from gpbounds.linalg.workspace import Workspace
from gpbounds.whitening import slices

TILE = 128
"""Rows of a tile."""

LEAST, RAMP = 1e-4, 5
"""The rate of the first step, and the number of steps after which it has its full value."""


@dataclass(frozen=True)
class NaturalSteps:
    """Natural steps of the last entries of a vector, which hold a law (`fitting.objectives.packing.LawBlock`).

    Attributes
    ----------
    M : int
        Number of inducing variables.
    beta : float
        Factor of KL(q‖p) in J.
    rate : float
        ρ in (0, 1].
    convex : bool
        Whether the loss is convex in f, so that the last term is left out.
    """

    M: int
    beta: float
    rate: float
    convex: bool

    @property
    def size(self) -> int:
        """Number of entries of the law."""
        return size_of(self.M)

    def rate_at(self, step: int) -> float:
        """ρ of step 1, 2, …: for ρ < 1 it rises geometrically from 1e-4 over the first steps."""
        if self.rate == 1.0 or step > RAMP:
            return self.rate
        return float(LEAST * (self.rate / LEAST) ** ((step - 1) / RAMP))

    def moved(self, entries: Float, slopes: Float, step: int, space: Workspace | None = None) -> Float:
        """The law after a step, from its entries (size,) and the derivatives of J in them.

        Raises
        ------
        NotPositiveDefinite
            if the loss is not convex, although `convex` says so.
        """
        return _Move(self, entries, slopes, self.rate_at(step) / self.beta, space or Workspace(0)).run()


class _Move:
    """A step by tiles of rows; their number depends on M only, so that results do not depend on the number of lanes."""

    def __init__(self, steps: NaturalSteps, entries: Float, slopes: Float, rate: float, space: Workspace) -> None:
        M = steps.M
        self.M, self.convex, self.entries, self.slopes, self.rate = M, steps.convex, entries, slopes, rate
        names = ("C", "C bar", "A", "turned", "factor", *(() if steps.convex else ("E",)))
        self.C, self.C_bar, self.A, self.turned, self.factor, *rest = (space.array(name, (M, M), np) for name in names)
        self.E = rest[0] if rest else self.A
        self.tiles = list(slices(M, TILE if M >= 2 * TILE else M))

    def run(self) -> Float:
        M, steps, tasks = self.M, range(len(self.tiles)), Tasks()
        turned = [("turned", i) for i in steps]
        tasks.add(self._read_C, writes=["C"])
        tasks.add(self._read_C_bar, writes=["C bar"])
        for i in steps:
            writes = [("E", i), turned[i]] if self.convex else [("E", i)]
            tasks.add(partial(self._curvature, i), reads=["C", "C bar"], writes=writes)
        if not self.convex:
            for i in steps:
                tasks.add(partial(self._squared, i), reads=[("E", j) for j in steps], writes=[turned[i]])
        tasks.add(self._factorise, reads=turned, writes=turned)
        for i in reversed(steps):  # long tasks first
            tasks.add(partial(self._solve, i), reads=["C", *turned], writes=[("factor", i)])
        tasks.run(3.0 * M**3)
        mean = self.entries[:M] - self.rate * (self.factor @ (self.factor.T @ self.slopes[:M]))
        return joined(mean, self.factor, np.log(np.diagonal(self.factor)))

    def _read_C(self, worker: int) -> None:
        read_triangle(self.entries, self.C)
        np.fill_diagonal(self.C, np.exp(np.diagonal(self.C)))

    def _read_C_bar(self, worker: int) -> None:
        """From the derivatives in log C_ii."""
        read_triangle(self.slopes, self.C_bar)
        np.fill_diagonal(self.C_bar, np.diagonal(self.C_bar) / np.exp(self.entries[self.M :][diagonal_of(self.M)]))

    def _curvature(self, i: int, worker: int) -> None:
        """Rows of the upper triangle of E, which is that of (ρ/β)C̄ᵀC; and of A = I + E."""
        rows = self.tiles[i]
        tile = self.E[rows, rows.start :]
        np.multiply(self.C_bar[rows.start :, rows].T, self.rate, out=tile)
        multiply_rows(self.C[rows.start :, rows.start :], tile, transposed=True)
        if self.convex:
            self._turn(i)
            return
        n = rows.stop - rows.start
        tile[:, :n] = np.triu(tile[:, :n]) + np.triu(tile[:, :n], 1).T
        self.E[rows.stop :, rows] = tile[:, n:].T

    def _squared(self, i: int, worker: int) -> None:
        """Rows of the upper triangle of A = I + E + ½E²."""
        rows = self.tiles[i]
        tile = self.A[rows, rows.start :]
        product(self.E[rows], self.E[:, rows.start :], tile)
        tile *= 0.5
        tile += self.E[rows, rows.start :]
        self._turn(i)

    def _turn(self, i: int) -> None:
        """These rows of A with all rows and columns in the opposite order, as a lower triangle."""
        rows, M = self.tiles[i], self.M
        tile = self.A[rows, rows.start :]
        out = self.turned[M - rows.stop : M - rows.start, : M - rows.start]
        out[...] = tile[::-1, ::-1]

    def _factorise(self, worker: int) -> None:
        name = "the precision of q after a natural step"
        self.turned.reshape(-1)[:: self.M + 1] += 1.0
        cholesky(self.turned, name=name, overwrite=True)

    def _solve(self, i: int, worker: int) -> None:
        """Rows of CT, with A⁻¹ = TTᵀ."""
        rows, M = self.tiles[i], self.M
        panel = self.C[rows, : rows.stop][:, ::-1].copy()
        solve_rows(self.turned[M - rows.stop :, M - rows.stop :], panel)
        self.factor[rows, : rows.stop] = panel[:, ::-1]
        self.factor[rows, rows.stop :] = 0.0
