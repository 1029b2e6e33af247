"""Factors and low-rank approximations of K + σ²I under attack."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from flint import arb, arb_mat

from adversarial import truths
from adversarial.instances import Instance, Refused, Statement
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


def residual_certificate(case: Instance, rng: np.random.Generator) -> Iterator[Statement]:
    """From the diagonal of K = vvᵀ and Σ = 0, for which the bound is an equality."""
    diagonal, N = case.y * case.y, len(case.y)
    upper = lowrank.residual_certificate(diagonal, noise=case.noise, rigor=str(rng.choice(["float", "sharp"])))

    def truth() -> Any:
        v, noise = [arb(value).sqrt() for value in diagonal.tolist()], arb(case.noise)
        E = arb_mat(N, N, [a * b / noise for a in v for b in v])
        return (truths.trace(E) - (truths.identity(N, 1.0) + E).det().log()) / 2

    yield None, truth, float(upper)
