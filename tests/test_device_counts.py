"""What a pass over the data asks of a GPU for each chunk of rows, counted by the stand-in for CuPy."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone

from fitting import ExactGP, LowRankGP, SparseGP, SparsePACGP, VariationalGP
from fitting.bounds import free_bound, risk_bound
from fitting.features import FeatureKernel, FourierMap, MercerMap, MixedMap
from fitting.features.hilbert_space import Box, HilbertMap
from fitting.iterative.evidence import IterativeEvidence
from fitting.objectives import blocks
from fitting.objectives.collapsed import member
from fitting.objectives.goals import Evidence, ExpectedLosses
from fitting.objectives.laws import FreeLaw, LowRankLaw
from fitting.objectives.objective import Objective, objective, variational_objective
from fitting.objectives.point import Parameters
from gpbounds.arrays import Array, namespace
from gpbounds.errors import NonFinite, NotPositiveDefinite
from gpbounds.iterative.solves import EVERY, blocks_of, solver
from gpbounds.kernels import Matern, Periodic, RationalQuadratic, SquaredExponential
from gpbounds.law import FactorLaw
from gpbounds.likelihoods import Bernoulli, Gaussian, Poisson, StudentT
from gpbounds.linalg.krylov import Lanczos, conjugate_gradients
from gpbounds.linalg.psd import cholesky_unread
from gpbounds.losses import Band, Exponential, Interval, Relative, Sign, Squared
from gpbounds.readings import Readings
from gpbounds.vecchia import Blocks, factor
from gpbounds.whitening import whiten

pytestmark = pytest.mark.standin

ROWS = 40
SE, ROUGH = SquaredExponential(0.7, [0.9, 1.4]), Matern(1.5, 0.3, 0.8)
KERNELS = {"SE": SE, "rough": ROUGH, "roughest": Matern(0.5), "both": (SE + ROUGH) * Matern(2.5)}
LOSSES = [
    *(Band(0.5), Squared(0.5), Exponential(0.5), Relative(0.4), Sign()),
    *(Interval(-0.3, 0.5), Interval(-0.3, 0.5, True)),
]


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
        B = risk_bound(
            X, namespace(y).sign(y - 2.0) if loss == Sign() else y, loss, delta=0.05, method=method, chunk=ROWS
        )
        return lambda: B.evaluate(SE, 0.2, Z)

    each = per_chunk(cupy, counts, make)
    assert each["launch"] <= 60
    assert without_transfers(each)


@pytest.mark.parametrize("loss", [Band(0.5), Squared(0.5)], ids=str)
def test_free_bound(cupy, counts, Z, loss) -> None:
    def make(X, y):
        B = free_bound(X, y, loss, delta=0.05, chunk=ROWS)
        return lambda: B.evaluate(SE, 1.0, Z, cupy.zeros((7, 1)), 0.5 * cupy.eye(7))

    each = per_chunk(cupy, counts, make)
    assert each["launch"] <= 25
    assert without_transfers(each)


COUNTS, LABELS = [Poisson(), Poisson("softplus")], [Bernoulli("probit"), Bernoulli("logit")]
LIKELIHOODS = [Gaussian(0.1), *COUNTS, *LABELS, StudentT(4.0, 0.5)]


@pytest.mark.parametrize("objective", ["elbo", "log-loss", "power"])
@pytest.mark.parametrize("likelihood", LIKELIHOODS, ids=repr)
def test_variational_inference(cupy, counts, Z, likelihood, objective) -> None:
    def make(X, y):
        q = FactorLaw(cupy.zeros((7, 1)), 0.5 * cupy.eye(7))
        J = variational_objective(X, cupy.ones(X.shape[0]), likelihood, objective, power=0.5, chunk=ROWS)
        return lambda: J.minimised(Parameters(SE, likelihood, Z, q))

    each = per_chunk(cupy, counts, make)
    assert each["launch"] <= 55
    assert without_transfers(each)


def objectives(X: Any, y: Any, Z: Any) -> dict[str, tuple[Callable[[], object], int]]:
    """An evaluation of each model, and the number of its reads: after Kuu is factorised, and after each pass.

    The first pass of PIC decides nothing.  A free q has one pass, and the host computes the outer function between its
    losses and its derivatives.
    """
    q = FactorLaw(Z[:, :1] * 0.0, 0.5 * namespace(Z).eye(7))
    at, sparse = Parameters(SE, Gaussian(0.2), Z, q), {"chunk": ROWS}
    models: dict[str, tuple[Any, int]] = {
        "vfe": (objective(X, y, "vfe", **sparse), 3),
        "dtc": (objective(X, y, "dtc", **sparse), 3),
        "fitc": (objective(X, y, "fitc", **sparse), 3),
        "pep": (objective(X, y, "pep", power=0.5, **sparse), 3),
        "pic": (objective(X, y, "pic", blocks=8, **sparse), 2),
        "fitc, fixed jitter": (objective(X, y, "fitc", jitter=1e-6, **sparse), 3),
        "risk": (risk_bound(X, y, Band(0.5), delta=0.05, **sparse), 4),
        "free risk": (free_bound(X, y, Band(0.5), delta=0.05, **sparse), 3),
        "variational": (variational_objective(X, y, Gaussian(0.2), **sparse), 3),
        "power EP for batches": (variational_objective(X, y, Gaussian(0.2), "pep", power=0.5, **sparse), 3),
    }
    return {name: (partial(model.minimised, at), reads) for name, (model, reads) in models.items()}


NAMES = [
    "vfe",
    "dtc",
    "fitc",
    "pep",
    "pic",
    "fitc, fixed jitter",
    "risk",
    "free risk",
    "variational",
    "power EP for batches",
]


@pytest.mark.parametrize("name", NAMES)
def test_one_read_a_pass(cupy, counts, Z, name) -> None:
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((3 * ROWS, 2)), rng.standard_normal(3 * ROWS)
    expected = objectives(X, y, Z.get())[name][0]()
    evaluate, reads = objectives(cupy.asarray(X), cupy.asarray(y), Z)[name]
    counts.clear()
    result = evaluate()
    assert counts["d2h"] == reads
    assert counts["h2d"] <= 3
    assert counts["d2h bytes"] < 8 * 40  # less than one number for each row
    assert result.value == pytest.approx(expected.value, rel=1e-10)
    assert result.gradient.kernel == pytest.approx(expected.gradient.kernel, rel=1e-7)
    assert result.gradient.Z.get() == pytest.approx(expected.gradient.Z, rel=1e-6, abs=1e-9)


@pytest.mark.failed_factor
def test_errors_come_with_the_read(cupy, Z) -> None:
    """Inducing points that are equal, not finite, or so close that only a jitter makes Kuu definite."""
    X, y = cupy.asarray(np.linspace(-2.0, 2.0, 3 * ROWS)[:, None]), cupy.ones(3 * ROWS)
    equal, nan = cupy.asarray([[0.5], [0.5], [1.0]]), cupy.asarray([[0.5], [float("nan")], [1.0]])
    close = np.linspace(-1.0, 1.0, 30)[:, None]
    for make in (objective, partial(risk_bound, loss=Band(0.5), delta=0.05)):
        with pytest.raises(NotPositiveDefinite, match="Kuu"):
            make(X, y, jitter=0.0, chunk=ROWS).evaluate(SquaredExponential(), 0.2, equal)
        with pytest.raises(NonFinite, match="Z: expected finite numbers, got NaN or infinity in row"):
            make(X, y, chunk=ROWS).evaluate(SquaredExponential(), 0.2, nan)
        on_host = make(X.get(), y.get(), chunk=ROWS).evaluate(SquaredExponential(), 0.2, close)
        on_device = make(X, y, chunk=ROWS).evaluate(SquaredExponential(), 0.2, cupy.asarray(close))
        assert 0.0 < on_device.jitter == on_host.jitter


@pytest.mark.failed_factor
def test_an_unread_factor_is_tested_like_a_read_one(cupy) -> None:
    """A matrix of rank 5 and one with NaN are refused, and small pivots are not, whatever the scale."""
    rng = np.random.default_rng(3)
    for scale in (1e-200, 1.0, 1e200):
        for n in (1, 6, 40):
            root = rng.standard_normal((n, n)) * np.logspace(0, -6, n)[:, None]
            good = scale * (root @ root.T + 1e-14 * np.eye(n))
            for matrix in (good, good - 0.5 * scale * np.eye(n), good * np.nan):
                readings = Readings()
                try:
                    expected = np.linalg.cholesky(matrix)
                    definite = bool(np.isfinite(expected).all())
                except np.linalg.LinAlgError:
                    definite = False
                factor = cholesky_unread(cupy.asarray(matrix), 0.0, "A", readings)
                if definite:
                    readings.settle()
                    assert factor.L.get() == pytest.approx(expected, rel=1e-12)
                else:
                    with pytest.raises(NotPositiveDefinite, match="A: expected a positive definite"):
                        readings.settle()


def test_whitening(cupy, counts, Z) -> None:
    """One read for the residuals of all chunks, one of the rows, which are compared with those of Z."""

    def make(X, y):
        return lambda: whiten(SE, X, Z, y, jitter=1e-8, chunk=ROWS)

    each = per_chunk(cupy, counts, make)
    assert each["launch"] <= 25
    assert without_transfers(each)
    assert counts["d2h"] <= 12


@pytest.mark.parametrize("size", [8, 20])
def test_equal_blocks(cupy, counts, Z, size) -> None:
    """A chunk has five blocks or two; the launches are those of one stack."""

    def make(X, y):
        F = objective(X, y, "pic", blocks=size, chunk=ROWS)
        return lambda: F.evaluate(SE, 0.2, Z)

    each = per_chunk(cupy, counts, make)
    assert each["launch"] <= 95
    assert without_transfers(each)


@pytest.mark.parametrize("largest", [512, 10], ids=["stacked", "alone"])
@pytest.mark.parametrize("keep", [2**20, 0], ids=["kept", "computed again"])
def test_blocks_of_several_sizes(cupy, monkeypatch, counts, Z, keep, largest) -> None:
    """Runs of equal blocks, single ones and a block of one row."""
    monkeypatch.setattr(blocks, "LARGEST", largest)
    rng = np.random.default_rng(7)
    labels = np.repeat(np.arange(13), [20] * 5 + [7] * 4 + [1, 1, 50, 60])
    X, y = rng.standard_normal((labels.size, 2)), rng.standard_normal((labels.size, 2))
    for method, options in {"pic": {"blocks": labels}, "renyi": {"alpha": 0.4}}.items():
        near, far = (
            objective(to(X), to(y), method, chunk=ROWS, keep=keep, **options).evaluate(
                KERNELS["both"], 0.2, to(Z.get())
            )
            for to in (np.asarray, cupy.asarray)
        )
        assert far.value == pytest.approx(near.value, rel=1e-11)
        assert far.gradient.kernel == pytest.approx(near.gradient.kernel, rel=1e-9)
        assert far.gradient.noise == pytest.approx(near.gradient.noise, rel=1e-10)
        assert far.gradient.Z.get() == pytest.approx(near.gradient.Z, rel=1e-8, abs=1e-10)


def maps(kernel: SquaredExponential, X: Any) -> dict[str, Any]:
    return {
        "Fourier": FourierMap.drawn(kernel, 20, X, rng=0),
        "Mercer": MercerMap.chosen(kernel, 40, "best", np.array([0.1, -0.3]), np.array([1.0, 2.0])),
        "Hilbert": HilbertMap.within(kernel, 20, Box.around(X)),
        "mixed": MixedMap.drawn(kernel * Periodic(1.5).on([1]) + RationalQuadratic(0.7, 1.2).on([0]), 30, X, rng=0),
    }


@pytest.mark.parametrize("kernel", [SE, SquaredExponential(0.7, 0.8)], ids=["lengthscales", "one lengthscale"])
@pytest.mark.parametrize("name", ["Fourier", "Mercer", "Hilbert", "mixed"])
def test_features(cupy, counts, name, kernel) -> None:
    """Rows far out need the exponents of the eigenfunctions, which are stored separately."""

    def make(X, y):
        at = Parameters(FeatureKernel(features, features.kernel.log_parameters), Gaussian(0.1), None, q(X))
        chunks = objective(X, y, chunk=ROWS).data
        cells = (LowRankLaw(), Evidence()), (FreeLaw(), ExpectedLosses(at.likelihood))
        return [partial(Objective(chunks, law, goal).minimised, at) for law, goal in cells]

    def q(X):
        xp = namespace(X)
        return FactorLaw(xp.full((features.rank, 1), 0.1), 0.5 * xp.eye(features.rank))

    X = 2.0 * np.random.default_rng(6).standard_normal((3 * ROWS, 2))
    X[:3] *= 30.0
    y, features = np.sin(X[:, 0]), maps(kernel, X)[name]
    for place, launches in enumerate((30, 55)):
        each = per_chunk(cupy, counts, lambda X, y, place=place: make(X, y)[place])
        assert each["launch"] <= launches
        assert without_transfers(each)
    for near, far in zip(make(X, y), make(cupy.asarray(X), cupy.asarray(y)), strict=True):
        expected = near()
        counts.clear()
        result = far()
        assert counts["d2h"] == 2
        assert counts["h2d"] <= 2
        assert result.value == pytest.approx(expected.value, rel=1e-10)
        assert result.gradient.kernel == pytest.approx(expected.gradient.kernel, rel=1e-9)


@pytest.mark.parametrize("N", [300, 900])
def test_steps_of_an_iterative_solve(cupy, counts, N) -> None:
    """Two row blocks or eight: a step of conjugate gradients, and a Lanczos step, early or late."""
    rng = np.random.default_rng(8)
    X, B = cupy.asarray(rng.standard_normal((N, 2))), cupy.asarray(rng.standard_normal((N, 2)))
    blocks = blocks_of(SE, X)
    S = solver(SE, X[cupy.asarray(blocks.order)], noise=0.1, blocks=blocks)

    def counted(run: Callable[[], object]) -> Counter[str]:
        counts.clear()
        run()
        return Counter(counts)

    def solved(steps: int) -> Array:
        enough = lambda energies: bool((energies.get() < 0.0).all())  # noqa: E731
        return conjugate_gradients(S.K.times, S.preconditioner.solve, B, enough=enough, steps=steps, every=EVERY)

    solved(1)
    few, many = counted(lambda: solved(8)), counted(lambda: solved(16))
    assert many["launch"] - few["launch"] <= 8 * 40
    assert many["d2h"] - few["d2h"] == 1
    assert many["h2d"] == many["sync"] == 0
    run = Lanczos(lambda V: S.preconditioner.U.times(S.K.times(S.preconditioner.U.transposed_times(V))), B)
    run.advance(3)
    for _ in range(2):
        step = counted(lambda: run.advance(1))
        assert step["launch"] <= 60
        assert without_transfers(step)
        run.advance(5)
    assert counted(run.tridiagonal)["d2h"] == 1


def test_an_iterative_evaluation(cupy, counts) -> None:
    """Two reads for the factor of each block, and few besides; uploads do not depend on the number of blocks."""
    rng, totals = np.random.default_rng(8), []
    for N in (1100, 1900):
        X = rng.standard_normal((N, 2))
        y = np.sin(X[:, 0]) + 0.3 * rng.standard_normal(N)
        data, at = objective(cupy.asarray(X), cupy.asarray(y), "exact").data, Parameters(SE, Gaussian(0.1))
        J = IterativeEvidence(data, member("exact")).prepared(at, (1, 2))
        counts.clear()
        J.minimised(at)
        totals.append((len(J.frozen.blocks.parts), counts["d2h"], counts["h2d"]))
    (few, reads, uploads), (many, more_reads, more_uploads) = totals
    assert few < many
    assert more_reads - reads <= 2 * (many - few)
    assert reads - 2 * few <= 10
    assert more_uploads == uploads <= 12


def test_products_of_a_stacked_factor(cupy) -> None:
    """Those of the host, for blocks and sets of several sizes, and rows that are in many sets or in none."""
    rng = np.random.default_rng(9)
    parts = [slice(0, 3), slice(3, 4), slice(4, 9), slice(9, 14)]
    sets = [np.arange(0), np.array([1]), np.array([0, 1, 3]), np.array([1, 3, 5, 6, 8])]
    blocks, X = Blocks(np.arange(14), parts, sets), rng.standard_normal((14, 2))
    near, far = (factor(SE, to(X), noise=0.3, blocks=blocks) for to in (np.asarray, cupy.asarray))
    V = rng.standard_normal((14, 3))
    for name in ("times", "transposed_times"):
        expected = getattr(near, name)(V)
        np.testing.assert_allclose(getattr(far, name)(cupy.asarray(V)).get(), expected, rtol=1e-13, atol=1e-14)


MODELS = {
    "sparse": SparseGP("vfe", n_inducing=6, max_iter=3, device="cuda", random_state=0),
    "normalised": SparseGP("fitc", n_inducing=6, max_iter=3, device="cuda", normalize_y=True, random_state=0),
    "exact": ExactGP(max_iter=3, device="cuda", random_state=0),
    "certified": SparsePACGP(epsilon=0.6, n_inducing=6, max_iter=3, device="cuda", random_state=0),
    "variational": VariationalGP(n_inducing=6, max_iter=3, device="cuda", random_state=0),
    "low rank": LowRankGP(rank=8, max_iter=3, device="cuda", random_state=0),
}


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("there", [False, True], ids=["from the host", "there already"])
@pytest.mark.parametrize("name", MODELS)
def test_a_fit_moves_the_rows_once(cupy, monkeypatch, name, there) -> None:
    """NumPy arrays go to the device once and never come back; CuPy arrays are copied to the host, and stay there."""
    moves: list[tuple[str, tuple[int, ...]]] = []

    def copied(direction: str, array: np.ndarray) -> np.ndarray:
        moves.append((direction, array.shape))
        return array

    for module in (cupy._functions, cupy._ndarray):
        monkeypatch.setattr(module, "copied", copied)
    rng = np.random.default_rng(4)
    N, D = 701, 3
    X = rng.standard_normal((N, D))
    y = np.sin(X[:, 0]) + 0.1 * rng.standard_normal(N)
    arrays = (cupy.asarray(X), cupy.asarray(y)) if there else (X, y)
    moves.clear()
    model = clone(MODELS[name]).fit(*arrays)
    whole = [(direction, shape) for direction, shape in moves if shape == (N, D)]
    assert whole == [("d2h" if there else "h2d", (N, D))]
    assert not [shape for direction, shape in moves if len(shape) == 2 and shape[0] > 100 and shape != (N, D)]
    assert not [held for held in vars(model) if "placed" in held]
