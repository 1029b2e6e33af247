"""Upper bounds on the mean trace of the tilted k-DPP, P(Z) ∝ |(K² + σ²K)_ZZ|, from a pivoted Cholesky factor of K."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from gpbounds.arrays import EPS, Float
from gpbounds.kdpp.expectations import expected_trace
from gpbounds.kdpp.slopes import trace_slopes
from gpbounds.validation import count, non_negative, positive, scalar


def tilted_traces(
    eigenvalues: ArrayLike, left: float, M: int, *, noise: float, rounding: float = 0.0
) -> tuple[float, float]:
    """Upper bounds on τ_M and τ_{M−1}/M of KK_n, K_n = K + σ²I, from the eigenvalues of FᵀF ⪯ K and T = Tr(K − FᵀF).

    τ_m(A) = (m+1) e_{m+1}/e_m of the eigenvalues of A; τ_M(KK_n)/σ⁴ is twice the mean of N-tilt's bound on the gap.
    The eigenvalues of K are those of FᵀF, l_i, raised by δ_i ≥ 0 that sum to T, so those of KK_n are raised by
    δ_i(2l_i + δ_i + σ²); τ is concave (N-pop), with the slopes g_i of `trace_slopes` and g_0 at an eigenvalue 0:

        τ(KK_n) ≤ τ(l(l + σ²)) + T·max{g_i(2l_i + T + σ²), g_0(T + σ²)}.

    Parameters
    ----------
    eigenvalues : array (r,)
        Nonzero eigenvalues of FᵀF; M < r.
    left : float
        T ≥ 0, or an upper bound on it.
    M : int
        M ≥ 1.
    noise : float
        σ² > 0.
    rounding : float
        Bound on the error of each eigenvalue.

    Returns
    -------
    (float, float)
        In squared units of K.

    Raises
    ------
    ValueError
        if M is not below r.

    >>> values = 0.5 ** np.arange(40.0)
    >>> above = tilted_traces(values[:20], values[20:].sum(), 6, noise=0.1)
    >>> whole = tilted_traces(values, 0.0, 6, noise=0.1)
    >>> [round(a / b, 3) for a, b in zip(above, whole)]
    [1.0, 1.0]
    """
    values, size = non_negative("eigenvalues", eigenvalues), count("M", M)
    T, variance = scalar(non_negative, "left", left), scalar(positive, "noise", noise)
    upper = np.sort(values + scalar(non_negative, "rounding", rounding))[::-1]
    upper = upper[upper > 0.0]
    if upper.size <= size:
        raise ValueError(f"eigenvalues: expected more than M = {size} of them, got {upper.size}: add pivots")
    up = 1.0 + 64.0 * EPS * (size + upper.size)
    return _above(upper, T, size, variance) * up, _above(upper, T, size - 1, variance) / size * up


def _above(values: Float, T: float, M: int, noise: float) -> float:
    tilted = values * (values + noise)
    if M == 0:
        return float(tilted.sum() + T * (2.0 * values.max() + T + noise))
    slopes, zero = trace_slopes(tilted, M)
    steepest = max(float((slopes * (2.0 * values + T + noise)).max()), zero * (T + noise))
    return float(expected_trace(tilted, M)) + T * steepest
