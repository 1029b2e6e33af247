"""Bounded losses under a Gaussian prediction: expectations and their derivatives in its mean and variance."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpbounds.losses.base import Loss
from gpbounds.losses.intervals import Band, Interval, Relative, outside_probability
from gpbounds.losses.sign import Sign
from gpbounds.losses.smooth import Exponential, Squared
from gpbounds.records import Variants

__all__ = [
    "Band",
    "Exponential",
    "Interval",
    "Loss",
    "Relative",
    "Sign",
    "Squared",
    "from_dict",
    "outside_probability",
]

LOSSES: Variants[Loss] = Variants.named(Band, Squared, Exponential, Relative, Interval, Sign)


def from_dict(record: Mapping[str, Any]) -> Loss:
    """The loss that ``Loss.to_dict`` wrote.

    Raises
    ------
    ValueError
        for an unknown name, or parameters that are not those of the loss.

    >>> from_dict({"name": "band", "epsilon": 0.6})
    Band(epsilon=0.6)
    """
    return LOSSES.read(record)
