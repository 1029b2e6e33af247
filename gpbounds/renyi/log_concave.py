"""How far a Gaussian law of f is from the posterior under a log-concave likelihood: a proved bound, and an estimate.

With U = Lv at the inducing points, f = Φv + Rη is the prior at the rows, (v, η) ~ N(0, I), ΦΦᵀ = Q, RRᵀ = Δ = K − Q,
and q = N(w, S)(v) × N(0, I)(η).  Where every ℓ_i = log p(y_i|·) is concave, the posterior is e^(−V) with ∇²V ⪰ I.  So
Bakry and Émery's logarithmic Sobolev inequality bounds KL by half the relative Fisher information (N-fisher):

    0 ≤ log p(y) − ELBO(q) = KL(q‖p(·|y)) ≤ ½E_q|∇ log(q/p)|².

Write ℓ_i'(f_i) = ḡ_i − λ_i(f_i − m_i) + r_i, ḡ_i = E ℓ_i', λ_i = −E ℓ_i'', with r_i uncorrelated with v and η, and
B = S⁻¹ − I − ΦᵀΛΦ, Σ = ΦSΦᵀ + Δ.  Twice the bound is a sum of terms ≥ 0, nothing of which cancels,

    |Φᵀḡ − w|² + tr BSB  +  Σ_ij Q_ij Cov(r_i, r_j)                                      (q: not the best; not Gaussian)
    + ḡᵀΔḡ + tr ΛΔΛ(Q + Σ) + Σ_ij Δ_ij Cov(r_i, r_j),                                    (M: 0 where Z determines f)

Cov(r_i, r_j) = Σ_{k≥2} a_ik a_jk ρ_ij^k with the Hermite coefficients of ℓ_i' (N-hermite).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from gpbounds.arrays import Float, as_host_points, as_reals, require_finite_rows
from gpbounds.bound import Bound
from gpbounds.divergences.sparse import triangular
from gpbounds.kernels import Kernel
from gpbounds.kernels.base import as_kernel
from gpbounds.law import FactorLaw
from gpbounds.likelihoods import Likelihood
from gpbounds.likelihoods.base import as_likelihood
from gpbounds.linalg import Jitter
from gpbounds.overflow import within_doubles
from gpbounds.renyi.log_concave_curvature import Within, curved_bound, intervals
from gpbounds.renyi.log_concave_errors import Allowance, rounding
from gpbounds.renyi.log_concave_rows import AtRows, latent_at
from gpbounds.renyi.log_concave_sums import PairSums, every_pair, sampled_rows
from gpbounds.renyi.residual import host_targets, with_jitter_named
from gpbounds.validation import choice, generator, open_unit, rigor_of, scalar
from gpbounds.whitening import inducing, with_jitter

QUANTITY = "KL[q||p(f, U | y)]"
DENSE = 10_000
"""Rows up to which ``method="auto"`` sums over all pairs of rows."""
LOG_CONCAVE = "log p(y_i|f) is concave in f for each row, which is proved for this likelihood."
LAW = "q is N(mean, factor factorᵀ) for v, with U = Lv at Z and the factor L of Kuu that was computed."
MEASURED = (
    "The derivative of the log density has a relative error of at most 1e-13, ten times what was measured; it rests on "
    "SciPy's erfcx."
)
FLOATS = "The value is computed in doubles, and has no allowance for rounding (rigor='float')."


@dataclass(frozen=True, eq=False)
class PosteriorGap:
    """How far q is from the posterior: `posterior_gap` returns it.

    Attributes
    ----------
    bound : Bound
        Upper bound on KL(q‖p(f, U|y)) = log p(y) − ELBO(q), in nats.
    estimate : float
        ½Var_q log(p̃/q), p̃ = p(y, f, U): not a bound.  It is the first term of an expansion of KL in cumulants.
    estimate_error : float
        Its standard error; 0 where all pairs of rows were summed.
    of_q : float
        The part of the bound that remains where Z determines f: q is not the best Gaussian, and the posterior is none.
    of_M : float
        The part that is 0 where Z determines f, so that more inducing points make it smaller.  The bound is the sum of
        both and of ``bound.terms["rounding"]`` and ``["beyond"]``: errors, and what lies outside of the intervals.
    fisher : Bound
        The bound of N-fisher alone, which does not use curvature; it is ``bound`` where that is not larger.
    elbo : float
        ELBO(q): ELBO ≤ log p(y) ≤ ELBO + bound, to the rounding of the ELBO.
    jitter : float
        The number that was added to the diagonal of Kuu.
    method : "dense" or "streamed"
    """

    bound: Bound
    estimate: float
    estimate_error: float
    of_q: float
    of_M: float
    fisher: Bound
    elbo: float
    jitter: float
    method: str


@within_doubles
def posterior_gap(
    kernel: Kernel,
    X: ArrayLike,
    y: ArrayLike,
    likelihood: Likelihood,
    Z: ArrayLike,
    q_mean: ArrayLike,
    q_factor: ArrayLike,
    *,
    offset: ArrayLike = 0.0,
    jitter: Jitter = "auto",
    method: Literal["auto", "dense", "streamed"] = "auto",
    rigor: Literal["auto", "float"] = "auto",
    rng: np.random.Generator | int | None = None,
    delta: float = 0.01,
) -> PosteriorGap:
    """An upper bound on KL(q‖posterior) = log p(y) − ELBO(q) for a log-concave likelihood, and an estimate beside it.

    f = offset + a Gaussian process with this kernel, u = Lv at Z, LLᵀ = Kuu + jitter·I, q(v) = N(w, CCᵀ), and f given U
    as under the prior.  Claim N-fisher: if f ↦ log p(y_i|f) is concave for each row,

        0 ≤ KL(q‖p(f, U|y)) ≤ ½E_q|∇ log(q/p)|²    (Bakry and Émery 1985),

    which `gpbounds.renyi.log_concave` writes as a sum of squares.  For the full posterior of a Gaussian q pass Z = X.
    This bound does not use the curvature of the likelihood, and grows with the variance of the prior times the number
    of rows that share a lengthscale.  Up to N = 5000 the function also computes the bound of N-fisher-curved, which
    uses the curvature within intervals about the means, and returns the smaller one, whose claim ``bound.claim``
    names.  For q near the best it is about 7 times the estimate at prior variance 1, and 12 to 18 times at 4.

    Parameters
    ----------
    kernel : Kernel
    X : array (N, D)
    y : array (N,)
        Targets: labels, counts or numbers, as the likelihood expects them.
    likelihood : Likelihood
        `Bernoulli`, `Poisson` or `Gaussian`.
    Z : array (M, D)
    q_mean : array (M,)
        w, the mean of v.
    q_factor : array (M, M)
        C, lower triangular with a positive diagonal.
    offset : float or array (N,), optional
        The prior mean of f at the rows.
    jitter : float or "auto"
        As in `whiten`.
    method : "auto", "dense" or "streamed"
        "dense" sums over all pairs of rows, in O(N²M) time; "streamed" over 2048 rows drawn at random and all others,
        in O(NM) memory, and the bound holds with probability 1 − delta.  "auto" takes "dense" up to N = 10,000.
    rigor : "auto" or "float"
        "auto" adds the proved error of quadrature and rounding; "float" adds the error of the series only.  "sharp"
        is refused, as there is no form in balls or 30 digits.
    rng : seed or numpy.random.Generator
        For the rows that "streamed" draws.
    delta : float
        Probability with which a streamed bound may fail.

    Raises
    ------
    ValueError, NonFinite
        for shapes that do not match, targets that the likelihood does not admit, and a likelihood that is not known to
        be log-concave: a Student-t is not.
    NotPositiveDefinite
        where Kuu does not factorise.

    >>> from gpbounds.kernels import SquaredExponential
    >>> from gpbounds.likelihoods import Bernoulli
    >>> data = SquaredExponential(), [0.0, 1.0, 2.0], [1, 0, 1], Bernoulli("logit"), [0.0, 2.0]
    >>> gap = posterior_gap(*data, [0.1, 0.2], [[0.9, 0.0], [-0.1, 0.9]])
    >>> round(float(gap.bound), 4), round(gap.estimate, 4)
    (0.0729, 0.0632)
    """
    choice("method", method, ("auto", "dense", "streamed"))
    stated, failing, source = rigor_of(rigor), scalar(open_unit, "delta", delta), generator(rng)
    as_likelihood(likelihood)
    if stated == "sharp":
        raise ValueError("rigor: expected 'auto' or 'float', got 'sharp': this bound has no form in 30 digits")
    points, centres, targets, shift = _checked(kernel, X, y, Z, offset)
    law = _law(q_mean, q_factor, len(centres))
    signed = likelihood.checked_targets(targets)

    def attempt(amount: float) -> AtRows:
        return latent_at(inducing(kernel, centres, amount), points, signed, likelihood, law, shift)

    latent = with_jitter(attempt, kernel, centres, jitter, sound=True)
    dense = method == "dense" or (method == "auto" and latent.N <= DENSE)
    ranges = intervals(latent, likelihood, signed) if dense else []
    explained = [within.explained for within in ranges]
    sums = every_pair(latent, explained) if dense else sampled_rows(latent, failing, source)
    elbo = float(np.sum(likelihood.expected_log_density(targets, latent.mean, latent.variance))) - law.kl
    return _gap(latent, sums, ranges, elbo, stated == "auto")


def _checked(
    kernel: Kernel, X: ArrayLike, y: ArrayLike, Z: ArrayLike, offset: ArrayLike
) -> tuple[Float, Float, Float, Float]:
    """X (N, D), Z (M, D), y and the prior mean (N,)."""
    as_kernel(kernel)
    points = as_host_points(X, "X")
    centres = as_host_points(Z, "Z", points.shape[1])
    targets = host_targets(y, len(points))
    shift = as_reals(np, "offset", offset)
    if shift.shape not in ((), targets.shape):
        raise ValueError(f"offset: expected one number, or one for each of {len(targets)} rows, got {shift.shape}")
    require_finite_rows("offset", np.atleast_1d(shift))
    return points, centres, targets, np.broadcast_to(shift, targets.shape)


def _law(q_mean: ArrayLike, q_factor: ArrayLike, M: int) -> FactorLaw:
    """q(v), checked."""
    w, C = as_reals(np, "q_mean", q_mean), triangular("q_factor", q_factor)
    for name, array, shape in (("q_mean", w, (M,)), ("q_factor", C, (M, M))):
        if array.shape != shape:
            raise ValueError(f"{name}: expected shape {shape}, as Z has {M} rows, got {array.shape}")
    require_finite_rows("q_mean", w)
    return FactorLaw(w[:, None], C)


@dataclass(frozen=True)
class _Parts:
    """A bound: its value and claim, and the parts that it adds up, in nats."""

    value: float
    claim: str
    training: float
    shape: float
    of_M: float
    rounding: float

    def terms(self) -> dict[str, float]:
        """The parts by name; "beyond" is the rest of the series, the error of sampling, and what lies outside."""
        named = {"training": self.training, "shape": self.shape, "M": self.of_M, "rounding": self.rounding}
        return named | {"beyond": max(self.value - sum(named.values()), 0.0)}


def _gap(latent: AtRows, sums: PairSums, ranges: list[Within], elbo: float, proved: bool) -> PosteriorGap:
    """The record from the sums."""
    training = 0.5 * (float(latent.pull @ latent.pull) + float((latent.excess**2).sum()))
    turned = latent.law.factor.T @ latent.pull
    linear = float(turned @ turned) + 0.5 * float(((latent.law.factor.T @ latent.excess) ** 2).sum())
    known = rounding(latent) if proved else None
    off = Allowance.none(latent.N) if known is None else known
    said = (LOG_CONCAVE, LAW) + (() if latent.series.proved else (MEASURED,)) + (() if known else (FLOATS,))
    jitter = latent.whitener.chol.jitter

    def bound(parts: _Parts) -> Bound:
        return Bound(
            parts.value,
            "upper",
            sums.confidence,
            parts.claim,
            parts.terms(),
            with_jitter_named(jitter, said),
            certified=off.proved and sums.method == "dense",
            quantity=QUANTITY,
        )

    of_M, slack = 0.5 * (sums.of_lines + sums.of_spread), 0.5 * off.total
    value = (training + 0.5 * sums.of_shape + of_M + 0.5 * sums.beyond + slack) * (1.0 + 1e-14)
    plain = _Parts(value, "N-fisher", training, 0.5 * sums.of_shape, of_M, slack)
    best = min([plain, *_curved(latent, sums, ranges, training, off)], key=lambda parts: parts.value)
    estimate, error = 0.5 * (linear + sums.estimate), 0.5 * sums.estimate_error
    of_q = best.training + best.shape
    ends = bound(best), bound(plain)
    return PosteriorGap(ends[0], estimate, error, of_q, best.of_M, ends[1], elbo, jitter, sums.method)


def _curved(latent: AtRows, sums: PairSums, ranges: list[Within], training: float, off: Allowance) -> list[_Parts]:
    """The bounds of N-fisher-curved, where q is near enough for them."""
    results = []
    for within, (shape, rest) in zip(ranges, sums.within, strict=True):
        error = off.total + within.allowance(latent)
        value = curved_bound(latent, within, 2.0 * training + sums.of_lines + shape + rest + error, off)
        if value < np.inf:
            parts = training, 0.5 * shape, 0.5 * sums.of_lines, 0.5 * error
            results.append(_Parts(value, "N-fisher-curved", *parts))
    return results
