"""One of two workers of ``test_training``: ``python training_worker.py RANK FOLDER``.

Trains two epochs with each loss, data-parallel and then (rank 0) alone, and writes the weights,
what each epoch reported, and the validation logits.
"""

import shutil
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import distributed as dist
from torch import nn

from trainables.contract.config import TrainingConfig, TrialSetup
from trainables.contract.messages import TrialConfig
from trainables.contract.setting import Setting
from trainables.data import Dataset, SegmentedImages, load_dataset
from trainables.data.core.tasks import IGNORED, EachPixel, SeveralLabels
from trainables.engine.training import Trainer
from trainables.losses import make_loss
from trainables.models import Classifier
from trainables.models.segmenter import Segmenter
from trainables.trials.trial import TrialRun

WORKERS = 2
LOSSES = ("cross_entropy", "focal", "crl", "cals_alm", "adafocal", "aucm", "mixup", "supcon")
OWN = ("learnt:Learnt", "learnt:LearntPlain")
OTHER_TARGETS = (
    "focal weighted",
    "focal soft",
    "mixup soft",
    "adafocal several",
    "cals_alm pixels",
)


def digits(targets: str) -> Dataset:
    """A hundred digits with soft, multi-label or pixel targets, and sample weights."""
    dataset = load_dataset("digits", seed=0, train_samples=100)
    chance = np.random.default_rng(0)
    weights = chance.random(100, np.float32)
    if targets == "soft":
        soft = chance.dirichlet([0.3] * 10, 100).astype(np.float32)
        return replace(dataset, train=replace(dataset.train, soft=soft, weights=weights))
    if targets == "pixels":
        return pixels(dataset, weights)
    if targets != "several":
        return dataset
    bits = {
        name: replace(split, labels=np.stack([split.labels % 2, split.labels // 5], 1))
        for name in ("train", "validation", "test")
        for split in [getattr(dataset, name)]
    }
    bits["train"] = replace(bits["train"], weights=weights)
    task = SeveralLabels(("odd", "large"))
    return replace(dataset, **bits, classes=("no", "yes"), task=task)


def pixels(dataset: Dataset, weights: np.ndarray) -> Dataset:
    """Pixels labelled by brightness; intermediate ones are ignored."""
    masks = {
        name: replace(split, labels=np.where(grey == 8, IGNORED, grey > 8).astype(np.uint8))
        for name in ("train", "validation", "test")
        for split in [getattr(dataset, name)]
        for grey in [split.inputs[:, 0] // 16]
    }
    masks["train"] = replace(masks["train"], weights=weights)
    samples = SegmentedImages.measured(dataset.train.inputs)
    classes, task = ("dark", "bright"), EachPixel(5)
    return replace(dataset, **masks, classes=classes, samples=samples, task=task)


def network(dataset: Dataset) -> Classifier:
    """A network without batch statistics."""
    if dataset.samples.each_pixel:
        encoder = nn.Sequential(nn.Conv2d(1, 6, 3, stride=2, padding=1), nn.Tanh())
        return Segmenter(encoder, nn.Linear(6, dataset.num_outputs), (1, 8, 8))
    encoder = nn.Sequential(nn.Flatten(), nn.Linear(64, 16), nn.Tanh())
    return Classifier(encoder, nn.Linear(16, dataset.num_outputs))


def train(name: str) -> dict[str, Any]:
    """Train with batches of 34, 33 and 33 samples: uneven shares for two workers."""
    name, _, targets = name.partition(" ")
    dataset = digits(targets)
    if name == "mixup":  # it does not support weights
        dataset = replace(dataset, train=replace(dataset.train, weights=None))
    of_classes = (9.0, 4.0, *[1.0] * (dataset.num_classes - 2))
    torch.manual_seed(0)
    config = TrainingConfig(
        epochs=2,
        batch_size=40,
        lr=0.1,
        clip_grad_norm=0.5,
        augmentation="crop_flip",
        class_weights=of_classes if targets and name != "mixup" else None,
    )
    model = network(dataset)
    loss = make_loss(name, num_classes=dataset.num_classes)
    trainer = Trainer(model, loss, dataset, config, seed=1, device=torch.device("cpu"))
    reports = []
    for _ in range(config.epochs):
        reports.append(trainer.train_epoch())
        logits, labels = trainer.predict(dataset.validation)
        assert targets == "pixels" or np.array_equal(labels.numpy(), dataset.validation.labels)
        trainer.adapt_loss(*dataset.task.decisions_of(logits, labels))
    state = {"model": model.state_dict(), "loss": loss.state_dict()}
    return {**state, "reports": reports, "logits": logits}


def resumed(folder: Path) -> dict[str, Any]:
    """Resume and finish a trial whose second worker sees an older checkpoint."""
    dataset = load_dataset("digits", seed=0, train_samples=100)
    config = TrialConfig(0, "search", Setting("cross_entropy", {}), seed=1)

    def run(place: str) -> TrialRun:
        setup = TrialSetup(
            model="small_cnn",
            model_options={"width": 4},
            training=TrainingConfig(
                epochs=3, batch_size=40, schedule="plateau", plateau_patience=1, keep="val_ece"
            ),
            trials_uri=str(folder / place),
            outcome_epochs=(3,),
        )
        return TrialRun(dataset, setup, config)

    first = run("newer")
    first.advance()
    dist.barrier()
    if dist.get_rank() == 1:
        shutil.copytree(folder / "newer", folder / "older")
    dist.barrier()
    first.advance()
    dist.barrier()
    again = run("newer" if dist.get_rank() == 0 else "older")
    epochs = [[entry["epoch"] for entry in again.advance().entries] for _ in range(2)]
    trainer = again._trainer
    assert trainer is not None
    return {"epochs": epochs, "weights": trainer.model.head.weight.detach().clone()}


def main(rank: int, folder: Path) -> None:
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=WORKERS
    )
    sys.path.insert(0, str(Path(__file__).parents[1]))  # of learnt.py
    names = (*LOSSES, *OTHER_TARGETS, *OWN)
    found = {name: train(name) for name in names}
    torch.save({**found, "resumed": resumed(folder)}, folder / f"worker{rank}.pt")
    dist.barrier()
    dist.destroy_process_group()
    if rank == 0:
        torch.save({name: train(name) for name in names}, folder / "alone.pt")


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]))
