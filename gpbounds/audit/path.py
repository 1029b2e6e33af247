"""Sparse posteriors at every M of one greedy path, and how far their predictions are from the exact GP's."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from gpbounds.arrays import EPS, Float
from gpbounds.audit.scores import Enclosure, average, log_loss_ends, squared_error_ends
from gpbounds.kdpp.record import groups_of, repeated
from gpbounds.kernels import Kernel
from gpbounds.linalg import cholesky
from gpbounds.linalg.pivoted import Pivoted, pivoted
from gpbounds.once import cached_property

CONFIDENCE = 0.95


class GreedyPath:
    """Predictions of the optimal sparse posterior (VFE) whose inducing points are the first M of one greedy path.

    With V = L⁻¹K_Zf of the whole path, L_B the factor of I + VVᵀ/σ², c = L_B⁻¹Vy/σ², and at new rows V* = L⁻¹K_Z*,
    W = L_B⁻¹V*: the first M rows of V, L_B, c, V* and W are those of the first M points.  So sums over the first M of
    cW, of V*² and of W² are means and variances for every M, in one pass of O(NM²).

    >>> from gpbounds.kernels import SquaredExponential
    >>> X = np.linspace(0.0, 6.0, 40)[:, None]
    >>> path = GreedyPath(SquaredExponential(), X, np.sin(X[:, 0]), 0.01, np.array([[2.0], [3.0]]))
    >>> means, variances = path.grow(10)
    >>> means.shape, bool(abs(means[9, 0] - np.sin(2.0)) < 0.01)
    ((10, 2), True)
    """

    def __init__(self, kernel: Kernel, X: Float, y: Float, noise: float, points: Float) -> None:
        self.kernel, self.X, self.y, self.noise, self.points = kernel, X, y, noise, points
        self._groups = repeated(groups_of(X))
        self.chosen: Pivoted | None = None

    def grow(self, M: int) -> tuple[Float, Float]:
        """Means and latent variances (m, n) for 1, …, m points; m < M where no other row has a variance left.

        In doubles, without a proved error: a variance that rounding leaves below 0 is 0.
        """
        self.chosen = pivoted(
            lambda i, columns: self.kernel(self.X[i], self.X[columns]),
            self.kernel.diag(self.X),
            M,
            groups=self._groups,
            before=self.chosen,
        )
        V, order = self.chosen.factor, self.chosen.indices
        L = np.tril(V[:, order].T)
        new = _lower(L, self.kernel(self.X[order], self.points))
        B = V @ V.T / self.noise
        B[np.diag_indices_from(B)] += 1.0
        factor = cholesky(B, name="I + VVᵀ/σ²")
        weights = factor.solve_lower(V @ self.y / self.noise)
        whitened = factor.solve_lower(new)
        means = np.cumsum(whitened * weights[:, None], axis=0)
        drop = np.cumsum(new * new - whitened * whitened, axis=0)
        return means, np.maximum(self.kernel.diag(self.points) - drop, 0.0)


def _lower(L: Float, B: Float) -> Float:
    from scipy.linalg import solve_triangular

    return np.asarray(solve_triangular(L, B, lower=True, check_finite=False))


@dataclass(frozen=True, eq=False)
class Distances:
    """A measure of the distance for 1, …, m points.

    Attributes
    ----------
    enclosure : Enclosure of arrays (m,)
        At the rows held out, whatever the exact predictions between their ends are.
    interval : Enclosure of arrays (m,)
        Approximate 95 % interval for all such rows (Student), which holds for every value in the enclosures.
    """

    enclosure: Enclosure
    interval: Enclosure


@dataclass(frozen=True, eq=False)
class ExactScores:
    """The exact GP at the rows held out: their targets, and the proved ends of its predictions."""

    y: Float
    mean: tuple[Float, Float]
    variance: tuple[Float, Float]
    noise: float
    method: str
    certified: bool

    @cached_property
    def loss(self) -> Enclosure:
        """Log losses."""
        return log_loss_ends(self.y, self.mean, self.variance, self.noise)

    @cached_property
    def squares(self) -> Enclosure:
        """Squared residuals."""
        return squared_error_ends(self.y, self.mean)

    def loss_lost(self, means: Float, variances: Float) -> Distances:
        """Log loss of the sparse model less that of the exact GP, nats a row, for means and variances (m, n)."""
        s = variances + self.noise
        logs, ratios = 0.5 * np.log(2.0 * np.pi * s), (self.y - means) ** 2 / (2.0 * s)
        exact, half = self.loss.middle, 0.5 * self.loss.width
        rows = logs + ratios - exact
        middle = rows.mean(axis=1)
        spread = rows.std(axis=1, ddof=1) + math.sqrt(float(half @ half) / (len(half) - 1))
        rounding = rounded(len(half)) * (1.0 + np.abs(logs) + ratios + np.abs(exact)).mean(axis=1)
        wide, reach = float(half.mean()) + rounding, quantile(len(half)) * spread / math.sqrt(len(half))
        return Distances(
            Enclosure(middle - wide, middle + wide),
            Enclosure(middle - reach - wide, middle + reach + wide),
        )

    def relative(self, means: Float, variances: Float) -> Distances:
        """Rms difference of the means over the rms residual of the exact GP, for means (m, n).

        The interval is that of the ratio of two means of squares, linearised: Student's for the mean of δ² − R²e².
        """
        near, far = (np.empty(means.shape) for _ in range(2))
        for m, mean in enumerate(means):
            near[m], far[m] = squared_error_ends(mean, self.mean)
        residual = average(self.squares)
        middle = self.squares.middle
        slack = rounded(len(middle))
        low = (1.0 - slack) * near.mean(axis=1) / residual.high
        high = (1.0 + slack) * far.mean(axis=1) / max(residual.low, np.finfo(float).tiny)
        ratio = 0.5 * (near + far).mean(axis=1) / middle.mean()
        rows = 0.5 * (near + far) - ratio[:, None] * middle
        reach = quantile(len(middle)) * rows.std(axis=1, ddof=1) / (math.sqrt(len(middle)) * middle.mean())
        return Distances(
            Enclosure(np.sqrt(low), np.sqrt(high)),
            Enclosure(np.sqrt(np.maximum(low - reach, 0.0)), np.sqrt(high + reach)),
        )


def rounded(n: int) -> float:
    """At least the relative error of a mean of n positive numbers, each a few units in the last place off."""
    return 2.0 * (n + 16) * EPS


def quantile(n: int) -> float:
    """Of Student's law with n − 1 degrees of freedom, for an interval of two sides."""
    from scipy.special import stdtrit

    return float(stdtrit(n - 1, 0.5 + 0.5 * CONFIDENCE))


def least_from_on(distances: Distances, target: float) -> tuple[int | None, int]:
    """(least M from which on the upper end of the interval is ≤ target, or None; greatest M whose lower end is above).

    Numbers are tested from the largest downwards, up to the first that fails.  A false M needs the upper end to be
    wrong at one fixed number, the largest one whose distance is above the target: if each upper end fails with
    probability at most p, so does the M that is chosen.

    >>> ends = Enclosure(np.array([2.0, 0.5, 1.5, 0.1]), np.array([3.0, 0.9, 1.7, 0.3]))
    >>> least_from_on(Distances(ends, ends), 1.0), least_from_on(Distances(ends, ends), 0.2)
    ((4, 3), (None, 3))
    """
    missed, above = ~(distances.interval.high <= target), distances.interval.low > target
    last = int(np.flatnonzero(missed)[-1]) + 1 if missed.any() else 0
    below = int(np.flatnonzero(above)[-1]) + 1 if above.any() else 0
    return (None if last == len(missed) else last + 1), below
