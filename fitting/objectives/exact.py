"""The exact Gaussian process: F = Σ_p log N(y_p; 0, K + σ²I) and, below, functions of expected losses.

K̄ = ½[Σ_p t_pt_pᵀ − P(K + σ²I)⁻¹], t = (K + σ²I)⁻¹Y.  Only the lower triangles of the symmetric matrices are computed,
by the chunks of rows of `gpbounds.exact.Triangle`: the matrix C with 2K̄ below the diagonal and K̄ on it replaces K̄.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fitting.objectives.losses import ExpectedLoss
from fitting.objectives.point import Evaluation, Gradient, Price
from fitting.prior_means import PriorMean, derivatives
from gpbounds.arrays import Array, host, namespace
from gpbounds.errors import NonFinite, NotPositiveDefinite
from gpbounds.exact import Exact, Triangle, exact
from gpbounds.kernels import Kernel
from gpbounds.kernels.covariances import pull as pull_kernel
from gpbounds.linalg import Cholesky
from gpbounds.linalg.inverses import Inverse, Whole, inverse_by_rows
from gpbounds.linalg.parallel import ENTRY, one_blas_thread
from gpbounds.linalg.products import add_product, product
from gpbounds.linalg.triangular import clear_above
from gpbounds.linalg.workspace import Workspace
from gpbounds.numerics.scalars import log1p_residual


def log_evidence(
    kernel: Kernel,
    X: Array,
    Y: Array,
    *,
    noise: float,
    gradient: bool = True,
    space: Workspace | None = None,
    prior_mean: PriorMean | None = None,
) -> Evaluation:
    """F and its derivatives, from checked float64 arrays, Y (N, P); ``space`` is memory that later calls may reuse.

    With a ``prior_mean`` Hβ, Y are the targets minus Hβ, and the derivatives in β are HᵀT, T = (t_p).

    >>> from gpbounds.kernels import SquaredExponential
    >>> X, Y = np.array([[0.0], [1.0], [2.0]]), np.array([[1.0], [0.5], [-0.5]])
    >>> round(log_evidence(SquaredExponential(), X, Y, noise=0.1).value, 4)  # gpbounds.renyi.log_evidence
    -3.2002
    """
    P, xp = Y.shape[1], namespace(Y)
    gp = exact(kernel, X, Y, noise=noise, space=space)
    value, triangle = gp.log_evidence, gp.triangle
    if not gradient:
        return Evaluation(value, None)
    weights = gp.weights
    inverse = inverse_by_rows(gp.chol.L)
    turned, pulled = xp.ascontiguousarray(weights.T), [(0.0, np.zeros(0))] * len(triangle.parts)

    def pull(number: int, rows: slice, worker: int) -> None:
        steps = xp.arange(rows.stop - rows.start)
        cotangent = inverse.rows(number, worker)
        cotangent *= -P
        add_product(weights[rows], turned[:, : rows.stop], cotangent)
        corner = cotangent[:, rows]
        clear_above(corner)
        corner[steps, steps] *= 0.5
        trace = float(corner.trace())
        pulled[number] = trace, pull_kernel(kernel, X[rows], X[: rows.stop], cotangent, triangle.chunks[number])[0]

    N = Y.shape[0]
    triangle.each(pull, N**3 / 3.0 + ENTRY * N**2 / 2.0)
    trace, parameters = sum(t for t, _ in pulled), np.sum([p for _, p in pulled], axis=0)
    in_mean = None if prior_mean is None else derivatives(prior_mean.pulled(X, weights))
    return Evaluation(value, Gradient(parameters, np.array([noise * trace]), prior_mean=in_mean))


# Any function J of a sum of expected losses over the data and of KL(Q‖P), where Q is the exact GP posterior.
#
# PAC-Bayes bounds of the exact GP are trained with it.  O(N³) time, O(N²) memory; small terms keep their digits.
#
# With Σ = K + σ²I, A = Σ⁻¹, P = σ²A, E = I − P and t = Ay, the posterior at the data has means m = Ey, latent variances
# s = σ²·diag E, and (P-22, P-23)
#
#     KL = ½[log|I + K/σ²| − tr E + tᵀm].
#
# From the Cholesky factors L of Σ and L⁻¹, with a_i = (K_ii − Σ_{j<i} L_ij²)/σ² and q_i = σ² Σ_{k>i} (L⁻¹)_ki²,
#
#     E_ii = a_i/(1 + a_i) − q_i,   log|I + K/σ²| − tr E = Σ_i [log(1 + a_i) − a_i/(1 + a_i)] + Σ_i q_i,
#
# so that σ² − σ²P_ii, in which log10(σ²/s_i) digits would cancel, is never formed.  Where all variances are equal, the
# remaining difference loses at most log10(N + 1) digits, since E_ii ≥ (K_ii/σ²)/(1 + tr K/σ²).  m is computed as KAy
# where σ² ≥ tr K, and as y − σ²t elsewhere.
#
# With m̄, s̄ and k the derivatives of J in m, s and KL, g = Pm̄ + (k/2)(2Pt − t), D = diag(s̄σ² − k/2), w = σ²Et:
#
#     K̄ = [PDP + (k/2)P]/σ² + ½(tgᵀ + gtᵀ),
#     ∂J/∂log σ² = Σ_i D_i (E²)_ii − (m̄ + kt)ᵀw,
#
# the second because ⟨K̄, K⟩ and the explicit dependence on σ² add up; (E²)_ii = E_ii² + Σ_{j≠i} P_ij².


@dataclass(frozen=True, eq=False)
class Fit:
    """Q at the data, and the matrices that its derivatives need.

    Attributes
    ----------
    given : Exact
        K + σ²I factorised.
    inverse : Inverse or Whole
        A = (K + σ²I)⁻¹, which `_pulled` writes into the memory of the factor.
    Pt : array (N,)
    mean, left : arrays (N,)
        m = Ey and w = σ²Et.
    gain : array (N,)
        E_ii = s_i/σ².
    kl : float
    """

    exact: Exact
    inverse: Inverse | Whole
    Pt: Array
    mean: Array
    w: Array
    gain: Array
    kl: float


def of_losses(
    kernel: Kernel,
    X: Array,
    Y: Array,
    loss: ExpectedLoss,
    price: Price,
    *,
    noise: float,
    gradient: bool = True,
    space: Workspace | None = None,
) -> Evaluation:
    """J of the exact GP posterior, and its derivatives in log kernel parameters and in log σ².

    Claims P-20, P-22, P-23 (Reeb et al., PAC-GP, Eqs. 5–8).  The losses are evaluated at *latent* variances.  Where
    K ≪ σ², all digits are correct; where K ≫ σ², s_i may be wrong by eps·λ_max (relatively: eps·λ_max/σ²) and KL by
    eps·(λ_max/σ²)·|y − m|²/σ², as the rounding of K itself implies.  No jitter is added: K may be singular.

    Parameters
    ----------
    kernel : Kernel
    X : array (N, D), NumPy or CuPy
        Checked float64, as are ``Y`` and ``noise``.
    Y : array (N, 1)
    loss : ExpectedLoss
        A loss without parameters of its own.
    price : Price
    noise : float
        σ² > 0.
    gradient : bool
        False for the value alone.
    space : Workspace, optional
        Memory for N²/2 + N² numbers; pass the same object to the next call.

    Raises
    ------
    NotPositiveDefinite
        where σ² is smaller than the rounding error of K.
    NonFinite
        for covariances that are not finite.

    >>> from fitting.bounds import Target
    >>> from fitting.objectives.losses import of_loss
    >>> from gpbounds.kernels import SquaredExponential
    >>> from gpbounds.losses import Band
    >>> x, target = np.linspace(0.0, 6.0, 100)[:, None], Target(Band(0.5), 100, delta=0.01)
    >>> result = of_losses(SquaredExponential(), x, np.sin(x), of_loss(target.loss), target, noise=0.1)
    >>> round(result.kl, 4), round(result.value, 4), round(result.gradient.noise, 4)
    (12.8729, 0.1821, -0.0276)
    """
    with np.errstate(over="ignore", invalid="ignore", under="ignore"), one_blas_thread():
        fit = _fit(exact(kernel, X, Y, noise=noise, space=space))
        losses = loss(Y, fit.mean[:, None], noise * fit.gain)
        total = float(losses.total)
        value, in_total, in_kl = price(total, fit.kl)
        slope = None
        if gradient:
            slope = _pulled(fit, in_total * losses.in_mean[:, 0], in_total * losses.in_variance, in_kl)
        return Evaluation(value, slope, total=total, kl=fit.kl)


def _fit(gp: Exact) -> Fit:
    triangle, chol, noise, y = gp.triangle, gp.chol, gp.noise, gp.Y[:, 0]
    xp, t = namespace(y), gp.weights[:, 0]
    Pt = noise * chol.solve(t)
    diagonal = triangle.kernel.diag(triangle.X)
    if noise >= float(diagonal.sum()):  # y − σ²t would cancel
        mean, w = _times(triangle, t), _times(triangle, Pt)
    else:
        mean, w = y - noise * t, noise * (t - Pt)
    gain, volume, inverse = _variances(triangle, chol, diagonal, noise)
    kl = 0.5 * volume + 0.5 * float(t @ mean)
    if not bool(xp.isfinite(gain).all()) or not np.isfinite(kl):
        raise NonFinite(
            f"KL: expected a finite number, got {kl}: at noise {noise:.3g} and variances up to "
            f"{float(diagonal.max()):.3g} it exceeds double precision. Rescale y, or bound the noise from below."
        )
    if float(gain.min()) <= 0.0:
        raise NotPositiveDefinite(
            f"noise: expected latent variances > 0, got {noise * float(gain.min()):.3g} in row {int(gain.argmin())}: "
            f"noise {noise:.3g} is below the rounding error of K, whose variances reach {float(diagonal.max()):.3g}. "
            "Raise the noise or its lower bound, or shorten the lengthscale."
        )
    return Fit(gp, inverse, Pt, mean, w, gain, kl)


def _times(triangle: Triangle, v: Array) -> Array:
    """Kv, from the lower triangle."""
    result = namespace(v).zeros_like(v)
    for rows, K in zip(triangle.parts, triangle.chunks, strict=True):
        result[rows] += K @ v[: rows.stop]
        result[: rows.start] += K[:, : rows.start].T @ v[rows]
    return result


def _variances(
    triangle: Triangle, chol: Cholesky, diagonal: Array, noise: float
) -> tuple[Array, float, Inverse | Whole]:
    """E_ii, log|I + K/σ²| − tr E, and A."""
    a = (diagonal - _squares(triangle, chol.L)) / noise
    inverse = inverse_by_rows(chol.L)
    q = noise * inverse.squares()
    large = host(a)
    share = large / (1.0 + large)
    volume = np.where(large < 1.0, log1p_residual(-share), np.log1p(large) - share)
    return a / (1.0 + a) - q, float(volume.sum()) + float(q.sum()), inverse


def _squares(triangle: Triangle, T: Array) -> Array:
    """Sums of squares of each row of a lower triangular ``T``, without its diagonal."""
    xp = namespace(T)
    sums = xp.empty(T.shape[0])

    def add(number: int, rows: slice, worker: int) -> None:
        steps = xp.arange(rows.stop - rows.start)
        squares = T[rows, : rows.stop] ** 2
        squares[steps, rows.start + steps] = 0.0
        sums[rows] = squares.sum(axis=1)

    triangle.each(add, 4.0 * T.shape[0] ** 2)
    return sums


def _pulled(fit: Fit, in_mean: Array, in_variance: Array, in_kl: float) -> Gradient:
    xp, triangle, noise, t = namespace(in_mean), fit.exact.triangle, fit.exact.noise, fit.exact.weights[:, 0]
    g = noise * fit.exact.chol.solve(in_mean) + 0.5 * in_kl * (2.0 * fit.Pt - t)
    w, right = xp.stack([t, g], axis=1), xp.stack([g, t])
    A = fit.inverse.fill()
    weights = xp.stack([in_variance, xp.ones_like(in_variance)], axis=1)
    D = noise * in_variance - 0.5 * in_kl
    squared, diagonal, parts = xp.empty_like(t), xp.empty_like(t), [np.zeros(0)] * len(triangle.parts)

    def pull(number: int, rows: slice, worker: int) -> None:
        steps = xp.arange(rows.stop - rows.start)
        diagonal_of_P = A[rows][steps, rows.start + steps] * noise
        work = A[rows] * noise
        work *= work
        work[steps, rows.start + steps] = 0.0
        sums = work @ weights
        squared[rows] = fit.gain[rows] ** 2 + sums[:, 1]
        diagonal[rows] = diagonal_of_P * diagonal_of_P * in_variance[rows] + sums[:, 0] + t[rows] * g[rows]
        diagonal[rows] += (0.5 * in_kl / noise) * (diagonal_of_P * fit.gain[rows] - sums[:, 1])
        xp.multiply(A[rows], 2.0 * noise * D, out=work)
        work[steps, rows.start + steps] += in_kl
        cotangent = product(work, A[:, : rows.stop], xp.empty((len(steps), rows.stop)))
        add_product(w[rows], right[:, : rows.stop], cotangent)
        corner = cotangent[:, rows]
        corner[...] = xp.tril(corner, -1)
        X = triangle.X
        parts[number] = pull_kernel(triangle.kernel, X[rows], X[: rows.stop], cotangent, triangle.chunks[number])[0]

    N = t.shape[0]
    triangle.each(pull, N**3 + ENTRY * N**2 / 2.0)
    by_noise = float(D @ squared) - float((in_mean + in_kl * t) @ fit.w)
    in_kernel = np.sum(parts, axis=0) + triangle.kernel.pull_diag(triangle.X, diagonal)
    return Gradient(in_kernel, np.array([by_noise]))
