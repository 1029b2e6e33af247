"""``rate``: monotonicity, limits, rounding, and error messages."""

from __future__ import annotations

import itertools
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gpbounds
from gpbounds import Empirical, Gaussian, Matern, SquaredExponential, Uniform, inducing_points, rate
from gpbounds.inputs import InputLaw
from gpbounds.kdpp import expected_trace
from gpbounds.kernels import Kernel, Linear
from gpbounds.rates.base import Numbers
from gpbounds.rates.one_draw import prior_tail
from gpbounds.rates.theorems import statement
from gpbounds.spectra import spectrum

SE = SquaredExponential()
BOX = Uniform([0.0, 0.0], [1.0, 1.0])


def test_everything_broadcasts_and_each_cell_is_the_scalar_call() -> None:
    N, M = np.array([50, 10**6])[:, None, None], np.array([3, 20])[:, None]
    alpha, delta = np.array([0.2, 0.7, 1.0]), np.array([0.01, 0.1, 0.5])
    for form, y_norm2 in itertools.product(("sharpest", "printed"), (None, 30.0)):
        grid = rate(SE, N, M, alpha, delta=delta, noise=0.2, y_norm2=y_norm2, tv=1e-9, form=form)
        assert np.shape(grid.confidence) == grid.value.shape == (2, 2, 3)
        for i, j, k in itertools.product(range(2), range(2), range(3)):
            single = rate(
                SE,
                int(N[i, 0, 0]),
                int(M[j, 0]),
                alpha[k],
                delta=delta[k],
                noise=0.2,
                y_norm2=y_norm2,
                tv=1e-9,
                form=form,
            )
            assert grid.value[i, j, k] == pytest.approx(float(single), rel=1e-13)
            assert grid.confidence[i, j, k] == single.confidence == 1 - delta[k]


def test_orders_on_both_sides_of_a_half_do_not_mix() -> None:
    """The tail of order 1 has a second form, which orders up to 1/2 do not need: in one array each keeps its own."""
    orders = np.array([0.3, 1.0])
    together = prior_tail(50.0, 5, 1e-3, orders, 0.05, 0.5)
    apart = [prior_tail(50.0, 5, 1e-3, order, 0.05, 0.5) for order in orders]
    np.testing.assert_allclose(together, apart, rtol=1e-14)


def test_blocks_change_nothing() -> None:
    N, M = np.arange(500, 1500)[:, None], np.arange(1, 301)
    grid = rate(SE, N, M, 0.7)
    rows = [0, 17, 999]
    assert (grid.value[rows] == rate(SE, N[rows], M, 0.7).value).all()


@given(
    ell=st.floats(0.1, 5),
    alpha=st.floats(0.01, 1.0),
    noise=st.floats(1e-3, 10),
    delta=st.floats(1e-3, 0.9),
    y_norm2=st.sampled_from([None, 1.0, 1e4]),
)
def test_monotone_in_everything_the_theorem_is_monotone_in(
    ell: float, alpha: float, noise: float, delta: float, y_norm2: float | None
) -> None:
    kernel = SquaredExponential(1.0, ell)

    def value(**change: object) -> float:
        arguments = {"noise": noise, "delta": delta, "y_norm2": y_norm2, "tv": 1e-3, **change}
        N, M = arguments.pop("N", 1000), arguments.pop("M", 10)
        return float(rate(arguments.pop("kernel", kernel), N, M, alpha, **arguments))  # type: ignore[arg-type]

    base = value() * (1 + 1e-12)
    assert value(delta=min(0.99, 1.1 * delta)) <= base  # a larger delta gives a smaller bound
    assert value(noise=2 * noise) <= base
    assert value(M=11) <= base
    assert value(tv=1e-4) <= base
    assert value(kernel=SquaredExponential(1.0, 1.5 * ell)) <= base  # smoother
    assert value(N=2000) >= base / (1 + 2e-12)


def test_direction_multiplies_by_the_factor() -> None:
    alpha = np.array([0.1, 0.5, 0.9])
    forward, backward = (rate(SE, 100, 5, alpha, direction=d).value for d in ("q||p", "p||q"))
    assert backward == pytest.approx(forward * np.array([9.0, 1.0, 9.0]), rel=1e-14)


@pytest.mark.parametrize("form", ["sharpest", "printed"])
@pytest.mark.parametrize("y_norm2", [None, 0.0, 1.0])
@pytest.mark.parametrize("noise", [0.1, 1e30, 1e300])
def test_underflowing_bound_stays_positive(noise: float, y_norm2: float | None, form: str) -> None:
    """t below 1e-300, and t/σ²: rounded up, never to 0."""
    bound = rate(SquaredExponential(1.0, 50.0), 10**6, 900, 0.5, noise=noise, y_norm2=y_norm2, form=form)
    assert np.finfo(float).tiny <= float(bound) < 1e-220


@pytest.mark.parametrize("form", ["sharpest", "printed"])
def test_what_an_approximate_sampler_adds_for_given_data(form: str) -> None:
    """(N − M)·v·tv, printed 2N·v·tv, v the largest variance at the data."""
    X, kernel = np.linspace(0.0, 2.0, 30), SquaredExponential(3.0, 0.2)
    plain, rough = (rate(kernel, 30, [4, 9], 0.5, inputs=Empirical(X), tv=tv, form=form) for tv in (0.0, 0.25))
    added = rough.terms["expected_trace"] - plain.terms["expected_trace"]
    assert added == pytest.approx(0.25 * 3.0 * (np.array([26, 21]) if form == "sharpest" else 60.0), rel=1e-12)


def test_data_aware_bound_uses_the_exact_expectation() -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 2))
    kernel = SquaredExponential(2.0, 1.5)
    bound = rate(kernel, 40, [3, 9, 20], 0.5, inputs=Empirical(X))
    values = np.maximum(np.linalg.eigvalsh(kernel(X))[::-1], 0)
    assert bound.terms["expected_trace"] == pytest.approx(expected_trace(values, np.array([3, 9, 20])), rel=1e-7)
    assert "conditional on X" in " ".join(bound.assumptions)
    printed = rate(kernel, 40, [3, 9, 20], 0.5, inputs=Empirical(X), form="printed")
    tails = np.array([values[m:].sum() for m in (3, 9, 20)])
    assert printed.terms["expected_trace"] == pytest.approx(np.array([4, 10, 21]) * tails, rel=1e-7)
    assert (bound.value <= printed.value).all()


@pytest.mark.parametrize("kernel", [SE * Matern(0.5), SE * Matern(1.5, 2.0), SE + SE * SE])
def test_products_of_the_same_columns_serve_data_and_are_refused_a_priori(kernel: Kernel) -> None:
    X = np.linspace(0, 1, 12)
    values = np.maximum(np.linalg.eigvalsh(kernel(X))[::-1], 0.0)  # the least may be below 0 by rounding
    assert rate(kernel, 12, 4, 1.0, inputs=Empirical(X)).terms["expected_trace"] == pytest.approx(
        float(expected_trace(values, 4)), rel=1e-7
    )
    with pytest.raises(ValueError, match="as its factors read the same columns"):
        rate(kernel, 12, 4, 1.0)


def test_all_inducing_points_that_duplicates_leave_make_the_bound_vanish() -> None:
    X = np.array([0.0, 0.0, 1.0, 1.0, 2.0, 3.0])  # four distinct rows
    assert float(rate(SE, 6, 4, 1.0, inputs=Empirical(X))) == 0.0
    with pytest.raises(ValueError, match="undefined"):
        rate(SE, 6, 5, 1.0, inputs=Empirical(X))


def test_printed_as_a_sentence_and_as_json() -> None:
    bound = rate(SE, 1000, 12, 0.5, y_norm2=1000.0, tv=1e-6)
    text = str(bound)
    for part in ("D_0.5[q*||p] <= ", "probability at least 0.95", "R-thm2", "R-cor1", "k-DPP", "squared norm"):
        assert part in text
    assert json.loads(json.dumps(bound.to_dict()))["value"] == float(bound)


def test_estimated_spectra_are_not_certified_and_say_so() -> None:
    estimate = rate(Matern(1.5), 1000, 12, 0.5)
    assert not estimate.certified
    assert "estimate" in " ".join(estimate.assumptions)
    assert rate(Matern(0.5), 1000, 12, 0.5, inputs=Uniform()).certified


@pytest.mark.parametrize(
    "kernel",
    [Matern(1.5), SquaredExponential(1.0, 0.05), Matern(1.5) + Matern(0.5)],
    ids=["Matérn", "wide box", "a part"],
)
def test_bounds_whose_roundings_are_not_counted_are_not_certified_and_say_so(kernel: Kernel) -> None:
    bound = rate(kernel, 1000, 12, 0.5, inputs=Uniform())
    assert not bound.certified
    assert "is measured, not proved; rigor='sharp' proves it" in bound.assumptions[-1]
    plan = inducing_points(kernel, 1000, 0.5, inputs=Uniform(), target=100.0)
    assert plan.bound is not None
    assert not plan.bound.certified
    assert "measured" not in " ".join(rate(SE, 1000, 12, 0.5).assumptions)


def test_eigenvalues_of_data_alone_are_not_certified_and_those_with_their_vectors_or_in_30_digits_are() -> None:
    rows = {"inputs": Empirical(np.random.default_rng(1).standard_normal(20)), "noise": 0.1}
    for form in ("sharpest", "printed"):
        usual, default, proved = (
            rate(SE, 20, [3, 5], 0.5, form=form, rigor=r, **rows) for r in ("float", "auto", "sharp")
        )
        assert not usual.certified
        assert "is measured, not proved; for given rows rigor='sharp' encloses them" in usual.assumptions[-1]
        for bound in (default, proved):
            assert bound.certified
            assert "measured" not in " ".join(bound.assumptions)
        assert (np.asarray(default) >= np.asarray(proved)).all()
    plans = [inducing_points(SE, 20, 0.5, target=1.0, rigor=rigor, **rows).bound for rigor in ("float", "sharp")]
    assert [bound is not None and bound.certified for bound in plans] == [False, True]
    simulated = rate(SE, 20, 5, 0.5, simulate=39, rng=0)
    assert not simulated.certified
    assert sum("is measured, not proved" in sentence for sentence in simulated.assumptions) == 1
    words = {rigor: spectrum(SE, inputs=rows["inputs"], rigor=rigor).certified for rigor in ("auto", "float", "sharp")}
    assert words == {"auto": True, "float": False, "sharp": True}


def test_bounds_on_boxes_are_certified_where_roundings_are_enclosed_or_domination_alone_is_used() -> None:
    assert rate(SquaredExponential(1.0, [0.1, 0.7]), 1000, 12, 0.5, inputs=BOX).certified
    printed = rate(SquaredExponential(1.0, 0.05), 1000, 12, 0.5, inputs=Uniform(), form="printed")
    assert printed.certified
    assert "measured" not in " ".join(printed.assumptions)
    assert rate(SquaredExponential(1.0, 0.01), 1000, 12, 0.5, inputs=Uniform()).certified  # too wide for Ritz values


@pytest.mark.broad
@pytest.mark.parametrize(
    ("kernel", "inputs"),
    [
        (SquaredExponential(1.0, [0.3, 0.7]), Gaussian(dim=2)),
        (SquaredExponential(1.0, 0.3), Gaussian(cov=[[1.0, 0.5], [0.5, 1.0]])),
        (Matern(1.5).on([0]) * Matern(0.5, 1.0, 0.3).on([1]), BOX),
        (SquaredExponential(1.0, 0.1) + Linear(2.0), Gaussian()),
        (SquaredExponential(1.0, 0.01), Uniform()),
        (SquaredExponential(1.0, 0.1), Uniform()),
    ],
    ids=["ordered", "rotated", "product", "sum", "dominated", "Ritz"],
)
@pytest.mark.parametrize("longest", [3000, pytest.param(50_000, marks=pytest.mark.slow)])
def test_a_value_depends_neither_on_other_values_nor_on_earlier_calls(
    kernel: Kernel, inputs: InputLaw, longest: int
) -> None:
    """Longer orders of eigenvalues change neither the value for a smaller M nor the allowance for its rounding."""
    N, M = 10**6, [10, 100]
    stated = statement(kernel, np.asarray(float(N)), Numbers.checked(1.0, 0.1, 0.05, None, 0.0, "q||p"), inputs=inputs)
    before = stated.bound(np.array(M, dtype=np.float64))
    stated.bound(np.asarray(float(longest)))
    after = stated.bound(np.array([*M, float(longest)]))
    assert after.value[:2].tolist() == before.value.tolist()
    assert [float(rate(kernel, N, m, 1.0, inputs=inputs)) for m in M] == before.value.tolist()


BAD = [
    ({"alpha": 0.0}, "alpha: expected a number in"),
    ({"alpha": 1.5}, "alpha"),
    ({"alpha": float("nan")}, "alpha"),
    ({"alpha": [0.5, -1.0]}, r"alpha.*-1.0 at index \(1,\)"),
    ({"noise": 0.0}, "noise: expected a positive"),
    ({"noise": float("inf")}, "noise"),
    ({"delta": 0.0}, "delta"),
    ({"delta": 1.0}, "delta"),
    ({"tv": -0.1}, "tv"),
    ({"tv": 1.1}, "tv"),
    ({"y_norm2": -1.0}, "y_norm2"),
    ({"N": float("nan")}, "N: expected a whole number"),
    ({"N": 10.5}, "N"),
    ({"N": -3}, "N"),
    ({"N": "many"}, "N"),
    ({"M": 0}, "M"),
    ({"M": 2.5}, "M"),
    ({"M": 100}, "M: expected 1 <= M <= N - 1, got M = 100, N = 100"),
    ({"M": [5, 99, 300]}, r"got M = 300, N = 100 at index \(2,\)"),
    ({"form": "best"}, "form: expected one of 'sharpest', 'printed', got 'best'"),
    ({"direction": "p||q", "alpha": 1.0}, "alpha < 1"),
    ({"direction": "both"}, "direction"),
    ({"inputs": Gaussian(1.0, 3), "kernel": SquaredExponential(1.0, [1.0, 2.0])}, "2 dimension"),
    ({"inputs": Uniform([0, 0], [1, 1]), "kernel": SquaredExponential(1.0, [1.0, 2.0, 3.0])}, "3 dimension"),
    ({"inputs": Gaussian(1.0, 4), "kernel": Matern(1.5)}, "in 4 dimensions, where .* simulate=39"),
    ({"inputs": "gaussian"}, "inputs: expected Gaussian, Uniform or Empirical, got str"),
    ({"kernel": "rbf"}, "kernel: expected a kernel of gpbounds"),
    ({"inputs": Empirical(np.arange(7.0))}, "N: expected the number of rows of X, 7"),
]


@pytest.mark.parametrize(("change", "message"), BAD)
def test_bad_input(change: dict[str, object], message: str) -> None:
    arguments = {"kernel": SE, "N": 100, "M": 5, "alpha": 0.5, **change}
    with pytest.raises(ValueError, match=message):
        rate(**arguments)  # type: ignore[arg-type]


def test_grid_is_symmetric_in_how_it_is_asked() -> None:
    column = gpbounds.rate(SE, [[100], [1000]], [4, 8], 0.5).value
    row = gpbounds.rate(SE, [100, 1000], [[4], [8]], 0.5).value
    assert (column == row.T).all()
