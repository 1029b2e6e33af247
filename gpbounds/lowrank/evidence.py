"""Regression with given features: log p(y) and predictions of y ~ N(0, ΞΞᵀ + σ²I) in O(Nr²)."""

from __future__ import annotations

import math

from numpy.typing import ArrayLike

from gpbounds.arrays import Array, namespace
from gpbounds.law import GramLaw, gram_law, root_law, strong
from gpbounds.linalg.matrices import finite_matrix
from gpbounds.linalg.products import gram
from gpbounds.validation import noise_variance
from gpbounds.whitening import as_targets


def log_evidence(features: ArrayLike | Array, y: ArrayLike | Array, *, noise: float) -> float:
    """log N(y; 0, ΞΞᵀ + σ²I) in nats, summed over outputs, from features Ξ of any rank r.

    With B = σ²I + ΞᵀΞ, w = B⁻¹Ξᵀy and e = y − Ξw,

        log p(y) = −½[|e|²/σ² + |w|² + (N − r) log σ² + log|B| + N log 2π]:

    yᵀ(ΞΞᵀ + σ²I)⁻¹y is a sum of squares, without the cancellation of |y|² − yᵀΞw.  Claims L-02, L-03, L-12.
    O(Nr²) time.

    Parameters
    ----------
    features : array (N, r), NumPy or CuPy
        Ξ.
    y : array (N,) or (N, P)
    noise : float
        σ² > 0, in squared units of y.

    Raises
    ------
    ValueError, NonFinite
        for wrong shapes, noise <= 0, NaN or infinity.
    NotPositiveDefinite
        if B/σ² does not factorise.

    >>> round(log_evidence([[1.0], [0.5]], [1.0, -0.5], noise=0.1), 6)
    -5.003303
    """
    Xi, targets, q, s2 = _law(features, y, noise)
    Y = targets.reshape(len(Xi), -1)
    e = Y - Xi @ q.mean
    fit = float((e * e).sum()) / s2 + float((q.mean * q.mean).sum())
    return -0.5 * (Y.shape[1] * (q.chol.logdet + len(Xi) * math.log(2.0 * math.pi * s2)) + fit)


def predict(
    features: ArrayLike | Array,
    y: ArrayLike | Array,
    features_new: ArrayLike | Array,
    *,
    noise: float,
    full_cov: bool = False,
    noisy: bool = False,
) -> tuple[Array, Array]:
    """Mean φ*ᵀw and latent variance σ²φ*ᵀB⁻¹φ* at new rows φ*, given y ~ N(0, ΞΞᵀ + σ²I).

    Claims L-02, L-03, L-12.

    Parameters
    ----------
    features, y, noise : as in `log_evidence`
    features_new : array (N*, r)
        φ*.
    full_cov : bool
        True returns the covariance (N*, N*) instead of the variances (N*,); all outputs share it.
    noisy : bool
        True adds σ² to the variances.

    Returns
    -------
    mean : array (N*,), or (N*, P) where y was (N, P)
    variance : array (N*,), or covariance (N*, N*)

    Raises
    ------
    ValueError, NonFinite, NotPositiveDefinite
        as in `log_evidence`.

    >>> [part.round(6).tolist() for part in predict([[1.0], [0.5]], [1.0, -0.5], [[2.0]], noise=0.1)]
    [[1.111111], [0.296296]]
    """
    Xi, targets, q, s2 = _law(features, y, noise)
    new = _matrix("features_new", features_new)
    xp, shape = namespace(Xi, new), tuple(new.shape)
    if shape[1] != Xi.shape[1]:
        raise ValueError(f"features_new: expected shape (N*, {Xi.shape[1]}), as features have, got {shape}")
    V = new.T
    mean, spread = q.joint(V, xp.zeros((shape[0],) * 2)) if full_cov else q.moments(V, xp.zeros(shape[0]))
    if noisy:
        spread = spread + (s2 * xp.eye(shape[0]) if full_cov else s2)
    return (mean[:, 0] if targets.ndim == 1 else mean), spread


def _law(features: ArrayLike | Array, y: ArrayLike | Array, noise: float) -> tuple[Array, Array, GramLaw, float]:
    """Ξ, y, the posterior of the weights of the features, and σ²."""
    s2, Xi = noise_variance(noise), _matrix("features", features)
    targets = as_targets(y, Xi)
    Y, G = targets.reshape(len(Xi), -1), gram(Xi) / s2
    if strong(G):
        rows = namespace(Xi).concatenate([Xi, Y], axis=1) / math.sqrt(s2)
        return Xi, targets, root_law(G, rows), s2
    return Xi, targets, gram_law(G, Xi.T @ Y / s2), s2


def _matrix(name: str, values: ArrayLike | Array) -> Array:
    return finite_matrix(name, values, "shape (N, r) with r >= 1")
