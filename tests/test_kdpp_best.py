"""What ``kdpp.select(method="best")`` promises: the best of its candidates, a bound above the truth, refusals."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from gpbounds import Empirical, Matern, SquaredExponential, kdpp, rate, renyi
from gpbounds.audit import enough, subject
from gpbounds.errors import NotConverged
from gpbounds.kdpp import best as several_draws
from gpbounds.kdpp.best import DrawsProblem
from gpbounds.kernels import Constant, Kernel
from gpbounds.renyi.attained import attained, negative_trace

SMOOTH, NOISE = SquaredExponential(1.0, 1.0), 0.05


def data(N: int, kernel: Kernel = SMOOTH, D: int = 2, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Inputs, and targets from the prior."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((N, D))
    return X, np.linalg.cholesky(kernel(X) + NOISE * np.eye(N)) @ rng.standard_normal(N)


def gap(X: np.ndarray, y: np.ndarray, chosen: kdpp.Selection, alpha: float, kernel: Kernel = SMOOTH) -> float:
    """log p(y) − L_α at the points and the jitter that were selected."""
    lower = renyi.elbo(kernel, X, y, chosen.Z, alpha, noise=NOISE, jitter=chosen.jitter)
    return renyi.log_evidence(kernel, X, y, noise=NOISE) - float(lower)


@pytest.mark.parametrize("alpha", [1.0, 0.5])
@pytest.mark.parametrize("M", [15, 40, 80])
def test_the_greatest_objective_is_kept_and_its_bound_is_above_the_gap(alpha: float, M: int) -> None:
    X, y = data(150)
    greedy = kdpp.select(SMOOTH, X, M).Z
    chosen = kdpp.select(SMOOTH, X, M, "best", 1, y=y, noise=NOISE, alpha=alpha, draws=4)
    assert chosen.bound is not None
    assert chosen.objective == pytest.approx(float(renyi.elbo(SMOOTH, X, y, chosen.Z, alpha, noise=NOISE)), rel=1e-10)
    assert chosen.objective >= float(renyi.elbo(SMOOTH, X, y, greedy, alpha, noise=NOISE)) - 1e-9
    assert gap(X, y, chosen, alpha) <= float(chosen.bound)
    assert chosen.bound.quantity == f"D_{alpha:g}[q*||p]"
    assert chosen.bound.confidence == pytest.approx(0.95)
    assert chosen.bound.terms["draws"] == 4
    again = kdpp.select(SMOOTH, X, M, "best", 1, y=y, noise=NOISE, alpha=alpha, draws=4)
    assert (again.Z == chosen.Z).all()
    assert float(again.bound) == float(chosen.bound)


def test_what_a_jitter_costs_is_part_of_the_bound() -> None:
    """N = 308, M = 200: for exact arithmetic the bound is 8.5e-7, with jitter 1e-8 the truth is 3.1e-5."""
    kernel = SquaredExponential(1.0, 0.6)
    X, y = data(308, kernel)
    chosen = kdpp.select(kernel, X, 200, "best", 0, y=y, noise=NOISE, jitter=1e-8)
    truth = gap(X, y, chosen, 1.0, kernel)
    assert chosen.jitter == 1e-8
    assert chosen.bound is not None
    assert truth > 30.0 * chosen.bound.terms["without jitter"]
    assert truth <= float(chosen.bound) <= 1.1 * truth
    free = kdpp.select(kernel, X, 200, "best", 0, y=y, noise=NOISE)
    assert free.jitter == 0.0
    assert free.bound is not None
    assert float(free.bound) < 0.1 * truth


@pytest.mark.parametrize("alpha", [1.0, 0.3])
def test_the_allowance_for_rounding_covers_it(alpha: float) -> None:
    """Against 50 digits, where Kuu is nearly singular."""
    import mpmath as mp

    from gpbounds.reference import renyi as reference

    x = np.linspace(0.0, 1.0, 12)
    y, kernel = np.sin(9.0 * x), SquaredExponential(1.0, 0.4)
    for M in (3, 7, 9):
        Z = kdpp.select(kernel, x, M).Z
        with mp.workdps(60):
            inputs = [[mp.mpf(float(v)) for v in column] for column in (x, Z[:, 0])]

            def k(a: Any, b: Any) -> Any:
                return mp.exp(-((a - b) ** 2) / (2 * mp.mpf(0.4) ** 2))

            Kff, Kuf, Kuu = (
                mp.matrix([[k(a, b) for b in second] for a in first])
                for first, second in ((inputs[0], inputs[0]), (inputs[1], inputs[0]), (inputs[1], inputs[1]))
            )
            targets = mp.matrix(y.tolist())
            truth = reference.elbo(Kff, Kuf, Kuu, targets, mp.mpf(0.01), mp.mpf(alpha))
            trace = mp.fsum((Kff - Kuf.T * mp.inverse(Kuu) * Kuf)[i, i] for i in range(12))
            chosen = attained(kernel, x, y, Z, alpha, noise=0.01, jitter=0.0)
            assert abs(truth - chosen.value) <= chosen.rounding
            least = negative_trace(kernel, x, Z, jitter=0.0)
            assert abs(trace + least.value) <= least.rounding


@pytest.mark.parametrize("N", [700, 1000, 1500])
def test_the_rounding_of_a_sum_of_variances_is_allowed_for(N: int) -> None:
    """A point far away explains nothing: Tr(K − Q) is N times the variance, and only the sum is rounded."""
    x, kernel = np.linspace(0.0, 1.0, N)[:, None], SquaredExponential(0.1, 0.1)
    least = negative_trace(kernel, x, [[100.0]], jitter=0.0)
    error = abs(Fraction(least.value) + N * Fraction(0.1))
    assert 0 < error <= Fraction(least.rounding)


def test_without_targets_the_trace_decides() -> None:
    X, _ = data(120)
    chosen = kdpp.select(SMOOTH, X, 25, "best", 3, draws=5, delta=0.2)
    drawn = [kdpp.select(SMOOTH, X, 25, "kdpp", seed).trace for seed in range(5)]
    assert chosen.trace <= kdpp.select(SMOOTH, X, 25).trace * (1.0 + 1e-12)
    assert chosen.trace < np.median(drawn)
    assert chosen.objective is None
    assert chosen.bound is not None
    assert chosen.bound.quantity == "Tr(K - Q)"
    assert chosen.bound.confidence == pytest.approx(0.8)
    assert chosen.trace <= float(chosen.bound) <= chosen.bound.terms["expected_trace"] / 0.2**0.2 * (1 + 1e-6)


def test_a_draw_that_does_not_factorise_counts_and_the_gap_itself_is_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = data(60)
    calls = []
    whole = DrawsProblem.without_jitter

    def fails_at_third(self: DrawsProblem, Z: np.ndarray, order: float) -> Any:
        calls.append(Z)
        return None if len(calls) == 3 else whole(self, Z, order)

    monkeypatch.setattr(DrawsProblem, "without_jitter", fails_at_third)
    chosen = kdpp.select(SMOOTH, X, 20, "best", 0, y=y, noise=NOISE, draws=6)
    assert len(calls) == 6 + 2  # six draws, none of them replaced, greedy and randomly pivoted points
    assert chosen.bound is not None
    assert chosen.bound.confidence == 1.0
    assert "1 of 6 draws do not factorise" in chosen.bound.assumptions[0]
    assert gap(X, y, chosen, 1.0) <= float(chosen.bound) <= gap(X, y, chosen, 1.0) + 1e-6
    monkeypatch.setattr(DrawsProblem, "without_jitter", lambda self, Z, order: None)
    chosen = kdpp.select(SMOOTH, X, 20, "best", 0, y=y, noise=NOISE, draws=2)
    assert chosen.bound is not None
    assert "2 of 2 draws" in chosen.bound.assumptions[0]
    assert kdpp.select(SMOOTH, X, 20, "best", 0, draws=2).bound is None


@pytest.mark.parametrize("alpha", [1.0, 0.5])
def test_large_data_are_drawn_through_a_factor_and_the_elbo_is_kept(
    monkeypatch: pytest.MonkeyPatch, alpha: float
) -> None:
    monkeypatch.setattr(several_draws, "DENSE", 100)
    X, y = data(250, D=1)
    for M in (7, 10):
        chosen = kdpp.select(SMOOTH, X, M, "best", 0, y=y, noise=NOISE, alpha=alpha)
        assert "rank-r" in chosen.law
        assert chosen.bound is not None
        assert gap(X, y, chosen, alpha) <= float(chosen.bound)
        proved = several_draws.low_rank_source(
            DrawsProblem(SMOOTH, X, np.arange(250), M, y[:, None], NOISE, alpha), None
        ).before
        assert "N-tv" in proved.claim
        assert "N-given" in proved.claim
        assert float(chosen.bound) <= float(proved) * (1.0 + 1e-6)
        monkeypatch.setattr(several_draws, "SOLVED", 100)
        fixed = several_draws.low_rank_source(
            DrawsProblem(SMOOTH, X, np.arange(250), M, y[:, None], NOISE, alpha), None
        ).before
        monkeypatch.undo()
        monkeypatch.setattr(several_draws, "DENSE", 100)
        assert "N-fixed" in fixed.claim
        assert float(proved) < float(fixed) < np.inf
        assert chosen.objective == pytest.approx(float(renyi.elbo(SMOOTH, X, y, chosen.Z, 1.0, noise=NOISE)))
        least = kdpp.select(SMOOTH, X, M, "best", 0)
        assert least.bound is not None
        assert least.trace <= float(least.bound) < 10.0 * least.trace


def test_large_data_whose_draws_prove_more_than_the_evidence_keep_the_bound_from_the_draws(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A rough kernel and 30 draws: N-given is below the bound on the evidence; what a jitter costs comes on top."""
    monkeypatch.setattr(several_draws, "DENSE", 100)
    kernel, noise, M = Matern(0.5, 1.0, 2.0), 4.0, 40
    X, y = data(250, kernel, D=1)
    chosen = kdpp.select(kernel, X, M, "best", 0, y=y, noise=noise, draws=30)
    problem = DrawsProblem(kernel, X, np.arange(250), M, y[:, None], noise, 1.0, 30)
    proved = several_draws.low_rank_source(problem, None).before
    assert chosen.bound is not None
    assert chosen.bound.claim == proved.claim
    assert chosen.bound.confidence == pytest.approx(0.95)
    assert float(proved) <= float(chosen.bound) <= float(proved) * (1.0 + 1e-6)


def test_where_the_draws_prove_nothing_the_gap_itself_is_the_bound() -> None:
    """For a rough kernel the error of the factor is so large that its k-DPP may be any law."""
    rough = Matern(0.5)
    X, y = data(80, rough)
    chosen = kdpp.select(rough, X, 40, "best", 0, y=y, noise=NOISE, rank=44)
    assert chosen.bound is not None
    assert chosen.bound.confidence == 1.0
    assert "A larger rank brings it closer" in chosen.bound.assumptions[-1]
    assert gap(X, y, chosen, 1.0, rough) <= float(chosen.bound)
    assert kdpp.select(rough, X, 40, "best", 0, rank=44).bound is None


def test_other_candidates_compete_and_the_bound_stays() -> None:
    X, y = data(100)
    without = kdpp.select(SMOOTH, X, 10, "best", 2, y=y, noise=NOISE)
    better = kdpp.select(SMOOTH, X, 30).Z + 0.01
    chosen = kdpp.select(SMOOTH, X, 10, "best", 2, y=y, noise=NOISE, candidates=[X[:10], better])
    assert (chosen.Z == better).all()
    assert chosen.indices is None
    assert "kept: candidate 2" in chosen.law
    assert chosen.bound is not None
    assert float(chosen.bound) == pytest.approx(float(without.bound), rel=1e-6)
    left = SMOOTH(X) - SMOOTH(X, better) @ np.linalg.solve(SMOOTH(better), SMOOTH(better, X))
    assert chosen.trace == pytest.approx(np.trace(left), rel=1e-6)


def test_outputs_add_up() -> None:
    X, y = data(90)
    Y = np.stack([y, data(90, seed=5)[1]], axis=1)
    chosen = kdpp.select(SMOOTH, X, 35, "best", 2, y=Y, noise=NOISE)
    total = sum(gap(X, column, chosen, 1.0) for column in Y.T)
    assert chosen.bound is not None
    assert total <= float(chosen.bound)
    single = kdpp.select(SMOOTH, X, 35, "best", 2, y=y[:, None], noise=NOISE)
    assert float(single.bound) == float(kdpp.select(SMOOTH, X, 35, "best", 2, y=y, noise=NOISE).bound)


def test_the_law_is_settled_before_the_draws_by_the_lesser_bound() -> None:
    X, y = data(150)
    few = kdpp.select(SMOOTH, X, 15, "best", 0, y=y, noise=NOISE)
    assert "tilted" in few.law
    assert "N-tilt-given" in few.bound.claim  # type: ignore[union-attr]
    many = kdpp.select(SMOOTH, X, 110, "best", 0, y=y, noise=NOISE)
    assert float(many.bound) < float(few.bound)  # type: ignore[arg-type]


def test_equal_rows_are_never_kept_together() -> None:
    X, _ = data(12)
    X = np.repeat(X, 4, axis=0)
    kernel = Matern(0.5)
    y = np.sin(np.arange(48.0))
    for seed in range(5):
        chosen = kdpp.select(kernel, X, 12, "best", seed, y=y, noise=NOISE)
        assert len(np.unique(chosen.Z, axis=0)) == 12
        assert chosen.trace == 0.0
        assert chosen.bound is not None
        assert gap(X, y, chosen, 1.0, kernel) <= float(chosen.bound)
        assert float(chosen.bound) < 1e-9


def test_arguments_that_do_not_fit_are_refused() -> None:
    X, y = data(20)
    for options, message in (
        ({"method": "kdpp", "y": y}, "y: expected only with method 'best'"),
        ({"method": "greedy", "draws": 3}, "draws: expected only with method 'best'"),
        ({"method": "greedy", "candidates": [X]}, "candidates: expected only"),
        ({"y": y}, "expected both, or neither for the least trace, got only y"),
        ({"noise": 0.1}, "expected both, or neither for the least trace, got only noise"),
        ({"y": y[:-1], "noise": 0.1}, "y: expected shape"),
        ({"y": y, "noise": 0.1, "draws": 0}, "draws: expected a whole number >= 1"),
        ({"draws": "certain"}, "draws: expected a whole number without y, got 'certain'"),
        ({"y": y, "noise": 0.1, "draws": "sure"}, "draws: expected a whole number >= 1 .*, or 'certain', got 'sure'"),
        ({"y": y, "noise": 0.1, "draws": 3, "most": 9}, "most: expected only with draws='certain', got 9"),
        ({"y": y, "noise": 0.1, "draws": "certain", "most": 0}, "most: expected a whole number >= 1"),
        ({"method": "greedy", "most": 9}, "most: expected only with method 'best'"),
        ({"y": y, "noise": 0.1, "alpha": 0.0}, "alpha"),
        ({"y": y, "noise": -0.1}, "noise"),
        ({"y": y, "noise": 0.1, "delta": 1.0}, "delta"),
        ({"trace": 0.1}, "trace: expected None with method 'best'"),
        ({"M": 21}, "M: expected at most 20 points"),
    ):
        call: dict[str, Any] = {"M": 5, "method": "best", "rng": 0, **options}
        with pytest.raises(ValueError, match=message):
            kdpp.select(SMOOTH, X, **call)
    with pytest.raises(ValueError, match="or a seed, as 'best' is random"):
        kdpp.select(SMOOTH, X, 5, "best")
    with pytest.raises(ValueError, match="numerical rank"):
        kdpp.select(SquaredExponential(1.0, 100.0), X, 15, "best", 0)


def test_draws_alone_may_be_worse_than_the_points_of_other_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = data(200)
    both = kdpp.select(SMOOTH, X, 30, "best", 4, y=y, noise=NOISE, draws=1)
    monkeypatch.setattr(several_draws, "_pivoted", lambda problem, rng: [])
    alone = kdpp.select(SMOOTH, X, 30, "best", 4, y=y, noise=NOISE, draws=1)
    assert both.objective is not None
    assert alone.objective is not None
    assert both.objective > alone.objective
    assert "kept: draw 1 of 1" in alone.law


def test_draws_until_one_is_certain() -> None:
    X, y = data(150)
    for M in (30, 60):
        level = rate(SMOOTH, 150, M, 1.0, inputs=Empirical(X), noise=NOISE, y=y, draws="certain", rigor="float")
        chosen = kdpp.select(SMOOTH, X, M, "best", 5, y=y, noise=NOISE, draws="certain")
        assert chosen.bound is not None
        assert chosen.bound.confidence == 1.0
        assert chosen.bound.terms["level"] == pytest.approx(float(level), rel=1e-8)
        assert gap(X, y, chosen, 1.0) <= float(chosen.bound) <= gap(X, y, chosen, 1.0) + 1e-6
        assert float(chosen.bound) <= chosen.bound.terms["level"]
        again = kdpp.select(SMOOTH, X, M, "best", 5, y=y, noise=NOISE, draws="certain")
        assert (again.Z == chosen.Z).all()
    paid = kdpp.select(SMOOTH, X, 60, "best", 5, y=y, noise=NOISE, draws="certain", jitter=1e-5)
    assert paid.bound is not None
    assert paid.jitter == paid.bound.terms["jitter"] == 1e-5
    assert gap(X, y, paid, 1.0) <= float(paid.bound)
    assert float(paid.bound) > 2.0 * float(chosen.bound)


def test_draws_that_do_not_factorise_count_and_too_many_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = data(60)
    calls = []
    whole = DrawsProblem.without_jitter

    def fails_twice(self: DrawsProblem, Z: np.ndarray, order: float) -> Any:
        calls.append(Z)
        return None if len(calls) <= 2 else whole(self, Z, order)

    monkeypatch.setattr(DrawsProblem, "without_jitter", fails_twice)
    chosen = kdpp.select(SMOOTH, X, 20, "best", 0, y=y, noise=NOISE, draws="certain")
    assert chosen.bound is not None
    assert chosen.bound.terms["draws"] >= 3
    calls.clear()
    with pytest.raises(NotConverged, match="expected one of 2 draws to have a divergence proved to be at most"):
        kdpp.select(SMOOTH, X, 20, "best", 0, y=y, noise=NOISE, draws="certain", most=2)
    with pytest.raises(NotConverged, match="expected a level above the rounding error of log p"):
        kdpp.select(Matern(0.5), X, 60, "best", 0, y=y, noise=NOISE, draws="certain")


@pytest.mark.parametrize("alpha", [1.0, 0.5])
def test_large_data_are_drawn_until_a_bound_on_the_evidence_decides(
    monkeypatch: pytest.MonkeyPatch, alpha: float
) -> None:
    monkeypatch.setattr(several_draws, "DENSE", 100)
    X, y = data(250, D=1)
    chosen = kdpp.select(SMOOTH, X, 10, "best", 0, y=y, noise=NOISE, alpha=alpha, draws="certain")
    assert chosen.bound is not None
    assert "rank-r" in chosen.law
    assert "N-tv" in chosen.bound.claim
    assert gap(X, y, chosen, alpha) <= float(chosen.bound) <= chosen.bound.terms["level"] < np.inf
    rough = Matern(0.5)
    first = kdpp.select(rough, X, 40, "best", 0, y=y, noise=NOISE, rank=44, draws="certain")
    assert first.bound is not None
    assert first.bound.terms["level"] == np.inf
    assert "the first draw was accepted. Nothing is proved here" in first.bound.assumptions[0]
    assert gap(X, y, first, 1.0, rough) <= float(first.bound) < np.inf


@pytest.mark.parametrize("noise", [1e-3, 1e-8, 1e-12])
def test_where_doubles_do_not_decide_the_evidence_the_bound_is_no_contradiction(noise: float) -> None:
    """A constant of 1e6 variances: log p(y) takes 30 digits, the objective has no error below 1e-8."""
    X = np.random.default_rng(0).standard_normal((6, 1))
    y, kernel = np.sin(X[:, 0]), SquaredExponential() + Constant(1e6)
    chosen = kdpp.select(kernel, X, 3, "best", 0, y=y, noise=noise, draws=1)
    assert chosen.bound is not None
    lower = renyi.gap(kernel, X, y, chosen.Z, 1.0, noise=noise, jitter=chosen.jitter, rigor="sharp")[0]
    assert float(lower) <= float(chosen.bound)
    about = subject(kernel, X, y, X[:2], noise=noise)
    low, high = enough(about).evidence
    assert float(high) - float(low) < 1e-3


def test_a_refusal_states_the_confidence_asked_for() -> None:
    """A Nyström approximation of rank M is far from a rough kernel: nothing is proved, at the same confidence."""
    X, y = data(60, D=1)
    problem = DrawsProblem(Matern(0.5), X, np.arange(60), 20, y[:, None], NOISE, 1.0, delta=0.1)
    refused = several_draws.low_rank_source(problem, 20).before
    assert refused.value == np.inf
    assert refused.confidence == pytest.approx(0.9)
    assert "prove less than one draw" in refused.assumptions[0]


def test_a_trace_that_is_exactly_the_requested_one_is_reached() -> None:
    X, _ = data(40)
    chosen = kdpp.select(SMOOTH, X, 10)
    assert replace(chosen, requested=chosen.trace).reached
    assert not replace(chosen, requested=chosen.trace * (1.0 - 1e-12)).reached


@pytest.mark.parametrize("N", [6, 10, 15])
def test_fewer_rows_than_vectors_of_a_quadratic_form(N: int) -> None:
    """A factor of a given rank with fewer rows than the form has vectors: the bound holds for the points chosen."""
    points, targets = np.random.default_rng(N).standard_normal((2, N, 1))
    kernel = SquaredExponential(1.0, 1.0)
    chosen = kdpp.select(kernel, points, 2, "best", 0, y=targets[:, 0], noise=0.1, draws=3, rank=N)
    assert chosen.bound is not None
    divergence = renyi.gap(kernel, points, targets, chosen.Z, 1.0, noise=0.1, rigor="sharp")[0]
    assert 0.0 < float(divergence) <= float(chosen.bound) < 1e5
