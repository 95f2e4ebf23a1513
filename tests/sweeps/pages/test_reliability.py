"""The drawn reliability diagrams agree with the metrics."""

import re
from xml.etree import ElementTree as ET

import pytest
import torch
from scipy.stats import binomtest

from sweeps.pages.matplotlib_figures import draw_reliability, new_figure
from sweeps.pages.reliability import reliability_svg
from trainables import metrics as M
from trainables.files.rows import Rows

SIDE = 240
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture
def predictions() -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    honest = 1.5 * torch.randn(3000, 5, generator=generator, dtype=torch.float64)
    labels = torch.multinomial(torch.softmax(honest, 1), 1, generator=generator)[:, 0]
    return 2 * honest, labels


def test_what_is_drawn_is_what_the_metrics_say(
    predictions: tuple[torch.Tensor, torch.Tensor],
) -> None:
    logits, labels = predictions
    rows = Rows(logits.numpy(), labels.numpy())
    views = {"as trained": rows, "T = 2.00": rows.scaled(2.0)}
    drawing = ET.fromstring(reliability_svg(views, "focal <γ=3>"))
    assert drawing.find(f"{SVG}title").text == "focal <γ=3>"  # type: ignore[union-attr]
    for panel, scale in zip(drawing.findall(f"{SVG}g"), (1.0, 2.0), strict=True):
        probs = torch.softmax(logits / scale, dim=1)
        bins = M.reliability_bins(probs, labels)
        filled = bins.count > 0
        bars = [
            each for each in panel.iter(f"{SVG}rect") if "accuracy" in each.get("class", "").split()
        ]
        accuracy = bins.accuracy[filled].tolist()
        assert [1 - float(bar.get("y", 0)) / SIDE for bar in bars] == pytest.approx(
            accuracy, abs=1e-3
        )
        count = bins.count[filled].long().tolist()
        for path, samples, share, sure in zip(
            panel.findall(f"{SVG}path[@class='interval']"),
            count,
            accuracy,
            bins.confidence[filled].tolist(),
            strict=True,
        ):
            ends = re.match(r"M([\d.]+) ([\d.]+)V([\d.]+)", path.get("d", ""))
            assert ends is not None
            x, low, high = (float(each) / SIDE for each in ends.groups())
            exact = binomtest(round(share * samples), samples).proportion_ci()
            assert (x, 1 - low, 1 - high) == pytest.approx((sure, exact.low, exact.high), abs=1e-3)
        texts = [text.text for text in panel.iter(f"{SVG}text") if text.get("class") == "count"]
        assert texts == [str(each) for each in count]
        (heading,) = (t.text for t in panel.iter(f"{SVG}text") if "ECE" in (t.text or ""))
        shown = float(re.findall(r"ECE ([\d.]+)", heading or "")[0])
        assert shown == pytest.approx(M.expected_calibration_error(probs, labels), abs=1e-4)


def test_dependent_rows_have_no_error_bars(
    predictions: tuple[torch.Tensor, torch.Tensor],
) -> None:
    logits, labels = predictions
    rows = Rows(logits.numpy(), labels.numpy(), cluster_size=4)
    drawing = ET.fromstring(reliability_svg({"as trained": rows}, "pixels"))
    assert drawing.findall(f".//{SVG}rect[@class='accuracy']")
    assert not drawing.findall(f".//{SVG}path[@class='interval']")


def test_a_bin_of_fewer_than_five_samples_is_hollow() -> None:
    confidence = torch.tensor([0.95] * 5 + [0.75] * 4).double()
    logits = torch.stack([confidence, 1 - confidence], dim=1).log()
    labels = torch.zeros(9, dtype=torch.int64)
    rows = Rows(logits.numpy(), labels.numpy())
    drawing = ET.fromstring(reliability_svg({"few": rows}, "few"))
    bars = [each.get("class", "") for each in drawing.iter(f"{SVG}rect")]
    assert [each for each in bars if each.startswith("accuracy")] == ["accuracy small", "accuracy"]
    figure = new_figure((7, 4))
    draw_reliability(figure, {"few": rows})
    assert [bar.get_fill() for bar in figure.axes[0].patches] == [False, True]


def test_a_diagram_of_25_bins() -> None:
    confidence = (torch.arange(13, 25, dtype=torch.float64) + 0.5).repeat_interleave(5) / 25
    logits = torch.stack([confidence, 1 - confidence], dim=1).log().float()
    rows = Rows(logits.numpy(), torch.zeros(60, dtype=torch.int64).numpy())
    figure = new_figure((7, 4))
    draw_reliability(figure, {"as trained": rows}, 25)  # the papers on CALS draw so many
    assert len(figure.axes[0].patches) == 12
