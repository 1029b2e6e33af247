"""Products and sums of rows on a GPU with one launch each, in the memory of their output."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from gpbounds.arrays import Array, is_cupy


def fits(*arrays: Any) -> bool:
    """Whether all arrays are float64 matrices on a GPU, in C's or Fortran's order."""
    return all(
        is_cupy(a) and a.dtype == np.float64 and a.ndim == 2 and (a.flags.c_contiguous or a.flags.f_contiguous)
        for a in arrays
    )


def gram(B: Array, total: Array, keep: float = 1.0) -> None:
    """The upper triangle of ``total`` (M, M) becomes that of BᵀB + keep·total."""
    from cupy import cublas

    cublas.syrk("T", B, out=total, beta=keep)


def product(A: Array, B: Array, out: Array, *, keep: float = 0.0, scale: float = 1.0) -> None:
    """``out`` (n, m) becomes scale·A @ B + keep·out."""
    from cupy import cublas

    cublas.gemm("N", "N", A, B, out=out, alpha=scale, beta=keep)


def solve(L: Array, B: Array, transposed: bool) -> None:
    """The rows b of ``B`` (n, M) become L⁻¹b, or L⁻ᵀb; both arrays in C's order, so that none is copied."""
    from cupyx.scipy.linalg import solve_triangular

    solve_triangular(L.T, B.T, trans=0 if transposed else 1, lower=False, overwrite_b=True, check_finite=False)


@lru_cache
def _reduction(mapped: str, inputs: str, result: str) -> Any:
    import cupy

    return cupy.ReductionKernel(inputs, "T z", mapped, "a + b", f"z = {result}", "0", "rows")


def row_products(A: Array, B: Array) -> Array:
    """Σ_j A_ij B_ij for each row (n,)."""
    return _reduction("x * y", "T x, T y", "a")(A, B, axis=1)


def orthogonalised(directions: Array, image: Array) -> Array:
    """``image`` (N, m) without its parts along ``directions`` (k, N, m), which are orthonormal in each column."""
    product = _reduction("x * y", "T x, T y", "a")
    parts = product(directions, image[None], axis=1)
    return image - product(directions, parts[:, None, :], axis=0)


def below(top: float, V: Array) -> Array:
    """top − Σ_j V_ij² for each row (n,)."""
    return _reduction("x * x", "T x, T top", "top - a")(V, top, axis=1)


def noise_slopes(both: Array, lean: Array, within: Array, D: Array, s_bar: Array, a: float) -> tuple[Array, Array]:
    """d = −(both/2 − within + lean)/D² and s̄ + a·d (n,): see `fitting.objectives.free`."""
    d, r = _elementwise(
        "T both, T lean, T within, T D, T s, T a",
        "T d, T r",
        "d = -(0.5 * both - within + lean) / (D * D); r = s + a * d",
    )(both, lean, within, D, s_bar, a)
    return d, r


@lru_cache
def _elementwise(inputs: str, outputs: str, body: str) -> Any:
    import cupy

    return cupy.ElementwiseKernel(inputs, outputs, body, "slopes")
