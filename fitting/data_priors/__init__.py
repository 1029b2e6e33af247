"""Priors from rows that a certificate does not cover, and the posteriors that update them."""

from fitting.data_priors.prior_law import PriorLaw, Priors, of_law, one_point, priors_of
from fitting.data_priors.update import Aim, Updated, update

__all__ = ["Aim", "PriorLaw", "Priors", "Updated", "of_law", "one_point", "priors_of", "update"]
