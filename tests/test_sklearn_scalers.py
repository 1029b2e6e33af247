"""Regressors of scikit-learn behind scalers, and of scaled targets: the same log p(y) and predictions in raw units."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.compose import TransformedTargetRegressor
from sklearn.decomposition import PCA
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, DotProduct, ExpSineSquared, RationalQuadratic, WhiteKernel
from sklearn.gaussian_process.kernels import Matern as SkMatern
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    MaxAbsScaler,
    MinMaxScaler,
    PowerTransformer,
    RobustScaler,
    StandardScaler,
)

from gpbounds.renyi import from_sklearn, log_evidence

SHIFTING = [
    lambda: StandardScaler(),
    lambda: MinMaxScaler((-1.0, 3.0)),
    lambda: RobustScaler(unit_variance=True),
    lambda: make_pipeline(StandardScaler(with_std=False), MaxAbsScaler()),
    lambda: "passthrough",
]
NOT_SHIFTING = [
    lambda: StandardScaler(with_mean=False),
    lambda: StandardScaler(with_mean=False, with_std=False),
    lambda: RobustScaler(with_centering=False),
    lambda: RobustScaler(with_centering=False, with_scaling=False),
    lambda: MaxAbsScaler(),
]
OF_DISTANCES = [
    lambda a, b: a * RBF([b, a]) + WhiteKernel(0.3),
    lambda a, b: a * SkMatern(b, nu=1.5) * RBF(a) + 0.5,
    lambda a, b: RationalQuadratic(a, b) + SkMatern([a, b], nu=0.5) + WhiteKernel(a),
    lambda a, b: RBF(a) ** 2 + b**2,
]
OF_PRODUCTS = [
    lambda a, b: a * DotProduct(b) + RBF(b),
    lambda a, b: DotProduct(a) ** 2 + b * SkMatern([a, b], nu=2.5),
]
POSITIVE = st.floats(0.3, 3.0)


def rows(seed: int, D: int = 2):
    """Columns and targets of different units; K of products of columns stays well conditioned."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((30, D)) * np.logspace(-1, 0.5, D) + np.linspace(-1.0, 2.0, D)
    y = 300.0 + 20.0 * np.sin(rng.standard_normal(30) + X[:, 0] / 3.0)
    return X, y


def assert_the_same(model, X, y, new) -> None:
    """log p(y) and predictions of scikit-learn, in raw units, are those of the model that is read."""
    regressor, jacobian = model, 0.0
    while not isinstance(regressor, GaussianProcessRegressor):
        if isinstance(regressor, TransformedTargetRegressor):  # d(scaled y)/dy is the same for all y
            ends = regressor.transformer_.transform([[0.0], [1.0]])
            jacobian += len(y) * np.log(ends[1, 0] - ends[0, 0])
            regressor = regressor.regressor_
        else:
            regressor = regressor[-1]
    expected = regressor.log_marginal_likelihood_value_ + jacobian - len(y) * np.log(regressor._y_train_std)
    read = from_sklearn(model)
    residuals = read.residuals(X, y)
    assert log_evidence(read.kernel, X, residuals, noise=read.noise) == pytest.approx(expected, rel=1e-9, abs=1e-9)
    square = read.kernel(X) + read.noise * np.eye(len(X))
    mean = np.asarray(read.kernel(new, X)) @ np.linalg.solve(square, residuals)
    mean = mean + (0.0 if read.mean is None else read.mean(new))
    np.testing.assert_allclose(model.predict(new), mean, rtol=1e-9)


@given(
    a=POSITIVE,
    b=POSITIVE,
    seed=st.integers(0, 10**6),
    centred=st.booleans(),
    normalize=st.booleans(),
    picks=st.lists(st.integers(0, 4), max_size=3),
    target=st.integers(0, 4),
    choice=st.integers(0, 3),
)
def test_log_evidence_and_predictions_are_those_of_scikit_learn(
    a, b, seed, centred, normalize, picks, target, choice
) -> None:
    """Random kernels behind any number of scalers, with any scaling of the targets."""
    X, y = rows(seed)
    kernel = OF_DISTANCES[choice](a, b) if centred else (OF_PRODUCTS + OF_DISTANCES)[choice](a, b)
    regressor = GaussianProcessRegressor(kernel, alpha=0.2, normalize_y=normalize, optimizer=None)
    steps = [(SHIFTING if centred else NOT_SHIFTING)[pick]() for pick in picks]
    model = make_pipeline(*steps, regressor)
    if target < 4:
        model = TransformedTargetRegressor(model, transformer=SHIFTING[target]())
    assert_the_same(model.fit(X, y), X, y, rows(seed + 1)[0])


def test_a_period_is_returned_in_units_of_the_column() -> None:
    X, y = rows(0, 1)
    kernel = 1.5 * ExpSineSquared(0.8, 1.3) + RBF(0.4)
    model = make_pipeline(RobustScaler(), GaussianProcessRegressor(kernel, alpha=0.1, optimizer=None)).fit(X, y)
    assert_the_same(model, X, y, X[:5] + 0.3)
    assert from_sklearn(model).kernel.k1.period == pytest.approx(1.3 * model[0].scale_[0])


def test_a_constant_column_keeps_its_lengthscale() -> None:
    X, y = rows(1)
    X[:, 0] = 7.0
    model = make_pipeline(StandardScaler(), GaussianProcessRegressor(RBF([2.0, 0.5]), alpha=0.1, optimizer=None))
    read = from_sklearn(model.fit(X, y))
    np.testing.assert_allclose(read.kernel.lengthscale, [2.0, 0.5 * model[0].scale_[1]])


def test_a_trained_pipeline_is_read_by_its_steps_and_in_a_pipeline() -> None:
    """Also where a Pipeline or a TransformedTargetRegressor is the last step of another."""
    X, y = rows(2)
    kernel = 1.0 * RBF([1.0, 1.0]) + WhiteKernel(0.1)
    inner = TransformedTargetRegressor(
        make_pipeline(RobustScaler(), GaussianProcessRegressor(kernel, normalize_y=True, random_state=0)),
        transformer=MinMaxScaler(),
    )
    assert_the_same(make_pipeline(StandardScaler(), None, inner).fit(X, y), X, y, X[:4] + 0.1)


def test_without_scalers_the_mean_is_none() -> None:
    X, y = rows(3)
    assert from_sklearn(GaussianProcessRegressor(RBF(), alpha=0.1, optimizer=None).fit(X, y)).mean is None


def behind(*steps, kernel=None, alpha: float = 0.1):
    """A fitted Pipeline of these steps and a regressor."""
    X, y = rows(4)
    kernel = RBF() if kernel is None else kernel
    return make_pipeline(*steps, GaussianProcessRegressor(kernel, alpha=alpha, optimizer=None)).fit(X, y)


def of_targets(transformer):
    regressor = GaussianProcessRegressor(alpha=0.1, optimizer=None)
    return TransformedTargetRegressor(regressor, transformer=transformer, check_inverse=False).fit(*rows(4))


def two_targets(**options):
    X, y = rows(4)
    return GaussianProcessRegressor(alpha=0.1, optimizer=None, **options).fit(X, np.stack([y, 2.0 * y], 1))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: GaussianProcessRegressor(),
            "expected a fitted GaussianProcessRegressor, got one before fit: call fit",
        ),
        (lambda: make_pipeline(StandardScaler(), GaussianProcessRegressor()), "a fitted Pipeline, got one before fit"),
        (
            lambda: TransformedTargetRegressor(GaussianProcessRegressor(), transformer=StandardScaler()),
            "a fitted TransformedTargetRegressor, got one before fit",
        ),
        (lambda: behind(StandardScaler(), kernel=DotProduct()), "a scaler shifts, got one.*with_mean=False"),
        (lambda: behind(MinMaxScaler(), kernel=RBF() * DotProduct() ** 2), r"transform\(X\)"),
        (lambda: behind(StandardScaler(), kernel=ExpSineSquared(), alpha=30.0), "ExpSineSquared of one input, got 2"),
        (lambda: behind(PCA(2)), "RobustScaler, MaxAbsScaler as scalers, got PCA: read the regressor alone"),
        (lambda: behind(MinMaxScaler(clip=True)), "got MinMaxScaler with clip=True: read the regressor alone"),
        (lambda: of_targets(PowerTransformer()), r"got PowerTransformer: log p\(y\) of other transformed targets"),
        (lambda: of_targets(FunctionTransformer()), "got FunctionTransformer"),
        (lambda: two_targets(normalize_y=True), "expected one target where targets are scaled, got 2"),
        (
            lambda: Pipeline([("scale", StandardScaler()), ("model", "passthrough")]),
            "expected a scikit-learn GaussianProcessRegressor, got str without kernel",
        ),
    ],
)
def test_what_has_no_form_in_raw_units_is_refused(call, message: str) -> None:
    """In one sentence, which says what to do."""
    with pytest.raises(ValueError, match=message) as caught:
        from_sklearn(call())
    assert str(caught.value).startswith("model: ")
    assert "\n" not in str(caught.value)


def test_a_refusal_names_a_way_that_works() -> None:
    """The regressor alone, for the rows that the scalers made."""
    pipeline = behind(StandardScaler(), kernel=DotProduct())
    X, y = rows(4)
    scaled = pipeline[:-1].transform(X)
    read = from_sklearn(pipeline[-1])
    expected = pipeline[-1].log_marginal_likelihood_value_
    assert log_evidence(read.kernel, scaled, read.residuals(scaled, y), noise=read.noise) == pytest.approx(expected)


def test_several_targets_that_are_not_scaled_are_read() -> None:
    X, y = rows(4)
    read = from_sklearn(two_targets())
    assert read.residuals(X, np.stack([y, 2.0 * y], 1)).shape == (30, 2)
