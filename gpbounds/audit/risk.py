"""A bound on the risk of predictions from rows that were held out of training."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from gpbounds.bound import Bound
from gpbounds.losses import Band
from gpbounds.pacbayes import bound
from gpbounds.validation import finite, non_negative, open_unit, scalar

ASSUMPTIONS = (
    "The held-out rows and new rows are drawn independently from one law.",
    "Model and ε were fixed without the held-out rows.",
)


@dataclass(frozen=True, eq=False)
class Risk:
    """The probability that a draw of f misses a new target by more than ε.

    Attributes
    ----------
    epsilon : float
        In units of the target.
    risk : float
        The mean loss over the held-out rows.
    bound : Bound
        Upper bound on the expected loss at a new row.
    rows : int
        Number of held-out rows.
    """

    epsilon: float
    risk: float
    bound: Bound
    rows: int

    def to_dict(self) -> dict[str, Any]:
        """The record, ready for JSON."""
        return {"epsilon": self.epsilon, "rows": self.rows, "risk": self.risk, "bound": self.bound.to_dict()}


def held_out_risk(y: ArrayLike, mean: ArrayLike, variance: ArrayLike, epsilon: float, *, delta: float) -> Risk:
    """Upper bound on P(|y − f| > ε), f ~ N(m(x), v(x)), at a new row, from n rows that training did not use.

    With probability ≥ 1 − δ over the held-out rows, R ≤ kl⁻¹(R_S, ln(ξ(n)/δ)/n): the PAC-Bayes bound (P-09) for Q = P,
    which is fixed before these rows are seen, so that KL(Q‖P) = 0.

    Parameters
    ----------
    y, mean, variance : arrays (n,)
        Held-out targets, and the laws of the latent f (without noise), in the units of y.
    epsilon : float
        ε > 0, fixed before the rows are seen.
    delta : float
        Probability of failure.

    Raises
    ------
    ValueError, NonFinite
        for wrong arguments.

    >>> result = held_out_risk(np.zeros(200), np.zeros(200), np.full(200, 0.01), 0.5, delta=0.05)
    >>> round(float(result.bound), 4)
    0.0291
    """
    failure = scalar(open_unit, "delta", delta)
    targets, means, variances = finite("y", y), finite("mean", mean), non_negative("variance", variance)
    if targets.ndim != 1 or not targets.size or not targets.shape == means.shape == variances.shape:
        shapes = f"{targets.shape}, {means.shape} and {variances.shape}"
        raise ValueError(f"y, mean, variance: expected one number for each row, shape (n,), got shapes {shapes}")
    losses = Band(epsilon).expectation(targets, means, variances)
    n, mean_loss = int(np.size(losses)), float(np.mean(losses))
    value = float(bound(mean_loss, 0.0, n, delta=failure, rigor="sharp"))
    terms = {"R_S": mean_loss, "KL": 0.0, "n": n}
    upper = Bound(value, "upper", 1.0 - failure, "P-09, P-10", terms, ASSUMPTIONS, quantity="Gibbs risk")
    return Risk(float(epsilon), mean_loss, upper, n)
