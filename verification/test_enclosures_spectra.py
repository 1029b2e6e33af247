"""Mercer spectra in balls, one class for each: against the doubles, and what is certified in doubles against them."""

from __future__ import annotations

from typing import Any

import mpmath as mp
import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from observer import Observer

import gpbounds
from gpbounds.inputs import Gaussian, InputLaw, Uniform
from gpbounds.kernels import Constant, Kernel, Linear, Matern, Polynomial, SquaredExponential
from gpbounds.rates import balls
from gpbounds.reference.kdpp import expected_trace
from gpbounds.rigor import above, at_bits, below, enclosed
from gpbounds.spectra import spectrum
from gpbounds.spectra.balls import FiniteRank, laws
from gpbounds.spectra.box import _ritz_tails

SCALES = st.floats(-1.0, 1.0).map(lambda e: 10.0**e)
Pair = tuple[Kernel, InputLaw]


def correlated(a: float, b: float, r: float) -> Gaussian:
    """Two columns with stds a and b and correlation r."""
    return Gaussian(cov=[[a * a, r * a * b], [r * a * b, b * b]])


def two_columns(first: Kernel, second: Kernel) -> Kernel:
    """A product of kernels on two columns."""
    return first.on([0]) * second.on([1])


def correlations(most: float) -> st.SearchStrategy[float]:
    """0, or of a size between 1e-100 and ``most``: moments below 1e-290 are refused."""
    return st.floats(-most, most).filter(lambda r: r == 0.0 or abs(r) >= 1e-100)


FINITE: st.SearchStrategy[Pair] = st.one_of(
    st.builds(lambda v, w, s: (Constant(v) + Linear(w), Gaussian(s)), SCALES, SCALES, SCALES),
    st.builds(lambda v, high: (Polynomial(3, v), Uniform([-1.0, 0.0], [1.0, high])), SCALES, SCALES),
    st.builds(lambda v, r: (Linear(v) * Linear(1.0), correlated(1.0, 0.5, r)), SCALES, correlations(0.9)),
)
CLOSED: st.SearchStrategy[Pair] = st.one_of(
    FINITE,
    st.builds(lambda v, ell, high: (Matern(0.5, v, ell), Uniform(0.0, high)), SCALES, SCALES, SCALES),
    st.builds(
        lambda a, b: (two_columns(Matern(0.5, 1.0, a), Matern(0.5, 2.0, b)), Uniform([0.0, 0.0], [1.0, 1.0])),
        SCALES,
        SCALES,
    ),
    st.builds(lambda a, r: (SquaredExponential(1.0, [a, 1.0]), correlated(1.0, 0.7, r)), SCALES, correlations(0.99)),
    st.builds(
        lambda a, b: (two_columns(SquaredExponential(2.0, a), SquaredExponential(1.0, b)), Gaussian([1.0, 0.5])),
        SCALES,
        SCALES,
    ),
    st.builds(lambda a, v: (SquaredExponential(1.0, a) + Linear(v), Gaussian()), SCALES, SCALES),
    st.builds(
        lambda a, b: (SquaredExponential(1.0, a).on([0]) + Matern(0.5, 1.0, b).on([0]), Uniform([0.0], [1.0])),
        st.floats(1.0, 3.0),
        SCALES,
    ),
)


@pytest.mark.claim("N-finite", "N-cov", "N-tensor", "N-direct", "L-49b", "N-pop", "R-thm1")
@example(pair=(Polynomial(3, 1.0), Uniform([-1.0, 0.0], [1.0, 10.0])), M=9, N=30, noise=1.0, tv=0.0, form="printed")
@given(
    pair=CLOSED,
    M=st.integers(1, 24),
    N=st.sampled_from([30, 10**4, 10**9]),
    noise=SCALES,
    tv=st.sampled_from([0.0, 1e-6]),
    form=st.sampled_from(["sharpest", "sharpest", "printed"]),
)
def test_rate_in_doubles_is_above_the_ball(
    observe: Observer, pair: Pair, M: int, N: int, noise: float, tv: float, form: str
) -> None:
    """Certified doubles are not below the upper end of the ball; the balls have fewer eigenvalues left out.

    What doubles allow for rounding is relative to the largest eigenvalues, which the bound for M = 1 contains.
    """
    kernel, inputs = pair
    mixed = isinstance(inputs, Uniform) and "SquaredExponential" in repr(kernel)
    assume(not mixed)  # there the doubles have Ritz values and the balls domination
    options: dict[str, Any] = {"inputs": inputs, "noise": noise, "tv": tv, "form": form}
    fast = gpbounds.rate(kernel, N, M, 1.0, **options)
    proved = gpbounds.rate(kernel, N, M, 1.0, **options, rigor="sharp")
    assert fast.certified
    assert proved.certified
    observe.holds("N-pop", float(proved) <= float(fast))
    if form == "printed":
        allowed = 1e-10 * float(gpbounds.rate(kernel, N, 1, 1.0, **options)) + 1e-12 * N
        observe.upper("R-thm1", float(fast), float(proved) * (1 + 1e-9) + allowed)


@pytest.mark.claim("N-finite", "N-pop")
@given(pair=FINITE)
def test_finite_ranks_are_rational(observe: Observer, pair: Pair) -> None:
    """e_j by the characteristic polynomial against the eigenvalues in balls, and these against the doubles."""
    law = laws(*pair)
    assert isinstance(law, FiniteRank)
    with at_bits(512):
        values = [mp.mpf(value.mid().str(60, radius=False)) for value in law.flat(law.rank)]
        means = [mp.mpf(law.closed_trace(M).mid().str(60, radius=False)) for M in range(law.rank + 2)]
        for M in range(law.rank):
            observe.equal("N-pop", means[M], expected_trace(values, M), rtol=mp.mpf(10) ** -40)
    observe.holds("N-pop", means[law.rank] == means[law.rank + 1] == 0)
    upper = spectrum(*pair[:1], inputs=pair[1]).eigenvalues(law.rank)
    observe.upper("N-finite", values, [mp.mpf(float(x)) for x in upper])


@pytest.mark.claim("L-49b")
@given(ell=st.floats(-2.0, 2.0).map(lambda e: 10.0**e), M=st.integers(1, 300))
def test_roots_of_matern_half_are_enclosed(observe: Observer, ell: float, M: int) -> None:
    kernel, inputs = Matern(0.5, 1.0, ell), Uniform(0.0, 1.0)
    law, fast = laws(kernel, inputs), spectrum(kernel, inputs=inputs)
    value, tail = (enclosed(expression) for expression in (lambda: law.flat(M)[-1], lambda: law.tail(M)))
    with at_bits(256):
        ends = [mp.mpf(above(ball)) for ball in (value, tail)]
        for ball, end, double in zip((value, tail), ends, (fast.eigenvalues(M)[-1], fast.tail(M)), strict=True):
            observe.holds("L-49b", ball.rel_accuracy_bits() >= 62)
            observe.equal("L-49b", mp.mpf(float(double)), end, rtol=mp.mpf("1e-12"))


@pytest.mark.slow
@pytest.mark.claim("L-44", "L-48")
@given(ells=st.tuples(st.floats(0.3, 3.0), st.floats(0.3, 3.0)), dim=st.sampled_from([1, 2]), M=st.integers(0, 40))
def test_domination_in_balls_is_above_ritz_values(
    observe: Observer, ells: tuple[float, float], dim: int, M: int
) -> None:
    """Ritz values are below the eigenvalues, so that λ_m(dominated) is above them; and the doubles' tail is as good."""
    kernel, inputs = SquaredExponential(1.0, list(ells[:dim])), Uniform([0.0] * dim, [1.0] * dim)
    law = laws(kernel, inputs)
    with at_bits(256):
        tail = above(law.tail(M))
    fast = spectrum(kernel, inputs=inputs)
    observe.upper("L-48", float(fast.tail(M)), tail * (1 + 1e-11))
    x = (np.arange(24) + 0.5) / 24
    grid = np.stack(np.meshgrid(*[x] * dim), -1).reshape(-1, dim)[:: 1 if dim == 1 else 3]
    values = np.linalg.eigvalsh(kernel(grid, grid) / len(grid))[::-1]
    observe.upper("L-44", 1.0 - values[: M + 1].sum(), tail + 0.05)


@pytest.mark.claim("L-48")
@pytest.mark.parametrize("g", [0.3, 2.0, 20.0])
def test_bounds_of_tails_by_ritz_values_begin_at_the_trace(observe: Observer, g: float) -> None:
    """All eigenvalues of k with k(x, x) = 1 sum to 1; by Ritz values alone, in balls and in doubles."""
    tails = _ritz_tails(g, 60 if g > 2.0 else 24)
    observe.upper("L-48", 1.0, float(tails[0]))
    observe.holds("L-48", bool((np.diff(tails) <= 0.0).all()))


@pytest.mark.claim("N-pop")
@pytest.mark.parametrize(
    ("ell", "N", "target"),
    [
        (1.0, 10**4, 0.1),
        *(
            pytest.param(e, n, t, marks=pytest.mark.slow)
            for e in (0.5, 3.0)
            for n in (100, 10**6)
            for t in (1e-3, 10.0)
        ),
    ],
)
def test_plans_where_balls_have_other_eigenvalues(observe: Observer, ell: float, N: int, target: float) -> None:
    """On a box the doubles have Ritz values; a plan by balls needs more points, and its bound meets the target."""
    kernel, inputs = SquaredExponential(1.0, ell), Uniform()
    fast = gpbounds.inducing_points(kernel, N, 1.0, target=target, inputs=inputs)
    proved = gpbounds.inducing_points(kernel, N, 1.0, target=target, inputs=inputs, rigor="sharp")
    assert fast.M is not None
    assert proved.M is not None
    assert proved.bound is not None
    observe.holds("N-pop", proved.M >= fast.M - 1)
    observe.holds("N-pop", float(proved.bound) <= target)
    observe.holds("N-pop", proved.bound_before is None or float(proved.bound_before) > target)
    observe.holds("N-pop", "dominated by Gaussian inputs" in proved.bound.assumptions[-1])


@pytest.mark.claim("N-pop", "N-cut")
@given(ell=SCALES, M=st.integers(1, 6))
def test_the_polynomial_and_the_closed_form_agree(observe: Observer, ell: float, M: int) -> None:
    """R of a product with a constant, by polynomials, against the closed form in one dimension."""
    plain = laws(SquaredExponential(1.0, ell), Gaussian())
    product = laws(two_columns(SquaredExponential(1.0, ell), Constant(1.0)), Gaussian([1.0, 1.0]))
    closed = enclosed(lambda: plain.closed_trace(M))
    low, high = (enclosed(lambda i=i: balls.population(product, M)[i]) for i in (0, 1))  # type: ignore[misc]
    with at_bits(256):
        observe.holds("N-cut", below(low) <= above(closed))
        observe.holds("N-pop", below(closed) <= above(high))


def test_pairs_without_balls_say_what_is_enclosed() -> None:
    for kernel, inputs in (
        (Matern(1.5), Uniform()),
        (SquaredExponential() * SquaredExponential(), Gaussian()),
        (SquaredExponential().on([0]) * Matern(0.5).on([1]), Uniform([0, 0], [1, 1])),
        (SquaredExponential(), Gaussian(cov=[[1.0, 1.0], [1.0, 1.0]])),
    ):
        with pytest.raises(ValueError, match=r"rigor: expected 'float' for this pair of kernel and inputs; 'sharp'"):
            laws(kernel, inputs)
