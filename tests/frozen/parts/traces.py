"""Traces: 20 iterations of each estimator with each optimiser, where they end, and what is predicted from there."""

from __future__ import annotations

import functools
import warnings
from pathlib import Path
from typing import Any

from calls.trained import ESTIMATORS, OPTIONS, L, fit
from language import FIT, evaluate
from plain import plain
from renamed import ATTRIBUTES

from parts.values import attempt

READ = ("history_", "noise_", "objective_", "inducing_", "n_iter_", "jitter_", "y_mean_", "y_scale_")
PROVED = ("bound_", "risk_", "kl_")


def listed() -> dict[str, tuple[Any, Any]]:
    """By name: the trained estimator as an expression, and its data."""
    listing = {}
    for name, (kind, arguments) in ESTIMATORS.items():
        for optimizer in ("lbfgs", "adam", None):
            listing[f"{name}, {optimizer}"] = fit(kind, arguments, L, optimizer=optimizer), L
    return listing | {name: (fit(kind, arguments, data), data) for name, (kind, arguments, data) in OPTIONS.items()}


def attribute(model: Any, name: str) -> Any:
    """By the name it had when the state was frozen."""
    return plain(getattr(model, ATTRIBUTES.get(name, name)))


def trace(expression: Any, data: Any) -> dict[str, Any]:
    """What an estimator says of itself after a fit."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = evaluate(expression)
    values = {name: attribute(model, name) for name in READ if hasattr(model, ATTRIBUTES.get(name, name))}
    values["kernel_"] = {
        "kind": type(model.kernel_).__name__,
        "log_parameters": plain(model.kernel_.log_parameters),
    }
    values["stop_reason_"] = {"reason": model.stop_reason_}
    values["runs_"] = [{"iterations": run.iterations, "status": run.status, "value": run.value} for run in model.runs_]
    if hasattr(model, "certificate_"):
        values |= {name: attribute(model, name) for name in PROVED}
        values["indices"] = [list(each.indices) for each in model.certificates_]
        values["bounds"] = [each.bound for each in model.certificates_]
    mean, std = model.predict(data.new, return_std=True)
    values["predicted"] = {"mean": plain(mean), "std": plain(std)}
    values["warned"] = sorted({warning.category.__name__ for warning in caught})
    return values


def run(store: Path, writing: bool, select: str = "") -> dict[str, Any]:
    """Every training."""
    return {
        name: {"rule": FIT, "value": attempt(functools.partial(trace, expression, data))}
        for name, (expression, data) in listed().items()
        if select in name
    }
