"""The corollaries of section H: R-cor2 and its lines, R-mat-..., N-se, N-mat: misprints with counterexamples."""

from __future__ import annotations

import math

import mpmath as mp
import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from observer import Observer

import gpbounds
from gpbounds.inputs import Gaussian, Uniform
from gpbounds.kernels import Matern, SquaredExponential
from gpbounds.rates.corollaries import matern_corollary, matern_exponent, smooth_corollary
from gpbounds.reference.rates import sharpest_trace
from gpbounds.reference.renyi import G, trace_term
from gpbounds.reference.spectra import ratio
from gpbounds.spectra import spectrum


def printed_M(a: mp.mpf, ell: mp.mpf, v: mp.mpf, noise: mp.mpf, delta: mp.mpf, N: int, gamma: mp.mpf) -> mp.mpf:
    """[(3+γ) log N + log η]/log(1/B) with the printed η = v√(2a)/(a√A σ²δ(1-B)), before rounding up."""
    b = 1 / (2 * ell**2)
    A = a + b + mp.sqrt(a**2 + 2 * a * b)
    B = b / A
    eta = v * mp.sqrt(2 * a) / (a * mp.sqrt(A) * noise * delta * (1 - B))
    return ((3 + gamma) * mp.log(N) + mp.log(eta)) / mp.log(1 / B)


def corollary_rhs(N: int, alpha: mp.mpf, noise: mp.mpf, delta: mp.mpf, gamma: mp.mpf, R: mp.mpf) -> mp.mpf:
    """2αRN^(-γ)/σ² + (1/δ)(αN/(2β)) log(1 + β·4δ/N^(γ+2))."""
    return (
        2 * alpha * R / noise / N**gamma
        + trace_term(4 * delta * noise / mp.mpf(N) ** (gamma + 1), N, noise, alpha) / delta
    )


@pytest.mark.claim("R-cor2-eta")
@pytest.mark.parametrize("N", [30, 60])
def test_the_corollary_serves_up_to_all_points_but_one(observe: Observer, N: int) -> None:
    """γ at which M = N − 1 exactly, and γ at which M = N."""
    log_B, log_eta = float(mp.log(ratio(mp.mpf(1), mp.mpf(1)))), math.log(1.0 / (2.0 * 0.1 * 0.5))
    last, beyond = (((M - 0.5) * -log_B - log_eta) / math.log(N) - 3.0 for M in (N - 1, N))
    options = {"noise": 0.1, "delta": 0.5}
    observe.equal("R-cor2-eta", smooth_corollary(SquaredExponential(), N, 0.5, gamma=last, **options).M, N - 1)
    with pytest.raises(ValueError, match=f"its M is {N} for N = {N}"):
        smooth_corollary(SquaredExponential(), N, 0.5, gamma=beyond, **options)


def least_gap(N: int, M: int, noise: float, alpha: float, draws: int) -> float:
    """Over draws of X ~ N(0, 1): the least of Σ_i G(λ_{M+i}(K)/σ²) <= D_α(0), which holds for every Z of size M."""
    rng = np.random.default_rng(0)
    gaps = []
    for _ in range(draws):
        values = np.linalg.eigvalsh(SquaredExponential()(rng.standard_normal(N)))[::-1][M:]
        gaps.append(mp.fsum(G(mp.mpf(max(x, 0.0)) / noise, mp.mpf(alpha)) for x in values))
    return float(min(gaps))


@pytest.mark.claim("R-cor2", "R-cor2-eta")
def test_the_printed_corollary_is_false(observe: Observer) -> None:
    N, gamma, delta, noise, half = 60, mp.mpf(1), mp.mpf("0.1"), mp.mpf("0.01"), mp.mpf("0.5")
    printed = int(mp.ceil(printed_M(1 / (4 * noise), mp.mpf(1), mp.mpf(1), noise, delta, N, gamma)))
    rhs = corollary_rhs(N, half, noise, delta, gamma, mp.mpf(0))
    observe.equal("R-cor2", [printed, round(float(rhs), 6)], [5, 2.78e-4], rtol=1e-2)
    least = least_gap(N, printed, 0.01, 0.5, 40)
    observe.holds("R-cor2", least > 0.2)
    observe.fails("R-cor2", least <= rhs, "a = 1/(4σ²): M = 5, rhs 2.8e-4, but D_α(0) > .2 for every Z in 40/40 draws")
    # The right a, the printed η: M = -3.1 with s = ℓ = 1e-6, 25.6 with s = ℓ = 1.
    tiny = mp.mpf(10) ** -6
    in_micro = printed_M(1 / (4 * tiny**2), tiny, mp.mpf(1), noise, delta, N, gamma)
    in_units = printed_M(mp.mpf(1) / 4, mp.mpf(1), mp.mpf(1), noise, delta, N, gamma)
    observe.equal("R-cor2-eta", [in_micro, in_units], [mp.mpf("-3.1"), mp.mpf("25.6")], rtol=mp.mpf("0.02"))
    observe.fails("R-cor2-eta", abs(in_micro - in_units) < 1, "η with a in the denominator depends on the units of x")
    observe.fails(
        "R-cor2", least_gap(N, 1, 0.01, 0.5, 20) <= rhs, "right a, printed η, s = ℓ = 1e-6: M = 1, D_α(0) > 11"
    )
    for scale in (1.0, 1e-6):
        ours = smooth_corollary(
            SquaredExponential(1.0, scale), N, 0.5, inputs=Gaussian(scale), noise=0.01, delta=0.1, gamma=1.0
        )
        observe.equal("R-cor2-eta", ours.M, 24)


@pytest.mark.claim("R-cor2", "R-cor2-eta", "N-se")
@given(
    ell=st.floats(0.2, 10.0),
    N=st.integers(30, 10**7),
    alpha=st.sampled_from([0.1, 0.5, 0.9, 1.0]),
    noise=st.floats(1e-3, 10.0),
    delta=st.floats(1e-3, 0.9),
    gamma=st.floats(0.1, 3.0),
    norm_ratio=st.floats(0.01, 100.0),
    v=st.floats(0.01, 100.0),
)
def test_the_corrected_corollary_follows_from_theorem_2(
    observe: Observer,
    ell: float,
    N: int,
    alpha: float,
    noise: float,
    delta: float,
    gamma: float,
    norm_ratio: float,
    v: float,
) -> None:
    kernel = SquaredExponential(v, ell)
    needed = ((3 + gamma) * math.log(N) + math.log(v / (2 * noise * delta))) / float(-mp.log(ratio(ell, 1)))
    assume(needed < N - 2)
    ours = smooth_corollary(kernel, N, alpha, noise=noise, delta=delta, gamma=gamma, norm_ratio=norm_ratio)
    exact = [mp.mpf(a) for a in (noise, delta, gamma, v)]
    n_, d_, g_, v_ = exact
    # η = v/(2σ²δ): C/(2δσ²) = N v B^M/(2δσ²) <= N^-(γ+2), so (M+1) times it is <= N^-(γ+1) as M + 1 <= N.
    C = N * v_ * ratio(ell, 1) ** ours.M
    observe.upper("R-cor2-eta", C / (2 * d_ * n_), mp.mpf(N) ** -(g_ + 2) * (1 + mp.mpf(10) ** -12))
    rhs = corollary_rhs(N, mp.mpf(alpha), n_, d_, g_, mp.mpf(norm_ratio))
    observe.equal("R-cor2", mp.mpf(float(ours.bound)), rhs, rtol=mp.mpf(10) ** -12)
    # M is the ceiling, except where the float and the exact number lie on different sides of an integer.
    exactly = ((3 + g_) * mp.log(N) + mp.log(v_ / (2 * n_ * d_))) / -mp.log(ratio(ell, 1))
    observe.holds("R-cor2-eta", ours.M == 1 or ours.M - 1 - 1e-9 < exactly < ours.M + 1e-9)
    observe.equal("R-cor2", ours.tv, d_ * n_ / (v_ * mp.mpf(N) ** (g_ + 2)), rtol=mp.mpf(10) ** -12)
    observe.equal("R-cor2", ours.bound.confidence, 1 - delta)
    theorem = gpbounds.rate(
        kernel, N, ours.M, alpha, noise=noise, delta=delta, y_norm2=norm_ratio * N, tv=ours.tv, form="printed"
    )
    observe.upper("R-cor2", float(theorem), float(ours.bound) * (1 + 1e-9))
    # The sharper route never needs more points for the same target.
    plan = gpbounds.inducing_points(
        kernel,
        N,
        alpha,
        target=float(ours.bound) * (1 + 1e-9),
        noise=noise,
        delta=delta,
        y_norm2=norm_ratio * N,
        tv=ours.tv,
    )
    observe.upper("N-se", plan.M, ours.M)


@pytest.mark.claim("R-cor2-last")
@given(
    alpha=st.floats(1e-6, 1 - 1e-6),
    N=st.integers(2, 10**9),
    gamma=st.floats(0.01, 5),
    noise=st.floats(1e-3, 1e3),
    R=st.floats(0, 1e3),
    delta=st.floats(1e-3, 0.999),
)
def test_last_step_of_the_corollary(
    observe: Observer, alpha: float, N: int, gamma: float, noise: float, R: float, delta: float
) -> None:
    a, g, s, r, d = (mp.mpf(x) for x in (alpha, gamma, noise, R, delta))
    with mp.workdps(150):  # log(1 + x) < x where x may be 1e-50
        last = a * mp.mpf(N) ** -g * (2 * r / s + mp.mpf(2) / N)
        observe.upper("R-cor2-last", corollary_rhs(N, a, s, d, g, r), last)


@pytest.mark.claim("R-mat-ineq")
@given(r=st.integers(0, 6), N=st.integers(2, 10**6), t=st.floats(0.05, 1.0))
def test_matern_inequality(observe: Observer, r: int, N: int, t: float) -> None:
    N_, t_ = mp.mpf(N), mp.mpf(t)
    left = (N_**t_ + 1) * N_**2 / N_ ** ((2 * r + 1) * t_)
    observe.fails("R-mat-ineq", left <= N_ ** -(2 * r * t_ - 2), "printed <= A/N^(2rt-2); strictly greater for every N")
    M = int(mp.ceil(N_**t_))
    corrected = (1 + mp.mpf(1) / M) * N_ ** -(2 * r * t_ - 2) * (1 + mp.mpf(10) ** -40)  # equal where N^t is whole
    observe.upper("R-mat-ineq", (M + 1) * N_**2 / mp.mpf(M) ** (2 * r + 1), corrected)


@pytest.mark.claim("R-mat-ineq")
def test_matern_inequality_at_the_ledgers_counterexample(observe: Observer) -> None:
    N, t = mp.mpf(100), mp.mpf("0.75")
    observe.equal("R-mat-ineq", (N**t + 1) * N**2 / N ** (5 * t), mp.mpf("0.010316"), rtol=mp.mpf("1e-4"))
    observe.equal("R-mat-ineq", N ** -(4 * t - 2), mp.mpf("0.01"), rtol=mp.mpf("1e-30"))


@pytest.mark.claim("R-mat-delta")
def test_matern_display_lost_its_delta(observe: Observer) -> None:
    N, t, A, noise, v, R, delta, alpha, gamma = 10, mp.mpf("0.75"), 100, 1, 1, 1, mp.mpf("0.9"), mp.mpf("0.5"), 1
    M = mp.mpf(N) ** t
    eps = delta * noise / (v * mp.mpf(N) ** (gamma + 2))
    inner = (M + 1) * N**2 * A / M**5 + 2 * N**2 * v * eps
    right = alpha * R / (mp.mpf(N) ** gamma * noise) + alpha * R * A / (2 * delta * noise**2 * mp.mpf(N) ** gamma)
    left = alpha * R / 2 * inner
    observe.equal("R-mat-delta", [left, right], [mp.mpf("2.990"), mp.mpf("2.828")], rtol=mp.mpf("1e-3"))
    observe.fails("R-mat-delta", left <= right, "r = 2, N = 10, t = .75, A = 100, δ = .9: 2.990 > 2.828")


@pytest.mark.claim("R-mat-delta", "R-mat-y", "R-mat-log")
@given(
    r=st.integers(1, 5),
    N=st.integers(2, 10**6),
    A=st.floats(1e-6, 1e3),
    noise=st.floats(1e-3, 1e3),
    delta=st.floats(1e-3, 0.999),
    gamma=st.floats(0.05, 4.0),
    R=st.floats(0.01, 100.0),
    v=st.floats(0.01, 100.0),
)
def test_matern_displays_corrected(
    observe: Observer, r: int, N: int, A: float, noise: float, delta: float, gamma: float, R: float, v: float
) -> None:
    N_, A_, s, d, g, R_, v_ = (mp.mpf(x) for x in (N, A, noise, delta, gamma, R, v))
    M = int(mp.ceil(N_ ** ((g + 2) / (2 * r))))  # may exceed N: the inequalities hold all the same
    eps = d * s / (v_ * N_ ** (g + 2))
    tail = A_ / mp.mpf(M) ** (2 * r + 1)
    t = (M + 1) * N_ * tail + 2 * N_ * v_ * eps
    alpha = mp.mpf("0.5")
    left = alpha * R_ * N_ * t / (2 * d * s**2)
    more = 1 + mp.mpf(1) / M
    right = alpha * R_ / (N_**g * s) + more * alpha * R_ * A_ / (2 * d * s**2 * N_**g)
    observe.upper("R-mat-delta", left, right * (1 + mp.mpf(10) ** -40))
    # ‖Y‖² = RN multiplies both summands.
    observe.equal("R-mat-y", alpha * t / (2 * d * s) * (R_ * N_ / s), left, rtol=mp.mpf(10) ** -40)
    # the argument of the logarithm
    beta = 1 - alpha
    observe.upper(
        "R-mat-log", beta * t / (N_ * s), beta * (A_ * more / s + 2 * d) / N_ ** (g + 2) * (1 + mp.mpf(10) ** -40)
    )


@pytest.mark.claim("R-mat-y", "R-mat-log")
def test_matern_misprints(observe: Observer) -> None:
    # ‖Y‖² = 100 must multiply the leading term as well: as printed, without it, that term is a hundred times too small.
    leading, tv_part, norm2 = mp.mpf(3), mp.mpf("0.1"), 100
    observe.fails(
        "R-mat-y",
        leading + tv_part * norm2 >= (leading + tv_part) * norm2,
        "numerator (M+1)NΣλ + 2Nvε‖Y‖²: ‖Y‖² is missing from the leading term, 100-fold at ‖Y‖² = 100",
    )
    noise, A, delta = 10, mp.mpf(10) ** -6, mp.mpf("0.5")
    printed, true = (A + 2 * delta) / noise, A / noise + 2 * delta
    observe.fails("R-mat-log", true <= printed, "σ² = 10, A = 1e-6, δ = .5: the argument is 1.0·N^-3, printed .1·N^-3")


@pytest.mark.claim("R-mat-t", "N-mat")
@given(r=st.integers(0, 5), M=st.integers(1, 300), A=st.floats(1e-3, 1e3))
def test_half_the_points_pay_for_the_factor_M(observe: Observer, r: int, M: int, A: float) -> None:
    tails = [mp.mpf(10) ** 9] + [mp.mpf(A) / mp.mpf(k) ** (2 * r + 1) for k in range(1, M + 1)]
    t = sharpest_trace(tails, M + 2, M, 1, 0) / (M + 2)
    observe.upper("N-mat", t, mp.mpf(2) ** (2 * r + 2) * A / mp.mpf(M) ** (2 * r + 1))


@pytest.mark.claim("R-mat-t", "N-mat")
def test_exponents(observe: Observer) -> None:
    for r in (0, 1):
        for gamma in (1e-3, 0.5, 3.0):
            observe.fails(
                "R-mat-t", matern_exponent(r, gamma, form="printed") < 1, "Matérn-½, -3/2: t >= 1, so M >= N: vacuous"
            )
    observe.equal("N-mat", matern_exponent(1, 0.5), 2.5 / 3, rtol=1e-15)
    observe.holds("N-mat", matern_exponent(1, 0.999) < 1 <= matern_exponent(1, 1.0))
    observe.equal("N-mat", matern_exponent(1, 0.5, y="prior"), 0.5, rtol=1e-15)
    for r in (2, 3, 4):
        for gamma in (0.1, 1.0):
            observe.upper("R-mat-t", matern_exponent(r, gamma), matern_exponent(r, gamma, form="printed"))


@pytest.mark.claim("R-mat-t", "R-mat-ineq", "R-mat-delta", "R-mat-log", "N-mat")
@given(
    r=st.integers(1, 5),
    N=st.integers(20, 10**6),
    alpha=st.sampled_from([0.1, 0.5, 0.9, 1.0]),
    constant=st.floats(1e-3, 1e3),
    variance=st.floats(0.01, 100.0),
    noise=st.floats(1e-3, 10.0),
    delta=st.floats(1e-3, 0.9),
    gamma=st.floats(0.05, 0.9),
    norm_ratio=st.floats(0.01, 100.0),
    form=st.sampled_from(["sharpest", "printed"]),
)
def test_the_matern_corollary_is_its_formula(
    observe: Observer,
    r: int,
    N: int,
    alpha: float,
    constant: float,
    variance: float,
    noise: float,
    delta: float,
    gamma: float,
    norm_ratio: float,
    form: str,
) -> None:
    """M, tv and the bound of each corollary, against the formulas at 50 digits."""
    claim, places = ("R-mat-t", 2 * r) if form == "printed" else ("N-mat", 2 * r + 1)
    assume(gamma + 2 < places)
    g, s2, d, A, a, R = (mp.mpf(x) for x in (gamma, noise, delta, constant, alpha, norm_ratio))
    exactly = mp.mpf(N) ** ((g + 2) / places)
    assume(exactly < N - 1)
    arguments = {"variance": variance, "noise": noise, "delta": delta, "gamma": gamma, "norm_ratio": norm_ratio}
    ours = matern_corollary(r, N, alpha, constant=constant, form=form, **arguments)
    observe.equal(claim, matern_exponent(r, gamma, form=form), (g + 2) / places, rtol=1e-15)
    observe.holds(claim, (ours.M - 1) * (1 - 1e-12) < exactly < ours.M * (1 + 1e-12))
    observe.equal(claim, ours.tv, d * s2 / (mp.mpf(variance) * mp.mpf(N) ** (g + 2)), rtol=1e-12)
    factor = 1 + mp.mpf(1) / ours.M if form == "printed" else mp.mpf(2) ** (2 * r + 2)
    t = (factor * A + 2 * d * s2) / mp.mpf(N) ** (g + 1)
    truth = trace_term(t, N, s2, a) / d + a * t * R * N / (2 * d * s2**2)
    observe.equal(claim, float(ours.bound), truth, rtol=1e-12)
    observe.equal(claim, ours.bound.confidence, 1 - delta)
    if form == "printed":  # each display from what it bounds: a trace at the eigenvalue sums A·M^−(2r+1), within tv
        v, M = mp.mpf(variance), ours.M
        leading, beyond = (M + 1) * N * A / mp.mpf(M) ** (2 * r + 1), 2 * N * v * mp.mpf(ours.tv)
        terms = {name: mp.mpf(value) * (1 + mp.mpf("1e-11")) for name, value in ours.bound.terms.items()}
        observe.upper("R-mat-ineq", leading, terms["expected_trace"] - beyond * (1 - mp.mpf("1e-12")))
        observe.upper("R-mat-delta", a * (leading + beyond) * R * N / (2 * d * s2**2), terms["quadratic"])
        observe.upper("R-mat-log", trace_term(leading + beyond, N, s2, a) / d, terms["determinant"])


@pytest.mark.claim("R-mat-t", "N-mat")
@pytest.mark.parametrize(("r", "form"), [(1, "sharpest"), (2, "sharpest"), (3, "sharpest"), (3, "printed")])
def test_matern_corollary_on_a_real_spectrum(observe: Observer, r: int, form: str) -> None:
    """With A = sup_M tail(M)·M^(2r+1) of a true Matérn spectrum, the corollary lies above Theorem 2 at its M."""
    kernel, inputs, gamma = Matern(r + 0.5, 1.0, 0.3), Uniform(), 0.5
    s = spectrum(kernel, inputs=inputs)
    M = np.unique(np.rint(np.geomspace(1, 1e6, 300)))
    A = float(np.exp((s.log_tail(M) + (2 * r + 1) * np.log(M)).max())) * 1.01
    for N in (10**4, 10**6):
        ours = matern_corollary(r, N, 0.5, constant=A, gamma=gamma, form=form, norm_ratio=2.0)
        theorem = gpbounds.rate(kernel, N, ours.M, 0.5, inputs=inputs, y_norm2=2.0 * N, tv=ours.tv)
        observe.upper("R-mat-t" if form == "printed" else "N-mat", float(theorem), float(ours.bound))
