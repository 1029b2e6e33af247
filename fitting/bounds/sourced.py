"""What the bounds of this room share: data, jitter, chunks and memory of an objective of the family, and a target."""

from __future__ import annotations

from dataclasses import dataclass

from fitting.bounds.target import Target
from fitting.family import Objective
from fitting.streamed import Workspace
from gpbounds.arrays import Array


@dataclass(frozen=True, eq=False)
class Sourced:
    """Shows of ``source`` what whoever trains an `Objective` asks for.

    Attributes
    ----------
    source : fitting.family.Objective
    target : Target
    """

    source: Objective
    target: Target

    @property
    def X(self) -> Array:
        """Inputs (N, D)."""
        return self.source.X

    @property
    def Y(self) -> Array:
        """Targets (N, 1)."""
        return self.source.Y

    @property
    def N(self) -> int:
        """Number of data."""
        return self.source.N

    @property
    def single(self) -> bool:
        """Whether y came as (N,)."""
        return self.source.single

    @property
    def space(self) -> Workspace:
        """Memory that is kept from one evaluation to the next."""
        return self.source.space
