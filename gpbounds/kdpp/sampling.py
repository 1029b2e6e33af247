"""Exact samples of a k-DPP, from K, its eigenvectors or a factor; a Markov chain with a proved distance from it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import ceil, lgamma, log, log1p, sqrt
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gpbounds.arrays import EPS, Float, Indices, array_of, as_points, is_cupy
from gpbounds.errors import NonFinite, NotConverged, NotPositiveDefinite
from gpbounds.kdpp.approximations import rounding_tv
from gpbounds.kdpp.esp import log_tilt
from gpbounds.kdpp.record import kernel_matrix
from gpbounds.kernels.base import Kernel, as_kernel
from gpbounds.linalg import cholesky, eigen
from gpbounds.linalg.pivoted import pivoted
from gpbounds.validation import choice, count, finite, generator, open_unit

# The two phases of an exact k-DPP sample, both by rejection: no table, and less than O(N M) work for each point.
#
# A k-DPP is a mixture of projection DPPs.  Phase 1 draws a set J of eigenvectors, P(J) ∝ Π_{m∈J} λ_m; phase 2 draws M
# points from the projection on their span.

_ACCEPTED = 32
"""Expected number of accepted proposals in a block."""
MOST = 256
"""Largest number of proposals in a block."""
_BLOCK = 2**19  # uniform numbers drawn at a time


def choose_eigenvectors(log_values: Float, M: int, rng: np.random.Generator) -> Indices:
    """Positions J, |J| = M, increasing, with P(J) ∝ Π_{m∈J} λ_m, from log λ: exactly, and without e_M.

    Independent coins with odds sλ_m are tossed until M of them show heads: given this number, P(J) ∝ Π λ_m for every s.
    s is chosen such that the expected number of heads is M; its most likely value is then M (Darroch, 1964), so a trial
    succeeds with probability ≥ 1/√(1 + 12v), where v = Σ p(1−p) ≤ M is the variance of the number.
    """
    n = log_values.size
    if M in (0, n):
        return np.arange(M)
    from scipy.special import expit

    p = expit(log_values + log_tilt(log_values, M))  # Σ p = M
    trials = min(ceil(sqrt(1.0 + 12.0 * float((p * (1.0 - p)).sum()))), max(1, _BLOCK // n))
    while True:
        heads = rng.random((trials, n)) < p
        successes = np.flatnonzero(np.count_nonzero(heads, axis=1) == M)
        if successes.size:
            return np.flatnonzero(heads[successes[0]])


def draw_projection(rows: Callable[[Indices], Float], leverage: Float, M: int, rng: np.random.Generator) -> Indices:
    """Z with P(Z) = |(YYᵀ)_ZZ| = |Y_Z|², increasing, for Y (N × M) with orthonormal columns.

    One point after another by the chain rule: given the rows drawn so far, row y_i has probability ∝ its squared
    distance to their span.  i is proposed by its leverage |y_i|² and accepted with probability distance²/leverage.
    The leverages sum to M and the distances to M − t, so M/(M − t) proposals are expected, M(1 + ½ + … + 1/M) in all;
    each takes O(M t), for any N, in blocks of proposals by matrix products.  The span is stored as an orthonormal
    basis, orthogonalised twice.  Rows within rounding error of it (duplicates of points drawn) are never accepted.

    Parameters
    ----------
    rows : function
        Row numbers (b,) ↦ their rows of Y (b, M).
    leverage : array (N,)
        |y_i|².
    """
    sums = np.cumsum(leverage)
    rounding = M * EPS
    basis = np.zeros((M, M))
    chosen = np.empty(M, dtype=np.int64)
    t = 0
    while t < M:
        proposals = np.searchsorted(sums[:-1], rng.random(M) * sums[-1], side="right")
        thresholds = np.maximum(rng.random(M), rounding) * leverage[proposals]
        start = 0
        while start < M and t < M:
            part = slice(start, start + min(MOST, ceil(_ACCEPTED * M / (M - t))))
            Y = rows(proposals[part])
            inside = Y @ basis[:t].T
            distances = leverage[proposals[part]] - np.einsum("bt,bt->b", inside, inside)
            accepted = _accepted(Y @ Y.T - inside @ inside.T, distances, thresholds[part])[: M - t]
            end = t + len(accepted)
            chosen[t:end] = proposals[part][accepted]
            if end < M and accepted:
                basis[t:end] = _directions(Y[accepted], basis[:t])
            t, start = end, part.stop
    return np.sort(chosen)


def _accepted(gram: Float, distances: Float, thresholds: Float) -> list[int]:
    """Positions of the accepted proposals of a block, from their inner products and squared distances given all
    points before the block: each distance is reduced by those accepted earlier in the block."""
    left, accepted = distances.copy(), list[int]()
    reduced = np.empty_like(gram)
    for j in range(left.size):
        if left[j] <= thresholds[j]:
            continue
        before = reduced[: len(accepted)]
        row = (gram[j] - before[:, j] @ before) / np.sqrt(left[j])
        reduced[len(accepted)] = row
        left[j + 1 :] -= row[j + 1 :] ** 2
        accepted.append(j)
    return accepted


def _directions(Y: Float, basis: Float) -> Float:
    """Orthonormal rows, orthogonal to ``basis``, that with it span the rows of Y too."""
    for _ in range(2):
        Y = np.linalg.qr((Y - (Y @ basis.T) @ basis).T)[0].T
    return Y


# Exact samples of a k-DPP over the data, Z ⊂ X, |Z| = M, P(Z) ∝ |K_ZZ|, from K or from its eigendecomposition.


def sample(K: ArrayLike, M: int, rng: np.random.Generator | int) -> Indices:
    """M distinct points drawn from the k-DPP of K: P(Z) = |K_ZZ| / e_M(λ).

    Exact up to rounding.  The eigendecomposition takes O(N³), a draw much less: for many draws decompose K once
    and use :func:`sample_eigen`.  Hypotheses: K ⪰ 0, M ≤ rank K.  Ledger: section F.  The mean of Tr(K − Q) under
    this law is :func:`~gpbounds.kdpp.expected_trace`.

    Parameters
    ----------
    K : array (N, N)
        Symmetric positive semi-definite.
    M : int
        0 ≤ M ≤ numerical rank, the number of eigenvalues above N·eps·λ_max; the others count as 0.
    rng : numpy.random.Generator or int
        Source of randomness, or a seed.

    Returns
    -------
    array of int64 (M,)
        Row numbers, distinct, increasing.

    Raises
    ------
    ValueError
        if the matrix is not square, symmetric and finite, or M exceeds the numerical rank.
    NotPositiveDefinite
        for an eigenvalue below −N·eps·λ_max.

    >>> sample(np.diag([1.0, 0.0, 2.0]), 2, np.random.default_rng(0))
    array([0, 2])
    """
    spectrum = eigen(kernel_matrix(K), "K", vectors=True)
    assert spectrum.vectors is not None
    return sample_eigen(spectrum.values, spectrum.vectors, M, rng)


def sample_eigen(
    eigenvalues: ArrayLike,
    eigenvectors: ArrayLike,
    M: int,
    rng: np.random.Generator | int,
    *,
    weights: ArrayLike | None = None,
) -> Indices:
    """The same as :func:`sample`, from K = V diag(λ) Vᵀ, in O(N M + M³ log M + n √M) per draw.

    Parameters
    ----------
    eigenvalues : array (n,)
        In any order, as ``numpy.linalg.eigh`` returns them; those within ±N·eps·λ_max count as 0.
    eigenvectors : array (N, n)
        Orthonormal columns; n < N where K has low rank.  Only the chosen columns are read.
    M : int
        0 ≤ M ≤ numerical rank.
    rng : numpy.random.Generator or int
    weights : array (n,), optional
        μ, for the k-DPP of V diag(μ) Vᵀ instead of K, for example from `tilted_eigenvalues`; μ > 0 wherever λ counts.
        ``eigenvalues`` still determine which columns count.

    Raises
    ------
    ValueError
        where shapes disagree, the chosen columns are not orthonormal, M exceeds the numerical rank, or a weight that
        counts is not positive.
    NotPositiveDefinite
        for an eigenvalue below −N·eps·λ_max.

    >>> values, vectors = np.linalg.eigh(np.diag([1.0, 0.0, 2.0]))
    >>> sample_eigen(values, vectors, 2, 1)
    array([0, 2])
    """
    if is_cupy(eigenvalues) or is_cupy(eigenvectors):
        raise ValueError("eigenvalues, eigenvectors: expected NumPy arrays, got CuPy arrays: pass .get() of them")
    values, vectors = finite("eigenvalues", eigenvalues), finite("eigenvectors", eigenvectors)
    if values.ndim != 1 or values.size == 0 or vectors.ndim != 2 or vectors.shape[1] != values.size:
        raise ValueError(
            f"eigenvalues, eigenvectors: expected shapes (n,) and (N, n), got {values.shape} and {vectors.shape}"
        )
    M, source = count("M", M, 0), generator(rng)
    rounding = vectors.shape[0] * EPS * max(float(values.max()), 0.0)
    if values.min() < -rounding:
        raise NotPositiveDefinite(
            f"eigenvalues: expected none below the rounding error {-rounding:.3g}, got {values.min():.3g}"
        )
    above = np.flatnonzero(values > rounding)
    if above.size < M:
        raise ValueError(
            f"M: expected at most the numerical rank, {above.size} eigenvalues above {rounding:.3g}, got {M}: the "
            "k-DPP of that size is undefined. Take fewer points; duplicates and long lengthscales lower the rank"
        )
    mixed = values if weights is None else _weights(weights, values.size, above)
    chosen = above[choose_eigenvectors(np.log(mixed[above]), M, source)]
    V = np.ascontiguousarray(vectors[:, chosen], dtype=np.float64)
    if not np.abs(V.T @ V - np.eye(M)).max(initial=0.0) <= 1e-8:  # NaN, too
        raise ValueError("eigenvectors: expected orthonormal columns, got VᵀV that differs from I by more than 1e-8")
    return draw_projection(V.__getitem__, np.einsum("ij,ij->i", V, V), M, source)


def _weights(weights: ArrayLike, n: int, above: Indices) -> Float:
    """μ of shape (n,), finite, and positive at the columns that count."""
    mixed = finite("weights", weights)
    if mixed.shape != (n,):
        raise ValueError(f"weights: expected shape ({n},), one for each eigenvalue, got {mixed.shape}")
    if not (mixed[above] > 0.0).all():
        raise ValueError(
            f"weights: expected numbers > 0 for the {above.size} eigenvalues above rounding error, got "
            f"{mixed[above].min():.3g}"
        )
    return mixed


# Exact k-DPP samples from a low-rank factor, L = VVᵀ, for N too large for an N × N matrix.

_ROWS = 4096


def sample_factor(V: ArrayLike, M: int, rng: np.random.Generator | int) -> Indices:
    """M distinct points drawn from the k-DPP of L = VVᵀ: P(Z) = |V_Z V_Zᵀ| / e_M(λ), without an N × N matrix.

    The law is that of :func:`sample` for K = VVᵀ.  For a kernel matrix K ≈ VVᵀ it is the k-DPP of the approximation,
    not of K: theorems about a k-DPP of K then need a bound on the total variation between the two (`nystrom_tv`).
    Dual sampling (Kulesza & Taskar, 2012) on V = AΣUᵀ with Σ, U from a QR factorisation by blocks of rows, so that
    singular values down to N·eps·σ_max keep their accuracy; from VᵀV they would lose it at √eps·σ_max.
    O(N r (r + M)) time, O(N) memory in addition to V.  Ledger: section F.

    Parameters
    ----------
    V : array (N, r)
        Real and finite; features, or a (pivoted) Cholesky factor.
    M : int
        0 ≤ M ≤ numerical rank, the number of singular values of V above max(N, r)·eps·σ_max; the others count as 0.
    rng : numpy.random.Generator or int
        Source of randomness, or a seed.

    Returns
    -------
    array of int64 (M,)
        Row numbers, distinct, increasing.

    Raises
    ------
    ValueError
        if V is not two-dimensional and real, or M exceeds the numerical rank.
    NonFinite
        for NaN or infinity in V; the message names the row.

    >>> sample_factor([[1.0, 0.0], [0.0, 0.0], [0.0, 2.0]], 2, np.random.default_rng(0))
    array([0, 2])
    """
    return FactorSampler(V).draw(M, generator(rng))


class FactorSampler:
    """`sample_factor` for many draws: V is factorised once.

    Attributes
    ----------
    factor : array (N, r)
    singular : array (r,)
        Singular values of V above rounding, falling; their squares are the eigenvalues of VVᵀ.
    """

    def __init__(self, V: ArrayLike) -> None:
        if is_cupy(V):
            raise ValueError("V: expected a NumPy array, got a CuPy array: pass V.get()")
        factor = array_of(np, "V", V)
        if factor.ndim != 2 or factor.size == 0 or factor.dtype.kind not in "biuf":
            raise ValueError(
                f"V: expected real numbers of shape (N, r), N, r >= 1, got shape {factor.shape}, dtype {factor.dtype}"
            )
        triangle = _triangle(factor)
        largest = float(np.abs(triangle).max())
        if largest and not 1e-140 < largest < 1e140:
            raise ValueError(
                "V: expected numbers whose squares have all digits of doubles, 1e-140 to 1e140 in size, got a factor "
                f"up to {largest:g}: rescale V"
            )
        _, sigma, Ut = np.linalg.svd(triangle)
        self.cutoff = max(factor.shape) * EPS * float(sigma[0])
        rank = int((sigma > self.cutoff).sum())
        self.factor, self.singular, self._Ut = factor, sigma[:rank], Ut[:rank]

    def draw(self, M: int, rng: np.random.Generator) -> Indices:
        """M distinct rows, increasing."""
        M, rank = count("M", M, 0), self.singular.size
        if rank < M:
            raise ValueError(
                f"M: expected at most the numerical rank of V, {rank} singular values above {self.cutoff:.3g}, got "
                f"{M}: the k-DPP of that size is undefined. Take fewer points or more columns"
            )
        J = choose_eigenvectors(2.0 * np.log(self.singular), M, rng)
        W = self._Ut[J].T / self.singular[J]  # V W has orthonormal columns: the chosen eigenvectors of VVᵀ
        factor = self.factor
        leverage = np.empty(factor.shape[0])
        for rows, block in _blocks(factor):
            Y = block @ W
            np.einsum("ij,ij->i", Y, Y, out=leverage[rows])
        return draw_projection(lambda i: factor[i] @ W, leverage, M, rng)


def _blocks(factor: np.ndarray) -> Iterator[tuple[slice, Float]]:
    """(rows, block) for consecutive blocks of rows, in float64."""
    step = max(_ROWS, 2 * factor.shape[1])
    for start in range(0, factor.shape[0], step):
        rows = slice(start, start + step)
        yield rows, factor[rows].astype(np.float64, copy=False)


def _triangle(factor: np.ndarray) -> Float:
    """R (≤ r × r) with RᵀR = VᵀV, by QR factorisations of one block of rows at a time."""
    R: Any = np.empty((0, factor.shape[1]))
    for rows, block in _blocks(factor):
        if not np.isfinite(block).all():
            row = rows.start + int(np.flatnonzero(~np.isfinite(block).all(axis=1))[0])
            raise NonFinite(f"V: expected finite numbers, got NaN or infinity in row {row}")
        R = np.linalg.qr(np.vstack([R, block]), mode="r")
    return R


# The down-up walk on subsets of M points, whose stationary law is the k-DPP, with a proved number of steps.
#
# One step: drop one of the M points, uniformly; draw its successor with probability ∝ its variance given the other M −
# 1, which is ∝ |K_ZZ|.  With V (M × N), VᵀV = Q_Z, and q the unit vector orthogonal to the columns of the M − 1, that
# variance is [K − Q_Z]_jj + (qᵀV)_j²: O(N M) a step, M × N memory; K is never computed.

DRIFT = 1e-6
"""Largest change of the law of one draw, in total variation, that rounding may cause between two factorisations."""


def tv_after(steps: int, M: int, log_rarity: float) -> float:
    """Upper bound on the total variation between the law of the walk after ``steps`` steps and the k-DPP.

    tv ≤ √(½ (1 − 1/M)^steps · log(1/P(Z₀)))

    The relative entropy to P starts at log(1/P(Z₀)) and each step multiplies it by at most 1 − 1/M, as for every
    homogeneous strongly log-concave law (Cryan, Guo & Mousa, Ann. Probab. 49, 2021, Thm 1 and its proof); k-DPPs are
    strongly Rayleigh and so strongly log-concave (Brändén & Huh, 2020).  Pinsker's inequality follows.  The same
    inequality gives their mixing time M·(log log(1/P(Z₀)) + log(1/(2tv²))).  Swaps of uniformly chosen pairs (Anari,
    Oveis Gharan & Rezaei, 2016) are cheaper, but about N times as many steps are proved to be enough.

    Parameters
    ----------
    log_rarity : float
        log(1/P(Z₀)), or an upper bound on it.

    >>> round(tv_after(40, 3, 5.0), 6)
    0.000475
    """
    if steps and M == 1:
        return 0.0  # the successor is drawn from the law itself
    return sqrt(0.5 * log_rarity) * (1.0 - 1.0 / M) ** (0.5 * steps)


def steps_for(tv: float, M: int, log_rarity: float) -> int:
    """The least number of steps for which :func:`tv_after` is at most ``tv``.

    >>> steps_for(0.01, 3, 5.0)
    25
    """
    if log_rarity <= 2.0 * tv**2:
        return 0
    steps = 1 if M == 1 else ceil(log(0.5 * log_rarity / tv**2) / -log1p(-1.0 / M))
    return steps if tv_after(steps, M, log_rarity) <= tv else steps + 1


@dataclass
class Walk:
    """State of the walk: Z, V = L⁻¹K_Zf (up to a rotation), the inverse of V_Z, and the diagonal of K − Q_Z."""

    kernel: Kernel
    X: Float
    Z: NDArray[np.int64]
    drift: float = 0.0

    def __post_init__(self) -> None:
        self.diagonal = np.asarray(self.kernel.diag(self.X), dtype=np.float64)
        self.rounding = self.diagonal.size * EPS * float(self.diagonal.max())
        self.refresh()

    def refresh(self) -> None:
        """Recompute V, its inverse on Z and the diagonal of K − Q_Z from a new factorisation of K_ZZ."""
        rows = np.asarray(self.kernel(self.X[self.Z], self.X), dtype=np.float64)
        factor = cholesky(rows[:, self.Z], name="K_ZZ")
        self.V = np.ascontiguousarray(factor.solve_lower(rows))
        self.inverse = factor.solve_lower(np.eye(self.Z.size)).T
        self.residual = self.diagonal - np.einsum("ij,ij->j", self.V, self.V)

    def log_rarity(self) -> float:
        """log(1/P(Z)) = log e_M − log|K_ZZ| from above, by e_M ≤ C(N, M)(Tr K/N)^M (Maclaurin); plus 1 for rounding."""
        N, M = self.diagonal.size, self.Z.size
        log_e = lgamma(N + 1) - lgamma(M + 1) - lgamma(N - M + 1) + M * log(float(self.diagonal.mean()))
        return max(0.0, log_e + 2.0 * float(np.linalg.slogdet(self.inverse)[1])) + 1.0

    def weights(self, a: int) -> tuple[Float, Float, Float]:
        """Without the a-th point of Z: the variance of every point given the others, the direction q, and qᵀV."""
        q = self.inverse[a] / np.linalg.norm(self.inverse[a])
        qV = q @ self.V
        variances = self.residual + qV**2
        own = variances[self.Z[a]]
        variances[variances <= self.rounding] = 0.0
        variances[self.Z] = 0.0
        variances[self.Z[a]] = own
        return variances, q, qV

    def step(self, rng: np.random.Generator) -> None:
        """Drop a point, draw its successor, and update V by a rank-one change."""
        from scipy.linalg.blas import dger

        a = int(rng.integers(self.Z.size))
        variances, q, qV = self.weights(a)
        sums = np.cumsum(variances)
        j = int(np.searchsorted(sums[:-1], rng.random() * sums[-1], side="right"))
        if j == self.Z[a]:
            return
        others = self.V[:, j] - q * qV[j]
        row = np.asarray(self.kernel(self.X[j : j + 1], self.X), dtype=np.float64)[0]
        added = (row - others @ self.V) / np.sqrt(variances[j])
        self.V = dger(1.0, added - qV, q, a=self.V.T, overwrite_a=1).T  # in place: V + q (added − qV)ᵀ
        self.residual += qV**2 - added**2
        column = self.V[:, j]
        change = self.inverse @ column
        change[a] -= 1.0
        self.inverse -= np.outer(change, self.inverse[a] / (self.inverse[a] @ column))
        self.Z[a] = j

    def run(self, steps: int, rng: np.random.Generator) -> None:
        """Make the steps, with a new factorisation after every M steps and at the end.

        Raises ``NotConverged`` if the law of a draw has changed by more than ``DRIFT`` since the last factorisation.
        """
        for made in range(1, steps + 1):
            self.step(rng)
            if made % self.Z.size == 0 or made == steps:
                a = int(rng.integers(self.Z.size))
                before = self.weights(a)[0]
                self.refresh()
                after = self.weights(a)[0]
                change = 0.5 * float(np.abs(before / before.sum() - after / after.sum()).sum())
                self.drift = max(self.drift, change)
                if not self.drift <= DRIFT:
                    raise NotConverged(
                        f"walk: rounding changed the law of a draw by {self.drift:.3g} in total variation, more than "
                        f"{DRIFT:.0e}: M = {self.Z.size} points are close to the numerical rank. Take fewer points"
                    )


def _greedy_start(kernel: Kernel, X: Float, M: int) -> NDArray[np.int64]:
    """M points, each of largest variance given the points before it: |K_ZZ| ≥ its maximum / (M!)²; O(N M) memory."""
    chosen = pivoted(lambda picked, columns: kernel(X[picked], X[columns]), kernel.diag(X), M)
    size = chosen.indices.size
    if size < M:
        raise ValueError(
            f"M: expected at most the numerical rank, got {M}: given {size} points the largest variance left is "
            f"{chosen.left:.3g}, rounding error, so the k-DPP of that size is undefined. Take at most {size} points; "
            "duplicates and long lengthscales lower the rank"
        )
    return chosen.indices


# A k-DPP sample of the data for a kernel: exact, or by a Markov chain with a proved distance to the k-DPP.


@dataclass(frozen=True, eq=False)
class Sample:
    """A sample, and bounds on the distance of its law from the k-DPP.

    Attributes
    ----------
    indices : array of int64 (M,)
        Row numbers of the inducing points in the data, distinct, increasing.
    tv : float or None
        Proved upper bound, in exact arithmetic, on the total variation between the law of the sample and the k-DPP, for
        the argument ``tv`` of the theorems.  0 for an exact sample; None if the bound is 1 or more, so that nothing is
        proved: ``rate(..., tv=None)`` raises an error.
    rounding : float
        The amount that rounding may add to ``tv``.  "exact": :func:`~gpbounds.kdpp.rounding_tv` at N·eps·λ_max.
        "mcmc": the number of steps times the largest change of the law of a step at a new factorisation, which is
        measured, not
        proved.
    method : str
        "exact" or "mcmc".
    steps : int
        Steps of the chain; 0 for an exact sample.
    """

    indices: Indices
    tv: float | None
    method: str
    steps: int
    rounding: float


def sample_kernel(
    kernel: Kernel,
    X: ArrayLike,
    M: int,
    rng: np.random.Generator | int,
    method: str = "exact",
    *,
    tv: float = 0.01,
    max_steps: int = 100_000,
) -> Sample:
    """M inducing points among the data, drawn from the k-DPP of the kernel, P(Z) ∝ |K_ZZ|, or from a law close to it.

    exact   computes and decomposes K: O(N³) time, O(N²) memory; tv = 0.
    mcmc    the down-up walk from the greedy set Z₀: drop a uniform point, draw another ∝ its conditional variance;
            tv ≤ √(½ (1 − 1/M)^steps log(1/P(Z₀)))  (Cryan, Guo & Mousa, 2021, and Pinsker), with P(Z₀) bounded below by
            |K_Z₀Z₀| / [C(N, M)(Tr K/N)^M].  About M·log(log(1/P(Z₀))/(2tv²)) steps of O(N M) time; O(N M) memory.

    Hypotheses: K ⪰ 0, M ≤ rank K.  Ledger: section F, and R-cor1 for the cost of tv in the theorems.  If M exceeds the
    numerical rank the k-DPP is undefined and an error is raised.  For "exact" that rank is the number of eigenvalues
    of K above N·eps·λ_max; for "mcmc" it is the number of conditional variances above N·eps·max K_ii, which may be
    slightly larger.  Just below that rank the law depends on the last digits of K: see the result's ``rounding``.

    Parameters
    ----------
    kernel : Kernel
    X : array (N, D)
        The data's inputs; NumPy.
    M : int
        0 ≤ M ≤ numerical rank.
    rng : numpy.random.Generator or int
        Source of randomness, or a seed.
    method : "exact" or "mcmc"
    tv : float
        Total variation that the chain should reach, in (0, 1).
    max_steps : int
        Largest number of steps.  If ``tv`` needs more steps, the chain makes ``max_steps`` of them, and the result's
        ``tv`` is the larger bound that these prove, or None.

    Raises
    ------
    ValueError
        if M exceeds the numerical rank, or an argument is out of range.
    NotConverged
        if rounding changes the law of a draw of the chain by more than 1e-6.

    >>> from gpbounds import SquaredExponential
    >>> X = np.linspace(0.0, 1.0, 30)
    >>> drawn = sample_kernel(SquaredExponential(lengthscale=0.1), X, 4, 0, "mcmc", tv=0.01)
    >>> drawn.indices.size, drawn.steps, round(drawn.tv, 4)
    (4, 39, 0.0087)
    """
    as_kernel(kernel)
    choice("method", method, ("exact", "mcmc"))
    if is_cupy(X):
        raise ValueError("X: expected a NumPy array, got a CuPy array: pass X.get()")
    points: Any = as_points(X).astype(np.float64, copy=False)
    M, limit, N = count("M", M, 0), count("max_steps", max_steps, 0), points.shape[0]
    requested = open_unit("tv", tv)
    if requested.ndim:
        raise ValueError(f"tv: expected one number in (0, 1), got shape {requested.shape}")
    if M > N:
        raise ValueError(f"M: expected at most N = {N} points, got {M}")
    source = generator(rng)
    if M == 0:
        return Sample(np.empty(0, dtype=np.int64), 0.0, method, 0, 0.0)
    if method == "exact":
        spectrum = eigen(kernel(points), "k(X, X)", vectors=True)
        assert spectrum.vectors is not None
        drawn = sample_eigen(spectrum.values, spectrum.vectors, M, source)
        return Sample(drawn, 0.0, method, 0, float(rounding_tv(spectrum.values, spectrum.rounding, M)))
    walk = Walk(kernel, points, _greedy_start(kernel, points, M))
    rarity = walk.log_rarity()
    steps = min(steps_for(float(requested), M, rarity), limit)
    walk.run(steps, source)
    proved = tv_after(steps, M, rarity)
    return Sample(np.sort(walk.Z), proved if proved < 1.0 else None, method, steps, min(1.0, steps * walk.drift))
