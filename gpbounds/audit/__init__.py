"""Audit of a trained sparse Gaussian process: would the exact one predict better, is M enough, is it calibrated."""

from gpbounds.audit.compared import LOSS, Compared, HeldOut, PredictionScores, compare
from gpbounds.audit.coverage import Calibration, Coverage, calibration, rows_to_test
from gpbounds.audit.levels import Enough, Level, enough
from gpbounds.audit.limits import Hyperparameter, hyperparameters
from gpbounds.audit.model import Subject, subject
from gpbounds.audit.predictions import Consequences, Differences, consequences
from gpbounds.audit.record import Audit, Finding
from gpbounds.audit.risk import Risk, held_out_risk
from gpbounds.audit.unexplained import Part, Places, places

__all__ = [
    "LOSS",
    "Audit",
    "Calibration",
    "Compared",
    "Consequences",
    "Coverage",
    "Differences",
    "Enough",
    "Finding",
    "HeldOut",
    "Hyperparameter",
    "Level",
    "Part",
    "Places",
    "PredictionScores",
    "Risk",
    "Subject",
    "calibration",
    "compare",
    "consequences",
    "enough",
    "held_out_risk",
    "hyperparameters",
    "places",
    "rows_to_test",
    "subject",
]
