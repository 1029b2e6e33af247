"""Hilbert-space features: products of sines that vanish on the boundary of a box, with trained weights.

The box is Π[o_d − S_d, o_d + S_d], L_d = c_d S_d, ω_jd = j_dπ/(2L_d) for j in Π{1 … m_d}, and s the spectral density of
a squared exponential or Matérn kernel:

    Ξ_ij = a_j Π_d sin(ω_jd(x_id − o_d + L_d)),   a_j = √(s(ω_j)/Π L_d).

Frequencies and box do not depend on the hyperparameters, so that derivatives in them are sums over columns:

    ∂/∂log ℓ_d = ½Σ_j (∂log s(ω_j)/∂log ℓ_d) Σ_i Ξ̄_ij Ξ_ij,     ∂/∂log variance = ½ΣΞ̄∘Ξ,

with q = Σ_d (ω_jd ℓ_d)² and

    ∂log s/∂log ℓ_d = 1 − (ω_jd ℓ_d)²                        squared exponential,
                      1 − (2ν + D)(ω_jd ℓ_d)²/(2ν + q)      Matérn.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from fitting.features.base import KernelFeaturesAt, StationaryMap
from fitting.features.device import SinesOnDevice
from fitting.rows.columns import Columns
from fitting.starts.starts import PIECE
from gpbounds.arrays import Array, Float, Indices, host, namespace
from gpbounds.bound import UP
from gpbounds.kernels import SquaredExponential, Stationary
from gpbounds.kernels.facts import has_formula
from gpbounds.lowrank import HilbertFeatures
from gpbounds.lowrank.features.sines import densities, products
from gpbounds.once import cached_property
from gpbounds.rows.engines import Engine, Memory
from gpbounds.rows.program import Program, Rows, Statistics
from gpbounds.whitening import slices

FACTOR = 1.5
"""c of features that are asked for by name."""


# The box of given rows


@dataclass(frozen=True, eq=False)
class Extent(Statistics):
    """The least and the largest value of each column, arrays (D,); ``+`` joins them."""

    low: Float
    high: Float

    def __add__(self, other: Self) -> Self:
        return type(self)(np.minimum(self.low, other.low), np.maximum(self.high, other.high))

    @classmethod
    def of(cls, state: Any, rows: Rows) -> Extent:
        """That of one partition."""
        points = host(rows.points)
        return cls(points.min(axis=0, initial=np.inf), points.max(axis=0, initial=-np.inf))

    @classmethod
    def over(cls, engine: Engine, program: Program | None = None) -> Extent:
        """That of all rows of an engine."""
        extent: Extent = engine.run(EXTENT if program is None else program)
        return extent


EXTENT = Program.one_pass(Extent.of)


@dataclass(frozen=True, eq=False)
class Box:
    """Π[centre_d − half_width_d, centre_d + half_width_d]; both arrays (D,)."""

    centre: Float
    half_width: Float

    @classmethod
    def around(cls, X: Float | Columns) -> Box:
        """The least box that contains all rows, about the middle of their ranges; a constant column gets the width 2.

        >>> box = Box.around(np.array([[0.0, 5.0], [4.0, 5.0]]))
        >>> box.centre.tolist(), box.half_width.round(6).tolist()
        ([2.0, 5.0], [2.0, 1.0])
        """
        if isinstance(X, Columns):
            extent = Extent.over(X.source.holder)
        else:
            pieces = [Rows(X[rows], X[rows, :0], 0) for rows in slices(X.shape[0], PIECE)]
            extent = Extent.over(Memory(pieces))
        centre = extent.low + 0.5 * (extent.high - extent.low)
        reach = UP * np.maximum(extent.high - centre, centre - extent.low)
        return cls(centre, np.where(reach > 0.0, reach, 1.0))

    def contains(self, extent: Extent) -> bool:
        """Whether all rows with this extent are in the box."""
        return bool(
            (extent.high - self.centre <= self.half_width).all() and (self.centre - extent.low <= self.half_width).all()
        )


def numbers_for(kernel: Stationary, rank: int, lengths: Float) -> Indices:
    """m_d with Πm_d ≤ rank, whose highest frequencies m_dπℓ_d/(2L_d) are as equal as whole numbers can be.

    One function more goes again and again to the dimension with the lowest such frequency among those that have room.

    >>> numbers_for(SquaredExponential(1.0, [0.5, 1.0]), 20, np.ones(2)).tolist()
    [6, 3]
    """
    ells = kernel.lengthscales(lengths.size)
    m = np.ones(lengths.size, dtype=np.int64)
    while True:
        room = math.prod(m.tolist()) // m * (m + 1) <= rank
        if not room.any():
            return m
        m[int(np.argmin(np.where(room, m * ells / lengths, np.inf)))] += 1


# The features


@dataclass(frozen=True, eq=False)
class HilbertMap(StationaryMap):
    """Products of sines: rank Πm_d; ``m``, ``c`` and the box stay the same while hyperparameters change.

    Attributes
    ----------
    kernel : SquaredExponential or Matern
    m : array (D,) of int
        Functions in each dimension.
    c, half_width, centre : arrays (D,)
        Boundary factors, S and o: the functions vanish at o ± cS.

    >>> features = HilbertMap.of(SquaredExponential(), 12, 4.0, Box(np.zeros(1), np.ones(1)))
    >>> Xi = features(features.kernel.log_parameters, np.array([[0.0], [1.0]]))
    >>> (Xi @ Xi.T).round(4)  # k: 1, exp(-1/2) = 0.6065
    array([[1.    , 0.6065],
           [0.6065, 1.    ]])
    """

    kernel: Stationary
    m: Indices
    c: Float
    half_width: Float
    centre: Float

    @classmethod
    def of(cls, kernel: Stationary, m: ArrayLike, c: ArrayLike, box: Box) -> HilbertMap:
        """The features that `gpbounds.lowrank.HilbertFeatures` has in this box.

        Raises
        ------
        ValueError
            as that class does.
        """
        made = HilbertFeatures(kernel, m, c, half_width=box.half_width, centre=box.centre)  # type: ignore[arg-type]
        kernel.diag(made.centre[None])  # a kernel of another dimension is an error
        return cls(kernel, made.m, np.array(made.c), np.array(made.half_width), np.array(made.centre))

    @classmethod
    def within(cls, kernel: Stationary, rank: int, box: Box) -> HilbertMap:
        """At most ``rank`` functions, shared out by `numbers_for`, with c = `FACTOR`."""
        return cls.of(kernel, numbers_for(kernel, rank, FACTOR * box.half_width), FACTOR, box)

    @property
    def rank(self) -> int:
        return math.prod(self.m.tolist())

    @property
    def box(self) -> Box:
        """Where the features approximate the kernel."""
        return Box(self.centre, self.half_width)

    def inside(self, D: int) -> Float:
        return self.centre

    @cached_property
    def lengths(self) -> Float:
        """L (D,)."""
        return self.c * self.half_width

    @cached_property
    def indices(self) -> Indices:
        """j (rank, D)."""
        return products(self.m)

    @cached_property
    def frequencies(self) -> Float:
        """ω (rank, D), in radians per unit of x."""
        return self.indices * (math.pi / (2.0 * self.lengths))

    def at(self, parameters: Float) -> _HilbertAt:
        return _HilbertAt(self, self.kernel_at(parameters))


@dataclass(frozen=True, eq=False)
class _HilbertAt(KernelFeaturesAt):
    """The features at one kernel."""

    map: HilbertMap
    kernel: Stationary

    @property
    def rank(self) -> int:
        return self.map.rank

    @cached_property
    def amplitudes(self) -> Float:
        """a (rank,)."""
        return np.sqrt(densities(self.kernel, self.map.frequencies) / np.prod(self.map.lengths))

    @cached_property
    def slopes(self) -> Float:
        """½ ∂log s/∂log ℓ_d, shape (D, rank)."""
        dim = len(self.map.m)
        squares = (self.map.frequencies * self.kernel.lengthscales(dim)).T ** 2
        if has_formula(self.kernel, SquaredExponential):
            return 0.5 - 0.5 * squares
        nu: float = self.kernel.nu  # type: ignore[attr-defined]
        return 0.5 - (nu + 0.5 * dim) * squares / (2.0 * nu + squares.sum(axis=0))

    @cached_property
    def on_device(self) -> SinesOnDevice:
        of = self.map
        return SinesOnDevice(of.frequencies, self.amplitudes, self.slopes, of.centre, of.lengths)

    @property
    def each(self) -> bool:
        return self.kernel.dim is not None

    def fill(self, X: Array, K: Array, V: Array) -> None:
        if namespace(X) is not np:
            self.on_device.fill(X, V)
            return
        far = np.abs(X - self.map.centre) > self.map.lengths
        if far.any():
            row = int(np.flatnonzero(far.any(axis=1))[0])
            raise ValueError(
                f"X: expected inputs within c·half_width = {self.map.lengths.tolist()} of the centre of the box, "
                f"{self.map.centre.tolist()}, beyond which Hilbert-space features do not approximate the kernel, got "
                f"{np.array2string(X[row], threshold=8)}: train with a larger box, Hilbert(m, c, half_width=...)"
            )
        V[...] = self.amplitudes
        for values in self._chosen(self._phases(X), np.sin):
            V *= values

    def pull(self, X: Array, K: Array, V: Array, cotangent: Array) -> Float:
        products = host(namespace(X).einsum("ij,ij->j", cotangent, V))
        return self.map.logs(0.5 * float(products.sum()), self.slopes @ products)

    def pull_inputs(self, X: Array, V: Array, cotangent: Array) -> tuple[Float, Array]:
        xp = namespace(X)
        logs = self.pull(X, V[:, :0], V, cotangent)
        phases = self._phases(X)
        sines = self._chosen(phases, xp.sin)
        moved = xp.empty(X.shape)
        before = cotangent * xp.asarray(self.amplitudes)  # times the factors before d
        for d, cosines in enumerate(self._chosen(phases, xp.cos)):
            slope = before * cosines
            for after in sines[d + 1 :]:
                slope *= after
            moved[:, d] = slope @ xp.asarray(self.map.frequencies[:, d])
            before *= sines[d]
        return logs, moved

    def _phases(self, X: Array) -> list[Array]:
        """ω_jd(x_id − o_d + L_d) for j = 1 … m_d, one array (n, m_d) for each dimension."""
        xp = namespace(X)
        numbers = zip(self.map.m.tolist(), self.map.lengths.tolist(), self.map.centre.tolist(), strict=True)
        return [
            (X[:, d : d + 1] - (centre - length)) * (xp.arange(1, m + 1) * (math.pi / (2.0 * length)))
            for d, (m, length, centre) in enumerate(numbers)
        ]

    def _chosen(self, phases: Sequence[Array], function: Any) -> list[Array]:
        """The function of the phases, for each dimension the columns that the features contain, (n, rank)."""
        xp = namespace(phases[0])
        return [function(phase)[:, xp.asarray(j - 1)] for phase, j in zip(phases, self.map.indices.T, strict=True)]
