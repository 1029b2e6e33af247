"""Ranks of random features and of truncations: guarantees, and messages about bad input."""

from __future__ import annotations

import json
import time
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpbounds import Empirical, Gaussian, Matern, SquaredExponential, Uniform
from gpbounds.kernels import Linear, Periodic
from gpbounds.lowrank import (
    HilbertFeatures,
    LeverageFourierFeatures,
    MercerFeatures,
    fourier_kl,
    fourier_rank,
    hilbert_kernel_error,
    hilbert_kl,
    hilbert_rank,
    kl_features,
    leverage_bound,
    leverage_density,
    mercer_kl,
    mercer_rank,
    residual_certificate,
)
from gpbounds.lowrank.truncation import mean_above

SE = SquaredExponential()
RULES = ("sharpest", "classical", "frobenius", "spectral", "printed")


# ---- random Fourier features


@given(
    ell=st.floats(0.05, 5.0),
    N=st.integers(100, 10**9),
    noise=st.floats(1e-3, 10.0),
    eps=st.floats(1e-4, 1.0),
    delta=st.floats(1e-6, 0.9),
    classical=st.booleans(),
)
def test_the_plan_is_the_least_number_of_frequencies(
    ell: float, N: int, noise: float, eps: float, delta: float, classical: bool
) -> None:
    kernel, rule = SquaredExponential(1.0, ell), "classical" if classical else "sharpest"
    plan = fourier_rank(kernel, N, target=eps * N, noise=noise, width=1.0, delta=delta, rule=rule)
    m = float(plan.notes[0].split()[0])
    if m < 1e5:  # notes print six digits
        features = "classical" if classical else "leverage"
        at = fourier_kl(kernel, N, [max(m - 1, 1), m], noise=noise, width=1.0, delta=delta, features=features).value
        assert at[1] <= eps * N
        assert m == 1 or at[0] > eps * N
        assert (plan.M is None) == (2 * m >= N)
        if plan.M is not None:
            assert plan.M == 2 * m
            assert float(plan.bound) == pytest.approx(at[1], rel=1e-12)
            assert plan.bound_before is None if m == 1 else float(plan.bound_before) > plan.target
    assert plan.target == eps * N


def test_a_plan_in_milliseconds_at_a_billion_data() -> None:
    fourier_rank(SE, 100, target=10.0, noise=1.0, width=1.0)  # SciPy is loaded
    for work in (
        lambda: fourier_rank(SquaredExponential(1.0, [1.0, 2.0, 0.5]), 10**9, 1e6, noise=0.1, width=[3, 2, 1]),
        lambda: mercer_rank(SquaredExponential(), 10**9, 1e3, inputs=Gaussian(1.0, 3), noise=0.1),
    ):
        start = time.process_time()
        work()
        assert time.process_time() - start < 0.5  # measured: 0.02


def test_the_promise_is_kept_by_the_features_that_it_names() -> None:
    rng = np.random.default_rng(0)
    kernel, noise, N, eps, delta = SquaredExponential(2.0, 0.5), 0.3, 600, 0.05, 0.1
    X = rng.random((N, 1)) * 1.5 + 7.0
    plan = fourier_rank(kernel, N, target=eps * N, noise=noise, width=1.5, delta=delta)
    if plan.M is None:
        pytest.fail(f"the plan needs more features than data: {plan.notes}")
    worst = 0.0
    for seed in range(5):
        features = LeverageFourierFeatures(kernel, plan.M, noise=noise, N=N, width=1.5, rng=seed)
        worst = max(worst, kl_features(kernel(X), features.fit(X)(X), noise=noise))
    assert worst <= eps * N


def test_the_bound_falls_with_m_and_rises_with_everything_else() -> None:
    m = np.unique(np.geomspace(1, 1e9, 200).round())
    values = fourier_kl(SE, 1000, m, noise=0.1, width=2.0).value
    assert np.isinf(values[0])
    assert (np.diff(values[np.isfinite(values)]) < 0).all()
    assert values[-1] < 1e-6
    base: dict[str, Any] = {"noise": 0.1, "width": 2.0, "delta": 0.1}
    plain = float(fourier_kl(SE, 1000, 1000, **base))
    for change in ({"noise": 0.01}, {"width": 10.0}, {"delta": 0.001}):
        assert float(fourier_kl(SE, 1000, 1000, **{**base, **change})) > plain
    assert float(fourier_kl(SE, 1000, 1000, effective_dimension=3.0, **base)) < plain


def test_scaling_of_inputs_and_outputs_changes_nothing() -> None:
    plan = fourier_rank(SquaredExponential(1.0, [1.0, 3.0]), 10**6, target=1e4, noise=0.1, width=[2.0, 5.0])
    same = fourier_rank(SquaredExponential(7.0, [10.0, 0.3]), 10**6, target=1e4, noise=0.7, width=[20.0, 0.5])
    assert plan.M == same.M
    single = fourier_rank(SquaredExponential(1.0, [2.0, 2.0]), 10**6, target=1e4, noise=0.1, width=4.0)
    assert single.M == fourier_rank(SquaredExponential(1.0, 2.0), 10**6, target=1e4, noise=0.1, width=[4.0, 4.0]).M


def test_rules_are_in_the_order_of_their_proofs() -> None:
    plans = {rule: fourier_rank(SE, 10**12, target=1e9, noise=1.0, width=6.0, rule=rule) for rule in RULES}
    sizes = {rule: plan.M or np.inf for rule, plan in plans.items()}
    assert sizes["sharpest"] < sizes["frobenius"] < sizes["spectral"] < sizes["printed"]
    assert sizes["sharpest"] < sizes["classical"]
    assert "false" in plans["printed"].notes[0]
    assert "L-26" in plans["printed"].bound.claim
    assert "L-28" in plans["frobenius"].bound.claim
    assert "L-27" in plans["spectral"].bound.claim


def test_matern_features_are_drawn_from_the_kernels_own_density() -> None:
    plan = fourier_rank(Matern(1.5), 200, target=200.0, noise=50.0)
    assert plan.M == fourier_rank(Matern(0.5), 200, target=200.0, noise=50.0, rule="classical").M
    assert plan.M is not None
    assert "L-29" in plan.bound.claim
    assert float(plan.bound.terms["density_mass"]) == 4.0


def test_no_rank_below_N_is_an_answer() -> None:
    plan = fourier_rank(SE, 50, target=5e-5, noise=1e-3, width=10.0)
    assert plan.M is None
    assert plan.bound is None
    assert plan.meaning == ()
    assert "No number of random Fourier features below N = 50" in str(plan)
    assert "random frequencies" in plan.notes[0]
    assert json.loads(json.dumps(plan.to_dict()))["M"] is None


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"target": 0.0}, "target: expected a positive"),
        ({"target": -1.0}, "target: expected a positive"),
        ({"target": [0.1, 0.2]}, "target: expected one number"),
        ({"target": 1e-200}, "target: expected at least 1e-100"),
        ({"delta": 0.0}, r"delta: expected a number in \(0, 1\)"),
        ({"delta": 1.0}, r"delta: expected a number in \(0, 1\)"),
        ({"width": 0.0}, "width: expected a positive"),
        ({"width": -1.0}, "width: expected a positive"),
        ({"width": None}, "width: expected the range of the inputs"),
        ({"width": [1.0, 2.0], "kernel": SquaredExponential(1.0, [1.0, 1.0, 1.0])}, "dimension"),
        ({"width": [[1.0]]}, "width: expected a number or one per dimension"),
        ({"noise": 0.0}, "noise: expected a positive"),
        ({"noise": 1e-300}, "noise: expected N·variance/noise <= 1e\\+100"),
        ({"noise": [1.0, 2.0]}, "noise: expected one number"),
        ({"N": 0}, "N: expected a whole number >= 1"),
        ({"N": 10.5}, "N: expected a whole number"),
        ({"rule": "best"}, "rule: expected one of"),
        ({"kernel": SE + SE}, "kernel: expected SquaredExponential, Matern or RationalQuadratic, got Sum"),
        ({"kernel": Periodic()}, "kernel: expected one with a density of frequencies, got Periodic"),
        ({"kernel": Matern(0.5), "rule": "printed"}, "kernel: expected SquaredExponential for rule='printed'"),
        ({"width": None, "rule": "printed"}, "width: expected the range"),
        ({"target": 500.0, "rule": "printed"}, "Theorem 2 expects target/N in"),
        ({"effective_dimension": 0.0}, "effective_dimension: expected a positive"),
    ],
)
def test_bad_input_to_fourier_rank(change: dict[str, Any], message: str) -> None:
    arguments: dict[str, Any] = {"kernel": SE, "N": 1000, "noise": 0.1, "target": 100.0, "width": 1.0, **change}
    kernel, N = arguments.pop("kernel"), arguments.pop("N")
    with pytest.raises(ValueError, match=message):
        fourier_rank(kernel, N, **arguments)


def test_bad_input_to_fourier_kl() -> None:
    with pytest.raises(ValueError, match="m: expected a whole number >= 1"):
        fourier_kl(SE, 10, [0, 1], noise=0.1, width=1.0)
    with pytest.raises(ValueError, match="features: expected one of 'leverage', 'classical'"):
        fourier_kl(SE, 10, 1, noise=0.1, width=1.0, features="fourier")


# ---- the density


@pytest.mark.parametrize("dim", [1, 2, 7, 50, 300])
@pytest.mark.parametrize("ratio", [1e-9, 1.0, 1e6, 1e100])
def test_the_density_in_every_dimension(dim: int, ratio: float) -> None:
    density = leverage_density(np.geomspace(1e-6, 10.0, dim), ratio)
    eta = density.sample(50, np.random.default_rng(0))
    assert eta.shape == (50, dim)
    assert np.isfinite(eta).all()
    assert 0.0 < density.total <= ratio * (1 + 1e-9)
    log_density = density.log_density(eta)
    bound = leverage_bound(eta, density.widths, ratio)
    assert (bound <= np.exp(log_density) * (1 + 1e-9)).all()
    assert np.isfinite(density.weights(eta)).all()


def test_draws_repeat_with_the_generator() -> None:
    density = leverage_density([1.0, 2.0], 1e4)
    first, again = (density.sample(20, np.random.default_rng(5)) for _ in range(2))
    assert (first == again).all()
    assert not (first == density.sample(20, np.random.default_rng(6))).any()


def test_the_centre_and_the_far_away_have_densities() -> None:
    for density in (leverage_density([1.0], 1e4), leverage_density([1e6], 2.0)):
        at = density.density([[0.0], [1.0], [1e3]])
        assert at[0] > 0.0
        assert at[2] == 0.0
        assert np.isneginf(density.log_density([[1e200]])[0]) or density.log_density([[1e100]])[0] < -1e100
    plain = leverage_density([1e6], 2.0)
    assert plain.log_heights.size == 0
    assert plain.total == 2.0
    assert plain.density([[0.0]])[0] == pytest.approx(2.0 / np.sqrt(2 * np.pi))
    assert plain.weights([[0.3]])[0] == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: leverage_density([0.0], 10.0), "widths: expected a positive"),
        (lambda: leverage_density([1e120], 10.0), "widths: expected at most"),
        (lambda: leverage_density([], 10.0), "widths: expected one per dimension"),
        (lambda: leverage_density([[1.0]], 10.0), "widths: expected one per dimension"),
        (lambda: leverage_density([1.0], 0.0), "ratio: expected a positive"),
        (lambda: leverage_density([1.0], [1.0, 2.0]), "ratio: expected one number"),
        (lambda: leverage_density([1.0], 1e101), "ratio: expected N"),
        (lambda: leverage_density([1.0], 10.0).density([[1.0, 2.0]]), "eta: expected 1 column"),
        (lambda: leverage_density([1.0], 10.0).sample(0, np.random.default_rng(0)), "m: expected a whole number"),
        (lambda: leverage_bound([[1.0, 2.0]], [1.0], 10.0), "eta: expected 1 column"),
    ],
)
def test_bad_input_to_the_density(call: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()


# ---- truncated Mercer expansions


@settings(max_examples=30)
@given(
    ell=st.floats(0.05, 3.0),
    N=st.integers(1, 400),
    noise=st.floats(1e-6, 10.0),
    eps=st.floats(1e-6, 10.0),
    delta=st.sampled_from([None, 1e-6, 0.05, 0.9]),
    form=st.sampled_from(["sharpest", "printed"]),
    inputs=st.sampled_from([Gaussian(), Gaussian([1.0, 0.3]), Uniform(0.0, 2.0)]),
)
def test_mercer_rank_is_the_least_by_brute_force(
    ell: float, N: int, noise: float, eps: float, delta: float | None, form: str, inputs: Any
) -> None:
    kernel = SquaredExponential(1.5, ell)
    values = mercer_kl(kernel, N, np.arange(N), inputs=inputs, noise=noise, delta=delta, form=form).value
    assert (np.diff(values) <= 1e-12 * values[:-1]).all()
    enough = np.flatnonzero(values <= eps * N)
    plan = mercer_rank(kernel, N, eps * N, inputs=inputs, noise=noise, delta=delta, form=form)
    assert plan.M == (int(enough[0]) if enough.size else None)
    if plan.M is not None:
        assert float(plan.bound) == pytest.approx(values[plan.M], rel=1e-12)
        assert plan.bound_before is None if plan.M == 0 else float(plan.bound_before) > plan.target


def test_mercer_kl_broadcasts_and_the_printed_form_is_larger() -> None:
    N, r, noise = np.array([10, 10**9])[:, None, None], np.arange(0, 30, 5)[:, None], [1e-6, 1.0, 1e6]
    for delta in (0.1, None):
        sharp = mercer_kl(SE, N, r, inputs=Gaussian(), noise=noise, delta=delta)
        printed = mercer_kl(SE, N, r, inputs=Gaussian(), noise=noise, delta=delta, form="printed")
        assert sharp.value.shape == printed.value.shape == (2, 6, 3)
        assert (sharp.value <= printed.value * (1 + 1e-9)).all()
        assert np.shape(sharp.confidence) == (2, 6, 3)


def test_mercer_kl_at_the_limits() -> None:
    far = mercer_kl(SE, 10**9, [0, 10**6, 2**52], inputs=Gaussian(), noise=1e-300, delta=1e-10).value
    assert far[0] == np.inf
    assert (far[1:] > 0.0).all()
    assert (mercer_kl(SE, 10, [0, 1000], inputs=Gaussian(), noise=1e300, delta=None).value > 0.0).all()
    # δ → 1: the deviations meet the mean.
    tail = float(mercer_kl(SE, 1000, 3, inputs=Gaussian(), noise=0.1, delta=0.5).terms["tail"])
    trace = float(mercer_kl(SE, 1000, 3, inputs=Gaussian(), noise=0.1, delta=1 - 1e-12).terms["trace"])
    assert trace == pytest.approx(1000 * tail, rel=1e-5)


def test_mercer_needs_a_law_and_a_spectrum() -> None:
    with pytest.raises(ValueError, match="got Empirical: for given data"):
        mercer_kl(SE, 3, 1, inputs=Empirical(np.zeros((3, 1))), noise=1.0)
    with pytest.raises(ValueError, match="no spectrum is known for Product"):
        mercer_rank(SE * SE, 10, 1.0, inputs=Gaussian(), noise=1.0)
    with pytest.raises(ValueError, match="kernel: expected one with a largest variance"):
        mercer_rank(SE + Linear(), 10, 1.0, inputs=Gaussian(), noise=1.0)
    for change, message in (
        ({"noise": -1.0}, "noise: expected a positive"),
        ({"delta": 2.0}, "delta: expected a number in"),
        ({"target": 0.0}, "target: expected a positive"),
        ({"target": [0.1, 0.2]}, "target: expected one number"),
        ({"noise": [0.1, 0.2]}, "noise: expected one number"),
        ({"form": "best"}, "form: expected one of"),
    ):
        with pytest.raises(ValueError, match=message):
            mercer_rank(SE, 10, inputs=Gaussian(), **{"noise": 0.1, "target": 1.0, **change})
    with pytest.raises(ValueError, match="rank: expected a whole number >= 0"):
        mercer_kl(SE, 10, -1, inputs=Gaussian(), noise=1.0)


def test_matern_kernels_have_ranks_and_none_is_an_answer() -> None:
    plan = mercer_rank(Matern(1.5), 10**6, 1e3, inputs=Uniform(0.0, 3.0), noise=0.1)
    assert plan.M is not None
    assert 10 < plan.M < 200
    assert not plan.bound.certified  # the roundings of these tails are not counted
    assert "is measured, not proved" in plan.bound.assumptions[-1]
    counted = mercer_rank(Matern(0.5), 10**6, 1e4, inputs=Uniform(0.0, 3.0), noise=0.1).bound
    assert counted.certified
    assert "measured" not in " ".join(counted.assumptions)
    assert mercer_rank(Matern(0.5), 20, 2e-5, inputs=Uniform(0.0, 30.0), noise=1e-3).M is None


def test_a_certificate_for_real_features() -> None:
    X = Gaussian().sample(300, np.random.default_rng(1))
    features = MercerFeatures(SE, 12, inputs=Gaussian()).fit(X)
    Xi = features(X)
    certificate = residual_certificate(features.residual_diagonal(X), noise=0.1, rounding=1e-13)
    assert (
        kl_features(SE(X), Xi, noise=0.1)
        <= float(certificate)
        <= float(mercer_kl(SE, 300, 12, inputs=Gaussian(), noise=0.1))
    )
    assert float(residual_certificate(2.0, noise=1.0)) == pytest.approx(0.5 * (2.0 - np.log(3.0)), rel=1e-10)
    assert float(residual_certificate(np.zeros(3), noise=1.0)) == 0.0
    assert float(residual_certificate([1e300, 1e300], noise=1e-300)) == np.inf


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([0.1, -1e-9], 1.0), "residual: expected numbers >= -rounding .* index 1: K - Sigma is not positive"),
        ((-0.5, 1.0), "residual: expected numbers >= -rounding"),
        (([], 1.0), r"residual: expected shape \(N,\)"),
        (([[0.1]], 1.0), r"residual: expected shape \(N,\)"),
        (([np.nan], 1.0), "residual: expected a finite number"),
        (([0.1], 0.0), "noise: expected a positive"),
        (([0.1], [1.0, 2.0]), "expected one number each"),
    ],
)
def test_bad_input_to_the_certificate(arguments: Any, message: str) -> None:
    residual, noise = arguments
    with pytest.raises(ValueError, match=message):
        residual_certificate(residual, noise=noise)


def test_rounding_is_declared_and_counted() -> None:
    with pytest.raises(ValueError, match="rounding"):
        residual_certificate([0.1, -1e-15], noise=1.0)
    assert float(residual_certificate([0.1, -1e-15], noise=1.0, rounding=1e-3)) > float(
        residual_certificate(0.101, noise=1.0)
    )


def test_deviations_say_what_they_expect() -> None:
    with pytest.raises(ValueError, match="mean: expected at most top"):
        mean_above(2.0, 1.0, 10, 0.1)
    assert float(mean_above(0.0, 1.0, 10, 0.1)) == 0.0
    assert float(mean_above(1.0, 1.0, 10, 0.1)) == 1.0


# ---- Hilbert-space GPs


def test_hilbert_bounds_fall_with_m_to_a_floor_that_c_sets():
    """brms: c = 5/4, rows one lengthscale to each side: no number of functions brings 1500 rows below 100 nats."""
    box = {"half_width": 1.0, "noise": 0.1}
    values = [float(hilbert_kl(SE, 1500, m, 1.25, **box)) for m in (5, 20, 300)]
    assert values[0] >= values[1] >= values[2] > 100.0
    x = np.linspace(-1.0, 1.0, 150)[:, None]
    Xi = HilbertFeatures(SE, 140, 1.25, half_width=1.0).fit(x)(x)
    assert kl_features(SE(x), Xi, noise=0.01) > 100.0
    assert float(hilbert_kl(SE, 1500, 6, 2.65, **box)) < 0.1


def test_hilbert_bounds_do_not_depend_on_units():
    first = hilbert_kl(SquaredExponential(3.0, [0.5, 2.0]), 500, [14, 9], [2.0, 3.0], half_width=[1.0, 2.0], noise=0.3)
    second = hilbert_kl(
        SquaredExponential(1.0, [5.0, 1.0]), 500, [14, 9], [2.0, 3.0], half_width=[10.0, 1.0], noise=0.1
    )
    assert float(first) == pytest.approx(float(second), rel=1e-9)
    few = hilbert_rank(Matern(2.5), 100, half_width=1.0, noise=0.1, target=1.0)
    many = hilbert_rank(Matern(2.5), 10_000, half_width=1.0, noise=0.1, target=1.0)
    assert few.rank < many.rank
    assert f"{many.rank} functions suffice for 1 nats" in str(many)


def test_hilbert_features_about_another_centre():
    x = np.linspace(3.0, 5.0, 9)[:, None]
    moved = HilbertFeatures(SE, 12, 3.0, half_width=1.0, centre=4.0).fit(x)(x)
    assert moved == pytest.approx(HilbertFeatures(SE, 12, 3.0, half_width=1.0).fit(x)(x - 4.0), abs=1e-12)
    assert moved @ moved.T == pytest.approx(SE(x), abs=float(hilbert_kernel_error(SE, 12, 3.0, half_width=1.0)))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kernel": Periodic()}, "kernel: expected SquaredExponential, or Matern with nu 0.5, 1.5 or 2.5"),
        ({"kernel": Matern(0.7)}, "kernel: expected SquaredExponential, or Matern with nu 0.5, 1.5 or 2.5"),
        ({"c": 1.0}, "c: expected numbers above 1"),
        ({"c": [2.0, 2.0]}, "c: expected a number or one for each of the 1 dimension"),
        ({"m": [3, 4]}, "m: expected a number or one for each of the 1 dimension"),
        ({"m": 0}, "m: expected"),
        ({"half_width": -1.0}, "half_width: expected"),
        ({"half_width": 1e-4}, "half_width: expected 0.01 to 1e6 lengthscales"),
        ({"noise": 0.0}, "noise: expected"),
        ({"rigor": "arbitrary"}, "rigor: expected"),
    ],
)
def test_hilbert_arguments_are_checked(change, message):
    right = {"kernel": SE, "N": 10, "m": 5, "c": 2.0, "half_width": 1.0, "noise": 0.1}
    with pytest.raises(ValueError, match=message):
        hilbert_kl(**right | change)


def test_hilbert_features_refuse_rows_outside():
    features = HilbertFeatures(SE, 5, 1.5, half_width=1.0).fit([0.0])
    with pytest.raises(ValueError, match="X: expected inputs within c·half_width"):
        features([1.6])
