"""Coverage and power of verdicts about the best of many settings, by simulated sweeps.

N settings are searched with one seed each on shared samples. The finalists, with the lowest mean
loss, are trained again with a fresh seed. The best finalist and the baseline get more, and are
compared by :func:`trainables.metrics.mean_difference`, on the validation split, which was used for
selection, and on as many samples of a test split. ``auto`` adds seeds until the verdict on the
validation split is decided, by the rule of ``selection.seeds: auto``.

    python -m benchmarks.selection [--repetitions 500] [--samples 300 2500 50000] [--finalists 3]

The loss of a network on a sample is a sum of a part that all networks share, a deviation of the
setting (heavy-tailed or skewed, independent or correlated between settings), a deviation of the
network, an effect of its seed on all samples, and the advantage of the setting. For each number of
seeds, a row has in percent how often the interval contains the true difference, how often the
verdict is "supported", and how often it is "supported" without an advantage. The truth is that no
setting, one setting or several settings have an advantage. For ``auto``, the mean number of seeds
follows. With ``--per-training``, a row has, by number of finalists and seeds, the number of
trainings, how often the verdicts are "supported", and the mean true advantage of the selected
setting.
"""

from __future__ import annotations

import argparse
import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from sweeps.evidence.comparison import LEAST_CHANCE
from sweeps.results.verdicts import ERROR
from sweeps.sweep_file.sections.search import LOOKS
from trainables.metrics import Difference, chance_of_support, mean_difference

Array = npt.NDArray[np.float64]

CANDIDATES = 29
SEEDS = (2, 3, 5, 10)
ADVANTAGE = 0.02  # with 2,500 samples; as large beside the noise with more or fewer
_MOST = 20.0  # standard deviations
TRUTHS = ("none", "one", "several")
SPLITS = ("validation", "test")
EVENTS = ("covers", "supported", "false")


@dataclass(frozen=True)
class Noise:
    """Standard deviations of the parts of a loss.

    Attributes:
        setting: Standard deviation of a setting's deviation on a sample.
        network: Standard deviation of a network's deviation on a sample.
        seed: Standard deviation of the effect of a seed on all samples.
        correlation: Correlation of the deviations of two settings on a sample.
        skewed: Whether deviations are exponential instead of Student's t with five degrees of
            freedom.
    """

    setting: float
    network: float
    seed: float
    correlation: float = 0.0
    skewed: bool = False

    def draw(self, generator: np.random.Generator, *shape: int) -> Array:
        """Deviations of variance 1."""
        if self.skewed:
            return generator.standard_exponential(shape) - 1
        return (generator.standard_t(5, shape) / np.sqrt(5 / 3)).clip(-_MOST, _MOST)


NOISES = {
    "samples": Noise(0.3, 0.1, 0.001),
    "mixed": Noise(0.2, 0.4, 0.004),
    "seeds": Noise(0.05, 0.4, 0.008),
    "mixed, correlated": Noise(0.2, 0.4, 0.004, correlation=0.8),
    "mixed, skewed": Noise(0.2, 0.4, 0.004, skewed=True),
}


def advantages(truth: str, samples: int) -> Array:
    """Decrease of the expected loss of each setting; the baseline is last, (CANDIDATES + 1,)."""
    found = np.zeros(CANDIDATES + 1)
    if truth != "none":
        found[0] = ADVANTAGE
    if truth == "several":
        found[1:5], found[5:10], found[10:15] = ADVANTAGE, ADVANTAGE / 2, -ADVANTAGE
    return found * np.sqrt(2500 / samples)


@dataclass(frozen=True)
class Sweep:
    """The observations of a simulated sweep if no setting had an advantage.

    Attributes:
        searched: Mean loss of each setting in the search, (CANDIDATES,).
        settings: Deviations of each setting on the validation and the test split,
            (2, CANDIDATES + 1, N); the last is the baseline.
        noise: Standard deviations of the noise.
        generator: Random generator of the networks.
    """

    searched: Array
    settings: Array
    noise: Noise
    generator: np.random.Generator

    def runs(self, setting: int, count: int) -> list[Array]:
        """Losses of ``count`` networks of a setting on both splits, (2, N) each."""
        shape = 2, self.settings.shape[2]
        return [
            self.settings[:, setting]
            + self.noise.network * self.noise.draw(self.generator, *shape)
            + self.noise.seed * self.generator.standard_normal()
            for _ in range(count)
        ]


def draw_sweep(generator: np.random.Generator, samples: int, noise: Noise) -> Sweep:
    """Search all settings with one seed."""
    shared = noise.draw(generator, 2, 1, samples)
    own = noise.draw(generator, 2, CANDIDATES + 1, samples)
    settings = noise.setting * (
        np.sqrt(noise.correlation) * shared + np.sqrt(1 - noise.correlation) * own
    )
    network = noise.network / np.sqrt(samples) * generator.standard_normal(CANDIDATES)
    seed = noise.seed * generator.standard_normal(CANDIDATES)
    return Sweep(settings[0, :-1].mean(axis=1) + network + seed, settings, noise, generator)


@dataclass(frozen=True)
class Trained:
    """The finalists of a sweep, trained with fresh seeds.

    Attributes:
        runs: Losses of the networks of each setting on both splits, (2, N) each, before the
            advantages are subtracted.
        gains: The advantage of each setting, (CANDIDATES + 1,).
        finalists: The settings that were trained again, without the baseline.
    """

    runs: dict[int, list[Array]]
    gains: Array
    finalists: list[int]

    def best(self) -> int:
        """The finalist with the lowest mean loss of its first seed on the validation split."""
        return min(self.finalists, key=lambda k: self.runs[k][0][0].mean() - self.gains[k])

    def compare(self, best: int, seeds: int, split: int, share: float = 1.0) -> Difference:
        """Compare a finalist with the baseline.

        Args:
            best: The finalist.
            seeds: Number of seeds of the finalist and the baseline.
            split: 0 for the validation split, 1 for the test split.
            share: Share of the allowed error.
        """
        return mean_difference(
            "nll",
            self._losses(best, seeds, split),
            self._losses(CANDIDATES, seeds, split),
            candidates=CANDIDATES,
            finalists=len(self.finalists),
            fresh_samples=split == 1,
            confidence=1 - ERROR * share,
            others=[self._losses(k, 1, split) for k in self.finalists if k != best],
        )

    def _losses(self, setting: int, seeds: int, split: int) -> list[torch.Tensor]:
        return [
            torch.from_numpy(run[split] - self.gains[setting]) for run in self.runs[setting][:seeds]
        ]

    def until_decided(self) -> tuple[int, int, Difference]:
        """The best finalist, its seeds and the last look, by ``selection.seeds: auto``."""
        last, best = max(LOOKS), self.best()
        for seeds, share in LOOKS.items():
            found = self.compare(best, seeds, 0, share)
            if seeds == last or found.verdict != "not supported" or found.value >= 0:
                break
            chance = chance_of_support(
                found,
                last,
                confidence=1 - ERROR * LOOKS[last],
                candidates=CANDIDATES,
                finalists=len(self.finalists),
            )
            if chance < LEAST_CHANCE:
                break
        return best, seeds, found


def simulate(
    noise: Noise, samples: int, repetitions: int, finalists: Sequence[int]
) -> Counter[object]:
    """Counts of events by finalists, truth, seeds, split and event."""
    counts: Counter[object] = Counter()
    for repetition in range(repetitions):
        sweep = draw_sweep(np.random.default_rng(repetition), samples, noise)
        runs = {CANDIDATES: sweep.runs(CANDIDATES, max(SEEDS))}
        for truth in TRUTHS:
            gains = advantages(truth, samples)
            order = np.argsort(sweep.searched - gains[:-1]).tolist()
            for setting in order[: max(finalists)]:
                if setting not in runs:
                    runs[setting] = sweep.runs(setting, max(SEEDS))
            for number in finalists:
                trained = Trained(runs, gains, order[:number])
                for way in (*SEEDS, "auto"):
                    count(counts, trained, (number, truth, way))
    return counts


def count(counts: Counter[object], trained: Trained, key: tuple[object, ...]) -> None:
    """Count the events for a number of seeds (the last part of the key), or ``auto``."""
    seeds = key[-1]
    if isinstance(seeds, int):
        best = trained.best()
        found = [trained.compare(best, seeds, split) for split in range(len(SPLITS))]
    else:
        best, seeds, look = trained.until_decided()
        found = [look, trained.compare(best, seeds, 1)]
    true = -trained.gains[best]
    counts[*key, "advantage"] -= true
    counts[*key, "seeds"] += seeds
    counts[*key, "trainings"] += len(trained.finalists) - 1 + 2 * seeds
    for split, each in zip(SPLITS, found, strict=True):
        counts[*key, split, "covers"] += each.low <= true <= each.high
        counts[*key, split, "supported"] += each.verdict == "supported"
        counts[*key, split, "false"] += each.verdict == "supported" and true >= 0


def print_coverage(counts: Counter[object], repetitions: int, number: int, first: str) -> None:
    """Print a row per truth and split, with a column per number of seeds."""
    for truth in TRUTHS:
        for split in SPLITS:
            cells = []
            for way in (*SEEDS, "auto"):
                key = (number, truth, way)
                shares = (counts[*key, split, event] / repetitions for event in EVENTS)
                cells.append(" / ".join(f"{100 * share:.1f}" for share in shares))
            seeds = counts[number, truth, "auto", "seeds"] / repetitions
            print(f"| {first} | {truth} | {split} | {' | '.join(cells)}, {seeds:.1f} |", flush=True)


def print_per_training(
    counts: Counter[object], repetitions: int, finalists: Sequence[int], first: str
) -> None:
    """Print a row per truth, number of finalists and number of seeds."""
    for truth in TRUTHS[1:]:
        for number in finalists:
            for way in (*SEEDS, "auto"):
                key = (number, truth, way)
                trainings, gain = (
                    counts[*key, what] / repetitions for what in ("trainings", "advantage")
                )
                shares = (counts[*key, split, "supported"] / repetitions for split in SPLITS)
                cells = " | ".join(f"{100 * share:.1f}" for share in shares)
                print(
                    f"| {first} | {truth} | {number} | {way} | {trainings:.1f} | {cells} | "
                    f"{gain:.4f} |",
                    flush=True,
                )


def main() -> None:
    """Simulate and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repetitions", type=int, default=500, help="simulated sweeps")
    parser.add_argument(
        "--samples", type=int, nargs="+", default=[300, 2500, 50_000], help="sizes of a split"
    )
    parser.add_argument(
        "--finalists", type=int, nargs="+", default=[3], help="numbers of finalists"
    )
    parser.add_argument(
        "--noise", nargs="+", choices=list(NOISES), default=list(NOISES), help="kinds of noise"
    )
    parser.add_argument("--per-training", action="store_true", help="compare numbers of finalists")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    heads = ["noise", "n", "true advantage"]
    if arguments.per_training:
        heads += ["finalists", "seeds", "trainings", *(f"supported, {s}" for s in SPLITS)]
        heads += ["advantage of the selected"]
    else:
        heads += ["split", *(f"{seeds} seeds" for seeds in SEEDS), "auto, mean seeds"]
    print(f"| {' | '.join(heads)} |\n{'| --- ' * len(heads)}|")
    for name in arguments.noise:
        for samples in arguments.samples:
            repetitions = min(arguments.repetitions, max(100, 10_000_000 // samples))
            counts = simulate(NOISES[name], samples, repetitions, arguments.finalists)
            first = f"{name} | {samples:,}"
            if arguments.per_training:
                print_per_training(counts, repetitions, arguments.finalists, first)
            else:
                print_coverage(counts, repetitions, arguments.finalists[0], first)


if __name__ == "__main__":
    main()
