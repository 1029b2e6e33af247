"""Bounds on log p(y) at large N, without a factor of K + σ²I (N-vecchia, N-slq, N-edge, N-slqtail, N-quad)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from gpbounds.arrays import EPS, Array, as_points, distinct_rows, host, namespace
from gpbounds.bound import Bound
from gpbounds.interval import Interval, possible
from gpbounds.iterative.log_det import EDGE, LEAST, TraceLog, TwoDepths, edges, joined, trace_log
from gpbounds.iterative.probes import fresh
from gpbounds.kdpp import select
from gpbounds.kernels import Kernel
from gpbounds.kernels.base import as_kernel
from gpbounds.kernels.tiles import Products, additions
from gpbounds.linalg.krylov import Lanczos, Tridiagonal, gauss, radau
from gpbounds.overflow import within_doubles
from gpbounds.progress import bar
from gpbounds.renyi.accuracy import U, gamma
from gpbounds.renyi.blocks import absolute_products, two_sided
from gpbounds.renyi.streamed import Streamed, streamed
from gpbounds.row_noise import UnitNoise, noise_per_row
from gpbounds.validation import count, noise_variance, open_unit, positive, scalar
from gpbounds.vecchia import Factor, factor, log_det_error, near
from gpbounds.whitening import as_targets, sums_of_squares

# Bounds on log p(y) at large N, without a factor of K + σ²I (N-vecchia, N-slq, N-edge, N-slqtail, N-quad).

QUANTITY = "log p(y)"
PROBES, MOST, AT_ONCE = 256, 4096, 128
"""Default number of probes, the most that ``width`` may use, and the columns of a product."""
NEIGHBOURS, FROM = 1500, 25_000
"""Default p, and the number of rows up to which it is the default."""
_PILOT = 4
"""Probes that fix c₀, c₁ and q."""
STEPS, DEEP, DEEPEST = 8, 24, 80
"""Least steps of the pilot and of the deep probes, most with an a > 0 that is proved, and most of all."""
GAP, SIZE, REACH, SMALL = 0.1, 0.025, 1.5, 1e-6
"""Gap of the quadratures of log and largest value of D, in Frobenius norms of all probes' matrix; the latter in its
values at Ritz values, or as a number."""
INDUCING = 300
"""Greedy inducing points of the Q that ends the quadratic form."""
DRAWS = 64
"""Most draws of all probes, if the bounds of each contradict each other."""
SOLVED = 0.03
"""Standard errors of the probes, or tenths of a nat, to which the quadratic form is solved before it is bounded."""
CLOSE = 2e-6
"""Nats a row between the ends of ½yᵀ(K + σ²I)⁻¹y that need no sharper bound on rounding."""


@dataclass(frozen=True, eq=False)
class _Preconditioned:
    """The data in the order of the blocks, with U, products with K + σ²I, and B = U(K + σ²I)Uᵀ."""

    U: Factor
    K: Products
    Y: Array
    advance: Callable[[], Any] | None = None

    @property
    def N(self) -> int:
        """Number of data."""
        return self.U.N

    def times(self, V: Array) -> Array:
        """BV for V (N, m)."""
        if self.advance is not None:
            self.advance()
        return self.U.times(self.K.times(self.U.transposed_times(V)))

    def probes(self, rng: np.random.Generator, count: int) -> Array:
        """``count`` columns of independent standard normals."""
        return namespace(self.Y).asarray(rng.standard_normal((self.N, count)))


@noise_per_row(UnitNoise.of_probed_evidence)
@within_doubles
def evidence(
    kernel: Kernel,
    X: ArrayLike,
    y: ArrayLike,
    *,
    noise: Any,
    delta: float = 0.05,
    width: float | None = None,
    rng: np.random.Generator | int | None = None,
    probes: int = PROBES,
    block: int = 250,
    neighbours: int | None = None,
    memory: float = 2.0**31,
    progress: bool = False,
) -> Interval:
    """Lower and upper bound on log p(y) = log N(y; 0, K + σ²I) that hold together with probability 1 − delta.

        log p(y) = −½(N log 2π + log|P| + tr log B + yᵀ(K + σ²I)⁻¹y),  P⁻¹ = UᵀU,  B = U(K + σ²I)Uᵀ

    U is a block Vecchia factor, for which tr B = N whatever the blocks are; hence log|K + σ²I| ≤ log|P| with certainty,
    and tr log B is small and has a small variance over probes (N-vecchia). Lanczos and Gauss–Radau quadrature bound
    zᵀf(B)z for each of a few deep probes z (N-slq), with bounds on the eigenvalues (N-edge); the other probes see the
    part of f that is a polynomial of degree 4, which two steps give exactly, and which has most of the variance.
    Explicit tails bound the sum over the probes (N-slqtail). Any approximate solution for y bounds the quadratic form
    (N-quad). Only the probes are random: the statement holds for hyperparameters fitted to these data, but not with
    probes that were used to fit them.

    Rounding is proved for entries of K, the quadratic form at any solution (N-quad), log|P| and log|Q + σ²I|. For the
    probes' part it is assumed: that T_k, fully orthogonalised, is exact for a matrix between (1 − r) and (1 + r)
    times K + σ²I, r = ((4 + √N)·2⁻⁵² + error of entries)(1 + λ_max(Q)/σ²), for which −N log(1 − r) is added at both
    ends (√N: signs are independent; λ_max(Q): about λ_max(K)); that eigenvalues of T_k and tails err by far less than
    the tails are wide; that NumPy's normals are normal.

    Cost: (8 to 24 steps, at most 80, of 20 probes and y, 2 of all others, 128 at once)·2N² flops a column, N²/2 kernel
    entries a step unless K is stored, N(p + b)³/(3b) for U, b = ``block`` and p = ``neighbours``.  Memory in bytes:
    8N(p + b) for U, 8N·2000 for probes, and at most ``memory`` for K.

    Parameters
    ----------
    kernel : Kernel
    X : array (N, D), NumPy or CuPy
    y : array (N,) or (N, P)
        P outputs share the kernel: their log evidences add.
    noise : float or array (N,)
        σ², in squared units of y; an array: s_i², one noise variance for each row (N-rows-noise).
    delta : float
        Probability with which one of the two bounds may fail.
    width : float, optional
        Largest distance between the bounds, in nats.  The number of ``probes`` is doubled until it is reached, up to
        4096; the assumptions say so where it is not.
    rng : numpy.random.Generator or int, optional
        Source of the probes and of the order of the blocks.  The probes of training (`Probes`) are refused.
    probes : int
        At least 2; 16 of them are deep, or more where that pays.  The distance between the bounds falls about as
        1/√probes.
    block, neighbours : int
        b and p.  More neighbours narrow the bounds.  By default p = 1500 up to N = 25 000, and from there on p + 250
        grows as N^0.45: at N = 100 000, U takes a tenth of the time, and 2.6 GB.
    memory : float
        Bytes: K is stored if 4N² is at most that.
    progress : bool
        Show a bar that counts the products with B.

    Returns
    -------
    (Bound, Bound)
        Lower, upper.  ``terms``: "log|K|" (the interval's two ends), "log|P|", "estimate" of log|K| and its "standard
        error", "quadratic" (two ends), "eigenvalues of B" (a, b), "probes", "steps", "rounding" (part of "log|K|").

    Raises
    ------
    ValueError
        for wrong arguments, a noise variance below the rounding error of K, or the probes of training as ``rng``.
    NotPositiveDefinite
        if (K + σ²I) of a block does not factorise.

    >>> from gpbounds.kernels import SquaredExponential
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(0.0, 20.0, (400, 1))
    >>> y = np.sin(X[:, 0]) + 0.3 * rng.standard_normal(400)
    >>> lower, upper = evidence(SquaredExponential(), X, y, noise=0.09, block=50, neighbours=50, rng=1)
    >>> from gpbounds.renyi import log_evidence
    >>> truth = log_evidence(SquaredExponential(), X, y, noise=0.09)
    >>> bool(lower <= truth <= upper and upper - lower < 0.5)
    True
    """
    as_kernel(kernel)
    share, variance = scalar(open_unit, "delta", delta), noise_variance(noise)
    wanted = None if width is None else scalar(positive, "width", width)
    generator = fresh(rng)
    points = as_points(X, "X").astype(np.float64, copy=False)
    targets = as_targets(y, points)
    sums_of_squares(targets)
    columns = targets[:, None] if targets.ndim == 1 else targets
    p = _neighbours(int(points.shape[0])) if neighbours is None else count("neighbours", neighbours, 0)
    sizes, first = {"block": count("block", block), "neighbours": p}, count("probes", probes, 2)
    with bar("log p(y)", None, "product", progress) as products:
        problem = _problem(kernel, points, columns, variance, generator, scalar(positive, "memory", memory), **sizes)
        return _enclosed(kernel, replace(problem, advance=products.update), variance, generator, share, wanted, first)


def _enclosed(
    kernel: Kernel,
    problem: _Preconditioned,
    variance: float,
    generator: np.random.Generator,
    share: float,
    wanted: float | None,
    first: int,
) -> Interval:
    """`evidence`, for checked arguments and a problem.

    Two ends that contradict each other show that these probes are among the share δ that may fail: others are drawn.
    If a share a ≤ δ contradicts itself, the share of failures among the rest is at most (δ − a)/(1 − a) ≤ δ.
    """
    certificate = _certificate(kernel, problem, variance)
    allowed = _allowance(certificate, problem)
    for _ in range(DRAWS):
        determinant = _Determinant(problem, generator, share, first)
        quadratic = _quadratic(certificate, problem, determinant.solved)
        trace = determinant.until(None if wanted is None else wanted - (quadratic[1] - quadratic[0]))
        lower, upper = _bounds(problem, certificate, allowed, trace, determinant, quadratic, share, wanted)
        if float(lower) <= float(upper):
            break
    return possible((lower, upper))


def _neighbours(N: int) -> int:
    """Default p.  Measured (SE, 8 inputs, noise .1): the half width falls as p^−1.1, and grows as N^1.1 for equal p.

    >>> _neighbours(10_000), _neighbours(25_000), _neighbours(100_000)
    (1500, 1500, 3016)
    """
    return max(NEIGHBOURS, round((NEIGHBOURS + 250) * (N / FROM) ** 0.45) - 250)


def _problem(
    kernel: Kernel,
    X: Array,
    Y: Array,
    noise: float,
    rng: np.random.Generator,
    memory: float,
    *,
    block: int,
    neighbours: int,
) -> _Preconditioned:
    blocks = near(kernel, X, block=block, neighbours=neighbours, rng=rng)
    order = namespace(X).asarray(blocks.order)
    ordered = X[order]
    return _Preconditioned(
        factor(kernel, ordered, noise=noise, blocks=blocks),
        Products(kernel, ordered, noise=noise, memory=memory),
        Y[order],
    )


def _certificate(kernel: Kernel, problem: _Preconditioned, noise: float) -> Streamed:
    """Q of greedy inducing points."""
    X = problem.K.X
    chosen = select(kernel, host(X), min(INDUCING, distinct_rows(X)), trace=1e-3 * noise).Z
    chosen = chosen if len(chosen) else host(X)[:1]  # noise far above the variances explains every row
    return streamed(kernel, X, problem.Y, namespace(X).asarray(chosen), noise, "auto")


def _begun(
    problem: _Preconditioned, rng: np.random.Generator, delta: float, probes: int
) -> tuple[Tridiagonal, Tridiagonal, Array]:
    """Lanczos matrices of the pilot and of the first deep probes, and V ≈ (K + σ²I)⁻¹Y; they share the products with K.

    The probes stop when they prove an a > 0 with which the quadratures of log are near each other and no value of D
    is large: with probability 1 − delta, a holds for every number of steps at once (N-edge).
    """
    xp, ends = namespace(problem.Y), np.cumsum([_PILOT, min(LEAST, probes)])
    start = xp.concatenate([problem.probes(rng, int(ends[1])), problem.U.times(problem.Y)], axis=1)
    run = Lanczos(problem.times, start)
    run.advance(STEPS)
    while True:
        T = run.tridiagonal()
        pilot, deep = T.columns(slice(0, ends[0])), T.columns(slice(ends[0], ends[1]))
        if T.steps >= DEEPEST or _deep_enough(deep, pilot, problem.N, delta, probes):
            break
        run.advance(2)
    solving = run.only(slice(ends[1], None))
    allowed = SOLVED * max(0.1, math.sqrt(0.5 * problem.N * TwoDepths.of(pilot, probes).square))
    while True:
        T = solving.tridiagonal()
        first = np.zeros((*T.diagonal.shape, 1))
        first[:, 0, 0] = np.sqrt(T.squares)
        coefficients = np.linalg.solve(T.matrices(), first)[:, :, 0].astype(np.float64)
        left = (T.beside[:, -1] * coefficients[:, -1]) ** 2
        if 0.5 * float(left.sum()) <= allowed * max(1e-3, float(gauss(T).points.min())) or T.steps >= DEEPEST:
            return pilot, deep, problem.U.transposed_times(solving.combined(coefficients))
        solving.advance(2)


def _deep_enough(deep: Tridiagonal, pilot: Tridiagonal, N: int, delta: float, probes: int) -> bool:
    low, high = edges(joined([pilot, deep]), delta=EDGE * delta)
    low = min(low, (1.0 - 1e-6) * float(gauss(deep).points.min()))
    if low <= 0.0:
        return False
    split = TwoDepths.of(pilot, probes)
    norm = math.sqrt(N * split.square)
    gaps = gauss(deep).of(np.log) - radau(deep, low).of(np.log)
    seen = gauss(deep).points
    size, least = (float(np.abs(split.ends(*ends)[0]).max()) for ends in ((low, high), (seen.min(), seen.max())))
    return float(gaps.mean()) <= GAP * norm and (size <= max(SIZE * norm, REACH * least, SMALL) or deep.steps >= DEEP)


def _quadratic(certificate: Streamed, problem: _Preconditioned, V: Array) -> tuple[float, float]:
    """The two ends of yᵀ(K + σ²I)⁻¹y, summed over the outputs, with proved rounding (N-quad, N-solve-rounding).

    The product is that of `Products`; where the bound on its rounding matters, K is computed once more, with |K||V|.
    """
    K, entry, xp = problem.K, certificate.accuracy.entry, namespace(V)
    product, terms = K.times(V), additions(problem.N) if xp is np else problem.N + 16
    largest = float(K.kernel.largest_variance(K.X)) + entry
    each = 1.02 * (entry + largest * (K.kernel.products_error(int(K.X.shape[1])) + gamma(terms)))
    off = each * xp.abs(V).sum(axis=0) + 8.0 * U * (K.noise * xp.abs(V) + xp.abs(product))
    below, above = two_sided(certificate, V, product, off, certificate.trace_above)
    if not float((above - below).sum()) <= CLOSE * problem.N:
        product, off = absolute_products(K.kernel, K.X, V, entry, noise=K.noise)
        below, above = two_sided(certificate, V, product, off, certificate.trace_above)
    return 2.0 * float(below.sum()), 2.0 * float(above.sum())


def _allowance(certificate: Streamed, problem: _Preconditioned) -> float:
    """Allowance for the rounding of log|K + σ²I|, proved for log|P|, assumed for the probes' part; see `evidence`.

    Raises
    ------
    ValueError
        if rounding may make K + σ²I indefinite.
    """
    N, noise, largest = problem.N, certificate.noise, float(certificate.spectrum.values[0])
    unit = (4.0 + math.sqrt(N)) * EPS + problem.K.entry_error
    relative = unit * (1.0 + largest / noise)
    if not relative <= 0.5:
        raise ValueError(
            f"noise: expected σ² above twice the rounding error of K, {unit * largest:.3g}, got {noise:.3g}: rounding "
            "may make K + σ²I indefinite. Use a larger noise variance."
        )
    variance = float(problem.K.kernel.largest_variance(problem.K.X))
    of_factor = log_det_error(problem.U, variance, certificate.accuracy.entry, noise=noise)
    return of_factor - N * math.log1p(-relative)


class _Determinant:
    """Rounds of probes, each of which doubles their number and has its share of δ.

    Attributes
    ----------
    solved : array (N, P)
        V ≈ (K + σ²I)⁻¹Y.
    """

    def __init__(self, problem: _Preconditioned, rng: np.random.Generator, delta: float, probes: int) -> None:
        self.problem, self.rng, self.delta, self.probes = problem, rng, delta, probes
        self.pilot, first, self.solved = _begun(problem, rng, delta, probes)
        self.deep, self.steps = [first], first.steps
        self.others: list[Tridiagonal] = []
        self.enough = True

    def until(self, width: float | None) -> TraceLog:
        """The interval for tr log B: from the first probes, or from as many as −½P·tr log B needs for ``width``."""
        N, P = self.problem.N, int(self.problem.Y.shape[1])
        if self.problem.U.blocks.complete:
            return TraceLog(0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 1.0, norm=0.0, probes=0)
        trace, number, probes = None, 1, self.probes
        while True:
            n = TwoDepths.of(self.pilot, probes).deep
            self._take(self.deep, n, self.steps)
            self._take(self.others, probes - n, 2)
            share = self.delta if width is None else self.delta / (number * (number + 1))
            others = joined(self.others) if self.others else None
            latest = trace_log(joined(self.deep), others, self.pilot, N, delta=share)
            trace = latest if trace is None or latest.high - latest.low < trace.high - trace.low else trace
            self.enough = width is None or 0.5 * P * (trace.high - trace.low) <= width
            if self.enough or probes >= MOST:
                return trace
            number, probes = number + 1, 2 * probes

    def _take(self, parts: list[Tridiagonal], count: int, steps: int) -> None:
        """Lanczos matrices of new probes, so that there are ``count``."""
        while (missing := count - sum(part.squares.size for part in parts)) > 0:
            run = Lanczos(self.problem.times, self.problem.probes(self.rng, min(AT_ONCE, missing)))
            run.advance(steps)
            parts.append(run.tridiagonal())


def _bounds(
    problem: _Preconditioned,
    certificate: Streamed,
    allowed: float,
    trace: TraceLog,
    determinant: _Determinant,
    quadratic: tuple[float, float],
    delta: float,
    width: float | None,
) -> tuple[Bound, Bound]:
    N, P = problem.N, int(problem.Y.shape[1])
    upper = problem.U.log_det + trace.high + allowed
    own = certificate.log_det - N * math.log(2.0 * math.pi) - certificate.log_det_error
    lower = max(own, problem.U.log_det + trace.low - allowed)
    terms: dict[str, Any] = {
        "log|K|": np.array([lower, upper]),
        "log|P|": problem.U.log_det,
        "estimate": problem.U.log_det + trace.estimate,
        "standard error": trace.spread,
        "quadratic": np.array(quadratic),
        "eigenvalues of B": np.array([trace.least, trace.greatest]),
        "probes": trace.probes,
        "steps": determinant.steps,
        "rounding": 0.5 * P * allowed,
    }
    constant = N * P * math.log(2.0 * math.pi)
    assumptions = [
        "The model of y is the Gaussian process with this kernel and this noise variance.",
        "The random probes are independent of y and of the hyperparameters.",
        "Both bounds hold at the same time with this probability.",
        "The rounding of the probes' part of log|K + σ²I| is allowed for, and not proved.",
    ]
    if trace.low == -math.inf:
        assumptions.append("The probes prove no positive lower bound on the eigenvalues of B: take more neighbours.")
    if not determinant.enough:
        assumptions.append(f"{trace.probes} probes do not reach width = {width:g}: take more neighbours.")

    def bound(end: float, form: float, side: Literal["lower", "upper"]) -> Bound:
        parts, outwards = (constant, P * end, form), 1.0 if side == "lower" else -1.0
        off = 4.0 * EPS * sum(map(abs, parts))  # three roundings of this sum
        value = -0.5 * (sum(parts) + outwards * off)
        return Bound(value, side, 1.0 - delta, "N-slq", terms, tuple(assumptions), quantity=QUANTITY)

    return bound(upper, quadratic[1], "lower"), bound(lower, quadratic[0], "upper")
