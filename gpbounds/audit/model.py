"""The model that is audited, with the rows that it was trained on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from gpbounds.arrays import Float, as_host_points
from gpbounds.divergences import SparsePosterior, collapsed_posterior
from gpbounds.exact import Exact, exact
from gpbounds.kernels import Kernel
from gpbounds.kernels.base import as_kernel
from gpbounds.validation import noise_variance
from gpbounds.whitening import as_targets


@dataclass(frozen=True, eq=False)
class Subject:
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
    def N(self) -> int:
        """Number of training rows."""
        return int(self.X.shape[0])

    @property
    def D(self) -> int:
        """Number of inputs."""
        return int(self.X.shape[1])

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
    centres = None
    if Z is not None:
        centres = as_host_points(Z, "Z").astype(np.float64, copy=False)
        if centres.shape[1] != D:
            raise ValueError(f"Z: expected inducing points of {D} inputs, as the rows have, got {centres.shape[1]}")
    names = tuple(f"x{j + 1}" for j in range(D)) if columns is None else tuple(map(str, columns))
    if len(names) != D:
        raise ValueError(f"columns: expected {D} names, one for each input, got {len(names)}")
    if posterior is not None and (centres is None or not np.array_equal(posterior.inducing.Z, centres)):
        raise ValueError("posterior: expected one with the inducing points Z, got one with others")
    return Subject(kernel, noise_variance(noise), points, targets, centres, names, posterior)
