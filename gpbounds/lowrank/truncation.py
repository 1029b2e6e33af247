"""KL divergence of truncated Mercer expansions from the exact GP, before and after the inputs are seen."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from gpbounds import validation
from gpbounds.arrays import Float, array_of
from gpbounds.bound import (
    FIXED,
    MEASURED,
    SMALLEST,
    UP,
    Bound,
    Plan,
    drawn_from,
    enlargement,
    exp_up,
    normal_or_zero,
    upper_bound,
)
from gpbounds.errors import shown
from gpbounds.inputs import Empirical, InputLaw
from gpbounds.kernels import Kernel
from gpbounds.linalg import eigen
from gpbounds.linalg.psd import computed_eigenvalues, symmetric_matrix
from gpbounds.lowrank import balls as enclosures
from gpbounds.lowrank.approximation import KL
from gpbounds.numerics.scalars import entropy_residual, log1p_ratio, log1p_residual
from gpbounds.numerics.search import least
from gpbounds.overflow import within_doubles
from gpbounds.rates.trace import FAR
from gpbounds.rigor import exact, outer, rounded
from gpbounds.spectra import Spectrum, spectrum
from gpbounds.spectra.balls import Eigenvalues, laws
from gpbounds.validation import noise_variance, positive, rigor_of, scalar

# Upper deviations of the mean of N independent variables in [0, B] (ledger L-41, L-43).

_NEWTON = 24
"""Newton steps of :func:`chernoff`; every iterate is an upper bound, so stopping early is valid."""
STEP = 200.0 * 2.0**-53
"""A Newton step in doubles ends at most this share of its start below the root (N-mercer-rounding)."""


def chebyshev(mean: Float, top: Float, N: Float, delta: Float) -> Any:
    """Λ + √(BΛ/(Nδ)): Eq. 20 as printed (L-41); the variance is at most BΛ."""
    return mean + np.sqrt(mean) * np.sqrt(top / (N * delta))


def cantelli(mean: Float, top: Float, N: Float, delta: Float) -> Any:
    """Λ + √((B−Λ)Λ(1−δ)/(Nδ)), never above Eq. 20 (L-43).

    Beyond its maximum in Λ it is replaced by B, so it increases in Λ and stays valid if Λ is an upper bound; so it is
    where (1−δ)/(Nδ) is no double.
    """
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        odds = (1.0 - delta) / (N * delta)
        turn = 0.5 * top * (1.0 + 1.0 / np.sqrt(1.0 + odds))
        raised = mean + np.sqrt(mean) * np.sqrt((top - mean) * odds)
    return np.where((mean < turn) & np.isfinite(odds) & np.isfinite(raised), np.minimum(raised, top), top)


def markov(mean: Float, top: Float, delta: Float) -> Any:
    """min(Λ/δ, B)."""
    with np.errstate(over="ignore"):
        return np.minimum(mean / delta, top)


def chernoff(mean: Float, top: Float, N: Float, delta: Float) -> Any:
    """B·max{q: kl(q‖Λ/B) ≤ log(1/δ)/N}, by Newton's method from above (L-43).

    kl(·‖p) is convex and increasing on [p, 1), and kl(q‖p) ≥ (q−p)²/(2q) gives a first q above the root; Newton's
    method then stays above it.  `STEP` times the start of the last step that moved is added, for its rounding.
    """
    shape = np.broadcast_shapes(*(np.shape(a) for a in (mean, top, N, delta)))
    p, level = np.broadcast_to(mean / top, shape), np.broadcast_to(-np.log(delta) / N, shape)
    inside = (p > 0.0) & (p < 1.0)
    p = np.maximum(np.where(inside, p, 0.5), 1e-305)  # a larger Λ gives a larger bound; excess/p must not overflow
    reachable = inside & (-np.log(p) > level)
    complement = 1.0 - p
    excess = np.minimum(level + np.sqrt(level * level + 2.0 * p * level), complement * (1.0 - 2.0**-53))
    start = excess
    for _ in range(_NEWTON):
        value = p * entropy_residual(excess / p) + complement * entropy_residual(-excess / complement)
        step = np.maximum(value - level, 0.0) / (np.log1p(excess / p) - np.log1p(-excess / complement))
        start = np.where(step > 0.0, excess, start)
        excess = excess - step
    q = np.where(reachable, np.minimum(p + (excess + STEP * start), 1.0), 1.0)
    return top * np.where(np.broadcast_to(mean, shape) > 0.0, q, 0.0)


def mean_above(mean: ArrayLike, top: ArrayLike, N: ArrayLike, delta: ArrayLike) -> Any:
    """A threshold that the mean of N independent variables in [0, B] exceeds with probability at most δ.

    Y_i independent with values in [0, B], E Y_i ≤ Λ:

        P(mean Y > a) ≤ δ,   a = min{Cantelli, Chernoff, Markov}.

    The three thresholds are constants, so the least of them holds with the same δ.  L-43, sharper than Eq. 20 of
    Daskalakis et al. (L-41).  The threshold increases with Λ, so it is valid for an upper bound of Λ.

    Parameters
    ----------
    mean : number(s) in [0, top]
        Λ, or an upper bound of it.
    top : positive number(s)
        B.
    N : whole number(s)
    delta : number(s) in (0, 1)

    Raises
    ------
    ValueError
        for an argument out of range.

    >>> float(np.round(mean_above(0.029, 1.0, 400, 0.01), 4))
    0.0578
    """
    top, N, delta = validation.positive("top", top), validation.whole("N", N), validation.open_unit("delta", delta)
    mean = validation.non_negative("mean", mean)
    if (mean > top).any():
        raise ValueError(f"mean: expected at most top, got {mean.max()} with top {top.min()}")
    return _least_deviation(mean, top, N, delta)


def _least_deviation(mean: Float, top: Float, N: Float, delta: Float) -> Any:
    """:func:`mean_above` for checked arguments."""
    above = np.minimum(cantelli(mean, top, N, delta), chernoff(mean, top, N, delta))
    return np.minimum(above, markov(mean, top, delta))


# KL divergence of truncated Mercer expansions from the exact GP, before and after the inputs are seen.

FORMS = ("sharpest", "printed")


@dataclass(frozen=True)
class _Setting:
    """The arguments of the bound except N and r; ``delta`` is None for the expectation."""

    spectrum: Spectrum
    inputs: InputLaw
    variance: float
    noise: Float
    delta: Float | None
    form: str
    law: Eigenvalues | None
    """The eigenvalues in balls, with ``rigor="sharp"``."""

    @classmethod
    def checked(
        cls, kernel: Kernel, inputs: InputLaw, noise: ArrayLike, delta: ArrayLike | None, form: str, rigor: str
    ) -> _Setting:
        """Check the arguments that `mercer_kl` and `mercer_rank` share."""
        if isinstance(inputs, Empirical):
            raise ValueError(
                "inputs: expected the law the inputs are drawn from (Gaussian or Uniform), got Empirical: for given "
                "data use optimal_kl and optimal_rank on the eigenvalues of K, or residual_certificate"
            )
        if not isinstance(kernel, Kernel) or not np.isfinite(kernel.max_variance):
            raise ValueError(
                "kernel: expected one with a largest variance sup k(x, x), which bounds the deviations of a sum over "
                f"the inputs, got {shown(kernel)}; for given data use optimal_kl and optimal_rank"
            )
        return cls(
            spectrum=spectrum(kernel, inputs=inputs),
            inputs=inputs,
            variance=kernel.max_variance,
            noise=validation.positive("noise", noise),
            delta=None if delta is None else validation.open_unit("delta", delta),
            form=validation.choice("form", form, FORMS),
            law=laws(kernel, inputs) if rigor_of(rigor) == "sharp" else None,
        )

    def evaluate(self, N: Float, r: Float) -> tuple[Any, dict[str, Any]]:
        """(value, terms) for checked N and r."""
        tail = np.minimum(exp_up(self.spectrum.log_tail(r)), self.variance)
        top = np.asarray(self.variance)
        terms: dict[str, Any] = {"tail": tail}
        if self.delta is not None:
            deviation = chebyshev if self.form == "printed" else _least_deviation
            terms["trace"] = N * deviation(tail, top, N, self.delta)
        with np.errstate(over="ignore"):
            x = terms.get("trace", N * tail) / self.noise
        if self.form == "printed":
            value = 0.5 * x
        elif self.delta is not None:
            value = _divergence(x)
        else:
            value = mean_divergence(tail, N, self.noise, self.variance)
        return normal_or_zero(value * enlargement(self._roundings(r)), tail > 0.0), terms

    def _roundings(self, r: Float) -> Float:
        """c: the value errs by at most c·2^-53 of itself (N-mercer-rounding); inf where the tails are not counted."""
        return 2.0 * self.spectrum.roundings(r, FAR) + 200.0

    def bound(self, N: Float, r: Float) -> Bound:
        """The :class:`Bound` for checked N and r."""
        value, terms = self.evaluate(N, r) if self.law is None else self.enclose(N, r)
        if self.delta is None:
            claim, quantity = ("L-42" if self.form == "printed" else "N-mercer"), "E KL(exact || truncated)"
        else:
            claim = "L-42 (as printed), L-41" if self.form == "printed" else "L-42 (sharper form), L-43, L-09"
            quantity = "KL(exact || truncated)"
        counted = self.spectrum.certified and bool(np.isfinite(self._roundings(r)).all())
        proved = counted or self.law is not None
        return upper_bound(
            value,
            0.0 if self.delta is None else self.delta,
            f"{claim}, {self.spectrum.source}",
            terms,
            (
                drawn_from(self.inputs),
                "The approximation keeps the r largest terms of the Mercer expansion under that law.",
                FIXED,
                self.spectrum.note,
                *(() if proved else (MEASURED,)),
            ),
            certified=proved,
            quantity=quantity,
        )

    def enclose(self, N: Float, r: Float) -> tuple[Any, dict[str, Any]]:
        """(value, terms) for checked N and r, each the double above its ball."""
        arguments = (N, r, self.noise, np.asarray(np.nan) if self.delta is None else self.delta)
        parts = ("tail", "value") if self.delta is None else ("tail", "trace", "value")
        terms = {name: outer(partial(self._ball, name), *arguments) for name in parts}
        return terms.pop("value"), terms

    def _ball(self, part: str, N: float, r: float, noise: float, delta: float) -> Any:
        assert self.law is not None
        top, size = self.law.largest(), exact(N)
        tail = self.law.tail(int(r)).min(top)
        if part == "tail":
            return tail
        if self.delta is None and self.form == "sharpest":
            return enclosures.mean_divergence(tail, top, size, exact(noise))
        if self.delta is None:
            return size * tail / (2 * exact(noise))
        deviation = enclosures.chebyshev if self.form == "printed" else enclosures.mean_above
        trace = size * deviation(tail, top, size, exact(delta))
        if part == "trace":
            return trace
        return trace / (2 * exact(noise)) if self.form == "printed" else enclosures.divergence(trace / exact(noise))


def _divergence(x: Any) -> Any:
    """½[x − log(1 + x)] (L-09); infinite if x overflowed."""
    finite = np.isfinite(x)
    return np.where(finite, 0.5 * log1p_residual(np.where(finite, x, 0.0)), np.inf)


def mean_divergence(tail: Any, N: Any, noise: Any, top: float) -> Any:
    """A bound on E ½[X − log(1 + X)], X = ΣY_i/σ², Y_i in [0, B] with mean at most Λ (N-mercer)."""
    share, half = np.minimum(tail / top, 1.0 - 2.0**-53), np.minimum(tail, 0.5 * top)
    some = -np.expm1(N * np.log1p(-share)) / (N * np.maximum(share, SMALLEST))
    with np.errstate(over="ignore"):
        x, largest = N * tail / noise, np.minimum(top / noise, 1e300)
        second = _divergence(x) + 0.25 * N * half / noise * ((top - half) / noise)
    first = 0.5 * x * (1.0 - some * log1p_ratio(largest) + 3.6e-15)  # 31 roundings of 2^-53: N-mercer-rounding
    return np.minimum(np.minimum(first, second), 0.5 * x)


def mercer_kl(
    kernel: Kernel,
    N: ArrayLike,
    rank: ArrayLike,
    *,
    inputs: InputLaw,
    noise: ArrayLike,
    delta: ArrayLike | None = 0.05,
    form: str = "sharpest",
    rigor: str = "auto",
) -> Bound:
    """Upper bound on KL(exact‖truncated) for a Mercer expansion truncated after r terms, before the inputs are seen.

    x_i iid ~ μ, k(x, x) = v, Λ = Σ_{t>r} λ_t.  With probability at least 1 − δ over the inputs (L-42, L-43, L-09),

        KL ≤ ½[x − log(1 + x)],   x = (N/σ²)·min{Cantelli, Chernoff, Markov}(Λ, δ),

    and with ``delta=None`` in expectation (N-mercer)

        E KL ≤ ½ min{NΛ/σ² − (1 − (1 − Λ/v)^N) log(1 + v/σ²),  x̄ − log(1 + x̄) + NΛ(v − Λ)/(2σ⁴)},  x̄ = NΛ/σ².

    ``form="printed"``: (N/2σ²)(Λ + √(vΛ/(Nδ))), Daskalakis et al., Theorem 3, Eq. 9; in expectation NΛ/(2σ²).
    ½[x − log(1+x)] is attained only by a residual of rank one on whose range the truncation vanishes.

    Parameters
    ----------
    kernel : Kernel
        Stationary, fixed in advance; its spectrum under ``inputs`` must be known (see ``spectrum``).
    N : whole number(s) >= 1
    rank : whole number(s) >= 0
        r; with rank 0 the approximation is the noise alone.
    inputs : Gaussian or Uniform
        Law of the inputs.
    noise : positive number(s)
        σ², in squared units of y.
    delta : number(s) in (0, 1), or None for the expectation
    form : "sharpest" or "printed"
    rigor : "auto", "float" or "sharp"
        "sharp": the value and its terms are doubles above Arb balls of the formulas, by construction; for the spectra
        of :func:`gpbounds.rate` with ``rigor="sharp"``.  The others enlarge the value by 1e-11, or by c·2⁻⁵³ if that is
        more; c is a proved count of the roundings (N-mercer-rounding), but where those of the tails are not counted
        (Matérn-3/2, 5/2, ...; see :func:`gpbounds.spectra.spectrum`): there the bound is not certified.

    Raises
    ------
    ValueError
        for an argument out of range, for ``Empirical`` inputs, for a kernel without a known spectrum or without a
        largest variance.

    >>> from gpbounds.inputs import Gaussian
    >>> from gpbounds.kernels import SquaredExponential
    >>> mercer_kl(SquaredExponential(), 1000, [5, 10, 20], inputs=Gaussian(), noise=0.1).value.round(7).tolist()
    [77.4780564, 4.6566207, 2e-07]
    """
    setting = _Setting.checked(kernel, inputs, noise, delta, form, rigor)
    return setting.bound(validation.whole("N", N), validation.whole("rank", rank, 0))


def mercer_rank(
    kernel: Kernel,
    N: int,
    target: float,
    *,
    inputs: InputLaw,
    noise: float,
    delta: float | None = 0.05,
    form: str = "sharpest",
    rigor: str = "auto",
) -> Plan:
    """The least rank r of a truncated Mercer expansion with KL(exact‖truncated) ≤ target.

    Inequality, hypotheses, parameters and rounding are those of :func:`mercer_kl`, whose bound decreases in r.  The
    target is in nats for all N data: εN in the paper.  With ``form="printed"`` the rank is that of Theorem 3: the least
    r with Λ_r ≤ Λ*, √Λ* = 4εσ²/(a + √(a² + 8εσ²)), a = √(v/(Nδ)).  For isotropic squared exponential kernels and
    Gaussian inputs Λ is the incomplete beta function I_q(m − D, D) at r = C(m − 1, D) (L-48).

    Returns
    -------
    Plan
        ``.M`` is the rank (None if no r < N suffices), ``.bound`` and ``.bound_before`` are the bounds at r and r − 1.

    Raises
    ------
    ValueError
        as :func:`mercer_kl`; for a target that is not positive; for arrays.

    >>> from gpbounds.inputs import Gaussian
    >>> from gpbounds.kernels import SquaredExponential
    >>> mercer_rank(SquaredExponential(), 10**9, target=1e6, inputs=Gaussian(), noise=0.1).M
    9
    """
    size = validation.count("N", N)
    goal = validation.positive("target", target)
    setting = _Setting.checked(kernel, inputs, noise, delta, form, rigor)
    for name, number in (("target", goal), ("noise", setting.noise), ("delta", setting.delta)):
        if number is not None and number.ndim:
            raise ValueError(f"{name}: expected one number, got shape {number.shape}; call once for each")
    data, limit = np.asarray(float(size)), float(goal)
    r = least(lambda r: bool(setting.evaluate(data, np.asarray(float(r)))[0] <= limit), 0, size - 1)
    if setting.law is not None and r is not None:
        r = _least_enclosed(lambda r: float(setting.bound(data, np.asarray(float(r)))) <= limit, r, size - 1)
    close = f"The low-rank GP is within {limit / size:g} nats a datum of the exact one."
    return Plan.at(
        r,
        lambda r: setting.bound(data, np.asarray(float(r))),
        first=0,
        method="mercer",
        N=size,
        target=limit,
        meaning=() if r is None else (close,),
    )


def _least_enclosed(reaches: Callable[[int], bool], r: int, most: int) -> int | None:
    """The least rank that reaches the target in balls, searched from ``r``, the least one in doubles.

    It is r or less, as the allowance in doubles is wider, unless the balls use other upper bounds of eigenvalues.
    """
    if not reaches(r):
        return least(reaches, r + 1, most)
    while r > 0 and reaches(r - 1):
        r -= 1
    return r


def residual_certificate(residual: ArrayLike, *, noise: float, rounding: float = 0.0, rigor: str = "auto") -> Bound:
    """Upper bound on KL(exact‖low rank) from the actual residual, without probability.

    K − Σ ⪰ 0, x = Tr(K − Σ)/σ² (L-54, L-43, L-09):

        KL(N(0, K + σ²I)‖N(0, Σ + σ²I)) ≤ ½[x − log(1 + x)] ≤ x/2.

    For a truncated Mercer expansion the residuals are k(x_i, x_i) − Σ_{t≤r} λ_t e_t(x_i)² ≥ 0; for inducing points
    they are the diagonal of K − Q.  Equality where K − Σ has rank one and Σ vanishes on its range.

    Parameters
    ----------
    residual : array (N,) or number
        Diagonal of K − Σ, or its trace, in squared units of y.
    noise : float
        σ².
    rounding : float
        Bound on the absolute error of each entry, about r·2.2e-16·k(x, x); the function adds it to every entry.
    rigor : "auto", "float" or "sharp"
        "sharp": the double above an Arb ball of the formula, by construction.  The others enlarge trace and value by
        1e-11, which is more than its rounding errors for any number of rows: the sum is rounded once, each entry once,
        and ½[x − log(1 + x)] is accurate to a few units in the last place.

    Raises
    ------
    ValueError
        for a residual below −rounding: then K − Σ is not positive semi-definite.

    >>> round(float(residual_certificate([0.0, 0.1, 0.4], noise=0.5)), 6)
    0.153426
    """
    diagonal = np.atleast_1d(validation.finite("residual", residual))
    error = validation.non_negative("rounding", rounding)
    level = validation.positive("noise", noise)
    if diagonal.ndim != 1 or diagonal.size == 0:
        raise ValueError(f"residual: expected shape (N,) or a number, got {diagonal.shape}")
    if error.ndim or level.ndim:
        raise ValueError(f"noise, rounding: expected one number each, got shapes {level.shape} and {error.shape}")
    worst = int(np.argmin(diagonal))
    if diagonal[worst] < -error:
        raise ValueError(
            f"residual: expected numbers >= -rounding = {-float(error):g}, got {diagonal[worst]} at index {worst}: "
            "K - Sigma is not positive semi-definite; if this is rounding, state its size with rounding="
        )
    if rigor_of(rigor) == "sharp":

        def total() -> Any:
            return sum((exact(x) + exact(float(error)) for x in diagonal.tolist()), exact(0.0))

        trace = rounded(total, upwards=True)
        value = rounded(lambda: enclosures.divergence(total() / exact(float(level))), upwards=True)
    else:
        try:
            trace = math.fsum((diagonal + error).tolist()) * UP
        except OverflowError:
            trace = math.inf
        with np.errstate(over="ignore"):
            value = _divergence(trace / level) * UP
    return upper_bound(
        normal_or_zero(value, trace > 0.0),
        0.0,
        "L-54, L-43, L-09",
        {"trace": trace},
        ("K - Sigma is positive semi-definite, and these are its diagonal (or its trace).",),
        certified=True,
        quantity="KL(exact || low rank)",
    )


# The least KL divergence of any approximation of rank r, and the least rank for a target (L-10).


@within_doubles
def optimal_kl(eigenvalues: ArrayLike, *, noise: float) -> Bound:
    """Lower bound on the KL divergence of every approximation of rank at most r, for r = 0 … N at once.

    KL(N(0, K + σ²I)‖N(0, Sigma + σ²I)) ≥ ½ Σ_{i>r} [λ_i/σ² − log(1 + λ_i/σ²)]  for every PSD Sigma of rank ≤ r.

    Claim L-10, the "lowest possible rank" of Fig. 1; attained by the eigen-truncation of K.  The terms are
    summed in increasing order, without cancellation.

    Parameters
    ----------
    eigenvalues : array (N,) or matrix (N, N)
        Eigenvalues of K, ≥ 0 up to rounding, in any order, in squared units of y; or K itself.
    noise : float
        σ² > 0.

    Returns
    -------
    Bound
        ``value`` has shape (N + 1,); entry r is for rank r, and the entries decrease to 0.

    Raises
    ------
    ValueError, NonFinite, NotPositiveDefinite
        for wrong arguments, or if K is not positive semi-definite.

    >>> optimal_kl([4.0, 2.0, 1.0], noise=1.0).value.round(6)
    array([1.799401, 0.60412 , 0.153426, 0.      ])
    """
    s2 = noise_variance(noise)
    given = array_of(np, "eigenvalues", eigenvalues)
    if given.ndim == 2:
        values = eigen(symmetric_matrix("eigenvalues", given), "eigenvalues").values
    else:
        values = computed_eigenvalues("eigenvalues", given)
        if values.ndim != 1:
            raise ValueError(f"eigenvalues: expected shape (N,) or a matrix (N, N), got {values.shape}")
    rising = 0.5 * log1p_residual(np.sort(values) / s2)
    value = np.concatenate([[0.0], np.cumsum(rising)])[::-1]
    assumptions = ("Sigma is any positive semi-definite matrix of rank at most r.",)
    return Bound(value, "lower", 1.0, "L-10", {"ranks": np.arange(value.size)}, assumptions, quantity=KL)


@within_doubles
def optimal_rank(eigenvalues: ArrayLike, target: float, *, noise: float) -> int:
    """The least rank r, 0 … N, at which some approximation has KL ≤ target; no approximation of lower rank does.

    Claim L-10; attained by the eigen-truncation of K.

    Parameters
    ----------
    eigenvalues, noise : as in `optimal_kl`
    target : float
        In nats, > 0; εN in the paper.

    >>> optimal_rank([4.0, 2.0, 1.0], 0.2, noise=1.0), optimal_rank([4.0, 2.0, 1.0], 2.0, noise=1.0)
    (2, 0)
    """
    goal = scalar(positive, "target", target)
    return int(np.flatnonzero(np.asarray(optimal_kl(eigenvalues, noise=noise)) <= goal)[0])
