"""Kernels that estimators take by name, and those of scikit-learn; one parser serves the shell, too."""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, DotProduct, WhiteKernel
from sklearn.gaussian_process.kernels import Matern as SklearnMatern
from sklearn.model_selection import GridSearchCV

import fitting
from gpbounds.cli import options
from gpbounds.kernels import (
    Constant,
    Linear,
    Matern,
    Periodic,
    Polynomial,
    RationalQuadratic,
    SquaredExponential,
    Sum,
    White,
)
from gpbounds.kernels.families import family
from gpbounds.renyi.readers.sklearn import kernel_of_sklearn

RNG = np.random.default_rng(0)
X = RNG.uniform(0.0, 2.0, (40, 2))
Y = np.sin(3.0 * X[:, 0]) + 0.1 * RNG.standard_normal(40)

WORDS = {
    "se": SquaredExponential,
    "rbf": SquaredExponential,
    "matern12": Matern,
    "matern32": Matern,
    "matern52": Matern,
    "matern:0.7": Matern,
    "rq": RationalQuadratic,
    "periodic": Periodic,
    "linear": Linear,
    "polynomial:2": Polynomial,
    "constant": Constant,
    "linear+rbf": Sum,
}


@pytest.mark.parametrize("name", WORDS)
def test_a_name_is_a_kernel_at_the_scale_of_the_data(name: str) -> None:
    model = fitting.ExactGP(kernel=name, optimizer=None).fit(X, Y)
    assert type(model.kernel_) is WORDS[name]
    expected = family(name).at(float(np.mean(Y * Y)), X.std(axis=0) * np.sqrt(2.0))
    assert np.allclose(model.kernel_.log_parameters, expected.log_parameters, rtol=0.0, atol=1e-12)


def test_rbf_is_the_default_to_the_last_bit() -> None:
    named, default = (fitting.SparseGP(n_inducing=8, kernel=kernel).fit(X, Y) for kernel in ("rbf", None))
    assert named.objective_ == default.objective_
    assert np.array_equal(named.kernel_.log_parameters, default.kernel_.log_parameters)


@pytest.mark.parametrize(
    ("kernel", "words"),
    [
        ("sexp", ("rbf", "matern52", "polynomial:DEGREE", "joined by +", "'sexp'")),
        (3, ("SquaredExponential()", "Matern(1.5)", "rbf", "sklearn.gaussian_process.kernels", "got 3")),
        (WhiteKernel(), ("noise alone",)),
        (1.0 * RBF(1.0, "fixed"), ("k2__length_scale", "fixed=('lengthscale',)")),
    ],
)
def test_another_kernel_is_refused_with_the_classes_and_words_that_there_are(kernel: object, words: tuple) -> None:
    with pytest.raises(ValueError, match=r"^kernel: expected") as refused:
        fitting.ExactGP(kernel=kernel).fit(X, Y)
    assert all(word in str(refused.value) for word in words)


def test_the_shell_has_the_same_names() -> None:
    assert options.family("linear+rbf") == family("linear+rbf")
    with pytest.raises(argparse.ArgumentTypeError, match=r"^expected se \(or rbf\)"):
        options.family("sexp")


def test_a_kernel_of_sklearn_has_the_same_covariances() -> None:
    theirs = ConstantKernel(2.0) * RBF([0.5, 2.0]) + 0.3 * SklearnMatern(0.7, nu=1.5) + DotProduct(0.4)
    ours = kernel_of_sklearn(theirs)
    assert np.allclose(ours(X), theirs(X), rtol=1e-13, atol=1e-13)
    noisy = kernel_of_sklearn(theirs + WhiteKernel(0.25))
    assert isinstance(noisy, Sum)
    assert noisy.k2 == White(0.25)


def test_a_fit_from_a_kernel_of_sklearn_agrees_with_sklearn() -> None:
    kernel = 1.0 * RBF(1.0) + WhiteKernel(0.1)
    theirs = GaussianProcessRegressor(kernel).fit(X, Y)
    ours = fitting.ExactGP(kernel=kernel, tol=None).fit(X, Y)
    assert ours.noise_ == pytest.approx(theirs.kernel_.k2.noise_level, rel=1e-3)
    mean, std = ours.predict(X[:5] + 0.1, return_std=True, noisy=True)
    assert np.allclose((mean, std), theirs.predict(X[:5] + 0.1, return_std=True), rtol=1e-3, atol=1e-3)


def test_a_grid_search_over_names_and_objects() -> None:
    grid = {"kernel": ["linear", "rbf", RBF(1.0) + WhiteKernel(0.1), Matern(2.5)]}
    search = GridSearchCV(fitting.ExactGP(), grid, cv=2).fit(X, Y)
    assert search.best_params_["kernel"] != "linear"
    assert clone(fitting.ExactGP(kernel="linear+rbf")).kernel == "linear+rbf"


@pytest.mark.parametrize(
    ("kernel", "kept"),
    [
        ("linear+rbf", "linear+rbf"),
        (SquaredExponential() + White(0.3), SquaredExponential() + White(0.3)),
        (2.0 * RBF(0.5) + WhiteKernel(0.3), SquaredExponential(2.0, 0.5) + White(0.3)),
        (2.0 * RBF(0.5), SquaredExponential(2.0, 0.5)),
    ],
)
def test_a_saved_model_keeps_its_kernel(kernel: object, kept: object, tmp_path: Path) -> None:
    model = fitting.ExactGP(kernel=kernel, optimizer=None).fit(X, Y)
    model.save(tmp_path / "model.npz")
    again = fitting.load(tmp_path / "model.npz")
    assert repr(again.kernel) == repr(kept)
    assert np.array_equal(again.predict(X), model.predict(X))
    again.fit(X, Y)
    assert again.objective_ == pytest.approx(model.objective_, rel=1e-12)


def test_a_checkpoint_belongs_to_the_values_of_a_kernel_of_sklearn(tmp_path: Path) -> None:
    """Its repr has three digits only."""
    settings = {"checkpoint": tmp_path / "checkpoint.npz", "max_iter": 2}
    with pytest.warns(UserWarning, match="iterations"):
        fitting.ExactGP(kernel=1.0 * RBF(1.0), **settings).fit(X, Y)
    with pytest.raises(ValueError, match="checkpoint: expected one of the same data and settings"):
        fitting.ExactGP(kernel=1.0 * RBF(1.00001), **settings).fit(X, Y)


@pytest.mark.parametrize("name", ["se", "matern32"])
def test_features_take_names(name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # few iterations may end at a limit
        model = fitting.LowRankGP(rank=10, kernel=name, max_iter=30).fit(X, Y)
    assert type(model.kernel_) is WORDS[name]


def test_features_refuse_names_that_they_have_no_features_of() -> None:
    with pytest.raises(ValueError, match=r"kernel: expected SquaredExponential for features='mercer'"):
        fitting.LowRankGP("mercer", rank=10, kernel="rq").fit(X, Y)
    with pytest.raises(ValueError, match=r"kernel: expected a function of x - x' for Fourier features"):
        fitting.LowRankGP(rank=10, kernel="linear").fit(X, Y)
