"""Functions of losses and KL under a sparse posterior: derivatives by differences, and agreement with VFE."""

from __future__ import annotations

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from thinning import one_in

from fitting.objectives.collapsed import Diagonal
from fitting.objectives.free import collapsed, free
from fitting.objectives.losses import Expected, of_loss
from fitting.objectives.objective import objective
from fitting.rows.data import Data
from gpbounds.divergences import whitened_kl
from gpbounds.kernels import Matern, SquaredExponential
from gpbounds.law import FactorLaw, gram_law
from gpbounds.linalg.workspace import Workspace
from gpbounds.losses import Band, Exponential, Squared
from gpbounds.reference import divergences as reference

SEEDS = st.integers(0, 2**32 - 1)
KERNEL = SquaredExponential(1.3, [0.7, 1.4]) + Matern(1.5, 0.2, 2.0)
MEMBERS = [Diagonal(0.0, 0.2), Diagonal(0.0, 0.2, kept=False), Diagonal(0.4, 0.2), Diagonal(1.0, 0.2)]
each_member = pytest.mark.parametrize("approximation", MEMBERS)


def problem(seed: int, N: int = 23, M: int = 5, P: int = 2):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((N, 2)), rng.standard_normal((N, P)), rng.standard_normal((M, 2))


def source_of(kernel, X, Y, Z, keep=600):
    return Data(X, Y, False, 1e-6, 7, space=Workspace(keep)).stream(kernel, Z, 1e-6)


def expected_squares(noise):
    """−E log N(y; f, σ²) = ½[log 2πσ² + ((y − m)² + s)/σ²], summed over the outputs; σ² is a parameter of the loss."""

    def loss(Y, means, variances):
        gap, P = means - Y, Y.shape[1]
        squares = ((gap**2).sum() + P * variances.sum()) / noise
        value = 0.5 * (gap.size * np.log(2 * np.pi * noise) + squares)
        own = np.array([0.5 * (gap.size - squares)])
        return Expected(value, gap / noise, np.full(len(variances), 0.5 * P / noise), own)

    return loss


def odd(Y, means, variances):
    """An arbitrary loss with derivatives of both signs."""
    gap = means - Y
    value = np.sin(gap).sum() + np.cos(3.0 * variances).sum() + (gap.sum(axis=1) * variances).sum()
    return Expected(value, np.cos(gap) + variances[:, None], -3.0 * np.sin(3.0 * variances) + gap.sum(axis=1))


def odd_goal(total: float, kl: float):
    """An arbitrary function of the sum of the losses and of KL."""
    return np.sin(total / 5.0) + 0.3 * kl * np.cos(total / 7.0), *(
        np.cos(total / 5.0) / 5.0 - 0.3 * kl * np.sin(total / 7.0) / 7.0,
        0.3 * np.cos(total / 7.0),
    )


def elbo(total: float, kl: float):
    return total + kl, 1.0, 1.0


def slope(function, step=1e-5):
    return (8 * (function(step) - function(-step)) - function(2 * step) + function(-2 * step)) / (12 * step)


def free_law(rng, M: int, P: int) -> FactorLaw:
    factor = np.tril(rng.standard_normal((M, M))) * 0.3 + np.eye(M)
    factor[np.diag_indices(M)] = np.abs(np.diag(factor)) + 0.1
    return FactorLaw(rng.standard_normal((M, P)), factor)


@each_member
@pytest.mark.parametrize("own", one_in(2, [True, False]), ids=["with a parameter", "odd"])
@settings(max_examples=6)
@given(seed=SEEDS)
def test_derivatives_of_any_function_of_a_collapsed_posterior(approximation: Diagonal, own: bool, seed: int) -> None:
    X, Y, Z = problem(seed)

    def at(logs, noise, centres):
        member = Diagonal(approximation.power, noise, approximation.kept)
        source = source_of(KERNEL.with_log_parameters(logs), X, Y, centres)
        return collapsed(member, source, expected_squares(noise) if own else odd, odd_goal)

    evaluation, logs = at(KERNEL.log_parameters, 0.2, Z), KERNEL.log_parameters
    rng = np.random.default_rng(seed)
    d_logs, d_noise, d_Z = rng.standard_normal(logs.size), rng.standard_normal(), rng.standard_normal(Z.shape)
    numeric = slope(lambda t: at(logs + t * d_logs, 0.2 * np.exp(t * d_noise), Z + t * d_Z).value)
    g = evaluation.gradient
    assert g is not None
    exact = g.kernel @ d_logs + g.noise * d_noise + (g.Z * d_Z).sum()
    size = np.abs(g.kernel).sum() + abs(g.noise) + np.abs(g.Z).sum()
    assert exact == pytest.approx(numeric, rel=1e-6, abs=1e-6 * size)


@pytest.mark.parametrize("own", [False, True], ids=["odd", "with a parameter"])
@given(seed=SEEDS)
def test_derivatives_of_any_function_of_a_free_posterior(own: bool, seed: int) -> None:
    X, Y, Z = problem(seed)
    rng = np.random.default_rng(seed)
    q, logs = free_law(rng, 5, 2), KERNEL.log_parameters

    def at(logs, centres, mu, C, noise):
        source = source_of(KERNEL.with_log_parameters(logs), X, Y, centres)
        return free(source, FactorLaw(mu, C), expected_squares(np.exp(noise[0])) if own else odd, odd_goal)

    point = (logs, Z, q.mean, q.factor, np.log([0.2]))
    evaluation = at(*point)
    steps = [rng.standard_normal(np.shape(a)) for a in point]
    steps[3] = np.tril(steps[3])
    numeric = slope(lambda t: at(*(a + t * d for a, d in zip(point, steps, strict=True))).value, 1e-6)
    g = evaluation.gradient
    assert g is not None
    bars = (g.kernel, g.Z, g.mean, g.factor, g.likelihood if own else np.zeros(1))
    assert g.likelihood.size == own
    exact = sum(float((b * d).sum()) for b, d in zip(bars, steps, strict=True))
    assert exact == pytest.approx(numeric, rel=1e-5, abs=1e-5 * sum(np.abs(b).sum() for b in bars))
    assert not np.triu(g.factor, 1).any()


@given(seed=SEEDS)
def test_the_evidence_bound_of_the_best_q_is_vfe(seed: int) -> None:
    X, Y, Z = problem(seed)
    approximation = Diagonal(0.0, 0.2)
    vfe = -approximation.evaluate(source_of(KERNEL, X, Y, Z))
    from_functional = collapsed(approximation, source_of(KERNEL, X, Y, Z), expected_squares(0.2), elbo)
    assert from_functional.value == pytest.approx(vfe.value, rel=1e-10)
    for computed, other in (
        (from_functional.gradient.kernel, vfe.gradient.kernel),
        (from_functional.gradient.Z, vfe.gradient.Z),
    ):
        np.testing.assert_allclose(computed, other, rtol=1e-6, atol=1e-7 * np.abs(other).max())
    assert from_functional.gradient.noise == pytest.approx(vfe.gradient.noise, rel=1e-6, abs=1e-7 * np.abs(vfe.value))
    q, _ = approximation.posterior(source_of(KERNEL, X, Y, Z))
    loose = free(source_of(KERNEL, X, Y, Z), FactorLaw(q.mean, q.factor), expected_squares(0.2), elbo)
    scale = np.abs(vfe.gradient.kernel).max()
    assert loose.value == pytest.approx(vfe.value, rel=1e-9)
    assert np.abs(loose.gradient.mean).max() < 1e-7 * scale  # the posterior is optimal: the gradient is 0
    assert np.abs(loose.gradient.factor).max() < 1e-6 * scale
    assert loose.gradient.noise == pytest.approx(vfe.gradient.noise, rel=1e-6, abs=1e-6 * scale)


@each_member
@pytest.mark.parametrize("keep", [0, 10**7])
def test_losses_see_the_posterior_that_predicts(approximation: Diagonal, keep: int) -> None:
    X, Y, Z = problem(3)
    method = {0.0: "vfe" if approximation.kept else "dtc", 0.4: "pep", 1.0: "fitc"}[approximation.power]
    options = {"power": 0.4} if method == "pep" else {}
    posterior = objective(X, Y, method, jitter=1e-6, **options).posterior(KERNEL, 0.2, Z)
    mean, variance = posterior.predict(X)
    calls = []

    def loss(targets, means, variances):
        calls.append((targets.copy(), means.copy(), variances.copy()))
        return Expected(0.0, np.zeros_like(means), np.zeros_like(variances))

    evaluation = collapsed(approximation, source_of(KERNEL, X, Y, Z, keep), loss, lambda total, kl: (kl, 0.0, 1.0))
    assert evaluation.value == evaluation.kl == pytest.approx(posterior.kl, rel=1e-9)
    targets, means, variances = (np.concatenate(parts) for parts in zip(*calls, strict=True))
    np.testing.assert_array_equal(targets, Y)
    np.testing.assert_allclose(means, mean, atol=1e-9)
    np.testing.assert_allclose(variances, variance, atol=1e-9)


@given(seed=SEEDS)
def test_a_law_held_by_its_factor_and_one_held_by_its_gram_matrix_are_one(seed: int) -> None:
    rng = np.random.default_rng(seed)
    V = rng.standard_normal((4, 9)) * 10.0 ** rng.uniform(-4, 2)
    by_gram = gram_law(V @ V.T, V @ rng.standard_normal((9, 2)))
    by_factor = FactorLaw(by_gram.mean, by_gram.factor)
    scale = np.abs(by_gram.covariance).max()
    np.testing.assert_allclose(by_factor.covariance, by_gram.covariance, atol=1e-12 * scale)
    np.testing.assert_allclose(by_factor.gained, by_gram.gained, atol=1e-12)
    assert by_factor.kl == pytest.approx(by_gram.kl, rel=1e-9, abs=1e-14)  # log|I + G| keeps an absolute eps
    np.testing.assert_allclose(
        by_factor.kl_in_covariance, by_gram.kl_in_covariance, rtol=1e-7, atol=1e-9 * np.abs(V @ V.T).max()
    )
    inside = rng.standard_normal((4, 3))
    for law in (by_factor, by_gram):
        half = law.half(inside)
        np.testing.assert_allclose(half.T @ half, inside.T @ by_gram.covariance @ inside, atol=1e-11 * scale)


@given(seed=SEEDS)
def test_kl_of_a_law_is_the_definition_and_its_slopes_are_differences(seed: int) -> None:
    rng = np.random.default_rng(seed)
    q = free_law(rng, 4, 2)
    with mp.workdps(30):
        S = mp.matrix(q.factor.tolist()) * mp.matrix(q.factor.tolist()).T
        truth = sum(reference.gaussian_kl(mp.matrix(m.tolist()), S, mp.zeros(4, 1), mp.eye(4)) for m in q.mean.T)
    assert q.kl == pytest.approx(float(truth), rel=1e-13)
    assert q.kl == pytest.approx(sum(whitened_kl(m, q.factor) for m in q.mean.T), rel=1e-14)
    step = np.tril(rng.standard_normal((4, 4)))
    numeric = slope(lambda t: FactorLaw(q.mean, q.factor + t * step).kl)
    assert (q.kl_in_factor * step).sum() == pytest.approx(numeric, rel=1e-7, abs=1e-8)
    by_covariance = (q.kl_in_covariance * (step @ q.factor.T + q.factor @ step.T)).sum()
    assert by_covariance == pytest.approx(numeric, rel=1e-6, abs=1e-7)


@pytest.mark.parametrize("loss", [Band(0.6), Squared(0.8), Exponential(0.5)], ids=lambda loss: loss.name)
def test_a_bounded_loss_speaks_the_protocol(loss) -> None:
    rng = np.random.default_rng(0)
    y, m, v = rng.standard_normal((3, 20, 1))
    expected = of_loss(loss)(y, m, v[:, 0] ** 2)
    assert expected.total == pytest.approx(loss.expectation(y, m, v**2).sum(), rel=1e-14)
    in_mean = slope(lambda t: loss.expectation(y, m + t, v**2)[:, 0], 1e-4)
    in_log_variance = slope(lambda t: loss.expectation(y, m, v**2 * np.exp(t))[:, 0], 1e-3)
    np.testing.assert_allclose(expected.in_mean[:, 0], in_mean, rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(expected.in_variance * v[:, 0] ** 2, in_log_variance, rtol=1e-7, atol=1e-11)
    assert expected.in_parameters.size == 0
