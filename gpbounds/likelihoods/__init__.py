"""Likelihoods p(y|f): densities, proved ranges of their derivatives, and expectations under a Gaussian f."""

from gpbounds.likelihoods.base import Likelihood
from gpbounds.likelihoods.bernoulli import Bernoulli
from gpbounds.likelihoods.gaussian import Gaussian
from gpbounds.likelihoods.poisson import Poisson
from gpbounds.likelihoods.ranges import DerivativeRange
from gpbounds.likelihoods.records import from_dict
from gpbounds.likelihoods.student_t import StudentT

__all__ = ["Bernoulli", "DerivativeRange", "Gaussian", "Likelihood", "Poisson", "StudentT", "from_dict"]
