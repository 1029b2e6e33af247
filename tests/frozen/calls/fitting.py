"""Objectives of every member with their gradients, posteriors' predictions, packings."""

from __future__ import annotations

from typing import Any

import numpy as np
from data import Data, line, normal, outputs, plane, repeated
from language import BLAS, Cases, added, call, evaluation, matern, multiplied, part, reading, se, then

cases = Cases("fitting", BLAS)

MEMBERS: dict[str, dict[str, Any]] = {
    "vfe": {"method": "vfe"},
    "dtc": {"method": "dtc"},
    "fitc": {"method": "fitc"},
    "pep": {"method": "pep", "power": 0.3},
    "pic": {"method": "pic", "blocks": 9},
    "renyi": {"method": "renyi", "alpha": 0.4},
    "exact": {"method": "exact"},
}
ON: dict[str, tuple[Any, float, Data]] = {
    "line, se": (se(1.3, 0.9), 0.1, line()),
    "plane, se ard": (se(1.0, [1.0, 2.0, 4.0]), 0.2, plane()),
    "plane, matern": (matern(1.5, 1.5, 2.0), 0.05, plane()),
    "outputs, sum": (added(se(1.0, [1.0, 10.0]), matern(2.5, 0.3, [2.0, 20.0])), 0.1, outputs()),
    "repeated, product": (multiplied(se(1.0, 2.0), matern(0.5, 1.0, 3.0)), 0.3, repeated()),
}


def labels(X: Any) -> Any:
    """Two blocks, by the sign of the first column about its median."""
    return (X[:, 0] > np.median(X[:, 0])).astype(int)


def law(label: str, posterior: Any, data: Data, **blocks: Any) -> None:
    """What a posterior predicts."""
    for name, options in {"": {}, ", noisy": {"noisy": True}, ", covariance": {"full_cov": True}}.items():
        cases.add(f"predict, {label}{name}", then(posterior, "predict", X=data.new, **options, **blocks))


for name, member in MEMBERS.items():
    for kind, (kernel, noise, data) in ON.items():
        F = call("fitting.objective", X=data.X, y=data.y, **member)
        at = {"kernel": kernel, "noise": noise, "Z": data.Z}
        cases.add(f"evaluate, {name}, {kind}", evaluation(then(F, "evaluate", **at), Z=name != "exact"))
        posterior = then(F, "posterior", **at)
        blocks = {"blocks": [0, 1, 2, 99, 0][: len(data.new)]} if name == "pic" else {}
        law(f"{name}, {kind}", posterior, data, **blocks)
        if name not in ("exact", "pic"):
            cases.add(
                f"posterior, {name}, {kind}",
                [part(posterior, "kl"), then(posterior, "inducing_law"), part(posterior, "jitter")],
            )

kernel, noise, data = ON["line, se"]
at = {"kernel": kernel, "noise": noise, "Z": data.Z}
for label, options in {
    "pep 0": {"method": "pep", "power": 0.0},
    "pep 1": {"method": "pep", "power": 1.0},
    "pep": {"method": "pep"} | {"power": 0.5},
    "renyi 0": {"method": "renyi", "alpha": 0.0},
    "renyi 1": {"method": "renyi", "alpha": 1.0},
    "pic, labels": {"method": "pic", "blocks": labels(data.X)},
    "pic, one block": {"method": "pic", "blocks": 30},
    "pic, single rows": {"method": "pic", "blocks": 1},
    "vfe, chunks": {"method": "vfe", "chunk": 7},
    "fitc, nothing kept": {"method": "fitc", "chunk": 7, "keep": 0},
    "renyi, nothing kept": {"method": "renyi", "alpha": 0.5, "keep": 0},
    "vfe, jitter": {"method": "vfe", "jitter": 1e-3},
    "a member": {"method": call("fitting.member", method="renyi", alpha=0.7)},
}.items():
    F = call("fitting.objective", X=data.X, y=data.y, **options)
    constant = label in ("renyi 0", "pic, one block")  # in Z: both are the exact GP
    cases.add(f"evaluate, {label}", evaluation(then(F, "evaluate", **at), Z=not constant))
    cases.add(f"evaluate, {label}, value", reading(then(F, "evaluate", **at, gradient=False), "value", "jitter"))
vfe = call("fitting.objective", X=data.X, y=data.y)
twice = {"kernel": kernel, "noise": noise, "Z": [[0.0], [0.0], [1.0], [4.0]]}
cases.add("evaluate, inducing inputs twice", reading(then(vfe, "evaluate", **twice), "value", "jitter"), "1e-6")
cases.add("evaluate, Z = X", evaluation(then(vfe, "evaluate", kernel=matern(0.5), noise=0.3, Z=data.X[::2])))
cases.add("evaluate, large noise", evaluation(then(vfe, "evaluate", **{**at, "noise": 1e8})))
cases.add("evaluate, small noise", evaluation(then(vfe, "evaluate", **{**at, "noise": 1e-4})), "1e-10")
cases.add("evaluate, short lengthscale", evaluation(then(vfe, "evaluate", **{**at, "kernel": se(1.0, 1e-3)})))
single = call("fitting.objective", X=[0.5], y=[1.0], method="fitc")
cases.add("evaluate, one point", evaluation(then(single, "evaluate", kernel=se(), noise=0.1, Z=[[0.3]])))
exact = call("fitting.objective", X=data.X, y=data.y, method="exact")
cases.add("evaluate, exact, no Z", evaluation(then(exact, "evaluate", kernel=kernel, noise=noise), Z=False))
cases.add("objective, N", [part(vfe, "N"), part(exact, "N")])
cases.add("predict, chunks", then(then(vfe, "posterior", **at), "predict", X=data.X, chunk=4))

for name, member in MEMBERS.items():
    options = {key: value for key, value in member.items() if key != "blocks"}
    cases.add(
        f"member, {name}",
        reading(call("fitting.member", **options), "structure", "power", "inside", "is_diagonal", "is_evidence"),
    )

PACKINGS: dict[str, dict[str, Any]] = {
    "line": {"kernel": kernel, "noise": 0.2, "Z": data.Z},
    "no Z": {"kernel": ON["outputs, sum"][0], "noise": 0.2},
    "Z kept": {"kernel": kernel, "noise": 0.2, "Z": data.Z, "learn_Z": False},
    "fixed": {
        "kernel": se(2.0, [1.0, 1.0]),
        "noise": 0.5,
        "Z": [[3.0, 4.0]],
        "fixed": ["variance", "noise"],
        "scale": [2.0, 5.0],
    },
    "limits": {
        "kernel": kernel,
        "noise": 1e-3,
        "Z": data.Z,
        "limits": {"noise": (1e-3, 1.0), "lengthscale": (0.5, 2.0)},
    },
}
for name, arguments in PACKINGS.items():
    how = call("fitting.packing", **arguments)
    vector = then(how, "pack", parameters=part(how, "start"))
    cases.add(f"packing, {name}", reading(how, "names", "bounds"))
    cases.add(f"packing, {name}, vector", vector)
    cases.add(f"packing, {name}, at bounds", then(how, "at_bounds", vector=vector))
    back = then(how, "unpack", vector=vector)
    cases.add(f"packing, {name}, back", reading(back, "kernel", "noise", "Z"))
    if name in ("line", "Z kept", "limits"):
        loss = then(how, "loss", objective=vfe)
        cases.add(f"packing, {name}, loss", then(loss, "()", vector=vector))
        value = then(vfe, "evaluate", kernel=part(back, "kernel"), noise=part(back, "noise"), Z=part(back, "Z"))
        cases.add(f"packing, {name}, gradient", then(how, "gradient", gradient=part(value, "gradient")))
moved = normal(9, seed=7) * 0.1
cases.add(
    "packing, another vector",
    reading(then(call("fitting.packing", **PACKINGS["line"]), "unpack", vector=moved), "kernel", "noise", "Z"),
)
