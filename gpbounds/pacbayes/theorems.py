"""The PAC-Bayes theorem: bounds on the true risk from the empirical one."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from gpbounds.arrays import Float, as_number
from gpbounds.bound import Bound
from gpbounds.pacbayes.inverse import Side, kl_inverse
from gpbounds.pacbayes.penalty import Form, penalty_ball, xi
from gpbounds.rigor import above, at_bits, below, exact, rigor_of
from gpbounds.validation import choice, closed_unit, extended, positive_unit, whole

FORMS = ("sharpest", "printed")
Relaxation = Literal["kl", "pinsker"]
RELAXATIONS = ("kl", "pinsker")

IID = "The N examples are independent draws from one law, and the loss lies in [0, 1]."
PRIOR = "The prior P was fixed before the examples were seen; Q may depend on them."
HYPER = "The weights p_θ of the hyperparameters, with Σ p_θ <= 1, were fixed before the examples were seen."


def bound(
    risk: ArrayLike,
    kl: ArrayLike,
    N: ArrayLike,
    *,
    delta: ArrayLike,
    log_prior_penalty: ArrayLike = 0.0,
    form: Form = "sharpest",
    relaxation: Relaxation = "kl",
    side: Side = "upper",
    certified: bool | None = None,
    rigor: str = "auto",
    gradient: bool = False,
) -> Any:
    """PAC-Bayes bound on the true Gibbs risk R(Q) from the empirical one, R_S(Q).

    With probability ≥ 1 − δ over S, for all Q (and all θ) at once:
    kl(R_S(Q)‖R(Q)) ≤ d = (KL(Q‖P^θ) + ln(1/p_θ) + ln(ξ(N)/δ))/N, hence R(Q) ≤ B = kl⁻¹(R_S(Q), d).

    Claims P-09, P-14 (Reeb et al., Thm 1 = Eq. 4, and Eq. 5) with ξ(N) of P-10.  Hypotheses: N ≥ 1 iid examples, loss
    in [0, 1], P^θ and p_θ fixed before S.  ``form="printed"`` puts 2√N ≥ ξ(N) in place of ξ(N), as the paper does.
    ``relaxation="pinsker"`` is B_Pin = R_S + √(d/2) (P-11), which is never below kl⁻¹(R_S, d) and may exceed 1.  The
    upper and the lower bound hold together at this confidence.  For losses in {0, 1} and Q = P the expectation in the
    proof is exactly ξ(N); then only Markov's inequality is not an equality.

    ∂B/∂R_S = ∂kl⁻¹/∂q and ∂B/∂KL = (∂kl⁻¹/∂d)/N at (R_S, d): claim P-08 (Reeb et al., Eq. 14, whose point of
    evaluation lacks ln(1/p_θ), a misprint).  For B_Pin they are 1 and 1/(4N√(d/2)).

    Parameters
    ----------
    risk : float or array in [0, 1]
        R_S(Q), the mean loss of Q over the N examples.
    kl : float or array in [0, ∞]
        KL(Q‖P^θ) in nats.
    N : int or array of whole numbers >= 1
        Number of examples.
    delta : float or array in (0, 1]
        Probability of failure.
    log_prior_penalty : float or array in [0, ∞]
        ln(1/p_θ); 0 where θ was fixed before S.  See `grid_penalty`.
    form : "sharpest" or "printed"
        ξ(N) or 2√N.
    relaxation : "kl" or "pinsker"
        Invert kl, or apply Pinsker's inequality.
    side : "upper" or "lower"
    rigor : "auto", "float" or "sharp"
        "sharp" includes rounding: d is rounded up, and the inverse outwards (P-12), with Arb balls.  The others do not.
        ``certified=True`` is an old spelling of "sharp".
    gradient : bool
        Return (bound, ∂B/∂R_S, ∂B/∂KL), B the bound of ``side``; training by the bound needs them.

    Raises
    ------
    ValueError
        for wrong arguments.

    >>> B = bound(0.093, 42.0, 404, delta=0.01, log_prior_penalty=2 * np.log(1201))
    >>> print(B)
    R(Q) <= 0.33149 with probability at least 0.99 (P-14).
      Assumes: The N examples are independent draws from one law, and the loss lies in [0, 1].
      Assumes: The prior P was fixed before the examples were seen; Q may depend on them.
      Assumes: The weights p_θ of the hyperparameters, with Σ p_θ <= 1, were fixed before the examples were seen.
    >>> _, in_risk, in_kl = bound(0.093, 42.0, 404, delta=0.01, gradient=True)
    >>> round(float(in_risk), 6), round(404 * float(in_kl), 6)
    (1.449364, 1.02254)
    """
    checked = _arguments(risk, kl, N, delta, log_prior_penalty)
    choice("form", form, FORMS)
    chosen = rigor_of(rigor, certified)
    proved = chosen == "sharp"
    pinsker = choice("relaxation", relaxation, RELAXATIONS) == "pinsker"
    upper = choice("side", side, ("upper", "lower")) == "upper"
    constant = xi(checked.N) if form == "sharpest" else 2.0 * np.sqrt(checked.N)
    parts = (checked.kl / checked.N, checked.prior / checked.N, np.log(constant / checked.delta) / checked.N)
    divergence = _certified_divergence(checked, form) if proved else parts[0] + (parts[1] + parts[2])
    if pinsker:
        value = (_certified_pinsker if proved else _pinsker)(checked.risk, divergence, upper)
    else:
        value = kl_inverse(checked.risk, divergence, "upper" if upper else "lower", rigor=chosen)
    name = "ln(ξ/δ)/N" if form == "sharpest" else "ln(2√N/δ)/N"
    terms = {"R_S": checked.risk, "KL/N": parts[0], "ln(1/p)/N": parts[1], name: parts[2], "ε": divergence}
    charged = bool((checked.prior > 0.0).any())
    record = Bound(
        as_number(value),
        "upper" if upper else "lower",
        as_number(1.0 - checked.delta),
        "P-11" if pinsker else "P-14" if charged else "P-09",
        {key: as_number(term) for key, term in terms.items()},
        (IID, PRIOR, HYPER) if charged else (IID, PRIOR),
        proved,
        "R(Q)",
    )
    if not gradient:
        return record
    if pinsker:
        with np.errstate(divide="ignore"):
            in_kl = 0.25 / (np.sqrt(0.5 * divergence) * checked.N)
        return record, np.ones(divergence.shape)[()], (in_kl if upper else -in_kl)[()]
    _, in_risk, in_divergence = kl_inverse(checked.risk, divergence, "upper" if upper else "lower", gradient=True)
    return record, in_risk, (in_divergence / checked.N)[()]


class _Arguments(NamedTuple):
    """Checked arguments, broadcast."""

    risk: Float
    kl: Float
    N: Float
    delta: Float
    prior: Float


def _arguments(risk: ArrayLike, kl: ArrayLike, N: ArrayLike, delta: ArrayLike, prior: ArrayLike) -> _Arguments:
    checked = (
        closed_unit("risk", risk),
        extended("kl", kl),
        whole("N", N),
        positive_unit("delta", delta),
        extended("log_prior_penalty", prior),
    )
    return _Arguments(*np.broadcast_arrays(*checked))


def _pinsker(risk: Float, divergence: Float, upper: bool) -> Float:
    half = np.sqrt(0.5 * divergence)
    return risk + half if upper else risk - half


def _certified_divergence(checked: _Arguments, form: Form) -> Float:
    """The right-hand side of kl(R_S‖R) ≤ d, rounded up."""
    balls: dict[tuple[float, ...], Any] = {}
    divergence = np.empty(checked.kl.shape)
    with at_bits(160):
        for i in np.ndindex(divergence.shape):
            kl, N, delta, prior = (float(v[i]) for v in checked[1:])
            key = (N, delta, prior)
            if key not in balls:
                balls[key] = penalty_ball(N, prior, delta=delta, form=form)
            divergence[i] = above((exact(kl) + balls[key]) / exact(N))
    return divergence


def _certified_pinsker(risk: Float, divergence: Float, upper: bool) -> Float:
    value = np.full(divergence.shape, np.inf if upper else -np.inf)
    with at_bits(160):
        for i in np.ndindex(divergence.shape):
            if np.isfinite(divergence[i]):
                half = (exact(float(divergence[i])) / 2).sqrt()
                value[i] = above(exact(float(risk[i])) + half) if upper else below(exact(float(risk[i])) - half)
    return value
