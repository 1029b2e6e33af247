"""Kernel and noise for real data: the caller sets some of them, marginal likelihood fits the others."""

from __future__ import annotations

import math
import sys
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fitting.study.standardised import Standardised
from gpbounds.kernels import Kernel
from gpbounds.kernels.plain import stationary
from gpbounds.validation import positive

_FIT_ROWS = 500
"""Number of rows in the marginal likelihood; the cost of each step is its cube."""

_RANGES = {"variance": (1e-3, 1e5), "lengthscale": (1e-3, 1e5), "noise": (1e-6, 1e2)}
"""Ranges of the search; inputs and targets are standardised."""


@dataclass(frozen=True)
class Hyperparameters:
    """Kernel and noise variance, and their origin.

    Attributes
    ----------
    kernel : Kernel
    noise : float
    origin : str
        One sentence.
    fitted : tuple of str
        Names of the fitted ones; empty if the caller set all.
    notes : tuple of str
        Messages of the optimiser.
    """

    kernel: Kernel
    noise: float
    origin: str
    fitted: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def warning(self) -> tuple[str, ...]:
        """The sentence that a plan must print if hyperparameters were fitted."""
        if not self.fitted:
            return ()
        return (
            "The theorem holds for fixed hyperparameters; here they were fitted to the data "
            f"({', '.join(self.fitted)}).",
        )


def as_given(nu: float, variance: float | None, lengthscale: Any, noise: float | None) -> Hyperparameters:
    """Hyperparameters that are not fitted; None means 1, 1 and 0.1."""
    kernel = stationary(nu, 1.0 if variance is None else variance, 1.0 if lengthscale is None else lengthscale)
    return Hyperparameters(kernel, 0.1 if noise is None else noise, "Kernel and noise are as given.")


def fit(
    data: Standardised,
    nu: float = math.inf,
    *,
    variance: float | None = None,
    lengthscale: Any = None,
    noise: float | None = None,
    shared: bool = False,
    rows: int = _FIT_ROWS,
    seed: int = 0,
    progress: bool = False,
) -> Hyperparameters:
    """Fit those of variance, lengthscale (one per input, or one ``shared``) and noise that are None.

    `fitting.ExactGP`: marginal likelihood on at most ``rows`` seeded rows, L-BFGS-B from 1, √D, ½.
    """
    if None not in (variance, lengthscale, noise):
        return as_given(nu, variance, lengthscale, noise)
    from sklearn.exceptions import ConvergenceWarning

    from fitting.estimators.exact_gp import ExactGP

    part = data.subset(rows, seed)
    for name, value in (("variance", variance), ("lengthscale", lengthscale), ("noise", noise)):
        if value is not None:
            positive(name, value)
    start = math.sqrt(data.D) * (1.0 if shared else np.ones(data.D)) if lengthscale is None else lengthscale
    kernel = stationary(nu, 1.0 if variance is None else variance, start)
    free = {"variance": variance is None, "lengthscale": lengthscale is None, "noise": noise is None}
    fitted = tuple(name for name, is_free in free.items() if is_free)
    names = {name: name.partition("[")[0] for name in (*kernel.parameter_names, "noise")}
    model = ExactGP(
        kernel,
        0.5 if noise is None else noise,
        fixed=tuple(name for name, kind in names.items() if not free[kind]),
        limits={name: _RANGES[kind] for name, kind in names.items() if free[kind]},
        tol=None,  # few parameters: the optimum itself, which does not depend on the path to it
        random_state=seed,
        progress=progress and sys.stderr.isatty(),
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # `_sentences` reports it
        model.fit(part.X, part.y)
    origin = (
        f"{', '.join(fitted).capitalize()} by marginal likelihood (fitting.ExactGP) on {part.N} of {data.N} rows, "
        f"{'one shared lengthscale' if shared else 'one lengthscale per input'}."
    )
    kernel_fitted: Any = model.kernel_
    settled = stationary(
        nu,
        kernel_fitted.variance if variance is None else variance,
        kernel_fitted.lengthscale if lengthscale is None else lengthscale,  # values of the caller stay exact
    )
    return Hyperparameters(
        settled, model.noise_ if noise is None else noise, origin, fitted, _sentences(model.remarks_)
    )


def _sentences(remarks: Sequence[Any]) -> tuple[str, ...]:
    """The remarks of training, one sentence each."""
    edges = [name for remark in remarks if "limit" in remark.kind for name in remark.names]
    texts = [" ".join(remark.text.split()).rstrip(".") for remark in remarks if "limit" not in remark.kind]
    sentences = [f"Training reported: {text}." for text in texts]
    if edges:
        sentences.append(f"Training ended at the edge of the search range for: {', '.join(edges)}.")
    return tuple(sentences)
