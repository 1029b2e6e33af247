"""What D_α[q‖p] <= γ means in plain terms."""

from __future__ import annotations

import math

from gpbounds.sandwich import roots


def total_variation(gamma: float, alpha: float) -> float:
    """D_α[q‖p] <= γ implies TV(q, p) <= min{√(γ/(2α)), √(1 - e^(-cγ))}, c = max{1, (1-α)/α}.

    The first is Pinsker's inequality for α in (0, 1] (Gilardoni, 2010).  The second: D_½ = -2 log BC, TV² <= 1 - BC²,
    and D_½ <= D_α for α >= ½, D_½ <= ((1-α)/α) D_α below, since ((1-α)/α) D_α does not increase with α (R-dir).

    >>> round(total_variation(0.02, 1.0), 3)
    0.1
    """
    odds = max(1.0, (1.0 - alpha) / alpha)
    return min(math.sqrt(gamma / (2.0 * alpha)), math.sqrt(-math.expm1(-odds * gamma)))


def sentences(gamma: float, alpha: float) -> tuple[str, ...]:
    """The consequences of D_α[q*‖p] <= γ, one sentence each.

    >>> print(sentences(0.01, 1.0)[1])
    Every predictive mean of f is within 0.141 posterior standard deviations of the exact one (L-30), every predictive \
variance of f between 0.813 and 1.21 times it (Prop. 4).
    """
    tv = total_variation(gamma, alpha)
    lines = [
        f"D_{alpha:g} <= {gamma:g} means: no event's posterior probability is off by more than {tv:.3g} "
        "(total variation)."
    ]
    if alpha == 1.0:
        low, high, _ = roots(gamma)
        lines.append(
            f"Every predictive mean of f is within {math.sqrt(2.0 * gamma):.3g} posterior standard deviations of the "
            f"exact one (L-30), every predictive variance of f between {low:.3g} and {high:.3g} times it (Prop. 4)."
        )
    else:
        lines.append("Statements on single means and variances (Prop. 4) need alpha = 1.")
    return tuple(lines)
