"""The log evidence of one data set from both sides."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from gpbounds.arrays import Float, exactly, host, length, namespace
from gpbounds.bound import Bound
from gpbounds.errors import NotPositiveDefinite
from gpbounds.exact import Exact
from gpbounds.interval import Interval, Member, interval, possible
from gpbounds.kernels import Kernel
from gpbounds.kernels.base import as_kernel
from gpbounds.linalg import Cholesky, Jitter
from gpbounds.numerics.scalars import log1p_sum_bounds
from gpbounds.once import cached_property
from gpbounds.overflow import within_doubles
from gpbounds.progress import bar
from gpbounds.renyi.accuracy import WITHOUT_WARNINGS, U, gamma, unproved
from gpbounds.renyi.blocks import ResidualMoments, absolute_products, moments, products, solve, two_sided
from gpbounds.renyi.escalation import computed_evidence, decided, sharper, spoilt, thirty_digits
from gpbounds.renyi.fischer import of_blocks, partition
from gpbounds.renyi.further import further_rows
from gpbounds.renyi.members import (
    BLOCKS,
    CHEAP,
    LADDER,
    LARGE,
    WORK,
    Chosen,
    chosen_by_partitions,
    chosen_members,
    orders_of,
)
from gpbounds.renyi.pairs import enclosed_evidence
from gpbounds.renyi.residual import Nystrom, nystrom
from gpbounds.renyi.streamed import BLOCK, Fits, LogDeterminant, Problem, Streamed, problem_of, streamed
from gpbounds.row_noise import UnitNoise, noise_per_row
from gpbounds.rows import is_elsewhere
from gpbounds.validation import non_negative, rigor_of, scalar
from gpbounds.vecchia import Blocks, factor, log_det_error, near

# Members of the bracket for orders α < 1; they need all of K: O(N³) time, O(N²) memory.


@dataclass(frozen=True)
class Order:
    """One order α in [0, 1] for a dense record, targets (N, P) and noise."""

    record: Nystrom
    Y: Float
    noise: float
    alpha: float

    @cached_property
    def xi(self) -> Cholesky:
        """Cholesky factor of Ξ."""
        return self.record.xi(self.alpha, noise=self.noise)

    @property
    def log_normaliser(self) -> float:
        """−½ log|2πΞ|, times the number of outputs."""
        N, P = self.Y.shape
        return -0.5 * P * (N * float(np.log(2.0 * np.pi)) + self.xi.logdet)

    @cached_property
    def errors(self) -> tuple[float, float]:
        """Upper bounds on the error of log|Ξ| and on the relative error of yᵀΞ⁻¹y or yᵀ(Ξ + sI)⁻¹y (N-dense).

        With ‖E‖_F ≤ ε for the factor of Ξ + E ⪰ σ²I: log|Ξ| moves by √N ε/(σ² − ε), a form by a share of ε/(σ² − ε);
        the triangular solve adds 2γ‖L‖_F‖L⁻¹‖.
        """
        record, noise, N = self.record, self.noise, self.record.N
        off = record.xi_error(self.alpha, noise=noise)
        if not off < 0.5 * noise:
            return np.inf, np.inf
        rest = noise - off
        solves = gamma(N + 4) * float(np.sqrt(1.1 * (record.K.diagonal().sum() + N * noise) / rest))
        logs = gamma(N + 8) * (abs(self.xi.logdet) + N)
        return 1.01 * (np.sqrt(N) * off / rest + logs), 1.01 * (off / rest + 2.1 * solves + gamma(N + 8))

    @cached_property
    def log_det_error(self) -> float:
        """At least the error of `Nystrom.log_det_term`, whose derivative in each eigenvalue is at most α/(2σ²)."""
        record = self.record
        moved = record.eigenvalue_errors[1] + record.moved[1]
        own = gamma(64) * abs(record.log_det_term(self.alpha, noise=self.noise))
        return 1.01 * (0.5 * self.alpha * moved / self.noise + own)

    @cached_property
    def elbo(self) -> float:
        """L_α summed over the outputs."""
        return self.elbo_and_error[0]

    @cached_property
    def elbo_and_error(self) -> tuple[float, float]:
        """`elbo`, and an upper bound on its error."""
        (in_log, share), P = self.errors, self.Y.shape[1]
        form = float((self.xi.solve_lower(self.Y) ** 2).sum())
        value = self.log_normaliser - 0.5 * form - P * self.record.log_det_term(self.alpha, noise=self.noise)
        error = 0.5 * (P * in_log + share * form) + P * self.log_det_error
        return value, error + 16.0 * U * (abs(self.log_normaliser) + form)

    @cached_property
    def upper(self) -> tuple[float, float]:
        """−½log|2πΞ| − ½(s²/q)log(1 + q/s) − ½yᵀ(Ξ + αλI)⁻¹y ≥ log p(y), s = αTr(Ξ⁻¹Δ), q = α²Tr((Ξ⁻¹Δ)²); its error.

        R-eq8 with λ = λ_max(Δ) has log(1 + s) as its second term; `log1p_sum_bounds` proves that (s²/q)log(1 + q/s) is
        larger.
        """
        record, a, (N, P) = self.record, self.alpha, self.Y.shape
        (in_log, share), moved = self.errors, record.moved
        if not np.isfinite(in_log):
            return self.log_normaliser, np.inf
        ratio = a * self.xi.solve(record.residual)
        size = 1.01 * float(np.linalg.norm(ratio))
        solved = 4.0 * gamma(N + 4) * (record.K.diagonal().sum() + N * self.noise) / self.noise * size
        s, q = float(ratio.trace()), float((ratio * ratio.T).sum())
        in_s = share * abs(s) + a * moved[1] / self.noise + np.sqrt(N) * solved + gamma(N) * size * np.sqrt(N)
        in_q = 2.1 * share * abs(q) + (2.0 * size + moved[0] / self.noise) * (a * moved[0] / self.noise + solved)
        in_q += (solved + gamma(N + 64) * size) * size
        log_det, _ = log1p_sum_bounds(s, q, N, np.inf, (1.01 * in_s, 1.01 * in_q))
        largest = record.largest + record.eigenvalue_errors[0] + moved[0]
        wider = record.xi_plus(a, a * max(largest, record.largest + record.rounding), noise=self.noise)
        form = float((wider.solve_lower(self.Y) ** 2).sum())
        value = self.log_normaliser - 0.5 * P * log_det - 0.5 * form
        return value, 0.5 * (P * in_log + share * form) + 16.0 * U * (abs(self.log_normaliser) + form)


def secant(first: Order, second: Order) -> tuple[float, float]:
    """L_α₁ + α₁/(α₂ − α₁)·(L_α₁ − L_α₂) ≥ log p(y) for 0 ≤ α₁ < α₂, as L is concave in α (N-conc); and its error."""
    share = first.alpha / (second.alpha - first.alpha)
    (one, in_one), (two, in_two) = first.elbo_and_error, second.elbo_and_error
    value = one + share * (one - two)
    return value, (1.0 + share) * in_one + share * in_two + 8.0 * U * (1.0 + share) * (abs(one) + abs(two))


# The log evidence of one data set from both sides.

QUANTITY = "log p(y)"
_UPPER_CLAIMS = {
    "trace": "R-eq8",
    "determinant": "R-eq8",
    "weighted": "N-block",
    "eigenvalue": "R-eq8",
    "tangent": "N-conc",
    "quadratic": "N-quad",
    "order": "R-eq8",
    "secant": "N-conc",
}
_LOWER_CLAIMS = {
    "elbo": "R-elbo*",
    "determinant": "R-amgm",
    "diagonal": "N-fischer",
    "blocks": "N-fischer",
    "conditioned": "N-fischer-vecchia",
    "quadratic": "N-quad",
    "vecchia": "N-vecchia",
}
BLOCK_ROWS, NEIGHBOURS = 250, 1500
"""Rows of a block of "vecchia", and the earlier rows on which it is conditioned."""
MODEL = "The model of y is the Gaussian process with this kernel and this noise variance."
GRID = (1.0, 0.25, 1.0 / 16.0, 1.0 / 64.0, 0.0)
"""Shifts that "weighted" tries, as multiples of T; "trace" uses the first, L_VI the last."""


class Computed(NamedTuple):
    """A computed number, and an upper bound on its error."""

    value: float
    error: float


@dataclass(frozen=True)
class Bracket:
    """Every member of the lower and the upper bound; each is computed on first use."""

    problem: Problem
    alphas: tuple[float, ...]
    dense: Callable[[float], Order]
    parts: int | Blocks = BLOCK

    @property
    def rows(self) -> Streamed:
        """The rows, for members that need all of them at once."""
        assert isinstance(self.problem, Streamed)  # `evidence` and `gap` refuse such members of rows in partitions
        return self.problem

    @cached_property
    def grid_fits(self) -> Fits:
        """Quadratic forms at the shifts of the grid."""
        return self.problem.fits(self.problem.trace_above * np.array(GRID), spread=True)

    @cached_property
    def moments(self) -> ResidualMoments:
        """Moments of (K − Q)/σ², from one pass over K."""
        problem = self.rows
        return moments(problem, problem.solve(problem.Y) * np.sqrt(problem.noise))

    @property
    def log_normaliser(self) -> float:
        """−½ log|2πB|, times the number of outputs."""
        return -0.5 * self.problem.P * self.problem.log_det

    def penalty(self, log_det: float) -> float:
        """−½ log_det, times the number of outputs."""
        return -0.5 * self.problem.P * log_det

    @property
    def log_density(self) -> float:
        """log N(y; 0, B) = −½log|2πB| − ½yᵀB⁻¹y, summed over the outputs."""
        return self.log_normaliser - 0.5 * float(self.grid_fits.quadratic[-1].sum())

    @property
    def variational_bound(self) -> float:
        """L_VI, the variational bound of Titsias."""
        return self.log_normaliser + self.elbo().value

    def part(self, value: float, end: float) -> Computed:
        """A member minus the normaliser; its error covers the proved ``end``."""
        sizes = abs(value) + abs(end)
        return Computed(value, abs(value - end) + 16.0 * U * sizes)

    def elbo(self) -> Computed:
        """L_VI less the normaliser: −½yᵀB⁻¹y − ½T/σ²."""
        problem, fits = self.problem, self.grid_fits
        ratio = (problem.sums.trace + problem.trace_error[0]) / problem.noise
        return self.part(
            self.penalty(problem.ratio) - 0.5 * float(fits.quadratic[-1].sum()),
            self.penalty(ratio) - 0.5 * float(fits.above[-1].sum()),
        )

    @cached_property
    def own_excess(self) -> float:
        """An upper bound, possibly infinite, on L_VI of Q minus the normaliser of Q₋; `elbo` gives the lower one."""
        problem = self.problem
        ratio = max(problem.sums.trace - problem.trace_error[1], 0.0) / problem.noise
        value = self.penalty(ratio) - 0.5 * float(self.grid_fits.own[-1].sum())
        return value + 16.0 * U * abs(value)

    @property
    def variational_ends(self) -> tuple[float, float]:
        """Lower and upper bound on L_VI of Q; the upper one may be infinite."""
        problem, elbo, normaliser = self.problem, self.elbo(), self.log_normaliser
        own = 0.5 * problem.P * problem.log_det_error + 16.0 * U * (abs(normaliser) + abs(elbo.value))
        return normaliser + elbo.value - elbo.error - own, normaliser + self.own_excess + own

    def trace(self) -> Computed:
        """The upper bound of Titsias: T in yᵀ(B + T I)⁻¹y."""
        fits = self.grid_fits
        return self.part(-0.5 * float(fits.quadratic[0].sum()), -0.5 * float(fits.below[0].sum()))

    @cached_property
    def kept(self) -> tuple[float, float]:
        """log(1 + T/(σ² + λ_max(Q))) ≤ log|K_n| − log|B|: its computed value, and a proved lower bound on it."""
        problem = self.problem
        low = max(problem.sums.trace - problem.trace_error[0], 0.0) / (problem.noise + problem.largest)
        return float(np.log1p(problem.weighted_trace)), float(np.log1p(low)) * (1.0 - 8.0 * U)

    def determinant(self) -> Computed:
        """`trace` with the lower bound log(1 + T/(σ² + λ_max(Q))) on log|K_n| − log|B|."""
        value, low = self.kept
        trace = self.trace()
        return self.part(trace.value + self.penalty(value), trace.value + trace.error + self.penalty(low))

    def weighted(self) -> Computed:
        """`determinant` with diagonal blocks of Δ in place of T in the quadratic form."""
        fits = self.grid_fits
        curvature = fits.quadratic - fits.shifted + fits.spread
        with np.errstate(invalid="ignore", divide="ignore"):
            values = np.where(curvature > 0.0, fits.quadratic * (fits.quadratic / curvature), 0.0)
        best = float(np.maximum(values, fits.quadratic[:1]).max(axis=0).sum())
        proved = float(np.maximum(fits.weighted, fits.below[:1]).max(axis=0).sum())
        value, low = self.kept
        return self.part(self.penalty(value) - 0.5 * best, self.penalty(low) - 0.5 * proved)

    def eigenvalue(self) -> Computed:
        """λ in place of T in the quadratic form; the determinant from Tr(B⁻¹Δ) and Tr((B⁻¹Δ)²)."""
        fits = self.problem.fits(self.moments.largest * self.problem.noise)
        kept = self.penalty(self.moments.log_det[0])
        return self.part(kept - 0.5 * float(fits.quadratic.sum()), kept - 0.5 * float(fits.below.sum()))

    def tangent(self) -> Computed:
        """S₁ − ½yᵀB⁻¹y − ½T/σ², S₁ the slope of α ↦ L_α at α = 1 with its sign changed; its rounding is not proved."""
        D = self.moments
        value = self.penalty(D.s - 0.5 * D.squares) + 0.5 * float(D.forms.sum())
        return Computed(value - 0.5 * float(self.grid_fits.quadratic[-1].sum()), np.inf)

    @property
    def computed_moments(self) -> ResidualMoments | None:
        """`moments` if they have been computed, else None."""
        return self.__dict__.get("moments")

    @property
    def log_det(self) -> tuple[float, float]:
        """Proved lower and upper bound on log|K_n| − log|B|: from `moments` if they have been computed, else from T."""
        if self.computed_moments is not None:
            return self.computed_moments.log_det
        problem, (n, more) = self.problem, self.problem.rank
        ratio = problem.trace_above / problem.noise
        above = n * float(np.log1p(ratio / n)) * (1.0 + 8.0 * U) + more if n else more
        return self.kept[1], above

    @property
    def diagonal(self) -> LogDeterminant:
        """log|I + Δ/σ²| ≥ log|K_n| − log|B| from above, by its diagonal."""
        return self.problem.diagonal

    @cached_property
    def blocks(self) -> LogDeterminant:
        """The same by diagonal blocks of rows that lie near each other."""
        return self._by_parts(conditioned=False)

    @cached_property
    def conditioned(self) -> LogDeterminant:
        """The same by those blocks, each given as many near rows of earlier ones."""
        return self._by_parts(conditioned=True)

    def _by_parts(self, *, conditioned: bool) -> LogDeterminant:
        rows = self.rows
        kernel, X = rows.white.inducing.kernel, rows.white.X
        return of_blocks(rows, partition(kernel, X, self.parts, conditioned=conditioned))

    @property
    def log_det_above(self) -> float:
        """The least proved upper bound on log|K_n| − log|B| among `log_det`, "diagonal" and what has been computed."""
        computed = [self.__dict__[name] for name in LADDER if name in self.__dict__]
        return min([self.log_det[1], self.diagonal.above, *(each.above for each in computed)])

    @cached_property
    def half_quadratic(self) -> tuple[float, float]:
        """Lower and upper bound on ½yᵀK_n⁻¹y, summed over the outputs."""
        problem = self.rows
        kernel, X, noise = problem.white.inducing.kernel, problem.white.X, problem.noise
        v = solve(problem, products(kernel, X, noise))
        shift = problem.trace_above if self.computed_moments is None else self.computed_moments.largest * noise
        product, off = absolute_products(kernel, X, v, problem.accuracy.entry, noise=noise)
        below, above = two_sided(problem, v, product, off, shift * (1.0 + 4.0 * U))
        return float(below.sum()), float(above.sum())

    def quadratic(self) -> Computed:
        """The lower bound on ½yᵀK_n⁻¹y from the solve, with `log_det`."""
        value = self.penalty(self.log_det[0]) - self.half_quadratic[0]
        return self.part(value, value)

    def lower_determinant(self) -> Computed:
        """−½yᵀB⁻¹y and the upper bound on log|K_n| − log|B|."""
        fits, kept = self.grid_fits, self.penalty(self.log_det[1])
        return self.part(kept - 0.5 * float(fits.quadratic[-1].sum()), kept - 0.5 * float(fits.above[-1].sum()))

    def lower_rung(self, name: str) -> Computed:
        """−½yᵀB⁻¹y and "diagonal", "blocks" or "conditioned" in place of log|K_n| − log|B|."""
        log_det: LogDeterminant = getattr(self, name)
        fits = self.grid_fits
        return self.part(
            self.penalty(log_det.value) - 0.5 * float(fits.quadratic[-1].sum()),
            self.penalty(log_det.above) - 0.5 * float(fits.above[-1].sum()),
        )

    def lower_quadratic(self) -> Computed:
        """The upper bound on ½yᵀK_n⁻¹y from the solve, with `log_det_above`."""
        value = self.penalty(self.log_det_above) - self.half_quadratic[1]
        return self.part(value, value)

    def vecchia(self) -> Member:
        """The lower bound with log|P| of a block Vecchia factor in place of log|K_n|, rows in an order of seed 0."""
        problem = self.rows
        kernel, X, N, P = problem.white.inducing.kernel, problem.white.X, problem.N, problem.P
        blocks = near(kernel, X, block=BLOCK_ROWS, neighbours=NEIGHBOURS, rng=0)
        U_factor = factor(kernel, X[namespace(X).asarray(blocks.order)], noise=problem.noise, blocks=blocks)
        error = log_det_error(U_factor, float(kernel.largest_variance(X)), problem.accuracy.entry, noise=problem.noise)
        constant = N * float(np.log(2.0 * np.pi))
        value = self.penalty(constant + U_factor.log_det) - self.half_quadratic[1]
        whole = 0.5 * P * (error + 8.0 * U * constant) + 16.0 * U * abs(value)
        return self._member(value, whole, _LOWER_CLAIMS["vecchia"])

    def _member(self, value: float, error: float, claim: str) -> Member:
        return Member(value, error, claim, self.problem.accuracy.proved and bool(np.isfinite(error)))

    def absolute(self, part: Computed, claim: str) -> Member:
        """A part with the normaliser."""
        P, value = self.problem.P, self.log_normaliser + part.value
        error = part.error + 0.5 * P * self.problem.log_det_error
        return self._member(value, error + 16.0 * U * (abs(self.log_normaliser) + abs(part.value)), claim)

    def upper_parts(self, names: Sequence[str], advance: Callable[[], Any] | None = None) -> dict[str, Computed]:
        """The named members of the upper bound at α = 1, less the normaliser; ``advance`` is called after each."""
        values = {}
        for name in (*CHEAP, *BLOCKS):
            if name in names:
                values[name] = getattr(self, name)()
                _tell(advance)
        return values

    def upper_members(self, names: Sequence[str], advance: Callable[[], Any] | None = None) -> dict[str, Member]:
        """The named members of the upper bound; ``advance`` is called after each."""
        parts = self.upper_parts(names, advance)
        values = {name: self.absolute(part, _UPPER_CLAIMS[name]) for name, part in parts.items()}
        orders = [self.dense(a) for a in self.alphas if a < 1.0]
        if "order" in names:
            for o in orders:
                values[f"order {o.alpha:g}"] = self._member(*o.upper, _UPPER_CLAIMS["order"])
            _tell(advance)
        if "secant" in names:
            increasing = [*orders, self.dense(1.0)]
            for a, b in pairwise(increasing):
                values[f"secant {a.alpha:g}, {b.alpha:g}"] = self._member(*secant(a, b), _UPPER_CLAIMS["secant"])
            _tell(advance)
        return values

    def lower_parts(self, names: Sequence[str]) -> dict[str, Computed]:
        """The members of the lower bound that contain the normaliser, each minus it."""
        values = {"determinant": self.lower_determinant()}
        if 1.0 in self.alphas:
            values["elbo 1"] = self.elbo()
        values |= {name: self.lower_rung(name) for name in LADDER if name in names or name == "diagonal"}
        if "quadratic" in names:
            values["quadratic"] = self.lower_quadratic()
        return values

    def lower_members(self, names: Sequence[str], advance: Callable[[], Any] | None = None) -> dict[str, Member]:
        """The ELBO of each order, "determinant" and "diagonal", and the others if they are among the names."""
        values = {
            f"elbo {a:g}": self._member(*self.dense(a).elbo_and_error, _LOWER_CLAIMS["elbo"])
            for a in self.alphas
            if a < 1.0
        }
        parts = self.lower_parts(names)
        for _ in set(names) & set(LADDER):
            _tell(advance)
        values |= {name: self.absolute(part, _LOWER_CLAIMS[name.partition(" ")[0]]) for name, part in parts.items()}
        if "vecchia" in names:
            values["vecchia"] = self.vecchia()
            _tell(advance)
        return values


def _tell(advance: Callable[[], Any] | None) -> None:
    if advance is not None:
        advance()


@noise_per_row(UnitNoise.of_log_evidence)
@within_doubles
def evidence(
    kernel: Kernel,
    X: Any,
    y: Any,
    Z: ArrayLike | None,
    *,
    noise: Any,
    alphas: ArrayLike = (1.0,),
    jitter: Jitter = "auto",
    members: str | Sequence[str] = "auto",
    work: float = WORK,
    block: int | Blocks = BLOCK,
    progress: bool = False,
    rigor: str = "auto",
) -> Interval:
    """Lower and upper bound on the log evidence log p(y) = log N(y; 0, K + σ²I), with inducing points for Q.

    Lower: the greatest of
        elbo α           L_α for each order in ``alphas`` (R-elbo*); α = 1 is L_VI, O(NM²), others need K, O(N³)
        determinant      −½log|2πB| − ½yᵀB⁻¹y − ½n log(1 + T/(nσ²)), n ≥ rank Δ (R-amgm); never below L_VI   O(NM²)
        diagonal         −½log|2πB| − ½yᵀB⁻¹y − ½Σ_i log(1 + Δ_ii/σ²) (N-fischer); never below these two     O(NM²)
        blocks           with Σ_b log|I + Δ_bb/σ²|, b parts of near rows; never below "diagonal"  O(N·block·(M + block))
        conditioned      with the conditional covariances of these blocks given as many near earlier rows, in place of
                         the blocks of I + Δ/σ² (N-fischer-vecchia); never below "blocks"     4 to 6 times as much
        quadratic        the best of these that are computed, with an upper bound on yᵀK_n⁻¹y by conjugate gradients
                         (`two_sided`)
        vecchia          that bound with log|P| ≥ log|K_n| of a block Vecchia factor of K_n itself, without Z
                         (N-vecchia), blocks of 250 rows conditioned on 1500 near rows each: 7·10⁶·N flops

    Upper: the least of
        trace            −½log|2πB| − ½yᵀ(B + T I)⁻¹y (R-eq8 at α = 1, Titsias)                             O(NM²)
        determinant      trace − ½log(1 + T/(σ² + λ_max(Q))), as log|K_n|/|B| ≥ that logarithm              O(NM²)
        weighted         determinant with (wᵀy)²/(wᵀBw + (Σ_b √(w_bᵀΔ_bb w_b))²) for yᵀ(B + T I)⁻¹y,
                         w = (B + tI)⁻¹y, the best t of five                                O(NM² + N·block)
        eigenvalue       λ ≥ λ_max(Δ) in place of T (R-eq8), and (s²/q)log(1 + q/s)           K streamed once, O(N²M)
        tangent          L_VI + S₁ (N-conc)                                                   K streamed once, O(N²M)
        quadratic        a lower bound on yᵀK_n⁻¹y by conjugate gradients (`two_sided`)    O(N²) a product, 25 (*)
        order α          R-eq8 at the orders < 1 in ``alphas``                                              O(N³)
        secant α₁, α₂    L_α₁ + α₁/(α₂ − α₁)·(L_α₁ − L_α₂), neighbouring orders, 1 included (N-conc)         O(N³)

    Both: two members that use more than Z.
        exact            from a Cholesky factor of K + σ²I (N-computed)                     O(N³), 12N² bytes
        further          the members in O(NM²) with further rows as inducing points, each of the largest variance
                         that is not explained yet, among at most 20 000 rows evenly spaced in X

    B = Q + σ²I, Δ = K − Q, T = Tr Δ, s = Tr(B⁻¹Δ), q = Tr((B⁻¹Δ)²).  Once K has been streamed, s and q sharpen the
    determinants in both bounds (`log1p_sum_bounds`).  (*) At most 25 products, 100 up to N = 2000.  All members equal
    log p(y) when Δ = 0, for example when Z = X.  With P outputs the bounds hold for the sum of the P log evidences
    with one kernel: determinants count P times. Memory: O(M² + N) for members in O(NM²), O(NM) for those that stream
    K, O(N²) for orders below 1.

    Parameters
    ----------
    kernel : Kernel
    X : array (N, D), NumPy or CuPy
        Orders below 1 need dense algebra, which runs on the host: X, y and Z are then copied there once.  Or rows that
        are read by partitions: .npy and Parquet files, Dask collections, memory maps, all as `gpbounds.rows.source`
        takes them, or its result (with y = None).  The cheap members at α = 1 need two passes over them; the others
        need all rows in memory.  Blocks begin anew with each partition.  Rows of two partitions count as distinct in n,
        even if they are equal, which can only lower "determinant".
    y : array (N,) or (N, P), or as `gpbounds.rows.source` takes it
    Z : array (M, D)
        Inducing inputs; None for the member "exact" of ``rigor="sharp"``, which needs none.
    noise : float or array (N,)
        σ², in squared units of y; an array: s_i², one noise variance for each row (N-rows-noise).
    alphas : number or numbers in [0, 1]
        Orders of the ELBOs; each below 1 needs K.
    jitter : float or "auto"
        Added to the diagonal of Kuu; every member stays valid.  With more jitter L_VI never increases and ``trace``
        never decreases.
    members : "auto", "cheap", "all" or names
        "cheap": the members in O(NM²).  "auto": these, the ELBOs of other orders, and "exact" if ``work`` affords it,
        else "further", and "blocks"; where K + σ²I has no factor in doubles, those that stream K.  "all": every member.
        "diagonal", "blocks", "conditioned" and "vecchia" are lower bounds: alone they come with "trace" as the upper
        one.
    work : float
        Flops that "exact" or "further" of "auto" may take beyond the members at Z, a count from N and M and no clock:
        the default, some 10 s of a core, affords "exact" up to N = 10 000, and at N = 100 000 "further" with about
        800 inducing points.  0 leaves both out, which is "cheap".  ``notes`` of the bounds say what is left out and the
        work that it needs.
    block : int or `gpbounds.vecchia.Blocks`
        Rows of each block b of Δ that "weighted" computes, and the most rows of a part of "blocks" and "conditioned".
        Larger blocks give tighter bounds; rows in random order give the best ones of "weighted".  `Blocks` are the
        parts themselves, and the earlier rows that each is given in "conditioned".
    progress : bool
        Show a bar that counts the members.
    rigor : "auto", "float" or "sharp"
        "auto", "float": doubles, and every member carries a proved bound on the error of its evaluation, whatever the
        condition of Kuu and K + σ²I (N-member-rounding); a member drops out where it is large.  "auto" goes on to
        "sharp" where those errors are above .01 nats and a twentieth of the interval, for arrays of at most 2000 rows
        and kernels that have 30 digits: the claim is then N-exact.
        "sharp": bounds that are proved with all rounding, at noise far below the error of double precision,
        for every kernel of gpbounds but Matérn with other ν than ½, 1½, … 20½, sums and products included
        (`enclosed_evidence` has the proofs).  Entries of K and factors have 30 digits, sums are balls, and the returned
        doubles are the ends.  Members: "exact", log p(y) between the ends of a ball, from a factor of K + σ²I (N-exact;
        without Z; up to N = 2048 the only one of "auto"); "trace" and "determinant" with their lower bounds, in O(NM²)
        (N-nystrom), and "diagonal"; "blocks" and "conditioned".  Jitter "auto" is 0 here; points of Z that others
        determine to 30 digits are left out.  "exact" takes 1, 4 and 16 s at N = 500, 1000 and 2000, and 4N² doubles.
        σ² may be as small as 4N·1e-30 times the variance of f; where it is too small, an error says which would do.

    Returns
    -------
    (Bound, Bound)
        Lower, upper.  ``terms`` holds every member by name, as computed, T/σ², the jitter, and "rounding", the error of
        the best member, which is subtracted from the lower and added to the upper bound; ``claim`` is that of the best
        member.  ``certified`` but for kernels whose roundings are not proved (Matérn of other than half-integer ν,
        kernels of the caller).  The slope of "tangent" is not proved: it is among ``terms`` only.

    Raises
    ------
    ValueError
        for wrong arguments, or a noise variance at which doubles decide nothing and 30 digits are not to be had.
    ImpossibleInterval
        if the two bounds contradict each other, which is an error of the library.
    NotPositiveDefinite
        when Kuu does not factorise.

    >>> from gpbounds.kernels import SquaredExponential
    >>> X, y = [0.0, 1.0, 2.0], [1.0, 0.5, -0.5]
    >>> lower, upper = evidence(SquaredExponential(), X, y, [0.0, 2.0], noise=0.1)
    >>> round(float(lower), 4), round(float(upper), 4)  # log p(y) = -3.2002
    (-3.2002, -3.2002)
    >>> lower, upper = evidence(SquaredExponential(), X, y, [0.0, 2.0], noise=0.1, members="cheap")
    >>> round(float(lower), 4), round(float(upper), 4), round(lower.terms["elbo 1"], 4)
    (-3.5044, -2.6765, -4.5099)
    >>> lower, upper = evidence(SquaredExponential(), X, y, None, noise=1e-20, rigor="sharp")
    >>> round(float(lower), 6), round(float(upper), 6), upper.certified
    (-3.008075, -3.008075, True)
    """
    as_kernel(kernel)
    orders = orders_of(alphas)
    if rigor_of(rigor) == "sharp":
        if orders != (1.0,) or is_elsewhere(X):
            raise ValueError(
                "rigor: expected 'auto' or 'float' for orders below 1, or rows that are read by partitions: "
                f"{rigor!r} bounds log p(y) of arrays at order 1; got alphas {orders}"
            )
        amount = 0.0 if jitter == "auto" else jitter
        return possible(enclosed_evidence(kernel, X, y, Z, noise=noise, jitter=amount, members=members, block=block))
    if Z is None:
        raise ValueError("Z: expected inducing inputs (M, D), got None, which rigor='sharp' accepts")
    budget = scalar(non_negative, "work", work)
    if is_elsewhere(X):
        if isinstance(block, Blocks):
            raise ValueError(
                "block: expected a number for rows that are read by partitions, got Blocks of rows in memory"
            )
        chosen = chosen_by_partitions(members, orders)
    else:
        X, Z = exactly("X", X), exactly("Z", Z)
        N, M = length(X), length(Z)
        chosen = chosen_members(members, orders, N, M, budget, mapped=isinstance(X, np.memmap))
    streams = set(chosen.names) <= {*CHEAP, "diagonal"} and orders == (1.0,) and not (chosen.exact or chosen.points)
    with bar(QUANTITY, len(chosen.names) + chosen.exact + (chosen.points > 0), "member", progress) as done:
        made = bracket(kernel, X, y, Z, noise, orders, jitter, block, streams=streams)
        return decided(best_evidence(made, chosen, auto=members == "auto", rigor=rigor, advance=done.update), noise)


def best_evidence(
    made: Bracket,
    chosen: Chosen,
    *,
    auto: bool,
    rigor: str,
    advance: Callable[[], Any] | None = None,
    model: Callable[[], Exact] | None = None,
) -> Interval:
    """The bounds of `evidence`, `gap`, `log_evidence_bounds` and audits on log p(y), by the members ``chosen``.

    Where ``auto`` and the rounding of doubles spoils them, or K + σ²I does not factorise, members that stream K and 30
    digits (unless ``rigor`` is "float") follow.  ``model`` returns the exact GP of these rows, if the caller needs it.
    """
    notes = chosen.notes
    with np.errstate(**WITHOUT_WARNINGS):
        try:
            pair = assemble(made, chosen.names, advance)
        except NotPositiveDefinite:  # σ² is below the rounding error of a matrix that is σ²I or more
            pair = assemble(made, ("trace",))
        if chosen.exact:
            pair, failed = _with_exact(made, pair, model)
            _tell(advance)
            if auto and failed and made.problem.N <= LARGE:
                pair = _with_streamed(made, pair)
        if chosen.points:
            try:
                pair = sharper(pair, further(made, chosen.points))
            except NotPositiveDefinite as error:
                notes = (*notes, f"The member 'further' is left out: {error}")
            _tell(advance)
    problem = made.problem
    if rigor == "auto" and auto and spoilt(pair) and isinstance(problem, Streamed):
        proved = thirty_digits(problem.white.inducing.kernel, problem.white.X, problem.Y, problem.noise)
        if proved is not None:
            pair = sharper(pair, proved)
    return Interval(*(replace(end, notes=notes) for end in pair))


def _with_exact(made: Bracket, pair: Interval, model: Callable[[], Exact] | None) -> tuple[Interval, bool]:
    """The interval with the member "exact", and whether rounding spoils that member."""
    rows = made.rows
    kernel, X = rows.white.inducing.kernel, rows.white.X
    try:
        exact = computed_evidence(kernel, X, rows.Y, noise=rows.noise, model=None if model is None else model())
    except NotPositiveDefinite:
        return pair, True
    return sharper(pair, exact), spoilt(exact)


def _with_streamed(made: Bracket, pair: Interval) -> Interval:
    """The interval with the members that stream K, where K + σ²I has no factor in doubles."""
    try:
        return sharper(pair, assemble(made, (*CHEAP, *BLOCKS, "blocks")))
    except NotPositiveDefinite:
        return pair


def further(made: Bracket, points: int) -> Interval:
    """The cheap bounds on log p(y), and "blocks", with Z and further rows as inducing points, ``points`` in all."""
    rows = made.rows
    kernel, X, Z = rows.white.inducing.kernel, rows.white.X, rows.white.inducing.Z
    more = namespace(X).asarray(further_rows(kernel, host(X), host(Z), points - len(Z)))
    both = namespace(X).concatenate([Z, more])
    wider = bracket(kernel, X, rows.Y, both, rows.noise, (1.0,), "auto", made.parts, streams=True)
    pair = assemble(wider, (*CHEAP, "blocks"))

    def named(end: Bound) -> Bound:
        return replace(end, terms={"further": float(end), "rounding": end.terms["rounding"]})

    return Interval(named(pair.lower), named(pair.upper))


def bracket(
    kernel: Kernel,
    X: Any,
    y: Any,
    Z: ArrayLike,
    noise: float,
    orders: tuple[float, ...],
    jitter: Jitter,
    block: int | Blocks = BLOCK,
    *,
    streams: bool = False,
) -> Bracket:
    """The checked arguments as a `Bracket`; ``streams`` if no member needs all rows at once."""
    make = problem_of if streams else streamed
    problem: Problem = make(kernel, X, y, Z, noise, jitter, BLOCK if isinstance(block, Blocks) else block)
    records: dict[float, Order] = {}

    def dense(alpha: float) -> Order:
        if alpha not in records:
            first = next(iter(records.values()), None)
            rows = result.rows
            record = nystrom(kernel, host(X), host(Z), rows.white.jitter) if first is None else first.record
            records[alpha] = Order(record, host(rows.Y), rows.noise, alpha)
        return records[alpha]

    result = Bracket(problem, orders, dense, block)
    return result


def assemble(members: Bracket, names: Sequence[str], advance: Callable[[], Any] | None = None) -> Interval:
    """The lower and the upper bound: the best of the named members; ``advance`` is called after each."""
    problem = members.problem
    uppers = members.upper_members(names, advance)  # first: the lower members reuse what this computes of K
    lowers = members.lower_members(names, advance)
    shared = {"T/σ²": problem.ratio, "jitter": problem.sums.jitter}
    return interval(QUANTITY, lowers, uppers, terms=shared, assumptions=(MODEL, *unproved(problem.accuracy)))
