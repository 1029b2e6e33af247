"""The passes over the data behind `fitting.functional`: the losses, and what their derivatives pull back.

Rows of a chunk are data: V is (n, M), SV stands for its rows Sv_i.  Where there is room SV is kept between the passes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from fitting.diagonal import Diagonal
from fitting.signed import SignedGram
from fitting.streamed import Lane, PullBack, Stream
from gpbounds.arrays import Array, namespace
from gpbounds.linalg.products import add_product, product
from gpbounds.whitening import residual_diagonal

Loss = Callable[[slice, Array, Array], tuple[float, Array, Array]]
"""(rows, means (n, P), latent variances (n,)) ↦ the sum of their losses, its derivatives (n, P) and (n,) in both.

Several threads call it, each for rows of its own."""


class Shelf:
    """The first rows of SV (N, M), as many as the workspace has room for beside Kuf and V."""

    def __init__(self, source: Stream) -> None:
        M, N = source.M, source.N
        self.size = min(N, max(0, source.space.keep // (8 * M) - 2 * N))
        self.array = source.space.array("kept SV", (self.size, M), namespace(source.X))

    def holds(self, rows: slice) -> bool:
        """Whether ``rows`` are among them."""
        return rows.stop <= self.size

    def place(self, rows: slice, lane: Lane) -> Array:
        """Where ``rows`` are, or a buffer for them."""
        return self.array[rows] if self.holds(rows) else lane.scratch("W", rows)


class Sums:
    """The sum of the losses, Vm̄ and V·diag(s̄)Vᵀ."""

    def __init__(self, M: int, P: int, like: Array) -> None:
        xp = namespace(like)
        self.total, self.mean, self.gram = 0.0, xp.zeros((M, P)), SignedGram(xp.zeros((M, M)))

    def add(self, V: Array, m_bar: Array, s_bar: Array, scratch: Array) -> None:
        """The latter two of one chunk."""
        self.mean += V.T @ m_bar
        self.gram.add(V, s_bar, scratch)

    def merge(self, other: Sums) -> None:
        """What another thread has summed."""
        self.total += other.total
        self.mean += other.mean
        self.gram.merge(other.gram)


@dataclass
class Setting:
    """What all threads read, and what each fills for rows of its own.

    Attributes
    ----------
    mean, covariance : arrays (M, P), (M, M)
        w and S.
    loss : Loss
    r, q : arrays (N,)
        The diagonal of K − Q, and v_iᵀSv_i.
    m_bar, s_bar : arrays (N, P), (N,)
        The losses' derivatives in means and variances.
    shelf : Shelf
    """

    mean: Array
    covariance: Array
    loss: Loss
    r: Array
    q: Array
    m_bar: Array
    s_bar: Array
    shelf: Shelf


class Forward:
    """The pass over the losses of a collapsed posterior: fills q, m̄ and s̄.

    Without ``gradient`` it sums the losses only.
    """

    def __init__(self, lane: Lane, setting: Setting, gradient: bool) -> None:
        self.lane, self.setting, self.gradient = lane, setting, gradient
        self.sums = Sums(lane.source.M, setting.mean.shape[1], setting.r)

    def chunk(self, rows: slice, K: Array, V: Array) -> None:
        """One chunk, as a `Visitor` takes it."""
        xp, s = namespace(V), self.setting
        turned = product(V, s.covariance, s.shelf.place(rows, self.lane))
        s.q[rows] = xp.einsum("ij,ij->i", V, turned)
        value, s.m_bar[rows], s.s_bar[rows] = s.loss(rows, V @ s.mean, s.r[rows] + s.q[rows])
        self.sums.total += float(value)
        if self.gradient:
            self.sums.add(V, s.m_bar[rows], s.s_bar[rows], self.lane.scratch("S", rows))


@dataclass
class Adjoint:
    """What the last pass over a collapsed posterior reads besides; ``rank`` is (w, b̄) side by side."""

    member: Diagonal
    Y: Array
    twice: Array  # 2Ā
    b_bar: Array
    rank: Array


class Reverse:
    """The last pass over a collapsed posterior: V̄ by chunks, and V·diag(r̄)Vᵀ where a > 0; r̄ replaces s̄.

    With D = 1/c it is V̄/c = 2SV·diag(s̄D) + 2ĀV + w(m̄D)ᵀ + b̄yᵀ − 2V·diag(r̄D) that is put together.
    """

    def __init__(self, lane: Lane, setting: Setting, adjoint: Adjoint) -> None:
        xp, M = namespace(setting.r), lane.source.M
        self.lane, self.setting, self.adjoint = lane, setting, adjoint
        self.pull, self.gram, self.noise = PullBack(lane.source), SignedGram(xp.zeros((M, M))), 0.0

    def chunk(self, rows: slice, K: Array, V: Array) -> None:
        """One chunk, as a `Visitor` takes it."""
        xp, s, more = namespace(V), self.setting, self.adjoint
        s_bar, y, a = s.s_bar[rows], more.Y[rows], more.member.power
        D = more.member.noise + a * s.r[rows]
        bar = s.shelf.place(rows, self.lane)
        if not s.shelf.holds(rows):
            product(V, s.covariance, bar)
        scaled = s_bar * D
        bar *= (2.0 * scaled)[:, None]
        add_product(V, more.twice, bar)
        # 2v·Āv; what is subtracted is at most 2|s̄|D², as c·q ≤ 1
        quadratic = 0.5 * xp.einsum("ij,ij->i", V, bar) - s.q[rows] * scaled
        D_bar = -(quadratic + ((V @ more.b_bar) * y).sum(axis=1)) / (D * D)
        self.noise += float(D_bar.sum())
        r_bar = s_bar + a * D_bar
        s.s_bar[rows] = r_bar
        buffer = self.lane.scratch("S", rows)
        bar -= xp.multiply(V, (2.0 * D * r_bar)[:, None], out=buffer)
        add_product(xp.concatenate([s.m_bar[rows] * D[:, None], y], axis=1), more.rank.T, bar)
        bar /= D[:, None]
        if a > 0.0:
            self.gram.add(V, r_bar, buffer)
        self.pull.whitened(rows, bar, K)

    def merge(self, other: Reverse) -> None:
        """What another thread has collected."""
        self.pull.add(other.pull)
        self.gram.merge(other.gram)
        self.noise += other.noise


class Single:
    """The one pass that a free q(v) takes: its derivatives but for ∂J/∂total, which multiplies them all."""

    def __init__(self, lane: Lane, mean: Array, covariance: Array, loss: Loss, slopes: Array) -> None:
        self.lane, self.mean, self.covariance, self.loss, self.slopes = lane, mean, covariance, loss, slopes
        self.sums, self.pull = Sums(lane.source.M, mean.shape[1], slopes), PullBack(lane.source)

    def chunk(self, rows: slice, K: Array, V: Array) -> None:
        """One chunk, as a `Visitor` takes it."""
        xp, source = namespace(V), self.lane.source
        bar = product(V, self.covariance, self.lane.scratch("W", rows))
        variance = residual_diagonal(source.inducing.kernel.diag(source.X[rows]), V.T)
        variance += xp.einsum("ij,ij->i", V, bar)
        value, m_bar, s_bar = self.loss(rows, V @ self.mean, variance)
        self.slopes[rows] = s_bar
        self.sums.total += float(value)
        self.sums.add(V, m_bar, s_bar, self.lane.scratch("S", rows))
        bar -= V
        bar *= (2.0 * s_bar)[:, None]
        add_product(m_bar, self.mean.T, bar)
        self.pull.whitened(rows, bar, K)

    def merge(self, other: Single) -> None:
        """What another thread has collected."""
        self.sums.merge(other.sums)
        self.pull.add(other.pull)
