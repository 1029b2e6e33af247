"""Lower bounds for given rows: for any y, and on average over y from the prior."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from gpbounds.arrays import Float
from gpbounds.kernels import Kernel
from gpbounds.linalg import eigen


@dataclass(frozen=True, eq=False)
class Floors:
    """Lower bounds on the eigenvalues of k(X, X), and on the gap of every choice of M inducing variables."""

    eigenvalues: Float
    noise: float
    alpha: float

    @classmethod
    def of(cls, kernel: Kernel, X: Float, noise: float, alpha: float) -> Floors:
        """Compute them from the rows X, in O(N³)."""
        decomposed = eigen(kernel(X), "k(X, X)")
        return cls(np.maximum(decomposed.values - decomposed.rounding, 0.0), noise, alpha)

    def any_y(self, M: Float) -> Float:
        """Lower bound on D_α for every choice of M inducing variables and every y (N-low)."""
        from gpbounds.renyi import minimum_gap

        return np.asarray(minimum_gap(self.eigenvalues, M.astype(np.int64), self.alpha, noise=self.noise))

    def prior(self, M: Float) -> Float:
        """Lower bound on the mean of D_α over y from the prior, for every choice made without y (N-lowprior)."""
        from gpbounds.renyi import minimum_gap

        return np.asarray(minimum_gap(self.eigenvalues, M.astype(np.int64), self.alpha, noise=self.noise, y="prior"))

    def needed(self, bound: Callable[[Float], Float], target: float) -> int:
        """The least M at which ``bound`` does not exceed the target."""
        above = np.flatnonzero(bound(np.arange(1.0, self.eigenvalues.size)) > target)
        return int(above[-1]) + 2 if above.size else 1

    def record(self, target: float) -> dict[str, int]:
        """The least M that the lower bounds admit, ready for JSON."""
        return {
            "rows": self.eigenvalues.size,
            "N-low": self.needed(self.any_y, target),
            "N-lowprior": self.needed(self.prior, target),
        }


def sentence(record: dict[str, int]) -> str:
    """Both lower bounds as one sentence each."""
    return (
        f"Lower bounds for {record['rows']} rows: fewer than {record['N-low']} inducing variables do not reach the "
        f"target for any y (N-low); fewer than {record['N-lowprior']}, chosen without y, do not reach it on average "
        "over y from the prior (N-lowprior)."
    )
