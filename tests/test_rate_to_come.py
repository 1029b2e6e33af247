"""``rate`` and ``inducing_points`` for inputs to come: simulated ones, and draws from inputs on a line."""

from __future__ import annotations

import math

import numpy as np
import pytest
from thinning import one_in

from gpbounds import Empirical, Gaussian, Matern, SquaredExponential, Uniform, inducing_points, rate
from gpbounds.errors import NotConverged
from gpbounds.rates import to_come
from gpbounds.rates.base import Numbers
from gpbounds.rates.concentration import LARGEST, sum_bound
from gpbounds.rates.draws import line
from gpbounds.rates.draws.from_trace import prior_from_trace, streamed_prior, tilted_from_trace
from gpbounds.rates.draws.rows import DenseRows, StreamedRows
from gpbounds.rates.draws.statement import DrawsFromRows, least_prior
from gpbounds.rates.draws.tilted import tilted_prior
from gpbounds.rates.theorems import statement
from gpbounds.rates.to_come import simulation

PLANE = Uniform([0, 0], [1, 1])
KERNEL = Matern(1.5, 1.0, 0.8)
SIMULATED = {"inputs": PLANE, "simulate": 39, "rng": 3}


@pytest.mark.broad
@pytest.mark.parametrize(
    "options",
    [
        {"draws": 10},
        {"draws": 10, "law": "kdpp"},
        pytest.param({"draws": 5, "y_norm2": 60.0, "y_norm2_known": "before"}, marks=pytest.mark.slow),
        {"draws": 5, "y_norm2": 60.0},
        {},
        {"y_norm2": 60.0},
        {"form": "printed"},
    ],
)
def test_the_greatest_of_the_bounds_given_each_simulated_set(options):
    N, M = 40, np.array([15, 30])
    bound = rate(KERNEL, N, M, 1.0, **SIMULATED, **options)
    plan = simulation(PLANE, N, sets=39, delta=0.05, rng=3)
    law = {"law": "tilted"} if options == {"draws": 10} else {}
    values = [
        rate(KERNEL, N, M, 1.0, inputs=Empirical(X), delta=plan.rest, rigor="float", **{**options, **law}).value
        for X in plan.samples()
    ]
    assert bound.value == pytest.approx(np.max(values, axis=0), rel=1e-12)
    assert bound.terms["median of the sets"] == pytest.approx(np.median(values, axis=0), rel=1e-12)
    assert (bound.confidence == 0.95).all()
    assert bound.claim.startswith("N-sim, ")
    text = " ".join(bound.assumptions)
    assert "39 sets of N" in text
    assert "separate statement" in text
    assert "conditional on X" not in text
    assert "may have been fitted" not in text
    again = rate(KERNEL, N, M, 1.0, **SIMULATED, **options)
    assert (again.value == bound.value).all()


def test_more_sets_and_the_fifth_greatest():
    few, many = (rate(KERNEL, 50, 20, 1.0, inputs=PLANE, draws=10, simulate=m, rng=0) for m in (39, 199))
    assert "5th greatest" in " ".join(many.assumptions)
    assert few.terms["delta given X"] == pytest.approx(many.terms["delta given X"])
    assert float(many) == pytest.approx(float(few), rel=0.5)


@pytest.mark.broad
@pytest.mark.parametrize("options", [{"draws": 10}, {"draws": 4, "y_norm2": 60.0, "y_norm2_known": "before"}, {}])
def test_the_plan_is_the_greatest_of_the_sizes(options, monkeypatch):
    evaluated, cell = [], DrawsFromRows.cell
    monkeypatch.setattr(
        DrawsFromRows, "cell", lambda self, M, **numbers: evaluated.append(M) or cell(self, M, **numbers)
    )
    plan = inducing_points(KERNEL, 60, 1.0, target=1.0, **SIMULATED, **options)
    assert len(evaluated) <= 39 * 6  # of each set a few numbers near the answer, and the bound there
    sets = simulation(PLANE, 60, sets=39, delta=0.05, rng=3)
    law = {"law": "tilted"} if options == {"draws": 10} else {}
    sizes = [
        inducing_points(KERNEL, 60, 1.0, target=1.0, inputs=Empirical(X), delta=sets.rest, **{**options, **law}).M
        for X in sets.samples()
    ]
    assert plan.M == max(sizes)
    assert float(plan.bound) == 1.0
    assert plan.bound.terms["median M of the sets"] == np.median(sizes)
    assert f"from {min(sizes)} to {max(sizes)} points" in plan.notes[0]
    assert "N-sim" in plan.bound.claim
    # the curve at that M is below the target, and is not what is stated
    assert float(rate(KERNEL, 60, plan.M, 1.0, **SIMULATED, **options)) <= 1.0
    assert "median M" in str(plan.to_dict())


def test_no_number_suffices():
    plan = inducing_points(Matern(0.5, 1.0, 0.01), 30, 1.0, target=1e-12, inputs=PLANE, simulate=39, rng=0, draws=10)
    assert plan.M is None
    assert "from N or more to N or more points" in plan.notes[0]


def test_any_kernel_and_any_law_that_can_be_sampled():
    class Ring:
        dim = 2

        def sample(self, N, rng):
            angle = 2.0 * np.pi * rng.random(N)
            return np.column_stack([np.cos(angle), np.sin(angle)])

        def __repr__(self):
            return "Ring()"

    kernel = SquaredExponential() * Matern(0.5) + Matern(2.5)
    bound = rate(kernel, 50, 30, 0.7, inputs=Ring(), simulate=39, rng=0, draws=10)
    assert 0.0 < float(bound) < math.inf
    assert "Ring()" in " ".join(bound.assumptions)


@pytest.mark.slow
def test_pivots_in_place_of_eigenvalues(monkeypatch):
    """More rows than are decomposed: the bounds from pivots are above, and by little."""
    monkeypatch.setattr(to_come, "_DECOMPOSED", 600)
    X = np.random.default_rng(0).standard_normal((700, 2))
    kernel = Matern(2.5, 1.0, 2.0)
    dense, streamed = DenseRows(kernel, X, None), StreamedRows(kernel, X, None, 64)
    for M in (60, 150):
        exact, above = dense.residual(M, 0.1), streamed.residual(M, 0.1)
        for R in (1, 10):
            tilted = float(tilted_prior(exact, delta=0.025, draws=R))
            near = float(tilted_from_trace(*streamed.tilted(M, 0.1), noise=0.1, delta=0.025, draws=R))
            assert 0.9999 <= near / tilted < 1.3
            plain = float(least_prior(exact, delta=0.025, draws=R))
            both = [float(streamed_prior(above, delta=0.025, draws=R))]
            both.append(float(prior_from_trace(above.trace, above.ratio, noise=0.1, delta=0.025, draws=R)))
            assert both[0] <= both[1]
            assert both[0] >= 0.99 * plain
    assert streamed.pivots < 700
    options = {"inputs": Gaussian(1.0, 2), "simulate": 39, "rng": 0, "draws": 10}
    bound = rate(KERNEL, 700, 50, 1.0, **options)
    assert "N-tilt-trace" in bound.claim


@pytest.mark.slow
def test_smooth_kernels_whose_pivots_end_early(monkeypatch):
    """A line of 700 points has 20 pivots or so: below that many they serve, beyond it the eigenvalues."""
    monkeypatch.setattr(to_come, "_DECOMPOSED", 400)
    kernel, options = SquaredExponential(), {"inputs": Gaussian(), "draws": 10, "simulate": 39, "rng": 0}
    plan = inducing_points(kernel, 700, 1.0, target=1e-3, **options)
    assert 10 < plan.M < 30
    curve = rate(kernel, 700, [plan.M, 40], 1.0, **options).value
    assert 0.0 < curve[1] < curve[0] <= 1e-3


@pytest.mark.slow
def test_prior_beyond_what_is_decomposed():
    X = np.random.default_rng(0).random((5000, 1))
    kernel = Matern(1.5)
    bound = rate(kernel, 5000, 60, 1.0, inputs=Empirical(X), draws=10)
    assert "N-trace" in bound.claim
    fixed = rate(kernel, 5000, 60, 1.0, inputs=Uniform(), draws=10)
    assert float(bound) < float(fixed) < 4.0 * float(bound)
    with pytest.raises(ValueError, match="law: expected 'kdpp' beyond"):
        rate(kernel, 5000, 60, 1.0, inputs=Empirical(X), draws=10, law="tilted")


@pytest.mark.broad
@pytest.mark.parametrize(
    ("kernel", "inputs", "N", "M"),
    one_in(
        2,
        [
            (Matern(1.5), Uniform(), 100, 12),
            (Matern(0.5) + Matern(2.5), Uniform(-1.0, 1.0), 100, 12),
            (SquaredExponential(), Gaussian(), 100, 8),
            (Matern(1.5), Gaussian(), 200, 12),
        ],
    ),
)
def test_draws_from_inputs_on_a_line_without_simulation(kernel, inputs, N, M):
    bound = rate(kernel, N, M, 1.0, inputs=inputs, draws=10)
    assert "N-sum" in bound.claim or "N-pop" in bound.claim
    simulated = rate(kernel, N, M, 1.0, inputs=inputs, draws=10, simulate=39, rng=0, law="kdpp")
    assert 0.3 * float(simulated) < float(bound)
    trace = float(sum_bound(kernel, N, M, inputs=inputs, delta=0.05))
    before = float(sum_bound(kernel, N, M - 1, inputs=inputs, delta=0.05))
    none_left = prior_from_trace(trace, before / M, noise=0.1, delta=0.05, draws=10)
    assert float(bound) > float(none_left) or "N-pop" in bound.claim
    curve = rate(kernel, N, np.array([M, M + 10]), np.array([[1.0], [0.5]]), inputs=inputs, draws=10)
    assert curve.value.shape == (2, 2)
    assert (np.diff(curve.value, axis=1) < 0).all()
    assert (curve.value[1] <= curve.value[0]).all()
    for options in ({"y_norm2": 10.0, "y_norm2_known": "before"}, {"y_norm2": 10.0}):
        any_y = rate(kernel, N, M, 1.0, inputs=inputs, draws=10, **options)
        assert any_y.claim.startswith("N-trace, N-fixed" if len(options) == 2 else ("N-adv", "R-thm2"))
    back = rate(kernel, N, M, 0.8, inputs=inputs, draws=10, direction="p||q")
    there = rate(kernel, N, M, 0.8, inputs=inputs, draws=10)
    assert float(back) == pytest.approx(4.0 * float(there))
    assert back.quantity == "D_0.8[p||q*]"


def test_the_shares_of_delta_on_a_line_give_the_least_of_their_bounds(monkeypatch):
    options = {"inputs": Uniform(), "draws": 10}
    best, each = float(rate(Matern(1.5), 50, 20, 1.0, **options)), []
    for share in line.SHARES:
        monkeypatch.setattr(line, "SHARES", (share,))
        each.append(float(rate(Matern(1.5), 50, 20, 1.0, **options)))
    assert min(each) < max(each)
    assert best == min(each)


@pytest.mark.slow
def test_plan_on_a_line_and_where_it_ends():
    plan = inducing_points(Matern(1.5), 50, 1.0, target=1.0, inputs=Uniform(), draws=10)
    assert float(plan.bound) <= 1.0 < float(plan.bound_before)
    assert plan.M < inducing_points(Matern(1.5), 50, 1.0, target=1.0, inputs=Uniform()).M
    with pytest.raises(NotConverged, match="simulate=m"):
        rate(Matern(1.5), 10**6, LARGEST + 1, 1.0, inputs=Uniform(), draws=10)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"inputs": Empirical(np.zeros((50, 2)))}, "simulate: expected a law of inputs"),
        ({"simulate": 38}, "simulate: expected at least 39"),
        ({"simulate": 0}, "simulate"),
        ({"y": np.zeros(50)}, "y: expected None with simulate"),
        ({"draws": "certain"}, "draws: expected a whole number with simulate"),
        ({"draws": 0}, "draws: expected a whole number"),
        ({"draws": None, "law": "tilted"}, "law: expected None without draws"),
        ({"draws": None, "y_norm2": 1.0, "y_norm2_known": "before"}, "draws: expected a number of draws"),
        ({"form": "printed"}, "form: expected 'sharpest'"),
        ({"delta": [0.05, 0.1]}, "delta: expected one number"),
        ({"simulate": None}, "simulate=m"),
        ({"simulate": None, "inputs": Uniform(), "law": "tilted"}, "law: expected 'kdpp'"),
        ({"simulate": None, "inputs": Uniform(), "form": "printed"}, "form: expected 'sharpest'"),
        ({"simulate": None, "inputs": Uniform(), "draws": 0}, "draws"),
    ],
)
def test_bad_input(change, message):
    options = {"inputs": PLANE, "draws": 10, "simulate": 39, "rng": 0, **change}
    with pytest.raises(ValueError, match=message):
        rate(KERNEL, 50, 20, 1.0, **options)
    if "delta" not in change:
        with pytest.raises(ValueError, match=message):
            inducing_points(KERNEL, 50, 1.0, target=1.0, **options)


def test_a_statement_is_about_one_simulation_and_each_generator_draws_its_own():
    """Asked again, a statement answers about the same sets; two calls with one generator are about different ones."""
    numbers = Numbers.checked(1.0, 0.1, 0.05, None, 0.0, "q||p")
    stated = statement(KERNEL, np.asarray(40.0), numbers, inputs=PLANE, simulate=39, rng=3)
    M = np.asarray(20.0)
    plan = stated.least(float(stated.bound(M)))
    assert plan.M == 20
    assert float(stated.bound(M)) == float(rate(KERNEL, 40, 20, 1.0, **SIMULATED))
    rng = np.random.default_rng(3)
    first, second = (float(rate(KERNEL, 40, 20, 1.0, inputs=PLANE, simulate=39, rng=rng)) for _ in range(2))
    assert first != second


def test_one_number_of_data_with_simulation():
    with pytest.raises(ValueError, match="N: expected one number with simulate"):
        rate(KERNEL, [50, 60], 20, 1.0, inputs=PLANE, simulate=39)
    with pytest.raises(ValueError, match="N: expected one number with draws"):
        rate(KERNEL, [50, 60], 20, 1.0, inputs=Uniform(), draws=10)
