"""Hyperparameters at the limits of their search, or at values that the rows cannot determine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from gpbounds.audit.model import Subject
from gpbounds.errors import shown
from gpbounds.kernels.base import Kernel
from gpbounds.kernels.facts import Fold, numbered
from gpbounds.validation import instance

LONG, SHORT = 10.0, 0.01
"""A lengthscale above the first or below the second multiple of the range of its input gets a remark."""
STRONG = 1e5
"""A ratio of variance to noise above this gets a remark."""

Limit = Literal["lower", "upper"]


@dataclass(frozen=True)
class Hyperparameter:
    """One hyperparameter.

    Attributes
    ----------
    name : str
    value : float
    relative : float or None
        ``value`` in ranges of its input for a lengthscale, in variances of y for a variance or the noise.
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


def _ends(limited: Any) -> dict[str, Any]:
    """The mapping of names to "lower" or "upper", or none."""
    at = {} if limited is None else dict(instance("limited", limited, Mapping, "a mapping of names to ends"))
    if any(end not in ("lower", "upper") for end in at.values()):
        raise ValueError(f"limited: expected 'lower' or 'upper' for each name, got {shown(at)}")
    return at


def hyperparameters(about: Subject, limited: Mapping[str, Limit] | None = None) -> tuple[Hyperparameter, ...]:
    """The hyperparameters with remarks on those at a limit or at a value that the rows cannot determine.

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
    instance("about", about, Subject, "what gpbounds.audit.subject returns")
    at, spread = _ends(limited), float(about.y.var()) or 1.0
    ranges = np.ptp(about.X, axis=0)
    names = about.kernel.parameter_names
    values = np.exp(about.kernel.log_parameters)
    rows = []
    for (name, column), key, value in zip(_named(about.kernel, about.columns), names, values.tolist(), strict=True):
        relative, remark = None, ""
        if "lengthscale" in name:
            width = float(ranges.max() if column is None else ranges[column])
            relative = value / width if width > 0.0 else None
            remark = _of_lengthscale(relative, column is not None)
        elif name.endswith("variance"):
            relative = value / spread
            if value > STRONG * about.noise:
                remark = f"{value / about.noise:.3g} times the noise variance: small divergences need many points"
        rows.append(Hyperparameter(name, value, relative, at.get(key), remark))
    remark = "almost all of the variance of y: the inputs explain little" if about.noise > 0.95 * spread else ""
    return (*rows, Hyperparameter("noise", about.noise, about.noise / spread, at.get("noise"), remark))


def _of_lengthscale(relative: float | None, own: bool) -> str:
    if relative is None:
        return "input constant in these rows"
    if relative > LONG:
        return "input hardly used by the model" if own else "the function is almost linear over these rows"
    return "far shorter than the range: neighbouring rows tell little about each other" if relative < SHORT else ""


def _named(kernel: Any, columns: Sequence[str]) -> list[tuple[str, int | None]]:
    """Each of ``kernel.parameter_names`` with the name of the input in place of its number, and the input's number."""
    return [
        (name if column is None or not inner else f"{name}[{columns[column]}]", column)
        for name, inner, column in kernel.fold(_INPUTS, tuple(range(len(columns))))
    ]


Named = list[tuple[str, bool, int | None]]
"""Names without the number of an input, whether they have one, and the input that they belong to."""


def _of_leaf(kernel: Kernel, numbers: tuple[int, ...]) -> Named:
    named: Named = []
    for name in kernel.parameter_names:
        head, bracket, number = name.partition("[")
        alone = numbers[0] if len(numbers) == 1 else None
        named.append((head, bool(bracket), numbers[int(number.rstrip("]"))] if bracket else alone))
    return named


def _of_pair(first: Named, second: Named) -> Named:
    parts = (("k1", first), ("k2", second))
    return [(f"{part}.{name}", inner, column) for part, each in parts for name, inner, column in each]


_INPUTS = Fold(_of_leaf, _of_pair, _of_pair, numbered)
