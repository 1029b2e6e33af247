"""The split of the rows into those from which a prior or a model was made, and those that are certified."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from gpbounds.errors import shown
from gpbounds.records import NUMBER, TEXT, WHOLE, Record, Slots
from gpbounds.validation import choice, count, finite, scalar, within_memory

ORDERS = ("random", "as given")


@dataclass(frozen=True)
class Split(Record):
    """Which rows are the prior's: anything may be made of them, and the other rows are certified.

    Certified rows are independent of everything that was made of the prior's rows if the rows are independent and the
    split was fixed before the data were seen.  For rows in the order of time, "as given" takes the first ones; a random
    order would let the prior see the future.

    Parameters
    ----------
    order : "random" or "as given"
        "random": the order of the first N numbers of 64 bits of the Philox generator with the key ``seed``, which are
        the same on every machine.
    share : float in (0, 1)
        Share of the prior's rows: ⌊share·N + ½⌋ of them, at least 1 and at most N − 1.
    seed : int in [0, 2⁶⁴)

    Raises
    ------
    ValueError
        for other arguments; `prior` for fewer than two rows.

    >>> Split("random", 0.5, seed=3).prior(6).tolist()
    [False, True, True, False, False, True]
    >>> Split("as given", 0.25).prior(8).tolist()
    [True, True, False, False, False, False, False, False]
    """

    order: str = "random"
    share: float = 0.5
    seed: int = 0
    stored: ClassVar[Slots] = {"order": TEXT, "share": NUMBER, "seed": WHOLE}

    def __post_init__(self) -> None:
        choice("order", self.order, ORDERS)
        object.__setattr__(self, "share", share_of(self.share))
        if not isinstance(self.seed, int | np.integer) or isinstance(self.seed, bool) or not 0 <= self.seed < 2**64:
            raise ValueError(f"seed: expected one whole number from 0 to 2^64 − 1, got {shown(self.seed)}")
        object.__setattr__(self, "seed", int(self.seed))

    def prior(self, N: int) -> NDArray[np.bool_]:
        """Whether each of N rows is the prior's, shape (N,)."""
        rows = self._rows(N)
        first = self._count(rows)
        with within_memory("N"):
            mask = np.zeros(rows, dtype=bool)
            if self.order == "as given":
                mask[:first] = True
            else:
                words = np.random.Philox(key=self.seed).random_raw(rows)
                mask[np.argsort(words, kind="stable")[:first]] = True
        return mask

    def certified(self, N: int) -> int:
        """The number of certified rows among N."""
        rows = self._rows(N)
        return rows - self._count(rows)

    def _rows(self, N: int) -> int:
        rows = count("N", N, 0)
        if rows < 2:
            raise ValueError(f"split: expected N of two rows or more, one for the prior and one to certify, got {rows}")
        return rows

    def _count(self, N: int) -> int:
        return min(max(int(np.floor(self.share * N + 0.5)), 1), N - 1)

    def describe(self) -> str:
        """A phrase that follows "The split was"."""
        if self.order == "as given":
            return f"in the order of the rows: the first {100.0 * self.share:g} % are the prior's"
        return f"at random with seed {self.seed}: {100.0 * self.share:g} % of the rows are the prior's"


def share_of(share: Any) -> float:
    """A share of the rows, between 0 and 1."""
    value = scalar(finite, "share", share)
    if not 0.0 < value < 1.0:
        raise ValueError(f"share: expected a number between 0 and 1, got {shown(share)}")
    return value
