"""The protocol of estimators whose targets are real numbers."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtri
from sklearn.base import MultiOutputMixin, RegressorMixin

from fitting.estimators.given_rows import reals, scored
from gpbounds.arrays import Array, host, is_cupy, kind_of_caller, namespace, place, require_finite_rows
from gpbounds.overflow import within_doubles
from gpbounds.validation import open_unit, scalar


@within_doubles
def _r2(y: Any, prediction: Any, sample_weight: Any) -> float:
    from sklearn.metrics import r2_score

    return float(r2_score(y, prediction, sample_weight=sample_weight))


@within_doubles
def _log_density(y: Array, mean: Array, std: Array) -> Array:
    """log N(y; mean, std²)."""
    return -0.5 * ((y - mean) / std) ** 2 - namespace(mean).log(std) - 0.5 * math.log(2.0 * math.pi)


class Scored(RegressorMixin):
    """A regressor whose score refuses targets that NumPy would silently change."""

    predict: Callable[..., Any]

    @kind_of_caller
    def score(self, X: ArrayLike | Array, y: ArrayLike | Array, sample_weight: ArrayLike | None = None) -> float:
        """R² of the predicted means at X, that of scikit-learn, with rows weighted by ``sample_weight``."""
        targets, weights = scored(self, X, y, sample_weight)
        return _r2(targets, self.predict(X), weights)


class Regression(MultiOutputMixin, Scored):
    """The protocol of a regressor, for estimators whose targets are real numbers; it comes first among their bases."""

    _latent: Callable[..., Any]

    @kind_of_caller
    def predict_interval(
        self, X: ArrayLike | Array, level: float = 0.95, *, noise: ArrayLike | None = None
    ) -> tuple[Array, Array]:
        """The central interval of a new observation y at each row of X (N*, D): its (1 ∓ ``level``)/2 quantiles.

        It has the noise that ``predict(X, return_std=True)`` leaves out: a share ``level`` of new targets is expected
        within it.  ``noise`` is that of `predict`: a model whose rows have a noise each needs that of the new ones.

        Returns
        -------
        low, high : arrays (N*,), or (N*, P) where y was (N, P)

        >>> import numpy as np
        >>> from fitting import ExactGP
        >>> X = np.linspace(0.0, 6.0, 30)[:, None]
        >>> y = np.sin(X[:, 0]) + 0.1 * np.random.default_rng(0).standard_normal(30)
        >>> low, high = ExactGP().fit(X, y).predict_interval(X, level=0.9)
        >>> bool(np.mean((low <= y) & (y <= high)) > 0.8)
        True
        """
        share = scalar(open_unit, "level", level)
        mean, std = self._latent(X, return_std=True, noisy=True, noise=noise)
        reach = -float(ndtri(0.5 * (1.0 - share))) * std
        return mean - reach, mean + reach

    @kind_of_caller
    def log_predictive_density(
        self, X: ArrayLike | Array, y: ArrayLike | Array, *, noise: ArrayLike | None = None
    ) -> Array:
        """log p(y_i|X, y of training) of a new observation at each row of X (N*, D), on the device of X.

        ``noise`` is that of `predict`: a model whose rows have a noise each needs that of the new ones.

        Returns
        -------
        array (N*,), or (N*, P) where y was (N, P)

        >>> import numpy as np
        >>> from fitting import ExactGP
        >>> X = np.linspace(0.0, 6.0, 30)[:, None]
        >>> y = np.sin(X[:, 0]) + 0.1 * np.random.default_rng(0).standard_normal(30)
        >>> bool(ExactGP().fit(X, y).log_predictive_density(X, y).mean() > 0.5)
        True
        """
        mean, std = self._latent(X, return_std=True, noisy=True, noise=noise)
        xp = namespace(mean)
        targets = place(reals("y", host(y) if is_cupy(y) else y).astype(np.float64), xp)
        if tuple(targets.shape) != tuple(mean.shape):
            raise ValueError(f"y: expected the shape of the predictions, {tuple(mean.shape)}, got {targets.shape}")
        require_finite_rows("y", targets)
        return _log_density(targets, mean, std)
