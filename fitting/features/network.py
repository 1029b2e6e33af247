"""Fully connected networks z = g(x) with hand-written back-propagation.

With h_0 = x, the layers are h_k = a(h_{k−1}W_k + b_k) and g = h_{L−1}W_L + b_L, where a is tanh or max(0, ·), and

    z = (g − shift)/scale,     with constants shift and scale.

With ā_L = z̄/scale, and a' the slope of a, which is a function of a's value,

    W̄_k = h_{k−1}ᵀā_k,    b̄_k = Σ_i ā_ki,    ā_{k−1} = (ā_kW_kᵀ)∘a'(h_{k−1}).

A CPU computes these for `ROWS` rows at a time, so that the cotangents of all layers stay in its cache.

The weights are one vector: W_1 row by row, b_1, W_2, b_2, …

Instead of constants, `StandardisedNetwork` has mean and standard deviation of g over n rows at the current weights.
The cotangents z̄ of any rows then belong to cotangents of g, at these rows and at row j of the n:

    ḡ = z̄/scale,      ḡ_j = −(Σz̄ + z_j∘Σ z̄∘z)/(n·scale).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from fitting.features.transform import Transform, TransformAt
from fitting.starts.starts import units
from gpbounds.arrays import Array, Float, host, namespace, place
from gpbounds.linalg.products import add_product, product
from gpbounds.linalg.workspace import Spares
from gpbounds.once import cached_property
from gpbounds.whitening import slices

BLOCK = 2**15
"""Numbers that are processed at a time where several operations follow each other, so that they stay in the cache."""

ROWS = 256
"""Rows that are pulled back at a time on a CPU."""

PIECE = 1024
"""Rows whose moments `StandardisedNetwork` takes at a time."""


def _tanh(h: Array) -> None:
    namespace(h).tanh(h, out=h)


def _tanh_slope(h: Array, bar: Array, work: Array) -> None:
    xp = namespace(h)
    xp.multiply(h, h, out=work)
    xp.subtract(1.0, work, out=work)
    bar *= work


def _relu(h: Array) -> None:
    namespace(h).maximum(h, 0.0, out=h)


def _relu_slope(h: Array, bar: Array, work: Array) -> None:
    bar *= h > 0.0


ACTIVATIONS: dict[str, tuple[Callable[[Array], None], Callable[[Array, Array, Array], None]]] = {
    "tanh": (_tanh, _tanh_slope),
    "relu": (_relu, _relu_slope),
}
"""Name: the function that replaces h by a(h), and the one that multiplies a cotangent by a', from (a(h), cotangent,
work), whose ``work`` it overwrites."""


class _Layer(NamedTuple):
    """W (n_in, n_out), b (n_out,), and the columns of the layer's values among those of all layers."""

    W: Array
    b: Array
    columns: slice


@dataclass(frozen=True, eq=False)
class Network(Transform):
    """z = g(x); it is also a `FeatureMap`, with z as features.

    Attributes
    ----------
    sizes : tuple of int
        D, the sizes of the hidden layers, d.
    activation : "tanh" or "relu"
    shift, scale : arrays (d,)

    >>> network = Network((2, 3, 1))
    >>> network.size, network.project(np.zeros(network.size), np.ones((4, 2))).ravel().tolist()
    (13, [0.0, 0.0, 0.0, 0.0])
    """

    sizes: tuple[int, ...]
    activation: str = "tanh"
    shift: Float = field(default_factory=lambda: np.zeros(1))
    scale: Float = field(default_factory=lambda: np.ones(1))

    @property
    def dim(self) -> int:  # type: ignore[override]
        """d."""
        return self.sizes[-1]

    @property
    def rank(self) -> int:
        """d."""
        return self.dim

    @cached_property
    def size(self) -> int:
        return sum((n + 1) * m for n, m in pairwise(self.sizes))

    @cached_property
    def spares(self) -> Spares:
        """Memory of the pull-back, which calls reuse."""
        return Spares()

    def layers(self, weights: Array) -> list[_Layer]:
        """The layers, as views of the weights."""
        return list(self._layers(weights))

    def _layers(self, weights: Array) -> Iterator[_Layer]:
        at = column = 0
        for n, m in pairwise(self.sizes):
            W, b = weights[at : at + n * m].reshape(n, m), weights[at + n * m : at + (n + 1) * m]
            yield _Layer(W, b, slice(column, column + m))
            at, column = at + (n + 1) * m, column + m

    def start(self, X: Array, rng: np.random.Generator) -> Float:
        """Weights by Glorot and Bengio: uniform with variance 2/(n_in + n_out); b = 0."""
        weights = np.zeros(self.size)
        for W, _, _ in self._layers(weights):
            W[...] = math.sqrt(6.0 / sum(W.shape)) * rng.uniform(-1.0, 1.0, W.shape)
        return weights

    def at(self, weights: Float) -> _NetworkAt:
        return _NetworkAt(self, weights)

    def __call__(self, parameters: Float, X: Array) -> Array:
        return self.project(parameters, X)

    def vjp(self, parameters: Float, X: Array) -> tuple[Array, Callable[[Array], Float]]:
        """z, and the function from its cotangent to derivatives in the weights."""
        g = self.at(parameters)
        K = namespace(X).empty((X.shape[0], g.width))
        g.fill(X, K)
        return K[:, -self.dim :], lambda cotangent: g.pull(X, K, cotangent)

    def centred(self, weights: Float, X: Array) -> tuple[Network, Array]:
        """The network whose z has mean 0 and variance 1 over the rows X at these weights, and their z (n, d).

        An output that is constant over the rows is not scaled.
        """
        xp = namespace(X)
        plain = replace(self, shift=np.zeros(self.dim), scale=np.ones(self.dim))
        z = xp.concatenate([plain.project(weights, X[rows]) for rows in slices(X.shape[0], PIECE)])
        there = host(z)
        network = replace(plain, shift=there.mean(axis=0), scale=units(there))
        z -= xp.asarray(network.shift)
        z /= xp.asarray(network.scale)
        return network, z


@dataclass(frozen=True, eq=False)
class _NetworkAt(TransformAt):
    """The network at given weights."""

    map: Network
    weights: Float

    @property
    def size(self) -> int:
        return self.map.size

    @property
    def width(self) -> int:
        return sum(self.map.sizes[1:])

    def fill(self, X: Array, K: Array) -> None:
        xp, (activate, _) = namespace(X), ACTIVATIONS[self.map.activation]
        layers, h = self.map.layers(place(self.weights, xp)), X
        for W, b, columns in layers:
            h = product(h, W, K[:, columns])
            for rows in _blocks(h):
                h[rows] += b
                if columns.stop < self.width:
                    activate(h[rows])
        h -= xp.asarray(self.map.shift)
        h /= xp.asarray(self.map.scale)

    def add(self, X: Array, K: Array, cotangent: Array, out: Float) -> None:
        xp, n = namespace(X), int(X.shape[0])
        step = min(n, ROWS) if xp is np else n
        pulled = out if xp is np else xp.zeros(self.map.size)
        layers, sums = self.map.layers(place(self.weights, xp)), self.map.layers(pulled)
        cotangent = cotangent / xp.asarray(self.map.scale)
        with self.map.spares.lent(step * (self.width - self.map.dim) + max(BLOCK, step), xp) as memory:
            for at in range(0, n, step):
                rows = slice(at, min(at + step, n))
                self._add(layers, sums, X[rows], K[rows], cotangent[rows], memory)
        if xp is not np:
            out += host(pulled)

    def _add(self, layers: list[_Layer], sums: list[_Layer], X: Array, K: Array, bar: Array, memory: Array) -> None:
        """Add the derivatives of some rows to ``sums``; overwrites ``memory``."""
        slope = ACTIVATIONS[self.map.activation][1]
        for k in range(len(layers) - 1, -1, -1):
            h = X if k == 0 else K[:, layers[k - 1].columns]
            add_product(h.T, bar, sums[k].W)
            sums[k].b[...] += bar.sum(axis=0)
            if k > 0:
                part, memory = memory[: h.size], memory[h.size :]
                bar = product(bar, layers[k].W.T, part.reshape(h.shape))
                for rows in _blocks(h):
                    part_of_bar = bar[rows]
                    slope(h[rows], part_of_bar, memory[: part_of_bar.size].reshape(part_of_bar.shape))


@dataclass(frozen=True, eq=False)
class StandardisedNetwork(Transform):
    """z = (g(x) − m)/s, m and s the mean and the standard deviation of g over ``rows`` at the current weights.

    z of a row depends on the weights and on ``rows``, not on the other rows of a pass.

    Attributes
    ----------
    network : Network
        g; its own constants do not count.
    rows : array (n, D)

    >>> rows = np.array([[0.0], [1.0], [2.0]])
    >>> z = StandardisedNetwork(Network((1, 1)), rows).project(np.array([3.0, 5.0]), rows)  # g = 3x + 5
    >>> z.ravel().round(4).tolist()
    [-1.2247, 0.0, 1.2247]
    """

    network: Network
    rows: Array

    @property
    def dim(self) -> int:  # type: ignore[override]
        """d."""
        return self.network.dim

    @property
    def size(self) -> int:
        return self.network.size

    def at(self, weights: Float) -> _StandardisedNetworkAt:
        network, z = self.network.centred(weights, self.rows)
        return _StandardisedNetworkAt(network.at(weights), self.rows, z)

    def over(self, X: Array) -> StandardisedNetwork:
        return replace(self, rows=X)

    def held(self, weights: Float) -> Network:
        return self.network.centred(weights, self.rows)[0]


@dataclass(frozen=True, eq=False)
class _StandardisedNetworkAt(TransformAt):
    """The network at given weights with the moments of ``rows``, and z of these; it also sums z̄ and z̄∘z."""

    inner: _NetworkAt
    rows: Array
    z: Array

    @property
    def size(self) -> int:
        return self.inner.size

    @property
    def width(self) -> int:
        return self.inner.width

    @property
    def more(self) -> int:
        return 2 * self.inner.map.dim

    def fill(self, X: Array, K: Array) -> None:
        self.inner.fill(X, K)

    def add(self, X: Array, K: Array, cotangent: Array, out: Float) -> None:
        d = self.inner.map.dim
        out[self.size : self.size + d] += host(cotangent.sum(axis=0))
        out[self.size + d :] += host((cotangent * K[:, -d:]).sum(axis=0))
        self.inner.add(X, K, cotangent, out[: self.size])

    def finish(self, out: Float) -> Float:
        derivatives, sums = out[: self.size], out[self.size :].reshape(2, -1)
        xp, n = namespace(self.rows), int(self.rows.shape[0])
        first, second = (xp.asarray(-each / n) for each in sums)
        for rows in slices(n, PIECE):
            K = xp.empty((rows.stop - rows.start, self.width))
            self.inner.fill(self.rows[rows], K)
            self.inner.add(self.rows[rows], K, first + second * self.z[rows], derivatives)
        return derivatives


def _blocks(h: Array) -> list[slice]:
    """The rows of an array in blocks that fit the cache; all of them on a device."""
    n, m = h.shape
    step = max(1, BLOCK // m) if namespace(h) is np else n
    return [slice(at, at + step) for at in range(0, n, step)]
