"""Launches, reads and uploads of a GPU for each chunk of rows or step, counted by the stand-in for CuPy:

    PYTHONPATH=tests/standin:. python benchmarks/bench_launches.py

For every model it prints what value and gradient ask of the device for one more chunk of rows, and what an evaluation
asks for besides: factorisations, sums and the gradient.  No GPU is needed, and no time is measured.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

ROWS, M = 40, 7
NAMES = ("launch", "d2h", "h2d")


def problem(chunks: int) -> tuple[Any, Any]:
    """X (N, 2) and y (N,) in host memory, the rows of some chunks."""
    X = np.random.default_rng(0).standard_normal((6 * ROWS, 2))
    return X[: chunks * ROWS], (np.sin(X[:, 0]) + 2.0)[: chunks * ROWS]


def models(X: Any, y: Any, Z: Any) -> dict[str, Callable[[], object]]:
    """An evaluation of each model."""
    import cupy

    from fitting.bounds import free_bound, risk_bound
    from fitting.features import FeatureKernel, FourierMap, MercerMap
    from fitting.objectives.goals import Evidence, ExpectedLosses
    from fitting.objectives.laws import FreeLaw, LowRankLaw
    from fitting.objectives.objective import Objective, objective, variational_objective
    from fitting.objectives.point import Parameters
    from gpbounds.kernels import Matern, SquaredExponential
    from gpbounds.law import FactorLaw
    from gpbounds.likelihoods import Bernoulli, Gaussian, Poisson, StudentT
    from gpbounds.losses import Band

    SE, chunk = SquaredExponential(0.7, [0.9, 1.4]), {"chunk": ROWS}
    both, noise = (SE + Matern(1.5, 0.3, 0.8)) * Matern(2.5), Gaussian(0.2)
    q, point = FactorLaw(cupy.zeros((M, 1)), 0.5 * cupy.eye(M)), Parameters(SE, noise, Z)
    family = {
        "VFE": objective(X, y, **chunk),
        "DTC": objective(X, y, "dtc", **chunk),
        "FITC": objective(X, y, "fitc", **chunk),
        "power EP": objective(X, y, "pep", power=0.5, **chunk),
        "PIC, equal blocks": objective(X, y, "pic", blocks=8, **chunk),
        "PAC-Bayes bound, FITC posterior": risk_bound(X, y, Band(0.5), delta=0.05, **chunk),
    }
    evaluations = {name: partial(model.minimised, point) for name, model in family.items()}
    evaluations["VFE, (SE + Matérn) Matérn"] = partial(family["VFE"].minimised, Parameters(both, noise, Z))
    free = free_bound(X, y, Band(0.5), delta=0.05, **chunk)
    evaluations["PAC-Bayes bound, free posterior"] = partial(free.minimised, Parameters(SE, noise, Z, q))
    likelihoods = [
        noise,
        Poisson(),
        Poisson("softplus"),
        Bernoulli("probit"),
        Bernoulli("logit"),
        StudentT(4.0, 0.5),
    ]
    for each in likelihoods:
        J = variational_objective(X, cupy.ones(X.shape[0]), each, **chunk)
        evaluations[f"variational, {each!r}"] = partial(J.minimised, Parameters(SE, each, Z, q))
    maps = {
        "Fourier": FourierMap.drawn(SE, 20, problem(6)[0], rng=0),
        "Mercer": MercerMap.chosen(SE, 20, "best", np.zeros(2), np.ones(2)),
    }
    data = family["VFE"].data
    for name, features in maps.items():
        kernel, law = FeatureKernel(features, SE.log_parameters), FactorLaw(cupy.zeros((20, 1)), cupy.eye(20))
        evaluations[f"low rank, {name} features"] = partial(
            Objective(data, LowRankLaw(), Evidence()).minimised, Parameters(kernel, noise)
        )
        evaluations[f"the same, free q (mini-batches), {name}"] = partial(
            Objective(data, FreeLaw(), ExpectedLosses(noise)).minimised, Parameters(kernel, noise, None, law)
        )
    return evaluations


def counted(run: Callable[[], object]) -> Counter[str]:
    """What one call asks of the device."""
    import cupy

    stats: Counter[str] = cupy._impl.stats
    stats.clear()
    run()
    return Counter(stats)


def steps() -> dict[str, tuple[Counter[str], int]]:
    """Counts of some steps of the iterative solver, and their number."""
    import cupy

    from gpbounds.iterative.solves import EVERY, blocks_of, solver
    from gpbounds.kernels import SquaredExponential
    from gpbounds.linalg.krylov import Lanczos, conjugate_gradients

    rng, kernel = np.random.default_rng(0), SquaredExponential()
    X, B = (cupy.asarray(rng.standard_normal((900, columns))) for columns in (2, 3))
    blocks = blocks_of(kernel, X)
    S = solver(kernel, X[cupy.asarray(blocks.order)], noise=0.1, blocks=blocks)

    def solve(n: int) -> object:
        enough = lambda energies: bool((energies.get() < 0.0).all())  # noqa: E731
        return conjugate_gradients(S.K.times, S.preconditioner.solve, B, enough=enough, steps=n, every=EVERY)

    solve(1)
    gradients = counted(lambda: solve(24))
    gradients.subtract(counted(lambda: solve(8)))
    run = Lanczos(lambda V: S.preconditioner.U.times(S.K.times(S.preconditioner.U.transposed_times(V))), B)
    run.advance(2)
    return {"a step of conjugate gradients": (gradients, 16), "a Lanczos step": (counted(lambda: run.advance(1)), 1)}


def main() -> None:
    try:
        import cupy
    except ImportError:
        cupy = None
    if cupy is None or not cupy.__version__.endswith("+standin"):
        raise SystemExit("bench_launches needs the stand-in for CuPy: PYTHONPATH=tests/standin:.")
    Z = cupy.asarray(np.random.default_rng(1).standard_normal((M, 2)))
    totals: list[dict[str, Counter[str]]] = []
    for chunks in (5, 6):
        evaluations = models(*map(cupy.asarray, problem(chunks)), Z)
        totals.append({name: counted(run) for name, run in evaluations.items()})
    print("| a chunk of | launches | reads, uploads | an evaluation besides: launches | reads, uploads |")
    print("|---|---|---|---|---|")
    for name in totals[0]:
        each = {kind: totals[1][name][kind] - totals[0][name][kind] for kind in NAMES}
        rest = {kind: totals[0][name][kind] - 5 * each[kind] for kind in NAMES}
        print(
            f"| {name} | {each['launch']} | {each['d2h']}, {each['h2d']} "
            f"| {rest['launch']} | {rest['d2h']}, {rest['h2d']} |"
        )
    for name, (count, number) in steps().items():
        launches, reads, uploads = (count[kind] / number for kind in NAMES)
        print(f"| {name} | {launches:g} | {reads:g}, {uploads:g} | | |")


if __name__ == "__main__":
    main()
