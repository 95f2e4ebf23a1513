"""The pictures of the docs, made from real runs: python -m website.pictures [NAME ...].

They are in docs/pictures. Make them again by hand; the runs take minutes. ``ece_by_epoch`` trains
on scikit-learn's digits, ``quickstart`` runs the quickstart (or reads it from CALSWEEP_STORAGE),
``search`` replays recorded trials, and ``intervals`` trains on Fashion-MNIST, in ./data or in the
folder that DATA names.
"""

from __future__ import annotations

import math
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import torch
from matplotlib import rc_context
from matplotlib.figure import Figure
from torch import Tensor, nn

import calsweep
from sweeps.evidence.scaling import AS_TRAINED
from sweeps.pages.matplotlib_figures import draw_reliability, new_figure
from trainables import metrics as M
from trainables.contract.config import TrainingConfig
from trainables.data import load_dataset
from trainables.engine.training import Trainer
from trainables.files.rows import Rows
from trainables.losses import make_loss
from trainables.models import make_model
from trainables.posthoc import TemperatureScaling

if TYPE_CHECKING:
    from trainables.data import Dataset
    from trainables.data.core.base import Split

FOLDER: Final = Path(__file__).parents[1] / "docs/pictures"
_TABULAR: Final = Path(__file__).parents[1] / "benchmarks/tabular"
_GUIDED: Final = ("search.sampler=guided", "scheduler.name=none", "selection.seeds=2")
_BLUE, _RED, _GREY = "#0072B2", "#D55E00", "#8a8f98"
DRAWS, SAMPLES = 40, 500


def ece_by_epoch() -> None:
    """ECE, error and NLL by epoch, from before training begins."""
    trainer, data = _trainer("digits", epochs=20, batch_size=64, lr=0.05)
    rows = [_validated(trainer, data)]
    for _ in range(20):
        trainer.train_epoch()
        rows.append(_validated(trainer, data))
    figure = Figure(figsize=(7.2, 2.4), layout="constrained")
    for axis, name in zip(figure.subplots(1, 3), ("ece", "error", "nll"), strict=True):
        values = [row[name] for row in rows]
        axis.plot(range(21), values, color=_BLUE, marker="o", markersize=3)
        axis.plot(0, values[0], "o", color=_RED)
        axis.annotate("untrained", (0, values[0]), (4, values[0]), color=_RED, va="center")
        axis.set(xlabel="epoch", ylabel=f"val_{name}", ylim=(0, None))
    _save(figure, "ece_by_epoch")
    print("untrained:", rows[0], "least ECE of trained:", min(row["ece"] for row in rows[1:]))


def quickstart() -> None:
    """Early stopping and selection in the quickstart."""
    storage = os.environ.get("CALSWEEP_STORAGE", "calsweep-store")
    try:
        result = calsweep.load(storage, "quickstart")
    except calsweep.UserError:
        result = calsweep.run("quickstart", storage=storage)
    _save(result.plot_curves(), "early_stopping")
    _save(result.plot_search(), "selection")
    print(result)


def search() -> None:
    """Log T against γ on a recorded dataset, and where a guided search went."""
    from benchmarks.tabular.curves import Curves, read_trials
    from benchmarks.tabular.priors import known_of
    from benchmarks.tabular.replay import replay, with_values
    from sweeps.search.space import SearchSpace
    from sweeps.sweep_file.loading import load_sweep

    losses = ("focal", "dual_focal", "inverse_focal")
    file = _TABULAR / "fashion_mnist.yaml"
    sweep = with_values(load_sweep(str(file)), [f"losses=[{', '.join(losses)}]", *_GUIDED])
    space = SearchSpace(load_sweep(str(file)).losses)
    curves = Curves(read_trials(file.with_suffix(".parquet")), space)
    records = replay(sweep, curves, 10, (0, 1, 2), recorded=known_of(sweep))
    tried = [r for r in records if r.searched]
    figure = Figure(figsize=(7.2, 3.0), layout="constrained")
    axis = figure.subplots()
    for loss, color in zip(losses, (_BLUE, _RED, "#009E73"), strict=True):
        known = sorted(
            (s.hyperparameters["gamma"], math.log(curves.history(s, 0)[-1]["temperature"]))
            for s in curves.settings
            if s.loss == loss
        )
        axis.plot(*zip(*known, strict=True), "-o", color=color, markersize=3, label=loss)
    for number, record in enumerate(tried):
        place = record.hyperparameters.get("gamma", 0.0), math.log(record.outcome["temperature"])
        axis.plot(*place, "o", markersize=9, fillstyle="none", color="black")
        axis.annotate(str(number + 1), place, (5, 4), textcoords="offset points")
    axis.axhline(0, color=_GREY, linewidth=1)
    axis.set(xlabel="γ", ylabel="log T")
    axis.legend(frameon=False)
    _save(figure, "search")
    print([(r.label, round(math.log(r.outcome["temperature"]), 2)) for r in tried])


def intervals() -> None:
    """Intervals from 40 draws of 500 samples, and the value on all 10,000."""
    root = os.environ.get("DATA", "data")
    data = load_dataset("fashion_mnist", seed=0, root=root, train_samples=10_000)
    torch.manual_seed(0)
    network = nn.Sequential(nn.Flatten(), nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 10))
    optimizer = torch.optim.Adam(network.parameters(), lr=0.002)
    pixels, targets = _as_numbers(data.train)
    for _ in range(15):
        for chosen in torch.randperm(len(targets)).split(128):
            optimizer.zero_grad()
            nn.functional.cross_entropy(network(pixels[chosen]), targets[chosen]).backward()
            optimizer.step()
    with torch.no_grad():
        (held, held_labels), (test, labels) = map(_as_numbers, (data.validation, data.test))
        fitted_on, logits = network(held), network(test)
    temperature = TemperatureScaling().fit(fitted_on, held_labels).temperature
    figure = new_figure((7.2, 3.8))
    rows = Rows(logits.numpy(), labels.numpy())
    views = {AS_TRAINED: rows, f"T = {temperature:.2f}": rows.scaled(temperature)}
    draw_reliability(figure, views)
    for scale, heading, axis in zip(
        (1.0, temperature), ("as trained", "with a temperature"), figure.axes, strict=False
    ):
        value, low, high = M.interval("ece", (logits.double() / scale).softmax(1), labels)
        axis.set_title(f"{heading}: ECE {value:.3f} [{low:.3f}, {high:.3f}]", fontsize=10)
    _save(figure, "reliability")
    probs = logits.double().softmax(1)
    whole = M.expected_calibration_error(probs, labels)
    generator = torch.Generator().manual_seed(0)
    figure = Figure(figsize=(7.2, 3.4), layout="constrained")
    axis = figure.subplots()
    holding = 0
    for draw in range(DRAWS):
        chosen = torch.randint(len(labels), (SAMPLES,), generator=generator)
        value, low, high = M.interval("ece", probs[chosen], labels[chosen])
        holds = low <= whole <= high
        holding += holds
        axis.plot([draw, draw], [low, high], color=_BLUE if holds else _RED, linewidth=2)
        axis.plot(draw, value, "o", color=_BLUE if holds else _RED, markersize=3.5)
    axis.axhline(whole, color="black", linewidth=1, label=f"on all 10,000: {whole:.4f}")
    mean, _, high = M.calibrated_reference("ece", probs[:SAMPLES])
    axis.axhspan(0, high, color=_GREY, alpha=0.25, linewidth=0)
    axis.axhline(
        mean, color=_GREY, linestyle="--", label="a calibrated model's (mean, 95 % in grey)"
    )
    axis.set(xlabel=f"draw of {SAMPLES} samples", ylabel="ECE", ylim=(0, None))
    axis.legend(frameon=False, fontsize=9)
    _save(figure, "intervals")
    print(
        f"{holding} of {DRAWS} hold {whole:.4f}; a calibrated model's {mean:.4f}, up to {high:.4f}"
    )


def _as_numbers(split: Split) -> tuple[Tensor, Tensor]:
    return torch.tensor(split.inputs).float() / 255, torch.tensor(split.labels)


def _trainer(name: str, **given: Any) -> tuple[Trainer, Dataset]:
    config = TrainingConfig(
        **{key: given.pop(key) for key in ("epochs", "batch_size", "lr") if key in given}
    )
    data = load_dataset(name, seed=0, **given)
    torch.manual_seed(0)
    model = make_model("small_cnn", input_shape=data.input_shape, num_classes=data.num_classes)
    loss = make_loss("cross_entropy", data.num_classes)
    return Trainer(model, loss, data, config, 0, torch.device("cpu")), data


def _validated(trainer: Trainer, data: Dataset) -> dict[str, float]:
    logits, labels = trainer.predict(data.validation)
    found: dict[str, float] = M.evaluate(logits, labels, ("ece", "error", "nll"))
    return found


def _save(figure: Figure, name: str) -> None:
    FOLDER.mkdir(exist_ok=True)
    with rc_context({"svg.hashsalt": name}):
        figure.savefig(FOLDER / f"{name}.svg", format="svg", metadata={"Date": None})


MAKERS: Final = {each.__name__: each for each in (ece_by_epoch, quickstart, search, intervals)}

if __name__ == "__main__":
    for each in sys.argv[1:] or MAKERS:
        MAKERS[each]()
