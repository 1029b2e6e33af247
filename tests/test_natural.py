"""Natural-gradient steps: one step to the optimum of a conjugate likelihood, positive definite for any loss."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fitting import VariationalGP
from fitting.objectives import laws
from fitting.objectives.objective import variational_objective
from fitting.objectives.packing import LawBlock
from fitting.objectives.point import Gradient, Parameters
from fitting.training import NaturalSteps, Steps, train_adam, train_lbfgs
from gpbounds.errors import NotPositiveDefinite
from gpbounds.kernels import SquaredExponential
from gpbounds.law import FactorLaw
from gpbounds.likelihoods import Bernoulli, Gaussian, Poisson, StudentT
from gpbounds.linalg.workspace import Workspace
from tests.blas import blas_threads

pytestmark = pytest.mark.lanes

KERNEL = SquaredExponential(1.3, [0.7, 1.4])
FIXED = {"learn_Z": False}


def problem(likelihood, loss: str, seed: int, N: int = 40, M: int = 5, **options):
    rng = np.random.default_rng(seed)
    X, Z = rng.standard_normal((N, 2)), rng.standard_normal((M, 2))
    y = np.sin(X @ rng.standard_normal(2)) + 0.3 * rng.standard_normal(N)
    if isinstance(likelihood, Bernoulli):
        y = np.sign(y)
    elif isinstance(likelihood, Poisson):
        y = rng.poisson(np.exp(y)).astype(float)
    factor = 0.3 * np.tril(rng.standard_normal((M, M)))
    factor[np.diag_indices(M)] = rng.uniform(0.3, 1.2, M)
    J = variational_objective(X, y, likelihood, loss, jitter=0.0, **options)
    point = Parameters(KERNEL, likelihood, Z, FactorLaw(rng.standard_normal((M, 1)), factor))
    names = (*KERNEL.parameter_names, *likelihood.parameter_names)
    return J, point, J.packing(point, fixed=names, **FIXED), J.packing(point, fixed=names, natural=True, **FIXED)


@pytest.mark.parametrize("beta", [1.0, 0.3])
@pytest.mark.parametrize("loss", ["elbo", "pep"])
@pytest.mark.parametrize("seed", [0, 1])
def test_one_step_reaches_the_optimum_of_a_conjugate_likelihood(loss, beta, seed):
    """From any q; the optimum in closed form, or for power EP with β ≠ 1 a point without slope."""
    J, point, layout, natural = problem(Gaussian(0.3), loss, seed, beta=beta, power=0.4)
    steps = J.natural(point)
    assert (steps.rate, steps.convex) == (1.0, True)
    _, slopes = natural.loss(J)(layout.pack(point))
    moved = steps.moved(layout.pack(point), slopes, 1)
    assert np.abs(layout.loss(J)(moved)[1]).max() < 1e-9
    if loss != "pep" or beta == 1.0:
        best = J.complete(replace(point, q=None)).q
        q = layout.unpack(moved).q
        np.testing.assert_allclose(q.mean, best.mean, rtol=1e-10, atol=1e-10)
        np.testing.assert_allclose(q.covariance, best.covariance, rtol=1e-10, atol=1e-10)


@given(seed=st.integers(0, 10**6), size=st.floats(-3.0, 4.0))
def test_a_law_stays_positive_definite_for_all_slopes(seed, size):
    """The formula of the file, from inverses; also the mean."""
    rng = np.random.default_rng(seed)
    M, beta, rate = 4, 0.7, 0.6
    factor = np.tril(rng.standard_normal((M, M)))
    factor[np.diag_indices(M)] = rng.uniform(0.3, 1.5, M)
    S_bar = 10.0**size * rng.standard_normal((M, M))
    S_bar += S_bar.T
    w, w_bar = rng.standard_normal(M), rng.standard_normal(M)
    logs, S = factor.copy(), factor @ factor.T
    np.fill_diagonal(logs, np.log(np.diagonal(factor)))
    H = S_bar - 0.5 * beta * (np.eye(M) - np.linalg.inv(S))
    below = np.tril_indices(M)
    steps = NaturalSteps(M, beta, rate, convex=False)
    entries = steps.moved(np.append(w, logs[below]), np.append(w_bar, H[below]), 100)
    assert np.isfinite(entries).all()
    D = 2.0 / beta * S_bar
    precision = np.linalg.inv(S) + rate * D + 0.5 * rate**2 * D @ S @ D
    moved = np.zeros((M, M))
    moved[below] = entries[M:]
    np.fill_diagonal(moved, np.exp(np.diagonal(moved)))
    half = moved.T @ precision @ moved
    np.testing.assert_allclose(half, np.eye(M), atol=1e-6 * max(1.0, 10.0**size))
    np.testing.assert_allclose(entries[:M], w - rate / beta * moved @ (moved.T @ w_bar), rtol=1e-9, atol=1e-12)


def test_the_plain_form_fails_where_a_loss_is_not_convex():
    steps = NaturalSteps(1, 1.0, 1.0, convex=True)
    with pytest.raises(NotPositiveDefinite):
        steps.moved(np.array([0.0, 0.0]), np.array([0.0, -3.0]), 1)
    assert np.isfinite(replace(steps, convex=False).moved(np.array([0.0, 0.0]), np.array([0.0, -3.0]), 1)).all()


@pytest.mark.broad
@pytest.mark.parametrize(
    ("likelihood", "loss"),
    [
        (Bernoulli("probit"), "elbo"),
        pytest.param(Poisson("exp"), "elbo", marks=pytest.mark.slow),
        (Bernoulli("logit"), "log-loss"),
        pytest.param(Gaussian(0.3), "log-loss", marks=pytest.mark.slow),
        (StudentT(4.0, 0.5), "elbo"),
    ],
    ids=str,
)
def test_steps_end_where_lbfgs_does(likelihood, loss):
    """From one start; the steps never leave the positive definite matrices, and end at a point without slope."""
    J, point, layout, of_losses = problem(likelihood, loss, 3)
    start = layout.pack(replace(point, q=FactorLaw(np.zeros((5, 1)), np.eye(5))))
    natural = J.natural(point, 0.5)
    run = train_adam(of_losses.loss(J), start, layout.bounds, max_iter=80, natural=natural, ftol=0.0)
    reference = train_lbfgs(layout.loss(J), start, layout.bounds, max_iter=500, ftol=1e-15, gtol=1e-9)
    assert run.failures == 0
    assert run.value == pytest.approx(reference.value, abs=1e-6)
    assert np.abs(layout.loss(J)(run.vector)[1]).max() < 1e-2


@pytest.mark.slow
@pytest.mark.parametrize("likelihood", [Bernoulli("probit"), StudentT(4.0, 0.5)], ids=str)
def test_a_thousand_direct_steps_on_random_rows_stay_positive_definite(likelihood):
    """Full steps, ρ = 1, where the form for convex losses would fail."""
    J, point, _, layout = problem(likelihood, "log-loss", 5, beta=0.05)
    safe = replace(J.natural(point), rate=1.0)
    assert not safe.convex
    steps, rng, failures = Steps(layout.pack(point), layout.bounds, 0.0, safe), np.random.default_rng(0), 0
    for _ in range(1000):
        _, slopes = layout.loss(J.batch(rng.choice(40, 8, replace=False)))(steps.x)
        try:
            replace(safe, convex=True).moved(steps.x[-safe.size :], slopes[-safe.size :], 100)
        except NotPositiveDefinite:
            failures += 1
        steps.take(slopes)  # raises NotPositiveDefinite if it fails
        assert np.isfinite(steps.x).all()
    assert failures > 10


def test_the_square_loss_has_no_natural_steps():
    """Its slope in the variance is 0, and says nothing about the curvature in the mean."""
    J, point, *_ = problem(Gaussian(0.3), "square-loss", 0)
    with pytest.raises(ValueError, match="expected another loss than 'square-loss'"):
        J.natural(point)
    with pytest.raises(ValueError, match="optimizer: expected 'lbfgs' or 'adam' for objective='square-loss'"):
        VariationalGP(objective="square-loss", optimizer="natgrad").fit(J.data.X, J.data.Y[:, 0])


@pytest.mark.parametrize("convex", [True, False])
def test_tiles_are_the_formula_and_the_number_of_lanes_changes_no_bit(convex):
    """S' = CA⁻¹Cᵀ and w' = w − (ρ/β)S'w̄, with A = I + ρE (+ ½ρ²E²), E = (2/β)CᵀS̄C, in used memory."""
    M, beta, rho = 300, 0.7, 0.1
    rng, block, space = np.random.default_rng(3), LawBlock(300, natural=True), Workspace(0)
    C = np.tril(rng.standard_normal((M, M))) / M + np.eye(M)
    S_bar, w, w_bar = np.cov(rng.standard_normal((M, 2 * M))), rng.standard_normal((M, 1)), rng.standard_normal((M, 1))
    point = Parameters(SquaredExponential(), Gaussian(1.0), np.zeros((M, 1)), FactorLaw(w, C))
    inverse = np.linalg.inv(C @ C.T)
    H = S_bar - 0.5 * beta * (np.eye(M) - inverse)
    slopes = Gradient(np.zeros(2), np.zeros(1), mean=w_bar, covariance=H)
    steps = NaturalSteps(M, beta, rho, convex)
    results = []
    for count in (1, 2):
        with blas_threads(count):
            for seed in (0, 1):  # the second step finds the first one's numbers
                entries = block.pack(point) + 1e-3 * (1 - seed)
                moved = steps.moved(entries, block.pull(slopes, point), 100, space)
            results.append(moved)
    np.testing.assert_array_equal(*results)
    E = 2.0 / beta * C.T @ S_bar @ C
    A = np.eye(M) + rho * E + (0.0 if convex else 0.5 * rho**2 * E @ E)
    S = C @ np.linalg.solve(A, C.T)
    q = block.unpack(results[0], point).q
    np.testing.assert_allclose(q.factor @ q.factor.T, S, atol=1e-12)
    precision = inverse[np.tril_indices(M)]  # if it is known
    again = steps.moved(block.pack(point), block.pull(slopes, point), 100, space, precision=precision)
    np.testing.assert_allclose(again, results[0], atol=1e-11)
    np.testing.assert_allclose(precision, np.linalg.inv(S)[np.tril_indices(M)], atol=1e-11)
    np.testing.assert_allclose(q.mean, w - rho / beta * S @ w_bar, atol=1e-11)


def test_the_rate_rises_over_the_first_steps():
    steps = NaturalSteps(1, 1.0, 0.1, convex=True)
    rates = [steps.rate_at(t) for t in range(1, 8)]
    np.testing.assert_allclose(rates, [*(1e-4 * 1000.0 ** (k / 5) for k in range(5)), 0.1, 0.1])
    assert replace(steps, rate=1.0).rate_at(1) == 1.0


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("batch_size", [None, 30])
def test_an_estimator_learns_by_natural_steps(batch_size, tmp_path, monkeypatch):
    """From the prior."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-3.0, 3.0, (60, 1))
    y = rng.poisson(np.exp(1.0 + 1.2 * np.sin(2.0 * X[:, 0])))
    options = {"kernel": SquaredExponential(1.0, 0.7), "random_state": 0, "max_iter": 60, "tol": 0.0}
    settings = {"optimizer": "natgrad", "batch_size": batch_size, "learning_rate": 0.02, "natural_rate": 0.3}
    reference = VariationalGP(8, "poisson", **options).fit(X, y)
    monkeypatch.setattr(laws, "settled", lambda problem, prior: prior)
    model = VariationalGP(8, "poisson", **settings, **options).fit(X, y)
    still = {"optimizer": "adam", "batch_size": 30, "max_iter": 1, "learning_rate": 1e-12}
    untrained = VariationalGP(8, "poisson", **{**options, **still}).fit(X, y)
    assert untrained.objective_ < reference.objective_ - 50.0
    assert model.objective_ > reference.objective_ - 5.0
    path = tmp_path / "run.npz"
    VariationalGP(8, "poisson", **settings, **{**options, "max_iter": 25}, checkpoint=path).fit(X, y)
    again = VariationalGP(8, "poisson", **settings, **options, checkpoint=path).fit(X, y)
    assert again.objective_ == model.objective_
