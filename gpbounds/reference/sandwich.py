"""Prop. 4 in mpmath: the roots of x − 1 − log x = 2γ and their explicit bounds (ledger L.3)."""

from __future__ import annotations

from typing import Any

import mpmath as mp


def phi(x: Any) -> Any:
    """x − 1 − log x."""
    return x - 1 - mp.log(x)


def lambert_roots(gamma: Any) -> tuple[Any, Any]:
    """(b, t) = (−W₀(z), −W₋₁(z)), z = −e^(−1−2γ) (L-32); near the branch point digits are lost, so more are carried."""
    gamma = mp.mpf(gamma)
    if gamma == 0:
        return mp.mpf(1), mp.mpf(1)
    with mp.workdps(mp.mp.dps + 20 + max(0, int(-mp.log10(gamma)))):
        z = -mp.exp(-1 - 2 * gamma)
        return -mp.lambertw(z, 0).real, -mp.lambertw(z, -1).real


def roots(gamma: Any) -> tuple[Any, Any, Any]:
    """(b − 1, t − 1, log b), to full relative precision, by Newton's method from the starts of L-34."""
    gamma = mp.mpf(gamma)
    if gamma == 0:
        return mp.mpf(0), mp.mpf(0), mp.mpf(0)
    digits = mp.mp.dps
    with mp.workdps(digits + 20 + 2 * max(0, int(-mp.log10(gamma)) // 2 + 1)):
        v = 2 * mp.sqrt(gamma)
        u, s = v + 2 * gamma, -2 * gamma - min(mp.mpf(1), v)
        for _ in range(200):
            step_u = (u - mp.log(1 + u) - 2 * gamma) * (1 + u) / u
            step_s = (mp.exp(s) - 1 - s - 2 * gamma) / (mp.exp(s) - 1)
            u, s = u - step_u, s - step_s
            if max(abs(step_u / u), abs(step_s / s)) < mp.mpf(10) ** (-digits - 3):
                break
        return mp.exp(s) - 1, u, s


def explicit(gamma: Any) -> tuple[Any, Any, Any, Any]:
    """L-33, sharper: e^(−2γ−min(1,v)) ≤ b ≤ 1 − v + 2γ and 1 + v + (4/3)γ ≤ t ≤ 1 + v + 2γ, v = 2√γ."""
    gamma = mp.mpf(gamma)
    v = 2 * mp.sqrt(gamma)
    return mp.exp(-2 * gamma - min(1, v)), 1 - v + 2 * gamma, 1 + v + 4 * gamma / 3, 1 + v + 2 * gamma


def printed(gamma: Any) -> tuple[Any, Any]:
    """Footnote 2: b ≥ max(1 − 2√γ, e^(−1−2γ)), t ≤ 1 + max(√(8γ), 8γ)."""
    gamma = mp.mpf(gamma)
    return max(1 - 2 * mp.sqrt(gamma), mp.exp(-1 - 2 * gamma)), 1 + max(mp.sqrt(8 * gamma), 8 * gamma)


def series(terms: int) -> list[Any]:
    """a_1, a_2, ... of w(v) = Σ a_k v^k, t = 1 + w(v): (k+1)a_k = a_(k−1) − Σ_(1<j<k) j·a_j·a_(k+1−j) (L-34)."""
    a = [mp.mpf(0), mp.mpf(1)]
    for k in range(2, terms + 1):
        total = a[k - 1] - sum((j * a[j] * a[k + 1 - j] for j in range(2, k)), mp.mpf(0))
        a.append(total / (k + 1))
    return a[1:]
