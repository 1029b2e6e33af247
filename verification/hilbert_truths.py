"""The divergence of a Hilbert-space GP at rows with multiplicities: many sets at once in doubles, one in balls.

N rows at n points, w_i of them at point i: with A₁ = I + √w K √w/σ² and A₂ the same of K̃, both n × n, the divergences
of the N rows are those of N(0, A₁) and N(0, A₂).  Given its mean over the rows of a point, y is noise in both laws.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from flint import arb, arb_mat, ctx

Float = np.ndarray[Any, np.dtype[np.float64]]
EPS = 2.0**-52
BITS = 240


@dataclass(frozen=True)
class Approximation:
    """A kernel of smoothness ν (∞: squared exponential) and its Hilbert-space approximation.

    Attributes
    ----------
    nu, variance : float
    lengthscales, half_width, c : arrays (D,)
    m : array (D,) of whole numbers
    """

    nu: float
    variance: float
    lengthscales: Float
    half_width: Float
    c: Float
    m: Any

    @property
    def dim(self) -> int:
        """D."""
        return len(self.half_width)

    @property
    def rank(self) -> int:
        """Number of functions."""
        return math.prod(int(m) for m in self.m)

    def covariances(self, X: Float) -> Float:
        """K of each set of rows, X of shape (sets, n, D)."""
        Z = X / self.lengthscales
        r = np.sqrt(((Z[:, :, None] - Z[:, None]) ** 2).sum(axis=-1))
        if self.nu == math.inf:
            return np.asarray(self.variance * np.exp(-0.5 * r * r))
        z = math.sqrt(2.0 * self.nu) * r
        polynomial = {0.5: 1.0, 1.5: 1.0 + z, 2.5: 1.0 + z + z * z / 3.0}[self.nu]
        return np.asarray(self.variance * polynomial * np.exp(-z))

    def weights(self) -> Float:
        """s(ω_j)/ΠL_d, the last coordinate fastest."""
        lengths = self.c * self.half_width
        squared: Any = np.zeros(())
        for d, m in enumerate(self.m):
            w = np.arange(1, int(m) + 1) * (math.pi * self.lengthscales[d] / (2.0 * lengths[d]))
            squared = squared[..., None] + w * w
        scale = self.variance * math.prod(self.lengthscales / lengths) * (2.0 * math.pi) ** (self.dim / 2.0)
        if self.nu == math.inf:
            return np.asarray(scale * np.exp(-0.5 * squared)).ravel()
        half = 0.5 * self.dim
        constant = math.exp(math.lgamma(self.nu + half) - math.lgamma(self.nu)) * self.nu**-half
        return np.asarray(scale * constant * (1.0 + squared / (2.0 * self.nu)) ** -(self.nu + half)).ravel()

    def functions(self, X: Float) -> Float:
        """√(s_j) φ_j at each row, (sets, n, rank)."""
        product: Any = np.ones((*X.shape[:2], 1))
        for d, m in enumerate(self.m):
            L = self.c[d] * self.half_width[d]
            angles = np.arange(1, int(m) + 1) * (math.pi / (2.0 * L)) * (X[:, :, d, None] + L)
            product = (product[..., None] * np.sin(angles)[:, :, None]).reshape(*X.shape[:2], -1)
        return np.asarray(product * np.sqrt(self.weights()))

    def entry_errors(self) -> tuple[float, float]:
        """At least the errors of entries of K and K̃: 60 units of the variance; 8πj for each angle, and the sum's."""
        angles = 8.0 * math.pi * float(np.sum(self.m)) + 60.0 + self.rank
        return 60.0 * EPS * self.variance, EPS * angles * float(self.weights().sum())


@dataclass(frozen=True)
class Divergences:
    """KL(exact‖approximate) and its reverse of each set of rows, and at least the errors of rounding."""

    there: Float
    back: Float
    error_there: Float
    error_back: Float

    def largest(self) -> Float:
        """The larger of the two."""
        return np.maximum(self.there, self.back)

    def exceed(self, bound: float) -> Float:
        """1 where one of them is surely above the bound, −1 where both are surely at most the bound, else 0."""
        above = (self.there - self.error_there > bound) | (self.back - self.error_back > bound)
        below = (self.there + self.error_there <= bound) & (self.back + self.error_back <= bound)
        return np.where(above, 1.0, np.where(below, -1.0, 0.0))


def divergences(model: Approximation, X: Float, counts: Float, noise: float) -> Divergences:
    """Both divergences of sets X (sets, n, D) with multiplicities (sets, n), and bounds on their errors.

    L from A₂ ≈ LLᵀ and G ≈ L⁻¹(A₁ − A₂)L⁻ᵀ are taken as they are computed.  With E₂ = A₂ − LLᵀ and E = A₁ − A₂ − LGLᵀ,
    whose norms are bounded by ε₂ and ε, L⁻¹A₂L⁻ᵀ = I + P₂ and L⁻¹A₁L⁻ᵀ = I + G + P₁, |P₂| ≤ ε₂/(1 − ε₂) = η₂ and
    |P₁| ≤ (ε + ε₂)/(1 − ε₂) = η₁, as LLᵀ ⪰ (1 − ε₂)I.
    """
    n = X.shape[1]
    root = np.sqrt(counts / noise)
    scaled = root[:, :, None] * root[:, None]
    K, Xi = model.covariances(X) * scaled, model.functions(X) * root[:, :, None]
    second = Xi @ Xi.transpose(0, 2, 1)
    exact_entry, series_entry = model.entry_errors()
    total = counts.sum(axis=1) / noise
    off = (exact_entry + series_entry) * total + 16.0 * EPS * (_norm(K) + _norm(second))
    L = np.linalg.cholesky(second + np.eye(n))
    difference = K - second
    half = np.linalg.solve(L, difference)
    G = np.linalg.solve(L, half.transpose(0, 2, 1))
    G = 0.5 * (G + G.transpose(0, 2, 1))
    sizes = _norm(L) ** 2
    first_error = _norm(second + np.eye(n) - L @ L.transpose(0, 2, 1)) + 2.0 * n * EPS * sizes + off
    other_error = _norm(difference - L @ G @ L.transpose(0, 2, 1)) + 4.0 * n * EPS * sizes * _norm(G) + off
    safe = np.minimum(first_error, 0.5)
    eta2 = safe / (1.0 - safe)
    eta1 = (other_error + safe) / (1.0 - safe) + 20.0 * n * EPS * _norm(G)
    g = np.linalg.eigvalsh(G)
    least = 1.0 + g[:, 0]
    sure = (first_error < 0.5) & (least > 2.0 * eta1)
    least = np.where(sure, least, 1.0)
    g = np.where(sure[:, None], g, 0.0)
    there, back = 0.5 * (g - np.log1p(g)).sum(axis=1), 0.5 * (np.log1p(g) - g / (1.0 + g)).sum(axis=1)
    wide, inverse = math.sqrt(n), np.sqrt((1.0 / (1.0 + g) ** 2).sum(axis=1))
    logs = wide * (eta1 / (least - np.minimum(eta1, 0.5 * least)) + eta2 / (1.0 - np.minimum(eta2, 0.5)))
    traces = wide * eta1 + 2.0 * eta2 * (wide + _norm(G) + eta1)
    reverse = wide * 2.0 * eta1 / least**2 * (1.0 + eta2) + eta2 * inverse
    own = 100.0 * n * EPS * (1.0 + there + back)
    error_there, error_back = 0.5 * (logs + traces) + own, 0.5 * (logs + reverse) + own
    unknown = np.where(sure, 0.0, np.inf)
    return Divergences(there, back, error_there + unknown, error_back + unknown)


def _norm(A: Float) -> Float:
    """The Frobenius norms of the matrices."""
    return np.asarray(np.sqrt((A * A).sum(axis=(1, 2))))


def enclosed(model: Approximation, X: Float, counts: Float, noise: float) -> tuple[Any, Any]:
    """Both divergences of one set X (n, D) as balls; rows of multiplicity 0 are left out."""
    before, ctx.prec = ctx.prec, BITS
    try:
        kept = counts > 0.0
        rows = [[arb(float(x)) for x in row] for row in X[kept]]
        roots = [(arb(float(count)) / arb(noise)).sqrt() for count in counts[kept]]
        first, second = _exact(model, rows, roots), _series(model, rows, roots)
        identity = arb_mat(len(rows), len(rows), [int(i == j) for i in range(len(rows)) for j in range(len(rows))])
        A, B = first + identity, second + identity
        logs = (B.det() / A.det()).log()
        there = (_trace(B.solve(A)) - len(rows) + logs) / 2
        back = (_trace(A.solve(B)) - len(rows) - logs) / 2
        return there, back
    finally:
        ctx.prec = before


def _trace(A: arb_mat) -> Any:
    return sum((A[i, i] for i in range(A.nrows())), arb(0))


def _exact(model: Approximation, rows: list[list[Any]], roots: list[Any]) -> arb_mat:
    """√w K √w/σ²."""
    lengths = [arb(float(each)) for each in model.lengthscales]

    def entry(i: int, j: int) -> Any:
        squared = sum((((a - b) / each) ** 2 for a, b, each in zip(rows[i], rows[j], lengths, strict=True)), arb(0))
        if model.nu == math.inf:
            value = (-squared / 2).exp()
        else:
            z = (squared * (2 * arb(model.nu))).sqrt() if i != j else arb(0)
            value = {0.5: arb(1), 1.5: 1 + z, 2.5: 1 + z + z * z / 3}[model.nu] * (-z).exp()
        return value * arb(model.variance) * roots[i] * roots[j]

    return arb_mat(len(rows), len(rows), [entry(i, j) for i in range(len(rows)) for j in range(len(rows))])


def _series(model: Approximation, rows: list[list[Any]], roots: list[Any]) -> arb_mat:
    """√w K̃ √w/σ², a dimension after the other joined to the products of functions."""
    lengths = [arb(float(c)) * arb(float(S)) for c, S in zip(model.c, model.half_width, strict=True)]
    scale, squared = arb(model.variance) * (2 * arb.pi()) ** (arb(model.dim) / 2), [arb(0)]
    values = [[root] for root in roots]
    for d, m in enumerate(model.m):
        ell, L = arb(float(model.lengthscales[d])), lengths[d]
        scale *= ell / L
        own = [(j * arb.pi() * ell / (2 * L)) ** 2 for j in range(1, int(m) + 1)]
        squared = [a + b for a in squared for b in own]
        for i, row in enumerate(rows):
            angle = arb.pi() * (row[d] + L) / (2 * L)
            sines = [(j * angle).sin() for j in range(1, int(m) + 1)]
            values[i] = [a * b for a in values[i] for b in sines]
    if model.nu == math.inf:
        weights = [(-each / 2).exp() for each in squared]
    else:
        nu, half = arb(model.nu), arb(model.dim) / 2
        constant = (nu + half).gamma() / nu.gamma() * nu**-half
        weights = [constant * (1 + each / (2 * nu)) ** -(nu + half) for each in squared]
    plain = arb_mat(values)
    weighted = arb_mat([[a * b for a, b in zip(row, weights, strict=True)] for row in values])
    return scale * (weighted * plain.transpose())
