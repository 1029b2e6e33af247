"""Exact statements from rows that the predictor has not seen: its risk, and the coverage of its intervals."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from gpbounds.arrays import Float, as_number
from gpbounds.bound import Bound
from gpbounds.numerics.search import first_double
from gpbounds.pacbayes.inverse import kl_inverse
from gpbounds.rigor import MOST_BITS, at_bits, below, enclosed, exact, rational, within
from gpbounds.validation import (
    broadcast,
    choice,
    count,
    extended,
    non_negative,
    open_unit,
    positive_unit,
    rigor_of,
    scalar,
    whole,
)

Losses = Literal["zero-one", "bounded"]

UNSEEN = "The n rows are independent draws from one law, and the predictor was fixed independently of them."
UNIT = "The loss lies in [0, 1]."
_BITS = 1024
"""Precision up to which balls decide an inequality; beyond it both sides are equal, but for a chance of 2^-900."""
_STEPS = 64
"""Newton steps; one or two are enough where SciPy's inverse is accurate."""


def holdout_bound(
    k: ArrayLike, n: ArrayLike, *, delta: ArrayLike, losses: Losses = "zero-one", rigor: str = "auto"
) -> Bound:
    """Upper bound on the risk of a predictor, from the number of its mistakes among n rows that it has not seen.

    With probability ≥ 1 − δ over the rows, R ≤ B, B the 1 − δ quantile of Beta(k + 1, n − k): the only B with
    P(Bin(n, B) ≤ k) = δ, and 1 for k = n.

    Claim N-held-out (Clopper and Pearson 1934).  Hypotheses: n iid rows, a predictor fixed independently of them, a
    loss in {0, 1}.  No smaller function of k that does not decrease has this guarantee.

    ``losses="bounded"`` is for losses in [0, 1] with total k: R ≤ kl⁻¹(k/n, ln(1/δ)/n), claim N-held-out-kl (Chernoff).

    Parameters
    ----------
    k : int or array of whole numbers in [0, n]
        Number of mistakes.  With "bounded" the sum of the losses, any number in [0, n]; round it up, as the bound
        increases with k.
    n : int or array of whole numbers >= 1
        Number of rows.  k, n and δ broadcast.
    delta : float or array in (0, 1]
        Probability of failure.
    losses : "zero-one" or "bounded"
    rigor : "auto", "float" or "sharp"
        "sharp": the least double that is proved not to be below B, by Arb balls, in about √n·10 µs.  The others are
        doubles on no side, not certified; their relative distance from B was at most 1e-12 for n ≤ 10⁷.

    Raises
    ------
    ValueError
        for wrong arguments, such as k > n.

    >>> print(holdout_bound(21, 1000, delta=0.01, rigor="sharp"))
    risk <= 0.0341253 with probability at least 0.99 (N-held-out, rounding included).
      Assumes: The n rows are independent draws from one law, and the predictor was fixed independently of them.
    >>> round(float(holdout_bound(21.0, 1000, delta=0.01, losses="bounded")), 6)
    0.037806
    """
    zero_one = choice("losses", losses, ("zero-one", "bounded")) == "zero-one"
    mistakes, rows, failure = broadcast(
        k=whole("k", k, 0) if zero_one else non_negative("k", k),
        n=whole("n", n),
        delta=positive_unit("delta", delta),
    )
    if (mistakes > rows).any():
        first = tuple(np.argwhere(mistakes > rows)[0])
        raise ValueError(f"k: expected at most n = {rows[first]:g}, got {mistakes[first]:g}; n rows lose n at most")
    value = _risks(mistakes, rows, failure) if zero_one else _bounded_risks(mistakes, rows, failure)
    proved = rigor_of(rigor) == "sharp"
    if proved:
        cells = zip(*(array.ravel().tolist() for array in (mistakes, rows, failure, value)), strict=True)
        ends = [
            (_risk if zero_one or total == 0.0 else _bounded_risk)(total, int(of), d, near)
            for total, of, d, near in cells
        ]
        value = np.array(ends, dtype=np.float64).reshape(rows.shape)
    return Bound(
        as_number(value),
        "upper",
        as_number(1.0 - failure),
        "N-held-out" if zero_one else "N-held-out-kl",
        {"k/n": as_number(mistakes / rows), "n": as_number(rows)},
        (UNSEEN,) if zero_one else (UNSEEN, UNIT),
        proved,
        "risk",
    )


def _risks(k: Float, n: Float, delta: Float) -> Float:
    """The 1 − δ quantiles of Beta(k + 1, n − k) in doubles.

    SciPy's inverse, which is up to 3 % off at δ = 1e-300 and NaN at times, there the kl inverse, which is above the
    root; then Newton's method for the logarithm of P(Bin(n, p) ≤ k), which is concave in p.
    """
    from scipy.special import betaincc, betainccinv, betaln, xlog1py

    right = np.maximum(n - k, 1.0)
    with np.errstate(all="ignore"):
        p = betainccinv(k + 1.0, right, delta)
        p = np.where((p > 0.0) & (p < 1.0), p, _bounded_risks(k, n, delta))
        for _ in range(_STEPS):
            tail = betaincc(k + 1.0, right, p)
            density = np.exp(k * np.log(p) + xlog1py(right - 1.0, -p) - betaln(k + 1.0, right))
            moved = np.clip(p + np.log(tail / delta) * tail / density, 0.5 * p, 0.5 + 0.5 * p)
            moved = np.where(np.isfinite(moved), moved, p)
            small = np.abs(moved - p) <= 1e-9 * np.minimum(p, 1.0 - p)  # the step after it is below rounding
            p = moved
            if small.all():
                break
        none = 0.0 - np.expm1(np.log(delta) / n)
    p = np.where(k == 0.0, none, np.where(delta == 1.0, 0.0, p))
    return np.where(k == n, 1.0, p)


def _bounded_risks(k: ArrayLike, n: ArrayLike, delta: ArrayLike) -> Float:
    return np.asarray(kl_inverse(np.divide(k, n), -np.log(delta) / n + 0.0))


def _risk(k: float, n: int, delta: float, near: float) -> float:
    """The least double B with P(Bin(n, B) ≤ k) ≤ δ, from one near it."""
    wrong = int(k)
    if wrong == n:
        return 1.0
    if delta == 1.0:
        return 0.0

    def safe(p: float) -> bool:
        return p > 0.0 and (p >= 1.0 or not _exceeds(n, wrong, Fraction(p), delta))

    return first_double(safe, _nearer(wrong, n, delta, near), math.inf)


def _nearer(k: int, n: int, delta: float, p: float) -> float:
    """A double next to the root of P(Bin(n, p) ≤ k) = δ, for k < n and δ < 1: Newton's method as in `_risks`."""
    for _ in range(_STEPS):
        if not 0.0 < p < 1.0:
            break
        with at_bits(128):
            tail, share = _tail(n, k, Fraction(p)), exact(p)
            slope = _mass(n, k, share, 1 - share) * (n - k) / (1 - share)
            step = float((tail / exact(delta)).log() * tail / slope)
        p, before = min(max(p + step, 0.5 * p), 0.5 + 0.5 * p), p
        if abs(p - before) <= 1e-9 * min(before, 1.0 - before):
            break
    return p


def _bounded_risk(k: float, n: int, delta: float, near: float) -> float:
    """The least double B ≥ k/n with n·kl(k/n‖B) ≥ ln(1/δ), from one near it."""
    if k == n:
        return 1.0
    share, total = Fraction(k) / n, exact(k)

    def excess(p: float) -> Any:
        q, ball = rational(share), exact(p)
        return total * (q / ball).log() + (n - total) * ((1 - q) / (1 - ball)).log() + exact(delta).log()

    def safe(p: float) -> bool:
        if p >= 1.0 or Fraction(p) <= share:
            return p >= 1.0 or (delta == 1.0 and Fraction(p) == share)
        return delta == 1.0 or _sign(lambda: excess(p)) > 0

    return first_double(safe, near, math.inf)


@dataclass(frozen=True)
class CoverageFactor:
    """By what the spread of a predictor is multiplied, so that its intervals cover.

    Attributes
    ----------
    factor : float
        κ, the ``rank``-th smallest score: a row is covered if its score is at most κ.
    rank : int
    n : int
        Number of calibration rows.
    level : float
        The intervals cover at least this share of new rows, but for a probability of δ.
    probability : float
        P(Beta(rank, n + 1 − rank) ≥ level), which is at least 1 − δ, rounded down by less than 2^-52: the coverage is
        at least ``level`` with this probability at least.
    """

    factor: float
    rank: int
    n: int
    level: float
    probability: float


def coverage_rank(n: int, *, level: float, delta: float) -> int:
    """The least k for which the k-th smallest of n scores bounds a new score with probability ≥ ``level``, but for δ.

    The least k with P(Beta(k, n + 1 − k) ≥ level) ≥ 1 − δ, that is P(Bin(n, level) ≥ k) ≤ δ.

    Claim N-coverage; see `coverage_factor`.  The inequality is decided by Arb balls, and in whole numbers where both
    sides are equal: k is exact whatever ``n``.

    Parameters
    ----------
    n : int >= 1
        Number of calibration rows.
    level : float in (0, 1)
        The share of new rows that is to be covered.
    delta : float in (0, 1]
        Probability of failure.

    Raises
    ------
    ValueError
        for wrong arguments, and if no k is enough: level^n > δ.  The message says how many rows are.

    >>> coverage_rank(1000, level=0.9, delta=0.01), coverage_rank(10**6, level=0.9, delta=0.01)
    (922, 900698)
    """
    rows, share, failure = count("n", n), scalar(open_unit, "level", level), scalar(positive_unit, "delta", delta)
    return _rank(rows, share, failure)


def _rank(n: int, level: float, delta: float) -> int:
    from scipy.special import betainc

    missed = 1 - Fraction(level)

    def enough(k: int) -> bool:
        return not _exceeds(n, n - k, missed, delta)  # P(Bin(n, 1 − level) ≤ n − k) = P(Bin(n, level) ≥ k)

    if not enough(n):
        raise ValueError(
            f"n: expected at least {_least_rows(level, delta)} rows for level = {level:g} and delta = {delta:g}, as "
            f"level^n must not exceed delta, got {n}; add rows, lower the level or raise delta"
        )
    low, k = 0, n
    while k - low > 1:
        middle = (low + k) // 2
        low, k = (low, middle) if betainc(middle, n + 1 - middle, level) <= delta else (middle, k)
    while not enough(k):
        k += 1
    while k > 1 and enough(k - 1):
        k -= 1
    return k


def _least_rows(level: float, delta: float) -> int:
    """The least n with level^n ≤ δ."""
    near = max(math.ceil(math.log(delta) / math.log(level)) - 2, 1)
    while _exceeds(near, 0, 1 - Fraction(level), delta):
        near += 1
    return near


def coverage_factor(scores: ArrayLike, *, level: float, delta: float) -> CoverageFactor:
    """The factor κ for which the intervals m ± κs cover a share of at least ``level`` of new rows, but for δ.

    κ is the k-th smallest score |y − m|/s of n calibration rows, k of `coverage_rank`.  With probability ≥ 1 − δ over
    these rows, P(|y − m| ≤ κs) ≥ level for a new row; for scores without ties P(coverage ≥ level) is
    P(Beta(k, n + 1 − k) ≥ level) exactly.

    Claim N-coverage (Wilks 1941).  Hypotheses: the n rows and the new one are iid, m and s are fixed independently of
    them.  The score may be any other fixed function of a row, such as |y − m|, and it may have ties; the new row is
    covered if its score is at most κ.  Scores in doubles are such functions: a row is covered if its score, as it is
    computed, is at most κ.

    Parameters
    ----------
    scores : array (n,) of numbers in [0, ∞]
        The scores of the calibration rows, in spreads.  Infinity stands for a row that no factor covers.
    level : float in (0, 1)
        The share of new rows that is to be covered.
    delta : float in (0, 1]
        Probability of failure.

    Raises
    ------
    ValueError
        for wrong arguments, and if there are too few rows; the message says how many are needed.

    >>> intervals = coverage_factor(np.linspace(0.01, 3.0, 300), level=0.9, delta=0.05)
    >>> round(intervals.factor, 2), intervals.rank, round(intervals.probability, 4)
    (2.79, 279, 0.9542)
    """
    values = extended("scores", scores)
    if values.ndim != 1 or values.size == 0:
        raise ValueError(f"scores: expected one number for each calibration row, got shape {values.shape}")
    share, failure = scalar(open_unit, "level", level), scalar(positive_unit, "delta", delta)
    n = values.size
    k = _rank(n, share, failure)
    factor = float(np.partition(values, k - 1)[k - 1])
    probability = below(enclosed(lambda: _tail(n, k - 1, Fraction(share))))
    return CoverageFactor(factor, k, n, share, probability)


# Tails of binomial laws in Arb balls.


def _exceeds(n: int, k: int, p: Fraction, delta: float) -> bool:
    """Whether P(Bin(n, p) ≤ k) > δ, for 0 ≤ k < n and a binary fraction 0 < p < 1.

    Balls decide it, or whole numbers where both sides agree to 900 bits.  Those of more than 65 536 bits are too long;
    then the answer is True, the safe one, except where symmetry shows that both sides are ½.

    >>> _exceeds(3, 1, Fraction(1, 2), 0.5), _exceeds(3, 1, Fraction(1, 2), 0.49)
    (False, True)
    """
    if delta == 1.0:
        return False
    decided = _sign(lambda: _tail(n, k, p) - exact(delta))
    if decided:
        return decided > 0
    bits = p.denominator.bit_length() - 1
    if n * bits <= MOST_BITS:
        return _whole_tail(n, k, p) > Fraction(delta) * (1 << n * bits)
    return not (bits == 1 and n == 2 * k + 1 and delta == 0.5)


def _sign(expression: Callable[[], Any]) -> int:
    """The sign of a real number, 0 if 1024 bits do not decide it."""
    bits = 96
    while bits <= _BITS:
        with at_bits(bits):
            ball = expression()
            if ball > 0 or ball < 0:
                return 1 if ball > 0 else -1
        bits *= 2
    return 0


def _whole_tail(n: int, k: int, p: Fraction) -> int:
    """P(Bin(n, p) ≤ k) times the n-th power of p's denominator: Σ_{j ≤ k} C(n, j) wrong^j right^(n−j), by Horner."""
    right, wrong = p.denominator - p.numerator, p.numerator
    total, term = 0, 1
    for j in range(k + 1):
        total, term = total * right + term, term * (n - j) * wrong // (j + 1)
    return total * right ** (n - k)


def _tail(n: int, k: int, p: Fraction) -> Any:
    """P(Bin(n, p) ≤ k) as a ball, for 0 ≤ k < n and 0 < p < 1, summed away from k on the side with less mass."""
    share, rest = rational(p), rational(1 - p)
    if k * (1 - p) < (n - k + 1) * p:
        return _mass(n, k, share, rest) * _series(k, n - k + 1, rest / share)
    return 1 - _mass(n, k + 1, share, rest) * _series(n - k - 1, k + 2, share / rest)


def _mass(n: int, k: int, p: Any, q: Any) -> Any:
    """C(n, k) p^k q^(n−k) of balls p and q."""
    from flint import arb

    choices = arb(n + 1).lgamma() - arb(k + 1).lgamma() - arb(n - k + 1).lgamma()
    return (choices + k * p.log() + (n - k) * q.log()).exp()


def _series(a: int, b: int, x: Any) -> Any:
    """Σ_{j ≤ a} t_j, t_0 = 1, t_{j+1} = t_j·x(a − j)/(b + j): ratios that decrease.

    It stops where a term no longer counts at this precision; with the next ratio r < 1 the rest is at most
    t·r/(1 − r).
    """
    from flint import arb, ctx

    term = total = arb(1)
    least = exact(2.0 ** -min(ctx.prec, 1000))
    for j in range(a):
        term = term * ((a - j) * x) / (b + j)
        total = total + term
        if j % 16 == 15 and term < total * least:
            ratio = (a - j - 1) * x / (b + j + 1)
            if ratio < 1:
                return total + term * ratio / (1 - ratio) * within(0.5, 0.5)
    return total
