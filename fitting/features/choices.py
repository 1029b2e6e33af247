"""Fourier and Mercer features by arguments that are chosen before the data are known."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from fitting.features.base import FeatureMap, KernelMap
from fitting.features.fourier import FourierMap
from fitting.features.mercer import MercerMap
from fitting.features.mixed import MixedMap, require_lines
from fitting.starts.starts import default_kernel, units
from gpbounds.arrays import Array, host
from gpbounds.kernels import Kernel, Matern, SquaredExponential
from gpbounds.kernels.facts import has_formula
from gpbounds.validation import choice, count

ORDERS = ("degree", "best", "grid")


class FeatureChoice(BaseEstimator, ABC):
    """Arguments from which `prepare` makes a feature map for given data.

    The arguments are those of scikit-learn's protocol: `sklearn.base.clone` copies them, and a grid search sets them by
    the names of ``LowRankGP(features=...)``: ``features__d`` and so on.
    """

    @abstractmethod
    def check(self) -> None:
        """Raise an error for wrong arguments."""

    @abstractmethod
    def prepare(self, X: Array, Y: Array, rng: np.random.Generator) -> FeatureMap:
        """The map for all rows X (N, D) and targets Y (N, P), on their device; ``rng`` draws what is random."""


class KernelChoice(FeatureChoice):
    """Arguments of features that approximate a stationary kernel."""

    @abstractmethod
    def prepare(self, X: Array, Y: Array, rng: np.random.Generator) -> KernelMap:
        """The features of the kernel, or of one at the scale of X and Y."""


@dataclass(eq=False, repr=False)
class Fourier(KernelChoice):
    """Cosines and sines of random frequencies, which are drawn once (`FourierMap`, `MixedMap`).

    Parameters
    ----------
    rank : int
        Number of features, a cosine and a sine for each frequency.
    kernel : Kernel, optional
        Where training starts: as for ``features="fourier"`` of `fitting.LowRankGP`.  None: a squared exponential at the
        scale of the data.

    >>> X = np.linspace(-1.0, 1.0, 5)[:, None]
    >>> Fourier(6).prepare(X, np.sin(X), np.random.default_rng(0)).frequencies.shape
    (3, 1)
    """

    rank: int = 100
    kernel: Kernel | None = None

    def check(self) -> None:
        even("rank", self.rank)
        if self.kernel is not None:
            require_lines(self.kernel)

    def prepare(self, X: Array, Y: Array, rng: np.random.Generator) -> KernelMap:
        return fourier_map(_kernel(self.kernel, X, Y), self.rank, host(X), rng)


@dataclass(eq=False, repr=False)
class Mercer(KernelChoice):
    """Eigenfunctions of the squared exponential kernel under the normal law with the moments of the rows (`MercerMap`).

    Parameters
    ----------
    rank : int
    order : "degree", "best" or "grid"
        Which eigenfunctions are kept, as in `fitting.LowRankGP`; "best" means at the start.
    kernel : SquaredExponential, optional
        Where training starts.  None: at the scale of the data.

    >>> X = np.linspace(-1.0, 1.0, 5)[:, None]
    >>> Mercer(4).prepare(X, np.sin(X), np.random.default_rng(0)).degrees.ravel().tolist()
    [0, 1, 2, 3]
    """

    rank: int = 100
    order: str = "degree"
    kernel: Kernel | None = None

    def check(self) -> None:
        count("rank", self.rank)
        choice("order", self.order, ORDERS)
        of_families("kernel", self.kernel, "Mercer", (SquaredExponential,))

    def prepare(self, X: Array, Y: Array, rng: np.random.Generator) -> MercerMap:
        points, kernel = host(X), _kernel(self.kernel, X, Y)
        assert isinstance(kernel, SquaredExponential)
        return MercerMap.chosen(kernel, self.rank, self.order, points.mean(axis=0), units(points))


def even(name: str, rank: Any) -> int:
    """``rank`` as an int; refuses odd numbers, as each frequency has a cosine and a sine."""
    if count(name, rank) % 2:
        raise ValueError(
            f"{name}: expected an even number (a cosine and a sine for each frequency), got {rank}; use {rank + 1}"
        )
    return int(rank)


def of_families(name: str, kernel: Any, features: str, families: tuple[type[Kernel], ...]) -> None:
    """Refuse a kernel of another family; None passes."""
    if kernel is not None and not has_formula(kernel, *families):
        expected = " or ".join(family.__name__ for family in families)
        raise ValueError(f"{name}: expected {expected} for features={features}, got {kernel!r}")


def fourier_map(kernel: Kernel, rank: int, X: Array, rng: int | np.random.Generator) -> KernelMap:
    """The Fourier features of ``kernel``: random ones for a squared exponential or Matérn kernel, else `MixedMap`."""
    if has_formula(kernel, SquaredExponential, Matern):
        assert isinstance(kernel, SquaredExponential | Matern)
        return FourierMap.drawn(kernel, rank, X, rng)
    return MixedMap.drawn(kernel, rank, X, rng)


def _kernel(kernel: Kernel | None, X: Array, Y: Array) -> Kernel:
    """``kernel``, or one at the scale of the data; another dimension than that of X is an error."""
    points = host(X)
    chosen = default_kernel(points, host(Y)) if kernel is None else kernel
    chosen.diag(points[:1])
    return chosen
