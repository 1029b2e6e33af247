"""Gaps, evidence and its bounds for given inducing points; iterative evidence; divergences and predictions."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from words import spelled

from gpbounds import divergences, iterative, kernels, renyi, sandwich, vecchia, whitening

from .data import rows

NOISE = 0.04
FORMS = ("sharpest", "printed")


def kernel_table() -> dict[str, Any]:
    """Kernels of one or two inputs."""
    se, matern = kernels.SquaredExponential, kernels.Matern
    return {
        "se": se(1.3, 0.7),
        "matern32": matern(1.5, 1.1, 0.8),
        "sum": se(1.3, 0.7) + matern(0.5, 0.4, 0.3),
        "product": se(1.3, 0.7) * kernels.Linear(0.6) + kernels.Constant(0.2),
        "rq": kernels.RationalQuadratic(0.7, 1.2, 0.9),
        "smooth": se(2.0, 40.0),
        "white": se(1.3, 0.7) + kernels.White(0.1),
    }


def calls() -> dict[str, Callable[[], Any]]:
    """All calls about given inducing points."""
    found: dict[str, Callable[[], Any]] = {}
    for name, kernel in kernel_table().items():
        found |= {f"{asked}/{name}": call for asked, call in _about(kernel).items()}
    return found | _others() | _iterative() | _divergences() | _sandwich() | _refusals()


def _about(kernel: Any) -> dict[str, Callable[[], Any]]:
    X, y = rows(40)
    Z = np.linspace(0.2, 5.8, 7)[:, None]
    found: dict[str, Callable[[], Any]] = {}
    for word in ("auto", "float"):
        found[f"evidence/{word}"] = partial(renyi.evidence, kernel, X, y, Z, noise=NOISE, rigor=word)
    found["evidence/sharp"] = partial(spelled, renyi.evidence, kernel, X, y, Z, noise=NOISE, rigor="sharp")
    found["evidence without Z/sharp"] = partial(spelled, renyi.evidence, kernel, X, y, None, noise=NOISE, rigor="sharp")
    found["evidence, orders"] = partial(renyi.evidence, kernel, X, y, Z, noise=NOISE, alphas=[0.0, 0.5, 1.0])
    found["evidence, cheap"] = partial(renyi.evidence, kernel, X, y, Z, noise=NOISE, members="cheap")
    found["evidence, tiny noise"] = partial(renyi.evidence, kernel, X, y, Z, noise=1e-13)
    for method in ("dense", "blocks", "streamed"):
        found[f"gap/{method}"] = partial(renyi.gap, kernel, X, y, Z, 0.6, noise=NOISE, method=method)
    for word in ("auto", "float"):
        found[f"gap/{word}"] = partial(renyi.gap, kernel, X, y, Z, 1.0, noise=NOISE, rigor=word)
    found["gap/sharp"] = partial(spelled, renyi.gap, kernel, X, y, Z, 1.0, noise=NOISE, rigor="sharp")
    found["gap, printed"] = partial(renyi.gap, kernel, X, y, Z, 0.6, noise=NOISE, form="printed")
    found["gap, fixed jitter"] = partial(renyi.gap, kernel, X, y, Z, 0.6, noise=NOISE, jitter=1e-8)
    found["gap_from_trace"] = partial(renyi.gap_from_trace, kernel, X, y, Z, 0.6, noise=NOISE)
    for form in FORMS:
        found[f"expected_gap_bounds/{form}"] = partial(
            renyi.expected_gap_bounds, kernel, X, Z, 0.6, noise=NOISE, form=form
        )
    found["expected_gap"] = partial(renyi.expected_gap, kernel, X, Z, 0.6, noise=NOISE)
    found["gap_variance"] = partial(renyi.gap_variance, kernel, X, Z, 0.6, noise=NOISE)
    found["exact_gap"] = partial(renyi.exact_gap, kernel, X, y, Z, 0.6, noise=NOISE)
    found["log_evidence"] = partial(renyi.log_evidence, kernel, X, y, noise=NOISE)
    found["needed"] = partial(renyi.needed, kernel, X, 1.0, target=0.1, noise=NOISE)
    found["elbo"] = lambda: [renyi.elbo(kernel, X, y, Z, a, noise=NOISE) for a in (-1.0, 0.0, 0.5, 1.0)]
    found["predict"] = lambda: renyi.predict(kernel, X, y, Z, X[:5] + 0.1, 0.5, noise=NOISE, full_cov=True)
    found["inducing_posterior"] = partial(renyi.inducing_posterior, kernel, X, y, Z, 0.5, noise=NOISE)
    found["nystrom"] = lambda: _nystrom(renyi.nystrom(kernel, X, Z), y)
    found["log_det_estimate"] = partial(renyi.log_det_estimate, kernel, X, Z, noise=NOISE, rng=2)
    found["any posterior"] = lambda: _any_posterior(kernel, X, y, Z)
    found["whiten"] = lambda: _white(whitening.whiten(kernel, X, Z, y))
    return found


def _nystrom(record: Any, y: np.ndarray) -> Any:
    names = ("rank", "trace", "largest", "jitter", "residual", "eigenvalues", "Q")
    return {name: getattr(record, name) for name in names} | {"quadratic": record.quadratic(y, noise=NOISE)}


def _white(white: Any) -> Any:
    return {name: getattr(white, name) for name in ("rank", "trace", "projected")}


def _any_posterior(kernel: Any, X: np.ndarray, y: np.ndarray, Z: np.ndarray) -> Any:
    mean, cov = renyi.inducing_posterior(kernel, X, y, Z, 1.0, noise=NOISE)
    data = kernel, X, y, Z, mean + 0.01, cov + 1e-3 * np.eye(len(Z))
    return {
        "variational": renyi.variational_bound(*data, noise=NOISE),
        "renyi": renyi.renyi_bound(*data, 0.4, noise=NOISE),
        "jensen": renyi.jensen_bound(*data, 0.4, noise=NOISE),
    }


def _others() -> dict[str, Callable[[], Any]]:
    X, y = rows(40, 2)
    outputs = np.stack([y, y**2 - 1.0], axis=1)
    se2 = kernels.SquaredExponential(1.3, [0.7, 1.9])
    Z = X[::6]
    eigenvalues = np.sort(np.linalg.eigvalsh(se2(X)))[::-1]
    return {
        "two outputs/evidence": partial(renyi.evidence, se2, X, outputs, Z, noise=NOISE),
        "two outputs/gap": partial(renyi.gap, se2, X, outputs, Z, 0.6, noise=NOISE),
        "two outputs/exact_gap": partial(renyi.exact_gap, se2, X, outputs, Z, 0.6, noise=NOISE),
        "minimum_gap": lambda: [
            renyi.minimum_gap([4.0, 2.0, 1.0], [0, 1, 2], 0.7, of, noise=0.5) for of in ("any", "prior")
        ],
        "needed_from_eigenvalues": partial(renyi.needed_from_eigenvalues, eigenvalues, 0.7, target=0.1, noise=NOISE),
        "fitted_mean": lambda: [
            (found.intercept, found.slopes)
            for kind in ("constant", "linear")
            for found in [renyi.fitted_mean(se2, X, y, noise=NOISE, mean=kind)]
        ],
        "direction_factor": lambda: [renyi.direction_factor(a) for a in (0.1, 0.5, 0.9)],
        "oracle_risk_bound": partial(renyi.oracle_risk_bound, [-10.0, -9.0], -12.0, 20, 0.5, delta=0.1),
        "pac_risk_bound": partial(
            renyi.pac_risk_bound, -10.0, [-12.0, -11.0], 20, 0.5, delta=0.1, prior=[0.3, 0.7], posterior=[0.6, 0.4]
        ),
        "model/residuals": lambda: renyi.Model(se2, NOISE, Z).residuals(X, y),
        "model/saved": _saved_model,
    }


def _saved_model() -> Any:
    import tempfile
    from pathlib import Path

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.json"
        renyi.Model(kernels.Matern(1.5, 0.7, [1.0, 2.0]), 0.1, rows(3, 2)[0]).save(path)
        again = renyi.Model.load(path)
        return {"file": path.read_text(encoding="utf-8"), "again": (repr(again.kernel), again.noise, again.Z)}


def _iterative() -> dict[str, Callable[[], Any]]:
    X, y = rows(150)
    options: dict[str, Any] = {"noise": 0.09, "block": 30, "neighbours": 30, "rng": 1}
    table = kernel_table()
    whole = partial(vecchia.near, table["se"], X, block=30, neighbours=20, rng=0)

    def factored() -> Any:
        blocks = whole()
        U = vecchia.factor(table["se"], X, noise=0.09, blocks=blocks)
        return {
            "order": blocks.order,
            "sets": list(blocks.sets),
            "log_det": U.log_det,
            "times": U.times(X),
            "transposed": U.transposed_times(X),
            "error": vecchia.log_det_error(U, 1.3, 1e-16, noise=0.09),
        }

    return {
        **{
            f"iterative/{name}": partial(iterative.evidence, table[name], X, y, **options)
            for name in ("se", "matern32", "sum", "rq")
        },
        "iterative/width": partial(iterative.evidence, table["se"], X, y, width=2.0, **options),
        "iterative/delta": partial(iterative.evidence, table["matern32"], X, y, delta=1e-4, probes=16, **options),
        "iterative/refused": partial(iterative.evidence, table["se"], X, y, noise=-1.0),
        "vecchia": factored,
    }


def _law(q: Any, X: np.ndarray) -> Any:
    """What a posterior says: KL, its rounding, and predictions with their errors."""
    names = ("mean", "variance", "mean_error", "variance_error")
    there = q.predict(X)
    return {"kl": q.kl, "rounding": q.kl_rounding} | {name: np.asarray(getattr(there, name)) for name in names}


def _divergences() -> dict[str, Callable[[], Any]]:
    X, y = rows(40)
    Z, new = np.linspace(0.2, 5.8, 7)[:, None], np.linspace(-1.0, 7.0, 9)[:, None]
    rng = np.random.default_rng(0)
    A, B = (a @ a.T + np.eye(5) for a in rng.standard_normal((2, 5, 5)))
    m, n = rng.standard_normal((2, 5))
    found: dict[str, Callable[[], Any]] = {
        "gaussian_kl": partial(divergences.gaussian_kl, m, A, n, B),
        "gaussian_renyi": lambda: [divergences.gaussian_renyi(m, A, n, B, a) for a in (0.1, 0.5, 0.99, 1.5)],
        "posterior_kl": lambda: [divergences.posterior_kl(A, m, noise=0.2, method=of) for of in ("eigen", "cholesky")],
        "sparse_kl": partial(divergences.sparse_kl, A, m, B),
        "whitened_kl": partial(divergences.whitened_kl, m, np.linalg.cholesky(A)),
        "refused": partial(divergences.gaussian_kl, m, -A, n, B),
    }
    for name, kernel in kernel_table().items():
        found[f"full_posterior/{name}"] = lambda kernel=kernel: _law(
            divergences.full_posterior(kernel, X, y, noise=NOISE), new
        )
        for power in (0.0, 0.5, 1.0):
            found[f"collapsed_posterior/{name}/{power}"] = lambda kernel=kernel, power=power: _law(
                divergences.collapsed_posterior(kernel, X, y, Z, noise=NOISE, power=power), new
            )
        found[f"free_posterior/{name}"] = lambda kernel=kernel: _law(
            divergences.free_posterior(kernel, Z, np.sin(Z[:, 0]), 0.1 * np.eye(7)), new
        )
        found[f"whitened_posterior/{name}"] = lambda kernel=kernel: _law(
            divergences.whitened_posterior(kernel, Z, np.sin(Z[:, 0]), 0.3 * np.eye(7)), new
        )
    return {f"divergences/{name}": call for name, call in found.items()}


def _sandwich() -> dict[str, Callable[[], Any]]:
    kl = np.array([1e-30, 1e-3, 0.5, 20.0])
    return {
        "sandwich/kl": lambda: (lambda found: {"record": found, "text": str(found)})(sandwich.sandwich(0.01)),
        "sandwich/array": partial(sandwich.sandwich, kl, np.array([0.0, 0.01, 0.9, 6.0])),
        "sandwich/sharp": partial(spelled, sandwich.sandwich, kl, rigor="sharp"),
        "sandwich/explicit": lambda: [sandwich.explicit(kl, form=form) for form in FORMS],
        "sandwich/roots": lambda: [sandwich.roots(kl, minus_one=one) for one in (False, True)],
        "sandwich/roots, sharp": partial(spelled, sandwich.roots, 0.01, rigor="sharp"),
        "sandwich/predictive": lambda: [sandwich.predictive(1e-3, [0.05, 0.1], form=form) for form in FORMS],
        "sandwich/predictive, drawn": partial(sandwich.predictive, 1e-2, 0.05, train=1e-3),
        "sandwich/refused mean": partial(sandwich.sandwich, 0.1, 9.0),
        "sandwich/refused": partial(sandwich.sandwich, -1.0),
        "sandwich/refused inputs": partial(sandwich.predictive, 1e-2, 0.05, test_inputs="other"),
    }


def _refusals() -> dict[str, Callable[[], Any]]:
    X, y = rows(10)
    se, Z = kernels.SquaredExponential(), X[:3]
    return {
        "refused/noise": partial(renyi.evidence, se, X, y, Z, noise=0.0),
        "refused/rigor": partial(renyi.evidence, se, X, y, Z, noise=0.1, rigor="other"),
        "refused/members": partial(renyi.evidence, se, X, y, Z, noise=0.1, members="other"),
        "refused/y": partial(renyi.evidence, se, X, y[:3], Z, noise=0.1),
        "refused/finite": partial(renyi.evidence, se, X, y * np.nan, Z, noise=0.1),
        "refused/Z": partial(renyi.gap, se, X, y, [[0.0, 1.0]], 0.5, noise=0.1),
        "refused/alpha": partial(renyi.gap, se, X, y, Z, 2.0, noise=0.1),
        "refused/method": partial(renyi.gap, se, X, y, Z, 0.5, noise=0.1, method="other"),
        "refused/form": partial(renyi.gap, se, X, y, Z, 0.5, noise=0.1, form="other"),
        "refused/streamed": partial(spelled, renyi.gap, se, X, y, Z, 0.5, noise=0.1, method="streamed", rigor="sharp"),
        "refused/jitter": partial(renyi.gap, se, X, y, np.zeros((3, 1)), 0.5, noise=0.1, jitter=0.0),
        "refused/no Z": partial(renyi.evidence, se, X, y, None, noise=0.1),
        "refused/direction": partial(renyi.direction_factor, 1.0),
    }
