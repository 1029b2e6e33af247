"""PAC-Bayes bounds and certificates of rows in partitions are those of the same rows in arrays."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from fitting import PACGP, ExactGP, RenyiGP, SparseGP, SparsePACGP, certify
from fitting.bounds import free_bound, risk_bound
from fitting.estimators import load
from fitting.objectives.laws import FamilyLaw, FreeLaw
from fitting.objectives.objective import Objective, at_point, member
from fitting.rows.data import Held
from gpbounds.kernels import SquaredExponential
from gpbounds.losses import Band, Relative, Squared
from gpbounds.pacbayes import Certificate, Exact, HyperGrid, Scaling, Sparse, Whitened
from gpbounds.pacbayes.certificate import priors
from gpbounds.rows import Source, source
from gpbounds.rows.engines import Local
from gpbounds.rows.formats import ArrayPart, array_parts

KERNEL = SquaredExponential(1.3, [0.7, 1.4])
GRID = HyperGrid.shared(-3.0, 3.0, 60)
UNEVEN = (1, 250, 9, 240)


def problem(N: int = 500, M: int = 12):
    rng = np.random.default_rng(0)
    X = rng.uniform(-2.0, 2.0, (N, 2))
    return X, np.sin(2.0 * X[:, 0]) * X[:, 1] + 0.1 * rng.standard_normal(N), X[:M] + 1e-3


def in_parts(X, y, sizes=UNEVEN) -> Source:
    edges = np.concatenate([[0], np.cumsum(sizes)])
    parts = [ArrayPart(X, y, i, slice(*edges[i : i + 2])) for i in range(len(sizes))]
    return Source.of(Local(parts), single=True)


def held(rows: Source) -> Held:
    return Held(rows.holder, rows.N, rows.D, rows.P, rows.single, np.zeros(1), np.ones(1))


def flat(evaluation):
    g = evaluation.gradient
    parts = [[evaluation.value, evaluation.total, evaluation.kl], g.kernel, g.likelihood, np.ravel(g.Z)]
    return np.concatenate(parts + [np.ravel(each) for each in (g.mean, g.factor, g.power) if each is not None])


@pytest.mark.parametrize("loss", [Band(0.6), Squared(1.0)], ids=repr)
@pytest.mark.parametrize(("method", "power"), [("fitc", None), ("vfe", None), ("pep", 0.3)])
def test_a_bound_over_partitions_has_the_value_and_derivatives_of_one_array(method, power, loss) -> None:
    X, y, Z = problem()
    expected = risk_bound(X, y, loss, delta=0.05, method=method, power=power, log_prior_penalty=3.0)
    point = at_point(KERNEL, 0.1, Z)
    for sizes, rtol in (((500,), 0.0), (UNEVEN, 1e-8)):
        over = Objective(held(in_parts(X, y, sizes)), FamilyLaw(member(method, power=power)), expected.goal)
        np.testing.assert_allclose(flat(over.minimised(point)), flat(expected.minimised(point)), rtol=rtol)
        assert over.minimised(point, gradient=False).value == pytest.approx(expected.terms_at(point).bound, rel=1e-12)
        assert over.terms_at(point).risk == pytest.approx(expected.terms_at(point).risk, rel=1e-12)
    with pytest.raises(ValueError, match="partitions are read in full"):
        over.batch(np.arange(3))


def test_a_bound_with_a_trained_power_over_partitions() -> None:
    X, y, Z = problem()
    expected = risk_bound(X, y, Band(0.6), delta=0.05)
    over = Objective(held(in_parts(X, y, UNEVEN)), FamilyLaw(member("vfe")), expected.goal)
    point = replace(at_point(KERNEL, 0.1, Z), power=1.7)
    numbers = flat(expected.minimised(point))
    assert numbers.size == flat(expected.minimised(at_point(KERNEL, 0.1, Z))).size + 1
    np.testing.assert_allclose(flat(over.minimised(point)), numbers, rtol=1e-8)


def test_a_bound_of_a_free_posterior_over_partitions() -> None:
    X, y, Z = problem()
    expected = free_bound(X, y, Band(0.6), delta=0.05)
    over = Objective(held(in_parts(X, y)), FreeLaw(), expected.goal)
    start = at_point(KERNEL, 0.1, Z)
    point, own = expected.complete(start), over.complete(start)
    np.testing.assert_allclose(own.q.mean, point.q.mean, rtol=1e-9)
    moved = replace(point, q=replace(point.q, mean=point.q.mean + 0.1))
    np.testing.assert_allclose(flat(over.minimised(moved)), flat(expected.minimised(moved)), rtol=1e-8, atol=1e-14)
    values = [each.minimised(moved, gradient=False).value for each in (over, expected)]
    assert values[0] == pytest.approx(values[1], rel=1e-12)


def on_grid():
    return priors.with_hyperparameters(SquaredExponential(1.0, 0.7), GRID.round([1.3, 0.8]))


@pytest.mark.parametrize("posterior", ["fitc", "vfe", "whitened"])
def test_a_certificate_does_not_depend_on_how_rows_are_read(tmp_path, posterior) -> None:
    X, y, Z = problem()
    np.save(tmp_path / "X.npy", X)
    np.save(tmp_path / "y.npy", y)
    forms = {"fitc": Sparse(Z, 0.1, 1.0), "vfe": Sparse(Z, 0.1), "whitened": Whitened(Z, np.ones(12), 0.1 * np.eye(12))}
    units = Scaling("fixed in advance", 0.2, 2.0)
    options = {"grid": GRID, "loss": Band(0.6), "delta": 0.05, "inputs": units, "outputs": units}
    files, parts = (tmp_path / "X.npy", str(tmp_path / "y.npy")), (in_parts(X, y), None)
    expected = Certificate.issue(X, y, forms[posterior], on_grid(), **options)
    for rows in (files, parts):
        result = Certificate.issue(*rows, forms[posterior], on_grid(), **options)
        assert result.data == expected.data
        assert result.risk == pytest.approx(expected.risk, rel=1e-9)  # with its proved error, which chunks change
        assert result.kl == pytest.approx(expected.kl, rel=1e-10)
        for data in ((X, y), files, parts):
            assert result.check(*data).confirmed
            assert expected.check(*data).confirmed
    y[7] = np.nextafter(y[7], 9.0)
    report = expected.check(in_parts(X, y))
    assert [line.name for line in report.lines if line.state == "failed"] == ["data"]
    changed = replace(expected, risk=expected.risk - 1e-3).sealed()
    assert "risk" in [line.name for line in changed.check(*files).lines if line.state == "failed"]


def test_constants_that_come_from_the_same_rows_are_doubted() -> None:
    X, y, Z = problem()
    for ddof in (0, 1):
        units = Scaling("disjoint split", X.mean(axis=0), X.std(axis=0, ddof=ddof))
        options = {"grid": GRID, "loss": Band(0.6), "delta": 0.05, "inputs": units}
        certificate = Certificate.issue(X, y, Sparse(Z, 0.1, jitter=1e-6), on_grid(), **options)
        for data in ((X, y), (in_parts(X, y), None)):
            assert "doubt" in [line.name for line in certificate.check(*data).lines]
    units = Scaling("disjoint split", X.mean(axis=0) + 1e-6, X.std(axis=0))
    certificate = replace(certificate, inputs=units).sealed()
    assert "doubt" not in [line.name for line in certificate.check(in_parts(X, y)).lines]


def test_what_a_certificate_refuses(tmp_path) -> None:
    X, y, Z = problem()
    options = {"grid": GRID, "loss": Band(0.6), "delta": 0.05}
    with pytest.raises(ValueError, match="needs all rows in memory"):
        Certificate.issue(in_parts(X, y), None, Exact(0.1), on_grid(), **options)
    for wrong in (X.astype(np.float32), np.where(X > 0.0, 2**53, 0)):
        with pytest.raises(ValueError, match="identifies the exact numbers"):
            Certificate.issue(in_parts(wrong, y), None, Sparse(Z, 0.1), on_grid(), **options)
    with pytest.raises(ValueError, match="identifies the exact numbers"):
        Certificate.issue(in_parts(X, y.astype(np.float32)), None, Sparse(Z, 0.1), on_grid(), **options)
    whole = Certificate.issue(in_parts(X.round().astype(int), y), None, Sparse(Z, 0.1), on_grid(), **options)
    assert whole.check(X.round() + 0.0, y).confirmed
    several = Source.of(Local(array_parts(X, X)), single=False)
    with pytest.raises(ValueError, match="one target a row"):
        Certificate.issue(several, None, Sparse(Z, 0.1), on_grid(), **options)
    with pytest.raises(ValueError, match="y: expected"):
        Certificate.issue(in_parts(X, 0.0 * y), None, Sparse(Z, 0.1), on_grid(), **{**options, "loss": Relative(0.5)})


SHORT = {"n_inducing": 8, "max_iter": 4, "random_state": 0, "epsilon": 0.6, "delta": 0.05}


def test_reading_partitions_changes_no_argument() -> None:
    assert SparsePACGP().tol == PACGP().tol == 0.001
    own = {"n_inducing", "inducing", "learn_inducing", "posterior", "power", "fewer", "batch_size"}
    assert SparsePACGP().get_params().keys() - own == PACGP().get_params().keys()


@pytest.mark.broad
@pytest.mark.parametrize(
    ("posterior", "power"),
    [("fitc", None), pytest.param("interpolated", "trained", marks=pytest.mark.slow), ("free", None)],
)
def test_a_model_trained_by_its_bound_over_partitions(tmp_path, posterior, power) -> None:
    X, y, _ = problem(300)
    np.save(tmp_path / "X.npy", X)
    np.save(tmp_path / "y.npy", y)
    files = tmp_path / "X.npy", tmp_path / "y.npy"
    constants = Scaling("fixed in advance", 0.1, 1.5), Scaling("fixed in advance", -0.2, 2.0)
    options = {**SHORT, "posterior": posterior, "power": power, "scaling": constants}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        local = SparsePACGP(**options).fit(X, y)
        result = SparsePACGP(**options).fit(*files)
        pieces = SparsePACGP(**options).fit(in_parts(X, y, (100, 1, 199)))
    assert result.bound_ == pytest.approx(local.bound_, rel=1e-6)  # rounding of the start, magnified by training
    assert pieces.bound_ == pytest.approx(local.bound_, rel=1e-3)
    for model in (local, result, pieces):
        assert model.certificate_.data == local.certificate_.data
        assert model.certificate_.check(X, y).confirmed
        assert model.certificate_.check(*files).confirmed
    assert result.X_train_.shape == (0, 2)
    np.testing.assert_allclose(result.predict(X[:9]), local.predict(X[:9]), atol=1e-4)
    result.save(tmp_path / "model.npz")
    again = load(tmp_path / "model.npz")
    np.testing.assert_array_equal(again.predict(X[:9]), result.predict(X[:9]))
    assert again.certificate_ == result.certificate_


def test_any_sparse_model_is_certified_from_its_rows_wherever_they_are(tmp_path) -> None:
    X, y, Z = problem(300)
    np.save(tmp_path / "X.npy", X)
    np.save(tmp_path / "y.npy", y)
    files = tmp_path / "X.npy", tmp_path / "y.npy"
    options = {"kernel": KERNEL, "noise": 0.1, "inducing": Z, "optimizer": None}
    local, far = SparseGP(**options).fit(X, y), SparseGP(**options).fit(*files)
    expected = certify(local, X, y, delta=0.05)
    for model, rows in ((local, files), (far, files), (far, (X, y)), (far, (in_parts(X, y, (99, 201)), None))):
        certificate = certify(model, *rows, delta=0.05)
        assert certificate.bound == pytest.approx(expected.bound, rel=1e-10)
        assert certificate.data == expected.data
    tempered = SparseGP(**options, beta=0.5).fit(*files)
    assert certify(tempered, *files, delta=0.05).data == expected.data
    for model, rows in ((local, (source(X, y + 0.01), None)), (far, (X, y + 0.01)), (far, (X[:200], y[:200]))):
        with pytest.raises(ValueError, match="the data that the model was trained on"):
            certify(model, *rows)
    with pytest.raises(ValueError, match="needs all rows in memory"):
        certify(ExactGP(kernel=KERNEL, noise=0.1, optimizer=None).fit(X, y), *files)
    with pytest.raises(ValueError, match="'vfe', 'fitc', 'dtc' or 'pep'"):
        certify(RenyiGP(alpha=0.5, **options).fit(X, y), *files)


def test_mini_batches_of_a_free_posterior_read_a_copy_on_disk(tmp_path) -> None:
    X, y, _ = problem(300)
    np.save(tmp_path / "X.npy", X)
    np.save(tmp_path / "y.npy", y)
    files = tmp_path / "X.npy", tmp_path / "y.npy"
    options = {**SHORT, "posterior": "free", "batch_size": 50, "optimizer": "adam"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        local, result = SparsePACGP(**options).fit(X, y), SparsePACGP(**options).fit(*files)
    assert result.certificate_ == local.certificate_
    assert result.certificate_.check(*files).confirmed
    with pytest.raises(ValueError, match="identifies the exact numbers"):
        SparsePACGP(**options).fit(in_parts(X.astype(np.float32), y))
