"""What is stored in files, and asked of them: models, checkpoints, certificates."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from language import BLAS, FIT, Applied, call, part, reading, se, then

from calls.trained import ESTIMATORS, OPTIONS, PAC, L, fit

BRIEF = 4
"""Iterations of a stored model."""
HALFWAY = 10
"""Iterations after which a checkpoint was left: half of those of a trace."""


def models() -> dict[str, tuple[Any, Any]]:
    """By file name: the estimator as an expression, and its data."""
    fitted = {name: (fit(kind, arguments, L, max_iter=BRIEF), L) for name, (kind, arguments) in ESTIMATORS.items()}
    for name in (
        *("exact, two outputs, normalised", "exact, matern, noise fixed", "vfe, two outputs, normalised", "vfe, sum"),
        *("vfe, given", "vfe, limits", "fitc, matern, plane", "pic, plane", "pac, several epsilons", "pac, scaled"),
    ):
        kind, arguments, data = OPTIONS[name]
        fitted[name] = fit(kind, arguments, data, max_iter=BRIEF), data
    return fitted


def checkpoints() -> dict[str, Callable[..., Any]]:
    """By file name: the estimator with a checkpoint at a path, as an expression."""

    def going_on(kind: str, arguments: dict[str, Any]) -> Callable[..., Any]:
        return lambda path, **more: fit(kind, arguments, L, checkpoint=str(path), **more)

    runs = {name: going_on(*ESTIMATORS[name]) for name in ("exact", "renyi", "vfe", "pic", "pac", "sparse pac, free")}
    runs["vfe, adam"] = going_on(ESTIMATORS["vfe"][0], {**ESTIMATORS["vfe"][1], "optimizer": "adam"})
    for name in ("exact, batches", "sparse pac, free, batches", "vfe, restarts"):
        runs[name] = going_on(*OPTIONS[name][:2])
    return runs


def certificates() -> dict[str, Any]:
    """By file name: a certificate as an expression, for the data L."""
    kernel = se(1.0, 1.0)
    base = {"X": L.X, "y": L.y, "kernel": kernel, "grid": PAC["grid"], "delta": 0.05}
    band, squared = call("gpbounds.losses.Band", epsilon=0.5), call("gpbounds.losses.Squared", epsilon=0.8)
    exact = call("gpbounds.pacbayes.Exact", noise=0.1)
    charged = call("gpbounds.pacbayes.Scaling", origin="charged", shift=0.1, scale=1.1, count=5)
    same = call("gpbounds.pacbayes.Scaling", origin="same data", shift=0.1, scale=0.9)
    charge = call("gpbounds.pacbayes.Charge", what="kernel families", count=2)
    model = fit("fitting.SparseGP", ESTIMATORS["vfe"][1], L, max_iter=BRIEF)
    issue = "gpbounds.pacbayes.Certificate.issue"
    return {
        "exact": call(issue, **base, loss=band, posterior=exact),
        "sparse": call(
            issue, **base, loss=squared, posterior=call("gpbounds.pacbayes.Sparse", Z=L.Z, noise=0.1, power=1.0)
        ),
        "charged": call(issue, **base, loss=band, posterior=exact, outputs=charged, charges=[charge]),
        "not rigorous": call(issue, **base, loss=band, posterior=exact, outputs=same, nonrigorous=True),
        "certified afterwards": call(
            "fitting.certify", model=model, X=L.X, y=L.y, epsilon=0.5, delta=0.05, grid=PAC["grid"]
        ),
    }


def file(place: Path, name: str, ending: str = "npz") -> Path:
    """Where something of this name is stored."""
    return place / f"{name.replace(',', '').replace(' ', '-')}.{ending}"


def first(pair: Any) -> Any:
    """The lower end."""
    return pair[0]


def last(pair: Any) -> Any:
    """The upper end."""
    return pair[1]


def sayings(place: Path, name: str, data: Any) -> dict[str, tuple[str, Any]]:
    """What a stored model says, as expressions with their rules."""
    model = call("fitting.load", path=str(file(place, name)))
    bounds = then(model, "log_evidence_bounds")
    answers: dict[str, tuple[str, Any]] = {
        "mean and std": (BLAS, then(model, "predict", X=data.new, return_std=True)),
        "covariance": (BLAS, then(model, "predict", X=data.new, return_cov=True)),
        "draws": (FIT, then(model, "sample_y", X=data.new, n_samples=2, random_state=3)),
        "evidence": ("1e-10", [reading(Applied(end, bounds), "value", "side", "confidence") for end in (first, last)]),
        "kernel": (BLAS, part(model, "kernel_")),
        "found": (BLAS, [part(model, key) for key in ("noise_", "objective_", "n_iter_", "jitter_", "history_")]),
    }
    if "free" not in name:
        answers["noisy"] = (BLAS, then(model, "predict", X=data.new, return_std=True, noisy=True))
    if "pac" in name:
        answers["certificate"] = ("1e-9", part(model, "certificates_"))
        answers["check"] = (BLAS, then(part(model, "certificate_"), "check", X=data.X, y=data.y))
    return answers
