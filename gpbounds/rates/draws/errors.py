"""Bounds given y whose every rounding is enclosed: kernel entries, eigenvalues, eigenvectors and sums."""

from __future__ import annotations

import numpy as np

from gpbounds.arrays import EPS, Float, distinct_rows
from gpbounds.bound import ENCLOSED, Bound
from gpbounds.kdpp.mean_residual import ExpectedResidual
from gpbounds.kdpp.residual import expected_residual
from gpbounds.kdpp.streamed_residual import StreamedResidual
from gpbounds.kernels import Kernel
from gpbounds.kernels.errors import entry_errors
from gpbounds.linalg.errors import EnclosedEigen, enclosed_eigen
from gpbounds.rates.draws.given import tried, why_void
from gpbounds.rates.draws.rows import Rows
from gpbounds.rates.draws.sentences import BEST_OBJECTIVE, DRAWN, FIXED_BEFORE, TILTED, record
from gpbounds.rates.draws.tilted import tilted_means
from gpbounds.rigor import at_bits, below, exact


class EnclosedRows(Rows):
    """N rows with targets (N, P), and K decomposed with proved errors.

    Attributes
    ----------
    N, largest, outputs, variance : as in `gpbounds.rates.draws.rows.Rows`
    eigen : EnclosedEigen
    error : float
        ε, a bound on the distance of K from V diag(λ) Vᵀ.
    rank : int
        Number of distinct rows: K has no more eigenvalues that differ from 0.
    norm : float
        ‖Y‖_F, rounded up.
    up : float
        A factor that is greater than the effect of rounding on r_i, ρ_i, miss_i and sums of them.
    """

    def __init__(self, kernel: Kernel, X: Float, Y: Float) -> None:
        points = np.asarray(X, dtype=np.float64)
        K = np.asarray(kernel(points))
        self.N, self.outputs = Y.shape
        self.eigen: EnclosedEigen = enclosed_eigen(K, Y, entry_errors(kernel, points, K), "k(X, X)")
        self.rank = distinct_rows(points)
        self.largest = min(self.N - 1, self.rank)
        self.norm = float(np.linalg.norm(Y)) * (1.0 + 1e-10)
        self.variance = float(K.diagonal().max())
        # the rounding of λ + ε and λ − ε is part of the error
        self.error = self.eigen.error + EPS * float(self.eigen.values[0])
        self.up = 1.0 + 40.0 * (self.N + 100) * EPS

    @property
    def numerical_rank(self) -> int:
        """The number of eigenvalues that are proved to differ from 0."""
        return int((self.eigen.values > self.error).sum())

    def lower_eigenvalues(self) -> Float:
        """Lower bounds of the eigenvalues of K, decreasing."""
        return np.maximum(self.eigen.values - self.error, 0.0)

    def residual(self, M: int, noise: float) -> ExpectedResidual:
        """The mean residual with M points, from above up to ``up``."""
        self._checked(M)
        return expected_residual(self.eigen.values, M, noise=noise, rounding=self.error, rank=self.rank)

    def quadratic(self, residual: ExpectedResidual | StreamedResidual) -> float:
        assert residual.noise is not None
        # K ⪯ V diag(λ + ε) Vᵀ: none of these eigenvalues is 0
        rho = expected_residual(self.eigen.values, residual.M, rounding=self.error).rho
        return self.form(rho * self.up, residual.noise)

    def tilted_quadratic(self, M: int, noise: float) -> float:
        """Upper bound on E~ yᵀ(Q_n⁻¹ − K_n⁻¹)y, summed over the outputs."""
        values, error = self.eigen.values, self.error
        above = values**2 * (1.0 + error / noise) + noise * values + 2.0 * noise * error + error**2
        return self.form(expected_residual(above, M).rho * self.up, noise) / noise

    def form(self, rho: Float, noise: float) -> float:
        """Upper bound on Σ_p v_pᵀSv_p, v_p = K_n⁻¹y_p, for every S ⪯ V diag(rho) Vᵀ.

        Proof.  A₀ = V diag(λ) Vᵀ is within ε of K, and K_n⁻¹ = A_n⁻¹ + A_n⁻¹(A₀ − K)K_n⁻¹, A_n = A₀ + σ²I.  In the norm
        of S the first term, with computed components c in place of Vᵀy, is √Σ rho_i c_i²/(λ_i + σ²)²; the error of c
        and the second term add at most √w (‖Vᵀy − c‖ + ε‖y‖/σ²), w = max rho_i/(λ_i + σ²)².
        """
        weights = rho / (self.eigen.values + noise) ** 2
        main = np.sqrt(float((weights * (self.eigen.components**2).sum(axis=1)).sum()))
        apart = np.sqrt(weights.max()) * (self.eigen.components_error + self.error * self.norm / noise)
        return float((main + apart) ** 2) * self.up


def certified_bounds(
    rows: EnclosedRows,
    M: int,
    noise: float,
    *,
    delta: float,
    draws: int,
    alpha: float,
    tv: float,
    law: str | None,
) -> list[Bound]:
    """N-given and N-tilt-given for all matrices K within the proved error of the computed one (N-enclosed).

    V, λ, ε are those of `enclosed_eigen`, and `EnclosedRows.form` bounds the forms.  The proof is that of N-enclosed.

    Rounding of what follows: r_i are ratios of sums of products of positive numbers, fewer than 16N + 100 operations
    one after another; ρ, miss and all later sums are positive as well.  Each is raised by 40(N + 100)·2⁻⁵².

    Parameters
    ----------
    law : "kdpp", "tilted" or None
        None for both bounds.
    """
    residual, p = rows.residual(M, noise), certified_share(delta, draws, tv)
    bounds = []
    if law != "tilted":
        assumptions = (DRAWN, BEST_OBJECTIVE, FIXED_BEFORE, ENCLOSED)
        claim, form = "N-given, N-res, N-gaplin, N-enclosed", rows.quadratic(residual)
        bounds.append(of_kdpp(residual, form, p, alpha, delta, rows.up, rows.outputs, claim, assumptions))
    if law != "kdpp":
        bounds.append(_of_tilted(rows, residual, p, alpha, delta))
    return bounds


def certified_share(delta: float, draws: int, tv: float) -> float:
    """p = δ^(1/R) − tv rounded down, by Arb.

    >>> certified_share(0.05, 1, 0.0), round(certified_share(0.05, 10, 0.1), 6)
    (0.05, 0.641134)
    """
    with at_bits(96):
        power = exact(delta) if draws == 1 else exact(delta) ** (exact(1.0) / draws)
        return below(power - exact(tv))


def of_kdpp(
    residual: ExpectedResidual,
    quadratic: float,
    p: float,
    alpha: float,
    delta: float,
    up: float,
    outputs: int,
    claim: str,
    assumptions: tuple[str, ...],
) -> Bound:
    """N-given from above, for upper bounds on q̄ and on the functions of ``residual`` up to a factor ``up``."""
    noise = residual.noise
    assert noise is not None
    miss = np.minimum(residual.miss * up, 1.0)
    shares = residual.eigenvalues / (residual.eigenvalues + noise) * (1.0 + 4.0 * EPS)
    excess = float((residual.rho * shares).sum()) / noise * up
    mean = 0.5 * alpha * (quadratic + outputs * excess)

    def bracket(a: float) -> float:
        """p(1 − αa) − αΩ_a from below; 1 − αa = (1 − α) + α(1 − a) without cancellation."""
        omega = float((miss * np.maximum(shares - a, 0.0)).sum()) * up
        return p * ((1.0 - alpha) + alpha * (1.0 - a)) * (1.0 - 1e-14) - alpha * omega

    slack = max(bracket(a) for a in tried(shares, miss, p) if a < 1.0)
    terms = {"mean": mean, "p": p, "margin": slack}
    value = mean / slack if slack > 0.0 else np.inf
    return record(value, delta, claim, terms, assumptions, alpha=alpha, why=why_void(p, terms))


def _of_tilted(rows: EnclosedRows, residual: ExpectedResidual, p: float, alpha: float, delta: float) -> Bound:
    assert residual.noise is not None
    determinant = tilted_means(residual).determinant * rows.up
    mean = 0.5 * alpha * (rows.tilted_quadratic(residual.M, residual.noise) + rows.outputs * determinant)
    return record(
        mean / p if p > 0.0 else np.inf,
        delta,
        "N-tilt-given, N-tilt, N-enclosed",
        {"mean": mean, "p": p},
        (TILTED, BEST_OBJECTIVE, FIXED_BEFORE, ENCLOSED),
        alpha=alpha,
        why=f"p = δ^(1/R) − tv = {p:.3g} is not positive",
    )
