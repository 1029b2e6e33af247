"""Priors from rows that a certificate does not cover, and the posteriors that update them."""

from fitting.data_priors.prior_law import (
    MOST,
    PriorLaw,
    extended,
    law_of,
    of_law,
    one_point,
    require_law,
    steady_jitter,
)
from fitting.data_priors.updates import Aim, Update, engine_of, update

__all__ = [
    "MOST",
    "Aim",
    "PriorLaw",
    "Update",
    "engine_of",
    "extended",
    "law_of",
    "of_law",
    "one_point",
    "require_law",
    "steady_jitter",
    "update",
]
