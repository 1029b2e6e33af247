"""The bound from an empirical risk that is measured on a random mini-batch only."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from gpbounds.arrays import Float, as_number
from gpbounds.bound import Bound
from gpbounds.pacbayes.inverse import Side, kl_inverse
from gpbounds.pacbayes.penalty import Form
from gpbounds.pacbayes.theorems import HYPER, IID, PRIOR, Relaxation, bound
from gpbounds.validation import choice, closed_unit, positive_unit, whole

RANDOM = (
    "The batch was drawn uniformly at random, with or without replacement, independently of Q: from shuffled data, "
    "not in cyclic order from sorted ones."
)


def batch_risk_bound(
    risk: ArrayLike, batch: ArrayLike, *, delta: ArrayLike, side: Side = "upper", form: Form = "sharpest"
) -> Bound:
    """Bound on the empirical risk R_S(Q) of all N examples from its mean over a random batch of them.

    With probability ≥ 1 − δ over the batch: R_S(Q) ≤ kl⁻¹(R̂_B, ln(1/δ)/B), losses in [0, 1].

    Claim P-46 (Reeb et al., Eq. 32; ``form="printed"`` is their |R_S − R̂_B| ≤ √(ln(2/δ)/(2B)), which they also state
    for batches in cyclic order, where it is false).  It is Chernoff's bound for independent draws; draws without
    replacement are more concentrated in the convex order (Hoeffding).  If you use an upper and a lower bound, each
    needs its own δ; the printed form holds for both at once.

    Parameters
    ----------
    risk : float or array in [0, 1]
        R̂_B, the mean loss over the batch.
    batch : int or array of whole numbers >= 1
        B, its size.
    delta : float or array in (0, 1]
    side : "upper" or "lower"
    form : "sharpest" or "printed"

    Raises
    ------
    ValueError
        for wrong arguments.

    >>> [round(float(batch_risk_bound(0.1, 1000, delta=0.01, form=form)), 6) for form in ("sharpest", "printed")]
    [0.131225, 0.15147]
    """
    return _batch_risk(risk, batch, positive_unit("delta", delta), side, form)


def _batch_risk(
    risk: ArrayLike, batch: ArrayLike, delta: Float, side: Side = "upper", form: Form = "sharpest"
) -> Bound:
    """`batch_risk_bound` of a checked δ."""
    mean, size, failure = np.broadcast_arrays(closed_unit("risk", risk), whole("batch", batch), delta)
    upper = choice("side", side, ("upper", "lower")) == "upper"
    if choice("form", form, ("sharpest", "printed")) == "sharpest":
        divergence = -np.log(failure) / size + 0.0
        value = kl_inverse(mean, divergence, side)
    else:
        divergence = np.log(2.0 / failure) / size
        half = np.sqrt(0.5 * divergence)
        value = mean + half if upper else mean - half
    terms = {"R̂_B": as_number(mean), "ε": as_number(divergence)}
    return Bound(as_number(value), side, as_number(1.0 - failure), "P-46", terms, (RANDOM,), quantity="R_S(Q)")


def batch_bound(
    risk: ArrayLike,
    batch: ArrayLike,
    kl: ArrayLike,
    N: ArrayLike,
    *,
    delta: ArrayLike,
    batch_delta: ArrayLike,
    log_prior_penalty: ArrayLike = 0.0,
    form: Form = "sharpest",
    relaxation: Relaxation = "kl",
) -> Bound:
    """Upper bound on the true Gibbs risk R(Q) from the mean loss over a random batch.

    With probability ≥ 1 − δ − δ′: R(Q) ≤ kl⁻¹(kl⁻¹(R̂_B, ln(1/δ′)/B), d), d as in `bound`.

    Claim P-46 with P-09, P-14.

    Parameters
    ----------
    risk : float or array in [0, 1]
        R̂_B.
    batch : int or array of whole numbers >= 1
        B.
    kl, N, delta, log_prior_penalty, form, relaxation
        As in `bound`.
    batch_delta : float or array in (0, 1]
        δ′.

    Raises
    ------
    ValueError
        for wrong arguments.

    >>> round(float(batch_bound(0.1, 1000, 42.0, 40_000, delta=0.005, batch_delta=0.005)), 6)
    0.151808
    """
    outer = _batch_risk(risk, batch, positive_unit("batch_delta", batch_delta))
    inner = bound(
        outer.value, kl, N, delta=delta, log_prior_penalty=log_prior_penalty, form=form, relaxation=relaxation
    )
    sure = np.maximum(np.asarray(outer.confidence) + np.asarray(inner.confidence) - 1.0, 0.0)
    terms = {"R̂_B": outer.terms["R̂_B"], "ln(1/δ')/B": outer.terms["ε"], **inner.terms}
    charged = HYPER in inner.assumptions
    assumptions = (IID, PRIOR, HYPER, RANDOM) if charged else (IID, PRIOR, RANDOM)
    return Bound(inner.value, "upper", as_number(sure), "P-46", terms, assumptions, quantity="R(Q)")
