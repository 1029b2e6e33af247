"""Functions of one's own of a sparse posterior: right by differences, and VFE again where they are VFE's."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fitting.diagonal import Diagonal
from fitting.family import objective
from fitting.functional import Law, Outer, collapsed, free
from fitting.streamed import Workspace, stream
from gpbounds.divergences import whitened_kl
from gpbounds.kernels import Matern, SquaredExponential

SEEDS = st.integers(0, 2**32 - 1)
KERNEL = SquaredExponential(1.3, [0.7, 1.4]) + Matern(1.5, 0.2, 2.0)
ROOMS = [Diagonal(0.0, 0.2), Diagonal(0.0, 0.2, kept=False), Diagonal(0.4, 0.2), Diagonal(1.0, 0.2)]


def problem(seed: int, N: int = 23, M: int = 5, P: int = 2):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((N, 2)), rng.standard_normal((N, P)), rng.standard_normal((M, 2))


def source_of(kernel, X, Z, keep=600):
    return stream(kernel, X, Z, 1e-6, chunk=7, space=Workspace(keep))


def expected_squares(Y, noise):
    """−E log N(y; f, σ²) = ½[log 2πσ² + ((y − m)² + s)/σ²], summed over the outputs."""

    def loss(rows, means, variances):
        gap, P = means - Y[rows], Y.shape[1]
        value = 0.5 * (gap.size * np.log(2 * np.pi * noise) + ((gap**2).sum() + P * variances.sum()) / noise)
        return value, gap / noise, np.full(len(variances), 0.5 * P / noise)

    return loss


def odd(Y):
    """A loss of no meaning, with derivatives of both signs."""

    def loss(rows, means, variances):
        gap = means - Y[rows]
        value = np.sin(gap).sum() + (np.cos(3.0 * variances)).sum() + (gap.sum(axis=1) * variances).sum()
        return value, np.cos(gap) + variances[:, None], -3.0 * np.sin(3.0 * variances) + gap.sum(axis=1)

    return loss


def odd_outer(noise):
    """A function of the total, of KL, of σ² and of w and S by themselves."""

    def outer(total: float, law: Law) -> Outer:
        kl, w_bar, S_bar = law.kl()
        B = np.cos(np.arange(law.mean.shape[0]))
        value = np.sin(total / 5.0) + 0.3 * kl + noise**2 + B @ law.covariance @ B + (law.mean**3).sum()
        return Outer(
            value,
            np.cos(total / 5.0) / 5.0,
            0.3 * w_bar + 3.0 * law.mean**2,
            0.3 * S_bar + np.outer(B, B),
            2.0 * noise,
        )

    return outer


def slope(function, step=1e-5):
    return (8 * (function(step) - function(-step)) - function(2 * step) + function(-2 * step)) / (12 * step)


@pytest.mark.parametrize("room", ROOMS)
@given(seed=SEEDS)
def test_derivatives_of_any_function_of_a_collapsed_posterior(room: Diagonal, seed: int) -> None:
    X, Y, Z = problem(seed)

    def at(logs, noise, centres):
        member = Diagonal(room.power, noise, room.kept)
        return collapsed(member, source_of(KERNEL.with_log_parameters(logs), X, centres), Y, odd(Y), odd_outer(noise))

    found, logs = at(KERNEL.log_parameters, 0.2, Z), KERNEL.log_parameters
    assert found.gradient is not None
    rng = np.random.default_rng(seed)
    d_logs, d_noise, d_Z = rng.standard_normal(logs.size), rng.standard_normal(), rng.standard_normal(Z.shape)
    numeric = slope(lambda t: at(logs + t * d_logs, 0.2 * np.exp(t * d_noise), Z + t * d_Z).value)
    g = found.gradient
    exact = g.kernel @ d_logs + g.noise * d_noise + (g.Z * d_Z).sum()
    size = np.abs(g.kernel).sum() + abs(g.noise) + np.abs(g.Z).sum()
    assert exact == pytest.approx(numeric, rel=1e-6, abs=1e-6 * size)


@given(seed=SEEDS)
def test_derivatives_of_any_function_of_a_free_posterior(seed: int) -> None:
    X, Y, Z = problem(seed)
    rng = np.random.default_rng(seed)
    mean, factor = rng.standard_normal((5, 2)), np.tril(rng.standard_normal((5, 5))) * 0.3 + np.eye(5)
    factor[np.diag_indices(5)] = np.abs(np.diag(factor)) + 0.1
    logs = KERNEL.log_parameters

    def at(logs, centres, mu, C):
        return free(source_of(KERNEL.with_log_parameters(logs), X, centres), mu, C, odd(Y), odd_outer(0.2))

    found = at(logs, Z, mean, factor)
    steps = [rng.standard_normal(np.shape(a)) for a in (logs, Z, mean, factor)]
    steps[3] = np.tril(steps[3])
    numeric = slope(lambda t: at(*(a + t * d for a, d in zip((logs, Z, mean, factor), steps, strict=True))).value, 1e-6)
    bars = (found.kernel, found.Z, found.mean, found.factor)
    exact = sum(float((b * d).sum()) for b, d in zip(bars, steps, strict=True))
    assert exact == pytest.approx(numeric, rel=1e-5, abs=1e-5 * sum(np.abs(b).sum() for b in bars))
    assert not np.triu(found.factor, 1).any()


def elbo(total: float, law: Law) -> Outer:
    kl, w_bar, S_bar = law.kl()
    return Outer(-total - kl, -1.0, -w_bar, -S_bar)


@given(seed=SEEDS)
def test_the_evidence_bound_of_the_best_q_is_vfe(seed: int) -> None:
    X, Y, Z = problem(seed)
    room = Diagonal(0.0, 0.2)
    vfe = room.evaluate(source_of(KERNEL, X, Z), Y)
    mine = collapsed(room, source_of(KERNEL, X, Z), Y, expected_squares(Y, 0.2), elbo)
    assert mine.value == pytest.approx(vfe.value, rel=1e-10)
    assert mine.gradient is not None
    assert vfe.gradient is not None
    scale = np.abs(vfe.gradient.kernel).max()
    np.testing.assert_allclose(mine.gradient.kernel, vfe.gradient.kernel, rtol=1e-7, atol=1e-8 * scale)
    np.testing.assert_allclose(mine.gradient.Z, vfe.gradient.Z, rtol=1e-6, atol=1e-7 * np.abs(vfe.gradient.Z).max())
    state, _ = room.forward(source_of(KERNEL, X, Z), Y)
    loose = free(
        source_of(KERNEL, X, Z), state.mean, np.linalg.cholesky(state.covariance), expected_squares(Y, 0.2), elbo
    )
    assert loose.value == pytest.approx(vfe.value, rel=1e-9)
    assert np.abs(loose.mean).max() < 1e-7 * scale  # it is the best: nothing is left to gain
    assert np.abs(loose.factor).max() < 1e-6 * scale


@pytest.mark.parametrize("method", ["vfe", "dtc", "fitc", "renyi"])
def test_an_objective_evaluates_functions_of_its_posterior(method: str) -> None:
    X, Y, Z = problem(3)
    F = objective(X, Y, method, jitter=1e-6, **({"alpha": 0.5} if method == "renyi" else {}))
    if method == "renyi":
        with pytest.raises(ValueError, match="expected a member with K - Q on its diagonal"):
            F.functional(KERNEL, 0.2, Z, odd(Y), odd_outer(0.2))
        return
    room = Diagonal(float(method == "fitc"), 0.2, kept=method != "dtc")
    mine = F.functional(KERNEL, 0.2, Z, odd(Y), odd_outer(0.2))
    other = collapsed(room, source_of(KERNEL, X, Z), Y, odd(Y), odd_outer(0.2))
    assert mine.value == pytest.approx(other.value, rel=1e-9)
    posterior = F.posterior(KERNEL, 0.2, Z)
    seen = []

    def loss(rows, means, variances):
        seen.append((rows, means.copy(), variances.copy()))
        return 0.0, np.zeros_like(means), np.zeros_like(variances)

    kl = F.functional(KERNEL, 0.2, Z, loss, lambda total, law: Outer(law.kl()[0], 0.0, *law.kl()[1:]))
    assert kl.value == pytest.approx(posterior.kl, rel=1e-9)
    for rows, means, variances in seen:
        law = posterior.predict(X[rows])
        np.testing.assert_allclose(means, law[0], atol=1e-9)
        np.testing.assert_allclose(variances, law[1], atol=1e-9)


def test_kl_is_that_of_the_house() -> None:
    factor, mean = np.array([[0.5, 0.0], [0.2, 2.0]]), np.array([[1.0, 0.0], [-2.0, 0.5]])
    S = factor @ factor.T
    law = Law(mean, S, np.linalg.inv(S), float(np.log(np.linalg.det(S))))
    assert law.kl()[0] == pytest.approx(sum(whitened_kl(m, factor) for m in mean.T), rel=1e-12)
