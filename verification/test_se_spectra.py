"""Spectra of the squared exponential kernel: R-se-eig, R-se-tail, R-seD, N-se, L-44 ... L-49, L-51, and domination."""

from __future__ import annotations

import itertools

import mpmath as mp
import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from observer import Observer

from gpbounds.inputs import Gaussian, Uniform
from gpbounds.kernels import SquaredExponential
from gpbounds.reference import spectra as reference
from gpbounds.spectra import spectrum
from gpbounds.spectra.gaussian import DominatedSpectrum, log_domination, log_ratio

RATIOS = st.floats(0.01, 30.0)


def discretised(lengthscale: float, std: float, variance: float, nodes: int = 120) -> np.ndarray:
    """Eigenvalues of the operator by Gauss-Hermite quadrature, float: independent of every formula."""
    x, w = np.polynomial.hermite_e.hermegauss(nodes)
    root = np.sqrt(w / w.sum())
    K = SquaredExponential(variance, lengthscale)(std * x)
    return np.linalg.eigvalsh(root[:, None] * K * root)[::-1]


@pytest.mark.claim("R-se-eig", "N-se")
def test_eigenvalues_against_the_discretised_operator(observe: Observer) -> None:
    for std in (1.0, 0.4):
        true = discretised(0.7, std, 2.0)[:8]
        right = [reference.printed_eigenvalue(m, 0.7, 2, 1 / (4 * mp.mpf(std) ** 2)) for m in range(1, 9)]
        observe.equal("R-se-eig", [float(x) for x in right], true, rtol=2e-12)
        observe.equal(
            "N-se", spectrum(SquaredExponential(2.0, 0.7), inputs=Gaussian(std)).eigenvalues(8), true, rtol=2e-12
        )
        printed = np.array(
            [float(reference.printed_eigenvalue(m, 0.7, 2, 1 / (4 * mp.mpf("0.01")))) for m in range(1, 9)]
        )
        observe.fails(
            "R-se-eig",
            np.all(np.abs(printed / true - 1) < 0.5),
            "printed a = 1/(4σ²) with the noise σ² = 0.01; true a = 1/(4s²) with the input variance s²",
        )


@pytest.mark.claim("R-se-eig", "R-se-tail", "L-51")
@given(ell=RATIOS, std=RATIOS, variance=st.floats(1e-3, 1e3), m=st.integers(1, 60))
def test_closed_forms_are_one_geometric_law(observe: Observer, ell: float, std: float, variance: float, m: int) -> None:
    a, b = 1 / (4 * mp.mpf(std) ** 2), 1 / (2 * mp.mpf(ell) ** 2)
    A = a + b + mp.sqrt(a**2 + 2 * a * b)
    B = reference.ratio(ell, std)
    observe.equal("R-se-eig", mp.sqrt(2 * a / A), 1 - B, rtol=1e-32)
    observe.equal("R-se-eig", b / A, B, rtol=1e-32)
    observe.equal("R-se-tail", variance * mp.sqrt(2 * a) / ((1 - B) * mp.sqrt(A)) * B**m, variance * B**m, rtol=1e-32)
    # L-51: with α = 1/(√2 s), ε = 1/(√2 ℓ) and β = (1 + (2ε/α)²)^¼, q = (β² - 1)/(β² + 1).
    beta2 = mp.sqrt(1 + (2 * mp.mpf(std) / ell) ** 2)
    observe.equal("L-51", (beta2 - 1) / (beta2 + 1), B, rtol=1e-32)
    alpha2, eps2 = 1 / (2 * mp.mpf(std) ** 2), 1 / (2 * mp.mpf(ell) ** 2)
    delta2 = alpha2 * (beta2 - 1) / 2
    observe.equal("L-51", alpha2 + delta2 + eps2, alpha2 * (beta2 + 1) ** 2 / 4, rtol=1e-32)
    s = spectrum(SquaredExponential(variance, ell), inputs=Gaussian(std))
    log_tail = mp.log(variance) + m * mp.log(B)
    observe.equal("R-se-tail", mp.mpf(s.log_tail(m)), log_tail, rtol=0, atol=1e-13 + 1e-15 * abs(log_tail))


@pytest.mark.claim("L-51")
def test_decay_is_exponential_only_while_the_ratio_is_bounded(observe: Observer) -> None:
    rates = [reference.ratio(ell, 1) for ell in (1, mp.mpf("0.1"), mp.mpf("0.001"), mp.mpf("1e-9"))]
    observe.holds("L-51", all(b > a for a, b in itertools.pairwise(rates)) and rates[-1] > 1 - mp.mpf("2e-9"))


@pytest.mark.claim("R-seD", "L-46", "L-48", "N-se")
@given(ell=st.floats(0.05, 10.0), dim=st.sampled_from([1, 2, 3, 5, 8, 20]), M=st.integers(0, 1500))
def test_isotropic_tail_for_every_M(observe: Observer, ell: float, dim: int, M: int) -> None:
    true = reference.isotropic_tail(ell, 1, 1, dim, M)
    s = spectrum(SquaredExponential(1.0, ell), inputs=Gaussian(1.0, dim))
    log_true = mp.log(true)
    if true > mp.mpf(10) ** -300:
        observe.equal("L-48", mp.mpf(s.log_tail(M)), log_true, atol=1e-12)
    else:
        observe.equal("L-48", mp.mpf(s.log_tail(M)), log_true, rtol=1e-14)
    # Full levels: the regularised incomplete beta function, the tail of a negative binomial law (R-seD).
    B = reference.ratio(ell, 1)
    k = M % 7
    full = int(mp.binomial(k + dim, dim))
    observe.equal(
        "R-seD", reference.isotropic_tail(ell, 1, 1, dim, full), mp.betainc(k + 1, dim, 0, B, True), rtol=1e-35
    )


@pytest.mark.claim("R-seD", "L-46", "L-47")
def test_levels_and_their_counts(observe: Observer) -> None:
    for dim in (1, 2, 3, 4):
        for m in range(1, 9):
            grid = np.indices((m + 2,) * dim).reshape(dim, -1) + 1  # n_j >= 1
            below, level = int((grid.sum(0) < m).sum()), int((grid.sum(0) == m).sum())
            observe.equal("L-46", below, int(mp.binomial(m - 1, dim)))
            observe.equal("L-47", level, int(mp.binomial(m - 1, dim - 1)))
            observe.upper("L-47", [level, below], [m**dim, m**dim])
        values = spectrum(SquaredExponential(1.0, 0.8), inputs=Gaussian(1.0, dim)).eigenvalues(60)
        product = reference.product_eigenvalues([0.8] * dim, [1] * dim, 60, {1: 60, 2: 12, 3: 7, 4: 6}[dim])
        observe.equal("R-seD", values, np.array([float(x) for x in product]), rtol=1e-13)
    # With 0 in ℕ the first count fails at ℓ = 1 only.
    observe.fails("L-47", 3 <= 1**3, "with n_j >= 0, three multi-indices in 3-D have 1ᵀn = 1, not at most ℓ^D = 1")


@pytest.mark.claim("R-seD")
def test_the_order_of_M_is_log_to_the_D(observe: Observer) -> None:
    # M(N) with N·tail(M) = 1: M/log^D N stays between constants.
    for dim in (1, 2, 3):
        s = spectrum(SquaredExponential(1.0, 1.0), inputs=Gaussian(1.0, dim))
        grid = np.arange(1.0, 60000.0)
        log_tail = s.log_tail(grid)
        scaled = [grid[np.argmax(log_tail <= -x)] / x**dim for x in (20.0, 30.0, 40.0)]
        observe.holds("R-seD", max(scaled) / min(scaled) < 2.0)


@pytest.mark.claim("L-46")
@given(
    ells=st.lists(st.floats(0.1, 8.0), min_size=2, max_size=3),
    stds=st.lists(st.floats(0.2, 3.0), min_size=3, max_size=3),
)
def test_best_first_order(observe: Observer, ells: list[float], stds: list[float]) -> None:
    stds = stds[: len(ells)]
    true = reference.product_eigenvalues(ells, stds, 12, 13)
    s = spectrum(SquaredExponential(1.0, ells), inputs=Gaussian(stds, len(ells)))
    observe.equal("L-46", [mp.mpf(x) for x in s.eigenvalues(12)], true, rtol=1e-12)
    with mp.workdps(80):
        rest = [1 - mp.fsum(true[:M]) for M in range(13)]
        good = [M for M in range(13) if rest[M] > mp.mpf(10) ** -40]
        observe.equal("L-46", [mp.mpf(s.log_tail(M)) for M in good], [mp.log(rest[M]) for M in good], atol=1e-12)


@pytest.mark.claim("L-46")
def test_total_degree_order_is_not_optimal_where_ratios_differ(observe: Observer) -> None:
    best = reference.product_eigenvalues([1, 4], [1, 1], 6, 10)
    q = [reference.ratio(1, 1), reference.ratio(4, 1)]
    degrees = [(0, 0), (1, 0), (0, 1), (2, 0), (1, 1), (0, 2)]
    total = [(1 - q[0]) * (1 - q[1]) * q[0] ** i * q[1] ** j for i, j in degrees]
    observe.holds("L-46", mp.fsum(best) > mp.fsum(total) * (1 + mp.mpf("1e-3")))


@pytest.mark.claim("L-46")
def test_deep_product_tail_agrees_with_the_isotropic_closed_form(observe: Observer) -> None:
    # Nearly equal ratios: best-first sums against I_B, where 1 - Σ would lose every digit.
    for dim, ell in ((2, 6.0), (3, 3.0), (5, 20.0)):
        near = np.full(dim, ell)
        near[0] *= 1 + 1e-15
        M = np.array([1, 10, 100, 1000, 5000])
        product = spectrum(SquaredExponential(1.0, near), inputs=Gaussian(1.0, dim))
        closed = spectrum(SquaredExponential(1.0, ell), inputs=Gaussian(1.0, dim))
        assert type(product) is not type(closed)
        observe.equal("L-46", product.log_tail(M), closed.log_tail(M), atol=2e-12, rtol=1e-14)


@pytest.mark.claim("L-44", "L-45")
@given(R=st.floats(1e-3, 1e3))
def test_paper_001_parametrisation(observe: Observer, R: float) -> None:
    # k = exp(-2π²|x-x'|²) has ℓ = 1/(2π); μ = N(0, (R/2π)²).
    R = mp.mpf(R)
    q = reference.ratio(1 / (2 * mp.pi), R / (2 * mp.pi))
    root = mp.sqrt(1 + 4 * R**2)
    observe.equal("L-44", q, (root - 1) / (root + 1), rtol=1e-32)
    observe.equal("L-44", q, 4 * R**2 / (1 + root) ** 2, rtol=1e-32)
    log_q = float(log_ratio(np.array(1 / (2 * np.pi)), np.array(float(R) / (2 * np.pi))))
    observe.equal("L-44", log_q, mp.log(q), rtol=1e-14)
    for n in (1, 2, 5, 40):
        exact = (1 - q) * q ** (n - 1)
        observe.upper("L-45", exact, (R + 1) / R**2 * (1 - 1 / (R + 1)) ** n)
        observe.upper("L-45", exact, mp.sqrt(R**2 + 1) / R**2 * (1 - 1 / (R**2 + 1)) ** n)


def _rank_001(R: float, dim: int, eps: float, sigma: float, delta: float, N: int) -> tuple[int, int]:
    """L-48's explicit rank: least m >= D with I_q(m - D, D) <= Λ*, r = C(m - 1, D); r = 0 where Λ* >= 1."""
    a = 1 / mp.sqrt(N * delta)
    goal = 4 * eps * sigma**2 / (a + mp.sqrt(a**2 + 8 * eps * sigma**2))
    q = reference.ratio(1, R)
    m = dim
    while (mp.betainc(m - dim, dim, 0, q, True) if m > dim else mp.mpf(1)) > goal**2:
        m += 1
    return m, int(mp.binomial(m - 1, dim))


@pytest.mark.claim("L-48")
def test_explicit_ranks(observe: Observer) -> None:
    half = mp.mpf(1) / 100
    cases = {
        (0.4, 1, half, 1, 0.05, 5000): (4, 3),
        (0.4, 5, half, 1, 0.05, 5000): (9, 56),
        (2.0, 1, half, mp.mpf(1) / 10, 0.05, 1000): (28, 27),
        (2.0, 3, half, mp.mpf(1) / 10, 0.05, 1000): (40, 9139),
    }
    for arguments, expected in cases.items():
        observe.equal("L-48", np.array(_rank_001(*arguments)), np.array(expected))
    # (21)-(24): ℓ^D (R/(R+1))^(ℓ/2) <= 1 from ℓ = (4D/a) ln(2D/a), a = ln(1 + 1/R), on.
    for R in (0.3, 1, 10):
        for dim in (1, 3, 6):
            a = mp.log(1 + 1 / mp.mpf(R))
            start = int(mp.ceil(4 * dim / a * mp.log(max(2 * dim / a, mp.e))))
            for ell in range(start, start + 200, 7):
                observe.upper("L-48", mp.mpf(ell) ** dim * (R / (mp.mpf(R) + 1)) ** (mp.mpf(ell) / 2), 1)
    # Between full levels: the remaining eigenvalues of level k are added.
    q, dim = reference.ratio(1, 2), 3
    for m in (4, 7):
        for r in range(int(mp.binomial(m - 1, dim)), int(mp.binomial(m, dim)) + 1):
            tail = mp.betainc(m - dim, dim, 0, q, True) - (r - mp.binomial(m - 1, dim)) * (1 - q) ** dim * q ** (
                m - dim
            )
            observe.equal("L-48", tail, reference.isotropic_tail(1, 2, 1, dim, r), rtol=1e-30)


@pytest.mark.claim("L-49")
def test_second_branch_of_theorem_3_needs_its_exponent(observe: Observer) -> None:
    R, dim = mp.mpf("0.5"), 3
    L = mp.log(1 / R)
    plain, powered = [], []
    for exponent in (1, 4, 16, 64, 200):
        eps = mp.mpf(10) ** -exponent
        _, r = _rank_001(0.5, dim, eps, 1, 0.05, 1000)
        printed = dim / L * max(mp.log(dim / L), mp.log(2 / R**2)) + mp.log(1 / (eps * mp.mpf("0.05"))) / L
        plain.append(r / printed)
        powered.append(r / printed**dim)
    observe.fails(
        "L-49",
        all(b <= 2 * a for a, b in itertools.pairwise(plain)),
        "R = .5, D = 3: needed rank over the printed expression grows past 1e4 as ε falls; with the exponent D it "
        "stays below .1",
    )
    observe.upper("L-49", powered, mp.mpf("0.1"))


@pytest.mark.claim("N-dom")
@given(ell=st.floats(0.1, 5.0), width=st.floats(0.5, 4.0))
def test_domination_of_the_uniform_law(observe: Observer, ell: float, width: float) -> None:
    """SE × Uniform: tails and eigenvalues lie above those of the discretised operator (Legendre quadrature)."""
    x, w = np.polynomial.legendre.leggauss(100)
    root = np.sqrt(w / 2)
    K = SquaredExponential(1.0, ell)(0.5 * width * x)
    true = np.linalg.eigvalsh(root[:, None] * K * root)[::-1]
    s = spectrum(SquaredExponential(1.0, ell), inputs=Uniform(-0.5 * width, 0.5 * width))
    M = np.arange(12)
    tails = np.array([true[m:].sum() for m in M])
    visible = tails > 1e-12
    observe.upper("N-dom", tails[visible], s.tail(M)[visible], tol=1e-13)
    observe.upper("N-dom", true[:10], s.eigenvalues(10), tol=1e-13)


@pytest.mark.claim("N-dom")
@given(ell=st.floats(0.05, 5.0), half=st.floats(0.1, 5.0), M=st.integers(1, 4000))
def test_domination_is_minimised_over_the_gaussian_law(observe: Observer, ell: float, half: float, M: int) -> None:
    s = spectrum(SquaredExponential(1.0, ell), inputs=Uniform(-half, half))

    def objective(log_std: mp.mpf) -> mp.mpf:
        std = mp.exp(log_std)
        log_C = mp.log(mp.sqrt(2 * mp.pi) * std / (2 * half)) + (half / std) ** 2 / 2
        return log_C + M * mp.log(reference.ratio(ell, std))

    # stationarity: h²/s² = 1 + 2Mℓ/√(4s² + ℓ²), monotone in s
    low, high = mp.mpf(0), mp.mpf(half) ** 2
    with mp.workdps(25):
        for _ in range(90):
            u = (low + high) / 2
            low, high = (u, high) if u * (1 + 2 * M * ell / mp.sqrt(4 * u + ell**2)) < mp.mpf(half) ** 2 else (low, u)
        best = min(mp.mpf(0), objective(mp.log(low) / 2))
    observe.equal("N-dom", mp.mpf(s.log_tail(M)), best, atol=1e-12, rtol=1e-14)
    # C dominates: the density ratio is largest at the corner.
    std = float(mp.sqrt(low))
    corner = -0.5 * (half / std) ** 2 - np.log(np.sqrt(2 * np.pi) * std)
    observe.equal(
        "N-dom",
        float(log_domination(np.asarray(std), np.asarray(half))),
        -np.log(2 * half) - corner,
        atol=1e-9,
        rtol=1e-12,
    )


@pytest.mark.claim("N-dom")
@given(ratio=st.floats(0.1, 8.0), dim=st.integers(1, 4), m=st.integers(1, 300), scale=st.floats(0.1, 10.0))
def test_dominated_eigenvalues_in_equal_proportions(
    observe: Observer, ratio: float, dim: int, m: int, scale: float
) -> None:
    """λ_m <= min{v/m, min over s of C(s)·(1-B)^D B^k}, k the degree of the m-th: exactly this is returned."""
    lengths = scale * np.arange(1.0, dim + 1.0)
    s = spectrum(SquaredExponential(2.0, lengths), inputs=Uniform(-ratio * lengths, ratio * lengths))
    k, half = next(k for k in range(m) if mp.binomial(k + dim, dim) >= m), mp.mpf(ratio)

    def objective(std: mp.mpf) -> mp.mpf:
        B = reference.ratio(1, std)
        return (mp.sqrt(2 * mp.pi) * std / (2 * half) * mp.exp((half / std) ** 2 / 2) * (1 - B)) ** dim * B**k

    # the derivative in s vanishes where h²√(4s² + 1) = (1 + 2k/D)s², once
    low, high = mp.mpf(0), 3 * half**2 + half
    with mp.workdps(30):
        for _ in range(110):
            std = (low + high) / 2
            rises = (1 + mp.mpf(2 * k) / dim) * std**2 > half**2 * mp.sqrt(4 * std**2 + 1)
            low, high = (low, std) if rises else (std, high)
        best = objective(std)
        observe.upper("N-dom", best, [objective(std * mp.mpf(f)) for f in ("0.3", "0.9", "1.1", "4")])
        observe.equal("N-dom", mp.mpf(s.eigenvalues(m)[-1]), 2 * min(best, mp.mpf(1) / m), rtol=1e-11, atol=1e-300)


@pytest.mark.claim("N-dom")
@given(
    ells=st.lists(st.floats(0.2, 3.0), min_size=2, max_size=3),
    halves=st.lists(st.floats(0.3, 3.0), min_size=3, max_size=3),
    m=st.integers(1, 8),
)
def test_dominated_spectrum_in_unequal_proportions(
    observe: Observer, ells: list[float], halves: list[float], m: int
) -> None:
    """The least over the family of C·λ_m and C·tail(m), each C and each spectrum from its standard deviations."""
    half = np.array(halves[: len(ells)])
    assume(np.ptp(half / ells) > 1e-6)
    s = spectrum(SquaredExponential(2.0, ells), inputs=Uniform(-half, half))
    assert isinstance(s, DominatedSpectrum)
    assert s._laws is not None
    values, tails = [], []
    with mp.workdps(30):
        for _, law in s._laws[::9]:
            stds = [ell / (2 * mp.sinh(mp.mpf(step) / 2)) for ell, step in zip(ells, law._steps, strict=True)]
            C = mp.fprod(
                mp.sqrt(2 * mp.pi) * std / (2 * h) * mp.exp((h / std) ** 2 / 2)
                for std, h in zip(stds, map(mp.mpf, half), strict=True)
            )
            exact = reference.product_eigenvalues(ells, stds, m, m)
            values.append(2 * min(C * exact[-1], mp.mpf(1) / m))
            tails.append(2 * min(C * (1 - mp.fsum(exact)), mp.mpf(1)))
        s._laws = s._laws[::9]  # any part of the family gives a bound
        observe.equal("N-dom", mp.mpf(s.eigenvalues(m)[-1]), min(values), rtol=1e-11)
        observe.equal("N-dom", mp.mpf(s.tail(m)), min(tails), rtol=1e-11)


@pytest.mark.claim("N-dom")
def test_domination_in_several_dimensions(observe: Observer) -> None:
    x, w = np.polynomial.legendre.leggauss(24)
    grid = np.stack(np.meshgrid(x, x, indexing="ij"), -1).reshape(-1, 2)
    root = np.sqrt(np.outer(w, w).ravel() / 4)
    for ells, box in (((0.8, 0.8), (1.0, 1.0)), ((0.5, 2.0), (1.0, 1.5))):
        K = SquaredExponential(1.0, np.array(ells))(grid * np.array(box))
        true = np.linalg.eigvalsh(root[:, None] * K * root)[::-1]
        s = spectrum(SquaredExponential(1.0, ells), inputs=Uniform(-np.array(box), np.array(box)))
        M = np.arange(40)
        observe.upper("N-dom", [true[m:].sum() for m in M], s.tail(M), tol=1e-12)
        observe.upper("N-dom", true[:40], s.eigenvalues(40), tol=1e-12)
