"""Bounds on the log evidence at the trained parameters."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from fitting.estimators.arrays import held_rows
from fitting.prior_means import residuals
from gpbounds.arrays import Float, place
from gpbounds.bound import Bound
from gpbounds.kernels import Kernel
from gpbounds.means import LinearMean

GIVEN = "y stands for the targets minus the mean function of the prior."
FITTED = (
    "y stands for the targets minus the mean function of the prior, whose coefficients were trained on them; the bound "
    "holds for given targets, at these coefficients."
)


class WithBrackets:
    """What estimators inherit to bound the evidence of their training data."""

    X_train_: Float
    y_train_: Float
    kernel_: Kernel
    noise_: float
    mean: Any
    inducing_: Float
    _fitted: Any
    _module: Any
    _mean_of_targets: Any

    def log_evidence_bounds(self, **options: Any) -> Any:
        """Lower and upper bound on log p(y) at the trained kernel, noise and mean, by `gpbounds.renyi.evidence`.

        They hold for the targets as they were fitted, of which they see y − ``mean_``, and sum over P outputs: for
        given y they hold for every mean, also for one that was fitted to these rows.  ``options`` are passed on:
        members, alphas, block, and Z for other inducing points.  The computation runs on the device of the model.
        """
        from gpbounds.renyi import evidence

        self._fitted()
        xp = self._module()
        settings: dict[str, Any] = {
            "Z": self._bracket_inducing(),
            "jitter": "auto",
            **self._bracket_options(),
            **options,
        }
        settings["Z"] = place(settings["Z"], xp)
        X, y = place(self._bracket_points(), xp), place(self._bracket_targets(), xp)
        return self._of_residuals(evidence(self.kernel_, X, y, noise=self.noise_, **settings))

    def _of_residuals(self, bounds: tuple[Bound, Bound]) -> tuple[Bound, Bound]:
        """Bounds for y minus the prior mean, which say so."""
        if self._mean_of_targets() is None:
            return bounds
        about = GIVEN if isinstance(self.mean, LinearMean) else FITTED
        lower, upper = (replace(bound, assumptions=(*bound.assumptions, about)) for bound in bounds)
        return lower, upper

    def _bracket_points(self) -> Float:
        """The data as inputs of ``kernel_``."""
        return held_rows(self.X_train_)

    def _bracket_inducing(self) -> Float:
        """Inducing points of `log_evidence_bounds`."""
        return self.inducing_

    def _bracket_options(self) -> dict[str, Any]:
        return {}

    def _bracket_targets(self) -> Float:
        """The targets as they were fitted, minus the prior mean."""
        return residuals(self._mean_of_targets(), held_rows(self.X_train_), self.y_train_)
