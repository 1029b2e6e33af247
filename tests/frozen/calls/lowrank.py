"""Low rank: exact divergences, Prop. 1, the best of a rank, Fourier and Mercer features, and the ranks that suffice."""

from __future__ import annotations

from typing import Any

import numpy as np
from data import covariance, decay, line, normal, numbers, plane
from language import BITS, BLAS, Call, Cases, Seeded, call, gaussian, matern, part, reading, se, then, uniform

cases = Cases("lowrank", BITS)


def lowrank(name: str, /, **arguments: Any) -> Call:
    return call(f"gpbounds.lowrank.{name}", **arguments)


K = covariance(12)
Xi = np.linalg.cholesky(K)
FEATURES = {"rank 1": Xi[:, :1], "rank 4": Xi[:, :4], "scaled": 1.2 * Xi, "others": 0.5 * normal(12, 5, seed=8)}
for name, features in FEATURES.items():
    for noise in (0.01, 1.0):
        cases.add(f"kl, {name}, noise {noise:g}", lowrank("kl", K=K, Sigma=features @ features.T, noise=noise), "1e-10")
        cases.add(
            f"kl_features, {name}, noise {noise:g}",
            lowrank("kl_features", K=K, features=features, noise=noise),
            "1e-10",
        )
        if name in ("scaled", "others"):  # else K - Sigma is positive semi-definite, and the least is 0
            cases.add(
                f"least_gamma, {name}, noise {noise:g}",
                lowrank("least_gamma", K=K, Sigma=features @ features.T, noise=noise),
                "1e-10",
            )
cases.add("kl, equal", lowrank("kl", K=K, Sigma=K, noise=0.1))
cases.add("kl, tiny", lowrank("kl", K=1e-15 * K, Sigma=0.0 * K, noise=1.0), BLAS)
cases.add("kl_by_rank", lowrank("kl_by_rank", K=K, features=Xi, noise=0.1, ranks=[1, 3, 11]), "1e-10")
cases.add(
    "kl_by_rank, scales",
    lowrank("kl_by_rank", K=K, features=normal(12, 8, seed=9), noise=0.1, ranks=[2, 8], scales=[0.5, 0.125]),
    "1e-10",
)

GAMMA = np.array([0.0, 1e-9, 0.1, 1.0, 30.0])
for form in ("sharpest", "corrected", "printed"):
    cases.add(
        f"kl_from_excess, {form}",
        lowrank("kl_from_excess", excess=[0.3, 2.0, 9.0], N=[[1], [50]], gamma=0.2, form=form),
    )
    traces = {"trace1": [2.0, 12.0], "trace2": 2.0, "N": 4, "noise": 0.5, "gamma": [[0.0], [0.3]], "form": form}
    cases.add(f"kl_from_traces, {form}", lowrank("kl_from_traces", **traces))
    cases.add(f"kl_from_traces, {form}, least", lowrank("kl_from_traces", **{**traces, "least": 0.4}))
for form in ("sharpest", "printed"):
    cases.add(f"kl_from_ratio, {form}", lowrank("kl_from_ratio", gamma=GAMMA, N=[[1], [1000]], form=form))
    cases.add(
        f"kl_from_residual, {form}",
        lowrank("kl_from_residual", residual=[0.0, 1e-9, 1.0, 1e4], noise=[[0.1], [2.0]], least=0.3, form=form),
    )
    cases.add(f"spectral_kl, {form}", lowrank("spectral_kl", Delta=[0.0, 1e-9, 0.1, 0.5], N=[[1], [1000]], form=form))
cases.add("kappa", lowrank("kappa", delta=[0.0, 1e-12, 0.1, 0.5, 0.999999]))
cases.add("kappa_inverse", lowrank("kappa_inverse", eps=[0.0, 1e-300, 1e-9, 0.01, 3.0, 1e20]))
for name, values in {
    "decaying": decay(9),
    "with zeros": np.append(decay(4), [0.0, 0.0]),
    "unsorted": numbers(6),
}.items():
    cases.add(f"optimal_kl, {name}", lowrank("optimal_kl", eigenvalues=values, noise=0.2))
    cases.add(
        f"optimal_rank, {name}",
        [lowrank("optimal_rank", eigenvalues=values, noise=0.2, target=t) for t in (1e-6, 0.1, 10.0, 1e3)],
    )
cases.add("optimal_kl, of a matrix", lowrank("optimal_kl", eigenvalues=K, noise=0.2), "1e-10")
cases.add("residual_certificate", lowrank("residual_certificate", residual=numbers(9), noise=0.3))
cases.add(
    "residual_certificate, rounding", lowrank("residual_certificate", residual=[-1e-12, 0.1], noise=0.3, rounding=1e-11)
)
cases.add("residual_certificate, trace", lowrank("residual_certificate", residual=0.4, noise=0.5))

# --- features

L, P = line(10, 4), plane(10, 4)
FITTED = {
    "fourier, se": (lowrank("FourierFeatures", kernel=se(2.0, 0.7), rank=6, random_state=0), L),
    "fourier, matern": (
        lowrank("FourierFeatures", kernel=matern(1.5, 1.0, [0.5, 1.0, 2.0]), rank=8, random_state=3),
        P,
    ),
    "fourier, generator": (lowrank("FourierFeatures", kernel=se(), rank=4, random_state=Seeded(4)), L),
    "leverage": (
        lowrank("LeverageFourierFeatures", kernel=se(1.0, 1.5), rank=6, noise=0.01, N=500, width=6.0, random_state=0),
        L,
    ),
    "leverage, plane": (
        lowrank(
            "LeverageFourierFeatures",
            kernel=se(1.0, 2.0),
            rank=4,
            noise=0.1,
            N=200,
            width=[5.0, 6.0, 7.0],
            random_state=1,
        ),
        P,
    ),
    "mercer": (lowrank("MercerFeatures", kernel=se(1.5, 0.8), inputs=gaussian(2.0), rank=7, mean=3.0), L),
    "mercer, best": (
        lowrank("MercerFeatures", kernel=se(1.0, [1.0, 2.0, 0.5]), inputs=gaussian(1.0, dim=3), rank=9),
        P,
    ),
    "mercer, degree": (
        lowrank("MercerFeatures", kernel=se(1.0, [1.0, 2.0, 0.5]), inputs=gaussian(1.0, dim=3), rank=9, order="degree"),
        P,
    ),
}
for name, (features, data) in FITTED.items():
    fitted = then(features, "fit", X=data.X)
    cases.add(f"{name}", then(fitted, "()", X=data.X[:4]), BLAS)
    cases.add(f"{name}, elsewhere", then(fitted, "()", X=data.new), BLAS)
    if name.startswith("mercer"):
        cases.add(f"{name}, about", reading(features, "degrees", "eigenvalues", "tail", "rank"))
        cases.add(f"{name}, residual", then(fitted, "residual_diagonal", X=data.new), BLAS)
    else:
        read = ("frequencies", "amplitudes", "rank", *(("weights",) if name.startswith("leverage") else ()))
        cases.add(f"{name}, about", reading(fitted, *read), BLAS)
cases.add("leverage, density", reading(then(FITTED["leverage"][0], "fit", X=L.X), "density.total", "density.dim"), BLAS)

ETA = np.array([[0.0], [0.5], [2.0], [9.0], [60.0]])
cases.add("leverage_bound", lowrank("leverage_bound", eta=ETA, widths=[1.0], ratio=1e6), BLAS)
cases.add(
    "leverage_bound, plane",
    lowrank("leverage_bound", eta=numbers(5, 2, seed=5, high=3.0), widths=[1.0, 0.3], ratio=1e3),
    BLAS,
)
for name, arguments in {
    "shells": {"widths": [1.0], "ratio": 1e6},
    "plane": {"widths": [0.5, 1.0], "ratio": 1e5},
    "none": {"widths": [50.0], "ratio": 10.0},
}.items():
    density = lowrank("leverage_density", **arguments)
    eta = numbers(6, len(arguments["widths"]), seed=6, low=-3.0, high=3.0)
    cases.add(f"leverage_density, {name}", reading(density, "widths", "ratio", "total", "dim"), BLAS)
    for method in ("density", "log_density", "weights"):
        cases.add(f"leverage_density, {name}, {method}", then(density, method, eta=eta), BLAS)
    cases.add(f"leverage_density, {name}, draws", then(density, "sample", m=5, rng=Seeded(2)), BLAS)

# --- ranks that suffice

FOURIER = {
    "leverage": {"kernel": se(1.0, 0.2), "N": 1000, "noise": 0.1, "width": 1.0},
    "classical": {"kernel": se(1.0, 0.2), "N": 1000, "noise": 0.1, "features": "classical"},
    "matern": {"kernel": matern(1.5, 1.0, 0.5), "N": 5000, "noise": 1.0, "features": "classical", "delta": 0.2},
    "plane": {"kernel": se(1.0, [1.0, 2.0]), "N": 10**5, "noise": 0.5, "width": [1.0, 3.0]},
    "effective dimension": {"kernel": se(1.0, 0.2), "N": 1000, "noise": 0.1, "width": 1.0, "effective_dimension": 8.0},
}
for name, arguments in FOURIER.items():
    cases.add(f"fourier_kl, {name}", lowrank("fourier_kl", **arguments, m=[50, 1000, 10**5]), BLAS)
for method in ("sharpest", "classical", "frobenius", "spectral", "printed"):
    options = {"kernel": se(), "N": 10**9, "noise": 1.0, "eps": 1e-6, "width": 10.0, "method": method}
    cases.add(f"fourier_rank, {method}", lowrank("fourier_rank", **options), BLAS)
    cases.add(
        f"fourier_rank, {method}, coarse",
        lowrank("fourier_rank", **{**options, "N": 10**6, "eps": 0.05, "delta": 0.01}),
        BLAS,
    )
cases.add("fourier_rank, matern", lowrank("fourier_rank", kernel=matern(2.5), N=10**7, noise=1.0, eps=1e-3), BLAS)
cases.add("fourier_rank, none", lowrank("fourier_rank", kernel=se(), N=100, noise=0.1, eps=1e-6, width=1.0), BLAS)
MERCER = {
    "gaussian": {"kernel": se(), "inputs": gaussian(), "N": 1000, "noise": 0.1},
    "in expectation": {"kernel": se(), "inputs": gaussian(), "N": 1000, "noise": 0.1, "delta": None},
    "printed": {"kernel": se(), "inputs": gaussian(), "N": 1000, "noise": 0.1, "form": "printed"},
    "printed, in expectation": {
        "kernel": se(),
        "inputs": gaussian(),
        "N": 1000,
        "noise": 0.1,
        "delta": None,
        "form": "printed",
    },
    "plane": {"kernel": se(1.0, [0.5, 2.0]), "inputs": gaussian(1.0, 2), "N": 10**6, "noise": 0.2},
    "uniform": {"kernel": se(1.0, 0.3), "inputs": uniform(), "N": 10**4, "noise": 0.1},
    "matern": {"kernel": matern(0.5), "inputs": uniform(), "N": 1000, "noise": 0.1},
}
for name, arguments in MERCER.items():
    cases.add(f"mercer_kl, {name}", lowrank("mercer_kl", **arguments, r=[0, 5, 10, 20]))
    cases.add(f"mercer_rank, {name}", lowrank("mercer_rank", **arguments, eps=1e-3))
cases.add(
    "mercer_kl, arrays",
    lowrank("mercer_kl", kernel=se(), inputs=gaussian(), N=[[100], [10**6]], r=[3, 9], noise=0.1, delta=0.5),
)
cases.add("mercer_rank, none", lowrank("mercer_rank", kernel=matern(0.5), inputs=uniform(), N=50, noise=0.01, eps=1e-9))
cases.add(
    "mercer_rank, rank", part(lowrank("mercer_rank", kernel=se(), inputs=gaussian(), N=10**9, noise=0.1, eps=1e-3), "M")
)
for seed in range(3):
    share, far = numbers(6, seed=seed), 10.0 ** numbers(6, seed=10 + seed, low=-14.0, high=2.0)
    cases.add(f"kappa, seed {seed}", lowrank("kappa", delta=share))
    cases.add(f"kappa_inverse, seed {seed}", lowrank("kappa_inverse", eps=far))
    cases.add(f"spectral_kl, seed {seed}", lowrank("spectral_kl", Delta=share, N=100 + seed))
    cases.add(f"kl_from_ratio, seed {seed}", lowrank("kl_from_ratio", gamma=far, N=7))
    cases.add(f"kl_from_residual, seed {seed}", lowrank("kl_from_residual", residual=far, noise=share))
    cases.add(
        f"leverage_bound, seed {seed}", lowrank("leverage_bound", eta=far[:, None], widths=[share[0]], ratio=50.0), BLAS
    )
