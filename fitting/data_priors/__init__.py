"""Priors from rows that a certificate does not cover, and the posteriors that update them."""

from fitting.data_priors.prior_law import MOST, PriorLaw, extended, one_point, require_law
from fitting.data_priors.updates import Aim, Update, engine_of, update

__all__ = [
    "MOST",
    "Aim",
    "PriorLaw",
    "Update",
    "engine_of",
    "extended",
    "one_point",
    "require_law",
    "update",
]
