"""The products of one-dimensional eigenfunctions that an expansion keeps, and the set that it omits."""

from __future__ import annotations

import itertools

import numpy as np
from numpy.typing import NDArray

from gpbounds.arrays import Float
from gpbounds.spectra.product import smallest_sums

Degrees = NDArray[np.int64]


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


def edges(degrees: Degrees) -> list[tuple[Degrees, NDArray[np.int64]]]:
    """The complement of the lower set ``degrees`` as disjoint orthants: for each d prefixes (E, d) and starts (E,).

    Each n in the complement has a first coordinate d at which it leaves the set: its prefix n_0 … n_{d−1}, continued by
    zeros, is in the set, and n_d is at least the start.  The start is one more than the largest value in the set with
    that prefix and zeros after it.

    >>> edges(np.array([[0, 0], [1, 0], [0, 1]]))[1]
    (array([[0],
           [1]]), array([2, 1]))
    """
    orthants = []
    for d in range(degrees.shape[1]):
        inside = degrees[(degrees[:, d + 1 :] == 0).all(axis=1), : d + 1]
        inside = inside[np.lexsort(inside.T[::-1])]
        last = np.ones(len(inside), dtype=bool)
        last[:-1] = (inside[1:, :d] != inside[:-1, :d]).any(axis=1) if d else False
        orthants.append((inside[last, :d], inside[last, d] + 1))
    return orthants
