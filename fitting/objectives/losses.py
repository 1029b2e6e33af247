"""Expected losses of Gaussian predictions: a protocol that bounded losses and likelihoods share.

With f ~ N(m, v), these are the losses of a likelihood p(y|f):

| objective     | loss                 |                                                                             |
|---------------|----------------------|-----------------------------------------------------------------------------|
| "elbo"        | −E log p(y|f)        | Gibbs loss: with the KL, −ELBO                                              |
| "log-loss"    | −log E p(y|f)        | direct loss minimisation; at most the Gibbs loss (D-02)                     |
| "square-loss" | ½(y − m)²            | direct loss minimisation, for a Gaussian likelihood (D-08, D-09)            |
| "power"       | −(1/a) log E p(y|f)^a | black-box α-divergence: a → 0 is the Gibbs loss, a = 1 the log loss (D-03) |

`PowerEP`, and `fitting.objectives.narrowed.NarrowedLosses`, are losses that depend on K − Q, too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import numpy as np

from gpbounds.arrays import Array, Float, host, namespace
from gpbounds.likelihoods import Gaussian, Likelihood
from gpbounds.losses import Loss
from gpbounds.montecarlo.addressed import Draws, product_draws
from gpbounds.validation import choice, closed_unit, count, non_negative, scalar

OBJECTIVES = ("elbo", "log-loss", "square-loss", "power")

SMALLEST = 1e-6
"""A smaller power of "power" counts as 0: the loss differs from its limit by about a/2 times the variance of log p."""


class Expected(NamedTuple):
    """A sum of expected losses over some rows, and its derivatives.

    Attributes
    ----------
    total : number
    in_mean : array (n, P)
        Derivatives in the means.
    in_variance : array (n,)
        Derivatives in the variances, which the outputs share.
    in_parameters : array (q,)
        Derivatives in the logarithms of the parameters of the loss, on a GPU with the rows; empty if it has none.
    in_residual : array (n,) or None
        Derivatives in the diagonal of K − Q at fixed variances, for a loss that depends on it by itself.
    """

    total: Array | float
    in_mean: Array
    in_variance: Array
    in_parameters: Array = np.zeros(0)
    in_residual: Array | None = None


ExpectedLoss = Callable[[Array, Array, Array], Expected]
"""(targets (n, P), means (n, P), latent variances (n,)) ↦ Σ E ℓ(y, f), f ~ N(m, v); threads call it concurrently."""


def of_loss(loss: Loss) -> ExpectedLoss:
    """The expected losses of a bounded loss, for one output.

    >>> from gpbounds.losses import Squared
    >>> result = of_loss(Squared(1.0))(np.array([[0.5]]), np.array([[0.0]]), np.array([0.1]))
    >>> round(float(result.total), 4), result.in_mean.shape
    (0.3328, (1, 1))
    """

    def expected(Y: Array, means: Array, variances: Array) -> Expected:
        arguments = Y[:, 0], means[:, 0], variances
        values, in_mean, in_variance = loss.slopes(*arguments)
        return Expected(values.sum(), in_mean[:, None], in_variance)

    return expected


@dataclass(frozen=True)
class PowerEP:
    """The loss whose sum and KL(q‖p) have the objective of power EP as their minimum over q.

    With e = σ² + a·r, r the diagonal of K − Q:

        ½ log 2πe + [(y − m)² + v − r]/(2e) + ((1 − a)/(2a)) log(1 + a·r/σ²),        last term r/(2σ²) for a = 0.

    The energy log N(y; 0, Q + aR + σ²I) − ((1 − a)/(2a)) Σ log(1 + a·r_i/σ²) is a maximum over q with the noise e_i in
    place of σ², so that rows can be drawn at random.

    Attributes
    ----------
    noise : float
        σ².
    power : float
        a in [0, 1].

    >>> rows = np.array([[1.0]]), np.array([[0.0]]), np.array([0.5])
    >>> vfe, elbo = PowerEP(0.5, 0.0).given(np.array([0.2])), of_likelihood(Gaussian(0.5))
    >>> round(float(vfe(*rows).total), 6), round(float(elbo(*rows).total), 6)
    (2.072365, 2.072365)
    """

    noise: float
    power: float

    def given(self, residual: Array) -> ExpectedLoss:
        """The losses of rows with this diagonal of K − Q: a `fitting.objectives.free.LossOfResiduals`."""
        a, s2, r = self.power, self.noise, residual
        xp = namespace(r)
        e = s2 + a * r
        penalty = r / s2 if a == 0.0 else xp.log1p(a / s2 * r) / a

        def expected(Y: Array, m: Array, v: Array) -> Expected:
            d = (m - Y)[:, 0]
            square = d * d + v - r
            values = 0.5 * (xp.log(2.0 * np.pi * e) + square / e + (1.0 - a) * penalty)
            by_noise = 0.5 * (s2 * (1.0 - square / e) - (1.0 - a) * r) / e
            in_residual = -0.5 * a * square / (e * e)
            return Expected(values.sum(), (d / e)[:, None], 0.5 / e, _totals([by_noise]), in_residual)

        return expected


def of_likelihood(
    likelihood: Likelihood, objective: str = "elbo", power: float = 1.0, weights: Array | None = None
) -> ExpectedLoss:
    """The expected losses of a likelihood, for one output; `Expected.in_parameters` are those of its own parameters.

    Parameters
    ----------
    likelihood : Likelihood
    objective : "elbo", "log-loss", "square-loss" or "power"
        A row of the table above.
    power : float in [0, 1]
        a, for "power" only.  At 0 and below 1e-6 the loss is its limit, "elbo".
    weights : array (n,), optional
        Factors of the losses of the rows; None is 1.

    >>> from gpbounds.likelihoods import Gaussian
    >>> y, m, v = np.array([[1.0]]), np.array([[0.0]]), np.array([0.5])
    >>> [round(float(of_likelihood(Gaussian(0.5), name, 0.5)(y, m, v).total), 4) for name in OBJECTIVES]
    [2.0724, 1.4189, 0.5, 1.6445]
    """
    choice("objective", objective, OBJECTIVES)
    a = scalar(closed_unit, "power", power)
    if objective == "square-loss":
        only_gaussian(likelihood, objective)
        return _square_loss if weights is None else _weighted_square_loss(weights)
    asked: dict[str, Any] = {"gradient": True, "parameters": True, "checked": True}
    if objective == "log-loss":
        return _negated(lambda y, m, v: likelihood.log_expected_density(y, m, v, **asked), 1.0, weights)
    if objective == "elbo" or a < SMALLEST:
        return _negated(lambda y, m, v: likelihood.expected_log_density(y, m, v, **asked), 1.0, weights)
    return _negated(lambda y, m, v: likelihood.log_expected_power(y, m, v, a, **asked), 1.0 / a, weights)


@dataclass(frozen=True, eq=False)
class WeightedLosses:
    """The losses of `of_likelihood` times a weight of each row: a `fitting.objectives.free.LossOfRows`.

    A whole weight counts a row that often.

    Attributes
    ----------
    likelihood, objective, power : as in `of_likelihood`
    weights : array (N,)
        Of all rows, on their device.
    """

    likelihood: Likelihood
    objective: str
    power: float
    weights: Array

    def at(self, rows: slice) -> ExpectedLoss:
        """The expected losses of these rows."""
        return of_likelihood(self.likelihood, self.objective, self.power, self.weights[rows])


def only_gaussian(likelihood: Likelihood, objective: str) -> Gaussian:
    """``likelihood``, which must be Gaussian for this objective."""
    if not isinstance(likelihood, Gaussian):
        raise ValueError(
            f"objective: expected 'elbo', 'log-loss' or 'power' for {likelihood!r}, got {objective!r}, which is "
            "defined for a Gaussian likelihood only"
        )
    return likelihood


def _negated(means: Callable[..., tuple[Any, ...]], factor: float, weights: Array | None) -> ExpectedLoss:
    """The sum of −``factor`` times the values, times the ``weights`` of the rows, with their derivatives."""

    def expected(Y: Array, m: Array, v: Array) -> Expected:
        parts = means(Y[:, 0], m[:, 0], v)
        values, in_mean, in_variance, *in_each_parameter = parts if weights is None else [weights * p for p in parts]
        in_parameters = -factor * _totals(in_each_parameter)
        return Expected(-factor * values.sum(), -factor * in_mean[:, None], -factor * in_variance, in_parameters)

    return expected


def _totals(parts: Sequence[Array]) -> Array:
    """The sum of each array, without a read from a GPU."""
    if not parts:
        return np.zeros(0)
    xp = namespace(*parts)
    if xp is np:
        return np.array([float(part.sum()) for part in parts])
    return xp.stack([part.sum() for part in parts])


def _square_loss(Y: Array, m: Array, v: Array) -> Expected:
    difference = m - Y
    return Expected(0.5 * (difference * difference).sum(), difference, 0.0 * v, np.zeros(1))


def _weighted_square_loss(weights: Array) -> ExpectedLoss:
    def expected(Y: Array, m: Array, v: Array) -> Expected:
        difference = m - Y
        slopes = weights[:, None] * difference
        return Expected(0.5 * (slopes * difference).sum(), slopes, 0.0 * v, np.zeros(1))

    return expected


# Sampled expected losses of direct loss minimisation: bMC, smooth bMC, the sampled ELBO, and product sampling (uPS).
#
# Row i has f ~ N(m, s), L samples f_l = m + √s·ε_l, densities p_l = p(y|f_l) and slopes g_l = ∂ log p(y|f_l)/∂f:
#
#     bmc          −log (1/L)Σp_l,              derivatives −Σw g in m and −Σw g ε/(2√s) in s, w = p/Σp,
#     smooth-bmc   −log (c + (1/L)Σp_l),        the same with w = p/(Σp + Lc),
#     elbo-mc      −(1/L)Σ log p_l,             the same with w = 1/L,
#     ups          −log E p, computed exactly;  −mean (f − m)/s and −½ mean[(f − m)²/s² − 1/s], f ~ q̃ ∝ N(m, s)·p.
#
# The first three are the derivatives of the sampled value at fixed ε: stochastic gradient descent on them minimises the
# mean of that value, which for bmc lies between the log-loss DLM term (L = ∞) and the ELBO's term (L = 1)  (D-22,
# D-24). The derivatives of ups are unbiased for the log-loss DLM term, for every L  (D-10).  In the parameters θ of the
# likelihood the derivative is −Σw ∂_θ log p_l, and for ups the mean of −∂_θ log p(y|f) under q̃, which is unbiased,
# too.
#
# The samples of a row are determined by a key, the step and the row (`gpbounds.montecarlo.addressed`): results do not
# depend on threads or chunks, and a step that is computed again has the same samples.

METHODS = ("bmc", "smooth-bmc", "elbo-mc", "ups")
ESTIMATORS = ("reparametrised", "curvature")

Schedule = Callable[[int], int]


@dataclass(frozen=True)
class Sampling:
    """How losses are sampled; `loss` makes the loss of a step, with samples of its own.

    Attributes
    ----------
    method : "bmc", "smooth-bmc", "elbo-mc" or "ups"
    draws : Draws
        The random numbers of all steps.
    samples : int or function of the step
        L.
    smoothing : float
        c of "smooth-bmc", in units of p(y|f); 0 for the other methods.
    estimator : "reparametrised" or "curvature"
        With "curvature" the derivative of bmc in s is −½Σw(g² + g'), the paper's Eq. 8 with the sign of a gradient.
        It is not the derivative of any L-sample objective (D-24), and serves comparisons only.

    Raises
    ------
    ValueError
        for another method, samples < 1, a smoothing without "smooth-bmc" or the reverse, "curvature" without "bmc".

    >>> from gpbounds.likelihoods import Bernoulli
    >>> sampling = Sampling("bmc", Draws.of(0), samples=3)
    >>> loss = sampling.loss(Bernoulli("probit"), step=1).at(slice(0, 2))
    >>> result = loss(np.array([[1.0], [0.0]]), np.array([[0.5], [0.5]]), np.array([2.0, 2.0]))
    >>> result.in_mean.shape, result.in_variance.shape
    ((2, 1), (2,))
    """

    method: str
    draws: Draws
    samples: int | Schedule = 10
    smoothing: float = 0.0
    estimator: Literal["reparametrised", "curvature"] = "reparametrised"

    def __post_init__(self) -> None:
        choice("method", self.method, METHODS)
        choice("estimator", self.estimator, ESTIMATORS)
        if not callable(self.samples):
            count("samples", self.samples)
        constant = scalar(non_negative, "smoothing", self.smoothing)
        if (constant > 0.0) != (self.method == "smooth-bmc"):
            raise ValueError(
                f'smoothing: expected a number > 0 with method="smooth-bmc" and 0 with others, got {constant:g} with '
                f'"{self.method}"'
            )
        if self.estimator == "curvature" and self.method != "bmc":
            raise ValueError(f'estimator: expected "reparametrised" for method="{self.method}", got "curvature"')

    def loss(self, likelihood: Likelihood, step: int) -> _SampledLoss:
        """The loss of step 0, 1, …, for a likelihood, whose parameters may change from step to step."""
        L = count("samples", self.samples(step) if callable(self.samples) else self.samples)
        return _SampledLoss(likelihood, self, count("step", step, 0), L)


@dataclass(frozen=True, eq=False)
class _SampledLoss:
    """The sampled losses of one step, made by `Sampling.loss`: a `fitting.objectives.free.LossOfRows`.

    Attributes
    ----------
    likelihood : Likelihood
    sampling : Sampling
    step : int
    L : int
        Number of samples.
    """

    likelihood: Likelihood
    sampling: Sampling
    step: int
    L: int
    _silenced: dict[int, tuple[int, Array]] = field(default_factory=dict, repr=False)

    def at(self, rows: slice) -> ExpectedLoss:
        """The expected losses of these rows, which have one target and a variance s > 0 each."""
        sample = self._product if self.sampling.method == "ups" else self._average

        def expected(Y: Array, means: Array, variances: Array) -> Expected:
            if Y.shape[1] != 1:
                raise ValueError(f"y: expected one target for each row, shape (n, 1), got {Y.shape}")
            with np.errstate(all="ignore"):  # an infinite value is refused by the caller
                return sample(rows, Y, means[:, 0], variances)

        return expected

    @property
    def silenced_share(self) -> float:
        """Share of the rows so far whose mean density (1/L)Σp_l is below the smoothing constant.

        Smoothing takes more than half of the derivatives of such a row away.
        """
        sizes, numbers = zip(*self._silenced.values(), strict=True) if self._silenced else ((1,), (0,))
        return sum(int(number) for number in numbers) / sum(sizes)

    def _average(self, rows: slice, y: Array, m: Array, s: Array) -> Expected:
        xp, L, likelihood = namespace(m), self.L, self.likelihood
        normals, root = xp.asarray(self.sampling.draws.normals(self.step, rows, L)), xp.sqrt(s)[:, None]
        f = m[:, None] + root * normals
        log_density = likelihood.log_density(y, f)
        first, second, _ = likelihood.derivatives(y, f)
        if self.sampling.method == "elbo-mc":
            values, weights = -log_density.mean(axis=1), xp.full(f.shape, 1.0 / L)
        else:
            values, weights = self._weighted(rows, log_density)
        if self.sampling.estimator == "reparametrised":
            slope = first * normals / (2.0 * root)
        else:
            slope = 0.5 * (first * first + second)
        in_parameters = np.zeros(0)
        if likelihood.parameter_names:
            in_parameters = host(_negative_sums(weights, likelihood.parameter_derivatives(y, f), (1, 2)))
        in_mean, in_variance = (_negative_sums(weights, part, 1) for part in (first, slope))
        return Expected(values.sum(), in_mean[:, None], in_variance, in_parameters)

    def _weighted(self, rows: slice, log_density: Array) -> tuple[Array, Array]:
        """−log(c + (1/L)Σp) and p/(Σp + Lc), for sums that neither overflow nor underflow."""
        xp, c = namespace(log_density), self.sampling.smoothing
        log_c = math.log(c) if c > 0.0 else -math.inf
        top = xp.maximum(log_density.max(axis=1), log_c)
        top = xp.where(top > -math.inf, top, 0.0)
        densities, constant = xp.exp(log_density - top[:, None]), xp.exp(log_c - top)
        if c > 0.0:
            below = densities.mean(axis=1) < constant
            self._silenced[rows.start] = (below.shape[0], below.sum())
        total = densities.sum(axis=1) + self.L * constant
        return -(top + xp.log(total / self.L)), densities / total[:, None]

    def _product(self, rows: slice, y: Array, m: Array, s: Array) -> Expected:
        """The losses of "ups"; product sampling runs on the host, for arrays on a device, too."""
        xp, L, likelihood = namespace(m), self.L, self.likelihood

        def uniforms(turn: int, number: int) -> Float:
            return self.sampling.draws.uniforms(self.step, rows, number, turn)

        samples, log_mean = product_draws(likelihood, host(y)[:, 0], host(m), host(s), L, uniforms)
        f, v = xp.asarray(samples), s[:, None]
        pull = (f - m[:, None]) / v
        in_mean, in_variance = -pull.mean(axis=1), -0.5 * (pull * pull - 1.0 / v).mean(axis=1)
        in_parameters = np.zeros(0)
        if likelihood.parameter_names:
            in_parameters = -host(likelihood.parameter_derivatives(y, f).sum(axis=(1, 2))) / L
        return Expected(-log_mean.sum(), in_mean[:, None], in_variance, in_parameters)


def _negative_sums(weights: Array, parts: Array, axis: int | tuple[int, ...]) -> Array:
    """−Σ weights·parts, in which a term of weight 0 is 0, whatever its part."""
    return -namespace(parts).where(weights > 0.0, weights * parts, 0.0).sum(axis=axis)
