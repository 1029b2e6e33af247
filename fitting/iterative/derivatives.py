"""Derivatives of H and of log N(y; 0, K + σ²I) in the parameters of the kernel and in the noise.

H is a function of K through log|P|, through K in B = U(K + σ²I)Uᵀ and through U.  For block j with rows c = (S_j, B_j),
Cholesky factor L of (K + σ²I)[c, c] and row block W of U (the last rows of L⁻¹),

    ∂log|P| = ⟨WᵀW, ∂K[c, c]⟩,    ∂W = −Φ(L⁻¹∂K L⁻ᵀ)L⁻¹ restricted to these rows,

Φ the lower triangle with half of the diagonal.  A cotangent W̄ hence gives −WᵀT L⁻¹ for K[c, c], T the part of W̄L⁻ᵀ
that Φ keeps.  With G = Σ w qqᵀ the cotangent of B, W̄ is row block j of 2GU(K + σ²I), on the columns c.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fitting.iterative.solution import Columns, Solution
from gpbounds.arrays import Array, Float, namespace
from gpbounds.kernels.covariances import covariances
from gpbounds.kernels.fused import Fused
from gpbounds.linalg import cholesky
from gpbounds.linalg.parallel import share
from gpbounds.linalg.products import product
from gpbounds.linalg.triangular import lift_rows, solve_rows
from gpbounds.readings import Readings, Unread
from gpbounds.vecchia.factor import lower_chunks


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


Visit = Callable[[int, Array, Array], None]
"""(number of the cotangent, rows c, its part (c, c), which may be overwritten)."""


def of_evidence(solved: Solution, columns: Columns | None, *, deterministic: bool = True) -> Cotangent:
    """The cotangent of log N(y; 0, K + σ²I), Σ_p over the outputs."""
    P = solved.weights.shape[1]
    return Cotangent(columns, -0.5 * P, solved.weights, 0.5, deterministic)


def pulled(solved: Solution, cotangents: Sequence[Cotangent], visit: Visit | None = None) -> Float:
    """Derivatives in the kernel's `log_parameters` and in log σ², shape (number of cotangents, p + 1).

    ``visit`` sees the parts of the blocks, for derivatives in what ``kernel`` does not know.
    """
    total = _blocks(solved, cotangents, visit) + _rows(solved, [each.sides() for each in cotangents])
    total[:, -1] *= solved.noise
    return total


def _blocks(solved: Solution, cotangents: Sequence[Cotangent], visit: Visit | None) -> Float:
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
    return cholesky(noisy, name="K + σ²I", overwrite=True).L


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


def _blocks_on_device(solved: Solution, cotangents: Sequence[Cotangent], visit: Visit | None, known: Fused) -> Float:
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
