"""The products of one-dimensional eigenfunctions that an expansion keeps."""

from __future__ import annotations

import itertools

import numpy as np

from gpbounds.arrays import Float
from gpbounds.spectra.lower_sets import Degrees
from gpbounds.spectra.product import smallest_sums


def best_first(steps: Float, rank: int) -> Degrees:
    """The ``rank`` degrees n in {0, 1, …}^D of largest eigenvalue e^(−n·steps), in decreasing order."""
    return smallest_sums(steps, rank)[1]


def by_total_degree(dim: int, rank: int) -> Degrees:
    """The first ``rank`` degrees by total degree, then lexicographically, powers of the first coordinate first.

    >>> by_total_degree(2, 5).tolist()
    [[0, 0], [1, 0], [0, 1], [2, 0], [1, 1]]
    """
    if dim == 1:
        return np.arange(rank, dtype=np.int64)[:, None]
    terms = itertools.chain.from_iterable(
        itertools.combinations_with_replacement(range(dim), total) for total in itertools.count()
    )
    return np.array([np.bincount(term, minlength=dim) for term in itertools.islice(terms, rank)], dtype=np.int64)


def on_grid(dim: int, rank: int) -> Degrees:
    """The degrees {0, …, n − 1}^D, n = rank^(1/D), in lexicographic order, the last coordinate fastest.

    Raises
    ------
    ValueError
        if ``rank`` is not the D-th power of a whole number.

    >>> on_grid(2, 4).tolist()
    [[0, 0], [0, 1], [1, 0], [1, 1]]
    """
    n = round(rank ** (1.0 / dim))
    if n**dim != rank:
        below = n if n**dim < rank else n - 1
        near = f"{below**dim} or {(below + 1) ** dim}" if below else "1"
        raise ValueError(
            f"rank: expected n^{dim} with a whole number n >= 1 for order='grid' in {dim} dimensions, got {rank}; "
            f"use {near}"
        )
    return np.array(list(itertools.product(range(n), repeat=dim)), dtype=np.int64)
