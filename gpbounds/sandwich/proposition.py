"""Proposition 4: bounds on means and covariances from the KL divergence between two Gaussian laws."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from gpbounds import validation
from gpbounds.arrays import EPS, Float, as_number
from gpbounds.bound import Bound, outward
from gpbounds.rigor import exact, outer
from gpbounds.sandwich import balls as enclosures
from gpbounds.sandwich.balls import outer_end
from gpbounds.sandwich.equation import roots
from gpbounds.validation import extended, rigor_of

_NON_SINGULAR = "Both laws are Gaussian with non-singular covariances Σ1, Σ2, and KL is KL(N1 || N2)."


@dataclass(frozen=True)
class Sandwich:
    """Bounds for two Gaussian laws with KL(N₁‖N₂) ≤ γ: b Σ₂ ⪯ Σ₁ ⪯ t Σ₂, and the distance of their means.

    All bounds hold on one event, with the confidence and the assumptions of the bound on KL.  They also hold for every
    linear function of the variable, for example a single prediction.

    Attributes
    ----------
    kl : Bound
        The bound γ.
    mean : Bound
        √(2γ), an upper bound on the Mahalanobis distance √((μ₂−μ₁)ᵀΣ₂⁻¹(μ₂−μ₁)) in the second law.
    mean_first : Bound
        √(e^(2γ) − 1), an upper bound on √((μ₂−μ₁)ᵀΣ₁⁻¹(μ₂−μ₁)), the distance in the first law.
    low, high : Bound
        b and t: every variance of the first law lies between ``low`` and ``high`` times that of the second.
    log_low : Bound
        log b, which does not underflow.
    inverse_low, inverse_high : Bound
        1/t and 1/b: Σ₁/t ⪯ Σ₂ ⪯ Σ₁/b.
    """

    kl: Bound
    mean: Bound
    mean_first: Bound
    low: Bound
    high: Bound
    log_low: Bound
    inverse_low: Bound
    inverse_high: Bound

    def __str__(self) -> str:
        if np.ndim(self.kl.value):
            return "\n".join(str(bound) for bound in (self.mean, self.mean_first, self.low, self.high))
        confidence = float(np.asarray(self.kl.confidence))
        probability = "" if confidence == 1.0 else f" with probability at least {outward(confidence, 'lower')}"
        printed = {name: outward(float(bound), bound.side) for name, bound in vars(self).items()}
        lines = [
            f"{self.kl.quantity} <= {printed['kl']}{probability} ({self.low.claim}) implies:",
            f"  means are within {printed['mean']} standard deviations of the second law, "
            f"{printed['mean_first']} of the first;",
            f"  {printed['low']} cov2 <= cov1 <= {printed['high']} cov2, and conversely",
            f"  {printed['inverse_low']} cov1 <= cov2 <= {printed['inverse_high']} cov1.",
        ]
        return "\n".join([*lines, *(f"  Assumes: {sentence}" for sentence in self.low.assumptions)])

    def to_dict(self) -> dict[str, Any]:
        """The record as plain lists, numbers and strings, ready for JSON."""
        return {name: bound.to_dict() for name, bound in vars(self).items()}


def sandwich(kl: Bound | ArrayLike, mahalanobis: ArrayLike | None = None, *, rigor: str = "auto") -> Sandwich:
    """Means within √(2γ), and b Σ₂ ⪯ Σ₁ ⪯ t Σ₂, for Gaussian laws with KL(N(μ₁,Σ₁)‖N(μ₂,Σ₂)) ≤ γ (Prop. 4).

    b ≤ 1 ≤ t are the roots of x − 1 − log x = 2γ.  Claims L-30 and L-31, Daskalakis, Dellaportas and Panos, Prop. 4,
    Eq. 13–14.  Attained in one dimension: the means by equal variances, b and t by equal means.  If the Mahalanobis
    distance m of the means is known, 2γ − m² replaces 2γ for b and t.

    In the first law's metric (μ₂−μ₁)ᵀΣ₁⁻¹(μ₂−μ₁) ≤ e^(2γ) − 1 (N-mean): an eigenvalue x ≤ 1 of Σ₂⁻¹Σ₁ contributes φ(x)
    = x − 1 − log x to 2 KL, so m² ≤ 2γ − φ(x), and m²/x is largest at log x = −2γ.  Attained in one dimension by Σ₁ =
    e^(−2γ) Σ₂.

    Parameters
    ----------
    kl : Bound, float or array
        γ ≥ 0, an upper bound on the divergence, in nats; the result inherits the confidence and assumptions of a
        `Bound`.
    mahalanobis : float or array, optional
        m = √((μ₂−μ₁)ᵀΣ₂⁻¹(μ₂−μ₁)), or a lower bound on it; m² ≤ 2γ.
    rigor : "auto", "float" or "sharp"
        "sharp": each number is by construction the double next to the outer end of an Arb ball (about 0.1 ms per
        number), and the result is certified if ``kl`` is; a plain number counts as exact.  "float" is accurate to a few
        ulp and certifies nothing.  "auto" is "sharp" for a certified `Bound`.

    Returns
    -------
    Sandwich

    Raises
    ------
    ValueError
        for γ < 0 or NaN, a lower bound as ``kl``, m² > 2γ, which is impossible, or another ``rigor``.

    >>> print(sandwich(0.01))  # doctest: +ELLIPSIS
    KL(N1 || N2) <= 0.01 (L-31) implies:
      means are within 0.141422 standard deviations of the second law, 0.142132 of the first;
      0.813105 cov2 <= cov1 <= 1.21355 cov2, and conversely
      0.824028 cov1 <= cov2 <= 1.22986 cov1.
      Assumes: ...
    """
    kl_bound = _as_bound(kl)
    proved = how(rigor, kl) == "sharp"
    gamma = extended("kl", kl_bound.value)
    distance = None if mahalanobis is None else _distance(gamma, mahalanobis)
    values = _outward(gamma, distance) if proved else _near(gamma, distance)
    assumptions = (*kl_bound.assumptions, *(() if _NON_SINGULAR in kl_bound.assumptions else (_NON_SINGULAR,)))
    terms = {"KL": kl_bound.value}
    if distance is not None:
        terms["Mahalanobis distance"] = as_number(distance)
    origin = f"{kl_bound.claim}, " if kl_bound.claim else ""

    def bound(name: str, side: Literal["upper", "lower"], claim: str, quantity: str) -> Bound:
        value, certified = as_number(values[name]), kl_bound.certified and proved
        return Bound(value, side, kl_bound.confidence, origin + claim, terms, assumptions, certified, quantity)

    return Sandwich(
        kl_bound,
        bound("mean", "upper", "L-30", "Mahalanobis distance of the means, in Σ2"),
        bound("mean_first", "upper", "N-mean", "Mahalanobis distance of the means, in Σ1"),
        bound("low", "lower", "L-31", "eigenvalues of Σ1 relative to Σ2"),
        bound("high", "upper", "L-31", "eigenvalues of Σ1 relative to Σ2"),
        bound("log_low", "lower", "L-31", "log eigenvalues of Σ1 relative to Σ2"),
        bound("inverse_low", "lower", "L-31", "eigenvalues of Σ2 relative to Σ1"),
        bound("inverse_high", "upper", "L-31", "eigenvalues of Σ2 relative to Σ1"),
    )


def how(rigor: str, kl: Bound | ArrayLike) -> str:
    """ "float" or "sharp"; "auto" is "sharp" for a certified bound."""
    chosen = rigor_of(rigor)
    if chosen != "auto":
        return chosen
    return "sharp" if isinstance(kl, Bound) and kl.certified else "float"


def _outward(gamma: Float, distance: Float | None) -> dict[str, Float]:
    """The numbers, each rounded outwards."""
    values = {name: outer_end(name, gamma) for name in ("mean", "mean_first")}
    names = ("low", "high", "log_low", "inverse_low", "inverse_high")
    return values | {name: outer_end(name, gamma, distance) for name in names}


def _near(gamma: Float, distance: Float | None) -> dict[str, Any]:
    """The numbers to a few ulp."""
    rest = gamma if distance is None else np.maximum(gamma - 0.5 * distance * distance, 0.0)
    b, t, log_b = roots(rest)
    with np.errstate(over="ignore", divide="ignore"):
        first = np.exp(gamma) * np.sqrt(-np.expm1(-2.0 * gamma))
        inverses = {"inverse_low": 1.0 / np.asarray(t), "inverse_high": 1.0 / np.asarray(b)}
        return {"mean": np.sqrt(2.0 * gamma), "mean_first": first, "low": b, "high": t, "log_low": log_b, **inverses}


def _as_bound(kl: Bound | ArrayLike) -> Bound:
    """``kl`` as an upper bound on KL(N₁‖N₂); a plain number counts as exact."""
    if isinstance(kl, Bound):
        if kl.side != "upper":
            raise ValueError("kl: expected an upper bound on a KL divergence, got a lower one")
        return kl
    return Bound(as_number(extended("kl", kl)), "upper", 1.0, "", certified=True, quantity="KL(N1 || N2)")


def _distance(gamma: Float, mahalanobis: ArrayLike) -> Float:
    """m, checked: m² <= 2γ up to rounding, beyond which nothing is left for the covariances."""
    m = np.asarray(validation.non_negative("mahalanobis", mahalanobis))
    validation.broadcast(kl=gamma, mahalanobis=m)
    impossible = 0.5 * m * m > gamma * (1.0 + 4.0 * EPS)
    if impossible.any():
        worst = float(np.broadcast_to(m, impossible.shape)[impossible].flat[0])
        raise ValueError(f"mahalanobis: expected m² <= 2·KL, which holds for all Gaussian laws, got m = {worst!r}")
    return m


# Bounds on predictions from a bound on the joint law of training and test data: chain rule, Markov, Prop. 4.

JOINT = "The KL bound is for the joint law of y_train and y_test, exact || approximate, noise included."
DRAWN = "y_train is drawn from the exact model, independently of the randomness in the KL bound's own probability."
CENTRED = "Both models are Gaussian with the same prior mean."
_TEST_INPUTS = {
    "given": (),
    "fourier": (
        "X_test is any set of points within the width of the plan; the features are drawn for N_total inputs, "
        "independently of y_train.",
    ),
    "hilbert": ("X_test is any set of points in the box of the plan.",),
    "mercer": (
        "X_test is also drawn iid from the law μ of the Mercer expansion; a random X_train alone is not enough (L-60).",
    ),
}


@dataclass(frozen=True)
class Predictive:
    """Bounds on predictions of test data from a KL bound on training and test data together.

    Attributes
    ----------
    expected : Bound
        Upper bound on E_{y_train} KL(predictive).
    kl : Bound
        Upper bound on KL(P(y_test | y_train) || Q(y_test | y_train)) for the given y_train, with its probability.
    sandwich : Sandwich
        Bounds on means and covariances of the two predictive laws (the exact law is the first), on the same event.
    """

    expected: Bound
    kl: Bound
    sandwich: Sandwich

    def __str__(self) -> str:
        return f"{self.expected}\n{self.sandwich}"

    def to_dict(self) -> dict[str, Any]:
        """The record as plain lists, numbers and strings, ready for JSON."""
        return {name: part.to_dict() for name, part in vars(self).items()}


def predictive(
    joint: Bound | ArrayLike,
    eta: ArrayLike,
    *,
    train: Bound | ArrayLike = 0.0,
    test_inputs: str = "given",
    form: str = "sharpest",
    rigor: str = "auto",
) -> Predictive:
    """KL between the predictive laws from KL ≤ Γ between the joint ones, and the sandwich it implies (Sec. 4.3).

    With probability ≥ (1 − δ)(1 − η), where Γ holds with 1 − δ:
    KL(P(y_test | y_train) ‖ Q(y_test | y_train)) ≤ min{1/η, t(2 log(1/η))}·(Γ − KL(train)).

    Claims L-60 to L-63, Daskalakis, Dellaportas and Panos, Eq. 10–12, and N-tail.  The chain rule
    KL(joint) = KL(train) + E_{y_train ~ P} KL(predictive) gives the mean (L-61), Markov's inequality the factor 1/η
    (L-62).  The other factor, the root t of x − 1 − log x = 2 log(1/η), is smaller for η < 0.149: 12.8
    instead of 100 at η = 0.01.  As a function of y_train the divergence is c + ½Σwᵢzᵢ², c, w ≥ 0, z
    standard normal, and E exp(θ·½Σwᵢzᵢ²) = Π(1 − θwᵢ)^(−½) ≤ (1 − θΣwᵢ)^(−½), so that
    P(KL > x·E KL) ≤ √x e^((1−x)/2), as for one χ² variable.  Both factors are for one test set and the given y_train.

    ``form="printed"`` is Γ/η with probability 1 − δ − η.  The sharpest form proves more: given
    features and inputs for which Γ holds, the bound fails only with probability η.

    Parameters
    ----------
    joint : Bound, float or array
        Γ ≥ KL between the exact and the approximate law of all N_total = N_train + N_test noisy targets, in nats
        (εN_total for a plan with target ε).  The result inherits the confidence 1 − δ and the assumptions of a `Bound`.
    eta : float or array in (0, 1)
        Probability η of a y_train for which the bound fails.
    train : Bound, float or array
        A lower bound on the KL between the laws of y_train alone (a lower `Bound`, or a number); 0 is always valid.
    test_inputs : "given", "fourier", "hilbert" or "mercer"
        The origin of Γ.  "given": Γ is for the given X_test.  "fourier": Γ is a bound for random features,
        "hilbert" one for any points of a box.  "mercer": Γ is a bound for a truncated Mercer expansion; then X_test
        must be drawn from μ, like X_train (the paper omits this; L-60).
    form : "sharpest" or "printed"
    rigor : "auto", "float" or "sharp"
        "sharp": each number is by construction the double next to the outer end of an Arb ball, and the result is
        certified if ``joint`` and ``train`` are; a plain number counts as exact.  "float" certifies nothing.  "auto" is
        "sharp" for a certified `Bound`.

    Returns
    -------
    Predictive

    Raises
    ------
    ValueError
        for wrong arguments, a lower bound as ``joint``, an upper one as ``train``, or train > joint.

    >>> prediction = predictive(1e-3, eta=0.05)
    >>> round(float(prediction.kl), 6), round(float(prediction.kl.confidence), 6)
    (0.009212, 0.95)
    >>> round(float(predictive(1e-3, 0.05, form="printed").kl), 6)
    0.02
    """
    whole = _as_one_sided("joint", joint, "upper")
    part = _as_one_sided("train", train, "lower")
    tail = validation.open_unit("eta", eta)
    validation.choice("form", form, ("sharpest", "printed"))
    about_test_inputs = _TEST_INPUTS[validation.choice("test_inputs", test_inputs, tuple(_TEST_INPUTS))]
    total, train_kl = extended("joint", whole.value), validation.non_negative("train", part.value)
    if (train_kl > total).any():
        raise ValueError("train: expected at most the joint divergence (chain rule, L-61), got more")
    rounding = _Outward() if how(rigor, joint) == "sharp" else _Near()
    proved = isinstance(rounding, _Outward) and whole.certified and part.certified
    mean = rounding.mean(total, train_kl)
    confidence = np.maximum(
        np.asarray(whole.confidence) + np.asarray(part.confidence) - 1.0, 0.0
    )  # whatever their dependence
    assumptions = tuple(dict.fromkeys((*whole.assumptions, *part.assumptions, JOINT, *about_test_inputs, DRAWN)))
    origin = f"{whole.claim}, " if whole.claim else ""
    terms = {"KL(joint)": whole.value, "KL(train)": part.value}
    expected = Bound(
        as_number(mean),
        "upper",
        as_number(confidence),
        f"{origin}L-60, L-61",
        terms,
        assumptions,
        proved,
        "E KL(predictive), exact || approximate,",
    )
    if form == "printed":
        factor, quadratic, train_kl = rounding.markov(tail), False, np.asarray(0.0)
        confidence_after, claim = np.maximum(confidence - tail, 0.0), f"{origin}L-60, L-61, L-62 as printed"
    else:
        markov, chernoff = rounding.markov(tail), rounding.chernoff(tail)
        factor, quadratic = np.minimum(markov, chernoff), bool((chernoff < markov).any())
        confidence_after = confidence * (1.0 - tail)
        assumptions = (*assumptions, CENTRED) if quadratic else assumptions
        claim = f"{origin}L-60, L-61, L-62" + (", N-tail" if quadratic else "")
    kl = Bound(
        as_number(rounding.product(tail, total, train_kl, quadratic=form == "sharpest")),
        "upper",
        as_number(confidence_after),
        claim,
        {**terms, "factor": as_number(factor)},
        assumptions,
        proved,
        "KL(predictive), exact || approximate,",
    )
    return Predictive(expected, kl, sandwich(kl, rigor="sharp" if isinstance(rounding, _Outward) else "float"))


class _Near:
    """The numbers of `predictive` to a few ulp."""

    def mean(self, total: Float, train: Float) -> Float:
        """Γ − KL(train)."""
        return np.asarray(total - train)

    def markov(self, tail: Float) -> Float:
        """1/η."""
        with np.errstate(over="ignore"):
            return np.asarray(1.0 / tail)

    def chernoff(self, tail: Float) -> Float:
        """t(2 log(1/η))."""
        return np.asarray(roots(-np.log(tail))[1])

    def product(self, tail: Float, total: Float, train: Float, *, quadratic: bool) -> Float:
        """min{1/η, t}·(Γ − KL(train)), or without t."""
        mean, factor = self.mean(total, train), self.markov(tail)
        if quadratic:
            factor = np.minimum(factor, self.chernoff(tail))
        with np.errstate(over="ignore"):
            return np.where(mean == 0.0, 0.0, factor * mean)


class _Outward(_Near):
    """The same, each number the double next to the upper end of its ball."""

    def mean(self, total: Float, train: Float) -> Float:
        return _upwards(lambda joint, part: exact(joint) - exact(part), total, train)

    def markov(self, tail: Float) -> Float:
        return _upwards(lambda eta: enclosures.markov(exact(eta)), tail)

    def chernoff(self, tail: Float) -> Float:
        return _upwards(lambda eta: enclosures.chernoff(exact(eta)), tail)

    def product(self, tail: Float, total: Float, train: Float, *, quadratic: bool) -> Float:
        def product(eta: float, joint: float, part: float) -> Any:
            factor = enclosures.markov(exact(eta))
            if quadratic:
                factor = factor.min(enclosures.chernoff(exact(eta)))
            return factor * (exact(joint) - exact(part))

        return _upwards(product, tail, total, train)


def _upwards(formula: Callable[..., Any], *numbers: Float) -> Float:
    """The double above the ball of ``formula`` for each entry; inf where an argument is."""
    infinite = np.any([np.isinf(array) for array in np.broadcast_arrays(*numbers)], axis=0)
    finite = (np.where(infinite, 0.5, array) for array in numbers)
    return np.where(infinite, np.inf, outer(formula, *finite))


def _as_one_sided(name: str, value: Bound | ArrayLike, direction: Any) -> Bound:
    """``value`` as a bound with side ``direction``; a plain number counts as exact."""
    if isinstance(value, Bound):
        if value.side != direction:
            raise ValueError(
                f"{name}: expected {'an' if direction == 'upper' else 'a'} {direction} bound, got one of the other side"
            )
        return value
    return Bound(as_number(extended(name, value)), direction, 1.0, "", certified=True)
