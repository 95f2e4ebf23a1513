"""The reliability diagrams: what is drawn is what the metrics say."""

import re
from xml.etree import ElementTree as ET

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from sweeps.results.reliability import binomial_quantile, reliability_svg
from trainables import metrics as M

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
    drawing = ET.fromstring(reliability_svg(logits, labels, 2.0, "focal <γ=3>"))
    assert drawing.find(f"{SVG}title").text == "focal <γ=3>"  # type: ignore[union-attr]
    for panel, scale in zip(drawing.findall(f"{SVG}g"), (1.0, 2.0), strict=True):
        probs = torch.softmax(logits / scale, dim=1)
        bins = M.reliability_bins(probs, labels)
        filled = bins.count > 0
        drawn: dict[str, list[tuple[float, float]]] = {}
        for bar in panel.iter(f"{SVG}rect"):
            top, height = float(bar.get("y", 0)), float(bar.get("height", 0))
            ends = (1 - (top + height) / SIDE, 1 - top / SIDE)
            drawn.setdefault(bar.get("class", ""), []).append(ends)
        accuracy = bins.accuracy[filled].tolist()
        assert [high for _, high in drawn["accuracy"]] == pytest.approx(accuracy, abs=1e-3)
        count = bins.count[filled].long().numpy()
        confidence = bins.confidence[filled].numpy()
        for ends, quantile in zip(zip(*drawn["band"], strict=True), (0.025, 0.975), strict=True):
            expected = binom.ppf(quantile, count, confidence) / count
            assert list(ends) == pytest.approx(expected.tolist(), abs=1e-3)
        texts = [text.text for text in panel.iter(f"{SVG}text") if text.get("class") == "count"]
        assert texts == [str(each) for each in count]
        (heading,) = (t.text for t in panel.iter(f"{SVG}text") if "ECE" in (t.text or ""))
        shown = float(re.findall(r"ECE ([\d.]+)", heading or "")[0])
        assert shown == pytest.approx(M.expected_calibration_error(probs, labels), abs=1e-4)


def test_a_calibrated_model_is_inside_of_its_band(
    predictions: tuple[torch.Tensor, torch.Tensor],
) -> None:
    logits, labels = predictions
    drawing = ET.fromstring(reliability_svg(logits / 2, labels, 1.0, "calibrated"))
    panel = drawing.find(f"{SVG}g")
    assert panel is not None
    bars = {
        kind: [float(b.get("y", 0)) for b in panel.iter(f"{SVG}rect") if b.get("class") == kind]
        for kind in ("accuracy", "band")
    }
    heights = [
        float(b.get("height", 0)) for b in panel.iter(f"{SVG}rect") if b.get("class") == "band"
    ]
    inside = [
        top - 0.2 <= y <= top + height + 0.2
        for y, top, height in zip(bars["accuracy"], bars["band"], heights, strict=True)
    ]
    assert sum(inside) >= len(inside) - 2


@given(
    st.floats(0.001, 0.999), st.integers(1, 20_000), st.floats(0, 1) | st.sampled_from([0.0, 1.0])
)
def test_the_band_ends_at_the_binomial_quantiles(
    share: float, count: int, probability: float
) -> None:
    found = binomial_quantile(share, count, probability)
    assert found == binom.ppf(share, count, probability)
