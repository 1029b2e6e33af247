"""Scalar functions behind the bounds by computer algebra: shapes, steps between inequalities, best choices."""

from __future__ import annotations

import pytest
import sympy as sp
from observer import Observer
from symbolic import nonnegative, rises_from_zero, vanishes

x, u, d = sp.symbols("x u d", nonnegative=True)
v = sp.Symbol("v", positive=True)
b = 1 / (1 + u)  # every β in (0, 1]; α = 1 − β
a = u / (1 + u)


@pytest.mark.claim("R-cx", "R-mono", "L-09", "L-07", "N-slqtail", "D-44", "D-50")
def test_elementary_inequalities_of_the_logarithm(observe: Observer) -> None:
    """x/(1+x) ≤ log(1+x) ≤ x, x − x²/2 ≤ log(1+x), and what follows from them."""
    log = sp.log(1 + x)
    for claim in ("R-cx", "R-mono"):
        observe.holds(claim, rises_from_zero(x - log, x))
        observe.holds(claim, rises_from_zero(log - x / (1 + x), x))
    observe.holds("L-09", rises_from_zero(log - x + x**2 / 2, x))
    assert not rises_from_zero(log - x + x**2 / 3, x)  # false for small x
    # L-07: φ(γ) ≥ φ(1/(1+γ) − 1), φ(e) = e − log(1+e), and φ(γ) ≤ γ²/2
    difference = (x - log) - (-x / (1 + x) + log)
    observe.holds("L-07", rises_from_zero(difference, x))
    observe.holds("L-07", vanishes(sp.diff(difference, x) - (x / (1 + x)) ** 2))
    observe.holds("L-07", rises_from_zero(x**2 / 2 - (x - log), x))
    # N-slqtail: the exponent at the best slope
    z, size = u / (1 + u), sp.Symbol("size", positive=True)
    least = size / 2 * (-sp.log(1 - z) - z) - size * u * z / 2
    observe.holds("N-slqtail", sp.simplify(least + size / 2 * (u - sp.log(1 + u))) == 0)
    # D-44, D-50: α = 1/(2+t) runs through (0, ½]
    half = 1 / (2 + u)
    for claim in ("D-44", "D-50"):
        observe.holds(claim, nonnegative(4 * half - 2 * half / (1 - half)))
        assert not nonnegative(4 * (half + a) - 2 * (half + a) / (1 - half - a))
    observe.holds("D-44", nonnegative((1 + a) / (1 - a) - 2 + (1 - a) / (1 + a)))


@pytest.mark.claim("N-F", "N-Fhat", "N-G", "N-low", "N-psi")
def test_shapes_of_the_functions_of_one_eigenvalue(observe: Observer) -> None:
    """F, G increase from 0; F is concave for α ≤ ½, convex and then concave beyond; ψ increases up to 1/√β."""
    F = (sp.log(1 + b * x) / b + a * x / (1 + b * x) - sp.log(1 + x)) / 2
    G = (sp.log(1 + b * x) / b - sp.log(1 + x)) / 2
    for claim, function in (("N-F", F), ("N-Fhat", F), ("N-G", G), ("N-low", G)):
        observe.holds(claim, rises_from_zero(function, x))
    w = a * x / (1 + b * x)
    observe.holds("N-F", rises_from_zero(2 * F - a / b * sp.log(1 + b * x) - (w - sp.log(1 + w)), x))
    observe.holds("N-F", rises_from_zero(-(2 * F - a / b * sp.log(1 + b * x) - (w - sp.log(1 + w))), x))
    second = sp.cancel(2 * sp.diff(F, x, 2) * (1 + b * x) ** 3 * (1 + x) ** 2 / a)
    claimed = (2 * a - 1) - 3 * b * x - 3 * b * x**2 - b**2 * x**3
    observe.holds("N-Fhat", vanishes(second - claimed))
    observe.holds("N-Fhat", nonnegative(-claimed.subs(u, 1 / (1 + d))))  # α = 1/(2+d)
    coefficients = sp.Poly(claimed.subs(u, 1 + d), x).all_coeffs()  # α > ½: one change of sign (Descartes)
    observe.holds("N-Fhat", all(nonnegative(-c) for c in coefficients[:-1]) and nonnegative(coefficients[-1]))
    psi = a * x / ((1 + b * x) * (1 + x))
    observe.holds("N-psi", vanishes(psi - (1 / (1 + b * x) - 1 / (1 + x))))
    observe.holds("N-psi", vanishes(sp.diff(psi, x) - a * (1 - b * x**2) / ((1 + b * x) * (1 + x)) ** 2))
    root = sp.Symbol("r", positive=True)  # β = r²
    top = ((1 - root**2) * x / ((1 + root**2 * x) * (1 + x))).subs(x, 1 / root)
    observe.holds("N-psi", vanishes(top - (1 - root) / (1 + root)))
    observe.holds("N-psi", nonnegative(a * x / (1 + a * x) - psi))
    assert not nonnegative(psi - a * x / (1 + a * x))


@pytest.mark.claim("N-conc", "R-mono", "N-alpha")
def test_derivatives_in_the_order(observe: Observer) -> None:
    """φ(β) = log(1+βd)/β is convex, 2φ' + βφ'' = −(d/(1+βd))²; N-alpha's f is ≤ 0."""
    beta, size = sp.symbols("beta delta", positive=True)
    curve = sp.log(1 + beta * size) / beta
    relation = 2 * sp.diff(curve, beta) + beta * sp.diff(curve, beta, 2)
    observe.holds("N-conc", sp.simplify(relation + (size / (1 + beta * size)) ** 2) == 0)
    scaled = 2 * sp.log(1 + x) - 2 * x / (1 + x) - x**2 / (1 + x) ** 2
    observe.holds("N-conc", sp.simplify(beta**3 * sp.diff(curve, beta, 2) - scaled.subs(x, beta * size)) == 0)
    observe.holds("N-conc", rises_from_zero(scaled, x))
    regulariser = (1 - beta) / (2 * beta) * sp.log(1 + beta * size)  # dβ = −dα
    claimed = -sp.log(1 + beta * size) / (2 * beta**2) + (1 - beta) / (2 * beta) * size / (1 + beta * size)
    observe.holds("R-mono", sp.simplify(sp.diff(regulariser, beta) - claimed) == 0)
    f = sp.log(1 + b * d) / b - b * sp.log(1 + d) - a * d
    observe.holds("N-alpha", rises_from_zero(-f, d, order=2))
    assert not rises_from_zero(-f - a * d, d, order=2)
    observe.holds("N-alpha", rises_from_zero(sp.log(1 + b * x) - b * sp.log(1 + x), x))


@pytest.mark.claim("L-06", "L-25")
def test_steps_from_spectral_bounds_to_the_divergence(observe: Observer) -> None:
    """φ(−g) = −g + log(1+γ) at g = γ/(1+γ); f(e)/e² decreases; the printed forms at one datum."""
    g = x / (1 + x)
    observe.holds("L-06", sp.simplify(-g - sp.log(1 - g) + g - sp.log(1 + x)) == 0)
    first, second, gamma = 1, 1, 1
    printed = sp.Rational(first - (1 + gamma) * second, 2 * second)
    observe.fails("L-06", printed >= 0, "Σ₁=Σ₂=γ=1: the printed bound is −½, exactly")
    observe.holds("L-06", sp.Rational(first - (1 - gamma) * second, 2 * second) >= 0)
    e = sp.Symbol("e", real=True)
    f = sp.log(1 + e) - e / (1 + e)
    slope = sp.diff(f, e) * e - 2 * f  # e³ times the derivative of f/e²
    observe.holds("L-25", rises_from_zero(-slope.subs(e, x), x))
    observe.holds("L-25", vanishes(sp.diff(slope, e) + 2 * e**2 / (1 + e) ** 3))  # of one sign for −1 < e < 0, too
    kappa = (x / (1 - x) + sp.log(1 - x)) / 2
    observe.holds("L-25", sp.simplify(2 * kappa.subs(x, sp.Rational(1, 2)) - (1 - sp.log(2))) == 0)
    observe.holds("L-25", 2 * (1 - sp.log(2)) < sp.Rational(6138, 10000))
    observe.fails("L-25", 2 * (1 - sp.log(2)) <= sp.Rational(6137, 10000), "4κ(½) = 2(1−ln 2) = .613705…")


@pytest.mark.claim("L-32", "L-33", "L-34")
def test_the_roots_of_the_sandwich(observe: Observer) -> None:
    """Bounds on t by a polynomial q(v), q(0) = 1; the series of both roots; the substitution into Lambert's W."""
    for q, claimed in (
        (1 + v + v**2 / 3, -(v**3) / 9),
        (1 + v + v**2 / 2, v**2 / 2),
        (1 + v + v**2 / 3 + v**3 / 36, v**4 / 54 + v**5 / 432),
    ):
        gap = q - 1 - sp.log(q) - v**2 / 2
        observe.holds("L-33", sp.expand(sp.diff(q, v) * (q - 1) - v * q - claimed) == 0)
        observe.holds("L-33", vanishes(sp.diff(gap, v) - claimed / q) and gap.subs(v, 0) == 0)
    below = -x - sp.log(1 - x) - x**2 / 2  # φ(1−v) − v²/2 for v = x < 1
    observe.holds("L-33", rises_from_zero(below.subs(x, u / (1 + u)), u))
    observe.holds("L-33", sp.diff(sp.exp(-v) - 1 + v - v**2 / 2, v, 3) == -sp.exp(-v))
    a_k = [sp.Integer(0), sp.Integer(1)]
    for k in range(2, 10):
        a_k.append((a_k[k - 1] - sum(j * a_k[j] * a_k[k + 1 - j] for j in range(2, k))) / (k + 1))
    known = "1/3 1/36 -1/270 1/4320 1/17010 -139/5443200 1/204120 -571/2351462400"
    observe.holds("L-34", a_k[2:] == [sp.Rational(text) for text in known.split()])
    w = sum(c * v**k for k, c in enumerate(a_k))
    power, series = sp.Integer(1), sp.Integer(0)
    for k in range(1, 11):  # w − log(1+w) up to v^10
        power = sp.Poly(power * w, v)
        power = sp.Add(*(c * v**n for (n,), c in power.terms() if n <= 10))
        series += (-1) ** k * power / k if k > 1 else 0
    observe.holds("L-34", sp.expand(series - v**2 / 2) == 0)
    observe.holds("L-32", sp.simplify(-v * sp.exp(-v) + sp.exp(-1 - (v - 1 - sp.log(v)))) == 0)  # 2γ = φ(v)
    argument = -sp.exp(-1 - 2 * sp.Rational(1, 3))
    lower, upper = (sp.N(-sp.LambertW(argument, branch), 40) for branch in (0, -1))
    observe.holds("L-32", 0 < lower < 1 < upper)
    observe.holds("L-32", all(abs(t - 1 - sp.log(t) - sp.Rational(2, 3)) < 1e-35 for t in (lower, upper)))


@pytest.mark.claim("N-mean", "N-tail", "N-flat")
def test_best_choices_of_the_sandwich_and_of_tails(observe: Observer) -> None:
    gamma, y = sp.symbols("gamma y", positive=True)
    ratio = (2 * gamma - (y - 1 - sp.log(y))) / y
    observe.holds("N-mean", sp.simplify(sp.diff(ratio, y) + (2 * gamma + sp.log(y)) / y**2) == 0)
    observe.holds("N-mean", sp.simplify(ratio.subs(y, sp.exp(-2 * gamma)) - sp.exp(2 * gamma) + 1) == 0)
    theta, t = sp.symbols("theta t", positive=True)
    exponent = -theta * t / 2 - sp.log(1 - theta) / 2  # the sum of the weights is 1
    observe.holds("N-tail", vanishes(sp.diff(exponent, theta).subs(theta, 1 - 1 / t)))
    observe.holds("N-tail", sp.simplify(exponent.subs(theta, 1 - 1 / t) - (1 - t + sp.log(t)) / 2) == 0)
    length = sp.exp(x) - 1 - x  # (L+1)e^{−L} ≤ 1
    observe.holds("N-flat", length.subs(x, 0) == 0 and sp.diff(length, x).subs(x, 0) == 0)
    observe.holds("N-flat", sp.diff(length, x, 2) == sp.exp(x))


@pytest.mark.claim("N-one", "N-prior2", "N-order", "N-trace", "N-tilt-trace")
def test_functions_behind_the_best_of_draws(observe: Observer) -> None:
    """χ and g_a are convex on [0, 1), and the free parameters are at their best values."""
    h = u / (1 + u)
    chi = x / (1 - x) + sp.log(1 - x)
    observe.holds("N-one", vanishes(sp.diff(chi, x) - x / (1 - x) ** 2))
    observe.holds("N-one", nonnegative(sp.diff(chi, x, 2).subs(x, h)))
    observe.holds("N-one", sp.simplify(chi.subs(x, h) - u + sp.log(1 + u)) == 0)
    c = sp.Symbol("c", positive=True)
    large = x * (x - c) / ((1 - x) * (1 - c))
    observe.holds("N-prior2", vanishes(x / (1 - x) - x / (1 - c) - large))
    observe.holds("N-prior2", vanishes(sp.diff(large, x, 2) - 2 / (1 - x) ** 3))
    observe.holds("N-prior2", vanishes(sp.diff(large, x).subs(x, c) - c / (1 - c) ** 2))

    r, V, part = sp.symbols("r V A", positive=True)  # p = r²/(1+r²), V the standard deviation
    p = r**2 / (1 + r**2)
    root = r / (1 + r**2)  # √(p(1−p))
    level, shift = part / p + V / r, (1 - 2 * p) * V / (2 * root)
    observe.holds("N-order", vanishes(V**2 + shift**2 - (V / (2 * root)) ** 2))
    observe.holds("N-order", vanishes(part + (V / (2 * root) - shift) / 2 - p * (level - shift)))

    s, t, q, alpha = sp.symbols("s t q alpha", positive=True)
    bracket = q * (1 - alpha * s**2) - alpha * (1 - s) ** 2 * t
    best = t / (q + t)
    observe.holds("N-trace", vanishes(sp.diff(bracket, s).subs(s, best)))
    observe.holds("N-trace", vanishes(bracket.subs(s, best) - q * (q + (1 - alpha) * t) / (q + t)))
    noise, value = sp.symbols("noise value", positive=True)
    gap = (1 - s) ** 2 / noise - (1 / (value + noise) - s**2 / value)
    observe.holds("N-trace", vanishes(gap - (value - s * (value + noise)) ** 2 / (noise * value * (value + noise))))
    gap = r**2 / (r + noise) ** 2 - r**2 * value / ((value + r**2) * (value + noise**2))  # √r and σ are these symbols
    square = r**2 * (value - r * noise) ** 2 / ((r + noise) ** 2 * (value + r**2) * (value + noise**2))
    observe.holds("N-trace", vanishes(gap - square))
    tilted = (r**2 / noise) / (2 * r + noise) - (r**2 / noise) * value / (value**2 + noise * value + r**2)
    numerator = (r**2 / noise) * (value - r) ** 2 / ((2 * r + noise) * (value**2 + noise * value + r**2))
    observe.holds("N-tilt-trace", vanishes(tilted - numerator))


@pytest.mark.claim("N-slq")
def test_signs_of_the_derivatives_behind_gauss_and_radau(observe: Observer) -> None:
    y = sp.Symbol("y", positive=True)
    for n in range(2, 8):
        harmonic = sum(sp.Rational(1, j) for j in range(1, n))
        square = 2 * (-1) ** (n - 1) * sp.factorial(n - 1) * y**-n * (sp.log(y) - harmonic)
        observe.holds("N-slq", sp.expand(sp.diff(sp.log(y) ** 2, y, n) - square) == 0)
        for function, sign in ((sp.log(y), (-1) ** (n - 1)), (1 / y, (-1) ** n), (y * sp.log(y), (-1) ** n)):
            observe.holds("N-slq", (sign * sp.diff(function, y, n)).is_positive)
