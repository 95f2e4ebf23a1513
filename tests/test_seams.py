"""Each kind of component is added in one place, as CONTRIBUTING.md says."""

import sys
from pathlib import Path
from typing import Self

import numpy as np
import pytest
import torch
from optuna.samplers import BaseSampler, TPESampler
from torch import Tensor, nn
from typer.testing import CliRunner

import search_spaces
import trainables.data
import trainables.losses.registry
import trainables.models
from sweeps import cli
from sweeps.planning.checks import check_sweep
from sweeps.search.plan import Plan
from sweeps.search.record import TrialRecord
from sweeps.search.samplers import SAMPLERS
from sweeps.search.space import SearchSpace
from sweeps.search.stopping import STOPPERS
from sweeps.search.trial_queue import TrialQueue
from sweeps.sweep_file.schema import SweepFile
from tests.builders import make_sweep, trial
from trainables.data import Arrays, load_dataset
from trainables.data.core.base import Dataset, Split
from trainables.losses import CalibrationLoss, make_loss
from trainables.metrics import METRICS, Metric, evaluate
from trainables.models import make_model
from trainables.models.base import Classifier
from trainables.posthoc import table


class Tempered(CalibrationLoss):
    """Cross-entropy of logits divided by a constant."""

    source = "no one"
    formula = "−log softmax(z/τ)_y"

    def __init__(self, num_classes: int, tau: float = 1.0) -> None:
        super().__init__(num_classes)
        self.tau = tau

    def compute(
        self, logits: Tensor, targets: Tensor, indices: Tensor | None, features: Tensor | None
    ) -> Tensor:
        return nn.functional.cross_entropy(logits / self.tau, targets)


def blobs(seed: int, spread: float = 1.0) -> Dataset:
    """Two clusters of points in the plane."""
    rng = np.random.default_rng(seed)

    def split(count: int) -> Split:
        labels = np.arange(count) % 2
        points = 4 * labels[:, None] + spread * rng.standard_normal((count, 2))
        return Split(points.astype(np.float32), labels)

    splits = split(40), split(20), split(20)
    return Dataset("blobs", *splits, classes=("left", "right"), samples=Arrays.unscaled((2,)))


def flat(input_shape: tuple[int, ...], num_classes: int, width: int = 4) -> Classifier:
    """One hidden layer."""
    encoder = nn.Sequential(nn.Flatten(), nn.LazyLinear(width), nn.ReLU())
    return Classifier(encoder, nn.Linear(width, num_classes))


class Patience:
    """Stops every trial after the first epoch."""

    rungs = (1,)

    def __init__(self, sweep: SweepFile) -> None:
        pass

    def judge(self, record: TrialRecord, entry: dict[str, float]) -> bool:
        return entry["epoch"] >= 1


def eager(seed: int) -> BaseSampler:
    """TPE that uses its model after three trials."""
    return TPESampler(seed=seed, n_startup_trials=3)


def largest_gap(probs: Tensor, labels: Tensor) -> float:
    """The difference between the mean confidence and the accuracy."""
    confidence, predicted = probs.max(dim=1)
    return float((confidence.mean() - (predicted == labels).double().mean()).abs())


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> str:
    """An importable name of this module."""
    monkeypatch.setitem(sys.modules, "added_parts", sys.modules[__name__])
    return "added_parts"


def test_a_loss_is_a_class_a_line_and_a_search_space(
    here: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(
        trainables.losses.registry.CATALOGUE.ours,  # type: ignore[arg-type]
        "tempered",
        f"{here}:Tempered",
    )
    (tmp_path / "tempered.py").write_text(
        "from optuna.distributions import FloatDistribution\n"
        'SPACE = {"tau": FloatDistribution(0.5, 4.0, log=True)}\n'
        'PUBLISHED = [{"tau": 1.0}]\n'
    )
    monkeypatch.setattr(search_spaces, "__path__", [*search_spaces.__path__, str(tmp_path)])
    search_spaces._modules.cache_clear()
    try:
        sweep = make_sweep(losses=["tempered"])
        check_sweep(sweep)
        initial = SearchSpace(sweep.losses).initial_settings(10)
        assert [setting.hyperparameters for setting in initial[1:]] == [{"tau": 1.0}]
    finally:
        search_spaces._modules.cache_clear()
    assert isinstance(make_loss("tempered", 3, tau=2.0), Tempered)


def test_a_dataset_is_a_function_and_a_line(here: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(trainables.data.CATALOGUE.ours, "blobs", f"{here}:blobs")  # type: ignore[arg-type]
    check_sweep(make_sweep(dataset={"name": "blobs", "spread": 2.0}))
    assert load_dataset("blobs", seed=1, spread=2.0).classes == ("left", "right")


def test_a_model_is_a_function_and_a_line(here: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(trainables.models.CATALOGUE.ours, "flat", f"{here}:flat")  # type: ignore[arg-type]
    check_sweep(make_sweep(model={"name": "flat", "width": 3}))
    model = make_model("flat", input_shape=(1, 2, 2), num_classes=3, width=5)
    assert model(torch.zeros(2, 1, 2, 2)).shape == (2, 3)


def test_a_metric_is_an_entry_and_an_objective_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    added = Metric("gap", largest_gap, "how far confidence is from accuracy; in [0, 1]")
    monkeypatch.setitem(METRICS, "gap", added)
    check_sweep(make_sweep(search={"objective": "val_gap"}))
    logits, labels = torch.tensor([[9.0, 0.0], [0.0, 9.0]]), torch.tensor([0, 0])
    assert evaluate(logits, labels, ["gap"])["gap"] == pytest.approx(0.5, abs=1e-3)


def queue_of(sweep: SweepFile) -> TrialQueue:
    return TrialQueue(Plan(sweep), lambda record: None, num_classes=10)


def test_a_scheduler_is_a_class_and_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(STOPPERS, "patience", Patience)
    sweep = make_sweep(scheduler={"name": "patience"}, training={"epochs": 3})
    check_sweep(sweep)
    queue = queue_of(sweep)
    queue.next()  # the baseline is never stopped
    record = queue.next()
    assert record is not None
    assert 1 in queue.outcome_epochs
    assert not queue.should_prune(0, [trial(0).outcome])
    assert queue.should_prune(record.number, [trial(1).outcome])


def test_a_sampler_is_a_function_and_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SAMPLERS, "eager", eager)
    sweep = make_sweep(losses=["focal"], search={"sampler": "eager", "trials": 8})
    check_sweep(sweep)
    queue, settings = queue_of(sweep), []
    while (record := queue.next()) is not None and record.role != "finalist":
        settings.append(record.setting)
        queue.result(record.number, trial(0, epochs=sweep.training.epochs).outcome)
        queue.end(record.number, "finished")
    assert len(set(settings)) == 8


class Sharpening:
    """Twice the logits."""

    name = "sharpening"

    def fit(self, logits: Tensor, labels: Tensor) -> Self:
        return self

    def __call__(self, logits: Tensor) -> Tensor:
        return 2 * logits


def test_a_post_hoc_method_is_a_class_and_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(table._METHODS, Sharpening.name, Sharpening)
    logits = torch.randn(4, 3)
    fitted = table.make_posthoc("sharpening").fit(logits, torch.zeros(4, dtype=torch.int64))
    assert torch.equal(fitted(logits), 2 * logits)
    assert "sharpening" in table.available_posthoc()


def test_a_command_is_a_function(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cli.app, "registered_commands", list(cli.app.registered_commands))

    @cli.app.command()
    def greet(name: str) -> None:
        """Greet somebody."""
        print(f"hello {name}")

    done = CliRunner().invoke(cli.app, ["greet", "you"])
    assert (done.exit_code, done.output) == (0, "hello you\n")
