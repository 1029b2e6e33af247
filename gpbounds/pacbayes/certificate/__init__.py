"""Risk certificates: a file that states a proved bound and its data, so that a third party can recompute it."""

from gpbounds.pacbayes.certificate.declarations import Charge, DeclaredMean, MeanGrid, Scaling
from gpbounds.pacbayes.certificate.posteriors import Exact, Free, Posterior, Sparse, Whitened
from gpbounds.pacbayes.certificate.record import Certificate
from gpbounds.pacbayes.certificate.statement import Line, Report

__all__ = [
    "Certificate",
    "Charge",
    "DeclaredMean",
    "Exact",
    "Free",
    "Line",
    "MeanGrid",
    "Posterior",
    "Report",
    "Scaling",
    "Sparse",
    "Whitened",
]
