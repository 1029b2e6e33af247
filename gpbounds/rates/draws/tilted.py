"""The tilted k-DPP, P(Z) ∝ |(K² + σ²K)_ZZ|: its bounds lose nothing for large gaps."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from gpbounds import validation
from gpbounds.arrays import Float
from gpbounds.bound import Bound
from gpbounds.kdpp.esp import tilted_eigenvalues
from gpbounds.kdpp.mean_residual import EigenvalueEnds
from gpbounds.kdpp.residual import expected_residual
from gpbounds.numerics import gaussian_forms
from gpbounds.rates.draws.sentences import (
    BEST_OBJECTIVE,
    FIXED_BEFORE,
    FROM_PRIOR,
    TILTED,
    checked_draws,
    record,
    share,
)


@dataclass(frozen=True, eq=False)
class _TiltedMeans:
    """Exact means under the tilted law (N-tilt).

    Attributes
    ----------
    miss : array (n,)
        e_M(μ₋ᵢ)/e_M(μ), μ_i = λ_i(λ_i + σ²); an upper bound if the eigenvalues have a rounding error.
    ratios : array (n,)
        d_i = λ_i/σ².
    eigenvalues, lowest : array (n,)
        Upper and lower bounds on λ_i.
    noise : float
    """

    miss: Float
    ratios: Float
    eigenvalues: Float
    lowest: Float
    noise: float

    @property
    def theta(self) -> Float:
        """θ_i = miss_i d_i: E zᵀX(I − X)⁻¹z = Σ θ_i z_i², and E Tr Q_n⁻¹(K − Q) = Σ θ_i."""
        return self.miss * self.ratios

    @property
    def determinant(self) -> float:
        """Σ miss_i d_i², the mean of Tr (Q_n⁻¹ − K_n⁻¹)KK_n/σ²."""
        return float((self.miss * self.ratios**2).sum())

    def quadratic(self, squares: ArrayLike) -> float:
        """E yᵀ(Q_n⁻¹ − K_n⁻¹)y = Σ miss_i d_i (Vᵀy)_i²/(λ_i + σ²), from the n squares (Vᵀy)_i²."""
        weights = validation.non_negative("squares", squares)
        if weights.shape != self.miss.shape:
            raise ValueError(f"squares: expected one for each eigenvalue, {self.miss.shape}, got {weights.shape}")
        return float((self.theta * weights / (self.lowest + self.noise)).sum())


def tilted_means(ends: EigenvalueEnds) -> _TiltedMeans:
    """Exact means under the tilted law of size M (N-tilt).

    P~(Z) ∝ |K_ZZ| |Q_n| ∝ |(K K_n)_ZZ|, |Z| = M, Q_n = Q_Z + σ²I, K_n = K + σ²I, d_i = λ_i/σ²,
    miss_i = e_M(μ₋ᵢ)/e_M(μ), μ_i = λ_i(λ_i + σ²):

    - E~ yᵀ(Q_n⁻¹ − K_n⁻¹)y = Σ miss_i d_i (Vᵀy)_i²/(λ_i + σ²),   E~ Tr Q_n⁻¹(K − Q) = Σ miss_i d_i,
      E~ Tr (Q_n⁻¹ − K_n⁻¹)KK_n/σ² = Σ miss_i d_i²;
    - for every Z ⊂ X and y, α ∈ (0, 1]: 2D_α ≤ α[yᵀ(Q_n⁻¹ − K_n⁻¹)y + Tr (Q_n⁻¹ − K_n⁻¹)KK_n/σ²].

    The proof is that of N-tilt.

    Parameters
    ----------
    ends : EigenvalueEnds
        The eigenvalues of K, M and the noise; the mean residual of the k-DPP of K itself has them, too.

    >>> from gpbounds.kdpp.residual import expected_residual
    >>> means = tilted_means(expected_residual([3.0, 1.0], 1, noise=1.0))  # μ = 12, 2
    >>> means.miss.round(6), round(means.determinant, 6)
    (array([0.142857, 0.857143]), 2.142857)
    """
    if ends.noise is None:
        raise ValueError(
            "ends: expected some with the noise, got noise=None: pass it to eigenvalue_ends or expected_residual"
        )
    upper = tilted_eigenvalues(ends.eigenvalues, noise=ends.noise)
    miss = expected_residual(upper, ends.M).miss
    lower = tilted_eigenvalues(ends.lowest, noise=ends.noise)
    with np.errstate(divide="ignore", invalid="ignore"):
        # r/(μ + r) with μ from below is at most (μ from above)/(μ from below) times that with μ from above
        raised = np.where(lower > 0.0, miss * (upper / lower), 1.0)
    miss = np.where(upper > 0.0, np.minimum(raised, 1.0), 1.0)
    return _TiltedMeans(miss, ends.eigenvalues / ends.noise, ends.eigenvalues, ends.lowest, ends.noise)


def tilted_prior(ends: EigenvalueEnds, *, delta: float, draws: int = 1, alpha: float = 1.0, tv: float = 0.0) -> Bound:
    """Bound on D_α for y from the prior and the best of R tilted draws (N-tilt-prior), lossless for gaps of any size.

    With probability at least 1 − δ, D_α ≤ (α/(2p)) ‖Σ θ_i z_i² + Σ miss_i d_i²‖_R, θ_i = miss_i d_i, z ~ N(0, I),
    p = δ^(1/R) − tv, ‖W‖_R = (E W^R)^(1/R).

    The proof is that of N-tilt-prior.
    At R = 1 it is 1/δ times a bound on the mean of D_α over y and Z.

    Parameters
    ----------
    ends : EigenvalueEnds
        As of `tilted_means`; its ``noise`` must be set.
    delta : float
        Probability in (0, 1) with which the bound may fail, over y and the draws.
    draws : int
        R ≥ 1; of more than 64 the first 64 are counted.
    alpha : float
        Rényi order in (0, 1].
    tv : float
        Total variation distance of the law of each draw from the tilted one.

    >>> residual = expected_residual(np.arange(1.0, 101.0) ** -2.0, 10, noise=0.01)
    >>> from gpbounds.rates.draws.prior import prior_large
    >>> float(tilted_prior(residual, delta=0.05, draws=10)) < 0.6 * float(prior_large(residual, delta=0.05, draws=10))
    True
    """
    delta, draws, alpha, tv = checked_draws(delta, draws, alpha, tv)
    R = min(draws, gaussian_forms.MOST)
    means, p = tilted_means(ends), share(delta, R, tv)
    half = 0.5 * alpha * float(gaussian_forms.norm(means.theta, means.determinant, R))
    terms = {"mean": 0.5 * alpha * (float(means.theta.sum()) + means.determinant), "p": p}
    why = f"p = δ^(1/R) − tv = {p:.3g} is not positive"
    value = half / p if p > 0.0 else math.inf
    return record(
        value, delta, "N-tilt-prior, N-tilt", terms, (TILTED, BEST_OBJECTIVE, FROM_PRIOR), alpha=alpha, why=why
    )


def tilted_given(
    ends: EigenvalueEnds,
    squares: ArrayLike,
    *,
    delta: float,
    draws: int = 1,
    alpha: float = 1.0,
    tv: float = 0.0,
    outputs: int = 1,
) -> Bound:
    """Bound on D_α for y given and the best of R tilted draws (N-tilt-given), lossless for gaps of any size.

    With probability at least 1 − δ over the draws, D_α ≤ (α/(2p)) [Σ miss_i d_i (Vᵀy)_i²/(λ_i + σ²) + Σ miss_i d_i²], p
    = δ^(1/R) − tv: Markov's inequality for the right side of N-tilt, R times.  Several outputs that share Z: the
    squares add up, and the second sum counts once for each.

    Parameters
    ----------
    ends : EigenvalueEnds
        As of `tilted_means`; its ``noise`` must be set.
    squares : array (n,)
        (Vᵀy)_i², in the order of the eigenvalues; summed over the outputs.
    outputs : int
        Number of outputs.

    Others as :func:`tilted_prior`; the probability is over the draws only, and y may depend on anything but them.

    >>> residual = expected_residual([3.0, 1.0], 1, noise=1.0)
    >>> round(float(tilted_given(residual, [1.0, 1.0], delta=0.05, draws=10)), 4)
    1.8071
    """
    delta, draws, alpha, tv = checked_draws(delta, draws, alpha, tv)
    count = validation.count("outputs", outputs)
    means, p = tilted_means(ends), share(delta, draws, tv)
    mean = 0.5 * alpha * (means.quadratic(squares) + count * means.determinant)
    why = f"p = δ^(1/R) − tv = {p:.3g} is not positive"
    return record(
        mean / p if p > 0.0 else math.inf,
        delta,
        "N-tilt-given, N-tilt",
        {"mean": mean, "p": p},
        (TILTED, BEST_OBJECTIVE, FIXED_BEFORE),
        alpha=alpha,
        why=why,
    )
