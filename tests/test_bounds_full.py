"""The PAC-Bayes bound of the exact GP posterior: compared with 50 digits and differences, by chunks, at all scales."""

from __future__ import annotations

import functools

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fitting.bounds import Target, risk_bound
from fitting.objectives import exact as full
from fitting.objectives.losses import of_loss
from fitting.objectives.point import Evaluation
from gpbounds import exact
from gpbounds.arrays import place
from gpbounds.divergences import full_posterior
from gpbounds.errors import NonFinite, NotPositiveDefinite
from gpbounds.kernels import Matern, SquaredExponential
from gpbounds.linalg.workspace import Workspace
from gpbounds.losses import Band, Exponential, Interval, Loss, Relative, Squared
from gpbounds.reference import divergences as reference_divergences
from gpbounds.reference import losses as reference_losses
from gpbounds.reference import pacbayes as reference_pacbayes
from tests.blas import blas_threads

pytestmark = pytest.mark.lanes

RELAXATIONS = ("kl", "pinsker")
DELTA, PENALTY = 0.1, 1.5
STEP = mp.mpf(10) ** -15


def losses(epsilon: float) -> list[Loss]:
    asymmetric = Interval(-0.5 * epsilon, epsilon)
    return [Band(epsilon), Squared(epsilon), Exponential(epsilon), Relative(epsilon), asymmetric]


def evaluate(kernel, X, Y, noise, target, **options):
    """R_S, KL, B, and the derivatives of B."""
    evaluation = full.of_losses(kernel, X, Y, of_loss(target.loss), target, noise=noise, **options)
    return target.terms(evaluation), evaluation.gradient


def problem(seed: int, N: int = 6, D: int = 2) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.standard_normal((N, D)), rng.standard_normal((N, 1))


# The reference: mpmath at 50 digits, from the formulas of the ledger


def law(logs: tuple, X: np.ndarray, y: np.ndarray) -> tuple:
    """Means, latent variances and KL at log(variance, lengthscales, σ²)."""
    variance, *scales, noise = (mp.exp(t) for t in logs)
    points = [[mp.mpf(float(c)) / s for c, s in zip(row, scales, strict=True)] for row in X]
    K = mp.matrix(
        [[variance * mp.exp(-sum((a - b) ** 2 for a, b in zip(p, q, strict=True)) / 2) for q in points] for p in points]
    )
    r = mp.matrix([mp.mpf(float(t)) for t in y])
    mean, cov = reference_divergences.full_law(K, K, K, r, noise)
    return list(mean), [cov[i, i] for i in range(len(y))], reference_divergences.posterior_kl(K, r, noise)


def expected(loss: Loss, y: mp.mpf, m: mp.mpf, s2: mp.mpf) -> mp.mpf:
    if isinstance(loss, Interval):
        return reference_losses.interval(y + mp.mpf(loss.low), y + mp.mpf(loss.high), m, s2)
    return getattr(reference_losses, loss.name)(y, m, s2, mp.mpf(loss.epsilon))  # type: ignore[attr-defined]


def B_of(risk: mp.mpf, kl: mp.mpf, N: int, relaxation: str) -> mp.mpf:
    constant = reference_pacbayes.xi(N) if relaxation == "kl" else 2 * mp.sqrt(N)
    eps = (kl + mp.mpf(PENALTY) + mp.log(constant / mp.mpf(DELTA))) / N
    return reference_pacbayes.kl_inverse(risk, eps)[0] if relaxation == "kl" else risk + mp.sqrt(eps / 2)


class Reference:
    """R_S, KL and B, and the derivative of B along every coordinate by central differences at 50 digits."""

    def __init__(self, X: np.ndarray, y: np.ndarray, values: tuple[float, ...]) -> None:
        self.X, self.y, self.at = X, y, tuple(mp.log(mp.mpf(float(v))) for v in values)

    @functools.cache  # noqa: B019  (lives as long as a test)
    def law(self, which: int, sign: int) -> tuple:
        moved = (t + sign * STEP if i == which else t for i, t in enumerate(self.at))
        return law(tuple(moved), self.X, self.y[:, 0])

    def terms(self, loss: Loss, which: int = 0, sign: int = 0) -> tuple[mp.mpf, mp.mpf]:
        mean, variance, kl = self.law(which, sign)
        targets = [mp.mpf(float(t)) for t in self.y[:, 0]]
        total = sum(expected(loss, *each) for each in zip(targets, mean, variance, strict=True))
        return total / len(targets), kl

    def slope(self, loss: Loss, relaxation: str, which: int) -> float:
        N = len(self.y)
        up, down = (B_of(*self.terms(loss, which, sign), N, relaxation) for sign in (1, -1))
        return float((up - down) / (2 * STEP))


@pytest.mark.broad
@pytest.mark.parametrize(
    "noise", [1e-6, *(pytest.param(noise, marks=pytest.mark.slow) for noise in (1e-3, 1e3)), 1.0, 1e6]
)
def test_values_and_derivatives_are_those_of_50_digits(noise: float) -> None:
    """Relative errors: a few ulp if K ≪ σ², eps·λ_max/σ² if K ≫ σ²; ε scales with the posterior standard deviation."""
    X, Y = problem(0)
    kernel, tol = SquaredExponential(1.0, [0.7, 1.4]), 1e-14 + 1e-16 * 10 / noise
    with mp.workdps(50):
        truth = Reference(X, Y, (1.0, 0.7, 1.4, noise))
        for loss in losses(0.7 * min(1.0, noise**0.5)):
            risk, kl = truth.terms(loss)
            for relaxation in RELAXATIONS:
                terms, slope = evaluate(
                    kernel, X, Y, noise, Target(loss, 6, delta=DELTA, log_prior_penalty=PENALTY, relaxation=relaxation)
                )
                assert slope is not None
                assert slope.Z is None
                assert terms.risk == pytest.approx(float(risk), rel=10 * tol)
                assert terms.kl == pytest.approx(float(kl), rel=tol)
                assert terms.bound == pytest.approx(float(B_of(risk, kl, 6, relaxation)), rel=tol)
                exactly = [truth.slope(loss, relaxation, which) for which in range(4)]
                np.testing.assert_allclose([*slope.kernel, slope.noise], exactly, rtol=100 * tol)


@settings(max_examples=40)
@given(
    seed=st.integers(0, 2**32 - 1),
    N=st.integers(1, 8),
    ratio=st.floats(-6.0, 6.0),
    variance=st.floats(0.01, 100.0),
    lengthscale=st.floats(0.1, 10.0),
    twice=st.booleans(),
    which=st.integers(0, 4),
    relaxation=st.sampled_from(RELAXATIONS),
    draw=st.data(),
)
def test_any_problem_agrees_with_50_digits(
    seed: int,
    N: int,
    ratio: float,
    variance: float,
    lengthscale: float,
    twice: bool,
    which: int,
    relaxation: str,
    draw: st.DataObject,
) -> None:
    X, Y = problem(seed, N)
    if twice:
        X[-1] = X[0]
    noise = variance * 10.0**ratio
    loss = losses(2.0 * min(variance, noise) ** 0.5)[which]
    kernel = SquaredExponential(variance, [lengthscale, 2.0 * lengthscale])
    terms, slope = evaluate(
        kernel, X, Y, noise, Target(loss, N, delta=DELTA, log_prior_penalty=PENALTY, relaxation=relaxation)
    )
    assert slope is not None
    coordinate = draw.draw(st.integers(0, 3))
    lost = 1e-13 + 1e-15 * N * variance / noise
    with mp.workdps(50):
        truth = Reference(X, Y, (variance, lengthscale, 2.0 * lengthscale, noise))
        risk, kl = truth.terms(loss)
        misfit = sum((mp.mpf(float(y)) - m) ** 2 for y, m in zip(Y[:, 0], truth.law(0, 0)[0], strict=True)) / noise
        kl_lost = lost + 1e-15 * N * variance / noise * float(misfit / kl)  # the error of KL that `of_losses` admits
        assert terms.kl == pytest.approx(float(kl), rel=kl_lost)
        assert terms.risk == pytest.approx(float(risk), rel=100 * lost, abs=1e-300)
        if 1e-12 < risk < 1.0 - 1e-12:
            assert terms.bound == pytest.approx(float(B_of(risk, kl, N, relaxation)), rel=100 * lost + kl_lost)
            exactly = truth.slope(loss, relaxation, coordinate)
            computed = [*slope.kernel, slope.noise]
            assert computed[coordinate] == pytest.approx(
                exactly, rel=1e4 * lost, abs=1e-30 + (100 * lost + 10 * kl_lost) * np.abs(computed).max()
            )


def test_the_plain_formulas_lose_the_digits_that_are_kept_here() -> None:
    """At σ² = 10⁶ variances, six digits of s and KL would cancel in s = σ² − σ⁴A_ii and log|I + K/σ²| − tr KA."""
    X, Y = problem(3)
    kernel, noise = SquaredExponential(1.0, [0.7, 1.4]), 1e6
    K = kernel(X)
    A = np.linalg.inv(K + noise * np.eye(6))
    with mp.workdps(50):
        _, variance, kl = law(tuple(mp.log(mp.mpf(v)) for v in (1.0, 0.7, 1.4, noise)), X, Y[:, 0])
    exactly = np.array([float(v) for v in variance])
    weights = A @ Y[:, 0]
    volume = np.linalg.slogdet(K / noise + np.eye(6))[1] - np.trace(np.eye(6) - noise * A)
    plain = 0.5 * (volume + weights @ (Y[:, 0] - noise * weights))
    fit = full._fit(exact.exact(kernel, X, Y, noise=noise))
    np.testing.assert_allclose(noise * fit.gain, exactly, rtol=1e-15)
    assert np.abs(noise - noise**2 * np.diag(A) - exactly).max() > 1e-12
    assert fit.kl == pytest.approx(float(kl), rel=1e-15)
    assert abs(plain / float(kl) - 1.0) > 1e-13


# Chunks, threads, memory, other kernels


def slope_along(kernel, X, Y, noise, target, direction, h=1e-4):
    """Derivative along ``direction`` in (log parameters, log σ²), by differences of fourth order."""

    def at(t: float) -> float:
        moved = kernel.with_log_parameters(kernel.log_parameters + t * direction[:-1])
        return evaluate(moved, X, Y, noise * np.exp(t * direction[-1]), target, gradient=False)[0].bound

    return (8 * (at(h) - at(-h)) - at(2 * h) + at(-2 * h)) / (12 * h)


@pytest.mark.parametrize(
    "kernel",
    [
        SquaredExponential(1.3, 0.8),
        Matern(1.5, 1.3, [0.7, 1.4]),
        SquaredExponential(1.0, [0.7, 1.4]) + Matern(2.5, 0.2, 2.0),
        SquaredExponential(1.0, 2.0) * Matern(0.5, 0.9, 3.0),
    ],
)
@pytest.mark.parametrize("N", [127, 128, 300])
def test_derivatives_by_differences_across_chunks(kernel, N: int) -> None:
    X, Y = problem(N, N)
    rng = np.random.default_rng(N)
    for loss, relaxation in zip(losses(0.9), ("kl", "pinsker", "kl", "pinsker", "kl"), strict=True):
        target = Target(loss, N, delta=DELTA, log_prior_penalty=PENALTY, relaxation=relaxation)
        terms, slope = evaluate(kernel, X, Y, 0.2, target)
        assert slope is not None
        alone, nothing = evaluate(kernel, X, Y, 0.2, target, gradient=False)
        assert nothing is None
        assert alone == terms
        direction = rng.standard_normal(slope.kernel.size + 1)
        exactly = slope_along(kernel, X, Y, 0.2, target, direction)
        assert np.append(slope.kernel, slope.noise) @ direction == pytest.approx(exactly, rel=1e-7, abs=1e-9)


def test_the_posterior_is_that_of_the_house() -> None:
    X, Y = problem(5, 300)
    kernel, loss = Matern(2.5, 1.7, [0.7, 1.4]), Squared(1.0)
    fit = full._fit(exact.exact(kernel, X, Y, noise=0.3))
    posterior = full_posterior(kernel, X, Y[:, 0], noise=0.3)
    law = posterior.predict()
    np.testing.assert_allclose(fit.mean, law.mean, atol=1e-11)
    np.testing.assert_allclose(0.3 * fit.gain, law.variance, rtol=1e-10)
    assert fit.kl == pytest.approx(posterior.kl, rel=1e-11)
    terms = risk_bound(X, Y, loss, delta=DELTA, method="exact").terms(kernel, 0.3)
    assert terms.risk == pytest.approx(loss.expectation(Y[:, 0], law.mean, law.variance).mean(), rel=1e-10)
    assert (terms.kl, terms.jitter) == (fit.kl, 0.0)


def test_threads_and_kept_memory_change_nothing() -> None:
    X, Y = problem(6, 700)
    kernel, target, space = SquaredExponential(1.3, [0.7, 1.4]), Target(Band(0.6), 700, delta=DELTA), Workspace()
    kept = X.copy(), Y.copy()
    terms, slope = evaluate(kernel, X, Y, 0.2, target)
    assert slope is not None
    for count in (1, 2, 3):
        with blas_threads(count):
            evaluate(kernel.with_log_parameters(kernel.log_parameters + 0.1), X, Y, 0.3, target, space=space)
            again, slope_again = evaluate(kernel, X, Y, 0.2, target, space=space)
        assert slope_again is not None
        assert again.bound == terms.bound
        np.testing.assert_array_equal([*slope_again.kernel, slope_again.noise], [*slope.kernel, slope.noise])
    for after, before in zip((X, Y), kept, strict=True):
        np.testing.assert_array_equal(after, before)


# Edges


@pytest.mark.parametrize("lengthscale", [1e-8, 1.0, 1e8])
@pytest.mark.parametrize("noise", [1e-3, 1.0, 1e12])
def test_singular_flat_and_uncorrelated_data(lengthscale: float, noise: float) -> None:
    """All inputs equal or all far apart: closed forms in the eigenvalues N and 0, or 1."""
    N = 40
    X, Y = problem(7, N)
    X[:] = X[0] if lengthscale == 1.0 else X
    x = 1.0 / noise
    values = np.full(N, x) if lengthscale < 1.0 else np.array([N * x])
    projected = (Y**2).sum() if lengthscale < 1.0 else Y.sum() ** 2 / N
    share = values / (1.0 + values)
    volume = np.where(values > 1e-4, np.log1p(values) - share, values**2 / 2 - 2 * values**3 / 3)
    kl = 0.5 * volume.sum() + 0.5 * values[0] / (1.0 + values[0]) ** 2 * projected / noise
    for loss in losses(0.6):
        terms, slope = evaluate(SquaredExponential(1.0, lengthscale), X, Y, noise, Target(loss, N, delta=DELTA))
        assert slope is not None
        assert terms.kl == pytest.approx(kl, rel=1e-8 if noise < 1.0 else 1e-13)
        variances = noise * (share if lengthscale < 1.0 else share / N)[0]
        means = share[0] * (Y[:, 0] if lengthscale < 1.0 else np.full(N, Y.mean()))
        assert terms.risk == pytest.approx(loss.expectation(Y[:, 0], means, variances).mean(), rel=1e-6, abs=1e-300)
        assert np.isfinite([*slope.kernel, slope.noise]).all()


def test_a_risk_that_underflows_to_0_leaves_the_derivative_of_the_divergence() -> None:
    X, Y = problem(8, 12)
    target, kernel = Target(Band(50.0), 12, delta=DELTA), SquaredExponential(1.0, 0.7)
    terms, slope = evaluate(kernel, X, Y, 1.0, target)
    assert slope is not None
    assert terms.risk == 0.0
    direction = np.array([0.3, -0.2, 0.5])
    numeric = slope_along(kernel, X, Y, 1.0, target, direction)
    assert np.append(slope.kernel, slope.noise) @ direction == pytest.approx(numeric, rel=1e-8)


def test_what_double_precision_cannot_say_is_refused() -> None:
    X, Y = problem(9, 30)
    target = Target(Band(0.6), 30, delta=DELTA)
    with pytest.raises(NonFinite, match=r"^kernel: expected finite covariances"):
        evaluate(SquaredExponential(1e308, 1.0) * SquaredExponential(1e308, 1.0), X, Y, 0.1, target)
    with pytest.raises(NonFinite, match=r"^KL: expected a finite number, got (inf|nan).*Rescale y"):
        evaluate(SquaredExponential(1.0, 1.0), X, 1e160 * Y, 0.1, target)
    with pytest.raises(NotPositiveDefinite, match="positive definite"):
        evaluate(SquaredExponential(1.0, 100.0), X, Y, 1e-30, target)
    messages = []  # the Cholesky factorisation barely succeeds, and the variances are rounding errors
    for noise in (1e-14, 5e-15, 3e-15, 2e-15):
        with pytest.raises(NotPositiveDefinite) as caught:
            evaluate(SquaredExponential(1.0, 300.0), *problem(9, 150), noise, target)
        messages.append(str(caught.value))
    assert any("noise: expected latent variances > 0" in text and "rounding error of K" in text for text in messages)


# A GPU


@pytest.mark.gpu
@pytest.mark.parametrize("noise", [1e-3, 0.2, 1e5])
def test_the_gpu_computes_what_the_cpu_does(cupy, noise: float) -> None:
    X, Y = problem(11, 300)
    for kernel in (SquaredExponential(1.3, [0.7, 1.4]), Matern(1.5, 1.3, 0.9)):
        for loss in losses(0.9):
            target = Target(loss, 300, delta=DELTA)
            terms, slope = evaluate(kernel, X, Y, noise, target)
            again, slope_again = evaluate(kernel, cupy.asarray(X), cupy.asarray(Y), noise, target)
            assert slope is not None
            assert slope_again is not None
            assert again.bound == pytest.approx(terms.bound, rel=1e-9)
            size = np.abs([*slope.kernel, slope.noise]).max()
            np.testing.assert_allclose(
                [*place(slope_again.kernel, np), slope_again.noise],
                [*slope.kernel, slope.noise],
                rtol=1e-6,
                atol=1e-7 * size,
            )


def test_a_mean_of_losses_of_one_is_at_most_one() -> None:
    """N losses of 1 can sum to N(1 + 2e-16), and a KL of 0 can come out as -1e-17."""
    target = Target(Band(0.5), 3, delta=DELTA)
    terms = target.terms(Evaluation(1.0, None, total=3.0 * np.nextafter(1.0, 2.0), kl=-1e-17))
    assert terms.risk == 1.0
    assert terms.kl == 0.0
    assert target(3.0 * np.nextafter(1.0, 2.0), -1e-17) == target(3.0, 0.0)
