"""Random probes that belong to a use, so that training and intervals do not share them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from gpbounds.records import WHOLE, WHOLES, Record, Slots
from gpbounds.validation import generator


@dataclass(frozen=True)
class Probes(Record):
    """The source of ``count`` probes that training has used.

    Hyperparameters that were trained with these probes depend on them.  An interval from the same probes would fail
    more often than it states; `gpbounds.iterative.evidence` refuses them as ``rng``.

    Attributes
    ----------
    entropy : tuple of int
        Words from which NumPy makes the generator.
    count : int

    >>> Probes((0, 6), 16).generator().standard_normal() == Probes((0, 6), 16).generator().standard_normal()
    True
    """

    entropy: tuple[int, ...]
    count: int
    stored: ClassVar[Slots] = {"entropy": WHOLES, "count": WHOLE}

    def generator(self) -> np.random.Generator:
        """A new generator, which repeats the probes."""
        return np.random.default_rng(list(self.entropy))


def fresh(rng: object) -> np.random.Generator:
    """A generator from ``rng``: None, a seed or a Generator; the probes of training are refused.

    >>> fresh(Probes((0,), 16))  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    ValueError: rng: expected None, a seed or a Generator, got the 16 probes of training. ...
    """
    if isinstance(rng, Probes):
        raise ValueError(
            f"rng: expected None, a seed or a Generator, got the {rng.count} probes of training. The hyperparameters "
            "depend on them, so that the interval would not hold with the stated probability. Pass rng=None for fresh "
            "probes"
        )
    return generator(rng)
