"""What a low-rank GP changes for the y at hand, at any number of rows, through a basis of few columns.

Determinants and covariances are those of p × p laws and of what is outside the basis (N-basis-given).  Solutions with
N rows start from the basis; their residuals, by one more pass over the rows, bound quadratic forms and means whatever
the basis is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from gpbounds.arrays import Array
from gpbounds.divergences.errors import gamma
from gpbounds.interval import Interval, Member, interval
from gpbounds.kernels.errors import entry_bound
from gpbounds.linalg.parallel import ENTRY, share
from gpbounds.linalg.products import norm
from gpbounds.lowrank.given_y import (
    GAP,
    PREDICTIVE,
    UP,
    NoisyLaw,
    QuadraticForm,
    U,
    blocked,
    log_density,
    of_covariances,
    of_means,
)
from gpbounds.lowrank.through_basis import Side, ThroughBasis
from gpbounds.once import cached_property
from gpbounds.validation import instance
from gpbounds.whitening import as_targets

ROUNDS = 3
"""Corrections of a solution by its residual."""
SMALL = 1e-9
"""What a residual may leave of a quadratic form before it is corrected, as a share of the form."""
Times = Callable[[Array], tuple[Array, Array]]
"""V (N, P) ↦ KV, and at least the error of each entry."""


@dataclass(frozen=True, eq=False)
class ThroughBasisGiven:
    """For this y: the log evidence and the predictions of low-rank GPs beside the exact GP's, in O(N) memory.

    With s and s̃ the traces of K and ΞΞᵀ outside the span of the basis of ``through``, the numbers of `evidence_gap` and
    of `predictive_kl` are those of two p × p laws, of quadratic forms, which are computed with all rows, and of
    remainders between (claim N-basis-given, summed over outputs)

        −s/(2σ²) and s̃/(2σ²),  −(s + s̃)/(2σ²) and [2s + 3s̃ + (√s + √(2s̃))²]/(2σ²).

    The exact side takes O(N²p) time once and O(N²P) for y, each Ξ then O(Nr(p + P)).

    Attributes
    ----------
    through : ThroughBasis
    Y : array (N, P)
        From ``y`` of shape (N,) or (N, P).

    >>> from gpbounds import SquaredExponential
    >>> from gpbounds.lowrank import FourierFeatures, evidence_gap
    >>> X, kernel = np.linspace(-1.0, 1.0, 50)[:, None], SquaredExponential()
    >>> features, y = FourierFeatures(kernel, 40, 0).fit(X), np.sin(3.0 * X[:, 0])
    >>> through = ThroughBasis(kernel, X, np.polynomial.chebyshev.chebvander(X[:, 0], 20), noise=0.1)
    >>> gap, dense = ThroughBasisGiven(through, y).evidence_gap(features), evidence_gap(
    ...     kernel(X), features(X), y, noise=0.1
    ... )
    >>> bool(gap.lower <= dense.upper and dense.lower <= gap.upper), gap.width < 1e-6
    (True, True)
    """

    through: ThroughBasis
    Y: Array

    def __init__(self, through: ThroughBasis, y: ArrayLike) -> None:
        instance("through", through, ThroughBasis, "a ThroughBasis")
        object.__setattr__(self, "through", through)
        object.__setattr__(self, "Y", as_targets(y, through.X).reshape(len(through.X), -1))

    def evidence_gap(self, features: Callable[[Array], Array]) -> Interval:
        """Lower and upper bound on log p(y) − log p̃(y), as :func:`evidence_gap` has them for matrices.

        Parameters
        ----------
        features : function of rows (n, D) to rows of Ξ (n, r)
            It is called three times, and returns the same numbers each time.

        Raises
        ------
        ValueError, NonFinite, NotPositiveDefinite
            as :meth:`ThroughBasis.kl`.
        """
        first, second = self._exact, self._of_features(features)
        form, other, P = self._exact_form, second.form(self.Y), self.Y.shape[1]
        exact, rank, noise = first.law(), second.law(), self.through.noise
        value = 0.5 * (P * (rank.log_det - exact.log_det) + other.value - form.value)
        own = 16.0 * U * (P * (abs(rank.log_det) + abs(exact.log_det)) + abs(other.value) + abs(form.value))
        common = P * (rank.log_det_error + exact.log_det_error) + other.error + form.error
        outside = P * first.side.outside / noise, P * second.side.outside / noise
        assumptions, proved = self.through.about
        below = Member(value, UP * (0.5 * (common + form.rest + outside[0]) + own), "N-basis-given", proved)
        above = Member(value, UP * (0.5 * (common + other.rest + outside[1]) + own), "N-basis-given", proved)
        left = (len(self.Y) - self.through.p) * float(np.log(noise))
        terms = {
            "exact": log_density(exact.log_det + left, form.value, *self.Y.shape),
            "low rank": log_density(rank.log_det + left, other.value, *self.Y.shape),
            "outside the basis": first.side.outside + second.side.outside,
        }
        return interval(GAP, {"basis": below}, {"basis": above}, terms=terms, assumptions=assumptions)

    def predictive_kl(self, features: Callable[[Array], Array]) -> Interval:
        """Lower and upper bound on KL(p(y'|y)‖p̃(y'|y)) at all rows, as :func:`predictive_kl` has them for matrices.

        Parameters and errors are those of :meth:`evidence_gap`; ``terms`` has the parts "covariance" and "mean".
        """
        first, second = self._exact, self._of_features(features)
        noise, P = self.through.noise, self.Y.shape[1]
        half = 0.5 * noise
        mean, low, high = of_means(self._exact_form, second.form(self.Y), second.at(half).form, noise)
        laws = second.at(half).law(), first.law(), second.law(), first.at(half).law()
        covariance, error = of_covariances(laws, half)
        s, t = first.side.outside, second.side.outside
        beyond = (2.0 * s + 3.0 * t + (np.sqrt(s) + np.sqrt(2.0 * t)) ** 2) / (2.0 * noise)
        assumptions, proved = self.through.about
        errors = UP * P * (error + (s + t) / (2.0 * noise)), UP * P * (error + float(beyond))
        below = Member(P * covariance + low, errors[0], "N-basis-given", proved)
        above = Member(P * covariance + high, errors[1], "N-basis-given", proved)
        terms = {"covariance": P * covariance, "mean": mean, "outside the basis": s + t}
        return interval(PREDICTIVE, {"basis": below}, {"basis": above}, terms=terms, assumptions=assumptions, least=0.0)

    @cached_property
    def _exact(self) -> _Solver:
        return _Solver(self.through, self.through.exact, self.through.noise, self._exact_times, "K")

    @cached_property
    def _exact_form(self) -> QuadraticForm:
        return self._exact.form(self.Y)

    def _of_features(self, features: Callable[[Array], Array]) -> _Solver:
        side = self.through.of_features(features)
        return _Solver(
            self.through, side, self.through.noise, lambda V: self._feature_times(features, V), "features features'"
        )

    def _exact_times(self, V: Array) -> tuple[Array, Array]:
        kernel, X, parts = self.through.kernel, self.through.X, self.through.parts
        product, sizes, size = np.empty_like(V), np.empty_like(V), np.abs(V)

        def add(number: int, worker: int) -> None:
            rows = parts[number]
            total, absolute = np.zeros_like(V[rows]), np.zeros_like(V[rows])
            for columns in parts:
                block = kernel(X[rows], X[columns])
                total += block @ V[columns]
                absolute += np.abs(block) @ size[columns]
            product[rows], sizes[rows] = total, absolute

        share(len(parts), add, flops=float(len(X)) ** 2 * (4.0 * V.shape[1] + ENTRY))
        entry = entry_bound(kernel, X, X)
        return product, UP * (gamma(self.through.steps) * sizes + (entry or 0.0) * size.sum(axis=0))

    def _feature_times(self, features: Callable[[Array], Array], V: Array) -> tuple[Array, Array]:
        parts, X, size = self.through.parts, self.through.X, np.abs(V)
        weights, lengths = 0.0, 0.0
        for rows in parts:
            part = np.asarray(features(X[rows]), dtype=np.float64)
            weights = weights + part.T @ V[rows]
            lengths = lengths + np.abs(part).T @ size[rows]
        product, sizes, terms = np.empty_like(V), np.empty_like(V), 0.0
        for rows in parts:
            part = np.asarray(features(X[rows]), dtype=np.float64)
            product[rows], _, terms = blocked(part, np.asarray(weights))
            _, sizes[rows], _ = blocked(part, np.asarray(lengths))
        return product, UP * gamma(self.through.steps + terms + 4.0) * sizes


@dataclass(frozen=True, eq=False)
class _Solver:
    """N(0, K + noise·I) of one of the two GPs: its p × p law in the basis, and solutions with all rows."""

    through: ThroughBasis
    side: Side
    noise: float
    times: Times
    name: str

    def at(self, noise: float) -> _Solver:
        """The same covariance with other noise."""
        return _Solver(self.through, self.side, noise, self.times, self.name)

    def law(self) -> NoisyLaw:
        """N(0, VᵀKV + noise·I), V = U(UᵀU)^(−½): ‖(UᵀU)^(−½) − I‖ ≤ 0.51f moves UᵀKU by at most 1.03f‖UᵀKU‖_F."""
        matrix, f = self.side.matrix, self.through.unit
        off = UP * (self.side.off + 1.1 * f * (norm(matrix) + self.side.off))
        return NoisyLaw(matrix, self.noise, off, lambda V: (matrix @ V, V), self.name)

    def form(self, Y: Array) -> QuadraticForm:
        """ΣyᵀA⁻¹y from a solution in the basis, which its residuals correct until they leave little or no less."""
        law = self.law()
        v = self._near(law, Y)
        best: QuadraticForm | None = None
        for _ in range(ROUNDS):
            times = self.times(v)
            form = QuadraticForm.of(Y, v, times, self.noise)
            if best is not None and form.rest >= best.rest:
                break
            best = form
            if form.rest <= SMALL * abs(form.value):
                break
            v = v + self._near(law, Y - times[0] - self.noise * v)
        assert best is not None
        return best

    def _near(self, law: NoisyLaw, Y: Array) -> Array:
        """(UMUᵀ + noise·I)⁻¹Y up to rounding, M = UᵀKU."""
        basis = self.through.U
        inside = basis.T @ Y
        return np.asarray(basis @ law.chol.solve(inside) + (Y - basis @ inside) / self.noise)
