"""Rows from arrays, data frames and files, as they came or with columns of mean 0 and variance 1."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from gpbounds.arrays import Float, as_host_points, is_constant
from gpbounds.errors import shown
from gpbounds.inputs import Gaussian
from gpbounds.kernels import Kernel
from gpbounds.kernels.facts import Fold
from gpbounds.kernels.stationary import Stationary
from gpbounds.rows.table_rows import TableRows, read_rows


@dataclass(frozen=True, eq=False)
class Standardised(TableRows):
    """Rows whose columns, and whose target, have mean 0 and variance 1; the units of the table stay known.

    Attributes
    ----------
    shifts, scales : arrays (D,)
        Means and standard deviations of the inputs in the table.
    shift, scale : float
        Those of the target.
    kept : tuple of int
        Numbers, from 0, of the inputs among all those of the table: constant ones are dropped.
    width : int
        Number of inputs of the table.
    """

    shifts: Any = 0.0
    scales: Any = 1.0
    shift: float = 0.0
    scale: float = 1.0
    kept: tuple[int, ...] = ()
    width: int = 0

    @property
    def centred(self) -> TableRows:
        """The rows in the units of the table, less the means of inputs and target."""
        return TableRows(self.name, self.X * self.scales, self.y * self.scale, self.notes, self.columns, self.target)

    def lengths(self, lengthscale: Any) -> Any:
        """Lengthscales in the units of the table, one or one for each input, of the inputs that were kept.

        Raises
        ------
        ValueError
            for another number of lengthscales than the table, or its inputs that vary, have.
        """
        given = np.asarray(lengthscale, dtype=np.float64)
        if given.ndim and given.size == self.width and given.size != self.D:
            return given[list(self.kept)]
        if given.ndim and given.size not in (1, self.D):
            raise ValueError(f"lengthscale: expected one, or one for each of {self.D} inputs, got {given.size}")
        return lengthscale

    def inside(self, variance: float | None, lengthscale: Any, noise: float | None) -> dict[str, Any]:
        """Hyperparameters in the units of the table, None where they are unknown, in those of the standardised rows."""
        square = self.scale**2
        return {
            "variance": None if variance is None else variance / square,
            "lengthscale": None if lengthscale is None else (self.lengths(lengthscale) / self.scales).tolist(),
            "noise": None if noise is None else noise / square,
        }

    def outside(self, kernel: Any, noise: float) -> tuple[Stationary, float]:
        """A stationary kernel and a noise variance of the standardised rows, in the units of the table."""
        length = kernel.lengthscales(self.D) * self.scales
        variance = kernel.max_variance * self.scale**2
        return replace(kernel, variance=variance, lengthscale=length), noise * self.scale**2

    def law_outside(self, law: Gaussian) -> Gaussian:
        """A law of standardised inputs, in the units of the table less the means."""
        if law.cov is None:
            return Gaussian(law.stds * self.scales, mean=law.means * self.scales)
        return Gaussian(cov=np.asarray(law.cov) * np.outer(self.scales, self.scales), mean=law.means * self.scales)


class Column(NamedTuple):
    """Values of mean 0 and variance 1; the column of the table is shift + scale·values."""

    values: Float
    shift: float
    scale: float


def standardised(column: Float) -> Column | None:
    """``column`` shifted and scaled to mean 0 and variance 1; None if it is constant up to rounding."""
    largest = float(np.abs(column).max())
    if largest == 0.0:
        return None
    centred = column / largest
    mean = float(centred.mean())
    centred = centred - mean
    std = float(np.sqrt((centred**2).mean()))
    return None if is_constant(std, 1.0) else Column(centred / std, mean * largest, std * largest)


def standardise(
    name: str,
    X: ArrayLike,
    y: ArrayLike,
    columns: tuple[str, ...] = (),
    target: str = "y",
    notes: tuple[str, ...] = (),
) -> Standardised:
    """`Standardised` from raw inputs (N, D) and targets (N,); drops constant inputs and refuses a constant target.

    ``columns`` are the names of the inputs, if they have names, ``target`` is that of the target; ``notes`` come first.

    Raises
    ------
    ValueError
        for fewer than two rows, if no input varies, or if the target does not vary.

    >>> data = standardise("three", [[1.0, 7.0], [2.0, 7.0], [3.0, 7.0]], [0.0, 1.0, 5.0])
    >>> data.X.round(3).ravel().tolist(), data.notes[0]
    ([-1.225, 0.0, 1.225], 'Dropped constant input column(s) 2.')
    >>> data.shifts, data.centred.X.round(15).ravel().tolist()
    (array([2.]), [-1.0, 0.0, 1.0])
    """
    raw, outputs = np.asarray(X, dtype=np.float64), standardised(np.asarray(y, dtype=np.float64))
    if raw.shape[0] < 2:
        raise ValueError(f"{name}: expected at least 2 rows, got {raw.shape[0]}")
    if outputs is None:
        raise ValueError(f"{name}: expected a target that varies, got a constant one")
    every = [standardised(raw[:, j]) for j in range(raw.shape[1])]
    kept = {j: column for j, column in enumerate(every) if column is not None}
    if not kept:
        raise ValueError(f"{name}: expected an input column that varies, got only constant ones in X")
    dropped = ", ".join(columns[j] if columns else str(j + 1) for j in range(len(every)) if j not in kept)
    return Standardised(
        name,
        np.column_stack([column.values for column in kept.values()]),
        outputs.values,
        (*notes, f"Dropped constant input column(s) {dropped}.") if dropped else notes,
        tuple(columns[j] for j in kept) if columns else (),
        target,
        shifts=np.array([column.shift for column in kept.values()]),
        scales=np.array([column.scale for column in kept.values()]),
        shift=outputs.shift,
        scale=outputs.scale,
        kept=tuple(kept),
        width=len(every),
    )


def multiplied(kernel: Kernel, factor: float) -> Kernel:
    """The kernel ``factor``·k: a kernel of a target in units of which one is √factor of the new ones.

    A fitted estimator has the kernel of its standardised target: ``multiplied(model.kernel_, y_scale**2)`` is that of
    the target in the units of its table; lengthscales are in those units already.

    >>> from gpbounds.kernels import Polynomial, SquaredExponential
    >>> product = multiplied(SquaredExponential(2.0, 0.5) * Polynomial(2, 1.0, 1.0), 4.0)
    >>> product.k1.variance, product.k2.variance
    (8.0, 1.0)
    """
    return kernel.fold(_FIRST_FACTOR, None)(factor)


def _leaf_times(kernel: Any, at: None) -> Callable[[float], Kernel]:
    """factor ↦ factor·k of a kernel without parts."""

    def times(factor: float) -> Kernel:
        if factor == 1.0:
            return kernel
        polynomial = hasattr(kernel, "degree")
        root = factor ** (1.0 / kernel.degree) if polynomial else factor
        names = ("variance", "offset") if polynomial else ("variance",)
        scaled = {name: root * np.asarray(getattr(kernel, name), dtype=np.float64) for name in names}
        return replace(kernel, **{name: value if value.ndim else float(value) for name, value in scaled.items()})

    return times


_FIRST_FACTOR: Fold[None, Callable[[float], Kernel]] = Fold(
    _leaf_times,
    lambda first, second: lambda factor: first(factor) + second(factor),
    lambda first, second: lambda factor: first(factor) * second(1.0),
    lambda kernel, at, inner: lambda factor: inner(at)(factor).on(kernel.columns),
)


def columns_of(table: Any, argument: str) -> tuple[tuple[str, ...], Float]:
    """The names of the columns of a data frame, none of an array; and the numbers, of shape (N, D).

    A data frame has ``columns`` (pandas, polars), or speaks the interchange protocol ``__dataframe__``; a series has a
    name.

    Raises
    ------
    ValueError, NonFinite
        for text, NaN or infinity, or another shape; the message names the argument, and the column that holds text.
    """
    names: tuple[str, ...] = ()
    if hasattr(table, "columns"):
        names = tuple(map(str, table.columns))
    elif hasattr(table, "__dataframe__"):
        names = tuple(map(str, table.__dataframe__().column_names()))
    elif hasattr(table, "to_frame") and table.name is not None:  # arrays of Dask have a name, too: a token
        names = (str(table.name),)
    if names and np.asarray(table).dtype == object:
        _refuse_text(table, names, argument)
    return names, as_host_points(table, argument)


def inputs_and_target(X: Any, y: Any = None, target: str | None = None) -> tuple[tuple[str, ...], Float, Float, str]:
    """Names of the inputs (none of an array), inputs (N, D), targets (N,), and the name of the target.

    The targets are ``y``, or the column of the data frame ``X`` that ``target`` names; the other columns are the
    inputs then.  The name of an array without one is "y".

    Raises
    ------
    ValueError, NonFinite
        for a ``target`` that is not text (a level in nats is called ``nats``), both or none of ``y`` and
        ``target``, an unknown column, and as :func:`columns_of`.

    >>> inputs_and_target([[1.0], [2.0]], [3.0, 4.0])[2:]
    (array([3., 4.]), 'y')
    """
    if target is not None and not isinstance(target, str):
        raise ValueError(
            f"target: expected the name of a column of X, got {shown(target)}; the level in nats is the argument nats="
        )
    columns, points = columns_of(X, "X")
    if target is None:
        if y is None:
            raise ValueError("y: expected targets, or target=, the name of a column of the data frame X; got neither")
        names, targets = columns_of(y, "y")
        if targets.shape != (len(points), 1):
            raise ValueError(f"y: expected {len(points)} targets, one for each row of X, got shape {targets.shape}")
        return columns, points, targets[:, 0], names[0] if names else "y"
    if y is not None:
        raise ValueError("target: expected either y or target, got both")
    if columns.count(target) != 1:
        there = ", ".join(columns) or "no names: X is an array"
        raise ValueError(f"target: expected the name of one column of X ({there}), got {target!r}")
    if len(columns) < 2:
        raise ValueError(f"X: expected an input beside the target {target!r}, got no other column")
    place = columns.index(target)
    inputs = tuple(name for name in columns if name != target)
    return inputs, np.delete(points, place, axis=1), points[:, place], target


def _refuse_text(table: Any, names: tuple[str, ...], argument: str) -> None:
    """Refuse a column of a data frame that holds text, by its name."""
    cells = np.asarray(table)
    for name, column in zip(names, cells.reshape(len(cells), -1).T, strict=True):
        text = next((cell for cell in column if isinstance(cell, str)), None)
        if text is not None:
            raise ValueError(
                f"{argument}: expected columns of numbers, got {text!r} in column {name!r}: drop it, or encode it"
            )


def load(path: Path, target: str | None = None, **choice: Any) -> Standardised:
    """`Standardised` from a table in a file; the arguments are those of `gpbounds.rows.table_rows.read_rows`.

    Raises
    ------
    ValueError, OSError, ImportError
        as `read_rows` and :func:`standardise`.
    """
    rows = read_rows(path, target, **choice)
    return standardise(rows.name, rows.X, rows.y, rows.columns, rows.target, rows.notes)
