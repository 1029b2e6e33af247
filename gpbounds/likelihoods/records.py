"""Likelihoods read back from what `Likelihood.to_dict` wrote."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpbounds.likelihoods.base import Likelihood
from gpbounds.likelihoods.bernoulli import Bernoulli
from gpbounds.likelihoods.gaussian import Gaussian
from gpbounds.likelihoods.poisson import Poisson
from gpbounds.likelihoods.student_t import StudentT

KINDS: dict[str, type[Likelihood]] = {kind.name: kind for kind in (Gaussian, Bernoulli, Poisson, StudentT)}


def from_dict(record: Mapping[str, Any]) -> Likelihood:
    """The likelihood that a ``to_dict`` describes.

    Raises
    ------
    ValueError
        for an unknown name, or parameters that are missing, unknown or wrong.

    >>> from_dict({"name": "poisson", "link": "exp"})
    Poisson(link='exp')
    """
    try:
        parameters = {key: value for key, value in record.items() if key != "name"}
        kind = KINDS[record["name"]]
    except (AttributeError, KeyError, TypeError):
        raise ValueError(f"expected a record with a name among {', '.join(KINDS)}, got {record!r}") from None
    try:
        return kind(**parameters)
    except TypeError as error:
        raise ValueError(f"{record['name']}: {error}") from None
