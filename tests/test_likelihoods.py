"""Likelihoods: densities and derivatives, also in the tails; arguments, records, ranges."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpbounds.errors import NonFinite
from gpbounds.likelihoods import Bernoulli, Gaussian, Poisson, StudentT, from_dict
from gpbounds.reference import likelihoods as reference

ALL = [
    Gaussian(0.3),
    Bernoulli("probit"),
    Bernoulli("logit"),
    Poisson("exp"),
    Poisson("softplus"),
    StudentT(2.5, 0.7),
]
every = pytest.mark.parametrize("model", ALL, ids=str)


def exact(model):
    if isinstance(model, Gaussian):
        return reference.gaussian(mp.mpf(model.noise))
    if isinstance(model, StudentT):
        return reference.student_t(mp.mpf(model.df), mp.mpf(model.scale))
    return reference.bernoulli(model.link) if isinstance(model, Bernoulli) else reference.poisson(model.link)


def some_y(model, rng):
    if isinstance(model, Bernoulli):
        return float(rng.choice([-1.0, 1.0]))
    if isinstance(model, Poisson):
        return float(rng.integers(0, 4) if rng.uniform() < 0.6 else np.floor(10.0 ** rng.uniform(0, 6)))
    return float(5.0 * rng.standard_normal())


@every
@given(seed=st.integers(0, 10**6), reach=st.sampled_from([1.0, 10.0, 100.0, 600.0]))
def test_log_density_and_its_derivatives_keep_their_digits(model, seed, reach):
    rng = np.random.default_rng(seed)
    y, f = some_y(model, rng), float(rng.uniform(-reach, reach))
    if isinstance(model, Poisson) and model.link == "exp":
        f = min(f, 100.0)
    density = exact(model)
    target = int(y) if not isinstance(model, Gaussian | StudentT) else mp.mpf(y)
    with mp.workdps(40 + int(abs(f)) // 2):
        truth = density(target, mp.mpf(f))
        log_density = model.log_density(y, f)
        size = max(abs(truth), y if isinstance(model, Poisson) else 0)
        assert abs(log_density - truth) <= 3e-13 * size + mp.mpf("1e-300")  # rounding of f²/2 up to 38²/2, in probit
        if reach <= 100.0:
            true = reference.derivatives(density, target, f)
            g = float(reference.rate(mp.mpf(f), model.link)) if isinstance(model, Poisson) else 0.0
            allowed = 1e-10 if isinstance(model, Poisson | StudentT) else 2e-11
            for got, t in zip(model.derivatives(y, f), true, strict=True):
                # a difference such as y − g is accurate to a few roundings of its terms
                assert (
                    abs(got - t) <= allowed * abs(t) + 1e-15 * (y + g if isinstance(model, Poisson) else 0.0) + 1e-100
                )


@pytest.mark.parametrize("df", [0.1, 1.0, 59.9, 60.1, 1e3, 1e8])
def test_derivatives_of_student_t_in_its_parameters(df):
    """In log ν and log σ against mpmath, at the target, near it, far from it, and where squares overflow."""
    model, y = StudentT(df, 0.3), 0.7
    f = np.array([0.7, 0.70001, 1.5, -40.0, 1e9])
    computed = model.parameter_derivatives(y, f)
    with mp.workdps(60):
        for k in range(2):
            for point, value in zip(f, computed[k], strict=True):

                def along(t, k=k, point=point):
                    scales = [mp.mpf(number) * mp.exp(t if j == k else 0) for j, number in enumerate((df, 0.3))]
                    return reference.student_t(*scales)(mp.mpf(y), mp.mpf(float(point)))

                size = 1.0 if k else min(1.0 / df, 1.0) + (((y - point) / 0.3) ** 2 < df) * ((y - point) / 0.3) ** 2
                assert value == pytest.approx(float(mp.diff(along, 0)), rel=1e-10, abs=1e-14 * size)
    np.testing.assert_allclose(model.parameter_derivatives(y, -1e200)[1], df, rtol=1e-14)


@every
def test_nothing_overflows_far_out(model):
    f = np.array([-1e4, -800.0, 800.0, 1e4])
    y = 1.0
    with mp.workdps(50):
        for point, value in zip(f, model.log_density(y, f), strict=True):
            if isinstance(model, Bernoulli) and point > 0:
                assert -1e-300 <= value <= 0.0
            elif isinstance(model, Poisson) and model.link == "exp" and point > 700:
                assert value == -np.inf  # e^800 exceeds the largest double
            else:
                target = mp.mpf(1) if isinstance(model, Gaussian | StudentT) else 1
                assert abs(value / exact(model)(target, mp.mpf(point)) - 1) < 1e-13
    assert not np.isnan(model.density_derivatives(y, f)).any()
    assert not np.isnan(model.derivatives(y, f)).any()
    assert (model.density(y, f) >= 0.0).all()
    assert all(np.isfinite(part).all() for part in model.density_derivatives(y, f))


@every
def test_density_derivatives_are_derivatives(model):
    f = np.linspace(-3.0, 4.0, 29)
    y, h = 1.0, 1e-5
    value, first, second = model.density_derivatives(y, f)
    np.testing.assert_allclose(value, np.exp(model.log_density(y, f)), rtol=1e-14)
    up, down = model.density_derivatives(y, f + h), model.density_derivatives(y, f - h)
    np.testing.assert_allclose(first, (up[0] - down[0]) / (2 * h), atol=1e-8)
    np.testing.assert_allclose(second, (up[1] - down[1]) / (2 * h), atol=1e-8)


@pytest.mark.parametrize(
    "model", [Bernoulli("probit"), Bernoulli("logit"), Poisson("exp"), Poisson("softplus")], ids=str
)
def test_probabilities_of_all_targets_add_up(model):
    y = np.arange(400) if isinstance(model, Poisson) else np.array([0, 1])
    f = np.linspace(-5.0, 4.5, 20)
    np.testing.assert_allclose(model.density(y[:, None], f).sum(axis=0), 1.0, rtol=1e-12)
    m, v = f, np.geomspace(1e-3, 0.3, 20)
    total = np.exp(model.log_expected_density(y[:, None], m, v)).sum(axis=0)
    np.testing.assert_allclose(total[m < 3.0], 1.0, rtol=1e-10)


@pytest.mark.parametrize("model", [Gaussian(0.3), StudentT(2.5, 0.7), StudentT(1e9, 0.7)], ids=str)
def test_densities_have_mass_one(model):
    u = np.linspace(-30.0, 30.0, 60001)
    mass = (model.density(np.sinh(u), 0.2) * np.cosh(u)).sum() * (u[1] - u[0])
    assert abs(mass - 1.0) < 1e-9


def test_student_tends_to_gauss():
    f = np.linspace(-3.0, 3.0, 7)
    for mean in ("log_expected_density", "expected_log_density"):
        wide = getattr(StudentT(1e10, 0.7), mean)(0.5, f, 0.4, gradient=True)
        for a, b in zip(wide, getattr(Gaussian(0.49), mean)(0.5, f, 0.4, gradient=True), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-8)


# --- arguments ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bad", [0.0, -1.0, np.nan, np.inf, "a", [1.0, 2.0]])
@pytest.mark.parametrize("make", [Gaussian, lambda p: StudentT(p, 1.0), lambda p: StudentT(1.0, p)])
def test_parameters_must_be_one_positive_number(make, bad):
    with pytest.raises(ValueError, match="expected"):
        make(bad)


@pytest.mark.parametrize("make", [Bernoulli, Poisson])
def test_links_are_words_that_exist(make):
    with pytest.raises(ValueError, match="link: expected one of"):
        make("cauchit")


@pytest.mark.parametrize("bad", [-1, 0.5, 2.0**53, [1, -2], 1e300])
def test_a_count_is_a_count(bad):
    for model in (Poisson("exp"), Poisson("softplus")):
        for call in (lambda y, m=model: m.log_density(y, 0.0), model.derivative_range):
            with pytest.raises(ValueError, match="y: expected counts"):
                call(bad)


@pytest.mark.parametrize(
    ("bad", "why"), [(2, "labels"), (0.5, "labels"), ([0, -1], "together"), ([1, 0, -1], "together")]
)
def test_a_label_is_a_label(bad, why):
    for link in ("probit", "logit"):
        with pytest.raises(ValueError, match=why):
            Bernoulli(link).log_expected_density(bad, 0.0, 1.0)


def test_both_conventions_of_labels_mean_the_same():
    model = Bernoulli("logit")
    np.testing.assert_array_equal(model.log_density([0, 1], 0.7), model.log_density([-1, 1], 0.7))
    np.testing.assert_array_equal(model.log_density(np.array([False, True]), 0.7), model.log_density([-1, 1], 0.7))


@every
def test_wrong_arguments_are_answered(model):
    for mean in (model.log_expected_density, model.expected_log_density):
        with pytest.raises(ValueError, match=r"v: expected variances >= 0, got -0\.5"):
            mean(1, 0.0, [1.0, -0.5])
        with pytest.raises(NonFinite, match="m: expected numbers, got NaN"):
            mean(1, np.nan, 1.0)
        with pytest.raises(NonFinite, match="v: expected finite"):
            mean(1, 0.0, np.inf)
        with pytest.raises(ValueError, match="broadcast"):
            mean([1, 1], [0.0, 0.0, 0.0], 1.0)
        with pytest.raises(ValueError, match="m: expected"):
            mean(1, "zero", 1.0)
    with pytest.raises(NonFinite, match="y: expected numbers, got NaN"):
        model.log_density(np.nan, 0.0)
    with pytest.raises(NonFinite, match="f: expected finite"):
        model.log_density(1, [0.0, np.inf])
    with pytest.raises(ValueError, match="real numbers"):
        model.log_density(1, 1j)
    with pytest.raises(ValueError, match="form: expected one of"):
        model.derivative_range(1, form="exact")


@every
def test_shapes_broadcast(model):
    y, m, v = np.ones((2, 1, 1)), np.linspace(-1, 1, 3)[:, None], np.geomspace(0.1, 10, 4)
    whole = model.log_expected_density(y, m, v, gradient=True)
    assert [part.shape for part in whole] == [(2, 3, 4)] * 3
    single = model.log_expected_density(1, float(m[2, 0]), float(v[1]), gradient=True)
    np.testing.assert_allclose([part[1, 2, 1] for part in whole], single, rtol=1e-11)
    assert model.expected_log_density(np.ones(0), np.ones(0), 1.0).shape == (0,)
    assert np.ndim(single[0]) == 0
    assert model.log_density(np.ones((2, 1)), np.zeros(3)).shape == (2, 3)


@every
def test_frozen_saved_and_read_back(model):
    assert from_dict(json.loads(json.dumps(model.to_dict()))) == model
    assert model.to_dict()["name"] == model.name
    with pytest.raises(dataclasses.FrozenInstanceError):
        model.name = "other"
    assert hash(model) == hash(from_dict(model.to_dict()))


@pytest.mark.parametrize("record", [{}, {"name": "laplace"}, {"name": "gaussian"}, {"name": "poisson", "noise": 1}, 3])
def test_a_record_that_describes_nothing_is_refused(record):
    with pytest.raises(ValueError, match=r"expected a record|name: expected one of|expected its parameters"):
        from_dict(record)


def test_nothing_heavy_is_imported_to_state_a_likelihood():
    program = "import sys, gpbounds; gpbounds.likelihoods.StudentT(3.0, 1.0); print(*sys.modules)"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert not {"scipy", "cupy", "mpmath"} & set(ran.stdout.split())


# --- ranges -------------------------------------------------------------------------------------------------------


@every
def test_ranges_have_the_shape_of_y(model):
    y = np.array([[1.0, 1.0, 1.0]])
    for form, repaired in (("sharpest", False), ("printed", True), ("printed", False)):
        ranges = model.derivative_range(y, form, repaired=repaired)
        assert (ranges.form, ranges.repaired) == (form, repaired)
        for low, high in (ranges.density, ranges.first, ranges.second):
            assert low.shape == high.shape == (1, 3)
            assert (low < high).all()
        low, high = model.derivative_range(1, form, repaired=repaired).first
        assert isinstance(low, float)
        assert isinstance(high, float)
        assert form in str(ranges)


def test_ranges_of_many_counts_are_those_of_each():
    counts = np.random.default_rng(0).integers(0, 40, (20, 5))
    for link in ("exp", "softplus"):
        whole = Poisson(link).derivative_range(counts)
        for index in ((0, 0), (7, 3), (19, 4)):
            single = Poisson(link).derivative_range(int(counts[index]))
            for a, b in ((whole.first, single.first), (whole.second, single.second), (whole.density, single.density)):
                np.testing.assert_allclose([e[index] for e in a], b, rtol=1e-13)


def test_the_sharp_range_of_a_large_count_is_far_below_the_table():
    sharpest = Poisson("exp").derivative_range(100).second[1]
    table = Poisson("exp").derivative_range(100, "printed", repaired=True).second[1]
    assert table / sharpest > 2000.0


def test_parameters_are_seen_whether_annotations_are_types_or_texts():
    """A module without ``from __future__ import annotations`` has types; its likelihood trained nothing before."""
    own = dataclasses.make_dataclass("Own", [("noise", float, 1.0)], bases=(Gaussian,), frozen=True)(0.5)
    assert own.parameter_names == Gaussian(0.5).parameter_names == ("noise",)
    assert own.with_log_parameters(np.log([2.0])).noise == pytest.approx(2.0)
