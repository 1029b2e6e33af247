"""Prop. 1: upper bounds on KL from an order between Σ₁ and Σ₂, each in its corrected, sharpest and printed form.

All follow from one extremal spectrum.  Let 1 + e_i be the eigenvalues of Σ₂⁻¹Σ₁, φ(e) = e − log(1 + e), g = γ/(1 + γ):
KL = ½Σφ(e_i), (1 + γ)Σ₁ ⪰ Σ₂ says e_i ≥ −g, and a convex function on {e_i ≥ −g, Σe_i = x} is greatest at a corner,
where all e_i but one are −g: KL ≤ ½[(N − 1) φ(−g) + φ(x + (N − 1)g)].  A sum e that cancels is taken at both ends of
its rounding, as φ is convex, or at −g ≤ e; what is left errs by a few units in the last place, to either side.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from gpbounds.arrays import EPS, Float
from gpbounds.bound import Bound
from gpbounds.linalg import eigen
from gpbounds.linalg.matrices import symmetric_matrix
from gpbounds.lowrank.laws import noisy_factor
from gpbounds.numerics.log1p import log1p_residual
from gpbounds.validation import choice, finite, noise_variance, non_negative, positive, whole

Rule = Literal["sharpest", "corrected", "printed"]
KL = "KL(N(0, Σ₁)‖N(0, Σ₂))"
ORDER = "(1 + γ)Σ₁ ⪰ Σ₂, both positive definite."
NOISY = "Σ₁ = K₁ + σ²I and Σ₂ = K₂ + σ²I with K₁, K₂ positive semi-definite."
FALSE = "This printed form is FALSE: it has 1 + γ where its proof has 1 - γ, and it can be below the true KL."


def _bound(value: Any, claim: str, terms: dict[str, Any], *assumptions: str) -> Bound:
    return Bound(np.asarray(value)[()], "upper", 1.0, claim, terms, assumptions, quantity=KL)


def kl_from_excess(excess: ArrayLike, N: ArrayLike, gamma: ArrayLike, *, rule: Rule = "sharpest") -> Bound:
    """Upper bound on KL(N(0, Σ₁)‖N(0, Σ₂)) from the excess x = Tr Σ₂⁻¹Σ₁ − N, given (1 + γ)Σ₁ ⪰ Σ₂.

    sharpest   ½[(N−1) φ(−g) + φ(x + (N−1)g)],  φ(e) = e − log(1+e),  g = γ/(1+γ)
    corrected  ½[x + γN] = ½Tr[Σ₂^{-½}(Σ₁ − (1−γ)Σ₂)Σ₂^{-½}]
    printed    ½[x − γN], FALSE: at Σ₁ = Σ₂ = 1, γ = 1 it is −½

    Claim L-06 (Daskalakis et al., Prop. 1, eq. 4).  The sharpest is the best possible from x, N, γ: attained when N − 1
    eigenvalues of Σ₂⁻¹Σ₁ are 1/(1+γ); it is below ½[x + N log(1+γ)], which is below the corrected form.

    Parameters
    ----------
    excess : array
        ≥ −gN, as the hypothesis implies.
    N : whole number, ≥ 1
    gamma : array
        ≥ 0; `least_gamma` computes the least valid one.  All broadcast.
    rule : "sharpest", "corrected" or "printed"

    Raises
    ------
    ValueError
        for arguments out of range, or if the excess contradicts the hypothesis.

    >>> for rule in ("sharpest", "corrected", "printed"):  # Σ₁ = 1, Σ₂ = 2: KL = 0.0966
    ...     round(float(kl_from_excess(-0.5, 1, 1.0, rule=rule)), 4)
    0.0966
    0.25
    -0.75
    """
    choice("rule", rule, ("sharpest", "corrected", "printed"))
    x, size, c = np.broadcast_arrays(finite("excess", excess), whole("N", N), non_negative("gamma", gamma))
    g = c / (1.0 + c)
    if (x < -(g + 1e-12) * size).any():
        worst = int(np.argmin(x + g * size))
        raise ValueError(
            f"excess: expected at least -N gamma/(1 + gamma), which the order implies, got {x.flat[worst]}"
        )
    if rule != "sharpest":
        terms = {"excess": 0.5 * x, "order": (0.5 if rule == "corrected" else -0.5) * c * size}
        return _bound(sum(terms.values()), "L-06", terms, ORDER, *((FALSE,) if rule == "printed" else ()))
    e, off = x + (size - 1) * g, 4.0 * EPS * (np.abs(x) + size * g)
    above, below = (0.5 * log1p_residual(np.maximum(end, -g)) for end in (e + off, e - off))
    terms = {"excess": np.maximum(above, np.where(e - off > -g, below, _floor(c))), "order": _floor(c) * (size - 1)}
    return _bound(sum(terms.values()), "L-06", terms, ORDER)


def _floor(gamma: Float) -> Float:
    """½φ(−g) = ½[log(1 + γ) − γ/(1 + γ)], g = γ/(1 + γ)."""
    return 0.5 * np.where(gamma < 1.0, log1p_residual(-gamma / (1.0 + gamma)), np.log1p(gamma) - gamma / (1.0 + gamma))


def kl_from_ratio(gamma: ArrayLike, N: ArrayLike, *, form: Literal["sharpest", "printed"] = "sharpest") -> Bound:
    """Upper bound on KL(N(0, Σ₁)‖N(0, Σ₂)) for (1 + γ)Σ₁ ⪰ Σ₂ ⪰ (1 + γ)⁻¹Σ₁.

    sharpest  (N/2)[γ − log(1+γ)] ≤ Nγ²/4
    printed   γN

    Claim L-07 (Prop. 1, eq. 5).  Sharpest: equality at Σ₁ = (1+γ)Σ₂, and quadratic in γ where the printed form is
    linear.

    Parameters
    ----------
    gamma : array, ≥ 0
    N : whole number, ≥ 1

    >>> round(float(kl_from_ratio(0.1, 100)), 6), float(kl_from_ratio(0.1, 100, form="printed"))
    (0.234491, 10.0)
    """
    choice("form", form, ("sharpest", "printed"))
    c, size = np.broadcast_arrays(non_negative("gamma", gamma), whole("N", N))
    per_datum = c if form == "printed" else 0.5 * log1p_residual(c)
    return _bound(size * per_datum, "L-07", {"per datum": per_datum}, "(1 + γ)Σ₁ ⪰ Σ₂ ⪰ Σ₁/(1 + γ), positive definite.")


def kl_from_traces(
    trace1: ArrayLike,
    trace2: ArrayLike,
    N: ArrayLike,
    gamma: ArrayLike,
    *,
    noise: ArrayLike,
    least: ArrayLike = 0.0,
    rule: Rule = "sharpest",
) -> Bound:
    """Upper bound on KL(N(0, K₁ + σ²I)‖N(0, K₂ + σ²I)) from Tr K₁ and Tr K₂, given (1 + γ)Σ₁ ⪰ Σ₂.

    sharpest   ½[(N−1) φ(−g) + max{φ(−g), φ(T − g)}],  T = [Tr K₁ − (1−g) Tr K₂ + gNσ²]/(σ² + λ_min(K₂))
    corrected  (2σ²)⁻¹[Tr K₁ − (1−γ) Tr K₂ + γNσ²]
    printed    (2σ²)⁻¹[Tr K₁ − (1+γ) Tr K₂ + γNσ²], FALSE: at K₁ = K₂ = 2, σ² = γ = N = 1 it is −½

    φ(e) = e − log(1+e), g = γ/(1+γ).  Claim L-08 (Prop. 1, eq. 6).  Sharpest: M = Σ₁ − Σ₂/(1+γ) ⪰ 0 has
    Tr Σ₂⁻¹M ≤ Tr M/(σ² + λ_min(K₂)) = T, so that Σe_i ≤ T − gN; below the ledger's
    [2(σ² + λ_min(K₂))]⁻¹ Tr(K₁ − (1−l)K₂ + lσ²I), l = log(1+γ), which is below the corrected form.  At γ = 0 it is
    `kl_from_residual`.

    Parameters
    ----------
    trace1, trace2 : array, ≥ 0
    N : whole number, ≥ 1
    gamma : array, ≥ 0
    noise : array, > 0
    least : array, ≥ 0, optional
        A lower bound on λ_min(K₂), for the sharpest rule.  All broadcast.
    rule : "sharpest", "corrected" or "printed"

    Raises
    ------
    ValueError
        for arguments out of range, or if the traces contradict the hypothesis.

    >>> for rule in ("sharpest", "corrected", "printed"):  # K₁ = K₂
    ...     round(float(kl_from_traces(2.0, 2.0, 1, 1.0, noise=1.0, rule=rule)), 4)
    0.1534
    1.5
    -0.5
    """
    choice("rule", rule, ("sharpest", "corrected", "printed"))
    t1, t2, size, s2, c, smallest = np.broadcast_arrays(
        non_negative("trace1", trace1),
        non_negative("trace2", trace2),
        whole("N", N),
        positive("noise", noise),
        non_negative("gamma", gamma),
        non_negative("least", least),
    )
    g = c / (1.0 + c)
    excess = (t1 - t2) + g * (t2 + size * s2)
    if (excess < -1e-12 * (t1 + t2 + size * s2)).any():
        raise ValueError(
            "trace1, trace2: expected Tr Σ₁ >= Tr Σ₂/(1 + gamma), which the order implies, got a smaller Tr Σ₁"
        )
    if rule == "sharpest":
        least_term, top = _floor(c), np.maximum(excess, 0.0) / (s2 + smallest)
        off = 8.0 * EPS * ((np.abs(t1 - t2) + g * (t2 + size * s2)) / (s2 + smallest) + g)
        terms = {
            "trace": np.maximum(least_term, 0.5 * log1p_residual(np.maximum(top - g + off, -g))),
            "order": (size - 1) * least_term,
        }
        return _bound(sum(terms.values()), "L-08", terms, ORDER, NOISY)
    sign = -1.0 if rule == "corrected" else 1.0
    terms = {"trace": 0.5 * (t1 - (1.0 + sign * c) * t2) / s2, "order": 0.5 * c * size}
    return _bound(sum(terms.values()), "L-08", terms, ORDER, NOISY, *((FALSE,) if rule == "printed" else ()))


def kl_from_residual(
    residual: ArrayLike, *, noise: ArrayLike, least: ArrayLike = 0.0, form: Literal["sharpest", "printed"] = "sharpest"
) -> Bound:
    """Upper bound on KL(N(0, K₁ + σ²I)‖N(0, K₂ + σ²I)) from τ = Tr(K₁ − K₂), given K₁ ⪰ K₂ ⪰ 0.

    sharpest  ½[x − log(1+x)],  x = τ/(σ² + λ_min(K₂))
    printed   τ/(2σ²)

    Claim L-09 (Prop. 1 at γ = 0, as Thm 3 uses it).  Sharpest: equality when K₁ − K₂ has rank one and K₂ = 0; at most
    x/2 and x²/4.  Holds for truncated expansions, Nyström approximations and the prior covariance left by any
    conditioning.

    Parameters
    ----------
    residual : array, ≥ 0
        τ, in squared units of y.
    noise : array, > 0
    least : array, ≥ 0, optional
        A lower bound on λ_min(K₂), for the sharpest form.

    >>> round(float(kl_from_residual(1.0, noise=1.0)), 6), float(kl_from_residual(1.0, noise=1.0, form="printed"))
    (0.153426, 0.5)
    """
    choice("form", form, ("sharpest", "printed"))
    tau, s2, smallest = np.broadcast_arrays(
        non_negative("residual", residual), positive("noise", noise), non_negative("least", least)
    )
    x = tau / s2 if form == "printed" else tau / (s2 + smallest)
    value = 0.5 * x if form == "printed" else 0.5 * log1p_residual(x)
    return _bound(value, "L-09", {"ratio": x}, "K₁ - K₂ and K₂ are positive semi-definite.", NOISY)


def least_gamma(K: ArrayLike, Sigma: ArrayLike, *, noise: float) -> float:
    """The least γ ≥ 0 with (1 + γ)(K + σ²I) ⪰ Sigma + σ²I: the hypothesis of `kl_from_excess` and `kl_from_traces`.

    γ = max{0, λ_max(L⁻¹(Sigma − K)L⁻ᵀ)},  LLᵀ = K + σ²I.  0 when K ⪰ Sigma.  Claim L-06.

    Parameters
    ----------
    K, Sigma : arrays (N, N)
    noise : float, > 0

    Raises
    ------
    ValueError, NonFinite, NotPositiveDefinite
        as in `kl`.

    >>> round(least_gamma([[1.0]], [[3.0]], noise=1.0), 12)
    1.0
    """
    s2 = noise_variance(noise)
    exact, approximate = symmetric_matrix("K", K), symmetric_matrix("Sigma", Sigma)
    if exact.shape != approximate.shape:
        raise ValueError(f"K, Sigma: expected equal shapes, got {exact.shape} and {approximate.shape}")
    factor = noisy_factor("K", exact, s2)
    whitened = factor.solve_lower(factor.solve_lower(approximate - exact).T)
    values = eigen(0.5 * (whitened + whitened.T), "Sigma - K", rounding=float("inf")).values
    return float(max(values[0], 0.0))
