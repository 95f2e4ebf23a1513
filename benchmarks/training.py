"""Images per second of the training loop, compared with a plain PyTorch loop and the model alone.

    python -m benchmarks.training [--device cuda] [--model small_cnn] [--shape 1 28 28] [--seeds 5]
                                  [--data ../shared/data] [--batch-size 128] [--samples 1280]
                                  [--rounds 10]

All train the same model on the same random images with the same batch size, in turns, in one run.
*Ours* uses the precision that a sweep would use (printed in the first line), and float32; on a GPU
also without CUDA graphs. *Plain* is the loop of tutorials: a ``DataLoader`` over float32 images,
without autocast. *Alone* is forward, loss, backward and step on one prepared batch, on a GPU also
captured as a CUDA graph; the fastest is an upper bound for any loop. ``--processes N`` trains in N
processes at the same time, as trials that share a GPU do, and prints the sum. On a CPU, the figures
are per second of CPU time in one thread, which other work on the machine affects little; on a GPU,
per second of wall time.

The second table trains with several seeds, to show that speed costs neither accuracy nor
calibration: on 10,000 images of Fashion-MNIST if ``--data`` has its files, else on digits.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader
from torch.utils.data import Dataset as TorchDataset

from trainables import metrics as M
from trainables.contract.config import Precision, TrainingConfig
from trainables.data import load_dataset
from trainables.data.core.base import Dataset, Split
from trainables.data.kinds.arrays import Images
from trainables.engine import workload
from trainables.engine.precision import cpu_has_bfloat16, gains_on_cpus
from trainables.engine.training import Trainer
from trainables.losses import make_loss
from trainables.models import Classifier, make_model

SECONDS = 4.0  # of a process beside others


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--model", default="small_cnn")
    parser.add_argument("--shape", type=int, nargs=3, default=(1, 28, 28))
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--samples", type=int, default=1_280, help="of an epoch of the first table")
    parser.add_argument("--augmentation", default="crop_flip")
    parser.add_argument("--rounds", type=int, help="of the first table; by default 10, on a GPU 3")
    parser.add_argument("--seeds", type=int, default=0, help="of the second table; 0 for none")
    parser.add_argument("--epochs", type=int, help="of the second table; by default 20 or 8")
    parser.add_argument("--data", help="folder of FashionMNIST/raw")
    parser.add_argument("--processes", type=int, default=1, help="on a GPU: trials that share it")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    device = torch.device(arguments.device)
    dataset = random_images(tuple(arguments.shape), arguments.samples)
    config = TrainingConfig(
        epochs=100,
        batch_size=arguments.batch_size,
        augmentation=arguments.augmentation,
        precision=settled_precision(arguments.model, dataset, arguments.batch_size, device),
    )
    print(f"torch {torch.__version__}, {device}, {arguments.model}, {arguments.shape}, {config}")
    if arguments.processes > 1:
        for name, own in forms_of(config, device).items():
            speed = speed_of_several(arguments.processes, arguments.model, dataset, own, device)
            print(f"{arguments.processes} processes, {name:16s}{speed:10,.0f} images/s", flush=True)
        return
    rounds = arguments.rounds or (10 if device.type == "cpu" else 3)
    speeds = measure(arguments.model, dataset, config, device, rounds)
    alone = speeds["alone"]
    print(f"\n{'images/s':28s}{'':>10s}{'of alone':>10s}")
    for name, speed in speeds.items():
        print(f"{name:28s}{speed:10,.0f}{speed / alone:10.2f}")
    if arguments.seeds:
        print_quality(arguments.seeds, arguments.epochs, arguments.data, device)


def random_images(shape: tuple[int, ...], samples: int = 1_280) -> Dataset:
    """Random images of ten classes, as uint8 like decoded images."""
    draw = np.random.default_rng(0)

    def split(count: int) -> Split:
        pixels = draw.integers(0, 256, (count, *shape), dtype=np.uint8)
        return Split(pixels, np.arange(count) % 10)

    train = split(samples)
    names = tuple(map(str, range(10)))
    return Dataset("noise", train, split(100), split(100), names, Images.measured(train.inputs))


def measure(
    model: str, dataset: Dataset, config: TrainingConfig, device: torch.device, rounds: int
) -> dict[str, float]:
    """Images per second of each loop, the fastest of several rounds."""
    few = random_images(dataset.samples.shape, min(len(dataset.train), 5_120))  # it is slow
    captured = ("", ", captured") if device.type == "cuda" else ("",)
    steps = {
        **{
            name: our_epochs(model, dataset, own, device)
            for name, own in forms_of(config, device).items()
        },
        "plain DataLoader, float32": plain_epochs(model, few, config, device),
        **{
            f"alone, {layout}, {precision}{graph}": model_alone(
                model, dataset, config, device, layout, precision, graph != ""
            )
            for layout, precision, graph in itertools.product(
                ("contiguous", "channels_last"), ("float32", "bfloat16"), captured
            )
        },
    }
    fastest = dict.fromkeys(steps, 0.0)
    for step in steps.values():
        next(step)  # warm
    for _ in range(rounds):
        for name, step in steps.items():
            fastest[name] = max(fastest[name], speed_of(step, device))
    best = max(speed for name, speed in fastest.items() if name.startswith("alone"))
    return {**fastest, "alone": best}


def forms_of(config: TrainingConfig, device: torch.device) -> dict[str, TrainingConfig]:
    """Recipes of our loop that are compared."""
    forms = {"ours": config, "ours, float32": replace(config, precision="float32")}
    if device.type == "cuda":
        forms |= {
            f"{name}, not captured": replace(own, cuda_graphs=False) for name, own in forms.items()
        }
    return forms


def speed_of_several(
    count: int, model: str, dataset: Dataset, config: TrainingConfig, device: torch.device
) -> float:
    """Images per second of all processes together, once all are warm."""
    context = torch.multiprocessing.get_context("spawn")
    with context.Manager() as manager, context.Pool(count) as pool:
        task = manager.Barrier(count), model, dataset, config, device
        return sum(pool.starmap(speed_beside_others, [task] * count, chunksize=1))


def speed_beside_others(
    start: Any, model: str, dataset: Dataset, config: TrainingConfig, device: torch.device
) -> float:
    """Images per second of one process; all wait at the barrier ``start``."""
    epochs = our_epochs(model, dataset, config, device)
    next(epochs)
    finish(device)
    start.wait()
    began, images = time.perf_counter(), 0
    while time.perf_counter() - began < SECONDS:
        images += next(epochs)
    finish(device)
    return images / (time.perf_counter() - began)


def settled_precision(
    model: str, dataset: Dataset, batch_size: int, device: torch.device
) -> Precision:
    """The precision that a sweep on this hardware would use."""
    if device.type == "cuda":
        faster = torch.cuda.is_bf16_supported(including_emulation=False)
    else:
        operations = batch_size * workload.operations_of_layers(model, {}, dataset)
        faster = cpu_has_bfloat16() and gains_on_cpus(operations)
    return "bfloat16" if faster else "float32"


def speed_of(step: Iterator[int], device: torch.device) -> float:
    """Images per second over one round of at least a fifth of a second."""
    clock = time.process_time if device.type == "cpu" else time.perf_counter
    finish(device)
    start, images = clock(), 0
    while clock() - start < 0.2:
        images += next(step)
        finish(device)
    return images / (clock() - start)


def finish(device: torch.device) -> None:
    """Wait for the device."""
    if device.type == "cuda":
        torch.cuda.synchronize()


def fresh(model: str, dataset: Dataset) -> Classifier:
    """The model, with the same weights each time."""
    torch.manual_seed(0)
    return make_model(
        model,
        input_shape=dataset.samples.shape,
        num_classes=dataset.num_classes,
        samples=dataset.samples,
    )


def our_epochs(
    model: str, dataset: Dataset, config: TrainingConfig, device: torch.device
) -> Iterator[int]:
    """One epoch of our loop per iteration."""
    loss = make_loss("cross_entropy", num_classes=dataset.num_classes)
    trainer = Trainer(fresh(model, dataset), loss, dataset, config, seed=0, device=device)
    while True:
        trainer.train_epoch()
        yield len(dataset.train)


class FloatImages(TorchDataset[tuple[Tensor, int]]):
    """A dataset as in tutorials: one normalised, augmented sample at a time."""

    def __init__(self, dataset: Dataset, augmentation: str) -> None:
        from torchvision.transforms import v2

        self._images = torch.from_numpy(dataset.train.rows(slice(None)).copy())
        self._labels = dataset.train.labels.tolist()
        size = dataset.samples.shape[-1]
        samples = dataset.samples
        assert isinstance(samples, Images)
        parts: list[nn.Module] = []
        if augmentation != "none":
            parts.append(v2.RandomCrop(size, padding=size // 8))
        if augmentation == "crop_flip":
            parts.append(v2.RandomHorizontalFlip())
        parts.append(v2.ToDtype(torch.float32, scale=True))
        self._transform = v2.Compose([*parts, v2.Normalize(samples.mean, samples.std)])

    def __len__(self) -> int:
        return len(self._labels)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        return self._transform(self._images[index]), self._labels[index]


def plain_epochs(
    model: str, dataset: Dataset, config: TrainingConfig, device: torch.device
) -> Iterator[int]:
    """One epoch of the plain loop per iteration; on a CPU, CPU time includes its workers."""
    net = fresh(model, dataset).to(device)
    workers = 0 if device.type == "cpu" else 8
    loader = DataLoader(
        FloatImages(dataset, config.augmentation or "none"),
        config.batch_size,
        shuffle=True,
        num_workers=workers,
        pin_memory=device.type == "cuda",
        persistent_workers=workers > 0,
    )
    optimizer = make_sgd(net, config)
    while True:
        for images, labels in loader:
            train_step(net, optimizer, images.to(device), labels.to(device))
        yield len(dataset.train)


def model_alone(
    model: str,
    dataset: Dataset,
    config: TrainingConfig,
    device: torch.device,
    layout: str,
    precision: str,
    captured: bool,
) -> Iterator[int]:
    """Some training steps on one batch per iteration; as a CUDA graph if ``captured``."""
    form = torch.channels_last if layout == "channels_last" else torch.contiguous_format
    net = fresh(model, dataset).to(device).to(memory_format=form)
    images = torch.randn(config.batch_size, *dataset.samples.shape, device=device)
    images = images.contiguous(memory_format=form)
    labels = torch.arange(config.batch_size, device=device) % dataset.num_classes
    optimizer = make_sgd(net, config)
    steps = max(1, len(dataset.train) // config.batch_size)

    def step() -> None:
        with torch.autocast(device.type, torch.bfloat16, enabled=precision == "bfloat16"):
            logits = net(images)
        train_on(logits.float(), labels, optimizer)

    run = as_graph(step) if captured else step
    while True:
        for _ in range(steps):
            run()
        yield steps * config.batch_size


def as_graph(step: Callable[[], None]) -> Callable[[], None]:
    """A step that is replayed from now on."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return graph.replay


def make_sgd(net: nn.Module, config: TrainingConfig) -> torch.optim.Optimizer:
    """The same optimiser as ours."""
    return torch.optim.SGD(
        net.parameters(),
        config.lr,
        config.momentum,
        weight_decay=config.weight_decay,
        fused=True,
    )


def train_step(
    net: nn.Module, optimizer: torch.optim.Optimizer, images: Tensor, labels: Tensor
) -> None:
    """Forward, loss, backward, step."""
    train_on(net(images), labels, optimizer)


def train_on(logits: Tensor, labels: Tensor, optimizer: torch.optim.Optimizer) -> None:
    """Loss, backward, step."""
    loss = nn.functional.cross_entropy(logits, labels)
    optimizer.zero_grad(set_to_none=True)
    torch.autograd.backward(loss)
    optimizer.step()


def print_quality(seeds: int, epochs: int | None, data: str | None, device: torch.device) -> None:
    """Accuracy, NLL and ECE on the test split, mean and standard error over seeds."""
    if data is None:
        dataset = load_dataset("digits", seed=0)
        config = TrainingConfig(epochs=epochs or 20, batch_size=64, lr=0.05)
    else:
        dataset = load_dataset("fashion_mnist", root=data, train_samples=10_000, seed=0)
        config = TrainingConfig(epochs=epochs or 8, batch_size=128, lr=0.05)
    forms = {
        "ours, bfloat16": replace(config, precision="bfloat16"),
        "ours, float32": replace(config, precision="float32"),
    }
    names = ("accuracy", "nll", "ece")
    print(
        f"\n{seeds} seeds on {dataset.name}".ljust(29) + "".join(f"{name:>20s}" for name in names)
    )
    for name, form in forms.items():
        found = [quality(dataset, form, seed, device) for seed in range(seeds)]
        cells = []
        for metric in names:
            values = [each[metric] for each in found]
            error = statistics.stdev(values) / len(values) ** 0.5 if len(values) > 1 else 0.0
            cells.append(f"{statistics.fmean(values):.4f} ± {error:.4f}".rjust(20))
        print(f"{name:28s}{''.join(cells)}", flush=True)


def quality(
    dataset: Dataset, config: TrainingConfig, seed: int, device: torch.device
) -> dict[str, float]:
    """Metrics on the test split after a full training."""
    torch.manual_seed(seed)
    model = make_model(
        "small_cnn",
        input_shape=dataset.samples.shape,
        num_classes=dataset.num_classes,
        samples=dataset.samples,
    )
    loss = make_loss("cross_entropy", num_classes=dataset.num_classes)
    trainer = Trainer(model, loss, dataset, config, seed=seed, device=device)
    for _ in range(config.epochs):
        trainer.train_epoch()
    return M.evaluate(*trainer.predict(dataset.test), names=("accuracy", "nll", "ece"))


if __name__ == "__main__":
    main()
