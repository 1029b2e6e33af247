"""Likelihoods p(y|f): densities, proved ranges of their derivatives, and expectations under a Gaussian f."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpbounds.likelihoods.base import DerivativeRange, Likelihood
from gpbounds.likelihoods.bernoulli import Bernoulli
from gpbounds.likelihoods.gaussian import Gaussian
from gpbounds.likelihoods.poisson import Poisson
from gpbounds.likelihoods.student_t import StudentT
from gpbounds.records import Variants

__all__ = ["Bernoulli", "DerivativeRange", "Gaussian", "Likelihood", "Poisson", "StudentT", "from_dict"]

LIKELIHOODS: Variants[Likelihood] = Variants.named(Gaussian, Bernoulli, Poisson, StudentT)


def from_dict(record: Mapping[str, Any]) -> Likelihood:
    """The likelihood that ``Likelihood.to_dict`` wrote.

    Raises
    ------
    ValueError
        for an unknown name, or parameters that are missing, unknown or wrong.

    >>> from_dict({"name": "poisson", "link": "exp"})
    Poisson(link='exp')
    """
    return LIKELIHOODS.read(record)
