"""The result of a choice of inducing points."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gpbounds.arrays import DistinctRows, Float, Indices, array_of, is_cupy
from gpbounds.bound import Bound
from gpbounds.linalg.psd import symmetric_matrix
from gpbounds.once import cached_property


@dataclass(frozen=True, eq=False)
class Selection:
    """Inducing points, the method that chose them, and their trace and determinant.

    Attributes
    ----------
    method : str
    indices : array of int64 (m,) or None
        Row numbers in the data, distinct, in the order of choice ("kdpp": increasing); None for "kmeans".
    Z : array (m, D)
        The inducing points.
    log_det : float
        log|K_ZZ + jitter·I|.
    law : str
        The law from which the points were drawn, in words.
    remaining : array (m + 1,), or a function that returns it
        Tr(K − Q) of the first 0, 1, …, m points.  "rpcholesky" needs none of them to draw: `trace` and `traces` are
        computed in O(N m²) time when they are first read.
    ordered : bool
        Whether the order of the points has a meaning.
    requested : float or None
        The argument ``trace`` of `select`.
    tv : float or None
        Proved upper bound, in exact arithmetic, on the total variation between the law and the k-DPP of K, for the
        argument ``tv`` of the theorems; 0 for an exact sample, None where no bound is proved.
    ridge : float or None
        The ridge of "leverage".
    jitter : float
        The number that was added to the diagonal of K_ZZ.
    objective : float or None
        "best" with y: the objective of the chosen points in nats, computed without jitter unless K_ZZ is singular.
    bound : Bound or None
        "best": the bound that holds for the chosen points.
    """

    method: str
    indices: Indices | None
    Z: Float
    log_det: float
    law: str
    remaining: Float | Callable[[], Float] = field(repr=False)
    ordered: bool = False
    requested: float | None = None
    tv: float | None = None
    ridge: float | None = None
    jitter: float = 0.0
    objective: float | None = None
    bound: Bound | None = None

    @property
    def M(self) -> int:
        """Number of inducing points."""
        return int(self.Z.shape[0])

    @cached_property
    def _remaining(self) -> Float:
        return self.remaining() if callable(self.remaining) else self.remaining

    @property
    def trace(self) -> float:
        """T = Tr(K − Q), from the diagonal of the residual."""
        return float(self._remaining[-1])

    @property
    def traces(self) -> Float | None:
        """Tr(K − Q) of the first 0, 1, …, m points; None where the order has no meaning ("kdpp", "kmeans")."""
        return self._remaining if self.ordered else None

    @property
    def reached(self) -> bool:
        """False if a trace was requested and M points do not reach it."""
        return self.requested is None or self.trace <= self.requested

    def __str__(self) -> str:
        summary = f"{self.M} inducing points, {self.method}: Tr(K - Q) = {self.trace:.6g}"
        if self.requested is not None:
            summary += f" ({'<=' if self.reached else 'not'} the requested {self.requested:g})"
        lines = [f"{summary}, log|K_ZZ| = {self.log_det:.6g}.", f"Law: {self.law}."]
        if self.tv:
            lines.append(f"Its total variation to the k-DPP of K is at most {self.tv:.3g}.")
        if self.jitter:
            lines.append(f"Jitter {self.jitter:.3g} on the diagonal of K_ZZ.")
        if self.bound is not None:
            lines.append(str(self.bound))
        return "\n".join(lines)


# Checks of arguments of k-DPP functions: kernel matrices, row numbers, and groups of equal rows of X.


def kernel_matrix(K: ArrayLike) -> Float:
    """K as a finite symmetric float64 array (N, N) on the host with a diagonal ≥ 0."""
    if is_cupy(K):
        raise ValueError("K: expected a NumPy array, got a CuPy array: pass K.get()")
    matrix = symmetric_matrix("K", K, tolerance=1e-10)
    if not np.abs(matrix).max() <= 1e300:
        raise ValueError(f"K: expected entries up to 1e300 in size, got {np.abs(matrix).max():g}")
    if (matrix.diagonal() < 0).any():
        row = int(matrix.diagonal().argmin())
        raise ValueError(f"K: expected variances >= 0 on the diagonal, got {matrix[row, row]} in row {row}")
    return matrix


def distinct_indices(indices: Any, N: int, name: str = "indices") -> NDArray[np.int64]:
    """Distinct row numbers in 0 … N−1."""
    rows = array_of(np, name, indices)
    if rows.size == 0:
        return np.empty(0, dtype=np.int64)
    if rows.ndim != 1 or rows.dtype.kind not in "iu":
        raise ValueError(f"{name}: expected whole numbers of shape (M,), got dtype {rows.dtype}, shape {rows.shape}")
    if (rows < 0).any() or (rows >= N).any():
        raise ValueError(f"{name}: expected numbers in 0 ... {N - 1}, got {rows[(rows < 0) | (rows >= N)][0]}")
    if np.unique(rows).size < rows.size:
        raise ValueError(f"{name}: expected distinct numbers, got repeated ones")
    return rows.astype(np.int64)


def groups_of(X: Float) -> Indices:
    """A number for each row, the same for equal rows: 0 … (number of distinct rows) − 1.

    >>> groups_of(np.array([[1.0], [0.0], [1.0]])).tolist()
    [1, 0, 1]
    """
    return DistinctRows.of(X).groups


def first_of_each(order: Indices, groups: Indices) -> Indices:
    """``order`` without the rows that equal an earlier one.

    >>> first_of_each(np.array([2, 1, 0]), np.array([5, 3, 5])).tolist()
    [2, 1]
    """
    _, first = np.unique(groups[order], return_index=True)
    return order[np.sort(first)]


def repeated(groups: Indices) -> Indices | None:
    """``groups``, or None where no two rows are equal."""
    return groups if int(groups.max()) + 1 < groups.size else None
