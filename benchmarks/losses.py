"""Time of each loss, forward and backward, relative to PyTorch's cross-entropy.

    python -m benchmarks.losses [--threads 1] [--device cpu] [--rounds 200] [LOSS ...]

Cross-entropy is ``torch.nn.CrossEntropyLoss``. Losses are timed in turns with it, in many rounds
shorter than a time slice of the machine, and the fastest round of each counts, so that other work
on the machine disturbs the ratio little.
"""

import argparse
import time
from collections.abc import Callable, Iterator

import torch
from torch import Tensor, nn

from trainables.losses import available_losses, make_loss
from trainables.losses.soft_rank import soft_rank

SIZES = ((128, 10), (128, 100), (1024, 1000))
SECONDS_PER_ROUND = 0.001


def main() -> None:
    """Prints the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("losses", nargs="*", default=list(available_losses()), metavar="LOSS")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--rounds", type=int, default=200)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    device = torch.device(arguments.device)
    print(f"torch {torch.__version__}, {device}, {arguments.threads} thread(s)")
    print_losses(arguments.losses, device, arguments.rounds)
    print_soft_ranks(device, arguments.rounds)


def print_losses(names: list[str], device: torch.device, rounds: int) -> None:
    """Prints one row per loss: microseconds, and times cross-entropy, for each size."""
    heading = "".join(f"{size!s:>22}" for size in SIZES)
    units = f"{'µs':>12} {'× CE':>9}" * len(SIZES)
    print(f"\n{'loss':24}{heading}\n{'':24}{units}")
    for name in names:
        cells = []
        for count, num_classes in SIZES:
            base, own = fastest(list(loss_steps(name, count, num_classes, device)), rounds)
            cells.append(f"{own * 1e6:12.0f} {own / base:9.2f}")
        print(f"{name:24}{''.join(cells)}", flush=True)


def rank_step(count: int, device: torch.device) -> Callable[[], object]:
    """Ranks, and the derivative of their sum of squares."""
    x = torch.randn(count, device=device)

    def step() -> Tensor:
        ranks, pull_back = soft_rank(x, 0.05)
        return pull_back(2 * ranks)

    return step


def print_soft_ranks(device: torch.device, rounds: int) -> None:
    """Prints microseconds of the soft rank and, where it is installed, of torchsort's."""
    try:
        import torchsort
    except ImportError:
        torchsort = None
    print(f"\n{'soft rank, µs':24}{'ours':>12}{'torchsort':>12}")
    for count in (128, 512, 1024, 4096):
        steps = [rank_step(count, device)]
        if torchsort is not None:
            steps.append(
                backward_step(
                    lambda x: (
                        torchsort.soft_rank(x.unsqueeze(0), regularization_strength=0.05)
                        .square()
                        .sum()
                    ),
                    count,
                    device,
                )
            )
        cells = "".join(f"{seconds * 1e6:12.0f}" for seconds in fastest(steps, rounds))
        print(f"n = {count:<20}{cells}" + ("" if torchsort else f"{'absent':>12}"))


def loss_steps(
    name: str, count: int, num_classes: int, device: torch.device
) -> Iterator[Callable[[], None]]:
    """Yields a step of cross-entropy, and one of the loss."""
    torch.manual_seed(0)
    logits = torch.randn(count, num_classes, device=device).mul_(3).requires_grad_()
    targets = torch.randint(0, num_classes, (count,), device=device)
    indices = torch.arange(count, device=device)
    loss = make_loss(name, num_classes).to(device)
    loss.on_train_begin(count)
    features = None
    if loss.needs_features:
        features = torch.randn(count, 128, device=device, requires_grad=True)
    cross_entropy = nn.CrossEntropyLoss()

    def base() -> None:
        logits.grad = None
        cross_entropy(logits, targets).backward()

    def own() -> None:
        logits.grad = None
        if features is not None:
            features.grad = None
        loss(logits, targets, indices=indices, features=features).backward()

    yield base
    yield own


def backward_step(
    function: Callable[[Tensor], Tensor], count: int, device: torch.device
) -> Callable[[], None]:
    """A forward and backward pass of a function of ``count`` confidences."""
    x = torch.rand(count, device=device, requires_grad=True)

    def step() -> None:
        x.grad = None
        torch.autograd.backward(function(x))

    return step


def fastest(steps: list[Callable[[], None]], rounds: int) -> list[float]:
    """Seconds of each step: the best of several rounds, taken in turns."""
    best = [min(seconds(step, 1) for _ in range(5)) for step in steps]
    repeats = [max(1, int(SECONDS_PER_ROUND / value)) for value in best]
    # Slow steps are long enough to tell in fewer rounds.
    for _ in range(max(5, min(rounds, int(rounds * 10 * SECONDS_PER_ROUND / sum(best))))):
        for i, step in enumerate(steps):
            best[i] = min(best[i], seconds(step, repeats[i]))
    return best


def seconds(step: Callable[[], None], repeats: int) -> float:
    """Mean seconds of a step."""
    step()
    synchronise()
    start = time.perf_counter()
    for _ in range(repeats):
        step()
    synchronise()
    return (time.perf_counter() - start) / repeats


def synchronise() -> None:
    """Waits for the GPU, if there is one."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()


if __name__ == "__main__":
    main()
