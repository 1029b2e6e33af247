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

from fitting.backend import add_gram, mirrored, product
from fitting.inner import Evaluation, Gradient, Inner, inner
from fitting.streamed import PullBack, Stream
from gpbounds.arrays import Array, namespace
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
        xp, M = namespace(source.X), source.M
        G, b = xp.zeros((M, M)), xp.zeros((M, Y.shape[1]))
        r = xp.empty(source.N)
        for rows, _, V in source:
            r[rows] = residual_diagonal(source.inducing.kernel.diag(source.X[rows]), V.T)
            if self.power == 0.0:
                add_gram(G, V)
                b += V.T @ Y[rows]
            else:
                c = 1.0 / (self.noise + self.power * r[rows])
                scaled = source.scratch("W", rows)
                xp.multiply(V, xp.sqrt(c)[:, None], out=scaled)
                add_gram(G, scaled)
                b += V.T @ (c[:, None] * Y[rows])
        G = mirrored(G)
        if self.power == 0.0:
            G /= self.noise
            b /= self.noise
        return inner(G, b), r

    def evaluate(self, source: Stream, Y: Array, *, gradient: bool = True, relative_jitter: float = 0.0) -> Evaluation:
        """F, and its derivatives."""
        state, r = self.forward(source, Y)
        reverse = _Reverse(self, source, Y, state, r) if gradient else None
        fit = float((state.mean * state.mean).sum())
        for rows, K, V in source:
            e = Y[rows] - V @ state.mean
            c = self.precision(r[rows])
            fit += float((e * e * c[:, None]).sum())
            if reverse is not None:
                reverse.chunk(rows, K, V, e, c)
        N, P = Y.shape
        volume = state.chol.logdet + N * math.log(2.0 * math.pi * self.noise) + self.penalty(r)
        value = -0.5 * (P * volume + fit)
        found = None if reverse is None else reverse.finish(relative_jitter)
        return Evaluation(value, found, source.inducing.chol.jitter)

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


class _Reverse:
    """The second pass: chunk by chunk, then `finish`."""

    def __init__(self, member: Diagonal, source: Stream, Y: Array, state: Inner, r: Array) -> None:
        xp, P, s2 = namespace(Y), Y.shape[1], member.noise
        self.member, self.source, self.state, self.r, self.P = member, source, state, r, P
        self.pull = PullBack(source)
        self.heavy = xp.zeros((source.M, source.M))  # V·diag(h)·Vᵀ
        self.cotangent = xp.empty(source.N)  # r̄
        self.noise = 0.0
        lift = source.inducing.lift
        if member.power == 0.0:
            kernel_part = state.gained if member.kept else -state.covariance
            self.turn = lift(kernel_part).T * (P / s2)
            self.weights = lift(state.mean) / s2

    def chunk(self, rows: slice, K: Array, V: Array, e: Array, c: Array) -> None:
        if self.member.power == 0.0:
            C = product(V, self.turn, self.source.scratch("W", rows))
            C += e @ self.weights.T
            self.noise += 0.5 * float((e * e).sum()) / self.member.noise**2
            self.pull.cross(rows, C, K)
            return
        xp, P, a, s2 = namespace(V), self.P, self.member.power, self.member.noise
        shrunk = product(V, self.state.covariance, self.source.scratch("W", rows))  # SV
        q = xp.einsum("ij,ij->i", V, shrunk)
        squares = (e * e).sum(axis=1)
        h = a * c * c * (P * q + squares)
        self.cotangent[rows] = 0.5 * (h - P * c)
        self.noise += 0.5 * float((c * (c * (P * q + squares) - P)).sum())
        self.noise += 0.5 * P * (1.0 - a) / s2 * float((self.r[rows] * c).sum())
        xp.subtract(V, shrunk, out=shrunk)
        shrunk *= (P * c)[:, None]
        scaled = self.source.scratch("S", rows)
        xp.multiply(V, h[:, None], out=scaled)
        shrunk -= scaled
        shrunk += (c[:, None] * e) @ self.state.mean.T
        xp.multiply(V, xp.sqrt(h)[:, None], out=scaled)
        add_gram(self.heavy, scaled)
        self.pull.whitened(rows, shrunk, K)

    def finish(self, relative_jitter: float) -> Gradient:
        member, state, P, s2 = self.member, self.state, self.P, self.member.noise
        outer = state.mean @ state.mean.T
        if member.kept:
            outer += P * (state.gained @ state.G)
        else:
            outer -= P * state.gained
        if member.power == 0.0:
            known = float(state.gained.trace())  # tr SG
            self.noise -= 0.5 * P * (self.source.N - known) / s2
            if member.kept:
                self.noise += 0.5 * P * float(self.r.sum()) / s2**2
                self.cotangent[...] = -0.5 * P / s2
        else:
            outer -= mirrored(self.heavy)
        if member.kept:
            self.pull.diagonal(self.cotangent)
        pulled = self.pull.finish(outer, relative_jitter)
        return Gradient(pulled.kernel, s2 * self.noise, pulled.Z)
