"""Feature maps with derivatives: the features of low-rank Gaussian processes that are trained."""

from fitting.features.adapters import from_jax, from_sklearn, from_torch
from fitting.features.base import FeatureKernel, FeatureMap, FeaturesAt
from fitting.features.choices import FeatureChoice, Fourier, Hilbert, Mercer
from fitting.features.fourier import FourierMap
from fitting.features.hilbert_space import HilbertMap
from fitting.features.mercer import MercerMap
from fitting.features.mixed import MixedMap
from fitting.features.mlp import MLP
from fitting.features.network import Network
from fitting.features.objects import Scaled
from fitting.features.projection import Projection
from fitting.features.transform import Composed

__all__ = [
    "MLP",
    "Composed",
    "FeatureChoice",
    "FeatureKernel",
    "FeatureMap",
    "FeaturesAt",
    "Fourier",
    "FourierMap",
    "Hilbert",
    "HilbertMap",
    "Mercer",
    "MercerMap",
    "MixedMap",
    "Network",
    "Projection",
    "Scaled",
    "from_jax",
    "from_sklearn",
    "from_torch",
]
