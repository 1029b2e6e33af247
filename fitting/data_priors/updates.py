"""Q from the prior P and the certified rows: the Gaussian update with free noise, then training by the bound.

With v = mean + factor·z as in `PriorLaw`, P is z ~ N(0, I) and Q is z ~ N(m, C).  The update with noise s² has

    C = (I + G/s²)⁻¹,    m = Cb/s²,    G = Σ φφᵀ,    b = Σ φ(y − prior mean),    KL(Q‖P) = KL(N(m, C)‖N(0, I)),

and s, which may depend on everything, minimises the bound.  s = ∞ is Q = P, whose KL is 0.  In the eigenbasis
G = UΛUᵀ, with ψ = Uᵀφ, C = U diag(c)Uᵀ and m = Uμ, a prediction has the mean P's + ψᵀμ and the variance
(K − Q) + Σ ψ_j²c_j, and 2KL = Σ(c_j − 1 − ln c_j + μ_j²): the bound is minimised over the 2M numbers μ and ln c.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from fitting.data_priors.prior_law import PriorLaw
from fitting.objectives.goals import Relaxation, Target
from fitting.posterior import InducingPosterior
from fitting.training import Ending, Run, train_lbfgs
from gpbounds.arrays import Float
from gpbounds.errors import NotPositiveDefinite
from gpbounds.law import FactorLaw, triangular
from gpbounds.linalg.parallel import one_blas_thread
from gpbounds.losses import Loss
from gpbounds.pacbayes import Certificate, DeclaredMean, Scaling, bound
from gpbounds.pacbayes import Updated as Record
from gpbounds.pacbayes.certificate.rows import Partitions, Raw, Scaled
from gpbounds.rows.engines import Changed, Engine, Memory
from gpbounds.rows.program import Program, Rows, Statistics
from gpbounds.whitening import CHUNK, slices

KEPT = 2**29
"""Bytes of φ that are kept while s is sought and Q trained; of more rows a random sample stands for all of them, and
the candidates are then compared on all rows."""

WORTH = 1e-4
"""Fewer inducing variables are tried if rounding costs more than this share of the bound."""

STREAM = 9
"""Stream of the random numbers that draw this sample."""

COARSE, FINE = np.linspace(-14.0, 4.0, 37), np.linspace(-0.4, 0.4, 9)
"""ln(s²/λ_max) of a scan, and of a second one ln(s²/its best)."""

WIDEST = 30.0
"""Largest |ln c|."""


@dataclass(frozen=True)
class Aim:
    """The bound that Q minimises: on its Gibbs risk, or on the risk of its mean prediction.

    For predictor "gibbs" it is B = kl⁻¹(R, (KL + ln(1/p) + ln(ξ(n)/δ))/n).  For "mean" it is the smaller of 2B and
    4 kl⁻¹(T, (2KL + ln(1/p) + ln(ξ(n)/δ))/n), T = n⁻¹Σ(E ℓ)² the tandem risk, each at δ/2.

    Parameters
    ----------
    loss : Loss
    N : int
        n, the number of certified rows.
    delta : float
    log_prior_penalty : float
        ln(1/p): the logarithms of all charges.
    predictor : "gibbs" or "mean"
    relaxation : "kl" or "pinsker"
    """

    loss: Loss
    N: int
    delta: float
    log_prior_penalty: float = 0.0
    predictor: str = "gibbs"
    relaxation: Relaxation = "kl"

    @property
    def _penalty(self) -> float:
        return self.log_prior_penalty + (math.log(2.0) if self.predictor == "mean" else 0.0)

    def bounds(self, risk: Float, tandem: Float, kl: Float) -> Float:
        """The bound for R, T and KL (k,); by kl⁻¹ whatever the relaxation of training."""
        options: dict[str, Any] = {"delta": self.delta, "log_prior_penalty": self._penalty}
        gibbs = np.asarray(bound(np.minimum(risk, 1.0), np.maximum(kl, 0.0), self.N, **options).value)
        if self.predictor == "gibbs":
            return gibbs
        pairs = np.asarray(bound(np.minimum(tandem, 1.0), np.maximum(2.0 * kl, 0.0), self.N, **options).value)
        return np.minimum(2.0 * gibbs, 4.0 * pairs)

    def __call__(self, risk: float, tandem: float, kl: float) -> tuple[float, float, float, float]:
        """What training minimises, and its derivatives in R, T and KL."""
        target = Target(
            self.loss, self.N, delta=self.delta, log_prior_penalty=self._penalty, relaxation=self.relaxation
        )
        value, in_total, in_kl = target(self.N * risk, kl)
        if self.predictor == "gibbs":
            return value, self.N * in_total, 0.0, in_kl
        paired, in_pairs, in_kl_of_pairs = target(self.N * tandem, 2.0 * kl)
        if 2.0 * paired < value:
            return 4.0 * paired, 0.0, 4.0 * self.N * in_pairs, 8.0 * in_kl_of_pairs
        return 2.0 * value, 2.0 * self.N * in_total, 0.0, 2.0 * in_kl


class Update(NamedTuple):
    """Q: z ~ ``q``, its terms on the certified rows, and how it was found.

    Attributes
    ----------
    prior : PriorLaw
    q : FactorLaw
        mean (M, 1) and lower triangular factor of the law of z.
    scale : float
        s² of the update from which training started; ∞ for Q = P.
    risk, tandem, kl, bound : float
        R, T, KL(Q‖P), and the bound of the aim, in doubles.
    run : Run or None
        The training by the bound, if there was one.
    trained : bool
        Whether its end is Q; otherwise its start had the smaller bound.
    """

    prior: PriorLaw
    q: FactorLaw
    scale: float
    risk: float
    tandem: float
    kl: float
    bound: float
    run: Run | None
    trained: bool

    @property
    def record(self) -> Record:
        """Q as certificates hold it."""
        P = self.prior
        return Record(P.Z, P.mean, P.factor, self.q.mean[:, 0], self.q.factor, P.jitter)

    def posterior(self, noise: float) -> InducingPosterior:
        """Q for predictions of f minus the prior's mean function: v ~ N(mean + factor·m, factor·C·factorᵀ)."""
        P = self.prior
        law = FactorLaw(P.mean[:, None] + P.factor @ self.q.mean, np.tril(P.factor @ self.q.factor))
        return InducingPosterior(P.inducing, noise, law, single=True)


# Passes over the certified rows.


@dataclass(frozen=True, eq=False)
class _Sums(Statistics):
    """G, b, the number of rows, and the rows of the sample."""

    G: Float
    b: Float
    rows: int
    X: tuple[Float, ...]
    y: tuple[Float, ...]


@dataclass(frozen=True, eq=False)
class _RiskSums(Statistics):
    """The sums of the expected losses of several laws, and of their squares; arrays (number of laws,)."""

    losses: Float
    squares: Float


def _given(prior: PriorLaw) -> PriorLaw:
    """The first state of a pass."""
    return prior


def _sums(aim: Aim, share: float, prior: PriorLaw, rows: Rows) -> _Sums:
    """The sums of one partition, and a random ``share`` of its rows."""
    X, y, M = rows.points, rows.Y[:, 0], len(prior.mean)
    G, b = np.zeros((M, M)), np.zeros(M)
    for part in slices(len(y), CHUNK):
        mean, phi, residual = prior.features(X[part])
        weights, pulls = pull(aim.loss, y[part], mean, residual + np.einsum("ij,ij->i", phi, phi))
        G += phi.T @ (weights[:, None] * phi)
        b += phi.T @ pulls
    if share < 1.0:
        chosen = np.random.default_rng([STREAM, rows.number]).permutation(len(y))[: int(np.ceil(share * len(y)))]
        X, y = X[np.sort(chosen)], y[np.sort(chosen)]
    return _Sums(G, b, len(rows.Y), (X,), (y,))


def _risks(aim: Aim, laws: Sequence[FactorLaw], prior: PriorLaw, rows: Rows) -> _RiskSums:
    """The sums of one partition for each law of z."""
    X, y, total = rows.points, rows.Y[:, 0], np.zeros((2, len(laws)))
    for part in slices(len(y), CHUNK):
        mean, phi, residual = prior.features(X[part])
        for i, q in enumerate(laws):
            half = phi @ q.factor
            moments = mean + phi @ q.mean[:, 0], residual + np.einsum("ij,ij->i", half, half)
            losses = aim.loss.expectation(y[part], *moments)
            total[:, i] += losses.sum(), losses @ losses
    return _RiskSums(total[0], total[1])


def pull(loss: Loss, y: Float, mean: Float, variance: Float) -> tuple[Float, Float]:
    """The weight of each row in G, and its part of b: 1 and y − mean for numbers.

    For labels they are the curvature and the slope of ln Φ(y·m/√(1 + v)) in m: one step of a probit posterior.
    """
    if loss.name != "sign":
        return np.ones(len(y)), y - mean
    from scipy.special import log_ndtr

    scale = 1.0 / np.sqrt(1.0 + variance)
    place = y * mean * scale
    ratio = np.exp(-0.5 * place * place - log_ndtr(place)) / np.sqrt(2.0 * np.pi)
    return scale * scale * ratio * (ratio + place), y * scale * ratio


# The bound as a function of μ and c.


@dataclass(frozen=True, eq=False)
class Eigenbasis:
    """Rows in the eigenbasis of G.

    Attributes
    ----------
    aim : Aim
    psi : array (n, M)
    mean, residual, y : arrays (n,)
        P's mean, K − Q, targets.
    """

    aim: Aim
    psi: Float
    mean: Float
    residual: Float
    y: Float

    def losses(self, mu: Float, c: Float, *, gradient: bool = False) -> Any:
        """Expected losses (n,); with ``gradient`` also their derivatives in means and variances."""
        spread = np.concatenate([np.square(self.psi[part]) @ c for part in slices(len(self.y), CHUNK)])
        return self.aim.loss.expectation(self.y, self.mean + self.psi @ mu, self.residual + spread, gradient=gradient)

    def bounds(self, points: Sequence[tuple[Float, Float]]) -> Float:
        """The bound at each (μ, c)."""
        terms = []
        for mu, c in points:
            losses = self.losses(mu, c)
            terms.append((losses.mean(), losses @ losses / len(losses), _kl(mu, c)))
        return self.aim.bounds(*np.array(terms).T)

    def value_and_slopes(self, x: Float) -> tuple[float, Float]:
        """The bound at (μ, ln c) = ``x``, and its gradient."""
        M, n = self.psi.shape[1], len(self.y)
        mu, c = x[:M], np.exp(x[M:])
        losses, in_mean, in_variance = self.losses(mu, c, gradient=True)
        value, in_risk, in_tandem, in_kl = self.aim(float(losses.mean()), float(losses @ losses / n), _kl(mu, c))
        weights = (in_risk + 2.0 * in_tandem * losses) / n
        in_mean, in_variance = weights * in_mean, weights * in_variance
        in_c = sum(np.square(self.psi[part]).T @ in_variance[part] for part in slices(n, CHUNK))
        return value, np.concatenate([self.psi.T @ in_mean + in_kl * mu, c * in_c + 0.5 * in_kl * (c - 1.0)])


def _kl(mu: Float, c: Float) -> float:
    """KL(N(μ, diag c)‖N(0, I))."""
    return 0.5 * float((c - 1.0 - np.log(c)).sum() + mu @ mu)


def law_in(U: Float, mu: Float, c: Float) -> FactorLaw:
    """N(Uμ, U diag(c) Uᵀ) with a triangular factor.

    >>> q = law_in(np.eye(2), np.array([1.0, 0.0]), np.array([0.25, 1.0]))
    >>> q.factor.tolist(), round(q.kl, 6)
    ([[0.5, 0.0], [0.0, 1.0]], 0.818147)
    """
    return FactorLaw((U @ mu)[:, None], np.ascontiguousarray(triangular((U * np.sqrt(c)).T).T))


def gaussian_update(eigenvalues: Float, b: Float, scale: float) -> tuple[Float, Float]:
    """μ and c of the update with noise ``scale`` = s², in the eigenbasis of G; 0 and 1 at s² = ∞."""
    c = 1.0 / (1.0 + eigenvalues / scale)
    return c * b / scale, c


# The search.


@one_blas_thread()
def update(
    prior: PriorLaw, rows: Engine, aim: Aim, *, trained: bool = True, max_iter: int = 1000, ending: Ending | None = None
) -> Update:
    """The Q with the least bound in doubles among P, the updates Q_s, and what training by the bound finds from there.

    Parameters
    ----------
    prior : PriorLaw
    rows : Engine
        The certified rows in the units of the model, with targets minus the prior's mean function.
    aim : Aim
    trained : bool
        Train (μ, ln c) by the bound from the best Q_s.
    max_iter : int
    ending : Ending, optional
        When training has settled.

    Raises
    ------
    NotPositiveDefinite
        if Kuu + jitter·I does not factorise, or K − Q is below 0 by more than rounding.
    """
    M = len(prior.mean)
    share = min(1.0, KEPT / (8.0 * M * aim.N))
    sums = rows.run(Program.one_pass(partial(_sums, aim, share), begin=partial(_given, prior)))
    eigenvalues, U = np.linalg.eigh(sums.G)
    eigenvalues, b = np.maximum(eigenvalues, 0.0), U.T @ sums.b
    at = _eigenbasis(prior, aim, U, np.concatenate(sums.X), np.concatenate(sums.y))
    scale = best_scale(
        lambda scales: at.bounds([gaussian_update(eigenvalues, b, float(s2)) for s2 in scales]),
        float(eigenvalues.max(initial=0.0)),
    )
    mu, c = gaussian_update(eigenvalues, b, scale)
    points, run = [(np.zeros(M), np.ones(M)), (mu, c)], None
    if trained:
        limits = [(-np.inf, np.inf)] * M + [(-WIDEST, WIDEST)] * M
        start = np.concatenate([mu, np.clip(np.log(c), -WIDEST, WIDEST)])
        run = train_lbfgs(at.value_and_slopes, start, limits, max_iter=max_iter, ending=ending, gtol=1e-8)
        points.append((run.vector[:M], np.exp(run.vector[M:])))
    laws = [FactorLaw(np.zeros((M, 1)), np.eye(M)), *(law_in(U, *point) for point in points[1:])]  # P is exact
    if share < 1.0:
        total = rows.run(Program.one_pass(partial(_risks, aim, laws), begin=partial(_given, prior)))
        risks, tandems = total.losses / sums.rows, total.squares / sums.rows
    else:
        each = [at.losses(*point) for point in points]
        risks, tandems = (np.array([(losses**k).mean() for losses in each]) for k in (1, 2))
    bounds = aim.bounds(risks, tandems, np.array([q.kl for q in laws]))
    best = int(np.argmin(bounds))
    return Update(
        prior,
        laws[best],
        np.inf if best == 0 else scale,
        float(risks[best]),
        float(tandems[best]),
        laws[best].kl,
        float(bounds[best]),
        run,
        best == 2,
    )


def _eigenbasis(prior: PriorLaw, aim: Aim, U: Float, X: Float, y: Float) -> Eigenbasis:
    """The rows X (n, D), y (n,) in the eigenbasis U of G."""
    psi, mean, residual = np.empty((len(y), len(U))), np.empty(len(y)), np.empty(len(y))
    for part in slices(len(y), CHUNK):
        mean[part], phi, residual[part] = prior.features(X[part])
        psi[part] = phi @ U
    return Eigenbasis(aim, psi, mean, residual, y)


def best_scale(bounds: Callable[[Float], Float], largest: float) -> float:
    """s² with the least of ``bounds(s²)``: a scan from λ_max·e⁻¹⁴ to λ_max·e⁴ and ∞, and a finer one around its best.

    >>> best_scale(lambda s2: (np.log(s2) - 1.0) ** 2, 10.0).__round__(1)
    2.7
    """
    if largest <= 0.0:
        return np.inf
    for shifts in (COARSE, FINE):
        scales = np.append(largest * np.exp(shifts), np.inf)
        best = float(scales[np.argmin(bounds(scales))])
        if np.isinf(best):
            break
        largest = best
    return best


def certified(
    laws: Sequence[PriorLaw], engine: Engine, aim: Aim, rows: Any, y: Any, declared: dict[str, Any], **options: Any
) -> tuple[Certificate, Update]:
    """The certificate of the updated prior, and the update.

    Parameters
    ----------
    laws : sequence of PriorLaw
        One law of f in several sets of inducing variables, whose choice costs nothing: the first is taken unless
        rounding costs more than 1e-4 of its bound, and then the one with the least bound.
    engine : Engine
        The certified rows, as in `update`.
    aim : Aim
    rows, y : as in `Certificate.issue`
        All raw rows.
    declared : dict
        Further arguments of `Certificate.issue`.
    options
        Those of `update`.

    Raises
    ------
    ValueError, NotPositiveDefinite
        of the first of the laws, if none has a certificate.
    """
    best: tuple[Certificate, Update] | None = None
    fault: Exception | None = None
    for law in laws:
        try:
            made = update(law, engine, aim, **options)
            certificate = Certificate.issue(
                rows, y, made.record, law.kernel, loss=aim.loss, delta=aim.delta, predictor=aim.predictor, **declared
            )
        except (NotPositiveDefinite, ValueError) as error:
            fault = fault or error
            continue
        if best is None or certificate.bound < best[0].bound:
            best = certificate, made
        if certificate.bound <= made.bound * (1.0 + WORTH):
            break
    if best is None:
        assert fault is not None
        raise fault
    return best


def engine_of(rows: Raw, inputs: Scaling, outputs: Scaling, mean: DeclaredMean | None) -> Engine:
    """The raw ``rows`` in the units of the model, with targets minus the prior's mean function."""
    if isinstance(rows, Partitions):
        return rows.scaled(inputs, outputs, mean)
    return Changed(Memory(list(rows.partitions())), Scaled(inputs, outputs, mean))
