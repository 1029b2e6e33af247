"""Independent coins that represent a k-DPP's choice of eigenvectors: odds c·λ_i, and M expected heads.

Given M heads, the set of heads has probability ∝ Π λ_i, for every c.
"""

from __future__ import annotations

from math import log

from gpbounds.arrays import Float


def log_tilt(log_values: Float, M: int) -> float:
    """log c with Σ cλ_i/(1 + cλ_i) = M, to 1e-9, for 0 < M < n and n eigenvalues λ > 0 given by their logarithms.

    >>> import numpy as np
    >>> round(log_tilt(np.log([4.0, 1.0, 0.25]), 1), 6)  # c = 0.406: 0.619 + 0.289 + 0.092 = 1
    -0.901044
    """
    from scipy.optimize import brentq
    from scipy.special import expit

    level = log(M / (log_values.size - M))  # all probabilities would be M/n if all λ were equal
    low, high = level - float(log_values.max()) - 1.0, level - float(log_values.min()) + 1.0
    return float(brentq(lambda shift: float(expit(log_values + shift).sum()) - M, low, high, xtol=1e-9))
