"""The best sparse posteriors of FITC, VFE, DTC and between, from data: streamed, O(NM²) time, O(M²) memory."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from gpbounds.arrays import Array, as_points, namespace
from gpbounds.divergences.predictions import (
    EPS,
    PriorMean,
    absolute_error,
    double,
    mean_at,
    noise_variance,
    one_number,
    vector,
)
from gpbounds.divergences.sparse import Errors, Rounding, SparsePosterior
from gpbounds.kernels import Kernel
from gpbounds.psd import Jitter, cholesky
from gpbounds.validation import closed_unit
from gpbounds.whitening import CHUNK, Whitening, whiten


def collapsed_posterior(
    kernel: Kernel,
    X: ArrayLike | Array,
    y: ArrayLike | Array,
    Z: ArrayLike | Array,
    noise: float,
    alpha: float,
    *,
    prior_mean: PriorMean = None,
    jitter: Jitter = 0.0,
    entry_error: float = 0.0,
    chunk: int = CHUNK,
) -> SparsePosterior:
    """The posterior of the inducing variables under FITC (α = 1), VFE and DTC (α = 0), and between.

    a = m_M + KuuP⁻¹Kuf D⁻¹r,  B = KuuP⁻¹Kuu,  P = Kuu + Kuf D⁻¹Kfu,  D = αΛ + σ²I,  Λ = diag(K − Q),  r = y − m;
    KL(Q‖P) = ½Σ[log(1 + x_i) − x_i/(1 + x_i)] + ½|μ|²,  x_i the eigenvalues of VD⁻¹Vᵀ.

    Claims P-25, P-26, P-27 (Reeb et al., PAC-GP, Eqs. 9–11; Eq. 11 leaves the prior mean out of a).  Q is the exact
    posterior of the model y|u ~ N(m + KfuKuu⁻¹(u − m_M), D).  Z = X gives the exact GP for every α, and its KL (P-22).
    Whitened: μ = A⁻¹VD⁻¹r, CCᵀ = A⁻¹, A = I + VD⁻¹Vᵀ, V = L⁻¹Kuf.

    Parameters
    ----------
    kernel : Kernel
    X : array (N, D), NumPy or CuPy
    y : array (N,)
    Z : array (M, D)
    noise : float
        σ², in squared units of y.
    alpha : float
        In [0, 1].
    prior_mean : function, optional
        m(x) of points (n, D), giving (n,).
    jitter : float or "auto"
        On Kuu, in the posterior, its KL and its predictions alike.
    entry_error : float
        What the kernel's values may be off by, absolutely.
    chunk : int
        Rows of X at a time.

    Raises
    ------
    ValueError, NonFinite
        for wrong arguments.
    NotPositiveDefinite
        when Kuu does not factorise.

    >>> from gpbounds.kernels import SquaredExponential
    >>> X, y = [0.0, 1.0, 2.0], [1.0, 0.5, -0.5]
    >>> q = collapsed_posterior(SquaredExponential(), X, y, [0.0, 2.0], 0.1, 1.0)
    >>> round(q.kl, 6), q.predict(X).mean.round(4), q.predict(X).variance.round(4)
    (2.112999, array([ 0.9268,  0.272 , -0.4177]), array([0.086 , 0.3989, 0.086 ]))
    """
    points = double(as_points(X, "X"), "X")
    centres = double(as_points(Z, "Z", points.shape[1]), "Z")
    s2, power = noise_variance(noise), one_number("alpha", alpha, closed_unit)
    error = absolute_error(entry_error)
    r = vector("y", y, points) - mean_at(prior_mean, points)
    white = whiten(kernel, points, centres, r, jitter=jitter, chunk=chunk)
    D = power * white.residual + s2
    G, b = (white.gram / s2, white.projected / s2) if power == 0.0 else _weighted(white, r, D, chunk)
    xp, M = namespace(points), white.M
    turned = cholesky((xp.eye(M) + G)[::-1, ::-1], name="I + V(αΛ + σ²I)⁻¹Vᵀ")
    C = xp.ascontiguousarray(turned.solve_lower(xp.eye(M)).T[::-1, ::-1])  # A = UUᵀ, C = U⁻ᵀ
    mu = C @ (C.T @ b)
    errors = _errors(white, r, D, s2, power, mu, b, C, G, Rounding.of(white.inducing, error))
    return SparsePosterior(white.inducing, mu, C, prior_mean, errors, error)


def _weighted(white: Whitening, r: Array, D: Array, chunk: int) -> tuple[Array, Array]:
    """VD⁻¹Vᵀ and VD⁻¹r."""
    xp = namespace(r)
    roots, G, b = xp.sqrt(D), xp.zeros((white.M, white.M)), xp.zeros(white.M)
    for rows, V in white.inducing.chunks(white.X, chunk):
        V /= roots[rows]
        G += V @ V.T  # the same array twice: a symmetric rank-k update
        b += V @ (r[rows] / roots[rows])
    return G, b


def _errors(
    white: Whitening,
    r: Array,
    D: Array,
    noise: float,
    alpha: float,
    mu: Array,
    b: Array,
    C: Array,
    G: Array,
    rounding: Rounding,
) -> Errors:
    """First-order changes of μ, CCᵀ = A⁻¹ and the KL by what rounding does to Ṽ = VD^(−½), ρ̃ = D^(−½)r, G = ṼṼᵀ.

    Ṽ → (I + F)Ṽ + Δ:  |dμ| ≤ 2|F||μ| + |Δ|(ρ + |μ|/2), ρ = |ρ̃ − Ṽᵀμ|, for |A⁻¹Ṽ| ≤ ½, |A⁻¹G| ≤ 1;
    D → D(1 + η):      |dμ| ≤ ηρ/2;
    G → G + g:         |dμ| ≤ g|μ|, and g is (4 + √N + √M) eps (1 + Tr G); likewise b;
    and dKL = ½tr((A⁻¹ − A⁻²)dG) + μᵀdμ.
    """
    xp, N, M = namespace(r), white.N, white.M
    size, fit = float(xp.sqrt(mu @ mu)), float((r * r / D).sum())
    rho = float(np.sqrt(max(fit - float(mu @ (2.0 * b - G @ mu)), 0.0) + 1e-12 * fit))
    trace = float(G.trace())
    S = C @ C.T
    bend = max(float((C * C).sum()) - float((S * S).sum()), 0.0)  # tr(A⁻¹ − A⁻²)
    columns = rounding.of_columns(xp.sqrt(white.inducing.kernel.diag(white.X))) - rounding.F
    delta = float(xp.sqrt(((xp.maximum(columns, 0.0)) ** 2 / D).sum()))
    spread = float(white.inducing.kernel.max_variance)
    eta = alpha * (2.0 * np.sqrt(spread) * float(rounding.of_columns(np.sqrt(spread))) + M * EPS * spread) / noise
    eta += 4.0 * EPS
    g = (4.0 + np.sqrt(N) + np.sqrt(M)) * EPS * (1.0 + trace)
    F = rounding.F
    mean = 2.0 * F * size + delta * (rho + 0.5 * size) + 0.5 * eta * rho + g * size
    mean += (4.0 + np.sqrt(N)) * EPS * np.sqrt(trace * fit)
    covariance = 2.0 * F + delta + 0.25 * eta + g
    kl = (F + 0.5 * delta) * np.sqrt(M) + 0.5 * (eta + g) * bend + size * mean
    largest = max(F, eta, g)
    margin = 1.5 if largest < 0.1 else np.inf
    return Errors(margin * mean, margin * covariance, margin * kl)
