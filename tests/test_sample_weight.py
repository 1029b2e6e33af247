"""Weights of rows: factors of their losses, so that a whole number counts its row that often."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import fitting
from fitting.objectives.objective import variational_objective
from fitting.objectives.packing import packing_of
from fitting.objectives.point import Parameters
from gpbounds.kernels import SquaredExponential
from gpbounds.law import FactorLaw

RNG = np.random.default_rng(0)
X = RNG.uniform(0.0, 6.0, (60, 2))
F = 2.0 * np.sin(X[:, 0])
TIMES = RNG.integers(0, 4, 60)
WEIGHTS = TIMES.astype(float)
REPEATED = X.repeat(TIMES, axis=0)
Z = X[:8]
REAL = F + 0.3 * RNG.standard_normal(60)
LABELS = (F + 0.5 * RNG.standard_normal(60) > 0.0).astype(float)
COUNTS = RNG.poisson(np.exp(F)).astype(float)
TARGETS = {
    "gaussian": REAL,
    "student-t": REAL,
    "probit": LABELS,
    "logit": LABELS,
    "poisson": COUNTS,
    "poisson-softplus": COUNTS,
}
CASES = [(name, loss) for name in TARGETS for loss in ("elbo", "log-loss", "power")] + [("gaussian", "square-loss")]


def point_for(likelihood: object) -> Parameters:
    q = FactorLaw(RNG.standard_normal((8, 1)), np.eye(8) + np.tril(0.1 * RNG.standard_normal((8, 8)), -1))
    return Parameters(SquaredExponential(1.0, [1.0, 2.0]), likelihood, Z, q)


@pytest.mark.parametrize(("name", "loss"), CASES)
def test_whole_weights_are_repeated_rows(name: str, loss: str) -> None:
    """Value and every derivative: in kernel, likelihood, inducing inputs and q."""
    y = TARGETS[name]
    problem = variational_objective(X, y, name, loss, power=0.5)
    weighted = problem.with_goal(weights=WEIGHTS)
    repeated = variational_objective(REPEATED, y.repeat(TIMES), problem.likelihood, loss, power=0.5)
    point = point_for(problem.likelihood)
    layout = packing_of(point)
    (value, slopes), (expected, others) = (
        tuple(map(np.copy, layout.loss(each)(layout.pack(point)))) for each in (weighted, repeated)
    )
    assert value == pytest.approx(expected, rel=1e-12)
    assert np.abs(slopes - others).max() < 1e-11 * np.abs(others).max()


@pytest.mark.parametrize("name", ["gaussian", "probit"])
def test_losses_are_linear_in_the_weights(name: str) -> None:
    problem = variational_objective(X, TARGETS[name], name)
    point = point_for(problem.likelihood)
    whole, part = RNG.uniform(0.0, 2.0, (2, 60))

    def total(weights: np.ndarray) -> float:
        return problem.with_goal(weights=weights).minimised(point, gradient=False).total

    assert total(whole + part) == pytest.approx(total(whole) + total(part), rel=1e-12)
    ones = problem.with_goal(weights=np.ones(60)).minimised(point, gradient=False).value
    assert ones == pytest.approx(problem.minimised(point, gradient=False).value, rel=1e-13)


def test_a_batch_takes_the_weights_of_its_rows() -> None:
    problem = variational_objective(X, LABELS, "probit").with_goal(weights=WEIGHTS)
    point, rows = point_for(problem.likelihood), np.array([3, 7, 20, 41])
    part = variational_objective(X[rows], LABELS[rows], "probit").with_goal(weights=WEIGHTS[rows])
    batch = problem.batch(rows).minimised(point, gradient=False)
    assert batch.total == pytest.approx(15.0 * part.minimised(point, gradient=False).total, rel=1e-12)


settles = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
GIVEN = {"kernel": SquaredExponential(1.0, [1.0, 2.0]), "inducing": Z, "learn_inducing": False, "tol": None}


@settles
def test_weighted_training_ends_where_training_with_repeated_rows_does() -> None:
    weighted = fitting.VariationalGPClassifier(8, max_iter=3000, **GIVEN).fit(X, LABELS, sample_weight=TIMES)
    repeated = fitting.VariationalGPClassifier(8, max_iter=3000, **GIVEN).fit(REPEATED, LABELS.repeat(TIMES))
    assert weighted.objective_ == pytest.approx(repeated.objective_, abs=1e-4)
    assert np.abs(weighted.predict_proba(X) - repeated.predict_proba(X)).max() < 1e-2


def test_a_gaussian_row_of_weight_w_has_the_noise_divided_by_w() -> None:
    """q at its optimum is the posterior of VFE with the noise σ²/w_i, computed densely here."""
    noise, kernel, weights = 0.2, GIVEN["kernel"], RNG.uniform(0.5, 3.0, 60)
    settings = {**GIVEN, "fixed": ("variance", "lengthscale[0]", "lengthscale[1]", "noise"), "noise": noise}
    model = fitting.VariationalGP(8, optimizer="natgrad", max_iter=400, **settings)
    model.set_params(tol=1e-9).fit(X, REAL, sample_weight=weights)
    K, Kuf = kernel(Z) + model.jitter_ * np.eye(8), kernel(Z, X)
    precision = K + (Kuf * weights) @ Kuf.T / noise
    mean = kernel(X, Z) @ np.linalg.solve(precision, Kuf @ (weights * REAL)) / noise
    assert np.abs(model.predict(X) - mean).max() < 1e-5


@settles
def test_ones_are_no_weights() -> None:
    weighted = fitting.VariationalGP(8, max_iter=20, tol=1.0).fit(X, REAL, sample_weight=np.ones(60))
    plain = fitting.VariationalGP(8, max_iter=20, tol=1.0).fit(X, REAL)
    assert weighted.objective_ == plain.objective_
    assert np.array_equal(weighted.predict(X), plain.predict(X))


@pytest.mark.slow
def test_rows_of_weight_zero_are_left_out() -> None:
    kept = LABELS[:40] >= 0.0
    weights = np.concatenate([np.where(kept, 1.0, 0.0), np.zeros(20)])
    weighted = fitting.VariationalGPClassifier(8).fit(X, LABELS, sample_weight=weights)
    without = fitting.VariationalGPClassifier(8).fit(X[:40], LABELS[:40])
    assert len(weighted.X_train_) == 40
    assert weighted.objective_ == without.objective_


def test_a_saved_model_keeps_its_weights_and_refuses_bounds(tmp_path: Path) -> None:
    model = fitting.VariationalGP(8, **GIVEN, max_iter=3000).fit(X, REAL, sample_weight=TIMES)
    model.save(tmp_path / "model.npz")
    again = fitting.load(tmp_path / "model.npz")
    assert np.array_equal(again.sample_weight_, WEIGHTS[TIMES > 0])
    assert np.array_equal(again.predict(X), model.predict(X))
    with pytest.raises(ValueError, match="log_evidence_bounds: expected a model without sample_weight"):
        again.log_evidence_bounds()
    with pytest.raises(ValueError, match="model: expected one without sample_weight"):
        fitting.audit(again, X, REAL)


def test_a_checkpoint_belongs_to_its_weights(tmp_path: Path) -> None:
    settings = {**GIVEN, "checkpoint": tmp_path / "checkpoint.npz", "max_iter": 3}
    with pytest.warns(UserWarning, match="iterations"):
        fitting.VariationalGPClassifier(8, **settings).fit(X, LABELS, sample_weight=TIMES)
    with pytest.raises(ValueError, match="checkpoint: expected one of the same data and settings"):
        fitting.VariationalGPClassifier(8, **settings).fit(X, LABELS, sample_weight=TIMES[::-1])


@pytest.mark.parametrize(
    ("settings", "weights", "words"),
    [
        ({}, WEIGHTS - 1.0, "[Nn]egative values .*sample_weight"),
        ({}, np.zeros(60), "expected a weight above zero"),
        ({}, WEIGHTS[:5], r"sample_weight: expected shape \(60,\)"),
        ({"beta": "auto"}, WEIGHTS, "sample_weight: expected None for beta='auto'"),
        ({"objective": "pep"}, WEIGHTS, "sample_weight: expected None for objective='pep'"),
        ({"normalize_y": True}, WEIGHTS, "sample_weight: expected None for normalize_y=True"),
        (
            {"objective": "log-loss", "gradient": "bmc", "optimizer": "adam"},
            WEIGHTS,
            "sample_weight: expected None for gradient='bmc'",
        ),
    ],
)
def test_weights_without_a_meaning_are_refused(settings: dict, weights: np.ndarray, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        fitting.VariationalGP(8, **settings).fit(X, REAL, sample_weight=weights)


@pytest.mark.gpu
def test_weights_and_the_choice_of_lengthscales_on_a_device(cupy) -> None:
    host = fitting.VariationalGPClassifier(8).fit(X, LABELS, sample_weight=TIMES)
    there = fitting.VariationalGPClassifier(8, device="cuda")
    there.fit(cupy.asarray(X), cupy.asarray(LABELS), sample_weight=cupy.asarray(WEIGHTS))
    assert there.objective_ == pytest.approx(host.objective_, abs=1e-3)
    assert there.lengthscales_ == host.lengthscales_
