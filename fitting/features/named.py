"""The features that `fitting.LowRankGP` knows by name."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from fitting.features.base import FeatureKernel, KernelMap, TrainedMap
from fitting.features.choices import fourier_map
from fitting.features.fourier import FourierMap
from fitting.features.hilbert_space import Box, HilbertMap
from fitting.features.mercer import MercerMap
from fitting.features.objects import Scaled
from fitting.features.transform import Composed, kernel_map
from gpbounds.arrays import Float
from gpbounds.kernels import Kernel, SquaredExponential

NAMES = ("fourier", "leverage", "mercer", "hilbert")


def named_map(
    features: str,
    kernel: Kernel,
    rank: int,
    inputs: Float,
    rng: np.random.Generator,
    *,
    noise: float,
    order: str,
    mean: Float,
    stds: Float,
    box: Box | None = None,
) -> KernelMap:
    """The features of ``kernel`` with this name, for its ``inputs`` (N, d).

    Parameters
    ----------
    features : "fourier", "leverage", "mercer" or "hilbert"
    kernel : Kernel
    rank : int
    inputs : array (N, d)
    rng : numpy.random.Generator
        Draws the frequencies.
    noise : float
        σ², for "leverage".
    order : "degree", "best" or "grid"
    mean, stds : arrays (d,)
        Of the normal law that defines the eigenfunctions; these two and ``order`` are for "mercer".
    box : Box, optional
        That of all rows, for "hilbert".
    """
    if features == "fourier":
        return fourier_map(kernel, rank, inputs, rng)
    if features == "leverage":
        assert isinstance(kernel, SquaredExponential)
        return FourierMap.by_leverage(kernel, rank, inputs, rng, noise=noise)
    if features == "hilbert":
        stationary: Any = kernel
        return HilbertMap.within(stationary, rank, Box.around(inputs) if box is None else box)
    assert isinstance(kernel, SquaredExponential)
    return MercerMap.chosen(kernel, rank, order, mean, stds)


def chosen_again(kernel: Kernel, rank: int, order: str) -> FeatureKernel | None:
    """A kernel of Mercer features with the eigenfunctions of its largest eigenvalues; None if it has them already."""
    assert isinstance(kernel, FeatureKernel)
    inner = kernel_map(kernel.features)
    assert isinstance(inner, MercerMap)
    at = inner.kernel_at(kernel.parameters)
    assert isinstance(at, SquaredExponential)
    again = MercerMap.chosen(at, rank, order, inner.mean, inner.stds)
    if set(map(tuple, again.degrees.tolist())) == set(map(tuple, inner.degrees.tolist())):
        return None
    outer = kernel.features
    made: TrainedMap = replace(outer, inner=again) if isinstance(outer, Composed) else again
    return replace(kernel, features=made)


def approximated(kernel: FeatureKernel) -> Kernel:
    """The kernel that the features of ``kernel`` approximate; ``kernel`` itself for features without one."""
    if isinstance(kernel.features, Scaled):
        return kernel
    return kernel_map(kernel.features).kernel_at(kernel.parameters)
