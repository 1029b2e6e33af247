"""The mean residual of a k-DPP and the plans built on it, in mpmath: the formulas as they stand, slow and obvious."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import mpmath as mp

from gpbounds.reference.kdpp import esp, law, residual


def rest_ratios(eigenvalues: Sequence[Any], M: int) -> list[Any]:
    """r_i = e_M(λ without λ_i)/e_{M−1}(λ without λ_i), M ≥ 1."""
    ratios = []
    for i in range(len(eigenvalues)):
        e = esp([*eigenvalues[:i], *eigenvalues[i + 1 :]], M)
        ratios.append(e[M] / e[M - 1] if e[M - 1] else mp.mpf(0))
    return ratios


def miss(eigenvalues: Sequence[Any], M: int) -> list[Any]:
    """miss_i = e_M(λ without λ_i)/e_M(λ)  (N-res)."""
    whole = esp(eigenvalues, M)[M]
    return [esp([*eigenvalues[:i], *eigenvalues[i + 1 :]], M)[M] / whole for i in range(len(eigenvalues))]


def mean_residual(K: Any, M: int) -> Any:
    """E_Z(K − Q_Z) under the k-DPP, by enumeration; subsets of probability 0 are left out."""
    total = mp.zeros(K.rows)
    for Z, probability in law(K, M).items():
        if probability > 0:
            total += probability * residual(K, Z)
    return total
