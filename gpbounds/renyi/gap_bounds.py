"""Bounds on the Rényi gap of one data set, by the spectrum or the trace of K − Q."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from gpbounds.arrays import exactly, is_cupy
from gpbounds.bound import Bound
from gpbounds.kernels import Kernel
from gpbounds.linalg import Jitter
from gpbounds.numerics.log1p import log1p_residual
from gpbounds.numerics.roots import halved
from gpbounds.numerics.scalars import F, F_hat, G, psi, trace_term
from gpbounds.renyi.blocks import DENSE
from gpbounds.renyi.brackets import BLOCKS, CHEAP, LARGE, Bracket, assemble, bracket
from gpbounds.renyi.enclosed import enclosed_gap
from gpbounds.renyi.gaps import Gap, gap_record
from gpbounds.renyi.partitioned import by_partitions, partitioned
from gpbounds.renyi.residual import with_jitter_named
from gpbounds.renyi.sentences import ANY_Y, BEST, GAP
from gpbounds.renyi.streamed import Problem, streamed
from gpbounds.rigor import RIGOR
from gpbounds.sources import is_elsewhere
from gpbounds.validation import choice, order, scalar
from gpbounds.whitening import as_targets

Form = Literal["sharpest", "printed"]
Method = Literal["auto", "dense", "blocks", "streamed"]
PRIOR_Y = "y is drawn from the prior, y ~ N(0, K + σ²I), with the kernel and the noise that are used."


def _pair(
    quantity: str,
    lower: tuple[float, str],
    upper: tuple[float, str],
    terms: dict[str, float],
    y: str,
    jitter: float,
    below: dict[str, float] | None = None,
) -> tuple[Bound, Bound]:
    assumptions = with_jitter_named(jitter, (BEST, y))
    return (
        Bound(lower[0], "lower", 1.0, lower[1], below or {}, assumptions, quantity=quantity),
        Bound(upper[0], "upper", 1.0, upper[1], terms, assumptions, quantity=quantity),
    )


def gap(
    kernel: Kernel,
    X: Any,
    y: Any,
    Z: ArrayLike,
    alpha: float,
    *,
    noise: float,
    jitter: Jitter = "auto",
    form: Form = "sharpest",
    method: Method = "auto",
    progress: bool = False,
    rigor: str = "float",
) -> tuple[Bound, Bound]:
    """Lower and upper bound on the gap D_α(y) = D_α[q*‖p(f, U | y)] that hold for every y.

    dense     Σ G(d_i) ≤ D_α(y) ≤ L_det − ½ log(1 + αTr(Ξ⁻¹Δ)) + ½ yᵀB⁻¹y · ψ(λ/σ²)                             O(N³)
    streamed  nǦ(T/(nσ²)) ≤ D_α(y) ≤ min{g_n(T) + ½ yᵀB⁻¹y · ψ(T/σ²), α(U − L_VI)}                          O(NM²)
    blocks    the same with ψ(λ/σ²); K is streamed once, and again for each step of a solve                   O(N²M)

    d = eigenvalues of Δ/σ², Δ = K − Q, T = Tr Δ, λ ≥ λ_max(Δ), B = Q + σ²I, L_det = (α/(2β)) Σ log(1 + βd_i); Ǧ is
    convex and below G on [0, T/σ²]; U is the upper bound of `evidence`, used with D_α ≤ α·KL (N-conc).  At α = 1 its
    lower bound minus L_VI is another lower bound.  Differences of log evidences include an allowance for their
    rounding.

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
    noise : float
        σ², in squared units of y.
    alpha : float
        Order in (0, 1].
    jitter : float or "auto"
        Added to the diagonal of Kuu; the bounds hold for the gap of that approximation.  Where it is not 0, an
        assumption of each bound names the amount.
    form : "sharpest" or "printed"
        "printed" needs the dense method.
    method : "auto", "dense", "blocks" or "streamed"
        "auto": dense up to N = 2000 on the host, blocks up to 10 000, streamed above.
    progress : bool
        Show a bar that counts the members of `evidence`, for "blocks" and "streamed".
    rigor : "float" or "arb"
        "arb": the gap itself between two ends that differ by rounding only, up to N = 2048 (N-exact-gap): entries,
        Q of clustered inducing points and factors in 30 digits, for the kernels that `evidence` lists; α = 1 takes 2, 6
        and 25 s at N = 500, 1000 and 2000, M = 200.  Above 2048 rows α times the difference of the bounds on log p(y)
        and of L_VI (N-conc).  Jitter "auto" is 0 here; points of Z that others determine to 30 digits are then left out
        and named, and the lower bound is 0.

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
    choice("form", form, ("sharpest", "printed"))
    choice("method", method, ("auto", "dense", "blocks", "streamed"))
    a = scalar(order, "alpha", alpha)
    if choice("rigor", rigor, RIGOR) == "arb":
        if form == "printed" or method != "auto" or is_elsewhere(X):
            raise ValueError(
                "rigor: expected 'float' for the printed form, a method, or rows that are read by partitions, got "
                f"'arb' with form={form!r} and method={method!r}"
            )
        return enclosed_gap(kernel, X, y, Z, a, noise=noise, jitter=0.0 if jitter == "auto" else jitter)
    if is_elsewhere(X):
        if method not in ("auto", "streamed") or form == "printed":
            raise ValueError(
                "method, form: expected 'streamed' and 'sharpest' for rows that are read by partitions, got "
                f"{method!r} and {form!r}: the others need all rows in memory"
            )
        method = "streamed"
    else:
        X = exactly("X", X)
    if method == "auto":
        N = np.shape(X)[0] if np.ndim(X) else 0
        small = N <= DENSE and not is_cupy(X)
        method = "dense" if small or form == "printed" else "blocks" if N <= LARGE else "streamed"
    if method == "dense":
        return _dense(kernel, X, y, Z, noise, a, jitter, form)
    if form == "printed":
        raise ValueError(f"method: expected 'dense' for form='printed', got {method!r}")
    from tqdm import tqdm

    total = len(CHEAP + BLOCKS if method == "blocks" else CHEAP)
    with tqdm(desc=GAP, total=total, unit="member", leave=False, disable=not progress) as bar:
        members = bracket(kernel, X, y, Z, noise, (1.0,), jitter, streams=method == "streamed")
        return streamed_gap(members, a, method, bar.update)


def _dense(
    kernel: Kernel, X: ArrayLike, y: ArrayLike, Z: ArrayLike, noise: float, alpha: float, jitter: Jitter, form: str
) -> tuple[Bound, Bound]:
    of_y = gap_record(kernel, X, Z, noise, alpha, jitter)
    record, noise = of_y.record, of_y.noise
    targets = as_targets(y, record.X)
    P = 1 if targets.ndim == 1 else targets.shape[1]
    log_det = P * record.log_det_term(alpha, noise=noise)
    lower = P * float(G(record.eigenvalues / noise, alpha).sum())
    if form == "printed":
        fit = float((targets**2).sum()) * alpha * record.trace / (noise * (noise + alpha * record.trace))
        terms = {"log-determinant": log_det, "targets": fit}
        return _pair(GAP, (lower, "R-gap"), (log_det + fit, "R-lem4"), terms, ANY_Y, record.jitter)
    determinant = P * float(0.5 * np.log1p(of_y.total))
    price = float(psi(record.largest / noise, alpha))
    fit = 0.5 * float(np.sum(record.quadratic(targets, noise=noise))) * price
    terms = {"log-determinant": log_det, "determinant of I + αΞ⁻¹Δ": -determinant, "targets": fit}
    return _pair(GAP, (lower, "R-gap"), (log_det - determinant + fit, "R-lem4"), terms, ANY_Y, record.jitter)


def streamed_gap(
    members: Bracket, alpha: float, method: Method, advance: Callable[[], Any] | None = None
) -> tuple[Bound, Bound]:
    """The bounds of `gap` from the ``members`` of the bracket of log p(y), by "streamed" or "blocks"."""
    problem, white = members.problem, members.problem.sums
    low, high = assemble(members, CHEAP + BLOCKS if method == "blocks" else CHEAP, advance)
    below = {"trace": problem.P * trace_floor(problem.ratio, white.rank, alpha)}
    if alpha == 1.0:
        below["evidence"] = float(low) - (members.variational_bound + members.rounding)
    largest = members.moments.largest if method == "blocks" else problem.ratio
    log_det = problem.P * float(trace_term(white.trace, max(white.rank, 1), alpha, noise=problem.noise))
    fit = 0.5 * float(members.grid_fits.quadratic[-1].sum()) * float(psi(largest, alpha))
    above = {"trace": log_det + fit, "evidence": alpha * (float(high) - (members.variational_bound - members.rounding))}
    claim = "R-lem4" if above["trace"] <= above["evidence"] else "N-conc"
    shared = {"T/σ²": problem.ratio, "n": white.rank, "jitter": white.jitter, "rounding": members.rounding}
    return _pair(
        GAP,
        (max(below.values()), "R-gap"),
        (min(above.values()), claim),
        above | shared,
        ANY_Y,
        white.jitter,
        below | shared,
    )


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


def gap_from_trace(
    kernel: Kernel, X: Any, y: Any, Z: ArrayLike, alpha: float, *, noise: float, jitter: Jitter = "auto"
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
    a = scalar(order, "alpha", alpha)
    make = partitioned if by_partitions(X) else streamed
    problem: Problem = make(kernel, X, y, Z, noise, jitter)
    n, T = max(problem.sums.rank, 1), problem.sums.trace
    log_det = problem.P * float(trace_term(T, n, a, noise=problem.noise))
    fit = 0.5 * float(problem.fits(0.0).quadratic.sum()) * float(psi(problem.ratio, a))
    terms = {"g_n(T)": log_det, "targets": fit, "T": T, "n": problem.sums.rank, "jitter": problem.sums.jitter}
    return Bound(log_det + fit, "upper", 1.0, "R-lem4", terms, (BEST, ANY_Y), quantity=GAP)


def expected_gap_bounds(
    kernel: Kernel,
    X: ArrayLike,
    Z: ArrayLike,
    alpha: float,
    *,
    noise: float,
    jitter: Jitter = "auto",
    form: Form = "sharpest",
) -> tuple[Bound, Bound]:
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
    log_det = record.log_det_term(of_y.alpha, noise=of_y.noise)
    if form == "printed":
        terms = {"log-determinant": log_det, "trace": 0.5 * of_y.alpha * record.trace / of_y.noise}
        value = log_det + terms["trace"]
    else:
        terms = _expected_terms(of_y, log_det)
        value = min(terms.values())
    return _pair("E_y D_α[q*‖p]", (log_det, "R-lem2"), (value, "R-lem2"), terms, PRIOR_Y, record.jitter)


def _expected_terms(of_y: Gap, log_det: float) -> dict[str, float]:
    record, noise, a = of_y.record, of_y.noise, of_y.alpha
    d = record.eigenvalues / noise
    n = max(record.rank, 1)
    return {
        "spectrum: Σ F(d_i)": float(F(d, a).sum()),
        "W: L_det + ½[W − log(1 + W)]": log_det + float(0.5 * log1p_residual(of_y.total)),
        "trace: n F̂(T/(nσ²))": n * float(F_hat(record.trace / (n * noise), a)),
        "concavity: α(T/σ² − ½ Σ log(1 + d_i))": a * float(0.5 * (d + log1p_residual(d)).sum()),
    }
