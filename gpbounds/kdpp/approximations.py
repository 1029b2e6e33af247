"""Upper bounds on the total variation between the k-DPP of K and the k-DPP of an approximation of K."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from gpbounds.bound import Bound
from gpbounds.kdpp import balls as enclosures
from gpbounds.kdpp.esp import checked, log_esp, scaled_esp
from gpbounds.kdpp.expectations import balls
from gpbounds.rigor import exact, rounded
from gpbounds.validation import count, non_negative, rigor_of, scalar


def nystrom_tv(eigenvalues: ArrayLike, trace: float, M: int, *, rigor: str = "auto") -> Bound:
    """Upper bound on the total variation between the k-DPPs of K and of K̃ ⪯ K, for instance a Nyström approximation.

    TV ≤ 1 − e_M(K̃)/e_M(K) ≤ 1 − 1/Σ_{j≤M} (e_{M−j}(K̃)/e_M(K̃)) T^j/j!,   T = Tr(K − K̃)

    The proof is that of N-tv.

    Hypotheses: 0 ⪯ K̃ ⪯ K, M ≤ rank K̃.  New; with it R-cor1 applies to large N.  The bound is small only if T is much
    smaller than the mean trace at M − 1 points, divided by M.  The first inequality is an equality for M = 1 and K̃
    that equals K on some rows and is 0 on the others.

    Parameters
    ----------
    eigenvalues : array (r,)
        Eigenvalues of K̃, or lower bounds on them; zeros may be left out.
    trace : float
        T ≥ 0, or an upper bound on it.
    M : int
        ≥ 1; the bound is 1 if fewer than M eigenvalues are > 0.
    rigor : "auto", "float" or "sharp"
        "sharp": the value is the double above an Arb ball of the last formula, by construction, and the bound is
        certified.

    >>> round(float(nystrom_tv([2.0, 1.0], 0.1, 1)), 6)  # 1 − 3/3.1
    0.032258
    """
    values, T, M = checked(eigenvalues), scalar(non_negative, "trace", trace), count("M", M)
    proved = rigor_of(rigor) == "sharp"
    if int((values > 0).sum()) < M:
        value = 1.0
    elif T == 0.0:
        value = 0.0
    elif proved:
        value = rounded(lambda: enclosures.nystrom_tv(balls(values), exact(T), M), upwards=True)
    else:
        j = np.arange(1, M + 1)
        log_e = log_esp(values, M)
        with np.errstate(divide="ignore"):
            terms = log_e[M - j] - log_e[M] + np.cumsum(np.log(T / j))
        rest = np.logaddexp.reduce(terms)
        value = float(np.exp(rest - np.logaddexp(0.0, rest)))  # s/(1 + s), s = e^rest
    return Bound(
        value,
        "upper",
        1.0,
        "N-tv",
        terms={"trace": float(T)},
        assumptions=("The points are drawn from the k-DPP of an approximation K̃ of K with K̃ ⪯ K.",),
        certified=proved,
        quantity="TV(k-DPP of the approximation, k-DPP)",
    )


def rounding_tv(eigenvalues: ArrayLike, rounding: float, M: int, *, rigor: str = "auto") -> Bound:
    """Upper bound on the total variation between the k-DPP of K and the k-DPP of K̂, where ‖K − K̂‖ ≤ ρ.

    TV ≤ [e_M(λ̂ + ρ) − e_M((λ̂ − ρ)₊)] / e_M(λ̂)

    It also holds if eigenvalues of K̂ up to ρ are replaced by 0; so the denominator counts those above ρ only.

    Hypotheses: K, K̂ ⪰ 0.  Claim N-round, new; it bounds the error of an exact sampler near the numerical rank.  For
    small ρ it is 2ρ Σ_m P(m ∈ J)/λ_m, J the random set of eigenvectors: 1e-10 for well-conditioned problems, of order 1
    at the rank.

    Parameters
    ----------
    eigenvalues : array (N,)
        All N eigenvalues of K̂, ≥ 0.
    rounding : float
        ρ ≥ 0, for instance N·eps·λ_max.
    M : int
        ≥ 0; the bound is 1 if fewer than M eigenvalues exceed ρ.
    rigor : "auto", "float" or "sharp"
        "sharp": the value is the double above an Arb ball of the last formula, by construction, and the bound is
        certified.

    >>> round(float(rounding_tv([2.0, 1.0], 0.01, 1)), 6)  # (3.02 − 2.98)/3
    0.013333
    """
    values, rho, M = checked(eigenvalues), scalar(non_negative, "rounding", rounding), count("M", M, 0)
    proved = rigor_of(rigor) == "sharp"
    if int((values > rho).sum()) < M:
        value = 1.0
    elif rho == 0.0:
        value = 0.0
    elif proved:
        all_values = [exact(x) for x in values.tolist()]
        value = min(1.0, rounded(lambda: enclosures.rounding_tv(all_values, exact(rho), M), upwards=True))
    else:
        kept, power = scaled_esp(np.where(values > rho, values, 0.0), M)
        low, low_power = scaled_esp(np.maximum(values - rho, 0.0), M)
        high, high_power = scaled_esp(values + rho, M)
        below = float(np.ldexp(low[M] / kept[M], low_power[M] - power[M]))
        above = float(np.ldexp(high[M] / kept[M], min(high_power[M] - power[M], 100)))
        # 1e-12 covers the rounding of the symmetric polynomials in each ratio
        value = min(1.0, float(np.nextafter(above * (1.0 + 1e-12) - below * (1.0 - 1e-12), 2.0)))
    return Bound(
        value,
        "upper",
        1.0,
        "N-round",
        assumptions=("The matrix that is sampled differs from K by at most ρ in the spectral norm.",),
        certified=proved,
        quantity="TV(k-DPP as sampled, k-DPP)",
    )
