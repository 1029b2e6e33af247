"""Inducing points among the rows of a data set, by a named method, for any M."""

from __future__ import annotations

import argparse
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpbounds.arrays import Float
from gpbounds.cli import options
from gpbounds.kernels import Kernel

METHODS = ("greedy", "kdpp", "best", "rpcholesky", "uniform", "kmeans", "leverage")
NAMES = {
    "kdpp": "k-DPP",
    "kmeans": "k-means",
    "leverage": "leverage-score",
    "rpcholesky": "randomly pivoted",
    "best": "best-of-ten",
}


class NoSuchSubset(ValueError):
    """The method cannot choose so many points: the numerical rank or the number of distinct rows is smaller."""


def add_select(parser: argparse.ArgumentParser) -> None:
    """``--select`` and ``--most``."""
    group = parser.add_argument_group("after the fact (with --data): chosen inducing points for these rows")
    group.add_argument(
        "--select",
        choices=(*METHODS, "none"),
        default="greedy",
        help="method that chooses the inducing points (default %(default)s); none omits this part",
    )
    group.add_argument(
        "--most",
        metavar="M",
        type=options.whole,
        default=1000,
        help="largest number of inducing points (or rank of a Mercer expansion) to try (default %(default)s)",
    )


def check_select(args: argparse.Namespace) -> None:
    """Refuse a ``--most`` below 1."""
    if args.most < 1:
        raise options.UsageError(f"--most: expected a whole number >= 1, got {args.most}")


@dataclass
class Chooser:
    """Inducing points by ``method``: nested sets if `nested`, otherwise an independent choice for each M."""

    kernel: Kernel
    X: Float
    method: str
    seed: int
    _order: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, dtype=np.int64))

    @property
    def name(self) -> str:
        """The method as text."""
        return NAMES.get(self.method, self.method)

    @property
    def nested(self) -> bool:
        """Whether larger sets contain the smaller ones."""
        return self.method in ("greedy", "rpcholesky", "uniform")

    def points(self, M: int) -> Float:
        """Z of shape (M, D).  Raises `NoSuchSubset` if the method cannot choose M points."""
        from gpbounds.kdpp import select

        if self._order.size >= M:
            return self.X[self._order[:M]]
        rng = np.random.default_rng(self.seed if self.nested else (self.seed, M))
        jitter: Any = 0.0 if self.method in ("greedy", "rpcholesky") else "auto"
        try:
            selection = select(self.kernel, self.X, M, self.method, rng, jitter=jitter)
        except ValueError as error:
            raise NoSuchSubset(str(error)) from None
        if selection.indices is not None and self.nested:
            self._order = selection.indices
        return selection.Z
