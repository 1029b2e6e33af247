"""The exact GP of a model's rows, factorised once: log p(y) and predictions between proved ends, noise per row too."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gpbounds.arrays import Float
from gpbounds.audit.model import Subject
from gpbounds.errors import NotPositiveDefinite
from gpbounds.exact import Exact, Triangle, factor_of
from gpbounds.interval import Interval
from gpbounds.iterative import ExactPredictions, evidence, exact_predictions
from gpbounds.iterative.prediction_ends import predictions_by_factor
from gpbounds.kernels import Kernel
from gpbounds.linalg.parallel import one_blas_thread
from gpbounds.linalg.workspace import Workspace
from gpbounds.once import cached_property
from gpbounds.renyi.escalation import computed_evidence, decided, sharper, spoilt, thirty_digits
from gpbounds.renyi.members import exact_work
from gpbounds.row_noise import UnitNoise, at_unit_noise, is_per_row
from gpbounds.validation import instance

MADE_BY = "what gpbounds.audit.subject returns"


@dataclass(frozen=True, eq=False)
class ExactRows:
    """Rows with one noise variance, or those of unit noise that rows with a noise variance each are (N-rows-noise).

    Attributes
    ----------
    kernel : Kernel
    X : array (N, D)
    y : array (N,)
    noise : float
    given : Subject
        The model and its rows as they were given, the jitter in their noise.
    unit : UnitNoise or None
        The change of problem, if there is one noise variance for each row.
    """

    kernel: Kernel
    X: Float
    y: Float
    noise: float
    given: Subject
    unit: UnitNoise | None = None

    @classmethod
    def of(cls, about: Subject, added: float = 0.0) -> ExactRows:
        """Those of a model, with ``added`` in the noise of each row."""
        instance("about", about, Subject, MADE_BY)
        given = replace(about, noise=about.noise + added) if added else about
        if not is_per_row(given.noise):
            return cls(about.kernel, about.X, about.y, given.noise, given)
        unit = at_unit_noise(about.kernel, about.X, about.y, given.noise)
        return cls(unit.kernel, np.asarray(unit.X), np.asarray(unit.y), 1.0, given, unit)

    @classmethod
    def known(cls, about: Subject, rows: ExactRows | None) -> ExactRows:
        """``rows``, or those of the model where they are None."""
        if rows is None:
            return cls.of(about)
        instance("about", about, Subject, MADE_BY)
        checked: ExactRows = instance("rows", rows, cls, "what ExactRows.of makes, or None")
        return checked

    @property
    def N(self) -> int:
        """Number of rows."""
        return len(self.y)

    @cached_property
    def model(self) -> Exact | None:
        """The exact GP by a Cholesky factor of K + σ²I, O(N³); None where σ² is below the rounding error of K."""
        with one_blas_thread():
            try:
                chol = factor_of(self.kernel, self.X, noise=self.noise)
            except NotPositiveDefinite:
                return None
        return Exact(Triangle(self.kernel, self.X, Workspace()), self.y[:, None], self.noise, chol)

    def affords(self, work: float) -> bool:
        """Whether ``work`` affords the factor."""
        return exact_work(self.N) <= work

    def evidence(self, *, work: float, delta: float, rng: int, progress: bool = False) -> Interval:
        """Ends of log p(y) of these rows.

        Raises
        ------
        ValueError
            if neither doubles nor 30 digits decide it.
        """
        if self.affords(work):
            with one_blas_thread():
                pair = self._dense()
            return pair if self.unit is None else self.unit.of_log_evidence(pair)
        given = self.given
        return evidence(given.kernel, given.X, given.y, noise=given.noise, delta=delta, rng=rng, progress=progress)

    def _dense(self) -> Interval:
        columns, pair = self.y[:, None], None
        if self.model is not None:
            pair = computed_evidence(self.kernel, self.X, columns, noise=self.noise, model=self.model)
        if pair is None or spoilt(pair):
            proved = thirty_digits(self.kernel, self.X, columns, self.noise)
            if proved is not None:
                pair = proved if pair is None else sharper(pair, proved)
        if pair is None:
            raise NotPositiveDefinite(
                f"noise: expected σ² above the rounding error of K, where doubles decide log p(y), got {self.noise:.3g}"
            )
        return decided(pair, self.noise)

    def predictions(self, X_new: Float, *, tolerance: float, work: float, progress: bool = False) -> ExactPredictions:
        """Ends of latent means and variances at X_new (n, D), D that of the model."""
        if not self.affords(work) or self.model is None:
            given = self.given
            options: dict[str, Any] = {"tolerance": tolerance, "progress": progress}
            return exact_predictions(given.kernel, given.X, given.y, X_new, noise=given.noise, **options)
        if self.unit is None:
            return predictions_by_factor(self.model, X_new, tolerance=tolerance)
        points = np.asarray(self.unit.points(X_new, "X_new"))
        finer = tolerance * min(1.0, float(np.median(self.unit.noise)))
        return self._of_given_rows(predictions_by_factor(self.model, points, tolerance=finer), points)

    def _of_given_rows(self, made: ExactPredictions, points: Float) -> ExactPredictions:
        """The ends of the given rows' predictions from those of the rows of unit noise."""
        assert self.unit is not None
        prior = np.asarray(self.kernel.diag(points))
        mean, variance = self.unit.of_predictions(prior, made.mean, made.variance)
        return replace(made, mean=mean, variance=variance)


def jitter_effect(N: int, *, noise: Any, added: float, square: float) -> tuple[float, float]:
    """Ends of log p(y) at σ² + ``added`` less log p(y) at σ², for any kernel (N-jitter).

        −½Σ log(1 + j/σ_i²) ≤ difference ≤ ½ max_i(j/(σ_i² + j)) yᵀA⁻¹y ≤ ½ max_i(j/(σ_i² + j)) Σ y_i²/σ_i²

    Parameters
    ----------
    N : int
    noise : float or array (N,)
        σ², in squared units of y.
    added : float
        j ≥ 0, on the diagonal of K.
    square : float
        An upper bound on yᵀA⁻¹y, A = K + σ²I, or Σ y_i²/σ_i².

    >>> jitter_effect(10, noise=0.1, added=0.0, square=5.0)
    (0.0, 0.0)
    >>> low, high = jitter_effect(10, noise=0.1, added=0.1, square=5.0)
    >>> round(low, 4), round(high, 4)
    (-3.4657, 1.25)
    """
    if added == 0.0:
        return 0.0, 0.0
    each = np.broadcast_to(np.asarray(noise, dtype=np.float64), (N,))
    logs = 0.5 * math.fsum(np.log1p(added / each).tolist())
    most = 0.5 * float((added / (each + added)).max()) * square
    return -logs * (1.0 + 1e-12), most * (1.0 + 1e-12)
