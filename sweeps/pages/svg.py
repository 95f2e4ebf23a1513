"""Charts as SVG text: a few milliseconds each; they need no scripts and suit any colour scheme."""

from __future__ import annotations

from html import escape

from sweeps.pages.chart import (
    DIM,
    GREY,
    Band,
    Chart,
    Line,
    Mark,
    Note,
    Part,
    Point,
    Row,
    Stroke,
    Vertical,
)

_INK, _LINE = "var(--ink,#222)", "var(--line,#ddd)"
_STYLE = f"text{{font:12px system-ui,sans-serif;fill:{_INK}}}.dim{{fill:{DIM}}}"
_RIGHT, _TOP, _BOTTOM = 14, 12, 44
_LEGEND_ROW = 18
_LETTER = 7.2  # pixels, approximate width of a letter in the widest common fonts
_SHAPES = {
    "circle": "M{x} {y}m-{r} 0a{r} {r} 0 1 0 {d} 0a{r} {r} 0 1 0 -{d} 0",
    "square": "M{x} {y}m-{r} -{r}h{d}v{d}h-{d}z",
    "triangle": "M{x} {y}m0 -{r}l{r} {d}h-{d}z",
    "diamond": "M{x} {y}m0 -{r}l{r} {r}l-{r} {r}l-{r} -{r}z",
}


def svg(chart: Chart) -> str:
    """The whole chart. Its attributes contain the ends of its axes, for programs."""
    rows = _legend_rows(chart)
    height = chart.height + _LEGEND_ROW * len(rows)
    legend = "".join(
        f'<g transform="translate({left},{chart.height + 12 + _LEGEND_ROW * i})">{sign}'
        f'<text x="11">{escape(text)}</text></g>'
        for i, row in enumerate(rows)
        for left, sign, text in row
    )
    axes = " ".join(
        f'data-{name}="{a.low!r} {a.high!r} {"log" if a.log else "linear"}"'
        for name, a in (("x", chart.x), ("y", chart.y))
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {chart.width} {height}" '
        f'width="{chart.width}" height="{height}" role="img" {axes}>'
        f"<title>{escape(chart.title)}</title><style>{_STYLE}</style>"
        f"{_frame(chart)}{''.join(_part(chart, part) for part in chart.parts)}{legend}</svg>"
    )


def _part(chart: Chart, part: Part) -> str:
    match part:
        case Point(x, y, mark, tip):
            return f"{_path(mark, *_at(chart, x, y))[:-2]}><title>{escape(tip)}</title></path>"
        case Line(places, stroke, tip):
            points = " ".join("{},{}".format(*_at(chart, *place)) for place in places)
            title = f"<title>{escape(tip)}</title>" if tip else ""
            return (
                f'<polyline points="{points}" fill="none" stroke="{stroke.colour}" '
                f'stroke-width="{stroke.width:g}"{_dashes(stroke.dash)}>{title}</polyline>'
            )
        case Band(low, high):
            left, right = (_at(chart, x, 0)[0] for x in (low, high))
            return (
                f'<rect x="{left}" y="{_TOP}" width="{round(right - left, 1)}" '
                f'height="{chart.height - _TOP - _BOTTOM}" fill="{GREY}" fill-opacity=".13"/>'
            )
        case Vertical(x, label, dash):
            return _vertical(chart, _at(chart, x, 0)[0], label, dash)
        case Row(y, text):
            most = int((chart.left - 8) / _LETTER)
            shown = text if len(text) <= most else f"{text[: most - 1]}…"
            down = _at(chart, chart.x.low, y)[1]
            return (
                f'<text x="{chart.left - 6}" y="{down + 4}" text-anchor="end">'
                f"{escape(shown)}</text>"
            )
        case Note(text):
            return (
                f'<text class="dim" x="{chart.width - _RIGHT - 4}" y="{_TOP + 12}" '
                f'text-anchor="end">{escape(text)}</text>'
            )


def _vertical(chart: Chart, place: float, label: str, dash: str) -> str:
    drawn = (
        f'<line x1="{place}" x2="{place}" y1="{_TOP}" y2="{chart.height - _BOTTOM}" '
        f'stroke="{DIM}"{_dashes(dash)}/>'
    )
    if not label:
        return drawn
    right = place > chart.width - 90
    return (
        f'{drawn}<text class="dim" x="{place + (-4 if right else 4)}" y="{_TOP + 12}" '
        f'text-anchor="{"end" if right else "start"}">{escape(label)}</text>'
    )


def _dashes(dash: str) -> str:
    return f' stroke-dasharray="{dash}"' if dash else ""


def _at(chart: Chart, x: float, y: float) -> tuple[float, float]:
    across = chart.left + chart.x.place(x) * (chart.width - chart.left - _RIGHT)
    down = _TOP + (1 - chart.y.place(y)) * (chart.height - _TOP - _BOTTOM)
    return round(across, 1), round(down, 1)


def _frame(chart: Chart) -> str:
    right, bottom = chart.width - _RIGHT, chart.height - _BOTTOM
    parts = []
    for tick in chart.x.ticks():
        place = _at(chart, tick, chart.y.low)[0]
        parts.append(
            f'<line x1="{place}" x2="{place}" y1="{_TOP}" y2="{bottom}" stroke="{_LINE}"/>'
            f'<text x="{place}" y="{bottom + 16}" text-anchor="middle">{tick:.4g}</text>'
        )
    for tick in chart.y.ticks():
        place = _at(chart, chart.x.low, tick)[1]
        parts.append(
            f'<line x1="{chart.left}" x2="{right}" y1="{place}" y2="{place}" stroke="{_LINE}"/>'
            f'<text x="{chart.left - 6}" y="{place + 4}" text-anchor="end">{tick:.4g}</text>'
        )
    middle = (_TOP + bottom) / 2
    return (
        f"{''.join(parts)}"
        f'<path d="M{chart.left} {_TOP}V{bottom}H{right}" fill="none" stroke="{DIM}"/>'
        f'<text class="dim" x="{(chart.left + right) / 2}" y="{bottom + 34}" '
        f'text-anchor="middle">{escape(chart.x.label)}</text>'
        f'<text class="dim" transform="translate(12,{middle}) rotate(-90)" '
        f'text-anchor="middle">{escape(chart.y.label)}</text>'
    )


def _legend_rows(chart: Chart) -> list[list[tuple[float, str, str]]]:
    rows: list[list[tuple[float, str, str]]] = []
    left = chart.width
    for look, text in chart.legend:
        wide = 30 + _LETTER * len(text)
        if left + wide > chart.width or not rows:
            rows.append([])
            left = 14
        rows[-1].append((left, _sign(look), text))
        left += round(wide)
    return rows


def _sign(look: Mark | Stroke) -> str:
    if isinstance(look, Mark):
        return _path(look, 0, -4)
    return f'<path d="M-6 -4h12" stroke="{look.colour}" stroke-width="2"{_dashes(look.dash)}/>'


def _path(mark: Mark, x: float, y: float) -> str:
    r = mark.size
    shape = _SHAPES[mark.shape].format(x=x, y=y, r=f"{r:g}", d=f"{2 * r:g}")
    fill = "none" if mark.hollow else mark.colour
    return f'<path d="{shape}" fill="{fill}" stroke="{mark.colour}" stroke-width="1.2"/>'
