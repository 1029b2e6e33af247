"""Randomly pivoted Cholesky: each point is drawn ∝ its variance given the points before it; its mean residual."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from gpbounds.arrays import EPS, Float, Indices, as_host_points
from gpbounds.kdpp.arguments import groups_of, repeated
from gpbounds.kdpp.esp import checked
from gpbounds.kernels import Kernel
from gpbounds.kernels.base import as_kernel
from gpbounds.linalg.pivoted import Choice, Pivoted, Rows, extend
from gpbounds.validation import count

BLOCK = 64
"""Proposals between two passes over all N points."""


def rpcholesky(kernel: Kernel, X: ArrayLike, M: int, rng: np.random.Generator | int) -> Pivoted:
    """At most M rows of X, each drawn with probability proportional to its variance given those drawn before.

    P(z_{t+1} = i | z_1 … z_t) = [K − Q_t]_ii / Tr(K − Q_t), exactly: proposals are drawn ∝ earlier variances, which
    are upper bounds, and accepted with probability current/earlier variance.  With the same seed, a draw of 20 points
    is the beginning of a draw of 30.  O(N M²) time at the speed of matrix products, 8 N M bytes.  Its mean residual:
    :func:`rpcholesky_residual` (claim N-rpc).  Chen, Epperly, Tropp & Webber (2023); in blocks: Epperly, Tropp & Webber
    (2024).

    Parameters
    ----------
    kernel : Kernel
    X : array (N, D)
    M : int
        ≥ 0.
    rng : numpy.random.Generator or int

    Returns
    -------
    Pivoted
        ``indices`` in the order drawn, the factor V = L⁻¹K_Zf, ``traces``.  It has fewer than M points if the largest
        remaining variance falls to N·eps·max K_ii, the rounding error; ``.require(M)`` then raises an error.

    >>> from gpbounds import SquaredExponential
    >>> drawn = rpcholesky(SquaredExponential(), [0.0, 0.1, 1.0, 3.0], 3, 0)
    >>> drawn.indices, drawn.traces.round(4).tolist()
    (array([2, 0, 3]), [4.0, 2.1689, 0.9773, 0.0035])
    """
    as_kernel(kernel)
    points = as_host_points(X)
    groups = repeated(groups_of(points))
    return randomly_pivoted(
        lambda i, columns: kernel(points[i], points[columns]),
        kernel.diag(points),
        count("M", M, 0),
        np.random.default_rng(rng),
        groups=groups,
    )


def randomly_pivoted(
    rows: Rows,
    diagonal: Float,
    M: int,
    rng: np.random.Generator,
    target: float | None = None,
    groups: Indices | None = None,
) -> Pivoted:
    """As `rpcholesky`, for the matrix whose rows the function ``rows`` returns; stops if Tr(K − Q) ≤ ``target``.

    Equal inputs have the same number in ``groups``; at most one input of a group is drawn.

    >>> K = np.array([[1.0, 0.9, 0.0], [0.9, 1.0, 0.1], [0.0, 0.1, 0.5]])
    >>> drawn = randomly_pivoted(lambda i, j: K[i][:, j], K.diagonal(), 3, np.random.default_rng(1))
    >>> drawn.indices, drawn.traces.round(4)
    (array([1, 2, 0]), array([2.5   , 0.68  , 0.1735, 0.    ]))
    """
    N, left = diagonal.size, diagonal.astype(np.float64)
    floor = N * EPS * float(left.max())
    factor, chosen = np.empty((M, N)), np.empty(M, dtype=np.int64)
    variances, traces = np.empty(M), np.zeros(M + 1)
    traces[0] = left.sum()
    t = 0
    while t < M and left.max() > floor and not (target is not None and traces[t] <= target):
        drawn = _accepted(rows, left, factor[:t], min(BLOCK, M - t), floor, rng, groups)
        end = t + drawn.indices.size
        chosen[t:end], variances[t:end] = drawn.indices, drawn.variances
        traces[t + 1 : end + 1] = extend(rows, factor, left, t, drawn, groups)
        t = end
        if target is not None:
            reached = np.flatnonzero(traces[: t + 1] <= target)
            t = int(reached[0]) if reached.size else t
    return Pivoted(chosen[:t], factor[:t], variances[:t], traces[: t + 1], left)


def _accepted(
    rows: Rows,
    left: Float,
    factor: Float,
    most: int,
    floor: float,
    rng: np.random.Generator,
    groups: Indices | None,
) -> Choice:
    """The accepted proposals of one block, at most ``most``; the first proposal is always accepted.

    The variance of a proposal given the points accepted before it follows from the residual matrix of all proposals.
    """
    proposals = _proposed(np.where(left > floor, left, 0.0), BLOCK, rng)
    thresholds = rng.random(BLOCK) * left[proposals]
    block = rows(proposals, proposals) - factor[:, proposals].T @ factor[:, proposals]
    twins = proposals if groups is None else groups[proposals]
    own = left[proposals].copy()
    new = np.empty((most, BLOCK))
    taken: list[int] = []
    for j in range(BLOCK):
        if len(taken) == most:
            break
        if own[j] <= thresholds[j] or own[j] <= floor:
            continue
        done = new[: len(taken)]
        row = (block[j] - done[:, j] @ done) / np.sqrt(own[j])
        row[j] = np.sqrt(own[j])
        new[len(taken)] = row
        taken.append(j)
        own[j + 1 :] -= row[j + 1 :] ** 2
        own[j + 1 :][twins[j + 1 :] == twins[j]] = 0.0
    return Choice(proposals[taken], own[taken], np.tril(new[: len(taken), taken].T))


def _proposed(weights: Float, size: int, rng: np.random.Generator) -> Indices:
    """Points drawn independently with probability proportional to ``weights``; none of weight 0."""
    sums = np.cumsum(weights)
    last = int(np.flatnonzero(weights)[-1])
    return np.minimum(np.searchsorted(sums, rng.random(size) * sums[-1], side="right"), last)


def rpcholesky_residual(eigenvalues: ArrayLike, M: int) -> Float:
    """Upper bound on the mean residual of randomly pivoted Cholesky: E (K − Q) ⪯ V diag(ρ) Vᵀ in the eigenbasis of K.

    ρ = Φ^M(λ), Φ(ρ) = ρ − ρ²/Σρ.  Claim N-rpc; an equality at M = 1.  For larger M it is 3 to 10⁵ times the true trace:
    for planning, the exact mean of a k-DPP (`expected_trace`) is smaller, although its draws usually have a larger
    trace.

    Parameters
    ----------
    eigenvalues : array (N,)
        λ of K, ≥ 0, in squared units of y, or upper bounds of them: ρ increases with λ.
    M : int
        ≥ 0.

    Returns
    -------
    array (N,)
        ρ in the order of ``eigenvalues``; its sum bounds E Tr(K − Q).  Rounded upwards.

    >>> rpcholesky_residual([2.0, 1.0, 1.0], 1).round(6)
    array([1.  , 0.75, 0.75])
    """
    rho, M = checked(eigenvalues).copy(), count("M", M, 0)
    # relative errors add: Φ(ρ) ≤ Φ(ρ̃) ≤ (1 + η)Φ(ρ) if ρ ≤ ρ̃ ≤ (1 + η)ρ, and the error of one step is less than this
    step = 1.0 + 2.0 * (rho.size + 8.0) * EPS
    for _ in range(M):
        others = np.zeros_like(rho)
        others[1:] += np.cumsum(rho)[:-1]
        others[:-1] += np.cumsum(rho[::-1])[-2::-1]
        rho *= np.divide(others, rho + others, out=np.zeros_like(rho), where=rho > 0.0) * step
    return rho
