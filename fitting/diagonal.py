"""K − Q kept on its diagonal, or dropped: VFE, FITC, power EP, DTC.  O(NM²) time, O(M² + M·chunk + N) memory.

With r the diagonal of K − Q, D = σ² + a·r, c = 1/D, G = VCVᵀ, S = (I + G)⁻¹, w = SVCY, e = Y − Vᵀw, q_i = v_iᵀSv_i:

    F = −(P/2)[log|I + G| + N log 2πσ² + (1/a) Σ log(1 + a·r/σ²)] − ½[Σ c|e|² + |w|²]      (r/σ² for a = 0)

as yᵀΞ⁻¹y = Σ c e² + |w|² is a sum of squares.  With h = a·c²(Pq + |e|²):

    V̄ = P·(V − SV)C + w(Ce)ᵀ − V·diag(h),   V̄Vᵀ = P(I − S)G + wwᵀ − V·diag(h)Vᵀ,   r̄ = ½(h − cP).

DTC leaves r̄ out: V̄ = −P·SVC + w(Ce)ᵀ, V̄Vᵀ = −P·SG + wwᵀ.  For a = 0 the cotangent of Kuf is one product with V.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from fitting.inner import Evaluation, Gradient, Inner, inner
from fitting.streamed import Lane, PullBack, Stream
from gpbounds.arrays import Array, namespace
from gpbounds.linalg.products import add_gram, add_product, product
from gpbounds.linalg.triangular import mirrored
from gpbounds.whitening import residual_diagonal


@dataclass(frozen=True)
class Diagonal:
    """Power a in [0, 1] of the diagonal of K − Q; ``kept=False`` is DTC.

    Attributes
    ----------
    power : float
    noise : float
        σ².
    kept : bool
    """

    power: float
    noise: float
    kept: bool = True

    def forward(self, source: Stream, Y: Array) -> tuple[Inner, Array]:
        """q(v), and r (N,)."""
        r = namespace(source.X).empty(source.N)
        sums = source.visit(lambda lane: _Forward(self, lane, Y, r))
        G, b = mirrored(sum(s.G for s in sums)), sum(s.b for s in sums)
        if self.power == 0.0:
            G /= self.noise
            b /= self.noise
        return inner(G, b), r

    def evaluate(self, source: Stream, Y: Array, *, gradient: bool = True, relative_jitter: float = 0.0) -> Evaluation:
        """F, and its derivatives."""
        state, r = self.forward(source, Y)
        if not gradient:
            fits = source.visit(lambda lane: _Fit(self, Y, state, r))
            return Evaluation(self._value(Y, state, r, sum(s.fit for s in fits)), None, source.inducing.chol.jitter)
        setting = _Setting(self, source, Y, state, r)
        first, *others = source.visit(lambda lane: _Reverse(setting, lane))
        for other in others:
            first.add(other)
        value = self._value(Y, state, r, first.fit)
        return Evaluation(value, first.finish(relative_jitter), source.inducing.chol.jitter)

    def _value(self, Y: Array, state: Inner, r: Array, fit: float) -> float:
        N, P = Y.shape
        volume = state.chol.logdet + N * math.log(2.0 * math.pi * self.noise) + self.penalty(r)
        return -0.5 * (P * volume + fit + float((state.mean * state.mean).sum()))

    def precision(self, r: Array) -> Array:
        """c = 1/(σ² + a·r)."""
        return 1.0 / (self.noise + self.power * r)

    def penalty(self, r: Array) -> float:
        """(1/a) Σ log(1 + a·r/σ²), with its limit Σ r/σ² at a = 0; 0 for DTC."""
        xp = namespace(r)
        if not self.kept:
            return 0.0
        if self.power == 0.0:
            return float(r.sum()) / self.noise
        return float(xp.log1p(self.power / self.noise * r).sum()) / self.power


class _Forward:
    """Sums VCVᵀ and VCY, without C where it is the same for all; fills r."""

    def __init__(self, member: Diagonal, lane: Lane, Y: Array, r: Array) -> None:
        xp, M = namespace(Y), lane.source.M
        self.member, self.lane, self.Y, self.r = member, lane, Y, r
        self.G, self.b = xp.zeros((M, M)), xp.zeros((M, Y.shape[1]))

    def chunk(self, rows: slice, K: Array, V: Array) -> None:
        side = self.lane.source.inducing
        self.r[rows] = residual_diagonal(side.kernel.diag(self.lane.source.X[rows]), V.T)
        if self.member.power == 0.0:
            add_gram(self.G, V)
            self.b += V.T @ self.Y[rows]
            return
        c = self.member.precision(self.r[rows])
        scaled = self.lane.scratch("W", rows)
        namespace(V).multiply(V, namespace(V).sqrt(c)[:, None], out=scaled)
        add_gram(self.G, scaled)
        self.b += V.T @ (c[:, None] * self.Y[rows])


class _Fit:
    """Sums c|e|²."""

    def __init__(self, member: Diagonal, Y: Array, state: Inner, r: Array) -> None:
        self.member, self.Y, self.state, self.r = member, Y, state, r
        self.fit = 0.0

    def chunk(self, rows: slice, K: Array, V: Array) -> None:
        e = self.Y[rows] - V @ self.state.mean
        self.fit += float((self.member.precision(self.r[rows]) * (e * e).sum(axis=1)).sum())


class _Setting:
    """What all threads of the reverse pass read, and r̄, which they fill."""

    def __init__(self, member: Diagonal, source: Stream, Y: Array, state: Inner, r: Array) -> None:
        P, s2 = Y.shape[1], member.noise
        self.member, self.source, self.Y, self.state, self.r, self.P = member, source, Y, state, r, P
        self.gained = state.gained  # here and below: found once, before threads need it
        self.slope = namespace(Y).empty(source.N)
        if member.power > 0.0:
            self.covariance = state.covariance
        else:
            turn = self.gained if member.kept else -state.covariance
            self.turn = source.inducing.lift(turn).T * (P / s2)
            self.weights = source.inducing.lift(state.mean) / s2


class _Reverse:
    """The second pass: chunk by chunk, then `finish`."""

    def __init__(self, setting: _Setting, lane: Lane) -> None:
        M = lane.source.M
        self.setting, self.lane = setting, lane
        self.pull = PullBack(lane.source)
        self.heavy = namespace(setting.Y).zeros((M, M))  # V·diag(h)·Vᵀ
        self.noise = self.fit = 0.0  # the derivative in log σ², and Σ c|e|²

    def chunk(self, rows: slice, K: Array, V: Array) -> None:
        s = self.setting
        e = s.Y[rows] - V @ s.state.mean
        squares = (e * e).sum(axis=1)
        if s.member.power == 0.0:
            self._common(rows, K, V, e, float(squares.sum()))
        else:
            self._weighted(rows, K, V, e, squares)

    def _common(self, rows: slice, K: Array, V: Array, e: Array, total: float) -> None:
        s, s2 = self.setting, self.setting.member.noise
        self.fit += total / s2
        self.noise += 0.5 * total / s2
        C = product(V, s.turn, self.lane.scratch("W", rows))
        self.pull.cross(rows, add_product(e, s.weights.T, C), K)

    def _weighted(self, rows: slice, K: Array, V: Array, e: Array, squares: Array) -> None:
        s, xp, P = self.setting, namespace(V), self.setting.P
        a, s2 = s.member.power, s.member.noise
        c = s.member.precision(s.r[rows])
        self.fit += float((c * squares).sum())
        shrunk = product(V, s.covariance, self.lane.scratch("W", rows))  # SV
        reach = P * xp.einsum("ij,ij->i", V, shrunk) + squares
        h = a * c * c * reach
        s.slope[rows] = 0.5 * (h - P * c)
        self.noise += 0.5 * s2 * float((c * (c * reach - P)).sum())
        self.noise += 0.5 * P * (1.0 - a) * float((s.r[rows] * c).sum())
        xp.subtract(V, shrunk, out=shrunk)
        shrunk *= (P * c)[:, None]
        scaled = self.lane.scratch("S", rows)
        xp.multiply(V, h[:, None], out=scaled)
        shrunk -= scaled
        add_product(c[:, None] * e, s.state.mean.T, shrunk)
        xp.multiply(V, xp.sqrt(h)[:, None], out=scaled)
        add_gram(self.heavy, scaled)
        self.pull.whitened(rows, shrunk, K)

    def add(self, other: _Reverse) -> None:
        """What another thread has summed."""
        self.pull.add(other.pull)
        self.heavy += other.heavy
        self.noise += other.noise
        self.fit += other.fit

    def finish(self, relative_jitter: float) -> Gradient:
        """All derivatives."""
        s, member, state = self.setting, self.setting.member, self.setting.state
        P, s2 = s.P, member.noise
        outer = state.mean @ state.mean.T
        if member.kept:
            outer += P * (s.gained @ state.G)
        else:
            outer -= P * s.gained
        if member.power == 0.0:
            known = float(s.gained.trace())  # tr SG
            self.noise -= 0.5 * P * (s.source.N - known)
            if member.kept:
                self.noise += 0.5 * P * float(s.r.sum()) / s2
                s.slope[...] = -0.5 * P / s2
        else:
            outer -= mirrored(self.heavy)
        if member.kept:
            self.pull.diagonal(s.slope)
        pulled = self.pull.finish(outer, relative_jitter)
        return Gradient(pulled.kernel, self.noise, pulled.Z)
