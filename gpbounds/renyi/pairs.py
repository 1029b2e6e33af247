"""log p(y) and gaps between proved ends: entries of K and factors in double-double numbers, sums in balls."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from gpbounds.arrays import Float, as_host_points
from gpbounds.bound import Bound
from gpbounds.kernels import Kernel
from gpbounds.kernels.pairs import pair_variances
from gpbounds.linalg.pair_solve import Unresolved
from gpbounds.renyi.pair_problem import Nearby, Scaled
from gpbounds.renyi.residual import with_jitter_named
from gpbounds.renyi.sentences import ANY_Y, BEST, GAP
from gpbounds.rigor import above, at_bits, below, exact
from gpbounds.validation import noise_variance, non_negative, scalar
from gpbounds.whitening import as_targets

EXACT = 2048
"""Largest N at which members="auto" factorises K + σ²I."""
CHEAP = ("trace", "determinant")
MEMBERS = ("exact", *CHEAP)
BITS = 192
ASSUMED = "The model of y is the Gaussian process with this kernel and this noise variance."


def enclosed_evidence(
    kernel: Kernel,
    X: Any,
    y: Any,
    Z: ArrayLike | None,
    *,
    noise: float,
    jitter: float = 0.0,
    members: str | Sequence[str] = "auto",
) -> tuple[Bound, Bound]:
    """The bounds of `gpbounds.renyi.evidence` with ``rigor="sharp"``.

    Exact: N-exact, with a computed factor L of A = K + σ²I ⪰ σ²I, as the exact K is positive semi-definite.  The bound
    ‖A − LLᵀ‖_F ≤ η is proved: entries of K to 30 digits (N-pairs), products of slices without rounding (N-slices).
    ρ = η/σ² < ¼.
    Inducing points: N-nystrom, with log|FFᵀ + sI| = (N − m)log s + log|FᵀF + sI| in the same way.  They are those of
    Kuu + jitter·I, which may only widen the interval.

    Parameters
    ----------
    kernel, X, y, Z, noise, members : as in `gpbounds.renyi.evidence`
    jitter : float
        Added to the diagonal of Kuu.
    """
    problem, centres, amount = _checked(kernel, X, y, Z, noise, jitter)
    names = _names(members, problem.N, centres is None)
    lowers, uppers, terms = {}, {}, {}
    with at_bits(BITS), _refused(problem, noise):
        if "exact" in names:
            ball = problem.exact()
            lowers["exact"], uppers["exact"] = below(ball), above(ball)
        if set(names) & set(CHEAP):
            assert centres is not None
            nearby = Nearby.of(problem, centres, amount)
            lowers |= {name: below(ball) for name, ball in nearby.lower().items()}
            uppers |= {name: above(ball) for name, ball in nearby.upper().items() if name in names}
            terms = {"T/σ²": above(nearby.trace / exact(nearby.noise)), "points": nearby.m, "jitter": float(jitter)}
    return _best("lower", lowers, terms), _best("upper", uppers, terms)


def enclosed_gap(
    kernel: Kernel, X: Any, y: Any, Z: ArrayLike, alpha: float, *, noise: float, jitter: float = 0.0
) -> tuple[Bound, Bound]:
    """The gap D_α(y) = log p(y) − L_α between proved ends; at α = 1 KL[q*‖p] = log p(y) − L_VI.

    Q = Kfu(Kuu + jitter·I)⁻¹Kuf is known to 30 digits from both sides (N-exact-gap), log p(y) by N-exact up to N = 2048
    and by N-nystrom above, where D_α of orders below 1 is between 0 and α·KL (N-conc).

    Where points of Z are determined by others to 30 digits, as they may be without a jitter, they are left out, an
    assumption names them, the upper bound holds for Z with or without them, and the lower one is 0.

    Parameters
    ----------
    kernel, X, y, Z, alpha, noise : as in `gpbounds.renyi.gap`
    jitter : float
        Added to the diagonal of Kuu: 0 or at least 2⁻¹⁰⁰⁰ of the variance.

    >>> from gpbounds.kernels import SquaredExponential
    >>> X, y, Z = [0.0, 1.0, 2.0], [1.0, 0.5, -0.5], [0.0, 1e-9]
    >>> lower, upper = enclosed_gap(SquaredExponential(), X, y, Z, 1.0, noise=0.1, jitter=1e-12)
    >>> round(float(lower), 9), float(upper) - float(lower) < 1e-9
    (7.884869438, True)
    """
    problem, centres, amount = _checked(kernel, X, y, Z, noise, jitter)
    assert centres is not None
    numbers = np.arange(len(centres)) if amount else _different(kernel, centres)
    with at_bits(BITS), _refused(problem, noise):
        nearby = Nearby.of(problem, centres[numbers], amount)
        density = problem.exact() if problem.N <= EXACT else None
        elbo = nearby.lower()["elbo 1"]
        tops = list(nearby.upper().values()) if density is None else [density]
        terms = {"log p(y)": min(map(above, tops)), "elbo 1": below(elbo), "points": float(nearby.m)}
        excess = min(above(exact(alpha) * (ball - elbo)) for ball in tops)
        lowest, claim = 0.0, "N-nystrom, N-conc"
        if _two_sided(nearby):
            claim = "N-exact-gap"
            lowest, highest = _exact_gap(nearby, density, alpha)
            excess = min(excess, highest)
    terms["jitter"] = float(jitter)
    assumptions = with_jitter_named(float(jitter), (BEST, ANY_Y, *_left_out(numbers, nearby)))
    known: Any = {"assumptions": assumptions, "certified": True, "quantity": GAP}
    return (
        Bound(
            min(max(lowest, 0.0), max(excess, 0.0)),
            "lower",
            1.0,
            "N-exact-gap" if lowest > 0.0 else "R-gap",
            terms,
            **known,
        ),
        Bound(max(excess, 0.0), "upper", 1.0, claim, terms, **known),
    )


def _different(kernel: Kernel, Z: Float) -> np.ndarray:
    """Numbers of the points of Z that may add to Q: no point twice, none where f is 0 for certain, but one at least."""
    numbers = np.sort(np.unique(Z, axis=0, return_index=True)[1])
    if math.isfinite(kernel.max_variance):
        return numbers
    known = [i for i in numbers.tolist() if pair_variances(kernel, Z[i : i + 1])[0].any()]
    return np.array(known or numbers[:1], dtype=np.intp)


def _two_sided(nearby: Nearby) -> bool:
    """Whether Q is known from both sides to less than a quarter of σ²."""
    return 4.0 * max(nearby.epsilon, nearby.excess) < 0.99 * nearby.problem.noise


def _exact_gap(nearby: Nearby, density: Any, alpha: float) -> tuple[float, float]:
    """Both ends of D_α; of α·KL and 0 where log p(y) is known by bounds only, ``density`` None."""
    if density is None:
        if alpha < 1.0:
            return 0.0, math.inf
        lowest = max(below(ball - nearby.variational()) for ball in nearby.lower().values())
        return lowest, math.inf
    ball = density - (nearby.variational() if alpha == 1.0 else nearby.objective(alpha))
    return below(ball), above(ball)


def _left_out(numbers: np.ndarray, nearby: Nearby) -> tuple[str, ...]:
    left = np.setdiff1d(numbers, numbers[nearby.kept])
    if not left.size or math.isfinite(nearby.excess):
        return ()
    named = ", ".join(map(str, left[:10].tolist())) + (", …" if left.size > 10 else "")
    return (
        f"{left.size} of the points of Z (numbers {named}) are left out, as 30 digits do not tell at this noise what "
        "they add to the others: the upper bound holds for all of Z, and nothing is said from below.  With a jitter "
        "they count.",
    )


def _checked(
    kernel: Kernel, X: Any, y: Any, Z: ArrayLike | None, noise: float, jitter: float
) -> tuple[Scaled, Float | None, float]:
    """The scaled problem, Z, and the jitter in units of the scaled kernel."""
    points = as_host_points(X, "X")
    variance, added = noise_variance(noise), scalar(non_negative, "jitter", jitter)
    targets = as_targets(y, points)
    columns = targets[:, None] if targets.ndim == 1 else targets
    centres = None if Z is None else as_host_points(Z, "Z", points.shape[1])
    problem = Scaled.of(kernel, points, columns, variance)
    amount = math.ldexp(added, -problem.exponent)
    if math.ldexp(amount, problem.exponent) != added:
        raise ValueError(
            f"jitter: expected 0, or at least 2**-1000 of the variance of f and of the noise, got {added:.3g}"
        )
    return problem, centres, amount


@contextmanager
def _refused(problem: Scaled, noise: float) -> Iterator[None]:
    try:
        yield
    except Unresolved as error:
        least = float(np.ldexp(error.least, problem.exponent))
        raise ValueError(
            f"noise: expected σ² of at least {least:.3g}, above which 30 digits decide log p(y) of these {problem.N} "
            f"rows, got {float(noise):.3g}"
        ) from None


def _best(side: Literal["lower", "upper"], values: dict[str, float], terms: dict[str, float]) -> Bound:
    name = (max if side == "lower" else min)(values, key=lambda member: values[member])
    claim = "N-exact" if name == "exact" else "N-nystrom"
    return Bound(values[name], side, 1.0, claim, values | terms, (ASSUMED,), certified=True, quantity="log p(y)")


def _names(members: str | Sequence[str], N: int, without: bool) -> tuple[str, ...]:
    cheap = () if without else CHEAP
    plans = {"auto": ("exact",) if N <= EXACT or without else CHEAP, "cheap": CHEAP, "all": ("exact", *cheap)}
    if isinstance(members, str) and members in plans:
        names = plans[members]
    else:
        names = (members,) if isinstance(members, str) else tuple(members)
    if not names or not set(names) <= set(MEMBERS):
        raise ValueError(
            f"members: expected 'auto', 'cheap', 'all' or some of {', '.join(map(repr, MEMBERS))} with rigor='sharp', "
            f"got {members!r}"
        )
    if without and set(names) & set(CHEAP):
        raise ValueError(f"Z: expected inducing inputs for the members {' and '.join(map(repr, CHEAP))}, got None")
    return names
