"""Training of the models to which the bounds of :mod:`gpbounds` apply.

>>> import numpy as np, fitting
>>> X = np.linspace(0.0, 6.0, 50)[:, None]
>>> model = fitting.SparseGP("vfe", n_inducing=10).fit(X, np.sin(X[:, 0]) + 0.1 * np.cos(40.0 * X[:, 0]))
>>> lower, upper = model.log_evidence_bounds()
>>> bool(lower <= upper)
True

``fitting`` imports ``gpbounds``; ``gpbounds`` never imports ``fitting``.  Each name is loaded on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpbounds.once import loaded_on_use

if TYPE_CHECKING:
    from fitting.certifying import certify as certify
    from fitting.estimators import PACGP as PACGP
    from fitting.estimators import ExactGP as ExactGP
    from fitting.estimators import LowRankGP as LowRankGP
    from fitting.estimators import RenyiGP as RenyiGP
    from fitting.estimators import SparseGP as SparseGP
    from fitting.estimators import SparsePACGP as SparsePACGP
    from fitting.estimators import VariationalGP as VariationalGP
    from fitting.estimators import VariationalGPClassifier as VariationalGPClassifier
    from fitting.estimators import load as load
    from fitting.flatness import sharpness as sharpness
    from fitting.flatness import sharpness_of as sharpness_of
    from fitting.metrics import calibration_error as calibration_error
    from fitting.metrics import classification_error as classification_error
    from fitting.metrics import coverage as coverage
    from fitting.metrics import log_loss as log_loss
    from fitting.metrics import mean_relative_error as mean_relative_error
    from fitting.metrics import randomised_pit as randomised_pit
    from fitting.metrics import square_loss as square_loss
    from fitting.objectives.objective import member as member
    from fitting.objectives.objective import objective as objective
    from fitting.objectives.objective import variational_objective as variational_objective
    from fitting.objectives.packing import packing as packing
    from fitting.study.auditing import audit as audit
    from fitting.study.examining import examine as examine
    from fitting.study.planning import plan as plan

_HOME = {
    "ExactGP": "estimators",
    "LowRankGP": "estimators",
    "PACGP": "estimators",
    "RenyiGP": "estimators",
    "SparseGP": "estimators",
    "SparsePACGP": "estimators",
    "VariationalGP": "estimators",
    "VariationalGPClassifier": "estimators",
    "audit": "study.auditing",
    "calibration_error": "metrics",
    "certify": "certifying",
    "classification_error": "metrics",
    "coverage": "metrics",
    "examine": "study.examining",
    "load": "estimators",
    "log_loss": "metrics",
    "mean_relative_error": "metrics",
    "member": "objectives.collapsed",
    "objective": "objectives.objective",
    "packing": "objectives.packing",
    "plan": "study.planning",
    "randomised_pit": "metrics",
    "sharpness": "flatness",
    "sharpness_of": "flatness",
    "square_loss": "metrics",
    "variational_objective": "objectives.objective",
}

__all__ = sorted(_HOME)
__getattr__, __dir__ = loaded_on_use("fitting", _HOME)
