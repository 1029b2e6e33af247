"""`Statement`: the arguments of a call of ``rate`` except M, its bound at M, and the least M that meets a target."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from numpy.typing import ArrayLike

from gpbounds import validation
from gpbounds.arrays import Float
from gpbounds.bound import Bound, Plan, outward
from gpbounds.sandwich import roots

FORMS = ("sharpest", "printed")
_DIRECTIONS = ("q||p", "p||q")


@dataclass(frozen=True)
class Numbers:
    """The numbers of a statement, checked; they broadcast."""

    alpha: Float
    noise: Float
    delta: Float
    y_norm2: Float | None
    tv: Float

    @classmethod
    def checked(
        cls,
        alpha: ArrayLike,
        noise: ArrayLike,
        delta: ArrayLike,
        y_norm2: ArrayLike | None,
        tv: ArrayLike,
        direction: str,
    ) -> Numbers:
        """The checked numbers of a call of ``rate``."""
        order = validation.order("alpha", alpha)
        validation.choice("direction", direction, _DIRECTIONS)
        if direction == "p||q" and (order == 1.0).any():
            raise ValueError(
                "alpha: expected alpha < 1 with direction='p||q', as the factor α/(1-α) of R-dir is infinite at 1"
            )
        return cls(
            alpha=order,
            noise=validation.positive("noise", noise),
            delta=validation.open_unit("delta", delta),
            y_norm2=None if y_norm2 is None else validation.non_negative("y_norm2", y_norm2),
            tv=validation.closed_unit("tv", tv),
        )

    def single(self) -> dict[str, float | None]:
        """The numbers as floats, by name; refuse an array."""
        for name, value in vars(self).items():
            if value is not None and value.ndim:
                raise ValueError(
                    f"{name}: expected one number, got shape {value.shape}: call the function once for each"
                )
        return {name: None if value is None else float(value) for name, value in vars(self).items()}


def silent() -> None:
    """The default ``advance`` of a search: shows no progress."""


class Statement(ABC):
    """A bound on the divergence of the best sparse posterior from the exact one, or on λ_max(K − Q)/σ², against M.

    It stores the kernel, the law of the inputs or the rows themselves, the hypothesis on y, the draws, and the numbers.
    """

    @abstractmethod
    def bound(self, M: Float) -> Bound:
        """The bound with M inducing points; M and the numbers broadcast."""

    @abstractmethod
    def least(self, target: float, advance: Callable[[], Any] = silent) -> Plan:
        """The least M from which on the bound stays <= ``target``, for scalar numbers; a search calls ``advance``."""


# What D_α[q‖p] <= γ implies, in words.

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
    return min(math.sqrt(gamma) / math.sqrt(2.0 * alpha), math.sqrt(-math.expm1(-odds * gamma)))  # γ/(2α) may underflow


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
