"""The PAC-Bayes theorem: bounds on the true risk from the empirical one."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from gpbounds.arrays import Float, as_number
from gpbounds.bound import Bound
from gpbounds.pacbayes.inverse import Side, kl_inverse
from gpbounds.pacbayes.penalty import Form, penalty_ball, xi
from gpbounds.rigor import above, at_bits, below, exact
from gpbounds.validation import (
    broadcast,
    choice,
    closed_unit,
    extended,
    flag,
    non_negative,
    positive,
    positive_unit,
    rigor_of,
    whole,
)

FORMS = ("sharpest", "printed")
Relaxation = Literal["kl", "pinsker"]
RELAXATIONS = ("kl", "pinsker")

_IID = "The N examples are independent draws from one law, and the loss lies in [0, 1]."
PRIOR = "The prior P was fixed before the examples were seen; Q may depend on them."
_HYPER = "The weights p_θ of the hyperparameters, with Σ p_θ <= 1, were fixed before the examples were seen."


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
    flag("gradient", gradient)
    chosen = rigor_of(rigor, certified)
    proved = chosen == "sharp"
    pinsker = choice("relaxation", relaxation, RELAXATIONS) == "pinsker"
    upper = choice("side", side, ("upper", "lower")) == "upper"
    constant = xi(checked.N) if form == "sharpest" else 2.0 * np.sqrt(checked.N)
    parts = (checked.kl / checked.N, checked.prior / checked.N, _log_ratio(constant, checked.delta) / checked.N)
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
        (_IID, PRIOR, _HYPER) if charged else (_IID, PRIOR),
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
    checked = broadcast(
        risk=closed_unit("risk", risk),
        kl=extended("kl", kl),
        N=whole("N", N),
        delta=positive_unit("delta", delta),
        log_prior_penalty=extended("log_prior_penalty", prior),
    )
    return _Arguments(*checked)


def _log_ratio(constant: Float, delta: Float) -> Float:
    """ln(c/δ), also for δ so small that c/δ is above all doubles."""
    tiny = delta < 1e-290
    return np.where(tiny, np.log(constant) - np.log(delta), np.log(constant / np.where(tiny, 1.0, delta)))


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


# The bound from an empirical risk that is measured on a random mini-batch only.

RANDOM = (
    "The batch was drawn uniformly at random, with or without replacement, independently of Q: from shuffled data, "
    "not in cyclic order from sorted ones."
)


def batch_risk_bound(
    risk: ArrayLike, batch: ArrayLike, *, delta: ArrayLike, side: Side = "upper", form: Form = "sharpest"
) -> Bound:
    """Bound on the empirical risk R_S(Q) of all N examples from its mean over a random batch of them.

    With probability ≥ 1 − δ over the batch: R_S(Q) ≤ kl⁻¹(R̂_B, ln(1/δ)/B), losses in [0, 1].

    Claim P-46 (Reeb et al., Eq. 32; ``form="printed"`` is their |R_S − R̂_B| ≤ √(ln(2/δ)/(2B)), which they also state
    for batches in cyclic order, where it is false).  It is Chernoff's bound for independent draws; draws without
    replacement are more concentrated in the convex order (Hoeffding).  If you use an upper and a lower bound, each
    needs its own δ; the printed form holds for both at once.

    Parameters
    ----------
    risk : float or array in [0, 1]
        R̂_B, the mean loss over the batch.
    batch : int or array of whole numbers >= 1
        B, its size.
    delta : float or array in (0, 1]
    side : "upper" or "lower"
    form : "sharpest" or "printed"

    Raises
    ------
    ValueError
        for wrong arguments.

    >>> [round(float(batch_risk_bound(0.1, 1000, delta=0.01, form=form)), 6) for form in ("sharpest", "printed")]
    [0.131225, 0.15147]
    """
    return _batch_risk(risk, batch, positive_unit("delta", delta), side, form)


def _batch_risk(
    risk: ArrayLike, batch: ArrayLike, delta: Float, side: Side = "upper", form: Form = "sharpest"
) -> Bound:
    """`batch_risk_bound` of a checked δ."""
    mean, size, failure = broadcast(risk=closed_unit("risk", risk), batch=whole("batch", batch), delta=delta)
    upper = choice("side", side, ("upper", "lower")) == "upper"
    if choice("form", form, ("sharpest", "printed")) == "sharpest":
        divergence = -np.log(failure) / size + 0.0
        value = kl_inverse(mean, divergence, side)
    else:
        divergence = np.log(2.0 / failure) / size
        half = np.sqrt(0.5 * divergence)
        value = mean + half if upper else mean - half
    terms = {"R̂_B": as_number(mean), "ε": as_number(divergence)}
    return Bound(as_number(value), side, as_number(1.0 - failure), "P-46", terms, (RANDOM,), quantity="R_S(Q)")


def batch_bound(
    risk: ArrayLike,
    batch: ArrayLike,
    kl: ArrayLike,
    N: ArrayLike,
    *,
    delta: ArrayLike,
    batch_delta: ArrayLike,
    log_prior_penalty: ArrayLike = 0.0,
    form: Form = "sharpest",
    relaxation: Relaxation = "kl",
) -> Bound:
    """Upper bound on the true Gibbs risk R(Q) from the mean loss over a random batch.

    With probability ≥ 1 − δ − δ′: R(Q) ≤ kl⁻¹(kl⁻¹(R̂_B, ln(1/δ′)/B), d), d as in `bound`.

    Claim P-46 with P-09, P-14.

    Parameters
    ----------
    risk : float or array in [0, 1]
        R̂_B.
    batch : int or array of whole numbers >= 1
        B.
    kl, N, delta, log_prior_penalty, form, relaxation
        As in `bound`.
    batch_delta : float or array in (0, 1]
        δ′.

    Raises
    ------
    ValueError
        for wrong arguments.

    >>> round(float(batch_bound(0.1, 1000, 42.0, 40_000, delta=0.005, batch_delta=0.005)), 6)
    0.151808
    """
    outer = _batch_risk(risk, batch, positive_unit("batch_delta", batch_delta))
    inner = bound(
        outer.value, kl, N, delta=delta, log_prior_penalty=log_prior_penalty, form=form, relaxation=relaxation
    )
    sure = np.maximum(np.asarray(outer.confidence) + np.asarray(inner.confidence) - 1.0, 0.0)
    terms = {"R̂_B": outer.terms["R̂_B"], "ln(1/δ')/B": outer.terms["ε"], **inner.terms}
    charged = _HYPER in inner.assumptions
    assumptions = (_IID, PRIOR, _HYPER, RANDOM) if charged else (_IID, PRIOR, RANDOM)
    return Bound(inner.value, "upper", as_number(sure), "P-46", terms, assumptions, quantity="R(Q)")


# From the Gibbs risk to the risk of the mean prediction.

SYMMETRIC = (
    "The loss is quasi-convex in the prediction, whose law is symmetric about its mean (a Gaussian process's is)."
)
BAND = "The loss is 1 where |y − prediction| > ε, else 0; the predictive standard deviation is nowhere below std."


def bayes_factor(epsilon: ArrayLike, std: ArrayLike) -> Any:
    """1/(3/2 − Φ(2ε/σ)): the largest ratio of the band loss of the mean m to the mean band loss under N(m, σ²).

    1{|y − m| > ε} ≤ E 1{|y − v| > ε}/(3/2 − Φ(2ε/σ)), v ~ N(m, σ²), for every y.

    Claim P-38, sharper than the factor 2 (Reeb et al., §2.1): it tends to 2 as σ → 0 and to 1 as σ → ∞.  Equality holds
    in the limit |y − m| → ε from above, where the mean is Φ(0) + Φ(−2ε/σ); the mean increases with |y − m|.

    Parameters
    ----------
    epsilon : float or array > 0
        ε.
    std : float or array >= 0
        σ.

    Raises
    ------
    ValueError
        for wrong arguments.

    >>> float(bayes_factor(0.6, 0.0)), round(float(bayes_factor(0.6, 1.2)), 6)
    (2.0, 1.518245)
    """
    from scipy.special import ndtr

    width, spread = broadcast(epsilon=positive("epsilon", epsilon), std=non_negative("std", std))
    with np.errstate(divide="ignore", over="ignore"):
        return (1.0 / (0.5 + ndtr(-2.0 * width / spread)))[()]


def bayes_risk_bound(
    gibbs: Bound | ArrayLike, *, epsilon: float | None = None, least_std: float | None = None
) -> Bound:
    """Upper bound on the risk of the mean prediction, from an upper bound on the Gibbs risk.

    R_Bayes(Q) ≤ 2 R(Q); for the zero-one band loss of half-width ε, R_Bayes(Q) ≤ R(Q)/(3/2 − Φ(2ε/σ)) where the
    predictive standard deviation is at least σ everywhere.

    Claim P-38 (Reeb et al., §2.1).  {v : ℓ(y, v) < ℓ(y, m)} is convex and does not contain the mean m, so a law
    symmetric about m gives it probability at most ½.  Both hypotheses are necessary.  The factor tends to 2 as σ → 0.

    Parameters
    ----------
    gibbs : Bound, or float or array in [0, 1]
        An upper bound on R(Q), or R(Q) itself.
    epsilon, least_std : float, optional
        ε and σ, both or none.

    Raises
    ------
    ValueError
        for a lower bound, or only one of ``epsilon`` and ``least_std``.

    >>> float(bayes_risk_bound(0.1)), round(float(bayes_risk_bound(0.1, epsilon=0.6, least_std=1.2)), 6)
    (0.2, 0.151824)
    """
    if (epsilon is None) != (least_std is None):
        raise ValueError("epsilon, least_std: expected both or none")
    if isinstance(gibbs, Bound):
        if gibbs.side != "upper":
            raise ValueError("gibbs: expected an upper bound on R(Q), got a lower bound")
        risk, bound = np.asarray(gibbs.value), gibbs
    else:
        risk = closed_unit("gibbs", gibbs)
        bound = Bound(risk, "upper", 1.0, "P-38")
    factor = 2.0 if epsilon is None else float(bayes_factor(epsilon, least_std))  # type: ignore[arg-type]
    if bound.certified and epsilon is not None:
        value, factor = _outwards(risk, epsilon, float(least_std))  # type: ignore[arg-type]
    else:
        value = factor * risk
    assumptions = (*bound.assumptions, SYMMETRIC if epsilon is None else BAND)
    terms = {"R(Q)": as_number(risk), "factor": factor}
    return Bound(as_number(value), "upper", bound.confidence, "P-38", terms, assumptions, bound.certified, "R_Bayes(Q)")


def _outwards(risk: Float, epsilon: float, std: float) -> tuple[Float, float]:
    """risk/(3/2 − Φ(2ε/σ)) rounded up, and the factor rounded up."""
    with at_bits(160):
        if std == 0.0:
            return 2.0 * risk, 2.0
        factor = 2 / (1 + (exact(2.0).sqrt() * exact(epsilon) / exact(std)).erfc())
        values = [above(exact(r) * factor) for r in risk.ravel().tolist()]
        return np.array(values).reshape(risk.shape), above(factor)


# From the risk that two draws of Q are both wrong to the risk of the mean prediction.

PAIRED = (
    "The loss is 0 or 1 and quasi-convex in the prediction, whose law is symmetric about its mean (a Gaussian "
    "process's is)."
)


def tandem_bound(
    tandem: ArrayLike,
    kl: ArrayLike,
    N: ArrayLike,
    *,
    delta: ArrayLike,
    log_prior_penalty: ArrayLike = 0.0,
    rigor: str = "auto",
) -> Bound:
    """Upper bound on the risk of the mean prediction, or of the vote, from the empirical tandem risk.

    The tandem risk T(Q) = E (E_Q ℓ)² is the probability that two independent draws of Q are both wrong, T_S(Q) =
    N⁻¹ Σ_i (E_Q ℓ_i)².  With probability ≥ 1 − δ over S, for all Q (and all θ) at once, R_Bayes(Q) ≤ 4 T(Q) and

    kl(T_S(Q)‖T(Q)) ≤ d = (2 KL(Q‖P^θ) + ln(1/p_θ) + ln(ξ(N)/δ))/N, hence R_Bayes(Q) ≤ B = min{1, 4 kl⁻¹(T_S(Q), d)}.

    Claim N-tandem (Masegosa et al. 2020, with ξ(N) of P-10).  Hypotheses: those of `bound`, and a zero-one loss that is
    quasi-convex in the prediction, whose law is symmetric about its mean: the band loss, and the sign of labels, whose
    mean prediction is the majority vote.  Below the 2 R(Q) of `bayes_risk_bound` where the draws rarely err together:
    T < R/2.  As T ≥ R², never below 4 R².

    Parameters
    ----------
    tandem : float or array in [0, 1]
        T_S(Q).
    kl, N, delta, log_prior_penalty
        As in `bound`; KL(Q‖P^θ) is of one draw.
    rigor : "auto", "float" or "sharp"
        As in `bound`.

    Raises
    ------
    ValueError
        for wrong arguments.

    >>> round(float(tandem_bound(0.004, 60.0, 16_000, delta=0.005)), 6)
    0.072328
    >>> round(float(bayes_risk_bound(bound(0.03, 60.0, 16_000, delta=0.005))), 6)
    0.097647
    """
    both = closed_unit("tandem", tandem)
    with np.errstate(over="ignore"):
        twice = 2.0 * extended("kl", kl)
    pairs = bound(both, twice, N, delta=delta, log_prior_penalty=log_prior_penalty, rigor=rigor)
    terms = {
        "T_S": pairs.terms["R_S"],
        "2KL/N": pairs.terms["KL/N"],
        **{name: pairs.terms[name] for name in ("ln(1/p)/N", "ln(ξ/δ)/N", "ε")},
        "T": pairs.value,
    }
    value = as_number(np.minimum(4.0 * np.asarray(pairs.value), 1.0))
    assumptions = (*pairs.assumptions, PAIRED)
    return Bound(value, "upper", pairs.confidence, "N-tandem", terms, assumptions, pairs.certified, "R_Bayes(Q)")
