"""The random choices of :func:`gpbounds.kdpp.select`, each with its law in words."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import ArrayLike

from gpbounds.arrays import EPS, Float, Indices, as_host_points, exactly, kind_of_caller
from gpbounds.kdpp.approximations import nystrom_tv
from gpbounds.kdpp.esp import checked
from gpbounds.kdpp.random_pivots import RandomPivots
from gpbounds.kdpp.record import distinct_indices, first_of_each, groups_of, repeated
from gpbounds.kernels import Kernel
from gpbounds.kernels.base import as_kernel
from gpbounds.linalg import Eigen, cholesky, eigen
from gpbounds.linalg.parallel import one_blas_thread
from gpbounds.linalg.pivoted import Choice, Pivoted, Rows, extend, pivoted
from gpbounds.linalg.psd import computed_eigenvalues
from gpbounds.overflow import within_doubles
from gpbounds.validation import count, generator, positive, scalar
from gpbounds.whitening import inducing, require_residual, slices

# Ridge leverage scores: the share of each point in the effective dimension.


@kind_of_caller
@within_doubles
def ridge_leverage(kernel: Kernel, X: ArrayLike, ridge: float, landmarks: ArrayLike | None = None) -> Float:
    """Ridge leverage scores τ_i of the data: exact ones, or upper bounds from landmarks.

    τ_i = [K(K + ρI)⁻¹]_ii,  Στ_i = s_ρ(K), the effective dimension;  S landmarks among the rows of X:
    τ_i ≤ (1/ρ)(k_ii − k_iS(K_SS + ρI)⁻¹k_Si) and τ_i ≤ 1

    The proof is that of N-lev (Musco & Musco, 2017).  An equality if S is all of X, up to rounding k_ii·eps/ρ.

    Parameters
    ----------
    kernel : Kernel
    X : array (N, D)
    ridge : float
        ρ > 0, in squared units of y; usually the noise variance.
    landmarks : array of int (r,), optional
        Distinct row numbers.  Without them the scores are exact, in O(N³) time and O(N²) memory; with them the bounds
        take O(N r²) time and O(r² + N) memory.

    Returns
    -------
    array (N,)
        In [0, 1].

    Raises
    ------
    ValueError
        for a ridge that is not positive, or row numbers that are out of range or repeated.

    >>> from gpbounds.kernels import SquaredExponential
    >>> tau = ridge_leverage(SquaredExponential(), [0.0, 0.1, 3.0], ridge=0.1)
    >>> tau.round(4), ridge_leverage(SquaredExponential(), [0.0, 0.1, 3.0], 0.1, landmarks=[0, 2]).round(4)
    (array([0.4999, 0.4998, 0.9091]), array([0.9091, 0.9993, 0.9091]))
    """
    as_kernel(kernel)
    landmarks = None if landmarks is None else exactly("landmarks", landmarks)
    points, rho = as_host_points(X), scalar(positive, "ridge", ridge)
    if landmarks is None:
        return _exact_scores(eigen(kernel(points), "k(X, X)", vectors=True), rho)
    S = distinct_indices(landmarks, points.shape[0], "landmarks")
    diagonal = kernel.diag(points)
    with np.errstate(over="ignore"):
        tau = diagonal / rho
    if S.size:
        inner = kernel(points[S])
        chol = cholesky(inner + rho * np.eye(S.size), name="k(S, S) + ridge·I")
        for part in slices(points.shape[0]):
            V = chol.solve_lower(kernel(points[part], points[S]).T)
            tau[part] -= np.einsum("ij,ij->j", V, V) / rho
    # τ_i ≥ k_ii/(λ_max + ρ) ≥ k_ii/(Tr K + ρ), also where the difference loses digits
    return np.clip(tau, diagonal / (diagonal.sum() + rho), 1.0)


def _exact_scores(spectrum: Eigen, ridge: float) -> Float:
    """τ from K = U diag(λ) Uᵀ: a sum of positive terms."""
    assert spectrum.vectors is not None
    return np.minimum((spectrum.vectors**2) @ (spectrum.values / (spectrum.values + ridge)), 1.0)


def matching_ridge(eigenvalues: ArrayLike, M: float) -> float:
    """The ridge ρ at which the effective dimension Σ λ_m/(λ_m + ρ) is M.

    Unique for 0 < M < rank; N·eps·λ_max if the effective dimension is below M even there.

    Parameters
    ----------
    eigenvalues : array (n,)
        ≥ 0, not all 0, in squared units of y.
    M : float
        > 0.

    >>> round(matching_ridge([2.0, 2.0, 2.0], 2.0), 12)
    1.0
    """
    from scipy.optimize import brentq

    values, size = computed_eigenvalues("eigenvalues", eigenvalues), float(positive("M", M))
    if values.ndim != 1 or not (values > 0).any():
        raise ValueError(f"eigenvalues: expected shape (n,), some > 0, got shape {values.shape}")
    top = float(values.max())
    low, high = values.size * EPS, float((values / top).sum()) / size

    def excess(log_rho: float) -> float:
        return float((values / (values + top * np.exp(log_rho))).sum()) - size

    if high <= low or excess(np.log(low)) <= 0:
        return top * low
    return top * float(np.exp(brentq(excess, np.log(low), np.log(high), xtol=1e-13)))


# The random choices of :func:`gpbounds.kdpp.select`, each with its law in words.

DENSE = 2000
"""Largest number of rows for which k(X, X) is decomposed; beyond, a low-rank approximation is used."""


def uniform_order(M: int, rng: np.random.Generator, groups: Indices) -> tuple[Indices, str]:
    """The first M distinct rows of a uniformly random order."""
    order = first_of_each(rng.permutation(groups.size), groups)[:M]
    return order, "uniform without replacement, skipping rows equal to one already drawn"


def kdpp_draw(
    kernel: Kernel, X: Float, M: int, rng: np.random.Generator, groups: Indices, rank: int | None
) -> tuple[Indices, str, float | None]:
    """A k-DPP sample of K, or of a Nyström approximation with a proved bound on its total variation."""
    from gpbounds.kdpp.sampling import sample, sample_factor

    if rank is None and X.shape[0] <= DENSE:
        return sample(kernel(X), M, rng), "k-DPP of K", 0.0
    close = approximation(kernel, X, M, groups, rank)
    return sample_factor(close.factor.T, M, rng), close.law, close.tv


@dataclass(frozen=True, eq=False)
class Approximation:
    """The Nyström approximation VᵀV ⪯ K with r greedy points.

    Attributes
    ----------
    factor : array (r, N)
        V.
    lowest : array (r,)
        Eigenvalues of VVᵀ, each lowered by its rounding error.
    trace : float
        Tr(K − VᵀV).
    law : str
        The name of its k-DPP.
    tv : float or None
        An upper bound on 1 − e_M(VᵀV)/e_M(K), which bounds the total variation between its k-DPP of size M and that of
        K; None if the bound is 1.
    rounding : float
        The amount by which each eigenvalue was lowered.
    """

    factor: Float
    lowest: Float
    trace: float
    law: str
    tv: float | None
    rounding: float


def approximation(kernel: Kernel, X: Float, M: int, groups: Indices, rank: int | None) -> Approximation:
    """The approximation with r = ``rank`` greedy points, 2M by default; r is at most the numerical rank, at least M."""
    most = min(2 * M if rank is None else rank, int(groups.max()) + 1)
    nystrom = pivoted(lambda i, columns: kernel(X[i], X[columns]), kernel.diag(X), most, groups=repeated(groups))
    nystrom.require(M)
    V, r = nystrom.factor, nystrom.indices.size
    spectrum = eigen(V @ V.T, "VVᵀ")
    lowest = np.maximum(spectrum.values - spectrum.rounding, 0.0)
    tv = float(nystrom_tv(lowest, float(nystrom.traces[-1]), M))
    law = f"k-DPP of the rank-r Nyström approximation with r greedy points, r = {r}"
    return Approximation(V, lowest, float(nystrom.traces[-1]), law, tv if tv < 1.0 else None, spectrum.rounding)


def leverage_order(
    kernel: Kernel,
    X: Float,
    M: int,
    rng: np.random.Generator,
    groups: Indices,
    ridge: float | None,
    rank: int | None,
) -> tuple[Indices, str, float]:
    """The first M distinct rows of an order drawn ∝ ridge leverage scores, and the ridge."""
    N = X.shape[0]
    if rank is None and N <= DENSE:
        spectrum = eigen(kernel(X), "k(X, X)", vectors=True)
        rho = matching_ridge(spectrum.values, M) if ridge is None else ridge
        tau, how = _exact_scores(spectrum, rho), "exact"
    else:
        landmarks = first_of_each(rng.permutation(N), groups)[: 2 * M if rank is None else rank]
        r = landmarks.size
        rho = matching_ridge(eigen(kernel(X[landmarks])).values * (N / r), M) if ridge is None else ridge
        tau, how = ridge_leverage(kernel, X, rho, landmarks), f"upper bounds from r uniform landmarks, r = {r}"
    # sorting Exp(1)/τ gives the order of draws ∝ τ without replacement
    with np.errstate(divide="ignore"):
        keys = rng.standard_exponential(N) / tau
    order = np.argsort(keys, kind="stable")
    order = first_of_each(order[np.isfinite(keys[order])], groups)[:M]
    if order.size < M:
        raise ValueError(
            f"M: expected at most {order.size} points, the number of distinct rows with a positive score, got {M}"
        )
    law = (
        f"without replacement ∝ ridge leverage scores ({how}) at ridge {rho:.6g}, "
        "skipping rows equal to one already drawn"
    )
    return order, law, rho


def kmeans_centres(X: Float, M: int, rng: np.random.Generator) -> tuple[Float, str]:
    """Centres of M clusters; beyond 10 000 rows by mini-batches.  They do not depend on the number of threads."""
    from sklearn.cluster import KMeans, MiniBatchKMeans
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    seed = int(rng.integers(2**31))
    # Several threads add up in the order in which they end.  Limits of threadpoolctl, here and in scikit-learn, restore
    # all pools as they found them: those of BLAS, which other threads may hold, must be held here meanwhile.
    with one_blas_thread(), threadpool_limits(limits=1, user_api="openmp"):
        if X.shape[0] <= 10_000:
            return KMeans(M, n_init=1, random_state=seed).fit(X).cluster_centers_, "k-means centres"
        clusters = MiniBatchKMeans(M, n_init=1, random_state=seed, batch_size=max(1024, 4 * M)).fit(X)
        return clusters.cluster_centers_, "mini-batch k-means centres"


# Randomly pivoted Cholesky: each point is drawn ∝ its variance given the points before it; its mean residual.

BLOCK = 64
"""Rows of the factor between two passes over all N points."""


def rpcholesky(kernel: Kernel, X: ArrayLike, M: int, rng: np.random.Generator | int) -> Pivoted:
    """At most M rows of X, each drawn with probability proportional to its variance given those drawn before.

    P(z_{t+1} = i | z_1 … z_t) = [K − Q_t]_ii / Tr(K − Q_t), exactly: proposals are drawn ∝ upper bounds on the
    variances, and accepted with probability variance/bound (`RandomPivots`).  With the same seed, a draw of 20 points
    is the beginning of a draw of 30.  The factor takes O(N M²) time at the speed of matrix products, and 8 N M bytes;
    `select` draws without one, in a sixth to a twentieth of the time at M = 1000.  The mean residual:
    :func:`rpcholesky_residual` (claim N-rpc).  Chen, Epperly, Tropp & Webber (2023); by rejection: Epperly, Tropp &
    Webber (2024).

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
        kernel_rows(kernel, points),
        kernel.diag(points),
        min(count("M", M, 0), len(points) + 1),
        generator(rng),
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
    return factor_of(rows, diagonal, RandomPivots(rows, diagonal, rng, groups), M, target, groups)


def factor_of(
    rows: Rows, diagonal: Float, pivots: RandomPivots, M: int, target: float | None, groups: Indices | None
) -> Pivoted:
    """The first M of the ``pivots``, or as many as make Tr(K − Q) ≤ ``target``, with their factor V = L⁻¹K_Zf."""
    N, left = diagonal.size, diagonal.astype(np.float64)
    factor, traces = np.empty((M if target is None else min(M, 2 * BLOCK), N)), np.zeros(M + 1)
    traces[0] = left.sum()
    t = 0
    while t < M and not (target is not None and traces[t] <= target):
        end = pivots.draw(min(t + BLOCK, M))
        if end == t:
            break
        if end > factor.shape[0]:
            factor = np.concatenate([factor[:t], np.empty((min(M, 2 * end) - t, N))])
        new = slice(t, end)
        choice = Choice(pivots.indices[new], pivots.variances[new], pivots.L[new, new])
        traces[t + 1 : end + 1] = extend(rows, factor, left, t, choice, groups)
        t = end
        if target is not None:
            reached = np.flatnonzero(traces[: t + 1] <= target)
            t = int(reached[0]) if reached.size else t
    return Pivoted(pivots.indices[:t], factor[:t], pivots.variances[:t], traces[: t + 1], left)


def traces_of(kernel: Kernel, X: Float, pivots: RandomPivots, M: int) -> Float:
    """Tr(K − Q) of the first 0, 1, …, M pivots of k(X, X): O(N M²) time, 8 N M bytes."""
    groups = repeated(groups_of(X))
    return factor_of(kernel_rows(kernel, X), kernel.diag(X), pivots, M, None, groups).traces


def kernel_rows(kernel: Kernel, X: Float) -> Rows:
    """The rows of k(X, X) as a function."""
    return partial(_entries, kernel, X)


def _entries(kernel: Kernel, X: Float, picked: Indices, columns: Indices | slice) -> Float:
    return kernel(X[picked], X[columns])


@kind_of_caller
def rpcholesky_residual(eigenvalues: ArrayLike, M: int) -> Float:
    """Upper bound on the mean residual of randomly pivoted Cholesky: E (K − Q) ⪯ V diag(ρ) Vᵀ in the eigenbasis of K.

    ρ = Φ^M(λ), Φ(ρ) = ρ − ρ²/Σρ.  Claim N-rpc; an equality at M = 1.  For larger M it is 3 to 10⁵ times the true trace:
    for planning, the exact mean of a k-DPP (`expected_trace`) is smaller, although its draws usually have a larger
    trace.

    Parameters
    ----------
    eigenvalues : array (N,)
        λ of K, ≥ 0 up to rounding, in squared units of y, or upper bounds of them: ρ increases with λ.
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
    for _ in range(min(M, rho.size)):  # Φ decreases, and beyond N all rows are pivots
        others = np.zeros_like(rho)
        others[1:] += np.cumsum(rho)[:-1]
        others[:-1] += np.cumsum(rho[::-1])[-2::-1]
        rho *= np.divide(others, rho + others, out=np.zeros_like(rho), where=rho > 0.0) * step
    return rho


# Tr(K − Q) and log|K_ZZ| of the first 1, 2, …, M inducing points at once, streamed over the data.


@dataclass(frozen=True, eq=False)
class _Prefixes:
    """Tr(K − Q) and log|K_ZZ| of the first m inducing points, m = 0 … M; the traces never increase.

    Attributes
    ----------
    traces : array (M + 1,)
        Tr(K − Q).
    log_dets : array (M + 1,)
        log|K_ZZ + jitter·I|.
    jitter : float
    """

    traces: Float
    log_dets: Float
    jitter: float


def prefixes(kernel: Kernel, X: Float, Z: Float, indices: Indices | None, groups: Indices, jitter: float) -> _Prefixes:
    """`_Prefixes` of Z in its order; O(N M²) time, O(N + M²) memory.

    V = L⁻¹K_Zf has one row for each point, so Σ_s V_si² over its first m rows is the diagonal of Q for the first m
    points.  If jitter is 0, rows of X that are among the points (``indices``, and equal rows by ``groups``) give
    exactly 0.

    Raises
    ------
    NotPositiveDefinite
        if K_ZZ + jitter·I does not factorise, or so inaccurately that K − Q has a negative diagonal.

    >>> from gpbounds import SquaredExponential
    >>> X = np.array([[0.0], [0.1], [3.0]])
    >>> prefixes(SquaredExponential(), X, X[:2], np.array([0, 1]), np.arange(3), 0.0).traces.round(4)
    array([3.    , 1.0098, 0.9984])
    """
    whitener = inducing(kernel, Z, jitter)
    M = whitener.M
    position = np.full(int(groups.max()) + 1, M)  # of the point that equals the rows of a group; M if there is none
    if indices is not None and whitener.chol.jitter == 0.0:
        position[groups[indices]] = np.arange(M)
    traces, least, scale = np.zeros(M + 1), 0.0, 0.0
    for rows, V in whitener.chunks(X):
        residual = np.empty((M + 1, V.shape[1]))
        residual[0] = kernel.diag(X[rows])
        np.multiply(V, V, out=residual[1:])
        np.cumsum(residual[1:], axis=0, out=residual[1:])
        np.subtract(residual[0], residual[1:], out=residual[1:])
        least, scale = min(least, float(residual[M].min())), max(scale, float(residual[0].max()))
        first = position[groups[rows]]
        for column in np.flatnonzero(first < M):
            residual[first[column] + 1 :, column] = 0.0
        traces += np.maximum(residual, 0.0, out=residual).sum(axis=1)
    require_residual(least, scale, M)
    log_dets = np.append(0.0, 2.0 * np.cumsum(np.log(np.diagonal(whitener.chol.L))))
    return _Prefixes(traces, log_dets, whitener.chol.jitter)
