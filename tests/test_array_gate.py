"""The gate for arrays at every public door: the table below must name each function that takes numbers."""

import importlib
import inspect
import pkgutil
import re
from functools import cache
from types import SimpleNamespace
from unittest.mock import MagicMock

import numpy as np
import pytest

import fitting
import gpbounds
from gpbounds import audit, kernels, likelihoods, losses, plotting, vecchia
from gpbounds.inputs import Empirical
from gpbounds.lowrank import ThroughBasis
from gpbounds.pacbayes import HyperGrid
from gpbounds.plotting import held_out
from gpbounds.plotting.figures import plot_bracket
from gpbounds.rows import Source

X = np.array([[0.0], [1.0], [2.0], [4.0], [5.0], [7.0]])
Z = np.array([[0.0], [3.0], [6.0]])
Y = np.array([1.0, -1.0, 2.0, 0.0, 1.0, 3.0])
COUNTS = np.array([1.0, 0.0, 2.0])
K = 4.0 * np.eye(4) + 1.0
SIGMA = np.diag([3.0, 1.0, 0.0, 2.0])
FEATURES = np.array([[1.0, 0.0], [1.0, 1.0], [0.0, 2.0], [1.0, -1.0]])
VALUES = np.array([8.0, 4.0, 2.0, 1.0])
MEANS, SPREADS = np.array([0.0, 1.0, -1.0]), np.array([1.0, 2.0, 1.0])
COVARIANCE = np.array([[2.0, 1.0, 0.0], [1.0, 3.0, 1.0], [0.0, 1.0, 2.0]])
FACTOR = np.array([[1.0, 0.0, 0.0], [1.0, 2.0, 0.0], [0.0, 1.0, 1.0]])

SE = kernels.SquaredExponential(2.0, 1.0)
GAUSSIAN, POISSON = likelihoods.Gaussian(1.0), likelihoods.Poisson("exp")
BAND = losses.Band(2.0)
ROWS = {"kernel": SE, "X": X, "noise": 0.5}
DATA = ROWS | {"y": Y}
SPARSE = DATA | {"Z": Z}
UNIFORM = {"kernel": SE, "inputs": gpbounds.Uniform(0.0, 4.0), "noise": 0.5}
TRIPLE = {"likelihood": POISSON, "y": COUNTS, "m": MEANS, "v": SPREADS}
ONE = {"likelihood": GAUSSIAN, "y": np.array([1.0]), "m": np.array([0.0]), "v": np.array([1.0])}
FREE = {"mean": MEANS, "covariance": COVARIANCE}
DESCENT = {"loss": lambda x: (float(x @ x), 2.0 * x), "start": np.array([3.0]), "bounds": [(-9.0, 9.0)], "max_iter": 9}
HSGP = SimpleNamespace(_m=[30], _c=2.0, _L=None, cov_func=type("ExpQuad", (), {"ls": 1.0})())
MODEL = fitting.ExactGP(SE, 0.5, optimizer=None).fit(X, Y)


def _subject():
    return audit.subject(SE, X, Y, Z, noise=0.5)


def _latent_subject():
    return audit.latent_subject(SE, POISSON, X[:3], COUNTS, X[:2])


def _exact(kernel, X, y):
    return gpbounds.pacbayes.Exact(0.5)


DOORS = {
    "gpbounds.Empirical": [{"X": X}],
    "gpbounds.Gaussian": [{"std": SPREADS, "mean": MEANS}, {"cov": COVARIANCE}],
    "gpbounds.Uniform": [{"low": MEANS, "high": MEANS + SPREADS}],
    "gpbounds.Matern": [{"nu": 0.5, "lengthscale": SPREADS}],
    "gpbounds.SquaredExponential": [{"lengthscale": SPREADS}],
    "gpbounds.at_unit_noise": [DATA | {"noise": np.array([0.25, 1.0, 4.0, 0.25, 1.0, 4.0])}],
    "gpbounds.inducing_points": [
        {
            "kernel": SE,
            "N": 6,
            "alpha": 1.0,
            "target": 2.0,
            "inputs": Empirical(X),
            "noise": 0.5,
            "draws": 1,
            "y": Y,
            "rng": 0,
        }
    ],
    "gpbounds.rate": [
        UNIFORM | {"N": 50.0, "M": 9.0, "alpha": 1.0, "delta": 0.1, "tv": 0.0, "y_norm2": 60.0},
        {"kernel": SE, "N": 6.0, "M": 3.0, "alpha": 1.0, "inputs": Empirical(X), "draws": 1, "y": Y, "rng": 0},
    ],
    "gpbounds.audit.best_law": [{"about": _latent_subject, "Z": X[:2]}],
    "gpbounds.audit.calibration": [
        {"y": MEANS, "mean": MEANS, "variance": SPREADS}
        | {"covariance": np.diag([1.0, 1.0]), "rows": np.array([0, 2]), "sets": 199}
    ],
    "gpbounds.audit.consequences": [
        {"about": _subject, "levels": lambda: audit.enough(_subject()), "X_new": X},
    ],
    "gpbounds.audit.claimed_predictions": [
        {"about": _subject, "X_new": X, "mean": Y, "variance": X[:, 0] + 1.0, "offset": Y}
    ],
    "gpbounds.audit.event_interval": [{"probability": SPREADS / 3.0, "divergence": 0.2}],
    "gpbounds.audit.held_out_risk": [{"y": Y, "mean": Y, "variance": X[:, 0] + 1.0, "epsilon": 1.0, "delta": 0.1}],
    "gpbounds.audit.latent_subject": [
        {"kernel": SE, "likelihood": POISSON, "X": X[:3], "y": COUNTS, "Z": X[:2], "offset": MEANS}
    ],
    "gpbounds.audit.places": [{"about": _subject, "Z": Z, "X_new": X}],
    "gpbounds.audit.row_probabilities": [
        {"likelihood": POISSON, "y": COUNTS, "m": MEANS, "v": SPREADS, "divergence": 0.2}
    ],
    "gpbounds.audit.subject": [SPARSE],
    "gpbounds.divergences.collapsed_posterior": [SPARSE | {"power": 0.0}],
    "gpbounds.divergences.free_posterior": [{"kernel": SE, "Z": Z} | FREE],
    "gpbounds.divergences.full_posterior": [DATA],
    "gpbounds.divergences.gaussian_kl": [{"mean1": MEANS, "cov1": COVARIANCE, "mean2": SPREADS, "cov2": COVARIANCE}],
    "gpbounds.divergences.gaussian_renyi": [
        {"mean1": MEANS, "cov1": COVARIANCE, "mean2": SPREADS, "cov2": COVARIANCE, "alpha": 0.5}
    ],
    "gpbounds.divergences.posterior_kl": [{"K": K, "y_minus_mean": VALUES, "noise": 0.5}],
    "gpbounds.divergences.sparse_kl": [{"Kuu": COVARIANCE} | FREE],
    "gpbounds.divergences.whitened_kl": [{"mean": MEANS, "factor": FACTOR}],
    "gpbounds.divergences.whitened_posterior": [{"kernel": SE, "Z": Z, "mean": MEANS, "factor": FACTOR}],
    "gpbounds.iterative.exact_predictions": [DATA | {"X_new": Z}],
    "gpbounds.iterative.evidence": [DATA | {"rng": 0, "probes": 4, "block": 4}],
    "gpbounds.kdpp.annealed_trace": [{"eigenvalues": VALUES, "N": 6.0, "M": 2.0}],
    "gpbounds.kdpp.expected_esp": [{"eigenvalues": VALUES, "M": 2.0, "j": 1.0}],
    "gpbounds.kdpp.expected_logdet_bound": [{"eigenvalues": VALUES, "M": 2.0, "alpha": 1.0, "noise": 0.5}],
    "gpbounds.kdpp.expected_residual": [{"eigenvalues": VALUES, "M": 2}],
    "gpbounds.kdpp.expected_trace": [{"eigenvalues": VALUES, "M": 2.0}],
    "gpbounds.kdpp.greedy": [{"K": K, "M": 2}],
    "gpbounds.kdpp.loewner": [{"K": K, "ratio": 0.5, "V": FEATURES}],
    "gpbounds.kdpp.log_esp": [{"eigenvalues": VALUES, "k_max": 2}],
    "gpbounds.kdpp.log_expected_determinant": [{"eigenvalues": VALUES, "M": 2.0, "c": 1.0}],
    "gpbounds.kdpp.nystrom_tv": [{"eigenvalues": VALUES, "trace": 16.0, "M": 2}],
    "gpbounds.kdpp.residual_trace": [{"K": K, "indices": np.array([0, 2])}],
    "gpbounds.kdpp.ridge_leverage": [{"kernel": SE, "X": X, "ridge": 1.0, "landmarks": np.array([0, 2])}],
    "gpbounds.kdpp.rounding_tv": [{"eigenvalues": VALUES, "rounding": 1e-9, "M": 2}],
    "gpbounds.kdpp.rpcholesky": [{"kernel": SE, "X": X, "M": 2, "rng": 0}],
    "gpbounds.kdpp.rpcholesky_residual": [{"eigenvalues": VALUES, "M": 2}],
    "gpbounds.kdpp.sample": [{"K": K, "M": 2, "rng": 0}],
    "gpbounds.kdpp.sample_eigen": [
        {"eigenvalues": VALUES, "eigenvectors": np.eye(4), "M": 2, "rng": 0, "weights": VALUES},
    ],
    "gpbounds.kdpp.sample_factor": [{"V": FEATURES, "M": 2, "rng": 0}],
    "gpbounds.kdpp.sample_kernel": [{"kernel": SE, "X": X, "M": 2, "rng": 0}],
    "gpbounds.kdpp.select": [
        {"kernel": SE, "X": X, "M": 2},
        DATA | {"M": 2, "method": "best", "candidates": [Z[:2]], "rng": 0},
    ],
    "gpbounds.kdpp.tilted_eigenvalues": [{"eigenvalues": VALUES, "noise": 0.5}],
    "gpbounds.kdpp.trace_bound": [{"tails": np.array([4.0, 2.0, 1.0, 1.0]), "M": 2.0}],
    "gpbounds.kdpp.tv_term": [{"N": 6.0, "M": 2.0, "variance": 1.0, "tv": 0.5}],
    "gpbounds.kdpp.uniform_residual": [{"eigenvalues": VALUES, "M": 2, "variance": 8.0}],
    "gpbounds.kernels.Linear": [{"variance": SPREADS}],
    "gpbounds.kernels.Periodic": [{"period": SPREADS, "lengthscale": SPREADS}],
    "gpbounds.kernels.Polynomial": [{"degree": 2, "variance": SPREADS}],
    "gpbounds.kernels.RationalQuadratic": [{"lengthscale": SPREADS}],
    "gpbounds.linalg.cholesky": [{"A": K, "name": "A"}],
    "gpbounds.linalg.eigen": [{"A": K, "name": "A"}],
    "gpbounds.linalg.solve_triangular": [{"L": FACTOR + np.eye(3), "B": COVARIANCE}],
    "gpbounds.losses.outside_probability": [{"low": MEANS, "high": MEANS + 1.0, "m": MEANS, "v": SPREADS}],
    "gpbounds.lowrank.HilbertFeatures": [
        {"kernel": SE, "m": np.array([3.0]), "c": np.array([1.5]), "half_width": np.array([4.0]), "centre": MEANS[:1]}
    ],
    "gpbounds.lowrank.LeverageFourierFeatures": [
        {"kernel": SE, "rank": 4, "noise": 0.5, "N": 6, "width": 8.0, "rng": 0}
    ],
    "gpbounds.lowrank.MercerFeatures": [
        {"kernel": SE, "rank": 3, "inputs": gpbounds.Gaussian(), "mean": np.array([1.0])}
    ],
    "gpbounds.lowrank.ThroughBasis": [{"kernel": SE, "X": X, "basis": X, "noise": 0.5}],
    "gpbounds.lowrank.ThroughBasisGiven": [{"through": ThroughBasis(SE, X, X, noise=0.5), "y": X[:, 0]}],
    "gpbounds.lowrank.evidence_gap": [
        {"K": K, "features": FEATURES, "y": VALUES, "noise": 0.5, "entry_error": 1e-12},
    ],
    "gpbounds.lowrank.fourier_kl": [{"kernel": SE, "N": 6, "m": 400.0, "noise": 0.5, "width": np.array([8.0])}],
    "gpbounds.lowrank.fourier_rank": [{"kernel": SE, "N": 6, "target": 2.0, "noise": 0.5, "width": np.array([8.0])}],
    "gpbounds.lowrank.hilbert_kernel_error": [
        {"kernel": SE, "m": np.array([9.0]), "c": np.array([2.0]), "half_width": np.array([4.0])}
    ],
    "gpbounds.lowrank.hilbert_kl": [
        {"kernel": SE, "N": 6, "m": np.array([30.0]), "c": np.array([2.0]), "half_width": np.array([4.0]), "noise": 0.5}
    ],
    "gpbounds.lowrank.hilbert_rank": [
        {"kernel": SE, "N": 6, "half_width": np.array([4.0]), "noise": 0.5, "target": 0.5}
    ],
    "gpbounds.lowrank.hilbert_report": [
        ROWS | {"m": np.array([30.0]), "c": np.array([2.0]), "centre": np.array([3.0]), "target": 0.5}
    ],
    "gpbounds.lowrank.hilbert_report_of": [{"gp": HSGP, "X": X, "noise": 0.5, "kernel": SE, "target": 0.5}],
    "gpbounds.lowrank.kappa": [{"Delta": 0.25}],
    "gpbounds.lowrank.kappa_inverse": [{"divergence": SPREADS}],
    "gpbounds.lowrank.kl": [{"K": K, "Sigma": SIGMA, "noise": 0.5}],
    "gpbounds.lowrank.kl_by_rank": [
        {"K": K, "features": FEATURES, "ranks": np.array([1.0, 2.0]), "noise": 0.5, "scales": np.array([1.0, 2.0])}
    ],
    "gpbounds.lowrank.kl_features": [{"K": K, "features": FEATURES, "noise": 0.5}],
    "gpbounds.lowrank.kl_from_excess": [{"excess": SPREADS, "N": 6.0, "gamma": 0.5}],
    "gpbounds.lowrank.kl_from_ratio": [{"gamma": 0.5, "N": 6.0}],
    "gpbounds.lowrank.kl_from_residual": [{"residual": SPREADS, "noise": 0.5, "least": 0.0}],
    "gpbounds.lowrank.kl_from_traces": [
        {"trace1": 2.0, "trace2": 1.0, "N": 6.0, "gamma": 0.5, "noise": 0.5, "least": 0.0}
    ],
    "gpbounds.lowrank.least_gamma": [{"K": K, "Sigma": SIGMA, "noise": 0.5}],
    "gpbounds.lowrank.leverage_bound": [{"eta": MEANS, "widths": 8.0, "ratio": 4.0}],
    "gpbounds.lowrank.leverage_density": [{"widths": np.array([8.0]), "ratio": 4.0}],
    "gpbounds.lowrank.log_evidence": [{"features": FEATURES, "y": VALUES, "noise": 0.5}],
    "gpbounds.lowrank.mercer_kl": [
        {"kernel": SE, "N": 6.0, "rank": 4.0, "inputs": gpbounds.Gaussian(), "noise": 0.5, "delta": 0.1}
    ],
    "gpbounds.lowrank.optimal_kl": [{"eigenvalues": VALUES, "noise": 0.5}],
    "gpbounds.lowrank.optimal_rank": [{"eigenvalues": VALUES, "target": 1.0, "noise": 0.5}],
    "gpbounds.lowrank.predict": [{"features": FEATURES, "y": VALUES, "features_new": FEATURES, "noise": 0.5}],
    "gpbounds.lowrank.predictive_kl": [
        {"K": K, "features": FEATURES, "y": VALUES, "noise": 0.5, "entry_error": 1e-12},
    ],
    "gpbounds.lowrank.residual_certificate": [{"residual": SPREADS, "noise": 0.5}],
    "gpbounds.lowrank.spectral_kl": [{"Delta": 0.25, "N": 6.0}],
    "gpbounds.montecarlo.bias": [ONE | {"L": 400.0, "method": "expansion"}],
    "gpbounds.montecarlo.cover": [
        TRIPLE | {"proposal": "shifted"},
        TRIPLE | {"proposal": "widened", "n": 4.0 * SPREADS},
    ],
    "gpbounds.montecarlo.exact_gradient": [TRIPLE],
    "gpbounds.montecarlo.expected_gradients": [ONE | {"L": 1.0}],
    "gpbounds.montecarlo.expected_objective": [ONE | {"L": 400.0, "method": "expansion"}],
    "gpbounds.montecarlo.failure_share": [{"iteration": SPREADS, "delta": 0.1}],
    "gpbounds.montecarlo.lemma6": [{"low": 0.0, "high": 1.0, "mean": 0.5, "relative_error": 0.1, "delta": 0.1}],
    "gpbounds.montecarlo.product_gradient": [{"draws": np.eye(3), "m": MEANS, "v": SPREADS}],
    "gpbounds.montecarlo.sample_product": [TRIPLE | {"size": 3, "rng": 0}],
    "gpbounds.montecarlo.sample_size": [
        TRIPLE | {"n": 5.0, "delta": 0.1, "step": 0.1, "iteration": 1.0, "zeta": 0.01, "design": 1.0}
    ],
    "gpbounds.montecarlo.sampled_gradient": [TRIPLE | {"L": 3, "rng": 0}],
    "gpbounds.pacbayes.Free": [{"Z": Z, "mean": MEANS, "cov": COVARIANCE}],
    "gpbounds.pacbayes.Sparse": [{"Z": Z, "noise": 0.5}],
    "gpbounds.pacbayes.Whitened": [{"Z": Z, "mean": MEANS, "factor": FACTOR}],
    "gpbounds.pacbayes.Updated": [
        {"Z": Z, "prior_mean": MEANS, "prior_factor": FACTOR, "mean": MEANS, "factor": FACTOR}
    ],
    "gpbounds.pacbayes.batch_bound": [
        {"risk": 0.5, "batch": 4.0, "kl": 1.0, "N": 6.0, "delta": 0.1, "batch_delta": 0.1, "log_prior_penalty": 0.0}
    ],
    "gpbounds.pacbayes.batch_risk_bound": [{"risk": 0.5, "batch": 4.0, "delta": 0.1}],
    "gpbounds.pacbayes.bayes_factor": [{"epsilon": 1.0, "std": SPREADS}],
    "gpbounds.pacbayes.bayes_risk_bound": [{"gibbs": 0.25}],
    "gpbounds.pacbayes.bound": [{"risk": 0.5, "kl": SPREADS, "N": 6.0, "delta": 0.1, "log_prior_penalty": 0.0}],
    "gpbounds.pacbayes.coverage_factor": [{"scores": SPREADS, "level": 0.5, "delta": 0.25}],
    "gpbounds.pacbayes.grid_penalty": [{"points": 5.0, "hyperparameters": 2.0}],
    "gpbounds.pacbayes.holdout_bound": [{"k": COUNTS, "n": 6.0, "delta": 0.1}],
    "gpbounds.pacbayes.issue_certificate": [
        {
            "X": X,
            "y": Y,
            "kernel": SE,
            "rebuild": _exact,
            "grid": HyperGrid(),
            "loss": BAND,
        }
        | {"delta": 0.1, "nonrigorous": True}
    ],
    "gpbounds.pacbayes.kl": [{"q": 0.25, "p": 0.5}],
    "gpbounds.pacbayes.kl_inverse": [{"q": 0.25, "divergence": SPREADS}],
    "gpbounds.pacbayes.log_penalty": [{"N": 6.0, "delta": 0.1, "log_prior_penalty": 0.0}],
    "gpbounds.pacbayes.mixture_kl": [{"kl": SPREADS, "log_prior_penalty": SPREADS}],
    "gpbounds.pacbayes.tandem_bound": [
        {"tandem": 0.25, "kl": SPREADS, "N": 6.0, "delta": 0.1, "log_prior_penalty": 0.0}
    ],
    "gpbounds.pacbayes.xi": [{"N": SPREADS}],
    "gpbounds.renyi.InducingLaw": [{"mean": MEANS, "factor": FACTOR, "whitened": False, "jitter": 0.0}],
    "gpbounds.renyi.elbo": [SPARSE | {"alpha": 1.0}],
    "gpbounds.renyi.evidence": [SPARSE | {"alphas": np.array([1.0, 0.5])}],
    "gpbounds.renyi.exact_gap": [SPARSE | {"alpha": 0.5}],
    "gpbounds.renyi.expected_gap": [ROWS | {"Z": Z, "alpha": 0.5}],
    "gpbounds.renyi.expected_gap_bounds": [ROWS | {"Z": Z, "alpha": 0.5}],
    "gpbounds.renyi.fitted_mean": [DATA],
    "gpbounds.renyi.gap": [SPARSE | {"alpha": 0.5}],
    "gpbounds.renyi.gap_from_trace": [SPARSE | {"alpha": 0.5}],
    "gpbounds.renyi.gap_variance": [ROWS | {"Z": Z, "alpha": 0.5}],
    "gpbounds.renyi.inducing_posterior": [SPARSE | {"alpha": 0.5}],
    "gpbounds.renyi.jensen_bound": [SPARSE | FREE | {"alpha": 0.5}],
    "gpbounds.renyi.log_det_estimate": [ROWS | {"Z": Z, "rng": 0}],
    "gpbounds.renyi.log_evidence": [DATA],
    "gpbounds.renyi.minimum_gap": [{"eigenvalues": VALUES, "M": 2.0, "alpha": 0.5, "noise": 0.5, "y": "prior"}],
    "gpbounds.renyi.needed": [ROWS | {"alpha": 0.5, "target": 1.0}],
    "gpbounds.renyi.needed_from_eigenvalues": [
        {"eigenvalues_lower": VALUES, "alpha": 0.5, "target": 1.0, "noise": 0.5}
    ],
    "gpbounds.renyi.nystrom": [{"kernel": SE, "X": X, "Z": Z}],
    "gpbounds.renyi.operator_gap": [ROWS | {"Z": Z}],
    "gpbounds.renyi.oracle_risk_bound": [{"log_true": -4.0, "log_model": -5.0, "N": 6, "alpha": 0.5, "delta": 0.1}],
    "gpbounds.renyi.pac_risk_bound": [
        {"log_true": -4.0, "log_models": np.array([-5.0, -6.0]), "N": 6, "alpha": 0.5, "delta": 0.1}
        | {"prior": np.array([0.5, 0.5]), "posterior": np.array([0.5, 0.5])}
    ],
    "gpbounds.renyi.posterior_gap": [
        {"kernel": SE, "X": X, "y": np.abs(Y), "likelihood": POISSON, "Z": Z, "q_mean": MEANS, "q_factor": FACTOR}
        | {"offset": Y, "delta": 0.1}
    ],
    "gpbounds.renyi.predict": [SPARSE | {"X_new": X, "alpha": 0.5}],
    "gpbounds.renyi.renyi_bound": [SPARSE | FREE | {"alpha": 0.5}],
    "gpbounds.renyi.variational_bound": [SPARSE | FREE],
    "gpbounds.sandwich.explicit": [{"gamma": SPREADS}],
    "gpbounds.sandwich.predictive": [{"joint": 0.5, "eta": 0.5, "train": 0.0}],
    "gpbounds.sandwich.roots": [{"gamma": SPREADS}],
    "gpbounds.sandwich.sandwich": [{"kl": SPREADS, "mahalanobis": SPREADS}],
    "gpbounds.rows.source": [{"X": X, "y": Y}],
    "gpbounds.vecchia.factor": [
        {"kernel": SE, "X": X, "noise": 0.5, "blocks": vecchia.near(SE, X, block=2, neighbours=2, rng=0)}
    ],
    "gpbounds.vecchia.near": [{"kernel": SE, "X": X, "block": 2, "neighbours": 2, "rng": 0}],
    "fitting.audit": [{"model": lambda: MODEL, "X": X, "y": Y, "most": 2}],
    "fitting.calibration_error": [{"y": np.array([0.0, 1.0, 1.0]), "probability": np.array([0.0, 1.0, 1.0])}],
    "fitting.certify": [{"model": lambda: MODEL, "X": X, "y": Y, "nonrigorous": True, "epsilon": 1.0}],
    "fitting.classification_error": [{"y": np.array([0.0, 1.0, 1.0]), "m": MEANS}],
    "fitting.coverage": [TRIPLE | {"level": 0.5}],
    "fitting.examine": [{"model": lambda: MODEL, "X": X, "y": Y, "claimed_evidence": 1.0}],
    "fitting.log_loss": [TRIPLE],
    "fitting.mean_relative_error": [{"y": SPREADS, "prediction": MEANS}],
    "fitting.objective": [{"X": X, "y": Y}],
    "fitting.packing": [
        {"kernel": SE, "noise": 0.5, "Z": Z, "mean": MEANS, "factor": FACTOR, "scale": np.array([2.0])},
    ],
    "fitting.plan": [{"X": X, "y": Y, "kernel": SE, "noise": 0.5, "simulate": 0, "most": 2}],
    "fitting.randomised_pit": [TRIPLE | {"rng": 0}],
    "fitting.sharpness": [{"model": lambda: MODEL, "X": X, "y": Y, "corners": 1}],
    "fitting.sharpness_of": [{"function": lambda x: (float(x @ x), 2.0 * x), "x": np.array([1.0, 2.0])}],
    "fitting.square_loss": [{"y": SPREADS, "prediction": MEANS}],
    "fitting.training.train_adam": [DESCENT],
    "fitting.training.train_lbfgs": [DESCENT],
    "fitting.variational_objective": [{"X": X, "y": Y}],
    "fitting.bounds.free_bound": [{"X": X, "y": Y, "loss": BAND, "delta": 0.1}],
    "fitting.bounds.risk_bound": [{"X": X, "y": Y, "loss": BAND, "delta": 0.1}],
}


RECORDS = {  # what functions return, and parts of models: functions that read their arrays read them through the gate
    *("Bound", "Calibration", "Differences", "Enough", "Places", "Subject", "FullPosterior", "Prediction"),
    *("SparsePosterior", "ExpectedResidual", "Sample", "Selection", "Cholesky", "Eigen", "LeverageDensity"),
    *("ProductSample", "Nystrom", "Source", "Blocks", "Factor", "Composed", "FeatureKernel", "FourierMap"),
    *("HilbertMap", "MercerMap", "Network", "Projection", "Scaled", "IterativeEvidence", "Resolution", "Run"),
    *("Steps", "Sampler"),
    *("ClaimedPredictions", "Compared", "HeldOut", "Model", "Stationary", "TableOfNumbers"),
    *("EventBounds", "LatentModel", "LatentSubject", "RowProbabilities"),
}
ELSEWHERE = {  # tested below, or by `source`
    *("Band", "Bracket", "Curve", "Intervals", "Predictions", "Probabilities", "positive", "targets_page"),
    "intervals_page",
    *("shuffle_to", "is_elsewhere"),
}
DRAWN = {"Chart", "Dots", "Line"}  # of sequences of float, for pages of the library's own numbers
WORDS = {  # arguments that may be an array, and are none here
    "gpbounds.renyi.minimum_gap": {"y"},
    "fitting.objective": {"blocks"},
    "gpbounds.kdpp.select": {"candidates"},
}
TAKES = re.compile(r"ArrayLike|Array\b|Float|Numbers|Indices")


class Foreign:
    """An array of another library in host memory, which NumPy reads by DLPack only."""

    def __init__(self, values):
        self.values = np.asarray(values)

    def __array_namespace__(self, api_version=None):
        return np

    def __dlpack__(self, **options):
        return self.values.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.values.__dlpack_device__()


def _modules():
    for package in (gpbounds, fitting):
        yield package
        for info in pkgutil.iter_modules(package.__path__):
            yield importlib.import_module(f"{package.__name__}.{info.name}")


def _public():
    """Every public function and class that takes arrays, by the first of its names."""
    names = {}
    for module in _modules():
        for name in getattr(module, "__all__", ()):
            each = getattr(module, name)
            if inspect.isfunction(each) or inspect.isclass(each):
                names.setdefault(each, f"{module.__name__}.{name}")
    for each, name in names.items():
        if taken := _arrays_of(each):
            yield name, taken


def _arrays_of(function):
    try:
        parameters = inspect.signature(function).parameters.values()
    except ValueError:
        return set()
    return {p.name for p in parameters if TAKES.search(str(p.annotation)) or p.name in {"X", "y", "Y", "Z"}}


def _bad(value):
    """What no door may read, made of an acceptable value."""
    value = np.asarray(value)
    first = np.zeros(value.shape, bool)
    first.flat[0] = True
    yield "masked", np.ma.masked_array(value, first)
    yield "beyond 2^53", np.where(first, 2**53 + 1, 1)
    yield "a date", np.full(value.shape, np.datetime64("2020-01-01", "ns"))
    yield "complex", value + 0j


def _whole(array):
    return array.astype(np.int64) if (array == np.rint(array)).all() else array


GOOD = {  # other arrays of the same numbers
    "mask of nothing": lambda array: np.ma.masked_array(array, np.zeros(array.shape, bool)),
    "foreign": Foreign,
    "list": np.ndarray.tolist,
    "int64": _whole,
}


def _called(name, arguments):
    module, _, function = name.rpartition(".")
    made = {
        key: value() if callable(value) and key in ("about", "levels", "model") else value
        for key, value in arguments.items()
    }
    return getattr(importlib.import_module(module), function)(**made)


def _bits(result, depth=4):
    """The numbers of a result."""
    if isinstance(result, Source):
        return [_bits([np.asarray(part.X, float), np.asarray(part.Y, float)]) for part in result.holder.partitions()]
    if isinstance(result, np.ndarray):
        return result.shape, result.tobytes() if result.dtype.kind != "O" else None
    if isinstance(result, (float, int, str, bytes, np.generic)):
        return repr(result)
    if result is None or depth == 0:
        return None
    if isinstance(result, dict):
        return {key: _bits(value, depth - 1) for key, value in result.items()}
    if isinstance(result, (list, tuple)):
        return [_bits(value, depth - 1) for value in result]
    ours = type(result).__module__.partition(".")[0] in ("gpbounds", "fitting")
    return {key: _bits(value, depth - 1) for key, value in vars(result).items()} if ours else None


def _refuses(call, parameter, kind):
    with pytest.raises(ValueError, match=": expected") as caught:
        call()
    said = str(caught.value)
    assert "\n" not in said, f"{kind}: {said}"
    assert re.search(rf"\b{parameter}\b", said.partition(": expected")[0]), f"{parameter}, {kind}: {said}"


OPEN = [name for name, _ in _public() if name.rpartition(".")[2] not in RECORDS | ELSEWHERE | DRAWN]


def test_every_public_function_that_takes_numbers_is_in_the_table():
    assert set(OPEN) == set(DOORS)
    for name, taken in _public():
        if name in DOORS:
            tried = {key for arguments in DOORS[name] for key, value in arguments.items() if _is_numbers(value)}
            assert taken <= tried | WORDS.get(name, set()), f"{name}: {taken - tried} are not tried"


def _is_numbers(value):
    return isinstance(value, np.ndarray | float)


def _tried(name):
    for arguments in DOORS[name]:
        for key in _arrays_of(getattr(importlib.import_module(name.rpartition(".")[0]), name.rpartition(".")[2])):
            if _is_numbers(arguments.get(key)):
                yield arguments, key


@pytest.mark.parametrize("name", DOORS)
def test_what_doubles_do_not_hold_is_refused_in_one_sentence(name):
    for arguments, key in _tried(name):
        for kind, bad in _bad(arguments[key]):
            _refuses(lambda given=arguments | {key: bad}: _called(name, given), key, kind)


@pytest.mark.parametrize("name", DOORS)
def test_other_arrays_of_the_same_numbers_give_the_same_bits(name):
    for given in DOORS[name]:
        arrays = {key: value for key, value in given.items() if isinstance(value, np.ndarray)}
        if not arrays:
            continue
        expected = _bits(_called(name, given))
        assert re.search("[0-9]", repr(expected))
        for kind, other in GOOD.items():
            assert _bits(_called(name, given | {key: other(array) for key, array in arrays.items()})) == expected, kind


ESTIMATORS = [name for name in fitting.__all__ if hasattr(getattr(fitting, name), "fit")]
LABELS = np.array([0, 1, 1, 0, 1, 0])


UNREAD = {("kl_bound_of", "y")}  # for rows that are read by partitions only


def _made(name, optimizer=None):
    kind = getattr(fitting, name)
    few = {"n_inducing": 3, "rank": 4, "kernel": SE, "optimizer": optimizer, "random_state": 0}
    return kind(**{key: value for key, value in few.items() if key in inspect.signature(kind).parameters})


def _targets(name):
    return LABELS if name == "VariationalGPClassifier" else Y


@cache
def _fitted(name):
    return _made(name).fit(X, _targets(name))


def _batched(name, points=X, targets=None):
    labels = {"classes": [0, 1]} if name == "VariationalGPClassifier" else {}
    return _made(name, "adam").partial_fit(points, _targets(name) if targets is None else targets, **labels)


def _models(name, method):
    """Makers of models on which to call ``method``."""
    if method == "partial_fit":
        return (lambda: _made(name, "adam"), lambda: _batched(name))
    return (lambda: _made(name),) if "fit" in method else (lambda: _fitted(name),)


def _methods(name):
    for method, function in inspect.getmembers(getattr(fitting, name), inspect.isfunction):
        parameters = set(inspect.signature(function).parameters)
        taken = {"X", "y", "sample_weight"} & parameters
        if taken and not method.startswith(("_", "set_")):
            values = {"X": X, "y": _targets(name), "sample_weight": X[:, 0] + 1.0}
            yield method, {key: values[key] for key in taken}, {"classes": [0, 1]} if "classes" in parameters else {}


@pytest.mark.parametrize("name", ESTIMATORS)
def test_estimators_refuse_before_scikit_learn_converts(name):
    for method, given, labels in _methods(name):
        for make in _models(name, method):
            call = getattr(make(), method)
            for key in sorted(set(given) - {read for of, read in UNREAD if of == method}):
                for kind, bad in _bad(given[key]):
                    if key == "y" and name == "VariationalGPClassifier" and kind != "masked":
                        continue  # labels need not be numbers
                    changed = given | labels | {key: bad}
                    _refuses(lambda f=call, a=changed: f(**a), key, f"{method}, {kind}")


@pytest.mark.parametrize("name", ESTIMATORS)
def test_estimators_have_the_same_bits_from_other_arrays(name):
    targets = _targets(name)
    expected = _fitted(name).predict(X).tobytes()
    batched = _batched(name).predict(X).tobytes() if hasattr(getattr(fitting, name), "partial_fit") else None
    for kind, other in GOOD.items():
        points, labels = other(X), other(targets) if name != "VariationalGPClassifier" else targets.tolist()
        assert _made(name).fit(points, labels).predict(points).tobytes() == expected, kind
        if batched is not None:
            assert _batched(name, points, labels).predict(points).tobytes() == batched, kind


HELD = {"truth": MEANS, "mean": MEANS, "low": MEANS - 1.0, "high": MEANS + 1.0}
SURE = {"truth": np.array([0.0, 1.0, 1.0]), "probability": np.array([0.0, 1.0, 0.5])}
FIGURES = {
    "curve": (
        lambda ax, **given: plotting.plot_curves(ax, [plotting.Curve("", **given)]),
        {"M": SPREADS, "value": SPREADS},
    ),
    "band": (
        lambda ax, **given: plotting.plot_band(ax, plotting.Band("", color="k", **given)),
        {"M": SPREADS, "draws": COVARIANCE},
    ),
    "bracket": (
        lambda ax, **given: plot_bracket(ax, plotting.Bracket("", **given)),
        {"M": SPREADS, "elbo": MEANS, "lower": MEANS, "upper": SPREADS},
    ),
    "certificate": (
        lambda ax, **given: plotting.Predictions(**given).by_truth(),
        {"truth": MEANS, "mean": MEANS, "std": SPREADS, "half_width": SPREADS},
    ),
    "intervals": (lambda ax, **given: held_out.plot_intervals(ax, plotting.Intervals(**given), 0.9), HELD),
    "labels": (lambda ax, **given: held_out.plot_probabilities(ax, plotting.Probabilities(**given)), SURE),
    "reliability": (lambda ax, **given: held_out.plot_reliability(ax, plotting.Probabilities(**given)), SURE),
    "ranks": (held_out.plot_ranks, {"ranks": SURE["probability"]}),
    "scores": (
        lambda ax, scores: held_out.plot_scores(ax, scores, 2, 0.5, 0.4),
        {"scores": SURE["probability"]},
    ),
    "positive": (lambda ax, value: plotting.positive(value), {"value": SPREADS}),
}


@pytest.mark.parametrize("figure", FIGURES)
def test_figures_draw_no_other_numbers(figure):
    draw, given = FIGURES[figure]
    draw(MagicMock(), **given)
    for key, value in given.items():
        for kind, bad in _bad(value):
            _refuses(lambda a=given | {key: bad}: draw(MagicMock(), **a), key, kind)
