"""What one run of an optimiser leaves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

from gpbounds.arrays import Float

Loss = Callable[[Float], tuple[float, Float]]
"""vector ↦ (−F, −∂F)."""

Status = Literal["converged", "iterations", "interrupted", "stalled"]


@dataclass(frozen=True, eq=False)
class Run:
    """One run of an optimiser: the best point seen, the curve, and why it stopped.

    Attributes
    ----------
    vector : array (p,)
        The best point seen.
    value : float
        F there; with mini-batches N/B times F of the reference batch.
    values : tuple of float
        F at the start and after each iteration; −inf where no value could be computed.
    status : "converged", "iterations", "interrupted" or "stalled"
        "iterations": they ran out.  "stalled": no step improves, though the gradient is not small.
    reason : str
        The same as a sentence.
    evaluations : int
        How often the objective was asked for.
    failures : int
        How often it had no value: a matrix that did not factorise, or overflow.
    state : dict
        What the optimiser needs to go on: arrays and plain numbers.
    """

    vector: Float
    value: float
    values: tuple[float, ...]
    status: Status
    reason: str
    evaluations: int
    failures: int
    state: dict[str, Any] = field(default_factory=dict, repr=False)

    @property
    def iterations(self) -> int:
        """Steps taken."""
        return max(len(self.values) - 1, 0)

    def is_over(self, max_iter: int) -> bool:
        """Whether nothing is left to do for a run of ``max_iter`` iterations."""
        return self.status in ("converged", "stalled") or self.iterations >= max_iter
