"""The training loop: steps by hand, determinism, and equal weights from several workers."""

import copy
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.optim.lr_scheduler import ReduceLROnPlateau

from tests.harness.workers import run_workers
from trainables.contract.config import TrainingConfig, check_shares
from trainables.data import load_dataset
from trainables.data.core.base import Dataset, Split
from trainables.engine.optimizers import learning_rate_factor, make_optimizer, plateaus
from trainables.engine.training import DivergedError, Trainer
from trainables.losses import CalibrationLoss, make_loss
from trainables.losses.cross_entropy import CrossEntropy
from trainables.models import Classifier
from trainables.models import make_model as make_model_by_name

CPU = torch.device("cpu")
LOSSES = ("cross_entropy", "focal", "crl", "cals_alm", "adafocal", "aucm", "mixup", "supcon")
OWN = ("learnt:Learnt", "learnt:LearntPlain")  # in learnt.py
OTHER_TARGETS = ("focal weighted", "focal soft", "mixup soft", "adafocal several")


@pytest.fixture(scope="module")
def digits() -> Dataset:
    return load_dataset("digits", seed=0, train_samples=100)


def make_model(dropout: float = 0.0) -> Classifier:
    torch.manual_seed(0)
    encoder = nn.Sequential(nn.Flatten(), nn.Linear(64, 16), nn.Tanh(), nn.Dropout(dropout))
    return Classifier(encoder, nn.Linear(16, 10))


def make_trainer(
    dataset: Dataset,
    loss: CalibrationLoss | str = "cross_entropy",
    seed: int = 0,
    dropout: float = 0.0,
    **recipe: Any,
) -> Trainer:
    defaults: dict[str, Any] = {"epochs": 4, "batch_size": 40, "lr": 0.05, "schedule": "constant"}
    made = make_loss(loss, num_classes=10) if isinstance(loss, str) else loss
    config = TrainingConfig(**{**defaults, **recipe})
    return Trainer(make_model(dropout), made, dataset, config, seed=seed, device=CPU)


def weights(trainer: Trainer) -> torch.Tensor:
    return torch.cat([p.detach().flatten() for p in trainer.model.parameters()])


def train(trainer: Trainer, epochs: int = 2) -> list[dict[str, float]]:
    return [trainer.train_epoch() for _ in range(epochs)]


def test_one_step_by_hand(digits: Dataset) -> None:
    recipe: dict[str, Any] = {
        "momentum": 0.0,
        "weight_decay": 0.1,
        "batch_size": 100,
        "augmentation": "none",
    }
    trainer = make_trainer(digits, **recipe)
    report = trainer.train_epoch()
    model = make_model()
    pixels = torch.from_numpy(np.array(digits.train.inputs)).float() / 255
    inputs = (pixels - digits.samples.mean[0]) / digits.samples.std[0]
    value = nn.functional.cross_entropy(model(inputs), torch.tensor(digits.train.labels))
    torch.autograd.backward(value)
    for mine, theirs in zip(trainer.model.parameters(), model.parameters(), strict=True):
        assert theirs.grad is not None
        expected = theirs.detach() - 0.05 * (theirs.grad + 0.1 * theirs.detach())
        torch.testing.assert_close(mine.detach(), expected)
    assert report == {"train_loss": pytest.approx(value.item(), rel=1e-5), "lr": 0.05}


@pytest.mark.parametrize("recipe", [{}, {"augmentation": "crop_flip"}, {"optimizer": "adamw"}])
def test_equal_seeds_give_equal_bits(digits: Dataset, recipe: dict[str, Any]) -> None:
    one, other, another = (
        make_trainer(digits, seed=seed, dropout=0.5, **recipe) for seed in (3, 3, 4)
    )
    assert train(one) == train(other)
    train(another)
    assert torch.equal(weights(one), weights(other))
    assert not torch.equal(weights(one), weights(another))


@pytest.mark.parametrize("switch", ["dropout", "augmentation"])
def test_random_numbers_differ_between_epochs(digits: Dataset, switch: str) -> None:
    """With a tiny learning rate, epochs differ only by random numbers."""
    plain: dict[str, Any] = {"lr": 1e-12, "weight_decay": 0.0, "augmentation": "none"}
    first, second = train(make_trainer(digits, **plain))
    assert first["train_loss"] == pytest.approx(second["train_loss"], rel=1e-5)
    drawn: dict[str, Any] = {"dropout": 0.5} if switch == "dropout" else {"augmentation": "crop"}
    first, second = train(make_trainer(digits, **{**plain, **drawn}))
    assert first["train_loss"] != pytest.approx(second["train_loss"], rel=1e-3)


class Recorder(CrossEntropy):
    """Cross-entropy that records its calls."""

    def __init__(self, num_classes: int) -> None:
        super().__init__(num_classes)
        self.calls: list[Any] = []

    def compute(self, logits: Any, targets: Any, indices: Any, features: Any) -> torch.Tensor:
        self.calls.append(indices.tolist())
        return super().compute(logits, targets, indices, features)

    def on_train_begin(self, num_samples: int) -> None:
        self.calls.append(("begin", num_samples))

    def on_step_end(self) -> None:
        self.calls.append("step")

    def on_epoch_end(self) -> None:
        self.calls.append("epoch")

    def on_validation_end(self, val_logits: torch.Tensor, val_targets: torch.Tensor) -> None:
        assert not torch.is_grad_enabled()
        self.calls.append(("validation", tuple(val_logits.shape), val_targets.tolist()))


def test_hooks_of_the_loss_are_called_in_order(digits: Dataset) -> None:
    loss = Recorder(10)
    trainer = make_trainer(digits, loss)
    orders = []
    for _ in range(2):
        trainer.train_epoch()
        trainer.adapt_loss(*trainer.predict(digits.validation))
    kinds = [call if isinstance(call, str) else call[0] for call in loss.calls]
    assert loss.calls[0] == ("begin", 100)
    for start in (1, 9):
        batches = loss.calls[start : start + 6 : 2]
        assert [len(batch) for batch in batches] == [34, 33, 33]  # no tiny batch
        orders.append([index for batch in batches for index in batch])
        assert sorted(orders[-1]) == list(range(100))
        assert kinds[start + 1 : start + 7 : 2] == ["step"] * 3
        assert kinds[start + 6 : start + 8] == ["epoch", "validation"]
        labels = digits.validation.labels.tolist()
        assert loss.calls[start + 7] == ("validation", (len(labels), 10), labels)
    assert orders[0] != orders[1]


def test_validation_logits_adapt_the_loss(digits: Dataset) -> None:
    trainer = make_trainer(digits, "cals_alm")
    before = trainer.loss.state_dict()["lam"].clone()
    trainer.adapt_loss(*trainer.predict(digits.validation))
    assert not torch.equal(trainer.loss.state_dict()["lam"], before)


@pytest.mark.parametrize("loss", LOSSES)
def test_a_state_dict_restores_everything(digits: Dataset, loss: str) -> None:
    whole = make_trainer(digits, loss, dropout=0.5)
    train(whole, 2)
    state = copy.deepcopy(whole.state_dict())
    assert state.keys() == {"epoch", "seed", "model", "optimizer", "loss", "val_nll"}
    fresh = make_trainer(digits, loss, dropout=0.5)
    fresh.load_state_dict(state)
    assert fresh.epoch == 2
    expected = train(whole)
    torch.manual_seed(12345)  # each epoch seeds its generators, so this must not matter
    assert train(fresh) == expected
    assert torch.equal(weights(whole), weights(fresh))


def test_gradients_are_clipped(digits: Dataset) -> None:
    recipe: dict[str, Any] = {
        "momentum": 0.0,
        "weight_decay": 0.0,
        "batch_size": 100,
        "augmentation": "none",
    }
    steps = {}
    for limit in (None, 1e-3):
        trainer = make_trainer(digits, clip_grad_norm=limit, **recipe)
        before = weights(trainer)
        trainer.train_epoch()
        steps[limit] = weights(trainer) - before
    assert steps[None].norm() > 1e-3
    assert steps[1e-3].norm() == pytest.approx(0.05 * 1e-3, rel=1e-3)
    direction = torch.nn.functional.cosine_similarity(steps[None], steps[1e-3], dim=0)
    assert direction == pytest.approx(1, abs=1e-5)


def test_predictions_do_not_depend_on_the_batch_size(digits: Dataset) -> None:
    trainer = make_trainer(digits, dropout=0.5)
    logits, labels = trainer.predict(digits.test)
    assert torch.equal(trainer.predict(digits.test)[0], logits)  # nothing is dropped
    again, _ = make_trainer(digits, dropout=0.5, eval_batch_size=7).predict(digits.test)
    torch.testing.assert_close(logits, again, atol=1e-5, rtol=1e-5)
    assert logits.dtype == torch.float32
    assert labels.tolist() == digits.test.labels.tolist()
    assert not logits.requires_grad


class Hungry(nn.Module):
    """An encoder that runs out of memory above a number of samples."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self.most = most
        self.sizes: list[int] = []

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        if not self.training:
            self.sizes.append(len(inputs))
            if len(inputs) > self.most:
                raise torch.OutOfMemoryError("CUDA out of memory")
        return inputs


ROUNDING = [
    ("cuda", "matmul"),
    ("cudnn", "conv"),
    ("cudnn", "rnn"),
    ("mkldnn", "matmul"),
    ("mkldnn", "conv"),
]


class Looking(nn.Module):
    """An encoder that records the precision of matrix products."""

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        self.found = rounding()
        return inputs


def rounding() -> list[str]:
    return [getattr(getattr(torch.backends, a), b).fp32_precision for a, b in ROUNDING]


@pytest.mark.parametrize("setting", ["high", "medium", "tf32"])
def test_evaluation_is_exact_for_all_user_settings(digits: Dataset, setting: str) -> None:
    trainer, looking = make_trainer(digits), Looking()
    expected, _ = trainer.predict(digits.test)
    trainer.model.encoder.insert(0, looking)
    if setting == "tf32":
        torch.backends.fp32_precision = setting
    else:
        torch.set_float32_matmul_precision(setting)
    try:
        before = rounding()
        assert "tf32" in before
        found, _ = trainer.predict(digits.test)
        assert rounding() == before
    finally:
        torch.backends.fp32_precision = "none"
        torch.set_float32_matmul_precision("highest")
    assert set(looking.found) == {"ieee"}
    assert torch.equal(found, expected)


def test_evaluation_retries_out_of_memory_with_smaller_batches(digits: Dataset) -> None:
    trainer = make_trainer(digits, eval_batch_size=100)
    expected, _ = trainer.predict(digits.test)
    hungry = Hungry(most=30)
    trainer.model.encoder.insert(0, hungry)
    found, _ = trainer.predict(digits.test)
    torch.testing.assert_close(found, expected)
    assert hungry.sizes[:3] == [100, 50, 25]
    hungry.sizes.clear()
    trainer.predict(digits.validation)
    assert max(hungry.sizes) == 25  # the limit is known now
    hungry.most = 0
    with pytest.raises(torch.OutOfMemoryError):
        trainer.predict(digits.test)


def test_bfloat16_autocast_trains_and_reports_float32(digits: Dataset) -> None:
    full, half = make_trainer(digits), make_trainer(digits, precision="bfloat16")
    (one, _), (other, _) = train(full), train(half)
    assert other["train_loss"] == pytest.approx(one["train_loss"], rel=0.02)
    assert other["train_loss"] != one["train_loss"]
    logits, _ = half.predict(digits.test)
    assert logits.dtype == torch.float32
    assert all(p.dtype == torch.float32 for p in half.model.parameters())


@pytest.mark.parametrize("what", ["logits", "features"])
def test_evaluation_is_float32_whatever_the_precision(digits: Dataset, what: str) -> None:
    trainer = make_trainer(digits, precision="bfloat16")
    trainer.train_epoch()
    pixels = torch.from_numpy(np.array(digits.test.inputs)).float() / 255
    with torch.no_grad():
        model = trainer.model.eval()
        features = model.encoder((pixels - digits.samples.mean[0]) / digits.samples.std[0])
        expected = model.head(features) if what == "logits" else features
    found = trainer.predict(digits.test)[0] if what == "logits" else trainer.features(digits.test)
    torch.testing.assert_close(found, expected, atol=1e-6, rtol=1e-5)


def test_a_loss_that_is_not_finite_raises(digits: Dataset) -> None:
    trainer = make_trainer(digits, lr=1e30)
    with pytest.raises(DivergedError, match=r"diverged: training loss is nan in epoch \d"):
        train(trainer, 4)


def test_logits_that_are_not_finite_raise(digits: Dataset) -> None:
    trainer = make_trainer(digits)
    assert isinstance(trainer.model, Classifier)
    trainer.model.head.bias.data[3] = math.inf
    with pytest.raises(DivergedError, match="diverged: logits are not finite after epoch 0"):
        trainer.predict(digits.validation)


def test_shared_arrays_are_unchanged(digits: Dataset) -> None:
    """Other trials read the same memory concurrently."""
    before = {
        name: (split.inputs.copy(), split.labels.copy())
        for name in ("train", "validation", "test")
        if isinstance(split := getattr(digits, name), Split)
    }
    assert not digits.train.inputs.flags.writeable
    trainer = make_trainer(digits, "mixup", augmentation="crop_flip")
    trainer.train_epoch()
    trainer.adapt_loss(*trainer.predict(digits.validation))
    trainer.predict(digits.test)
    for name, (inputs, labels) in before.items():
        assert np.array_equal(getattr(digits, name).inputs, inputs)
        assert np.array_equal(getattr(digits, name).labels, labels)


@pytest.mark.parametrize(
    ("recipe", "epochs_done", "factor"),
    [
        ({"schedule": "constant"}, 3.7, 1.0),
        ({"schedule": "step", "milestones": ()}, 9.0, 1.0),
        ({"schedule": "step", "milestones": (0.5,), "lr_decay": 0.2}, 4.99, 1.0),
        ({"schedule": "step", "milestones": (0.5,), "lr_decay": 0.2}, 5.0, 0.2),
        ({"schedule": "step", "milestones": (0.5, 0.8), "lr_decay": 0.2}, 8.5, 0.04),
        ({"schedule": "cosine"}, 0.0, 1.0),
        ({"schedule": "cosine"}, 2.5, (1 + math.sqrt(0.5)) / 2),
        ({"schedule": "cosine"}, 5.0, 0.5),
        ({"schedule": "cosine", "warmup_epochs": 2.0}, 6.0, 0.5),
        ({"schedule": "cosine", "warmup_epochs": 10.0}, 10.0, 1.0),
        ({"schedule": "constant", "warmup_epochs": 4.0}, 1.0, 0.25),
        ({"schedule": "constant", "warmup_epochs": 4.0}, 4.0, 1.0),
        ({"schedule": "step", "milestones": (0.1,), "warmup_epochs": 2.0}, 2.0, 0.1),
    ],
)
def test_learning_rates(recipe: dict[str, Any], epochs_done: float, factor: float) -> None:
    config = TrainingConfig(epochs=10, **recipe)
    assert learning_rate_factor(config, epochs_done) == pytest.approx(factor, abs=1e-3)


@pytest.mark.parametrize("patience", [1, 2, 5])
def test_plateaus_are_those_of_pytorch(patience: int) -> None:
    weight = nn.Parameter(torch.zeros(1))
    theirs = ReduceLROnPlateau(torch.optim.SGD([weight], lr=1.0), patience=patience, eps=0)
    losses = np.random.default_rng(patience).normal(1.0, 0.1, 60).tolist()
    losses[1] = losses[0] * (1 - 5e-5)  # falls by too little to count
    for epoch, loss in enumerate(losses, start=1):
        theirs.step(loss)
        config = TrainingConfig(epochs=60, schedule="plateau", plateau_patience=patience)
        factor = learning_rate_factor(config, epoch, losses[:epoch])
        assert factor == pytest.approx(theirs.get_last_lr()[0], rel=1e-9)
    assert plateaus(losses, patience) > 1


@pytest.mark.parametrize("warmup", [5e-4, 0.5, 5.0])
def test_warmup_never_exceeds_the_learning_rate(warmup: float) -> None:
    config = TrainingConfig(epochs=10, schedule="constant", warmup_epochs=warmup)
    factors = [learning_rate_factor(config, step / 10_000) for step in range(60_000)]
    assert factors[0] > 0
    assert max(factors) <= 1
    assert factors == sorted(factors)


def test_the_schedule_reaches_the_optimiser(digits: Dataset) -> None:
    recipe: dict[str, Any] = {
        "schedule": "step",
        "milestones": (0.5,),
        "lr_decay": 0.1,
        "epochs": 2,
    }
    trainer = make_trainer(digits, "aucm", **recipe)
    assert [report["lr"] for report in train(trainer)] == pytest.approx([0.05, 0.005])
    groups = trainer.optimizer.param_groups
    assert len(groups) > 1  # of the model and of the loss
    assert all(g["lr"] == pytest.approx(0.1 * g["initial_lr"]) for g in groups)


def test_the_losses_own_parameters_are_not_decayed() -> None:
    loss = make_loss("aucm", num_classes=10)
    optimizer = make_optimizer(make_model(), loss, TrainingConfig(weight_decay=0.3))
    model_group, *own = optimizer.param_groups
    assert model_group["weight_decay"] == 0.3
    assert own and all(group["weight_decay"] == 0 for group in own)
    assert {id(p) for g in own for p in g["params"]} == {id(p) for p in loss.parameters()}


@pytest.mark.parametrize("loss", OWN)
def test_parameters_of_a_users_loss_are_trained(
    digits: Dataset, monkeypatch: pytest.MonkeyPatch, loss: str
) -> None:
    monkeypatch.syspath_prepend(Path(__file__).parents[1])
    trainer = make_trainer(digits, loss, weight_decay=0.3)
    (before,) = (parameter.detach().clone() for parameter in trainer.loss.parameters())
    train(trainer, 1)
    (after,) = trainer.loss.parameters()
    assert not torch.equal(before, after)
    assert trainer.optimizer.param_groups[1]["weight_decay"] == 0


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """Results of two workers, and of a single one."""
    script = Path(__file__).with_name("training_worker.py")
    return run_workers(script, tmp_path_factory.mktemp("workers"))


@pytest.mark.slow
@pytest.mark.parametrize("loss", [*LOSSES, *OTHER_TARGETS, *OWN])
def test_two_workers_train_as_one_does(results: dict[str, dict[str, Any]], loss: str) -> None:
    alone, first, second = (results[key][loss] for key in ("alone", "worker0", "worker1"))
    for part in ("model", "loss"):
        assert alone[part].keys() == first[part].keys()
        for name, value in alone[part].items():
            torch.testing.assert_close(first[part][name], value, atol=1e-5, rtol=1e-5)
            assert torch.equal(first[part][name], second[part][name])
    torch.testing.assert_close(first["logits"], alone["logits"], atol=1e-4, rtol=1e-4)
    assert torch.equal(first["logits"], second["logits"])
    for one, other in zip(alone["reports"], first["reports"], strict=True):
        assert other == pytest.approx(one, rel=1e-5)
    assert first["reports"] == second["reports"]


@pytest.mark.slow
def test_all_workers_continue_from_the_first_ones_checkpoint(
    results: dict[str, dict[str, Any]],
) -> None:
    first, second = (results[name]["resumed"] for name in ("worker0", "worker1"))
    assert first["epochs"] == second["epochs"] == [[1, 2], [3]]
    assert torch.equal(first["weights"], second["weights"])


@pytest.mark.parametrize("num_samples", [1, 3, 7, 100])
@pytest.mark.parametrize("batch_size", [2, 4, 5, 40])
@pytest.mark.parametrize("num_workers", [1, 2, 3, 4])
def test_empty_shares_are_refused(num_samples: int, batch_size: int, num_workers: int) -> None:
    batches = np.array_split(np.arange(num_samples), math.ceil(num_samples / batch_size))
    shares = [share for batch in batches for share in np.array_split(batch, num_workers)]
    if min(map(len, shares)) > 0:
        check_shares(num_samples, batch_size, num_workers)
    else:
        with pytest.raises(ValueError, match=f"batch_size = {batch_size} .* allowed: a batch_size"):
            check_shares(num_samples, batch_size, num_workers)


def test_the_memory_layout_does_not_change_the_result(
    digits: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = {}
    contiguous = "trainables.engine.training._memory_format", lambda _: torch.contiguous_format
    for layout in ("auto", "contiguous"):
        if layout == "contiguous":
            monkeypatch.setattr(*contiguous)
        torch.manual_seed(0)
        model = make_model_by_name(
            "small_cnn", input_shape=digits.samples.shape, num_classes=10, samples=digits.samples
        )
        config = TrainingConfig(epochs=2, batch_size=40, lr=0.05, augmentation="crop_flip")
        loss = make_loss("mixup", num_classes=10)
        trainer = Trainer(model, loss, digits, config, seed=0, device=CPU)
        found[layout] = (train(trainer), trainer.predict(digits.test)[0])
        deep = next(p for p in trainer.model.parameters() if p.dim() == 4 and p.shape[1] > 1)
        assert deep.is_contiguous(memory_format=torch.channels_last) == (layout != "contiguous")
    for one, other in zip(found["auto"][0], found["contiguous"][0], strict=True):
        assert one == pytest.approx(other, rel=1e-4)
    torch.testing.assert_close(found["auto"][1], found["contiguous"][1], atol=1e-3, rtol=1e-3)
