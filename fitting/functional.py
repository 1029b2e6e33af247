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

Cost in units of NM² flops: 9 for a collapsed posterior if SV is kept between the passes (V 1, G 1, SV 2, H 1, ĀV 2,
V·diag(r̄)Vᵀ 1 where a > 0, the pull-back through L 1), and 5 for a free posterior.  It is 4 (V 1, Y 2, H 1) where L⁻¹ is
so accurate that Y = L⁻ᵀ(S − I)V, the cotangent of Kuf up to factors and a rank-one term, gives the variances, too:

    s_i = k_ii + k_iᵀy_i,      K̄uf = 2Y·diag(s̄) + L⁻ᵀw·m̄ᵀ.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol, runtime_checkable

import numpy as np

from fitting.basis import Basis, Pulled
from fitting.diagonal import Diagonal
from fitting.evaluation import Evaluation, Price
from fitting.expected import Expected, ExpectedLoss
from fitting.inducing import InducingBasis
from fitting.prior_means import derivatives as in_host_memory
from fitting.rows import Chunk, Stream
from fitting.signed import SignedGram
from fitting.turned import turned
from gpbounds.arrays import Array, Float, namespace
from gpbounds.law import FactorLaw, GramLaw, Law
from gpbounds.linalg.device import noise_slopes
from gpbounds.linalg.parallel import WORTH, share
from gpbounds.linalg.products import accumulate, add_product, matmul, product, row_products, row_sums
from gpbounds.linalg.triangular import multiply_rows
from gpbounds.mapreduce.statistics import Statistics


@runtime_checkable
class LossOfRows(Protocol):
    """An expected loss that depends on which rows it gets, such as one with random samples for each row."""

    def at(self, rows: slice) -> ExpectedLoss:
        """The expected losses of the rows at these positions among all rows; threads call it concurrently."""


@runtime_checkable
class LossOfResiduals(Protocol):
    """An expected loss that depends on the diagonal of K − Q by itself; for a free q only."""

    def given(self, residual: Array) -> ExpectedLoss:
        """The expected losses of rows with this diagonal of K − Q."""


Losses = ExpectedLoss | LossOfRows | LossOfResiduals
"""What the functions of this module take as a loss."""


def collapsed(
    member: Diagonal, source: Stream, loss: Losses, price: Price, *, gradient: bool = True, in_power: bool = False
) -> Evaluation:
    """J at the posterior q of ``member``, with derivatives in (kernel, log σ², Z), and on request in its power."""
    q, _ = member.posterior(source)
    priced = Priced.of(q, losses_under(q, source, loss, gradient=gradient), price, gradient=gradient)
    if priced.adjoint is None:
        return priced.evaluation
    back = backward(member, source, loss, priced, in_power=in_power)
    return priced.whole(member, source.basis, back, in_power=in_power)


# The steps of `collapsed` after the posterior.  Sums of several sets of rows can be added between them.


def losses_under(q: Law, source: Stream, loss: Losses, *, gradient: bool) -> LossSums:
    """The pass over the losses; without ``gradient`` it computes their sum only."""
    return source.reduce(lambda: _Losses(q, source, loss, gradient))


def backward(member: Diagonal, source: Stream, loss: Losses, priced: Priced, *, in_power: bool = False) -> Adjoints:
    """The last pass; with ``in_power`` it sums the derivative in the power, too."""
    adjoint = priced.adjoint
    assert adjoint is not None
    priced.q.covariance  # noqa: B018  (computed once, before several threads read it)
    return source.reduce(lambda: _Reverse(member, priced.q, source, loss, adjoint, in_power))


@dataclass(frozen=True, eq=False)
class Priced:
    """J at a collapsed posterior, and what the last pass needs.

    Attributes
    ----------
    q : GramLaw
    losses : LossSums
        Of all rows.
    evaluation : Evaluation
        Without derivatives.
    adjoint : Adjoint or None
        If derivatives are computed.
    """

    q: GramLaw
    losses: LossSums
    evaluation: Evaluation
    adjoint: Adjoint | None

    @classmethod
    def of(cls, q: GramLaw, losses: LossSums, price: Price, *, gradient: bool) -> Priced:
        """From the sums over all rows."""
        unread, divergence = q.readings.take(losses.total), q.kl_unread(q.readings)
        total, kl = float(unread), divergence()
        value, in_total, in_kl = price(total, kl)
        adjoint = Adjoint.of(q, losses, in_total, in_kl) if gradient else None
        return cls(q, losses, Evaluation(value, None, total=total, kl=kl), adjoint)

    def whole(self, member: Diagonal, basis: Basis, back: Adjoints, *, in_power: bool = False) -> Evaluation:
        """J with its derivatives, from the sums of the last pass."""
        q, adjoint = self.q, self.adjoint
        assert adjoint is not None
        across = q.mean @ adjoint.moment.T + matmul(adjoint.twice, q.G) + adjoint.b_bar @ (q.precision @ q.mean).T
        across += 2.0 * (matmul(q.covariance, adjoint.H) - (back.gram.sum() if member.power > 0.0 else adjoint.H))
        noise, others = basis.readings.take(back.noise), basis.readings.take(self.losses.in_parameters)
        power = basis.readings.take(back.power)

        def own() -> Float:
            derivative = np.array([member.noise * float(noise)])
            if others.numbers.size:  # the noise in the loss is the noise of the member
                derivative += adjoint.in_total * others.numbers
            return derivative

        pulled = basis.finish(back.pulled, across)
        derivatives = pulled.gradient(own, basis.readings)
        return replace(self.evaluation, gradient=replace(derivatives, power=float(power)) if in_power else derivatives)


def free(source: Stream, q: FactorLaw, loss: Losses, price: Price, *, gradient: bool = True) -> Evaluation:
    """J at a free q(v) = N(w, CCᵀ), with derivatives in the kernel, the parameters of the loss, Z, w and C."""
    if not gradient:
        readings = source.basis.readings
        divergence = q.kl_unread(readings)
        unread = readings.take(losses_under(q, source, loss, gradient=False).total)
        total, kl = float(unread), divergence()
        return Evaluation(price(total, kl)[0], None, total=total, kl=kl)
    if isinstance(source.basis, InducingBasis) and not isinstance(loss, LossOfResiduals):
        evaluation = turned(
            source, source.basis, q, lambda rows: loss.at(rows) if isinstance(loss, LossOfRows) else loss, price
        )
        if evaluation is not None:
            return evaluation
    _prepare(source, q)
    return free_whole(source.basis, q, free_sums(q, source, loss), price, overwrite=True)


def free_sums(q: FactorLaw, source: Stream, loss: Losses) -> SingleSums:
    """The single pass for a free q.  Sums of several sets of rows can be added."""
    return source.reduce(lambda: _Single(q, source, loss))


def free_whole(basis: Basis, q: FactorLaw, sums: SingleSums, price: Price, *, overwrite: bool = False) -> Evaluation:
    """J with its derivatives, from the sums over all rows, whose memory it takes if it may ``overwrite`` them."""
    xp, readings = namespace(q.mean), basis.readings
    unread, own, divergence = readings.take(sums.total), readings.take(sums.in_parameters), q.kl_unread(readings)
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
    factor = xp.tril(HC)
    factor *= 2.0 * in_total
    factor += in_kl * q.kl_in_factor
    mean = in_total * moment + in_kl * q.mean
    derivatives = pulled.gradient(
        lambda: in_total * own.numbers, readings, scale=in_total, overwrite=overwrite, mean=mean, factor=factor
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

    def __init__(self, q: Law, source: Stream, loss: Losses, gradient: bool) -> None:
        xp, M = namespace(source.X), source.basis.rank
        self.q, self.loss, self.gradient = q, loss, gradient
        self.total: Array | float = 0.0
        self.prior_mean: Array | float = 0.0
        self.in_parameters: Array | None = None
        self.mean, self.gram = xp.zeros((M, source.P)), SignedGram(source.square())
        q.covariance  # noqa: B018  (computed once, before several threads read it)

    def chunk(self, chunk: Chunk) -> None:
        _, expected = _losses(chunk, self.q, self.loss)
        self.add(chunk, expected)

    def add(self, chunk: Chunk, expected: Expected) -> None:
        """Add the losses of one chunk."""
        self.total += expected.total
        own = expected.in_parameters
        self.in_parameters = own if self.in_parameters is None else self.in_parameters + own
        if self.gradient:
            accumulate(self.mean, chunk.V.T, expected.in_mean)
            self.prior_mean += chunk.in_prior_mean(expected.in_mean)
            self.gram.add(chunk.V, expected.in_variance, chunk.scratch("S"))

    def statistics(self) -> LossSums:
        own = np.zeros(0) if self.in_parameters is None else self.in_parameters
        return LossSums(self.total, own, self.mean, self.gram, self.prior_mean)


def _losses(chunk: Chunk, q: Law, loss: Losses) -> tuple[Array, Expected]:
    """v_iᵀSv_i (n,) and the expected losses of the chunk; the chunk keeps both."""

    def compute() -> tuple[Array, Expected]:
        V = chunk.V
        turned = chunk.kept("SV", lambda out: product(V, q.covariance, out))
        within = row_products(V, turned)
        mean = V @ q.mean + chunk.prior_mean
        return within, _at(loss, chunk)(chunk.targets, mean, chunk.residual + within)

    return chunk.recall("losses", compute)


def _at(loss: Losses, chunk: Chunk) -> ExpectedLoss:
    """The loss for the rows of a chunk."""
    if isinstance(loss, LossOfResiduals):
        return loss.given(chunk.residual)
    return loss.at(chunk.rows) if isinstance(loss, LossOfRows) else loss


@dataclass(frozen=True, eq=False)
class Adjoint:
    """The matrices that the last pass over a collapsed posterior needs besides q."""

    in_total: float
    moment: Array  # Vm̄
    H: Array
    twice: Array  # 2Ā
    b_bar: Array
    rank: Array  # the columns w and b̄

    @classmethod
    def of(cls, q: GramLaw, losses: LossSums, in_total: float, in_kl: float) -> Adjoint:
        """From the derivatives of J in the sum of the losses and in KL."""
        S, moment, H = q.covariance, in_total * losses.mean, in_total * losses.gram.sum()
        b_bar = S @ (moment + in_kl * q.mean)
        cross = b_bar @ q.mean.T
        twice = -2.0 * matmul(matmul(S, H + in_kl * q.kl_in_covariance), S) - cross - cross.T
        return cls(in_total, moment, H, twice, b_bar, namespace(S).concatenate([q.mean, b_bar], axis=1))


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
        self, member: Diagonal, q: GramLaw, source: Stream, loss: Losses, adjoint: Adjoint, in_power: bool
    ) -> None:
        self.member, self.q, self.loss, self.adjoint = member, q, loss, adjoint
        self.in_power = in_power
        self.power: Array | float = 0.0
        self.pull, self.noise = source.pull_back(), 0.0
        self.gram = SignedGram(source.square())

    def chunk(self, chunk: Chunk) -> None:
        more, V, a = self.adjoint, chunk.V, self.member.power
        xp = namespace(V)
        within, expected = _losses(chunk, self.q, self.loss)
        m_bar, s_bar = more.in_total * expected.in_mean, more.in_total * expected.in_variance
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
        bar -= xp.multiply(V, (2.0 * D * r_bar)[:, None], out=buffer)
        add_product(xp.concatenate([m_bar * D[:, None], chunk.Y], axis=1), more.rank.T, bar)
        bar /= D[:, None]
        if a > 0.0:
            self.gram.add(V, r_bar, buffer)
        self.pull.features(chunk.X, bar, chunk.K, chunk.V)
        self.pull.diagonal(chunk.X, r_bar)

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
        variance = chunk.residual + row_products(V, bar)
        expected = _at(self.loss, chunk)(chunk.targets, V @ self.q.mean + chunk.prior_mean, variance)
        self.add(chunk, expected)
        if not chunk.basis.exact:  # r_i contains −|v_i|²
            bar -= V
        bar *= (2.0 * expected.in_variance)[:, None]
        add_product(expected.in_mean, self.q.mean.T, bar)
        slopes = expected.in_variance
        if expected.in_residual is not None:
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
