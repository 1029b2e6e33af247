"""One draw, y from the prior: the joint mean over y and Z, and Markov's inequality (N-one)."""

from __future__ import annotations

import numpy as np

from gpbounds.bound import Bound
from gpbounds.kdpp.mean_residual import ExpectedResidual
from gpbounds.numerics.log1p import log1p_residual
from gpbounds.numerics.scalars import trace_term
from gpbounds.rates.draws.sentences import BEST_OBJECTIVE, DRAWN, FROM_PRIOR, checked_draws, record


def joint_mean(residual: ExpectedResidual, alpha: float = 1.0) -> float:
    """Upper bound on E_Z E_y D_α, y from the prior: g(τ) + ½ Σ miss_i χ(αh_i), χ(x) = 1/(1 − x) − 1 + log(1 − x)
    (N-one).

    τ = Σ ρ_i, n = rank − M, g(τ) = (αn/(2β)) log(1 + βτ/(nσ²)), β = 1 − α; at α = 1 it is Σ miss_i [d_i − ½ log(1 +
    d_i)], an equality for diagonal K.

    The proof is that of N-one.

    >>> from gpbounds.kdpp.residual import expected_residual
    >>> round(joint_mean(expected_residual([3.0, 1.0], 1, noise=1.0)), 6)  # ¼(3 − ½ log 4) + ¾(1 − ½ log 2)
    1.066783
    """
    noise = residual.noise
    if noise is None:
        raise ValueError("residual: expected one with the noise, got noise=None: pass it to expected_residual")
    values = residual.eigenvalues
    count = int((values > 0.0).sum()) - residual.M
    if count == 0:
        return 0.0
    odds = alpha * values / ((1.0 - alpha) * values + noise)  # x/(1 − x) at x = αh; χ(x) is odds − log(1 + odds)
    quadratic = 0.5 * float((residual.miss * log1p_residual(odds)).sum())
    return quadratic + float(trace_term(np.asarray(residual.trace), count, noise=noise, alpha=alpha))


def one_draw(residual: ExpectedResidual, *, delta: float, alpha: float = 1.0, draws: int = 1, tv: float = 0.0) -> Bound:
    """y from the prior, Markov's inequality for the joint mean over y and Z of :func:`joint_mean` (N-one): E D_α/δ.

    More draws do not make it smaller, but it also holds for the best of them, whose divergence is at most that of the
    first.

    Parameters
    ----------
    residual : ExpectedResidual
        With the noise.
    delta : float
        Probability in (0, 1) with which the bound may fail; tv is subtracted from it.

    >>> from gpbounds.kdpp.residual import expected_residual
    >>> round(float(one_draw(expected_residual([3.0, 1.0], 1, noise=1.0), delta=0.05)), 4)
    21.3357
    """
    delta, draws, alpha, tv = checked_draws(delta, draws, alpha, tv)
    mean, p = joint_mean(residual, alpha), delta * (1.0 - 1e-15) - tv
    value = mean / p if p > 0.0 else float("inf")
    why = f"δ − tv = {p:.3g} is not positive"
    return record(
        value, delta, "N-one, N-res", {"mean": mean, "p": p}, (DRAWN, BEST_OBJECTIVE, FROM_PRIOR), alpha=alpha, why=why
    )
