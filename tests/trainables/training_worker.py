"""One of two workers of ``test_training``: ``python training_worker.py RANK FOLDER``.

Trains two epochs with each loss, data-parallel and then (rank 0) alone, and writes the weights,
what each epoch reported, and the validation logits.
"""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import distributed as dist
from torch import nn

from trainables.config import TrainingConfig
from trainables.data import load_dataset
from trainables.losses import make_loss
from trainables.models import Classifier
from trainables.training import Trainer

WORKERS = 2
LOSSES = ("cross_entropy", "focal", "crl", "cals_alm", "adafocal", "aucm")


def train(name: str) -> dict[str, Any]:
    """Batches of 34, 33 and 33 samples: uneven shares for two workers."""
    dataset = load_dataset("digits", seed=0, train_samples=100)
    torch.manual_seed(0)
    encoder = nn.Sequential(nn.Flatten(), nn.Linear(64, 16), nn.Tanh())  # no batch statistics
    config = TrainingConfig(
        epochs=2, batch_size=40, lr=0.1, clip_grad_norm=0.5, augmentation="none"
    )
    model = Classifier(encoder, nn.Linear(16, 10))
    loss = make_loss(name, num_classes=10)
    trainer = Trainer(model, loss, dataset, config, seed=1, device=torch.device("cpu"))
    reports = []
    for _ in range(config.epochs):
        reports.append(trainer.train_epoch())
        logits, labels = trainer.predict(dataset.validation)
        assert np.array_equal(labels.numpy(), dataset.validation.labels)
        trainer.adapt_loss(logits, labels)
    state = {"model": model.state_dict(), "loss": loss.state_dict()}
    return {**state, "reports": reports, "logits": logits}


def main(rank: int, folder: Path) -> None:
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=WORKERS
    )
    torch.save({name: train(name) for name in LOSSES}, folder / f"worker{rank}.pt")
    dist.barrier()
    dist.destroy_process_group()
    if rank == 0:
        torch.save({name: train(name) for name in LOSSES}, folder / "alone.pt")


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]))
