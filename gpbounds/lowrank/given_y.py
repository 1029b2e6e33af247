"""What a low-rank GP changes for the y at hand: the log evidence, and the predictions at the rows, between proved ends.

A = K + σ²I, Ã = ΞΞᵀ + σ²I.  Between the latent posteriors the divergence is infinite wherever ΞΞᵀ is singular and K is
not, so that predictions are compared with their noise.  Everything is O(N³) time, O(N²) memory; with a basis that both
covariances nearly lie in, `ThroughBasis.given` has the same numbers in O(N) memory.

The proofs of rounding suppose that no product of numbers of the size of σ², of the variances or of y² underflows or
overflows: keep them between 1e-150 and 1e150, by other units.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from gpbounds.arrays import EPS, Array, host, namespace
from gpbounds.divergences.errors import gamma
from gpbounds.interval import Interval, Member, interval
from gpbounds.linalg import Cholesky
from gpbounds.linalg.inverses import inverse
from gpbounds.linalg.products import gram, norm
from gpbounds.linalg.psd import symmetric_matrix
from gpbounds.lowrank.approximation import as_features, noisy_factor, shifted
from gpbounds.once import cached_property
from gpbounds.overflow import within_doubles
from gpbounds.validation import noise_variance, non_negative, scalar
from gpbounds.whitening import as_targets

U = 0.5 * EPS
UP = 1.01
"""Covers the rounding of the bounds on errors themselves."""
_COLUMNS = 256
_ENTRIES = "K is positive semi-definite, and each of its entries is within entry_error of the number that was passed."
_FEATURES = "The entries of the features are exact: they define the low-rank GP."
_DEVICE = "The solves of a GPU's libraries have the errors of substitution, which is not proved."
GAP = "log p(y) - log p~(y)"
PREDICTIVE = "KL(p(y'|y) || p~(y'|y))"


@within_doubles
def evidence_gap(
    K: ArrayLike, features: ArrayLike, y: ArrayLike, *, noise: float, entry_error: float = 0.0
) -> Interval:
    """Lower and upper bound on log p(y) − log p̃(y) for this y, p of the exact GP and p̃ of the low-rank one.

    With A = K + σ²I and Ã = ΞΞᵀ + σ²I, summed over outputs,

        log p(y) − log p̃(y) = ½[log|Ã| − log|A| + yᵀ(Ã⁻¹ − A⁻¹)y].

    Claim N-evgap: for y from p its mean is KL(p‖p̃), and it is above −log(1/δ) with probability 1 − δ.  For a
    given y it can be negative: the low-rank model may explain these data better.  The interval is as wide as the
    rounding errors, which are proved as in N-computed: about 1e-15·N^1.5·Tr(K)/σ² nats.

    Parameters
    ----------
    K : array (N, N), NumPy or CuPy
        Covariance of the exact GP, in squared units of y.
    features : array (N, r), r >= 1
        Ξ, on the same device.
    y : array (N,) or (N, P)
    noise : float
        σ² > 0, in squared units of y.
    entry_error : float, optional
        At least the error of an entry of K: `gpbounds.kernels.errors.entry_bound` computes one for K = kernel(X).
        0: the numbers passed are K.

    Returns
    -------
    Interval
        (lower, upper).

    Raises
    ------
    ValueError, NonFinite, NotPositiveDefinite
        as in `kl`; for an ``entry_error`` below 0.

    >>> K = np.array([[1.0, 0.5], [0.5, 1.0]])
    >>> pair = evidence_gap(K, [[1.0], [0.5]], [1.0, -0.5], noise=0.1)
    >>> round(float(pair.lower), 6), pair.width < 1e-12, pair.upper.certified
    (2.209275, True, True)
    """
    pair = _Pair.checked(K, features, y, noise, entry_error)
    exact, rank = pair.exact(pair.noise), pair.low_rank(pair.noise)
    first, second, P = exact.form(pair.Y), rank.form(pair.Y), pair.Y.shape[1]
    value = 0.5 * (P * (rank.log_det - exact.log_det) + second.value - first.value)
    own = 16.0 * U * (P * (abs(rank.log_det) + abs(exact.log_det)) + abs(second.value) + abs(first.value))
    common = P * (rank.log_det_error + exact.log_det_error) + second.error + first.error
    claim, proved = "N-evgap", namespace(pair.Y) is np
    below = Member(value, UP * (0.5 * (common + first.rest) + own), claim, proved)
    above = Member(value, UP * (0.5 * (common + second.rest) + own), claim, proved)
    terms = {
        "exact": log_density(exact.log_det, first.value, *pair.Y.shape),
        "low rank": log_density(rank.log_det, second.value, *pair.Y.shape),
    }
    return interval(GAP, {"exact": below}, {"exact": above}, terms=terms, assumptions=pair.assumptions)


@within_doubles
def predictive_kl(
    K: ArrayLike, features: ArrayLike, y: ArrayLike, *, noise: float, entry_error: float = 0.0
) -> Interval:
    """Lower and upper bound on KL(p(y'|y)‖p̃(y'|y)) for this y: new observations y' at the same rows.

    With A = K + σ²I, Ã = ΞΞᵀ + σ²I, h = σ²/2, B and B̃ with h in place of σ², and d = σ²(Ã⁻¹ − A⁻¹)y the distance of
    the two means, in nats and summed over outputs,

        KL = ½[h tr(B̃⁻¹ − A⁻¹) − h² tr(B̃⁻¹A⁻¹) + log|B̃||A|/(|Ã||B|)] + (|d|² + h dᵀB̃⁻¹d)/(4σ²).

    Claim N-predkl: for y from the exact GP, its mean is the divergence of `kl` at the noise σ²/2 less that at
    σ², so that a bound on the first is one on this mean.  The interval is as wide as the rounding errors, which are
    proved: about 1e-15·N·Tr(K)/σ² nats, whatever the value is.

    Parameters
    ----------
    K, features, y, noise, entry_error : as in `evidence_gap`

    Returns
    -------
    Interval
        (lower, upper), with the parts "covariance" and "mean" of the divergence in ``terms``.

    Raises
    ------
    ValueError, NonFinite, NotPositiveDefinite
        as in `evidence_gap`.

    >>> K = np.array([[1.0, 0.5], [0.5, 1.0]])
    >>> pair = predictive_kl(K, [[1.0], [0.5]], [1.0, -0.5], noise=0.1)
    >>> round(float(pair.lower), 6), pair.width < 1e-12, pair.upper.certified
    (2.809679, True, True)
    """
    pair = _Pair.checked(K, features, y, noise, entry_error)
    s2, half = pair.noise, 0.5 * pair.noise
    exact, rank, inner = pair.exact(s2), pair.low_rank(s2), pair.low_rank(half)
    P, xp = pair.Y.shape[1], namespace(pair.Y)
    mean, low, high = of_means(exact.form(pair.Y), rank.form(pair.Y), inner.form, s2)
    covariance, error = of_covariances((inner, exact, rank, pair.exact(half)), half)
    covariance, error = P * covariance, P * error
    claim, proved = "N-predkl", xp is np
    below, above = Member(covariance + low, error, claim, proved), Member(covariance + high, error, claim, proved)
    parts = {"covariance": covariance, "mean": mean}
    return interval(
        PREDICTIVE, {"exact": below}, {"exact": above}, terms=parts, assumptions=pair.assumptions, least=0.0
    )


@dataclass(frozen=True)
class QuadraticForm:
    """ΣyᵀA⁻¹y over outputs lies in [value − error, value + error + rest]; solution ≈ A⁻¹y, off by at most gap/σ²."""

    value: float
    error: float
    rest: float
    solution: Array
    gap: float

    @classmethod
    def of(cls, Y: Array, v: Array, times: tuple[Array, Array], noise: float) -> QuadraticForm:
        """vᵀ(y + r) ≤ yᵀA⁻¹y ≤ vᵀ(y + r) + |r|²/σ² for any v and r = y − Av (N-computed).

        ``times``: Av without the noise, and at least the error of each entry.
        """
        xp, (N, P) = namespace(Y), Y.shape
        product, off = times
        product, off = product + noise * v, off + 4.0 * U * (xp.abs(product) + noise * xp.abs(v))
        r = Y - product
        base = float((v * (2.0 * Y - product)).sum())
        error = float((xp.abs(v) * (off + gamma(N + P + 6.0) * (2.0 * xp.abs(Y) + xp.abs(product)))).sum())
        gap = UP * (norm(r) + norm(off + U * xp.abs(r)))
        return cls(base, UP * error, UP * gap * gap / noise, v, gap)


@dataclass(frozen=True, eq=False)
class NoisyLaw:
    """N(0, A), A ⪰ noise·I, from a computed matrix that is within ``off`` of it in the Frobenius norm.

    Attributes
    ----------
    matrix : array (N, N)
        A without the noise, as computed.
    noise : float
    off : float
    times : callable
        V (N, P) ↦ A V without the noise, and at least the error of each entry.
    name : str
    """

    matrix: Array
    noise: float
    off: float
    times: Callable[[Array], tuple[Array, Array]]
    name: str

    @cached_property
    def chol(self) -> Cholesky:
        return noisy_factor(self.name, self.matrix, self.noise)

    @property
    def N(self) -> int:
        """Number of rows."""
        return int(self.matrix.shape[0])

    @cached_property
    def moved(self) -> float:
        """At least ‖A − fl(A)‖_F: the addition of the noise, and what the matrix was off before."""
        return UP * (self.off + 2.0 * U * (norm(self._diagonal) + math.sqrt(self.N) * self.noise))

    @property
    def _diagonal(self) -> Array:
        return namespace(self.matrix).diagonal(self.matrix)

    @property
    def log_det(self) -> float:
        """log|A|, from the factor."""
        return self.chol.logdet

    @cached_property
    def log_det_error(self) -> float:
        """As N-computed: LLᵀ is within ε of A, and log|A| within √N ε/(σ² − ε) of log|LLᵀ|."""
        trace = UP * (float(self._diagonal.sum()) + self.N * self.noise)
        moved = UP * (gamma(self.N + 4.0) * trace + self.moved)
        pivots = np.asarray(host(namespace(self.matrix).diagonal(self.chol.L)))
        logs = 2.0 * gamma(self.N + 64.0) * float(np.abs(np.log(pivots)).sum())
        return math.sqrt(self.N) * moved / (self.noise - moved) + logs if moved < 0.5 * self.noise else math.inf

    def form(self, Y: Array) -> QuadraticForm:
        """ΣyᵀA⁻¹y over outputs."""
        v = self.chol.solve(Y)
        return QuadraticForm.of(Y, v, self.times(v), self.noise)

    def inverted(self) -> tuple[Array, float]:
        """X near A⁻¹, and at least ‖A⁻¹ − X‖_F ≤ ‖I − AX‖_F/σ²."""
        xp, A, X = namespace(self.matrix), shifted(self.matrix, self.noise), inverse(self.chol.L)
        sizes = norm(A) * norm(X)
        left = A @ X
        left.reshape(-1)[:: self.N + 1] -= 1.0
        error = norm(left) + gamma(self.N + 4.0) * sizes + self.moved * norm(X) + 2.0 * U * math.sqrt(self.N)
        return xp.asarray(X), UP * error / self.noise


@dataclass(frozen=True, eq=False)
class _Pair:
    """The checked arguments, and the laws of both models at any noise."""

    K: Array
    features: Array
    Y: Array
    noise: float
    entry: float

    @classmethod
    def checked(cls, K: ArrayLike, features: ArrayLike, y: ArrayLike, noise: float, entry_error: float) -> _Pair:
        s2, entry = noise_variance(noise), float(scalar(non_negative, "entry_error", entry_error))
        exact = symmetric_matrix("K", K)
        factor = as_features(features, exact.shape[0])
        namespace(exact, factor)
        return cls(exact, factor, as_targets(y, exact).reshape(len(exact), -1), s2, entry)

    @property
    def assumptions(self) -> tuple[str, ...]:
        return (_ENTRIES, _FEATURES) if namespace(self.K) is np else (_ENTRIES, _FEATURES, _DEVICE)

    @cached_property
    def product(self) -> Array:
        """fl(ΞΞᵀ)."""
        return gram(self.features.T)

    def exact(self, noise: float) -> NoisyLaw:
        return NoisyLaw(self.K, noise, UP * self.entry * len(self.K), self._exact_times, "K")

    def low_rank(self, noise: float) -> NoisyLaw:
        off = gamma(self.features.shape[1] + 2.0) * norm(self.features) ** 2
        return NoisyLaw(self.product, noise, UP * off, self._rank_times, "features features'")

    def _exact_times(self, V: Array) -> tuple[Array, Array]:
        product, sizes, terms = blocked(self.K, V)
        return product, UP * (gamma(terms) * sizes + self.entry * namespace(V).abs(V).sum(axis=0))

    def _rank_times(self, V: Array) -> tuple[Array, Array]:
        weights, lengths, first = blocked(self.features.T, V)
        product, _, second = blocked(self.features, weights)
        _, sizes, _ = blocked(self.features, lengths)
        return product, UP * gamma(first + second + 4.0) * sizes


def blocked(A: Array, V: Array) -> tuple[Array, Array, float]:
    """AV by blocks of columns of A, |A||V|, and n with |fl(AV) − AV| ≤ γ_n|A||V|."""
    xp, columns = namespace(A, V), int(A.shape[1])
    total, sizes, size = xp.zeros((A.shape[0], V.shape[1])), xp.zeros((A.shape[0], V.shape[1])), xp.abs(V)
    for start in range(0, columns, _COLUMNS):
        part = A[:, start : start + _COLUMNS]
        total += part @ V[start : start + _COLUMNS]
        sizes += xp.abs(part) @ size[start : start + _COLUMNS]
    return total, sizes, float(min(columns, _COLUMNS) + -(-columns // _COLUMNS) + 4)


def log_density(log_det: float, form: float, N: int, P: int) -> float:
    """log N(y; 0, A) from log|A| and yᵀA⁻¹y, summed over P outputs, without its error."""
    return -0.5 * (P * (log_det + N * math.log(2.0 * math.pi)) + form)


def of_means(
    first: QuadraticForm, second: QuadraticForm, inner: Callable[[Array], QuadraticForm], noise: float
) -> tuple[float, float, float]:
    """½dᵀS̃⁻¹d = (|d|² + h dᵀB̃⁻¹d)/(4σ²) over outputs, with a lower and an upper bound.

    ``first``, ``second`` and ``inner`` are the forms of A, Ã and B̃.  For d̂ near d, the roots of both forms differ by at
    most |d − d̂|/√(2σ²), as S̃ ⪰ σ²I; and |A⁻¹y − v| ≤ |y − Av|/σ².
    """
    s2, half = noise, 0.5 * noise
    d = s2 * (second.solution - first.solution)
    away = UP * (first.gap + second.gap + 4.0 * U * s2 * (norm(first.solution) + norm(second.solution)))
    form, length = inner(d), float((d * d).sum())
    value = (length + half * form.value) / (4.0 * s2)
    own = UP * (gamma(d.size + 8.0) * length + half * (form.error + 8.0 * U * abs(form.value))) / (4.0 * s2)
    root, change = math.sqrt(max(value - own, 0.0)), away / math.sqrt(2.0 * s2)
    top = math.sqrt(value + own + UP * half * form.rest / (4.0 * s2))
    low, high = max(root - UP * change, 0.0), top + UP * change
    return value, low * low * (1.0 - 16.0 * U), high * high * (1.0 + 16.0 * U)


def of_covariances(laws: tuple[NoisyLaw, NoisyLaw, NoisyLaw, NoisyLaw], half: float) -> tuple[float, float]:
    """½[h tr(B̃⁻¹ − A⁻¹) − h² tr(B̃⁻¹A⁻¹) + log|B̃||A|/(|Ã||B|)] from the laws of B̃, A, Ã and B, and its error."""
    inner, exact, _, _ = laws
    signed = sum(sign * law.log_det for sign, law in zip((1.0, 1.0, -1.0, -1.0), laws, strict=True))
    trace, trace_error = _of_inverses(exact, inner, half)
    own = 16.0 * U * (sum(abs(law.log_det) for law in laws) + abs(trace))
    error = UP * (0.5 * (trace_error + sum(law.log_det_error for law in laws)) + own)
    return 0.5 * (trace + signed), error


def _of_inverses(exact: NoisyLaw, inner: NoisyLaw, half: float) -> tuple[float, float]:
    """h tr(B̃⁻¹ − A⁻¹) − h² tr(B̃⁻¹A⁻¹), and a bound on its error."""
    xp, N = namespace(exact.matrix), exact.N
    (X, x), (Y, y) = exact.inverted(), inner.inverted()
    sizes = norm(X), norm(Y)
    traces = float(xp.diagonal(X).sum()), float(xp.diagonal(Y).sum())
    product = float(xp.einsum("ij,ij->i", X, Y).sum())
    error = half * (math.sqrt(N) * (x + y) + gamma(N + 4.0) * (abs(traces[0]) + abs(traces[1])))
    error += half * half * (x * sizes[1] + y * sizes[0] + x * y + gamma(2.0 * N + 4.0) * sizes[0] * sizes[1])
    return half * (traces[1] - traces[0]) - half * half * product, UP * error
