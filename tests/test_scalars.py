"""The scalar functions of the sharper bounds against their definitions in high precision, to a few ulp."""

from __future__ import annotations

import mpmath as mp
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gpbounds.numerics import scalars
from gpbounds.numerics.scalars import log1p_residual, scaled_log1p
from gpbounds.reference import renyi as exact

EPS = np.finfo(np.float64).eps
FEW = 32 * EPS
TINY = 5e-323  # ten steps of the subnormal numbers: there an ulp is not relative

logs = st.floats(-300.0, 300.0)
moderate = st.floats(-12.0, 12.0)
xs = st.one_of(moderate, logs).map(lambda e: 10.0**e)
alphas = st.one_of(
    st.floats(0.0, 1.0, exclude_min=True),
    st.floats(-300.0, -1.0).map(lambda e: 10.0**e),
    st.floats(-16.0, -1.0).map(lambda e: 1.0 - 10.0**e),
    st.sampled_from([0.5, 0.5 - 2**-54, 0.5 + 2**-53, 1.0, 1.0 - 2**-53]),
).filter(lambda a: a > 1e-300)
corners = [(1e-300, 1e-300), (1e-300, 1.0), (1e300, 1e-300), (1e300, 1.0 - 2**-53), (1.0, 1e-300), (0.5, 1.0)]


def precisely(function, *args):
    """``function`` of the doubles ``args`` to 50 digits beyond whatever cancels between them."""
    reach = sum(abs(float(mp.log10(a))) for a in args if a > 0)
    with mp.workdps(50 + int(2 * reach)):
        return function(*(mp.mpf(a) for a in args))


def close(value, truth, relative=FEW, absolute=TINY):
    assert abs(mp.mpf(float(value)) - truth) <= relative * abs(truth) + absolute, (float(value), mp.nstr(truth, 20))


def at_corners(test):
    for x, alpha in corners:
        test = example(x=x, alpha=alpha)(test)
    return test


@at_corners
@example(x=1e-153, alpha=0.9999)
@given(x=xs, alpha=alphas)
def test_G(x, alpha):
    divided = TINY / (1.0 - alpha) if 0.5 <= alpha < 1.0 else TINY  # a subnormal number over β
    close(scalars.G(x, alpha), precisely(exact.G, x, alpha), absolute=divided)


@at_corners
@given(x=xs, alpha=alphas)
def test_F(x, alpha):
    close(scalars.F(x, alpha), precisely(exact.F, x, alpha))


@at_corners
@given(x=xs, alpha=alphas)
def test_psi(x, alpha):
    close(scalars.psi(x, alpha), precisely(exact.psi, x, alpha))


@at_corners
@given(x=xs, alpha=alphas)
def test_scaled_log1p(x, alpha):
    # The doubles x and β; alpha plays β here, 0 included below.
    close(scaled_log1p(x, alpha), precisely(exact.scaled_log, x, alpha))
    assert scaled_log1p(x, 0.0) == x


@given(x=xs, n=st.integers(1, 10**9), noise=st.floats(1e-6, 1e6), alpha=alphas)
@example(x=4.0, n=1, noise=0.5, alpha=1.0)
def test_trace_term(x, n, noise, alpha):
    close(scalars.trace_term(x, n, alpha, noise=noise), precisely(exact.trace_term, x, n, noise, alpha))


@given(x=xs | st.floats(-1.0, 0.0, exclude_min=True, exclude_max=True))
@example(x=0.5)
@example(x=-1.0 + 2**-53)
@example(x=1e-300)
@example(x=-1 / 3)
def test_log1p_residual(x):
    with mp.workdps(700):
        truth = mp.mpf(x) - mp.log1p(mp.mpf(x))
    close(log1p_residual(x), truth)


@given(x=moderate.map(lambda e: 10.0**e), alpha=st.floats(1e-12, 1.0))
@example(x=1.0, alpha=0.75)
@example(x=1e-9, alpha=1.0 - 2**-53)
@example(x=1e12, alpha=1.0 - 2**-53)
@example(x=1e-3, alpha=0.5 + 2**-53)
@example(x=3.0, alpha=1.0)
@example(x=3.0, alpha=0.5)
def test_F_hat(x, alpha):
    with mp.workdps(80):
        truth = exact.F_hat(mp.mpf(x), mp.mpf(alpha)) if alpha < 1.0 else mp.mpf(x)
    close(scalars.F_hat(x, alpha), truth, relative=2e-14)


@given(alpha=st.floats(0.5, 1.0, exclude_min=True, exclude_max=True))
@example(alpha=0.5 + 2**-53)
@example(alpha=1.0 - 2**-53)
def test_the_tangent_touches_and_stays_above(alpha):
    start, slope = scalars.tangent(alpha)
    close(slope * start, mp.mpf(float(scalars.F(start, alpha))))
    x = np.concatenate([np.geomspace(1e-12, 1e25, 400), start * np.linspace(0.5, 2.0, 101)])
    F = scalars.F(x, alpha)
    assert (slope * x >= F * (1.0 - FEW)).all()


def test_the_tangent_is_found_for_every_order():
    """Also for the doubles next to ½ and 1; a slope that is not proved close to F(x)/x would be an error."""
    steps = 2.0**-53 * np.arange(1, 500)
    alpha = np.concatenate([0.5 + 2.0 * steps, 1.0 - steps, np.linspace(0.5, 1.0, 2000)[1:-1]])
    start, slope = scalars.tangent(alpha)
    chord = scalars.F(start, alpha) / start
    assert (chord <= slope).all()
    assert (slope <= chord * (1.0 + 64 * EPS)).all()


def test_the_tangent_at_and_below_a_half_and_at_one():
    start, slope = scalars.tangent([1e-3, 0.5, 1.0])
    assert start.tolist() == [0.0, 0.0, np.inf]
    assert slope[2] == 1.0
    x = np.geomspace(1e-6, 1e6, 25)
    for alpha in (1e-3, 0.5):
        np.testing.assert_array_equal(scalars.F_hat(x, alpha), scalars.F(x, alpha))
    np.testing.assert_array_equal(scalars.F_hat(x, 1.0), x)


@given(seed=st.integers(0, 2**32 - 1), alpha=alphas)
def test_F_hat_is_above_F_and_concave(seed, alpha):
    rng = np.random.default_rng(seed)
    x, z = 10.0 ** rng.uniform(-10, 10, (2, 60))
    t = rng.uniform(size=60)
    F_hat = scalars.F_hat
    assert (F_hat(x, alpha) >= scalars.F(x, alpha) * (1.0 - FEW)).all()
    chord = t * F_hat(x, alpha) + (1.0 - t) * F_hat(z, alpha)
    assert (F_hat(t * x + (1.0 - t) * z, alpha) >= chord * (1.0 - 1e-13)).all()


@given(seed=st.integers(0, 2**32 - 1), alpha=alphas)
def test_order_and_growth(seed, alpha):
    """0 <= G <= F, and G, F, ψ and g_n grow with x: what the searches over M rely on."""
    x = np.sort(10.0 ** np.random.default_rng(seed).uniform(-10, 10, 60))
    G, F, psi, g = (
        f(x, alpha) for f in (scalars.G, scalars.F, scalars.psi, lambda x, a: scalars.trace_term(x, 7, a, noise=2.0))
    )
    assert (G >= 0).all()
    assert (G <= F * (1 + FEW)).all()
    for values in (G, F, psi, g):
        assert (values[1:] >= values[:-1] * (1 - FEW)).all()


@pytest.mark.parametrize("alpha", [1e-300, 0.1, 0.5, 0.75, 1.0])
def test_zero_gives_zero(alpha):
    for function in (scalars.G, scalars.F, scalars.F_hat, scalars.psi):
        assert function(0.0, alpha) == 0.0
    assert scalars.trace_term(0.0, 3, alpha, noise=0.5) == 0.0
    assert scalars.log_det_term([0.0, 0.0], alpha) == 0.0


@pytest.mark.parametrize("x", [1e-8, 0.3, 1.0, 40.0, 1e8])
def test_the_limit_of_order_one_is_reached(x):
    """At α = 1: G = ½(x - log(1+x)), F = G + x/2, F̂ = x, ψ = x/(1+x), and 1 - 2⁻⁵³ is close to all of them but F̂'s."""
    residual = 0.5 * precisely(lambda x: x - mp.log(1 + x), x)
    for function, limit in (
        (scalars.G, residual),
        (scalars.F, residual + mp.mpf(x) / 2),
        (scalars.psi, mp.mpf(x) / (1 + mp.mpf(x))),
    ):
        close(function(x, 1.0), limit)
        assert float(function(x, 1.0 - 2**-53)) == pytest.approx(float(limit), rel=1e-6)
    assert scalars.F_hat(x, 1.0) == x


@settings(max_examples=8)
@given(seed=st.integers(0, 2**32 - 1), alpha=alphas)
def test_arrays_give_what_numbers_give(seed, alpha):
    rng = np.random.default_rng(seed)
    x, orders = 10.0 ** rng.uniform(-5, 5, (2, 1)), np.append(rng.uniform(0.01, 1.0, 2), alpha)
    for function in (scalars.G, scalars.F, scalars.F_hat, scalars.psi):
        table = function(x, orders)
        assert table.shape == (2, 3)
        each = [[float(function(a, b)) for b in orders] for a in x[:, 0]]
        np.testing.assert_allclose(table, each, rtol=1e-14)


@given(d=st.lists(st.floats(0.0, 1e9), min_size=1, max_size=20), alpha=alphas)
def test_log_det_term_is_the_log_determinant(d, alpha):
    truth = sum(precisely(lambda e, a: a / 2 * exact.scaled_log(e, 1 - a), e, alpha) for e in d)
    close(scalars.log_det_term(d, alpha), truth, relative=100 * EPS)


@given(seed=st.integers(0, 2**32 - 1), n=st.integers(1, 20), alpha=alphas)
def test_trace_term_is_above_the_log_determinant_and_equal_for_equal_eigenvalues(seed, n, alpha):
    d = 10.0 ** np.random.default_rng(seed).uniform(-6, 6, n)
    noise = 0.5
    trace = noise * d.sum()
    assert scalars.log_det_term(d, alpha) <= scalars.trace_term(trace, n, alpha, noise=noise) * (1 + 1e-13)
    equal = np.full(n, d[0])
    assert scalars.log_det_term(equal, alpha) == pytest.approx(
        float(scalars.trace_term(noise * equal.sum(), n, alpha, noise=noise)), rel=1e-13
    )
