"""The Rényi bounds for one data set: evidence, gap, prediction, risk (sections A, C and E of ledger R)."""

from gpbounds.renyi.any_posterior import jensen_bound, renyi_bound, variational_bound
from gpbounds.renyi.blocks import LogDet, log_det_estimate
from gpbounds.renyi.brackets import evidence
from gpbounds.renyi.fitted_mean import fitted_mean
from gpbounds.renyi.floors import minimum_gap, needed, needed_from_eigenvalues
from gpbounds.renyi.gap_bounds import (
    direction_factor,
    exact_gap,
    expected_gap,
    expected_gap_bounds,
    gap,
    gap_from_trace,
    gap_variance,
)
from gpbounds.renyi.log_concave import PosteriorGap, posterior_gap
from gpbounds.renyi.models import InducingLaw, LatentModel, Model, imported_model
from gpbounds.renyi.objective import elbo, log_evidence
from gpbounds.renyi.operator import operator_gap
from gpbounds.renyi.prediction import inducing_posterior, oracle_risk_bound, pac_risk_bound, predict
from gpbounds.renyi.readers import from_gpflow, from_gpjax, from_gpytorch, from_sklearn
from gpbounds.renyi.residual import Nystrom, nystrom

__all__ = [
    "InducingLaw",
    "LatentModel",
    "LogDet",
    "Model",
    "Nystrom",
    "PosteriorGap",
    "direction_factor",
    "elbo",
    "evidence",
    "exact_gap",
    "expected_gap",
    "expected_gap_bounds",
    "fitted_mean",
    "from_gpflow",
    "from_gpjax",
    "from_gpytorch",
    "from_sklearn",
    "gap",
    "gap_from_trace",
    "gap_variance",
    "imported_model",
    "inducing_posterior",
    "jensen_bound",
    "log_det_estimate",
    "log_evidence",
    "minimum_gap",
    "needed",
    "needed_from_eigenvalues",
    "nystrom",
    "operator_gap",
    "oracle_risk_bound",
    "pac_risk_bound",
    "posterior_gap",
    "predict",
    "renyi_bound",
    "variational_bound",
]
