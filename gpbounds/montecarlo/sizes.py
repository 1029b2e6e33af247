"""Sample sizes for a step of biased Monte Carlo: Lemma 6 and Corollary 5 of Wei et al., printed and improved."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from gpbounds import validation
from gpbounds.arrays import Float, as_number, kind_of_caller
from gpbounds.bound import outward
from gpbounds.likelihoods import Likelihood
from gpbounds.likelihoods.base import DerivativeRange, as_likelihood
from gpbounds.montecarlo import balls as enclosures
from gpbounds.numerics.scalars import entropy_residual
from gpbounds.rigor import exact, outer
from gpbounds.validation import rigor_of

RULES = ("chernoff", "improved", "printed")
Schedule = Callable[[Any], Any]


@dataclass(frozen=True, eq=False)
class SampleSize:
    """Samples that keep the error of a bMC step within γ_t·(c₃ + c₄‖∇h‖), the condition of convergence (iii).

    Attributes
    ----------
    L : int or array
        The least whole number of samples that suffices; a float beyond 2⁵³.
    threshold : float or array
        L must exceed it.
    step : float or array
        γ_t.
    relative_error : float or array
        a_t = min(γ_t, ½), the allowed error of the average of φ relative to E φ.
    delta : float or array
        δ_t, the share of this step in the probability of failure.
    zeta : float or array
        Lower bound on E p(y|f).
    factors : mapping of str to float or array
        Lower bounds on 2L·a²/ln(6n/δ_t), one for each of the averages of φ, φ' and φ''.
    c3, c4 : float or array
        Constants of condition (iii), c₃ for A = max‖a_i‖ as given.
    rule, claim : str
    notes : tuple of str
        Hypotheses, and corrections of the printed form.
    certified : bool
        True with ``rigor="sharp"``: L, threshold, factors and c₃ are not below their formulas, δ_t not above its own.
    """

    L: Any
    threshold: Any
    step: Any
    relative_error: Any
    delta: Any
    zeta: Any
    factors: Mapping[str, Any]
    c3: Any
    c4: float
    rule: str
    claim: str
    notes: tuple[str, ...]
    certified: bool = False

    def __str__(self) -> str:
        sizes, c3 = np.asarray(self.L), np.asarray(self.c3)
        how = f"{sizes.max():,.0f}" + (f" at most, {sizes.min():,.0f} at least," if sizes.ndim else "")
        head = (
            f"L = {how} samples suffice ({self.claim}, {self.rule}); "
            f"the error of the step is then at most {outward(float(c3.max()), 'upper')} times the step."
        )
        return "\n".join([head, *(f"  {note}" for note in self.notes)])

    def to_dict(self) -> dict[str, Any]:
        """The record ready for JSON; "form" and "alpha" are older names of "rule" and "relative_error"."""
        named = {"L": self.L, "threshold": self.threshold, "step": self.step, "relative_error": self.relative_error}
        named |= {"alpha": self.relative_error, "delta": self.delta, "zeta": self.zeta, "c3": self.c3, "c4": self.c4}
        return {
            **{name: np.asarray(value).tolist() for name, value in named.items()},
            "factors": {name: np.asarray(value).tolist() for name, value in self.factors.items()},
            "rule": self.rule,
            "form": self.rule,
            "claim": self.claim,
            "notes": list(self.notes),
            "certified": self.certified,
        }


@kind_of_caller
def lemma6(
    low: ArrayLike,
    high: ArrayLike,
    mean: ArrayLike,
    *,
    relative_error: ArrayLike,
    delta: ArrayLike,
    rigor: str = "auto",
) -> Any:
    """The least L > (b−a)²/(2r²μ²)·ln(2/δ): then X̄_L/μ ∈ [1−r, 1+r] with probability ≥ 1−δ  (D-41; Lemma 6).

    X_1, … are independent in [a, b] with mean μ ≠ 0; the proof applies Hoeffding's inequality twice.  It is not tight:
    for a Bernoulli variable the probability of failure is at most 0.1δ at this L.

    Parameters
    ----------
    low, high, mean : arrays
        a ≤ μ ≤ b, μ ≠ 0; they broadcast with the other arguments.
    relative_error : array
        r in (0, 1): the error of X̄_L relative to μ.
    delta : array
        In (0, 1), the probability of failure.
    rigor : "auto", "float" or "sharp"
        "sharp": the least whole number above an Arb ball of the threshold, by construction.  The others raise the
        threshold by 1e-14, and are proved, too: twelve roundings of 2^−53 follow each other, among them that of
        2/δ, which changes the logarithm, at least log 2, by 1.45 of itself.

    Returns
    -------
    float or array
        Whole numbers, exact up to 2⁵³.

    Raises
    ------
    ValueError
        for a mean of 0 or outside [a, b], r or δ outside (0, 1).

    >>> lemma6(0.0, 1.0, 0.5, relative_error=0.1, delta=0.05)
    738.0
    """
    a, b, mu = (np.asarray(validation.finite(n, x)) for n, x in (("low", low), ("high", high), ("mean", mean)))
    _require_one_shape(low=a, high=b, mean=mu)
    if (mu == 0.0).any() or (mu < a).any() or (mu > b).any():
        raise ValueError(
            f"mean: expected low <= mean <= high, mean not 0, got low {low!r}, high {high!r}, mean {mean!r}"
        )
    share = np.asarray(validation.open_unit("relative_error", relative_error))
    failure = np.asarray(validation.open_unit("delta", delta))
    _require_one_shape(low=a, high=b, mean=mu, relative_error=share, delta=failure)
    if rigor_of(rigor) == "sharp":

        def size(*numbers: float) -> Any:
            return enclosures.lemma6(*map(exact, numbers)).floor() + 1

        return as_number(outer(size, a, b, mu, share, failure))
    with np.errstate(over="ignore", divide="ignore"):  # μ may be so small that no finite L suffices
        return as_number(least_above(((b - a) / (share * mu)) ** 2 * 0.5 * np.log(2.0 / failure)))


def least_above(threshold: ArrayLike) -> Float:
    """The least whole number that exceeds ``threshold``, after ``threshold`` is rounded up by a few ulp."""
    return np.asarray(np.floor(np.asarray(threshold) * (1.0 + 1e-14)) + 1.0)


@kind_of_caller
def failure_share(iteration: ArrayLike, *, delta: ArrayLike, rigor: str = "auto") -> Any:
    """δ_t = 6δ/(π²t²), whose sum over t = 1, 2, … is δ  (D-48; Wei et al., after Cor. 5).

    With ``rigor="sharp"`` each share is the double below an Arb ball of the formula, so that the shares add up to at
    most δ.  The others are within 6·2^−53 of the share: π, its product, its square, 6δ and the quotient are rounded.

    Raises
    ------
    ValueError
        for δ outside (0, 1), t not a whole number ≥ 1.

    >>> round(failure_share(1, delta=0.05), 6)
    0.030396
    """
    t, total = validation.broadcast(
        iteration=validation.whole("iteration", iteration), delta=validation.open_unit("delta", delta)
    )
    if rigor_of(rigor) == "sharp":
        return as_number(outer(lambda k, d: enclosures.failure_share(exact(k), exact(d)), t, total, upwards=False))
    return as_number(np.asarray(6.0 * total / (math.pi * t) ** 2))


def sample_size(
    likelihood: Likelihood,
    y: ArrayLike,
    *,
    n: ArrayLike,
    delta: ArrayLike,
    step: ArrayLike | Schedule,
    iteration: ArrayLike,
    zeta: ArrayLike | None = None,
    m: ArrayLike | None = None,
    v: ArrayLike | None = None,
    rule: Literal["improved", "chernoff", "printed"] = "improved",
    design: ArrayLike = 1.0,
    rigor: str = "auto",
) -> SampleSize:
    """Samples for each datum in bMC at step t: with probability 1 − δ all steps meet condition (iii) of Prop. 2.

    With E p(y|f) ≥ ζ > 0, φ = p ∈ [0, B], φ' ∈ [b', B'], φ'' ∈ [b'', B''], B* the largest of these in size,
    a = min(γ_t, ½), δ_t = 6δ/(π²t²), and samples fresh at each step:

        L > ln(6n/δ_t)/(2a²)·max{B²/ζ², (B'−b')², (B''−b'')²},   ‖w_t‖ ≤ γ_t c₃,  c₃ = 2A(1 + B*)/ζ,  c₄ = 0   (D-50).

    The proof is that of D-50.

    ``rule="printed"`` is Corollary 5, where M divides by (E φ')² and (E φ'')², so that L is unbounded as these tend
    to 0, and it needs m and v  (D-42).  It lacks γ_t ≤ ½, which γ_t = 1/t violates at t = 1 (D-43):
    here, too, a = min(γ_t, ½).  Its c₃ = 2√2 A(2B* + 1)/ζ (D-47), with the constants of Table 1, corrected.
    ``rule="chernoff"`` replaces B²/(2ζ²), by Chernoff's bound P(|X̄ − μ| > aμ) ≤ 2e^(−L·k), with the larger of
    1/k, k = min kl((1±a)ζ/B ‖ ζ/B): about 1/ζ instead of 1/ζ², never above D-50's (Pinsker).  kl((1±a)p‖p) grows
    with p, being jointly convex and 0 at p = 0, so the bound with ζ holds for every E p ≥ ζ.

    Parameters
    ----------
    likelihood : Likelihood
    y : array
        Targets; the result has an entry for each, and their largest L serves all.
    n : int or array
        Number of data that the union bound covers.
    delta : float or array
        Probability of failure over all steps, in (0, 1).
    step : float, array or callable
        γ_t > 0, or a schedule t ↦ γ_t.
    iteration : int or array
        t ≥ 1.
    zeta : float or array, optional
        ζ ≤ E p(y|f) along all steps; by default E p at m and v, which need not bound E p elsewhere.
    m, v : arrays, optional
        Mean and variance of f.
    rule : "improved", "chernoff" or "printed"
    design : float
        A = max_i ‖(a_i1, vec a_i2 a_i2ᵀ)‖.
    rigor : "auto", "float" or "sharp"
        "sharp", with ``zeta`` and the rules "improved" and "chernoff": L is the least whole number above an Arb ball of
        the threshold, by construction, and the record is certified.  For all likelihoods but Poisson("softplus"), whose
        derivatives have no extremes in closed form.  "float" is not certified: it raises the threshold by 1e-14, which
        exceeds its rounding errors, but for Poisson counts y above 10, where the extremes err by up to 1e-15·√y of
        themselves.

    Raises
    ------
    ValueError
        for a wrong argument, a ζ above the maximum of p or above E p, neither ζ nor m and v, or the printed form
        without m and v; with ``rigor="sharp"`` without ζ, for the printed form, and for Poisson("softplus").

    >>> from gpbounds.likelihoods import Bernoulli
    >>> probit, options = Bernoulli("probit"), {"n": 1000, "delta": 0.05, "step": lambda t: 1 / t, "iteration": 10}
    >>> [sample_size(probit, 1, m=1e-3, v=1.0, rule=rule, **options).L for rule in ("printed", "improved", "chernoff")]
    [9887496276, 3356, 3351]
    >>> print(sample_size(probit, 1, zeta=0.1, **options))
    L = 83,991 samples suffice (D-50, improved); the error of the step is then at most 40 times the step.
      Assumes E p(y|f) >= 0.1 at every step, and samples drawn afresh at each.
    """
    likelihood = as_likelihood(likelihood)
    validation.choice("rule", rule, RULES)
    targets = np.asarray(validation.finite("y", y))
    count = np.asarray(validation.whole("n", n))
    t = np.asarray(validation.whole("iteration", iteration))
    failure = np.asarray(failure_share(t, delta=delta))
    gamma = _step_sizes(step, t)
    norm = np.asarray(validation.positive("design", design))
    _require_one_shape(y=targets, n=count, iteration=t, delta=failure, step=gamma, design=norm, zeta=zeta, m=m, v=v)
    relative_error = np.minimum(gamma, 0.5)
    printed = rule == "printed"
    proved = rigor_of(rigor) == "sharp"
    if proved and (printed or zeta is None):
        raise ValueError(
            "rigor: expected 'float' with rule='printed' or without zeta, since expectations at m and v are "
            "computed by quadrature in doubles; 'sharp' encloses rule='improved' and rule='chernoff' for a given zeta"
        )
    ranges = likelihood.derivative_range(targets, "printed" if printed else "sharpest", repaired=printed)
    floor, slopes = _floor(likelihood, targets, zeta, m, v, ranges.density[1])
    with np.errstate(over="ignore", divide="ignore"):
        if printed:
            factors, c3, claim = _printed(ranges, floor, slopes, norm)
        else:
            factors, c3, claim = _sharper(ranges, floor, relative_error, norm, chernoff=rule == "chernoff")
        largest = np.maximum.reduce(list(np.broadcast_arrays(*factors.values())))
        threshold = np.log(6.0 * count / failure) / (2.0 * relative_error**2) * largest
        sizes = least_above(threshold)
    if proved:
        enclosed = partial(_enclosed, likelihood, rule == "chernoff")
        arguments = (targets, floor, relative_error, count, t, np.asarray(delta), norm)
        factors = {name: outer(partial(enclosed, name), *arguments) for name in factors}
        threshold, sizes, c3 = (outer(partial(enclosed, part), *arguments) for part in ("threshold", "L", "c3"))
        failure = np.asarray(failure_share(t, delta=delta, rigor="sharp"))
    lowest = outward(float(floor.min()), "upper")
    notes = [f"Assumes E p(y|f) >= {lowest} at every step, and samples drawn afresh at each."]
    if (gamma > 0.5).any():
        notes.append("Where the step size exceeds 1/2, the allowed relative error is 1/2 (D-43).")
    if printed:
        notes.append("Assumes E φ' and E φ'' as at m and v: this L holds there only.")
    shape = np.broadcast_shapes(threshold.shape, c3.shape)
    return SampleSize(
        L=_whole(np.broadcast_to(sizes, shape)),
        threshold=as_number(threshold),
        step=as_number(gamma),
        relative_error=as_number(relative_error),
        delta=as_number(failure),
        zeta=as_number(floor),
        factors={name: as_number(np.asarray(value)) for name, value in factors.items()},
        c3=as_number(c3),
        c4=0.0,
        rule=rule,
        claim=claim,
        notes=tuple(notes),
        certified=proved,
    )


def _step_sizes(step: Any, t: Float) -> Float:
    """γ_t > 0 at the steps ``t``."""
    if callable(step):
        step = validation.function("step", step, "a number or a function of t")(t)
    return np.asarray(validation.positive("step", step))


def _require_one_shape(**given: ArrayLike | None) -> None:
    """Refuse numbers whose shapes do not broadcast, None apart."""
    validation.broadcast(**{name: validation.finite(name, each) for name, each in given.items() if each is not None})


def _enclosed(
    likelihood: Likelihood,
    chernoff: bool,
    part: str,
    y: float,
    zeta: float,
    relative_error: float,
    n: float,
    t: float,
    delta: float,
    design: float,
) -> Any:
    """One number of `sample_size` for one entry, as a ball."""
    floor, a = exact(zeta), exact(relative_error)
    parts, star = enclosures.factors(likelihood, y, floor, a, chernoff=chernoff)
    if part in parts:
        return parts[part]
    if part == "c3":
        return 2 * exact(design) * (1 + star) / floor
    threshold = enclosures.threshold(parts, exact(n), enclosures.failure_share(exact(t), exact(delta)), a)
    return threshold if part == "threshold" else threshold.floor() + 1


def relative_divergence(p: ArrayLike, relative_error: ArrayLike) -> Float:
    """min kl((1±r)p‖p) for p and r = ``relative_error`` in (0, 1]; (1 + r)p > 1 is impossible and counts as +∞.

    With a = ±r: p((1+a) log(1+a) − a) + (1−p)((1−x) log(1−x) + x), x = pa/(1−p), a sum of two terms ≥ 0.
    """
    p_, r = np.asarray(p, dtype=np.float64), np.asarray(relative_error, dtype=np.float64)

    def divergence(a: Float) -> Float:
        with np.errstate(all="ignore"):
            x = p_ * a / (1.0 - p_)  # (1 − (1+a)p)/(1 − p) = 1 − x
            value = p_ * entropy_residual(a) + (1.0 - p_) * entropy_residual(-x)
            return np.where((x <= 1.0) & (p_ < 1.0), value, np.inf)  # p = 1: X is constant

    return np.minimum(divergence(-r), divergence(r))


def _printed(
    ranges: DerivativeRange, floor: Float, slopes: tuple[Float, Float, Float] | None, norm: Float
) -> tuple[dict[str, Float], Float, str]:
    """The three terms of Corollary 5's M, c₃ and the claim."""
    if slopes is None:
        raise ValueError("rule=\"printed\": expected m and v, since M contains E φ' and E φ'' at them")
    B, widths, star = _sizes(ranges)
    first, second = (np.where(mean != 0.0, np.abs(mean), 1.0) for mean in slopes[1:])
    factors = {"φ": (B / slopes[0]) ** 2, "φ'": (widths[0] / first) ** 2, "φ''": (widths[1] / second) ** 2}
    return factors, 2.0 * math.sqrt(2.0) * norm * (2.0 * star + 1.0) / floor, "D-42"


def _sharper(
    ranges: DerivativeRange, floor: Float, relative_error: Float, norm: Float, *, chernoff: bool
) -> tuple[dict[str, Float], Float, str]:
    """The three terms of D-50's maximum, c₃ and the claim; the first by Chernoff's bound where that is smaller."""
    B, widths, star = _sizes(ranges)
    factors = {"φ": (B / floor) ** 2, "φ'": widths[0] ** 2, "φ''": widths[1] ** 2}
    if chernoff:
        factors["φ"] = np.minimum(factors["φ"], 2 * relative_error**2 / relative_divergence(floor / B, relative_error))
    return factors, 2.0 * norm * (1.0 + star) / floor, "N-cher" if chernoff else "D-50"


def _sizes(ranges: DerivativeRange) -> tuple[Any, tuple[Float, Float], Float]:
    """B, the widths B' − b' and B'' − b'', and B*."""
    (_, B), (b1, B1), (b2, B2) = ranges.density, ranges.first, ranges.second
    star = np.maximum.reduce([np.abs(np.asarray(x)) for x in (B, b1, B1, b2, B2)])
    return B, (np.asarray(B1) - b1, np.asarray(B2) - b2), star


def _floor(
    likelihood: Likelihood, y: Float, zeta: Any, m: Any, v: Any, B: Any
) -> tuple[Float, tuple[Float, Float, Float] | None]:
    """ζ, and E φ, E φ', E φ'' where m and v are given."""
    slopes = None
    if (m is None) != (v is None):
        raise ValueError(f"m and v: expected both or neither, got {'m' if v is None else 'v'} alone")
    if m is not None and v is not None:
        value, by_mean, by_variance = (np.asarray(x) for x in likelihood.log_expected_density(y, m, v, gradient=True))
        mean = np.exp(value)
        slopes = mean, mean * by_mean, 2.0 * mean * by_variance
        if not (mean > 0.0).all():
            raise ValueError("m, v: expected E p(y|f) > 0 in double precision, got one that underflows")
    if zeta is None:
        if slopes is None:
            raise ValueError("zeta: expected a lower bound on E p(y|f), or m and v to compute it from; got neither")
        return slopes[0], slopes
    floor = np.asarray(validation.positive("zeta", zeta))
    limit = np.asarray(B) if slopes is None else slopes[0]
    if (floor > limit * (1.0 + 1e-9)).any():
        limit_name = "the largest value of p(y|f)" if slopes is None else "E p(y|f) at m and v"
        raise ValueError(
            f"zeta: expected at most {limit_name}, {float(np.min(limit)):.6g}, got {float(np.max(floor)):.6g}"
        )
    return floor, slopes


def _whole(L: Float) -> Any:
    """An int where one number fits."""
    return int(L) if L.ndim == 0 and L < 2.0**53 else as_number(L)
