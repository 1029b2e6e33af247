"""Audit of a trained sparse GP: would the exact one predict better, is M enough, also for labels and counts."""

from gpbounds.audit.best_law import TrainedLaw, best_law, elbo_of
from gpbounds.audit.causes import Cause, Causes, causes
from gpbounds.audit.claimed import ClaimedEvidence, ClaimedPredictions, claimed_evidence, claimed_predictions
from gpbounds.audit.compared import LOSS, Compared, HeldOut, PredictionScores, compare
from gpbounds.audit.coverage import Calibration, Coverage, calibration, rows_to_test
from gpbounds.audit.events import EventBounds, RowProbabilities, event_bounds, event_interval, row_probabilities
from gpbounds.audit.latent_levels import LatentEnough, LatentLevel, latent_enough
from gpbounds.audit.latent_record import LatentAudit
from gpbounds.audit.levels import Enough, Level, enough
from gpbounds.audit.limits import Hyperparameter, hyperparameters
from gpbounds.audit.model import LatentSubject, Subject, latent_subject, subject
from gpbounds.audit.predictions import Consequences, Differences, consequences
from gpbounds.audit.record import Audit, Finding
from gpbounds.audit.risk import Risk, held_out_risk
from gpbounds.audit.unexplained import Part, Places, places

__all__ = [
    "LOSS",
    "Audit",
    "Calibration",
    "Cause",
    "Causes",
    "ClaimedEvidence",
    "ClaimedPredictions",
    "Compared",
    "Consequences",
    "Coverage",
    "Differences",
    "Enough",
    "EventBounds",
    "Finding",
    "HeldOut",
    "Hyperparameter",
    "LatentAudit",
    "LatentEnough",
    "LatentLevel",
    "LatentSubject",
    "Level",
    "Part",
    "Places",
    "PredictionScores",
    "Risk",
    "RowProbabilities",
    "Subject",
    "TrainedLaw",
    "best_law",
    "calibration",
    "causes",
    "claimed_evidence",
    "claimed_predictions",
    "compare",
    "consequences",
    "elbo_of",
    "enough",
    "event_bounds",
    "event_interval",
    "held_out_risk",
    "hyperparameters",
    "latent_enough",
    "latent_subject",
    "places",
    "row_probabilities",
    "rows_to_test",
    "subject",
]
