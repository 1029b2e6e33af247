"""``n_inducing="auto"``: the gap of the final model reaches the target, or a remark says why; ``fixed`` in words."""

from __future__ import annotations

import math
import warnings
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from sklearn.exceptions import ConvergenceWarning
from thinning import one_in

import fitting
from fitting import ExactGP, LowRankGP, RenyiGP, SparseGP, VariationalGP
from fitting.estimators import inducing
from fitting.objectives.objective import Objective
from fitting.starts import sufficient
from fitting.starts.sufficient import nested
from gpbounds import Matern, SquaredExponential, renyi
from gpbounds.means import LinearMean

UCI = Path(__file__).parents[2] / "shared" / "data" / "uci"
unconverged = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def table(seed, N=60, D=2, noise=0.1, scale=2.0):
    """Rows of a smooth function with noise."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2.0, 2.0, (N, D))
    return X, np.sin(scale * X[:, 0]) * np.cos(X[:, -1]) + noise * rng.standard_normal(N)


def true_gap(model, X, y):
    """D_α of the fitted model, from N × N matrices."""
    order = getattr(model, "alpha", 1.0)
    return renyi.exact_gap(model.kernel_, X, y, model.inducing_, order, noise=model.noise_)


def kinds(model):
    return [remark.kind for remark in model.remarks_]


# ---------------------------------------------------------------------- the final model reaches the target


@pytest.mark.slow
@unconverged
@pytest.mark.usefixtures("short_pilots")
@given(
    st.integers(0, 10**6),
    st.integers(3, 70),
    st.integers(1, 3),
    st.sampled_from([1e-3, 0.1, 1.0]),
    st.sampled_from([0.5, 2.0, 20.0]),
    st.sampled_from([0.05, 1.0, 10.0]),
    st.sampled_from([None, 5, 12]),
)
def test_the_gap_of_the_final_model_is_at_most_the_target_or_a_remark_says_why(seed, N, D, noise, scale, target, most):
    X, y = table(seed, N, D, noise, scale)
    model = SparseGP(n_inducing="auto", target_gap=target, max_inducing=most, random_state=0, max_iter=60).fit(X, y)
    assert len(model.inducing_) <= (N if most is None else most)
    assert true_gap(model, X, y) <= model.gap_ * (1.0 + 1e-9) + 1e-9
    assert (model.gap_ <= target) or "gap" in kinds(model)
    if most is None and noise >= 0.1:
        assert model.gap_ <= target


@pytest.mark.broad
@pytest.mark.parametrize("model", [SparseGP(n_inducing="auto"), RenyiGP(0.5, n_inducing="auto")], ids=str)
def test_a_rough_function_is_trained_by_its_evidence(model):
    """More than N/3 points would be needed: kernel and noise are those of the exact GP, within the target of its F."""
    X, y = table(0, 150, scale=12.0)
    model.fit(X, y)
    exact = ExactGP().fit(X, y)
    assert model.trained_with_ == 150 > 3 * inducing.DEARER
    assert 50 < len(model.inducing_) < 150
    assert exact.objective_ - model.target_gap - 0.05 <= model.objective_ <= exact.objective_ + 1e-6
    np.testing.assert_allclose(model.kernel_.log_parameters, exact.kernel_.log_parameters, atol=0.1)
    assert true_gap(model, X, y) <= model.gap_ <= model.target_gap
    value = float(renyi.elbo(model.kernel_, X, y, model.inducing_, getattr(model, "alpha", 1.0), noise=model.noise_))
    assert model.objective_ == pytest.approx(value, rel=1e-6)


def test_a_smooth_function_needs_few_points_at_each_round():
    X, y = table(1, 300)
    model = SparseGP(n_inducing="auto").fit(X, y)
    assert model.trained_with_ < 100
    assert len(model.inducing_) <= model.trained_with_
    assert model.gap_ <= 1.0
    more = SparseGP(n_inducing=100).fit(X, y)
    assert more.objective_ - model.objective_ < 0.01 * 300 + 1.0


def test_no_fewer_greedy_points_would_do():
    X, y = table(0, 150, scale=12.0)
    model = SparseGP(n_inducing="auto").fit(X, y)
    assert renyi.exact_gap(model.kernel_, X, y, model.inducing_[:-1], 1.0, noise=model.noise_) > model.target_gap


@pytest.mark.slow
def test_a_largest_number_keeps_the_last_model_for_which_it_is_enough():
    """The exact optimum needs over 90 points: the result has fewer, reaches the target, and says what is lost."""
    X, y = table(0, 150, scale=12.0)
    needed = len(SparseGP(n_inducing="auto").fit(X, y).inducing_)
    with pytest.warns(ConvergenceWarning, match=r"need over max_inducing = \d+ points. Raise it"):
        model = SparseGP(n_inducing="auto", max_inducing=needed - 4).fit(X, y)
    assert len(model.inducing_) <= needed - 4
    assert true_gap(model, X, y) <= model.gap_ <= model.target_gap
    assert model.trained_with_ < 150


@unconverged
def test_a_noise_free_function_ends_with_a_reason():
    X = np.linspace(0.0, 1.0, 50)[:, None]
    y = np.sin(8.0 * X[:, 0])
    model = SparseGP(n_inducing="auto", target_gap=1e-9).fit(X, y)
    (reason,) = (remark.text for remark in model.remarks_ if remark.kind == "gap")
    assert "the rounding of double precision decides" in reason
    assert np.isfinite(model.predict(X)).all()


@pytest.mark.broad
@unconverged
@pytest.mark.parametrize(
    "settings", one_in(2, [{"mean": "linear"}, {"inducing": "greedy"}, {"method": "fitc"}, {"beta": 0.5}]), ids=str
)
def test_other_objectives_grow_too(settings):
    X, y = table(2, 80)
    model = SparseGP(n_inducing="auto", **settings).fit(X, y)
    rest = y if model.mean_ is None else y - model.mean_(X)
    assert true_gap(model, X, rest) <= model.gap_ <= model.target_gap


def test_the_bound_of_several_outputs_is_that_of_their_sum():
    X, y = table(3, 80)
    Y = np.column_stack([y, y**2])
    model = SparseGP(n_inducing="auto").fit(X, Y)
    gaps = [renyi.exact_gap(model.kernel_, X, each, model.inducing_, 1.0, noise=model.noise_) for each in Y.T]
    assert sum(gaps) <= model.gap_ <= model.target_gap


# ---------------------------------------------------------------------- the greedy order


@unconverged
@given(st.integers(0, 10**6), st.sampled_from([0.3, 1.0, 4.0]), st.sampled_from([1e-4, 0.1]), st.integers(1, 2))
@example(22281, 0.3, 1e-4, 2)  # targets far from their mean, which a warning names
def test_one_factor_has_the_elbo_of_every_number_of_points(seed, lengthscale, noise, P):
    X, y = table(seed, 40)
    Y = np.column_stack([y, np.cos(y)])[:, :P]
    kernel = SquaredExponential(1.3, lengthscale)
    order = nested(kernel, X, Y, noise=noise, alpha=1.0, target=1e-12, most=25)
    for M in (1, len(order.points) // 2, len(order.points)):
        value = sum(float(renyi.elbo(kernel, X, each, order.points[:M], 1.0, noise=noise)) for each in Y.T)
        assert order.elbo[M] == pytest.approx(value, rel=1e-5, abs=1e-5)
    truth = sum(ExactGP(kernel, noise, optimizer=None).fit(X, each).objective_ for each in Y.T)
    assert truth <= order.evidence + 1e-9 * abs(truth)


@pytest.mark.parametrize("limit", [6000, 0])
def test_the_least_number_is_proved_with_and_without_the_exact_evidence(limit, monkeypatch):
    monkeypatch.setattr(sufficient, "EXACT", limit)
    X, y = table(4, 200)
    kernel = SquaredExponential(1.0, [1.0, 1.5])
    order = nested(kernel, X, y[:, None], noise=0.05, alpha=1.0, target=0.5, most=120)
    Z, gap = order.least()
    assert renyi.exact_gap(kernel, X, y, Z, 1.0, noise=0.05) <= gap <= 0.5
    if limit:
        assert renyi.exact_gap(kernel, X, y, Z[:-1], 1.0, noise=0.05) > 0.5


def test_an_order_is_extended_only_until_it_suffices(monkeypatch):
    monkeypatch.setattr(sufficient, "STAGE", 8)
    X, y = table(4, 200)
    kernel = SquaredExponential(1.0, [1.0, 1.5])
    wide, narrow = (
        nested(kernel, X, y[:, None], noise=0.05, alpha=1.0, target=target, most=200) for target in (1e-3, 5.0)
    )
    assert len(narrow.points) < len(wide.points) < 200
    assert (wide.points[: len(narrow.points)] == narrow.points).all()


def test_equal_rows_are_chosen_once():
    X, y = table(5, 30)
    twice = np.concatenate([X, X])
    order = nested(Matern(0.5), twice, np.tile(y, 2)[:, None], noise=0.1, alpha=1.0, target=1e-9, most=60)
    assert len(np.unique(order.points, axis=0)) == len(order.points) == 30


def test_the_largest_number_follows_the_rows():
    assert inducing.most_points(None, 1503, 1400) == 1400
    assert inducing.most_points(None, 16_599, 16_000) == 1000
    assert inducing.most_points(70, 16_599, 16_000) == 70


# ---------------------------------------------------------------------- Ctrl-C, files


@unconverged
@pytest.mark.parametrize("when", [3, 60])
def test_ctrl_c_in_any_round_leaves_a_model_with_its_gap(when, stopped, monkeypatch):
    X, y = table(0, 150, scale=12.0)
    model = SparseGP(kernel=SquaredExponential(1.0, [0.3, 1.0]), n_inducing="auto", random_state=0)
    stopped(Objective, when)
    with pytest.warns(ConvergenceWarning, match="Interrupted after"):
        model.fit(X, y)
    monkeypatch.undo()
    assert true_gap(model, X, y) <= model.gap_
    assert ("gap" in kinds(model)) == (model.gap_ > model.target_gap)
    assert np.isfinite(model.predict(X)).all()


@unconverged
def test_ctrl_c_while_points_are_chosen_keeps_what_is_trained(monkeypatch):
    X, y = table(0, 150, scale=12.0)
    calls, true = [], inducing.nested

    def interrupted(*args, **kwargs):
        calls.append(args)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return true(*args, **kwargs)

    monkeypatch.setattr(inducing, "nested", interrupted)
    with pytest.warns(ConvergenceWarning, match="Interrupted"):
        model = SparseGP(n_inducing="auto").fit(X, y)
    assert model.trained_with_ <= 100
    assert true_gap(model, X, y) <= model.gap_
    assert "interrupted" in kinds(model)


@unconverged
def test_a_saved_model_knows_with_how_many_points_it_was_trained(tmp_path):
    X, y = table(0, 150, scale=12.0)
    model = SparseGP(n_inducing="auto", fixed=("noise",), noise=0.01).fit(X, y)
    model.save(tmp_path / "model.npz")
    loaded = fitting.load(tmp_path / "model.npz")
    assert (loaded.trained_with_, loaded.gap_, loaded.fixed) == (model.trained_with_, model.gap_, ("noise",))
    assert (loaded.predict(X) == model.predict(X)).all()


# ---------------------------------------------------------------------- fixed


@pytest.mark.parametrize(
    "given", ["all", ("kernel", "noise"), ("variance", "lengthscale[0]", "lengthscale[1]", "noise")]
)
@pytest.mark.parametrize(
    "estimator",
    [ExactGP, SparseGP, RenyiGP, LowRankGP],
)
def test_fixed_keeps_kernel_and_noise_bit_for_bit(estimator, given):
    X, y = table(6)
    kernel = SquaredExponential(0.7, [0.9, 1.4])
    settings = {"n_inducing": 8} if estimator in (SparseGP, RenyiGP) else {"rank": 8} if estimator is LowRankGP else {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = estimator(kernel=kernel, noise=0.02, fixed=given, **settings).fit(X, y)
    assert (model.kernel_, model.noise_) == (kernel, 0.02)
    assert model.objective_ >= model.history_[0]


@pytest.mark.parametrize("given", ["kernel", ("kernel",)])
def test_the_kernel_is_kept_and_the_noise_is_trained(given):
    X, y = table(6)
    kernel = SquaredExponential(0.7, [0.9, 1.4])
    model = VariationalGP(kernel=kernel, fixed=given, n_inducing=8).fit(X, y)
    assert model.kernel_ == kernel
    one = ExactGP(kernel=kernel, noise=0.3, fixed=given).fit(X, y)
    assert one.kernel_ == kernel
    assert one.noise_ != 0.3


@pytest.mark.parametrize(("given", "kept"), [("all", True), ("mean", True), ("noise", False)])
def test_fixed_keeps_the_mean_at_least_squares(given, kept):
    X, y = table(6)
    y = y + 3.0 + X[:, 0] ** 2
    model = ExactGP(mean="linear", fixed=given).fit(X, y)
    start = np.linalg.lstsq(np.column_stack([np.ones(len(X)), X]), y, rcond=None)[0]
    close = np.allclose([model.mean_.intercept, *model.mean_.slopes], start, rtol=1e-8)
    assert close == kept


def test_fixed_names_what_it_knows():
    with pytest.raises(
        ValueError, match=r"fixed: expected names among variance, .*, noise, or 'kernel', 'mean', 'all'"
    ):
        ExactGP(fixed="lengthscales").fit(*table(6))


@pytest.mark.slow
def test_the_same_kernel_at_the_final_number_of_points_stays_within_the_target():
    """As the docstring says: training again with fixed="all" keeps what the gap was proved for."""
    X, y = table(0, 150, scale=12.0)
    model = SparseGP(n_inducing="auto").fit(X, y)
    settings = {"kernel": model.kernel_, "noise": model.noise_, "fixed": "all"}
    again = SparseGP(**settings, n_inducing=len(model.inducing_), inducing="greedy").fit(X, y)
    assert again.kernel_ == model.kernel_
    assert true_gap(again, X, y) <= model.target_gap
    fixed = SparseGP(**settings, n_inducing="auto").fit(X, y)
    assert (fixed.inducing_ == model.inducing_).all()
    assert fixed.trained_with_ == 0
    same_mean = SparseGP(**settings, n_inducing="auto", mean=LinearMean(0.0)).fit(X, y)
    assert len(same_mean.inducing_) == len(fixed.inducing_)


# ---------------------------------------------------------------------- tables of others


@pytest.mark.slow
@pytest.mark.skipif(not UCI.is_dir(), reason="no shared data")
@pytest.mark.parametrize("name", ["concrete", "energy", "housing"])
def test_the_audit_of_a_table_agrees(name):
    """`audit` and `n_inducing="auto"` have one answer: the final model is enough, by exact log p(y)."""
    import gzip

    from gpbounds.audit import enough, subject

    with gzip.open(UCI / f"{name}.csv.gz", "rt") as file:
        values = np.loadtxt(file, delimiter=",")
    model = SparseGP(n_inducing="auto", normalize_y=True).fit(values[:, :-1], values[:, -1])
    assert math.isfinite(model.gap_)
    assert model.gap_ <= 1.0
    about = subject(model.kernel_, model.X_train_, model.y_train_, model.inducing_, noise=model.noise_)
    assert enough(about, target=1.0, most=len(values)).verdict == "enough"
