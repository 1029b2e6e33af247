"""A chart as inline SVG: marks over two axes with ticks, a legend, and a sentence for readers who do not see it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from gpbounds.pages.axis import Axis, labels
from gpbounds.pages.html import Markup, escaped
from gpbounds.pages.marks import Mark, Names

WIDTH, HEIGHT = 640.0, 340.0
LEFT, RIGHT, TOP, BOTTOM = 70.0, 16.0, 14.0, 46.0


@dataclass(frozen=True)
class Chart:
    """A chart with its axes.

    Parameters
    ----------
    marks : sequence of Mark
        Later ones lie above earlier ones.
    x, y : str
        What the axes show, with units.
    log_x, log_y : bool
        Logarithmic axes; values that are not positive are left out.
    zero : bool
        The vertical axis begins at 0.
    width, height : float
        In pixels.
    about : str
        A sentence for readers who do not see the chart.

    >>> from gpbounds.pages.marks import Line
    >>> chart = Chart([Line("bound", [1.0, 2.0], [0.5, 0.25], "#0072B2")], "M", "nats")
    >>> svg = chart.svg()
    >>> svg.count("<circle"), "<title>bound: M 2, nats 0.25</title>" in svg
    (2, True)
    """

    marks: Sequence[Mark]
    x: str
    y: str
    log_x: bool = False
    log_y: bool = False
    zero: bool = False
    width: float = WIDTH
    height: float = HEIGHT
    about: str = ""
    legend: bool = True
    _right: float = field(default=RIGHT, repr=False)

    def svg(self) -> Markup:
        """The chart as an ``svg`` element."""
        names = [mark.name for mark in self.marks if mark.name] if self.legend else []
        rows = _legend_rows(names, self.width - LEFT - self._right)
        top = TOP + 18.0 * len(rows)
        across, up = self._axes(top)
        parts = [_frame(across, up), *self._grid(across, up), *_legend(self.marks, rows)]
        for mark in self.marks:
            parts += mark.drawn(across, up, Names(self.x, self.y))
        size = f'viewBox="0 0 {self.width:g} {self.height:g}" width="{self.width:g}" height="{self.height:g}"'
        title = escaped(self.about or f"{self.y} against {self.x}")
        return Markup(f'<svg class="chart" role="img" aria-label="{title}" {size}>' + "".join(parts) + "</svg>")

    def _axes(self, top: float) -> tuple[Axis, Axis]:
        xs, ys = list[float](), list[float]()
        for mark in self.marks:
            more_xs, more_ys = mark.extent()
            xs += more_xs
            ys += more_ys
        across = Axis.over(xs, LEFT, self.width - self._right, log=self.log_x)
        return across, Axis.over(ys, self.height - BOTTOM, top, log=self.log_y, zero=self.zero)

    def _grid(self, across: Axis, up: Axis) -> list[str]:
        parts, columns, rows = [], across.ticks(), up.ticks()
        for value, text in zip(columns, labels(columns), strict=True):
            at = across.place(value)
            parts.append(f'<path d="M{at:.1f} {up.start:.1f}V{up.end:.1f}" stroke="#e6e9ed"/>')
            parts.append(f'<text x="{at:.1f}" y="{up.start + 18:.1f}" text-anchor="middle">{text}</text>')
        for value, text in zip(rows, labels(rows), strict=True):
            at = up.place(value)
            parts.append(f'<path d="M{across.start:.1f} {at:.1f}H{across.end:.1f}" stroke="#e6e9ed"/>')
            parts.append(f'<text x="{across.start - 6:.1f}" y="{at + 4:.1f}" text-anchor="end">{text}</text>')
        middle, height = 0.5 * (across.start + across.end), 0.5 * (up.start + up.end)
        parts.append(f'<text x="{middle:.1f}" y="{self.height - 8:.1f}" text-anchor="middle">{escaped(self.x)}</text>')
        turned = f'transform="translate(14 {height:.1f}) rotate(-90)" text-anchor="middle"'
        return [*parts, f"<text {turned}>{escaped(self.y)}</text>"]


def _frame(across: Axis, up: Axis) -> str:
    return f'<path d="M{across.start:.1f} {up.end:.1f}V{up.start:.1f}H{across.end:.1f}" stroke="#59626d" fill="none"/>'


def _legend_rows(names: Sequence[str], width: float) -> list[list[str]]:
    """The names in rows that fit, at about seven pixels for a character."""
    rows: list[list[str]] = []
    used = width
    for name in names:
        need = 40.0 + 7.0 * len(name)
        if used + need > width:
            rows.append([])
            used = 0.0
        rows[-1].append(name)
        used += need
    return rows


def _legend(marks: Sequence[Mark], rows: Sequence[Sequence[str]]) -> list[str]:
    looks = {mark.name: mark for mark in marks}
    parts = []
    for number, row in enumerate(rows):
        x, y = LEFT, TOP + 18.0 * number
        for name in row:
            parts.append(looks[name].sample(x, y))
            parts.append(f'<text x="{x + 28:.1f}" y="{y + 4:.1f}">{escaped(name)}</text>')
            x += 40.0 + 7.0 * len(name)
    return parts
