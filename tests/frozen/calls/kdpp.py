"""k-DPPs: exact expectations, bounds, samplers by seed, and the choice of inducing points."""

from __future__ import annotations

from typing import Any

import numpy as np
from data import covariance, decay, line, normal, numbers, plane, repeated
from language import BITS, BLAS, Call, Cases, Seeded, added, call, matern, part, reading, se, then

cases = Cases("kdpp", BITS)


def kdpp(name: str, /, **arguments: Any) -> Call:
    return call(f"gpbounds.kdpp.{name}", **arguments)


SPECTRA = {
    "few": np.array([3.0, 2.0, 1.0]),
    "decaying": decay(20),
    "with zeros": np.concatenate([decay(8, 0.3), np.zeros(4)]),
    "extreme": np.array([1e300, 1e-300, 1.0, 1e10, 1e-10]),
}
for name, values in SPECTRA.items():
    cases.add(f"log_esp, {name}", kdpp("log_esp", eigenvalues=values, k_max=len(values) + 1))
    M = [[0, 1], [2, 3]]
    cases.add(f"expected_trace, {name}", kdpp("expected_trace", eigenvalues=values, M=M))
    cases.add(f"expected_esp, {name}", kdpp("expected_esp", eigenvalues=values, M=M, j=[1, 2]))
    options = {"eigenvalues": values, "M": [0, 1, 2], "c": [[1e-3], [1.0], [50.0]]}
    cases.add(f"log_expected_determinant, {name}", kdpp("log_expected_determinant", **options))
    if name != "extreme":
        cases.add(f"annealed_trace, {name}", kdpp("annealed_trace", eigenvalues=values, N=[10, 1000], M=2))
        cases.add(
            f"nystrom_tv, {name}", [kdpp("nystrom_tv", eigenvalues=values, trace=t, M=2) for t in (0.0, 1e-9, 0.1)]
        )
        cases.add(
            f"rounding_tv, {name}",
            [kdpp("rounding_tv", eigenvalues=values, rounding=r, M=2) for r in (0.0, 1e-14, 0.4)],
        )
        for form in ("sharpest", "printed"):
            options = {"eigenvalues": values, "M": [[0], [2]], "noise": 0.5, "alpha": [0.3, 1.0], "form": form}
            cases.add(f"expected_logdet_bound, {name}, {form}", kdpp("expected_logdet_bound", **options))
cases.add("nystrom_tv, few eigenvalues", kdpp("nystrom_tv", eigenvalues=[2.0], trace=0.1, M=3))
tails = np.append(np.cumsum(decay(12)[::-1])[::-1], 0.0)
for form in ("sharpest", "printed"):
    cases.add(f"trace_bound, {form}", kdpp("trace_bound", tails=tails, M=[0, 3, 11], form=form))
    cases.add(f"tv_term, {form}", kdpp("tv_term", N=[100, 10**6], M=10, variance=2.0, tv=[[0.0], [1e-3]], form=form))
cases.add("trace_bound, flat", kdpp("trace_bound", tails=np.linspace(1.0, 0.0, 30), M=[1, 20]))

K = covariance(15)
L, P, R = line(30), plane(60), repeated()
for M in (0, 1, 7):
    cases.add(f"greedy, {M}", kdpp("greedy", K=K, M=M))
    cases.add(f"residual_trace, {M}", kdpp("residual_trace", K=K, indices=list(range(0, 2 * M, 2))), BLAS)
    cases.add(f"sample, {M}", [kdpp("sample", K=K, M=M, rng=seed) for seed in range(4)])
values, vectors = np.linalg.eigh(K)
cases.add(
    "sample_eigen", [kdpp("sample_eigen", eigenvalues=values, eigenvectors=vectors, M=5, rng=s) for s in range(4)]
)
cases.add(
    "sample_eigen, low rank",
    kdpp("sample_eigen", eigenvalues=values[-6:], eigenvectors=vectors[:, -6:], M=3, rng=Seeded(1)),
)
cases.add("sample_factor", [kdpp("sample_factor", V=normal(25, 6, seed=3), M=4, rng=s) for s in range(4)])
cases.add("sample_factor, all", kdpp("sample_factor", V=normal(25, 6, seed=3), M=6, rng=Seeded(5)))
short = se(1.0, 0.4)
DRAW = ("indices", "tv", "method", "steps")
exact = {"kernel": short, "X": L.X, "M": 5}
cases.add("sample_kernel", [reading(kdpp("sample_kernel", **exact, rng=s), *DRAW) for s in range(3)], BLAS)
cases.add("sample_kernel, rounding", part(kdpp("sample_kernel", **exact, rng=0), "rounding"), "0.5")
repeats = kdpp("sample_kernel", kernel=matern(0.5), X=R.X, M=6, rng=2)
cases.add("sample_kernel, rows that repeat", reading(repeats, *DRAW), BLAS)
options = {"kernel": short, "X": L.X, "M": 4, "method": "mcmc"}
cases.add(
    "sample_kernel, mcmc", [reading(kdpp("sample_kernel", **options, rng=s, tv=0.05), *DRAW) for s in range(3)], BLAS
)
cases.add("sample_kernel, few steps", reading(kdpp("sample_kernel", **options, rng=0, max_steps=3), *DRAW), BLAS)
cases.add("ridge_leverage", kdpp("ridge_leverage", kernel=short, X=L.X, ridge=0.1), BLAS)
cases.add(
    "ridge_leverage, landmarks", kdpp("ridge_leverage", kernel=short, X=L.X, ridge=0.1, landmarks=[0, 8, 20]), BLAS
)

ard = se(1.0, [1.0, 2.0, 1.5])
mixed = added(se(1.0, 2.0), matern(1.5, 0.5, 1.0))
for label, arguments in {
    "greedy": {"kernel": ard, "X": P.X, "M": 9},
    "greedy, mixed": {"kernel": mixed, "X": L.X, "M": 6},
    "greedy, trace": {"kernel": ard, "X": P.X, "M": 40, "trace": 20.0},
    "greedy, trace out of reach": {"kernel": ard, "X": P.X, "M": 4, "trace": 1e-3},
    "greedy, rows that repeat": {"kernel": matern(0.5), "X": R.X, "M": 18},
    "kdpp": {"kernel": ard, "X": P.X, "M": 6, "method": "kdpp", "rng": 1},
    "kdpp, low rank": {"kernel": ard, "X": P.X, "M": 5, "method": "kdpp", "rng": 1, "rank": 30},
    "leverage": {"kernel": ard, "X": P.X, "M": 6, "method": "leverage", "rng": 2},
    "leverage, ridge": {"kernel": ard, "X": P.X, "M": 6, "method": "leverage", "rng": 2, "ridge": 0.1, "rank": 20},
    "leverage, trace": {"kernel": ard, "X": P.X, "M": 50, "method": "leverage", "rng": 2, "trace": 15.0},
    "uniform": {"kernel": ard, "X": P.X, "M": 6, "method": "uniform", "rng": Seeded(3)},
    "uniform, trace": {"kernel": ard, "X": P.X, "M": 50, "method": "uniform", "rng": 3, "trace": 15.0},
    "uniform, jitter": {"kernel": se(1.0, 3.0), "X": L.X, "M": 12, "method": "uniform", "rng": 3, "jitter": 1e-6},
    "kmeans": {"kernel": ard, "X": P.X, "M": 6, "method": "kmeans", "rng": 4},
}.items():
    cases.add(
        f"select, {label}", kdpp("select", **arguments), "1e-9" if "jitter" in label or "leverage" in label else BLAS
    )
cases.add("select, reached", reading(kdpp("select", kernel=ard, X=P.X, M=40, trace=20.0), "M", "reached"))
cases.add("select, then the exact gap", then(ard, "()", X1=P.X[:3]), BLAS)
for seed in range(3):
    ridges = {"kernel": matern(1.5, 1.0, 0.5), "X": P.X, "ridge": 10.0 ** (seed - 2)}
    cases.add(f"ridge_leverage, ridge {seed}", kdpp("ridge_leverage", **ridges), BLAS)
    tvs = {"N": [50, 5000], "M": 3 + seed, "variance": 0.7, "tv": numbers(2, seed=seed)}
    cases.add(f"tv_term, seed {seed}", kdpp("tv_term", **tvs))
