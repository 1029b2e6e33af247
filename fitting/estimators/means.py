"""The argument ``mean`` of the estimators: the prior mean at the start of training and after it."""

from __future__ import annotations

from typing import Any

from fitting.objectives.point import Parameters
from fitting.prior_means import KINDS, PriorMean, residuals
from fitting.rows.columns import Columns
from gpbounds.arrays import Array
from gpbounds.means import LinearMean


class WithMean:
    """What estimators inherit to have a prior mean."""

    mean: Any
    mean_: LinearMean | tuple[LinearMean, ...] | None
    X_train_: Any
    y_train_: Any
    n_features_in_: int

    def _check_mean(self) -> None:
        if not (isinstance(self.mean, LinearMean) or (isinstance(self.mean, str) and self.mean in KINDS)):
            words = ", ".join(map(repr, KINDS))
            raise ValueError(f"mean: expected {words} or a gpbounds.means.LinearMean, got {self.mean!r}")

    def _first_mean(self, X: Any, Y: Any) -> PriorMean | None:
        """The prior mean at the start of training: given, or by least squares; None for 0."""
        if isinstance(self.mean, LinearMean):
            return PriorMean.of((self.mean,) * Y.shape[1], X.shape[1])
        return None if self.mean == "zero" else PriorMean.least_squares(self.mean, X, Y)

    def _about(self, mean: PriorMean | None, X: Any, Y: Any) -> Any:
        """The targets Y minus a prior mean, as real numbers whose prior mean is 0."""
        if isinstance(Y, Columns):
            return Y.about(mean)
        return residuals(mean, X, Y)

    def _set_mean(self, point: Parameters, single: bool) -> PriorMean | None:
        """Set ``mean_`` to the prior mean of ``point``, and return it as a given function of the inputs."""
        functions = None if point.prior_mean is None else point.prior_mean.functions()
        self.mean_ = functions[0] if functions is not None and single else functions
        return self._fitted_mean()

    def _fitted_mean(self) -> PriorMean | None:
        """``mean_`` as a function of the inputs, in the units of the model."""
        if getattr(self, "mean_", None) is None:
            return None
        functions = self.mean_ if isinstance(self.mean_, tuple) else (self.mean_,)
        return PriorMean.of(functions, self.n_features_in_)  # type: ignore[arg-type]

    def _mean_of_targets(self) -> PriorMean | None:
        """What ``posterior_`` leaves out of ``y_train_``."""
        return self._fitted_mean()

    def _mean_at(self, X: Array) -> Array | float:
        """The prior mean at inputs in the units of the model: shape (n, P), or (n,) where y was (N,)."""
        mean = self._fitted_mean()
        if mean is None:
            return 0.0
        return mean(X) if isinstance(self.mean_, tuple) else mean(X)[:, 0]
