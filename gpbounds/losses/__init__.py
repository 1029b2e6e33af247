"""Bounded losses under a Gaussian prediction: their expectations and the derivatives in its mean and variance."""

from gpbounds.losses.base import Loss
from gpbounds.losses.exponential import Exponential
from gpbounds.losses.intervals import Band, Interval, outside_probability
from gpbounds.losses.records import from_dict
from gpbounds.losses.relative import Relative
from gpbounds.losses.squared import Squared

__all__ = [
    "Band",
    "Exponential",
    "Interval",
    "Loss",
    "Relative",
    "Squared",
    "from_dict",
    "outside_probability",
]
