"""Tests that need a GPU: `pytest -m gpu`; `python -m benchmarks.gpu` also measures speed."""

import io
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from trainables import metrics as M
from trainables.contract.config import TrainingConfig, TrialSetup
from trainables.contract.messages import COSTS, Progressed, TrialConfig
from trainables.contract.setting import Setting
from trainables.data import load_dataset
from trainables.data.core.base import Dataset
from trainables.data.kinds.augmentation import draw_moves, move
from trainables.engine.batch_norm import synchronised
from trainables.engine.training import Trainer
from trainables.losses import CalibrationLoss, available_losses, make_loss
from trainables.models import make_model
from trainables.runtime.devices import CONTEXT_MEMORY
from trainables.trials.making import make_run
from trainables.trials.trial import TrialRun

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU"),
]
GPU, CPU = torch.device("cuda"), torch.device("cpu")


@pytest.fixture(scope="module")
def digits() -> Dataset:
    return load_dataset("digits", seed=0, train_samples=600)


def make_trainer(
    dataset: Dataset,
    device: torch.device,
    loss: str | CalibrationLoss = "cross_entropy",
    dropout: float = 0.0,
    **recipe: Any,
) -> Trainer:
    torch.manual_seed(0)
    model = make_model(
        "small_cnn",
        input_shape=dataset.samples.shape,
        num_classes=10,
        samples=dataset.samples,
        dropout=dropout,
    )
    config = TrainingConfig(**{"epochs": 4, "batch_size": 64, "lr": 0.05, **recipe})
    if isinstance(loss, str):
        loss = make_loss(loss, num_classes=10)
    return Trainer(model, loss, dataset, config, seed=0, device=device)


def trained(trainer: Trainer, epochs: int) -> Trainer:
    for _ in range(epochs):
        trainer.train_epoch()
        trainer.adapt_loss(*trainer.predict(trainer.dataset.validation))
    return trainer


def logits_and_targets(count: int = 64, classes: int = 10) -> tuple[Tensor, Tensor]:
    draw = torch.Generator().manual_seed(0)
    logits = 3 * torch.randn(count, classes, generator=draw, dtype=torch.float64)
    return logits, torch.randint(classes, (count,), generator=draw)


def test_all_tensors_of_a_trial_are_on_its_gpu(digits: Dataset) -> None:
    trainer = make_trainer(digits, GPU)
    trainer.train_epoch()
    state = [*trainer.model.parameters(), *trainer.model.buffers(), *trainer.loss.buffers()]
    state += [
        value
        for slot in trainer.optimizer.state.values()
        for value in slot.values()
        if isinstance(value, Tensor) and value.dim() > 0
    ]
    assert {value.device.type for value in state} == {"cuda"}
    assert trainer.predict(digits.test)[0].device.type == "cpu"


def test_a_gpu_trains_as_a_cpu_does(digits: Dataset) -> None:
    recipe: dict[str, Any] = {"precision": "float32", "augmentation": "none"}
    one, other = (make_trainer(digits, device, **recipe) for device in (GPU, CPU))
    for _ in range(2):
        first, second = one.train_epoch(), other.train_epoch()
        assert first["train_loss"] == pytest.approx(second["train_loss"], rel=1e-2)
    found, expected = (M.evaluate(*t.predict(digits.test), names=("nll",)) for t in (one, other))
    assert found["nll"] == pytest.approx(expected["nll"], rel=0.05)


def test_training_is_bfloat16_and_evaluation_float32(digits: Dataset) -> None:
    full, half = (make_trainer(digits, GPU, precision=p) for p in ("float32", "bfloat16"))
    one, other = full.train_epoch(), half.train_epoch()
    assert other["train_loss"] != one["train_loss"]
    assert other["train_loss"] == pytest.approx(one["train_loss"], rel=0.05)
    assert all(p.dtype == torch.float32 for p in half.model.parameters())
    logits, _ = half.predict(digits.test)
    rows = torch.from_numpy(digits.test.inputs.copy())
    with torch.no_grad():
        expected = half.model.cpu().eval()(digits.samples.normalise(rows))
    torch.testing.assert_close(logits, expected, atol=1e-3, rtol=1e-3)


def same_weights(one: Trainer, other: Trainer) -> bool:
    states = (trainer.model.state_dict().values() for trainer in (one, other))
    return all(torch.equal(*pair) for pair in zip(*states, strict=True))


@pytest.fixture
def repeatable() -> Iterator[None]:
    before, torch.backends.cudnn.deterministic = torch.backends.cudnn.deterministic, True
    yield
    torch.backends.cudnn.deterministic = before


@pytest.mark.usefixtures("repeatable")
@pytest.mark.parametrize(
    "loss", sorted(set(available_losses()) - {"refinement", "supcon", "mixup", "r_aurc"})
)
def test_a_captured_step_trains_to_the_same_bits(digits: Dataset, loss: str) -> None:
    recipe: dict[str, Any] = {"loss": loss, "dropout": 0.1, "augmentation": "crop_flip"}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        one, other = (make_trainer(digits, GPU, cuda_graphs=g, **recipe) for g in (True, False))
        assert same_weights(trained(one, 3), trained(other, 3))
    assert one.loss.state_dict().keys() == other.loss.state_dict().keys()
    assert one._captured is not None and len(one._captured._graphs) > 0


@pytest.mark.usefixtures("repeatable")
@pytest.mark.parametrize("recipe", [
    {"optimizer": "adamw", "lr": 0.01, "clip_grad_norm": 0.5, "warmup_epochs": 1.0},
    {"optimizer": "sgd", "momentum": 0.0, "precision": "float32", "class_weights": "balanced"},
    {"batch_size": 600},
])  # fmt: skip
def test_a_captured_step_follows_the_recipe(digits: Dataset, recipe: dict[str, Any]) -> None:
    one, other = (make_trainer(digits, GPU, cuda_graphs=g, **recipe) for g in (True, False))
    with warnings.catch_warnings(record=True):
        assert same_weights(trained(one, 3), trained(other, 3))
    again = make_trainer(digits, GPU, **recipe)
    again.load_state_dict(copied(trained(make_trainer(digits, GPU, **recipe), 1).state_dict()))
    with warnings.catch_warnings(record=True):
        assert same_weights(trained(again, 2), one)


def copied(state: dict[str, Any]) -> dict[str, Any]:
    buffer = io.BytesIO()
    torch.save(state, buffer)
    buffer.seek(0)
    return torch.load(buffer, map_location="cpu", weights_only=True)  # type: ignore[no-any-return]


class Reading(CalibrationLoss):
    """Its step waits for a number from the GPU, which no graph can hold."""

    def compute(self, logits: Tensor, targets: Tensor, *_: Tensor | None) -> Tensor:
        value = nn.functional.cross_entropy(logits, targets)
        return value * (2.0 if value.item() > 1 else 1.0)


class Counting(CalibrationLoss):
    """Its Python code must run at each step."""

    steps = 0

    def compute(self, logits: Tensor, targets: Tensor, *_: Tensor | None) -> Tensor:
        self.steps += 1
        return nn.functional.cross_entropy(logits / self.steps, targets)


@pytest.mark.usefixtures("repeatable")
@pytest.mark.parametrize(
    "loss",
    [
        Reading,
        Counting,
        partial(make_loss, "r_aurc"),  # sorts on the CPU
        partial(make_loss, "mixup"),  # draws on the CPU
    ],
)
def test_a_step_that_no_graph_can_repeat_runs_as_it_is(
    digits: Dataset, loss: Callable[[int], CalibrationLoss]
) -> None:
    recipe: dict[str, Any] = {"dropout": 0.1, "augmentation": "crop"}
    one = make_trainer(digits, GPU, loss(10), **recipe)
    with pytest.warns(UserWarning, match="not captured as CUDA graphs"):
        trained(one, 3)
    other = make_trainer(digits, GPU, loss(10), cuda_graphs=False, **recipe)
    assert same_weights(one, trained(other, 3))


@pytest.mark.parametrize("kind", ["crop", "crop_flip"])
def test_augmentation_is_seeded_on_the_gpu(digits: Dataset, kind: str) -> None:
    images = torch.from_numpy(digits.train.inputs[:32].copy()).to(GPU)
    seeded = (torch.Generator(GPU).manual_seed(1) for _ in range(2))
    first, again = (move(images, draw_moves(images, kind, each)) for each in seeded)
    assert torch.equal(first, again)
    assert not torch.equal(first, images)


@pytest.mark.parametrize("name", sorted({*available_losses()} - {"refinement", "supcon"}))
def test_losses_are_equal_on_gpu_and_cpu(name: str) -> None:
    logits, targets = logits_and_targets()
    found = []
    for device in (CPU, GPU):
        loss = make_loss(name, num_classes=10).to(device)
        loss.on_train_begin(64)
        own = logits.to(device).requires_grad_()
        value = loss(own, targets.to(device), indices=torch.arange(64, device=device))
        (gradient,) = torch.autograd.grad(value, own)
        found.append((value.detach().cpu(), gradient.cpu()))
    torch.testing.assert_close(found[1], found[0], atol=1e-8, rtol=1e-6)


@pytest.mark.parametrize("name", sorted({*available_losses()} - {"refinement", "supcon"}))
def test_a_repeated_step_on_a_gpu_gives_equal_bits(name: str) -> None:
    logits, targets = (each.to(GPU) for each in logits_and_targets(4096))
    found = []
    for _ in range(3):
        loss = make_loss(name, num_classes=10).to(GPU)
        loss.on_train_begin(4096)
        loss.on_validation_end(logits.float(), targets)
        own = logits.float().requires_grad_()
        loss(own, targets, indices=torch.arange(4096, device=GPU)).backward()
        found.append(own.grad)
    assert torch.equal(found[0], found[1])
    assert torch.equal(found[0], found[2])


BROKEN = """
import torch
from trainables.runtime.devices import has_failed
from trainables.contract.setting import Setting
device = torch.device("cuda", 0)
assert not has_failed(device, KeyError("the GPU works"))
try:
    torch.ones(3, device=device)[torch.tensor([7], device=device)].sum().item()
except Exception as error:
    assert has_failed(device, error)
    assert has_failed(device, KeyError("raised later"))
    print("failed")
"""


def test_a_device_side_assertion_is_recognised() -> None:
    """In a separate process, which cannot use the GPU afterwards."""
    command = [sys.executable, "-c", BROKEN]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout == "failed\n", done.stderr


def test_metrics_and_intervals_are_equal_on_gpu_and_cpu() -> None:
    logits, labels = logits_and_targets(2000)
    here, there = M.evaluate(logits, labels), M.evaluate(logits.to(GPU), labels.to(GPU))
    assert there == pytest.approx(here, rel=1e-6, abs=1e-9)
    probs = logits.softmax(1)
    intervals = [
        M.bootstrap(M.expected_calibration_error, probs.to(device), labels.to(device), 200)
        for device in (CPU, GPU)
    ]
    assert intervals[1] == pytest.approx(intervals[0], rel=1e-6)


def test_an_interrupted_trial_on_a_gpu_has_the_same_result(tmp_path: Path, digits: Dataset) -> None:
    def run(folder: str) -> TrialRun:
        setup = TrialSetup(
            model="small_cnn",
            model_options={"dropout": 0.2},
            training=TrainingConfig(epochs=3, batch_size=64, augmentation="crop"),
            trials_uri=str(tmp_path / folder),
            outcome_epochs=(3,),
        )
        return TrialRun(digits, setup, TrialConfig(0, "search", Setting("focal", {}), 1), GPU)

    def last(trial: TrialRun, reports: int) -> dict[str, float]:
        for _ in range(reports):
            report = trial.advance()
        assert isinstance(report, Progressed)
        return {k: v for k, v in report.entries[-1].items() if k not in COSTS}

    whole_run = run("whole")
    whole = last(whole_run, 3)
    assert all(0 < entry["gpu_memory_share"] < 1 for entry in whole_run.history)
    assert all(entry["gpu_memory"] > CONTEXT_MEMORY for entry in whole_run.history)
    last(run("cut"), 1)
    assert last(run("cut"), 3) == whole  # the first report repeats the first epoch


@pytest.mark.parametrize("device", [GPU, torch.device("cuda", 0)])
@pytest.mark.parametrize("loss", ["focal", "adafocal", "kde_xe"])
def test_a_custom_loop_trains_and_resumes_on_a_gpu(
    tmp_path: Path,
    digits: Dataset,
    monkeypatch: pytest.MonkeyPatch,
    device: torch.device,
    loss: str,
) -> None:
    monkeypatch.syspath_prepend(Path(__file__).parents[3] / "examples/own_loop")
    setup = TrialSetup(
        model="plain:train",
        model_options={"width": 8},
        training=TrainingConfig(epochs=3),
        trials_uri=str(tmp_path),
        outcome_epochs=(3,),
        own_loop=True,
    )
    config = TrialConfig(0, "search", Setting(loss, {}), 1)
    run = make_run(digits, setup, config, device)
    assert isinstance(run.advance(), Progressed)
    run.close()
    again = make_run(digits, setup, config, device)
    reports = [again.advance() for _ in range(3)]
    again.close()
    assert [r.done for r in reports if isinstance(r, Progressed)] == [False, False, True]


def test_synchronised_batch_norms_keep_their_activations() -> None:
    from timm.layers import BatchNormAct2d

    net = nn.Sequential(nn.Conv2d(2, 3, 3), BatchNormAct2d(3), nn.BatchNorm2d(3)).to(GPU)
    images = torch.randn(4, 2, 8, 8, device=GPU)
    before = net.eval()(images)
    torch.testing.assert_close(synchronised(net, GPU).eval()(images), before)
