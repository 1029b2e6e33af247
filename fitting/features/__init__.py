"""Feature maps with derivatives: the features of low-rank Gaussian processes that are trained."""

from fitting.features.base import FeatureMap, FeaturesAt
from fitting.features.fourier import Fourier
from fitting.features.kernel import FeatureKernel
from fitting.features.mercer import Mercer
from fitting.features.objects import Scaled
from fitting.features.projection import Projected, Projection

__all__ = ["FeatureKernel", "FeatureMap", "FeaturesAt", "Fourier", "Mercer", "Projected", "Projection", "Scaled"]
