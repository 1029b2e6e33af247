"""Bounds on means, variances and predictions from a KL divergence: the roots of x - 1 - log x = 2γ, and Prop. 4."""

from gpbounds.sandwich.elementary import explicit
from gpbounds.sandwich.equation import roots
from gpbounds.sandwich.prediction import Predictive, predictive
from gpbounds.sandwich.proposition import Sandwich, sandwich

__all__ = ["Predictive", "Sandwich", "explicit", "predictive", "roots", "sandwich"]
