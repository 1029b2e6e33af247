"""What the receiver reads of a certificate: one sentence, a page and a figure, for every kind and for several forms."""

from __future__ import annotations

import copy
import pickle
import re
from dataclasses import replace
from decimal import Decimal
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression
from thinning import one_in

from fitting import SparseGP, certify
from fitting.certifying.result import finished
from fitting.study.guarantee import confidence, outwards, percent, relied_on, when_held_out
from fitting.study.terms import account_of
from gpbounds.kernels import SquaredExponential
from gpbounds.losses import Band, Exponential, Interval, Relative, Sign, Squared
from gpbounds.pacbayes import (
    Certificate,
    Charge,
    CoverageCertificate,
    HeldOutCertificate,
    HyperGrid,
    Scaling,
    Sparse,
    Split,
    Updated,
    holdout_bound,
)
from gpbounds.pacbayes.certificate import statement
from gpbounds.plotting import Intervals, Labels, Stack, Wording, certificate_page, intervals_page

pytestmark = pytest.mark.usefixtures("short_pilots")

RNG = np.random.default_rng(1)
N = 200
X = RNG.uniform(-2.0, 2.0, (N, 1))
Y = np.sin(2.0 * X[:, 0]) + 0.2 * RNG.standard_normal(N)
LABELS = np.where(Y > 0.0, "yes", "no")
SPLIT = Split("random", 0.5)
OWN = ~SPLIT.prior(N)
PREDICTED = np.sin(2.0 * X[:, 0])
UNITS = Scaling("disjoint split", 0.0, 2.0)
ABOUT: dict[str, Any] = {"delta": 0.05, "split": SPLIT, "charges": [Charge("forms of certificate", 3)]}
Z = np.linspace(-2.0, 2.0, 6)[:, None]
Q = Updated(Z, 0.1 * np.arange(6.0), 0.3 * np.eye(6), 0.05 * np.arange(6.0), 0.9 * np.eye(6), jitter=1e-8)
UNIT, POINT = SquaredExponential(1.0, 1.0), HyperGrid.shared(0.0, 0.0, 0)
START = np.linalg.solve(np.linalg.cholesky(UNIT(Z) + 1e-8 * np.eye(6)), 10.0 * np.sin(2.0 * Z[:, 0]))
OF_LABELS = replace(Q, prior_mean=START)


@cache
def made(kind: str) -> Any:
    """A certificate of a kind."""
    own: dict[str, Any] = {"predictor": "a sine", **ABOUT}
    if kind == "grid":
        grid = HyperGrid.shared(-3.0, 3.0, 60)
        return Certificate.issue(X, Y, Sparse(Z, 0.1), UNIT, grid=grid, loss=Band(0.5), outputs=UNITS, delta=0.05)
    if kind in ("data prior", "mean"):
        predictor = "mean" if kind == "mean" else "gibbs"
        return Certificate.issue(X, Y, Q, UNIT, grid=POINT, loss=Band(1.5), predictor=predictor, **ABOUT)
    if kind in ("draws of labels", "vote"):
        rest = {"predictor": "mean" if kind == "vote" else "gibbs", "classes": ("no", "yes"), **ABOUT}
        return Certificate.issue(X, LABELS, OF_LABELS, UNIT, grid=POINT, loss=Sign(), **rest)
    if kind == "labels":
        names = np.where(PREDICTED > 0.0, "yes", "no")[OWN]
        return HeldOutCertificate.issue(X, LABELS, names, loss=None, classes=("no", "yes"), **own)
    if kind == "coverage":
        spread = np.full(int(OWN.sum()), 0.2)
        return CoverageCertificate.issue(X, Y, PREDICTED[OWN], spread, level=0.8, **own)
    loss = {"held-out": Band(0.2), "bounded": Squared(0.5)}[kind]
    return HeldOutCertificate.issue(X, Y, PREDICTED[OWN], loss=loss, outputs=UNITS, **own)


KINDS = ("grid", "data prior", "mean", "draws of labels", "vote", "held-out", "bounded", "labels", "coverage")


# The sentence


CLAIMS = {
    "grid": "are more than 1 off a prediction drawn from the model (95 %), checked by 200 rows, which may",
    "data prior": "off a prediction drawn from the model (95 %), checked by 100 rows that the prior had not seen.",
    "mean": "of new targets are more than 1.5 off the model's prediction (95 %), checked by 100 rows that the prior",
    "draws of labels": "of new labels are not those of a function drawn from the model (95 %), checked by 100 rows",
    "vote": "of new labels are not those of the vote of the model (95 %), checked by 100 rows that the prior had not",
    "held-out": "are more than 0.4 off the model's prediction (95 %), checked by 100 rows that the model had not seen.",
    "bounded": "are more than 1 off the model's prediction (95 %), checked by 100 rows that the model had not seen.",
    "labels": "of new labels are not those that the model predicts (95 %), checked by 100 rows that the model had not",
}


@pytest.mark.parametrize("kind", CLAIMS)
def test_the_sentence_states_no_less_than_the_bound_in_raw_units(kind: str) -> None:
    certificate = made(kind)
    text = relied_on(certificate)
    assert CLAIMS[kind] in text, text
    share = float(re.match(r"At most ([\d.]+) % of new", text)[1])  # type: ignore[index]
    assert 0.01 * share >= certificate.bound
    assert 0.01 * share <= 1.1 * certificate.bound


def test_the_sentence_of_intervals_rounds_the_factor_up() -> None:
    certificate = made("coverage")
    text = relied_on(certificate)
    factor = re.fullmatch(
        r"At least 80 % of new targets lie within ([\d.]+) times the model's spread of its prediction \(95 %\), "
        "checked by 100 rows that the model had not seen.",
        text,
    )
    assert factor is not None, text
    assert certificate.factor <= float(factor[1]) <= 1.01 * certificate.factor


@pytest.mark.parametrize(
    ("loss", "words"),
    [
        (
            Exponential(0.5),
            "The mean of Exponential(epsilon=0.5), a loss from 0 to 1, of the model's prediction is at most",
        ),
        (Relative(2.0), "are more than 200 % of their size off the model's prediction"),
        (Interval(-0.5, 0.7), "are such that the model's prediction less the target is not between -1 and 1.4 ("),
        (Interval(-0.5, 0.7, True), "is not between -50 and 70 % of their size ("),
    ],
)
def test_losses_without_a_width_say_what_they_bound(loss: Any, words: str) -> None:
    certificate = HeldOutCertificate.issue(X, Y, PREDICTED, predictor="a sine", loss=loss, outputs=UNITS, delta=0.05)
    assert words in relied_on(certificate), relied_on(certificate)


def test_nothing_is_promised_without_a_guarantee() -> None:
    loose = Certificate.issue(
        *(X, Y, Sparse(Z, 0.1), UNIT),
        **{
            "grid": POINT,
            "loss": Band(1.0),
            "delta": 0.05,
            "nonrigorous": True,
            "outputs": Scaling("same data", 0.0, 0.7),
        },
    )
    assert relied_on(loose).startswith("Nothing is guaranteed, as the scaling came from the same rows")
    vacuous = HeldOutCertificate.issue(X[:3], Y[:3], Y[:3] + 9.0, predictor="a rule", loss=Band(1.0), delta=0.05)
    assert vacuous.bound == 1.0
    assert relied_on(vacuous).startswith("Nothing can be relied on, as the bound is 1")


@given(st.floats(1e-12, 1.0), st.floats(1e-9, 0.5))
def test_shares_are_rounded_up_and_probabilities_down(bound: float, delta: float) -> None:
    share = Decimal(percent(bound))
    assert 100 * Decimal(bound) <= share <= Decimal("110.1") * Decimal(bound)
    assert Decimal(outwards(bound)) >= Decimal(bound)
    held = Decimal(confidence(delta))
    assert held <= 100 - 100 * Decimal(repr(delta)) < held + Decimal("0.001")


# When a held-out set is the better choice


def test_the_outlook_is_that_of_the_held_out_bound() -> None:
    drawn, grid = made("data prior"), made("grid")
    for certificate, n in ((drawn, 100), (grid, 100)):
        k = int(np.ceil(certificate.risk * n - 1e-6))
        least = float(holdout_bound(k, n, delta=0.05))
        number = float(re.search(r"by (0\.\d+)\. ", when_held_out(certificate))[1])  # type: ignore[index]
        assert least <= number <= 1.1 * least
    for kind in KINDS:
        text = when_held_out(made(kind))
        assert text.count(". ") <= 2
        assert "100" in text
    added = re.search(r"add (0\.\d+) to their mean loss of", when_held_out(made("held-out")))
    certificate = made("held-out")
    assert float(added[1]) >= certificate.bound - certificate.risk  # type: ignore[index]


# The terms


@pytest.mark.parametrize("kind", KINDS)
def test_the_bar_ends_at_the_bound_and_starts_with_what_the_rows_show(kind: str) -> None:
    certificate = made(kind)
    account = account_of(certificate)
    stack = account.stack("a")
    assert 0.0 <= stack.risk <= stack.bound == certificate.bound
    assert all(nats > 0.0 for _, nats in stack.costs)
    if kind == "coverage":
        y = Y[OWN]
        outside = np.abs(y - certificate.predictions) > certificate.factor * certificate.spread
        assert account.shown == pytest.approx(outside.mean(), rel=1e-12)
    shown = [value for _, value, _ in account.terms()]
    assert any(float(v) >= (certificate.factor if kind == "coverage" else certificate.bound) for v in shown[-1:])


def test_the_terms_of_a_mean_prediction_are_those_of_the_smaller_bound() -> None:
    certificate = made("mean")
    rest = certificate.count, certificate.rows, certificate.delta
    once = 2.0 * statement.risk_bound(certificate.risk, certificate.kl, *rest)
    twice = 4.0 * statement.risk_bound(certificate.tandem, 2.0 * certificate.kl, *rest)
    assert certificate.bound == min(1.0, once, twice)
    account = account_of(certificate)
    expected = 2.0 * certificate.risk if once <= twice else 4.0 * certificate.tandem
    assert account.shown == expected
    far = replace(certificate, tandem=1e-6, bound=0.9)  # the tandem bound is the smaller one
    assert account_of(far).shown == 4e-6
    assert dict(account_of(far).costs())["KL(Q‖P)"] == 2.0 * certificate.kl


def test_a_form_alone_has_its_share_of_delta() -> None:
    assert account_of(made("held-out")).alone == pytest.approx(0.05 / 3)
    assert account_of(made("grid")).alone == 0.05
    assert made("held-out").bound == float(
        holdout_bound(made("held-out").mistakes, 100, delta=statement.share_of_delta(0.05, 3), rigor="sharp")
    )


# The page and the object


TARGETS = {"labels": LABELS[OWN], "vote": LABELS[OWN], "draws of labels": LABELS[OWN], "grid": Y}


def with_rows(kind: str, *forms: Any) -> Any:
    y = TARGETS.get(kind, Y[OWN])
    return finished(made(kind), lambda: (y, PREDICTED[: len(y)], np.full(len(y), 0.1)), forms=forms)


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("kind", one_in(3, KINDS))
def test_every_kind_has_a_page_with_what_may_be_relied_on(kind: str, known: bool, tmp_path: Any) -> None:
    certificate = made(kind)
    whole = with_rows(kind) if known else finished(certificate)
    assert whole == certificate
    assert certificate == whole
    assert isinstance(whole, type(certificate))
    assert whole.forms == (whole,)
    assert whole.relied_on == relied_on(certificate)
    assert whole.when_held_out == when_held_out(certificate)
    whole.save(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    for text in (relied_on(certificate), certificate.statement, *account_of(certificate).rests_on()):
        assert text.replace("'", "&#x27;") in page
    assert "<svg" in page
    whole.save(tmp_path / "certificate.json")
    read = Certificate.load(tmp_path / "certificate.json")
    assert read == whole
    y = LABELS if certificate.classes else Y
    assert read.check(X, y).confirmed
    for copied in (copy.copy(whole), copy.deepcopy(whole), pickle.loads(pickle.dumps(whole))):
        assert type(copied) is type(certificate)
        assert copied == certificate


def test_what_a_stranger_has_written_stays_text() -> None:
    name = "<script>alert(1)</script>"
    certificate = HeldOutCertificate.issue(X, Y, PREDICTED, predictor=name, loss=Band(0.2), delta=0.05)
    page = finished(certificate, lambda: (Y, PREDICTED, np.zeros(N))).page()
    assert name not in page
    assert "&lt;script&gt;" in page


def test_the_best_comes_first_and_all_forms_are_on_the_page() -> None:
    forms = [made("grid"), made("held-out"), made("data prior")]
    whole = with_rows("held-out", *forms)
    assert whole.forms[0] is whole
    assert len(whole.forms) == 3
    bounds = [each.bound for each in whole.forms[1:]]
    assert bounds == sorted(bounds)
    page = whole.page()
    for text in ("prior on a grid", "prior from other rows", "held-out rows", "98.333 %"):
        assert text in page
    right = whole.plot().axes[-1]
    tops = [path.vertices[0, 1] for each in right.collections for path in each.get_paths()]
    assert tops == pytest.approx([each.bound for each in whole.forms])
    widths = {patch.get_x() for patch in right.patches}
    for place, each in zip(sorted(widths), whole.forms, strict=True):
        bar = [patch for patch in right.patches if patch.get_x() == place]
        assert sum(patch.get_height() for patch in bar) == pytest.approx(each.bound)
        assert bar[0].get_height() == pytest.approx(account_of(each).shown)


# The figures


def boxes_of(page: Any) -> list[tuple[str, Any]]:
    """Every text of a figure with the place that it takes."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    canvas = FigureCanvasAgg(page)
    canvas.draw()
    texts = [page._suptitle]
    for ax in page.axes:
        for axis, view in ((ax.xaxis, ax.get_xlim()), (ax.yaxis, ax.get_ylim())):
            low, high = sorted(view)
            texts += [tick.label1 for tick in axis.get_major_ticks() if low <= tick.get_loc() <= high]
        texts += [*ax.texts, ax.xaxis.label, ax.yaxis.label, ax._left_title]
        texts += ax.get_legend().get_texts() if ax.get_legend() else []
    renderer = canvas.get_renderer()
    return [(t.get_text(), t.get_window_extent(renderer)) for t in texts if t.get_text() and t.get_visible()]


def nothing_overlaps(page: Any) -> None:
    boxes, frame = boxes_of(page), page.bbox
    assert len(boxes) > 10
    for i, (text, box) in enumerate(boxes):
        assert frame.x0 <= box.x0, text
        assert box.x1 <= frame.x1, text
        assert frame.y0 <= box.y0, text
        assert box.y1 <= frame.y1, text
        for other, taken in boxes[:i]:
            assert not box.overlaps(taken), (text, other)


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_in_the_figure_of_a_certificate_overlaps(kind: str) -> None:
    nothing_overlaps(with_rows(kind).plot())


@pytest.mark.parametrize("bounds", [(0.0142, 0.0222, 0.106), (0.3, 0.34, 1.0), (1.0, 1.0, 1.0), (1e-5, 0.5, 0.9)])
def test_nothing_in_the_figure_of_several_forms_overlaps(bounds: tuple[float, ...]) -> None:
    names = (
        "held-out rows\nthe prediction",
        "prior from other rows\ndrawn predictions",
        "prior on a grid\nmean prediction",
    )
    costs = ([("ln(1/δ)", 4.6)], [("KL(Q‖P)", 0.3), ("ln(ξ(N)/δ)", 7.0)], [("KL(Q‖P)", 70.0), ("ln|Θ|", 14.0)])
    stacks = [
        Stack(f"{name}\nn = 16,000\nalone: 99.666 %", 0.7 * bound, cost, bound)
        for name, cost, bound in zip(names, costs, bounds, strict=True)
    ]
    words = Wording("mean loss on the certified rows", "Mean loss of a new row")
    page = certificate_page(None, 0.1, [], bounds[0], title="line " * 20, forms=stacks, wording=words)
    nothing_overlaps(page)
    assert page.axes[0].get_ylim()[1] > max(bounds)


def test_intervals_that_miss_are_marked_and_the_level_is_shown() -> None:
    certificate = made("coverage")
    left, right = with_rows("coverage").plot().axes
    y, reach = Y[OWN], certificate.factor * certificate.spread
    missed = np.abs(y - certificate.predictions) > reach
    within, beyond = (collection.get_offsets() for collection in left.collections[1:])
    assert len(beyond) == int(missed.sum()) == certificate.rows - certificate.rank
    assert len(within) == certificate.rank
    assert sorted(beyond[:, 1]) == sorted(y[missed])
    labels = [text.get_text() for text in right.get_legend().get_texts()]
    assert labels[0] == "stated: 0.8 of new targets"
    assert f"holds {certificate.rank} of 100 rows" in labels[1]
    t, shares = right.lines[0].get_data()
    at = np.searchsorted(t, certificate.factor, side="right") - 1
    assert shares[at] == certificate.rank / 100


def test_labels_are_counted_by_their_truth() -> None:
    truth = ["a"] * 5 + ["b"] * 3 + ["c"] * 2
    predicted = ["a"] * 4 + ["b"] + ["b"] * 3 + ["a", "another"]
    page = certificate_page(Labels(truth, predicted), 0.3, [("ln(1/δ)", 3.0)], 0.5, title="t")
    ax = page.axes[0]
    assert [patch.get_width() for patch in ax.patches] == [4, 3, 0, 1, 0, 2]
    assert [text.get_text().strip() for text in ax.texts] == ["1 wrong", "0 wrong", "2 wrong"]
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["right: 70 % of rows", "wrong: 30 % of rows"]
    many = [f"a label of thirty letters {i:02}" for i in range(30) for _ in range(3)]
    page = certificate_page(Labels(many, many), 0.0, [("ln(1/δ)", 3.0)], 0.1, title="t")
    nothing_overlaps(page)
    assert "12 of 30 labels are shown" in page.axes[0]._left_title.get_text()


def test_scores_that_are_all_0_make_a_figure() -> None:
    none = np.zeros(20)
    page = intervals_page(Intervals(none, none, none, none), none, rank=20, factor=0.0, level=0.9, title="t")
    assert len(boxes_of(page)) > 10


# The figures of what `certify` returns


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_the_figure_of_a_prior_from_other_rows_shows_the_predictions_of_its_posterior() -> None:
    certificate = certify(SparseGP(n_inducing=6, max_iter=20), X, Y, method="data-prior", epsilon=0.5, scaling="prior")
    y, mean, std = certificate._predictions()
    certified = ~certificate.split.prior(N)
    assert y.tolist() == Y[certified].tolist()
    scaled, unit = (mean - certificate.outputs.shift) / certificate.outputs.scale, certificate.outputs.scale
    expected = certificate.loss.expectation(certificate.outputs.apply(y), scaled, (std / unit) ** 2)
    assert expected.mean() == pytest.approx(certificate.risk, rel=1e-6, abs=1e-9)
    assert len(certificate.plot().axes) == 2


def test_the_figure_of_labels_counts_the_mistakes_of_the_certificate() -> None:
    certificate = certify(LogisticRegression(), X, np.where(Y > 0.0, 2, 1), method="held-out", delta=0.05)
    ax = certificate.plot().axes[0]
    wrong = [int(text.get_text().split()[0]) for text in ax.texts]
    assert sum(wrong) == certificate.mistakes
    assert [tick.get_text() for tick in ax.get_yticklabels()] == ["1", "2"]
