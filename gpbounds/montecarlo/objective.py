"""The bias that averaging L samples inside a logarithm causes: the mean of −log X̄_L, its bias, their gradients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from gpbounds import validation
from gpbounds.arrays import Float, as_number
from gpbounds.likelihoods import Likelihood
from gpbounds.likelihoods.base import as_likelihood
from gpbounds.likelihoods.special import bend
from gpbounds.montecarlo.arguments import each, sample_counts, triples
from gpbounds.montecarlo.integral import Numerator, Panels, by_mean, by_variance, excesses

METHODS = ("exact", "expansion")


def expected_objective(
    likelihood: Likelihood,
    y: ArrayLike,
    m: ArrayLike,
    v: ArrayLike,
    L: ArrayLike,
    method: Literal["exact", "expansion"] = "exact",
    *,
    gradient: bool = False,
) -> Any:
    """E[−log X̄_L], X̄_L the mean of L samples of p(y|f), f ~ N(m, v): the objective of biased Monte Carlo (bMC).

    −log E p ≤ E[−log X̄_{L+1}] ≤ E[−log X̄_L] ≤ E[−log p]: from the ELBO's term at L = 1, exactly, to the log-loss DLM
    term at L = inf  (D-22; Wei et al., §4).  Equality throughout iff p(y|f) is constant under N(m, v).  It is
    −log E p + `bias`; see there for parameters, accuracy and errors.

    >>> from gpbounds.likelihoods import Bernoulli
    >>> objective = expected_objective(Bernoulli("probit"), 1, 0.5, 2.0, [1, 2, 10, 100, np.inf])
    >>> [round(float(x), 9) for x in objective]  # D-20's table
    [0.860904382, 0.600976388, 0.503865828, 0.489893284, 0.488436469]
    """
    likelihood = as_likelihood(likelihood)
    validation.flag("gradient", gradient)
    extra = bias(likelihood, y, m, v, L, method, gradient=gradient)
    base = likelihood.log_expected_density(y, m, v, gradient=gradient)
    if not gradient:
        return as_number(np.asarray(extra - base))
    return tuple(as_number(np.asarray(e - b)) for e, b in zip(extra, base, strict=True))


def bias(
    likelihood: Likelihood,
    y: ArrayLike,
    m: ArrayLike,
    v: ArrayLike,
    L: ArrayLike,
    method: Literal["exact", "expansion"] = "exact",
    *,
    gradient: bool = False,
) -> Any:
    """E[−log X̄_L] + log E p ≥ 0: the bias of biased Monte Carlo for the log-loss DLM term; with its gradient.

    ``method="exact"`` integrates D-21, rearranged so that nothing cancels (`gpbounds.montecarlo.integral`);
    ``method="expansion"`` is the second order in 1/L (D-20), with Z = p/E p and central moments μ_k of Z,

        μ₂/(2L) − [μ₃/3 − ¾μ₂²]/L² + O(L⁻³),   gradient in m (A = φ') or v (A = φ'ε/(2√v)):
        (1/L)[Cov(A, Z) − E A·μ₂]/E p + O(L⁻²)  (D-23).

    The gradients are those of the L-sample objective, which the estimators −Σφ'/Σφ and −Σφ'ε/(2√v Σφ) estimate
    without bias; for the φ''-form (8) of the paper see `gpbounds.montecarlo.expected_gradients` (D-24).

    Parameters
    ----------
    likelihood : Likelihood
    y, m, v : arrays
        Targets, means and variances ≥ 0 of f; they broadcast with L.
    L : array
        Numbers of samples ≥ 1; inf gives the limit, 0.
    method : "exact" or "expansion"
        Exact: relative error below 1e-9, for a bias of 1e-30 as for one of 1; L up to 1e6 and more; 0.1 s for each
        distinct (y, m, v), whatever the number of L.  The expansion is good where L is well above Var p/(E p)².
    gradient : bool
        Return (value, ∂/∂m, ∂/∂v); at v = 0 they are their limits.

    Raises
    ------
    ValueError, NonFinite
        for L < 1, v < 0, a y the likelihood has no density for, another method.
    NotConverged
        where the quadrature does not reach its accuracy.

    >>> from gpbounds.likelihoods import Poisson
    >>> [float(f"{b:.6g}") for b in bias(Poisson("exp"), 3, 0.5, 1.0, [1, 10, 1000])]
    [0.751164, 0.0303886, 0.000279918]
    >>> f'{bias(Poisson("exp"), 3, 0.5, 1e-12, 100):.6g}'
    '9.12977e-15'
    """
    likelihood = as_likelihood(likelihood)
    validation.choice("method", method, METHODS)
    validation.flag("gradient", gradient)
    counts = sample_counts(L)
    y_, m_, v_ = triples(likelihood, y, m, v)

    def at_point(y: float, m: float, v: float, L: Float) -> Float:
        if v == 0.0:
            return _point_mass(likelihood, y, m, L, gradient)
        return (_exact if method == "exact" else _expansion)(likelihood, y, m, v, L, gradient)

    parts = each(at_point, y_, m_, v_, counts)
    return tuple(as_number(part) for part in parts) if gradient else as_number(parts[0])


def _point_mass(likelihood: Likelihood, y: float, m: float, L: Float, gradient: bool) -> Float:
    """v = 0: Var p/(E p)² = vℓ'² + O(v²), so that ∂_v of the bias is ℓ'²/(2L)."""
    zero = np.zeros(L.shape)
    return np.stack([zero, zero, 0.5 * float(likelihood.derivatives(y, m)[0]) ** 2 / L]) if gradient else zero[None]


def _exact(likelihood: Likelihood, y: float, m: float, v: float, L: Float, gradient: bool) -> Float:
    panels = Panels(likelihood, y, m, v)
    rows = np.zeros((3 if gradient else 1, L.size))
    if (L == 1.0).any():
        rows[:, L == 1.0] = _one_sample(panels, gradient)[:, None]
    several = (L > 1.0) & (L < np.inf)
    if several.any():
        values, slopes = excesses(panels, L[several], (by_mean, by_variance) if gradient else ())
        rows[0, several] = values
        rows[1:, several] = -slopes
    return rows


def _one_sample(panels: Panels, gradient: bool) -> Float:
    """L = 1: the ELBO's term.  log E p − E log p, or where these cancel E[Z − 1 − log Z]."""
    p = panels
    inside = np.array(p.likelihood.log_expected_density(p.y, p.m, p.v, gradient=gradient), ndmin=1)
    outside = np.array(p.likelihood.expected_log_density(p.y, p.m, p.v, gradient=gradient), ndmin=1)
    differences = inside - outside
    if not differences[0] > 1e-4 * (1.0 + abs(inside[0])):
        nodes = p.nodes
        differences[0] = float((nodes.weight * bend(nodes.ratio)).sum())
        if gradient:  # −E ℓ' + E Zℓ' and the same with δ/(2v), by the same rule
            change = nodes.weight * np.expm1(nodes.ratio)
            values = [a(p, nodes.delta) for a in (by_mean, by_variance)]
            differences[1:] = [float((change * (a - (nodes.weight * a).sum())).sum()) for a in values]
    return differences


def _expansion(likelihood: Likelihood, y: float, m: float, v: float, L: Float, gradient: bool) -> Float:
    panels = Panels(likelihood, y, m, v, powers=3)
    with np.errstate(all="ignore"):
        second, third = (np.float64(moment(panels, k)) for k in (2, 3))
        rows = [second / (2.0 * L) - (third / 3.0 - 0.75 * second**2) / L**2]
        if gradient:
            rows += [np.asarray(slope / L) for slope in covariances(panels, (by_mean, by_variance), second)]
    return np.stack(rows)


def moment(panels: Panels, k: int) -> float:
    """E (Z − 1)^k, which may be inf."""
    nodes = panels.nodes
    with np.errstate(all="ignore"):
        log_size = np.where(nodes.ratio > 1.0, nodes.ratio + np.log1p(-1.0 / nodes.Z), 0.0)
        far = np.exp(nodes.log_weight + k * log_size)
        near = nodes.weight * np.expm1(np.minimum(nodes.ratio, 1.0)) ** k
        return float(np.where(nodes.ratio > 1.0, far, near).sum())


def covariances(panels: Panels, numerators: Sequence[Numerator], second: float) -> list[float]:
    """[Cov(A, Z) − E A·Var Z]/E p for Z = p/E p and each numerator: the 1/L term of E A/E p − E[ΣA/ΣX]  (D-23)."""
    nodes = panels.nodes
    slopes = []
    for numerator in numerators:
        with np.errstate(all="ignore"):
            a = numerator(panels, nodes.delta)
            mean = np.where(nodes.tilted > 0.0, nodes.tilted * a, 0.0).sum()
            far = np.exp(nodes.log_weight + 2.0 * nodes.ratio) * (1.0 - 1.0 / nodes.Z) * (a - mean / nodes.Z)
            near = np.where(nodes.tilted > 0.0, nodes.tilted * a, 0.0) - mean * nodes.weight  # E(Z − 1) is 0
            near = near * np.expm1(np.minimum(nodes.ratio, 1.0))
            product = np.where(nodes.ratio > 1.0, far, near).sum()
        slopes.append(float(product - mean * second))
    return slopes
