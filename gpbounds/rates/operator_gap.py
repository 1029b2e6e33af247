"""λ_max(K − Q)/σ² of inducing points that are still to be drawn, which bounds VFE's means for every y (N-op-draw)."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np

from gpbounds import validation
from gpbounds.arrays import EPS, Float, array_of, is_cupy
from gpbounds.bound import SMALLEST, UP, Bound, Plan, enlargement, exp_up, given_inputs, outward, upper_bound
from gpbounds.errors import shown
from gpbounds.inputs import Empirical, InputLaw
from gpbounds.kdpp.draws import rpcholesky_residual
from gpbounds.kdpp.residual import residual_between
from gpbounds.kernels import Kernel
from gpbounds.numerics.search import least
from gpbounds.rates.balls import BeforeData, Cell
from gpbounds.rates.base import DIGITS, Statement, silent
from gpbounds.rates.draws.base import joined
from gpbounds.rates.draws.errors import certified_share
from gpbounds.rates.draws.rows import DENSE, StreamedRows
from gpbounds.rates.draws.sentences import DRAWN, FIXED_BEFORE
from gpbounds.rates.to_come import Simulation, simulated_bound, simulated_plan, simulation
from gpbounds.rates.trace import APriori
from gpbounds.rigor import exact, rounded
from gpbounds.spectra import data_spectrum

QUANTITY = "λ_max(K − Q)/σ²"
LAWS = ("kdpp", "rpcholesky")
PIVOTED = (
    "The draws are independent of each other and of y; each is of M points among the N inputs by randomly pivoted "
    "Cholesky."
)
LEAST_GAP = "Of the draws the one with the least λ_max(K − Q) is kept, without using y."
SHARE = 0.125
"""Part of the probability of failure that is spent on the effective dimension of inputs to come."""
MOST_EIGENVALUES = 4096
"""Largest number of eigenvalues of a spectrum that the note on an estimate of the least number looks at."""


# Quantiles of λ_max(K − Q) over one draw.


def gap_quantile(eigenvalues: Float, rho: Float, p: float) -> tuple[float, float]:
    """(t, c) with λ_max(K − Q) > t with probability at most p, t = c + Σ_i ρ_i (1 − c/λ_i)₊/p (N-op-draw).

    The statement holds for every c ≥ 0; c = 0 is Markov's inequality for the trace.  t is convex and piecewise linear
    in c: it is least at the first λ_k, in decreasing order, with Σ_{i≤k} ρ_i/λ_i > p, or at 0.

    Parameters
    ----------
    eigenvalues, rho : array (n,)
        λ_i ≥ 0 of K, and ρ_i ≤ λ_i with E u_iᵀ(K − Q)u_i ≤ ρ_i for its eigenvectors u_i; or upper bounds on both, where
        ρ_i is a bound that increases with every eigenvalue.
    p : float
        In (0, 1).

    >>> values = np.array([4.0, 2.0, 1.0])
    >>> gap_quantile(values, 0.1 * values, 0.25)  # 1 + (0.1·3 + 0.1·1)/0.25; the trace says 0.7/0.25
    (2.6, 1.0)
    """
    order = np.argsort(-eigenvalues, kind="stable")
    order = order[eigenvalues[order] > 0.0]
    values, shares = eigenvalues[order], rho[order] / eigenvalues[order]
    crossed = np.flatnonzero(np.cumsum(shares) > p)
    cut = float(values[crossed[0]]) if crossed.size else 0.0
    return cut + float((shares * np.maximum(values - cut, 0.0)).sum()) / p, cut


def dimension_above(mean: Any, p: float) -> Any:
    """A number that d(K) = Tr K(K + cI)⁻¹ of independent inputs exceeds with probability at most p; ``mean`` ≥ E d(K).

    d is self-bounding: P(d ≥ D + x) ≤ exp(−x²/(2D + 2x/3)) (Boucheron, Lugosi and Massart, 2000), D ≥ E d.

    >>> round(float(dimension_above(50.0, 0.01)), 1)
    73.0
    """
    log = -math.log(p)
    return mean + log / 3.0 + np.sqrt(log * log / 9.0 + 2.0 * mean * log)


class DrawnFrom(ABC):
    """The law of a draw and of the inputs: upper bounds on quantiles of λ_max(K − Q).

    Attributes
    ----------
    claims : str
    assumptions : tuple of str
    """

    claims: str
    assumptions: tuple[str, ...]

    @abstractmethod
    def largest(self, N: int) -> int:
        """The largest M."""

    @abstractmethod
    def quantile(self, N: int, M: int, p: float) -> tuple[float, float, float]:
        """(t, c, trace): one draw has λ_max(K − Q) > t with probability at most p; ``trace`` bounds E Tr(K − Q)."""

    @abstractmethod
    def measured(self, N: int, M: int) -> str | None:
        """The assumption that says what of the rounding is measured; None if all of it is proved."""

    def at(self, N: int, M: int, p: float, noise: float) -> tuple[float, dict[str, float]]:
        """The bound on λ_max(K − Q)/σ², and the numbers it is made of."""
        value, cut, trace = self.quantile(N, M, p)
        terms = {"from_trace": trace / p / noise * UP, "expected_trace": trace, "cut": cut, "p": p}
        return (max(value / noise * UP, SMALLEST) if value > 0.0 else 0.0), terms

    def needed(self, threshold: float) -> int | None:
        """A number of eigenvalues of K that are proved to exceed ``threshold``, at least 1; None if none is known."""
        return None

    def notes(self, N: int, target: float, noise: float, M: int | None) -> tuple[str, ...]:
        """Remarks on a plan with the least number ``M``."""
        return ()


def _rounding_up(N: int) -> float:
    """A factor for ratios and sums of positive numbers, fewer than 16N + 100 operations one after another."""
    return 1.0 + 40.0 * (N + 100) * EPS


class FromEigenvalues(DrawnFrom):
    """Draws from given rows, of which K is decomposed: the mean of K − Q by N-res, or a bound on it by N-rpc."""

    def __init__(self, kernel: Kernel, inputs: Empirical, law: str, rigor: str) -> None:
        self.spectrum = data_spectrum(kernel, inputs, rigor)
        self.values = np.asarray(self.spectrum.upper_eigenvalues(), dtype=np.float64) * inputs.N
        self.law, self.N = law, inputs.N
        proved = "N-graded" if rigor == "sharp" else "N-enclosed"
        self.claims = ", ".join(
            ("N-op-draw", "N-rpc" if law == "rpcholesky" else "N-res", *((proved,) if self.spectrum.certified else ()))
        )
        self.assumptions = (given_inputs(inputs.N),)

    def largest(self, N: int) -> int:
        return min(self.N - 1, self.spectrum.rank)

    def quantile(self, N: int, M: int, p: float) -> tuple[float, float, float]:
        if self.law == "rpcholesky":
            rho = rpcholesky_residual(self.values, M)
        else:
            rho = residual_between(self.values, self.values, M).rho
        value, cut = gap_quantile(self.values, rho, p)
        up = _rounding_up(self.N)
        return value * up, cut, float(rho.sum()) * up

    def measured(self, N: int, M: int) -> str | None:
        return None if self.spectrum.certified else self.spectrum.note

    def needed(self, threshold: float) -> int:
        return max(1, int((self.spectrum.lower_eigenvalues() * self.N > threshold).sum()))


class FromPivots(DrawnFrom):
    """k-DPP draws from more rows than are decomposed, by the greedy factor F of `StreamedRows`, FᵀF ⪯ K.

    With l the eigenvalues of FᵀF, T = Tr(K − FᵀF) and r ≥ τ_{M−1}/M: E Tr Π(K − c)₊ ≤ Σ r(l_i − c)₊/(l_i + r) + rT/(c +
    r), as the summand has at most the slope r/(c + r); and λ_max(K − Q) ≤ T + λ_max of the same for FᵀF (N-op-draw).
    """

    claims = "N-op-draw, N-res"

    def __init__(self, kernel: Kernel, inputs: Empirical) -> None:
        self.rows = StreamedRows(kernel, np.asarray(inputs.X, dtype=np.float64), None)
        self.assumptions = (given_inputs(inputs.N),)

    def largest(self, N: int) -> int:
        return self.rows.largest

    def quantile(self, N: int, M: int, p: float) -> tuple[float, float, float]:
        residual = self.rows.residual(M, 1.0)  # at any noise: its trace and ratio do not depend on it
        r, values, left = residual.ratio, residual.values, residual.left
        value, cut = gap_quantile(values, r * values / (values + r), p)
        value += min(left, left * r / ((cut + r) * p))
        return min(value, residual.trace / p) * _rounding_up(self.rows.N), cut, residual.trace

    def measured(self, N: int, M: int) -> str:
        return "The allowances for rounding of the pivoted factor and its eigenvalues are measured, not proved."

    def needed(self, threshold: float) -> int:
        return max(1, int((self.rows.lower_eigenvalues() > threshold).sum()))

    def notes(self, N: int, target: float, noise: float, M: int | None) -> tuple[str, ...]:
        if M is not None:
            return ()
        return (
            f"k(X, X) is known by {self.rows.pivots} pivots here, which prove no number of points; few may do: choose "
            "points, and gpbounds.renyi.operator_gap proves what they reach.",
        )


class FromSpectrum(DrawnFrom):
    """k-DPP draws from independent inputs of a law with a known spectrum, in doubles with counted roundings."""

    def __init__(self, kernel: Kernel, inputs: InputLaw) -> None:
        self.law = APriori(kernel, inputs)
        self.claims = f"N-op-draw, N-op-pop, {self.law.claims}"
        self.assumptions = self.law.assumptions

    def largest(self, N: int) -> int:
        return N - 1

    def quantile(self, N: int, M: int, p: float) -> tuple[float, float, float]:
        trace = self._trace(N, M)
        if M == 1:
            return trace / p, 0.0, trace
        value, cut = self._beyond(N, M, self._trace(N, M - 1) / M, p)
        return (value, cut, trace) if value < trace / p else (trace / p, 0.0, trace)

    def _trace(self, N: int, M: int) -> float:
        """Upper bound on E Tr(K − Q), rounding included."""
        n, m = np.asarray(float(N)), np.asarray(float(M))
        return float(self.law.sharpest(n, m) * enlargement(self.law.roundings(n, m)))

    def _beyond(self, N: int, M: int, ratio: float, p: float) -> tuple[float, float]:
        """(t, c), t = c + r·D⁺/(p − p₁): D⁺ exceeds d(K) but with probability p₁, and E d(K) ≤ D = k + N·tail(k)/c.

        ``ratio`` r is an upper bound on E τ_{M−1}/M; the least over a grid of k.
        """
        k = np.append(0.0, np.unique(np.geomspace(1.0, M, 64).round()))
        n, m = np.asarray(float(N)), np.asarray(float(M))
        tails = N * exp_up(self.law.spectrum.log_tail(k)) * enlargement(self.law.roundings(n, m))
        rest = p * (1.0 - SHARE) * (1.0 - 1e-15)
        cuts = np.sqrt(ratio) * np.sqrt(tails / rest)  # at 0 only where no eigenvalue is left after k
        mean = k + np.divide(tails, cuts, out=np.zeros_like(tails), where=cuts > 0.0)
        values = cuts + dimension_above(mean, p * SHARE) * ratio / rest
        best = int(np.argmin(values))
        return float(values[best]) * (1.0 + 1e-13), float(cuts[best])

    def measured(self, N: int, M: int) -> str | None:
        return self.law.measured(self.law.roundings(np.asarray(float(N)), np.asarray(float(M))))

    def notes(self, N: int, target: float, noise: float, M: int | None) -> tuple[str, ...]:
        count = 64
        while (above := int((N * self.law.spectrum.eigenvalues(count) > target * noise).sum())) == count:
            count *= 4
            if count > MOST_EIGENVALUES:
                return ()
        return (
            f"About {above} eigenvalues of K exceed {target:g} σ² (N times those of the kernel under the law of the "
            "inputs): an estimate of the least number that any choice of points needs, not a bound.",
        )


class SpectrumInBalls(FromSpectrum):
    """As `FromSpectrum`, by the trace alone, in balls."""

    def __init__(self, kernel: Kernel, inputs: InputLaw) -> None:
        super().__init__(kernel, inputs)
        self.enclosed = BeforeData.of(kernel, inputs, self.law.spectrum, "sharpest", "q||p")
        self.assumptions = self.enclosed.assumptions(self.law.assumptions)

    def at(self, N: int, M: int, p: float, noise: float) -> tuple[float, dict[str, float]]:
        t = self.enclosed.trace(Cell(N, M, noise, 1.0, p, None, 0.0))
        value = rounded(lambda: t / (exact(p) * exact(noise)), upwards=True)
        trace = rounded(lambda: t, upwards=True)
        return value, {"from_trace": value, "expected_trace": trace, "cut": 0.0, "p": p}

    def measured(self, N: int, M: int) -> None:
        return None


# The statements of ``rate`` and ``inducing_points``.


@dataclass(frozen=True, eq=False)
class OperatorGap(Statement):
    """The bound on λ_max(K − Q)/σ² for the best of R draws.

    Attributes
    ----------
    N : whole numbers
    noise, delta, tv : arrays
        They broadcast, with N and M.
    draws : int
    law : str
        "kdpp" or "rpcholesky".
    source : DrawnFrom
    """

    N: Float
    noise: Float
    delta: Float
    tv: Float
    draws: int
    law: str
    source: DrawnFrom

    def cell(self, N: int, M: int, noise: float, delta: float, tv: float) -> Bound:
        """The bound for one M and one set of numbers."""
        most = self.source.largest(N)
        if most < M:
            raise ValueError(
                f"M: expected at most {most} points for N = {N} (N - 1, or the number of distinct rows, beyond which "
                f"no draw goes), got {M}"
            )
        p = certified_share(delta, self.draws, tv)
        drawn = PIVOTED if self.law == "rpcholesky" else DRAWN
        if tv > 0.0:
            drawn = f"{drawn[:-1]}, up to a total variation of tv = {tv:g}."
        measured = self.source.measured(N, M)
        about_rows = not isinstance(self.source, FromSpectrum)
        assumptions: list[str] = [drawn, *((LEAST_GAP,) if self.draws > 1 else ()), *self.source.assumptions]
        if about_rows:
            assumptions.append(FIXED_BEFORE)
        if measured is not None:
            assumptions.append(measured)
        if p > 0.0:
            value, terms = self.source.at(N, M, p, noise)
        else:
            value, terms = math.inf, {"from_trace": math.inf, "expected_trace": math.inf, "cut": 0.0, "p": p}
            assumptions.append(f"Nothing is proved here: p = δ^(1/R) − tv = {p:.3g} is not positive.")
        claims = f"{self.source.claims}, R-cor1" if tv > 0.0 else self.source.claims
        certified = measured is None and math.isfinite(value)
        return upper_bound(value, delta, claims, terms, tuple(assumptions), certified=certified, quantity=QUANTITY)

    def bound(self, M: Float) -> Bound:
        cells = np.broadcast(self.N, M, self.noise, self.delta, self.tv)
        if not cells.size:
            raise ValueError(f"M: expected at least one number of inducing points, got shape {cells.shape}")
        bounds = [self.cell(int(n), int(m), float(s), float(d), float(t)) for n, m, s, d, t in cells]
        return joined(bounds, cells.shape, QUANTITY)

    def at(self, M: int) -> Bound:
        """The bound for one M, where the numbers are scalars."""
        return self.cell(int(self.N), M, float(self.noise), float(self.delta), float(self.tv))

    def least_below(self, target: float, advance: Callable[[], Any] = silent) -> int | None:
        """The least M at which the bound is at most the target: bounds on the mean residual decrease in M."""

        def reaches(M: int) -> bool:
            advance()
            return float(self.at(M)) <= target

        return least(reaches, 1, self.source.largest(int(self.N)))

    def least(self, target: float, advance: Callable[[], Any] = silent) -> Plan:
        N, noise, M = int(self.N), float(self.noise), self.least_below(target, advance)
        return Plan.at(
            M,
            self.at,
            first=1,
            method="inducing",
            N=N,
            target=target,
            needed=self.source.needed(target * noise * (1.0 + 4.0 * EPS)),
            meaning=means_within(target),
            notes=self.source.notes(N, target, noise, M),
            criterion="operator",
        )


@dataclass(frozen=True, eq=False)
class OperatorGapToCome(Statement):
    """The k-th greatest of the bounds given X of simulated sets of inputs (N-sim).

    Attributes
    ----------
    plan : Simulation
    given : function of X that returns an OperatorGap
    delta : float
        For the simulation and the statement given X.
    """

    plan: Simulation
    given: Callable[[Float], OperatorGap]
    delta: float

    def bound(self, M: Float) -> Bound:
        return simulated_bound(self.plan, lambda X: self.given(X).bound(M), delta=self.delta)

    def least(self, target: float, advance: Callable[[], Any] = silent) -> Plan:
        def of_set(X: Float) -> tuple[int, Bound] | None:
            advance()
            stated = self.given(X)
            M = stated.least_below(target)
            return None if M is None else (M, stated.at(M))

        plan = simulated_plan(self.plan, of_set, target, self.delta, means_within(target))
        return replace(plan, criterion="operator")


def operator_statement(
    kernel: Kernel,
    N: Float,
    *,
    inputs: InputLaw,
    noise: Any,
    delta: Any,
    tv: Any,
    draws: int | None,
    simulate: int | None,
    rng: np.random.Generator | int | None,
    law: str | None,
    rigor: str,
) -> OperatorGap | OperatorGapToCome:
    """The statement of ``rate`` with ``criterion="operator"``."""
    chosen = validation.choice("law", "kdpp" if law is None else law, LAWS)
    count = validation.count("draws", 1 if draws is None else draws)
    numbers = {
        "noise": validation.positive("noise", noise),
        "delta": validation.open_unit("delta", delta),
        "tv": validation.closed_unit("tv", tv),
    }
    if simulate is not None:
        if rigor == "sharp":
            raise ValueError(
                "rigor: expected 'auto' or 'float' with simulate, got 'sharp': it would factorise k(X, X) of every "
                "simulated set in 30 digits"
            )
        level, sampled = validation.scalar(validation.open_unit, "delta", delta), cast("Any", inputs)
        sets = simulation(sampled, _one(N), sets=simulate, delta=level, rng=rng)
        numbers["delta"] = np.asarray(sets.rest)
        return OperatorGapToCome(
            sets,
            lambda X: OperatorGap(
                N, draws=count, law=chosen, source=_of_rows(kernel, Empirical(X), chosen, "float"), **numbers
            ),
            level,
        )
    if isinstance(inputs, Empirical):
        if (N != inputs.N).any():
            raise ValueError(
                f"N: expected the number of rows of X, {inputs.N}, for inputs=Empirical(X), got {N.flat[0]:.0f}"
            )
        return OperatorGap(N, draws=count, law=chosen, source=_of_rows(kernel, inputs, chosen, rigor), **numbers)
    if count > 1 or chosen != "kdpp":
        raise ValueError(
            "draws, law: expected one draw of a k-DPP for inputs to come with criterion='operator', got draws="
            f"{count}, law={chosen!r}: pass inputs=Empirical(X), or simulate=39"
        )
    source = SpectrumInBalls(kernel, inputs) if rigor == "sharp" else FromSpectrum(kernel, inputs)
    return OperatorGap(N, draws=1, law=chosen, source=source, **numbers)


def _of_rows(kernel: Kernel, inputs: Empirical, law: str, rigor: str) -> DrawnFrom:
    """K decomposed up to `DENSE` rows; pivots beyond."""
    if is_cupy(inputs.X) or inputs.N <= DENSE:
        return FromEigenvalues(kernel, inputs, law, rigor)
    if law != "kdpp":
        raise ValueError(f"law: expected 'kdpp' beyond {DENSE} rows, where k(X, X) is not decomposed; got {shown(law)}")
    if rigor == "sharp":
        raise ValueError(
            f"rigor: expected 'auto' or 'float' beyond {DENSE} rows, where k(X, X) is not decomposed, got 'sharp'"
        )
    return FromPivots(kernel, inputs)


def _one(N: Float) -> int:
    if shape := array_of(np, "N", N).shape:
        raise ValueError(f"N: expected one number with simulate, got shape {shape}; call the function once each")
    return int(N)


def means_within(target: float) -> tuple[str, ...]:
    """What λ_max(K − Q)/σ² <= ``target`` implies (N-op), one sentence each.

    >>> print(means_within(0.05)[0])
    λ_max(K − Q)/σ² <= 0.05 implies: at the training inputs the root mean square difference of VFE's means from the \
exact ones is at most 0.05 times the exact GP's training residual, for every y.
    """
    root, factor = outward(target, "upper", DIGITS), outward(1.0 + target, "upper", DIGITS)
    square = outward((1.0 + target) ** 2, "upper", DIGITS)
    return (
        f"{QUANTITY} <= {target:g} implies: at the training inputs the root mean square difference of VFE's means from "
        f"the exact ones is at most {root} times the exact GP's training residual, for every y.",
        "For y = f + noise the mean square error E|m_q − f|² of VFE's means at the training inputs is at most "
        f"{square} times that of the exact ones, for every f.",
        f"Predictive variances of new targets at the training inputs are at most {factor} times the exact ones.",
    )
