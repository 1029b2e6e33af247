"""The streamed whitening agrees with the definitions; jitter changes Q only."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from mpmath import eye, mp, mpf
from observer import Observer
from renyi_instances import ORDERS, SEEDS, data, is_psd

from gpbounds.kernels import SquaredExponential
from gpbounds.reference import evidence as reference
from gpbounds.reference import renyi
from gpbounds.reference.linalg import log_det, trace
from gpbounds.renyi.accuracy import accuracy
from gpbounds.renyi.streamed import streamed
from gpbounds.whitening import whiten


@pytest.mark.claim("R-lim1", "R-elbo*")
@given(seed=SEEDS)
def test_sums_at_fifty_digits(observe: Observer, seed: int) -> None:
    """log|B|, yᵀ(B + sI)⁻¹y, T and diag(K − Q), for two outputs and chunks of one to three rows."""
    case, rng = data(seed), np.random.default_rng(seed)
    Y = np.stack([case.y, rng.standard_normal(case.y.size)], axis=1)
    prior, noise = case.exact.prior, case.exact.noise
    residual = case.exact.residual
    B = renyi.nystrom(*prior[1:]) + noise * eye(prior[0].rows)
    white = whiten(case.kernel, case.X, case.Z, Y, chunk=int(rng.integers(1, 4)))
    N = white.N
    scale = float(trace(prior[0]))
    observe.equal("R-lim1", white.residual, [residual[i, i] for i in range(N)], atol=1e-9 * scale)
    problem = replace(streamed(case.kernel, case.X, Y, case.Z, case.noise, 0.0), block=int(rng.integers(1, 4)))
    observe.equal("R-elbo*", problem.log_det, log_det(2 * mp.pi * B), rtol=1e-9, atol=1e-9 * scale / case.noise)
    for shift in (0.0, 0.7, white.trace):
        fits = problem.fits(shift, spread=True)
        w = (B + mpf(shift) * eye(N)) ** -1 * renyi.matrix(Y)
        for p in range(2):
            truth = reference.form(renyi.matrix(Y[:, p]), B + mpf(shift) * eye(N))
            observe.equal("R-elbo*", fits.quadratic[0, p], truth, rtol=1e-8)
            observe.equal("R-lim1", fits.shifted[0, p], shift * sum(w[i, p] ** 2 for i in range(N)), rtol=1e-6)
            spread = reference.spread(w[:, p], residual, problem.block)
            size = 1e-8 * scale * float((Y**2).sum()) / case.noise**2
            observe.equal("R-lim1", fits.spread[0, p], spread, rtol=1e-5, atol=size)
            observe.upper("R-lim1", (w[:, p].T * residual * w[:, p])[0], fits.spread[0, p], tol=size)
    solved = problem.solve(Y)
    inverse = B**-1 * renyi.matrix(Y)
    for p in range(2):
        size = max(abs(inverse[i, p]) for i in range(N))
        observe.equal("R-lim1", solved[:, p], [inverse[i, p] for i in range(N)], rtol=1e-7, atol=1e-8 * float(size))


@pytest.mark.claim("N-monoQ")
@given(seed=SEEDS, alpha=ORDERS)
def test_jitter_lowers_the_nystrom_approximation(observe: Observer, seed: int, alpha: Any) -> None:
    """Kfu(Kuu + jI)⁻¹Kuf decreases in Loewner order with j: T increases, L_α decreases; at 50 digits and streamed."""
    case = data(seed)
    noise = case.exact.noise
    before = None
    for jitter in (0.0, 1e-3, 0.5):
        prior = renyi.blocks(case.kernel, case.X, case.Z, jitter)
        Q = renyi.nystrom(*prior[1:])
        objective = renyi.elbo(*prior, renyi.matrix(case.y), noise, alpha)
        T = whiten(case.kernel, case.X, case.Z, jitter=jitter).trace
        observe.equal("N-monoQ", T, trace(prior[0] - Q), rtol=1e-7, atol=1e-9 * float(trace(prior[0])))
        if before is not None:
            observe.holds("N-monoQ", is_psd(before[0] - Q))
            observe.upper("N-monoQ", objective, before[1], tol=1e-30 * float(1 + abs(objective)))
            observe.lower("N-monoQ", T, before[2], tol=1e-9 * float(trace(prior[0])))
        before = Q, objective, T


@pytest.mark.claim("N-Q")
def test_the_errors_have_the_unit_of_the_kernel(observe: Observer) -> None:
    """With variance, jitter and errors of entries times 4^k they are 4^k times as large, all powers of two."""
    rng = np.random.default_rng(0)
    X, Z = rng.standard_normal((40, 1)), rng.standard_normal((9, 1))

    def errors(unit: float) -> np.ndarray:
        known = accuracy(whiten(SquaredExponential(1.5 * unit, 0.8), X, Z, jitter=2e-3 * unit), 5e-5 * unit, True)
        return np.array([known.factor, known.below, known.above, known.columns]) / unit

    for k in (-20, 20):
        observe.equal("N-Q", errors(4.0**k), errors(1.0), rtol=1e-9)
