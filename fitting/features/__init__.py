"""Feature maps with derivatives: the features of low-rank Gaussian processes that are trained.

Each name is loaded on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpbounds.once import loaded_on_use

if TYPE_CHECKING:
    from fitting.features.adapters import from_jax as from_jax
    from fitting.features.adapters import from_sklearn as from_sklearn
    from fitting.features.adapters import from_torch as from_torch
    from fitting.features.base import FeatureKernel as FeatureKernel
    from fitting.features.base import FeatureMap as FeatureMap
    from fitting.features.base import FeaturesAt as FeaturesAt
    from fitting.features.choices import FeatureChoice as FeatureChoice
    from fitting.features.choices import Fourier as Fourier
    from fitting.features.choices import Hilbert as Hilbert
    from fitting.features.choices import Mercer as Mercer
    from fitting.features.fourier import FourierMap as FourierMap
    from fitting.features.hilbert_space import HilbertMap as HilbertMap
    from fitting.features.mercer import MercerMap as MercerMap
    from fitting.features.mixed import MixedMap as MixedMap
    from fitting.features.mlp import MLP as MLP
    from fitting.features.network import Network as Network
    from fitting.features.objects import Scaled as Scaled
    from fitting.features.projection import Projection as Projection
    from fitting.features.transform import Composed as Composed

_HOME = {
    "Composed": "transform",
    "FeatureChoice": "choices",
    "FeatureKernel": "base",
    "FeatureMap": "base",
    "FeaturesAt": "base",
    "Fourier": "choices",
    "FourierMap": "fourier",
    "Hilbert": "choices",
    "HilbertMap": "hilbert_space",
    "MLP": "mlp",
    "Mercer": "choices",
    "MercerMap": "mercer",
    "MixedMap": "mixed",
    "Network": "network",
    "Projection": "projection",
    "Scaled": "objects",
    "from_jax": "adapters",
    "from_sklearn": "adapters",
    "from_torch": "adapters",
}

__all__ = sorted(_HOME)
__getattr__, __dir__ = loaded_on_use("fitting.features", _HOME)
