"""Trained Hilbert-space features: kernel and divergence within their proved bounds, boxes, networks, partitions."""

from __future__ import annotations

import numpy as np
import pytest

from fitting import LowRankGP, load
from fitting.features import MLP, Composed, FeatureKernel, Hilbert, HilbertMap
from fitting.features.hilbert_space import Box, numbers_for
from gpbounds.kernels import Matern, RationalQuadratic, SquaredExponential
from gpbounds.lowrank import (
    HilbertFeatures,
    hilbert_kernel_error,
    hilbert_kl,
    hilbert_rank,
    hilbert_report,
    hilbert_report_of,
    kl_features,
)
from gpbounds.rows import Source
from gpbounds.rows.engines import Local
from gpbounds.rows.formats import ArrayPart
from gpbounds.texts import short

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
    divergence = model.kl_bound_
    assert float(divergence.prior) == float(proved)
    assert divergence.exact == pytest.approx(exact, rel=1e-9)
    assert 0.0 < exact <= float(proved)
    assert not any("fixed before the data" in each for each in divergence.prior.assumptions)
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
    divergence = model.kl_bound_
    assert divergence.exact <= float(divergence.prior)
    again = hilbert_kl(at, 300, plan.m, plan.c, half_width=box.half_width, noise=noise)
    assert float(divergence.prior) == float(again)


@quiet
def test_a_network_never_leaves_its_box() -> None:
    model = LowRankGP(MLP((6,), d=1, then=Hilbert(14, 1.4)), random_state=0, max_iter=60).fit(X, Y)
    features = model.feature_kernel_.features
    assert isinstance(features, Composed)
    far = np.concatenate([X, 1e6 * X, -1e3 * X])
    z = features.transform.project(model.feature_kernel_.weights, far)
    assert np.abs(z).max() <= features.inner.half_width[0] == 3.0
    assert np.isfinite(model.predict(far)).all()
    divergence = model.kl_bound_
    assert divergence.exact <= float(divergence.prior)


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
        (Hilbert(4, (1.5, 1e101), (1.0, 1.0)), "c, half_width: expected numbers below 1e\\+100"),
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


# What a given HSGP costs


class ExpQuad:
    """The covariance function of PyMC, as far as it is read."""

    def __init__(self, ls, input_dim=1, active_dims=None):
        self.ls, self.input_dim, self.active_dims = ls, input_dim, active_dims


class Matern52(ExpQuad):
    pass


class Cosine(ExpQuad):
    pass


class Prod:
    def __init__(self, *factors):
        self._factor_list = list(factors)


class Constant:
    """A constant tensor."""

    def __init__(self, data):
        self.data = np.asarray(data)


class HSGP:
    def __init__(self, m, cov_func, c=None, L=None, drop_first=False):
        self._m, self._c, self._L, self._drop_first, self.cov_func = m, c, L, drop_first, cov_func


def test_a_report_has_the_numbers_of_the_library() -> None:
    kernel = SquaredExponential(1.3, [0.9, 0.7])
    report = hilbert_report(kernel, (12, 6), 1.4, X, noise=0.05, target=0.2)
    box = Box.around(X)
    Xi = HilbertFeatures(kernel, (12, 6), 1.4, half_width=box.half_width, centre=box.centre).fit(X)(X)
    assert report.at_rows == pytest.approx(kl_features(kernel(X), Xi, noise=0.05), rel=1e-6)
    assert float(report.bound) == float(hilbert_kl(kernel, 300, (12, 6), 1.4, half_width=box.half_width, noise=0.05))
    assert report.at_rows <= float(report.bound)
    assert report.enough.m == hilbert_rank(kernel, 300, half_width=box.half_width, noise=0.05, target=0.2).m
    again = hilbert_report(kernel, report.enough.m, report.enough.c, X, noise=0.05)
    assert 0.0 < again.at_rows <= float(again.bound) <= 0.2
    text = str(report)
    assert f"At these rows: KL(exact || Hilbert space) = {report.at_rows:.4g} nats." in text
    assert f"m = {short(report.enough.m)}, c = {short(report.enough.c)}, {report.enough.rank} functions" in text
    assert report.to_dict()["enough"]["rank"] == report.enough.rank


def test_an_object_of_pymc_is_its_parameters() -> None:
    """c or L; columns; a factor in front; the mean as the middle where PyMC takes it."""
    plain = hilbert_report(SquaredExponential(4.0, 0.6), 15, 1.5, LINE, noise=0.1)
    for ls, scale in ((0.6, 4.0), (Constant(0.6), Constant(4.0))):
        covariance = Prod(ExpQuad(ls), scale)
        assert hilbert_report_of(HSGP([15], covariance, c=1.5), LINE, noise=0.1).to_dict() == plain.to_dict()
    reach = plain.features.half_width[0]
    by_side = hilbert_report_of(HSGP([15], Prod(ExpQuad(0.6), 4.0), L=[1.5 * reach]), LINE, noise=0.1)
    assert by_side.at_rows == pytest.approx(plain.at_rows, rel=1e-9)
    first = hilbert_report_of(HSGP([15], ExpQuad(0.6, 2, [0]), c=1.5), X, noise=0.1)
    assert first.at_rows == pytest.approx(
        hilbert_report(SquaredExponential(1.0, 0.6), 15, 1.5, LINE, noise=0.1).at_rows
    )
    two = hilbert_report_of(HSGP([12, 6], Matern52(np.array([0.9, 0.7]), 2, [0, 1]), c=1.4), X, noise=0.1)
    assert two.at_rows == hilbert_report(Matern(2.5, 1.0, [0.9, 0.7]), [12, 6], 1.4, X, noise=0.1).at_rows
    old = HSGP([15], ExpQuad(0.6), c=1.5)
    old._X_mean = "symbolic"
    report = hilbert_report_of(old, LINE, noise=0.1)
    assert report.features.centre[0] == LINE.mean()
    assert report.features.half_width[0] == np.abs(LINE - LINE.mean()).max()
    chosen = hilbert_report_of(
        HSGP([15], ExpQuad(object()), c=1.5), LINE, noise=0.1, kernel=SquaredExponential(4.0, 0.6)
    )
    assert chosen.to_dict() == plain.to_dict()


@pytest.mark.parametrize(
    ("gp", "words"),
    [
        (3.0, "gp: expected a pymc.gp.HSGP, got float without _m, _c, _L, cov_func"),
        (HSGP([9], Cosine(1.0), c=1.5), "gp: expected a cov_func made of ExpQuad, .*, got Cosine"),
        (HSGP([9], Prod(ExpQuad(1.0), ExpQuad(2.0)), c=1.5), r"got ExpQuad \* ExpQuad"),
        (HSGP([9], Prod(ExpQuad(1.0), Cosine(2.0)), c=1.5), r"got ExpQuad \* Cosine"),
        (HSGP([9], ExpQuad(object()), c=1.5), "gp: expected numbers for ls, got object: pass kernel="),
        (HSGP([9], ExpQuad(1.0), L=[object()]), "gp: expected numbers for L"),
        (HSGP([9], ExpQuad(1.0), c=1.5, drop_first=True), "gp: expected drop_first=False"),
        (HSGP([9], ExpQuad(1.0), c=1.0), "c: expected numbers above 1"),
    ],
)
def test_objects_that_cannot_be_read(gp, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        hilbert_report_of(gp, LINE, noise=0.1)
