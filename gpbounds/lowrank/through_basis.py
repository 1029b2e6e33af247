"""KL(exact‖low rank) at any number of rows, through a basis of few columns that both covariances nearly lie in.

The proofs of rounding suppose, as those of `gpbounds.lowrank.given_y`, that σ² and the variances are between 1e-150 and
1e150.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from gpbounds.arrays import EPS, Array, as_points
from gpbounds.divergences.errors import gamma
from gpbounds.errors import NotPositiveDefinite
from gpbounds.interval import Interval, Member, interval
from gpbounds.kernels import Kernel
from gpbounds.kernels.base import as_kernel
from gpbounds.kernels.errors import entry_bound
from gpbounds.linalg.parallel import ENTRY, share
from gpbounds.linalg.products import norm
from gpbounds.linalg.psd import finite_matrix
from gpbounds.lowrank.divergence import KL
from gpbounds.lowrank.given_y import UP, NoisyLaw, U
from gpbounds.once import cached_property
from gpbounds.validation import function, noise_variance

ROWS = 512
"""Rows of a chunk, and the longest sum in one product."""
_FEATURES = "The entries of the features, as computed, define the low-rank GP."
_UNKNOWN = "No bound on the errors of this kernel's entries is known: they count as exact."


@dataclass(frozen=True, eq=False)
class Side:
    """UᵀKU as computed, at least its error in the Frobenius norm, and at least the trace of K outside the span of U."""

    matrix: Array
    off: float
    outside: float


@dataclass(frozen=True, eq=False)
class ThroughBasis:
    """KL(N(0, K + σ²I)‖N(0, ΞΞᵀ + σ²I)) between proved ends for any features Ξ, in O(N) memory for N rows.

    U (N, p) has nearly orthonormal columns, which span those of ``basis``.  With K_U = UᵀKU + σ²UᵀU, Ξ_U likewise,
    and s, s̃ the traces of K and ΞΞᵀ outside the span of U (claim N-basis),

        KL_U ≤ KL ≤ KL_U + [s + s̃ + (√s + √(ρs̃))²]/(2σ²),    ρ = 1 + t + √(t² + 2t),   t = 2KL_U,

    KL_U the divergence of the p × p laws.  For smooth kernels in one to three dimensions a few hundred polynomials make
    s and s̃ smaller than all rounding.  The exact side takes O(N²p) time once; each Ξ then O(Nrp).

    Attributes
    ----------
    kernel : Kernel
    X : array (N, D)
    basis : array (N, p), p <= N
        Of full rank, such as products of Chebyshev polynomials of the inputs in [−1, 1].
    noise : float
        σ² > 0, in squared units of y.

    >>> from gpbounds import SquaredExponential
    >>> from gpbounds.lowrank import FourierFeatures, kl_features
    >>> X, kernel = np.linspace(-1.0, 1.0, 50)[:, None], SquaredExponential()
    >>> features = FourierFeatures(kernel, 40, 0).fit(X)
    >>> pair = ThroughBasis(kernel, X, np.polynomial.chebyshev.chebvander(X[:, 0], 20), noise=0.1).kl(features)
    >>> dense = kl_features(kernel(X), features(X), noise=0.1)
    >>> bool(pair.lower <= dense <= pair.upper), pair.width < 1e-6
    (True, True)
    """

    kernel: Kernel
    X: Array
    basis: Array
    noise: float

    def __init__(self, kernel: Kernel, X: ArrayLike, basis: ArrayLike, *, noise: float) -> None:
        as_kernel(kernel)
        points = as_points(X)
        columns = finite_matrix("basis", basis, "shape (N, p) with p >= 1")
        if len(columns) != len(points) or columns.shape[1] > len(points):
            raise ValueError(f"basis: expected shape ({len(points)}, p) with p <= {len(points)}, got {columns.shape}")
        fields = {"kernel": kernel, "X": points, "basis": columns, "noise": noise_variance(noise)}
        for name, value in fields.items():
            object.__setattr__(self, name, value)

    @cached_property
    def U(self) -> Array:
        """The columns of the basis, orthonormal up to rounding."""
        return np.ascontiguousarray(np.linalg.qr(np.linalg.qr(self.basis)[0])[0])

    @property
    def p(self) -> int:
        """Number of columns of the basis."""
        return int(self.U.shape[1])

    @property
    def parts(self) -> list[slice]:
        """The chunks of rows."""
        N = len(self.X)
        return [slice(start, min(start + ROWS, N)) for start in range(0, N, ROWS)]

    @property
    def steps(self) -> float:
        """n: a sum over all rows, chunk after chunk, has an error of at most γ_n times that of absolute values."""
        return float(min(ROWS, len(self.X)) + len(self.parts) + 4)

    @cached_property
    def unit(self) -> float:
        """f ≥ ‖UᵀU − I‖_F."""
        gram = sum((self.U[rows].T @ self.U[rows] for rows in self.parts), np.zeros((self.p, self.p)))
        own = gamma(self.steps) * norm(self.U) ** 2
        f = UP * (norm(gram - np.eye(self.p)) + own + 2.0 * U * math.sqrt(self.p))
        if not f < 1e-3:
            raise NotPositiveDefinite(f"basis: expected columns of full rank, got ‖UᵀU − I‖ of up to {f:.3g}")
        return f

    @cached_property
    def exact(self) -> Side:
        """K in the basis."""
        entry = entry_bound(self.kernel, self.X, self.X)
        parts, N, kappa = self.parts, len(self.X), 0.0 if entry is None else entry
        found: list[Array] = [np.empty(0)] * len(parts)

        def add(number: int, worker: int) -> None:
            rows, total = parts[number], np.zeros((parts[number].stop - parts[number].start, self.p))
            for columns in parts:
                total += self.kernel(self.X[rows], self.X[columns]) @ self.U[columns]
            found[number] = self.U[rows].T @ total

        share(len(parts), add, flops=float(N) * N * (2.0 * self.p + ENTRY))
        matrix = sum(found, np.zeros((self.p, self.p)))
        trace = float(np.asarray(self.kernel.diag(self.X)).sum()) * (1.0 + gamma(N + 4.0)) + N * kappa
        off = (gamma(2.0 * self.steps) * trace + N * kappa) * norm(self.U) ** 2
        return self._side(trace, matrix, off)

    def kl(self, features: Callable[[Array], Array]) -> Interval:
        """Lower and upper bound on the divergence for ``features``, a function of rows (n, D) to Ξ's rows (n, r).

        Raises
        ------
        ValueError, NonFinite
            for features that are not finite rows of one length.
        NotPositiveDefinite
            if σ² is below the rounding errors.
        """
        first, second = self.exact, self.of_features(features)
        law, s, other, rest = self._law(first, "K"), first.outside, self._law(second, "features"), second.outside
        inverse, away = other.inverted()
        difference = law.matrix - other.matrix
        moved = law.moved + other.moved + U * norm(difference)
        excess = float((inverse * difference).sum())
        error = away * norm(difference) + (norm(inverse) + away) * moved
        error += gamma(2.0 * self.p + 4.0) * norm(inverse) * norm(difference)
        value = 0.5 * (excess + other.log_det - law.log_det)
        own = 16.0 * U * (abs(excess) + abs(other.log_det) + abs(law.log_det))
        error = UP * (0.5 * (error + law.log_det_error + other.log_det_error) + own)
        t = 2.0 * max(value + error, 0.0)
        rho = 1.0 + t + math.sqrt(t * t + 2.0 * t)
        beyond = UP * (s + rest + (math.sqrt(s) + math.sqrt(rho * rest)) ** 2) / (2.0 * self.noise)
        assumptions, proved = self.about
        low, high = (Member(each, error, "N-basis", proved) for each in (value, value + beyond))
        terms = {"outside the basis": s + rest, "effective dimension": self.effective_dimension}
        return interval(KL, {"basis": low}, {"basis": high}, terms=terms, assumptions=assumptions, least=0.0)

    @cached_property
    def effective_dimension(self) -> float:
        """At least tr K(K + σ²I)⁻¹ ≤ tr K_U(K_U + σ²I)⁻¹ + s/σ², K_U = UᵀKU."""
        law, s = self._law(self.exact, "K"), self.exact.outside
        inverse, away = law.inverted()
        trace = self.p - self.noise * float(np.trace(inverse))
        errors = self.noise * math.sqrt(self.p) * away + s / self.noise + gamma(2.0 * self.p + 8.0) * self.p
        return trace + UP * (errors + self.p * self.unit)

    @property
    def about(self) -> tuple[tuple[str, ...], bool]:
        """What the results assume, and whether their errors are proved."""
        proved = entry_bound(self.kernel, self.X[:1], self.X[:1]) is not None
        return ((_FEATURES,) if proved else (_FEATURES, _UNKNOWN)), proved

    def of_features(self, features: Callable[[Array], Array]) -> Side:
        """ΞΞᵀ in the basis."""
        function("features", features, "a function of rows (n, D) to rows (n, r)")
        total: Array | None = None
        squares = 0.0
        for rows in self.parts:
            part = finite_matrix("features", features(self.X[rows]), "shape (n, r) with r >= 1")
            product = part.T @ self.U[rows]
            if total is not None and total.shape != product.shape:
                raise ValueError(f"features: expected {total.shape[0]} columns as for other rows, got {part.shape[1]}")
            total = product if total is None else total + product
            squares += float(np.einsum("ij,ij->i", part, part).sum())
        assert total is not None
        blocks = [total[start : start + ROWS] for start in range(0, len(total), ROWS)]
        matrix = sum((block.T @ block for block in blocks), np.zeros((self.p, self.p)))
        trace, size = squares * (1.0 + gamma(len(total) + ROWS + self.steps)), norm(total)
        delta = gamma(self.steps) * math.sqrt(trace) * norm(self.U)
        off = 2.0 * size * delta + delta * delta + gamma(ROWS + len(blocks) + 4.0) * size * size
        return self._side(trace, matrix, off)

    def _side(self, trace: float, matrix: Array, off: float) -> Side:
        """With tr (I − Π)K, as the projector Π on the span is at least UUᵀ/(1 + f)."""
        inside = float(np.trace(matrix)) * (1.0 - gamma(self.p + 4.0)) - math.sqrt(self.p) * UP * off
        outside = UP * max(trace - inside / (1.0 + self.unit) + 8.0 * EPS * trace, 0.0)
        matrix = 0.5 * (matrix + matrix.T)
        return Side(matrix, UP * (off + U * norm(matrix)), outside)

    def _law(self, side: Side, name: str) -> NoisyLaw:
        """N(0, UᵀKU + σ²UᵀU), which counts as UᵀKU + σ²(1 − f)I up to its error."""
        off = side.off + UP * (2.0 + math.sqrt(self.p)) * self.unit * self.noise
        return NoisyLaw(side.matrix, self.noise * (1.0 - self.unit), UP * off, lambda V: (side.matrix @ V, V), name)
