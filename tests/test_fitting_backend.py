"""What differs between CPU and GPU stays in one module; a missing or broken GPU is one clear sentence."""

from __future__ import annotations

import sys
import types

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fitting.backend import add_gram, array_module, cuda_fault, inverse, lift_rows, mirrored, product, solve_rows


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
    """A CuPy whose driver or device misbehaves."""
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
            r"the GPU does not answer \(RuntimeError: CUDA driver version is insufficient for CUDA runtime",
        ),
        (broken(lambda: 0), "no CUDA device is there"),
        (broken(ones=lambda shape: np.full(shape, np.nan)), "the GPU computes a wrong Cholesky factor"),
        (broken(ones=fails), "the GPU does not answer"),
    ):
        monkeypatch.setitem(sys.modules, "cupy", module)
        assert array_module("auto") is np
        with pytest.raises(ValueError, match=words) as caught:
            array_module("cuda")
        assert "\n" not in str(caught.value)
    monkeypatch.setitem(sys.modules, "cupy", broken())
    assert array_module("cuda") is array_module("auto") is sys.modules["cupy"]
