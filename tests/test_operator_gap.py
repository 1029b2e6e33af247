"""`operator_gap`: its ends by each method, what it says of them, and wrong arguments."""

from __future__ import annotations

import numpy as np
import pytest

from gpbounds.kernels import Linear, Matern, SquaredExponential
from gpbounds.renyi import operator, operator_gap
from gpbounds.renyi.blocks import moments
from gpbounds.renyi.streamed import streamed

KERNEL = SquaredExponential(1.5, 0.6)
X = np.random.default_rng(0).uniform(-2.0, 2.0, (300, 2))
Z = X[:25] + 0.01


def residual(kernel=KERNEL, jitter=0.0):
    V = np.linalg.solve(np.linalg.cholesky(kernel(Z) + jitter * np.eye(len(Z))), kernel(Z, X))
    return kernel(X) - V.T @ V


def by_probes(monkeypatch, **arguments):
    monkeypatch.setattr(operator, "DENSE", 0)
    monkeypatch.setattr(operator, "ROW_SUMS", 0.0)
    return operator_gap(KERNEL, X, Z, noise=0.01, **arguments)


def test_an_eigenvalue_up_to_2000_rows():
    bound = operator_gap(KERNEL, X, Z, noise=0.01)
    truth = float(np.linalg.eigvalsh(residual())[-1]) / 0.01
    assert float(bound) == pytest.approx(truth, rel=1e-6)
    assert bound.terms["lower"] == pytest.approx(truth, rel=1e-6)
    assert bound.terms["lower"] <= bound.terms["estimate"] <= float(bound) < bound.terms["trace"]
    assert (bound.confidence, bound.claim, bound.certified, bound.side) == (1.0, "N-op", True, "upper")


def test_probes_state_their_probability_and_repeat(monkeypatch):
    bound = by_probes(monkeypatch, delta=1e-3, rng=7)
    truth = float(np.linalg.eigvalsh(residual())[-1]) / 0.01
    assert bound.terms["lower"] <= truth <= float(bound) < 1.2 * truth
    assert bound.confidence == 1.0 - 1e-3
    assert operator.RANDOM in bound.assumptions
    assert "N-op-edge" in bound.claim
    assert float(by_probes(monkeypatch, delta=1e-3, rng=7)) == float(bound)
    assert float(by_probes(monkeypatch, delta=1e-3, rng=8)) != float(bound)


def test_a_smaller_probability_of_failure_needs_a_larger_bound(monkeypatch):
    monkeypatch.setattr(operator, "NEAR", 0.0)
    loose, tight = (by_probes(monkeypatch, delta=delta) for delta in (0.1, 1e-12))
    assert float(loose) < float(tight)


@pytest.mark.parametrize("dense", [operator.DENSE, 0])
def test_the_allowance_for_rounding_does_not_underflow(monkeypatch, dense):
    """The norm of a residual of 1e-200 was 0, and with it that allowance: the lower end was higher than at 1."""
    monkeypatch.setattr(operator, "DENSE", dense)
    kernels = SquaredExponential(1.0, 0.6), SquaredExponential(2.0**-664, 0.6)
    one, tiny = (operator_gap(kernel, X, Z, noise=kernel.variance / 8.0, jitter=0.0) for kernel in kernels)
    for end in ("lower", "estimate", "trace"):
        assert tiny.terms[end] == pytest.approx(one.terms[end], rel=1e-15)
    assert float(tiny) == pytest.approx(float(one), rel=1e-15)


def test_without_work_the_trace_is_left(monkeypatch):
    bound = by_probes(monkeypatch, work=1.0)
    assert float(bound) == bound.terms["trace"]
    assert (bound.confidence, bound.terms["products"], bound.terms["lower"]) == (1.0, 0, 0.0)
    assert float(bound) == pytest.approx(float(np.trace(residual())) / 0.01, rel=1e-6)


def test_row_sums_are_those_of_the_moments(monkeypatch):
    """Beyond 2000 rows, of a residual that row sums bound best: rows that hardly say anything about one another."""
    kernel, rows, centres = Matern(0.5, 1.0, 1e-3), np.linspace(0.0, 5.0, 2100)[:, None], np.arange(6.0)[:, None] + 1e-4
    monkeypatch.setattr(operator, "FEWEST", 10**9)
    bound = operator_gap(kernel, rows, centres, noise=0.1)
    problem = streamed(kernel, rows, np.zeros(2100), centres, 0.1, "auto")
    assert float(bound) == pytest.approx(moments(problem, np.zeros((2100, 0))).largest, rel=1e-9)
    assert float(bound) < 0.1 * bound.terms["trace"]
    assert bound.confidence == 1.0


def test_products_end_where_the_ends_are_near(monkeypatch):
    few = by_probes(monkeypatch)
    monkeypatch.setattr(operator, "NEAR", 1.0)
    many = by_probes(monkeypatch)
    assert operator.FEWEST <= few.terms["products"] < many.terms["products"] == operator.MOST
    assert float(many) <= float(few) <= 1.05 * few.terms["lower"]


@pytest.mark.parametrize("most", [operator.DENSE, 0])
def test_every_row_an_inducing_point(monkeypatch, most):
    monkeypatch.setattr(operator, "DENSE", most)
    rows = np.arange(6.0)[:, None]
    bound = operator_gap(KERNEL, rows, rows, noise=0.1)
    assert (float(bound), bound.confidence, bound.terms["lower"]) == (0.0, 1.0, 0.0)


def test_a_jitter_belongs_to_the_model():
    bound = operator_gap(KERNEL, X, Z, noise=0.01, jitter=0.3)
    truth = float(np.linalg.eigvalsh(residual(jitter=0.3))[-1]) / 0.01
    assert bound.terms["lower"] <= truth * (1.0 + 1e-9)
    assert float(bound) == pytest.approx(truth, rel=1e-6)
    assert any("jitter of 0.3" in each for each in bound.assumptions)


def test_a_residual_of_nothing_but_rounding(monkeypatch):
    """Three points determine a linear function of two inputs: what is left is rounding, and the ends say so."""
    monkeypatch.setattr(operator, "DENSE", 0)
    bound = operator_gap(Linear(1.0), X, np.eye(2), noise=1e-3)
    assert 0.0 <= bound.terms["lower"] <= float(bound) < 1e-6


def test_a_kernel_without_proved_errors_is_not_certified(monkeypatch):
    bound = operator_gap(Matern(1.3, 1.0, 0.7), X, Z, noise=0.01)
    assert not bound.certified
    assert any("not proved" in each for each in bound.assumptions)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"noise": 0.0}, "noise"),
        ({"delta": 0.0}, "delta"),
        ({"delta": 1.0}, "delta"),
        ({"work": 0.0}, "work"),
        ({"Z": np.zeros((2, 3))}, "Z"),
        ({"X": np.full((3, 2), np.nan)}, "X"),
    ],
)
def test_wrong_arguments(changed, message):
    arguments = {"X": X[:9], "Z": Z[:3], "noise": 0.1} | changed
    with pytest.raises(ValueError, match=message):
        operator_gap(KERNEL, **arguments)
