"""Scores of predictions between ends: brute force, mpmath, and coverage of the intervals over rows."""

import math

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from gpbounds.audit.scores import (
    Enclosure,
    average,
    binomial_range,
    difference,
    log_loss_ends,
    root_mean,
    shifted,
    squared_error_ends,
)

number = st.floats(-1e6, 1e6, allow_subnormal=False)
width = st.floats(0.0, 1e3, allow_subnormal=False)
positive = st.floats(1e-9, 1e6)
share = st.floats(0.0, 1.0)


def _within(low, high, part):
    return min(max(low + part * (high - low), low), high)


def _loss(y, m, v, noise):
    with mpmath.workdps(60):
        s = mpmath.mpf(v) + mpmath.mpf(noise)
        return mpmath.log(2 * mpmath.pi * s) / 2 + (mpmath.mpf(y) - mpmath.mpf(m)) ** 2 / (2 * s)


@given(number, number, width, positive, width, positive, share, share)
def test_log_loss_of_every_law_between_the_ends(y, m, m_width, v, v_width, noise, a, b):
    mean, variance = Enclosure(m, m + m_width), Enclosure(v, v + v_width)
    low, high = log_loss_ends([y], ([mean.low], [mean.high]), ([variance.low], [variance.high]), noise)
    truth = _loss(y, _within(*mean, a), _within(*variance, b), noise)
    assert mpmath.mpf(float(low[0])) <= truth <= mpmath.mpf(float(high[0]))
    error = (mpmath.mpf(y) - mpmath.mpf(_within(*mean, a))) ** 2
    square = squared_error_ends([y], ([mean.low], [mean.high]))
    assert mpmath.mpf(float(square.low[0])) <= error <= mpmath.mpf(float(square.high[0]))


@given(number, number, width, positive, width, positive)
def test_ends_of_the_log_loss_are_attained(y, m, m_width, v, v_width, noise):
    """The ends are the least and the greatest loss, but for rounding: at corners, and where s = r²."""
    mean, variance = (m, m + m_width), (v, v + v_width)
    low, high = (float(end[0]) for end in log_loss_ends([y], ([mean[0]], [mean[1]]), ([v], [variance[1]]), noise))
    means = [*mean, min(max(y, mean[0]), mean[1])]
    variances = [*variance, *(min(max((y - each) ** 2 - noise, v), variance[1]) for each in means)]
    values = [float(_loss(y, each, var, noise)) for each in means for var in variances]
    assert low == pytest.approx(min(values), rel=1e-9, abs=1e-9)
    assert high == pytest.approx(max(values), rel=1e-9, abs=1e-9)


def test_ends_of_one_law_are_close_and_contain_its_log_loss():
    rng = np.random.default_rng(0)
    y, m, v = rng.standard_normal(200), rng.standard_normal(200), rng.exponential(size=200)
    low, high = log_loss_ends(y, (m, m), (v, v), 0.3)
    truth = -stats.norm.logpdf(y, m, np.sqrt(v + 0.3))
    np.testing.assert_allclose(low, truth, rtol=1e-13, atol=1e-13)
    assert (low < high).all()
    assert np.max(high - low) < 1e-13 * (1.0 + np.abs(truth).max())


def test_infinite_ends_stay_infinite_and_nothing_is_nan():
    low, high = log_loss_ends([0.0, 1.0], ([-np.inf, 0.0], [np.inf, 0.0]), ([0.0, 0.0], [1.0, np.inf]), 0.5)
    assert low[0] == pytest.approx(0.5 * math.log(math.pi))
    assert high[0] == np.inf
    assert math.isfinite(low[1])
    assert high[1] == np.inf
    mean = average((low, high))
    assert mean.high == np.inf
    assert math.isfinite(mean.low)
    assert difference((low, high), (np.zeros(2), np.zeros(2))).interval == (-np.inf, np.inf)


def test_a_lower_end_of_a_variance_below_zero_counts_as_zero():
    one = log_loss_ends([1.0], ([0.0], [0.0]), ([-5.0], [1.0]), 0.5)
    other = log_loss_ends([1.0], ([0.0], [0.0]), ([0.0], [1.0]), 0.5)
    assert one.low[0] == other.low[0]
    assert one.high[0] == other.high[0]


def test_wrong_ends_are_refused():
    with pytest.raises(ValueError, match=r"mean: expected lower ends below the upper ones, got 2 and 1 at 0"):
        squared_error_ends([0.0], ([2.0], [1.0]))
    with pytest.raises(ValueError, match=r"variance: expected lower ends"):
        log_loss_ends([0.0], ([1.0], [1.0]), ([np.nan], [1.0]), 0.1)
    with pytest.raises(ValueError, match=r"y, mean: expected arrays of one shape"):
        squared_error_ends([0.0, 1.0], ([2.0], [2.0]))
    with pytest.raises(ValueError, match="y: expected a finite number"):
        squared_error_ends([np.nan], ([2.0], [2.0]))
    with pytest.raises(ValueError, match="noise"):
        log_loss_ends([0.0], ([1.0], [1.0]), ([1.0], [1.0]), 0.0)
    with pytest.raises(ValueError, match="confidence"):
        difference((np.zeros(2), np.zeros(2)), (np.zeros(2), np.zeros(2)), confidence=1.0)


@given(st.lists(st.tuples(number, width), min_size=1, max_size=20), share)
def test_means_of_all_numbers_between_the_ends(rows, part):
    low, high = (np.array(end) for end in zip(*((a, a + w) for a, w in rows), strict=True))
    values = [_within(a, b, part) for a, b in zip(low.tolist(), high.tolist(), strict=True)]
    with mpmath.workdps(60):
        truth = mpmath.fsum(map(mpmath.mpf, values)) / len(values)
        ends = average((low, high))
        assert mpmath.mpf(ends.low) <= truth <= mpmath.mpf(ends.high)
        squares = mpmath.sqrt(mpmath.fsum(abs(mpmath.mpf(value)) for value in values) / len(values))
        positive_low = np.where((low < 0) & (high > 0), 0.0, np.minimum(abs(low), abs(high)))
        root = root_mean((positive_low, np.maximum(abs(low), abs(high))))
        assert mpmath.mpf(root.low) <= squares <= mpmath.mpf(root.high)


def test_sums_that_cancel_are_exact():
    ends = average((np.array([1e16, 1.0, -1e16, 1.0]), np.array([1e16, 1.0, -1e16, 1.0])))
    assert ends.low <= 0.5 <= ends.high
    assert ends.width < 1e-15


def test_shifted_ends_contain_the_sum():
    low, high = shifted((np.array([0.1]), np.array([0.1])), 1e9)
    with mpmath.workdps(60):
        truth = mpmath.mpf(0.1) + mpmath.mpf(1e9)
        assert mpmath.mpf(float(low[0])) <= truth <= mpmath.mpf(float(high[0]))


@given(st.integers(2, 30), st.integers(0, 1000), st.floats(0.0, 2.0))
def test_student_interval_contains_that_of_every_set_of_differences(n, seed, widest):
    rng = np.random.default_rng(seed)
    low = rng.standard_normal(n)
    high = low + widest * rng.uniform(size=n)
    second = rng.standard_normal(n)
    apart = difference((low, high), (second, second))
    for _ in range(5):
        values = low + rng.uniform(size=n).round() * (high - low) - second
        reach = stats.t.ppf(0.975, n - 1) * values.std(ddof=1) / math.sqrt(n)
        assert apart.interval.low <= values.mean() - reach + 1e-9
        assert values.mean() + reach <= apart.interval.high + 1e-9
        assert apart.enclosure.low - 1e-12 <= values.mean() <= apart.enclosure.high + 1e-12


def test_student_interval_of_known_differences_is_students():
    values = np.random.default_rng(1).standard_normal(50)
    apart = difference((values, values), (np.zeros(50), np.zeros(50)))
    expected = stats.ttest_1samp(values, 0.0).confidence_interval(0.95)
    assert apart.interval == pytest.approx((expected.low, expected.high), rel=1e-9)


@pytest.mark.parametrize(("least", "most", "n"), [(0, 0, 10), (3, 3, 10), (10, 10, 10), (2, 7, 12), (150, 160, 200)])
def test_binomial_range_is_that_of_clopper_and_pearson(least, most, n):
    low, high = binomial_range(least, most, n, 0.9)
    assert low == pytest.approx(stats.binomtest(least, n).proportion_ci(0.9).low, abs=2e-9)
    assert high == pytest.approx(stats.binomtest(most, n).proportion_ci(0.9).high, abs=2e-9)


@pytest.mark.parametrize("p", [0.01, 0.3, 0.5, 0.97])
def test_binomial_range_covers_by_summation(p):
    n, missed = 40, 0.0
    for k in range(n + 1):
        low, high = binomial_range(k, k, n, 0.95)
        missed += 0.0 if low <= p <= high else stats.binom.pmf(k, n, p)
    assert missed <= 0.05


def test_undecided_rows_widen_the_share():
    zeros = np.zeros(4)
    decided = difference((np.array([-1.0, -1.0, 1.0, 1.0]),) * 2, (zeros, zeros))
    open_ = difference((np.array([-1.0, -1.0, -1.0, 1.0]), np.array([-1.0, -1.0, 1.0, 1.0])), (zeros, zeros))
    assert open_.share.low == decided.share.low
    assert open_.share.high > decided.share.high
    none = difference((np.full(4, -0.005),) * 2, (zeros, zeros), slack=0.01)
    assert none.share.low == 0.0
    assert none.share.high < 1.0


def test_record_of_a_difference():
    record = difference((np.array([0.0, 1.0]),) * 2, (np.array([1.0, 1.0]),) * 2).to_dict()
    assert record["mean"] == pytest.approx(-0.5)
    assert record["enclosure"] == pytest.approx([-0.5, -0.5])
    assert set(record) == {"mean", "enclosure", "interval", "share better", "confidence"}
