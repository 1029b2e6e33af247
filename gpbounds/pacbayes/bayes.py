"""From the Gibbs risk to the risk of the mean prediction."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from gpbounds.arrays import Float, as_number
from gpbounds.bound import Bound
from gpbounds.rigor import above, at_bits, exact
from gpbounds.validation import closed_unit, non_negative, positive

SYMMETRIC = (
    "The loss is quasi-convex in the prediction, whose law is symmetric about its mean (a Gaussian process's is)."
)
BAND = "The loss is 1 where |y − prediction| > ε, else 0; the predictive standard deviation is nowhere below std."


def bayes_factor(epsilon: ArrayLike, std: ArrayLike) -> Any:
    """1/(3/2 − Φ(2ε/σ)): the largest ratio of the band loss of the mean m to the mean band loss under N(m, σ²).

    1{|y − m| > ε} ≤ E 1{|y − v| > ε}/(3/2 − Φ(2ε/σ)), v ~ N(m, σ²), for every y.

    Claim P-38, sharper than the factor 2 (Reeb et al., §2.1): it tends to 2 as σ → 0 and to 1 as σ → ∞.  Equality holds
    in the limit |y − m| → ε from above, where the mean is Φ(0) + Φ(−2ε/σ); the mean increases with |y − m|.

    Parameters
    ----------
    epsilon : float or array > 0
        ε.
    std : float or array >= 0
        σ.

    Raises
    ------
    ValueError
        for wrong arguments.

    >>> float(bayes_factor(0.6, 0.0)), round(float(bayes_factor(0.6, 1.2)), 6)
    (2.0, 1.518245)
    """
    from scipy.special import ndtr

    with np.errstate(divide="ignore", over="ignore"):
        return (1.0 / (0.5 + ndtr(-2.0 * positive("epsilon", epsilon) / non_negative("std", std))))[()]


def bayes_risk_bound(
    gibbs: Bound | ArrayLike, *, epsilon: float | None = None, least_std: float | None = None
) -> Bound:
    """Upper bound on the risk of the mean prediction, from an upper bound on the Gibbs risk.

    R_Bayes(Q) ≤ 2 R(Q); for the zero-one band loss of half-width ε, R_Bayes(Q) ≤ R(Q)/(3/2 − Φ(2ε/σ)) where the
    predictive standard deviation is at least σ everywhere.

    Claim P-38 (Reeb et al., §2.1).  {v : ℓ(y, v) < ℓ(y, m)} is convex and does not contain the mean m, so a law
    symmetric about m gives it probability at most ½.  Both hypotheses are necessary.  The factor tends to 2 as σ → 0.

    Parameters
    ----------
    gibbs : Bound, or float or array in [0, 1]
        An upper bound on R(Q), or R(Q) itself.
    epsilon, least_std : float, optional
        ε and σ, both or none.

    Raises
    ------
    ValueError
        for a lower bound, or only one of ``epsilon`` and ``least_std``.

    >>> float(bayes_risk_bound(0.1)), round(float(bayes_risk_bound(0.1, epsilon=0.6, least_std=1.2)), 6)
    (0.2, 0.151824)
    """
    if (epsilon is None) != (least_std is None):
        raise ValueError("epsilon, least_std: expected both or none")
    if isinstance(gibbs, Bound):
        if gibbs.side != "upper":
            raise ValueError("gibbs: expected an upper bound on R(Q), got a lower bound")
        risk, bound = np.asarray(gibbs.value), gibbs
    else:
        risk = closed_unit("gibbs", gibbs)
        bound = Bound(risk, "upper", 1.0, "P-38")
    factor = 2.0 if epsilon is None else float(bayes_factor(epsilon, least_std))  # type: ignore[arg-type]
    if bound.certified and epsilon is not None:
        value, factor = _outwards(risk, epsilon, float(least_std))  # type: ignore[arg-type]
    else:
        value = factor * risk
    assumptions = (*bound.assumptions, SYMMETRIC if epsilon is None else BAND)
    terms = {"R(Q)": as_number(risk), "factor": factor}
    return Bound(as_number(value), "upper", bound.confidence, "P-38", terms, assumptions, bound.certified, "R_Bayes(Q)")


def _outwards(risk: Float, epsilon: float, std: float) -> tuple[Float, float]:
    """risk/(3/2 − Φ(2ε/σ)) rounded up, and the factor rounded up."""
    with at_bits(160):
        if std == 0.0:
            return 2.0 * risk, 2.0
        factor = 2 / (1 + (exact(2.0).sqrt() * exact(epsilon) / exact(std)).erfc())
        values = [above(exact(r) * factor) for r in risk.ravel().tolist()]
        return np.array(values).reshape(risk.shape), above(factor)
