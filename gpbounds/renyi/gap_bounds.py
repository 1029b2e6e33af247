"""Bounds on the Rényi gap of one data set: by the spectrum or the trace of K − Q, and before any Z is chosen."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from gpbounds.arrays import Float
from gpbounds.bound import Bound
from gpbounds.kernels import Kernel
from gpbounds.psd import Jitter
from gpbounds.renyi.gaps import Gap, gap_record
from gpbounds.renyi.residual import as_targets, noise_variance, whiten
from gpbounds.renyi.scalars import F, F_hat, G, log1p_residual, psi, scaled_log1p, trace_term
from gpbounds.validation import choice, non_negative, order, whole

Form = Literal["sharpest", "printed"]
BEST = "q is the best approximation q* of order α, and the divergence is D_α[q*‖p(f, U | y)]."
ANY_Y = "y may be any vector, chosen in any way."
PRIOR_Y = "y is drawn from the prior, y ~ N(0, K + σ²I), with the kernel and the noise that are used."


def _order(alpha: float) -> float:
    checked = order("alpha", alpha)
    if checked.ndim:
        raise ValueError(f"alpha: expected one number, got shape {checked.shape}")
    return float(checked)


def _pair(
    quantity: str, lower: tuple[float, str], upper: tuple[float, str], terms: dict[str, float], y: str
) -> tuple[Bound, Bound]:
    assumptions = (BEST, y)
    return (
        Bound(lower[0], "lower", 1.0, lower[1], {}, assumptions, quantity=quantity),
        Bound(upper[0], "upper", 1.0, upper[1], terms, assumptions, quantity=quantity),
    )


def gap(
    kernel: Kernel,
    X: ArrayLike,
    y: ArrayLike,
    Z: ArrayLike,
    noise: float,
    alpha: float,
    *,
    jitter: Jitter = 0.0,
    form: Form = "sharpest",
) -> tuple[Bound, Bound]:
    """Lower and upper bound on the gap D_α(y) = D_α[q*‖p(f, U | y)] that hold for every y.

    Σ G(d_i) ≤ D_α(y) ≤ L_det − ½ log(1 + αTr(Ξ⁻¹Δ)) + ½ yᵀ(σ²I + Q)⁻¹y · ψ(λ/σ²),

    d = eigenvalues of Δ/σ², Δ = K − Q, λ = λ_max(Δ), L_det = (α/(2β)) Σ log(1 + βd_i).

    Claims R-gap (N-G) and R-lem4 (N-psi; Yue & Kontar, Rényi divergence objective, Lemma 4), 0 < α ≤ 1.  The lower one
    is attained at y = 0 when QΔ = 0, the upper one when Δ and Q are disjoint, Δ has rank one and y is along it, with
    d ≤ 1/√β.  ψ ≤ (1−√β)/(1+√β): the price of y saturates.  ``form="printed"`` gives L_det + ‖y‖²αT/(σ⁴ + ασ²T).

    Parameters
    ----------
    kernel : Kernel
    X : array (N, D)
    y : array (N,)
    Z : array (M, D)
    noise : float
        σ², in squared units of y.
    alpha : float
        Order in (0, 1].
    jitter : float or "auto"
        On Kuu; the bounds are then on the gap of that approximation.
    form : "sharpest" or "printed"

    Returns
    -------
    (Bound, Bound)
        Lower, upper.

    Raises
    ------
    ValueError
        for wrong arguments.
    NotPositiveDefinite
        when Kuu or Ξ does not factorise.

    >>> from gpbounds.kernels import SquaredExponential
    >>> lower, upper = gap(SquaredExponential(), [0.0, 1.0, 2.0], [1.0, 0.5, -0.5], [0.0, 2.0], 0.1, 0.5)
    >>> round(float(lower), 4), round(float(upper), 4)
    (0.2609, 0.4382)
    """
    form_ = choice("form", form, ("sharpest", "printed"))
    found = gap_record(kernel, X, Z, noise, _order(alpha), jitter)
    record, s2, a = found.record, found.noise, found.alpha
    targets = as_targets(y, record.N)
    log_det = record.log_det_term(s2, a)
    lower = float(G(record.eigenvalues / s2, a).sum())
    if form_ == "printed":
        fit = float(targets @ targets) * a * record.trace / (s2 * (s2 + a * record.trace))
        terms = {"log-determinant": log_det, "targets": fit}
        return _pair("D_α[q*‖p]", (lower, "R-gap"), (log_det + fit, "R-lem4"), terms, ANY_Y)
    less = float(0.5 * np.log1p(found.w.sum()))
    fit = 0.5 * record.quadratic(targets, s2) * float(psi(record.largest / s2, a))
    terms = {"log-determinant": log_det, "determinant of I + αΞ⁻¹Δ": -less, "targets": fit}
    return _pair("D_α[q*‖p]", (lower, "R-gap"), (log_det - less + fit, "R-lem4"), terms, ANY_Y)


def gap_from_trace(
    kernel: Kernel, X: ArrayLike, y: ArrayLike, Z: ArrayLike, noise: float, alpha: float, *, jitter: Jitter = 0.0
) -> Bound:
    """Upper bound on the gap D_α(y) in O(NM²) time and O(NM) memory: K is never formed.

    D_α(y) ≤ g_n(T) + ½ yᵀ(σ²I + Q)⁻¹y · ψ(T/σ²), g_n(T) = (αn/(2β)) log(1 + βT/(nσ²)), T = Tr(K − Q).

    Claim R-lem4 (all-O(NM²) form), 0 < α ≤ 1; n = number of distinct rows of X that are not in Z (N when jitter > 0).
    Never below the upper bound of `gap`; 0 when Z = X.  Parameters and errors as there.

    >>> from gpbounds.kernels import SquaredExponential
    >>> X, y = [0.0, 1.0, 2.0], [1.0, 0.5, -0.5]
    >>> round(float(gap_from_trace(SquaredExponential(), X, y, [0.0, 2.0], 0.1, 0.5)), 4)
    0.6527
    """
    a, s2 = _order(alpha), noise_variance(noise)
    base = whiten(kernel, X, Z, jitter)
    targets = as_targets(y, base.N)
    T = float(base.residual_diagonal(kernel).sum())
    log_det = float(trace_term(T, max(base.rank, 1), s2, a))
    fit = 0.5 * base.quadratic(targets, s2) * float(psi(T / s2, a))
    terms = {"g_n(T)": log_det, "targets": fit, "T": T, "n": base.rank}
    return Bound(log_det + fit, "upper", 1.0, "R-lem4", terms, (BEST, ANY_Y), quantity="D_α[q*‖p]")


def expected_gap_bounds(
    kernel: Kernel,
    X: ArrayLike,
    Z: ArrayLike,
    noise: float,
    alpha: float,
    *,
    jitter: Jitter = 0.0,
    form: Form = "sharpest",
) -> tuple[Bound, Bound]:
    """Lower and upper bound on E_y D_α, the gap averaged over y from the prior.

    L_det ≤ E_y D_α ≤ least of: Σ F(d_i) (spectrum of Δ alone; equality when QΔ = 0); L_det + ½[W − log(1 + W)],
    W = αTr(Ξ⁻¹Δ); n F̂(T/(nσ²)) (trace alone); α(T/σ² − ½ Σ log(1 + d_i)) (concavity in α).

    Claims R-lem2, N-F, N-Fhat, N-W, N-conc (Yue & Kontar, Rényi divergence objective, Lemma 2), 0 < α ≤ 1.  All four
    are among ``terms``.  ``form="printed"`` gives L_det + αT/(2σ²).  `expected_gap` is the exact value.

    Parameters
    ----------
    kernel, X, Z, noise, alpha, jitter : as in `gap`
    form : "sharpest" or "printed"

    Returns
    -------
    (Bound, Bound)
        Lower, upper.

    Raises
    ------
    ValueError, NotPositiveDefinite
        as in `gap`.

    >>> from gpbounds.kernels import SquaredExponential
    >>> lower, upper = expected_gap_bounds(SquaredExponential(), [0.0, 1.0, 2.0], [0.0, 2.0], 0.1, 0.5)
    >>> round(float(lower), 4), round(float(upper), 4)
    (0.5076, 0.5609)
    """
    form_ = choice("form", form, ("sharpest", "printed"))
    found = gap_record(kernel, X, Z, noise, _order(alpha), jitter)
    record, s2, a = found.record, found.noise, found.alpha
    log_det = record.log_det_term(s2, a)
    if form_ == "printed":
        terms = {"log-determinant": log_det, "trace": 0.5 * a * record.trace / s2}
        value = log_det + terms["trace"]
    else:
        terms = _expected_terms(found, log_det)
        value = min(terms.values())
    return _pair("E_y D_α[q*‖p]", (log_det, "R-lem2"), (value, "R-lem2"), terms, PRIOR_Y)


def _expected_terms(found: Gap, log_det: float) -> dict[str, float]:
    record, s2, a = found.record, found.noise, found.alpha
    d = record.eigenvalues / s2
    n = max(record.rank, 1)
    return {
        "spectrum: Σ F(d_i)": float(F(d, a).sum()),
        "W: L_det + ½[W − log(1 + W)]": log_det + float(0.5 * log1p_residual(found.w.sum())),
        "trace: n F̂(T/(nσ²))": n * float(F_hat(record.trace / (n * s2), a)),
        "concavity: α(T/σ² − ½ Σ log(1 + d_i))": a * float(0.5 * (d + log1p_residual(d)).sum()),
    }


def minimum_gap(
    eigenvalues: ArrayLike, M: ArrayLike, noise: float, alpha: float, y: Literal["any", "prior"] = "any"
) -> Float:
    """The gap that no choice of M inducing variables can beat, from the eigenvalues of K alone.

    y = "any":    D_α(y) ≥ Σ_i G(λ_(M+i)(K)/σ²), for every y.
    y = "prior":  E_y D_α ≥ (α/(2β)) Σ_i log(1 + βλ_(M+i)(K)/σ²), for y ~ N(0, K + σ²I).

    Claim N-low, 0 < α ≤ 1; y = "any" is attained by the M leading eigenvectors of K as inducing variables, at y = 0.
    All M are read from one cumulative sum.

    Parameters
    ----------
    eigenvalues : array
        Of K, in squared units of y, in any order; those left out count as 0, which keeps the bound valid.
    M : whole number or array of them, >= 0
    noise : float
        σ², in squared units of y.
    alpha : float
        Order in (0, 1].
    y : "any" or "prior"

    Returns
    -------
    array of the shape of M

    Raises
    ------
    ValueError
        for wrong arguments.

    >>> minimum_gap([4.0, 2.0, 1.0], [0, 1, 2, 3], 0.5, 1.0, y="prior")
    array([7., 3., 1., 0.])
    """
    choice("y", y, ("any", "prior"))
    a, s2, counts = _order(alpha), noise_variance(noise), whole("M", M, 0)
    values = non_negative("eigenvalues", eigenvalues)
    if values.ndim != 1:
        raise ValueError(f"eigenvalues: expected shape (N,), got {values.shape}")
    ratios = np.sort(values) / s2
    each = G(ratios, a) if y == "any" else 0.5 * a * scaled_log1p(ratios, 1.0 - a)
    tails = np.concatenate([[0.0], np.cumsum(each)])
    left = values.size - np.minimum(counts, values.size)
    return tails[left.astype(np.int64)]
