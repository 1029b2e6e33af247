"""The theorems: bounds for given N and M, and the least M for a target."""

from __future__ import annotations

import numpy as np
from data import line, plane
from language import BITS, BLAS, Cases, added, call, empirical, gaussian, matern, se, uniform

cases = Cases("rates", BITS)

L, P = line(60), plane(50)
RATES = {
    "defaults": {"kernel": se(), "N": 10_000, "M": 30, "alpha": 1.0},
    "arrays": {"kernel": se(2.0, 0.5), "N": [[1000], [100_000]], "M": [10, 20, 40], "alpha": 0.5, "noise": 0.2},
    "orders": {"kernel": se(), "N": 5000, "M": 15, "alpha": [1e-3, 0.1, 0.5, 0.99, 1.0], "delta": 0.01},
    "any y": {"kernel": se(), "N": 5000, "M": [5, 15, 25], "alpha": [[0.5], [1.0]], "y_norm2": 5000.0},
    "y of norm 0": {"kernel": se(), "N": 500, "M": 12, "alpha": 0.7, "y_norm2": 0.0},
    "printed": {"kernel": se(), "N": 5000, "M": [5, 15, 25], "alpha": [[0.5], [1.0]], "form": "printed"},
    "printed, any y": {"kernel": se(), "N": 5000, "M": 15, "alpha": 0.5, "y_norm2": 100.0, "form": "printed"},
    "tv": {"kernel": se(), "N": 5000, "M": 15, "alpha": 1.0, "tv": [0.0, 1e-6, 0.01, 1.0]},
    "tv, printed": {"kernel": se(), "N": 5000, "M": 15, "alpha": 1.0, "tv": 0.01, "form": "printed"},
    "other direction": {"kernel": se(), "N": 5000, "M": 20, "alpha": [0.1, 0.5, 0.9], "direction": "p||q"},
    "several inputs": {
        "kernel": se(1.0, [0.5, 2.0]),
        "N": 10_000,
        "M": [20, 60],
        "alpha": 1.0,
        "inputs": gaussian(1.0, 2),
    },
    "uniform": {"kernel": se(1.0, 0.3), "N": 10_000, "M": [10, 20], "alpha": 1.0, "inputs": uniform()},
    "matern 1/2": {"kernel": matern(0.5), "N": 1000, "M": [10, 100, 900], "alpha": 1.0, "inputs": uniform()},
    "far": {"kernel": se(), "N": 10**9, "M": [60, 500], "alpha": 1.0},
    "smallest": {"kernel": se(), "N": 2, "M": 1, "alpha": 1.0, "delta": 0.999},
}
for name, arguments in RATES.items():
    cases.add(f"rate, {name}", call("gpbounds.rate", **arguments))
BY_BLAS = {
    "matern 5/2": {"kernel": matern(2.5), "N": 1000, "M": [5, 30], "alpha": 1.0, "inputs": uniform()},
    "matern 3/2, estimated": {"kernel": matern(1.5), "N": 1000, "M": [5, 30], "alpha": 0.5, "inputs": gaussian()},
    "rows": {"kernel": se(1.0, 0.5), "N": 60, "M": [1, 5, 9], "alpha": [[0.3], [1.0]], "inputs": empirical(L.X)},
    "rows, any y": {
        "kernel": added(se(), matern(1.5)),
        "N": 50,
        "M": [5, 20],
        "alpha": 1.0,
        "inputs": empirical(P.X),
        "y_norm2": 50.0,
    },
    "rows, printed": {
        "kernel": se(1.0, 0.5),
        "N": 60,
        "M": 6,
        "alpha": 1.0,
        "inputs": empirical(L.X),
        "form": "printed",
    },
}
for name, arguments in BY_BLAS.items():
    cases.add(f"rate, {name}", call("gpbounds.rates.rate", **arguments), BLAS)

PLANS = {
    "defaults": {"kernel": se(), "N": 1_000_000, "alpha": 1.0, "target": 0.01},
    "half": {"kernel": se(2.0, 0.5), "N": 10**9, "alpha": 0.5, "target": 0.1, "noise": 0.5, "delta": 0.01},
    "any y": {"kernel": se(), "N": 100_000, "alpha": 1.0, "target": 0.1, "y_norm2": 1e5},
    "printed": {"kernel": se(), "N": 100_000, "alpha": 1.0, "target": 0.1, "form": "printed"},
    "printed, matern": {
        "kernel": matern(0.5),
        "N": 400,
        "alpha": 1.0,
        "target": 50.0,
        "form": "printed",
        "inputs": uniform(),
    },
    "other direction": {"kernel": se(), "N": 100_000, "alpha": 0.9, "target": 0.1, "direction": "p||q"},
    "none": {"kernel": matern(0.5), "N": 300, "alpha": 1.0, "target": 1e-3, "inputs": uniform()},
    "tv too large": {"kernel": se(), "N": 100_000, "alpha": 1.0, "target": 0.1, "tv": 0.01},
    "several inputs": {
        "kernel": se(1.0, [0.5, 2.0, 1.0]),
        "N": 20_000,
        "alpha": 1.0,
        "target": 1.0,
        "inputs": gaussian(1.0, 3),
    },
    "uniform": {
        "kernel": se(1.0, 0.3),
        "N": 50_000,
        "alpha": 0.8,
        "target": 0.1,
        "inputs": uniform([0.0, 0.0], [1.0, 0.5]),
    },
    "easy": {"kernel": se(1.0, 100.0), "N": 100, "alpha": 1.0, "target": 1e6},
}
for name, arguments in PLANS.items():
    cases.add(f"inducing_points, {name}", call("gpbounds.inducing_points", **arguments))
rows = {"kernel": se(1.0, 0.5), "N": 60, "alpha": 1.0, "inputs": empirical(L.X)}
cases.add("inducing_points, rows", call("gpbounds.rates.inducing_points", **rows, target=0.5), "1e-9")
cases.add(
    "inducing_points, rows, any y",
    call("gpbounds.inducing_points", **rows, target=5.0, y_norm2=float(L.y @ L.y)),
    "1e-9",
)

BOUND = {"value": 0.5, "side": "upper", "confidence": 0.95, "claim": "R-thm1", "quantity": "D"}
cases.add("Bound", call("gpbounds.Bound", **BOUND, terms={"a": 0.2, "b": 0.3}, assumptions=("y is drawn.",)))
cases.add("Bound, array", call("gpbounds.Bound", **{**BOUND, "value": np.array([0.1, 0.2])}, certified=True))
