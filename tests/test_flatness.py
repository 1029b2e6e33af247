"""Sharpness: quadratics with known answers, the exact box, and trained models."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fitting
from fitting.flatness import sharpness_of
from gpbounds import NonFinite
from gpbounds.kernels import SquaredExponential
from gpbounds.renyi import elbo, log_evidence

SEEDS = st.integers(0, 2**32 - 1)


def quadratic(H, slope, constant, centre):
    """f(x) = constant + slopeᵀz + ½zᵀHz, z = x − centre."""

    def function(x):
        z = np.asarray(x) - centre
        return float(constant + slope @ z + 0.5 * z @ H @ z), slope + H @ z

    return function


@given(seed=SEEDS)
def test_convex_quadratics_have_their_maximum_at_a_corner_of_the_box(seed: int) -> None:
    """The rise is the largest over all 2ⁿ corners, |z_i| = ε(|x_i| + 1) exactly; λ_max is that of H."""
    rng = np.random.default_rng(seed)
    n, radius, constant = int(rng.integers(1, 7)), float(10.0 ** rng.uniform(-4, -1)), float(rng.uniform(0, 3))
    root, x = rng.standard_normal((n, n)), 3.0 * rng.standard_normal(n)
    H, slope = root @ root.T, rng.choice([0.0, 0.01]) * rng.standard_normal(n)
    result = sharpness_of(quadratic(H, slope, constant, x), x, radius=radius, rng=seed)
    box = radius * (np.abs(x) + 1.0)
    corners = [np.array(s) * box for s in product([-1.0, 1.0], repeat=n)]
    rise = max(float(slope @ z + 0.5 * z @ H @ z) for z in corners)
    assert result.rise == pytest.approx(rise, rel=1e-6)
    assert result.value == pytest.approx(100.0 * rise / (1.0 + constant), rel=1e-6)
    assert result.curvature == pytest.approx(np.linalg.eigvalsh(H)[-1], rel=1e-6)
    np.testing.assert_allclose(np.abs(result.displacement), box, rtol=1e-9)
    assert result.at == pytest.approx(constant)
    np.testing.assert_allclose(result.gradient, slope, atol=1e-12)


@given(seed=SEEDS)
def test_a_maximum_inside_the_box_is_found(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n, x = int(rng.integers(1, 5)), rng.standard_normal(4)
    x, root = x[:n], rng.standard_normal((n, n))
    H = -(root @ root.T + np.eye(n))
    top = 0.1 * (np.abs(x) + 1.0) * rng.uniform(-0.5, 0.5, n)
    result = sharpness_of(quadratic(H, -H @ top, 0.0, x), x, radius=0.1, corners=2)
    assert result.rise == pytest.approx(-0.5 * float(top @ H @ top), rel=1e-4)


def test_the_rise_at_a_maximum_is_zero() -> None:
    result = sharpness_of(quadratic(-np.eye(2), np.zeros(2), 1.0, np.zeros(2)), np.zeros(2))
    assert (result.rise, result.value, result.displacement.tolist()) == (0.0, 0.0, [0.0, 0.0])
    assert result.curvature == pytest.approx(-1.0)


def test_many_coordinates_have_their_largest_curvature_from_lanczos() -> None:
    n, x = 90, np.linspace(-1.0, 1.0, 90)
    H = np.diag(np.linspace(0.1, 1.0, n))
    H[-1, -1] = 4.0
    result = sharpness_of(quadratic(H, np.zeros(n), 0.0, x), x, radius=0.01)
    assert result.curvature == pytest.approx(4.0, rel=1e-4)
    assert result.rise == pytest.approx(0.5 * float(H.diagonal() @ (0.01 * (np.abs(x) + 1.0)) ** 2), rel=1e-6)


def test_a_density_above_e_has_a_rise_but_no_sharpness() -> None:
    result = sharpness_of(quadratic(np.eye(1), np.zeros(1), -1.5, np.zeros(1)), np.zeros(1), radius=0.1)
    assert np.isnan(result.value)
    assert result.rise == pytest.approx(0.005)


# --- models -----------------------------------------------------------------------------------------------------------

RNG = np.random.default_rng(5)
X = RNG.uniform(0.0, 5.0, (60, 1))
Y = np.sin(2.0 * X[:, 0]) + 0.2 * RNG.standard_normal(60)
MODELS = {
    "exact": lambda: fitting.ExactGP(SquaredExponential(), 0.1, tol=0),
    "renyi": lambda: fitting.RenyiGP(0.5, SquaredExponential(), 0.1, n_inducing=8, learn_inducing=False, tol=0),
    "vfe": lambda: fitting.SparseGP("vfe", SquaredExponential(), 0.1, n_inducing=8, learn_inducing=False, tol=0),
}


def negative_objective(model, logs, on: str) -> float:
    """−F/N of the definition, from `gpbounds.renyi`, at logs = (log variance, log lengthscale, log noise)."""
    kernel, noise = SquaredExponential(*np.exp(logs[:2])), float(np.exp(logs[2]))
    order = {"ExactGP": 0.0, "RenyiGP": 0.5, "SparseGP": 1.0}[type(model).__name__]
    if on == "evidence" or order == 0.0:
        return -log_evidence(kernel, X, Y, noise=noise) / len(Y)
    return -float(elbo(kernel, X, Y, model.inducing_, order, noise=noise)) / len(Y)


@pytest.mark.parametrize("on", ["own", "evidence"])
@pytest.mark.parametrize("name", MODELS)
def test_sharpness_of_a_trained_model(name: str, on: str) -> None:
    """f, its Hessian and its rise agree with the definition, evaluated by other code at all corners of the box."""
    model = MODELS[name]().fit(X, Y)
    result = fitting.sharpness(model, X, Y, on=on)
    assert result.names == ("variance", "lengthscale", "noise")
    logs = np.array([*model.kernel_.log_parameters, np.log(model.noise_)])
    np.testing.assert_allclose(result.x, logs, rtol=1e-12)
    at = negative_objective(model, logs, on)
    assert result.at == pytest.approx(at, rel=1e-8)
    if on == "own":
        assert result.at == pytest.approx(-model.objective_ / len(Y), rel=1e-9)
        assert np.abs(result.gradient).max() < 1e-4
    box = 1e-3 * (np.abs(logs) + 1.0)
    corners = [logs + box * np.array(s) for s in product([-1.0, 1.0], repeat=3)]
    rise = max(negative_objective(model, corner, on) for corner in corners) - at
    assert result.rise == pytest.approx(rise, rel=1e-3)
    assert result.value == pytest.approx(100.0 * result.rise / (1.0 + at))
    h, steps = 1e-3, np.eye(3)
    H = [
        [
            sum(
                a * b * negative_objective(model, logs + h * (a * steps[i] + b * steps[j]), on)
                for a, b in product([-1.0, 1.0], repeat=2)
            )
            / (4.0 * h * h)
            for j in range(3)
        ]
        for i in range(3)
    ]
    assert result.curvature == pytest.approx(np.linalg.eigvalsh(np.array(H))[-1], rel=1e-3)


def test_scaled_targets_and_fixed_hyperparameters() -> None:
    """A model with normalize_y has the f of the scaled targets; parameters that were not trained are not in x."""
    plain = MODELS["vfe"]().set_params(fixed=("variance",)).fit(X, (Y - Y.mean()) / Y.std())
    scaled = MODELS["vfe"]().set_params(fixed=("variance",), normalize_y=True).fit(X, Y)
    one, other = fitting.sharpness(plain, X, (Y - Y.mean()) / Y.std()), fitting.sharpness(scaled, X, Y)
    assert one.names == other.names == ("lengthscale", "noise")
    assert (one.at, one.rise) == pytest.approx((other.at, other.rise), rel=1e-6)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("method", ["fitc", "dtc", "pep", "pic"])
def test_the_own_objective_of_every_method_is_that_of_training(method: str) -> None:
    start = {"kernel": SquaredExponential(), "noise": 0.1, "n_inducing": 6, "block_size": 20, "max_iter": 5}
    model = fitting.SparseGP(method, tol=0, **start).fit(X, Y)
    result = fitting.sharpness(model, X, Y)
    assert result.at == pytest.approx(-model.objective_ / len(Y), rel=1e-9)
    assert result.rise > 0.0


def test_inducing_inputs_and_beta_belong_to_the_own_objective() -> None:
    model = fitting.SparseGP("vfe", SquaredExponential(), 0.1, n_inducing=6, beta=0.5, max_iter=40, tol=0.1).fit(X, Y)
    alone, all_of_them = (fitting.sharpness(model, X, Y, inducing=flag) for flag in (False, True))
    assert len(all_of_them.names) == 3 + 6
    assert (alone.at, all_of_them.at) == pytest.approx((-model.objective_ / len(Y),) * 2, rel=1e-9)
    assert all_of_them.rise >= alone.rise * (1 - 1e-6)
    assert all_of_them.curvature >= alone.curvature * (1 - 1e-6)


def test_one_common_function_does_not_depend_on_the_model() -> None:
    kernel = SquaredExponential(1.0, 0.7)
    fixed = {"kernel": kernel, "noise": 0.04, "optimizer": None, "n_inducing": 8}
    models = [fitting.RenyiGP(a, **fixed).fit(X, Y) for a in (0.2, 0.8)]
    common = [fitting.sharpness(model, X, Y, on="evidence") for model in models]
    own = [fitting.sharpness(model, X, Y) for model in models]
    assert common[0].rise == pytest.approx(common[1].rise, rel=1e-9)
    assert own[0].rise != pytest.approx(own[1].rise, rel=1e-2)


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda m: fitting.sharpness(fitting.PACGP(), X, Y), "model: expected an ExactGP, RenyiGP or SparseGP"),
        (lambda m: fitting.sharpness(m, X, Y, on="test"), "on: expected one of 'own', 'evidence'"),
        (lambda m: fitting.sharpness(m, X, Y, on="evidence", inducing=True), "inducing: expected False"),
        (lambda m: fitting.sharpness(m, X, np.stack([Y, Y], 1)), r"y: expected 1 column\(s\), as in the fit"),
        (lambda m: fitting.sharpness(m, X, Y[:3]), "y: expected shape"),
        (lambda m: fitting.sharpness(m, X, Y, radius=0.0), "radius: expected a positive finite number"),
        (lambda m: sharpness_of(quadratic(np.eye(1), np.zeros(1), 0.0, 0.0), 0.0), r"x: expected shape \(n,\)"),
    ],
)
def test_wrong_arguments_are_named(call, match: str) -> None:
    model = MODELS["vfe"]().set_params(optimizer=None).fit(X, Y)
    with pytest.raises(ValueError, match=match):
        call(model)


def test_a_function_without_a_value_is_refused() -> None:
    with pytest.raises((ValueError, NonFinite), match=r"function\(x\)"):
        sharpness_of(lambda x: (float("nan"), np.zeros(1)), np.zeros(1))
