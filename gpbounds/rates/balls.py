"""The bound of one draw with ``rigor="sharp"``: outer ends of balls, cell by cell."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, reduce
from typing import Any

import numpy as np

from gpbounds.arrays import Float
from gpbounds.enclosures import theorems, traces
from gpbounds.enclosures.eigenvalues import Eigenvalues
from gpbounds.enclosures.known import laws
from gpbounds.inputs import InputLaw
from gpbounds.kernels import Kernel
from gpbounds.rates.expected_trace import GivenData, TraceLaw, best_truncation
from gpbounds.rigor import end_above, exact, rounded
from gpbounds.spectra import Spectrum
from gpbounds.statements import enlargement

REFUSED = (
    "rigor: expected 'float' with simulate, and with y or draws for inputs to come: 'sharp' encloses the bound of one "
    "draw without y, which with delta/R holds for each of R draws, and for inputs=Empirical(X) those of several draws"
)

TINY = 1e-290
"""A positive t* is raised to it: what underflows in t*, and in αt* for α ≥ 1e-9, is less than 2⁻⁵³ of it."""


@dataclass(frozen=True)
class Cell:
    """The numbers of one bound, as the rational numbers that they are."""

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
        """(value, terms) of the cells ``where``; those of ``others`` in the rest."""
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
            terms["markov"] = self._up(lambda: theorems.prior_markov(t, n, noise, c.alpha, delta), c)
            terms["tail"] = self._up(lambda: theorems.prior_tail(t, n, noise, c.alpha, delta), c)
            return min(terms["markov"], terms["tail"]), terms

        def summands() -> tuple[Any, Any]:
            if self.form == "sharpest":
                return theorems.any_markov(t, n, noise, c.alpha, delta, exact(c.y_norm2 or 0.0))
            ratio = exact(1.0) if c.y_norm2 is None else exact(c.y_norm2) / noise
            return theorems.printed(t, exact(c.N), noise, c.alpha, delta, ratio)

        terms["determinant"] = self._up(lambda: summands()[0], c)
        terms["quadratic"] = self._up(lambda: summands()[1], c)
        return self._up(lambda: sum(summands(), exact(0.0)), c), terms

    def _up(self, term: Callable[[], Any], c: Cell) -> float:
        """The double above a ball; times max{α/(1−α), (1−α)/α} for the direction p||q."""
        if self.direction == "q||p":
            return rounded(term, upwards=True)

        def turned() -> Any:
            odds = exact(c.alpha) / (1 - exact(c.alpha))
            return term() * odds.max(1 / odds)

        return rounded(turned, upwards=True)


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
    """For inputs of a law.

    Attributes
    ----------
    law : Laws
        The eigenvalues in balls.
    spectrum : Spectrum
        The same in doubles; it chooses the k of R-lem3, of which any gives a bound.
    """

    law: Eigenvalues
    spectrum: Spectrum

    @classmethod
    def of(cls, kernel: Kernel, inputs: InputLaw, spectrum: Spectrum, form: str, direction: str) -> BeforeData:
        """For a kernel and a law of inputs; a ValueError if their eigenvalues have no balls."""
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
    """For given rows, whose eigenvalues have proved upper bounds (N-graded).

    Attributes
    ----------
    law : GivenData
        With proved eigenvalues.
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
    ends = [end_above(lambda: traces.population(law, min(M, traces.LAST))[1])]
    ends += [end_above(lambda k=k: traces.gauss_schmidt(law, M, k)) for k in {k, M, 0}]  # type: ignore[misc]
    return reduce(lambda a, b: a if a < b else b, ends)
