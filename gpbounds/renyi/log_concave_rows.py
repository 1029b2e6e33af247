"""A Gaussian law q of f at the rows, and the Hermite series there of the derivatives of a log-concave likelihood."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gpbounds.arrays import Float
from gpbounds.errors import shown
from gpbounds.law import FactorLaw
from gpbounds.likelihoods import Likelihood
from gpbounds.linalg.residuals import inverse_norms
from gpbounds.numerics.hermite import Series
from gpbounds.whitening import CHUNK, Inducing, residual_diagonal

NOT_CONCAVE = (
    "expected one whose log density is proved concave in f (Bernoulli, Poisson, Gaussian), got {}: the inequality "
    "(N-fisher) needs it. What holds for any likelihood is ELBO ≤ log p(y), so that of two laws q the one with the "
    "larger ELBO is nearer to the posterior"
)


@dataclass(frozen=True, eq=False)
class AtRows:
    """q at the rows.

    Attributes
    ----------
    whitener : Inducing
    law : FactorLaw
        q(v) = N(w, CCᵀ).
    X : array (N, D)
    known : array (N,) of bool
        Rows where Δ is 0.
    prior, residual, variance, mean : arrays (N,)
        k(x, x), the diagonal of Δ, and the variance and mean of f under q.
    series : Series
        ℓ' of each row under q.
    pull : array (M,)
        Φᵀḡ − w.
    excess : array (M, M)
        BC, with B = S⁻¹ − I − ΦᵀΛΦ.
    """

    whitener: Inducing
    law: FactorLaw
    X: Float
    known: Any
    prior: Float
    residual: Float
    variance: Float
    mean: Float
    series: Series
    pull: Float
    excess: Float

    @property
    def N(self) -> int:
        """Number of rows."""
        return int(self.X.shape[0])

    def columns(self, rows: Any) -> tuple[Float, Float]:
        """(V, CᵀV) of some rows, (M, n) each."""
        V = self.whitener.whiten(self.X[rows])
        return V, self.law.half(V)


def latent_at(whitener: Inducing, X: Float, y: Float, likelihood: Likelihood, law: FactorLaw, offset: Float) -> AtRows:
    """`AtRows` by three passes over the rows, for targets y that the likelihood has checked.

    Raises
    ------
    ValueError
        for a likelihood that is not known to be log-concave.
    """
    N, M = len(X), whitener.M
    known, _ = whitener.known(X)
    prior, residual = np.asarray(whitener.kernel.diag(X), dtype=np.float64), np.empty(N)
    mean, variance = offset.copy(), np.empty(N)
    for rows, V in whitener.chunks(X):
        residual[rows] = np.where(known[rows], 0.0, residual_diagonal(prior[rows], V))
        means, variance[rows] = law.moments(V, residual[rows])
        mean[rows] += means[:, 0]
    parts = []
    for start in range(0, N, CHUNK):
        rows = slice(start, start + CHUNK)
        part = likelihood.slope_series(y[rows], mean[rows], np.maximum(variance[rows], 1e-300))
        if part is None:
            raise ValueError(f"likelihood: {NOT_CONCAVE.format(shown(likelihood))}")
        parts.append(part)
    series = Series.joined(parts)
    pull, curvature = -law.mean[:, 0].copy(), np.zeros((M, M))
    for rows, V in whitener.chunks(X):
        pull += V @ series.mean[rows]
        curvature += (V * -series.slope[rows]) @ V.T
    inverse, _, _ = inverse_norms(law.factor)
    excess = inverse.T - law.factor - curvature @ law.factor
    return AtRows(whitener, law, X, known, prior, residual, variance, mean, series, pull, excess)
