"""Bounds on Q = Kfu(Kuu + jI)⁻¹Kuf from a computed Cholesky factor and computed columns V (N-Q)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpbounds.arrays import EPS, Array, host, namespace
from gpbounds.kernels import Kernel
from gpbounds.kernels.errors import entry_bound
from gpbounds.linalg.residuals import factor_residual, inverse_norms
from gpbounds.whitening import Inducing, Whitened

U = 0.5 * EPS
WITHOUT_WARNINGS: dict[str, Any] = {"over": "ignore", "divide": "ignore", "invalid": "ignore"}
"""Arguments of `numpy.errstate`: a member without a finite end drops out, so that no warning is needed."""
MEASURED = 16.0
"""Assumed error of a kernel entry without a proved bound, in units of u·variance: the usual size of proved bounds."""
UNPROVED = (
    "Entries of the kernel have errors of at most 16 units of rounding of its variance, and the solves of a GPU's "
    "libraries those of substitution, which is not proved."
)


def gamma(n: float) -> float:
    """γ_n = nu/(1 − nu), rounded up: the relative error of n operations in any order."""
    return 1.01 * n * U if n * U < 1e-3 else math.inf


@dataclass(frozen=True)
class Accuracy:
    """How far the exact Q is from Q̃ = VᵀV, V the computed columns.

    With A = LLᵀ, L the computed factor, A = Kuu + jI + E, ‖E‖ ≤ e. Since Kuu ⪰ 0 is the exact matrix,

        Q₋ = Kfu(A + eI)⁻¹Kuf ⪯ Q ⪯ Q₊ = Kfu(A − eI)⁻¹Kuf,   Q₋ ⪯ K,

    the second only where A ≻ eI.  The columns are V = L⁻¹(Kuf + δ) with ‖δ‖_F ≤ d.

    Attributes
    ----------
    entry : float
        κ: error of an entry of K, Kuf or Kuu.
    factor : float
        e.
    inverse : float
        ψ ≥ ‖L⁻¹‖.
    share : float
        φ = eψ² where it is below 1, else infinite.
    below, above : float
        At least the nuclear norms of Q₋ − Q̃ and Q₊ − Q̃.
    gram : float
        At least ‖fl(VVᵀ) − VVᵀ‖_F.
    columns : float
        d.
    size : float
        At least ‖L‖_F.
    total : float
        At least Tr K and Tr Kuu, rounded up: (Tr K, Tr Kuu).
    proved : bool
        False for a kernel whose errors are only measured.
    """

    entry: float
    factor: float
    inverse: float
    share: float
    below: float
    above: float
    gram: float
    columns: float
    size: float
    total: tuple[float, float]
    proved: bool

    @property
    def row(self) -> float:
        """An upper bound on the error of a diagonal entry of K − Q₋, without the rounding of its final sum."""
        return 1.01 * (self.entry + self.below + 2.0 * self.factor)


def accuracy(white: Whitened, entry: float, proved: bool) -> Accuracy:
    """The `Accuracy` of a pass over the rows, ``entry`` being the error of the kernel's values.

    Claim N-Q.  Proof.  (1) e: the residual of the factor, and ‖·‖ ≤ Mκ for the errors of Kuu, κ that of rows of Z.
    (2) ‖L⁻¹‖² ≤ 1/(j − e), as Kuu ⪰ 0; or from a computed inverse.  (3) A triangular solve has L + ΔL,
    |ΔL| ≤ γ_(M+3)|L|, for each column v: v = L⁻¹(k + δ) with |δ| ≤ γ|L||v| + κ√M, hence d ≤ γ‖L‖_F‖V‖_F + κ√(NM).
    (4) With W = A⁻¹(Kuf + δ) = L⁻ᵀV, ω ≥ ‖W‖_F and Q' = KfuA⁻¹Kuf: Q̃ − Q' = Wᵀδ + δᵀW − δᵀA⁻¹δ has a nuclear norm of
    at most 2ωd + ψ²d², and
    0 ⪯ Q' − Q₋ ⪯ eW'ᵀW', 0 ⪯ Q₊ − Q' ⪯ e/(1 − φ) W'ᵀW' for W' = A⁻¹Kuf, ‖W'‖_F ≤ ω + ψ²d.  QED
    """
    inducing, N, M = white.inducing, white.N, white.M
    L = np.asarray(host(inducing.chol.L))
    gram_trace = (1.0 + gamma(M + N)) * float(white.gram.trace())
    variance = inducing.kernel.max_variance
    kernel_trace = N * variance if math.isfinite(variance) else white.trace + gram_trace
    e = _factor_of(inducing, entry)
    X, size, off = inverse_norms(L)
    floor = white.jitter - e
    inverse = min(size / (1.0 - off) if off < 0.5 else math.inf, 1.0 / math.sqrt(floor) if floor > 0.0 else math.inf)
    norm = 1.01 * float(np.linalg.norm(L))
    d = 1.01 * (gamma(M + 3) * norm * math.sqrt(gram_trace) + entry * math.sqrt(N * M))
    in_gram = 1.01 * gamma(white.additions) * gram_trace
    if off < 0.5:
        rounded = in_gram + 4.0 * gamma(M + 2) * gram_trace
        squares = float(((np.asarray(host(white.gram)) @ X) * X).sum(axis=0).sum()) + rounded * size**2
        omega = 1.01 * math.sqrt(max(squares, 0.0)) / (1.0 - off)
    else:
        omega = math.inf
    # ‖W‖_F ≤ ψ‖V‖_F as well
    omega = min(omega, 1.01 * inverse * math.sqrt(gram_trace)) if math.isfinite(inverse) else omega
    share = e * inverse**2
    share = 1.01 * share if share < 0.9 else math.inf
    moved = 1.01 * (2.0 * omega * d + (inverse * d) ** 2)
    lifted = 1.01 * e * (omega + inverse**2 * d) ** 2
    above = moved + lifted / (1.0 - share) if share < 1.0 else math.inf
    total = (1.01 * kernel_trace, 1.01 * norm**2)
    below, above, in_gram, d = (_or_inf(x) for x in (moved + lifted, above, in_gram, d))
    return Accuracy(entry, e, inverse, share, below, above, in_gram, d, norm, total, proved)


def _factor_of(inducing: Inducing, entry: float) -> float:
    """e: how far LLᵀ is from the exact Kuu + jI, in norm; entries at Z may err by less than those at all rows."""
    L, Z = np.asarray(host(inducing.chol.L)), inducing.Z
    Kuu, own = np.asarray(host(inducing.kernel(Z))), entry_bound(inducing.kernel, Z, Z)
    each = entry if own is None else min(entry, own)
    return 1.01 * (factor_residual(L, Kuu, inducing.chol.jitter) + L.shape[0] * each)


def errors_of_entries(kernel: Kernel, X: Array, Z: Array) -> tuple[float, bool]:
    """The error κ of a kernel entry, and whether κ and the rounding of triangular solves are both proved.

    κ is `entry_bound`, else `MEASURED`·u·variance.  On a GPU the solves are not proved: its libraries may use inverses
    of blocks, to which (3) of `accuracy` does not apply.
    """
    bound = entry_bound(kernel, X, Z)
    if bound is not None:
        return bound, namespace(X) is np
    return MEASURED * U * max(float(kernel.largest_variance(Z)), float(namespace(X).abs(kernel.diag(X)).max())), False


def _or_inf(value: float) -> float:
    return math.inf if math.isnan(value) else value


def unproved(known: Accuracy) -> tuple[str, ...]:
    """The assumption of bounds with a kernel whose rounding is not proved."""
    return () if known.proved else (UNPROVED,)
