"""The PAC-GP examples: data, figures and verdicts compared with independent computations, and the written files."""

from __future__ import annotations

import csv
import dataclasses
import importlib
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import norm

from gpbounds import SquaredExponential
from gpbounds.losses import Band
from gpbounds.pacbayes import Certificate, Exact, HyperGrid, Sparse

EXAMPLES = Path(__file__).parents[1] / "examples"
NAMES = (
    "lowrank_setting",
    "regression_sets",
    "pac_settings",
    "pac_tables",
    "pac_gp_housing",
    "pac_sgp_inducing",
    "pac_gp_toy",
    "pac_gp_grid",
)


@pytest.fixture
def example(monkeypatch):
    """An example as a module, with its folder on the path, as for a script."""
    monkeypatch.syspath_prepend(EXAMPLES)
    yield importlib.import_module
    for name in NAMES:
        sys.modules.pop(name, None)


def rows(N=60, D=2, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((N, D)) * np.arange(1.0, D + 1.0) + 5.0
    return X, np.sin(X[:, 0]) * 10.0 + rng.standard_normal(N) - 3.0


@pytest.fixture
def own(tmp_path):
    """A table of 60 rows as a CSV file."""
    X, y = rows()
    path = tmp_path / "own.csv"
    np.savetxt(path, np.column_stack([X, y]), delimiter=",")
    return path


# data


def test_both_variants_test_on_the_same_rows_and_leave_nothing_out(example):
    settings = example("pac_settings")
    X, y = np.arange(506.0)[:, None], np.arange(506.0) ** 2
    paper, rigorous = (settings.split(X, y, variant, 3) for variant in settings.VARIANTS)
    assert (len(paper.y), len(paper.y_test), len(rigorous.y)) == (404, 102, 353)
    np.testing.assert_array_equal(paper.X_test, rigorous.X_test)
    assert sorted([*paper.X[:, 0], *paper.X_test[:, 0]]) == list(range(506))
    assert set(rigorous.X[:, 0]) < set(paper.X[:, 0])
    assert not np.array_equal(paper.X_test, settings.split(X, y, "paper", 4).X_test)


def test_the_rigorous_constants_come_from_rows_that_serve_nothing_else(example):
    settings = example("pac_settings")
    X, y = rows(100)
    part = settings.split(X, y, "rigorous", 0)
    used = {row.tobytes() for row in [*part.X, *part.X_test]}
    apart = np.array([row.tobytes() not in used for row in X])
    assert apart.sum() == 10
    np.testing.assert_allclose(part.inputs.shift, X[apart].mean(axis=0), rtol=1e-14)
    assert part.outputs.scale == pytest.approx(y[apart].std(), rel=1e-14)
    assert part.rigorous
    y[~apart] += 1e3  # rows of training and test must not change the constants
    assert settings.split(X, y, "rigorous", 0).outputs == part.outputs


def test_the_paper_scales_by_all_rows_and_is_not_rigorous(example):
    settings = example("pac_settings")
    X, y = rows(100)
    X[:, 1] = 7.0  # a constant column keeps its unit
    part = settings.split(X, y, "paper", 0)
    every = np.concatenate([part.scaled[1], part.scaled_test[1]])
    assert every.mean() == pytest.approx(0.0, abs=1e-12)
    assert every.std() == pytest.approx(1.0)
    assert part.inputs.scale[1] == 1.0
    assert not part.rigorous


# figures


def kl_inverse(q, eps):
    """The root of kl(q‖p) = eps above q, by bisection."""
    kl = lambda p: q * np.log(q / p) + (1 - q) * np.log((1 - q) / (1 - p)) - eps  # noqa: E731
    return brentq(kl, q, 1.0 - 1e-15, xtol=1e-15)


@pytest.mark.parametrize("alpha", [None, 0.0, 1.0])
def test_figures_are_those_of_dense_algebra(example, alpha):
    """Risks, KL and all three bounds, computed from K."""
    settings = example("pac_settings")
    part = settings.split(*rows(60), "rigorous", 0)
    grid = HyperGrid.shared()
    kernel = SquaredExponential(*grid.round([0.8, 1.3]).theta.values())
    (X, y), (X_test, y_test), noise, N = part.scaled, part.scaled_test, 0.3, len(part.y)
    Z = X[:7] + 0.1
    form = Exact(noise) if alpha is None else Sparse(Z, noise, alpha)
    options = {"grid": grid, "loss": Band(0.6), "delta": 0.01, "inputs": part.inputs, "outputs": part.outputs}
    certificate = Certificate.issue(part.X, part.y, form, kernel, **options)
    # Q(u) = N(a, B) with u = f(Z), or f(X)
    U = X if alpha is None else Z
    Kuu, Kuf = kernel(U), kernel(U, X)
    Q = Kuf.T @ np.linalg.solve(Kuu, Kuf)
    D = np.full(N, noise) + (0.0 if alpha is None else alpha) * (kernel.diag(X) - np.diag(Q))
    Xi = Q + np.diag(D)
    a, B = Kuf @ np.linalg.solve(Xi, y), Kuu - Kuf @ np.linalg.solve(Xi, Kuf.T)
    W = np.linalg.solve(Xi, Kuf.T @ np.linalg.inv(Kuu) @ Kuf)
    logdet = -np.linalg.slogdet(np.eye(N) - W)[1]  # |I - Xi^-1 Q| = |B| / |Kuu|
    kl = 0.5 * (logdet - np.trace(W) + a @ np.linalg.solve(Kuu, a))

    def predict(at):
        P = np.linalg.solve(Kuu, kernel(U, at)).T
        return P @ a, kernel.diag(at) - np.einsum("ij,jk,ik->i", P, Kuu - B, P)

    def risk(at, target):
        mean, variance = predict(at)
        s = np.sqrt(variance)
        return float(np.mean(norm.sf((target + 0.6 - mean) / s) + norm.cdf((target - 0.6 - mean) / s)))

    figures = settings.figures(certificate, part)
    tight = {"rel": 1e-5}
    assert figures["train"] == pytest.approx(risk(X, y), **tight)
    assert figures["test"] == pytest.approx(risk(X_test, y_test), **tight)
    assert figures["MSE"] == pytest.approx(np.mean((predict(X_test)[0] - y_test) ** 2), **tight)
    assert figures["KL_N"] == pytest.approx(kl / N, **tight)
    assert figures["noise"] == noise
    eps = (kl + 2 * np.log(1201) + np.log(2 * np.sqrt(N) / 0.01)) / N
    assert figures["B_maurer"] == pytest.approx(kl_inverse(risk(X, y), eps), **tight)
    assert figures["B_pin"] == pytest.approx(risk(X, y) + np.sqrt(eps / 2), **tight)
    assert figures["train"] < figures["B"] < figures["B_maurer"] < figures["B_pin"]


# comparison with the paper


@pytest.mark.parametrize(
    ("script", "N", "dim", "data"),
    [
        ("pac_gp_housing", 404, 13, ()),
        ("pac_sgp_inducing", 32_000, 8, ("kin40k",)),
        ("pac_sgp_inducing", 12_000, 26, ("pol",)),
        ("pac_sgp_inducing", 39_146, 21, ("sarcos",)),
    ],
)
def test_the_printed_tables_agree_with_themselves(example, script, N, dim, data):
    """The printed bounds follow from the printed R_S and KL/N (P-13), up to rounding and, for kl⁻¹, Jensen's gap."""
    module, tables = example(script), example("pac_tables")
    lines = [*module.PRINTED.items(), *getattr(module, "PRINTED_EXPONENTIAL", {}).items()]
    for (*_, setting, method), line in [(key, line) for key, line in lines if key[: len(data)] == data]:
        row = tables.printed(line)
        T = dim + 1 if setting is True else 2
        eps = row["KL_N"][0] + (T * np.log(1201) + np.log(2 * np.sqrt(N) / 0.01)) / N
        spread = 2.0 * max(row["KL_N"][1], 5e-4)  # means of ten seeds, three digits
        low, high = (np.sqrt(0.5 * (eps + d)) - np.sqrt(0.5 * eps) for d in (-spread, spread))
        pinsker = row["train"][0] + np.sqrt(0.5 * eps)
        assert low - 1.1e-3 <= row["B_pin"][0] - pinsker <= high + 1.1e-3, (setting, method)
        assert row["B"][0] <= kl_inverse(row["train"][0] + 5e-4, eps + 5e-4) + 5e-4, (
            setting,
            method,
        )  # kl⁻¹ is concave
        assert row["B"][0] >= kl_inverse(max(row["train"][0], 1e-9), eps) - 0.02, (setting, method)
        assert row["train"][0] <= row["B"][0] <= row["B_pin"][0]


def test_agreement_weighs_both_standard_errors(example):
    Agreement = example("pac_tables").Agreement
    near = Agreement(0.340, 0.003, 10, 0.333, 0.004)
    assert near.allowed == pytest.approx(2.0 * 0.005 + 5e-4)
    assert near.agrees
    assert near.word == "agrees"
    assert near.within_paper
    both = Agreement(0.343, 0.003, 10, 0.333, 0.004)
    assert both.agrees
    assert not both.within_paper
    far = Agreement(0.345, 0.003, 10, 0.333, 0.004)
    assert far.word == "above"
    assert dataclasses.replace(far, mean=0.320).word == "below"
    alone = Agreement(0.345, np.nan, 1, 0.333, 0.004)  # one seed scatters √10 times as much
    assert alone.agrees
    assert not dataclasses.replace(alone, mean=0.361).agrees
    zero = Agreement(0.117, np.nan, 1, 0.115, 0.000)  # an error printed as 0.000
    assert zero.agrees
    assert not dataclasses.replace(zero, mean=0.120).agrees


def made_up(settings, **changes):
    base = settings.Score(
        "housing",
        "paper",
        "kl-PAC-GP",
        False,
        0,
        0.6,
        0,
        404,
        0.33,
        0.331,
        0.37,
        0.09,
        0.11,
        0.16,
        0.1,
        0.42,
        7,
        "C.",
        1.0,
        "band",
        0.11,
    )
    return dataclasses.replace(base, **changes)


def test_tables_say_means_errors_and_what_does_not_agree(example):
    settings, script, tables = example("pac_settings"), example("pac_gp_housing"), example("pac_tables")
    scores = [made_up(settings, seed=i, B_maurer=b) for i, b in enumerate((0.331, 0.333, 0.335))]
    assert tables.mean_and_error([s.B_maurer for s in scores]) == pytest.approx((0.333, 0.002 / np.sqrt(3.0)))
    text = tables.beside(script.groups(scores, "paper"))
    measured, paper, words = text.splitlines()[1:]
    assert "0.333 ± 0.001" in measured
    assert "0.333 ± 0.004" in paper
    assert words.split()[:2] == ["agrees", "below"]  # B_Pin: 0.370 against 0.376 ± 0.002
    assert "0.376 ± 0.002 ✗" in tables.markdown(script.groups(scores, "paper"))
    assert "ε = 0.6: 0.3330, paper 0.333 ± 0.004: agrees" in script.verdict(scores)
    assert "paper" not in tables.beside(script.groups([made_up(settings, variant="rigorous")], "rigorous"))


def test_scores_survive_their_file_to_the_last_bit(example, tmp_path):
    settings = example("pac_settings")
    scores = [made_up(settings, B=1.0 / 3.0, ard=True, stopped='a, "b"'), made_up(settings, test=5e-324, noise=np.pi)]
    settings.save(tmp_path / "s.csv", scores)
    assert settings.load(tmp_path / "s.csv") == scores
    assert settings.load(tmp_path / "none.csv") == []


# scripts


@pytest.mark.slow
def test_housing_writes_picture_table_and_verdicts(example, own, tmp_path, capsys):
    script, settings = example("pac_gp_housing"), example("pac_settings")
    out = tmp_path / "h.png"
    script.main(["--data", str(own), "--seeds", "1", "--epsilons", "0.5", "--out", str(out)])
    assert out.read_bytes().startswith(b"\x89PNG")
    scores = settings.load(out.with_suffix(".csv"))
    assert len({s.key for s in scores}) == len(scores) == 2 * 3
    for s in scores:
        assert 0.0 < s.train < s.B < s.B_maurer < s.B_pin
        assert "Converged" in s.stopped
    for variant in settings.VARIANTS:
        of = {s.method: s.B for s in scores if s.variant == variant}
        assert of["kl-PAC-GP"] <= of["full-GP"]  # trained by the bound itself
    assert "Standardised by all rows, as in the paper: not rigorous" in capsys.readouterr().out
    assert "| ε = 0.5, kl-PAC-GP |" in out.with_suffix(".md").read_text(encoding="utf-8")


def test_certificates_of_the_two_variants_say_what_they_are(example):
    script, settings = example("pac_gp_housing"), example("pac_settings")
    X, y = rows()
    for method in script.METHODS:
        for variant in settings.VARIANTS:
            part = settings.split(X, y, variant, 0)
            certificate, _, _ = script.trained(method, part, 0.5, 20, 0)
            assert certificate.rigorous == (variant == "rigorous")
            assert certificate.grid == script.GRID
            assert certificate.check(part.X, part.y).confirmed


@pytest.mark.slow
def test_a_study_of_inducing_points_goes_on_where_it_stopped(example, own, tmp_path, monkeypatch, capsys):
    script, settings = example("pac_sgp_inducing"), example("pac_settings")
    out = tmp_path / "s.png"
    asked = ["--data", str(own), "--inducing", "3,5", "--ard", "yes", "--steps", "8", "--out", str(out)]
    script.main([*asked, "--methods", "kl-PAC-SGP", "VFE"])
    first = settings.load(out.with_suffix(".csv"))
    assert {(s.M, s.method) for s in first} == {(M, m) for M in (3, 5) for m in ("kl-PAC-SGP", "VFE")}
    assert all(s.ard and s.N == 48 and 0.0 < s.train < s.B < s.B_maurer < s.B_pin for s in first)
    trained, score = [], script.score
    monkeypatch.setattr(script, "score", lambda *args, **more: trained.append(args[2]) or score(*args, **more))
    script.main([*asked, "--resume"])
    assert sorted(trained) == ["FITC", "FITC", "sqrt-PAC-SGP", "sqrt-PAC-SGP"]
    assert settings.load(out.with_suffix(".csv"))[:4] == first
    assert out.read_bytes().startswith(b"\x89PNG")
    assert "nothing to compare with" in capsys.readouterr().out


@pytest.mark.slow
def test_each_data_set_and_loss_has_its_own_rows_and_name(example, own, tmp_path, monkeypatch):
    """A second data set and a second loss are added to the same file, and neither picture nor table mixes them."""
    script, settings = example("pac_sgp_inducing"), example("pac_settings")
    other, out, titles = tmp_path / "other.csv.gz", tmp_path / "s.png", []
    X, y = rows(seed=1)
    np.savetxt(other, np.column_stack([X, y]), delimiter=",")
    drawn = script.headline
    monkeypatch.setattr(script, "headline", lambda page, text: titles.append(text) or drawn(page, text))
    asked = ["--inducing", "3", "--ard", "yes", "--steps", "5", "--methods", "kl-PAC-SGP", "VFE", "--out", str(out)]
    for path, loss in ((own, "band"), (other, "band"), (own, "exponential")):
        script.main([*asked, "--data", str(path), "--loss", loss, "--resume"])
    scores = settings.load(out.with_suffix(".csv"))
    kinds = [("own", "band"), ("other", "band"), ("own", "exponential")]
    assert [(s.data, s.loss) for s in scores] == [kind for kind in kinds for _ in range(2)]
    assert [title.split(":")[0] for title in titles] == [f"{data}, {loss} loss" for data, loss in kinds]
    assert len(out.with_suffix(".md").read_text(encoding="utf-8").splitlines()) == 6  # a title, a head, two models
    for band, exponential in zip(scores[:2], scores[4:], strict=True):
        assert band.test == band.test_own
        assert exponential.test != exponential.test_own
    vfe = [s for s in scores if s.method == "VFE" and s.data == "own"]
    assert vfe[0].test == vfe[1].test  # VFE does not depend on the loss
    assert vfe[0].train != vfe[1].train


def test_files_of_before_the_losses_are_read(example, tmp_path):
    settings = example("pac_settings")
    score = settings.Score("kin40k", "paper", "VFE", True, 5, 0.6, 0, 9, *[0.5] * 8, 3, "stop", 1.0, "band", 0.5)
    settings.save(tmp_path / "s.csv", [score])
    with (tmp_path / "s.csv").open(encoding="utf-8") as file:
        lines = [line.rstrip().rsplit(",", 2)[0] for line in file]
    (tmp_path / "s.csv").write_text("\n".join(lines), encoding="utf-8")
    (loaded,) = settings.load(tmp_path / "s.csv")
    assert (loaded.key, loaded.loss) == (score.key, "band")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_sparse_certificates_are_confirmed(example):
    script, settings = example("pac_sgp_inducing"), example("pac_settings")
    part = settings.split(*rows(), "rigorous", 0)
    for method in script.METHODS:
        for ard, T in ((True, 3), (False, 2)):
            certificate, _ = script.trained(method, part, 4, ard, 10, 0, False)
            assert certificate.grid.T == T
            assert certificate.posterior.power == (0.0 if method == "VFE" else 1.0)
            assert certificate.check(part.X, part.y).confirmed


def test_simulated_points_lie_where_the_docstring_says(example):
    X, y = example("pac_gp_toy").simulated(20_000, 0)
    x = X[:, 0]
    assert (np.diff(x) >= 0.0).all()
    assert ((x <= 1.7) | ((x >= 2.1) & (x <= 4.2)) | (x >= 4.6)).all()
    assert (x.min(), x.max()) == pytest.approx((0.0, 6.0), abs=1e-3)
    rest = y - 0.8 * np.sin(3.3 * x) - 0.6 * np.sin(1.7 * x + 1.0)
    assert rest.std() == pytest.approx(0.28, rel=0.02)


@pytest.mark.slow
def test_the_toy_writes_pictures_and_tables_and_goes_on_where_it_stopped(example, tmp_path, monkeypatch, capsys):
    script = example("pac_gp_toy")
    out = tmp_path / "t.png"
    script.main(["--simulated", "--starts", "1", "--steps", "8", "--out", str(out)])
    second = tmp_path / "t_minima.png"
    assert out.read_bytes().startswith(b"\x89PNG")
    assert second.read_bytes().startswith(b"\x89PNG")
    with second.with_suffix(".csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [row["method"] for row in rows] == ["FITC", "kl-PAC-SGP"]
    assert all(1e-5 <= float(row["noise_before"]) <= 10.0 for row in rows)
    assert all(0.0 < float(row["objective"]) < 1.0 for row in rows if row["method"] == "kl-PAC-SGP")
    assert "the order of the three is" in capsys.readouterr().out
    first, asked = second.with_suffix(".csv").read_text(encoding="utf-8"), []
    real = script.minima
    monkeypatch.setattr(script, "minima", lambda *args: asked.append(args[3]) or real(*args))
    script.main(["--simulated", "--starts", "2", "--steps", "8", "--resume", "--out", str(out)])
    assert asked == [1]
    assert second.with_suffix(".csv").read_text(encoding="utf-8").startswith(first)


@pytest.mark.slow
def test_the_toy_reads_points_and_does_not_call_them_snelson_s(example, tmp_path, monkeypatch, capsys):
    script, titles = example("pac_gp_toy"), []
    X, y = script.simulated(60, 1)
    path, drawn = tmp_path / "mine.csv", script.headline
    np.savetxt(path, np.column_stack([X, y]), delimiter=",", header="x,y", comments="")
    monkeypatch.setattr(script, "headline", lambda page, text: titles.append(text) or drawn(page, text))
    script.main(["--data", str(path), "--starts", "1", "--steps", "5", "--out", str(tmp_path / "t.png")])
    assert [title.split(":")[0] for title in titles] == ["mine.csv"] * 2
    assert "N = 60 points" in titles[0]
    assert "other data: 0.097" in capsys.readouterr().out


def test_overfitting_is_said_only_where_it_is_seen(example):
    script = example("pac_gp_toy")
    curves = [script.Curve("full", None, None, None, None)]
    curves += [script.Curve(f"c{i}", None, None, None, None, 0.1, 0.5, kl, 0.1) for i, kl in enumerate((20, 22, 6))]

    def conclusion(fitc, pac):
        ends = (
            ("FITC", 0, fitc, 10.0),
            ("FITC", 1, 0.5, 11.0),
            ("kl-PAC-SGP", 0, pac, 0.4),
            ("kl-PAC-SGP", 1, 1e-7, 0.9),
        )
        minima = [script.Minimum(m, i, 1.0, noise, value, "", "points", 0) for m, i, noise, value in ends]
        return script.summary(curves, 200, minima, False)

    both = conclusion(1e-7, 0.1)
    assert "the order of the three is the paper's" in both
    assert "FITC's best optimum overfits, as in the paper: yes" in both
    assert "keeps the order of the noise, as in the paper: yes" in both
    assert "overfits, as in the paper: no" in conclusion(0.05, 0.1)
    assert "keeps the order of the noise, as in the paper: no" in conclusion(1e-7, 1e-6)


def test_the_study_of_grids_goes_on_where_it_stopped(example, tmp_path, monkeypatch, capsys):
    """Each certificate pays for its own grid, and agrees with the theorem; a resumed study trains what is missing."""
    script = example("pac_gp_grid")
    out = tmp_path / "g.png"
    asked = ["--rows", "40", "--tests", "30", "--steps", "6", "--out", str(out)]
    script.main([*asked, "--repetitions", "1"])
    points = script.load(out.with_suffix(".csv"))
    assert {(p.L, p.r) for p in points} == {(L, r) for L in script.WIDTHS for r in script.PLACES}
    for p in points:
        assert p.log_size == pytest.approx(4.0 * np.log(2 * p.L * 10**p.r + 1))
        assert 0.0 <= p.risk <= p.B <= 1.0
        assert p.penalty == pytest.approx(4.0 * np.log(2 * p.L * 10**p.r + 1) / 40 + script.penalty(40, 0.0))
    trained, certified = [], script.certified
    monkeypatch.setattr(script, "certified", lambda *args: trained.append(args[:2]) or certified(*args))
    script.main([*asked, "--repetitions", "2", "--resume"])
    assert trained == [(1, L) for L in script.WIDTHS]
    assert script.load(out.with_suffix(".csv"))[:16] == points
    assert out.read_bytes().startswith(b"\x89PNG")
    assert "R_S and KL of r = 4 give" in capsys.readouterr().out


def test_targets_of_the_study_of_grids_are_drawn_from_the_prior(example):
    """Lengthscales within the box of L = 1, and yᵀ(K + σ²I)⁻¹y as the χ² law says."""
    script = example("pac_gp_grid")
    squares = []
    for seed in range(30):
        lengthscale, X, y = script.drawn(30, 10, seed)
        assert (np.abs(np.log(lengthscale)) <= 1.0).all()
        assert np.abs(X).max() <= 3.0
        K = SquaredExponential(1.0, lengthscale)(X) + script.NOISE * np.eye(40)
        squares.append(float(y @ np.linalg.solve(K, y)))
    assert np.mean(squares) == pytest.approx(40.0, abs=4.0 * np.sqrt(80.0 / 30.0))


@pytest.mark.parametrize(
    ("script", "arguments", "words"),
    [
        ("pac_gp_housing", ("--data", "none.csv"), "expected the data set housing in none.csv, got no such file"),
        ("pac_gp_housing", ("--seeds", "0"), "--seeds: expected a whole number >= 1"),
        ("pac_gp_housing", ("--epsilons", "0.2,-1"), "--epsilons: expected"),
        ("pac_sgp_inducing", ("--data", "none.csv"), "expected the data set kin40k in none.csv, got no such file"),
        ("pac_sgp_inducing", ("--rows", "100", "--inducing", "50"), "--rows: expected a whole number >= 500"),
        ("pac_gp_toy", ("--starts", "0"), "--starts: expected a whole number >= 1"),
        ("pac_gp_grid", ("--rows", "10"), "--rows: expected a whole number >= 20"),
        ("pac_gp_toy", ("--data", "none.csv"), "expected the data set snelson in none.csv, got no such file"),
    ],
)
def test_questions_without_sense_get_one_sentence(example, script, arguments, words, capsys):
    with pytest.raises(SystemExit) as stop:
        example(script).main(list(arguments))
    assert stop.value.code == 2
    error = capsys.readouterr().err
    assert words in error
    assert error.count("\n") == 1


def test_without_a_path_the_data_beside_the_repository_are_meant(example, monkeypatch, tmp_path):
    settings = example("pac_settings")
    monkeypatch.setattr(settings, "UCI", tmp_path)
    with pytest.raises(ValueError, match=r"housing in .*housing\.csv\.gz, got no such file: save it there"):
        settings.table(None, "housing")
