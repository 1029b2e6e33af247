"""Differences of paired numbers, such as the losses of two models on the same splits, and what many of them show."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike


@dataclass(frozen=True)
class Paired:
    """The mean of a − b over pairs, its standard error (inf for one pair), and half of Student's 95 % interval."""

    mean: float
    error: float
    half: float

    @property
    def surely_less(self) -> bool:
        """Whether a is less than b by Student's 95 % interval."""
        return self.mean < -self.half

    @property
    def surely_more(self) -> bool:
        return self.mean > self.half

    def __str__(self) -> str:
        return f"{self.mean:+.3f}" + (f" ± {self.error:.3f}" if math.isfinite(self.error) else "")


def paired(a: ArrayLike, b: ArrayLike) -> Paired:
    """Their difference, for arrays (k,) of pairs."""
    from scipy.stats import t

    gap = np.asarray(a, dtype=np.float64) - np.asarray(b)
    if gap.size == 1:
        return Paired(float(gap.mean()), math.inf, math.inf)
    error = float(gap.std(ddof=1) / math.sqrt(gap.size))
    return Paired(float(gap.mean()), error, float(t.ppf(0.975, gap.size - 1)) * error)


@dataclass(frozen=True)
class Tally:
    """How often a is less than b: by the mean over pairs, and by the interval, in each of several settings."""

    gaps: Sequence[Paired]

    @property
    def word(self) -> str:
        """Whether the settings agree with "a is less, or level with b".

        "agrees": a is surely more nowhere, and less by the mean in more than half of the settings; "does not agree": it
        is surely less nowhere, and surely more somewhere or less by the mean in at most half of them.
        """
        low, high = (sum(getattr(gap, name) for gap in self.gaps) for name in ("surely_less", "surely_more"))
        mostly = 2 * sum(gap.mean < 0.0 for gap in self.gaps) > len(self.gaps)
        if mostly and not high:
            return "agrees"
        return "agrees in part" if mostly or low else "does not agree"

    def __str__(self) -> str:
        means = np.array([gap.mean for gap in self.gaps])
        low, high = (sum(getattr(gap, name) for gap in self.gaps) for name in ("surely_less", "surely_more"))
        middle = float(np.median(means))
        return (
            f"{self.word}: less in {(means < 0.0).sum()} of {means.size} settings, surely in {low}, surely more in "
            f"{high}; difference from {means.min():+.3f} to {means.max():+.3f}, median {middle:+.3f}"
        )
