"""The mean function with the largest evidence at a given kernel and noise."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from gpbounds.arrays import Float, as_host_points
from gpbounds.exact import factor_of
from gpbounds.kernels import Kernel
from gpbounds.kernels.base import as_kernel
from gpbounds.means import LinearMean
from gpbounds.row_noise import at_unit_noise, is_per_row
from gpbounds.validation import choice, noise_variance
from gpbounds.whitening import as_targets

DEPENDENT = 1e-10
"""Columns are refused if their spread over their size, or their least singular value over √N, is below this."""


def fitted_mean(kernel: Kernel, X: ArrayLike, y: ArrayLike, *, noise: Any, mean: str = "constant") -> LinearMean:
    """The constant or linear mean m that maximises log N(y; m(X), K + σ²I): generalised least squares.

    m(x) = β₀ + Σ_d β_d x_d with β = (HᵀA⁻¹H)⁻¹HᵀA⁻¹y, A = K + σ²I, H = 1 or [1, X].  O(N³) time.

    The coefficients are fitted to these rows.  Bounds for given y hold for y − m(X) all the same, since they hold for
    every kernel, noise and y; what assumes that the prior is fixed before the data (PAC-Bayes, plans for future data)
    needs other rows.  For coefficients that are integrated out, add `gpbounds.kernels.Constant` and
    `gpbounds.kernels.Linear` to the kernel: their variances are the prior variances of β₀ and β_d.

    Proof.  −2 log N = |L⁻¹(y − Hβ)|² + terms without β, A = LLᵀ: a least-squares problem in L⁻¹H, whose normal
    equations are those above.

    Parameters
    ----------
    kernel : Kernel
    X : array (N, D)
    y : array (N,)
    noise : float or array (N,)
        σ², in squared units of y; an array: s_i², one noise variance for each row (N-rows-noise).
    mean : "constant" or "linear"

    Returns
    -------
    LinearMean

    Raises
    ------
    ValueError
        for another word, for columns that are constant or linearly dependent, or for not more rows than coefficients.

    >>> from gpbounds.kernels import SquaredExponential
    >>> x = np.linspace(0.0, 1.0, 6)
    >>> m = fitted_mean(SquaredExponential(), x, 3.0 - 2.0 * x, noise=0.1, mean="linear")
    >>> round(m.intercept, 9), m.slopes.round(9)
    (3.0, array([-2.]))
    """
    as_kernel(kernel)
    choice("mean", mean, ("constant", "linear"))
    points = as_host_points(X, "X").astype(np.float64, copy=False)
    targets = as_targets(y, points)
    if targets.ndim != 1:
        raise ValueError(f"y: expected shape ({points.shape[0]},), one target for each row of X, got {targets.shape}")
    N, D = points.shape
    count = 1 + (D if mean == "linear" else 0)
    if count >= N:
        raise ValueError(f"X: expected more than {count} rows for a mean with {count} coefficients, got {N}")
    solve = _solver_of_rows(kernel, points, noise)
    if mean == "constant":
        half = solve(np.column_stack([np.ones(N), targets]))
        return LinearMean(float(half[:, 0] @ half[:, 1] / (half[:, 0] @ half[:, 0])))
    middle, spread = points.mean(axis=0), points.std(axis=0)
    if not (spread > DEPENDENT * np.maximum(np.abs(points).max(axis=0), 1e-300)).all():
        raise ValueError("X: expected columns that vary, got a constant one, whose slope cannot be told from β₀")
    centred = (points - middle) / spread
    if np.linalg.svd(centred, compute_uv=False)[-1] < DEPENDENT * np.sqrt(N):
        raise ValueError("X: expected linearly independent columns for a linear mean, got dependent ones")
    half = solve(np.column_stack([np.ones(N), centred, targets]))
    coefficients: Float = np.linalg.lstsq(half[:, :-1], half[:, -1], rcond=None)[0]
    slopes = coefficients[1:] / spread
    return LinearMean(float(coefficients[0] - slopes @ middle), slopes)


def _solver_of_rows(kernel: Kernel, X: Float, noise: Any) -> Callable[[Float], Any]:
    """B (N, m) to C⁻¹B with CCᵀ = K + σ²I, or with diag(noise) in place of σ²I."""
    if not is_per_row(noise):
        return factor_of(kernel, X, noise=noise_variance(noise)).solve_lower
    unit = at_unit_noise(kernel, X, None, noise)
    factor, weights = factor_of(unit.kernel, unit.X, noise=1.0), unit.weights[:, None]
    return lambda B: factor.solve_lower(weights * B)
