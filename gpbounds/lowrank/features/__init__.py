"""Features with one interface, ``features.fit(X)`` then ``features(X)``: an N × rank array Ξ with ΞΞᵀ ≈ K."""

from gpbounds.lowrank.features.base import Features
from gpbounds.lowrank.features.fourier import FourierFeatures, LeverageFourierFeatures
from gpbounds.lowrank.features.mercer import MercerFeatures
from gpbounds.lowrank.features.sines import HilbertFeatures

__all__ = ["Features", "FourierFeatures", "HilbertFeatures", "LeverageFourierFeatures", "MercerFeatures"]
