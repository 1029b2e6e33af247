"""Losses by their short names, as certificates write them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpbounds.losses.base import Loss
from gpbounds.losses.exponential import Exponential
from gpbounds.losses.intervals import Band, Interval
from gpbounds.losses.relative import Relative
from gpbounds.losses.squared import Squared

LOSSES: Mapping[str, type[Loss]] = {kind.name: kind for kind in (Band, Squared, Exponential, Relative, Interval)}


def from_dict(record: Mapping[str, Any]) -> Loss:
    """The loss that ``Loss.to_dict`` wrote.

    Raises
    ------
    ValueError
        for an unknown name, or parameters that are not those of the loss.

    >>> from_dict({"name": "band", "epsilon": 0.6})
    Band(epsilon=0.6)
    """
    parameters = dict(record)
    name = parameters.pop("name", None)
    if not isinstance(name, str) or name not in LOSSES:
        raise ValueError(f"name: expected one of {', '.join(map(repr, LOSSES))}, got {name!r}")
    try:
        return LOSSES[name](**parameters)
    except TypeError:
        raise ValueError(f"{name}: expected its parameters, got {sorted(map(str, parameters))}") from None
