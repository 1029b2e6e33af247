"""Wrong calls of the public functions, one or two each, by public names and keywords."""

from __future__ import annotations

from typing import Any

import numpy as np
from data import covariance, line, triangle
from language import BITS, Cases, Seeded, call, empirical, gaussian, matern, se, then, uniform

from calls.renyi import flow, flow_model, instance_of, regressor, torch_model

refused = Cases("wrong", BITS)

L = line(12, 3)
NAN = np.array([[0.0], [np.nan], [1.0]])
ON = {"kernel": se(), "X": L.X, "y": L.y, "Z": L.Z, "noise": 0.1}
A = covariance(4)


def wrong(name: str, /, *attempts: dict[str, Any], base: dict[str, Any] | None = None) -> None:
    """Wrong calls of a function: ``base`` with some arguments wrong."""
    for i, attempt in enumerate(attempts):
        refused.add(f"{name} {i}", call(f"gpbounds.{name}", **{**(base or {}), **attempt}))


def wrong_on(label: str, of: Any, method: str, /, *attempts: dict[str, Any]) -> None:
    """Wrong calls of a method."""
    for i, attempt in enumerate(attempts):
        refused.add(f"{label} {i}", then(of, method, **attempt))


# laws, kernels, spectra, theorems
wrong("Gaussian", {"std": -1.0}, {"std": [1.0, 2.0], "dim": 3})
wrong("Uniform", {"low": 1.0, "high": 0.0}, {"low": [0.0, 1.0], "high": [1.0, 2.0, 3.0]})
wrong("Empirical", {"X": NAN}, {"X": []}, {"X": [["a"]]})
wrong("SquaredExponential", {"variance": 0.0}, {"lengthscale": [1.0, -1.0]}, {"lengthscale": "long"})
wrong("Matern", {"nu": 0.0}, {"nu": 1.5, "variance": np.inf})
wrong_on("kernel, of other dimensions", se(1.0, [1.0, 2.0]), "()", {"X1": L.X})
wrong_on("kernel, NaN", se(), "()", {"X1": NAN}, {"X1": L.X, "X2": NAN})
wrong_on("kernel, hyperparameters", se(), "with_log_parameters", {"values": [0.0]}, {"values": [0.0, 1e9]})
wrong_on("kernel, diagonal", se(), "diag", {"X": NAN})
law = call("gpbounds.spectrum", kernel=se(), inputs=gaussian())
wrong(
    "spectrum",
    {"kernel": 1, "inputs": gaussian()},
    {"kernel": se(), "inputs": 1},
    {"kernel": se(1.0, [1.0, 2.0]), "inputs": gaussian()},
)
wrong(
    "spectra.spectrum",
    {"kernel": call("gpbounds.kernels.Sum", k1=se(), k2=se()), "inputs": uniform()},
    {"kernel": matern(1.5), "inputs": gaussian(1.0, 4)},
)
wrong_on("spectrum, tail", law, "tail", {"M": -1}, {"M": 1.5})
wrong_on("spectrum, eigenvalues", law, "eigenvalues", {"count": -1})
base = {"kernel": se(), "N": 1000, "M": 10, "alpha": 1.0}
wrong(
    "rate",
    {"M": 1000},
    {"alpha": 0.0},
    {"delta": 1.0},
    {"noise": -1.0},
    {"form": "best"},
    {"tv": 2.0},
    {"direction": "p||q"},
    {"y_norm2": -1.0},
    {"tv": None},
    {"inputs": empirical(L.X)},
    base=base,
)
base = {"kernel": se(), "N": 1000, "alpha": 1.0, "target": 0.1}
wrong("inducing_points", {"target": 0.0}, {"N": 1}, {"alpha": [0.5, 1.0]}, {"kernel": "se"}, base=base)

# renyi
without = {key: ON[key] for key in ("kernel", "X", "Z", "noise")}
wrong(
    "renyi.elbo",
    {"alpha": 5.0},
    {"noise": 0.0},
    {"y": L.y[:3]},
    {"Z": NAN},
    {"Z": [[0.0], [0.0]]},
    base={**ON, "alpha": 0.5},
)
wrong(
    "renyi.evidence",
    {"alphas": 2.0},
    {"members": "most"},
    {"members": ["guess"]},
    {"X": NAN},
    {"block": 0},
    {"noise": 1e-300},
    base=ON,
)
wrong("renyi.exact_gap", {"alpha": 7.0}, {"noise": -0.1}, base={**ON, "alpha": 0.5})
wrong("renyi.expected_gap", {"alpha": 7.0}, {"X": NAN}, base={**without, "alpha": 0.5})
wrong("renyi.expected_gap_bounds", {"alpha": -1.0}, {"form": "best"}, base={**without, "alpha": 0.5})
wrong("renyi.gap_variance", {"alpha": 7.0}, base={**without, "alpha": 0.5})
wrong(
    "renyi.gap",
    {"alpha": 0.0},
    {"method": "fast"},
    {"form": "best"},
    {"form": "printed", "method": "streamed"},
    {"y": "y"},
    base={**ON, "alpha": 0.5},
)
wrong("renyi.gap_from_trace", {"alpha": 2.0}, {"y": L.y[:2]}, base={**ON, "alpha": 0.5})
wrong("renyi.direction_factor", {"alpha": 1.0}, {"alpha": 0.0})
wrong("renyi.inducing_posterior", {"alpha": 9.0}, {"noise": 0.0}, base={**ON, "alpha": 0.5})
wrong("renyi.predict", {"X_new": np.zeros((2, 2))}, {"alpha": 9.0}, base={**ON, "X_new": L.new, "alpha": 0.5})
wrong(
    "renyi.log_evidence",
    {"kernel": se(), "X": L.X, "y": L.y, "noise": 0.0},
    {"kernel": se(), "X": [0.0, 0.0], "y": [1.0, 2.0], "noise": 1e-20},
)
wrong(
    "renyi.minimum_gap",
    {"eigenvalues": [-1.0, 1.0]},
    {"y": "some"},
    {"M": -1},
    base={"eigenvalues": [1.0], "M": 0, "noise": 0.1, "alpha": 1.0},
)
wrong(
    "renyi.needed",
    {"target": 0.0},
    {"landmarks": 0},
    base={"kernel": se(), "X": L.X, "noise": 0.1, "alpha": 1.0, "target": 1.0},
)
wrong(
    "renyi.needed_from_eigenvalues",
    {"target": -1.0},
    {"alpha": 2.0},
    base={"eigenvalues_lower": [1.0], "noise": 0.1, "alpha": 1.0, "target": 1.0},
)
wrong(
    "renyi.nystrom",
    {"kernel": se(), "X": L.X, "Z": [[0.0], [0.0]]},
    {"kernel": se(), "X": L.X, "Z": L.Z, "jitter": -1.0},
)
wrong(
    "renyi.oracle_risk_bound",
    {"alpha": 1.0},
    {"delta": 0.0},
    {"N": 0},
    base={"log_true": 0.0, "log_model": -1.0, "N": 9, "alpha": 0.5, "delta": 0.1},
)
wrong(
    "renyi.pac_risk_bound",
    {"prior": [0.5, 0.6]},
    {"prior": [1.0, 0.0], "posterior": [0.0, 1.0]},
    base={"log_true": 0.0, "log_models": [-1.0, -2.0], "N": 9, "alpha": 0.5, "delta": 0.1},
)
wrong("renyi.from_gpflow", {"model": flow_model(flow("Cosine", 1.0, 1.0))}, {"model": object()})
wrong("renyi.from_gpytorch", {"model": torch_model(instance_of("PeriodicKernel"))}, {"model": object()})
wrong("renyi.from_sklearn", {"model": regressor(None, normalize_y=True)}, {"model": object()})

# kdpp
for name in (
    "expected_trace",
    "log_esp",
    "expected_esp",
    "log_expected_determinant",
    "annealed_trace",
    "expected_logdet_bound",
):
    more = {
        "log_esp": {"k_max": 2},
        "expected_esp": {"M": 1, "j": 1},
        "log_expected_determinant": {"M": 1, "c": 1.0},
        "annealed_trace": {"N": 9, "M": 1},
        "expected_logdet_bound": {"M": 1, "noise": 0.1, "alpha": 1.0},
    }
    size = {"k_max": -1} if name == "log_esp" else {"M": 3}
    wrong(
        f"kdpp.{name}", {"eigenvalues": [-1.0, 1.0]}, size, base={"eigenvalues": [2.0, 1.0], **more.get(name, {"M": 1})}
    )
refused.add(
    "kdpp.log_expected_determinant, c",
    call("gpbounds.kdpp.log_expected_determinant", eigenvalues=[2.0, 1.0], M=1, c=-1.0),
)
wrong("kdpp.nystrom_tv", {"eigenvalues": [1.0], "trace": -1.0, "M": 1}, {"eigenvalues": [1.0], "trace": 0.1, "M": 0})
wrong(
    "kdpp.rounding_tv",
    {"eigenvalues": [1.0], "rounding": -1.0, "M": 1},
    {"eigenvalues": [[1.0]], "rounding": 0.1, "M": 1},
)
wrong(
    "kdpp.trace_bound",
    {"tails": [1.0, 2.0], "M": 1},
    {"tails": [2.0, 1.0], "M": 5},
    {"tails": [2.0, 1.0], "M": 1, "form": "best"},
)
wrong("kdpp.tv_term", {"N": 10, "M": 11, "variance": 1.0, "tv": 0.1}, {"N": 10, "M": 1, "variance": 1.0, "tv": 1.1})
wrong("kdpp.greedy", {"K": A, "M": 5}, {"K": np.ones((3, 3)), "M": 2}, {"K": np.ones((3, 2)), "M": 1})
wrong(
    "kdpp.residual_trace",
    {"K": A, "indices": [9]},
    {"K": A, "indices": [1, 1]},
    {"K": np.ones((3, 3)), "indices": [0, 1]},
)
wrong("kdpp.sample", {"K": A, "M": 5, "rng": 0}, {"K": -A, "M": 1, "rng": 0}, {"K": A, "M": 1.5, "rng": 0})
wrong(
    "kdpp.sample_eigen",
    {"eigenvalues": [1.0], "eigenvectors": np.eye(2), "M": 1, "rng": 0},
    {"eigenvalues": [1.0, 2.0], "eigenvectors": np.ones((2, 2)), "M": 2, "rng": 0},
)
wrong("kdpp.sample_factor", {"V": np.ones((3, 2)), "M": 2, "rng": 0}, {"V": NAN, "M": 1, "rng": 0})
wrong(
    "kdpp.sample_kernel",
    {"M": 13},
    {"method": "fast"},
    {"method": "mcmc", "tv": 0.0},
    base={"kernel": se(1.0, 0.1), "X": L.X, "M": 3, "rng": 0},
)
wrong(
    "kdpp.ridge_leverage",
    {"ridge": 0.0},
    {"landmarks": [0, 0]},
    {"landmarks": [99]},
    base={"kernel": se(), "X": L.X, "ridge": 0.1},
)
wrong(
    "kdpp.select",
    {"M": 13},
    {"method": "best"},
    {"method": "uniform"},
    {"method": "kmeans", "rng": 0, "trace": 1.0},
    {"ridge": 0.1},
    {"method": "kdpp", "rng": 0, "rank": 1},
    base={"kernel": se(1.0, 0.3), "X": L.X, "M": 3},
)

# lowrank
for name in ("kl", "least_gamma"):
    wrong(
        f"lowrank.{name}",
        {"K": np.triu(A)},
        {"noise": 0.0},
        {"K": -5.0 * A},
        {"K": A[:2]},
        base={"K": A, "Sigma": A, "noise": 0.1},
    )
wrong(
    "lowrank.kl_features",
    {"features": np.ones((3, 1))},
    {"features": np.full((4, 1), np.nan)},
    base={"K": A, "noise": 0.1},
)
wrong(
    "lowrank.kl_by_rank", {"ranks": 5}, {"scales": -1.0}, base={"K": A, "features": np.eye(4), "noise": 0.1, "ranks": 2}
)
wrong(
    "lowrank.kl_from_excess",
    {"excess": -5.0},
    {"form": "best"},
    {"gamma": -1.0},
    base={"excess": 1.0, "N": 3, "gamma": 0.1},
)
wrong(
    "lowrank.kl_from_traces",
    {"trace1": -1.0},
    {"trace2": 1e9},
    base={"trace1": 1.0, "trace2": 1.0, "N": 3, "noise": 0.1, "gamma": 0.1},
)
wrong("lowrank.kl_from_ratio", {"gamma": -0.1, "N": 3}, {"gamma": 0.1, "N": 0})
wrong(
    "lowrank.kl_from_residual", {"residual": -0.1, "noise": 1.0}, {"residual": 0.1, "noise": 1.0, "form": "corrected"}
)
wrong("lowrank.spectral_kl", {"Delta": 1.0, "N": 3}, {"Delta": 0.6, "N": 3, "form": "printed"})
wrong("lowrank.kappa", {"delta": 1.0}, {"delta": -0.1})
wrong("lowrank.kappa_inverse", {"eps": -1.0}, {"eps": np.nan})
wrong("lowrank.optimal_kl", {"eigenvalues": [-1.0], "noise": 0.1}, {"eigenvalues": -A, "noise": 0.1})
wrong(
    "lowrank.optimal_rank",
    {"eigenvalues": [1.0], "noise": 0.1, "target": 0.0},
    {"eigenvalues": [np.nan], "noise": 0.1, "target": 1.0},
)
wrong("lowrank.residual_certificate", {"residual": [-1.0], "noise": 0.1}, {"residual": [1.0], "noise": 0.0})
wrong(
    "lowrank.FourierFeatures",
    {"kernel": se(), "rank": 3, "random_state": 0},
    {"kernel": 1, "rank": 2, "random_state": 0},
)
fourier = call("gpbounds.lowrank.FourierFeatures", kernel=se(), rank=4, random_state=0)
wrong_on("FourierFeatures, before fit", fourier, "()", {"X": L.X})
wrong_on("FourierFeatures, after fit", then(fourier, "fit", X=L.X), "()", {"X": np.ones((2, 2))}, {"X": NAN})
options = {"kernel": se(), "rank": 4, "noise": 0.1, "N": 100, "width": 1.0, "random_state": 0}
wrong("lowrank.LeverageFourierFeatures", {"kernel": matern(1.5)}, {"width": -1.0}, base=options)
wrong_on(
    "LeverageFourierFeatures, too wide", call("gpbounds.lowrank.LeverageFourierFeatures", **options), "fit", {"X": L.X}
)
options = {"kernel": se(), "inputs": gaussian(), "rank": 4}
wrong("lowrank.MercerFeatures", {"inputs": uniform()}, {"rank": 0}, {"order": "any"}, base=options)
wrong_on(
    "MercerFeatures, before fit", call("gpbounds.lowrank.MercerFeatures", **options), "residual_diagonal", {"X": L.X}
)
wrong(
    "lowrank.leverage_bound",
    {"eta": [[0.0]], "widths": [1.0, 2.0], "ratio": 10.0},
    {"eta": [[0.0]], "widths": [1.0], "ratio": -1.0},
)
wrong("lowrank.leverage_density", {"widths": [0.0], "ratio": 10.0}, {"widths": [1.0], "ratio": 1e200})
options = {"kernel": se(), "N": 100, "noise": 0.1, "width": 1.0}
wrong(
    "lowrank.fourier_kl",
    {"m": 0},
    {"m": 5, "features": "best"},
    {"m": 5, "width": None},
    {"m": 5, "delta": 0.0},
    base=options,
)
wrong(
    "lowrank.fourier_rank",
    {"eps": 0.0},
    {"eps": 0.1, "method": "best"},
    {"eps": 0.7, "method": "printed"},
    base=options,
)
options = {"kernel": se(), "inputs": gaussian(), "N": 100, "noise": 0.1}
wrong("lowrank.mercer_kl", {"r": -1}, {"r": 1, "inputs": empirical(L.X)}, {"r": 1, "delta": 2.0}, base=options)
wrong("lowrank.mercer_rank", {"eps": 0.0}, {"eps": [0.1, 0.2]}, base=options)

# sandwich
wrong("sandwich.roots", {"gamma": -1.0}, {"gamma": "one"}, {"gamma": np.nan})
wrong("sandwich.explicit", {"gamma": -1.0}, {"gamma": 1.0, "form": "best"})
lower = call("gpbounds.Bound", value=0.1, side="lower", confidence=0.9, claim="L-43")
wrong("sandwich.sandwich", {"kl": lower}, {"kl": 0.1, "mahalanobis": 9.0}, {"kl": -1.0})
wrong(
    "sandwich.predictive",
    {"joint": 0.1, "eta": 1.0},
    {"joint": lower, "eta": 0.1},
    {"joint": 0.1, "eta": 0.1, "train": 0.2},
    {"joint": 0.1, "eta": 0.1, "test_inputs": "new"},
)

# pacbayes
wrong("pacbayes.kl", {"q": 1.1, "p": 0.5}, {"q": 0.1, "p": "half"})
wrong(
    "pacbayes.kl_inverse",
    {"q": -0.1, "divergence": 0.1},
    {"q": 0.1, "divergence": -0.1},
    {"q": 0.1, "divergence": 0.1, "side": "left"},
)
wrong("pacbayes.xi", {"N": 0}, {"N": 2.5})
wrong("pacbayes.grid_penalty", {"points": 0, "hyperparameters": 1}, {"points": 3, "hyperparameters": 1.5})
wrong("pacbayes.log_penalty", {"N": 9, "delta": 0.0}, {"N": 9, "delta": 0.1, "log_prior_penalty": -1.0})
wrong("pacbayes.mixture_kl", {"kl": [-1.0], "log_prior_penalty": 0.0}, {"kl": [1.0, 2.0], "log_prior_penalty": 0.0})
base = {"risk": 0.1, "kl": 5.0, "N": 100, "delta": 0.05}
wrong("pacbayes.bound", {"risk": 1.5}, {"kl": -1.0}, {"form": "best"}, {"side": "left"}, {"N": 0}, base=base)
wrong("pacbayes.batch_bound", {"batch": 0}, {"batch_delta": 0.0}, base={**base, "batch": 10, "batch_delta": 0.01})
wrong(
    "pacbayes.batch_risk_bound",
    {"risk": 2.0, "batch": 10, "delta": 0.1},
    {"risk": 0.2, "batch": 10, "delta": 0.1, "form": "best"},
)
wrong("pacbayes.bayes_factor", {"epsilon": 0.0, "std": 1.0}, {"epsilon": 1.0, "std": -1.0})
wrong("pacbayes.bayes_risk_bound", {"gibbs": lower}, {"gibbs": 0.1, "epsilon": 0.5})
wrong("pacbayes.HyperGrid", {"low": 1.0, "high": 0.0}, {"steps": 1.5}, {"names": ("a", "a")})
grid = then(call("gpbounds.pacbayes.HyperGrid"), "shared", low=-3.0, high=3.0, steps=12)
wrong_on("grid, at", grid, "at", {"indices": [0, 13]}, {"indices": [0]})
wrong_on("grid, round", grid, "round", {"theta": {"variance": 1.0}}, {"theta": [1.0, -1.0]})
wrong_on("grid, locate", grid, "locate", {"theta": [1.0, 0.9]})
wrong(
    "pacbayes.Scaling",
    {"origin": "my head"},
    {"shift": 1.0},
    {"origin": "charged", "shift": 1.0, "scale": 0.0, "count": 2},
)
wrong("pacbayes.Charge", {"choice": "", "count": 2}, {"choice": "kernels", "count": 0})
wrong("pacbayes.Exact", {"noise": 0.0}, {"noise": [1.0, 2.0]})
wrong("pacbayes.Sparse", {"Z": L.Z, "noise": 0.1, "power": 2.0}, {"Z": NAN, "noise": 0.1})
wrong("pacbayes.Free", {"Z": L.Z, "mean": [0.0], "cov": np.eye(3)}, {"Z": L.Z, "mean": np.zeros(3), "cov": np.eye(2)})
wrong(
    "pacbayes.Whitened",
    {"Z": L.Z, "mean": np.zeros(3), "factor": np.ones((3, 3))},
    {"Z": L.Z, "mean": np.zeros(2), "factor": np.eye(3)},
)
exact, band = call("gpbounds.pacbayes.Exact", noise=0.1), call("gpbounds.losses.Band", epsilon=0.5)
base = {"X": L.X, "y": L.y, "kernel": se(), "grid": grid, "loss": band, "delta": 0.05}
same = call("gpbounds.pacbayes.Scaling", origin="same data", shift=0.1)
wrong(
    "pacbayes.Certificate.issue",
    {"kernel": se(1.1, 1.0)},
    {"delta": 1.0},
    {"outputs": same},
    {"loss": "band"},
    {"charges": ["two"]},
    base={**base, "posterior": exact},
)
wrong("pacbayes.Certificate.load", {"path": "no such file.json"})
wrong_on(
    "Certificate, check",
    call("gpbounds.pacbayes.Certificate.issue", **base, posterior=exact),
    "check",
    {"X": NAN, "y": L.y},
    {"X": [["a"]], "y": L.y},
)
wrong(
    "pacbayes.issue_certificate",
    {"rebuild": lambda kernel, X, y: None},
    {"kernel": se(1.0, [1.0, 2.0]), "rebuild": lambda kernel, X, y: None},
    base=base,
)

# losses, likelihoods, montecarlo
for name in ("Band", "Squared", "Exponential", "Relative"):
    wrong(f"losses.{name}", {"epsilon": 0.0}, {"epsilon": [1.0, 2.0]})
wrong("losses.Interval", {"low": 1.0, "high": 0.0}, {"low": -np.inf, "high": 0.0})
wrong("losses.from_dict", {"record": {"name": "zero"}}, {"record": {"name": "band", "width": 1.0}})
wrong(
    "losses.outside_probability",
    {"low": 1.0, "high": 0.0, "m": 0.0, "v": 1.0},
    {"low": 0.0, "high": 1.0, "m": np.nan, "v": 1.0},
)
wrong_on(
    "loss, expectation",
    band,
    "expectation",
    {"y": 0.0, "m": 0.0, "v": -1.0},
    {"y": [0.0, 1.0], "m": [0.0, 1.0, 2.0], "v": 1.0},
)
wrong_on("loss, gradient", band, "expectation", {"y": np.nan, "m": 0.0, "v": 1.0, "gradient": True})
wrong_on("loss, value", call("gpbounds.losses.Relative"), "value", {"y": 0.0, "f": 1.0})
wrong_on("loss, allowance", band, "allowance", {"y": 0.0, "m": 0.0, "v": 1.0, "mean_error": -1.0})
wrong("likelihoods.Gaussian", {"noise": 0.0}, {"noise": "small"})
wrong("likelihoods.Bernoulli", {"link": "exp"})
wrong("likelihoods.Poisson", {"link": "probit"})
wrong("likelihoods.StudentT", {"df": 0.0, "scale": 1.0}, {"df": 1.0, "scale": -1.0})
wrong("likelihoods.from_dict", {"record": {"name": "gamma"}}, {"record": {"name": "poisson", "rate": 1.0}})
probit, poisson = call("gpbounds.likelihoods.Bernoulli"), call("gpbounds.likelihoods.Poisson")
student = call("gpbounds.likelihoods.StudentT", df=4.0, scale=1.0)
for method in ("density", "log_density", "derivatives", "density_derivatives"):
    wrong_on(f"likelihood, {method}", probit, method, {"y": 2, "f": 0.0}, {"y": [0, -1], "f": 0.0})
wrong_on("likelihood, derivative_range", poisson, "derivative_range", {"y": -1}, {"y": 1, "form": "best"})
for method in ("expected_log_density", "log_expected_density"):
    wrong_on(f"likelihood, {method}", poisson, method, {"y": 1.5, "m": 0.0, "v": 1.0}, {"y": 1, "m": 0.0, "v": -1.0})
at = {"likelihood": probit, "y": 1, "m": 0.5, "v": 1.0}
for name in ("bias", "expected_objective"):
    wrong(f"montecarlo.{name}", {"L": 0}, {"L": 2, "method": "best"}, {"L": 2, "v": -1.0}, base=at)
wrong("montecarlo.expected_gradients", {"L": 2, "v": 0.0}, {"L": 0}, base=at)
wrong("montecarlo.exact_gradient", {"v": -1.0}, {"likelihood": "probit"}, base=at)
wrong(
    "montecarlo.cover",
    {"proposal": "best", "n": 2.0},
    {"n": 0.5, "proposal": "widened"},
    {"likelihood": student, "proposal": "shifted"},
    base=at,
)
wrong("montecarlo.sample_product", {"size": -1}, {"v": 0.0}, base={**at, "size": 2, "rng": Seeded(0)})
wrong("montecarlo.sampled_gradient", {"L": 0}, {"estimator": "best"}, base={**at, "L": 2, "rng": Seeded(0)})
options = {"likelihood": probit, "y": 1, "n": 10, "delta": 0.05, "step": 0.1, "iteration": 1}
wrong(
    "montecarlo.sample_size",
    {},
    {"zeta": 2.0},
    {"zeta": 0.1, "rule": "printed"},
    {"zeta": 0.1, "delta": 1.0},
    base=options,
)
wrong("montecarlo.failure_share", {"delta": 1.0, "iteration": 1}, {"delta": 0.1, "iteration": 0})
wrong(
    "montecarlo.lemma6",
    {"low": 0.0, "high": 1.0, "mean": 0.0, "relative_error": 0.1, "delta": 0.1},
    {"low": 0.0, "high": 1.0, "mean": 2.0, "relative_error": 0.1, "delta": 0.1},
)
wrong("montecarlo.product_gradient", {"draws": [], "m": 0.0, "v": 1.0}, {"draws": [1.0], "m": 0.0, "v": 0.0})

# divergences, psd, whitening
laws = {"mean1": np.zeros(4), "cov1": A, "mean2": np.zeros(4), "cov2": A}
wrong("divergences.gaussian_kl", {"cov1": -A}, {"mean1": [0.0]}, {"cov2": np.triu(A)}, base=laws)
wrong("divergences.gaussian_renyi", {"alpha": np.nan}, {"alpha": 0.5, "cov1": np.zeros((4, 4))}, base=laws)
wrong(
    "divergences.posterior_kl",
    {"noise": 0.0},
    {"method": "lu"},
    {"K": -A},
    base={"K": A, "y_minus_mean": np.ones(4), "noise": 0.1},
)
wrong(
    "divergences.sparse_kl", {"covariance": -A}, {"mean": [0.0]}, base={"Kuu": A, "mean": np.zeros(4), "covariance": A}
)
wrong("divergences.whitened_kl", {"mean": [0.0], "factor": [[-1.0]]}, {"mean": [0.0, 1.0], "factor": [[1.0]]})
wrong(
    "divergences.full_posterior",
    {"noise": 0.0},
    {"y": L.y[:2]},
    {"X": NAN},
    base={key: ON[key] for key in ("kernel", "X", "y", "noise")},
)
wrong(
    "divergences.collapsed_posterior",
    {"power": 2.0},
    {"Z": [[0.0], [0.0]], "jitter": 0.0},
    {"prior_mean": lambda points: 0.0},
    base={**ON, "power": 0.5},
)
wrong(
    "divergences.free_posterior",
    {"kernel": se(), "Z": [[0.0]], "mean": [0.0], "covariance": [[-1.0]]},
    {"kernel": se(), "Z": [[0.0]], "mean": [0.0, 1.0], "covariance": [[1.0]]},
)
wrong(
    "divergences.whitened_posterior",
    {"kernel": se(), "Z": [[0.0]], "mean": [0.0], "factor": [[0.0]]},
    {"kernel": se(), "Z": [[0.0], [0.0]], "mean": [0.0, 0.0], "factor": np.eye(2), "jitter": 0.0},
)
wrong_on(
    "posterior, predict",
    call("gpbounds.divergences.whitened_posterior", kernel=se(), Z=L.Z, mean=np.zeros(3), factor=triangle(3)),
    "predict",
    {"X": NAN},
    {"X": np.ones((2, 2))},
)
wrong("psd.cholesky", {"A": -A}, {"A": A, "jitter": -1.0}, {"A": A, "jitter": "auto", "overwrite": True})
wrong("psd.eigen", {"A": -A}, {"A": np.full((2, 2), np.nan)})
wrong(
    "whitening.whiten",
    {"Z": [[0.0], [0.0]]},
    {"X": NAN},
    {"y": L.y[:3]},
    {"chunk": 0},
    base={"kernel": se(), "X": L.X, "Z": L.Z},
)
wrong("whitening.as_targets", {"y": L.y[:3], "X": L.X}, {"y": NAN, "X": L.X[:3]})
wrong(
    "whitening.residual_diagonal",
    {"diagonal": np.ones(2), "V": np.full((1, 2), 1.1)},
    {"diagonal": np.ones(1), "V": np.full((1, 1), np.nan)},
)
wrong("whitening.inducing", {"kernel": se(), "Z": NAN}, {"kernel": se(), "Z": [[0.0], [0.0]]})
wrong("claims.find", {"id": "R-lem33"}, {"id": 7})

# fitting
wrong_fit = {"X": L.X, "y": L.y}


def fitting(name: str, /, *attempts: dict[str, Any], base: dict[str, Any] | None = None) -> None:
    for i, attempt in enumerate(attempts):
        refused.add(f"fitting.{name} {i}", call(f"fitting.{name}", **{**(base or {}), **attempt}))


fitting(
    "objective",
    {"method": "best"},
    {"method": "pep", "power": 2.0},
    {"method": "pic"},
    {"X": NAN},
    {"power": 0.5},
    {"method": "renyi", "alpha": 2.0},
    {"chunk": 0},
    base=wrong_fit,
)
fitting("member", {"method": "best"}, {"method": "renyi"}, {"method": "vfe", "power": 0.5})
fitting(
    "packing",
    {"fixed": ["width"]},
    {"limits": {"noise": (1.0, 2.0)}},
    {"noise": 0.0},
    {"scale": -1.0},
    base={"kernel": se(), "noise": 0.1, "Z": L.Z},
)
F = call("fitting.objective", **wrong_fit)
at = {"kernel": se(), "noise": 0.1, "Z": L.Z}
wrong_on(
    "evaluate", F, "evaluate", {**at, "noise": 0.0}, {**at, "Z": None}, {**at, "Z": np.ones((2, 2))}, {**at, "Z": NAN}
)
strict = call("fitting.objective", **wrong_fit, jitter=0.0)
wrong_on("evaluate, no jitter", strict, "evaluate", {**at, "Z": [[0.0], [0.0]]})
wrong_on("posterior", F, "posterior", {**at, "noise": -1.0}, {**at, "Z": None})
wrong_on(
    "posterior, predict by block", then(F, "posterior", **at), "predict", {"X": L.new, "blocks": [0] * 5}, {"X": NAN}
)
pic = then(call("fitting.objective", **wrong_fit, method="pic", blocks=4), "posterior", **at)
wrong_on("posterior of pic, predict", pic, "predict", {"X": L.new}, {"X": L.new, "blocks": [0]})
base = {**wrong_fit, "loss": band, "delta": 0.05}
fitting(
    "bounds.risk_bound", {"method": "pic"}, {"delta": 0.0}, {"objective": "best"}, {"y": np.ones((12, 2))}, base=base
)
fitting("bounds.free_bound", {"delta": 2.0}, {"objective": "best"}, base=base)
fitting("bounds.Target", {"N": 0}, {"objective": "best"}, base={"loss": band, "N": 9, "delta": 0.1})
free = call("fitting.bounds.free_bound", **base)
free_at = {"kernel": se(), "Z": L.Z, "mean": np.zeros(3), "factor": np.eye(3)}
wrong_on("free_bound, evaluate", free, "evaluate", {**free_at, "factor": -np.eye(3)}, {**free_at, "mean": np.zeros(2)})
wrong_on("free_bound, start", free, "start", {"kernel": se(), "noise": 0.0, "Z": L.Z})
wrong_on("free_bound, packing", free, "packing", {**free_at, "fixed": ("width",)})
wrong_on(
    "risk_bound, evaluate",
    call("fitting.bounds.risk_bound", **base),
    "evaluate",
    {**at, "noise": 0.0},
    {**at, "Z": None},
)
fitting("load", {"path": "no such file.npz"})
ESTIMATORS: dict[str, list[dict[str, Any]]] = {
    "ExactGP": [{"optimizer": "newton"}, {"batch_size": 5}, {"fixed": ("width",)}, {"device": "tpu"}],
    "RenyiGP": [{"alpha": 2.0}, {"n_inducing": 0}, {"inducing": "best"}],
    "SparseGP": [{"method": "best"}, {"power": 0.5}, {"n_inducing": 0}],
    "PACGP": [
        {"epsilon": 0.0},
        {"delta": 1.0},
        {"loss": "hinge"},
        {"limits": {"variance": (1.0, 2.0)}},
        {"scaling": "mine"},
    ],
    "SparsePACGP": [{"form": "best"}, {"power": 0.5}, {"batch_size": 5, "optimizer": "adam"}],
}
for name, attempts in ESTIMATORS.items():
    for i, attempt in enumerate(attempts):
        refused.add(f"{name} {i}", then(call(f"fitting.{name}", **attempt), "fit", X=L.X, y=L.y))
    refused.add(f"{name}, NaN", then(call(f"fitting.{name}"), "fit", X=NAN, y=L.y[:3]))
    refused.add(f"{name}, shapes", then(call(f"fitting.{name}"), "fit", X=L.X, y=L.y[:3]))
    refused.add(f"{name}, not fitted", then(call(f"fitting.{name}"), "predict", X=L.X))
kept = then(call("fitting.ExactGP", kernel=se(), noise=0.1, optimizer=None), "fit", X=L.X, y=L.y)
wrong_on(
    "predict", kept, "predict", {"X": L.new, "return_std": True, "return_cov": True}, {"X": np.ones((2, 2))}, {"X": NAN}
)
wrong_on("sample_y", kept, "sample_y", {"X": L.new, "n_samples": 0})
wrong_on("log_evidence_bounds", kept, "log_evidence_bounds", {"members": "most"})
fitting(
    "certify",
    {"model": call("fitting.ExactGP")},
    {"model": kept, "y": L.y[:3]},
    {"model": kept, "epsilon": -1.0},
    {"model": kept, "delta": 1.0},
    {"model": kept, "loss": "hinge"},
    base={**wrong_fit, "epsilon": 0.5},
)
pic_model = then(
    call("fitting.SparseGP", method="pic", block_size=6, kernel=se(), noise=0.1, n_inducing=3, optimizer=None),
    "fit",
    X=L.X,
    y=L.y,
)
refused.add("fitting.certify, pic", call("fitting.certify", **wrong_fit, model=pic_model))
normalised = then(
    call("fitting.ExactGP", kernel=se(), noise=0.1, optimizer=None, normalize_y=True), "fit", X=L.X, y=L.y
)
refused.add("fitting.certify, normalised", call("fitting.certify", **wrong_fit, model=normalised))

# plotting
wrong("plotting.bound_curves", {"curves": [], "title": "t", "ylabel": "y"})
wrong("whitening.slices", {"N": 5, "chunk": 0})
