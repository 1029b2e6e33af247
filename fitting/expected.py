"""Expected losses of Gaussian predictions: a protocol that bounded losses and likelihoods share."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from gpbounds.arrays import Array, Float
from gpbounds.losses import Loss


class Expected(NamedTuple):
    """A sum of expected losses over some rows, and its derivatives.

    Attributes
    ----------
    total : number
    in_mean : array (n, P)
        Derivatives in the means.
    in_variance : array (n,)
        Derivatives in the variances, which the outputs share.
    in_parameters : array (q,)
        Derivatives in the logarithms of the parameters of the loss; empty if it has none.
    """

    total: Array | float
    in_mean: Array
    in_variance: Array
    in_parameters: Float = np.zeros(0)


ExpectedLoss = Callable[[Array, Array, Array], Expected]
"""(targets (n, P), means (n, P), latent variances (n,)) ↦ Σ E ℓ(y, f), f ~ N(m, v); threads call it concurrently."""


def of_loss(loss: Loss) -> ExpectedLoss:
    """The expected losses of a bounded loss, for one output.

    >>> from gpbounds.losses import Squared
    >>> result = of_loss(Squared(1.0))(np.array([[0.5]]), np.array([[0.0]]), np.array([0.1]))
    >>> round(float(result.total), 4), result.in_mean.shape
    (0.3328, (1, 1))
    """

    def expected(Y: Array, means: Array, variances: Array) -> Expected:
        arguments = Y[:, 0], means[:, 0], variances
        values, in_mean, in_variance = loss.expectation(*arguments, gradient=True)
        return Expected(values.sum(), in_mean[:, None], in_variance)

    return expected
