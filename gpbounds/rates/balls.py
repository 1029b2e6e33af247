"""The theorems for one draw in balls: the mean trace, the bound of ``rigor="sharp"``, and the closed formulas for M."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, reduce
from typing import Any

import numpy as np

from gpbounds.arrays import Float
from gpbounds.bound import enlargement
from gpbounds.inputs import InputLaw
from gpbounds.kernels import Kernel
from gpbounds.numerics.balls import F_hat, psi, residual, trace_term
from gpbounds.rates.trace import GivenData, TraceLaw, best_truncation
from gpbounds.rigor import end_above, exact, rounded
from gpbounds.spectra import Spectrum
from gpbounds.spectra.balls import Eigenvalues, Laws, laws

# The theorems for one draw as functions of t, a bound on the expected trace of K − Q, in balls.
#
# n = N − M.  Each function increases in t, so that an upper bound of t gives an upper bound.  `gpbounds.rates.one_draw`
# has the same formulas in doubles.

SPLITS = range(1, 7)
"""δ₂ = δ/2 ... δ/64 in `prior_tail`."""


def prior_markov(t: Any, n: Any, noise: Any, order: float, delta: Any) -> Any:
    """R-thm1 (a): (n/δ) F̂(t/(nσ²))."""
    return n / delta * F_hat(t / (n * noise), order)


def prior_tail(t: Any, n: Any, noise: Any, order: float, delta: Any) -> Any:
    """R-thm1 (b), least over δ₂: mean + √(x w W) + x w at τ = t/(δ − δ₂), x = log(1/δ₂).

    W = ατ/(σ² + βτ/n), w = ατ/(σ² + βτ), mean = min{n F̂(τ/(nσ²)), g_n(τ) + ½[W − log(1 + W)]}.
    """
    alpha = exact(order)
    beta = 1 - alpha

    def at(j: int) -> Any:
        second = delta / 2**j
        tau, x = t / (delta - second), -second.log()
        W, w = alpha * tau / (noise + beta * tau / n), alpha * tau / (noise + beta * tau)
        mean = n * F_hat(tau / (n * noise), order)
        mean = mean.min(trace_term(tau, n, order, noise) + residual(W) / 2)
        return mean + (x * w * W).sqrt() + x * w

    return reduce(lambda a, b: a.min(b), map(at, SPLITS))


def any_markov(t: Any, n: Any, noise: Any, order: float, delta: Any, y_norm2: Any) -> tuple[Any, Any]:
    """R-thm2, the two summands of g_n(t/δ) + ½ (‖y‖²/σ²) ψ(t/(δσ²))."""
    tau = t / delta
    return trace_term(tau, n, order, noise), y_norm2 / noise * psi(tau / noise, order) / 2


def printed(t: Any, N: Any, noise: Any, order: float, delta: Any, ratio: Any) -> tuple[Any, Any]:
    """R-thm1 and R-thm2 as printed, the two summands of g_N(t)/δ + αt·ratio/(2δσ²).

    The ratio is ‖y‖²/σ², or 1 for y from the prior.
    """
    return trace_term(t, N, order, noise) / delta, exact(order) * t / (2 * delta * noise) * ratio


# The mean over X and Z of Tr(K − Q), per datum, in balls: R(μ) of N-pop, and the form of Gauss and Schmidt.

LAST = 4096
"""Largest M for which `population` multiplies polynomials; R(μ) falls with M, so that R at ``LAST`` serves beyond."""


def gauss_schmidt(law: Eigenvalues, M: int, k: int) -> Any:
    """(M+1)/(M+1−k)·Σ_{m>k} λ_m, an upper bound of R(μ) for each k in 0 ... M (R-lem3)."""
    return law.tail(k) * (M + 1) / (M + 1 - k)


def population(law: Eigenvalues, M: int) -> tuple[Any, Any]:
    """(low, high) with low <= R(μ) <= high, R(μ) = (M+1) e_{M+1}(μ)/e_M(μ) (N-pop), M >= 1; equal for a closed form.

    R comes from the coefficients of Π(1 + cμ_i x) over 8M + 256 eigenvalues, for any c > 0.  The omitted eigenvalues,
    of sum T, raise R by 0 to g0·T, g0 = 1 + M(1 − τ_M/τ_{M−1}), τ_m the R of size m of the others (N-cut).
    """
    closed = law.closed_trace(M)
    if closed is not None:
        return closed, closed
    count = 8 * M + 256
    values = law.eigenvalues(count)
    c = _tilt(values, M)
    product = _product([_power(c * value, often, M + 2) for value, often in values], M + 2)
    before, here, after = (product[M + i] for i in (-1, 0, 1))
    cut = (M + 1) * after / (here * c)
    previous = M * here / (before * c)
    return cut, cut + (1 + M * (1 - cut / previous)) * law.tail(count)


def _tilt(values: list[tuple[Any, int]], M: int) -> Any:
    """About the c with Σ cμ_i/(1 + cμ_i) = M + ½: the coefficients near M are then the largest."""
    from flint import arb

    logs = [(float(value.log()), often) for value, often in values]

    def heads(log_c: float) -> float:
        return sum(often / (1.0 + math.exp(min(-log_c - x, 700.0))) for x, often in logs)

    low, high = -logs[0][0] - 800.0, -logs[-1][0] + 800.0
    for _ in range(64):
        middle = 0.5 * (low + high)
        low, high = (low, middle) if heads(middle) > M + 0.5 else (middle, high)
    power = round(low / math.log(2.0))
    return exact(math.exp(low - power * math.log(2.0))) * arb(2) ** power


def _power(x: Any, often: int, length: int) -> Any:
    """(1 + x·X)^often as a polynomial in X, cut after ``length`` coefficients."""
    from flint import arb, arb_poly

    terms = [arb(1)]
    for j in range(1, min(often, length - 1) + 1):
        terms.append(terms[-1] * x * (often - j + 1) / j)
    return arb_poly(terms)


def _product(factors: list[Any], length: int) -> Any:
    """The product of polynomials, cut after ``length`` coefficients, in pairs of equal size."""
    while len(factors) > 1:
        pairs = [(a * b).truncate(length) for a, b in zip(factors[::2], factors[1::2], strict=False)]
        factors = pairs + factors[len(factors) - len(factors) % 2 :]
    return factors[0]


# The bound of one draw with ``rigor="sharp"``: outer ends of balls, cell by cell.

REFUSED = (
    "rigor: expected 'float' with simulate, and with y or draws for inputs to come: 'sharp' encloses the bound of one "
    "draw without y, which with delta/R holds for each of R draws, and for inputs=Empirical(X) those of several draws"
)

TINY = 1e-290
"""Least positive t*; smaller ones are raised to it.  Underflow in t*, and in αt* for α ≥ 1e-9, is below 2⁻⁵³ of it."""


@dataclass(frozen=True)
class Cell:
    """The arguments of one bound; each double stands for its exact rational value."""

    N: int
    M: int
    noise: float
    alpha: float
    delta: float
    y_norm2: float | None
    tv: float


def _broadcast(numbers: dict[str, Float | None]) -> dict[str, Any]:
    present = {name: np.asarray(value) for name, value in numbers.items() if value is not None}
    return dict(zip(present, np.broadcast_arrays(*present.values()), strict=True))


@dataclass(frozen=True)
class EnclosedRate(ABC):
    """`rate` of one draw in balls."""

    form: str
    direction: str

    @abstractmethod
    def trace(self, c: Cell) -> Any:
        """The upper end of a ball of t*, or of the printed t, as an exact number."""

    def assumptions(self, others: tuple[str, ...]) -> tuple[str, ...]:
        """The assumptions of the trace law, of which the last says how its eigenvalues are computed."""
        return others

    def evaluate(self, **numbers: Float | None) -> tuple[Any, dict[str, Any]]:
        """(value, terms), each number rounded upwards; the arguments are the fields of `Cell`, and broadcast."""
        wide = _broadcast(numbers)
        shape = next(iter(wide.values())).shape
        results = [self.cell(self._cell(wide, at)) for at in np.ndindex(shape)]
        values = np.array([value for value, _ in results]).reshape(shape)
        terms = {name: np.array([parts[name] for _, parts in results]).reshape(shape) for name in results[0][1]}
        return values, terms

    def in_cells(
        self, where: Any, others: tuple[Any, dict[str, Any]], **numbers: Float | None
    ) -> tuple[Any, dict[str, Any]]:
        """(value, terms), computed in the cells ``where`` and taken from ``others`` in the rest."""
        wide = _broadcast(numbers)
        shape = next(iter(wide.values())).shape
        values = np.array(np.broadcast_to(others[0], shape))
        terms = {name: np.array(np.broadcast_to(term, shape)) for name, term in others[1].items()}
        for at in zip(*np.nonzero(np.broadcast_to(where, shape)), strict=True) if shape else [()]:
            values[at], parts = self.cell(self._cell(wide, at))
            for name, part in parts.items():
                terms[name][at] = part
        return values, terms

    def _cell(self, wide: dict[str, Any], at: tuple[int, ...]) -> Cell:
        numbers = {name: float(value[at]) for name, value in wide.items()}
        N, M = int(numbers.pop("N")), int(numbers.pop("M"))
        return Cell(N, M, y_norm2=numbers.pop("y_norm2", None), **numbers)

    def cell(self, c: Cell) -> tuple[float, dict[str, float]]:
        """(value, terms) of one cell."""
        t = self.trace(c)
        terms = {"expected_trace": rounded(lambda: t, upwards=True)}
        n, noise, delta = exact(c.N) - exact(c.M), exact(c.noise), exact(c.delta)
        if self.form == "sharpest" and c.y_norm2 is None:
            terms["markov"] = self._up(lambda: prior_markov(t, n, noise, c.alpha, delta), c)
            terms["tail"] = self._up(lambda: prior_tail(t, n, noise, c.alpha, delta), c)
            return min(terms["markov"], terms["tail"]), terms

        def summands() -> tuple[Any, Any]:
            if self.form == "sharpest":
                return any_markov(t, n, noise, c.alpha, delta, exact(c.y_norm2 or 0.0))
            ratio = exact(1.0) if c.y_norm2 is None else exact(c.y_norm2) / noise
            return printed(t, exact(c.N), noise, c.alpha, delta, ratio)

        terms["determinant"] = self._up(lambda: summands()[0], c)
        terms["quadratic"] = self._up(lambda: summands()[1], c)
        return self._up(lambda: sum(summands(), exact(0.0)), c), terms

    def _up(self, term: Callable[[], Any], c: Cell) -> float:
        """The double above a ball; times max{α/(1−α), (1−α)/α} for the direction p||q."""
        if self.direction == "q||p":
            return rounded(term, upwards=True)

        def reversed_term() -> Any:
            odds = exact(c.alpha) / (1 - exact(c.alpha))
            return term() * odds.max(1 / odds)

        return rounded(reversed_term, upwards=True)


@dataclass(frozen=True)
class FromDoubles(EnclosedRate):
    """The theorems in balls, for t* in doubles: nothing under- or overflows between t* and the bound.

    t* is enlarged by c·2⁻⁵³ with the c of N-rate-rounding, which counts its roundings and those after it.
    """

    law: TraceLaw

    def trace(self, c: Cell) -> Any:
        N, M = np.asarray(float(c.N)), np.asarray(float(c.M))
        printed = self.form == "printed"
        if printed:
            t = self.law.printed(N, M) + 2.0 * self.law.largest(N) * c.tv
        else:
            t = self.law.sharpest(N, M) + self.law.largest(N, M) * c.tv
        if t == 0.0:
            return exact(0.0)
        return exact(max(float(t * enlargement(self.law.roundings(N, M, printed=printed))), TINY))


@dataclass(frozen=True)
class BeforeData(EnclosedRate):
    """`rate` in balls for random inputs with a known law.

    Attributes
    ----------
    law : Laws
        The eigenvalues in balls.
    spectrum : Spectrum
        The eigenvalues in doubles; they choose the k of R-lem3, and any k gives a bound.
    """

    law: Eigenvalues
    spectrum: Spectrum

    @classmethod
    def of(cls, kernel: Kernel, inputs: InputLaw, spectrum: Spectrum, form: str, direction: str) -> BeforeData:
        """The bound for a kernel and a law of inputs; a ValueError if their eigenvalues have no balls."""
        return cls(form, direction, laws(kernel, inputs), spectrum)

    def assumptions(self, others: tuple[str, ...]) -> tuple[str, ...]:
        return (*others[:-1], self.law.note or "The eigenvalues are those of the kernel, enclosed in balls.")

    def trace(self, c: Cell) -> Any:
        N, tv, bounded = exact(c.N), exact(c.tv), self.law.largest() is not None

        def largest() -> Any:
            return self.law.largest() if bounded else self.law.trace()

        if self.form == "printed":
            return end_above(lambda: N * ((c.M + 1) * self.law.tail(c.M) + 2 * largest() * tv))
        k = int(best_truncation(self.spectrum, np.array([float(c.M)]))[0])
        mean = _mean_trace(self.law, c.M, k)
        return end_above(lambda: N * mean + (N - c.M if bounded else N) * largest() * tv)


@dataclass(frozen=True)
class GivenRows(EnclosedRate):
    """`rate` in balls for given rows, whose eigenvalues have proved upper bounds (N-graded).

    Attributes
    ----------
    law : GivenData
        The trace law, with proved upper bounds on the eigenvalues.
    """

    law: GivenData

    def trace(self, c: Cell) -> Any:
        N, M, v, tv = (exact(number) for number in (c.N, c.M, self.law.largest_variance, c.tv))
        if self.form == "printed":
            tail = [exact(value) for value in self.law.spectrum.upper_eigenvalues()[c.M :]]
            return end_above(lambda: N * ((M + 1) * sum(tail, exact(0.0)) + 2 * v * tv))
        mean = exact(float(self.law.sharpest(np.array(float(c.N)), np.array(float(c.M)))))
        return end_above(lambda: mean + (N - M) * v * tv)


@lru_cache(maxsize=4096)
def _mean_trace(law: Eigenvalues, M: int, k: int) -> Any:
    """The upper end of R(μ) <= min{N-pop with N-cut, R-lem3 at k, M and 0}, as an exact number."""
    if law.closed_trace(M) is not None:
        return end_above(lambda: law.closed_trace(M))
    ends = [end_above(lambda: population(law, min(M, LAST))[1])]
    ends += [end_above(lambda k=k: gauss_schmidt(law, M, k)) for k in {k, M, 0}]  # type: ignore[misc]
    return reduce(lambda a, b: a if a < b else b, ends)


# The closed formulas for M of the papers, corrected, in balls (R-cor2, R-mat-t).


def smooth_size(law: Laws, N: int, noise: float, delta: float, gamma: float) -> Any:
    """R-cor2: [(3+γ) log N + log(v/(2σ²δ))]/log(1/B); M is the next whole number, at least 1."""
    eta = exact(law.variance) / (2 * exact(noise) * exact(delta))
    return ((3 + exact(gamma)) * exact(N).log() + eta.log()) / -law.ratio().log()


def smooth_terms(N: int, order: float, noise: float, delta: float, gamma: float, norm_ratio: float) -> tuple[Any, Any]:
    """R-cor2: 2αR N^(−γ)/σ² and (1/δ)(αN/(2β)) log(1 + 4βδ/N^(γ+2))."""
    size, level, failing = exact(N), exact(noise), exact(delta)
    t = 4 * failing * level * size ** -(exact(gamma) + 1)
    return 2 * exact(order) * exact(norm_ratio) / level * size ** -exact(gamma), trace_term(
        t, size, order, level
    ) / failing


def tolerance(variance: float, N: int, noise: float, delta: float, gamma: float) -> Any:
    """The total variation δσ²/(vN^(γ+2)) that the corollaries allow the law of Z."""
    return exact(delta) * exact(noise) / (exact(variance) * exact(N) ** (exact(gamma) + 2))


def matern_exponent(r: int, gamma: float, form: str) -> Any:
    """R-mat-t: (γ+2)/(2r+1), printed (γ+2)/(2r), r >= 1."""
    return (exact(gamma) + 2) / (2 * r + (form == "sharpest"))


def matern_terms(
    r: int, N: int, M: int, order: float, *, constant: float, noise: float, delta: float, gamma: float,
    norm_ratio: float, form: str,
) -> tuple[Any, Any, Any]:  # fmt: skip
    """R-mat-t: αtRN/(2δσ⁴), g_N(t)/δ and t, N·t = (2^(2r+2) or, printed, 1 + 1/M)·A·N^(−γ) + 2δσ²N^(−γ)."""
    size, level, failing = exact(N), exact(noise), exact(delta)
    factor = exact(2.0) ** (2 * r + 2) if form == "sharpest" else 1 + 1 / exact(M)
    t = (factor * exact(constant) + 2 * failing * level) * size ** -(exact(gamma) + 1)
    quadratic = exact(order) * t * exact(norm_ratio) * size / (2 * failing * level**2)
    return quadratic, trace_term(t, size, order, level) / failing, t
