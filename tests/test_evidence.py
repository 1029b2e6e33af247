"""The brackets of the evidence: validity, names, costs, several outputs, and error messages."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpbounds import claims
from gpbounds.errors import NonFinite, NotPositiveDefinite
from gpbounds.kernels import Matern, SquaredExponential
from gpbounds.renyi import blocks as blocks_module
from gpbounds.renyi import (
    evidence,
    exact_gap,
    gap,
    gap_from_trace,
    log_evidence,
    minimum_gap,
    needed,
    needed_from_eigenvalues,
    nystrom,
)
from gpbounds.renyi.blocks import moments, products
from gpbounds.renyi.streamed import streamed

SEEDS = st.integers(0, 2**32 - 1)
CHEAP = ("trace", "determinant", "weighted")
ALL = (*CHEAP, "eigenvalue", "tangent", "quadratic")


def problem(seed: int, N: int = 40, M: int = 12) -> tuple:
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, (N, 2))
    kernel = Matern(1.5, float(np.exp(rng.normal())), float(np.exp(rng.normal(-0.3, 0.4))))
    Z = X[rng.permutation(N)[:M]] if rng.random() < 0.5 else rng.uniform(-2, 2, (M, 2))
    return kernel, X, rng.standard_normal(N), Z, float(10.0 ** rng.uniform(-1.5, 0.5))


def values(bound) -> dict[str, float]:
    return {name: v for name, v in bound.terms.items() if name not in ("T/σ²", "jitter", "rounding")}


# --- values -----------------------------------------------------------------------------------------------------------


def test_progress_counts_the_members_and_changes_no_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel, X, y, Z, noise = problem(0)
    counts = []

    class Bar:
        def __init__(self, *, total: int, **_: str | bool) -> None:
            self.total, self.done = total, 0

        def __enter__(self) -> Bar:
            return self

        def __exit__(self, *_: object) -> None:
            counts.append((self.done, self.total))

        def update(self) -> None:
            self.done += 1

    monkeypatch.setattr("tqdm.auto.tqdm", Bar)
    calls = [
        ({}, len(CHEAP) + 1),
        ({"members": "all", "alphas": (0.5, 1.0)}, len(ALL) + 8),
        ({"members": "vecchia"}, 2),
        ({"work": 1e6}, len(CHEAP) + 1),
    ]
    for options, total in calls:
        pairs = [evidence(kernel, X, y, Z, noise=noise, progress=progress, **options) for progress in (False, True)]
        assert pairs[0][0].to_dict() == pairs[1][0].to_dict()
        assert pairs[0][1].to_dict() == pairs[1][1].to_dict()
        assert counts == [(total, total)]  # a bar that shows nothing is none
        counts.clear()
    for method, total in (("blocks", len(ALL)), ("streamed", len(CHEAP))):
        gap(kernel, X, y, Z, 0.5, noise=noise, method=method, progress=True)
        assert counts[-1] == (total, total)


@given(seed=SEEDS)
def test_every_member_is_on_its_side(seed: int) -> None:
    kernel, X, y, Z, noise = problem(seed)
    arguments = kernel, X, y, Z
    truth, size = log_evidence(kernel, X, y, noise=noise), 1e-9 * (1 + kernel.variance / noise) * y.size
    lower, upper = evidence(*arguments, noise=noise, alphas=(0.3, 1.0), members="all")
    assert {*ALL, "exact", "further"} <= set(upper.terms)
    assert max(values(lower).values()) <= truth + size
    assert min(values(upper).values()) >= truth - size
    for bound, sign in ((lower, -1.0), (upper, 1.0)):  # one of the members, moved outwards by its own error
        moved = np.array(list(values(bound).values())) + sign * bound.terms["rounding"]
        assert np.abs(moved - float(bound)).min() <= 4.0 * np.spacing(abs(float(bound)))
        assert bound.certified
    assert (lower.side, upper.side) == ("lower", "upper")
    cheap = evidence(*arguments, noise=noise, members="cheap")
    assert set(values(cheap[1])) == set(CHEAP)
    assert float(cheap[0]) <= float(lower) + size
    assert float(upper) <= float(cheap[1]) + size
    assert cheap[1].terms["weighted"] <= cheap[1].terms["determinant"] <= cheap[1].terms["trace"]
    assert cheap[0].terms["determinant"] >= cheap[0].terms["elbo 1"]
    narrow = [
        evidence(*arguments, noise=noise, members="weighted", block=b)[1].terms["weighted"] for b in (1, 5, 20, 40)
    ]
    assert (np.diff(narrow) <= size).all()


@given(seed=SEEDS)
def test_outputs_add_up(seed: int) -> None:
    """Two outputs are two data sets with one kernel; counting the determinant only once would fail here."""
    kernel, X, y, Z, noise = problem(seed)
    other = np.random.default_rng(seed).standard_normal(y.size)
    both = evidence(kernel, X, np.stack([y, other], axis=1), Z, noise=noise, alphas=(0.5, 1.0))
    each = [evidence(kernel, X, column, Z, noise=noise, alphas=(0.5, 1.0)) for column in (y, other)]
    for index in (0, 1):
        for name, value in values(both[index]).items():
            apart = each[0][index].terms[name] + each[1][index].terms[name]
            slack = 0.05 if name == "quadratic" else 1e-8 * (1 + abs(apart))  # each solve stops within 0.01 nats
            assert value == pytest.approx(apart, abs=slack)
    truth = log_evidence(kernel, X, y, noise=noise) + log_evidence(kernel, X, other, noise=noise)
    assert float(both[0]) - 1e-6 * abs(truth) <= truth <= float(both[1]) + 1e-6 * abs(truth)
    single = evidence(kernel, X, y[:, None], Z, noise=noise)
    assert float(single[1]) == pytest.approx(float(evidence(kernel, X, y, Z, noise=noise)[1]), rel=1e-10)


def test_a_solve_closes_the_bracket_where_the_trace_leaves_it_wide() -> None:
    rng = np.random.default_rng(0)
    X, kernel = rng.uniform(-2, 2, (600, 2)), SquaredExponential(1.0, 0.6)
    y = np.linalg.cholesky(kernel(X) + 0.1 * np.eye(600)) @ rng.standard_normal(600)
    cheap, full = (evidence(kernel, X, y, X[:100], noise=0.1, members=m) for m in ("cheap", ALL))
    width = [float(upper) - float(lower) for lower, upper in (cheap, full)]
    assert width[1] < 2.0
    assert width[0] > 10.0 * width[1]
    assert full[1].claim == "N-quad"
    truth = log_evidence(kernel, X, y, noise=0.1)
    assert float(full[0]) <= truth <= float(full[1])


@given(seed=SEEDS)
def test_units_and_order_of_the_data_do_not_matter(seed: int) -> None:
    """y → cy, variance and noise times c²: every member shifts by −N log c; permutations change nothing."""
    kernel, X, y, Z, noise = problem(seed)
    arguments = kernel, X, y, Z
    base = [values(bound) for bound in evidence(*arguments, noise=noise)]
    order = np.random.default_rng(seed).permutation(y.size)
    mixed = [values(bound) for bound in evidence(kernel, X[order], y[order], Z[::-1], noise=noise)]
    for c in (1e-100, 1e5):
        scaled = evidence(Matern(1.5, kernel.variance * c * c, kernel.lengthscale), X, c * y, Z, noise=noise * c * c)
        for before, after in zip(base, scaled, strict=True):
            for name, value in before.items():
                slack = 0.02 if name == "quadratic" else 1e-6
                assert after.terms[name] == pytest.approx(value - y.size * np.log(c), rel=1e-8, abs=slack)
    for before, after in zip(base, mixed, strict=True):
        for name, value in before.items():
            assert after[name] == pytest.approx(value, rel=1e-6, abs=0.02 if name == "quadratic" else 1e-6)


@given(seed=SEEDS)
def test_jitter_is_recorded_and_only_widens(seed: int) -> None:
    kernel, X, y, Z, noise = problem(seed)
    arguments = kernel, X, y, Z
    truth, size = log_evidence(kernel, X, y, noise=noise), 1e-7 * (1 + kernel.variance / noise)
    objective, trace = [], []
    for jitter in (0.0, 1e-4, 1e-1):
        lower, upper = evidence(*arguments, noise=noise, jitter=jitter)
        assert lower.terms["jitter"] == upper.terms["jitter"] == jitter
        assert float(lower) <= truth + size
        assert float(upper) >= truth - size
        objective.append(lower.terms["elbo 1"])
        trace.append(upper.terms["trace"])
    assert (np.diff(objective) <= size).all()
    assert (np.diff(trace) >= -size).all()


def test_more_inducing_points_raise_the_elbo() -> None:
    kernel, X, y, _, noise = problem(2)
    lowers = [evidence(kernel, X, y, X[:M], noise=noise, members="cheap")[0].terms["elbo 1"] for M in range(1, 41, 3)]
    assert (np.diff(lowers) >= -1e-9).all()
    lower, upper = evidence(kernel, X, y, X, noise=noise)
    assert float(upper) - float(lower) <= 1e-8


# --- what is streamed -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("entries", [50, 2**22])
def test_streaming_in_blocks_is_the_dense_computation(monkeypatch, entries: int) -> None:
    kernel, X, y, Z, noise = problem(7)
    base = streamed(kernel, X, y, Z, noise, 0.0)
    W = np.random.default_rng(0).standard_normal((40, 2))
    record = nystrom(kernel, X, Z)
    D = record.residual / noise
    ratio = np.linalg.solve(record.Q + noise * np.eye(40), record.residual)
    monkeypatch.setattr(blocks_module, "ENTRIES", entries)
    for dense in (2000, 5):
        monkeypatch.setattr(blocks_module, "DENSE", dense)
        D_moments = moments(base, W)
        assert D_moments.squares == pytest.approx((D**2).sum(), rel=1e-9)
        assert D_moments.s == pytest.approx(np.trace(ratio), rel=1e-8)
        assert D_moments.q == pytest.approx(np.trace(ratio @ ratio), rel=1e-7)
        np.testing.assert_allclose(D_moments.forms, np.einsum("ip,ij,jp->p", W, D, W), rtol=1e-9)
        assert D_moments.largest >= record.largest / noise * (1 - 1e-12)
        assert D_moments.largest <= (1 + 1e-9 if dense == 2000 else 3.0) * record.largest / noise
        exact = np.linalg.slogdet(np.eye(40) + ratio)[1]
        assert D_moments.log_det[0] <= exact <= D_moments.log_det[1]
        np.testing.assert_allclose(products(kernel, X, noise)(W), (kernel(X) + noise * np.eye(40)) @ W, rtol=1e-12)


def test_the_cheap_members_need_little_memory() -> None:
    rng = np.random.default_rng(1)
    N, M = 40_000, 100
    X, y = rng.uniform(-3, 3, (N, 1)), rng.standard_normal(N)
    kernel = Matern(1.5, 1.0, 0.5)
    evidence(kernel, X[:100], y[:100], X[:5], noise=0.5)  # a first call, so that imports are not counted
    tracemalloc.start()
    lower, upper = evidence(kernel, X, y, X[:M], noise=0.5, members="cheap")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert set(values(upper)) == set(CHEAP)
    assert float(lower) <= float(upper)
    assert peak < 0.6 * 8 * N * M
    bound = gap(kernel, X, y, X[:M], 1.0, noise=0.5, method="streamed")[1]
    assert float(bound) <= float(gap_from_trace(kernel, X, y, X[:M], 1.0, noise=0.5))
    assert float(bound) == pytest.approx(float(upper) - lower.terms["elbo 1"], rel=1e-6)


def test_auto_computes_blocks_where_it_affords_neither_all_rows_nor_more_points() -> None:
    """And each name alone is a lower bound beside "trace"; smaller blocks never give a higher one here."""
    kernel, X, y, Z, noise = problem(1, 300)
    arguments = kernel, X, y, Z
    lower, upper = evidence(*arguments, noise=noise, work=5e7)
    assert set(values(lower)) == {"elbo 1", "determinant", "diagonal", "blocks"}
    assert lower.claim == "N-fischer"
    assert set(values(upper)) == set(CHEAP)
    rungs = []
    for block in (1, 20, 100, 300):
        alone, beside = evidence(*arguments, noise=noise, members="blocks", block=block)
        assert set(values(beside)) == {"trace"}
        rungs.append(alone.terms["blocks"])
    assert rungs[0] == pytest.approx(lower.terms["diagonal"], rel=1e-12)
    assert rungs[-1] == pytest.approx(lower.terms["blocks"], rel=1e-12)
    assert (np.diff(rungs) > 0.0).all()
    alone, _ = evidence(*arguments, noise=noise, members="conditioned", block=20)
    assert rungs[1] < alone.terms["conditioned"] < rungs[-1]
    assert alone.claim == "N-fischer-vecchia"


def test_terms_name_their_theorems() -> None:
    *arguments, noise = problem(4)
    for pair in (
        evidence(*arguments, noise=noise, alphas=0.5),
        evidence(*arguments, noise=noise, members=("trace", "quadratic")),
    ):
        for bound in pair:
            assert claims.find(bound.claim).id == bound.claim
            assert bound.quantity == "log p(y)"
            assert bound.assumptions
            assert f"({bound.claim}, rounding included)" in str(bound)
    assert set(values(pair[1])) == {"trace", "quadratic"}
    named = evidence(*arguments, noise=noise, alphas=(0.25, 0.5), members=["secant", "order"])[1]
    assert set(values(named)) == {"order 0.25", "order 0.5", "secant 0.25, 0.5", "secant 0.5, 1"}


# --- the gap and what it needs ----------------------------------------------------------------------------------------


@given(seed=SEEDS, alpha=st.floats(0.05, 1.0))
def test_every_method_brackets_the_gap(seed: int, alpha: float) -> None:
    kernel, X, y, Z, noise = problem(seed)
    arguments = kernel, X, y, Z
    exact, size = exact_gap(*arguments, alpha, noise=noise), 1e-8 * (1 + kernel.variance / noise) * y.size
    for method in ("dense", "blocks", "streamed"):
        lower, upper = gap(*arguments, alpha, noise=noise, method=method)
        assert 0.0 <= float(lower) <= exact + size
        assert exact <= float(upper) + size
    decided = gap(*arguments, alpha, noise=noise)
    assert exact - size <= float(decided[0]) <= float(decided[1]) <= exact + size
    twice = gap(kernel, X, np.stack([y, y], axis=1), Z, alpha, noise=noise)
    assert [float(b) for b in twice] == pytest.approx([2 * float(b) for b in decided], rel=1e-6)


def test_what_is_needed_is_needed() -> None:
    kernel, X, y, _, noise = problem(9)
    for target in (1e-6, 0.1, 3.0):
        M = needed(kernel, X, 0.8, noise=noise, target=target)
        eigenvalues = np.linalg.eigvalsh(kernel(X))
        assert M == needed_from_eigenvalues(eigenvalues, 0.8, noise=noise, target=target)
        assert minimum_gap(eigenvalues, M, 0.8, noise=noise) <= target
        if M > 1:
            assert minimum_gap(eigenvalues, M - 1, 0.8, noise=noise) > target
            for seed in range(5):
                Z = np.random.default_rng(seed).permutation(X)[: M - 1]
                assert exact_gap(kernel, X, 0 * y, Z, 0.8, noise=noise) > target
        assert needed(kernel, X, 0.8, noise=noise, target=target, landmarks=20) <= min(M, 20)
    assert needed(kernel, X, 0.8, noise=noise, target=1e6) == 1
    assert needed(kernel, X, 0.8, noise=noise, target=0.1, landmarks=400) <= needed(
        kernel, X, 0.8, noise=noise, target=0.1
    )
    large = np.linspace(0, 30, 6000)
    assert 20 < needed(SquaredExponential(), large, 1.0, noise=0.1, target=0.1, landmarks=100) <= 100


# --- bad input --------------------------------------------------------------------------------------------------------

K, X3, Y3, Z2 = SquaredExponential(), np.array([[0.0], [1.0], [2.0]]), np.array([1.0, 0.0, -1.0]), [[0.0], [2.0]]


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda: evidence(K, X3, Y3[:2], Z2, noise=0.1), r"y: expected shape \(3,\) or \(3, P\), .* got \(2,\)"),
        (lambda: evidence(K, X3, Y3, np.zeros((2, 2)), noise=0.1), "Z: expected 1 column"),
        (lambda: evidence(K, X3, Y3, Z2, noise=0.0), "noise: expected a positive finite number, got 0.0"),
        (lambda: evidence(K, X3, Y3, Z2, noise=0.1, alphas=()), "alphas: expected at least one number"),
        (
            lambda: evidence(K, X3, Y3, Z2, noise=0.1, alphas=(0.5, 1.5)),
            r"alphas: expected a number in \[0, 1\], got 1.5",
        ),
        (lambda: evidence(K, X3, Y3, Z2, noise=0.1, alphas=-1.0), r"alphas: expected a number in \[0, 1\], got -1.0"),
        (
            lambda: evidence(K, X3, Y3, Z2, noise=0.1, members="best"),
            "members: expected 'auto', 'cheap', 'all'.*got 'best'",
        ),
        (lambda: evidence(K, X3, Y3, Z2, noise=0.1, members=()), "members: expected"),
        (lambda: evidence(K, X3, Y3, Z2, noise=0.1, members=("trace", "x")), r"members: .* got \('trace', 'x'\)"),
        (lambda: evidence(K, X3, Y3, Z2, noise=0.1, members="secant"), "alphas: expected an order below 1"),
        (lambda: evidence(K, X3, Y3, Z2, noise=0.1, jitter=-1.0), "jitter: expected a finite number >= 0"),
        (lambda: evidence(K, X3, Y3, Z2, noise=0.1, block=0), "block: expected a whole number >= 1"),
        (lambda: gap(K, X3, Y3, Z2, 0.5, noise=0.1, method="fast"), "method: expected one of 'auto'"),
        (lambda: gap(K, X3, Y3, Z2, 0.5, noise=0.1, method="streamed", form="printed"), "method: expected 'dense'"),
        (lambda: gap(K, X3, Y3[:2], Z2, 0.5, noise=0.1, method="streamed"), r"y: expected shape \(3,\)"),
        (lambda: needed(K, X3, 0.5, noise=0.1, target=0.0), "target: expected a positive finite number, got 0.0"),
        (lambda: needed(K, X3, 0.5, noise=0.1, target=[1.0, 2.0]), "target: expected one number"),
        (lambda: needed(K, X3, 0.5, noise=0.1, target=1.0, landmarks=0), "landmarks: expected a whole number >= 1"),
        (
            lambda: needed_from_eigenvalues([1.0, -1.0], 0.5, noise=0.1, target=1.0),
            "eigenvalues_lower: expected numbers >= 0",
        ),
    ],
)
def test_wrong_arguments_are_named(call, match: str) -> None:
    with pytest.raises(ValueError, match=match):
        call()


def test_unsuitable_data_are_refused() -> None:
    with pytest.raises(NotPositiveDefinite, match=r"Kuu.*duplicated"):
        evidence(K, X3, Y3, [[0.0], [0.0]], noise=0.1, jitter=0.0)
    assert evidence(K, X3, Y3, [[0.0], [0.0]], noise=0.1)[0].terms["jitter"] > 0.0
    with pytest.raises(NonFinite, match=r"y: .* row\(s\) \[1\]"):
        evidence(K, X3, [0.0, np.inf, 0.0], Z2, noise=0.1)
    with pytest.raises(NonFinite, match=r"X: .* row\(s\) \[0\]"):
        evidence(K, [np.nan, 1.0, 2.0], Y3, Z2, noise=0.1)


@pytest.mark.gpu
def test_on_a_gpu_the_bracket_is_the_same(cupy) -> None:
    kernel, X, y, Z, noise = problem(3)
    on_host = evidence(kernel, X, y, Z, noise=noise)
    on_device = evidence(kernel, cupy.asarray(X), cupy.asarray(y), cupy.asarray(Z), noise=noise)
    for a, b in zip(on_host, on_device, strict=True):
        assert (a.certified, b.certified) == (True, False)  # nothing is proved of the solves of a GPU's libraries
        assert any("GPU" in assumption for assumption in b.assumptions)
        for name, value in values(a).items():
            assert b.terms[name] == pytest.approx(value, rel=1e-7)
