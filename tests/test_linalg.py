"""What differs between CPU and GPU stays in one module; a missing or broken GPU is one clear sentence."""

from __future__ import annotations

import sys
import types
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fitting.objectives.free import SignedGram
from gpbounds.kernels import SquaredExponential
from gpbounds.linalg import blas
from gpbounds.linalg.inverses import inverse
from gpbounds.linalg.krylov import conjugate_gradients
from gpbounds.linalg.pair_products import multiply
from gpbounds.linalg.pivoted import eigen_squares
from gpbounds.linalg.products import add_gram, add_product, product
from gpbounds.linalg.psd import symmetric_matrix
from gpbounds.linalg.residuals import factor_residual
from gpbounds.linalg.triangular import clear_above, inverse_factor, lift_rows, mirrored, multiply_rows, solve_rows
from gpbounds.validation import array_module, cuda_fault


@given(seed=st.integers(0, 2**32 - 1), n=st.integers(1, 30), M=st.integers(1, 20))
def test_products_and_solves_are_in_place_and_right(seed: int, n: int, M: int) -> None:
    rng = np.random.default_rng(seed)
    L = np.tril(rng.standard_normal((M, M))) + (2.0 + M) * np.eye(M)
    B, C, out = rng.standard_normal((n, M)), rng.standard_normal((M, M)), np.full((n, M), np.nan)
    solved, lifted = B.copy(), B.copy()
    assert solve_rows(L, solved) is solved
    np.testing.assert_allclose(solved @ L.T, B, atol=1e-12)
    assert lift_rows(L, lifted) is lifted
    np.testing.assert_allclose(lifted @ L, B, atol=1e-12)
    for left in (B, np.asfortranarray(B), np.repeat(B, 2, axis=0)[::2]):
        for right in (C, C.T):
            assert product(left, right, out) is out
            np.testing.assert_allclose(out, B @ right, atol=1e-12)
    total = np.zeros((M, M))
    add_gram(total, B)
    add_gram(total, 2.0 * B)
    np.testing.assert_allclose(mirrored(total), 5.0 * B.T @ B, atol=1e-11)
    np.testing.assert_allclose(inverse(L) @ (L @ L.T), np.eye(M), atol=1e-10)
    np.testing.assert_array_equal(inverse(L), inverse(L).T)


@pytest.mark.parametrize("seed", range(3))
def test_products_in_single_precision_err_by_their_unit_and_their_sum_is_in_doubles(seed: int) -> None:
    """Entries of AB err by at most γ_k|A||B|, γ_k = ku/(1 − ku) with u = 2⁻²⁴, and by some of it."""
    rng = np.random.default_rng(seed)
    n, M, unit = 50, 30, 2.0**-24
    B, T = rng.standard_normal((n, M)).astype(np.float32), np.tril(rng.standard_normal((M, M))).astype(np.float32)

    def within(computed: Any, exact: Any, sizes: Any, terms: int) -> bool:
        errors = np.abs(computed - exact)
        return bool((errors <= terms * unit / (1.0 - terms * unit) * sizes).all()) and errors.max() > 0.0

    left, right = B.astype(np.float64), T.astype(np.float64)
    for wide, narrow in ((right, T), (right.T, T.T)):
        out = product(B, narrow, np.empty((n, M), dtype=np.float32))
        assert out.dtype == np.float32
        assert within(out, left @ wide, np.abs(left) @ np.abs(wide), M)
        turned = multiply_rows(T, B.copy(), transposed=narrow is T)
        assert within(turned, left @ wide, np.abs(left) @ np.abs(wide), M)
    total = np.full((M, M), 1e9)
    add_gram(total, B)
    assert total.dtype == np.float64
    sums, sizes = 1e9 + np.triu(left.T @ left), np.abs(left).T @ np.abs(left) + 1.0  # 1: of the addition to 1e9
    assert within(np.triu(total), np.triu(sums), sizes, n)
    assert not blas.multiplies(B, right, np.empty((n, M)))  # of two precisions: NumPy's product
    np.testing.assert_array_equal(product(B, right, np.empty((n, M))), left @ right)


def test_a_view_that_blas_cannot_take_is_still_written() -> None:
    L, whole = np.array([[2.0, 0.0], [1.0, 1.0]]), np.ones((3, 4))
    view = whole[:, ::2]
    solve_rows(L, view)
    np.testing.assert_allclose(whole[:, ::2], [[0.5, 0.5]] * 3)
    np.testing.assert_array_equal(whole[:, 1::2], 1.0)


def test_a_machine_without_cupy_says_so_in_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cupy", None)
    assert cuda_fault().startswith("CuPy cannot be imported (")
    assert array_module("cpu") is array_module("auto") is np
    with pytest.raises(ValueError, match=r"^device: expected .*CuPy cannot be imported .*use device='cpu' or 'auto'$"):
        array_module("cuda")
    with pytest.raises(ValueError, match="device: expected one of 'cpu', 'cuda', 'auto', got 'gpu'"):
        array_module("gpu")  # type: ignore[arg-type]


def broken(count=lambda: 1, ones=np.ones) -> types.ModuleType:
    """A CuPy whose driver or device fails."""
    module = types.ModuleType("cupy")
    module.cuda = types.SimpleNamespace(runtime=types.SimpleNamespace(getDeviceCount=count))  # type: ignore[attr-defined]
    module.ones, module.eye, module.linalg = ones, np.eye, np.linalg  # type: ignore[attr-defined]
    return module


def fails(*_):
    raise RuntimeError("CUDA driver version is insufficient\nfor CUDA runtime version")


def test_a_broken_gpu_says_so_in_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    for module, words in (
        (
            broken(fails),
            r"the GPU fails \(RuntimeError: CUDA driver version is insufficient for CUDA runtime",
        ),
        (broken(lambda: 0), "there is no CUDA device"),
        (broken(ones=lambda shape: np.full(shape, np.nan)), "the GPU computes a wrong Cholesky factor"),
        (broken(ones=fails), "the GPU fails"),
    ):
        monkeypatch.setitem(sys.modules, "cupy", module)
        assert array_module("auto") is np
        with pytest.raises(ValueError, match=words) as caught:
            array_module("cuda")
        assert "\n" not in str(caught.value)
    monkeypatch.setitem(sys.modules, "cupy", broken())
    assert array_module("cuda") is array_module("auto") is sys.modules["cupy"]


def positive_definite(rng: np.random.Generator, N: int) -> np.ndarray:
    root = rng.standard_normal((N, N))
    return root @ root.T + np.eye(N)


@given(seed=st.integers(0, 2**32 - 1), N=st.integers(1, 12), P=st.integers(1, 4))
def test_conjugate_gradients_end_after_n_steps_and_at_once_with_the_inverse(seed: int, N: int, P: int) -> None:
    rng = np.random.default_rng(seed)
    A, B = positive_definite(rng, N), rng.standard_normal((N, P))
    B[:, 0] = 0.0  # a column that is solved from the start
    X = conjugate_gradients(lambda V: A @ V, lambda R: R, B, enough=lambda e: e.sum() <= 1e-26, steps=4 * N + 10)
    np.testing.assert_allclose(A @ X, B, atol=1e-10)
    np.testing.assert_array_equal(X[:, 0], 0.0)
    inverse = np.linalg.inv(A)
    iterates = []

    def enough(energies: np.ndarray) -> bool:
        iterates.append(energies)
        return bool(energies.max() <= 1e-20)

    X = conjugate_gradients(lambda V: A @ V, lambda R: inverse @ R, B, enough=enough, steps=9)
    assert len(iterates) <= 3  # the start, one step, and perhaps one for rounding
    np.testing.assert_allclose(iterates[0], np.einsum("ip,ij,jp->p", B, inverse, B), rtol=1e-9)
    np.testing.assert_allclose(A @ X, B, atol=1e-10)


@given(seed=st.integers(0, 2**32 - 1), steps=st.integers(0, 8))
def test_every_step_of_conjugate_gradients_brings_the_solution_nearer(seed: int, steps: int) -> None:
    """The error in the norm of A falls from step to step, as it is least over growing spaces."""
    rng = np.random.default_rng(seed)
    A, B = positive_definite(rng, 10), rng.standard_normal((10, 2))
    truth, M = np.linalg.solve(A, B), np.diag(1.0 / A.diagonal())

    def error(count: int) -> np.ndarray:
        off = conjugate_gradients(lambda V: A @ V, lambda R: M @ R, B, enough=lambda e: False, steps=count) - truth
        return np.einsum("ip,ij,jp->p", off, A, off)

    assert (error(steps + 1) <= error(steps) * (1.0 + 1e-12)).all()
    np.testing.assert_allclose(error(0), np.einsum("ip,ip->p", B, truth), rtol=1e-9)


@given(seed=st.integers(0, 2**32 - 1), N=st.sampled_from([2, 5, 511, 513, 1030]), decades=st.integers(-100, 100))
def test_one_entry_that_differs_across_the_diagonal_is_found(seed: int, N: int, decades: int) -> None:
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((N, N))
    A = (A + A.T) * 10.0**decades
    assert symmetric_matrix("A", A) is A
    i, j = (int(v) for v in rng.choice(N, 2, replace=False))
    size = float(np.abs(A).max())
    A[i, j] = A[j, i] + 0.9e-8 * size
    symmetric_matrix("A", A, N)
    with pytest.raises(ValueError, match=rf"A: expected a symmetric matrix, got A\[({i}, {j}|{j}, {i})\] = "):
        symmetric_matrix("A", A, tolerance=1e-10)
    A[i, j] = A[j, i] + 1.2e-8 * size
    with pytest.raises(ValueError, match=rf"A: expected a symmetric matrix, got A\[({i}, {j}|{j}, {i})\] = "):
        symmetric_matrix("A", A)


@pytest.mark.parametrize(
    ("value", "N", "message"),
    [
        (np.ones((2, 3)), None, r"A: expected a square matrix \(N, N\), got shape \(2, 3\)"),
        (np.ones(3), None, r"A: expected a square matrix \(N, N\), got shape \(3,\)"),
        (np.ones((0, 0)), None, r"A: expected a square matrix \(N, N\), got shape \(0, 0\)"),
        (np.ones((2, 2)), 3, r"A: expected shape \(3, 3\), got shape \(2, 2\)"),
        ([[1.0], [2.0, 3.0]], None, "A: expected rows of equal length"),
        ([["a"]], None, "A: expected real numbers"),
        ([[np.nan]], None, "A: expected finite numbers"),
        ([[np.inf, 0.0], [0.0, -np.inf]], None, "A: expected finite numbers"),
    ],
)
def test_what_is_no_square_matrix_is_refused(value, N, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        symmetric_matrix("A", value, N)
    assert np.array_equal(symmetric_matrix("A", [[1e308, 1e308], [1e308, 1e308]]), np.full((2, 2), 1e308))


@pytest.mark.parametrize("n", [1, 2, 3, 40])
def test_squared_components_without_eigenvectors(n):
    """Those of the decomposition with eigenvectors; where eigenvalues are equal, only their sum is determined."""
    rng = np.random.default_rng(n)
    A, Y = rng.standard_normal((n, n + 2)), rng.standard_normal((n, 3))
    eigenvalues, squares = eigen_squares(A @ A.T, Y)
    values, vectors = np.linalg.eigh(A @ A.T)
    assert eigenvalues.values == pytest.approx(values[::-1], rel=1e-9)
    assert squares == pytest.approx(((vectors.T @ Y) ** 2).sum(axis=1)[::-1], rel=1e-7, abs=1e-12)
    _, flat = eigen_squares(np.eye(n), Y)
    assert flat.sum() == pytest.approx((Y**2).sum(), rel=1e-13)


def test_a_matrix_on_which_the_tridiagonal_solver_fails() -> None:
    """Six points that are nearly uncorrelated, two of them equal: LAPACK's stemr does not converge."""
    scales = np.array([6.675043278430615, 0.1565765781596984])
    rng = np.random.default_rng(17595)
    rng.integers(3, 9), rng.integers(1, 3), rng.choice([1.0, 0.5, 0.05])
    X = rng.standard_normal((6, 2))
    X[-1] = X[0]
    A = SquaredExponential(0.5354505821867557, scales)(X)
    Y = np.arange(6.0)[:, None]
    spectrum, squares = eigen_squares(A, Y)
    np.testing.assert_allclose(spectrum.values, np.linalg.eigvalsh(A)[::-1], atol=1e-14)
    assert squares.sum() == pytest.approx(55.0)
    assert (spectrum.values * squares).sum() == pytest.approx((Y.T @ A @ Y)[0, 0])


@pytest.mark.parametrize("M", [1, 2, 7, 128, 129, 300])
def test_a_factor_is_inverted_by_halves_in_given_memory(M: int) -> None:
    """The entries of ``out`` do not matter; nothing is above the diagonal."""
    rng = np.random.default_rng(M)
    L, out = np.tril(rng.standard_normal((M, M))) + (2.0 + M) * np.eye(M), np.full((M, M), np.nan)
    assert inverse_factor(L + np.triu(np.ones((M, M)), 1), out) is out
    np.testing.assert_allclose(out @ L, np.eye(M), atol=1e-12)
    np.testing.assert_array_equal(np.triu(out, 1), 0.0)


@given(seed=st.integers(0, 2**32 - 1), M=st.integers(1, 40))
def test_a_triangle_is_packed_row_by_row(seed: int, M: int) -> None:
    """Into and out of a part of a larger matrix, whose other entries stay."""
    whole = np.random.default_rng(seed).standard_normal((M + 1, M + 2))
    A, entries, again = whole[:M, :M], np.empty(M * (M + 1) // 2), np.full((M, M), 7.0)
    blas.pack(A, entries)
    np.testing.assert_array_equal(entries, A[np.tril_indices(M)])
    blas.unpack(entries, again)
    np.testing.assert_array_equal(np.tril(again), np.tril(A))
    np.testing.assert_array_equal(again[np.triu_indices(M, 1)], 7.0)


def test_a_view_is_cleared_above_its_diagonal_and_nowhere_else() -> None:
    for n in (1, 2, 7, 130):
        whole = np.random.default_rng(n).standard_normal((n + 3, n + 5))
        before, view = whole.copy(), whole[1 : n + 1, 2 : n + 2]
        clear_above(view)
        np.testing.assert_array_equal(view, np.tril(before[1 : n + 1, 2 : n + 2]))
        before[1 : n + 1, 2 : n + 2] = view
        np.testing.assert_array_equal(whole, before)


@pytest.mark.parametrize(("scale", "keep"), [(1.0, 1.0), (2.0, -2.0), (-1.0, 0.0)])
def test_products_are_scaled_and_added_with_and_without_blas(scale: float, keep: float) -> None:
    rng = np.random.default_rng(0)
    A, B, C = rng.standard_normal((4, 3)), rng.standard_normal((3, 5)), rng.standard_normal((4, 5))
    expected = scale * A @ B + keep * C
    for out in (C.copy(), np.asfortranarray(C)):
        if keep == 0.0:
            out[...] = np.nan
        np.testing.assert_allclose(add_product(A, B, out, scale=scale, keep=keep), expected, rtol=1e-13)


def test_a_new_signed_sum_overwrites_its_memory_whatever_the_signs() -> None:
    rng = np.random.default_rng(0)
    V, more = rng.standard_normal((6, 3)), rng.standard_normal((4, 3))
    for weights in (rng.random(6) + 0.1, rng.standard_normal(6), -np.ones(6), np.zeros(6)):
        total = SignedGram(np.full((3, 3), np.nan), new=True)
        total.add(V, weights, np.empty((6, 3)))
        total.add(more, np.ones(4), np.empty((4, 3)))
        np.testing.assert_allclose(total.sum(), (V.T * weights) @ V + more.T @ more, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("jitter", [0.0, 1e-8])
def test_the_residual_of_a_factor_by_blocks_is_that_of_30_digits(jitter):
    n = 300  # more than one block
    A = SquaredExponential()(np.random.default_rng(0).standard_normal((n, 6))) + 1e-4 * np.eye(n)
    L = np.linalg.cholesky(A + jitter * np.eye(n))
    L[290, 3] += 1e-13
    (high, low), error = multiply((L, np.zeros_like(L)), (L, np.zeros_like(L)))
    residual = float(np.linalg.norm((high - A) - jitter * np.eye(n) + low))
    assert error < 1e-6 * residual
    assert residual <= factor_residual(L, np.tril(A), jitter) <= 1.02 * residual
