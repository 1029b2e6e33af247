"""log p(y) and gaps between proved ends: entries of K and factors in double-double numbers, sums in balls."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from gpbounds.arrays import DistinctRows, Float, as_host_points
from gpbounds.bound import Bound
from gpbounds.errors import shown
from gpbounds.kernels import Kernel
from gpbounds.kernels.pairs import (
    largest_value,
    pair_covariances,
    pair_error,
    pair_variances,
    require_doubles,
    times_power,
    unit,
)
from gpbounds.linalg.pair_cholesky import NEGLIGIBLE, Block, PairFactor, minus, pair_cholesky, with_diagonal
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
    solve_upper,
)
from gpbounds.linalg.triangular import solve_triangular
from gpbounds.numerics.pairs import Pair, add, row_sums, two_sum
from gpbounds.numerics.pairs import multiply as times
from gpbounds.numerics.search import least as fewest
from gpbounds.once import cached_property
from gpbounds.renyi.fischer import partition
from gpbounds.renyi.members import BLOCK, LADDER
from gpbounds.renyi.residual import with_jitter_named
from gpbounds.renyi.sentences import ANY_Y, BEST, GAP
from gpbounds.rigor import above, at_bits, below, exact
from gpbounds.validation import count, noise_variance, non_negative, scalar
from gpbounds.vecchia import Blocks
from gpbounds.whitening import as_targets

# K + σ²I and Q + σ²I of one data set in double-double numbers: what `enclosed_evidence` and `enclosed_gap` bound.

ADDED = 1e-31
"""Relative error of the sum of two pairs, rounded up."""
_MIXED = 1e-30
"""Relative error of βa + αb for pairs, rounded up: 60u² and more."""
SHARE = 1.0 / 16.0
"""Largest ε, relative to σ², for which inducing points are kept."""
UNDERFLOW = 1e-300
"""Allows for what underflows in numbers of size 1."""


@dataclass(frozen=True, eq=False)
class _ScaledByPowers:
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
    def of(cls, kernel: Kernel, X: Float, Y: Float, noise: float) -> _ScaledByPowers:
        """The scaled problem of checked arguments."""
        require_doubles(kernel, X)
        exponent = max(unit(kernel, X)[1], math.frexp(noise)[1] - 1)
        shifts = [int(shift) for shift in np.frexp(np.abs(Y).max(axis=0))[1]]
        scaled = np.ldexp(Y, [-shift for shift in shifts])
        if (np.ldexp(scaled, shifts) != Y).any():
            raise ValueError(
                "y: expected entries of an output that are 0 or within a factor of 2**1000 of the largest, got "
                f"{np.abs(Y[Y != 0.0]).min():.3g} beside {np.abs(Y).max():.3g}"
            )
        return cls(times_power(kernel, -exponent, X), X, scaled, math.ldexp(noise, -exponent), exponent, shifts)

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
        return pair_error(self.kernel, self.X) + UNDERFLOW

    @cached_property
    def largest(self) -> float:
        """An upper bound on the entries of K'."""
        return largest_value(self.kernel, self.X)

    @property
    def negligible(self) -> float:
        """The pivot, relative to the largest, at which a factor ends: too small to end one of A ⪰ σ'²I early."""
        return min(NEGLIGIBLE, 0.25 * self.noise / (self.largest + self.noise))

    @cached_property
    def variances(self) -> Any:
        """Tr K', without the errors of the entries."""
        high, low = pair_variances(self.kernel, self.X)
        return sum((exact(one) + exact(two) for one, two in zip(high.tolist(), low.tolist(), strict=True)), exact(0.0))

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
        return self.log_density(*self.determined(_entries(self.kernel, self.X), self.N * self.entry))

    def determined(self, block: Block, error: float, y: bool = True) -> tuple[Any, list[Any]]:
        """Balls of log|A + σ'²I| and of y'ᵀ(A + σ'²I)⁻¹y', A ⪰ 0 within ``error`` of ``block`` (Frobenius norm)."""
        further = UP * (error + math.sqrt(self.N) * ADDED * (self.largest + self.noise))
        known = {"least": self.noise, "further": further}
        share(further, self.noise)  # no factor would do
        factor = pair_cholesky(with_diagonal(block, self.noise), self.N, "K + σ²I", self.negligible)
        return log_det(factor, **known), quadratic(factor, self.targets, **known) if y else []


@dataclass(frozen=True, eq=False)
class _Nearby:
    """F (N, m) with K' ⪰ FFᵀ − εI, and s ≤ σ'² − ε: K' + σ'²I ⪰ FFᵀ + sI (N-nystrom).

    The same holds for Q = Kfu(Kuu + jI)⁻¹Kuf in place of K'; and Q ⪯ FFᵀ + ε₊I (N-exact-gap).

    Attributes
    ----------
    problem : ScaledByPowers
    F : pair of arrays (N, m)
    epsilon : float
        ε.
    excess : float
        ε₊; infinite where inducing points are left out.
    kept : array of int
        Numbers of the inducing points.
    noise : float
        s.
    gram : pair of arrays (m, m)
        FᵀF.
    gram_error : float
        In the Frobenius norm.
    """

    problem: _ScaledByPowers
    F: Pair
    epsilon: float
    excess: float
    kept: np.ndarray
    noise: float
    gram: Pair
    gram_error: float

    @classmethod
    def of(cls, problem: _ScaledByPowers, Z: Float, jitter: float = 0.0) -> _Nearby:
        """F from a pivoted factor of K'_ZZ + jI; the first m pivots are the inducing points, as many as keep ε small.

        A leading part of L and of F has errors E and R that are parts of those of the whole.

        Raises
        ------
        Unresolved
            where ε is above σ'²/4.
        """
        entry = pair_error(problem.kernel, np.concatenate([problem.X, Z])) + UNDERFLOW
        block, further = _entries(problem.kernel, Z), len(Z) * entry
        if jitter > 0.0:
            block = with_diagonal(block, jitter)
            further += math.sqrt(len(Z)) * ADDED * (largest_value(problem.kernel, Z) + jitter)
        chosen = pair_cholesky(block, len(Z), "Kuu")
        at = chosen.pivots
        L = chosen.L[0][at], chosen.L[1][at]
        E = UP * (chosen.error + further)
        cross = pair_covariances(problem.kernel, problem.X, Z[at])
        F = _transposed(solve_lower(L, _transposed(cross)))
        R = UP * (remainder(F, _transposed(L), cross).norm + math.sqrt(cross[0].size) * entry)

        def too_many(m: int) -> bool:
            first = solve_triangular(L[0][:m, :m], np.ascontiguousarray(F[0][:, :m].T), transposed=True)
            w = float(np.linalg.norm(first))
            return not (E * w + 2.0 * R) * w <= SHARE * problem.noise

        m = min(max((fewest(too_many, 1, len(at)) or len(at) + 1) - 1, 1), len(at)) if len(at) else 0
        L, F = (L[0][:m, :m], L[1][:m, :m]), (F[0][:, :m], F[1][:, :m])
        upper, rows = _transposed(L), _transposed(F)
        W = solve_upper(L, rows)
        S, w = remainder(upper, W, rows).norm, UP * UP * float(np.linalg.norm(_double(W)))
        epsilon, least = UP * (S * S + E * w * w + 2.0 * R * w), problem.noise
        if not 4.0 * epsilon <= least:
            raise Unresolved(4.0 * epsilon)
        excess = math.inf
        if m == 0 and not pair_variances(problem.kernel, Z[:1])[0].any() and len(Z) == 1:
            excess = 0.0  # a linear kernel at x = 0: Q is 0
        elif m == len(Z):
            apart = UP * (_norm(L) * S + R + E * w)
            eigenvalue = jitter if apart * apart < epsilon * jitter else max(_least_eigenvalue(L, E), jitter)
            excess = UP * (epsilon + apart * (apart / max(eigenvalue, UNDERFLOW)))
        gram, error = multiply(rows, rows)
        return cls(problem, F, epsilon, excess, at[:m], (least - epsilon) * (1.0 - 1e-15), gram, error)

    @property
    def m(self) -> int:
        """Number of columns."""
        return int(self.F[0].shape[1])

    @cached_property
    def unexplained_variance(self) -> Any:
        """Tr(K' − FFᵀ)."""
        from flint import arb

        problem = self.problem
        diagonals = zip(*(part.diagonal().tolist() for part in self.gram), strict=True)
        explained = sum((exact(high) + exact(low) for high, low in diagonals), exact(0.0))
        error = problem.N * problem.entry + math.sqrt(self.m) * self.gram_error
        return problem.variances - explained + arb(0.0, UP * error)

    @cached_property
    def trace(self) -> Any:
        """Tr(K' + σ'²I − FFᵀ − sI)."""
        return self.unexplained_variance + self.problem.N * (exact(self.problem.noise) - exact(self.noise))

    def factor(self, shift: float) -> tuple[PairFactor, float]:
        """A factor of FᵀF + shift·I, and the error of this matrix itself, which adds to the error of the factor."""
        block = with_diagonal(lambda rows, columns: (self.gram[0][rows, columns], self.gram[1][rows, columns]), shift)
        size = float(self.gram[0].diagonal().max(initial=0.0)) + shift
        factor = pair_cholesky(block, self.m, "FᵀF + σ²I", 0.0)
        return factor, UP * (self.gram_error + math.sqrt(self.m) * ADDED * size)

    @cached_property
    def volume(self) -> Any:
        """log|FFᵀ + sI|."""
        return self.volume_at(self.noise)

    def volume_at(self, shift: float) -> Any:
        """log|FFᵀ + shift·I|."""
        factor, further = self.factor(shift)
        return (self.problem.N - self.m) * exact(shift).log() + log_det(factor, least=shift, further=further)

    def unexplained(self, shift: float) -> tuple[Pair, Pair, float]:
        """a near (FᵀF + shift·I)⁻¹Fᵀy', y' − Fa as pairs, and a bound on the error of the latter."""
        factor, _ = self.factor(shift)
        F, Y = _transposed(self.F), self.problem.targets
        zero = np.zeros((self.m, self.problem.P))
        fitted = remainder(F, Y, (zero, zero)).value  # −Fᵀy'
        a = solve(factor, minus(fitted))
        rest = remainder(self.F, a, Y)
        return a, rest.value, rest.error

    def forms_above(self, shift: float) -> list[Any]:
        """Upper bounds on y'ᵀ(FFᵀ + shift·I)⁻¹y' = min_a |y' − Fa|²/shift + |a|²: the value at an a."""
        a, rest, error = self.unexplained(shift)
        return [
            (square.sqrt() + exact(error)) ** 2 / exact(shift) + length
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

    def lower(self, names: Sequence[str] = (), block: int | Blocks = BLOCK) -> dict[str, Any]:
        """L_VI, and with N log(1 + T/(Ns)) in place of T/s; and those of `LADDER` that are among the names."""
        problem, forms = self.problem, self.forms_above(self.noise)
        ratio, N = self.trace.upper().max(0) / exact(self.noise), problem.N
        above = {"elbo 1": ratio, "determinant": N * (1 + ratio / N).log()}
        above |= {name: self.rung(name, block) for name in LADDER if name in names}
        return {name: problem.log_density(self.volume, forms, log_det) for name, log_det in above.items()}

    def rung(self, name: str, block: int | Blocks) -> Any:
        """A ball of an upper bound on log|I + D/s|, D = K' + σ'²I − FFᵀ − sI ⪰ 0 (N-fischer, N-fischer-vecchia).

        K' + σ'²I = FFᵀ + sI + D, so log|K' + σ'²I| ≤ log|FFᵀ + sI| + log|I + D/s|, as N-fischer needs D ⪰ 0 only.
        """
        problem, total = self.problem, exact(0.0)
        if name == "diagonal":
            total = self._logs_of_diagonal()
        else:
            blocks = partition(problem.kernel, problem.X, block, conditioned=name == "conditioned")
            for chosen, rows in zip(blocks.sets, blocks.rows, strict=True):
                total += self._volume_of(blocks.order[rows])
                if chosen.size:
                    total -= self._volume_of(blocks.order[chosen])
        return total - problem.N * exact(self.noise).log()

    def _logs_of_diagonal(self) -> Any:
        """A ball of Σ_i log(s + D_ii), s + D_ii = K'_ii + σ'² − |F_i|² ≥ s."""
        from flint import arb

        problem, m = self.problem, self.m
        high, low = row_sums(times(self.F, self.F)) if m else (np.zeros(problem.N), np.zeros(problem.N))
        rest = add(add(pair_variances(problem.kernel, problem.X), (-high, -low)), _pair(problem.noise))
        # errors of 18u² and 7u² a level in the sum of squares, and 6u² of both in an addition
        size = 2.0 * (problem.largest + problem.noise + self.epsilon)
        error = UP * (problem.entry + (2.0 + math.ceil(math.log2(m + 2))) * ADDED * size)
        least, wide = exact(self.noise), arb(0.0, error)
        balls = (exact(one) + exact(two) + wide for one, two in zip(*(part.tolist() for part in rest), strict=True))
        return sum((ball.max(least).log() for ball in balls), exact(0.0))

    def _volume_of(self, rows: np.ndarray) -> Any:
        """A ball of log|sI + D| for these rows: a principal part of K' + σ'²I − FFᵀ ⪰ sI."""
        problem = self.problem
        F = self.F[0][rows], self.F[1][rows]
        (high, low), apart = multiply(F, F)
        entries = _entries(problem.kernel, problem.X[rows])

        def left(some: slice, columns: slice) -> Pair:
            return add(entries(some, columns), (-high[some, columns], -low[some, columns]))

        n = len(rows)
        further = UP * (n * (problem.entry + 3.0 * ADDED * (problem.largest + problem.noise)) + apart)
        factor = pair_cholesky(with_diagonal(left, problem.noise), n, "K − Q + σ²I", problem.negligible)
        return log_det(factor, least=self.noise, further=further)

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

    @property
    def moved(self) -> float:
        """κ = max(ε, ε₊)/σ'²: Q + σ'²I is between 1 − κ and 1 + κ times FFᵀ + σ'²I.

        Raises
        ------
        Unresolved
            where it is not below ¼.
        """
        return share(max(self.epsilon, self.excess), self.problem.noise)

    def variational(self) -> Any:
        """A ball that contains L_VI for Q (N-exact-gap)."""
        from flint import arb

        problem, kappa = self.problem, exact(self.moved)
        noise = problem.noise
        apart = problem.N * kappa / (1 - kappa)
        forms = [
            (low / (1 + kappa)).union(high / (1 - kappa))
            for low, high in zip(self.forms_below(noise), self.forms_above(noise), strict=True)
        ]
        ratio = self.unexplained_variance / exact(noise)
        both = ratio + arb(0, (apart + problem.N * kappa).upper())
        return problem.log_density(self.volume_at(noise), forms, both)

    def objective(self, alpha: float) -> Any:
        """A ball that contains L_α for Q, 0 < α < 1, from K' and FFᵀ (N, N) in pairs (N-exact-gap)."""
        problem, ((high, low), apart) = self.problem, multiply(self.F, self.F)
        apart += math.sqrt(problem.N) * max(self.epsilon, self.excess)
        first, second = two_sum(np.float64(1.0), np.float64(-alpha)), (np.float64(alpha), np.float64(0.0))
        entries = _entries(problem.kernel, problem.X)

        def mixed(weight: Pair) -> Block:
            """(1 − α)K' + weight·FFᵀ."""

            def block(rows: slice, columns: slice) -> Pair:
                part = high[rows, columns], low[rows, columns]
                return add(times(entries(rows, columns), first), times(part, weight))

            return block

        rounding = problem.N * _MIXED * (2.0 * problem.largest + self.epsilon)
        error = UP * (problem.N * problem.entry + apart + rounding)
        volume, forms = problem.determined(mixed(second), error)
        beta = exact(float(first[0])) + exact(float(first[1]))
        left, _ = problem.determined(mixed(minus(first)), error, y=False)
        penalty = exact(alpha) / beta * (left - problem.N * exact(problem.noise).log())
        return problem.log_density(volume, forms, penalty)


def _least_eigenvalue(L: Pair, error: float) -> float:
    """A lower bound on the eigenvalues of every A with ‖A − LLᵀ‖ ≤ error, 0 where none is proved.

    For any X with ‖XL − I‖ ≤ δ < 1 the least singular value of L is at least (1 − δ)/‖X‖.
    """
    m = len(L[0])
    identity = np.eye(m), np.zeros((m, m))
    X = solve_lower(L, identity)
    delta = remainder(X, L, identity).norm
    if not delta < 0.5:
        return 0.0
    return max(((1.0 - delta) / (UP * _norm(X))) ** 2 * (1.0 - 1e-14) - error * UP, 0.0)


def _pair(number: float) -> Pair:
    return np.float64(number), np.float64(0.0)


def _norm(A: Pair) -> float:
    return UP * UP * float(np.linalg.norm(_double(A)))


def _entries(kernel: Kernel, X: Float) -> Block:
    """k(X, X) by blocks."""
    return lambda rows, columns: pair_covariances(kernel, X[rows], X[columns])


def _transposed(A: Pair) -> Pair:
    return np.ascontiguousarray(A[0].T), np.ascontiguousarray(A[1].T)


def _double(A: Pair) -> Float:
    return np.asarray(A[0] + A[1])


# log p(y) and gaps between proved ends: entries of K and factors in double-double numbers, sums in balls.

EXACT = 2048
"""Largest N at which members="auto" factorises K + σ²I."""
CHEAP = ("trace", "determinant")
MEMBERS = ("exact", *CHEAP, *LADDER)
BITS = 192
_CLAIMS = {"exact": "N-exact", "diagonal": "N-fischer", "blocks": "N-fischer", "conditioned": "N-fischer-vecchia"}
"""Claims of members other than those of N-nystrom."""
_ASSUMED = "The model of y is the Gaussian process with this kernel and this noise variance."


def enclosed_evidence(
    kernel: Kernel,
    X: Any,
    y: Any,
    Z: ArrayLike | None,
    *,
    noise: float,
    jitter: float = 0.0,
    members: str | Sequence[str] = "auto",
    block: int | Blocks = BLOCK,
) -> tuple[Bound, Bound]:
    """The bounds of `gpbounds.renyi.evidence` with ``rigor="sharp"``.

    Exact: N-exact, with a computed factor L of A = K + σ²I ⪰ σ²I, as the exact K is positive semi-definite.  The bound
    ‖A − LLᵀ‖_F ≤ η is proved: entries of K to 30 digits (N-pairs), products of slices without rounding (N-slices).
    ρ = η/σ² < ¼.
    Inducing points: N-nystrom, with log|FFᵀ + sI| = (N − m)log s + log|FᵀF + sI| in the same way.  They are those of
    Kuu + jitter·I, which may only widen the interval.  "diagonal", "blocks" and "conditioned" replace log|I + D/s|, D =
    K + σ²I − FFᵀ − sI ⪰ 0, by what N-fischer and N-fischer-vecchia say of it, from factors of its parts.

    Parameters
    ----------
    kernel, X, y, Z, noise, members, block : as in `gpbounds.renyi.evidence`
    jitter : float
        Added to the diagonal of Kuu.
    """
    size = block if isinstance(block, Blocks) else count("block", block)
    problem, centres, amount = _checked(kernel, X, y, Z, noise, jitter)
    names = _names(members, problem.N, centres is None)
    lowers, uppers, terms = {}, {}, {}
    with at_bits(BITS), _refused(problem, noise):
        if "exact" in names:
            ball = problem.exact()
            lowers["exact"], uppers["exact"] = below(ball), above(ball)
        if set(names) & {*CHEAP, *LADDER}:
            assert centres is not None
            nearby = _Nearby.of(problem, centres, amount)
            lowers |= {name: below(ball) for name, ball in nearby.lower(names, size).items()}
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
        nearby = _Nearby.of(problem, centres[numbers], amount)
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
    """Indices of the distinct points of Z without those where f is surely 0, which add nothing to Q; at least one."""
    numbers = np.sort(DistinctRows.of(Z).first)
    if math.isfinite(kernel.max_variance):
        return numbers
    known = [i for i in numbers.tolist() if pair_variances(kernel, Z[i : i + 1])[0].any()]
    return np.array(known or numbers[:1], dtype=np.intp)


def _two_sided(nearby: _Nearby) -> bool:
    """Whether Q is known from both sides to less than a quarter of σ²."""
    return 4.0 * max(nearby.epsilon, nearby.excess) < 0.99 * nearby.problem.noise


def _exact_gap(nearby: _Nearby, density: Any, alpha: float) -> tuple[float, float]:
    """Both ends of D_α from a ball ``density`` of log p(y); if it is None, a lower end (0 for α < 1), and ∞."""
    if density is None:
        if alpha < 1.0:
            return 0.0, math.inf
        lowest = max(below(ball - nearby.variational()) for ball in nearby.lower().values())
        return lowest, math.inf
    ball = density - (nearby.variational() if alpha == 1.0 else nearby.objective(alpha))
    return below(ball), above(ball)


def _left_out(numbers: np.ndarray, nearby: _Nearby) -> tuple[str, ...]:
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
) -> tuple[_ScaledByPowers, Float | None, float]:
    """The scaled problem, Z, and the jitter in units of the scaled kernel."""
    points = as_host_points(X, "X")
    variance, added = noise_variance(noise), scalar(non_negative, "jitter", jitter)
    targets = as_targets(y, points)
    columns = targets[:, None] if targets.ndim == 1 else targets
    centres = None if Z is None else as_host_points(Z, "Z", points.shape[1])
    problem = _ScaledByPowers.of(kernel, points, columns, variance)
    amount = math.ldexp(added, -problem.exponent)
    if math.ldexp(amount, problem.exponent) != added:
        raise ValueError(
            f"jitter: expected 0, or at least 2**-1000 of the variance of f and of the noise, got {added:.3g}"
        )
    return problem, centres, amount


@contextmanager
def _refused(problem: _ScaledByPowers, noise: float) -> Iterator[None]:
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
    claim = _CLAIMS.get(name, "N-nystrom")
    return Bound(values[name], side, 1.0, claim, values | terms, (_ASSUMED,), certified=True, quantity="log p(y)")


def _names(members: str | Sequence[str], N: int, without: bool) -> tuple[str, ...]:
    cheap, ladder = ((), ()) if without else ((*CHEAP, "diagonal"), LADDER[1:])
    auto = ("exact",) if N <= EXACT or without else cheap
    plans = {"auto": auto, "cheap": (*CHEAP, "diagonal"), "all": ("exact", *cheap, *ladder)}
    if isinstance(members, str) and members in plans:
        names = plans[members]
    else:
        names = (members,) if isinstance(members, str) else tuple(members)
    if not names or not set(names) <= set(MEMBERS):
        raise ValueError(
            f"members: expected 'auto', 'cheap', 'all' or some of {', '.join(map(repr, MEMBERS))} with rigor='sharp', "
            f"got {shown(members)}"
        )
    needing = set(names) & {*CHEAP, *LADDER}
    if without and needing:
        listed = " and ".join(repr(name) for name in MEMBERS if name in needing)
        raise ValueError(f"Z: expected inducing inputs for the members {listed}, got None")
    return names if set(names) - set(LADDER) else (*names, "trace")
