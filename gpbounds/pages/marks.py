"""What a chart shows: lines, dots, whiskers, levels, bars and ranges; every mark shows its values when pointed at."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

from gpbounds.pages.axis import Axis
from gpbounds.pages.html import escaped


@dataclass(frozen=True)
class Names:
    """What the two axes show."""

    x: str
    y: str


class Mark(ABC):
    """Something with a name for the legend, drawn over two axes."""

    name: str
    color: str

    @abstractmethod
    def extent(self) -> tuple[Sequence[float], Sequence[float]]:
        """Values that the horizontal and the vertical axis should hold."""

    @abstractmethod
    def drawn(self, across: Axis, up: Axis, names: Names) -> list[str]:
        """SVG elements."""

    @abstractmethod
    def sample(self, x: float, y: float) -> str:
        """A sample 22 pixels wide for the legend."""


@dataclass(frozen=True)
class Line(Mark):
    """Values joined by a line, each with a dot unless ``dots`` is False; values that are not finite interrupt it."""

    name: str
    x: Sequence[float]
    y: Sequence[float]
    color: str
    dashed: bool = False
    dots: bool = True

    def extent(self) -> tuple[Sequence[float], Sequence[float]]:
        return self.x, self.y

    def drawn(self, across: Axis, up: Axis, names: Names) -> list[str]:
        places = _places(self.x, self.y, across, up)
        dashes = ' stroke-dasharray="6 4"' if self.dashed else ""
        line = f'<path d="{_path(places)}" stroke="{self.color}" stroke-width="1.8" fill="none"{dashes}/>'
        if not self.dots:
            return [line]
        words = [_in_words(self.name, names, x, y) for x, y in zip(self.x, self.y, strict=True)]
        return [line, *_circles(places, words, 3.0, self.color)]

    def sample(self, x: float, y: float) -> str:
        dashes = ' stroke-dasharray="5 3"' if self.dashed else ""
        return f'<path d="M{x:.1f} {y:.1f}h22" stroke="{self.color}" stroke-width="2"{dashes} fill="none"/>'


@dataclass(frozen=True)
class Dots(Mark):
    """Single dots; ``notes`` says what each of them is."""

    name: str
    x: Sequence[float]
    y: Sequence[float]
    color: str
    radius: float = 3.0
    notes: Sequence[str] = ()

    def extent(self) -> tuple[Sequence[float], Sequence[float]]:
        return self.x, self.y

    def drawn(self, across: Axis, up: Axis, names: Names) -> list[str]:
        words = self.notes or [_in_words(self.name, names, x, y) for x, y in zip(self.x, self.y, strict=True)]
        return _circles(_places(self.x, self.y, across, up), words, self.radius, self.color)

    def sample(self, x: float, y: float) -> str:
        return f'<circle cx="{x + 11:.1f}" cy="{y:.1f}" r="3.5" fill="{self.color}"/>'


@dataclass(frozen=True)
class Spans(Mark):
    """From ``low`` to ``high`` at each ``x``."""

    name: str
    x: Sequence[float]
    low: Sequence[float]
    high: Sequence[float]
    color: str

    def extent(self) -> tuple[Sequence[float], Sequence[float]]:
        return [*self.x, *self.x], [*self.low, *self.high]


@dataclass(frozen=True)
class Whiskers(Spans):
    """Vertical ranges with a short bar at each end; those that are not finite are left out."""

    def drawn(self, across: Axis, up: Axis, names: Names) -> list[str]:
        parts = []
        for x, low, high in zip(self.x, self.low, self.high, strict=True):
            if not (across.holds(x) and up.holds(low) and up.holds(high)):
                continue
            at, bottom, top = across.place(x), up.place(low), up.place(high)
            path = f"M{at:.1f} {bottom:.1f}V{top:.1f}M{at - 4:.1f} {bottom:.1f}h8M{at - 4:.1f} {top:.1f}h8"
            words = escaped(f"{self.name}: {names.x} {shown(x)}, {names.y} {shown(low)} to {shown(high)}")
            parts.append(
                f'<path d="{path}" stroke="{self.color}" stroke-width="1.4" fill="none"><title>{words}</title></path>'
            )
        return parts

    def sample(self, x: float, y: float) -> str:
        return (
            f'<path d="M{x + 11:.1f} {y - 6:.1f}v12M{x + 7:.1f} {y - 6:.1f}h8M{x + 7:.1f} {y + 6:.1f}h8" '
            f'stroke="{self.color}" stroke-width="1.4" fill="none"/>'
        )


@dataclass(frozen=True)
class Level(Mark):
    """A horizontal line across the chart, or a vertical one."""

    name: str
    value: float
    color: str
    vertical: bool = False

    def extent(self) -> tuple[Sequence[float], Sequence[float]]:
        return ([self.value], []) if self.vertical else ([], [self.value])

    def drawn(self, across: Axis, up: Axis, names: Names) -> list[str]:
        axis = across if self.vertical else up
        if not axis.holds(self.value):
            return []
        at = axis.place(self.value)
        path = (
            f"M{at:.1f} {up.start:.1f}V{up.end:.1f}"
            if self.vertical
            else f"M{across.start:.1f} {at:.1f}H{across.end:.1f}"
        )
        words = escaped(f"{self.name}: {shown(self.value)}")
        look = f'stroke="{self.color}" stroke-dasharray="5 4" fill="none"'
        return [f'<path d="{path}" {look}><title>{words}</title></path>']

    def sample(self, x: float, y: float) -> str:
        return (
            f'<path d="M{x:.1f} {y:.1f}h22" stroke="{self.color}" stroke-width="2" stroke-dasharray="5 3" fill="none"/>'
        )


@dataclass(frozen=True)
class Bars(Mark):
    """Bars from 0 over intervals between consecutive ``edges``."""

    name: str
    edges: Sequence[float]
    heights: Sequence[float]
    color: str

    def extent(self) -> tuple[Sequence[float], Sequence[float]]:
        return self.edges, [0.0, *self.heights]

    def drawn(self, across: Axis, up: Axis, names: Names) -> list[str]:
        parts, base = [], up.place(max(up.low, 0.0))
        for low, high, height in zip(self.edges[:-1], self.edges[1:], self.heights, strict=True):
            left, right, top = across.place(low) + 1.0, across.place(high) - 1.0, up.place(height)
            words = escaped(f"{self.name}: {names.x} {shown(low)} to {shown(high)}, {names.y} {shown(height)}")
            parts.append(
                f'<rect x="{left:.1f}" y="{top:.1f}" width="{right - left:.1f}" height="{max(base - top, 0.0):.1f}" '
                f'fill="{self.color}" fill-opacity=".75"><title>{words}</title></rect>'
            )
        return parts

    def sample(self, x: float, y: float) -> str:
        return f'<rect x="{x:.1f}" y="{y - 5:.1f}" width="22" height="10" fill="{self.color}" fill-opacity=".75"/>'


@dataclass(frozen=True)
class Band(Spans):
    """The area between two lines; values that are not finite are left out."""

    def drawn(self, across: Axis, up: Axis, names: Names) -> list[str]:
        kept = [
            (across.place(x), _within(up, low), _within(up, high))
            for x, low, high in zip(self.x, self.low, self.high, strict=True)
            if across.holds(x) and math.isfinite(low) and up.holds(high)
        ]
        if len(kept) < 2:
            return []
        there = "L".join(f"{at:.1f} {high:.1f}" for at, _, high in kept)
        back = "L".join(f"{at:.1f} {low:.1f}" for at, low, _ in reversed(kept))
        return [f'<path d="M{there}L{back}Z" fill="{self.color}" fill-opacity=".18" stroke="none"/>']

    def sample(self, x: float, y: float) -> str:
        return f'<rect x="{x:.1f}" y="{y - 5:.1f}" width="22" height="10" fill="{self.color}" fill-opacity=".25"/>'


def _in_words(name: str, names: Names, x: float, y: float) -> str:
    """A point of a mark as text."""
    return f"{name}: {names.x} {shown(x)}, {names.y} {shown(y)}"


def shown(value: float) -> str:
    """A value for a reader, with up to six digits."""
    return f"{value:.6g}" if math.isfinite(value) else str(value)


Place = tuple[float, float] | None


def _within(axis: Axis, value: float) -> float:
    """The pixel of a value, or of the end of the axis below it."""
    return axis.place(value) if axis.holds(value) else axis.start


def _places(xs: Sequence[float], ys: Sequence[float], across: Axis, up: Axis) -> list[Place]:
    """Pixels of the points; None for those that the axes do not hold."""
    return [
        (across.place(x), up.place(y)) if across.holds(x) and up.holds(y) else None for x, y in zip(xs, ys, strict=True)
    ]


def _circles(places: Sequence[Place], words: Sequence[str], radius: float, color: str) -> list[str]:
    return [
        f'<circle cx="{place[0]:.1f}" cy="{place[1]:.1f}" r="{radius:g}" fill="{color}" fill-opacity=".75">'
        f"<title>{escaped(text)}</title></circle>"
        for place, text in zip(places, words, strict=True)
        if place is not None
    ]


def _path(places: Sequence[Place]) -> str:
    """SVG commands for the points, with a new beginning after each gap."""
    commands, pen = [], "M"
    for place in places:
        if place is None:
            pen = "M"
        else:
            commands.append(f"{pen}{place[0]:.1f} {place[1]:.1f}")
            pen = "L"
    return "".join(commands)
