"""The start of training: hyperparameters from the scale of the data, and inducing points."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from fitting.prior_means import some_of
from fitting.rows.columns import Columns
from gpbounds.arrays import Array, DistinctRows, Float, host, is_constant
from gpbounds.errors import shown
from gpbounds.kernels import Kernel, SquaredExponential, Stationary, separated
from gpbounds.kernels.families import WORDS, Family, family
from gpbounds.likelihoods import Bernoulli, Gaussian, Likelihood, Poisson, StudentT
from gpbounds.whitening import slices

_SPAN = 1e6
"""By default every hyperparameter stays within this factor of its start."""

PIECE = 2**14
"""Rows that are read at a time."""

DISTANT = 30.0
"""Targets count as far from 0 where their median is more than so many of their own spreads away.  A Student-t model of
150 rows with a prior mean of 0 has found the function behind them at 14 spreads, and not at 40."""


def units(X: Float | Columns) -> Float:
    """Standard deviation of each column, 1 for a constant one; shape (D,).

    >>> units(np.array([[1.0, 7.0], [5.0, 7.0]]))
    array([2., 1.])
    """
    if isinstance(X, Columns):
        return X.units
    pieces = [X[rows] for rows in slices(X.shape[0], PIECE)]  # a memory map is read piece by piece
    largest = np.max([np.abs(piece).max(axis=0) for piece in pieces], axis=0)
    scale = np.where(largest > 0.0, largest, 1.0)  # squares neither over- nor underflow
    mean = sum((piece / scale).sum(axis=0) for piece in pieces) / X.shape[0]
    spread = np.sqrt(sum(((piece / scale - mean) ** 2).sum(axis=0) for piece in pieces) / X.shape[0])
    return np.where(is_constant(spread, 1.0), 1.0, spread * scale)


def strides(kernel: Kernel, X: Float) -> Float:
    """Units in which an optimiser sees inducing inputs: √(standard deviation · lengthscale) of each dimension; (D,).

    A standard deviation may hold few lengthscales or many.  After 300 iterations of L-BFGS on bike, kin40k and concrete
    (one seed), the standard deviation as unit gave worse objectives on all three, the lengthscale on two.

    >>> strides(SquaredExponential(1.0, 8.0), np.array([[1.0, 7.0], [5.0, 7.0]])).round(4)
    array([4.    , 2.8284])
    """
    spread = units(X)
    return np.sqrt(spread * kernel.lengthscales(X.shape[1])) if isinstance(kernel, Stationary) else spread


def default_kernel(X: Float, Y: Float) -> SquaredExponential:
    """Squared exponential: its variance is the mean square of y, its lengthscales are √D standard deviations."""
    return SquaredExponential(mean_square(Y), units(X) * math.sqrt(X.shape[1]))


def passed_kernel(kernel: Any) -> Kernel | Family | None:
    """A kernel of gpbounds, the family that a name stands for, or None, the squared exponential of `default_kernel`.

    A kernel object of scikit-learn becomes one of gpbounds with the same values, and `gpbounds.kernels.White` for its
    WhiteKernels.

    Raises
    ------
    ValueError
        for anything else; the message names the classes and the words.

    >>> passed_kernel("linear+rbf")
    Family(text='linear+rbf')
    """
    if kernel is None or isinstance(kernel, Kernel):
        return kernel
    if isinstance(kernel, str):
        return family(kernel)
    from sklearn.gaussian_process.kernels import Kernel as SklearnKernel

    if isinstance(kernel, SklearnKernel):
        from gpbounds.renyi.readers.sklearn import kernel_of_sklearn

        return kernel_of_sklearn(kernel)
    raise ValueError(
        f"kernel: expected a kernel of gpbounds.kernels such as SquaredExponential() or Matern(1.5), a name ({WORDS}, "
        f"or several joined by +), a kernel of sklearn.gaussian_process.kernels, or None, got {shown(kernel)}"
    )


def own_kernel(kernel: Any) -> Any:
    """``kernel``, where it is an object of scikit-learn the kernel of gpbounds in its place; names and None stay."""
    return kernel if isinstance(kernel, str) else passed_kernel(kernel)


def default_noise(Y: Float, kernel: Kernel, X: Float) -> float:
    """A tenth of the mean square of y, and at least 1e-6 of the kernel's variance, so that K + σ²I factorises."""
    return max(0.1 * mean_square(Y), 1e-6 * typical_variance(kernel, X))


def with_noise_apart(kernel: Kernel, noise: float | None) -> tuple[Kernel, float | None]:
    """The kernel without `White`, whose variance is added to ``noise``.

    >>> from gpbounds.kernels import Linear, White
    >>> with_noise_apart(Linear() + White(0.25), 0.5)
    (Linear(variance=1.0), 0.75)
    """
    smooth, white = separated(kernel)
    return smooth, noise if white == 0.0 else white + (noise or 0.0)


def typical_variance(kernel: Kernel, X: Float) -> float:
    """The largest k(x, x), or if it is infinite k(x, x) at one standard deviation from 0 in every dimension.

    >>> from gpbounds.kernels import Linear
    >>> round(typical_variance(Linear(2.0), np.array([[-3.0], [3.0]])), 12)
    18.0
    """
    return kernel.largest_variance(units(X)[None, :])


def mean_square(Y: Float | Columns) -> float:
    """The mean square of y, 1 if y is 0; raises an error if it overflows."""
    if isinstance(Y, Columns):
        return Y.mean_square
    with np.errstate(over="ignore", under="ignore"):
        square = float(np.mean(Y * Y))
    if not math.isfinite(square):
        raise ValueError(
            f"y: expected numbers whose squares are finite, got |y| up to {np.abs(Y).max():.3g}: rescale y"
        )
    return square if square > 1e-250 else 1.0


def spreads_from_zero(Y: Float | Columns) -> float:
    """The distance of the targets (N, P) from 0 in units of their spread, the largest of P columns.

    Distance and spread are robust: the median, and the interquartile range divided by that of N(0, 1).  The standard
    deviation takes its place where half of the targets are equal; a constant column counts as 0.

    >>> round(spreads_from_zero(np.array([[98.0], [99.0], [100.0], [101.0], [1e9]])))
    67
    """
    some = Y[some_of(len(Y))]
    low, middle, high = np.quantile(some, (0.25, 0.5, 0.75), axis=0)
    spread, size = (high - low) / 1.349, np.maximum(np.abs(low), np.abs(high))
    exponents = np.frexp(np.abs(some).max(axis=0))[1]  # squares of targets may overflow
    std = np.ldexp(np.ldexp(some, -exponents).std(axis=0), exponents)
    spread = np.where(is_constant(spread, size), std, spread)
    measurable = ~is_constant(spread, size)
    return float(np.where(measurable, np.abs(middle) / np.where(measurable, spread, 1.0), 0.0).max())


def around(kernel: Kernel, likelihood: Likelihood, distance: float = 0.0) -> dict[str, tuple[float, float]]:
    """Limits of every hyperparameter: a factor of 1e6 below and above its value.

    Values from the mean square of targets that are ``distance`` > `DISTANT` spreads from 0 say nothing of their spread:
    the lower limits of variances are then smaller by ``distance`` squared, those of scales by ``distance``.

    >>> around(SquaredExponential(), Gaussian(0.5))["noise"]
    (5e-07, 500000.0)
    >>> around(SquaredExponential(), Gaussian(0.5), 1000.0)["noise"]
    (5e-13, 500000.0)
    """
    names = likelihood.parameter_names
    values = [*np.exp(kernel.log_parameters).tolist(), *(getattr(likelihood, name) for name in names)]
    pairs = zip((*kernel.parameter_names, *names), values, strict=True)
    further = distance if distance > DISTANT else 1.0

    def low(name: str, value: float) -> float:
        power = 2 if name == "noise" or "variance" in name else int(name == "scale")
        return value / _SPAN / further**power

    return {name: (low(name, value), value * _SPAN) for name, value in pairs}


def within(limits: Mapping[str, tuple[float, float]], kernel: Kernel) -> Kernel:
    """The kernel, with every hyperparameter moved to the nearest value within ``limits``.

    >>> round(within({"variance": (2.0, 3.0)}, SquaredExponential()).max_variance, 12)
    2.0
    """
    logs = kernel.log_parameters
    for i, name in enumerate(kernel.parameter_names):
        if name in limits:
            logs[i] = np.clip(logs[i], *np.log(limits[name]))
    return kernel.with_log_parameters(logs)


def choose_inducing(kernel: Kernel, X: Float, M: int, method: str, rng: np.random.Generator) -> Float:
    """M inducing points (at most the distinct rows) by `gpbounds.kdpp.select`, on the host, from NumPy arrays.

    Clusters of "kmeans" are those of the rows in units of the kernel's lengthscales, or of standard deviations if the
    kernel has none, so that inputs that do not matter do not split them.

    If the numerical rank of K is below M, "greedy" and "kdpp" cannot choose M points: the greedy method then chooses as
    many as the rank, and the others are drawn uniformly from the remaining rows, as another lengthscale may need them.
    """
    from gpbounds.kdpp import select

    distinct = DistinctRows.of(X).rows
    M = min(M, len(distinct))
    if method == "kmeans" and M == len(distinct):  # each centre is a row
        return distinct
    if method in ("kmeans", "uniform"):
        scale = 1.0 if method == "uniform" else _lengths(kernel, X)
        return select(kernel, X / scale, M, method, rng, jitter="auto").Z * scale
    if method == "kdpp":
        try:
            return select(kernel, X, M, method, rng, jitter="auto").Z
        except ValueError:  # M above the numerical rank
            pass
    chosen = select(kernel, X, M, "greedy", trace=0.0)
    if chosen.M == M:
        return chosen.Z
    taken = {row.tobytes() for row in chosen.Z + 0.0}
    remaining = distinct[[row.tobytes() not in taken for row in distinct + 0.0]]
    more = rng.choice(remaining.shape[0], M - chosen.M, replace=False)
    return np.concatenate([chosen.Z, remaining[more]])


def with_further(kernel: Kernel, X: Float, Z: Float, M: int) -> Float:
    """Z and rows of X, each of the largest variance given Z and those before it: M points, or up to the rank of K.

    >>> with_further(SquaredExponential(), np.array([[0.0], [1.0], [9.0]]), np.array([[0.5]]), 2).ravel()
    array([0.5, 9. ])
    """
    from gpbounds.linalg.pivoted import pivoted
    from gpbounds.whitening import whiten

    white = whiten(kernel, X, Z)
    V = white.inducing.whiten(X)
    picked = pivoted(
        lambda i, columns: kernel(X[i], X[columns]) - V[:, i].T @ V[:, columns], white.residual, M - Z.shape[0]
    )
    return np.concatenate([Z, X[picked.indices]])


def _lengths(kernel: Kernel, X: Float) -> Float:
    return kernel.lengthscales(X.shape[1]) if isinstance(kernel, Stationary) else units(X)


def default_likelihood(likelihood: str | Likelihood, Y: Array) -> Likelihood:
    """``likelihood``, or the one with this name and parameters at the scale of Y.

    The noise of a Gaussian is a tenth of the mean square of y; a Student-t has that variance and four degrees of
    freedom.

    >>> default_likelihood("student-t", np.array([[2.0], [-2.0]]))
    StudentT(df=4.0, scale=0.4472135954999579)
    """
    if isinstance(likelihood, Likelihood):
        return likelihood
    named: dict[str, Callable[[], Likelihood]] = {
        "gaussian": lambda: Gaussian(0.1 * mean_square(host(Y))),
        "probit": lambda: Bernoulli("probit"),
        "logit": lambda: Bernoulli("logit"),
        "poisson": lambda: Poisson("exp"),
        "poisson-softplus": lambda: Poisson("softplus"),
        "student-t": lambda: StudentT(4.0, math.sqrt(0.05 * mean_square(host(Y)))),
    }
    if not isinstance(likelihood, str) or likelihood not in named:
        names = ", ".join(map(repr, named))
        raise ValueError(f"likelihood: expected one of {names}, or a gpbounds likelihood, got {shown(likelihood)}")
    return named[likelihood]()
