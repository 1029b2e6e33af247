"""Factors and low-rank approximations of K + σ²I under attack."""

from __future__ import annotations

from typing import Any

import numpy as np
from adversarial import truths
from adversarial.instances import Instance, Statement, one_of
from flint import arb, arb_mat

from gpbounds import lowrank, vecchia
from gpbounds.kernels.rounding import entry_errors


def block_factor(case: Instance, rng: np.random.Generator) -> Statement:
    """log|P| of a Vecchia factor within its error, or with it above log|K + σ²I|."""
    blocks = vecchia.near(case.kernel, case.X, block=int(rng.integers(1, 5)), neighbours=int(rng.integers(0, 6)), rng=rng)
    X = case.X[blocks.order]
    U = vecchia.factor(case.kernel, X, noise=case.noise, blocks=blocks)
    entry = float(entry_errors(case.kernel, X, X).max())
    off = vecchia.log_det_error(U, float(case.kernel.largest_variance(X)), entry, noise=case.noise)
    if not np.isfinite(off):
        raise ValueError("no error is known")

    def log_det(rows: np.ndarray) -> Any:
        if not rows.size:
            return arb(0)
        return (truths.covariances(case.kernel, X[rows], X[rows]) + truths.identity(len(rows), case.noise)).det().log()

    if rng.random() < 0.5:
        return None, truths.narrow(lambda: log_det(np.arange(len(X)))), U.log_det + off
    pairs = list(zip(blocks.rows, blocks.sets, strict=True))
    exact = truths.narrow(lambda: sum((log_det(rows) - log_det(chosen) for rows, chosen in pairs), arb(0)))
    return U.log_det - off, exact, U.log_det + off


def residual_certificate(case: Instance, rng: np.random.Generator) -> Statement:
    """From the diagonal of K − Σ = yyᵀ, Σ = 0, for which the bound is an equality."""
    residual, N = case.y * case.y, range(len(case.y))
    settings = {"rounding": float(np.spacing(residual.max())), "rigor": str(rng.choice(["float", "arb"]))}
    upper = lowrank.residual_certificate(residual, noise=case.noise, **settings)

    def truth() -> Any:
        y, noise = [arb(value) for value in case.y.tolist()], arb(case.noise)
        E = arb_mat(len(y), len(y), [y[i] * y[j] / noise for i in N for j in N])
        return (truths.trace(E) - (truths.identity(len(y), 1.0) + E).det().log()) / 2

    return None, truths.narrow(truth), float(upper)
