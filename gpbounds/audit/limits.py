"""Hyperparameters against the data: at the limits of their search, or beyond what the rows can tell."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from gpbounds.audit.model import Subject

LONG, SHORT = 10.0, 0.01
"""Lengthscales beyond these multiples of the range of their input are remarked on."""
STRONG = 1e5
"""A ratio of variance to noise above it is remarked on."""

Limit = Literal["lower", "upper"]


@dataclass(frozen=True)
class Hyperparameter:
    """One hyperparameter.

    Attributes
    ----------
    name : str
    value : float
    relative : float or None
        Of a lengthscale: in ranges of its input.  Of a variance or the noise: in variances of y.
    limit : "lower", "upper" or None
        The limit of the search at which training ended.
    remark : str
        Empty if there is nothing to say.
    """

    name: str
    value: float
    relative: float | None = None
    limit: Limit | None = None
    remark: str = ""


def hyperparameters(about: Subject, limited: Mapping[str, Limit] | None = None) -> tuple[Hyperparameter, ...]:
    """The hyperparameters with remarks on those at a limit or beyond what the rows can tell.

    Parameters
    ----------
    about : Subject
    limited : mapping of name to "lower" or "upper", optional
        Hyperparameters at which training ended at a limit; names as in ``kernel.parameter_names``, and "noise".

    >>> from gpbounds.audit import subject
    >>> from gpbounds.kernels import SquaredExponential
    >>> about = subject(SquaredExponential(1.0, 50.0), [0.0, 1.0, 2.0], [1.0, 0.5, -0.5], noise=0.1)
    >>> [(each.name, round(each.relative, 6)) for each in hyperparameters(about) if each.remark]
    [('lengthscale', 25.0)]
    """
    at, spread = dict(limited or {}), float(about.y.var()) or 1.0
    ranges = np.ptp(about.X, axis=0)
    names = about.kernel.parameter_names
    values = np.exp(about.kernel.log_parameters)
    rows = []
    for name, value in zip(names, values.tolist(), strict=True):
        relative, remark = None, ""
        if "lengthscale" in name:
            j = int(name.partition("[")[2].rstrip("]") or -1)
            width = float(ranges.max() if j < 0 else ranges[j])
            relative = value / width if width > 0.0 else None
            remark = _of_lengthscale(relative, j >= 0)
        elif "variance" in name:
            relative = value / spread
            if value > STRONG * about.noise:
                remark = f"{value / about.noise:.3g} times the noise variance: small divergences need many points"
        rows.append(Hyperparameter(_named(name, about.columns), value, relative, at.get(name), remark))
    remark = "almost all of the variance of y: the inputs explain little" if about.noise > 0.95 * spread else ""
    return (*rows, Hyperparameter("noise", about.noise, about.noise / spread, at.get("noise"), remark))


def _of_lengthscale(relative: float | None, own: bool) -> str:
    if relative is None:
        return "the input is constant in these rows"
    if relative > LONG:
        return "the model hardly uses this input" if own else "the function is almost linear over these rows"
    return "far shorter than the range: neighbouring rows tell little about each other" if relative < SHORT else ""


def _named(name: str, columns: tuple[str, ...]) -> str:
    """The name with the name of the input in place of its number."""
    head, bracket, number = name.partition("[")
    return f"{head}[{columns[int(number.rstrip(']'))]}]" if bracket else name
