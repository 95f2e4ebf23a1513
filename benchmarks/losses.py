"""Time of a training step with each loss, relative to a step with PyTorch's cross-entropy.

    python -m benchmarks.losses [--device cpu] [--rounds 50] [LOSS ...]

Two kinds of step, forward, backward and SGD: ``small_cnn`` on 128 images of 28×28 pixels with ten
classes, and a linear head from 2,048 features to 1,000 classes with 1,024 samples. Steps with the
loss and with PyTorch's cross-entropy alternate, and their medians are compared. On a CPU, this is
CPU time in one thread, which other work on the machine affects little.
"""

import argparse
import statistics
import time
from collections.abc import Callable

import torch
from torch import Tensor, nn

from trainables.losses import CalibrationLoss, available_losses, make_loss
from trainables.models import Classifier, make_model

Step = Callable[[CalibrationLoss | None], None]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "losses",
        nargs="*",
        default=list(available_losses()),
        metavar="LOSS",
        help="losses to measure; by default all",
    )
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--rounds", type=int, default=50, help="repetitions of each step")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    device = torch.device(arguments.device)
    small = make_model("small_cnn", input_shape=(1, 28, 28), num_classes=10)
    head = Classifier(nn.Identity(), nn.Linear(2048, 1000))
    steps = {
        10: make_step(small, torch.randn(128, 1, 28, 28), 10, device),
        1000: make_step(head, torch.randn(1024, 2048), 1000, device),
    }
    print(f"torch {torch.__version__}, {device}; milliseconds per step, times cross-entropy")
    print(f"{'loss':24}{'small_cnn':>12}{'× CE':>8}{'head':>12}{'× CE':>8}")
    for name in arguments.losses:
        cells = []
        for num_classes, step in steps.items():
            loss = make_loss(name, num_classes).to(device)
            if num_classes == 1000 and not loss.trains_classifier:
                cells.append(f"{'–':>12}{'–':>8}")
                continue
            own, base = medians(step, (loss, None), arguments.rounds, device)
            cells.append(f"{own * 1e3:12.2f}{own / base:8.2f}")
        print(f"{name:24}{''.join(cells)}", flush=True)


def make_step(model: Classifier, inputs: Tensor, num_classes: int, device: torch.device) -> Step:
    """A training step as a function of the loss; ``None`` is PyTorch's cross-entropy."""
    model, inputs = model.to(device), inputs.to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4, momentum=0.9)
    targets = torch.randint(0, num_classes, (len(inputs),), device=device)
    indices = torch.arange(len(inputs), device=device)

    def step(loss: CalibrationLoss | None) -> None:
        logits, features = model(inputs, return_features=True)
        if loss is None:
            value = nn.functional.cross_entropy(logits, targets)
        else:
            value = loss(logits, targets, indices=indices, features=features)
        optimizer.zero_grad()
        torch.autograd.backward(value)
        optimizer.step()

    return step


def medians(
    step: Step, losses: tuple[CalibrationLoss | None, ...], rounds: int, device: torch.device
) -> list[float]:
    """Median seconds per step with each loss, in turns."""
    seconds: list[list[float]] = [[] for _ in losses]
    for number in range(rounds + 2):  # the first two warm up
        for loss, own in zip(losses, seconds, strict=True):
            start = now(device)
            step(loss)
            if number > 1:
                own.append(now(device) - start)
    return [statistics.median(own) for own in seconds]


def now(device: torch.device) -> float:
    """CPU time of this thread in seconds; for other devices wall time, after synchronisation."""
    if device.type == "cpu":
        return time.thread_time()
    torch.accelerator.synchronize(device)
    return time.perf_counter()


if __name__ == "__main__":
    main()
