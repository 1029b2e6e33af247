"""Independent coins that represent a k-DPP's choice of eigenvectors: odds c·λ_i, and M expected heads.

Given M heads, the set of heads has probability ∝ Π λ_i, for every c.
"""

from __future__ import annotations

from math import log

import numpy as np

from gpbounds.arrays import Float

TINY = float(np.finfo(np.float64).tiny)


def log_tilt(log_values: Float, M: int) -> float:
    """log c with Σ cλ_i/(1 + cλ_i) = M, to 1e-9, for 0 < M < n and n eigenvalues λ > 0 given by their logarithms.

    It is the root of Σ_{i>M} cλ_i/(1 + cλ_i) − Σ_{i≤M} 1/(1 + cλ_i), λ sorted downwards, where nothing cancels: where
    λ_M ≫ λ_{M+1}, c is in the middle between their inverses.

    >>> import numpy as np
    >>> round(log_tilt(np.log([4.0, 1.0, 0.25]), 1), 6)  # c = 0.406: 0.619 + 0.289 + 0.092 = 1
    -0.901044
    """
    from scipy.optimize import brentq
    from scipy.special import expit

    rising = np.sort(log_values)
    rest, first = rising[:-M], rising[-M:]

    def excess(shift: float) -> float:
        heads, tails = float(expit(rest + shift).sum()), float(expit(-(first + shift)).sum())
        return log(max(heads, TINY)) - log(max(tails, TINY))

    level = log(M / rest.size)  # all probabilities would be M/n if all λ were equal
    low, high = level - float(rising[-1]) - 1.0, level - float(rising[0]) + 1.0
    return float(brentq(excess, low, high, xtol=1e-9))
