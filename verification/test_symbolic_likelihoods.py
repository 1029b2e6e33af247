"""Ranges of the likelihoods' derivatives, means of losses and gradients of both, by computer algebra."""

from __future__ import annotations

from typing import Any

import pytest
import sympy as sp
from observer import Observer
from symbolic import Phi, nonnegative, phi, vanishes

x = sp.Symbol("x", real=True)
half = sp.Rational(1, 2)
m, y, f, mu = sp.symbols("m y f mu", real=True)
std, eps, var, n = sp.symbols("sigma epsilon v n", positive=True)


def extremes(function: Any, z: Any, critical: list[Any], ends: list[Any]) -> tuple[Any, Any]:
    """Least and greatest of a function's values where its derivative is 0, which is asserted, and of limits."""
    assert all(vanishes(sp.diff(function, z).subs(z, point)) for point in critical)
    values = [sp.expand(function.subs(z, point)) for point in critical] + ends
    return min(values), max(values)


def _normal(expression: Any) -> Any:
    """The expression with the functions that φ and Φ stand for."""
    return expression.replace(phi, lambda z: sp.exp(-(z**2) / 2) / sp.sqrt(2 * sp.pi)).replace(
        Phi, lambda z: (1 + sp.erf(z / sp.sqrt(2))) / 2
    )


@pytest.mark.claim("D-30", "D-31", "D-32", "D-36")
def test_ranges_of_logistic_gaussian_and_probit(observe: Observer) -> None:
    """The logistic function in s = σ(f), φ' = s(1−s); the others in units of the standard deviation."""
    s = sp.Symbol("s", real=True)
    first = s * (1 - s)
    second = sp.expand(sp.diff(first, s) * first)
    roots = sp.solve(sp.diff(second, s), s)
    low, high = extremes(second, s, roots, [sp.Integer(0)])
    observe.holds("D-30", (low, high) == (-sp.sqrt(3) / 18, sp.sqrt(3) / 18))
    observe.holds("D-30", extremes(first, s, [half], [sp.Integer(0)]) == (0, sp.Rational(1, 4)))
    observe.holds("D-30", sp.sqrt(3) / 18 < sp.Rational(1, 4))  # the printed bound of φ'' holds, and is not attained
    density = sp.exp(-(x**2) / 2)
    slope, curve = sp.diff(density, x), sp.diff(density, x, 2)
    zero = [sp.Integer(0)]
    observe.holds("D-31", extremes(slope, x, [-1, 1], zero) == (-sp.exp(-half), sp.exp(-half)))
    low, high = extremes(curve, x, [0, -sp.sqrt(3), sp.sqrt(3)], zero)
    observe.holds("D-31", low == -1 and sp.simplify(high - 2 * sp.exp(-3 * half)) == 0)
    observe.holds("D-31", sp.factor(sp.diff(curve, x) / density) == -x * (x**2 - 3))  # no other critical point
    constant = 1 / sp.sqrt(2 * sp.pi)
    observe.holds("D-32", extremes(constant * density, x, [0], zero)[1] == constant)
    low, high = extremes(constant * slope, x, [-1, 1], zero)
    observe.holds("D-32", -low == high and sp.simplify(high - 1 / sp.sqrt(2 * sp.pi * sp.E)) == 0)
    for bound in (low, high):
        observe.holds("D-36", sp.Abs(bound) < 1)


@pytest.mark.claim("D-33")
def test_poisson_with_the_softplus_link(observe: Observer) -> None:
    """φ' and φ'' through P_k = g^k e^{−g}/k!; the step from 2.25 to 1.25; the printed e^{+g} is unbounded."""
    g = sp.Symbol("g", positive=True)
    sigma = 1 - sp.exp(-g)  # dg/df

    def P(k: int) -> Any:
        return g**k * sp.exp(-g) / sp.factorial(k) if k >= 0 else sp.Integer(0)

    for count in range(4):
        first = sp.diff(P(count), g) * sigma
        second = sp.diff(first, g) * sigma
        claimed = sp.diff(sigma, g) * sigma * (P(count - 1) - P(count))
        claimed += sigma**2 * (P(count - 2) - 2 * P(count - 1) + P(count))
        observe.holds("D-33", sp.expand(first - sigma * (P(count - 1) - P(count))) == 0)
        observe.holds("D-33", sp.expand(second - claimed) == 0)
        if count:
            observe.holds("D-33", sp.simplify(sp.diff(P(count), g).subs(g, count)) == 0)
    z = sp.Symbol("z", real=True)  # e^{−g}
    third = sp.Rational(1, 3)
    observe.holds("D-33", extremes(2 * z * (1 - z) ** 2, z, [third], [sp.Integer(0)])[1] == 8 * third**3)
    observe.fails("D-33", sp.limit(g * sp.exp(g), g, sp.oo) != sp.oo, "g·e^{+g} → ∞")


@pytest.mark.claim("D-34")
def test_poisson_with_the_exponential_link(observe: Observer) -> None:
    g = sp.Symbol("g", positive=True)
    count = sp.Symbol("y", positive=True)
    value = g**count * sp.exp(-g)

    def derived(polynomial: Any) -> Any:
        """The polynomial of the next derivative: d/df = g d/dg."""
        return sp.expand(sp.simplify(g * sp.diff(polynomial * value, g) / value))

    first = derived(sp.Integer(1))
    second = derived(first)
    observe.holds("D-34", sp.expand(first - (count - g)) == 0)
    observe.holds("D-34", sp.expand(second - (count - g) ** 2 + g) == 0)
    cubic = -(g**3) + 3 * (count + 1) * g**2 - (3 * count**2 + 3 * count + 1) * g + count**3
    observe.holds("D-34", sp.expand(derived(second) - cubic) == 0)
    for sign in (1, -1):
        root = count + half + sign * sp.sqrt(count + sp.Rational(1, 4))
        observe.holds("D-34", sp.expand(second.subs(g, root)) == 0)
    observe.holds("D-34", sp.expand(second - (g - count - half) ** 2 + count + sp.Rational(1, 4)) == 0)
    for number in (1, 2, 5):  # three positive roots, proved by Sturm's sequence
        observe.holds("D-34", sp.Poly(cubic.subs(count, number), g).count_roots(0, None) == 3)
    scale = 3**3 * sp.exp(-3) / 6
    at = [3 + half + sign * sp.sqrt(3 + sp.Rational(1, 4)) for sign in (1, -1)]
    low, high = ((3 - point) * (point / 3) ** 3 * sp.exp(3 - point) * scale for point in at)
    observe.holds("D-34", abs(low + sp.Rational(28487, 100000)) < 1e-5)
    observe.holds("D-34", abs(high - sp.Rational(194465, 1000000)) < 1e-6)


@pytest.mark.claim("D-35")
def test_student_t(observe: Observer) -> None:
    """Critical points of φ' and φ''; the constant, and the mass of the printed one."""
    nu, w = sp.symbols("nu w", positive=True)
    size = nu * std**2
    ratio = [sp.diff(-(nu + 1) / 2 * sp.log(1 + x**2 / size), x)]
    for _ in range(2):  # (f'/f)' + (f'/f)·(f^(k)/f) is f^(k+1)/f
        ratio.append(sp.cancel(sp.diff(ratio[-1], x) + ratio[0] * ratio[-1]))
    slope = -(nu + 1) / size * x / (1 + x**2 / size)
    curve = -(nu + 1) / size * (1 - (nu + 2) * x**2 / size) / (1 + x**2 / size) ** 2
    observe.holds("D-35", vanishes(ratio[0] - slope))
    observe.holds("D-35", vanishes(ratio[1] - curve))
    root = sp.sqrt(w * size)
    observe.holds("D-35", vanishes(ratio[1].subs(x, root).subs(w, 1 / (nu + 2))))
    observe.holds("D-35", vanishes(ratio[2].subs(x, root).subs(w, 3 / (nu + 2))))
    assert not vanishes(ratio[2].subs(x, root).subs(w, 1 / (nu + 2)))
    observe.holds("D-35", sp.integrate((1 + x**2 / 3) ** -2, (x, -sp.oo, sp.oo)) == sp.sqrt(3) * sp.pi / 2)
    true = sp.gamma(2) / (sp.gamma(3 * half) * sp.sqrt(3 * sp.pi))
    observe.holds("D-35", sp.simplify(true * sp.sqrt(3) * sp.pi / 2 - 1) == 0)
    mass = sp.simplify((sp.sqrt(sp.pi * nu) * std) / sp.sqrt(sp.pi * nu * std))
    observe.fails("D-35", mass.subs(std, 2) == 1, "√(πνσ): mass √σ, that is √2 at σ = 2")
    observe.holds("D-35", sp.simplify(mass - sp.sqrt(std)) == 0)


@pytest.mark.claim("D-05", "D-06", "D-07", "P-32", "D-10")
def test_gaussian_means_solve_the_heat_equation(observe: Observer) -> None:
    """u(m, v) = E h(f), f ~ N(m, v), has ∂u/∂v = ½∂²u/∂m² and u(m, 0) = h(m)."""

    def solves(u: Any, h: Any) -> bool:
        heat = sp.diff(u, var) - sp.diff(u, m, 2) / 2
        return vanishes(heat) and sp.simplify(u.subs(var, 0) - h) == 0

    def normal(t: Any, v: Any) -> Any:
        return sp.exp(-(t**2) / (2 * v)) / sp.sqrt(v)

    observe.holds("D-05", solves(normal(y - m, var + std**2), normal(y - m, std**2)))
    observe.holds("D-05", solves(((y - m) ** 2 + var) / (2 * std**2), (y - m) ** 2 / (2 * std**2)))
    observe.holds("D-06", solves(Phi(m / sp.sqrt(1 + var)), Phi(m)))
    observe.holds("D-07", solves(sp.exp(m + var / 2) - y * m, sp.exp(m) - y * m))
    d, width = y - m, eps**2 + 2 * var
    mean = 1 - eps / sp.sqrt(width) * sp.exp(-(d**2) / width)
    observe.holds("P-32", solves(mean, 1 - sp.exp(-(d**2) / eps**2)))
    printed = mean.subs(sp.exp(-(d**2) / width), sp.exp(-(d**2) / (eps**2 + 2 * sp.sqrt(var))))
    at = {y: 1, m: 0, var: sp.Rational(1, 100), eps: half}
    values = [sp.N(each.subs(at), 12) for each in (printed, mean)]
    observe.holds("P-32", abs(values[0] - 0.89572282) < 1e-8 and abs(values[1] - 0.97629772) < 1e-8)
    observe.fails("P-32", solves(printed, 1 - sp.exp(-(d**2) / eps**2)), "2σ̂+ε² does not solve the heat equation")
    log = -((f - m) ** 2) / (2 * var) - sp.log(var) / 2
    observe.holds("D-10", vanishes(sp.diff(log, m) - (f - m) / var))
    observe.holds("D-10", vanishes(sp.diff(log, var) - ((f - m) ** 2 - var) / (2 * var**2)))


@pytest.mark.claim("P-30", "P-31", "P-33", "P-34", "P-35", "P-36")
def test_means_and_gradients_of_bounded_losses(observe: Observer) -> None:
    """Means as functions of the width ε: their derivatives, and 0 at ε = 0; then the gradients."""
    d = y - m
    a, b = (d - eps) / std, (d + eps) / std
    inside = Phi(b) - Phi(a)
    second = (d**2 + std**2) * inside + std * ((d - eps) * phi(b) - (d + eps) * phi(a))  # E[u²; |u| < ε], u ~ N(d, σ²)
    observe.holds("P-31", vanishes(sp.diff(second, eps) - eps**2 * (phi(a) + phi(b)) / std))
    observe.holds("P-31", vanishes(second.subs(eps, 0)))
    base = 1 + (1 - (d**2 + std**2) / eps**2) * (Phi(a) - Phi(b))
    mean = base + std / eps**2 * ((d - eps) * phi(b) - (d + eps) * phi(a))
    observe.holds("P-31", vanishes(mean - (1 - inside + second / eps**2)))
    printed = base - std / eps * ((d - eps) * phi(b) + (d + eps) * phi(a))
    observe.fails("P-31", vanishes(printed - mean), "1/ε and −ϕ(b): not the function with the ε-derivative of the mean")
    numbers = {y: half, m: 0, std: 1, eps: 1}
    values = [sp.N(_normal(each.subs(numbers)), 12) for each in (printed, mean)]
    observe.holds("P-31", abs(values[0] - 0.69282462) < 1e-8 and abs(values[1] - 0.56330703) < 1e-8)
    g_m = 2 / eps**2 * (std * (phi(a) - phi(b)) - d * inside)
    g_v = (inside - eps / std * (phi(a) + phi(b))) / eps**2
    observe.holds("P-36", vanishes(sp.diff(mean, m) - g_m))
    observe.holds("P-36", vanishes(sp.diff(mean, std) / (2 * std) - g_v))
    outside = Phi(a) + 1 - Phi(b)
    for claim in ("P-30", "P-35", "P-36"):
        observe.holds(claim, vanishes(sp.diff(outside, m) + (phi(a) - phi(b)) / std))
        observe.holds(claim, vanishes(sp.diff(outside, std) + (a * phi(a) - b * phi(b)) / std))
    without = sp.exp(-(x**2) / 2) / (sp.exp(-(x**2) / 2) / sp.sqrt(2 * sp.pi))
    observe.fails("P-35", sp.simplify(without) == 1, "the printed derivative is √(2π) times the true one")
    lower, upper = sp.symbols("lower upper", real=True)
    A, B = (lower - m) / std, (upper - m) / std
    beyond = Phi(A) + 1 - Phi(B)
    observe.holds("P-33", vanishes(sp.diff(beyond, m) + (phi(A) - phi(B)) / std))
    observe.holds("P-36", vanishes(sp.diff(beyond, std) / (2 * std) - (B * phi(B) - A * phi(A)) / (2 * std**2)))
    c = d / std  # relative loss: ε stands for |y|
    distance = d * (2 * Phi(c) - Phi(a) - Phi(b)) + std * (2 * phi(c) - phi(a) - phi(b))  # E[|u|; |u| < ε]
    observe.holds("P-34", vanishes(sp.diff(distance, eps) - eps * (phi(a) + phi(b)) / std))
    observe.holds("P-34", vanishes(distance.subs(eps, 0)))
    relative = distance / eps + outside
    observe.holds("P-36", vanishes(sp.diff(relative, m) + (2 * Phi(c) - Phi(a) - Phi(b)) / eps))
    claimed = (2 * phi(c) - phi(a) - phi(b)) / (2 * eps * std)
    observe.holds("P-36", vanishes(sp.diff(relative, std) / (2 * std) - claimed))
    size = eps**2 + 2 * std**2
    weight = eps / sp.sqrt(size) * sp.exp(-(d**2) / size)
    observe.holds("P-36", sp.simplify(sp.diff(1 - weight, m) + 2 * d * weight / size) == 0)
    gap = sp.diff(1 - weight, std) / (2 * std) - weight / size * (1 - 2 * d**2 / size)
    observe.holds("P-36", sp.simplify(gap) == 0)


@pytest.mark.claim("D-12", "D-14", "N-shift", "D-24", "D-20")
def test_sampling(observe: Observer) -> None:
    """Ratios of proposals, the best of them, the tangent; Stein's identity inside a ratio; moments of a mean."""
    wide = 1 + n
    ratio = sp.sqrt(wide) * sp.exp(-(x**2) * (1 - 1 / wide) / 2)  # q/h₂, x in standard deviations
    border = sp.sqrt(sp.log(wide) / (1 - 1 / wide))
    observe.holds("D-12", sp.simplify(ratio.subs(x, border) - 1) == 0)
    observe.fails("D-12", ratio.subs({x: 0, n: 3}) <= 1, "n=4 at f=μ: the ratio is √n = 2 times l/K")
    a, W = sp.symbols("a W", positive=True)
    A = mu + y / a
    mode = A - W  # W e^W = e^A/a, hence e^{A−W} = aW
    observe.holds("D-14", sp.expand(y - a * W - a * (mode - mu)) == 0)
    share = sp.Symbol("share", positive=True)  # a = 1 − 1/n
    slope = sp.diff(-sp.log(1 - share) / 2 - share * x**2 / (2 * var), share)
    observe.holds("D-14", vanishes(slope.subs(share, 1 - var / x**2)))
    g = sp.Symbol("g", real=True)
    exponent = -((f - mu) ** 2) / (2 * var) + g * (f - m)
    shifted = -((f - mu - var * g) ** 2) / (2 * var) + g * (mu - m) + var * g**2 / 2
    observe.holds("N-shift", sp.expand(exponent - shifted) == 0)
    at_mode = (g * (mu - m) + var * g**2 / 2).subs(g, (m - mu) / var)
    observe.holds("N-shift", vanishes(at_mode + (m - mu) ** 2 / (2 * var)))
    p, rest = sp.Function("p")(f), sp.Symbol("S", positive=True)
    inner = sp.diff(sp.diff(p, f) / (p + rest), f)
    claimed = sp.diff(p, f, 2) / (p + rest) - sp.diff(p, f) ** 2 / (p + rest) ** 2
    observe.holds("D-24", vanishes(inner - claimed))
    observe.fails("D-24", vanishes(inner - sp.diff(p, f, 2) / (p + rest)), "Stein in a ratio does not give φ''/Σφ")
    L, k2, k3, t = sp.symbols("L k2 k3 t", positive=True)
    generator = sp.exp(k2 * t**2 / (2 * L) + k3 * t**3 / (6 * L**2))  # cumulants of a mean, up to O(L⁻³)
    moments = [sp.diff(generator, t, order).subs(t, 0) for order in (2, 3, 4)]
    logarithm = -moments[0] / 2 + moments[1] / 3 - moments[2] / 4  # the mean is 1
    observe.holds("D-20", sp.expand(logarithm + k2 / (2 * L) - (k3 / 3 - 3 * k2**2 / 4) / L**2) == 0)
    assert nonnegative(moments[0])
