"""The choices that a risk certificate fixes before the data are seen: losses, scaling, grid, charges."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gpbounds.errors import shown
from gpbounds.kernels import Kernel
from gpbounds.losses import Band, Exponential, Interval, Loss, Relative, Squared
from gpbounds.pacbayes import Charge, DeclaredMean, HyperGrid, Scaling
from gpbounds.pacbayes.certificate import priors
from gpbounds.pacbayes.certificate.rows import Partitions, Raw
from gpbounds.rows.source import Moments
from gpbounds.validation import choice, positive, scalar

LOSSES: dict[str, Callable[[float], Loss]] = {
    "band": Band,
    "squared": Squared,
    "exponential": Exponential,
    "relative": Relative,
    "interval": lambda epsilon: Interval(-epsilon, epsilon, relative=True),
}
"""Name ↦ (ε ↦ loss); ε is in units of the scaled targets, and for "relative" and "interval" a share of |y|."""

Limits = dict[str, tuple[float, float]]


def losses_of(loss: Any, epsilon: Any) -> tuple[Loss, ...]:
    """One loss for each ε; a `Loss` has its own ε.

    >>> losses_of("band", (0.2, 0.4))
    (Band(epsilon=0.2), Band(epsilon=0.4))
    """
    values = np.atleast_1d(positive("epsilon", epsilon))
    if isinstance(loss, Loss):
        if np.ndim(epsilon):
            raise ValueError(
                f"epsilon: expected one number where loss carries its own, got {shown(epsilon)} for {loss!r}"
            )
        return (loss,)
    if not isinstance(loss, str):
        raise ValueError(f"loss: expected one of {', '.join(map(repr, LOSSES))} or a gpbounds loss, got {shown(loss)}")
    make = LOSSES[choice("loss", loss, tuple(LOSSES))]
    if values.ndim != 1 or values.size == 0 or len(set(values.tolist())) < values.size:
        raise ValueError(f"epsilon: expected one number, or several that differ, got {shown(epsilon)}")
    return tuple(make(scalar(positive, "epsilon", value)) for value in values)


def charges_of(losses: Sequence[Loss]) -> tuple[Charge, ...]:
    """The charge ln E for one of E accuracies ε (P-47); no charge if E = 1.

    >>> charges_of([Band(0.2), Band(0.4)])
    (Charge(choice='accuracy goals ε', count=2),)
    """
    return (Charge("accuracy goals ε", len(losses)),) if len(losses) > 1 else ()


def scalings_of(scaling: Any, nonrigorous: bool = False) -> tuple[Scaling, Scaling]:
    """The scalings of inputs and outputs, from "as given", one `Scaling` for both, or a pair.

    Raises
    ------
    ValueError
        for other arguments, and for constants of the same data unless ``nonrigorous``.
    """
    pair = (scaling, scaling) if isinstance(scaling, str | Scaling) else scaling
    if not isinstance(pair, Sequence) or len(pair) != 2:
        raise ValueError(
            f"scaling: expected 'as given', a Scaling, or a pair (inputs, outputs) of them, got {shown(pair)}"
        )
    scalings = []
    for entry in pair:
        if isinstance(entry, str) and entry == "as given":
            entry = Scaling()
        if not isinstance(entry, Scaling):
            raise ValueError(f"scaling: expected 'as given' or a gpbounds.pacbayes.Scaling, got {shown(entry)}")
        if not (entry.rigorous or nonrigorous):
            raise ValueError(
                "scaling: expected constants fixed in advance, from disjoint data, or charged; got 'same data': prior "
                "and loss then depend on the data, and no bound follows (P-45). Pass nonrigorous=True for a record "
                "that says so in its first line"
            )
        scalings.append(entry)
    return scalings[0], scalings[1]


def scaled_by(rows: Raw) -> tuple[Scaling, Scaling]:
    """The scalings of inputs and targets by means and standard deviations of ``rows``, which no certificate covers.

    >>> from gpbounds.pacbayes.certificate.rows import Arrays
    >>> scaled_by(Arrays(np.array([[0.0], [4.0]]), np.array([1.0, 1.0])))[0]
    Scaling(origin='disjoint split', shift=(2.0,), scale=(2.0,), count=1)
    """
    if isinstance(rows, Partitions):
        moments = rows.rows.moments
    else:
        moments = Moments.of(np.concatenate([np.column_stack([part.X, part.Y]) for part in rows.partitions()]))
    mean, deviation = moments.mean, moments.units
    inputs = Scaling("disjoint split", mean[:-1].tolist(), deviation[:-1].tolist())
    return inputs, Scaling("disjoint split", float(mean[-1]), float(deviation[-1]))


def grid_of(grid: HyperGrid | None, kernel: Kernel) -> HyperGrid:
    """``grid``, or for None ln θ from −6 to 6 in steps of 0.01 for every hyperparameter of ``kernel``.

    >>> from gpbounds import SquaredExponential
    >>> grid_of(None, SquaredExponential(1.0, [1.0, 1.0])).names
    ('variance', 'lengthscale_1', 'lengthscale_2')
    """
    names = tuple(priors.hyperparameters(kernel))
    if grid is None:
        return HyperGrid(names=names)
    if not isinstance(grid, HyperGrid):
        raise ValueError(f"grid: expected a gpbounds.pacbayes.HyperGrid or None, got {grid!r}")
    if set(grid.names) != set(names):
        raise ValueError(
            f"grid: expected the names {', '.join(names)}, the hyperparameters of the kernel, got "
            f"{', '.join(grid.names)}: HyperGrid.shared() is for one lengthscale, HyperGrid.ard(D) for one each"
        )
    return grid


def box(grid: HyperGrid, kernel: Kernel) -> Limits:
    """The edges of ``grid``, by names of the kernel's parameters; training stays within them."""
    low, high = grid.at([0] * grid.T).theta, grid.at(grid.steps).theta
    names = zip(kernel.parameter_names, priors.hyperparameters(kernel), strict=True)
    return {name: (low[axis], high[axis]) for name, axis in names}


def log_choices(
    grid: HyperGrid, charges: Sequence[Charge], scalings: Sequence[Scaling], mean: DeclaredMean | None = None
) -> float:
    """ln(|Θ| · lengths of all lists · number of means), which the bound pays besides KL(Q‖P^θ) and ln(ξ(N)/δ)."""
    lists = (*charges, *scalings, *(() if mean is None else (mean,)))
    return math.log(math.prod([grid.size, *(each.count for each in lists)]))
