"""Risk certificates: one file that says what was proved, of which data, and lets a third party recompute it."""

from gpbounds.pacbayes.certificate.declarations import Charge, Scaling
from gpbounds.pacbayes.certificate.posteriors import Exact, Free, Posterior, Sparse, Whitened
from gpbounds.pacbayes.certificate.record import Certificate
from gpbounds.pacbayes.certificate.report import Line, Report

__all__ = ["Certificate", "Charge", "Exact", "Free", "Line", "Posterior", "Report", "Scaling", "Sparse", "Whitened"]
