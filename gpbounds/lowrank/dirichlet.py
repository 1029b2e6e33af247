"""KL divergence of Hilbert-space GPs in doubles: images, tails, nodes and boundary derivatives (N-hilbert-*).

Lengths are in units of the lengthscale, covariances and noise in units of the variance: k = ρ, z = S/ℓ, L = cz.  The
Dirichlet eigenfunctions of [−L, L] are φ_j(x) = sin(jπ(x + L)/(2L))/√L with frequencies ω_j = jπ/(2L); k_m keeps
j ≤ m and k_∞ all of them, with weights s(ω_j).  ν is ∞ for the squared exponential kernel.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
from scipy.linalg import solve_triangular
from scipy.special import betainc, erfc, gamma, gammaincc

from gpbounds.arrays import Float
from gpbounds.numerics.scalars import log1p_residual
from gpbounds.sandwich import roots

MOST_NODES = 400
"""Nodes per dimension beyond which the divergence at nodes is not computed."""
MOST_PRODUCTS = 2**20
"""Products of nodes beyond which it is not."""
LATTICE = 8
"""Images on either side, per dimension, that `predicted` sums one by one."""
SLOWEST = {0.5: 1.0, 1.5: 1.7, 2.5: 3.2}
"""C with r(t) ≤ C e^(−√(2ν)t/2), by ν."""


def correlation(nu: float, r: Any) -> Any:
    """ρ(r), r ≥ 0 in lengthscales, ν in ½, 3/2, 5/2, ∞."""
    if nu == math.inf:
        return np.exp(-0.5 * r * r)
    z = math.sqrt(2.0 * nu) * r
    polynomial = {0.5: (1.0,), 1.5: (1.0, 1.0), 2.5: (1.0, 1.0, 1.0 / 3.0)}[nu]
    return np.polynomial.polynomial.polyval(z, polynomial) * np.exp(-z)


def density(nu: float, w: Any) -> Any:
    """s(ω) in one dimension: ∫s = 2π."""
    if nu == math.inf:
        return math.sqrt(2.0 * math.pi) * np.exp(-0.5 * w * w)
    constant = 2.0 * math.pi * gamma(nu + 0.5) / (gamma(nu) * math.sqrt(2.0 * math.pi * nu))
    return constant * (1.0 + w * w / (2.0 * nu)) ** -(nu + 0.5)


def beyond(nu: float, a: float) -> float:
    """P(|ω| > a) under s/(2π): a normal law, or Student's with 2ν degrees of freedom."""
    if nu == math.inf:
        return float(erfc(a / math.sqrt(2.0)))
    return float(betainc(nu, 0.5, 1.0 / (1.0 + a * a / (2.0 * nu))))


@dataclass(frozen=True)
class Sines:
    """A Hilbert-space GP: ν, N, σ²/variance, and per dimension z = S/ℓ, c and m.

    ``at_nodes`` says whether squared exponential kernels are bounded at nodes, or by the sup-norm of the images alone.
    """

    nu: float
    N: int
    level: float
    reach: Float
    c: Float
    m: Float
    at_nodes: bool = True

    @property
    def dim(self) -> int:
        """D."""
        return self.reach.size

    @property
    def product(self) -> bool:
        """Whether the kernel is a product of kernels on one coordinate each."""
        return self.nu == math.inf or self.dim == 1

    def line(self, d: int) -> Sines:
        """The same in dimension d alone."""
        one = slice(d, d + 1)
        return replace(self, reach=self.reach[one], c=self.c[one], m=self.m[one])


# The two errors of the kernel: images (k_∞ − k) and omitted functions (k_∞ − k_m).


def _steps(nu: float, first: float, step: float) -> float:
    """Σ_{n≥0} ρ(first + n·step): terms up to 50 lengthscales, beyond which ∫ρ(r + t)dt ≤ 1.1ρ(r)."""
    points = first + step * np.arange(2 + int(50.0 / step))
    return float(correlation(nu, points).sum() + 1.1 / step * correlation(nu, points[-1]))


def images(box: Sines) -> float:
    """ε with 0 ≤ k − k_∞ ≤ ε on the box (N-hilbert-images): of products 1 − Π(1 − ε_d), of Matérn kernels Σε_d."""
    ends = zip(box.reach.tolist(), (box.c * box.reach).tolist(), strict=True)
    return joint(box, [_pairs(box.nu, 2.0 * L, 4.0 * L, 2.0 * S) for S, L in ends])


def joint(box: Sines, parts: Sequence[float]) -> float:
    """1 − Π(1 − p_d) for a product of kernels, else Σp_d; at most 1."""
    if not box.product:
        return min(math.fsum(parts), 1.0)
    return parts[0] if box.dim == 1 else -math.expm1(math.fsum(math.log1p(-p) if p < 1.0 else -math.inf for p in parts))


def _pairs(nu: float, first: float, step: float, width: float) -> float:
    """Σ_{n≥0} ρ(a − width) + ρ(a), a = first + n·step: at least Σ ρ(a − u) + ρ(a + u) for |u| ≤ width."""
    return _steps(nu, first - width, step) + _steps(nu, first, step)


def tail(nu: float, reach: float, c: float, m: float) -> float:
    """t ≥ Σ_{j>m} s(ω_j)φ_j(x)² for |x| ≤ S in one dimension (N-hilbert-tail).

    (1/2L)[Σ_{j>m} s_j + s_{m+1}/cos(π/(2c))] ≤ P(|ω| > a) + s_{m+1}/(2L cos(π/(2c))), and ≤ 2P(|ω| > a); a =
    (m + ½)π/(2L) where s is convex beyond, else mπ/(2L).
    """
    length = c * reach
    step = math.pi / (2.0 * length)
    turn = 1.0 if nu == math.inf else math.sqrt(nu / (nu + 1.0))
    start = (m + 0.5) * step if (m + 0.5) * step >= turn else m * step
    share = beyond(nu, start)
    edge = float(density(nu, np.asarray((m + 1.0) * step))) / (2.0 * length * math.cos(math.pi / (2.0 * c)))
    return min(share + edge, 2.0 * share)


def omitted(box: Sines) -> float:
    """A bound on k_∞(x, x) − k_m(x, x) in the box, also in more dimensions (N-hilbert-tail)."""
    lines = zip(box.reach.tolist(), box.c.tolist(), box.m.tolist(), strict=True)
    return joint(box, [tail(box.nu, *line) for line in lines])


# The divergence.


def bound(box: Sines) -> tuple[float, dict[str, float]]:
    """The least of the bounds of N-hilbert-kl on KL in both directions, and its parts."""
    moved = by_images(box)
    parts = {"images": images(box), "omitted": omitted(box), "divergence of the images": moved.divergence}
    value = joined(box, moved)
    if box.at_nodes and box.nu == math.inf:
        value = min(value, at_nodes(box, kept=True))
    return value, parts


@dataclass(frozen=True)
class ImageBound:
    """κ ≥ KL between the laws under k and under k_∞, both ways, and η with K + σ²I ⪯ (1 + η)(K_∞ + σ²I)."""

    divergence: float
    eta: float

    @classmethod
    def of(cls, divergence: float) -> ImageBound:
        """The η with η − log(1 + η) = 2κ."""
        return cls(divergence, float(roots(divergence, minus_one=True)[1]) if divergence < math.inf else math.inf)


def joined(box: Sines, moved: ImageBound) -> float:
    """κ + ½φ(x) + ½ηx, φ(x) = x − log(1 + x), x = N·omitted/level (N-hilbert-psd)."""
    x = box.N * omitted(box) / box.level
    if not (math.isfinite(moved.divergence) and math.isfinite(x)):
        return math.inf
    return moved.divergence + 0.5 * float(log1p_residual(x)) + 0.5 * moved.eta * x


def by_images(box: Sines) -> ImageBound:
    """The least bound on KL(N(0, K + σ²I)‖N(0, K_∞ + σ²I)) and its reverse: by sup-norm, prediction, ends or nodes."""
    value = by_norm(box)
    if box.nu == math.inf:
        return ImageBound.of(min(value, at_nodes(box, kept=False)) if box.at_nodes else value)
    if box.dim > 1:
        return ImageBound.of(min(value, by_prediction(box)))
    ends = at_ends(box)
    return ends if ends.divergence <= value else ImageBound.of(value)


def by_norm(box: Sines) -> float:
    """δ²/(4(1 − δ)), δ = Nε/level: Σe_i² ≤ δ² and φ(e) ≤ e²/(2(1 − |e|))."""
    delta = box.N * images(box) / box.level
    return delta * delta / (4.0 * (1.0 - delta)) if delta < 1.0 else math.inf


# Matérn kernels in D = 2, 3: what a half-space says of the values at the images (N-hilbert-predict).


def explained(nu: float, distance: Any) -> Any:
    """r²: the share of the variance of f, at a distance from a half-space of R³, that the values there explain."""
    y = 2.0 * math.sqrt(2.0 * nu) * np.asarray(distance)
    return (2.0 * nu * gammaincc(2.0 * nu + 1.0, y) + gammaincc(2.0 * nu, y)) / (2.0 * nu + 1.0)


def predicted(box: Sines) -> float:
    """Ω ≥ Σ r over all images of a point of the box: by one coordinate beyond its side, the farthest.

    Beyond LATTICE, r(t) ≤ C e^(−θΣt_d), θ = √(2ν)/(2D).
    """
    n, rate = np.arange(1.0, LATTICE + 1.0), math.sqrt(2.0 * box.nu) / (2.0 * box.dim)
    least, everywhere, inside = np.ones(()), 1.0, 1.0
    for S, L in zip(box.reach.tolist(), (box.c * box.reach).tolist(), strict=True):
        distances = np.concatenate([[0.0], 2.0 * L * n - 2.0 * S, 2.0 * L * n - S])
        least = np.minimum(least[..., None], np.sqrt(explained(box.nu, distances)))
        rest = 2.0 * math.exp(-rate * (2.0 * L * (LATTICE + 1) - 2.0 * S)) / -math.expm1(-2.0 * rate * L)
        near = float(np.exp(-rate * distances).sum())
        everywhere, inside = everywhere * (near + rest), inside * near
    return float(least.ravel()[1:].sum()) + SLOWEST[box.nu] * (everywhere - inside)  # the first is the point itself


def by_prediction(box: Sines) -> float:
    """½[q/(1 − q) + log(1 − q)], q² = NΩ²/level ≥ Σe_i²."""
    q = math.sqrt(box.N / box.level) * predicted(box)
    return 0.5 * float(log1p_residual(q / (1.0 - q))) if q < 1.0 else math.inf


# The divergence of two processes in blocks.


Blocks = list[tuple[Float, Float]]
"""Pairs (C, E) of even and odd parts of two processes: covariances C and C + E."""


def both_ways(blocks: Blocks, noise: float) -> ImageBound:
    """The larger of ΣKL(N(0, C + noise I)‖N(0, C + E + noise I)) over the blocks and its reverse; inf if indefinite.

    From the eigenvalues 1 + e of the second whitened by the first: ½Σ[log(1 + e) − e/(1 + e)] and ½Σ[e − log(1 + e)];
    the first is at most 1 + η times the second, η = max −e/(1 + e).
    """
    there, back, eta = 0.0, 0.0, 0.0
    for C, E in blocks:
        try:
            L = np.linalg.cholesky(C + noise * np.eye(len(C)))
        except np.linalg.LinAlgError:
            return ImageBound(math.inf, math.inf)
        half = solve_triangular(L, E, lower=True, check_finite=False)
        e = np.linalg.eigvalsh(_even(solve_triangular(L, half.T, lower=True, check_finite=False)))
        if not e[0] > -1.0:
            return ImageBound(math.inf, math.inf)
        eta = max(eta, float(-e[0] / (1.0 + e[0])))
        there += 0.5 * float(log1p_residual(-e / (1.0 + e)).sum())
        back += 0.5 * float(log1p_residual(e).sum())
    return ImageBound(max(there, back), eta)


def _even(A: Float) -> Float:
    return 0.5 * (A + A.T)


# Matérn kernels on a line: the derivatives at the ends of the box decide (N-hilbert-ends).


def at_ends(box: Sines) -> ImageBound:
    """KL of the laws of f, f', …, f^(p−1) at ±S under k and k_∞, ν = p − ½: even and odd parts, p × p each."""
    scale = math.sqrt(2.0 * box.nu)
    S, L = scale * float(box.reach[0]), scale * float(box.c[0] * box.reach[0])
    p = round(box.nu + 0.5)
    order = np.add.outer(np.arange(p), np.arange(p))
    signs = (-1.0) ** np.arange(p)
    here, across = derivatives(p, 0.0), derivatives(p, 2.0 * S)
    # f^(i)(S) with f^(j)(S), and with (−1)^j f^(j)(−S): derivatives of k(x − x'), and of the images that are added.
    same, other = signs[None, :] * here[order], across[order]
    flips = (-1.0) ** np.arange(2 * p - 1)
    n = np.arange(1, 3 + int((45.0 + 2.0 * S) / (2.0 * L)))  # images at ±2nL: even n of x − x', odd n of x + x'
    alternate = (-1.0) ** n
    middle = derivatives(p, 2.0 * L * n) * (1.0 + flips[:, None])
    ends = derivatives(p, 2.0 * L * n + 2.0 * S) + derivatives(p, 2.0 * L * n - 2.0 * S) * flips[:, None]
    even, odd = (0.5 * (1.0 + sign * alternate) for sign in (1.0, -1.0))
    added_same = signs[None, :] * (middle @ even)[order] - (ends @ odd)[order]
    added_other = (ends @ even)[order] - signs[None, :] * (middle @ odd)[order]
    return both_ways([(_even(same + s * other), _even(added_same + s * added_other)) for s in (1.0, -1.0)], 0.0)


def derivatives(p: int, u: Any) -> Float:
    """k^(q)(u), q = 0 … 2p − 2, u ≥ 0, of the Matérn kernel with ν = p − ½ in units of ℓ/√(2ν)."""
    coefficients = np.array({1: [1.0], 2: [1.0, 1.0], 3: [1.0, 1.0, 1.0 / 3.0]}[p])
    values, fall = [], np.exp(-np.asarray(u))
    for _ in range(2 * p - 1):
        values.append(np.polynomial.polynomial.polyval(u, coefficients) * fall)
        coefficients = np.append(coefficients[1:] * np.arange(1, p), 0.0) - coefficients
    return np.array(values)


# Squared exponential kernels: the values at Lobatto's nodes decide, up to the error of interpolation (N-hilbert-nodes).


@lru_cache(maxsize=64)
def lobatto(r: int) -> Float:
    """The r ≥ 3 Gauss–Lobatto nodes of [−1, 1]: ±1 and the zeros of P'_{r−1}."""
    k = np.arange(1, r - 2, dtype=np.float64)  # P'_{r−1} is a Jacobi polynomial: eigenvalues of its matrix
    off = np.sqrt(k * (k + 2.0) / ((2.0 * k + 1.0) * (2.0 * k + 3.0)))
    inner = np.linalg.eigvalsh(np.diag(off, 1) + np.diag(off, -1))
    return np.concatenate([[-1.0], 0.5 * (inner - inner[::-1]), [1.0]])


def interpolation(reach: float, c: float, r: Any) -> tuple[Any, Any]:
    """κ with |k − IkI| ≤ κ on the box, I the interpolation at r nodes: for k and for k_m or k_∞.

    (1 + √r)²E, E = 2e^(−rα + (z sinh α)²/2)/(1 − e^(−α)) for any α > 0, times 2 + √(2π)/L for the series.
    """
    alpha = steepness(reach, r)
    with np.errstate(over="ignore"):
        bulge = np.exp(0.5 * (reach * np.sinh(alpha)) ** 2 - r * alpha)
    error = 2.0 * bulge / -np.expm1(-alpha) * (1.0 + np.sqrt(r)) ** 2
    return error, error * (2.0 + math.sqrt(2.0 * math.pi) / (c * reach))


def steepness(reach: float, r: Any) -> Any:
    """The α with the least (z sinh α)²/2 − rα: an ellipse with the semi-axes z cosh α and z sinh α."""
    return 0.5 * np.arcsinh(2.0 * r / (reach * reach))


def nodes(box: Sines) -> tuple[list[int], float, float] | None:
    """Numbers of nodes per dimension, and δ = Nκ/level for k and for its approximation; None if there are too many."""
    numbers, exact_error, series_error = [], 0.0, 0.0
    for S, c in zip(box.reach.tolist(), box.c.tolist(), strict=True):
        wanted = 1e-7 * box.level / (float(box.N) ** 2 * box.dim)
        r = np.arange(4.0, MOST_NODES + 1.0, 2.0)  # even numbers: no node in the middle
        first, second = interpolation(S, c, r)
        place = int(np.argmax(second <= wanted))
        if not second[place] <= wanted:
            return None
        numbers.append(int(r[place]))
        exact_error += math.log1p(first[place])
        series_error += math.log1p(second[place])
    if math.prod(numbers) > MOST_PRODUCTS:
        return None
    ratio = box.N / box.level
    return numbers, ratio * math.expm1(exact_error), ratio * math.expm1(series_error)


def at_nodes(box: Sines, *, kept: bool) -> float:
    """KL at the nodes with noise level/N, both ways, plus the error of interpolation; of k_m if ``kept``, else k_∞."""
    chosen = nodes(box)
    if chosen is None:
        return math.inf
    numbers, first, second = chosen
    noise, size = box.level / box.N, math.prod(numbers)
    rounding = 1e-15 * size / noise * (1.0 if box.dim == 1 else math.sqrt(size))
    if not rounding < 1e-3:
        return math.inf
    if box.dim == 1:
        value = both_ways(_blocks(box, numbers[0], kept), noise).divergence
    else:
        value = products_kl(_sides(box, numbers, kept), noise)
    return value * (1.0 + 1e-9) + rounding + remainder(box.N, size, value, max(first, second))


def _blocks(line: Sines, r: int, kept: bool) -> Blocks:
    """K at the nodes of one dimension and K_m − K or K_∞ − K, in blocks of even and odd functions of x."""
    S, L = float(line.reach[0]), float(line.c[0] * line.reach[0])
    x, there = S * lobatto(r), at_lobatto(S, r)
    right = x[r // 2 :, None]
    if kept:
        j = np.arange(1.0, float(line.m[0]) + 1.0)
        w = j * (math.pi / (2.0 * L))
        values = np.sin(w * (right + L)) * np.sqrt(density(line.nu, w) * (2.0 / L))
        return [(C, values[:, k::2] @ values[:, k::2].T - C) for k, C in enumerate(there)]
    E = np.zeros((r - r // 2, r))
    for n in range(1, 4 + int(24.0 / L)):  # images at ±2nL: even n of x − x', odd n of x + x'
        centre, sign = (right - x, 1.0) if n % 2 == 0 else (right + x, -1.0)
        for shift in (2.0 * n * L, -2.0 * n * L):
            E += sign * correlation(line.nu, np.abs(centre + shift))
    return [(C, _folded(E, sign)) for C, sign in zip(there, (1.0, -1.0), strict=True)]


@lru_cache(maxsize=64)
def at_lobatto(reach: float, r: int) -> tuple[Float, Float]:
    """The squared exponential kernel at the nodes: of even and of odd functions."""
    x = reach * lobatto(r)
    K = correlation(math.inf, np.abs(x[r // 2 :, None] - x))
    return _folded(K, 1.0), _folded(K, -1.0)


def _folded(A: Float, sign: float) -> Float:
    """A(x, x') ± A(x, −x') for nodes x, x' > 0."""
    half = A.shape[0]
    return _even(A[:, half:] + sign * A[:, half - 1 :: -1])


Side = tuple[Float, Float, Float, Float]
"""Of two matrices of one dimension: both spectra, and the diagonal of each in the eigenvectors of the other."""


def _sides(box: Sines, numbers: list[int], kept: bool) -> list[Side]:
    """The spectra of every dimension; dimensions that are alike share theirs."""
    known: dict[tuple[float, ...], Side] = {}
    alike = list(zip(box.reach.tolist(), box.c.tolist(), box.m.tolist(), strict=True))
    for d, (r, like) in enumerate(zip(numbers, alike, strict=True)):
        if like not in known:
            parts = []
            eigen = at_lobatto_eigen(float(box.reach[d]), r)
            for (C, E), (a, V) in zip(_blocks(box.line(d), r, kept), eigen, strict=True):
                b, U = np.linalg.eigh(C + E)
                parts.append((a, b.clip(0.0), ((C @ U) * U).sum(axis=0), a + ((E @ V) * V).sum(axis=0)))
            first, second = parts
            known[like] = tuple(np.concatenate(pair).clip(0.0) for pair in zip(first, second, strict=True))  # type: ignore[assignment]
    return [known[like] for like in alike]


@lru_cache(maxsize=64)
def at_lobatto_eigen(reach: float, r: int) -> list[tuple[Float, Float]]:
    """Eigenvalues and eigenvectors of :func:`at_lobatto`."""
    spectra = [np.linalg.eigh(C) for C in at_lobatto(reach, r)]
    return [(values.clip(0.0), vectors) for values, vectors in spectra]


def products_kl(sides: list[Side], noise: float) -> float:
    """The larger of KL(N(0, ⊗A_d + noise I)‖N(0, ⊗B_d + noise I)) and its reverse.

    From the eigenvalues a, b and the diagonals q of A in B's eigenvectors, p of B in A's: ½Σ[(q − b)/(b + noise) +
    log(b + noise) − log(a + noise)], and the reverse.  Products with a factor that makes all of them small are left
    out: they add at most ½(Σq + Σb)/noise, or ½(Σp + Σa)/noise.
    """
    tops = [[float(vector.max()) for vector in side] for side in sides]
    small = 1e-12 * noise / math.prod(float(side[0].size) for side in sides)
    chosen, left = [], 0.0
    for d, side in enumerate(sides):
        others = [math.prod(top[k] for e, top in enumerate(tops) if e != d) for k in range(4)]
        keep = np.max([vector * other for vector, other in zip(side, others, strict=True)], axis=0) > small
        chosen.append([vector[keep] for vector in side])
    for k in range(4):
        whole = math.prod(float(side[k].sum()) for side in sides)
        shares = (float(part[k].sum() / side[k].sum()) for part, side in zip(chosen, sides, strict=True))
        left = max(left, whole * (1.0 - math.prod(shares)))
    ours, theirs, seen, seen_back = (_outer_product([part[k] for part in chosen]) for k in range(4))
    logs = float(np.log((theirs + noise) / (ours + noise)).sum())
    there = float(((seen - theirs) / (theirs + noise)).sum()) + logs
    back = float(((seen_back - ours) / (ours + noise)).sum()) - logs
    return max(0.5 * there, 0.5 * back, 0.0) + left / noise


def _outer_product(vectors: list[Float]) -> Float:
    result = np.ones(1)
    for vector in vectors:
        result = np.multiply.outer(result, vector).ravel()
    return result


def remainder(N: int, size: int, divergence: float, delta: float) -> float:
    """½[δ/(1−δ)·(N + 4κ + 0.39R) + N(δ − log(1 − δ)) + N log(1 + δ)]: what interpolation adds (N-hilbert-nodes)."""
    if not delta < 0.5:
        return math.inf
    trace = delta / (1.0 - delta) * (N + 4.0 * divergence + 0.39 * size)
    return 0.5 * (trace + N * (delta - math.log1p(-delta) + math.log1p(delta)))
