"""Charts, described: an SVG text and Matplotlib print them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

# Okabe and Ito's palette for the colour-blind; the eighth is the text colour.
COLOURS = (
    *("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9"),
    "var(--ink,#222)",
    "#999933",
)
GREY: Final = "#8a8f98"
DIM: Final = "var(--dim,#667085)"
SHAPES: Final = ("circle", "square", "triangle", "diamond")


@dataclass(frozen=True)
class Mark:
    """The appearance of points of one kind: a colour, and a shape for the colour-blind."""

    colour: str
    shape: str = "circle"
    hollow: bool = False
    size: float = 4.0


def marks(names: Sequence[str]) -> dict[str, Mark]:
    """A mark for each name, all different up to 32 of them."""
    return {
        name: Mark(COLOURS[i % len(COLOURS)], SHAPES[i // len(COLOURS) % len(SHAPES)])
        for i, name in enumerate(names)
    }


@dataclass(frozen=True)
class Axis:
    """One axis of a chart; `silent` if it has no ticks. On a logarithmic one, `low` is above 0."""

    label: str
    low: float
    high: float
    log: bool = False
    silent: bool = False

    def place(self, value: float) -> float:
        """The position of a value, from 0 to 1; values outside are placed on the border."""
        if self.log:
            value = max(value, self.low)
            share = math.log(value / self.low) / math.log(self.high / self.low)
        else:
            share = (value - self.low) / (self.high - self.low)
        return min(1.0, max(0.0, share))

    def within(self, value: float) -> float:
        """The value on the axis that is nearest."""
        return min(self.high, max(self.low, value))

    def ticks(self) -> list[float]:
        if self.silent:
            return []
        if self.log and self.high / self.low > 4:
            first, last = math.floor(math.log10(self.low)), math.ceil(math.log10(self.high))
            steps = (1, 2, 5) if last - first <= 3 else (1,)
            powers = range(first, last + 1, 1 + (last - first) // 8)
            found = [step * 10.0**power for power in powers for step in steps]
        else:
            step = _round_step((self.high - self.low) / 5)
            start = math.ceil(self.low / step - 1e-9)
            found = [step * i for i in range(start, start + 12)]
        slack = 1e-9 * (self.high - self.low)
        return [tick for tick in found if self.low - slack <= tick <= self.high + slack]


def _round_step(least: float) -> float:
    power = 10.0 ** math.floor(math.log10(least))
    return next(step * power for step in (1, 2, 5, 10) if step * power >= least * (1 - 1e-9))


def axis(label: str, values: Sequence[float], *, log: bool = False) -> Axis:
    """An axis whose range contains all values; NaN is ignored.

    With `log` it is logarithmic if any value is above 0; values of 0 or less are on the border.
    """
    if not (known := [v for v in values if math.isfinite(v) and (v > 0 or not log)]):
        return Axis(label, 0.0, 1.0)
    low, high = min(known), max(known)
    if log:
        return Axis(label, low / 1.15, high * 1.15, log=True)
    room = 0.05 * (high - low) or abs(high) / 10 or 0.1
    return Axis(label, low - room, high + room)


@dataclass(frozen=True)
class Stroke:
    """The appearance of lines; `dash` has the lengths of dashes and gaps in pixels."""

    colour: str
    width: float = 1.5
    dash: str = ""


@dataclass(frozen=True)
class Point:
    """A mark; pages show its tip under the pointer."""

    x: float
    y: float
    mark: Mark
    tip: str


@dataclass(frozen=True)
class Line:
    """A line through places."""

    places: tuple[tuple[float, float], ...]
    stroke: Stroke
    tip: str


@dataclass(frozen=True)
class Band:
    """A shaded range of the horizontal axis."""

    low: float
    high: float


@dataclass(frozen=True)
class Vertical:
    """A vertical line with a label."""

    x: float
    label: str = ""
    dash: str = "4 3"


@dataclass(frozen=True)
class Row:
    """A label at the vertical axis."""

    y: float
    text: str


@dataclass(frozen=True)
class Note:
    """A remark in the upper right corner."""

    text: str


Part: TypeAlias = Point | Line | Band | Vertical | Row | Note


@dataclass(frozen=True)
class Chart:
    """A chart: what lies on its axes, in the order of drawing.

    Attributes:
        title: Description for screen readers.
        width: Width in pixels, at which text has its natural size.
        height: Height in pixels, without the legend.
        left: Space for the labels of the vertical axis.
        legend: Names of marks and lines.
    """

    title: str
    x: Axis
    y: Axis
    width: int = 480
    height: int = 300
    left: int = 58
    parts: list[Part] = field(default_factory=list)
    legend: list[tuple[Mark | Stroke, str]] = field(default_factory=list)

    def point(self, x: float, y: float, mark: Mark, tip: str) -> None:
        """A mark, if its place is finite."""
        if math.isfinite(x + y):
            self.parts.append(Point(x, y, mark, tip))

    def line(
        self,
        xs: Sequence[float],
        ys: Sequence[float],
        stroke: Stroke,
        tip: str = "",
    ) -> None:
        """A line through the places that are finite."""
        if known := [(x, y) for x, y in zip(xs, ys, strict=True) if math.isfinite(x + y)]:
            self.parts.append(Line(tuple(known), stroke, tip))

    def add(self, *parts: Part) -> None:
        self.parts.extend(parts)

    def name(self, look: Mark | Stroke, text: str) -> None:
        """Explain a look in the legend."""
        self.legend.append((look, text))
