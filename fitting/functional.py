"""Other functions of the same posterior: a sum of losses over all N data, and any function of that sum and of q(v).

With means m_i = wᵀv_i and latent variances s_i = r_i + v_iᵀSv_i under q(v) = N(w, S), u = Lv, this is the form of
PAC-Bayes bounds and of direct loss minimisation: J = outer(Σ_i ℓ(m_i, s_i), q).  A loss says its derivatives, ``outer``
its own, the rest is done here; O(NM²) time, O(M² + M·chunk + N) memory.  With H = V·diag(s̄)Vᵀ and w̄ = Vm̄ + ∂J/∂w,

    V̄ = wm̄ᵀ + 2(S − I)V·diag(s̄),   V̄Vᵀ = w(Vm̄)ᵀ + 2(S − I)H,   r̄ = s̄,

and where S = (I + VCVᵀ)⁻¹ and w = SVCY with c = 1/(σ² + a·r), as for FITC, VFE and DTC, to these are added

    2ĀVC + b̄(CY)ᵀ − 2V·diag(aD̄),   2ĀG + b̄bᵀ − 2V·diag(aD̄)Vᵀ,   aD̄,
    b̄ = Sw̄,   Ā = −S(H + ∂J/∂S)S − ½(b̄wᵀ + wb̄ᵀ),   D̄_i = −c_i²(v_iᵀĀv_i + b̄ᵀv_i·y_i).

In units of NM² flops a collapsed posterior takes 9 where SV stays between the passes (V 1, G 1, SV 2, H 1, ĀV 2,
V·diag(r̄)Vᵀ 1 where a > 0, the pull-back through L 1), a free one 5.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from fitting.diagonal import Diagonal
from fitting.inner import Evaluation, Gradient
from fitting.passes import Adjoint, Forward, Loss, Reverse, Setting, Shelf, Single
from fitting.streamed import Stream
from gpbounds.arrays import Array, Float, namespace
from gpbounds.linalg.triangular import inverse_factor

__all__ = ["FreeEvaluation", "Law", "Loss", "Outer", "collapsed", "free"]


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
    S, xp, (N, P) = state.covariance, namespace(Y), Y.shape
    law = Law(state.mean, S, state.G + xp.eye(source.M), -state.chol.logdet)
    setting = Setting(state.mean, S, loss, r, xp.empty(N), xp.empty((N, P)), xp.empty(N), Shelf(source))
    first, *others = source.visit(lambda lane: Forward(lane, setting, gradient))
    for other in others:
        first.sums.merge(other.sums)
    found = outer(first.sums.total, law)
    if not gradient:
        return Evaluation(found.value, None, source.inducing.chol.jitter)
    setting.m_bar *= found.total
    setting.s_bar *= found.total
    moment, H = found.total * first.sums.mean, found.total * first.sums.gram.sum()
    b_bar = S @ (moment if found.mean is None else moment + found.mean)
    cross = b_bar @ law.mean.T
    S_bar = H if found.covariance is None else H + found.covariance
    twice = -2.0 * (S @ S_bar @ S) - cross - cross.T
    adjoint = Adjoint(member, Y, twice, b_bar, xp.concatenate([law.mean, b_bar], axis=1))
    reverse, *more = source.visit(lambda lane: Reverse(lane, setting, adjoint))
    for also in more:
        reverse.merge(also)
    across = law.mean @ moment.T + twice @ state.G + b_bar @ (law.precision @ law.mean).T
    across += 2.0 * (S @ H - (reverse.gram.sum() if member.power > 0.0 else H))
    reverse.pull.diagonal(setting.s_bar)
    pulled = reverse.pull.finish(across, relative_jitter)
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
    law = Law(mean, factor @ factor.T, C_inv.T @ C_inv, 2.0 * float(xp.log(xp.diagonal(factor)).sum()))
    slopes = xp.empty(source.N)
    first, *others = source.visit(lambda lane: Single(lane, mean, law.covariance, loss, slopes))
    for other in others:
        first.merge(other)
    sums, H = first.sums, first.sums.gram.sum()
    found = outer(sums.total, law)
    first.pull.diagonal(slopes)
    pulled = first.pull.finish(mean @ sums.mean.T + 2.0 * (law.covariance @ H - H), relative_jitter)
    scale = found.total
    mean_bar = scale * sums.mean if found.mean is None else scale * sums.mean + found.mean
    S_bar = scale * H if found.covariance is None else scale * H + found.covariance
    factor_bar = xp.tril(2.0 * (S_bar @ factor))
    jitter = source.inducing.chol.jitter
    return FreeEvaluation(
        found.value, scale * pulled.kernel, found.noise, scale * pulled.Z, mean_bar, factor_bar, jitter
    )
