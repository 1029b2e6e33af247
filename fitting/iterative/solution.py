"""log|K + σ²I| by a block Vecchia factor and probes, and (K + σ²I)⁻¹Y, for one kernel and noise.

With P⁻¹ = UᵀU, B = U(K + σ²I)Uᵀ, tr B = N and probes of length √N (N-vecchia),

    log|K + σ²I| ≈ H = log|P| + mean_i z_iᵀf(B)z_i,    f(x) = log x − (x − 1).

f has a double zero at 1: value and derivative of the mean are of second order in B − I.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gpbounds.arrays import Array, Float, namespace
from gpbounds.errors import NonFinite, NotPositiveDefinite
from gpbounds.exact import factor_noisy
from gpbounds.iterative.probes import Probes
from gpbounds.iterative.solves import BLOCK, NEIGHBOURS
from gpbounds.kernels import Kernel
from gpbounds.kernels.covariances import covariances
from gpbounds.kernels.fused import Fused
from gpbounds.kernels.tiles import Products
from gpbounds.linalg.krylov import Lanczos, Tridiagonal, gauss, radau
from gpbounds.linalg.parallel import share
from gpbounds.linalg.products import product
from gpbounds.linalg.triangular import lift_rows, solve_rows
from gpbounds.linalg.workspace import Workspace
from gpbounds.once import cached_property
from gpbounds.readings import Readings, Unread
from gpbounds.vecchia import Blocks, Factor, factor, near
from gpbounds.vecchia.blocks import scales
from gpbounds.vecchia.factor import lower_chunks

# What stays the same while an objective is trained: the order of the rows, conditioning sets, probes, Lanczos steps.
#
# The estimate of log|K + σ²I| is then one smooth function of the hyperparameters, which an optimiser can follow.

PROBES = 16
"""Random vectors of an estimate."""
_MOVED = 2.0
"""Factor by which a lengthscale may change before the rows are put into other blocks."""


@dataclass(frozen=True, eq=False)
class Layout:
    """A frozen choice of blocks, probes and steps for the rows X (N, D).

    Attributes
    ----------
    blocks : Blocks
    probes : array (N, m)
        In the order of the blocks; each has length √N, so that zᵀAz does not vary with the mean of A's eigenvalues.
    scales : array (D,)
        The lengthscales by which rows are near each other.
    seed : Probes
        The source of the probes, which `gpbounds.iterative.evidence` refuses.
    steps : int
        Lanczos steps; 0 where they are still to be chosen.
    """

    blocks: Blocks
    probes: Array
    scales: Float
    seed: Probes
    steps: int = 0

    @property
    def N(self) -> int:
        """Number of rows."""
        return int(self.blocks.order.size)

    @property
    def m(self) -> int:
        """Number of probes; a complete factor needs none."""
        return int(self.probes.shape[1])

    def is_stale(self, kernel: Kernel, X: Float) -> bool:
        """Whether a lengthscale of ``kernel`` differs by more than a factor of 2 from that of the blocks."""
        if self.blocks.complete:
            return False
        return bool(np.abs(np.log(scales(kernel, X) / self.scales)).max() > math.log(_MOVED))

    def with_steps(self, steps: int) -> Layout:
        """The same layout with that many Lanczos steps."""
        return replace(self, steps=steps)


def layout(
    kernel: Kernel,
    X: Array,
    seed: Probes,
    *,
    block: int = BLOCK,
    neighbours: int = NEIGHBOURS,
) -> Layout:
    """Blocks of near rows for ``kernel``, and probes from ``seed``; a row keeps its entries of the probes in any order.

    >>> from gpbounds.kernels import SquaredExponential
    >>> chosen = layout(SquaredExponential(), np.arange(6.0)[:, None], Probes((0,), 4), block=2, neighbours=2)
    >>> len(chosen.blocks.parts), (chosen.probes**2).sum(axis=0).round(12).tolist()
    (4, [6.0, 6.0, 6.0, 6.0])
    """
    xp, generator = namespace(X), seed.generator()
    N = int(X.shape[0])
    draws = generator.standard_normal((N, seed.count))
    draws *= math.sqrt(N) / np.sqrt((draws * draws).sum(axis=0))
    blocks = near(kernel, X, block=block, neighbours=neighbours, rng=generator)
    if blocks.complete:
        draws = draws[:, :0]
    host_points = np.asarray(X.get() if xp is not np else X)
    return Layout(blocks, xp.asarray(draws[blocks.order]), np.array(scales(kernel, host_points)), seed)


# log|K + σ²I| by a block Vecchia factor and probes, and (K + σ²I)⁻¹Y, for one kernel and noise.

MEMORY = 2.0**31
"""Bytes: K is kept if it needs no more, and so are the Cholesky factors of the blocks."""
SOLVED = 1e-4
"""Nats to which yᵀ(K + σ²I)⁻¹y is computed; the error of the weights is of the order of its root."""
LEAST, MOST = 6, 40
"""Least and largest number of Lanczos steps of the probes."""
DEEPEST = 400
"""Largest number of Lanczos steps of the columns of Y."""
NARROW = 0.01
"""Largest mean distance between Gauss and Gauss–Radau quadratures, in standard errors over the probes."""


def _residual_log(x: Float) -> Float:
    """f(x) = log x − (x − 1) ≤ 0."""
    return np.log(x) - (x - 1.0)


def _divided_differences(x: Float) -> Float:
    """f[x_i, x_j] of f(x) = log x − (x − 1), for x (..., k); shape (..., k, k).

    >>> _divided_differences(np.array([1.0, 2.0])).round(4)
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
    """Columns a_c with weights w_c: Σ_c w_c a_c a_cᵀ is the part of ∂H/∂K at fixed U.

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
        return gauss(self.tridiagonal).of(_residual_log) if self.layout.m else np.zeros(0)

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
        core = _divided_differences(theta) * first[:, :, None] * first[:, None, :]
        weights, E = np.linalg.eigh(S @ core @ S.transpose(0, 2, 1))
        kept = np.abs(weights) > 1e-13 * np.abs(weights).max(axis=1, keepdims=True)
        number, which = np.nonzero(kept)
        starts = np.searchsorted(number, np.arange(m + 1))
        moved = None if xp is np else xp.asarray(E[number, :, which].T)  # (steps, columns), at once

        def combined(parts: list[Array]) -> Array:
            out = xp.empty((N, number.size))

            def combine(i: int, worker: int) -> None:
                columns = slice(starts[i], starts[i + 1])
                recurrence = xp.stack([part[:, chosen[i]] for part in parts])  # (steps, N)
                out[:, columns] = recurrence.T @ (E[i][:, which[columns]] if moved is None else moved[:, columns])

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
    """Whether more steps would change H by much less than its standard error, or by ``within`` times that much."""
    return solved.layout.m == 0 or _narrow(solved.tridiagonal, within)


def _narrow(T: Tridiagonal, within: float = 1.0) -> bool:
    nodes = gauss(T)
    above, below = nodes.of(_residual_log), radau(T, 0.9 * float(nodes.points.min())).of(_residual_log)
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


# Derivatives of H and of log N(y; 0, K + σ²I) in the parameters of the kernel and in the noise.
#
# H is a function of K through log|P|, through K in B = U(K + σ²I)Uᵀ and through U.  For block j with rows c = (S_j,
# B_j), Cholesky factor L of (K + σ²I)[c, c] and row block W of U (the last rows of L⁻¹),
#
#     ∂log|P| = ⟨WᵀW, ∂K[c, c]⟩,    ∂W = −Φ(L⁻¹∂K L⁻ᵀ)L⁻¹ restricted to these rows,
#
# Φ the lower triangle with half of the diagonal.  A cotangent W̄ hence gives −WᵀT L⁻¹ for K[c, c], T the part of W̄L⁻ᵀ
# that Φ keeps.  With G = Σ w qqᵀ the cotangent of B, W̄ is row block j of 2GU(K + σ²I), on the columns c.


@dataclass(frozen=True, eq=False)
class Cotangent:
    """A symmetric matrix C such that ⟨C, ∂(K + σ²I)⟩ is a derivative: factors a_c, targets t_p, parts of the blocks.

    Attributes
    ----------
    columns : Columns or None
        Of H; they enter the blocks as well.
    whole : float
        The factor of H.
    targets : array (N, P) or None
        t; their part is ``half``·Σ_p t_p t_pᵀ.
    half : float
    deterministic : bool
        Whether log|P| is part of H.
    """

    columns: Columns | None
    whole: float = 0.0
    targets: Array | None = None
    half: float = 0.0
    deterministic: bool = True

    def sides(self) -> tuple[Array, Array] | None:
        """(left, right): the low-rank part is left·rightᵀ."""
        lefts, rights = [], []
        if self.columns is not None:
            lefts.append(self.columns.pulled * (self.whole * self.columns.weights))
            rights.append(self.columns.pulled)
        if self.targets is not None:
            lefts.append(self.half * self.targets)
            rights.append(self.targets)
        if not lefts:
            return None
        xp = namespace(lefts[0])
        return xp.concatenate(lefts, axis=1), xp.concatenate(rights, axis=1)


_Visit = Callable[[int, Array, Array], None]
"""(number of the cotangent, rows c, its part (c, c), which may be overwritten)."""


def of_evidence(solved: Solution, columns: Columns | None, *, deterministic: bool = True) -> Cotangent:
    """The cotangent of log N(y; 0, K + σ²I), Σ_p over the outputs."""
    P = solved.weights.shape[1]
    return Cotangent(columns, -0.5 * P, solved.weights, 0.5, deterministic)


def pulled(solved: Solution, cotangents: Sequence[Cotangent], visit: _Visit | None = None) -> Float:
    """Derivatives in the kernel's `log_parameters` and in log σ², shape (number of cotangents, p + 1).

    ``visit`` gets the part of each block, for derivatives in parameters that ``kernel`` does not have.
    """
    total = _blocks(solved, cotangents, visit) + _rows(solved, [each.sides() for each in cotangents])
    total[:, -1] *= solved.noise
    return total


def _blocks(solved: Solution, cotangents: Sequence[Cotangent], visit: _Visit | None) -> Float:
    xp, blocks, kernel, X = namespace(solved.X), solved.layout.blocks, solved.kernel, solved.X
    known = covariances(kernel, X[:1])
    if isinstance(known, Fused):
        return _blocks_on_device(solved, cotangents, visit, known)
    results = np.zeros((len(blocks.parts), len(cotangents), kernel.log_parameters.size + 1))

    def pull(number: int, worker: int) -> None:
        part, chosen, W = blocks.parts[number], blocks.sets[number], solved.U.weights[number]
        rows = xp.asarray(np.concatenate([chosen, np.arange(part.start, part.stop)]))
        n, b = int(rows.size), part.stop - part.start
        points, chunks = X[rows], lower_chunks(n, xp)
        K = [
            kernel.fill(points[some], points[: some.stop], xp.empty((some.stop - some.start, some.stop)))
            for some in chunks
        ]
        L: Any = None if solved.U.roots is None else solved.U.roots[number]
        for i, each in enumerate(cotangents):
            change = each.whole * W if each.deterministic else xp.zeros_like(W)
            if each.columns is not None:
                L = _root(K, chunks, solved.noise) if L is None else L
                left = each.columns.start[part] * (2.0 * each.whole * each.columns.weights)
                T = solve_rows(L, xp.ascontiguousarray(left @ each.columns.image[rows].T))
                _halve_corner(T[:, n - b :])
                change = change - lift_rows(L, T)
            results[number, i, -1] = float((W * change).sum())
            if visit is not None:
                visit(i, rows, W.T @ change)
            both, turned = xp.concatenate([W, change]), xp.concatenate([change, W])  # WᵀΔ + ΔᵀW
            for some, values in zip(chunks, K, strict=True):
                cotangent = both[:, some].T @ turned[:, : some.stop]
                _halve_corner(cotangent[:, some])
                results[number, i, :-1] += kernel.pull(points[some], points[: some.stop], cotangent, values)[0]

    if any(each.columns is not None or each.deterministic for each in cotangents):
        _each(xp, len(blocks.parts), pull)
    return results.sum(axis=0)


def _root(K: Sequence[Array], chunks: Sequence[slice], noise: float) -> Array:
    """The Cholesky factor of K + σ²I, from the chunks of K's lower triangle."""
    n = chunks[-1].stop
    noisy = namespace(K[0]).zeros((n, n))
    for some, values in zip(chunks, K, strict=True):
        noisy[some, : some.stop] = values
    noisy.reshape(-1)[:: n + 1] += noise
    return factor_noisy(noisy, noise).L


def _halve_corner(corner: Array) -> Array:
    """``corner``, square, with 0 above its diagonal and half of the diagonal."""
    xp = namespace(corner)
    corner[...] = xp.tril(corner)
    steps = xp.arange(corner.shape[0])
    corner[steps, steps] *= 0.5
    return corner


def _rows(solved: Solution, sides: Sequence[tuple[Array, Array] | None]) -> Float:
    """The low-rank parts, by rows [i, j) × [0, j) of the lower triangle."""
    xp, kernel, X, parts = namespace(solved.X), solved.kernel, solved.X, solved.K.parts
    known = covariances(kernel, X[:1])
    if isinstance(known, Fused):
        return _rows_on_device(solved, sides, known)
    results = np.zeros((len(parts), len(sides), kernel.log_parameters.size + 1))
    turned = [None if pair is None else xp.ascontiguousarray(pair[1].T) for pair in sides]

    def pull(task: int, worker: int) -> None:
        number = len(parts) - 1 - task  # the longest first
        rows = parts[number]
        points, earlier, n = X[rows], X[: rows.stop], rows.stop - rows.start
        K = solved.K.block(number)
        for i, pair in enumerate(sides):
            if pair is None:
                continue
            left, right = pair[0][rows], turned[i]
            cotangent = product(2.0 * left, right[:, : rows.stop], xp.empty((n, rows.stop)))  # type: ignore[index]
            corner = _halve_corner(cotangent[:, rows])
            results[number, i, -1] = float(xp.trace(corner))
            results[number, i, :-1] = kernel.pull(points, earlier, cotangent, K)[0]

    _each(xp, len(parts), pull)
    return results.sum(axis=0)


def _blocks_on_device(solved: Solution, cotangents: Sequence[Cotangent], visit: _Visit | None, known: Fused) -> Float:
    """`_blocks` where the kernel has a formula on a GPU; nothing is read until the end."""
    X, blocks = solved.X, solved.layout.blocks
    xp, sums, noises = namespace(X), [known.pulling() for _ in cotangents], [0.0 * X[0, 0] for _ in cotangents]
    if any(each.columns is not None or each.deterministic for each in cotangents):
        numbers, ends = xp.asarray(np.concatenate(blocks.rows)), np.cumsum([0, *(len(rows) for rows in blocks.rows)])
        for number, part in enumerate(blocks.parts):
            rows, W = numbers[ends[number] : ends[number + 1]], solved.U.weights[number]
            points, n, b = X[rows], int(rows.size), part.stop - part.start
            L: Any = None if solved.U.roots is None else solved.U.roots[number]
            for i, each in enumerate(cotangents):
                change = each.whole * W if each.deterministic else xp.zeros_like(W)
                if each.columns is not None:
                    L = _root([known.blocks(points, n)[0]], [slice(0, n)], solved.noise) if L is None else L
                    left = each.columns.start[part] * (2.0 * each.whole * each.columns.weights)
                    T = solve_rows(L, xp.ascontiguousarray(left @ each.columns.image[rows].T))
                    _halve_corner(T[:, n - b :])
                    change = change - lift_rows(L, T)
                noises[i] = noises[i] + (W * change).sum()
                outer = W.T @ change
                if visit is not None:
                    visit(i, rows, outer.copy())
                sums[i].add_block(points, 0.5 * (outer + outer.T))
    return _read([each.result()[0] for each in sums], noises)


def _rows_on_device(solved: Solution, sides: Sequence[tuple[Array, Array] | None], known: Fused) -> Float:
    """`_rows` where the kernel has a formula on a GPU; nothing is read until the end."""
    X, xp = solved.X, namespace(solved.X)
    none = np.zeros(solved.kernel.log_parameters.size)
    parameters, traces = [Unread([], none) for _ in sides], [0.0 * X[0, 0] for _ in sides]
    for i, pair in enumerate(sides):
        if pair is None:
            continue
        left, turned = pair[0], xp.ascontiguousarray(pair[1].T)
        for rows in solved.K.parts:
            cotangent = product(2.0 * left[rows], turned[:, : rows.stop], xp.empty((rows.stop - rows.start, rows.stop)))
            traces[i] = traces[i] + xp.trace(_halve_corner(cotangent[:, rows]))
            pulling = known.at(X[: rows.stop]).pulling()
            pulling.add(X[rows], cotangent)
            parameters[i] = parameters[i] + pulling.result()[0]
    return _read(parameters, traces)


def _read(parameters: Sequence[Unread], noises: Sequence[Array]) -> Float:
    """The derivatives of each cotangent in the kernel's parameters and in the noise, with one read."""
    readings = Readings()
    parts = [(each.taken(readings), readings.take(noise)) for each, noise in zip(parameters, noises, strict=True)]
    return np.array([np.append(derivatives(), float(noise)) for derivatives, noise in parts])


def _each(xp: Any, count: int, run: Callable[[int, int], None]) -> None:
    if xp is np:
        share(count, run)
    else:
        for number in range(count):
            run(number, 0)
