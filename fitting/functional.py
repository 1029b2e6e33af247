"""Other functions of the same posterior: a sum of losses over all N data, and any function of that sum and of q(v).

With means m_i = wᵀv_i and latent variances s_i = r_i + v_iᵀSv_i under q(v) = N(w, S), u = Lv, this is the form of
PAC-Bayes bounds and of direct loss minimisation: J = outer(Σ_i ℓ(m_i, s_i), q).  A loss says its derivatives, ``outer``
its own, the rest is done here; O(NM²) time, O(M² + M·chunk + N) memory.  With H = V·diag(s̄)Vᵀ and w̄ = Vm̄ + ∂J/∂w,

    V̄ = wm̄ᵀ + 2(S − I)V·diag(s̄),   V̄Vᵀ = w(Vm̄)ᵀ + 2(S − I)H,   r̄ = s̄,

and where S = (I + VCVᵀ)⁻¹ and w = SVCY with c = 1/(σ² + a·r), as for FITC, VFE and DTC, to these are added

    2ĀVC + b̄(CY)ᵀ − 2V·diag(aD̄),   2ĀG + b̄bᵀ − 2V·diag(aD̄)Vᵀ,   aD̄,
    b̄ = Sw̄,   Ā = −S(H + ∂J/∂S)S − ½(b̄wᵀ + wb̄ᵀ),   D̄_i = −c_i²(v_iᵀĀv_i + b̄ᵀv_i·y_i).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from fitting.backend import add_product, inverse_factor, product
from fitting.diagonal import Diagonal
from fitting.inner import Evaluation, Gradient
from fitting.streamed import Lane, PullBack, Stream
from gpbounds.arrays import Array, Float, namespace
from gpbounds.whitening import residual_diagonal

Loss = Callable[[slice, Array, Array], tuple[float, Array, Array]]
"""(rows, means (n, P), latent variances (n,)) ↦ the sum of their losses, its derivatives (n, P) and (n,) in both.

Several threads call it, each for rows of its own."""


@dataclass(frozen=True)
class Law:
    """q(v) = N(w_p, S) for each of P outputs.

    Attributes
    ----------
    mean : array (M, P)
        w.
    covariance : array (M, M)
        S.
    precision : array (M, M)
        S⁻¹.
    logdet : float
        log|S|.
    """

    mean: Array
    covariance: Array
    precision: Array
    logdet: float

    def kl(self) -> tuple[float, Array, Array]:
        """Σ_p KL[N(w_p, S)‖N(0, I)] = ½[P(tr S − M − log|S|) + |w|²] and its derivatives in w and S (P-26)."""
        xp, (M, P) = namespace(self.mean), self.mean.shape
        spread = float(xp.trace(self.covariance)) - M - self.logdet
        value = 0.5 * (P * spread + float((self.mean * self.mean).sum()))
        return value, self.mean, 0.5 * P * (xp.eye(M) - self.precision)


@dataclass(frozen=True)
class Outer:
    """What ``outer`` returns: J and its derivatives, None standing for 0.

    Attributes
    ----------
    value : float
    total : float
        In the sum of the losses.
    mean : array (M, P) or None
        In w.
    covariance : array (M, M) or None
        In S; symmetric.
    noise : float
        In σ², where J depends on it otherwise than through q.
    """

    value: float
    total: float
    mean: Array | None = None
    covariance: Array | None = None
    noise: float = 0.0


@dataclass(frozen=True)
class FreeEvaluation:
    """J at a free q(v) = N(μ, CCᵀ), and its derivatives.

    Attributes
    ----------
    value : float
    kernel : array (p,)
        In the kernel's `log_parameters`.
    noise : float
        In σ², as ``outer`` says.
    Z : array (M, D)
    mean : array (M, P)
        In μ.
    factor : array (M, M)
        In C, lower triangular.
    jitter : float
    """

    value: float
    kernel: Float
    noise: float
    Z: Array
    mean: Array
    factor: Array
    jitter: float


def collapsed(
    member: Diagonal,
    source: Stream,
    Y: Array,
    loss: Loss,
    outer: Callable[[float, Law], Outer],
    *,
    gradient: bool = True,
    relative_jitter: float = 0.0,
) -> Evaluation:
    """J where q is the posterior of ``member`` for targets ``Y`` (N, P); derivatives in (kernel, log σ², Z)."""
    state, r = member.forward(source, Y)
    S, xp = state.covariance, namespace(Y)
    law = Law(state.mean, S, state.G + xp.eye(source.M), -state.chol.logdet)
    sums, found = _losses(source, law, r, loss, outer)
    if not gradient:
        return Evaluation(found.value, None, source.inducing.chol.jitter)
    b_bar = S @ (sums.mean if found.mean is None else sums.mean + found.mean)
    cross = b_bar @ law.mean.T
    A_bar = -(S @ (sums.H if found.covariance is None else sums.H + found.covariance) @ S) - 0.5 * (cross + cross.T)
    reverse = _reversed(source, sums, law, _Collapsed(member, Y, r, A_bar, b_bar))
    outside = 2.0 * (A_bar @ state.G) + b_bar @ (law.precision @ law.mean).T - 2.0 * reverse.heavy
    reverse.pull.diagonal(sums.variances)
    pulled = reverse.pull.finish(sums.outer(law) + outside, relative_jitter)
    slope = member.noise * (reverse.noise + found.noise)
    return Evaluation(found.value, Gradient(pulled.kernel, slope, pulled.Z), source.inducing.chol.jitter)


def free(
    source: Stream,
    mean: Array,
    factor: Array,
    loss: Loss,
    outer: Callable[[float, Law], Outer],
    *,
    relative_jitter: float = 0.0,
) -> FreeEvaluation:
    """J where q(v) = N(μ, CCᵀ) is free: ``mean`` μ (M, P), ``factor`` C lower triangular with a positive diagonal."""
    xp = namespace(source.X)
    C_inv = inverse_factor(factor)
    logdet = 2.0 * float(xp.log(xp.diagonal(factor)).sum())
    law = Law(mean, factor @ factor.T, C_inv.T @ C_inv, logdet)
    r = xp.empty(source.N)
    source.visit(lambda lane: _Residual(lane, r))
    sums, found = _losses(source, law, r, loss, outer)
    mean_bar = sums.mean if found.mean is None else sums.mean + found.mean
    S_bar = sums.H if found.covariance is None else sums.H + found.covariance
    reverse = _reversed(source, sums, law, None)
    reverse.pull.diagonal(sums.variances)
    pulled = reverse.pull.finish(sums.outer(law), relative_jitter)
    factor_bar = xp.tril(2.0 * (S_bar @ factor))
    return FreeEvaluation(
        found.value, pulled.kernel, found.noise, pulled.Z, mean_bar, factor_bar, source.inducing.chol.jitter
    )


class _Residual:
    """Fills r."""

    def __init__(self, lane: Lane, r: Array) -> None:
        self.source, self.r = lane.source, r

    def chunk(self, rows: slice, K: Array, V: Array) -> None:
        self.r[rows] = residual_diagonal(self.source.inducing.kernel.diag(self.source.X[rows]), V.T)


class _Losses:
    """Sums the losses, Vm̄ and H; fills m̄ and s̄."""

    def __init__(self, lane: Lane, law: Law, r: Array, loss: Loss, means: Array, variances: Array) -> None:
        xp, (M, P) = namespace(r), law.mean.shape
        self.lane, self.law, self.r, self.loss, self.means, self.variances = lane, law, r, loss, means, variances
        self.total, self.mean, self.H = 0.0, xp.zeros((M, P)), xp.zeros((M, M))

    def chunk(self, rows: slice, K: Array, V: Array) -> None:
        xp = namespace(V)
        turned = product(V, self.law.covariance, self.lane.scratch("W", rows))
        variance = self.r[rows] + xp.einsum("ij,ij->i", V, turned)
        value, self.means[rows], self.variances[rows] = self.loss(rows, V @ self.law.mean, variance)
        self.total += float(value)
        self.mean += V.T @ self.means[rows]
        xp.multiply(V, self.variances[rows][:, None], out=turned)
        add_product(V.T, turned, self.H)

    def scale(self, factor: float) -> None:
        for array in (self.mean, self.H, self.means, self.variances):
            array *= factor

    def outer(self, law: Law) -> Array:
        """w(Vm̄)ᵀ + 2(S − I)H."""
        return law.mean @ self.mean.T + 2.0 * (law.covariance @ self.H - self.H)


def _losses(
    source: Stream, law: Law, r: Array, loss: Loss, outer: Callable[[float, Law], Outer]
) -> tuple[_Losses, Outer]:
    """The pass over the losses, and ``outer`` of their sum; m̄, s̄, Vm̄ and H carry its derivative in the sum."""
    means, variances = namespace(r).empty((source.N, law.mean.shape[1])), namespace(r).empty(source.N)
    first, *others = source.visit(lambda lane: _Losses(lane, law, r, loss, means, variances))
    for other in others:
        first.total += other.total
        first.mean += other.mean
        first.H += other.H
    found = outer(first.total, law)
    first.scale(found.total)
    return first, found


@dataclass(frozen=True)
class _Collapsed:
    """What the second line of the cotangent needs."""

    member: Diagonal
    Y: Array
    r: Array
    A_bar: Array
    b_bar: Array


class _Reverse:
    """The last pass: V̄ by chunks; r̄ replaces s̄."""

    def __init__(self, lane: Lane, sums: _Losses, law: Law, more: _Collapsed | None) -> None:
        self.lane, self.sums, self.law, self.more = lane, sums, law, more
        self.pull = PullBack(lane.source)
        self.heavy, self.noise = namespace(law.mean).zeros(law.covariance.shape), 0.0

    def chunk(self, rows: slice, K: Array, V: Array) -> None:
        xp, sums, law = namespace(V), self.sums, self.law
        s_bar = sums.variances[rows].copy()
        bar = product(V, law.covariance, self.lane.scratch("W", rows))
        bar -= V
        bar *= (2.0 * s_bar)[:, None]
        add_product(xp.ascontiguousarray(sums.means[rows]), law.mean.T, bar)
        if self.more is not None:
            self._collapsed(rows, V, bar, self.more)
        self.pull.whitened(rows, bar, K)

    def _collapsed(self, rows: slice, V: Array, bar: Array, more: _Collapsed) -> None:
        xp, a, y = namespace(V), more.member.power, more.Y[rows]
        c = more.member.precision(more.r[rows])
        turned = product(V, more.A_bar, self.lane.scratch("S", rows))
        quadratic = xp.einsum("ij,ij->i", V, turned) + ((V @ more.b_bar) * y).sum(axis=1)
        D_bar = -c * c * quadratic
        self.noise += float(D_bar.sum())
        turned *= (2.0 * c)[:, None]
        bar += turned
        add_product(c[:, None] * y, more.b_bar.T, bar)
        if a > 0.0:
            self.sums.variances[rows] += a * D_bar
            xp.multiply(V, (a * D_bar)[:, None], out=turned)
            add_product(V.T, turned, self.heavy)
            turned *= 2.0
            bar -= turned


def _reversed(source: Stream, sums: _Losses, law: Law, more: _Collapsed | None) -> _Reverse:
    first, *others = source.visit(lambda lane: _Reverse(lane, sums, law, more))
    for other in others:
        first.pull.add(other.pull)
        first.heavy += other.heavy
        first.noise += other.noise
    return first
