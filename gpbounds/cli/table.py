"""What ``gpbounds certify train`` needs of the rows that it certifies, wherever they are."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gpbounds.arrays import Float
from gpbounds.pacbayes.certificate import DeclaredMean, Scaling


@dataclass(frozen=True, eq=False)
class Table(ABC):
    """The rows that a certificate covers: raw values, inputs and target.

    Attributes
    ----------
    name : str
        Name of the data.
    columns : list of str, optional
        Names of the inputs and, last, of the target, if the file has a header.
    inputs, outputs : Scaling
        Scalings of inputs and target, as the certificate declares them.
    as_in_file : bool
        Whether the file holds these rows in this order, with the target last.
    notes : tuple of str
        How the table was changed.
    mean : DeclaredMean or None
        The prior's mean, in the units of the scaled data; None is 0.
    """

    name: str
    columns: list[str] | None
    inputs: Scaling
    outputs: Scaling
    as_in_file: bool
    notes: tuple[str, ...]
    mean: DeclaredMean | None = field(default=None, kw_only=True)

    suffix = ".csv"
    """Of the file that `write` writes."""

    @property
    @abstractmethod
    def N(self) -> int:
        """Number of rows."""

    @property
    @abstractmethod
    def D(self) -> int:
        """Number of inputs."""

    @property
    def target(self) -> str:
        """Name of the target."""
        return self.columns[-1] if self.columns and self.columns[-1] else "target"

    @property
    @abstractmethod
    def data(self) -> tuple[Any, Any]:
        """X and y, as estimators take them."""

    @property
    @abstractmethod
    def shown(self) -> tuple[Float, Float]:
        """X (n, D) and y (n,) of the rows in the figure, raw."""

    @property
    @abstractmethod
    def scales(self) -> tuple[float, Float]:
        """The mean square of the scaled target about the prior's mean, and standard deviations (D,) of the inputs."""

    @abstractmethod
    def write(self, path: Path) -> None:
        """Write these rows with all digits, the target last."""
