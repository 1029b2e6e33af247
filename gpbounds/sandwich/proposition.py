"""Proposition 4: bounds on means and covariances from the KL divergence between two Gaussian laws."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from gpbounds import validation
from gpbounds.arrays import EPS, Float, as_number
from gpbounds.bound import Bound, outward
from gpbounds.rigor import rigor_of
from gpbounds.sandwich.balls import outer_end
from gpbounds.sandwich.equation import roots
from gpbounds.validation import extended

NON_SINGULAR = "Both laws are Gaussian with non-singular covariances Σ1, Σ2, and KL is KL(N1 || N2)."


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
    assumptions = (*kl_bound.assumptions, *(() if NON_SINGULAR in kl_bound.assumptions else (NON_SINGULAR,)))
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
    impossible = 0.5 * m * m > gamma * (1.0 + 4.0 * EPS)
    if impossible.any():
        worst = float(np.broadcast_to(m, impossible.shape)[impossible].flat[0])
        raise ValueError(f"mahalanobis: expected m² <= 2·KL, which holds for all Gaussian laws, got m = {worst!r}")
    return m
