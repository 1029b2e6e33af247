"""The PAC-Bayes theorem: what an empirical risk says of the true one."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from gpbounds.arrays import Float, as_number
from gpbounds.bound import Bound
from gpbounds.pacbayes.inverse import Side, kl_inverse, kl_inverse_gradient
from gpbounds.pacbayes.penalty import penalty_ball, xi
from gpbounds.rigor import above, at_bits, below, exact
from gpbounds.validation import choice, closed_unit, extended, positive_unit, whole

Form = Literal["sharpest", "maurer", "pinsker"]
FORMS = ("sharpest", "maurer", "pinsker")

IID = "The N examples are independent draws from one law, and the loss lies in [0, 1]."
PRIOR = "The prior P was fixed before the examples were seen; Q may depend on them."
HYPER = "The weights p_θ of the hyperparameters, with Σ p_θ <= 1, were fixed before the examples were seen."


def bound(
    risk: ArrayLike,
    kl: ArrayLike,
    N: ArrayLike,
    delta: ArrayLike,
    log_prior_penalty: ArrayLike = 0.0,
    form: Form = "sharpest",
    *,
    side: Side = "upper",
    certified: bool = False,
) -> Bound:
    """PAC-Bayes bound on the true Gibbs risk R(Q) from the empirical one, R_S(Q).

    With probability ≥ 1 − δ over S, for all Q (and all θ) at once:
    kl(R_S(Q)‖R(Q)) ≤ ε = (KL(Q‖P^θ) + ln(1/p_θ) + ln(ξ(N)/δ))/N, hence R(Q) ≤ kl⁻¹(R_S(Q), ε).

    Claims P-09, P-14 (Reeb et al., Thm 1 = Eq. 4, and Eq. 5) with ξ(N) of P-10.  Hypotheses: N ≥ 1 iid examples, loss
    in [0, 1], P^θ and p_θ fixed before S.  ``form="maurer"`` has 2√N ≥ ξ(N), as printed; ``"pinsker"`` is
    B_Pin = R_S + √(ε/2) (P-11) with 2√N, never below that, possibly above 1.  Upper and lower bound hold together at
    this confidence.  For losses in {0, 1} and Q = P the expectation behind it is ξ(N) exactly; what is lost is lost by
    Markov's inequality.

    Parameters
    ----------
    risk : float or array in [0, 1]
        R_S(Q), the mean loss of Q over the N examples.
    kl : float or array in [0, ∞]
        KL(Q‖P^θ) in nats.
    N : int or array of whole numbers >= 1
    delta : float or array in (0, 1]
        Probability of failure.
    log_prior_penalty : float or array in [0, ∞]
        ln(1/p_θ); 0 where nothing was chosen.  See `grid_penalty`.
    form : "sharpest", "maurer" or "pinsker"
    side : "upper" or "lower"
    certified : bool
        Account for rounding, too: ε is rounded up, and the inverse outwards (P-12), with Arb balls.

    Raises
    ------
    ValueError
        for wrong arguments.

    >>> B = bound(0.093, 42.0, 404, 0.01, log_prior_penalty=2 * np.log(1201))
    >>> print(B)
    R(Q) <= 0.33149 with probability at least 0.99 (P-14).
      Assumes: The N examples are independent draws from one law, and the loss lies in [0, 1].
      Assumes: The prior P was fixed before the examples were seen; Q may depend on them.
      Assumes: The weights p_θ of the hyperparameters, with Σ p_θ <= 1, were fixed before the examples were seen.
    """
    given = _arguments(risk, kl, N, delta, log_prior_penalty)
    form, upper = choice("form", form, FORMS), choice("side", side, ("upper", "lower")) == "upper"  # type: ignore[assignment]
    constant = xi(given.N) if form == "sharpest" else 2.0 * np.sqrt(given.N)
    parts = (given.kl / given.N, given.prior / given.N, np.log(constant / given.delta) / given.N)
    eps = _certified_eps(given, form) if certified else parts[0] + (parts[1] + parts[2])
    if form == "pinsker":
        value = _certified_pinsker(given.risk, eps, upper) if certified else _pinsker(given.risk, eps, upper)
    else:
        value = kl_inverse(given.risk, eps, "upper" if upper else "lower", certified=certified)
    name = "ln(ξ/δ)/N" if form == "sharpest" else "ln(2√N/δ)/N"
    terms = {"R_S": given.risk, "KL/N": parts[0], "ln(1/p)/N": parts[1], name: parts[2], "ε": eps}
    charged = bool((given.prior > 0.0).any())
    return Bound(
        as_number(value),
        "upper" if upper else "lower",
        as_number(1.0 - given.delta),
        "P-11" if form == "pinsker" else "P-14" if charged else "P-09",
        {key: as_number(term) for key, term in terms.items()},
        (IID, PRIOR, HYPER) if charged else (IID, PRIOR),
        certified,
        "R(Q)",
    )


def bound_gradient(
    risk: ArrayLike,
    kl: ArrayLike,
    N: ArrayLike,
    delta: ArrayLike,
    log_prior_penalty: ArrayLike = 0.0,
    form: Form = "sharpest",
) -> tuple[Any, Any]:
    """Partial derivatives (∂B/∂R_S, ∂B/∂KL) of the upper bound B of `bound`: what training by the bound descends.

    dB = ∂_q kl⁻¹·dR_S + ∂_ε kl⁻¹·dKL/N, both at ε = (KL + ln(1/p_θ) + ln(ξ(N)/δ))/N.

    Claim P-08 (Reeb et al., Eq. 14, whose evaluation point leaves out ln(1/p_θ), a misprint).  With ``form="pinsker"``
    they are 1 and 1/(4N√(ε/2)).

    Parameters
    ----------
    risk, kl, N, delta, log_prior_penalty, form
        As in `bound`.

    Raises
    ------
    ValueError
        for wrong arguments.

    >>> in_risk, in_kl = bound_gradient(0.093, 42.0, 404, 0.01)
    >>> round(float(in_risk), 6), round(404 * float(in_kl), 6)
    (1.449364, 1.02254)
    """
    B = bound(risk, kl, N, delta, log_prior_penalty, form)
    q, eps, sizes = (np.asarray(v) for v in (B.terms["R_S"], B.terms["ε"], whole("N", N)))
    if form == "pinsker":
        with np.errstate(divide="ignore"):
            return np.ones(np.shape(B.value))[()], (0.25 / (np.sqrt(0.5 * eps) * sizes))[()]
    in_q, in_eps = kl_inverse_gradient(q, eps)
    return in_q, (in_eps / sizes)[()]


class _Given(NamedTuple):
    """Checked arguments, broadcast."""

    risk: Float
    kl: Float
    N: Float
    delta: Float
    prior: Float


def _arguments(risk: ArrayLike, kl: ArrayLike, N: ArrayLike, delta: ArrayLike, prior: ArrayLike) -> _Given:
    checked = (
        closed_unit("risk", risk),
        extended("kl", kl),
        whole("N", N),
        positive_unit("delta", delta),
        extended("log_prior_penalty", prior),
    )
    return _Given(*np.broadcast_arrays(*checked))


def _pinsker(risk: Float, eps: Float, upper: bool) -> Float:
    half = np.sqrt(0.5 * eps)
    return risk + half if upper else risk - half


def _certified_eps(given: _Given, form: str) -> Float:
    """ε rounded up."""
    balls: dict[tuple[float, ...], Any] = {}
    eps = np.full(given.kl.shape, np.inf)
    with at_bits(160):
        for i in np.ndindex(eps.shape):
            kl, N, delta, prior = (float(v[i]) for v in given[1:])
            if np.isfinite(kl + prior):
                key = (N, delta, prior)
                if key not in balls:
                    balls[key] = penalty_ball(N, delta, prior, "sharpest" if form == "sharpest" else "maurer")
                eps[i] = above((exact(kl) + balls[key]) / exact(N))
    return eps


def _certified_pinsker(risk: Float, eps: Float, upper: bool) -> Float:
    value = np.full(eps.shape, np.inf if upper else -np.inf)
    with at_bits(160):
        for i in np.ndindex(eps.shape):
            if np.isfinite(eps[i]):
                half = (exact(float(eps[i])) / 2).sqrt()
                value[i] = above(exact(float(risk[i])) + half) if upper else below(exact(float(risk[i])) - half)
    return value
