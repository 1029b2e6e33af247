"""J at a free q(v) = N(w, CCᵀ) with inducing points, in one pass of 4 NM² flops; see `fitting.functional`.

With R = (S − I)L⁻¹ the rows y_i of Y = VR give the variances and the cotangent of Kuf:

    s_i = k_ii + k_iᵀy_i,      K̄uf = 2·diag(s̄)Y + m̄wᵀL⁻¹.

The cotangent of Kuu needs one triangle only.  With T the lower triangle of V̄Vᵀ, half of its diagonal,

    V̄Vᵀ = w(Vm̄)ᵀ + 2(S − I)H,      K̄uu = −½(G + Gᵀ),      G = L⁻ᵀTL⁻¹.

All M × M matrices are computed by tiles of rows, in lanes that wait for each other only where a tile needs others.  The
size of the problem determines tiles and groups, so that results do not depend on the number of lanes.  The memory
belongs to the workspace of the data, because fresh pages cost as much time as the arithmetic on them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from threading import Lock
from typing import Any

import numpy as np

from fitting.basis import Pulled
from fitting.evaluation import Evaluation, Goal
from fitting.expected import ExpectedLoss
from fitting.inducing import InducingBasis, InducingPullBack, tame
from fitting.rows import Stream
from fitting.signed import SignedGram
from gpbounds.arrays import Array, Float, namespace
from gpbounds.law import FactorLaw
from gpbounds.linalg import cholesky
from gpbounds.linalg.parallel import Tasks
from gpbounds.linalg.products import add_product, product
from gpbounds.linalg.triangular import inverse_factor, multiply_rows
from gpbounds.whitening import slices

SMALL = 1e-6
"""Least variance of f, in units of k(x, x), that is computed as k(x, x) + kᵀy: rounding, below 1e-12, stays small
beside it."""

NARROW, WIDE, TILES = 128, 256, 8
"""Least number of rows of a tile of a triangle, and of a square; the largest number of tiles."""

AHEAD = 4
"""Chunks whose covariances one lane computes while another factorises Kuu."""


def turned(
    source: Stream, basis: InducingBasis, q: FactorLaw, loss: Callable[[slice], ExpectedLoss], goal: Goal
) -> Evaluation | None:
    """J with its derivatives, or None where L⁻¹ is too inaccurate; ``loss`` gives the losses of the rows of a chunk."""
    return _Step(source, basis, q, loss, goal).run()


class _Inaccurate(Exception):
    """L⁻¹ is too inaccurate to multiply with."""


class _Group:
    """The sums over the chunks of a group."""

    def __init__(self, basis: InducingBasis, gram: Array, P: int) -> None:
        self.total: Any = 0.0
        self.own: Float | float = 0.0
        self.moment = namespace(gram).zeros((gram.shape[0], P))
        self.gram, self.pull = SignedGram(gram), InducingPullBack(basis)


class _Step:
    def __init__(
        self, source: Stream, basis: InducingBasis, q: FactorLaw, loss: Callable[[slice], ExpectedLoss], goal: Goal
    ) -> None:
        self.source, self.basis, self.q, self.loss, self.goal = source, basis, q, loss, goal
        self.kernel, self.Z, self.xp, self.M = basis.kernel, basis.Z, namespace(source.X), basis.rank
        self.tiles, self.wide = self._tiles(NARROW), self._tiles(WIDE)
        self.alone = Lock()  # many short calls in two lanes at once wait for Python's lock longer than they work
        self.flops = 6.0 * self.M**2 * max(self.M, source.N) if self.xp is np else 0.0
        self.weights = self.xp.empty((q.P, self.M))
        names = ("Kuu", "L", "inverse", "S", "R", "factor bar")
        self.Kuu, self.L, self.inverse, self.S, self.R, self.factor_bar = map(self._square, names)
        self.groups = [self._group(number) for number in range(source._groups())]
        self.H, self.HC, self.T, self.G = (
            self.groups[0].gram.plus,
            self.L,
            self.S,
            self.R,
        )  # in memory that is free then

    def _tiles(self, least: int) -> list[slice]:
        cut = self.xp is np and self.M >= 2 * NARROW
        return list(slices(self.M, max(least, -(-self.M // TILES)) if cut else self.M))

    def _square(self, name: str) -> Array:
        return self.source.space.array(f"step {name}", (self.M, self.M), self.xp)

    def _on_diagonal(self, A: Array, change: Callable[[Array], Array]) -> None:
        places = self.xp.arange(A.shape[0])
        A[places, places] = change(A[places, places])

    def _rows(self, name: str, n: int) -> Array:
        most = max(part.stop - part.start for part in self.source.parts)
        return self.source.space.array(f"step {name}", (most, self.M), self.xp)[:n]

    def run(self) -> Evaluation | None:
        """J and its derivatives; None if L⁻¹ is too inaccurate."""
        tasks, count, ahead = Tasks(), len(self.groups), range(min(AHEAD, len(self.source.parts)))
        narrow, wide = range(len(self.tiles)), range(len(self.wide))
        pulls: list[Any] = [None] * len(self.wide)
        Kuu = [tasks.add(partial(self._fill_Kuu, i)) for i in wide]
        factor = tasks.add(self._factor, Kuu)
        S = [tasks.add(partial(self._covariance, i)) for i in narrow]
        tasks.add(lambda worker: self.q.kl)
        K = [tasks.add(partial(self._fill, number)) for number in ahead]
        R = [tasks.add(partial(self._turn, i), [factor, *S]) for i in wide]
        groups = [
            tasks.add(partial(self._chunks, range(g, len(self.source.parts), count), self.groups[g]), [*R, *K])
            for g in range(count)
        ]
        goal = tasks.add(self._goal, groups)
        H = [tasks.add(partial(self._sum, i), [goal]) for i in wide]
        HC = [tasks.add(partial(self._slopes, i), H[: i + 1]) for i in wide]
        T = [tasks.add(partial(self._outer, i), HC) for i in narrow]
        G = [tasks.add(partial(self._lifted, i), T) for i in narrow]
        for i in wide:
            tasks.add(partial(self._pulled, i, pulls), G)
        try:
            tasks.run(self.flops)
        except _Inaccurate:
            return None
        return self._evaluation(pulls)

    # ------------------------------------------------------------------ from the parameters to the losses

    def _group(self, number: int) -> _Group:
        gram = self._square(f"gram {number}")
        gram[...] = 0.0
        return _Group(self.basis, gram, self.q.P)

    def _fill_Kuu(self, i: int, worker: int) -> None:
        rows = self.wide[i]
        self.kernel.fill(self.Z[rows], self.Z, self.Kuu[rows])

    def _factor(self, worker: int) -> None:
        basis = self.basis
        self.L[...] = self.Kuu
        self.L[...] = cholesky(self.L, float(basis.jitter), name="Kuu", overwrite=True).L
        inverse_factor(self.L, self.inverse)
        if not tame(self.L, self.inverse):
            raise _Inaccurate
        self.weights[...] = (self.inverse.T @ self.q.mean).T

    def _covariance(self, i: int, worker: int) -> None:
        rows, C = self.tiles[i], self.q.factor[:, : self.tiles[i].stop]
        tile = self.S[rows, : rows.stop]
        tile[...] = C[rows]
        multiply_rows(C[: rows.stop], tile)
        self.S[: rows.start, rows] = tile[:, : rows.start].T

    def _turn(self, i: int, worker: int) -> None:
        rows = self.wide[i]
        tile = self.R[rows]
        tile[...] = self.S[rows]
        self._on_diagonal(tile[:, rows], lambda entries: entries - 1.0)
        multiply_rows(self.inverse, tile, transposed=True)

    def _fill(self, number: int, worker: int) -> Array:
        rows = self.source.parts[number]
        K = self._rows(f"K of {number}" if number < AHEAD else f"K {worker}", rows.stop - rows.start)
        return self.kernel.fill(self.source.X[rows], self.Z, K)

    def _chunks(self, numbers: range, sums: _Group, worker: int) -> None:
        with np.errstate(over="ignore", invalid="ignore"):  # errstate is per thread
            for number in numbers:
                self._chunk(number, sums, worker)

    def _chunk(self, number: int, sums: _Group, worker: int) -> None:
        rows = self.source.parts[number]
        X, Y, n = self.source.X[rows], self.source.Y[rows], rows.stop - rows.start
        if number < AHEAD:
            K = self._rows(f"K of {number}", n)
        else:
            K = self._fill(number, worker)
        V, Y_bar, q = self._rows(f"V {worker}", n), self._rows(f"Y {worker}", n), self.q
        V[...] = K
        multiply_rows(self.inverse, V)
        product(V, self.R, Y_bar)
        prior = self.kernel.diag(X)
        variance = prior + _row_products(Y_bar, K)
        wide = bool((variance >= SMALL * prior).all())
        if not wide:
            product(V, self.S, Y_bar)
            variance = self.basis.residual(X, V) + _row_products(Y_bar, V)
            Y_bar -= V
        mean = V @ q.mean
        with self.alone:
            expected = self.loss(rows)(Y, mean, variance)
        sums.total += expected.total
        sums.own = sums.own + expected.in_parameters
        sums.moment += V.T @ expected.in_mean
        positive = self.xp is np and bool((expected.in_variance > 0.0).all())
        sums.gram.add(V, expected.in_variance, V if positive else self._rows(f"scaled {worker}", n))  # V is free now
        Y_bar *= (2.0 * expected.in_variance)[:, None]
        add_product(expected.in_mean, self.weights if wide else q.mean.T, Y_bar)
        if not wide:
            multiply_rows(self.inverse, Y_bar, transposed=True)
        with self.alone:
            sums.pull.lifted(X, Y_bar, K, V)
            sums.pull.diagonal(X, expected.in_variance)

    # ------------------------------------------------------------------ from the losses to the derivatives

    def _goal(self, worker: int) -> None:
        first, *others = self.groups
        self.total = float(sum((each.total for each in others), first.total))
        self.moment = sum((each.moment for each in others), first.moment)
        self.value, self.in_total, self.in_kl = self.goal(self.total, self.q.kl)

    def _evaluation(self, pulls: list[Pulled]) -> Evaluation:
        q, (first, *others) = self.q, self.groups
        pulled = sum((each.pull.statistics() for each in others), first.pull.statistics())
        pulled = sum(pulls, pulled)
        if self.basis.relative_jitter:
            trace = -self.basis.relative_jitter * float(self.G.trace())
            pulled += Pulled(self.kernel.pull_diag(self.Z[:1], self.xp.full(1, trace)))
        own = self.in_total * np.asarray(sum((each.own for each in others), first.own))
        mean = self.in_total * self.moment + self.in_kl * q.mean
        derivatives = pulled.gradient(own, scale=self.in_total, mean=mean, factor=self.factor_bar)
        return Evaluation(self.value, derivatives, total=self.total, kl=q.kl)

    def _sum(self, i: int, worker: int) -> None:
        """H in the memory of the first group; the sums have only their upper triangles."""
        rows = self.wide[i]
        tile = self.H[rows, rows.start :]
        first, *others = (each.gram for each in self.groups)
        for other in others:
            tile += other.plus[rows, rows.start :]
        for each in (first, *others):
            if each.minus is not None:
                tile -= each.minus[rows, rows.start :]
        corner = tile[:, : rows.stop - rows.start]
        upper = self.xp.triu(corner)
        corner[...] = upper + self.xp.triu(upper, 1).T
        self.H[rows.stop :, rows] = tile[:, rows.stop - rows.start :].T

    def _slopes(self, i: int, worker: int) -> None:
        """Rows of HC, and of the derivative in C: its lower triangle times 2∂J/∂total, and that of KL."""
        rows, C, in_kl = self.wide[i], self.q.factor, self.in_kl * self.q.P
        HC, out = self.HC[rows], self.factor_bar[rows, : rows.stop]
        HC[...] = self.H[rows]
        multiply_rows(C, HC, transposed=True)
        self.xp.multiply(HC[:, : rows.stop], 2.0 * self.in_total, out=out)
        out += in_kl * C[rows, : rows.stop]
        corner = out[:, rows]
        slopes = in_kl / C[rows, rows].diagonal()
        self._on_diagonal(corner, lambda entries: entries - slopes)
        corner[...] = self.xp.tril(corner)
        self.factor_bar[rows, rows.stop :] = 0.0

    def _outer(self, i: int, worker: int) -> None:
        """Rows of TL⁻¹."""
        rows, stop = self.tiles[i], self.tiles[i].stop
        tile = self.T[rows, :stop]
        product(self.q.factor[rows, :stop], self.HC[:stop, :stop].T, tile)
        tile -= self.H[rows, :stop]
        tile *= 2.0
        add_product(self.q.mean[rows], self.moment[:stop].T, tile)
        corner = tile[:, rows]
        corner[...] = self.xp.tril(corner)
        self._on_diagonal(corner, lambda entries: 0.5 * entries)
        multiply_rows(self.inverse[:stop, :stop], tile, transposed=True)

    def _lifted(self, i: int, worker: int) -> None:
        """Rows of G; TL⁻¹ has entries up to the diagonal tile only."""
        rows = self.tiles[i]
        for columns in (slice(0, rows.stop), *self.tiles[i + 1 :]):
            start = max(rows.start, columns.start)
            product(self.inverse[start:, rows].T, self.T[start:, columns], self.G[rows, columns])

    def _pulled(self, i: int, pulls: list[Any], worker: int) -> None:
        """Derivatives of ⟨K̄uu, Kuu⟩ by these rows; those in Z count twice, as K̄uu is symmetric."""
        rows = self.wide[i]
        bar = self.source.space.array(f"step Kuu bar {worker}", (rows.stop - rows.start, self.M), self.xp)
        self.xp.add(self.G[rows], self.G[:, rows].T, out=bar)
        bar *= -0.5
        parameters, moved = self.kernel.pull(self.Z[rows], self.Z, bar, self.Kuu[rows])
        pulls[i] = Pulled(parameters, 2.0 * moved)


def _row_products(A: Array, B: Array) -> Array:
    return namespace(A).einsum("ij,ij->i", A, B)
