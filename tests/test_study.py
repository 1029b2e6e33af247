"""Studies from Python: `plan` and `audit` return what the commands print, and data frames name the inputs."""

from __future__ import annotations

import dataclasses
import html
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import fitting
from gpbounds import Gaussian, Matern, SquaredExponential
from gpbounds.cli import main
from gpbounds.kernels import Constant
from gpbounds.pacbayes import Certificate, Scaling

SETTINGS = {"nats": 0.5, "kernel": SquaredExponential(1.5, [0.7, 0.9]), "noise": 0.2, "simulate": 0}
WORDS = ("--nats", "0.5", "--variance", "1.5", "--lengthscale", "0.7,0.9", "--noise", "0.2", "--simulate", "0")


def sample(N=60, seed=1):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((N, 2))
    return X, np.sin(2.0 * X[:, 0]) + X[:, 1] ** 2 + 0.2 * rng.standard_normal(N)


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    path = tmp_path_factory.mktemp("study") / "sample.csv"
    np.savetxt(path, np.column_stack(sample()), delimiter=",", fmt="%.17g")
    return str(path)


@pytest.fixture(scope="module")
def planned():
    return fitting.plan(*sample(), **SETTINGS, name="sample")


class Page(HTMLParser):
    """The tags that are open, and the text: a page is well formed if nothing is left open."""

    EMPTY = frozenset({"meta", "link", "br", "input", "hr", "img", "path", "use", "rect", "circle", "line", "image"})

    def __init__(self, text):
        super().__init__()
        self.open, self.texts, self.addresses = [], [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.addresses += [value for name, value in attrs if name in ("src", "href", "xlink:href")]
        if tag not in self.EMPTY:
            self.open.append(tag)

    def handle_endtag(self, tag):
        if tag not in self.EMPTY:
            assert self.open.pop() == tag

    def handle_startendtag(self, tag, attrs):
        self.addresses += [value for name, value in attrs if name in ("src", "href", "xlink:href")]

    def handle_data(self, data):
        self.texts.append(data)


def is_whole_page(text):
    page = Page(text)
    assert text.startswith("<!DOCTYPE html>")
    assert page.open == []
    assert all(address.startswith("#") for address in page.addresses)  # no other file and no network
    return "".join(page.texts)


def named_y(text):
    """The words of the shell with the name that an array of targets has in Python."""
    return text.replace("target column 3", "target y").replace('"column 3"', '"y"')


@pytest.mark.broad
@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({}, ()),
        ({"alpha": 0.5, "select": "kdpp", "most": 20}, ("--alpha", "0.5", "--select", "kdpp", "--most", "20")),
        ({"draws": 0, "y_norm2": "prior", "delta": 0.1}, ("--best", "0", "--y-norm2", "prior", "--delta", "0.1")),
        ({"old_forms": True, "inputs": Gaussian([1.0, 2.0])}, ("--old-forms", "--std", "1,2")),
        ({"method": ("inducing", "mercer"), "nats": 1.0}, ("--method", "inducing", "mercer", "--nats", "1")),
        ({"rng": 3, "alpha": 0.5, "direction": "p||q"}, ("--seed", "3", "--alpha", "0.5", "--direction", "p||q")),
    ],
)
def test_python_and_shell_have_the_same_record_and_text(capsys, file, more, words):
    planned = fitting.plan(*sample(), **SETTINGS | more, name="sample")
    assert main(["plan", "--data", file, *WORDS, *words, "--json"]) == 0
    assert planned.to_dict() == json.loads(named_y(capsys.readouterr().out))
    assert main(["plan", "--data", file, *WORDS, *words]) == 0
    text = named_y(capsys.readouterr().out)
    planned.print()
    for option, argument in (("--old-forms", "old_forms=True"), ("--y-norm2 prior", "y_norm2='prior'")):
        text = text.replace(option, argument)
    assert capsys.readouterr().out.split() == text.split()


def test_fitted_hyperparameters_are_those_of_the_shell(capsys, file):
    planned = fitting.plan(*sample(), nats=5.0, nu=1.5, noise=0.3, simulate=0, select="none", name="sample")
    words = ("--nats", "5", "--kernel", "matern32", "--noise", "0.3", "--simulate", "0", "--select", "none")
    assert main(["plan", "--data", file, *words, "--json"]) == 0
    record = json.loads(named_y(capsys.readouterr().out))
    assert planned.to_dict() == record
    assert record["statement"]["noise"] == 0.3
    assert record["kernels"][0]["nu"] == 1.5


def test_the_worst_lengthscale_of_a_range_takes_the_place_of_that_of_the_kernel(capsys, file):
    planned = fitting.plan(*sample(), **SETTINGS | {"nats": 30.0}, lengthscale_range=(0.5, 2.0), name="sample")
    words = ("--nats", "30", "--variance", "1.5", "--noise", "0.2", "--lengthscale-range", "0.5:2")
    assert main(["plan", "--data", file, *words, "--json"]) == 0
    shell, python = json.loads(capsys.readouterr().out), planned.to_dict()
    assert python["kernels"] == shell["kernels"]
    assert [plan["M"] for plan in python["plans"]] == [plan["M"] for plan in shell["plans"]]
    assert "The plan after the fact needs one kernel; it is omitted with lengthscale_range." in python["notes"]
    assert "The plan after the fact needs one kernel; it is omitted with --lengthscale-range." in shell["notes"]


def test_notes_name_arguments_in_the_words_of_their_reader(capsys, file):
    """More rows than ``rows``: Python reads rows=40, the shell --rows 40; all else is equal."""
    planned = fitting.plan(*sample(), **SETTINGS, rows=40, select="uniform", name="sample")
    assert main(["plan", "--data", file, *WORDS, "--rows", "40", "--select", "uniform", "--json"]) == 0
    shell = json.loads(capsys.readouterr().out)
    python = planned.to_dict()
    (note,) = [note for note in python["after the fact"]["notes"] if "rows=40" in note]
    assert note.replace("rows=40", "--rows 40") in shell["after the fact"]["notes"]
    assert python["plans"] == shell["plans"]


@pytest.mark.parametrize("kind", ["pandas", "polars"])
def test_data_frames_name_their_columns(planned, kind):
    library = pytest.importorskip(kind)
    X, y = sample()
    frame = library.DataFrame({"east": X[:, 0], "north": X[:, 1]})
    target = library.Series(name="height", **{"data" if kind == "pandas" else "values": y})
    named = fitting.plan(frame, target, **SETTINGS, name="sample")
    assert named.problem.data.columns == ("east", "north")
    assert named.problem.data.target == "height"
    assert named.to_dict()["plans"] == planned.to_dict()["plans"]
    assert "target height" in " ".join(str(named).split())
    assert "lengthscale=[east 0.7, north 0.9]" in str(named)
    assert "east, north" in is_whole_page(named.page())


def test_the_interchange_protocol_is_enough():
    class Exchanged:
        """A frame that has no ``columns``, only the protocol and its numbers."""

        def __dataframe__(self):
            return SimpleNamespace(column_names=lambda: ["east", "north"])

        def __array__(self, dtype=None, copy=None):
            return sample()[0]

    planned = fitting.plan(Exchanged(), sample()[1], **SETTINGS | {"select": "none"})
    assert planned.problem.data.columns == ("east", "north")


def test_a_constant_column_is_dropped_with_its_name():
    pandas = pytest.importorskip("pandas")
    X, y = sample()
    frame = pandas.DataFrame({"east": X[:, 0], "same": 1.0, "north": X[:, 1]})
    planned = fitting.plan(frame, y, **SETTINGS | {"select": "none"})
    assert planned.problem.data.columns == ("east", "north")


def test_the_record_is_shown_saved_and_drawn(planned, tmp_path):
    planned.save(tmp_path / "plan.html")
    text = is_whole_page((tmp_path / "plan.html").read_text(encoding="utf-8"))
    assert "Inducing points for sample" in text
    paragraphs = re.findall("<p>(.*?)</p>", planned.page(), re.S)
    assert [line.split(":")[0] for line in paragraphs[:3]] == ["About all 60 rows", "Data", "Kernel"]
    assert paragraphs[2].endswith(planned.problem.origin)  # a paragraph is a text, not a line of the shell
    for entry in planned.entries:
        assert f"M = {entry.plan.M}" in text
    planned.save(tmp_path / "plan.json")
    assert json.loads((tmp_path / "plan.json").read_text(encoding="utf-8")) == planned.to_dict()
    with pytest.raises(ValueError, match=r"path: expected a name that ends in \.html or \.json, got 'plan\.txt'"):
        planned.save("plan.txt")
    inside = re.fullmatch(r'<iframe srcdoc="(.*?)" style="[^"]*" title="page"></iframe>', planned._repr_html_(), re.S)
    assert "&lt;!DOCTYPE html&gt;" in inside[1]
    (ax,) = planned.plot().axes
    labels = [label.get_text() for label in ax.get_yticklabels()]
    assert labels == ["Data-aware", "Given y", "After the fact"]
    assert {f"{entry.plan.M} suffice" for entry in planned.entries} <= {text.get_text() for text in ax.texts}


def test_after_ctrl_c_the_record_has_what_was_found(monkeypatch):
    from fitting.study.problem import Problem

    true = Problem.stated

    def stops(self, case, N, alpha):
        if case.kind == "given y":
            raise KeyboardInterrupt
        return true(self, case, N, alpha)

    monkeypatch.setattr(Problem, "stated", stops)
    planned = fitting.plan(*sample(), **SETTINGS)
    assert planned.interrupted
    assert [entry.level for entry in planned.entries] == ["data-aware"]
    assert "Interrupted; not computed: given y" in str(planned)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"nats": -1.0}, "nats: expected a positive finite number"),
        ({"rows": 1}, "rows: expected a whole number >= 2, got 1"),
        ({"select": "best of all"}, "select: expected"),
        ({"method": "nystrom"}, "method: expected"),
        ({"kernel": Constant(1.0)}, "kernel: expected a SquaredExponential or a Matern"),
        ({"kernel": None, "nu": -1.0}, "nu: expected a positive number"),
        ({"noise": -0.1}, "noise: expected"),
        ({"y_norm2": "posterior"}, "y_norm2: expected a number or 'prior', got 'posterior'"),
        ({"inputs": Gaussian([1.0])}, "inputs: expected a law of 2 inputs, as X has, got 1"),
        ({"method": "fourier", "width": [1.0, 2.0, 3.0]}, r"width: expected one number or one for each of 2 dimension"),
        ({"width": 3.0}, "width belongs to method='fourier'"),
        ({"lengthscale_range": (2.0, 0.5)}, r"lengthscale_range: expected two positive numbers \(A, B\) with A <= B"),
        ({"lengthscale_range": (0.0, 0.5)}, "lengthscale_range: expected a positive finite number"),
        ({"lengthscale_range": 0.5}, "lengthscale_range: expected two positive numbers"),
    ],
)
def test_arguments_are_refused_in_the_words_of_python(change, message):
    with pytest.raises(ValueError, match=message):
        fitting.plan(*sample(), **SETTINGS | change)


def test_rows_are_refused_by_name():
    X, y = sample()
    pandas = pytest.importorskip("pandas")
    with pytest.raises(ValueError, match="X: expected columns of numbers, got 'east' in column 'where'"):
        fitting.plan(pandas.DataFrame({"a": X[:, 0], "where": "east"}), y)
    with pytest.raises(ValueError, match="X"):
        fitting.plan(np.where(X > 2.0, np.nan, X), y)
    with pytest.raises(ValueError, match=r"y: expected 60 targets, one for each row of X, got shape \(59, 1\)"):
        fitting.plan(X, y[:-1])


def test_a_matern_kernel_is_taken_as_it_is():
    X, y = sample()
    planned = fitting.plan(X, y, nats=50.0, kernel=Matern(1.5, 2.0, [1.0, 3.0]), noise=0.5, simulate=0, select="none")
    (kernel,) = planned.problem.kernels
    assert (kernel.nu, kernel.variance, list(kernel.lengthscale)) == (1.5, 2.0, [1.0, 3.0])
    assert planned.problem.origin == "Kernel and noise are as given."


# Audits


@pytest.fixture(scope="module")
def trained():
    X, y = sample(90)
    return fitting.SparseGP("vfe", n_inducing=12, random_state=0).fit(X[:70], y[:70])


@pytest.fixture(scope="module")
def audited(trained):
    return fitting.audit(trained, *sample(90), most=60, epsilon=1.0, name="sample")


def test_an_audit_from_python_is_that_of_the_shell(capsys, tmp_path, trained, audited):
    trained.save(tmp_path / "model.npz")
    np.savetxt(tmp_path / "sample.csv", np.column_stack(sample(90)), delimiter=",", fmt="%.17g")
    words = ["audit", str(tmp_path / "sample.csv"), "--model", str(tmp_path / "model.npz"), "--most", "60"]
    words += ["--certificate", "1", "--out", str(tmp_path / "shell.html")]
    assert main([*words, "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert record.pop("out") == str(tmp_path / "shell.html")
    own = audited.to_dict()
    read, counted = record["notes"].pop(0), own["notes"].pop(0)  # the first note says where the model is from
    assert read.startswith("The model was read from")
    assert counted == "20 rows of the table were not used in the training of the model."
    assert (own["data"].pop("target"), record["data"].pop("target")) == ("y", "column 3")
    again, proposed = own.pop("again"), record.pop("again")
    assert 'SparseGP(kernel=model.kernel_, noise=model.noise_, fixed="all", n_inducing=' in again
    assert "gpbounds train" in proposed
    for each in own["findings"]:
        each["text"] = each["text"].replace(again, proposed)
    assert own == record
    assert main(words) == 0
    shown = capsys.readouterr().out
    report = " ".join(shown.split()).replace(proposed, again)
    for finding in audited.findings:
        assert " ".join(finding.text.split()) in report
    audited.save(tmp_path / "python.html")
    pages = [(tmp_path / f"{name}.html").read_text(encoding="utf-8") for name in ("python", "shell")]
    said = html.escape(again), html.escape(proposed)
    named = "target y, 70 training rows", "target column 3, 70 training rows"
    assert [page.replace(counted, read).replace(*said).replace(*named) for page in pages] == [pages[1], pages[1]]


def test_an_audit_is_shown_saved_and_drawn(capsys, audited, tmp_path):
    audited.print()
    assert capsys.readouterr().out == f"{audited}\n"
    assert "Inducing points" in is_whole_page(audited.page())
    assert "&lt;!DOCTYPE html&gt;" in audited._repr_html_()
    audited.save(tmp_path / "audit.json")
    assert json.loads((tmp_path / "audit.json").read_text(encoding="utf-8")) == audited.to_dict()
    (ax,) = audited.plot().axes
    counts = [level.M for level in audited.enough.of("chosen")]
    assert any(list(line.get_xdata()) == counts for line in ax.lines)


def test_an_audit_names_the_columns_of_a_data_frame(trained, audited):
    pandas = pytest.importorskip("pandas")
    X, y = sample(90)
    named = fitting.audit(
        trained, pandas.DataFrame(X, columns=["east", "north"]), y, most=60, epsilon=1.0, name="sample"
    )
    assert named.subject.columns == ("east", "north")
    assert named.enough.divergence == audited.enough.divergence
    assert any("east" in part.column for part in named.places.parts)


def test_a_model_of_a_data_frame_is_audited_and_certified_by_it():
    """scikit-learn's warning that an array has no names is not shown: the columns have been compared by name."""
    pandas = pytest.importorskip("pandas")
    X, y = sample(90)
    frame = pandas.DataFrame(X, columns=["east", "north"])
    model = fitting.SparseGP("vfe", n_inducing=12, random_state=0).fit(frame[:70], y[:70])
    assert fitting.audit(model, frame, y, most=20).calibration.n == 20
    with pytest.raises(ValueError, match="X: expected the columns of training in their order, east, north, got north"):
        fitting.audit(model, frame[["north", "east"]], y)
    certificate = fitting.certify(model, frame[:70], y[:70], epsilon=1.0, delta=0.05)
    assert certificate == fitting.certify(model, X[:70], y[:70], epsilon=1.0, delta=0.05)
    assert len(certificate.plot().axes) == 2


def test_a_model_of_another_library_is_audited_on_all_rows_or_on_a_share():
    from gpbounds.renyi import Model

    X, y = sample(90)
    model = Model(SquaredExponential(1.5, [0.7, 0.9]), 0.2, X[:30:2], None)
    whole = fitting.audit(model, X, y, held_out=0.0, most=60)
    assert whole.calibration is None
    assert whole.subject.N == 90
    assert any("Calibration is missing: pass rows that were not used in training, test" in note for note in whole.notes)
    part = fitting.audit(model, X, y, held_out=0.2, most=60)
    assert (part.subject.N, part.calibration.n) == (72, 18)


def test_an_audit_says_what_its_work_leaves_out(trained):
    """Without work there is no factor of K + σ²I: a wider interval contains the other one, and a note says why."""
    whole, cheap = (fitting.audit(trained, *sample(90), most=20, work=work) for work in (1e12, 0.0))
    left = "The member 'exact' is left out"
    assert not any(note.startswith(left) for note in whole.notes)
    assert any(note.startswith(left) for note in cheap.notes)
    (low, high), (least, most) = (list(map(float, each.enough.evidence)) for each in (whole, cheap))
    assert least <= low <= high <= most
    assert most - least > high - low


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"work": -1.0}, "work: expected"),
        ({"nats": 0.0}, "nats: expected a positive finite number"),
        ({"most": 0}, "most: expected a whole number >= 1"),
        ({"delta": 1.0}, "delta: expected"),
        ({"epsilon": -1.0}, "epsilon: expected"),
        ({"X": np.zeros((90, 3))}, "model: expected a model of 3 inputs, as data has, got one of 2"),
        ({"X": np.zeros((90, 2))}, "model: expected a model whose training rows are among those of data, but 70 of"),
    ],
)
def test_an_audit_refuses_in_the_words_of_python(trained, change, message):
    X, y = sample(90)
    with pytest.raises(ValueError, match=message):
        fitting.audit(trained, **{"X": X, "y": y} | change)


def test_a_law_of_inducing_variables_keeps_all_rows_of_its_training():
    """q(u) was trained on all of them: with a part of them the divergence would be about nothing."""
    from gpbounds.renyi import InducingLaw, Model

    X, y = sample(40)
    q = InducingLaw(np.zeros(4), np.eye(4), whitened=True, jitter=0.0)
    model = Model(SquaredExponential(1.5, [0.7, 0.9]), 0.2, X[:4], None, q)
    with pytest.raises(ValueError, match=r"held_out: expected 0 for a model with its own q\(u\).* with test"):
        fitting.audit(model, X, y, held_out=0.2)
    (note,) = (note for note in fitting.audit(model, X, y, most=10).notes if "Calibration is missing" in note)
    assert "held_out" not in note


def test_a_classifier_is_audited_on_its_labels_alone():
    X, y = sample(40)
    model = fitting.VariationalGPClassifier(n_inducing=5, random_state=0).fit(X, y > 0.0)
    with pytest.raises(ValueError, match=r"y: expected labels in \[False, True\], got "):
        fitting.audit(model, X, y)


# Certificates


@pytest.fixture(scope="module")
def certificate():
    X, y = sample(90)
    model = fitting.ExactGP(kernel=SquaredExponential(2.0, [0.7, 0.9]), noise=0.3).fit(X, y)
    return fitting.certify(model, X, y, epsilon=1.0, delta=0.05)


def test_a_certificate_is_one_and_is_shown_as_a_page(certificate, tmp_path):
    """The file is that of `Certificate.save`, byte by byte, and anybody can check it without the model."""
    X, y = sample(90)
    assert isinstance(certificate, Certificate)
    certificate.save(tmp_path / "certificate.json")
    Certificate.save(certificate, tmp_path / "same.json")
    assert (tmp_path / "certificate.json").read_bytes() == (tmp_path / "same.json").read_bytes()
    read = Certificate.load(tmp_path / "certificate.json")
    assert read == certificate
    assert read.check(X, y).confirmed
    certificate.save(tmp_path / "certificate.html")
    text = is_whole_page((tmp_path / "certificate.html").read_text(encoding="utf-8"))
    assert certificate.statement in text
    assert f"{certificate.risk:.6f}" in text
    assert "&lt;!DOCTYPE html&gt;" in certificate._repr_html_()


def test_a_certificate_prints_its_statement(capsys, certificate):
    certificate.print()
    assert capsys.readouterr().out == f"{certificate}\n"
    assert certificate.statement in str(certificate)


def test_the_figure_of_a_certificate_shows_the_predictions_of_its_rows(certificate):
    left, right = certificate.plot().axes
    dots = np.concatenate([each.get_offsets() for each in left.collections if len(each.get_offsets()) > 1])
    truth, mean, _ = certificate._predictions()
    np.testing.assert_allclose(sorted(map(tuple, dots)), sorted(zip(truth, mean, strict=True)), rtol=1e-12)
    np.testing.assert_array_equal(truth, sample(90)[1])
    assert any(f"{certificate.risk:.4f}" in text.get_text() for text in right.texts)


def test_predictions_of_scaled_rows_are_drawn_in_raw_units():
    """A model of scaled rows, certified with its scalings, predicts what the same model predicts in raw units."""
    X, y = sample(90)
    inputs, outputs = Scaling("disjoint split", 0.5, 2.0), Scaling("disjoint split", -1.0, 3.0)
    kernel = SquaredExponential(1.0, 1.0)
    model = fitting.ExactGP(kernel=kernel, noise=0.3).fit(inputs.apply(X), outputs.apply(y))
    certificate = fitting.certify(model, X, y, epsilon=0.5, delta=0.05, scaling=(inputs, outputs))
    truth, mean, std = certificate._predictions()
    own_mean, own_std = model.predict(inputs.apply(X), return_std=True)
    np.testing.assert_allclose(truth, y, rtol=1e-12)
    np.testing.assert_allclose(mean, -1.0 + 3.0 * own_mean, rtol=1e-12)
    np.testing.assert_allclose(std, 3.0 * own_std, rtol=1e-12)


def test_a_certificate_of_rows_in_partitions_is_drawn_without_predictions(tmp_path):
    X, y = sample(90)
    model = fitting.SparseGP("vfe", n_inducing=12, random_state=0).fit(X, y)
    np.save(tmp_path / "X.npy", X)
    np.save(tmp_path / "y.npy", y)
    certificate = fitting.certify(model, tmp_path / "X.npy", tmp_path / "y.npy", epsilon=1.0, delta=0.05)
    assert certificate == fitting.certify(model, X, y, epsilon=1.0, delta=0.05)
    (ax,) = certificate.plot().axes
    assert any(f"{certificate.risk:.4f}" in text.get_text() for text in ax.texts)


# Curves and the comparison of bounds with subsets, which the commands `curve` and `demo` show


def test_curves_are_what_the_command_prints(capsys, file, tmp_path):
    from fitting.study.curves import curves
    from fitting.study.problem import Question, about_rows
    from fitting.study.standardised import load

    asked = Question(variance=1.5, lengthscale=[0.7, 0.9], noise=0.2, draws=10, simulate=0)
    drawn = curves(about_rows(load(Path(file)), asked), [1.0], [5, 15])
    words = ["curve", "--data", file, *WORDS[2:], "-M", "5,15", "--out", str(tmp_path / "curve.png"), "--json"]
    assert main(words) == 0
    record = json.loads(capsys.readouterr().out)
    del record["out"]
    assert drawn.to_dict() == record
    assert "given y" in is_whole_page(drawn.page())
    assert len(drawn.plot().axes) >= 2
    assert not drawn.interrupted
    with pytest.raises(ValueError, match="expected several alpha or several N, not both"):
        curves(drawn.problem.__class__(**vars(drawn.problem) | {"cases": two_sizes(drawn)}), [0.5, 1.0])


def two_sizes(drawn):
    case = drawn.problem.cases[0]
    return (dataclasses.replace(case, sizes=(40, 60)),)


def test_the_comparison_with_subsets_has_a_page():
    from fitting.study import hyperparameters
    from fitting.study.standardised import standardise
    from fitting.study.subsets import study

    data = standardise("sample", *sample(40))
    hyper = hyperparameters.as_given(np.inf, 1.0, 1.0, 0.5)
    compared = study(
        data, hyper, alpha=1.0, target=1.0, rows=40, draws=1, counts=np.array([3.0, 10.0]), simulate=0, best=2
    )
    assert json.loads(json.dumps(compared.to_dict(), allow_nan=False)) == compared.to_dict()
    text = is_whole_page(compared.page())
    assert str(compared).splitlines()[0] in text
