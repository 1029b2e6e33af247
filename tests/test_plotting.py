"""Figures show the values that were passed, leave global settings unchanged, and cut no text off."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from gpbounds import plotting
from gpbounds.plotting import (
    Band,
    Bracket,
    Curve,
    bound_curves,
    bound_vs_empirical,
    bounds_and_evidence,
    plot_band,
    plot_curves,
)

M = np.array([1.0, 2.0, 5.0, 10.0])


def picture(**changes):
    rng = np.random.default_rng(0)
    settings = {
        "title": "data\nkernel",
        "ylabel": plotting.divergence_symbol(1.0),
        "confidence": "Upper bounds,\nprobability 95 %",
        "target": 0.1,
        **changes,
    }
    bands = [Band("random", M, 10.0 ** -rng.uniform(1, 2, (5, 4)), plotting.PURPLE), Band("greedy", M, 0.05 / M, "k")]
    return bound_vs_empirical([Curve("bound", M, 10.0 / M)], bands, Curve("lower", M, 1e-9 / M), **settings)


def two_panels(exact=-5.0, label="greedy", **changes):
    lower, upper = -5.0 - 100.0 / M, -5.0 + 9.0 / M**2
    bracket = Bracket(label, M, lower - 1e4 / M, lower, upper, exact)
    settings = {"title": "data\nkernel", "ylabel": "KL (nats)", **changes}
    return bounds_and_evidence([Curve("bound", M, 10.0 / M)], bracket, **settings)


def draw(figure):
    """Lay the figure out and draw it in memory."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    FigureCanvasAgg(figure).draw()


def test_curves_are_drawn_as_handed_in_with_gaps_where_a_logarithm_fails():
    figure = bound_curves([Curve("a", M, [3.0, 0.0, np.inf, 1e-3])], title="t", ylabel="y", target=0.5)
    (ax,) = figure.axes
    line = ax.get_lines()[0]
    assert (line.get_xdata() == M).all()
    assert line.get_ydata()[[0, 3]].tolist() == [3.0, 1e-3]
    assert np.isnan(line.get_ydata()[1:3]).all()
    assert ax.get_yscale() == "log"
    assert ax.get_lines()[1].get_ydata() == [0.5, 0.5]


def test_a_band_is_the_range_about_the_median():
    from matplotlib.figure import Figure

    ax = Figure().add_subplot()
    draws = np.array([[1.0, 4.0, np.nan], [3.0, 5.0, np.nan], [2.0, np.nan, np.nan]])
    plot_band(ax, Band("b", [1, 2, 3], draws, "k"))
    assert ax.get_lines()[0].get_ydata().tolist() == [2.0, 4.5]
    edge = ax.collections[0].get_paths()[0].vertices
    assert edge[edge[:, 0] == 1.0][:, 1].min() == 1.0
    assert edge[edge[:, 0] == 1.0][:, 1].max() == 3.0
    assert edge[edge[:, 0] == 2.0][:, 1].max() == 5.0


def test_the_empirical_picture_has_labels_units_and_a_log_axis():
    figure = picture(ylabel="KL (nats)")
    (ax,) = figure.axes
    assert (ax.get_xscale(), ax.get_yscale()) == ("log", "log")
    assert ax.get_ylabel() == "KL (nats)"
    assert "inducing points" in ax.get_xlabel()
    entries = [text.get_text() for text in figure.legends[0].get_texts()]
    assert {"bound", "random", "greedy", "lower", "Upper bounds,\nprobability 95 %"} <= set(entries)
    assert ax.get_ylim()[0] > 1e-5  # the lower bound may leave the picture, the subsets may not
    assert ax.get_ylim()[0] < 0.005


def test_no_text_overlaps_or_leaves_the_page():
    figure = picture(
        title="a\n" + "Squared exponential kernel, variance 1.04, lengthscale 2.84 to 8070 (one per input)"
    )
    draw(figure)
    page = figure.bbox
    boxes = [
        figure.axes[0].get_window_extent(),
        figure.axes[0].xaxis.label.get_window_extent(),
        figure.axes[0].yaxis.label.get_window_extent(),
        figure.legends[0].get_window_extent(),
        figure._suptitle.get_window_extent(),
    ]
    for box in boxes:
        assert page.x0 <= box.x0 <= box.x1 <= page.x1
        assert page.y0 <= box.y0 <= box.y1 <= page.y1
    for i, box in enumerate(boxes):
        assert not any(box.overlaps(other) for other in boxes[i + 1 :])


@pytest.mark.parametrize("exact", [-5.0, None])
def test_the_evidence_is_drawn_from_its_exact_value_or_the_middle_of_the_narrowest_bracket(exact):
    figure = two_panels(exact, target=0.5)
    left, right = figure.axes
    middle = -5.0 + (0.09 - 10.0) / 2
    zero = -5.0 if exact is not None else middle
    lines = {line.get_label(): line.get_ydata() for line in right.get_lines()}
    assert lines["upper bound"] == pytest.approx(-5.0 + 9.0 / M**2 - zero)
    assert lines["lower bound"] == pytest.approx(-5.0 - 100.0 / M - zero)
    assert lines["ELBO of the sparse model"] == pytest.approx(-5.0 - 10100.0 / M - zero)
    low, high = right.get_ylim()
    assert low < min(v.min() for v in map(np.asarray, lines.values()))
    assert high > max(v.max() for v in map(np.asarray, lines.values()))
    assert f"= {zero:.7g} (" in right.get_title(loc="left")
    assert ("exact" in right.get_title(loc="left")) == (exact is not None)
    assert left.get_yscale() == "log"
    assert left.get_lines()[1].get_ydata() == [0.5, 0.5]


@pytest.mark.broad
@pytest.mark.parametrize("spread", [0.0, 1e-9, 1.0, 1e7])
def test_brackets_of_any_width_can_be_drawn(spread):
    values = np.full(4, 3.0)
    bracket = Bracket("k-DPP", M, values - spread, values - spread, values + spread, 3.0)
    figure = bounds_and_evidence([Curve("bound", M, 10.0 / M)], bracket, title="", ylabel="")
    draw(figure)
    ticks = [text.get_text() for text in figure.axes[1].get_yticklabels()]
    assert "0" in ticks
    assert len(set(ticks)) == len(ticks)


@pytest.mark.parametrize("label", ["greedy", "leverage-score"])
def test_two_panels_keep_their_text_apart_and_on_the_page(label):
    figure = two_panels(None, label)
    draw(figure)
    page, (left, right) = figure.bbox, figure.axes
    boxes = [left.get_window_extent(), right.get_window_extent(), figure._suptitle.get_window_extent()]
    boxes += [text.get_window_extent() for ax in (left, right) for text in (ax.xaxis.label, ax.yaxis.label)]
    boxes.append(right._left_title.get_window_extent())
    for box in boxes:
        assert page.x0 <= box.x0 <= box.x1 <= page.x1
        assert page.y0 <= box.y0 <= box.y1 <= page.y1
    for i, box in enumerate(boxes):
        assert not any(box.overlaps(other) for other in boxes[i + 1 :])
    labels = [text.get_window_extent() for text in right.get_yticklabels()]
    assert not any(a.overlaps(b) for i, a in enumerate(labels) for b in labels[i + 1 :])


def test_curves_can_be_told_apart():
    from matplotlib.figure import Figure

    ax = Figure().add_subplot()
    plot_curves(ax, [Curve(str(i), M, M) for i in range(14)])
    looks = {(line.get_color(), line.get_linestyle()) for line in ax.get_lines()}
    assert len(looks) == 14
    # in the brightness that every kind of colour vision keeps, neighbours differ
    from matplotlib.colors import to_rgb

    grey = [float(np.dot(to_rgb(c), [0.2126, 0.7152, 0.0722])) for c in plotting.CYCLE[:3]]
    assert len({round(value, 2) for value in grey}) == 3


def test_importing_the_room_does_not_load_matplotlib_and_drawing_does_not_load_pyplot(tmp_path):
    program = (
        "import sys, gpbounds.plotting as p; assert 'matplotlib' not in sys.modules; "
        "p.bound_curves([p.Curve('a', [1, 2], [1, 2])], title='', ylabel='').savefig(sys.argv[1]); "
        "assert 'matplotlib.pyplot' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program, str(tmp_path / "a.png")], check=True)
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(("alpha", "symbol"), [(1.0, "KL"), (0.5, "D_{0.5}"), (None, r"D_{\alpha}")])
def test_divergences_are_named_with_their_order(alpha, symbol):
    from matplotlib.figure import Figure

    figure = Figure()
    for direction in ("q||p", "p||q"):
        text = plotting.divergence_symbol(alpha, direction)
        assert symbol in text
        figure.suptitle(text)
        draw(figure)  # mathematical text that can't be set raises
    assert plotting.divergence_symbol(alpha) != text
