"""Run components on a simulated GPU and on the CPU: python -m tests.harness.on_simulated_gpu.

Prints a line of JSON for each: how far the results differ, how often an epoch synchronised, which
operations have no CUDA kernel, and the error if one was raised. The components come from the
registries, so a new one is among them.
"""

from __future__ import annotations

import io
import json
import os
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any, Final, get_args

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from loky import get_reusable_executor
from PIL import Image
from torch import Tensor, nn
from torch.export.passes import move_to_device_pass
from torch.utils._pytree import tree_map_only

from tests.harness.simulated_gpu import DEVICE, in_this_thread, register, simulated_gpu
from tests.trainables.models.test_models import images, kinds, make, rows
from trainables import metrics as M
from trainables.contract.config import AugmentationName, TrainingConfig, TrialSetup
from trainables.contract.messages import COSTS, Progressed, TrialConfig
from trainables.contract.setting import Setting
from trainables.data import Dataset, SegmentedImages, Split, load_dataset
from trainables.data.core.tasks import EachPixel, SeveralLabels
from trainables.data.kinds.arrays import Images
from trainables.engine.feed import Feed
from trainables.engine.training import Trainer
from trainables.export.calibrated import CalibratedClassifier, CalibratedEnsemble
from trainables.export.exported import export_program, load_program
from trainables.losses import available_losses, loss_class, make_loss
from trainables.models import available_models, make_model
from trainables.posthoc import available_posthoc, make_posthoc
from trainables.trials.making import make_run
from trainables.trials.own_loop import Trial

CPU: Final = torch.device("cpu")
SLOW: Final = "slow:"  # prefix of the names of slow cases
_MODELS: Final = ("small_cnn", "mlp", "airbench_cifar")
_VARIANTS: Final[dict[str, list[dict[str, Any]]]] = {
    "kde_xe": [{}, {"bandwidth": "likelihood"}],
    "r_aurc": [{"confidence": c} for c in ("max_probability", "margin", "negative_entropy")],
    "cals_alm": [{"penalty": penalty} for penalty in ("phr", "p2", "p3")],
}
_RECIPES: Final[dict[str, dict[str, Any]]] = {
    "sgd": {"optimizer": "sgd", "nesterov": True, "lr": 0.05},
    "adam": {"optimizer": "adam", "lr": 1e-3},
    "adamw": {"optimizer": "adamw", "lr": 1e-3},
    "class weights": {"class_weights": "balanced"},
}


@dataclass(frozen=True)
class Training:
    """A training, given by a function that creates it on a device, after its first epoch."""

    name: str
    begin: Callable[[torch.device], Trainer]


@dataclass(frozen=True)
class Call:
    """A function that computes numbers on a device and returns them on the CPU."""

    name: str
    run: Callable[[torch.device], Tensor]


def begun(
    device: torch.device,
    data: Dataset,
    loss: str = "focal",
    model: str = "small_cnn",
    hyperparameters: dict[str, Any] | None = None,
    **recipe: Any,
) -> Trainer:
    """A training after its first epoch, restored from a checkpoint."""

    def trainer() -> Trainer:
        torch.manual_seed(0)
        network = make_model(
            model, input_shape=data.input_shape, num_classes=data.num_outputs, samples=data.samples
        )
        config = TrainingConfig(
            **{"epochs": 2, "batch_size": 64, "lr": 0.05, "precision": "float32", **recipe}
        )
        made = make_loss(loss, data.num_classes, **(hyperparameters or {}))
        return Trainer(network, made, data, config, seed=0, device=device)

    first = trainer()
    first.train_epoch()
    first.adapt_loss(*data.task.decisions_of(*first.predict(data.validation)))
    second = trainer()
    second.load_state_dict(tree_map_only(Tensor, lambda x: x.cpu(), first.state_dict()))
    return second


def segmented() -> Dataset:
    """Random images, with masks where a channel is high."""
    draw = np.random.default_rng(0)
    images = draw.integers(0, 256, (48, 3, 8, 8), dtype=np.uint8)
    masks = (images[:, 0] // 86).astype(np.uint8)
    splits = [
        Split(images[part], masks[part]) for part in (slice(32), slice(32, 40), slice(40, 48))
    ]
    kind = SegmentedImages((3, 8, 8), mean=(0.5,) * 3, std=(0.25,) * 3)
    return Dataset("masks", *splits, ("a", "b", "c"), kind, task=EachPixel(64))


def cases() -> Iterator[Training | Call]:
    """All cases to check."""
    digits = load_dataset("digits", seed=0, train_samples=128)
    yield from _trainings(digits)
    yield from _calls(digits)
    yield from _calls_of_metrics()
    yield from _calls_of_trained(digits)


def _trainings(digits: Dataset) -> Iterator[Training]:
    pixels = segmented()

    def training(name: str, data: Dataset = digits, **given: Any) -> Training:
        return Training(name, lambda device: begun(device, data, **given))

    for name in available_losses():
        for hyper in _VARIANTS.get(name, [{}]):
            words = " ".join(["loss", name, *map(str, hyper.values())])
            yield training(words, loss=name, hyperparameters=hyper)
        if pixels.task.accepts(loss_class(name)):
            yield training(f"pixels {name}", pixels, loss=name, model="small_fcn")
    for name in _MODELS:
        yield training(f"model {name}", model=name)
    for name in get_args(AugmentationName):
        yield training(f"augmentation {name}", augmentation=name)
    for name, recipe in _RECIPES.items():
        yield training(f"recipe {name}", **recipe)
    yield training("soft labels", replace(digits, train=_softened(digits.train)))
    weights = np.random.default_rng(0).random(len(digits.train.labels), np.float32)
    yield training("sample weights", replace(digits, train=replace(digits.train, weights=weights)))
    yield training("several labels", several_labels(), model="mlp")


def _calls(digits: Dataset) -> Iterator[Call]:
    for name in available_losses():
        loss = loss_class(name)
        if loss.soft_targets:
            yield Call(f"soft labels {name}", partial(_loss_of, name, soft=True))
        if loss.several_labels:
            yield Call(f"several labels {name}", partial(_loss_of, name, num_classes=2))
    yield Call(f"{SLOW} streamed images", _streamed)
    for name in available_models():
        yield Call(f"{SLOW} {name}", partial(_network, name))
    for name, resident in (("on the device", 2**30), ("read ahead", 0)):
        yield Call(f"feed {name}", partial(_fed, digits.train, resident))


def _calls_of_metrics() -> Iterator[Call]:
    for name in available_posthoc():
        yield Call(f"posthoc {name}", partial(_scaled, name))
    yield Call("metrics", _metrics)
    for name in M.METRIC_NAMES:
        yield Call(f"interval {name}", partial(_interval, name))
    for name in ("nll", "ece"):
        yield Call(f"difference {name}", partial(_difference, name))


def _calls_of_trained(digits: Dataset) -> Iterator[Call]:
    for members in (1, 2):
        yield Call(f"export {members}", partial(_exported, digits, members))
    # It is created on the CPU, in the first call.
    make = cache(lambda: export_program(_classifier(digits, 1), digits.test.rows(slice(2))))
    yield Call("export program", partial(_run_program, digits, make))
    for name in ("focal", "adafocal"):
        yield Call(f"own loop {name}", partial(_own_loop, digits, name))


def _predictions() -> tuple[Tensor, Tensor]:
    draw = torch.Generator().manual_seed(0)
    logits = 3 * torch.randn(400, 4, generator=draw)
    return logits, (logits / 2).softmax(1).multinomial(1, generator=draw)[:, 0]


def _softened(split: Split) -> Split:
    soft = np.full((len(split.labels), 10), 0.02, np.float32)
    soft[np.arange(len(soft)), split.labels] = 0.82
    return replace(split, soft=soft)


def several_labels() -> Dataset:
    """Random images; each label is whether a channel is bright."""
    draw = np.random.default_rng(0)
    images = draw.integers(0, 256, (96, 3, 8, 8), dtype=np.uint8)
    labels = (images.mean((2, 3)) > 127).astype(np.int64)
    splits = [
        Split(images[part], labels[part]) for part in (slice(64), slice(64, 80), slice(80, 96))
    ]
    kind = Images((3, 8, 8), mean=(0.5,) * 3, std=(0.25,) * 3)
    names = ("red", "green", "blue")
    return Dataset("bright", *splits, ("no", "yes"), kind, task=SeveralLabels(names))


def _loss_of(name: str, device: torch.device, num_classes: int = 10, soft: bool = False) -> Tensor:
    """Value and gradient of a loss."""
    draw = torch.Generator().manual_seed(0)
    logits = torch.randn(32, num_classes, generator=draw)
    targets = torch.randint(num_classes, (32,), generator=draw)
    if soft:
        targets = torch.randn(32, num_classes, generator=draw).softmax(1)
    loss = make_loss(name, num_classes).to(device)
    loss.on_train_begin(32)
    own = logits.to(device).requires_grad_()
    given = {"indices": torch.arange(32, device=device), "features": own}
    value = loss(own, targets.to(device), **given)
    (gradient,) = torch.autograd.grad(value, own)
    return torch.cat([value.detach().cpu().flatten(), gradient.cpu().flatten()])


def _network(name: str, device: torch.device) -> Tensor:
    """Logits of a model, and the gradient of its first parameter."""
    torch.manual_seed(0)
    (samples,) = kinds(name, images(3, 16, 16))
    model = make(name, samples, num_classes=4).eval().to(device)
    logits = model(rows(samples, 2).to(device))
    first = next(model.parameters())
    (gradient,) = torch.autograd.grad(logits.square().mean(), first)
    return torch.cat([logits.detach().cpu().flatten(), gradient.cpu().flatten()])


def _fed(split: Split, resident: int, device: torch.device) -> Tensor:
    rows = np.random.default_rng(0).permutation(len(split.labels))
    batches = list(Feed(split, device, resident).batches(np.array_split(rows, 3)))
    assert all(part.device == batches[0][0].device for batch in batches for part in batch)
    return torch.cat([part.cpu().double().flatten() for batch in batches for part in batch])


def _streamed(device: torch.device) -> Tensor:
    """Batches of streamed images, decoded by processes."""
    draw = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        images = []
        for _ in range(40):
            stream = io.BytesIO()
            Image.fromarray(draw.integers(0, 256, (20, 20, 3), np.uint8)).save(stream, "PNG")
            images.append(stream.getvalue())
        table = pa.table({"image": images, "label": np.arange(40) % 2})
        pq.write_table(table, f"{folder}/a.parquet")
        data = load_dataset(
            "parquet",
            train=f"{folder}/a.parquet",
            image_size=16,
            seed=0,
            storage="stream",
            cache=folder,
        )
        assert data.train.is_streamed
        found = _fed(data.train, 0, device)
    get_reusable_executor().shutdown(kill_workers=True)  # it would keep the output open
    return found


def _interval(name: str, device: torch.device) -> Tensor:
    logits, labels = _predictions()
    found = M.interval(name, logits.softmax(1).to(device), labels.to(device))
    return torch.tensor(found).nan_to_num(-1)


def _difference(name: str, device: torch.device) -> Tensor:
    logits, labels = _predictions()
    ours, theirs = ([(scale * logits + n / 9).softmax(1).to(device) for n in range(2)]
        for scale in (1.0, 0.5))  # fmt: skip
    found = M.difference(name, ours, theirs, labels.to(device), candidates=4)
    return torch.tensor([found.value, found.low, found.high])


def _classifier(data: Dataset, members: int) -> CalibratedClassifier | CalibratedEnsemble:
    torch.manual_seed(0)
    networks = [
        make_model("small_cnn", input_shape=data.input_shape, num_classes=10, samples=data.samples)
        for _ in range(members)
    ]
    every = [CalibratedClassifier(each, data.samples, 1.5, data.classes) for each in networks]
    return every[0] if members == 1 else CalibratedEnsemble(every, 0.9)


@torch.no_grad()
def _exported(data: Dataset, members: int, device: torch.device) -> Tensor:
    found: Tensor = _classifier(data, members).to(device)(_rows(data).to(device))
    return found.cpu()


@torch.no_grad()
def _run_program(data: Dataset, make: Callable[[], bytes], device: torch.device) -> Tensor:
    program = move_to_device_pass(load_program(make()), device)
    found: Tensor = program.module()(_rows(data).to(device))
    return found.cpu()


def _rows(data: Dataset) -> Tensor:
    return torch.from_numpy(data.test.rows(slice(8)))


def train_it(trial: Trial) -> None:
    """A custom loop, with a checkpoint."""
    with nullcontext() if trial.device == CPU else in_this_thread():
        x, y = (part.to(trial.device) for part in trial.tensors("train"))
        torch.manual_seed(0)
        model = nn.Sequential(nn.Flatten(), nn.Linear(x[0].numel(), 10)).to(trial.device)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        kept, file = {"model": model, "loss": trial.loss}, trial.folder / "last.pt"
        first = 1
        if file.exists():
            state = torch.load(file)
            for name, part in kept.items():
                part.load_state_dict(state[name])
            first = state["epoch"] + 1
        for epoch in range(first, trial.epochs + 1):
            trial.loss(model(x), y).backward()
            optimizer.step()
            optimizer.zero_grad()
            with torch.no_grad():
                found = {
                    split: (
                        model(trial.tensors(split)[0].to(trial.device)),
                        trial.tensors(split)[1],
                    )
                    for split in ("validation", "test")
                }
            trial.report(epoch, validation=found["validation"], test=found["test"])
            state = {name: part.state_dict() for name, part in kept.items()}
            state = tree_map_only(Tensor, lambda t: t.cpu(), state)
            torch.save(state | {"epoch": epoch}, file)


def _own_loop(data: Dataset, loss: str, device: torch.device) -> Tensor:
    """The last epoch of a custom loop that was interrupted after its first one."""
    with tempfile.TemporaryDirectory() as folder:
        setup = TrialSetup(
            model=f"{__package__}.on_simulated_gpu:train_it",
            model_options={},
            training=TrainingConfig(epochs=3),
            trials_uri=folder,
            outcome_epochs=(3,),
            own_loop=True,
        )
        config = TrialConfig(0, "search", Setting(loss, {}), 1)
        first = make_run(data, setup, config, device)
        first.advance()
        first.close()
        second = make_run(data, setup, config, device)
        while not (report := second.advance()).done:
            pass
        assert isinstance(report, Progressed), report
        last = report.entries[-1]
        return torch.tensor([v for k, v in sorted(last.items()) if k not in COSTS]).nan_to_num(-1)


def _scaled(name: str, device: torch.device) -> Tensor:
    logits, labels = _predictions()
    method = make_posthoc(name)
    method.fit(logits.to(device), labels.to(device))
    return method(logits.to(device)).detach().cpu()


def _metrics(device: torch.device) -> Tensor:
    logits, labels = _predictions()
    found = M.evaluate(logits.to(device), labels.to(device))
    return torch.tensor(list(found.values()))


def outcome(case: Training | Call) -> dict[str, Any]:
    """The results of one component on both devices."""
    expected, *_ = _numbers(case, CPU, Counter())
    try:
        with simulated_gpu() as gpu:
            found, in_epoch, in_validation = _numbers(case, DEVICE, gpu.synchronisations)
    except Exception as error:
        return {"name": case.name, "error": f"{type(error).__name__}: {error}"}
    return {
        "name": case.name,
        "error": None,
        "difference": (found - expected).abs().max().item(),
        "synchronisations": in_epoch,
        "in_validation": in_validation,
        "without_kernel": sorted(gpu.without_kernel),
    }


def _numbers(
    case: Training | Call, device: torch.device, counter: Counter[str]
) -> tuple[Tensor, int | None, int | None]:
    """The result, and the numbers of synchronisations in an epoch and to adapt the loss."""
    if isinstance(case, Call):
        return case.run(device), None, None
    trainer = case.begin(device)
    before = counter.total()
    trainer.train_epoch()
    in_epoch = counter.total() - before
    data = trainer.dataset
    logits, labels = trainer.predict(data.validation)
    before = counter.total()
    trainer.adapt_loss(*data.task.decisions_of(logits, labels))
    return logits, in_epoch, counter.total() - before


def all_outcomes() -> list[dict[str, Any]]:
    """The results of all components."""
    return list(_outcomes(()))


def planted(statements: list[str]) -> dict[str, list[Any]]:
    """Problems of a GPU: number of synchronisations, operations without a kernel, and the error."""
    register()
    library = torch.library.Library("planted", "DEF")
    library.define("double(Tensor x) -> Tensor")
    library.impl("double", lambda x: 2 * x, "CPU")
    found = {}
    for statement in statements:
        error = ""
        with simulated_gpu() as gpu:
            x = torch.arange(6.0, device=DEVICE)
            try:
                eval(statement, {"torch": torch, "x": x})
            except RuntimeError as raised:
                error = str(raised)
        found[statement] = [gpu.synchronisations.total(), sorted(gpu.without_kernel), error]
    return found


def _outcomes(wanted: tuple[str, ...]) -> Iterator[dict[str, Any]]:
    register()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    for case in cases():
        if not wanted or case.name.startswith(wanted):
            yield outcome(case)


def main() -> None:
    """Print the cases whose names begin with an argument; by default all."""
    for found in _outcomes(tuple(sys.argv[1:])):
        print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
    os._exit(0)  # autograd's thread for the device sometimes aborts a normal exit
