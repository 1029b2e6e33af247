"""``inducing_points`` and the corollaries: the least M, its meaning, and error messages."""

from __future__ import annotations

import json
import re

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm

from gpbounds import Empirical, Gaussian, Matern, SquaredExponential, Uniform, inducing_points, rate
from gpbounds.inputs import InputLaw
from gpbounds.kernels import Kernel
from gpbounds.numerics.search import last_above
from gpbounds.rates.base import sentences, total_variation
from gpbounds.rates.corollaries import matern_corollary, smooth_corollary

SE = SquaredExponential()


@given(
    ell=st.floats(0.05, 3),
    N=st.integers(2, 300),
    alpha=st.sampled_from([0.3, 0.5, 1.0]),
    target=st.floats(1e-6, 1e3),
    form=st.sampled_from(["sharpest", "printed"]),
    y_norm2=st.sampled_from([None, 100.0]),
    tv=st.sampled_from([0.0, 1e-6]),
    dim=st.sampled_from([1, 3]),
)
def test_plan_is_the_least_M_by_brute_force(
    ell: float, N: int, alpha: float, target: float, form: str, y_norm2: float | None, tv: float, dim: int
) -> None:
    kernel, arguments = SquaredExponential(1.0, ell), {"inputs": Gaussian(1.0, dim), "y_norm2": y_norm2, "tv": tv}
    values = rate(kernel, N, np.arange(1, N), alpha, form=form, **arguments).value
    above = np.flatnonzero(values > target)
    expected = int(above[-1]) + 2 if above.size else 1
    plan = inducing_points(kernel, N, alpha, target=target, form=form, **arguments)
    assert plan.M == (expected if expected < N else None)
    if plan.M is not None:
        assert float(plan.bound) == values[plan.M - 1] <= target
        assert plan.bound_before is None if plan.M == 1 else float(plan.bound_before) > target


@pytest.mark.parametrize(
    ("kernel", "inputs", "target"),
    [
        (SE, Gaussian(), 1.0),
        pytest.param(SquaredExponential(1.0, [3.0, 8.0, 20.0]), Gaussian(1.0, 3), 1.0, marks=pytest.mark.slow),
        pytest.param(SquaredExponential(1.0, 0.5), Uniform(), 1.0, marks=pytest.mark.slow),
        (SquaredExponential(1.0, [0.5, 2.0]), Uniform([0, 0], [1, 1]), 1.0),
        (Matern(0.5), Uniform(), 1000.0),
        (Matern(1.5), Uniform(), 1.0),
        pytest.param(Matern(2.5, 2.0, 0.3), Uniform(-1, 1), 1.0, marks=pytest.mark.slow),
    ],
)
def test_a_billion_points(kernel: Kernel, inputs: InputLaw, target: float) -> None:
    plan = inducing_points(kernel, 10**9, 1.0, target=target, inputs=inputs)
    assert plan.M is not None
    assert plan.bound_before is not None
    assert float(plan.bound) <= target < float(plan.bound_before)
    assert rate(kernel, 10**9, plan.M, 1.0, inputs=inputs).value == float(plan.bound)


def test_nothing_suffices_is_an_answer() -> None:
    plan = inducing_points(SquaredExponential(1.0, 1e-3), 50, 0.5, target=1e-3)
    assert (plan.M, plan.bound, plan.bound_before, plan.cost) == (None, None, None, None)
    assert "No number of inducing points below N = 50" in str(plan)


def test_printed_form_need_not_decrease_and_the_plan_knows() -> None:
    # (M + 1)·B^M first increases: the bound is below this target at M = 1, then above it, and below it from some M on.
    kernel = SquaredExponential(1.0, 0.05)
    values = rate(kernel, 400, np.arange(1, 400), 1.0, form="printed").value
    assert values[5] > values[0]
    target = 0.5 * (values[0] + values.max())
    plan = inducing_points(kernel, 400, 1.0, target=target, form="printed")
    assert plan.M is not None
    assert values[0] <= target
    assert plan.M > 1
    assert (values[plan.M - 1 :] <= target).all()
    assert values[plan.M - 2] > target


@given(seed=st.integers(0, 10**6), n=st.integers(1, 400), target=st.floats(0, 1))
def test_last_above_with_a_loose_majorant(seed: int, n: int, target: float) -> None:
    values = np.random.default_rng(seed).random(n + 1)

    def majorant(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return np.array([values[int(i) : int(j) + 1].max() for i, j in zip(a, b, strict=True)])

    above = np.flatnonzero(values[1:] > target) + 1
    assert last_above(majorant, 1, n, target) == (int(above[-1]) if above.size else None)


def test_data_aware_plan_and_what_any_choice_needs() -> None:
    rng = np.random.default_rng(1)
    X = rng.standard_normal((80, 1))
    kernel = SquaredExponential(1.0, 0.7)
    plan = inducing_points(kernel, 80, 1.0, target=0.5, inputs=Empirical(X), noise=0.01, y_norm2=80.0)
    assert plan.M is not None
    assert plan.needed is not None
    assert 1 <= plan.needed <= plan.M
    # N-low by hand: Σ_i G(λ_{M+i}/σ²) with G at α = 1 exceeds the target for M below ``needed`` only.
    d = np.maximum(np.linalg.eigvalsh(kernel(X))[::-1], 0) / 0.01
    lower = [0.5 * (d[m:] - np.log1p(d[m:])).sum() for m in range(1, 80)]
    assert lower[plan.needed - 1] <= 0.5
    assert plan.needed == 1 or lower[plan.needed - 2] > 0.5
    assert inducing_points(kernel, 80, 1.0, target=0.5, noise=0.01).needed is None


def test_duplicated_rows_end_the_search_at_the_rank() -> None:
    X = np.repeat(np.linspace(0, 1, 6), 3)
    plan = inducing_points(SquaredExponential(1.0, 0.05), 18, 0.5, target=1e-9, inputs=Empirical(X))
    assert plan.M == 6
    assert float(plan.bound) == 0.0


@given(gamma=st.floats(1e-9, 20), alpha=st.floats(0.02, 1.0), shift=st.floats(0, 5))
def test_total_variation_holds_for_two_gaussians(gamma: float, alpha: float, shift: float) -> None:
    # Equal variances: D_α = α·shift²/2 and TV = 2Φ(shift/2) - 1 are exact.
    exact = 2 * norm.cdf(shift / 2) - 1
    assert exact <= total_variation(alpha * shift**2 / 2, alpha) + 1e-12
    assert 0 <= total_variation(gamma, alpha) <= 1


@given(gamma=st.floats(-12, 2).map(lambda e: 10.0**e), alpha=st.floats(0.02, 1.0))
def test_total_variation_is_the_lesser_of_its_two_bounds(gamma: float, alpha: float) -> None:
    with mp.workdps(50):
        g, a = mp.mpf(gamma), mp.mpf(alpha)
        hellinger = mp.sqrt(-mp.expm1(-max(1, (1 - a) / a) * g))
        assert float(abs(total_variation(gamma, alpha) / min(mp.sqrt(g / (2 * a)), hellinger) - 1)) < 1e-14


@given(gamma=st.floats(-6, 2).map(lambda e: 10.0**e), alpha=st.sampled_from([0.3, 1.0]))
def test_the_meaning_of_a_bound_is_rounded_outwards(gamma: float, alpha: float) -> None:
    """Every printed number has three digits and is rounded outwards."""
    tv, *rest = sentences(gamma, alpha)
    with mp.workdps(30):
        stated = mp.mpf(re.findall(r"off by at most (\S+) ", tv)[0])
        assert total_variation(gamma, alpha) <= stated <= total_variation(gamma, alpha) * 1.01
        if alpha == 1.0:
            shift = mp.mpf(re.findall(r"within (\S+) posterior", rest[0])[0])
            assert mp.sqrt(2 * mp.mpf(gamma)) * (1 - mp.mpf(2) ** -52) <= shift <= mp.sqrt(2 * mp.mpf(gamma)) * 1.01
            low, high = map(mp.mpf, re.findall(r"between (\S+) and (\S+) times", rest[0])[0])
            # x - 1 - log x equals 2γ at both roots and is larger outside
            assert low < 1 < high
            assert min(x - 1 - mp.log(x) for x in (low, high)) > 2 * mp.mpf(gamma) * (1 - mp.mpf(2) ** -50)
            for inner in (min(low * 1.011, 1), max(high / 1.011, 1)):
                assert inner - 1 - mp.log(inner) < 2 * mp.mpf(gamma)


def test_the_plan_prints_meaning_and_cost() -> None:
    plan = inducing_points(SE, 10**5, 1.0, target=0.02)
    text = str(plan)
    assert "0.1 (total variation)" in text
    assert "0.2 posterior standard deviations" in text
    assert plan.cost is not None
    assert plan.cost.flops == pytest.approx(4 * 1e5 * plan.M**2, rel=1e-2)
    assert json.loads(json.dumps(plan.to_dict()))["M"] == plan.M


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"target": 0.0}, "target: expected a positive"),
        ({"target": float("nan")}, "target"),
        ({"N": 1}, "N: expected a whole number >= 2"),
        ({"N": [10, 20]}, "N: expected one whole number"),
        ({"alpha": [0.5, 1.0]}, "alpha: expected one number"),
        ({"noise": -1.0}, "noise"),
        ({"inputs": Empirical(np.arange(9.0))}, "N: expected the number of rows of X, 9"),
    ],
)
def test_bad_input(change: dict[str, object], message: str) -> None:
    arguments = {"kernel": SE, "N": 100, "alpha": 0.5, "target": 0.1, **change}
    with pytest.raises(ValueError, match=message):
        inducing_points(**arguments)  # type: ignore[arg-type]


def test_corollaries_refuse_what_they_cannot_say() -> None:
    with pytest.raises(ValueError, match="M <= N - 1"):
        smooth_corollary(SquaredExponential(1.0, 0.01), 50, 0.5)
    with pytest.raises(ValueError, match="one dimension"):
        smooth_corollary(SE, 50, 0.5, inputs=Gaussian(1.0, 2))
    with pytest.raises(ValueError, match="vacuous"):
        matern_corollary(1, 1000, 0.5, constant=1.0, gamma=1.0)
    with pytest.raises(ValueError, match="vacuous"):
        matern_corollary(1, 10**6, 0.5, constant=1.0, gamma=0.1, form="printed")


@pytest.mark.slow
def test_progress_counts_sets_or_numbers_tried_and_changes_no_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    counts = []

    class Bar:
        def __init__(self, *, total: int | None, **_: str | bool) -> None:
            self.total, self.done = total, 0

        def __enter__(self) -> Bar:
            return self

        def __exit__(self, *_: object) -> None:
            counts.append((self.done, self.total))

        def update(self) -> None:
            self.done += 1

    monkeypatch.setattr("tqdm.auto.tqdm", Bar)
    X = np.linspace(0.0, 9.0, 20)
    calls = [
        ({"inputs": Empirical(X), "y": np.sin(X), "draws": 10}, None),
        ({"inputs": Uniform(), "simulate": 39, "rng": 0, "draws": 10}, 39),
        ({"inputs": Uniform(), "draws": 10}, None),
    ]
    for arguments, total in calls:
        plans = [
            inducing_points(SE, 20, 1.0, target=1.0, noise=0.1, progress=progress, **arguments)
            for progress in (False, True)
        ]
        assert plans[0].to_dict() == plans[1].to_dict()
        ((done, stated),) = counts  # a bar that is not shown is none of tqdm
        counts.clear()
        assert stated == total
        assert done == total if total else 3 <= done <= 12
