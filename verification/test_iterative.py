"""Section N of the ledger: the log evidence at large N from a Vecchia factor, Lanczos quadrature and random probes."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mpmath import mp, mpf
from observer import Observer

from gpbounds.iterative.log_det import LEAST, THIRD_MOMENT, TwoDepths, chernoff, edges, frobenius, half_width, trace_log
from gpbounds.kernels import Kernel, Matern, SquaredExponential
from gpbounds.linalg.krylov import Lanczos, Tridiagonal, gauss, radau
from gpbounds.reference import linalg as reference
from gpbounds.reference.linalg import log_det, trace
from gpbounds.reference.renyi import matrix
from gpbounds.vecchia.blocks import Blocks
from gpbounds.vecchia.factor import factor

SEEDS = st.integers(0, 2**32 - 1)
TINY = mpf("1e-30")
KERNELS: list[Kernel] = [
    SquaredExponential(1.5, 0.7),
    Matern(0.5, 1.0, 2.0),
    Matern(1.5) + SquaredExponential(0.5, 3.0),
]


def random_blocks(rng: np.random.Generator, N: int) -> Blocks:
    """Blocks of any sizes with any earlier rows, empty sets and single blocks among them."""
    ends = np.unique(np.concatenate([[0, N], rng.integers(1, N, rng.integers(0, N))]))
    parts = [slice(int(a), int(b)) for a, b in pairwise(ends)]
    share = rng.choice([0.0, 0.3, 0.7, 1.0])
    return Blocks(rng.permutation(N), parts, [np.flatnonzero(rng.random(part.start) < share) for part in parts])


def rows_of(blocks: Blocks) -> tuple[list[list[int]], list[list[int]]]:
    return [list(range(part.start, part.stop)) for part in blocks.parts], [s.tolist() for s in blocks.sets]


@pytest.mark.claim("N-vecchia")
@given(seed=SEEDS)
def test_the_block_vecchia_factor(observe: Observer, seed: int) -> None:
    """V1 to V3 to 30 digits, with V4: Σ_j W_jᵀW_j = UᵀU; more rows in the sets never raise log|P|."""
    rng = np.random.default_rng(seed)
    N = int(rng.integers(2, 8))
    G = rng.standard_normal((N, N))
    K = matrix(G @ G.T) + mpf("0.1") * mpmath.eye(N)
    blocks = random_blocks(rng, N)
    parts, sets = rows_of(blocks)
    U = reference.vecchia(K, parts, sets)
    B = U * K * U.T
    for part in parts:
        observe.equal("N-vecchia", list(reference.pick(B, part, part)), list(mpmath.eye(len(part))), atol=TINY)
    observe.equal("N-vecchia", trace(B), N, atol=TINY)
    log_P = -2 * sum(mp.log(U[i, i]) for i in range(N))
    values = mp.eigsy(B, eigvals_only=True)
    observe.equal("N-vecchia", log_P - sum(reference.psi(b) for b in values), log_det(K), atol=TINY)
    observe.lower("N-vecchia", log_P + 100, log_det(K) + 100, tol=TINY)
    more = [sorted({*chosen, *range(0, part[0], 2)}) for part, chosen in zip(parts, sets, strict=True)]
    larger = reference.vecchia(K, parts, more)
    observe.holds("N-vecchia", -2 * sum(mp.log(larger[i, i]) for i in range(N)) <= log_P + TINY)
    change = matrix(G + G.T)
    exact = trace(K**-1 * change)
    split = sum(
        trace(U[part[0] : part[-1] + 1, :] * change * U[part[0] : part[-1] + 1, :].T) for part in parts
    ) + trace((K**-1 - U.T * U) * change)
    observe.equal("N-vecchia", split, exact, atol=mpf("1e-25") * (1 + abs(exact)))


@pytest.mark.claim("N-vecchia")
@given(seed=SEEDS, kernel=st.sampled_from(KERNELS))
def test_the_computed_factor(observe: Observer, seed: int, kernel: Kernel) -> None:
    """log|P| ≥ log|K + σ²I|, tr B = N and U against its definition, duplicated rows among the data."""
    rng = np.random.default_rng(seed)
    N, noise = int(rng.integers(2, 30)), float(10.0 ** rng.uniform(-4, 1))
    X = rng.uniform(0, 3, (N, 2))
    X[rng.integers(0, N)] = X[0]
    blocks = random_blocks(rng, N)
    ordered = X[blocks.order]
    U = factor(kernel, ordered, noise=noise, blocks=blocks)
    exact = kernel(ordered) + noise * np.eye(N)
    rounding = 1e-13 * N * float(np.linalg.eigvalsh(exact)[-1]) / noise
    dense = U.times(np.eye(N))
    assert np.allclose(dense, U.transposed_times(np.eye(N)).T, rtol=0, atol=1e-14 * np.abs(dense).max())
    B = dense @ exact @ dense.T
    observe.equal("N-vecchia", np.trace(B), N, atol=N * rounding)
    truth = float(np.linalg.slogdet(exact)[1])
    observe.lower("N-vecchia", U.log_det + 1e3, truth + 1e3, tol=N * rounding)
    if N < 9:
        own = reference.vecchia(matrix(exact), *rows_of(blocks))
        values = np.array([[float(own[i, j]) for j in range(N)] for i in range(N)])
        observe.equal("N-vecchia", dense, values, atol=rounding * np.abs(values).max())
    if blocks.complete:
        observe.equal("N-vecchia", U.log_det, truth, atol=N * rounding)


def spectrum(rng: np.random.Generator, N: int, name: str) -> Any:
    """Positive eigenvalues with mean 1."""
    values = {
        "flat": np.ones(N),
        "outlier": np.concatenate([[5.0], np.full(N - 1, 0.9)]),
        "power law": np.arange(1, N + 1.0) ** -0.5,
        "spread": np.exp(rng.normal(0.0, 0.3, N)),
    }[name]
    return values / values.mean()


FUNCTIONS: list[tuple[Callable[[Any], Any], Callable[[Any], Any], int]] = [
    (mp.log, np.log, 1),
    (lambda x: 1 / x, lambda x: 1 / x, -1),
    (lambda x: mp.log(x) ** 2, lambda x: np.log(x) ** 2, -1),
    (lambda x: x * mp.log(x), lambda x: x * np.log(x), -1),
    (lambda x: x**2 * mp.log(x), lambda x: x**2 * np.log(x), 1),
    (lambda x: x**3 * mp.log(x), lambda x: x**3 * np.log(x), -1),
    (lambda x: x**4 * mp.log(x), lambda x: x**4 * np.log(x), 1),
]
"""In mpmath, in NumPy, and 1 where Gauss quadrature is above; x^j log x from 2k > j on."""


@pytest.mark.claim("N-slq")
@given(seed=SEEDS)
def test_which_end_a_quadrature_is(observe: Observer, seed: int) -> None:
    """Gauss and Radau after some numbers of steps, to 30 digits and as computed."""
    rng = np.random.default_rng(seed)
    N = int(rng.integers(3, 7))
    basis, values = np.linalg.qr(rng.standard_normal((N, N)))[0], np.sort(rng.uniform(0.2, 3.0, N))
    A, z = matrix(basis * values @ basis.T), matrix(rng.standard_normal(N))
    A = (A + A.T) / 2
    eigenvalues = mp.eigsy(A, eigvals_only=True)
    node, size = eigenvalues[0] * mpf("0.9"), (z.T * z)[0]
    run = Lanczos(lambda V: (basis * values) @ (basis.T @ V), np.array([[float(v)] for v in z]))
    exact = reference.quadrature_nodes(A, z, N)
    for k in sorted({1, 2, N - 1, N}):
        run.advance(k - len(run.diagonals))
        T = run.tridiagonal()
        found = reference.quadrature_nodes(A, z, k), reference.quadrature_nodes(A, z, k, node)
        limits = mp.exp(mp.harmonic(2 * k - 1)), mp.exp(mp.harmonic(2 * k))
        for number, (f, fast, sign) in enumerate(FUNCTIONS):
            truth, ends = reference.quadrature(exact, f), [reference.quadrature(some, f) for some in found]
            for end, side, limit in zip(ends, (sign, -sign), limits, strict=True):
                if eigenvalues[N - 1] < limit if number == 2 else 2 * k > number - 2:
                    observe.holds("N-slq", side * (end - truth) >= -TINY * size)
            for nodes, end in zip((gauss(T), radau(T, float(node))), ends, strict=True):
                observe.equal("N-slq", float(nodes.of(fast)[0]), end, rtol=1e-9, atol=1e-9 * float(size))


@pytest.mark.claim("N-slq")
def test_a_node_above_the_least_eigenvalue(observe: Observer) -> None:
    A, z = mp.diag([mpf("0.2"), 1, 2]), mp.matrix([3, 1, 1])
    truth = reference.quadrature(reference.quadrature_nodes(A, z, 3), mp.log)
    ends = [reference.quadrature(reference.quadrature_nodes(A, z, 1, mpf(node)), mp.log) for node in ("0.19", "0.22")]
    observe.holds("N-slq", ends[0] <= truth)
    observe.fails("N-slq", ends[1] <= truth, "λ_min = 0.2, node 0.22: Radau's value of log is above the truth")


@pytest.mark.claim("N-slqtail")
def test_the_tail_formulas(observe: Observer) -> None:
    """Chernoff's exponent against its maximisation, the third moment, monotonicity."""
    observe.upper("N-slqtail", reference.third_moment(), THIRD_MOMENT)
    for error, norm, above, m in [(0.1, 1.0, 0.3, 64), (1e-3, 2.0, 1.0, 8), (5.0, 0.5, 0.5, 3), (0.4, 1.0, 1e-3, 64)]:
        value = float(chernoff(error, np.array(norm), above, m))
        observe.equal("N-slqtail", value, reference.chernoff(error, norm, above, m), rtol=1e-9)
    base = {"norm": 1.0, "above": 0.2, "size": 0.3, "probes": 64, "delta": 0.02}
    width = half_width(**base)
    for change in ({"norm": 1.1}, {"above": 0.3}, {"size": 0.4}, {"probes": 32}, {"delta": 0.01}):
        observe.holds("N-slqtail", half_width(**(base | change)) >= width * (1 - 1e-5))
    norms = np.geomspace(1e-3, 1.0, 60)
    observe.holds("N-slqtail", (np.diff([half_width(**(base | {"norm": n, "size": 0.02})) for n in norms]) > 0).all())
    third = half_width(**base, third=0.01)
    observe.holds("N-slqtail", third < width == half_width(**base, third=1.0))
    for norm in (0.05, 0.3, 1.0):
        cubes = reference.berry_esseen(third, norm, min(mpf("0.3"), mpf("0.01") / norm**2), 64)
        observe.upper("N-slqtail", min(reference.chernoff(third, norm, base["above"], 64), cubes), 0.02, tol=1e-6)
    for norm in (0.05, 0.3, 1.0):  # what it promises, cell by cell
        risk = min(
            reference.chernoff(width, norm, base["above"], 64), reference.berry_esseen(width, norm, base["size"], 64)
        )
        observe.upper("N-slqtail", risk, base["delta"], tol=1e-6)


def probe_batches(values: Any, runs: int, probes: int, steps: int, rng: np.random.Generator) -> Tridiagonal:
    """Lanczos matrices of diag(values) for runs × probes start vectors."""
    run = Lanczos(lambda V: values[:, None] * V, rng.standard_normal((values.size, runs * probes)))
    run.advance(steps)
    return run.tridiagonal()


@pytest.mark.claim("N-edge")
@pytest.mark.parametrize("name", ["flat", "outlier", "power law", "spread"])
def test_edges_hold_as_often_as_promised(observe: Observer, name: str) -> None:
    rng = np.random.default_rng(5)
    values, runs, delta = spectrum(rng, 150, name), 80, 0.3
    T = probe_batches(values, runs, 5, 6, rng)
    found = np.array([edges(T.columns(slice(5 * i, 5 * i + 5)), delta=delta) for i in range(runs)])
    slack = 1e-9
    observe.frequency("N-edge", int((found[:, 0] > values.min() + slack).sum()), runs, delta)
    observe.frequency("N-edge", int((found[:, 1] < values.max() - slack).sum()), runs, delta)


@pytest.mark.claim("N-edge")
def test_edges_hold_at_a_depth_that_the_probes_choose(observe: Observer) -> None:
    """The pilot stops where it first bounds the least eigenvalue; the event is one of its start vectors alone."""
    rng = np.random.default_rng(9)
    values, runs, delta = spectrum(rng, 150, "power law"), 100, 0.3
    depths = [probe_batches(values, runs, 5, steps, np.random.default_rng(10)) for steps in (4, 8, 12, 16, 24)]
    lower_ends, chosen = np.full(runs, -np.inf), np.zeros(runs, dtype=int)
    for i in range(runs):
        for depth, T in enumerate(depths):
            mine = T.columns(slice(5 * i, 5 * i + 5))
            lower_ends[i], chosen[i] = edges(mine, delta=delta)[0], depth
            if lower_ends[i] >= 0.572 * float(gauss(mine).points.min()):
                break
    observe.holds("N-edge", np.unique(chosen).size > 1)
    observe.frequency("N-edge", int((lower_ends > values.min() + 1e-9).sum()), runs, delta)


@pytest.mark.claim("N-slqtail")
@pytest.mark.parametrize("name", ["outlier", "power law", "spread"])
@pytest.mark.parametrize("probes", [4, 32])
def test_tails_hold_as_often_as_promised(observe: Observer, name: str, probes: int) -> None:
    """20 000 draws of the mean over the probes, both tails, and the norm."""
    rng = np.random.default_rng(6)
    eigenvalues = spectrum(rng, 60, name)
    A = np.log(eigenvalues) - (eigenvalues - 1.0)
    squares = rng.chisquare(probes, (20_000, 60)) / probes
    means = squares @ A - A.sum()
    norm, size, delta = float(np.linalg.norm(A)), float(np.abs(A).max()), 0.1
    over = half_width(norm, above=max(float(A.max()), 0.0), size=size, probes=probes, delta=delta)
    under = half_width(norm, above=size, size=size, probes=probes, delta=delta)
    observe.frequency("N-slqtail", int((means >= over).sum()), 20_000, delta)
    observe.frequency("N-slqtail", int((-means >= under).sum()), 20_000, delta)
    forms = squares @ (A * A)
    bounds = np.array([frobenius(s, size, probes, delta) for s in forms[:5000]])
    observe.frequency("N-slqtail", int((bounds < norm).sum()), 5000, delta)


@pytest.mark.claim("N-slq")
def test_edges_that_failed(observe: Observer) -> None:
    """A pilot that says λ ≈ 1, and main probes that show smaller and larger eigenvalues: no NaN, wider edges."""
    rng = np.random.default_rng(8)
    main = probe_batches(spectrum(rng, 200, "spread"), 1, 16, 8, rng)
    found = trace_log(main, None, probe_batches(np.ones(200), 1, 7, 8, rng), 200, delta=0.05)
    observe.holds("N-slq", -np.inf < found.low <= found.high)
    points = gauss(main).points
    observe.holds("N-slq", found.least < points.min() <= points.max() <= found.greatest)


@pytest.mark.claim("N-slq")
def test_the_form_of_all_probes(observe: Observer) -> None:
    """nD + (m − n)S = f; the ends of D and S on an interval; at least D² and S² by quadrature, from other probes."""
    rng = np.random.default_rng(12)
    values = spectrum(rng, 200, "spread")
    split = TwoDepths.of(probe_batches(values, 1, 4, 8, rng), 100)
    observe.holds("N-slq", LEAST <= split.deep < 100)
    x = np.linspace(values.min(), values.max(), 4001)
    D, S = split.of_deep(x), split.of_others(x)
    f = np.log(x) - split.line(x)
    observe.equal("N-slq", split.deep * D + (100 - split.deep) * S, f, atol=1e-12)
    observe.holds("N-slq", np.abs(f - split.q(x)).max() < 0.2 * np.abs(f).max())  # q follows f
    for computed, (least, most) in zip((D, S), split.ends(float(x[0]), float(x[-1])), strict=True):
        observe.equal("N-slq", [least, most], [computed.min(), computed.max()], rtol=1e-3)
        observe.holds("N-slq", least <= computed.min() <= computed.max() <= most)
    Z = rng.standard_normal((200, 6))
    run = Lanczos(lambda V: values[:, None] * V, Z)
    run.advance(7)
    T = run.tridiagonal()
    forms = split.squares(gauss(T), radau(T, 0.9 * float(values.min())))
    for square, function in zip(forms, (split.of_deep, split.of_others), strict=True):
        observe.upper("N-slq", (Z * Z).T @ function(values) ** 2, square, tol=1e-12)
    run = Lanczos(lambda V: values[:, None] * V, Z)
    run.advance(2)
    shallow = radau(run.tridiagonal(), 0.9 * float(values.min())).of(split.of_others)
    observe.equal("N-slq", shallow, (Z * Z).T @ split.of_others(values), atol=1e-10)


def coverage(observe: Observer, name: str, probes: int, delta: float, runs: int) -> None:
    """All probes deep up to `LEAST`, else as many as the pilot says."""
    rng = np.random.default_rng(7)
    values = spectrum(rng, 200, name)
    truth, failures, ratios = float(np.log(values).sum()), 0, []
    for _ in range(runs):
        pilot = probe_batches(values, 1, 4, 10, rng)
        n = TwoDepths.of(pilot, probes).deep
        deep = probe_batches(values, 1, n, 10, rng)
        others = probe_batches(values, 1, probes - n, 2, rng) if n < probes else None
        found = trace_log(deep, others, pilot, 200, delta=delta)
        failures += not found.low <= truth <= found.high
        ratios.append((found.high - found.low) / max(found.spread, 1e-12))
    observe.frequency("N-slq", failures, runs, delta)
    if name == "spread" and probes == 64 and delta == 0.05:  # 2·1.96 standard errors would be the normal interval
        assert float(np.median(ratios)) < 2.2 * 2 * 1.96


@pytest.mark.claim("N-slq")
@pytest.mark.parametrize(
    ("name", "probes", "delta"), [("spread", 64, 0.05), ("power law", 8, 0.5), ("outlier", 16, 0.5)]
)
def test_the_interval_contains_the_truth(observe: Observer, name: str, probes: int, delta: float) -> None:
    coverage(observe, name, probes, delta, 50)


@pytest.mark.slow
@pytest.mark.claim("N-slq")
@pytest.mark.parametrize("name", ["flat", "outlier", "power law", "spread"])
@pytest.mark.parametrize("probes", [8, 16, 64])
@pytest.mark.parametrize("delta", [0.5, 0.05])
def test_the_interval_in_a_thousand_runs(observe: Observer, name: str, probes: int, delta: float) -> None:
    coverage(observe, name, probes, delta, 1000)
