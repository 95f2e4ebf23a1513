"""A LightningModule as it is, with one callback: ``trainable: with_lightning:train``."""

import math

import lightning as L
import torch
from lightning.pytorch.callbacks import ModelCheckpoint
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from calsweep import Trial


class Classifier(L.LightningModule):
    def __init__(self, loss: nn.Module, inputs: int, num_classes: int, width: int) -> None:
        super().__init__()
        self.loss = loss  # so that what the loss learns is in the checkpoints
        self.network = nn.Sequential(
            nn.Flatten(), nn.Linear(inputs, width), nn.ReLU(), nn.Linear(width, num_classes)
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.network(x)

    def training_step(self, batch: list[Tensor], _: int) -> Tensor:
        x, y = batch
        return self.loss(self(x), y)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(self.network.parameters(), lr=0.01)


class Report(L.Callback):
    """Reports each epoch. Lightning calls ModelCheckpoint after all other callbacks."""

    def __init__(self, trial: Trial) -> None:
        self.trial = trial

    @torch.no_grad()
    def predict(self, model: L.LightningModule, split: str) -> tuple[Tensor, Tensor]:
        inputs, labels = self.trial.tensors(split)
        return model.eval()(inputs.to(model.device)), labels

    def on_train_epoch_end(self, trainer: L.Trainer, model: L.LightningModule) -> None:
        self.trial.report(
            trainer.current_epoch + 1,
            validation=self.predict(model, "validation"),
            test=lambda: self.predict(model, "test"),
        )
        model.train()


def make_model(trial: Trial, width: int) -> Classifier:
    return Classifier(trial.loss, math.prod(trial.data.input_shape), trial.num_classes, width)


def train(trial: Trial, width: int = 64) -> None:
    dataset = TensorDataset(*trial.tensors("train"))
    model = make_model(trial, width)
    trainer = L.Trainer(
        max_epochs=trial.epochs,
        accelerator=trial.device.type,
        devices=1,
        callbacks=[Report(trial), ModelCheckpoint(trial.folder, save_last=True)],
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    last = trial.folder / "last.ckpt"
    trainer.fit(
        model,
        DataLoader(dataset, batch_size=64, shuffle=True),
        ckpt_path=last if last.exists() else None,
    )


def load(trial: Trial, width: int = 64) -> nn.Module:
    """The network that was trained, for `calsweep export` and `result.model()`."""
    model = make_model(trial, width)
    state = torch.load(trial.folder / "last.ckpt", map_location="cpu", weights_only=True)
    model.load_state_dict(state["state_dict"])
    return model.network
