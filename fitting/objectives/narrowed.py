"""Expected losses whose conditional variance of f_i given u is trained: the uncollapsed diagonal bound.

Given the inducing variables, f_i has the prior variance r_i, the diagonal of K − Q.  The ELBO keeps it in q.  Here row
i has the variance v_i·r_i, at the price of the KL divergence of such a law from the prior's:

    ℓ(y, m, t + r) = min over v of  −E_{N(m, t + v·r)} log p(y|f) + ½(v − 1 − log v),      t = v_iᵀSv_i.

With λ = −E (log p)'' at the variance t + v·r, the minimum is where v = 1/(1 + λr).  For Gaussian noise λ = 1/σ², and
the sum of the losses is that of the ELBO with ½ Σ log(1 + r/σ²) in place of Tr(K − Q)/(2σ²).  The minimum over v need
not be exact for a bound, and its derivatives are those at fixed v.

The sum bounds −log p(y) for likelihoods that are log-concave in f (N-sidak).  For others it does not.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fitting.objectives.losses import Expected, ExpectedLoss, of_likelihood
from gpbounds.arrays import Array, namespace
from gpbounds.likelihoods import Gaussian, Likelihood
from gpbounds.numerics.search import Part, false_position

CLOSE, ROUNDS = 1e-11, 200
"""Largest error of log v + log(1 + λr), and the largest number of steps to get there."""

LOWEST = -8.0
"""log v where the search begins if λ at v = 1 is infinite, as for counts with a rate that overflows."""


@dataclass(frozen=True)
class NarrowedLosses:
    """The losses of a log-concave likelihood, see the module: a `fitting.objectives.free.LossOfResiduals`.

    Attributes
    ----------
    likelihood : Likelihood

    >>> rows = np.array([[1.0]]), np.array([[0.0]]), np.array([0.5])
    >>> narrowed, elbo = NarrowedLosses(Gaussian(0.5)).given(np.array([0.2])), of_likelihood(Gaussian(0.5))
    >>> round(float(elbo(*rows).total - narrowed(*rows).total), 6)  # ½(r/σ² − log(1 + r/σ²))
    0.031764
    """

    likelihood: Likelihood

    def given(self, residual: Array) -> ExpectedLoss:
        """The losses of rows with this diagonal of K − Q."""

        def expected(Y: Array, m: Array, variance: Array) -> Expected:
            v = narrowing(self.likelihood, Y[:, 0], m[:, 0], variance - residual, residual)
            at = of_likelihood(self.likelihood)(Y, m, variance - (1.0 - v) * residual)
            price = 0.5 * (v - 1.0 - namespace(v).log(v))
            return at._replace(total=at.total + price.sum(), in_residual=(v - 1.0) * at.in_variance)

        return expected


def narrowable(likelihood: Likelihood) -> Likelihood:
    """``likelihood``, which must be log-concave in f."""
    if not likelihood.log_concave:
        raise ValueError(
            f"structure: expected None for {likelihood!r}, which is not known to be log-concave in f (log_concave of "
            "its class): with conditional variances of their own its rows need not sum to a bound; the ELBO is one"
        )
    return likelihood


def narrowing(likelihood: Likelihood, y: Array, m: Array, within: Array, residual: Array) -> Array:
    """v (n,) in (0, 1] with v = 1/(1 + λr): a root of log v + log(1 + λ(v)·r) in log v.

    In √v the sum that v minimises is strictly convex for a log-concave likelihood, so that the root is unique.

    >>> y, m, within = np.array([1.0]), np.array([0.3]), np.array([0.1])
    >>> narrowing(Gaussian(0.5), y, m, within, np.array([0.2])).round(6)  # 1/(1 + r/σ²)
    array([0.714286])
    """
    xp = namespace(m)
    if isinstance(likelihood, Gaussian):
        return 1.0 / (1.0 + residual / likelihood.noise)

    def excess(logs: Array, part: Part) -> Array:
        r = residual[part]
        with np.errstate(over="ignore", invalid="ignore"):
            _, _, slope = likelihood.expected_log_density(
                y[part], m[part], within[part] + xp.exp(logs) * r, gradient=True, checked=True
            )
            return logs + xp.log1p(-2.0 * slope * r)

    top = 0.0 * residual
    at_top = excess(top, slice(None))
    low = xp.where(xp.isfinite(at_top), -at_top, LOWEST)
    sought = "the conditional variances of the diagonal bound"
    return xp.exp(false_position(excess, low, top, at_top, close=CLOSE, rounds=ROUNDS, sought=sought))
