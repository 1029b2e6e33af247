"""log p(y) between proved ends at small noise: entries of K and factors in double-double numbers, sums in balls."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from gpbounds.arrays import Float, as_host_points
from gpbounds.bound import Bound
from gpbounds.kernels import Kernel
from gpbounds.kernels.pairs import pair_covariances, pair_error, require_doubles, times_power, unit
from gpbounds.linalg.pair_cholesky import (
    NEGLIGIBLE,
    Block,
    PairFactor,
    minus,
    pair_cholesky,
    residual,
    with_diagonal,
)
from gpbounds.linalg.pair_products import UP, multiply
from gpbounds.linalg.pair_solve import (
    Unresolved,
    column_products,
    column_squares,
    log_det,
    quadratic,
    remainder,
    share,
    solve,
    solve_lower,
)
from gpbounds.linalg.triangular import solve_triangular
from gpbounds.numerics.pairs import Pair, two_sum
from gpbounds.numerics.search import least as fewest
from gpbounds.rigor import above, at_bits, below, exact
from gpbounds.validation import noise_variance
from gpbounds.whitening import as_targets

EXACT = 2048
"""Largest N at which members="auto" factorises K + σ²I."""
CHEAP = ("trace", "determinant")
MEMBERS = ("exact", *CHEAP)
BITS = 192
ADDED = 1e-31
"""Relative error of the sum of two pairs, rounded up."""
SHARE = 1.0 / 16.0
"""Largest ε, relative to σ², for which inducing points are kept."""
UNDERFLOW = 1e-300
"""Allows for what underflows in numbers of size 1."""
ASSUMED = "The model of y is the Gaussian process with this kernel and this noise variance."


@dataclass(frozen=True, eq=False)
class Scaled:
    """K + σ²I = 2ᵉ(K' + σ'²I), y_p = 2^(f_p) y'_p, with K', σ'² and y'_p near 1 at most: exact, as factors of 2 are.

    Attributes
    ----------
    kernel : Kernel
        Of K'.
    X : array (N, D)
    Y : array (N, P)
        y'.
    noise : float
        σ'².
    exponent : int
        e.
    shifts : list of P int
        f_p.
    """

    kernel: Kernel
    X: Float
    Y: Float
    noise: float
    exponent: int
    shifts: list[int]

    @classmethod
    def of(cls, kernel: Kernel, X: Float, Y: Float, noise: float) -> Scaled:
        """For checked arguments."""
        exponent = max(unit(kernel)[1], math.frexp(noise)[1] - 1)
        require_doubles(kernel)
        shifts = [int(shift) for shift in np.frexp(np.abs(Y).max(axis=0))[1]]
        scaled = np.ldexp(Y, [-shift for shift in shifts])
        if (np.ldexp(scaled, shifts) != Y).any():
            raise ValueError(
                "y: expected entries of an output that are 0 or within a factor of 2**1000 of the largest, got "
                f"{np.abs(Y[Y != 0.0]).min():.3g} beside {np.abs(Y).max():.3g}"
            )
        return cls(times_power(kernel, -exponent), X, scaled, math.ldexp(noise, -exponent), exponent, shifts)

    @property
    def N(self) -> int:
        """Number of data."""
        return len(self.X)

    @property
    def P(self) -> int:
        """Number of outputs."""
        return int(self.Y.shape[1])

    @property
    def targets(self) -> Pair:
        """y' as pairs."""
        return self.Y, np.zeros_like(self.Y)

    @cached_property
    def entry(self) -> float:
        """Largest error of an entry of K'."""
        return pair_error(self.kernel, self.X.shape[1]) + UNDERFLOW

    def log_density(self, volume: Any, forms: Sequence[Any], further: Any = 0) -> Any:
        """Σ_p −½[N log(2π·2ᵉ) + ``volume`` + ``further`` + 2^(2f_p − e)·form_p], for forms of y'."""
        two = exact(2.0)
        each = self.N * ((2 * two.pi()).log() + self.exponent * two.log()) + volume + further
        data = sum(
            (two ** (2 * shift - self.exponent) * form for shift, form in zip(self.shifts, forms, strict=True)),
            exact(0.0),
        )
        return -(self.P * each + data) / 2

    def exact(self) -> Any:
        """A ball that contains log p(y), by a factor of K' + σ'²I (N-exact)."""
        further = UP * (self.N * self.entry + math.sqrt(self.N) * ADDED * (self.kernel.max_variance + self.noise))
        known = {"least": self.noise, "further": further}
        share(further, self.noise)  # no factor would do
        block = with_diagonal(_entries(self.kernel, self.X), self.noise)
        factor = pair_cholesky(block, self.N, "K + σ²I", min(NEGLIGIBLE, 0.25 * self.noise))
        volume = log_det(factor, **known)
        return self.log_density(volume, quadratic(factor, self.targets, **known))


@dataclass(frozen=True, eq=False)
class Nearby:
    """F (N, m) with K' ⪰ FFᵀ − εI, and s ≤ σ'² − ε: K' + σ'²I ⪰ FFᵀ + sI (N-nystrom).

    Attributes
    ----------
    problem : Scaled
    F : pair of arrays (N, m)
    epsilon : float
        ε.
    noise : float
        s.
    gram : pair of arrays (m, m)
        FᵀF.
    gram_error : float
        In the Frobenius norm.
    """

    problem: Scaled
    F: Pair
    epsilon: float
    noise: float
    gram: Pair
    gram_error: float

    @classmethod
    def of(cls, problem: Scaled, Z: Float) -> Nearby:
        """F from a pivoted factor of K'_ZZ; the first m pivots are the inducing points, as many as keep ε small.

        A leading part of L and of F has errors E and R that are parts of those of the whole.

        Raises
        ------
        Unresolved
            where ε is above σ'²/4.
        """
        kernel, least = problem.kernel, problem.noise
        chosen = pair_cholesky(_entries(kernel, Z), len(Z), "Kuu")
        Z = Z[chosen.pivots]
        L = chosen.L[0][chosen.pivots], chosen.L[1][chosen.pivots]
        E = UP * (residual(_entries(kernel, Z), L) + len(Z) * problem.entry)
        cross = pair_covariances(kernel, problem.X, Z)
        F = _transposed(solve_lower(L, _transposed(cross)))
        R = UP * (remainder(F, _transposed(L), cross).norm + math.sqrt(cross[0].size) * problem.entry)

        def weights(m: int) -> Float:
            return solve_triangular(L[0][:m, :m], np.ascontiguousarray(F[0][:, :m].T), transposed=True)

        def too_many(m: int) -> bool:
            w = float(np.linalg.norm(weights(m)))
            return not (E * w + 2.0 * R) * w <= SHARE * least

        m = max((fewest(too_many, 1, len(Z)) or len(Z) + 1) - 1, 1)
        L, F = (L[0][:m, :m], L[1][:m, :m]), (F[0][:, :m], F[1][:, :m])
        upper, rows = _transposed(L), _transposed(F)
        first = weights(m)
        missed = remainder(upper, (first, np.zeros_like(first)), rows).value
        W = two_sum(first, solve_triangular(L[0], _double(missed), transposed=True))
        S, w = remainder(upper, W, rows).norm, UP * UP * float(np.linalg.norm(_double(W)))
        epsilon = UP * (S * S + E * w * w + 2.0 * R * w)
        if not 4.0 * epsilon <= least:
            raise Unresolved(4.0 * epsilon)
        gram, error = multiply(rows, rows)
        return cls(problem, F, epsilon, (least - epsilon) * (1.0 - 1e-15), gram, error)

    @property
    def m(self) -> int:
        """Number of columns."""
        return int(self.F[0].shape[1])

    @cached_property
    def trace(self) -> Any:
        """Tr(K' + σ'²I − FFᵀ − sI)."""
        from flint import arb

        problem = self.problem
        first = problem.X[:1]
        variance = exact(0.0) + sum(exact(float(part[0, 0])) for part in pair_covariances(problem.kernel, first, first))
        diagonals = zip(*(part.diagonal().tolist() for part in self.gram), strict=True)
        explained = sum((exact(high) + exact(low) for high, low in diagonals), exact(0.0))
        error = problem.N * problem.entry + math.sqrt(self.m) * self.gram_error
        return problem.N * (variance + exact(problem.noise) - exact(self.noise)) - explained + arb(0.0, UP * error)

    def factor(self, shift: float) -> tuple[PairFactor, float]:
        """A factor of FᵀF + shift·I, and what is to be added to its error."""
        block = with_diagonal(lambda rows, columns: (self.gram[0][rows, columns], self.gram[1][rows, columns]), shift)
        size = float(self.gram[0].diagonal().max()) + shift
        factor = pair_cholesky(block, self.m, "FᵀF + σ²I", 0.0)
        return factor, UP * (self.gram_error + math.sqrt(self.m) * ADDED * size)

    @cached_property
    def volume(self) -> Any:
        """log|FFᵀ + sI|."""
        factor, further = self.factor(self.noise)
        return (self.problem.N - self.m) * exact(self.noise).log() + log_det(factor, least=self.noise, further=further)

    def unexplained(self, shift: float) -> tuple[Pair, Pair, float]:
        """a near (FᵀF + shift·I)⁻¹Fᵀy', y' − Fa as pairs, and a bound on the error of the latter."""
        factor, _ = self.factor(shift)
        F, Y = _transposed(self.F), self.problem.targets
        zero = np.zeros((self.m, self.problem.P))
        fitted = remainder(F, Y, (zero, zero)).value  # −Fᵀy'
        a = solve(factor, minus(fitted))
        rest = remainder(self.F, a, Y)
        return a, rest.value, rest.error

    def forms_above(self) -> list[Any]:
        """Upper bounds on y'ᵀ(FFᵀ + sI)⁻¹y' = min_a |y' − Fa|²/s + |a|²: the value at an a."""
        a, rest, error = self.unexplained(self.noise)
        return [
            (square.sqrt() + exact(error)) ** 2 / exact(self.noise) + length
            for square, length in zip(column_squares(rest), column_squares(a), strict=True)
        ]

    def forms_below(self, shift: float) -> list[Any]:
        """Lower bounds on y'ᵀ(FFᵀ + shift·I)⁻¹y' ≥ (dᵀy')²/(shift·|d|² + |Fᵀd|²) for any d."""
        _, d, _ = self.unexplained(shift)
        zero = np.zeros((self.m, self.problem.P))
        fitted = remainder(_transposed(self.F), d, (zero, zero))
        forms = []
        for product, square, other in zip(
            column_products(d, self.problem.targets), column_squares(d), column_squares(fitted.value), strict=True
        ):
            curvature = exact(shift) * square + (other.sqrt() + exact(fitted.error)) ** 2
            forms.append(product**2 / curvature if curvature > 0 else exact(0.0))
        return forms

    def lower(self) -> dict[str, Any]:
        """L_VI, and with N log(1 + T/(Ns)) in place of T/s."""
        problem, forms = self.problem, self.forms_above()
        ratio, N = self.trace.upper().max(0) / exact(self.noise), problem.N
        return {
            "elbo 1": problem.log_density(self.volume, forms, ratio),
            "determinant": problem.log_density(self.volume, forms, N * (1 + ratio / N).log()),
        }

    def upper(self) -> dict[str, Any]:
        """R-eq8 at α = 1, and with log(1 + T/(s + λ_max(FFᵀ)))."""
        problem = self.problem
        forms = self.forms_below(above(exact(self.noise) + self.trace.upper().max(0)))
        largest = exact(UP * (float(np.linalg.norm(_double(self.gram))) + self.gram_error))
        kept = (1 + self.trace.lower().max(0) / (exact(self.noise) + largest)).log()
        return {
            "trace": problem.log_density(self.volume, forms),
            "determinant": problem.log_density(self.volume, forms, kept),
        }


def _entries(kernel: Kernel, X: Float) -> Block:
    """k(X, X) by blocks."""
    return lambda rows, columns: pair_covariances(kernel, X[rows], X[columns])


def _transposed(A: Pair) -> Pair:
    return np.ascontiguousarray(A[0].T), np.ascontiguousarray(A[1].T)


def _double(A: Pair) -> Float:
    return np.asarray(A[0] + A[1])


def enclosed_evidence(
    kernel: Kernel, X: Any, y: Any, Z: ArrayLike | None, *, noise: float, members: str | Sequence[str] = "auto"
) -> tuple[Bound, Bound]:
    """The bounds of `gpbounds.renyi.evidence` with ``rigor="arb"``.

    Exact: N-exact, with a computed factor L of A = K + σ²I ⪰ σ²I, as the exact K is positive semi-definite.  The bound
    ‖A − LLᵀ‖_F ≤ η is proved: entries of K to 30 digits (N-pairs), products of slices without rounding (N-slices).
    ρ = η/σ² < ¼.
    Inducing points: N-nystrom, with log|FFᵀ + sI| = (N − m)log s + log|FᵀF + sI| in the same way.

    Parameters
    ----------
    kernel, X, y, Z, noise, members : as in `gpbounds.renyi.evidence`
    """
    problem, centres = _checked(kernel, X, y, Z, noise)
    names = _names(members, problem.N, centres is None)
    lowers, uppers, terms = {}, {}, {}
    with at_bits(BITS), _refused(problem, noise):
        if "exact" in names:
            ball = problem.exact()
            lowers["exact"], uppers["exact"] = below(ball), above(ball)
        if set(names) & set(CHEAP):
            assert centres is not None
            nearby = Nearby.of(problem, centres)
            lowers |= {name: below(ball) for name, ball in nearby.lower().items()}
            uppers |= {name: above(ball) for name, ball in nearby.upper().items() if name in names}
            terms = {"T/σ²": above(nearby.trace / exact(nearby.noise)), "points": nearby.m}
    return _best("lower", lowers, terms), _best("upper", uppers, terms)


def enclosed_gap(
    kernel: Kernel, X: Any, y: Any, Z: ArrayLike, alpha: float, *, noise: float
) -> tuple[float, dict[str, float]]:
    """An upper bound on D_α(y) ≤ α(log p(y) − L_VI) for inducing points Z, rounded up, and its terms (N-nystrom).

    The bound "elbo 1" of `enclosed_evidence` is at most L_VI of the exact Q of all of Z.

    The proof is that of N-nystrom.
    """
    problem, centres = _checked(kernel, X, y, Z, noise)
    assert centres is not None
    with at_bits(BITS), _refused(problem, noise):
        nearby = Nearby.of(problem, centres)
        tops = list(nearby.upper().values())
        if problem.N <= EXACT:
            tops.append(problem.exact())
        top, elbo = min(above(ball) for ball in tops), nearby.lower()["elbo 1"]
        excess = min(above(exact(alpha) * (ball - elbo)) for ball in tops)
        return max(excess, 0.0), {"log p(y)": top, "elbo 1": below(elbo), "points": float(nearby.m)}


def _checked(kernel: Kernel, X: Any, y: Any, Z: ArrayLike | None, noise: float) -> tuple[Scaled, Float | None]:
    points = as_host_points(X, "X")
    variance = noise_variance(noise)
    targets = as_targets(y, points)
    columns = targets[:, None] if targets.ndim == 1 else targets
    centres = None if Z is None else as_host_points(Z, "Z", points.shape[1])
    return Scaled.of(kernel, points, columns, variance), centres


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
            f"members: expected 'auto', 'cheap', 'all' or some of {', '.join(map(repr, MEMBERS))} with rigor='arb', "
            f"got {members!r}"
        )
    if without and set(names) & set(CHEAP):
        raise ValueError(f"Z: expected inducing inputs for the members {' and '.join(map(repr, CHEAP))}, got None")
    return names
