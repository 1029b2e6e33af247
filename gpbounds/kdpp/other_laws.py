"""The mean residual of inducing points drawn uniformly from the data."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from gpbounds.arrays import EPS, Float
from gpbounds.kdpp.esp import checked
from gpbounds.validation import count, positive, scalar


def uniform_residual(eigenvalues: ArrayLike, M: int, *, variance: float) -> Float:
    """Upper bound on the mean residual of M of N points drawn uniformly without replacement: E (K − Q) ⪯ (K⁻¹ + cI)⁻¹.

    ρ_i = λ_i/(1 + cλ_i), c = Σ_{k<M} 1/((N − k)·max K_ii).  Claim N-unif.  Skipping rows equal to one
    drawn amounts to drawing more rows, so the bound remains valid.  It is several to thousands of times the mean of a
    k-DPP.

    Parameters
    ----------
    eigenvalues : array (N,)
        All N eigenvalues of K, ≥ 0, zeros included, in squared units of y, or upper bounds of them.
    M : int
        0 ≤ M ≤ N.
    variance : float
        max K_ii, or an upper bound of it.

    Returns
    -------
    array (N,)
        ρ in the order of ``eigenvalues``; its sum bounds E Tr(K − Q).  Rounded upwards.

    Raises
    ------
    ValueError
        if M exceeds N, or a number is out of range.

    >>> uniform_residual([2.0, 1.0, 0.0], 1, variance=1.5).round(6)  # c = 1/4.5
    array([1.384615, 0.818182, 0.      ])
    """
    values, M = checked(eigenvalues), count("M", M, 0)
    if values.size < M:
        raise ValueError(f"M: expected at most N = {values.size} points, one for each eigenvalue, got {M}")
    c = float((1.0 / (values.size - np.arange(M))).sum()) / float(scalar(positive, "variance", variance))
    c *= 1.0 - (M + 4.0) * EPS
    return values / (1.0 + c * values) * (1.0 + 4.0 * EPS)
