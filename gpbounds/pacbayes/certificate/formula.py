"""The last step of a certificate, in Arb: the bound from R_S, KL(Q‖P), counts, N and δ, rounded upwards."""

from __future__ import annotations

from typing import Any

from gpbounds.pacbayes.inverse import kl_inverse
from gpbounds.pacbayes.penalty import xi_ball
from gpbounds.rigor import exact, settled


def log_count(count: int) -> float:
    """The least double that is not below ln ``count``.

    >>> log_count(1), round(log_count(1201**2), 4)
    (0.0, 14.1818)
    """
    return settled(lambda: _log_count(count), upwards=True) + 0.0  # never −0.0


def log_xi(N: int, delta: float) -> float:
    """The least double that is not below ln(ξ(N)/δ).

    >>> round(log_xi(404, 0.01), 4)
    7.858
    """
    return settled(lambda: _log_xi(N, delta), upwards=True)


def risk_bound(risk: float, kl: float, count: int, N: int, delta: float) -> float:
    """B = kl⁻¹(R_S, (KL + ln count + ln(ξ(N)/δ))/N), the least double proved not to be below it.

    Claims P-12, P-14, P-43, P-47: ``count`` is the product of |Θ| and the lengths of all lists.

    Parameters
    ----------
    risk, kl : float
        R_S in [0, 1] and KL(Q‖P) >= 0, or upper bounds of them: B increases with both.
    count, N : int
    delta : float in (0, 1]

    >>> risk_bound(0.02, 30.0, 1201**2, 1000, 0.01)
    0.10136636474734233
    """
    divergence = settled(lambda: (exact(kl) + _log_count(count) + _log_xi(N, delta)) / N, upwards=True)
    return float(kl_inverse(risk, divergence, rigor="sharp"))


def _log_count(count: int) -> Any:
    from flint import arb

    return arb(count).log()


def _log_xi(N: int, delta: float) -> Any:
    return (xi_ball(float(N)) / exact(delta)).log()
