"""PAC-Bayes: the binary kl and its inverse, the bound, grids, and certificates that are issued and checked."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
from data import line, numbers, plane, triangle
from language import BITS, Applied, Call, Cases, call, evaluate, matern, part, reading, se, then

cases = Cases("pacbayes", BITS)


def pac(name: str, /, **arguments: Any) -> Call:
    return call(f"gpbounds.pacbayes.{name}", **arguments)


def slopes(of: Call) -> Applied:
    """The derivatives alone of (value, *derivatives)."""
    return Applied(operator.itemgetter(slice(1, None)), of)


FORMS = {
    "sharpest": {"form": "sharpest"},
    "maurer": {"form": "printed"},
    "pinsker": {"form": "printed", "relaxation": "pinsker"},
}


q = np.array([0.0, 1e-300, 1e-9, 0.02, 0.3, 0.5, 0.999, 1.0])
eps = np.array([[0.0], [1e-300], [1e-12], [0.05], [1.0], [800.0], [np.inf]])
cases.add("kl", pac("kl", q=q[:, None], p=[0.0, 1e-300, 0.05, 0.5, 0.5 + 1e-9, 1.0]))
cases.add("kl, a number", pac("kl", q=0.02, p=0.05))
for side in ("upper", "lower"):
    cases.add(f"kl_inverse, {side}", pac("kl_inverse", q=q, divergence=eps, side=side))
    cases.add(f"kl_inverse, {side}, complement", pac("kl_inverse", q=q, divergence=eps, side=side, complement=True))
    cases.add(
        f"kl_inverse, {side}, certified", pac("kl_inverse", q=q[2:7], divergence=eps[2:6], side=side, certified=True)
    )
    cases.add(
        f"kl_inverse, {side}, certified complement",
        pac("kl_inverse", q=0.02, divergence=0.05, side=side, complement=True, certified=True),
    )
    cases.add(f"kl_inverse_gradient, {side}", slopes(pac("kl_inverse", q=q, divergence=eps, side=side, gradient=True)))
cases.add("xi", pac("xi", N=[1, 2, 3, 10, 100, 404, 10**4, 10**6, 10**9, 10**12]))
cases.add("xi, certified", pac("xi", N=[1, 2, 100, 40_000], certified=True))
cases.add("grid_penalty", pac("grid_penalty", points=[[1], [13], [1201]], hyperparameters=[1, 2, 14]))
cases.add("grid_penalty, certified", pac("grid_penalty", points=1201, hyperparameters=[2, 14], certified=True))
for form in ("sharpest", "maurer"):
    cases.add(
        f"log_penalty, {form}",
        pac("log_penalty", N=[1, 404, 10**6], delta=[[1.0], [0.01], [1e-9]], log_prior_penalty=3.0, **FORMS[form]),
    )
cases.add("mixture_kl", pac("mixture_kl", kl=[3.0, 3.5], log_prior_penalty=np.log(2.0)))
cases.add(
    "mixture_kl, axis", pac("mixture_kl", kl=[[3.0, np.inf], [0.0, 1e3]], log_prior_penalty=[[1.0], [2.0]], axis=0)
)

options = {"risk": [0.0, 0.093, 0.5, 1.0], "kl": [[0.0], [42.0], [1e4]], "N": 404, "delta": 0.01}
for form, variant in FORMS.items():
    cases.add(f"bound, {form}", pac("bound", **options, log_prior_penalty=14.2, **variant))
    cases.add(
        f"bound_gradient, {form}",
        slopes(
            pac("bound", **{**options, "risk": [0.01, 0.093, 0.5]}, log_prior_penalty=14.2, **variant, gradient=True)
        ),
    )
    batch = {"batch": [1, 1000], "kl": 42.0, "N": 40_000, "delta": 0.005, "batch_delta": 0.005}
    cases.add(f"batch_bound, {form}", pac("batch_bound", **batch, risk=[[0.0], [0.1]], **variant))
cases.add("bound, lower", pac("bound", **options, side="lower"))
cases.add(
    "bound, certified", pac("bound", risk=0.093, kl=42.0, N=404, delta=0.01, log_prior_penalty=14.2, certified=True)
)
cases.add("bound, one datum", pac("bound", risk=0.0, kl=0.0, N=1, delta=1.0))
cases.add("bound, infinite KL", pac("bound", risk=0.1, kl=np.inf, N=100, delta=0.05))
for side in ("upper", "lower"):
    for form in ("sharpest", "printed"):
        cases.add(
            f"batch_risk_bound, {side}, {form}",
            pac("batch_risk_bound", risk=[0.0, 0.1, 1.0], batch=[[1], [1000]], delta=0.01, side=side, form=form),
        )
cases.add("bayes_factor", pac("bayes_factor", epsilon=[[1e-9], [0.6], [50.0]], std=[0.0, 0.1, 1.2, 1e9]))
cases.add("bayes_risk_bound", pac("bayes_risk_bound", gibbs=[0.0, 0.1, 0.7]))
cases.add("bayes_risk_bound, band", pac("bayes_risk_bound", gibbs=0.1, epsilon=0.6, least_std=1.2))
cases.add(
    "bayes_risk_bound, of a bound", pac("bayes_risk_bound", gibbs=pac("bound", risk=0.093, kl=42.0, N=404, delta=0.01))
)

# --- grids

SHARED = pac("HyperGrid", low=-3.0, high=3.0, steps=12, names=("variance", "lengthscale"))
ARD = then(
    call("gpbounds.pacbayes.HyperGrid"), "ard", dim=3, low=-2.0, high=[2.0, 3.0, 3.0, 4.0], steps=[4, 10, 10, 100]
)
FIXED = pac("HyperGrid", low=[0.0, -6.0], high=[0.0, 6.0], steps=[0, 1200], names=("variance", "lengthscale"))
for name, grid in {"shared": SHARED, "ard": ARD, "fixed": FIXED, "default": pac("HyperGrid")}.items():
    cases.add(f"grid, {name}", reading(grid, "T", "size", "log_size", "names", "low", "high", "steps"))
    cases.add(f"grid, {name}, to_dict", then(grid, "to_dict"))
cases.add("grid, at", then(SHARED, "at", indices=[0, 7]))
cases.add("grid, at, ard", then(ARD, "at", indices=[4, 0, 3, 57]))
cases.add("grid, round", then(SHARED, "round", theta={"variance": 1.004, "lengthscale": 1e-4}))
cases.add("grid, round, a sequence", then(FIXED, "round", theta=[1.0, 0.73]))
cases.add("grid, locate", then(pac("HyperGrid"), "locate", theta=[1.0, float(np.exp(np.float64(0.0)))]))
cases.add("grid, shared of the class", then(then(pac("HyperGrid"), "shared", steps=3), "to_dict"))

# --- certificates

L, P = line(60), plane(40)
GIVEN = pac("Scaling")
AHEAD = pac("Scaling", origin="fixed in advance", shift=0.5, scale=2.0)
SPLIT = pac("Scaling", origin="disjoint split", shift=[0.1, 0.0, -0.1], scale=[1.0, 2.0, 0.5])
CHARGED = pac("Scaling", origin="charged", shift=0.1, scale=1.1, count=5)
SAME = pac("Scaling", origin="same data", shift=0.1, scale=0.9)
for name, scaling in {"as given": GIVEN, "ahead": AHEAD, "split": SPLIT, "charged": CHARGED, "same": SAME}.items():
    cases.add(f"scaling, {name}", [then(scaling, "to_dict"), then(scaling, "describe"), part(scaling, "rigorous")])
    cases.add(f"scaling, {name}, applied", then(scaling, "apply", raw=P.X[:3]))
cases.add("charge", then(pac("Charge", choice="accuracy goals ε", count=5), "to_dict"))
LOOSER = "1e-9"
"""R_S and KL on record hold an allowance for rounding, which moves with it."""
mean, factor = np.linspace(-1.0, 1.0, 6), triangle(6)
POSTERIORS = {
    "exact": pac("Exact", noise=0.1),
    "sparse": pac("Sparse", Z=L.Z, noise=0.1, jitter=0.0),
    "sparse, fitc": pac("Sparse", Z=L.Z, noise=0.1, power=1.0, jitter=1e-6),
    "free": pac("Free", Z=L.Z, mean=mean, cov=factor @ factor.T, jitter=0.0),
    "whitened": pac("Whitened", Z=L.Z, mean=mean, factor=factor, jitter=1e-8),
}
BAND, SQUARED = call("gpbounds.losses.Band", epsilon=0.5), call("gpbounds.losses.Squared", epsilon=1.0)
POINT = part(then(SHARED, "at", indices=[6, 5]), "theta")
ON_GRID = {name: Applied(operator.itemgetter(name), POINT) for name in ("variance", "lengthscale")}
BASE = {"X": L.X, "y": L.y, "kernel": se(**ON_GRID), "grid": SHARED, "loss": BAND, "delta": 0.05}


for name, posterior in POSTERIORS.items():
    cases.add(f"posterior, {name}, to_dict", then(posterior, "to_dict"))
    cases.add(f"posterior, {name}, describe", then(posterior, "describe"))
    made = call("gpbounds.pacbayes.Certificate.issue", **BASE, posterior=posterior)
    cases.add(f"certificate, {name}", then(made, "to_dict"), LOOSER)
    cases.add(f"certificate, {name}, check", then(made, "check", X=L.X, y=L.y))
    cases.add(f"certificate, {name}, other data", then(made, "check", X=L.X, y=L.y + 1e-9))
    cases.add(f"certificate, {name}, about", reading(made, "count", "rigorous", "statement"))
MORE = {
    "squared": {"posterior": POSTERIORS["exact"], "loss": SQUARED},
    "charges": {"posterior": POSTERIORS["sparse"], "charges": [pac("Charge", choice="kernel families", count=2)]},
    "scaled": {"posterior": POSTERIORS["exact"], "inputs": AHEAD, "outputs": CHARGED},
    "not rigorous": {"posterior": POSTERIORS["exact"], "outputs": SAME, "nonrigorous": True},
}
for name, arguments in MORE.items():
    made = call("gpbounds.pacbayes.Certificate.issue", **{**BASE, **arguments})
    cases.add(f"certificate, {name}", then(made, "to_dict"), LOOSER)
    cases.add(f"certificate, {name}, check", then(made, "check", X=L.X, y=L.y))


def exact(kernel: Any, X: Any, y: Any) -> Any:
    """A rule that rebuilds Q."""
    return evaluate(POSTERIORS["exact"])


def sparse(kernel: Any, X: Any, y: Any) -> Any:
    return evaluate(pac("Sparse", Z=X[::12], noise=0.2, jitter=1e-6))


rest = {key: BASE[key] for key in ("X", "y", "grid", "loss", "delta")}
cases.add("certify", then(pac("issue_certificate", **rest, kernel=se(0.73, 0.41), rebuild=exact), "to_dict"), LOOSER)
cases.add(
    "certify, sparse", then(pac("issue_certificate", **rest, kernel=se(1.9, 1.2), rebuild=sparse), "to_dict"), LOOSER
)
plain = {**rest, "X": P.X, "y": P.y, "grid": ARD}
cases.add(
    "certify, ard",
    then(
        pac("issue_certificate", **plain, kernel=matern(1.5, 1.0, [1.0, 2.0, 30.0]), rebuild=exact, inputs=SPLIT),
        "to_dict",
    ),
    LOOSER,
)
for seed in range(3):
    p, r = numbers(6, seed=seed), numbers(6, seed=40 + seed)
    nats = 10.0 ** numbers(6, seed=50 + seed, low=-8.0, high=1.0)
    cases.add(f"kl, seed {seed}", pac("kl", q=p, p=r))
    cases.add(
        f"kl_inverse, seed {seed}", [pac("kl_inverse", q=p, divergence=nats, side=side) for side in ("upper", "lower")]
    )
    cases.add(f"kl_inverse_gradient, seed {seed}", slopes(pac("kl_inverse", q=p, divergence=nats, gradient=True)))
    cases.add(f"bound, seed {seed}", pac("bound", risk=p, kl=100.0 * r, N=1000, delta=0.05))
    cases.add(f"bayes_factor, seed {seed}", pac("bayes_factor", epsilon=nats, std=p))
    cases.add(f"mixture_kl, seed {seed}", pac("mixture_kl", kl=10.0 * nats, log_prior_penalty=np.log(6.0)))
    cases.add(f"xi, seed {seed}", pac("xi", N=np.floor(10.0 ** (9.0 * p))))
    cases.add(f"log_penalty, seed {seed}", pac("log_penalty", N=np.floor(10.0 ** (9.0 * p)), delta=r))
    cases.add(
        f"grid_penalty, seed {seed}", pac("grid_penalty", points=np.floor(1.0 + 2000.0 * p), hyperparameters=seed + 1)
    )
