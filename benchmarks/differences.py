"""Coverage and power of the intervals of differences, by simulation.

Two settings with known calibration and a few seeds each are compared on the same samples. ``python
-m benchmarks.differences`` simulates how often the interval contains the true difference of their
ECEs (in the same 15 bins), and how often the verdict is "supported". For comparison, ``plain`` is
the difference of the plain ECEs ± 1.96 paired standard errors.
"""

from __future__ import annotations

import argparse
import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

from functools import cache

import numpy as np
import torch
from scipy.stats import norm

from trainables.metrics import expected_calibration_error
from trainables.metrics.differences import difference

CLASSES = 10
NUM_BINS = 15
PARTS = 20  # parts of the samples for the jackknife
SEED_SPREAD = 0.03  # standard deviation over seeds of a network's temperature


def draw(
    generator: np.random.Generator, samples: int, overconfidence: list[float]
) -> tuple[list[torch.Tensor], torch.Tensor]:
    """Probabilities of runs whose logits are too large by these factors, and the labels.

    All runs have the same samples: they share the true logits, apart from some noise per run.
    """
    honest = generator.normal(0, 1.7, (samples, CLASSES))
    shifted = honest - honest.max(axis=1, keepdims=True)
    law = np.exp(shifted) / np.exp(shifted).sum(axis=1, keepdims=True)
    labels = (law.cumsum(axis=1) < generator.random((samples, 1))).sum(axis=1).clip(0, CLASSES - 1)
    runs = []
    for factor in overconfidence:
        logits = torch.from_numpy(factor * honest)
        runs.append(torch.softmax(logits, dim=1))
    return runs, torch.from_numpy(labels)


def gaps_of(runs: list[torch.Tensor], labels: torch.Tensor) -> float:
    """Mean ECE of runs."""
    return float(np.mean([expected_calibration_error(run, labels) for run in runs]))


@cache
def expected(factor: float) -> float:
    """The expected ECE of a setting over seeds, on very many samples."""
    seeds = norm.ppf((np.arange(9) + 0.5) / 9)
    factors = [factor * (1 + SEED_SPREAD * seed) for seed in seeds]
    return gaps_of(*draw(np.random.default_rng(1), 1_000_000, factors))


def main() -> None:
    """Simulate and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repetitions", type=int, default=1000, help="samples to draw")
    parser.add_argument(
        "--samples", type=int, nargs="+", default=[500, 2000, 10_000], help="numbers of samples"
    )
    parser.add_argument("--seeds", type=int, default=2, help="seeds of each setting")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    pairs = [(1.0, 1.0), (1.15, 1.15), (1.0, 1.15), (1.0, 1.5), (1.15, 1.5), (0.8, 1.25)]
    print(
        "| logits too large by | true difference | n | covers | plain covers | supported | worse |"
    )
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for pair in pairs:
        truth = expected(pair[0]) - expected(pair[1])
        for samples in arguments.samples:
            generator = np.random.default_rng(0)
            covered = plain = supported = worse = 0
            for _ in range(arguments.repetitions):
                factors = [
                    f * (1 + SEED_SPREAD * generator.standard_normal())
                    for f in pair
                    for _ in range(arguments.seeds)
                ]
                runs, labels = draw(generator, samples, factors)
                ours, theirs = runs[: arguments.seeds], runs[arguments.seeds :]
                found = difference("ece", ours, theirs, labels)
                covered += found.low <= truth <= found.high
                supported += found.verdict == "supported"
                worse += found.verdict == "worse"
                plain += _plain_covers(ours, theirs, labels, truth)
            shares = [x / arguments.repetitions for x in (covered, plain, supported, worse)]
            print(
                f"| {pair[0]:g}, {pair[1]:g} | {truth:+.4f} | {samples:,} | "
                + " | ".join(f"{share:.1%}" for share in shares)
                + " |",
                flush=True,
            )


def _plain_covers(
    ours: list[torch.Tensor], theirs: list[torch.Tensor], labels: torch.Tensor, truth: float
) -> bool:
    """Whether the plain interval of the difference (paired jackknife) contains the true value."""
    value = gaps_of(ours, labels) - gaps_of(theirs, labels)
    parts = _without_a_part(ours, labels) - _without_a_part(theirs, labels)
    error = np.sqrt((PARTS - 1) * np.var(parts))
    return bool(abs(value - truth) <= 1.96 * error)


def _without_a_part(runs: list[torch.Tensor], labels: torch.Tensor) -> np.ndarray:
    """Mean ECE of runs on all samples except one part, for each part, (PARTS,)."""
    part = np.arange(len(labels)) % PARTS
    left = len(labels) - np.bincount(part, minlength=PARTS)
    errors = []
    for run in runs:
        confidence, predicted = run.max(dim=1)
        gaps = (confidence - (predicted == labels).double()).numpy()
        cell = np.maximum(np.ceil(confidence.numpy() * NUM_BINS).astype(int) - 1, 0)
        sums = np.bincount(part * NUM_BINS + cell, gaps, PARTS * NUM_BINS)
        sums = sums.reshape(PARTS, NUM_BINS)
        errors.append(np.abs(sums.sum(axis=0) - sums).sum(axis=1) / left)
    return np.mean(errors, axis=0)


if __name__ == "__main__":
    main()
