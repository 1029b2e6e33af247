"""Bounds for several draws from eigenvalues in 30 digits: y given, from the prior, or of a norm fixed before."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from gpbounds.arrays import EPS, Float, distinct_rows
from gpbounds.bound import Bound
from gpbounds.errors import NonFinite, NotPositiveDefinite
from gpbounds.kdpp.mean_residual import ExpectedResidual
from gpbounds.kdpp.residual import residual_between
from gpbounds.kdpp.streamed_residual import StreamedResidual
from gpbounds.kernels import Kernel
from gpbounds.kernels.pairs import pair_covariances, pair_error, require_doubles, times_power, unit
from gpbounds.linalg import cholesky
from gpbounds.linalg.pair_cholesky import minus, pair_cholesky, with_diagonal
from gpbounds.linalg.pair_eigen import graded_columns
from gpbounds.linalg.pair_products import UP
from gpbounds.linalg.pair_products import multiply as products
from gpbounds.linalg.pair_solve import U2, remainder, solve
from gpbounds.numerics import gaussian_forms
from gpbounds.numerics.pairs import Pair, add, divide, multiply
from gpbounds.once import cached_property
from gpbounds.rates.draws.errors import EnclosedRows, certified_bounds, certified_share, of_kdpp
from gpbounds.rates.draws.given import BEFORE_DRAWS
from gpbounds.rates.draws.prior import prior_moments
from gpbounds.rates.draws.rows import Rows
from gpbounds.rates.draws.sentences import BEST_OBJECTIVE, DRAWN, FIXED_BEFORE, FROM_PRIOR, TILTED, record
from gpbounds.rates.draws.tilted import tilted_means
from gpbounds.rigor import above, at_bits, exact

PROVED = (
    "Entries and eigenvalues of k(X, X) are enclosed in 30 digits, and all rounding with them, if the platform's sums, "
    "products and matrix products are those of IEEE doubles, in any order."
)
_REFINED = 2
"""Corrections of the solution of K_n v = y."""
RESOLVED = 1e-9
"""Least σ²/λ_max for which K_n v = y is solved in double precision before it is corrected."""
SPREAD = 1e-12
"""t: (1 + t)BBᵀ + (1 + 1/t)EEᵀ is at least (B + E)(B + E)ᵀ."""
FARTHEST = 150
"""Largest exponent of 2 between σ² or y² and the variance of f."""
GRID = 80
"""Values of q that are tried."""


class GradedRows(Rows):
    """N rows with K in double-double numbers, K, σ² and y scaled by an even power of 2, which changes no divergence.

    Attributes
    ----------
    N, largest, outputs, variance : as in `gpbounds.rates.draws.rows.Rows`
    rank : int
        Number of distinct rows.
    up : float
        A factor that is greater than the effect of rounding on sums of positive numbers.
    """

    def __init__(self, kernel: Kernel, X: Float, Y: Float | None) -> None:
        self.kernel, self.X, self.Y = kernel, np.asarray(X, dtype=np.float64), Y
        self.N, self.outputs = len(self.X), 0 if Y is None else Y.shape[1]
        require_doubles(kernel, self.X)
        self.exponent = 2 * (unit(kernel, self.X)[1] // 2)
        if Y is not None and math.frexp(float(np.abs(Y).max()))[1] - self.exponent // 2 > FARTHEST:
            raise ValueError(
                f"y: expected entries below 2**{FARTHEST} standard deviations of f with rigor='sharp', got "
                f"{float(np.abs(Y).max()):.3g}"
            )
        scaled = times_power(kernel, -self.exponent, self.X)

        def block(rows: slice, columns: slice) -> Pair:
            return pair_covariances(scaled, self.X[rows], self.X[columns])

        self.factor = pair_cholesky(block, self.N, "k(X, X)")
        self.columns = graded_columns(self.factor, further=self.N * pair_error(scaled, self.X))
        values = self.columns.values
        self.rank = distinct_rows(self.X)
        self.lower, self.upper = values.lower, np.where(np.arange(self.N) < self.rank, values.upper, 0.0)
        self.largest = min(self.N - 1, self.rank)
        self.variance = kernel.largest_variance(self.X)
        self.up = 1.0 + 40.0 * (self.N + 100) * EPS
        self._solved: dict[float, tuple[Pair, float]] = {}

    @cached_property
    def decomposed(self) -> EnclosedRows:
        """The rows with eigenvectors in double precision, whose bounds are less where M is small."""
        assert self.Y is not None
        return EnclosedRows(times_power(self.kernel, -self.exponent, self.X), self.X, self.scaled_targets)

    @property
    def scaled_targets(self) -> Float:
        """y in the units of the scaled K."""
        assert self.Y is not None
        return np.ldexp(self.Y, -(self.exponent // 2))

    @property
    def numerical_rank(self) -> int:
        """The number of eigenvalues that are proved to differ from 0."""
        return int((self.lower > 0.0).sum())

    def lower_eigenvalues(self) -> Float:
        return np.ldexp(self.lower, self.exponent)

    def scaled_noise(self, noise: float) -> float:
        """σ² in the units of the scaled K."""
        mantissa, exponent = math.frexp(noise)
        if abs(exponent - self.exponent) > FARTHEST:
            raise ValueError(
                f"noise: expected σ² within a factor of 2**{FARTHEST} of the variance {self.variance:.3g}, got "
                f"{noise:.3g}"
            )
        return math.ldexp(mantissa, exponent - self.exponent)

    def residual(self, M: int, noise: float) -> ExpectedResidual:
        """The mean residual of the scaled K with M points, from above up to ``up``."""
        self._checked(M)
        return residual_between(self.lower, self.upper, M, noise=self.scaled_noise(noise))

    def quadratic(self, residual: ExpectedResidual | StreamedResidual) -> float:
        """Upper bound on q̄ = Σ over outputs of yᵀK_n⁻¹E(K − Q)K_n⁻¹y (N-antitone).

        B, T, E, s, h, g are those of `gpbounds.linalg.pair_eigen`, ε ≥ ‖K − LLᵀ‖.  L = (B − E)T⁻¹ and (TᵀT)⁻¹ ⪯ I/g,
        hence for any t > 0

            K ⪯ (1/g)(B − E)(B − E)ᵀ + εI ⪯ K⁺ := bBBᵀ + ηI,   b = (1 + t)/g,   η = ε + (1 + 1/t)‖E‖²/g,

        whose eigenvalues lie between b(1 − h)s² + η and b(1 + h)s² + η, or are η.  Every q > 0 gives a bound by
        N-antitone; the least of a grid is returned.
        """
        assert isinstance(residual, ExpectedResidual)
        assert residual.noise is not None
        graded, M = self.columns, residual.M
        b = (1.0 + SPREAD) / graded.least * UP
        eta = UP * (graded.error + (1.0 + 1.0 / SPREAD) * graded.apart**2 / graded.least)
        if not graded.defect < 1.0:
            return math.inf
        squares = np.sort(graded.scales)[::-1] ** 2
        low, high = np.full(self.N, eta / UP), np.full(self.N, eta)
        low[: squares.size] = b * (1.0 - graded.defect) * squares * (1.0 - 1e-14)
        high[: squares.size] = (b * (1.0 + graded.defect) * squares + eta) * (1.0 + 1e-14)
        mean = residual_between(low, high, M)
        miss, largest = mean.miss * self.up, float(mean.rho.max()) * self.up
        v, apart = self._solution(residual.noise)
        # each column of Bᵀv, and a bound on the norm of its error
        projected = remainder(
            (np.ascontiguousarray(graded.B[0].T), np.ascontiguousarray(graded.B[1].T)),
            v,
            (np.zeros((squares.size, self.outputs)), np.zeros((squares.size, self.outputs))),
        )
        weights = ((projected.value[0] + projected.value[1]) ** 2).sum(axis=1)
        norm2 = float(((v[0] + v[1]) ** 2).sum())
        below = b * (1.0 - graded.defect) * graded.scales**2 * (1.0 - 1e-14)
        best = math.inf
        for q in np.geomspace(max(float(high[-1]), 1e-32), 2.0 * float(high[0]), GRID):
            c = float((miss * (1.0 + high / q)).max()) * self.up
            main = math.sqrt(b * float((weights / (1.0 + below / q)).sum())) + math.sqrt(b) * projected.error
            root = math.sqrt(c) * math.hypot(main * self.up, math.sqrt(eta * norm2) * self.up)
            best = min(best, (root + math.sqrt(largest) * apart) ** 2)
        return best * self.up

    def greatest_weight(self, residual: ExpectedResidual) -> float:
        """Upper bound on max_i ρ_i/(λ_i + σ²)², in the units of y."""
        assert residual.noise is not None
        greatest = float((residual.rho / (residual.lowest + residual.noise) ** 2).max()) * self.up
        return math.ldexp(greatest, -self.exponent)

    def _solution(self, noise: float) -> tuple[Pair, float]:
        """v near K_n⁻¹y as pairs, and a bound on √Σ_p |y_p − K_n v_p|²/σ²; K, σ² and y scaled."""
        if noise not in self._solved:
            zero = np.zeros_like(self.scaled_targets)
            y = self.scaled_targets, zero
            inverse = self._inverse(noise)
            v = inverse(y)
            for _ in range(_REFINED):
                v = add(v, inverse(self._rest(v, y, noise)[0]))
            rest, error = self._rest(v, y, noise)
            norm = UP * float(np.linalg.norm(rest[0] + rest[1])) * UP
            self._solved[noise] = v, UP * (norm + error) / noise
        return self._solved[noise]

    def _inverse(self, noise: float) -> Callable[[Pair], Pair]:
        """(LLᵀ + σ²I)⁻¹R = (R − L(LᵀL + σ²I)⁻¹LᵀR)/σ², in double precision where σ² allows it, else in 30 digits."""
        L, m = self.factor.L, self.factor.L[0].shape[1]
        if noise > RESOLVED * float(self.upper[0]):
            factor = cholesky(L[0].T @ L[0] + noise * np.eye(m), name="LᵀL + σ²I")

            def rough(R: Pair) -> Pair:
                whole = R[0] + R[1]
                return (whole - L[0] @ factor.solve(L[0].T @ whole)) / noise, np.zeros_like(whole)

            return rough
        turned = np.ascontiguousarray(L[0].T), np.ascontiguousarray(L[1].T)
        gram, _ = products(turned, turned)
        inner = pair_cholesky(
            with_diagonal(lambda rows, columns: (gram[0][rows, columns], gram[1][rows, columns]), noise), m, "LᵀL", 0.0
        )

        def fine(R: Pair) -> Pair:
            zero = np.zeros((m, R[0].shape[1]))
            fitted = solve(inner, minus(remainder(turned, R, (zero, zero)).value))
            return divide(remainder(L, fitted, R).value, np.float64(noise))

        return fine

    def _rest(self, v: Pair, Y: Pair, noise: float) -> tuple[Pair, float]:
        """y − K_n v, and a bound on its error in the Frobenius norm."""
        L = self.factor.L
        turned = np.ascontiguousarray(L[0].T), np.ascontiguousarray(L[1].T)
        zero = np.zeros((L[0].shape[1], self.outputs))
        inner = remainder(turned, v, (zero, zero))  # −Lᵀv
        outer = remainder(L, (-inner.value[0], -inner.value[1]), Y)
        shifted = multiply(v, (np.float64(noise), np.float64(0.0)))
        rest = add(outer.value, (-shifted[0], -shifted[1]))
        norm_v = UP * float(np.linalg.norm(v[0])) * (1.0 + 1e-15)
        # 18u² for σ²v, 6u² for the sum
        rounded = 30.0 * U2 * (noise * norm_v + float(np.linalg.norm(outer.value[0])))
        size = UP * float(np.linalg.norm(L[0])) * (1.0 + 1e-15)
        error = outer.error + size * inner.error + self.columns.error * norm_v + rounded
        return rest, UP * error


def graded_bounds(
    rows: GradedRows,
    M: int,
    noise: float,
    *,
    about: str,
    y_norm2: float | None,
    delta: float,
    draws: int,
    alpha: float,
    tv: float,
    law: str | None,
) -> list[Bound]:
    """The bounds of one M, all rounding proved: N-given, N-fixed, N-prior and N-tilt-prior with N-graded eigenvalues.

    The bounds use upper and lower bounds of the eigenvalues, in sums of positive numbers that ``rows.up`` raises, and
    for y given q̄ (`GradedRows.quadratic`).  For y from the prior the R-th moment of a Gaussian form, a polynomial with
    positive coefficients, is evaluated in balls.  For y given the list has `certified_bounds` too, from eigenvectors in
    double precision: the tilted law has no others.
    """
    residual = rows.residual(M, noise)
    options: dict[str, Any] = {"delta": delta, "draws": draws, "alpha": alpha, "tv": tv}
    bounds = []
    if about == "prior":
        if law != "tilted":
            bounds.append(_prior(rows, residual, **options))
        if law != "kdpp":
            bounds.append(_tilted_prior(rows, residual, **options))
        return bounds
    p = certified_share(delta, draws, tv)
    if law != "tilted":
        assumptions: tuple[str, ...] = (DRAWN, BEST_OBJECTIVE, FIXED_BEFORE, PROVED)
        if about == "given":
            form, outputs = rows.quadratic(residual), rows.outputs
            names = "N-given, N-res, N-gaplin, N-graded, N-antitone"
        else:
            form, outputs = float(y_norm2 or 0.0) * rows.greatest_weight(residual) * rows.up, 1
            names, assumptions = "N-fixed, N-given, N-res, N-gaplin, N-graded", (BEFORE_DRAWS, *assumptions)
        bounds.append(of_kdpp(residual, form, p, alpha, delta, rows.up, outputs, names, assumptions))
    if about == "given":
        bounds += _from_eigenvectors(rows, M, noise, law, bool(bounds), options)
    return bounds


def _from_eigenvectors(
    rows: GradedRows, M: int, noise: float, law: str | None, others: bool, options: dict[str, Any]
) -> list[Bound]:
    """`certified_bounds`; where double precision overflows, none if there are ``others``."""
    bounds: list[Bound] = []
    try:
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            if math.isfinite(rows.decomposed.error):
                bounds = certified_bounds(rows.decomposed, M, rows.scaled_noise(noise), law=law, **options)
    except (NonFinite, NotPositiveDefinite):
        if not others:
            raise
    usable = [bound for bound in bounds if not math.isnan(float(bound))]
    if not usable and not others:
        raise NonFinite("kernel: expected covariances whose rounding errors are finite in double precision, got NaN")
    return usable


def _moment_norm(theta: Float, constant: float, R: int) -> Any:
    """A ball that contains (E(c + Σ θ_i z_i²)^R)^(1/R), for θ and c that are exact; R ≤ 64.

    The powers are summed in double precision: sums of positive numbers, raised by (N + 2k)·2⁻⁵¹ at the k-th power.
    """
    from flint import arb

    top = float(theta.max(initial=0.0))
    if top == 0.0:
        return exact(constant)
    ratio, power = theta / top, np.ones_like(theta)
    cumulants = [exact(0.0)]
    for k in range(1, R + 1):
        power = power * ratio
        total, share = exact(float(power.sum())), (theta.size + 2.0 * k) * 2.0**-51
        spread = total * (1 + arb(0.0, share)) + arb(0.0, theta.size * 1e-300)
        cumulants.append(exact(2.0) ** (k - 1) * math.factorial(k - 1) * exact(top) ** k * spread)
    cumulants[1] += exact(constant)
    moments = [exact(1.0)]
    for n in range(1, R + 1):
        moments.append(
            sum((math.comb(n - 1, k - 1) * cumulants[k] * moments[n - k] for k in range(1, n + 1)), exact(0.0))
        )
    return moments[R].root(R)


def _prior(rows: GradedRows, residual: ExpectedResidual, *, delta: float, draws: int, alpha: float, tv: float) -> Bound:
    """N-prior: B with ‖(α/2B)(Q_y + b̄) + αΩ_a‖_R ≤ p(1 − αa), the value in doubles raised until balls confirm it."""
    R = min(draws, gaussian_forms.MOST)
    usual = prior_moments(residual, delta=delta, draws=draws, alpha=alpha, tv=tv)
    claim, assumptions = "N-prior, N-res, N-graded", (DRAWN, BEST_OBJECTIVE, FROM_PRIOR, PROVED)
    value, a = float(usual), float(usual.terms.get("a", 0.0))
    why = "the moments of the bound in double precision are not finite, or balls do not confirm it"
    theta = residual.miss * residual.shares * rows.up
    excess = residual.excess * rows.up
    shares = residual.shares * (1.0 + 4.0 * EPS)
    omega = float((residual.miss * np.maximum(shares - a, 0.0)).sum()) * rows.up
    if not 0.0 < value < math.inf:
        value = math.inf if value else 0.0
        return record(value, delta, claim, dict(usual.terms), assumptions, alpha=alpha, why=usual.assumptions[-1])
    for raised in (1e-11, 1e-9, 1e-6, 1e-3):
        level = value * (1.0 + raised)
        with at_bits(192):
            c = exact(alpha) / (2 * exact(level))
            largest, constant = above(c), above(c * exact(excess) + exact(alpha) * exact(omega))
            p = exact(delta).root(R) - exact(tv)
            if _moment_norm(theta * largest * (1.0 + 2.0 * EPS), constant, R) <= p * (1 - exact(alpha) * exact(a)):
                return record(level, delta, claim, dict(usual.terms), assumptions, alpha=alpha)
    return record(math.inf, delta, claim, dict(usual.terms), assumptions, alpha=alpha, why=why)


def _tilted_prior(
    rows: GradedRows, residual: ExpectedResidual, *, delta: float, draws: int, alpha: float, tv: float
) -> Bound:
    """N-tilt-prior: (α/(2p)) ‖Σ θ_i z_i² + Σ miss_i d_i²‖_R."""
    R = min(draws, gaussian_forms.MOST)
    means = tilted_means(residual)
    theta, constant = means.theta * rows.up, means.determinant * rows.up
    with at_bits(192):
        p = exact(delta).root(R) - exact(tv)
        value = above(exact(alpha) / (2 * p) * _moment_norm(theta, constant, R)) if p > 0 else math.inf
    terms = {"mean": 0.5 * alpha * (float(theta.sum()) + constant), "p": above(p)}
    return record(
        value,
        delta,
        "N-tilt-prior, N-tilt, N-graded",
        terms,
        (TILTED, BEST_OBJECTIVE, FROM_PRIOR, PROVED),
        alpha=alpha,
        why="p = δ^(1/R) − tv is not positive",
    )
