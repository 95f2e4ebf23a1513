"""One of two workers of ``test_accumulating``: ``python accumulating_worker.py RANK FOLDER``."""

import sys
from datetime import timedelta
from pathlib import Path

import torch
from torch import Tensor
from torch import distributed as dist

import calsweep
from calsweep.metrics import class_names
from trainables.metrics import METRICS

SHARES = ((73, 127), (0, 200))  # samples per worker in two rounds


OF_ANY_CLASSES = tuple(
    name for name, each in class_names().items() if not METRICS[each].two_classes
)


def predictions(num_classes: int = 5) -> tuple[Tensor, Tensor]:
    """200 samples."""
    generator = torch.Generator().manual_seed(0)
    logits = 2 * torch.randn(200, num_classes, generator=generator, dtype=torch.float64)
    return logits, torch.multinomial((logits / 1.5).softmax(1), 1, generator=generator)[:, 0]


def meet(rank: int, folder: Path) -> tuple[list[dict[str, Tensor]], str]:
    """All metrics of each round, and the error for different numbers of classes."""
    from torchmetrics import MetricCollection

    dist.init_process_group(
        "gloo",
        init_method=f"file://{folder}/meet",
        rank=rank,
        world_size=2,
        timeout=timedelta(seconds=120),
    )
    logits, labels = predictions()
    values, refused = [], ""
    for first, _ in SHARES:
        mine = slice(None, first) if rank == 0 else slice(first, None)
        metrics = MetricCollection([getattr(calsweep.metrics, name)() for name in OF_ANY_CLASSES])
        for batch in zip(logits[mine].split(40), labels[mine].split(40), strict=True):
            if len(batch[1]):
                metrics.update(*batch)
        values.append(metrics.compute())
    different = calsweep.metrics.ECE()
    different.update(torch.randn(4, 3 + rank), torch.zeros(4, dtype=torch.int64))
    try:
        different.compute()
    except ValueError as error:
        refused = str(error)
    dist.barrier()
    dist.destroy_process_group()
    return values, refused


if __name__ == "__main__":
    torch.set_num_threads(1)
    worker, place = int(sys.argv[1]), Path(sys.argv[2])
    torch.save(meet(worker, place), place / f"{worker}.pt")
