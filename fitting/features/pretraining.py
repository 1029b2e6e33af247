"""Least squares for a network: the start of its weights before the features of its outputs are trained.

The network gets one more linear layer, from z to the targets, and minimises ½|y − ŷ|² by Adam on mini-batches.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fitting.features.network import Network
from fitting.starts.starts import units
from fitting.training.adam import Steps
from gpbounds.arrays import Array, Float, host, namespace
from gpbounds.linalg.parallel import one_blas_thread


@dataclass(frozen=True, eq=False)
class Regressor:
    """A network with its linear layer: ŷ = zA + a.

    Attributes
    ----------
    network : Network
    weights : array
        Those of the network.
    matrix : array (d, P)
        A.
    offset : array (P,)
        a.
    """

    network: Network
    weights: Float
    matrix: Float
    offset: Float

    def predict(self, X: Array) -> Array:
        """ŷ (n, P)."""
        xp = namespace(X)
        return self.network.project(self.weights, X) @ xp.asarray(self.matrix) + xp.asarray(self.offset)


def least_squares(
    network: Network,
    X: Array,
    Y: Array,
    rng: np.random.Generator,
    *,
    epochs: int,
    batch_size: int = 1000,
    learning_rate: float = 1e-3,
) -> Regressor:
    """The network after ``epochs`` passes of Adam over the rows, from `Network.start`.

    Parameters
    ----------
    network : Network
    X : array (N, D), NumPy or CuPy
    Y : array (N, P)
    rng : numpy.random.Generator
        Draws the start and the order of the rows.
    epochs : int
        0 returns the start.
    batch_size : int
    learning_rate : float

    >>> X = np.linspace(-2.0, 2.0, 200)[:, None]
    >>> fit = least_squares(Network((1, 16, 1)), X, np.sin(2.0 * X), np.random.default_rng(0), epochs=300,
    ...                     batch_size=50, learning_rate=0.01)
    >>> bool(np.abs(fit.predict(X) - np.sin(2.0 * X)).max() < 0.1)
    True
    """
    xp, N, P = namespace(X), int(X.shape[0]), int(Y.shape[1])
    mean, stds = host(Y.mean(axis=0)), units(host(Y))
    targets = (Y - xp.asarray(mean)) / xp.asarray(stds)
    first = network.start(X, rng)
    head = Network((network.dim, P)).start(X, rng)
    steps = Steps(np.concatenate([first, head]), [(-np.inf, np.inf)] * (first.size + head.size), learning_rate)
    with one_blas_thread():
        for _ in range(epochs):
            for rows in np.array_split(rng.permutation(N), max(1, round(N / batch_size))):
                chosen = xp.asarray(np.sort(rows))
                steps.take(_slopes(network, steps.x, X[chosen], targets[chosen]))
    weights, head = np.split(steps.x, [network.size])
    A, a = _linear(head, P)
    return Regressor(network, weights, A * stds, a * stds + mean)


def _linear(head: Float, P: int) -> tuple[Float, Float]:
    """A (d, P) and a (P,)."""
    return head[:-P].reshape(-1, P), head[-P:]


def _slopes(network: Network, vector: Float, X: Array, Y: Array) -> Float:
    """Derivatives of the mean of ½|y − ŷ|² in the weights, A and a."""
    xp = namespace(X)
    weights, head = np.split(vector, [network.size])
    A, a = (xp.asarray(part) for part in _linear(head, int(Y.shape[1])))
    z, pull = network.vjp(weights, X)
    error = (z @ A + a - Y) / X.shape[0]
    return np.concatenate([pull(error @ A.T), host(z.T @ error).ravel(), host(error.sum(axis=0))])
