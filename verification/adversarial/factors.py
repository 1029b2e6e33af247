"""Factors and low-rank approximations of K + σ²I under attack."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from flint import arb, arb_mat

from adversarial import truths
from adversarial.instances import Instance, Refused, Statement, one_of
from gpbounds import lowrank, vecchia
from gpbounds.kernels.errors import entry_errors


def block_factor(case: Instance, rng: np.random.Generator) -> Iterator[Statement]:
    """log|P| of a Vecchia factor within its error, and with it above log|K + σ²I|."""
    blocks = vecchia.near(
        case.kernel, case.X, block=int(rng.integers(1, 5)), neighbours=int(rng.integers(0, 6)), rng=rng
    )
    X = case.X[blocks.order]
    U = vecchia.factor(case.kernel, X, noise=case.noise, blocks=blocks)
    entry = float(entry_errors(case.kernel, X).max())
    off = vecchia.log_det_error(U, float(case.kernel.largest_variance(X)), entry, noise=case.noise)
    if not np.isfinite(off):
        raise Refused("no error is known")

    def log_det(rows: np.ndarray) -> Any:
        if not rows.size:
            return arb(0)
        return (truths.covariances(case.kernel, X[rows], X[rows]) + truths.identity(len(rows), case.noise)).det().log()

    pairs = list(zip(blocks.rows, blocks.sets, strict=True))
    of_factor = U.log_det - off, U.log_det + off
    yield None, lambda: log_det(np.arange(len(X))), of_factor[1]
    yield of_factor[0], lambda: sum((log_det(rows) - log_det(chosen) for rows, chosen in pairs), arb(0)), of_factor[1]


def compared_laws(case: Instance, rng: np.random.Generator) -> Iterator[Statement]:
    """Prop. 1 in its sharpest forms at the spectra that attain them, up to the few units in the last place stated."""
    N, gamma = len(case.X), float(10.0 ** rng.uniform(-9.0, 13.0))
    variance = case.kernel.max_variance
    t1, t2, least = (float(variance * 10.0**power) for power in rng.uniform(-6.0, 6.0, 3))
    c, noise = arb(gamma), arb(case.noise)
    part = float(10.0 ** rng.uniform(-12.0, 0.0))
    x = one_of([part, 1e3 * part, -N * gamma / (1.0 + gamma) * (1.0 - part)], rng)

    def half_phi(e: Any) -> Any:
        return (e - (1 + e).log()) / 2

    def excess() -> Any:
        g = c / (1 + c)
        return (N - 1) * half_phi(-g) + half_phi((arb(x) + (N - 1) * g).max(-g))

    def traces() -> Any:
        g = c / (1 + c)
        T = (arb(t1) - arb(t2) + g * (arb(t2) + N * noise)) / (noise + arb(least))
        return (N - 1) * half_phi(-g) + half_phi(-g).max(half_phi(T - g))

    up = 1.0 + 2.0**-48
    yield None, excess, up * float(lowrank.kl_from_excess(x, N, gamma))
    yield None, lambda: N * half_phi(c), up * float(lowrank.kl_from_ratio(gamma, N))
    residual = lowrank.kl_from_residual(t1, noise=case.noise, least=least)
    yield None, lambda: half_phi(arb(t1) / (noise + arb(least))), up * float(residual)
    Delta = gamma / (1.0 + gamma)
    yield None, lambda: N * half_phi(arb(Delta) / (1 - arb(Delta))), up * float(lowrank.spectral_kl(Delta, N))
    yield None, traces, up * float(lowrank.kl_from_traces(t1, t2, N, gamma, noise=case.noise, least=least))


def residual_certificate(case: Instance, rng: np.random.Generator) -> Iterator[Statement]:
    """From the diagonal of K = vvᵀ and Σ = 0, for which the bound is an equality."""
    diagonal, N = case.y * case.y, len(case.y)
    upper = lowrank.residual_certificate(diagonal, noise=case.noise, rigor=str(rng.choice(["float", "sharp"])))

    def truth() -> Any:
        v, noise = [arb(value).sqrt() for value in diagonal.tolist()], arb(case.noise)
        E = arb_mat(N, N, [a * b / noise for a in v for b in v])
        return (truths.trace(E) - (truths.identity(N, 1.0) + E).det().log()) / 2

    yield None, truth, float(upper)
