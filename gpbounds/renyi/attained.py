"""The objective of order α at given inducing points, with a bound or an estimate of its rounding error.

At α = 1 streamed, O(NM²), with proved rounding (N-Q, N-forms); log p(y) likewise (N-computed).  At α < 1 dense, O(N³).
P outputs share kernel and noise: their objectives add.

Rounding at α < 1 and of traces, to first order and not proved: the computed factor of Kuu is that of Kuu + E, |E| ≤ ρ
= (M + 1)·eps·Tr Kuu (Demmel). This changes Q by −WEWᵀ, W = KfuKuu⁻¹, and the objective by at most ρ Tr(WᵀGW), where G
is its derivative in Q. Allowances for the sums and for the factor of Ξ are added.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from gpbounds.arrays import EPS, Float, as_host_points, host
from gpbounds.kernels import Kernel
from gpbounds.linalg import cholesky, eigen
from gpbounds.renyi.escalation import whole_evidence
from gpbounds.renyi.streamed import Streamed, streamed
from gpbounds.validation import noise_variance, order, scalar
from gpbounds.whitening import Inducing, as_targets, inducing, matched, residual_diagonal, whiten

MARGIN = 2.0
"""Factor by which the first-order estimate of rounding is multiplied."""


@dataclass(frozen=True)
class Attained:
    """L_α at one Z.

    Attributes
    ----------
    value : float
        In nats, summed over outputs.
    rounding : float
        The exact value is at least ``value − rounding``; a first-order estimate where ``proved`` is False.
    jitter : float
        What was added to the diagonal of Kuu.
    more : float or None
        The exact value is at most ``value + more``, or + rounding if it is None; infinite where the factor of Kuu is
        too far from it.
    proved : bool
    """

    value: float
    rounding: float
    jitter: float
    more: float | None = None
    proved: bool = False

    @property
    def highest(self) -> float:
        """An upper bound on the exact value; an estimate where ``proved`` is False."""
        return self.value + (self.rounding if self.more is None else self.more)


def attained(
    kernel: Kernel, X: ArrayLike, y: ArrayLike, Z: ArrayLike, alpha: float, *, noise: float, jitter: float
) -> Attained:
    """L_α = Σ_p log N(y_p; 0, Ξ) − P(α/(2β)) log|I + (β/σ²)(K − Q)|, Ξ = σ²I + βK + αQ, β = 1 − α  (R-elbo*).

    Parameters
    ----------
    kernel : Kernel
    X : array (N, D)
    y : array (N,) or (N, P)
    Z : array (M, D)
    alpha : float
        In (0, 1].
    noise : float
        σ², in squared units of y.
    jitter : float
        On Kuu.

    Raises
    ------
    NotPositiveDefinite
        if Kuu does not factorise, or so badly that K − Q has a negative diagonal.
    ValueError
        if σ² is within the rounding error of K.

    >>> from gpbounds.kernels import SquaredExponential
    >>> X, y = [0.0, 1.0, 2.0], [1.0, 0.5, -0.5]
    >>> [round(attained(SquaredExponential(), X, y, [0.0, 2.0], a, noise=0.1, jitter=0.0).value, 4) for a in (0.5, 1.0)]
    [-3.5277, -4.5099]
    """
    a = scalar(order, "alpha", alpha)
    if a == 1.0:
        return _variational(streamed(kernel, X, y, Z, noise, jitter))
    points = as_host_points(X).astype(np.float64, copy=False)
    centres = as_host_points(Z, "Z", points.shape[1]).astype(np.float64, copy=False)
    targets = as_targets(y, points)
    columns = targets[:, None] if targets.ndim == 1 else targets
    return _dense(inducing(kernel, centres, jitter), points, columns, a, noise_variance(noise))


def negative_trace(kernel: Kernel, X: ArrayLike, Z: ArrayLike, *, jitter: float) -> Attained:
    """−Tr(K − Q), in squared units of y, the objective of a choice without y; O(NM²).

    Arguments and errors as in :func:`attained`.

    >>> from gpbounds.kernels import SquaredExponential
    >>> round(negative_trace(SquaredExponential(), [0.0, 1.0, 2.0], [0.0, 2.0], jitter=0.0).value, 4)
    -0.3519
    """
    white = whiten(kernel, X, Z, jitter=jitter)
    factored = white.inducing
    squares = eigen(white.gram, "VVᵀ", vectors=True, rounding=float("inf"))
    assert squares.vectors is not None
    weights = host(factored.lift(squares.vectors)) * np.sqrt(squares.values)
    largest = kernel.largest_variance(white.X)
    rounding = float((weights**2).sum()) * _factor(factored) + _trace_rounding(factored, largest, white.N)
    return Attained(-white.trace, MARGIN * rounding, white.jitter)


def evidence_attained(kernel: Kernel, X: ArrayLike, y: ArrayLike, *, noise: float) -> Attained:
    """log p(y) = L_0, summed over outputs; dense, O(N³), and to 30 digits where doubles do not decide it.

    >>> from gpbounds.kernels import SquaredExponential
    >>> round(evidence_attained(SquaredExponential(), [0.0, 1.0, 2.0], [1.0, 0.5, -0.5], noise=0.1).value, 4)
    -3.2002
    """
    points = as_host_points(X).astype(np.float64, copy=False)
    targets = as_targets(y, points)
    columns = targets[:, None] if targets.ndim == 1 else targets
    lower, upper = whole_evidence(kernel, points, columns, noise=noise_variance(noise))
    low, high = float(lower), float(upper)
    middle = 0.5 * (low + high) if math.isfinite(low) and math.isfinite(high) else 0.0
    off = max(high - middle, middle - low) + EPS * abs(middle)
    return Attained(middle, off, 0.0, proved=lower.certified and upper.certified)


def _solves(K: Float, s2: float, quadratic: float, P: int) -> float:
    """Possible rounding error of ½log|σ²I + K| and ½ yᵀ(σ²I + K)⁻¹y together."""
    norm = float(np.abs(K).sum(axis=1).max())
    return 0.5 * (4.0 + np.sqrt(K.shape[0])) * EPS * (1.0 + norm / s2) * (quadratic + K.shape[0] * P)


def _variational(problem: Streamed) -> Attained:
    white, P, noise = problem.white, problem.P, problem.noise
    fits, in_log = problem.fits(0.0), problem.log_det_error
    value = -0.5 * (P * problem.log_det + float(fits.quadratic.sum()) + P * problem.ratio)
    least = P * (problem.log_det + in_log) + float(fits.above.sum()) + P * problem.trace_above / noise
    trace = max(white.trace - problem.trace_error[1], 0.0)
    most = P * (problem.log_det - in_log) + float(fits.own.sum()) + P * trace / noise
    own = 32.0 * EPS * (P * abs(problem.log_det) + abs(float(fits.quadratic.sum())) + P * problem.ratio)
    below, above = value + 0.5 * least + own, own - value - 0.5 * most
    return Attained(value, max(below, 0.0), white.jitter, max(above, 0.0), problem.accuracy.proved)


def _dense(factored: Inducing, X: Float, Y: Float, alpha: float, s2: float) -> Attained:
    N, P, beta = X.shape[0], Y.shape[1], 1.0 - alpha
    V, K = factored.whiten(X), factored.kernel(X)
    residual_diagonal(K.diagonal(), V)
    left = K - V.T @ V
    if factored.chol.jitter == 0.0:
        known, _ = matched(X, factored.Z)
        left[known] = 0.0
        left[:, known] = 0.0
    inner = cholesky(np.eye(N) + beta / s2 * left, name="I + (β/σ²)(K - Q)")
    outer = cholesky(s2 * np.eye(N) + K - alpha * left, name="Ξ")
    v = outer.solve(Y)
    quadratic = float((outer.solve_lower(Y) ** 2).sum())
    penalty = alpha / (2.0 * beta) * inner.logdet
    value = -0.5 * (P * (N * np.log(2.0 * np.pi) + outer.logdet) + quadratic) - P * penalty
    W = factored.lift(V)  # (M, N)
    steepness = float(((W @ v) ** 2).sum())
    steepness += P * (float((inner.solve_lower(W.T) ** 2).sum()) / s2 - float((outer.solve_lower(W.T) ** 2).sum()))
    traces = _trace_rounding(factored, float(np.diag(K).max()), N)
    sums = 0.5 * alpha * P * traces / s2 + P * alpha / (2.0 * beta) * 4.0 * N * EPS
    rounding = _solves(K, s2, quadratic, P) + sums + 0.5 * alpha * max(steepness, 0.0) * _factor(factored)
    return Attained(float(value), float(MARGIN * rounding), factored.chol.jitter)


def _factor(factored: Inducing) -> float:
    """ρ = (M + 1)·eps·Tr Kuu."""
    return (factored.M + 1.0) * EPS * float((factored.chol.L**2).sum())


def _trace_rounding(factored: Inducing, largest: float, N: int) -> float:
    """Possible rounding error of Tr(K − Q) = Σ (K_ii − |v_i|²), K_ii ≤ ``largest``."""
    return N * (factored.M + 4.0) * EPS * largest
