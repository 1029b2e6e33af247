"""The exact GP computed by chunks of the lower triangle, on one or more threads, agrees with dense formulas."""

from __future__ import annotations

import numpy as np
import pytest

from fitting.objectives import exact
from gpbounds.kernels import Matern, SquaredExponential
from gpbounds.linalg.triangular import TILE as ROWS
from gpbounds.linalg.workspace import Workspace
from tests.blas import blas_threads

pytestmark = pytest.mark.lanes

KERNELS = (SquaredExponential(1.3, [0.7, 1.9]), Matern(1.5, 0.6, 1.1) + SquaredExponential(0.4, [2.0, 0.5]))


def problem(N: int, P: int = 2):
    rng = np.random.default_rng(N)
    return rng.uniform(-2.0, 2.0, (N, 2)), rng.standard_normal((N, P))


def dense(kernel, X, Y, noise):
    """F by definition, and its derivatives by full matrices: ½ Σ_p tr[(t_pt_pᵀ − A) ∂K]."""
    (N, P), K = Y.shape, kernel(X)
    A = np.linalg.inv(K + noise * np.eye(N))
    alpha = A @ Y
    _, logdet = np.linalg.slogdet(K + noise * np.eye(N))
    value = -0.5 * (P * (N * np.log(2.0 * np.pi) + logdet) + (Y * alpha).sum())
    cotangent = 0.5 * (alpha @ alpha.T - P * A)
    return value, kernel.pull(X, X, cotangent.copy())[0], noise * cotangent.trace()


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("N", [1, ROWS, ROWS + 1, 5 * ROWS + 7])
def test_chunks_add_up_to_the_dense_formulas(kernel, N):
    X, Y = problem(N)
    evaluation = exact.log_evidence(kernel, X, Y, noise=0.3)
    value, parameters, slope = dense(kernel, X, Y, noise=0.3)
    assert evaluation.value == pytest.approx(value, rel=1e-11)
    np.testing.assert_allclose(evaluation.gradient.kernel, parameters, rtol=1e-8, atol=1e-8 * abs(value))
    assert evaluation.gradient.noise == pytest.approx(slope, rel=1e-8, abs=1e-8 * abs(value))


def test_lanes_and_kept_memory_change_no_bit():
    """One, two and three lanes, and a workspace used by a larger problem before, give the same."""
    X, Y = problem(5 * ROWS + 7)
    space = Workspace()
    exact.log_evidence(KERNELS[0], *problem(6 * ROWS), noise=0.3, space=space)
    evaluations = []
    for threads in (1, 2, 3):
        with blas_threads(threads):
            for memory in (None, space, space):
                evaluation = exact.log_evidence(KERNELS[0], X, Y, noise=0.3, space=memory)
                evaluations.append([evaluation.value, evaluation.gradient.noise, *evaluation.gradient.kernel])
    for evaluation in evaluations:
        assert evaluation == evaluations[0]


def test_covariances_that_overflow_are_refused_by_every_thread():
    from gpbounds.errors import NonFinite

    X, Y = problem(5 * ROWS)
    X[-1] = 1e200
    kernel = SquaredExponential(1.0, 1.0) * SquaredExponential(1e300, 1e-3) * SquaredExponential(1e300, 1.0)
    with pytest.raises(NonFinite, match="NaN or infinity in K"), np.errstate(all="ignore"):
        exact.log_evidence(kernel, X, Y, noise=0.3)
