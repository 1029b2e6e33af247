"""Section D of the Rényi ledger: the log evidence from above."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from mpmath import det, eye, log, mp, mpf
from observer import Observer
from renyi_instances import ORDERS, SEEDS, Instance, gram, instance, is_psd

from gpbounds.reference import renyi
from gpbounds.reference.divergences import log_det, solve, trace

HALF = mpf(1) / 2


@pytest.mark.claim("R-lem1")
@given(seed=SEEDS)
def test_larger_matrices(observe: Observer, seed: int) -> None:
    """A ⪰ B ≻ 0: |A| ≥ |B|, B⁻¹ ⪰ A⁻¹; positive semi-definite only, A = B gives 0."""
    rng = np.random.default_rng(seed)
    B = gram(rng, 3)
    A = B + gram(rng, 3, 1)
    observe.lower("R-lem1", det(A), det(B), tol=1e-40)
    observe.holds("R-lem1", is_psd(B**-1 - A**-1, mp.mnorm(B**-1)))


@pytest.mark.claim("R-eq8", "R-claim1")
@given(seed=SEEDS, alpha=ORDERS)
def test_evidence_from_above(observe: Observer, seed: int, alpha: Any) -> None:
    case = instance(seed)
    xi, top = case.xi(alpha), max(case.d) * case.noise
    evidence = renyi.log_evidence(case.Kff, case.y, case.noise)
    volume = renyi.log_normal(0 * case.y, xi)
    forms = [(case.y.T * solve(xi + alpha * v * eye(case.N), case.y))[0] / 2 for v in (case.T, top)]
    less = log(1 + alpha * trace(xi**-1 * case.residual)) / 2
    observe.upper("R-eq8", evidence, [volume - forms[0], volume - forms[1], volume - less - forms[1]], tol=1e-28)
    ratio = xi**-1 * case.exact  # E[log p − log N(·; 0, Ξ)] = KL ≥ 0: without the trace it fails on average
    observe.lower("R-claim1", (trace(ratio) - case.N - log_det(ratio)) / 2, mpf(0), tol=1e-28)


@pytest.mark.claim("R-claim1", "R-eq8")
def test_claim_1_counterexample(observe: Observer) -> None:
    case = Instance(mp.ones(1), mp.zeros(1), mp.ones(1), 3 * mp.ones(1), mpf(1))
    evidence, printed = renyi.log_evidence(case.Kff, case.y, case.noise), renyi.log_normal(case.y, case.xi(HALF))
    observe.equal("R-claim1", [evidence, printed], [mpf("-3.5155"), mpf("-4.1217")], atol=5e-5)
    observe.fails("R-claim1", evidence <= printed, "N=1, K=1, Q=0, y=3: the trace term is missing (R-eq8)")
    corrected = renyi.log_normal(0 * case.y, case.xi(HALF)) - (case.y.T * solve(case.xi(HALF) + HALF, case.y))[0] / 2
    observe.equal("R-eq8", corrected, mpf("-3.3717"), atol=5e-5)
    observe.upper("R-eq8", evidence, corrected)
