"""Kernel and noise for real data: the caller sets some of them, marginal likelihood fits the others."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from fitting.study.standardised import Standardised
from gpbounds.kernels import Kernel
from gpbounds.kernels.plain import stationary
from gpbounds.validation import positive

if TYPE_CHECKING:
    from fitting.estimators.trainer import Outcome

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

    By marginal likelihood on at most ``rows`` seeded rows, from 1, √D, ½: what `fitting.ExactGP` does with this kernel
    and noise, without scikit-learn, which takes longer to load than a fit takes.
    """
    if None not in (variance, lengthscale, noise):
        return as_given(nu, variance, lengthscale, noise)
    from fitting.estimators.remarks import of_distance
    from fitting.starts.starts import spreads_from_zero

    part = data.subset(rows, seed)
    for name, value in (("variance", variance), ("lengthscale", lengthscale), ("noise", noise)):
        if value is not None:
            positive(name, value)
    start = math.sqrt(data.D) * (1.0 if shared else np.ones(data.D)) if lengthscale is None else lengthscale
    kernel = stationary(nu, 1.0 if variance is None else variance, start)
    free = {"variance": variance is None, "lengthscale": lengthscale is None, "noise": noise is None}
    fitted = tuple(name for name, is_free in free.items() if is_free)
    names = {name: name.partition("[")[0] for name in (*kernel.parameter_names, "noise")}
    limits = {name: _RANGES[kind] for name, kind in names.items() if free[kind]}
    fixed = tuple(name for name, kind in names.items() if not free[kind])
    outcome = _greatest_evidence(part, kernel, 0.5 if noise is None else noise, limits, fixed, seed, progress)
    origin = (
        f"{', '.join(fitted).capitalize()} by marginal likelihood (fitting.ExactGP) on {part.N} of {data.N} rows, "
        f"{'one shared lengthscale' if shared else 'one lengthscale per input'}."
    )
    kernel_fitted: Any = outcome.parameters.kernel
    settled = stationary(
        nu,
        kernel_fitted.variance if variance is None else variance,
        kernel_fitted.lengthscale if lengthscale is None else lengthscale,  # values of the caller stay exact
    )
    distance = spreads_from_zero(part.y[:, None])
    remarks = [*of_distance(distance, ("normalize_y=True",)), *outcome.remarks([outcome.run], False, "scale")]
    others = [remark for remark in remarks if "limit" not in remark.kind]
    reported = tuple(f"Training reported: {' '.join(remark.text.split()).rstrip('.')}." for remark in others)
    notes, edges = limited(remarks, data.columns)
    noise_found = outcome.parameters.noise if noise is None else noise
    return Hyperparameters(settled, noise_found, origin, fitted, (*reported, *notes), edges)


def _greatest_evidence(
    rows: Standardised,
    kernel: Kernel,
    noise: float,
    limits: Mapping[str, tuple[float, float]],
    fixed: Sequence[str],
    seed: int,
    progress: bool,
) -> Outcome:
    """Where log p(y) of ``rows`` is greatest, within ``limits`` and searched from ``kernel`` and ``noise``."""
    from fitting.estimators.trainer import Trainer
    from fitting.objectives.objective import at_point, objective
    from fitting.starts.starts import mean_square
    from fitting.training import Ending, Session

    trainer = Trainer(
        objective=objective(rows.X, rows.y, "exact"),
        N=rows.N,
        optimizer="lbfgs",
        max_iter=1000,
        ending=Ending(0.0, float(rows.N), "nats per datum"),  # few parameters: the optimum, whatever the path to it
        learning_rate=0.05,
        batch_size=None,
        limits=limits,
        fixed=fixed,
        learn_Z=False,
        scale=np.ones(rows.D),
        session=Session(None, "", seed),
        progress=progress and sys.stderr.isatty(),
        square=mean_square(rows.y),
    )
    return trainer.best_of("exact", at_point(kernel, noise), 0, lambda point, i: point)[0]


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
