"""What a fit asks of a GPU, counted exactly by the stand-in for CuPy (tests/standin), and what it returns."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import fitting
from gpbounds import kernels, renyi

from .data import rows


def estimators() -> dict[str, Callable[..., Any]]:
    """Estimators with a few steps."""
    few: dict[str, Any] = {"max_iter": 3, "random_state": 0, "device": "cuda"}
    sparse = few | {"n_inducing": 6}
    return {
        "exact": partial(fitting.ExactGP, **few),
        "sparse, vfe": partial(fitting.SparseGP, "vfe", **sparse),
        "sparse, fitc": partial(fitting.SparseGP, "fitc", normalize_y=True, **sparse),
        "sparse, pep": partial(fitting.SparseGP, "pep", power=0.5, **sparse),
        "sparse, pic": partial(fitting.SparseGP, "pic", block_size=20, **sparse),
        "sparse, sum": partial(fitting.SparseGP, "vfe", kernels.Matern(1.5) + kernels.Linear(), **sparse),
        "renyi": partial(fitting.RenyiGP, 0.5, **sparse),
        "lowrank": partial(fitting.LowRankGP, rank=8, **few),
        "variational": partial(fitting.VariationalGP, **sparse),
        "variational, student": partial(fitting.VariationalGP, likelihood="student-t", **sparse),
        "pac": partial(fitting.PACGP, epsilon=0.6, **few),
        "sparse pac": partial(fitting.SparsePACGP, epsilon=0.6, **sparse),
        "sparse pac, free": partial(fitting.SparsePACGP, posterior="free", epsilon=0.6, **sparse),
    }


def calls() -> dict[str, Callable[[], Any]]:
    """Counts of fits, from rows of the host and rows that are on the device."""
    found: dict[str, Callable[[], Any]] = {}
    for name, make in estimators().items():
        found[f"{name}/host"] = partial(_counted, make, False)
        found[f"{name}/there"] = partial(_counted, make, True)
    for method in ("dense", "blocks"):
        found[f"gap, {method}"] = partial(_gap, method)
    found["evidence"] = _evidence
    return found


def _counted(make: Callable[..., Any], there: bool) -> Any:
    import cupy

    X, y = rows(70, 2)
    data = (cupy.asarray(X), cupy.asarray(y)) if there else (X, y)
    model = make()
    cupy._impl.stats.clear()
    model.fit(*data)
    counts = {name: int(count) for name, count in sorted(cupy._impl.stats.items())}
    mean = model.predict(data[0][:5])
    return {
        "counts": counts,
        "objective": getattr(model, "objective_", None) if not hasattr(model, "bound_") else model.bound_,
        "theta": model.kernel_.log_parameters,
        "mean": np.asarray(cupy.asnumpy(mean)),
    }


def _gap(method: str) -> Any:
    import cupy

    X, y = map(cupy.asarray, rows(70, 2))
    cupy._impl.stats.clear()
    found = renyi.gap(kernels.SquaredExponential(1.0, [1.0, 2.0]), X, y, X[::10], 0.5, noise=0.1, method=method)
    return {"counts": dict(sorted(cupy._impl.stats.items())), "gap": found}


def _evidence() -> Any:
    import cupy

    X, y = map(cupy.asarray, rows(70, 2))
    cupy._impl.stats.clear()
    found = renyi.evidence(kernels.Matern(2.5, 1.0, [1.0, 2.0]), X, y, X[::10], noise=0.1, members="cheap")
    return {"counts": dict(sorted(cupy._impl.stats.items())), "evidence": found}
