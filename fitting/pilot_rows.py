"""The rows of pilot fits: some first, and more where a fit of these predicts nothing or training has many optima.

Too few rows can be explained by inputs that do not matter, with a large evidence.  Such a fit predicts other rows worse
than noise alone does (`predicts`).  A second fit has more rows.  Where the first one predicts, its candidates are two:
the end of the first, and the candidate with the largest evidence before training, as few rows may lead all candidates
astray (248 rows of bike_hourly do).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fitting.evaluation import Parameters
from fitting.parameters import Limits
from fitting.pilot import pilot_start
from fitting.starts import mean_square
from fitting.training import Session
from gpbounds.arrays import Array, Float, namespace
from gpbounds.errors import NonFinite, NotPositiveDefinite
from gpbounds.exact import exact
from gpbounds.linalg.parallel import one_blas_thread

FEWEST, EACH, MOST = 200, 4, 1000
"""Least number of rows, the number that each input adds to it, and the largest number.  Where 4 inputs of 30 matter,
240 rows found two of them or none in three draws, and 320 rows found two (sums of sines, a tenth of noise)."""

AGAIN = 2.0
"""Factor of the number of rows of a second pilot fit."""

ENOUGH = 700
"""A second fit of more rows than this is made only where the first does not predict: of 1000 rows with 100 inputs it
takes ten seconds, and found nothing better."""

FIRST, SECOND = "start", "start again"
"""Names of the two fits within a session."""


def number_of_rows(N: int, D: int, rank: int) -> int:
    """Rows of a pilot fit, whose step costs n²/2 values of the kernel, where one of training costs N·``rank``.

    >>> number_of_rows(6500, 32, rank=100), number_of_rows(1500, 8, rank=50), number_of_rows(120, 8, rank=50)
    (806, 273, 120)
    """
    return min(N, MOST, max(math.isqrt(N * rank), FEWEST + EACH * D))


def numbers_of_rows(shape: tuple[int, ...], rank: int) -> tuple[int, int]:
    """Numbers of rows of a first pilot fit and of a second one, for X of ``shape`` (N, D).

    >>> numbers_of_rows((6500, 8), rank=10), numbers_of_rows((300, 8), rank=10)
    ((254, 508), (232, 300))
    """
    N, D = shape
    n = number_of_rows(N, D, rank)
    return n, min(N, MOST, math.ceil(AGAIN * n))


def rows_of(N: int, n: int, seed: int, attempt: int = 0) -> Array:
    """The numbers of n of N rows, in increasing order; they depend on nothing else than the arguments."""
    rng = np.random.default_rng([seed & (2**63 - 1), 5, attempt])
    return np.sort(rng.choice(N, n, replace=False))


def others_of(N: int, rows: Array, n: int, seed: int) -> Array:
    """The numbers of at most n other rows than ``rows``, in increasing order.

    >>> others_of(5, np.array([0, 2, 3]), 4, seed=0)
    array([1, 4])
    """
    left = np.setdiff1d(np.arange(N), rows, assume_unique=True)
    rng = np.random.default_rng([seed & (2**63 - 1), 5, 0, 1])
    return np.sort(rng.choice(left, min(n, left.size), replace=False))


def predicts(point: Parameters, rows: tuple[Array, Array], others: tuple[Array, Array], square: float) -> bool:
    """Whether the exact GP at ``point``, given ``rows``, has a larger mean log density at ``others`` than noise alone.

    Parameters
    ----------
    rows, others : pairs of arrays (n, D), (n, P)
        Inputs and targets.
    square : float
        Mean square of all targets, the variance of noise alone.
    """
    X, Y = others
    try:
        with one_blas_thread():  # the same numbers for any number of threads
            mean, variance = exact(point.kernel, *rows, noise=point.noise).predict(X)
    except (NotPositiveDefinite, NonFinite):  # no candidate had a value
        return False
    variance = (variance + point.noise)[:, None]
    gain = math.log(square) + Y * Y / square - namespace(Y).log(variance) - (Y - mean) ** 2 / variance
    return float(gain.mean()) > 0.0


@dataclass(frozen=True, eq=False)
class PilotFits:
    """The pilot fits of one training.

    Attributes
    ----------
    X, Y : arrays (N, D), (N, P), or columns of a source
        All rows in host memory.
    given : Parameters
        The kernel's family, and the values of ``fixed`` parameters.
    few, more : int
        Numbers of rows of the first and of the second fit.
    seed : int
        Rows are drawn by it and by their numbers.
    many_optima : bool
        Whether training has many optima, so that the second fit is made in any case, up to `ENOUGH` rows: 1000 rows of
        pm25 ended between -1.11 and -1.23 nats per datum without it, depending on the seed, and between -1.105 and
        -1.110 with it.
    limits, fixed, session : as in `pilot_start`
    placed : callable or None
        From numbers of rows to these rows of X and Y where the fits run; None: in host memory.
    """

    X: Float
    Y: Float
    given: Parameters
    few: int
    more: int
    seed: int
    many_optima: bool
    limits: Mapping[str, Limits]
    fixed: Sequence[str]
    session: Session
    placed: Callable[[Array], tuple[Array, Array]] | None = None

    def start(self) -> Parameters:
        """The start of training."""
        rows = rows_of(self.X.shape[0], self.few, self.seed)
        found, candidate = self._fit(rows, FIRST)
        if self.more == self.few:
            return found
        others = self._only(others_of(self.X.shape[0], rows, self.few, self.seed))[0]
        if not predicts(found, self._only(rows)[0], others, mean_square(self.Y)):
            return self.second()
        return self.second([found, candidate]) if self.many_optima and self.more <= ENOUGH else found

    def second(self, known: Sequence[Parameters] = ()) -> Parameters:
        """The fit of more rows, from all candidates or from those that are ``known``."""
        return self._fit(rows_of(self.X.shape[0], self.more, self.seed, 1), SECOND, known)[0]

    def _fit(self, rows: Array, name: str, known: Sequence[Parameters] = ()) -> tuple[Parameters, Parameters]:
        options: dict[str, Any] = {"limits": self.limits, "fixed": self.fixed, "session": self.session}
        placed, alone = self._only(rows)
        return pilot_start(placed, alone, self.given, self.X, self.Y, name=name, known=known, **options)

    def _only(self, numbers: Array) -> tuple[tuple[Array, Array], tuple[Float, Float]]:
        """Some rows where the fits run, and in host memory."""
        some = self.X[numbers], self.Y[numbers]
        return some if self.placed is None else self.placed(numbers), some
