"""``rate`` and ``inducing_points`` with ``criterion="operator"``: λ_max(K − Q)/σ² of points that are to be drawn."""

from __future__ import annotations

import itertools
import re

import numpy as np
import pytest

from gpbounds import Empirical, Gaussian, Matern, SquaredExponential, Uniform, inducing_points, rate
from gpbounds.kernels import Kernel
from gpbounds.rates.draws.rows import StreamedRows
from gpbounds.rates.operator_gap import FromEigenvalues, FromPivots, OperatorGap, gap_quantile
from gpbounds.rates.to_come import simulation

SE = SquaredExponential()
X = np.random.default_rng(0).uniform(0.0, 10.0, (60, 1))
ROWS = {"inputs": Empirical(X), "criterion": "operator"}
PLANE = Uniform([0, 0], [1, 1])


def gap(kernel: Kernel, points: np.ndarray, Z: list[int], noise: float) -> float:
    K = kernel(points)
    return float(np.linalg.eigvalsh(K - K[:, Z] @ np.linalg.solve(K[np.ix_(Z, Z)], K[Z]))[-1]) / noise


def test_everything_broadcasts_and_each_cell_is_the_scalar_call() -> None:
    N, M = np.array([50, 10**5])[:, None, None], np.array([3, 20])[:, None]
    noise, delta = np.array([0.2, 0.7]), np.array([0.01, 0.1])
    grid = rate(SE, N, M, criterion="operator", delta=delta, noise=noise, tv=1e-3)
    assert np.shape(grid.confidence) == grid.value.shape == (2, 2, 2)
    assert grid.quantity == "λ_max(K − Q)/σ²"
    for i, j, k in itertools.product(range(2), repeat=3):
        single = rate(SE, int(N[i, 0, 0]), int(M[j, 0]), criterion="operator", delta=delta[k], noise=noise[k], tv=1e-3)
        assert grid.value[i, j, k] == float(single)
        assert grid.confidence[i, j, k] == single.confidence == 1 - delta[k]
        assert grid.terms["from_trace"][i, j, k] == single.terms["from_trace"] >= float(single)


def test_the_bound_falls_with_points_draws_and_delta_and_scales() -> None:
    M = np.arange(1, 40)
    values = np.array([rate(SE, 60, M, draws=R, **ROWS).value for R in (1, 2, 10)])
    assert (np.diff(values, axis=0) <= 0.0).all()
    assert (np.diff(values, axis=1) <= 0.0).all()
    assert float(rate(SE, 60, 9, delta=0.2, **ROWS)) < float(rate(SE, 60, 9, delta=0.1, **ROWS))
    assert float(rate(SE, 60, 9, tv=0.01, **ROWS)) > float(rate(SE, 60, 9, **ROWS))
    large = rate(SquaredExponential(100.0), 60, 9, noise=10.0, **ROWS)
    assert float(large) == pytest.approx(float(rate(SE, 60, 9, noise=0.1, **ROWS)), rel=1e-8)
    before = rate(Matern(1.5), 10**5, np.arange(1, 300, 15), criterion="operator", inputs=Uniform()).value
    assert (np.diff(before) <= 0.0).all()


def test_the_cut_beats_the_trace_where_the_spectrum_decays_slowly() -> None:
    bound = rate(Matern(1.5), 10**6, 800, criterion="operator", inputs=Uniform())
    assert float(bound) < 0.5 * bound.terms["from_trace"]
    assert bound.terms["cut"] > 0.0
    trace = rate(SE, 10**6, 20, criterion="operator")
    assert float(trace) == trace.terms["from_trace"]


@pytest.mark.parametrize("law", ["kdpp", "rpcholesky"])
def test_the_plan_is_the_least_number_and_says_what_it_means(law: str) -> None:
    target = 0.05 if law == "kdpp" else 50.0
    plan = inducing_points(SE, 60, target=target, law=law, draws=4, **ROWS)
    assert plan.M is not None
    assert float(plan.bound) <= target < float(plan.bound_before)
    assert float(plan.bound) == float(rate(SE, 60, plan.M, law=law, draws=4, **ROWS))
    assert plan.criterion == plan.to_dict()["criterion"] == "operator"
    text = str(plan)
    assert f"can reach λ_max(K − Q)/σ² <= {target:g} (N-op-low)" in text
    assert "nat" not in text
    assert f"at most {target:g} times the exact GP's training residual, for every y" in text
    assert any("least λ_max(K − Q) is kept" in sentence for sentence in plan.bound.assumptions)
    one = inducing_points(SE, 60, target=1e3, law=law, **ROWS)
    assert one.M == 1
    assert one.bound_before is None
    assert not any("is kept" in sentence for sentence in one.bound.assumptions)


def test_fewer_points_than_needed_never_reach_the_target() -> None:
    """Subsets of the rows, and the leading eigenvectors: the best choice there is."""
    noise, target = 0.1, 0.3
    plan = inducing_points(Matern(1.5), 60, target=target, noise=noise, **ROWS)
    values = np.linalg.eigvalsh(Matern(1.5)(X))[::-1]
    assert plan.needed == (values > target * noise).sum() > 5
    rng = np.random.default_rng(1)
    for _ in range(200):
        Z = rng.choice(60, plan.needed - 1, replace=False).tolist()
        assert gap(Matern(1.5), X, Z, noise) > target
    assert inducing_points(SE, 60, target=1e4, **ROWS).needed == 1


def test_before_the_data_there_is_no_floor_but_an_estimate() -> None:
    plan = inducing_points(SE, 10**4, criterion="operator", target=0.05)
    assert plan.needed is None
    (note,) = plan.notes
    mu = 10**4 * (3 - 5**0.5) / 2  # λ_1 = 1 − B, λ_{m+1} = λ_m B, B = (3 − √5)/2 for unit lengthscale and variance
    values = 10**4 * (5**0.5 - 1) / 2 * ((3 - 5**0.5) / 2) ** np.arange(60)
    assert mu < 10**4
    assert f"About {(values > 0.005).sum()} eigenvalues" in note
    assert "an estimate" in note
    assert "not a bound" in note


def test_nothing_is_proved_where_tv_takes_the_whole_probability() -> None:
    bound = rate(SE, 60, 20, tv=0.1, **ROWS)
    assert float(bound) == np.inf
    assert not bound.certified
    assert "is not positive" in bound.assumptions[-1]
    assert float(rate(SE, 60, 20, tv=0.1, draws=10, **ROWS)) < 1.0
    assert inducing_points(SE, 60, target=0.1, tv=0.1, **ROWS).M is None


def test_as_many_points_as_distinct_rows_leave_nothing() -> None:
    repeated = Empirical(np.repeat(np.arange(4.0), 3))
    bound = rate(SE, 12, 4, criterion="operator", inputs=repeated)
    assert float(bound) == 0.0
    with pytest.raises(ValueError, match=r"M: expected at most 4 points for N = 12.*distinct rows.*got 5"):
        rate(SE, 12, 5, criterion="operator", inputs=repeated)
    assert inducing_points(SE, 12, criterion="operator", target=1e-9, inputs=repeated).M == 4


def test_pivots_prove_nearly_what_eigenvalues_prove() -> None:
    rows = np.random.default_rng(3).standard_normal((400, 2))
    dense = FromEigenvalues(SE, Empirical(rows), "kdpp", "auto")
    pivots = FromPivots(SE, Empirical(rows))
    assert pivots.needed(0.005) <= dense.needed(0.005) <= 1.1 * pivots.needed(0.005) + 1
    for M, p in itertools.product((20, 60, 90), (0.05, 0.7)):
        exact, streamed = dense.quantile(400, M, p), pivots.quantile(400, M, p)
        assert exact[0] * (1 - 1e-9) <= streamed[0] <= 1.5 * exact[0]
        assert streamed[2] == pytest.approx(exact[2], rel=1e-3)
    assert not rate_of_many().certified


def test_what_few_pivots_leave_is_part_of_the_bound() -> None:
    rows = np.random.default_rng(3).standard_normal((300, 2))
    pivots, exact = (
        FromPivots(Matern(0.5), Empirical(rows)),
        FromEigenvalues(Matern(0.5), Empirical(rows), "kdpp", "auto"),
    )
    pivots.rows = StreamedRows(Matern(0.5), rows, None, first=2)
    for M, p in itertools.product((5, 20), (0.05, 0.7)):
        value, cut, trace = pivots.quantile(300, M, p)
        left_over = pivots.rows.residual(M, 1.0)
        assert left_over.left > 1.0
        r, lam = left_over.ratio, left_over.values
        within = cut + (r * np.maximum(lam - cut, 0.0) / (lam + r)).sum() / p
        assert value == pytest.approx(
            min(within + min(left_over.left, left_over.left * r / (cut + r) / p), trace / p), rel=1e-9
        )
        assert value >= exact.quantile(300, M, p)[0] * (1 - 1e-9)


def rate_of_many():
    """The bound for more rows than are decomposed."""
    rows = np.random.default_rng(4).uniform(0.0, 5.0, (4100, 1))
    bound = rate(SE, 4100, 24, criterion="operator", inputs=Empirical(rows), draws=5)
    assert float(bound) < 0.05
    assert "measured, not proved" in bound.assumptions[-1]
    for options, match in (({"law": "rpcholesky"}, "law: expected 'kdpp' beyond"), ({"rigor": "sharp"}, "rigor: exp")):
        with pytest.raises(ValueError, match=match):
            rate(SE, 4100, 24, criterion="operator", inputs=Empirical(rows), **options)
    return bound


def test_where_pivots_prove_no_number_the_plan_says_so() -> None:
    source = FromPivots(Matern(0.5), Empirical(np.random.default_rng(4).uniform(0.0, 40.0, (300, 1))))
    noise, delta, tv = np.asarray(0.1), np.asarray(0.05), np.asarray(0.0)
    plan = OperatorGap(np.asarray(300.0), noise, delta, tv, 1, "kdpp", source).least(1e-3)
    assert plan.M is None
    assert plan.notes[0].startswith("k(X, X) is known by 300 pivots here, which prove no number of points; few may do")
    assert plan.needed > 200


def test_a_simulation_takes_the_greatest_bound_and_number() -> None:
    kernel, settings = Matern(1.5, 1.0, 0.8), {"inputs": PLANE, "simulate": 39, "rng": 3, "draws": 10}
    bound = rate(kernel, 40, np.array([15, 30]), criterion="operator", **settings)
    plan = simulation(PLANE, 40, sets=39, delta=0.05, rng=3)
    options = {"criterion": "operator", "delta": plan.rest, "rigor": "float", "draws": 10}
    values = [rate(kernel, 40, [15, 30], inputs=Empirical(rows), **options).value for rows in plan.samples()]
    assert bound.value == pytest.approx(np.max(values, axis=0), rel=1e-12)
    assert bound.claim.startswith("N-sim, N-op-draw")
    assert (bound.confidence == 0.95).all()
    assert "may have been fitted" not in " ".join(bound.assumptions)
    planned = inducing_points(kernel, 40, criterion="operator", target=0.5, **settings)
    sizes = [inducing_points(kernel, 40, inputs=Empirical(rows), target=0.5, **options).M for rows in plan.samples()]
    assert planned.M == max(sizes)
    assert (float(planned.bound), planned.criterion, planned.needed) == (0.5, "operator", None)
    assert "need from" in planned.notes[0]


def test_the_least_quantile_is_at_an_eigenvalue_or_zero() -> None:
    rng = np.random.default_rng(5)
    for _ in range(50):
        values = np.append(rng.exponential(size=12) ** 3, 0.0)
        rho = values * rng.uniform(0.0, 0.3, 13)
        p = float(rng.uniform(0.01, 0.99))
        t, _ = gap_quantile(values, rho, p)
        cuts = np.linspace(0.0, values.max(), 2001)
        shares = np.divide(rho, values, out=np.zeros(13), where=values > 0.0)
        tried = cuts + (np.maximum(values - cuts[:, None], 0.0) @ shares) / p
        assert t <= tried.min() * (1 + 1e-12)
        assert t >= tried.min() - (1.0 + 1.0 / p) * cuts[1]


MEANINGLESS = {
    "alpha": 1.0,
    "y": X[:, 0],
    "y_norm2": 3.0,
    "y_norm2_known": "before",
    "form": "printed",
    "direction": "p||q",
    "certified": True,
    "draws": "certain",
}


@pytest.mark.parametrize("name", MEANINGLESS)
def test_what_has_no_meaning_is_refused_by_name(name: str) -> None:
    with pytest.raises(ValueError, match=rf"^{name}.*expected none of these with criterion='operator'"):
        rate(SE, 60, 20, **{**ROWS, name: MEANINGLESS[name]})
    with pytest.raises(ValueError, match=f"^{name}"):
        inducing_points(SE, 60, target=0.1, **{**ROWS, name: MEANINGLESS[name]})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"law": "tilted"}, "law: expected one of 'kdpp', 'rpcholesky', got 'tilted'"),
        ({"draws": 0}, "draws: expected"),
        ({"draws": 3, "inputs": Gaussian()}, "draws, law: expected one draw of a k-DPP for inputs to come"),
        ({"law": "rpcholesky", "inputs": Gaussian()}, "draws, law: expected one draw"),
        ({"inputs": PLANE, "simulate": 39, "rng": 0, "rigor": "sharp"}, "rigor: expected 'auto' or 'float'"),
        ({"criterion": "trace"}, "criterion: expected one of 'divergence', 'operator', got 'trace'"),
        ({"criterion": "divergence"}, "alpha: expected a Rényi order"),
        ({"noise": -1.0}, "noise: expected"),
        ({"delta": 1.0}, "delta: expected"),
        ({"tv": 2.0}, "tv: expected"),
    ],
)
def test_a_wrong_call_is_taught(options: dict, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        rate(SE, 60, 20, **{**ROWS, **options})


def test_a_plan_takes_single_numbers() -> None:
    for name in ("noise", "delta", "tv"):
        with pytest.raises(ValueError, match=f"^{name}: expected one number, got shape"):
            inducing_points(SE, 60, target=0.1, **{**ROWS, name: [0.1, 0.2]})
    with pytest.raises(ValueError, match="N: expected the number of rows of X, 60"):
        rate(SE, 61, 20, **ROWS)
    with pytest.raises(ValueError, match="at least one number"):
        rate(SE, 60, np.zeros(0), **ROWS)
