"""Hilbert-space GPs: images, tails, ends, nodes, the divergence for any rows, and the ranks (N-hilbert-*)."""

from __future__ import annotations

import math
from typing import Any

import mpmath as mp
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from observer import Observer

from gpbounds import Matern, SquaredExponential
from gpbounds.lowrank import (
    HilbertFeatures,
    dirichlet,
    hilbert_kernel_error,
    hilbert_kl,
    hilbert_rank,
    kl,
    kl_features,
)
from gpbounds.lowrank.balls import EnclosedSines, _Eigenvectors
from gpbounds.lowrank.dirichlet import Sines
from gpbounds.reference import lowrank as reference
from gpbounds.rigor import at_bits

SEEDS = st.integers(0, 2**32 - 1)
NUS = st.sampled_from([0.5, 1.5, 2.5, math.inf])
ROWS = ("spread", "ends", "one point", "cluster", "zeros", "uniform")


def powers(low: float, high: float) -> st.SearchStrategy[float]:
    """10^u for u in low ... high."""
    return st.floats(low, high).map(lambda u: 10.0**u)


def one_line(nu: float, reach: float, c: float, m: float = 1, N: int = 1, level: float = 1.0) -> Sines:
    return Sines(nu, N, level, np.array([reach]), np.array([c]), np.array([float(m)]))


def smooth(nu: float) -> Any:
    """ν for the reference."""
    return mp.inf if nu == math.inf else mp.mpf(nu)


def a_kernel(nu: float, ell: Any, variance: float = 1.0) -> Any:
    return SquaredExponential(variance, ell) if nu == math.inf else Matern(nu, variance, ell)


def rows(rng: np.random.Generator, kind: str, N: int, S: np.ndarray, m: np.ndarray, c: np.ndarray) -> np.ndarray:
    """N rows of the box: at random, at its corners, all the same, close together, at extrema of the next function."""
    shape = (N, S.size)
    if kind == "ends":
        return S * rng.choice([-1.0, 1.0, 0.999], shape)
    if kind == "one point":
        return np.broadcast_to(S * rng.uniform(-1, 1, S.size), shape).copy()
    if kind == "cluster":
        return np.clip(S * rng.uniform(-1, 1, S.size) + 0.02 * S * rng.standard_normal(shape), -S, S)
    if kind == "zeros":
        places = (rng.integers(0, 2 * m + 2, shape) + 0.5) * 2.0 * c * S / (m + 1.0) - c * S
        return np.clip(places, -S, S)
    if kind == "uniform":
        return np.stack([S[d] * np.linspace(-1, 1, N)[rng.permutation(N)] for d in range(S.size)], axis=1)
    return S * rng.uniform(-1, 1, shape)


def divergences(K: np.ndarray, approximate: np.ndarray, noise: float) -> tuple[float, float]:
    """KL both ways."""
    return kl(K, approximate, noise=noise), kl(approximate, K, noise=noise)


@pytest.mark.claim("N-hilbert-images")
@settings(max_examples=12)
@given(nu=NUS, S=powers(-1, 1), gap=st.floats(0.05, 3.0), x=st.floats(-1, 1), y=st.floats(-1, 1))
def test_the_series_is_the_sum_of_images(
    observe: Observer, nu: float, S: float, gap: float, x: float, y: float
) -> None:
    """Series against images at 30 digits (Matérn: up to its own tail), and k_∞ − k against ε."""
    c = 1.0 + gap / S
    L, x, y = c * S, x * S, y * S
    with mp.workdps(30):
        images = reference.image_sum(smooth(nu), L, x, y, int(40 / L) + 3)
        if nu == math.inf:
            series = reference.sines(mp.inf, L, int(12 * L) + 12, x, y)
            observe.equal("N-hilbert-images", images, series, rtol=mp.mpf(10) ** -20, atol=mp.mpf(10) ** -20)
        elif nu == 2.5:
            m = int(40 * L) + 40
            series = reference.sines(smooth(nu), L, m, x, y)
            left = mp.mpf(dirichlet.beyond(nu, m * math.pi / (2 * L)))
            observe.upper("N-hilbert-images", abs(images - series), 2 * left, tol=mp.mpf(10) ** -18)
        error = dirichlet.images(one_line(nu, S, c))
        observe.upper(
            "N-hilbert-images", abs(images - reference.correlation(smooth(nu), mp.mpf(x) - y)), error * (1 + 1e-12)
        )
        observe.equal("N-hilbert-images", error, reference.image_error(smooth(nu), S, L), rtol=1e-12)


def image_kernel(nu: float, S: np.ndarray, c: np.ndarray, X: np.ndarray, Y: np.ndarray, near: int) -> np.ndarray:
    """k_∞ by signed sums over the nearest images of all coordinates, in doubles: K_∞(X, Y)."""
    squares: Any = np.zeros((len(X), len(Y), 1))
    sign: Any = np.ones(1)
    n = np.arange(-near, near + 1)
    for x, y, L in zip(X.T, Y.T, c * S, strict=True):
        far = [x[:, None, None] - y[:, None] + 4 * n * L, x[:, None, None] + y[:, None] + (2 + 4 * n) * L]
        each = np.concatenate(far, axis=2) ** 2
        squares = (squares[..., None] + each[:, :, None, :]).reshape(len(X), len(Y), -1)
        sign = np.multiply.outer(sign, np.repeat([1.0, -1.0], 2 * near + 1)).ravel()
    return dirichlet.correlation(nu, np.sqrt(squares)) @ sign


@pytest.mark.claim("N-hilbert-images")
@given(seed=SEEDS, nu=NUS, dim=st.integers(1, 3))
def test_the_dirichlet_kernel_is_below_the_free_one(observe: Observer, seed: int, nu: float, dim: int) -> None:
    """0 ≤ k_∞ ≤ k ≤ k_∞ + ε at pairs of points, corners among them."""
    rng = np.random.default_rng(seed)
    S = 10.0 ** rng.uniform(-0.5, 1.0, dim)
    c = 1.0 + rng.uniform(0.2, 4.0, dim) / S
    X, Y = (rows(rng, str(rng.choice(["spread", "ends"])), 4, S, np.ones(dim), c) for _ in range(2))
    both = np.concatenate([X, Y])
    zero = image_kernel(nu, S, c, both, both, 6 if dim < 3 else 3)
    exact = dirichlet.correlation(nu, np.sqrt(((both[:, None] - both) ** 2).sum(axis=2)))
    observe.lower("N-hilbert-images", zero, np.zeros_like(zero), tol=1e-12)
    observe.upper("N-hilbert-images", zero, exact, tol=1e-12)
    observe.upper("N-hilbert-images", exact - zero, dirichlet.images(Sines(nu, 1, 1.0, S, c, np.ones(dim))), tol=1e-12)


@pytest.mark.claim("N-hilbert-tail")
@settings(max_examples=12)
@given(nu=NUS, S=powers(-1, 1), gap=st.floats(0.03, 3.0), m=st.integers(1, 40), x=st.floats(-1, 1))
def test_the_functions_left_out_stay_below_their_bound(
    observe: Observer, nu: float, S: float, gap: float, m: int, x: float
) -> None:
    """Σ_{j>m} s_j φ_j(x)², of 20,000 terms, at x, the ends and the middle; the formula against quadrature."""
    c = 1.0 + gap / S
    L, t = c * S, dirichlet.tail(nu, S, c, m)
    j = np.arange(m + 1, m + 20_001)
    w = j * math.pi / (2 * L)
    for point in (x * S, S, -S, 0.0):
        truth = float((dirichlet.density(nu, w) * np.sin(w * (point + L)) ** 2).sum()) / L
        observe.upper("N-hilbert-tail", truth, t, tol=1e-14)
    turn = 1.0 if nu == math.inf else math.sqrt(nu / (nu + 1.0))
    with mp.workdps(25):
        observe.equal(
            "N-hilbert-tail", t, reference.omitted_sines(smooth(nu), L, c, m, turn), rtol=1e-9, atol=mp.mpf(10) ** -300
        )


@pytest.mark.claim("N-hilbert-tail")
@given(seed=SEEDS, nu=NUS, dim=st.integers(2, 3))
def test_the_tail_of_a_box_in_more_dimensions(observe: Observer, seed: int, nu: float, dim: int) -> None:
    """A finite part of the omitted functions, of the features with more functions less those with m."""
    rng = np.random.default_rng(seed)
    S = rng.uniform(0.5, 2.0, dim)
    c = 1.0 + rng.uniform(0.2, 2.0, dim) / S
    m = rng.integers(1, 6, dim)
    X = rows(rng, str(rng.choice(ROWS)), 8, S, m, c)
    more = m + (20 if dim == 2 else 8)
    few, many = (HilbertFeatures(a_kernel(nu, np.ones(dim)), n, c, half_width=S).fit(X)(X) for n in (m, more))
    left = (many**2).sum(axis=1) - (few**2).sum(axis=1)
    observe.upper("N-hilbert-tail", left, dirichlet.omitted(Sines(nu, 1, 1.0, S, c, m.astype(float))), tol=1e-13)


@pytest.mark.claim("N-hilbert-tail")
@settings(max_examples=6)
@given(
    nu=st.sampled_from([0.5, 1.5, 2.5, math.inf]), S=st.floats(0.3, 2.0), gap=st.floats(0.1, 2.0), m=st.integers(1, 4)
)
def test_the_tail_of_a_square_at_thirty_digits(observe: Observer, nu: float, S: float, gap: float, m: int) -> None:
    """Σ over 24² indices without m², at the middle and a corner; the density in two dimensions as a mixture says it."""
    c = 1.0 + gap / S
    t = dirichlet.omitted(Sines(nu, 1, 1.0, np.full(2, S), np.full(2, c), np.full(2, float(m))))
    with mp.workdps(30):
        L, order = mp.mpf(c) * mp.mpf(S), smooth(nu)
        w = [j * mp.pi / (2 * L) for j in range(1, 25)]
        for x in (mp.mpf(0), mp.mpf(S)):
            squares = [mp.sin(a * (x + L)) ** 2 / L for a in w]
            total = sum(
                reference.plane_density(order, w[i], w[j]) * squares[i] * squares[j]
                for i in range(24)
                for j in range(24)
                if max(i, j) >= m
            )
            observe.upper("N-hilbert-tail", total, mp.mpf(t) * (1 + mp.mpf(10) ** -14))


@pytest.mark.claim("N-hilbert-predict")
@settings(max_examples=6)
@given(nu=st.sampled_from([0.5, 1.5, 2.5]), t=powers(-2, 1), S=powers(-1, 1), gap=st.floats(1.0, 4.0))
def test_what_half_spaces_say(observe: Observer, nu: float, t: float, S: float, gap: float) -> None:
    """r² against quadrature; Ω against its lattice sum; C of the remainder."""
    share = float(dirichlet.explained(nu, t))
    with mp.workdps(20):
        observe.equal("N-hilbert-predict", share, reference.explained(nu, t), rtol=1e-9)
        observe.upper(
            "N-hilbert-predict", math.sqrt(share), dirichlet.SLOWEST[nu] * math.exp(-math.sqrt(2.0 * nu) * t / 2.0)
        )
        box = Sines(nu, 1, 1.0, np.full(2, S), np.full(2, 1.0 + gap / S), np.ones(2))
        truth = reference.predicted(nu, [S, S], [S + gap, S + gap], 20)
        if S + gap > 3.0:  # in smaller boxes the bound on images beyond eight is loose
            observe.equal("N-hilbert-predict", dirichlet.predicted(box), truth, rtol=1e-2)
        observe.upper("N-hilbert-predict", truth, dirichlet.predicted(box) * (1 + 1e-12))


@pytest.mark.claim("N-hilbert-predict")
@given(seed=SEEDS, nu=st.sampled_from([0.5, 1.5, 2.5]), dim=st.integers(1, 3), t=powers(-1.5, 0.5))
def test_points_explain_less_than_their_half_space(observe: Observer, seed: int, nu: float, dim: int, t: float) -> None:
    """kᵀK⁻¹k of 60 points of a half-space, near the point at the distance t."""
    rng = np.random.default_rng(seed)
    Z = rng.standard_normal((60, dim)) * 10.0 ** rng.uniform(-1.5, 0.5)
    Z[:, 0] = -np.abs(Z[:, 0]) * np.linspace(0.0, 1.0, 60)
    z = np.zeros((1, dim))
    z[0, 0] = t
    kernel = Matern(nu, 1.0, np.ones(dim))
    K, k = kernel(Z) + 1e-10 * np.eye(60), kernel(z, Z)[0]
    observe.upper("N-hilbert-predict", k @ np.linalg.solve(K, k), float(dirichlet.explained(nu, t)), tol=1e-7)


@pytest.mark.claim("N-hilbert-predict")
@settings(max_examples=12)
@given(seed=SEEDS, nu=st.sampled_from([0.5, 1.5, 2.5]), dim=st.integers(2, 3), noise=powers(-4, 0))
def test_rows_diverge_less_than_prediction_says(
    observe: Observer, seed: int, nu: float, dim: int, noise: float
) -> None:
    """K and K_∞ at 12 rows, most of them near one corner, with noise that makes the bound finite."""
    rng = np.random.default_rng(seed)
    S = 10.0 ** rng.uniform(-0.5, 0.5, dim)
    c = 1.0 + rng.uniform(0.5, 3.0, dim) / S
    X = S * (1.0 - rng.random((12, dim)) * 10.0 ** rng.uniform(-2, 0, (12, 1)))
    box = Sines(nu, 12, noise, S, c, np.ones(dim))
    K = dirichlet.correlation(nu, np.sqrt(((X[:, None] - X) ** 2).sum(axis=2)))
    zero = image_kernel(nu, S, c, X, X, 5 if dim < 3 else 3)
    truth = max(divergences(K, zero, noise))
    observe.upper("N-hilbert-predict", truth, dirichlet.by_prediction(box), tol=1e-9 / noise)


@pytest.mark.claim("N-hilbert-psd")
@given(seed=SEEDS, size=st.integers(1, 6), near=powers(-3, 0), scale=powers(-3, 1))
def test_joining_two_divergences(observe: Observer, seed: int, size: int, near: float, scale: float) -> None:
    """Random Σ₁, Σ₂ ⪰ Σ₃ ⪰ I, with κ the larger of the two divergences themselves."""
    rng = np.random.default_rng(seed)
    root, drop = rng.standard_normal((2, size, size))
    K3 = root @ root.T * 10.0 ** rng.uniform(-2, 3)
    T = scale * drop @ np.diag(rng.random(size) ** 8) @ drop.T
    K2 = K3 + T
    move = near * rng.standard_normal((size, size))
    K1 = (np.eye(size) + move) @ K2 @ (np.eye(size) + move).T
    kappa = max(divergences(K1, K2, 1.0))
    value = dirichlet.joined(_with_trace(float(np.trace(T))), dirichlet.ImageBound.of(kappa))
    observe.upper("N-hilbert-psd", max(divergences(K1, K3, 1.0)), value, tol=1e-9 * (1 + value))
    with mp.workdps(30):
        observe.equal("N-hilbert-psd", value, reference.joined(kappa, float(np.trace(T))), rtol=1e-9)


def _with_trace(x: float) -> Sines:
    """A box whose omitted part, over the noise, is x."""
    box = one_line(math.inf, 1.0, 2.0)
    level = dirichlet.omitted(box) / x
    return one_line(math.inf, 1.0, 2.0, level=level)


@pytest.mark.claim("N-hilbert-ends")
@settings(max_examples=12)
@given(nu=st.sampled_from([0.5, 1.5, 2.5]), S=powers(-2, 1), gap=st.floats(0.05, 4.0))
def test_derivatives_at_the_ends_as_at_forty_digits(observe: Observer, nu: float, S: float, gap: float) -> None:
    c = 1.0 + gap / S
    value = dirichlet.at_ends(one_line(nu, S, c)).divergence
    with mp.workdps(60):
        truth = max(reference.ends_kl(nu, mp.mpf(S), mp.mpf(c * S), int(40 / (c * S)) + 3))
        observe.equal("N-hilbert-ends", value, truth, rtol=1e-9)


@pytest.mark.claim("N-hilbert-ends")
@settings(max_examples=6)
@given(seed=SEEDS, nu=st.sampled_from([0.5, 1.5, 2.5]), S=powers(-1, 1), gap=st.floats(0.05, 3.0), noise=powers(-8, 0))
def test_all_rows_diverge_less_than_the_ends(
    observe: Observer, seed: int, nu: float, S: float, gap: float, noise: float
) -> None:
    """K and K_∞ (by images, at 40 digits) at random rows and at the ends, where little noise makes the bound sharp."""
    rng = np.random.default_rng(seed)
    c = 1.0 + gap / S
    L, N = c * S, 7
    x = np.concatenate(
        [
            rows(rng, str(rng.choice(ROWS)), N - 4, np.array([S]), np.array([3]), np.array([c])).ravel(),
            [-S, -0.99 * S, S, 0.9 * S],
        ]
    )
    with mp.workdps(40):
        K = mp.matrix(N, N)
        added = mp.matrix(N, N)
        for i in range(N):
            for j in range(N):
                K[i, j] = reference.correlation(nu, mp.mpf(x[i]) - mp.mpf(x[j]))
                added[i, j] = reference.image_sum(nu, mp.mpf(L), mp.mpf(x[i]), mp.mpf(x[j]), int(20 / L) + 2)
        ends = dirichlet.at_ends(one_line(nu, S, c))
        bound = ends.divergence * (1 + 1e-6)
        growth = mp.eigsy((1 + mp.mpf(ends.eta) * (1 + mp.mpf(10) ** -6)) * added - K, eigvals_only=True)
        observe.lower("N-hilbert-ends", min(growth), mp.mpf(0), tol=mp.mpf(10) ** -30)
        for first, second in ((K, added), (added, K)):
            observe.upper("N-hilbert-ends", reference.kl(first, second, mp.mpf(noise)), bound, tol=mp.mpf(10) ** -15)


@pytest.mark.claim("N-hilbert-nodes")
@settings(max_examples=10)
@given(r=st.integers(3, 60), x=st.floats(-1, 1))
def test_lagrange_polynomials_at_lobatto_nodes(observe: Observer, r: int, x: float) -> None:
    """Σℓ_i² ≤ 1, the nodes in doubles to 1e-13."""
    nodes = [mp.mpf(node) for node in dirichlet.lobatto(r)]
    with mp.workdps(40):
        for node in nodes[1:-1]:
            step = mp.legendre(r - 2, node) - node * mp.legendre(r - 1, node)
            observe.upper("N-hilbert-nodes", abs(step / (r * mp.legendre(r - 1, node))), 1e-13)
        total = sum(mp.fprod((x - b) / (a - b) for b in nodes if b != a) ** 2 for a in nodes)
        observe.upper("N-hilbert-nodes", total, 1 + mp.mpf(10) ** -9)


@pytest.mark.claim("N-hilbert-nodes")
@given(S=powers(-1, 1), gap=st.floats(0.1, 3.0), r=st.integers(4, 90), x=st.floats(-1, 1), y=st.floats(-1, 1))
def test_interpolation_of_the_kernel(observe: Observer, S: float, gap: float, r: int, x: float, y: float) -> None:
    """|k − IkI| and |k_m − Ik_mI| at points of the box."""
    c = 1.0 + gap / S
    first, second = dirichlet.interpolation(S, c, r)
    assume(first < 1e3)
    nodes, points, L = dirichlet.lobatto(r), np.array([x, y, 1.0, -1.0]), c * S
    powers_of = np.polynomial.legendre.legvander(nodes, r - 1)
    lagrange = np.linalg.solve(powers_of.T, np.polynomial.legendre.legvander(points, r - 1).T).T
    w = np.arange(1, int(12 * L) + 12) * math.pi / (2 * L)

    def series(a: np.ndarray) -> np.ndarray:
        return np.sin(w * (S * a[:, None] + L)) * np.sqrt(dirichlet.density(math.inf, w) / L)

    here = dirichlet.correlation(math.inf, S * np.abs(points[:, None] - points))
    there = dirichlet.correlation(math.inf, S * np.abs(nodes[:, None] - nodes))
    observe.upper("N-hilbert-nodes", np.abs(here - lagrange @ there @ lagrange.T), first, tol=1e-12)
    F, G = series(points), series(nodes)
    observe.upper("N-hilbert-nodes", np.abs(F @ F.T - lagrange @ (G @ G.T) @ lagrange.T), second, tol=1e-12)


@pytest.mark.claim("N-hilbert-nodes")
@settings(max_examples=4)
@given(S=st.floats(0.3, 2.0), gap=st.floats(0.8, 2.0), m=st.integers(3, 8))
def test_eigenvectors_with_a_proved_residual(observe: Observer, S: float, gap: float, m: int) -> None:
    """Eigenvalues at nodes within ‖F‖ of those at 60 digits (Weyl), and a diagonal in the vectors of the other."""
    box = one_line(math.inf, S, 1.0 + gap / S, m)
    with at_bits(256), mp.workdps(60):
        balls = EnclosedSines.of(box, np.array([S]), np.ones(1), 1.0, 1.0)
        pair = balls._blocks(0, 10, True)[0]
        spectra = [_Eigenvectors.of(A) for A in pair]
        exact = [
            mp.matrix([[mp.mpf(A[i, j].mid().str(60, radius=False)) for j in range(5)] for i in range(5)]) for A in pair
        ]
        for A, of in zip(exact, spectra, strict=True):
            truth = sorted(mp.eigsy(A, eigvals_only=True))
            ours = sorted(mp.mpf(value.str(60, radius=False)) for value in of.values)
            error = mp.mpf(of.error.str(30, radius=False))
            observe.upper("N-hilbert-nodes", error, mp.mpf(10) ** -30)
            for a, b in zip(ours, truth, strict=True):
                observe.upper("N-hilbert-nodes", abs(a - b), error, tol=mp.mpf(10) ** -50)
        _, vectors = mp.eigsy(exact[1])
        truth = sorted((vectors.T * exact[0] * vectors)[i, i] for i in range(5))
        seen = sorted(mp.mpf(q.mid().str(60, radius=False)) for q in spectra[1].seen(spectra[0], pair[0]))
        observe.equal("N-hilbert-nodes", truth[-1], seen[-1], rtol=mp.mpf(10) ** -25)


@pytest.mark.claim("N-hilbert-nodes")
@given(seed=SEEDS, N=st.integers(1, 40), r=st.integers(3, 6), dim=st.integers(1, 2), noise=powers(-3, 1))
def test_polynomial_processes_diverge_most_at_the_nodes(
    observe: Observer, seed: int, N: int, r: int, dim: int, noise: float
) -> None:
    """Random covariances of the values at the nodes, and rows of the box."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (N, dim)) if seed % 2 else dirichlet.lobatto(r)[rng.integers(0, r, (N, dim))]
    nodes = np.polynomial.legendre.legvander(dirichlet.lobatto(r), r - 1)
    basis = np.ones((N, 1))
    for d in range(dim):
        one = np.linalg.solve(nodes.T, np.polynomial.legendre.legvander(X[:, d], r - 1).T).T
        basis = (basis[:, :, None] * one[:, None, :]).reshape(N, -1)
    A, B = (root @ root.T for root in rng.standard_normal((2, r**dim, r**dim)))
    truth = max(divergences(basis @ A @ basis.T, basis @ B @ basis.T, noise))
    bound = max(divergences(A, B, noise / N))
    observe.upper("N-hilbert-nodes", truth, bound, tol=1e-8 * (1 + bound))


@pytest.mark.claim("N-hilbert-nodes")
@given(seed=SEEDS, dim=st.integers(1, 2), kind=st.sampled_from(ROWS), N=st.integers(1, 12))
def test_no_rows_diverge_more_than_the_nodes(observe: Observer, seed: int, dim: int, kind: str, N: int) -> None:
    """Squared exponential kernels beside their series with m sines a side, both ways."""
    rng = np.random.default_rng(seed)
    S, m, noise = 10.0 ** rng.uniform(-0.5, 0.4, dim), rng.integers(2, 20, dim), 10.0 ** rng.uniform(-2, 0)
    c = 1.0 + rng.uniform(0.3, 3.0, dim) / S
    kernel, X = SquaredExponential(), rows(rng, kind, N, S, m, c)
    features = HilbertFeatures(kernel, m, c, half_width=S).fit(X)
    truth = max(divergences(kernel(X), features(X) @ features(X).T, noise))
    box = Sines(math.inf, N, noise, S, c, m.astype(float))
    bound = dirichlet.at_nodes(box, kept=True)
    observe.upper("N-hilbert-nodes", truth, bound, tol=1e-7 * (1 + truth))
    chosen = dirichlet.nodes(box)
    if dim == 1 and chosen is not None:  # not below the divergence at the nodes, each with the weight of all rows
        at = S * dirichlet.lobatto(chosen[0][0])[:, None]
        truth = max(divergences(kernel(at), features(at) @ features(at).T, noise / N))
        observe.upper("N-hilbert-nodes", truth, bound, tol=1e-7 * (1 + truth))


def compare_with_the_truth(observe: Observer, seed: int, nu: float, dim: int, kind: str, N: int) -> None:
    """hilbert_kl against both divergences at N given rows, each row repeated: their mean has noise/times."""
    rng = np.random.default_rng(seed)
    S = 10.0 ** rng.uniform(-0.5, 1.0 / dim, dim)
    ell = 10.0 ** rng.uniform(-0.3, 0.3, dim)
    c = 1.0 + ell / S * rng.uniform(0.2, 4.0, dim)
    m = np.maximum(1, (2 * c * S / ell / math.pi * rng.uniform(0.5, 6.0)).astype(int))
    if np.prod(m) > 3000:
        m = np.maximum(1, (m * (3000 / np.prod(m)) ** (1 / dim)).astype(int))
    variance, noise, times = 10.0 ** rng.uniform(-2, 2), 10.0 ** rng.uniform(-2, 1), int(10 ** rng.uniform(0, 4))
    noise *= variance
    kernel = a_kernel(nu, ell, variance)
    X = rows(rng, kind, N, S, m, c)
    Xi = HilbertFeatures(kernel, m, c, half_width=S).fit(X)(X)
    truth = max(divergences(kernel(X), Xi @ Xi.T, noise / times))
    bound = hilbert_kl(kernel, N * times, m, c, half_width=S, noise=noise)
    observe.upper("N-hilbert-kl", truth, float(bound), tol=1e-7 * (1 + truth))


@pytest.mark.claim("N-hilbert-kl")
@settings(max_examples=32)
@given(seed=SEEDS, nu=NUS, dim=st.integers(1, 3), kind=st.sampled_from(ROWS), N=st.integers(1, 20))
def test_no_rows_diverge_more_than_the_bound(
    observe: Observer, seed: int, nu: float, dim: int, kind: str, N: int
) -> None:
    compare_with_the_truth(observe, seed, nu, dim, kind, N)


@pytest.mark.slow
@pytest.mark.claim("N-hilbert-kl")
@pytest.mark.parametrize("nu", [0.5, 1.5, 2.5, math.inf])
def test_no_rows_diverge_more_than_the_bound_in_ten_thousand_cases(observe: Observer, nu: float) -> None:
    for seed in range(2500):
        compare_with_the_truth(observe, seed, nu, 1 + seed % 3, ROWS[seed % len(ROWS)], 1 + seed % 15)


@pytest.mark.claim("N-hilbert-kl")
@settings(max_examples=8)
@given(seed=SEEDS, nu=NUS, S=powers(-0.5, 0.7), gap=st.floats(0.3, 3.0), share=st.floats(0.5, 5.0), noise=powers(-3, 0))
def test_rows_at_thirty_digits(
    observe: Observer, seed: int, nu: float, S: float, gap: float, share: float, noise: float
) -> None:
    """The value with rigor="sharp" without any tolerance."""
    rng = np.random.default_rng(seed)
    c, N = 1.0 + gap / S, 5
    m = max(1, int(2 * c * S / math.pi * share))
    x = rows(rng, str(rng.choice(ROWS)), N, np.array([S]), np.array([m]), np.array([c])).ravel()
    bound = hilbert_kl(a_kernel(nu, 1.0), N, m, c, half_width=S, noise=noise, rigor="sharp")
    observe.holds("N-hilbert-kl", bound.certified)
    with mp.workdps(30):
        L = mp.mpf(c) * mp.mpf(S)
        K, series = mp.matrix(N, N), mp.matrix(N, N)
        for i in range(N):
            for j in range(N):
                K[i, j] = reference.correlation(smooth(nu), mp.mpf(x[i]) - mp.mpf(x[j]))
                series[i, j] = reference.sines(smooth(nu), L, m, mp.mpf(x[i]), mp.mpf(x[j]))
        for first, second in ((K, series), (series, K)):
            observe.upper("N-hilbert-kl", reference.kl(first, second, mp.mpf(noise)), mp.mpf(float(bound)))


@pytest.mark.claim(
    "N-hilbert-kl", "N-hilbert-images", "N-hilbert-tail", "N-hilbert-ends", "N-hilbert-nodes", "N-hilbert-predict"
)
@settings(max_examples=12)
@given(seed=SEEDS, nu=NUS, dim=st.integers(1, 2))
def test_doubles_are_above_the_balls(observe: Observer, seed: int, nu: float, dim: int) -> None:
    """The parts in balls and doubles agree to 1e-9; the value in doubles is not below the ball but by 1e-9."""
    rng = np.random.default_rng(seed)
    S, ell = 10.0 ** rng.uniform(-0.5, 0.8 if dim == 1 else 0.4, dim), np.ones(dim)
    c, m = 1.0 + rng.uniform(0.3, 4.0, dim) / S, rng.integers(2, 30, dim)
    noise, N = 10.0 ** rng.uniform(-2, 0), int(10 ** rng.uniform(0, 5))
    box = Sines(nu, N, noise, S / ell, c, m.astype(float))
    with at_bits(256):
        balls = EnclosedSines.of(box, S, ell, 1.0, noise)
        for claim, ball, double in (
            ("N-hilbert-images", balls.images(), dirichlet.images(box)),
            ("N-hilbert-tail", balls.omitted(), dirichlet.omitted(box)),
        ):
            observe.equal(claim, double, float(ball), rtol=1e-9, atol=1e-300)
        if dim == 1 and nu < math.inf:
            observe.equal("N-hilbert-ends", dirichlet.at_ends(box).divergence, float(balls.at_ends()), rtol=1e-6)
        if dim > 1 and nu < math.inf:
            observe.equal("N-hilbert-predict", dirichlet.predicted(box), float(balls.predicted()), rtol=1e-9)
        value = dirichlet.bound(box)[0]
        ball = balls.bound()
        if math.isfinite(value):
            claim = "N-hilbert-nodes" if nu == math.inf else "N-hilbert-kl"
            observe.upper(claim, float(ball), value * (1 + 1e-9))
            observe.upper(claim, value, float(ball) * (1 + 1e-4) + 1e-3)


RANKS = [(math.inf, 0.1, 1.3), (math.inf, 0.3, 1.3), (math.inf, 1.0, 1.3), (2.5, 0.3, 1.6), (2.5, 1.0, 1.6)]


@pytest.mark.claim("N-hilbert-kl")
@pytest.mark.parametrize(("nu", "ell", "factor"), RANKS)
def test_ranks_are_near_the_least_possible(observe: Observer, nu: float, ell: float, factor: float) -> None:
    """N = 1500 rows spread over the box, as 150 rows ten times each: fewer than m/factor functions fail at every c."""
    kernel, N, noise = a_kernel(nu, ell), 1500, 0.1
    plan = hilbert_rank(kernel, N, half_width=1.0, noise=noise, target=0.1)
    observe.upper("N-hilbert-kl", float(plan.bound), 0.1)
    x = np.linspace(-1.0, 1.0, 150)[:, None]
    K, fewer = kernel(x), math.ceil(plan.rank / factor) - 1
    for c in 1.0 + ell * np.array([0.3, 0.6, 1.0, 1.3, 1.6, 2.0, 2.5, 3.5]):
        Xi = HilbertFeatures(kernel, fewer, c, half_width=1.0).fit(x)(x)
        observe.holds("N-hilbert-kl", kl_features(K, Xi, noise=noise / 10) > 0.1)


@pytest.mark.claim("N-hilbert-kl")
@pytest.mark.parametrize("rigor", ["auto", "sharp"])
def test_ranks_in_more_dimensions_meet_the_target(observe: Observer, rigor: str) -> None:
    rng = np.random.default_rng(5)
    for kernel in (SquaredExponential(2.0, [0.7, 1.5]), Matern(2.5, 2.0, [0.9, 1.4])):
        plan = hilbert_rank(kernel, 400, half_width=[1.0, 1.5], noise=0.2, target=0.5, rigor=rigor)
        observe.upper("N-hilbert-kl", float(plan.bound), 0.5)
        observe.holds("N-hilbert-kl", plan.bound.certified == (rigor == "sharp"))
        X = rng.uniform(-1, 1, (400, 2)) * [1.0, 1.5]
        Xi = HilbertFeatures(kernel, plan.m, plan.c, half_width=[1.0, 1.5]).fit(X)(X)
        observe.upper("N-hilbert-kl", kl_features(kernel(X), Xi, noise=0.2), float(plan.bound))


@pytest.mark.claim("N-hilbert-images", "N-hilbert-tail")
@given(seed=SEEDS, nu=NUS, dim=st.integers(1, 2))
def test_the_error_of_the_kernel(observe: Observer, seed: int, nu: float, dim: int) -> None:
    rng = np.random.default_rng(seed)
    S, c, m = rng.uniform(0.3, 3.0, dim), 1.0 + rng.uniform(0.1, 2.0, dim), rng.integers(1, 20, dim)
    kernel = a_kernel(nu, np.ones(dim), 2.0)
    X = rows(rng, str(rng.choice(ROWS)), 12, S, m, c)
    Xi = HilbertFeatures(kernel, m, c, half_width=S).fit(X)(X)
    error = hilbert_kernel_error(kernel, m, c, half_width=S)
    observe.upper("N-hilbert-images", np.abs(Xi @ Xi.T - kernel(X)), float(error), tol=1e-12)
    sharp = hilbert_kernel_error(kernel, m, c, half_width=S, rigor="sharp")
    observe.upper("N-hilbert-tail", float(sharp), float(error))


@pytest.mark.claim("N-hilbert-nodes")
@pytest.mark.parametrize("c", [1.05, 1.3, 2.0])
@pytest.mark.parametrize("S", [0.7, 2.0])
def test_all_functions_are_the_images(observe: Observer, S: float, c: float) -> None:
    """K_m − K of many functions is K_∞ − K, which signed images give, at the nodes."""
    line = one_line(math.inf, S, c, m=200)
    for (_, many), (_, every) in zip(
        dirichlet._blocks(line, 12, True), dirichlet._blocks(line, 12, False), strict=True
    ):
        observe.equal("N-hilbert-nodes", many, every, atol=1e-12)


@pytest.mark.claim("N-hilbert-nodes")
def test_the_divergence_at_nodes_allows_for_its_rounding(observe: Observer) -> None:
    """Of 300 functions in a wide box nothing is left but errors: rounding, of interpolation and of the images."""
    for S, level in ((0.5, 1e-6), (2.0, 1e-5)):
        box = one_line(math.inf, S, 4.0, m=300, N=1000, level=level)
        numbers, *_ = dirichlet.nodes(box)
        observe.upper("N-hilbert-nodes", 1e-15 * numbers[0] * 1000 / level, dirichlet.at_nodes(box, kept=True))
