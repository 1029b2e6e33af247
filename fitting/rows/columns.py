"""The columns of X or of y of a source, where a function needs an array's shape, its scale and some of its rows."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from fitting.prior_means import PriorMean, residuals, some_of
from gpbounds.arrays import Float, Indices
from gpbounds.rows.source import Source


@dataclass(frozen=True, eq=False)
class Columns:
    """X, or (y − shift)/scale, of the rows of a source; indexed by increasing row numbers.

    Attributes
    ----------
    source : Source
    targets : bool
        Whether these are the columns of y.
    shift, scale : arrays, or 0 and 1
    prior_mean : PriorMean or None
        It is subtracted from (y − shift)/scale.

    >>> from gpbounds.rows import source
    >>> X = Columns(source(np.array([[1.0], [2.0], [6.0]]), np.zeros(3)))
    >>> X.shape, X[np.array([0, 2])].tolist()
    ((3, 1), [[1.0], [6.0]])
    """

    source: Source
    targets: bool = False
    shift: Float | float = 0.0
    scale: Float | float = 1.0
    prior_mean: PriorMean | None = None

    ndim = 2

    def __len__(self) -> int:
        return self.source.N

    @property
    def shape(self) -> tuple[int, int]:
        """(N, number of columns)."""
        return self.source.N, self.source.P if self.targets else self.source.D

    @property
    def units(self) -> Float:
        """As `fitting.starts.starts.units`."""
        return self._own(self.source.moments.units)

    @property
    def mean_square(self) -> float:
        """As `fitting.starts.starts.mean_square`; with a prior mean, over at most 100 000 rows."""
        moments = self.source.moments
        with np.errstate(over="ignore", under="ignore"):
            if self.prior_mean is not None:
                square = float(np.mean(self[some_of(len(self))] ** 2))
                return square if square > 1e-250 else 1.0
            mean = (self._own(moments.mean) - self.shift) / self.scale
            square = float(np.mean(mean * mean + self._own(moments.variance) / (self.scale * self.scale)))
        if not math.isfinite(square):
            largest = self._own(moments.unit).max()
            raise ValueError(f"y: expected numbers whose squares are finite, got |y| up to {largest:.3g}: rescale y")
        return square if square > 1e-250 else 1.0

    @property
    def identity(self) -> bytes:
        """Bytes that identify all numbers of the source, their order and its partitions, and the units."""
        units = np.append(np.ravel(self.shift), np.ravel(self.scale)).astype(float)
        return self.source.digest + units.tobytes()

    def __getitem__(self, numbers: Indices) -> Float:
        X, Y = self.source.rows(numbers)
        return residuals(self.prior_mean, X, (Y - self.shift) / self.scale) if self.targets else X

    def about(self, mean: PriorMean | None) -> Columns:
        """These targets minus a prior mean."""
        return replace(self, prior_mean=mean)

    def _own(self, both: Float) -> Float:
        return both[self.source.D :] if self.targets else both[: self.source.D]
