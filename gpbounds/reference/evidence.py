"""The brackets of log p(y) and the collapsed family in mpmath, written from the definitions: dense, slow, simple.

Blocks of the prior, Y (N × P) and noise as in `gpbounds.reference.renyi`; log p(y) is the sum over the P columns.
For the family ``blocks`` are the lists of rows within which K − Q is kept: N lists of one row are the diagonal, one
list of N rows is full, no list is DTC.
"""

from __future__ import annotations

from typing import Any

from mpmath import eye, log, mp, mpf, pi, sqrt

from gpbounds.reference import linalg, renyi
from gpbounds.reference.linalg import log_det, solve, trace


def columns(Y: Any) -> list[Any]:
    """The columns of Y (N × P), each N × 1."""
    return [Y[:, p] for p in range(Y.cols)]


def log_evidence(Kff: Any, Y: Any, noise: Any) -> Any:
    """Σ_p log N(y_p; 0, K + σ²I)."""
    return sum(renyi.log_evidence(Kff, y, noise) for y in columns(Y))


def jitter_ends(noises: list[Any], jitter: Any, square: Any) -> tuple[Any, Any]:
    """N-jitter: ends of log N(y; 0, A + jI) − log N(y; 0, A), A = K + diag(noises), for yᵀA⁻¹y = ``square``."""
    low = -sum(log(1 + jitter / noise) for noise in noises) / 2
    return low, max(jitter / (noise + jitter) for noise in noises) * square / 2


def elbo(Kff: Any, Kuf: Any, Kuu: Any, Y: Any, noise: Any, alpha: Any) -> Any:
    """Σ_p L_α(y_p)."""
    return sum(renyi.elbo(Kff, Kuf, Kuu, y, noise, alpha) for y in columns(Y))


def form(y: Any, A: Any) -> Any:
    """yᵀA⁻¹y."""
    return (y.T * linalg.inverse(A) * y)[0]


def log1p_sum_bounds(s: Any, q: Any, n: int, m: Any) -> tuple[Any, Any]:
    """Bounds on Σ log(1 + w_i), n numbers in [0, m] with sum s and sum of squares q, each attained on two values."""
    t = q / s
    low = s / t * log(1 + t)
    top = min(s, m, sqrt(q))
    if n * top - s <= mpf("1e-40") * s:
        return low, n * log(1 + s / n)
    u = (s * top - q) / (n * top - s)
    k = (s - n * u) / (top - u)
    return low, (n - k) * log(1 + u) + k * log(1 + top)


def log_det_bounds(Kff: Any, Kuf: Any, Kuu: Any, noise: Any, alpha: Any) -> tuple[Any, Any]:
    """Lower and upper bound on log|K_n| − log|Ξ| from Tr(αΞ⁻¹Δ) and Tr((αΞ⁻¹Δ)²)."""
    residual = Kff - renyi.nystrom(Kuf, Kuu)
    ratio = alpha * linalg.inverse(renyi.xi(Kff, Kuf, Kuu, noise, alpha)) * residual
    s, q = trace(ratio), trace(ratio * ratio)
    if s < mpf("1e-40"):
        return mpf(0), mpf(0)
    top = max(renyi.spectrum((residual + residual.T) / 2)[0], mpf(0)) / noise
    return log1p_sum_bounds(s, q, Kff.rows, alpha * top / (1 + (1 - alpha) * top))


def upper(Kff: Any, Kuf: Any, Kuu: Any, Y: Any, noise: Any, alpha: Any, shift: Any, kept: Any) -> Any:
    """Σ_p −½log|2πΞ| − ½kept − ½y_pᵀ(Ξ + α·shift·I)⁻¹y_p: R-eq8, with ``kept`` ≤ log|K_n|/|Ξ|."""
    xi = renyi.xi(Kff, Kuf, Kuu, noise, alpha)
    volume = Kff.rows * log(2 * pi) + log_det(xi)
    wider = xi + alpha * shift * eye(Kff.rows)
    return -sum(volume + kept + form(y, wider) for y in columns(Y)) / 2


def spread(w: Any, residual: Any, block: int) -> Any:
    """(Σ_b √(w_bᵀΔ_bb w_b))² over blocks of consecutive rows: an upper bound on wᵀΔw."""
    total = mpf(0)
    for start in range(0, w.rows, block):
        stop = min(start + block, w.rows)
        part = w[start:stop, :]
        total += sqrt(max((part.T * residual[start:stop, start:stop] * part)[0], mpf(0)))
    return total**2


def weighted_form(y: Any, B: Any, residual: Any, shift: Any, block: int) -> Any:
    """(wᵀy)²/(wᵀBw + spread) at w = (B + shift·I)⁻¹y: a lower bound on yᵀK_n⁻¹y."""
    w = linalg.inverse(B + shift * eye(B.rows)) * y
    curvature = (w.T * B * w)[0] + spread(w, residual, block)
    return (w.T * y)[0] ** 2 / curvature if curvature > 0 else mpf(0)


def members(Kff: Any, Kuf: Any, Kuu: Any, Y: Any, noise: Any, grid: Any, block: int = 512) -> dict[str, Any]:
    """The upper members that need no order below 1 and no solve.

    ``grid`` holds the shifts of "weighted" over T, ``block`` the size of its blocks.
    """
    prior = Kff, Kuf, Kuu
    Q = renyi.nystrom(Kuf, Kuu)
    residual, B = Kff - Q, Q + noise * eye(Kff.rows)
    T, top = trace(residual), max(renyi.spectrum((residual + residual.T) / 2)[0], mpf(0))
    kept = log(1 + T / (noise + renyi.spectrum((Q + Q.T) / 2)[0]))
    best = 0
    for y in columns(Y):
        forms = [weighted_form(y, B, residual, g * T, block) for g in grid]
        best += max([*forms, form(y, B + T * eye(Kff.rows))])
    volume = Kff.rows * log(2 * pi) + log_det(B)
    return {
        "trace": upper(*prior, Y, noise, 1, T, 0),
        "determinant": upper(*prior, Y, noise, 1, T, kept),
        "weighted": -(Y.cols * (volume + kept) + best) / 2,
        "eigenvalue": upper(*prior, Y, noise, 1, top, log_det_bounds(*prior, noise, mpf(1))[0]),
        "tangent": sum(renyi.elbo(*prior, y, noise, 1) + renyi.elbo_slope(*prior, y, noise) for y in columns(Y)),
    }


def order(Kff: Any, Kuf: Any, Kuu: Any, Y: Any, noise: Any, alpha: Any) -> Any:
    """R-eq8 at α < 1 with λ, and the determinant from two moments."""
    top = max(renyi.spectrum(Kff - renyi.nystrom(Kuf, Kuu))[0], mpf(0))
    return upper(Kff, Kuf, Kuu, Y, noise, alpha, top, log_det_bounds(Kff, Kuf, Kuu, noise, alpha)[0])


def secant(first: Any, second: Any, alpha1: Any, alpha2: Any) -> Any:
    """L_α₁ + α₁/(α₂ − α₁)·(L_α₁ − L_α₂)."""
    return first + alpha1 / (alpha2 - alpha1) * (first - second)


def lower(Kff: Any, Kuf: Any, Kuu: Any, Y: Any, noise: Any, above: Any) -> Any:
    """Σ_p −½log|2πB| − ½above − ½y_pᵀB⁻¹y_p, ``above`` ≥ log|K_n|/|B|."""
    return upper(Kff, Kuf, Kuu, Y, noise, 1, 0, above)


def two_sided(Kff: Any, Kuf: Any, Kuu: Any, y: Any, noise: Any, v: Any, shift: Any) -> tuple[Any, Any, Any]:
    """Lower bound, exact value and upper bound of ½yᵀK_n⁻¹y from v and r = y − K_n v."""
    B = renyi.nystrom(Kuf, Kuu) + noise * eye(Kff.rows)
    Kn = Kff + noise * eye(Kff.rows)
    r = y - Kn * v
    base = (v.T * (r + Kn * v / 2))[0]
    return base + form(r, B + shift * eye(Kff.rows)) / 2, form(y, Kn) / 2, base + form(r, B) / 2


def stack(*ys: Any) -> Any:
    """Columns side by side."""
    out = mp.zeros(ys[0].rows, len(ys))
    for p, y in enumerate(ys):
        out[:, p] = y
    return out


Blocks = list[list[int]]


def singles(N: int) -> Blocks:
    """Blocks of one row each: the diagonal."""
    return [[i] for i in range(N)]


def kept_residual(residual: Any, blocks: Blocks) -> Any:
    """R: the entries of K − Q within a block, 0 elsewhere."""
    R = mp.zeros(residual.rows)
    for rows in blocks:
        for i in rows:
            for j in rows:
                R[i, j] = residual[i, j]
    return R


def fischer(Kff: Any, Kuf: Any, Kuu: Any, Y: Any, noise: Any, blocks: Blocks, sets: Blocks | None = None) -> Any:
    """Σ_p log N(y_p; 0, Q + σ²I) − (P/2)Σ_b log|C_bb|, C = I + (K − Q)/σ²; with ``sets`` C_bb − C_bS C_SS⁻¹C_Sb.

    N-fischer, and with sets of earlier rows N-fischer-vecchia.
    """
    C = eye(Kff.rows) + (Kff - renyi.nystrom(Kuf, Kuu)) / noise
    above = mpf(0)
    for rows, given in zip(blocks, sets or [[] for _ in blocks], strict=True):
        block = linalg.pick(C, rows, rows)
        if given:
            weights = linalg.pick(C, rows, given) * linalg.inverse(linalg.pick(C, given, given))
            block -= weights * linalg.pick(C, given, rows)
        above += log_det(block)
    return lower(Kff, Kuf, Kuu, Y, noise, above)


def structured_elbo(
    Kff: Any, Kuf: Any, Kuu: Any, y: Any, noise: Any, blocks: Blocks, covariances: list[Any], mean: Any, cov: Any
) -> Any:
    """E_q log p(y|f) − KL[q(f, u)‖p(f, u)] for q(u) = N(mean, cov), q(f|u) = N(KfuKuu⁻¹u, Δ^½VΔ^½).

    V is block-diagonal with the given blocks, Δ = K − Q positive definite, Δ^½ its symmetric root.
    """
    N, M = Kff.rows, Kuu.rows
    residual = Kff - renyi.nystrom(Kuf, Kuu)
    values, vectors = mp.eigsy((residual + residual.T) / 2)
    root = vectors * mp.diag([sqrt(v) for v in values]) * vectors.T
    V = mp.zeros(N)
    for rows, part in zip(blocks, covariances, strict=True):
        for i, a in enumerate(rows):
            for j, b in enumerate(rows):
                V[a, b] = part[i, j]
    lift = solve(Kuu, Kuf).T
    left, spread = y - lift * mean, lift * cov * lift.T + root * V * root
    fit = -(N * log(2 * pi * noise) + ((left.T * left)[0] + trace(spread)) / noise) / 2
    of_f = (trace(V) - N - log_det(V)) / 2
    ratio = solve(Kuu, cov)
    return fit - of_f - (trace(ratio) + form(mean, Kuu) - M - log_det(ratio)) / 2


def collapsed_parts(Kff: Any, Kuf: Any, Kuu: Any, blocks: Blocks) -> tuple[Any, Any]:
    """Q and R."""
    Q = renyi.nystrom(Kuf, Kuu)
    return Q, kept_residual(Kff - Q, blocks)


def collapsed_objective(Kff: Any, Kuf: Any, Kuu: Any, Y: Any, noise: Any, power: Any, blocks: Blocks) -> Any:
    """Σ_p log N(y_p; 0, Q + aR + σ²I) − P(1−a)/(2a) log|I + aR/σ²|; a → 0: − P Tr R/(2σ²)."""
    Q, R = collapsed_parts(Kff, Kuf, Kuu, blocks)
    a, identity = mpf(power), eye(Kff.rows)
    fit = sum(renyi.log_normal(y, Q + a * R + noise * identity) for y in columns(Y))
    if a == 0:
        return fit - Y.cols * trace(R) / (2 * noise)
    return fit - Y.cols * (1 - a) / (2 * a) * log_det(identity + a * R / noise)


def collapsed_posterior(
    Kff: Any, Kuf: Any, Kuu: Any, Y: Any, noise: Any, power: Any, blocks: Blocks
) -> tuple[Any, Any]:
    """q(u) = N(Kuf Ξ⁻¹Y, Kuu − Kuf Ξ⁻¹Kfu), Ξ = Q + aR + σ²I: means (M × P) and covariance."""
    Q, R = collapsed_parts(Kff, Kuf, Kuu, blocks)
    inverse = linalg.inverse(Q + mpf(power) * R + noise * eye(Kff.rows))
    return Kuf * inverse * Y, Kuu - Kuf * inverse * Kuf.T


def collapsed_predict(
    prior: tuple[Any, Any, Any],
    Y: Any,
    new: tuple[Any, Any, Any],
    noise: Any,
    power: Any,
    blocks: Blocks,
    homes: list[int] | None = None,
) -> tuple[Any, Any]:
    """Means (N* × P) and covariance of f*: K̃_*f Ξ⁻¹Y and K̃_** − K̃_*f Ξ⁻¹K̃_f*.

    ``new`` is K_** (N* × N*), K_*f (N* × N), Kus (M × N*).  K̃_*f = Q_*f and K̃_** = K_** without ``homes``; with the
    number of a block for each new point, K within the block and Q across blocks (PIC; one block: the exact GP).
    """
    Kff, Kuf, Kuu = prior
    Kss, Ksf, Kus = new
    Q, R = collapsed_parts(Kff, Kuf, Kuu, blocks)
    inverse = linalg.inverse(Q + mpf(power) * R + noise * eye(Kff.rows))
    cross, own = Kus.T * solve(Kuu, Kuf), Kss.copy()
    if homes is not None:
        own = renyi.nystrom(Kus, Kuu)
        for i, home in enumerate(homes):
            for j in blocks[home]:
                cross[i, j] = Ksf[i, j]
            for j, other in enumerate(homes):
                if home == other:
                    own[i, j] = Kss[i, j]
    return cross * inverse * Y, own - cross * inverse * cross.T
