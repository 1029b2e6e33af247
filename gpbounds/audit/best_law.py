"""The best Gaussian law of the inducing variables for a log-concave likelihood, and the ELBO of any law."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from gpbounds.arrays import Float, as_host_points
from gpbounds.audit.model import LatentSubject
from gpbounds.divergences import SparsePosterior
from gpbounds.divergences.sparse import as_sparse, whitened_at
from gpbounds.errors import NotPositiveDefinite
from gpbounds.law import FactorLaw, gram_law
from gpbounds.linalg import Jitter
from gpbounds.validation import instance
from gpbounds.whitening import Inducing, inducing

STEPS, HALVINGS = 60, 8
ENOUGH = 1e-7
"""A step that gains less than this share of a nat ends the search."""
STORED = 5e7
"""Up to so many entries V = L⁻¹k(Z, X) is stored; beyond, it is computed again for each step."""


@dataclass(frozen=True, eq=False)
class TrainedLaw:
    """A posterior q with its ELBO.

    Attributes
    ----------
    posterior : SparsePosterior
    elbo : float
        Σ E_q log p(y_i|f_i) − KL(q‖prior): at most log p(y) for any q.  In doubles, without a proved error.
    """

    posterior: SparsePosterior
    elbo: float


class _Rows:
    """The rows of a model, whitened by chunks."""

    def __init__(self, about: LatentSubject, points: Inducing) -> None:
        self.about, self.points = about, points
        self.diagonal = about.kernel.diag(about.X)
        small = float(about.N) * points.M <= STORED
        self._kept = list(points.chunks(about.X)) if small else None

    def chunks(self) -> Iterator[tuple[slice, Float]]:
        return iter(self._kept) if self._kept is not None else self.points.chunks(self.about.X)

    def moments(self, law: FactorLaw) -> tuple[Float, Float]:
        """Means and variances of f at the rows."""
        mean, variance = np.empty(self.about.N), np.empty(self.about.N)
        for rows, V in self.chunks():
            half = law.half(V)
            left = np.maximum(self.diagonal[rows] - np.einsum("ij,ij->j", V, V), 0.0)
            mean[rows] = self.about.offset[rows] + V.T @ law.mean[:, 0]
            variance[rows] = left + np.einsum("ij,ij->j", half, half)
        return mean, variance

    def elbo(self, law: FactorLaw) -> tuple[float, Float, Float, Float]:
        """The ELBO; and E ℓ', −E ℓ'' and means less the offset at the rows."""
        about = self.about
        mean, variance = self.moments(law)
        value, slope, by_variance = about.likelihood.expected_log_density(about.y, mean, variance, gradient=True)
        return float(value.sum()) - law.kl, slope, np.maximum(-2.0 * by_variance, 0.0), mean - about.offset

    def natural(self, weights: Float, pseudo: Float) -> tuple[Float, Float]:
        """VΛVᵀ and V·``pseudo``."""
        M = self.points.M
        gram, projected = np.zeros((M, M)), np.zeros(M)
        for rows, V in self.chunks():
            gram += (V * weights[rows]) @ V.T
            projected += V @ pseudo[rows]
        return gram, projected


def elbo_of(about: LatentSubject, posterior: SparsePosterior) -> float:
    """The ELBO of ``posterior``: Σ E_q log p(y_i|f_i) − KL(q‖prior) ≤ log p(y), in doubles without a proved error.

    >>> from gpbounds.audit.model import latent_subject
    >>> from gpbounds.divergences import whitened_posterior
    >>> from gpbounds.kernels import SquaredExponential
    >>> from gpbounds.likelihoods import Bernoulli
    >>> q = whitened_posterior(SquaredExponential(), [0.0], [0.0], [[1.0]], jitter=0.0)
    >>> about = latent_subject(SquaredExponential(), Bernoulli("logit"), [0.0], [1], [0.0], posterior=q)
    >>> round(elbo_of(about, q), 6)  # −E log(1 + e^−f), f ~ N(0, 1)
    -0.806059
    """
    instance("about", about, LatentSubject, "what gpbounds.audit.latent_subject returns")
    as_sparse(posterior)
    law = FactorLaw(posterior.mean[:, None], posterior.factor)
    return _Rows(about, posterior.inducing).elbo(law)[0]


def best_law(
    about: LatentSubject, Z: Float, jitter: Jitter = "auto", start: SparsePosterior | None = None
) -> TrainedLaw:
    """The Gaussian q(u) with inducing inputs Z that maximises the ELBO, with kernel and likelihood fixed.

    Natural-gradient steps: S⁻¹ ← I + VΛVᵀ with Λ_ii = −E ℓ_i''(f_i), S⁻¹m ← V(E ℓ' + ΛVᵀm), halved while the ELBO does
    not grow; each is O(NM²).  Where they end is no assumption of any bound: these hold for every q.

    Parameters
    ----------
    about : LatentSubject
    Z : array (M, D)
    jitter : float or "auto"
        Added to the diagonal of Kuu.
    start : SparsePosterior, optional
        A law whose inducing inputs are the first ones of Z.

    Raises
    ------
    NotPositiveDefinite
        when Kuu does not factorise.

    >>> from gpbounds.audit.model import latent_subject
    >>> from gpbounds.kernels import SquaredExponential
    >>> from gpbounds.likelihoods import Poisson
    >>> X = np.linspace(0.0, 6.0, 30)[:, None]
    >>> about = latent_subject(SquaredExponential(), Poisson("exp"), X, np.round(2.0 + 2.0 * np.sin(X[:, 0])), X[::6])
    >>> round(best_law(about, about.Z).elbo, 3)
    -43.132
    """
    instance("about", about, LatentSubject, "what gpbounds.audit.latent_subject returns")
    if start is not None:
        as_sparse(start, "start")
    points = inducing(about.kernel, as_host_points(Z, "Z", about.D), jitter)
    rows = _Rows(about, points)
    mean, factor = np.zeros((points.M, 1)), np.eye(points.M)
    if start is not None:
        first = len(start.mean)
        mean[:first, 0], factor[:first, :first] = start.mean, start.factor
    law = FactorLaw(mean, factor)
    value, slope, weights, latent = rows.elbo(law)
    gram, projected = _precision(law)
    for _ in range(STEPS):
        there = rows.natural(weights, slope + weights * latent)
        step, gained = 1.0, 0.0
        for _ in range(HALVINGS):
            mixed = [(1.0 - step) * old + step * new for old, new in zip((gram, projected), there, strict=True)]
            after = _stepped(rows, *mixed)
            if after is not None and after[1][0] >= value:
                gained = after[1][0] - value
                law, (value, slope, weights, latent) = after
                gram, projected = mixed
                break
            step *= 0.5
        if gained <= ENOUGH:
            break
    return TrainedLaw(whitened_at(points, law.mean[:, 0], law.factor, None, 0.0), value)


def _precision(law: FactorLaw) -> tuple[Float, Float]:
    """S⁻¹ − I and S⁻¹m."""
    from gpbounds.linalg.triangular import inverse_factor

    half = inverse_factor(law.factor)
    precision = half.T @ half
    return precision - np.eye(law.M), precision @ law.mean[:, 0]


def _stepped(rows: _Rows, gram: Float, projected: Float) -> tuple[FactorLaw, tuple[float, Float, Float, Float]] | None:
    """The law with these natural parameters and its ELBO; None where it has none in doubles."""
    try:
        law = gram_law(gram, projected[:, None])
        stepped = FactorLaw(law.mean, law.factor)
        with np.errstate(over="ignore", invalid="ignore"):
            after = rows.elbo(stepped)
    except (NotPositiveDefinite, ArithmeticError, ValueError):
        return None
    return (stepped, after) if np.isfinite(after[0]) else None
