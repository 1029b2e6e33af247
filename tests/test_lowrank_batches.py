"""log p(y) as a maximum over q of a sum over rows: no gap, derivatives, mini-batches, and training with them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fitting import LowRankGP
from fitting.estimators.low_rank_gp import stale
from fitting.features import MLP, FeatureKernel, Fourier, FourierMap, Mercer
from fitting.features.objects import trained_map
from fitting.objectives.goals import Evidence, ExpectedLosses
from fitting.objectives.laws import FreeLaw, LowRankLaw
from fitting.objectives.objective import Objective, at_point, objective
from fitting.objectives.packing import LawBlock, packing_of
from fitting.objectives.point import Parameters
from gpbounds import SquaredExponential
from gpbounds.law import FactorLaw
from gpbounds.likelihoods import Gaussian

SEEDS = st.integers(0, 2**32 - 1)
KINDS = {
    "fourier": Fourier(6),
    "mercer": Mercer(5),
    "deep": MLP((4,), d=2, then=Fourier(4), pretraining=1),
    "outputs": MLP((4,), d=3, pretraining=1),
}
each_kind = pytest.mark.parametrize("kind", KINDS)
quiet = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def bound_of(data) -> Objective:
    return Objective(data, FreeLaw(), ExpectedLosses(Gaussian(0.2)))


def setting(kind: str, seed: int, N: int = 24):
    """log p(y), the bound, and a point without q."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((N, 2))
    y = np.sin(X @ [1.0, 2.0]) + 0.2 * rng.standard_normal(N)
    data = objective(X, y).data
    features = trained_map(KINDS[kind], X, y[:, None], rng)
    start = features.start(X, rng)
    kernel = FeatureKernel(features, start + 0.1 * rng.standard_normal(start.size))
    return Objective(data, LowRankLaw(), Evidence()), bound_of(data), at_point(kernel, 0.2)


def somewhere(point: Parameters, seed: int) -> Parameters:
    """``point`` with a random q."""
    rng, r = np.random.default_rng(seed), point.kernel.features.rank
    factor = np.tril(0.3 * rng.standard_normal((r, r)), -1) + np.diag(rng.uniform(0.2, 1.5, r))
    return replace(point, q=FactorLaw(rng.standard_normal((r, 1)), factor))


@each_kind
@settings(max_examples=10)
@given(seed=SEEDS)
def test_there_is_no_gap_and_no_other_slope_at_the_best_q(kind: str, seed: int) -> None:
    exact, bound, point = setting(kind, seed)
    value = exact.evaluate(point.kernel, point.noise)
    best = -bound.minimised(bound.complete(point))
    assert best.value == pytest.approx(value.value, rel=1e-12, abs=1e-10)
    for name in ("kernel", "likelihood", "weights"):
        reference = getattr(value.gradient, name)
        if reference is not None and reference.size:
            scale = max(1.0, np.abs(reference).max())
            np.testing.assert_allclose(getattr(best.gradient, name), reference, atol=1e-9 * scale)
    np.testing.assert_allclose(best.gradient.mean, 0.0, atol=1e-9)
    np.testing.assert_allclose(best.gradient.factor, 0.0, atol=1e-9)
    assert -bound.minimised(somewhere(point, seed), gradient=False).value < value.value


@each_kind
@settings(max_examples=10)
@given(seed=SEEDS)
def test_gradients_are_derivatives(kind: str, seed: int) -> None:
    _, bound, point = setting(kind, seed)
    layout = packing_of(somewhere(point, seed))
    vector, loss = layout.pack(layout.start), layout.loss(bound)
    direction = np.random.default_rng(seed).standard_normal(vector.size)
    values = [loss(vector + t * direction)[0] for t in (-2e-4, -1e-4, 1e-4, 2e-4)]
    numeric = (values[0] - 8.0 * values[1] + 8.0 * values[2] - values[3]) / 12e-4
    assert loss(vector)[1] @ direction == pytest.approx(numeric, rel=1e-6, abs=1e-9 * abs(values[0]) + 1e-7)


@each_kind
@settings(max_examples=10)
@given(seed=SEEDS)
def test_gradients_of_batches_average_to_that_of_all_rows(kind: str, seed: int) -> None:
    _, bound, point = setting(kind, seed)
    layout = packing_of(somewhere(point, seed))
    vector = layout.pack(layout.start)
    value, slopes = layout.loss(bound)(vector)
    parts = np.random.default_rng(seed).permutation(24).reshape(4, 6)
    found = [layout.loss(bound.batch(rows))(vector) for rows in parts]
    assert np.mean([f for f, _ in found]) == pytest.approx(value, rel=1e-11)
    mean = np.mean([g for _, g in found], axis=0)
    np.testing.assert_allclose(mean, slopes, atol=1e-10 * max(1.0, np.abs(slopes).max()))


@each_kind
@given(seed=SEEDS)
def test_a_natural_step_on_all_rows_reaches_the_best_q(kind: str, seed: int) -> None:
    _, bound, point = setting(kind, seed)
    start = somewhere(point, seed)
    layout = packing_of(start, natural=True)
    vector = layout.pack(start)
    steps = bound.natural(start, 1.0)
    entries = steps.moved(vector[-steps.size :], layout.loss(bound)(vector)[1][-steps.size :], 1)
    q, best = LawBlock(steps.M).unpack(entries, start).q, bound.complete(point).q
    np.testing.assert_allclose(q.mean, best.mean, rtol=1e-7, atol=1e-8)
    np.testing.assert_allclose(q.factor @ q.factor.T, best.factor @ best.factor.T, rtol=1e-7, atol=1e-9)


# ---------------------------------------------------------------------- training

RNG = np.random.default_rng(1)
X = RNG.standard_normal((400, 2))
Y = np.sin(X @ [1.0, 0.5]) + 0.3 * RNG.standard_normal(400)
KERNEL = SquaredExponential(1.0, [1.0, 1.0])


@quiet
def test_mini_batches_reach_the_optimum_of_all_rows() -> None:
    """Hyperparameters and predictions of L-BFGS on log p(y), to the noise of Adam's last steps."""
    shared = {"kernel": KERNEL, "noise": 0.5, "random_state": 0}
    whole = LowRankGP("fourier", 8, **shared, tol=None).fit(X, Y)
    how = {"optimizer": "adam", "batch_size": 100, "max_iter": 600, "learning_rate": 0.02}
    parts = LowRankGP("fourier", 8, **shared, **how).fit(X, Y)
    np.testing.assert_array_equal(
        parts.feature_kernel_.features.frequencies, whole.feature_kernel_.features.frequencies
    )
    assert whole.objective_ - 1.0 < parts.objective_ <= whole.objective_ + 1e-6
    assert parts.noise_ == pytest.approx(whole.noise_, rel=0.1)
    error = parts.predict(X) - whole.predict(X)
    assert np.sqrt(np.mean(error**2)) < 0.05


@quiet
def test_training_ends_with_an_exact_pass() -> None:
    """The posterior and the objective are those of all rows at the trained hyperparameters."""
    how = {"optimizer": "adam", "batch_size": 50, "max_iter": 10, "random_state": 0}
    fitted = LowRankGP(KINDS["deep"], **how).fit(X, Y)
    kernel, noise = fitted.feature_kernel_, fitted.noise_
    S = kernel(X) + noise * np.eye(400)
    reference = -0.5 * (np.linalg.slogdet(S)[1] + Y @ np.linalg.solve(S, Y) + 400.0 * np.log(2.0 * np.pi))
    assert fitted.objective_ == pytest.approx(reference, rel=1e-9)
    np.testing.assert_allclose(fitted.predict(X[:9]), kernel(X[:9], X) @ np.linalg.solve(S, Y), atol=1e-8)
    assert len(fitted.history_) == 11


@quiet
def test_a_batch_of_all_rows_is_no_batch() -> None:
    how = {"optimizer": "adam", "max_iter": 5, "random_state": 0, "kernel": KERNEL}
    np.testing.assert_array_equal(
        LowRankGP("fourier", 8, batch_size=400, **how).fit(X, Y).history_,
        LowRankGP("fourier", 8, **how).fit(X, Y).history_,
    )


@pytest.mark.parametrize(
    ("arguments", "targets", "words"),
    [
        (
            {"batch_size": 10},
            Y,
            "batch_size: expected None for optimizer='lbfgs', whose steps need all rows, got 10",
        ),
        ({"batch_size": 0, "optimizer": "adam"}, Y, "batch_size: expected a whole number >= 1, got 0"),
        (
            {"batch_size": 10, "optimizer": "adam"},
            np.stack([Y, Y], axis=1),
            "batch_size: expected None for 2 outputs, got 10",
        ),
        ({"optimizer": "natgrad"}, Y, "optimizer: expected one of 'lbfgs', 'adam', got 'natgrad'"),
    ],
)
def test_wrong_arguments(arguments: dict, targets, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        LowRankGP("fourier", 8, KERNEL, 0.1, **arguments).fit(X, targets)


@pytest.mark.gpu
def test_device_and_host_agree(cupy) -> None:
    rng = np.random.default_rng(0)
    features = FourierMap.drawn(KERNEL, 8, X, rng)
    point = at_point(FeatureKernel(features, KERNEL.log_parameters), 0.2)
    near = bound_of(objective(X, Y).data)
    far = bound_of(objective(cupy.asarray(X), cupy.asarray(Y)).data)
    rows = np.arange(0, 400, 7)
    here = near.batch(rows).minimised(near.complete(point))
    there = far.batch(cupy.asarray(rows)).minimised(far.complete(point))
    assert there.value == pytest.approx(here.value, rel=1e-10)
    np.testing.assert_allclose(there.gradient.kernel, here.gradient.kernel, rtol=1e-8, atol=1e-8)


# ---------------------------------------------------------------------- the semi-stochastic scheme


def stale_setting(seed: int):
    """log p(y), its ELBO, the losses of the scheme, and a vector."""
    exact, bound, point = setting("deep", seed)
    layout = packing_of(point)
    return layout, bound, stale(exact, bound, layout, 8), layout.pack(point)


def test_a_batch_of_all_rows_has_the_derivatives_of_the_evidence() -> None:
    _, _, loss, vector = stale_setting(0)
    slopes = loss.held(vector)(vector[loss.weights], np.arange(loss.N))
    expected = loss.whole(vector)[1][loss.weights]
    np.testing.assert_allclose(slopes, expected, rtol=1e-9, atol=1e-9 * np.abs(expected).max())


def test_batches_are_unbiased_for_the_elbo_of_the_pass_and_biased_for_the_evidence() -> None:
    """At weights that have moved since the pass: the mean over the batches of an epoch."""
    layout, bound, loss, vector = stale_setting(1)
    rng, moved = np.random.default_rng(2), vector.copy()
    moved[loss.weights] += 0.1 * rng.standard_normal(moved[loss.weights].size)
    slopes = loss.held(vector)
    mean = np.mean([slopes(moved[loss.weights], rows) for rows in np.split(rng.permutation(loss.N), 3)], axis=0)
    point = bound.complete(layout.unpack(vector))

    def elbo(weights) -> float:
        return -bound.minimised(replace(point, kernel=point.kernel.with_weights(weights)), gradient=False).value

    direction = rng.standard_normal(mean.size)
    ends = [elbo(moved[loss.weights] + h * direction) for h in (-2e-4, -1e-4, 1e-4, 2e-4)]
    numeric = (ends[0] - 8.0 * ends[1] + 8.0 * ends[2] - ends[3]) / 12e-4
    assert -mean @ direction == pytest.approx(numeric, rel=1e-7)
    value, evidence = loss.whole(moved)
    assert elbo(moved[loss.weights]) < -value
    assert np.abs(mean - evidence[loss.weights]).max() > 0.01 * np.abs(mean).max()


@quiet
def test_the_semi_stochastic_scheme_raises_the_evidence_on_a_path_that_the_seed_determines(tmp_path) -> None:
    rng = np.random.default_rng(5)
    X = rng.standard_normal((90, 2))
    y = np.sin(X @ [1.0, 2.0]) + 0.2 * rng.standard_normal(90)
    how = {"optimizer": "adam", "batch_size": 30, "learning_rate": 0.01, "scheme": "semi-stochastic", "random_state": 0}

    def fitted(passes: int, **more) -> LowRankGP:
        return LowRankGP(KINDS["deep"], max_iter=passes, **how, **more).fit(X, y)

    whole = fitted(12)
    assert len(whole.history_) == 13
    assert whole.objective_ == pytest.approx(max(whole.history_), rel=1e-12)
    assert whole.objective_ > whole.history_[0] + 10.0
    np.testing.assert_array_equal(fitted(12).predict(X), whole.predict(X))
    fitted(5, checkpoint=tmp_path / "training")
    continued = fitted(12, checkpoint=tmp_path / "training")
    np.testing.assert_array_equal(continued.history_, whole.history_)
    np.testing.assert_array_equal(continued.predict(X), whole.predict(X))


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"batch_size": 30}, "scheme: expected 'variational' for features without weights, as batches would train"),
        ({}, "scheme: expected 'variational' without batch_size, got 'semi-stochastic'"),
        (
            {"batch_size": 30, "scheme": "stale"},
            "scheme: expected one of 'variational', 'semi-stochastic', got 'stale'",
        ),
    ],
)
def test_schemes_that_are_refused(more, words: str) -> None:
    X = np.random.default_rng(5).standard_normal((90, 2))
    with pytest.raises(ValueError, match=words):
        LowRankGP("fourier", 10, **{"scheme": "semi-stochastic", "optimizer": "adam", **more}).fit(X, X[:, 0])
