"""The random choices of :func:`gpbounds.kdpp.select`, each with its law in words."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpbounds.arrays import Float, Indices
from gpbounds.kdpp.approximations import nystrom_tv
from gpbounds.kdpp.arguments import first_of_each, repeated
from gpbounds.kdpp.leverage import exact_scores, matching_ridge, ridge_leverage
from gpbounds.kernels import Kernel
from gpbounds.linalg import eigen
from gpbounds.linalg.parallel import one_blas_thread
from gpbounds.linalg.pivoted import pivoted

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
    from gpbounds.kdpp.low_rank import sample_factor
    from gpbounds.kdpp.sampling import sample

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
    """With r = ``rank`` greedy points, 2M by default; r is at most the numerical rank, and at least M."""
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
        tau, how = exact_scores(spectrum, rho), "exact"
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
