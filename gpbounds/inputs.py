"""The law p(x) of the inputs: Gaussian with any covariance, uniform on a box, or the empirical law of data points."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike

from gpbounds.arrays import Array, Float, as_points
from gpbounds.errors import NotPositiveDefinite
from gpbounds.linalg import eigen
from gpbounds.validation import count, finite, positive


@dataclass(frozen=True, repr=False)
class Gaussian:
    """x ~ N(mean, cov), with independent columns (``std``) or any covariance (``cov``).

    The mean moves the draws; spectra and bounds for kernels of x − x' do not depend on it.

    Parameters
    ----------
    std : float or array of shape (dim,)
        Standard deviation, in the units of x: one number for all dimensions, or one for each.
    dim : int
        Number of dimensions; if ``std`` or ``mean`` is an array, its length; if ``cov`` is passed, its order.
    mean : float or array of shape (dim,)
        In the units of x.
    cov : array (dim, dim), optional
        Covariance, in squared units of x, in place of ``std``: symmetric to 1e-12 of the standard deviations (the mean
        of it and its transpose is taken) with a positive diagonal.  It may be singular: eigenvalues of the correlation
        matrix that rounding makes negative count as 0.

    Attributes
    ----------
    stds, means : array (dim,)
        Standard deviation and mean of each column.
    correlated : bool
        Whether ``cov`` has an entry other than 0 off the diagonal.  Otherwise ``cov`` is recorded as ``std``.
    slack : float
        How far the correlation matrix of the law may be from that of ``cov`` in the spectral norm: 0 for independent
        columns, and if ``cov`` is positive definite beyond rounding.

    Raises
    ------
    ValueError
        for numbers, shapes or lengths that do not fit together, or both ``std`` and ``cov``.
    NotPositiveDefinite
        for a ``cov`` with a negative eigenvalue.

    >>> Gaussian([1.0, 2.0]).dim
    2
    >>> law = Gaussian(mean=[1.0, 0.0], cov=[[4.0, 1.0], [1.0, 1.0]])
    >>> law.stds, law.correlated
    (array([2., 1.]), True)
    """

    std: ArrayLike = 1.0
    dim: int = 1
    mean: ArrayLike = 0.0
    cov: ArrayLike | None = None
    stds: Float = field(init=False, compare=False)
    means: Float = field(init=False, compare=False)
    slack: float = field(init=False, compare=False, default=0.0)
    _factor: Float | None = field(init=False, compare=False, default=None)

    def __post_init__(self) -> None:
        std, dim, mean = positive("std", self.std), count("dim", self.dim), finite("mean", self.mean)
        cov = None if self.cov is None else finite("cov", self.cov)
        if cov is not None:
            if std.ndim or std != 1.0:
                raise ValueError(f"std: expected none with cov, whose diagonal states the variances, got {self.std!r}")
            std = _standard_deviations(cov)
        size = None if dim == 1 else dim
        for name, values in (("std" if cov is None else "cov", std), ("mean", mean)):
            if values.ndim > 1 or values.size == 0 or (values.ndim == 1 and size not in (None, values.size)):
                shape = values.shape if cov is None or name == "mean" else cov.shape
                raise ValueError(f"{name}: expected a number or one per dimension ({size or dim}), got shape {shape}")
            size = values.size if values.ndim else size
        size = size or 1
        attributes = {
            "std": float(std) if std.ndim == 0 else tuple(std.tolist()),
            "dim": size,
            "mean": 0.0 if not mean.any() else float(mean) if mean.ndim == 0 else tuple(mean.tolist()),
            "cov": None,
            "stds": np.broadcast_to(std, (size,)),
            "means": np.broadcast_to(mean, (size,)),
        }
        for name, value in attributes.items():
            object.__setattr__(self, name, value)
        if cov is not None and (cov != np.diag(np.diag(cov))).any():
            self._decompose(0.5 * (cov + cov.T))

    def _decompose(self, cov: Float) -> None:
        """Set ``cov``, its factor A with AA' = cov, and ``slack``."""
        correlations = cov / np.outer(self.stds, self.stds)
        try:
            spectrum = eigen(correlations, "cov", vectors=True)
        except NotPositiveDefinite:
            least = float(np.linalg.eigvalsh(correlations)[0])
            raise NotPositiveDefinite(
                "cov: expected a covariance, which has no negative eigenvalue, got one whose correlation matrix has "
                f"the eigenvalue {least:.3g}"
            ) from None
        singular = not spectrum.values[-1] > spectrum.rounding
        object.__setattr__(self, "cov", tuple(map(tuple, cov.tolist())))
        object.__setattr__(self, "slack", 4.0 * spectrum.rounding if singular else 0.0)
        factor = self.stds[:, None] * (np.asarray(spectrum.vectors) * np.sqrt(spectrum.values))
        object.__setattr__(self, "_factor", factor)

    def __repr__(self) -> str:
        """An expression that makes the law; of a covariance of more than 3 columns only the order."""
        mean = "" if self.mean == 0.0 else f", mean={self.mean!r}"
        if self.cov is None:
            return f"Gaussian(std={self.std!r}, dim={self.dim}{mean})"
        short = f"cov={self.cov!r}" if self.dim <= 3 else f"cov of order {self.dim}"
        return f"Gaussian({short}{mean})"

    @property
    def correlated(self) -> bool:
        """Whether the columns depend on each other."""
        return self.cov is not None

    def sample(self, N: int, rng: np.random.Generator) -> Float:
        """``N`` independent draws, shape (N, dim)."""
        z = rng.standard_normal((N, self.dim))
        centred = z * self.stds if self._factor is None else z @ self._factor.T
        return centred + self.means


@dataclass(frozen=True)
class Uniform:
    """x uniform on the box [low, high].

    Parameters
    ----------
    low, high : float or array of shape (dim,)
        Ends of the box, in the units of x; low < high.

    >>> Uniform([0.0, 0.0], [1.0, 2.0]).widths
    array([1., 2.])
    """

    low: ArrayLike = 0.0
    high: ArrayLike = 1.0
    dim: int = field(init=False)
    widths: Float = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        low, high = finite("low", self.low), finite("high", self.high)
        try:
            low, high = np.broadcast_arrays(np.atleast_1d(low), np.atleast_1d(high))
        except ValueError:
            raise ValueError(f"low, high: expected matching shapes, got {low.shape} and {high.shape}") from None
        if low.ndim != 1 or low.size == 0 or not (low < high).all():
            raise ValueError(f"low, high: expected low < high in every dimension, got {self.low!r} and {self.high!r}")
        for name, end in (("low", low), ("high", high)):
            object.__setattr__(self, name, float(end[0]) if low.size == 1 else tuple(end.tolist()))
        object.__setattr__(self, "dim", low.size)
        object.__setattr__(self, "widths", high - low)

    def sample(self, N: int, rng: np.random.Generator) -> Float:
        """``N`` independent draws, shape (N, dim)."""
        return np.atleast_1d(finite("low", self.low)) + rng.random((N, self.dim)) * self.widths


@dataclass(frozen=True, eq=False)
class Empirical:
    """The data themselves: x is one of the N rows of ``X``, each with probability 1/N.

    Parameters
    ----------
    X : array (N, D), NumPy or CuPy

    >>> Empirical([[0.0], [1.0], [3.0]]).dim
    1
    """

    X: Array

    def __post_init__(self) -> None:
        object.__setattr__(self, "X", as_points(self.X))

    @property
    def dim(self) -> int:
        """Number of columns of X."""
        return int(self.X.shape[1])

    @property
    def N(self) -> int:
        """Number of rows of X."""
        return int(self.X.shape[0])

    def __repr__(self) -> str:
        return f"Empirical(X of shape {self.X.shape})"


def _standard_deviations(cov: Float) -> Float:
    """The roots of the diagonal of a square, symmetric ``cov``."""
    if cov.ndim != 2 or cov.shape[0] != cov.shape[1] or cov.size == 0:
        raise ValueError(f"cov: expected a square matrix, got shape {cov.shape}")
    variances = np.diag(cov)
    if not (variances > 0.0).all():
        j = int(np.argmin(variances > 0.0))
        raise ValueError(f"cov: expected a positive variance of every column, got {variances[j]:g} in column {j}")
    stds = np.sqrt(variances)
    apart = np.argwhere(np.abs(cov - cov.T) > 1e-12 * np.outer(stds, stds))
    if apart.size:
        i, j = (int(k) for k in apart[0])
        raise ValueError(f"cov: expected a symmetric matrix, got {cov[i, j]:g} and {cov[j, i]:g} for columns {i}, {j}")
    return stds


def independent_stds(inputs: Gaussian) -> Float:
    """The standard deviation of each column, for columns that do not depend on each other.

    Raises
    ------
    ValueError
        for columns that do.

    >>> independent_stds(Gaussian(2.0, dim=2))
    array([2., 2.])
    """
    if inputs.correlated:
        raise ValueError(
            f"inputs: expected independent columns, got {inputs!r}; gpbounds.spectrum rotates them, and "
            "Gaussian(inputs.stds) is the law with independent columns of the same standard deviations"
        )
    return inputs.stds


InputLaw = Gaussian | Uniform | Empirical


def on_a_line(inputs: object) -> bool:
    """Whether inputs are Gaussian or uniform in one dimension.

    >>> on_a_line(Gaussian()), on_a_line(Uniform([0, 0], [1, 1])), on_a_line(Empirical([[0.0]]))
    (True, False, False)
    """
    return isinstance(inputs, Gaussian | Uniform) and inputs.dim == 1
