"""The record of one run of an optimiser."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

from fitting.training.tail import Ending
from gpbounds.arrays import Float

Loss = Callable[[Float], tuple[float, Float]]
"""vector ↦ (−F, −∂F)."""

Status = Literal["converged", "settled", "resolved", "iterations", "interrupted", "stalled"]


@dataclass(frozen=True, eq=False)
class Run:
    """One run of an optimiser: the best point seen, the curve, and why it stopped.

    Attributes
    ----------
    vector : array (p,)
        The best point seen.
    value : float
        F at this point; with mini-batches, N/B times F of the reference batch.
    values : tuple of float
        F at the start and after each iteration; −inf where F had no value.
    status : "converged", "settled", "resolved", "iterations", "interrupted" or "stalled"
        "settled": further iterations are expected to gain less than matters.  "resolved": the derivatives of an
        estimated objective lie within their random errors.  "iterations": all were used.
        "stalled": no step improved F, although the gradient is not small.
    reason : str
        The status as a sentence.
    evaluations : int
        Number of evaluations of the objective.
    failures : int
        Number of evaluations without a value: a matrix did not factorise, or numbers overflowed.
    state : dict
        Arrays and plain numbers with which the optimiser can continue.
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
        """Number of steps."""
        return max(len(self.values) - 1, 0)

    def check_size(self, p: int) -> None:
        """Refuse a run with another number of parameters than ``p``, as a changed checkpoint may hold.

        Raises
        ------
        ValueError
        """
        if self.vector.shape != (p,):
            raise ValueError(
                f"checkpoint: expected {p} parameters, got a checkpoint of {self.vector.size}: pass another path, or "
                "delete this file"
            )

    def is_over(self, max_iter: int, ending: Ending | None = None) -> bool:
        """Whether a run with ``max_iter`` iterations that ends by ``ending`` is complete."""
        if self.status == "settled":
            return self.iterations >= max_iter or (ending is not None and ending.reason(self.values) is not None)
        if self.status == "interrupted" and self.iterations == max_iter:  # a kill came before the record of the end
            return False
        return self.status in ("converged", "resolved", "stalled") or self.iterations >= max_iter
