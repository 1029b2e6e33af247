"""Scalar functions of the sharper Rényi bounds, without cancellation, including the limit α = 1 (β = 1 - α = 0).

All take x >= 0 (an eigenvalue of (K - Q)/σ²) and α in (0, 1], and broadcast.  Ledger R, notation, and N-F, N-G, N-psi.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from gpbounds.arrays import Float
from gpbounds.numerics.log1p import log1p_ratio, log1p_residual, scaled_log1p
from gpbounds.numerics.roots import golden


def G(x: ArrayLike, alpha: ArrayLike) -> Any:
    """G(x) = ½[log(1 + βx)/β - log(1 + x)] >= 0: a lower bound on D_α(y) per eigenvalue, for every y (R-gap, N-G).

    >>> round(float(G(1.0, 1.0)), 6)  # ½(1 - log 2)
    0.153426
    """
    x, alpha = np.broadcast_arrays(np.asarray(x, dtype=np.float64), np.asarray(alpha, dtype=np.float64))
    beta = 1.0 - alpha
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        w = -x / (1.0 + x)
        # With φ(t) = t - log(1+t) and log(1+βx) = log(1+x) + log(1+αw), all first-order terms cancel.
        phi_w = np.where(x < 1.0, log1p_residual(w), w + np.log1p(x))
        small_alpha = (alpha * phi_w - log1p_residual(alpha * w)) / beta
        near = log1p_residual(x) - np.where(beta == 0.0, 0.0, log1p_residual(beta * x) / beta)
        far = np.log1p(beta * x) / beta - np.log1p(x)
    return 0.5 * np.where(alpha < 0.5, small_alpha, np.where(beta * x < 1.0, near, far))


def F(x: ArrayLike, alpha: ArrayLike) -> Any:
    """F(x) = ½[log(1 + βx)/β + αx/(1 + βx) - log(1 + x)]: an upper bound on E_y D_α per eigenvalue (R-lem2, N-F).

    >>> round(float(F(1.0, 1.0)), 6)  # 1 - ½ log 2
    0.653426
    """
    x, alpha = np.asarray(x, dtype=np.float64), np.asarray(alpha, dtype=np.float64)
    beta = 1.0 - alpha
    # With w = αx/(1 + βx), 1 + w = (1 + x)/(1 + βx): F = ½[(α/β) log(1 + βx) + w - log(1 + w)], two positive parts.
    return 0.5 * (alpha * scaled_log1p(x, beta) + log1p_residual(alpha * x / (1.0 + beta * x)))


Tangent = tuple[Float, Float]


def tangent(alpha: ArrayLike) -> Tangent:
    """(x0, slope) of the line through 0 that lies above F and touches it at x0; x0 = 0 for α <= ½, infinite at α = 1.

    The slope max_x F(x)/x is computed by golden section in log x: F/x is unimodal, and an error e in log x0 changes the
    slope only by O(e²).
    """
    alpha = np.asarray(alpha, dtype=np.float64)
    start, slope = _tangents(alpha.tobytes())
    return start.reshape(alpha.shape), slope.reshape(alpha.shape)


@lru_cache(maxsize=32)
def _tangents(packed: bytes) -> Tangent:
    """`tangent` for orders packed into bytes, cached because planners call it many times with one α."""
    orders, index = np.unique(np.frombuffer(packed), return_inverse=True)
    start, slope = np.zeros_like(orders), np.zeros_like(orders)
    bent = (orders > 0.5) & (orders < 1.0)
    if bent.any():
        start[bent], slope[bent] = _touching(orders[bent])
    start[orders == 1.0], slope[orders == 1.0] = np.inf, 1.0
    result = start[index], slope[index]
    for values in result:
        values.flags.writeable = False
    return result


def _touching(alpha: Float) -> Tangent:
    low, high = np.full_like(alpha, -60.0), 2.0 - 2.0 * np.log(1.0 - alpha)

    def fall(log_x: Float) -> Float:
        x = np.exp(log_x)
        return -F(x, alpha) / x

    (low, high), _ = golden(fall, low, high, 72)
    x0 = np.exp(0.5 * (low + high))
    return x0, F(x0, alpha) / x0


def F_hat(x: ArrayLike, alpha: ArrayLike) -> Any:
    """The least concave majorant of F (N-Fhat): F if α <= ½, else a line through 0 up to its tangent point; x at α = 1.

    >>> float(F_hat(3.0, 1.0))
    3.0
    """
    x, alpha = np.asarray(x, dtype=np.float64), np.asarray(alpha, dtype=np.float64)
    start, slope = tangent(alpha)
    curve = F(x, alpha)
    return np.where(x < start, np.maximum(slope * x, curve), curve)


def psi(x: ArrayLike, alpha: ArrayLike) -> Any:
    """ψ(x) = αx/((1 + βx)(1 + x)) up to x = 1/√β, then its maximum (1 - √β)/(1 + √β) (R-lem4, N-psi).

    >>> round(float(psi(1e9, 0.5)), 4)
    0.1716
    """
    x, alpha = np.asarray(x, dtype=np.float64), np.asarray(alpha, dtype=np.float64)
    root = np.sqrt(1.0 - alpha)
    peak = alpha / (1.0 + root) ** 2
    with np.errstate(over="ignore"):
        rising = alpha * (x / (1.0 + x)) / (1.0 + (1.0 - alpha) * x)
    return np.where(root * x >= 1.0, peak, rising)


def trace_term(T: ArrayLike, n: ArrayLike, alpha: ArrayLike, *, noise: ArrayLike) -> Any:
    """g_n(T) = (αn/(2β)) log(1 + βT/(nσ²)), T/(2σ²) at α = 1.

    R-amgm: an upper bound on (α/(2β)) log|I + βΔ/σ²| for Tr Δ = T, rank Δ <= n; equality if Δ has n equal eigenvalues.

    >>> float(trace_term(4.0, 2, 1.0, noise=0.5))
    4.0
    """
    T, n, noise, alpha = (np.asarray(a, dtype=np.float64) for a in (T, n, noise, alpha))
    return 0.5 * alpha * (T / noise) * log1p_ratio((1.0 - alpha) * (T / noise) / n)


def log_det_term(d: ArrayLike, alpha: float) -> float:
    """L_det = (α/(2β)) Σ_i log(1 + βd_i), Σd_i/2 at α = 1; d = eigenvalues of (K - Q)/σ² (R-cx).

    >>> log_det_term([1.0, 3.0], 1.0)
    2.0
    """
    return float(0.5 * alpha * np.sum(scaled_log1p(d, 1.0 - alpha)))
