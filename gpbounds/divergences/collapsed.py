"""The sparse posteriors of FITC, VFE, DTC and of every other power, from data: streamed, O(NM²) time, O(M²) memory."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from gpbounds.arrays import Array, as_points, namespace
from gpbounds.divergences.errors import (
    ENOUGH,
    MARGIN,
    Errors,
    Rounding,
    U,
    gamma,
    left_change,
    norm,
    reciprocal,
    square,
)
from gpbounds.divergences.predictions import PriorMean, absolute_error, double, mean_at, vector
from gpbounds.divergences.sparse import SparsePosterior
from gpbounds.kernels import Kernel
from gpbounds.kernels.base import as_kernel
from gpbounds.linalg import Jitter, cholesky
from gpbounds.linalg.parallel import GROUPS
from gpbounds.mapreduce.statistics import Statistics
from gpbounds.validation import noise_variance, non_negative, scalar
from gpbounds.whitening import CHUNK, Inducing, Whitening, inducing, whitened, with_jitter


def collapsed_posterior(
    kernel: Kernel,
    X: ArrayLike | Array,
    y: ArrayLike | Array,
    Z: ArrayLike | Array,
    *,
    noise: float,
    power: float,
    prior_mean: PriorMean = None,
    jitter: Jitter = "auto",
    entry_error: float = 0.0,
    chunk: int = CHUNK,
) -> SparsePosterior:
    """The posterior of the inducing variables for a power of K − Q: 1 is FITC, 0 VFE and DTC.

    a = m_M + KuuP⁻¹Kuf D⁻¹r,  B = KuuP⁻¹Kuu,  P = Kuu + Kuf D⁻¹Kfu,  D = pΛ + σ²I,  Λ = diag(K − Q),  r = y − m;
    KL(Q‖P) = ½Σ[log(1 + x_i) − x_i/(1 + x_i)] + ½|μ|²,  x_i the eigenvalues of VD⁻¹Vᵀ.

    Claims P-25, P-26, P-27 (Reeb et al., PAC-GP, Eqs. 9–11; Eq. 11 leaves the prior mean out of a).  Q is the exact
    posterior of the model y|u ~ N(m + KfuKuu⁻¹(u − m_M), D).  p is ``power``.  Z = X gives the exact GP for every p,
    and its KL (P-22).  Whitened: μ = A⁻¹VD⁻¹r, CCᵀ = A⁻¹, A = I + VD⁻¹Vᵀ, V = L⁻¹Kuf.

    Parameters
    ----------
    kernel : Kernel
    X : array (N, D), NumPy or CuPy
    y : array (N,)
    Z : array (M, D)
    noise : float
        σ², in squared units of y.
    power : float
        p ≥ 0.  Q is a posterior for p > 1, too, as pΛ + σ²I is then still positive.
    prior_mean : function, optional
        m(x) of points (n, D), giving (n,).
    jitter : float or "auto"
        Added to the diagonal of Kuu, in the posterior, its KL and its predictions; the result reports the amount.
    entry_error : float
        Bound on the absolute error of the kernel's values.
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
    >>> q = collapsed_posterior(SquaredExponential(), X, y, [0.0, 2.0], noise=0.1, power=1.0)
    >>> round(q.kl, 6), q.predict(X).mean.round(4), q.predict(X).variance.round(4)
    (2.112999, array([ 0.9268,  0.272 , -0.4177]), array([0.086 , 0.3989, 0.086 ]))
    """
    as_kernel(kernel)
    points = double(as_points(X, "X"), "X")
    centres = double(as_points(Z, "Z", points.shape[1]), "Z")
    r = vector("y", y, points) - mean_at(prior_mean, points)
    law = CollapsedLaw(noise_variance(noise), scalar(non_negative, "power", power), absolute_error(entry_error))

    def attempt(amount: float) -> tuple[Inducing, CollapsedSums]:
        whitener = inducing(kernel, centres, amount)
        return whitener, law.sums(whitener, points, r, chunk)

    return law.posterior(*with_jitter(attempt, kernel, centres, jitter), prior_mean)


@dataclass(frozen=True, eq=False)
class CollapsedSums(Statistics):
    """What the posterior and the bounds on its rounding need of some rows; ``+`` joins two sets of rows.

    Attributes
    ----------
    N : int
        Number of rows.
    G, b : arrays (M, M), (M,)
        VD⁻¹Vᵀ and VD⁻¹r, D = pΛ + σ².
    fit, columns : float
        Σ r_i²/D_i, and Σ |δ_i|²/D_i (`Rounding`).
    moved : float
        The largest |Λ̂_i − Λ_i|/D_i, 0 for p = 0.
    depth : int
        As many roundings at most follow each other in a sum.
    """

    N: int
    G: Array
    b: Array
    fit: float
    columns: float
    moved: float
    depth: int

    def __add__(self, other: CollapsedSums) -> CollapsedSums:
        return CollapsedSums(
            self.N + other.N,
            self.G + other.G,
            self.b + other.b,
            self.fit + other.fit,
            self.columns + other.columns,
            max(self.moved, other.moved),
            max(self.depth, other.depth) + 1,
        )


@dataclass(frozen=True)
class CollapsedLaw:
    """The law y|u ~ N(KfuKuu⁻¹u, pΛ + σ²I), of which Q(u) is the posterior.

    Attributes
    ----------
    noise, power : float
        σ² and p.
    entry_error : float
        Bound on the absolute error of the kernel's values.
    """

    noise: float
    power: float
    entry_error: float

    def sums(self, whitener: Inducing, X: Array, r: Array, chunk: int = CHUNK) -> CollapsedSums:
        """The sums over rows X (n, D) with r = y − m (n,)."""
        white = whitened(whitener, X, r, chunk)
        xp, D = namespace(r), self.power * white.residual + self.noise
        diagonal, of = whitener.kernel.diag(X), Rounding.of(whitener, self.entry_error)
        deltas = of.of_columns(xp.sqrt(diagonal))
        if self.power == 0.0:
            G, b, moved = white.gram / self.noise, white.projected / self.noise, 0.0
        else:
            G, b, moved = _weighted(white, r, D, of, self.entry_error, chunk)
        columns, fit = square(norm(deltas / xp.sqrt(D))), square(norm(r / xp.sqrt(D)))
        depth = min(chunk, white.N) + white.N // chunk + GROUPS
        return CollapsedSums(white.N, G, b, fit, columns, moved, depth)

    def posterior(self, whitener: Inducing, sums: CollapsedSums, prior_mean: PriorMean = None) -> SparsePosterior:
        """Q from the sums over all rows."""
        G, b, M = sums.G, sums.b, whitener.M
        xp = namespace(G)
        A = xp.eye(M) + G
        turned = cholesky(A[::-1, ::-1], name="I + V(pΛ + σ²I)⁻¹Vᵀ")
        C = xp.ascontiguousarray(turned.solve_lower(xp.eye(M)).T[::-1, ::-1])  # A = UUᵀ, C = U⁻ᵀ
        mu = C @ (C.T @ b)
        errors = _errors(self, whitener, sums, mu, C, turned.L[::-1, ::-1])
        return SparsePosterior(whitener, mu, C, prior_mean, errors, self.entry_error)


def _weighted(
    white: Whitening, r: Array, D: Array, of: Rounding, entry_error: float, chunk: int
) -> tuple[Array, Array, float]:
    """VD⁻¹Vᵀ, VD⁻¹r, and the largest |Λ̂_i − Λ_i|/D_i: by `left_change`, the entries of diag K, and rounding."""
    xp = namespace(r)
    roots, G, b = xp.sqrt(D), xp.zeros((white.M, white.M)), xp.zeros(white.M)
    moved = 0.0
    for rows, V in white.inducing.chunks(white.X, chunk):
        w = white.inducing.lift(V)
        k = white.inducing.kernel.diag(white.X[rows])
        lengths = of.lifted * xp.sqrt(xp.einsum("ij,ij->j", w, w))
        changes = left_change(of, lengths, of.of_columns(xp.sqrt(k))) + entry_error + 4.0 * of.steps * k
        moved = max(moved, float((changes / D[rows]).max()))
        V /= roots[rows]
        G += V @ V.T  # a product of an array with itself: BLAS makes it a symmetric rank-k update
        b += V @ (r[rows] / roots[rows])
    return G, b, moved


def _errors(law: CollapsedLaw, inducing: Inducing, sums: CollapsedSums, mu: Array, C: Array, factor: Array) -> Errors:
    """Changes by E, by δ of each column, by η of D = pΛ + σ²I, relatively, and by the rounding of A = I + G = UUᵀ, of
    its inverse and of μ: all orders (N-rounded-kl).

    With Ṽ = VD^(−½), ρ = |D^(−½)(r − Vᵀμ)|, δ̃ = √Σ|δ_i|²/D_i, h = |H|δ̃, ζ = η/(1 − η), B = I − CᵀC,
    T = L⁻ᵀ(I − CCᵀ) and q ≥ ‖CᵀṼ‖, the true A is C⁻ᵀ(I + Π)C⁻¹ and the true mean μ + Cs, where

        |Π| ≤ π = |E||H|² + (2qh + h²)(1 + ζ) + ζ|B| + g + c,
        |s| ≤ [|E||H||e| + hρ + (q + h)(δ̃|e| + ζ(ρ + δ̃|e|)) + g' + |Cᵀ(b − Aμ)|]/(1 − π) = s̄,

    g that of CᵀGC, g' that of Cᵀ(VD⁻¹r − Gμ), c that of C; and twice the change of the KL is at most
        |E||T|² + (2qh + h²)(1 + ζ) + ζ|B|² + (g + c)|B| + 4π² + |F|²
        + |E||e|² + 2s̄(|Cᵀμ| + |E||e||H|) + 1.3s̄².
    """
    of, M, G, b = Rounding.of(inducing, law.entry_error), float(inducing.M), sums.G, sums.b
    xp = namespace(C)
    S, size, spread = C @ C.T, norm(mu), norm(C)
    E, columns, H, e = of.E, float(np.sqrt(sums.columns)), of.lift(inducing, C), of.lift(inducing, mu)
    T, B = of.lift(inducing, xp.eye(inducing.M) - S), norm(xp.eye(inducing.M) - C.T @ C) + of.steps * spread**2
    T += of.steps * spread**2 * of.inverse
    # |dG|_jk ≤ γ Σ_i|V_ij||V_ik|/D_i ≤ γ d_j d_k, and |d(VD⁻¹r)|_j ≤ γ d_j √fit
    sloppy, d = gamma(sums.depth + M + 16.0), xp.sqrt(G.diagonal())
    c, cd, fit = _inverse_error(C, factor), norm(xp.abs(C.T) @ d), float(np.sqrt(sums.fit))
    rho = float(np.sqrt(max(sums.fit - float(mu @ (2.0 * b - G @ mu)), 0.0)))
    rho += float(np.sqrt(sloppy)) * (fit + float(d @ xp.abs(mu)))
    g = sloppy * (cd * cd + spread**2)
    g_fit = sloppy * (cd * (fit + float(d @ xp.abs(mu))) + spread * size)
    sizes = xp.abs(b) + xp.abs(mu) + xp.abs(G) @ xp.abs(mu)
    residual = norm(C.T @ (b - mu - G @ mu)) + 2.0 * of.steps * norm(xp.abs(C.T) @ sizes)
    eta = law.power * sums.moved + 4.0 * U
    zeta, h, q = eta * reciprocal(eta), H * columns, 1.0 + c + g
    crossed = (2.0 * q * h + h * h) * (1.0 + zeta)
    pi = E * H * H + crossed + zeta * B + g + c
    if not (pi <= ENOUGH and of.F <= ENOUGH and c <= ENOUGH):
        unknown = 0.0 if sums.fit == size == 0.0 else np.inf  # y = m has the mean m for every Kuu
        none = {"weights": unknown, "mean_half": unknown, "relative": np.inf, "d_delta": np.inf}
        return Errors(of, size=size, spread=spread, kl=np.inf, **none)
    step = E * H * e + h * rho + (q + h) * (columns * e + zeta * (rho + columns * e)) + g_fit + residual
    step *= reciprocal(pi)
    along = norm(C.T @ mu) + of.steps * spread * size
    kl = E * T * T + crossed + zeta * B * B + (g + c) * B + 4.0 * pi * pi + of.F * of.F
    kl += E * e * e + 2.0 * step * (along + E * e * H) + 1.3 * step * step
    return Errors(
        of,
        weights=e + H * step,
        size=size,
        spread=spread,
        kl=MARGIN * 0.5 * kl,
        mean_half=step,
        relative=pi,
        d_delta=H,
    )


def _inverse_error(C: Array, factor: Array) -> float:
    """At least ‖Cᵀ(I + G)C − I‖ for C ≈ U⁻ᵀ, U the computed factor of I + G: |UUᵀ − I − G| ≤ γ|U||Uᵀ|."""
    xp, M = namespace(C), float(C.shape[0])
    sizes = norm(xp.abs(C.T) @ xp.abs(factor)) * (1.0 + gamma(M + 4.0))
    off = norm(C.T @ factor - xp.eye(C.shape[0])) + gamma(M + 4.0) * sizes
    return MARGIN * (off * (2.0 + off) + gamma(M + 8.0) * sizes**2)
