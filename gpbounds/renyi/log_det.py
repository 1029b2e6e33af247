"""An estimate of log|Ξ|, Ξ = σ²I + Q + (1 − α)(K − Q), by stochastic Lanczos quadrature."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from gpbounds.arrays import Array, exactly, namespace
from gpbounds.kernels import Kernel
from gpbounds.linalg import Jitter
from gpbounds.linalg.lanczos import Lanczos
from gpbounds.linalg.quadrature import gauss
from gpbounds.renyi.blocks import products
from gpbounds.renyi.streamed import Streamed, streamed
from gpbounds.validation import closed_unit, count, scalar


@dataclass(frozen=True)
class LogDet:
    """An estimate with its standard error over the probes (0 where it is exact); it is no bound.

    ``float(estimate)`` is its value.
    """

    value: float
    standard_error: float

    def __float__(self) -> float:
        return self.value


def log_det_estimate(
    kernel: Kernel,
    X: ArrayLike,
    Z: ArrayLike,
    *,
    noise: float,
    alpha: float = 0.0,
    probes: int = 10,
    steps: int = 20,
    rng: np.random.Generator | int | None = None,
    jitter: Jitter = "auto",
) -> LogDet:
    """log|Ξ| for Ξ = σ²I + αQ + (1 − α)K, from random probes (R-hutch, R-lanczos).

    log|Ξ| = log|B| + tr log C, B = Q + σ²I, C = B^{-1/2}ΞB^{-1/2}; log|B| is computed, and the trace is the mean of
    zᵀ(log C)z over probes z ~ N(0, I), each by Gauss quadrature after ``steps`` Lanczos steps.  The quadrature is never
    below zᵀ(log C)z, and exact after N steps.  α = 1 gives log|B|, α = 0 log|K + σ²I|.  The printed method, one
    Lanczos run for the whole spectrum, needs N steps without breakdown.  `gpbounds.iterative.evidence` returns bounds.

    O(N²) a step and probe, and the memory of (steps + 4)·probes vectors.

    Parameters
    ----------
    kernel : Kernel
    X : array (N, D), NumPy or CuPy
    Z : array (M, D)
        Inducing inputs of Q, which is here a preconditioner as well.
    noise : float
        σ², in squared units of y.
    alpha : float in [0, 1]
    probes, steps : int
        At least two probes.
    rng : numpy.random.Generator or int, optional
    jitter : float or "auto"
        Added to the diagonal of K_ZZ in Q.

    Raises
    ------
    ValueError
        for wrong arguments.
    NotPositiveDefinite
        when K_ZZ does not factorise.

    >>> from gpbounds.kernels import SquaredExponential
    >>> X = np.linspace(0.0, 5.0, 40)[:, None]
    >>> found = log_det_estimate(SquaredExponential(), X, X[::8], noise=0.1, probes=30, rng=0)
    >>> exact = np.linalg.slogdet(SquaredExponential()(X) + 0.1 * np.eye(40))[1]
    >>> bool(abs(float(found) - exact) < 4.0 * found.standard_error)
    True
    """
    a, m, k = scalar(closed_unit, "alpha", alpha), count("probes", probes, 2), count("steps", steps)
    X = exactly("X", X)
    N = len(np.shape(X)) and np.shape(X)[0]
    problem = streamed(kernel, X, np.zeros(N), Z, noise, jitter)
    base = problem.log_det - problem.N * math.log(2.0 * math.pi)
    if a == 1.0:
        return LogDet(base, 0.0)
    points = problem.white.X
    K = products(kernel, points, problem.noise)

    def times(V: Array) -> Array:
        U = inverse_root(problem, V)
        fitted = namespace(V).zeros_like(V)
        for rows, part in problem.white.inducing.transposed_times(points, problem.white.inducing.times(points, U)):
            fitted[rows] = part
        return inverse_root(problem, (1.0 - a) * K(U) + a * (fitted + problem.noise * U))

    draws = np.random.default_rng(rng).standard_normal((problem.N, m))
    run = Lanczos(times, namespace(points).asarray(draws))
    run.advance(min(k, problem.N))
    values = gauss(run.tridiagonal()).of(np.log)
    return LogDet(base + float(values.mean()), float(values.std(ddof=1) / math.sqrt(m)))


def inverse_root(problem: Streamed, V: Array) -> Array:
    """B^{-1/2}V for V (N, P), in O(NM): with VVᵀ = E diag(λ)Eᵀ the whitened covariances, B = VᵀV + σ²I."""
    inducing, X = problem.white.inducing, problem.white.X
    values, basis = problem.spectrum.values, problem.spectrum.vectors
    assert basis is not None
    total = problem.noise + values
    shrink = 1.0 / (total + np.sqrt(problem.noise * total))  # (1 − σ/√(σ² + λ))/λ without cancellation
    inner = basis @ (namespace(X).asarray(shrink)[:, None] * (basis.T @ inducing.times(X, V)))
    out = V.copy()
    for rows, fitted in inducing.transposed_times(X, inner):
        out[rows] -= fitted
    return out / math.sqrt(problem.noise)
