"""Spectra, rates and the binary divergence by computer algebra."""

from __future__ import annotations

from typing import Any

import pytest
import sympy as sp
from observer import Observer
from symbolic import nonnegative, rises_from_zero, vanishes

q, u, w, z = sp.symbols("q u w z", nonnegative=True)
N, delta, sigma2 = sp.symbols("N delta sigma2", positive=True)


@pytest.mark.claim("L-44", "L-45", "L-51", "N-se", "R-se-eig", "R-se-tail")
def test_the_geometric_spectrum(observe: Observer) -> None:
    """β² = (1+q)/(1−q) makes every form rational: L-50's eigenvalues, R-se-eig's, and the ratio from τ."""
    B, a2 = sp.symbols("B a2", positive=True)
    beta2 = (1 + B) / (1 - B)
    delta2, eps2 = a2 * (beta2 - 1) / 2, a2 * (beta2**2 - 1) / 4
    total = a2 + delta2 + eps2
    for claim in ("L-51", "N-se"):
        observe.holds(claim, vanishes(total - a2 * (beta2 + 1) ** 2 / 4))
        observe.holds(claim, vanishes(a2 / total - (1 - B) ** 2))
        observe.holds(claim, vanishes(eps2 / total - B))
    a, b = a2 / 2, eps2  # a = 1/(4s²) at α² = 1/(2s²); c = √(a² + 2ab)
    c = a * beta2
    observe.holds("R-se-eig", vanishes(c**2 - a**2 - 2 * a * b))
    observe.holds("R-se-eig", vanishes(b / (a + b + c) - B))
    for claim in ("R-se-eig", "R-se-tail"):
        observe.holds(claim, vanishes(2 * a / (a + b + c) - (1 - B) ** 2))
    other = a2  # any other a, for instance 1/(4σ_ε²) of the noise: σ_ε² = s²/2
    wrong = b / (other + b + sp.sqrt(other**2 + 2 * other * b))
    at = {B: sp.Rational(1, 4), a2: 1}
    observe.fails("R-se-eig", sp.simplify(wrong.subs(at) - B.subs(at)) == 0, "a of σ_ε² = s²/2 gives another ratio")
    tau = (1 - B) ** 2 / (2 * B)
    observe.holds("N-se", vanishes((1 + tau - B) ** 2 - tau**2 - 2 * tau))
    s = 1 + 2 * u  # s = √(1+4R²) ≥ 1
    R2, ratio = (s**2 - 1) / 4, (s - 1) / (s + 1)
    observe.holds("L-44", vanishes(ratio - 4 * R2 / (1 + s) ** 2))
    # q ≤ R/(R+1) is 2R ≥ s − 1, and 1 − q ≤ 1/R is 2R ≤ s + 1; of the second bound both are 4(R²+1) ≤ (1+s)²
    observe.holds("L-45", nonnegative(sp.expand(4 * R2 - (s - 1) ** 2)))
    observe.holds("L-45", nonnegative(sp.expand((s + 1) ** 2 - 4 * R2)))
    observe.holds("L-45", nonnegative(sp.expand((s + 1) ** 2 - 4 * (R2 + 1))))
    observe.holds("L-45", nonnegative(R2 / (R2 + 1) - ratio))


@pytest.mark.claim("L-50", "L-52", "L-53")
def test_hermite_functions(observe: Observer) -> None:
    """Recurrence, orthonormality and the eigenvalue equation with exact Gaussian moments; Mehler's sum up to t⁶."""
    y = sp.Symbol("y", real=True)
    hats: list[Any] = [sp.Integer(1), sp.sqrt(2) * y]
    for k in range(1, 6):
        ahead, back = sp.sqrt(sp.Rational(2, k + 1)), sp.sqrt(sp.Rational(k, k + 1))
        hats.append(sp.expand(y * ahead * hats[k] - back * hats[k - 1]))
    for k, hat in enumerate(hats):
        known = sp.hermite(k, y) / sp.sqrt(2**k * sp.factorial(k))
        observe.holds("L-52", sp.expand(hat - known) == 0)

    def mean(polynomial: Any, centre: Any, variance: Any) -> Any:
        """E p(y), y ~ N(centre, variance)."""
        moments: list[Any] = [sp.Integer(1), centre]
        for k in range(2, 13):
            moments.append(sp.expand(centre * moments[k - 1] + (k - 1) * variance * moments[k - 2]))
        return sp.expand(sum(c * moments[n] for (n,), c in sp.Poly(polynomial, y).terms()))

    half = sp.Rational(1, 2)
    for i in range(4):
        for j in range(i + 1):
            observe.holds("L-50", mean(sp.expand(hats[i] * hats[j]), 0, half) == (i == j))
    # α = 1, ε² = 6: β² = 5, δ² = 2.  ∫ e^{−ε²(x−y)²} e_n(y) ρ(y) dy = λ_n e_n(x)
    beta2, delta2, eps2 = sp.Integer(5), sp.Integer(2), sp.Integer(6)
    x = sp.Symbol("x", real=True)
    total = 1 + delta2 + eps2
    for n in range(4):
        function = hats[n].subs(y, sp.sqrt(beta2) * y)
        # times e^{(ε⁴/total − ε²)x²}
        left = mean(sp.expand(function), eps2 * x / total, 1 / (2 * total)) / sp.sqrt(total)
        eigenvalue = sp.sqrt(1 / total) * (eps2 / total) ** n
        observe.holds("L-50", sp.expand(left - eigenvalue * hats[n].subs(y, sp.sqrt(beta2) * x)) == 0)
    observe.holds("L-50", eps2**2 / total - eps2 == -delta2)
    t = sp.Symbol("t", positive=True)
    closed = sp.exp(2 * t * y**2 / (1 + t)) / sp.sqrt(1 - t**2)
    series = sp.series(closed, t, 0, 4).removeO()
    observe.holds("L-53", sp.expand(series - sum(t**k * hats[k] ** 2 for k in range(4))) == 0)
    B, T = sp.symbols("B T", positive=True)
    gap = T / (1 + T) - B / (1 + B) - (T - B) / ((1 + T) * (1 + B))
    square = (1 + B) / (1 - B)
    observe.holds("L-53", vanishes(gap) and vanishes((square - 1) / (2 * square) - B / (1 + B)))


@pytest.mark.claim("L-49a", "L-49b", "L-48", "R-cl4")
def test_polynomial_spectra(observe: Observer) -> None:
    """Matérn-½ on an interval: equation, ends and tail; integrals that bound tails; the threshold of L-48."""
    c, a, omega, x, r = sp.symbols("c a omega x r", positive=True)
    value = (c / a) / (omega**2 + c**2)
    observe.holds("L-49b", vanishes(-(omega**2) * value - (c**2 * value - c / a)))
    for function, slope in ((sp.cos, omega * sp.tan(omega * a)), (sp.sin, -omega / sp.tan(omega * a))):
        end = sp.diff(function(omega * x), x) + slope * function(omega * x)
        observe.holds("L-49b", sp.simplify(end.subs(x, a)) == 0)
    tail = 2 / sp.pi * sp.atan(2 * a * c / (sp.pi * x))
    density = (c / a) / ((x * sp.pi / (2 * a)) ** 2 + c**2)
    observe.holds("L-49b", vanishes(sp.diff(tail, x) + density) and sp.limit(tail, x, sp.oo) == 0)
    power, first = sp.symbols("power C", positive=True)  # power = 2ν/D
    primitive = first / power * x**-power
    for claim in ("L-49a", "R-cl4"):
        observe.holds(claim, sp.simplify(sp.diff(primitive, x) + first * x ** (-power - 1)) == 0)
    observe.holds("L-49a", sp.simplify(primitive.subs(x, (first / (power * r)) ** (1 / power)) - r) == 0)
    A, s = sp.symbols("A s", positive=True)  # s = √(a² + 8εσ²)
    root = (s**2 - A**2) / 2 / (A + s)
    observe.holds("L-48", vanishes(root**2 + A * root - (s**2 - A**2) / 4))


@pytest.mark.claim("R-mat-ineq", "R-mat-log", "R-mat-delta", "R-cor2-eta", "R-cor2", "N-mat", "D-48")
def test_rates(observe: Observer) -> None:
    M, A, r, t, gamma, v = sp.symbols("M A r t gamma v", positive=True)
    gap = (M + 1) * N**2 * A / M ** (2 * r + 1) - (1 + 1 / M) * A * N**2 / M ** (2 * r)
    observe.holds("R-mat-ineq", sp.simplify(gap) == 0)
    power = N**t
    printed = sp.expand((power + 1) * N**2 * A / power ** (2 * r + 1) - A * N ** (2 - 2 * r * t))
    excess = sp.simplify(printed / (A * N ** (2 - (2 * r + 1) * t))).subs({N: 100, r: 2, t: sp.Rational(3, 4)})
    observe.fails("R-mat-ineq", excess <= 0, "the excess is A·N^{2−(2r+1)t} > 0")
    observe.holds("R-mat-ineq", excess == 1)
    tv = delta * sigma2 / (v * N ** (gamma + 2))
    observe.holds("R-mat-log", sp.simplify(2 * N * v * tv / (sigma2 * N) - 2 * delta / N ** (gamma + 2)) == 0)
    half = sp.Rational(1, 2)
    R = sp.Symbol("R", positive=True)
    summand = half * 2 * N * v * tv / delta / sigma2**2 * R * N  # times α
    observe.holds("R-mat-delta", sp.simplify(summand - R / (sigma2 * N**gamma)) == 0)
    eta = v / (2 * sigma2 * delta)
    tail = v * N ** -(3 + gamma) / eta
    observe.holds("R-cor2-eta", sp.simplify(N * N * tail / (2 * delta * sigma2) - N ** -(gamma + 1)) == 0)
    trace = N * N * tail + 2 * N * v * tv
    observe.holds("R-cor2", sp.simplify(trace - 4 * delta * sigma2 * N ** -(gamma + 1)) == 0)
    for number in range(1, 9):  # k = ⌊(M+1)/2⌋: a factor at most 2, and k ≥ M/2
        k = (number + 1) // 2
        observe.holds("N-mat", sp.Rational(number + 1, number + 1 - k) <= 2 and 2 * k >= number)
    j, n = sp.symbols("j n", positive=True, integer=True)
    observe.holds("D-48", sp.summation(6 / (sp.pi**2 * j**2), (j, 1, sp.oo)) == 1)
    step = sp.log(6 * n / (6 * delta / (sp.pi**2 * j**2)))
    observe.holds("D-48", sp.simplify(sp.exp(step) - sp.pi**2 * n * j**2 / delta) == 0)


@pytest.mark.claim("P-02", "P-03", "P-04", "P-05", "P-06", "P-07")
def test_the_binary_divergence(observe: Observer) -> None:
    a, p = sp.symbols("a p", positive=True)
    kl = a * sp.log(a / p) + (1 - a) * sp.log((1 - a) / (1 - p))
    in_p = sp.diff(kl, p)
    for claim in ("P-03", "P-05"):
        observe.holds(claim, vanishes(in_p - (p - a) / (p * (1 - p))))
    observe.holds("P-05", sp.expand(sp.Rational(1, 4) - p * (1 - p) - (p - sp.Rational(1, 2)) ** 2) == 0)
    # q ≤ x ≤ p ≤ 1 as q, q+u, q+u+w, and 1 = q+u+w+z: p(1−q) − x(1−x) has no negative coefficient
    gap = (q + u + w) * (u + w + z) - (q + u) * (w + z)
    observe.holds("P-05", nonnegative(sp.expand(gap)))
    assert not nonnegative(sp.expand((q + u) * (w + z) - q * (u + w + z)))  # x(1−x) ≥ q(1−q) is not proved, nor true
    logits = sp.log(p / (1 - p)) - sp.log(a / (1 - a))
    observe.holds("P-07", vanishes(1 / in_p - 1 / ((1 - a) / (1 - p) - a / p)))
    implicit = -sp.diff(kl, a) / in_p
    true = p * (1 - p) * logits / (p - a)
    difference = sp.expand_log(implicit - true, force=True)
    symbols = {sp.log(p): u, sp.log(a): w, sp.log(1 - p): q, sp.log(1 - a): z}
    observe.holds("P-06", vanishes(sp.expand_log(difference, force=True).subs(symbols)))
    pair = a * sp.log(a / p)
    hessian = sp.hessian(pair, (a, p))
    observe.holds("P-04", vanishes(hessian.det()) and hessian[0, 0].is_positive)
    D = [s * sp.log(s / t) - s + t for s, t in ((a, p), (1 - a, 1 - p))]
    observe.holds("P-02", vanishes(D[0] + D[1] - kl))
    x = sp.Symbol("x", nonnegative=True)
    observe.holds("P-02", rises_from_zero(x - sp.log(1 + x), x))


@pytest.mark.claim("P-09", "P-10")
def test_xi(observe: Observer) -> None:
    """Three forms in rational numbers; √N ≤ ξ ≤ 2√N by squares; the steps to 1 + √(πN/2); the expansion."""
    for number in range(1, 13):
        n = sp.Integer(number)
        shares = [(k, sp.Integer(k) / n) for k in range(number + 1)]
        first = sum(sp.binomial(n, k) * q**k * (1 - q) ** (n - k) for k, q in shares)
        second = sum(sp.factorial(n) / (sp.factorial(n - k) * n**k) for k in range(number + 1))
        third = sp.factorial(n) / n**n * sum(n**j / sp.factorial(j) for j in range(number + 1))
        observe.holds("P-10", first == second == third)
        for claim in ("P-09", "P-10"):
            observe.holds(claim, n <= first**2 <= 4 * n and (first**2 == 4 * n) == (number == 1))
        observe.holds("P-10", sp.sqrt(sp.pi * n / 2) <= first <= 1 + sp.sqrt(sp.pi * n / 2))
    x = sp.Symbol("x", nonnegative=True)
    observe.holds("P-10", rises_from_zero(sp.log(1 + x) - x + x**2 / 2, x))  # (1+x/N)^N e^{−x} ≥ e^{−x²/(2N)}
    observe.holds("P-10", rises_from_zero(x**2 / 2 - x + sp.log(1 + x), x))  # v ≤ w
    observe.holds("P-10", vanishes(sp.diff(x - sp.log(1 + x), x) - x / (1 + x)))  # w w'/(1+w) = v
    observe.holds("P-10", (2 - sp.sqrt(sp.pi / 2)) * sp.sqrt(2) > 1)  # 1 + √(πN/2) < 2√N from N = 2 on
    assert not (2 - sp.sqrt(sp.pi / 2)) > 1  # N = 1 needs ξ(1) = 2
    terms = [sp.Rational(1), sp.Rational(1, 3), sp.Rational(1, 36), sp.Rational(-1, 270)]  # a_k of L-34
    claimed = [sp.sqrt(sp.pi * N / 2), sp.Rational(2, 3), sp.sqrt(sp.pi / (2 * N)) / 12, -4 / (135 * N)]
    for k, (a_k, term) in enumerate(zip(terms, claimed, strict=True), start=1):
        half = sp.Rational(k, 2)
        moment = 2 ** (half - 1) * sp.gamma(half) / N**half  # ∫ v^{k−1}e^{−Nv²/2}dv
        observe.holds("P-10", sp.simplify(N * k * a_k * moment - term) == 0)


@pytest.mark.claim("N-gamma", "N-line", "N-mercer")
def test_transforms(observe: Observer) -> None:
    t, d, kappa, theta = sp.symbols("t d kappa theta", positive=True)
    for a in (1, 2, 3):
        primitive, law = sp.Integer(0), sp.Integer(a) ** a / sp.factorial(a - 1) * t ** (a - 1)
        for k in range(a):  # ∫ t^{a−1} e^{−(a+d)t} dt by parts
            primitive -= sp.diff(law, t, k) / (a + d) ** (k + 1)
        observe.holds("N-gamma", vanishes(sp.diff(primitive, t) - (a + d) * primitive - law))
        observe.holds("N-gamma", vanishes(-primitive.subs(t, 0) - (1 + d / a) ** -a))
    wave = sp.exp(sp.I * theta)
    exponent = kappa / 2 * (wave - 1) + kappa / 2 * (1 / wave - 1)
    observe.holds("N-line", sp.expand((exponent + 2 * kappa * sp.sin(theta / 2) ** 2).rewrite(sp.exp)) == 0)
    x = sp.Symbol("x", nonnegative=True)
    second = sp.diff((x - sp.log(1 + x)) / 2, x, 2)
    observe.holds("N-mercer", nonnegative(second) and nonnegative(sp.Rational(1, 2) - second))
