"""The page of losses: formula, source, ranges and curves, from the registry and docstrings."""

from __future__ import annotations

import inspect
import io
import re
from functools import cache
from typing import Any, Final

import torch
from matplotlib import rc_context
from matplotlib.figure import Figure
from torch import Tensor

from search_spaces import published_settings, search_space
from sweeps.messages.formatting import format_value
from sweeps.planning.preview import describe_range
from trainables.losses import CalibrationLoss, hyperparameters, loss_class, make_loss
from trainables.losses.registry import CATALOGUE
from website.formulas import typeset

CLASSES: Final = 10
BATCH: Final = 32
POINTS: Final = torch.linspace(0.02, 0.99, 50, dtype=torch.float64)
_ROW: Final = re.compile(r"^\| `(\w+)` \| .*?(?<!\\) \| ", re.MULTILINE)
_LINES: Final = ("#3f51b5", "#009e73", "#d55e00")
_GREY: Final = "#8a8f98"


def sections() -> str:
    """A section for each loss."""
    return "\n\n".join(_section(name) for name in CATALOGUE.ours)


def overview(page: str) -> str:
    """The page with the overview's formulas replaced by links to the sections that typeset them."""
    head, body = "| loss | formula |", "| --- | --- | --- | --- | --- |"
    text, rest = page.split("## Which to try")
    text = text.replace(head, "| loss |").replace(body, body[6:])
    return _ROW.sub(r"| [`\1`](#\1) | ", text) + "## Which to try" + rest


def pictures() -> dict[str, str]:
    """Curves of value and gradient: path in the site → SVG."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # for tensors as small as these
    try:
        return {_path(name): _picture(name) for name in CATALOGUE.ours if _has_curve(name)}
    finally:
        torch.set_num_threads(threads)


def _section(name: str) -> str:
    kind, space = _kind(name), search_space(name)
    text = inspect.getdoc(kind) or ""
    described = re.split(r"\n\n(?=Args:|Attributes:)", text)[0]
    arguments = _arguments(text)
    parts = [
        f"### `{name}` {{ #{name} }}",
        typeset(name),
        f"`calsweep.losses.{kind.__name__}` · {kind.source}",
        described,
    ]
    if defaults := hyperparameters(name):
        lines = [
            "| hyperparameter | what it is | default | allowed | searched |",
            "| --- | --- | --- | --- | --- |",
        ]
        for key, default in defaults.items():
            allowed = kind.bounds[key].interval if key in kind.bounds else "–"
            searched = describe_range(space[key]) if key in space else "–"
            said = arguments.get(key, "").replace("|", "\\|")
            lines.append(f"| `{key}` | {said} | {format_value(default)} | {allowed} | {searched} |")
        parts.append("\n".join(lines))
    if space and (published := published_settings(name, CLASSES)):
        told = "; ".join(
            ", ".join(f"{key} {format_value(value)}" for key, value in setting.items())
            for setting in published
        )
        parts.append(f"Published settings, which a sweep tries first (for 10 classes): {told}.")
    if _has_curve(name):
        parts.append(f"![Value and gradient of {name}]({_path(name)}){{ loading=lazy }}")
    else:
        parts.append(f"No curve: {_why_not(kind)}.")
    return "\n\n".join(parts)


def _arguments(docstring: str) -> dict[str, str]:
    """The description of each argument in a docstring."""
    listed = docstring.partition("\nArgs:\n")[2].partition("\n\n")[0]
    entries = re.split(r"^    (?=\w+:)", listed, flags=re.MULTILINE)[1:]
    return {key: " ".join(text.split()) for key, _, text in (e.partition(":") for e in entries)}


@cache
def _kind(name: str) -> type[CalibrationLoss]:
    kind = loss_class(name)
    assert issubclass(kind, CalibrationLoss)
    return kind


def _has_curve(name: str) -> bool:
    return _why_not(_kind(name)) == ""


def _why_not(kind: type[CalibrationLoss]) -> str:
    if kind.mixes_inputs:
        return "it is cross-entropy on mixtures of two samples"
    if not kind.trains_classifier:
        return "it uses features, not logits"
    return ""


def _path(name: str) -> str:
    return f"pictures/losses/{name}.svg"


def _picture(name: str) -> str:
    """Value and gradient over the probability of the true class, as SVG."""
    kind, space = _kind(name), search_space(name)
    settings: list[tuple[str, dict[str, Any]]] = [("default", {})]
    if space:
        key, given = next(iter(space.items()))
        ends = given.choices if hasattr(given, "choices") else (given.low, given.high)
        settings = [(f"{key} {format_value(end)}", {key: end}) for end in ends]
        settings.insert(1, ("default", {}))
    across = kind.looks_across_batch
    curves = [_curves(name, setting, across) for _, setting in settings]
    default = curves[[setting for _, setting in settings].index({})]
    figure = Figure(figsize=(7.2, 2.6), layout="constrained")
    axes = figure.subplots(1, 2)
    for (label, setting), both, colour in zip(settings, curves, _LINES, strict=False):
        if setting and torch.equal(both[0], default[0]):
            continue  # it acts only later in training, or not on such a sample
        for axis, curve in zip(axes, both, strict=True):
            axis.plot(POINTS, curve, color=colour, label=label, linewidth=1.6)
    for axis, curve in zip(axes, _curves("cross_entropy", {}, across), strict=True):
        style: dict[str, Any] = {"color": _GREY, "linestyle": "--", "linewidth": 1.2}
        axis.plot(POINTS, curve, label="cross_entropy", **style)
    axes[0].set(xlabel="probability of the true class", ylabel="value")
    axes[1].set(xlabel="probability of the true class", ylabel="derivative by its logit")
    for axis in axes:
        axis.tick_params(colors=_GREY, which="both")
        axis.xaxis.label.set_color(_GREY)
        axis.yaxis.label.set_color(_GREY)
        for spine in axis.spines.values():
            spine.set_color(_GREY)
    lines, labels = axes[0].get_legend_handles_labels()
    style = {"loc": "outside right upper", "frameon": False, "fontsize": 9}
    figure.legend(lines, labels, labelcolor=_GREY, **style)
    stream = io.StringIO()
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": name}):
        figure.savefig(stream, format="svg", transparent=True, metadata={"Date": None})
    return stream.getvalue()


@cache
def _curves_of_cross_entropy(across: bool) -> tuple[Tensor, Tensor]:
    return _measured(make_loss("cross_entropy", CLASSES), across)


def _curves(name: str, setting: dict[str, Any], across: bool) -> tuple[Tensor, Tensor]:
    if name == "cross_entropy":
        return _curves_of_cross_entropy(across)
    return _measured(make_loss(name, CLASSES, **setting), across)


def _measured(loss: CalibrationLoss, across: bool) -> tuple[Tensor, Tensor]:
    """Value and derivative for one sample, whose other logits are −1 to 1.

    A loss that looks across the batch is given 31 other samples, the same for all points; the value
    is then less that at the last point, and both are times 32, as the loss is a mean.
    """
    loss = loss.double()
    size = BATCH if across else 1
    generator = torch.Generator().manual_seed(0)
    others = 2 * torch.randn(size - 1, CLASSES, generator=generator, dtype=torch.float64)
    targets = torch.cat(
        [
            torch.zeros(1, dtype=torch.int64),
            torch.multinomial(others.softmax(1), 1, generator=generator)[:, 0]
            if across
            else torch.zeros(0, dtype=torch.int64),
        ]
    )
    loss.on_train_begin(size)
    rest = torch.linspace(-1, 1, CLASSES - 1, dtype=torch.float64)
    values, gradients = [], []
    for point in POINTS:
        mine = torch.cat([(point / (1 - point)).log()[None] + rest.logsumexp(0), rest])
        logits = torch.cat([mine[None], others]).requires_grad_()
        value = loss(logits, targets, indices=torch.arange(size), features=logits.detach())
        (gradient,) = torch.autograd.grad(value, logits)
        values.append(value.detach() * size)
        gradients.append(gradient[0, 0] * size)
    curve = torch.stack(values)
    return (curve - curve[-1] if across else curve), torch.stack(gradients)
