"""GPU memory of a trial: estimated before a sweep, and measured.

    python -m benchmarks.gpu_memory [--models small_cnn resnet18_cifar ...]

Each model trains two epochs of random data and evaluates them in a process of its own. *Estimated*
is what decides how many trials share a GPU; *measured* is what the driver reports for the process
at its end, when it still holds its largest allocations. The exit code is 1 if an estimate is off by
more than a quarter.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from dataclasses import fields, replace
from typing import Any

import numpy as np
import torch

from benchmarks.training import random_images, settled_precision
from trainables.contract.config import TrainingConfig
from trainables.data.core.base import Dataset, Split
from trainables.data.kinds.tokens import Tokens
from trainables.engine.training import Trainer
from trainables.engine.workload import device_memory, measure
from trainables.losses import make_loss
from trainables.models import model_for
from trainables.models.recipes import Recipe, usual_recipe

MODELS = ("small_cnn", "resnet18_cifar", "airbench_cifar", "timm/resnet26", "gpool_cnn")
TEXTS = ("gpool_cnn",)
ALLOWED = 0.25


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--models", nargs="+", default=MODELS)
    parser.add_argument("--one", action="store_true", help="measure in this process")
    arguments = parser.parse_args()
    if arguments.one:
        print(json.dumps(memory_of(arguments.models[0])))
        return 0
    print("| model | batch size | estimated, MiB | measured, MiB | ratio |")
    print("| --- | --- | --- | --- | --- |")
    worst = 0.0
    for model in arguments.models:
        command = [sys.executable, "-m", "benchmarks.gpu_memory", "--one", "--models", model]
        output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
        found = json.loads(output.splitlines()[-1])
        ratio = found["estimated"] / found["measured"]
        worst = max(worst, abs(ratio - 1))
        sizes = f"{found['estimated']:,.0f} | {found['measured']:,.0f}"
        print(f"| {model} | {found['batch_size']} | {sizes} | {ratio:.2f} |", flush=True)
    print(f"largest error {worst:.0%} of the measured memory; allowed {ALLOWED:.0%}")
    return 0 if worst <= ALLOWED else 1


def memory_of(model: str) -> dict[str, float]:
    """Estimated and measured memory of a trial in MiB, and its batch size."""
    import pynvml

    pynvml.nvmlInit()
    gpu = pynvml.nvmlDeviceGetHandleByIndex(0)
    before = pynvml.nvmlDeviceGetMemoryInfo(gpu).used
    device = torch.device("cuda", 0)
    dataset = random_texts() if model in TEXTS else random_images((3, 32, 32), 20_480)
    some = Split(dataset.train.inputs[:1_024], dataset.train.labels[:1_024])  # whole batches
    dataset = replace(dataset, validation=some)
    options: dict[str, Any] = {}
    recipe = TrainingConfig(**settled(usual_recipe(model, options)))
    recipe = replace(recipe, precision=settled_precision(model, dataset, recipe.batch_size, device))
    estimated = device_memory(
        measure(model, options, dataset), recipe.batch_size, recipe.eval_batch_size
    )
    loss = make_loss("cross_entropy", num_classes=dataset.num_classes)
    trainer = Trainer(model_for(dataset, model, options), loss, dataset, recipe, 0, device)
    for _ in range(2):
        trainer.train_epoch()
        trainer.predict(dataset.validation)
    held = torch.cuda.memory_reserved(), torch.cuda.max_memory_reserved()
    used = pynvml.nvmlDeviceGetMemoryInfo(gpu).used - before - held[0] + held[1]
    figures = {"estimated": estimated, "measured": used, "tensors": held[1]}
    return {"batch_size": recipe.batch_size, **{k: v / 2**20 for k, v in figures.items()}}


def settled(recipe: Recipe) -> dict[str, Any]:
    """The keys of a recipe that training reads."""
    known = {field.name for field in fields(TrainingConfig)}
    return {key: value for key, value in recipe.items() if key in known}


def random_texts(samples: int = 5_000, length: int = 200, words: int = 20_000) -> Dataset:
    """Random texts of ten classes."""
    draw = np.random.default_rng(0)
    kind = Tokens((length,), tuple(map(str, range(words))))

    def split(count: int) -> Split:
        numbers = draw.integers(0, kind.num_tokens, (count, length), dtype=np.int32)
        return Split(numbers, np.arange(count) % 10)

    names = tuple(map(str, range(10)))
    return Dataset("noise", split(samples), split(1_000), split(1_000), names, kind)


if __name__ == "__main__":
    sys.exit(main())
