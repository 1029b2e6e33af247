"""``rate`` and ``inducing_points`` for the best of several draws: which theorem applies, broadcasting, bad input."""

from __future__ import annotations

import re
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest

from gpbounds import Empirical, Gaussian, SquaredExponential, inducing_points, rate
from gpbounds.kdpp import expected_residual
from gpbounds.kernels import Matern
from gpbounds.rates.base import Numbers
from gpbounds.rates.draws import rows as rows_module
from gpbounds.rates.draws.given import best_given, certain, margin
from gpbounds.rates.draws.rows import DenseRows, StreamedRows
from gpbounds.rates.draws.statement import draws_from_rows

RNG = np.random.default_rng(7)
X = RNG.standard_normal((120, 2))
Y = np.sin(2.0 * X[:, 0]) + 0.3 * RNG.standard_normal(120)
KERNEL = Matern(1.5, 1.0, 1.0)
ROWS = Empirical(X)
NOISE = 0.1
SETTING = {"y_norm2_known": "after", "law": "kdpp", "form": "sharpest", "direction": "q||p"}
KNOWN = {"inputs": ROWS, "noise": NOISE}


def test_one_draw_is_what_it_was():
    """Without draws nothing changes: R-thm1 and R-thm2 with the exact mean of the trace."""
    for norm in (None, float(Y @ Y)):
        before = rate(KERNEL, 120, [10, 60], 1.0, y_norm2=norm, **KNOWN)
        assert before.claim.startswith("R-thm1" if norm is None else "R-thm2")
        assert "expected_trace" in before.terms


def test_given_y_is_the_theorem():
    K = KERNEL(X)
    values, vectors = np.linalg.eigh(K)
    residual = expected_residual(np.maximum(values, 0.0), 40, noise=NOISE)
    q = residual.quadratic((vectors.T @ Y) ** 2)
    for draws, alpha in ((1, 1.0), (10, 0.5)):
        bound = rate(KERNEL, 120, 40, alpha, y=Y, draws=draws, law="kdpp", **KNOWN)
        direct = best_given(residual, q, delta=0.05, draws=draws, alpha=alpha)
        assert float(bound) == pytest.approx(float(direct), rel=1e-9)
        assert bound.claim.startswith("N-given")
    sure = rate(KERNEL, 120, 40, 1.0, y=Y, draws="certain", law="kdpp", **KNOWN)
    assert float(sure) == pytest.approx(float(certain(residual, q)), rel=1e-9)
    assert sure.confidence == 1.0
    assert sure.terms["expected_draws"] == pytest.approx(5.0)
    assert rate(KERNEL, 120, 40, 1.0, y=Y, draws="certain", delta=0.9, law="kdpp", **KNOWN) == sure


@pytest.mark.parametrize("about", ["given", "prior", "before", "after", "certain"])
def test_arrays_are_their_cells_and_more_is_never_worse(about):
    options = {
        "given": {"y": Y, "draws": 10},
        "certain": {"y": Y, "draws": "certain"},
        "prior": {"draws": 10},
        "before": {"draws": 10, "y_norm2": float(Y @ Y), "y_norm2_known": "before"},
        "after": {"draws": 10, "y_norm2": float(Y @ Y)},
    }[about]
    M, alpha = np.array([[20], [45], [90]]), np.array([1.0, 0.4])
    whole = rate(KERNEL, 120, M, alpha, **options, **KNOWN)
    assert whole.value.shape == (3, 2)
    for (i, j), value in np.ndenumerate(whole.value):
        assert value == float(rate(KERNEL, 120, int(M[i, 0]), float(alpha[j]), **options, **KNOWN))
    assert (np.diff(whole.value, axis=0) < 0.0).all()
    assert (whole.value[:, 1] <= whole.value[:, 0]).all()
    if about != "certain":
        fewer = rate(KERNEL, 120, M, alpha, **{**options, "draws": 2}, **KNOWN)
        assert (whole.value <= fewer.value).all()
        surer = rate(KERNEL, 120, M, alpha, delta=0.01, **options, **KNOWN)
        assert (whole.value <= surer.value).all()
    near = rate(KERNEL, 120, M, alpha, tv=0.02, **options, **KNOWN)
    assert (whole.value <= near.value).all()


def test_more_known_of_y_is_never_worse():
    """The y at hand, any y of its norm before the draws, any y after them."""
    norm = {"y_norm2": float(Y @ Y), "draws": 10}
    at_hand = rate(KERNEL, 120, 100, 1.0, y=Y, draws=10, law="kdpp", **KNOWN)
    before = rate(KERNEL, 120, 100, 1.0, y_norm2_known="before", **norm, **KNOWN)
    after = rate(KERNEL, 120, 100, 1.0, **norm, **KNOWN)
    assert float(at_hand) < float(before) < float(after) < float(rate(KERNEL, 120, 100, 1.0, y_norm2=Y @ Y, **KNOWN))


def test_several_outputs_are_a_sum():
    """P times the same target is P times the bound, for one Z."""
    single = rate(KERNEL, 120, 50, 1.0, y=Y, draws=10, **KNOWN)
    triple = rate(KERNEL, 120, 50, 1.0, y=np.column_stack([Y, Y, Y]), draws=10, **KNOWN)
    assert float(triple) == pytest.approx(3.0 * float(single), rel=1e-9)


def test_the_other_direction_costs_its_factor():
    forward = rate(KERNEL, 120, 50, 0.8, y=Y, draws=10, **KNOWN)
    backward = rate(KERNEL, 120, 50, 0.8, y=Y, draws=10, direction="p||q", **KNOWN)
    assert float(backward) == pytest.approx(4.0 * float(forward))
    assert backward.quantity == "D_0.8[p||q*]"
    assert "R-dir" in backward.claim


def test_what_is_not_proved_is_infinite_with_the_reason():
    bound = rate(KERNEL, 120, 50, 1.0, y=Y, draws=1, delta=0.05, tv=0.2, **KNOWN)
    assert float(bound) == np.inf
    assert "Nothing is proved" in bound.assumptions[-1]
    assert "tv" in bound.assumptions[-1]


@pytest.mark.broad
@pytest.mark.parametrize("options", [{"y": Y, "draws": 10}, {"draws": 10}, {"y": Y, "draws": "certain"}])
def test_the_plan_is_the_least_number_that_reaches_the_target(options):
    plan = inducing_points(KERNEL, 120, 1.0, target=1.0, **options, **KNOWN)
    curve = rate(KERNEL, 120, np.arange(1, 120), 1.0, **options, **KNOWN).value
    assert plan.M == 1 + int(np.argmax(curve <= 1.0))
    assert float(plan.bound) == curve[plan.M - 1]
    assert float(plan.bound_before) == curve[plan.M - 2] > 1.0
    assert plan.needed <= plan.M
    impossible = inducing_points(KERNEL, 120, 1.0, target=1e-9, **options, **KNOWN)
    assert impossible.M is None


def test_at_the_numerical_rank_eigenvalues_are_rounded_upwards():
    """A smooth kernel on 60 points has numerical rank 15 or so: beyond it a bound stays above the exact mean."""
    line = np.linspace(0.0, 1.0, 60)
    smooth = SquaredExponential(1.0, 1.0)
    bound = rate(smooth, 60, [10, 20, 40], 1.0, inputs=Empirical(line), y=np.sin(line), draws=10, noise=1e-6)
    assert (bound.value > 1e-8).all()
    assert any("numerical rank" in sentence for sentence in bound.assumptions)


def test_pivots_say_almost_the_same():
    """Without a decomposition: the same theorem from above, within 15 % here."""
    rows = RNG.standard_normal((400, 2))
    targets = np.column_stack([np.sin(rows[:, 0]), np.cos(2.0 * rows[:, 1])])
    dense, streamed = (kind(KERNEL, rows, targets) for kind in (DenseRows, StreamedRows))
    for M in (40, 120):
        values = []
        for source in (dense, streamed):
            residual = source.residual(M, NOISE)
            values.append(
                float(best_given(residual, source.quadratic(residual), delta=0.05, draws=10, outputs=source.outputs))
            )
        assert 1.0 <= values[1] / values[0] < 1.15
    assert (streamed.lower_eigenvalues()[:50] <= dense.spectrum.values[:50]).all()


def test_an_output_that_is_solved_at_once_does_not_end_the_others():
    """y = 0 beside another y: the form of both is that of the other alone, as close as it is alone."""
    points = np.random.default_rng(8).standard_normal((200, 2))
    target = np.sin(3.0 * points[:, 0])
    single, pair = (StreamedRows(KERNEL, points, np.column_stack(ys)) for ys in ([target], [np.zeros(200), target]))
    alone, beside = (rows.quadratic(rows.residual(20, 1e-2)) for rows in (single, pair))
    assert beside == pytest.approx(alone, rel=1e-6)


def test_lower_eigenvalues_are_below_those_of_the_matrix():
    """Two points with covariance c: the eigenvalues are exactly 1 ± c."""
    for distance in np.geomspace(0.01, 3.0, 60):
        points = np.array([[0.0], [distance]])
        c = Fraction(float(KERNEL(points)[0, 1]))
        values = sorted(DenseRows(KERNEL, points, None).lower_eigenvalues(), reverse=True)
        assert Fraction(float(values[0])) <= 1 + c
        assert Fraction(float(values[1])) <= 1 - c


def test_a_margin_is_at_least_that_without_a_threshold():
    """Upper bounds on Ω_a need not be least where the exact Ω_a would have it: a = 0 and others are tried as well."""
    shares, miss = np.array([0.9, 0.1]), np.array([0.3, 0.3])

    def omega_above(a):
        return float((miss * np.maximum(shares - a, 0.0)).sum()) + (0.2 if a > 0.0 else 0.0)

    loose = SimpleNamespace(shares=shares, miss=miss, omega_above=omega_above)
    assert margin(loose, 0.5, 0.8) == pytest.approx(0.5 - 0.8 * omega_above(0.0), rel=1e-12)


def test_more_points_than_pivots_are_as_good_as_fewer(monkeypatch):
    """Bounds from few pivots fall with M and stay where they are at last; they are above those of the decomposition."""
    monkeypatch.setattr(rows_module, "MOST_PIVOTS", 90)
    sizes = (20, 40, 80, 89, 90, 100, 119)
    for y, norm in ((Y, None), (None, None), (None, float(Y @ Y))):
        numbers = Numbers.checked(1.0, NOISE, 0.05, norm, 0.0, "q||p")
        streamed, dense = (
            draws_from_rows(KERNEL, ROWS, numbers, y=y, draws=10, **SETTING, dense=rows, first=30)
            for rows in (100, 200)
        )
        values = np.array([float(streamed.at(M)) for M in sizes])
        assert (values[1:] <= values[:-1] * (1.0 + 1e-11)).all()
        assert np.isfinite(values).all()
        assert (values >= [float(dense.at(M)) for M in sizes]).all()
    single = StreamedRows(KERNEL, np.vstack([X[:1], X[:1] + 1e-12]), Y[:2, None])
    assert single.residual(1, NOISE).trace < 1e-9


@pytest.mark.parametrize("steps", [0, 1, 3])
def test_a_solve_that_ends_early_only_costs(steps, monkeypatch):
    """The part of y that few products with K miss is added: the quadratic form stays above the exact one."""
    monkeypatch.setattr(rows_module, "STEPS", steps)
    monkeypatch.setattr(rows_module, "FIRST_PIVOTS", 60)
    points = RNG.standard_normal((300, 2))
    targets = np.column_stack([np.sin(3.0 * points[:, 0]), RNG.standard_normal(300), np.zeros(300)])
    dense = DenseRows(KERNEL, points, targets)
    streamed = StreamedRows(KERNEL, points, targets)
    for M in (5, 20):
        exact, above = (rows.quadratic(rows.residual(M, 1e-2)) for rows in (dense, streamed))
        assert exact <= above


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"y": Y[:-1]}, "y: expected shape"),
        ({"draws": 0}, "draws: expected a whole number >= 1"),
        ({"draws": 2.5}, "draws: expected a whole number >= 1"),
        ({"draws": "often"}, "draws: expected a whole number >= 1"),
        ({"draws": None}, "draws: expected the number R"),
        ({"inputs": Gaussian(dim=2)}, "y: expected inputs=Empirical"),
        ({"y_norm2": 1.0}, "y_norm2: expected None"),
        ({"form": "printed"}, "form: expected 'sharpest'"),
        ({"law": "uniform"}, "law: expected one of"),
        ({"N": 100}, "N: expected the number of rows"),
        ({"y": None, "draws": "certain"}, "draws: expected a whole number >= 1 unless y is given"),
        ({"y": None, "draws": 5, "y_norm2": 1.0, "law": "tilted"}, "law: expected 'kdpp'"),
        ({"y": None, "draws": None, "y_norm2": 1.0, "y_norm2_known": "before"}, "draws: expected a number of draws"),
        ({"y": None, "draws": 5, "y_norm2": 1.0, "y_norm2_known": "later"}, "y_norm2_known: expected one of"),
        ({"y": None, "draws": None, "law": "kdpp"}, "law: expected None without draws"),
        ({"y": None, "simulate": 39}, "simulate: expected a law of inputs"),
        ({"simulate": 39, "inputs": Gaussian(dim=2)}, "y: expected None with simulate"),
        ({"y": None, "simulate": 38, "inputs": Gaussian(dim=2)}, "simulate: expected at least 39"),
    ],
)
def test_bad_input_says_what_was_expected(change, message):
    options = {"N": 120, "y": Y, "draws": 10, "inputs": ROWS, "noise": NOISE, **change}
    N = options.pop("N")
    with pytest.raises(ValueError, match=message):
        rate(KERNEL, N, 20, 1.0, **options)


@pytest.mark.filterwarnings("ignore:certified=True is an old spelling:DeprecationWarning")
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"y": None}, "certified: expected True only with y, draws"),
        ({"y": None, "draws": None}, "for y from the prior, rigor='sharp' encloses"),
        ({"simulate": 39, "inputs": Gaussian(dim=2)}, "certified: expected True only with y, draws"),
    ],
)
def test_the_old_word_certified_refuses_what_is_not(change, message):
    options = {"y": Y, "draws": 10, "inputs": ROWS, "noise": NOISE, "certified": True, **change}
    with pytest.raises(ValueError, match=message):
        rate(KERNEL, 120, 20, 1.0, **options)


WAYS = {
    "given": {"y": Y[:30], "draws": 10},
    "certain": {"y": Y[:30], "draws": "certain"},
    "prior": {"draws": 10},
    "before": {"draws": 10, "y_norm2": 30.0, "y_norm2_known": "before"},
    "after": {"draws": 10, "y_norm2": 30.0},
}


@pytest.mark.parametrize("rigor", ["auto", "float"])
@pytest.mark.parametrize("way", WAYS)
def test_at_the_ends_of_the_doubles_there_is_a_number_or_one_sentence(way, rigor):
    for variance in (1e-250, 1e-49, 1.0, 1e49, 1e250):
        for noise in (5e-324, 1e-90, 1e-39 * variance, 1e39 * variance, 1e300):
            options = {"inputs": Empirical(X[:30]), "noise": noise, "rigor": rigor, **WAYS[way]}
            try:
                bound = rate(SquaredExponential(variance, 0.5), 30, 10, 1.0, **options)
            except ValueError as error:
                assert re.match("(kernel|noise|y): expected .* at the rows with draws, .*got", str(error)), error  # noqa: PT017
            else:
                assert float(bound) >= 0.0


def test_points_beyond_the_distinct_rows_are_refused():
    twice = np.repeat(X[:20], 2, axis=0)
    assert float(rate(KERNEL, 40, 20, 1.0, inputs=Empirical(twice), y=Y[:40], draws=3, noise=NOISE)) < 1e-9
    with pytest.raises(ValueError, match="M: expected at most 20 points"):
        rate(KERNEL, 40, 21, 1.0, inputs=Empirical(twice), y=Y[:40], draws=3, noise=NOISE)


@pytest.mark.parametrize("law", ["kdpp", "tilted", None])
def test_a_certified_bound_is_not_above_the_usual_one_by_more_than_its_errors(law):
    options = {"y": np.column_stack([Y, X[:, 1]]), "law": law, **KNOWN}
    sizes = [5, 40, 100]
    for draws in (10, "certain"):
        usual = rate(KERNEL, 120, sizes, 0.5, draws=draws, rigor="float", **options)
        proved = rate(KERNEL, 120, sizes, 0.5, draws=draws, rigor="auto", **options)
        assert proved.certified
        assert not usual.certified
        assert np.asarray(proved) == pytest.approx(np.asarray(usual), rel=1e-6)
        assert any("exp errs by at most 4 units" in sentence for sentence in proved.assumptions)
        assert "N-enclosed" in proved.claim
        assert np.array_equal(proved.confidence, usual.confidence)
    other = rate(KERNEL, 120, sizes, 0.3, draws=10, rigor="auto", direction="p||q", **options)
    assert other.certified
    assert float(rate(KERNEL, 120, 5, 1.0, draws=10, tv=0.9, rigor="auto", **options)) == np.inf
    assert not rate(KERNEL, 120, 5, 1.0, draws=10, tv=0.9, rigor="auto", **options).certified


def test_a_plan_with_certified_bounds():
    options = {"y": Y, "draws": 10, "target": 1.0, **KNOWN}
    usual, proved = (inducing_points(KERNEL, 120, 1.0, rigor=rigor, **options) for rigor in ("float", "auto"))
    assert usual.M == proved.M
    assert proved.bound.certified
    assert float(proved.bound) <= 1.0 < float(proved.bound_before)
    twice = np.repeat(X[:20], 2, axis=0)
    equal = {"inputs": Empirical(twice), "y": Y[:40], "draws": 3, "noise": NOISE, "rigor": "auto"}
    assert float(rate(KERNEL, 40, 20, 1.0, **equal)) < 1e-9
    with pytest.raises(ValueError, match="M: expected at most 20 points"):
        rate(KERNEL, 40, 21, 1.0, **equal)


@pytest.mark.filterwarnings("ignore:certified=True is an old spelling:DeprecationWarning")
def test_kernels_and_sizes_without_proved_rounding_are_bounded_in_doubles_and_refused_by_the_old_word():
    options, numbers = {"inputs": ROWS, "y": Y, "draws": 10}, Numbers.checked(1.0, NOISE, 0.05, None, 0.0, "q||p")
    doubles = rate(Matern(0.7), 120, 20, 1.0, **options)
    assert not doubles.certified
    assert float(doubles) == float(rate(Matern(0.7), 120, 20, 1.0, rigor="float", **options))
    with pytest.raises(ValueError, match=r"kernel: expected a kernel of gpbounds .* half-integer nu"):
        rate(Matern(0.7), 120, 20, 1.0, certified=True, **options)
    with pytest.raises(ValueError, match="certified: expected at most 100 rows in host memory"):
        draws_from_rows(KERNEL, ROWS, numbers, y=Y, draws=10, certified=True, dense=100, **SETTING)
