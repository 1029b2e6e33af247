"""Features with one interface, ``features.fit(X)`` then ``features(X)``: an N × rank array Ξ with ΞΞᵀ ≈ K."""

from gpbounds.lowrank.features.base import Features
from gpbounds.lowrank.features.fourier import FourierFeatures, LeverageFourierFeatures
from gpbounds.lowrank.features.mercer import MercerFeatures

__all__ = ["Features", "FourierFeatures", "LeverageFourierFeatures", "MercerFeatures"]
