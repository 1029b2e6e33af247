"""The draw of least trace is kept, independently of y; y is from the prior, or the worst of its norm."""

from __future__ import annotations

import math

import numpy as np
from scipy.special import chdtri

from gpbounds import validation
from gpbounds.bound import Bound
from gpbounds.kdpp.mean_residual import ExpectedResidual
from gpbounds.rates import forms
from gpbounds.rates.draws.prior import PEAK, SHARES
from gpbounds.rates.draws.sentences import DRAWN, FIXED_BEFORE, FROM_PRIOR, checked_draws, record, share
from gpbounds.rates.draws.trace import trace_quantile

LEAST_TRACE = "Of the draws the one with the least Tr(K − Q) is kept, without using y."
AFTERWARDS = "y is any vector with the given squared norm, even one that depends on X and Z."


def least_trace(
    residual: ExpectedResidual, *, delta: float, draws: int = 1, alpha: float = 1.0, tv: float = 0.0
) -> Bound:
    """y from the prior, Z the draw of least trace among R, which serves any number of outputs (N-least).

    With δ = δ₁ + δ₂, t = T/σ² for the (1 − δ₁^(1/R))-quantile T of one draw's trace (N-order; Markov: τ/(σ²δ₁^(1/R)))
    and c the (1 − δ₂)-quantile of χ²₁, c > 1.5364: with probability at least 1 − δ, D_α ≤ (α/2)[(1 + c)t − log(1 + t)].

    The proof is that of N-least; it cites Székely and Bakirov (Probab. Theory Relat. Fields 126, 2003).  No better
    bound follows from the trace alone: a residual of rank one attains the last steps.

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
    >>> f"{float(least_trace(residual, delta=0.05, draws=10)):.3g}"
    '0.183'
    """
    delta, draws, alpha, tv = checked_draws(delta, draws, alpha, tv)
    assert residual.noise is not None
    best, terms = math.inf, {}
    for part in SHARES:
        second = delta * part
        c = float(chdtri(1, second))  # P(χ²₁ >= c) = second
        p = share(delta - second, draws, tv)
        if c <= PEAK or p <= 0.0:
            continue
        trace = float(trace_quantile(residual, level=p))
        t = trace / residual.noise
        value = 0.5 * alpha * ((1.0 + c) * t - math.log1p(t))
        if value < best:
            best, terms = value, {"trace": trace, "p": p, "quantile": c}
    why = "δ^(1/R) − tv is not positive"
    return record(
        best, delta, "N-least, N-order, N-alpha", terms, (DRAWN, LEAST_TRACE, FROM_PRIOR), alpha=alpha, why=why
    )


def adversary(
    residual: ExpectedResidual,
    y_norm2: float,
    *,
    delta: float,
    draws: int = 1,
    alpha: float = 1.0,
    tv: float = 0.0,
) -> Bound:
    """Any y with ‖y‖² = ``y_norm2``, chosen after Z; Z the draw of least trace among R (N-adv).

    With probability at least 1 − δ over the draws, for all such y at once, D_α ≤ g_n(T) + ½(‖y‖²/σ²) ψ(T/σ²): R-thm2,
    where T is the (1 − δ^(1/R))-quantile of one draw's trace (N-order; at most τ/δ^(1/R)) in place of τ/δ, n = rank −
    M.

    Parameters
    ----------
    residual : ExpectedResidual
        With the noise.
    y_norm2 : float
        ‖y‖² ≥ 0.
    delta : float
        Probability in (0, 1) with which the bound may fail, over the draws.

    Others as :func:`least_trace`.

    >>> from gpbounds.kdpp.residual import expected_residual
    >>> residual = expected_residual(0.3 ** np.arange(12.0), 6, noise=0.1)
    >>> one, ten = (float(adversary(residual, 10.0, delta=0.05, draws=R)) for R in (1, 10))
    >>> one > 3 * ten
    True
    """
    delta, draws, alpha, tv = checked_draws(delta, draws, alpha, tv)
    assert residual.noise is not None
    norm = validation.scalar(validation.non_negative, "y_norm2", y_norm2)
    p = share(delta, draws, tv)
    assumptions = (DRAWN, LEAST_TRACE, AFTERWARDS, FIXED_BEFORE)
    claim = "N-adv, N-order, R-thm2"
    if p <= 0.0:
        why = f"p = δ^(1/R) − tv = {p:.3g} is not positive"
        return record(math.inf, delta, claim, {"p": p}, assumptions, alpha=alpha, why=why)
    trace = float(trace_quantile(residual, level=p))
    count = max(int((residual.eigenvalues > 0.0).sum()) - residual.M, 1)
    parts = forms.any_markov(np.asarray(trace), count, residual.noise, alpha, 1.0, norm)
    terms = {"trace": trace, "p": p, **{name: float(part) for name, part in parts.items()}}
    return record(terms["determinant"] + terms["quadratic"], delta, claim, terms, assumptions, alpha=alpha)
