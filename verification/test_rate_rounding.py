"""N-rate-rounding: `rate` in doubles, before enlargement, is below the ball's end by the counted roundings at most."""

from __future__ import annotations

import math
from typing import Any

import mpmath as mp
import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from observer import Observer

import gpbounds
from gpbounds.bound import UP, enlargement
from gpbounds.inputs import Empirical, Gaussian, InputLaw, Uniform
from gpbounds.kdpp import expected_trace
from gpbounds.kernels import Constant, Kernel, Linear, Matern, Polynomial, SquaredExponential
from gpbounds.numerics.scalars import F_hat, tangent
from gpbounds.rates.base import Numbers
from gpbounds.rates.draws.from_trace import prior_from_trace
from gpbounds.rates.one_draw import OneDraw
from gpbounds.rates.trace import FAR, given_eigenvalues
from gpbounds.reference import renyi as reference
from gpbounds.reference.spectra import isotropic_tail
from gpbounds.rigor import above, below, enclosed
from gpbounds.spectra import spectrum
from gpbounds.spectra.balls import Laws, laws
from gpbounds.spectra.box import BoxSpectrum, enclosed_tails
from gpbounds.spectra.gaussian import DominatedSpectrum, domination_family
from gpbounds.spectra.matern import SWITCH, MaternHalfUniform

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
    c = law.roundings(np.asarray(float(M)), FAR)
    observe.upper("N-rate-rounding", mp.mpf(truth) * (1 - float(c) * UNIT), mp.exp(mp.mpf(log_tail)))


SQUARE = Uniform([0.0, 0.0], [1.0, 1.0])
WITH_BALLS: st.SearchStrategy[tuple[Kernel, InputLaw]] = st.one_of(
    st.builds(lambda v, ell: (Matern(0.5, v, ell), Uniform(0.3, 1.7)), powers(-3, 3), powers(-6, 6)),
    st.builds(
        lambda a, b: (Matern(0.5, 1.0, a).on([0]) * Matern(0.5, 2.0, b).on([1]), SQUARE), powers(-2, 2), powers(-2, 2)
    ),
    st.builds(
        lambda a, v: (SquaredExponential(1.0, a).on([0]) * Polynomial(2, v).on([1]), Gaussian(dim=2)),
        powers(-2, 2),
        powers(-3, 3),
    ),
    st.builds(lambda v, s: (Polynomial(3, v, 0.7), Gaussian(s, dim=2)), powers(-3, 3), powers(-3, 3)),
    st.builds(
        lambda a, v: (SquaredExponential(1.0, a) + Linear(v) + Constant(3.0), Gaussian(dim=2)),
        powers(-2, 2),
        powers(-6, 3),
    ),
    st.builds(
        lambda a, b: (Matern(0.5, 1.0, a).on([0]) + Matern(0.5, 2.0, b).on([1]), SQUARE), powers(-2, 2), powers(-2, 2)
    ),
)


@pytest.mark.claim("N-tail-rounding")
@given(pair=WITH_BALLS, M=st.integers(0, 40))
def test_tails_of_other_laws_in_doubles(observe: Observer, pair: tuple[Kernel, InputLaw], M: int) -> None:
    kernel, inputs = pair
    law = spectrum(kernel, inputs=inputs)
    ball, computed = enclosed(lambda: laws(kernel, inputs).tail(M)), mp.exp(mp.mpf(law.log_tail(M)))
    c = float(law.roundings(np.asarray(float(M)), FAR))
    assert c < 300_000
    observe.upper("N-tail-rounding", mp.mpf(below(ball)) * (1 - c * UNIT), computed)
    if isinstance(law, MaternHalfUniform):  # exact values, not upper bounds
        observe.upper("N-tail-rounding", computed * (1 - c * UNIT), mp.mpf(above(ball)))


@pytest.mark.claim("N-tail-rounding")
@pytest.mark.parametrize("ell", [0.01, *(pytest.param(ell, marks=pytest.mark.slow) for ell in (1e-6, 1e-4, 1e-3, 1.0))])
def test_tails_of_matern_half_beyond_the_sum(observe: Observer, ell: float) -> None:
    """Beyond SWITCH eigenvalues their sum is an integral with one term of Euler and Maclaurin."""
    kernel, inputs = Matern(0.5, 1.3, ell), Uniform(0.3, 1.7)
    law, balls, M = spectrum(kernel, inputs=inputs), laws(kernel, inputs), np.array([SWITCH - 1, SWITCH, SWITCH + 40])
    c = float(law.roundings(np.asarray(2040.0), 20.0))
    for m, log_tail in zip(M.tolist(), law.log_tail(M), strict=True):
        ball, computed = enclosed(lambda m=m: balls.tail(m)), mp.exp(mp.mpf(log_tail))  # type: ignore[misc]
        observe.upper("N-tail-rounding", mp.mpf(below(ball)) * (1 - c * UNIT), computed)
        observe.upper("N-tail-rounding", computed * (1 - c * UNIT), mp.mpf(above(ball)))


@pytest.mark.claim("N-tail-rounding")
@given(z=powers(0, 6), kappa=powers(-6, 6))
def test_the_remainder_of_euler_and_maclaurin(observe: Observer, z: float, kappa: float) -> None:
    """f = κ/(z² + κ²), d/dx = (π/2)/(1 + f) d/dz: the fourth derivative is at most (π/2)⁴(120 + 510f)f/(z² + κ²)²."""
    with mp.workdps(40):
        r = mp.mpf(z) ** 2 + mp.mpf(kappa) ** 2
        f = mp.mpf(kappa) / r
        assume(f <= mp.mpf("2e-4"))
        # Taylor coefficients of Im 1/(z − iκ), and of (π/2)/(1 + f)
        start = 1 / mp.mpc(z, -kappa)
        values = [((-1) ** n * start ** (n + 1)).imag for n in range(5)]
        weight: list[Any] = [mp.pi / 2 / (1 + f)]
        for n in range(1, 5):
            weight.append(-mp.fsum(values[i] * weight[n - i] for i in range(1, n + 1)) / (1 + f))
        for _ in range(4):
            slopes = [(n + 1) * values[n + 1] for n in range(len(values) - 1)]
            values = [mp.fsum(weight[i] * slopes[n - i] for i in range(n + 1)) for n in range(len(slopes))]
        observe.upper("N-tail-rounding", abs(values[0]), (mp.pi / 2) ** 4 * (120 + 510 * f) * f / r**2)


@pytest.mark.claim("N-tail-rounding")
@given(ratio=powers(-2, 2), dim=st.sampled_from([1, 1, 2, 3]), M=st.integers(0, 60))
def test_dominated_tails_in_doubles(observe: Observer, ratio: float, dim: int, M: int) -> None:
    """The same product C·tail, of the same Gaussian law, at 50 digits."""
    half = np.full(dim, ratio)
    law = spectrum(SquaredExponential(1.0, 1.0), inputs=Uniform(-half, half))
    assert isinstance(law, DominatedSpectrum)
    std = mp.mpf(float(law._scale(np.array([float(M)]))[0]))
    with mp.workdps(50):
        C = mp.sqrt(2 * mp.pi) * std / (2 * mp.mpf(ratio)) * mp.exp((ratio / std) ** 2 / 2)
        truth = min(C**dim * isotropic_tail(1, std, 1, dim, M), mp.mpf(1))
        c = float(law.roundings(np.asarray(float(M)), FAR))
        assert c < 200_000
        observe.upper("N-tail-rounding", truth * (1 - c * UNIT), mp.exp(mp.mpf(law.log_tail(M))))


@pytest.mark.claim("N-tail-rounding")
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 40))])
def test_dominated_tails_of_a_family_in_doubles(observe: Observer, seed: int) -> None:
    rng = np.random.default_rng(seed)
    ratios, M = (10.0 ** rng.uniform(-1, 2, 2 + seed % 2)).tolist(), int(rng.integers(0, 41))
    half, ones = np.array(ratios), np.ones(len(ratios))
    law = spectrum(SquaredExponential(1.0, 1.0), inputs=Uniform(-half, half))
    _, stds, _ = min(domination_family(ones, half), key=lambda each: each[0] + each[2].log_tail(M))
    tail = enclosed(lambda: Laws(1.0, tuple(ones.tolist()), tuple(stds.tolist())).tail(M))
    with mp.workdps(50):
        pairs = [(mp.mpf(s), mp.mpf(h)) for s, h in zip(stds.tolist(), ratios, strict=True)]
        C = mp.fprod(mp.sqrt(2 * mp.pi) * s / (2 * h) * mp.exp((h / s) ** 2 / 2) for s, h in pairs)
        c = float(law.roundings(np.asarray(float(M)), FAR))
        assert c < 200_000
        truth = min(C * mp.mpf(below(tail)), mp.mpf(1))
        observe.upper("N-tail-rounding", truth * (1 - c * UNIT), mp.exp(mp.mpf(law.log_tail(M))))


def exact_matrix(g: float, n: int, nodes: int) -> mp.matrix:
    """(<e_i, Ke_j>) in n Legendre polynomials at the precision in use, the interval of half width g lengthscales."""
    with mp.workdps(mp.mp.dps + 10):
        points = []
        for near in np.polynomial.legendre.leggauss(nodes)[0].tolist():
            x = mp.findroot(lambda t: mp.legendre(nodes, t), near)
            slope = nodes * (x * mp.legendre(nodes, x) - mp.legendre(nodes - 1, x)) / (x * x - 1)
            weight = 1 / ((1 - x * x) * slope**2)  # half of the usual one, as the law has density ½
            points.append((x, [weight * mp.sqrt(2 * i + 1) * mp.legendre(i, x) for i in range(n)]))
        total = mp.fsum(left[0] for _, left in points)
        assert abs(total - 1) < mp.mpf(10) ** -mp.mp.dps * 1000
        A = mp.matrix(n)
        for x, left in points:
            for y, right in points:
                k = mp.exp(-((mp.mpf(g) * (x - y)) ** 2) / 2)
                for i in range(n):
                    for j in range(n):
                        A[i, j] += left[i] * k * right[j]
        return A


@pytest.mark.claim("N-ritz-sum")
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 12))])
def test_enclosed_ritz_values(observe: Observer, seed: int) -> None:
    """For eigenvectors, close to what is bounded, and for vectors that are neither that nor orthonormal."""
    rng, n = np.random.default_rng(seed), 4
    g = 10.0 ** rng.uniform(-1.0, 0.5)
    with mp.workdps(30):
        A = exact_matrix(g, n, 26)
        values = sorted(mp.eigsy(A, eigvals_only=True), reverse=True)
        truth = [1 - mp.fsum(values[:M]) for M in range(n + 1)]
        near = np.linalg.eigh(np.array(A.tolist(), dtype=np.float64))[1][:, ::-1]
        bounds = [mp.mpf(float(t)) for t in enclosed_tails(g, near, 40, 1e-26)]
        observe.upper("N-ritz-sum", truth, bounds)
        observe.upper("N-ritz-sum", bounds, [t + mp.mpf(1e-13) for t in truth])
        far = near + 0.05 * rng.standard_normal((n, n))
        observe.upper("N-ritz-sum", truth, [mp.mpf(float(t)) for t in enclosed_tails(g, far, 40, 1e-26)])
        observe.upper("N-ritz-sum", truth, [mp.mpf(float(t)) for t in enclosed_tails(g, 2.0 * near, 40, 1e-26)])


@pytest.mark.claim("N-ritz-sum", "N-tail-rounding")
@pytest.mark.parametrize(("g", "n"), [(0.3, 9), pytest.param(1.5, 20, marks=pytest.mark.slow)])
def test_tails_on_boxes_with_enclosed_ritz_values(observe: Observer, g: float, n: int) -> None:
    """In one dimension and on a square: not below the true tails but by the roundings counted."""
    with mp.workdps(35):  # what n polynomials omit is below 1e-17
        values = sorted(mp.eigsy(exact_matrix(g, n, n + 13), eigvals_only=True), reverse=True)
        squares = sorted((a * b for a in values for b in values), reverse=True)
        M = np.arange(n)
        for dim, each in ((1, values), (2, squares)):
            law = BoxSpectrum(SquaredExponential(1.0, 1.0), Uniform(np.full(dim, -g), np.full(dim, g)))
            c = float(law.roundings(np.asarray(float(n)), 100.0))
            truth = [1 - mp.fsum(each[:m]) for m in M.tolist()]
            computed = [mp.exp(mp.mpf(t)) for t in law.log_tail(M).tolist()]
            observe.upper("N-tail-rounding", [t * (1 - c * UNIT) for t in truth], computed)


def one_draw(
    kernel: Kernel,
    inputs: InputLaw,
    N: float,
    alpha: float = 1.0,
    noise: float = 0.1,
    delta: float = 0.05,
    y_norm2: float | None = None,
    tv: float = 0.0,
    *,
    form: str = "sharpest",
    rigor: str = "auto",
) -> OneDraw:
    """The statement of `rate`, whose parts are looked at."""
    numbers = Numbers.checked(alpha, noise, delta, y_norm2, tv, "q||p")
    return OneDraw.of(kernel, inputs, np.asarray(float(N)), numbers, form=form, direction="q||p", rigor=rigor)


@pytest.mark.slow
@pytest.mark.claim("N-rate-rounding")
@given(pair=WITH_BALLS, M=st.integers(1, 30), alpha=ORDERS, noise=powers(-6, 6))
def test_rate_of_other_laws_before_it_is_enlarged(
    observe: Observer, pair: tuple[Kernel, InputLaw], M: int, alpha: float, noise: float
) -> None:
    kernel, inputs = pair
    stated = one_draw(kernel, inputs, 1e6, alpha, noise)
    fast, c = stated.bound(np.asarray(float(M))), float(stated.roundings(np.asarray(float(M))))
    proved = gpbounds.rate(kernel, 10**6, M, alpha, inputs=inputs, noise=noise, rigor="sharp")
    assert fast.certified
    assume(float(proved) > 1e-229)
    computed = mp.mpf(float(fast)) / mp.mpf(float(enlargement(c)))
    observe.upper("N-rate-rounding", mp.mpf(float(proved)) * (1 - (c + 2) * UNIT), computed)


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
    stated = one_draw(kernel, inputs, N, alpha, noise, delta, y_norm2, tv, form=form)
    fast = float(stated.bound(np.asarray(float(M))))
    c = float(stated.law.roundings(stated.N, np.asarray(float(M))))
    proved: Any = gpbounds.rate(
        kernel, N, M, alpha, inputs=inputs, noise=noise, delta=delta, tv=tv, y_norm2=y_norm2, form=form, rigor="sharp"
    )
    assume(float(proved) > 1e-229)
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
    with mp.workdps(50):
        touching = reference.tangency(mp.mpf(alpha))
        steepest = reference.F(touching, mp.mpf(alpha)) / touching
        truth = steepest * x if x < touching else reference.F(mp.mpf(x), mp.mpf(alpha))
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
        for _ in range(140):
            middle = (low + turn) / 2
            convex = 2 * a - 1 > b * middle * (3 + 3 * middle + b * middle**2)
            low, turn = (middle, turn) if convex else (low, middle)
        x0, x1 = turn * (1 + mp.mpf(beyond)), turn * mp.mpf(before)
        chord, slope = reference.F(x0, a) / x0, (1 / (1 + b * x0) + a / (1 + b * x0) ** 2 - 1 / (1 + x0)) / 2
        touching = reference.tangency(a)
        bound = slope + max(chord - slope, mp.mpf(0)) * x0 / x1
        observe.upper("N-tangent", reference.F(touching, a) / touching, bound, tol=1e-25)


@pytest.mark.claim("N-rate-rounding")
def test_sums_of_many_terms_are_counted() -> None:
    """n is what the tails were summed from, also where R-lem3 uses more eigenvalues than N-pop; few stay at 1e-11."""
    stated = one_draw(SquaredExponential(1.0, [0.01, 0.02]), Gaussian(dim=2), 1e6)
    assert float(stated.roundings(np.asarray(64.0))) * 2.0**-53 < 1e-11
    assert float(stated.roundings(np.asarray(50_000.0))) > 75_000 + 4 * 65_536


@pytest.mark.claim("N-rate-rounding")
@pytest.mark.parametrize(("N", "sizes"), [(30, [1, 7, 20]), (400, [1, 50, 300])])
@pytest.mark.parametrize("ell", [0.01, 1.0])
def test_mean_trace_of_given_eigenvalues(observe: Observer, N: int, sizes: list[int], ell: float) -> None:
    """For the upper ends of the eigenvalues as they are: the value and the ball differ by the count at most."""
    X = np.random.default_rng(N).standard_normal((N, 1))
    stated = one_draw(SquaredExponential(1.3, ell), Empirical(X), N, rigor="float")
    M = np.array(sizes, dtype=np.float64)
    computed = stated.law.sharpest(stated.N, M)
    upper = stated.law.spectrum.upper_eigenvalues() * N  # type: ignore[attr-defined]
    proved = expected_trace(upper, sizes, rigor="sharp")
    for value, truth, c in zip(computed, proved, given_eigenvalues(np.asarray(float(N)), M), strict=True):
        observe.upper("N-rate-rounding", mp.mpf(float(truth)) * (1 - mp.mpf(float(c)) * UNIT), mp.mpf(float(value)))
        observe.upper("N-rate-rounding", mp.mpf(float(value)) * (1 - mp.mpf(float(c)) * UNIT), mp.mpf(float(truth)))


@pytest.mark.claim("N-rate-rounding")
@given(
    order=st.one_of(powers(-300, 0), st.sampled_from([5e-324, 1.0])),
    noise=st.one_of(powers(-307, 300), st.just(5e-324)),
    delta=powers(-300, -0.01),
    y_norm2=st.one_of(st.none(), powers(-300, 300)),
    variance=powers(-100, 100),
    ratio=powers(-2, 2),
    M=st.integers(1, 60),
    form=st.sampled_from(["sharpest", "printed"]),
)
@example(order=1e-300, noise=1e-300, delta=0.05, y_norm2=None, variance=1.0, ratio=1.0, M=20, form="sharpest")
@example(order=1.0449e-13, noise=3.9e-7, delta=3.6e-9, y_norm2=5.8e9, variance=0.26, ratio=92.5, M=79, form="printed")
@example(order=0.5, noise=5e-324, delta=0.05, y_norm2=None, variance=1.0, ratio=1.0, M=20, form="sharpest")
def test_at_the_ends_of_the_doubles_the_bound_is_on_its_side(
    order: float, noise: float, delta: float, y_norm2: float | None, variance: float, ratio: float, M: int, form: str
) -> None:
    """`rate` in doubles is not below the bound in balls, of which each is within a unit of its theorem; never NaN."""
    kernel, options = SquaredExponential(variance, ratio), {"noise": noise, "delta": delta, "y_norm2": y_norm2}
    doubles = gpbounds.rate(kernel, 10_000, M, order, form=form, **options)
    balls = gpbounds.rate(kernel, 10_000, M, order, form=form, rigor="sharp", **options)
    assert doubles.certified
    assert float(doubles) >= float(balls) * (1.0 - 2.0**-51)
    if math.isfinite(float(doubles)) and doubles.terms["expected_trace"] > 1e-280 and float(balls) > 1e-229:
        assert float(doubles) <= float(balls) * (1.0 + 1e-9)


@pytest.mark.claim("N-trace")
def test_a_bound_from_the_trace_is_rounded_upwards(observe: Observer) -> None:
    """For one draw W = t, and p = δ; rounded to nearest, half of all values would be below theirs."""
    rng = np.random.default_rng(0)
    for _ in range(40):
        t, delta, alpha = 10.0 ** rng.uniform(-6.0, 2.0), rng.uniform(0.01, 0.5), rng.uniform(0.1, 1.0)
        bound = prior_from_trace(t, 0.0, noise=1.0, delta=delta, draws=1, alpha=alpha)
        p, a, form = (mp.mpf(x) for x in (bound.terms["p"], alpha, t))
        exact = a / 2 * form / p * (p + form) / (p + (1 - a) * form)
        observe.upper("N-trace", exact, float(bound))
