"""Priors from rows that a certificate does not cover, and the posteriors that update them."""

from fitting.data_priors.prior_law import MOST, PriorLaw, Priors, of_law, one_point, priors_of, require_law
from fitting.data_priors.updates import Aim, Update, Updates, engine_of, update

__all__ = [
    "MOST",
    "Aim",
    "PriorLaw",
    "Priors",
    "Update",
    "Updates",
    "engine_of",
    "of_law",
    "one_point",
    "priors_of",
    "require_law",
    "update",
]
