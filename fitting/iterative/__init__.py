"""Training and prediction of exact GPs at large N by iterations: estimates with standard errors, certified solves."""

from fitting.iterative.evidence import IterativeEvidence
from fitting.iterative.renyi import IterativeRenyi

__all__ = ["IterativeEvidence", "IterativeRenyi"]
