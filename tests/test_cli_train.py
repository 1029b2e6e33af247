"""``gpbounds train``: every model on a table, scores on rows held out, a model that loads, and legible figures."""

from __future__ import annotations

import inspect
import json
import re

import numpy as np
import pytest
from thinning import one_in

import fitting
from fitting import metrics
from fitting.training.watch import Watch
from gpbounds import kernels
from gpbounds.cli import examples, main, models
from gpbounds.likelihoods import Gaussian, Poisson
from gpbounds.plotting import Intervals, Probabilities, labels_page, targets_page
from gpbounds.rows.table_rows import read_rows
from tests.test_cli_certify_train import drawn

pytestmark = pytest.mark.usefixtures("short_pilots")

N = 120
QUICK = ("--max-iter", 15)
SPARSE = (*QUICK, "--inducing", 10)
KERNELS = {"matern32": kernels.Matern, "linear": kernels.Linear, "rq": kernels.RationalQuadratic}
COUNTS = ("--model", "variational", "--likelihood", "poisson")


def ask(capsys, *words):
    status = main(["train", *map(str, words)])
    out, err = capsys.readouterr()
    return status, out, err


def answer(capsys, *words):
    status, out, err = ask(capsys, *words, "--json")
    assert status == 0, err
    return json.loads(out)


def write(path, columns, header=None):
    lines = [",".join(map(str, row)) for row in zip(*(np.asarray(column).tolist() for column in columns), strict=True)]
    path.write_text("\n".join([*([header] if header else []), *lines]) + "\n", encoding="utf-8")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("train")
    rng = np.random.default_rng(3)
    a, b = rng.uniform(-2.0, 2.0, N), rng.uniform(100.0, 104.0, N)
    f = np.sin(1.5 * a) + 0.3 * (b - 102.0)
    y = 50.0 + 10.0 * f + 2.0 * rng.standard_normal(N)
    counts = rng.poisson(np.exp(1.0 + f))
    labels = np.where(f + 0.3 * rng.standard_normal(N) > 0.0, "up", "down")
    write(place / "real.csv", (a, b, y), "a,b,yield $")
    write(place / "counts.csv", (a, b, counts))
    write(place / "words.csv", (a, labels, b), "a,way,b")
    write(place / "numbers.csv", (a, b, np.where(labels == "up", 7, 3)))
    write(place / "scaled.csv", (1000.0 * a - 5.0, b - 102.0, y), "a,b,yield")
    write(place / "three.csv", (a, b, rng.integers(0, 3, N)))
    write(place / "one.csv", (a, b, np.zeros(N)))
    write(place / "negative.csv", (a, b, counts - 1))
    return place


class Blank:
    """A figure that is quick to write."""

    def savefig(self, path):
        path.write_bytes(b"\x89PNG")


@pytest.fixture
def undrawn(monkeypatch):
    """Figures are not drawn."""
    monkeypatch.setattr(models, "picture", lambda result: Blank())


# Every model


@pytest.mark.parametrize(
    ("model", "words"),
    [
        ("exact", QUICK),
        pytest.param("exact", (*QUICK, "--solver", "iterative"), marks=pytest.mark.slow),
        ("sparse", (*SPARSE, "--method", "fitc", "--kernel", "matern32")),
        ("renyi", (*SPARSE, "--alpha", 0.5)),
        pytest.param("lowrank", (*QUICK, "--rank", 20), marks=pytest.mark.slow),
        pytest.param("lowrank", (*QUICK, "--rank", 20, "--features", "leverage"), marks=pytest.mark.slow),
        ("lowrank", (*QUICK, "--rank", 15, "--features", "mercer", "--order", "best")),
        ("lowrank", (*QUICK, "--rank", 20, "--kernel", "matern32", "--dim", 1)),
        ("exact", (*QUICK, "--kernel", "linear+rq")),
        pytest.param("sparse-pac", (*SPARSE, "--kernel", "linear+matern32"), marks=pytest.mark.slow),
        ("variational", (*SPARSE, "--likelihood", "student-t")),
        ("variational", (*SPARSE, "--objective", "square-loss", "--beta", 0.1)),
        pytest.param("variational", (*SPARSE, "--optimizer", "natgrad", "--batch-size", 40), marks=pytest.mark.slow),
        ("pac", (*QUICK, "--epsilon", 0.8, "--objective", "pinsker")),
        ("sparse-pac", (*SPARSE, "--method", "vfe")),
    ],
    ids=str,
)
def test_real_targets(capsys, folder, tmp_path, monkeypatch, model, words):
    """The scores are those of the loaded model on the rows held out, in the units of the file."""
    if words != QUICK:  # one picture is drawn
        monkeypatch.setattr(models, "picture", lambda result: Blank())
    record = answer(capsys, folder / "real.csv", "--model", model, *words, "--seed", 4, "--out", tmp_path / "new")
    loaded = fitting.load(tmp_path / "new" / "model.npz")
    assert type(loaded).__name__ == record["estimator"] == models.CLASSES[model]
    _, test = examples.split(read_rows(folder / "real.csv"), 0.2, 4)
    mean = loaded.predict(test.X)
    scores, baseline = record["scores"], record["without inputs"]
    assert scores["RMSE"] == pytest.approx(np.sqrt(np.mean((mean - test.y) ** 2)), rel=1e-12)
    assert scores["RMSE"] < 0.6 * baseline["RMSE"]
    if "square-loss" not in words:  # which does not train the variances
        assert scores["log loss"] < baseline["log loss"] - 0.3
    low, high = loaded.predict_interval(test.X, 0.95)
    assert scores["coverage of 95 % intervals"] == np.mean((low <= test.y) & (test.y <= high))
    if model != "variational":
        _, std = loaded.predict(test.X, return_std=True, noisy=True)
        loss = np.mean(0.5 * np.log(2.0 * np.pi * std**2) + 0.5 * ((test.y - mean) / std) ** 2)
        assert scores["log loss"] == pytest.approx(loss, rel=1e-10)
    else:
        assert scores["log loss"] == pytest.approx(-np.mean(loaded.log_predictive_density(test.X, test.y)), rel=1e-10)
    assert (tmp_path / "new" / "predictions.png").read_bytes().startswith(b"\x89PNG")
    assert ("certify train" in " ".join(record["notes"])) == ("pac" in model)
    if "--kernel" in words:
        names = words[words.index("--kernel") + 1].split("+")
        kernel = loaded.kernel_
        parts = [kernel.k1, kernel.k2] if len(names) == 2 else [kernel]
        assert [type(part) for part in parts] == [KERNELS[name] for name in names]


def test_a_model_trained_by_iterations_comes_with_an_interval(capsys, folder, tmp_path, undrawn):
    """The interval of the report is that of the model, rounded outwards."""
    words = ("--model", "exact", "--solver", "iterative", *QUICK, "--seed", 4, "--out", tmp_path)
    low, high = answer(capsys, folder / "real.csv", *words)["log evidence"]
    assert [low, high] == [float(end) for end in fitting.load(tmp_path / "model.npz").evidence_bounds_]
    status, out, _ = ask(capsys, folder / "real.csv", *words)
    assert status == 0
    printed = re.search(r"rows for training, y standardised: between (\S+) and (\S+), with probability\s+95 %", out)
    below, above = map(float, printed.groups())
    assert low - 1.0 < below <= low <= high <= above < high + 1.0


@pytest.mark.parametrize("likelihood", ["poisson", "poisson-softplus"])
def test_counts(capsys, folder, tmp_path, likelihood):
    words = ("--model", "variational", "--likelihood", likelihood, "--out", tmp_path)
    record = answer(capsys, folder / "counts.csv", *words, *SPARSE)
    loaded = fitting.load(tmp_path / "model.npz")
    _, test = examples.split(read_rows(folder / "counts.csv"), 0.2, 0)
    error = metrics.mean_relative_error(test.y, loaded.predict(test.X))
    assert record["scores"]["mean relative error"] == pytest.approx(error, rel=1e-12)
    loss = -np.mean(loaded.log_predictive_density(test.X, test.y))
    assert record["scores"]["log loss"] == pytest.approx(loss, rel=1e-12)
    assert loss < record["without inputs"]["log loss"] - 0.3
    assert record["target"] == {"shift": 0.0, "scale": 1.0}


@pytest.mark.broad
@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize(
    ("file", "target"), one_in(2, [("words.csv", "way"), ("words.csv", "2"), ("numbers.csv", None)])
)
def test_labels(capsys, folder, tmp_path, file, target):
    """Words and numbers are the same labels: "up" and 7 are the second ones."""
    column = () if target is None else ("--target", target)
    words = ("--model", "classifier", "--likelihood", "logit", *column, *SPARSE, "--out", tmp_path)
    record = answer(capsys, folder / file, *words)
    loaded = fitting.load(tmp_path / "model.npz")
    assert loaded.classes_.tolist() == (["down", "up"] if file == "words.csv" else [3, 7])
    _, test = examples.split(read_rows(folder / file, target, labels=True), 0.2, 0)
    np.testing.assert_array_equal(test.X, examples.split(read_rows(folder / "numbers.csv"), 0.2, 0)[1].X)
    assert record["scores"]["error"] == pytest.approx(1.0 - loaded.score(test.X, test.y), abs=1e-12)
    proba = loaded.predict_proba(test.X)[:, 1]
    second = test.y == loaded.classes_[1]
    assert record["scores"]["log loss"] == pytest.approx(-np.mean(np.log(np.where(second, proba, 1.0 - proba))))
    assert record["scores"]["expected calibration error"] == pytest.approx(
        metrics.calibration_error(second * 1.0, proba), rel=1e-12
    )
    assert record["scores"]["error"] < 0.5 * record["without inputs"]["error"]


@pytest.mark.usefixtures("undrawn")
def test_units_of_the_inputs_do_not_matter(capsys, folder, tmp_path):
    words = ("--model", "variational", *SPARSE, "--out", tmp_path)
    here, there = (answer(capsys, folder / name, *words) for name in ("real.csv", "scaled.csv"))
    for name, value in here["scores"].items():
        assert there["scores"][name] == pytest.approx(value, rel=1e-5)
    assert there["kernel"]["lengthscale"][0] == pytest.approx(1000.0 * here["kernel"]["lengthscale"][0], rel=1e-3)


@pytest.mark.usefixtures("undrawn")
def test_the_law_without_inputs(capsys, folder, tmp_path):
    """One Gaussian for real targets, one Poisson law for counts, the shares of labels."""
    files = [("real.csv", ("--model", "exact")), ("counts.csv", ("--model", "variational", "--likelihood", "poisson"))]
    for name, words in files:
        record = answer(capsys, folder / name, *words, "--max-iter", 1, "--out", tmp_path)
        train, test = examples.split(read_rows(folder / name), 0.2, 0)
        if name == "real.csv":
            law = (Gaussian(train.y.var()), test.y, np.full(24, train.y.mean()))
        else:
            law = (Poisson("exp"), test.y, np.full(24, np.log((train.y.sum() + 0.5) / 96)))
        assert record["without inputs"]["log loss"] == pytest.approx(metrics.log_loss(*law, np.zeros(24)), rel=1e-10)
    record = answer(capsys, folder / "numbers.csv", "--model", "classifier", "--max-iter", 1, "--out", tmp_path)
    train, test = examples.split(read_rows(folder / "numbers.csv", labels=True), 0.2, 0)
    share = (np.sum(train.y == 7) + 0.5) / 97.0
    loss = -np.mean(np.where(test.y == 7, np.log(share), np.log(1.0 - share)))
    assert record["without inputs"]["log loss"] == pytest.approx(loss, rel=1e-10)


@pytest.mark.usefixtures("undrawn")
def test_what_is_printed(capsys, folder, tmp_path):
    status, out, err = ask(capsys, folder / "real.csv", "--model", "exact", "--max-iter", 2, "--out", tmp_path)
    assert status == 0
    assert err == "Training on 96 of the 120 rows of real ...\n"
    text = " ".join(out.split())
    assert "96 rows for training, 24 held out (seed 0)" in text
    assert "raise --max-iter to go on" in text
    record = answer(capsys, folder / "real.csv", "--model", "exact", "--max-iter", 2, "--out", tmp_path)
    row = next(line for line in out.splitlines() if "RMSE  " in line)
    shown = [f"{record[name]['RMSE']:.4g}" for name in ("scores", "without inputs")]
    assert row.split() == ["RMSE", *shown]
    commands = [line.strip() for line in out.partition("Next:")[2].splitlines() if line.startswith("  gpbounds ")]
    saved = tmp_path / "model.npz"
    assert commands == [
        f"gpbounds predict {saved} NEW_ROWS.csv",
        f"gpbounds audit {folder / 'real.csv'} --model {saved}",
    ]


@pytest.mark.usefixtures("undrawn")
def test_the_same_seed_gives_the_same_scores(capsys, folder, tmp_path):
    words = (folder / "counts.csv", "--model", "variational", "--likelihood", "poisson", "--batch-size", 30, *SPARSE)
    first, again, other = (answer(capsys, *words, "--seed", seed, "--out", tmp_path) for seed in (1, 1, 2))
    assert first["scores"] == again["scores"] != other["scores"]


@pytest.mark.usefixtures("undrawn")
def test_ctrl_c_saves_the_best_model(capsys, folder, tmp_path, monkeypatch):
    step = Watch.step

    def interrupted(watch, f):
        step(watch, f)
        if watch.iterations == 4 and watch._most == 15:  # not a run of the start
            raise KeyboardInterrupt

    monkeypatch.setattr(Watch, "step", interrupted)
    status, out, _ = ask(capsys, folder / "real.csv", *SPARSE, "--out", tmp_path)
    assert status == 130
    assert "Interrupted after 4 iterations; the best point so far is kept." in " ".join(out.split())
    assert fitting.load(tmp_path / "model.npz").n_iter_ == 4


# Wrong arguments and data


@pytest.mark.parametrize(
    ("file", "words", "message"),
    [
        ("three.csv", ("--model", "classifier"), "y: expected two labels, got 3 classes"),
        ("one.csv", ("--model", "classifier"), "y: expected two labels, got one class alone"),
        ("negative.csv", COUNTS, "expected counts 0, 1, 2"),
        ("real.csv", COUNTS, "expected counts 0, 1, 2"),
        ("words.csv", ("--target", "way"), "expected numbers in the target, column 'way', got other text in"),
        ("words.csv", ("--model", "classifier", "--target", "c"), "--target: expected one of a, way, b or"),
        ("words.csv", ("--model", "classifier", "--target", "4"), "or a column's number from 1 to 3, got '4'"),
        ("real.csv", ("--alpha", 0.5), "--alpha is an option of --model renyi, got --model sparse"),
        ("real.csv", ("--likelihood", "probit"), "--likelihood is an option of --model variational, classifier"),
        ("real.csv", ("--model", "exact", "--inducing", 5), "--inducing is an option of --model sparse, renyi"),
        (
            "real.csv",
            ("--model", "variational", "--likelihood", "probit"),
            "--likelihood: expected one for real numbers or counts, got 'probit': --model classifier serves labels",
        ),
        (
            "numbers.csv",
            ("--model", "classifier", "--likelihood", "poisson"),
            "--likelihood: expected 'probit', 'logit'",
        ),
        (
            "counts.csv",
            (*COUNTS, "--objective", "square-loss"),
            "--objective: expected 'elbo', 'log-loss' or 'power' for Poisson",
        ),
        ("numbers.csv", ("--model", "classifier", "--objective", "pep"), "Gaussian likelihood only"),
        ("real.csv", ("--model", "variational", "--objective", "kl"), "--objective: expected one of"),
        ("real.csv", ("--model", "pac", "--objective", "elbo"), "--objective: expected one of"),
        ("real.csv", ("--model", "sparse-pac", "--method", "pic"), "--method: expected one of"),
        ("real.csv", ("--model", "variational", "--gradient", "bmc"), "'exact' for --objective elbo, got 'bmc'"),
        (
            "counts.csv",
            (*COUNTS, "--objective", "log-loss", "--gradient", "bmc", "--optimizer", "lbfgs"),
            "--gradient: expected 'exact' for --optimizer lbfgs, got 'bmc'",
        ),
        (
            "real.csv",
            ("--model", "variational", "--batch-size", 10, "--optimizer", "lbfgs"),
            "--batch-size: expected not to be given for --optimizer lbfgs, whose steps need all rows, got 10",
        ),
        ("real.csv", ("--model", "classifier"), "got continuous numbers: --model variational serves these"),
        ("real.csv", ("--optimizer", "natgrad"), "--optimizer: expected one of 'lbfgs', 'adam'"),
        ("real.csv", ("--inducing", 0), "--inducing: expected a whole number >= 1"),
        ("real.csv", ("--max-iter", 0), "--max-iter: expected a whole number >= 1"),
        ("real.csv", ("--model", "renyi", "--alpha", 2), "--alpha: expected"),
        ("real.csv", ("--solver", "cholesky"), "--solver is an option of --model exact, renyi, got --model sparse"),
        ("real.csv", ("--rank", 10), "--rank is an option of --model lowrank, got --model sparse"),
        ("real.csv", ("--model", "lowrank", "--inducing", 10), "--inducing is an option of --model sparse, renyi"),
        ("real.csv", ("--model", "lowrank", "--rank", 31), "--rank: expected an even number"),
        ("real.csv", ("--model", "lowrank", "--rank", 0), "--rank: expected a whole number >= 1"),
        ("real.csv", ("--model", "lowrank", "--rank", 98), "--rank: expected at most the number of rows, 96, got 98"),
        ("real.csv", ("--model", "lowrank", "--rank", 10, "--dim", 3), "--dim: expected at most the number of columns"),
        (
            "real.csv",
            ("--model", "lowrank", "--rank", 10, "--features", "mercer", "--kernel", "matern12"),
            "--kernel: expected SquaredExponential for --features mercer, got Matern",
        ),
        ("real.csv", ("--beta", "best"), "expected a number, got 'best'"),
        ("real.csv", ("--held-out", 1.2), "--held-out: expected a share between 0 and 1, got 1.2"),
        ("real.csv", ("--held-out", 0.999), "--held-out: expected to hold out at least one row and to leave two"),
        ("real.csv", ("--model", "linear"), "invalid choice: 'linear'"),
        ("missing.csv", (), "No such file"),
    ],
    ids=str,
)
def test_questions_without_sense_exit_with_2_and_write_nothing(capsys, folder, tmp_path, file, words, message):
    status, out, err = ask(capsys, folder / file, *words, "--out", tmp_path / "new")
    assert (status, out) == (2, "")
    last = err.splitlines()[-1]
    assert message in last
    assert last.startswith("gpbounds: ")
    assert not (tmp_path / "new").exists()


def test_a_label_that_only_the_rows_held_out_have(capsys, folder, tmp_path):
    """Words with spaces around them are labels; an empty cell is none."""
    train, test = examples.split(read_rows(folder / "numbers.csv", labels=True), 0.2, 0)
    X, y = np.vstack([train.X, test.X]), [*train.y.tolist(), *test.y.tolist()]
    where = int(np.flatnonzero((read_rows(folder / "numbers.csv").X == test.X[0]).all(axis=1))[0])
    lines = (folder / "numbers.csv").read_text(encoding="utf-8").splitlines()
    assert len(lines) == len(X) == len(y)
    lines[where] = lines[where].rpartition(",")[0] + ", 9"
    (tmp_path / "rare.csv").write_text("\n".join(lines), encoding="utf-8")
    status, _, err = ask(capsys, tmp_path / "rare.csv", "--model", "classifier", "--max-iter", 1, "--out", tmp_path)
    assert status == 2
    assert "expected the labels of the rows for training, [3, 7], got 9" in err
    lines[where] = lines[where].rpartition(",")[0] + ", "
    (tmp_path / "rare.csv").write_text("\n".join(lines), encoding="utf-8")
    status, _, err = ask(capsys, tmp_path / "rare.csv", "--model", "classifier", "--max-iter", 1, "--out", tmp_path)
    assert status == 2
    assert f"got 1 missing cell in 1 row and 1 column, the first in line {where + 1}, column 3" in err


def test_the_data_are_never_overwritten(capsys, folder, tmp_path):
    file = tmp_path / "model.npz"
    file.write_text((folder / "real.csv").read_text(encoding="utf-8"), encoding="utf-8")
    status, _, err = ask(capsys, file, *QUICK, "--out", tmp_path)
    assert status == 2
    assert "would overwrite" in err
    assert file.read_text(encoding="utf-8") == (folder / "real.csv").read_text(encoding="utf-8")


def test_help_has_an_example_and_every_option_reaches_a_model(capsys):
    status, text, _ = ask(capsys, "--help")
    assert status == 0
    assert "example:\n  gpbounds train" in text
    assert all(option in text for option in models.MODELS_WITH)
    for model, name in models.CLASSES.items():
        parameters = inspect.signature(getattr(fitting, name)).parameters
        own = [option for option, having in models.MODELS_WITH.items() if model in having]
        given = dict.fromkeys(own) | ({"--inducing": "auto"} if model in models.SPARSE else {})
        assert set(models.settings(model, given)) <= set(parameters), model


# The figures


def boxes_of(page):
    renderer = drawn(page)
    texts = [page._suptitle]
    for ax in page.axes:
        texts += [*ax.texts, ax.xaxis.label, ax.yaxis.label, ax._left_title, *ax.get_legend().get_texts()]
    return [(t.get_text(), t.get_window_extent(renderer)) for t in texts if t.get_text()]


@pytest.mark.parametrize("n", one_in(2, [1, 3, 3000, 90]))
@pytest.mark.parametrize("kind", ["real", "counts", "labels"])
def test_nothing_on_the_page_overlaps_or_is_cut_off(kind, n):
    rng = np.random.default_rng(n)
    truth, title = rng.normal(35.0, 16.0, n), "\n".join(["line " * 20] * 4)
    if kind == "labels":
        p = rng.uniform(size=n)
        label = "a label of thirty letters here"
        page = labels_page(Probabilities(rng.uniform(size=n) < p, p, label, label), title=title, target="outcome")
    else:
        predictions = Intervals(truth, truth + rng.normal(0.0, 5.0, n), truth - 9.0, truth + 9.0)
        page = targets_page(predictions, rng.uniform(size=n), level=0.95, counts=kind == "counts", title=title)
    boxes, frame = boxes_of(page), page.bbox
    assert len(boxes) > 10
    for i, (text, box) in enumerate(boxes):
        assert frame.x0 <= box.x0, text
        assert box.x1 <= frame.x1, text
        assert frame.y0 <= box.y0, text
        assert box.y1 <= frame.y1, text
        for other, taken in boxes[:i]:
            assert not box.overlaps(taken), (text, other)


def test_the_panels_show_what_is_handed_in():
    page = targets_page(
        Intervals([3.0, 1.0, 2.0, 9.0], [3.1, 1.9, 2.0, 4.0], [2.0, 1.0, 2.5, 3.0], [4.0, 2.0, 3.0, 5.0]),
        [0.1, 0.2, 0.6, 0.95],
        level=0.5,
        title="t",
    )
    left, right = page.axes
    within, beyond = (collection.get_offsets().tolist() for collection in left.collections[1:])
    assert sorted(within) == [[1.9, 1.0], [3.1, 3.0]]
    assert sorted(beyond) == [[2.0, 2.0], [4.0, 9.0]]
    assert "within: 50 % of rows" in [text.get_text() for text in left.get_legend().get_texts()]
    p, shares = right.lines[1].get_data()
    for at, share in ((0.05, 0.0), (0.15, 0.25), (0.5, 0.5), (0.8, 0.75), (1.0, 1.0)):
        assert shares[np.argmin(np.abs(p - at))] == share
    page = labels_page(
        Probabilities([True, False, True, True], [0.91, 0.42, 0.48, 0.95], "no", "yes"), title="t", target="way"
    )
    left, right = page.axes
    names = [text.get_text() for text in left.get_legend().get_texts()]
    assert names == ["no: 1 rows, 0 % of them predicted wrongly", "yes: 3 rows, 33.3 % of them predicted wrongly"]
    means, shares = right.lines[1].get_data()
    np.testing.assert_allclose(means, [0.45, 0.93])
    np.testing.assert_allclose(shares, [0.5, 1.0])
    assert [text.get_text() for text in right.texts] == ["2", "2"]


def test_a_mean_is_trained_and_saved(capsys, folder, tmp_path):
    """``--mean`` is that of the estimator; without it the model is another."""
    answer(capsys, folder / "counts.csv", *COUNTS, *SPARSE, "--mean", "linear", "--out", tmp_path)
    saved = fitting.load(tmp_path / "model.npz")
    assert saved.mean == "linear"
    assert len(saved.mean_.slopes) == 2
    status, _, err = ask(capsys, folder / "real.csv", "--model", "pac", "--mean", "linear", "--out", tmp_path)
    assert status == 2
    assert "--mean is an option of --model exact, sparse, renyi, lowrank, variational, classifier" in err
