"""The tilted k-DPP of a matrix K and a noise variance: P(Z) ∝ |(K(K + σ²I))_ZZ|."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from gpbounds.arrays import Float
from gpbounds.kdpp.esp import checked
from gpbounds.validation import noise_variance


def tilted_eigenvalues(eigenvalues: ArrayLike, *, noise: float) -> Float:
    """μ_i = λ_i(λ_i + σ²): the eigenvalues of K(K + σ²I), whose k-DPP is the tilted law of K.

    P(Z) = |(K(K + σ²I))_ZZ| / e_M(μ).  Draw by ``sample_eigen(λ, vectors, M, rng, weights=tilted_eigenvalues(λ,
    noise=σ²))``: K and K(K + σ²I) share their eigenvectors.  Since |(K(K + σ²I))_ZZ| = |K_ZZ| |Q_Z + σ²I| / (σ²)^{N−M},
    Q_Z = K_fZ K_ZZ⁻¹ K_Zf, it is the k-DPP of K times the determinant of the sparse model (claim N-tilt).

    Parameters
    ----------
    eigenvalues : array (n,)
        λ ≥ 0, in squared units of y.
    noise : float
        σ², in squared units of y.

    Returns
    -------
    array (n,)
        In the fourth power of the units of y.

    Raises
    ------
    ValueError
        if an eigenvalue is negative, the noise is not positive, or a product overflows.

    >>> tilted_eigenvalues([2.0, 1.0, 0.0], noise=0.5)
    array([5. , 1.5, 0. ])
    """
    values, s2 = checked(eigenvalues), noise_variance(noise)
    with np.errstate(over="ignore"):
        tilted: Any = values * (values + s2)
    if not np.isfinite(tilted).all():
        raise ValueError(f"eigenvalues: expected products λ(λ + σ²) below 1.8e308, got λ up to {values.max():.3g}")
    return tilted
