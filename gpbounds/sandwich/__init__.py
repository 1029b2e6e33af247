"""Bounds on means, variances and predictions from a KL divergence: the roots of x - 1 - log x = 2γ, and Prop. 4."""

from gpbounds.sandwich.equation import explicit, roots
from gpbounds.sandwich.proposition import Predictive, Sandwich, predictive, sandwich

__all__ = ["Predictive", "Sandwich", "explicit", "predictive", "roots", "sandwich"]
