"""Proposition 4: bounds on means and covariances from the KL divergence between two Gaussian laws."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from gpbounds import validation
from gpbounds.arrays import EPS, as_number
from gpbounds.bound import Bound, outward
from gpbounds.rigor import above, at_bits, exact
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


def sandwich(kl: Bound | ArrayLike, mahalanobis: ArrayLike | None = None, *, certified: bool | None = None) -> Sandwich:
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
    certified : bool, optional
        Round all results outwards, with proofs by Arb balls (about 60 µs per number); by default if ``kl`` is a
        certified `Bound`.  The result is certified if ``kl`` is; a plain number counts as exact.

    Returns
    -------
    Sandwich

    Raises
    ------
    ValueError
        for γ < 0 or NaN, a lower bound as ``kl``, or m² > 2γ, which is impossible.

    >>> print(sandwich(0.01))  # doctest: +ELLIPSIS
    KL(N1 || N2) <= 0.01 (L-31) implies:
      means are within 0.141422 standard deviations of the second law, 0.142132 of the first;
      0.813105 cov2 <= cov1 <= 1.21355 cov2, and conversely
      0.824028 cov1 <= cov2 <= 1.22986 cov1.
      Assumes: ...
    """
    kl_bound = _as_bound(kl)
    rounded = isinstance(kl, Bound) and kl.certified if certified is None else certified
    gamma = extended("kl", kl_bound.value)
    remaining = gamma if mahalanobis is None else _remaining(gamma, mahalanobis, rounded)
    b, t, log_b = roots(remaining, certified=rounded)
    with np.errstate(over="ignore", divide="ignore"):
        mean, first = np.sqrt(2.0 * gamma), np.exp(gamma) * np.sqrt(-np.expm1(-2.0 * gamma))
        small, large = 1.0 / np.asarray(t), 1.0 / np.asarray(b)
    if rounded:  # square roots and quotients have an error of at most half an ulp
        mean = np.where(gamma == 0.0, 0.0, np.nextafter(mean, np.inf))
        small, large = np.where(remaining == 0.0, 1.0, (np.nextafter(small, 0.0), np.nextafter(large, np.inf)))
        first = np.vectorize(_mean_upwards, otypes=[float])(gamma)
    assumptions = (*kl_bound.assumptions, *(() if NON_SINGULAR in kl_bound.assumptions else (NON_SINGULAR,)))
    terms = (
        {"KL": kl_bound.value} if mahalanobis is None else {"KL": kl_bound.value, "Mahalanobis distance": mahalanobis}
    )
    origin = f"{kl_bound.claim}, " if kl_bound.claim else ""

    def bound(value: Any, side: Literal["upper", "lower"], claim: str, quantity: str) -> Bound:
        proved = kl_bound.certified and rounded
        return Bound(as_number(value), side, kl_bound.confidence, origin + claim, terms, assumptions, proved, quantity)

    return Sandwich(
        kl_bound,
        bound(mean, "upper", "L-30", "Mahalanobis distance of the means, in Σ2"),
        bound(first, "upper", "N-mean", "Mahalanobis distance of the means, in Σ1"),
        bound(b, "lower", "L-31", "eigenvalues of Σ1 relative to Σ2"),
        bound(t, "upper", "L-31", "eigenvalues of Σ1 relative to Σ2"),
        bound(log_b, "lower", "L-31", "log eigenvalues of Σ1 relative to Σ2"),
        bound(small, "lower", "L-31", "eigenvalues of Σ2 relative to Σ1"),
        bound(large, "upper", "L-31", "eigenvalues of Σ2 relative to Σ1"),
    )


def _as_bound(kl: Bound | ArrayLike) -> Bound:
    """``kl`` as an upper bound on KL(N₁‖N₂); a plain number counts as exact."""
    if isinstance(kl, Bound):
        if kl.side != "upper":
            raise ValueError("kl: expected an upper bound on a KL divergence, got a lower one")
        return kl
    return Bound(as_number(extended("kl", kl)), "upper", 1.0, "", certified=True, quantity="KL(N1 || N2)")


def _remaining(gamma: Any, mahalanobis: ArrayLike, up: bool) -> Any:
    """γ − m²/2, the part of the divergence for the covariances; rounded up if ``up``."""
    m = validation.non_negative("mahalanobis", mahalanobis)
    used = 0.5 * m * m
    impossible = used > gamma * (1.0 + 4.0 * EPS)
    if impossible.any():
        worst = float(np.broadcast_to(m, impossible.shape)[impossible].flat[0])
        raise ValueError(f"mahalanobis: expected m² <= 2·KL, which holds for all Gaussian laws, got m = {worst!r}")
    remaining = np.asarray(np.maximum(gamma - used, 0.0))  # negative only by rounding of m²
    if not up:
        return remaining
    return np.nextafter(np.nextafter(remaining, np.inf) + (gamma + used) * EPS, np.inf)


def _mean_upwards(gamma: float) -> float:
    """The smallest float not below √(e^(2γ) − 1)."""
    if gamma == 0.0 or gamma > 800.0:
        return 0.0 if gamma == 0.0 else math.inf
    with at_bits(256):
        return above((2 * exact(gamma)).expm1().sqrt())
