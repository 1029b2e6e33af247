"""Trained Hilbert-space features: kernel and divergence within their proved bounds, boxes, networks, partitions."""

from __future__ import annotations

import numpy as np
import pytest

from fitting import LowRankGP, load
from fitting.features import MLP, Composed, FeatureKernel, Hilbert, HilbertMap
from fitting.features.hilbert_space import Box, numbers_for
from gpbounds.kernels import Matern, RationalQuadratic, SquaredExponential
from gpbounds.lowrank import hilbert_kernel_error, hilbert_kl, hilbert_rank, kl_features
from gpbounds.rows import Source
from gpbounds.rows.engines import Local
from gpbounds.rows.formats import ArrayPart

RNG = np.random.default_rng(11)
X = RNG.uniform([-1.0, 4.0], [3.0, 5.0], (300, 2))
Y = np.sin(2.0 * X[:, 0]) * (X[:, 1] - 4.5) + 0.05 * RNG.standard_normal(300)
LINE = X[:, :1]
WAVE = np.sin(3.0 * X[:, 0]) + 0.1 * RNG.standard_normal(300)
quiet = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


@pytest.mark.parametrize("kernel", [SquaredExponential(1.3, [0.9, 0.5]), SquaredExponential(0.7, 0.6)], ids=repr)
def test_the_kernel_differs_by_no_more_than_the_proved_error(kernel) -> None:
    """At the hyperparameters of the start and at others, whose weights are other ones."""
    box = Box.around(X)
    features = HilbertMap.of(kernel, [16, 9], [1.6, 2.2], box)
    for factor in (1.0, 1.4, 0.7):
        at = kernel.with_log_parameters(kernel.log_parameters + np.log(factor))
        proved = float(hilbert_kernel_error(at, features.m, features.c, half_width=box.half_width))
        error = np.abs(FeatureKernel(features, at.log_parameters)(X) - at(X)).max()
        assert 0.05 * proved < error <= proved  # the bound takes the largest image of each sign


def test_a_box_is_that_of_the_rows_and_its_numbers_fill_the_rank() -> None:
    box = Box.around(X)
    np.testing.assert_allclose(box.centre, 0.5 * (X.min(axis=0) + X.max(axis=0)), rtol=1e-14)
    assert (np.abs(X - box.centre).max(axis=0) <= box.half_width).all()
    assert (np.abs(X - box.centre).max(axis=0) >= (1.0 - 1e-9) * box.half_width).all()
    for rank in (1, 2, 7, 40, 123):
        m = numbers_for(SquaredExponential(1.0, [1.0, 1.0]), rank, box.half_width)
        assert m.prod() <= rank
        assert all((m + step).prod() > rank for step in np.eye(2, dtype=int))  # no room for one more anywhere
    m = numbers_for(SquaredExponential(1.0, [1.0, 1.0]), 400, box.half_width)
    assert m[0] / m[1] == pytest.approx(box.half_width[0] / box.half_width[1], rel=0.1)


@quiet
@pytest.mark.parametrize("kernel", ["se", Matern(2.5)], ids=str)
def test_the_divergence_of_a_trained_model_is_below_its_proved_bound(kernel) -> None:
    """The bound needs no hyperparameters that were fixed in advance."""
    model = LowRankGP("hilbert", 25, kernel, random_state=0, max_iter=80).fit(LINE, WAVE)
    features, trained = model.feature_kernel_.features, model.kernel_
    proved = hilbert_kl(trained, 300, 25, 1.5, half_width=features.half_width, noise=model.noise_)
    K, Xi = trained(LINE), features(model.feature_kernel_.parameters, LINE)
    exact = kl_features(K, Xi, noise=model.noise_)
    found = model.kl_bound_
    assert float(found.prior) == float(proved)
    assert found.exact == pytest.approx(exact, rel=1e-9)
    assert 0.0 < exact <= float(proved)
    assert not any("fixed before the data" in each for each in found.prior.assumptions)
    assert model.score(LINE, WAVE) > 0.95
    outside = model.kl_bound_of(np.concatenate([LINE, LINE.max(keepdims=True) + 0.3]))
    assert outside.prior is None
    assert "some are outside" in outside.reason


@quiet
def test_planned_functions_meet_their_target() -> None:
    kernel, noise = SquaredExponential(1.0, [0.9, 0.6]), 0.05
    box = Box.around(X)
    plan = hilbert_rank(kernel, 300, half_width=box.half_width, noise=noise, target=0.1)
    choice = Hilbert(plan.m, plan.c, kernel=kernel)
    model = LowRankGP(choice, noise=noise, optimizer=None, random_state=0).fit(X, Y)
    at = model.kernel_
    found = model.kl_bound_
    assert found.exact <= float(found.prior)
    again = hilbert_kl(at, 300, plan.m, plan.c, half_width=box.half_width, noise=noise)
    assert float(found.prior) == float(again)


@quiet
def test_a_network_never_leaves_its_box() -> None:
    model = LowRankGP(MLP((6,), d=1, then=Hilbert(14, 1.4)), random_state=0, max_iter=60).fit(X, Y)
    features = model.feature_kernel_.features
    assert isinstance(features, Composed)
    far = np.concatenate([X, 1e6 * X, -1e3 * X])
    z = features.transform.project(model.feature_kernel_.weights, far)
    assert np.abs(z).max() <= features.inner.half_width[0] == 3.0
    assert np.isfinite(model.predict(far)).all()
    found = model.kl_bound_
    assert found.exact <= float(found.prior)


@quiet
def test_a_projection_stays_in_its_box_whatever_its_weights() -> None:
    model = LowRankGP("hilbert", 20, dim=1, random_state=0, max_iter=30).fit(X, Y)
    features = model.feature_kernel_.features
    for _ in range(50):
        z = features.transform.project(RNG.standard_normal(features.transform.size), X)
        assert np.abs(z).max() <= features.inner.half_width[0]
    assert model.kl_bound_.prior is not None


@quiet
@pytest.mark.parametrize(
    "options",
    [
        {"features": Hilbert((6, 3), (1.4, 1.7))},
        {"features": MLP((4,), d=1, then=Hilbert(9))},
        {"features": "hilbert", "rank": 9, "dim": 1},
    ],
    ids=["box", "MLP", "projection"],
)
def test_a_loaded_model_has_the_same_bits(options, tmp_path) -> None:
    """0 is outside of the box of these rows."""
    model = LowRankGP(**options, random_state=0, max_iter=5).fit(X + 100.0, Y)
    model.save(tmp_path / "model.npz")
    again = load(tmp_path / "model.npz")
    np.testing.assert_array_equal(again.predict(X + 100.0), model.predict(X + 100.0))
    assert float(again.kl_bound_.prior) == float(model.kl_bound_.prior)


@quiet
def test_partitions_give_the_model_of_the_array() -> None:
    edges = [0, 1, 120, 140, 300]
    parts = [ArrayPart(X, Y, i, slice(*edges[i : i + 2])) for i in range(4)]
    rows = Source.of(Local(parts), single=True)
    options = {"rank": 40, "random_state": 0, "max_iter": 15, "start": "scale"}
    near, far = LowRankGP("hilbert", **options).fit(X, Y), LowRankGP("hilbert", **options).fit(rows)
    mine, theirs = far.feature_kernel_.features, near.feature_kernel_.features
    np.testing.assert_array_equal(mine.half_width, theirs.half_width)
    np.testing.assert_array_equal(mine.m, theirs.m)
    assert far.objective_ == pytest.approx(near.objective_, rel=1e-9)
    np.testing.assert_allclose(far.predict(X), near.predict(X), atol=1e-6)
    assert float(far.kl_bound_of(rows).prior) == pytest.approx(float(near.kl_bound_.prior), rel=1e-6)


@pytest.mark.parametrize(
    ("features", "words"),
    [
        (Hilbert(0), "m: expected"),
        (Hilbert(4, 1.0), "c: expected numbers above 1"),
        (Hilbert((4, 3), (1.5, 1.5, 1.5)), "m: expected a number or one for each of the 3"),
        (Hilbert(4, half_width=-1.0), "half_width: expected"),
        (Hilbert(4, centre=1.0), "half_width: expected a number beside centre"),
        (Hilbert(4, kernel=RationalQuadratic()), "kernel: expected SquaredExponential or Matern for features=Hilbert"),
        (Hilbert((4, 3, 2)), "m: expected a number or one for each of the 2"),
        (Hilbert(4, half_width=0.5), r"X: expected inputs within c·half_width = \[0.75, 0.75\]"),
        (MLP((4,), d=1, then=Hilbert(4, half_width=1.0, centre=2.0)), "centre: expected None or 0 after a network"),
    ],
)
def test_wrong_arguments(features, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        LowRankGP(features, random_state=0, max_iter=1).fit(X, Y)


@quiet
def test_predictions_outside_are_refused() -> None:
    model = LowRankGP("hilbert", 10, random_state=0, max_iter=3).fit(LINE, WAVE)
    with pytest.raises(ValueError, match=r"X: expected inputs within c·half_width .*train with a larger box"):
        model.predict([[40.0]])
