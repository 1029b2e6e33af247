"""Feature maps and log p(y) of low-rank GPs: finite differences, dense densities, chunks, lanes, wrong maps."""

from __future__ import annotations

import mpmath as mp
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fitting.features import Composed, FeatureKernel, FourierMap, HilbertMap, MercerMap, MixedMap, Projection, Scaled
from fitting.features.hilbert_space import Box
from fitting.features.transform import Squashed
from fitting.objectives.goals import Evidence
from fitting.objectives.laws import LowRankLaw
from fitting.objectives.objective import Objective, at_point, objective
from fitting.objectives.packing import packing_of
from gpbounds import NonFinite
from gpbounds.arrays import host
from gpbounds.inputs import Gaussian
from gpbounds.kernels import Constant, Kernel, Matern, Periodic, RationalQuadratic, SquaredExponential
from gpbounds.lowrank import (
    FourierFeatures,
    HilbertFeatures,
    LeverageFourierFeatures,
    MercerFeatures,
    log_evidence,
    predict,
)
from tests.blas import blas_threads

pytestmark = pytest.mark.lanes

SEEDS = st.integers(0, 2**32 - 1)
ORDERS = ("best", "degree", "grid")


class Tanh:
    """tanh(XA), with the rows of A as its parameters."""

    rank = 4

    def start(self, X, rng):
        return 0.5 * rng.standard_normal(X.shape[1] * self.rank)

    def __call__(self, parameters, X):
        return np.tanh(X @ parameters.reshape(X.shape[1], self.rank))

    def vjp(self, parameters, X):
        Xi = self(parameters, X)
        return Xi, lambda cotangent: (X.T @ (cotangent * (1.0 - Xi * Xi))).ravel()


def kernels(D: int, rng):
    scales = rng.uniform(0.5, 2.0, D)
    return [SquaredExponential(1.7, scales), SquaredExponential(0.6, 1.3), Matern(1.5, 1.2, scales)]


def mixed(D: int, rng) -> dict[str, Kernel]:
    """Kernels of `MixedMap`: each leaf, one value for all dimensions or one for each, sums, products, columns."""
    each = rng.uniform(0.5, 2.0, (4, D))
    shape = float(10.0 ** rng.uniform(-1.0, 1.5))
    return {
        "rational quadratic": RationalQuadratic(shape, 1.3, each[0]),
        "periodic": Periodic(2.0 * each[1], 0.8, each[2]),
        "periodic, one lengthscale": Periodic(3.0, 0.8, 0.7),
        "sum": Constant(0.5) + Periodic(3.0).on([1]) + Matern(1.5, 1.2, 0.9).on([2]),
        "product": SquaredExponential(1.4, 2.0) * Periodic(each[3], 0.7, 1.1) * Constant(1.5),
        "expanded": (RationalQuadratic(shape).on([0]) + Constant(0.3)) * Periodic(2.5).on([2]),
    }


def maps(seed: int, D: int = 3):
    """One map of every kind, with inputs and parameters at which to test it."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((12, D)) * rng.uniform(0.5, 2.0, D) + rng.standard_normal(D)
    ard, shared, matern = kernels(D, rng)
    projection = Projection.of(X, 2)
    W = rng.standard_normal(2 * D)
    flat = SquaredExponential(1.4, [0.8, 1.9])
    found = {
        "fourier": FourierMap.drawn(ard, 8, X, rng),
        "fourier, one lengthscale": FourierMap.drawn(shared, 6, X, rng),
        "fourier, Matérn": FourierMap.drawn(matern, 8, X, rng),
        "leverage": FourierMap.by_leverage(ard, 8, X, rng, noise=0.1),
        "mercer": MercerMap.chosen(ard, 9, "best", X.mean(axis=0), X.std(axis=0)),
        "mercer, one lengthscale": MercerMap.chosen(shared, 7, "degree", X.mean(axis=0), X.std(axis=0)),
        "hilbert": HilbertMap.within(ard, 18, Box.around(X)),
        "hilbert, one lengthscale": HilbertMap.of(shared, [2, 4, 1], 1.8, Box.around(X)),
        "hilbert, Matérn": HilbertMap.within(matern, 24, Box.around(X)),
        "projected hilbert": Composed(
            HilbertMap.of(flat, [4, 3], 1.3, Box(np.zeros(2), np.ones(2) * projection.reach(X))), projection, W
        ),
        "squashed hilbert": Composed(
            HilbertMap.of(flat, 3, [1.1, 1.6], Box(np.zeros(2), np.array([1.5, 2.0]))),
            Squashed(projection, np.array([1.5, 2.0])),
            W,
        ),
        "projected fourier": Composed(FourierMap.drawn(flat, 8, np.zeros((1, 2)), rng), projection, W),
        "projected mercer": Composed(MercerMap.chosen(flat, 9, "grid", np.zeros(2), np.ones(2)), projection, W),
        "user's": Scaled.of(Tanh(), X, rng),
        **{name: MixedMap.drawn(kernel, 16, X, rng) for name, kernel in mixed(D, rng).items()},
        "projected mixture": Composed(
            MixedMap.drawn(RationalQuadratic(0.6, 1.3, [0.8, 1.7]), 8, np.zeros((1, 2)), rng), projection, W
        ),
    }
    return X, found


@pytest.mark.parametrize("name", maps(0)[1])
@settings(max_examples=4)
@given(seed=SEEDS)
def test_pull_backs_are_derivatives(name: str, seed: int) -> None:
    X, found = maps(seed)
    features, rng = found[name], np.random.default_rng(seed)
    parameters = features.start(X, rng) + 0.1 * rng.standard_normal(features.size)
    cotangent = rng.standard_normal((len(X), features.rank))
    _, pull = features.vjp(parameters, X)
    slopes = pull(cotangent.copy())
    for i, step in enumerate(1e-4 * np.eye(features.size)):
        values = [float(np.vdot(cotangent, features(parameters + t * step, X))) for t in (-2.0, -1.0, 1.0, 2.0)]
        numeric = (values[0] - 8.0 * values[1] + 8.0 * values[2] - values[3]) / 12e-4
        assert slopes[i] == pytest.approx(numeric, rel=1e-7, abs=1e-8 * np.abs(values).max() + 1e-9), (name, i)


@given(seed=SEEDS)
def test_pull_backs_to_inputs_are_derivatives(seed: int) -> None:
    X, found = maps(seed)
    rng = np.random.default_rng(seed)
    for name in ("fourier", "mercer", "mercer, one lengthscale", "hilbert", "hilbert, Matérn", "sum", "product"):
        features = found[name].at(found[name].kernel.log_parameters)
        V, cotangent = features.filled(X)[1], rng.standard_normal((len(X), features.rank))
        moved = features.pull_inputs(X, V, cotangent.copy())[1]
        direction = rng.standard_normal(X.shape)
        values = []
        for t in (-2e-4, -1e-4, 1e-4, 2e-4):
            values.append(float(np.vdot(cotangent, features.filled(X + t * direction)[1])))
        numeric = (values[0] - 8.0 * values[1] + 8.0 * values[2] - values[3]) / 12e-4
        assert np.vdot(moved, direction) == pytest.approx(numeric, rel=1e-7, abs=1e-8), name


@pytest.mark.parametrize("order", ORDERS)
@given(seed=SEEDS)
def test_maps_are_the_features_of_the_library(order: str, seed: int) -> None:
    """At the hyperparameters at which they are made, and for Mercer features at others with the same degrees."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((9, 2))
    kernel, std = SquaredExponential(1.3, rng.uniform(0.4, 2.0, 2)), rng.uniform(0.5, 2.0, 2)
    pairs = [
        (FourierMap.drawn(kernel, 10, X, seed), FourierFeatures(kernel, 10, seed)),
        (
            MercerMap.chosen(kernel, 9, order, X[0], std),
            MercerFeatures(kernel, 9, inputs=Gaussian(std), order=order, mean=X[0]),
        ),
    ]
    for trained, fixed in pairs:
        np.testing.assert_allclose(trained(kernel.log_parameters, X), fixed.fit(X)(X), rtol=1e-12, atol=1e-14)
    box = Box.around(X)
    for other in (kernel, Matern(1.5, 1.3, kernel.lengthscale)):
        fixed = HilbertFeatures(other, [3, 5], 1.4, half_width=box.half_width, centre=box.centre).fit(X)
        trained = HilbertMap.of(other, [3, 5], 1.4, box)
        np.testing.assert_allclose(trained(other.log_parameters, X), fixed(X), rtol=1e-12, atol=1e-14)
    width = np.ptp(X, axis=0)
    fixed = LeverageFourierFeatures(kernel, 10, noise=0.1, N=9, width=width, rng=seed).fit(X)
    trained = FourierMap.by_leverage(kernel, 10, X, seed, noise=0.1)
    np.testing.assert_allclose(trained(kernel.log_parameters, X), fixed(X), rtol=1e-12, atol=1e-14)


def test_many_features_are_the_kernel_at_every_hyperparameter() -> None:
    """Frequencies and degrees that were chosen at one kernel approximate another one, too."""
    rng = np.random.default_rng(3)
    X = rng.standard_normal((20, 2))
    start, other = SquaredExponential(1.0, [1.0, 1.0]), SquaredExponential(1.6, [1.3, 2.1])
    mercer = MercerMap.chosen(start, 900, "grid", np.zeros(2), np.ones(2))
    assert np.abs(FeatureKernel(mercer, other.log_parameters)(X) - other(X)).max() < 1e-9
    rough = Matern(2.5, 1.6, [1.3, 2.1])
    for made, kernel in (
        (FourierMap.drawn(start, 20_000, X, rng), other),
        (FourierMap.drawn(Matern(2.5), 20_000, X, 0), rough),
    ):
        if made.kernel.dim is None:
            made = FourierMap(
                rough, FourierMap.drawn(Matern(2.5, 1.0, [1.0, 1.0]), 20_000, X, 0).frequencies, made.weights
            )
        assert np.abs(FeatureKernel(made, kernel.log_parameters)(X) - kernel(X)).max() < 0.08


@example(seed=770)
@example(seed=640361)
@given(seed=SEEDS)
def test_projections_are_standardised_for_every_matrix(seed: int) -> None:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((40, 4)) @ rng.standard_normal((4, 4)) + 5.0
    projection = Projection.of(X, 2)
    weights = rng.standard_normal(projection.size)  # fewer than 8 where columns are nearly dependent
    z = projection.project(weights, X)
    np.testing.assert_allclose(z.mean(axis=0), 0.0, atol=1e-10)
    np.testing.assert_allclose(z.std(axis=0), 1.0, rtol=1e-7)  # columns of X may be nearly dependent
    np.testing.assert_allclose(projection.project(7.0 * weights, X), z, rtol=1e-9, atol=1e-11)


class Wrong(Tanh):
    """A map with one fault."""

    def __init__(self, fault: str) -> None:
        self.fault = fault

    def start(self, X, rng):
        if self.fault == "matrix":
            return np.zeros((2, 2))
        return np.full(8, np.nan) if self.fault == "nan start" else super().start(X, rng)

    def __call__(self, parameters, X):
        Xi = super().__call__(parameters, X)
        if self.fault == "shape":
            return Xi[:, :-1]
        if self.fault == "nan":
            Xi[2, 1] = np.nan
        return Xi

    def vjp(self, parameters, X):
        Xi, pull = super().vjp(parameters, X)
        if self.fault == "gradient":
            return Xi, lambda cotangent: pull(cotangent)[:-1]
        return Xi, (lambda cotangent: pull(cotangent) * np.inf) if self.fault == "infinite" else pull


@pytest.mark.parametrize(
    ("fault", "error", "words"),
    [
        ("matrix", ValueError, r"features.start: expected a vector of parameters \(p,\), got shape \(2, 2\)"),
        ("nan start", NonFinite, "expected finite parameters, got nan for number 0"),
        ("shape", ValueError, r"features: expected shape \(5, 4\) for 5 rows and rank 4, got \(5, 3\)"),
        ("nan", NonFinite, r"features: expected finite numbers, got NaN or infinity for the row x = \[2. 2.\]"),
        ("gradient", ValueError, r"expected derivatives of shape \(8,\), one for each parameter, got \(7,\)"),
        ("infinite", NonFinite, r"expected finite derivatives, got .* for parameter 0"),
    ],
)
def test_wrong_maps_are_named(fault: str, error: type[Exception], words: str) -> None:
    X = np.repeat(np.arange(5.0)[:, None], 2, axis=1)

    def pulled() -> None:
        features = Scaled.of(Wrong(fault), X, np.random.default_rng(0))
        _, pull = features.vjp(features.start(X, np.random.default_rng(0)), X)
        pull(np.ones((5, 4)))

    with pytest.raises(error, match=words):
        pulled()


def test_a_row_of_many_inputs_is_named_in_one_line() -> None:
    class Dark(Wrong):
        def __call__(self, parameters, X):
            return np.full((len(X), 4), np.nan)

    X = np.arange(60.0).reshape(2, 30)
    with pytest.raises(NonFinite, match=r"for the row x = \[ 0\.  1\.  2\. \.\.\. 27\. 28\. 29\.\]$"):
        Scaled(Dark("nan"), np.zeros(8))(np.zeros(9), X)


def test_an_object_without_the_protocol_is_refused() -> None:
    with pytest.raises(ValueError, match="got 3 without rank, start, __call__, vjp"):
        Scaled.of(3, np.zeros((2, 1)), np.random.default_rng(0))


# ---------------------------------------------------------------------- log p(y)

KINDS = tuple(maps(0)[1])


def problem(X, P: int | None = 2, seed: int = 0, **options):
    rng = np.random.default_rng(seed)
    Y = np.sin(X @ rng.standard_normal((X.shape[1], P or 1))) + 0.3 * rng.standard_normal((len(X), P or 1))
    return Objective(objective(X, Y if P else Y[:, 0], **options).data, LowRankLaw(), Evidence())


def kernel_of(features, X, seed: int = 0):
    rng = np.random.default_rng(seed)
    return FeatureKernel(features, features.start(X, rng) + 0.05 * rng.standard_normal(features.size))


def dense(Xi, Y, noise: float):
    """Σ_p log N(y_p; 0, ΞΞᵀ + σ²I) to 30 digits."""
    with mp.workdps(40):
        F, T = mp.matrix(Xi.tolist()), mp.matrix(Y.tolist())
        S = F * F.T + noise * mp.eye(len(Xi))
        fit = sum((T[:, p].T * mp.lu_solve(S, T[:, p]))[0] for p in range(Y.shape[1]))
        return -(Y.shape[1] * (mp.log(mp.det(S)) + len(Xi) * mp.log(2 * mp.pi)) + fit) / 2


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("noise", [0.3, 1e-3])
def test_values_are_dense_log_densities(kind: str, noise: float) -> None:
    X, found = maps(4)
    for rows in (5, 12):  # rank above and below the number of rows
        F, kernel = problem(X[:rows]), kernel_of(found[kind], X)
        reference = dense(kernel.features(kernel.parameters, X[:rows]), F.data.Y, noise)
        assert abs(F.evaluate(kernel, noise).value - reference) <= 1e-12 * abs(reference) / noise


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=4)
@given(seed=SEEDS)
def test_gradients_are_derivatives(kind: str, seed: int) -> None:
    X, found = maps(seed)
    F, start = problem(X, seed=seed), at_point(kernel_of(found[kind], X, seed), 0.2)
    layout = packing_of(start)
    vector = layout.pack(start)
    loss = layout.loss(F)
    slopes = loss(vector)[1]
    direction = np.random.default_rng(seed).standard_normal(vector.size)
    values = [loss(vector + t * direction)[0] for t in (-2e-4, -1e-4, 1e-4, 2e-4)]
    numeric = (values[0] - 8.0 * values[1] + 8.0 * values[2] - values[3]) / 12e-4
    assert slopes @ direction == pytest.approx(numeric, rel=1e-7, abs=1e-9 * abs(values[0]) + 1e-8)


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=8)
@given(seed=SEEDS, chunk=st.integers(1, 14), keep=st.integers(0, 2000))
def test_chunks_and_memory_change_nothing_but_rounding(kind: str, seed: int, chunk: int, keep: int) -> None:
    X, found = maps(seed)
    kernel = kernel_of(found[kind], X, seed)
    usual, other = (problem(X, seed=seed, **how).evaluate(kernel, 0.2) for how in ({}, {"chunk": chunk, "keep": keep}))
    for name in ("kernel", "likelihood", "weights"):
        whole, parts = getattr(usual.gradient, name), getattr(other.gradient, name)
        np.testing.assert_allclose(parts, whole, rtol=0.0, atol=1e-11 * max(np.abs(whole).max(initial=1.0), 1.0))
    assert other.value == pytest.approx(usual.value, rel=1e-12)


def test_the_number_of_lanes_changes_no_bit() -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((3000, 2))
    kernel = SquaredExponential(1.0, [0.7, 1.1])
    for features in (FourierMap.drawn(kernel, 64, X, 0), MercerMap.chosen(kernel, 60, "best", np.zeros(2), np.ones(2))):
        results = []
        for lanes in (1, 2, 3):
            with blas_threads(lanes):
                F = problem(X, chunk=200).evaluate(FeatureKernel(features, kernel.log_parameters), 0.1)
            results.append(np.concatenate([[F.value], F.gradient.kernel, F.gradient.likelihood]))
        np.testing.assert_array_equal(results[1], results[0])
        np.testing.assert_array_equal(results[2], results[0])


def test_mercer_features_of_full_rank_are_the_exact_gp() -> None:
    X = np.random.default_rng(1).standard_normal((30, 1))
    kernel = SquaredExponential(1.4, 0.9)
    features = MercerMap.chosen(kernel, 60, "best", np.zeros(1), np.ones(1))
    low, exact = problem(X), objective(X, problem(X).data.Y, "exact")
    ours, theirs = low.evaluate(FeatureKernel(features, kernel.log_parameters), 0.1), exact.evaluate(kernel, 0.1)
    assert ours.value == pytest.approx(theirs.value, rel=1e-11)
    np.testing.assert_allclose(ours.gradient.kernel, theirs.gradient.kernel, rtol=1e-7)
    assert ours.gradient.noise == pytest.approx(theirs.gradient.noise, rel=1e-9)
    new = np.linspace(-2.0, 2.0, 7)[:, None]
    mean, covariance = low.posterior(FeatureKernel(features, kernel.log_parameters), 0.1).predict(new, full_cov=True)
    reference = exact.posterior(kernel, 0.1).predict(new, full_cov=True)
    np.testing.assert_allclose(mean, reference[0], atol=1e-9)
    np.testing.assert_allclose(covariance, reference[1], atol=1e-9)


@given(seed=SEEDS, rank=st.integers(1, 12), P=st.sampled_from([None, 1, 3]))
def test_public_functions_are_the_objective_and_its_posterior(seed: int, rank: int, P: int | None) -> None:
    rng = np.random.default_rng(seed)
    X, new = rng.standard_normal((9, 1)), rng.standard_normal((4, 1))
    features = MercerMap.chosen(SquaredExponential(1.0, 0.7), rank, "best", np.zeros(1), np.ones(1))
    kernel, F = FeatureKernel(features, features.kernel.log_parameters), problem(X, P, seed)
    y = F.data.Y if P else F.data.Y[:, 0]
    Xi, Xi_new = features(kernel.parameters, X), features(kernel.parameters, new)
    assert log_evidence(Xi, y, noise=0.1) == pytest.approx(F.evaluate(kernel, 0.1, gradient=False).value, rel=1e-12)
    for full in (False, True):
        ours = predict(Xi, y, Xi_new, noise=0.1, full_cov=full)
        for part, other in zip(ours, F.posterior(kernel, 0.1).predict(new, full_cov=full), strict=True):
            assert part.shape == other.shape
            np.testing.assert_allclose(part, other, rtol=1e-9, atol=1e-12)


def test_errors_of_the_public_functions() -> None:
    with pytest.raises(ValueError, match="features_new: expected shape"):
        predict(np.ones((3, 2)), np.ones(3), np.ones((4, 3)), noise=0.1)
    with pytest.raises(ValueError, match="y"):
        log_evidence(np.ones((3, 2)), np.ones(4), noise=0.1)
    with pytest.raises(ValueError, match="noise"):
        log_evidence(np.ones((3, 2)), np.ones(3), noise=0.0)


@pytest.mark.gpu
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "user's"])
def test_device_and_host_agree(cupy, kind: str) -> None:
    X, found = maps(2)
    kernel, near = kernel_of(found[kind], X), problem(X)
    far = Objective(objective(cupy.asarray(X), cupy.asarray(near.data.Y)).data, LowRankLaw(), Evidence())
    here, there = near.evaluate(kernel, 0.2), far.evaluate(kernel, 0.2)
    assert there.value == pytest.approx(here.value, rel=1e-11)
    for name in ("kernel", "likelihood", "weights"):
        np.testing.assert_allclose(getattr(there.gradient, name), getattr(here.gradient, name), rtol=1e-8, atol=1e-9)
    for on_device, on_host in zip(
        far.posterior(kernel, 0.2).predict(cupy.asarray(X)), near.posterior(kernel, 0.2).predict(X), strict=True
    ):
        np.testing.assert_allclose(host(on_device), on_host, rtol=1e-9, atol=1e-10)
