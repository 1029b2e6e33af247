"""Gradients of the log-loss DLM term: exact, estimated from samples of q or of q̃ ∝ q·p, and means of the estimates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from gpbounds import validation
from gpbounds.arrays import Float, as_number, kind_of_caller
from gpbounds.likelihoods import Likelihood
from gpbounds.likelihoods.base import as_likelihood
from gpbounds.montecarlo.arguments import each, sample_counts, triples
from gpbounds.montecarlo.integral import Panels, by_curvature, by_mean, by_variance, excesses
from gpbounds.overflow import within_doubles

ESTIMATORS = ("reparametrised", "curvature")


@dataclass(frozen=True, eq=False)
class Gradients:
    """Derivatives of −log E p in m and v, and the means of estimators from L samples.

    Attributes
    ----------
    by_mean, by_variance : float or array
        ∂_m and ∂_v of −log E p.
    sampled_by_mean, sampled_by_variance : float or array
        Means of −Σφ'/Σφ (minus (7)) and −Σφ'ε/(2√v Σφ): ∂_m and ∂_v of E[−log X̄_L].
    curvature : float or array
        Mean of −Σφ''/(2Σφ) (minus (8)), which is not the gradient of −log E p nor of E[−log X̄_L].
    wrong_sign : bool or array
        Where the φ''-form points away from ∂_v(−log E p) on average.
    """

    by_mean: Any
    by_variance: Any
    sampled_by_mean: Any
    sampled_by_variance: Any
    curvature: Any
    wrong_sign: Any

    def __str__(self) -> str:
        rows = [
            f"d/dm: {_brief(self.by_mean)} exactly, {_brief(self.sampled_by_mean)} on average from samples (D-24).",
            f"d/dv: {_brief(self.by_variance)} exactly, {_brief(self.sampled_by_variance)} on average from samples, "
            f"{_brief(self.curvature)} in the φ''-form (8).",
        ]
        if np.any(self.wrong_sign):
            rows.append("Warning: the φ''-form has the wrong sign here; take Σφ'ε/Σφ (D-24).")
        return "\n".join(rows)


def _brief(values: Any) -> str:
    return ", ".join(f"{x:.6g}" for x in np.ravel(values)[:4]) + (", …" if np.size(values) > 4 else "")


def expected_gradients(likelihood: Likelihood, y: ArrayLike, m: ArrayLike, v: ArrayLike, L: ArrayLike) -> Gradients:
    """The exact means of the gradient estimators of biased Monte Carlo, beside the gradient that they estimate.

    The estimators minus (7) and the reparametrised ratio are unbiased for the gradient of the L-sample objective; the
    φ''-form (8) is not, since Stein's identity fails inside a ratio (D-24; Wei et al., Eq. 7–8), and at small L its
    sign may be wrong, as the record states.  All agree as L → ∞, and where p(y|f) is constant.  v > 0.

    Parameters and errors are those of `gpbounds.montecarlo.bias`, but v > 0.

    >>> from gpbounds.likelihoods import Bernoulli
    >>> print(expected_gradients(Bernoulli("probit"), 1, 0.5, 2.0, 2))
    d/dm: -0.360063 exactly, -0.484735 on average from samples (D-24).
    d/dv: 0.0300053 exactly, 0.0794676 on average from samples, -0.0377515 in the φ''-form (8).
    Warning: the φ''-form has the wrong sign here; take Σφ'ε/Σφ (D-24).
    """
    likelihood = as_likelihood(likelihood)
    counts = sample_counts(L)
    y_, m_, v_ = triples(likelihood, y, m, np.asarray(validation.positive("v", v)))

    def averages(y: float, m: float, v: float, L: Float) -> Float:
        exact = [-float(part) for part in likelihood.log_expected_density(y, m, v, gradient=True)[1:]]
        elbo = [-float(part) for part in likelihood.expected_log_density(y, m, v, gradient=True)[1:]]
        panels = Panels(likelihood, y, m, v)
        # E φ''/φ at L = 1; there the φ''-form is −½E[ℓ'² + ℓ'']
        single = -float((panels.nodes.weight * by_curvature(panels, panels.nodes.delta)).sum())
        rows = np.empty((5, L.size))
        rows[:2] = np.array(exact)[:, None]
        rows[2:] = np.array([*exact, exact[1]])[:, None]
        rows[2:, L == 1.0] = np.array([*elbo, single])[:, None]
        several = (L > 1.0) & (L < np.inf)
        if several.any():
            rows[2:, several] -= excesses(panels, L[several], (by_mean, by_variance, by_curvature))[1]
        return rows

    if not np.broadcast(y_, m_, v_, counts).size:
        raise ValueError("y, m, v, L: expected at least one number each, got none")
    rows = each(averages, y_, m_, v_, counts)
    wrong = rows[1] * rows[4] < 0.0
    first, second, third, fourth, fifth = (as_number(row) for row in rows)
    return Gradients(first, second, third, fourth, fifth, bool(wrong) if wrong.ndim == 0 else wrong)


@kind_of_caller
def exact_gradient(likelihood: Likelihood, y: ArrayLike, m: ArrayLike, v: ArrayLike) -> tuple[Any, Any]:
    """∂_m and ∂_v of −log E p(y|f), f ~ N(m, v): −E φ'/E φ and −E φ''/(2E φ)  (D-15, D-16, D-17; Wei et al., Eq. 4–6).

    Equal to −E_q̃ of the scores (f−m)/v and ((f−m)²−v)/(2v²), q̃ ∝ N(m, v)·p (D-10; Prop. 1).  For f = aᵀu + …,
    v = aᵀVa + b the gradients in the mean and V of u are these times a and aaᵀ.  Accuracy and errors are those of
    `gpbounds.likelihoods.Likelihood.log_expected_density`.

    >>> from gpbounds.likelihoods import Bernoulli
    >>> [round(float(part), 9) for part in exact_gradient(Bernoulli("probit"), 1, 0.5, 2.0)]
    [-0.3600635, 0.030005292]
    """
    _, by_mean, by_variance = as_likelihood(likelihood).log_expected_density(y, m, v, gradient=True)
    return -by_mean, -by_variance


@kind_of_caller
def sampled_gradient(
    likelihood: Likelihood,
    y: ArrayLike,
    m: ArrayLike,
    v: ArrayLike,
    L: int,
    rng: np.random.Generator | int,
    estimator: Literal["reparametrised", "curvature"] = "reparametrised",
) -> tuple[Any, Any]:
    """One draw of the bMC gradient of −log E p from L samples of N(m, v), drawn anew for each (y, m, v).

    −Σφ'/Σφ in m and −Σφ'ε/(2√v Σφ) in v: unbiased for the L-sample objective, biased by O(1/L) for −log E p; with
    ``estimator="curvature"`` −Σφ''/(2Σφ) in v  (D-18, D-24; Wei et al., Eq. 7–8, which print the step direction,
    with the opposite sign).  Weighted by softmax of log p, so that no density underflows.

    Parameters
    ----------
    likelihood, y, m, v
        As in `gpbounds.montecarlo.bias`, v > 0.
    L : int
    rng : numpy.random.Generator or int
        A generator, or a seed for one.
    estimator : "reparametrised" or "curvature"

    Raises
    ------
    ValueError, NonFinite
        for wrong arguments.

    >>> from gpbounds.likelihoods import Bernoulli
    >>> draws = sampled_gradient(Bernoulli("probit"), 1, np.full(10_000, 0.5), 2.0, 3, rng=0)
    >>> [round(float(part.mean()), 2) for part in draws]  # E is −0.426997 and 0.053082
    [-0.43, 0.05]
    """
    likelihood = as_likelihood(likelihood)
    validation.choice("estimator", estimator, ESTIMATORS)
    L = validation.count("L", L)
    y_, m_, v_ = triples(likelihood, y, m, np.asarray(validation.positive("v", v)))
    with validation.within_memory("L"):
        z = validation.generator(rng).standard_normal((L, *m_.shape))
    f = m_ + np.sqrt(v_) * z
    log_density = np.asarray(likelihood.log_density(y_, f))
    if not np.isfinite(log_density.max(axis=0, initial=-np.inf)).all():
        raise ValueError("y, m, v: expected a density p(y|f) above 0 at a draw, got log densities of −infinity only")
    weight = np.exp(log_density - log_density.max(axis=0))
    weight /= weight.sum(axis=0)
    first, second, _ = likelihood.derivatives(y_, f)
    slope = first * z / (2.0 * np.sqrt(v_)) if estimator == "reparametrised" else 0.5 * (first * first + second)
    return as_number(-(weight * first).sum(axis=0)), as_number(-(weight * slope).sum(axis=0))


@kind_of_caller
@within_doubles
def product_gradient(draws: ArrayLike, m: ArrayLike, v: ArrayLike) -> tuple[Any, Any]:
    """The uPS gradient of −log E p from draws of q̃ ∝ N(m, v)·p: minus means of (f−m)/v and ((f−m)²−v)/(2v²)  (D-10).

    Unbiased for every number of draws (Wei et al., Prop. 1).

    Parameters
    ----------
    draws : array (L, ...)
        From `gpbounds.montecarlo.sample_product`, one row a draw.
    m, v : arrays (...)
        v > 0.

    Raises
    ------
    ValueError
        for v ≤ 0, numbers that are not finite, no draws.

    >>> [float(part) for part in product_gradient([0.5, 1.5], 0.5, 2.0)]
    [-0.25, 0.1875]
    """
    f = np.asarray(validation.finite("draws", draws))
    if f.ndim == 0 or f.shape[0] == 0:
        raise ValueError(f"draws: expected an array (L, ...) with L >= 1, got shape {f.shape}")
    means, variance = validation.broadcast(m=validation.finite("m", m), v=validation.positive("v", v))
    if means.ndim > f.ndim - 1:
        raise ValueError(f"m, v: expected the shape of one draw, {f.shape[1:]}, got {means.shape}")
    f, means, variance = validation.broadcast(draws=f, m=means, v=variance)
    with np.errstate(over="ignore"):
        pull = (f - means) / variance
    by_mean, by_variance = -pull.mean(axis=0), -0.5 * (pull * pull - 1.0 / variance).mean(axis=0)
    return by_mean, by_variance
