"""How often bounds in probability fail in the tightest worlds known, where δ is nearly used up and failures are seen.

Losses are 0 or 1 and Q = P, so that KL = 0.  With N = 1 the theorem's moment E exp(N·kl(R_S‖R)) is 1 + 1 = ξ(1): a loss
that is 0 with probability just below δ/2 makes the bound fail in half of what δ allows, and a list of choices made
after the data shares that half.  A frequency of at least a fifth of δ is asked for: with a δ five times as small the
same test fails.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from observer import Observer
from scipy.stats import binom

from gpbounds import SquaredExponential
from gpbounds.losses import Band, Interval, Loss
from gpbounds.pacbayes import (
    Certificate,
    Charge,
    Exact,
    HyperGrid,
    Scaling,
    Sparse,
    Whitened,
    batch_bound,
    batch_risk_bound,
    bayes_risk_bound,
    bound,
    mixture_kl,
)

DRAWS = 20_000
FAR = 1e3
FLAT = HyperGrid(-12.0, -12.0, 0, ("variance", "lengthscale"))
PRIOR = Whitened([[0.0]], [0.0], [[1.0]])
"""Q = P: at every x a prediction within e⁻⁶ of 0, but for a part in 10¹⁰⁰."""


def seen(observe: Observer, claim: str, failures: int, delta: float, share: float = 0.2, draws: int = DRAWS) -> None:
    """At most δ, and at least ``share``·δ."""
    observe.frequency(claim, failures, draws, delta)
    observe.holds(claim, failures >= share * delta * draws)


def worst(fails: Callable[[float], Any], candidates: Sequence[float], N: int) -> tuple[float, Any]:
    """The p among ``candidates`` at which Binomial(N, p) losses fail most often, and which counts fail there."""
    counts = np.arange(N + 1)
    p = max(candidates, key=lambda p: float(binom.pmf(counts, N, p)[fails(p)].sum()))
    return p, fails(p)


# P-09, P-11: one predictor


@pytest.mark.claim("P-09", "P-11")
@pytest.mark.parametrize(
    ("form", "relaxation", "share"), [("sharpest", "kl", 0.3), ("printed", "kl", 0.25), ("printed", "pinsker", 0.1)]
)
@pytest.mark.parametrize("N", [1, 2, 3])
def test_both_sides_of_the_theorem_for_one_predictor(
    observe: Observer, form: Any, relaxation: Any, share: float, N: int
) -> None:
    delta, counts = 0.5, np.arange(N + 1)
    options: Any = {"delta": delta, "form": form, "relaxation": relaxation}
    low, high = (np.asarray(bound(counts / N, 0.0, N, side=side, **options)) for side in ("lower", "upper"))
    ends = np.clip([*(high * (1 + 1e-9)), *(low * (1 - 1e-9))], 0.0, 1.0)
    p, fails = worst(lambda p: (high < p) | (low > p), ends.tolist(), N)
    drawn = np.random.default_rng(N).binomial(N, p, DRAWS)
    seen(observe, "P-11" if relaxation == "pinsker" else "P-09", int(fails[drawn].sum()), delta, share)


# P-14, P-40 to P-43: a choice from a list, made after the data


def events(rng: np.random.Generator, chances: Any) -> Any:
    """Which of some disjoint events happened, −1 where none did."""
    return np.searchsorted(np.cumsum(chances), rng.random(DRAWS), side="right") * 1.0


@pytest.mark.claim("P-14", "P-41", "P-42", "P-43")
@pytest.mark.parametrize("weights", [np.full(8, 1 / 8), np.arange(1, 21) / 210.0], ids=["grid", "uneven"])
def test_a_choice_after_the_data_costs_its_weight(observe: Observer, weights: Any) -> None:
    """Predictor j has loss 0 on its own event, of probability just below δp_j/2; the event selects the predictor.

    As one of several priors, ln(1/p_j) is paid; as part of their mixture the soft minimum says the same.
    """
    delta, rng, K = 0.2, np.random.default_rng(0), weights.size
    chances = 0.5 * delta * weights * (1.0 - 1e-9)
    which = events(rng, chances)
    taken = which[which < K].astype(int)
    paid = np.asarray(bound(0.0, 0.0, 1, delta=delta, log_prior_penalty=-np.log(weights)))
    seen(observe, "P-14", int((1.0 - chances > paid)[taken].sum()), delta)
    each = np.where(np.eye(K, dtype=bool), 0.0, np.inf)  # KL(Q_j‖P^i)
    mixed = np.asarray(bound(0.0, mixture_kl(each, -np.log(weights)), 1, delta=delta))
    seen(observe, "P-41", int((1.0 - chances > mixed)[taken].sum()), delta)
    split = np.array([float(bound(0.0, 0.0, 1, delta=delta * w)) for w in weights])
    seen(observe, "P-42", int((1.0 - chances > split)[taken].sum()), delta)
    # events each as likely as δ/2: with the penalty no bound fails, without it most do
    often = events(rng, np.full(8, 0.5 * delta * (1.0 - 1e-9)))
    bare, risk = float(bound(0.0, 0.0, 1, delta=delta)), 1.0 - 0.5 * delta * (1.0 - 1e-9)
    broken = int((often < 8).sum()) if risk > bare else 0
    with pytest.raises(AssertionError, match="promised at most"):
        observe.frequency("P-43", broken, DRAWS, delta)
    observe.upper("P-43", risk, float(bound(0.0, 0.0, 1, delta=delta, log_prior_penalty=math.log(8))))


# P-44, P-45, P-47, P-49: certificates


def issue(y: Any, delta: float, posterior: Any = PRIOR, grid: HyperGrid = FLAT, **declared: Any) -> Certificate:
    theta = grid.at([0, 0]).theta
    kernel = SquaredExponential(theta["variance"], theta["lengthscale"])
    options = {"loss": Band(0.4), **declared}
    return Certificate.issue(np.zeros((len(y), 1)), y, posterior, kernel, grid=grid, delta=delta, **options)


@pytest.mark.claim("P-44")
@pytest.mark.parametrize(("N", "members", "share"), [(1, 1, 0.4), (3, 1, 0.2), (1, 2, 0.2)])
def test_certificates_fail_visibly_and_at_most_as_promised(
    observe: Observer, N: int, members: int, share: float
) -> None:
    """y = 0, or far away: only the number of far ones matters; one or two members of Θ, all equally good."""
    delta = 0.5
    grid = FLAT if members == 1 else HyperGrid([-12.0, -12.0], [-11.0, -12.0], [1, 0], ("variance", "lengthscale"))
    observe.equal("P-44", grid.size, members)
    bounds = np.array([issue(np.where(np.arange(N) < k, FAR, 0.0), delta, grid=grid).bound for k in range(N + 1)])
    p, fails = worst(lambda p: bounds < p, (bounds[:-1] * (1 + 1e-9)).tolist(), N)
    drawn = np.random.default_rng(N).binomial(N, p, DRAWS)
    seen(observe, "P-44", int(fails[drawn].sum()), delta, share)


@pytest.mark.claim("P-45", "P-47")
@pytest.mark.parametrize("claim", ["P-45", "P-47"])
def test_certificates_of_what_was_chosen_from_a_list(observe: Observer, claim: str) -> None:
    """y is c_j with probability just below δ/(2K), else far away; the shift, or the loss, is chosen to fit."""
    K, delta = 5, 0.5
    places = 10.0 * np.arange(K)

    def certificate(c: float) -> Certificate:
        if claim == "P-45":
            return issue([c], delta, outputs=Scaling("charged", c, 1.0, count=K))
        loss: Loss = Interval(-c - 0.4, -c + 0.4)  # v within 0.4 of y − c
        return issue([c], delta, loss=loss, charges=[Charge("losses", K)])

    bounds = np.array([certificate(float(c)).bound for c in places])
    chance = (1.0 - bounds.max()) * (1.0 - 1e-9)
    observe.equal(claim, chance, delta / (2 * K), rtol=1e-8)
    which = events(np.random.default_rng(1), np.full(K, chance))
    seen(observe, claim, int((1.0 - chance > bounds)[which[which < K].astype(int)].sum()), delta, 0.4)


@pytest.mark.claim("P-49")
def test_certificates_of_a_posterior_chosen_after_the_data(observe: Observer) -> None:
    """Z, M, α, noise, mean and factor: of twelve posteriors the one with the least bound, without a penalty."""
    delta = 0.5
    Z = np.array([[-1.0], [0.0], [2.0]])
    forms = [
        *(Sparse(Z[:M], noise, alpha) for M in (1, 3) for noise in (0.1, 1e6) for alpha in (0.0, 1.0)),
        *(Whitened(Z[:1], [mean], [[spread]]) for mean, spread in ((0.0, 1.0), (0.5, 0.7))),
        *(Exact(noise) for noise in (0.1, 1e6)),
    ]
    bounds = [min(issue([y], delta, form).bound for form in forms) for y in (0.0, FAR)]
    chance = (1.0 - bounds[0]) * (1.0 - 1e-9)
    near = np.random.default_rng(2).random(DRAWS) < chance
    seen(observe, "P-49", int(near.sum()) if 1.0 - chance > bounds[0] else 0, delta, 0.4)
    observe.equal("P-49", bounds[1], 1.0)


# P-46, P-38


@pytest.mark.claim("P-46")
@pytest.mark.parametrize("side", ["upper", "lower"])
def test_a_batch_of_one_uses_up_its_probability(observe: Observer, side: Any) -> None:
    """Chernoff's bound is attained: R_S just beyond 1 − δ, and the one loss drawn is 0."""
    delta, N = 0.2, 10_000
    drawn = (np.random.default_rng(3).integers(N, size=DRAWS) < round(0.8 * N) + 1) * 1.0
    risk = (round(0.8 * N) + 1) / N
    bounds = np.asarray(batch_risk_bound(drawn if side == "upper" else 1.0 - drawn, 1, delta=delta, side=side))
    failed = bounds < risk if side == "upper" else bounds > 1.0 - risk
    seen(observe, "P-46", int(failed.sum()), delta, 0.9)


@pytest.mark.claim("P-46")
def test_a_batch_of_one_and_many_data(observe: Observer) -> None:
    delta, slip, N, p = 0.01, 0.2, 10**6, 0.806
    rng = np.random.default_rng(4)
    drawn = (rng.random(DRAWS) < rng.binomial(N, p, DRAWS) / N) * 1.0
    bounds = batch_bound(drawn, 1, 0.0, N, delta=delta, batch_delta=slip)
    seen(observe, "P-46", int((np.asarray(bounds) < p).sum()), delta + slip, 0.8)


@pytest.mark.claim("P-38")
def test_the_risk_of_the_mean_prediction(observe: Observer) -> None:
    """|y − m| is just beyond ε with probability p, else 0, and σ → 0: losses ½ and 0, R_Bayes = p = 2R."""
    delta, N = 0.5, 10
    counts = np.arange(N + 1)
    bounds = np.asarray(bayes_risk_bound(bound(0.5 * counts / N, 0.0, N, delta=delta)))
    p, fails = worst(lambda p: bounds < p, [b * (1 + 1e-9) for b in bounds if b < 1.0], N)
    drawn = np.random.default_rng(5).binomial(N, p, DRAWS)
    seen(observe, "P-38", int(fails[drawn].sum()), delta, 0.01)
