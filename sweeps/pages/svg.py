"""Charts as SVG text: a few milliseconds each; they need no scripts and suit any colour scheme."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

# Okabe and Ito's palette for the colour-blind; the eighth is the text colour.
COLOURS = (
    *("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9"),
    "var(--ink,#222)",
    "#999933",
)
GREY = "#8a8f98"
_INK, _DIM, _LINE = "var(--ink,#222)", "var(--dim,#667085)", "var(--line,#ddd)"
_STYLE = f"text{{font:12px system-ui,sans-serif;fill:{_INK}}}.dim{{fill:{_DIM}}}"
_RIGHT, _TOP, _BOTTOM = 14, 12, 44
_LEGEND_ROW = 18
_LETTER = 7.2  # pixels, approximate width of a letter in the widest common fonts
_SHAPES = {
    "circle": "M{x} {y}m-{r} 0a{r} {r} 0 1 0 {d} 0a{r} {r} 0 1 0 -{d} 0",
    "square": "M{x} {y}m-{r} -{r}h{d}v{d}h-{d}z",
    "triangle": "M{x} {y}m0 -{r}l{r} {d}h-{d}z",
    "diamond": "M{x} {y}m0 -{r}l{r} {r}l-{r} {r}l-{r} -{r}z",
}


@dataclass(frozen=True)
class Mark:
    """The appearance of points of one kind: a colour, and a shape for the colour-blind."""

    colour: str
    shape: str = "circle"
    hollow: bool = False
    size: float = 4.0


def marks(names: Sequence[str]) -> dict[str, Mark]:
    """A mark for each name, all different up to 32 of them."""
    shapes = list(_SHAPES)
    return {
        name: Mark(COLOURS[i % len(COLOURS)], shapes[i // len(COLOURS) % len(shapes)])
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
    known = [v for v in values if math.isfinite(v) and (v > 0 or not log)]
    if not known:
        return Axis(label, 0.0, 1.0)
    low, high = min(known), max(known)
    if log:
        return Axis(label, low / 1.15, high * 1.15, log=True)
    room = 0.05 * (high - low) or abs(high) / 10 or 0.1
    return Axis(label, low - room, high + room)


@dataclass
class Chart:
    """A chart: draw into it, then call :meth:`svg`.

    Attributes:
        title: Description for screen readers.
        width: Width in pixels, at which text has its natural size.
        height: Height in pixels, without the legend.
        left: Space for the labels of the vertical axis.
    """

    title: str
    x: Axis
    y: Axis
    width: int = 480
    height: int = 300
    left: int = 58

    def __post_init__(self) -> None:
        self._parts: list[str] = []
        self._legend: list[tuple[str, str]] = []

    def points(
        self, xs: Sequence[float], ys: Sequence[float], mark: Mark, tips: Sequence[str]
    ) -> None:
        for x, y, tip in zip(xs, ys, tips, strict=True):
            if math.isfinite(x) and math.isfinite(y):
                path = _path(mark, *self._at(x, y))
                self._parts.append(f"{path[:-2]}><title>{escape(tip)}</title></path>")

    def line(
        self,
        xs: Sequence[float],
        ys: Sequence[float],
        colour: str,
        *,
        width: float = 1.5,
        dash: str = "",
        tip: str = "",
    ) -> None:
        known = [(x, y) for x, y in zip(xs, ys, strict=True) if math.isfinite(x + y)]
        if known:
            places = " ".join("{},{}".format(*self._at(x, y)) for x, y in known)
            dashes = f' stroke-dasharray="{dash}"' if dash else ""
            title = f"<title>{escape(tip)}</title>" if tip else ""
            self._parts.append(
                f'<polyline points="{places}" fill="none" stroke="{colour}" '
                f'stroke-width="{width:g}"{dashes}>{title}</polyline>'
            )

    def band(self, low: float, high: float, colour: str = GREY) -> None:
        left, right = (self._at(x, 0)[0] for x in (low, high))
        top, height = _TOP, self.height - _TOP - _BOTTOM
        self._parts.append(
            f'<rect x="{left}" y="{top}" width="{round(right - left, 1)}" height="{height}" '
            f'fill="{colour}" fill-opacity=".13"/>'
        )

    def vertical(self, x: float, label: str = "", dash: str = "4 3") -> None:
        place = self._at(x, 0)[0]
        self._parts.append(
            f'<line x1="{place}" x2="{place}" y1="{_TOP}" y2="{self.height - _BOTTOM}" '
            f'stroke="{_DIM}" stroke-dasharray="{dash}"/>'
        )
        if label:
            right = place > self.width - 90
            self._parts.append(
                f'<text class="dim" x="{place + (-4 if right else 4)}" y="{_TOP + 12}" '
                f'text-anchor="{"end" if right else "start"}">{escape(label)}</text>'
            )

    def name_row(self, y: float, text: str) -> None:
        """Write a label at the vertical axis, cut to fit."""
        most = int((self.left - 8) / _LETTER)
        shown = text if len(text) <= most else f"{text[: most - 1]}…"
        down = self._at(self.x.low, y)[1]
        self._parts.append(
            f'<text x="{self.left - 6}" y="{down + 4}" text-anchor="end">{escape(shown)}</text>'
        )

    def note(self, text: str) -> None:
        """A remark in the upper right corner."""
        self._parts.append(
            f'<text class="dim" x="{self.width - _RIGHT - 4}" y="{_TOP + 12}" '
            f'text-anchor="end">{escape(text)}</text>'
        )

    def name(self, mark: Mark, text: str) -> None:
        self._legend.append((_path(mark, 0, -4), text))

    def name_line(self, colour: str, text: str, dash: str = "") -> None:
        dashes = f' stroke-dasharray="{dash}"' if dash else ""
        self._legend.append(
            (f'<path d="M-6 -4h12" stroke="{colour}" stroke-width="2"{dashes}/>', text)
        )

    def svg(self) -> str:
        """The whole chart. Its attributes contain the ends of its axes, for programs."""
        rows = self._legend_rows()
        height = self.height + _LEGEND_ROW * len(rows)
        legend = "".join(
            f'<g transform="translate({left},{self.height + 12 + _LEGEND_ROW * i})">{sign}'
            f'<text x="11">{escape(text)}</text></g>'
            for i, row in enumerate(rows)
            for left, sign, text in row
        )
        axes = " ".join(
            f'data-{name}="{a.low!r} {a.high!r} {"log" if a.log else "linear"}"'
            for name, a in (("x", self.x), ("y", self.y))
        )
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width} {height}" '
            f'width="{self.width}" height="{height}" role="img" {axes}>'
            f"<title>{escape(self.title)}</title><style>{_STYLE}</style>"
            f"{self._frame()}{''.join(self._parts)}{legend}</svg>"
        )

    def _at(self, x: float, y: float) -> tuple[float, float]:
        across = self.left + self.x.place(x) * (self.width - self.left - _RIGHT)
        down = _TOP + (1 - self.y.place(y)) * (self.height - _TOP - _BOTTOM)
        return round(across, 1), round(down, 1)

    def _frame(self) -> str:
        right, bottom = self.width - _RIGHT, self.height - _BOTTOM
        parts = []
        for tick in self.x.ticks():
            place = self._at(tick, self.y.low)[0]
            parts.append(
                f'<line x1="{place}" x2="{place}" y1="{_TOP}" y2="{bottom}" stroke="{_LINE}"/>'
                f'<text x="{place}" y="{bottom + 16}" text-anchor="middle">{tick:.4g}</text>'
            )
        for tick in self.y.ticks():
            place = self._at(self.x.low, tick)[1]
            parts.append(
                f'<line x1="{self.left}" x2="{right}" y1="{place}" y2="{place}" stroke="{_LINE}"/>'
                f'<text x="{self.left - 6}" y="{place + 4}" text-anchor="end">{tick:.4g}</text>'
            )
        middle = (_TOP + bottom) / 2
        return (
            f"{''.join(parts)}"
            f'<path d="M{self.left} {_TOP}V{bottom}H{right}" fill="none" stroke="{_DIM}"/>'
            f'<text class="dim" x="{(self.left + right) / 2}" y="{bottom + 34}" '
            f'text-anchor="middle">{escape(self.x.label)}</text>'
            f'<text class="dim" transform="translate(12,{middle}) rotate(-90)" '
            f'text-anchor="middle">{escape(self.y.label)}</text>'
        )

    def _legend_rows(self) -> list[list[tuple[float, str, str]]]:
        rows: list[list[tuple[float, str, str]]] = []
        left = self.width
        for sign, text in self._legend:
            wide = 30 + _LETTER * len(text)
            if left + wide > self.width or not rows:
                rows.append([])
                left = 14
            rows[-1].append((left, sign, text))
            left += round(wide)
        return rows


def _path(mark: Mark, x: float, y: float) -> str:
    r = mark.size
    shape = _SHAPES[mark.shape].format(x=x, y=y, r=f"{r:g}", d=f"{2 * r:g}")
    fill = "none" if mark.hollow else mark.colour
    return f'<path d="{shape}" fill="{fill}" stroke="{mark.colour}" stroke-width="1.2"/>'
