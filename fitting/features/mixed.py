"""Fourier features of any kernel of x − x' that is made of known ones by sums, products and choices of columns.

A kernel is a sum of terms, and a term a product of leaves (`fitting.features.spectrum`).  A term has frequencies Ω (m,
D) and weights w (m,), and k ≈ Σ_k w_k cos ω_kᵀ(x − x').  All are functions of the hyperparameters θ, whose derivatives
are J = ∂(Ω, ½log w)/∂θ; with a = √w, Ξ = [C|S] = [a∘cos XΩᵀ|a∘sin XΩᵀ] and a cotangent Ξ̄,

    Ω̄ = −GᵀX,  G = Ξ̄_C∘S − Ξ̄_S∘C,      derivatives in ½log w: the column sums of Ξ̄_C∘C + Ξ̄_S∘S,      θ̄ = J·(Ω̄, …).
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import numpy as np

from fitting.features.base import KernelFeaturesAt, KernelMap
from fitting.features.device import FourierOnDevice, MixedOnDevice
from fitting.features.spectrum import Draw, Zero, drawn, largest_lines
from gpbounds.arrays import Array, Float, host, namespace
from gpbounds.kernels import Constant, Kernel, Matern, OnColumns, Periodic, RationalQuadratic, SquaredExponential
from gpbounds.kernels.facts import Fold
from gpbounds.lowrank.features.fourier import cosines_and_sines
from gpbounds.once import cached_property

LEAVES = (SquaredExponential, Matern, RationalQuadratic, Periodic, Constant)
"""Kernels whose frequencies are known, besides those made of them."""


@dataclass(frozen=True)
class Leaf:
    """A kernel that is not made of others, the columns of x that it reads, and the place of its log parameters."""

    kernel: Any
    columns: tuple[int, ...]
    place: int


@dataclass(frozen=True, eq=False)
class Term:
    """A product of leaves.

    Attributes
    ----------
    leaves : tuple of int
        Their numbers in the order of `_leaves_of`.
    draws : tuple of Draw
        Of each leaf, m frequencies.
    m : int
    shift : float
        log of the factor of all weights: −log m for random frequencies, 0 for those of a line spectrum.
    """

    leaves: tuple[int, ...]
    draws: tuple[Draw, ...]
    m: int
    shift: float


def _leaves_of(kernel: Kernel, dim: int) -> list[Leaf]:
    """The leaves in the order of ``kernel.log_parameters``.

    Raises
    ------
    ValueError
        for a leaf that is no function of x − x' with known frequencies.
    """
    parts = kernel.fold(_PARTS, tuple(range(dim)))
    places = accumulate((part.log_parameters.size for part, _ in parts), initial=0)
    return [Leaf(part, columns, place) for (part, columns), place in zip(parts, places, strict=False)]


Parts = list[tuple[Kernel, tuple[int, ...]]]


def _part(kernel: Kernel, columns: tuple[int, ...]) -> Parts:
    require_lines(kernel)
    kernel.diag(np.zeros((1, len(columns))))  # refuses another number of dimensions
    return [(kernel, columns)]


def _parts_on(kernel: OnColumns, columns: tuple[int, ...], inner: Callable[[tuple[int, ...]], Parts]) -> Parts:
    kernel.chosen(np.zeros((1, len(columns))))  # refuses numbers that are not below the number of columns
    return inner(tuple(columns[c] for c in kernel.columns))


_PARTS = Fold(_part, operator.add, operator.add, _parts_on)


def require_lines(kernel: Any, name: str = "kernel") -> None:
    """Refuse a kernel that is not made of `LEAVES`."""
    unknown = kernel.fold(_UNKNOWN, None) if isinstance(kernel, Kernel) else [kernel]
    if unknown:
        raise ValueError(
            f"{name}: expected a function of x - x' for Fourier features, made of "
            f"{', '.join(leaf.__name__ for leaf in LEAVES)}, got {unknown[0]!r}"
        )


_UNKNOWN: Fold[None, list[Kernel]] = Fold(
    lambda kernel, at: [] if kernel.formula_class in LEAVES else [kernel], operator.add, operator.add
)
Terms = list[tuple[int, ...]]


def products(kernel: Kernel) -> Terms:
    """The terms of ``kernel``, multiplied out: the numbers of their leaves.

    >>> products((SquaredExponential() + Constant()) * Periodic())
    [(0, 2), (1, 2)]
    """
    return kernel.fold(_TERMS, None)


def _further(first: Terms, second: Terms) -> Terms:
    """``second`` with the numbers that follow those of ``first``."""
    used = max(map(max, first)) + 1
    return [tuple(used + number for number in numbers) for numbers in second]


_TERMS: Fold[None, Terms] = Fold(
    lambda kernel, at: [(0,)],
    lambda first, second: first + _further(first, second),
    lambda first, second: [a + b for a in first for b in _further(first, second)],
)


@dataclass(frozen=True, eq=False)
class MixedMap(KernelMap):
    """Cosines and sines of the frequencies of all terms: rank 2m.

    Random frequencies are drawn once, equally many for each term.  A term that is periodic alone has the lines of
    largest weight at the start, so that K − ΞΞᵀ is positive semi-definite; a constant has one frequency, 0.

    Attributes
    ----------
    kernel : Kernel
    dim : int
        D.
    terms : tuple of Term

    >>> from gpbounds.kernels import Periodic, RationalQuadratic
    >>> X = np.array([[0.0], [0.3]])
    >>> kernel = Periodic(1.0, 2.0) + RationalQuadratic(0.7)
    >>> features = MixedMap.drawn(kernel, 20_000, X, rng=0)
    >>> Xi = features(kernel.log_parameters, X)
    >>> bool((abs(Xi @ Xi.T - kernel(X)) < 0.02).all())
    True
    """

    kernel: Kernel
    dim: int
    terms: tuple[Term, ...]

    @classmethod
    def drawn(cls, kernel: Kernel, rank: int, X: Array, rng: int | np.random.Generator) -> MixedMap:
        """rank/2 frequencies, of all terms together.

        Raises
        ------
        ValueError
            for an odd rank, one that leaves a term without a frequency, or a kernel that is no function of x − x'.
        """
        dim, random = int(X.shape[1]), np.random.default_rng(rng)
        leaves, terms = _leaves_of(kernel, dim), products(kernel)
        single = [all(leaves[i].kernel.formula_class is Constant for i in numbers) for numbers in terms]
        m, others = rank // 2 - sum(single), len(terms) - sum(single)
        if rank % 2 or m < others:
            raise ValueError(
                f"rank: expected an even number >= {2 * len(terms)}, a cosine and a sine for each of the "
                f"{len(terms)} terms of the kernel, got {rank}"
            )
        made, share = [], 0
        for numbers, alone in zip(terms, single, strict=True):
            count = 1 if alone else m // others + (share < m % others)
            share += not alone
            made.append(_drawn([leaves[i] for i in numbers], numbers, count, random))
        return cls(kernel, dim, tuple(made))

    @property
    def rank(self) -> int:
        return 2 * sum(term.m for term in self.terms)

    def at(self, parameters: Float) -> _MixedAt:
        return _MixedAt(self, self.kernel_at(parameters))

    @property
    def line_spectrum(self) -> bool:
        """Whether all frequencies are lines of a spectrum, none random: K − ΞΞᵀ is then positive semi-definite."""
        return all(term.shift == 0.0 for term in self.terms)


def _drawn(leaves: list[Leaf], numbers: tuple[int, ...], m: int, rng: np.random.Generator) -> Term:
    varying = [leaf for leaf in leaves if leaf.kernel.formula_class is not Constant]
    if not varying or (len(varying) == 1 and varying[0].kernel.formula_class is Periodic):
        draws: list[Draw] = []
        for leaf in leaves:
            periodic = leaf.kernel.formula_class is Periodic
            draws.append(largest_lines(leaf.kernel, m, len(leaf.columns)) if periodic else Zero(m))
        return Term(numbers, tuple(draws), m, 0.0)
    random = tuple(drawn(leaf.kernel, m, len(leaf.columns), rng) for leaf in leaves)
    return Term(numbers, random, m, -math.log(m))


@dataclass(frozen=True, eq=False)
class _MixedAt(KernelFeaturesAt):
    """The features at one kernel."""

    map: MixedMap
    kernel: Kernel

    @cached_property
    def _joined(self) -> tuple[Float, Float, Float]:
        """Ω (m, D), log w (m,), J (p, m, D + 1)."""
        D, size = self.map.dim, self.map.size
        leaves = _leaves_of(self.kernel, D)
        frequencies, logs, slopes = [], [], []
        for term in self.map.terms:
            lines = [draw.at(leaves[i].kernel) for i, draw in zip(term.leaves, term.draws, strict=True)]
            omega, weight, J = np.zeros((term.m, D)), np.full(term.m, term.shift), np.zeros((size, term.m, D + 1))
            for i, own in zip(term.leaves, lines, strict=True):
                leaf, p = leaves[i], len(own.in_logs)
                rows, columns = slice(leaf.place, leaf.place + p), list(leaf.columns)
                if own.frequencies.shape[1]:
                    omega[:, columns] += own.frequencies
                    J[rows, :, columns] += own.in_frequencies
                weight = weight + own.logs
                J[rows, :, D] += 0.5 * own.in_logs
            frequencies.append(omega)
            logs.append(weight)
            slopes.append(J)
        return np.concatenate(frequencies), np.concatenate(logs), np.concatenate(slopes, axis=1)

    @property
    def rank(self) -> int:
        return self.map.rank

    @property
    def frequencies(self) -> Float:
        """Ω (m, D), in radians per unit of x."""
        return self._joined[0]

    @cached_property
    def amplitudes(self) -> Float:
        """√w (m,)."""
        return np.exp(0.5 * self._joined[1])

    @cached_property
    def on_device(self) -> FourierOnDevice:
        return MixedOnDevice(self.frequencies, self.amplitudes, self._joined[2])

    @property
    def each(self) -> bool:
        return True

    def fill(self, X: Array, K: Array, V: Array) -> None:
        if namespace(X) is not np:
            self.on_device.fill(X, V)
            return
        cosines_and_sines(X, self.frequencies, self.amplitudes, V)

    def pull_inputs(self, X: Array, V: Array, cotangent: Array) -> tuple[Float, Array]:
        turned, logs = self._turned(V, cotangent)
        return self._pulled(X, turned, logs), turned @ namespace(X).asarray(-self.frequencies)

    def pull(self, X: Array, K: Array, V: Array, cotangent: Array) -> Float:
        return self._pulled(X, *self._turned(V, cotangent))

    def _pulled(self, X: Array, turned: Array, logs: Array) -> Float:
        """θ̄ from G and the derivatives in ½log w."""
        both = np.concatenate([host(-(turned.T @ X)), host(logs)[:, None]], axis=1)
        return np.tensordot(self._joined[2], both, axes=2)

    def _turned(self, V: Array, cotangent: Array) -> tuple[Array, Array]:
        """G, which overwrites the first half of the cotangent, and the derivatives in ½log w."""
        m = V.shape[1] // 2
        logs = namespace(V).einsum("ij,ij->j", cotangent, V)
        turned, sines = cotangent[:, :m], cotangent[:, m:]
        turned *= V[:, m:]
        sines *= V[:, :m]
        turned -= sines
        return turned, logs[:m] + logs[m:]
