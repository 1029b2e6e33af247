"""``spectrum`` for squared exponential kernels and for data: sums, accuracy, and error messages."""

from __future__ import annotations

import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpbounds import Empirical, Gaussian, Matern, NotConverged, SquaredExponential, Uniform, spectrum
from gpbounds.inputs import InputLaw
from gpbounds.kernels import Kernel
from gpbounds.spectra.gaussian import LARGEST_ORDER, log_complement, log_tails, smallest_sums

LAWS: list[tuple[Kernel, InputLaw]] = [
    (SquaredExponential(2.0, 0.7), Gaussian(1.5)),
    (SquaredExponential(2.0, 0.7), Gaussian(1.5, 6)),
    (SquaredExponential(2.0, [0.7, 2.0, 1.0]), Gaussian([1.0, 2.0, 0.1])),
    (SquaredExponential(0.5, 0.3), Uniform(-1, 2)),
    (SquaredExponential(0.5, [0.3, 0.6]), Uniform([0, 0], [1, 2])),
    (SquaredExponential(0.5, [0.3, 0.9]), Uniform([0, 0], [1, 1])),
    (SquaredExponential(3.0), Empirical(np.random.default_rng(0).standard_normal((40, 2)))),
]


@pytest.mark.parametrize(("kernel", "inputs"), LAWS)
def test_tails_are_tails(kernel: Kernel, inputs: InputLaw) -> None:
    s = spectrum(kernel, inputs=inputs)
    M = np.arange(40)
    tails, values = s.tail(M), s.eigenvalues(40)
    assert s.trace == pytest.approx(kernel.max_variance, rel=1e-14)
    assert tails[0] == pytest.approx(s.trace, rel=1e-9)
    assert (np.diff(tails) <= 0).all()
    assert (np.diff(values) <= 0).all()
    if not isinstance(inputs, Uniform):  # exact eigenvalues are the differences of the tails
        assert tails[:-1] - tails[1:] == pytest.approx(values[:-1], abs=1e-12 * s.trace)
    else:  # upper bounds, each at most trace/m
        assert (values * (M + 1) <= s.trace * (1 + 1e-12)).all()


@pytest.mark.parametrize(("kernel", "inputs"), LAWS)
def test_M_broadcasts(kernel: Kernel, inputs: InputLaw) -> None:
    s = spectrum(kernel, inputs=inputs)
    M = np.array([[0, 3], [7, 30]])
    grid = s.log_tail(M)
    assert grid.shape == (2, 2)
    for i in np.ndindex(2, 2):
        assert grid[i] == pytest.approx(s.log_tail(int(M[i])), abs=1e-12)
    assert isinstance(s.log_tail(3), float)
    assert s.tail(3) == np.exp(s.log_tail(3))


@pytest.mark.parametrize("bad", [-1, 2.5, float("nan"), "three", [1, -2]])
def test_bad_M(bad: object) -> None:
    with pytest.raises(ValueError, match="M: expected"):
        spectrum(SquaredExponential(), inputs=Gaussian()).tail(bad)  # type: ignore[arg-type]


@pytest.mark.parametrize(("kernel", "inputs"), LAWS)
@pytest.mark.parametrize("bad", [0, -3, 2.5, float("nan"), "ten", [1, 2]])
def test_bad_count(kernel: Kernel, inputs: InputLaw, bad: object) -> None:
    with pytest.raises(ValueError, match="count: expected"):
        spectrum(kernel, inputs=inputs).eigenvalues(bad)  # type: ignore[arg-type]


@given(
    steps=st.lists(st.sampled_from([0.1, 0.25, 0.5, 0.7, 1.3, 3.0, 50.0]), min_size=1, max_size=4),
    count=st.integers(1, 80),
)
def test_smallest_sums_by_enumeration(steps: list[float], count: int) -> None:
    sums, degrees = smallest_sums(np.array(steps), count)
    grid = np.indices((count if len(steps) == 1 else min(count, 12),) * len(steps)).reshape(len(steps), -1).T
    brute = np.sort(grid @ np.array(steps))[:count]
    reached = brute <= (11 if len(steps) > 1 else count) * min(steps)  # the small grid misses some of the later ones
    assert sums[: reached.sum()] == pytest.approx(brute[: reached.sum()], abs=1e-12)
    assert degrees @ np.array(steps) == pytest.approx(sums, abs=1e-12)
    kept = {tuple(n) for n in degrees}
    assert len(kept) == count
    for n in kept:  # a lower set
        for d in range(len(n)):
            assert n[d] == 0 or (*n[:d], n[d] - 1, *n[d + 1 :]) in kept


@given(
    steps=st.lists(st.floats(0.05, 3.0), min_size=1, max_size=4),
    count=st.integers(1, 200),
)
def test_complement_of_what_is_kept(steps: list[float], count: int) -> None:
    sums, degrees = smallest_sums(np.array(steps), count)
    kept = np.exp(np.log(-np.expm1(-np.array(steps))).sum() - sums).sum()
    assert np.exp(log_complement(np.array(steps), degrees)) == pytest.approx(1 - kept, abs=1e-13 * count)


def test_log_tails_span_any_range() -> None:
    logs = -np.arange(0.0, 5000.0, 1.7)
    tails = log_tails(logs, -6000.0)
    exact = [np.logaddexp.reduce([*logs[m:], -6000.0]) for m in (0, 1, 700, 2000, logs.size)]
    assert tails[[0, 1, 700, 2000, logs.size]] == pytest.approx(exact, abs=1e-11)


def test_deep_tails_do_not_underflow_in_log() -> None:
    assert spectrum(SquaredExponential(1.0, 5.0), inputs=Gaussian()).log_tail(10_000) == pytest.approx(
        -2e4 * np.arcsinh(2.5)
    )
    assert spectrum(SquaredExponential(1.0, [5.0, 7.0]), inputs=Gaussian(1.0, 2)).log_tail(5000) < -250
    assert spectrum(SquaredExponential(1.0, 1.0), inputs=Uniform()).log_tail(10_000) < -5e4


def test_too_many_to_order_is_said() -> None:
    with pytest.raises(NotConverged, match="which are sorted"):
        spectrum(SquaredExponential(1.0, [5.0, 7.0]), inputs=Gaussian(1.0, 2)).tail(LARGEST_ORDER + 1)


def test_duplicates_have_no_tail_beyond_the_rank() -> None:
    s = spectrum(SquaredExponential(), inputs=Empirical([0.0, 1.0, 1.0, 2.0, 0.0]))
    assert s.log_tail(3) == -np.inf
    assert s.tail([3, 4, 99]).tolist() == [0.0, 0.0, 0.0]
    assert s.tail(2) > 0
    with pytest.raises(ValueError, match="at most N = 5"):
        s.eigenvalues(6)


def test_empirical_tails_never_fall_below_rounding() -> None:
    X = np.linspace(0, 1, 60)
    s = spectrum(SquaredExponential(1.0, 2.0), inputs=Empirical(X))
    # 40 of 60 eigenvalues are lost in rounding; the tail is still an upper bound on the exact one, which is tiny.
    assert s.tail(30) >= 30 * np.finfo(float).eps * s.eigenvalues(1)[0]


def test_what_is_not_supported_is_named() -> None:
    """With what serves every kernel instead."""
    for kernel, inputs in (
        (SquaredExponential() + Matern(0.5) * Matern(0.5), Gaussian()),
        (SquaredExponential() * Matern(0.5), Uniform()),
        (Matern(1.5), Gaussian(1.0, 4)),
    ):
        with pytest.raises(ValueError, match=r"no spectrum .* given data, inputs=Empirical\(X\), .* simulate=39$"):
            spectrum(kernel, inputs=inputs)
    with pytest.raises(ValueError, match=r"in 8 dimensions, where sums of eigenvalues .* like M\^-0\.38 only"):
        spectrum(Matern(1.5), inputs=Uniform(np.zeros(8), np.ones(8)))


def test_ten_thousand_eigenvalues_in_eight_dimensions_are_sorted_products() -> None:
    rng = np.random.default_rng(5)
    s = spectrum(SquaredExponential(1.0, rng.uniform(0.5, 4, 8)), inputs=Gaussian(1.0, 8))
    start = time.perf_counter()
    values = s.eigenvalues(10_000)
    assert time.perf_counter() - start < 10  # the limit detects a hang; it is no benchmark
    assert values.sum() + s.tail(10_000) == pytest.approx(1.0, rel=1e-12)
