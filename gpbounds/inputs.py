"""The law p(x) of the inputs: Gaussian with any covariance, uniform on a box, that of data points, or by its draws."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from gpbounds.arrays import Array, Float, array_of, as_points
from gpbounds.errors import NonFinite, NotPositiveDefinite, shown
from gpbounds.linalg import eigen
from gpbounds.validation import column_numbers, count, finite, function, generator, instance, positive, within_memory

_TRIAL = 8
"""Number of rows that a `Sampler` draws twice when it is made."""


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
                raise ValueError(
                    f"std: expected none with cov, whose diagonal states the variances, got {shown(self.std)}"
                )
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

    def sample(self, N: int, rng: np.random.Generator | int) -> Float:
        """``N`` independent draws, shape (N, dim)."""
        with within_memory("N"):
            z = generator(rng).standard_normal((count("N", N, 0), self.dim))
        centred = z * self.stds if self._factor is None else z @ self._factor.T
        return centred + self.means

    def marginal(self, columns: Sequence[int]) -> Gaussian:
        """The law of these columns, in this order."""
        chosen = _columns(columns, self.dim)
        if self.cov is None:
            return Gaussian(self.stds[chosen], mean=self.means[chosen])
        return Gaussian(mean=self.means[chosen], cov=np.asarray(self.cov)[np.ix_(chosen, chosen)])


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
            raise ValueError(
                f"low, high: expected low < high in every dimension, got {shown(self.low)} and {shown(self.high)}"
            )
        for name, end in (("low", low), ("high", high)):
            object.__setattr__(self, name, float(end[0]) if low.size == 1 else tuple(end.tolist()))
        object.__setattr__(self, "dim", low.size)
        object.__setattr__(self, "widths", high - low)

    def sample(self, N: int, rng: np.random.Generator | int) -> Float:
        """``N`` independent draws, shape (N, dim)."""
        with within_memory("N"):
            u = generator(rng).random((count("N", N, 0), self.dim))
        return np.atleast_1d(finite("low", self.low)) + u * self.widths

    def marginal(self, columns: Sequence[int]) -> Uniform:
        """The law of these columns, in this order."""
        chosen = _columns(columns, self.dim)
        return Uniform(*(np.atleast_1d(finite("low", end))[chosen] for end in (self.low, self.high)))


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


def _columns(columns: Sequence[int], dim: int) -> list[int]:
    """``columns`` as a list, all below ``dim``."""
    chosen = column_numbers(columns)
    if max(chosen) >= dim:
        raise ValueError(f"columns: expected numbers below {dim}, the dimension of the inputs, got {list(chosen)}")
    return list(chosen)


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
            f"inputs: expected independent columns, got {shown(inputs)}; gpbounds.spectrum rotates them, and "
            "Gaussian(inputs.stds) is the law with independent columns of the same standard deviations"
        )
    return inputs.stds


@dataclass(frozen=True, eq=False)
class Sampler:
    """A law that only its draws describe: ``draw`` returns independent rows.

    It serves whatever is simulated (``simulate=m`` of `gpbounds.rate` and `gpbounds.inducing_points`, N-sim); no
    spectrum is known.  N-sim holds for inputs from this law.  Fit the law to other rows than those of the plan, so that
    it is fixed before them; that those rows follow it remains a hypothesis.

    Parameters
    ----------
    draw : callable (N, rng) -> array (N, dim)
        N independent rows, in the units of x, made from the NumPy Generator ``rng`` alone.
    name : str
        The law in the assumptions of a bound; by default that of ``draw``.

    Attributes
    ----------
    dim : int
        Number of columns, from a draw of a few rows.

    Raises
    ------
    ValueError
        if ``draw`` cannot be called, returns something else than real numbers of shape (N, dim), or returns the same
        rows for two generators, as a model with a random state of its own does.
    NonFinite
        for NaN or infinity among the rows.

    >>> ring = Sampler(lambda N, rng: np.stack([(np.cos(t), np.sin(t)) for t in rng.uniform(0.0, 6.28, N)]), "a circle")
    >>> ring, ring.dim
    (Sampler(a circle), 2)
    >>> from gpbounds import SquaredExponential, inducing_points
    >>> kernel, asked = SquaredExponential(), {"target": 0.1, "simulate": 39, "rng": 0}
    >>> on_ring = inducing_points(kernel, 60, 1.0, inputs=ring, **asked)
    >>> on_ring.M < inducing_points(kernel, 60, 1.0, inputs=Gaussian(dim=2), **asked).M
    True
    """

    draw: Callable[[int, np.random.Generator], ArrayLike]
    name: str = ""
    dim: int = field(init=False)

    def __post_init__(self) -> None:
        function("draw", self.draw, "a callable (N, rng) -> array (N, dim)")
        instance("name", self.name, str, "a word for the law")
        try:
            inspect.signature(self.draw).bind(_TRIAL, None)
        except TypeError as error:
            raise ValueError(f"draw: expected a callable (N, rng) -> array (N, dim), got one with {error}") from None
        except ValueError:  # a built-in without a signature
            pass
        if not self.name:
            object.__setattr__(self, "name", getattr(self.draw, "__qualname__", type(self.draw).__name__))
        first, second = (self._rows(_TRIAL, np.random.default_rng(seed)) for seed in (0, 1))
        if np.array_equal(first, second):
            raise ValueError(
                f"draw: expected rows that depend on rng, got the same {_TRIAL} rows from two generators; a model with "
                "a random_state of its own returns them every time (Sampler.of passes it rng)"
            )
        object.__setattr__(self, "dim", first.shape[1])
        self._check(second, _TRIAL)

    @classmethod
    def of(cls, model: Any) -> Sampler:
        """The law of a fitted model, by ``sample`` (scikit-learn's mixtures and densities) or ``resample`` (SciPy's).

        The rows are in an order at random, and depend on ``rng`` alone, not on a random state of the model.

        >>> from sklearn.mixture import GaussianMixture
        >>> rows = np.random.default_rng(0).standard_normal((200, 3))
        >>> Sampler.of(GaussianMixture(2, random_state=0).fit(rows))
        Sampler(GaussianMixture)
        """
        if callable(getattr(model, "resample", None)):
            return cls(lambda N, rng: model.resample(N, seed=rng).T, type(model).__name__)
        if not callable(getattr(model, "sample", None)):
            raise ValueError(f"model: expected a fitted model with sample or resample, got {type(model).__name__}")
        own_state = "random_state" not in inspect.signature(model.sample).parameters

        def draw(N: int, rng: np.random.Generator) -> Any:
            seed = int(rng.integers(2**31))
            if own_state:  # a mixture: its rows come sorted by component
                rows, _ = copy.copy(model).set_params(random_state=seed).sample(N)
                return rng.permutation(rows)
            return model.sample(N, random_state=seed)

        return cls(draw, type(model).__name__)

    def sample(self, N: int, rng: np.random.Generator | int) -> Float:
        """``N`` independent draws, shape (N, dim)."""
        size = count("N", N)
        with within_memory("N"):
            return self._check(self._rows(size, generator(rng)), size)

    def _rows(self, N: int, rng: np.random.Generator) -> Float:
        """What ``draw`` returns, as N finite rows."""
        returned = self.draw(N, rng)
        rows = array_of(np, "draw", returned)
        if rows.dtype.kind not in "biuf" or rows.ndim != 2 or rows.shape[0] != N or rows.shape[1] == 0:
            kind = f"{type(returned).__name__} of {rows.dtype}" if rows.ndim else type(returned).__name__
            got = f"shape {rows.shape}" if rows.dtype.kind in "biuf" else kind
            raise ValueError(f"draw: expected real numbers of shape ({N}, dim) for N = {N}, got {got}")
        finite_rows = np.isfinite(rows).all(axis=1)
        if not finite_rows.all():
            raise NonFinite(
                f"draw: expected finite numbers, got NaN or infinity in row {int(np.argmin(finite_rows))} of {N}"
            )
        return rows.astype(np.float64)

    def _check(self, rows: Float, N: int) -> Float:
        if rows.shape[1] != self.dim:
            raise ValueError(f"draw: expected {self.dim} columns, as in the first draw, got shape {rows.shape}")
        return rows

    def __repr__(self) -> str:
        return f"Sampler({self.name})"


def on_a_line(inputs: object) -> bool:
    """Whether inputs are Gaussian or uniform in one dimension.

    >>> on_a_line(Gaussian()), on_a_line(Uniform([0, 0], [1, 1])), on_a_line(Empirical([[0.0]]))
    (True, False, False)
    """
    return isinstance(inputs, Gaussian | Uniform) and inputs.dim == 1


InputLaw = Gaussian | Uniform | Empirical | Sampler
