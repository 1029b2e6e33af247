"""Noise of each row as unit noise of another GP (N-rows-noise), against formulas with diag(noise) in 50 digits."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mpmath import mp, mpf
from observer import Observer

from gpbounds import inducing_points, rate
from gpbounds.arrays import Float
from gpbounds.divergences import collapsed_posterior, posterior_kl
from gpbounds.inputs import Empirical
from gpbounds.iterative import exact_predictions
from gpbounds.kernels import Constant, Kernel, Linear, Matern, SquaredExponential
from gpbounds.kernels.errors import entry_bound
from gpbounds.kernels.plain import kernel_to_plain
from gpbounds.rates.noisy_rows import NoisyRows
from gpbounds.reference import renyi as reference
from gpbounds.reference.divergences import gaussian_kl
from gpbounds.reference.linalg import trace
from gpbounds.reference.spectra import covariance, gram
from gpbounds.renyi import (
    elbo,
    evidence,
    exact_gap,
    expected_gap,
    expected_gap_bounds,
    fitted_mean,
    gap,
    gap_from_trace,
    inducing_posterior,
    log_evidence,
    operator_gap,
    predict,
)
from gpbounds.row_noise import UnitNoise, at_unit_noise

SEEDS = st.integers(0, 10**6)
KERNELS: tuple[Kernel, ...] = (
    SquaredExponential(1.3, 0.8),
    Matern(1.5, 0.7, 1.1),
    SquaredExponential(2.0, 1.5) * Matern(2.5, 1.0, 2.0) + Constant(0.4),
    Linear(0.5) + Constant(1.0),
)
ORDERS = st.sampled_from([0.1, 0.5, 0.9, 1.0])


@dataclass(frozen=True)
class Rows:
    """Rows whose noise variances lie within ``decades`` powers of ten, and inducing points, some of them rows."""

    kernel: Kernel
    X: Float
    y: Float
    Z: Float
    noise: Float

    @classmethod
    def drawn(cls, seed: int, kernel: Kernel, decades: float) -> Rows:
        rng = np.random.default_rng(seed)
        N = int(rng.integers(2, 10))
        X = rng.uniform(-3.0, 3.0, (N, 1))
        if seed % 3 == 0:
            X[N // 2 :] = X[: N - N // 2]
        noise = 10.0 ** (rng.uniform(-decades, 0.0, N) + rng.uniform(-1.0, 1.0))
        y = 10.0 ** rng.uniform(-1.0, 2.0) * (np.sin(X[:, 0]) + np.sqrt(noise) * rng.standard_normal(N))
        # a kernel of rank two has no more points that differ
        return cls(kernel, X, y, np.array([[-1.0], [float(X[0, 0]) + 0.01 * (seed % 2)]]), noise)

    @property
    def data(self) -> tuple[Any, ...]:
        """Arguments of the library."""
        return self.kernel, self.X, self.y, self.Z

    @cached_property
    def prior(self) -> tuple[Any, Any, Any]:
        """Kff, Kuf and Kuu."""
        return gram(self._record, self.X.tolist()), self._cross(self.Z), gram(self._record, self.Z.tolist())

    @property
    def _record(self) -> Any:
        return kernel_to_plain(self.kernel)

    def _cross(self, points: Float) -> Any:
        return mp.matrix([[covariance(self._record, z, x) for x in self.X.tolist()] for z in points.tolist()])

    @property
    def targets(self) -> Any:
        return reference.matrix(self.y)

    def predicted(self, points: Float) -> tuple[list[Any], list[Any]]:
        """Means and variances of the exact GP."""
        Kss = gram(self._record, points.tolist())
        mean, cov = reference.predict_of_rows(self.prior[0], self._cross(points).T, Kss, self.targets, self.noise)
        return list(mean), [cov[i, i] for i in range(len(points))]


CASES = {"seed": SEEDS, "kernel": st.sampled_from(KERNELS), "decades": st.floats(0.0, 12.0)}


def contains(observe: Observer, ends: Any, truth: Any) -> None:
    observe.lower("N-rows-noise", truth, float(ends[0]))
    observe.upper("N-rows-noise", truth, float(ends[1]))
    assert all(end.certified for end in ends)
    assert all(end.claim.endswith("N-rows-noise") for end in ends)


def numbers(result: Any) -> Float:
    """The numbers of a bound, of an interval, or of a mean and a variance."""
    return np.concatenate([np.ravel(part) for part in (result if isinstance(result, tuple) else (result,))])


@pytest.mark.claim("N-rows-noise")
@given(members=st.sampled_from(["cheap", "auto", "sharp"]), **CASES)
def test_intervals_of_the_evidence_hold_the_dense_formula(observe: Observer, members: str, **drawn: Any) -> None:
    rows = Rows.drawn(**drawn)
    chosen: Any = {"rigor": "sharp"} if members == "sharp" else {"members": members}
    ends = evidence(*rows.data, noise=rows.noise, **chosen)
    truth = reference.log_evidence_of_rows(rows.prior[0], rows.targets, rows.noise)
    contains(observe, ends, truth)
    if members == "sharp":
        assert ends.width <= 1e-12 * (1.0 + float((rows.y**2 / rows.noise).sum() ** 0.5 * abs(float(truth)) ** 0.5))


@pytest.mark.claim("N-rows-noise")
@given(alpha=ORDERS, method=st.sampled_from(["dense", "streamed", "auto", "sharp"]), **CASES)
def test_intervals_of_the_gap_hold_the_dense_formula(
    observe: Observer, alpha: float, method: str, **drawn: Any
) -> None:
    rows = Rows.drawn(**drawn)
    chosen: Any = {"rigor": "sharp"} if method == "sharp" else {"method": method}
    truth = reference.gap_of_rows(*rows.prior, rows.targets, rows.noise, mpf(alpha))
    truth = max(truth, mpf(0))  # it may be 0, and is then computed to 50 digits
    contains(observe, gap(*rows.data, alpha, noise=rows.noise, **chosen), truth)
    observe.upper("N-rows-noise", truth, float(gap_from_trace(*rows.data, alpha, noise=rows.noise)))
    ends = expected_gap_bounds(rows.kernel, rows.X, rows.Z, alpha, noise=rows.noise)
    contains(observe, ends, max(reference.expected_gap_of_rows(*rows.prior, rows.noise, mpf(alpha)), mpf(0)))


@pytest.mark.claim("N-rows-noise")
@given(seed=SEEDS, alpha=ORDERS, shift=st.sampled_from([1e-9, 1e-4]), relative=st.sampled_from([0.0, 1e-9, 1e-4]))
def test_a_gap_moves_by_no_more_than_the_error(
    observe: Observer, seed: int, alpha: float, shift: float, relative: float
) -> None:
    """Noise variances e^±ε and targets moved by η along the slope of the gap, with ε and η far above rounding."""
    rng = np.random.default_rng(seed)
    kernel, X, y = SquaredExponential(4.0, 1.0), rng.uniform(-3.0, 3.0, (3, 1)), rng.standard_normal(3)
    y *= 10.0 ** rng.uniform(-1.0, 3.0)
    rows = Rows(kernel, X, y, rng.uniform(-9.0, 9.0, (1, 1)), np.ones(3))
    K, cross = kernel(X), kernel(X, rows.Z)
    slope = (np.linalg.inv(cross @ cross.T / 4.0 + np.eye(3)) - np.linalg.inv(K + np.eye(3))) @ y
    eta = relative * float(np.linalg.norm(y))
    moved = y + rng.choice([-1.0, 1.0]) * eta * slope / np.linalg.norm(slope)
    variances = np.exp(rng.choice([-1.0, 1.0]) * shift * rng.choice([-1.0, 1.0, 1.0], 3))
    unit = UnitNoise(kernel, np.column_stack([X, np.ones(3)]), y, 0.0, rows.noise, 1.001 * eta)
    before = reference.gap_of_rows(*rows.prior, rows.targets, rows.noise, mpf(alpha))
    after = reference.gap_of_rows(*rows.prior, reference.matrix(moved), variances, mpf(alpha))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("gpbounds.row_noise.SHIFT", 1.001 * shift)
        observe.upper("N-rows-noise", abs(after - before), unit.gap_error(float(before)))


@pytest.mark.claim("N-rows-noise")
@pytest.mark.parametrize("alpha", [0.2, 0.5, 0.8])
def test_the_other_direction_is_charged_its_share_of_a_change(observe: Observer, alpha: float) -> None:
    """D_α[p‖q] = α/(1 − α)·D_{1−α}[q‖p], so that a change of the gap counts at least so many times."""
    unit = at_unit_noise(KERNELS[0], np.array([[0.0], [1.0]]), np.zeros(2), noise=np.array([0.1, 0.2]))
    inner: Any = None
    stated = NoisyRows.of(unit, inner, "divergence", "p||q", alpha)
    observe.holds("N-rows-noise", bool(np.all(stated.factor >= max(alpha / (1.0 - alpha), (1.0 - alpha) / alpha))))


@pytest.mark.claim("N-rows-noise")
@given(**CASES)
def test_ends_of_predictions_hold_the_dense_formula(observe: Observer, **drawn: Any) -> None:
    rows = Rows.drawn(**drawn)
    points = np.array([[0.3], rows.X[0], [5.0]])
    made = exact_predictions(rows.kernel, rows.X, rows.y, points, noise=rows.noise)
    assert made.certified
    for (low, high), truth in zip((made.mean, made.variance), rows.predicted(points), strict=True):
        observe.lower("N-rows-noise", truth, low)
        observe.upper("N-rows-noise", truth, high)


@pytest.mark.claim("N-rows-noise")
@given(**CASES)
def test_the_ratio_of_largest_eigenvalues_is_that_of_scaled_matrices(observe: Observer, **drawn: Any) -> None:
    rows = Rows.drawn(**drawn)
    Kff, Kuf, Kuu = rows.prior
    residual = reference.scaled_by_noise(Kff - reference.nystrom(Kuf, Kuu), rows.noise)
    truth = max(reference.spectrum((residual + residual.T) / 2)[0], mpf(0))  # of 50 digits
    bound = operator_gap(rows.kernel, rows.X, rows.Z, noise=rows.noise)
    observe.upper("N-rows-noise", truth, float(bound))
    observe.lower("N-rows-noise", truth, bound.terms["lower"])


@pytest.mark.broad
@pytest.mark.claim("N-rows-noise")
@given(alpha=ORDERS, seed=SEEDS, kernel=st.sampled_from(KERNELS[:3]))
def test_values_equal_the_dense_formulas(observe: Observer, alpha: float, seed: int, kernel: Kernel) -> None:
    """Within two decades of noise doubles resolve them."""
    rows = Rows.drawn(seed, kernel, 2.0)
    Kff, (order, noise) = rows.prior[0], (mpf(alpha), rows.noise)
    size = {"rtol": 1e-9, "atol": 1e-7 * float((rows.y**2 / noise).sum() + 1.0)}
    truth = reference.elbo_of_rows(*rows.prior, rows.targets, noise, order)
    observe.equal("N-rows-noise", float(elbo(*rows.data, alpha, noise=noise)), truth, **size)
    truth = reference.log_evidence_of_rows(Kff, rows.targets, noise)
    observe.equal("N-rows-noise", log_evidence(rows.kernel, rows.X, rows.y, noise=noise), truth, **size)
    truth = reference.gap_of_rows(*rows.prior, rows.targets, noise, order)
    observe.equal("N-rows-noise", exact_gap(*rows.data, alpha, noise=noise), truth, **size)
    truth = reference.expected_gap_of_rows(*rows.prior, noise, order)
    value = expected_gap(rows.kernel, rows.X, rows.Z, alpha, noise=noise)
    observe.equal("N-rows-noise", value, truth, rtol=1e-7, atol=1e-7)


@pytest.mark.claim("N-rows-noise")
@given(seed=SEEDS, power=st.sampled_from([0.0, 0.5, 1.0]))
def test_divergences_from_the_prior_equal_the_dense_formulas(observe: Observer, seed: int, power: float) -> None:
    """For Z = X the sparse posterior is the exact one for every power, and for Z the best one of power 0."""
    rows = Rows.drawn(3 * seed + 1, KERNELS[1], 2.0)  # no two rows are equal
    X, y, noise = rows.X, rows.y, rows.noise
    K, S = gram(kernel_to_plain(rows.kernel), X.tolist()), mp.diag([mpf(s) for s in noise])
    gain = K * (K + S) ** -1
    truth = gaussian_kl(gain * reference.matrix(y), K - gain * K, mp.zeros(len(X), 1), K)
    whole = collapsed_posterior(rows.kernel, X, y, X, noise=noise, power=power, jitter=0.0)
    error = entry_bound(rows.kernel, X, X)
    assert error is not None
    charged = collapsed_posterior(rows.kernel, X, y, X, noise=noise, power=power, jitter=0.0, entry_error=error)
    observe.equal("N-rows-noise", whole.kl, truth, atol=charged.kl_rounding)
    for method in ("eigen", "cholesky"):
        value = posterior_kl(rows.kernel(X), y, noise=noise, method=method)  # type: ignore[arg-type]
        observe.equal("N-rows-noise", value, truth, rtol=1e-8, atol=1e-9)


@pytest.mark.claim("N-rows-noise")
def test_a_fitted_mean_maximises_the_evidence(observe: Observer) -> None:
    rows = Rows.drawn(4, KERNELS[1], 3.0)
    own = {"noise": rows.noise}
    for mean in ("constant", "linear"):
        m = fitted_mean(rows.kernel, rows.X, rows.y, mean=mean, **own)
        best = log_evidence(rows.kernel, rows.X, rows.y - m(rows.X), **own)
        for change in (-1e-2, 1e-2):
            shifted = log_evidence(rows.kernel, rows.X, rows.y - m(rows.X) - change * rows.X[:, 0] ** 0, **own)
            tilted = log_evidence(rows.kernel, rows.X, rows.y - m(rows.X) - change * rows.X[:, 0], **own)
            observe.holds("N-rows-noise", shifted < best)
            observe.holds("N-rows-noise", mean == "constant" or tilted < best)


@pytest.mark.claim("N-rows-noise")
@given(seed=SEEDS)
def test_statements_about_draws_are_those_about_scaled_matrices(observe: Observer, seed: int) -> None:
    """The mean trace by enumeration of the subsets, each with the determinant of its block of S^(−½)KS^(−½)."""
    rng = np.random.default_rng(seed)
    X, y, noise = rng.uniform(-2.0, 2.0, (6, 1)), rng.standard_normal(6), 10.0 ** rng.uniform(-3.0, 0.0, 6)
    kernel, M = KERNELS[0], int(rng.integers(1, 5))
    K = reference.scaled_by_noise(gram(kernel_to_plain(kernel), X.tolist()), noise)
    weight = mean = mpf(0)
    for chosen in combinations(range(6), M):
        block = mp.matrix([[K[i, j] for j in chosen] for i in chosen])
        cross = mp.matrix([[K[i, j] for j in range(6)] for i in chosen])
        weight += mp.det(block)
        mean += mp.det(block) * trace(K - reference.nystrom(cross, block))
    about: dict[str, Any] = {"inputs": Empirical(X), "noise": noise}
    bound = rate(kernel, 6, M, 1.0, **about)
    observe.equal("N-rows-noise", bound.terms["expected_trace"], mean / weight, rtol=1e-6)
    # with probability ½ a draw is below; so is the best of all subsets
    given_y = rate(kernel, 6, M, 1.0, y=y, draws=1, delta=0.5, law="kdpp", **about)
    ratio = rate(kernel, 6, M, criterion="operator", delta=0.5, **about)
    best = min(exact_gap(kernel, X, y, X[list(Z)], 1.0, noise=noise) for Z in combinations(range(6), M))
    least = min(operator_gap(kernel, X, X[list(Z)], noise=noise).terms["lower"] for Z in combinations(range(6), M))
    observe.upper("N-rows-noise", best, float(given_y))
    observe.upper("N-rows-noise", least, float(ratio))
    plan = inducing_points(kernel, 6, 1.0, target=10.0, y=y, draws=10, **about)
    observe.holds("N-rows-noise", plan.M is None or float(plan.bound or 0.0) <= 10.0)


def agreeing(rng: np.random.Generator) -> tuple[float, float]:
    """Noise and target of a row for which the roundings of w and of wy agree: the worst of a thousand."""
    pairs = zip(rng.uniform(0.5, 2.0, 1000).tolist(), rng.uniform(1e3, 2e3, 1000).tolist(), strict=True)

    def moved(pair: tuple[float, float]) -> Fraction:
        noise, y = pair
        scaled = Fraction(float(1.0 / np.sqrt(noise)) * y)
        return abs(scaled**2 * Fraction(noise) / Fraction(y) ** 2 - 1)

    return max(pairs, key=moved)


@pytest.mark.claim("N-rows-noise")
def test_ends_hold_where_all_roundings_agree(observe: Observer) -> None:
    """One row whose prior variance is far below its noise, and one where they are near, with Z far away."""
    rng = np.random.default_rng(0)
    for variance in (1e-9, 1.0):
        noise, y = agreeing(rng)
        kernel = SquaredExponential(variance, 1.0)
        Kff, targets = mp.matrix([[mpf(variance)]]), mp.matrix([[mpf(y)]])
        data = kernel, np.zeros((1, 1)), np.array([y])
        ends = evidence(*data, None, noise=[noise], rigor="sharp")
        contains(observe, ends, reference.log_evidence_of_rows(Kff, targets, [noise]))
        far = mp.matrix([[mpf(0)]])
        truth = reference.gap_of_rows(Kff, far, Kff, targets, [noise], mpf(1))
        contains(observe, gap(*data, np.array([[50.0]]), 1.0, noise=[noise], rigor="sharp"), truth)


@pytest.mark.claim("N-rows-noise")
def test_rounding_of_the_change_is_needed(observe: Observer) -> None:
    """The ball of the unit-noise problem alone misses log p(y) at some rows, that of the library never does."""
    missed = 0
    for seed in range(10):
        rows = Rows.drawn(seed, KERNELS[seed % 2], 12.0)
        unit = at_unit_noise(rows.kernel, rows.X, rows.y, rows.noise)
        bare = evidence(unit.kernel, unit.X, unit.y, None, noise=1.0, rigor="sharp")
        truth = reference.log_evidence_of_rows(rows.prior[0], rows.targets, rows.noise)
        scale = sum(mp.log(mpf(float(s))) for s in rows.noise) / 2
        missed += not float(bare.lower) <= truth + scale <= float(bare.upper)
        contains(observe, unit.of_log_evidence(bare), truth)
    observe.holds("N-rows-noise", missed >= 3)


@pytest.mark.broad
@pytest.mark.claim("N-rows-noise")
@given(alpha=ORDERS, seed=SEEDS, kernel=st.sampled_from(KERNELS[:3]))
def test_equal_noise_is_one_noise(observe: Observer, alpha: float, seed: int, kernel: Kernel) -> None:
    rows = Rows.drawn(seed, kernel, 0.0)
    one = float(rows.noise[0])
    each = np.full(len(rows.X), one)
    tolerance = 1e-8 * float((rows.y**2).sum() / one + 1.0)
    for function, arguments in (
        (evidence, rows.data),
        (gap, (*rows.data, alpha)),
        (expected_gap_bounds, (rows.kernel, rows.X, rows.Z, alpha)),
        (elbo, (*rows.data, alpha)),
        (inducing_posterior, (*rows.data, alpha)),
        (predict, (*rows.data, np.array([[0.5], [4.0]]), alpha)),
    ):
        left, right = (numbers(function(*arguments, noise=noise)) for noise in (each, one))  # type: ignore[operator]
        observe.equal("N-rows-noise", left, right, rtol=1e-7, atol=tolerance)


@pytest.mark.claim("N-rows-noise")
@given(alpha=ORDERS, seed=SEEDS)
def test_the_order_of_rows_is_of_no_account(observe: Observer, alpha: float, seed: int) -> None:
    rows = Rows.drawn(seed, KERNELS[0], 3.0)
    other = np.random.default_rng(seed).permutation(len(rows.X))
    moved = Rows(rows.kernel, rows.X[other], rows.y[other], rows.Z, rows.noise[other])
    tolerance = 1e-9 * float((rows.y**2 / rows.noise).sum() + 1.0)
    for function in (gap, elbo, inducing_posterior):
        left, right = (numbers(function(*each.data, alpha, noise=each.noise)) for each in (rows, moved))  # type: ignore[operator]
        observe.equal("N-rows-noise", left, right, rtol=1e-6, atol=tolerance)
