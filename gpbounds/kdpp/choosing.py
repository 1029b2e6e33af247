"""Choosing inducing points among N data, by a named method, in O(N M) memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from gpbounds.arrays import Float, Indices, as_host_points
from gpbounds.kdpp.arguments import groups_of, repeated
from gpbounds.kdpp.draws import kdpp_draw, kmeans_centres, leverage_order, uniform_order
from gpbounds.kdpp.prefixes import prefixes
from gpbounds.kdpp.record import Selection
from gpbounds.kdpp.rpcholesky import randomly_pivoted
from gpbounds.kernels import Kernel
from gpbounds.linalg import Jitter
from gpbounds.linalg.pivoted import pivoted
from gpbounds.validation import choice, count, non_negative, positive, scalar
from gpbounds.whitening import with_jitter

METHODS = ("greedy", "kdpp", "best", "rpcholesky", "leverage", "kmeans", "uniform")
_ORDERED = ("greedy", "rpcholesky", "leverage", "uniform")


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
    draws: int | None = None,
    y: ArrayLike | None = None,
    noise: float | None = None,
    alpha: float = 1.0,
    delta: float = 0.05,
    candidates: Sequence[ArrayLike] = (),
) -> Selection:
    """M inducing points for the data, and the trace Tr(K − Q) and log|K_ZZ| that they reach.

    greedy    the point of largest conditional variance, again and again (pivoted Cholesky); ties to the least index;
              the first 20 of 30 are the 20.  O(N M²) time at the speed of matrix products.
    best      the best of R k-DPP draws, greedy points and randomly pivoted ones: of greatest objective for this y
              (the α-ELBO, N-given), or of least trace without y.  ``bound`` says what is proved of it.  O(R N M²) time
              after one draw's preparations.
    kdpp      P(Z) ∝ |K_ZZ|.  Up to 2000 rows exact; beyond, the k-DPP of the Nyström approximation of rank r at r
              greedy points, r = 2M, with a proved ``tv`` (:func:`nystrom_tv`).  O(N r²) time.
    leverage  without replacement ∝ ridge leverage scores.  Up to 2000 rows exact ones; beyond, upper bounds from r
              uniform landmarks (:func:`ridge_leverage`).  O(N r²) time.
    rpcholesky  randomly pivoted Cholesky: one point after the other ∝ the variance that those before leave
              (:func:`rpcholesky`).  As a rule a smaller trace than "kdpp", and no theorem near it.  O(N M²) time.
    uniform   without replacement.
    kmeans    centres by scikit-learn, of X as it is: scale columns before if they differ.  Not rows of X.

    No two points are equal: "uniform" and "leverage" pass over rows equal to one already drawn.  Beyond 2000 rows
    "greedy" takes 8 N M bytes, 4 GB at N = 1 000 000, M = 500, "kdpp" 8 N r, the others O(N + M² + r²).  Bounds that
    average over a k-DPP (R-lem3, the theorems with ``tv``) cover "kdpp" alone, those for R draws "best"; bounds
    computed from ``trace`` cover every method.

    Parameters
    ----------
    kernel : Kernel
    X : array (N, D)
    M : int
        1 ≤ M ≤ number of distinct rows.
    method : "greedy", "kdpp", "best", "rpcholesky", "leverage", "kmeans" or "uniform"
    rng : numpy.random.Generator or int
        Source of randomness, or a seed; all but "greedy" need it.
    trace : float, optional
        Stop at the first point that brings Tr(K − Q) down to it: of "greedy" and in the order drawn of "rpcholesky",
        "uniform" and "leverage" the fewest points that do, at most M (``reached`` says whether); no points where Tr K
        is below it.
    ridge : float, optional
        ρ of "leverage", in squared units of y, as a rule the noise variance.  Left out, it is such that the effective
        dimension Σ λ_m/(λ_m + ρ) is M, with the eigenvalues of the landmarks, times N/r, where there are landmarks.
    rank : int, optional
        r ≥ M of "kdpp", "best" and "leverage": a low-rank approximation for N ≤ 2000, too, or one of another rank.
    jitter : float or "auto"
        On the diagonal of K_ZZ where Q is computed; "greedy" needs none.  "best" compares without jitter; what this
        one costs the points kept is in the bound.
    draws : int, optional
        R ≥ 1 of "best", 10 unless given.
    y : array (N,) or (N, P), optional
        Targets that "best" looks at.  They, the kernel and the noise may depend on everything but ``rng``: the kernel
        may be fitted to them, M must be fixed before.
    noise : float, optional
        σ² for "best" with y, in squared units of y.
    alpha : float
        Order in (0, 1] of the divergence that "best" with y bounds.  Its own objective is compared up to 2000 rows;
        beyond, the ELBO, whose bound times α serves.
    delta : float
        Probability with which the bound of "best" may fail.
    candidates : sequence of arrays (m, D)
        Other inducing points that "best" compares its draws with: whatever they are, the bound stays.

    Raises
    ------
    ValueError
        where M exceeds the number of distinct rows, or the numerical rank ("greedy" and "rpcholesky" without
        ``trace``, "kdpp"); where
        an argument does not go with the method: "kdpp" and "kmeans" have no prefixes to stop at.
    NotPositiveDefinite
        where K_ZZ does not factorise with the jitter given.

    >>> from gpbounds import SquaredExponential
    >>> found = select(SquaredExponential(), [0.0, 0.1, 1.0, 3.0], 4, trace=0.2)
    >>> found.indices, round(found.trace, 4)
    (array([0, 3, 2]), 0.0035)
    """
    choice("method", method, METHODS)
    points, M = as_host_points(X), count("M", M)
    goal = _goal(method, trace)
    if rank is not None:
        rank = count("rank", rank, M)
    if ridge is not None:
        scalar(positive, "ridge", ridge)
    for name, value, users in (("ridge", ridge, _USERS["ridge"]), ("rank", rank, _USERS["rank"])):
        if value is not None and method not in users:
            listed = " or ".join(filter(None, (", ".join(map(repr, users[:-1])), repr(users[-1]))))
            raise ValueError(f"{name}: expected only with method {listed}, got {method!r}")
    if method != "best":
        for name, value in (("draws", draws), ("y", y), ("noise", noise), ("candidates", candidates or None)):
            if value is not None:
                raise ValueError(f"{name}: expected only with method 'best', got method {method!r}")
    if method in ("greedy", "rpcholesky") and jitter not in (0.0, "auto"):
        raise ValueError(f"jitter: expected 0, as {method!r} divides by no variance near 0, got {jitter!r}")
    if method != "greedy" and rng is None:
        raise ValueError(f"rng: expected a numpy.random.Generator or a seed, as {method!r} is random, got None")
    groups = groups_of(points)
    distinct = int(groups.max()) + 1
    if distinct < M:
        raise ValueError(f"M: expected at most {distinct} points, the number of distinct rows of X, got {M}")
    if method == "greedy":
        return _greedy(kernel, points, M, goal, groups)
    generator = np.random.default_rng(rng)
    args = kernel, points, M, generator
    about: dict[str, Any] = {}
    order: Indices | None = None
    if method == "rpcholesky":
        return _randomly_pivoted(*args, goal, groups)
    if method == "best":
        from gpbounds.kdpp.best.selecting import best_selection

        return best_selection(
            *args,
            groups,
            y=y,
            noise=noise,
            alpha=alpha,
            draws=draws,
            delta=delta,
            rank=rank,
            jitter=jitter,
            candidates=candidates,
        )
    if method == "uniform":
        order, law = uniform_order(M, generator, groups)
    elif method == "leverage":
        order, law, about["ridge"] = leverage_order(*args, groups, ridge, rank)
    elif method == "kdpp":
        order, law, about["tv"] = kdpp_draw(*args, groups, rank)
    else:
        Z, law = kmeans_centres(points, M, generator)
    if order is not None:
        Z = points[order]
    return _measured(kernel, points, order, Z, groups, jitter, goal, method=method, law=law, **about)


_USERS = {"ridge": ("leverage",), "rank": ("kdpp", "best", "leverage")}


def _goal(method: str, trace: float | None) -> float | None:
    if trace is None:
        return None
    if method not in _ORDERED:
        raise ValueError(
            f"trace: expected None with method {method!r}, got {trace!r}: its points are a set, no part of which is a "
            f"smaller {'clustering' if method == 'kmeans' else 'sample'}. Choose M, or use {', '.join(_ORDERED)}"
        )
    return scalar(non_negative, "trace", trace)


def _greedy(kernel: Kernel, X: Float, M: int, goal: float | None, groups: Indices) -> Selection:
    found = pivoted(lambda i, columns: kernel(X[i], X[columns]), kernel.diag(X), M, goal, repeated(groups))
    if goal is None:
        found.require(M)
    law = "deterministic, each point the one of largest variance given those before it"
    traces = found.traces
    return Selection(
        "greedy", found.indices, X[found.indices], float(traces[-1]), found.log_det, law, traces, requested=goal
    )


def _randomly_pivoted(
    kernel: Kernel, X: Float, M: int, rng: np.random.Generator, goal: float | None, groups: Indices
) -> Selection:
    drawn = randomly_pivoted(
        lambda i, columns: kernel(X[i], X[columns]), kernel.diag(X), M, rng, goal, repeated(groups)
    )
    if goal is None:
        drawn.require(M)
    law, traces = "each point ∝ the variance that those before it leave (randomly pivoted Cholesky)", drawn.traces
    Z, order = X[drawn.indices], drawn.indices
    return Selection("rpcholesky", order, Z, float(traces[-1]), drawn.log_det, law, traces, requested=goal)


def _measured(
    kernel: Kernel,
    X: Float,
    order: Indices | None,
    Z: Float,
    groups: Indices,
    jitter: Jitter,
    goal: float | None,
    *,
    method: str,
    law: str,
    **about: Any,
) -> Selection:
    """The record, with the traces of all prefixes from one pass over the data, cut at the first that is ≤ ``goal``."""
    measured = with_jitter(lambda amount: prefixes(kernel, X, Z, order, groups, amount), kernel, jitter)
    traces, log_dets = measured.traces, measured.log_dets
    m = Z.shape[0]
    if goal is not None and (traces <= goal).any():
        m = int(np.argmax(traces <= goal))
    return Selection(
        method,
        None if order is None else order[:m],
        Z[:m],
        float(traces[m]),
        float(log_dets[m]),
        law,
        traces[: m + 1] if method in _ORDERED else None,
        requested=goal,
        jitter=measured.jitter,
        **about,
    )
