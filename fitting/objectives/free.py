"""Any function J of KL(q‖p) and of a sum of expected losses over the rows, for sparse posteriors q.

PAC-Bayes bounds, variational objectives and direct loss minimisation are functions J of this kind.  Under
q(v) = N(w, S), row i has the mean m_i = wᵀv_i, plus the prior mean, and the latent variance s_i = r_i + v_iᵀSv_i.
O(NM²) time, O(M² + M·chunk + N) memory.  With m̄ and s̄ the derivatives of J in means and variances, H = V·diag(s̄)Vᵀ and
w̄ = Vm̄ + ∂J/∂w,

    V̄ = wm̄ᵀ + 2(S − I)V·diag(s̄),   V̄Vᵀ = w(Vm̄)ᵀ + 2(S − I)H,   r̄ = s̄

(2S in place of 2(S − I) for features whose Q is K, as r = 0 then), and for the collapsed posteriors of FITC, VFE and
DTC, S = (I + VCVᵀ)⁻¹ and w = SVCY with c = 1/(σ² + a·r), these terms are added to V̄, V̄Vᵀ and r̄:

    2ĀVC + b̄(CY)ᵀ − 2V·diag(aD̄),   2ĀG + b̄bᵀ − 2V·diag(aD̄)Vᵀ,   aD̄,
    b̄ = Sw̄,   Ā = −S(H + ∂J/∂S)S − ½(b̄wᵀ + wb̄ᵀ),   D̄_i = −c_i²(v_iᵀĀv_i + b̄ᵀv_i·y_i).

As SG = I − S, b = S⁻¹w and ∂KL/∂S = −½PG, their V̄Vᵀ is ∂J/∂KL·(P(I − S) − wwᵀ) − 2Ā − 2V·diag(r̄)Vᵀ: no product.

Cost in units of NM² flops: 9 for a collapsed posterior if SV is kept between the passes (V 1, G 1, SV 2, H 1, ĀV 2,
V·diag(r̄)Vᵀ 1 where a > 0, the pull-back through L 1), and 5 for a free posterior.  It is 4 (V 1, Y 2, H 1) where L⁻¹ is
so accurate that Y = L⁻ᵀ(S − I)V, the cotangent of Kuf up to factors and a rank-one term, gives the variances, too:

    s_i = k_ii + k_iᵀy_i,      K̄uf = 2Y·diag(s̄) + L⁻ᵀw·m̄ᵀ.

On a CPU it is 7 for a collapsed posterior with a = 0, whose rows have one weight c (V 1, G 1, Y 2, H 1, L⁻ᵀĀV 2).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol, runtime_checkable

import numpy as np

from fitting.objectives.collapsed import Diagonal
from fitting.objectives.losses import Expected, ExpectedLoss
from fitting.objectives.point import Evaluation, Price
from fitting.prior_means import derivatives as in_host_memory
from fitting.rows.basis import Basis, InducingBasis, InducingPullBack, Pulled, tame
from fitting.rows.stream import Chunk, Stream
from gpbounds.arrays import Array, Float, is_cupy, namespace
from gpbounds.kernels.covariances import Covariances, covariances, pull_both
from gpbounds.kernels.fused import Fused
from gpbounds.law import FactorLaw, GramLaw, Law
from gpbounds.linalg import cholesky
from gpbounds.linalg.device import noise_slopes
from gpbounds.linalg.parallel import WORTH, Name, Tasks, share
from gpbounds.linalg.products import accumulate, add_gram, add_product, matmul, product, row_products, row_sums
from gpbounds.linalg.psd import cholesky_unread
from gpbounds.linalg.triangular import clear_above, inverse_factor, mirrored, multiply_rows
from gpbounds.rows.program import Statistics
from gpbounds.whitening import slices

# Σ_i s_i v_i v_iᵀ with weights of either sign, at half the cost of a product of two matrices.


class SignedGram:
    """Rows with s > 0 and rows with s < 0 are summed separately, by rank-k updates with √|s|·v.

    >>> total = SignedGram(np.zeros((2, 2)))
    >>> V = np.array([[1.0, 2.0], [0.0, 1.0]])
    >>> total.add(V, np.array([1.0, -4.0]), np.empty((2, 2)))
    >>> total.sum().tolist()
    [[1.0, 2.0], [2.0, 0.0]]
    """

    def __init__(self, plus: Array, minus: Array | None = None, *, new: bool = False) -> None:
        """``minus`` None stands for 0; it gets memory with the first row of a negative weight.

        With ``new`` the entries of ``plus`` are arbitrary, and the first call of `add` overwrites them.
        """
        self.plus, self.minus, self._keep = plus, minus, 0.0 if new else 1.0

    def add(self, V: Array, weights: Array, scratch: Array) -> None:
        """Add the rows of ``V`` (n, M) with ``weights`` (n,); ``scratch`` (n, M) is overwritten.

        On a CPU ``scratch`` may be ``V`` where all weights are positive.
        """
        xp, keep = namespace(V), self._keep
        self._keep = 1.0
        if xp is not np:
            add_product(V.T, xp.multiply(V, weights[:, None], out=scratch), self.plus, keep=keep)
            return
        if weights.size and (weights == weights[0]).all() and weights[0] > 0.0:  # as of a Gaussian likelihood
            add_gram(self.plus, V, keep=keep, scale=float(weights[0]))
            return
        if (weights > 0.0).all():
            add_gram(self.plus, np.multiply(V, np.sqrt(weights)[:, None], out=scratch), keep=keep)
            return
        if keep == 0.0:
            self.plus[...] = 0.0
        for sign in (1.0, -1.0):
            chosen = np.flatnonzero(sign * weights > 0.0)
            if chosen.size:
                rows = np.take(V, chosen, axis=0, out=scratch[: chosen.size], mode="clip")
                rows *= np.sqrt(sign * weights[chosen])[:, None]
                add_gram(self.plus if sign > 0.0 else self._subtracted(), rows)

    def _subtracted(self) -> Array:
        if self.minus is None:
            self.minus = np.zeros_like(self.plus)
        return self.minus

    def __add__(self, other: SignedGram) -> SignedGram:
        parts = [each for each in (self.minus, other.minus) if each is not None]
        return SignedGram(self.plus + other.plus, sum(parts[1:], parts[0]) if parts else None)

    def sum(self) -> Array:
        """The symmetric matrix."""
        return mirrored(self.plus if self.minus is None else self.plus - self.minus)


# J at a free q(v) = N(w, CCᵀ) with inducing points, in one pass of 4 NM² flops, as long as L⁻¹ is accurate.
#
# With R = (S − I)L⁻¹ the rows y_i of Y = VR give the variances and the cotangent of Kuf:
#
#     s_i = k_ii + k_iᵀy_i,      K̄uf = 2·diag(s̄)Y + m̄wᵀL⁻¹.
#
# Of Kuu and its cotangent one triangle is needed.  With T the lower triangle of V̄Vᵀ, half of its diagonal,
#
#     V̄Vᵀ = w(Vm̄)ᵀ + 2(S − I)H,      K̄uu = −½(G + Gᵀ),      G = L⁻ᵀTL⁻¹.
#
# All M × M matrices are computed by tiles of rows, in lanes that wait for each other only where a tile needs others.
# Losses and pull-backs are many short calls of NumPy: two lanes that both make them wait for Python's lock, which takes
# longer than the calls.  One lane at a time computes these, while another multiplies.  The size of the problem
# determines tiles and groups, so that results do not depend on the number of lanes.  The memory belongs to the
# workspace of the data, because fresh pages cost as much time as the arithmetic on them.

SMALL = 1e-6
"""Least variance of f, in units of k(x, x), that is computed as k(x, x) + kᵀy: rounding, below 1e-12, stays small
beside it.  Where a row has less, a CPU computes its chunk in another way, and a GPU the whole pass."""

NARROW, TILES = 128, 8
"""Least number of rows of a tile, and the largest number of tiles."""

_AHEAD = 4
"""Chunks whose covariances one lane computes while another factorises Kuu.  A pass of at most so many chunks, each of
them a group, is cut into stages: one lane computes losses and pull-backs, which are many short calls, while another
multiplies."""


def turned(
    source: Stream,
    basis: InducingBasis,
    q: FactorLaw,
    loss: Callable[[slice], ExpectedLoss],
    price: Price,
    *,
    in_covariance: bool = False,
) -> Evaluation | None:
    """J with its derivatives, those in q as `Parameters` says; ``loss`` gives the losses of the rows of a chunk.

    None where L⁻¹, or on a GPU a small variance, would be too inaccurate.
    """
    return _Step(source, basis, q, loss, price, in_covariance).run()


class _Inaccurate(Exception):
    """L⁻¹ is too inaccurate to multiply with, or a variance too small to be computed as k(x, x) + kᵀy."""


class _Group:
    """The sums over the chunks of a group."""

    def __init__(self, basis: InducingBasis, gram: Array, P: int) -> None:
        self.total: Any = 0.0
        self.prior_mean: Any = 0.0
        self.in_parameters: Float | float = 0.0
        self.moment = namespace(gram).zeros((gram.shape[0], P))
        self.wide: Any = None
        self.gram, self.pull = SignedGram(gram, new=True), InducingPullBack(basis)


class _Chunk:
    """The arrays of one chunk in the course of the pass."""

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
        self,
        source: Stream,
        basis: InducingBasis,
        q: FactorLaw,
        loss: Callable[[slice], ExpectedLoss],
        price: Price,
        in_covariance: bool,
    ) -> None:
        self.source, self.basis, self.q, self.loss, self.price = source, basis, q, loss, price
        self.in_covariance = in_covariance
        self.kernel, self.Z, self.xp, self.M = basis.kernel, basis.Z, namespace(source.X), basis.rank
        self.tiles = self._tiles()
        two = [self.tiles[i : i + 2] for i in range(0, len(self.tiles), 2)]
        self.pairs = [slice(pair[0].start, pair[-1].stop) for pair in two]
        self.flops = 6.0 * self.M**2 * max(self.M, source.N) if self.xp is np else 0.0
        self.weights = self.xp.empty((q.P, self.M))
        self.pulls: list[tuple[int, Pulled]] = []  # by pair of tiles
        names = ("L", "inverse", "S", "R", "q bar")
        self.L, self.inverse, self.S, self.R, self.q_bar = map(self._square, names)
        self.Kuu = [
            source.space.array(f"step Kuu {p}", (rows.stop - rows.start, rows.stop), self.xp)
            for p, rows in enumerate(self.pairs)
        ]
        self.groups = [_Group(basis, self._square(f"gram {g}"), q.P) for g in range(source._groups())]
        self.by_stages = len(source.parts) == len(self.groups) <= _AHEAD
        self.H = self.groups[0].gram.plus
        self.T, self.G = self.L, self.R  # in memory that is free then

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
        L, S, R, H, slopes = ([(name, i) for i in tiles] for name in ("L", "S", "R", "gram 0", "q bar"))
        Kuu = [("Kuu", p) for p in range(len(self.pairs))]
        T, G = L, R  # in memory that is free then, as H is
        for p in range(len(self.pairs)):
            tasks.add(partial(self._fill_Kuu, p), writes=[Kuu[p]])
        tasks.add(self._factor, reads=Kuu, writes=[*L, "inverse", "weights"])
        for i in reversed(tiles):  # the longest first
            tasks.add(partial(self._covariance, i), writes=[S[i]])
        tasks.add(self._divergence, writes=["kl"])
        for number in range(len(self.source.parts))[:_AHEAD]:
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
            tasks.add(partial(self._slopes, i), reads=["price", *H[: i + 1]], writes=[slopes[i]])
        for i in reversed(tiles):
            tasks.add(partial(self._outer, i), reads=["price", "inverse", *S, *H[: i + 1]], writes=[T[i]])
        for p in range(len(self.pairs)):
            own = tiles[2 * p : 2 * p + 2]
            for i in own:
                tasks.add(partial(self._lifted, i), reads=["inverse", *T[i:]], writes=[G[i]])
            tasks.add(
                partial(self._pulled, p), reads=[*(G[i] for i in own), Kuu[p]], writes=[("pulled", p)], alone=True
            )
        try:
            tasks.run(self.flops)
        except _Inaccurate:
            return None
        return self._evaluation()

    def _add_chunks(self, tasks: Tasks, S: Sequence[Name], R: Sequence[Name]) -> list[Callable[[], None]]:
        """Add the tasks that sum each group; returns calls that add the tasks of the pull-backs, for later."""
        parts, count, tiles = range(len(self.source.parts)), len(self.groups), range(len(self.tiles))
        gram = [[(f"gram {g}", i) for i in tiles] for g in range(count)]
        if not self.by_stages:
            for g, group in enumerate(self.groups):
                ahead = [("K", number) for number in parts[g::count] if number < _AHEAD]
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

    def _columns(self, p: int) -> Covariances | Fused:
        """k(·, Z) for the points up to those of pair p of tiles: right of it Kuu and its cotangent are not computed."""
        stop = self.pairs[p].stop
        return self.basis.covariances if stop == self.M else covariances(self.kernel, self.Z[:stop])

    def _fill_Kuu(self, p: int, worker: int) -> None:
        self._columns(p).fill(self.Z[self.pairs[p]], self.Kuu[p])

    def _factor(self, worker: int) -> None:
        basis = self.basis
        if self.xp is np:
            for rows, K in zip(self.pairs, self.Kuu, strict=True):
                self.L[rows, : rows.stop] = K
            cholesky(self.L, float(basis.jitter), name="Kuu", overwrite=True)
        else:
            self.L[...] = cholesky_unread(self.Kuu[0], float(basis.jitter), "Kuu", basis.readings).L
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
        K = self._rows(f"K of {number}" if number < _AHEAD else f"K {worker}", rows.stop - rows.start)
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
        chunk.K = self._rows(f"K of {number}", n) if number < _AHEAD else self._fill(number, worker)
        chunk.V, chunk.Y = self._rows(f"V {owner}", n), self._rows(f"Y {owner}", n)
        if self.xp is np:
            chunk.V[...] = chunk.K
            multiply_rows(self.inverse, chunk.V, whole=True)
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
            sums.in_parameters = sums.in_parameters + chunk.expected.in_parameters
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
                    multiply_rows(self.inverse, Y, transposed=True, whole=True)
                sums.pull.lifted(X, Y, chunk.K, chunk.V)
            sums.pull.diagonal(X, expected.in_variance)

    # ------------------------------------------------------------------ from the losses to the derivatives

    def _priced(self, worker: int) -> None:
        first, *others = self.groups
        take = self.basis.readings.take
        wide = take(first.wide if first.wide is not None else True)
        total = take(sum((each.total for each in others), first.total))
        self.in_parameters = take(sum((each.in_parameters for each in others), first.in_parameters))
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
            lambda: self.in_total * self.in_parameters.numbers,
            self.basis.readings,
            scale=self.in_total,
            mean=mean,
            **{"covariance" if self.in_covariance else "factor": self.q_bar},
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
        """Rows of the derivative of the losses in S; or of J in C: the lower triangle of 2HC, and that of KL."""
        rows, stop, C, in_kl = self.tiles[i], self.tiles[i].stop, self.q.factor, self.in_kl * self.q.P
        out = self.q_bar[rows, :stop]
        self.q_bar[rows, stop:] = 0.0
        self.xp.multiply(self.H[rows, :stop], self.in_total if self.in_covariance else 2.0 * self.in_total, out=out)
        if self.in_covariance:
            return
        multiply_rows(C[:stop, :stop], out, transposed=True)
        if stop < self.M:
            add_product(self.H[rows, stop:], C[stop:, :stop], out, scale=2.0 * self.in_total)
        out += C[rows, :stop] if in_kl == 1.0 else in_kl * C[rows, :stop]
        corner = out[:, rows]
        slopes = in_kl / C[rows, rows].diagonal()
        self._on_diagonal(corner, lambda entries: entries - slopes)
        clear_above(corner)

    def _outer(self, i: int, worker: int) -> None:
        """Rows of TL⁻¹."""
        rows, stop = self.tiles[i], self.tiles[i].stop
        tile = self.T[rows, :stop]
        tile[...] = self.H[rows, :stop]
        add_product(self.S[rows], self.H[:, :stop], tile, scale=2.0, keep=-2.0)
        add_product(self.q.mean[rows], self.moment[:stop].T, tile)
        corner = tile[:, rows]
        self._on_diagonal(corner, lambda entries: 0.5 * entries)
        clear_above(corner)
        multiply_rows(self.inverse[:stop, :stop], tile, transposed=True)

    def _lifted(self, i: int, worker: int) -> None:
        """Rows of G to the end of the pair of tiles, left of which Gᵀ is added; TL⁻¹ ends with the diagonal tile."""
        rows, pair = self.tiles[i], self.pairs[i // 2]
        product(self.inverse[rows.start :, rows].T, self.T[rows.start :, : rows.stop], self.G[rows, : rows.stop])
        if pair.start:
            left = slice(0, pair.start)
            add_product(self.T[rows.start :, rows].T, self.inverse[rows.start :, left], self.G[rows, left])
        if rows.stop < pair.stop:
            right = slice(rows.stop, pair.stop)
            product(self.inverse[right.start :, rows].T, self.T[right.start :, right], self.G[rows, right])

    def _pulled(self, p: int, worker: int) -> None:
        """Derivatives of ⟨K̄uu, Kuu⟩ = −⟨G, Kuu⟩ through the rows of a pair of tiles, and of the columns left of it."""
        rows = self.pairs[p]
        trace = self.G[rows, rows].trace()
        with np.errstate(over="ignore", invalid="ignore"):
            parameters, moved, own = pull_both(self._columns(p), rows, self.G[rows, : rows.stop], self.Kuu[p])
            moved[rows] += own
            if rows.stop < self.M:
                moved = np.concatenate([moved, np.zeros((self.M - rows.stop, moved.shape[1]))])
            if self.basis.relative_jitter:
                added, shift = self.basis.pull_largest(self.basis.relative_jitter * trace)
                parameters = parameters + added
                if shift is not None:
                    moved += shift
        self.pulls.append((p, Pulled(-parameters, -moved)))


# Any function J of KL(q‖p) and of a sum of expected losses over the rows, for sparse posteriors q.


@runtime_checkable
class LossOfRows(Protocol):
    """An expected loss that depends on which rows it gets, such as one with random samples for each row."""

    def at(self, rows: slice) -> ExpectedLoss:
        """The expected losses of the rows at these positions among all rows; threads call it concurrently."""


@runtime_checkable
class LossOfResiduals(Protocol):
    """An expected loss that depends on the diagonal of K − Q also at fixed variances; for a free q only."""

    def given(self, residual: Array) -> ExpectedLoss:
        """The expected losses of rows with this diagonal of K − Q."""


Losses = ExpectedLoss | LossOfRows | LossOfResiduals
"""The losses that the functions of this module accept."""


def collapsed(
    member: Diagonal, source: Stream, loss: Losses, price: Price, *, gradient: bool = True, in_power: bool = False
) -> Evaluation:
    """J at the posterior q of ``member``, with derivatives in (kernel, log σ², Z), and on request in its power."""
    q, _ = member.posterior(source)
    turn = turn_of(member, source.basis, q)
    priced = Priced.of(q, losses_under(q, source, loss, gradient=gradient, turn=turn), price, gradient=gradient)
    if priced.adjoint is None:
        return priced.evaluation
    back = backward(member, source, loss, priced, in_power=in_power)
    return priced.whole(member, source.basis, back, in_power=in_power)


# The steps of `collapsed` after the posterior.  Sums of several sets of rows can be added between them.


def turn_of(member: Diagonal, basis: Basis, q: GramLaw) -> Array | None:
    """(S − I)L⁻¹, with which both passes over the losses get Y from V; None where they need SV."""
    if member.power > 0.0 or is_cupy(q.G) or not isinstance(basis, InducingBasis) or basis.inverse is None:
        return None
    return basis.lift(-q.gained)


def losses_under(q: Law, source: Stream, loss: Losses, *, gradient: bool, turn: Array | None = None) -> LossSums:
    """The pass over the losses; without ``gradient`` it computes their sum only."""
    return source.reduce(lambda: _Losses(q, source, loss, gradient, turn))


def natural_under(q: Law, source: Stream, loss: Losses) -> tuple[float, Array, Array]:
    """The sum of the losses under q, the natural parameters [S⁻¹ − I, S⁻¹w] of the next q, and its sites b, λ (2, N).

    The sites replace the likelihood where the sum of the losses and KL(q‖p) count once; other multiples multiply them.
    """
    source.forget("expected")
    sites = namespace(source.X).empty((2, source.N))
    sums = source.reduce(lambda: _Sites(q, source, loss, sites))
    G = 2.0 * sums.gram.sum()
    return float(sums.total), namespace(G).concatenate([G, G @ q.mean - sums.mean], axis=1), sites


def backward(member: Diagonal, source: Stream, loss: Losses, priced: Priced, *, in_power: bool = False) -> Adjoints:
    """The last pass; with ``in_power`` it sums the derivative in the power, too."""
    adjoint = priced.adjoint
    assert adjoint is not None
    turn = turn_of(member, source.basis, priced.q)
    if turn is not None:
        adjoint = adjoint.lifted(source.basis, 1.0 / member.noise, turn)
    return source.reduce(lambda: _Reverse(member, priced.q, source, loss, adjoint, in_power))


@dataclass(frozen=True, eq=False)
class Priced:
    """J at a collapsed posterior, and what the last pass needs."""

    q: GramLaw
    losses: LossSums  # of all rows
    evaluation: Evaluation  # without derivatives
    adjoint: _Adjoint | None  # if derivatives are computed

    @classmethod
    def of(cls, q: GramLaw, losses: LossSums, price: Price, *, gradient: bool) -> Priced:
        """From the sums over all rows."""
        unread, divergence = q.readings.take(losses.total), q.kl_unread(q.readings)
        total, kl = float(unread), divergence()
        value, in_total, in_kl = price(total, kl)
        adjoint = _Adjoint.of(q, losses, in_total, in_kl) if gradient else None
        return cls(q, losses, Evaluation(value, None, total=total, kl=kl), adjoint)

    def whole(self, member: Diagonal, basis: Basis, back: Adjoints, *, in_power: bool = False) -> Evaluation:
        """J with its derivatives, from the sums of the last pass."""
        q, adjoint = self.q, self.adjoint
        assert adjoint is not None
        across = adjoint.in_kl * (q.P * q.gained - q.mean @ q.mean.T) - adjoint.twice
        across -= 2.0 * (back.gram.sum() if member.power > 0.0 else adjoint.H)
        through_q = back.noise
        if member.power == 0.0 and not is_cupy(q.G):  # ΣD̄, as VVᵀ = σ²G and Vy = σ²S⁻¹w
            ends = 0.5 * (adjoint.twice * q.G).sum() + (adjoint.b_bar * (q.precision @ q.mean)).sum()
            through_q = -ends / member.noise
        noise, others = basis.readings.take(through_q), basis.readings.take(self.losses.in_parameters)
        power = basis.readings.take(back.power)

        def in_likelihood() -> Float:
            derivative = np.array([member.noise * float(noise)])
            if others.numbers.size:  # the noise in the loss is the noise of the member
                derivative += adjoint.in_total * others.numbers
            return derivative

        pulled = basis.finish(back.pulled, across)
        derivatives = pulled.gradient(in_likelihood, basis.readings)
        return replace(self.evaluation, gradient=replace(derivatives, power=float(power)) if in_power else derivatives)


def free(
    source: Stream, q: FactorLaw, loss: Losses, price: Price, *, gradient: bool = True, in_covariance: bool = False
) -> Evaluation:
    """J at a free q(v) = N(w, CCᵀ), with derivatives in the kernel, the parameters of the loss, Z, w and C.

    ``in_covariance`` as for `fitting.objectives.point.Parameters`.
    """
    if not gradient:
        return free_value(source.basis, q, losses_under(q, source, loss, gradient=False), price)
    if isinstance(source.basis, InducingBasis) and not isinstance(loss, LossOfResiduals):
        evaluation = turned(
            source,
            source.basis,
            q,
            lambda rows: loss.at(rows) if isinstance(loss, LossOfRows) else loss,
            price,
            in_covariance=in_covariance,
        )
        if evaluation is not None:
            return evaluation
    _prepare(source, q)
    sums = free_sums(q, source, loss)
    return free_whole(source.basis, q, sums, price, overwrite=True, in_covariance=in_covariance)


def free_sums(q: FactorLaw, source: Stream, loss: Losses) -> SingleSums:
    """The single pass for a free q.  Sums of several sets of rows can be added."""
    return source.reduce(lambda: _Single(q, source, loss))


def free_value(basis: Basis, q: FactorLaw, sums: LossSums, price: Price) -> Evaluation:
    """J from the sums over all rows."""
    unread, divergence = basis.readings.take(sums.total), q.kl_unread(basis.readings)
    total, kl = float(unread), divergence()
    return Evaluation(price(total, kl)[0], None, total=total, kl=kl)


def free_whole(
    basis: Basis,
    q: FactorLaw,
    sums: SingleSums,
    price: Price,
    *,
    overwrite: bool = False,
    in_covariance: bool = False,
) -> Evaluation:
    """J with its derivatives, from the sums over all rows, whose memory it takes if it may ``overwrite`` them."""
    xp, readings = namespace(q.mean), basis.readings
    unread, in_loss, divergence = readings.take(sums.total), readings.take(sums.in_parameters), q.kl_unread(readings)
    total, kl = float(unread), divergence()
    value, in_total, in_kl = price(total, kl)
    H, moment = sums.gram.sum(), sums.mean
    HC = multiply_rows(q.factor, H.copy(), transposed=True)
    across = multiply_rows(q.factor, HC.copy())  # HS
    across -= H
    if isinstance(sums.by_residual, SignedGram):
        across -= sums.by_residual.sum()
    across *= 2.0
    across += moment @ q.mean.T
    pulled = basis.finish(sums.pulled, across.T)
    law = {"mean": in_total * moment + in_kl * q.mean}
    if in_covariance:
        law["covariance"] = in_total * H
    else:
        law["factor"] = 2.0 * in_total * xp.tril(HC) + in_kl * q.kl_in_factor
    derivatives = pulled.gradient(
        lambda: in_total * in_loss.numbers, readings, scale=in_total, overwrite=overwrite, **law
    )
    in_mean = in_host_memory(in_total * sums.prior_mean)
    return Evaluation(value, replace(derivatives, prior_mean=in_mean), total=total, kl=kl)


def _prepare(source: Stream, q: FactorLaw) -> None:
    """Compute L⁻¹ and S, which several threads read later; two lanes share this."""
    if namespace(source.X) is np and q.M**3 >= WORTH:
        share(2, lambda task, worker: source.basis.prepare() if task == 0 else q.covariance, flops=float(q.M**3))


@dataclass(frozen=True, eq=False)
class LossSums(Statistics):
    """The sum of the losses, its derivatives in the parameters of the loss, Vm̄, V·diag(s̄)Vᵀ, and Hᵀm̄."""

    total: Array | float
    in_parameters: Array
    mean: Array
    gram: SignedGram
    prior_mean: Array | float


class _Losses:
    """The pass over the losses; without ``gradient`` it computes their sum only."""

    def __init__(self, q: Law, source: Stream, loss: Losses, gradient: bool, turn: Array | None = None) -> None:
        xp, M = namespace(source.X), source.basis.rank
        self.q, self.loss, self.gradient, self.turn = q, loss, gradient, turn
        self.total: Array | float = 0.0
        self.prior_mean: Array | float = 0.0
        self.in_parameters: Array | None = None
        self.mean, self.gram = xp.zeros((M, source.P)), SignedGram(source.square())
        q.covariance  # noqa: B018  (computed once, before several threads read it)

    def chunk(self, chunk: Chunk) -> None:
        self.add(chunk, _losses(chunk, self.q, self.loss, self.turn)[1])

    def add(self, chunk: Chunk, expected: Expected) -> None:
        """Add the losses of one chunk."""
        self.total += expected.total
        in_parameters = expected.in_parameters
        self.in_parameters = in_parameters if self.in_parameters is None else self.in_parameters + in_parameters
        if self.gradient:
            accumulate(self.mean, chunk.V.T, expected.in_mean)
            self.prior_mean += chunk.in_prior_mean(expected.in_mean)
            self.gram.add(chunk.V, expected.in_variance, chunk.scratch("S"))

    def statistics(self) -> LossSums:
        in_parameters = np.zeros(0) if self.in_parameters is None else self.in_parameters
        return LossSums(self.total, in_parameters, self.mean, self.gram, self.prior_mean)


class _Sites(_Losses):
    """The pass over the losses of one output that also writes the ``sites``; for `_Single`, each chunk keeps them."""

    def __init__(self, q: Law, source: Stream, loss: Losses, sites: Array) -> None:
        super().__init__(q, source, loss, True)
        self.sites = sites

    def chunk(self, chunk: Chunk) -> None:
        V = chunk.V
        mean, within = V @ self.q.mean, row_products(V, product(V, self.q.covariance, chunk.scratch("W")))
        variance = chunk.residual + within
        loss = _at(self.loss, chunk)
        expected = chunk.recall("expected", lambda: loss(chunk.targets, mean + chunk.prior_mean, variance))
        self.add(chunk, expected)
        curvatures = 2.0 * expected.in_variance
        self.sites[0, chunk.rows] = curvatures * mean[:, 0] - expected.in_mean[:, 0]
        self.sites[1, chunk.rows] = curvatures


def _losses(chunk: Chunk, q: Law, loss: Losses, turn: Array | None) -> tuple[Array, Expected]:
    """v_iᵀSv_i (n,) and the expected losses of the chunk, which keeps both, and SV or, with ``turn``, Y."""

    def compute() -> tuple[Array, Expected]:
        V = chunk.V
        turned = chunk.kept("SV", lambda out: product(V, q.covariance if turn is None else turn, out))
        within = row_products(turned, V if turn is None else chunk.K)
        if turn is not None:
            assert isinstance(chunk.basis, InducingBasis)
            prior = chunk.basis.covariances.diag(chunk.X)
            within += prior - chunk.residual
            if (within + chunk.residual < SMALL * prior).any():
                within = row_products(V, product(V, q.covariance, chunk.scratch("S")))
        mean = V @ q.mean + chunk.prior_mean
        return within, _at(loss, chunk)(chunk.targets, mean, chunk.residual + within)

    return chunk.recall("losses", compute)


def _at(loss: Losses, chunk: Chunk) -> ExpectedLoss:
    """The loss for the rows of a chunk."""
    if isinstance(loss, LossOfResiduals):
        return loss.given(chunk.residual)
    return loss.at(chunk.rows) if isinstance(loss, LossOfRows) else loss


@dataclass(frozen=True, eq=False)
class _Adjoint:
    """The matrices that the last pass over a collapsed posterior needs besides q."""

    in_total: float
    in_kl: float
    H: Array
    twice: Array  # 2Ā
    b_bar: Array
    rank: Array  # the columns w and b̄
    turn: Array | None = None  # from `turn_of`, after `lifted`

    @classmethod
    def of(cls, q: GramLaw, losses: LossSums, in_total: float, in_kl: float) -> _Adjoint:
        """From the derivatives of J in the sum of the losses and in KL."""
        S, moment, H = q.covariance, in_total * losses.mean, in_total * losses.gram.sum()
        b_bar = S @ (moment + in_kl * q.mean)
        cross = b_bar @ q.mean.T
        twice = -2.0 * matmul(matmul(S, H + in_kl * q.kl_in_covariance), S) - cross - cross.T
        return cls(in_total, in_kl, H, twice, b_bar, namespace(S).concatenate([q.mean, b_bar], axis=1))

    def lifted(self, basis: Basis, c: float, turn: Array) -> _Adjoint:
        """With cL⁻ᵀ·2Ā, L⁻ᵀw and cL⁻ᵀb̄ in place of 2Ā, w and b̄, for rows of one weight ``c``."""
        rank = basis.lift(self.rank.T.copy())
        rank[self.b_bar.shape[1] :] *= c
        return replace(self, twice=basis.lift(c * self.twice), rank=rank.T, turn=turn)


@dataclass(frozen=True, eq=False)
class Adjoints(Statistics):
    """Sums of the last pass: pulled-back cotangents, V·diag(r̄)Vᵀ where a > 0, and the part of ∂J/∂σ² through q.

    ``power`` is ∂J/∂a = Σ D̄r if that is asked for.
    """

    pulled: Pulled
    gram: SignedGram
    noise: Array | float
    power: Array | float = 0.0


class _Reverse:
    """The last pass over a collapsed posterior: V̄ by chunks, and V·diag(r̄)Vᵀ where a > 0.

    With D = 1/c, it assembles V̄/c = 2SV·diag(s̄D) + 2ĀV + w(m̄D)ᵀ + b̄yᵀ − 2V·diag(r̄D).
    """

    def __init__(
        self, member: Diagonal, q: GramLaw, source: Stream, loss: Losses, adjoint: _Adjoint, in_power: bool
    ) -> None:
        self.member, self.q, self.loss, self.adjoint = member, q, loss, adjoint
        self.in_power = in_power
        self.power: Array | float = 0.0
        self.pull, self.noise = source.pull_back(), 0.0
        self.gram = SignedGram(source.square())

    def chunk(self, chunk: Chunk) -> None:
        more, V, a = self.adjoint, chunk.V, self.member.power
        xp = namespace(V)
        within, expected = _losses(chunk, self.q, self.loss, more.turn)
        m_bar, s_bar = more.in_total * expected.in_mean, more.in_total * expected.in_variance
        if more.turn is not None:
            self._lifted(chunk, m_bar, s_bar, more.turn)
            return
        D = self.member.noise + a * chunk.residual
        bar = chunk.kept("SV", lambda out: product(V, self.q.covariance, out), last=True)
        scaled = s_bar * D
        bar *= (2.0 * scaled)[:, None]
        add_product(V, more.twice, bar)
        D_bar, r_bar = _slopes(row_products(V, bar), row_sums(V @ more.b_bar, chunk.Y), within * scaled, D, s_bar, a)
        self.noise += D_bar.sum()
        if self.in_power:
            self.power += D_bar @ chunk.residual
        buffer = chunk.scratch("S")
        if not chunk.basis.exact:  # r_i contains −|v_i|²
            bar -= xp.multiply(V, (2.0 * D * r_bar)[:, None], out=buffer)
        add_product(xp.concatenate([m_bar * D[:, None], chunk.Y], axis=1), more.rank.T, bar)
        bar /= D[:, None]
        if a > 0.0:
            self.gram.add(V, r_bar, buffer)
        self.pull.features(chunk.X, bar, chunk.K, chunk.V)
        self.pull.diagonal(chunk.X, r_bar)

    def _lifted(self, chunk: Chunk, m_bar: Array, s_bar: Array, turn: Array) -> None:
        """As `chunk` for rows of one weight, after `_Adjoint.lifted`."""
        V, K, more = chunk.V, chunk.K, self.adjoint
        bar = chunk.kept("SV", lambda out: product(V, turn, out), last=True)
        bar *= (2.0 * s_bar)[:, None]
        before = row_products(K, bar) if self.in_power else 0.0
        add_product(V, more.twice, bar)
        if self.in_power:  # σ²D̄
            D_bar = -0.5 * (row_products(K, bar) - before) - row_sums(V @ more.b_bar, chunk.Y) / self.member.noise
            self.power += D_bar @ chunk.residual / self.member.noise
        add_product(np.concatenate([m_bar, chunk.Y], axis=1), more.rank.T, bar)
        self.pull.lifted(chunk.X, bar, K, V)
        self.pull.diagonal(chunk.X, s_bar)

    def statistics(self) -> Adjoints:
        return Adjoints(self.pull.statistics(), self.gram, self.noise, self.power)


def _slopes(both: Array, lean: Array, within: Array, D: Array, s_bar: Array, a: float) -> tuple[Array, Array]:
    """D̄ and r̄ (n,).  ``both`` is twice v·Āv + ``within``; ``within`` is at most 2|s̄|D², as c·q ≤ 1."""
    if namespace(both) is not np:
        return noise_slopes(both, lean, within, D, s_bar, a)
    quadratic = 0.5 * both - within
    D_bar = -(quadratic + lean) / (D * D)
    return D_bar, s_bar + a * D_bar


@dataclass(frozen=True, eq=False)
class SingleSums(LossSums):
    """Sums of the single pass for a free q, before they are multiplied by ∂J/∂total.

    ``by_residual`` is V·diag(∂ℓ/∂r)Vᵀ for a loss that depends on r by itself, otherwise 0.
    """

    pulled: Pulled
    by_residual: SignedGram | float


class _Single(_Losses):
    """The single pass for a free q."""

    def __init__(self, q: FactorLaw, source: Stream, loss: Losses) -> None:
        super().__init__(q, source, loss, True)
        self.pull = source.pull_back()
        depends = isinstance(loss, LossOfResiduals)
        self.by_residual: SignedGram | float = SignedGram(source.square()) if depends else 0.0

    def chunk(self, chunk: Chunk) -> None:
        V, xp = chunk.V, namespace(chunk.V)
        bar = product(V, self.q.covariance, chunk.scratch("W"))
        variance, mean = chunk.residual + row_products(V, bar), V @ self.q.mean + chunk.prior_mean
        expected = chunk.recall("expected", lambda: _at(self.loss, chunk)(chunk.targets, mean, variance))
        self.add(chunk, expected)
        if not chunk.basis.exact:  # r_i contains −|v_i|²
            bar -= V
        bar *= (2.0 * expected.in_variance)[:, None]
        add_product(expected.in_mean, self.q.mean.T, bar)
        slopes = expected.in_variance
        if expected.in_residual is not None and not chunk.basis.exact:
            assert isinstance(self.by_residual, SignedGram)
            buffer = chunk.scratch("S")
            bar -= xp.multiply(V, (2.0 * expected.in_residual)[:, None], out=buffer)
            self.by_residual.add(V, expected.in_residual, buffer)
            slopes = slopes + expected.in_residual
        self.pull.features(chunk.X, bar, chunk.K, chunk.V)
        self.pull.diagonal(chunk.X, slopes)

    def statistics(self) -> SingleSums:
        sums = vars(super().statistics())
        return SingleSums(**sums, pulled=self.pull.statistics(), by_residual=self.by_residual)
