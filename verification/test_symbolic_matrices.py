"""Identities of matrices by computer algebra: for all sizes with symbols that do not commute, or for small ones."""

from __future__ import annotations

from itertools import combinations

import pytest
import sympy as sp
from observer import Observer
from symbolic import esp, nonnegative, vanishes

s, t = sp.symbols("s t", positive=True)


def generic(rows: int, columns: int, name: str = "x") -> sp.Matrix:
    return sp.Matrix(rows, columns, lambda i, j: sp.Symbol(f"{name}{i}{j}"))


def symmetric(N: int, name: str = "k") -> sp.Matrix:
    return sp.Matrix(N, N, lambda i, j: sp.Symbol(f"{name}{min(i, j)}{max(i, j)}"))


def principal(K: sp.Matrix, j: int) -> sp.Expr:
    """e_j of the eigenvalues: the sum of the principal minors of size j."""
    return sp.Add(*(K.extract(list(Z), list(Z)).det() for Z in combinations(range(K.rows), j))) if j else sp.Integer(1)


@pytest.mark.claim("L-02")
def test_woodbury_for_every_size(observe: Observer) -> None:
    """With W the inverse of YX + s: (XY + s)(1 − XWY) = s, from YXW = 1 − sW alone; and 2 × r by its entries."""
    X, Y, W = sp.symbols("X Y W", commutative=False)

    def reduced(sign: int) -> sp.Expr:
        return sp.expand(sp.expand((X * Y + s) * (1 + sign * X * W * Y)).subs(Y * X * W, 1 - s * W))

    observe.holds("L-02", reduced(-1) == s)
    assert reduced(1) != s
    for r in (1, 2):
        x = generic(2, r)
        inner = s * sp.eye(r) + x.T * x
        left = (x * x.T + s * sp.eye(2)) * (inner.det() * sp.eye(2) - x * inner.adjugate() * x.T)
        observe.holds("L-02", (left - s * inner.det() * sp.eye(2)).expand().is_zero_matrix)


@pytest.mark.claim("L-03")
@pytest.mark.parametrize(("N", "r"), [(1, 2), (2, 1), (2, 3), (3, 1), (3, 2)])
def test_the_determinant_lemma(observe: Observer, N: int, r: int) -> None:
    x = generic(N, r)
    large, small = (x * x.T + s * sp.eye(N)).det(), (s * sp.eye(r) + x.T * x).det()
    observe.holds("L-03", vanishes(large - s ** (N - r) * small))
    assert not vanishes(large - s ** (r - N) * small)


@pytest.mark.claim("R-appC-mat")
def test_the_matrix_of_the_determinant_for_every_size(observe: Observer) -> None:
    K, Q = sp.symbols("K Q", commutative=False)
    beta = sp.Symbol("beta", positive=True)
    alpha = 1 - beta
    xi, true = s + beta * K + alpha * Q, 1 + beta * (K - Q) / s
    observe.holds("R-appC-mat", sp.expand(true - (xi - Q) / s) == 0)
    printed = sp.expand(xi / s + (1 - 2 * alpha) * Q / s - true)
    observe.holds("R-appC-mat", sp.expand(printed - 2 * beta * Q / s) == 0)
    observe.fails("R-appC-mat", printed == 0, "printed − true = (2β/σ²)Q, by computer algebra")


@pytest.mark.claim("R-appC-det", "R-grad-wood")
def test_determinant_and_inverse_of_A(observe: Observer) -> None:
    """σ²A = Ξ − XU⁻¹X' for one inducing point and two data; the printed forms at rational counterexamples."""
    xi, X, u = symmetric(2, "xi"), generic(2, 1), sp.Symbol("u", positive=True)
    A = (xi - X * X.T / u) / s
    schur = u - (X.T * xi.inv() * X)[0]
    observe.holds("R-appC-det", vanishes(A.det() - xi.det() * schur / u / s**2))
    inverse = s * (xi.inv() + xi.inv() * X * X.T * xi.inv() / schur)
    observe.holds("R-grad-wood", vanishes(A * inverse - sp.eye(2)))

    K, alpha, noise = sp.Matrix([[2, 1], [1, 2]]), sp.Rational(1, 4), 1
    X = K[:, :1]
    Q = X * X.T / 2
    numbers = noise * sp.eye(2) + (1 - alpha) * K + alpha * Q
    c = 1 - 2 * alpha
    printed = (numbers / noise).det() * (2 / c + (X.T * numbers.inv() * X)[0]) / (2 / c)
    true = (sp.eye(2) + (1 - alpha) * (K - Q) / noise).det()
    observe.holds("R-appC-det", (printed, true) == (sp.Rational(37, 4), sp.Rational(17, 8)))
    observe.fails("R-appC-det", printed == true, "K=[[2,1],[1,2]], Z={1}, σ²=1, α=¼: 37/4, true 17/8, exactly")


@pytest.mark.claim("R-pred-U", "R-pred-A", "P-27")
def test_posterior_of_the_inducing_variable(observe: Observer) -> None:
    """One inducing point, two data, noise D: u − X'(D+XX'/u)⁻¹X = u²/(u + X'D⁻¹X), and the same for the mean."""
    X, u, d = generic(2, 1), sp.Symbol("u", positive=True), sp.diag(*sp.symbols("d1 d2", positive=True))
    y, star, own = generic(2, 1, "y"), sp.Symbol("c"), sp.Symbol("v")
    xi = d + X * X.T / u
    q = u + (X.T * d.inv() * X)[0]
    observe.holds("P-27", vanishes(u - (X.T * xi.inv() * X)[0] - u**2 / q))
    observe.holds("P-27", vanishes((X.T * xi.inv() * y)[0] - u / q * (X.T * d.inv() * y)[0]))
    observe.holds("R-pred-U", vanishes(xi - X * X.T / u - d))
    a = star / u * X.T
    total = own + s - star**2 / u + (star / u) ** 2 * (u - (X.T * xi.inv() * X)[0])
    observe.holds("R-pred-A", vanishes(total - (own + s - (a * xi.inv() * a.T)[0])))


@pytest.mark.claim("N-quad")
def test_a_quadratic_form_from_any_approximate_solve(observe: Observer) -> None:
    K, v, y = symmetric(2), generic(2, 1, "v"), generic(2, 1, "y")
    r = y - K * v
    left = (y.T * K.inv() * y / 2 - v.T * (r + K * v / 2))[0]
    observe.holds("N-quad", vanishes(left - (r.T * K.inv() * r)[0] / 2))
    assert not vanishes(left)


@pytest.mark.claim("N-op")
def test_means_and_biases_of_two_smoothers_for_every_size(observe: Observer) -> None:
    """With A = K + s, B = Q + s and a, b their inverses, aA = Aa = bB = Bb = 1, which symbols do not commute."""
    A, B, a, b = sp.symbols("A B a b", commutative=False)

    def reduced(expression: sp.Expr) -> sp.Expr:
        for product in (a * A, A * a, b * B, B * b):
            expression = sp.expand(sp.expand(expression).subs(product, 1))
        return expression

    means = (1 - s * a) - (1 - s * b)
    observe.holds("N-op", reduced(means - s * b * (A - B) * a) == 0)
    observe.holds("N-op", reduced(means - s * a * (A - B) * b) == 0)
    assert reduced(means - s * b * (A - B) * b) != 0
    observe.holds("N-op", reduced(s * b - b * A * (s * a)) == 0)  # the biases of Q and of K
    observe.holds("N-op", reduced(b * A - 1 - b * (A - B)) == 0)
    K, Q = symmetric(2), symmetric(2, "q")
    own = Q * (Q + s * sp.eye(2)).inv()
    observe.holds("N-op", all(vanishes(each) for each in K - own * Q - (K - Q + s * own)))  # latent variances


@pytest.mark.claim("R-amgm", "L-09", "N-W")
def test_steps_from_products_to_sums(observe: Observer) -> None:
    """Π(1 + x_i) ≥ 1 + Σx_i, and AM–GM after ordering the numbers: the differences have no negative coefficient."""
    x = sp.symbols("x1:4", nonnegative=True)
    for n in (2, 3):
        observe.holds("L-09", nonnegative(sp.expand(sp.prod(1 + each for each in x[:n]) - 1 - sum(x[:n]))))
        observe.holds("N-W", nonnegative(sp.expand(sp.prod(1 + each for each in x[:n]) - 1 - sum(x[:n]))))
        ordered = [1 + sum(x[: i + 1]) for i in range(n)]
        mean = sum(ordered) / sp.Integer(n)
        observe.holds("R-amgm", nonnegative(sp.expand(mean**n - sp.prod(ordered))))
        assert not nonnegative(sp.expand(sp.prod(ordered) - mean**n))


@pytest.mark.claim("R-lem3", "N-dpp")
def test_moments_of_the_residual_for_one_point_of_three(observe: Observer) -> None:
    """Σ_z K_zz e_j(Δ_z) = C(1+j, j) e_{1+j}: every symmetric 3 × 3 matrix."""
    K = symmetric(3)
    for j in (1, 2):
        total = sp.Add(*(K[z, z] * principal(K - K[:, z] * K[z, :] / K[z, z], j) for z in range(3)))
        observe.holds("N-dpp", vanishes(total - sp.binomial(1 + j, j) * principal(K, 1 + j)))
    observe.holds("R-lem3", vanishes(total - 3 * K.det()))


@pytest.mark.claim("R-lem3", "N-dpp")
def test_the_mean_trace_is_at_most_the_tails(observe: Observer) -> None:
    """(M+1−k) e_{M+1} ≤ e_M Σ_{m>k} λ_m for four numbers ≥ 0 in any order: no coefficient of the difference is < 0."""
    values = list(sp.symbols("l1:5", nonnegative=True))
    for M in range(1, 4):
        for k in (0, M // 2, M):
            gap = esp(values, M) * sum(values[k:]) - (M + 1 - k) * esp(values, M + 1)
            for claim in ("R-lem3", "N-dpp"):
                observe.holds(claim, nonnegative(sp.expand(gap)))
            assert not nonnegative(sp.expand(gap - esp(values, M + 1)))  # M + 2 − k would be too much


@pytest.mark.claim("N-res")
def test_the_mean_residual_as_a_function_of_the_matrix(observe: Observer) -> None:
    """M = 1: Σ_z K_zz(K − Q_z) = e_1·K − K², N = 3; M = N − 1: |K|·I; in eigenvalues λ_i e_M(λ without i)."""
    K = symmetric(3)
    total = sp.zeros(3, 3)
    for z in range(3):
        total += K[z, z] * K - K[:, z] * K[z, :]
    observe.holds("N-res", vanishes(total - (K.trace() * K - K * K)))
    total = sp.zeros(3, 3)
    for Z in combinations(range(3), 2):
        block = K.extract(list(Z), list(Z))
        total += block.det() * K - K[:, list(Z)] * block.adjugate() * K[list(Z), :]
    observe.holds("N-res", vanishes(total - K.det() * sp.eye(3)))
    values = list(sp.symbols("l1:5", positive=True))
    for M in (1, 2, 3):
        for i, value in enumerate(values):
            rest = values[:i] + values[i + 1 :]
            r = esp(rest, M) / esp(rest, M - 1)
            observe.holds("N-res", vanishes(value * esp(rest, M) / esp(values, M) - value * r / (value + r)))
    rest, value = values[1:], values[0]
    observe.holds("N-res", nonnegative(esp(values, 2) / esp(values, 1) - esp(rest, 2) / esp(rest, 1)))


@pytest.mark.claim("N-tilt")
def test_the_tilted_law_for_one_point(observe: Observer) -> None:
    """M = 1, N = 3: the mean of Q_n⁻¹ is (I − K²/tr KK_n)/σ²."""
    k, pivot = generic(2, 1), sp.Symbol("p", positive=True)
    inverse = (sp.eye(2) - k * k.T / (s * pivot + (k.T * k)[0])) / s
    observe.holds("N-tilt", vanishes((s * sp.eye(2) + k * k.T / pivot) * inverse - sp.eye(2)))
    K = symmetric(3)
    tilted = K * K + s * K
    total = sp.zeros(3, 3)
    for z in range(3):
        k = K[:, z]
        assert sp.expand(tilted[z, z] - s * K[z, z] - (k.T * k)[0]) == 0  # the weight cancels the denominator
        total += (tilted[z, z] * sp.eye(3) - k * k.T) / s
    observe.holds("N-tilt", vanishes(total - (tilted.trace() * sp.eye(3) - K * K) / s))


@pytest.mark.claim("N-out", "N-cut", "N-pop")
def test_elementary_symmetric_polynomials(observe: Observer) -> None:
    """Newton's inequalities, the rank-one update, and the slopes of R = (M+1)e_{M+1}/e_M."""
    K = symmetric(3)
    lifted = K + t * sp.diag(1, 0, 0)
    for j in (1, 2, 3):
        rest = principal(K.extract([1, 2], [1, 2]), j - 1)
        observe.holds("N-out", vanishes(principal(lifted, j) - principal(K, j) - t * rest))
    values = list(sp.symbols("l1:5", nonnegative=True))
    for M in (1, 2, 3):
        newton = esp(values, M) ** 2 - esp(values, M - 1) * esp(values, M + 1)
        observe.holds("N-out", nonnegative(sp.expand(newton)))
    for M in (1, 2):
        R = (M + 1) * esp(values[:3], M + 1) / esp(values[:3], M)
        rest = values[1:3]
        miss = esp(rest, M) / esp(values[:3], M)
        ratios = [esp(rest, m) / esp(rest, m - 1) for m in (M, M + 1)]
        slope = (M + 1) * miss**2 * (1 - ratios[1] / ratios[0])
        observe.holds("N-cut", vanishes(sp.diff(R, values[0]) - slope))
        before = M * esp(rest, M) / esp(rest, M - 1)
        g0 = 1 + M * (1 - R.subs(values[0], 0) / before)
        observe.holds("N-cut", vanishes(sp.diff(R, values[0]).subs(values[0], 0) - g0))
        ordered = values[1] + values[3]  # the greater eigenvalue has the smaller slope
        difference = (sp.diff(R, values[1]) - sp.diff(R, values[0])).subs(values[0], ordered)
        observe.holds("N-cut", nonnegative(difference))
        observe.holds("N-pop", vanishes(sum(v * sp.diff(R, v) for v in values[:3]) - R))  # homogeneous
    a, b = values[:2]
    R = 2 * a * b / (a + b)
    second = sp.hessian(R, (a, b))
    observe.holds("N-pop", nonnegative(-second[0, 0]) and vanishes(second.det()))


@pytest.mark.claim("N-pop")
def test_geometric_spectra_telescope(observe: Observer) -> None:
    """e_{M+1}/e_M of 1, B, …, B^{n−1} is B^M(1−B^{n−M})/(1−B^{M+1}); n→∞ gives the closed form."""
    B = sp.Symbol("B", positive=True)
    for n in (2, 4):
        values = [B**i for i in range(n)]
        for M in range(n):
            ratio = B**M * (1 - B ** (n - M)) / (1 - B ** (M + 1))
            observe.holds("N-pop", vanishes(esp(values, M + 1) - ratio * esp(values, M)))
            assert not vanishes(esp(values, M + 1) - B * ratio * esp(values, M))


@pytest.mark.claim("N-moments")
def test_two_values_with_the_same_first_moments(observe: Observer) -> None:
    """k numbers m and n − k numbers u have the sums s and q; the parabola that touches at t sums to the bound."""
    n, m, q, first = sp.symbols("n m q first", positive=True)
    u = (first * m - q) / (n * m - first)
    k = (first - n * u) / (m - u)
    observe.holds("N-moments", vanishes(k * m + (n - k) * u - first))
    observe.holds("N-moments", vanishes(k * m**2 + (n - k) * u**2 - q))
    a, b = sp.symbols("a b")
    observe.holds("N-moments", vanishes((a * first - b * t * first) - first / t * (a * t - b * t**2)))
    observe.holds("N-moments", sp.diff(sp.log(1 + t), t, 3).is_positive)


@pytest.mark.claim("N-solve")
def test_predictions_from_any_two_approximate_solves(observe: Observer) -> None:
    """kᵀA⁻¹y − (vᵀy + αᵀs) = sᵀA⁻¹r, and kᵀA⁻¹k − vᵀ(k + s) = sᵀA⁻¹s."""
    A, k, y, v, alpha = symmetric(2), *(generic(2, 1, name) for name in ("c", "y", "v", "a"))
    r, s = y - A * alpha, k - A * v
    observe.holds("N-solve", vanishes((k.T * A.inv() * y - v.T * y - alpha.T * s - s.T * A.inv() * r)[0]))
    observe.holds("N-solve", vanishes((k.T * A.inv() * k - v.T * (k + s) - s.T * A.inv() * s)[0]))
    assert not vanishes((k.T * A.inv() * y - v.T * y)[0])
