"""log|K + σ²I| by a block Vecchia factor and probes, and (K + σ²I)⁻¹Y, for one kernel and noise.

With P⁻¹ = UᵀU, B = U(K + σ²I)Uᵀ, tr B = N and probes of length √N (N-vecchia),

    log|K + σ²I| ≈ H = log|P| + mean_i z_iᵀf(B)z_i,    f(x) = log x − (x − 1).

f has a double zero at 1: value and derivative of the mean are of second order in B − I.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from fitting.iterative.layout import Layout
from gpbounds.arrays import Array, Float, namespace
from gpbounds.errors import NonFinite, NotPositiveDefinite
from gpbounds.iterative.evidence import Products
from gpbounds.kernels import Kernel
from gpbounds.linalg.krylov import Lanczos, Tridiagonal, gauss, radau
from gpbounds.linalg.parallel import share
from gpbounds.linalg.workspace import Workspace
from gpbounds.vecchia import Factor, factor

MEMORY = 2.0**31
"""Bytes: K is kept if it needs no more, and so are the Cholesky factors of the blocks."""
SOLVED = 1e-4
"""Nats to which yᵀ(K + σ²I)⁻¹y is computed; the error of the weights is of the order of its root."""
LEAST, MOST = 6, 40
"""Lanczos steps of the probes."""
DEEPEST = 400
"""Most steps of the columns of Y."""
NARROW = 0.01
"""Largest distance between the two quadratures, in standard errors over the probes."""


def residual_log(x: Float) -> Float:
    """f(x) = log x − (x − 1) ≤ 0."""
    return np.log(x) - (x - 1.0)


def divided_differences(x: Float) -> Float:
    """f[x_i, x_j] of f(x) = log x − (x − 1), for x (..., k); shape (..., k, k).

    >>> divided_differences(np.array([1.0, 2.0])).round(4)
    array([[ 0.    , -0.3069],
           [-0.3069, -0.5   ]])
    """
    left, right = x[..., :, None], x[..., None, :]
    u = (left - right) / right
    small = np.abs(u) < 1e-6
    safe = np.where(small, 1.0, u)
    return np.where(small, 1.0 - 0.5 * u + u * u / 3.0, np.log1p(safe) / safe) / right - 1.0


@dataclass(frozen=True, eq=False)
class Columns:
    """Columns a with weights: Σ_c w_c a_c a_cᵀ is the part of ∂H/∂K that K alone contributes.

    Attributes
    ----------
    weights : array (c,)
    start : array (N, c)
        Combinations q of Lanczos vectors.
    pulled : array (N, c)
        Uᵀq.
    image : array (N, c)
        (K + σ²I)Uᵀq.
    """

    weights: Array
    start: Array
    pulled: Array
    image: Array


@dataclass(frozen=True, eq=False)
class Solution:
    """U, K and Lanczos recurrences at one kernel and noise; rows are in the order of the blocks."""

    kernel: Kernel
    X: Array
    noise: float
    layout: Layout
    U: Factor
    K: Products
    weights: Array
    quadratic: float
    tridiagonal: Tridiagonal
    basis: list[Array]
    pulled: list[Array]
    images: list[Array]

    @cached_property
    def each(self) -> Float:
        """z_iᵀf(B)z_i for each probe (m,)."""
        return gauss(self.tridiagonal).of(residual_log) if self.layout.m else np.zeros(0)

    @property
    def log_det(self) -> float:
        """H."""
        return self.U.log_det + (float(self.each.mean()) if self.layout.m else 0.0)

    @property
    def log_det_error(self) -> float:
        """The standard error of H over the probes."""
        m = self.layout.m
        return float(self.each.std(ddof=1) / math.sqrt(m)) if m > 1 else 0.0

    @property
    def log_evidence(self) -> float:
        """Σ_p log N(y_p; 0, K + σ²I), with H in place of log|K + σ²I|."""
        N, P = self.weights.shape
        return -0.5 * (P * (N * math.log(2.0 * math.pi) + self.log_det) + self.quadratic)

    @property
    def log_evidence_error(self) -> float:
        """The standard error of `log_evidence`."""
        return 0.5 * int(self.weights.shape[1]) * self.log_det_error

    def columns(self, chosen: range) -> Columns:
        """The derivative of the mean of z_iᵀf(B)z_i over the ``chosen`` probes.

        With T = SΘSᵀ the Lanczos matrix of a probe, f(B) changes by Q·D·Qᵀ in T's basis Q, D = S(f[θ_i, θ_j]s_i s_j)Sᵀ
        with s the first row of S.  The decomposition of D gives columns and weights.
        """
        xp, m, N = namespace(self.X), len(chosen), self.layout.N
        T = self.tridiagonal.columns(chosen)
        theta, S = np.linalg.eigh(T.matrices())
        first = S[:, 0, :] * np.sqrt(T.squares)[:, None]
        core = divided_differences(theta) * first[:, :, None] * first[:, None, :]
        weights, E = np.linalg.eigh(S @ core @ S.transpose(0, 2, 1))
        kept = np.abs(weights) > 1e-13 * np.abs(weights).max(axis=1, keepdims=True)
        number, which = np.nonzero(kept)
        starts = np.searchsorted(number, np.arange(m + 1))
        moved = None if xp is np else xp.asarray(E[number, :, which].T)  # (steps, columns), at once

        def combined(parts: list[Array]) -> Array:
            out = xp.empty((N, number.size))

            def combine(i: int, worker: int) -> None:
                own = slice(starts[i], starts[i + 1])
                recurrence = xp.stack([part[:, chosen[i]] for part in parts])  # (steps, N)
                out[:, own] = recurrence.T @ (E[i][:, which[own]] if moved is None else moved[:, own])

            if xp is np:
                share(m, combine, flops=2.0 * N * sum(W.size for W in E))
            else:
                for i in range(m):
                    combine(i, 0)
            return out

        scaled = xp.asarray(weights[number, which] / m)
        return Columns(scaled, combined(self.basis), combined(self.pulled), combined(self.images))


def solution(
    kernel: Kernel,
    X: Array,
    Y: Array,
    *,
    noise: float,
    layout: Layout,
    space: Workspace | None = None,
    derivatives: bool = True,
) -> Solution:
    """The solution for rows X (N, D), Y (N, P) in the order of the blocks.

    Raises
    ------
    NotPositiveDefinite
        if σ² is below the rounding error of K, or Y is not solved for.
    NonFinite
        if a covariance is not finite.
    """
    xp, m, N = namespace(X), layout.m, layout.N
    U = factor(kernel, X, noise=noise, blocks=layout.blocks, keep=MEMORY if derivatives else 0.0, space=space)
    if not math.isfinite(U.log_det):
        raise NonFinite("kernel: expected finite covariances, got NaN or infinity in K")
    K = Products(kernel, X, noise=noise, memory=MEMORY, space=space)
    keeps, pulled, images = True, [], []

    def times(V: Array) -> Array:
        A = U.transposed_times(V)
        R = K.times(A)
        if keeps:
            pulled.append(A)
            images.append(R)
        return U.times(R)

    run = Lanczos(times, xp.concatenate([layout.probes, U.times(Y)], axis=1))
    least = min(N, layout.steps or LEAST)
    run.advance(least)
    if not layout.steps and m:
        while len(run.diagonals) < min(MOST, N) and not _narrow(run.tridiagonal().columns(slice(0, m))):
            run.advance(2)
    keeps = False
    tridiagonal = run.tridiagonal()
    weights, quadratic = _solved(run.only(slice(m, None)), U)
    columns = slice(0, m)
    parts: tuple[list[Any], ...] = ([], [], [])
    if derivatives:
        parts = tuple([part[:, columns] for part in some] for some in (run.basis[:-1], pulled, images))
    return Solution(kernel, X, noise, layout, U, K, weights, quadratic, tridiagonal.columns(columns), *parts)


def is_narrow(solved: Solution, within: float = 1.0) -> bool:
    """Whether more steps would change H by much less than its standard error; ``within`` relaxes that."""
    return solved.layout.m == 0 or _narrow(solved.tridiagonal, within)


def _narrow(T: Tridiagonal, within: float = 1.0) -> bool:
    nodes = gauss(T)
    above, below = nodes.of(residual_log), radau(T, 0.9 * float(nodes.points.min())).of(residual_log)
    error = float(above.std() / math.sqrt(T.squares.size))
    return float(np.abs(above - below).mean()) <= within * max(NARROW * error, 1e-12 * float(T.squares.sum()))


def _solved(run: Lanczos, U: Factor) -> tuple[Array, float]:
    """(K + σ²I)⁻¹Y and Σ_p y_pᵀ(K + σ²I)⁻¹y_p, whose error is at most `SOLVED`."""
    if not run.squares.size:
        return run.basis[0], 0.0
    while True:
        T = run.tridiagonal()
        first = np.zeros((*T.diagonal.shape, 1))
        first[:, 0, 0] = np.sqrt(T.squares)
        coefficients = np.linalg.solve(T.matrices(), first)[:, :, 0].astype(np.float64)
        left = (T.beside[:, -1] * coefficients[:, -1]) ** 2
        value = float((np.sqrt(T.squares) * coefficients[:, 0]).sum())
        if not math.isfinite(value):
            raise NonFinite("y: expected targets whose quadratic form is finite. Rescale y")
        scale = max(1e-3, float(gauss(T).points.min()))
        if 0.5 * float(left.sum()) <= max(SOLVED, 1e-14 * value) * scale or T.steps >= U.N:
            return U.transposed_times(run.combined(coefficients)), value
        if T.steps >= DEEPEST:
            raise NotPositiveDefinite(
                f"K + σ²I: expected a solution for y within {DEEPEST} products, got a remainder of "
                f"{0.5 * float(left.sum()) / scale:.3g} nats. Usual cause: a noise variance far below the largest "
                "eigenvalue of K. Use a larger noise variance."
            )
        run.advance(4)
