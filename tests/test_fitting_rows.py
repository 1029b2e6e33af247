"""Streamed rows: threads do not change results; products with L⁻¹ are used only where they are accurate."""

from __future__ import annotations

import numpy as np
import pytest

from fitting.objectives.collapsed import Adjoints, Diagonal, Moments
from fitting.objectives.objective import objective
from fitting.rows.basis import Pulled
from fitting.rows.data import Data
from gpbounds.errors import NonFinite, NotPositiveDefinite
from gpbounds.kernels import Matern, SquaredExponential
from gpbounds.linalg.parallel import lanes
from gpbounds.linalg.workspace import Workspace
from gpbounds.rows.program import summed
from tests.blas import blas_threads

pytestmark = pytest.mark.lanes

KERNEL = SquaredExponential(1.3, [0.7, 1.4])


def problem(N: int = 5000, M: int = 50):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((N, 2))
    return X, np.sin(X) + 0.3 * rng.standard_normal((N, 2)), X[:M] + 1e-3


def basis_of(kernel, X, Z, jitter: float = 0.0):
    return Data(X, X, False).stream(kernel, Z, jitter).basis


def flat(evaluation):
    g = evaluation.gradient
    return np.concatenate([[evaluation.value], g.kernel, [g.noise], np.ravel(g.Z)])


@pytest.mark.parametrize(("method", "options"), [("vfe", {}), ("dtc", {}), ("fitc", {}), ("pic", {"blocks": 100})])
@pytest.mark.parametrize("keep", [0, 10**6])
def test_the_number_of_lanes_changes_no_bit(method, options, keep) -> None:
    X, y, Z = problem()
    kernel = Matern(0.5, 1.3, 0.9)
    F = objective(X, y, method, chunk=256, keep=keep, **options)
    assert F.data.stream(kernel, Z, 0.0)._groups() == 16
    with blas_threads(1):
        assert lanes() == 1
        single = flat(F.evaluate(kernel, 0.2, Z))
    for count in (2, 3):
        with blas_threads(count):
            for _ in range(2):
                np.testing.assert_array_equal(flat(F.evaluate(kernel, 0.2, Z)), single)
            assert lanes() == count  # restored


@pytest.mark.parametrize("N", [400, 5000])
@pytest.mark.parametrize("power", [0.0, 1.0])
def test_a_later_pass_leaves_the_sums_of_an_earlier_one_as_they_were(N: int, power: float) -> None:
    """The groups' sums have memory that the next pass uses again; their total has its own, for one group as well."""
    X, y, Z = problem(N)
    data = Data(X, y, False, chunk=256)
    streams = [data.stream(SquaredExponential(1.3, length), Z, 1e-6) for length in (0.7, 1.9)]
    assert [stream._groups() for stream in streams] == [16 if N == 5000 else 1] * 2
    member = Diagonal(power, 0.2)
    first = member.forward(streams[0])
    before = first.G.copy()
    second = member.forward(streams[1])
    np.testing.assert_array_equal(first.G, before)
    V = np.empty((N, 50))
    streams[1].basis.fill(X, np.empty((N, 50)), V)
    c = member.precision(streams[1].basis.residual(X, V))
    np.testing.assert_allclose(np.triu(second.G), np.triu((V.T * c) @ V), rtol=1e-9, atol=1e-9)


def test_a_sum_of_records_changes_none_of_them() -> None:
    records = [Moments(np.full((2, 2), float(i)), np.full((2, 1), 0.1 * i), 0.3 * i) for i in range(4)]
    total = summed(records)
    assert [(r.G[0, 0], r.b[0, 0], r.penalty) for r in records] == [(i, 0.1 * i, 0.3 * i) for i in range(4)]
    expected = records[0] + records[1] + records[2] + records[3]
    for name in ("G", "b", "penalty"):
        np.testing.assert_array_equal(getattr(total, name), getattr(expected, name))
    nested = [Adjoints(1.0, Pulled(np.full(2, i), np.full((3, 1), i)), 0.0, 2.0, 0.0) for i in range(3)]
    pulled = summed(nested).pulled
    assert (pulled.kernel.tolist(), pulled.Z.tolist(), pulled.weights) == ([3.0, 3.0], [[3.0]] * 3, 0.0)
    assert [each.pulled.kernel.tolist() for each in nested] == [[i, i] for i in range(3)]


def test_a_fault_in_a_thread_reaches_the_caller() -> None:
    class Broken(SquaredExponential):
        def fill(self, X1, X2, out):
            out[...] = np.nan if float(X1[0, 0]) == self.variance else super().fill(X1, X2, out)
            return out

    X, y, Z = problem()
    X[2560, 0] = 1.3
    with blas_threads(2), pytest.raises(NonFinite, match="kernel: expected finite covariances"):
        objective(X, y, "vfe", chunk=256).evaluate(Broken(1.3), 0.2, Z)
    assert lanes() >= 1


@pytest.mark.parametrize("lengthscale", [0.02, 0.05, 0.1])
def test_the_inverse_is_used_only_where_it_costs_no_digits_of_q(lengthscale: float) -> None:
    Z = np.linspace(0.0, 1.0, 60)[:, None]
    X = np.random.default_rng(1).random((500, 1))
    kernel = SquaredExponential(1.0, lengthscale)
    basis = basis_of(kernel, X, Z, 0.0 if lengthscale == 0.02 else 1e-9)
    L = basis.inducing.chol.L
    assert (basis.inverse is not None) == (np.linalg.norm(L) * np.linalg.norm(np.linalg.inv(L)) < 1e5)
    white = basis.inducing.whiten(X)
    V = basis.whiten(kernel(X, Z))
    np.testing.assert_allclose((V * V).sum(axis=1), (white * white).sum(axis=0), atol=2e-12)


def test_both_ways_were_seen() -> None:
    X, _, Z = problem(M=20)
    assert basis_of(Matern(0.5), X, Z).inverse is not None
    assert basis_of(SquaredExponential(1.0, 5.0), X, Z, 1e-10).inverse is None


def test_what_is_kept_is_what_the_workspace_allows() -> None:
    X, y, Z = problem(1000, 10)
    space = Workspace(keep=16 * 10 * 300)
    source = Data(X, y, False, chunk=100, space=space).stream(KERNEL, Z, 1e-8)
    Diagonal(0.0, 0.1).evaluate(source)
    assert source._filled == {0, 1, 2}
    assert space._buffers["kept K"].size == 3000


def test_the_ladder_of_jitter_ends_in_a_sentence() -> None:
    X, y, Z = problem(100, 10)
    with pytest.raises(NotPositiveDefinite, match=r"Remove duplicates|Take fewer of them"):
        objective(X, y, "vfe", jitter=0.0).evaluate(SquaredExponential(1.0, 1e6), 0.1, Z)
