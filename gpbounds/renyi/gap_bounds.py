"""The Rényi gap of one data set, exactly and between bounds by the spectrum or the trace of K − Q."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from gpbounds.arrays import EPS, Float, exactly, is_cupy, length
from gpbounds.bound import Bound
from gpbounds.errors import NotPositiveDefinite, shown
from gpbounds.interval import Interval, Member, interval, possible
from gpbounds.kernels import Kernel
from gpbounds.kernels.base import as_kernel
from gpbounds.linalg import Cholesky, Jitter, cholesky
from gpbounds.numerics.scalars import F, F_hat, G, log1p_residual, psi, trace_term
from gpbounds.numerics.search import halved
from gpbounds.once import cached_property
from gpbounds.overflow import within_doubles
from gpbounds.progress import bar
from gpbounds.renyi.accuracy import WITHOUT_WARNINGS, Accuracy, U, gamma, unproved
from gpbounds.renyi.blocks import DENSE
from gpbounds.renyi.brackets import Bracket, Order, best_evidence, bracket
from gpbounds.renyi.escalation import sharper, spoilt, thirty_digits
from gpbounds.renyi.members import (
    BLOCKS,
    CHEAP,
    LARGE,
    WORK,
    chosen_by_partitions,
    chosen_members,
    exact_work,
)
from gpbounds.renyi.pairs import enclosed_gap
from gpbounds.renyi.residual import Nystrom, host_targets, nystrom, with_jitter_named
from gpbounds.renyi.sentences import ANY_Y, BEST, GAP
from gpbounds.renyi.streamed import Streamed, problem_of
from gpbounds.row_noise import UnitNoise, noise_per_row, unchanged
from gpbounds.rows import is_elsewhere
from gpbounds.validation import (
    choice,
    flag,
    jitter_or_auto,
    noise_variance,
    non_negative,
    open_unit,
    order,
    rigor_of,
    scalar,
)
from gpbounds.whitening import as_targets

# The Rényi gap of one data set: D_α(y) = log p(y) − L_α = D_α[q*‖p(f, U | y)], exactly and without cancellation.
#
# The approximation q* always comes first; the papers' D_α[p‖q*] differs by a factor (R-dir, `direction_factor`).


@dataclass(frozen=True)
class _Gap:
    """D_α as a function of y, for one Nyström record, noise and order.

    With H = Ξ^(−½)W√δ, Δ = W diag(δ)Wᵀ, the eigenvalues of αΞ⁻¹Δ are w = α·(singular values of H)².
    """

    record: Nystrom
    noise: float
    alpha: float

    @cached_property
    def xi(self) -> Cholesky:
        """Cholesky factor of Ξ."""
        return self.record.xi(self.alpha, noise=self.noise)

    @cached_property
    def H(self) -> Float:
        """Ξ^(−½)W√δ, shape (N, N − known)."""
        unknown = self.record.basis.shape[0]
        root = np.zeros((self.record.N, unknown))
        root[~self.record.known] = self.record.basis * np.sqrt(self.record.eigenvalues[:unknown])
        return self.xi.solve_lower(root)

    @cached_property
    def w(self) -> Float:
        """Eigenvalues of αΞ⁻¹Δ that may differ from 0."""
        return self.alpha * np.asarray(np.linalg.svd(self.H, compute_uv=False), dtype=np.float64) ** 2

    @property
    def total(self) -> float:
        """αTr(Ξ⁻¹Δ) = Σ w."""
        return self.alpha * float((self.H * self.H).sum())

    def at_zero(self) -> float:
        """D_α(0) = Σ G(d_i) + ½ log|I + (I + S₁)⁻¹(S − S₁)|, S = V(σ²I + βΔ)⁻¹Vᵀ, S₁ the same at β = 1.

        Both summands have the sign of α, so nothing cancels; the second is 0 when QΔ = 0.
        """
        record, noise, alpha = self.record, self.noise, self.alpha
        d = record.eigenvalues / noise
        beta = 1.0 - alpha
        rows = record.rotated(record.V)
        S1 = (rows / (noise * (1.0 + d))) @ rows.T
        change = np.sqrt(np.abs(alpha) * d / ((1.0 + beta * d) * (1.0 + d)) / noise)
        factor = cholesky(np.eye(record.M) + S1, name="I + S₁").solve_lower(rows * change)
        squares = np.linalg.svd(factor, compute_uv=False) ** 2
        return float(G(d, alpha).sum() + 0.5 * np.log1p(np.sign(alpha) * squares).sum())

    def from_targets(self, y: Float) -> float:
        """½ yᵀ(Ξ⁻¹ − K_n⁻¹)y = ½ α uᵀ(I + αHᵀH)⁻¹u, u = HᵀΞ^(−½)y."""
        if self.H.size == 0:  # every row of X is a row of Z
            return 0.0
        u = self.H.T @ self.xi.solve_lower(y)
        inner = cholesky(np.eye(u.size) + self.alpha * self.H.T @ self.H, name="I + αΞ⁻¹Δ")
        return float(0.5 * self.alpha * (inner.solve_lower(u) ** 2).sum())


def gap_record(kernel: Kernel, X: ArrayLike, Z: ArrayLike, noise: float, alpha: float, jitter: Jitter) -> _Gap:
    """The checked arguments as a `_Gap`."""
    noise = noise_variance(noise)
    record = nystrom(kernel, X, Z, jitter)
    return _Gap(record, noise, record.order(alpha, noise=noise))


@noise_per_row(unchanged)
@within_doubles
def exact_gap(
    kernel: Kernel, X: ArrayLike, y: ArrayLike, Z: ArrayLike, alpha: float, *, noise: Any, jitter: Jitter = "auto"
) -> float:
    """The Rényi divergence D_α(y) between the best approximation q* of order α and the exact posterior.

    D_α(y) = L_det − ½ log|I + αΞ⁻¹Δ| + ½ yᵀ(Ξ⁻¹ − K_n⁻¹)y = log p(y) − L_α, L_det = (α/(2β)) log|I + (β/σ²)Δ|.

    Claim R-gap, for α < 1 + σ²/λ_max(Δ).  D_α ≥ 0 for α ≥ 0, ≤ 0 for α < 0, and 0 when K = Q.  It is computed as a sum
    of terms of one sign, so that small gaps keep their relative accuracy.

    Parameters
    ----------
    kernel : Kernel
    X : array (N, D)
    y : array (N,)
    Z : array (M, D)
    noise : float or array (N,)
        σ², in squared units of y; an array: s_i², one noise variance for each row (N-rows-noise).
    alpha : float
        Order; 1 is the Kullback-Leibler divergence.
    jitter : float or "auto"
        Added to the diagonal of Kuu; "auto" as in `nystrom`.

    Raises
    ------
    ValueError
        for α outside the range.
    NotPositiveDefinite
        when Kuu or Ξ does not factorise.

    >>> from gpbounds.kernels import SquaredExponential
    >>> round(exact_gap(SquaredExponential(), [0.0, 1.0, 2.0], [1.0, 0.5, -0.5], [0.0, 2.0], 0.5, noise=0.1), 4)
    0.3274
    """
    gap = gap_record(kernel, X, Z, noise, alpha, jitter)
    return gap.at_zero() + gap.from_targets(host_targets(y, gap.record.N))


@noise_per_row(unchanged)
@within_doubles
def expected_gap(
    kernel: Kernel, X: ArrayLike, Z: ArrayLike, alpha: float, *, noise: Any, jitter: Jitter = "auto"
) -> float:
    """The mean of D_α(y) over y drawn from the prior, y ~ N(0, K + σ²I).

    E_y D_α = L_det + ½ Σ [w_i − log(1 + w_i)], w = eigenvalues of αΞ⁻¹Δ.  Claim R-lem2 (exact form).
    Parameters and errors as in `exact_gap`.

    >>> from gpbounds.kernels import SquaredExponential
    >>> round(expected_gap(SquaredExponential(), [0.0, 1.0, 2.0], [0.0, 2.0], 0.5, noise=0.1), 4)
    0.5609
    """
    gap = gap_record(kernel, X, Z, noise, alpha, jitter)
    return gap.record.log_det_term(gap.alpha, noise=gap.noise) + float(0.5 * log1p_residual(gap.w).sum())


@noise_per_row(unchanged)
@within_doubles
def gap_variance(
    kernel: Kernel, X: ArrayLike, Z: ArrayLike, alpha: float, *, noise: Any, jitter: Jitter = "auto"
) -> float:
    """The variance of D_α(y) over y drawn from the prior: ½ Tr[(Ξ⁻¹K_n − I)²] = ½ Σ w_i².

    Claim R-lem2.  Parameters and errors as in `exact_gap`.

    >>> from gpbounds.kernels import SquaredExponential
    >>> round(gap_variance(SquaredExponential(), [0.0, 1.0, 2.0], [0.0, 2.0], 0.5, noise=0.1), 4)
    0.1435
    """
    return float(0.5 * (gap_record(kernel, X, Z, noise, alpha, jitter).w ** 2).sum())


def direction_factor(alpha: float) -> float:
    """max{α/(1−α), (1−α)/α}: a bound on the ratio of the two directions of the divergence.

    D_α[p‖q] = (α/(1−α)) D_(1−α)[q‖p], so D_α[q‖p]/factor ≤ D_α[p‖q] ≤ factor · D_α[q‖p], for 0 < α < 1.

    Claim R-dir (N-dir): the papers print [p‖q] where their proofs bound [q*‖p]; multiply such a bound by this factor.
    Equality at α = ½, where it is 1.

    Raises
    ------
    ValueError
        for α outside (0, 1); at α = 1 no factor exists.

    >>> round(direction_factor(0.9), 12)
    9.0
    """
    order = scalar(open_unit, "alpha", alpha)
    return max(order / (1.0 - order), (1.0 - order) / order)


# Bounds on the Rényi gap of one data set, by the spectrum or the trace of K − Q.

Form = Literal["sharpest", "printed"]
Method = Literal["auto", "dense", "blocks", "streamed"]
_PRIOR_Y = "y is drawn from the prior, y ~ N(0, K + σ²I), with the kernel and the noise that are used."


def _interval(
    quantity: str,
    lowers: dict[str, Member],
    uppers: dict[str, Member],
    y: str,
    known: Accuracy,
    jitter: float,
    shared: dict[str, float] | None = None,
) -> Interval:
    assumptions = (*with_jitter_named(jitter, (BEST, y)), *unproved(known))
    return interval(quantity, lowers, uppers, terms=shared, assumptions=assumptions, least=0.0)


@noise_per_row(UnitNoise.of_gap)
@within_doubles
def gap(
    kernel: Kernel,
    X: Any,
    y: Any,
    Z: ArrayLike,
    alpha: float,
    *,
    noise: Any,
    jitter: Jitter = "auto",
    form: Form = "sharpest",
    method: Method = "auto",
    work: float = WORK,
    progress: bool = False,
    rigor: str = "auto",
) -> Interval:
    """Lower and upper bound on the gap D_α(y) = D_α[q*‖p(f, U | y)] that hold for every y.

    dense     Σ G(d_i) ≤ D_α(y) ≤ L_det − ½ log(1 + αTr(Ξ⁻¹Δ)) + ½ yᵀB⁻¹y · ψ(λ/σ²)                             O(N³)
    streamed  nǦ(T/(nσ²)) ≤ D_α(y) ≤ min{g_n(T) + ½ yᵀB⁻¹y · ψ(T/σ²), α(U − L_VI)}                          O(NM²)
    blocks    the same with ψ(λ/σ²); K is streamed once, and again for each step of a solve                   O(N²M)

    d = eigenvalues of Δ/σ², Δ = K − Q, T = Tr Δ, λ ≥ λ_max(Δ), B = Q + σ²I, L_det = (α/(2β)) Σ log(1 + βd_i); Ǧ is
    convex and below G on [0, T/σ²]; U is the upper bound of `evidence`, used with D_α ≤ α·KL (N-conc).  At α = 1 its
    lower bound minus L_VI is another lower bound.  Every member carries a proved bound on its rounding, of Q as well
    (N-Q, N-member-rounding).

    Claims R-gap (N-G) and R-lem4 (N-psi; Yue & Kontar, Rényi divergence objective, Lemma 4), 0 < α ≤ 1.  Dense: the
    lower bound is attained at y = 0 when QΔ = 0; the upper bound is attained when Δ and Q are disjoint, Δ has rank
    one, y is an eigenvector of Δ and d ≤ 1/√β.  ψ ≤ (1−√β)/(1+√β), so the term in y stays bounded as Δ grows.
    ``form="printed"`` gives L_det + ‖y‖²αT/(σ⁴ + ασ²T).  With P outputs the bounds hold for the sum of their gaps.

    Parameters
    ----------
    kernel : Kernel
    X : array (N, D), or rows that are read by partitions, as in `evidence`; "streamed" needs two passes over them
    y : array (N,) or (N, P), or as in `evidence`
    Z : array (M, D)
    noise : float or array (N,)
        σ², in squared units of y; an array: s_i², one noise variance for each row (N-rows-noise).
    alpha : float
        Order in (0, 1].
    jitter : float or "auto"
        Added to the diagonal of Kuu; the bounds hold for the gap of that approximation.  Where it is not 0, an
        assumption of each bound names the amount.
    form : "sharpest" or "printed"
        "printed" needs the dense method.
    method : "auto", "dense", "blocks" or "streamed"
        "auto": dense up to N = 2000 on the host, streamed above (blocks up to 10 000 where α < 1), and then the bounds
        of `evidence` on log p(y), less L_α: where ``work`` affords a factor of K + σ²I, up to N = 10 000, the gap is
        between two ends that differ by rounding only, for α = 1 and, up to 2000 rows, for every α.
    work : float
        Flops that "auto" may spend on log p(y), as in `evidence`; ``notes`` of the bounds say what is left out.
    progress : bool
        Show a bar that counts the members of `evidence`, for "blocks" and "streamed".
    rigor : "auto", "float" or "sharp"
        "auto", "float": doubles with proved errors; "auto" takes log p(y) to 30 digits where those spoil the interval,
        up to 2000 rows, as `evidence` does.
        "sharp": the gap itself between two ends that differ by rounding only, up to N = 2048 (N-exact-gap):
        entries, Q of clustered inducing points and factors in 30 digits, for the kernels that `evidence` lists; α = 1
        takes 2, 5 and 15 s at N = 500, 1000 and 2000, M = 200.  Above 2048 rows α times the difference of the bounds on
        log p(y) and of L_VI (N-conc).  Jitter "auto" is 0 here; points of Z that others determine to 30 digits are then
        left out and named, and the lower bound is 0.

    Returns
    -------
    (Bound, Bound)
        Lower, upper.

    Raises
    ------
    ValueError
        for wrong arguments.
    NotPositiveDefinite
        when Kuu or Ξ does not factorise.

    >>> from gpbounds.kernels import SquaredExponential
    >>> X, y = [0.0, 1.0, 2.0], [1.0, 0.5, -0.5]
    >>> for method in ("dense", "blocks", "streamed"):
    ...     lower, upper = gap(SquaredExponential(), X, y, [0.0, 2.0], 0.5, noise=0.1, method=method)
    ...     round(float(lower), 4), round(float(upper), 4)
    (0.2609, 0.4382)
    (0.2609, 0.6527)
    (0.2609, 0.6527)
    """
    as_kernel(kernel)
    choice("form", form, ("sharpest", "printed"))
    choice("method", method, ("auto", "dense", "blocks", "streamed"))
    flag("progress", progress)
    jitter = jitter_or_auto(jitter)
    a = scalar(order, "alpha", alpha)
    if rigor_of(rigor) == "sharp":
        if form == "printed" or method != "auto" or is_elsewhere(X):
            raise ValueError(
                "rigor: expected 'auto' or 'float' for the printed form, a method, or rows that are read by "
                f"partitions, got {shown(rigor)} with form={form!r} and method={method!r}"
            )
        return possible(enclosed_gap(kernel, X, y, Z, a, noise=noise, jitter=0.0 if jitter == "auto" else jitter))
    asked = method
    if is_elsewhere(X):
        if method not in ("auto", "streamed") or form == "printed":
            raise ValueError(
                "method, form: expected 'streamed' and 'sharpest' for rows that are read by partitions, got "
                f"{method!r} and {form!r}: the others need all rows in memory"
            )
        method = "streamed"
    else:
        X = exactly("X", X)
    budget = scalar(non_negative, "work", work)
    whole, N = asked == "auto" and form == "sharpest", length(X)
    if method == "auto":
        small = N <= DENSE and not is_cupy(X)
        blocks = N <= LARGE and (a < 1.0 or exact_work(N) > budget)
        method = "dense" if small or form == "printed" else "blocks" if blocks else "streamed"
    if method == "dense":
        with np.errstate(**WITHOUT_WARNINGS):
            of_y = gap_record(kernel, X, Z, noise, a, jitter)
            pair = _dense(of_y, y, form)
        if form == "printed" or of_y.record.rank == 0 or not (whole or (rigor == "auto" and spoilt(pair))):
            return pair
        members = bracket(kernel, X, y, Z, noise, (1.0,), of_y.record.jitter, streams=True)
        return _by_evidence(pair, members, of_y, whole, budget, rigor)
    if form == "printed":
        raise ValueError(f"method: expected 'dense' for form='printed', got {shown(method)}")
    total = len(CHEAP + BLOCKS if method == "blocks" else CHEAP)
    with bar(GAP, total, "member", progress) as done:
        by_parts = method == "streamed" and (not whole or isinstance(X, np.memmap) or is_elsewhere(X))
        members = bracket(kernel, X, y, Z, noise, (1.0,), jitter, streams=by_parts)
        with np.errstate(**WITHOUT_WARNINGS):
            pair = streamed_gap(members, a, method, done.update)
    if members.problem.sums.rank == 0 or not (whole or (rigor == "auto" and spoilt(pair))):
        return pair
    return _by_evidence(pair, members, a, whole, budget, rigor)


def _by_evidence(
    pair: Interval, members: Bracket, of_y: _Gap | float, whole: bool, work: float, rigor: str
) -> Interval:
    """The interval with log p(y) − L_α from the bounds of `evidence` within ``work``, or to 30 digits if not ``whole``.

    Of order α < 1 that needs L_α, which a dense `_Gap` has; without one, α(log p(y) − L_VI) is an upper bound (N-conc).
    """
    problem = members.problem
    if not isinstance(problem, Streamed):
        return _noted(pair, chosen_by_partitions("auto", (1.0,)).notes)
    kernel, X = problem.white.inducing.kernel, problem.white.X
    if whole:
        chosen = chosen_members("auto", (1.0,), problem.N, problem.white.M, work, mapped=False)
        best: Interval | None = best_evidence(members, chosen, auto=True, rigor=rigor)
    else:
        best = thirty_digits(kernel, X, problem.Y, problem.noise)
    if best is None:
        return pair
    alpha = of_y.alpha if isinstance(of_y, _Gap) else of_y
    pair = sharper(pair, _beyond_elbo(best, members, alpha))
    if isinstance(of_y, _Gap) and alpha < 1.0:
        with np.errstate(**WITHOUT_WARNINGS):
            own = Order(of_y.record, problem.Y, of_y.noise, alpha)
            pair = sharper(pair, _beyond_order(best, own))
    return _noted(pair, best.lower.notes)


def _noted(pair: Interval, notes: tuple[str, ...]) -> Interval:
    return Interval(*(replace(end, notes=notes) for end in pair))


def _beyond_order(best: tuple[Bound, Bound], own: Order) -> Interval:
    """D_α = log p(y) − L_α (R-gap), with L_α from a factor of Ξ and its error (N-dense)."""
    try:
        value, error = own.elbo_and_error
    except NotPositiveDefinite:
        value, error = 0.0, np.inf
    known = own.record.accuracy
    low, high = float(best[0]) - value, float(best[1]) - value
    off = error + 8.0 * U * (abs(value) + abs(float(best[1])) + abs(float(best[0])))
    sure = off if np.isfinite(known.above) and np.isfinite(low) else np.inf  # L_α of Q itself, not of Q₋
    below = Member(low if np.isfinite(low) else 0.0, sure, f"{best[0].claim}, R-gap", known.proved)
    above = Member(high, off, f"{best[1].claim}, R-gap", known.proved)
    return _interval(GAP, {"order": below}, {"order": above}, ANY_Y, known, own.record.jitter)


def _beyond_elbo(best: tuple[Bound, Bound], members: Bracket, alpha: float) -> Interval:
    """Bounds on D_α from bounds on log p(y) by other means: α(log p(y) − L_VI) from above, and at α = 1 from below."""
    problem, (least, most) = members.problem, members.variational_ends
    jitter, known = problem.sums.jitter, problem.accuracy
    low, high = float(best[0]) - most, float(best[1]) - least
    lower = Member(
        low if alpha == 1.0 else 0.0,
        4.0 * U * abs(low) if np.isfinite(low) else np.inf,
        f"{best[0].claim}, R-gap",
        known.proved,
    )
    upper = Member(alpha * high, 8.0 * U * abs(high), f"{best[1].claim}, N-conc", known.proved)
    return _interval(GAP, {"evidence": lower}, {"evidence": upper}, ANY_Y, known, jitter)


def _none(known: Accuracy, terms: dict[str, float]) -> Interval:
    """The gap where every row of X is a row of Z, without jitter: K = Q."""
    member = Member(0.0, 0.0, "R-gap", known.proved)
    members = dict.fromkeys(("trace", "evidence"), member)
    pair = _interval(GAP, members, members, ANY_Y, known, 0.0, terms)
    return possible((pair.lower, replace(pair.upper, value=0.0)), 0.0)


@dataclass(frozen=True)
class _Dense:
    """Members of the dense bounds with their errors (N-dense)."""

    of_y: _Gap

    @property
    def record(self) -> Nystrom:
        """K, Q and the eigenvalues of K − Q."""
        return self.of_y.record

    @cached_property
    def apart(self) -> float:
        """At least Σ|d_i − d̂_i|, by Lidskii's inequality and the errors of the eigenvalues themselves."""
        record = self.record
        return 1.01 * (record.eigenvalue_errors[1] + record.moved[1]) / self.of_y.noise

    @cached_property
    def largest(self) -> float:
        """At least λ_max(Δ)/σ²."""
        record = self.record
        moved = record.eigenvalue_errors[0] + record.moved[0]
        return (record.largest + moved) / self.of_y.noise * (1.0 + 4.0 * EPS)

    def of_sum(self, value: float, slope: float, claim: str, times: int = 1) -> Member:
        """``times`` Σ g(d_i), where |g'| ≤ ``slope``; a few ulp of each term are charged."""
        error = times * (slope * self.apart + gamma(64) * abs(value))
        return Member(times * value, error, claim, self.record.accuracy.proved)

    @cached_property
    def determinant(self) -> tuple[float, float]:
        """½log(1 + αTr(Ξ⁻¹Δ)), and at least its error; Tr(Ξ⁻¹Δ) = ‖Ξ^(−½)W√δ‖_F²."""
        of_y, record = self.of_y, self.record
        off, noise = record.xi_error(of_y.alpha, noise=of_y.noise), of_y.noise
        value = 0.5 * float(np.log1p(of_y.total))
        if not off < 0.5 * noise:
            return value, np.inf
        trace = record.N * noise + float(record.K.diagonal().sum())
        solves = 2.2 * gamma(record.N + 8) * float(np.sqrt(1.1 * trace / (noise - off)))
        share = off / (noise - off) + solves
        return value, 0.51 * (share * of_y.total + of_y.alpha * 1.01 * self.apart)

    def fit(self, y: Float) -> tuple[float, float]:
        """½yᵀB⁻¹y, and an upper bound on it for B = Q₋ + σ²I: min_a |y − Vᵀa|²/σ² + |a|² (N-forms)."""
        record, noise = self.record, self.of_y.noise
        columns = y[:, None] if y.ndim == 1 else y
        known, V = record.accuracy, record.V
        b = record.inducing.lift(cholesky(noise * np.eye(record.M) + record.gram, name="σ²I + VVᵀ").solve(V @ columns))
        cross = record.inducing.kernel(record.X, record.Z)
        r, M, N = columns - cross @ b, record.M, record.N
        size = np.abs(columns) + np.abs(cross) @ np.abs(b)
        eta = 1.01 * (gamma(M + 6) * np.linalg.norm(size) + known.entry * np.sqrt(N) * np.abs(b).sum())
        half = float(np.linalg.norm(record.chol.L.T @ b)) + gamma(M + 6) * known.size * float(np.linalg.norm(b))
        above = ((float(np.linalg.norm(r)) * (1.0 + gamma(N)) + eta) ** 2 / noise + half**2) * (1.0 + gamma(N + 8))
        above += 1.01 * known.factor * float((b * b).sum())
        return 0.5 * float(np.sum(record.quadratic(y, noise=noise))), 0.5 * above


def _dense(of_y: _Gap, y: ArrayLike, form: str) -> Interval:
    record, noise, alpha, dense = of_y.record, of_y.noise, of_y.alpha, _Dense(of_y)
    if record.rank == 0:
        names = ("log-determinant", "determinant of I + αΞ⁻¹Δ", "targets")
        return _none(record.accuracy, dict.fromkeys(names, 0.0))
    targets = as_targets(y, record.X)
    P = 1 if targets.ndim == 1 else targets.shape[1]
    log_det = dense.of_sum(record.log_det_term(alpha, noise=noise), 0.5 * alpha, "R-lem4", P)
    lower = dense.of_sum(float(G(record.eigenvalues / noise, alpha).sum()), 0.5 * alpha, "R-gap", P)
    if not np.isfinite(record.accuracy.above):  # Δ of Q itself may be smaller than that of Q₋
        lower = replace(lower, error=np.inf)
    if form == "printed":
        squares = float((targets**2).sum())
        ratio = (record.trace + noise * dense.apart) / noise
        fit = squares * alpha * record.trace / (noise * (noise + alpha * record.trace))
        end = squares / noise * alpha * ratio / (1.0 + alpha * ratio) * (1.0 + gamma(record.N + 64))
        terms = {"log-determinant": log_det.value, "targets": fit}
    else:
        value, off = dense.determinant
        price = float(psi(record.largest / noise, alpha)), float(psi(dense.largest, alpha)) * (1.0 + gamma(64))
        half, above = dense.fit(targets)
        fit, end = half * price[0] - P * value, above * price[1] - P * (value - off)
        terms = {
            "log-determinant": log_det.value,
            "determinant of I + αΞ⁻¹Δ": -P * value,
            "targets": half * price[0],
        }
    sizes = abs(log_det.value) + abs(fit) + abs(end)
    upper = Member(log_det.value + fit, log_det.error + abs(end - fit) + 16.0 * U * sizes, "R-lem4", lower.proved)
    return _interval(GAP, {"": lower}, {"": upper}, ANY_Y, record.accuracy, record.jitter, terms)


def streamed_gap(members: Bracket, alpha: float, method: Method, advance: Callable[[], Any] | None = None) -> Interval:
    """The bounds of `gap` from the ``members`` of the bracket of log p(y), by "streamed" or "blocks".

    The normaliser −½log|2πB| of the members and of L_VI is the same number, and does not enter: they are subtracted
    without it, so that its rounding is not charged.
    """
    problem, known = members.problem, members.problem.accuracy
    if problem.sums.rank == 0:
        return _none(known, {"T/σ²": 0.0, "n": 0, "jitter": 0.0})
    names = CHEAP + BLOCKS if method == "blocks" else CHEAP
    uppers, lowers = members.upper_parts(names, advance), members.lower_parts(names)
    elbo, P, noise = members.elbo(), problem.P, problem.noise
    below = {"trace": _floor(members, alpha)}
    if alpha == 1.0:
        best = max(lowers.values(), key=lambda part: part.value - part.error)
        value = best.value - elbo.value
        error = abs(value - (best.value - best.error - members.own_excess))
        below["evidence"] = Member(value, error + 16.0 * U * (abs(best.value) + abs(elbo.value)), "R-gap", known.proved)
    n, T = max(problem.sums.rank, 1), problem.sums.trace
    largest = members.moments.largest if method == "blocks" else problem.trace_above / noise
    price = float(psi(largest, alpha)) * (1.0 + gamma(64))
    fits = members.grid_fits
    log_dets = [P * float(trace_term(t, n, alpha, noise=noise)) for t in (T, T + problem.trace_error[0])]
    value = log_dets[0] + 0.5 * float(fits.quadratic[-1].sum()) * price
    end = (log_dets[1] + 0.5 * float(fits.above[-1].sum()) * price) * (1.0 + gamma(64))
    above = {"trace": Member(value, abs(end - value), "R-lem4", known.proved)}
    best = min(uppers.values(), key=lambda part: part.value + part.error)
    excess = best.value - elbo.value
    error = best.error + elbo.error + 16.0 * U * (abs(best.value) + abs(elbo.value))
    above["evidence"] = Member(alpha * excess, alpha * error, "N-conc", known.proved)
    shared = {"T/σ²": problem.ratio, "n": problem.sums.rank, "jitter": problem.sums.jitter}
    return _interval(GAP, below, above, ANY_Y, known, problem.sums.jitter, shared)


def _floor(members: Bracket, alpha: float) -> Member:
    """`trace_floor` at the least T that is possible for Q itself."""
    problem = members.problem
    n, P = problem.sums.rank, problem.P
    value = P * trace_floor(problem.ratio, n, alpha)
    least = max(problem.sums.trace - problem.trace_error[1], 0.0) / problem.noise
    end = P * trace_floor(least, n, alpha) * (1.0 - gamma(256)) - P * gamma(8) * least * least / max(n, 1)
    return Member(value, value - max(end, 0.0), "R-gap", problem.accuracy.proved)


def trace_floor(ratio: float, n: int, alpha: float) -> float:
    """nǦ(t/n) ≤ Σ G(d_i) for all d_i ≥ 0 with sum t = ``ratio``, at most n of them not 0; 0 < α ≤ 1.

    Ǧ is a tangent line of G at some u ≤ t/n, u ≤ 1/√β, where G is convex, such that Ǧ(t) ≤ G(t).  G is concave beyond
    1/√β, so Ǧ ≤ G on all of [0, t].  Equality for n equal d_i if the tangent at u = t/n satisfies Ǧ(t) ≤ G(t).

    >>> round(trace_floor(3.0, 3, 1.0), 4)  # 3·½(1 − log 2)
    0.4603
    """
    if ratio == 0.0 or n == 0:
        return 0.0
    mean, beta = ratio / n, 1.0 - alpha

    def line(u: float, x: float) -> float:
        return float(G(u, alpha)) + 0.5 * alpha * u / ((1.0 + beta * u) * (1.0 + u)) * (x - u)

    end = float(G(ratio, alpha))
    high = mean if beta == 0.0 else min(mean, 1.0 / np.sqrt(beta))
    if line(high, ratio) <= end:
        return n * line(high, mean)
    low, _ = halved(lambda u: line(u, ratio) <= end, 0.0, high)  # the line's value at t is 0 for u = 0, rises with u
    return n * line(float(low), mean)


@noise_per_row(UnitNoise.of_upper_gap)
@within_doubles
def gap_from_trace(
    kernel: Kernel, X: Any, y: Any, Z: ArrayLike, alpha: float, *, noise: Any, jitter: Jitter = "auto"
) -> Bound:
    """Upper bound on the gap D_α(y) in O(NM²) time; neither K nor Kuf is stored.

    D_α(y) ≤ g_n(T) + ½ yᵀ(σ²I + Q)⁻¹y · ψ(T/σ²), g_n(T) = (αn/(2β)) log(1 + βT/(nσ²)), T = Tr(K − Q).

    Claim R-lem4 (its O(NM²) form), 0 < α ≤ 1; n = number of distinct rows of X that are not in Z (N when jitter > 0).
    Never below the upper bound of `gap`; 0 when Z = X.  Parameters and errors as in `gap`.

    >>> from gpbounds.kernels import SquaredExponential
    >>> X, y = [0.0, 1.0, 2.0], [1.0, 0.5, -0.5]
    >>> round(float(gap_from_trace(SquaredExponential(), X, y, [0.0, 2.0], 0.5, noise=0.1)), 4)
    0.6527
    """
    as_kernel(kernel)
    a = scalar(order, "alpha", alpha)
    problem = problem_of(kernel, X, y, Z, noise, jitter)
    n, T, P = max(problem.sums.rank, 1), problem.sums.trace, problem.P
    above, fits = problem.trace_above, problem.fits(0.0)
    parts = [P * float(trace_term(t, n, a, noise=problem.noise)) for t in (T, above)]
    ends = [
        0.5 * float(form.sum()) * float(psi(t / problem.noise, a))
        for form, t in ((fits.quadratic, T), (fits.above, above))
    ]
    member = Member(parts[0] + ends[0], (parts[1] + ends[1]) * (1.0 + gamma(64)) - parts[0] - ends[0], "R-lem4")
    terms = {"g_n(T)": parts[0], "targets": ends[0], "T": T, "n": problem.sums.rank, "jitter": problem.sums.jitter}
    proved, assumptions = problem.accuracy.proved, (BEST, ANY_Y, *unproved(problem.accuracy))
    if problem.sums.rank == 0:  # K = Q
        member, terms["rounding"] = replace(member, error=0.0), 0.0
        return Bound(0.0, "upper", 1.0, "R-lem4", terms, assumptions, proved, GAP)
    terms["rounding"] = member.error
    return Bound(member.highest, "upper", 1.0, "R-lem4", terms, assumptions, proved, GAP)


@noise_per_row(UnitNoise.of_gap)
@within_doubles
def expected_gap_bounds(
    kernel: Kernel,
    X: ArrayLike,
    Z: ArrayLike,
    alpha: float,
    *,
    noise: Any,
    jitter: Jitter = "auto",
    form: Form = "sharpest",
) -> Interval:
    """Lower and upper bound on E_y D_α, the gap averaged over y from the prior.

    L_det ≤ E_y D_α ≤ the least of Σ F(d_i) (from the spectrum of Δ; equality when QΔ = 0), L_det + ½[W − log(1 + W)]
    with W = αTr(Ξ⁻¹Δ), n F̂(T/(nσ²)) (from the trace), and α(T/σ² − ½ Σ log(1 + d_i)) (concavity in α).

    Claims R-lem2, N-F, N-Fhat, N-W, N-conc (Yue & Kontar, Rényi divergence objective, Lemma 2), 0 < α ≤ 1.  All four
    are among ``terms``.  ``form="printed"`` gives L_det + αT/(2σ²).  `expected_gap` is the exact value.

    Parameters
    ----------
    kernel, X, Z, noise, alpha, jitter : as in `gap`
    form : "sharpest" or "printed"

    Returns
    -------
    (Bound, Bound)
        Lower, upper.

    Raises
    ------
    ValueError, NotPositiveDefinite
        as in `gap`.

    >>> from gpbounds.kernels import SquaredExponential
    >>> lower, upper = expected_gap_bounds(SquaredExponential(), [0.0, 1.0, 2.0], [0.0, 2.0], 0.5, noise=0.1)
    >>> round(float(lower), 4), round(float(upper), 4)
    (0.5076, 0.5609)
    """
    choice("form", form, ("sharpest", "printed"))
    of_y = gap_record(kernel, X, Z, noise, scalar(order, "alpha", alpha), jitter)
    record = of_y.record
    dense, a = _Dense(of_y), of_y.alpha
    log_det = record.log_det_term(a, noise=of_y.noise)
    lower = dense.of_sum(log_det, 0.5 * a, "R-lem2")
    if not np.isfinite(record.accuracy.above):
        lower = replace(lower, error=np.inf)
    if form == "printed":
        members = {"": dense.of_sum(log_det + 0.5 * a * record.trace / of_y.noise, a, "R-lem2")}
        terms = {"log-determinant": log_det, "trace": 0.5 * a * record.trace / of_y.noise}
    else:
        terms = _expected_terms(of_y, log_det)
        # |F'| ≤ α + ½, and the same for F̂; W moves by α times Tr(Ξ⁻¹Δ)
        wide = (record.xi_error(a, noise=of_y.noise) / of_y.noise + gamma(4 * record.N) * record.N**0.5) * of_y.total
        members = {name: dense.of_sum(value, a + 0.5, "R-lem2") for name, value in terms.items()}
        members = {
            name: replace(each, error=each.error + wide) if name.startswith("W") else each
            for name, each in members.items()
        }
    shared = {name: value for name, value in terms.items() if name not in members}
    return _interval("E_y D_α[q*‖p]", {"": lower}, members, _PRIOR_Y, record.accuracy, record.jitter, shared)


def _expected_terms(of_y: _Gap, log_det: float) -> dict[str, float]:
    record, noise, a = of_y.record, of_y.noise, of_y.alpha
    d = record.eigenvalues / noise
    n = max(record.rank, 1)
    return {
        "spectrum: Σ F(d_i)": float(F(d, a).sum()),
        "W: L_det + ½[W − log(1 + W)]": log_det + float(0.5 * log1p_residual(of_y.total)),
        "trace: n F̂(T/(nσ²))": n * float(F_hat(record.trace / (n * noise), a)),
        "concavity: α(T/σ² − ½ Σ log(1 + d_i))": a * float(0.5 * (d + log1p_residual(d)).sum()),
    }
