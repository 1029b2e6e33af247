"""PAC-Bayes: the binary kl and its inverse, risk bounds, and certificates that a third party can check again."""

from gpbounds.pacbayes.binary_kl import kl
from gpbounds.pacbayes.certificate import (
    Certificate,
    Charge,
    DeclaredMean,
    Exact,
    Free,
    MeanGrid,
    Scaling,
    Sparse,
    Whitened,
)
from gpbounds.pacbayes.grid import HyperGrid
from gpbounds.pacbayes.inverse import kl_inverse
from gpbounds.pacbayes.penalty import grid_penalty, log_penalty, mixture_kl, xi
from gpbounds.pacbayes.procedure import issue_certificate
from gpbounds.pacbayes.theorems import batch_bound, batch_risk_bound, bayes_factor, bayes_risk_bound, bound

__all__ = [
    "Certificate",
    "Charge",
    "DeclaredMean",
    "Exact",
    "Free",
    "HyperGrid",
    "MeanGrid",
    "Scaling",
    "Sparse",
    "Whitened",
    "batch_bound",
    "batch_risk_bound",
    "bayes_factor",
    "bayes_risk_bound",
    "bound",
    "grid_penalty",
    "issue_certificate",
    "kl",
    "kl_inverse",
    "log_penalty",
    "mixture_kl",
    "xi",
]
