"""Bounds in Arb balls: they contain the formulas at 50 digits, and what is certified in doubles is never inside them.

No tolerance is on the safe side: a value that is one unit in the last place below the upper end of its ball fails.
"""

from __future__ import annotations

from typing import Any

import mpmath as mp
import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from observer import Observer

import gpbounds
from gpbounds.inputs import Gaussian
from gpbounds.kernels import SquaredExponential
from gpbounds.numerics import balls as scalars
from gpbounds.rates import balls as theorems
from gpbounds.rates.corollaries import Corollary, matern_corollary, smooth_corollary
from gpbounds.rates.one_draw import FLOOR
from gpbounds.reference import rates as reference
from gpbounds.reference import renyi as exact_scalars
from gpbounds.reference.rates import geometric_trace, population_trace
from gpbounds.reference.spectra import isotropic_tail, isotropic_tails, product_eigenvalues, ratio
from gpbounds.rigor import above, at_bits, below, enclosed, exact
from gpbounds.spectra.balls import laws

ORDERS = st.one_of(st.floats(1e-9, 1.0), st.sampled_from([0.5, 1.0, 0.5 + 2.0**-53, 1 - 2.0**-53, 0.75]))
ALLOWED = mp.mpf("2.1e-11")
"""The declared allowance of `rate` in doubles, 1e-11, and as much again for rounding and for eigenvalues left out."""


def powers(low: float, high: float) -> st.SearchStrategy[float]:
    """10^u for u in low ... high."""
    return st.floats(low, high).map(lambda u: 10.0**u)


def inside(truth: Any, ball: Any) -> bool:
    """Whether a ball contains a number of 50 digits, up to its last two digits."""
    slack = abs(truth) * mp.mpf(10) ** -47
    return bool(mp.mpf(below(ball)) <= truth + slack and truth - slack <= mp.mpf(above(ball)))


@pytest.mark.claim("N-Fhat", "N-psi", "R-amgm")
@given(x=powers(-60, 60), alpha=ORDERS, noise=powers(-12, 6), n=st.integers(1, 10**12))
def test_scalar_functions_lie_in_their_balls(observe: Observer, x: float, alpha: float, noise: float, n: int) -> None:
    with mp.workdps(300):
        a = mp.mpf(alpha)
        pairs = {
            "N-Fhat": (exact_scalars.F_hat(mp.mpf(x), a), lambda: scalars.F_hat(exact(x), alpha)),
            "N-psi": (exact_scalars.psi(mp.mpf(x), a), lambda: scalars.psi(exact(x), alpha)),
            "R-amgm": (
                exact_scalars.trace_term(mp.mpf(x), n, mp.mpf(noise), a),
                lambda: scalars.trace_term(exact(x), exact(n), alpha, exact(noise)),
            ),
        }
        for claim, (truth, expression) in pairs.items():
            ball = enclosed(expression)
            observe.holds(claim, inside(truth, ball))
            observe.holds(claim, ball.rel_accuracy_bits() >= 62)


@pytest.mark.claim("N-pop", "N-cut", "R-se-tail", "L-48")
@pytest.mark.parametrize("dim", [1, 2, 3])
@pytest.mark.parametrize("ell", [0.3, 2.0])
def test_traces_lie_between_their_ends(observe: Observer, dim: int, ell: float) -> None:
    """Tails by subtraction at high precision; R(μ) above that of fewer eigenvalues, below it with their remainder."""
    law, M = laws(SquaredExponential(1.7, ell), Gaussian(dim=dim)), 7
    for m in (0, 1, M, 40):
        ball = enclosed(lambda m=m: law.tail(m))  # type: ignore[misc]
        observe.holds("L-48" if dim > 1 else "R-se-tail", inside(isotropic_tail(ell, 1, mp.mpf(1.7), dim, m), ball))
    low, high = (enclosed(lambda i=i: theorems.population(law, M)[i]) for i in (0, 1))  # type: ignore[misc]
    if dim == 1:
        truth = mp.mpf(1.7) * geometric_trace(ratio(ell, 1), M)
        observe.holds("N-pop", inside(truth, low) and inside(truth, high))
    else:
        tails = isotropic_tails(ell, 1, mp.mpf(1.7), dim, 120)
        with mp.workdps(80):
            fewer, more = population_trace([tail - tails[-1] for tail in tails], M), population_trace(tails, M)
        observe.holds("N-cut", fewer <= mp.mpf(above(low)) and mp.mpf(below(low)) <= mp.mpf(above(high)))
        observe.holds("N-cut", mp.mpf(below(high)) <= more)


@pytest.mark.claim("L-46")
def test_tails_of_different_ratios_lie_in_their_balls(observe: Observer) -> None:
    lengthscales, stds = [0.8, 1.7, 3.0], [1.0, 0.5, 2.0]
    law = laws(SquaredExponential(2.0, lengthscales), Gaussian(stds))
    values = product_eigenvalues(lengthscales, stds, 30, 30)
    with at_bits(192):
        balls = [value for value, often in law.eigenvalues(30) for _ in range(often)]
        balls.sort(key=float, reverse=True)
        observe.holds("L-46", all(inside(2 * v, ball) for v, ball in zip(values, balls, strict=True)))
    for m in (0, 1, 30):
        ball = enclosed(lambda m=m: law.tail(m))  # type: ignore[misc]
        observe.holds("L-46", inside(2 * (1 - mp.fsum(values[:m])), ball))


@pytest.mark.claim("R-thm1", "R-thm2", "N-thm", "R-dir", "R-cor1")
@given(
    ratio=powers(-6, 6),
    dim=st.sampled_from([1, 1, 2, 3, 6]),
    N=powers(0.5, 12).map(round),
    share=st.floats(0, 1),
    alpha=ORDERS,
    noise=powers(-12, 6),
    delta=st.one_of(powers(-12, -1), st.floats(0.1, 1 - 1e-9)),
    tv=st.sampled_from([0.0, 0.0, 1e-12, 1e-3, 1.0]),
    y_norm2=st.sampled_from([None, None, 0.0, 1e-3, 1e12]),
    variance=powers(-6, 6),
    form=st.sampled_from(["sharpest", "sharpest", "printed"]),
    direction=st.sampled_from(["q||p", "q||p", "p||q"]),
)
@example(1e-3, 6, 10, 0.0, 1.0, 1.0, 0.1, 0.0, None, 10.0, "sharpest", "q||p")  # no eigenvalue shows in the tails
def test_rate_in_doubles_is_above_the_ball(
    observe: Observer,
    ratio: float,
    dim: int,
    N: int,
    share: float,
    alpha: float,
    noise: float,
    delta: float,
    tv: float,
    y_norm2: float | None,
    variance: float,
    form: str,
    direction: str,
) -> None:
    """Above the outer end of the ball, and at most by the declared allowance; a ball has fewer eigenvalues left out."""
    assume(direction == "q||p" or alpha < 1.0)
    N = max(N, 3)
    M = min(round(float(N) ** share), N - 1, 10**9 if dim == 1 else 150)
    arguments: Any = (SquaredExponential(variance, ratio), N, max(M, 1), alpha)
    options: Any = {"inputs": Gaussian(dim=dim), "noise": noise, "delta": delta, "tv": tv, "y_norm2": y_norm2}
    options |= {"form": form, "direction": direction}
    fast = gpbounds.rate(*arguments, **options)
    proved = gpbounds.rate(*arguments, **options, rigor="sharp")
    assert fast.certified
    assert proved.certified
    claim = "R-thm1" if y_norm2 is None else "R-thm2"
    for name in ("value", *proved.terms):
        truth, value = (mp.mpf(float(b.value if name == "value" else b.terms[name])) for b in (proved, fast))
        if name != "expected_trace" and (name == "value" or truth > mp.mpf(10) ** -290):
            observe.upper(claim, truth, value)
        if dim == 1 and truth > mp.mpf(10) ** -290:
            observe.equal(claim, value, truth, rtol=ALLOWED, atol=1.001 * FLOOR)


@pytest.mark.claim("R-thm1", "R-thm2", "N-thm")
@given(
    ell=powers(-2, 2),
    N=st.integers(3, 10**12),
    M=st.integers(1, 60),
    alpha=ORDERS,
    noise=powers(-12, 6),
    delta=powers(-12, -0.01),
    tv=st.sampled_from([0.0, 1e-3]),
    y_norm2=st.sampled_from([None, 0.0, 1e3]),
    form=st.sampled_from(["sharpest", "printed"]),
    direction=st.sampled_from(["q||p", "p||q"]),
)
def test_rate_by_balls_is_the_double_above_the_theorem(
    observe: Observer,
    ell: float,
    N: int,
    M: int,
    alpha: float,
    noise: float,
    delta: float,
    tv: float,
    y_norm2: float | None,
    form: str,
    direction: str,
) -> None:
    """Against the formulas at 50 digits: never below, and at most one unit in the last place above."""
    assume(M < N and (direction == "q||p" or alpha < 1.0))
    proved = gpbounds.rate(
        SquaredExponential(1.0, ell), N, M, alpha, noise=noise, delta=delta, tv=tv, y_norm2=y_norm2, form=form,
        direction=direction, rigor="sharp",
    )  # fmt: skip
    with mp.workdps(400):
        exact_numbers = {"noise": mp.mpf(noise), "delta": mp.mpf(delta), "tv": mp.mpf(tv)}
        truth = reference.rate(
            [mp.mpf(1)] * M + [ratio(ell, 1) ** M],
            N,
            M,
            mp.mpf(alpha),
            **exact_numbers,
            y_norm2=None if y_norm2 is None else mp.mpf(y_norm2),
            form=form,
            population=geometric_trace(ratio(ell, 1), M),
        )
        if direction == "p||q":
            odds = mp.mpf(alpha) / (1 - mp.mpf(alpha))
            truth *= max(odds, 1 / odds)
        claim = "R-thm1" if y_norm2 is None else "R-thm2"
        observe.upper(claim, truth, mp.mpf(float(proved)))
        if truth > mp.mpf(10) ** -300:
            observe.upper(claim, mp.mpf(float(proved)), truth * (1 + mp.mpf(2) ** -51))


@pytest.mark.claim("R-thm1", "N-thm")
@given(t=powers(-200, 20), n=st.integers(1, 10**12), alpha=ORDERS, noise=powers(-12, 6), delta=powers(-12, -0.01))
def test_bounds_increase_with_the_trace(
    observe: Observer, t: float, n: int, alpha: float, noise: float, delta: float
) -> None:
    """`rate` inserts the upper end of the trace's ball."""
    t_more, size, level, share = exact(t) * 1.5, exact(n), exact(noise), exact(delta)
    with at_bits(192):
        for bound in (theorems.prior_markov, theorems.prior_tail):
            low, high = (bound(x, size, level, alpha, share) for x in (exact(t), t_more))
            observe.holds("R-thm1", low < high)
        low, high = (sum(theorems.any_markov(x, size, level, alpha, share, exact(2.0))) for x in (exact(t), t_more))
        observe.holds("N-thm", low < high)


@pytest.mark.claim("R-thm1", "N-thm")
@given(ell=powers(-1, 1), dim=st.sampled_from([1, 2]), N=powers(3, 12).map(round), alpha=ORDERS, target=powers(-3, 2))
def test_plans_by_balls_need_no_more_points(
    observe: Observer, ell: float, dim: int, N: int, alpha: float, target: float
) -> None:
    kernel, options = SquaredExponential(1.0, ell), {"inputs": Gaussian(dim=dim), "target": target}
    fast = gpbounds.inducing_points(kernel, N, alpha, **options)  # type: ignore[arg-type]
    assume(fast.M is None or fast.M < 100)
    proved = gpbounds.inducing_points(kernel, N, alpha, **options, rigor="sharp")  # type: ignore[arg-type]
    if fast.M is None or proved.M is None:
        observe.holds("N-thm", proved.M == fast.M)
        return
    observe.holds("N-thm", proved.M in (fast.M, fast.M - 1))
    observe.holds("N-thm", float(proved.bound) <= target)  # type: ignore[arg-type]
    observe.holds("N-thm", proved.bound_before is None or float(proved.bound_before) > target)


COROLLARY: Any = {
    "N": powers(4, 12).map(round), "alpha": ORDERS, "noise": powers(-12, 6), "delta": powers(-12, -0.01),
    "gamma": powers(-2, 0), "norm_ratio": powers(-6, 6),
}  # fmt: skip
"""The arguments that the corollaries share, not vacuous for r >= 2."""


def expect_corollary(observe: Observer, claim: str, ours: Corollary, M: Any, t: Any, quadratic: Any, c: Any) -> None:
    """M, the bound and the tolerance, at 50 digits; the bound is at most two units in the last place too large."""
    a, s2, d, g = (mp.mpf(c[name]) for name in ("alpha", "noise", "delta", "gamma"))
    truth = quadratic + exact_scalars.trace_term(t, c["N"], s2, a) / d
    observe.holds(claim, ours.bound.certified)
    observe.holds(claim, max(M, 1) <= ours.M < max(M, 1) + 1 + mp.mpf(10) ** -15)
    observe.upper(claim, truth, mp.mpf(float(ours.bound)))
    observe.upper(claim, mp.mpf(float(ours.bound)), truth * (1 + mp.mpf(2) ** -50))
    tolerance = d * s2 / mp.mpf(c["N"]) ** (g + 2)
    observe.lower(claim, tolerance, mp.mpf(ours.tv))
    observe.lower(claim, mp.mpf(ours.tv), tolerance * (1 - mp.mpf(2) ** -50))


@pytest.mark.claim("R-cor2")
@given(c=st.fixed_dictionaries(COROLLARY), ell=powers(-0.5, 2))
def test_the_smooth_corollary_is_rounded_outwards(observe: Observer, c: Any, ell: float) -> None:
    a, s2, d, g, R = (mp.mpf(c[name]) for name in ("alpha", "noise", "delta", "gamma", "norm_ratio"))
    N = c["N"]
    with mp.workdps(400):  # enough for log(1 + t)
        M = ((3 + g) * mp.log(N) + mp.log(1 / (2 * s2 * d))) / -mp.log(ratio(ell, 1))
        assume(M < N - 2)
        ours = smooth_corollary(SquaredExponential(1.0, ell), rigor="sharp", **c)
        expect_corollary(observe, "R-cor2", ours, M, 4 * d * s2 * N ** -(g + 1), 2 * a * R / s2 * N**-g, c)


@pytest.mark.claim("R-mat-t")
@given(c=st.fixed_dictionaries(COROLLARY), r=st.integers(2, 4), form=st.sampled_from(["sharpest", "printed"]))
def test_the_matern_corollary_is_rounded_outwards(observe: Observer, c: Any, r: int, form: str) -> None:
    a, s2, d, g, R = (mp.mpf(c[name]) for name in ("alpha", "noise", "delta", "gamma", "norm_ratio"))
    N = c["N"]
    with mp.workdps(400):
        M = N ** ((g + 2) / (2 * r + (form == "sharpest")))
        ours = matern_corollary(r, constant=0.3, form=form, rigor="sharp", **c)
        factor = mp.mpf(2) ** (2 * r + 2) if form == "sharpest" else 1 + 1 / mp.mpf(ours.M)
        t = (factor * mp.mpf(0.3) + 2 * d * s2) * N ** -(g + 1)
        expect_corollary(observe, "R-mat-t", ours, M, t, a * t * R * N / (2 * d * s2**2), c)


def test_pairs_without_balls_are_refused() -> None:
    with pytest.raises(ValueError, match="rigor: expected 'float' for this pair of kernel and inputs"):
        gpbounds.rate(gpbounds.Matern(1.5), 100, 10, 1.0, inputs=gpbounds.Uniform(), rigor="sharp")
    with pytest.raises(
        ValueError, match="rigor: expected 'float' with simulate, and with y or draws for inputs to come"
    ):
        gpbounds.rate(SquaredExponential(), 100, 10, 1.0, draws=10, rigor="sharp")
    with pytest.raises(ValueError, match="rigor"):
        gpbounds.inducing_points(SquaredExponential(), 100, 1.0, target=0.1, rigor="ball")


def test_arrays_are_enclosed_entry_by_entry() -> None:
    sizes, noises = np.array([[5], [9]]), np.array([0.1, 1.0, 10.0])
    kernel, options = SquaredExponential(), {"rigor": "sharp", "y_norm2": 3.0}
    whole = gpbounds.rate(kernel, 1000, sizes, 0.5, noise=noises, **options)  # type: ignore[arg-type]
    for at in np.ndindex(2, 3):
        alone = gpbounds.rate(
            SquaredExponential(), 1000, int(sizes[at[0], 0]), 0.5, noise=float(noises[at[1]]), **options
        )
        assert whole.value[at] == float(alone)  # type: ignore[index]
        assert {n: whole.terms[n][at] for n in whole.terms} == dict(alone.terms)
