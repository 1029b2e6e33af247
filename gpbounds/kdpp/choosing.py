"""Choosing inducing points among N data, by a named method, in O(N M) memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gpbounds.arrays import Float, Indices, as_host_points, kind_of_caller
from gpbounds.errors import shown
from gpbounds.kdpp.draws import (
    factor_of,
    kdpp_draw,
    kernel_rows,
    kmeans_centres,
    leverage_order,
    prefixes,
    traces_of,
    uniform_order,
)
from gpbounds.kdpp.random_pivots import RandomPivots
from gpbounds.kdpp.record import Selection, distinct_indices, groups_of, kernel_matrix, repeated
from gpbounds.kernels import Kernel
from gpbounds.kernels.base import as_kernel
from gpbounds.linalg import Jitter, cholesky
from gpbounds.linalg.pivoted import pivoted, too_few
from gpbounds.overflow import within_doubles
from gpbounds.validation import (
    choice,
    count,
    generator,
    jitter_or_auto,
    non_negative,
    open_unit,
    order,
    positive,
    scalar,
)
from gpbounds.whitening import with_jitter

METHODS = ("greedy", "kdpp", "best", "rpcholesky", "leverage", "kmeans", "uniform")
_ORDERED = ("greedy", "rpcholesky", "leverage", "uniform")


@within_doubles
def select(
    kernel: Kernel,
    X: ArrayLike,
    M: int,
    method: str = "greedy",
    rng: np.random.Generator | int | None = None,
    *,
    trace: float | None = None,
    ridge: float | None = None,
    rank: int | None = None,
    jitter: Jitter = "auto",
    draws: int | str | None = None,
    most: int | None = None,
    y: ArrayLike | None = None,
    noise: float | None = None,
    alpha: float = 1.0,
    delta: float = 0.05,
    candidates: Sequence[ArrayLike] = (),
) -> Selection:
    """M inducing points for the data, and the trace Tr(K − Q) and log|K_ZZ| that they reach.

    greedy    in each step the point of largest conditional variance (pivoted Cholesky), the smallest index among equal
              ones.  A selection of 20 points is the beginning of a selection of 30.  O(N M²) time.
    best      compares R k-DPP draws, the greedy points and randomly pivoted ones, and keeps those with the greatest
              objective for this y (the α-ELBO), or with the least trace if no y is given.  The result's ``bound`` holds
              for them (N-given, N-tilt-given; N-order for the trace).  O(R N M²) time after the first draw.
              ``draws="certain"`` with y: draws until one is proved to have a divergence of at most the level of
              ``rate(..., draws="certain")``, 5 draws on average; ``bound`` is then the proved divergence of the chosen
              points, with confidence 1.
    kdpp      P(Z) ∝ |K_ZZ|.  Exact up to 2000 rows; beyond, the k-DPP of the Nyström approximation of rank r with r
              greedy points, r = 2M, with a proved ``tv`` (:func:`nystrom_tv`).  O(N r²) time.
    leverage  without replacement, ∝ ridge leverage scores: exact scores up to 2000 rows; beyond, upper bounds from r
              uniform landmarks (:func:`ridge_leverage`).  O(N r²) time.
    rpcholesky  randomly pivoted Cholesky: each point ∝ its variance given the points before it (:func:`rpcholesky`).
              The trace is usually smaller than with "kdpp", but no bound is proved for the gap.  It draws by
              rejection, far below O(N M²) time and in O(N + M²) memory; the result computes its ``trace`` and
              ``traces`` when they are first read, in O(N M²) time and 8 N M bytes.
    uniform   without replacement.
    kmeans    cluster centres by scikit-learn, which are not rows of X.  X is used as it is: scale its columns first if
              their units differ.

    No two points are equal: "uniform" and "leverage" skip rows equal to one already drawn.  Beyond 2000 rows "greedy"
    takes 8 N M bytes (4 GB at N = 1 000 000, M = 500), "kdpp" 8 N r, the others O(N + M² + r²).  Bounds that average
    over a k-DPP (R-lem3, the theorems with ``tv``) hold for "kdpp" only, those on the best of R draws for
    "best"; bounds computed from ``trace`` hold for every method.

    Parameters
    ----------
    kernel : Kernel
    X : array (N, D)
    M : int
        1 ≤ M ≤ number of distinct rows.
    method : "greedy", "kdpp", "best", "rpcholesky", "leverage", "kmeans" or "uniform"
    rng : numpy.random.Generator or int
        Source of randomness, or a seed; every method except "greedy" needs it.
    trace : float, optional
        Stop as soon as Tr(K − Q) ≤ trace, after at most M points; ``reached`` says whether it was reached.  Only for
        "greedy", "rpcholesky", "uniform" and "leverage".  No point is chosen if Tr K ≤ trace.
    ridge : float, optional
        ρ of "leverage", in squared units of y, usually the noise variance.  By default the ρ at which the effective
        dimension Σ λ_m/(λ_m + ρ) is M; where landmarks are used, λ are their eigenvalues times N/r.
    rank : int, optional
        r ≥ M of "kdpp", "best" and "leverage": the low-rank approximation has this rank and is used for N ≤ 2000, too.
    jitter : float or "auto"
        Added to the diagonal of K_ZZ to compute Q; the result's ``jitter`` is the amount.  "greedy" needs none.
        "best" compares without jitter; its bound includes the loss of the chosen points due to this jitter.
    draws : int or "certain", optional
        R of "best", 10 by default, at most 10,000,000.
    most : int, optional
        Largest number of draws for "certain", 60 by default: all of them are above the level with probability at most
        0.8^60 = 1.5e-6.
    y : array (N,) or (N, P), optional
        Targets for "best".  The kernel and the noise may have been fitted to them; M must not depend on the draws.
    noise : float, optional
        σ² for "best" with y, in squared units of y.
    alpha : float
        Order in (0, 1] of the divergence that "best" with y bounds.  Up to 2000 rows the objectives of this order are
        compared; beyond, the ELBOs, and the bound is α times that of order 1.
    delta : float
        Probability with which the bound of "best" may fail; not used with "certain".
    candidates : sequence of arrays (m, D)
        More inducing points for "best" to compare; any points may be given, the bound remains valid.

    Raises
    ------
    ValueError
        if M exceeds the number of distinct rows, or the numerical rank ("kdpp", and "greedy" and "rpcholesky" without
        ``trace``); if an argument does not apply to the method: "kdpp" and "kmeans" do not choose point by point, so
        that ``trace`` does not apply to them.
    NotPositiveDefinite
        if K_ZZ + jitter·I does not factorise.
    NotConverged
        for ``draws="certain"`` if none of ``most`` draws is proved to reach the level, or if the level is below the
        rounding error of log p(y).

    >>> from gpbounds import SquaredExponential
    >>> chosen = select(SquaredExponential(), [0.0, 0.1, 1.0, 3.0], 4, trace=0.2)
    >>> chosen.indices, round(chosen.trace, 4)
    (array([0, 3, 2]), 0.0035)
    """
    as_kernel(kernel)
    choice("method", method, METHODS)
    points, M, source = as_host_points(X), count("M", M), generator(rng)
    jitter = jitter_or_auto(jitter)
    scalar(order, "alpha", alpha)
    scalar(open_unit, "delta", delta)
    target = _target(method, trace)
    if rank is not None:
        rank = count("rank", rank, M)
    if ridge is not None:
        scalar(positive, "ridge", ridge)
    if not isinstance(candidates, list | tuple):
        raise ValueError(f"candidates: expected a list of inducing points, each (M, D), got {shown(candidates)}")
    of_best = {"draws": draws, "most": most, "y": y, "noise": noise, "candidates": candidates or None}
    _refuse_what_does_not_apply(method, {"ridge": ridge, "rank": rank, **of_best})
    if method in ("greedy", "rpcholesky") and jitter not in (0.0, "auto"):
        raise ValueError(f"jitter: expected 0, as {method!r} never divides by a variance near 0, got {shown(jitter)}")
    if method != "greedy" and rng is None:
        raise ValueError(f"rng: expected a numpy.random.Generator or a seed, as {method!r} is random, got None")
    groups = groups_of(points)
    distinct = int(groups.max()) + 1
    if distinct < M:
        raise ValueError(f"M: expected at most {distinct} points, the number of distinct rows of X, got {M}")
    if method == "greedy":
        return _greedy(kernel, points, M, target, groups)
    args = kernel, points, M, source
    details: dict[str, Any] = {}
    chosen: Indices | None = None
    if method == "rpcholesky":
        return _randomly_pivoted(*args, target, groups)
    if method == "best":
        from gpbounds.kdpp.best import best_selection

        return best_selection(
            *args,
            groups,
            y=y,
            noise=noise,
            alpha=alpha,
            draws=draws,
            most=most,
            delta=delta,
            rank=rank,
            jitter=jitter,
            candidates=candidates,
        )
    if method == "uniform":
        chosen, law = uniform_order(M, source, groups)
    elif method == "leverage":
        chosen, law, details["ridge"] = leverage_order(*args, groups, ridge, rank)
    elif method == "kdpp":
        chosen, law, details["tv"] = kdpp_draw(*args, groups, rank)
    else:
        Z, law = kmeans_centres(points, M, source)
    if chosen is not None:
        Z = points[chosen]
    return _measured(kernel, points, chosen, Z, groups, jitter, target, method=method, law=law, **details)


_USERS = {"ridge": ("leverage",), "rank": ("kdpp", "best", "leverage")}
"""The methods that take an argument; arguments without an entry belong to "best"."""


def _refuse_what_does_not_apply(method: str, given: dict[str, Any]) -> None:
    for name, value in given.items():
        users = _USERS.get(name, ("best",))
        if value is not None and method not in users:
            listed = " or ".join(filter(None, (", ".join(map(repr, users[:-1])), repr(users[-1]))))
            got = repr(method) if name in _USERS else f"method {method!r}"
            raise ValueError(f"{name}: expected only with method {listed}, got {got}")


def _target(method: str, trace: float | None) -> float | None:
    if trace is None:
        return None
    if method not in _ORDERED:
        raise ValueError(
            f"trace: expected None with method {method!r}, got {shown(trace)}: its points are chosen all at once: a "
            f"part of them is no smaller {'clustering' if method == 'kmeans' else 'sample'}. Choose M, or use "
            f"{', '.join(_ORDERED)}"
        )
    return scalar(non_negative, "trace", trace)


def _greedy(kernel: Kernel, X: Float, M: int, target: float | None, groups: Indices) -> Selection:
    chosen = pivoted(kernel_rows(kernel, X), kernel.diag(X), M, target, repeated(groups))
    if target is None:
        chosen.require(M)
    law = "deterministic, each point has the largest variance given the points before it"
    Z, traces = X[chosen.indices], chosen.traces
    return Selection("greedy", chosen.indices, Z, chosen.log_det, law, traces, ordered=True, requested=target)


def _randomly_pivoted(
    kernel: Kernel, X: Float, M: int, rng: np.random.Generator, target: float | None, groups: Indices
) -> Selection:
    rows, diagonal, twins = kernel_rows(kernel, X), kernel.diag(X), repeated(groups)
    pivots = RandomPivots(rows, diagonal, rng, twins)
    remaining: Float | Callable[[], Float]
    if target is None:
        if pivots.draw(M) < M:
            raise too_few(pivots.indices.size, M, pivots.floor)
        m, remaining = M, partial(traces_of, kernel, X, pivots, M)
    else:
        remaining = factor_of(rows, diagonal, pivots, M, target, twins).traces
        m = remaining.size - 1
    law = "each point ∝ its variance given the points before it (randomly pivoted Cholesky)"
    order, log_det = pivots.indices[:m], float(np.log(pivots.variances[:m]).sum())
    return Selection("rpcholesky", order, X[order], log_det, law, remaining, ordered=True, requested=target)


def _measured(
    kernel: Kernel,
    X: Float,
    order: Indices | None,
    Z: Float,
    groups: Indices,
    jitter: Jitter,
    target: float | None,
    *,
    method: str,
    law: str,
    **details: Any,
) -> Selection:
    """The selection, up to the first point at which the trace is ≤ ``target``; one pass over the data."""
    measured = with_jitter(lambda amount: prefixes(kernel, X, Z, order, groups, amount), kernel, Z, jitter)
    traces, log_dets = measured.traces, measured.log_dets
    m = Z.shape[0]
    if target is not None and (traces <= target).any():
        m = int(np.argmax(traces <= target))
    return Selection(
        method,
        None if order is None else order[:m],
        Z[:m],
        float(log_dets[m]),
        law,
        traces[: m + 1],
        ordered=method in _ORDERED,
        requested=target,
        jitter=measured.jitter,
        **details,
    )


# Greedy selection of inducing points: pivoted Cholesky on the conditional variance.


@kind_of_caller
def greedy(K: ArrayLike, M: int) -> NDArray[np.int64]:
    """M points, each of largest variance given the points before it; deterministic.

    z_{t+1} = argmax_i [K − Q_{z_1…z_t}]_ii, the smallest index among equal ones: each step multiplies |K_ZZ| by the
    largest factor that one point can give, so Z is the greedy mode of the k-DPP.  A smaller M gives a prefix of the
    same choice.  O(N M²) time, M × N memory.  Bounds that average over Z do not hold for this Z; bounds computed from
    its own Tr(K − Q) (:func:`residual_trace`) do.  :func:`select` needs no N × N matrix.

    Parameters
    ----------
    K : array (N, N)
        Symmetric positive semi-definite.
    M : int
        0 ≤ M ≤ N.

    Returns
    -------
    array of int64 (M,)
        Row numbers in the order of choice.

    Raises
    ------
    ValueError
        if the largest conditional variance falls to N·eps·max K_ii before M points are chosen; the message says how
        many points there are.

    >>> greedy(np.array([[1.0, 0.9, 0.0], [0.9, 1.0, 0.1], [0.0, 0.1, 0.5]]), 2)
    array([0, 2])
    """
    matrix, M = kernel_matrix(K), count("M", M, 0)
    N = matrix.shape[0]
    if M > N:
        raise ValueError(f"M: expected at most N = {N} points, got {M}")
    return pivoted(lambda picked, columns: matrix[picked][:, columns], matrix.diagonal(), M).require(M).indices


def residual_trace(K: ArrayLike, indices: ArrayLike) -> float:
    """Tr(K − Q) for inducing points that are rows of the data.

    Tr(K − Q_Z) = Σ_i [K_ii − k_iZ K_ZZ⁻¹ k_Zi] ≥ 0; the rows in Z give exactly 0, and values below 0 by rounding count
    as 0.  No jitter.  Its mean over a k-DPP is :func:`~gpbounds.kdpp.expected_trace` (R-lem3).

    Parameters
    ----------
    K : array (N, N)
        Symmetric positive semi-definite.
    indices : array of int (M,)
        Distinct row numbers, in any order; may be empty.

    Raises
    ------
    ValueError
        for row numbers that are out of range or repeated.
    NotPositiveDefinite
        if K_ZZ is singular.

    >>> residual_trace(np.array([[1.0, 0.5], [0.5, 1.0]]), [0])
    0.75
    """
    matrix = kernel_matrix(K)
    Z = distinct_indices(indices, matrix.shape[0])
    residual = matrix.diagonal().copy()
    if Z.size:
        V = cholesky(matrix[np.ix_(Z, Z)], name="K: K_ZZ").solve_lower(matrix[Z])
        residual -= np.einsum("ij,ij->j", V, V)
        residual[Z] = 0.0
    return float(np.maximum(residual, 0.0).sum())
