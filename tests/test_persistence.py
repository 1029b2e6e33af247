"""A saved and loaded model equals the original."""

from __future__ import annotations

import json

import numpy as np
import pytest

import fitting
from fitting import PACGP, ExactGP, LowRankGP, RenyiGP, SparseGP, SparsePACGP
from fitting.archive import read_archive, write_archive
from fitting.estimators import saving
from fitting.estimators.base import GaussianProcess
from fitting.estimators.fingerprint import fingerprint
from fitting.features import Mercer
from gpbounds import Matern, SquaredExponential
from gpbounds.kernels import Kernel

RNG = np.random.default_rng(0)
X = RNG.uniform(-2.0, 2.0, (50, 2))
Y = np.column_stack([np.sin(2.0 * X[:, 0]) + 3.0, 10.0 * np.cos(X[:, 1])]) + 0.1 * RNG.standard_normal((50, 2))
NEW = RNG.uniform(-3.0, 3.0, (9, 2))
KERNEL = Matern(1.7, 0.3, [0.1 + 0.2, 1.4]) * SquaredExponential(1.0 / 3.0, 7.0) + Matern(0.5, 0.1, 2.0)

MODELS = [
    ExactGP(random_state=np.random.RandomState(3)),
    ExactGP(Matern(2.5, 1.0, [1.0, 1.0]), 0.1, normalize_y=True, fixed=("variance",), limits={"noise": (1e-3, 1.0)}),
    RenyiGP(0.3, n_inducing=7, random_state=np.int64(3)),
    SparseGP("vfe", KERNEL, 0.1, n_inducing=9, optimizer=None),
    SparseGP("vfe", n_inducing=6, normalize_y=True, optimizer="adam"),
    SparseGP("fitc", inducing=X[:5] + 0.1, learn_inducing=False),
    SparseGP("pic", n_inducing=6, block_size=10),
    SparseGP("vfe", n_inducing="auto", target_gap=50.0),
    SparseGP("vfe", n_inducing=8, inducing="best", draws=3),
]


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("outputs", [1, 2])
@pytest.mark.parametrize("model", MODELS, ids=range(len(MODELS)))
def test_predictions_are_the_same_bit_for_bit(model, outputs, tmp_path):
    model.set_params(max_iter=4).fit(X, Y[:, 0] if outputs == 1 else Y)
    model.save(tmp_path / "model")
    again = fitting.load(tmp_path / "model")
    assert type(again) is type(model)
    for before, after in zip(model.predict(NEW, return_cov=True), again.predict(NEW, return_cov=True), strict=True):
        assert (before == after).all()
    assert (model.predict(NEW, return_std=True)[1] == again.predict(NEW, return_std=True)[1]).all()
    assert (model.sample_y(NEW, 3) == again.sample_y(NEW, 3)).all()
    attributes = {name: value for name, value in vars(model).items() if name.endswith("_") and name != "posterior_"}
    for name, value in attributes.items():
        if name == "runs_":
            assert [(r.value, r.values, r.status, r.reason) for r in again.runs_] == [
                (r.value, r.values, r.status, r.reason) for r in value
            ]
        elif name == "bound_":
            assert again.bound_.to_dict() == value.to_dict()
        else:
            assert type(getattr(again, name)) is type(value)
            assert np.all(getattr(again, name) == value), name
    for name, value in model.get_params().items():
        if name != "random_state":
            assert np.all(getattr(again, name) == value), name
    assert again.random_state == (3 if isinstance(model, RenyiGP) else None)
    for before, after in zip(model.log_evidence_bounds(), again.log_evidence_bounds(), strict=True):
        assert float(before) == float(after)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_saved_model_holds_no_pickle_and_trains_on(tmp_path):
    path = tmp_path / "a file.model"
    model = SparseGP(n_inducing=5, max_iter=10, checkpoint=tmp_path / "c").fit(X, Y[:, 0])
    model.save(path)
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        "a file.model",
        "c",
    ]  # the name is unchanged, and no partial file is left
    with np.load(path, allow_pickle=False) as file:
        about = json.loads(file["about"].tobytes())
        assert all(file[name].dtype.kind in "fiu" for name in file.files)
    assert (about["kind"], about["version"], about["class"]) == ("model", 1, "SparseGP")
    again = SparseGP.load(str(path)).set_params(checkpoint=None, max_iter=500).fit(X, Y[:, 0])
    assert again.objective_ >= model.objective_


def test_what_is_not_a_model_is_refused(tmp_path):
    path = tmp_path / "model"
    with pytest.raises(FileNotFoundError):
        fitting.load(path)
    path.write_bytes(b"PK\x03\x04 nothing")
    with pytest.raises(ValueError, match="path: expected a model written by fitting"):
        fitting.load(path)
    ExactGP(SquaredExponential(), 0.1, optimizer=None).fit(X, Y[:, 0]).save(path)
    with pytest.raises(ValueError, match="path: expected a saved SparseGP, got a ExactGP"):
        SparseGP.load(path)
    assert isinstance(GaussianProcess.load(path), ExactGP)
    write_archive(path, {"kind": "checkpoint", "version": 1}, {})
    with pytest.raises(ValueError, match="expected a model, got a checkpoint"):
        fitting.load(path)
    write_archive(path, {"kind": "model", "version": 99}, {})
    with pytest.raises(ValueError, match="expected version 1 of a model, got 99"):
        fitting.load(path)


def test_a_kernel_of_one_s_own_is_not_saved(tmp_path):
    class Constant(Kernel):
        max_variance = 1.0
        parameter_names = ("one",)
        log_parameters = np.zeros(1)

        def __call__(self, X1, X2=None):
            return np.ones((len(X1), len(X1 if X2 is None else X2)))

        def diag(self, X):
            return np.ones(len(X))

        def with_log_parameters(self, values):
            return self

    model = ExactGP(Constant(), 0.1, optimizer=None).fit(X, Y[:, 0])
    with pytest.raises(ValueError, match=r"kernel: expected one of SquaredExponential, Matern, .* got Constant"):
        model.save(tmp_path / "model")
    assert not list(tmp_path.iterdir())


def test_an_unfitted_model_is_not_saved(tmp_path):
    from sklearn.exceptions import NotFittedError

    with pytest.raises(NotFittedError):
        ExactGP().save(tmp_path / "model")


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(
    "model",
    [PACGP(relaxation="pinsker", optimizer=None), SparsePACGP(5, "vfe", relaxation="pinsker", optimizer=None)],
    ids=["full", "sparse"],
)
def test_files_with_former_names_of_arguments_are_read(model, tmp_path):
    model.fit(X, Y[:, 0] - 3.0)
    model.save(tmp_path / "present")
    about, arrays = read_archive(tmp_path / "present", "model", 1)
    about["arguments"] = {saving.FORMER.get(name, name): value for name, value in about["arguments"].items()}
    assert "objective" in about["arguments"]
    write_archive(tmp_path / "former", about, arrays)
    again = fitting.load(tmp_path / "former")
    assert again.get_params() == model.get_params()
    assert (again.predict(NEW) == model.predict(NEW)).all()


@pytest.mark.parametrize(
    ("model", "digest"),
    [
        (
            SparseGP("fitc", n_inducing=3, start="scale", inducing="greedy"),
            "7f43744afe374082adae9ca73a5ba0b15ef4b88646493608c87723d902890bbb",
        ),
        (
            RenyiGP(0.5, n_inducing=3, start="scale", inducing="greedy"),
            "36591eaf2c66f9078bf942004eca336a5deb120cafae21d00fbfa94192f6a98e",
        ),
        (
            SparsePACGP(3, "vfe", relaxation="pinsker", start="scale", inducing="greedy", fewer=False),
            "ab74a7293c59c62b5483d47ffd21a3a859269b677a0947746e250d52f8c9e067",
        ),
    ],
    ids=["sparse", "renyi", "pac"],
)
def test_checkpoints_of_earlier_versions_are_continued(model, digest):
    """The fingerprints before arguments were renamed or added, with the start of that time."""
    assert fingerprint(model, np.arange(6.0).reshape(3, 2), np.ones((3, 1))) == digest


def test_the_default_rank_keeps_its_fingerprint():
    """Checkpoints hold rank=100, which was the default before None."""
    data = np.arange(6.0).reshape(3, 2), np.ones((3, 1))
    default, other = (fingerprint(LowRankGP(rank=rank), *data) for rank in (None, 30))
    assert default == fingerprint(LowRankGP(rank=100), *data) != other


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(
    ("features", "former", "present"),
    [(Mercer(4), {"rank": 100}, {"rank": None}), ("fourier", {"rank": 4, "order": "best"}, {"order": "degree"})],
    ids=["an object", "fourier"],
)
def test_files_with_arguments_that_were_ignored_are_read(features, former, present, tmp_path):
    """A model that is loaded can be trained again, although such arguments are an error now."""
    model = LowRankGP(features, optimizer=None, random_state=0, rank=present.get("rank", 4)).fit(X, Y[:, 0])
    model.save(tmp_path / "present")
    about, arrays = read_archive(tmp_path / "present", "model", 1)
    about["arguments"] |= former
    write_archive(tmp_path / "former", about, arrays)
    again = fitting.load(tmp_path / "former")
    assert {name: again.get_params()[name] for name in present} == present
    assert again.fit(X, Y[:, 0]).objective_ == model.objective_


def test_a_new_argument_enters_the_fingerprint_once_it_matters():
    data = np.arange(6.0).reshape(3, 2), np.ones((3, 1))
    assert len({fingerprint(SparseGP(inducing="best", draws=draws), *data) for draws in (3, 10, 11)}) == 3
