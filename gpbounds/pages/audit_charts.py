"""The charts of an audit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from gpbounds.arrays import Float
from gpbounds.audit import Calibration, Compared, Differences, Enough, LatentEnough, Places, Subject
from gpbounds.audit.compared import KINDS
from gpbounds.audit.levels import AgainstM, Points
from gpbounds.pages.chart import Chart
from gpbounds.pages.html import Markup
from gpbounds.pages.marks import Band, Bars, Dots, Level, Line, Mark, Whiskers

BLUE, VERMILLION, GREEN, ORANGE, SKY, BLACK = "#0072B2", "#D55E00", "#009E73", "#E69F00", "#56B4E9", "#000000"
SIZE: dict[str, Any] = {"width": 480.0, "height": 330.0}
_DOTS = 1200
"""Largest number of rows in a chart: the worst ones, and others evenly spaced."""
FLOOR = 1e-3
"""Divergences below this share of the target are not drawn."""
CLASSES = ((0.0, 0.5, "lower half", "#c7dcec"), (0.5, 0.9, "50 to 90 %", SKY), (0.9, 0.99, "90 to 99 %", BLUE))


class _Curve(NamedTuple):
    """A curve of the divergence: the levels that it joins, and below how many of them it is not drawn."""

    kinds: tuple[Points, ...]
    name: str
    color: str
    fewest: int = 2


_CURVES = (_Curve(("chosen",), "chosen rows", BLUE, 0), _Curve(("model", "added"), "the model's and more rows", ORANGE))
_LATENT_CURVES = (
    _Curve(("chosen",), "best law, chosen rows", BLUE),
    _Curve(("best", "added"), "best law, these and more rows", ORANGE),
)


def divergence_chart(enough: Enough) -> Markup:
    """Bounds on the divergence against M, with the target and the lower bound for any choice."""
    least = FLOOR * enough.target
    marks: list[Mark] = []
    if enough.floor is not None:
        M, values = enough.floor
        kept = values >= least
        marks.append(Line("no choice does better", M[kept].tolist(), values[kept].tolist(), BLACK, True, dots=False))
    marks += _curves(enough, _CURVES)
    if enough.model is not None:
        marks.append(_of_model(enough, enough.model.M, "the model"))
    return _against_M(enough, marks, "KL[q*‖p], nats")


def latent_divergence_chart(enough: LatentEnough) -> Markup:
    """Bounds on the divergence against M, with the target, and the bound of a law alone where it was computed."""
    marks = _curves(enough, _LATENT_CURVES)
    own = [(level.M, float(level.gap.bound)) for level in enough.levels if level.gap is not None]
    marks.append(Dots("a law's bound by itself", [M for M, _ in own], [bound for _, bound in own], BLACK, 3.5))
    marks.append(_of_model(enough, enough.model.M, "the model's law"))
    if enough.estimate >= FLOOR * enough.target:
        marks.append(Dots("the model's law, estimate", [enough.model.M], [enough.estimate], SKY, 4.0))
    return _against_M(enough, marks, "KL[q‖p], nats")


def _curves(enough: AgainstM[Any], curves: Sequence[_Curve]) -> list[Mark]:
    """What lies between the bounds, for each way to choose inducing points."""
    least = FLOOR * enough.target
    marks: list[Mark] = []
    for curve in curves:
        levels = [level for points in curve.kinds for level in enough.of(points)]
        pairs = [(level.M, *map(float, level.divergence(enough.evidence))) for level in levels]
        pairs = [pair for pair in pairs if pair[2] >= least]
        if len(pairs) < curve.fewest:
            continue
        counts, low, high = ([pair[i] for pair in pairs] for i in range(3))
        band = Band("", counts, [max(value, least) for value in low], high, curve.color)
        marks += [band, Line(curve.name, counts, high, curve.color)]
    return marks


def _of_model(enough: AgainstM[Any], M: int, name: str) -> Mark:
    """The upper bound of the model's own posterior, with M inducing points."""
    lower, upper = map(float, enough.divergence or ())
    note = f"the model, M = {M}: KL between {lower:.6g} and {upper:.6g}"
    return Dots(name, [M], [max(upper, FLOOR * enough.target)], VERMILLION, 5.0, [note])


def _against_M(enough: AgainstM[Any], marks: list[Mark], label: str) -> Markup:
    """The chart of the divergence, with the target."""
    target = Level(f"target {enough.target:g}", enough.target, GREEN)
    axes: dict[str, Any] = {"log_x": True, "log_y": True, **SIZE}
    return Chart([*marks, target], "number of inducing points M", label, about="Divergence against M", **axes).svg()


def evidence_chart(enough: Enough) -> Markup:
    """ELBO and upper bound on log p(y) against M, from where they are of use."""
    best = 0.5 * (float(enough.evidence[0]) + float(enough.evidence[1]))
    levels = enough.of("chosen") or enough.of("model")
    far = sorted(best - level.elbo for level in levels)[len(levels) // 2]
    reach = max(far, 20.0 * enough.target)
    levels = [level for level in levels if best - level.elbo <= reach] or levels[-1:]
    counts = [level.M for level in levels]
    uppers = [float(level.evidence[1]) if float(level.evidence[1]) <= best + reach else np.nan for level in levels]
    marks: list[Mark] = [
        Line("upper bound", counts, uppers, VERMILLION),
        Line("ELBO", counts, [level.elbo for level in levels], BLUE),
    ]
    if enough.model is not None and best - enough.model.elbo <= reach:
        note = f"the model, M = {enough.model.M}: ELBO {enough.model.elbo:.8g}"
        marks.append(Dots("ELBO of the model", [enough.model.M], [enough.model.elbo], BLACK, 5.0, [note]))
    low, high = map(float, enough.evidence)
    ends = [Level("log p(y) ≥", low, GREEN), Level("log p(y) ≤", high, ORANGE)]
    marks += [Level("log p(y)", low, GREEN)] if high - low < 1e-3 * reach else ends
    return Chart(
        marks, "number of inducing points M", "nats", log_x=True, about="Bounds on log p(y) against M", **SIZE
    ).svg()


def elbo_chart(enough: LatentEnough) -> Markup:
    """ELBOs against M and the bounds on log p(y), less the largest ELBO, from where they are of use."""
    low, high = map(float, enough.evidence)
    levels = enough.of("added") or [enough.best]
    far = max(low - enough.model.elbo, high - low, enough.target)
    shown = [(level.M, level.elbo - low) for level in levels if low - level.elbo <= 2.0 * far]
    marks: list[Mark] = [
        Level("log p(y) ≥", 0.0, GREEN),
        Level("log p(y) ≤", high - low, ORANGE),
        Line("ELBO, these and more rows", [M for M, _ in shown], [elbo for _, elbo in shown], BLUE),
        Dots("ELBO of the model", [enough.model.M], [enough.model.elbo - low], VERMILLION, 5.0),
    ]
    return Chart(
        marks,
        "number of inducing points M",
        "nats above the largest ELBO",
        log_x=True,
        about="ELBOs and log p(y) against M",
        **SIZE,
    ).svg()


_KINDS = {"chosen": BLUE, "added": ORANGE, "model": VERMILLION, "best": SKY, "retrained": BLACK}


def loss_chart(compared: Compared) -> Markup:
    """Log loss against M, with the exact GP's certified strip and a 95 % interval over rows for each difference."""
    scored = [each for each in (*compared.levels, compared.retrained) if each is not None and each.M is not None]
    low, high = compared.log_loss
    exact = 0.5 * (low + high)
    counts = [float(each.M or 0) for each in scored]
    ends = [min(counts, default=1.0), max(counts, default=2.0)]
    marks: list[Mark] = [
        Band(f"within {compared.loss:g} of it", ends, [low] * 2, [exact + compared.loss] * 2, SKY),
        Band("", ends, [low] * 2, [high] * 2, GREEN),
        Level("the exact GP (proved)", exact, GREEN),
    ]
    gains = [each.gain for each in scored]
    marks.append(
        Whiskers(
            "95 % over rows (measured)",
            counts,
            [exact + gain - half for gain, half in gains],
            [exact + gain + half for gain, half in gains],
            "#59626d",
        )
    )
    for kind, color in _KINDS.items():
        chosen = [each for each in scored if each.kind == kind]
        if chosen:
            x, y = [float(each.M or 0) for each in chosen], [each.mean_log_loss for each in chosen]
            notes = [f"{KINDS[kind]}, M = {each.M}: {each.mean_log_loss:.5f} nats a row" for each in chosen]  # type: ignore[index]
            marks.append(Dots(KINDS[kind], x, y, color, 5.0 if kind == "model" else 4.0, notes))  # type: ignore[index]
    return Chart(
        marks,
        "number of inducing points M",
        "log loss, nats a row",
        log_x=True,
        about="Log loss on held-out rows against M",
        **(SIZE | {"width": 640.0}),
    ).svg()


def difference_chart(measured: Differences, places: Places, numbers: Any, guarantee: float | None) -> Markup:
    """Differences of the means against the unexplained variance, with the guarantee for all inputs if it is useful."""
    kept = some(measured.mean)
    notes = [
        f"row {int(numbers[i])}: means {measured.mean[i]:.4g} standard deviations apart, variance ratio "
        f"{measured.variance[i]:.4g}, unexplained {places.unexplained[i]:.4g}"
        for i in kept
    ]
    marks: list[Mark] = [
        Dots("rows", places.unexplained[kept].tolist(), measured.mean[kept].tolist(), BLUE, 2.5, notes)
    ]
    if guarantee is not None:
        marks.append(Level("guaranteed (Prop. 4)", guarantee, GREEN))
    return Chart(
        marks,
        "unexplained variance, noise variances",
        "difference of means, exact st. dev.",
        log_x=True,
        log_y=True,
        about="Differences of means",
        **SIZE,
    ).svg()


def place_chart(places: Places, about: Subject, numbers: Any) -> Markup:
    """The unexplained variance over one input, or its classes over the two most telling inputs."""
    kept = some(places.unexplained)
    values = places.unexplained[kept]
    notes = [f"row {int(numbers[i])}: unexplained {places.unexplained[i]:.4g}" for i in kept]
    if about.D == 1:
        marks: list[Mark] = [Dots("rows", places.X[kept, 0].tolist(), values.tolist(), BLUE, 2.5, notes)]
        if about.Z is not None:
            marks.append(Dots("inducing points", about.Z[:, 0].tolist(), [0.0] * len(about.Z), VERMILLION, 3.5))
        return Chart(
            marks, about.columns[0], "unexplained, noise variances", zero=True, about="Unexplained variance", **SIZE
        ).svg()
    first, second = (about.columns.index(part.column) for part in places.parts[:2])
    edges = [np.quantile(places.unexplained, share) for share in (0.5, 0.9, 0.99)]
    groups = np.searchsorted(edges, values, side="right")
    looks = [*(name_and_color[2:] for name_and_color in CLASSES), ("worst 1 %", VERMILLION)]
    marks = []
    for group, (name, color) in enumerate(looks):
        chosen = np.flatnonzero(groups == group)
        x, y = (places.X[kept[chosen], j].tolist() for j in (first, second))
        marks.append(Dots(name, x, y, color, 2.5 + 0.6 * group, [notes[i] for i in chosen]))
    return Chart(
        marks, about.columns[first], about.columns[second], about="Where the unexplained variance is large", **SIZE
    ).svg()


def coverage_chart(calibration: Calibration) -> Markup:
    """Share of covered targets against the level."""
    levels = [100.0 * each.level for each in calibration.coverage]
    marks: list[Mark] = [
        Line("right predictions", levels, levels, GREEN, True, dots=False),
        Line("the model", levels, [100.0 * each.share for each in calibration.coverage], BLUE),
    ]
    low = [100.0 * each.low for each in calibration.coverage if each.low is not None]
    high = [100.0 * each.high for each in calibration.coverage if each.high is not None]
    if low and high:
        marks.insert(0, Band("expected", levels, low, high, GREEN))
    return Chart(marks, "level, %", "covered, %", about="Coverage of intervals", **SIZE).svg()


def histogram(calibration: Calibration) -> Markup:
    """The histogram of P(Y ≤ y), and the range of each bin."""
    edges = np.linspace(0.0, 1.0, calibration.bins.size + 1)
    marks: list[Mark] = [Bars("the model", edges.tolist(), calibration.bins.tolist(), SKY)]
    if calibration.bin_ranges is not None:
        steps = np.repeat(edges, 2)[1:-1].tolist()
        low, high = np.repeat(calibration.bin_ranges, 2, axis=0).T.tolist()
        marks.append(Band("expected", steps, low, high, GREEN))
    return Chart(marks, "P(Y ≤ y)", "rows", zero=True, about="Histogram of P(Y ≤ y)", **SIZE).svg()


def prediction_chart(calibration: Calibration, numbers: Any) -> Markup:
    """Targets against predicted means."""
    error = np.abs(calibration.y - calibration.mean) / np.sqrt(calibration.variance)
    kept = some(error)
    notes = [
        f"row {int(numbers[i])}: target {calibration.y[i]:.5g}, predicted {calibration.mean[i]:.5g} ± "
        f"{np.sqrt(calibration.variance[i]):.3g}"
        for i in kept
    ]
    ends = [
        float(min(calibration.mean.min(), calibration.y.min())),
        float(max(calibration.mean.max(), calibration.y.max())),
    ]
    marks: list[Mark] = [
        Line("equality", ends, ends, GREEN, True, dots=False),
        Dots("rows", calibration.mean[kept].tolist(), calibration.y[kept].tolist(), BLUE, 2.5, notes),
    ]
    return Chart(marks, "predicted", "target", about="Targets against predictions", **SIZE).svg()


def row_chart(model: Float, low: Float, high: Float, event: str) -> Markup:
    """Intervals of the exact probability against the model's, at rows."""
    kept = some(high - low)
    order = kept[np.argsort(model[kept], kind="stable")]
    x, ends_low, ends_high = (values[order].tolist() for values in (model, low, high))
    marks: list[Mark] = [
        Whiskers("exact posterior, between", x, ends_low, ends_high, SKY),
        Dots("the model", x, x, BLUE, 2.5),
    ]
    return Chart(
        marks, "probability under the model", "under the exact posterior", about=f"Probabilities of {event}", **SIZE
    ).svg()


def some(measure: Float) -> Any:
    """Numbers of at most `_DOTS` points: the quarter with the largest measure, and others evenly spaced.

    >>> some(np.arange(5.0)).tolist(), len(some(np.arange(5000.0))), int(some(np.arange(5000.0))[-1])
    ([0, 1, 2, 3, 4], 1200, 4999)
    """
    n = measure.size
    if n <= _DOTS:
        return np.arange(n)
    order = np.argsort(-measure, kind="stable")
    worst, rest = order[: _DOTS // 4], np.sort(order[_DOTS // 4 :])
    spaced = rest[np.linspace(0, rest.size - 1, _DOTS - _DOTS // 4).astype(np.int64)]
    return np.sort(np.concatenate([worst, spaced]))
