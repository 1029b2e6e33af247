"""Binary kl, its inverses, ξ(N) and the bounds in mpmath, straight from the ledger's definitions."""

from __future__ import annotations

from fractions import Fraction
from math import comb
from typing import Any

import mpmath as mp


def kl(q: Any, p: Any) -> Any:
    """q ln(q/p) + (1−q) ln((1−q)/(1−p)), 0 ln 0 = 0."""
    q, p = mp.mpf(q), mp.mpf(p)
    if (p == 0 and q > 0) or (p == 1 and q < 1):
        return mp.inf
    total = q * mp.log(q / p) if q else mp.mpf(0)
    return total + ((1 - q) * mp.log((1 - q) / (1 - p)) if q < 1 else 0)


def kl_inverse(q: Any, eps: Any, side: str = "upper") -> tuple[Any, Any]:
    """(p, 1 − p) of max or min{p : kl(q‖p) ≤ ε}, by bisection; the lower one is 1 − the upper one of 1 − q.

    The unknown is t = ln((1−q)/(1−p)), which keeps the digits of p and of 1 − p.  The precision is raised by the digits
    that may cancel: near t = 0 the kl is like t², and 1 − q may need all those of q.
    """
    digits = mp.mp.prec
    with mp.extradps(_cancellation(q, eps)):
        q, eps = mp.mpf(q), mp.mpf(eps)
        if side == "lower":
            rest, p = _ends(1 - q, _exponent(1 - q, eps, digits))
            return p, rest
        return _ends(q, _exponent(q, eps, digits))


def kl_inverse_gradient(q: Any, eps: Any, side: str = "upper") -> tuple[Any, Any]:
    """p(1−p)(logit p − logit q)/(p−q) and p(1−p)/(p−q) at p = kl⁻¹(q, ε), for 0 < q < 1 and 0 < ε < ∞."""
    digits = mp.mp.prec
    with mp.extradps(_cancellation(q, eps)):
        q, eps = mp.mpf(q), mp.mpf(eps)
        a = q if side == "upper" else 1 - q
        t = _exponent(a, eps, digits)
        p = _ends(a, t)[0]
        in_eps = p * mp.exp(-t) / -mp.expm1(-t)
        in_q = in_eps * (mp.log(p / a) + t)
        return in_q, in_eps if side == "upper" else -in_eps


def _ends(q: Any, t: Any) -> tuple[Any, Any]:
    """p and 1 − p."""
    return q - (1 - q) * mp.expm1(-t) if q < 1 else mp.mpf(1), (1 - q) * mp.exp(-t)


def _exponent(q: Any, eps: Any, digits: int) -> Any:
    """t of the upper inverse, to so many binary digits."""
    if q == 1 or eps == mp.inf:
        return mp.inf
    if eps == 0:
        return mp.mpf(0)

    def kl_at(t: Any) -> Any:
        p = q - (1 - q) * mp.expm1(-t)
        return (1 - q) * t + (q * mp.log(q / p) if q else 0)

    high = eps / (1 - q) + 1
    while kl_at(high / 2**16) > eps:
        high /= 2**16
    low = mp.mpf(0)
    for _ in range(digits + 16):
        middle = (low + high) / 2
        low, high = (low, middle) if kl_at(middle) > eps else (middle, high)
    return low


def _cancellation(q: Any, eps: Any) -> int:
    """Number of digits that cancellation in 1 − q, p − q or kl may cost."""
    sizes = [mp.mpf(v) for v in (q, eps) if 0 < v < mp.inf]
    return sum(int(abs(mp.log10(v))) + 1 for v in sizes) + (20 if 0 < q < 1 else 0)


def xi(N: int) -> Any:
    """Σ_k C(N, k) (k/N)^k (1 − k/N)^(N−k)."""
    total = mp.mpf(0)
    for k in range(N + 1):
        x = mp.mpf(k) / N
        total += mp.binomial(N, k) * (x**k if k else 1) * ((1 - x) ** (N - k) if k < N else 1)
    return total


def bound(risk: Any, divergence: Any, N: int, delta: Any, log_prior_penalty: Any = 0) -> Any:
    """kl⁻¹(R_S, (KL + ln(1/p_θ) + ln(ξ(N)/δ))/N)."""
    eps = (mp.mpf(divergence) + mp.mpf(log_prior_penalty) + mp.log(xi(N) / mp.mpf(delta))) / N
    return kl_inverse(risk, eps)[0]


def tandem_bound(tandem: Any, divergence: Any, N: int, delta: Any, log_prior_penalty: Any = 0) -> Any:
    """min{1, 4 kl⁻¹(T_S, (2KL + ln(1/p_θ) + ln(ξ(N)/δ))/N)}."""
    eps = (2 * mp.mpf(divergence) + mp.mpf(log_prior_penalty) + mp.log(xi(N) / mp.mpf(delta))) / N
    return min(mp.mpf(1), 4 * kl_inverse(tandem, eps)[0])


def binomial_tail(k: int, n: int, p: Any) -> Any:
    """P(Bin(n, p) ≤ k) = Σ_{j ≤ k} C(n, j) p^j (1−p)^(n−j), each term from the one before; 0 for p = 1 and k < n."""
    p = mp.mpf(p)
    if p == 1:
        return mp.mpf(int(k >= n))
    odds = p / (1 - p)
    total = term = (1 - p) ** n
    for j in range(k):
        term = term * (n - j) * odds / (j + 1)
        total += term
    return total


def held_out_risk(k: int, n: int, delta: Any) -> Any:
    """The p with P(Bin(n, p) ≤ k) = δ, by bisection; 1 if k = n."""
    low, high = mp.mpf(0), mp.mpf(1)
    for _ in range(mp.mp.prec if k < n else 0):
        middle = (low + high) / 2
        low, high = (middle, high) if binomial_tail(k, n, middle) > delta else (low, middle)
    return high


def coverage_rank(n: int, level: Fraction, delta: Fraction) -> int | None:
    """The least k with Σ_{j ≥ k} C(n, j) level^j (1−level)^(n−j) ≤ δ, in fractions; None if there is none up to n."""
    a, b = level.numerator, level.denominator - level.numerator
    most = delta * level.denominator**n
    total, k = a**n, n + 1
    while k > 1 and total <= most:
        k -= 1
        total += comb(n, k - 1) * a ** (k - 1) * b ** (n - k + 1)
    return k if k <= n else None
