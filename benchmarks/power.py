"""Power and false support of verdicts about calibration errors, by simulated sweeps.

    python -m benchmarks.power [--repetitions 200] [--samples 5000]

Networks of ten classes predict the same samples with independent noise and logits that are too
large, by a factor that varies with the seed. 15 settings are searched, of which three have a lower
expected ECE than cross-entropy by the true difference. The three best by validation ECE are
finalists, and the best of these is compared with cross-entropy without a temperature, by ECE and by
NLL calibration. A row is a way to spend trainings with fresh seeds: two seeds of each finalist and
cross-entropy; one of each finalist, then three or eight of the best and cross-entropy; and
``auto``, by the rule of ``selection.seeds: auto`` for ECE. Columns are the mean number of
trainings, and how often the verdict on the test split is "supported", in percent.
"""

from __future__ import annotations

import argparse
import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch

from sweeps.evidence.comparison import LEAST_CHANCE
from sweeps.results.verdicts import ERROR
from sweeps.sweep_file.sections.search import LOOKS
from trainables import metrics as M
from trainables.metrics.inference.intervals import nll_reductions
from trainables.posthoc import TemperatureScaling

CLASSES = 10
SETTINGS = 15
BETTER = 3
FINALISTS = 3
BASELINE = SETTINGS  # number of cross-entropy
OVERCONFIDENT = 0.06  # expected ECE of cross-entropy
TRUTHS = (0.0, 0.01, 0.02, 0.03)
NOISE = 0.7  # of a network's logits, relative to the signal's deviation of 2
SPREAD = 0.03  # deviation of the logarithm of the factor over seeds
WAYS = ("two of each", "three of the best", "eight of the best", "auto")


def draw_samples(random: np.random.Generator, count: int) -> tuple[np.ndarray, torch.Tensor]:
    """Signals (N, K) and labels (N,)."""
    signal = 2 * random.standard_normal((count, CLASSES))
    probs = torch.softmax(torch.from_numpy(signal), dim=1)
    labels = (probs.numpy().cumsum(axis=1) < random.random((count, 1))).sum(axis=1)
    return signal, torch.from_numpy(labels.clip(max=CLASSES - 1))


def draw_logits(random: np.random.Generator, signal: np.ndarray, factor: float) -> torch.Tensor:
    """Logits of a network."""
    return torch.from_numpy(factor * (signal + NOISE * random.standard_normal(signal.shape)))


def factors(samples: int) -> dict[float, float]:
    """By expected ECE, over seeds and these many samples, the factor of the logits."""
    random = np.random.default_rng(0)
    signal, labels = draw_samples(random, samples)
    grid = np.linspace(0.85, 1.6, 16)
    seeds = np.exp(SPREAD * np.linspace(-1.5, 1.5, 7))
    weights = np.exp(-(np.linspace(-1.5, 1.5, 7) ** 2) / 2)
    logits = draw_logits(random, signal, 1.0)
    errors = [
        np.average(
            [M.expected_calibration_error((f * s * logits).softmax(1), labels) for s in seeds],
            weights=weights,
        )
        for f in grid
    ]
    lowest = int(np.argmin(errors))
    wanted = [OVERCONFIDENT - truth for truth in TRUTHS]
    return {w: float(np.interp(w, errors[lowest:], grid[lowest:])) for w in wanted}


@dataclass
class Sweep:
    """The networks of a simulated sweep, drawn when they are first used.

    Attributes:
        splits: Signals and labels of the validation and the test split.
        factors: The factor of each setting; the last is cross-entropy's.
        random: Random generator of the networks.
        runs: Logits on both splits of each setting's networks with fresh seeds.
    """

    splits: Sequence[tuple[np.ndarray, torch.Tensor]]
    factors: Sequence[float]
    random: np.random.Generator
    runs: dict[int, list[list[torch.Tensor]]] = field(default_factory=dict)

    def train(self, setting: int) -> list[torch.Tensor]:
        """Logits of a new network on both splits."""
        factor = self.factors[setting] * np.exp(SPREAD * self.random.standard_normal())
        return [draw_logits(self.random, signal, factor) for signal, _ in self.splits]

    def logits(self, setting: int, seeds: int, split: int) -> list[torch.Tensor]:
        """Logits of the first fresh seeds of a setting."""
        own = self.runs.setdefault(setting, [])
        while len(own) < seeds:
            own.append(self.train(setting))
        return [run[split] for run in own[:seeds]]

    def ece(self, setting: int, seeds: int) -> float:
        """Mean validation ECE of fresh seeds."""
        labels = self.splits[0][1]
        found = self.logits(setting, seeds, 0)
        return float(np.mean([M.expected_calibration_error(z.softmax(1), labels) for z in found]))

    def finalists(self) -> list[int]:
        """The settings with the lowest validation ECE of a network."""
        labels = self.splits[0][1]
        found = {
            setting: M.expected_calibration_error(self.train(setting)[0].softmax(1), labels)
            for setting in range(SETTINGS)
        }
        return sorted(found, key=found.__getitem__)[:FINALISTS]

    def compare(
        self, best: int, seeds: int, others: dict[int, int], split: int, share: float = 1.0
    ) -> M.Difference:
        """The best finalist against cross-entropy, by ECE; `others` have this many seeds."""
        groups = [(best, seeds), (BASELINE, seeds), *others.items()]
        ours, theirs, *rest = (
            [z.softmax(1) for z in self.logits(*group, split)] for group in groups
        )
        return M.difference(
            "ece",
            ours,
            theirs,
            self.splits[split][1],
            others=rest,
            candidates=SETTINGS,
            finalists=FINALISTS,
            fresh_samples=split == 1,
            confidence=1 - ERROR * share,
        )

    def compare_calibration(self, best: int, seeds: int, others: dict[int, int]) -> M.Difference:
        """The same by NLL calibration on the test split."""
        labels = [labels for _, labels in self.splits]

        def reductions(setting: int, count: int) -> list[torch.Tensor]:
            both = (self.logits(setting, count, split) for split in (0, 1))
            return [
                nll_reductions(test, TemperatureScaling().fit(known, labels[0])(test), labels[1])
                for known, test in zip(*both, strict=True)
            ]

        groups = [(best, seeds), (BASELINE, seeds), *others.items()]
        ours, theirs, *rest = (reductions(*group) for group in groups)
        return M.mean_difference(
            "nll_calibration",
            ours,
            theirs,
            others=rest,
            candidates=FINALISTS,
            finalists=FINALISTS,
            fresh_samples=True,
        )


def ways_of(sweep: Sweep) -> Iterator[tuple[str, int, int, int, dict[int, int]]]:
    """Of each way: its name, trainings, the best finalist, its seeds and those of the others."""
    again = sweep.finalists()
    best = min(again, key=lambda k: sweep.ece(k, 2))
    yield WAYS[0], 2 * (FINALISTS + 1), best, 2, {k: 2 for k in again if k != best}
    best = min(again, key=lambda k: sweep.ece(k, 1))
    others = {k: 1 for k in again if k != best}
    for name, seeds in zip(WAYS[1:], (3, 8, _until_decided(sweep, best, others)), strict=True):
        yield name, FINALISTS - 1 + 2 * seeds, best, seeds, others


def _until_decided(sweep: Sweep, best: int, others: dict[int, int]) -> int:
    """The number of seeds by the looks at the verdict on the validation split."""
    last = max(LOOKS)
    for seeds, share in LOOKS.items():
        found = sweep.compare(best, seeds, others, 0, share)
        if seeds == last or found.verdict != "not supported":
            return seeds
        if sweep.ece(best, seeds) >= sweep.ece(BASELINE, seeds):
            return seeds
        level = 1 - ERROR * LOOKS[last]
        design = M.Design(level, SETTINGS, FINALISTS)
        if M.chance_of_support(found, last, design) < LEAST_CHANCE:
            return seeds
    return last


def simulate(samples: int, truth: float, of: dict[float, float], repetitions: int) -> Counter[str]:
    """Counts by way and what: trainings and "supported" by both metrics."""
    counts: Counter[str] = Counter()
    own = [of[OVERCONFIDENT - truth]] * BETTER + [of[OVERCONFIDENT]] * (SETTINGS + 1 - BETTER)
    for repetition in range(repetitions):
        random = np.random.default_rng(repetition)
        sweep = Sweep([draw_samples(random, samples) for _ in range(2)], own, random)
        for name, trainings, best, seeds, others in ways_of(sweep):
            by_ece = sweep.compare(best, seeds, others, 1)
            by_part = sweep.compare_calibration(best, seeds, others)
            counts[f"{name}, trainings"] += trainings
            for metric, found in (("ece", by_ece), ("part", by_part)):
                counts[f"{name}, {metric}"] += found.verdict == "supported"
    return counts


def main() -> None:
    """Simulate and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repetitions", type=int, default=200, help="simulated sweeps")
    parser.add_argument("--samples", type=int, default=5000, help="size of a split")
    parser.add_argument("--large", type=int, default=60_000, help="samples for the factors")
    parser.add_argument(
        "--truths", type=float, nargs="+", choices=TRUTHS, default=list(TRUTHS), help="differences"
    )
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    of = factors(arguments.large)
    print("| true difference | fresh seeds | trainings | supported by ECE | by NLL calibration |")
    print("| --- " * 5 + "|", flush=True)
    for truth in arguments.truths:
        counts = simulate(arguments.samples, truth, of, arguments.repetitions)
        for way in WAYS:
            trainings, *shares = (
                counts[f"{way}, {what}"] / arguments.repetitions
                for what in ("trainings", "ece", "part")
            )
            cells = " | ".join(f"{100 * share:.1f}" for share in shares)
            print(f"| {truth:g} | {way} | {trainings:.1f} | {cells} |", flush=True)


if __name__ == "__main__":
    main()
