"""λ_max(K − Q)/σ² bounds VFE's and DTC's predictions at the rows (N-op); its floor (N-op-low) and ends (N-op-edge)."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations, product
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mpmath import eye, mp, mpf
from observer import Observer
from renyi_instances import KINDS, SEEDS, instance
from test_proved_rounding import exact_kernel

from gpbounds.kernels import Kernel, Matern, SquaredExponential
from gpbounds.reference import renyi as reference
from gpbounds.reference.linalg import inverse
from gpbounds.reference.renyi import matrix
from gpbounds.renyi import operator, operator_gap
from gpbounds.renyi.operator import Chain, _Residual

KERNELS: list[Kernel] = [
    SquaredExponential(1.5, 0.7),
    Matern(0.5, 1.0, 2.0),
    Matern(1.5) + SquaredExponential(0.5, 3.0),
    Matern(2.5, 2.0, 0.5) * SquaredExponential(1.0, 4.0),
]
TINY = mpf("1e-30")


def norm(v: Any) -> Any:
    return mp.sqrt(mp.fsum(x * x for x in v))


def statements(observe: Observer, K: Any, Q: Any, y: Any, noise: Any, rng: np.random.Generator) -> None:
    """(a), (b) and (c) of N-op for one K, Q ⪯ K and y."""
    N = K.rows
    epsilon, S, own = reference.operator_gap(K, Q, noise), reference.smoother(K, noise), reference.smoother(Q, noise)
    allowed = TINY * (1 + epsilon) * (1 + norm(y))
    means, sparse = S * y, own * y
    apart = norm(means - sparse)
    split = noise * inverse(Q + noise * eye(N)) * (K - Q) * inverse(K + noise * eye(N)) * y
    observe.equal("N-op", list(split), list(means - sparse), atol=allowed / noise)
    observe.upper("N-op", apart, epsilon * norm(y - means), tol=allowed)
    observe.upper("N-op", apart, epsilon * norm(y - sparse), tol=allowed)
    for f in (y, K * y, mp.matrix(rng.standard_normal(N).tolist())):
        for variance in (noise, mpf(0), mpf(3)):
            truth = reference.risk(own, f, variance)
            observe.upper("N-op", truth, (1 + epsilon) ** 2 * reference.risk(S, f, variance), tol=TINY * (1 + truth))
    exact, model = reference.latent_variances(K, K, noise), reference.latent_variances(K, Q, noise)
    for i, (v, u) in enumerate(zip(exact, model, strict=True)):
        left, slack = K[i, i] - Q[i, i], TINY * (1 + epsilon) * (1 + K[i, i])
        observe.upper("N-op", u, v + left, tol=slack)
        observe.upper("N-op", v + left, v + epsilon * noise, tol=slack)
        observe.lower("N-op", u, (1 + epsilon) * v - epsilon * noise + left, tol=slack)
        if epsilon < 1:
            observe.lower("N-op", u, (v - epsilon * noise) / (1 - epsilon), tol=slack / (1 - epsilon))
        ratio = (u + noise) / (v + noise)
        observe.upper("N-op", ratio, 1 + epsilon, tol=slack / noise)
        observe.lower("N-op", ratio, (1 + epsilon) / (1 + 2 * epsilon), tol=slack / noise)


@pytest.mark.claim("N-op")
@given(seed=SEEDS, kernel=st.sampled_from(KERNELS), jitter=st.sampled_from([0.0, 1e-6, 0.3]))
def test_predictions_at_the_rows(observe: Observer, seed: int, kernel: Kernel, jitter: float) -> None:
    """Kernels, noise from 1e-6 to 1, any y, clustered points, rows that occur twice and rows of Z among them."""
    rng = np.random.default_rng(seed)
    N, M = int(rng.integers(1, 7)), int(rng.integers(1, 5))
    X = rng.standard_normal((N, 2)) * 10.0 ** rng.uniform(-1.0, 1.0)
    X[rng.integers(N)] = X[0]
    Z = X[rng.integers(N, size=M)] + rng.choice([0.0, 1e-3, 1.0], (M, 1)) * rng.standard_normal((M, 2))
    Z = np.unique(Z, axis=0)
    joint = matrix(kernel(np.concatenate([X, Z]))) + mpf("1e-12") * eye(
        N + len(Z)
    )  # positive definite, as exact entries
    K, Kuf, Kuu = joint[:N, :N], joint[N:, :N], joint[N:, N:] + mpf(jitter) * eye(len(Z))
    y = mp.matrix((rng.standard_normal(N) * 10.0 ** rng.uniform(-3.0, 3.0)).tolist())
    statements(observe, K, reference.nystrom(Kuf, Kuu), y, mpf(10.0 ** rng.uniform(-6.0, 0.0)), rng)


@pytest.mark.claim("N-op")
@given(seed=SEEDS, kind=st.sampled_from(KINDS))
def test_predictions_of_hard_instances(observe: Observer, seed: int, kind: str) -> None:
    case = instance(seed, kind)
    statements(observe, case.Kff, case.Q, case.y, case.noise, np.random.default_rng(seed))


@pytest.mark.claim("N-op")
@given(seed=SEEDS)
def test_where_the_bounds_are_attained(observe: Observer, seed: int) -> None:
    """Z = X gives 0; Q = 0 attains (a) and the bias of (b) at the first eigenvector, and (c) for a multiple of I."""
    rng = np.random.default_rng(seed)
    N = int(rng.integers(1, 6))
    G, noise = rng.standard_normal((N, N)), mpf(10.0 ** rng.uniform(-3.0, 1.0))
    K = matrix(G @ G.T) + mpf("0.1") * eye(N)
    observe.equal("N-op", reference.operator_gap(K, reference.nystrom(K, K), noise), mpf(0), atol=TINY * 100 / noise)
    nothing = mp.zeros(N)
    values, vectors = mp.eigsy(K)
    first = max(range(N), key=lambda i: values[i])
    y, epsilon = vectors[:, first], reference.operator_gap(K, nothing, noise)
    residual = y - reference.smoother(K, noise) * y
    observe.equal("N-op", norm(y - residual), epsilon * norm(residual), rtol=TINY * 1000)
    risks = [reference.risk(reference.smoother(A, noise), y, mpf(0)) for A in (nothing, K)]
    observe.equal("N-op", risks[0], (1 + epsilon) ** 2 * risks[1], rtol=TINY * 1000)
    flat = mpf(float(rng.uniform(0.1, 5.0))) * eye(N)
    v, u = (reference.latent_variances(flat, A, noise)[0] for A in (flat, nothing))
    observe.equal("N-op", u, (1 + flat[0, 0] / noise) * v - flat[0, 0] + flat[0, 0], rtol=TINY * 1000)


def _largest(A: np.ndarray) -> np.ndarray:
    return np.linalg.eigvalsh(A)[..., -1]


@pytest.mark.claim("N-op", "N-op-low")
@pytest.mark.parametrize("noise", [0.25, 1.0])
@pytest.mark.parametrize("jitter", [0.0, 0.5])
def test_every_small_integer_model(observe: Observer, noise: float, jitter: float) -> None:
    """All K = FFᵀ, F (3, 2) of −1, 0, 1, and all Z among the rows: (a) for every y and (b) for every f as norms."""
    F = np.array(list(product([-1.0, 0.0, 1.0], repeat=6))).reshape(-1, 3, 2)
    K, identity, slack = F @ F.transpose(0, 2, 1), np.eye(3), 1e-9
    A = np.linalg.inv(K + noise * identity)
    S, tried = K @ A, 0
    for size in range(4):
        for rows in combinations(range(3), size):
            Kuu, Kuf = K[:, rows][:, :, rows] + jitter * np.eye(size), K[:, rows, :]
            Q = Kuf.transpose(0, 2, 1) @ np.linalg.pinv(Kuu, hermitian=True) @ Kuf if size else 0.0 * K
            left = K - Q
            assert np.linalg.eigvalsh(left).min() > -slack
            epsilon = _largest(left) / noise
            B = np.linalg.inv(Q + noise * identity)
            own = Q @ B
            for residual in (noise * A, noise * B):  # |(S − own)y| ≤ ε|residual·y| for every y
                worst = np.linalg.norm((S - own) @ np.linalg.inv(residual), 2, axis=(1, 2))
                observe.holds("N-op", (worst <= epsilon + slack).all(), len(F))
            bias = np.linalg.norm((identity - own) @ np.linalg.inv(identity - S), 2, axis=(1, 2))
            observe.holds("N-op", (bias <= 1.0 + epsilon + slack).all(), len(F))
            observe.holds("N-op", ((own * own).sum((1, 2)) <= (S * S).sum((1, 2)) + slack).all(), len(F))
            v, diagonal = noise * np.einsum("nii->ni", S), np.einsum("nii->ni", left)
            u, e = diagonal + noise * np.einsum("nii->ni", own), epsilon[:, None]
            observe.holds("N-op", (u <= v + diagonal + slack).all(), len(F))
            observe.holds("N-op", (u >= (1.0 + e) * v - e * noise + diagonal - slack).all(), len(F))
            spectrum = np.linalg.eigvalsh(K)[:, ::-1]
            if size < 3:
                observe.holds("N-op-low", (epsilon * noise >= spectrum[:, size] - slack).all(), len(F))
            needed = (spectrum > e * noise + slack).sum(axis=1)
            observe.holds("N-op-low", (needed <= size).all(), len(F))
            tried += len(F)
    assert tried == 8 * 3**6


@pytest.mark.claim("N-op-low")
@given(seed=SEEDS)
def test_no_features_reach_less(observe: Observer, seed: int) -> None:
    """Any symmetric Q of rank M, also one that is not below K; the leading eigenvectors attain the bound."""
    rng = np.random.default_rng(seed)
    N = int(rng.integers(2, 7))
    M = int(rng.integers(1, N))
    G, H = rng.standard_normal((N, N)), rng.standard_normal((N, M))
    K = matrix(G @ G.T)
    values, vectors = mp.eigsy((K + K.T) / 2)
    order = sorted(range(N), key=lambda i: -values[i])
    signs = mp.diag([mpf(int(s)) for s in rng.choice([-1, 1], M)])
    for Q in (matrix(H) * signs * matrix(H).T, matrix(H) * matrix(H).T):
        observe.lower("N-op-low", reference.operator_gap(K, Q, mpf(1)), values[order[M]], tol=TINY)
    best = mp.zeros(N)
    for i in order[:M]:
        best += values[i] * vectors[:, i] * vectors[:, i].T
    observe.equal("N-op-low", reference.operator_gap(K, best, mpf(1)), values[order[M]], atol=TINY * 100)


# The computed bound.


@pytest.mark.claim("N-op", "N-op-edge")
@pytest.mark.parametrize("most", [operator.DENSE, 0])
@pytest.mark.parametrize("kernel", [SquaredExponential(1.3, 0.8), Matern(1.5, 0.5, [1.0, 2.0])])
@pytest.mark.parametrize("noise", [1e-6, 1e-2, 1.0])
def test_the_bound_beside_the_exact_eigenvalue(
    observe: Observer, monkeypatch: pytest.MonkeyPatch, most: int, kernel: Kernel, noise: float
) -> None:
    """Entries in 50 digits; points clustered by 1e-4; inputs at 1.6e9; by an eigenvalue and by probes."""
    monkeypatch.setattr(operator, "DENSE", most)
    for far in (0.0, 1.6e9):
        rng = np.random.default_rng(4)
        X = rng.integers(-2048, 2048, (14, 2)) / 1024.0 + far
        Z = np.concatenate([X[:3], X[:2] + 2.0**-13])
        bound = operator_gap(kernel, X, Z, noise=noise, rng=5)
        Kuu = exact_kernel(kernel, Z, Z) + mpf(bound.terms["jitter"]) * eye(len(Z))
        Q = reference.nystrom(exact_kernel(kernel, Z, X), Kuu)
        truth = reference.operator_gap(exact_kernel(kernel, X, X), Q, mpf(noise))
        claim = "N-op" if most else "N-op-edge"
        observe.upper(claim, truth, mpf(float(bound)))
        observe.lower(claim, truth, mpf(bound.terms["lower"]))
        assert bound.certified
        assert float(bound) <= 1.06 * truth


def spectrum(n: int, name: str) -> np.ndarray:
    """Eigenvalues between 0 and 1: ``flat`` at the top, one that stands out, a power law, or spread."""
    return {
        "flat": np.where(np.arange(n) < n // 2, 1.0, 0.5),
        "outlier": np.where(np.arange(n) == 0, 1.0, 0.01),
        "power law": (1.0 + np.arange(n)) ** -1.5,
        "spread": np.linspace(1.0, 0.0, n),
    }[name]


def chain(values: np.ndarray, W: np.ndarray, steps: int, end: float, off: float, push: float) -> tuple[Chain, float]:
    """The chain of diag(values) from W, with errors of size ``off``·‖W‖ along ``push`` of the first unit vector."""
    made, before = Chain(), np.zeros_like(W)
    for step in range(steps):
        a, b, c = (1.0, 0.0, 0.0) if step < 3 else (2.0 / end, 1.0, 0.0) if step == 3 else (4.0 / end, 2.0, 1.0)
        size = off * float(np.linalg.norm(W))
        error = np.zeros_like(W)
        error[0] = push * size * W[0] / np.linalg.norm(W[0])
        made.steps.append((a, b, c, 1.0001 * abs(push) * size + 1e-14 * float(np.linalg.norm(W))))
        W, before = a * values[:, None] * W - b * W - c * before + error, W
    return made, float(np.linalg.norm(W, 2))


@pytest.mark.claim("N-op-edge")
@given(seed=SEEDS, name=st.sampled_from(["flat", "outlier", "power law", "spread"]))
def test_a_chain_with_errors_bounds_the_eigenvalue(observe: Observer, seed: int, name: str) -> None:
    """With q = |uᵀW_0|² itself the bound holds for all errors, those that hide the eigenvector too, and any end."""
    rng = np.random.default_rng(seed)
    values, steps = spectrum(40, name), int(rng.integers(4, 16))
    W = rng.standard_normal((40, int(rng.integers(1, 6))))
    end, off, push = (
        float(rng.uniform(0.05, 2.0)),
        10.0 ** rng.uniform(-12.0, -1.0),
        float(rng.choice([-1.0, 0.0, 1.0])),
    )
    made, size = chain(values, W, steps, end, off, push)
    observe.upper("N-op-edge", 1.0, made.above(size, float((W[0] ** 2).sum()), end))
    assert made.above(size, float((W[0] ** 2).sum()), end) >= end


@pytest.mark.claim("N-op-edge")
def test_the_bound_is_lost_without_the_errors(observe: Observer) -> None:
    """Errors that hide the first eigenvector: the same chain without η states less than the eigenvalue."""
    W = np.random.default_rng(0).standard_normal((40, 3))
    made, size = chain(spectrum(40, "outlier"), W, 8, 0.5, 0.05, -1.0)
    blind = Chain([(a, b, c, 0.0) for a, b, c, _ in made.steps])
    quantile = float((W[0] ** 2).sum())
    observe.holds("N-op-edge", blind.above(size, quantile, 0.5) < 1.0 <= made.above(size, quantile, 0.5))


@pytest.mark.claim("N-op-edge")
@given(l=st.integers(1, 30), more=st.integers(0, 10), t=st.floats(1e-3, 3.0))
def test_the_ratio_of_polynomials_decreases(observe: Observer, l: int, more: int, t: float) -> None:  # noqa: E741
    """U_(l−1)(cosh t)/T_n(cosh t), l ≤ n, and the derivative in the proof."""
    n = l + more

    def ratio(x: Any) -> Any:
        return mp.sinh(l * x) / (mp.sinh(x) * mp.cosh(n * x))

    x = mpf(t)
    observe.holds("N-op-edge", ratio(x * mpf("1.001")) < ratio(x))
    slope = l * mp.coth(l * x) - mp.coth(x) - n * mp.tanh(n * x)
    observe.upper("N-op-edge", slope, mpf(0))


@pytest.mark.broad
@pytest.mark.claim("N-op-edge")
@pytest.mark.parametrize("noise", [0.05, 1e-4])
@pytest.mark.parametrize("kernel", [SquaredExponential(1.0, 0.25), Matern(0.5, 1.0, 1.0)])
def test_the_bound_fails_as_often_as_promised(
    observe: Observer, monkeypatch: pytest.MonkeyPatch, kernel: Kernel, noise: float
) -> None:
    monkeypatch.setattr(operator, "DENSE", 0)
    monkeypatch.setattr(operator, "ROW_SUMS", 0.0)
    X = np.random.default_rng(3).uniform(-1.0, 1.0, (120, 2))
    Z, runs, delta = X[:12], 150, 0.3
    V = np.linalg.solve(np.linalg.cholesky(kernel(Z)), kernel(Z, X))
    truth = float(np.linalg.eigvalsh(kernel(X) - V.T @ V)[-1]) / noise
    bounds = [operator_gap(kernel, X, Z, noise=noise, delta=delta, rng=seed, jitter=0.0) for seed in range(runs)]
    assert {bound.confidence for bound in bounds} == {1.0 - delta}
    observe.frequency("N-op-edge", sum(float(bound) < truth * (1.0 - 1e-9) for bound in bounds), runs, delta)
    observe.holds("N-op-edge", all(bound.terms["lower"] <= truth * (1.0 + 1e-9) for bound in bounds), runs)
    assert float(np.median([float(bound) for bound in bounds])) < 1.1 * truth


@pytest.mark.claim("N-op-edge")
def test_ends_of_epsilon_are_rounded_outwards(observe: Observer) -> None:
    """Against rational arithmetic, for ends of λ_max(G) near its allowances and far from them."""
    rng = np.random.default_rng(0)
    for allowed, noise, far in 10.0 ** rng.uniform((-6, -3, -3), (3, 3, 6), (100, 3)):
        G = allowed * (1.0 + far)
        residual = _Residual(SimpleNamespace(noise=noise), np.zeros((1, 1)), np.zeros((0, 1)), allowed, allowed)
        ends = residual.ends(G, G, G / noise)
        low, high = ((Fraction(G) + sign * Fraction(allowed)) / Fraction(noise) for sign in (-1, 1))
        observe.holds("N-op-edge", Fraction(ends.below) <= low)
        observe.holds("N-op-edge", high <= Fraction(ends.above))
