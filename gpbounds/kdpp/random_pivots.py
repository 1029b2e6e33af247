"""Randomly pivoted Cholesky by rejection: points ∝ their variance given the points before, without a factor of all N.

A proposal is drawn ∝ weights that are at least the present variances, and accepted with probability variance/weight, so
that an accepted point follows its law exactly, whatever the weights are (Epperly, Tropp & Webber 2024).  The variance
of a proposal given t points costs t² flops; to make all N weights equal to the variances given s points costs Ns².  So
that is done when rejected proposals have cost half as much, for at least twice as many points as the last time.
"""

from __future__ import annotations

import numpy as np

from gpbounds.arrays import EPS, Float, Indices
from gpbounds.linalg.parallel import ENTRY, one_blas_thread, share
from gpbounds.linalg.pivoted import Rows
from gpbounds.linalg.triangular import solve_triangular

BLOCK = 64
"""Proposals that are drawn at once, if most of them are accepted."""
MOST = 16
"""Largest multiple of `BLOCK` that is drawn at once, where few are accepted."""
EAGER = 2.0
"""Cost of computing all weights, relative to that of the proposals that were rejected since the last time."""
FIRST = 16
"""Least number of points given which all weights are computed."""
CHUNK = 2048
"""Rows whose weights are made equal to their variances at a time."""


class RandomPivots:
    """Points z_1, z_2, … with P(z_{t+1} = i | z_1 … z_t) = [K − Q_t]_ii/Tr(K − Q_t) (N-rpc), as many as are asked for.

    How many are asked for changes none of them.  Memory: N + t².

    Proof of the law.  Weights and the number of proposals are functions of what was drawn before; a proposal i has the
    probability w_i/Σw and is accepted with probability r_i/w_i, r ≤ w the present variances.  So each is accepted as i
    with probability r_i/Σw, and the first that is accepted is i with probability r_i/Σr.  QED

    Attributes
    ----------
    weights : array (N,)
        At least the variances given the points; 0 for points that are equal to one of them, and for variances of at
        most N·eps·max K_ii.
    ended : bool
        Whether every weight is 0, so that no point is left.

    >>> K = np.array([[1.0, 0.9, 0.0], [0.9, 1.0, 0.1], [0.0, 0.1, 0.5]])
    >>> pivots = RandomPivots(lambda i, j: K[i][:, j], K.diagonal(), np.random.default_rng(1))
    >>> pivots.draw(5), pivots.indices.tolist(), pivots.variances.round(4).tolist()
    (3, [1, 2, 0], [1.0, 0.49, 0.1735])
    """

    def __init__(self, rows: Rows, diagonal: Float, rng: np.random.Generator, groups: Indices | None = None) -> None:
        self._rows, self._diagonal, self._rng, self._groups = rows, diagonal.astype(np.float64), rng, groups
        self.floor = diagonal.size * EPS * float(self._diagonal.max())
        self.weights = np.where(self._diagonal > self.floor, self._diagonal, 0.0)
        self._chosen = np.empty(0, dtype=np.int64)
        self._L = np.zeros((BLOCK, BLOCK))
        self._size, self._wasted, self._seen = BLOCK, 0.0, FIRST // 2

    @property
    def indices(self) -> Indices:
        """Numbers of the points in the order drawn."""
        return self._chosen

    @property
    def L(self) -> Float:
        """The Cholesky factor of K_ZZ."""
        t = self._chosen.size
        return self._L[:t, :t]

    @property
    def variances(self) -> Float:
        """Of each point given those before it."""
        return np.asarray(self.L.diagonal() ** 2)

    @property
    def ended(self) -> bool:
        """Whether no point is left."""
        return not self.weights.any()

    @one_blas_thread()
    def draw(self, M: int) -> int:
        """Draw until there are at least ``M`` points or none is left; the number of points, at most M."""
        while self._chosen.size < M and not self.ended:
            first, t = self._affordable(), self._chosen.size
            if first >= 2 * self._seen:
                self._sharpen(first)
                continue
            accepted = self._propose()
            self._wasted += (self._size - accepted) * t * (t + ENTRY)
            self._size = int(np.clip(BLOCK * round(0.5 * self._size / max(accepted, 1)), BLOCK, MOST * BLOCK))
        return min(M, self._chosen.size)

    def _propose(self) -> int:
        """One set of proposals; the number of accepted ones."""
        rng, w, t = self._rng, self.weights, self._chosen.size
        proposals = _proposed(w, self._size, rng)
        thresholds = rng.random(self._size) * w[proposals]
        V = self._whitened(proposals)
        own = np.maximum(self._diagonal[proposals] - np.einsum("ij,ij->j", V, V), 0.0)
        w[proposals] = np.where(own > self.floor, np.minimum(own, w[proposals]), 0.0)
        possible = np.flatnonzero(
            (own > thresholds) & (own > self.floor)
        )  # variances decrease: the others are rejected
        if not possible.size:
            return 0
        accepted, new = self._accept(proposals[possible], own[possible], thresholds[possible], V[:, possible])
        taken = proposals[possible[accepted]]
        self._reserve(t + taken.size)
        self._L[t : t + taken.size, :t] = V[:, possible[accepted]].T
        self._L[t : t + taken.size, t : t + taken.size] = np.tril(new[:, accepted].T)
        self._chosen = np.concatenate([self._chosen, taken])
        if self._groups is None:
            w[taken] = 0.0
        else:
            w[np.isin(self._groups, self._groups[taken])] = 0.0
        return int(taken.size)

    def _accept(self, proposals: Indices, own: Float, thresholds: Float, V: Float) -> tuple[list[int], Float]:
        """Places of the accepted proposals, in order, and the new rows of L⁻¹K at all of these proposals."""
        block = self._rows(proposals, proposals) - V.T @ V
        twins = proposals if self._groups is None else self._groups[proposals]
        own, n = own.copy(), proposals.size
        new = np.empty((n, n))
        accepted: list[int] = []
        for j in range(n):
            if own[j] <= thresholds[j] or own[j] <= self.floor:
                continue
            done = new[: len(accepted)]
            row = (block[j] - done[:, j] @ done) / np.sqrt(own[j])
            row[j] = np.sqrt(own[j])
            new[len(accepted)] = row
            accepted.append(j)
            own[j + 1 :] -= row[j + 1 :] ** 2
            own[j + 1 :][twins[j + 1 :] == twins[j]] = 0.0
        return accepted, new[: len(accepted)]

    def _whitened(self, columns: Indices, t: int | None = None) -> Float:
        """L⁻¹K_Z· at these columns, for all points or the first t."""
        t = self._chosen.size if t is None else t
        if not t:
            return np.empty((0, columns.size))
        return np.asarray(solve_triangular(self._L[:t, :t], self._rows(self._chosen[:t], columns)))

    def _affordable(self) -> int:
        """For how many of the points all weights may be computed for what rejected proposals have cost since then."""
        t, each = self._chosen.size, EAGER * self._wasted / max(int(np.count_nonzero(self.weights)), 1)
        return min(t, int(np.sqrt(0.25 * ENTRY * ENTRY + each) - 0.5 * ENTRY))

    def _sharpen(self, t: int) -> None:
        """Make the weights equal to the variances given the first t points; lanes share the rows."""
        left = np.flatnonzero(self.weights)
        parts = [left[start : start + CHUNK] for start in range(0, left.size, CHUNK)]

        def update(number: int, worker: int) -> None:
            part = parts[number]
            V = self._whitened(part, t)
            own = self._diagonal[part] - np.einsum("ij,ij->j", V, V)
            self.weights[part] = np.where(own > self.floor, np.minimum(own, self.weights[part]), 0.0)

        share(len(parts), update, flops=left.size * t * (t + ENTRY))
        self._wasted, self._seen = 0.0, t

    def _reserve(self, size: int) -> None:
        if size > len(self._L):
            larger = np.zeros((2 * size, 2 * size))
            t = self._chosen.size
            larger[:t, :t] = self.L
            self._L = larger


def _proposed(weights: Float, size: int, rng: np.random.Generator) -> Indices:
    """Points drawn independently with probability proportional to ``weights``; none of weight 0."""
    sums = np.cumsum(weights)
    last = int(np.flatnonzero(weights)[-1])
    return np.minimum(np.searchsorted(sums, rng.random(size) * sums[-1], side="right"), last)
