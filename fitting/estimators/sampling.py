"""Draws of a Gaussian whose covariance may have lost its rank."""

from __future__ import annotations

import numpy as np

from gpbounds.arrays import Float
from gpbounds.linalg import eigen


def normal_draws(covariance: Float, rounding: float, shape: tuple[int, int], rng: np.random.Generator) -> Float:
    """N(0, covariance), shape (N, *shape); eigenvalues in [−rounding, 0) count as 0.

    >>> normal_draws(np.zeros((2, 2)), 1e-8, (1, 3), np.random.default_rng(0)).shape
    (2, 1, 3)
    """
    found = eigen(covariance, "the predictive covariance", vectors=True, rounding=rounding)
    assert found.vectors is not None
    root = found.vectors * np.sqrt(found.values)
    return (root @ rng.standard_normal((covariance.shape[0], shape[0] * shape[1]))).reshape(-1, *shape)
