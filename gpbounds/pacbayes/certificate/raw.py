"""The raw data of a certificate: arrays, or rows that are read by partitions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from gpbounds.arrays import Float
from gpbounds.kernels import Kernel
from gpbounds.losses import Loss
from gpbounds.mapreduce.program import Rows
from gpbounds.pacbayes.certificate.declarations import Scaling
from gpbounds.pacbayes.certificate.evaluation import Enclosed, enclose
from gpbounds.pacbayes.certificate.fingerprint import Fingerprint, as_data, digest, digest_of_rows
from gpbounds.pacbayes.certificate.mean import DeclaredMean
from gpbounds.pacbayes.certificate.partitions import enclose_partitions
from gpbounds.pacbayes.certificate.posteriors import Posterior
from gpbounds.sources import Source, is_elsewhere, source
from gpbounds.sources.changed import Changed
from gpbounds.sources.source import Holder


class Raw(ABC):
    """Raw rows (X, y), as a certificate identifies them."""

    @property
    @abstractmethod
    def shape(self) -> tuple[int, int]:
        """(N, D)."""

    @property
    @abstractmethod
    def fingerprint(self) -> Fingerprint:
        """The shapes and the SHA-256 of all values, row by row: the same for arrays and for any partitions."""

    @abstractmethod
    def doubts(self, inputs: Scaling, outputs: Scaling) -> tuple[str, str]:
        """`Scaling.doubt` of X and of y."""

    def doubt_of_mean(self, inputs: Scaling, outputs: Scaling, mean: DeclaredMean) -> str:
        """`DeclaredMean.doubt`, for rows that are in memory."""
        return ""

    @abstractmethod
    def enclose(
        self,
        posterior: Posterior,
        kernel: Kernel,
        inputs: Scaling,
        outputs: Scaling,
        loss: Loss,
        mean: DeclaredMean | None = None,
    ) -> Enclosed:
        """R_S and KL of the scaled rows, whose targets are those minus the prior's mean."""

    @abstractmethod
    def parts(
        self, inputs: Scaling, outputs: Scaling, mean: DeclaredMean | None = None
    ) -> Iterator[tuple[Float, Float]]:
        """The scaled rows in this process, X (n, D) and y − m(x) (n,), part by part: one part for arrays."""


@dataclass(frozen=True, eq=False)
class Arrays(Raw):
    """Arrays (N, D) and (N,)."""

    X: Float
    y: Float

    @property
    def shape(self) -> tuple[int, int]:
        return self.X.shape[0], self.X.shape[1]

    @cached_property
    def fingerprint(self) -> Fingerprint:
        return digest(self.X, self.y)

    def doubts(self, inputs: Scaling, outputs: Scaling) -> tuple[str, str]:
        return inputs.doubt(self.X), outputs.doubt(self.y)

    def doubt_of_mean(self, inputs: Scaling, outputs: Scaling, mean: DeclaredMean) -> str:
        try:
            return mean.doubt(inputs.apply(self.X), outputs.apply(self.y))
        except ValueError:  # a mean or constants for another number of columns
            return ""

    def enclose(
        self,
        posterior: Posterior,
        kernel: Kernel,
        inputs: Scaling,
        outputs: Scaling,
        loss: Loss,
        mean: DeclaredMean | None = None,
    ) -> Enclosed:
        return enclose(posterior, kernel, *Scaled(inputs, outputs, mean).apply(self.X, self.y), loss)

    def parts(
        self, inputs: Scaling, outputs: Scaling, mean: DeclaredMean | None = None
    ) -> Iterator[tuple[Float, Float]]:
        yield Scaled(inputs, outputs, mean).apply(self.X, self.y)


@dataclass(frozen=True, eq=False)
class Partitions(Raw):
    """Rows that are read by partitions."""

    rows: Source

    @property
    def shape(self) -> tuple[int, int]:
        return self.rows.N, self.rows.D

    @cached_property
    def fingerprint(self) -> Fingerprint:
        """One pass in this process, in the order of the rows."""
        return digest_of_rows(self.rows.holder.partitions(), *self.shape)

    def doubts(self, inputs: Scaling, outputs: Scaling) -> tuple[str, str]:
        moments, D, N = self.rows.moments, self.rows.D, self.rows.N
        mean, std = moments.mean, moments.variance**0.5
        return inputs.doubt_of(mean[:D], std[:D], N), outputs.doubt_of(mean[D:], std[D:], N)

    def scaled(self, inputs: Scaling, outputs: Scaling, mean: DeclaredMean | None = None) -> Holder:
        """The rows in the units of the model."""
        return Changed(self.rows.holder, Scaled(inputs, outputs, mean))

    def enclose(
        self,
        posterior: Posterior,
        kernel: Kernel,
        inputs: Scaling,
        outputs: Scaling,
        loss: Loss,
        mean: DeclaredMean | None = None,
    ) -> Enclosed:
        D = self.rows.D
        largest = self.rows.moments.unit[None, :D]  # |x|; scaling is monotone, in doubles, too
        reach = np.maximum(np.abs(inputs.apply(largest)), np.abs(inputs.apply(-largest)))[0]
        return enclose_partitions(posterior, kernel, self.scaled(inputs, outputs, mean), reach, loss)

    def parts(
        self, inputs: Scaling, outputs: Scaling, mean: DeclaredMean | None = None
    ) -> Iterator[tuple[Float, Float]]:
        for rows in self.scaled(inputs, outputs, mean).partitions():
            yield rows.X, rows.Y[:, 0]


@dataclass(frozen=True)
class Scaled:
    """The change of raw rows into the units of the model, with targets minus the prior's mean."""

    inputs: Scaling
    outputs: Scaling
    mean: DeclaredMean | None = None

    def __call__(self, rows: Rows) -> Rows:
        X, Y = self.apply(rows.X, rows.Y)
        return rows._replace(X=X, Y=Y)

    def apply(self, raw_X: Float, raw_y: Float) -> tuple[Float, Float]:
        """X (N, D) and y (N,) or (N, 1)."""
        X, y = self.inputs.apply(raw_X), self.outputs.apply(raw_y)
        return X, y if self.mean is None else self.mean.apply(X, y)


def raw(X: Any, y: Any = None) -> Raw:
    """The raw data: arrays as `as_data` takes them, rows as `gpbounds.sources.source` takes them, or a `Raw` itself.

    Raises
    ------
    ValueError, NonFinite
        as `as_data` and `gpbounds.sources.source`; for several targets, and for float32.

    >>> raw([[0.0], [1.0]], [2.0, 3.0]).fingerprint.sha256[:16]
    'cd5a01aa8da839db'
    """
    if isinstance(X, Raw):
        return X
    if not is_elsewhere(X):
        return Arrays(*as_data(X, y))
    rows = source(X, y)
    if not rows.single:
        raise ValueError(f"y: expected one target a row, shape ({rows.N},), got {(rows.N, rows.P)}")
    if not rows.exact:
        raise ValueError(
            "X, y: expected float64, or whole numbers below 2^53, in every partition, got others: a certificate "
            "identifies the exact numbers for which it holds"
        )
    return Partitions(rows)
