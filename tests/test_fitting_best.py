"""``inducing="best"``: fresh draws at trained hyperparameters; the best of them and of the trained points; a bound."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone

from fitting import RenyiGP, SparseGP
from fitting.estimators import inducing
from fitting.starts import best as fitting_best
from gpbounds import Matern, SquaredExponential, kdpp, rate, renyi
from gpbounds.errors import NotConverged
from gpbounds.inputs import Empirical

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
KERNEL = SquaredExponential(0.7, [0.9, 1.4])


@pytest.fixture(scope="module")
def data() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.uniform(-2.0, 2.0, (80, 2))
    return X, np.sin(2.0 * X[:, 0]) * np.cos(X[:, 1]) + 0.1 * rng.standard_normal(80)


def divergence(model: Any, X: np.ndarray, y: np.ndarray, alpha: float) -> float:
    """log p(y) − L_α of the fitted model."""
    lower = renyi.elbo(model.kernel_, X, y, model.inducing_, alpha, noise=model.noise_, jitter=model.jitter_)
    return renyi.log_evidence(model.kernel_, X, y, noise=model.noise_) - float(lower)


@pytest.mark.broad
@pytest.mark.parametrize(
    ("model", "alpha"),
    [
        (SparseGP(n_inducing=25, inducing="best", random_state=1, max_iter=40), 1.0),
        (SparseGP(n_inducing=25, inducing="best", learn_inducing=False, random_state=1, max_iter=40), 1.0),
        (RenyiGP(0.5, n_inducing=20, inducing="best", random_state=1, max_iter=20), 0.5),
        (SparseGP("vfe", KERNEL, 0.02, n_inducing=25, inducing="best", optimizer=None, random_state=1), 1.0),
    ],
    ids=["trained", "points fixed", "order", "as given"],
)
def test_the_bound_is_above_the_divergence_of_the_fitted_model(model: Any, alpha: float, data: Any) -> None:
    X, y = data
    model = clone(model).fit(X, y)
    assert divergence(model, X, y, alpha) <= float(model.bound_)
    assert model.bound_.quantity == f"D_{alpha:g}[q*||p]"
    assert model.bound_.confidence == pytest.approx(0.95)
    assert "made after training" in model.bound_.assumptions[-1]
    assert model.bound_.terms["jitter"] == model.jitter_
    at_kept = renyi.elbo(model.kernel_, X, y, model.inducing_, alpha, noise=model.noise_, jitter=model.jitter_)
    assert model.objective_ == pytest.approx(float(at_kept), rel=1e-9)
    again = clone(model).fit(X, y)
    assert (again.inducing_ == model.inducing_).all()
    assert float(again.bound_) == float(model.bound_)
    plan = rate(
        model.kernel_,
        80,
        model.inducing_.shape[0],
        alpha,
        inputs=Empirical(X),
        noise=model.noise_,
        y=y,
        draws=model.draws,
        delta=model.delta,
    )
    assert float(model.bound_) == pytest.approx(float(plan), rel=1e-6, abs=1e-6)


def test_the_draws_come_after_training_from_numbers_of_their_own(data: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last selection is at (kernel_, noise_), has the trained points as a candidate, and another state of rng."""
    calls: list[dict[str, Any]] = []
    whole = kdpp.select

    def noted(kernel: Any, X: Any, M: int, method: str, rng: np.random.Generator, **options: Any) -> Any:
        calls.append({"kernel": kernel, "state": rng.bit_generator.state["state"]["state"], **options})
        return whole(kernel, X, M, method, rng, **options)

    monkeypatch.setattr(fitting_best, "select", noted)
    X, y = data
    model = SparseGP(n_inducing=20, inducing="best", n_restarts=2, random_state=3, max_iter=15).fit(X, y)
    *starts, last = calls
    assert len(starts) == 3
    assert (last["kernel"].log_parameters == model.kernel_.log_parameters).all()
    assert last["noise"] == model.noise_
    assert len({call["state"] for call in calls}) == 4
    assert [len(call["candidates"]) for call in calls] == [0, 0, 0, 1]
    assert last["y"].shape == (80, 1)
    options = {"noise": model.noise_, "alpha": 1.0, "draws": 10}
    kept = whole(
        model.kernel_, X, 20, "best", np.random.default_rng([3, inducing.STREAM]), y=y, **options,
        candidates=last["candidates"],
    )  # fmt: skip
    assert (kept.Z == model.inducing_).all()


def test_trained_points_stay_unless_a_draw_is_better(data: Any) -> None:
    X, y = data
    free = SparseGP("vfe", KERNEL, 0.02, n_inducing=6, fixed=("variance", "lengthscale[0]", "lengthscale[1]", "noise"))
    model = free.set_params(inducing="best", random_state=2).fit(X, y)  # points moved at fixed hyperparameters
    rows = {row.tobytes() for row in X}
    assert not all(row.tobytes() in rows for row in model.inducing_)
    still = clone(model).set_params(learn_inducing=False).fit(X, y)
    assert all(row.tobytes() in rows for row in still.inducing_)
    assert model.objective_ > still.objective_


@pytest.mark.slow
def test_auto_plans_before_the_draws(data: Any) -> None:
    X, y = data
    model = SparseGP(n_inducing="auto", inducing="best", target_gap=0.5, random_state=1).fit(X, y)
    M = model.inducing_.shape[0]
    assert model.gap_ == float(model.bound_)
    assert divergence(model, X, y, 1.0) <= model.gap_ <= 0.5 + 1e-6
    options = {"inputs": Empirical(X), "noise": model.noise_, "y": y, "draws": 10}
    assert float(rate(model.kernel_, 80, M, 1.0, **options)) <= 0.5
    with pytest.warns(match=r"the gap is bounded by .* nats, more than target_gap"):
        few = clone(model).set_params(max_inducing=5).fit(X, y)
    assert few.inducing_.shape[0] == 5
    short = (
        clone(model).set_params(max_iter=2).fit(X, y)
    )  # training stops at other hyperparameters than those of the last plan
    assert float(short.bound_) <= 0.5 + 1e-6
    assert divergence(short, X, y, 1.0) <= float(short.bound_)
    fixed = SparseGP("vfe", KERNEL, 0.02, n_inducing="auto", inducing="best", target_gap=0.5, optimizer=None).fit(X, y)
    size = fixed.inducing_.shape[0]
    options["noise"] = 0.02
    assert float(rate(KERNEL, 80, size, 1.0, **options)) <= 0.5 < float(rate(KERNEL, 80, size - 1, 1.0, **options))


def test_outputs_and_normalised_targets(data: Any) -> None:
    X, y = data
    Y = np.stack([y, 10.0 + np.cos(X[:, 0])], axis=1)
    model = SparseGP(n_inducing=25, inducing="best", normalize_y=True, random_state=1, max_iter=40).fit(X, Y)
    total = sum(divergence(model, X, column, 1.0) for column in model.y_train_.T)
    assert total <= float(model.bound_)


def test_a_jitter_of_the_model_is_paid_for(data: Any) -> None:
    X, y = data
    reached = kdpp.select(KERNEL, X, 60, "best", 0, y=y, noise=0.02)
    assert reached.bound is not None
    Y = y[:, None]
    bound = fitting_best.at_jitter(reached.bound, KERNEL, X, Y, reached.Z, noise=0.02, alpha=1.0, jitter=1e-6)
    lower = renyi.elbo(KERNEL, X, y, reached.Z, 1.0, noise=0.02, jitter=1e-6)
    truth = renyi.log_evidence(KERNEL, X, y, noise=0.02) - float(lower)
    assert truth > 2.0 * float(reached.bound)
    assert truth <= float(bound) <= truth + 2.0 * float(reached.bound)
    same = fitting_best.at_jitter(reached.bound, KERNEL, X, Y, reached.Z, noise=0.02, alpha=1.0, jitter=0.0)
    assert float(same) == float(reached.bound)


def test_more_points_than_the_numerical_rank_leave_the_gap_itself(data: Any) -> None:
    X, y = data
    smooth = SquaredExponential(1.0, 50.0)
    model = SparseGP("vfe", smooth, 0.1, n_inducing=60, inducing="best", optimizer=None, random_state=0).fit(X, y)
    assert model.inducing_.shape == (60, 2)
    assert model.bound_.confidence == 1.0
    assert divergence(model, X, y, 1.0) <= float(model.bound_)


def test_draws_until_one_is_certain(data: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = data
    model = SparseGP("vfe", KERNEL, 0.02, n_inducing=25, inducing="best", draws="certain", optimizer=None)
    model.set_params(random_state=1).fit(X, y)
    assert model.bound_.confidence == 1.0
    truth = divergence(model, X, y, 1.0)
    assert truth <= float(model.bound_) <= truth + 1e-6
    options = {"inputs": Empirical(X), "noise": 0.02, "y": y, "draws": "certain"}
    assert float(model.bound_) <= float(rate(KERNEL, 80, 25, 1.0, **options))
    auto = clone(model).set_params(n_inducing="auto", target_gap=0.5).fit(X, y)
    size = auto.inducing_.shape[0]
    assert float(auto.bound_) <= float(rate(KERNEL, 80, size, 1.0, **options)) <= 0.5

    def refuses(*args: Any, **options: Any) -> None:
        raise NotConverged("no draw was certain")

    monkeypatch.setattr(fitting_best, "select", refuses)
    without = clone(model).fit(X, y)
    assert divergence(without, X, y, 1.0) <= float(without.bound_)
    assert without.bound_.confidence == 1.0


def test_equal_rows_and_few_rows() -> None:
    X = np.repeat(np.linspace(0.0, 1.0, 6), 3)[:, None]
    y = np.sin(np.arange(18.0))
    model = SparseGP("vfe", Matern(0.5), 0.1, n_inducing=10, inducing="best", optimizer=None, random_state=0).fit(X, y)
    assert model.inducing_.shape == (6, 1)
    assert float(model.bound_) < 1e-9
    auto = SparseGP("vfe", Matern(0.5), 0.1, n_inducing="auto", inducing="best", optimizer=None, random_state=0)
    for n in (1, 2, 5):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            assert np.isfinite(auto.fit(np.arange(float(n))[:, None], y[:n]).predict([[0.0]])).all()


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (SparseGP("fitc", inducing="best"), "expected 'best' with an objective that bounds log p"),
        (RenyiGP(0.0, inducing="best"), "RenyiGP with alpha > 0"),
        (SparseGP(inducing="best", draws=0), "draws: expected a whole number >= 1"),
        (SparseGP(inducing="best", delta=1.5), "delta"),
        (SparseGP(inducing="finest"), "inducing: expected one of 'auto', 'greedy', 'kdpp', .*, 'best'"),
    ],
)
def test_what_best_cannot_do_is_refused(model: Any, message: str, data: Any) -> None:
    with pytest.raises(ValueError, match=message):
        model.fit(*data)
