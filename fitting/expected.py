"""Expected losses of Gaussian predictions: a protocol that bounded losses and likelihoods share.

With f ~ N(m, v), these are the losses of a likelihood p(y|f):

| objective     | loss                 |                                                                             |
|---------------|----------------------|-----------------------------------------------------------------------------|
| "elbo"        | −E log p(y|f)        | Gibbs loss: with the KL, −ELBO                                              |
| "log-loss"    | −log E p(y|f)        | direct loss minimisation; at most the Gibbs loss (D-02)                     |
| "square-loss" | ½(y − m)²            | direct loss minimisation, for a Gaussian likelihood (D-08, D-09)            |
| "power"       | −(1/a) log E p(y|f)^a | black-box α-divergence: a → 0 is the Gibbs loss, a = 1 the log loss (D-03) |

`PowerEP` is a loss that depends on K − Q, too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from gpbounds.arrays import Array, namespace
from gpbounds.likelihoods import Gaussian, Likelihood
from gpbounds.losses import Loss
from gpbounds.validation import choice, closed_unit, scalar

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
        """The losses of rows with this diagonal of K − Q: a `fitting.functional.LossOfResiduals`."""
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


def of_likelihood(likelihood: Likelihood, objective: str = "elbo", power: float = 1.0) -> ExpectedLoss:
    """The expected losses of a likelihood, for one output; `Expected.in_parameters` are those of its own parameters.

    Parameters
    ----------
    likelihood : Likelihood
    objective : "elbo", "log-loss", "square-loss" or "power"
        A row of the table above.
    power : float in [0, 1]
        a, for "power" only.  At 0 and below 1e-6 the loss is its limit, "elbo".

    >>> from gpbounds.likelihoods import Gaussian
    >>> y, m, v = np.array([[1.0]]), np.array([[0.0]]), np.array([0.5])
    >>> [round(float(of_likelihood(Gaussian(0.5), name, 0.5)(y, m, v).total), 4) for name in OBJECTIVES]
    [2.0724, 1.4189, 0.5, 1.6445]
    """
    choice("objective", objective, OBJECTIVES)
    a = scalar(closed_unit, "power", power)
    if objective == "square-loss":
        only_gaussian(likelihood, objective)
        return _square_loss
    asked: dict[str, Any] = {"gradient": True, "parameters": True, "checked": True}
    if objective == "log-loss":
        return _negated(lambda y, m, v: likelihood.log_expected_density(y, m, v, **asked))
    if objective == "elbo" or a < SMALLEST:
        return _negated(lambda y, m, v: likelihood.expected_log_density(y, m, v, **asked))
    return _negated(lambda y, m, v: likelihood.log_expected_power(y, m, v, a, **asked), 1.0 / a)


def only_gaussian(likelihood: Likelihood, objective: str) -> Gaussian:
    """``likelihood``, which must be Gaussian for this objective."""
    if not isinstance(likelihood, Gaussian):
        raise ValueError(
            f"objective: expected 'elbo', 'log-loss' or 'power' for {likelihood!r}, got {objective!r}, which is "
            "defined for a Gaussian likelihood only"
        )
    return likelihood


def _negated(means: Callable[..., tuple[Any, ...]], factor: float = 1.0) -> ExpectedLoss:
    """The sum of −``factor`` times the values, with their derivatives."""

    def expected(Y: Array, m: Array, v: Array) -> Expected:
        values, in_mean, in_variance, *own = means(Y[:, 0], m[:, 0], v)
        in_parameters = -factor * _totals(own)
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
