"""Exact expectations of the residual Δ_Z = K − Q_Z under a k-DPP.

Z is a random set of M data points with P(Z) ∝ |K_ZZ|; e_j are the elementary symmetric polynomials of K's eigenvalues.
"""

from __future__ import annotations

from math import log
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from gpbounds.arrays import Float, as_number, kind_of_caller
from gpbounds.bound import Bound
from gpbounds.kdpp import balls as enclosures
from gpbounds.kdpp.esp import Exponent, checked, descending, scaled_cumprod, scaled_esp, undefined_size
from gpbounds.numerics.scalars import trace_term
from gpbounds.overflow import within_doubles
from gpbounds.rigor import exact, outer
from gpbounds.validation import broadcast, choice, closed_unit, non_negative, order, positive, rigor_of, whole

_LOG_2 = log(2.0)


@kind_of_caller
def expected_trace(eigenvalues: ArrayLike, M: ArrayLike, *, rigor: str = "auto") -> Any:
    """The exact mean of Tr(K − Q) when the M inducing points are a k-DPP sample of the data.

    E_Z Tr(K − Q_Z) = (M+1) e_{M+1}(λ) / e_M(λ)

    Hypotheses: Z ⊂ X, P(Z) ∝ |K_ZZ|, |Z| = M ≤ rank K.  Ledger: R-lem3 (000 Lemma 3, 003 Lemma 13 bound it by
    (M+1) Σ_{m>M} λ_m).  An equality.  One pass in O(N max M) gives the
    values for all M.

    In doubles the relative error is at most (4N + 16M + 40)·2^−53, N the number of eigenvalues > 0: e_j is a sum of
    products of positive numbers, in which at most N + 4j + 4 roundings follow each other (N sums, for each factor a
    quotient, a product and its part in λ_1⋯λ_j), and a summand that underflows is below 2^−1000 of its sum; the ratio
    has three more.

    Parameters
    ----------
    eigenvalues : array (N,)
        All eigenvalues of K, ≥ 0 up to rounding, in squared units of y; the rank is the number of nonzero ones.
    M : int or array of int
        Number of inducing points, 0 ≤ M ≤ rank.
    rigor : "auto", "float" or "sharp"
        "sharp" rounds upwards, by construction: the value is the double above an Arb ball of the formula, for the
        eigenvalues that these doubles are.  At N = 1000, M = 200 it takes 0.1 s.

    Returns
    -------
    float, or array of M's shape
        In squared units of y; 0 if M is the rank.

    Raises
    ------
    ValueError
        if M exceeds the number of nonzero eigenvalues: that k-DPP is undefined.

    >>> expected_trace([3.0, 2.0, 1.0], [0, 1, 3]).round(4)
    array([6.    , 3.6667, 0.    ])
    """
    values = checked(eigenvalues)
    sizes = _defined_sizes(values, M)
    if rigor_of(rigor) == "sharp":
        return as_number(outer(lambda m: enclosures.mean_esp(balls(values), m), sizes))
    mantissa, exponent = scaled_esp(values, int(sizes.max(initial=0)) + 1)
    ratio = np.ldexp(mantissa[sizes + 1] / mantissa[sizes], exponent[sizes + 1] - exponent[sizes])
    with np.errstate(over="ignore"):
        result = (sizes + 1.0) * ratio
    return result if result.ndim else float(result)


@kind_of_caller
def expected_esp(eigenvalues: ArrayLike, M: ArrayLike, j: ArrayLike, *, rigor: str = "auto") -> Any:
    """The exact mean of the j-th elementary symmetric polynomial of Δ = K − Q_Z's eigenvalues under the k-DPP.

    E_Z e_j(Δ_Z) = C(M+j, j) e_{M+j}(λ) / e_M(λ)

    j = 1 is the trace, j = N − M the determinant of Δ's nonzero block.  Hypotheses and claim as
    :func:`expected_trace`: R-lem3.  An equality.

    Parameters
    ----------
    eigenvalues : array (N,)
        All eigenvalues of K, ≥ 0 up to rounding.
    M, j : int or array of int
        0 ≤ M ≤ rank, j ≥ 0; they broadcast.
    rigor : "auto", "float" or "sharp"
        "sharp" rounds upwards, by construction, as in :func:`expected_trace`.

    Returns
    -------
    float, or array of the broadcast shape
        In units of y to the power 2j; 0 if M + j exceeds the rank, inf beyond 1e308.

    Raises
    ------
    ValueError
        if M exceeds the number of nonzero eigenvalues.

    >>> round(expected_esp([3.0, 2.0, 1.0], 1, 2), 12)  # 3 * e_3 / e_1
    3.0
    """
    values = checked(eigenvalues)
    sizes, orders = broadcast(M=_defined_sizes(values, M), j=whole("j", j, 0).astype(np.int64))
    if rigor_of(rigor) == "sharp":
        return as_number(outer(lambda m, k: enclosures.mean_esp(balls(values), m, k), sizes, orders))
    mantissa, exponent = scaled_esp(values, int((sizes + orders).max(initial=0)))
    result = np.empty(sizes.shape)
    with np.errstate(over="ignore"):
        for index in np.ndindex(sizes.shape):
            terms, powers = _moments(mantissa, exponent, int(sizes[index]), int(orders[index]))
            result[index] = np.ldexp(terms[-1], powers[-1])
    return result if result.ndim else float(result)


@kind_of_caller
def log_expected_determinant(eigenvalues: ArrayLike, M: ArrayLike, c: ArrayLike, *, rigor: str = "auto") -> Any:
    """The exact log of the mean of |I + c(K − Q)| under the k-DPP.

    log E_Z |I + cΔ_Z| = log Σ_j c^j C(M+j, j) e_{M+j}(λ) / e_M(λ)

    Hypotheses and claim as :func:`expected_trace`: R-lem3.  An equality; by Jensen's inequality it is at
    least E_Z log|I + cΔ_Z|.  The summands are log-concave in j; the sum stops when the omitted summands add up to less
    than 2^−60 of it.

    Parameters
    ----------
    eigenvalues : array (N,)
        All eigenvalues of K, ≥ 0 up to rounding.
    M : int or array of int
        0 ≤ M ≤ rank.
    c : float or array
        ≥ 0, for instance (1 − α)/σ².  M and c broadcast.
    rigor : "auto", "float" or "sharp"
        "sharp" rounds upwards, by construction, as in :func:`expected_trace`, and adds all summands.

    Raises
    ------
    ValueError
        if M exceeds the number of nonzero eigenvalues, or c < 0.

    >>> round(log_expected_determinant([3.0, 2.0, 1.0], 1, 1.0), 6)  # log(1 + 22/6 + 3)
    2.036882
    """
    values = checked(eigenvalues)
    sizes, factors = broadcast(M=_defined_sizes(values, M), c=non_negative("c", c))
    if rigor_of(rigor) == "sharp":
        return as_number(
            outer(lambda m, f: enclosures.log_mean_determinant(balls(values), m, exact(f)), sizes, factors)
        )
    rank, count = int((values > 0).sum()), 32
    while True:
        k = min(rank, int(sizes.max(initial=0)) + count)
        mantissa, exponent = scaled_esp(values, k)
        sums = [_log_sum(mantissa, exponent, int(m), float(f)) for m, f in zip(sizes.flat, factors.flat, strict=True)]
        if k == rank or all(complete for _, complete in sums):
            result = np.array([value for value, _ in sums]).reshape(sizes.shape)
            return result if result.ndim else float(result)
        count *= 4


@kind_of_caller
def annealed_trace(eigenvalues: ArrayLike, N: ArrayLike, M: ArrayLike, *, rigor: str = "auto") -> Any:
    """The exact mean of Tr(K − Q) when Z is a continuous k-DPP and the other N − M inputs are iid.

    E Tr(K − Q) = (N−M)(M+1) e_{M+1}(λ) / e_M(λ),  λ the eigenvalues of f ↦ ∫ k(·, x) f(x) p(x) dx

    Hypotheses: Z has the density ∝ |K_ZZ| Π p(z_i); the other points are iid from p and independent of Z; the operator
    has finitely many eigenvalues, all given (finite input space or finite-rank kernel).  A truncated list gives a
    lower bound, since e_{M+1}/e_M increases with every further eigenvalue.  Ledger: N-dpp.  An equality.

    Parameters
    ----------
    eigenvalues : array
        Eigenvalues of the operator, in squared units of y.
    N, M : int or array of int
        Number of data, and of inducing points among them; 0 ≤ M ≤ N, M ≤ rank.
    rigor : "auto", "float" or "sharp"
        "sharp" rounds upwards, by construction, as in :func:`expected_trace`.

    Raises
    ------
    ValueError
        if M exceeds N or the number of nonzero eigenvalues.

    >>> round(annealed_trace([0.5, 0.3, 0.2], 10, 2), 6)  # 8 * 3 * 0.03 / 0.31
    2.322581
    """
    rest = _rest_sizes(N, M)
    if rigor_of(rigor) == "sharp":
        values = checked(eigenvalues)
        return as_number(
            outer(lambda n, m: int(n) * enclosures.mean_esp(balls(values), m), rest, _defined_sizes(values, M))
        )
    result = rest * expected_trace(eigenvalues, M)
    return result if np.ndim(result) else float(result)


def balls(values: Float) -> list[Any]:
    """The eigenvalues > 0 as exact numbers, decreasing."""
    return [exact(value) for value in descending(values).tolist()]


def _defined_sizes(values: Float, M: ArrayLike) -> Any:
    """M as an array of int64; refuse values above the number of nonzero eigenvalues."""
    sizes = whole("M", M, 0).astype(np.int64)
    rank = int((values > 0).sum())
    largest = int(sizes.max(initial=0))
    if largest > rank:
        raise undefined_size(largest, rank)
    return sizes


def _rest_sizes(N: ArrayLike, M: ArrayLike) -> Any:
    """N − M for whole numbers 0 ≤ M ≤ N."""
    data, chosen = broadcast(N=whole("N", N), M=whole("M", M, 0))
    rest = data - chosen
    if (rest < 0).any():
        raise ValueError(f"M: expected at most N inducing points among the data, got N = {N!r} and M = {M!r}")
    return rest


def _moments(mantissa: Float, exponent: Exponent, M: int, j_max: int, c: float = 1.0) -> tuple[Float, Exponent]:
    """c^j C(M+j, j) e_{M+j}/e_M for j = 0 … j_max as mantissa·2^exponent."""
    j = np.arange(1, j_max + 1)
    small, power = np.frexp(c)
    binomial, shift = scaled_cumprod(small * ((M + j) / j))
    terms = mantissa[M : M + j_max + 1] / mantissa[M]
    powers = exponent[M : M + j_max + 1] - exponent[M]
    terms[1:] *= binomial
    powers[1:] += shift + int(power) * j
    return terms, powers


def _log_sum(mantissa: Float, exponent: Exponent, M: int, c: float) -> tuple[float, bool]:
    """log Σ_j c^j C(M+j, j) e_{M+j}/e_M over the available j; whether the omitted terms are below 2^−60 of Σ_{j≥1}."""
    j_max = mantissa.size - 1 - M
    if c == 0.0 or j_max == 0:
        return 0.0, True
    terms, powers = _moments(mantissa, exponent, M, j_max, c)
    top = int(powers[1:].max())
    with np.errstate(over="ignore"):
        parts = np.ldexp(terms, powers - top)
    total = float(parts[1:].sum())
    # log-concave: once the ratio of neighbouring terms is at most 1/2, all later terms sum to less than the last one
    complete = parts[-1] <= 2.0**-60 * total and 2.0 * parts[-1] <= parts[-2]
    if top < 900:
        return float(np.log1p(np.ldexp(total, top))), bool(complete)
    return float(np.log(total) + top * _LOG_2), bool(complete)


# Upper bounds on expectations of the residual Δ_Z = K − Q_Z under a k-DPP.

_K_DPP = "The inducing points are a k-DPP sample of the data: P(Z) ∝ |K_ZZ|."


@within_doubles
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
        All eigenvalues of K, ≥ 0 up to rounding, in squared units of y.
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
    sizes, variances, orders = broadcast(
        M=_defined_sizes(values, M), noise=positive("noise", noise), alpha=order("alpha", alpha)
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
    eigenvalues = balls(values)
    if form == "printed":
        forms, eigenvalues = {"printed": enclosures.printed_form}, [exact(x) for x in np.sort(values)[::-1].tolist()]
    return {
        name: outer(lambda m, a, s2, term=term: term(eigenvalues, m, a, exact(s2)), sizes, orders, variances)
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
        with np.errstate(over="ignore"):
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


@kind_of_caller
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
    points, rest, prior, distance = broadcast(
        N=whole("N", N), M=_rest_sizes(N, M), variance=positive("variance", variance), tv=closed_unit("tv", tv)
    )
    scale = prior * distance
    with np.errstate(over="ignore"):
        result = rest * scale if form == "sharpest" else 2.0 * (points * scale)
    return result if np.ndim(result) else float(result)
