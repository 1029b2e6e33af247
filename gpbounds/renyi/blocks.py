"""Computations that stream K in blocks of rows: bounds on λ_max(K − Q), Tr(B⁻¹Δ), ‖Δ‖_F, and products with K + σ²I."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from gpbounds.arrays import EPS, Array, Float, exactly, host, length, namespace
from gpbounds.kernels.base import Kernel
from gpbounds.kernels.facts import Fold
from gpbounds.linalg import Jitter, cholesky, eigen
from gpbounds.linalg.krylov import Lanczos, conjugate_gradients, gauss
from gpbounds.linalg.parallel import ENTRY, share
from gpbounds.linalg.residuals import largest_eigenvalue
from gpbounds.numerics.scalars import log1p_sum_bounds
from gpbounds.overflow import within_doubles
from gpbounds.renyi.accuracy import U, gamma
from gpbounds.renyi.streamed import Streamed, lengths, streamed
from gpbounds.row_noise import UnitNoise, noise_per_row
from gpbounds.validation import closed_unit, count, generator, scalar, within_memory
from gpbounds.whitening import slices

DENSE = 2000
"""Largest N at which K − Q is stored and its largest eigenvalue computed."""

TINY = 1e-300
"""Keeps the weights of rows positive."""

ENTRIES = 2**22
"""Entries of a block of K."""


@dataclass(frozen=True)
class ResidualMoments:
    """Moments of D = Δ/σ² = (K − Q)/σ².

    Attributes
    ----------
    largest : float
        An upper bound on λ_max(D).
    squares : float
        ‖D‖_F².
    s, q : float
        Tr(B⁻¹Δ) and Tr((B⁻¹Δ)²), B = Q + σ²I.
    log_det : (float, float)
        Lower and upper bound on log|K_n| − log|B| = Σ log(1 + w_i), where the w_i are the eigenvalues of B⁻¹Δ: they sum
        to s, their squares sum to q, and each is at most λ_max(D).  Here B = Q₋ + σ²I, Q₋ as in `Accuracy`, and both
        bounds allow for the rounding of s and q (N-moment-rounding).
    forms : array (P,)
        wᵀDw for each column of W.
    """

    largest: float
    squares: float
    s: float
    q: float
    log_det: tuple[float, float]
    forms: Array


def moments(problem: Streamed, W: Array) -> ResidualMoments:
    """The moments of D from one pass over the upper triangle of K: 3N²M multiplications, O(NM) memory.

    Up to N = 2000 λ_max(D) is computed as an eigenvalue, and a Cholesky factor proves a bound just above it.  Beyond,
    it is bounded by the least of Tr D, t/n + √((1 − 1/n)(‖D‖_F² − t²/n)) with t = Tr D (Wolkowicz and Styan), and
    max_i (|D|x)_i/x_i for x = 1 and x = √diag(D) (Collatz and Wielandt).
    """
    white, noise = problem.white, problem.noise
    xp = namespace(white.X)
    unknown = xp.flatnonzero(~xp.asarray(white.known))
    if unknown.size == 0:
        wide = min(problem.accuracy.below + problem.accuracy.above, problem.trace_above) / noise
        return ResidualMoments(wide, 0.0, 0.0, 0.0, (0.0, wide), np.zeros(W.shape[1]))
    X, W_unknown = white.X[unknown], W[unknown]
    V = white.inducing.whiten(X) / np.sqrt(noise)
    inner = cholesky(xp.eye(white.M) + white.gram / noise, name="I + VVᵀ/σ²")
    R = inner.solve_lower(V).T  # B⁻¹ = (I − RRᵀ)/σ²
    DR = xp.zeros_like(R)
    diagonal = white.residual[unknown] / noise
    n = int(unknown.size)
    edge, forms = Edge(diagonal), xp.zeros(W_unknown.shape[1])
    for rows, D, weight in residual_rows(problem, X, V, diagonal):
        start, stop = rows.start, rows.stop
        edge.add(rows, D, weight)
        DR[rows] += D @ R[start:]
        DR[stop:] += D[:, stop - start :].T @ R[rows]
        forms += xp.einsum("ip,ip->p", W_unknown[rows], D @ (weight[:, None] * W_unknown[start:]))
    trace, squares = edge.trace, edge.squares
    off = Moved.of(problem, n)
    largest = min(edge.above(problem) + off.frobenius, problem.trace_above / noise * (1.0 + 8.0 * EPS))
    RDR = R.T @ DR
    s = max(trace - float(RDR.trace()), 0.0)
    q = max(squares - 2.0 * float((DR * DR).sum()) + float((RDR * RDR).sum()), 0.0)
    within = off.of_sums(q, trace, squares)
    rank, more = problem.rank
    low, high = log1p_sum_bounds(s, q, min(n, rank) if rank < white.N else rank, largest, within)
    log_det = low, high + more
    return ResidualMoments(largest, squares, s, q, log_det, host(forms))


def residual_rows(problem: Streamed, X: Array, V: Array, diagonal: Array) -> Iterator[tuple[slice, Array, Array]]:
    """(rows, D[rows, start:], weights) for blocks of rows of D = (K − Q)/σ², from V = L⁻¹k(Z, X)/σ and D's diagonal.

    An entry to the right of the diagonal block has the weight 2, as it counts for its mirror image, too.
    """
    xp, n = namespace(X), int(X.shape[0])
    for rows in slices(n, max(1, ENTRIES // n)):
        start, stop = rows.start, rows.stop
        D = problem.white.inducing.kernel(X[rows], X[start:]) / problem.noise - V[:, rows].T @ V[:, start:]
        entries = xp.arange(stop - start)
        D[entries, entries] = diagonal[rows]
        weight = xp.full(n - start, 2.0)
        weight[: stop - start] = 1.0
        yield rows, D, weight


class Edge:
    """λ_max(D) from one pass of `residual_rows`, D (n, n) positive semi-definite.

    Attributes
    ----------
    trace, squares : float
        Tr D and ‖D‖_F².
    """

    def __init__(self, diagonal: Array) -> None:
        xp, self.n = namespace(diagonal), int(diagonal.size)
        self.trace, self.squares = float(diagonal.sum()), 0.0
        self._positive = xp.stack([xp.ones(self.n), xp.sqrt(diagonal + 1e-9 * diagonal.mean() + TINY)], axis=1)
        self._row_sums = xp.zeros((self.n, 2))
        self._dense = xp.zeros((self.n, self.n)) if self.n <= DENSE else None

    def add(self, rows: slice, D: Array, weight: Array) -> None:
        """Add a block of rows."""
        start, stop = rows.start, rows.stop
        self.squares += float(((D * D) @ weight).sum())
        magnitude = namespace(D).abs(D)
        self._row_sums[rows] += magnitude @ self._positive[start:]
        self._row_sums[stop:] += magnitude[:, stop - start :].T @ self._positive[rows]
        if self._dense is not None:
            self._dense[rows, start:], self._dense[start:, rows] = D, D.T

    def above(self, problem: Streamed) -> float:
        """At least λ_max of the computed D: its eigenvalue up to `DENSE` rows, else the least bound of `moments`."""
        if self._dense is not None:
            norm = float(self._dense.diagonal().max()) + float(problem.spectrum.values[0]) / problem.noise
            rounding = max(1e-10, 4.0 * (self.n + problem.white.M) * EPS) * norm
            return largest_eigenvalue(self._dense, float(eigen(self._dense, "K - Q", rounding=rounding).values[0]))
        n, trace = self.n, self.trace
        spread = max(self.squares * (1.0 + gamma(3 * n)) - trace * trace / n, 0.0) + gamma(64) * trace * trace / n
        largest = (trace / n + float(np.sqrt((1.0 - 1.0 / n) * spread))) * (1.0 + gamma(64))
        sums = (self._row_sums / self._positive).max(axis=0)
        return min(largest, *(float(v) * (1.0 + gamma(n + 8)) for v in sums))


def entry_off(problem: Streamed) -> float:
    """At least the error of a computed entry of D = (K − VᵀV)/σ², V as it was computed."""
    known, top = problem.accuracy, problem.white.inducing.kernel.max_variance
    variance = top if math.isfinite(top) else known.total[0]
    return (known.entry + 2.0 * gamma(problem.white.M + 4) * variance) / problem.noise


@dataclass(frozen=True)
class Moved:
    """How far the computed D, and I − RRᵀ in place of σ²B⁻¹, are from the exact ones, for Q₋ (N-moment-rounding).

    Attributes
    ----------
    frobenius, nuclear : float
        At least the Frobenius and the nuclear norm of the error of D.
    inverse : float
        Spectral norm of the error of I − RRᵀ.
    rounded : float
        γ of sums over the rows.
    M : int
    """

    frobenius: float
    nuclear: float
    inverse: float
    rounded: float
    M: int

    @staticmethod
    def of(problem: Streamed, n: int) -> Moved:
        """For the sums over n rows.

        Proof.  An entry of D is off by (κ + 2γ_(M+4)k)/σ², k the largest variance, and Q₋ is within its nuclear norm of
        VᵀV.  (I + VVᵀ/σ² + E)⁻¹ is within ε/(1 − ε) of (I + VVᵀ/σ²)⁻¹ relatively, ‖E‖_F ≤ ε; the solve for R adds
        2γ‖L_I‖_F‖R‖_F, ‖R‖_F² ≤ M, a second computation of V adds 4ψd/σ, and P = (I + Q/σ²)⁻¹ moves by ‖ΔQ‖/σ².
        """
        known, noise, M = problem.accuracy, problem.noise, problem.white.M
        entry = entry_off(problem)
        moved = known.below / noise
        if bool(problem.white.known.any()):
            moved += (known.below + known.above) / noise
        whole = M + 1.01 * float(problem.white.gram.trace()) / noise
        epsilon = gamma(M + 4) * whole + known.gram / noise
        inverse = epsilon / (1.0 - epsilon) if epsilon < 0.5 else math.inf
        inverse += 3.0 * gamma(M + 4) * math.sqrt(whole * M) + moved
        inverse += 5.0 * known.inverse * known.columns / math.sqrt(noise)
        return Moved(
            1.01 * (n * entry + moved), 1.01 * (n * math.sqrt(n) * entry + moved), 1.01 * inverse, gamma(n + M + 8), M
        )

    def of_sums(self, q: float, trace: float, squares: float) -> tuple[float, float]:
        """Upper bounds on the errors of s and q, from the computed ``q``, Tr D = ``trace`` and ‖D‖_F² = ``squares``.

        Proof.  s = Tr PD: |Tr PD − Tr P̂D̂| ≤ ‖P − P̂‖(Tr D + ‖D − D̂‖_*) + ‖D − D̂‖_*.  q = ‖P^½DP^½‖_F²: its root
        moves by ‖D − D̂‖_F, and q by ‖P − P̂‖(2 + ‖P − P̂‖)‖D‖_F².  The sums themselves: with ‖R‖² ≤ 1 and ‖R‖_F² ≤ M,
        2γM‖D‖_F and 8γ(M + 1)‖D‖_F².
        """
        size = 1.01 * squares
        in_s = self.inverse * (trace + self.nuclear) + self.nuclear
        in_s += self.rounded * (trace + 2.0 * self.M * math.sqrt(size))
        in_q = self.inverse * (2.0 + self.inverse) * size + 10.0 * self.rounded * (self.M + 1.0) * size
        in_q += 2.0 * math.sqrt(max(q, 0.0) + in_q) * self.frobenius + self.frobenius * self.frobenius
        return 1.01 * in_s, 1.01 * in_q


def products(kernel: Kernel, X: Array, noise: float) -> Callable[[Array], Array]:
    """The function V ↦ (K + σ²I)V, in blocks of rows; K is stored if N ≤ 2000."""
    N = X.shape[0]
    K = kernel(X) if N <= DENSE else None

    def times(V: Array) -> Array:
        if K is not None:
            return K @ V + noise * V
        out = noise * V
        for rows in slices(N, max(1, ENTRIES // N)):
            out[rows] += kernel(X[rows], X) @ V
        return out

    return times


# Bounds on ½yᵀK_n⁻¹y from any approximate solve, and a solve by conjugate gradients preconditioned by B.

STEPS = 25
"""Largest number of products with K; four times as many where K is stored (`products`)."""

ROWS, COLUMNS = 1024, 512
"""Entries of K that `absolute_products` computes at a time."""

TOLERANCE = 0.01
"""The solve stops when the two bounds differ by at most this many nats."""


def two_sided(problem: Streamed, v: Array, product: Array, off: Array, shift: float) -> tuple[Float, Float]:
    """Proved lower and upper bound on ½yᵀK_n⁻¹y for each output, K_n = K + σ²I, from any v (N, P) and K_n v.

    With r = y − K_n v, B = Q₋ + σ²I and any shift ≥ λ_max(K − Q₋) (for example T = Tr(K − Q₋)):

        ½ rᵀ(B + shift·I)⁻¹r ≤ ½ yᵀK_n⁻¹y − vᵀ(r + ½K_n v) ≤ ½ rᵀB⁻¹r.

    The proof is that of N-quad.  v = 0 gives the two bounds of Titsias, v = K_n⁻¹y the exact value.  Artemev, Burt &
    van der Wilk (2021) have 0 on the left.

    No accuracy of v is assumed.  ``off`` (N, P) bounds |product − K_n v|, entry by entry; this error moves the base by
    at most ½|v|ᵀoff and r by at most |off| (N-quad, rounding).
    """
    xp = namespace(v)
    r = problem.Y - product
    moved = off + U * xp.abs(r)
    base = host((v * (r + 0.5 * product)).sum(axis=0))
    sizes = xp.abs(v) * (gamma(problem.N + 6) * (xp.abs(problem.Y) + xp.abs(product)) + 0.5 * off)
    error = 1.01 * host(sizes.sum(axis=0))
    apart = lengths(moved)
    fits = problem.fits([shift, 0.0], r)
    less = np.maximum(np.sqrt(fits.below[0]) - apart / math.sqrt(problem.noise + shift), 0.0)
    more = np.sqrt(fits.above[1]) + apart / math.sqrt(problem.noise)
    below, above = 0.5 * less**2 * (1.0 - 8.0 * U), 0.5 * more**2 * (1.0 + 8.0 * U)
    return base + below - error, base + above + error


def absolute_products(kernel: Kernel, X: Array, V: Array, entry: float, *, noise: float) -> tuple[Array, Array]:
    """(K + σ²I)V for V (N, P), and at least the error of each of its entries, ``entry`` being that of K's entries.

    Sums go over at most `COLUMNS` columns at a time: an entry has an error of at most γ|K||V|, γ for COLUMNS plus the
    number of parts; so K is computed once, and multiplied with V and |V|.
    """
    xp, N, P = namespace(X, V), int(X.shape[0]), int(V.shape[1])
    both = xp.concatenate([V, xp.abs(V)], axis=1)
    out, sizes = xp.zeros((N, P)), xp.zeros((N, P))
    positive, parts = kernel_is_positive(kernel), list(slices(N, ROWS))

    def add(number: int, worker: int) -> None:
        rows = parts[number]
        for columns in slices(N, COLUMNS):
            K = kernel(X[rows], X[columns])
            if positive:
                part = K @ both[columns]
                out[rows] += part[:, :P]
                sizes[rows] += part[:, P:]
            else:
                out[rows] += K @ V[columns]
                sizes[rows] += xp.abs(K) @ both[columns, P:]

    if xp is np:
        share(len(parts), add, flops=float(N * N * (4 * P + ENTRY)))
    else:
        for number in range(len(parts)):
            add(number, 0)
    terms = min(N, COLUMNS) + -(-N // COLUMNS) + 4
    off = gamma(terms) * sizes + entry * both[:, P:].sum(axis=0) + 4.0 * U * noise * xp.abs(V)
    return out + noise * V, 1.02 * (off + 2.0 * U * sizes)


def kernel_is_positive(kernel: Kernel) -> bool:
    """Whether k(x, x') ≥ 0 for all x and x'."""
    return kernel.fold(_POSITIVE, None)


_POSITIVE: Fold[None, bool] = Fold(lambda kernel, at: kernel.is_positive, operator.and_, operator.and_)


def solve(problem: Streamed, times: Callable[[Array], Array]) -> Array:
    """v near K_n⁻¹y for every output, by conjugate gradients from v = 0, preconditioned by B.

    It stops when the two bounds are within 0.01 nats, or after 25 products with K_n (100 up to N = 2000).
    """
    return conjugate_gradients(
        times,
        problem.solve,
        problem.Y,
        enough=lambda energies: not 0.5 * float(energies.sum()) > TOLERANCE,
        steps=(4 * STEPS if problem.N <= DENSE else STEPS) - 1,
    )


# An estimate of log|Ξ|, Ξ = σ²I + Q + (1 − α)(K − Q), by stochastic Lanczos quadrature.


@dataclass(frozen=True)
class LogDet:
    """An estimate with its standard error over the probes (0 where it is exact); it is no bound.

    ``float(estimate)`` is its value.
    """

    value: float
    standard_error: float

    def __float__(self) -> float:
        return self.value


@noise_per_row(UnitNoise.of_log_determinant)
@within_doubles
def log_det_estimate(
    kernel: Kernel,
    X: ArrayLike,
    Z: ArrayLike,
    *,
    noise: Any,
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
    noise : float or array (N,)
        σ², in squared units of y; an array: s_i², one noise variance for each row (N-rows-noise).
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
    problem = streamed(kernel, X, np.zeros(length(X)), Z, noise, jitter)
    base = problem.log_det - problem.N * math.log(2.0 * math.pi)
    if a == 1.0:
        return LogDet(base, 0.0)
    points = problem.white.X
    K = products(kernel, points, problem.noise)

    def times(V: Array) -> Array:
        U = _inverse_root(problem, V)
        fitted = namespace(V).zeros_like(V)
        for rows, part in problem.white.inducing.transposed_times(points, problem.white.inducing.times(points, U)):
            fitted[rows] = part
        return _inverse_root(problem, (1.0 - a) * K(U) + a * (fitted + problem.noise * U))

    with within_memory("probes"):
        draws = generator(rng).standard_normal((problem.N, m))
    run = Lanczos(times, namespace(points).asarray(draws))
    run.advance(min(k, problem.N))
    values = gauss(run.tridiagonal()).of(np.log)
    return LogDet(base + float(values.mean()), float(values.std(ddof=1) / math.sqrt(m)))


def _inverse_root(problem: Streamed, V: Array) -> Array:
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
