"""Truncated Mercer expansions in balls: against 50 digits, and what is certified in doubles against them."""

from __future__ import annotations

from typing import Any

import mpmath as mp
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from observer import Observer

from gpbounds import Gaussian, SquaredExponential
from gpbounds.bound import enlargement
from gpbounds.lowrank import balls as balls
from gpbounds.lowrank import mercer_kl, mercer_rank, residual_certificate, truncation
from gpbounds.rates.trace import FAR
from gpbounds.reference import lowrank as reference
from gpbounds.reference.spectra import ratio
from gpbounds.rigor import exact, outer
from gpbounds.spectra import spectrum

ALLOWED = mp.mpf("1.1e-11")
"""What doubles may differ from the ball beside their declared allowance, 1e-11 or the roundings counted."""
UNIT = mp.mpf(2) ** -53
SIZES = st.floats(0.0, 12.0).map(lambda e: round(10.0**e))
POWERS = st.floats(-12.0, 6.0).map(lambda e: 10.0**e)
SHARES = st.one_of(st.floats(-12.0, -1.0).map(lambda e: 10.0**e), st.floats(0.1, 1 - 1e-9))


@pytest.mark.claim("L-42", "L-43", "N-mercer", "N-mercer-rounding")
@given(
    ell=st.floats(-4.0, 4.0).map(lambda e: 10.0**e),
    dim=st.sampled_from([1, 1, 2, 5]),
    N=SIZES,
    r=st.floats(0.0, 3.0).map(lambda e: round(10.0**e) - 1),
    noise=POWERS,
    variance=POWERS,
    delta=st.one_of(st.none(), SHARES),
    form=st.sampled_from(["sharpest", "sharpest", "printed"]),
)
@example(1.0, 1, 1000, 0, 0.1, 1.0, None, "sharpest")
@example(1.0, 1, 1000, 1, 0.1, 1.0, 0.05, "sharpest")
def test_mercer_kl_in_doubles_is_above_the_ball(
    observe: Observer,
    ell: float,
    dim: int,
    N: int,
    r: int,
    noise: float,
    variance: float,
    delta: float | None,
    form: str,
) -> None:
    """Certified doubles are not below the upper end of the ball, and at most their allowance above it."""
    options: dict[str, Any] = {"inputs": Gaussian(dim=dim), "noise": noise, "delta": delta, "form": form}
    kernel = SquaredExponential(variance, ell)
    fast = mercer_kl(kernel, N, r, **options)
    proved = mercer_kl(kernel, N, r, **options, rigor="sharp")
    assert fast.certified
    assert proved.certified
    claim = "N-mercer" if delta is None else "L-42"
    value, truth = mp.mpf(float(fast)), mp.mpf(float(proved))
    c = 2.0 * float(spectrum(kernel, inputs=options["inputs"]).roundings(np.asarray(float(r)), FAR)) + 200.0
    if truth < mp.mpf(10) ** 308:
        observe.upper(claim, truth, value)
        # The double above the ball is up to one unit above its end; the value is enlarged after it is computed.
        computed = value / mp.mpf(float(enlargement(c))) + mp.mpf(2) ** -1022
        observe.upper("N-mercer-rounding", truth * (1 - (c + 2) * UNIT), computed)
    if mp.mpf(10) ** -290 < min(truth, mp.mpf(float(proved.terms["tail"]))) and truth < mp.mpf(10) ** 300:
        x = N * mp.mpf(float(proved.terms["tail"])) / mp.mpf(noise)
        allowance = mp.mpf(float(enlargement(c))) - 1
        observe.equal(claim, value, truth, rtol=ALLOWED + allowance, atol=x * mp.mpf("2e-15") if delta is None else 0.0)


NEAR_ONE = st.floats(-15.9, -0.1).map(lambda e: 1.0 - 10.0**e)


@pytest.mark.claim("N-mercer-rounding")
@given(
    p=st.one_of(st.floats(-300.0, -1e-3).map(lambda e: 10.0**e), NEAR_ONE),
    N=SIZES,
    delta=st.one_of(st.floats(-300.0, -0.01).map(lambda e: 10.0**e), NEAR_ONE),
    near=st.one_of(st.none(), st.floats(-16.0, 0.0).map(lambda e: 10.0**e)),
)
@example(2.4951708735096422e-39, 1, 0.5, 4e-7)
def test_chernoff_in_doubles(observe: Observer, p: float, N: int, delta: float, near: float | None) -> None:
    """(1 + 14u)q reaches the level of kl, or 1, and (1 - 400u)q does not; ``near`` for a q that is near 1."""
    if near is not None:
        N, delta = 1, min(p * (1.0 + near), 1.0 - 2.0**-53)
    q = mp.mpf(float(truncation.chernoff(np.asarray(p), np.asarray(1.0), np.asarray(float(N)), np.asarray(delta))))
    with mp.workdps(330):
        level, share = -mp.log(mp.mpf(delta)) / N, mp.mpf(p)

        def reached(q: Any) -> Any:
            return q * mp.log(q / share) + (1 - q) * mp.log((1 - q) / (1 - share))

        above, below = q * (1 + 14 * UNIT), q * (1 - 400 * UNIT)
        observe.holds("N-mercer-rounding", above >= 1 or reached(above) >= level)
        observe.holds("N-mercer-rounding", below <= share or reached(below) <= level)


@pytest.mark.claim("N-mercer-rounding")
@given(mean=SHARES, top=POWERS, N=SIZES, delta=SHARES)
@example(1e-290, 1e-12, 10**12, 0.05)
def test_roots_of_tiny_means_do_not_underflow(observe: Observer, mean: float, top: float, N: int, delta: float) -> None:
    mean *= top
    numbers = [np.asarray(float(number)) for number in (mean, top, N, delta)]
    for fast, slow in ((truncation.cantelli, balls.cantelli), (truncation.chebyshev, balls.chebyshev)):
        truth = outer(lambda *cell, slow=slow: slow(*(exact(x) for x in cell)), *numbers)
        observe.upper("N-mercer-rounding", mp.mpf(float(truth)) * (1 - 9 * UNIT), mp.mpf(float(fast(*numbers))))


@pytest.mark.claim("L-42", "L-43", "N-mercer", "L-09")
@given(
    ell=st.floats(-2.0, 2.0).map(lambda e: 10.0**e),
    N=SIZES,
    r=st.integers(0, 60),
    noise=POWERS,
    delta=st.one_of(st.none(), SHARES),
    form=st.sampled_from(["sharpest", "printed"]),
)
def test_mercer_kl_by_balls_is_the_double_above_the_theorem(
    observe: Observer, ell: float, N: int, r: int, noise: float, delta: float | None, form: str
) -> None:
    proved = mercer_kl(
        SquaredExponential(1.0, ell), N, r, inputs=Gaussian(), noise=noise, delta=delta, form=form, rigor="sharp"
    )
    with mp.workdps(400):
        tail, one, s2 = ratio(ell, 1) ** r, mp.mpf(1), mp.mpf(noise)
        x = N * tail / s2
        if delta is None:
            some = 1 - (1 - tail) ** N
            half = min(tail, one / 2)
            first = (x - some * mp.log1p(1 / s2)) / 2
            second = reference.divergence(x) + N * half * (1 - half) / (4 * s2**2)
            truth = x / 2 if form == "printed" else min(first, second, x / 2)
        elif form == "printed":
            truth = N * reference.chebyshev(tail, one, N, mp.mpf(delta)) / (2 * s2)
        else:
            d = mp.mpf(delta)
            odds = (1 - d) / (N * d)
            rising = tail < (1 + 1 / mp.sqrt(1 + odds)) / 2
            cantelli = min(reference.cantelli(tail, one, N, d), one) if rising else one
            with mp.workdps(80):
                chernoff = reference.chernoff(tail, one, N, d) * (1 + mp.mpf(10) ** -60) if tail < 1 else one
            truth = reference.divergence(N * min(cantelli, chernoff, tail / d) / s2)
    claim = "N-mercer" if delta is None else "L-42"
    slack = 1 - mp.mpf(10) ** -55
    observe.upper(claim, truth * slack, mp.mpf(float(proved)))
    if mp.mpf(10) ** -290 < truth < mp.mpf(10) ** 308:
        observe.upper(claim, mp.mpf(float(proved)), truth * (1 + mp.mpf(2) ** -51))


@pytest.mark.claim("L-42")
@given(ell=st.floats(-1.0, 1.0).map(lambda e: 10.0**e), N=SIZES, target=st.floats(-6.0, 4.0).map(lambda e: 10.0**e))
def test_ranks_by_balls_are_no_greater(observe: Observer, ell: float, N: int, target: float) -> None:
    options: dict[str, Any] = {"inputs": Gaussian(), "noise": 0.1}
    fast = mercer_rank(SquaredExponential(1.0, ell), N, target, **options)
    proved = mercer_rank(SquaredExponential(1.0, ell), N, target, **options, rigor="sharp")
    if fast.M is None or proved.M is None:
        observe.holds("L-42", proved.M == fast.M)
        return
    observe.holds("L-42", proved.M in (fast.M, fast.M - 1))
    observe.holds("L-42", float(proved.bound) <= target)  # type: ignore[arg-type]
    observe.holds("L-42", proved.bound_before is None or float(proved.bound_before) > target)


@pytest.mark.claim("L-54", "L-09")
@given(
    seed=st.integers(0, 2**32 - 1),
    n=st.integers(1, 500),
    size=st.floats(-12.0, 6.0),
    noise=POWERS,
    error=st.sampled_from([0.0, 1e-14]),
)
def test_residual_certificates_are_rounded_upwards(
    observe: Observer, seed: int, n: int, size: float, noise: float, error: float
) -> None:
    diagonal = 10.0 ** np.random.default_rng(seed).uniform(-16.0, size, n)
    fast = residual_certificate(diagonal, noise=noise, rounding=error)
    proved = residual_certificate(diagonal, noise=noise, rounding=error, rigor="sharp")
    with mp.workdps(120):
        truth = reference.divergence(mp.fsum(mp.mpf(x) + mp.mpf(error) for x in diagonal) / mp.mpf(noise))
    observe.upper("L-54", truth, mp.mpf(float(proved)))
    observe.upper("L-54", mp.mpf(float(proved)), truth * (1 + mp.mpf(2) ** -51))
    observe.upper("L-54", mp.mpf(float(proved)), mp.mpf(float(fast)))
    observe.equal("L-54", mp.mpf(float(fast)), truth, rtol=mp.mpf("3.1e-11"))
