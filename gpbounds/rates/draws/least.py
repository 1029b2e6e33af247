"""The least of the bounds for y from the prior."""

from __future__ import annotations

import numpy as np

from gpbounds.bound import Bound
from gpbounds.kdpp.mean_residual import ExpectedResidual
from gpbounds.rates import forms
from gpbounds.rates.draws.one import one_draw
from gpbounds.rates.draws.orders import of_order
from gpbounds.rates.draws.prior import prior_large, prior_moments
from gpbounds.rates.draws.sentences import BEST_OBJECTIVE, DRAWN, FROM_PRIOR, checked_draws, record


def least_prior(
    residual: ExpectedResidual, *, delta: float, draws: int = 1, alpha: float = 1.0, tv: float = 0.0
) -> Bound:
    """y from the prior, the best of R k-DPP draws: the least of N-prior, N-prior2, N-one and R-thm1, or α·KL.

    The choice of the least bound depends on the eigenvalues alone, not on draws or y, so it holds with probability 1 −
    δ.

    Parameters
    ----------
    residual : ExpectedResidual
        With the noise.
    delta : float
        Probability in (0, 1) with which the bound may fail, over y and the draws.
    draws : int
    alpha : float
        Rényi order in (0, 1].
    tv : float
        Total variation distance of the law of each draw from the k-DPP.

    >>> from gpbounds.kdpp.residual import expected_residual
    >>> residual = expected_residual(0.3 ** np.arange(12.0), 6, noise=0.1)
    >>> best = least_prior(residual, delta=0.05, draws=10)
    >>> best.claim, float(best).__round__(4)
    ('N-prior, N-res', 0.06)
    """
    delta, draws, alpha, tv = checked_draws(delta, draws, alpha, tv)
    candidates = []
    for order in dict.fromkeys((alpha, 1.0)):
        bounds = [
            bound(residual, delta=delta, draws=draws, alpha=order, tv=tv)
            for bound in (prior_moments, prior_large, one_draw)
        ]
        if tv == 0.0:
            bounds.append(_markov(residual, delta, order))
        candidates += bounds if order == alpha else [of_order(bound, alpha) for bound in bounds]
    return min(candidates, key=float)


def _markov(residual: ExpectedResidual, delta: float, alpha: float) -> Bound:
    """R-thm1 for the exact mean of the trace; it holds for the first draw, and the best is at most that."""
    count = int((residual.eigenvalues > 0.0).sum()) - residual.M
    terms = {"expected_trace": residual.trace}
    assumptions = (DRAWN, BEST_OBJECTIVE, FROM_PRIOR)
    if count == 0:
        return record(0.0, delta, "R-thm1 (sharper form), R-lem3", terms, assumptions, alpha=alpha)
    unit = np.asarray(1.0)
    parts = forms.prior_sharpest(residual.trace * unit, count * unit, residual.noise * unit, alpha * unit, delta * unit)
    terms |= {name: float(part) for name, part in parts.items()}
    value = min(float(part) for part in parts.values())
    return record(value, delta, "R-thm1 (sharper form), R-lem3", terms, assumptions, alpha=alpha)
