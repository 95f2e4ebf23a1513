"""Figures of a trial. Drawn without pyplot, so that any thread may draw."""

from __future__ import annotations

from pathlib import Path

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from trainables.metrics import expected_calibration_error, reliability_bins

BLUE, RED, GREY = "#3b6fb6", "#d1495b", "#8a8f98"


def reliability_figure(logits: Tensor, labels: Tensor, temperature: float, title: str) -> Figure:
    """Reliability diagrams before and after temperature scaling, side by side.

    Args:
        logits: (N, K) float.
        labels: (N,) int64.
        temperature: The fitted temperature.
        title: Heads the figure.
    """
    figure = Figure(figsize=(7.2, 3.7), layout="constrained")
    axes = figure.subplots(1, 2, sharey=True)
    for axis, scale, heading in (
        (axes[0], 1.0, "as trained"),
        (axes[1], temperature, f"temperature {temperature:.2f}"),
    ):
        probs = torch.softmax(logits.double() / scale, dim=1)
        draw_reliability(axis, probs, labels, heading)
    axes[0].set_ylabel("accuracy")
    figure.suptitle(f"{title} · test split", fontsize=11)
    return figure


def draw_reliability(axis: Axes, probs: Tensor, labels: Tensor, heading: str) -> None:
    """Draw accuracy against confidence in 15 bins, the gaps to the diagonal in red."""
    bins = reliability_bins(probs, labels)
    counts = bins.count.double()
    full = counts > 0
    lower, width = bins.lower[full].numpy(), (bins.upper - bins.lower)[full].numpy()
    confidence, accuracy = bins.confidence[full].numpy(), bins.accuracy[full].numpy()
    share = (counts / counts.sum())[full].numpy()
    axis.bar(lower, accuracy, width, align="edge", color=BLUE, edgecolor="white", linewidth=0.6)
    axis.bar(
        lower,
        confidence - accuracy,
        width,
        bottom=accuracy,
        align="edge",
        color=RED,
        alpha=0.35,
        edgecolor=RED,
        linewidth=0.6,
    )
    axis.step([*lower, 1.0], [*share, share[-1]], where="post", color=GREY, linewidth=1)
    axis.plot([0, 1], [0, 1], color="black", linewidth=0.8, linestyle=(0, (4, 3)))
    ece = float(expected_calibration_error(probs, labels))
    axis.set(xlim=(0, 1), ylim=(0, 1), xlabel="confidence", aspect="equal")
    axis.set_title(f"{heading}   ECE {ece:.4f}", fontsize=10)


def save_png(figure: Figure, path: Path) -> None:
    """Write a figure as PNG at 110 dots per inch."""
    figure.savefig(path, dpi=110)
