"""Fourier, Mercer and Hilbert-space features by arguments that are chosen before the data are known."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from fitting.features.base import FeatureMap, KernelMap
from fitting.features.fourier import FourierMap
from fitting.features.hilbert_space import FACTOR, Box, HilbertMap
from fitting.features.mercer import MercerMap
from fitting.features.mixed import MixedMap, require_lines
from fitting.features.transform import Composed, Squashed, Transform
from fitting.starts.starts import default_kernel, units
from gpbounds.arrays import Array, Float, host
from gpbounds.kernels import Kernel, Matern, SquaredExponential
from gpbounds.kernels.facts import has_formula
from gpbounds.lowrank.features.sines import sides
from gpbounds.validation import choice, count, each_dimension, finite, positive

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

    def after(self, transform: Transform, weights: Float, X: Array, Y: Array, rng: np.random.Generator) -> Composed:
        """The features of z = g(x) for a transform g with these weights."""
        return Composed(self.prepare(transform.project(weights, X), Y, rng), transform, weights)


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


REACH = 3.0
"""Half width of the box for the outputs of a network, which have mean 0 and variance 1 at the start."""


@dataclass(eq=False, repr=False)
class Hilbert(KernelChoice):
    """Products of sines on a box around the rows, with the spectral density as weights (`HilbertMap`).

    `gpbounds.lowrank.hilbert_kl` bounds the divergence from the exact GP for any rows in the box, also for
    hyperparameters that were fitted to them, and `gpbounds.lowrank.hilbert_rank` finds ``m`` and ``c``.  After a
    network (``MLP(then=Hilbert(...))``) the kernel is one of z = S·tanh(g(x)/S), which never leaves the box ±S.

    Parameters
    ----------
    m : int, or a tuple of D
        Functions in each dimension; the rank is their product.
    c : float, or a tuple of D
        Boundary factors above 1: the functions vanish at the centre ± c·half_width.
    half_width, centre : float, or a tuple of D, optional
        The box; inputs beyond c·half_width are an error.  None: the least box that contains the rows, about the middle
        of their ranges; after a network, ±3.
    kernel : SquaredExponential or Matern, optional
        Where training starts.  None: a squared exponential at the scale of the data.

    >>> X = np.linspace(-1.0, 3.0, 5)[:, None]
    >>> features = Hilbert(6).prepare(X, np.sin(X), np.random.default_rng(0))
    >>> features.rank, features.centre.tolist(), features.lengths.round(6).tolist()
    (6, [1.0], [3.0])
    """

    m: int | tuple[int, ...] = 20
    c: float | tuple[float, ...] = FACTOR
    half_width: float | tuple[float, ...] | None = None
    centre: float | tuple[float, ...] | None = None
    kernel: Kernel | None = None

    def check(self) -> None:
        given = (self.m, self.c, 1.0 if self.half_width is None else self.half_width)
        dim = max(np.size(each) for each in (*given, 0.0 if self.centre is None else self.centre))
        sides(*given[:2], each_dimension("half_width", positive("half_width", given[2]), dim))
        if self.centre is not None:
            finite("centre", self.centre)
            if self.half_width is None:
                raise ValueError("half_width: expected a number beside centre, got None")
        of_families("kernel", self.kernel, "Hilbert", (SquaredExponential, Matern))

    def prepare(self, X: Array, Y: Array, rng: np.random.Generator) -> HilbertMap:
        points = host(X)
        return self._in(Box.around(points), points, Y)

    def after(self, transform: Transform, weights: Float, X: Array, Y: Array, rng: np.random.Generator) -> Composed:
        """The features of the squashed z."""
        box = self._stated(Box(np.zeros(transform.dim), np.full(transform.dim, REACH)))
        if box.centre.any():
            raise ValueError(f"centre: expected None or 0 after a network, got {self.centre}")
        squashed = Squashed(transform, box.half_width)
        return Composed(self._in(box, squashed.project(weights, X), Y), squashed, weights)

    def _in(self, box: Box, X: Array, Y: Array) -> HilbertMap:
        kernel: Any = _kernel(self.kernel, X, Y)
        return HilbertMap.of(kernel, self.m, self.c, self._stated(box))

    def _stated(self, box: Box) -> Box:
        """The box of the arguments, or else this one."""
        if self.half_width is None:
            return box
        dim = box.centre.size
        centre = np.zeros(dim) if self.centre is None else each_dimension("centre", finite("centre", self.centre), dim)
        return Box(centre, each_dimension("half_width", positive("half_width", self.half_width), dim))


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
