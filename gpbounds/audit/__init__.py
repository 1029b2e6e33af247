"""Audit of a trained sparse Gaussian process: is M enough, what that means, where it is worst, is it calibrated."""

from gpbounds.audit.coverage import Calibration, Coverage, calibration, rows_to_test
from gpbounds.audit.levels import Enough, Level, enough
from gpbounds.audit.limits import Hyperparameter, hyperparameters
from gpbounds.audit.model import Subject, subject
from gpbounds.audit.predictions import Consequences, Differences, consequences
from gpbounds.audit.record import Audit, Finding
from gpbounds.audit.risk import Risk, held_out_risk
from gpbounds.audit.unexplained import Part, Places, places

__all__ = [
    "Audit",
    "Calibration",
    "Consequences",
    "Coverage",
    "Differences",
    "Enough",
    "Finding",
    "Hyperparameter",
    "Level",
    "Part",
    "Places",
    "Risk",
    "Subject",
    "calibration",
    "consequences",
    "enough",
    "held_out_risk",
    "hyperparameters",
    "places",
    "rows_to_test",
    "subject",
]
