"""Run components on a simulated GPU and on the CPU: python -m tests.harness.on_simulated_gpu.

Prints a line of JSON for each: how far the results differ, how often an epoch synchronised, which
operations have no CUDA kernel, and the error if one was raised. The components come from the
registries, so a new one is among them.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor
from torch.utils._pytree import tree_map_only

from tests.harness.simulated_gpu import DEVICE, register, simulated_gpu
from trainables import metrics as M
from trainables.contract.config import TrainingConfig
from trainables.data import Dataset, SegmentedImages, Split, load_dataset
from trainables.data.core.tasks import EachPixel
from trainables.engine.training import Trainer
from trainables.losses import available_losses, loss_class, make_loss
from trainables.models import make_model
from trainables.posthoc import available_posthoc, make_posthoc

CPU: Final = torch.device("cpu")
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
    "crop": {"augmentation": "crop"},
    "class weights": {"class_weights": "balanced"},
}


@dataclass(frozen=True)
class Training:
    """A training: what makes it on a device, after its first epoch."""

    name: str
    begin: Callable[[torch.device], Trainer]


@dataclass(frozen=True)
class Call:
    """What computes numbers on a device and returns them on the CPU."""

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
    """A training after its first epoch, as a checkpoint that was saved and loaded has it."""

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
    """Images of noise whose mask is where a channel is high."""
    draw = np.random.default_rng(0)
    images = draw.integers(0, 256, (48, 3, 8, 8), dtype=np.uint8)
    masks = (images[:, 0] // 86).astype(np.uint8)
    splits = [
        Split(images[part], masks[part]) for part in (slice(32), slice(32, 40), slice(40, 48))
    ]
    kind = SegmentedImages((3, 8, 8), mean=(0.5,) * 3, std=(0.25,) * 3)
    return Dataset("masks", *splits, ("a", "b", "c"), kind, task=EachPixel(64))


def cases() -> Iterator[Training | Call]:
    """All that is checked."""
    digits, pixels = load_dataset("digits", seed=0, train_samples=160), segmented()

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
    for name, recipe in _RECIPES.items():
        yield training(f"recipe {name}", **recipe)
    for name in available_posthoc():
        yield Call(f"posthoc {name}", partial(_scaled, name))
    yield Call("metrics", _metrics)


def _predictions() -> tuple[Tensor, Tensor]:
    draw = torch.Generator().manual_seed(0)
    logits = 3 * torch.randn(400, 4, generator=draw)
    return logits, (logits / 2).softmax(1).multinomial(1, generator=draw)[:, 0]


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
    """What came of one component on both devices."""
    expected, _ = _numbers(case, CPU, Counter())
    try:
        with simulated_gpu() as gpu:
            found, in_epoch = _numbers(case, DEVICE, gpu.synchronisations)
    except Exception as error:
        return {"name": case.name, "error": f"{type(error).__name__}: {error}"}
    return {
        "name": case.name,
        "error": None,
        "difference": (found - expected).abs().max().item(),
        "synchronisations": in_epoch,
        "without_kernel": sorted(gpu.without_kernel),
    }


def _numbers(
    case: Training | Call, device: torch.device, counter: Counter[str]
) -> tuple[Tensor, int | None]:
    """The result, and how often an epoch of a training synchronised."""
    if isinstance(case, Call):
        return case.run(device), None
    trainer = case.begin(device)
    before = counter.total()
    trainer.train_epoch()
    in_epoch = counter.total() - before
    return trainer.predict(trainer.dataset.validation)[0], in_epoch


def main() -> None:
    """Print them all, or those whose names begin with an argument."""
    register()
    torch.set_num_threads(1)
    for case in cases():
        if not sys.argv[1:] or case.name.startswith(tuple(sys.argv[1:])):
            print(json.dumps(outcome(case)), flush=True)


if __name__ == "__main__":
    main()
