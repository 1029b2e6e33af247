"""`LowRankGP`: protocol, what it finds, projections, saving, continuing, divergences, wrong arguments."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from fitting import ExactGP, LowRankGP, load
from fitting.features import FeatureKernel, FourierMap, Mercer
from gpbounds import SquaredExponential
from gpbounds.inputs import Gaussian
from gpbounds.kernels import Linear, Matern
from gpbounds.lowrank import fourier_kl, kl, mercer_kl

RNG = np.random.default_rng(5)
X = RNG.standard_normal((150, 3))
Y = np.stack([np.sin(X @ [1.5, 0.5, 0.0]), np.cos(X @ [1.5, 0.5, 0.0])], axis=1) + 0.1 * RNG.standard_normal((150, 2))
NEW = RNG.standard_normal((20, 3))
quiet = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
KINDS = {
    "fourier": {"rank": 30},
    "leverage": {"rank": 30},
    "mercer": {"rank": 30, "order": "best"},
    "hilbert": {"rank": 120},
    "projected mercer": {"features": "mercer", "rank": 8, "dim": 1},
    "projected hilbert": {"features": "hilbert", "rank": 16, "dim": 1},
    "projected fourier": {"features": "fourier", "rank": 12, "dim": 2},
}


def model(kind: str, **more) -> LowRankGP:
    return LowRankGP(**{"features": kind, "random_state": 0, "start": "scale", "max_iter": 40, **KINDS[kind], **more})


each_kind = pytest.mark.parametrize("kind", KINDS)


class Lines:
    """φ(x) = (1, x₁ + a₁, x₂ + a₂, x₃ + a₃), with a trained."""

    rank = 4

    def __repr__(self) -> str:
        return "Lines()"

    def start(self, X, rng):
        return np.zeros(X.shape[1])

    def __call__(self, parameters, X):
        return np.concatenate([np.ones((len(X), 1)), X + parameters], axis=1)

    def vjp(self, parameters, X):
        return self(parameters, X), lambda cotangent: cotangent[:, 1:].sum(axis=0)


@quiet
@each_kind
@pytest.mark.parametrize("targets", [Y[:, 0], Y], ids=["one output", "two outputs"])
def test_predictions_are_those_of_the_feature_kernel(kind: str, targets) -> None:
    """An exact GP with the covariance φᵀφ and the trained noise predicts the same."""
    fitted = model(kind).fit(X, targets)
    kernel, noise = fitted.feature_kernel_, fitted.noise_
    inverse = np.linalg.inv(kernel(X) + noise * np.eye(len(X)))
    across = kernel(NEW, X)
    mean, covariance = fitted.predict(NEW, return_cov=True)
    np.testing.assert_allclose(mean, across @ inverse @ targets, atol=1e-7)
    reference = kernel(NEW) - across @ inverse @ across.T
    first = covariance if targets.ndim == 1 else covariance[:, :, 1]
    np.testing.assert_allclose(first, reference, atol=1e-7)
    std = fitted.predict(NEW, return_std=True, noisy=True)[1]
    np.testing.assert_allclose((std if targets.ndim == 1 else std[:, 0]) ** 2, np.diag(reference) + noise, atol=1e-7)
    sign, logdet = np.linalg.slogdet(inverse)
    fit = np.vdot(targets, inverse @ targets)
    P = 1 if targets.ndim == 1 else 2
    assert sign == 1.0
    assert fitted.objective_ == pytest.approx(0.5 * (P * (logdet - 150.0 * np.log(2.0 * np.pi)) - fit), rel=1e-7)
    assert fitted.sample_y(NEW[:3], 4).shape == (3, *targets.shape[1:], 4)


@quiet
@each_kind
def test_training_finds_the_function_and_its_noise(kind: str) -> None:
    fitted = model(kind, max_iter=200).fit(X, Y[:, 0])
    truth = np.sin(NEW @ [1.5, 0.5, 0.0])
    inside = np.abs(NEW).max(axis=1) < 1.5
    assert np.sqrt(np.mean((fitted.predict(NEW) - truth)[inside] ** 2)) < 0.15
    assert 0.005 < fitted.noise_ < 0.03  # σ² = 0.01
    assert fitted.history_[-1] > fitted.history_[0]
    assert fitted.score(X, Y[:, 0]) > 0.95


@quiet
def test_a_trained_projection_is_the_direction_that_matters() -> None:
    fitted = model("projected mercer", max_iter=200).fit(X, Y[:, 0])
    W = fitted.projection_
    direction = W[:, 0] / np.linalg.norm(W[:, 0])
    assert abs(direction @ [1.5, 0.5, 0.0]) / np.hypot(1.5, 0.5) > 0.99
    z = (X - X.mean(axis=0)) @ W
    np.testing.assert_allclose(z.std(axis=0), 1.0, rtol=1e-9)
    at = fitted.kernel_(z)
    assert np.abs(at - fitted.feature_kernel_(X)).max() < 0.05 * fitted.kernel_.variance


@quiet
@each_kind
def test_a_loaded_model_predicts_the_same_bits(kind: str, tmp_path) -> None:
    fitted = model(kind, max_iter=5, normalize_y=True).fit(X, Y)
    fitted.save(tmp_path / "model.npz")
    again = load(tmp_path / "model.npz")
    for ours, theirs in zip(again.predict(NEW, return_std=True), fitted.predict(NEW, return_std=True), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert again.get_params()["rank"] == fitted.rank
    assert again.kl_bound_.exact == fitted.kl_bound_.exact
    np.testing.assert_array_equal(again.sample_y(NEW, 2), fitted.sample_y(NEW, 2))


@quiet
@each_kind
def test_a_continued_training_takes_the_same_path(kind: str, tmp_path) -> None:
    whole = model(kind, max_iter=12, tol=None).fit(X, Y[:, 0])
    path = tmp_path / "training"
    model(kind, max_iter=6, tol=None, checkpoint=path).fit(X, Y[:, 0])
    continued = model(kind, max_iter=12, tol=None, checkpoint=path).fit(X, Y[:, 0])
    np.testing.assert_array_equal(continued.predict(NEW), whole.predict(NEW))


@quiet
def test_the_seed_decides_the_frequencies() -> None:
    first, same, other = (model("fourier", max_iter=3, random_state=seed).fit(X, Y[:, 0]) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first.frequencies_, same.frequencies_)
    assert np.abs(first.frequencies_ - other.frequencies_).max() > 0.1
    scaled = first.frequencies_ * first.kernel_.lengthscales(3)
    start = same.feature_kernel_.features
    assert isinstance(start, FourierMap)
    np.testing.assert_allclose(scaled, start.frequencies, rtol=1e-12)


@quiet
def test_many_frequencies_approach_the_exact_gp() -> None:
    """L-28: the divergence falls about as 1/m, and predictions approach the exact ones."""
    kernel = SquaredExponential(1.0, [1.2, 2.0, 3.0])
    rows, targets = X[:60], Y[:60, 0]
    exact = ExactGP(kernel, 0.05, optimizer=None).fit(rows, targets)
    found = []
    for seed in range(5):
        fits = [
            LowRankGP("fourier", rank, kernel, 0.05, optimizer=None, random_state=seed).fit(rows, targets)
            for rank in (6, 60)
        ]
        found.append([(fit.kl_bound_.exact, np.abs(fit.predict(NEW) - exact.predict(NEW)).max()) for fit in fits])
    few, many = np.median(found, axis=0)
    assert many[0] < 0.3 * few[0]
    assert many[1] < few[1]


@quiet
def test_an_object_is_a_linear_model() -> None:
    """The optimum of a, v and σ² is at least as good as 1 and x themselves; the mean is a linear function."""
    target = X @ [1.0, -2.0, 0.5] + 3.0 + 0.1 * RNG.standard_normal(150)
    fitted = LowRankGP(Lines(), max_iter=100).fit(X, target)
    coefficients = np.linalg.lstsq(Lines()(np.zeros(3), X), target, rcond=None)[0]
    np.testing.assert_allclose(fitted.predict(NEW), Lines()(np.zeros(3), NEW) @ coefficients, atol=0.02)
    assert isinstance(fitted.kernel_, FeatureKernel)
    assert fitted.noise_ == pytest.approx(0.01, rel=0.4)
    with pytest.raises(ValueError, match=r"with to_dict and from_dict, got Lines\(\) without to_dict, from_dict"):
        fitted.save("never")
    with pytest.raises(ValueError, match="expected those of a kernel for log_evidence_bounds"):
        fitted.log_evidence_bounds()


@quiet
def test_divergences_are_ordered_and_exact() -> None:
    inputs = RNG.standard_normal((80, 1))
    target = np.sin(2.0 * inputs[:, 0])
    at = SquaredExponential(1.0, 0.8)
    fit = LowRankGP("mercer", 12, at, 0.1, order="best", optimizer=None).fit(inputs, target)
    found = fit.kl_bound_
    K, Sigma = at(inputs), fit.feature_kernel_(inputs)
    assert found.exact == pytest.approx(kl(K, Sigma, noise=0.1), rel=1e-8)
    assert found.exact <= found.residual <= found.prior
    prior = mercer_kl(at, 80, 12, inputs=Gaussian(inputs.std()), noise=0.1)
    assert float(found.prior) == pytest.approx(float(prior), rel=1e-12)
    assert "fixed before the data" in found.prior.assumptions[-1]
    fourier = LowRankGP("fourier", 80, at, 0.1, optimizer=None, random_state=0).fit(inputs, target).kl_bound_
    assert fourier.residual is None
    assert float(fourier.prior) == float(fourier_kl(at, 80, 40, noise=0.1, features="classical"))
    assert fourier.exact <= fourier.prior
    degree = LowRankGP("mercer", 6, optimizer=None, order="degree").fit(X, Y[:, 0]).kl_bound_
    assert degree.exact <= degree.residual
    lower, upper = fit.log_evidence_bounds()
    assert lower <= upper


@quiet
@pytest.mark.parametrize(
    "settings", [{"features": "mercer", "dim": 2, "rank": 10}, {"features": "fourier", "rank": 20}]
)
def test_divergences_of_trained_models_are_exact_and_below_what_stays_proved(settings: dict) -> None:
    """The certificate needs no independence; the exact number is that of dense matrices of the trained kernel."""
    rng = np.random.default_rng(9)
    inputs = rng.standard_normal((70, 3))
    target = np.sin(inputs @ [1.0, 0.5, 0.0]) + 0.1 * rng.standard_normal(70)
    fit = LowRankGP(**settings, start="scale", max_iter=25, random_state=0).fit(inputs, target)
    seen = inputs
    if "dim" in settings:
        seen = (inputs - inputs.mean(axis=0)) @ fit.projection_
        assert np.allclose(seen.std(axis=0), 1.0)
    K, Sigma, found = fit.kernel_(seen), fit.feature_kernel_(inputs), fit.kl_bound_
    dense = 0.5 * (
        np.trace(np.linalg.solve(Sigma + fit.noise_ * np.eye(70), K + fit.noise_ * np.eye(70)))
        - 70.0
        + np.linalg.slogdet(Sigma + fit.noise_ * np.eye(70))[1]
        - np.linalg.slogdet(K + fit.noise_ * np.eye(70))[1]
    )
    assert found.exact == pytest.approx(dense, rel=1e-6)
    if "dim" in settings:
        assert found.prior is None
        assert found.exact <= found.residual
    else:
        assert found.residual is None
        assert float(found.prior) == float(fourier_kl(fit.kernel_, 70, 10, noise=fit.noise_, features="classical"))


@quiet
def test_a_finite_bound_before_the_frequencies_are_drawn_is_kept_by_19_of_20_draws() -> None:
    """Hyperparameters fixed in advance: the case in which the docstring says that the a-priori bound is proved."""
    inputs = np.random.default_rng(10).standard_normal((40, 1))
    found = [
        LowRankGP("fourier", 40, SquaredExponential(), 60.0, optimizer=None, random_state=seed)
        .fit(inputs, inputs[:, 0])
        .kl_bound_
        for seed in range(20)
    ]
    assert np.isfinite(float(found[0].prior))
    assert sum(each.exact > each.prior for each in found) <= 1


@quiet
def test_the_protocol_of_scikit_learn() -> None:
    search = GridSearchCV(
        make_pipeline(StandardScaler(), LowRankGP("mercer", order="best", max_iter=5, start="scale", random_state=0)),
        {"lowrankgp__rank": [2, 20]},
        cv=3,
    ).fit(X, Y[:, 0])
    assert search.best_params_ == {"lowrankgp__rank": 20}
    again = clone(model("fourier"))
    assert again.get_params() == model("fourier").get_params()


def test_remarks_are_warnings() -> None:
    with pytest.warns(ConvergenceWarning, match="All 2 iterations are used"):
        fitted = model("fourier", max_iter=2).fit(X, Y[:, 0])
    assert [remark.kind for remark in fitted.remarks_] == ["iterations"]


@quiet
def test_fixed_hyperparameters_keep_their_values() -> None:
    at = SquaredExponential(1.3, [0.7, 0.9, 1.1])
    fitted = LowRankGP("fourier", 10, at, 0.2, fixed=("variance", "noise"), max_iter=3, random_state=0).fit(X, Y)
    assert (fitted.kernel_.variance, fitted.noise_) == (pytest.approx(1.3, rel=1e-14), pytest.approx(0.2, rel=1e-14))
    assert np.abs(fitted.kernel_.lengthscale - at.lengthscale).max() > 1e-3


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"rank": 31}, r"rank: expected an even number \(a cosine and a sine for each frequency\), got 31; use 32"),
        ({"rank": 200}, "rank: expected at most the number of rows, 150, got 200"),
        ({"dim": 4}, "dim: expected at most the number of columns of X, 3, got 4"),
        ({"dim": 0}, "dim: expected a whole number >= 1, got 0$"),
        ({"features": "sine"}, "features: expected one of 'fourier', 'leverage', 'mercer', 'hilbert', got 'sine'"),
        ({"features": 3.0}, "features: expected 'fourier', 'leverage', 'mercer', 'hilbert' or an object with rank"),
        ({"features": "mercer", "order": "tensor"}, "order: expected one of 'degree', 'best', 'grid', got 'tensor'"),
        ({"features": "mercer", "order": "grid", "rank": 30}, r"rank: expected n\^3 with .* use 27 or 64"),
        ({"features": "mercer", "kernel": Matern(1.5)}, "kernel: expected SquaredExponential for features='mercer'"),
        ({"features": "leverage", "kernel": Matern(1.5)}, "kernel: expected SquaredExponential for features='leverage"),
        ({"kernel": SquaredExponential() + Linear()}, "kernel: expected a function of x - x'.*got Linear"),
        ({"kernel": 3.0}, "kernel: expected a kernel of gpbounds.kernels .*, got 3.0"),
        ({"kernel": SquaredExponential(1.0, [1.0, 1.0])}, r"expected inputs with 2 dimension\(s\)"),
        (
            {"features": Lines(), "kernel": SquaredExponential()},
            "kernel: expected None for features that are an object",
        ),
        ({"features": Lines(), "dim": 2}, "dim: expected None for features that are an object"),
        ({"features": Lines()}, "rank: expected None or 4, the number of features of Lines.*, got 30: an object has"),
        ({"features": Mercer(4)}, "rank: expected None or 4, the number of features of Mercer.*, got 30: an object"),
        ({"order": "best"}, "order: expected 'degree' for features='fourier', got 'best': it chooses .* of 'mercer'"),
        ({"features": "leverage", "order": "grid"}, "order: expected 'degree' for features='leverage', got 'grid'"),
        (
            {"features": Mercer(4), "order": "best"},
            r"order: expected .degree. for features that are .*, got .best.: .* such as Mercer\(.*order=\.\.\.\)",
        ),
    ],
)
def test_wrong_arguments(arguments: dict, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        LowRankGP(**{"rank": 30, **arguments}).fit(X, Y[:, 0])


@quiet
def test_a_rank_that_is_not_given_is_100_or_that_of_an_object() -> None:
    """None stays None in get_params, so that a clone with other features is valid too."""
    default, still = LowRankGP(optimizer=None, random_state=0), {"optimizer": None, "random_state": 0}
    assert default.fit(X, Y[:, 0]).feature_kernel_.features.rank == 100
    assert default.objective_ == LowRankGP(rank=100, **still).fit(X, Y[:, 0]).objective_
    for features, rank in ((Lines(), 4), (Mercer(6), 6)):
        free, stated = (LowRankGP(features, given, **still).fit(X, Y[:, 0]) for given in (None, rank))
        assert free.feature_kernel_.features.rank == rank
        assert free.objective_ == stated.objective_
    other = clone(default).set_params(features=Lines())
    assert (default.get_params()["rank"], other.fit(X, Y[:, 0]).feature_kernel_.features.rank) == (None, 4)


@pytest.mark.parametrize("features", ["fourier", "mercer"])
def test_a_projection_needs_a_column_that_varies(features: str) -> None:
    words = "X: expected a column that varies, for a projection of X, got 3 constant ones"
    with pytest.raises(ValueError, match=words):
        LowRankGP(features, 6, dim=2).fit(np.ones((30, 3)), np.arange(30.0))
