"""Coverage and power of the intervals of differences, by simulation.

Two settings with known calibration and a few seeds each are compared on the same samples. ``python
-m benchmarks.differences`` simulates how often the interval contains the true difference of their
ECEs (in the same 15 bins, on ``--pool`` samples), and how often the verdict is "supported". For
comparison, ``plain`` is the difference of the plain ECEs ± 1.96 paired standard errors. ``--laws``
chooses data distributions, by default all.
"""

from __future__ import annotations

import argparse
import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

from functools import cache
from itertools import product

import numpy as np
import torch
from scipy.special import softmax
from scipy.stats import norm

from trainables.metrics import expected_calibration_error
from trainables.metrics.inference.differences import difference

CLASSES = 10
NUM_BINS = 15
PARTS = 20  # parts of the samples for the jackknife
PAIRS = [(1.0, 1.0), (1.15, 1.15), (1.0, 1.15), (1.0, 1.5), (1.15, 1.5), (0.8, 1.25)]
SEED_SPREAD = 0.03  # standard deviation over seeds of a network's temperature
LAWS = ("one temperature", "label noise", "mixed subgroups", "overconfident subgroup")


def draw(
    generator: np.random.Generator, samples: int, overconfidence: list[float], law: str
) -> tuple[list[torch.Tensor], torch.Tensor]:
    """Probabilities of runs whose logits are too large by these factors, and the labels.

    All runs have the same samples: they share the true logits. The law changes the labels: 5% of
    them are random, half of the samples have a temperature of 1.6 and half of .6, or 15% have 8.
    """
    honest = generator.normal(0, 1.7, (samples, CLASSES))
    truth = true_probs(generator, honest, law)
    labels = (truth.cumsum(axis=1) < generator.random((samples, 1))).sum(axis=1)
    runs = [torch.softmax(torch.from_numpy(factor * honest), dim=1) for factor in overconfidence]
    return runs, torch.from_numpy(labels.clip(0, CLASSES - 1))


def true_probs(generator: np.random.Generator, logits: np.ndarray, law: str) -> np.ndarray:
    """True probabilities of samples (N, K) with these logits."""
    if law == "label noise":
        return 0.95 * softmax(logits, axis=1) + 0.05 / CLASSES
    share, inside, outside = {
        "one temperature": (0.0, 1.0, 1.0),
        "mixed subgroups": (0.5, 1.6, 0.6),
        "overconfident subgroup": (0.15, 8.0, 1.0),
    }[law]
    in_subgroup = generator.random((len(logits), 1)) < share
    return softmax(logits / np.where(in_subgroup, inside, outside), axis=1)


def gaps_of(runs: list[torch.Tensor], labels: torch.Tensor) -> float:
    """Mean ECE of runs."""
    return float(np.mean([expected_calibration_error(run, labels) for run in runs]))


@cache
def expected(factor: float, law: str, pool: int) -> float:
    """The expected ECE of a setting over seeds, on very many samples."""
    seeds = norm.ppf((np.arange(9) + 0.5) / 9)
    factors = [factor * (1 + SEED_SPREAD * seed) for seed in seeds]
    return gaps_of(*draw(np.random.default_rng(1), pool, factors, law))


def main() -> None:
    """Simulate and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repetitions", type=int, default=1000, help="samples to draw")
    parser.add_argument(
        "--samples", type=int, nargs="+", default=[500, 2000, 10_000], help="numbers of samples"
    )
    parser.add_argument("--seeds", type=int, default=2, help="seeds of each setting")
    parser.add_argument("--pool", type=int, default=1_000_000, help="samples of the true values")
    parser.add_argument("--laws", nargs="+", choices=LAWS, default=LAWS, help="distributions")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    print(
        "| distribution | logits too large by | true difference | n | covers | plain covers |"
        " supported | worse |"
    )
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for law, pair, samples in product(arguments.laws, PAIRS, arguments.samples):
        ours, theirs = (expected(factor, law, arguments.pool) for factor in pair)
        truth = ours - theirs
        shares = simulate(law, pair, truth, samples, arguments.seeds, arguments.repetitions)
        print(
            f"| {law} | {pair[0]:g}, {pair[1]:g} | {truth:+.4f} | {samples:,} | "
            + " | ".join(f"{share:.1%}" for share in shares)
            + " |",
            flush=True,
        )


def simulate(
    law: str, pair: tuple[float, float], truth: float, samples: int, seeds: int, repetitions: int
) -> np.ndarray:
    """Shares of repetitions: interval covers, plain interval covers, supported, worse."""
    generator = np.random.default_rng(0)
    found = []
    for _ in range(repetitions):
        factors = [
            f * (1 + SEED_SPREAD * generator.standard_normal()) for f in pair for _ in range(seeds)
        ]
        runs, labels = draw(generator, samples, factors, law)
        ours, theirs = runs[:seeds], runs[seeds:]
        result = difference("ece", ours, theirs, labels)
        covers = result.low <= truth <= result.high
        plain = _plain_covers(ours, theirs, labels, truth)
        found.append((covers, plain, result.verdict == "supported", result.verdict == "worse"))
    return np.mean(found, axis=0)


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
