"""Bounds for inputs to come, from simulated sets of inputs: N-sim."""

from __future__ import annotations

import math
from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from observer import Observer

from gpbounds.bound import Bound
from gpbounds.inputs import Empirical, Gaussian, InputLaw, Uniform
from gpbounds.kdpp import expected_residual
from gpbounds.kernels import Kernel, Matern, SquaredExponential
from gpbounds.linalg import psd
from gpbounds.rates.draws.given import best_fixed
from gpbounds.rates.to_come import Simulation, simulated_bound, simulated_size, simulation
from gpbounds.reference.rates import order_statistic_failure


@pytest.mark.claim("N-sim")
@given(
    seed=st.integers(0, 10**6),
    atoms=st.integers(1, 30),
    sets=st.integers(1, 60),
    order=st.integers(1, 60),
    even=st.booleans(),
)
def test_exact_probability_for_discrete_values(
    observe: Observer, seed: int, atoms: int, sets: int, order: int, even: bool
) -> None:
    """With ties or without: at most k/(m+1)."""
    assume(order <= sets)
    rng = np.random.default_rng(seed)
    weights = [mp.mpf(1) / atoms] * atoms if even else [mp.mpf(float(w)) for w in rng.dirichlet(np.ones(atoms))]
    weights = [w / mp.fsum(weights) for w in weights]
    values = rng.integers(0, atoms, atoms).tolist()
    chance = order_statistic_failure(values, weights, sets, order)
    observe.upper("N-sim", chance, mp.mpf(order) / (sets + 1), tol=mp.mpf(10) ** -30)


@pytest.mark.claim("N-sim")
def test_attained_without_ties(observe: Observer) -> None:
    """Many equally likely values: the probability tends to k/(m+1)."""
    n = 1000
    with mp.workdps(20):
        chance = order_statistic_failure(range(n), [mp.mpf(1) / n] * n, 19, 2)
    observe.upper("N-sim", chance, mp.mpf(2) / 20)
    observe.equal("N-sim", chance, mp.mpf(2) / 20, rtol=2e-2)


@pytest.mark.claim("N-sim")
@given(m=st.integers(1, 2000), percent=st.integers(1, 99))
def test_half_of_delta_is_spent_and_the_rest_left(observe: Observer, m: int, percent: int) -> None:
    delta = percent / 100.0
    k = math.floor(Fraction(percent, 200) * (m + 1))
    if k:
        plan = simulation(Gaussian(), 5, sets=m, delta=delta)
        assert plan.order == k
        observe.holds("N-sim", plan.order / (m + 1) + plan.rest <= delta * (1 + 1e-15))
        assert plan.rest >= 0.5 * delta * (1 - 1e-12)
        return
    least = math.ceil(Fraction(200, percent)) - 1
    with pytest.raises(ValueError, match=f"at least {least} sets"):
        simulation(Gaussian(), 5, sets=m, delta=delta)
    assert simulation(Gaussian(), 5, sets=least, delta=delta).order == 1


@pytest.mark.claim("N-sim")
@pytest.mark.parametrize("whole", [40, 49, 98, 103, 1069])
def test_the_least_number_of_sets_is_not_lost_to_rounding(observe: Observer, whole: int) -> None:
    """δ = 2/k: k − 1 sets suffice, though for some of these k 2/δ in double precision is above k."""
    delta = 2.0 / whole
    observe.equal("N-sim", simulation(Gaussian(), 5, sets=whole - 1, delta=delta).order, 1)
    with pytest.raises(ValueError, match=f"at least {whole - 1} sets"):
        simulation(Gaussian(), 5, sets=whole - 2, delta=delta)


@pytest.mark.claim("N-sim")
@pytest.mark.parametrize("order", [1, 3])
def test_failure_frequency_of_a_function_of_the_inputs(observe: Observer, order: int) -> None:
    """The trace of K − Q at its mean over the k-DPP, for inputs to come: fails as often as promised, not less."""
    rng = np.random.default_rng(5)
    kernel, N, M, sets, runs = SquaredExponential(), 12, 3, 19, 600

    def traces(X: np.ndarray) -> np.ndarray:
        """(M + 1) e_{M+1}/e_M of the eigenvalues of each K, which are sums of positive terms."""
        values = np.maximum(np.linalg.eigvalsh(np.exp(-0.5 * (X - X.transpose(0, 2, 1)) ** 2)), 0.0)
        e = np.zeros((len(X), M + 2))
        e[:, 0] = 1.0
        for column in values.T:
            e[:, 1:] += column[:, None] * e[:, :-1]
        return (M + 1) * e[:, M + 1] / e[:, M]

    one = Gaussian().sample(N, np.random.default_rng(0))
    by_library = expected_residual(np.maximum(np.linalg.eigvalsh(kernel(one)), 0.0), M).trace
    assert traces(one[None])[0] == pytest.approx(by_library, rel=1e-9)
    failures = 0
    for _ in range(runs):
        plan = Simulation(Gaussian(), N, sets, order, 0.5, rng.spawn(1)[0])
        level = plan.greatest(traces(np.array(plan.answers(lambda X: X))))
        failures += traces(Gaussian().sample(N, rng)[None])[0] > level
    observe.frequency("N-sim", int(failures), runs, order / (sets + 1))
    assert failures > 0.6 * runs * order / (sets + 1)


@pytest.mark.broad
@pytest.mark.claim("N-sim")
@pytest.mark.parametrize(
    ("kernel", "inputs"),
    [
        (SquaredExponential(1.0, 0.5), Gaussian(1.0, 2)),
        (Matern(1.5) + SquaredExponential(0.5, 0.1), Uniform([0, 0, 0], [1, 1, 2])),
        (Matern(0.5) * Matern(2.5), Gaussian([1.0, 0.1])),
    ],
)
def test_bound_for_any_kernel_and_law(observe: Observer, kernel: Kernel, inputs: InputLaw) -> None:
    """The median of new sets is below, and so are nearly all: what the statement given X says of new inputs."""
    N, noise = 50, 0.1
    sizes = (10, 20)

    def given(X: np.ndarray, delta: float) -> Bound:
        eigen = psd.eigen(kernel(X))
        values = []
        for M in sizes:
            residual = expected_residual(eigen.values, M, noise=noise, rounding=eigen.rounding)
            bound = best_fixed(residual, 50.0, residual.greatest_weight, delta=delta, draws=10)
            values.append(float(bound))
        return Bound(np.array(values), "upper", 1 - delta, bound.claim, {}, bound.assumptions)

    plan = simulation(inputs, N, sets=39, delta=0.05, rng=1)
    bound = simulated_bound(plan, lambda X: given(X, plan.rest), delta=0.05)
    assert bound.value.shape == (2,)
    assert (bound.confidence == 0.95).all()
    assert "separate statement" in " ".join(bound.assumptions)
    rng = np.random.default_rng(2)
    new = np.array([given(inputs.sample(N, rng), plan.rest).value for _ in range(100)])
    for values, level in zip(new.T, bound.value, strict=True):
        observe.frequency("N-sim", int((values > level).sum()), 100, 0.2)  # P(level is below the 80 % point) = .8^39
        observe.upper("N-sim", np.median(values), level)
    again = simulated_bound(
        simulation(inputs, N, sets=39, delta=0.05, rng=1), lambda X: given(X, plan.rest), delta=0.05
    )
    assert (again.value == bound.value).all()  # seeded


@pytest.mark.claim("N-sim")
def test_size_is_the_order_statistic_of_sizes_and_not_the_reading_of_a_curve(observe: Observer) -> None:
    """Each set's bound is 1 but for one M of its own, where it is 0: every curve dips, no M is proved but the last."""
    rng = np.random.default_rng(0)
    sets, order, top = 39, 1, 1000
    failures, runs = 0, 300
    for _ in range(runs):
        levels = rng.integers(1, top, sets + 1)  # the bound is at most the target from here on
        plan = Simulation(Uniform(), 1, sets, order, 0.5, rng)
        drawn = iter(levels[:sets].tolist())
        M, sizes = simulated_size(plan, lambda X, drawn=drawn: next(drawn))
        assert M == levels[:sets].max() == sizes[-1]
        failures += levels[sets] > M
    observe.frequency("N-sim", failures, runs, order / (sets + 1))
    none = simulated_size(Simulation(Uniform(), 1, 3, 1, 0.5, rng), lambda X: None)
    assert none[0] is None
    some = iter([3, None, 5])
    assert simulated_size(Simulation(Uniform(), 1, 3, 2, 0.5, rng), lambda X: next(some))[0] == 5


def test_infinite_bounds_are_kept_and_explained() -> None:
    plan = Simulation(Uniform(), 2, 3, 1, 0.02, np.random.default_rng(0))
    answers = iter([1.0, math.inf, 2.0])

    def given(X: np.ndarray) -> Bound:
        value = next(answers)
        why = ("Nothing is proved here: too few points.",) if math.isinf(value) else ()
        return Bound(value, "upper", 0.98, "N-given", {}, ("Drawn.", *why))

    bound = simulated_bound(plan, given, delta=0.05)
    assert math.isinf(float(bound))
    assert bound.assumptions[-1] == (
        "For 1 of the 3 simulated sets of inputs no bound is proved. Nothing is proved here: too few points."
    )


def test_data_are_no_law() -> None:
    with pytest.raises(ValueError, match="expected a law of inputs"):
        simulation(Empirical(np.zeros((3, 1))), 3, sets=39, delta=0.05)
    with pytest.raises(ValueError, match="sample"):
        simulation("gaussian", 3, sets=39, delta=0.05)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="simulate"):
        simulation(Gaussian(), 3, sets=0, delta=0.05)
