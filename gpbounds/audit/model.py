"""The model that is audited, of Gaussian noise or of labels or counts, with the rows that it was trained on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from gpbounds.arrays import Float, as_host_points
from gpbounds.divergences import SparsePosterior, collapsed_posterior
from gpbounds.divergences.sparse import as_sparse
from gpbounds.errors import shown
from gpbounds.exact import Exact, exact
from gpbounds.kernels import Kernel
from gpbounds.kernels.base import as_kernel
from gpbounds.likelihoods import Likelihood, StudentT
from gpbounds.likelihoods.base import as_likelihood
from gpbounds.once import cached_property
from gpbounds.row_noise import one_for_all
from gpbounds.validation import finite, names_of
from gpbounds.whitening import as_targets

NOT_CONCAVE = (
    "the logarithm of a Student-t density is not concave in f, on which the bound (N-fisher) rests; what holds for it "
    "is ELBO ≤ log p(y), so that a larger ELBO proves a smaller divergence"
)

_SCORED = (
    "an audit scores predictions of new rows, whose noise is not known; gpbounds.renyi.gap and evidence, and "
    "gpbounds.iterative.exact_predictions take the noise of each row"
)


class ModelOfRows:
    """A model with its training rows X (N, D)."""

    X: Float

    @property
    def N(self) -> int:
        """Number of training rows."""
        return int(self.X.shape[0])

    @property
    def D(self) -> int:
        """Number of inputs."""
        return int(self.X.shape[1])


@dataclass(frozen=True, eq=False)
class Subject(ModelOfRows):
    """A sparse Gaussian process and its training rows; `subject` checks the arguments.

    Attributes
    ----------
    kernel : Kernel
    noise : float
        σ², in squared units of y.
    X : array (N, D)
    y : array (N,)
    Z : array (M, D) or None
        Inducing inputs; None for a model without them.
    columns : tuple of str
        Names of the D inputs.
    posterior : SparsePosterior or None
        The model's own posterior, if it is not the best one with its inducing points.
    """

    kernel: Kernel
    noise: float
    X: Float
    y: Float
    Z: Float | None
    columns: tuple[str, ...]
    posterior: SparsePosterior | None = None

    @property
    def M(self) -> int | None:
        """Number of inducing points."""
        return None if self.Z is None else int(self.Z.shape[0])

    @cached_property
    def exact(self) -> Exact:
        """The exact Gaussian process with this kernel and noise: O(N³) time."""
        return exact(self.kernel, self.X, self.y[:, None], noise=self.noise)

    @property
    def law(self) -> SparsePosterior:
        """The model's posterior: its own, or the best one with its inducing points.

        Raises
        ------
        ValueError
            if the model has no inducing points.
        """
        if self.posterior is not None:
            return self.posterior
        if self.Z is None:
            raise ValueError("Z: expected inducing points, got a model without any")
        return self.best(self.Z)

    def best(self, Z: Float) -> SparsePosterior:
        """q*, the sparse posterior with inducing inputs Z that is closest to the exact one (Titsias)."""
        return collapsed_posterior(self.kernel, self.X, self.y, Z, noise=self.noise, power=0.0)


@dataclass(frozen=True, eq=False)
class LatentSubject(ModelOfRows):
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
    def M(self) -> int:
        """Number of inducing points."""
        return int(self.Z.shape[0])

    def owning(self, posterior: SparsePosterior) -> LatentSubject:
        """The same model with this posterior for its own."""
        return replace(self, posterior=posterior)


def subject(
    kernel: Kernel,
    X: ArrayLike,
    y: ArrayLike,
    Z: ArrayLike | None = None,
    *,
    noise: float,
    columns: Sequence[str] | None = None,
    posterior: SparsePosterior | None = None,
) -> Subject:
    """A `Subject` from arrays.

    Parameters
    ----------
    kernel : Kernel
    X : array (N, D)
        Training inputs.
    y : array (N,)
        Targets as the model was trained on them, with a prior mean of 0.
    Z : array (M, D), optional
        Inducing inputs; None for an exact model.
    noise : float
        σ², in squared units of y.
    columns : sequence of str, optional
        Names of the inputs, by default x1, x2, …
    posterior : SparsePosterior, optional
        The model's own posterior with inducing inputs Z; by default the best one (Titsias).

    Raises
    ------
    ValueError, NonFinite
        for shapes that do not match, NaN or infinity.

    >>> from gpbounds.kernels import SquaredExponential
    >>> subject(SquaredExponential(), [0.0, 1.0, 2.0], [1.0, 0.5, -0.5], [0.0, 2.0], noise=0.1).columns
    ('x1',)
    """
    as_kernel(kernel)
    points = as_host_points(X, "X").astype(np.float64, copy=False)
    targets = as_targets(y, points)
    if targets.ndim != 1:
        raise ValueError(f"y: expected one target for each row, shape ({len(points)},), got {targets.shape}")
    D = points.shape[1]
    lengthscale = getattr(kernel, "lengthscale", 1.0)
    if np.ndim(lengthscale) and np.size(lengthscale) != D:
        raise ValueError(f"kernel: expected {D} lengthscales for {D} inputs, got {np.size(lengthscale)}")
    centres = None if Z is None else _centres(Z, D)
    names = _columns(columns, D)
    _with_points(posterior, centres)
    return Subject(kernel, one_for_all(noise, _SCORED), points, targets, centres, names, posterior)


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
    as_likelihood(likelihood)
    if isinstance(likelihood, StudentT):
        raise ValueError(f"likelihood: expected a log-concave one, got {shown(likelihood)}: {NOT_CONCAVE}")
    points = as_host_points(X, "X").astype(np.float64, copy=False)
    N, D = points.shape
    centres = _centres(Z, D)
    targets = finite("y", y)
    if targets.shape != (N,):
        raise ValueError(f"y: expected one target for each row, shape ({N},), got {targets.shape}")
    likelihood.log_density(targets, 0.0)  # a likelihood may refuse targets
    means = finite("offset", offset)
    if means.shape not in ((), (N,)):
        raise ValueError(f"offset: expected a number or one for each row, shape ({N},), got {means.shape}")
    names = _columns(columns, D)
    _with_points(posterior, centres)
    known = likelihood._targets(np.asarray(targets, dtype=np.float64))
    return LatentSubject(
        kernel, likelihood, points, known, centres, posterior, np.broadcast_to(means, (N,)).astype(np.float64), names
    )


def _centres(Z: ArrayLike, D: int) -> Float:
    """The inducing points, of as many inputs as the rows have."""
    centres = as_host_points(Z, "Z").astype(np.float64, copy=False)
    if centres.shape[1] != D:
        raise ValueError(f"Z: expected inducing points of {D} inputs, as the rows have, got {centres.shape[1]}")
    return centres


def _columns(columns: Sequence[str] | None, D: int) -> tuple[str, ...]:
    """The names of the D inputs."""
    names = tuple(f"x{j + 1}" for j in range(D)) if columns is None else names_of(columns)
    if len(names) != D:
        raise ValueError(f"columns: expected {D} names, one for each input, got {len(names)}")
    return names


def _with_points(posterior: SparsePosterior | None, centres: Float | None) -> None:
    """Refuse a posterior with other inducing points than the model's."""
    if posterior is not None and (centres is None or not np.array_equal(as_sparse(posterior).inducing.Z, centres)):
        raise ValueError("posterior: expected one with the inducing points Z, got one with others")
