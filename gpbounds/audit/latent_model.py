"""A model of labels or counts that is audited, with the rows that it was trained on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from gpbounds.arrays import Float, as_host_points
from gpbounds.divergences import SparsePosterior
from gpbounds.kernels import Kernel
from gpbounds.kernels.base import as_kernel
from gpbounds.likelihoods import Likelihood, StudentT
from gpbounds.validation import finite

NOT_CONCAVE = (
    "the logarithm of a Student-t density is not concave in f, on which the bound (N-fisher) rests; what holds for it "
    "is ELBO ≤ log p(y), so that a larger ELBO proves a smaller divergence"
)


@dataclass(frozen=True, eq=False)
class LatentSubject:
    """A sparse Gaussian process under a log-concave likelihood, and its training rows; `latent_subject` checks them.

    Attributes
    ----------
    kernel : Kernel
    likelihood : Likelihood
        p(y|f), log-concave in f.
    X : array (N, D)
    y : array (N,)
        Targets in the convention of the likelihood; labels are −1 and 1.
    posterior : SparsePosterior or None
        The model's own q, of f less the prior mean; None for the best one with Z.
    Z : array (M, D)
    offset : array (N,)
        The prior mean of f at the rows.
    columns : tuple of str
        Names of the D inputs.
    """

    kernel: Kernel
    likelihood: Likelihood
    X: Float
    y: Float
    Z: Float
    posterior: SparsePosterior | None
    offset: Float
    columns: tuple[str, ...]

    @property
    def N(self) -> int:
        """Number of training rows."""
        return int(self.X.shape[0])

    @property
    def D(self) -> int:
        """Number of inputs."""
        return int(self.X.shape[1])

    @property
    def M(self) -> int:
        """Number of inducing points."""
        return int(self.Z.shape[0])

    def owning(self, posterior: SparsePosterior) -> LatentSubject:
        """The same model with this posterior for its own."""
        return replace(self, posterior=posterior)


def latent_subject(
    kernel: Kernel,
    likelihood: Likelihood,
    X: ArrayLike,
    y: ArrayLike,
    Z: ArrayLike,
    *,
    posterior: SparsePosterior | None = None,
    offset: ArrayLike = 0.0,
    columns: Sequence[str] | None = None,
) -> LatentSubject:
    """A `LatentSubject` from arrays.

    Parameters
    ----------
    kernel : Kernel
    likelihood : Likelihood
        Log-concave in f: Bernoulli, Poisson or Gaussian.
    X : array (N, D)
    y : array (N,)
        Targets; labels 0 and 1, or −1 and 1.
    Z : array (M, D)
        Inducing inputs.
    posterior : SparsePosterior, optional
        The model's own q with inducing inputs Z, of f less its prior mean; by default the best one.
    offset : array (N,) or float
        The prior mean of f at the rows.
    columns : sequence of str, optional
        Names of the inputs, by default x1, x2, …

    Raises
    ------
    ValueError, NonFinite
        for a Student-t likelihood, targets that the likelihood does not admit, shapes that do not match, NaN or
        infinity.

    >>> from gpbounds.kernels import SquaredExponential
    >>> from gpbounds.likelihoods import Bernoulli
    >>> latent_subject(SquaredExponential(), Bernoulli(), [0.0, 1.0, 2.0], [1, 0, 1], [0.0, 2.0]).y
    array([ 1., -1.,  1.])
    """
    as_kernel(kernel)
    if isinstance(likelihood, StudentT):
        raise ValueError(f"likelihood: expected a log-concave one, got {likelihood!r}: {NOT_CONCAVE}")
    points = as_host_points(X, "X").astype(np.float64, copy=False)
    centres = as_host_points(Z, "Z").astype(np.float64, copy=False)
    N, D = points.shape
    if centres.shape[1] != D:
        raise ValueError(f"Z: expected inducing points of {D} inputs, as the rows have, got {centres.shape[1]}")
    targets = finite("y", y)
    if targets.shape != (N,):
        raise ValueError(f"y: expected one target for each row, shape ({N},), got {targets.shape}")
    likelihood.log_density(targets, 0.0)  # a likelihood may refuse targets
    means = finite("offset", offset)
    if means.shape not in ((), (N,)):
        raise ValueError(f"offset: expected a number or one for each row, shape ({N},), got {means.shape}")
    names = tuple(f"x{j + 1}" for j in range(D)) if columns is None else tuple(map(str, columns))
    if len(names) != D:
        raise ValueError(f"columns: expected {D} names, one for each input, got {len(names)}")
    if posterior is not None and not np.array_equal(posterior.inducing.Z, centres):
        raise ValueError("posterior: expected one with the inducing points Z, got one with others")
    known = likelihood._targets(np.asarray(targets, dtype=np.float64))
    return LatentSubject(
        kernel, likelihood, points, known, centres, posterior, np.broadcast_to(means, (N,)).astype(np.float64), names
    )
