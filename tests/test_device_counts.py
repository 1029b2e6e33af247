"""What a pass over the data asks of a GPU for each chunk of rows, counted by the stand-in for CuPy."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from fitting.bounds.free import free_bound
from fitting.bounds.problem import risk_bound
from fitting.evaluation import Parameters
from fitting.family import objective
from fitting.variational import variational_objective
from gpbounds.kernels import Matern, SquaredExponential
from gpbounds.law import FactorLaw
from gpbounds.likelihoods import Gaussian, Poisson
from gpbounds.losses import Band, Exponential, Interval, Relative, Squared

pytestmark = pytest.mark.standin

ROWS = 40
SE, ROUGH = SquaredExponential(0.7, [0.9, 1.4]), Matern(1.5, 0.3, 0.8)
KERNELS = {"SE": SE, "rough": ROUGH, "roughest": Matern(0.5), "both": (SE + ROUGH) * Matern(2.5)}
LOSSES = [Band(0.5), Squared(0.5), Exponential(0.5), Relative(0.4), Interval(-0.3, 0.5), Interval(-0.3, 0.5, True)]


def per_chunk(cupy: Any, counts: Counter[str], make: Callable[[Any, Any], Callable[[], object]]) -> Counter[str]:
    """What ``make(X, y)()`` counts with six chunks of rows beyond what it counts with five."""
    rng = np.random.default_rng(0)
    X, totals = rng.standard_normal((6 * ROWS, 2)), []
    y = np.sin(X[:, 0]) + 2.0
    for chunks in (5, 6):
        evaluate = make(cupy.asarray(X[: chunks * ROWS]), cupy.asarray(y[: chunks * ROWS]))
        counts.clear()
        evaluate()
        totals.append(Counter(counts))
    return Counter({name: totals[1][name] - totals[0][name] for name in totals[1]})


def without_transfers(count: Counter[str]) -> bool:
    return not any(count[name] for name in ("d2h", "h2d", "sync"))


@pytest.fixture
def Z(cupy: Any) -> Any:
    return cupy.asarray(np.random.default_rng(1).standard_normal((7, 2)))


@pytest.mark.parametrize("keep", [2**20, 0], ids=["kept", "computed again"])
@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
def test_vfe(cupy, counts, Z, kernel, keep) -> None:
    def make(X, y):
        F = objective(X, y, chunk=ROWS, keep=keep)
        return lambda: F.evaluate(kernel, 0.2, Z)

    each = per_chunk(cupy, counts, make)
    assert each["launch"] <= 25
    assert without_transfers(each)


@pytest.mark.parametrize("method", ["fitc", "dtc", "pep"])
def test_other_sparse_models(cupy, counts, Z, method) -> None:
    def make(X, y):
        F = objective(X, y, method, power=0.5 if method == "pep" else None, chunk=ROWS)
        return lambda: F.evaluate(SE, 0.2, Z)

    each = per_chunk(cupy, counts, make)
    assert each["launch"] <= 60
    assert without_transfers(each)


@pytest.mark.parametrize("method", ["fitc", "vfe"])
@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_risk_pass(cupy, counts, Z, loss, method) -> None:
    def make(X, y):
        B = risk_bound(X, y, loss, delta=0.05, method=method, chunk=ROWS)
        return lambda: B.evaluate(SE, 0.2, Z)

    each = per_chunk(cupy, counts, make)
    assert each["launch"] <= 60
    assert without_transfers(each)


@pytest.mark.parametrize("loss", [Band(0.5), Squared(0.5)], ids=str)
def test_free_bound(cupy, counts, Z, loss) -> None:
    def make(X, y):
        B = free_bound(X, y, loss, delta=0.05, chunk=ROWS)
        return lambda: B.evaluate(SE, Z, cupy.zeros((7, 1)), 0.5 * cupy.eye(7))

    each = per_chunk(cupy, counts, make)
    assert each["launch"] <= 25
    assert without_transfers(each)


@pytest.mark.parametrize("likelihood", [Gaussian(0.1), Poisson()], ids=repr)
def test_variational_inference(cupy, counts, Z, likelihood) -> None:
    def make(X, y):
        q = FactorLaw(cupy.zeros((7, 1)), 0.5 * cupy.eye(7))
        J = variational_objective(X, cupy.ones(X.shape[0]), likelihood, chunk=ROWS)
        return lambda: J.minimised(Parameters(SE, likelihood, Z, q))

    each = per_chunk(cupy, counts, make)
    assert each["launch"] <= 45
    assert without_transfers(each)


def test_a_pass_reads_and_uploads_little(cupy, counts, Z) -> None:
    """What is left does not depend on the number of chunks: factorisations, sums and the gradient."""
    F = objective(cupy.asarray(np.linspace(0.0, 3.0, 90)[:, None]), cupy.asarray(np.ones(90)), chunk=30)
    counts.clear()
    F.evaluate(SquaredExponential(), 0.2, Z[:, :1])
    assert counts["d2h"] <= 22
    assert counts["h2d"] <= 2
    assert counts["d2h bytes"] < 8 * 90  # less than one number for each row
