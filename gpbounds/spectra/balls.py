"""Mercer spectra in balls: eigenvalues, the sums of their tails, sup k(x, x), for the pairs that have closed forms."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache, reduce
from math import comb, prod
from typing import Any

import numpy as np

from gpbounds.arrays import Float
from gpbounds.inputs import Gaussian, InputLaw, Uniform
from gpbounds.kernels import Constant, Kernel, Matern, OnColumns, Product, SquaredExponential, Sum
from gpbounds.numerics.balls import root
from gpbounds.once import cached_property
from gpbounds.rigor import exact
from gpbounds.spectra import independent_factors, summands
from gpbounds.spectra.base import edges
from gpbounds.spectra.finite_rank import Monomial, expansion, moments
from gpbounds.spectra.gaussian import domination_family, smallest_sums

# What bounds in balls need of a Mercer spectrum: eigenvalues, the sums of their tails, sup k(x, x).


class Eigenvalues(ABC):
    """Mercer eigenvalues in balls, or upper bounds on them, the m-th on the m-th.

    Attributes
    ----------
    dim : int
        D.
    note : str
        What the numbers are, if they are not those of the spectrum in doubles; bounds list it among their assumptions.
    """

    dim: int
    note: str = ""

    @abstractmethod
    def eigenvalues(self, count: int) -> list[tuple[Any, int]]:
        """About the ``count`` largest as (value, multiplicity); doubles decide which."""

    @abstractmethod
    def tail(self, count: int) -> Any:
        """The sum of all eigenvalues that :meth:`eigenvalues` leaves out."""

    @abstractmethod
    def trace(self) -> Any:
        """E k(x, x)."""

    @abstractmethod
    def largest(self) -> Any:
        """sup k(x, x), or None if it is infinite."""

    def closed_trace(self, M: int) -> Any:
        """R(μ) = (M+1) e_{M+1}/e_M, or an upper bound of it, where it has a closed form; None elsewhere (N-pop)."""
        return None

    def flat(self, count: int) -> list[Any]:
        """:meth:`eigenvalues` one by one."""
        return [value for value, often in self.eigenvalues(count) for _ in range(often)]


# Mercer eigenvalues of squared exponential kernels under Gaussian inputs, and the sums of their tails, in balls.

LARGEST = 2**17
"""Largest number of eigenvalues that are put in order in several dimensions."""


@dataclass(frozen=True)
class Laws(Eigenvalues):
    """λ_n = v Π_d (1 − B_d) B_d^(n_d), n in {0, 1, ...}^D, B_d = e^(−2 arsinh(ℓ_d/(2s_d))) (R-se-eig, L-44, L-51).

    Parameters
    ----------
    variance : float
        v.
    lengthscales, stds : tuple of float
        ℓ_d and s_d, the rational numbers that these doubles are.
    """

    variance: float
    lengthscales: tuple[float, ...]
    stds: tuple[float, ...]

    @property
    def dim(self) -> int:  # type: ignore[override]
        """D."""
        return len(self.stds)

    @property
    def alike(self) -> bool:
        """Whether ℓ_d/s_d is the same number in all dimensions, exactly."""
        return len({Fraction(ell) / Fraction(s) for ell, s in zip(self.lengthscales, self.stds, strict=True)}) == 1

    def ratio(self, d: int = 0) -> Any:
        """B_d."""
        return (-2 * (exact(self.lengthscales[d]) / (2 * exact(self.stds[d]))).asinh()).exp()

    def eigenvalues(self, count: int) -> list[tuple[Any, int]]:
        """The ``count`` largest eigenvalues, up to rounding in their order, as (value, multiplicity).

        Doubles decide which eigenvalues these are; the choice affects only how sharp a bound is.
        """
        if self.alike:
            B, left, k = self.ratio(), count, 0
            value = exact(self.variance) * (1 - B) ** self.dim
            levels = []
            while left > 0:
                often = min(left, comb(k + self.dim - 1, k))
                levels.append((value, often))
                value, left, k = value * B, left - often, k + 1
            return levels
        ratios, degrees = [self.ratio(d) for d in range(self.dim)], self._degrees(count)
        scale = exact(self.variance)
        for B in ratios:
            scale *= 1 - B
        return [(scale * power, 1) for power in _powers(ratios, degrees)]

    def tail(self, count: int) -> Any:
        """Σ of all eigenvalues but those of :meth:`eigenvalues`; a sum of positive terms (L-46, L-48)."""
        v = exact(self.variance)
        if count == 0:
            return v
        if self.dim == 1:
            return v * self.ratio() ** count
        if self.alike:
            k, full = self._level(count)
            B = self.ratio()
            beyond = sum((comb(k + i, i) * (1 - B) ** i for i in range(self.dim)), exact(0.0))
            rest = comb(k + self.dim - 1, k) - (count - full)
            return v * B**k * (rest * (1 - B) ** self.dim + B * beyond)
        ratios = [self.ratio(d) for d in range(self.dim)]
        total, weight = exact(0.0), exact(1.0)
        for d, (prefixes, starts) in enumerate(edges(self._degrees(count))):
            total += weight * sum(_powers(ratios, np.column_stack([prefixes, starts])), exact(0.0))
            weight *= 1 - ratios[d]
        return v * total

    def trace(self) -> Any:
        return exact(self.variance)

    def largest(self) -> Any:
        return exact(self.variance)

    def closed_trace(self, M: int) -> Any:
        """v(M+1)(1−B)B^M/(1−B^(M+1)) in one dimension (N-pop, q-binomial theorem)."""
        if self.dim > 1:
            return None
        B = self.ratio()
        return exact(self.variance) * (M + 1) * (1 - B) * B**M / (1 - B ** (M + 1))

    def _level(self, count: int) -> tuple[int, int]:
        """(k, number): ``count`` eigenvalues contain the levels 0 ... k − 1, which have ``number`` eigenvalues."""
        low, high = 0, 1
        while comb(high + self.dim - 1, self.dim) <= count:
            low, high = high, 2 * high
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if comb(middle + self.dim - 1, self.dim) <= count else (low, middle)
        return low, comb(low + self.dim - 1, self.dim) if low else 0

    def _degrees(self, count: int) -> Any:
        if count > LARGEST:
            raise ValueError(
                f"rigor: expected 'float' beyond {LARGEST} eigenvalues of a kernel with one ratio lengthscale/std for "
                f"each dimension, got {count}"
            )
        steps = [2.0 * np.arcsinh(ell / (2.0 * s)) for ell, s in zip(self.lengthscales, self.stds, strict=True)]
        return smallest_sums(np.array(steps), count)[1]


def _powers(ratios: list[Any], degrees: Any) -> list[Any]:
    """Π_d B_d^(n_d) for each row n of ``degrees``."""
    tables = []
    for d in range(degrees.shape[1]):
        table = [exact(1.0)]
        for _ in range(int(degrees[:, d].max(initial=0))):
            table.append(table[-1] * ratios[d])
        tables.append(table)
    return [prod(table[m] for table, m in zip(tables, n, strict=True)) for n in degrees.tolist()]


@dataclass(frozen=True)
class _Rotated(Laws):
    """`Laws` under Gaussian inputs with covariance Σ: ℓ_d/s_d = 1/√g_d, g the eigenvalues of Λ⁻¹ΣΛ⁻¹ (N-cov).

    ``lengthscales`` and ``stds`` are 1 and about √g_d, and decide only which eigenvalues are taken.

    Attributes
    ----------
    units : tuple of float
        The lengthscales of the kernel.
    cov : tuple of tuple of float
        Σ.
    """

    units: tuple[float, ...]
    cov: tuple[tuple[float, ...], ...]
    alike = False

    def ratio(self, d: int = 0) -> Any:
        return (-2 * (1 / (2 * self._variances()[d].sqrt())).asinh()).exp()

    def _variances(self) -> list[Any]:
        from flint import ctx

        return _principal_variances(self.cov, self.units, ctx.prec)


@lru_cache(maxsize=64)
def _principal_variances(cov: tuple[tuple[float, ...], ...], units: tuple[float, ...], bits: int) -> list[Any]:
    """The eigenvalues of Λ⁻¹ΣΛ⁻¹ at the present precision, which is ``bits``, decreasing."""
    from flint import acb_mat

    scaled = [
        [exact(entry) / (exact(a) * exact(b)) for entry, b in zip(row, units, strict=True)]
        for row, a in zip(cov, units, strict=True)
    ]
    return sorted((value.real for value in acb_mat(scaled).eig(multiple=True)), key=float, reverse=True)


# Squared exponential kernels on boxes, dominated by Gaussian inputs, in balls.


@dataclass(frozen=True)
class _Dominated(Eigenvalues):
    """λ_m ≤ C·λ_m(Gaussian), C = Π_d √(2π) s_d/W_d·e^(W_d²/(8s_d²)), for any stds s_d, W the widths of the box.

    The proof is that of `DominatedSpectrum`.  Doubles choose the s for each number of eigenvalues; any s give bounds.
    """

    variance: float
    lengthscales: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    note = "Eigenvalues are upper bounds (squared exponential kernel, uniform inputs, dominated by Gaussian inputs)."

    @property
    def dim(self) -> int:  # type: ignore[override]
        """D."""
        return len(self.low)

    def eigenvalues(self, count: int) -> list[tuple[Any, int]]:
        factor, law = self._at(count)
        return [(factor * value, often) for value, often in law.eigenvalues(count)]

    def tail(self, count: int) -> Any:
        factor, law = self._at(count)
        return (factor * law.tail(count)).min(self.trace())

    def trace(self) -> Any:
        return exact(self.variance)

    def largest(self) -> Any:
        return exact(self.variance)

    def closed_trace(self, M: int) -> Any:
        if self.dim > 1:
            return None
        factor, law = self._at(M)
        return (factor * law.closed_trace(M)).min(self.trace())

    def _at(self, count: int) -> tuple[Any, Laws]:
        """(C, the Gaussian law) for ``count`` eigenvalues."""
        from flint import arb

        law = _best(self, count)
        factor = exact(1.0)
        for low, high, std in zip(self.low, self.high, law.stds, strict=True):
            width, s = exact(high) - exact(low), exact(std)
            factor *= (2 * arb.pi()).sqrt() * s / width * (width * width / (8 * s * s)).exp()
        return factor, law

    @cached_property
    def _family(self) -> list[tuple[float, Any, Any]]:
        halves = 0.5 * (np.array(self.high) - np.array(self.low))
        return domination_family(np.array(self.lengthscales), halves)


@lru_cache(maxsize=4096)
def _best(law: _Dominated, count: int) -> Laws:
    """The Gaussian law of the family with the least C·tail."""
    log_shares = [log_C + float(gaussian.log_tail(count)) for log_C, _, gaussian in law._family]
    _, stds, _ = law._family[int(np.argmin(log_shares))]
    return Laws(law.variance, law.lengthscales, tuple(stds.tolist()))


# Constant, linear and polynomial kernels: e_j of the spectrum as exact rational numbers (N-finite).


class FiniteRank(Eigenvalues):
    """k(x, x') = Σ_a w_a x^a x'^a: the eigenvalues of the rational matrix (w_a E x^(a+b)) (N-finite).

    It is similar to (√w_a √w_b E x^(a+b)).  Its characteristic polynomial is Π(t − λ_i) = Σ_j (−1)^j e_j t^(r−j), so
    that (M+1) e_{M+1}/e_M is a rational number; the eigenvalues are the roots, isolated in balls.

    >>> from gpbounds.kernels import Constant, Linear
    >>> from gpbounds.spectra.finite_rank import expansion
    >>> law = FiniteRank(expansion(Constant(3.0) + Linear(), (0,)), Gaussian(), None)
    >>> float(law.closed_trace(1)), float(law.closed_trace(2))  # 2·3·1/(3 + 1)
    (1.5, 0.0)
    """

    def __init__(self, weights: dict[Monomial, Any], inputs: Gaussian | Uniform, variance: float | None) -> None:
        from flint import fmpq_mat

        self.dim, self.variance = inputs.dim, variance
        moment = moments(inputs)
        features = list(weights)
        rows = [[weights[a] * moment(tuple(sorted(a + b))) for b in features] for a in features]
        polynomial = fmpq_mat(rows).charpoly()
        self.rank = len(features)
        self.symmetric = [(-1) ** j * polynomial[self.rank - j] for j in range(self.rank + 1)]
        self._polynomial = tuple(int(c) for c in polynomial.numer().coeffs())

    def closed_trace(self, M: int) -> Any:
        from flint import arb

        if self.rank <= M or self.symmetric[M] == 0:
            return exact(0.0)
        return arb((M + 1) * self.symmetric[M + 1] / self.symmetric[M])

    def eigenvalues(self, count: int) -> list[tuple[Any, int]]:
        return [(value, 1) for value in self._roots()[:count]]

    def tail(self, count: int) -> Any:
        return sum(self._roots()[count:], exact(0.0))

    def trace(self) -> Any:
        from flint import arb

        return arb(self.symmetric[1])

    def largest(self) -> Any:
        return None if self.variance is None else exact(self.variance)

    def _roots(self) -> list[Any]:
        from flint import ctx

        return _roots(self._polynomial, ctx.prec)


@lru_cache(maxsize=16)
def _roots(coefficients: tuple[int, ...], bits: int) -> list[Any]:
    """The roots, real and ≥ 0, of a polynomial at the present precision, which is ``bits``; decreasing, repeated."""
    from flint import fmpz_poly

    pairs: Any = fmpz_poly(list(coefficients)).complex_roots()
    roots = [(root.real, often) for root, often in pairs]
    values = [value.max(exact(0.0)) for value, often in roots for _ in range(often)]
    return sorted(values, key=float, reverse=True)


# Spectra of products of kernels on different, independent columns, and of sums, from those of the parts, in balls.


class _ProductEigenvalues(Eigenvalues):
    """c·Π_i k_i on independent columns: all products of eigenvalues, and the product of the traces (N-tensor).

    The parts must have exact eigenvalues: the tail is the trace minus the eigenvalues before it.
    """

    def __init__(self, parts: Sequence[Eigenvalues], scale: float, dim: int) -> None:
        self.parts, self.scale, self.dim = tuple(parts), scale, dim
        self._taken: dict[int, list[tuple[int, ...]]] = {}

    def eigenvalues(self, count: int) -> list[tuple[Any, int]]:
        tables = [part.flat(count) for part in self.parts]
        if count not in self._taken:
            self._taken[count] = _largest_products([[float(value.log()) for value in table] for table in tables], count)
        scale = exact(self.scale)
        return [
            (reduce(lambda a, b: a * b, (table[n] for table, n in zip(tables, at, strict=True)), scale), 1)
            for at in self._taken[count]
        ]

    def tail(self, count: int) -> Any:
        return self.trace() - sum(self.flat(count), exact(0.0)) if count else self.trace()

    def trace(self) -> Any:
        return reduce(lambda a, b: a * b, (part.trace() for part in self.parts), exact(self.scale))

    def largest(self) -> Any:
        numbers = [part.largest() for part in self.parts]
        return None if None in numbers else reduce(lambda a, b: a * b, numbers, exact(self.scale))


class _SumEigenvalues(Eigenvalues):
    """Σ_i k_i: the eigenvalues of all summands together, whose tails are at least those of the sum (N-direct).

    Both have the same total, and R is Schur-concave (N-pop), so R of all together is at least R of the sum's.
    """

    note = "Eigenvalue sums are upper bounds, from those of the summands of the kernel."

    def __init__(self, parts: Sequence[Eigenvalues], dim: int) -> None:
        self.parts, self.dim = tuple(parts), dim

    def eigenvalues(self, count: int) -> list[tuple[Any, int]]:
        counts = self._taken(count)
        return [pair for part, number in zip(self.parts, counts, strict=True) for pair in part.eigenvalues(number)]

    def tail(self, count: int) -> Any:
        pairs = zip(self.parts, self._taken(count), strict=True)
        return sum((part.tail(number) for part, number in pairs), exact(0.0))

    def trace(self) -> Any:
        return sum((part.trace() for part in self.parts), exact(0.0))

    def largest(self) -> Any:
        numbers = [part.largest() for part in self.parts]
        return None if None in numbers else sum(numbers, exact(0.0))

    def _taken(self, count: int) -> list[int]:
        """For each summand the number of its eigenvalues among the ``count`` largest."""
        values = [[float(value) for value in part.flat(count)] for part in self.parts]
        ordered = sorted(((value, i) for i, column in enumerate(values) for value in column), reverse=True)[:count]
        numbers = Counter(i for _, i in ordered)
        return [numbers[i] for i in range(len(self.parts))]


def _largest_products(logs: list[list[float]], count: int) -> list[tuple[int, ...]]:
    """The indices of the ``count`` largest sums of one number of each decreasing list."""
    totals: Float = np.zeros(1)
    indices: list[tuple[int, ...]] = [()]
    for column in logs:
        pairs = [(i, n) for i in range(totals.size) for n in range(min(len(column), count // (i + 1) + 1))]
        sums = np.array([totals[i] + column[n] for i, n in pairs])
        best = np.argsort(-sums, kind="stable")[:count]
        totals, indices = sums[best], [(*indices[pairs[k][0]], pairs[k][1]) for k in best]
    return indices


# Matérn-½ kernels under uniform inputs on an interval: the roots of one equation in balls (L-49b).


@dataclass(frozen=True)
class _MaternHalf(Eigenvalues):
    """λ_k = v sin²θ_k/κ, κ = (high − low)/(2ℓ), θ = atan(κ/z), z = (k − 1)π/2 + θ, and Σ λ_k = v (L-49b)."""

    variance: float
    lengthscale: float
    low: float
    high: float
    dim = 1

    def eigenvalues(self, count: int) -> list[tuple[Any, int]]:
        from flint import ctx

        return [(value, 1) for value in _values(self, count, ctx.prec)]

    def tail(self, count: int) -> Any:
        return self.trace() - sum(self.flat(count), exact(0.0))

    def trace(self) -> Any:
        return exact(self.variance)

    def largest(self) -> Any:
        return exact(self.variance)

    def kappa(self) -> Any:
        """κ."""
        return (exact(self.high) - exact(self.low)) / (2 * exact(self.lengthscale))

    def eigenvalue(self, k: int) -> Any:
        """λ_k; z sin θ − κ cos θ increases in θ between 0 and π/2."""
        from flint import arb

        kappa, start = self.kappa(), (k - 1) * arb.pi() / 2
        above = (2 * kappa / (start + (start * start + 4 * kappa).sqrt())).min(arb.pi() / 2)

        def excess(theta: Any) -> Any:
            return (start + theta) * theta.sin() - kappa * theta.cos()

        def slope(theta: Any) -> Any:
            return (1 + kappa) * theta.sin() + (start + theta) * theta.cos()

        theta = root(excess, slope, exact(0.0).union(above))
        return exact(self.variance) * theta.sin() ** 2 / kappa


@lru_cache(maxsize=64)
def _values(law: _MaternHalf, count: int, bits: int) -> list[Any]:
    """The first eigenvalues at the present precision, which is ``bits``; the longest list serves the shorter ones."""
    length = 1 << max(count - 1, 1).bit_length()
    return [law.eigenvalue(k) for k in range(1, count + 1)] if length == count else _values(law, length, bits)[:count]


# Which spectra there are in balls, for a kernel and a law of inputs.

KNOWN = (
    "squared exponential kernels under Gaussian inputs, also correlated ones, and on boxes; Matérn-½ kernels on "
    "intervals; constant, linear and polynomial kernels; products on different, independent columns and sums of these"
)


def laws(kernel: Kernel, inputs: InputLaw) -> Eigenvalues:
    """The eigenvalues of a kernel under a law of inputs, in balls.

    Raises
    ------
    ValueError
        for a pair whose eigenvalues are not known in closed form.

    >>> laws(SquaredExponential(2.0, 0.5), Gaussian(dim=2))
    Laws(variance=2.0, lengthscales=(0.5, 0.5), stds=(1.0, 1.0))
    """
    if isinstance(inputs, Gaussian | Uniform) and (known := _known(kernel, inputs)) is not None:
        return known
    raise ValueError(
        f"rigor: expected 'float' for this pair of kernel and inputs; 'sharp' encloses {KNOWN}; got "
        f"{type(kernel).__name__} and {inputs!r}"
    )


def _known(kernel: Kernel, inputs: Gaussian | Uniform) -> Eigenvalues | None:
    if kernel.formula_class is OnColumns:
        return _on_columns(kernel, inputs)
    if (weights := expansion(kernel, tuple(range(inputs.dim)))) is not None:
        bounded = kernel.max_variance if kernel.formula_class is Constant else None
        singular = isinstance(inputs, Gaussian) and inputs.slack > 0.0
        return None if singular else FiniteRank(weights, inputs, bounded)
    closed = CLOSED.get(kernel.formula_class)
    return None if closed is None else closed(kernel, inputs)


def _on_columns(kernel: Any, inputs: Gaussian | Uniform) -> Eigenvalues | None:
    return _known(kernel.kernel, inputs.marginal(kernel.columns))


def _sum(kernel: Sum, inputs: Gaussian | Uniform) -> Eigenvalues | None:
    parts = [_known(part, inputs) for part in summands(kernel)]
    return None if None in parts else _SumEigenvalues([part for part in parts if part is not None], inputs.dim)


def _matern(kernel: Matern, inputs: Gaussian | Uniform) -> Eigenvalues | None:
    if kernel.nu != 0.5 or not isinstance(inputs, Uniform) or inputs.dim != 1:
        return None
    (ell,), (low,), (high,) = (_floats(x, 1) for x in (kernel.lengthscales(1), inputs.low, inputs.high))
    return _MaternHalf(kernel.variance, ell, low, high)


def _squared_exponential(kernel: SquaredExponential, inputs: Gaussian | Uniform) -> Eigenvalues | None:
    lengthscales = tuple(kernel.lengthscales(inputs.dim).tolist())
    if isinstance(inputs, Uniform):
        return _Dominated(
            kernel.variance, lengthscales, _floats(inputs.low, inputs.dim), _floats(inputs.high, inputs.dim)
        )
    if not inputs.correlated:
        return Laws(kernel.variance, lengthscales, tuple(inputs.stds.tolist()))
    if inputs.slack > 0.0:
        return None
    cov = np.asarray(inputs.cov)
    values = np.linalg.eigvalsh(cov / np.outer(lengthscales, lengthscales))[::-1]
    near = tuple(np.sqrt(np.maximum(values, 1e-300)).tolist())
    return _Rotated(kernel.variance, (1.0,) * inputs.dim, near, lengthscales, tuple(map(tuple, cov.tolist())))


def _product(kernel: Product, inputs: Gaussian | Uniform) -> Eigenvalues | None:
    parts = independent_factors(kernel, inputs, split=False)
    if parts is None:
        return None
    scale, factors = parts
    if all(factor.formula_class is SquaredExponential for _, factor in factors) and isinstance(inputs, Uniform):
        return None
    known = [_known(factor, inputs.marginal(columns)) for columns, factor in factors]
    if any(part is None or part.note for part in known):  # upper bounds of eigenvalues leave no trace to subtract from
        return None
    return _ProductEigenvalues([part for part in known if part is not None], scale, inputs.dim)


def _floats(values: Any, dim: int) -> tuple[float, ...]:
    return tuple(np.broadcast_to(np.asarray(values, dtype=np.float64), (dim,)).tolist())


CLOSED: dict[type, Callable[[Any, Gaussian | Uniform], Eigenvalues | None]] = {
    Sum: _sum,
    Product: _product,
    SquaredExponential: _squared_exponential,
    Matern: _matern,
}
"""The eigenvalues in closed form for each formula."""
