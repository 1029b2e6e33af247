"""Random numbers with an address (step, row), and exact draws from q̃ ∝ N(m, v)·p(y|f) made of them.

The numbers of a row depend on a key, the step and the row only: not on the other rows of a batch, their order, or the
number of threads.  The numbers are the words of the counter-based generator Philox (Salmon et al., 2011),
whose counter holds the address.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from gpbounds.arrays import Float, Indices
from gpbounds.likelihoods import Gaussian, Likelihood
from gpbounds.montecarlo.product import Rejection, cover

WORDS = 4
"""Number of 64-bit words for each value of the counter of Philox."""
LEAST_ACCEPTANCE = 1e-5
"""A smaller share of accepted proposals is an error: a row would need more than about a million numbers."""
WIDEST = 256
"""Largest number of proposals for a row in one turn, or two for each draw if these are more."""
_TURNS = 100_000
"""Sampling stops with an error after this many turns: the acceptance must then be smaller than computed."""


@dataclass(frozen=True)
class Draws:
    """The random numbers of one training run, by step and row.

    Attributes
    ----------
    key : int
        128 bits; another key gives independent numbers.

    >>> draws = Draws.of(0)
    >>> whole = draws.uniforms(7, slice(0, 100), 3)
    >>> bool((draws.uniforms(7, slice(40, 60), 3) == whole[40:60]).all())
    True
    """

    key: int

    @classmethod
    def of(cls, rng: np.random.Generator | int) -> Draws:
        """With a key drawn from a generator, or from the generator of a seed."""
        low, high = np.random.default_rng(rng).integers(0, 2**64, 2, dtype=np.uint64).tolist()
        return cls(low + (high << 64))

    def uniforms(self, step: int, rows: slice, count: int, turn: int = 0) -> Float:
        """``count`` numbers in (0, 1) for each of the ``rows``, shape (n, count); another ``turn`` gives others.

        Numbers for one step and turn with different ``count`` are not independent of each other.
        """
        number = (rows.stop - rows.start) * count
        block, skipped = divmod(rows.start * count, WORDS)
        words = np.random.Philox(key=self.key, counter=[block, turn, step, 0]).random_raw(skipped + number)[skipped:]
        return ((words >> np.uint64(12)) + 0.5).reshape(-1, count) * 2.0**-52

    def normals(self, step: int, rows: slice, count: int) -> Float:
        """``count`` standard normal numbers for each of the ``rows``, shape (n, count)."""
        return np.asarray(ndtri(self.uniforms(step, rows, count)))


def product_draws(
    likelihood: Likelihood, y: Float, m: Float, v: Float, count: int, uniforms: Callable[[int, int], Float]
) -> tuple[Float, Float]:
    """``count`` draws from q̃ ∝ N(m, v)·p(y|f) for each row, shape (n, count), and log E p (n,).

    The same rejection as in `gpbounds.montecarlo.sample_product`, with the best proposal of each row.

    Parameters
    ----------
    likelihood : Likelihood
    y, m, v : arrays (n,)
        v > 0.
    count : int
    uniforms : function of (turn, k)
        k numbers in (0, 1) for each row, shape (n, k), for turns 0, 1, ….

    Raises
    ------
    ValueError
        where fewer than `LEAST_ACCEPTANCE` of the proposals would be accepted.
    """
    envelope = cover(likelihood, y, m, v)
    log_mean = np.asarray(envelope.log_K + np.log(envelope.acceptance))
    work = Rejection(likelihood, y, m, v, envelope, count)
    if isinstance(likelihood, Gaussian):
        work.conjugate(ndtri(uniforms(0, count)).T)
        return work.draws.T, log_mean
    work.require_acceptance(LEAST_ACCEPTANCE)
    left = np.arange(y.size)
    with np.errstate(all="ignore"):
        for turn in range(_TURNS):
            if left.size == 0:
                return work.draws.T, log_mean
            k = min((2 * count + 2) << min(turn, 9), max(WIDEST, 2 * count))
            numbers = uniforms(turn, 2 * k)
            for c in (left[work.width[left] == 0.0], left[work.width[left] > 0.0]):
                if c.size:
                    _propose(work, c, numbers[c, :k].T, numbers[c, k:].T)
            left = left[work.have[left] < count]
    raise ValueError(f"expected {count} draws for each row after {_TURNS} turns, {left.size} rows lack some")


def _propose(work: Rejection, c: Indices, place: Float, height: Float) -> None:
    """One turn for the columns ``c``, which have one kind of proposal: kept where log(height) is below the ratio."""
    if work.width[c[0]] == 0.0:
        t = work.near(ndtri(place), c)
        work.keep(t, work.log_ratio(t, c) > np.log(height), c)
    else:
        t, tail = work.flat(4.0 * place - 2.0, c)
        work.keep(t, work.log_ratio(t, c) + tail > np.log(height), c)
