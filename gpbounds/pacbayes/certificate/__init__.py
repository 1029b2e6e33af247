"""Risk certificates: a file that states a proved bound and its data, so that a third party can recompute it."""

from gpbounds.pacbayes.certificate.declarations import Charge, DeclaredMean, MeanGrid, Scaling
from gpbounds.pacbayes.certificate.of_predictions import CoverageCertificate, HeldOutCertificate
from gpbounds.pacbayes.certificate.posteriors import Exact, Free, Posterior, Sparse, Updated, Whitened
from gpbounds.pacbayes.certificate.record import Certificate
from gpbounds.pacbayes.certificate.split import Split
from gpbounds.pacbayes.certificate.statement import Line, Report

__all__ = [
    "Certificate",
    "Charge",
    "CoverageCertificate",
    "DeclaredMean",
    "Exact",
    "Free",
    "HeldOutCertificate",
    "Line",
    "MeanGrid",
    "Posterior",
    "Report",
    "Scaling",
    "Sparse",
    "Split",
    "Updated",
    "Whitened",
]
