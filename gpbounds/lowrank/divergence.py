"""The KL divergence between an exact and an approximate GP, accurate from 1e-30 to 1e6 nats.

With Σ₁ = K + σ²I, Σ₂ = Sigma + σ²I, W any matrix with WΣ₂Wᵀ = I and E = W(K − Sigma)Wᵀ,

    KL = ½[Tr E − log|I + E|] = ½ Σ_i [s_i + φ(E_ii − s_i)],    φ(u) = u − log(1 + u) ≥ 0,

s_i the sum of squares left of the diagonal in row i of the Cholesky factor of I + E: its pivots are 1 + E_ii − s_i.
Every term is at least 0, so nothing cancels.  No eigenvalue is needed.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from gpbounds.arrays import EPS, Array, Float, host, kind_of_caller, namespace
from gpbounds.bound import Bound
from gpbounds.errors import NotPositiveDefinite
from gpbounds.law import GramLaw, gram_law, root_law, strong
from gpbounds.linalg import Cholesky, cholesky, eigen
from gpbounds.linalg.products import gram
from gpbounds.linalg.psd import finite_matrix, symmetric_matrix
from gpbounds.lowrank.approximation import as_features, diagonal, noisy_factor
from gpbounds.numerics.scalars import log1p_residual
from gpbounds.overflow import within_doubles
from gpbounds.validation import broadcast, choice, finite, flag, noise_variance, non_negative, positive, whole
from gpbounds.whitening import as_targets

_SINGULAR = 1e-4
"""If a pivot of I + E is below this, log|I + E| is computed as log|Σ₁| − log|Σ₂|; KL ≥ 4 nats, so nothing cancels."""

_THIN = 0.25
"""If r/N is at most this, `kl_features` does not form ΞΞᵀ."""


@within_doubles
def kl(K: ArrayLike, Sigma: ArrayLike, *, noise: float) -> float:
    """KL(N(0, K + σ²I)‖N(0, Sigma + σ²I)) in nats, exact from approximate, without cancellation.

    KL = ½[Tr Σ₂⁻¹Σ₁ − N − log(|Σ₁|/|Σ₂|)],  Σ₁ = K + σ²I,  Σ₂ = Sigma + σ²I.

    Claims L-04, L-11 (Daskalakis et al., §4).  The result is exactly 0 for Sigma = K.  Its relative error, for
    exact entries of K and Sigma, is at most about eps·λ_max(Σ₂)/σ², however small KL is.  The function adds no jitter.
    It needs two Cholesky factorisations and two triangular solves, 8N³/3 flops, about the time of K's eigenvalues, and
    at most 4.2 N² numbers in addition to K and Sigma.

    Parameters
    ----------
    K, Sigma : arrays (N, N), NumPy or CuPy
        Exact and approximate covariance, symmetric positive semi-definite, in squared units of y.
    noise : float
        σ² > 0, in squared units of y.

    Raises
    ------
    ValueError
        for wrong shapes, asymmetric matrices or noise <= 0.
    NonFinite
        for NaN or infinity.
    NotPositiveDefinite
        if Sigma + σ²I or K + σ²I does not factorise, or if σ² is below the rounding error of their entries.

    >>> K = np.array([[1.0, 0.5], [0.5, 1.0]])
    >>> kl(K, K, noise=0.1), round(kl(K, np.diag(np.diag(K)), noise=0.1), 6)
    (0.0, 0.115721)
    >>> round(kl(1e-15 * K, 0.0 * K, noise=1.0) * 1e30, 6)  # ¼(1 + 1 + ½)
    0.625
    """
    s2 = noise_variance(noise)
    exact, approximate = symmetric_matrix("K", K), symmetric_matrix("Sigma", Sigma)
    if exact.shape != approximate.shape:
        raise ValueError(f"K, Sigma: expected equal shapes, got {exact.shape} and {approximate.shape}")
    namespace(exact, approximate)
    return _dense(exact, approximate, s2)


@within_doubles
def kl_features(K: ArrayLike, features: ArrayLike, *, noise: float) -> float:
    """KL(N(0, K + σ²I)‖N(0, ΞΞᵀ + σ²I)) in nats, for features Ξ of any rank, without cancellation.

    Claims L-02, L-03, L-11.  With Ξ = QR and CCᵀ = I + RRᵀ/σ², T = I + Q(C − I)Qᵀ has Σ₂ = σ²TTᵀ.  So W = T⁻¹/σ with
    T⁻¹ = I + Q(C⁻¹ − I)Qᵀ and WΞΞᵀWᵀ = QC⁻¹(RRᵀ/σ²)C⁻ᵀQᵀ; the rest is as in `kl`: N³/3 + O(N²r) flops.  For r > N/4 the
    function forms ΞΞᵀ.  Entries of WKWᵀ and of WΞΞᵀWᵀ have a rounding error of about u = eps·max K/σ² before their
    difference is taken, so values below (Nu)² are meaningless.

    Parameters
    ----------
    K : array (N, N), NumPy or CuPy
    features : array (N, r), r >= 1
        Ξ, on the same device.
    noise : float
        σ² > 0.

    Raises
    ------
    ValueError, NonFinite, NotPositiveDefinite
        as in `kl`.

    >>> K = np.array([[1.0, 0.5], [0.5, 1.0]])
    >>> round(kl_features(K, [[1.0], [0.5]], noise=0.1), 6)
    2.074726
    """
    s2 = noise_variance(noise)
    exact = symmetric_matrix("K", K)
    factor = as_features(features, exact.shape[0])
    xp = namespace(exact, factor)
    N, r = factor.shape
    if r > _THIN * N:
        return _dense(exact, factor @ factor.T, s2)
    Q, R = xp.linalg.qr(factor)
    ratio = (R @ R.T) / s2
    inner = noisy_factor("RRᵀ/σ²", ratio, 1.0)
    inverse = inner.solve_lower(xp.eye(r))

    def whiten(A: Array) -> Array:
        return A + Q @ ((inverse - xp.eye(r)) @ (Q.T @ A))

    E = whiten(whiten(exact).T) / s2
    E -= Q @ (inverse @ ratio @ inverse.T) @ Q.T
    return _from_whitened(E, lambda: noisy_factor("K", exact, s2).logdet - N * np.log(s2), inner)


def _difference(A: Array, B: Array) -> Array | None:
    """The symmetric part of A − B, or None if A = B."""
    difference = A - B
    if not bool(difference.any()):
        return None
    return 0.5 * (difference + difference.T)


def _dense(K: Array, Sigma: Array, noise: float) -> float:
    difference = _difference(K, Sigma)
    if difference is None:
        return 0.0
    outer = noisy_factor("Sigma", Sigma, noise)
    half = outer.solve_lower(difference)
    del difference
    E = outer.solve_lower(half.T)
    del half
    return _from_whitened(E, lambda: noisy_factor("K", K, noise).logdet, outer)


def _from_whitened(E: Array, log_det_exact: Callable[[], float], outer: Cholesky) -> float:
    """½[Tr E − log|I + E|]; if I + E is nearly singular, log|I + E| is computed as log|Σ₁| − log|Σ₂|."""
    xp = namespace(E)
    E = xp.ascontiguousarray(E)
    values = host(diagonal(E)).copy()
    diagonal(E)[...] += 1.0
    try:
        L = xp.ascontiguousarray(cholesky(E, name="I + E").L)
    except NotPositiveDefinite:
        pivots = None
    else:
        diagonal(L)[...] = 0.0
        squares = host(xp.einsum("ij,ij->i", L, L))
        pivots = values - squares
    if pivots is None or pivots.min() < _SINGULAR - 1.0:
        return float(0.5 * (values.sum() + outer.logdet - log_det_exact()))
    return float(0.5 * (squares.sum() + log1p_residual(pivots).sum()))


# Regression with given features: log p(y) and predictions of y ~ N(0, ΞΞᵀ + σ²I) in O(Nr²).


@within_doubles
def log_evidence(features: ArrayLike | Array, y: ArrayLike | Array, *, noise: float) -> float:
    """log N(y; 0, ΞΞᵀ + σ²I) in nats, summed over outputs, from features Ξ of any rank r.

    With B = σ²I + ΞᵀΞ, w = B⁻¹Ξᵀy and e = y − Ξw,

        log p(y) = −½[|e|²/σ² + |w|² + (N − r) log σ² + log|B| + N log 2π]:

    yᵀ(ΞΞᵀ + σ²I)⁻¹y is a sum of squares, without the cancellation of |y|² − yᵀΞw.  Claims L-02, L-03, L-12.
    O(Nr²) time.

    Parameters
    ----------
    features : array (N, r), NumPy or CuPy
        Ξ.
    y : array (N,) or (N, P)
    noise : float
        σ² > 0, in squared units of y.

    Raises
    ------
    ValueError, NonFinite
        for wrong shapes, noise <= 0, NaN or infinity.
    NotPositiveDefinite
        if B/σ² does not factorise.

    >>> round(log_evidence([[1.0], [0.5]], [1.0, -0.5], noise=0.1), 6)
    -5.003303
    """
    Xi, targets, q, s2 = _law(features, y, noise)
    Y = targets.reshape(len(Xi), -1)
    e = Y - Xi @ q.mean
    fit = float((e * e).sum()) / s2 + float((q.mean * q.mean).sum())
    return -0.5 * (Y.shape[1] * (q.chol.logdet + len(Xi) * math.log(2.0 * math.pi * s2)) + fit)


@kind_of_caller
@within_doubles
def predict(
    features: ArrayLike | Array,
    y: ArrayLike | Array,
    features_new: ArrayLike | Array,
    *,
    noise: float,
    full_cov: bool = False,
    noisy: bool = False,
) -> tuple[Array, Array]:
    """Mean φ*ᵀw and latent variance σ²φ*ᵀB⁻¹φ* at new rows φ*, given y ~ N(0, ΞΞᵀ + σ²I).

    Claims L-02, L-03, L-12.

    Parameters
    ----------
    features, y, noise : as in `log_evidence`
    features_new : array (N*, r)
        φ*.
    full_cov : bool
        True returns the covariance (N*, N*) instead of the variances (N*,); all outputs share it.
    noisy : bool
        True adds σ² to the variances.

    Returns
    -------
    mean : array (N*,), or (N*, P) where y was (N, P)
    variance : array (N*,), or covariance (N*, N*)

    Raises
    ------
    ValueError, NonFinite, NotPositiveDefinite
        as in `log_evidence`.

    >>> [part.round(6).tolist() for part in predict([[1.0], [0.5]], [1.0, -0.5], [[2.0]], noise=0.1)]
    [[1.111111], [0.296296]]
    """
    flag("full_cov", full_cov)
    flag("noisy", noisy)
    Xi, targets, q, s2 = _law(features, y, noise)
    new = _matrix("features_new", features_new)
    xp, shape = namespace(Xi, new), tuple(new.shape)
    if shape[1] != Xi.shape[1]:
        raise ValueError(f"features_new: expected shape (N*, {Xi.shape[1]}), as features have, got {shape}")
    V = new.T
    mean, spread = q.joint(V, xp.zeros((shape[0],) * 2)) if full_cov else q.moments(V, xp.zeros(shape[0]))
    if noisy:
        spread = spread + (s2 * xp.eye(shape[0]) if full_cov else s2)
    return (mean[:, 0] if targets.ndim == 1 else mean), spread


def _law(features: ArrayLike | Array, y: ArrayLike | Array, noise: float) -> tuple[Array, Array, GramLaw, float]:
    """Ξ, y, the posterior of the weights of the features, and σ²."""
    s2, Xi = noise_variance(noise), _matrix("features", features)
    targets = as_targets(y, Xi)
    Y, G = targets.reshape(len(Xi), -1), gram(Xi) / s2
    if strong(G):
        rows = namespace(Xi).concatenate([Xi, Y], axis=1) / math.sqrt(s2)
        return Xi, targets, root_law(G, rows), s2
    return Xi, targets, gram_law(G, Xi.T @ Y / s2), s2


def _matrix(name: str, values: ArrayLike | Array) -> Array:
    return finite_matrix(name, values, "shape (N, r) with r >= 1")


# Prop. 1: upper bounds on KL from an order between Σ₁ and Σ₂, each in its corrected, sharpest and printed form.
#
# All follow from one extremal spectrum.  Let 1 + e_i be the eigenvalues of Σ₂⁻¹Σ₁, φ(e) = e − log(1 + e), g = γ/(1 +
# γ): KL = ½Σφ(e_i), (1 + γ)Σ₁ ⪰ Σ₂ says e_i ≥ −g, and a convex function on {e_i ≥ −g, Σe_i = x} is greatest at a
# corner, where all e_i but one are −g: KL ≤ ½[(N − 1) φ(−g) + φ(x + (N − 1)g)].  A sum e that cancels is taken at both
# ends of its rounding, as φ is convex, or at −g ≤ e; what is left errs by a few units in the last place, to either
# side.

Rule = Literal["sharpest", "corrected", "printed"]
KL = "KL(N(0, Σ₁)‖N(0, Σ₂))"
ORDER = "(1 + γ)Σ₁ ⪰ Σ₂, both positive definite."
_NOISY = "Σ₁ = K₁ + σ²I and Σ₂ = K₂ + σ²I with K₁, K₂ positive semi-definite."
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
    x, size, c = broadcast(excess=finite("excess", excess), N=whole("N", N), gamma=non_negative("gamma", gamma))
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
    c, size = broadcast(gamma=non_negative("gamma", gamma), N=whole("N", N))
    per_datum = c if form == "printed" else 0.5 * log1p_residual(c)
    with np.errstate(over="ignore"):
        return _bound(
            size * per_datum, "L-07", {"per datum": per_datum}, "(1 + γ)Σ₁ ⪰ Σ₂ ⪰ Σ₁/(1 + γ), positive definite."
        )


@within_doubles
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
    t1, t2, size, s2, c, smallest = broadcast(
        trace1=non_negative("trace1", trace1),
        trace2=non_negative("trace2", trace2),
        N=whole("N", N),
        noise=positive("noise", noise),
        gamma=non_negative("gamma", gamma),
        least=non_negative("least", least),
    )
    g = c / (1.0 + c)
    with np.errstate(over="ignore"):
        excess = (t1 - t2) + g * (t2 + size * s2)
    if (excess < -1e-12 * (t1 + t2 + size * s2)).any():
        raise ValueError(
            "trace1, trace2: expected Tr Σ₁ >= Tr Σ₂/(1 + gamma), which the order implies, got a smaller Tr Σ₁"
        )
    if rule == "sharpest":
        with np.errstate(over="ignore"):
            least_term, top = _floor(c), np.maximum(excess, 0.0) / (s2 + smallest)
        off = 8.0 * EPS * ((np.abs(t1 - t2) + g * (t2 + size * s2)) / (s2 + smallest) + g)
        terms = {
            "trace": np.maximum(least_term, 0.5 * log1p_residual(np.maximum(top - g + off, -g))),
            "order": (size - 1) * least_term,
        }
        return _bound(sum(terms.values()), "L-08", terms, ORDER, _NOISY)
    sign = -1.0 if rule == "corrected" else 1.0
    terms = {"trace": 0.5 * (t1 - (1.0 + sign * c) * t2) / s2, "order": 0.5 * c * size}
    return _bound(sum(terms.values()), "L-08", terms, ORDER, _NOISY, *((FALSE,) if rule == "printed" else ()))


@within_doubles
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
    tau, s2, smallest = broadcast(
        residual=non_negative("residual", residual),
        noise=positive("noise", noise),
        least=non_negative("least", least),
    )
    with np.errstate(over="ignore"):
        x = tau / s2 if form == "printed" else tau / (s2 + smallest)
    value = 0.5 * x if form == "printed" else 0.5 * log1p_residual(x)
    return _bound(value, "L-09", {"ratio": x}, "K₁ - K₂ and K₂ are positive semi-definite.", _NOISY)


@within_doubles
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


# KL as a function of the rank, for leading columns of one matrix of features.


@kind_of_caller
@within_doubles
def kl_by_rank(K: ArrayLike, features: ArrayLike, ranks: ArrayLike, *, noise: float, scales: ArrayLike = 1.0) -> Float:
    """KL(N(0, K + σ²I)‖N(0, c_r Ξ_rΞ_rᵀ + σ²I)) in nats for many r, Ξ_r the first r columns of the features Ξ.

    With A = ΞᵀΞ, G = ΞᵀKΞ, B = σ²I_r + c A_rr (Woodbury, L-02, L-03):

    2KL = [Tr K − c Tr B⁻¹G_rr]/σ² − c Tr B⁻¹A_rr + log|σ²I_r + cA_rr| − r log σ² − log|I + K/σ²|.

    Claims L-02, L-03, L-11.  One Cholesky factor of K + σ²I and one product KΞ serve all ranks; each rank then costs
    O(r³).  The result is a difference of sums of size Tr K/σ², with an error of at most about
    1e-15·Tr K·λ_max(Sigma)/σ⁴ nats.  If KL is that small, use `kl_features`.

    Parameters
    ----------
    K : array (N, N), NumPy or CuPy
    features : array (N, R)
        Ξ, on the same device.
    ranks : whole number or array of them
        In 1 … R.
    noise : float
        σ² > 0.
    scales : float or array, optional
        c_r > 0, broadcast with ``ranks``: 1/m for m random features whose squares are averaged.

    Returns
    -------
    array of the shape of ranks

    Raises
    ------
    ValueError, NonFinite, NotPositiveDefinite
        as in `kl`; for ranks outside 1 … R.

    >>> K = np.array([[1.0, 0.5], [0.5, 1.0]])
    >>> kl_by_rank(K, np.linalg.cholesky(K), [1, 2], noise=0.1).round(6) + 0.0
    array([2.074726, 0.      ])
    """
    s2 = noise_variance(noise)
    exact = symmetric_matrix("K", K)
    factor = as_features(features, exact.shape[0])
    namespace(exact, factor)
    wanted = whole("ranks", ranks).astype(np.int64)
    if wanted.size and wanted.max() > factor.shape[1]:
        raise ValueError(f"ranks: expected at most {factor.shape[1]}, the number of features, got {wanted.max()}")
    many, constants = broadcast(ranks=wanted, scales=positive("scales", scales))
    prefixes = SumsByRank.of(exact, factor[:, : int(many.max(initial=1))], s2)
    divergences = [prefixes.kl(int(r), float(c)) for r, c in zip(many.ravel(), constants.ravel(), strict=True)]
    return np.array(divergences).reshape(many.shape)


@dataclass(frozen=True)
class SumsByRank:
    """Sums over K and all features, from which `kl_by_rank` computes the divergence at each rank.

    Attributes
    ----------
    gram, weighted : arrays (R, R)
        ΞᵀΞ/σ², ΞᵀKΞ/σ⁴.
    trace, log_det : float
        Tr K/σ², log|I + K/σ²|.
    """

    gram: Array
    weighted: Array
    trace: float
    log_det: float

    @classmethod
    def of(cls, K: Array, features: Array, noise: float, *, log_det: float | None = None) -> SumsByRank:
        """Compute the sums from K (N, N) and Ξ (N, R); ``log_det`` is log|I + K/σ²| if the caller knows it."""
        xp = namespace(K, features)
        if log_det is None:
            log_det = noisy_factor("K", K, noise).logdet - K.shape[0] * float(np.log(noise))
        weighted = features.T @ (K @ features) / noise**2
        return cls(features.T @ features / noise, weighted, float(xp.trace(K)) / noise, log_det)

    def kl(self, rank: int, scale: float = 1.0) -> float:
        """KL(N(0, K + σ²I)‖N(0, c Ξ_rΞ_rᵀ + σ²I)), c = ``scale``, by the first r columns."""
        xp = namespace(self.gram)
        A, G = scale * self.gram[:rank, :rank], scale * self.weighted[:rank, :rank]
        inner = cholesky(xp.eye(rank) + A, name="I + ΞᵀΞ/σ² of the features")
        explained = float((inner.solve_lower(xp.eye(rank)) * inner.solve_lower(A + G)).sum())
        return 0.5 * (self.trace - explained + inner.logdet - self.log_det)
