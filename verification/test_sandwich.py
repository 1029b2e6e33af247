"""Ledger L.3 and L.6: the roots of x − 1 − log x = 2γ, Prop. 4, and the chain from joint laws to predictions."""

from __future__ import annotations

from typing import Any

import flint
import mpmath as mp
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from observer import Observer
from scipy.linalg import eigh
from scipy.stats import chi2
from thinning import one_in

from gpbounds.bound import Bound
from gpbounds.divergences import gaussian_kl
from gpbounds.numerics.scalars import log1p_residual
from gpbounds.reference import divergences, linalg
from gpbounds.sandwich import explicit, predictive, roots
from gpbounds.sandwich import sandwich as proposition4
from gpbounds.sandwich.equation import TINY, _coefficients

SEEDS = st.integers(0, 2**32 - 1)
EXPONENTS = st.floats(-30.0, 5.0)
SEAMS = [np.nextafter(x, end) for x in (TINY, 0.0625, 0.1887, 0.25) for end in (0.0, x, 1.0)]
GRID = np.concatenate([[5e-324, 1e-320, 1e-300], 10.0 ** np.linspace(-310.0, 5.0, 631), SEAMS])
DENSE = np.concatenate([10.0 ** np.linspace(-3.0, 3.0, 800), [1e5, 352.9, 353.5, 371.0]])


# The roots


@pytest.mark.claim("L-34", "L-32")
def test_both_roots_to_the_last_digit(observe: Observer) -> None:
    """3e-16 relative for γ in [0, 1e5], the seams, denormals; b where it is a normal number."""
    grid = np.concatenate([GRID, DENSE])
    b, t, log_b = roots(grid)
    less_b, less_t = roots(grid, minus_one=True)
    with mp.workdps(60):
        exact = [divergences.sandwich_roots(mp.mpf(g)) for g in grid]
        normal = b > 2.3e-308
        observe.equal("L-34", log_b, [s for _, _, s in exact], rtol=3e-16)
        observe.equal("L-34", less_b, [h for h, _, _ in exact], rtol=3e-16)
        observe.equal("L-34", less_t, [u for _, u, _ in exact], rtol=3e-16)
        observe.equal("L-34", t, [1 + u for _, u, _ in exact], rtol=3e-16)
        truth = [mp.exp(s) for _, _, s in exact]
        observe.equal("L-34", b[normal], [x for x, n in zip(truth, normal, strict=True) if n], rtol=3e-16)
        observe.holds("L-34", all(abs(x - y) <= 5e-324 for x, y, n in zip(b, truth, normal, strict=True) if not n))
        for g, (h, u, s) in list(zip(grid, exact, strict=True))[::7]:
            first, second = divergences.lambert_roots(g)
            observe.equal("L-32", first, mp.exp(s), rtol=1e-50)
            observe.equal("L-32", second, 1 + u, rtol=1e-50)
            observe.equal("L-32", linalg.psi(1 + u) if u > 1e-5 else u**2 / 2, 2 * mp.mpf(g), rtol=1e-5)
            observe.holds("L-32", h < 0 < u)
    assert roots(0.0) == (1.0, 1.0, 0.0)


@pytest.mark.claim("L-34")
def test_the_series_and_the_starts_of_newtons_method(observe: Observer) -> None:
    a = divergences.sandwich_series(28)
    listed = [1, (1, 3), (1, 36), (-1, 270), (1, 4320), (1, 17010), (-139, 5443200), (1, 204120), (-571, 2351462400)]
    observe.equal("L-34", a[:9], [mp.mpf(x) if isinstance(x, int) else mp.mpf(x[0]) / x[1] for x in listed], rtol=1e-49)
    evens, odds = _coefficients()
    observe.equal("L-34", evens, a[1::2], rtol=1.2e-16)
    observe.equal("L-34", odds, a[2::2], rtol=1.2e-16)
    for v in (mp.mpf(1) / 8, mp.mpf(1) / 2, mp.mpf(1)):  # what 28 terms leave is below 1e-18 up to v = 1
        for sign in (1, -1):
            w = sum(c * (sign * v) ** k for k, c in enumerate(a, start=1))
            truth = divergences.sandwich_roots(v**2 / 4)[1 if sign > 0 else 0]
            observe.equal("L-34", w, truth, rtol=1e-18)
    with mp.workdps(90):
        for g in (mp.mpf(10) ** k for k in range(-20, 7, 2)):
            v = 2 * mp.sqrt(g)
            _, u, s = divergences.sandwich_roots(g)
            above, below, tol = v + 2 * g, -2 * g - min(mp.mpf(1), v), mp.mpf(10) ** -60
            for _ in range(6):
                observe.upper("L-34", u, above, tol=tol)
                observe.lower("L-34", s, below, tol=tol)
                above -= (above - mp.log(1 + above) - 2 * g) * (1 + above) / above
                below -= (mp.exp(below) - 1 - below - 2 * g) / (mp.exp(below) - 1)


def excess(kind: str, x: float, gamma: float) -> Any:
    """φ − 2γ as a ball of 3000 bits."""
    with flint.ctx.workprec(3000):
        ball, g = flint.arb(x), flint.arb(gamma)
        if kind == "log":
            return ball.expm1() - ball - 2 * g
        return ball - (ball.log1p() if kind == "less" else (ball - 0).log() + 1) - 2 * g


@pytest.mark.claim("L-34")
@given(gamma=st.floats(-310.0, 3.0).map(lambda e: 10.0**e))
@example(gamma=5e-324)
@example(gamma=0.25)
@example(gamma=353.7)
@example(gamma=1e5)
def test_certified_roots_are_rounded_outwards_and_are_the_nearest_such_floats(observe: Observer, gamma: float) -> None:
    b, t, log_b = roots(gamma, rigor="sharp")
    less_b, less_t = roots(gamma, minus_one=True, rigor="sharp")
    for kind, x, outward in (("x", b, -1), ("x", t, 1), ("log", log_b, -1), ("less", less_b, -1), ("less", less_t, 1)):
        inner = float(np.nextafter(x, -outward * np.inf))
        middle = 1.0 if kind == "x" else 0.0
        edge = -1.0 if kind == "less" else 0.0
        assert (x - middle) * outward > 0
        if not (kind != "log" and x <= edge) and not (kind == "log" and x < -700.0):
            observe.holds("L-34", excess(kind, x, gamma) > 0)
        elif kind == "log":  # e^x is 1e-304 or less: between x and the next float lies −1 − 2γ
            observe.holds("L-34", mp.mpf(x) <= -1 - 2 * mp.mpf(gamma) + mp.mpf(10) ** -300)
        if (inner - middle) * outward > 0 and (kind == "log" or inner > edge) and not (kind == "log" and x < -700.0):
            observe.holds("L-34", excess(kind, inner, gamma) < 0)
    plain = (*roots(gamma), *roots(gamma, minus_one=True))
    for proved, near in zip((b, t, log_b, less_b, less_t), plain, strict=True):
        assert abs(proved - near) <= 2 * np.spacing(abs(near))


@pytest.mark.claim("L-33")
def test_elementary_bounds(observe: Observer) -> None:
    """The printed ones, the ledger's, ours, in this order; and the derivatives of the proof at 50 digits."""
    gammas = [mp.mpf(10) ** (mp.mpf(k) / 8) for k in range(-192, 49)]
    for g in gammas:
        _, u, s = divergences.sandwich_roots(g)
        low, high = divergences.sandwich_printed(g)
        observe.lower("L-33", mp.exp(s), low)
        observe.upper("L-33", 1 + u, high)
        b_low, b_high, t_low, t_high = divergences.sandwich_explicit(g)
        observe.lower("L-33", mp.exp(s), b_low)
        observe.upper("L-33", mp.exp(s), b_high)
        observe.lower("L-33", 1 + u, t_low)
        observe.upper("L-33", 1 + u, t_high)
        observe.holds("L-33", low <= b_low and t_high <= high)
        if g > 300:  # b leaves the floats
            continue
        enclosures = explicit(float(g))
        slack = mp.mpf(2) ** -51
        observe.holds("L-33", b_low * (1 - 2 * slack * (1 + g)) <= enclosures[0] <= mp.exp(s) * (1 + slack * (1 + g)))
        observe.holds("L-33", mp.exp(s) * (1 - slack * (1 + g)) <= enclosures[1] <= b_high * (1 + slack * (1 + g)))
        observe.holds("L-33", t_low * (1 - slack) <= enclosures[2] <= (1 + u) * (1 + slack))
        observe.holds("L-33", (1 + u) * (1 - slack) <= enclosures[3] <= t_high * (1 + slack))
        observe.holds("L-33", g > 0.1 or enclosures[3] <= 1 + u + g * mp.sqrt(g) + slack)  # to the third order in √γ
        old = explicit(float(g), form="printed")
        observe.equal("L-33", old[0], low, rtol=1e-15 * (1 + float(g)))
        observe.equal("L-33", old[3], high, rtol=1e-15)
    derivatives = (
        (lambda v: 1 + v + v**2 / 3, lambda v: -(v**3) / 9),
        (lambda v: 1 + v + v**2 / 2, lambda v: v**2 / 2),
        (lambda v: 1 + v + v**2 / 3 + v**3 / 36, lambda v: v**4 / 54 + v**5 / 432),
    )
    for q, numerator in derivatives:
        for v in (mp.mpf(1) / 100, mp.mpf(1), mp.mpf(7)):
            slope = mp.diff(lambda x, q=q: linalg.psi(q(x)) - x**2 / 2, v)
            observe.equal("L-33", slope, numerator(v) / q(v), rtol=1e-12)


# Proposition 4


def laws(seed: int, N: int, size: float, kind: str) -> tuple[np.ndarray, np.ndarray]:
    """Eigenvalues of Σ₂⁻¹Σ₁ less 1, and the shift of the means in the basis where Σ₂ = I: KL is exactly known."""
    rng = np.random.default_rng(seed)
    e, z = np.expm1(size * rng.standard_normal(N)), size * rng.standard_normal(N)
    if kind == "one direction":
        e[1:], z[1:] = 0.0, 0.0
    if kind == "equal means":
        z[:] = 0.0
    if kind == "equal covariances":
        e[:] = 0.0
    if kind == "nearly singular":
        e[0] = -1.0 + 1e-15
    return e, z


@pytest.mark.claim("L-30", "L-31", "N-mean")
@given(
    seed=SEEDS,
    N=st.integers(1, 40),
    size=st.floats(-16.0, 2.0).map(lambda e: min(10.0**e, 6.0)),
    kind=st.sampled_from(["any", "one direction", "equal means", "equal covariances", "nearly singular"]),
)
def test_proposition_4(observe: Observer, seed: int, N: int, size: float, kind: str) -> None:
    """KL from 1e-32 to 1e5, in the basis where Σ₂ = I, so that tiny divergences keep their digits."""
    e, z = laws(seed, N, size, kind)
    volume = 0.5 * log1p_residual(e)
    kl = float(volume.sum() + 0.5 * (z**2).sum()) * (1 + 1e-14)
    bounds = proposition4(kl)
    observe.upper("L-30", np.linalg.norm(z), float(bounds.mean))
    observe.upper("N-mean", np.sqrt((z**2 / (1 + e)).sum()), float(bounds.mean_first) * (1 + 1e-14))
    low, high = roots(kl, minus_one=True)
    observe.lower("L-31", e.min(), low)
    observe.upper("L-31", e.max(), high)
    less = proposition4(kl, np.linalg.norm(z) * (1 - 1e-14))  # 2γ − m² in place of 2γ
    slack = 1e-13 * (1 + np.abs(e).max())
    observe.lower("L-31", e.min(), float(less.low) - 1, tol=slack)
    observe.upper("L-31", e.max(), float(less.high) - 1, tol=slack)
    observe.holds("L-31", float(bounds.low) <= float(less.low) and float(less.high) <= float(bounds.high))


@pytest.mark.claim("L-30", "L-31", "N-mean")
@given(seed=SEEDS, N=st.integers(1, 40), size=st.floats(1e-3, 3.0))
def test_proposition_4_on_matrices(observe: Observer, seed: int, N: int, size: float) -> None:
    """Both readings, as matrix inequalities, and for single predictions."""
    rng = np.random.default_rng(seed)
    A, B = rng.standard_normal((2, N, N + 3))
    S2 = A @ A.T / N + 0.1 * np.eye(N)
    S1 = S2 + size * B @ B.T / N
    m1, m2 = rng.standard_normal((2, N)) * size
    if seed % 2:
        S1, S2 = S2, S1
    bounds = proposition4(gaussian_kl(m1, S1, m2, S2))
    tol = 1e-9
    ratio = eigh(S1, S2, eigvals_only=True)
    observe.lower("L-31", ratio, float(bounds.low), tol=tol)
    observe.upper("L-31", ratio, float(bounds.high), tol=tol * ratio.max())
    inverse = eigh(S2, S1, eigvals_only=True)
    observe.lower("L-31", inverse, float(bounds.inverse_low), tol=tol)
    observe.upper("L-31", inverse, float(bounds.inverse_high), tol=tol * inverse.max())
    shift = m1 - m2
    observe.upper("L-30", np.sqrt(shift @ np.linalg.solve(S2, shift)), float(bounds.mean), tol=tol)
    observe.upper("N-mean", np.sqrt(shift @ np.linalg.solve(S1, shift)), float(bounds.mean_first) * (1 + tol), tol=tol)
    variances = np.diag(S1) / np.diag(S2)
    observe.holds(
        "L-31", (float(bounds.low) - tol <= variances).all() and (variances <= float(bounds.high) + tol).all()
    )
    observe.upper("L-30", np.abs(shift) / np.sqrt(np.diag(S2)), float(bounds.mean), tol=tol)


@pytest.mark.claim("L-30", "L-31", "N-mean")
@pytest.mark.parametrize("gamma", [0.0, 1e-30, 1e-8, 0.3, 12.0, 1e5])
def test_proposition_4_is_attained_in_one_dimension(observe: Observer, gamma: float) -> None:
    """KL(N(0, x)‖N(0, 1)) = ½φ(x) = γ at x = b, t; KL(N(√2γ, 1)‖N(0, 1)) = γ; and at Σ₁ = e^(−2γ) both share γ."""
    bounds = proposition4(gamma)
    _, u, s = divergences.sandwich_roots(gamma)
    g = mp.mpf(gamma)
    with mp.workdps(90):
        _, u, s = divergences.sandwich_roots(gamma)
        unit = mp.matrix([[1]])
        for x in (mp.exp(s), 1 + u):
            kl = divergences.gaussian_kl(unit * 0, unit * x, unit * 0, unit)
            observe.equal("L-31", kl, g, rtol=1e-25)
        shifted = divergences.gaussian_kl(unit * mp.sqrt(2 * g), unit, unit * 0, unit)
        observe.equal("L-30", shifted, g, rtol=1e-49)
        x = mp.exp(-2 * g)
        rest = 2 * g - linalg.psi(x)  # = 1 − e^(−2γ)
        observe.equal("N-mean", rest / x, mp.expm1(2 * g), rtol=1e-20)
    observe.equal("L-31", float(bounds.high), 1 + u, rtol=3e-16)
    observe.equal("L-31", float(bounds.log_low), s, rtol=3e-16)
    observe.equal("L-30", float(bounds.mean), mp.sqrt(2 * g), rtol=3e-16)
    if gamma < 300:
        observe.equal("N-mean", float(bounds.mean_first), mp.sqrt(mp.expm1(2 * g)), rtol=1e-14)
    sure = proposition4(gamma, rigor="sharp")
    observe.upper("L-30", mp.sqrt(2 * g), mp.mpf(float(sure.mean)))
    observe.upper("N-mean", mp.sqrt(mp.expm1(2 * g)) if gamma < 300 else 0, mp.mpf(float(sure.mean_first)))
    observe.upper("L-31", 1 + u, mp.mpf(float(sure.high)))
    observe.lower("L-31", mp.exp(s), mp.mpf(float(sure.low)))
    observe.lower("L-31", 1 / (1 + u), mp.mpf(float(sure.inverse_low)))
    observe.upper("L-31", mp.exp(-s), mp.mpf(float(sure.inverse_high)))


@pytest.mark.claim("L-30", "L-31", "N-mean")
@given(gamma=st.floats(-30.0, 2.4).map(lambda e: 10.0**e), share=st.floats(-16.0, 0.0).map(lambda e: 1 - 10.0**e))
@example(gamma=0.02, share=0.0)
def test_certified_factors_of_proposition_4_are_rounded_outwards(observe: Observer, gamma: float, share: float) -> None:
    """All seven numbers against 50 digits without tolerance; 2γ − m² for every m up to √(2γ), where digits cancel."""
    m = np.sqrt(2 * gamma) * share
    with mp.workdps(80):
        left = max(mp.mpf(gamma) - mp.mpf(float(m)) ** 2 / 2, mp.mpf(0))
        for bounds, rest in ((proposition4(gamma, rigor="sharp"), mp.mpf(gamma)), (certified_given(gamma, m), left)):
            _, u, s = divergences.sandwich_roots(rest)
            upper = {
                "mean": mp.sqrt(2 * mp.mpf(gamma)),
                "mean_first": mp.sqrt(mp.expm1(2 * mp.mpf(gamma))),
                "high": 1 + u,
                "inverse_high": mp.exp(-s),
            }
            for name, truth in upper.items():
                observe.upper("N-mean" if name == "mean_first" else "L-31", truth, mp.mpf(float(getattr(bounds, name))))
            for name, truth in {"low": mp.exp(s), "log_low": s, "inverse_low": 1 / (1 + u)}.items():
                observe.lower("L-31", truth, mp.mpf(float(getattr(bounds, name))))


def certified_given(gamma: float, m: float) -> Any:
    """Prop. 4 with the distance of the means known; √(2γ) where rounding took m beyond."""
    return proposition4(gamma, min(m, float(np.sqrt(2 * gamma))), rigor="sharp")


# Predictions


NOISE, RADIUS, RANK, DELTA = 0.05, 0.8, 5, 0.05


def kernels(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """k = exp(−2π²(x − x')²) and the first RANK terms of its Mercer expansion under N(0, (R/2π)²) (L-44, L-50)."""
    root = np.sqrt(1 + 4 * RADIUS**2)
    q = (root - 1) / (root + 1)
    alpha = np.sqrt(2) * np.pi / RADIUS  # density ∝ e^(−α²x²)
    beta = root**0.5
    z = alpha * beta * x
    h = [np.ones_like(x), np.sqrt(2) * z]
    for n in range(1, RANK - 1):
        h.append(z * np.sqrt(2 / (n + 1)) * h[n] - np.sqrt(n / (n + 1)) * h[n - 1])
    functions = np.sqrt(beta) * np.exp(-(alpha**2) * (beta**2 - 1) / 2 * x**2) * np.array(h)
    K = np.exp(-2 * np.pi**2 * (x[:, None] - x[None, :]) ** 2)
    return K, (functions.T * ((1 - q) * q ** np.arange(RANK))) @ functions


def inputs(rng: np.random.Generator, N: int) -> np.ndarray:
    return rng.standard_normal(N) * RADIUS / (2 * np.pi)


def bound_9(N: int) -> float:
    """Eq. 9: (N/2σ²)(Λ + √(Λ/(Nδ)))."""
    root = np.sqrt(1 + 4 * RADIUS**2)
    tail = ((root - 1) / (root + 1)) ** RANK
    return N / (2 * NOISE) * (tail + np.sqrt(tail / (N * DELTA)))


def centred_kl(A: np.ndarray, B: np.ndarray) -> float:
    return gaussian_kl(np.zeros(len(A)), A, np.zeros(len(A)), B)


@pytest.mark.claim("L-60")
def test_mercers_joint_bound_needs_random_test_inputs(observe: Observer) -> None:
    """15 test points at six standard deviations: the bound on the joint law is exceeded in every draw of X_train."""
    rng = np.random.default_rng(60)
    limit = bound_9(75)
    observe.equal("L-60", limit, 22.3, rtol=0.01)
    far, near = [], []
    for _ in range(200):
        train = inputs(rng, 60)
        for test, kls in ((6 * RADIUS / (2 * np.pi) * np.ones(15), far), (inputs(rng, 15), near)):
            K, S = kernels(np.concatenate([train, test + 1e-3 * np.arange(15)]))
            kls.append(centred_kl(K + NOISE * np.eye(75), S + NOISE * np.eye(75)))
    observe.fails(
        "L-60", (np.array(far) > limit).mean() <= DELTA, "15 test points at 6 sd: 22.3 exceeded in every draw"
    )
    observe.frequency("L-60", int((np.array(near) > limit).sum()), 200, DELTA)
    sentences = predictive(limit, 0.1, test_inputs="mercer").kl.assumptions
    observe.holds("L-60", any("X_test is also drawn iid" in sentence for sentence in sentences))


def predictions(A: Any, B: Any, n: int) -> tuple[Any, Any, Any]:
    """(D, P₂, S₂): predictive means differ by D·y_train, covariances are P₂ (exact) and S₂ (approximate)."""
    gain_a, gain_b = np.linalg.solve(A[:n, :n], A[:n, n:]).T, np.linalg.solve(B[:n, :n], B[:n, n:]).T
    return gain_a - gain_b, A[n:, n:] - gain_a @ A[:n, n:], B[n:, n:] - gain_b @ B[:n, n:]


@pytest.mark.claim("L-61")
@given(seed=SEEDS, n=st.integers(1, 4), m=st.integers(1, 3))
def test_chain_rule(observe: Observer, seed: int, n: int, m: int) -> None:
    """KL(joint) = KL(train) + E KL(predictive), each from its definition, at 50 digits."""
    rng = np.random.default_rng(seed)

    def law() -> Any:
        F = mp.matrix(rng.standard_normal((n + m, n + m)).tolist())
        return F * F.T + mp.eye(n + m) * mp.mpf("0.1")

    A, B = law(), law()

    def parts(C: Any) -> tuple[Any, Any, Any]:
        train, cross, test = C[:n, :n], C[:n, n:], C[n:, n:]
        gain = cross.T * train**-1
        return train, gain, test - gain * cross

    (A1, GA, PA), (B1, GB, PB) = parts(A), parts(B)
    zero = mp.zeros
    D = GA - GB
    mean = divergences.gaussian_kl(zero(m, 1), PA, zero(m, 1), PB)
    mean += linalg.trace(PB**-1 * D * A1 * D.T) / 2  # E ½ (Dy)ᵀ PB⁻¹ Dy
    joint = divergences.gaussian_kl(zero(n + m, 1), A, zero(n + m, 1), B)
    train = divergences.gaussian_kl(zero(n, 1), A1, zero(n, 1), B1)
    observe.equal("L-61", train + mean, joint, rtol=1e-40)
    prediction = predictive(float(joint), 0.5, train=float(train))
    observe.equal("L-61", float(prediction.expected), mean, atol=1e-14 * float(joint))


@pytest.mark.claim("L-62", "L-63", "N-tail")
@pytest.mark.parametrize("eta", one_in(2, [0.4, 0.01, 0.1]))
def test_predictions_fail_as_seldom_as_promised(observe: Observer, eta: float) -> None:
    """X, y_train drawn anew each time: (12) with δ + η; for given X the shares of y_train by both factors."""
    rng = np.random.default_rng(62)
    n, N, draws = 30, 40, 400
    printed = predictive(Bound(bound_9(N), "upper", 1 - DELTA, "L-42"), eta, test_inputs="mercer", form="printed")
    observe.equal("L-62", float(printed.kl), bound_9(N) / eta, rtol=1e-15)
    observe.equal("L-62", float(printed.kl.confidence), max(1 - DELTA - eta, 0.0), rtol=1e-15)
    failed, several = 0, 2000
    for draw in range(draws):
        K, S = kernels(inputs(rng, N))
        A, B = K + NOISE * np.eye(N), S + NOISE * np.eye(N)
        D, P, Q = predictions(A, B, n)
        y = np.linalg.cholesky(A[:n, :n]) @ rng.standard_normal((n, several if draw < 5 else 1))
        fixed = centred_kl(P, Q)
        shift = D @ y
        kls = fixed + 0.5 * (shift * np.linalg.solve(Q, shift)).sum(axis=0)
        failed += bool(kls[0] > float(printed.kl))
        if draw >= 5:
            continue
        joint, train = centred_kl(A, B), centred_kl(A[:n, :n], B[:n, :n])
        sharp = predictive(joint, eta, train=train)
        blunt = predictive(joint, eta)
        observe.equal("L-62", float(sharp.expected), joint - train, rtol=1e-12)
        for claim, limit in (("L-62", float(blunt.expected) / eta), ("N-tail", float(sharp.kl))):
            observe.frequency(claim, int((kls > limit).sum()), several, eta)
        observe.holds("N-tail", float(sharp.kl) <= (joint - train) / eta * (1 + 1e-12))
        # L-63: on the event, the sandwich of the limit, for the covariances (which do not depend on y) and each mean
        good = kls <= float(sharp.kl)
        ratio = eigh(P, Q, eigvals_only=True)
        observe.lower("L-63", ratio, float(sharp.sandwich.low))
        observe.upper("L-63", ratio, float(sharp.sandwich.high))
        distance = np.sqrt((shift * np.linalg.solve(Q, shift)).sum(axis=0))[good]
        observe.upper("L-63", distance, float(sharp.sandwich.mean))
        observe.equal("L-63", float(sharp.sandwich.mean), np.sqrt(2 * float(sharp.kl)), rtol=1e-15)
    observe.frequency("L-62", failed, draws, min(DELTA + eta, 1.0))


@pytest.mark.claim("N-tail")
@given(seed=SEEDS, n=st.integers(1, 30), eta=st.floats(1e-12, 0.99))
def test_tail_of_a_gaussian_quadratic_form(observe: Observer, seed: int, n: int, eta: float) -> None:
    """The step of the proof at every θ, and the tail of one χ² variable, where the bound is nearest."""
    prediction = predictive(1.0, eta)
    factor = float(prediction.kl)
    if factor < 1 / eta:
        observe.equal("N-tail", np.sqrt(factor) * np.exp((1 - factor) / 2), eta, rtol=1e-12)
    observe.upper("N-tail", chi2.sf(factor, 1), eta)
    w = np.random.default_rng(seed).dirichlet(np.full(n, 0.3))
    theta = np.linspace(0.0, 0.999, 50)[:, None]
    moment = -0.5 * np.log1p(-theta * w).sum(axis=1)
    observe.upper("N-tail", moment, -0.5 * np.log1p(-theta[:, 0]), tol=1e-13)
    z = np.random.default_rng(seed + 1).standard_normal((20_000, n)) ** 2
    share = int((z @ w > factor).sum())
    observe.frequency("N-tail", share, 20_000, eta)


@pytest.mark.claim("L-61", "L-62", "N-tail")
@given(seed=SEEDS)
def test_certified_predictions_are_rounded_upwards(observe: Observer, seed: int) -> None:
    """Γ − KL(train), the factor min{1/η, t}, their product: 50 digits, no tolerance below, and rounding alone above."""
    rng = np.random.default_rng(seed)
    eta = np.concatenate([rng.uniform(0.15, 1.0, 60), 10.0 ** rng.uniform(-300, -0.9, 4)])
    joint = 10.0 ** rng.uniform(-20, 3, eta.size)
    train = joint * rng.random(eta.size) * (rng.random(eta.size) < 0.5)
    prediction = predictive(
        Bound(joint, "upper", 1.0, "L-42", certified=True),
        eta,
        train=Bound(train, "lower", 1.0, "L-10", certified=True),
    )
    assert prediction.kl.certified
    means = [mp.mpf(a) - mp.mpf(b) for a, b in zip(joint, train, strict=True)]
    factors = [min(1 / mp.mpf(e), 1 + divergences.sandwich_roots(-mp.log(mp.mpf(e)))[1]) for e in eta]
    kls = [a * b for a, b in zip(factors, means, strict=True)]
    for claim, bound, truths in (
        ("L-61", prediction.expected.value, means),
        ("N-tail", prediction.kl.terms["factor"], factors),
        ("L-62", prediction.kl.value, kls),
    ):
        values = [mp.mpf(float(v)) for v in np.asarray(bound)]
        observe.upper(claim, truths, values)
        observe.upper(claim, values, [t * (1 + mp.mpf(2) ** -51) for t in truths])
