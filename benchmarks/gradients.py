"""The derivative of losses by the probability of the true class, as figures 3 and 4 of r-AURC.

Without files: of one sample whose other classes are equally likely, for each loss and each gamma.
With the predictions of trials, such as those of the same network after more and more epochs: of
each sample, through all of the batch, so also through the weights of r-AURC.

    python -m benchmarks.gradients focal inverse_focal --gamma 1 2 3 4 5 --output figure3.svg
    python -m benchmarks.gradients cross_entropy r_aurc --set lam=1 \\
        --predictions STORE/sweeps/NAME/trials/*/predictions_test.parquet --output figure4.svg

The table has the least, mean and largest derivative in ten bins of the probability.
"""

import argparse
from pathlib import Path
from typing import Any

import torch
from matplotlib.figure import Figure
from torch import Tensor

from trainables.files.rows import Rows
from trainables.losses import hyperparameters, make_loss

BINS = 10
POINTS = 400
MOST = 20_000  # samples of a file, as in the paper


def derivative(name: str, options: dict[str, Any], logits: Tensor, labels: Tensor) -> Tensor:
    """∂(N · loss)/∂p_y of each sample (N,), its other logits fixed."""
    logits = logits.double().requires_grad_()
    loss = make_loss(name, num_classes=logits.shape[1], **options)
    loss.on_train_begin(len(labels))
    (slopes,) = torch.autograd.grad(loss(logits, labels) * len(labels), logits)
    own = logits.detach().softmax(1).gather(1, labels[:, None])[:, 0]
    by_logit: Tensor = slopes.gather(1, labels[:, None])[:, 0]
    return by_logit / (own * (1 - own))


def of_one_sample(name: str, options: dict[str, Any], classes: int) -> tuple[Tensor, Tensor]:
    """Probabilities of the true class, and the derivative of a sample with each."""
    probs = torch.linspace(0.01, 0.999, POINTS, dtype=torch.float64)
    rest = ((1 - probs) / (classes - 1)).log()[:, None].expand(-1, classes - 1)
    logits = torch.cat([probs.log()[:, None], rest], dim=1)
    labels = torch.zeros(1, dtype=torch.int64)
    return probs, torch.cat([derivative(name, options, z[None], labels) for z in logits])


def of_file(name: str, options: dict[str, Any], path: str) -> tuple[Tensor, Tensor]:
    """The same of the samples of a file of predictions, whose order is that of the data."""
    logits, labels = Rows.decode(Path(path).read_bytes()).tensors()
    logits, labels = logits[:MOST].double(), labels[:MOST]
    probs = logits.softmax(1).gather(1, labels[:, None])[:, 0]
    found = derivative(name, options, logits, labels)
    return probs, found


def main() -> None:
    """Print a table, and draw the derivatives into a file."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("losses", nargs="+")
    parser.add_argument("--gamma", type=float, nargs="+", default=[], help="for losses with one")
    parser.add_argument("--set", nargs="*", default=[], metavar="KEY=NUMBER")
    parser.add_argument("--predictions", nargs="+", default=[])
    parser.add_argument("--classes", type=int, default=10)
    parser.add_argument("--output")
    given = parser.parse_args()
    fixed = {key: float(value) for key, _, value in (each.partition("=") for each in given.set)}
    figure = Figure(figsize=(6, 3.8 * len(given.losses)), layout="constrained")
    print("| loss | of | p_y | least | mean | largest |\n| --- | --- | --- | --- | --- | --- |")
    for row, name in enumerate(given.losses, start=1):
        axes = figure.add_subplot(len(given.losses), 1, row)
        known = hyperparameters(name)
        own = {key: value for key, value in fixed.items() if key in known}
        settings = [{"gamma": each} for each in given.gamma if "gamma" in known] or [{}]
        for setting in settings:
            options = own | setting
            named = ", ".join(f"{key}={value:g}" for key, value in options.items())
            for path in given.predictions or [None]:
                if path is None:
                    label = named or "default"
                    probs, found = of_one_sample(name, options, given.classes)
                    axes.plot(probs, found, label=label)
                else:
                    label = f"{named} {Path(path).parent.name}"
                    probs, found = of_file(name, options, path)
                    axes.plot(probs, found, ".", markersize=2, label=label)
                _print(name, label, probs, found)
        axes.set(title=name, xlabel="p_y", ylabel="∂loss/∂p_y", ylim=(-10, 2))
        axes.legend(fontsize=7)
    if given.output is not None:
        figure.savefig(given.output)


def _print(name: str, label: str, probs: Tensor, found: Tensor) -> None:
    bins = (probs * BINS).long().clamp(max=BINS - 1)
    for number in range(BINS):
        own = found[(bins == number) & found.isfinite()]
        if len(own):
            cells = " | ".join(f"{float(v):.3f}" for v in (own.min(), own.mean(), own.max()))
            print(f"| `{name}` | {label} | {number / BINS:.1f} | {cells} |")


if __name__ == "__main__":
    main()
