"""One family of objectives: a power a of K − Q, restricted to a structure.

R is K − Q restricted to its diagonal, to diagonal blocks, not at all, or set to 0; with a in [0, 1]:

    F = Σ_p log N(y_p; 0, Q + aR + σ²I) − P·(1−a)/(2a)·log|I + aR/σ²|      (a → 0: … − P·Tr R/(2σ²))

| method  | structure | a         |                                                   |
|---------|-----------|-----------|---------------------------------------------------|
| "vfe"   | diagonal  | 0         | variational free energy of Titsias, SGPR          |
| "dtc"   | none      | –         | deterministic training conditional                |
| "fitc"  | diagonal  | 1         | fully independent training conditional            |
| "pep"   | diagonal  | ``power`` | power expectation propagation                     |
| "pic"   | blocks    | 1         | partially independent conditional; PITC's F       |
| "renyi" | full      | 1 − α     | Rényi α-ELBO, a lower bound on log p(y) (R-elbo*) |
| "exact" | full      | 1         | log p(y)                                          |

At a = 0 all structures agree.  F is non-decreasing in a when R is full (R-mono), and not monotone when R is diagonal.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from fitting.data import Data
from fitting.goals import Evidence
from fitting.laws import law_of
from fitting.members import METHODS, Member, member
from fitting.objective import Objective, at_point
from fitting.partition import partition
from gpbounds.arrays import Array, as_points, namespace
from gpbounds.linalg import Jitter
from gpbounds.linalg.workspace import Workspace
from gpbounds.validation import count
from gpbounds.whitening import as_targets

__all__ = ["METHODS", "Member", "at_point", "member", "objective"]


def objective(
    X: ArrayLike | Array,
    y: ArrayLike | Array,
    method: str | Member = "vfe",
    *,
    power: float | None = None,
    alpha: float | None = None,
    blocks: int | Sequence[int] | Array | None = None,
    jitter: Jitter = "auto",
    chunk: int | None = None,
    keep: int | None = None,
) -> Objective:
    """The objective of one member on one data set.

    Parameters
    ----------
    X : array (N, D), NumPy or CuPy
        All computations run on the device of X, in float64.
    y : array (N,) or (N, P)
    method : str or Member
        A name in the table above, or a `Member`.
    power : float
        a, for "pep".
    alpha : float
        Rényi order in [0, 1], for "renyi": 0 is the exact evidence, 1 is "vfe".
    blocks : int or array (N,)
        For "pic": the number of consecutive rows in a block, or a label for each row.
    jitter : float or "auto"
        Added to the diagonal of Kuu; "auto" takes the smallest of 0, 1e-12 … 1e-6 times the variance with which Kuu
        factorises, and `Evaluation` reports it.
    chunk : int, optional
        Number of rows of X processed at a time.  None: 1024 on a CPU, whose cache holds them, and on a GPU up to
        65,536, as its free memory allows.
    keep : int, optional
        Bytes of Kuf and V that are kept between the two passes; further rows are computed twice.  None: 2²⁸ on a CPU,
        and half of the free memory of a GPU.

    Raises
    ------
    ValueError, NonFinite
        for wrong arguments.

    >>> from gpbounds.kernels import SquaredExponential
    >>> X, y, Z, kernel = [0.0, 1.0, 2.0], [1.0, 0.5, -0.5], [[0.0], [2.0]], SquaredExponential()
    >>> renyi = [objective(X, y, "renyi", alpha=a) for a in (0.0, 0.5, 1.0)]
    >>> [round(F.evaluate(kernel, 0.1, Z).value, 4) for F in renyi]
    [-3.2002, -3.5277, -4.5099]
    """
    chosen = method if isinstance(method, Member) else member(method, power=power, alpha=alpha)
    points = as_points(X, "X").astype(np.float64, copy=False)
    targets = as_targets(y, points)
    N, single = points.shape[0], targets.ndim == 1
    if (blocks is None) == (chosen.structure == "blocks"):
        expected = "a size or labels" if blocks is None else "None"
        raise ValueError(f"blocks: expected {expected} for structure {chosen.structure!r}, got {blocks!r}")
    columns = targets[:, None] if single else targets
    parts = None if chosen.is_diagonal else partition(N if blocks is None else blocks, N)
    if parts is not None and parts.order is not None:
        order = namespace(points).asarray(parts.order)
        points, columns = points[order], columns[order]
    rows = None if chunk is None else count("chunk", chunk)
    space = Workspace.on(namespace(points), keep)
    data = Data(points, columns, single, jitter, rows, parts, space)
    return Objective(data, law_of(chosen), Evidence())
