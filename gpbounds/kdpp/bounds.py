"""Upper bounds on expectations of the residual Δ_Z = K − Q_Z under a k-DPP."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from gpbounds.arrays import Float
from gpbounds.bound import Bound
from gpbounds.enclosures import kdpp as enclosures
from gpbounds.kdpp.esp import checked
from gpbounds.kdpp.expectations import balls, defined_sizes, expected_trace, log_expected_determinant, rest_sizes
from gpbounds.numerics.scalars import trace_term
from gpbounds.rigor import exact, outer, rigor_of
from gpbounds.validation import choice, closed_unit, non_negative, order, positive, whole

_K_DPP = "The inducing points are a k-DPP sample of the data: P(Z) ∝ |K_ZZ|."


def expected_logdet_bound(
    eigenvalues: ArrayLike,
    M: ArrayLike,
    alpha: ArrayLike,
    form: str = "sharpest",
    *,
    noise: ArrayLike,
    rigor: str = "auto",
) -> Bound:
    """Upper bound on the mean of −log C_x = (α/(2β)) log|I + (β/σ²)(K − Q)|, β = 1 − α, under the k-DPP.

    trace        E_Z[−log C_x] ≤ g_n((M+1)e_{M+1}/e_M),  g_n(T) = (αn/(2β)) log(1 + βT/(nσ²)),  n = rank K − M
    determinant  E_Z[−log C_x] ≤ (α/(2β)) log Σ_j (β/σ²)^j C(M+j, j) e_{M+j}/e_M
    printed      E_Z[−log C_x] ≤ g_N((M+1) Σ_{m>M} λ_m)

    Hypotheses: Z ⊂ X, P(Z) ∝ |K_ZZ|, |Z| = M ≤ rank K, α in (0, 1], σ² > 0.  Ledger: R-lem3c (000 and 003, display
    after Lemma 3/13) and its limit R-lem3c-1 at α = 1, where the trace and the determinant form equal E_Z Tr Δ/(2σ²).
    The determinant form is an equality where |I + βΔ/σ²| is the same for all Z (exchangeable points, K = aI + b11ᵀ),
    the trace form if in addition Δ has n equal eigenvalues (K = aI).

    Parameters
    ----------
    eigenvalues : array (N,)
        All eigenvalues of K, ≥ 0, in squared units of y.
    M : int or array of int
        0 ≤ M ≤ rank K.
    alpha : float or array
        Rényi order in (0, 1].
    form : "sharpest" or "printed"
        "sharpest" is the smaller of the trace and the determinant form; ``terms`` holds both.
    noise : float or array
        Noise variance σ² > 0.  M, alpha and noise broadcast.
    rigor : "auto", "float" or "sharp"
        "sharp": the value and its terms are doubles above Arb balls of the formulas, by construction, and the bound is
        certified.  "float" is not certified.

    Raises
    ------
    ValueError
        where M exceeds the number of nonzero eigenvalues, or an argument is out of range.

    >>> round(float(expected_logdet_bound([3.0, 2.0, 1.0], 1, 0.5, noise=1.0)), 6)
    0.638147
    """
    choice("form", form, ("sharpest", "printed"))
    values = checked(eigenvalues)
    sizes, variances, orders = np.broadcast_arrays(
        defined_sizes(values, M), positive("noise", noise), order("alpha", alpha)
    )
    terms: dict[str, Any] = {}
    proved = rigor_of(rigor) == "sharp"
    if proved:
        terms = _forms_upwards(values, form, sizes, orders, variances)
        value = np.minimum.reduce(list(terms.values()))
    elif form == "printed":
        tails = np.append(np.cumsum(np.sort(values))[::-1], 0.0)
        terms["printed"] = trace_term((sizes + 1) * tails[sizes], values.size, orders, noise=variances)
        value = terms["printed"]
    else:
        free = np.maximum((values > 0).sum() - sizes, 1)  # at M = rank K the trace is 0, so n may be anything
        terms["trace"] = trace_term(expected_trace(values, sizes), free, orders, noise=variances)
        beta = 1.0 - orders
        log_mean = log_expected_determinant(values, sizes, beta / variances)
        limit = expected_trace(values, sizes) / variances
        with np.errstate(divide="ignore", invalid="ignore"):
            # below 1e-290 the sum over j underflows; its logarithm over β is E Tr Δ/σ² to double precision there
            slope = np.where(beta * limit < 1e-290, limit, log_mean / beta)
        terms["determinant"] = 0.5 * orders * slope
        value = np.minimum(terms["trace"], terms["determinant"])
    terms = {name: term if np.ndim(term) else float(term) for name, term in terms.items()}
    return Bound(
        value if np.ndim(value) else float(value),
        "upper",
        1.0,
        "R-lem3c",
        terms=terms,
        assumptions=(_K_DPP,),
        certified=proved,
        quantity="E_Z[-log C_x]",
    )


def _forms_upwards(values: Float, form: str, sizes: Any, orders: Any, variances: Any) -> dict[str, Any]:
    """The terms of `expected_logdet_bound`, each rounded upwards."""
    forms = {"trace": enclosures.trace_form, "determinant": enclosures.determinant_form}
    some = balls(values)
    if form == "printed":
        forms, some = {"printed": enclosures.printed_form}, [exact(x) for x in np.sort(values)[::-1].tolist()]
    return {
        name: outer(lambda m, a, s2, term=term: term(some, m, a, exact(s2)), sizes, orders, variances)
        for name, term in forms.items()
    }


def trace_bound(tails: ArrayLike, M: ArrayLike, form: str = "sharpest", *, rigor: str = "auto") -> Bound:
    """Upper bound on the mean of Tr(K − Q) under the k-DPP, from the tails of the spectrum alone.

    E_Z Tr(K − Q_Z) ≤ min_{0≤k≤M} (M+1)/(M+1−k) · Σ_{m>k} λ_m;   printed: k = M, the bound (M+1) Σ_{m>M} λ_m

    Hypotheses: Z ⊂ X, P(Z) ∝ |K_ZZ|, |Z| = M ≤ rank K.  Ledger: R-lem3 (000 Lemma 3, 003 Lemma 13).  For each k the
    bound becomes an equality in the limit of k dominant eigenvalues and a long flat rest; for polynomial spectra k ≈
    M/2 removes the factor M.  Upper bounds on the tails may be given instead of the tails.  With tails N·Σ_{m>k} λ_m
    of the integral operator it bounds E_X E_Z Tr for N iid inputs: R-samp, the ``t_GS`` of the theorems.

    Parameters
    ----------
    tails : array (≥ max M + 1,)
        tails[k] = Σ_{m>k} λ_m, in squared units of y; tails[0] is the trace.
    M : int or array of int
        Number of inducing points, ≥ 0.
    form : "sharpest" or "printed"
    rigor : "auto", "float" or "sharp"
        "sharp": the value is the double above an Arb ball of the formula for these tails, by construction, and the
        bound is certified.

    Returns
    -------
    Bound
        ``terms["k"]`` is the k at which the minimum is attained.

    Raises
    ------
    ValueError
        on tails that are negative, increasing or too short.

    >>> bound = trace_bound([6.0, 3.0, 1.0, 0.0], 2)
    >>> bound.value, bound.terms["k"]
    (3.0, 2)
    """
    choice("form", form, ("sharpest", "printed"))
    sums = non_negative("tails", tails)
    sizes = whole("M", M, 0).astype(np.int64)
    longest = int(sizes.max(initial=0))
    if sums.ndim != 1 or sums.size <= longest:
        raise ValueError(f"tails: expected shape (n,) with n >= {longest + 1}, tails 0 ... M, got {sums.shape}")
    if (np.diff(sums[: longest + 1]) > 0).any():
        raise ValueError(
            "tails: expected a non-increasing array, Σ_{m>k} λ_m for k = 0, 1, ..., got one that increases"
        )
    proved = rigor_of(rigor) == "sharp"
    value, best = np.empty(sizes.shape), np.empty(sizes.shape, dtype=np.int64)
    for index in np.ndindex(sizes.shape):
        m = int(sizes[index])
        candidates = (m + 1) / (m + 1.0 - np.arange(m + 1)) * sums[: m + 1]
        best[index] = m if form == "printed" else np.argmin(candidates)
        value[index] = candidates[best[index]]
    if proved:  # for the k that doubles choose, as any k gives a bound
        value = outer(lambda m, k, tail: enclosures.gauss_schmidt(exact(tail), m, k), sizes, best, sums[best])
    return Bound(
        value if sizes.ndim else float(value),
        "upper",
        1.0,
        "R-lem3",
        terms={"k": best if sizes.ndim else int(best)},
        assumptions=(_K_DPP,),
        certified=proved,
        quantity="E_Z Tr(K - Q)",
    )


def tv_term(N: ArrayLike, M: ArrayLike, variance: ArrayLike, tv: ArrayLike, form: str = "sharpest") -> Any:
    """Upper bound on the increase of the mean of Tr(K − Q) if Z is drawn from an approximate k-DPP ν.

    E_{Z~ν} Tr(K − Q_Z) ≤ E_{Z~k-DPP} Tr(K − Q_Z) + (N−M)·v·tv;   printed: 2N·v·tv

    Hypotheses: Z ⊂ X under ν, k(x, x) ≤ v at the data, sup_A |ν(A) − μ(A)| ≤ tv with μ the k-DPP (if your tv bounds
    Σ_Z |ν(Z) − μ(Z)| instead, pass half of it).  Ledger: R-cor1 (000 Cor. 1, 003 Cor. 14, where ε is not defined). The
    constant 1 is attained in the limit N → ∞ by K = 1_{N−1}1ᵀ ⊕ 1, M = 1: max T − min T = N − 2.

    Parameters
    ----------
    N, M : int or array of int
        Number of data and of inducing points, 0 ≤ M ≤ N.
    variance : float or array
        v > 0, in squared units of y.
    tv : float or array
        Total-variation distance in [0, 1].  All broadcast.
    form : "sharpest" or "printed"

    >>> tv_term(100, 10, variance=2.0, tv=1e-3)
    0.18
    """
    choice("form", form, ("sharpest", "printed"))
    points, rest = np.broadcast_arrays(whole("N", N), rest_sizes(N, M))
    scale = positive("variance", variance) * closed_unit("tv", tv)
    result = rest * scale if form == "sharpest" else 2.0 * (points * scale)
    return result if np.ndim(result) else float(result)
