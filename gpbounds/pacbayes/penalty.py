"""The terms of a PAC-Bayes bound besides KL(Q‖P): ξ(N), the confidence, and the prior over hyperparameters."""

from __future__ import annotations

import functools
import math
from fractions import Fraction
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from gpbounds.arrays import Float, kind_of_caller
from gpbounds.errors import shown
from gpbounds.rigor import exact, settled
from gpbounds.validation import broadcast, choice, extended, positive_unit, rigor_of, whole

Form = Literal["sharpest", "printed"]

_LISTED = 128
"""Up to this N ξ(N) is rounded from its exact rational value; for larger N the series has a relative error of 1e-16."""


@kind_of_caller
def xi(N: ArrayLike, certified: bool | None = None, *, rigor: str = "auto") -> Any:
    """ξ(N), the constant of Theorem 1: the supremum of E exp(N·kl(R_S‖R)) over all laws of a loss in [0, 1].

    ξ(N) = Σ_k C(N,k) (k/N)^k (1−k/N)^(N−k) = Σ_{k≤N} N!/((N−k)! N^k) = e^N N^−N Γ(N+1, N),   √N ≤ ξ(N) ≤ 2√N.

    Claim P-10 (replaces the 2√N of Reeb et al., Thm 1).  ξ(N) = √(πN/2) + 2/3 + √(π/(2N))/12 − 4/(135N) + …;
    ξ(1) = 2 = 2√1, and ln(2√N/ξ(N)) grows to ln √(8/π) = 0.467 nats.  Within 2 ulp.

    Parameters
    ----------
    N : int or array of whole numbers >= 1
        Number of data.
    rigor : "auto", "float" or "sharp"
        "sharp": the least double that is not below ξ(N), decided with Arb's incomplete Γ function (milliseconds for
        each N).  The others are within 2 ulp, on no side.  ``certified=True`` is an old spelling of "sharp".

    Raises
    ------
    ValueError
        for N that is not a whole number >= 1.

    >>> float(xi(2)), float(xi(100))
    (2.5, 13.20996063021598)
    """
    sizes = whole("N", N)
    if rigor_of(rigor, certified) == "sharp":
        values = {n: _rounded_up(n) for n in np.unique(sizes).tolist()}
        return np.array([values[n] for n in sizes.ravel().tolist()]).reshape(sizes.shape)[()]
    far = np.maximum(sizes, _LISTED)
    inverse = 1.0 / far
    square = inverse * inverse
    # N!(e/N)^N = √(2πN) e^(1/(12N) − …) (Stirling), and Ramanujan's θ(N) = 1/3 + 4/(135N) − …
    stirling = np.sqrt(0.5 * np.pi * far) * np.exp(
        inverse * (1 / 12 - square * (1 / 360 - square * (1 / 1260 - square / 1680)))
    )
    theta = inverse * (
        4 / 135
        - inverse * (8 / 2835 + inverse * (16 / 8505 - inverse * (8992 / 12629925 + inverse * 334144 / 492567075)))
    )
    value = stirling + (2 / 3 - theta)
    table = _listed()
    return np.where(sizes <= _LISTED, table[np.minimum(sizes, _LISTED).astype(np.int64)], value)[()]


@kind_of_caller
def log_penalty(N: ArrayLike, *, delta: ArrayLike, log_prior_penalty: ArrayLike = 0.0, form: Form = "sharpest") -> Any:
    """ln(1/p_θ) + ln(ξ(N)/δ): the terms in the numerator of the bound besides KL(Q‖P), in nats.

    Claims P-09, P-10, P-14 (Reeb et al., Eq. 4, 5).  ``form="printed"`` has 2√N in place of ξ(N), as the paper does.

    Parameters
    ----------
    N : int or array of whole numbers >= 1
        Number of data.
    delta : float or array in (0, 1]
        Probability of failure.
    log_prior_penalty : float or array >= 0
        ln(1/p_θ), for a prior p_θ over hyperparameters that was fixed before the data; see `grid_penalty`.
    form : "sharpest" or "printed"

    Raises
    ------
    ValueError
        for wrong arguments.

    >>> [round(float(log_penalty(404, delta=0.01, form=form)), 6) for form in ("sharpest", "printed")]
    [7.857987, 8.299025]
    """
    sizes, failure, prior = broadcast(
        N=whole("N", N),
        delta=positive_unit("delta", delta),
        log_prior_penalty=extended("log_prior_penalty", log_prior_penalty),
    )
    constant = xi(sizes) if choice("form", form, ("sharpest", "printed")) == "sharpest" else 2.0 * np.sqrt(sizes)
    return prior + (np.log(constant) - np.log(failure))


@kind_of_caller
def grid_penalty(
    points: ArrayLike, hyperparameters: ArrayLike, certified: bool | None = None, *, rigor: str = "auto"
) -> Any:
    """ln(1/p_θ) = ln|Θ| = T ln(G+1) of the uniform prior on a grid of G+1 ``points`` for each of T ``hyperparameters``.

    Claims P-43, P-48 (Reeb et al., §3.1).  T is 2 for a variance and one lengthscale, d + 1 with a lengthscale for each
    of d inputs; ln θ from −6 to 6 in steps of 0.01 makes 1201 points.

    Parameters
    ----------
    points, hyperparameters : int or array of whole numbers >= 1
    rigor : "auto", "float" or "sharp"
        "sharp" rounds up to the least double that is not below the penalty.  ``certified=True`` is an old spelling.

    Raises
    ------
    ValueError
        for numbers that are not whole or below 1.

    >>> round(float(grid_penalty(1201, 2)), 4)
    14.1818
    """
    T, G1 = broadcast(hyperparameters=whole("hyperparameters", hyperparameters), points=whole("points", points))
    if rigor_of(rigor, certified) == "sharp":
        pairs = zip(T.ravel().tolist(), G1.ravel().tolist(), strict=True)
        penalties = [settled(lambda t=t, g=g: exact(t) * exact(g).log(), upwards=True) for t, g in pairs]  # type: ignore[misc]
        return np.array(penalties).reshape(T.shape)[()]
    return (T * np.log(G1))[()]


@kind_of_caller
def mixture_kl(kl: ArrayLike, log_prior_penalty: ArrayLike, axis: int = -1) -> Any:
    """Upper bound on KL(Q‖Σ_θ p_θ P^θ) from all KL(Q‖P^θ): the soft minimum.

    KL(Q‖Σp_θP^θ) ≤ −ln Σ_θ p_θ e^(−KL(Q‖P^θ)) ≤ min{min_θ [ln(1/p_θ) + KL(Q‖P^θ)], Σ_θ p_θ KL(Q‖P^θ)}.

    Claims P-40, P-41 (sharper than Reeb et al., Eq. 15–17 and Remark 2).  Equality where the P^θ agree, or only one KL
    is finite and the others have disjoint support.  The value serves as ``kl`` in `bound`, without a penalty for θ.

    Parameters
    ----------
    kl : array of numbers in [0, ∞]
        KL(Q‖P^θ) along ``axis``, in nats.
    log_prior_penalty : float or array in [0, ∞]
        ln(1/p_θ), broadcasting with ``kl``; Σ p_θ ≤ 1.
    axis : int
        The axis of θ.

    Raises
    ------
    ValueError
        for negative numbers, or Σ p_θ > 1.

    >>> round(float(mixture_kl([3.0, 3.5], np.log(2.0))), 6)
    3.21907
    """
    divergences, prior = broadcast(
        kl=extended("kl", kl), log_prior_penalty=extended("log_prior_penalty", log_prior_penalty)
    )
    if divergences.ndim == 0:
        raise ValueError("kl: expected one number for each θ, got a single number")
    if type(axis) is bool or not isinstance(axis, int | np.integer) or not -divergences.ndim <= axis < divergences.ndim:
        raise ValueError(f"axis: expected the number of an axis of kl, shape {divergences.shape}, got {shown(axis)}")
    with np.errstate(under="ignore"):
        mass = np.exp(-prior).sum(axis=axis)
        if (mass > 1.0 + 1e-9).any():
            raise ValueError(f"log_prior_penalty: expected Σ exp(−penalty) <= 1 over θ, got {mass.max():.6g}")
        total = divergences + prior
        least = total.min(axis=axis, keepdims=True)
        safe = np.where(np.isfinite(least), least, 0.0)
        inner = np.exp(safe - total).sum(axis=axis)
    with np.errstate(divide="ignore"):
        return (safe.squeeze(axis) - np.log(inner))[()]


def xi_ball(N: float) -> Any:
    """ξ(N) = e^N N^−N Γ(N+1, N) as an Arb ball."""
    from flint import arb

    n = exact(N)
    return (n - n * n.log()).exp() * arb.gamma_upper(n, n + 1)


def penalty_ball(N: float, log_prior_penalty: float, *, delta: float, form: Form) -> Any:
    """`log_penalty` as an Arb ball, of finite numbers."""
    n = exact(N)
    constant = xi_ball(N) if form == "sharpest" else 2 * n.sqrt()
    return exact(log_prior_penalty) + (constant / exact(delta)).log()


@functools.cache
def _listed() -> Float:
    """ξ(1), …, ξ(128), each the double next to its exact value, at index N; the entry at 0 is NaN."""
    return np.array([math.nan, *(float(_exactly(n)) for n in range(1, _LISTED + 1))])


def _exactly(n: int) -> Fraction:
    term, total = 1, n**n
    for k in range(n):
        term *= n - k
        total += term * n ** (n - k - 1)
    return Fraction(total, n**n)


def _rounded_up(N: float) -> float:
    if N > _LISTED:
        return settled(lambda: xi_ball(N), upwards=True)
    truth = _exactly(int(N))  # a ball cannot decide where ξ(N) is a double: ξ(1) = 2, ξ(2) = 5/2
    near = float(truth)
    return near if Fraction(near) >= truth else math.nextafter(near, math.inf)
