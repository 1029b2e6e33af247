"""What every statement of ``rate`` is: all of a call but M; its bound at M, and the least M that meets a target."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from numpy.typing import ArrayLike

from gpbounds import validation
from gpbounds.arrays import Float
from gpbounds.bound import Bound
from gpbounds.plan import Plan

FORMS = ("sharpest", "printed")
DIRECTIONS = ("q||p", "p||q")


@dataclass(frozen=True)
class Numbers:
    """The numbers of a statement, checked; they broadcast."""

    alpha: Float
    noise: Float
    delta: Float
    y_norm2: Float | None
    tv: Float

    @classmethod
    def checked(
        cls,
        alpha: ArrayLike,
        noise: ArrayLike,
        delta: ArrayLike,
        y_norm2: ArrayLike | None,
        tv: ArrayLike,
        direction: str,
    ) -> Numbers:
        """From the arguments of ``rate``."""
        order = validation.order("alpha", alpha)
        validation.choice("direction", direction, DIRECTIONS)
        if direction == "p||q" and (order == 1.0).any():
            raise ValueError(
                "alpha: expected alpha < 1 with direction='p||q', as the factor α/(1-α) of R-dir is infinite at 1"
            )
        return cls(
            alpha=order,
            noise=validation.positive("noise", noise),
            delta=validation.open_unit("delta", delta),
            y_norm2=None if y_norm2 is None else validation.non_negative("y_norm2", y_norm2),
            tv=validation.closed_unit("tv", tv),
        )

    def single(self) -> dict[str, float | None]:
        """As floats; an array is an error."""
        for name, value in vars(self).items():
            if value is not None and value.ndim:
                raise ValueError(
                    f"{name}: expected one number, got shape {value.shape}: call the function once for each"
                )
        return {name: None if value is None else float(value) for name, value in vars(self).items()}


class Statement(ABC):
    """A bound on the divergence of the best sparse posterior from the exact one, but for M.

    It knows the kernel, the law of the inputs or the rows themselves, what is known of y, the draws, and the numbers.
    """

    numbers: Numbers

    @abstractmethod
    def bound(self, M: Float) -> Bound:
        """The bound with M inducing points; M and the numbers broadcast."""

    @abstractmethod
    def least(self, target: float, advance: Callable[[], Any]) -> Plan:
        """The least M from which on the bound stays <= ``target``; ``advance`` is called after each step of a search.

        The numbers are scalars.
        """
