"""Lengthscales that all inputs share, in units of standard deviations, and the choice of a classifier by evidence."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

import fitting
from fitting.objectives.objective import at_point, objective
from fitting.objectives.packing import each_input, packing_of
from fitting.training import Run
from gpbounds.cli import main
from gpbounds.kernels import Linear, Matern, SquaredExponential

RNG = np.random.default_rng(0)
UNITS = np.array([1.0, 100.0, 0.01, 1.0, 1.0, 1.0])
X = RNG.standard_normal((120, 6)) * UNITS
F = (X / UNITS) @ np.array([1.0, -1.0, 1.0, 0.5, -0.5, 1.0])
Y = np.tanh(F) + 0.1 * RNG.standard_normal(120)
LABELS = F + 0.3 * RNG.standard_normal(120) > 0.0
ALONE = np.sin(4.0 * X[:, 0]) + 0.1 * RNG.standard_normal(120) > 0.0

KERNEL = Matern(1.5, 2.0, [0.5, 1.0, 4.0]) + Linear([1.0, 2.0, 3.0])
POINT = at_point(KERNEL, 0.1)


@pytest.fixture(scope="module")
def auto() -> fitting.VariationalGPClassifier:
    """A classifier that has chosen its lengthscales for `LABELS`; the large ``tol`` ends each run early."""
    return fitting.VariationalGPClassifier(12, tol=1.0).fit(X, LABELS)


def ratios(model: fitting.ExactGP) -> np.ndarray:
    return model.kernel_.lengthscale / X.std(axis=0)


# The vector of a point with ties


def test_ties_have_one_entry_for_each_parameter_of_all_inputs() -> None:
    layout = packing_of(POINT, tied=True)
    assert layout.names == ("k1.variance", "k1.lengthscale", "k2.variance", "noise")
    assert each_input(KERNEL) == {"k1.lengthscale": [1, 2, 3], "k2.variance": [4, 5, 6]}
    again = layout.unpack(layout.pack(POINT))
    assert np.allclose(again.kernel.log_parameters, KERNEL.log_parameters, rtol=0.0, atol=1e-14)


def test_moved_ties_keep_their_ratios() -> None:
    layout = packing_of(POINT, tied=True)
    moved = layout.unpack(layout.pack(POINT) + np.array([0.0, np.log(3.0), 0.0, 0.0]))
    assert np.allclose(moved.kernel.k1.lengthscale, [1.5, 3.0, 12.0], rtol=1e-13)
    assert np.allclose(moved.kernel.k2.variance, [1.0, 2.0, 3.0], rtol=1e-13)


def test_derivatives_of_ties_are_those_of_the_value() -> None:
    rng = np.random.default_rng(1)
    problem = objective(rng.uniform(size=(15, 3)), rng.standard_normal(15), "exact")
    layout = packing_of(POINT, tied=True)
    loss, vector = layout.loss(problem), layout.pack(POINT)
    slopes = loss(vector)[1]
    for i in range(vector.size):
        step = 1e-5 * np.eye(vector.size)[i]
        assert slopes[i] == pytest.approx((loss(vector + step)[0] - loss(vector - step)[0]) / 2e-5, rel=1e-6, abs=1e-7)


def test_ties_stay_within_the_limits_of_each() -> None:
    limits = {"k1.lengthscale[0]": (0.25, 100.0), "k1.lengthscale[2]": (1.0, 6.0)}
    layout = packing_of(POINT, tied=True, limits=limits)
    low, high = layout.bounds[1]
    own = layout.pack(POINT)[1]
    assert np.exp([low - own, high - own]) == pytest.approx([0.5, 1.5], rel=1e-12)


def test_a_fixed_lengthscale_fixes_those_that_are_tied_to_it() -> None:
    assert packing_of(POINT, tied=True, fixed=["k1.lengthscale[1]"]).names == ("k1.variance", "k2.variance", "noise")


# Estimators


@pytest.mark.broad
@pytest.mark.parametrize(
    "model",
    [
        fitting.ExactGP(),
        fitting.SparseGP(n_inducing=20),
        fitting.RenyiGP(n_inducing=20),
        fitting.LowRankGP(rank=20, random_state=0),
        fitting.VariationalGP(20),
        fitting.VariationalGPClassifier(20),
        fitting.SparseGP(n_inducing=20, kernel="matern32", n_restarts=2, random_state=0),
    ],
    ids=lambda model: f"{type(model).__name__} {model.kernel}",
)
def test_shared_lengthscales_are_multiples_of_standard_deviations(model: fitting.ExactGP) -> None:
    targets = LABELS if isinstance(model, fitting.VariationalGPClassifier) else Y
    shared = model.set_params(lengthscales="shared").fit(X, targets)
    assert np.allclose(ratios(shared), ratios(shared)[0], rtol=1e-10)
    assert not hasattr(shared, "lengthscales_")


def test_the_value_at_shared_lengthscales_is_that_of_one_lengthscale_of_scaled_inputs() -> None:
    shared = fitting.ExactGP(lengthscales="shared", tol=None).fit(X, Y)
    kernel = SquaredExponential(1.0, 2.0)
    scaled = fitting.ExactGP(kernel=kernel, start="evidence", tol=None).fit(X / X.std(axis=0), Y)
    assert shared.objective_ == pytest.approx(scaled.objective_, rel=1e-8)
    assert ratios(shared)[0] == pytest.approx(scaled.kernel_.lengthscale, rel=1e-4)


def test_a_kernel_that_is_passed_keeps_its_ratios() -> None:
    kernel = SquaredExponential(1.0, [1.0, 200.0, 0.01, 1.0, 1.0, 3.0])
    shared = fitting.ExactGP(kernel=kernel, lengthscales="shared").fit(X, Y)
    factor = shared.kernel_.lengthscale / kernel.lengthscale
    assert np.allclose(factor, factor[0], rtol=1e-10)
    assert factor[0] != 1.0


@pytest.mark.parametrize(("labels", "chosen"), [(LABELS, "shared"), (ALONE, "separate")])
@pytest.mark.filterwarnings("ignore:At the lower limit")
def test_a_classifier_takes_the_lengthscales_with_the_larger_evidence(
    labels: np.ndarray, chosen: str, auto: fitting.VariationalGPClassifier
) -> None:
    if labels is not LABELS:
        auto = fitting.VariationalGPClassifier(12, tol=1.0).fit(X, labels)
    both = {
        kind: fitting.VariationalGPClassifier(12, tol=1.0, lengthscales=kind).fit(X, labels)
        for kind in ("shared", "separate")
    }
    evidence = {kind: model.objective_ for kind, model in both.items()}
    evidence["separate"] -= 0.5 * 5 * np.log(len(X))
    assert chosen == max(evidence, key=evidence.get) == auto.lengthscales_
    assert auto.objective_ == both[chosen].objective_
    assert np.array_equal(auto.predict_proba(X), both[chosen].predict_proba(X))
    assert len(auto.runs_) == 2


@pytest.mark.slow
@pytest.mark.broad
@pytest.mark.parametrize(
    "settings",
    [
        {"kernel": SquaredExponential(1.0, 3.0 * UNITS)},
        {"optimizer": None},
        {"fixed": ("lengthscale[2]",)},
        {"fixed": "kernel"},
        {"fixed": ("all",)},
    ],
    ids=["kernel", "no training", "fixed", "fixed kernel", "all fixed"],
)
def test_what_a_user_has_decided_is_not_compared(settings: dict) -> None:
    model = fitting.VariationalGPClassifier(10, **settings).fit(X, LABELS)
    assert not hasattr(model, "lengthscales_")
    assert len(model.runs_) == 1


@pytest.mark.slow
def test_another_objective_follows_the_lengthscales_of_the_elbo() -> None:
    settings = {"objective": "log-loss", "tol": 1.0}
    other = fitting.VariationalGPClassifier(12, **settings).fit(X, LABELS)
    shared = fitting.VariationalGPClassifier(12, lengthscales="shared", **settings).fit(X, LABELS)
    assert other.lengthscales_ == "shared"
    assert other.objective_ == shared.objective_


@pytest.mark.broad
@pytest.mark.parametrize("run", [1, 2])
def test_ctrl_c_keeps_the_better_model_so_far(run: int, monkeypatch: pytest.MonkeyPatch) -> None:
    train, number = fitting.estimators.trainer.train_lbfgs, 0

    def interrupted(*arguments: object, **options: object) -> Run:
        nonlocal number
        number += 1
        whole = train(*arguments, **options)
        if number == run:
            return Run(**{**vars(whole), "status": "interrupted", "reason": "Interrupted."})
        return whole

    monkeypatch.setattr(fitting.estimators.trainer, "train_lbfgs", interrupted)
    with pytest.warns(UserWarning, match="Interrupted"):
        model = fitting.VariationalGPClassifier(12, tol=1.0).fit(X, LABELS)
    assert number == run
    assert model.lengthscales_ == ("separate" if run == 1 else "shared")
    assert model.stop_reason_.startswith("Interrupted while lengthscales were chosen")
    assert model.score(X, LABELS) > 0.9


def test_a_checkpoint_continues_to_the_same_model(auto: fitting.VariationalGPClassifier, tmp_path: Path) -> None:
    settings = {"checkpoint": tmp_path / "checkpoint.npz", "tol": 1.0}
    with pytest.warns(UserWarning, match="iterations"):
        fitting.VariationalGPClassifier(12, max_iter=20, **settings).fit(X, LABELS)
    again = fitting.VariationalGPClassifier(12, **settings).fit(X, LABELS)
    assert again.lengthscales_ == auto.lengthscales_
    assert again.objective_ == auto.objective_


def test_a_saved_model_remembers_the_choice(auto: fitting.VariationalGPClassifier, tmp_path: Path) -> None:
    auto.save(tmp_path / "model.npz")
    again = fitting.load(tmp_path / "model.npz")
    assert (again.lengthscales, again.lengthscales_) == ("auto", "shared")


@pytest.mark.broad
@pytest.mark.parametrize(("splits", "most"), [(1, 0.1), pytest.param(3, 0.12, marks=pytest.mark.slow)])
def test_the_default_does_not_overfit_thirty_inputs(splits: int, most: float) -> None:
    """Separate lengthscales have a log loss of .11 on the first split, and of .15 on average over three."""
    points, labels = load_breast_cancer(return_X_y=True)
    losses = []
    for seed in range(splits):
        first, second, train, test = train_test_split(points, labels, test_size=0.3, random_state=seed, stratify=labels)
        scaler = StandardScaler().fit(first)
        model = fitting.VariationalGPClassifier().fit(scaler.transform(first), train)
        losses.append(log_loss(test, model.predict_proba(scaler.transform(second))))
    assert np.mean(losses) < most


def test_the_shell_trains_shared_lengthscales(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = np.column_stack([X, Y])
    np.savetxt(tmp_path / "rows.csv", table, delimiter=",", header="a,b,c,d,e,f,y", comments="", fmt="%.12g")
    command = ["train", str(tmp_path / "rows.csv"), "--inducing", "20", "--out", str(tmp_path)]
    assert main([*command, "--kernel", "matern32", "--kernel-lengthscale", "shared"]) == 0
    model = fitting.load(tmp_path / "model.npz")
    scaled = model.kernel_.lengthscale / model.X_train_.std(axis=0)
    assert np.allclose(scaled, scaled[0], rtol=1e-10)
    assert main([*command, "--model", "pac", "--kernel-lengthscale", "shared"]) == 2
    assert "--kernel-lengthscale is an option of --model exact" in capsys.readouterr().err
