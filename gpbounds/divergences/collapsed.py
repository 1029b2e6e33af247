"""The sparse posteriors of FITC, VFE, DTC and of every other power, from data: streamed, O(NM²) time, O(M²) memory."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from gpbounds.arrays import EPS, Array, as_points, namespace
from gpbounds.divergences.predictions import PriorMean, absolute_error, double, mean_at, vector
from gpbounds.divergences.rounding import Errors, Rounding, norm
from gpbounds.divergences.sparse import SparsePosterior
from gpbounds.kernels import Kernel
from gpbounds.linalg import Jitter, cholesky
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
    lift, drift, ratio : float
        The largest |w_i|²/D_i and |w_i||δ_i|/D_i, w = L⁻ᵀV (0 for p = 0), and the largest k(x_i, x_i)/D_i.
    """

    N: int
    G: Array
    b: Array
    fit: float
    columns: float
    lift: float
    drift: float
    ratio: float

    def __add__(self, other: CollapsedSums) -> CollapsedSums:
        return CollapsedSums(
            self.N + other.N,
            self.G + other.G,
            self.b + other.b,
            self.fit + other.fit,
            self.columns + other.columns,
            max(self.lift, other.lift),
            max(self.drift, other.drift),
            max(self.ratio, other.ratio),
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
        diagonal = whitener.kernel.diag(X)
        deltas = Rounding.of(whitener, self.entry_error).of_columns(xp.sqrt(diagonal))
        if self.power == 0.0:
            G, b, lift, drift = white.gram / self.noise, white.projected / self.noise, 0.0, 0.0
        else:
            G, b, lift, drift = _weighted(white, r, D, deltas, chunk)
        columns = norm(deltas / xp.sqrt(D)) ** 2
        largest = float((diagonal / D).max())
        return CollapsedSums(white.N, G, b, float((r * r / D).sum()), columns, lift, drift, largest)

    def posterior(self, whitener: Inducing, sums: CollapsedSums, prior_mean: PriorMean = None) -> SparsePosterior:
        """Q from the sums over all rows."""
        G, b, M = sums.G, sums.b, whitener.M
        xp = namespace(G)
        turned = cholesky((xp.eye(M) + G)[::-1, ::-1], name="I + V(pΛ + σ²I)⁻¹Vᵀ")
        C = xp.ascontiguousarray(turned.solve_lower(xp.eye(M)).T[::-1, ::-1])  # A = UUᵀ, C = U⁻ᵀ
        mu = C @ (C.T @ b)
        errors = _errors(self, whitener, sums, mu, C)
        return SparsePosterior(whitener, mu, C, prior_mean, errors, self.entry_error)


def _weighted(white: Whitening, r: Array, D: Array, deltas: Array, chunk: int) -> tuple[Array, Array, float, float]:
    """VD⁻¹Vᵀ, VD⁻¹r, and the largest |w_i|²/D_i and |w_i||δ_i|/D_i, w = L⁻ᵀV."""
    xp = namespace(r)
    roots, G, b = xp.sqrt(D), xp.zeros((white.M, white.M)), xp.zeros(white.M)
    lift = drift = 0.0
    for rows, V in white.inducing.chunks(white.X, chunk):
        V /= roots[rows]
        G += V @ V.T  # a product of an array with itself: BLAS makes it a symmetric rank-k update
        b += V @ (r[rows] / roots[rows])
        w = white.inducing.lift(V)
        squares = xp.einsum("ij,ij->j", w, w)
        lift = max(lift, float(squares.max()))
        drift = max(drift, float((xp.sqrt(squares) * deltas[rows] / roots[rows]).max()))
    return G, b, lift, drift


def _errors(law: CollapsedLaw, inducing: Inducing, sums: CollapsedSums, mu: Array, C: Array) -> Errors:
    """First-order changes by E, by δ of each column, by η of D = pΛ + σ²I, relatively, and by g of A = I + G.

    η is p times the change of Λ over D: by E and δ, which move Λ by |w|²|E| + 2|w||δ|, by an entry of diag K, and by
    rounding, (2M + 4) eps k(x, x).

    With Ṽ = VD^(−½), |CᵀṼ| ≤ 1, ρ = |D^(−½)(r − Vᵀμ)|, δ̃ = √Σ|δ_i|²/D_i and T = L⁻ᵀ(I − A⁻¹):
    mean at x:  |CᵀV| [|E||H||e| + δ̃(|H|ρ + |e|) + ηρ + g|μ| + g'], g' the rounding of VD⁻¹r;
    |CᵀV|²:     |CᵀV|² [|E||H|² + 2δ̃|H| + η + g];
    KL:         ½|E||T|² + |E||e|(½|e| + |L⁻ᵀA⁻¹μ|) + δ̃(|H| + |L⁻ᵀA⁻¹μ|ρ + |Cᵀμ||e|)
                + (½ tr(A⁻¹ − A⁻²) + |A⁻¹μ||μ|)g + ½η|I − A⁻¹|² + |Cᵀμ|ηρ + |A⁻¹μ|g'.
    """
    rounding = Rounding.of(inducing, law.entry_error)
    xp, N, M, G, b, fit = namespace(C), sums.N, inducing.M, sums.G, sums.b, sums.fit
    rho = float(np.sqrt(max(fit - float(mu @ (2.0 * b - G @ mu)), 0.0) + 1e-12 * fit))
    S, trace = C @ C.T, float(G.trace())
    bend = max(norm(C) ** 2 - norm(S) ** 2, 0.0)
    rest = xp.eye(M) - S
    H, e, size, T = norm(inducing.lift(C)), norm(inducing.lift(mu)), norm(mu), norm(inducing.lift(rest))
    shrunk, along = S @ mu, norm(C.T @ mu)
    again = norm(inducing.lift(shrunk))
    E, columns = rounding.E, float(np.sqrt(sums.columns))
    eta = law.power * (sums.lift * E + 2.0 * sums.drift + law.entry_error / law.noise)
    eta += max(law.power, 1.0) * (2.0 * M + 4.0) * EPS * sums.ratio + 4.0 * EPS
    g = float((4.0 + np.sqrt(N) + np.sqrt(M)) * EPS * (1.0 + trace))
    g_fit = float((4.0 + np.sqrt(N)) * EPS * np.sqrt(trace * fit))
    mean = E * H * e + columns * (H * rho + e) + eta * rho + g * size + g_fit
    variance = E * H * H + 2.0 * columns * H + eta + g
    kl = 0.5 * E * T * T + E * e * (0.5 * e + again) + columns * (H + again * rho + along * e)
    kl += 0.5 * g * bend + 0.5 * eta * norm(rest) ** 2 + norm(shrunk) * (size * g + g_fit) + along * eta * rho
    margin = 1.5 if max(variance, E * T * T) < 0.1 else np.inf  # beyond this, the first order is not enough
    return Errors(
        rounding,
        weights=e,
        size=size,
        kl=margin * kl if kl > 0.0 else 0.0,
        mean_half=margin * mean if mean > 0.0 else 0.0,
        variance_half=margin * variance,
    )
