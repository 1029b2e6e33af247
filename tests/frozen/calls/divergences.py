"""Divergences of Gaussian laws, and posteriors in whitened form: KL to the prior, predictions, rounding allowances."""

from __future__ import annotations

from typing import Any

import numpy as np
from data import covariance, line, normal, plane, repeated, triangle
from language import BITS, BLAS, Call, Cases, added, call, matern, reading, se, then

cases = Cases("divergences", BLAS)


def divergence(name: str, /, **arguments: Any) -> Call:
    return call(f"gpbounds.divergences.{name}", **arguments)


def trend(points: Any) -> Any:
    """A prior mean."""
    return 0.1 * points[:, 0]


A, B = covariance(5), covariance(5, seed=1)
a, b = normal(5), normal(5, seed=1)
laws = {"mean1": a, "cov1": A, "mean2": b, "cov2": B}
cases.add("gaussian_kl", divergence("gaussian_kl", **laws))
cases.add("gaussian_kl, numbers", divergence("gaussian_kl", mean1=0.3, cov1=2.0, mean2=-1.0, cov2=1.0))
cases.add("gaussian_kl, equal", divergence("gaussian_kl", mean1=a, cov1=A, mean2=a, cov2=A))
cases.add("gaussian_kl, near", divergence("gaussian_kl", mean1=a, cov1=A, mean2=a, cov2=A * (1.0 + 1e-4)), "1e-9")
for alpha in (-0.5, 0.0, 0.3, 0.5, 1.0, 1.2, 40.0):
    cases.add(f"gaussian_renyi, {alpha:g}", divergence("gaussian_renyi", **laws, alpha=alpha))
K = covariance(12, seed=2, floor=0.0)
for method in ("eigen", "cholesky"):
    cases.add(
        f"posterior_kl, {method}",
        [divergence("posterior_kl", K=K, y_minus_mean=normal(12, seed=2), noise=s, method=method) for s in (0.05, 1.0)],
    )
    cases.add(
        f"posterior_kl, {method}, singular",
        divergence("posterior_kl", K=np.ones((3, 3)), y_minus_mean=[2.0, 2.0, 1.0], noise=0.5, method=method),
    )
cases.add("posterior_kl, large noise", divergence("posterior_kl", K=K, y_minus_mean=normal(12, seed=2), noise=1e6))
cases.add("sparse_kl", divergence("sparse_kl", Kuu=A, mean=a, covariance=B))
cases.add("sparse_kl, one", divergence("sparse_kl", Kuu=[[1.0]], mean=[1.0], covariance=[[2.0]]))
C = triangle(6)
cases.add("whitened_kl", divergence("whitened_kl", mean=normal(6, seed=3), factor=C), BITS)
cases.add("whitened_kl, prior", divergence("whitened_kl", mean=np.zeros(4), factor=np.eye(4)), BITS)

L, P, R = line(), plane(), repeated()
ON = {
    "line": ({"kernel": se(1.3, 0.9), "X": L.X, "y": L.y, "noise": 0.1}, L),
    "plane": ({"kernel": matern(1.5, 1.0, [1.0, 2.0, 3.0]), "X": P.X, "y": P.y, "noise": 0.2}, P),
    "repeated": ({"kernel": added(se(1.0, 1.5), matern(0.5, 0.2)), "X": R.X, "y": R.y, "noise": 0.3}, R),
}
ERRORS = "0.5"
"""Rounding allowances are estimates of rounding, and move with it."""


def posterior(label: str, made: Any, data: Any) -> None:
    """KL and predictions of a posterior, and what rounding may have done to them."""
    cases.add(f"{label}, kl", reading(made, "kl"))
    cases.add(f"{label}, kl_rounding", reading(made, "kl_rounding"), ERRORS)
    prediction = then(made, "predict", X=data.new)
    cases.add(f"{label}, predict", reading(prediction, "mean", "variance"))
    cases.add(f"{label}, allowances", reading(prediction, "mean_error", "variance_error"), ERRORS)


for name, (options, data) in ON.items():
    posterior(f"full_posterior, {name}", divergence("full_posterior", **options), data)
    for alpha in (0.0, 0.5, 1.0):
        made = divergence("collapsed_posterior", **options, Z=data.Z, power=alpha)
        posterior(f"collapsed_posterior, {name}, {alpha:g}", made, data)
    cases.add(
        f"full_posterior, {name}, at the data",
        reading(then(divergence("full_posterior", **options), "predict"), "mean", "variance"),
    )
options, data = ON["line"]
posterior("full_posterior, trend", divergence("full_posterior", **options, prior_mean=trend, entry_error=1e-12), data)
made = divergence("collapsed_posterior", **options, Z=L.Z, power=1.0, prior_mean=trend, jitter=1e-6, chunk=7)
posterior("collapsed_posterior, trend", made, data)
cases.add("collapsed_posterior, trend, law of u", then(made, "inducing_law"))
cases.add("collapsed_posterior, trend, jitter", reading(made, "jitter", "mean", "factor"))
covariance_u = 0.5 * covariance(6, seed=4)
free = divergence("free_posterior", kernel=se(1.0, 0.8), Z=L.Z, mean=normal(6, seed=4), covariance=covariance_u)
posterior("free_posterior", free, data)
cases.add("free_posterior, law of u", then(free, "inducing_law"))
posterior(
    "free_posterior, trend",
    divergence(
        "free_posterior",
        kernel=se(1.0, 0.8),
        Z=L.Z,
        mean=normal(6, seed=4),
        covariance=covariance_u,
        prior_mean=trend,
        jitter=1e-8,
    ),
    data,
)
whitened = divergence("whitened_posterior", kernel=matern(2.5), Z=L.Z, mean=normal(6, seed=5), factor=C)
posterior("whitened_posterior", whitened, data)
cases.add("whitened_posterior, chunks", reading(then(whitened, "predict", X=L.X, chunk=4), "mean", "variance"))
posterior(
    "whitened_posterior, jitter",
    divergence(
        "whitened_posterior",
        kernel=se(),
        Z=[[0.0], [0.0], [1.0]],
        mean=[0.0, 1.0, 2.0],
        factor=triangle(3),
        jitter="auto",
    ),
    data,
)
for seed in range(3):
    S, B = covariance(4, seed=10 + seed), covariance(4, seed=20 + seed)
    cases.add(f"sparse_kl, seed {seed}", divergence("sparse_kl", Kuu=S, mean=normal(4, seed=seed), covariance=B))
    triangular = {"mean": normal(5, seed=seed), "factor": triangle(5, seed=30 + seed)}
    cases.add(f"whitened_kl, seed {seed}", divergence("whitened_kl", **triangular), BITS)
