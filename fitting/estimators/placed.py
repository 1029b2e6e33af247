"""Training rows on the device of training: moved there once in a fit, and not at all if they came from there."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from gpbounds.arrays import Array, Float, as_points, is_cupy, place
from gpbounds.validation import array_module


@dataclass(eq=False)
class Placed:
    """X (N, D) and y (N,) or (N, P) in host memory and on the device of ``xp``.

    Attributes
    ----------
    X, y : arrays
        In host memory.
    xp : module
    there : array (N, D) or None
        X on the device, if it is there already.
    """

    X: Any
    y: Any
    xp: Any
    there: Array | None = None

    @cached_property
    def arrays(self) -> tuple[Array, Array]:
        """X and y on the device."""
        return place(self.X, self.xp) if self.there is None else self.there, place(self.y, self.xp)


class RowsOnDevice:
    """What estimators inherit to keep their rows on the device while they are fitted."""

    device: str
    X_train_: Float
    y_train_: Float

    def _placed(self) -> tuple[Array, Array]:
        """The training data on the device of training."""
        rows: Placed | None = vars(self).get("_placed_rows")
        if rows is None or rows.X is not self.X_train_ or rows.y is not self.y_train_:
            xp = array_module(self.device)  # type: ignore[arg-type]
            rows = self._placed_rows = Placed(self.X_train_, self.y_train_, xp)
        return rows.arrays

    def _came_from(self, X: Any, points: Float, columns: Float) -> tuple[Float, Float]:
        """The training data ``points`` and ``columns``; the checked array X is kept if training runs where it is."""
        xp = array_module(self.device)  # type: ignore[arg-type]
        if is_cupy(X) and xp is not np:
            there = self._inputs(as_points(X, finite=False).astype(np.float64))  # a copy: the user's may change
            self._placed_rows = Placed(self.X_train_, self.y_train_, xp, there)
        return points, columns

    def _inputs(self, X: Array) -> Array:
        raise NotImplementedError

    def _some_placed(self, X: Float, Y: Float, numbers: Array) -> tuple[Array, Array]:
        """Some rows of X and Y (N, P), which may be the training data, on the device of training."""
        xp = array_module(self.device)  # type: ignore[arg-type]
        if xp is np or X is not self.X_train_ or not np.may_share_memory(Y, self.y_train_):
            return place(X[numbers], xp), place(Y[numbers], xp)
        (points, targets), chosen = self._placed(), xp.asarray(numbers)
        return points[chosen], targets[chosen].reshape(len(numbers), -1)

    def _release(self) -> None:
        """Free the memory of the device at the end of a fit."""
        vars(self).pop("_placed_rows", None)
