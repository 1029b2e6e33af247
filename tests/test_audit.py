"""The audit of a model: brackets contain the truth, guarantees hold, and the page shows the library's numbers."""

from __future__ import annotations

import html
import json
import math
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from gpbounds import Matern, SquaredExponential
from gpbounds.audit import (
    Audit,
    calibration,
    consequences,
    enough,
    held_out_risk,
    hyperparameters,
    places,
    rows_to_test,
    subject,
)
from gpbounds.audit.record import USELESS
from gpbounds.bound import outward
from gpbounds.claims import ledger
from gpbounds.divergences import whitened_posterior
from gpbounds.pages.audit import audit_page
from gpbounds.pages.axis import labels
from gpbounds.renyi import elbo, exact_gap, log_evidence, variational_bound

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


def example(seed=0, N=60, M=5, D=2, noise=0.05, kernel=None, rows_as_points=True):
    """A subject whose y is drawn from the prior, and points elsewhere."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2.0, 2.0, (N, D))
    kernel = SquaredExponential(1.0, 1.0) if kernel is None else kernel
    y = np.linalg.cholesky(kernel(X) + noise * np.eye(N)) @ rng.standard_normal(N)
    Z = X[:M] if rows_as_points else rng.uniform(-2.0, 2.0, (M, D))
    return subject(kernel, X, y, Z, noise=noise), rng.uniform(-3.0, 3.0, (40, D))


problems = st.fixed_dictionaries(
    {
        "seed": st.integers(0, 10_000),
        "N": st.integers(5, 50),
        "M": st.integers(1, 5),
        "D": st.integers(1, 3),
        "noise": st.sampled_from([1e-3, 0.05, 1.0]),
        "kernel": st.sampled_from([None, Matern(0.5), Matern(1.5, 2.0, 0.3)]),
        "rows_as_points": st.booleans(),
    }
)


@given(problems, st.sampled_from([(0, 0.0), (0, 1e5), (3000, 4e11)]), st.sampled_from([0.01, 1.0, 30.0]))
def test_brackets_contain_the_exact_divergence_and_evidence(about, size, target):
    """With and without the computation of log p(y); every level is a set of inducing points whose gap is exact here."""
    model, _ = example(**about)
    rows, work = size
    result = enough(model, target=target, rows=rows, work=work)
    truth = log_evidence(model.kernel, model.X, model.y, noise=model.noise)
    lower, upper = map(float, result.evidence)
    assert lower <= truth <= upper
    gap = exact_gap(model.kernel, model.X, model.y, model.Z, 1.0, noise=model.noise)
    low, high = map(float, result.divergence)
    assert low - 1e-9 * gap <= gap <= high * (1.0 + 1e-9)
    if result.verdict == "enough":
        assert gap <= target * (1.0 + 1e-9)
    if result.verdict == "not enough":
        assert gap > target * (1.0 - 1e-9)
    for level in result.levels:
        below, above = map(float, level.divergence(result.evidence))
        assert below <= (truth - level.elbo) + 1e-6 * abs(truth)
        assert truth - level.elbo <= above + 1e-6 * abs(truth)


def test_the_number_that_would_do_does_and_one_less_does_not():
    model, _ = example(N=80, M=4)
    result = enough(model, target=0.5)
    assert result.verdict == "not enough"
    for points, count in zip(("chosen", "added"), result.counts, strict=True):
        levels = {level.M: level for level in result.of(points)}
        assert float(levels[count].divergence(result.evidence)[1]) <= 0.5
        assert float(levels[count - 1].divergence(result.evidence)[1]) > 0.5
    assert result.suffices == min(result.counts)
    assert result.needed <= result.suffices
    assert {1, result.tried[0]} <= {level.M for level in result.of("chosen")}


def test_the_lower_bound_for_any_choice_lies_below_every_level():
    model, _ = example(N=80, M=4)
    result = enough(model)
    M, values = result.floor
    for level in result.levels:
        next_larger = values[np.searchsorted(M, level.M)]  # the floor falls with M
        assert float(level.divergence(result.evidence)[1]) >= next_larger


def test_elbos_are_those_of_the_library():
    model, _ = example()
    level = enough(model).model
    expected = elbo(model.kernel, model.X, model.y, model.Z, 1.0, noise=model.noise)
    assert level.elbo == pytest.approx(float(expected), rel=1e-10)


def test_without_inducing_points_the_audit_says_how_many_would_do():
    rng = np.random.default_rng(0)
    X = rng.uniform(0.0, 6.0, (50, 1))
    result = enough(subject(SquaredExponential(), X, np.sin(X[:, 0]), noise=0.1), target=0.1)
    assert result.verdict == "no inducing points"
    assert result.model is None
    assert result.needed <= result.suffices < 50


def test_ctrl_c_leaves_the_levels_that_were_computed(monkeypatch):
    model, _ = example()

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(sys.modules["gpbounds.audit.levels"], "further_path", interrupted)
    result = enough(model)
    assert result.interrupted
    assert [level.points for level in result.levels] == ["model"]
    gap = exact_gap(model.kernel, model.X, model.y, model.Z, 1.0, noise=model.noise)
    assert float(result.divergence[0]) <= gap <= float(result.divergence[1])
    assert "cannot do" not in Audit("n", "m", model, result).findings[0].text  # N-low was not computed


@given(problems)
def test_proposition_4_holds_for_every_measured_prediction(about):
    model, elsewhere = example(**about)
    points = np.concatenate([model.X, elsewhere[:, : model.D]])
    result = consequences(model, enough(model), points)
    measured, bounds = result.measured, result.model
    assert measured.mean.max() <= float(bounds.mean) * (1.0 + 1e-6) + 1e-9
    assert measured.variance.min() >= float(bounds.low) * (1.0 - 1e-6)
    assert measured.variance.max() <= float(bounds.high) * (1.0 + 1e-6)
    assert measured.divergence.max() <= float(bounds.kl) * (1.0 + 1e-6) + 1e-9


@given(problems)
def test_another_posterior_is_further_away_and_its_own_predictions_are_guaranteed(about):
    """KL of the model's own posterior is log p(y) − L_VI(q); Prop. 4 holds for its predictions, not for those of q*."""
    model, elsewhere = example(**about)
    rng = np.random.default_rng(about["seed"])
    M = len(model.Z)
    factor = 0.3 * np.tril(rng.standard_normal((M, M))) + np.eye(M)
    own = whitened_posterior(model.kernel, model.Z, rng.standard_normal(M), factor)
    other = subject(model.kernel, model.X, model.y, model.Z, noise=model.noise, posterior=own)
    result = enough(other)
    mean, covariance = own.inducing_law()
    bound = variational_bound(
        model.kernel, model.X, model.y, model.Z, mean, covariance, noise=model.noise, jitter=own.jitter
    )
    truth = log_evidence(model.kernel, model.X, model.y, noise=model.noise) - float(bound)
    low, high = map(float, result.divergence)
    assert low - 1e-6 * truth <= truth <= high + 1e-6 * truth
    assert result.excess > 0.0
    assert all(end.claim.endswith("N-excess") for end in result.divergence)
    guaranteed = consequences(other, result, elsewhere[:, : model.D])
    assert guaranteed.measured.mean.max() <= float(guaranteed.model.mean) * (1.0 + 1e-6)
    assert guaranteed.measured.divergence.max() <= high * (1.0 + 1e-6)


def test_the_audit_says_when_the_points_would_be_enough_for_the_best_posterior():
    model, _ = example(N=60, M=5)
    points = model.X[:40]
    own = whitened_posterior(model.kernel, points, np.zeros(40), np.eye(40))  # the prior
    other = subject(model.kernel, model.X, model.y, points, noise=model.noise, posterior=own)
    result = enough(other, target=100.0)
    assert result.best_reaches
    text = Audit("n", "m", other, result).findings[0].text
    assert "enough for 100 nats, but not as it is used" in text
    assert not enough(model).best_reaches


def test_unexplained_variance_is_the_schur_complement_and_its_parts_are_means():
    model, elsewhere = example(D=2)
    points = np.concatenate([model.X, elsewhere])
    result = places(model, model.Z, points)
    K = model.kernel
    expected = K.diag(points) - np.einsum(
        "ij,ji->i", K(points, model.Z), np.linalg.solve(K(model.Z), K(model.Z, points))
    )
    assert result.unexplained * model.noise == pytest.approx(expected, rel=1e-9, abs=1e-12)
    assert result.trace == pytest.approx(expected[: model.N].sum() / model.noise, rel=1e-9)
    assert result.unexplained[result.order[0]] == result.unexplained.max()
    for part in result.parts:
        x = points[:, model.columns.index(part.column)]
        there = (x >= part.low) & (x <= part.high)
        assert part.mean == pytest.approx(result.unexplained[there].mean())
        assert 0.0 <= part.share <= 1.0


def test_hyperparameters_at_limits_and_beyond_the_rows_are_named():
    rng = np.random.default_rng(0)
    X = rng.uniform(0.0, 1.0, (30, 2))
    about = subject(SquaredExponential(1.0, [20.0, 0.5]), X, X[:, 1], noise=1e-6, columns=["age", "size"])
    result = {each.name: each for each in hyperparameters(about, {"noise": "lower"})}
    assert set(result) == {"variance", "lengthscale[age]", "lengthscale[size]", "noise"}
    assert result["noise"].limit == "lower"
    assert "hardly used" in result["lengthscale[age]"].remark
    assert result["lengthscale[age]"].relative == pytest.approx(20.0 / np.ptp(X[:, 0]))
    assert result["lengthscale[size]"].remark == ""
    assert "times the noise variance" in result["variance"].remark


def test_hyperparameters_of_sums_products_and_kernels_on_columns_are_named_by_their_inputs():
    rng = np.random.default_rng(0)
    X = rng.uniform(0.0, 1.0, (30, 3)) * [1.0, 10.0, 100.0]
    kernel = SquaredExponential(1.0, [50.0, 20.0]).on([2, 0]) + Matern(1.5).on([1]) * SquaredExponential()
    about = subject(kernel, X, X[:, 0], noise=0.1, columns=["a", "b", "c"])
    named = {each.name: each for each in hyperparameters(about, {"k1.lengthscale[1]": "upper"})}
    assert named["k1.lengthscale[c]"].relative == pytest.approx(50.0 / np.ptp(X[:, 2]))
    assert named["k1.lengthscale[a]"].relative == pytest.approx(20.0 / np.ptp(X[:, 0]))
    assert named["k1.lengthscale[a]"].limit == "upper"
    assert "hardly used" in named["k1.lengthscale[a]"].remark
    assert named["k2.k1.lengthscale"].relative == pytest.approx(1.0 / np.ptp(X[:, 1]))
    assert named["k2.k2.lengthscale"].relative == pytest.approx(1.0 / np.ptp(X[:, 2]))


@pytest.mark.slow
def test_calibration_covers_as_often_as_it_says_and_sees_overconfidence():
    rng = np.random.default_rng(5)
    mean, variance = rng.standard_normal(2000), rng.uniform(0.5, 2.0, 2000)
    y = mean + np.sqrt(variance) * rng.standard_normal(2000)
    about = {"covariance": np.diag(variance), "baseline": (y.mean(), y.var())}
    right = calibration(y, mean, variance, **about)
    assert all(each.plausible for each in right.coverage)
    assert right.plausible
    assert right.test.p_value > 0.05
    assert right.bins.sum() == 2000
    assert right.rmse == pytest.approx(np.sqrt(np.mean((y - mean) ** 2)))
    assert right.baseline[1] > right.log_loss
    wrong = calibration(y, mean, 0.25 * variance, covariance=0.25 * np.diag(variance))
    assert not any(each.plausible for each in wrong.coverage)
    for each in right.coverage:  # targets are independent here: the range holds at least 95 % of the binomial law
        inside = binom.cdf(round(2000 * each.high), 2000, each.level) - binom.cdf(
            round(2000 * each.low) - 1, 2000, each.level
        )
        assert inside >= 0.95


def test_marginal_laws_alone_are_not_tested_and_the_subset_is_named():
    rng = np.random.default_rng(2)
    y = rng.standard_normal(50)
    alone = calibration(y, np.zeros(50), np.ones(50))
    assert alone.plausible is None
    assert [each.plausible for each in alone.coverage] == [None] * 5
    record = alone.to_dict()
    assert record["untested"].startswith("not tested: the predictions give the law of each target")
    assert record["test"] is None
    assert record["expected in each bin"] is None
    rows = rows_to_test(50, 1, most=20)
    some = calibration(y, np.zeros(50), np.ones(50), covariance=np.eye(20), rows=rows, sets=99)
    assert some.bins.sum() == 20
    assert some.to_dict()["test"]["rows"] == 20
    assert some.coverage[0].share == np.mean(np.abs(y[rows]) <= NormalDist().inv_cdf(0.75))
    assert some.rmse == alone.rmse
    singular = calibration(y, np.zeros(50), np.ones(50), covariance=np.ones((50, 50)))
    assert singular.plausible is None
    assert "not positive definite" in singular.untested


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"covariance": 2.0 * np.eye(4)}, "expected the variances of the targets, noise included"),
        ({"covariance": np.eye(3)}, r"covariance: expected shape \(4, 4\)"),
        ({"rows": [0, 0]}, "rows: expected different row numbers"),
        ({"rows": [0, 4]}, "rows: expected numbers from 0 to 3, got 0 to 4"),
    ],
)
def test_a_joint_law_must_fit_the_predictions(options, words):
    with pytest.raises(ValueError, match=words):
        calibration(np.zeros(4), np.zeros(4), np.ones(4), **options)


def test_the_risk_of_held_out_rows_is_bounded_as_often_as_promised():
    """200 sets of 100 rows: the bound at δ = 0.2 is below the true risk at most as often as a binomial test allows."""
    rng = np.random.default_rng(1)
    truth = 1.0 - math.erf(0.5 / math.sqrt(2.0 * 1.01))  # P(|y − f| > ½), y − f ~ N(0, 1.01)
    fails = 0
    for _ in range(200):
        y = rng.standard_normal(100)
        fails += float(held_out_risk(y, np.zeros(100), np.full(100, 0.01), 0.5, delta=0.2).bound) < truth
    assert binom.sf(fails - 1, 200, 0.2) > 1e-6


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"Z": np.zeros((2, 3))}, "Z: expected inducing points of 2 inputs"),
        ({"y": np.zeros((60, 2))}, "y: expected one target"),
        ({"columns": ["a"]}, "columns: expected 2 names"),
        ({"kernel": SquaredExponential(1.0, [1.0, 2.0, 3.0])}, "kernel: expected 2 lengthscales"),
        ({"X": np.full((60, 2), np.nan)}, "X: expected finite"),
    ],
)
def test_wrong_arguments_are_refused_in_one_sentence(change, words):
    model, _ = example()
    arguments = {"kernel": model.kernel, "X": model.X, "y": model.y, "Z": model.Z} | change
    with pytest.raises(ValueError, match=re.escape(words)):
        subject(**arguments, noise=0.1)


# The page


@pytest.fixture(scope="module")
def audit():
    model, elsewhere = example(N=80, M=6)
    result = enough(model, target=0.5)
    points = np.concatenate([model.X, elsewhere])
    rng = np.random.default_rng(0)
    y = rng.standard_normal(40)
    return Audit(
        "a < b",
        "a model & more",
        model,
        result,
        consequences(model, result, points),
        places(model, model.Z, points),
        hyperparameters(model, {"noise": "lower"}),
        calibration(y, np.zeros(40), np.ones(40), covariance=np.eye(40), sets=99),
        held_out_risk(y, np.zeros(40), np.full(40, 0.5), 1.0, delta=0.05),
        np.arange(1, 121),
        notes=("a note",),
    )


@pytest.fixture(scope="module")
def page(audit):
    return audit_page(audit)


class Outline(HTMLParser):
    """Checks that elements nest, and keeps ids, links and sources."""

    VOID = ("meta", "br", "input", "link", "img")

    def __init__(self):
        super().__init__()
        self.open, self.ids, self.links, self.wrong = [], [], [], []

    def handle_starttag(self, tag, attrs):
        values = dict(attrs)
        self.ids += [values["id"]] if "id" in values else []
        self.links += [values[name] for name in ("href", "src") if name in values]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        pass  # <path .../> of SVG

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.wrong.append((tag, self.getpos()))


def test_the_page_is_html_that_needs_no_other_file(page):
    outline = Outline()
    outline.feed(page)
    assert outline.wrong == []
    assert outline.open == []
    assert len(set(outline.ids)) == len(outline.ids)
    assert outline.links
    assert all(link[0] == "#" and html.unescape(link[1:]) in outline.ids for link in outline.links)
    assert "http" not in page
    assert "a &lt; b" in page
    assert "a < b" not in page


def test_the_numbers_on_the_page_are_those_of_the_library(audit, page):
    text = html.unescape(re.sub(r"<[^>]+>", " ", page))
    lower, upper = audit.enough.divergence
    assert f"between {outward(float(lower), 'lower', 3)} and {outward(float(upper), 'upper', 3)} nats" in text
    assert float(audit.consequences.model.mean) > USELESS
    assert "no useful guarantee: the predicted mean could be more than 10 standard deviations" in text
    assert f"fewer than {audit.enough.needed} cannot do" in text
    assert f"at most {outward(float(audit.risk.bound), 'upper', 3)}" in text
    worst = audit.places.order[0]
    assert f"row {worst + 1}: unexplained {audit.places.unexplained[worst]:.4g}" in text
    for each in audit.calibration.coverage:
        assert f"{100 * each.share:.2f} %" in text
    counts = audit.enough.counts
    decisive = [*audit.enough.of("model"), *(level for level in audit.enough.of("chosen") if level.M == counts[0])]
    for level in decisive:
        low, high = level.divergence(audit.enough.evidence)
        assert outward(float(low), "lower", 4) in text
        assert outward(float(high), "upper", 4) in text
    assert "at the lower limit" in text
    assert "a note" in text


def test_every_claim_that_the_page_names_is_stated_on_it(audit, page):
    statements = {claim.id: claim.statement for claim in ledger()}
    named = set(re.findall(r'href="#([^"]+)"', page))
    assert {"R-gap", "L-30", "N-low", "P-09"} <= named
    for claim in named:
        assert f'<dt id="{claim}">{claim}</dt><dd>{html.escape(statements[claim], quote=True)}</dd>' in page


def test_a_section_that_is_missing_leaves_the_others():
    model, _ = example()
    page = audit_page(Audit("n", "m", model, enough(model)))
    assert 'id="enough"' in page
    assert 'id="calibration"' not in page


ACTIONS = """
const svg = document.querySelector("#enough svg");
const circle = [...svg.querySelectorAll("circle")].find(mark => mark.querySelector("title"));
const box = circle.getBoundingClientRect();
const at = {clientX: box.left + 4, clientY: box.top + 3, bubbles: true};
svg.dispatchEvent(new PointerEvent("pointermove", at));
const result = {
  shown: svg.closest("figure").querySelector("output").value,
  title: circle.querySelector("title").textContent,
  wide: document.documentElement.scrollWidth - document.documentElement.clientWidth,
  small: Math.min(...[...document.querySelectorAll("svg.chart")].map(each => each.getBoundingClientRect().width)),
};
const output = document.createElement("pre");
output.id = "result";
output.textContent = JSON.stringify(result);
document.body.append(output);
"""


@pytest.mark.skipif(BROWSER is None, reason="needs a browser: chromium, chromium-browser or google-chrome")
@pytest.mark.parametrize("size", ["1200,900", "500,800"])
def test_a_browser_shows_values_and_nothing_is_wider_than_the_screen(page: str, tmp_path: Path, size: str) -> None:
    file = tmp_path / "audit.html"
    file.write_text(page.replace("</script>\n</body>", ACTIONS + "</script>\n</body>"), encoding="utf-8")
    words = [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", "--v=0"]
    words += [f"--window-size={size}", f"--user-data-dir={tmp_path / 'profile'}", "--virtual-time-budget=3000"]
    ran = subprocess.run([*words, "--dump-dom", file.as_uri()], capture_output=True, text=True, timeout=120, check=True)
    result = re.search(r'<pre id="result">(.*?)</pre>', ran.stdout, re.DOTALL)
    assert result, ran.stderr[-2000:]
    result = json.loads(html.unescape(result[1]))
    assert result["shown"] == result["title"]
    assert "KL" in result["shown"]
    assert result["wide"] <= 0
    assert result["small"] >= 300
    assert "CONSOLE" not in ran.stderr


def test_a_page_of_many_inputs_shows_the_most_telling_ones_and_names_few_hyperparameters():
    about, points = example(D=20, kernel=SquaredExponential(1.0, np.linspace(1.0, 40.0, 20)))
    limits = dict.fromkeys([f"lengthscale[{j}]" for j in range(20)], "upper")
    levels = enough(about, target=0.5)
    everything = Audit(
        "wide",
        "a model",
        about,
        levels,
        places=places(about, about.Z, points),
        hyperparameters=hyperparameters(about, limits),
        numbers=np.arange(1, len(about.X) + len(points) + 1),
        target="price",
    )
    text = audit_page(everything)
    table = text[text.index("worst rows") :].partition("</table>")[0]
    assert table.count('<th scope="col">') == 8
    assert "with the 6 most telling of 20 inputs" in text
    assert "target price, 60 training rows" in text
    finding = next(each.text for each in everything.findings if each.about == "Hyperparameters")
    assert finding.startswith("At the limit of the search: lengthscale[x1], lengthscale[x2], lengthscale[x3] and 17")


def test_a_useless_guarantee_is_neither_drawn_nor_named_as_a_line(audit, page):
    assert audit.consequences.measured is not None
    assert float(audit.consequences.model.mean) > USELESS
    assert "there is no useful guarantee for all inputs" in page
    assert "guaranteed (Prop. 4)" not in page
    about, points = example(N=80, M=40)
    levels = enough(about, target=0.5)
    useful = consequences(about, levels, points)
    assert float(useful.model.mean) <= USELESS
    numbers = np.arange(1, len(points) + 1)
    text = audit_page(
        Audit("useful", "a model", about, levels, useful, places(about, about.Z, points), numbers=numbers)
    )
    assert "guaranteed (Prop. 4)" in text
    assert "the dashed line is the guarantee" in text


@pytest.mark.parametrize("values", [[0.001, 0.01, 1e5], [1e-4, 0.01, 1.0], [0.0, 5e-5, 1.5e-3], [1.0, 1000.0, 1e6]])
def test_ticks_of_one_axis_have_one_style(values):
    powers = {"10" in text and text[-1] in "⁰¹²³⁴⁵⁶⁷⁸⁹" for text in labels(values) if text != "0"}
    assert powers == {not all(value == 0.0 or 1e-3 <= value < 1e6 for value in values)}


@pytest.mark.parametrize(("factor", "verdict"), [(0.2, "too narrow"), (1.0, "as expected"), (5.0, "too wide")])
def test_a_share_outside_its_range_says_which_way_the_intervals_err(factor, verdict):
    rng = np.random.default_rng(3)
    y, variance = rng.standard_normal(400), np.full(400, factor**2)
    result = calibration(y, np.zeros(400), variance, covariance=np.diag(variance), rows=np.arange(400))
    assert next(each.verdict for each in result.coverage if each.level == 0.8) == verdict
