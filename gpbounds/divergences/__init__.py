"""Divergences of Gaussian laws, and of GP posteriors from their prior  (ledger, sections A and P.2)."""

from gpbounds.divergences.full import FullPosterior, full_posterior, posterior_kl
from gpbounds.divergences.gaussian import Prediction, gaussian_kl, gaussian_renyi
from gpbounds.divergences.sparse import (
    SparsePosterior,
    collapsed_posterior,
    free_posterior,
    sparse_kl,
    whitened_kl,
    whitened_posterior,
)

__all__ = [
    "FullPosterior",
    "Prediction",
    "SparsePosterior",
    "collapsed_posterior",
    "free_posterior",
    "full_posterior",
    "gaussian_kl",
    "gaussian_renyi",
    "posterior_kl",
    "sparse_kl",
    "whitened_kl",
    "whitened_posterior",
]
