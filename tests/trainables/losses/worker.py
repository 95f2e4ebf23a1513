"""One worker of ``test_distributed``: two steps of a linear model with each loss, on its share.

``python worker.py RANK FOLDER`` meets the workers of lower rank in FOLDER, and writes there what
came of it for each number of workers.
"""

import sys
from pathlib import Path

import torch
from torch import Tensor, nn
from torch import distributed as dist

from trainables.losses import available_losses, make_loss
from trainables.runtime.distributed import all_gather, rank, world_size

SHARES = {1: [7], 2: [5, 2], 3: [3, 1, 3]}
NUM_CLASSES = 4
LOSSES = (*available_losses(), "torch.nn:MultiMarginLoss")


def train(name: str, workers: int) -> dict[str, Tensor]:
    """Two steps; returns the loss of each, its gradients, and the loss's state at the end."""
    torch.manual_seed(0)
    inputs = torch.randn(7, 3, dtype=torch.float64)
    targets = torch.randint(0, NUM_CLASSES, (7,))
    model = nn.Linear(3, NUM_CLASSES).double()
    loss = make_loss(name, NUM_CLASSES).double()
    loss.on_train_begin(7)
    buffers = dict(loss.named_buffers())
    if "times_right" in buffers:
        buffers["times_right"].copy_(torch.tensor([3, 0, 1, 2, 2, 0, 1]))
        buffers["epochs"].fill_(3)
    for parameter in loss.parameters():
        parameter.data.fill_(0.3)
    mine = torch.split(torch.tensor([4, 0, 6, 2, 1, 5, 3]), SHARES[workers])[rank()]
    result = {}
    for step in range(2):
        logits = model(inputs[mine])
        value = loss(logits, targets[mine], indices=mine, features=logits)
        torch.autograd.backward(value)
        average_gradients(model)
        result[f"value {step}"] = value.detach().clone()
        for key, parameter in [*model.named_parameters(), *loss.named_parameters()]:
            assert parameter.grad is not None
            result[f"gradient of {key} {step}"] = parameter.grad.clone()
            parameter.data -= 0.1 * parameter.grad
            parameter.grad = None
        loss.on_step_end()
    return {**result, **{key: value.clone() for key, value in loss.state_dict().items()}}


def average_gradients(model: nn.Module) -> None:
    """Like DistributedDataParallel, which takes three seconds to import."""
    for parameter in model.parameters():
        if dist.is_initialized() and parameter.grad is not None:
            dist.all_reduce(parameter.grad)
            parameter.grad /= world_size()


def gathered() -> dict[str, Tensor]:
    """Gathered rows of all workers, the first of which has none, and this worker's gradient."""
    mine = torch.full((rank(), 2), float(rank()), requires_grad=True)
    everything = all_gather(mine)
    total = (everything * torch.arange(len(everything)).unsqueeze(1)).sum()
    torch.autograd.backward(total)
    assert mine.grad is not None
    return {"rows": everything.detach(), "gradient": mine.grad / world_size()}


def main(number: int, folder: Path) -> None:
    torch.set_num_threads(1)
    for workers in (3, 2, 1):
        if number >= workers:
            return
        dist.init_process_group(
            "gloo", init_method=f"file://{folder}/meet{workers}", rank=number, world_size=workers
        )
        results = {name: train(name, workers) for name in LOSSES}
        torch.save({**results, "all_gather": gathered()}, folder / f"worker{number}of{workers}.pt")
        dist.barrier()
        dist.destroy_process_group()
    torch.save({name: train(name, 1) for name in LOSSES}, folder / "alone.pt")


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]))
