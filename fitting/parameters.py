"""Kernel hyperparameters, noise and inducing inputs as one vector with bounds, for an optimiser.

Positive numbers enter by their logarithms; inducing inputs as they are, divided by a scale of each dimension.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike

from fitting.inner import Evaluation, Gradient
from gpbounds.arrays import Array, Float, as_points, host, namespace, place
from gpbounds.kernels import Kernel
from gpbounds.validation import finite, positive

LIMITS = (1e-6, 1e6)
"""Between these every hyperparameter stays unless told otherwise, in its own units."""


class Evaluated(Protocol):
    """What is trained: larger is better."""

    def evaluate(self, kernel: Kernel, noise: float, Z: Array | None = None) -> Evaluation:
        """The value at a point, and its derivatives."""


@dataclass(frozen=True, eq=False)
class Parameters:
    """A point at which an objective is evaluated.

    Attributes
    ----------
    kernel : Kernel
    noise : float
        σ².
    Z : array (M, D) or None
        Inducing inputs.
    """

    kernel: Kernel
    noise: float
    Z: Array | None = None


@dataclass(frozen=True, eq=False)
class Packing:
    """Vector and `Parameters`, to and fro; made by `packing`.

    Attributes
    ----------
    start : Parameters
        What is held fixed keeps its value from here.
    logs : tuple of str
        Names of the hyperparameters that are free, in the order of the vector: the kernel's, then "noise".
    free : array of int
        Their places among all hyperparameters.
    learn_Z : bool
        Whether Z is part of the vector, after the hyperparameters, row by row.
    scale : array (D,)
        Units of Z within the vector.
    bounds : list of (low, high)
        For each entry of the vector, as SciPy's L-BFGS-B takes them.
    """

    start: Parameters
    logs: tuple[str, ...]
    free: Any
    learn_Z: bool
    scale: Float
    bounds: list[tuple[float, float]]

    @property
    def names(self) -> tuple[str, ...]:
        """One name for each entry of the vector."""
        if not self.learn_Z:
            return self.logs
        M, D = _shape(self.start)
        return (*self.logs, *(f"Z[{i},{d}]" for i in range(M) for d in range(D)))

    def pack(self, parameters: Parameters) -> Float:
        """The vector of ``parameters``, in host memory."""
        vector = _all_logs(parameters)[self.free]
        if not self.learn_Z:
            return vector
        if parameters.Z is None or tuple(parameters.Z.shape) != _shape(self.start):
            came = None if parameters.Z is None else tuple(parameters.Z.shape)
            raise ValueError(f"Z: expected shape {_shape(self.start)}, got {came}")
        return np.concatenate([vector, (host(parameters.Z) / self.scale).ravel()])

    def unpack(self, vector: ArrayLike) -> Parameters:
        """The parameters of a vector; Z where ``start`` has it, on the same device."""
        values = finite("vector", vector)
        if values.shape != (len(self.bounds),):
            raise ValueError(f"vector: expected shape ({len(self.bounds)},), got {values.shape}")
        logs = _all_logs(self.start)
        logs[self.free] = values[: self.free.size]
        kernel = self.start.kernel.with_log_parameters(logs[:-1])
        noise, Z = float(np.exp(logs[-1])), self.start.Z
        if self.learn_Z:
            Z = place(values[self.free.size :].reshape(_shape(self.start)) * self.scale, namespace(self.start.Z))
        return Parameters(kernel, noise, Z)

    def gradient(self, gradient: Gradient) -> Float:
        """Derivatives in the entries of the vector."""
        logs = np.append(gradient.kernel, gradient.noise)[self.free]
        if not self.learn_Z:
            return logs
        return np.concatenate([logs, (host(gradient.Z) * self.scale).ravel()])

    def at_bounds(self, vector: ArrayLike, tol: float = 1e-6) -> tuple[str, ...]:
        """Names of the entries that sit on a bound, within ``tol``."""
        rows = zip(self.names, np.asarray(vector), self.bounds, strict=True)
        return tuple(name for name, v, (low, high) in rows if v <= low + tol or v >= high - tol)

    def loss(self, objective: Evaluated) -> Callable[[ArrayLike], tuple[float, Float]]:
        """vector ↦ (−F, −∂F), to be minimised."""

        def negative(vector: ArrayLike) -> tuple[float, Float]:
            here = self.unpack(vector)
            found = objective.evaluate(here.kernel, here.noise, here.Z)
            assert found.gradient is not None
            return -found.value, -self.gradient(found.gradient)

        return negative


def packing(
    kernel: Kernel,
    noise: float,
    Z: ArrayLike | Array | None = None,
    *,
    learn_Z: bool = True,
    fixed: Sequence[str] = (),
    limits: Mapping[str, tuple[float, float]] | None = None,
    scale: ArrayLike = 1.0,
) -> Packing:
    """How (kernel, noise, Z) becomes a vector; the arguments are the start.

    Parameters
    ----------
    kernel : Kernel
    noise : float
        σ².
    Z : array (M, D), optional
    learn_Z : bool
        False holds Z fixed.
    fixed : sequence of str
        Names out of ``kernel.parameter_names`` and "noise" that keep their values.
    limits : mapping of name to (low, high), optional
        In the units of the hyperparameter; [1e-6, 1e6] for the others.  Z has no bounds.
    scale : float or array (D,)
        Units of Z within the vector: standard deviations of X, say.

    Raises
    ------
    ValueError
        for names that do not exist, or limits that leave the start out.

    >>> from gpbounds.kernels import SquaredExponential
    >>> how = packing(SquaredExponential(2.0, [1.0, 1.0]), 0.5, [[3.0, 4.0]], fixed=["variance"], scale=2.0)
    >>> how.names
    ('lengthscale[0]', 'lengthscale[1]', 'noise', 'Z[0,0]', 'Z[0,1]')
    >>> how.pack(how.start).round(4).tolist()
    [0.0, 0.0, -0.6931, 1.5, 2.0]
    """
    points = None if Z is None else as_points(Z, "Z").astype(np.float64, copy=False)
    start = Parameters(kernel, float(positive("noise", noise)), points)
    names = (*kernel.parameter_names, "noise")
    given = dict(limits or {})
    for name in (*fixed, *given):
        if name not in names:
            raise ValueError(f"name: expected one of {', '.join(names)}, got {name!r}")
    free = np.array([i for i, name in enumerate(names) if name not in fixed], dtype=np.int64)
    bounds = []
    for i, value in zip(free, np.exp(_all_logs(start))[free], strict=True):
        low, high = positive(f"limits of {names[i]}", given.get(names[i], LIMITS))
        if not low <= value * (1.0 + 1e-12) <= high * (1.0 + 2e-12):
            raise ValueError(f"limits: expected {names[i]} from {low:.6g} to {high:.6g}, got {value:.6g}")
        bounds.append((float(np.log(low)), float(np.log(high))))
    learn = learn_Z and points is not None
    units = positive("scale", scale)
    if points is not None:
        units = np.broadcast_to(units, (points.shape[1],))
        bounds += [(-np.inf, np.inf)] * (points.size if learn else 0)
    return Packing(start, tuple(names[i] for i in free), free, learn, units, bounds)


def _all_logs(parameters: Parameters) -> Float:
    return np.append(parameters.kernel.log_parameters, np.log(parameters.noise))


def _shape(parameters: Parameters) -> tuple[int, int]:
    assert parameters.Z is not None
    M, D = parameters.Z.shape
    return int(M), int(D)
