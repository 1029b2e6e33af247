"""Evaluations over partitions equal those over all rows, and their sums have one order."""

from __future__ import annotations

import pickle
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fitting.features import FeatureKernel, MercerMap
from fitting.objectives.collapsed import Diagonal
from fitting.objectives.goals import Evidence
from fitting.objectives.laws import FamilyLaw, LowRankLaw
from fitting.objectives.objective import Objective, member, objective
from fitting.objectives.passes import EvidencePasses
from fitting.rows.basis import InducingBasis
from fitting.rows.data import Held, over_partitions
from fitting.starts.starts import units
from gpbounds.errors import NotPositiveDefinite
from gpbounds.kernels import Matern, SquaredExponential
from gpbounds.linalg.parallel import one_blas_thread
from gpbounds.rows.engines import Changed, Local, Memory, Progress, serial
from gpbounds.rows.formats import ArrayPart
from gpbounds.rows.program import Program, Round, Rows, Statistics, reduced, summed, total
from gpbounds.rows.source import Moments

KERNEL = SquaredExponential(1.3, [0.7, 1.4])


def problem(N: int = 700, M: int = 25, P: int = 1):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((N, 2))
    return X, np.sin(X @ rng.standard_normal((2, P))) + 0.3 * rng.standard_normal((N, P)), X[:M] + 1e-3


def parts(X, Y, edges):
    cuts = [0, *edges, len(X)]
    return [Rows(X[a:b], Y[a:b], i) for i, (a, b) in enumerate(pairwise(cuts))]


def over(X, Y, edges, method="vfe", shift=0.0, scale=1.0, **options):
    P = Y.shape[1]
    held = Held(Memory(parts(X, Y, edges)), len(X), X.shape[1], P, False, np.full(P, shift), np.full(P, scale))
    return Objective(held, FamilyLaw(member(method, **options)), Evidence())


def flat(evaluation):
    g = evaluation.gradient
    return np.concatenate([[evaluation.value], g.kernel, [g.noise], np.ravel(g.Z)])


@dataclass(frozen=True, eq=False)
class Words(Statistics):
    """A record whose sum shows the order of additions."""

    text: str

    def __add__(self, other):
        return Words(f"({self.text}{other.text})")


@given(st.integers(1, 60), st.integers(2, 9))
def test_records_that_come_one_by_one_are_added_in_the_order_of_the_tree(count, fan_in) -> None:
    leaves = [Words(chr(65 + i)) for i in range(count)]

    assert total(iter(leaves), fan_in).text == reduced(leaves, summed, fan_in).text


@pytest.mark.parametrize(("method", "options"), [("vfe", {}), ("fitc", {}), ("dtc", {}), ("pep", {"power": 0.4})])
@pytest.mark.parametrize("edges", [[], [1], [350], [0, 0, 3, 690, 699], list(range(50, 700, 50))])
def test_partitions_do_not_change_an_evaluation(method, options, edges) -> None:
    X, Y, Z = problem(P=2)
    expected = objective(X, Y, method, **options).evaluate(KERNEL, 0.2, Z)
    result = over(X, Y, edges, method, **options).evaluate(KERNEL, 0.2, Z)
    np.testing.assert_allclose(flat(result), flat(expected), rtol=1e-10, atol=1e-10 * abs(expected.value))
    value = over(X, Y, edges, method, **options).evaluate(KERNEL, 0.2, Z, gradient=False)
    assert value.gradient is None
    assert value.value == pytest.approx(expected.value, rel=1e-10)


def test_one_partition_has_the_bits_of_the_usual_evaluation() -> None:
    X, Y, Z = problem(N=3000)
    np.testing.assert_array_equal(
        flat(over(X, Y, []).evaluate(KERNEL, 0.2, Z)), flat(objective(X, Y, keep=0).evaluate(KERNEL, 0.2, Z))
    )


def test_the_posterior_is_the_usual_one() -> None:
    X, Y, Z = problem()
    for method in ("vfe", "fitc"):
        expected = objective(X, Y, method).posterior(KERNEL, 0.2, Z).predict(X[:50])
        result = over(X, Y, [100, 500], method).posterior(KERNEL, 0.2, Z).predict(X[:50])
        for a, b in zip(result, expected, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-11)


def test_strong_data_take_the_triangle_of_all_rows() -> None:
    """At noise 1e-12 a Gram matrix has lost the directions of small eigenvalues; the triangle has not."""
    X, Y, Z = problem()
    kernel = Matern(1.5, 1.0, 1.0)
    expected = objective(X, Y).evaluate(kernel, 1e-12, Z)
    result = over(X, Y, [100, 101, 400]).evaluate(kernel, 1e-12, Z)
    assert result.value == pytest.approx(expected.value, rel=1e-10)
    np.testing.assert_allclose(result.gradient.kernel, expected.gradient.kernel, rtol=1e-8)


def test_targets_are_normalised_where_they_are_read() -> None:
    X, Y, Z = problem()
    expected = objective(X, (Y - 0.3) / 2.0).evaluate(KERNEL, 0.2, Z)
    result = over(X, Y, [300], shift=0.3, scale=2.0).evaluate(KERNEL, 0.2, Z)
    np.testing.assert_allclose(flat(result), flat(expected), rtol=1e-10, atol=1e-10 * abs(expected.value))


def test_a_tempered_objective_takes_partitions() -> None:
    X, Y, Z = problem(P=2)
    expected = replace(objective(X, Y), goal=Evidence(0.3)).evaluate(KERNEL, 0.2, Z)
    result = replace(over(X, Y, [10, 300]), goal=Evidence(0.3)).evaluate(KERNEL, 0.2, Z)
    np.testing.assert_allclose(flat(result), flat(expected), rtol=1e-10, atol=1e-10 * abs(expected.value))


def test_the_jitter_is_the_usual_one() -> None:
    X, Y, Z = problem()
    Z = np.concatenate([Z, Z[:3]])  # Kuu is singular
    expected = objective(X, Y).evaluate(KERNEL, 0.2, Z)
    result = over(X, Y, [10, 300]).evaluate(KERNEL, 0.2, Z)
    assert result.jitter == expected.jitter > 0.0
    np.testing.assert_allclose(result.value, expected.value, rtol=1e-9)
    with pytest.raises(NotPositiveDefinite):
        Objective(replace(over(X, Y, []).data, jitter=0.0), FamilyLaw(member("vfe")), Evidence()).evaluate(
            KERNEL, 0.2, Z
        )


def test_low_rank_models_take_partitions() -> None:
    X, Y, _ = problem(P=2)
    features = MercerMap.chosen(SquaredExponential(1.3, [0.7, 1.4]), 20, "best", np.zeros(2), np.ones(2))
    kernel = FeatureKernel(features, features.kernel.log_parameters)
    usual = replace(objective(X, Y), law=LowRankLaw())
    result = replace(over(X, Y, [10, 300]), law=LowRankLaw())
    expected, evaluation = usual.evaluate(kernel, 0.2), result.evaluate(kernel, 0.2)
    assert evaluation.value == pytest.approx(expected.value, rel=1e-10)
    np.testing.assert_allclose(evaluation.gradient.kernel, expected.gradient.kernel, rtol=1e-9, atol=1e-7)
    assert evaluation.gradient.noise == pytest.approx(expected.gradient.noise, rel=1e-10)
    pairs = zip(result.posterior(kernel, 0.2).predict(X[:9]), usual.posterior(kernel, 0.2).predict(X[:9]), strict=True)
    for a, b in pairs:
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-11)


def test_blocks_are_refused() -> None:
    X, Y, _ = problem()
    with pytest.raises(ValueError, match="straddle partitions"):
        over(X, Y, [], "pic")


@pytest.mark.parametrize("kernel", [KERNEL, Matern(2.5, 1.0, 0.4), KERNEL + Matern(0.5) * KERNEL])
def test_programs_and_their_states_are_pure_and_can_be_sent(kernel) -> None:
    X, Y, Z = problem(M=100)
    program = over_partitions(EvidencePasses(Diagonal(1.0, 0.1), len(X)), InducingBasis(kernel, Z, 0.0))
    rows = parts(X, Y, [100])
    sent = pickle.dumps(program)
    assert len(sent) < 10_000  # parameters, no rows
    with one_blas_thread():  # as every engine does
        one, two = program.rounds
        state = pickle.loads(pickle.dumps(program.begin()))
        first = [one.map(state, each) for each in rows]
        again = pickle.loads(sent).rounds[0].map(state, rows[0])
        np.testing.assert_array_equal(again.moments.G, first[0].moments.G)
        middle = pickle.loads(pickle.dumps(one.then(state, first[0] + first[1])))
        back = [pickle.loads(pickle.dumps(two.map(middle, each))) for each in rows]
        result = two.then(middle, back[0] + back[1])
        np.testing.assert_array_equal(flat(result), flat(serial(program, rows)))


rows_of_columns = st.integers(0, 2**31).flatmap(
    lambda seed: st.lists(st.integers(0, 7), min_size=1, max_size=6).map(lambda sizes: (seed, sizes))
)


@given(rows_of_columns, st.sampled_from([1.0, 1e-200, 1e200]))
def test_moments_of_partitions_join_to_those_of_all_rows(case, scale) -> None:
    seed, sizes = case
    rng = np.random.default_rng(seed)
    pieces = [scale * (rng.standard_normal((n, 3)) + rng.standard_normal(3)) for n in sizes]
    for piece in pieces:
        piece[:, 2] = 3.0 * scale  # a constant column
    rows = np.concatenate(pieces)
    if len(rows) == 0:
        return
    result = total(map(Moments.of, pieces), 3)
    assert result.n == len(rows)
    np.testing.assert_allclose(result.mean, rows.mean(axis=0), rtol=1e-12, atol=1e-14 * scale)
    np.testing.assert_allclose(result.units, units(rows), rtol=1e-10)


def sizes(state, rows):
    return Words(f"{rows.number}:{len(rows.X)}")


def halved(rows):
    return rows._replace(X=rows.X[: len(rows.X) // 2])


@pytest.mark.parametrize(
    "engine", [Memory, lambda rows: Local([ArrayPart(r.X, r.Y, r.number, slice(None)) for r in rows])]
)
def test_engines_report_each_partition_of_each_round_and_take_some_partitions(engine) -> None:
    X, Y, _ = problem(N=12)
    rows = parts(X, Y, [4, 6])
    program = Program(lambda: None, (Round(sizes, lambda state, whole: whole.text), Round(sizes, lambda *both: both)))
    seen = []
    first, second = engine(rows).run(program, seen.append)
    assert first == second.text == "((0:41:2)2:6)"
    assert seen == [Progress(done, 3, 2) for done in range(7)]
    assert [part.number for part in engine(rows).only([2, 0]).partitions()] == [2, 0]
    assert Changed(engine(rows), halved).run(program)[0] == "((0:21:1)2:3)"
    assert [len(part.X) for part in Changed(engine(rows), halved).only([0]).partitions()] == [2]
