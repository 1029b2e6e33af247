"""The exact GP at large N by iterations: log p(y) and predictions, between proved ends (N-vecchia, N-slq, N-solve)."""

from gpbounds.iterative.evidence import evidence
from gpbounds.iterative.prediction_ends import ExactPredictions, exact_predictions
from gpbounds.iterative.probes import Probes

__all__ = ["ExactPredictions", "Probes", "evidence", "exact_predictions"]
