"""The expectations of ``gpbounds.kdpp``: closed forms, limits, no overflow, and error messages."""

from __future__ import annotations

import math
from math import comb

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpbounds import kdpp
from gpbounds.kdpp.esp import scaled_esp
from gpbounds.kdpp.expectations import _log_sum


@given(st.integers(0, 2**32 - 1), st.integers(1, 60))
def test_one_call_serves_every_size(seed: int, N: int) -> None:
    """expected_trace decreases with M, from Σλ to 0; the order of the eigenvalues and zeros do not matter."""
    rng = np.random.default_rng(seed)
    values = 10.0 ** rng.uniform(-12, 3, N)
    padded = rng.permutation(np.append(values, np.zeros(3)))
    traces = kdpp.expected_trace(padded, np.arange(N + 1))
    assert traces[0] == pytest.approx(values.sum(), rel=1e-13)
    assert traces[-1] == 0.0
    assert (np.diff(traces) < 0).all()
    assert traces == pytest.approx([kdpp.expected_trace(values, M) for M in range(N + 1)], rel=1e-13)
    assert traces == pytest.approx(kdpp.expected_esp(values, np.arange(N + 1), 1), rel=1e-13)


def test_flat_spectra_have_closed_forms() -> None:
    """K = vI: Δ is v on the other points, so T = (N−M)v, e_j = C(N−M, j)v^j and |I + cΔ| = (1 + cv)^(N−M)."""
    values = np.full(300, 1e-3)
    M = np.array([0, 1, 150, 299, 300])
    assert kdpp.expected_trace(values, M) == pytest.approx((300 - M) * 1e-3, rel=1e-13)
    assert kdpp.expected_esp(values, 290, 4) == pytest.approx(comb(10, 4) * 1e-12, rel=1e-12)
    for c in (0.0, 1e-300, 1.0, 1e7, 1e300):
        exact = (300 - M) * np.log1p(c * 1e-3)
        assert kdpp.log_expected_determinant(values, M, c) == pytest.approx(exact, rel=1e-12)
    bound = kdpp.expected_logdet_bound(values, M, [[0.5], [1.0]], noise=0.01)
    assert bound.value == pytest.approx(np.array([[0.5 * np.log1p(0.05)], [0.05]]) * (300 - M), rel=1e-12)


def test_log_esp_neither_overflows_nor_underflows() -> None:
    values = np.repeat([1e300, 1.0, 1e-300, 0.0], 5)
    logs = kdpp.log_esp(values, 16) / np.log(10.0)
    expected = [0.0, 300 + np.log10(5), 600 + 1, 900 + 1, 1200 + np.log10(5), 1500, 1500 + np.log10(5)]
    assert logs[:7] == pytest.approx(expected, rel=1e-14)
    assert logs[15] == pytest.approx(0.0, abs=1e-10)  # 1e300^5 · 1 · 1e-300^5
    assert logs[16] == -np.inf
    assert kdpp.log_esp([0.0, 0.0], 1).tolist() == [0.0, -np.inf]
    mantissa, exponent = scaled_esp(values, 5)
    assert 0.5 <= mantissa[5] < 1.0
    assert exponent[5] > 4000


def test_forms_are_ordered_and_named() -> None:
    values = np.arange(1.0, 51.0) ** -3
    bounds = {form: kdpp.expected_logdet_bound(values, 10, 0.5, form, noise=1e-4) for form in ("sharpest", "printed")}
    assert bounds["sharpest"].value == min(bounds["sharpest"].terms.values())
    assert bounds["sharpest"].value < bounds["printed"].value
    assert set(bounds["sharpest"].terms) == {"trace", "determinant"}
    assert "R-lem3c" in str(bounds["sharpest"])
    tails = np.append(np.cumsum(values[::-1])[::-1], 0.0)
    many = kdpp.trace_bound(tails, [0, 1, 10, 50])
    assert (many.value >= kdpp.expected_trace(values, [0, 1, 10, 50])).all()
    assert (many.value <= kdpp.trace_bound(tails, [0, 1, 10, 50], "printed").value).all()
    assert many.terms["k"][0] == 0
    assert kdpp.tv_term(50, 10, 2.0, 0.1, "printed") == pytest.approx(20.0)


WRONG = [
    (lambda: kdpp.log_esp([[1.0]], 1), "expected shape"),
    (lambda: kdpp.log_esp([], 1), "expected shape"),
    (
        lambda: kdpp.log_esp([1.0, -1e-9], 1),
        "eigenvalues: expected numbers >= 0, .*got -1e-09 at index .1,.: .*clip at 0",
    ),
    (lambda: kdpp.log_esp([1.0, np.nan], 1), "eigenvalues: expected"),
    (lambda: kdpp.log_esp([1.0], 1.5), "k_max: expected a whole number"),
    (lambda: kdpp.log_esp([1.0], -1), "k_max: expected a whole number"),
    (lambda: kdpp.expected_trace([1.0, 2.0], 0.5), "M: expected a whole number"),
    (lambda: kdpp.expected_trace([1.0, 2.0], [0, 3]), "expected at most 2, the number of nonzero eigenvalues, got 3"),
    (lambda: kdpp.expected_esp([1.0], 0, -1), "j: expected"),
    (lambda: kdpp.log_expected_determinant([1.0], 0, -1.0), "c: expected"),
    (lambda: kdpp.expected_logdet_bound([1.0], 0, 0.5, noise=0.0), "noise: expected a positive"),
    (lambda: kdpp.expected_logdet_bound([1.0], 0, 1.5, noise=1.0), "alpha: expected"),
    (lambda: kdpp.expected_logdet_bound([1.0], 0, 0.5, "best", noise=1.0), "form: expected one of 'sharpest'"),
    (lambda: kdpp.trace_bound([3.0, 1.0], 2), "n >= 3"),
    (lambda: kdpp.trace_bound([1.0, 2.0], 1), "non-increasing"),
    (lambda: kdpp.annealed_trace([1.0, 1.0], 1, 2), "at most N"),
    (lambda: kdpp.tv_term(5, 6, 1.0, 0.1), "at most N"),
    (lambda: kdpp.tv_term(5, 1, 1.0, 1.1), "tv: expected"),
]


@pytest.mark.parametrize(("call", "message"), WRONG, ids=[message for _, message in WRONG])
def test_wrong_arguments_say_what_was_expected(call, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()


def test_a_sum_of_moments_is_complete_once_the_rest_is_small_beside_the_sum() -> None:
    """At M = 0 the terms are c^j e_j.  64 ones and a geometric end: what follows 2^-58 is below 2^-60 of the sum."""
    ends = 0.5 ** np.arange(1.0, 59.0)
    e = np.concatenate([np.ones(65), ends])
    log_sum, complete = _log_sum(e, np.zeros(e.size, dtype=np.int64), 0, 1.0)
    assert complete
    assert log_sum == pytest.approx(math.log(e.sum()), rel=1e-15)
    _, early = _log_sum(e[:-8], np.zeros(e.size - 8, dtype=np.int64), 0, 1.0)
    assert not early
