"""Coverage of intervals for samples in clusters (pixels of images), by simulation.

The simulated model has two classes. Its confidence varies between images and between pixels, and
so does its correctness, which is correlated within an image (a Gaussian copula with correlation
0.3). The law (data distribution) determines the accuracy given the confidence. Run `python -m
benchmarks.clustered` (some minutes on one core; `--repetitions` and `--images` shorten it). With
`--differences`, it measures the intervals of `M.difference` of two models on the same pixels.
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
PAIRS = ((1.0, 1.0), (1.15, 1.15), (1.0, 1.5))
METRICS = ("ece", "adaptive_ece", "nll", "error")
POPULATION = 40_000  # images


def draw(law: float, images: int, random: np.random.Generator) -> tuple[torch.Tensor, torch.Tensor]:
    """Probabilities (images · pixels, 2) and labels; logits are too large by the factor `law`."""
    shape = (images, PIXELS)
    sure = np.abs(1.5 + random.standard_normal((images, 1)) + random.standard_normal(shape))
    shared, own = random.standard_normal((images, 1)), random.standard_normal(shape)
    luck = np.sqrt(CORRELATION) * shared + np.sqrt(1 - CORRELATION) * own
    right = luck < ndtri(expit(sure / law))
    said = random.random(shape) < 0.5
    probs = np.where(said, expit(sure), expit(-sure)).ravel()
    labels = np.where(right, said, ~said).ravel()
    return torch.from_numpy(np.stack([1 - probs, probs], 1)), torch.from_numpy(labels.astype(int))


def draw_two(
    factors: tuple[float, float], images: int, random: np.random.Generator
) -> tuple[list[torch.Tensor], torch.Tensor]:
    """Probabilities of two models for the same pixels, and labels; see :func:`draw`.

    The logits of each model are too large by its factor, with independent noise.
    """
    probs, labels = draw(1.0, images, random)
    true = torch.logit(probs[:, 1])
    logits = [
        factor * true * torch.from_numpy(np.exp(0.2 * random.standard_normal(len(true))))
        for factor in factors
    ]
    return [torch.stack([(-z).sigmoid(), z.sigmoid()], 1) for z in logits], labels


def differences(repetitions: int, sizes: list[int]) -> None:
    """Print a row for each metric and pair of models."""
    heads = " | ".join(f"{n:,} images | as if independent" for n in sizes)
    print(f"| metric | logits too large by | true difference | {heads} |")
    print("| --- | --- | --- |" + " --- | --- |" * len(sizes))
    for factors in PAIRS:
        models, labels = draw_two(factors, POPULATION // 2, np.random.default_rng(1))
        for name in ("ece", "nll"):
            ours, theirs = (M.METRICS[name].function(probs, labels) for probs in models)
            row = f"| {name} | {factors[0]:g}, {factors[1]:g} | {ours - theirs:+.4f} |"
            for images in sizes:
                random, covers = np.random.default_rng(images), {PIXELS: 0, 1: 0}
                for _ in range(repetitions):
                    (one, other), truth = draw_two(factors, images, random)
                    for size in covers:
                        found = M.difference(name, [one], [other], truth, cluster_size=size)
                        covers[size] += found.low <= ours - theirs <= found.high
                row += "".join(f" {100 * c / repetitions:.0f}% |" for c in covers.values())
            print(row, flush=True)


def main() -> None:
    """Print a row for each metric and law."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=500, help="samples to draw")
    parser.add_argument(
        "--images", type=int, nargs="+", default=[50, 300, 1449], help="numbers of images"
    )
    parser.add_argument(
        "--differences", action="store_true", help="intervals of differences instead"
    )
    given = parser.parse_args()
    if given.differences:
        differences(given.repetitions, given.images)
        return
    heads = [f"{n:,} images | as if independent" for n in given.images]
    print(f"| metric | distribution | truth | {' | '.join(heads)} |")
    print("| --- | --- | --- |" + " --- | --- |" * len(heads))
    for law, factor in LAWS.items():
        truth = M.evaluate(*_logits(*draw(factor, POPULATION, np.random.default_rng(1))), METRICS)
        rows = {name: f"| {name} | {law} | {truth[name]:.4f} |" for name in METRICS}
        for images in given.images:
            found: dict[tuple[str, int], list[tuple[float, ...]]] = {
                (name, size): [] for name in METRICS for size in (PIXELS, 1)
            }
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
