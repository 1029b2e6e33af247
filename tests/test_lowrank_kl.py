"""What the KL divergence of a low-rank GP, and the bounds on it, promise their users."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpbounds import Matern, SquaredExponential
from gpbounds.divergences import gaussian_kl
from gpbounds.errors import NonFinite, NotPositiveDefinite
from gpbounds.linalg import eigen
from gpbounds.lowrank import (
    kappa,
    kappa_inverse,
    kl,
    kl_by_rank,
    kl_features,
    kl_from_excess,
    kl_from_ratio,
    kl_from_residual,
    kl_from_traces,
    least_gamma,
    optimal_kl,
    optimal_rank,
    spectral_kl,
)

SEEDS = st.integers(0, 2**32 - 1)


def problem(seed: int, N: int = 30) -> tuple[np.ndarray, np.ndarray, float]:
    """A kernel matrix, with a point twice in one case of three; features of its space and some of their own; noise."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (N, 2))
    if seed % 3 == 0:
        X[-1] = X[0]
    kernel = rng.choice([SquaredExponential(2.0, 0.5), Matern(1.5, 0.7, 0.8)])
    values, vectors = np.linalg.eigh(kernel(X))
    r = int(rng.integers(1, 2 * N))
    kept = min(r, N)
    features = vectors[:, -kept:] * np.sqrt(np.maximum(values[-kept:], 0))
    features = np.hstack([features, np.zeros((N, r - kept))]) + 0.03 * rng.standard_normal((N, r))
    return kernel(X), features, float(10.0 ** rng.uniform(-3, 1))


# --- values -----------------------------------------------------------------------------------------------------------


@given(seed=SEEDS)
def test_one_value_by_four_ways(seed):
    K, features, noise = problem(seed)
    Sigma, eye, zero = features @ features.T, np.eye(len(K)), np.zeros(len(K))
    value = kl(K, Sigma, noise=noise)
    assert value == pytest.approx(gaussian_kl(zero, K + noise * eye, zero, Sigma + noise * eye), rel=1e-9)
    assert value == pytest.approx(kl_features(K, features, noise=noise), rel=1e-9)
    assert value == pytest.approx(
        float(kl_by_rank(K, features, features.shape[1], noise=noise)), rel=1e-7, abs=1e-9 / noise
    )
    values = np.linalg.eigvals(np.linalg.solve(Sigma + noise * eye, K + noise * eye)).real
    assert value == pytest.approx(0.5 * (values - 1 - np.log(values)).sum(), rel=1e-6, abs=1e-9 / noise)


@given(seed=SEEDS)
def test_units_and_order_of_the_data_do_not_matter(seed):
    K, features, noise = problem(seed)
    value, best = kl_features(K, features, noise=noise), optimal_kl(K, noise=noise).value
    order = np.random.default_rng(seed).permutation(len(K))
    assert kl_features(K[np.ix_(order, order)], features[order], noise=noise) == pytest.approx(value, rel=1e-9)
    for c in (1e-120, 1e60):
        scaled = kl_features(c * c * K, c * features, noise=c * c * noise)
        assert scaled == pytest.approx(value, rel=1e-9)
        assert optimal_kl(c * c * K, noise=c * c * noise).value == pytest.approx(best, rel=1e-6, abs=1e-12)


@given(seed=SEEDS)
def test_rotating_the_features_changes_nothing(seed):
    K, features, noise = problem(seed)
    turn = np.linalg.qr(np.random.default_rng(seed).standard_normal((features.shape[1],) * 2))[0]
    assert kl_features(K, features @ turn, noise=noise) == pytest.approx(
        kl_features(K, features, noise=noise), rel=1e-7
    )


@pytest.mark.parametrize("r", [1, 3, 10, 11, 40, 50])
def test_thin_and_wide_features_agree_with_the_product(r):
    """Both sides of r = N/4, where ΞΞᵀ is multiplied out, and of r = N."""
    K, _, noise = problem(1, 40)
    features = np.random.default_rng(r).standard_normal((40, r))
    assert kl_features(K, features, noise=noise) == pytest.approx(kl(K, features @ features.T, noise=noise), rel=1e-10)


def test_equal_laws_are_at_distance_zero():
    for N in (1, 2, 40):
        K = SquaredExponential(3.0, 5.0)(np.linspace(0, 1, N))
        assert kl(K, K.copy(), noise=1e-14) == 0.0
        assert kl(np.zeros((N, N)), np.zeros((N, N)), noise=1.0) == 0.0
    v = np.arange(1.0, 41.0)[:, None]
    assert kl_features(v @ v.T / 1e4, v / 100, noise=1e-3) < 1e-20


@pytest.mark.parametrize("size", [1e-15, 1e-9, 1e-3])
def test_small_differences_keep_their_digits(size):
    """Σ = (1 − s)K, rounded: KL = ½Σ(e_i − log(1 + e_i)), e_i of Σ₂^{-½}(K − Σ)Σ₂^{-½}; ¼Σe_i² for small s.

    K − Σ is exact in doubles, and for s = 1e-15 as much rounding as s.
    """
    K, noise = Matern(0.5, 1.0, 0.3)(np.linspace(0, 1, 60)), 0.5
    near = K - size * K
    L = np.linalg.cholesky(near + noise * np.eye(60))
    E = np.linalg.solve(L, np.linalg.solve(L, K - near).T)
    values = np.linalg.eigvalsh(0.5 * (E + E.T))
    wanted = 0.5 * (values - np.log1p(values)).sum() if size > 1e-4 else 0.25 * (values**2).sum()
    assert kl(K, near, noise=noise) == pytest.approx(wanted, rel=1e-9 + (size if size < 1e-4 else 0.0))


@pytest.mark.parametrize("scale", [1e3, 1e6, 1e11])
@pytest.mark.parametrize("N", [1, 5, 50])
def test_directions_that_the_exact_law_lacks(N, scale):
    """K = 0: KL = ½[log(1 + s/σ²) − s/(s + σ²)]; Σ₂⁻¹Σ₁ is as good as singular."""
    v = np.random.default_rng(N).standard_normal((N, 1))
    s = float(scale**2 * (v**2).sum())
    wanted = 0.5 * (np.log1p(s) - s / (1 + s))
    assert kl_features(np.zeros((N, N)), scale * v, noise=1.0) == pytest.approx(wanted, rel=1e-12)
    if N == 1:
        assert kl([[0.0]], [[s]], noise=1.0) == pytest.approx(wanted, rel=1e-12)


def test_inputs_are_left_as_they_are_and_may_be_of_any_kind():
    K, features, noise = problem(5)
    kept = K.copy(), features.copy()
    before = kl(K, features @ features.T, noise=noise), kl_features(K, features, noise=noise)
    kl_by_rank(K, features, [1], noise=noise)
    optimal_kl(K, noise=noise)
    least_gamma(K, features @ features.T, noise=noise)
    assert (kept[0] == K).all()
    assert (kept[1] == features).all()
    K.flags.writeable = features.flags.writeable = False
    assert kl_features(np.asfortranarray(K), np.asfortranarray(features), noise=noise) == pytest.approx(
        before[1], rel=1e-12
    )
    assert kl(K[::-1, ::-1], (features @ features.T)[::-1, ::-1], noise=noise) == pytest.approx(before[0], rel=1e-9)
    assert kl([[2, 1], [1, 2]], [[1, 0], [0, 1]], noise=1) == pytest.approx(kl(np.eye(2) + 1.0, np.eye(2), noise=1.0))
    assert kl(K.astype(np.float32), K, noise=noise) < 1e-6


def test_memory_is_a_few_matrices():
    N = 600
    K = Matern(0.5, 1.0, 0.3)(np.linspace(0, 1, N))
    kl(K[:20, :20], 0.5 * K[:20, :20], noise=0.1)
    tracemalloc.start()
    kl(K, 0.5 * K, noise=0.1)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8 * N * N * 8


# --- ranks ------------------------------------------------------------------------------------------------------------


@given(seed=SEEDS)
def test_no_features_beat_the_optimum(seed):
    K, features, noise = problem(seed)
    best = np.asarray(optimal_kl(K, noise=noise))
    assert best.shape == (31,)
    assert (np.diff(best) <= 0).all()
    assert best[-1] == 0.0
    assert best[0] == pytest.approx(kl(K, 0 * K, noise=noise), rel=1e-9)
    ranks = np.arange(1, min(features.shape[1], 30) + 1)
    reached = kl_by_rank(K, features, ranks, noise=noise)
    assert (reached >= best[ranks] * (1 - 1e-8) - 1e-9 / noise).all()
    for target in (1e-3, 1.0, 1e9):
        r = optimal_rank(K, target, noise=noise)
        assert best[r] <= target
        assert r == 0 or best[r - 1] > target


def test_truncation_attains_the_optimum_and_meets_its_bounds():
    K, _, noise = problem(4)
    spectrum = eigen(K, vectors=True)
    best = optimal_kl(spectrum.values, noise=noise).value
    factor = spectrum.vectors * np.sqrt(spectrum.values)
    everything = kl_by_rank(K, factor, np.arange(1, 31), noise=noise)
    for r in range(1, 20):
        value = kl_features(K, factor[:, :r], noise=noise)
        assert value == pytest.approx(best[r], rel=1e-6)
        assert everything[r - 1] == pytest.approx(best[r], rel=1e-6, abs=1e-9)
        residual = spectrum.values[r:].sum()
        assert value <= float(kl_from_residual(residual, noise=noise)) * (1 + 1e-9)
        assert float(kl_from_residual(residual, noise=noise)) <= float(
            kl_from_residual(residual, noise=noise, form="printed")
        )


def test_scales_are_those_of_averaged_features():
    K, features, noise = problem(2)
    ranks = np.arange(2, features.shape[1] + 1, 2)
    scaled = kl_by_rank(K, features, ranks, noise=noise, scales=2.0 / ranks)
    wanted = [kl_features(K, features[:, :r] * np.sqrt(2.0 / r), noise=noise) for r in ranks]
    assert scaled == pytest.approx(wanted, rel=1e-7, abs=1e-8)
    assert kl_by_rank(K, features, [[1], [1]], noise=noise).shape == (2, 1)
    assert kl_by_rank(K, features, [], noise=noise).shape == (0,)


# --- bounds -----------------------------------------------------------------------------------------------------------


@given(seed=SEEDS)
def test_bounds_hold_of_what_they_bound(seed):
    K, features, noise = problem(seed)
    Sigma, eye, N = features @ features.T, np.eye(len(K)), len(K)
    truth, gamma = kl(K, Sigma, noise=noise), least_gamma(K, Sigma, noise=noise)
    size = 1 + 1e-8
    excess = np.trace(np.linalg.solve(Sigma + noise * eye, K + noise * eye)) - N
    traces = (np.trace(K), np.trace(Sigma), N, gamma * size)
    for rule in ("sharpest", "corrected"):
        assert truth <= float(kl_from_excess(excess, N, gamma * size, rule=rule)) * size + 1e-9 / noise
        assert truth <= float(kl_from_traces(*traces, noise=noise, rule=rule)) * size
    assert float(kl_from_excess(excess, N, gamma)) <= float(kl_from_traces(*traces, noise=noise)) * size + 1e-9 / noise
    both = max(gamma, least_gamma(Sigma, K, noise=noise))
    assert truth <= float(kl_from_ratio(both, N)) * size
    assert float(kl_from_ratio(both, N)) <= float(kl_from_ratio(both, N, form="printed"))


@given(seed=SEEDS, delta=st.floats(1e-8, 0.99))
def test_spectral_bound_holds_of_matrices(seed, delta):
    K, _, noise = problem(seed, 12)
    rng = np.random.default_rng(seed)
    root = np.linalg.cholesky(K + noise * np.eye(12))
    turn = np.linalg.qr(rng.standard_normal((12, 12)))[0]
    change = turn * (delta * rng.uniform(-1, 1, 12)) @ turn.T
    Sigma = K + root @ change @ root.T
    bound = float(spectral_kl(delta, 12))
    assert kl(K, 0.5 * (Sigma + Sigma.T), noise=noise) <= bound * (1 + 1e-9) + 1e-18
    assert kl(K, K - delta * (K + noise * np.eye(12)), noise=noise) == pytest.approx(bound, rel=1e-6, abs=1e-12 * delta)
    if delta <= 0.5:
        assert bound <= float(spectral_kl(delta, 12, form="printed"))


@given(eps=st.floats(1e-300, 1e12))
def test_kappa_and_its_inverse_undo_each_other(eps):
    delta = kappa_inverse(eps)
    assert 0 < delta < 1
    # a relative error u of Δ is one of 2u/(1 − Δ) of κ
    assert kappa(delta) == pytest.approx(eps, rel=1e-15 / (1 - delta) + 4e-15)


def test_limits_of_the_bounds():
    assert kappa_inverse(0.0) == kappa(0.0) == 0.0
    assert kappa_inverse([0.0, 1e-320, 1e300]).max() == np.nextafter(1.0, 0.0)
    assert np.isfinite(kappa(kappa_inverse(1e300)))
    assert (
        float(kl_from_excess(0.0, 1, 0.0))
        == float(kl_from_residual(0.0, noise=1.0))
        == float(kl_from_ratio(0.0, 9))
        == 0.0
    )
    assert float(kl_from_traces(5.0, 5.0, 3, 0.0, noise=0.1)) == 0.0
    assert float(kl_from_traces(7.0, 5.0, 3, 0.0, noise=0.1)) == pytest.approx(
        float(kl_from_residual(2.0, noise=0.1)), rel=1e-14
    )
    assert np.isfinite(float(kl_from_ratio(1e300, 2)))
    assert float(kl_from_excess(-1e-15, 1, 0.0)) >= 0.0  # rounding of a trace, not a contradiction
    assert float(kl_from_residual(1e-150, noise=1.0)) == pytest.approx(0.25e-300)


def test_bounds_broadcast_and_say_what_they_are():
    bound = kl_from_traces([[3.0], [4.0]], 1.0, 10, 0.5, noise=[0.1, 0.2, 0.3])
    assert np.shape(bound.value) == (2, 3)
    assert (bound.side, bound.confidence, bound.claim) == ("upper", 1.0, "L-08")
    assert sum(bound.terms.values()) == pytest.approx(bound.value)
    assert np.shape(spectral_kl([0.1, 0.2], [[10], [20]]).value) == (2, 2)
    assert optimal_kl([1.0, 2.0], noise=1.0).side == "lower"
    for printed in (
        kl_from_excess(0.0, 1, 1.0, rule="printed"),
        kl_from_traces(2.0, 2.0, 1, 1.0, noise=1.0, rule="printed"),
    ):
        assert float(printed) < 0.0
        assert any("FALSE" in sentence for sentence in printed.assumptions)


# --- bad input --------------------------------------------------------------------------------------------------------

K2 = np.eye(2)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: kl(K2, K2, noise=0.0), "noise: expected a positive finite number, got 0.0"),
        (lambda: kl(K2, K2, noise=np.nan), "noise: expected a positive"),
        (lambda: kl(K2, K2, noise=[1.0, 2.0]), "noise: expected one number"),
        (lambda: kl(K2, np.eye(3), noise=1.0), r"K, Sigma: expected equal shapes, got \(2, 2\) and \(3, 3\)"),
        (lambda: kl(np.ones((2, 3)), K2, noise=1.0), r"K: expected a square matrix \(N, N\), got shape \(2, 3\)"),
        (lambda: kl([1.0, 2.0], K2, noise=1.0), r"K: expected a square matrix \(N, N\), got shape \(2,\)"),
        (lambda: kl([[1.0], [2.0, 3.0]], K2, noise=1.0), "K: expected rows of equal length"),
        (lambda: kl([["a"]], K2, noise=1.0), "K: expected real numbers"),
        (lambda: kl([[1j]], K2, noise=1.0), "K: expected real numbers"),
        (lambda: kl(K2, [[1.0, 0.5], [0.0, 1.0]], noise=1.0), "Sigma: expected a symmetric matrix"),
        (lambda: kl(np.zeros((0, 0)), K2, noise=1.0), r"K: expected a square matrix \(N, N\), got shape \(0, 0\)"),
        (lambda: kl_features(K2, np.ones((3, 1)), noise=1.0), "features: expected 2 rows, as K has"),
        (lambda: kl_features(K2, np.ones(2), noise=1.0), r"features: expected shape \(N, r\)"),
        (lambda: kl_features(K2, np.ones((2, 0)), noise=1.0), r"features: expected shape \(N, r\) with r >= 1"),
        (lambda: kl_by_rank(K2, K2, [0, 1], noise=1.0), "ranks: expected a whole number >= 1"),
        (lambda: kl_by_rank(K2, K2, 3, noise=1.0), "ranks: expected at most 2, the number of features, got 3"),
        (lambda: kl_by_rank(K2, K2, 1, noise=1.0, scales=0.0), "scales: expected a positive"),
        (lambda: optimal_kl([1.0, -1.0], noise=1.0), "eigenvalues: expected numbers >= 0"),
        (lambda: optimal_kl(np.ones((2, 2, 2)), noise=1.0), "eigenvalues: expected shape"),
        (lambda: optimal_rank([1.0], 0.0, noise=1.0), "target: expected a positive"),
        (lambda: optimal_rank([1.0], [1.0, 2.0], noise=1.0), "target: expected one number"),
        (lambda: kappa(1.0), r"Delta: expected numbers in \[0, 1\), got 1.0"),
        (lambda: kappa(-0.1), "Delta: expected a finite number >= 0"),
        (lambda: kappa_inverse(-1e-9), "divergence: expected a finite number >= 0"),
        (lambda: kappa_inverse(np.nan), "divergence: expected"),
        (lambda: spectral_kl(0.6, 10, form="printed"), "Delta: expected at most 1/2 for the printed form, got 0.6"),
        (lambda: spectral_kl(0.6, 10, form="best"), "form: expected one of 'sharpest', 'printed'"),
        (lambda: spectral_kl(0.6, 0), "N: expected a whole number >= 1"),
        (lambda: kl_from_excess(-5.0, 2, 0.5), "excess: expected at least"),
        (lambda: kl_from_excess(0.0, 2, -0.5), "gamma: expected a finite number >= 0"),
        (lambda: kl_from_ratio(np.inf, 2), "gamma: expected"),
        (lambda: kl_from_traces(0.0, 9.0, 2, 0.1, noise=1.0), "trace1, trace2: expected"),
        (lambda: kl_from_residual(-1.0, noise=1.0), "residual: expected a finite number >= 0"),
        (lambda: kl_from_residual(1.0, noise=1.0, least=-1.0), "least: expected a finite number >= 0"),
        (lambda: least_gamma(K2, np.eye(3), noise=1.0), "K, Sigma: expected equal shapes"),
    ],
)
def test_errors_say_what_was_expected_and_what_came(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_matrices_without_a_law_are_refused():
    bad = np.array([[1.0, np.nan], [np.nan, 1.0]])
    for call in (
        lambda: kl(bad, K2, noise=1.0),
        lambda: kl(K2, bad, noise=1.0),
        lambda: kl_features(K2, bad, noise=1.0),
    ):
        with pytest.raises(
            NonFinite, match=r"(K|Sigma|features): expected finite numbers, got NaN or infinity in row\(s\) \[0, 1\]"
        ):
            call()
    with pytest.raises(NotPositiveDefinite, match=r"Sigma \+ noise I"):
        kl(K2, -2 * K2, noise=1.0)
    with pytest.raises(NotPositiveDefinite, match=r"K \+ noise I"):
        kl(-2 * K2, K2, noise=1.0)
    with pytest.raises(NotPositiveDefinite, match=r"K \+ noise I"):
        kl_features(np.diag([-2.0] + [1.0] * 7), np.ones((8, 1)), noise=1.0)
    with pytest.raises(NotPositiveDefinite, match="eigenvalues: expected a positive semi-definite"):
        optimal_kl(-K2, noise=1.0)


@pytest.mark.parametrize("N", [2, 5, 30])
@pytest.mark.parametrize("scale", [1e9, 1e11, 1e145])
def test_noise_that_rounding_swallows_is_refused(N, scale):
    """σ² = 1 beside entries of 1e18 and more: no value is better than one without a true digit."""
    v = scale * np.random.default_rng(N).standard_normal((N, 1))
    Sigma, zero = v @ v.T, np.zeros((N, N))
    for call in (
        lambda: kl(zero, Sigma, noise=1.0),
        lambda: kl_features(zero, np.repeat(v, N + 1, axis=1), noise=1.0),
        lambda: kl_by_rank(Sigma, v, 1, noise=1.0),
        lambda: least_gamma(Sigma, zero, noise=1.0),
    ):
        with pytest.raises(NotPositiveDefinite, match="noise"):
            call()
    assert kl(np.diag([1e20, 1.0]), np.diag([2e20, 1.0]), noise=1.0) == pytest.approx(0.5 * (0.5 - 1 + np.log(2.0)))
