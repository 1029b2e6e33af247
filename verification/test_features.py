"""Features: L-24, L-46, L-47, L-50, L-52 … L-56, N-student, N-gamma, N-line."""

from __future__ import annotations

import itertools
import math

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from observer import Observer
from thinning import one_in

from gpbounds.divergences import gaussian_kl
from gpbounds.inputs import Gaussian
from gpbounds.kernels import Kernel, Matern, Periodic, RationalQuadratic, SquaredExponential
from gpbounds.lowrank.features import FourierFeatures, LeverageFourierFeatures, MercerFeatures
from gpbounds.lowrank.features.fourier import CosineSine
from gpbounds.lowrank.features.mercer import Expansion, best_first, by_total_degree
from gpbounds.reference import spectra as reference

RATIOS = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
seeds = st.integers(0, 2**32 - 1)
ratio = st.floats(0.05, 10.0)


def deviations(features: CosineSine, kernel: Kernel, X: np.ndarray, weighted: bool = True) -> float:
    """The largest |mean − k(x, x')|, in standard errors, over pairs of rows of X with x ≠ x'; one mean per pair."""
    features.fit(X)
    omega, weights = features.frequencies, features.amplitudes**2 * (features.rank // 2)
    terms = np.ones(len(omega)) * kernel.max_variance if not weighted else weights
    worst = 0.0
    for i, j in itertools.combinations(range(len(X)), 2):
        values = terms * np.cos(omega @ (X[i] - X[j]))
        error = values.mean() - kernel(X[i : i + 1], X[j : j + 1])[0, 0]
        worst = max(worst, abs(error) / (values.std() / math.sqrt(values.size)))
    return worst


# --- random Fourier features


@pytest.mark.claim("L-55")
def test_the_printed_density_is_that_of_another_kernel(observe: Observer) -> None:
    delta, tau = mp.mpf("1.7"), mp.mpf("0.9")
    true = mp.exp(-delta * tau**2)
    printed = reference.printed_fourier_kernel(tau, delta)
    observe.fails(
        "L-55",
        abs(printed - true) < mp.mpf("0.1"),
        "Δ = 1.7, τ = 0.9: the printed density and cos ητ give 0.98271, the kernel is 0.25233; true: ω ~ N(0, 2Δ)",
    )
    observe.equal("L-55", printed, mp.exp(-delta * tau**2 / (8 * mp.pi**2)), rtol=mp.mpf("1e-30"))
    observe.equal("L-55", [round(float(printed), 5), round(float(true), 5)], [0.98271, 0.25233])
    # With 2π in the cosine it is the kernel exp(−½Δτ²): still not this one.
    in_cycles = reference.printed_fourier_kernel(2 * mp.pi * tau, delta)
    observe.equal("L-55", in_cycles, mp.exp(-delta * tau**2 / 2), rtol=mp.mpf("1e-30"))
    for d, t in itertools.product((mp.mpf("0.2"), delta), (mp.mpf(0), mp.mpf("0.3"), tau)):
        observe.equal("L-55", reference.fourier_kernel(t, d), mp.exp(-d * t**2), rtol=mp.mpf("1e-30"))
    # σ_f⁻² in front makes the density integrate to σ_f⁻², and φ without σ_f has unit variance.
    observe.fails("L-55", mp.mpf(4) ** -1 == 1, "σ_f = 2: the printed density integrates to 1/4")


@pytest.mark.claim("L-55", "N-student")
@pytest.mark.parametrize(
    "kernel", [SquaredExponential(2.5, [0.4, 1.0, 3.0]), Matern(0.5, 2.5, [0.4, 1.0, 3.0]), Matern(2.3, 0.3)]
)
def test_fourier_features_are_unbiased(observe: Observer, kernel: SquaredExponential | Matern) -> None:
    X = np.random.default_rng(1).standard_normal((8, 3))
    claim = "N-student" if isinstance(kernel, Matern) else "L-55"
    observe.holds(claim, deviations(FourierFeatures(kernel, 400_000, 7), kernel, X) < 4.5, cases=28)
    features = FourierFeatures(kernel, 60, 7).fit(X)
    Xi = features(X)
    observe.equal(claim, (Xi**2).sum(axis=1), np.full(8, kernel.variance), rtol=1e-14)
    by_hand = np.array(
        [
            [
                mp.sqrt(2 * mp.mpf(kernel.variance) / 60) * f(mp.fdot(map(mp.mpf, w), map(mp.mpf, x)))
                for f in (mp.cos, mp.sin)
                for w in features.frequencies
            ]
            for x in X
        ]
    )
    observe.equal(claim, Xi.ravel(), by_hand.ravel(), atol=1e-13)


@pytest.mark.claim("N-gamma")
@pytest.mark.parametrize("shape", one_in(3, [0.3, 1.0, 4.0]))
def test_rational_quadratic_frequencies_are_a_gamma_mixture(observe: Observer, shape: float) -> None:
    X = np.random.default_rng(1).standard_normal((8, 3))
    kernel = RationalQuadratic(shape, 2.5, [0.4, 1.0, 3.0])
    observe.holds("N-gamma", deviations(FourierFeatures(kernel, 400_000, 7), kernel, X) < 4.5, cases=28)
    for distance in ("0.1", "0.7", "2.5"):
        true = (1 + mp.mpf(distance) ** 2 / (2 * mp.mpf(shape))) ** -mp.mpf(shape)
        observe.equal("N-gamma", reference.gamma_kernel(shape, distance), true, rtol=1e-8)
        observe.equal("N-gamma", RationalQuadratic(shape)([[0.0]], [[float(distance)]])[0, 0], true, rtol=1e-14)
    each = RationalQuadratic(shape)([[0.0]], [[0.8]])[0, 0] * RationalQuadratic(shape)([[0.0]], [[1.1]])[0, 0]
    joint = RationalQuadratic(shape)([[0.0, 0.0]], [[0.8, 1.1]])[0, 0]
    observe.fails("N-gamma", abs(each / joint - 1) < 1e-3, "a τ for each coordinate: a product of kernels")


@pytest.mark.claim("N-line")
@pytest.mark.parametrize("lengthscale", one_in(3, [0.4, 1.0, 2.5]))
def test_periodic_frequencies_are_lines_with_the_weights_of_bessel_functions(
    observe: Observer, lengthscale: float
) -> None:
    X = np.random.default_rng(1).standard_normal((8, 2))
    kernel = Periodic([1.3, 4.0], 2.5, [lengthscale, 1.4])
    features = FourierFeatures(kernel, 400_000, 7)
    observe.holds("N-line", deviations(features, kernel, X) < 4.5, cases=28)
    lines = features.frequencies * np.array([1.3, 4.0]) / (2.0 * np.pi)
    observe.equal("N-line", lines, np.rint(lines), atol=1e-10)
    Xi = FourierFeatures(kernel, 60, 7).fit(X)
    observe.equal("N-line", Xi(X + 3 * np.array([1.3, 4.0])), Xi(X), atol=1e-9)
    for turns in ("0", "0.1", "0.37"):
        true = mp.exp(-2 * mp.sinpi(mp.mpf(turns)) ** 2 / mp.mpf(lengthscale) ** 2)
        observe.equal("N-line", reference.line_kernel(lengthscale, turns, 60), true, rtol=1e-12)
    kappa = 1 / mp.mpf(lengthscale) ** 2
    for j in (-3, 0, 1, 5):
        bessel = mp.exp(-kappa) * mp.besseli(abs(j), kappa)
        observe.equal("N-line", reference.skellam(kappa / 2, j, 80), bessel, rtol=1e-12)


@pytest.mark.claim("N-student")
@pytest.mark.parametrize("nu", [0.5, 1.0, 1.5, 2.3])
def test_matern_frequencies_are_multivariate_t(observe: Observer, nu: float) -> None:
    for distance in ("0.1", "0.7", "2.5"):
        with mp.workdps(30):
            observe.equal(
                "N-student", reference.student_kernel(nu, distance), reference.matern(nu, distance), rtol=1e-15
            )


@pytest.mark.claim("N-student")
def test_in_two_dimensions_the_chi_squared_is_shared(observe: Observer) -> None:
    nu, tau = mp.mpf("1.5"), (mp.mpf("0.8"), mp.mpf("1.1"))
    distance = mp.sqrt(tau[0] ** 2 + tau[1] ** 2)
    with mp.workdps(20):
        # the bivariate t density, and its transform along a ray: 2π∫ r f(r) J₀(r|τ|) dr
        density = lambda r: (1 + r**2 / (2 * nu)) ** (-nu - 1) / (2 * mp.pi)  # noqa: E731
        transform = mp.quadosc(
            lambda r: 2 * mp.pi * r * density(r) * mp.besselj(0, r * distance), [0, mp.inf], omega=distance
        )
        kernel = reference.matern(nu, distance)
        observe.equal("N-student", transform, kernel, rtol=1e-10)
    independent = reference.matern(nu, tau[0]) * reference.matern(nu, tau[1])
    observe.fails("N-student", abs(independent / kernel - 1) < 0.02, "a χ² for each coordinate: a product of kernels")
    # And as drawn: the shared χ² is unbiased, independent ones are many standard errors off.
    X = np.array([[0.0, 0.0], [0.8, 1.1]])
    features = FourierFeatures(Matern(1.5), 400_000, 3)
    observe.holds("N-student", deviations(features, Matern(1.5), X) < 4.5)
    rng = np.random.default_rng(3)
    each = rng.standard_normal((200_000, 2)) * np.sqrt(3.0 / rng.chisquare(3.0, (200_000, 2)))
    waves = np.cos(each @ X[1])
    standard_errors = abs(waves.mean() - float(kernel)) / (waves.std() / math.sqrt(waves.size))
    assert standard_errors > 10.0


@pytest.mark.claim("L-24")
@pytest.mark.parametrize(("lengthscale", "width", "noise"), [(0.3, 1.0, 0.01), ([0.5, 2.0], [1.0, 3.0], 1e-3)])
def test_weighted_features_are_unbiased(
    observe: Observer, lengthscale: list[float], width: float, noise: float
) -> None:
    kernel = SquaredExponential(2.0, lengthscale)
    dim = kernel.dim or 1
    X = np.random.default_rng(5).random((8, dim)) * width
    features = LeverageFourierFeatures(kernel, 400_000, noise=noise, N=1000, width=width, rng=11)
    observe.holds("L-24", deviations(features, kernel, X) < 4.5, cases=28)
    assert deviations(features, kernel, X, weighted=False) > 20.0  # without the weights it would show
    observe.equal("L-24", features.density.ratio, 1000 * 2.0 / noise, rtol=1e-15)
    weights = features.weights
    observe.holds("L-24", abs(weights.mean() - 1.0) < 4.5 * weights.std() / math.sqrt(weights.size))

    small = LeverageFourierFeatures(kernel, 40, noise=noise, N=1000, width=width, rng=11).fit(X)
    many = np.random.default_rng(6).random((90, dim)) * width
    Xi = small(many)
    assert np.linalg.matrix_rank(Xi) <= 40
    terms = [
        w * np.cos((many[:, None] - many[None]) @ omega)
        for w, omega in zip(small.weights, small.frequencies, strict=True)
    ]
    observe.equal("L-24", (Xi @ Xi.T).ravel(), (2.0 / 20.0 * np.sum(terms, axis=0)).ravel(), atol=1e-12)


@pytest.mark.claim("L-24")
@given(epsilon=st.floats(0.01, 100.0), tau=st.floats(-3.0, 3.0))
def test_inputs_are_rescaled_into_cycles(observe: Observer, epsilon: float, tau: float) -> None:
    scaled = mp.mpf(tau) * mp.mpf(epsilon) / (mp.sqrt(2) * mp.pi)
    observe.equal(
        "L-24", mp.exp(-2 * mp.pi**2 * scaled**2), mp.exp(-((mp.mpf(epsilon) * mp.mpf(tau)) ** 2)), rtol=1e-40
    )


# --- Mercer features


@pytest.mark.claim("L-50")
@pytest.mark.parametrize(("lengthscale", "std"), [("0.5", "1"), ("2", "0.7")])
def test_eigenfunctions_of_the_squared_exponential(observe: Observer, lengthscale: str, std: str) -> None:
    ell, s = mp.mpf(lengthscale), mp.mpf(std)
    with mp.workdps(30):
        # The trapezoidal rule converges faster than any power for these integrands: 1e-30 with eight nodes a deviation.
        grid = [s * i / 8 for i in range(-112, 113)]
        mass = [s / 8 * mp.npdf(x, 0, s) for x in grid]
        k = lambda a, b: mp.exp(-((a - b) ** 2) / (2 * ell**2))  # noqa: E731
        e = {n: [reference.eigenfunction(n, x, ell, s) for x in grid] for n in range(1, 6)}
        for m, n in itertools.combinations_with_replacement(range(1, 6), 2):
            inner = mp.fsum(p * v * w for p, v, w in zip(mass, e[m], e[n], strict=True))
            observe.equal("L-50", inner, mp.mpf(m == n), atol=1e-25)
        for n, at in itertools.product((1, 2, 5), (mp.mpf("0.3"), mp.mpf("-1.2"))):
            image = mp.fsum(p * k(at, x) * v for p, x, v in zip(mass, grid, e[n], strict=True))
            observe.equal(
                "L-50", image, reference.eigenvalue(n, ell, s) * reference.eigenfunction(n, at, ell, s), atol=1e-25
            )
        a, b = mp.mpf("0.4"), mp.mpf("-0.9")
        u, v = (reference.weighted_eigenfunctions(200, x, ell, s) for x in (a, b))
        observe.equal("L-50", mp.fdot(u, v), k(a, b), rtol=1e-25)
        observe.equal(
            "L-50", u[6], mp.sqrt(reference.eigenvalue(7, ell, s)) * reference.eigenfunction(7, a, ell, s), rtol=1e-25
        )
    observe.fails(
        "L-50",
        abs(mp.exp(-((ell * (a - b)) ** 2)) - k(a, b)) < 0.1,
        "'Δ contains the length scales': with ε = ℓ the kernel is another one; ε = 1/(√2 ℓ)",
    )


@pytest.mark.claim("L-50", "L-54")
@given(seed=seeds, dim=st.integers(1, 3), rank=st.integers(1, 80), order=st.sampled_from(["best", "degree"]))
def test_mercer_features_are_the_expansion(observe: Observer, seed: int, dim: int, rank: int, order: str) -> None:
    rng = np.random.default_rng(seed)
    kernel = SquaredExponential(np.exp(rng.normal()), np.exp(rng.uniform(-2.0, 1.5, dim)))
    inputs = Gaussian(np.exp(rng.normal(size=dim)))
    X = 1.5 * inputs.sample(3, rng)
    features = MercerFeatures(kernel, rank, inputs=inputs, order=order).fit(X)
    Xi = features(X)
    ell, top = kernel.lengthscales(dim), features.degrees.max(axis=0) + 1
    for x, row, left in zip(X, Xi, features.residual_diagonal(X), strict=True):
        tables = [reference.weighted_eigenfunctions(int(top[d]), x[d], ell[d], inputs.stds[d]) for d in range(dim)]
        root = mp.sqrt(kernel.variance)
        true = [root * mp.fprod(t[n] for t, n in zip(tables, degrees, strict=True)) for degrees in features.degrees]
        observe.equal("L-50", list(row), true, atol=5e-15 * math.sqrt(kernel.variance))
        with mp.workdps(400):  # 1 - Σ: the digits of what is left are the last ones
            true_left = kernel.variance * reference.truncation_error(features.degrees.tolist(), x, ell, inputs.stds)
        observe.equal("L-54", left, true_left, rtol=1e-12)


@pytest.mark.broad
@pytest.mark.claim("L-52")
@pytest.mark.parametrize("rho", RATIOS)
def test_nine_hundred_functions_at_twenty_five_deviations(observe: Observer, rho: float) -> None:
    s = 1.3
    x = s * np.array([0.0, 0.1, -0.5, 1.0, 2.0, -3.0, 5.0, 7.3, 10.0, 15.0, 20.0, 25.0])
    fast = Expansion(rho * s, s).table(x, 900)
    for column, at in zip(fast.T, x, strict=True):
        true = reference.weighted_eigenfunctions(900, at, rho * s, s)
        observe.equal("L-52", list(column), true, atol=5e-15)


@pytest.mark.claim("L-52")
def test_hermite_polynomials_would_overflow(observe: Observer) -> None:
    """Far out the first functions underflow and later ones are of order 1: e^(−δ²x²) alone is 0."""
    at, rho = 20.0, 0.05
    true = reference.weighted_eigenfunctions(6000, at, rho, 1)
    assert math.exp(-float(reference.mercer_constants(rho, 1)[3]) * at**2) == 0.0
    assert max(abs(t) for t in true[-2000:]) > 0.01
    observe.equal("L-52", list(Expansion(rho, 1.0).table(np.array([at]), 6000)[:, 0]), true, atol=2e-14)


@pytest.mark.claim("L-53")
@given(rho=ratio, x=st.floats(-8.0, 8.0), y=st.floats(-8.0, 8.0), rank=st.integers(0, 40))
def test_cramer(observe: Observer, rho: float, x: float, y: float, rank: int) -> None:
    beta = reference.mercer_constants(rho, 1)[2]
    envelope = mp.sqrt(beta) * mp.exp(mp.mpf(x) ** 2 / 4)
    u = reference.weighted_eigenfunctions(60, x, rho, 1)
    values = [abs(w) / mp.sqrt(reference.eigenvalue(n, rho, 1)) for n, w in enumerate(u, 1)]
    observe.upper("L-53", values, envelope * (1 + mp.mpf("1e-45")))
    v = reference.weighted_eigenfunctions(rank, y, rho, 1)
    truth = abs(mp.exp(-((mp.mpf(x) - mp.mpf(y)) ** 2) / (2 * mp.mpf(rho) ** 2)) - mp.fdot(u[:rank], v))
    q = reference.eigenvalue(2, rho, 1) / reference.eigenvalue(1, rho, 1)
    observe.upper("L-53", truth, beta * mp.exp((mp.mpf(x) ** 2 + mp.mpf(y) ** 2) / 4) * q**rank, tol=1e-45)


@pytest.mark.claim("L-53")
@given(rho=st.floats(0.05, 1e6), where=st.floats(-4.0, 4.0), n=st.integers(0, 60))
def test_what_is_left_in_one_dimension(observe: Observer, rho: float, where: float, n: int) -> None:
    x = where * max(1.0, rho)
    e = Expansion(rho, 1.0)
    with mp.workdps(900):  # what is left may be (1/(2ρ))^(2n)
        left = 1 - mp.fsum(u**2 for u in reference.weighted_eigenfunctions(n, x, rho, 1))
        rates, offsets = (a[:, 0] for a in e.log_tail_bound(np.array([x])))
        bound = min(mp.exp(mp.mpf(a) * n + mp.mpf(b)) for a, b in zip(rates, offsets, strict=True))
        observe.upper("L-53", left, bound * (1 + mp.mpf("1e-10")))
        observe.equal("L-53", e.squares(np.array([x]), n)[1][n, 0], left, rtol=1e-12, atol=1e-298)


@pytest.mark.claim("L-53")
@given(rho=st.floats(0.05, 1e6), where=st.floats(-4.0, 4.0))
def test_bounds_on_what_is_left_are_mehlers(observe: Observer, rho: float, where: float) -> None:
    """(q/t)ⁿ √((1−q²)/(1−t²)) exp(y²(t−q)/((1+t)(1+q))) for each t that is tried, y = βx, q <= t < 1."""
    x = where * max(1.0, rho)
    _, _, beta, _ = reference.mercer_constants(rho, 1)
    q = reference.eigenvalue(2, rho, 1) / reference.eigenvalue(1, rho, 1)
    rates, offsets = (a[:, 0] for a in Expansion(rho, 1.0).log_tail_bound(np.array([x])))
    observe.holds("L-53", rates.size >= 8)
    for rate, offset in zip(rates, offsets, strict=True):
        t, y = q * mp.exp(-mp.mpf(rate)), beta * mp.mpf(x)
        observe.holds("L-53", q <= t < 1)
        root = mp.log((1 - q**2) / (1 - t**2)) / 2
        observe.equal("L-53", offset, root + y**2 * (t - q) / ((1 + t) * (1 + q)), rtol=1e-9, atol=1e-9)


@pytest.mark.claim("L-53")
def test_cramer_is_attained(observe: Observer) -> None:
    observe.equal(
        "L-53", reference.eigenfunction(1, 0, "0.7", 1), mp.sqrt(reference.mercer_constants("0.7", 1)[2]), rtol=1e-40
    )


@pytest.mark.claim("L-54")
@given(seed=seeds, dim=st.integers(1, 4), rank=st.integers(1, 60), order=st.sampled_from(["best", "degree"]))
def test_the_residual_certifies_a_truncation(observe: Observer, seed: int, dim: int, rank: int, order: str) -> None:
    rng = np.random.default_rng(seed)
    kernel = SquaredExponential(2.0, np.exp(rng.uniform(-0.5, 1.5, dim)))
    inputs = Gaussian(np.exp(rng.normal(size=dim)))
    X = inputs.sample(25, rng) * rng.choice([0.5, 1.0, 3.0])  # narrower and wider than the law
    noise = float(np.exp(rng.uniform(-6.0, 1.0)))
    features = MercerFeatures(kernel, rank, inputs=inputs, order=order).fit(X)
    Xi, left, K = features(X), features.residual_diagonal(X), kernel(X)
    observe.lower("L-54", left, 0.0)
    observe.equal("L-54", left, np.diag(K - Xi @ Xi.T), atol=1e-13)
    assert np.linalg.eigvalsh(K - Xi @ Xi.T).min() > -1e-13
    kl = gaussian_kl(np.zeros(25), K + noise * np.eye(25), np.zeros(25), Xi @ Xi.T + noise * np.eye(25))
    x = left.sum() / noise
    observe.upper("L-54", kl, 0.5 * (x - np.log1p(x)), tol=1e-10)


@pytest.mark.claim("L-54")
def test_residuals_far_below_rounding(observe: Observer) -> None:
    """1 − Σ is all rounding from 1e-16 on; the sum over what is left out is not."""
    x, ell, s = [0.3, -1.1], [1.5, 4.0], [1.0, 0.5]
    for rank in (100, 300, 1000):
        features = MercerFeatures(SquaredExponential(1.0, ell), rank, inputs=Gaussian(s)).fit([x])
        with mp.workdps(120):
            true = reference.truncation_error(features.degrees.tolist(), x, ell, s)
        observe.equal("L-54", features.residual_diagonal([x]), float(true), rtol=1e-12)
    assert true < 1e-30


# --- which products are kept


@pytest.mark.claim("L-46", "L-47")
@given(dim=st.integers(1, 5), level=st.integers(1, 6))
def test_total_degree_sets(observe: Observer, dim: int, level: int) -> None:
    """In the paper's count from 1: 1ᵀn < m is total degree below m − D."""
    size = math.comb(level + dim, dim)
    degrees = by_total_degree(dim, size)
    brute = [n for n in itertools.product(range(level + 1), repeat=dim) if sum(n) <= level]
    assert sorted(map(tuple, degrees.tolist())) == brute
    keys = [(sum(n), [-k for k in n]) for n in degrees.tolist()]
    assert keys == sorted(keys)
    m = level + dim + 1
    observe.equal("L-46", len(brute), math.comb(m - 1, dim))
    observe.upper("L-47", len(brute), m**dim)
    for ell in range(dim, m):
        observe.upper("L-47", sum(sum(n) == ell - dim for n in brute), ell**dim)
        observe.equal("L-47", sum(sum(n) == ell - dim for n in brute), math.comb(ell - 1, dim - 1))
    kernel = SquaredExponential(lengthscale=0.8)
    kept = [MercerFeatures(kernel, size, inputs=Gaussian(dim=dim), order=order) for order in ("best", "degree")]
    observe.equal("L-46", np.sort(kept[0].eigenvalues), np.sort(kept[1].eigenvalues), rtol=1e-12)


@pytest.mark.claim("L-46")
@given(seed=seeds, dim=st.integers(2, 4), rank=st.integers(1, 200))
def test_best_first_leaves_least(observe: Observer, seed: int, dim: int, rank: int) -> None:
    rng = np.random.default_rng(seed)
    kernel, inputs = SquaredExponential(1.0, np.exp(rng.normal(size=dim))), Gaussian(np.exp(rng.normal(size=dim)))
    best, degree = (MercerFeatures(kernel, rank, inputs=inputs, order=order) for order in ("best", "degree"))
    observe.upper("L-46", best.tail, degree.tail * (1 + 1e-12))
    for features in (best, degree):
        observe.equal("L-46", features.tail, 1.0 - features.eigenvalues.sum(), atol=1e-13)
    assert (np.diff(best.eigenvalues) <= 1e-15).all()


@pytest.mark.claim("L-56")
@given(seed=seeds, dim=st.integers(1, 3), width=st.integers(1, 4))
def test_the_grid_of_features_leaves_no_less(observe: Observer, seed: int, dim: int, width: int) -> None:
    rng = np.random.default_rng(seed)
    kernel, inputs = SquaredExponential(1.0, np.exp(rng.normal(size=dim))), Gaussian(np.exp(rng.normal(size=dim)))
    best, grid = (MercerFeatures(kernel, width**dim, inputs=inputs, order=order) for order in ("best", "grid"))
    observe.upper("L-56", best.tail, grid.tail * (1 + 1e-12))
    observe.equal("L-56", grid.tail, 1.0 - grid.eigenvalues.sum(), atol=1e-13)
    assert sorted(map(tuple, grid.degrees.tolist())) == sorted(itertools.product(range(width), repeat=dim))
    X = rng.normal(size=(5, dim))
    features = grid.fit(X)
    observe.equal("L-56", features.residual_diagonal(X), 1.0 - (features(X) ** 2).sum(axis=1), atol=1e-12)


@pytest.mark.claim("L-56")
@given(dim=st.integers(1, 4), width=st.integers(1, 6), rho=ratio)
def test_a_tensor_grid_is_never_better(observe: Observer, dim: int, width: int, rho: float) -> None:
    step = 2.0 * math.asinh(rho / 2.0)
    grid = np.array(list(itertools.product(range(width), repeat=dim)))
    weight = lambda n: math.fsum(np.exp(-step * n.sum(axis=1)))  # noqa: E731
    observe.upper("L-56", weight(grid), weight(by_total_degree(dim, width**dim)) * (1 + 1e-12))
    observe.upper("L-56", weight(grid), weight(best_first(np.full(dim, step), width**dim)) * (1 + 1e-12))


@pytest.mark.claim("L-56")
def test_the_root_is_the_dth(observe: Observer) -> None:
    r, d = 9, 2
    observe.fails("L-56", round(r ** (1 / r)) ** d == r, "r = 9, d = 2: the r-th root is 1.28, the d-th is 3")
    observe.equal("L-56", round(r ** (1 / d)) ** d, r)
