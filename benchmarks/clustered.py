"""Coverage of the intervals of metrics of samples in clusters (pixels of images), by simulation.

A model of two classes. How sure it is varies from image to image and from pixel to pixel; whether
it is right does so too, together over an image (a Gaussian copula of correlation 0.3), with the
accuracy given the confidence that the law says. `python -m benchmarks.clustered` (some minutes of
one core; `--repetitions`, `--images` make it shorter).
"""

import argparse

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import expit, ndtri

from trainables import metrics as M

Array = NDArray[np.float64]

PIXELS = 50
CORRELATION = 0.3
LAWS = {"calibrated": 1.0, "slightly overconfident": 1.05, "much overconfident": 1.5}
METRICS = ("ece", "adaptive_ece", "nll", "error")
POPULATION = 40_000  # images


def draw(law: float, images: int, random: np.random.Generator) -> tuple[torch.Tensor, torch.Tensor]:
    """Probabilities (images · pixels, 2) and labels of a law whose logits are too large by that."""
    shape = (images, PIXELS)
    sure = np.abs(1.5 + random.standard_normal((images, 1)) + random.standard_normal(shape))
    shared, own = random.standard_normal((images, 1)), random.standard_normal(shape)
    luck = np.sqrt(CORRELATION) * shared + np.sqrt(1 - CORRELATION) * own
    right = luck < ndtri(expit(sure / law))
    said = random.random(shape) < 0.5
    probs = np.where(said, expit(sure), expit(-sure)).ravel()
    labels = np.where(right, said, ~said).ravel()
    return torch.from_numpy(np.stack([1 - probs, probs], 1)), torch.from_numpy(labels.astype(int))


def main() -> None:
    """Print a row for each metric and law."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=500)
    parser.add_argument("--images", type=int, nargs="+", default=[50, 300, 1449])
    given = parser.parse_args()
    heads = [f"{n:,} images | as if independent" for n in given.images]
    print(f"| metric | law | truth | {' | '.join(heads)} |")
    print("| --- | --- | --- |" + " --- | --- |" * len(heads))
    for law, factor in LAWS.items():
        truth = M.evaluate(*_logits(*draw(factor, POPULATION, np.random.default_rng(1))), METRICS)
        rows = {name: f"| {name} | {law} | {truth[name]:.4f} |" for name in METRICS}
        for images in given.images:
            found = {(name, size): [] for name in METRICS for size in (PIXELS, 1)}
            random = np.random.default_rng(images)
            for _ in range(given.repetitions):
                probs, labels = draw(factor, images, random)
                for (name, size), ends in found.items():
                    ends.append(M.interval(name, probs, labels, cluster_size=size)[1:])
            for name in METRICS:
                for size in (PIXELS, 1):
                    low, high = np.array(found[name, size]).T
                    covers = 100 * np.mean((low <= truth[name]) & (truth[name] <= high))
                    rows[name] += f" {covers:.1f} / {np.mean(high - low):.3g} |"
        print("\n".join(rows.values()), flush=True)


def _logits(probs: torch.Tensor, labels: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return probs.log(), labels


if __name__ == "__main__":
    main()
