"""Many small trials on one device: sequentially, or as one batched model.

    python -m benchmarks.batched_trials [--device cuda] [--model small_cnn] [--shape 1 8 8]

M trials have the same architecture, but different weights, batches and focal gammas.
``torch.func`` stacks them and trains them in one step (``vmap`` over ``grad``); the alternative is
M ordinary steps in sequence. Both use the statistics of the batch without running averages, which
``vmap`` does not support. Prints images per second: of CPU time in one thread on a CPU, of wall
time on a GPU; the fastest of several rounds, in turns.
"""

from __future__ import annotations

import argparse
import copy
from collections.abc import Iterator

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, replace_all_batch_norm_modules_, stack_module_state

from benchmarks.training import fresh, random_images, speed_of

ROUNDS = 7
LR = 0.05


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--model", default="small_cnn")
    parser.add_argument("--shape", type=int, nargs=3, default=(1, 8, 8), help="shape of an image")
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument(
        "--trials", type=int, nargs="+", default=(1, 4, 16), help="numbers of trials"
    )
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    device = torch.device(arguments.device)
    print(f"torch {torch.__version__}, {device}, {arguments.model}, {tuple(arguments.shape)}")
    print("| trials | one after the other, images/s | batched, images/s | ratio |")
    print("| --- | --- | --- | --- |", flush=True)
    for trials in arguments.trials:
        one = network(arguments.model, tuple(arguments.shape)).to(device)
        networks = [copy.deepcopy(one) for _ in range(trials)]
        shape = (trials, arguments.batch_size, *arguments.shape)
        images = torch.randn(shape, device=device)
        labels = torch.randint(10, shape[:2], device=device)
        gammas = torch.linspace(0, 5, trials, device=device)
        steps = [
            in_turn(networks, images, labels, gammas),
            batched(networks, images, labels, gammas),
        ]
        fastest = [0.0, 0.0]
        for _ in range(ROUNDS):
            for index, step in enumerate(steps):
                next(step)
                fastest[index] = max(fastest[index], speed_of(step, device))
        usual, together = fastest
        print(f"| {trials} | {usual:,.0f} | {together:,.0f} | {together / usual:.2f} |", flush=True)


def network(model: str, shape: tuple[int, int, int]) -> nn.Module:
    """A model whose batch normalisation has no running averages."""
    made = fresh(model, random_images(shape))
    replace_all_batch_norm_modules_(made)
    return made


def focal(logits: Tensor, labels: Tensor, gamma: Tensor) -> Tensor:
    """Focal loss with gamma as a tensor, so that each trial has its own."""
    log_p = logits.log_softmax(dim=1).gather(1, labels[:, None])[:, 0]
    return -((1 - log_p.exp()) ** gamma * log_p).mean()


def in_turn(
    networks: list[nn.Module], images: Tensor, labels: Tensor, gammas: Tensor
) -> Iterator[int]:
    """One training step of each network per iteration, in sequence."""
    optimizers = [
        torch.optim.SGD(each.parameters(), LR, momentum=0.9, nesterov=True, fused=True)
        for each in networks
    ]
    while True:
        for net, optimizer, *batch in zip(
            networks, optimizers, images, labels, gammas, strict=True
        ):
            optimizer.zero_grad()
            torch.autograd.backward(focal(net(batch[0]), batch[1], batch[2]))
            optimizer.step()
        yield labels.numel()


def batched(
    networks: list[nn.Module], images: Tensor, labels: Tensor, gammas: Tensor
) -> Iterator[int]:
    """One batched training step of all networks per iteration."""
    params, buffers = stack_module_state(networks)
    skeleton = copy.deepcopy(networks[0]).to("meta")
    leaves = {name: nn.Parameter(value.detach()) for name, value in params.items()}
    optimizer = torch.optim.SGD(leaves.values(), LR, momentum=0.9, nesterov=True, fused=True)

    def loss(own: dict[str, Tensor], kept: dict[str, Tensor], *batch: Tensor) -> Tensor:
        logits: Tensor = functional_call(skeleton, (own, kept), (batch[0],))
        return focal(logits, batch[1], batch[2])

    gradients = torch.func.vmap(grad(loss), randomness="different")
    while True:
        current = {name: leaf.detach() for name, leaf in leaves.items()}
        found = gradients(current, buffers, images, labels, gammas)
        for name, leaf in leaves.items():
            leaf.grad = found[name]
        optimizer.step()
        yield labels.numel()


if __name__ == "__main__":
    main()
