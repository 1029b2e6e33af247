"""A chart as inline SVG: lines, dots and levels over two axes; every mark shows its values when pointed at."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from gpbounds.pages.axis import Axis, label
from gpbounds.pages.html import Markup, escaped

WIDTH, HEIGHT = 640.0, 340.0
LEFT, RIGHT, TOP, BOTTOM = 70.0, 16.0, 14.0, 46.0


@dataclass(frozen=True)
class Line:
    """Values joined by a line, each with a dot unless ``dots`` is False; values that are not finite interrupt it."""

    name: str
    x: Sequence[float]
    y: Sequence[float]
    color: str
    dashed: bool = False
    dots: bool = True


@dataclass(frozen=True)
class Dots:
    """Single dots; ``notes`` says what each of them is."""

    name: str
    x: Sequence[float]
    y: Sequence[float]
    color: str
    radius: float = 3.0
    notes: Sequence[str] = ()


@dataclass(frozen=True)
class Level:
    """A horizontal line across the chart, or a vertical one."""

    name: str
    value: float
    color: str
    vertical: bool = False


@dataclass(frozen=True)
class Chart:
    """A chart with its axes.

    Parameters
    ----------
    marks : sequence of Line, Dots and Level
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

    >>> chart = Chart([Line("bound", [1.0, 2.0], [0.5, 0.25], "#0072B2")], "M", "nats")
    >>> svg = chart.svg()
    >>> svg.count("<circle"), "<title>bound: M 2, nats 0.25</title>" in svg
    (2, True)
    """

    marks: Sequence[Line | Dots | Level]
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
            parts += self._drawn(mark, across, up)
        size = f'viewBox="0 0 {self.width:g} {self.height:g}" width="{self.width:g}" height="{self.height:g}"'
        title = escaped(self.about or f"{self.y} against {self.x}")
        return Markup(f'<svg class="chart" role="img" aria-label="{title}" {size}>' + "".join(parts) + "</svg>")

    def _axes(self, top: float) -> tuple[Axis, Axis]:
        xs, ys = list[float](), list[float]()
        for mark in self.marks:
            if isinstance(mark, Level):
                (xs if mark.vertical else ys).append(mark.value)
            else:
                xs += list(mark.x)
                ys += list(mark.y)
        across = Axis.over(xs, LEFT, self.width - self._right, log=self.log_x)
        return across, Axis.over(ys, self.height - BOTTOM, top, log=self.log_y, zero=self.zero)

    def _grid(self, across: Axis, up: Axis) -> list[str]:
        parts = []
        for value in across.ticks():
            at = across.place(value)
            parts.append(f'<path d="M{at:.1f} {up.start:.1f}V{up.end:.1f}" stroke="#e6e9ed"/>')
            parts.append(f'<text x="{at:.1f}" y="{up.start + 18:.1f}" text-anchor="middle">{label(value)}</text>')
        for value in up.ticks():
            at = up.place(value)
            parts.append(f'<path d="M{across.start:.1f} {at:.1f}H{across.end:.1f}" stroke="#e6e9ed"/>')
            parts.append(f'<text x="{across.start - 6:.1f}" y="{at + 4:.1f}" text-anchor="end">{label(value)}</text>')
        middle, height = 0.5 * (across.start + across.end), 0.5 * (up.start + up.end)
        parts.append(f'<text x="{middle:.1f}" y="{self.height - 8:.1f}" text-anchor="middle">{escaped(self.x)}</text>')
        turned = f'transform="translate(14 {height:.1f}) rotate(-90)" text-anchor="middle"'
        return [*parts, f"<text {turned}>{escaped(self.y)}</text>"]

    def _drawn(self, mark: Line | Dots | Level, across: Axis, up: Axis) -> list[str]:
        if isinstance(mark, Level):
            axis = across if mark.vertical else up
            if not axis.holds(mark.value):
                return []
            at = axis.place(mark.value)
            path = (
                f"M{at:.1f} {up.start:.1f}V{up.end:.1f}"
                if mark.vertical
                else f"M{across.start:.1f} {at:.1f}H{across.end:.1f}"
            )
            words = escaped(f"{mark.name}: {shown(mark.value)}")
            look = f'stroke="{mark.color}" stroke-dasharray="5 4" fill="none"'
            return [f'<path d="{path}" {look}><title>{words}</title></path>']
        places = [
            (across.place(x), up.place(y), i) if across.holds(x) and up.holds(y) else None
            for i, (x, y) in enumerate(zip(mark.x, mark.y, strict=True))
        ]
        parts = []
        if isinstance(mark, Line):
            dashes = ' stroke-dasharray="6 4"' if mark.dashed else ""
            path = _path(places)
            parts.append(f'<path d="{path}" stroke="{mark.color}" stroke-width="1.8" fill="none"{dashes}/>')
            if not mark.dots:
                return parts
        radius = 3.0 if isinstance(mark, Line) else mark.radius
        for place in places:
            if place is not None:
                at, high, i = place
                words = escaped(self._words(mark, i))
                parts.append(
                    f'<circle cx="{at:.1f}" cy="{high:.1f}" r="{radius:g}" fill="{mark.color}" '
                    f'fill-opacity=".75"><title>{words}</title></circle>'
                )
        return parts

    def _words(self, mark: Line | Dots, i: int) -> str:
        if isinstance(mark, Dots) and mark.notes:
            return mark.notes[i]
        return f"{mark.name}: {self.x} {shown(mark.x[i])}, {self.y} {shown(mark.y[i])}"


def shown(value: float) -> str:
    """A value for a reader, with up to six digits."""
    return f"{value:.6g}" if math.isfinite(value) else str(value)


def _path(places: Sequence[tuple[float, float, int] | None]) -> str:
    """SVG commands for the points, with a new beginning after each gap."""
    commands, pen = [], "M"
    for place in places:
        if place is None:
            pen = "M"
        else:
            commands.append(f"{pen}{place[0]:.1f} {place[1]:.1f}")
            pen = "L"
    return "".join(commands)


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


def _legend(marks: Sequence[Line | Dots | Level], rows: Sequence[Sequence[str]]) -> list[str]:
    looks = {mark.name: mark for mark in marks}
    parts = []
    for number, row in enumerate(rows):
        x, y = LEFT, TOP + 18.0 * number
        for name in row:
            mark = looks[name]
            if isinstance(mark, Dots):
                parts.append(f'<circle cx="{x + 11:.1f}" cy="{y:.1f}" r="3.5" fill="{mark.color}"/>')
            else:
                dashed = isinstance(mark, Level) or mark.dashed
                dashes = ' stroke-dasharray="5 3"' if dashed else ""
                parts.append(
                    f'<path d="M{x:.1f} {y:.1f}h22" stroke="{mark.color}" stroke-width="2"{dashes} fill="none"/>'
                )
            parts.append(f'<text x="{x + 28:.1f}" y="{y + 4:.1f}">{escaped(name)}</text>')
            x += 40.0 + 7.0 * len(name)
    return parts
