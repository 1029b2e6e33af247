"""What D_α[q‖p] <= γ implies, in words."""

from __future__ import annotations

import math

from gpbounds.bound import outward
from gpbounds.sandwich import roots

DIGITS = 3
"""Digits of the numbers in the sentences; they are bounds, so they are rounded outwards."""


def total_variation(gamma: float, alpha: float) -> float:
    """D_α[q‖p] <= γ implies TV(q, p) <= min{√(γ/(2α)), √(1 - e^(-cγ))}, c = max{1, (1-α)/α}.

    The first is Pinsker's inequality for α in (0, 1] (Gilardoni, 2010).  The second: D_½ = -2 log BC, TV² <= 1 - BC²,
    D_½ <= D_α for α >= ½, and D_½ <= ((1-α)/α) D_α for α < ½, since ((1-α)/α) D_α does not increase with α (R-dir).

    >>> round(total_variation(0.02, 1.0), 3)
    0.1
    """
    odds = max(1.0, (1.0 - alpha) / alpha)
    return min(math.sqrt(gamma / (2.0 * alpha)), math.sqrt(-math.expm1(-odds * gamma)))


def sentences(gamma: float, alpha: float) -> tuple[str, ...]:
    """The consequences of D_α[q*‖p] <= γ, one sentence each.

    >>> print(sentences(0.01, 1.0)[1])
    Every predictive mean of f is within 0.142 posterior standard deviations of the exact one (L-30), and every \
predictive variance of f is between 0.813 and 1.22 times the exact one (Prop. 4).
    """
    tv = outward(total_variation(gamma, alpha), "upper", DIGITS)
    lines = [
        f"D_{alpha:g} <= {gamma:g} implies: the posterior probability of every event is off by at most {tv} "
        "(total variation)."
    ]
    if alpha == 1.0:
        shift = outward(math.sqrt(2.0 * gamma), "upper", DIGITS)
        low, high = (outward(root, side, DIGITS) for root, side in zip(roots(gamma), ("lower", "upper"), strict=False))
        lines.append(
            f"Every predictive mean of f is within {shift} posterior standard deviations of the exact one (L-30), and "
            f"every predictive variance of f is between {low} and {high} times the exact one (Prop. 4)."
        )
    else:
        lines.append("Statements about single means and variances (Prop. 4) need alpha = 1.")
    return tuple(lines)
