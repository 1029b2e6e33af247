"""J at a free q(v) = N(w, CCᵀ) with inducing points, in one pass of 4 NM² flops; see `fitting.functional`.

With R = (S − I)L⁻¹ the rows y_i of Y = VR give the variances and the cotangent of Kuf:

    s_i = k_ii + k_iᵀy_i,      K̄uf = 2·diag(s̄)Y + m̄wᵀL⁻¹.

The cotangent of Kuu needs one triangle only.  With T the lower triangle of V̄Vᵀ, half of its diagonal,

    V̄Vᵀ = w(Vm̄)ᵀ + 2(S − I)H,      K̄uu = −½(G + Gᵀ),      G = L⁻ᵀTL⁻¹.

All M × M matrices are computed by tiles of rows, in lanes that wait for each other only where a tile needs others.
Losses and pull-backs are many short calls of NumPy: two lanes that both make them wait for Python's lock, which takes
longer than the calls.  One lane at a time computes these, while another multiplies.  The size of the problem determines
tiles and groups, so that results do not depend on the number of lanes.  The memory belongs to the workspace of the
data, because fresh pages cost as much time as the arithmetic on them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from fitting.basis import Pulled
from fitting.evaluation import Evaluation, Price
from fitting.expected import Expected, ExpectedLoss
from fitting.inducing import InducingBasis, InducingPullBack, tame
from fitting.prior_means import derivatives as in_host_memory
from fitting.rows import Stream
from fitting.signed import SignedGram
from gpbounds.arrays import Array, Float, namespace
from gpbounds.kernels.covariances import pull_both
from gpbounds.law import FactorLaw
from gpbounds.linalg import cholesky
from gpbounds.linalg.parallel import Name, Tasks
from gpbounds.linalg.products import accumulate, add_product, product, row_products
from gpbounds.linalg.psd import cholesky_unread
from gpbounds.linalg.triangular import clear_above, inverse_factor, mirrored, multiply_rows
from gpbounds.whitening import slices

SMALL = 1e-6
"""Least variance of f, in units of k(x, x), that is computed as k(x, x) + kᵀy: rounding, below 1e-12, stays small
beside it.  Where a row has less, a CPU computes its chunk in another way, and a GPU the whole pass."""

NARROW, TILES = 128, 8
"""Least number of rows of a tile, and the largest number of tiles."""

AHEAD = 4
"""Chunks whose covariances one lane computes while another factorises Kuu.  If there are no more, and each is a group,
the pass is cut into stages: one lane computes losses and pull-backs, which are many short calls, while another
multiplies."""


def turned(
    source: Stream, basis: InducingBasis, q: FactorLaw, loss: Callable[[slice], ExpectedLoss], price: Price
) -> Evaluation | None:
    """J with its derivatives; ``loss`` gives the losses of the rows of a chunk.

    None where L⁻¹, or on a GPU a small variance, would be too inaccurate.
    """
    return _Step(source, basis, q, loss, price).run()


class _Inaccurate(Exception):
    """L⁻¹ is too inaccurate to multiply with, or a variance to be a difference."""


class _Group:
    """The sums over the chunks of a group."""

    def __init__(self, basis: InducingBasis, gram: Array, P: int) -> None:
        self.total: Any = 0.0
        self.prior_mean: Any = 0.0
        self.own: Float | float = 0.0
        self.moment = namespace(gram).zeros((gram.shape[0], P))
        self.wide: Any = None
        self.gram, self.pull = SignedGram(gram, new=True), InducingPullBack(basis)


class _Chunk:
    """Some rows on their way through the pass."""

    K: Array
    V: Array
    Y: Array
    mean: Array
    within: Array  # k_iᵀy_i
    wide: bool
    expected: Expected

    def __init__(self, number: int) -> None:
        self.number = number


class _Step:
    def __init__(
        self, source: Stream, basis: InducingBasis, q: FactorLaw, loss: Callable[[slice], ExpectedLoss], price: Price
    ) -> None:
        self.source, self.basis, self.q, self.loss, self.price = source, basis, q, loss, price
        self.kernel, self.Z, self.xp, self.M = basis.kernel, basis.Z, namespace(source.X), basis.rank
        self.tiles = self._tiles()
        self.flops = 6.0 * self.M**2 * max(self.M, source.N) if self.xp is np else 0.0
        self.weights = self.xp.empty((q.P, self.M))
        self.pulls: list[tuple[int, Pulled]] = []  # by the first row of Z
        names = ("Kuu", "L", "inverse", "S", "R", "factor bar")
        self.Kuu, self.L, self.inverse, self.S, self.R, self.factor_bar = map(self._square, names)
        self.groups = [_Group(basis, self._square(f"gram {g}"), q.P) for g in range(source._groups())]
        self.by_stages = len(source.parts) == len(self.groups) <= AHEAD
        self.H, self.HC = self.groups[0].gram.plus, self.L  # in memory that is free then
        self.T, self.G = self.S, self.R

    def _tiles(self) -> list[slice]:
        cut = self.xp is np and self.M >= 2 * NARROW
        return list(slices(self.M, max(NARROW, -(-self.M // TILES)) if cut else self.M))

    def _square(self, name: str) -> Array:
        return self.source.space.array(f"step {name}", (self.M, self.M), self.xp)

    def _on_diagonal(self, A: Array, change: Callable[[Array], Array]) -> None:
        places = self.xp.arange(A.shape[0])
        A[places, places] = change(A[places, places])

    def _rows(self, name: str, n: int) -> Array:
        most = max(part.stop - part.start for part in self.source.parts)
        return self.source.space.array(f"step {name}", (most, self.M), self.xp)[:n]

    def run(self) -> Evaluation | None:
        """J and its derivatives; None if they would be too inaccurate."""
        tasks, tiles = Tasks(), range(len(self.tiles))
        Kuu, L, S, R, H, slopes = (
            [(name, i) for i in tiles] for name in ("Kuu", "L", "S", "R", "gram 0", "factor bar")
        )
        HC, T, G = L, S, R  # in memory that is free then, as H is
        for i in tiles:
            tasks.add(partial(self._fill_Kuu, i), writes=[Kuu[i]])
        tasks.add(self._factor, reads=Kuu, writes=[*L, "inverse", "weights"])
        for i in reversed(tiles):  # the longest first
            tasks.add(partial(self._covariance, i), writes=[S[i]])
        tasks.add(self._divergence, writes=["kl"])
        for number in range(len(self.source.parts))[:AHEAD]:
            tasks.add(partial(self._fill, number), writes=[("K", number)])
        for i in tiles:
            tasks.add(partial(self._turn, i), reads=[*S, "inverse"], writes=[R[i]])
        pulls = self._add_chunks(tasks, S, R)
        grams = [[(f"gram {g}", i) for i in tiles] for g in range(len(self.groups))]
        sums = [("sums", g) for g in range(len(self.groups))]
        tasks.add(self._priced, reads=[*sums, "kl"], writes=["price"])
        for i in tiles:
            reads = ["price", *(gram[i] for gram in grams)]
            tasks.add(partial(self._sum, i), reads=reads, writes=[H[i]], alone=True)
        for pull in pulls:
            pull()
        for i in tiles:
            tasks.add(partial(self._slopes, i), reads=["price", *H[: i + 1]], writes=[HC[i], slopes[i]])
        for i in reversed(tiles):
            reads = ["price", "inverse", *H[: i + 1], *HC[: i + 1]]
            tasks.add(partial(self._outer, i), reads=reads, writes=[T[i]])
        for pair in (tiles[i : i + 2] for i in tiles[::2]):
            for i in pair:
                tasks.add(partial(self._lifted, i), reads=["inverse", *T[i:]], writes=[G[i]])
            rows = slice(self.tiles[pair[0]].start, self.tiles[pair[-1]].stop)
            reads = [*(G[i] for i in pair), *(Kuu[i] for i in pair)]
            tasks.add(partial(self._pulled, rows), reads=reads, writes=[("pulled", pair[0])], alone=True)
        try:
            tasks.run(self.flops)
        except _Inaccurate:
            return None
        return self._evaluation()

    def _add_chunks(self, tasks: Tasks, S: Sequence[Name], R: Sequence[Name]) -> list[Callable[[], None]]:
        """Add tasks that compute the sums of each group; calls that add the pull-backs, which may follow later."""
        parts, count, tiles = range(len(self.source.parts)), len(self.groups), range(len(self.tiles))
        gram = [[(f"gram {g}", i) for i in tiles] for g in range(count)]
        if not self.by_stages:
            for g, group in enumerate(self.groups):
                ahead = [("K", number) for number in parts[g::count] if number < AHEAD]
                reads, writes = [*S, *R, "inverse", "weights", *ahead], [*ahead, ("sums", g), *gram[g]]
                tasks.add(partial(self._chunks, parts[g::count], group), reads=reads, writes=writes)
            return []
        each = [(_Chunk(g), sums) for g, sums in enumerate(self.groups)]
        K, V, Y, loss, sums = ([(name, g) for g in parts] for name in ("K", "V", "Y", "loss", "sums"))
        for g, (chunk, _) in enumerate(each):
            tasks.add(partial(self._features, chunk), reads=[*R, "inverse", K[g]], writes=[V[g], Y[g]])
        for g, pair in enumerate(each):
            reads, writes = [*S, V[g], Y[g]], [Y[g], loss[g], sums[g]]
            tasks.add(partial(self._losses, *pair), reads=reads, writes=writes, alone=True)
        for g, pair in enumerate(each):
            reads, writes = [V[g], loss[g], sums[g]], [V[g], sums[g], *gram[g]]
            tasks.add(partial(self._add_gram, *pair), reads=reads, writes=writes)

        def add_pull(g: int) -> None:
            reads, writes = ["inverse", "weights", K[g], V[g], Y[g], loss[g]], [K[g], V[g], Y[g], ("pull", g)]
            tasks.add(partial(self._pull, *each[g]), reads=reads, writes=writes, alone=True)

        return [partial(add_pull, g) for g in parts]

    # ------------------------------------------------------------------ from the parameters to the losses

    def _fill_Kuu(self, i: int, worker: int) -> None:
        rows = self.tiles[i]
        self.basis.covariances.fill(self.Z[rows], self.Kuu[rows])

    def _factor(self, worker: int) -> None:
        basis = self.basis
        if self.xp is np:
            self.L[...] = self.Kuu
            cholesky(self.L, float(basis.jitter), name="Kuu", overwrite=True)
        else:
            self.L[...] = cholesky_unread(self.Kuu, float(basis.jitter), "Kuu", basis.readings).L
        inverse_factor(self.L, self.inverse, checked=True)
        if not tame(self.L, self.inverse, basis.readings):
            raise _Inaccurate
        self.weights[...] = (self.inverse.T @ self.q.mean).T

    def _divergence(self, worker: int) -> None:
        self.kl = self.q.kl_unread(self.basis.readings)

    def _covariance(self, i: int, worker: int) -> None:
        rows, C = self.tiles[i], self.q.factor[:, : self.tiles[i].stop]
        tile = self.S[rows, : rows.stop]
        tile[...] = C[rows]
        multiply_rows(C[: rows.stop], tile)
        self.S[: rows.start, rows] = tile[:, : rows.start].T

    def _turn(self, i: int, worker: int) -> None:
        rows = self.tiles[i]
        tile = self.R[rows]
        tile[...] = self.S[rows]
        self._on_diagonal(tile[:, rows], lambda entries: entries - 1.0)
        multiply_rows(self.inverse, tile, transposed=True)

    def _fill(self, number: int, worker: int) -> Array:
        rows = self.source.parts[number]
        K = self._rows(f"K of {number}" if number < AHEAD else f"K {worker}", rows.stop - rows.start)
        return self.basis.covariances.fill_products(self.source.X[rows], K)

    def _chunks(self, numbers: range, sums: _Group, worker: int) -> None:
        for number in numbers:
            chunk = _Chunk(number)
            self._features(chunk, worker)
            self._losses(chunk, sums, worker)
            self._add_gram(chunk, sums, worker)
            self._pull(chunk, sums, worker)

    def _features(self, chunk: _Chunk, worker: int) -> None:
        """V and Y."""
        rows, number = self.source.parts[chunk.number], chunk.number
        n, owner = rows.stop - rows.start, f"of {number}" if self.by_stages else f"{worker}"
        chunk.K = self._rows(f"K of {number}", n) if number < AHEAD else self._fill(number, worker)
        chunk.V, chunk.Y = self._rows(f"V {owner}", n), self._rows(f"Y {owner}", n)
        if self.xp is np:
            chunk.V[...] = chunk.K
            multiply_rows(self.inverse, chunk.V)
        else:
            product(chunk.K, self.inverse.T, chunk.V)
        product(chunk.V, self.R, chunk.Y)
        chunk.mean = chunk.V @ self.q.mean + self.source.mean_of(rows)
        chunk.within = row_products(chunk.Y, chunk.K)

    def _losses(self, chunk: _Chunk, sums: _Group, worker: int) -> None:
        rows, V = self.source.parts[chunk.number], chunk.V
        with np.errstate(over="ignore", invalid="ignore"):  # errstate is per thread
            prior = self.basis.covariances.diag(self.source.X[rows])
            variance = prior + chunk.within
            wide = (variance >= SMALL * prior).all()
            chunk.wide = self.xp is not np or bool(wide)
            if self.xp is not np:  # one read serves all chunks
                sums.wide = wide if sums.wide is None else sums.wide & wide
            if not chunk.wide:
                product(V, self.S, chunk.Y)
                variance = self.basis.residual(self.source.X[rows], V) + row_products(chunk.Y, V)
                chunk.Y -= V
            chunk.expected = self.loss(rows)(self.source.Y[rows], chunk.mean, variance)
            sums.total += chunk.expected.total
            sums.own = sums.own + chunk.expected.in_parameters
            if self.source.prior_mean is not None:
                sums.prior_mean += self.source.prior_mean.pulled(self.source.X[rows], chunk.expected.in_mean)

    def _add_gram(self, chunk: _Chunk, sums: _Group, worker: int) -> None:
        """V·diag(s̄)Vᵀ."""
        V, weights = chunk.V, chunk.expected.in_variance
        with np.errstate(over="ignore", invalid="ignore"):
            positive = self.xp is np and bool((weights > 0.0).all())
            accumulate(sums.moment, V.T, chunk.expected.in_mean)
            # V is free afterwards
            sums.gram.add(V, weights, V if positive else self._rows(f"scaled {worker}", V.shape[0]))

    def _pull(self, chunk: _Chunk, sums: _Group, worker: int) -> None:
        X, Y, q, expected = self.source.X[self.source.parts[chunk.number]], chunk.Y, self.q, chunk.expected
        slopes = 2.0 * expected.in_variance
        with np.errstate(over="ignore", invalid="ignore"):
            if chunk.wide and q.P == 1:
                sums.pull.rows(X, Y, slopes, expected.in_mean[:, 0], self.weights[0], chunk.K)
            else:
                Y *= slopes[:, None]
                add_product(expected.in_mean, self.weights if chunk.wide else q.mean.T, Y)
                if not chunk.wide:
                    multiply_rows(self.inverse, Y, transposed=True)
                sums.pull.lifted(X, Y, chunk.K, chunk.V)
            sums.pull.diagonal(X, expected.in_variance)

    # ------------------------------------------------------------------ from the losses to the derivatives

    def _priced(self, worker: int) -> None:
        first, *others = self.groups
        take = self.basis.readings.take
        wide = take(first.wide if first.wide is not None else True)
        total = take(sum((each.total for each in others), first.total))
        self.own = take(sum((each.own for each in others), first.own))
        if not wide.numbers:
            raise _Inaccurate
        self.total, self.divergence = float(total), self.kl()
        self.moment = sum((each.moment for each in others), first.moment)
        self.value, self.in_total, self.in_kl = self.price(self.total, self.divergence)

    def _evaluation(self) -> Evaluation:
        q, (first, *others) = self.q, self.groups
        pulled = sum((each.pull.statistics() for each in others), first.pull.statistics())
        for _, part in sorted(self.pulls, key=lambda each: each[0]):
            pulled += part
        mean = self.in_total * self.moment + self.in_kl * q.mean
        derivatives = pulled.gradient(
            lambda: self.in_total * self.own.numbers,
            self.basis.readings,
            scale=self.in_total,
            mean=mean,
            factor=self.factor_bar,
        )
        in_mean = in_host_memory(self.in_total * sum((each.prior_mean for each in others), first.prior_mean))
        return Evaluation(self.value, replace(derivatives, prior_mean=in_mean), total=self.total, kl=self.divergence)

    def _sum(self, i: int, worker: int) -> None:
        """H in the memory of the first group; the sums have only their upper triangles."""
        rows = self.tiles[i]
        tile = self.H[rows, rows.start :]
        first, *others = (each.gram for each in self.groups)
        for other in others:
            tile += other.plus[rows, rows.start :]
        for each in (first, *others):
            if each.minus is not None:
                tile -= each.minus[rows, rows.start :]
        corner = self.H[rows, rows]
        corner[...] = mirrored(corner)
        self.H[rows.stop :, rows] = self.H[rows, rows.stop :].T

    def _slopes(self, i: int, worker: int) -> None:
        """Rows of HC, and of the derivative in C: its lower triangle times 2∂J/∂total, and that of KL."""
        rows, C, in_kl = self.tiles[i], self.q.factor, self.in_kl * self.q.P
        HC, out = self.HC[rows], self.factor_bar[rows, : rows.stop]
        HC[...] = self.H[rows]
        multiply_rows(C, HC, transposed=True)
        self.xp.multiply(HC[:, : rows.stop], 2.0 * self.in_total, out=out)
        out += C[rows, : rows.stop] if in_kl == 1.0 else in_kl * C[rows, : rows.stop]
        corner = out[:, rows]
        slopes = in_kl / C[rows, rows].diagonal()
        self._on_diagonal(corner, lambda entries: entries - slopes)
        clear_above(corner)
        self.factor_bar[rows, rows.stop :] = 0.0

    def _outer(self, i: int, worker: int) -> None:
        """Rows of TL⁻¹."""
        rows, stop = self.tiles[i], self.tiles[i].stop
        tile = self.T[rows, :stop]
        tile[...] = self.H[rows, :stop]
        add_product(self.q.factor[rows, :stop], self.HC[:stop, :stop].T, tile, scale=2.0, keep=-2.0)
        add_product(self.q.mean[rows], self.moment[:stop].T, tile)
        corner = tile[:, rows]
        self._on_diagonal(corner, lambda entries: 0.5 * entries)
        clear_above(corner)
        multiply_rows(self.inverse[:stop, :stop], tile, transposed=True)

    def _lifted(self, i: int, worker: int) -> None:
        """Rows of G; TL⁻¹ has entries up to the diagonal tile only."""
        rows = self.tiles[i]
        for columns in (slice(0, rows.stop), *self.tiles[i + 1 :]):
            start = max(rows.start, columns.start)
            product(self.inverse[start:, rows].T, self.T[start:, columns], self.G[rows, columns])

    def _pulled(self, rows: slice, worker: int) -> None:
        """Derivatives of ⟨K̄uu, Kuu⟩ = −⟨G, Kuu⟩ through these rows of G."""
        trace = self.G[rows, rows].trace()
        with np.errstate(over="ignore", invalid="ignore"):
            parameters, moved, own = pull_both(self.basis.covariances, rows, self.G[rows], self.Kuu[rows])
            if self.basis.relative_jitter:
                added, shift = self.basis.pull_largest(self.basis.relative_jitter * trace)
                parameters = parameters + added
                if shift is not None:
                    moved += shift
        moved[rows] += own
        self.pulls.append((rows.start, Pulled(-parameters, -moved)))
