"""What a low-rank GP changes for a given y: log evidence, predictions at the rows; its KL through a basis."""

from __future__ import annotations

from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mpmath import diag, eigsy, exp, eye, log, mp, mpf, sqrt
from observer import Observer

from gpbounds.errors import NonFinite
from gpbounds.kernels import SquaredExponential
from gpbounds.kernels.errors import entry_bound
from gpbounds.lowrank import (
    FourierFeatures,
    HilbertFeatures,
    ThroughBasis,
    ThroughBasisGiven,
    evidence_gap,
    kl_features,
    predictive_kl,
)
from gpbounds.lowrank.given_y import blocked
from gpbounds.reference import linalg
from gpbounds.reference import lowrank as reference
from gpbounds.reference.linalg import trace
from gpbounds.reference.renyi import matrix
from gpbounds.renyi.accuracy import gamma

SEEDS = st.integers(0, 2**32 - 1)
TINY = mpf("1e-30")
PAIR = pytest.mark.parametrize(
    ("claim", "fast", "slow"),
    [
        ("N-evgap", evidence_gap, reference.evidence_gap),
        ("N-predkl", predictive_kl, reference.predictive_kl),
    ],
)


def case(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, float]:
    """Entries of K that are sums of few squares of whole numbers, hence exact; features near K, far, of any rank; y."""
    rng = np.random.default_rng(seed)
    N, r, P = int(rng.integers(1, 7)), int(rng.integers(1, 9)), int(rng.integers(1, 3))
    root = rng.integers(-8, 9, (N, int(rng.integers(1, N + 1)))) * 2.0 ** float(rng.integers(-4, 4))
    features = rng.standard_normal((N, r)) * 10.0 ** rng.uniform(-3, 1)
    if rng.random() < 0.5:
        features = np.hstack([root, 10.0 ** rng.uniform(-9, -1) * features])
    y = rng.standard_normal((N, P)) * 10.0 ** rng.uniform(-2, 2)
    return root @ root.T, features, y, float(10.0 ** rng.uniform(-3, 1))


def exactly(K: np.ndarray, features: np.ndarray, y: np.ndarray, noise: float) -> tuple[Any, Any, Any, Any]:
    """The same numbers for the references."""
    Xi = matrix(features)
    return matrix(K), Xi * Xi.T, matrix(y), mpf(noise)


@PAIR
@pytest.mark.claim("N-evgap", "N-predkl")
@given(seed=SEEDS)
def test_ends_contain_the_truth(observe: Observer, claim: str, fast: Any, slow: Any, seed: int) -> None:
    """Without tolerance, and the interval is not wider than 1e5 roundings of its largest terms."""
    K, features, y, noise = case(seed)
    truth = slow(*exactly(K, features, y, noise))
    pair = fast(K, features, y, noise=noise)
    observe.upper(claim, truth, mpf(float(pair.upper)))
    observe.lower(claim, truth, mpf(float(pair.lower)))
    assert pair.upper.certified
    assert pair.lower.certified
    size = (np.trace(K) + (features**2).sum()) / noise + 1.0
    observe.holds(claim, pair.width <= 1e-11 * (size**2 + size * (y * y).sum() / noise + abs(float(truth))))


@PAIR
@pytest.mark.claim("N-evgap", "N-predkl")
@given(seed=SEEDS)
def test_errors_of_entries_are_included(observe: Observer, claim: str, fast: Any, slow: Any, seed: int) -> None:
    """K moves by up to entry_error in each entry and stays positive: the ends contain the new value."""
    rng = np.random.default_rng(seed)
    K, features, y, noise = case(seed)
    push = 10.0 ** rng.uniform(-12, -5)
    direction = rng.choice([-1.0, 1.0], len(K))
    pair = fast(K, features, y, noise=noise, entry_error=push)
    moved = matrix(K) + mpf(push) * matrix(direction) * matrix(direction).T
    _, Sigma, Y, s2 = exactly(K, features, y, noise)
    truth = slow(moved, Sigma, Y, s2)
    observe.upper(claim, truth, mpf(float(pair.upper)))
    observe.lower(claim, truth, mpf(float(pair.lower)))


@PAIR
@pytest.mark.claim("N-evgap", "N-predkl")
@pytest.mark.parametrize("unit", [2.0**-30, 2.0**30])
def test_allowances_do_not_depend_on_the_unit(observe: Observer, claim: str, fast: Any, slow: Any, unit: float) -> None:
    """K, Σ and σ² times the square of a power of two, and y times this power: the interval is as wide as before."""
    K, features, y, noise = case(4)  # allowances in ΞΞᵀ outweigh those in logarithms of numbers with a unit
    pair = fast(K, features, y, noise=noise)
    other = fast(unit**2 * K, unit * features, unit * y, noise=unit**2 * noise)
    observe.holds(claim, other.lower <= pair.upper)
    observe.holds(claim, pair.lower <= other.upper)
    observe.holds(claim, 0.9 * pair.width < other.width < 1.1 * pair.width)


@pytest.mark.claim("N-evgap")
@given(seed=SEEDS)
def test_mean_variance_and_tail_of_the_gap(observe: Observer, seed: int) -> None:
    """E G = KL and Var G = ½‖M‖_F² through the quadratic form's coefficients; ends for every y from the order."""
    K, features, y, noise = case(seed)
    K, Sigma, Y, s2 = exactly(K, features, y[:, :1], noise)
    A, near = reference.noisy(K, s2), reference.noisy(Sigma, s2)
    values, vectors = eigsy(A)
    root = vectors * diag([sqrt(v) for v in values]) * vectors.T
    M = root * linalg.inverse(near) * root - eye(K.rows)
    constant = reference.evidence_gap(K, Sigma, 0 * Y, s2)
    observe.equal("N-evgap", constant + trace(M) / 2, reference.kl(K, Sigma, s2), rtol=TINY, atol=TINY)
    form = 2 * (reference.evidence_gap(K, Sigma, root * Y, s2) - constant)
    observe.equal("N-evgap", (Y.T * M * Y)[0], form, rtol=mpf("1e-25"), atol=TINY)
    ratios = reference.ratios(A, near)  # of near⁻¹A: near lies between A/max and A/min
    Delta = max(abs(1 - 1 / ratios[0]), abs(1 - 1 / ratios[-1]))
    if Delta < 1:
        gap, q, N = reference.evidence_gap(K, Sigma, Y, s2), (Y.T * linalg.inverse(A) * Y)[0], K.rows
        observe.upper("N-evgap", gap, (N * log(1 + Delta) + q * Delta / (1 - Delta)) / 2, tol=TINY)
        observe.lower("N-evgap", gap, (N * log(1 - Delta) - q * Delta / (1 + Delta)) / 2, tol=TINY)


@pytest.mark.claim("N-evgap")
def test_the_gap_is_rarely_far_below_zero(observe: Observer) -> None:
    """P(G ≤ −log(1/δ)) ≤ δ for y from the exact GP; the case is one where it happens."""
    rng, delta = np.random.default_rng(0), 0.2
    K, features = np.eye(3) * 2.0, np.diag([1.0, 2.0, 0.5])
    y = rng.standard_normal((1000, 3)) * np.sqrt(2.1)
    below = [float(evidence_gap(K, features, row, noise=0.1).upper) <= np.log(delta) for row in y]
    observe.frequency("N-evgap", int(np.sum(below)), len(below), delta)
    assert sum(below) > 0


@pytest.mark.claim("N-predkl")
@given(seed=SEEDS)
def test_the_mean_over_y_is_a_difference_of_divergences(observe: Observer, seed: int) -> None:
    """E D(y) = KL_{σ²/2} − KL_{σ²}: D at y = 0 and along A's eigenvectors gives the mean of the quadratic."""
    K, features, y, noise = case(seed)
    K, Sigma, _, s2 = exactly(K, features, y, noise)
    values, vectors = eigsy(reference.noisy(K, s2))
    at_zero = reference.predictive_kl(K, Sigma, mp.zeros(K.rows, 1), s2)
    mean = at_zero + sum(
        (reference.predictive_kl(K, Sigma, sqrt(v) * vectors[:, i], s2) - at_zero for i, v in enumerate(values)), mpf(0)
    )
    expected = reference.kl(K, Sigma, s2 / 2) - reference.kl(K, Sigma, s2)
    observe.equal("N-predkl", mean, expected, rtol=mpf("1e-25"), atol=TINY)


@pytest.mark.claim("N-predkl")
def test_a_larger_problem(observe: Observer) -> None:
    """200 rows and Fourier features: the mean over draws of y approaches KL_{σ²/2} − KL_{σ²}; widths stay small."""
    rng, noise, kernel = np.random.default_rng(1), 0.1, SquaredExponential(1.0, 0.3)
    X = rng.uniform(0.0, 3.0, (200, 1))
    K, features = kernel(X), FourierFeatures(kernel, 400, 0).fit(X)(X)
    Y = np.linalg.cholesky(K + noise * np.eye(200)) @ rng.standard_normal((200, 2000))
    entry = entry_bound(kernel, X, X)
    assert entry is not None
    pair = predictive_kl(K, features, Y, noise=noise, entry_error=entry)
    expected = kl_features(K, features, noise=noise / 2) - kl_features(K, features, noise=noise)
    observe.equal("N-predkl", float(pair.lower) / 2000, expected, rtol=0.05)
    assert pair.width < 1e-6 * float(pair.upper)


@pytest.mark.claim("N-basis")
@given(seed=SEEDS, p=st.integers(1, 5))
def test_ends_through_any_basis(observe: Observer, seed: int, p: int) -> None:
    """The ends of the claim contain the KL, for random bases and for one that contains K's range."""
    K, features, y, noise = case(seed)
    K, Sigma, _, s2 = exactly(K, features, y, noise)
    rng = np.random.default_rng(seed)
    U = matrix(rng.standard_normal((K.rows, min(p, K.rows))))
    low, high, dimension = reference.through_basis(K, Sigma, U, s2)
    truth = reference.kl(K, Sigma, s2)
    observe.lower("N-basis", truth, low, tol=TINY)
    observe.upper("N-basis", truth, high, tol=TINY)
    whole = trace(K * linalg.inverse(reference.noisy(K, s2)))
    observe.upper("N-basis", whole, dimension, tol=TINY)
    low, high, dimension = reference.through_basis(K, Sigma, matrix(rng.standard_normal((K.rows, K.rows))), s2)
    observe.equal("N-basis", [low, high], [truth, truth], rtol=mpf("1e-12"), atol=mpf("1e-12"))
    observe.equal("N-basis", dimension, whole, rtol=mpf("1e-20"), atol=mpf("1e-20"))


@pytest.mark.claim("N-basis")
@given(seed=SEEDS)
def test_computed_ends_through_a_basis(observe: Observer, seed: int) -> None:
    """`ThroughBasis` contains the KL of the kernel's entries in 30 digits, with short bases and with long ones."""
    rng = np.random.default_rng(seed)
    N, noise = int(rng.integers(2, 9)), float(10.0 ** rng.uniform(-3, 0))
    kernel, X = SquaredExponential(float(10.0 ** rng.uniform(-1, 1)), 1.0), rng.uniform(-1.0, 1.0, (N, 1))
    basis = np.polynomial.chebyshev.chebvander(X[:, 0], int(rng.integers(0, min(N, 5))))
    table = {tuple(x): row for x, row in zip(X, rng.standard_normal((N, int(rng.integers(1, 6)))), strict=True)}

    def features(rows: np.ndarray) -> np.ndarray:
        return np.array([table[tuple(x)] for x in rows])

    through = ThroughBasis(kernel, X, basis, noise=noise)
    pair = through.kl(features)
    entries = [[mpf(kernel.variance) * exp(-((mpf(a) - mpf(b)) ** 2) / 2) for b in X[:, 0]] for a in X[:, 0]]
    K, Xi = matrix(entries), matrix(features(X))
    truth = reference.kl(K, Xi * Xi.T, mpf(noise))
    observe.lower("N-basis", truth, mpf(float(pair.lower)))
    observe.upper("N-basis", truth, mpf(float(pair.upper)))
    whole = trace(K * linalg.inverse(reference.noisy(K, mpf(noise))))
    observe.upper("N-basis", whole, mpf(through.effective_dimension))
    assert pair.upper.certified


@pytest.mark.claim("N-basis")
def test_two_thousand_rows_through_twenty_five_polynomials(observe: Observer) -> None:
    """Several chunks of rows: the ends are close, and a dense computation in doubles lies between them."""
    kernel, noise = SquaredExponential(1.0, 0.5), 0.1
    X = np.random.default_rng(0).uniform(-1.0, 1.0, (1300, 1))
    features = FourierFeatures(kernel, 200, 0).fit(X)
    pair = ThroughBasis(kernel, X, np.polynomial.chebyshev.chebvander(X[:, 0], 35), noise=noise).kl(features)
    dense = kl_features(kernel(X), features(X), noise=noise)
    observe.holds("N-basis", pair.lower - 1e-9 <= dense <= pair.upper + 1e-9)
    assert pair.width < 1e-4 * dense


@pytest.mark.claim("N-basis-given")
@given(seed=SEEDS, p=st.integers(1, 5))
def test_ends_given_y_through_any_basis(observe: Observer, seed: int, p: int) -> None:
    """The ends of the claim contain the gap and the predictive KL, and are these through a basis of all vectors."""
    K, features, y, noise = case(seed)
    K, Sigma, Y, s2 = exactly(K, features, y, noise)
    rng = np.random.default_rng(seed)
    truths = reference.evidence_gap(K, Sigma, Y, s2), reference.predictive_kl(K, Sigma, Y, s2)
    U = matrix(rng.standard_normal((K.rows, min(p, K.rows))))
    for truth, (low, high) in zip(truths, reference.given_through_basis(K, Sigma, U, Y, s2), strict=True):
        observe.lower("N-basis-given", truth, low, tol=TINY)
        observe.upper("N-basis-given", truth, high, tol=TINY)
    whole = matrix(rng.standard_normal((K.rows, K.rows)))
    for truth, ends in zip(truths, reference.given_through_basis(K, Sigma, whole, Y, s2), strict=True):
        observe.equal("N-basis-given", list(ends), [truth, truth], rtol=mpf("1e-12"), atol=mpf("1e-12"))


@pytest.mark.claim("N-basis-given")
@given(seed=SEEDS)
def test_computed_ends_given_y_through_a_basis(observe: Observer, seed: int) -> None:
    """`ThroughBasisGiven` contains both numbers of the entries in 30 digits, with short bases and with long ones."""
    rng = np.random.default_rng(seed)
    N, noise, P = int(rng.integers(2, 9)), float(10.0 ** rng.uniform(-3, 0)), int(rng.integers(1, 3))
    kernel, X = SquaredExponential(float(10.0 ** rng.uniform(-1, 1)), 1.0), rng.uniform(-1.0, 1.0, (N, 1))
    y = rng.standard_normal((N, P)) * 10.0 ** rng.uniform(-2, 2)
    basis = np.polynomial.chebyshev.chebvander(X[:, 0], int(rng.integers(0, min(N, 5))))
    table = {tuple(x): row for x, row in zip(X, rng.standard_normal((N, int(rng.integers(1, 6)))), strict=True)}

    def features(rows: np.ndarray) -> np.ndarray:
        return np.array([table[tuple(x)] for x in rows])

    given_y = ThroughBasisGiven(ThroughBasis(kernel, X, basis, noise=noise), y)
    entries = [[mpf(kernel.variance) * exp(-((mpf(a) - mpf(b)) ** 2) / 2) for b in X[:, 0]] for a in X[:, 0]]
    Xi = matrix(features(X))
    arguments = matrix(entries), Xi * Xi.T, matrix(y), mpf(noise)
    for pair, truth in (
        (given_y.evidence_gap(features), reference.evidence_gap(*arguments)),
        (given_y.predictive_kl(features), reference.predictive_kl(*arguments)),
    ):
        observe.lower("N-basis-given", truth, mpf(float(pair.lower)))
        observe.upper("N-basis-given", truth, mpf(float(pair.upper)))
        assert pair.upper.certified


@pytest.mark.claim("N-basis-given")
@pytest.mark.parametrize("N", [550, pytest.param(2000, marks=pytest.mark.slow)])
def test_given_y_many_rows_through_forty_polynomials(observe: Observer, N: int) -> None:
    """Several chunks of rows and two outputs: the ends are close and share numbers with those of matrices."""
    rng, kernel, noise = np.random.default_rng(0), SquaredExponential(1.0, 0.5), 0.1
    X = rng.uniform(-1.0, 1.0, (N, 1))
    y = np.sin(X * [3.0, 5.0]) + 0.3 * rng.standard_normal((N, 2))
    basis = np.polynomial.chebyshev.chebvander(X[:, 0], 35)
    given_y = ThroughBasisGiven(ThroughBasis(kernel, X, basis, noise=noise), y)
    entry = entry_bound(kernel, X, X)
    assert entry is not None
    for features in (FourierFeatures(kernel, 60, 0).fit(X), HilbertFeatures(kernel, 7, 1.5, half_width=1.0).fit(X)):
        for name, dense in (("evidence_gap", evidence_gap), ("predictive_kl", predictive_kl)):
            pair = getattr(given_y, name)(features)
            ends = dense(kernel(X), features(X), y, noise=noise, entry_error=entry)
            observe.holds("N-basis-given", pair.lower <= float(ends.upper) and ends.lower <= float(pair.upper))
            observe.holds("N-basis-given", pair.width < 1e-8 * N + 1e-5 * abs(float(pair.upper)))


def test_a_basis_without_full_rank_is_an_error() -> None:
    X = np.array([[0.0], [0.5], [1.0]])
    kernel = SquaredExponential()
    with pytest.raises(ValueError, match="basis"):
        ThroughBasis(kernel, X, np.ones((2, 1)), noise=0.1)
    with pytest.raises(ValueError, match="basis"):
        ThroughBasis(kernel, X, np.ones((3, 4)), noise=0.1)
    with pytest.raises(ValueError, match="features"):
        ThroughBasis(kernel, X, np.ones((3, 1)), noise=0.1).kl(lambda rows: rows[:, 0])


def test_equal_laws_differ_by_nothing() -> None:
    """K = ΞΞᵀ: both intervals contain 0."""
    root = np.tril(np.arange(1.0, 17.0).reshape(4, 4))
    for pair in (f(root @ root.T, root, np.ones(4), noise=0.5) for f in (evidence_gap, predictive_kl)):
        assert float(pair.lower) <= 0.0 <= float(pair.upper) < 1e-9


@pytest.mark.parametrize("function", [evidence_gap, predictive_kl])
def test_errors_name_the_argument(function: Any) -> None:
    K, features, y = np.eye(2), np.ones((2, 1)), np.ones(2)
    for change, name in (
        ({"noise": 0.0}, "noise"),
        ({"entry_error": -1.0}, "entry_error"),
        ({"features": np.ones((3, 1))}, "features"),
        ({"y": np.ones(3)}, "y"),
    ):
        with pytest.raises(ValueError, match=name):
            function(**{"K": K, "features": features, "y": y, "noise": 0.5} | change)
    with pytest.raises(NonFinite, match="y"):
        function(K, features, [np.nan, 0.0], noise=0.5)


@pytest.mark.claim("N-evgap")
@pytest.mark.parametrize("columns", [1, 10, 300, 5000])
def test_a_product_by_blocks_has_the_error_of_one_block_and_their_sum(observe: Observer, columns: int) -> None:
    """n of γ_n grows with the number of blocks of 256 columns, and up to 256 with the columns themselves."""
    *_, n = blocked(np.ones((1, columns)), np.ones((columns, 1)))
    own = min(columns, 256)
    observe.holds("N-evgap", own <= n <= own + columns / 256 + 5.0)


@pytest.mark.claim("N-basis")
@given(seed=SEEDS)
def test_the_trace_beside_the_span_is_rounded_up(observe: Observer, seed: int) -> None:
    """tr K − tr UᵀKU/(1 + f) at least, where both traces are nearly equal."""
    rng = np.random.default_rng(seed)
    matrix, unit = np.diag(rng.uniform(0.5, 1.0, 4)), 10.0 ** rng.uniform(-16.0, -8.0)
    inside = float(np.trace(matrix)) * (1.0 - gamma(8.0))
    whole = inside * (1.0 + rng.integers(0, 4) * 2.0**-52)
    side = ThroughBasis._side(SimpleNamespace(p=4, unit=unit), whole, matrix, 0.0)
    observe.holds("N-basis", Fraction(side.outside) >= Fraction(whole) - Fraction(inside) / (1 + Fraction(unit)))
