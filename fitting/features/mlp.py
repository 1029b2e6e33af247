"""A deep kernel: features of the outputs of a network, all trained together."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fitting.features.base import FeatureMap
from fitting.features.choices import FeatureChoice, KernelChoice
from fitting.features.network import ACTIVATIONS, Network, StandardisedNetwork
from fitting.features.objects import Scaled
from fitting.features.pretraining import Regressor, least_squares
from fitting.starts.starts import units
from gpbounds.arrays import Array, host
from gpbounds.errors import shown
from gpbounds.validation import choice, count, positive, scalar

STANDARDISED = ("start", "always")


@dataclass(eq=False, repr=False)
class MLP(FeatureChoice):
    """Features φ(z) of z = g(x), g a fully connected network from D inputs through ``hidden`` layers to d outputs.

    Daskalakis et al., supplement: with ``then=Mercer(15)`` and d = 1 the model is DMGP, with ``then=Fourier(40)`` and
    d = 4 DFGP.  Before the features are trained, the network is fitted by least squares, and z is shifted and scaled to
    mean 0 and variance 1 over the rows.

    Parameters
    ----------
    hidden : tuple of int
        Sizes of the hidden layers.
    d : int
        Number of outputs.
    activation : "tanh" or "relu"
        Of the hidden layers.
    then : Fourier, Mercer or Hilbert, optional
        φ; Hilbert is one of z squashed into its box.  None: the features are z itself.
    pretraining : int
        Number of passes of Adam over the rows for the least squares; 0 starts at random weights.
    batch_size, learning_rate : int, float
        Of the least squares.
    standardise : "start" or "always"
        "start": shift and scale are constants, those after the least squares.  "always", as in the paper, with φ: they
        follow the weights, so that z has mean 0 and variance 1 over the rows of every evaluation, and derivatives pass
        through both.  In mini-batches these rows are those of the batch: features of a row then depend on its batch,
        and the ELBO of a batch is no unbiased estimate of that of all rows.  The trained model has the moments of all
        rows at its weights, as constants; rows in partitions are standardised by those from which training starts.

    >>> X = np.linspace(-1.0, 1.0, 8)[:, None]
    >>> features = MLP((5,), d=2).prepare(X, np.sin(X), np.random.default_rng(0))
    >>> features.rank, features.size  # log variance, 1·5 + 5, 5·2 + 2
    (2, 23)
    """

    hidden: tuple[int, ...] = (512, 256, 64)
    d: int = 4
    activation: str = "tanh"
    then: KernelChoice | None = None
    pretraining: int = 5
    batch_size: int = 1000
    learning_rate: float = 1e-3
    standardise: str = "start"

    def check(self) -> None:
        if not isinstance(self.hidden, tuple | list):
            raise ValueError(
                f"hidden: expected the sizes of the hidden layers, such as (64, 32), got {shown(self.hidden)}"
            )
        for i, size in enumerate(self.hidden):
            count(f"hidden[{i}]", size)
        count("d", self.d)
        choice("activation", self.activation, tuple(ACTIVATIONS))
        count("pretraining", self.pretraining, 0)
        count("batch_size", self.batch_size)
        scalar(positive, "learning_rate", self.learning_rate)
        choice("standardise", self.standardise, STANDARDISED)
        if self.then is None:
            if self.standardise != STANDARDISED[0]:
                raise ValueError(f"standardise: expected 'start' without features of z, got {self.standardise!r}")
            return
        if not isinstance(self.then, KernelChoice):
            raise ValueError(f"then: expected Fourier(...), Mercer(...), Hilbert(...) or None, got {shown(self.then)}")
        self.then.check()

    def regressor(self, X: Array, Y: Array, rng: np.random.Generator) -> Regressor:
        """The network after the least squares, with its last linear layer."""
        self.check()
        network = Network((int(X.shape[1]), *self.hidden, self.d), self.activation)
        how: dict[str, Any] = {"batch_size": self.batch_size, "learning_rate": self.learning_rate}
        return least_squares(network, X, Y, rng, epochs=self.pretraining, **how)

    def prepare(self, X: Array, Y: Array, rng: np.random.Generator) -> FeatureMap:
        return self.after(self.regressor(X, Y, rng), X, Y, rng)

    def after(self, start: Regressor, X: Array, Y: Array, rng: np.random.Generator) -> FeatureMap:
        """The features with the network of ``start``."""
        if self.then is not None and self.standardise == "always":
            return self.then.after(StandardisedNetwork(start.network, X), start.weights, X, Y, rng)
        z = host(start.network.project(start.weights, X))
        network = replace(start.network, shift=z.mean(axis=0), scale=units(z))
        if self.then is None:
            return Scaled(network, start.weights)
        return self.then.after(network, start.weights, X, Y, rng)
