"""N-rate-rounding: `rate` in doubles, not enlarged, is below the ball's end by the roundings counted at most."""

from __future__ import annotations

from typing import Any

import mpmath as mp
import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from observer import Observer

import gpbounds
from gpbounds.enclosures.known import laws
from gpbounds.inputs import Empirical, Gaussian
from gpbounds.kdpp import expected_trace
from gpbounds.kernels import SquaredExponential
from gpbounds.numerics.scalars import F_hat, tangent
from gpbounds.rates.rounding import before_data, given_eigenvalues
from gpbounds.rates.setting import Setting
from gpbounds.reference import scalars as reference
from gpbounds.rigor import below, enclosed
from gpbounds.spectra import spectrum
from gpbounds.statements import UP, enlargement

UNIT = mp.mpf(2) ** -53
ORDERS = st.one_of(st.floats(1e-9, 1.0), st.sampled_from([0.5, 1.0, 0.5 + 2.0**-53, 1 - 2.0**-53]))


def powers(low: float, high: float) -> st.SearchStrategy[float]:
    """10^u for u in low ... high."""
    return st.floats(low, high).map(lambda u: 10.0**u)


RATIOS = st.one_of(powers(-6, 6).map(lambda ell: [ell]), st.lists(powers(-2, 2), min_size=2, max_size=4))
"""ℓ/s in one dimension, or different ones in several."""


def law_of(ratios: list[float], equal: int, correlation: float) -> tuple[SquaredExponential, Gaussian]:
    """One ratio in ``equal`` dimensions, or ``ratios`` in theirs; with a correlation of the first two columns."""
    if len(ratios) == 1:
        return SquaredExponential(1.7, ratios[0]), Gaussian(dim=equal)
    cov = np.eye(len(ratios))
    cov[0, 1] = cov[1, 0] = correlation
    return SquaredExponential(1.7, ratios), Gaussian(cov=cov) if correlation else Gaussian(dim=len(ratios))


@pytest.mark.claim("N-rate-rounding")
@given(
    ratios=RATIOS,
    equal=st.sampled_from([1, 2, 3, 6, 20]),
    correlation=st.sampled_from([0.0, 0.0, 0.9]),
    M=st.one_of(st.integers(0, 60), st.integers(61, 5000)),
)
@example([0.01, 0.02, 0.3], 1, 0.0, 5000)
@example([1e-6], 6, 0.0, 5000)
def test_tails_in_doubles(observe: Observer, ratios: list[float], equal: int, correlation: float, M: int) -> None:
    kernel, inputs = law_of(ratios, equal, correlation)
    law = spectrum(kernel, inputs=inputs)
    log_tail = law.log_tail(M)
    truth = below(enclosed(lambda: laws(kernel, inputs).tail(M)))
    c = before_data(law, np.asarray(float(max(M, 1))))
    observe.upper("N-rate-rounding", mp.mpf(truth) * (1 - float(c) * UNIT), mp.exp(mp.mpf(log_tail)))


@pytest.mark.claim("N-rate-rounding")
@given(
    ratios=RATIOS,
    equal=st.sampled_from([1, 1, 2, 6]),
    N=powers(0.7, 12).map(round),
    share=st.floats(0, 1),
    alpha=ORDERS,
    noise=powers(-12, 6),
    delta=powers(-12, -0.01),
    tv=st.sampled_from([0.0, 0.0, 1e-12]),
    y_norm2=st.sampled_from([None, None, 1e-3, 1e12]),
    form=st.sampled_from(["sharpest", "printed"]),
)
def test_rate_before_it_is_enlarged(
    observe: Observer,
    ratios: list[float],
    equal: int,
    N: int,
    share: float,
    alpha: float,
    noise: float,
    delta: float,
    tv: float,
    y_norm2: float | None,
    form: str,
) -> None:
    kernel, inputs = law_of(ratios, equal, 0.0)
    M = max(1, min(round(float(N) ** share), N - 1, 10**9 if inputs.dim == 1 else 100))
    setting = Setting.checked(kernel, alpha, inputs, noise, delta, y_norm2, tv, form, "q||p")
    data, inducing = np.asarray(float(N)), np.asarray(float(M))
    fast = float(setting.bound(data, inducing))
    c = float(setting.law.roundings(data, inducing))
    proved: Any = gpbounds.rate(
        kernel, N, M, alpha, inputs=inputs, noise=noise, delta=delta, tv=tv, y_norm2=y_norm2, form=form, rigor="arb"
    )
    assume(float(proved) > 1e-290)
    computed = mp.mpf(fast) / mp.mpf(float(enlargement(c)))
    # The double above the ball is up to one unit above its end.
    observe.upper("N-rate-rounding", mp.mpf(float(proved)) * (1 - (c + 2) * UNIT), computed)
    assert c > 0.0
    assert float(enlargement(c)) >= max(UP, 1.0 + c * 2.0**-53)


@pytest.mark.claim("N-tangent")
@given(
    alpha=st.one_of(st.floats(0.5, 1.0, exclude_min=True, exclude_max=True), powers(-16, -1).map(lambda b: 1.0 - b)),
    share=st.one_of(powers(-9, 9), st.floats(0.9, 1.1)),
)
@example(0.5 + 2.0**-53, 1.0)
@example(1.0 - 2.0**-53, 1.0)
@example(0.5 + 5e-13, 1.0 - 1e-9)
def test_the_concave_majorant_in_doubles(observe: Observer, alpha: float, share: float) -> None:
    """The slope is not below the greatest F(x)/x, nor F̂ below the exact one, by more than the roundings counted."""
    assume(0.5 < alpha < 1.0)
    start, slope = tangent(alpha)
    x = float(start) * share
    with mp.workdps(80):
        touching = reference.tangency(mp.mpf(alpha))
        steepest = reference.F(touching, mp.mpf(alpha)) / touching
        truth = reference.F_hat(mp.mpf(x), mp.mpf(alpha))
        observe.upper("N-tangent", steepest * (1 - 500 * UNIT), mp.mpf(float(slope)))
        observe.upper("N-tangent", mp.mpf(float(slope)), steepest * (1 + 100 * UNIT))
        observe.upper("N-tangent", truth * (1 - 1100 * UNIT), mp.mpf(float(F_hat(x, alpha))))


@pytest.mark.claim("N-tangent")
@given(alpha=st.floats(0.5, 1.0, exclude_min=True, exclude_max=True), beyond=powers(-6, 3), before=st.floats(0.01, 1.0))
def test_a_tangent_anywhere_beyond_the_turn(observe: Observer, alpha: float, beyond: float, before: float) -> None:
    """The inequality that needs no maximiser: x0 is any point beyond the turn, x1 any before it."""
    with mp.workdps(60):
        a, b = mp.mpf(alpha), 1 - mp.mpf(alpha)
        low, turn = mp.mpf(0), (2 * a - 1) / (3 * b)
        for _ in range(240):
            middle = (low + turn) / 2
            convex = 2 * a - 1 > b * middle * (3 + 3 * middle + b * middle**2)
            low, turn = (middle, turn) if convex else (low, middle)
        x0, x1 = turn * (1 + mp.mpf(beyond)), turn * mp.mpf(before)
        chord, slope = reference.F(x0, a) / x0, (1 / (1 + b * x0) + a / (1 + b * x0) ** 2 - 1 / (1 + x0)) / 2
        touching = reference.tangency(a)
        bound = slope + max(chord - slope, mp.mpf(0)) * x0 / x1
        observe.upper("N-tangent", reference.F(touching, a) / touching, bound, tol=1e-40)


@pytest.mark.claim("N-rate-rounding")
def test_sums_of_many_terms_are_counted() -> None:
    """n is what the tails were summed from, also where R-lem3 uses more eigenvalues than N-pop; few stay at 1e-11."""
    setting = Setting.checked(
        SquaredExponential(1.0, [0.01, 0.02]), 1.0, Gaussian(dim=2), 0.1, 0.05, None, 0.0, "sharpest", "q||p"
    )
    N, few, many = (np.asarray(number) for number in (1e6, 64.0, 50_000.0))
    setting.bound(N, few)
    assert float(setting.law.roundings(N, few)) * 2.0**-53 < 1e-11
    setting.bound(N, many)
    n = setting.law.spectrum.ordered  # type: ignore[attr-defined]
    assert n >= 50_000
    assert float(setting.law.roundings(N, many)) > 75_000 + 4 * n


@pytest.mark.claim("N-rate-rounding")
@pytest.mark.parametrize(("N", "sizes"), [(30, [1, 7, 20]), (400, [1, 50, 300])])
@pytest.mark.parametrize("ell", [0.01, 1.0])
def test_mean_trace_of_given_eigenvalues(observe: Observer, N: int, sizes: list[int], ell: float) -> None:
    """For the upper ends of the eigenvalues as they are: the value and the ball differ by the count at most."""
    X = np.random.default_rng(N).standard_normal((N, 1))
    setting = Setting.checked(SquaredExponential(1.3, ell), 1.0, Empirical(X), 0.1, 0.05, None, 0.0, "sharpest", "q||p")
    M = np.array(sizes, dtype=np.float64)
    computed = setting.law.sharpest(np.asarray(float(N)), M)
    upper = setting.law.spectrum.upper_eigenvalues() * N  # type: ignore[attr-defined]
    proved = expected_trace(upper, sizes, rigor="arb")
    for value, truth, c in zip(computed, proved, given_eigenvalues(np.asarray(float(N)), M), strict=True):
        observe.upper("N-rate-rounding", mp.mpf(float(truth)) * (1 - mp.mpf(float(c)) * UNIT), mp.mpf(float(value)))
        observe.upper("N-rate-rounding", mp.mpf(float(value)) * (1 - mp.mpf(float(c)) * UNIT), mp.mpf(float(truth)))
