"""One step of Hugging Face's Trainer, with the loss of docs/python.md.

``python trainer_worker.py RANK FOLDER`` is one of two processes.
"""

import os
import re
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch import distributed as dist

import calsweep

PAGE = Path(__file__).parents[2] / "docs/python.md"
SAMPLES, FEATURES, CLASSES = 32, 6, 3
LOSSES = ("DualFocal", "MaximumMeanCalibration")


def documented(criterion: nn.Module) -> Callable[..., Tensor]:
    """The function in the documentation, with this loss."""
    (text,) = re.findall(
        r"^(def compute_loss\(.*?)^```$", PAGE.read_text(), re.DOTALL | re.MULTILINE
    )
    names = {"criterion": criterion}
    exec(text, names)
    return names["compute_loss"]


def data() -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    inputs = torch.randn(SAMPLES, FEATURES, generator=generator)
    return inputs, torch.randint(0, CLASSES, (SAMPLES,), generator=generator)


class Linear(nn.Module):
    """A model as the Trainer expects it; its weights are 0 at first."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(FEATURES, CLASSES, bias=False)
        nn.init.zeros_(self.layer.weight)

    def forward(self, inputs: Tensor) -> Any:
        from transformers.modeling_outputs import SequenceClassifierOutput

        return SequenceClassifierOutput(logits=self.layer(inputs))


def step(name: str, batch: int, accumulated: int, folder: Path) -> Tensor:
    """The change of the weights after one step of gradient descent with learning rate 1."""
    from transformers import Trainer, TrainingArguments

    rows = [{"inputs": x, "labels": y} for x, y in zip(*data(), strict=True)]
    model = Linear()
    arguments = TrainingArguments(
        output_dir=str(folder),
        per_device_train_batch_size=batch,
        gradient_accumulation_steps=accumulated,
        max_steps=1,
        learning_rate=1.0,
        lr_scheduler_type="constant",
        optim="sgd",
        max_grad_norm=0.0,
        use_cpu=True,
        report_to=[],
        save_strategy="no",
        disable_tqdm=True,
        logging_strategy="no",
        remove_unused_columns=False,
    )
    loss = getattr(calsweep.losses, name)()
    Trainer(model, arguments, train_dataset=rows, compute_loss_func=documented(loss)).train()
    return -model.layer.weight.detach()


def expected(name: str) -> Tensor:
    """The gradient of the loss of all samples."""
    model, (inputs, labels) = Linear(), data()
    getattr(calsweep.losses, name)()(model.layer(inputs), labels).backward()
    assert model.layer.weight.grad is not None
    return model.layer.weight.grad


def _work(rank: int, folder: Path) -> dict[str, Tensor]:
    os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2"}
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1"}  # not used: they have met
    dist.init_process_group(
        "gloo",
        init_method=f"file://{folder}/meet",
        rank=rank,
        world_size=2,
        timeout=timedelta(seconds=120),
    )
    found = {f"{name} 1": step(name, 16, 1, folder) for name in LOSSES}
    found["DualFocal 4"] = step("DualFocal", 4, 4, folder)
    dist.barrier()
    dist.destroy_process_group()
    return found


if __name__ == "__main__":
    torch.set_num_threads(1)
    worker, place = int(sys.argv[1]), Path(sys.argv[2])
    torch.save(_work(worker, place), place / f"{worker}.pt")
