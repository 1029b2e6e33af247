"""What bounds in balls need of a Mercer spectrum: eigenvalues, the sums of their tails, sup k(x, x)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any


class Eigenvalues(ABC):
    """Mercer eigenvalues in balls, or numbers of which each is at least the eigenvalue of its place.

    Attributes
    ----------
    dim : int
        D.
    note : str
        What the numbers are, if they are not those of the spectrum in doubles; bounds list it among their assumptions.
    """

    dim: int
    note: str = ""

    @abstractmethod
    def eigenvalues(self, count: int) -> list[tuple[Any, int]]:
        """About the ``count`` largest as (value, how often); which ones are taken is decided in doubles."""

    @abstractmethod
    def tail(self, count: int) -> Any:
        """The sum of all but those of :meth:`eigenvalues`."""

    @abstractmethod
    def trace(self) -> Any:
        """E k(x, x)."""

    @abstractmethod
    def largest(self) -> Any:
        """sup k(x, x), or None if it is infinite."""

    def closed_trace(self, M: int) -> Any:
        """R(μ) = (M+1) e_{M+1}/e_M, or an upper bound of it, where it has a closed form; None elsewhere (N-pop)."""
        return None

    def flat(self, count: int) -> list[Any]:
        """:meth:`eigenvalues` one by one."""
        return [value for value, often in self.eigenvalues(count) for _ in range(often)]
