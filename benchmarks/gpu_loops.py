"""Custom loops for ``benchmarks.gpu_sweep``: one that trains, and two that fail once on a GPU.

On a CPU, the latter two only train.
"""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor, nn

from calsweep import Trial


def train(trial: Trial) -> None:
    """Train a linear classifier. It is small, so it needs no checkpoint."""
    x, y = (part.to(trial.device) for part in trial.tensors("train"))
    model = nn.Sequential(nn.Flatten(), nn.Linear(x[0].numel(), trial.num_classes)).to(trial.device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    @torch.no_grad()
    def predict(split: str) -> tuple[Tensor, Tensor]:
        inputs, labels = trial.tensors(split)  # type: ignore[arg-type]
        return model(inputs.to(trial.device)), labels

    for epoch in range(1, trial.epochs + 1):
        for rows in torch.arange(len(x), device=trial.device).split(64):
            optimizer.zero_grad()
            trial.loss(model(x[rows]), y[rows]).backward()
            optimizer.step()
        trial.report(epoch, validation=predict("validation"), test=lambda: predict("test"))


def take_much_memory(trial: Trial) -> None:
    """Take 40 % of the GPU, then train: too much for one of four trials that share it."""
    if trial.device.type == "cuda":
        total = torch.cuda.get_device_properties(trial.device).total_memory
        taken = torch.empty(2 * total // 5, dtype=torch.uint8, device=trial.device)
        del taken
    train(trial)


def fail_an_assertion_once(trial: Trial) -> None:
    """Trigger a device-side assertion, after which the process cannot use the GPU; then train."""
    mark: Path = trial.folder / "failed"
    if trial.device.type == "cuda" and not mark.exists():
        mark.touch()
        torch.ones(3, device=trial.device)[torch.tensor([7], device=trial.device)].sum().item()
    train(trial)
