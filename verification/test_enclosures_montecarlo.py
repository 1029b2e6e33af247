"""Sample sizes of biased Monte Carlo in balls: against 50 digits, and the doubles against them."""

from __future__ import annotations

from typing import Any

import mpmath as mp
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from observer import Observer

from gpbounds.likelihoods import Bernoulli, Gaussian, Likelihood, Poisson, StudentT
from gpbounds.montecarlo import balls as enclosures
from gpbounds.montecarlo import failure_share, lemma6, sample_size
from gpbounds.reference import montecarlo as reference
from gpbounds.rigor import at_bits

POWERS = st.floats(-3.0, 3.0).map(lambda e: 10.0**e)
SHARES = st.one_of(st.floats(-12.0, -1.0).map(lambda e: 10.0**e), st.floats(0.1, 1 - 1e-9))
MODELS: st.SearchStrategy[tuple[Likelihood, float]] = st.one_of(
    st.tuples(st.sampled_from([Bernoulli("probit"), Bernoulli("logit")]), st.sampled_from([-1.0, 1.0])),
    st.tuples(st.builds(Gaussian, POWERS), st.floats(-5.0, 5.0)),
    st.tuples(st.builds(StudentT, st.floats(-1.0, 3.0).map(lambda e: 10.0**e), POWERS), st.floats(-5.0, 5.0)),
    st.tuples(st.just(Poisson("exp")), st.integers(0, 10**6).map(float)),
)


def number(ball: Any) -> Any:
    """The middle of a ball of 256 bits, as a number of mpmath."""
    with at_bits(256):
        return mp.mpf(ball.mid().str(60, radius=False))


def ranges(likelihood: Likelihood, y: float) -> list[Any]:
    """sup φ, inf φ', sup φ', inf φ'', sup φ'' to 60 digits."""
    with at_bits(256):
        top, first, second = enclosures.derivative_range(likelihood, y)
        assert all(ball.is_zero() or ball.rel_accuracy_bits() > 180 for ball in (top, *first, *second))
    return [number(ball) for ball in (top, *first, *second)]


@pytest.mark.claim("D-30", "D-31", "D-32", "D-34", "D-35")
@given(model=MODELS, u=st.floats(-1.0, 1.0))
@example((Poisson("exp"), 0.0), 0.3)
def test_ranges_in_balls_contain_the_derivatives_and_doubles_are_near(
    observe: Observer, model: tuple[Likelihood, float], u: float
) -> None:
    likelihood, y = model
    top, low, high, least, most = ranges(likelihood, y)
    claim = {"bernoulli": "D-30", "gaussian": "D-31", "student_t": "D-35", "poisson": "D-34"}[likelihood.name]
    f = mp.log(y + 1) + 8 * u / mp.sqrt(y + 1) if likelihood.name == "poisson" else y + 8 * u
    density = np.exp(likelihood.log_density(y, float(f)))
    slope, bend, _ = likelihood.derivatives(y, float(f))
    roundings = 1e-9
    observe.holds(claim, 0 <= density <= top * (1 + roundings))
    observe.holds(claim, low * (1 + roundings) <= slope * density <= high * (1 + roundings))
    second = float((slope * slope + bend) * density)
    slack = roundings * float(abs(slope * slope) + abs(bend)) * float(density)
    observe.holds(claim, least - slack <= second <= most + slack)
    near = likelihood.derivative_range(y)
    allowed = mp.mpf("1e-14") * (1 + mp.sqrt(y) / 10 if likelihood.name == "poisson" else 1)
    allowed *= 1 + (likelihood.df / 10 if isinstance(likelihood, StudentT) else 0)
    for truth, value in zip((top, low, high, least, most), (near.density[1], *near.first, *near.second), strict=True):
        observe.equal(claim, mp.mpf(float(value)), truth, rtol=allowed)


@pytest.mark.claim("D-41", "D-48")
@given(
    low=st.floats(-1e3, 1e3), width=POWERS, where=st.floats(0.0, 1.0), r=SHARES, delta=SHARES, t=st.integers(1, 10**6)
)
def test_lemma_6_and_shares(
    observe: Observer, low: float, width: float, where: float, r: float, delta: float, t: int
) -> None:
    """The least whole number above the threshold; doubles are never below it; shares are rounded down."""
    high = low + width
    mean = min(max(low + where * width, low), high)
    if mean == 0.0:
        return
    truth = reference.lemma6(mp.mpf(low), mp.mpf(high), mp.mpf(mean), mp.mpf(r), delta)
    proved = lemma6(low, high, mean, relative_error=r, delta=delta, rigor="sharp")
    fast = lemma6(low, high, mean, relative_error=r, delta=delta)
    observe.holds("D-41", mp.mpf(proved) > truth)
    observe.holds("D-41", proved <= fast)
    if truth < 2**53:
        observe.holds("D-41", proved == mp.floor(truth) + 1)
        observe.holds("D-41", fast <= mp.floor(truth * (1 + mp.mpf("3e-14"))) + 1)
    share = reference.share(mp.mpf(delta), t)
    down, near = failure_share(t, delta=delta, rigor="sharp"), failure_share(t, delta=delta)
    observe.lower("D-48", share, mp.mpf(down))
    observe.upper("D-48", share * (1 - mp.mpf(2) ** -51), mp.mpf(down))
    observe.equal("D-48", mp.mpf(near), share, rtol=6 * mp.mpf(2) ** -53)


@pytest.mark.claim("D-50", "N-cher")
@given(
    model=MODELS,
    part=st.floats(-6.0, -1e-3).map(lambda e: 10.0**e),
    step=st.floats(-6.0, 1.0).map(lambda e: 10.0**e),
    n=st.integers(1, 10**9),
    t=st.integers(1, 10**6),
    delta=SHARES,
    rule=st.sampled_from(["improved", "chernoff"]),
)
def test_sample_sizes_are_the_whole_numbers_above_the_theorem(
    observe: Observer,
    model: tuple[Likelihood, float],
    part: float,
    step: float,
    n: int,
    t: int,
    delta: float,
    rule: Any,
) -> None:
    likelihood, y = model
    top, low, high, least, most = ranges(likelihood, y)
    zeta = float(part * top)
    options: dict[str, Any] = {"n": n, "delta": delta, "step": step, "iteration": t, "zeta": zeta, "rule": rule}
    proved = sample_size(likelihood, y, **options, rigor="sharp")
    fast = sample_size(likelihood, y, **options)
    assert proved.certified
    assert not fast.certified
    a, claim = mp.mpf(min(step, 0.5)), "D-50" if rule == "improved" else "N-cher"
    factor = (top / mp.mpf(zeta)) ** 2
    if rule == "chernoff":
        factor = min(factor, 2 * a**2 / reference.relative_divergence(mp.mpf(zeta) / top, a))
    factor = max(factor, (high - low) ** 2, (most - least) ** 2)
    truth = reference.threshold(n, reference.share(mp.mpf(delta), t), a, factor)
    observe.upper(claim, truth, mp.mpf(proved.threshold))
    observe.upper(claim, mp.mpf(proved.threshold), truth * (1 + mp.mpf(2) ** -51))
    observe.holds(claim, mp.mpf(proved.L) > truth)
    if truth < 2**53:
        observe.holds(claim, proved.L == mp.floor(truth) + 1)
    star = max(abs(x) for x in (top, low, high, least, most))
    observe.upper(claim, 2 * (1 + star) / mp.mpf(zeta), mp.mpf(proved.c3))
    if likelihood.name != "poisson" and not isinstance(likelihood, StudentT):
        observe.holds(claim, fast.L >= proved.L)
    if likelihood.name != "poisson":
        observe.equal(claim, mp.mpf(float(fast.threshold)), truth, rtol=mp.mpf("1e-13"))


@pytest.mark.claim("N-cher")
def test_relative_divergences_of_small_errors_keep_their_digits(observe: Observer) -> None:
    """(1 + a) log(1 + a) − a loses 10 digits at a = 1e-3: as a difference it gave L below the theorem's."""
    likelihood, zeta, step = Bernoulli("probit"), 0.1, np.linspace(1.0e-3, 1.3e-3, 400)
    options: dict[str, Any] = {"n": 10**6, "delta": 1e-3, "step": step, "iteration": 1, "rule": "chernoff"}
    fast = sample_size(likelihood, 1.0, zeta=zeta, **options)
    proved = sample_size(likelihood, 1.0, zeta=zeta, **options, rigor="sharp")
    observe.holds("N-cher", (np.asarray(fast.L) >= np.asarray(proved.L)).all(), cases=step.size)
    observe.holds("N-cher", np.abs(fast.threshold / proved.threshold - 1).max() < 4e-15)


def test_what_balls_do_not_enclose_is_refused() -> None:
    options: dict[str, Any] = {"n": 10, "delta": 0.05, "step": 0.1, "iteration": 1, "rigor": "sharp"}
    with pytest.raises(ValueError, match="rigor: expected 'float' with rule='printed' or without zeta"):
        sample_size(Bernoulli("probit"), 1.0, m=0.0, v=1.0, **options)
    with pytest.raises(ValueError, match="no extremes in closed form"):
        sample_size(Poisson("softplus"), 1.0, zeta=0.1, **options)
