"""What estimators say where they fail or remark: in their own words, about arguments that their caller has."""

import inspect
import re
import warnings

import numpy as np
import pytest

import fitting
from fitting.estimators.remarks import of_limits, of_noise
from fitting.objectives.point import Parameters
from gpbounds import Matern, SquaredExponential, kernels, renyi
from gpbounds.errors import NotPositiveDefinite
from gpbounds.exact import factor_of
from gpbounds.kernels import Linear
from gpbounds.likelihoods import Gaussian
from tests.test_array_gate import ESTIMATORS, LABELS, X, Y

ON_A_LINE = np.random.default_rng(0).uniform(-4.0, 4.0, (60, 1)) * np.ones(3)
FLAT = SquaredExponential(1.0, 1e4)
RESULTS = {"y", "X", "start", "sample_weight", "classes"}
NAMED = (  # how a message names an argument
    re.compile(r"^(\w+(?:, \w+)*): expected"),
    re.compile(r"(?:pass|set|raise) `{0,2}([a-z_]+)`{0,2}(?:[ =,.]|$)"),
    re.compile(r"\b([a-z_]+)=(?!=)"),
    re.compile(r"`([a-z_]+)`"),
)


def _named(text):
    """The arguments that a message names; what a value is made of, as in Linear(variance=1.0), are none."""
    sentences = re.sub(r"\b[A-Z]\w*\([^()]*\)", "", text)
    return {word for pattern in NAMED for found in pattern.findall(sentences) for word in found.split(", ")}


def _arguments(name):
    """The arguments of an estimator and of its methods."""
    kind = getattr(fitting, name)
    methods = [function for method, function in inspect.getmembers(kind, inspect.isfunction) if method[0] != "_"]
    return {word for function in (kind, *methods) for word in inspect.signature(function).parameters}


def _made(name, **changed):
    few = {"n_inducing": 6, "rank": 4, "kernel": FLAT, "optimizer": None, "random_state": 0, "noise": 1e-18} | changed
    kind = getattr(fitting, name)
    return kind(**{key: value for key, value in few.items() if key in inspect.signature(kind).parameters})


FAULTS = {
    "a noise below rounding": lambda name: _made(name).fit(ON_A_LINE, _targets(name)),
    "a variance beyond rounding": lambda name: _made(name, kernel=SquaredExponential(1e200, 1.0)).fit(
        ON_A_LINE, _targets(name)
    ),
    "a kernel that is 0": lambda name: _made(name, kernel=Linear(1.0)).fit(0.0 * ON_A_LINE, _targets(name)),
    "huge targets": lambda name: _made(name, noise=0.1).fit(ON_A_LINE, 1e200 * _targets(name)),
    "a vector": lambda name: _made(name, noise=0.1).fit(ON_A_LINE[:, 0], _targets(name)),
    "all limits": lambda name: _made(name, noise=0.1, optimizer="lbfgs", limits={"variance": (1.0, 1.0)}).fit(X, Y),
    "a covariance beyond memory": lambda name: (
        _made(name, noise=0.1).fit(X, _labels(name)).sample_y(np.zeros((10**6, 1)))
    ),
}


def _targets(name):
    return np.sign(ON_A_LINE[:, 0]) if name == "VariationalGPClassifier" else np.sin(ON_A_LINE.sum(1))


def _labels(name):
    return LABELS if name == "VariationalGPClassifier" else Y


@pytest.mark.parametrize("name", ESTIMATORS)
def test_messages_name_arguments_that_the_estimator_has(name):
    said = []
    for call in FAULTS.values():
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                call(name)
            except (ValueError, ArithmeticError) as error:
                said.append(str(error))
        said += [str(each.message) for each in caught]
    assert said
    for text in said:
        assert "\n" not in text, text
        assert _named(text) - _arguments(name) - RESULTS == set(), text
        assert "jitter" not in _named(text), text


def test_the_patterns_find_advice():
    text = "Remove duplicates, or pass jitter='auto' or raise `noise`: start='evidence' helps"
    assert _named(text) == {"jitter", "noise", "start"}
    assert _named("Z, noise: expected numbers") == {"Z", "noise"}


def test_another_jitter_is_advised_to_who_passes_one_alone():
    points = np.zeros((3, 1))
    with pytest.raises(NotPositiveDefinite, match=r"fails with jitter 0\..*Or pass jitter='auto', or a larger jitter"):
        renyi.evidence(SquaredExponential(), X, Y, points, noise=0.1, jitter=0.0)
    with pytest.raises(NotPositiveDefinite, match="add a Constant kernel") as caught:
        renyi.evidence(Linear(), X, Y, 0.0 * points, noise=0.1)
    assert "jitter=" not in str(caught.value)


@pytest.mark.parametrize("noise", [1e-18, 1e-30])
def test_a_matrix_that_noise_does_not_save_is_about_noise(noise):
    with pytest.raises(NotPositiveDefinite, match=r"^K \+ σ²I: .* the noise is below the rounding error of K"):
        factor_of(FLAT, ON_A_LINE, noise=noise)


def test_the_message_names_a_kernel_that_is_not_positive_definite():
    class Negative(SquaredExponential):
        def __call__(self, X1, X2=None):
            return -super().__call__(X1, X2)

    with pytest.raises(NotPositiveDefinite, match="so the kernel is not positive semi-definite"):
        factor_of(Negative(), X, noise=0.1)


PARAMETERS = sorted(
    {
        name
        for kernel in (Matern(1.5, 1.0, [1.0, 2.0]), kernels.Periodic(), kernels.RationalQuadratic(), Linear() + FLAT)
        for name in (*kernel.parameter_names, "noise", "scale", "df")
    }
)


@pytest.mark.parametrize("kind", [0, 1])
@pytest.mark.parametrize("name", PARAMETERS)
def test_a_remark_on_a_limit_is_about_the_parameter_there(name, kind):
    words = {name.rpartition(".")[2].partition("[")[0] for name in PARAMETERS}
    (remark,) = of_limits(*(((name,), ()) if kind == 0 else ((), (name,))))
    own = name.rpartition(".")[2].partition("[")[0]
    said = set(re.findall(r"\w+", remark.text.replace(name, "")))
    assert said & (words - {own, "noise"}) == set(), remark.text
    assert name in remark.text
    assert remark.names == (name,)


def test_parameters_of_two_kinds_have_two_remarks():
    remarks = of_limits((), ("variance", "lengthscale[0]", "lengthscale[2]"))
    assert [remark.names for remark in remarks] == [("variance",), ("lengthscale[0]", "lengthscale[2]")]
    assert of_limits((), ()) == []


@pytest.mark.parametrize("kernel", [SquaredExponential(), Linear()])
@pytest.mark.parametrize("start", ["auto", "evidence"])
@pytest.mark.parametrize("Z", [None, X])
def test_the_start_at_the_scale_of_the_data_is_named_where_it_serves(kernel, start, Z):
    (remark,) = of_noise(Parameters(kernel, Gaussian(0.1), Z), start)
    assert ("start='evidence'" in remark.text) == (isinstance(kernel, SquaredExponential) and start == "auto")
    assert ("inducing points" in remark.text) == (Z is not None)


def test_a_kernel_of_unit_scale_on_data_of_large_scale():
    points, values = np.array([[20.0], [20.0], [140.0], [140.0]]), np.array([740.0, 680.0, 1260.0, 1200.0])
    with pytest.warns(match="start='evidence'"):
        poor = fitting.ExactGP(Matern(1.5), random_state=0).fit(points, values)
    good = fitting.ExactGP(Matern(1.5), random_state=0, start="evidence").fit(points, values)
    assert good.objective_ > poor.objective_ + 1.0


@pytest.mark.parametrize("scale", [1e-300, 1e150, 1e300, 1e307])
def test_normalised_targets_may_have_any_scale(scale):
    model, own = (
        fitting.ExactGP(SquaredExponential(), 0.1, optimizer=None, normalize_y=True).fit(X, size * Y)
        for size in (scale, 1.0)
    )
    with np.errstate(over="raise"):
        np.testing.assert_allclose(model.predict(X) / scale, own.predict(X), rtol=1e-12)
    assert model.objective_ == pytest.approx(own.objective_, rel=1e-12)
