"""The default start of training: the pilot fit of some rows, what it finds, and what it depends on."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import norm
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from fitting import PACGP, ExactGP, LowRankGP, RenyiGP, SparseGP, SparsePACGP, VariationalGP
from fitting.objectives.objective import Objective, at_point, objective
from fitting.objectives.packing import packing_of
from fitting.starts.pilot import (
    FAR,
    PilotFits,
    candidates,
    near,
    number_of_rows,
    others_of,
    pilot,
    predicts,
    rows_of,
    that_matter_alone,
)
from fitting.starts.starts import (
    DISTANT,
    around,
    choose_inducing,
    default_kernel,
    default_noise,
    mean_square,
    spreads_from_zero,
    units,
)
from fitting.training import Session
from gpbounds import Matern, SquaredExponential
from gpbounds.kernels import Linear
from gpbounds.likelihoods import StudentT

INPUTS, RELEVANT = 30, 4


def waves(N, seed=0, inputs=INPUTS):
    """Inputs of which at most four matter, and targets with a tenth of noise."""
    rng = np.random.default_rng([inputs, seed])
    X = rng.standard_normal((N, inputs))
    clean = np.sin(3.0 * X[:, 0]) + np.sin(3.0 * X[:, 1]) + 0.5 * X[:, 2 : 3 if inputs < 4 else 4].prod(axis=1)
    y = clean + 0.1 * clean.std() * rng.standard_normal(N)
    return X, (y - y.mean()) / y.std()


def pairs(N, seed=0):
    """Targets that no input explains alone; four of thirty inputs matter, in two pairs."""
    rng = np.random.default_rng([INPUTS, seed])
    X = rng.standard_normal((N, INPUTS))
    clean = np.sin(2.0 * X[:, 0] * X[:, 1]) + np.cos(2.0 * X[:, 2] + 2.0 * X[:, 3])
    y = clean + 0.1 * rng.standard_normal(N)
    return X, (y - y.mean()) / y.std()


def quiet(model, X, y):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(X, y)


def noise_alone(y):
    """max over σ² of log N(y; 0, σ²I)."""
    return -0.5 * len(y) * (np.log(2.0 * np.pi * np.mean(y**2)) + 1.0)


def test_the_default_start_finds_inputs_that_matter_where_that_of_scale_ends_at_noise():
    X, y = pairs(800)
    old, new = (
        quiet(SparseGP(n_inducing=40, max_iter=40, start=start, random_state=0), X, y) for start in ("scale", "auto")
    )
    assert old.objective_ - noise_alone(y) < 1e-2 * len(y)
    assert new.objective_ - noise_alone(y) > 0.15 * len(y)
    lengths = new.kernel_.lengthscales(INPUTS)
    assert np.sum(lengths[:RELEVANT] < 0.2 * lengths[RELEVANT:].min()) >= 2


@pytest.mark.slow
def test_a_pilot_fit_that_explains_its_rows_only_is_fitted_again():
    """Inputs that do not matter explain 320 rows, 70 nats better than noise, but not the other rows."""
    X, y = pairs(500, seed=2)
    Y = y[:, None]
    kernel = default_kernel(X, Y)
    given = at_point(kernel, default_noise(Y, kernel, X))
    limits = near(around(kernel, given.likelihood), given, X)
    points = candidates(given, X, Y, limits, ())
    n = number_of_rows(500, INPUTS, 40)
    rows = rows_of(500, n, 0)
    others = others_of(500, rows, n, 0)
    assert np.array_equal(np.sort(np.append(rows, others)), np.arange(500))
    run = pilot(X[rows], Y[rows], points, limits=limits, fixed=())
    found = packing_of(points[0], fixed=(), limits=limits).unpack(run.vector)
    assert run.value - noise_alone(y[rows]) > 0.2 * n
    assert not predicts(found, (X[rows], Y[rows]), (X[others], Y[others]), mean_square(Y))
    model = quiet(SparseGP(n_inducing=40, max_iter=40, random_state=0), X, y)
    assert model.objective_ - noise_alone(y) > 0.3 * len(y)
    assert np.sum(model.kernel_.lengthscales(INPUTS)[:RELEVANT] < 1.0) == 2


def test_inputs_that_matter_alone_are_found():
    """Two sines of 100 inputs; noise hardly ever has any."""
    X, y = waves(500, inputs=100)
    Y = y[:, None]
    assert that_matter_alone(X, Y) == [0, 1]
    assert that_matter_alone(np.exp(X), np.hstack([Y, -3.0 * Y])) == [0, 1]  # ranks; two outputs
    assert that_matter_alone(np.hstack([X[:, :1], np.ones((500, 1))]), Y) == [0]
    rng = np.random.default_rng(0)
    found = [that_matter_alone(rng.standard_normal((300, 10)), rng.standard_normal((300, 1))) for _ in range(100)]
    assert sum(map(len, found)) <= 10  # of 1000: χ² with 8 degrees of freedom exceeds 28 with probability 5e-4


@pytest.mark.slow
def test_inputs_that_matter_alone_are_used():
    """Two sines of 100 inputs: no candidate of equal lengthscales finds them in 500 rows."""
    X, y = waves(500, inputs=100)
    Y = y[:, None]
    kernel = default_kernel(X, Y)
    given = at_point(kernel, default_noise(Y, kernel, X))
    limits = near(around(kernel, given.likelihood), given, X)
    without = pilot(X, Y, candidates(given, X, Y, limits, ()), limits=limits, fixed=())
    run = pilot(X, Y, candidates(given, X, Y, limits, (), [0, 1]), limits=limits, fixed=())
    assert run.value > without.value + 0.5 * len(y)
    model = quiet(SparseGP(n_inducing=30, max_iter=20, random_state=0), X, y)
    assert model.objective_ - noise_alone(y) > 0.4 * len(y)


@pytest.mark.broad
@pytest.mark.parametrize("kind", [SparseGP, SparsePACGP])
def test_sparse_models_start_from_two_pilot_fits(kind):
    """The second one has more rows, and goes on from the end of the first one or from its best candidate."""
    X, y = waves(300, inputs=3)
    session = Session(None, "", 0)
    model = kind(n_inducing=8, max_iter=2, random_state=0)
    quiet(model, X, y)
    given = model._given(X, y[:, None])
    start = model._start(given, X, y[:, None], session)
    first, second = (session.runs[name] for name in ("start", "start again"))
    few, more = ((X[rows], y[rows, None]) for rows in (rows_of(300, 212, 0), rows_of(300, 300, 0, 1)))
    limits = near(model._training_limits(given), given, X)
    points = candidates(given, X, y[:, None], limits, (), that_matter_alone(*few))
    candidate = points[first.state["candidate"]]

    def evidence(rows, point):
        return objective(*rows, "exact").evaluate(point.kernel, point.noise, gradient=False).value

    assert evidence(few, candidate) == max(evidence(few, point) for point in points)
    layout = packing_of(start, fixed=(), limits=limits)
    assert second.value >= max(evidence(more, point) for point in (layout.unpack(first.vector), candidate))
    np.testing.assert_allclose(layout.pack(start), second.vector, rtol=1e-14)


@pytest.mark.parametrize(("N", "second"), [(700, True), (701, False)])
def test_a_large_first_pilot_fit_that_predicts_is_the_only_one(monkeypatch, N, second):
    """2·350 rows are enough for a second fit, 2·351 are not made."""
    X, y = waves(N, inputs=3)
    fits = []

    def fit(self, rows, name, known=()):
        fits.append((len(rows), name))
        return (at_point(SquaredExponential(1.0, [0.5, 0.5, 2.0]), 0.05),) * 2

    monkeypatch.setattr(PilotFits, "_fit", fit)
    few = -(-N // 2)
    given = at_point(SquaredExponential(), 0.05)
    PilotFits(X, y[:, None], given, few, N, 0, True, {}, (), None).start()
    assert fits == [(few, "start"), *([(N, "start again")] if second else [])]


def test_other_rows_are_compared_with_noise_alone():
    """The difference of log densities by SciPy, and its sign for a kernel that explains, and for one that does not."""
    X, y = waves(60, inputs=2)
    Y = 1.7 * y[:, None]
    half, square = slice(0, 40), float(np.mean(Y**2))
    signs = []
    for kernel, noise in ((SquaredExponential(2.5, [0.6, 0.6]), 0.05), (SquaredExponential(2.5, 0.01), 0.001)):
        K = kernel(X) + noise * np.eye(60)
        means = K[40:, half] @ np.linalg.solve(K[half, half], Y[half, 0])
        spread = np.diag(K[40:, 40:] - K[40:, half] @ np.linalg.solve(K[half, half], K[half, 40:]))
        gain = norm.logpdf(Y[40:, 0], means, np.sqrt(spread)).mean() - norm.logpdf(Y[40:, 0], 0, np.sqrt(square)).mean()
        assert predicts(at_point(kernel, noise), (X[half], Y[half]), (X[40:], Y[40:]), square) == (gain > 0.0)
        signs.append(gain > 0.0)
    assert signs == [True, False]


def test_a_fit_that_ends_at_noise_is_recognised_and_left(monkeypatch):
    X, y = waves(400, inputs=6)
    starts = []

    found = SparseGP._start

    def poor(self, given, X, Y, session, attempt=0):
        """First a start from which training ends at noise."""
        starts.append(attempt)
        if attempt:
            return found(self, given, X, Y, session, attempt)
        return at_point(SquaredExponential(1e-3, 0.01 * np.ones(6)), 1.0)

    monkeypatch.setattr(SparseGP, "_start", poor)
    model = quiet(SparseGP(n_inducing=30, max_iter=30, random_state=0), X, y)
    assert starts == [0, 1]
    assert model.objective_ - noise_alone(y) > 0.1 * len(y)
    assert "noise" not in [remark.kind for remark in model.remarks_]
    assert len(model.runs_) == 2
    assert model.runs_[1].value - noise_alone(y) < 1e-3 * len(y)


@pytest.mark.parametrize(
    "model",
    [ExactGP(max_iter=30), SparseGP(n_inducing=10, max_iter=30), SparsePACGP(n_inducing=8, max_iter=20)],
    ids=lambda model: type(model).__name__,
)
def test_targets_that_no_input_determines_give_a_remark(model):
    """A kernel that is nowhere negative cannot explain targets whose neighbours have opposite signs."""
    X, y = np.linspace(0.0, 1.0, 120)[:, None], np.tile([1.0, -1.0], 60)
    assert "noise" in [remark.kind for remark in quiet(model, X, y).remarks_]


@pytest.mark.broad
@pytest.mark.parametrize(
    "model",
    [
        ExactGP(max_iter=2),
        SparseGP("vfe", n_inducing=9, max_iter=2),
        SparseGP("pic", n_inducing=9, max_iter=3, block_size=40),
        RenyiGP(n_inducing=9, max_iter=2),
        PACGP(max_iter=2),
        SparsePACGP(n_inducing=9, max_iter=2),
    ],
    ids=lambda model: type(model).__name__,
)
def test_the_start_is_the_same_in_every_fit_and_for_every_source_of_rows(model, tmp_path, monkeypatch):
    """Also without ``random_state``."""
    monkeypatch.setattr("fitting.starts.pilot.FEWEST", 60)
    X, y = waves(100, inputs=3)
    stored = np.memmap(tmp_path / "rows", dtype=np.float64, mode="w+", shape=X.shape)
    stored[...] = X
    wide = np.zeros((2 * len(X), 6))
    wide[::2, ::2] = X
    values = [
        np.append(quiet(model, rows, y).kernel_.log_parameters, model.objective_)
        for rows in (X, stored, np.asfortranarray(wide)[::2, ::2])
    ]
    assert np.array_equal(values[0], values[1])
    assert np.array_equal(values[0], values[2])


def test_the_rows_depend_on_the_seed_and_the_number_of_rows():
    assert np.array_equal(rows_of(5000, 300, 4), rows_of(5000, 300, 4))
    assert not np.array_equal(rows_of(5000, 300, 4), rows_of(5000, 300, 5))
    assert not np.array_equal(rows_of(5000, 300, 4), rows_of(5000, 300, 4, attempt=1))
    assert len(np.unique(rows_of(300, 300, 4))) == 300
    assert np.all(np.diff(rows_of(5000, 300, 4)) > 0)


@pytest.mark.parametrize(("N", "D", "rank"), [(50, 3, 10), (1000, 2, 40), (6500, 32, 100), (10**6, 8, 500)])
def test_the_number_of_rows_has_its_limits(N, D, rank):
    n = number_of_rows(N, D, rank)
    assert n == min(N, 1000, max(200 + 4 * D, int(np.sqrt(N * rank))))


def test_the_pilot_is_at_least_as_good_as_each_of_its_candidates():
    X, y = waves(200, inputs=5)
    Y = y[:, None]
    kernel = default_kernel(X, Y)
    given = at_point(kernel, default_noise(Y, kernel, X))
    limits = near(around(given.kernel, given.likelihood), given, X)
    points = candidates(given, X, Y, limits, ())
    run = pilot(X, Y, points, limits=limits, fixed=())
    evidence = objective(X, y, "exact")
    assert all(run.value >= evidence.evaluate(p.kernel, p.noise, gradient=False).value for p in points)
    assert run.value > noise_alone(y)


def test_values_that_the_user_sets_are_kept():
    """A noise that is passed is held while the lengthscales are searched; fixed values and limits hold."""
    X, y = waves(150, inputs=4)
    model = ExactGP(noise=0.3, fixed=("lengthscale[1]",), limits={"variance": (0.5, 0.7)}, random_state=0)
    quiet(model, X, y)
    assert model.kernel_.lengthscales(4)[1] == pytest.approx(2.0 * units(X)[1], rel=1e-12)
    assert 0.5 * (1 - 1e-9) <= model.kernel_.variance <= 0.7 * (1 + 1e-9)
    held = ExactGP(noise=0.3, fixed=("noise",), random_state=0)
    assert quiet(held, X, y).noise_ == pytest.approx(0.3, rel=1e-12)


def test_a_kernel_that_is_passed_is_the_start():
    X, y = waves(120, inputs=3)
    kernel = Matern(1.5, 0.7, [1.0, 2.0, 3.0])
    model = quiet(ExactGP(kernel, 0.2), X, y)
    start = objective(X, y, "exact").evaluate(kernel, 0.2).value
    assert model.history_[0] == pytest.approx(start, rel=1e-12)
    untrained = quiet(ExactGP(optimizer=None), X, y)
    expected = default_kernel(X, y[:, None]).log_parameters
    np.testing.assert_allclose(untrained.kernel_.log_parameters, expected, rtol=0.0, atol=1e-14)


def test_the_search_keeps_the_family_of_a_kernel_that_is_passed():
    X, y = waves(120, inputs=5)
    far = Matern(2.5, 1.0, 1e3 * np.ones(5))
    found = quiet(ExactGP(far, start="evidence", random_state=0), X, y)
    assert isinstance(found.kernel_, Matern)
    assert found.kernel_.nu == 2.5
    shared = quiet(ExactGP(SquaredExponential(1.0, 1e3), start="evidence", random_state=0), X, y)
    assert shared.kernel_.parameter_names == ("variance", "lengthscale")
    assert min(found.objective_, shared.objective_) > noise_alone(y)


def test_lengthscales_of_the_start_are_not_beyond_reach():
    """`FAR`, and one step of training beyond."""
    X, y = waves(120, inputs=8)
    model = quiet(ExactGP(max_iter=1, random_state=0), X, y)
    assert np.all(model.kernel_.lengthscales(8) <= 1.5 * FAR * np.sqrt(8) * units(X))


def test_the_start_refuses_kernels_without_lengthscales():
    X, y = waves(40, inputs=3)
    kernel = SquaredExponential() + Matern(0.5)
    with pytest.raises(ValueError, match="start: expected 'auto' or 'scale' for this kernel"):
        ExactGP(kernel, start="evidence").fit(X, y)
    with pytest.raises(ValueError, match="start: expected one of"):
        ExactGP(start="best").fit(X, y)


def test_a_checkpoint_keeps_the_start(tmp_path, monkeypatch):
    X, y = waves(150, inputs=3)
    path = tmp_path / "training.npz"
    whole = quiet(SparseGP(n_inducing=8, max_iter=12, random_state=7), X, y)
    part = quiet(SparseGP(n_inducing=8, max_iter=5, random_state=7, checkpoint=path), X, y)

    def never(*arguments, **options):
        raise AssertionError("the pilot fit was repeated")

    monkeypatch.setattr("fitting.starts.pilot.pilot", never)
    rest = quiet(SparseGP(n_inducing=8, max_iter=12, random_state=7, checkpoint=path), X, y)
    assert np.array_equal(rest.history_[:6], part.history_)
    assert part.history_[0] == whole.history_[0]


def test_clusters_are_not_split_by_an_input_with_a_long_lengthscale():
    X = np.random.default_rng(2).random((400, 2))
    centres = choose_inducing(SquaredExponential(1.0, [0.1, 100.0]), X, 8, "kmeans", np.random.default_rng(0))
    distortion = np.mean(np.abs(X[:, :1] - centres[:, 0]).min(axis=1) ** 2)
    assert distortion < 1.5 / (12.0 * 8.0**2)  # eight intervals of equal length have 1/(12·64)
    doubled = choose_inducing(SquaredExponential(1.0, [0.2, 200.0]), 2.0 * X, 8, "kmeans", np.random.default_rng(0))
    assert np.array_equal(doubled, 2.0 * centres)


def test_ranks_are_those_of_scipy_with_ties():
    from scipy.stats import rankdata

    from fitting.starts.pilot import _ranks

    rng = np.random.default_rng(0)
    for top in (1, 3, 50, 10_000):
        x = rng.integers(0, top, 200).astype(np.float64)
        np.testing.assert_array_equal(_ranks(x), rankdata(x))


# Targets far from the prior mean.


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("distance", [10.0, 1e4])
def test_a_model_of_real_targets_far_from_zero_finds_what_lies_within_their_spread(distance):
    """The noise was limited from below by a share of the mean square: the RMSE was 0.17 at 1e4, and 0.77 at 1e6."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-2.0, 2.0, (80, 1))
    f = np.sin(2.0 * X[:, 0])
    model = ExactGP(random_state=0, solver="cholesky").fit(X, distance + f + 0.1 * rng.standard_normal(80))
    assert np.sqrt(np.mean((model.predict(X) - distance - f) ** 2)) < 0.06
    assert ("distance" in [remark.kind for remark in model.remarks_]) == (distance > DISTANT)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(
    "model", [SparseGP("vfe", n_inducing=5), VariationalGP(5, "student-t"), LowRankGP("fourier", rank=8)]
)
def test_a_model_of_targets_far_from_its_mean_says_so_in_one_sentence(model):
    """A Student-t model was refused at 1e6 by limits that nobody had set."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-2.0, 2.0, (40, 1))
    y = 1e6 + np.sin(2.0 * X[:, 0]) + 0.1 * rng.standard_normal(40)
    with pytest.warns(ConvergenceWarning, match=r"their own spread away .* mean='constant' or normalize_y=True"):
        clone(model).set_params(max_iter=1, random_state=0).fit(X, y)
    for options in ({"mean": "constant"}, {"normalize_y": True}):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            near = clone(model).set_params(max_iter=1, random_state=0, **options).fit(X, y)
        assert "distance" not in [remark.kind for remark in near.remarks_]


def test_limits_of_variances_follow_the_spread_of_targets_far_from_zero():
    model = StudentT(4.0, 3.0)
    usual, far = around(SquaredExponential(2.0, 5.0), model), around(SquaredExponential(2.0, 5.0), model, 1e3)
    assert {name: low / far[name][0] for name, (low, _) in usual.items()} == pytest.approx(
        {"variance": 1e6, "lengthscale": 1.0, "df": 1.0, "scale": 1e3}
    )
    assert {name: high for name, (_, high) in far.items()} == {name: high for name, (_, high) in usual.items()}
    assert around(SquaredExponential(), model, DISTANT) == around(SquaredExponential(), model)


@pytest.mark.parametrize("centre", [0.0, 3.0, -1e4, 1e6])
@pytest.mark.parametrize("spread", [1e-3, 1.0, 1e3])
def test_the_distance_of_targets_is_that_of_their_median_and_no_outlier_moves_it(centre, spread):
    """Of 1000 normal targets the median and the quartiles are known to 5 standard errors: 0.2 spreads, and 15 %."""
    y = centre + spread * np.random.default_rng(0).standard_normal((1000, 1))
    y[:5] = 1e15
    assert spreads_from_zero(y) == pytest.approx(abs(centre) / spread, rel=0.2, abs=0.2)
    assert spreads_from_zero(-y) == pytest.approx(spreads_from_zero(y), rel=1e-9)
    assert spreads_from_zero(np.column_stack([np.full(1000, 7.0), y])) == spreads_from_zero(y)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1])
def test_random_rows_first_end_no_worse_and_save_evaluations(seed, monkeypatch, tmp_path):
    """Adam's steps on random rows are a start; where training ends is the objective of all rows, with fewer of these.

    A fit that is resumed ends at the same bits, and reads the steps from its file.
    """
    rng = np.random.default_rng([7, seed])
    X = rng.standard_normal((6400, 8))
    y = np.sin(X @ rng.standard_normal(8) / np.sqrt(2.0)) + 0.3 * rng.standard_normal(6400)

    def fitted(**settings):
        return SparseGP("vfe", n_inducing=80, random_state=seed, **settings).fit(X, y)

    model, path = fitted(), tmp_path / "fit.npz"
    with pytest.warns(ConvergenceWarning, match="All 5 iterations"):
        fitted(checkpoint=path, max_iter=5)
    resumed = fitted(checkpoint=path)
    assert resumed.objective_ == model.objective_
    assert np.array_equal(resumed.inducing_, model.inducing_)
    monkeypatch.setattr("fitting.estimators.trainer.MANY", np.inf)
    plain = fitted()
    assert model.objective_ >= plain.objective_ - 0.002 * len(y)
    level = plain.objective_ - 0.02 * len(y)
    iterations = [int(np.argmax(each.history_ >= level)) for each in (model, plain)]
    assert 2 * iterations[0] < iterations[1]


def test_a_start_by_random_rows_is_a_run_of_its_own_and_repeats(monkeypatch):
    """Few rows, for which the limits are lowered: two fits are the same, and end no worse than without the steps."""
    rng = np.random.default_rng(3)
    X = rng.uniform(-2.0, 2.0, (300, 2))
    y = np.sin(2.0 * X[:, 0]) + 0.1 * rng.standard_normal(300)
    plain = SparseGP("vfe", n_inducing=8, random_state=0).fit(X, y)
    for name, value in (("FEW", 200), ("MANY", 20), ("STEPS", 40)):
        monkeypatch.setattr(f"fitting.estimators.trainer.{name}", value)
    one, two = (SparseGP("vfe", n_inducing=8, random_state=0).fit(X, y) for _ in range(2))
    assert one.objective_ == two.objective_
    assert np.array_equal(one.inducing_, two.inducing_)
    assert not np.array_equal(one.inducing_, plain.inducing_)  # the steps were taken
    ended = objective(X, y).evaluate(one.kernel_, one.noise_, one.inducing_)
    assert one.objective_ == pytest.approx(ended.value, rel=1e-12)  # L-BFGS-B is in doubles
    assert one.objective_ >= plain.objective_ - 0.01 * len(y)


@pytest.mark.parametrize(("tol", "end"), [(0.01, "Features are in single precision."), (1e-4, "before were in")])
def test_a_run_in_single_precision_ends_by_values_in_doubles(tol, end, monkeypatch, tmp_path):
    """The objective is that of doubles, also where the run goes on in them; a resumed fit has the same bits; with
    ``tol=None`` no evaluation of all rows is in single precision."""
    rng = np.random.default_rng(5)
    X = rng.uniform(-2.0, 2.0, (300, 2))
    y = np.sin(2.0 * X[:, 0]) + 0.1 * rng.standard_normal(300)
    for name, value in (("FEW", 200), ("MANY", 20), ("STEPS", 20)):
        monkeypatch.setattr(f"fitting.estimators.trainer.{name}", value)

    def fitted(**settings):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            return SparseGP("vfe", n_inducing=8, random_state=0, **{"tol": tol, **settings}).fit(X, y)

    def in_doubles(model):
        return objective(X, y).evaluate(model.kernel_, model.noise_, model.inducing_).value

    model, path = fitted(), tmp_path / "fit.npz"
    assert end in model.stop_reason_
    assert model.n_iter_ == len(model.history_) - 1
    assert model.objective_ == pytest.approx(in_doubles(model), rel=1e-12)
    short = fitted(max_iter=5, checkpoint=path)
    assert short.stop_reason_.startswith("All 5 iterations")
    assert short.objective_ == pytest.approx(in_doubles(short), rel=1e-12)
    resumed = fitted(checkpoint=path)
    assert resumed.objective_ == model.objective_
    assert np.array_equal(resumed.inducing_, model.inducing_)

    precisions = []
    minimised = Objective.minimised

    def watched(self, point, *, gradient=True):
        if self.N == len(y):
            precisions.append(self.data.single_precision)
        return minimised(self, point, gradient=gradient)

    monkeypatch.setattr(Objective, "minimised", watched)
    fitted(max_iter=5)
    assert sum(precisions) > 5
    precisions.clear()
    fitted(max_iter=5, tol=None)
    assert len(precisions) > 5
    assert not any(precisions)


KERNELS = [SquaredExponential(1.0, [0.8, 1.0, 1.2]), Matern(1.5), SquaredExponential() + Linear()]


@pytest.mark.parametrize("kernel", KERNELS, ids=["ard", "matern", "sum"])
@pytest.mark.parametrize("noise", [0.1, 0.001])
def test_single_precision_errs_far_less_than_random_rows_and_is_left_where_it_would_not(kernel, noise):
    """Derivatives err by 1e-3 of their size at most, those of other rows by a tenth and more; near-singular Kuu has the
    bits of doubles."""
    rng = np.random.default_rng(4)
    X = rng.standard_normal((3000, 3))
    y = np.sin(X.sum(axis=1)) + 0.1 * rng.standard_normal(3000)
    exact, other = objective(X[:1500], y[:1500]), objective(X[1500:], y[1500:])
    single = replace(exact, data=replace(exact.data, single_precision=True))

    def slopes(problem, Z):
        return problem.evaluate(kernel, noise, Z).gradient.Z

    truth = slopes(exact, X[:30])
    scale = np.linalg.norm(truth)
    assert 0.0 < np.linalg.norm(slopes(single, X[:30]) - truth) < 1e-3 * scale
    assert np.linalg.norm(slopes(other, X[:30]) - truth) > 0.1 * scale
    close = 1e-4 * X[:30]
    assert np.array_equal(slopes(single, close), slopes(exact, close))


def test_single_precision_is_left_where_products_of_entries_would_be_denormal():
    """Most of k(Z, Z) is below 1e-20: such rows would take a hundred times as long, and have the bits of doubles."""
    rng = np.random.default_rng(4)
    X = rng.standard_normal((1500, 3))
    exact = objective(X, np.sin(X.sum(axis=1)))
    single = replace(exact, data=replace(exact.data, single_precision=True))
    kernel = SquaredExponential(1.0, 0.15)
    assert np.median(kernel(X[:30])) < 1e-20
    one, two = (problem.evaluate(kernel, 0.1, X[:30]) for problem in (exact, single))
    assert one.value == two.value
    assert np.array_equal(one.gradient.Z, two.gradient.Z)
