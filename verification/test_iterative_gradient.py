"""Section N of the ledger: the smooth estimate of log|K + σ²I| by which exact GPs are trained at large N."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mpmath import mp, mpf
from observer import Observer

from fitting.iterative import IterativeEvidence, evidence
from fitting.iterative.solution import Cotangent, Layout, pulled, solution
from fitting.objectives.objective import at_point, member, objective
from gpbounds.iterative import Probes
from gpbounds.kernels import Kernel, Matern, SquaredExponential
from gpbounds.reference import linalg as reference
from gpbounds.vecchia import Blocks

SEEDS = st.integers(0, 2**32 - 1)
KERNELS: list[Kernel] = [SquaredExponential(1.5, [0.7, 1.2]), Matern(1.5, 1.0, 0.9) + SquaredExponential(0.5, 3.0)]


def random_layout(rng: np.random.Generator, N: int, probes: int) -> Layout:
    """Any blocks, any sets, probes of length √N; N Lanczos steps, which leave no error."""
    ends = np.unique(np.concatenate([[0, N], rng.integers(1, N, 2)]))
    parts = [slice(int(a), int(b)) for a, b in pairwise(ends)]
    blocks = Blocks(rng.permutation(N), parts, [np.flatnonzero(rng.random(part.start) < 0.5) for part in parts])
    Z = rng.standard_normal((N, probes))
    return Layout(blocks, Z * np.sqrt(N / (Z * Z).sum(axis=0)), np.ones(2), Probes((0,), probes), N)


@pytest.mark.claim("N-slqgrad")
@given(seed=SEEDS, kernel=st.sampled_from(KERNELS))
def test_derivatives_of_the_estimate(observe: Observer, seed: int, kernel: Kernel) -> None:
    """H and ∂H in the noise against mpmath; ∂H in the kernel's parameters against central differences of H."""
    rng = np.random.default_rng(seed)
    N, noise = int(rng.integers(3, 7)), 0.3
    X, layout = rng.uniform(0.0, 3.0, (N, 2)), random_layout(rng, N, 2)
    parts = [list(range(part.start, part.stop)) for part in layout.blocks.parts]
    sets = [chosen.tolist() for chosen in layout.blocks.sets]
    K = kernel(X)

    def exactly(variance: Any) -> Any:
        A = mp.matrix(K.tolist()) + variance * mp.eye(N)
        return reference.log_det_by_probes(A, parts, sets, mp.matrix(layout.probes.tolist()))

    def fast(theta: Any, derivatives: bool = False) -> Any:
        shaped = kernel.with_log_parameters(theta)
        return solution(shaped, X, np.zeros((N, 0)), noise=noise, layout=layout, derivatives=derivatives)

    ours = fast(kernel.log_parameters, derivatives=True)
    observe.equal("N-slqgrad", ours.log_det, exactly(mpf(noise)), rtol=1e-9, atol=1e-9)
    slopes = pulled(ours, [Cotangent(ours.columns(range(2)), 1.0)])[0]
    observe.equal("N-slqgrad", slopes[-1], noise * mp.diff(exactly, mpf(noise)), rtol=1e-7, atol=1e-7)
    for i, step in enumerate(1e-5 * np.eye(slopes.size - 1)):
        high, low = (fast(kernel.log_parameters + sign * step).log_det for sign in (1, -1))
        observe.equal("N-slqgrad", slopes[i], (high - low) / 2e-5, rtol=1e-5, atol=1e-5)


def problem(seed: int) -> tuple[IterativeEvidence, Any]:
    rng = np.random.default_rng(3)
    X = rng.uniform(0.0, 4.0, (120, 2))
    y = np.sin(X.sum(axis=1)) + 0.3 * rng.standard_normal(120)
    F = objective(X, y, "exact")
    point = at_point(SquaredExponential(1.2, [0.8, 0.6]), 0.02)
    return IterativeEvidence(F.data, member("exact")).prepared(point, (seed,)), (F, point)


def scores(observe: Observer, monkeypatch: pytest.MonkeyPatch, runs: int, slack: float) -> None:
    """(ĝ − g)/se: mean 0, and the spread of Student's t for 8 groups of probes; the value likewise."""
    original = evidence.layout
    monkeypatch.setattr(evidence, "layout", lambda k, X, s: original(k, X, s, block=12, neighbours=10))
    _, (exact, point) = problem(0)
    target = exact.minimised(point)
    truth, gaps, values = target.gradient, [], []
    for seed in range(runs):
        F = problem(seed)[0]
        ours, errors = F.minimised(point), F.standard_errors(point)
        difference = np.append(ours.gradient.kernel - truth.kernel, ours.gradient.noise - truth.noise)
        gaps.append(difference / np.append(errors.kernel, errors.noise))
        values.append((ours.value - target.value) / (0.5 * F.solved(point, derivatives=False).log_det_error))
    table, spread = np.array(gaps), math.sqrt(7.0 / 5.0)
    observe.holds("N-slqgrad", (np.abs(table.mean(axis=0)) < slack).all())
    observe.holds("N-slqgrad", (np.abs(table.std(axis=0) / spread - 1.0) < slack).all())
    observe.holds("N-slqgrad", abs(float(np.mean(values))) < slack and abs(float(np.std(values)) - 1.0) < 1.2 * slack)


@pytest.mark.claim("N-slqgrad")
def test_scores_of_the_derivatives(observe: Observer, monkeypatch: pytest.MonkeyPatch) -> None:
    scores(observe, monkeypatch, 15, 0.5)


@pytest.mark.slow
@pytest.mark.claim("N-slqgrad")
def test_scores_of_the_derivatives_in_two_hundred_runs(observe: Observer, monkeypatch: pytest.MonkeyPatch) -> None:
    scores(observe, monkeypatch, 200, 0.25)


@pytest.mark.claim("N-slqgrad")
def test_a_complete_factor_is_exact(observe: Observer) -> None:
    """With all earlier rows in the sets, B = I: value and derivatives are those of Cholesky factors, and errors 0."""
    F, (exact, point) = problem(0)
    ours, truth = F.minimised(point), exact.minimised(point)
    observe.equal("N-slqgrad", ours.value, truth.value, rtol=1e-9)
    observe.equal("N-slqgrad", ours.gradient.kernel, truth.gradient.kernel, rtol=1e-5, atol=1e-6)
    observe.equal("N-slqgrad", ours.gradient.noise, truth.gradient.noise, rtol=1e-5, atol=1e-6)
    observe.equal("N-slqgrad", F.standard_errors(point).kernel, np.zeros(3))
