"""`plan(loss=…)` and `plan(relative=…)`: where the answer is known, against direct computations, and in its reports."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom
from scipy.stats import t as student

import fitting
from fitting.study import by_predictions as study
from fitting.study.by_predictions import Measured, Reached, measured, trend
from fitting.study.ranks import Aims
from fitting.study.standardised import TableRows
from gpbounds import Matern, SquaredExponential
from gpbounds.audit.path import Distances, ExactScores, GreedyPath, least_from_on
from gpbounds.audit.scores import Enclosure, difference, log_loss_ends
from gpbounds.cli import main
from gpbounds.divergences import collapsed_posterior
from gpbounds.kernels import Linear
from gpbounds.renyi import operator_gap

KERNEL, NOISE = SquaredExponential(1.5, [0.9, 1.4]), 0.02
LOSS = {"loss": 0.01}


def table(N=300, seed=0, D=2):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2.0, 2.0, (N, D))
    return TableRows("planted", X, np.sin(2.0 * X[:, 0]) + X[:, -1] ** 2 + 0.15 * rng.standard_normal(N))


def parts(rows, n):
    """The first n rows, and the others."""
    return TableRows("new", rows.X[:n], rows.y[:n]), TableRows("training", rows.X[n:], rows.y[n:])


def dense(kernel, rows, noise, points):
    """Means and latent variances of the exact GP, from a factor in doubles."""
    K = kernel(rows.X) + noise * np.eye(rows.N)
    cross = kernel(rows.X, points)
    solved = np.linalg.solve(K, np.column_stack([rows.y, cross]))
    return cross.T @ solved[:, 0], kernel.diag(points) - (cross * solved[:, 1:]).sum(axis=0)


def as_scored(y, means, variances, noise):
    """Log losses by scipy."""
    from scipy.stats import norm

    return -norm.logpdf(y, means, np.sqrt(variances + noise))


# The path


@pytest.mark.parametrize("kernel", [KERNEL, Matern(1.5, 2.0, [0.5, 0.8])], ids=["se", "matern"])
def test_every_prefix_of_a_path_is_the_sparse_posterior_with_those_points(kernel):
    new, rows = parts(table(), 40)
    path = GreedyPath(kernel, rows.X, rows.y, NOISE, new.X)
    path.grow(7)
    means, variances = path.grow(60)
    assert means.shape == variances.shape == (60, 40)
    for M in (1, 7, 30, 60):
        Z = rows.X[path.chosen.indices[:M]]
        law = collapsed_posterior(kernel, rows.X, rows.y, Z, noise=NOISE, power=0.0, jitter=0.0).predict(new.X)
        np.testing.assert_allclose(means[M - 1], law.mean, rtol=1e-7, atol=1e-8)
        np.testing.assert_allclose(variances[M - 1], law.variance, rtol=1e-6, atol=1e-8)


def test_a_path_grows_in_parts_to_the_same_numbers_and_takes_equal_rows_once():
    rows = table(60)
    twice = TableRows("twice", np.vstack([rows.X, rows.X]), np.concatenate([rows.y, rows.y + 0.1]))
    whole = GreedyPath(KERNEL, twice.X, twice.y, NOISE, rows.X[:5]).grow(40)
    grown = GreedyPath(KERNEL, twice.X, twice.y, NOISE, rows.X[:5])
    for M in (3, 20):
        grown.grow(M)
    for first, second in zip(whole, grown.grow(40), strict=True):
        np.testing.assert_allclose(first, second, rtol=1e-9, atol=1e-11)
    chosen = grown.chosen.indices % 60
    assert len(set(chosen.tolist())) == len(chosen)


# Distances


def test_the_ends_of_the_distances_contain_those_of_a_dense_exact_GP():
    new, rows = parts(table(), 60)
    result = measured(KERNEL, rows, NOISE, new, {"loss": 0.01, "relative": 0.05})
    mean, variance = dense(KERNEL, rows, NOISE, new.X)
    means, variances = GreedyPath(KERNEL, rows.X, rows.y, NOISE, new.X).grow(result.tried)
    truth = {
        "loss": (as_scored(new.y, means, variances, NOISE) - as_scored(new.y, mean, variance, NOISE)).mean(axis=1),
        "relative": np.sqrt(((means - mean) ** 2).mean(axis=1) / ((new.y - mean) ** 2).mean()),
    }
    for reached in result.reached:
        assert len(reached.points) >= 10
        for point in reached.points:
            low, high = point.enclosure
            value = truth[reached.measure][point.M - 1]
            assert low - 1e-12 <= value <= high + 1e-12
            assert high - low < 0.05 * reached.target
            assert point.interval[0] <= low
            assert high <= point.interval[1]
    assert result.certified


@given(st.integers(0, 1000), st.integers(3, 40), st.sampled_from([0.0, 1e-3, 0.3]))
def test_intervals_of_all_M_at_once_are_those_of_paired_differences(seed, n, width):
    rng = np.random.default_rng(seed)
    y, means, variances = rng.standard_normal(n), rng.standard_normal((4, n)), rng.uniform(0.0, 2.0, (4, n))
    centre, spread = rng.standard_normal(n), rng.uniform(0.1, 1.0, n)
    exact = ExactScores(y, (centre - width, centre + width), (spread, spread + width), 0.1, "planted", True)
    result = exact.loss_lost(means, variances)
    for M in range(4):
        losses = log_loss_ends(y, (means[M], means[M]), (variances[M], variances[M]), 0.1)
        one = difference(losses, exact.loss)
        for ours, theirs in ((result.enclosure, one.enclosure), (result.interval, one.interval)):
            assert ours.low[M] == pytest.approx(theirs.low, rel=1e-9, abs=1e-11)  # sums in another order
            assert ours.high[M] == pytest.approx(theirs.high, rel=1e-9, abs=1e-11)


def test_the_relative_distance_is_the_ratio_of_root_mean_squares_and_its_interval_covers():
    rng = np.random.default_rng(5)
    truth, covered, trials, n = 0.3, 0, 400, 200
    for _ in range(trials):
        residual = rng.standard_normal(n)
        mean = np.zeros(n)
        exact = ExactScores(residual, (mean, mean), (mean + 1.0, mean + 1.0), 1.0, "planted", True)
        means = truth * rng.standard_normal((1, n))
        result = exact.relative(means, np.ones((1, n)))
        ratio = math.sqrt((means**2).mean() / (residual**2).mean())
        assert result.enclosure.low[0] <= ratio <= result.enclosure.high[0]
        assert result.enclosure.high[0] - result.enclosure.low[0] < 1e-9
        covered += result.interval.low[0] <= truth <= result.interval.high[0]
    assert covered / trials > 0.9


def test_ends_of_the_relative_distance_hold_for_every_mean_between_ends():
    rng = np.random.default_rng(6)
    y, centre, half = rng.standard_normal(30), rng.standard_normal(30), 0.1 * rng.uniform(size=30)
    exact = ExactScores(y, (centre - half, centre + half), (half, half), 1.0, "planted", True)
    means = rng.standard_normal((3, 30))
    result = exact.relative(means, np.ones((3, 30)))
    for share in rng.uniform(-1.0, 1.0, (50, 30)):
        mean = centre + share * half
        ratio = np.sqrt(((means - mean) ** 2).mean(axis=1) / ((y - mean) ** 2).mean())
        assert (result.enclosure.low <= ratio).all()
        assert (ratio <= result.enclosure.high).all()


# The least M


@given(st.lists(st.floats(-1.0, 1.0), min_size=1, max_size=12), st.floats(0.0, 0.5), st.floats(-1.0, 1.0))
def test_from_the_least_M_on_every_upper_end_is_at_most_the_target(middles, half, target):
    middle = np.array(middles)
    ends = Enclosure(middle - half, middle + half)
    least, above = least_from_on(Distances(ends, ends), target)
    upper = ends.high <= target
    if least is None:
        assert not upper[-1]
    else:
        assert upper[least - 1 :].all()
        assert least == 1 or not upper[least - 2]
        assert above < least
    assert above == max((M for M in range(1, len(middle) + 1) if ends.low[M - 1] > target), default=0)


@pytest.mark.parametrize("targets", [{"loss": 0.01}, {"relative": 0.05}], ids=["loss", "relative"])
def test_a_kernel_of_finite_rank_needs_as_many_points_as_its_rank(targets):
    rng = np.random.default_rng(2)
    X = rng.standard_normal((400, 5))
    y = X @ [1.0, -2.0, 0.5, 1.5, 3.0] + 0.1 * rng.standard_normal(400)
    new, rows = parts(TableRows("linear", X, y), 100)
    result = measured(Linear(4.0), rows, 0.01, new, targets)
    (reached,) = result.reached
    assert (result.M, result.above) == (5, 4)
    assert abs(reached.at(5).value) < 1e-6
    assert reached.at(4).value > 10.0 * reached.target
    assert result.exhausted


def test_stricter_targets_need_more_points_and_two_targets_the_greater_M():
    new, rows = parts(table(500), 100)

    def least(**targets):
        return measured(KERNEL, rows, NOISE, new, targets).M

    losses = [least(loss=target) for target in (0.3, 0.03, 0.003)]
    assert losses == sorted(losses)
    assert losses[0] < losses[-1]
    relative = least(relative=0.02)
    assert least(loss=0.03, relative=0.02) == max(losses[1], relative)


def test_no_M_up_to_the_most_is_an_answer():
    new, rows = parts(table(), 60)
    result = measured(SquaredExponential(1.0, 0.05), rows, 1e-4, new, LOSS, most=20)
    assert (result.M, result.tried) == (None, 20)
    assert result.above == 20
    assert result.reached[0].opened == math.inf


@pytest.mark.parametrize("unit", [1e-6, 1e6])
def test_units_of_the_target_leave_every_M(unit):
    rows = table(250)

    def planned(factor):
        kernel = SquaredExponential(KERNEL.variance * factor**2, KERNEL.lengthscale)
        made = fitting.plan(rows.X, rows.y * factor, loss=0.01, relative=0.1, kernel=kernel, noise=NOISE * factor**2)
        (size,) = made.by_predictions.sizes
        return size.M, size.above, size.tried

    assert planned(unit) == planned(1.0)


# Growing numbers of rows


def at(N, M, above):
    return Measured(N, 99, False, "cholesky", True, 0.0, (Reached("loss", 0.01, M, above, ()),))


def test_the_trend_continues_a_power_of_N():
    sizes = [at(N, round(2.0 * N**0.5), round(N**0.5) - 1) for N in (100, 400, 1600, 6400)]
    result = trend(sizes, 10_000)
    assert result.slope == pytest.approx(0.5, abs=1e-3)
    assert result.M == pytest.approx(200, abs=1)
    assert result.ends[0] == pytest.approx(100, abs=2)
    assert result.ends[0] <= result.M <= result.ends[1]
    assert trend(sizes[:1], 10_000) is None
    assert trend([at(100, None, 99), *sizes[1:2]], 10_000) is None
    assert trend([*sizes, at(25_600, None, 99)], 6400).M == sizes[-1].M  # from the last that has an M


def test_the_trend_never_exceeds_the_rows():
    assert trend([at(100, 20, 10), at(200, 190, 180)], 300).ends[1] == 300


@pytest.fixture(scope="module")
def growing():
    """A table of which the largest numbers of rows are not measured, and the record of the whole."""
    rows = table(600, seed=4)
    patch = pytest.MonkeyPatch()
    whole = fitting.plan(rows.X, rows.y, loss=0.01, kernel=KERNEL, noise=NOISE)
    patch.setattr(study, "WHOLE", 240)
    patch.setattr(study, "SUBSETS", 200)
    try:
        return whole, fitting.plan(rows.X, rows.y, loss=0.01, kernel=KERNEL, noise=NOISE)
    finally:
        patch.undo()


def test_beyond_the_measured_rows_M_is_extrapolated_and_called_so(growing):
    whole, planned = growing
    result = planned.by_predictions
    assert [each.N for each in result.sizes] == [30, 60, 120, 240]
    assert not result.whole
    assert result.M == max(result.trend.M, result.all_rows.M)
    assert planned.to_dict()["predictions"]["how"] == "extrapolated"
    assert "extrapolated to all 600 rows" in planned.recommendation
    assert "M for all rows is extrapolated" in planned.scope
    truth = whole.by_predictions.sizes[-1]
    assert result.all_rows.N == truth.N == 480
    assert truth.above < result.M <= 2 * truth.M
    assert truth.above < result.all_rows.M <= truth.M + 1


def test_where_all_rows_are_measured_nothing_is_extrapolated(growing):
    whole, _ = growing
    result = whole.by_predictions
    assert (result.whole, result.all_rows, result.trend) == (True, None, None)
    assert whole.to_dict()["predictions"]["how"] == "measured"
    assert "extrapolated" not in str(whole)
    assert str(whole).count("Recommendation: use M = ") == 1
    assert f"M = {result.M} greedy" in whole.recommendation


def test_a_table_that_needs_most_of_its_rows_is_told_to_use_the_exact_GP():
    rng = np.random.default_rng(3)
    X = rng.uniform(0.0, 10.0, (200, 3))  # no two rows know of each other
    planned = fitting.plan(X, rng.standard_normal(200), relative=0.01, kernel=SquaredExponential(1.0, 0.8), noise=0.01)
    result = planned.by_predictions
    assert 2 * result.M > 200
    assert not result.saves
    assert "use the exact GP, as more than half the rows" in planned.recommendation
    assert "--model exact" in planned.recommendation


def test_M_that_is_not_reached_with_all_rows_is_extrapolated_from_fewer(monkeypatch):
    rows = table(600, seed=4)
    monkeypatch.setattr(study, "SUBSETS", 200)
    whole = fitting.plan(rows.X, rows.y, loss=0.01, kernel=KERNEL, noise=NOISE).by_predictions
    assert whole.whole
    capped = fitting.plan(rows.X, rows.y, loss=0.01, kernel=KERNEL, noise=NOISE, most=whole.M - 1).by_predictions
    assert capped.sizes[-1].M is None
    assert capped.reaches_all
    assert not capped.whole
    assert capped.M == max(capped.trend.M, 0 if capped.all_rows is None else capped.all_rows.M)
    assert capped.to_dict()["how"] == "extrapolated"


def test_an_interruption_keeps_the_sizes_that_were_measured(monkeypatch):
    rows, calls, original = table(600), [], study.measured

    def until_the_third(*args, **options):
        calls.append(args[1].N)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return original(*args, **options)

    monkeypatch.setattr(study, "SUBSETS", 200)
    monkeypatch.setattr(study, "measured", until_the_third)
    planned = fitting.plan(rows.X, rows.y, loss=0.01, kernel=KERNEL, noise=NOISE)
    assert planned.interrupted
    assert [each.N for each in planned.by_predictions.sizes] == [60, 120]
    assert any("Interrupted; not computed: 240 training rows, 480 training rows" in each for each in planned.reasons)
    assert "extrapolated" in planned.recommendation


@pytest.mark.slow
def test_refits_to_other_rows_show_how_far_M_is_known():
    rows = table(400)
    planned = fitting.plan(rows.X, rows.y, loss=0.01, refits=2)
    N, counts = planned.by_predictions.spread
    assert (N, len(counts), counts[0]) == (320, 3, planned.by_predictions.M)
    assert "Kernel and noise fitted to other rows give M = " in planned.recommendation
    assert fitting.plan(rows.X, rows.y, loss=0.01, refits=0).by_predictions.spread is None


# Reports


def test_the_record_the_text_and_the_page_say_the_same(growing, tmp_path):
    for planned in growing:
        result, text = planned.by_predictions, " ".join(str(planned).split())
        kept = json.loads(json.dumps(planned.to_dict()))["predictions"]
        assert kept["M"] == result.M
        assert [each["M"] for each in kept["sizes"]] == [each.M for each in result.sizes]
        assert " ".join(planned.recommendation.split()) in text
        assert "Proved: the ends of the exact GP's predictions" in text
        assert "Measured: the differences" in text
        assert max(len(line) for line in str(planned).splitlines() if " to " in line and "proved" not in line) <= 110
        planned.save(tmp_path / "plan.html")
        page = (tmp_path / "plan.html").read_text(encoding="utf-8")
        assert f"use M = {result.M} greedy" in page
        assert "<svg" in page
        assert len(planned.plot().axes) == 1 + (len(result.sizes) > 1)


def test_the_shell_prints_the_same_plan(capsys, tmp_path):
    rows = table(120)
    path = tmp_path / "table.csv"
    np.savetxt(path, np.column_stack([rows.X, rows.y]), delimiter=",", header="a,b,y", comments="", fmt="%.17g")
    words = ["plan", "--data", str(path), "--relative", "0.1", "--refits", "0", "--json"]
    assert main(words) == 0
    shell = json.loads(capsys.readouterr().out)
    library = fitting.plan(rows.X, rows.y, relative=0.1, refits=0)
    assert shell["predictions"]["M"] == library.by_predictions.M
    assert "gpbounds train FILE --target y --inducing" in shell["recommendation"]
    assert shell["plans"] == []


def test_a_model_is_planned_for_with_its_kernel():
    rows = table(150)
    model = fitting.SparseGP(kernel=KERNEL, noise=NOISE, fixed="all", n_inducing=15, random_state=0).fit(rows.X, rows.y)
    planned = fitting.plan(rows.X, rows.y, model=model, loss=0.05)
    assert planned.by_predictions.M is not None
    assert planned.by_predictions.spread is None
    assert "--keep-kernel MODEL" in planned.recommendation


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--loss", "0.01", "--method", "fourier"), "compares inducing points with the exact GP, and fourier has no"),
        (("--loss", "0.01", "--method", "inducing", "mercer"), "and mercer has no such comparison"),
        (("--relative", "0.1", "--nats", "2"), "--nats 2.0: it asks for a divergence, --relative 0.1 for predictions"),
        (("--loss", "-1"), "--loss: expected a positive finite number"),
        (("--loss", "0.01", "--alpha", "0.5"), "--alpha: it belongs to the levels in nats"),
        (("--loss", "0.01", "--select", "kdpp"), "--select: it belongs to the levels in nats"),
        (("--loss", "0.01", "--old-forms"), "--old-forms: it belongs to the levels in nats"),
    ],
)
def test_what_has_no_exact_GP_beside_it_is_refused_in_one_sentence(words, message, capsys, tmp_path):
    rows = table(60)
    path = tmp_path / "table.csv"
    np.savetxt(path, np.column_stack([rows.X, rows.y]), delimiter=",")
    assert main(["plan", "--data", str(path), *words]) == 2
    said = capsys.readouterr().err
    assert message in said
    assert said.count("\n") == 1


def test_a_law_has_no_rows_to_hold_out_and_few_rows_are_no_sample(capsys):
    assert main(["plan", "-N", "1000", "--loss", "0.01"]) == 2
    assert "--loss: expected --data FILE" in capsys.readouterr().err
    rows = table(24)
    with pytest.raises(ValueError, match="loss: expected at least 25 rows, a fifth of which is held out, got 24"):
        fitting.plan(rows.X, rows.y, loss=0.01)


def test_measures_have_the_names_of_their_options():
    assert set(study.targets_of(Aims(loss=0.1, relative=0.2))) == set(study.MEASURES)


# The proof at training inputs


def test_the_proof_holds_at_the_training_inputs_for_other_targets_and_no_fewer_points_prove_it():
    rows = table(300)
    result = study.by_operator(KERNEL, rows, NOISE, 0.1, 200)
    assert result.bound <= 0.1
    assert result.floor <= result.M
    path = GreedyPath(KERNEL, rows.X, rows.y, NOISE, rows.X)
    path.grow(result.M)
    Z = rows.X[path.chosen.indices]
    assert float(operator_gap(KERNEL, rows.X, Z[:-1], noise=NOISE).terms["lower"]) > 0.1
    for seed in range(3):
        y = rows.y if seed == 0 else 10.0 * np.random.default_rng(seed).standard_normal(rows.N)
        means, _ = GreedyPath(KERNEL, rows.X, y, NOISE, rows.X).grow(result.M)
        exact, _ = dense(KERNEL, TableRows("other", rows.X, y), NOISE, rows.X)
        assert np.linalg.norm(means[-1] - exact) <= 0.1 * np.linalg.norm(y - exact)
    assert study.by_operator(KERNEL, rows, NOISE, 0.1, 5).M is None


def test_a_relative_plan_says_what_is_proved_and_a_plan_of_the_loss_does_not(growing):
    rows = table(200)
    planned = fitting.plan(rows.X, rows.y, relative=0.2, kernel=KERNEL, noise=NOISE)
    proved = planned.by_predictions.proved
    assert planned.by_predictions.M <= proved.M
    assert f"M = {proved.M} has it for every y" in " ".join(str(planned).split())
    assert planned.to_dict()["predictions"]["at training inputs"]["M"] == proved.M
    assert growing[0].by_predictions.proved is None


def test_the_choice_of_m_costs_no_confidence():
    """Distances that do not grow with M, rows that share their noise: a false M is as rare as one false upper end.

    The least M whose own upper end is below the target, whatever larger ones say, is false far more often.
    """
    rng, n, trials, target = np.random.default_rng(0), 30, 3000, 1.0
    truth = np.concatenate([np.full(17, 1.01), np.linspace(0.9, 0.2, 8)])
    reach = float(student.ppf(0.975, n - 1)) / math.sqrt(n)
    false = {"from on": 0, "alone": 0}
    for _ in range(trials):
        rows = truth[:, None] + 0.3 * rng.standard_normal(n) + 0.6 * rng.standard_normal((25, n))
        middle, half = rows.mean(axis=1), reach * rows.std(axis=1, ddof=1)
        interval = Enclosure(middle - half, middle + half)
        least, _ = least_from_on(Distances(interval, interval), target)
        alone = np.flatnonzero(interval.high <= target)
        false["from on"] += least is not None and truth[least - 1] > target
        false["alone"] += alone.size > 0 and truth[alone[0]] > target
    assert binom.sf(false["from on"] - 1, trials, 0.025) > 1e-6
    assert binom.sf(false["alone"] - 1, trials, 0.025) < 1e-6
