"""Kernels and their Mercer spectra in mpmath, from their definitions: by enumeration, by roots, by exact quadrature.

Kernels are read from the JSON values of `gpbounds.kernels.plain`, or written as the papers and the ledger write them.
SE × Gaussian eigenvalues are enumerated; a tail is 1 − Σ at a precision high enough for the cancellation.
Matérn × uniform eigenvalues are roots of the boundary determinant: on an interval of length L an eigenfunction solves
λ (c² - D²)^(p+1) f = C f with D^m (D + c)^(p+1) f = 0, m = 0..p, at the right end and the mirror image at the left one,
so it is even or odd about the middle.  For kernels that are polynomials in x Nyström on a Gauss rule is exact.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import mpmath as mp


def covariance(record: Mapping[str, Any], x: Sequence[float], z: Sequence[float]) -> Any:
    """k(x, z) for exact doubles.

    >>> covariance({"type": "Linear", "variance": [1.0, 0.5]}, [2.0, 1.0], [1.0, 4.0])
    mpf('4.0')
    """
    kind = record["type"]
    if kind == "Sum":
        return covariance(record["k1"], x, z) + covariance(record["k2"], x, z)
    if kind == "Product":
        return covariance(record["k1"], x, z) * covariance(record["k2"], x, z)
    if kind == "OnColumns":
        return covariance(record["kernel"], [x[d] for d in record["columns"]], [z[d] for d in record["columns"]])
    a, b = ([mp.mpf(float(value)) for value in row] for row in (x, z))

    def each(name: str) -> list[Any]:
        value = record[name]
        return [mp.mpf(float(v)) for v in (value if isinstance(value, Sequence) else [value] * len(a))]

    if kind in ("Linear", "Polynomial"):
        s = mp.fsum(v * p * q for v, p, q in zip(each("variance"), a, b, strict=True))
        return s if kind == "Linear" else (mp.mpf(record["offset"]) + s) ** record["degree"]
    variance = mp.mpf(record["variance"])
    if kind == "Constant":
        return variance
    gaps = [(p - q) / length for p, q, length in zip(a, b, each("lengthscale"), strict=True)]
    squared = mp.fsum(gap**2 for gap in gaps)
    if kind == "SquaredExponential":
        return variance * mp.exp(-squared / 2)
    if kind == "RationalQuadratic":
        shape = mp.mpf(record["shape"])
        return variance * (1 + squared / (2 * shape)) ** -shape
    if kind == "Periodic":
        turns = zip(a, b, each("period"), each("lengthscale"), strict=True)
        waves = [mp.sinpi((p - q) / period) / length for p, q, period, length in turns]
        return variance * mp.exp(-2 * mp.fsum(wave**2 for wave in waves))
    if kind == "Matern":
        nu, root = mp.mpf(record["nu"]), mp.sqrt(2 * mp.mpf(record["nu"]) * squared)
        if not root:
            return variance
        return variance * 2 ** (1 - nu) / mp.gamma(nu) * root**nu * mp.besselk(nu, root)
    raise ValueError(f"record: expected a kernel of gpbounds, got type {kind!r}")


def gram(record: Mapping[str, Any], X: Sequence[Sequence[float]]) -> Any:
    """The matrix k(x_i, x_j)."""
    return mp.matrix([[covariance(record, x, z) for z in X] for x in X])


def stationary(X: Any, Z: Any, variance: Any, lengthscales: list[Any], p: int | None = None) -> Any:
    """variance · ρ(r) for lists of rows: squared exponential, or Matérn of ν = p + ½."""
    K = mp.matrix(len(X), len(Z))
    for i, x in enumerate(X):
        for j, z in enumerate(Z):
            squared = sum(((u - v) / ell) ** 2 for u, v, ell in zip(x, z, lengthscales, strict=True))
            K[i, j] = variance * (mp.exp(-squared / 2) if p is None else half_integer(p, squared))
    return K


def half_integer(p: int, squared: Any) -> Any:
    """ρ_{p+½} of r²: p!/(2p)! Σ_i (p+i)!/(i!(p−i)!) (2z)^(p−i) e^(−z), z = √(2p+1) r."""
    z = mp.sqrt((2 * p + 1) * squared)
    f = mp.factorial
    terms = (f(p + i) / (f(i) * f(p - i)) * (2 * z) ** (p - i) for i in range(p + 1))
    return mp.exp(-z) * f(p) / f(2 * p) * sum(terms)


def printed_fourier_kernel(tau: Any, delta: Any) -> Any:
    """What the density that Sec. 5 prints realises with cos ητ (D = 1, σ_f = 1): ∫ p(η) cos ητ dη."""
    p = lambda eta: mp.sqrt(2 * mp.pi / delta) * mp.exp(-2 * mp.pi**2 * eta**2 / delta)  # noqa: E731
    return 2 * mp.quad(lambda eta: p(eta) * mp.cos(eta * tau), [0, 1, 2, 4, 8, 16])


def fourier_kernel(tau: Any, delta: Any) -> Any:
    """The same with ω ~ N(0, 2Δ)."""
    p = lambda omega: mp.exp(-(omega**2) / (4 * delta)) / mp.sqrt(4 * mp.pi * delta)  # noqa: E731
    return 2 * mp.quad(lambda omega: p(omega) * mp.cos(omega * tau), [0, 1, 2, 4, 8, 16, 32, 64])


def student_kernel(nu: Any, distance: Any) -> Any:
    """E cos ωᵀτ for ω = z√(2ν/χ²), z ~ N(0, I), one χ² of 2ν degrees of freedom, |τ| = ``distance``, any D.

    Given χ² = 2g it is exp(−ν|τ|²/(2g)); g is Gamma(ν).
    """
    nu, r = mp.mpf(nu), mp.mpf(distance)
    density = lambda g: g ** (nu - 1) * mp.exp(-g - nu * r**2 / (2 * g)) / mp.gamma(nu)  # noqa: E731
    return mp.quad(density, [0, nu / 4, nu, 2 * nu + 2, 4 * nu + 20, mp.inf])


def gamma_kernel(shape: Any, distance: Any) -> Any:
    """E cos ωᵀδ for ω = z√τ, z ~ N(0, I), τ ~ Gamma(shape, rate shape), |δ| = ``distance``, any D."""
    a, r = mp.mpf(shape), mp.mpf(distance)
    density = lambda tau: a**a * tau ** (a - 1) * mp.exp(-a * tau - tau * r**2 / 2) / mp.gamma(a)  # noqa: E731
    return mp.quad(density, [0, mp.mpf(1) / 4, 1, 4, 16, mp.inf])


def line_kernel(lengthscale: Any, turns: Any, terms: int) -> Any:
    """Σ_j e^{−κ} I_|j|(κ) cos(2πj·turns) over |j| ≤ ``terms``, κ = 1/lengthscale²: a sum over the line spectrum."""
    kappa = 1 / mp.mpf(lengthscale) ** 2
    line = lambda j: mp.exp(-kappa) * mp.besseli(abs(j), kappa) * mp.cospi(2 * j * mp.mpf(turns))  # noqa: E731
    return mp.fsum(line(j) for j in range(-terms, terms + 1))


def skellam(mean: Any, j: int, terms: int) -> Any:
    """P(A − B = j) for independent Poisson variables A and B of this mean, summed over their values up to ``terms``."""
    mu = mp.mpf(mean)
    chance = lambda n: mp.exp(-mu) * mu**n / mp.factorial(n)  # noqa: E731
    return mp.fsum(chance(n + j) * chance(n) for n in range(max(0, -j), terms))


def matern(nu: Any, distance: Any) -> Any:
    """2^(1−ν)/Γ(ν) z^ν K_ν(z), z = √(2ν) |τ|."""
    nu = mp.mpf(nu)
    z = mp.sqrt(2 * nu) * mp.mpf(distance)
    return 2 ** (1 - nu) / mp.gamma(nu) * z**nu * mp.besselk(nu, z) if z else mp.mpf(1)


def ratio(lengthscale: Any, std: Any) -> Any:
    """B = 1 + τ - √(τ² + 2τ), τ = ℓ²/(2s²)."""
    tau = mp.mpf(lengthscale) ** 2 / (2 * mp.mpf(std) ** 2)
    return 1 + tau - mp.sqrt(tau**2 + 2 * tau)


def printed_eigenvalue(m: int, lengthscale: Any, variance: Any, a: Any) -> Any:
    """v √(2a/A) B^(m-1) with b = 1/(2ℓ²), c = √(a² + 2ab), A = a + b + c, B = b/A, as printed but for ``a``."""
    b = 1 / (2 * mp.mpf(lengthscale) ** 2)
    A = a + b + mp.sqrt(a**2 + 2 * a * b)
    return variance * mp.sqrt(2 * a / A) * (b / A) ** (m - 1)


def isotropic_tail(lengthscale: Any, std: Any, variance: Any, dim: int, M: int) -> Any:
    """Σ_{m>M} of v(1-B)^D B^k with multiplicity C(k+D-1, D-1): v minus the largest M, at sufficient precision."""
    spare = 100
    while True:
        with mp.workdps(mp.mp.dps + spare):
            B = ratio(lengthscale, std)
            left, k, rest = M, 0, mp.mpf(1)
            while left > 0:
                take = min(left, int(mp.binomial(k + dim - 1, dim - 1)))
                rest -= take * (1 - B) ** dim * B**k
                left -= take
                k += 1
            if rest > mp.mpf(10) ** -spare:
                return variance * rest
        spare *= 2


def isotropic_tails(lengthscale: Any, std: Any, variance: Any, dim: int, M: int) -> list[Any]:
    """The tails at 0, 1 ... M: :func:`isotropic_tail` at M, and the eigenvalues added upward."""
    B, level = ratio(lengthscale, std), 0
    levels: list[int] = []
    while len(levels) < M:
        levels += [level] * int(mp.binomial(level + dim - 1, dim - 1))
        level += 1
    tails = [isotropic_tail(lengthscale, std, variance, dim, M)]
    for k in reversed(levels[:M]):
        tails.append(tails[-1] + variance * (1 - B) ** dim * B**k)
    return tails[::-1]


def product_eigenvalues(lengthscales: Sequence[Any], stds: Sequence[Any], count: int, degree: int) -> list[Any]:
    """The ``count`` largest of Π_d (1-B_d) B_d^(n_d) over n in {0 ... degree}^D (full enumeration), v = 1."""
    ratios = [ratio(ell, s) for ell, s in zip(lengthscales, stds, strict=True)]
    axes = [[(1 - B) * B**n for n in range(degree + 1)] for B in ratios]
    values = sorted((mp.fprod(term) for term in itertools.product(*axes)), reverse=True)
    return values[:count]


def principal_variances(lengthscales: Sequence[Any], cov: Sequence[Sequence[Any]]) -> list[Any]:
    """The eigenvalues of AᵀΛ⁻²A, decreasing, A the lower factor of ``cov`` = AAᵀ and Λ the diagonal of lengthscales."""
    dim = len(lengthscales)
    A = mp.cholesky(mp.matrix([list(row) for row in cov]))
    scaled = mp.diag([1 / mp.mpf(ell) for ell in lengthscales]) * A
    return sorted(mp.eigsy(scaled.T * scaled, eigvals_only=True), reverse=True)[:dim]


def correlated_eigenvalues(
    lengthscales: Sequence[Any], cov: Sequence[Sequence[Any]], count: int, degree: int
) -> list[Any]:
    """The ``count`` largest eigenvalues under N(0, cov), v = 1: those of lengthscale 1 and the principal variances."""
    stds = [mp.sqrt(g) for g in principal_variances(lengthscales, cov)]
    return product_eigenvalues([1] * len(stds), stds, count, degree)


def tensor_tail(parts: Sequence[Sequence[Any]], M: int) -> Any:
    """1 − the sum of the M largest products of one entry of each of ``parts``, eigenvalues as shares of traces."""
    products = sorted((mp.fprod(term) for term in itertools.product(*parts)), reverse=True)
    return 1 - mp.fsum(products[:M])


def mercer_constants(lengthscale: Any, std: Any) -> tuple[Any, Any, Any, Any]:
    """(α, ε, β, δ²) of Eq. 31-35: ρ = N(0, std²) = απ^(-½)exp(−α²x²), k = exp(−ε²τ²)."""
    alpha, epsilon = 1 / (mp.sqrt(2) * mp.mpf(std)), 1 / (mp.sqrt(2) * mp.mpf(lengthscale))
    beta = (1 + (2 * epsilon / alpha) ** 2) ** mp.mpf("0.25")
    return alpha, epsilon, beta, alpha**2 * (beta**2 - 1) / 2


def eigenfunction(n: int, x: Any, lengthscale: Any, std: Any) -> Any:
    """e_n = β^½ 2^((1−n)/2) Γ(n)^(-½) exp(−δ²x²) H_(n−1)(αβx), n >= 1."""
    alpha, _, beta, delta2 = mercer_constants(lengthscale, std)
    x = mp.mpf(x)
    scale = mp.sqrt(beta) * mp.mpf(2) ** (mp.mpf(1 - n) / 2) / mp.sqrt(mp.gamma(n))
    return scale * mp.exp(-delta2 * x**2) * mp.hermite(n - 1, alpha * beta * x)


def eigenvalue(n: int, lengthscale: Any, std: Any) -> Any:
    """λ_n = √(α²/(α²+δ²+ε²)) (ε²/(α²+δ²+ε²))^(n−1), n >= 1, of the kernel of variance 1."""
    alpha, epsilon, _, delta2 = mercer_constants(lengthscale, std)
    total = alpha**2 + delta2 + epsilon**2
    return mp.sqrt(alpha**2 / total) * (epsilon**2 / total) ** (n - 1)


def weighted_eigenfunctions(count: int, x: Any, lengthscale: Any, std: Any) -> list[Any]:
    """√λ_n e_n(x) for n = 1 ... count, by H_{k+1} = 2zH_k − 2kH_{k−1}."""
    alpha, _, beta, delta2 = mercer_constants(lengthscale, std)
    z = alpha * beta * mp.mpf(x)
    first, ratio = (
        eigenvalue(1, lengthscale, std),
        eigenvalue(2, lengthscale, std) / eigenvalue(1, lengthscale, std),
    )
    scale = mp.sqrt(beta * first) * mp.exp(-delta2 * mp.mpf(x) ** 2)
    before, now, values = mp.mpf(0), mp.mpf(1), []
    for k in range(count):
        values.append(scale * now)
        before, now = now, 2 * z * now - 2 * k * before
        scale *= mp.sqrt(ratio / (2 * (k + 1)))
    return values


def truncation_error(degrees: Sequence[Sequence[int]], x: Sequence[Any], lengthscales: Any, stds: Any) -> Any:
    """1 − Σ Π_d λ_(n_d) e_(n_d)(x_d)² over 0-based ``degrees``: k(x, x) − k_r(x, x) of the kernel of variance 1."""
    most = [max(n[d] for n in degrees) + 1 for d in range(len(x))]
    tables = [
        weighted_eigenfunctions(top, at, ell, s) for top, at, ell, s in zip(most, x, lengthscales, stds, strict=True)
    ]
    return 1 - mp.fsum(mp.fprod(table[n] for table, n in zip(tables, row, strict=True)) ** 2 for row in degrees)


def spectral_density(p: int, variance: Any, lengthscale: Any, omega: Any) -> Any:
    """S(ω) = C / (c² + ω²)^(p+1) of the Matérn kernel of order p + ½; ∫ S dω/(2π) = variance."""
    c = mp.sqrt(2 * p + 1) / lengthscale
    constant = 2 * mp.sqrt(mp.pi) * mp.gamma(p + 1) / mp.gamma(p + mp.mpf(1) / 2)
    return variance * constant * c ** (2 * p + 1) / (c**2 + mp.mpf(omega) ** 2) ** (p + 1)


def half_eigenvalue(variance: Any, lengthscale: Any, width: Any, k: int) -> Any:
    """The k-th eigenvalue for ν = ½ (L-49b): variance κ/(z² + κ²), z = (k-1)π/2 + θ, tan θ = κ/z, κ = width/(2 ell)."""
    kappa = mp.mpf(width) / (2 * mp.mpf(lengthscale))
    start = (k - 1) * mp.pi / 2
    theta = 2 * kappa / (start + mp.sqrt(start**2 + 4 * kappa))
    for _ in range(
        60
    ):  # Newton's method on a concave function, from the right: after one step it increases to the root
        z = start + theta
        step = (theta - mp.atan2(kappa, z)) / (1 + kappa / (z**2 + kappa**2))
        theta -= step
        if abs(step) <= mp.eps * theta:
            break
    return variance * kappa / ((start + theta) ** 2 + kappa**2)


def boundary_determinant(p: int, gamma: Any, omega: Any, odd: bool) -> Any:
    """Zero exactly where ω is the frequency of an even (odd) eigenfunction on an interval of length 1, γ = c L.

    The p + 1 solutions cosh(μ_j x) (or sinh(μ_j x)/μ_j), μ_j² = γ² - (γ² + ω²) e^(2πij/(p+1)), meet p + 1 conditions
    at x = ½.  Dividing by the Vandermonde determinant of the μ_j² makes the function real.
    """
    roots = [gamma**2 - (gamma**2 + omega**2) * mp.expjpi(mp.mpf(2 * j) / (p + 1)) for j in range(p + 1)]
    matrix = mp.matrix(p + 1, p + 1)
    for j, square in enumerate(roots):
        mu = mp.sqrt(square)
        right = (gamma + mu) ** (p + 1) * mp.exp(mu / 2)
        left = (gamma - mu) ** (p + 1) * mp.exp(-mu / 2)
        for m in range(p + 1):
            matrix[m, j] = (mu**m * right + (-1) ** (m + odd) * mu**m * left) / (mu if odd else 1)
    vandermonde = mp.fprod(roots[i] - roots[j] for i in range(p + 1) for j in range(i))
    value = mp.det(matrix) / vandermonde
    return mp.re(value)


def _root(function: Any, low: Any, high: Any, at_low: Any) -> Any:
    """The sign change between ``low`` and ``high``: bisection first, secants to full precision after."""
    for _ in range(10):
        middle = (low + high) / 2
        value = function(middle)
        low, high = (middle, high) if mp.sign(value) == mp.sign(at_low) else (low, middle)
    left, right, at_left, at_right = low, high, function(low), function(high)
    for _ in range(14):
        if at_left == at_right or left == right:
            break
        left, right, at_left = right, right - at_right * (right - left) / (at_right - at_left), at_right
        at_right = function(right)
    assert low <= right <= high
    return right


def uniform_eigenvalues(p: int, variance: Any, lengthscale: Any, width: Any, count: int) -> list[Any]:
    """The ``count`` largest eigenvalues for ν = p + ½ on an interval of length ``width``, to the working precision."""
    gamma = mp.sqrt(2 * p + 1) * mp.mpf(width) / lengthscale
    step = mp.mpf(1) / 4
    grid = [step * mp.mpf(4) ** -i for i in range(25, 0, -1)]
    grid += [step * (i + 1) for i in range(int((count + p + 1) * mp.pi / step))]
    frequencies = []
    for odd in (False, True):

        def function(omega: Any, odd: bool = odd) -> Any:
            return boundary_determinant(p, gamma, omega, odd)

        with mp.workprec(mp.mp.prec + 20):
            values = [function(omega) for omega in grid]
            for i in range(1, len(grid)):
                if mp.sign(values[i - 1]) * mp.sign(values[i]) < 0:
                    frequencies.append(_root(function, grid[i - 1], grid[i], values[i - 1]))
    frequencies.sort()
    return [spectral_density(p, variance, lengthscale, omega / width) / width for omega in frequencies[:count]]


def gauss_rule(offdiagonal: Sequence[Any]) -> list[tuple[Any, Any]]:
    """(nodes, weights) of the Gauss rule whose Jacobi matrix has a zero diagonal and these roots beside it."""
    n = len(offdiagonal) + 1
    jacobi = mp.matrix(n)
    for i, b in enumerate(offdiagonal):
        jacobi[i, i + 1] = jacobi[i + 1, i] = b
    values, vectors = mp.eigsy(jacobi)
    return [(values[i], vectors[0, i] ** 2) for i in range(n)]


def gaussian_nodes(mean: Sequence[Any], cov: Sequence[Sequence[Any]], degree: int) -> list[tuple[list[Any], Any]]:
    """Points and weights that integrate polynomials up to 2·``degree`` + 1 in each z_d, x = mean + Az, cov = AAᵀ."""
    dim = len(mean)
    A = mp.cholesky(mp.matrix([[mp.mpf(v) for v in row] for row in cov]))
    line = gauss_rule([mp.sqrt(i + 1) for i in range(degree)])
    nodes = []
    for each in itertools.product(line, repeat=dim):
        x = [mp.mpf(mean[d]) + mp.fsum(A[d, e] * each[e][0] for e in range(d + 1)) for d in range(dim)]
        nodes.append((x, mp.fprod(w for _, w in each)))
    return nodes


def uniform_nodes(low: Sequence[Any], high: Sequence[Any], degree: int) -> list[tuple[list[Any], Any]]:
    """As `gaussian_nodes`, for the uniform law on a box."""
    line = gauss_rule([(i + 1) / mp.sqrt(4 * mp.mpf(i + 1) ** 2 - 1) for i in range(degree)])
    halves = [(mp.mpf(b) - mp.mpf(a)) / 2 for a, b in zip(low, high, strict=True)]
    nodes = []
    for each in itertools.product(line, repeat=len(low)):
        x = [mp.mpf(a) + h * (1 + t) for a, h, (t, _) in zip(low, halves, each, strict=True)]
        nodes.append((x, mp.fprod(w for _, w in each)))
    return nodes


def polynomial_eigenvalues(record: Mapping[str, Any], nodes: Sequence[tuple[list[Any], Any]]) -> list[Any]:
    """All eigenvalues of the kernel ``record`` under the law of ``nodes``, decreasing.

    For f in the span of k(·, x) the integral ∫ k(·, x) f(x) p(x) dx is that of a polynomial, which the rule integrates
    exactly: the matrix (√w_i k(x_i, x_j) √w_j) has the nonzero eigenvalues of the operator.

    >>> standard = gaussian_nodes([0], [[1]], 2)
    >>> squared = {"type": "Polynomial", "variance": 1.0, "offset": 1.0, "degree": 2}
    >>> [mp.nstr(v, 5) for v in polynomial_eigenvalues(squared, standard)]  # 2 + √2, 2, 2 − √2
    ['3.4142', '2.0', '0.58579']
    """
    n, roots = len(nodes), [mp.sqrt(w) for _, w in nodes]
    K = mp.matrix(n)
    for i, j in itertools.combinations_with_replacement(range(n), 2):
        K[i, j] = K[j, i] = roots[i] * roots[j] * covariance(record, nodes[i][0], nodes[j][0])
    return sorted(mp.eigsy(K, eigvals_only=True), reverse=True)
