"""Training by the bound from a shell: the certificate passes its check, the page is legible, no output is lost."""

from __future__ import annotations

import gzip
import itertools
import json
import shlex

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm
from thinning import one_in

import fitting
from fitting.study.terms import tolerance
from fitting.training.watch import Watch
from gpbounds.cli import main, rows, training
from gpbounds.pacbayes import Certificate
from gpbounds.plotting import Predictions, certificate_page, plot_terms
from gpbounds.plotting.certificates import separated

QUICK = ("--epsilon", 0.6, "--delta", 0.05, "--kernel-lengthscale", "shared", "--grid", -3, 3, 12, "--iterations", 20)
N = 90


def ask(capsys, action, *words):
    form = ("--method", "pac-bayes") if action == "train" else ()
    status = main(["certify", action, *map(str, (*words, *form))])
    out, err = capsys.readouterr()
    return status, out, err


def sentence(err):
    """The last line on stderr: what went wrong."""
    return err.splitlines()[-1]


def train(capsys, *words):
    status, out, err = ask(capsys, "train", *words, "--json")
    assert status == 0, err
    return json.loads(out)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A table with a header, gzipped, and with its target in the first column."""
    place = tmp_path_factory.mktemp("train")
    rng = np.random.default_rng(3)
    X = rng.uniform(-2.0, 2.0, (N, 2)) * [1.0, 3.0]
    y = np.sin(1.5 * X[:, 0]) + 0.1 * X[:, 1] + 0.15 * rng.standard_normal(N)
    table = np.column_stack([X, y]).tolist()
    lines = ["a,b,yield", *(",".join(map(repr, row)) for row in table)]
    (place / "data.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    with gzip.open(place / "data.csv.gz", "wt") as file:
        file.write("\n".join(lines[1:]) + "\n")
    first = ["yield,a,b", *(",".join(map(repr, [row[2], *row[:2]])) for row in table)]
    (place / "first.csv").write_text("\n".join(first) + "\n", encoding="utf-8")
    moved = [lines[0], *lines[2:], lines[1]]
    (place / "moved.csv").write_text("\n".join(moved) + "\n", encoding="utf-8")
    return place


@pytest.fixture(scope="module")
def X(folder):
    return rows.read(folder / "data.csv").X


@pytest.fixture(scope="module")
def y(folder):
    return rows.read(folder / "data.csv").y


@pytest.fixture(scope="module")
def full(folder):
    """A certificate of the exact posterior."""
    out = folder / "full"
    assert (
        main(["certify", "train", str(folder / "data.csv"), *map(str, (*QUICK, "--method", "pac-bayes", "--out", out))])
        == 0
    )
    return Certificate.load(out / "certificate.json")


# What is certified


@pytest.mark.parametrize(
    ("name", "names"),
    [
        ("linear+periodic", "k1.variance k2.variance k2.lengthscale k2.period"),
        ("polynomial:2+matern32", "k1.offset k1.variance k2.variance k2.lengthscale"),
        ("rq+constant", "k1.variance k1.shape k1.lengthscale k2.variance"),
    ],
)
def test_other_kernels_and_sums_are_trained_and_checked(capsys, folder, tmp_path, name, names):
    asked = (*QUICK[:-2], "--iterations", 5, "--kernel", name, "--out", tmp_path / "out")
    train(capsys, folder / "data.csv", *asked)
    certificate = Certificate.load(tmp_path / "out" / "certificate.json")
    assert certificate.grid.names == tuple(names.split())
    assert certificate.count == 13**4
    status, out, _ = ask(capsys, "check", tmp_path / "out" / "certificate.json", "--data", folder / "data.csv")
    assert status == 0
    assert out.rstrip().endswith("CONFIRMED, given the declarations.")


@pytest.mark.parametrize("name", ["spline", "polynomial", "polynomial:0", "polynomial:99", "se+", "linear*se"])
def test_unknown_kernels_are_refused_in_one_sentence(capsys, folder, tmp_path, name):
    status, _, err = ask(capsys, "train", folder / "data.csv", "--kernel", name, "--out", tmp_path / "out")
    assert status == 2
    assert (
        "expected se (or rbf), matern12, matern32, matern52, matern:NU, rq, periodic, linear, polynomial:DEGREE"
        in sentence(err)
    )


def test_the_terms_are_those_of_the_exact_posterior_by_dense_algebra(full, X, y):
    variance, scale, noise = full.kernel.variance, full.kernel.lengthscale, full.posterior.noise
    K = variance * np.exp(-0.5 * ((X[:, None] - X[None]) ** 2).sum(axis=2) / scale**2)
    S = K + noise * np.eye(N)
    mean = K @ np.linalg.solve(S, y)
    cov = K - K @ np.linalg.solve(S, K)
    std = np.sqrt(np.diagonal(cov))
    risk = np.mean(norm.cdf((y - 0.6 - mean) / std) + norm.sf((y + 0.6 - mean) / std))
    a = np.linalg.solve(S, y)
    kl = 0.5 * (np.linalg.slogdet(S / noise)[1] - np.trace(np.linalg.solve(S, K)) + a @ K @ a)
    assert 0.0 <= full.risk - risk < 1e-8  # with an allowance for rounding on top
    assert 0.0 <= full.kl - kl < 1e-6
    assert full.bound < 0.9  # in this setting the bound is below 1


def test_the_bound_is_kl_inverse_of_its_terms_at_40_digits(full):
    with mpmath.workdps(40):
        xi = mpmath.fsum(mpmath.ff(N, k) / mpmath.mpf(N) ** k for k in range(N + 1))
        eps = (mpmath.mpf(full.kl) + 2 * mpmath.log(13) + mpmath.log(xi / mpmath.mpf(0.05))) / N
        q = mpmath.mpf(full.risk)

        def excess(p):
            return q * mpmath.log(q / p) + (1 - q) * mpmath.log((1 - q) / (1 - p)) - eps

        bound = mpmath.findroot(excess, (q + mpmath.mpf("1e-20"), 1 - mpmath.mpf("1e-20")), solver="anderson")
        assert abs(excess(bound)) < 1e-30
        assert 0 <= mpmath.mpf(full.bound) - bound < 1e-13


def test_hyperparameters_lie_on_the_grid_asked_for(full):
    assert (full.grid.low, full.grid.high, full.grid.steps) == ((-3.0, -3.0), (3.0, 3.0), (12, 12))
    named = {"variance": full.kernel.variance, "lengthscale": full.kernel.lengthscale}
    for i, value in zip(full.indices, named.values(), strict=True):
        assert value == pytest.approx(np.exp(-3.0 + 0.5 * i), rel=1e-15)


@pytest.mark.broad
@pytest.mark.parametrize(
    ("method", "objective"),
    one_in(4, [("fitc", "kl"), ("vfe", "pinsker"), ("free", "kl"), ("vfe", "kl"), ("free", "pinsker")]),
)
def test_sparse_methods_and_objectives_are_certified_and_checked(capsys, folder, tmp_path, method, objective):
    words = (*QUICK, "--posterior", method, "--inducing", 8, "--objective", objective, "--out", tmp_path)
    answer = train(capsys, folder / "data.csv", *words)
    status, out, _ = ask(capsys, "check", tmp_path / "certificate.json", "--data", folder / "data.csv")
    assert status == 0, out
    made = Certificate.load(tmp_path / "certificate.json")
    assert made.posterior.Z.shape == (8, 2)
    assert getattr(made.posterior, "power", None) == {"fitc": 1.0, "vfe": 0.0, "free": None}[method]
    assert answer["bound"] == made.bound < 0.95
    assert answer["forms"] == [{"method": "pac-bayes", "bound": made.bound, "delta": 0.05, "rows": N}]
    assert {name: answer[name] for name in answer["forms"][0]} == answer["forms"][0]
    assert answer["nats"] == {"KL": made.kl, "ln|Θ|": made.log_count, "ln(ξ/δ)": made.log_xi}


@pytest.mark.broad
@pytest.mark.parametrize("loss", one_in(3, ["squared", "exponential", "relative", "interval"]))
def test_other_losses(capsys, folder, tmp_path, loss):
    train(capsys, folder / "data.csv", *QUICK, "--loss", loss, "--out", tmp_path)
    made = Certificate.load(tmp_path / "certificate.json")
    assert made.loss.name == loss
    assert ask(capsys, "check", tmp_path / "certificate.json", "--data", folder / "data.csv")[0] == 0


@pytest.mark.slow
def test_training_from_the_shell_finds_the_inputs_that_matter(capsys, tmp_path):
    """Two sines of eight inputs: from lengthscales of all inputs at their scale the bound ends above .7."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((400, 8))
    y = np.sin(3.0 * X[:, 0]) + np.sin(3.0 * X[:, 1]) + 0.1 * rng.standard_normal(400)
    np.savetxt(tmp_path / "sines.csv", np.column_stack([X, y]), delimiter=",")
    words = ("--epsilon", 0.6, "--posterior", "fitc", "--inducing", 40, "--iterations", 60, "--out", tmp_path / "new")
    assert train(capsys, tmp_path / "sines.csv", *words)["bound"] < 0.55


def test_a_lengthscale_each_costs_more_axes(capsys, folder, tmp_path):
    words = [word for word in QUICK if word not in ("--kernel-lengthscale", "shared")]
    answer = train(capsys, folder / "data.csv", *words, "--kernel", "matern32", "--out", tmp_path)
    assert answer["nats"]["ln|Θ|"] == pytest.approx(3 * np.log(13), rel=1e-12)
    assert Certificate.load(tmp_path / "certificate.json").kernel.nu == 1.5


def test_the_number_of_rows_chooses_the_method(capsys, folder, tmp_path, monkeypatch):
    kinds = []
    for limit in (N, N - 1):
        monkeypatch.setattr(training, "FULL_ROWS", limit)
        train(capsys, folder / "data.csv", *QUICK, "--out", tmp_path)
        kinds.append(Certificate.load(tmp_path / "certificate.json").posterior.kind)
    assert kinds == ["exact", "sparse"]


# Checking what was written


@pytest.mark.parametrize("data", ["data.csv", "data.csv.gz"])
def test_what_is_printed_checks_it_and_a_changed_file_does_not_pass(capsys, folder, tmp_path, data):
    status, out, _ = ask(capsys, "train", folder / data, *QUICK, "--out", tmp_path / "new")
    assert status == 0
    made = Certificate.load(tmp_path / "new" / "certificate.json")
    assert f"is at most {made.bound!r}" in " ".join(out.split())
    table = {line.split()[0]: line.split()[1] for line in out.splitlines() if "/N  " in line or "R_S  " in line}
    shown = {"KL/N": made.kl / N, "ln|Θ|/N": made.log_count / N, "ln(ξ/δ)/N": made.log_xi / N, "R_S": made.risk}
    assert {name: float(value) for name, value in table.items()} == pytest.approx(shown, abs=5.1e-7)
    assert "2 ln(13)" in out
    assert (tmp_path / "new" / "certificate.png").read_bytes().startswith(b"\x89PNG")
    assert not (tmp_path / "new" / "certificate_data.csv").exists()
    command = shlex.split(out.splitlines()[-1])
    assert command[:3] == ["gpbounds", "certify", "check"]
    assert ask(capsys, *command[2:])[0] == 0
    command[-1] = str(folder / "moved.csv")
    assert ask(capsys, *command[2:])[0] == 1


def test_rows_set_apart_scale_the_rest_which_alone_is_certified(capsys, folder, tmp_path, X, y):
    words = ("--scaling", "split", "--share", 0.2, "--seed", 5, "--out", tmp_path)
    answer = train(capsys, folder / "data.csv", *QUICK, *words)
    made = Certificate.load(tmp_path / "certificate.json")
    kept = rows.read(tmp_path / "certificate_data.csv")
    assert (tmp_path / "certificate_data.csv").read_text(encoding="utf-8").startswith("a,b,yield\n")
    both = np.column_stack([X, y])
    certified = (both[:, None] == np.column_stack([kept.X, kept.y])[None]).all(axis=2).any(axis=1)
    assert certified.sum() == kept.N == made.data.rows == N - 18
    assert made.inputs.origin == made.outputs.origin == "disjoint split"
    np.testing.assert_allclose(made.inputs.shift, X[~certified].mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(made.inputs.scale, X[~certified].std(axis=0), rtol=1e-12)
    np.testing.assert_allclose([made.outputs.shift, made.outputs.scale], [y[~certified].mean(), y[~certified].std()])
    check = shlex.split(answer["check"])
    assert check[-1] == str(tmp_path / "certificate_data.csv")
    assert ask(capsys, *check[2:])[0] == 0
    assert ask(capsys, "check", tmp_path / "certificate.json", "--data", folder / "data.csv")[0] == 1
    assert "18 rows drawn at random (seed 5)" in " ".join(answer["data"]["notes"])


def test_a_share_of_the_target_is_one_of_the_raw_target(folder):
    centred = rows.read(folder / "data.csv", split=True)
    as_share = rows.read(folder / "data.csv", split=True, centre=False)
    assert centred.outputs.shift != 0.0 == as_share.outputs.shift
    assert centred.outputs.scale == as_share.outputs.scale


@pytest.mark.parametrize("target", ["yield", "1"])
def test_another_column_may_be_the_target(capsys, folder, tmp_path, target, full):
    answer = train(capsys, folder / "first.csv", *QUICK, "--target", target, "--out", tmp_path)
    assert answer["bound"] == full.bound
    assert (tmp_path / "certificate_data.csv").read_text(encoding="utf-8") == (folder / "data.csv").read_text(
        encoding="utf-8"
    )
    assert ask(capsys, *shlex.split(answer["check"])[2:])[0] == 0


def test_inputs_that_do_not_vary_in_the_split_keep_their_unit(tmp_path):
    table = np.column_stack([np.full(20, 7.0), np.arange(20.0), np.arange(20.0) ** 2])
    (tmp_path / "flat.csv").write_text("\n".join(",".join(map(repr, row)) for row in table.tolist()), encoding="utf-8")
    data = rows.read(tmp_path / "flat.csv", split=True, share=0.3)
    assert data.inputs.scale[0] == 1.0
    assert "constant in these rows keep their unit: 1." in data.notes[-1]
    with pytest.raises(ValueError, match="expected a target that varies in the 6 reserved rows"):
        rows.read(tmp_path / "flat.csv", "1", split=True, share=0.3)


def test_the_same_seed_gives_the_same_certificate(capsys, folder, tmp_path):
    seals = []
    for seed in (1, 1, 2):
        train(
            capsys,
            folder / "data.csv",
            *QUICK,
            "--iterations",
            2,
            "--scaling",
            "split",
            "--seed",
            seed,
            "--out",
            tmp_path,
        )
        seals.append(Certificate.load(tmp_path / "certificate.json").seal)
    assert seals[0] == seals[1] != seals[2]


def test_a_vacuous_bound_is_an_answer_with_advice(capsys, folder, tmp_path):
    status, out, _ = ask(capsys, "train", folder / "data.csv", "--epsilon", 1e-4, "--iterations", 3, "--out", tmp_path)
    assert status == 0
    assert "The bound is almost vacuous" in out
    assert "standard deviations of the target" in out  # 1e-4 in units of a target with a standard deviation of .8


def test_several_epsilon_give_a_certificate_each_and_a_table_that_pays_for_the_choice(capsys, folder, tmp_path, full):
    words = ("--epsilon", "0.6,1.2", *QUICK[2:])
    status, out, _ = ask(capsys, "train", folder / "data.csv", *words, "--out", tmp_path)
    assert status == 0
    files = tmp_path / "certificate-0.6.json", tmp_path / "certificate-1.2.json"
    assert not (tmp_path / "certificate.json").exists()  # whose E nobody could tell
    certificates = [Certificate.load(file) for file in files]
    assert [c.loss.epsilon for c in certificates] == [0.6, 1.2]
    assert certificates[1].bound < certificates[0].bound
    assert certificates[0].log_count == pytest.approx(full.log_count + np.log(2.0), rel=1e-12)
    assert all(ask(capsys, "check", file, "--data", folder / "data.csv")[0] == 0 for file in files)
    rows = [line.split() for line in out.splitlines() if line.split()[:1] in (["0.6"], ["1.2"])]
    for name, row, each in zip(("0.6", "1.2"), rows[2:], certificates, strict=True):
        model = fitting.load(tmp_path / f"model-{name}.npz")
        assert row[1:] == [str(tmp_path / f"certificate-{name}.json"), str(tmp_path / f"model-{name}.npz")]
        assert model.certificate_ == each
    for row, each in zip(rows[:2], certificates, strict=True):
        assert float(row[3]) == pytest.approx(each.risk, abs=5e-5)
        assert each.bound <= float(row[4]) < each.bound + 1e-3


def test_with_scales_from_other_rows_epsilon_has_values_that_no_data_have_influenced(capsys, folder, tmp_path):
    words = ("--scaling", "split", *QUICK[2:-1], 2)
    record = train(capsys, folder / "data.csv", *words, "--out", tmp_path)
    assert [each["loss"]["epsilon"] for each in (record, *record["others"])] == [0.2, 0.4, 0.6, 0.8, 1.0]
    pairs = [record["files"], *(each["files"] for each in record["others"])]
    for files, each in zip(pairs, (record, *record["others"]), strict=True):
        name = f"{each['loss']['epsilon']:g}"
        assert files["certificate"] == str(tmp_path / f"certificate-{name}.json")
        assert fitting.load(files["model"]).certificate_ == Certificate.load(files["certificate"])
        assert ask(capsys, *shlex.split(each["check"])[2:])[0] == 0


def test_iterations_that_ran_out_are_told_once(capsys, folder, tmp_path):
    status, out, _ = ask(capsys, "train", folder / "data.csv", *QUICK[:-1], 2, "--out", tmp_path)
    assert status == 0
    assert "raise --iterations" in out
    assert "max_iter" not in out
    assert "Note" not in out


@pytest.mark.slow
def test_where_training_stops_is_told_with_the_name_of_the_option(capsys, folder, tmp_path):
    words = (*QUICK[:-1], 1000, "--posterior", "fitc", "--inducing", 12, "--out", tmp_path)
    early = ask(capsys, "train", folder / "data.csv", *words, "--tol", 0.02)
    late = ask(capsys, "train", folder / "data.csv", *words, "--tol", 0)
    assert early[0] == late[0] == 0
    assert "of the bound, and --tol is 0.02." in " ".join(early[1].split())
    assert "--tol" not in late[1]


def test_ctrl_c_certifies_the_best_point(capsys, folder, tmp_path, monkeypatch):
    step = Watch.step

    def interrupted(watch, f):
        step(watch, f)
        if watch.iterations == 4 and watch._most == 20:  # not a run of the start
            raise KeyboardInterrupt

    monkeypatch.setattr(Watch, "step", interrupted)
    status, out, _ = ask(capsys, "train", folder / "data.csv", *QUICK, "--out", tmp_path)
    assert status == 130
    assert "Interrupted after 4 iterations; the best point so far is kept." in " ".join(out.split())
    assert ask(capsys, "check", tmp_path / "certificate.json", "--data", folder / "data.csv")[0] == 0


def test_names_with_dollar_signs_are_drawn(capsys, folder, tmp_path):
    text = (folder / "data.csv").read_text(encoding="utf-8").replace("yield", "a $ b $^_")
    (tmp_path / "$x_{$.csv").write_text(text, encoding="utf-8")
    train(capsys, tmp_path / "$x_{$.csv", *QUICK, "--out", tmp_path)
    assert (tmp_path / "certificate.png").exists()


# Wrong arguments


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--epsilon", 0.6, "--share", 0.2), "--share is an option of --scaling split"),
        (("--epsilon", 0.6, "--scaling", "split", "--share", 1.5), "expected a number between 0 and 1, got 1.5"),
        (("--epsilon", 0.6, "--scaling", "split", "--share", 0.999), "expected to leave some rows, got 90 of 90"),
        (("--epsilon", 0.6, "--posterior", "full", "--inducing", 5), "the full posterior has no inducing points"),
        (("--epsilon", 0.6, "--inducing", 5), "the full posterior has no inducing points"),
        (("--epsilon", 0.6, "--grid", -3, 3, 1.5), "expected a whole number of STEPS, got 1.5"),
        (("--epsilon", 0.6, "--grid", 3, -3, 12), "variance: expected ln θ from low to high"),
        (("--epsilon", 0.6, "--target", "c"), "expected one of a, b, yield or a column's number from 1 to 3, got 'c'"),
        (("--epsilon", 0.6, "--target", "4"), "a column's number from 1 to 3, got '4'"),
        (("--epsilon", 0.6, "--delta", 1.5), "delta: expected"),
        (("--epsilon", -0.6), "epsilon: expected"),
        (("--epsilon", 0.6, "--iterations", 0), "--iterations: expected"),
        (("--epsilon", 0.6, "--tol", -1), "--tol: expected"),
        (("--epsilon", 0.6, "--kernel", "matern:0.7"), "expected a half-integer ν"),
        ((), "--epsilon: expected the deviation to tolerate"),
        (("--scaling", "split", "--loss", "relative"), "--epsilon: expected the deviation to tolerate"),
        (("--epsilon", "0.6,0.6"), "--epsilon: expected different numbers"),
        (("--epsilon", 0.6, "--loss", "hinge"), "invalid choice: 'hinge'"),
    ],
)
def test_questions_without_sense_exit_with_2_and_write_nothing(capsys, folder, tmp_path, words, message):
    status, out, err = ask(capsys, "train", folder / "data.csv", *words, "--out", tmp_path)
    assert (status, out) == (2, "")
    assert message in sentence(err)
    assert not list(tmp_path.iterdir())


def test_the_data_are_never_overwritten(capsys, folder, tmp_path):
    file = tmp_path / "certificate_data.csv"
    file.write_text((folder / "data.csv").read_text(encoding="utf-8"), encoding="utf-8")
    status, _, err = ask(capsys, "train", file, *QUICK, "--scaling", "split", "--out", tmp_path)
    assert status == 2
    assert "would overwrite" in sentence(err)
    assert file.read_text(encoding="utf-8") == (folder / "data.csv").read_text(encoding="utf-8")


def test_help_has_an_example_a_theorem_and_what_it_leaves_to_the_user(capsys):
    status, text, _ = ask(capsys, "train", "--help")
    assert status == 0
    assert "example:\n  gpbounds certify train" in text
    assert "P-44" in text
    assert "charges it for several --epsilon, but not for several runs" in text
    assert "full up to 1500 rows" in text
    assert training.FULL_ROWS == 1500
    assert "(default 100)" in text
    assert training.INDUCING == 100


# The page


def drawn(figure):
    """The figure laid out, and its renderer."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    return canvas.get_renderer()


COSTS = [("KL(Q‖P)", 62.3), ("ln|Θ|", 14.1818), ("ln(ξ(N)/δ)", 8.41)]


@pytest.mark.parametrize(
    ("risk", "bound", "n"),
    [(0.12, 0.25, 3000), (0.0, 1e-3, 100), (0.9, 0.99999, 3), (1.0, 1.0, 1), (0.0, 1.0, 30), (0.5, 0.5001, 3)],
)
def test_nothing_on_the_page_overlaps_or_is_cut_off(risk, bound, n):
    rng = np.random.default_rng(0)
    truth = rng.normal(35.0, 16.0, n)
    predictions = Predictions(truth, truth + rng.normal(0.0, 5.0, n), np.full(n, 2.5), 9.0)
    page = certificate_page(
        predictions,
        risk,
        COSTS,
        bound,
        title="\n".join(["line " * 20] * 3),
        target="strength",
        tolerated="loss 0: within ±9",
    )
    renderer = drawn(page)
    frame = page.bbox
    texts = [page._suptitle]
    for ax in page.axes:
        for axis, view in ((ax.xaxis, ax.get_xlim()), (ax.yaxis, ax.get_ylim())):
            texts += [tick.label1 for tick in axis.get_major_ticks() if view[0] <= tick.get_loc() <= view[1]]
        texts += [*ax.texts, ax.xaxis.label, ax.yaxis.label]
        texts += [ax.title, ax._left_title, *(ax.get_legend().get_texts() if ax.get_legend() else [])]
    boxes = [(t.get_text(), t.get_window_extent(renderer)) for t in texts if t.get_text() and t.get_visible()]
    assert len(boxes) > 15
    for i, (text, box) in enumerate(boxes):
        assert frame.x0 <= box.x0, text
        assert box.x1 <= frame.x1, text
        assert frame.y0 <= box.y0, text
        assert box.y1 <= frame.y1, text
        for other, taken in boxes[:i]:
            assert not box.overlaps(taken), (text, other)


def test_the_stack_ends_at_the_bound_and_is_divided_by_nats():
    from matplotlib.figure import Figure

    ax = Figure().add_subplot()
    plot_terms(ax, 0.1, COSTS, 0.3)
    bars = [patch for patch in ax.patches if patch.get_x() == 0.15][:4]
    heights = np.array([bar.get_height() for bar in bars])
    assert heights.sum() == pytest.approx(0.3, rel=1e-14)
    assert heights[0] == 0.1
    nats = np.array([cost for _, cost in COSTS])
    np.testing.assert_allclose(heights[1:], 0.2 * nats / nats.sum(), rtol=1e-13)
    assert [bar.get_y() for bar in bars] == pytest.approx([0.0, *np.cumsum(heights)[:-1]])


def test_predictions_are_drawn_as_handed_in_and_their_shares_told():
    predictions = Predictions([3.0, 1.0, 2.0], [3.1, 1.9, 2.0], [0.1, 0.2, 0.3], 0.5)
    left, _ = certificate_page(predictions, 0.1, COSTS, 0.3, title="t").axes
    points = [collection.get_offsets().tolist() for collection in left.collections[2:]]
    assert points == [[[2.0, 2.0], [3.0, 3.1]], [[1.0, 1.9]]]
    texts = [text.get_text() for text in left.get_legend().get_texts()]
    assert "mean within: 66.7 % of rows" in texts
    assert "mean beyond: 33.3 % of rows" in texts


@given(
    st.lists(st.floats(0.0, 1.0), min_size=1, max_size=6).map(sorted),
    st.floats(1e-3, 0.15),
)
def test_labels_keep_their_distance_within_the_axis_and_stay_where_they_fit(places, gap):
    moved = separated(places, gap, 0.0, 1.0)
    assert all(b - a >= gap - 1e-12 for a, b in itertools.pairwise(moved))
    assert min(moved) >= -1e-12
    assert max(moved) <= 1.0 + 1e-12
    if all(b - a >= gap for a, b in itertools.pairwise(places)):
        assert moved == pytest.approx(places, abs=1e-12)  # on an axis from 0 to 1


def test_the_band_is_what_the_loss_tolerates_in_raw_units(capsys, folder, tmp_path, full):
    table = rows.read(folder / "data.csv")
    assert tolerance(full, table.shown[1]) == (0.6, "loss 0: within ±0.6")
    train(capsys, folder / "data.csv", *QUICK, "--loss", "relative", "--scaling", "split", "--out", tmp_path)
    made, kept = Certificate.load(tmp_path / "certificate.json"), rows.read(tmp_path / "certificate_data.csv")
    width, _ = tolerance(made, kept.shown[1])
    scaled = made.outputs.apply(kept.y)
    edge = made.loss.value(scaled, made.outputs.apply(kept.y + np.asarray(width)))
    np.testing.assert_allclose(edge, 1.0, rtol=1e-9)


def test_a_linear_mean_is_fitted_to_the_reserved_rows(capsys, folder, tmp_path):
    """It is that of least squares on the rows that the certificate does not cover; the check knows and needs it."""
    words = (folder / "data.csv", *QUICK, "--scaling", "split", "--share", 0.3, "--out", tmp_path)
    result = train(capsys, *words, "--mean", "linear")
    stated = Certificate.load(result["files"]["certificate"])
    table = rows.read(folder / "data.csv", split=True, share=0.3)
    everything, kept = rows.read(folder / "data.csv"), {row.tobytes() for row in table.X}
    apart = np.array([row.tobytes() not in kept for row in everything.X])
    X = table.inputs.apply(everything.X[apart])
    y = table.outputs.apply(everything.y[apart])
    best = np.linalg.lstsq(np.column_stack([np.ones(len(y)), X]), y, rcond=None)[0]
    np.testing.assert_allclose(stated.mean.coefficients, best, atol=1e-12)
    assert stated.mean.origin == "disjoint split"
    assert stated.check(table.X, table.y).confirmed
    assert "fitted to data disjoint from these" in result["mean"]
    for wrong, message in (
        (("--mean", "linear"), "--mean linear is an option of --scaling split"),
        (("--mean", "linear", "--scaling", "split", "--loss", "interval"), "--mean linear is an option"),
        (("--mean", "linear", "--scaling", "split", "--share", 0.03), "expected more than 3 reserved rows"),
    ):
        status, _, err = ask(capsys, "train", folder / "data.csv", *QUICK, *wrong, "--out", tmp_path)
        assert status == 2
        assert message in err
