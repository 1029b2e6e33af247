"""`rate` for given targets under attack, on rows so few that every subset of them is looked at.

The bound is about the draw that is kept among R.  Two truths: its theorem's number, from E(K − Q) over all subsets, and
the probability that the draw exceeds the bound, from the divergence of each subset.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import Any

import numpy as np
from flint import arb, arb_mat

from adversarial import truths
from adversarial.instances import Instance, Refused, Statement, one_of, order
from gpbounds import Empirical, rate

ROWS = 7
"""Most rows: 35 subsets of one size."""
CERTAIN = 0.8
"""Share of the draws that may miss the level at which ``draws="certain"`` stops."""


def rate_of_targets(case: Instance, rng: np.random.Generator) -> Iterator[Statement]:
    """The theorem's number, and the probability that the kept draw has a larger divergence.

    y is given (N-given, N-tilt-given), or only its norm, which was fixed before the draws (N-fixed).
    """
    X, y = case.X[:ROWS], case.y[:ROWS]
    M = int(rng.integers(1, 1 + min(len(X) - 1, len(np.unique(X, axis=0)))))
    delta = float(one_of([10.0 ** rng.uniform(-6.0, -0.1), rng.uniform(0.3, 0.99)], rng))
    draws, tv = one_of([1, 3, "certain"], rng), one_of([0.0, 0.0, 1e-3], rng)
    settings: dict[str, Any] = {"noise": case.noise, "delta": delta, "draws": draws, "tv": tv}
    norm2 = None
    if rng.random() < 0.2:
        norm2 = math.nextafter(math.fsum((y * y).tolist()) * (1.0 + 1e-15), math.inf)
        settings |= {"y_norm2": norm2, "y_norm2_known": "before", "rigor": "sharp"}
    else:
        y = one_of([y, y, np.column_stack([y, y[::-1]])], rng)
        laws, rigors = [None, "kdpp", "tilted"], ["auto", "sharp"]
        settings |= {"y": y, "law": one_of(laws, rng), "rigor": one_of(rigors, rng)}
    alpha = order(rng)
    bound = rate(case.kernel, len(X), M, alpha, inputs=Empirical(X), **settings)
    stated, tilted = float(bound), "N-tilt-given" in bound.claim
    if not bound.certified or stated == math.inf:
        raise Refused("nothing is proved")
    R, allowed = (1, CERTAIN) if draws == "certain" else (draws, delta)
    drawn = truths.once(lambda: Drawn(truths.covariances(case.kernel, X, X), X, y, case.noise, M, alpha, tilted))
    yield None, lambda: drawn().level(arb(allowed).root(R) - arb(tv), norm2), stated
    yield None, lambda: drawn().exceeding(stated) ** R, allowed


@dataclass(frozen=True, eq=False)
class Drawn:
    """One draw of M among the rows X, of the k-DPP or with P(Z) ∝ |(K² + σ²K)_ZZ|."""

    K: arb_mat
    X: np.ndarray
    y: np.ndarray
    noise: float
    M: int
    alpha: float
    tilted: bool

    @cached_property
    def noisy(self) -> arb_mat:
        return self.K + truths.identity(len(self.X), self.noise)

    @cached_property
    def subsets(self) -> list[tuple[Any, arb_mat]]:
        """P(Z) and K − Q_Z of each subset of different rows; others have probability 0."""
        law = self.K * self.noisy if self.tilted else self.K
        weights, left = [], []
        for rows in itertools.combinations(range(len(self.X)), self.M):
            if len(np.unique(self.X[list(rows)], axis=0)) == self.M:
                columns = arb_mat([[self.K[i, j] for j in range(len(self.X))] for i in rows])
                weights.append(_block(law, rows).det())
                left.append(self.K - columns.transpose() * _block(self.K, rows).solve(columns))
        total = sum(weights, arb(0))
        return [(weight / total, each) for weight, each in zip(weights, left, strict=True)]

    def exceeding(self, level: float) -> Any:
        """P(D_α > level), without the subsets for which too few bits decide it."""
        evidence = truths.log_normal(self.noisy, self.y)
        probability = arb(0)
        for weight, left in self.subsets:
            D = evidence - truths.Dense(self.K, left, self.y, self.noise, self.alpha).objective()
            if D > level:
                probability += weight
            elif not D < level and float(D.rad()) > 1e-30 * level + 1e-300:
                raise ZeroDivisionError
        return probability

    def level(self, p: Any, norm2: float | None = None) -> Any:
        """The least level of the theorem: N-tilt-given, N-given, or with ``norm2`` N-fixed.

        The mean of N-tilt over p, or (α/2)(q̄ + Pb̄) over max_a [p(1 − αa) − αΩ_a].
        """
        share = p if self.tilted else self._margin(p)
        if share <= 0:
            return arb("inf")
        if not share > 0:
            raise ZeroDivisionError
        return arb(self.alpha) / 2 * (self._tilted_mean() if self.tilted else self._mean(norm2)) / share

    def _tilted_mean(self) -> Any:
        """E~ [yᵀ(Q_n⁻¹ − K_n⁻¹)y + P·Tr (Q_n⁻¹ − K_n⁻¹)KK_n/σ²]."""
        whole, own = self.K * self.noisy, truths.quadratic(self.noisy, self.y)
        mean = arb(0)
        for weight, left in self.subsets:
            Q = self.noisy - left
            traces = truths.trace(Q.solve(whole)) - truths.trace(self.K)
            mean += weight * (truths.quadratic(Q, self.y) - own + truths.outputs(self.y) * traces / arb(self.noise))
        return mean

    def _mean(self, norm2: float | None) -> Any:
        """q̄ + Pb̄ = Σ_p y_pᵀK_n⁻¹RK_n⁻¹y_p + P·Tr RKK_n⁻¹/σ², R = E(K − Q), or q̄ for the worst y of a norm."""
        N, P = len(self.X), truths.outputs(self.y)
        R = arb_mat(N, N)
        for weight, left in self.subsets:
            R += weight * left
        excess = truths.trace(self.noisy.solve(self.K * R)) / arb(self.noise)
        if norm2 is not None:
            values, miss = self._missed
            weights = [m * value / (value + arb(self.noise)) ** 2 for m, value in zip(miss, values, strict=True)]
            return arb(norm2) * reduce(lambda a, b: a.max(b), weights) + excess
        V = self.noisy.solve(arb_mat(N, P, [arb(value) for value in self.y.ravel().tolist()]))
        return truths.trace(V.transpose() * R * V) + P * excess

    @cached_property
    def _missed(self) -> tuple[list[Any], list[Any]]:
        """λ_i and miss_i = e_M(λ without λ_i)/e_M(λ)."""
        values = truths.eigenvalues(self.K)
        whole = _symmetric(values, self.M)
        return values, [_symmetric(values[:i] + values[i + 1 :], self.M) / whole for i in range(len(values))]

    def _margin(self, p: Any) -> Any:
        """max_a [p(1 − αa) − αΩ_a], Ω_a = Σ miss_i (h_i − a)₊: a concave function with corners at h_i."""
        values, miss = self._missed
        shares, alpha = [value / (value + arb(self.noise)) for value in values], arb(self.alpha)

        def at(a: Any) -> Any:
            omega = sum((m * (h - a).max(arb(0)) for m, h in zip(miss, shares, strict=True)), arb(0))
            return p * (1 - alpha * a) - alpha * omega

        return reduce(lambda a, b: a.max(b), map(at, [arb(0), *shares]))


def _block(A: arb_mat, rows: tuple[int, ...]) -> arb_mat:
    return arb_mat([[A[i, j] for j in rows] for i in rows])


def _symmetric(values: list[Any], M: int) -> Any:
    """The elementary symmetric polynomial of degree M."""
    sums = [arb(1)] + [arb(0)] * M
    for value in values:
        for m in range(M, 0, -1):
            sums[m] += value * sums[m - 1]
    return sums[M]
