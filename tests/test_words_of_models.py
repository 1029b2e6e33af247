"""What a fitted model says of itself: short reprs, log p(y), densities, and what its standard deviations are of."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy.stats import norm
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, WhiteKernel

import fitting
from gpbounds.kernels import SquaredExponential
from gpbounds.likelihoods import Gaussian
from gpbounds.linalg import cholesky
from gpbounds.texts import in_one_line

RNG = np.random.default_rng(0)
X = RNG.uniform(0.0, 6.0, (60, 3))
Y = np.sin(X[:, 0]) + 0.5 * np.cos(X[:, 1]) + 0.3 * np.sin(X[:, 2]) + 0.1 * RNG.standard_normal(60)
NEW = RNG.uniform(0.0, 6.0, (7, 3))

MODELS = {
    "exact": fitting.ExactGP(),
    "iterative": fitting.ExactGP(solver="iterative"),
    "sparse": fitting.SparseGP(n_inducing=20),
    "blocks": fitting.SparseGP("pic", n_inducing=20, block_size=10),
    "renyi": fitting.RenyiGP(n_inducing=20),
    "features": fitting.LowRankGP(rank=20, random_state=0),
    "free": fitting.VariationalGP(20),
    "pac": fitting.SparsePACGP(5, max_iter=50),
}


# Reprs


@pytest.mark.broad
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_fitted_model_and_its_parts_print_in_one_line(name: str) -> None:
    model = MODELS[name].fit(X, Y)
    assert len(repr(model)) < 100
    for part in (model.posterior_, *model.runs_):
        text = repr(part)
        assert "\n" not in text
        assert len(text) < 800
        assert text.startswith(type(part).__name__ + "(")
    assert "array of shape" in repr(model.posterior_)


def test_small_parts_are_spelled_out() -> None:
    assert repr(cholesky(np.eye(1))) == "Cholesky(L=array of shape (1, 1), jitter=0.0)"
    assert in_one_line(SquaredExponential(1.0, [0.5, 2.0])) == (
        "SquaredExponential(variance=1.0, lengthscale=array([0.5, 2. ]))"
    )
    assert in_one_line(SquaredExponential(1.0, np.ones(30))) == (
        "SquaredExponential(variance=1.0, lengthscale=array of shape (30,))"
    )


# log p(y)


def test_log_marginal_likelihood_is_that_of_sklearn() -> None:
    kernel = 1.0 * RBF(1.0) + WhiteKernel(0.1)
    ours = fitting.ExactGP(kernel=kernel, normalize_y=True, optimizer=None).fit(X, Y)
    theirs = GaussianProcessRegressor(kernel, normalize_y=True, optimizer=None, alpha=1e-14).fit(X, Y)
    theta = np.log([0.7, 0.9, 0.2])  # ours ends with the noise, too
    value, slopes = ours.log_marginal_likelihood(theta, eval_gradient=True)
    expected = theirs.log_marginal_likelihood(theta, eval_gradient=True)
    assert value == ours.log_marginal_likelihood(theta) == pytest.approx(expected[0], rel=1e-10)
    assert slopes == pytest.approx(expected[1], rel=1e-8)
    assert ours.log_marginal_likelihood() == pytest.approx(theirs.log_marginal_likelihood_value_, rel=1e-10)


@pytest.mark.parametrize("mean", ["zero", "linear"])
def test_log_marginal_likelihood_is_the_objective_of_the_fit(mean: str, tmp_path: Path) -> None:
    model = fitting.ExactGP(mean=mean).fit(X, Y)
    assert model.log_marginal_likelihood() == pytest.approx(model.objective_, rel=1e-10)
    model.save(tmp_path / "model.npz")
    assert fitting.load(tmp_path / "model.npz").log_marginal_likelihood() == model.log_marginal_likelihood()


def test_log_marginal_likelihood_counts_the_entries_of_theta() -> None:
    model = fitting.ExactGP(optimizer=None, kernel=SquaredExponential()).fit(X, Y)
    with pytest.raises(ValueError, match=r"theta: expected 3 logarithms, of variance, lengthscale, noise, got \(2,\)"):
        model.log_marginal_likelihood([0.0, 0.0])


def test_models_without_log_p_say_what_they_have() -> None:
    with pytest.raises(ValueError, match=r"log_marginal_likelihood: .* evidence_bounds_"):
        fitting.ExactGP(solver="iterative").fit(X, Y).log_marginal_likelihood()
    for model in (fitting.SparseGP(n_inducing=5), fitting.VariationalGP(5), fitting.RenyiGP(n_inducing=5)):
        assert not hasattr(model, "log_marginal_likelihood")
        with pytest.raises(AttributeError, match=r"ExactGP does: log_evidence_bounds\(\)"):
            model.log_marginal_likelihood()


# Densities and standard deviations


@pytest.mark.parametrize("settings", [{}, {"normalize_y": True}], ids=["raw", "normalised"])
def test_the_density_of_new_targets_is_that_of_the_noisy_prediction(settings: dict) -> None:
    model = fitting.SparseGP(n_inducing=30, **settings).fit(X, Y)
    mean, std = model.predict(NEW, return_std=True, noisy=True)
    y = mean + 0.1
    assert model.log_predictive_density(NEW, y) == pytest.approx(norm.logpdf(y, mean, std), rel=1e-12)
    low, high = model.predict_interval(NEW, level=0.9)
    assert low == pytest.approx(norm.ppf(0.05, mean, std), rel=1e-12)
    assert high == pytest.approx(norm.ppf(0.95, mean, std), rel=1e-12)


def test_both_standard_deviations_differ_by_the_noise() -> None:
    model = fitting.ExactGP(normalize_y=True).fit(X, Y)
    latent, noisy = (model.predict(NEW, return_std=True, noisy=which)[1] for which in (False, True))
    assert noisy**2 - latent**2 == pytest.approx(model.noise_ * model.y_scale_[0] ** 2, rel=1e-10)


def test_densities_of_several_outputs_and_their_shapes() -> None:
    model = fitting.ExactGP().fit(X, np.column_stack([Y, -Y]))
    assert model.log_predictive_density(NEW, np.zeros((7, 2))).shape == (7, 2)
    with pytest.raises(ValueError, match=r"y: expected the shape of the predictions, \(7, 2\), got \(7,\)"):
        model.log_predictive_density(NEW, np.zeros(7))


def test_a_score_of_a_model_in_place_of_a_likelihood_shows_the_right_call() -> None:
    model = fitting.ExactGP().fit(X, Y)
    with pytest.raises(ValueError, match=r"got ExactGP; for a fitted model: -model\.log_predictive_density\(X, y\)"):
        fitting.log_loss(model, X, Y)
    with pytest.raises(ValueError, match=r"low, high = model\.predict_interval\(X\)"):
        fitting.coverage(model, X, Y)
    with pytest.raises(ValueError, match=r"means and variances of the latent f, got no v"):
        fitting.log_loss(Gaussian(0.1), Y, Y)
    mean, std = model.predict(X, return_std=True)
    of_law = fitting.log_loss(Gaussian(model.noise_), Y, mean, std**2)
    assert of_law == pytest.approx(-model.log_predictive_density(X, Y).mean(), rel=1e-10)


@pytest.mark.parametrize(
    ("model", "pass_this"),
    [
        (fitting.VariationalGP(5, batch_size=10), r"pass optimizer='adam' or optimizer='natgrad' as well"),
        (fitting.ExactGP(batch_size=10), r"pass optimizer='adam' as well"),
    ],
)
def test_a_batch_without_its_optimiser_says_what_to_pass(model: fitting.ExactGP, pass_this: str) -> None:
    with pytest.raises(ValueError, match=rf"^batch_size: expected None for optimizer='lbfgs', .*got 10: {pass_this}"):
        model.fit(X, Y)
