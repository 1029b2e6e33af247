"""log|I + Δ/σ²| by its diagonal, by blocks, by blocks given earlier rows: a ladder of lower bounds (N-fischer)."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mpmath import eye, log, mp, mpf
from observer import Observer
from renyi_instances import SEEDS, Instance, gram, instance
from test_proved_rounding import Hard, exact_kernel

from gpbounds import kernels
from gpbounds.reference import evidence as reference
from gpbounds.reference.linalg import log_det, pick
from gpbounds.renyi import evidence
from gpbounds.renyi.fischer import of_blocks, partition
from gpbounds.renyi.members import LADDER
from gpbounds.renyi.streamed import streamed
from gpbounds.vecchia import Blocks

TOL = mpf("1e-30")


def parts(rng: np.random.Generator, N: int) -> list[list[int]]:
    """A random partition of a random order of the rows."""
    order = rng.permutation(N)
    cuts = np.flatnonzero(rng.random(N - 1) < 0.5) + 1
    return [part.tolist() for part in np.split(order, cuts)]


def sets(rng: np.random.Generator, blocks: list[list[int]], share: float) -> list[list[int]]:
    """For each block a share of the rows before it."""
    before: list[int] = []
    chosen = []
    for rows in blocks:
        chosen.append([i for i in before if rng.random() < share])
        before = [*before, *rows]
    return chosen


def larger(rng: np.random.Generator, N: int) -> Instance:
    """Six to nine rows, and targets; Δ of all ranks."""
    M = int(rng.integers(1, 4))
    joint = gram(rng, N + M, int(rng.integers(M, N + M + 2)))
    Kuu = joint[N:, N:] + mpf("1e-3") * eye(M)
    noise = mpf(10.0 ** rng.uniform(-3, 1))
    y = mp.matrix(rng.standard_normal(N).tolist()) * mp.sqrt(noise) * mpf(10.0 ** rng.uniform(-1, 1))
    return Instance(joint[:N, :N], joint[N:, :N], Kuu, y, noise)


@pytest.mark.claim("N-fischer", "N-fischer-vecchia")
@given(seed=SEEDS)
def test_each_rung_is_above_the_one_before_and_below_the_evidence(observe: Observer, seed: int) -> None:
    """L_VI ≤ "determinant" ≤ diagonal ≤ blocks ≤ blocks given rows ≤ given more rows ≤ full ≤ log p(y)."""
    rng = np.random.default_rng(seed)
    case = instance(seed) if seed % 3 == 0 else larger(rng, int(rng.integers(6, 10)))
    N, Y = case.N, reference.stack(case.y, case.y[::-1] * mpf(rng.normal()))
    arguments = (*case.prior, Y, case.noise)
    blocks = parts(rng, N)
    few = sets(rng, blocks, 0.4)
    more = [sorted({*one, *other}) for one, other in zip(few, sets(rng, blocks, 0.5), strict=True)]
    merged = [[*blocks[0], *blocks[1]], *blocks[2:]] if len(blocks) > 1 else blocks
    nonzero = sum(case.residual[i, i] > mpf("1e-40") for i in range(N)) or 1
    rungs = [
        reference.elbo(*arguments, mpf(1)),
        reference.lower(*arguments, nonzero * log(1 + case.T / (nonzero * case.noise))),
        reference.fischer(*arguments, reference.singles(N)),
        reference.fischer(*arguments, blocks),
        reference.fischer(*arguments, blocks, few),
        reference.fischer(*arguments, blocks, more),
        reference.fischer(*arguments, [list(range(N))]),
        reference.log_evidence(case.Kff, Y, case.noise),
    ]
    tol = TOL * (1 + abs(rungs[0]))
    for less, greater in pairwise(rungs):
        observe.lower("N-fischer", greater - less, mpf(0), tol=tol)
    observe.lower("N-fischer", reference.fischer(*arguments, merged), rungs[3], tol=tol)
    given_all = [[i for part in blocks[:j] for i in part] for j in range(len(blocks))]
    observe.equal("N-fischer-vecchia", reference.fischer(*arguments, blocks, given_all), rungs[-2], atol=tol)
    observe.lower("N-fischer-vecchia", rungs[-1] - rungs[5], mpf(0), tol=tol)


@pytest.mark.claim("N-fischer")
@given(seed=SEEDS)
def test_blocks_are_the_greatest_evidence_lower_bound_of_their_structure(observe: Observer, seed: int) -> None:
    """E_q log p(y|f) − KL for q(f|u) with Δ^½VΔ^½, V block-diagonal: equal at V_b = C_bb⁻¹ and the best q(u)."""
    rng = np.random.default_rng(seed)
    N, M = int(rng.integers(2, 6)), int(rng.integers(1, 3))
    joint = gram(rng, N + M)
    case = Instance(
        joint[:N, :N],
        joint[N:, :N],
        joint[N:, N:],
        mp.matrix(rng.standard_normal(N).tolist()),
        mpf(rng.uniform(0.1, 2)),
    )
    blocks, C = parts(rng, N), eye(N) + case.residual / case.noise
    best = [pick(C, rows, rows) ** -1 for rows in blocks]
    inverse = (case.Q + case.noise * eye(N)) ** -1
    mean, cov = case.Kuf * inverse * case.y, case.Kuu - case.Kuf * inverse * case.Kuf.T
    bound = reference.fischer(*case.prior, case.y, case.noise, blocks)
    tol = mpf("1e-25") * (1 + abs(bound))
    elbo = reference.structured_elbo(*case.all, blocks, best, mean, cov)
    observe.equal("N-fischer", elbo, bound, atol=tol)
    others = [V + gram(rng, V.rows) * mpf(rng.uniform(0.0, 0.5)) for V in best]
    moved = mean + mp.matrix(rng.standard_normal(M).tolist()) * mpf("0.1")
    worse = reference.structured_elbo(*case.all, blocks, others, moved, cov * mpf(1.1))
    observe.lower("N-fischer", bound, worse, tol=tol)


@pytest.mark.claim("N-fischer", "N-fischer-vecchia")
def test_dependent_rows_make_the_inequalities_strict(observe: Observer) -> None:
    """With Q = 0 and two rows of correlation .9; and all blocks are needed."""
    K = mp.matrix([[1, mpf("0.9")], [mpf("0.9"), 1]])
    case = Instance(K, mp.zeros(1, 2), mp.ones(1), mp.matrix([1, 1]), mpf("0.1"))  # Q = 0
    arguments = (*case.prior, case.y, case.noise)
    truth = reference.log_evidence(case.Kff, case.y, case.noise)
    diagonal, full = (reference.fischer(*arguments, blocks) for blocks in ([[0], [1]], [[0, 1]]))
    observe.fails("N-fischer", diagonal >= full, "the diagonal is below one block of dependent rows")
    given_first = reference.fischer(*arguments, [[0], [1]], [[], [0]])
    observe.equal("N-fischer-vecchia", given_first, full, rtol=mpf("1e-40"))
    no_data = case.y * 0
    less = reference.lower(*case.prior, no_data, case.noise, log_det(mp.matrix([[11]])))  # one row of two
    exact = reference.log_evidence(case.Kff, no_data, case.noise)
    observe.fails("N-fischer", less <= exact, "a block is left out")
    observe.lower("N-fischer", truth, full)


# --- as computed ----------------------------------------------------------------------------------------------------


@pytest.fixture
def digits() -> Any:
    with mp.workdps(60):
        yield


@pytest.mark.claim("N-fischer", "N-fischer-vecchia", "N-member-rounding")
@pytest.mark.usefixtures("digits")
@given(seed=SEEDS, jitter=st.sampled_from(["auto", 0.0, 1e-10]))
def test_computed_determinants_are_as_near_as_is_stated(observe: Observer, seed: int, jitter: Any) -> None:
    """Of the exact C for Q₋, at any condition of Kuu; partitions of the library, and random ones."""
    case, rng = Hard(seed), np.random.default_rng(seed)
    try:
        problem = streamed(case.kernel, case.X, case.y, case.Z, case.noise, jitter)
    except ValueError:
        return
    known, L = problem.accuracy, mp.matrix(problem.white.inducing.chol.L.tolist())
    if not np.isfinite(known.below):
        return
    Kfu = exact_kernel(case.kernel, case.X, case.Z)
    least = Kfu * (L * L.T + mpf(known.factor) * mp.eye(len(case.Z))) ** -1 * Kfu.T
    C = eye(case.N) + (case.K - least) / mpf(case.noise)
    of_rows = problem.diagonal
    truth = sum(log(C[i, i]) for i in range(case.N))
    observe.holds("N-fischer", abs(truth - mpf(of_rows.value)) <= mpf(of_rows.error))
    size = int(rng.integers(1, case.N + 1))
    own = [partition(case.kernel, case.X, size, conditioned=each) for each in (False, True)]
    blocks = parts(rng, case.N)
    order = np.concatenate([np.array(rows) for rows in blocks])
    places = {int(row): place for place, row in enumerate(order)}
    ends = np.cumsum([0, *(len(rows) for rows in blocks)])
    slices = [slice(int(a), int(b)) for a, b in pairwise(ends)]
    chosen = [np.array(sorted(places[i] for i in rows), dtype=np.int64) for rows in sets(rng, blocks, 0.5)]
    for partition_of in (*own, Blocks(order, slices, chosen)):
        computed = of_blocks(problem, partition_of)
        exact = mpf(0)
        for part, places_before in zip(partition_of.parts, partition_of.sets, strict=True):
            rows, before = partition_of.order[part].tolist(), partition_of.order[places_before].tolist()
            block = pick(C, rows, rows)
            if before:
                block -= pick(C, rows, before) * pick(C, before, before) ** -1 * pick(C, before, rows)
            exact += log_det(block)
        claim = "N-fischer-vecchia" if any(each.size for each in partition_of.sets) else "N-fischer"
        observe.holds(claim, abs(exact - mpf(computed.value)) <= mpf(computed.error) or computed.error == np.inf)


@pytest.mark.claim("N-fischer", "N-fischer-vecchia")
@pytest.mark.usefixtures("digits")
@given(seed=SEEDS)
def test_members_of_the_ladder_are_below_the_evidence(observe: Observer, seed: int) -> None:
    """In doubles and in 30 digits, rounding included; in the order of the ladder."""
    case = Hard(seed)
    truth, size = case.evidence, int(np.random.default_rng(seed).integers(1, 5))
    try:
        lower, _ = evidence(*case.arguments, noise=case.noise, members=LADDER, block=size)
    except ValueError:
        return
    observe.holds("N-fischer", mpf(float(lower)) <= truth)
    rounding = 2.0 * lower.terms["rounding"] + 1e-9 * (1.0 + abs(float(lower)))
    if np.isfinite(rounding):
        order = [lower.terms[name] for name in ("elbo 1", "determinant", *LADDER)]
        observe.holds("N-fischer-vecchia", (np.diff(order) >= -rounding).all())
    try:
        sharp, _ = evidence(*case.arguments, noise=case.noise, members=LADDER, block=size, rigor="sharp")
    except ValueError:
        return
    for name in LADDER:
        claim = "N-fischer-vecchia" if name == "conditioned" else "N-fischer"
        observe.lower(claim, truth, mpf(sharp.terms[name]))


@pytest.mark.claim("N-fischer", "N-fischer-vecchia")
def test_members_agree_with_their_definitions(observe: Observer) -> None:
    """Well-conditioned data, two outputs, several blocks: each member to 9 digits, also in 30 digits."""
    rng = np.random.default_rng(3)
    X, Y, noise = rng.uniform(-2, 2, (14, 2)), rng.standard_normal((14, 2)), 0.05
    kernel, Z = kernels.Matern(1.5, 1.3, 0.8), rng.uniform(-2, 2, (3, 2))
    prior = exact_kernel(kernel, X, X), exact_kernel(kernel, Z, X), exact_kernel(kernel, Z, Z)
    arguments = (*prior, mp.matrix(Y.tolist()), mpf(noise))
    expected = {"diagonal": reference.fischer(*arguments, reference.singles(14))}
    for name, conditioned in (("blocks", False), ("conditioned", True)):
        own = partition(kernel, X, 4, conditioned=conditioned)
        rows = [own.order[part].tolist() for part in own.parts]
        expected[name] = reference.fischer(*arguments, rows, [own.order[each].tolist() for each in own.sets])
        assert conditioned == any(each.size for each in own.sets)
    problem = kernel, X, Y, Z
    for rigor, tolerance in (("float", 1e-10), ("sharp", 1e-13)):
        lower, _ = evidence(*problem, noise=noise, members="all", block=4, jitter=0.0, rigor=rigor)
        for name, value in expected.items():
            observe.equal("N-fischer", lower.terms[name], value, rtol=tolerance)
    quadratic = lower.terms["conditioned"]
    solved, _ = evidence(*problem, noise=noise, members=("conditioned", "quadratic"), block=4)
    assert (
        solved.terms["quadratic"] >= quadratic - 0.02
    )  # the determinant of "conditioned", and a solve within .01 nats


@pytest.mark.claim("N-fischer")
@pytest.mark.parametrize(("noise", "proved"), [(1e-3, True), (2e-12, False)])
def test_nothing_is_proved_if_one_block_has_lost_its_digits(observe: Observer, noise: float, proved: bool) -> None:
    """Blocks of one row and of 300: at σ² = 2e-12 only the error of the larger one is more than 1."""
    X, none = 10.0 * np.arange(301.0)[:, None], np.empty(0, dtype=np.int64)
    problem = streamed(kernels.Matern(0.5), X, np.zeros((301, 1)), X[:1], noise, 0.0)
    known = of_blocks(problem, Blocks(np.arange(301), [slice(0, 1), slice(1, 301)], [none, none]))
    observe.holds("N-fischer", known.error >= 0.0 and bool(np.isfinite(known.error)) == proved)
