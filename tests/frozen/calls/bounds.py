"""PAC-Bayes bounds as what is trained, and certificates for fitted models."""

from __future__ import annotations

from typing import Any

import numpy as np
from data import line, normal, plane, triangle
from language import BITS, BLAS, Applied, Cases, call, evaluation, matern, part, reading, se, then, under

cases = Cases("bounds", BLAS)

L, P = line(50), plane()
LOSSES = {
    "band": call("gpbounds.losses.Band", epsilon=0.5),
    "squared": call("gpbounds.losses.Squared", epsilon=0.8),
    "exponential": call("gpbounds.losses.Exponential", epsilon=0.6),
    "interval": call("gpbounds.losses.Interval", low=-0.3, high=0.6),
}
METHODS: dict[str, dict[str, Any]] = {
    "fitc": {"method": "fitc"},
    "vfe": {"method": "vfe"},
    "pep": {"method": "pep", "power": 0.4},
    "exact": {"method": "exact"},
}
ON = {
    "line": ({"kernel": se(1.0, 1.1), "noise": 0.1, "Z": L.Z}, L),
    "plane": ({"kernel": matern(1.5, 1.5, [1.0, 2.0, 3.0]), "noise": 0.3, "Z": P.Z}, P),
}
for method, options in METHODS.items():
    free = method != "exact"  # in Z
    for kind, (at, data) in ON.items():
        for name, loss in LOSSES.items():
            B = call("fitting.bounds.risk_bound", X=data.X, y=data.y, loss=loss, delta=0.05, **options)
            cases.add(f"risk_bound, {method}, {kind}, {name}", evaluation(then(B, "evaluate", **at), Z=free))
        cases.add(f"terms, {method}, {kind}", then(B, "terms", **at))
        cases.add(f"posterior, {method}, {kind}", then(then(B, "posterior", **at), "predict", X=data.new))
        pinsker = call(
            "fitting.bounds.risk_bound",
            X=data.X,
            y=data.y,
            loss=LOSSES["band"],
            delta=0.05,
            objective="pinsker",
            log_prior_penalty=14.2,
            **options,
        )
        cases.add(f"risk_bound, {method}, {kind}, pinsker", evaluation(then(pinsker, "evaluate", **at), Z=free))
at = ON["line"][0]
small = call(
    "fitting.bounds.risk_bound", X=L.X, y=L.y[:, None], loss=LOSSES["band"], delta=1.0, jitter=1e-6, chunk=7, keep=0
)
cases.add("risk_bound, chunks", evaluation(then(small, "evaluate", **at)))
cases.add("risk_bound, value", reading(then(small, "evaluate", **at, gradient=False), "value", "jitter"))
cases.add("risk_bound, about", under({"N": "N", "single": "data.single", "member.power": "source.member.power"}, small))

mean, factor = 0.5 * normal(6, seed=1), triangle(6, seed=2)
free_at = {"kernel": se(1.0, 1.1), "Z": L.Z, "mean": mean, "factor": factor}
FREE = {"value": "value", **{name: f"gradient.{name}" for name in ("kernel", "Z", "mean", "factor")}}


def squeezed(evaluated):
    """With the mean as a vector."""
    return {**evaluated, "mean": np.ravel(evaluated["mean"])} if isinstance(evaluated, dict) else evaluated


for name, loss in LOSSES.items():
    for objective in ("kl", "pinsker"):
        B = call(
            "fitting.bounds.free_bound", X=L.X, y=L.y, loss=loss, delta=0.05, log_prior_penalty=5.0, objective=objective
        )
        cases.add(f"free_bound, {name}, {objective}", under(FREE, then(B, "evaluate", **free_at)))
    cases.add(f"free_bound, {name}, terms", then(B, "terms", **free_at))
B = call("fitting.bounds.free_bound", X=P.X, y=P.y, loss=LOSSES["squared"], delta=0.05, chunk=9)
plane_at = {
    "kernel": matern(2.5, 1.0, [1.0, 2.0, 3.0]),
    "Z": P.Z,
    "mean": 0.5 * normal(8, seed=3),
    "factor": triangle(8, seed=4),
}
cases.add("free_bound, plane", under(FREE, then(B, "evaluate", **plane_at)))
cases.add("free_bound, rows", under(FREE, then(B, "evaluate", **plane_at, rows=[0, 5, 7, 20])))
start = then(B, "start", kernel=plane_at["kernel"], noise=0.3, Z=P.Z)
POINT = {"kernel": "kernel", "Z": "Z", "mean": "q.mean", "factor": "q.factor"}
cases.add("free_bound, start", Applied(squeezed, under(POINT, start)))
for label, options in {"": {}, ", fixed": {"fixed": ("variance",), "learn_Z": False, "scale": 2.0}}.items():
    how = then(B, "packing", **plane_at, **options)
    vector = then(how, "pack", parameters=part(how, "start"))
    cases.add(
        f"free packing{label}", [vector, part(how, "names"), part(how, "bounds"), then(how, "at_bounds", vector=vector)]
    )
    cases.add(f"free packing{label}, loss", then(then(how, "loss", objective=B), "()", vector=vector))
    cases.add(
        f"free packing{label}, loss of rows",
        then(then(how, "loss", objective=then(B, "batch", rows=[1, 2, 30])), "()", vector=vector),
    )
    cases.add(f"free packing{label}, back", Applied(squeezed, under(POINT, then(how, "unpack", vector=vector))))
for objective in ("kl", "pinsker"):
    target = call(
        "fitting.bounds.Target", loss=LOSSES["band"], N=404, delta=0.01, log_prior_penalty=14.2, objective=objective
    )
    cases.add(f"target, {objective}", [then(target, "()", total=37.5, kl=kl) for kl in (0.0, 42.0, 1e4)], BITS)
    evaluated = call("fitting.evaluation.Evaluation", value=0.33, gradient=None, total=37.5, kl=42.0)
    cases.add(f"target, {objective}, terms", then(target, "terms", found=evaluated), BITS)

# --- certificates for fitted models; optimizer=None keeps what is given, so that nothing is trained

grid = then(call("gpbounds.pacbayes.HyperGrid"), "shared", low=-3.0, high=3.0, steps=60)
kept = {"kernel": se(1.0, 1.1), "noise": 0.1, "optimizer": None}
MODELS = {
    "exact": call("fitting.ExactGP", **kept),
    "renyi": call("fitting.RenyiGP", alpha=0.5, n_inducing=6, **kept),
    "vfe": call("fitting.SparseGP", method="vfe", n_inducing=6, **kept),
    "fitc": call("fitting.SparseGP", method="fitc", n_inducing=6, **kept),
    "dtc": call("fitting.SparseGP", method="dtc", n_inducing=6, **kept),
    "pep": call("fitting.SparseGP", method="pep", power=0.4, n_inducing=6, **kept),
    "pac": call("fitting.PACGP", epsilon=0.5, grid=grid, **kept),
    "sparse pac": call("fitting.SparsePACGP", n_inducing=6, epsilon=0.5, grid=grid, **kept),
    "free": call("fitting.SparsePACGP", n_inducing=6, form="free", epsilon=0.5, grid=grid, **kept),
}
for name, model in MODELS.items():
    fitted = then(model, "fit", X=L.X, y=L.y)
    made = call("fitting.certify", model=fitted, X=L.X, y=L.y, epsilon=0.5, delta=0.05, grid=grid)
    cases.add(f"certify, {name}", then(made, "to_dict"), "1e-9")
    cases.add(f"certify, {name}, check", then(made, "check", X=L.X, y=L.y))
fitted = then(MODELS["vfe"], "fit", X=L.X, y=L.y)
for label, options in {
    "squared": {"loss": "squared", "epsilon": 0.8},
    "a loss": {"loss": LOSSES["interval"]},
    "charges": {"epsilon": 0.5, "charges": [call("gpbounds.pacbayes.Charge", choice="kernel families", count=2)]},
}.items():
    cases.add(
        f"certify, {label}",
        then(call("fitting.certify", model=fitted, X=L.X, y=L.y, delta=0.05, grid=grid, **options), "to_dict"),
        "1e-9",
    )
several = call("fitting.certify", model=fitted, X=L.X, y=L.y, epsilon=(0.4, 0.6), delta=0.05, grid=grid)
cases.add("certify, several epsilons", several, "1e-9")
cases.add(
    "certify, default grid",
    then(call("fitting.certify", model=fitted, X=L.X, y=L.y, epsilon=0.5, delta=0.05), "to_dict"),
    "1e-9",
)
normalised = then(call("fitting.ExactGP", **kept, normalize_y=True), "fit", X=L.X, y=L.y)
cases.add(
    "certify, not rigorous",
    then(call("fitting.certify", model=normalised, X=L.X, y=L.y, grid=grid, nonrigorous=True), "to_dict"),
    "1e-9",
)
