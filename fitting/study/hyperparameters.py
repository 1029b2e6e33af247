"""Kernel and noise for real data: the caller sets some of them, marginal likelihood fits the others."""

from __future__ import annotations

import math
import sys
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fitting.study.standardised import Standardised
from gpbounds.kernels import Kernel
from gpbounds.kernels.plain import stationary
from gpbounds.validation import positive

FIT_ROWS = 500
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
    edges : tuple of str
        Names of those at the edge of the search range: the data do not determine them.
    """

    kernel: Kernel
    noise: float
    origin: str
    fitted: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    edges: tuple[str, ...] = ()

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
    rows: int = FIT_ROWS,
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
        warnings.simplefilter("ignore", ConvergenceWarning)  # `edges` and `notes` report it
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
    others = [remark for remark in model.remarks_ if "limit" not in remark.kind]
    reported = tuple(f"Training reported: {' '.join(remark.text.split()).rstrip('.')}." for remark in others)
    notes, edges = limited(model.remarks_, data.columns)
    noise_found = model.noise_ if noise is None else noise
    return Hyperparameters(settled, noise_found, origin, fitted, (*reported, *notes), edges)


def limited(remarks: Sequence[Any], columns: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """A note on inputs without influence, and the names of other hyperparameters at a limit of their search.

    A lengthscale at its upper limit belongs to an input of which the kernel hardly depends; that is determined.
    """
    idle, edges = [], []
    for remark in remarks:
        if remark.kind not in ("lower limit", "upper limit"):
            continue
        for name in remark.names:
            kind, _, index = name.rstrip("]").partition("[")
            column = (columns[int(index)] if columns else f"input {int(index) + 1}") if index else ""
            if remark.kind == "upper limit" and kind.endswith("lengthscale"):
                idle.append(column or (columns[0] if len(columns) == 1 else "the inputs"))
            else:
                edges.append(f"{kind} of {column}" if column else kind)
    note = f"The kernel hardly depends on {', '.join(idle)}: lengthscales at the upper limit of the search."
    return (note,) if idle else (), tuple(edges)


def of_table(
    data: Standardised,
    nu: float,
    *,
    variance: float | None = None,
    lengthscale: Any = None,
    noise: float | None = None,
    rows: int = FIT_ROWS,
    seed: int = 0,
    progress: bool = False,
) -> Hyperparameters:
    """`fit`, with all hyperparameters in the units of the table."""
    length = None if lengthscale is None else data.lengths(lengthscale)
    if None not in (variance, lengthscale, noise):
        return as_given(nu, variance, length, noise)
    for name, value in (("variance", variance), ("lengthscale", length), ("noise", noise)):
        if value is not None:
            positive(name, value)
    inner = fit(data, nu, **data.inside(variance, length, noise), rows=rows, seed=seed, progress=progress)
    kernel, noise_variance = data.outside(inner.kernel, inner.noise)
    settled = stationary(
        nu,
        kernel.max_variance if variance is None else variance,
        kernel.lengthscale if length is None else length,  # values of the caller stay exact
    )
    return replace(inner, kernel=settled, noise=noise_variance if noise is None else noise)
