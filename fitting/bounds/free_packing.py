"""Kernel hyperparameters, Z, and a free q(v) = N(μ, CCᵀ) as one vector with bounds, for an optimiser.

After the hyperparameters and Z, as `fitting.parameters` has them, come μ and the lower triangle of C, row by row, with
the logarithms of its diagonal: every vector is a law.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fitting.functional import FreeEvaluation
from fitting.inner import Gradient
from fitting.parameters import Packing, Parameters, packing
from gpbounds.arrays import Array, Float, as_points, broadcastable, host, namespace, place
from gpbounds.kernels import Kernel
from gpbounds.validation import finite

SPREADS = (1e-9, 1e3)
"""Between these stays the diagonal of C, in units of the prior's standard deviation of v."""


@dataclass(frozen=True, eq=False)
class FreeParameters:
    """A point at which a free bound is evaluated.

    Attributes
    ----------
    kernel : Kernel
    Z : array (M, D)
        Inducing inputs.
    mean : array (M,)
        μ.
    factor : array (M, M)
        C, lower triangular with a positive diagonal.
    """

    kernel: Kernel
    Z: Array
    mean: Array
    factor: Array


@dataclass(frozen=True, eq=False)
class FreePacking:
    """Vector and `FreeParameters`, to and fro; made by `FreeBound.packing`.

    Attributes
    ----------
    start : FreeParameters
        What is held fixed keeps its value from here.
    outer : Packing
        Of the hyperparameters and Z.
    bounds : list of (low, high)
        For each entry of the vector, as SciPy's L-BFGS-B takes them.
    evaluate : function
        `FreeBound.evaluate`.
    """

    start: FreeParameters
    outer: Packing
    bounds: list[tuple[float, float]]
    evaluate: Callable[..., FreeEvaluation]

    @property
    def names(self) -> tuple[str, ...]:
        """One name for each entry of the vector."""
        M = self.start.mean.shape[0]
        triangle = zip(*(index.tolist() for index in np.tril_indices(M)), strict=True)
        entries = (f"log C[{i},{j}]" if i == j else f"C[{i},{j}]" for i, j in triangle)
        return (*self.outer.names, *(f"mean[{i}]" for i in range(M)), *entries)

    def pack(self, parameters: FreeParameters) -> Float:
        """The vector of ``parameters``, in host memory."""
        first = self.outer.pack(Parameters(parameters.kernel, 1.0, parameters.Z))
        mean, factor = law(host(parameters.mean), host(parameters.factor), self.start.mean.shape[0])
        entries = factor.copy()
        np.fill_diagonal(entries, np.log(np.diagonal(factor)))
        return np.concatenate([first, mean[:, 0], entries[np.tril_indices(len(entries))]])

    def unpack(self, vector: ArrayLike) -> FreeParameters:
        """The parameters of a vector, on the device of ``start``."""
        values, M = finite("vector", vector), self.start.mean.shape[0]
        if values.shape != (len(self.bounds),):
            raise ValueError(f"vector: expected shape ({len(self.bounds)},), got {values.shape}")
        first = len(self.outer.bounds)
        where = self.outer.unpack(values[:first])
        factor = np.zeros((M, M))
        factor[np.tril_indices(M)] = values[first + M :]
        np.fill_diagonal(factor, np.exp(np.diagonal(factor)))
        xp = namespace(self.start.Z)
        return FreeParameters(where.kernel, where.Z, place(values[first : first + M], xp), place(factor, xp))

    def gradient(self, found: FreeEvaluation, parameters: FreeParameters) -> Float:
        """Derivatives in the entries of the vector, of what was found at ``parameters``."""
        first = self.outer.gradient(Gradient(found.kernel, 0.0, found.Z))
        entries = host(found.factor).copy()
        np.fill_diagonal(entries, np.diagonal(entries) * np.diagonal(host(parameters.factor)))
        return np.concatenate([first, host(found.mean)[:, 0], entries[np.tril_indices(len(entries))]])

    def loss(self, vector: ArrayLike, rows: ArrayLike | Array | None = None) -> tuple[float, Float]:
        """(B, ∂B), to be minimised; with ``rows`` R_S is estimated by these alone, as in `FreeBound.evaluate`."""
        here = self.unpack(vector)
        found = self.evaluate(here.kernel, here.Z, here.mean, here.factor, rows)
        return -found.value, -self.gradient(found, here)

    def at_bounds(self, vector: ArrayLike, tol: float = 1e-6) -> tuple[str, ...]:
        """Names of the entries that sit on a bound, within ``tol``."""
        rows = zip(self.names, np.asarray(vector), self.bounds, strict=True)
        return tuple(name for name, v, (low, high) in rows if v <= low + tol or v >= high - tol)


def free_packing(
    evaluate: Callable[..., FreeEvaluation],
    kernel: Kernel,
    Z: ArrayLike | Array,
    mean: ArrayLike | Array | None = None,
    factor: ArrayLike | Array | None = None,
    **options: Any,
) -> FreePacking:
    """How (kernel, Z, μ, C) becomes a vector; what `FreeBound.packing` does."""
    points = as_points(Z, "Z").astype(np.float64, copy=False)
    xp, M = namespace(points), points.shape[0]
    mu, C = law(xp.zeros(M) if mean is None else mean, xp.eye(M) if factor is None else factor, M)
    outer = packing(kernel, 1.0, points, **{**options, "fixed": (*options.get("fixed", ()), "noise")})
    low, high = np.log(SPREADS)
    line = [(-np.inf, np.inf)] * M
    triangle = [(float(low), float(high)) if i == j else (-np.inf, np.inf) for i in range(M) for j in range(i + 1)]
    start = FreeParameters(kernel, points, mu[:, 0], C)
    return FreePacking(start, outer, [*outer.bounds, *line, *triangle], evaluate)


def law(mean: ArrayLike | Array, factor: ArrayLike | Array, M: int) -> tuple[Array, Array]:
    """μ (M, 1) and C (M, M), checked."""
    (mu,), (C,) = broadcastable(mean=mean)[1], broadcastable(factor=factor)[1]
    if mu.shape not in ((M,), (M, 1)):
        raise ValueError(f"mean: expected shape ({M},) or ({M}, 1), one entry for each row of Z, got {mu.shape}")
    if C.shape != (M, M):
        raise ValueError(f"factor: expected shape ({M}, {M}), one row for each row of Z, got {C.shape}")
    xp = namespace(C)
    if bool((C != xp.tril(C)).any()) or not bool((xp.diagonal(C) > 0.0).all()):
        raise ValueError("factor: expected a lower triangle with a positive diagonal, as a Cholesky factor has")
    return mu.reshape(M, 1), C
