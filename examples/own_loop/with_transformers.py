"""A model of Hugging Face's with their Trainer: ``trainable: with_transformers:train``."""

from pathlib import Path

import torch
from safetensors.torch import load_model
from torch import Tensor, nn
from torch.utils.data import Dataset
from transformers import Trainer, TrainerCallback, TrainingArguments, ViTConfig
from transformers import ViTForImageClassification as ViT

from calsweep import Trial


class Network(nn.Module):
    """A vision transformer, from images to logits."""

    def __init__(self, config: ViTConfig) -> None:
        super().__init__()
        self.vit = ViT(config)

    def forward(self, pixel_values: Tensor) -> Tensor:
        return self.vit(pixel_values).logits


class Classifier(nn.Module):
    """The network, trained with the trial's loss."""

    def __init__(self, network: Network, loss: nn.Module) -> None:
        super().__init__()
        self.network = network
        self.loss = loss  # so that what the loss learns is in the checkpoints

    def forward(self, pixel_values: Tensor, labels: Tensor) -> dict[str, Tensor]:
        logits = self.network(pixel_values)
        return {"loss": self.loss(logits, labels), "logits": logits}


class Rows(Dataset):
    """A split, as the Trainer wants it."""

    def __init__(self, trial: Trial, split: str) -> None:
        self.inputs, self.labels = trial.tensors(split)

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, row: int) -> dict[str, Tensor]:
        return {"pixel_values": self.inputs[row], "labels": self.labels[row]}


class Report(TrainerCallback):
    """Reports each epoch to the trial; the Trainer saves after that."""

    def __init__(self, trial: Trial) -> None:
        self.trial = trial

    @torch.no_grad()
    def predict(self, model: Classifier, split: str) -> tuple[Tensor, Tensor]:
        inputs, labels = self.trial.tensors(split)
        return model.eval().network(inputs.to(self.trial.device)), labels

    def on_epoch_end(self, args, state, control, model=None, **_) -> None:
        self.trial.report(
            round(state.epoch),
            validation=self.predict(model, "validation"),
            test=lambda: self.predict(model, "test"),
        )
        model.train()


def make_model(trial: Trial, width: int) -> Classifier:
    channels, size, _ = trial.data.input_shape
    config = ViTConfig(
        image_size=size,
        patch_size=2,
        num_channels=channels,
        hidden_size=width,
        intermediate_size=2 * width,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_labels=trial.num_classes,
        initializer_range=0.1,  # so small a transformer hardly learns with the usual 0.02
    )
    return Classifier(Network(config), trial.loss)


def train(trial: Trial, width: int = 32) -> None:
    arguments = TrainingArguments(
        output_dir=str(trial.folder),
        num_train_epochs=trial.epochs,
        per_device_train_batch_size=16,
        learning_rate=3e-3,
        save_strategy="epoch",
        save_total_limit=2,
        report_to=[],
        disable_tqdm=True,
        use_cpu=trial.device.type == "cpu",
        dataloader_pin_memory=trial.device.type != "cpu",
        seed=trial.seed,
    )
    trainer = Trainer(
        model=make_model(trial, width),
        args=arguments,
        train_dataset=Rows(trial, "train"),
        callbacks=[Report(trial)],
    )
    trainer.train(resume_from_checkpoint=last_checkpoint(trial.folder))


def load(trial: Trial, width: int = 32) -> nn.Module:
    """The network that was trained, for `calsweep export` and `result.model()`."""
    model = make_model(trial, width)
    load_model(model, f"{last_checkpoint(trial.folder)}/model.safetensors")
    return model.network


def last_checkpoint(folder: Path) -> str | None:
    """The last one that is complete: the Trainer writes its state at its end."""
    states = folder.glob("checkpoint-*/trainer_state.json")
    whole = sorted((state.parent for state in states), key=lambda c: int(c.name.split("-")[1]))
    return str(whole[-1]) if whole else None
