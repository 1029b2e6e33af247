"""λ_max(K − Q)/σ² at any N: how far VFE's and DTC's predictions can be from the exact GP's (N-op)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from gpbounds.arrays import EPS, Array, Float, as_host_points
from gpbounds.bound import SMALLEST, Bound, normal_or_zero
from gpbounds.kernels import Kernel
from gpbounds.kernels.base import as_kernel
from gpbounds.kernels.tiles import Products, additions
from gpbounds.linalg import Jitter
from gpbounds.linalg.parallel import ENTRY
from gpbounds.linalg.products import norm
from gpbounds.linalg.residuals import largest_eigenvalue
from gpbounds.numerics.search import halved
from gpbounds.overflow import within_doubles
from gpbounds.progress import bar
from gpbounds.renyi.accuracy import U, gamma, unproved
from gpbounds.renyi.blocks import DENSE, Edge, entry_off, residual_rows
from gpbounds.renyi.residual import with_jitter_named
from gpbounds.renyi.streamed import Streamed, streamed
from gpbounds.row_noise import UnitNoise, noise_per_row
from gpbounds.validation import flag, generator, open_unit, positive, scalar
from gpbounds.whitening import CHUNK, slices

QUANTITY = "λ_max(K − Q)/σ²"
WORK = 2e13
"""Default of ``work``, in flops: eight products with K at N = 100 000, two minutes on two cores."""
PROBES = 10
"""Columns of the power method: more of them raise the quantile of χ² and cost as much as the entries of K."""
POWERS, FEWEST, MOST = 3, 4, 40
"""Products of the power method before Chebyshev's polynomials; the least and the largest number of all products."""
NEAR = 1.05
"""The products end where the upper end is at most that many times the lower one."""
ROW_SUMS = 0.05
"""Share of ``work`` that the bounds by row sums of |K − Q| may take."""
MEMORY = 2.0**29
"""Bytes: K is stored for the products if it needs no more."""
LARGE = 1e100
"""The products end where an entry exceeds that, so that squares do not overflow."""
SAFE = 1e-9
"""Relative allowance for scalar functions: quantiles of χ² and recurrences of at most `MOST` steps."""
RANDOM = "The probes are independent standard normal numbers, drawn for this bound alone."


@noise_per_row(UnitNoise.of_ratio)
@within_doubles
def operator_gap(
    kernel: Kernel,
    X: ArrayLike,
    Z: ArrayLike,
    *,
    noise: Any,
    jitter: Jitter = "auto",
    delta: float = 1e-6,
    rng: np.random.Generator | int | None = 0,
    work: float = WORK,
    progress: bool = False,
) -> Bound:
    """Upper bound on ε = λ_max(K − Q)/σ², which bounds VFE's and DTC's predictions at the rows of X for every y.

    With m, v the exact GP's latent means and variances at X, m_q, v_q those of VFE with the inducing inputs Z:

        |m_q − m| ≤ ε·min(|y − m|, |y − m_q|)       for every y, |·| the Euclidean norm over the rows
        E|m_q − f|² ≤ (1 + ε)²·E|m − f|²            for every f, y = f + noise
        (1 + ε)v − εσ² + Δ ≤ v_q ≤ v + Δ ≤ v + εσ²  at every row, Δ its diagonal entry of K − Q
        (1 + ε)/(1 + 2ε) ≤ (v_q + σ²)/(v + σ²) ≤ 1 + ε

    So the root mean square difference of the means is at most ε times that of the model's own residuals.  Claim N-op,
    for the same kernel and noise; DTC has the same means.  The first two are attained for Q = 0, the third for K a
    multiple of I.  Fewer than #{i: λ_i(K) > εσ²} points or features cannot reach ε (N-op-low).

    Up to 2000 rows ε is an eigenvalue, known up to rounding.  Beyond, the bound is the least of Tr(K − Q)/σ² (N-Q), of
    the row sums of |K − Q| and of ‖K − Q‖_F where ``work`` affords them, and of Chebyshev's polynomials of K − Q times
    random probes, which fail with probability at most ``delta`` (N-op-edge): usually within a factor 1.3 of ε.  All
    rounding is charged, also that of Q.

    Parameters
    ----------
    kernel : Kernel
    X : array (N, D)
    Z : array (M, D)
        Inducing inputs.
    noise : float or array (N,)
        σ², in squared units of y; an array: s_i², one noise variance for each row (N-rows-noise).
    jitter : float or "auto"
        Added to the diagonal of Kuu; the theorem holds for that Q, too.  "auto" as in `gap`.
    delta : float
        Probability with which the part by probes may fail.
    rng : numpy.random.Generator, int or None
        Source of the probes.
    work : float
        Flops for the products with K, each N²(200 + 20) and N²/2 entries of the kernel; with less than four of them
        only the trace is left.  Memory: 8NM bytes, and those of 50 vectors.
    progress : bool
        Show a bar that counts the products.

    Returns
    -------
    Bound
        ``confidence`` is 1 where a bound without probes is the least, else 1 − delta.  ``terms``: "lower", a proved
        lower bound on ε; "estimate"; "trace", the bound Tr(K − Q)/σ²; "products"; "jitter".

    Raises
    ------
    ValueError
        for wrong arguments.
    NotPositiveDefinite
        when Kuu does not factorise.

    >>> from gpbounds.kernels import SquaredExponential
    >>> X = np.linspace(0.0, 10.0, 200)
    >>> bound = operator_gap(SquaredExponential(), X, X[::20], noise=0.1)
    >>> round(float(bound), 4), round(bound.terms["lower"], 4), bound.confidence
    (32.914, 32.914, 1.0)
    """
    as_kernel(kernel)
    share, most = scalar(open_unit, "delta", delta), scalar(positive, "work", work)
    flag("progress", progress)
    points, source = as_host_points(X, "X"), generator(rng)
    problem = streamed(kernel, points, np.zeros(points.shape[0]), Z, noise, jitter)
    white, known = problem.white, problem.accuracy
    residual = _Residual.of(problem)
    trace = float(normal_or_zero(problem.trace_above / problem.noise * (1.0 + 8.0 * EPS), problem.trace_above > 0.0))
    if residual.n == 0:  # every row of X is a row of Z, without jitter: K = Q
        trace, best = 0.0, Found(0.0, 0.0)
    elif residual.n <= DENSE:
        best = residual.by_eigenvalue()
    else:
        best = residual.by_row_sums() if residual.row_sums_work <= ROW_SUMS * most else Found()
        with bar("λ_max(K − Q)", None, "product", progress) as products:
            probed = _probed(residual, min(trace, best.above), share, source, most, products.update)
        best = best.and_probed(probed)
    above = min(trace, best.above)
    random = best.random and above < trace
    terms = {
        "lower": min(best.below, above),
        "estimate": min(max(best.estimate, 0.0), above),
        "trace": trace,
        "products": best.products,
        "jitter": white.jitter,
    }
    assumptions = with_jitter_named(white.jitter, (RANDOM,) if random else ()) + unproved(known)
    claim = "N-op, N-op-edge" if random else "N-op"
    return Bound(above, "upper", 1.0 - share if random else 1.0, claim, terms, assumptions, known.proved, QUANTITY)


@dataclass(frozen=True)
class Found:
    """Bounds on ε by one method, an estimate, the number of products with K, and whether probes decide."""

    above: float = math.inf
    below: float = 0.0
    estimate: float = 0.0
    products: int = 0
    random: bool = False

    def and_probed(self, other: Found) -> Found:
        """The better ends of a bound without probes and of one by probes."""
        random = other.above < self.above
        ends = min(self.above, other.above), max(self.below, other.below)
        return Found(*ends, max(self.estimate, other.estimate), other.products, random)


@dataclass(frozen=True, eq=False)
class _Residual:
    """G = K − VᵀV at the rows of X that are no rows of Z, V the computed L⁻¹k(Z, X).

    K − Q has the eigenvalues of its block at these rows, and 0.  Q₋ ⪯ Q ⪯ Q₊ are within ``below`` and ``above`` of VᵀV
    in the nuclear norm, so λ_max(G) − above ≤ λ_max(K − Q) ≤ λ_max(G) + below.  V is computed twice; where N-Q bounds
    ‖VᵀV − Q₋‖_* by b for the first V, it is at most 5b for the second: both are L⁻¹(Kuf + δ), ‖δ‖_F ≤ d, so they differ
    by at most 4dω + 4ψ²d² ≤ 4b.

    Attributes
    ----------
    X : array (n, D)
    V : array (M, n)
    below, above : float
        In squared units of y.
    """

    problem: Streamed
    X: Float
    V: Float
    below: float
    above: float

    @staticmethod
    def of(problem: Streamed) -> _Residual:
        white, known = problem.white, problem.accuracy
        X = white.X[~np.asarray(white.known)]
        columns = [V for _, V in white.inducing.chunks(X)]
        V = np.concatenate(columns, axis=1) if columns else np.zeros((white.M, 0))
        return _Residual(problem, X, V, 5.05 * known.below, 5.05 * known.above)

    @property
    def n(self) -> int:
        """Number of rows."""
        return int(self.X.shape[0])

    def ends(self, above: float, below: float, estimate: float, products: int = 0, random: bool = False) -> Found:
        """Bounds on ε from those on λ_max(G), in squared units of y."""
        noise = self.problem.noise
        high = float(normal_or_zero((above + self.below) / noise * (1.0 + 8.0 * EPS), above + self.below > 0.0))
        low = (below - self.above) / noise * (1.0 - 8.0 * EPS) if math.isfinite(self.above) else 0.0
        return Found(high, low if low >= SMALLEST else 0.0, estimate / noise, products, random)

    def by_eigenvalue(self) -> Found:
        """G is stored: a Cholesky factor and a Rayleigh quotient bound its largest eigenvalue (N-moment-rounding)."""
        from scipy.linalg import eigh

        n = self.n
        G = self.problem.white.inducing.kernel(self.X) - self.V.T @ self.V
        G = 0.5 * (G + G.T)
        off = 1.01 * n * (entry_off(self.problem) * self.problem.noise + 2.0 * U * float(np.abs(G).max()))
        values, vectors = eigh(G, subset_by_index=[n - 1, n - 1])
        w = vectors[:, 0]
        square = float(w @ w)
        quotient = float(w @ (G @ w)) / square
        rounded = 1.01 * gamma(2 * n + 8) * norm(G) / square
        return self.ends(largest_eigenvalue(G, float(values[0])) + off, quotient - rounded - off, quotient)

    @property
    def row_sums_work(self) -> float:
        """Flops of `by_row_sums`."""
        return float(self.n) ** 2 * (self.problem.white.M + 0.5 * ENTRY)

    def by_row_sums(self) -> Found:
        """The bounds of `moments` beyond 2000 rows: row sums, and ‖G‖_F with the trace."""
        problem, noise = self.problem, self.problem.noise
        diagonal = problem.white.residual[~np.asarray(problem.white.known)] / noise
        edge = Edge(diagonal)
        for rows, D, weight in residual_rows(problem, self.X, self.V / math.sqrt(noise), diagonal):
            edge.add(rows, D, weight)
        off = 1.01 * self.n * entry_off(problem)
        return self.ends((edge.above(problem) + off) * noise, 0.0, 0.0)


# Chebyshev's polynomials of G times random probes (N-op-edge).


@dataclass(eq=False)
class Chain:
    """W_(k+1) = a_k G W_k − b_k W_k − c_k W_(k−1) + e_k, ‖e_k‖_F ≤ η_k: powers of G, then Chebyshev's polynomials.

    With u the eigenvector of λ = λ_max(G), x_k = uᵀW_k obeys the recurrence with λ in place of G, so that

        p_k(λ)·|x_0| ≤ ‖W_k‖ + s_k(λ),   p_0 = 1,  s_0 = 0,  s_(k+1) = (a_kλ − b_k)s_k − c_k s_(k−1) + η_k,

    and |x_0|² ≥ q, the delta-quantile of χ², with probability 1 − delta.  (‖W_k‖ + s_k)/p_k decreases in λ ≥ ``end``,
    where θ = 2λ/end − 1 ≥ 1 is the argument of Chebyshev's polynomials: a λ' with p_k√q ≥ ‖W_k‖ + s_k there is at least
    λ (N-op-edge).
    """

    steps: list[tuple[float, float, float, float]] = field(default_factory=list)

    def at(self, value: float) -> tuple[float, float]:
        """p_k and s_k at λ = ``value``."""
        p, s, earlier = 1.0, 0.0, (0.0, 0.0)
        for a, b, c, error in self.steps:
            factor = a * value - b
            following = factor * p - c * earlier[0], factor * s - c * earlier[1] + error
            earlier, (p, s) = (p, s), following
        return p, s

    def above(self, size: float, quantile: float, end: float) -> float:
        """At least λ where |x_0|² ≥ ``quantile``, from ``size`` ≥ ‖W_k‖."""
        root = math.sqrt(quantile) * (1.0 - SAFE)

        def reached(value: float) -> bool:
            p, s = self.at(value)
            return p * root >= (size + s) * (1.0 + SAFE)

        low, high = end * (1.0 + SAFE), 2.0 * end
        if reached(low):
            return low
        while not reached(high):
            if not high < 1e9 * end:
                return math.inf
            low, high = high, 2.0 * high
        return float(halved(lambda value: not reached(value), low, high)[1])


def _probed(
    residual: _Residual,
    other: float,
    delta: float,
    generator: np.random.Generator,
    work: float,
    advance: Callable[[], Any],
) -> Found:
    """The bound by probes, where ``work`` affords it; ``other`` is an upper bound on ε without them."""
    from scipy.special import gammaincinv

    n, M, noise = residual.n, residual.problem.white.M, residual.problem.noise
    each = float(n) * n * (0.5 * ENTRY + 2.0 * PROBES) + 4.0 * n * M * PROBES
    steps = int(min(MOST, work / each))
    if steps < FEWEST:
        return Found()
    quantile = 2.0 * float(gammaincinv(0.5 * PROBES, delta)) * (1.0 - SAFE)
    product, chain = _Products(residual), Chain()
    W, before = generator.standard_normal((n, PROBES)), np.zeros((n, PROBES))
    size = max(float(residual.problem.sums.trace) / n, np.finfo(float).tiny)
    scale, end, above, below, estimate = 2.0 ** -round(math.log2(size)), 0.0, math.inf, 0.0, 0.0
    for step in range(steps):
        GW, off = product.times(W)
        advance()
        proved, quotient = _rayleigh(W, GW, off)
        below, estimate = max(below, proved), max(estimate, quotient)
        if not estimate > 0.0:  # nothing but rounding is left
            break
        if step < POWERS:
            a, b, c = scale, 0.0, 0.0
        else:
            end = estimate if step == POWERS else end
            a, b, c = (2.0 / end, 1.0, 0.0) if step == POWERS else (4.0 / end, 2.0, 1.0)
        error = a * off + 4.0 * U * (a * _norm(GW) + b * _norm(W) + c * _norm(before))
        chain.steps.append((a, b, c, 1.01 * error))
        W, before = a * GW - b * W - c * before, W
        if not float(np.abs(W).max()) < LARGE:  # errors that exceed λ_max(G) grow faster than its polynomials
            break
        if step >= POWERS:
            above = min(above, chain.above(_spectral(W), quantile, end))
        if min(above, other * noise) <= NEAR * below:
            break
    return residual.ends(above, below, estimate, len(chain.steps), random=True)


class _Products:
    """W ↦ GW for the computed V, with the Frobenius norm of its error."""

    def __init__(self, residual: _Residual) -> None:
        kernel, X, known = residual.problem.white.inducing.kernel, residual.X, residual.problem.accuracy
        self.K, self.V = Products(kernel, X, noise=0.0, memory=MEMORY), residual.V
        n, M = residual.n, int(self.V.shape[0])
        largest = float(kernel.largest_variance(X)) + known.entry
        unit = known.entry + largest * (self.K.entry_error + gamma(additions(n)))
        self.error = 1.02 * (n * unit + (gamma(CHUNK + n // CHUNK + 4) + gamma(M + 4)) * _norm(self.V) ** 2)

    def times(self, W: Float) -> tuple[Float, float]:
        """fl(GW), and at least ‖fl(GW) − GW‖_F: n·(error of an entry of K and of sums)‖W‖_F, γ‖V‖_F²‖W‖_F for VᵀVW."""
        inner = sum(self.V[:, rows] @ W[rows] for rows in slices(W.shape[0], CHUNK))
        GW = self.K.times(W) - self.V.T @ inner
        return GW, self.error * _norm(W) + 2.0 * U * _norm(GW)


def _rayleigh(W: Float, GW: Float, off: float) -> tuple[float, float]:
    """A proved lower bound on λ_max(G), and the Rayleigh quotient: of the best combination of the columns of W.

    With w = Wa + δ, |δ| ≤ γ‖W‖_F|a|, and r = GWa + ρ, |ρ| ≤ (off + γ‖GW‖_F)|a|, the exact quotient of Wa is at least
    (wᵀr − |δ||r| − (|w| + |δ|)|ρ|)/(|w| + |δ|)², and sums over the rows have the error γ.
    """
    n, m = W.shape
    lengths, basis = np.linalg.eigh(W.T @ W)
    kept = lengths > 1e-6 * lengths[-1]
    if not kept.any():
        return 0.0, 0.0
    directions = basis[:, kept] / np.sqrt(lengths[kept])
    inner = directions.T @ (W.T @ GW) @ directions
    a = directions @ np.linalg.eigh(0.5 * (inner + inner.T))[1][:, -1]
    w, r, size = W @ a, GW @ a, _norm(a)
    in_w, in_r = gamma(m + 2) * _norm(W) * size, (off + gamma(m + 2) * _norm(GW)) * size
    length, image, value = _norm(w), _norm(r), float(w @ r)
    error = 1.01 * (in_w * image + (length + in_w) * in_r + gamma(n + 4) * length * image)
    square = float(w @ w)
    below = (value - error) / (square * (1.0 + gamma(n + 4)) + 2.01 * in_w * length) * (1.0 - 8.0 * EPS)
    return max(below, 0.0), value / square


def _spectral(W: Float) -> float:
    """At least the spectral norm of W (n, m)."""
    gram = W.T @ W
    largest = largest_eigenvalue(gram, float(np.linalg.eigvalsh(gram)[-1]))
    return math.sqrt(largest + gamma(W.shape[0] + 4) * _norm(W) ** 2) * (1.0 + 4.0 * EPS)


def _norm(A: Array) -> float:
    """At least the Frobenius norm."""
    return 1.01 * norm(A)
