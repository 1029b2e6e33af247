"""Logarithms of positive parameters, which an optimiser varies."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from gpbounds.arrays import Float
from gpbounds.validation import finite


def as_log_parameters(values: ArrayLike, names: tuple[str, ...]) -> Float:
    """``values`` as finite float64, one for each of ``names``."""
    logarithms = finite("log_parameters", values)
    if logarithms.shape != (len(names),):
        raise ValueError(
            f"log_parameters: expected shape ({len(names)},), one for each of {names}, got {logarithms.shape}"
        )
    return logarithms


def exponentials(logs: Float, names: tuple[str, ...]) -> list[float]:
    """exp of each; an error if one is 0 or infinite."""
    with np.errstate(over="ignore", under="ignore"):
        values = np.exp(logs)
    for name, log, value in zip(names, logs, values, strict=True):
        if not 0.0 < value < np.inf:
            raise ValueError(f"log_parameters: expected log {name} within the range of float64, got {log:.6g}")
    return values.tolist()
