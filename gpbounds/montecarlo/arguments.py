"""Checks of arguments for `gpbounds.montecarlo`, and the evaluation of a function of one (y, m, v) on arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from gpbounds import validation
from gpbounds.arrays import Float, array_of
from gpbounds.errors import NotConverged
from gpbounds.likelihoods import Likelihood
from gpbounds.likelihoods.base import FARTHEST


def sample_counts(L: ArrayLike) -> Float:
    """Numbers of samples: whole numbers ≥ 1, or inf."""
    numbers = array_of(np, "L", L)
    if numbers.dtype.kind == "f":
        counts = numbers.astype(np.float64)
        validation.whole("L", np.where(counts == np.inf, 1.0, counts))
        return counts
    return validation.whole("L", L)


def triples(likelihood: Likelihood, y: Any, m: Any, v: Any) -> tuple[Float, Float, Float]:
    """y, m and v broadcast; the likelihood refuses a y it has no density for."""
    checked = [np.asarray(validation.finite(name, value)) for name, value in (("y", y), ("m", m))]
    checked.append(np.asarray(validation.non_negative("v", v)))
    for name, array in zip(("y", "m", "v"), checked, strict=True):
        if array.size and not np.abs(array).max() <= FARTHEST:
            raise ValueError(f"{name}: expected numbers up to {FARTHEST:g} in size, got {np.abs(array).max():g}")
    try:
        y_, m_, v_ = np.broadcast_arrays(*checked)
    except ValueError:
        raise ValueError(f"y, m, v: expected shapes that broadcast, got {[a.shape for a in checked]}") from None
    likelihood.log_density(y_, m_)
    return y_, m_, v_


def each(function: Callable[[float, float, float, Float], Float], y: Float, m: Float, v: Float, L: Float) -> Float:
    """``function(y, m, v, L)`` -> (parts, L.size), called once for each distinct (y, m, v) with all its L.

    The result has shape (parts, *the shape that y, m, v and L broadcast to).
    """
    try:
        arrays = np.broadcast_arrays(y, m, v, L)
    except ValueError:
        raise ValueError(f"L: expected a shape that broadcasts with y, m, v {y.shape}, got {L.shape}") from None
    flat = [a.ravel() for a in arrays]
    groups: dict[tuple[float, float, float], list[int]] = {}
    for i, key in enumerate(zip(*(a.tolist() for a in flat[:3]), strict=True)):
        groups.setdefault(key, []).append(i)
    results: Any = None
    for key, where in groups.items():
        with np.errstate(all="ignore"):
            values = function(*key, flat[3][where])
        if np.isnan(values).any():
            raise NotConverged(
                f"expected numbers at y = {key[0]:g}, m = {key[1]:g}, v = {key[2]:g}, got NaN: an expectation is "
                "beyond the range of double precision"
            )
        results = np.empty((values.shape[0], flat[3].size)) if results is None else results
        results[:, where] = values
    if results is None:
        return np.empty((1, *arrays[0].shape))
    return np.asarray(results.reshape(-1, *arrays[0].shape))
