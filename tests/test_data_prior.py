"""Priors from a share of the rows: estimators, units, streams, imported models, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fitting import (
    PACGP,
    ExactGP,
    LowRankGP,
    SparseGP,
    SparsePACGP,
    VariationalGP,
    VariationalGPClassifier,
    load,
)
from fitting.certifying.data_prior import data_prior, prior_of
from fitting.data_priors import updates
from fitting.data_priors.prior_law import one_point
from fitting.data_priors.updates import Aim, engine_of, update
from gpbounds import Matern, SquaredExponential
from gpbounds.kernels import Linear
from gpbounds.losses import Band, Sign
from gpbounds.pacbayes import DeclaredMean, HyperGrid, MeanGrid, Scaling, Split, kl_inverse, xi
from gpbounds.pacbayes.certificate.rows import Arrays, Partitions, raw
from gpbounds.renyi import Model
from gpbounds.renyi.models import InducingLaw
from gpbounds.rows import source

pytestmark = [
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
    pytest.mark.usefixtures("short_pilots"),
]

KERNEL = SquaredExponential(1.0, 1.0)
SETTINGS: dict[str, Any] = {"epsilon": 0.5, "delta": 0.05, "prior": "data", "kernel": KERNEL, "max_iter": 20}


def rows_of(N: int = 120, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.uniform(0.0, 6.0, (N, 1))
    return X, 3.0 + 2.0 * np.sin(X[:, 0]) + 0.2 * rng.standard_normal(N)


def gibbs(model: Any, update_: Any, X: np.ndarray, y: np.ndarray, loss: Any) -> float:
    """The mean loss of Q by its posterior, in the units of the model."""
    mean, variance = update_.posterior(0.1).predict(X)
    return float(loss.expectation(y, mean, variance).mean())


# ------------------------------------------------------------------ the estimators


def test_pacgp_with_a_prior_from_data_certifies_the_other_rows_and_predicts_with_q(tmp_path):
    X, y = rows_of()
    model = PACGP(scaling="prior", random_state=3, **SETTINGS).fit(X, y)
    split = Split("random", 0.5, 3)
    prior = split.prior(120)
    assert model.split_ == split
    assert model.certificate_.rows == 60
    assert model.certificate_.method == "data-prior"
    assert model.grid_.size == 1
    for scaling, values in ((model.inputs_, X[prior, 0]), (model.outputs_, y[prior])):
        assert scaling.origin == "disjoint split"
        assert np.ravel((scaling.shift, scaling.scale)) == pytest.approx([values.mean(), values.std()], rel=1e-14)
    report = model.certificate_.check(X, y)
    assert report.confirmed, str(report)
    mean, std = model.predict(X, return_std=True)
    scale = model.outputs_.scale
    own = (y - model.outputs_.shift) / scale, (mean - model.outputs_.shift) / scale, (std / scale) ** 2
    risk = Band(0.5).expectation(*own)[~prior].mean()
    assert risk <= model.risk_ <= risk + 1e-5  # with allowances for rounding
    assert model.bound_ >= kl_inverse(model.risk_, (model.kl_ + np.log(xi(60) / 0.05)) / 60) * (1.0 - 1e-12)
    model.save(tmp_path / "model.npz")
    read = load(tmp_path / "model.npz")
    np.testing.assert_array_equal(read.predict(X, return_std=True)[1], std)
    assert (read.split_, read.bound_, read.prior) == (split, model.bound_, "data")


def test_several_accuracies_share_one_prior_and_are_charged():
    X, y = rows_of()
    model = SparsePACGP(6, **(SETTINGS | {"epsilon": (0.5, 1.0)})).fit(X, y)
    first, second = model.models()
    assert [each.certificate_.loss for each in (first, second)] == [Band(0.5), Band(1.0)]
    assert [c.log_count for c in model.certificates_] == pytest.approx([np.log(2.0)] * 2)
    assert second.bound_ < first.bound_
    np.testing.assert_array_equal(first.inducing_, second.inducing_)
    assert all(c.check(X, y).confirmed for c in model.certificates_)


def test_the_first_rows_are_the_prior_s_if_their_order_is_that_of_time():
    X, y = rows_of()
    model = SparsePACGP(6, order="as given", share=0.25, mean="constant", **SETTINGS).fit(X, y)
    assert model.split_.prior(120).tolist() == [True] * 30 + [False] * 90
    assert model.certificate_.rows == 90
    changed = y.copy()
    changed[30:] += 5.0  # P does not depend on the certified rows
    other = SparsePACGP(6, order="as given", share=0.25, mean="constant", **SETTINGS).fit(X, changed)
    np.testing.assert_array_equal(other.inducing_, model.inducing_)
    for name in ("prior_mean", "prior_factor"):
        np.testing.assert_array_equal(
            getattr(other.certificate_.posterior, name), getattr(model.certificate_.posterior, name)
        )
    assert other.certificate_.mean == model.certificate_.mean
    assert model.certificate_.mean.origin == "disjoint split"
    assert other.bound_ > model.bound_


@pytest.mark.parametrize("posterior", ["fitc", "vfe", "interpolated", "free"])
def test_each_posterior_names_the_evidence_that_trains_the_prior(posterior):
    X, y = rows_of(60)
    model = SparsePACGP(4, posterior=posterior, **SETTINGS).fit(X, y)
    method = {"fitc": "fitc", "vfe": "vfe", "interpolated": "pep", "free": "vfe"}[posterior]
    prior = Split().prior(60)
    alone = SparseGP(method, KERNEL, n_inducing=4, max_iter=20).fit(X[prior], y[prior])
    assert model.noise_ == alone.noise_
    np.testing.assert_array_equal(model.inducing_, alone.inducing_)
    np.testing.assert_allclose(model.kernel_.log_parameters, alone.kernel_.log_parameters, rtol=1e-12)


def test_rows_in_partitions_give_the_certificate_of_arrays(tmp_path):
    X, y = rows_of(90)
    np.save(tmp_path / "X.npy", X)
    np.save(tmp_path / "y.npy", y)
    options = SETTINGS | {"optimizer": None, "scaling": "prior"}
    model = SparsePACGP(5, **options).fit(X, y)
    streamed = SparsePACGP(5, **options).fit(str(tmp_path / "X.npy"), str(tmp_path / "y.npy"))
    assert streamed.certificate_.data == model.certificate_.data
    assert streamed.bound_ == pytest.approx(model.bound_, rel=1e-6)
    assert streamed.certificate_.check(X, y).confirmed


def test_without_an_optimiser_q_is_the_update_alone():
    X, y = rows_of()
    model = SparsePACGP(6, **(SETTINGS | {"optimizer": None})).fit(X, y)
    assert all(run.iterations == 0 for run in model.runs_)
    assert model.certificate_.check(X, y).confirmed


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"prior": "rows"}, "prior: expected"),
        ({"grid": HyperGrid.shared()}, "grid: expected None for prior='data'"),
        ({"share": 1.0}, "share: expected"),
        ({"order": "sorted"}, "order: expected"),
        ({"mean": MeanGrid("constant", 2.0, 4)}, "mean: expected 'zero', 'constant' or 'linear'"),
        ({"prior": "grid", "scaling": "prior"}, "scaling: expected 'as given'"),
        ({"prior": "grid", "mean": "constant"}, "mean: expected 'zero', or a DeclaredMean"),
    ],
)
def test_arguments_that_do_not_fit_the_prior_are_refused(arguments, words):
    X, y = rows_of(20)
    with pytest.raises(ValueError, match=words):
        PACGP(**(SETTINGS | arguments)).fit(X, y)


def test_the_exact_prior_is_refused_above_1500_rows_before_it_is_trained():
    X, y = rows_of(1502)
    with pytest.raises(ValueError, match="at most 1500 rows"):
        PACGP(**SETTINGS).fit(X, y)
    model = ExactGP(KERNEL, 0.1, optimizer=None).fit(X[:2], y[:2])
    with pytest.raises(ValueError, match="at most 1500 rows for the prior of an exact GP, 2 of"):
        prior_of(model, raw(X[2:], y[2:]))


# ------------------------------------------------------------------ priors of trained models


def certified(model: Any, rows: Any, **options: Any) -> Any:
    ((certificate, updated),) = data_prior(model, rows, [options.pop("loss", Band(0.5))], delta=0.05, **options)
    return certificate, updated


@pytest.mark.parametrize(
    "model",
    [
        ExactGP(KERNEL, 0.1, optimizer=None),
        SparseGP("vfe", KERNEL, 0.1, n_inducing=6, max_iter=5),
        SparseGP("fitc", Matern(1.5, 1.0, 1.0), 0.1, n_inducing=6, max_iter=5, mean="linear"),
        VariationalGP(n_inducing=6, kernel=KERNEL, max_iter=20),
        SparsePACGP(4, kernel=KERNEL, max_iter=5),
    ],
    ids=["exact", "vfe", "fitc", "variational", "pac"],
)
def test_q_of_every_model_is_near_its_predictions_and_its_certificate_is_confirmed(model):
    X, y = rows_of()
    trained = model.fit(X[:60], y[:60])
    certificate, updated = certified(trained, raw(X[60:], y[60:]))
    assert certificate.split is None
    assert certificate.check(X[60:], y[60:]).confirmed
    own = np.asarray(trained.predict(X[60:]))
    mean = 0.0 if certificate.mean is None else certificate.mean.function(X[60:])
    at_prior = updated.prior.features(X[60:])[0] + mean
    np.testing.assert_allclose(at_prior, own, atol=1e-5)


def test_normalised_targets_are_those_of_the_loss_again():
    X, y = rows_of()
    plain = SparseGP("vfe", KERNEL, 0.1, n_inducing=6, max_iter=30, normalize_y=True).fit(X[:60], y[:60])
    certificate, updated = certified(plain, raw(X[60:], y[60:]))
    assert certificate.outputs == Scaling()
    assert certificate.mean == DeclaredMean("disjoint split", float(plain.y_mean_[0]))
    mean, phi, residual = updated.prior.features(X[60:])
    own, std = plain.predict(X[60:], return_std=True)
    np.testing.assert_allclose(mean + plain.y_mean_[0], own, rtol=1e-7)
    np.testing.assert_allclose(np.sqrt(residual + (phi**2).sum(axis=1)), std, rtol=1e-6)
    summed = SparseGP("vfe", KERNEL + Linear(1.0), 0.1, n_inducing=6, optimizer=None, normalize_y=True)
    summed.fit(X[:60], y[:60])
    certificate, updated = certified(summed, raw(X[60:], y[60:]))
    assert certificate.check(X[60:], y[60:]).confirmed
    np.testing.assert_allclose(updated.prior.features(X[60:])[0] + summed.y_mean_[0], summed.predict(X[60:]), rtol=1e-6)


@pytest.mark.parametrize("whitened", [True, False])
def test_an_imported_law_of_u_is_a_prior(whitened):
    X, y = rows_of()
    trained = SparseGP("vfe", KERNEL, 0.1, n_inducing=5, max_iter=10).fit(X[:60], y[:60] - 3.0)
    posterior: Any = trained.posterior_
    jitter = float(max(trained.jitter_, 1e-9))
    mean, factor = posterior.q.mean[:, 0], posterior.q.factor
    if not whitened:
        L = np.linalg.cholesky(trained.kernel_(trained.inducing_) + jitter * np.eye(5))
        mean, factor = L @ mean, np.linalg.cholesky(L @ factor @ factor.T @ L.T)
    law = InducingLaw(mean, factor, whitened, jitter)
    imported = Model(trained.kernel_, trained.noise_, trained.inducing_, q=law)
    certificate, updated = certified(imported, raw(X[60:], y[60:] - 3.0))
    assert certificate.check(X[60:], y[60:] - 3.0).confirmed
    np.testing.assert_allclose(updated.prior.features(X[60:])[0], trained.predict(X[60:]), atol=1e-4)
    with pytest.raises(ValueError, match=r"expected one with the law q\(u\)"):
        prior_of(Model(trained.kernel_, trained.noise_, trained.inducing_))


def test_labels_have_the_gibbs_risk_of_a_classifier_s_own_law_or_less():
    rng = np.random.default_rng(5)
    X = rng.uniform(0.0, 6.0, (160, 1))
    y = np.where(np.sin(X[:, 0]) + 0.2 * rng.standard_normal(160) > 0.0, "up", "down")
    signs = np.where(y == "up", 1.0, -1.0)
    model = VariationalGPClassifier(6, kernel=KERNEL, max_iter=40, random_state=0).fit(X[:80], y[:80])
    own, std = model.latent(X[80:], return_std=True)
    risk = float(Sign().expectation(signs[80:], own, std**2).mean())
    options: dict[str, Any] = {"loss": Sign(), "classes": ("down", "up")}
    certificate, updated = certified(model, raw(X[80:], signs[80:]), **options)
    assert certificate.check(X[80:], y[80:]).confirmed
    assert updated.bound <= kl_inverse(risk, np.log(xi(80) / 0.05) / 80) * (1.0 + 1e-6)
    vote, _ = certified(model, raw(X[80:], signs[80:]), predictor="mean", **options)
    assert vote.tandem is not None
    assert vote.check(X[80:], y[80:]).confirmed
    with pytest.raises(ValueError, match="expected one in the units of f"):
        certified(model, raw(X[80:], signs[80:]))


@pytest.mark.parametrize("exact", [True, False], ids=["exact", "sparse"])
def test_the_prior_is_the_same_law_of_f_whatever_the_certified_rows_are(exact):
    """Certified inputs that repeat those of the prior, or lie where they please, change no prediction of P."""
    X, y = rows_of()
    model: Any = (
        ExactGP(KERNEL, 0.1, optimizer=None) if exact else SparseGP("vfe", KERNEL, 0.1, n_inducing=6, max_iter=5)
    )
    model.fit(X[:60], y[:60])
    new = np.linspace(-1.0, 7.0, 30)[:, None]
    alone = prior_of(model).laws[0]
    own, own_phi, own_residual = alone.features(new)
    variance = own_residual + (own_phi**2).sum(axis=1)
    np.testing.assert_allclose(own, model.predict(new), atol=1e-3)
    for others in (X[60:], X[:60], X[:60] + 1e-9, np.linspace(-9.0, 9.0, 60)[:, None]):
        prior = prior_of(model, raw(others, y[60:]))
        assert len({law.jitter for law in prior.laws}) == 1
        assert prior.laws[0].jitter == alone.jitter
        for law in prior.laws:
            mean, phi, residual = law.features(new)
            np.testing.assert_allclose(mean, own, atol=1e-7)
            np.testing.assert_allclose(residual + (phi**2).sum(axis=1), variance, atol=1e-7)
        certificate, _ = certified(model, raw(others, y[60:]))
        assert certificate.check(others, y[60:]).confirmed


def test_models_without_such_a_law_are_refused():
    X, y = rows_of(60)
    with pytest.raises(ValueError, match="LowRankGP has features in place of a kernel"):
        prior_of(LowRankGP(rank=10, max_iter=5).fit(X, y))
    with pytest.raises(ValueError, match="PIC predicts with the rows of a block"):
        prior_of(SparseGP("pic", KERNEL, 0.1, n_inducing=4, max_iter=2).fit(X, y))
    with pytest.raises(ValueError, match="expected one output, got 2"):
        prior_of(SparseGP("vfe", KERNEL, 0.1, n_inducing=4, max_iter=2).fit(X, np.column_stack([y, y])))
    with pytest.raises(ValueError, match="held-out"):
        prior_of(object())


# ------------------------------------------------------------------ the update


def test_a_sample_stands_for_rows_that_do_not_fit_and_the_terms_are_those_of_all_rows(monkeypatch):
    X, y = rows_of(600)
    trained = SparseGP("vfe", KERNEL, 0.1, n_inducing=6, max_iter=10).fit(X[:100], y[:100])
    prior = prior_of(trained)
    rows = source(X[100:], y[100:])
    engine = engine_of(Partitions(rows), Scaling(), Scaling(), None)
    monkeypatch.setattr(updates, "KEPT", 8 * 6 * 100)
    aim = Aim(Band(0.5), 500, 0.05)
    updated = update(prior.laws[0], engine, aim)
    mean, variance = updated.posterior(0.1).predict(X[100:])
    losses = Band(0.5).expectation(y[100:], mean, variance)
    assert updated.risk == pytest.approx(losses.mean(), rel=1e-9)
    assert updated.tandem == pytest.approx((losses**2).mean(), rel=1e-9)
    whole = update(prior.laws[0], engine_of(Arrays(X[100:], y[100:]), Scaling(), Scaling(), None), aim)
    assert updated.bound <= 1.05 * whole.bound


def test_a_dask_array_gives_the_certificate_of_arrays_in_memory():
    da = pytest.importorskip("dask.array")
    X, y = rows_of(150)
    trained = SparseGP("vfe", KERNEL, 0.1, n_inducing=5, max_iter=10).fit(X[:50], y[:50])
    rows = Partitions(source(da.from_array(X[50:], chunks=(40, 1)), da.from_array(y[50:], chunks=40)))
    streamed, _ = certified(trained, rows, trained=False)
    whole, _ = certified(trained, raw(X[50:], y[50:]), trained=False)
    assert streamed.data == whole.data
    assert streamed.bound == pytest.approx(whole.bound, rel=1e-6)


def test_the_grid_of_one_point_holds_every_hyperparameter():
    for kernel in (SquaredExponential(0.3, [0.1, 7.0]), Matern(2.5, 1e-8, 3e5) + SquaredExponential() * Linear(2.0)):
        grid, moved = one_point(kernel)
        assert grid.size == 1
        np.testing.assert_allclose(np.exp(moved.log_parameters), np.exp(kernel.log_parameters), rtol=1e-14)


@pytest.mark.parametrize("share", [1e-3, 0.5, 0.999])
@pytest.mark.parametrize("N", [2, 3, 10])
def test_a_split_leaves_a_row_on_either_side(share, N):
    split = Split("random", share, 0)
    assert 1 <= split.certified(N) <= N - 1
    assert split.prior(N).sum() == N - split.certified(N)
