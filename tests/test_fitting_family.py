"""Objectives by their public functions: chunks and memory, difficult data, reported jitter, clear errors."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fitting.objectives.blocks import Blocks
from fitting.objectives.collapsed import METHODS, Diagonal, Member, member
from fitting.objectives.objective import objective
from fitting.rows.data import Data
from gpbounds.errors import NonFinite, NotPositiveDefinite
from gpbounds.kernels import Matern, SquaredExponential
from gpbounds.linalg.workspace import Workspace
from gpbounds.whitening import whiten

SEEDS = st.integers(0, 2**32 - 1)
OPTIONS: dict[str, dict] = {name: {} for name in METHODS} | {
    "pep": {"power": 0.4},
    "renyi": {"alpha": 0.6},
    "pic": {"blocks": 7},
}
every_method = pytest.mark.parametrize("method", METHODS)
KERNEL = SquaredExponential(1.3, [0.7, 1.4])


def problem(seed: int, N: int = 40, M: int = 6, P: int | None = 2):
    rng = np.random.default_rng(seed)
    X, Z = rng.standard_normal((N, 2)), rng.standard_normal((M, 2))
    y = np.sin(X @ rng.standard_normal((2, P or 1))) + 0.3 * rng.standard_normal((N, P or 1))
    return X, (y if P else y[:, 0]), Z


def flat(evaluation):
    """Value and derivatives in one vector."""
    g = evaluation.gradient
    return np.concatenate([[evaluation.value], g.kernel, [g.noise], np.ravel(g.Z)])


def build(X, y, method: str, **options):
    return objective(X, y, method, **{**OPTIONS[method], **options})


@every_method
@given(seed=SEEDS, chunk=st.integers(1, 60), keep=st.integers(0, 5000))
def test_chunks_and_memory_change_nothing_but_rounding(method: str, seed: int, chunk: int, keep: int) -> None:
    X, y, Z = problem(seed)
    usual = flat(build(X, y, method, jitter=1e-8).evaluate(KERNEL, 0.2, Z))
    other = flat(build(X, y, method, jitter=1e-8, chunk=chunk, keep=keep).evaluate(KERNEL, 0.2, Z))
    np.testing.assert_allclose(other, usual, rtol=1e-6, atol=1e-7 * np.abs(usual).max())


@every_method
def test_a_second_call_is_the_first(method: str) -> None:
    X, y, Z = problem(1)
    F = build(X, y, method, chunk=9)
    first = flat(F.evaluate(KERNEL, 0.2, Z))
    F.evaluate(Matern(0.5, 2.0, 0.3), 0.7, Z[:3])  # leaves other numbers in the workspace
    np.testing.assert_array_equal(flat(F.evaluate(KERNEL, 0.2, Z)), first)
    assert F.evaluate(KERNEL, 0.2, Z, gradient=False).value == pytest.approx(first[0], rel=1e-14)
    assert F.evaluate(KERNEL, 0.2, Z, gradient=False).gradient is None


@every_method
def test_the_order_of_the_data_does_not_matter(method: str) -> None:
    X, y, Z = problem(2)
    order = np.random.default_rng(0).permutation(len(X))
    labels = np.arange(len(X)) // 7
    moved = {"blocks": labels[order]} if method == "pic" else {}
    in_order = build(X, y, method).evaluate(KERNEL, 0.2, Z)
    two = build(X[order], y[order], method, **moved).evaluate(KERNEL, 0.2, Z)
    np.testing.assert_allclose(flat(two), flat(in_order), rtol=1e-8, atol=1e-8)
    new = X[:5] + 0.1
    law = [{"blocks": [0, 0, 1, 5, 99]} if method == "pic" else {}] * 2
    a = build(X, y, method).posterior(KERNEL, 0.2, Z).predict(new, **law[0])
    b = build(X[order], y[order], method, **moved).posterior(KERNEL, 0.2, Z).predict(new, **law[1])
    np.testing.assert_allclose(a[0], b[0], atol=1e-9)
    np.testing.assert_allclose(a[1], b[1], atol=1e-9)


@every_method
def test_outputs_add_up_and_one_column_is_a_vector(method: str) -> None:
    X, y, Z = problem(3)
    whole = flat(build(X, y, method).evaluate(KERNEL, 0.2, Z))
    parts = sum(flat(build(X, column, method).evaluate(KERNEL, 0.2, Z)) for column in y.T)
    np.testing.assert_allclose(whole, parts, rtol=1e-9, atol=1e-9)
    law = {"blocks": np.zeros(3)} if method == "pic" else {}
    mean, variance = build(X, y, method).posterior(KERNEL, 0.2, Z).predict(X[:3], **law)
    single, same = build(X, y[:, 1], method).posterior(KERNEL, 0.2, Z).predict(X[:3], **law)
    assert (mean.shape, single.shape) == ((3, 2), (3,))
    np.testing.assert_allclose(mean[:, 1], single, atol=1e-10)
    np.testing.assert_array_equal(variance, same)


def test_the_sums_are_those_of_the_house() -> None:
    X, y, Z = problem(4, N=100)
    white = whiten(KERNEL, X, Z, y)
    posterior = objective(X, y, "vfe", jitter=0.0).posterior(KERNEL, 0.2, Z)
    np.testing.assert_allclose(posterior.q.G, white.gram / 0.2, rtol=1e-10, atol=1e-10)
    A = np.eye(6) + white.gram / 0.2
    np.testing.assert_allclose(posterior.q.mean, np.linalg.solve(A, white.projected / 0.2), rtol=1e-9)


@every_method
@pytest.mark.parametrize(
    ("N", "M"), [(1, 1), (1, 4), (3, 8), (8, 1)], ids=["one row", "one row, many Z", "N < M", "M = 1"]
)
def test_small_sizes(method: str, N: int, M: int) -> None:
    X, y, Z = problem(5, N, M)
    F = build(X, y, method, jitter=0.0)
    evaluation = F.evaluate(KERNEL, 0.2, Z)
    step = 1e-5
    for i in range(3):
        moved = KERNEL.log_parameters
        ends = []
        for h in (step, -step):
            logs = moved.copy()
            logs[i] += h
            ends.append(F.evaluate(KERNEL.with_log_parameters(logs), 0.2, Z, gradient=False).value)
        numeric = (ends[0] - ends[1]) / (2 * step)
        assert evaluation.gradient.kernel[i] == pytest.approx(
            numeric, rel=1e-5, abs=1e-5 * (1.0 + abs(evaluation.value))
        )


@every_method
def test_duplicated_rows_of_the_data_are_no_trouble(method: str) -> None:
    X, y, Z = problem(6)
    X[20:] = X[:20]
    y[20:] = y[:20] + 0.1
    evaluation = build(X, y, method).evaluate(KERNEL, 0.2, Z)
    assert np.isfinite(flat(evaluation)).all()
    assert evaluation.jitter == 0.0


@pytest.mark.parametrize("method", [m for m in METHODS if m != "exact"])
def test_duplicated_inducing_points_get_a_jitter_that_is_told_or_an_error(method: str) -> None:
    X, y, Z = problem(7)
    Z[3] = Z[0]
    if method == "renyi":
        assert build(X, y, method, alpha=0.0).evaluate(KERNEL, 0.2, Z).jitter == 0.0  # Z does not enter
    evaluation = build(X, y, method).evaluate(KERNEL, 0.2, Z)
    assert 0.0 < evaluation.jitter <= 1e-6 * KERNEL.variance
    assert np.isfinite(flat(evaluation)).all()
    without = build(X, y, method).evaluate(KERNEL, 0.2, np.delete(Z, 3, axis=0), gradient=False)
    assert evaluation.value == pytest.approx(without.value, abs=1e-5 * abs(without.value))
    with pytest.raises(NotPositiveDefinite, match="Kuu: expected a positive definite 6 x 6 matrix"):
        build(X, y, method, jitter=0.0).evaluate(KERNEL, 0.2, Z)


@pytest.mark.parametrize(
    "approximation",
    [Diagonal(0.0, 0.2), Diagonal(0.0, 0.2, kept=False), Diagonal(0.7, 0.2), Blocks(0.7, 0.2, (slice(0, 40),))],
)
def test_jitter_in_proportion_to_the_variance_is_differentiated(approximation) -> None:
    X, y, Z = problem(8)

    def at(log_variance: float, relative: float):
        kernel = SquaredExponential(np.exp(log_variance), [0.7, 1.4]) * Matern(1.5, 2.0) + Matern(0.5, 0.1)
        source = Data(X, y, False, "auto", 40).stream(kernel, Z, relative * kernel.max_variance)
        return approximation.evaluate(source)

    numeric = (at(1e-5, 0.1).value - at(-1e-5, 0.1).value) / 2e-5
    assert at(0.0, 0.1).gradient.kernel[0] == pytest.approx(numeric, rel=1e-7)


@every_method
@pytest.mark.parametrize("lengthscale", [1e-8, 1e-3, 1e3, 1e8])
@pytest.mark.parametrize("noise", [1e-6, 1.0, 1e8])
def test_extreme_hyperparameters_give_numbers(method: str, lengthscale: float, noise: float) -> None:
    X, y, Z = problem(9)
    for kernel in (SquaredExponential(2.0, lengthscale), Matern(0.5, 2.0, lengthscale), Matern(1.5, 1e-6, lengthscale)):
        assert np.isfinite(flat(build(X, y, method).evaluate(kernel, noise, Z))).all()


def test_uncorrelated_data_are_independent_normals() -> None:
    X, y, Z = problem(10)
    tiny = SquaredExponential(2.0, 1e-9)
    truth = -0.5 * (y.size * np.log(2 * np.pi * 2.5) + (y**2).sum() / 2.5)
    for method in ("fitc", "pic", "exact"):
        assert build(X, y, method).evaluate(tiny, 0.5, Z).value == pytest.approx(truth, rel=1e-12)


@every_method
def test_a_constant_column_and_a_constant_target(method: str) -> None:
    X, y, Z = problem(11)
    X[:, 1], Z[:, 1], y[:] = 3.0, 3.0, 7.0
    evaluation = build(X, y, method).evaluate(KERNEL, 0.2, Z)
    assert np.isfinite(flat(evaluation)).all()
    assert evaluation.gradient.kernel[2] == pytest.approx(0.0, abs=1e-6)  # the lengthscale of a constant column


@every_method
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_what_is_not_finite_is_named(method: str, bad: float) -> None:
    X, y, Z = problem(12)
    for name, array in (("X", X), ("y", y)):
        array[3, 1] = bad
        with pytest.raises(NonFinite, match=rf"^{name}: .*\[3\]"):
            build(X, y, method)
        array[3, 1] = 0.5
    Z[2, 0] = bad
    with pytest.raises(NonFinite, match=r"^Z: .*\[2\]"):
        build(X, y, method).evaluate(KERNEL, 0.2, Z)
    with pytest.raises(ValueError, match=r"^noise: expected a positive finite number"):
        build(X, y, method).evaluate(KERNEL, bad, X[:2])
    law = {"blocks": [0.0]} if method == "pic" else {}
    with pytest.raises(NonFinite, match=r"^X: .*\[0\]"):
        build(X, y, method).posterior(KERNEL, 0.2, X[:2]).predict([[bad, 0.0]], **law)


def test_wrong_arguments_are_told() -> None:
    X, y, Z = problem(13)
    for arguments, message in (
        (("sgpr",), "method: expected one of 'vfe'"),
        (("pep",), r"power: expected a number in \[0, 1\] for method='pep', got None"),
        (("renyi",), r"alpha: expected a number in \[0, 1\]"),
        (("pic",), "blocks: expected a size or labels"),
    ):
        with pytest.raises(ValueError, match=message):
            objective(X, y, *arguments)
    for options, message in (
        ({"power": 0.5}, "power: expected None for method='vfe', got 0.5"),
        ({"blocks": 3}, "blocks: expected None"),
        ({"chunk": 0}, "chunk: expected a whole number >= 1"),
        ({"keep": -1}, "keep: expected a whole number >= 0"),
    ):
        with pytest.raises(ValueError, match=message):
            objective(X, y, "vfe", **options)
    for power in (-0.1, 1.5, np.nan):
        with pytest.raises(ValueError, match=r"power: expected a number in \[0, 1\]"):
            objective(X, y, "pep", power=power)
    with pytest.raises(ValueError, match="blocks: expected a label for each of 40 rows"):
        objective(X, y, "pic", blocks=[1, 2])
    with pytest.raises(ValueError, match=r"inside: expected blocks or full with power 1"):
        Member("blocks", 0.5, inside=True)
    F = objective(X, y, "vfe")
    with pytest.raises(ValueError, match=r"Z: expected inducing inputs of shape \(M, 2\), got None"):
        F.evaluate(KERNEL, 0.2)
    with pytest.raises(ValueError, match=r"Z: expected 2 column"):
        F.evaluate(KERNEL, 0.2, Z[:, :1])
    with pytest.raises(ValueError, match="blocks: expected None, as only PIC"):
        F.posterior(KERNEL, 0.2, Z).predict(X, blocks=np.zeros(40))
    with pytest.raises(ValueError, match="blocks: expected the label of each new point's block"):
        objective(X, y, "pic", blocks=7).posterior(KERNEL, 0.2, Z).predict(X)


def test_inputs_are_left_as_they_were() -> None:
    X, y, Z = problem(14)
    kept = X.copy(), y.copy(), Z.copy()
    for method in METHODS:
        build(X, y, method).evaluate(KERNEL, 0.2, Z)
        build(X, y, method).posterior(KERNEL, 0.2, Z)
    for after, before in zip((X, y, Z), kept, strict=True):
        np.testing.assert_array_equal(after, before)


@pytest.mark.parametrize("method", ["vfe", "fitc"])
def test_memory_does_not_grow_with_the_data(method: str) -> None:
    peaks = []
    for N in (4000, 16000):
        X, y, Z = problem(15, N, 50)
        F = build(X, y, method, chunk=256, keep=0)
        F.evaluate(KERNEL, 0.2, Z)
        tracemalloc.start()
        F.evaluate(KERNEL, 0.2, Z)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] - peaks[0] < 12000 * 8 * 12  # a few numbers a row, not M of them


@every_method
def test_predictions_are_a_covariance_and_variances_its_diagonal(method: str) -> None:
    X, y, Z = problem(16)
    new = np.random.default_rng(1).standard_normal((9, 2))
    law = {"blocks": [0, 0, 0, 1, 1, 2, 99, 99, 98]} if method == "pic" else {}
    posterior = build(X, y, method).posterior(KERNEL, 0.2, Z)
    mean, cov = posterior.predict(new, full_cov=True, **law)
    means, variances = posterior.predict(new, chunk=2, **law)
    np.testing.assert_allclose(means, mean, atol=1e-10)
    np.testing.assert_allclose(variances, np.diag(cov), atol=1e-10)
    np.testing.assert_array_equal(cov, cov.T)
    assert np.linalg.eigvalsh(cov)[0] > -1e-10
    noisy = posterior.predict(new, full_cov=True, noisy=True, **law)[1]
    np.testing.assert_allclose(noisy - cov, 0.2 * np.eye(9), atol=1e-12)
    far = posterior.predict(new + 1e3, **law)
    np.testing.assert_allclose(far[0], 0.0, atol=1e-12)
    np.testing.assert_allclose(far[1], KERNEL.variance, rtol=1e-12)


def test_names_of_members() -> None:
    assert member("renyi", alpha=1.0) == Member("full", 0.0)
    assert member("exact").inside
    assert not member("renyi", alpha=0.0).inside
    assert Workspace(5).keep == 5
    space = Workspace()
    first = space.array("a", (3, 4), np)
    assert np.shares_memory(first, space.array("a", (2, 2), np))
    space.release()
    assert not np.shares_memory(first, space.array("a", (2, 2), np))


@every_method
@pytest.mark.parametrize(("scale", "noise"), [(1e160, 0.1), (1.0, 1e-300), (1.0, 1e300), (0.0, 0.1), (1e-200, 1e-3)])
def test_extreme_scales_give_numbers_or_a_sentence(method: str, scale: float, noise: float) -> None:
    X, y, Z = problem(17)
    if scale > 1.0:
        with pytest.raises(ValueError, match=r"y: expected numbers whose squares add to a double.*rescale y"):
            build(X, scale * y, method)
        return
    F = build(X, scale * y, method)
    try:
        assert np.isfinite(flat(F.evaluate(KERNEL, noise, Z))).all()
    except (NonFinite, NotPositiveDefinite):
        assert noise == 1e-300
