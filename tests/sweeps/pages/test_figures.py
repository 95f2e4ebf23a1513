"""The values in the charts of the report are those of the trials and metrics."""

import math
import re
from dataclasses import replace
from xml.etree import ElementTree as ET

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sweeps.pages import figures, held_out
from sweeps.pages.chart import Axis, Line, Point, axis
from sweeps.pages.matplotlib_figures import draw, new_figure
from sweeps.pages.svg import svg
from sweeps.results.importance import importances
from sweeps.search.plan import Plan
from sweeps.search.record import TrialRecord
from tests.builders import baseline, compared, finalist, make_sweep, ranked, trial
from trainables import metrics as M
from trainables.files.rows import Rows

SVG = "{http://www.w3.org/2000/svg}"


def axes(root: ET.Element) -> tuple[Axis, Axis]:
    found = []
    for name in ("data-x", "data-y"):
        low, high, kind = root.attrib[name].split()
        found.append(Axis("", float(low), float(high), kind == "log"))
    return found[0], found[1]


def value(scale: Axis, share: float) -> float:
    if scale.log:
        return scale.low * (scale.high / scale.low) ** share
    return scale.low + share * (scale.high - scale.low)


def read_back(
    root: ET.Element, across: float, down: float, left: int = 58, height: int = 300
) -> tuple[float, float]:
    """The values at a position in a chart, read from its axes."""
    x, y = axes(root)
    width = int(root.attrib["width"])
    shares = (across - left) / (width - left - 14), 1 - (down - 12) / (height - 12 - 44)
    return value(x, shares[0]), value(y, shares[1])


def marks_of(root: ET.Element, height: int = 300) -> list[tuple[float, float, str]]:
    found = []
    for path in root.iter(f"{SVG}path"):
        title = path.find(f"{SVG}title")
        if title is not None:
            start = re.match(r"M([\d.]+) ([\d.]+)", path.attrib["d"])
            assert start is not None
            place = read_back(root, *map(float, start.groups()), height=height)
            found.append((*place, str(title.text)))
    return found


FIRST = trial(1, val_ece=0.011, val_error=0.12)
RECORDS = [
    baseline(val_ece=0.05, val_error=0.117),
    FIRST,
    trial(2, val_ece=0.3, val_error=0.11, state="stopped"),
    trial(3, val_ece=0.0004, val_error=0.9),  # far beyond the guard
    trial(4, val_ece=0.04, val_error=0.14, role="published"),
    finalist(5, FIRST, 1, val_ece=0.02, val_error=0.118),
    trial(6, state="failed", history=[]),
]


def test_each_mark_lies_where_its_trial_does() -> None:
    root = ET.fromstring(svg(figures.error_against_objective(ranked(RECORDS))))
    marks = marks_of(root)
    x, y = axes(root)
    for number in (0, 1, 2, 4, 5):
        record = RECORDS[number]
        (mark,) = [m for m in marks if m[2].startswith(f"{number}: ")]
        assert mark[0] == pytest.approx(record.outcome["val_error"], abs=(x.high - x.low) / 400)
        assert math.log(mark[1] / record.outcome["val_ece"]) == pytest.approx(
            0, abs=math.log(y.high / y.low) / 240
        )
        assert f"ECE {record.outcome['val_ece']:.4f}".replace(" 0", " ") in mark[2]
    assert not any(mark[2].startswith(("3: ", "6: ")) for mark in marks)
    assert "1 further right" in "".join(root.itertext())
    assert {m[2][:11] for m in marks if m[2].startswith("selected")} == {
        "selected: 1",
        "selected: 5",
    }


def test_matplotlib_prints_the_same_chart() -> None:
    chart = figures.error_against_objective(ranked(RECORDS))
    figure = new_figure((7, 4))
    draw(figure, chart)
    (drawn,) = figure.axes
    places = [tuple(line.get_xydata()[0]) for line in drawn.lines if len(line.get_xdata()) == 1]
    assert places == [(part.x, part.y) for part in chart.parts if isinstance(part, Point)]
    assert (drawn.get_xlim(), drawn.get_ylim()) == (
        (chart.x.low, chart.x.high),
        (chart.y.low, chart.y.high),
    )
    assert (drawn.get_xscale(), drawn.get_yscale()) == ("linear", "log")
    names = [text.get_text() for text in figure.legends[0].get_texts()]
    assert names == [name for _, name in chart.legend]


def test_the_pareto_front_is_beaten_by_none() -> None:
    finished = [r.outcome for r in RECORDS if r.state == "finished"]
    front = figures.pareto_front(ranked(RECORDS))
    assert front == [(0.117, 0.05), (0.118, 0.02), (0.12, 0.011), (0.9, 0.0004)]
    for error, ece in front:
        assert not any(o["val_error"] <= error and o["val_ece"] < ece for o in finished)


def test_curves_have_every_epoch_and_what_was_saved_is_counted() -> None:
    sweep = make_sweep(training={"epochs": 9})
    values = [0.5, 0.4, 0.2]
    history = [{"epoch": i + 1, "val_nll": v} for i, v in enumerate(values)]
    records = [trial(0, history=history, state="stopped"), trial(1, epochs=9, val_nll=0.1)]
    root = ET.fromstring(svg(figures.curves(records, Plan(sweep))))
    line = next(p for p in root.iter(f"{SVG}polyline") if len(p.attrib["points"].split()) == 3)
    read = [read_back(root, *map(float, p.split(","))) for p in line.attrib["points"].split()]
    assert [epoch for epoch, _ in read] == pytest.approx([1, 2, 3], abs=0.02)
    assert [nll for _, nll in read] == pytest.approx(values, rel=0.02)
    said = figures.saved_by_stopping(records, sweep.training.epochs)
    assert said == "1 of 2 trials were stopped early, which saved 6 of 18 epochs (33%)."
    assert (
        figures.saved_by_stopping(records[1:], sweep.training.epochs)
        == "No trial was stopped early."
    )


def test_slices_show_finished_trials_of_the_search_alone() -> None:
    records = [
        trial(n, "mbls", {"margin": float(n), "lam": 0.1 * n, "kind": "a"}, val_ece=0.01 * n)
        for n in range(1, 8)
    ]
    records[3].role = "published"
    records += [trial(9, "mbls", {"margin": 9.0, "lam": 1.0, "kind": "a"}, state="stopped")]
    groups = figures.searched(records, "val_ece")
    assert [(g.loss, g.name, len(g.trials)) for g in groups] == [
        ("mbls", "margin", 7),
        ("mbls", "lam", 7),
    ]
    drawn = [ET.fromstring(svg(figures.one_slice(group, "val_ece"))) for group in groups]
    titles = [t.text for t in drawn[0].iter(f"{SVG}title")]
    assert len(titles) == 1 + 7
    for margin, ece, label in marks_of(drawn[0], 200):
        if not label.startswith("4:"):  # the path of a diamond starts at the top
            number = int(label.partition(":")[0])
            assert (margin, ece) == (pytest.approx(number, 0.05), pytest.approx(0.01 * number, 0.1))
    (chart,) = figures.maps(groups, "val_ece")
    drawn_map = svg(chart)
    circles = [m for m in marks_of(ET.fromstring(drawn_map), 220) if not m[2].startswith("4:")]
    for margin, lam, label in circles:
        number = int(label.partition(":")[0])
        assert (margin, lam) == (pytest.approx(number, rel=0.05), pytest.approx(0.1 * number, 0.05))
    shades = dict(
        reversed(each) for each in re.findall(r'fill="#(\w+)"[^>]*><title>(\d)', drawn_map)
    )
    light = [sum(bytes.fromhex(shades[str(n)])) for n in range(1, 8)]
    assert light == sorted(light) and light[0] < light[-1]  # better trials are darker
    assert figures.searched(records[:1], "val_ece") == []


def test_importance_needs_trials_enough_and_finds_what_matters() -> None:
    sweep = make_sweep(losses=["mbls", "focal"])
    draw = torch.Generator().manual_seed(0)

    def searched(count: int) -> list[TrialRecord]:
        values = torch.rand(count, 2, generator=draw, dtype=torch.float64).tolist()
        return [
            trial(n, "mbls", {"margin": 1 + 19 * m, "lam": 0.01 + 0.9 * lam}, val_ece=m)
            for n, (m, lam) in enumerate(values)
        ]

    assert importances(searched(19), Plan(sweep)) == {}
    found = importances([*searched(80), *(trial(100 + n) for n in range(30))], Plan(sweep))
    assert list(found) == ["mbls"]
    assert list(found["mbls"]) == ["margin", "lam"]
    assert found["mbls"]["margin"] > 0.8
    assert sum(found["mbls"].values()) == pytest.approx(1)


def test_intervals_of_differences_share_a_scale_by_metric() -> None:
    assert figures.interval_bars([]) == []
    narrow = compared("focal", "cross_entropy", "ece", -0.01, -0.03, 0.01, "not supported", 2)
    wide = replace(narrow, low=-0.3, high=0.1)
    nll = replace(narrow, metric="nll", low=-3, high=1)
    bars = figures.interval_bars([narrow, wide, nll])
    ends = [re.findall(r"M([\d.]+) 9.0H([\d.]+)", bar)[0] for bar in bars]
    lengths = [float(right) - float(left) for left, right in ends]
    assert lengths[1] == pytest.approx(10 * lengths[0], rel=0.02)
    assert lengths[2] == pytest.approx(lengths[1])
    assert all(0 <= float(end) <= 180 for pair in ends for end in pair)
    assert "focal less cross_entropy: -0.0100 [-0.0300, +0.0100]" in bars[0]


@pytest.fixture
def predictions() -> tuple[torch.Tensor, torch.Tensor]:
    draw = torch.Generator().manual_seed(0)
    logits = 2 * torch.randn(400, 5, generator=draw, dtype=torch.float64)
    labels = torch.multinomial(logits.softmax(1), 1, generator=draw).flatten()
    return (1.5 * logits).softmax(1), labels


def test_what_is_reported_of_the_test_split_agrees_with_the_metrics(
    predictions: tuple[torch.Tensor, torch.Tensor],
) -> None:
    probs, labels = predictions
    names = ["a", "b", "c", "d", "<e>"]
    classes = held_out.by_class(probs, labels, names)
    right = sum(c.count * c.right for c in classes) / 400
    assert right == pytest.approx(M.accuracy(probs, labels))
    sure = sum(c.count * c.confidence for c in classes) / 400
    assert sure == pytest.approx(float(probs.amax(1).mean()))
    counts = held_out.confusion(probs, labels)
    assert sum(counts[k][k] for k in range(5)) / 400 == pytest.approx(right)
    assert [sum(row) for row in counts] == labels.bincount(minlength=5).tolist()
    pairs = held_out.confused_pairs(counts, names)
    assert sum(count for _, _, count in pairs) <= 400 * (1 - right) + 0.5
    worst = held_out.mistakes(Rows(probs.log().numpy(), labels.numpy()), names)
    assert [m.confidence for m in worst] == sorted((m.confidence for m in worst), reverse=True)
    for each in worst:
        assert names[int(labels[each.row])] == each.true != each.said
        assert each.confidence == pytest.approx(float(probs[each.row].max()))
    assert "&lt;e&gt;" in svg(held_out.class_chart(classes))


def test_the_risk_coverage_curve_is_that_of_aurc(
    predictions: tuple[torch.Tensor, torch.Tensor],
) -> None:
    risks = M.risk_coverage(*predictions)
    assert float(risks.mean()) == M.aurc(*predictions)
    assert float(risks[-1]) == pytest.approx(1 - M.accuracy(*predictions))
    root = ET.fromstring(svg(held_out.coverage_chart({"ours": predictions})))
    (line,) = root.iter(f"{SVG}polyline")
    read = [read_back(root, *map(float, p.split(","))) for p in line.attrib["points"].split()]
    assert len(read) == 400
    error = sum(risk for _, risk in read) / len(read)
    assert error == pytest.approx(float(risks.mean()), abs=0.002)


@given(st.lists(st.floats(-1e6, 1e6) | st.just(math.nan), max_size=5), st.booleans())
def test_an_axis_holds_all_values_and_has_ticks(values: list[float], log: bool) -> None:
    made = axis("x", values, log=log)
    assert made.low < made.high
    assert all(0 <= made.place(v) <= 1 for v in values if math.isfinite(v))
    assert 1 <= len(made.ticks()) <= 60
    span = made.high - made.low
    assert all(-1e-6 <= (tick - made.low) / span <= 1 + 1e-6 for tick in made.ticks())


def test_the_trade_off_has_the_mean_of_the_seeds_and_a_standard_deviation_to_each_side() -> None:
    first = baseline(val_ece=0.02)
    again = [
        finalist(1 + i, first, i, val_ece=0.02, test_ece=0.01 * i, test_auroc=0.9 + 0.02 * i)
        for i in (1, 2, 3)
    ]
    chart = figures.trade_off(ranked([first, *again]), "auroc")
    (point,) = [each for each in chart.parts if isinstance(each, Point)]
    assert (point.x, point.y) == pytest.approx((0.02, 0.94))
    across, up = [each.places for each in chart.parts if isinstance(each, Line)]
    assert across == (pytest.approx((0.01, 0.94)), pytest.approx((0.03, 0.94)))
    assert up == (pytest.approx((0.02, 0.92)), pytest.approx((0.02, 0.96)))


def test_multipliers_are_drawn_by_epoch_if_a_loss_has_any() -> None:
    first = baseline(val_ece=0.02)
    assert figures.multipliers(ranked([first])) is None
    usual = trial(1, "cals_alm", {}, val_ece=0.02).history[0]
    history = [
        {**usual, "epoch": e, **{f"multiplier_{n}": 0.1 * e for n in ("min", "mean", "max")}}
        for e in (1, 2)
    ]
    chart = figures.multipliers(ranked([first, trial(1, "cals_alm", {}, history=history)]))
    assert chart is not None
    lines = [each.places for each in chart.parts if isinstance(each, Line)]
    assert lines == [((1, 0.1), (2, 0.2))] * 3
