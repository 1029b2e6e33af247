"""How many greedy points suffice at one kernel and noise: the ELBO for every number of points, and a proof."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpbounds.arrays import Float, host
from gpbounds.errors import NotPositiveDefinite
from gpbounds.kdpp.record import groups_of, repeated
from gpbounds.kernels import Kernel
from gpbounds.linalg import cholesky
from gpbounds.linalg.parallel import one_blas_thread
from gpbounds.linalg.pivoted import Pivoted, pivoted
from gpbounds.renyi.accuracy import WITHOUT_WARNINGS
from gpbounds.renyi.brackets import assemble, bracket
from gpbounds.renyi.escalation import whole_evidence
from gpbounds.renyi.gap_bounds import streamed_gap
from gpbounds.renyi.members import CHEAP
from gpbounds.row_noise import UnitNoise, at_unit_noise, is_per_row

EXACT = 6000
"""Rows up to which log p(y) comes from a Cholesky factor of K + σ²I, which takes less time than one step of training
with as many inducing points as a target of one nat often needs."""

STAGE = 256
"""Points of a first greedy order; as long as they do not suffice, their number is doubled."""


@dataclass(frozen=True, eq=False)
class Nested:
    """Rows in greedy order at one kernel and noise: the first M of them are the greedy choice of M inducing points.

    Rows with a noise each are those of unit noise of another GP, with the same gaps (N-rows-noise).

    Attributes
    ----------
    kernel : Kernel
    X : array (N, D)
    Y : array (N, P)
        Targets minus the prior mean.
    noise, alpha : float
        The gap is D_α = log p(y) − L_α, of order α in (0, 1].
    target : float
        The gap that suffices.
    evidence : float
        A proved upper bound on log p(y); may be inf.
    points : array (R, D)
        As many as `nested` needed to answer.
    elbo : array (R + 1,)
        The ELBO (order 1) of the first 0, 1, …, R points, as doubles compute it.
    unit : UnitNoise or None
        The rows ``X``, ``Y`` at unit noise, whose kernel is ``kernel``; ``points`` are the caller's.
    """

    kernel: Kernel
    X: Float
    Y: Float
    noise: float
    alpha: float
    target: float
    evidence: float
    points: Float
    elbo: Float
    unit: UnitNoise | None = None

    @property
    def expected(self) -> int | None:
        """The least M ≥ 1 whose gap is at most the target by the computed ELBO; None if no M ≤ R is."""
        reached = np.flatnonzero(self.alpha * (self.evidence - self.elbo[1:]) <= self.target)
        return int(reached[0]) + 1 if reached.size else None

    def gap(self, Z: Float) -> float:
        """A proved upper bound on D_α of the inducing points Z, in nats; inf if rounding allows none.

        D_α ≤ α KL = α(log p(y) − L_VI) (N-conc, R-gap), with `evidence` above and a proved lower end of L_VI; or the
        bound of `gpbounds.renyi.gap` in O(NM²), if it is smaller.
        """
        try:
            with np.errstate(**WITHOUT_WARNINGS):
                centres = Z if self.unit is None else self.unit.points(Z)
                members = bracket(self.kernel, self.X, self.Y, centres, self.noise, (1.0,), "auto", streams=True)
                own = float(streamed_gap(members, self.alpha, "streamed").upper)
                least = members.variational_ends[0]
        except (NotPositiveDefinite, ValueError):
            return math.inf
        difference = math.nextafter(self.evidence - least, math.inf)  # of two proved ends: at least 0
        gap = min(own, math.nextafter(self.alpha * difference, math.inf))
        return gap if self.unit is None else math.nextafter(gap + self.unit.gap_error(gap), math.inf)

    def least(self) -> tuple[Float, float]:
        """The first M points with the least M that `gap` proves to reach the target, and that gap.

        The search begins at `expected`, which differs by rounding only.  Where no M reaches the target: all points.
        """
        M, R = self.expected or len(self.points), len(self.points)
        gap = self.gap(self.points[:M])
        while gap > self.target and M < R:
            M = min(M + max(1, M // 50), R)
            gap = self.gap(self.points[:M])
        return self.points[:M], gap


@one_blas_thread()
def nested(kernel: Kernel, X: Float, Y: Float, *, noise: Any, alpha: float, target: float, most: int) -> Nested:
    """`Nested` with as many points as reach the ``target``, or with ``most``, on the host: O(N·R²) time, O(N·R) memory.

    With the factor V of the greedy choice, Q = VᵀV, and a Cholesky factor L of σ²I + VVᵀ, the leading M rows of both
    belong to the first M points: so log|Q + σ²I| and yᵀ(Q + σ²I)⁻¹y of every M are cumulative sums.  Where ``noise``
    is an array (N,), the greedy choice is that of the rows of unit noise.

    >>> from gpbounds.kernels import SquaredExponential
    >>> X = np.linspace(0.0, 10.0, 40)[:, None]
    >>> order = nested(SquaredExponential(), X, np.sin(X), noise=0.1, alpha=1.0, target=0.1, most=30)
    >>> Z, gap = order.least()
    >>> len(Z), order.expected, gap <= 0.1
    (13, 13, True)
    """
    twins, picked = repeated(groups_of(X)), None
    own, unit = X, at_unit_noise(kernel, X, Y, noise) if is_per_row(noise) else None
    if unit is not None:
        kernel, X, Y, noise = unit.kernel, host(unit.X), host(unit.y), 1.0
    computed = _computed(kernel, X, Y, noise) if len(X) <= EXACT else None
    size = most if computed is None else min(most, STAGE)
    while True:
        picked = pivoted(lambda i, columns: kernel(X[i], X[columns]), kernel.diag(X), size, groups=twins, before=picked)
        evidence = _by_points(kernel, X, Y, noise, X[picked.indices]) if computed is None else computed
        elbos = _elbos(picked, Y, noise)
        order = Nested(kernel, X, Y, noise, alpha, target, evidence, own[picked.indices], elbos, unit)
        if size >= most or picked.indices.size < size or order.expected is not None:
            return order
        size = min(2 * size, most)


def _elbos(picked: Pivoted, Y: Float, noise: float) -> Float:
    """The ELBO of the first 0, 1, … points."""
    from scipy.linalg import solve_triangular

    (N, P), V = Y.shape, picked.factor
    L = cholesky(noise * np.eye(len(V)) + V @ V.T, name="σ²I + VVᵀ").L
    explained = (solve_triangular(L, V @ Y, lower=True) ** 2).sum(axis=1)
    log_dets = N * math.log(2.0 * math.pi * noise) + _sums(2.0 * np.log(np.diag(L)) - math.log(noise))
    quadratics = (float((Y * Y).sum()) - _sums(explained)) / noise
    return np.asarray(-0.5 * (P * log_dets + quadratics + P * picked.traces / noise))


def _sums(values: Float) -> Float:
    """0, and the cumulative sums."""
    return np.concatenate([[0.0], np.cumsum(values)])


def _computed(kernel: Kernel, X: Float, Y: Float, noise: float) -> float:
    """A proved upper bound on log p(y), from a factor of K + σ²I; inf where σ² is below the rounding errors of K."""
    try:
        with np.errstate(**WITHOUT_WARNINGS):
            return float(whole_evidence(kernel, X, Y, noise=noise).upper)
    except (NotPositiveDefinite, ValueError):
        return math.inf


def _by_points(kernel: Kernel, X: Float, Y: Float, noise: float, Z: Float) -> float:
    """As `_computed`, by the inducing points Z in O(NM²)."""
    try:
        with np.errstate(**WITHOUT_WARNINGS):
            members = bracket(kernel, X, Y, Z, noise, (1.0,), "auto", streams=True)
            return float(assemble(members, CHEAP).upper)
    except (NotPositiveDefinite, ValueError):
        return math.inf
