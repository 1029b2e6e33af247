"""The streamed whitening: sums independent of the chunk size, memory, jitter, and the reverse pass."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpbounds.errors import NonFinite, NotPositiveDefinite
from gpbounds.kernels import Matern, SquaredExponential
from gpbounds.whitening import inducing, matched, whiten

SEEDS = st.integers(0, 2**32 - 1)


def problem(seed: int, N: int = 60, M: int = 7, P: int | None = 2):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((N, 2))
    Z = X[rng.permutation(N)[:M]] if rng.random() < 0.5 else rng.standard_normal((M, 2))
    return Matern(1.5, float(np.exp(rng.normal())), 0.7), X, Z, rng.standard_normal((N,) if P is None else (N, P))


@given(seed=SEEDS, chunk=st.integers(1, 100))
def test_chunks_do_not_matter_and_q_is_vv(seed: int, chunk: int) -> None:
    kernel, X, Z, y = problem(seed)
    white = whiten(kernel, X, Z, y, chunk=chunk)
    V = white.inducing.whiten(X)
    np.testing.assert_allclose(V.T @ V, kernel(X, Z) @ np.linalg.solve(kernel(Z), kernel(Z, X)), atol=1e-9)
    np.testing.assert_allclose(white.gram, V @ V.T, rtol=1e-11, atol=1e-12)
    np.testing.assert_allclose(white.projected, V @ y, rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(white.squares, (y**2).sum(axis=0), rtol=1e-13)
    np.testing.assert_allclose(white.residual, kernel.diag(X) - (V**2).sum(axis=0), atol=1e-11 * kernel.variance)
    assert white.trace == pytest.approx(float(np.trace(kernel(X)) - (V**2).sum()), abs=1e-9)
    whitener = white.inducing
    np.testing.assert_allclose(whitener.times(X, y, chunk), V @ y, rtol=1e-8, atol=1e-10)
    back = np.concatenate([part for _, part in whitener.transposed_times(X, white.projected, chunk)])
    np.testing.assert_allclose(back, V.T @ white.projected, rtol=1e-8, atol=1e-9)
    streamed = np.concatenate([part for _, part in whitener.chunks(X, chunk)], axis=1)
    np.testing.assert_allclose(streamed, V, rtol=1e-10, atol=1e-12)


def test_one_output_keeps_its_shape_and_none_is_no_output() -> None:
    kernel, X, Z, y = problem(1, P=None)
    single, double = whiten(kernel, X, Z, y), whiten(kernel, X, Z, y[:, None])
    np.testing.assert_allclose(single.projected, double.projected[:, 0], rtol=1e-12)
    assert np.shape(single.squares) == ()
    assert whiten(kernel, X, Z).projected.size == 0


def test_rows_of_z_leave_no_residual_unless_jitter_is_added() -> None:
    kernel, X = Matern(0.5), np.array([[0.0], [1.0], [1.0], [2.0], [-0.0]])
    white = whiten(kernel, X, [[0.0], [9.0]])
    assert white.known.tolist() == [True, False, False, False, True]
    assert white.rank == 2  # 1.0 counts once; 0.0 and -0.0 are one point
    assert (white.residual[white.known] == 0.0).all()
    jittered = whiten(kernel, X, [[0.0], [9.0]], jitter=1e-6)
    assert (jittered.rank, jittered.jitter, jittered.known.any()) == (5, 1e-6, False)
    assert jittered.residual[0] == pytest.approx(1e-6, rel=1e-5)
    assert matched(X.astype(np.float32), np.array([[1.0]]))[1] == 2


@given(seed=SEEDS)
def test_the_documented_reverse_pass_is_the_derivative(seed: int) -> None:
    """F = Σ Ā∘VVᵀ + b̄·Vy + d̄·diag(K − Q), by central differences in Kuf and Kuu."""
    rng = np.random.default_rng(seed)
    M, N = 3, 5
    A, b, d = rng.standard_normal((M, M)), rng.standard_normal(M), rng.standard_normal(N)
    A, y = A + A.T, rng.standard_normal(N)
    Kuf, root = rng.standard_normal((M, N)), rng.standard_normal((M, M))
    Kuu = root @ root.T + M * np.eye(M)

    def value(Kuf: np.ndarray, L: np.ndarray) -> float:
        V = np.linalg.solve(L, Kuf)
        return float((A * (V @ V.T)).sum() + b @ V @ y - d @ (V**2).sum(axis=0))

    L = np.linalg.cholesky(Kuu)
    V = np.linalg.solve(L, Kuf)
    V_bar = 2 * A @ V + np.outer(b, y) - 2 * V * d
    Kuf_bar = np.linalg.solve(L.T, V_bar)
    L_bar = -np.tril(np.linalg.solve(L.T, V_bar @ V.T))
    dK, dL = rng.standard_normal((M, N)), np.tril(rng.standard_normal((M, M)))
    h = 1e-5
    slope = (value(Kuf + h * dK, L + h * dL) - value(Kuf - h * dK, L - h * dL)) / (2 * h)
    assert slope == pytest.approx(float((Kuf_bar * dK).sum() + (L_bar * dL).sum()), rel=1e-5, abs=1e-5)


def test_memory_grows_with_the_chunk_and_not_with_kuf() -> None:
    rng = np.random.default_rng(0)
    X, M = rng.standard_normal((40_000, 2)), 100
    kernel, y = SquaredExponential(1.0, 0.2), rng.standard_normal(40_000)
    whiten(kernel, X[:200], X[:M], y[:200])  # a first call, so that imports are not counted
    tracemalloc.start()
    whiten(kernel, X, X[:M], y, chunk=256)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 0.5 * 8 * X.shape[0] * M


def test_auto_jitter_takes_the_least_that_serves() -> None:
    X = np.linspace(0, 1, 40)
    kernel = SquaredExponential(2.0, 0.3)
    with pytest.raises(NotPositiveDefinite, match="Kuu"):
        whiten(kernel, X, X, jitter=0.0)
    white = whiten(kernel, X, X, jitter="auto")
    assert 0.0 < white.jitter <= 2e-6
    assert (white.residual >= 0.0).all()
    assert white.trace < 1e-3
    assert whiten(kernel, X, X[::20], jitter="auto").jitter == 0.0


class Indefinite(SquaredExponential):
    """A covariance whose Kuf is too large for its diagonal."""

    def __call__(self, X1, X2=None):
        return super().__call__(X1, X2) * (1.0 if X2 is None else 1.1)


class Broken(SquaredExponential):
    """NaN off the diagonal block."""

    def __call__(self, X1, X2=None):
        return super().__call__(X1, X2) * (1.0 if X2 is None else np.nan)


K, X3, Z2 = SquaredExponential(), np.array([[0.0], [1.0], [2.0]]), [[0.0], [2.0]]


@pytest.mark.parametrize(
    ("call", "error", "match"),
    [
        (lambda: whiten(K, X3, np.zeros((2, 2))), ValueError, "Z: expected 1 column"),
        (lambda: whiten(K, X3, Z2, [1.0, 2.0]), ValueError, r"y: expected shape \(3,\) or \(3, P\).* got \(2,\)"),
        (lambda: whiten(K, X3, Z2, np.zeros((3, 0))), ValueError, r"y: expected shape .* got \(3, 0\)"),
        (lambda: whiten(K, X3, Z2, np.zeros((3, 1, 1))), ValueError, r"y: .* got \(3, 1, 1\)"),
        (lambda: whiten(K, X3, Z2, ["a", "b", "c"]), ValueError, "y: expected real numbers"),
        (lambda: whiten(K, X3, Z2, [1.0, np.nan, 0.0]), NonFinite, r"y: .* row\(s\) \[1\]"),
        (lambda: whiten(K, X3, Z2, chunk=0), ValueError, "chunk: expected a whole number >= 1, got 0"),
        (lambda: whiten(K, X3, Z2, jitter=-1.0), ValueError, "jitter: expected a finite number >= 0"),
        (lambda: inducing(K, [[0.0], [0.0]], 0.0), NotPositiveDefinite, r"Kuu.*duplicated"),
        (lambda: whiten(Indefinite(), X3, Z2), NotPositiveDefinite, r"K - Q: expected a diagonal >= 0"),
        (lambda: whiten(Broken(), X3, Z2), NonFinite, "kernel: expected finite covariances"),
    ],
)
def test_wrong_arguments_are_named(call, error, match: str) -> None:
    with pytest.raises(error, match=match):
        call()


@pytest.mark.gpu
def test_on_a_gpu_the_sums_are_the_same(cupy) -> None:
    kernel, X, Z, y = problem(3)
    on_host = whiten(kernel, X, Z, y, chunk=16)
    on_device = whiten(kernel, cupy.asarray(X), cupy.asarray(Z), cupy.asarray(y), chunk=16)
    for name in ("gram", "projected", "squares", "residual"):
        np.testing.assert_allclose(getattr(on_device, name).get(), getattr(on_host, name), rtol=1e-9, atol=1e-11)
    assert on_device.rank == on_host.rank
    with pytest.raises(ValueError, match="y: expected a CuPy array"):
        whiten(kernel, cupy.asarray(X), cupy.asarray(Z), y)
