"""The mean function of a prior: y ~ N(Hβ, K + σ²I), with coefficients β that are given, or trained with the rest.

H has the column 1, and for a linear mean the columns (x_d − c_d)/s_d.  An objective F of y depends on β through y − Hβ
alone, or through the means Hβ + Vᵀw of a sparse posterior: ∂F/∂β = Hᵀg for the derivatives g in Hβ.

A vector holds β − β₀ in units of the scale of y, where β₀ are the coefficients of ordinary least squares.  Training
therefore sees the same numbers for y and for y + Hb, whatever b is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from gpbounds.arrays import Array, Float, Indices, host, is_constant, namespace
from gpbounds.means import LinearMean
from gpbounds.rows.program import Rows

KINDS = ("zero", "constant", "linear")

MANY = 100_000
"""Largest number of rows, equally far apart, from which β₀ is computed."""

DEPENDENT = 1e-10
"""Columns count as dependent if H/√N, with columns of mean square 1, has a singular value below this."""

NOTHING = 1e-13
"""Targets are refused if a linear mean leaves at most this share of max |y|: the rounding of its coefficients."""


@dataclass(frozen=True, eq=False)
class PriorMean:
    """m(x) = β_0 + Σ_d β_d (x_d − c_d)/s_d for each of P outputs.

    Attributes
    ----------
    coefficients : array (q, P)
        β, in the units of the targets; q = 1 is a constant, q = 1 + D a linear function.
    first : array (q, P)
        β₀.
    scale : array (P,)
        The units of β − β₀ within a vector.
    centre, spread : arrays (D,)
        c and s.
    trained : bool
        False for coefficients that are given.

    >>> X, Y = np.array([[0.0], [1.0], [2.0]]), np.array([[1.0], [4.0], [1.0]])
    >>> mean = PriorMean.least_squares("constant", X, Y)
    >>> mean(np.array([[10.0]])).round(9).tolist(), mean.functions()
    ([[2.0]], (LinearMean(intercept=2.0, slopes=None),))
    """

    coefficients: Float
    first: Float
    scale: Float
    centre: Float
    spread: Float
    trained: bool = True

    @classmethod
    def least_squares(cls, kind: str, X: Any, Y: Any) -> Self:
        """The function of this ``kind`` that is nearest to the rows X (N, D), Y (N, P): arrays, or columns of a source.

        Raises
        ------
        ValueError
            for a linear mean whose coefficients the rows do not determine, and for targets that are such a function.
        """
        N = len(X)
        numbers = some_of(N)
        points, targets = X[numbers], Y[numbers]
        centre, spread = points.mean(axis=0), points.std(axis=0)
        H = np.ones((len(points), 1))
        if kind == "linear":
            D = len(centre)
            if len(points) <= D + 1:
                raise ValueError(
                    f"mean: expected 'zero' or 'constant' for n_samples={N} and {D} column(s), got 'linear', which "
                    f"needs more than {D + 1} rows"
                )
            if is_constant(spread, np.abs(points).max(axis=0)).any():
                raise ValueError(
                    "mean: expected 'zero' or 'constant' for an X with a constant column, got 'linear': its slope "
                    "cannot be told from the intercept"
                )
            H = np.column_stack([H, (points - centre) / spread])
            if np.linalg.svd(H, compute_uv=False)[-1] < DEPENDENT * np.sqrt(len(H)):
                raise ValueError(
                    f"mean: expected 'zero' or 'constant' for {D} columns of which one is a linear function of others, "
                    "got 'linear', as the rows do not determine a slope for each column"
                )
        first = np.linalg.lstsq(H, targets, rcond=None)[0]
        sizes = np.sqrt(np.mean((targets - H @ first) ** 2, axis=0))
        largest = np.abs(targets).max(axis=0)
        if (is_constant(sizes, largest) if kind == "constant" else sizes <= NOTHING * largest).any():
            raise ValueError(
                f"mean: expected targets of which a {kind} mean leaves more than rounding errors, got targets that are "
                f"a {kind} function of X: there is nothing left for a Gaussian process"
            )
        return cls(first, first, np.where(sizes > 0.0, sizes, 1.0), centre, spread)

    @classmethod
    def of(cls, functions: Sequence[LinearMean], D: int) -> Self:
        """One given function for each output, which training leaves as it is."""
        columns = []
        for each in functions:
            slopes = np.zeros(0) if each.slopes is None else np.asarray(each.slopes)
            if slopes.size not in (0, D):
                raise ValueError(f"mean: expected a slope for each of {D} column(s), or none, got {slopes.size}")
            columns.append(np.append(each.intercept, slopes))
        coefficients, P = np.array(columns).T, len(columns)
        return cls(coefficients, coefficients, np.ones(P), np.zeros(D), np.ones(D), trained=False)

    def onwards(self, X: Float, Y: Float) -> Self:
        """The same function, to be trained from here, in the units of the rows X (n, D) and targets Y (n, P)."""
        coefficients, centre, spread = self.coefficients.copy(), X.mean(axis=0), X.std(axis=0)
        spread = np.where(spread > 0.0, spread, 1.0)
        if len(coefficients) > 1:
            slopes = coefficients[1:] / self.spread[:, None]
            coefficients[0] += (centre - self.centre) @ slopes
            coefficients[1:] = slopes * spread[:, None]
        sizes = np.sqrt(np.mean((Y - self(X)) ** 2, axis=0))
        return type(self)(coefficients, coefficients, np.where(sizes > 0.0, sizes, 1.0), centre, spread)

    @property
    def names(self) -> tuple[str, ...]:
        """One name for each coefficient, row by row."""
        rows = ("intercept", *(f"slope[{d}]" for d in range(len(self.coefficients) - 1)))
        P = self.coefficients.shape[1]
        return tuple(name if P == 1 else f"{name} of y[{p}]" for name in rows for p in range(P))

    @property
    def entries(self) -> Float:
        """(β − β₀)/scale, row by row."""
        return ((self.coefficients - self.first) / self.scale).ravel()

    def at(self, entries: Float) -> Self:
        """The function with these entries."""
        return replace(self, coefficients=self.first + entries.reshape(self.first.shape) * self.scale)

    @property
    def held(self) -> Self:
        """The same function, which training leaves as it is."""
        return replace(self, trained=False)

    @property
    def start(self) -> Self:
        """The function with the coefficients β₀."""
        return replace(self, coefficients=self.first)

    def __call__(self, X: Array) -> Array:
        """m at the rows of X (n, D): shape (n, P), on the device of X."""
        xp = namespace(X)
        constant, slopes = xp.asarray(self.coefficients[:1]), self.coefficients[1:]
        if not len(slopes):
            return xp.repeat(constant, X.shape[0], axis=0)
        return constant + (X - xp.asarray(self.centre)) @ xp.asarray(slopes / self.spread[:, None])

    def pulled(self, X: Array, slopes: Array) -> Array | float:
        """Hᵀg (q, P) for derivatives g (n, P) in the values at X, on the device of X; 0 for given coefficients."""
        if not self.trained:
            return 0.0
        xp = namespace(X)
        if len(self.coefficients) == 1:
            return slopes.sum(axis=0, keepdims=True)
        moved = (X - xp.asarray(self.centre)).T @ slopes
        return xp.concatenate([slopes.sum(axis=0, keepdims=True), moved / xp.asarray(self.spread)[:, None]])

    def functions(self) -> tuple[LinearMean, ...]:
        """The same function of each output, with a slope for each column of x itself."""
        slopes = self.coefficients[1:] / self.spread[:, None] if len(self.coefficients) > 1 else None
        if slopes is None:
            return tuple(LinearMean(float(each)) for each in self.coefficients[0])
        intercepts = self.coefficients[0] - self.centre @ slopes
        return tuple(LinearMean(float(one), each) for one, each in zip(intercepts, slopes.T, strict=True))


def some_of(N: int) -> Indices:
    """The numbers of all of N rows, or of `MANY`."""
    return np.linspace(0, N - 1, min(N, MANY)).astype(np.int64)


def residuals(mean: PriorMean | None, X: Array, Y: Array) -> Array:
    """Y − m(X) for X (n, D), Y (n,) or (n, P); Y itself for a mean of 0."""
    if mean is None:
        return Y
    values = mean(X)
    return Y - (values if Y.ndim == 2 else values[:, 0])


@dataclass(frozen=True, eq=False)
class Residuals:
    """The change of rows into rows whose targets are y minus a prior mean."""

    mean: PriorMean

    def __call__(self, rows: Rows) -> Rows:
        return rows._replace(Y=residuals(self.mean, rows.X, rows.Y))


def derivatives(sums: Array | float) -> Float | None:
    """The sums of `PriorMean.pulled` in host memory; None where no coefficients are trained."""
    return None if isinstance(sums, float) else host(sums)
