"""The down-up walk on subsets of M points, whose stationary law is the k-DPP, with a proved number of steps.

One step: drop one of the M points, uniformly; draw its successor with probability ∝ its variance given the other M − 1,
which is ∝ |K_ZZ|.  With V (M × N), VᵀV = Q_Z, and q the unit vector orthogonal to the columns of the M − 1, that
variance is [K − Q_Z]_jj + (qᵀV)_j²: O(N M) a step, M × N memory; K is never computed.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, lgamma, log, log1p, sqrt

import numpy as np
from numpy.typing import NDArray

from gpbounds.arrays import EPS, Float
from gpbounds.errors import NotConverged
from gpbounds.kernels.base import Kernel
from gpbounds.linalg import cholesky
from gpbounds.linalg.pivoted import pivoted

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


def greedy_start(kernel: Kernel, X: Float, M: int) -> NDArray[np.int64]:
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
