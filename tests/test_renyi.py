"""The functions of `gpbounds.renyi`: upper and lower bounds, invariances, limits, and error messages."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpbounds import claims
from gpbounds.bound import Bound
from gpbounds.divergences import gaussian_kl, gaussian_renyi
from gpbounds.errors import NonFinite, NotPositiveDefinite
from gpbounds.kernels import Matern, SquaredExponential
from gpbounds.renyi import (
    direction_factor,
    elbo,
    exact_gap,
    expected_gap,
    expected_gap_bounds,
    gap,
    gap_from_trace,
    gap_variance,
    inducing_posterior,
    jensen_bound,
    log_evidence,
    minimum_gap,
    nystrom,
    oracle_risk_bound,
    pac_risk_bound,
    predict,
    renyi_bound,
    variational_bound,
)

SEEDS = st.integers(0, 2**32 - 1)
ORDERS = st.floats(0.01, 1.0)


def problem(seed: int, N: int = 20, M: int = 6) -> tuple:
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, (N, 2))
    kernel = Matern(1.5, float(np.exp(rng.normal())), float(np.exp(rng.normal(-0.3, 0.4))))
    Z = X[rng.permutation(N)[:M]] if rng.random() < 0.5 else rng.uniform(-2, 2, (M, 2))
    return kernel, X, rng.standard_normal(N), Z, float(10.0 ** rng.uniform(-3, 0.5))


# --- values -----------------------------------------------------------------------------------------------------------


@given(seed=SEEDS, alpha=ORDERS)
def test_bounds_bracket_what_they_bound(seed: int, alpha: float) -> None:
    kernel, X, y, Z, noise = problem(seed)
    arguments = kernel, X, y, Z
    evidence, size = log_evidence(kernel, X, y, noise=noise), 1e-9 * (1 + kernel.variance / noise) * y.size
    below, above = elbo(*arguments, alpha, noise=noise), elbo(*arguments, -alpha, noise=noise)
    assert (below.side, above.side) == ("lower", "upper")
    assert float(below) <= evidence + size
    assert float(above) >= evidence - size
    exact = exact_gap(*arguments, alpha, noise=noise)
    assert exact == pytest.approx(evidence - float(below), rel=1e-6, abs=size)
    lower, upper = gap(*arguments, alpha, noise=noise)
    assert float(lower) <= exact + size
    assert exact <= float(upper) + size
    assert float(upper) <= float(gap_from_trace(*arguments, alpha, noise=noise)) + size
    assert float(upper) <= float(gap(*arguments, alpha, noise=noise, form="printed")[1]) + size
    mean = expected_gap(kernel, X, Z, alpha, noise=noise)
    lower, upper = expected_gap_bounds(kernel, X, Z, alpha, noise=noise)
    assert float(lower) - size <= mean <= float(upper) + size
    least = min(value for name, value in upper.terms.items() if name != "rounding")
    assert float(upper) == pytest.approx(least + upper.terms["rounding"], rel=1e-14)


@given(seed=SEEDS, alpha=ORDERS)
def test_units_and_order_of_the_data_do_not_matter(seed: int, alpha: float) -> None:
    """y → cy, variance and noise times c²: the gap stays, log p shifts by −N log c; permutations change neither."""
    kernel, X, y, Z, noise = problem(seed)
    arguments = kernel, X, y, Z
    base, objective = exact_gap(*arguments, alpha, noise=noise), float(elbo(*arguments, alpha, noise=noise))
    for c in (1e-120, 1e5):
        scaled = (Matern(1.5, kernel.variance * c * c, kernel.lengthscale), X, c * y, Z)
        assert exact_gap(*scaled, alpha, noise=noise * c * c) == pytest.approx(base, rel=1e-8)
        assert float(elbo(*scaled, alpha, noise=noise * c * c)) == pytest.approx(
            objective - y.size * np.log(c), rel=1e-9
        )
        assert float(gap(*scaled, alpha, noise=noise * c * c)[1]) == pytest.approx(
            float(gap(*arguments, alpha, noise=noise)[1]), rel=1e-7
        )
    order = np.random.default_rng(seed).permutation(y.size)
    assert exact_gap(kernel, X[order], y[order], Z[::-1], alpha, noise=noise) == pytest.approx(base, rel=1e-7)


@given(seed=SEEDS)
def test_mean_and_variance_of_the_gap_are_those_of_its_draws(seed: int) -> None:
    """A quadratic form in y ~ N(0, K_n) has its mean at the average over ±√N times the columns of a root of K_n."""
    kernel, X, _, Z, noise = problem(seed, 8, 3)
    root = np.linalg.cholesky(kernel(X) + noise * np.eye(8))
    values = [exact_gap(kernel, X, np.sqrt(8) * root[:, i], Z, 0.5, noise=noise) for i in range(8)]
    assert expected_gap(kernel, X, Z, 0.5, noise=noise) == pytest.approx(np.mean(values), rel=1e-8)
    at_zero = exact_gap(kernel, X, np.zeros(8), Z, 0.5, noise=noise)
    slopes = [exact_gap(kernel, X, root @ v, Z, 0.5, noise=noise) for v in np.eye(8)]
    diagonal = np.array(slopes) - at_zero
    assert gap_variance(kernel, X, Z, 0.5, noise=noise) >= 2 * (diagonal**2).sum() * (1 - 1e-9)


def test_more_inducing_points_close_the_gap() -> None:
    kernel, X, y, _, noise = problem(3)
    gaps = [exact_gap(kernel, X, y, X[:M], 0.7, noise=noise) for M in range(1, 21)]
    assert (np.diff(gaps) <= 1e-9).all()
    assert gaps[-1] == 0.0
    assert float(gap(kernel, X, y, X, 0.7, noise=noise)[1]) == 0.0
    assert float(gap_from_trace(kernel, X, y, X, 0.7, noise=noise)) == 0.0
    floor = minimum_gap(np.linalg.eigvalsh(kernel(X)), np.arange(1, 21), 0.7, noise=noise)
    assert (floor <= np.array(gaps) + 1e-12).all()
    assert floor[-1] == 0.0


def test_every_number_of_inducing_points_at_once() -> None:
    eigenvalues = np.arange(1, 200_001.0) ** -2.0
    floor = minimum_gap(eigenvalues, np.arange(200_000), 0.5, noise=0.01)
    assert (np.diff(floor) <= 0).all()
    some = np.array([0, 10, 1000])
    direct = [minimum_gap(eigenvalues[m:], 0, 0.5, noise=0.01) for m in some]
    np.testing.assert_allclose(floor[some], direct, rtol=1e-12)
    assert minimum_gap(eigenvalues[:100], 3, 0.5, noise=0.01) <= floor[3]  # eigenvalues left out count as 0
    assert minimum_gap(eigenvalues[:100], 300, 0.5, noise=0.01) == 0.0


def test_tiny_gap_keeps_its_digits() -> None:
    """The gap keeps its digits where log p − L_α loses them to rounding: Q = 0 up to rounding, d = 1e-9."""
    kernel, far = SquaredExponential(1e-9), [[100.0]]
    value = exact_gap(kernel, [[0.0]], [0.0], far, 0.5, noise=1.0)
    d = 1e-9
    assert value == pytest.approx(0.25 * 0.5 * d * d, rel=1e-8)  # G(d) = αd²/4 + O(d³)


def test_known_rows_and_duplicates_lower_the_rank() -> None:
    kernel, X = Matern(0.5), np.array([[0.0], [1.0], [1.0], [2.0], [3.0]])
    assert nystrom(kernel, X, [[0.0], [9.0]]).rank == 3  # 1.0 counts once, 0.0 is known
    assert nystrom(kernel, X, [[1.0]]).rank == 3
    assert nystrom(kernel, X, [[1.0]], jitter=1e-6).rank == 5
    record = nystrom(kernel, X, [[1.0]])
    assert not record.residual[[1, 2]].any()
    assert (record.eigenvalues[record.rank :] <= record.rounding).all()


@given(seed=SEEDS)
def test_jitter_never_helps(seed: int) -> None:
    kernel, X, y, Z, noise = problem(seed)
    arguments = kernel, X, y, Z
    values = [float(elbo(*arguments, 0.6, noise=noise, jitter=j)) for j in (0.0, 1e-6, 1e-2)]
    assert (np.diff(values) <= 1e-7 * (1 + kernel.variance / noise)).all()
    assert values[0] <= log_evidence(kernel, X, y, noise=noise) + 1e-7 * (1 + kernel.variance / noise)
    assert len(Z) == 6


@given(seed=SEEDS)
def test_orders_end_where_the_residual_says(seed: int) -> None:
    """α < 1 + σ²/λ_max(K − Q), to nine digits."""
    kernel, X, _, Z, noise = problem(seed)
    record = nystrom(kernel, X, Z)
    end = 1.0 + noise / np.linalg.eigvalsh(record.residual)[-1]
    assert record.order(end - 1e-9 * (end - 1.0), noise=noise) < end
    with pytest.raises(ValueError, match="alpha: expected a number <"):
        record.order(end + 1e-9 * (end - 1.0), noise=noise)


def test_auto_jitter_rescues_dependent_points_and_says_so() -> None:
    kernel, X = SquaredExponential(lengthscale=3.0), np.linspace(0, 1, 15)
    record = nystrom(kernel, X, X, jitter="auto")
    assert 0.0 < record.chol.jitter <= 1e-6
    assert float(elbo(kernel, X, np.sin(X), X, 0.5, noise=0.1, jitter="auto")) <= log_evidence(
        kernel, X, np.sin(X), noise=0.1
    )


def test_prediction_agrees_with_its_parts() -> None:
    kernel, X, y, Z, noise = problem(5)
    arguments = kernel, X, y, Z
    mean, cov = inducing_posterior(*arguments, 0.4, noise=noise)
    at_z = predict(kernel, X, y, Z, Z, 0.4, noise=noise, full_cov=True, noisy=True)
    np.testing.assert_allclose(at_z[0], mean, atol=1e-9)
    np.testing.assert_allclose(at_z[1], cov + noise * np.eye(len(Z)), atol=1e-9)
    far = predict(kernel, X, y, Z, [[1e3, 0.0]], 0.4, noise=noise, noisy=True)
    np.testing.assert_allclose([far[0][0], far[1][0]], [0.0, kernel.variance + noise], atol=1e-12)


def test_bounds_of_any_posterior_with_jitter_are_those_of_inducing_variables_with_noise() -> None:
    """Jitter of Kuu is noise of U: the three bounds agree with each other in their limits, and name it."""
    kernel, X, y, Z, noise = problem(3)
    q = inducing_posterior(kernel, X, y, Z, 0.4, noise=noise, jitter=1e-2)
    best = renyi_bound(kernel, X, y, Z, *q, 0.4, noise=noise, jitter=1e-2)
    assert float(best) == pytest.approx(float(elbo(kernel, X, y, Z, 0.4, noise=noise, jitter=1e-2)), rel=1e-9)
    last = [f(kernel, X, y, Z, *q, 1.0, noise=noise, jitter=1e-2) for f in (renyi_bound, jensen_bound)]
    streamed = variational_bound(kernel, X, y, Z, *q, noise=noise, jitter=1e-2)
    assert [float(bound) for bound in last] == pytest.approx([float(streamed)] * 2, rel=1e-9)
    assert all("jitter of 0.01" in bound.assumptions[-1] for bound in (best, *last, streamed))


def test_gaussian_divergences_near_equality_and_far_from_it() -> None:
    cov = np.array([[2.0, 0.3], [0.3, 1.0]])
    zero = np.zeros(2)
    assert gaussian_kl(zero, cov, zero, cov) == 0.0
    h = 2.0**-30
    assert gaussian_kl(zero, cov * (1 + h), zero, cov) == pytest.approx(h * h / 2, rel=1e-7)
    assert gaussian_renyi(zero, cov * (1 + h), zero, cov, 0.3) == pytest.approx(0.3 * h * h / 2, rel=1e-7)
    assert gaussian_kl(0.0, 1.0, 0.0, 1e-300) == pytest.approx(0.5e300, rel=1e-9)
    assert gaussian_renyi(0.0, 1.0, 0.0, 1e-300, 0.0) == 0.0


# --- records ----------------------------------------------------------------------------------------------------------


def test_every_bound_names_its_theorem_and_its_hypotheses() -> None:
    kernel, X, y, Z, noise = problem(1)
    arguments = kernel, X, y, Z
    bounds: list[Bound] = [elbo(*arguments, a, noise=noise) for a in (-np.inf, -1.0, 0.0, 0.5, 1.0)]
    bounds += [
        *gap(*arguments, 0.5, noise=noise),
        *gap(*arguments, 1.0, noise=noise, form="printed"),
        gap_from_trace(*arguments, 0.5, noise=noise),
    ]
    bounds += expected_gap_bounds(kernel, X, Z, 0.5, noise=noise)
    bounds += [
        oracle_risk_bound(-3.0, -4.0, 10, 0.5, delta=0.1),
        pac_risk_bound(-3.0, [-4.0, -5.0], 10, 0.5, delta=0.1),
    ]
    for bound in bounds:
        assert [claims.find(claim).id for claim in bound.claim.split(", ")] == bound.claim.split(", ")
        assert bound.assumptions
        assert np.isfinite(float(bound))
        assert bound.claim in str(bound)
    q = inducing_posterior(*arguments, 0.5, noise=noise)
    bounds_of_q = [renyi_bound(*arguments, *q, 0.5, noise=noise), jensen_bound(*arguments, *q, 0.5, noise=noise)]
    for bound in [*bounds_of_q, variational_bound(*arguments, *q, noise=noise)]:
        assert (bound.claim, bound.side, bound.quantity) == ("R-order", "lower", "log p(y)")
        assert claims.find(bound.claim).id == bound.claim
    beyond_one = renyi_bound(*arguments, *q, 1.0 + 0.5 * noise / nystrom(kernel, X, Z).largest, noise=noise)
    assert (beyond_one.claim, beyond_one.side) == ("N-range", "lower")
    assert float(beyond_one) <= float(bounds_of_q[1]) <= float(bounds_of_q[0]) == sum(bounds_of_q[0].terms.values())
    beyond = elbo(*arguments, 1.0 + 0.5 * noise / nystrom(kernel, X, Z).largest, noise=noise)
    assert (beyond.claim, beyond.side) == ("N-range", "lower")


def test_inducing_points_that_are_close_together_leave_a_residual_without_negative_eigenvalues() -> None:
    """K − Q is −1e-12 somewhere by rounding: that is below 1e-10 of K, and counts as 0, not as an error."""
    X, Z = np.linspace(0.0, 1.0, 60)[:, None], 0.07 * np.arange(6)[:, None]
    record = nystrom(SquaredExponential(), X, Z, jitter=0.0)
    assert np.linalg.eigvalsh(record.residual)[0] < -(60 + 6) * np.finfo(float).eps * np.abs(record.K).sum(axis=1).max()
    assert record.eigenvalues.min() == 0.0


def test_room_is_light_to_import() -> None:
    code = "import sys, gpbounds.renyi, gpbounds.divergences; print([m for m in sys.modules if m.startswith('scipy.')])"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"


# --- risk -------------------------------------------------------------------------------------------------------------


def test_best_posterior_weights_are_least() -> None:
    rng = np.random.default_rng(0)
    fits, prior = rng.normal(-20, 5, 6), rng.dirichlet(np.ones(6))
    best = float(pac_risk_bound(-18.0, fits, 30, 0.6, delta=0.05, prior=prior))
    for _ in range(50):
        other = rng.dirichlet(np.ones(6))
        assert best <= float(pac_risk_bound(-18.0, fits, 30, 0.6, delta=0.05, prior=prior, posterior=other)) + 1e-12
    single = pac_risk_bound(-18.0, fits[:1], 30, 0.6, delta=0.05)
    assert float(single) == pytest.approx(float(oracle_risk_bound(-18.0, fits[0], 30, 0.6, delta=0.05)))
    assert np.asarray(oracle_risk_bound(-18.0, fits, 30, 0.6, delta=[[0.05], [0.1]])).shape == (2, 6)
    skewed = pac_risk_bound(-18.0, [-20.0, -19.0], 30, 0.6, delta=0.05, prior=[1.0, 0.0])
    assert float(skewed) == pytest.approx(float(oracle_risk_bound(-18.0, -20.0, 30, 0.6, delta=0.05)))


# --- bad input --------------------------------------------------------------------------------------------------------

K, X3, Y3, Z2 = SquaredExponential(), np.array([[0.0], [1.0], [2.0]]), np.array([1.0, 0.0, -1.0]), [[0.0], [2.0]]


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda: elbo(K, X3, Y3[:2], Z2, 0.5, noise=0.1), r"y: expected .* shape \(3,\).*got shape \(2,\)"),
        (lambda: elbo(K, X3, Y3[:, None], Z2, 0.5, noise=0.1), r"y: expected .* got shape \(3, 1\)"),
        (lambda: elbo(K, X3, [1.0, np.nan, 0.0], Z2, 0.5, noise=0.1), r"y: .* got nan at index \(1,\)"),
        (lambda: elbo(K, X3, Y3, np.zeros((2, 2)), 0.5, noise=0.1), r"Z: expected 1 column"),
        (lambda: elbo(K, X3, Y3, Z2, 0.5, noise=0.0), "noise: expected a positive finite number, got 0.0"),
        (lambda: elbo(K, X3, Y3, Z2, 0.5, noise=[0.1, 0.2]), "noise: expected one number"),
        (lambda: elbo(K, X3, Y3, Z2, 5.0, noise=0.1), r"alpha: expected a number < 1 \+ noise/λ_max\(K - Q\) = 1\.28"),
        (lambda: elbo(K, X3, Y3, Z2, np.nan, noise=0.1), "alpha: expected a finite number, got nan"),
        (lambda: elbo(K, X3, Y3, Z2, np.inf, noise=0.1), "alpha: expected a finite number, got inf"),
        (lambda: elbo(K, X3, Y3, Z2, [0.5], noise=0.1), "alpha: expected one number"),
        (lambda: elbo(K, X3, Y3, Z2, "half", noise=0.1), "alpha: expected finite numbers, got 'half'"),
        (lambda: gap(K, X3, Y3, Z2, 0.0, noise=0.1), r"alpha: expected a number in \(0, 1\]"),
        (lambda: gap(K, X3, Y3, Z2, 1.5, noise=0.1), r"alpha: expected a number in \(0, 1\]"),
        (
            lambda: gap(K, X3, Y3, Z2, 0.5, noise=0.1, form="tight"),
            "form: expected one of 'sharpest', 'printed', got 'tight'",
        ),
        (lambda: exact_gap(K, X3, Y3, Z2, 0.5, noise=0.1, jitter=-1.0), "jitter: expected a finite number >= 0"),
        (lambda: minimum_gap([1.0, -0.5], 1, 0.5, noise=0.1), r"eigenvalues: .* >= 0, .*, got -0.5"),
        (lambda: minimum_gap([1.0], 1.5, 0.5, noise=0.1), "M: expected a whole number"),
        (lambda: minimum_gap([[1.0]], 1, 0.5, noise=0.1), r"eigenvalues: expected shape \(N,\), got \(1, 1\)"),
        (lambda: minimum_gap([1.0], 1, 0.5, noise=0.1, y="mine"), "y: expected one of 'any', 'prior'"),
        (lambda: direction_factor(1.0), r"alpha: expected a number in \(0, 1\), got 1.0"),
        (
            lambda: renyi_bound(K, X3, Y3, Z2, [0.0], np.eye(2), 0.5, noise=0.1),
            r"mean: expected shape \(2,\), .* \(1,\)",
        ),
        (lambda: renyi_bound(K, X3, Y3, Z2, [0.0, 0.0], np.eye(2), 5.0, noise=0.1), "alpha: expected a number < 1"),
        (
            lambda: jensen_bound(K, X3, Y3, Z2, [0.0, 0.0], np.eye(3), 0.5, noise=0.1),
            r"covariance: expected shape \(2, 2",
        ),
        (
            lambda: jensen_bound(K, X3, Y3, Z2, [0.0, 0.0], np.eye(2), -0.5, noise=0.1),
            r"alpha: .* in \[0, 1\], got -0.5",
        ),
        (lambda: variational_bound(K, X3, Y3[:, None], Z2, [0.0, 0.0], np.eye(2), noise=0.1), r"y: .* got \(3, 1\)"),
        (lambda: predict(K, X3, Y3, Z2, np.zeros((2, 3)), 0.5, noise=0.1), "X_new: expected 1 column"),
        (lambda: pac_risk_bound(-1.0, [-1.0, -2.0], 5, 0.5, delta=0.1, prior=[0.5, 0.6]), "prior: .* sum 1.1"),
        (
            lambda: pac_risk_bound(-1.0, [-1.0, -2.0], 5, 0.5, delta=0.1, prior=[1, 0], posterior=[0, 1]),
            "posterior: .* weight 0",
        ),
        (lambda: oracle_risk_bound(-1.0, -2.0, 5, 1.0, delta=0.1), r"alpha: expected a number in \(0, 1\)"),
        (lambda: gaussian_kl([0.0], [[1.0]], [0.0, 0.0], np.eye(2)), "equal lengths, got 1 and 2"),
        (
            lambda: gaussian_kl([0.0, 0.0], [[1.0, 0.5], [0.0, 1.0]], [0.0, 0.0], np.eye(2)),
            "cov1: expected a symmetric",
        ),
        (lambda: gaussian_kl([0.0], np.eye(2), [0.0], [[1.0]]), r"mean1, cov1: expected shapes"),
    ],
)
def test_wrong_arguments_are_named(call, match: str) -> None:
    with pytest.raises(ValueError, match=match):
        call()


def test_unsuitable_matrices_are_refused() -> None:
    with pytest.raises(NotPositiveDefinite, match=r"Kuu.*duplicated"):
        elbo(K, X3, Y3, [[0.0], [0.0]], 0.5, noise=0.1, jitter=0.0)
    with pytest.raises(NotPositiveDefinite, match="covariance"):
        variational_bound(K, X3, Y3, Z2, [0.0, 0.0], [[1.0, 2.0], [2.0, 1.0]], noise=0.1)
    with pytest.raises(NotPositiveDefinite, match="Kuu"):
        nystrom(SquaredExponential(lengthscale=50.0), X3, np.linspace(0, 1, 30), jitter=0.0)
    with pytest.raises(NonFinite, match=r"X: .* row\(s\) \[1\]"):
        elbo(K, [0.0, np.nan], [0.0, 0.0], [0.0], 0.5, noise=0.1)
    with pytest.raises(NotPositiveDefinite, match="cov2"):
        gaussian_kl([0.0, 0.0], np.eye(2), [0.0, 0.0], np.ones((2, 2)))
