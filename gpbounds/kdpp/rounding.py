"""How far rounding of K may take its k-DPP."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from gpbounds.bound import Bound
from gpbounds.kdpp.esp import checked, scaled_esp
from gpbounds.validation import count, non_negative, one


def rounding_tv(eigenvalues: ArrayLike, rounding: float, M: int) -> Bound:
    """Above the total variation between the k-DPP of K and the k-DPP of K̂, where ‖K − K̂‖ ≤ ρ.

    TV ≤ 1 − e_M((λ̂ − ρ)₊) / e_M(λ̂ + ρ)

    It holds for K̂ as it is and with its eigenvalues up to ρ taken as 0.  Proof: with A = (K̂ − ρI)₊ and B = K̂ + ρI all
    of them lie between A and B in the Loewner order, so |A_ZZ| ≤ |K_ZZ|, |K̂_ZZ| for every Z, and
    Σ_Z min(P, P̂) ≥ Σ_Z |A_ZZ| / max(e_M(K), e_M(K̂)) ≥ e_M(A)/e_M(B).

    Hypotheses: K, K̂ ⪰ 0.  New; it says what an exact sampler means near the numerical rank.  For small ρ it is
    2ρ Σ_m P(m ∈ J)/λ_m, J the eigenvectors that take part: 1e-10 for well-conditioned problems, of order 1 at the rank.

    Parameters
    ----------
    eigenvalues : array (N,)
        All N eigenvalues of K̂, ≥ 0.
    rounding : float
        ρ ≥ 0, for instance N·eps·λ_max.
    M : int
        ≥ 0; the bound is 1 where fewer eigenvalues than M exceed ρ.

    >>> round(float(rounding_tv([2.0, 1.0], 0.01, 1)), 6)  # 1 − 2.98/3.02
    0.013245
    """
    values, rho, M = checked(eigenvalues), one(non_negative, "rounding", rounding), count("M", M, 0)
    low, low_power = scaled_esp(np.maximum(values - rho, 0.0), M)
    high, high_power = scaled_esp(values + rho, M)
    # 1e-12 covers the rounding of both symmetric polynomials
    ratio = 0.0 if low[M] == 0.0 else float(np.ldexp(low[M] / high[M], low_power[M] - high_power[M])) * (1.0 - 1e-12)
    return Bound(
        min(1.0, float(np.nextafter(1.0 - ratio, 2.0))) if rho > 0.0 or ratio == 0.0 else 0.0,
        "upper",
        1.0,
        "N-round",
        assumptions=("The matrix that is sampled differs from K by at most ρ in the spectral norm.",),
        quantity="TV(k-DPP as sampled, k-DPP)",
    )
