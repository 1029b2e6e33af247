"""The estimators that are trained: each with each optimiser for 20 iterations, and what their options change."""

from __future__ import annotations

from typing import Any

from data import Data, line, outputs, plane
from language import added, call, matern, se, then

STEPS = 20
L, P, O2 = line(60, 6, seed=11), plane(70, 8, seed=12), outputs(50, 6, seed=13)
GRID = then(call("gpbounds.pacbayes.HyperGrid"), "shared", low=-3.0, high=3.0, steps=60)
PAC: dict[str, Any] = {"epsilon": 0.5, "delta": 0.05, "grid": GRID, "kernel": se(0.8, 1.3), "noise": 0.1}
SPARSE: dict[str, Any] = {"n_inducing": 6, "kernel": se(0.8, 1.3), "noise": 0.1}

ESTIMATORS: dict[str, tuple[str, dict[str, Any]]] = {
    "exact": ("fitting.ExactGP", {"kernel": se(0.8, 1.3), "noise": 0.1}),
    "renyi": ("fitting.RenyiGP", {"alpha": 0.5, **SPARSE}),
    "vfe": ("fitting.SparseGP", {"method": "vfe", **SPARSE}),
    "fitc": ("fitting.SparseGP", {"method": "fitc", **SPARSE}),
    "dtc": ("fitting.SparseGP", {"method": "dtc", **SPARSE}),
    "pep": ("fitting.SparseGP", {"method": "pep", "power": 0.4, **SPARSE}),
    "pic": ("fitting.SparseGP", {"method": "pic", "block_size": 12, **SPARSE}),
    "pac": ("fitting.PACGP", PAC),
    "sparse pac, fitc": ("fitting.SparsePACGP", {"form": "fitc", "n_inducing": 6, **PAC}),
    "sparse pac, vfe": ("fitting.SparsePACGP", {"form": "vfe", "n_inducing": 6, **PAC}),
    "sparse pac, interpolated": ("fitting.SparsePACGP", {"form": "interpolated", "power": 0.4, "n_inducing": 6, **PAC}),
    "sparse pac, free": ("fitting.SparsePACGP", {"form": "free", "n_inducing": 6, **PAC}),
}
"""By a short name: the class and how it starts, on one input."""

AHEAD = call("gpbounds.pacbayes.Scaling", origin="fixed in advance", shift=3.0, scale=2.0)
OPTIONS: dict[str, tuple[str, dict[str, Any], Data]] = {
    "exact, defaults": ("fitting.ExactGP", {}, P),
    "exact, two outputs, normalised": ("fitting.ExactGP", {"normalize_y": True}, O2),
    "exact, matern, noise fixed": ("fitting.ExactGP", {"kernel": matern(2.5), "noise": 0.2, "fixed": ("noise",)}, P),
    "exact, restarts": ("fitting.ExactGP", {"n_restarts": 2}, L),
    "exact, batches": ("fitting.ExactGP", {"optimizer": "adam", "batch_size": 20}, L),
    "renyi, batches": ("fitting.RenyiGP", {"optimizer": "adam", "batch_size": 20, **SPARSE}, L),
    "renyi, alpha 0.9, plane": ("fitting.RenyiGP", {"alpha": 0.9, "n_inducing": 10}, P),
    "renyi, as many as needed": ("fitting.RenyiGP", {"n_inducing": "auto", "target_gap": 5.0, "max_inducing": 12}, L),
    "vfe, defaults, plane": ("fitting.SparseGP", {"n_inducing": 10}, P),
    "vfe, as many as needed": ("fitting.SparseGP", {"n_inducing": "auto", "target_gap": 2.0, "max_inducing": 12}, L),
    "vfe, two outputs, normalised": ("fitting.SparseGP", {"n_inducing": 6, "normalize_y": True}, O2),
    "vfe, kdpp": ("fitting.SparseGP", {"inducing": "kdpp", **SPARSE}, L),
    "vfe, kmeans": ("fitting.SparseGP", {"inducing": "kmeans", **SPARSE}, L),
    "vfe, uniform": ("fitting.SparseGP", {"inducing": "uniform", **SPARSE}, L),
    "vfe, given": ("fitting.SparseGP", {**SPARSE, "inducing": L.Z}, L),
    "vfe, inducing inputs kept": ("fitting.SparseGP", {"learn_inducing": False, **SPARSE}, L),
    "vfe, limits": ("fitting.SparseGP", {"limits": {"noise": (0.08, 0.2), "lengthscale": (0.5, 1.5)}, **SPARSE}, L),
    "vfe, sum": ("fitting.SparseGP", {**SPARSE, "kernel": added(se(0.8, 1.5), matern(0.5, 0.05, 0.5))}, L),
    "vfe, restarts": ("fitting.SparseGP", {"n_restarts": 1, **SPARSE}, L),
    "fitc, matern, plane": (
        "fitting.SparseGP",
        {"method": "fitc", "n_inducing": 10, "kernel": matern(1.5, 1.0, [1.0, 1.5, 2.0])},
        P,
    ),
    "pic, plane": ("fitting.SparseGP", {"method": "pic", "block_size": 15, "n_inducing": 8}, P),
    "pac, several epsilons": ("fitting.PACGP", {**PAC, "epsilon": (0.5, 0.8)}, L),
    "pac, squared, pinsker": ("fitting.PACGP", {**PAC, "loss": "squared", "epsilon": 0.8, "objective": "pinsker"}, L),
    "pac, scaled": ("fitting.PACGP", {**PAC, "scaling": (AHEAD, "as given")}, L),
    "pac, defaults, plane": ("fitting.PACGP", {"epsilon": 0.6}, P),
    "sparse pac, exponential, plane": ("fitting.SparsePACGP", {"n_inducing": 8, "loss": "exponential"}, P),
    "sparse pac, free, batches": (
        "fitting.SparsePACGP",
        {"form": "free", "n_inducing": 5, "optimizer": "adam", "batch_size": 20, **PAC},
        L,
    ),
    "sparse pac, free, squared": (
        "fitting.SparsePACGP",
        {"form": "free", "n_inducing": 5, **PAC, "loss": "squared", "epsilon": 0.8},
        L,
    ),
}
"""What options change; L-BFGS-B unless they say otherwise."""


def fit(kind: str, arguments: dict[str, Any], data: Data, **more: Any) -> Any:
    """An estimator, trained; random numbers are seeded."""
    options = {"max_iter": STEPS, "random_state": 5, **arguments, **more}
    return then(call(kind, **options), "fit", X=data.X, y=data.y)
