"""Train, audit and train again agree: ``--inducing auto``, ``--keep-kernel``, and kernels in the units of the table."""

from __future__ import annotations

import json
import re
import shlex

import numpy as np
import pytest

import fitting
from gpbounds import Matern, SquaredExponential
from gpbounds.cli import kept, main, models
from gpbounds.cli.options import UsageError
from gpbounds.likelihoods import Gaussian
from gpbounds.means import LinearMean
from gpbounds.renyi import Model

COLUMNS = "area,age,price"


@pytest.fixture(autouse=True)
def undrawn(monkeypatch):
    class Blank:
        def savefig(self, path):
            path.write_bytes(b"\x89PNG")

    monkeypatch.setattr(models, "picture", lambda result: Blank())


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A smooth table, and a rough one, far from standardised."""
    place = tmp_path_factory.mktemp("loop")
    for name, N, short in (("smooth", 160, 30.0), ("rough", 130, 6.0)):
        rng = np.random.default_rng(1)
        area, age = rng.uniform(20.0, 200.0, N), rng.uniform(0.0, 1.0, N)
        price = 3000.0 + 400.0 * (np.sin(area / short) + 2.0 * age) + 40.0 * rng.standard_normal(N)
        lines = [f"{a!r},{b!r},{c!r}" for a, b, c in zip(area.tolist(), age.tolist(), price.tolist(), strict=True)]
        (place / f"{name}.csv").write_text("\n".join([COLUMNS, *lines]) + "\n", encoding="utf-8")
    return place


def run(capsys, *words):
    status = main([*map(str, words)])
    out, err = capsys.readouterr()
    return status, out, err


def answer(capsys, *words):
    status, out, err = run(capsys, *words, "--json")
    assert status == 0, err
    return json.loads(out)


def audited(capsys, file, folder, **options):
    words = [word for name, value in options.items() for word in (f"--{name}", value)]
    return answer(capsys, "audit", file, "--model", folder / "model.npz", "--out", folder / "a.html", *words)["enough"]


# ---------------------------------------------------------------------- one answer


@pytest.mark.parametrize("name", ["smooth", "rough"])
def test_a_model_trained_until_it_is_enough_is_enough(capsys, folder, tmp_path, name):
    file = folder / f"{name}.csv"
    record = answer(capsys, "train", file, "--inducing", "auto", "--nats", 0.5, "--out", tmp_path)
    assert record["inducing"]["gap"] <= 0.5
    assert any("within 0.5 nats" in note for note in record["notes"])
    loaded = fitting.load(tmp_path / "model.npz")
    assert (loaded.n_inducing, loaded.target_gap) == ("auto", 0.5)
    enough = audited(capsys, file, tmp_path)
    assert enough["verdict"] == "enough"
    assert enough["KL"][1]["value"] <= 0.5
    assert record["inducing"]["M"] == len(loaded.inducing_)


@pytest.mark.broad
@pytest.mark.parametrize(("name", "M"), [("smooth", 6), ("rough", 25)])
def test_the_number_that_an_audit_names_is_enough_with_the_kernel_kept(capsys, folder, tmp_path, name, M):
    """The K rows, or points of the model and rows, that an audit names are enough where its kernel is kept."""
    file, first = folder / f"{name}.csv", tmp_path / "first"
    answer(capsys, "train", file, "--inducing", M, "--out", first)
    before = audited(capsys, file, first)
    assert before["verdict"] == "not enough"
    for number in sorted({before["suffices"], before["chosen"], before["added"]} - {None}):
        second = tmp_path / str(number)
        record = answer(
            capsys, "train", file, "--keep-kernel", first / "model.npz", "--inducing", number, "--out", second
        )
        assert any("not trained" in note for note in record["notes"])
        one, two = (fitting.load(place / "model.npz") for place in (first, second))
        assert (one.kernel_, one.noise_) == (two.kernel_, two.noise_)
        after = audited(capsys, file, second)
        assert after["verdict"] == "enough"
        assert after["evidence"][0]["value"] == pytest.approx(before["evidence"][0]["value"], rel=1e-9)
    auto = tmp_path / "auto"
    answer(capsys, "train", file, "--keep-kernel", first / "model.npz", "--inducing", "auto", "--out", auto)
    assert len(fitting.load(auto / "model.npz").inducing_) == before["chosen"]


def test_a_plan_for_a_model_an_audit_and_training_name_one_number(capsys, folder, tmp_path):
    """The greedy rows that suffice for the kernel and the noise of one model."""
    file, first = folder / "smooth.csv", tmp_path / "first"
    answer(capsys, "train", file, "--inducing", 6, "--out", first)
    cheap = ("--best", 0, "--simulate", 0, "--nats", 1)
    planned = answer(capsys, "plan", "--data", file, "--model", first / "model.npz", *cheap)["after the fact"]["M"]
    record = answer(
        capsys, "train", file, "--keep-kernel", first / "model.npz", "--inducing", "auto", "--out", tmp_path
    )
    assert planned == record["inducing"]["M"] == audited(capsys, file, first)["chosen"]


def test_most_limits_the_number(capsys, folder, tmp_path):
    """Remarks of the estimator name the options of the shell."""
    lengths = ("--variance", 160000, "--lengthscale", "6,1", "--noise", 1600)
    words = ("--inducing", "auto", "--most", 12, *lengths, "--out", tmp_path)
    status, out, _ = run(capsys, "train", folder / "rough.csv", *words)
    assert status == 0
    text = " ".join(out.split())
    assert re.search(r"more than --nats = 1: raise it, or --most = 12\.", text)
    assert "max_inducing" not in text
    assert "target_gap" not in text


def test_the_report_ends_with_commands_that_run(capsys, folder, tmp_path):
    status, out, _ = run(
        capsys, "train", folder / "smooth.csv", "--target", "price", "--inducing", 5, "--out", tmp_path
    )
    assert status == 0
    commands = [shlex.split(line) for line in out.partition("Next:")[2].splitlines() if line.startswith("  gpbounds")]
    assert [words[1] for words in commands] == ["predict", "audit", "train"]
    audit, train = commands[1][1:], commands[2][1:]
    assert run(capsys, *audit, "--out", tmp_path / "a.html")[0] == 0
    train[train.index("M")] = "9"
    assert run(capsys, *train, "--out", tmp_path / "again")[0] == 0
    assert len(fitting.load(tmp_path / "again" / "model.npz").inducing_) == 9


# ---------------------------------------------------------------------- the units of the table


def pasted(out):
    """The options that the report prints."""
    return shlex.split(re.search(r"To use it elsewhere: (.*)", out)[1])


def test_a_printed_kernel_can_be_pasted(capsys, folder, tmp_path):
    """Kernel and noise in the units of the table: the same options give the same model."""
    file = folder / "smooth.csv"
    status, out, _ = run(capsys, "train", file, "--inducing", 12, "--out", tmp_path / "one")
    assert status == 0
    assert "target price" in out
    assert "Numbers here are in the table's units" in " ".join(out.split())
    words = pasted(out)
    model = fitting.load(tmp_path / "one" / "model.npz")
    scale = float(model.y_scale_[0])
    assert float(words[words.index("--variance") + 1]) == pytest.approx(scale**2 * model.kernel_.variance, rel=1e-12)
    assert float(words[words.index("--noise") + 1]) == pytest.approx(scale**2 * model.noise_, rel=1e-12)
    lengths = [float(each) for each in words[words.index("--lengthscale") + 1].split(",")]
    np.testing.assert_array_equal(lengths, model.kernel_.lengthscale)
    record = answer(capsys, "train", file, *words, "--inducing", 12, "--out", tmp_path / "two")
    again = fitting.load(tmp_path / "two" / "model.npz")
    np.testing.assert_allclose(again.kernel_.log_parameters, model.kernel_.log_parameters, atol=1e-12)
    assert again.noise_ == pytest.approx(model.noise_, rel=1e-12)
    assert record["kernel"]["variance"] == pytest.approx(scale**2 * model.kernel_.variance, rel=1e-12)
    assert record["likelihood"]["noise"] == pytest.approx(scale**2 * model.noise_, rel=1e-12)
    assert record["data"]["target"] == "price"


def test_units_of_the_target_do_not_matter(capsys, folder, tmp_path):
    """In cents all variances are 10^4 times larger, and nothing else changes."""
    rows = np.loadtxt(folder / "smooth.csv", delimiter=",", skiprows=1)
    rows[:, 2] *= 100.0
    np.savetxt(tmp_path / "cents.csv", rows, delimiter=",", header=COLUMNS, comments="", fmt="%.17g")
    here, there = (
        answer(capsys, "train", file, "--inducing", 12, "--out", tmp_path)
        for file in (folder / "smooth.csv", tmp_path / "cents.csv")
    )
    assert there["kernel"]["variance"] == pytest.approx(1e4 * here["kernel"]["variance"], rel=1e-3)
    assert there["likelihood"]["noise"] == pytest.approx(1e4 * here["likelihood"]["noise"], rel=1e-3)
    np.testing.assert_allclose(there["kernel"]["lengthscale"], here["kernel"]["lengthscale"], rtol=1e-3)


def test_numbers_that_are_given_stay_and_the_others_are_trained(capsys, folder, tmp_path):
    file = folder / "smooth.csv"
    record = answer(capsys, "train", file, "--noise", 2500, "--inducing", 12, "--out", tmp_path)
    assert record["likelihood"]["noise"] == pytest.approx(2500.0, rel=1e-12)
    assert "Kept as given, not trained: noise." in record["notes"]
    words = ("--kernel", "matern52", "--lengthscale", "70", "--inducing", 12)
    record = answer(capsys, "train", file, *words, "--out", tmp_path)
    np.testing.assert_allclose(record["kernel"]["lengthscale"], [70.0, 70.0], rtol=1e-12)
    assert isinstance(fitting.load(tmp_path / "model.npz").kernel_, Matern)


# ---------------------------------------------------------------------- models whose kernel is kept


class Rows:
    """Rows for training."""

    def __init__(self, seed, N=40):
        rng = np.random.default_rng(seed)
        self.X, self.D, self.N = rng.uniform(0.0, 5.0, (N, 2)), 2, N
        self.y = 7.0 + 3.0 * np.sin(self.X[:, 0]) + 0.1 * rng.standard_normal(N)


def in_table_units(arguments, rows):
    """The prior of an estimator with ``normalize_y``: mean and covariance at two inputs, and noise."""
    model = fitting.ExactGP(**{**arguments, "optimizer": None}, normalize_y=True).fit(rows.X, rows.y)
    at = np.array([[1.0, 2.0], [3.0, 0.5]])
    scale = float(model.y_scale_[0])
    mean = np.zeros(2) if model.mean_ is None else model.mean_(at)
    return float(model.y_mean_[0]) + scale * mean, scale**2 * model.kernel_(at), scale**2 * model.noise_


@pytest.mark.parametrize("mean", ["zero", "constant", "linear"])
def test_a_kernel_means_the_same_for_other_rows(mean, tmp_path):
    """Kernel, noise and mean are functions in the units of the table, whatever rows standardise it."""
    first, second = Rows(0), Rows(1)
    model = fitting.SparseGP(n_inducing=10, mean=mean, normalize_y=True).fit(first.X, first.y)
    model.save(tmp_path / "model.npz")
    same, other = (kept.of_model(tmp_path / "model.npz", rows, None).arguments for rows in (first, second))
    assert (same["kernel"], same["noise"]) == (model.kernel_, model.noise_)
    for here, there in zip(in_table_units(same, first), in_table_units(other, second), strict=True):
        np.testing.assert_allclose(here, there, rtol=1e-10)


def test_a_model_of_another_library_is_kept_in_its_own_units(tmp_path):
    rows = Rows(2)
    model = Model(SquaredExponential(9.0, [1.0, 2.0]), 0.04, None, LinearMean(6.5, [0.1, 0.0]))
    model.save(tmp_path / "model.json")
    mean, covariance, noise = in_table_units(kept.of_model(tmp_path / "model.json", rows, None).arguments, rows)
    at = np.array([[1.0, 2.0], [3.0, 0.5]])
    np.testing.assert_allclose(mean, model.mean(at), rtol=1e-12)
    np.testing.assert_allclose(covariance, model.kernel(at), rtol=1e-12)
    assert noise == pytest.approx(0.04, rel=1e-12)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--nats", "1"), "--nats is an option of --inducing auto"),
        (("--most", "9", "--inducing", "4"), "--most is an option of --inducing auto"),
        (("--inducing", "auto", "--model", "variational"), "expected a whole number for --model variational, got auto"),
        (("--inducing", "many"), "expected a whole number"),
        (("--inducing", "auto", "--nats", "0"), "--nats: expected a positive"),
        (("--noise", "-1"), "--noise: expected positive numbers, got -1"),
        (("--lengthscale", "1,2,3"), "--lengthscale: expected one number, or one for each of the 2 inputs, got 3"),
        (
            ("--variance", "1", "--kernel", "linear"),
            "matern12, matern32, matern52, rq or periodic with them",
        ),
        (("--noise", "1", "--model", "classifier"), "--noise is an option of --model exact, sparse, renyi"),
        (("--keep-kernel", "m.npz", "--noise", "1"), "--noise: expected not to be given with --keep-kernel"),
        (("--keep-kernel", "m.npz", "--mean", "linear"), "--mean: expected not to be given with --keep-kernel"),
        (("--keep-kernel", "m.pkl"), "--keep-kernel: expected a file .npz or .json, got m.pkl"),
        (("--keep-kernel", "missing.npz"), "missing.npz"),
    ],
)
def test_wrong_options_are_named(capsys, folder, tmp_path, words, message):
    status, _, err = run(capsys, "train", folder / "smooth.csv", "--out", tmp_path, *words)
    assert status == 2
    assert message in " ".join(err.split())


@pytest.mark.parametrize("kind", ["inputs", "likelihood"])
def test_a_model_of_other_inputs_or_another_likelihood_is_refused(kind, tmp_path):
    rows = Rows(3)
    if kind == "inputs":
        fitting.ExactGP(SquaredExponential(), 0.1, optimizer=None).fit(rows.X[:, :1], rows.y).save(tmp_path / "m.npz")
        message = "expected a model of 2 inputs, got one of 1"
    else:
        labels = rows.y > rows.y.mean()
        fitting.VariationalGPClassifier(kernel=SquaredExponential(), n_inducing=4).fit(rows.X, labels).save(
            tmp_path / "m.npz"
        )
        message = "expected a model of one target with Gaussian noise"
    with pytest.raises((ValueError, UsageError), match=message):
        kept.of_model(tmp_path / "m.npz", rows, None)


def test_the_likelihood_of_a_result_is_in_squared_units_of_the_target():
    rows = Rows(4)
    model = fitting.ExactGP(SquaredExponential(), 0.1, optimizer=None, normalize_y=True).fit(rows.X, rows.y)
    from fitting.study.predicted import predicted

    own = predicted(model, rows.X, rows.y)
    result = models.Result("exact", rows, rows, model, own, own, 0)
    assert result.likelihood == Gaussian(float(rows.y.std()) ** 2 * 0.1) or result.likelihood.noise == pytest.approx(
        0.1 * rows.y.var(), rel=1e-12
    )
    assert result.kernel.variance == pytest.approx(rows.y.var(), rel=1e-12)
