"""Choosing inducing points: expectations over the k-DPP, samplers, `select`; low-rank approximations."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from words import spelled

from gpbounds import Gaussian, Uniform, kdpp, kernels, lowrank

from .data import rows

FORMS = ("sharpest", "printed")
METHODS = ("greedy", "kdpp", "best", "rpcholesky", "leverage", "kmeans", "uniform")
VALUES = np.array([3.0, 2.0, 1.0, 0.25, 1e-3, 1e-9, 0.0])
MANY = 2.0 ** -np.arange(40.0)


def calls() -> dict[str, Callable[[], Any]]:
    """All calls of kdpp and lowrank."""
    found: dict[str, Callable[[], Any]] = {}
    for word in ("float", "sharp"):
        found |= {f"kdpp/{name}/{word}": call for name, call in _expected(word).items()}
    found |= {f"kdpp/{name}": call for name, call in (_samplers() | _selections() | _kdpp_rest()).items()}
    return found | {f"lowrank/{name}": call for name, call in (_lowrank() | _features()).items()}


def _expected(word: str) -> dict[str, Callable[[], Any]]:
    ask = partial(partial, spelled, rigor=word)
    return {
        "expected_trace": ask(kdpp.expected_trace, VALUES, [0, 1, 3, 5]),
        "expected_trace, many": ask(kdpp.expected_trace, MANY, [1, 10, 30]),
        "expected_esp": ask(kdpp.expected_esp, VALUES, 2, [1, 2, 3]),
        "expected_logdet_bound": lambda: [
            spelled(kdpp.expected_logdet_bound, VALUES, [1, 3], 0.5, form, noise=0.1, rigor=word) for form in FORMS
        ],
        "log_expected_determinant": ask(kdpp.log_expected_determinant, VALUES, 2, [0.5, 10.0]),
        "annealed_trace": ask(kdpp.annealed_trace, VALUES / 6.251, [10, 100], 3),
        "expected_residual": lambda: _residual(spelled(kdpp.expected_residual, VALUES, 3, noise=0.1, rigor=word)),
        "expected_residual, many": lambda: _residual(spelled(kdpp.expected_residual, MANY, 9, rigor=word)),
        "nystrom_tv": ask(kdpp.nystrom_tv, VALUES, 0.1, 2),
        "rounding_tv": ask(kdpp.rounding_tv, VALUES, 1e-12, 2),
        "trace_bound": lambda: [spelled(kdpp.trace_bound, [6.0, 3.0, 1.0, 0.0], 2, form, rigor=word) for form in FORMS],
    }


def _residual(found: Any) -> Any:
    return {name: getattr(found, name) for name in ("M", "miss", "rho", "trace")}


def _samplers() -> dict[str, Callable[[], Any]]:
    X, _ = rows(30)
    kernel = kernels.SquaredExponential(1.0, 0.4)
    K = kernel(X) + 1e-9 * np.eye(30)
    values, vectors = np.linalg.eigh(K)
    return {
        "sample": lambda: [kdpp.sample(K, 6, seed) for seed in range(4)],
        "sample_eigen": lambda: [kdpp.sample_eigen(values.clip(0.0), vectors, 6, seed) for seed in range(4)],
        "sample_factor": lambda: [kdpp.sample_factor(np.linalg.cholesky(K), 6, seed) for seed in range(4)],
        **{
            f"sample_kernel/{method}": partial(kdpp.sample_kernel, kernel, X, 5, 0, method)
            for method in ("exact", "mcmc", "other")
        },
        "rpcholesky": lambda: [
            (drawn.indices, drawn.traces) for seed in range(3) for drawn in [kdpp.rpcholesky(kernel, X, 6, seed)]
        ],
        "greedy": partial(kdpp.greedy, K, 8),
        "refused": partial(kdpp.sample, K, 31, 0),
    }


def _selections() -> dict[str, Callable[[], Any]]:
    (X, y), found = rows(60), {}
    table = {
        "se": kernels.SquaredExponential(1.0, 0.4),
        "matern": kernels.Matern(1.5, 1.0, 0.5),
        "sum": kernels.SquaredExponential(1.0, 0.4) + kernels.Linear(0.3),
    }
    for name, kernel in table.items():
        for method in METHODS:
            found[f"select/{name}/{method}"] = partial(_selected, kernel, X, y, method)
    se = table["se"]
    found["select/trace"] = lambda: _selection(kdpp.select(se, X, 40, trace=0.2))
    found["select/certain"] = lambda: _selection(
        kdpp.select(se, X, 8, "best", 0, draws="certain", y=y, noise=0.1, alpha=0.5)
    )
    found["select/refused"] = partial(kdpp.select, se, X, 5, "other")
    found["select/best, alone"] = partial(kdpp.select, se, X, 5, "best", 0)
    found["select/refused M"] = partial(kdpp.select, se, X, 61)
    return found


def _selected(kernel: Any, X: np.ndarray, y: np.ndarray, method: str) -> Any:
    options: dict[str, Any] = {"draws": 4, "y": y, "noise": 0.1} if method == "best" else {}
    options |= {"ridge": 0.1} if method == "leverage" else {}
    return _selection(kdpp.select(kernel, X, 8, method, None if method == "greedy" else 0, **options))


def _selection(found: Any) -> Any:
    names = ("indices", "Z", "trace", "log_det", "law", "traces", "tv", "ridge", "jitter", "objective", "bound")
    return {name: getattr(found, name) for name in names}


def _kdpp_rest() -> dict[str, Callable[[], Any]]:
    X, _ = rows(30)
    kernel = kernels.SquaredExponential(1.0, 0.4)
    return {
        "log_esp": partial(kdpp.log_esp, MANY, 12),
        "loewner": partial(kdpp.loewner, kernel(X), 0.5, np.sin(X[:, 0])),
        "residual_trace": partial(kdpp.residual_trace, kernel(X), [0, 3, 9]),
        "ridge_leverage": lambda: [kdpp.ridge_leverage(kernel, X, 0.1, marks) for marks in (None, [0, 5, 9, 20])],
        "rpcholesky_residual": partial(kdpp.rpcholesky_residual, VALUES, 2),
        "tilted_eigenvalues": partial(kdpp.tilted_eigenvalues, VALUES, noise=0.1),
        "tv_term": lambda: [kdpp.tv_term(100, [10, 20], 2.0, 1e-3, form) for form in FORMS],
        "uniform_residual": partial(kdpp.uniform_residual, VALUES, 2, variance=1.5),
    }


def _lowrank() -> dict[str, Callable[[], Any]]:
    se, X = kernels.SquaredExponential(1.0, 0.5), rows(30)[0]
    K, F = se(X), np.random.default_rng(0).standard_normal((30, 4))
    y = rows(30)[1]
    found: dict[str, Callable[[], Any]] = {
        "kl": partial(lowrank.kl, K, F @ F.T, noise=0.1),
        "kl_by_rank": partial(lowrank.kl_by_rank, K, F, [1, 2, 4], noise=0.1),
        "kl_features": partial(lowrank.kl_features, K, F, noise=0.1),
        "kl_from_excess": lambda: [
            lowrank.kl_from_excess(-0.5, 9, 0.7, rule=rule) for rule in ("sharpest", "corrected", "printed")
        ],
        "kl_from_traces": lambda: [
            lowrank.kl_from_traces(2.0, 1.9, 9, 0.7, noise=0.5, rule=rule)
            for rule in ("sharpest", "corrected", "printed")
        ],
        "kl_from_ratio": lambda: [lowrank.kl_from_ratio([0.1, 2.0], 100, form=form) for form in FORMS],
        "kl_from_residual": lambda: [lowrank.kl_from_residual([0.1, 2.0], noise=0.5, form=form) for form in FORMS],
        "spectral_kl": lambda: [lowrank.spectral_kl([0.01, 0.3], 100, form=form) for form in FORMS],
        "kappa": lambda: [lowrank.kappa([1e-12, 0.5, 0.99]), lowrank.kappa_inverse([1e-30, 0.01, 3.0])],
        "least_gamma": partial(lowrank.least_gamma, K, F @ F.T, noise=0.1),
        "leverage_bound": partial(lowrank.leverage_bound, [[0.0], [2.0], [9.0]], [1.0], 1e6),
        "leverage_density": lambda: lowrank.leverage_density([1.0, 3.0], 1e6).total,
        "log_evidence": partial(lowrank.log_evidence, F, y, noise=0.1),
        "predict": partial(lowrank.predict, F, y, F[:3] + 0.1, noise=0.1, full_cov=True),
        "optimal_kl": partial(lowrank.optimal_kl, VALUES, noise=0.1),
        "optimal_rank": lambda: [lowrank.optimal_rank(VALUES, target, noise=0.1) for target in (1e-6, 0.2, 9.0)],
    }
    for word in ("float", "sharp"):
        ask = partial(partial, spelled, rigor=word)
        ranks = [50, 200, 1000]
        for rule in ("leverage", "classical", "other"):
            found[f"fourier_kl/{rule}/{word}"] = ask(
                lowrank.fourier_kl, se, 1000, ranks, noise=0.1, width=1.0, features=rule
            )
        for rule in ("sharpest", "frobenius", "spectral", "classical", "printed", "other"):
            found[f"fourier_rank/{rule}/{word}"] = ask(
                lowrank.fourier_rank, se, 10**6, 1e3, noise=1.0, width=10.0, rule=rule
            )
        for form in FORMS:
            mercer = {"inputs": Gaussian(1.2), "noise": 0.1, "form": form}
            found[f"mercer_kl/{form}/{word}"] = ask(lowrank.mercer_kl, se, 1000, [5, 10, 20], **mercer)
            found[f"mercer_rank/{form}/{word}"] = ask(lowrank.mercer_rank, se, 10**6, 1e-3, **mercer)
        found[f"mercer_kl/mean/{word}"] = ask(
            lowrank.mercer_kl, se, 1000, 9, inputs=Gaussian(1.2), noise=0.1, delta=None
        )
        found[f"mercer_kl/uniform/{word}"] = ask(lowrank.mercer_kl, se, 1000, 9, inputs=Uniform(), noise=0.1)
        found[f"residual_certificate/{word}"] = ask(lowrank.residual_certificate, [0.0, 0.1, 0.4], noise=0.5)
    return found


def _features() -> dict[str, Callable[[], Any]]:
    X = rows(20)[0]
    se = kernels.SquaredExponential(1.3, 0.7)
    options = {"noise": 0.01, "N": 500, "width": 6.0, "rng": 0}
    return {
        "features/fourier": lambda: lowrank.FourierFeatures(se, 12, 0).fit(X)(X),
        "features/fourier of matern": lambda: lowrank.FourierFeatures(kernels.Matern(1.5), 12, 0).fit(X)(X),
        "features/fourier of sum": lambda: lowrank.FourierFeatures(se + se, 12, 0).fit(X)(X),
        "features/leverage": lambda: lowrank.LeverageFourierFeatures(se, 12, **options).fit(X)(X),
        "features/leverage of matern": lambda: lowrank.LeverageFourierFeatures(kernels.Matern(1.5), 12, **options),
        **{
            f"features/mercer, {order}": lambda order=order: lowrank.MercerFeatures(
                se, 12, inputs=Gaussian(1.2), order=order
            ).fit(X)(X)
            for order in ("best", "degree", "grid", "other")
        },
        "features/not fitted": lambda: lowrank.FourierFeatures(se, 12, 0)(X),
    }
