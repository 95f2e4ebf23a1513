"""A training loop in plain PyTorch: ``trainable: plain:train``."""

from typing import Any

import torch
from torch import Tensor, nn

from calsweep import Trial


def make_model(trial: Trial, width: int) -> nn.Module:
    vectors = trial.vectors()  # flattens inputs; categories of a table become one-hot
    return nn.Sequential(
        vectors,
        nn.Linear(vectors.size, width),
        nn.ReLU(),
        nn.Linear(width, trial.num_classes),
    )


def train(trial: Trial, width: int = 64, lr: float = 0.01, batch_size: int = 64) -> None:
    x, y = (part.to(trial.device) for part in trial.tensors("train"))
    model = make_model(trial, width).to(trial.device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr)
    kept = {"model": model, "optimizer": optimizer, "loss": trial.loss}
    checkpoint, first = trial.folder / "last.pt", 1
    if checkpoint.exists():  # the trial was cut off, and continues
        state = torch.load(checkpoint, map_location=trial.device, weights_only=True)
        for name, part in kept.items():
            part.load_state_dict(state[name])
        first = state["epoch"] + 1

    @torch.no_grad()
    def predict(split: str) -> tuple[Tensor, Tensor]:
        inputs, labels = trial.tensors(split)
        return model.eval()(inputs.to(trial.device)), labels

    for epoch in range(first, trial.epochs + 1):
        model.train()
        torch.manual_seed(trial.seed * 1000 + epoch)  # the same order after an interruption
        for rows in torch.randperm(len(x)).split(batch_size):
            value = trial.loss(model(x[rows]), y[rows])
            optimizer.zero_grad()
            value.backward()
            optimizer.step()
        trial.report(
            epoch,
            validation=predict("validation"),
            test=lambda: predict("test"),
            train_loss=value.item(),
        )
        state = {name: part.state_dict() for name, part in kept.items()} | {"epoch": epoch}
        torch.save(state, trial.folder / "new.pt")  # a file that is cut short is never read
        (trial.folder / "new.pt").replace(checkpoint)


def load(trial: Trial, width: int = 64, **_: Any) -> nn.Module:
    """The model that was trained, for `calsweep export` and `result.model()`."""
    model = make_model(trial, width)
    model.load_state_dict(torch.load(trial.folder / "last.pt", weights_only=True)["model"])
    return model
