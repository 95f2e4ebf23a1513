"""Figures that show themselves in a notebook, without pyplot's state."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from matplotlib.figure import Figure
from scipy.stats import binom

from trainables.metrics import expected_calibration_error, reliability_bins

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from torch import Tensor

_BLUE, _RED = "#56B4E9", "#D55E00"


class _Shown(Figure):
    def _repr_png_(self) -> bytes:
        """What a notebook shows."""
        stream = io.BytesIO()
        self.savefig(stream, format="png", dpi=120)
        return stream.getvalue()


def new_figure(size: tuple[float, float]) -> Figure:
    """An empty figure, width and height in inches."""
    return _Shown(figsize=size, layout="constrained")


def draw_reliability(figure: Figure, logits: Tensor, labels: Tensor, temperature: float) -> None:
    """Reliability diagrams, as trained and after temperature scaling, on one figure.

    Bars are the accuracy of 15 equal-width bins of confidence, the hatched part is the gap to the
    mean confidence, the line in each bin spans what a calibrated model would show there in 95 of
    100 cases, and below is the share of samples in each bin.

    Args:
        figure: An empty one.
        logits: (N, K) float.
        labels: (N,) int64.
        temperature: The fitted temperature.
    """
    axes = figure.subplots(2, 2, sharex=True, sharey="row", height_ratios=(4, 1))
    for column, (scale, heading) in enumerate(
        [(1.0, "as trained"), (temperature, f"temperature {temperature:.2f}")]
    ):
        probs = (logits.double() / scale).softmax(dim=1)
        _panel(axes[0, column], axes[1, column], probs, labels)
        ece = float(expected_calibration_error(probs, labels))
        axes[0, column].set_title(f"{heading}, ECE {ece:.4f}", fontsize=10)
        axes[1, column].set_xlabel("confidence")
    axes[0, 0].set_ylabel("accuracy")
    axes[1, 0].set_ylabel("share")


def _panel(upper: Axes, lower: Axes, probs: Tensor, labels: Tensor) -> None:
    bins = reliability_bins(probs, labels)
    width = float(bins.upper[0] - bins.lower[0])
    for left, count, confidence, accuracy in zip(
        bins.lower.tolist(),
        bins.count.tolist(),
        bins.confidence.tolist(),
        bins.accuracy.tolist(),
        strict=True,
    ):
        if not count:
            continue
        low, high = sorted((confidence, accuracy))
        upper.bar(left, accuracy, width * 0.95, align="edge", color=_BLUE)
        gap = {"facecolor": "none", "edgecolor": _RED, "hatch": "////", "linewidth": 1}
        upper.bar(left, high - low, width * 0.95, low, align="edge", **gap)
        few, many = binom.ppf((0.025, 0.975), int(count), min(confidence, 1.0)) / count
        upper.plot([left + width / 2] * 2, [few, many], color="#111", linewidth=1.5)
        lower.bar(left, count / len(labels), width * 0.95, align="edge", color="#8a8f98")
    upper.plot([0, 1], [0, 1], color="#222", linestyle="--", linewidth=1)
    upper.set(xlim=(0, 1), ylim=(0, 1))
