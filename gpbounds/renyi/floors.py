"""What no choice of M inducing variables can beat, and the M that any choice needs (N-low)."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from gpbounds.arrays import EPS, Float, as_host_points
from gpbounds.kernels import Kernel
from gpbounds.linalg import eigen
from gpbounds.numerics.log1p import scaled_log1p
from gpbounds.numerics.scalars import G
from gpbounds.validation import choice, count, noise_variance, non_negative, order, positive, scalar, whole
from gpbounds.whitening import whiten

DENSE = 5000
"""Up to here all eigenvalues of K are computed."""


def minimum_gap(
    eigenvalues: ArrayLike, M: ArrayLike, alpha: float, y: Literal["any", "prior"] = "any", *, noise: float
) -> Float:
    """The gap that no choice of M inducing variables can beat, from the eigenvalues of K alone.

    y = "any":    D_α(y) ≥ Σ_i G(λ_(M+i)(K)/σ²), for every y.
    y = "prior":  E_y D_α ≥ (α/(2β)) Σ_i log(1 + βλ_(M+i)(K)/σ²), for y ~ N(0, K + σ²I).

    Claim N-low, 0 < α ≤ 1; y = "any" is attained by the M leading eigenvectors of K as inducing variables, at y = 0.
    All M are read from one cumulative sum.

    Parameters
    ----------
    eigenvalues : array
        Of K, in squared units of y, in any order; those left out count as 0, which keeps the bound valid.
    M : whole number or array of them, >= 0
    noise : float
        σ², in squared units of y.
    alpha : float
        Order in (0, 1].
    y : "any" or "prior"

    Returns
    -------
    array of the shape of M

    Raises
    ------
    ValueError
        for wrong arguments.

    >>> minimum_gap([4.0, 2.0, 1.0], [0, 1, 2, 3], 1.0, y="prior", noise=0.5)
    array([7., 3., 1., 0.])
    """
    choice("y", y, ("any", "prior"))
    a, s2, counts = scalar(order, "alpha", alpha), noise_variance(noise), whole("M", M, 0)
    values = non_negative("eigenvalues", eigenvalues)
    if values.ndim != 1:
        raise ValueError(f"eigenvalues: expected shape (N,), got {values.shape}")
    ratios = np.sort(values) / s2
    each = G(ratios, a) if y == "any" else 0.5 * a * scaled_log1p(ratios, 1.0 - a)
    tails = np.concatenate([[0.0], np.cumsum(each)])
    left = values.size - np.minimum(counts, values.size)
    return tails[left.astype(np.int64)]


def needed_from_eigenvalues(eigenvalues_lower: ArrayLike, alpha: float, *, target: float, noise: float) -> int:
    """The least M ≥ 1 at which `minimum_gap` does not rule ``target`` out: with fewer, no inducing variables reach it.

    Claim N-low, for every y; Σ_i G(λ_(M+i)(K)/σ²) grows with each eigenvalue, so lower bounds on them give an M that is
    needed all the more.

    Parameters
    ----------
    eigenvalues_lower : array
        At or below the eigenvalues of K, in squared units of y, in any order; those left out count as 0.
    noise : float
        σ², in squared units of y.
    alpha : float
        Order in (0, 1].
    target : float
        The gap D_α(y) to be reached, > 0, in nats.

    >>> needed_from_eigenvalues([4.0, 2.0, 1.0, 1e-6], 1.0, target=0.01, noise=0.5)
    3
    """
    goal = scalar(positive, "target", target)
    values = non_negative("eigenvalues_lower", eigenvalues_lower)
    gaps = minimum_gap(values, np.arange(1, max(values.size, 2)), alpha, noise=noise)
    above = np.flatnonzero(gaps > goal)
    return int(above[-1]) + 2 if above.size else 1


def needed(
    kernel: Kernel, X: ArrayLike, alpha: float, *, target: float, noise: float, landmarks: int | None = None
) -> int:
    """The number of inducing variables below which no choice of them reaches the target gap on these inputs, for any y.

    D_α(y) ≥ Σ_i G(λ_(M+i)(K)/σ²) > target for every M below the number returned, whatever Z and y (N-low, 0 < α ≤ 1).

    Up to N = 5000 from all eigenvalues of K (O(N³)), each lowered by its rounding error.  Above, from those of
    Q = Kfs Kss⁻¹Ksf for ``landmarks`` rows s spread evenly over X, in O(N·landmarks²): Q ⪯ K gives λ_i(Q) ≤ λ_i(K) for
    every i, so the number stays valid, and can only be smaller; it never exceeds ``landmarks``.

    Parameters
    ----------
    kernel : Kernel
    X : array (N, D)
    noise : float
        σ², in squared units of y.
    alpha : float
        Order in (0, 1].
    target : float
        In nats, > 0.
    landmarks : int, optional
        Use Q from so many rows of X; 1000 above N = 5000 when left out.

    Raises
    ------
    ValueError
        for wrong arguments.

    >>> import numpy as np
    >>> from gpbounds.kernels import SquaredExponential
    >>> X = np.linspace(0.0, 10.0, 50)
    >>> needed(SquaredExponential(), X, 1.0, target=0.1, noise=0.1)
    11
    >>> needed(SquaredExponential(), X, 1.0, target=0.1, noise=0.1, landmarks=10)
    10
    """
    points = as_host_points(X, "X")
    N = points.shape[0]
    if landmarks is None and N <= DENSE:
        found = eigen(kernel(points), "K")
        return needed_from_eigenvalues(
            np.maximum(found.values - found.rounding, 0.0), alpha, noise=noise, target=target
        )
    size = min(count("landmarks", 1000 if landmarks is None else landmarks), N)
    chosen = points[np.linspace(0, N - 1, size).round().astype(np.int64)]
    gram = whiten(kernel, points, np.unique(chosen, axis=0), jitter="auto").gram
    rounding = float(gram.trace()) * (N + size) * EPS
    found = eigen(gram, "VVᵀ", rounding=rounding)
    return needed_from_eigenvalues(np.maximum(found.values - rounding, 0.0), alpha, noise=noise, target=target)
