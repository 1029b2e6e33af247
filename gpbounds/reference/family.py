"""The collapsed family in mpmath, written from its definition: dense, slow, simple.

Blocks of the prior, Y (N × P) and noise as in `gpbounds.reference.renyi`.  ``blocks`` are the lists of rows within
which K − Q is kept: N lists of one row are the diagonal, one list of N rows is full, no list is DTC.
"""

from __future__ import annotations

from typing import Any

from mpmath import exp, eye, mp, mpf, sqrt

from gpbounds.reference import matrices, renyi
from gpbounds.reference.divergences import log_det, solve, trace
from gpbounds.reference.evidence import columns

Blocks = list[list[int]]


def singles(N: int) -> Blocks:
    """Blocks of one row each: the diagonal."""
    return [[i] for i in range(N)]


def kept(residual: Any, blocks: Blocks) -> Any:
    """R: the entries of K − Q within a block, 0 elsewhere."""
    R = mp.zeros(residual.rows)
    for rows in blocks:
        for i in rows:
            for j in rows:
                R[i, j] = residual[i, j]
    return R


def parts(Kff: Any, Kuf: Any, Kuu: Any, blocks: Blocks) -> tuple[Any, Any]:
    """Q and R."""
    Q = renyi.nystrom(Kuf, Kuu)
    return Q, kept(Kff - Q, blocks)


def objective(Kff: Any, Kuf: Any, Kuu: Any, Y: Any, noise: Any, power: Any, blocks: Blocks) -> Any:
    """Σ_p log N(y_p; 0, Q + aR + σ²I) − P(1−a)/(2a) log|I + aR/σ²|; a → 0: − P Tr R/(2σ²)."""
    Q, R = parts(Kff, Kuf, Kuu, blocks)
    a, identity = mpf(power), eye(Kff.rows)
    fit = sum(renyi.log_normal(y, Q + a * R + noise * identity) for y in columns(Y))
    if a == 0:
        return fit - Y.cols * trace(R) / (2 * noise)
    return fit - Y.cols * (1 - a) / (2 * a) * log_det(identity + a * R / noise)


def inducing_posterior(Kff: Any, Kuf: Any, Kuu: Any, Y: Any, noise: Any, power: Any, blocks: Blocks) -> tuple[Any, Any]:
    """q(u) = N(Kuf Ξ⁻¹Y, Kuu − Kuf Ξ⁻¹Kfu), Ξ = Q + aR + σ²I: means (M × P) and covariance."""
    Q, R = parts(Kff, Kuf, Kuu, blocks)
    inverse = matrices.inverse(Q + mpf(power) * R + noise * eye(Kff.rows))
    return Kuf * inverse * Y, Kuu - Kuf * inverse * Kuf.T


def predict(
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
    Q, R = parts(Kff, Kuf, Kuu, blocks)
    inverse = matrices.inverse(Q + mpf(power) * R + noise * eye(Kff.rows))
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


def central(function: Any, step: Any) -> Any:
    """(f(h) − f(−h))/(2h): at 50 digits and h = 1e-12 a derivative to 1e-24 relative."""
    return (function(step) - function(-step)) / (2 * step)


def stationary(X: Any, Z: Any, variance: Any, lengthscales: list[Any], p: int | None = None) -> Any:
    """variance · ρ(r) for lists of rows: squared exponential, or Matérn of ν = p + ½."""
    K = mp.matrix(len(X), len(Z))
    for i, x in enumerate(X):
        for j, z in enumerate(Z):
            squared = sum(((u - v) / ell) ** 2 for u, v, ell in zip(x, z, lengthscales, strict=True))
            K[i, j] = variance * (exp(-squared / 2) if p is None else half_integer(p, squared))
    return K


def half_integer(p: int, squared: Any) -> Any:
    """ρ_{p+½} of r²: p!/(2p)! Σ_i (p+i)!/(i!(p−i)!) (2z)^(p−i) e^(−z), z = √(2p+1) r."""
    z = sqrt((2 * p + 1) * squared)
    f = mp.factorial
    terms = (f(p + i) / (f(i) * f(p - i)) * (2 * z) ** (p - i) for i in range(p + 1))
    return exp(-z) * f(p) / f(2 * p) * sum(terms)
