"""Do verdicts about the best of many settings hold, and how often do they support a true one?

Simulated sweeps: N settings are searched with one seed each on shared samples, the finalists with
the lowest mean loss and the baseline are trained again with fresh seeds, and the best finalist is
compared with the baseline by :func:`trainables.metrics.difference`.

    python -m benchmarks.selection [--repetitions 500] [--samples 300 2500 50000] [--split test]

The loss of a network on a sample is the sum of what all networks share, of the setting's own
deviation (heavy-tailed or skewed, between settings independent or correlated), of the network's own
deviation, of what its seed does to all samples, and of the setting's advantage. A row prints, by
the number of seeds, in percent how often the interval holds the true difference, how often the
verdict is "supported", and how often it is though there is no advantage; the true advantage is 0 in
all, in one or in several of the settings. With ``--split test`` the selection is the same, and the
verdict is given on as many fresh samples.
"""

from __future__ import annotations

import argparse
import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

from collections import Counter
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from trainables.metrics.differences import Difference, difference

Array = npt.NDArray[np.float64]

CANDIDATES = 29
FINALISTS = 3
SEEDS = (2, 3, 5, 10)
ADVANTAGE = 0.02  # with 2,500 samples; as large beside the noise with more or fewer
_SHARED = 20.0  # the loss that all networks share, large enough to keep losses positive
_MOST = 20.0  # standard deviations
TRUTHS = ("none", "one", "several")


@dataclass(frozen=True)
class Noise:
    """Standard deviations of the parts of a loss.

    Attributes:
        setting: Of a setting's deviation on a sample.
        network: Of a network's own deviation on a sample.
        seed: Of what a seed does to all samples.
        correlation: Of two settings' deviations on a sample.
        skewed: Whether deviations are exponential, and not Student's t with five degrees of
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
    """How much lower each setting's expected loss is, (CANDIDATES,)."""
    found = np.zeros(CANDIDATES)
    if truth != "none":
        found[0] = ADVANTAGE
    if truth == "several":
        found[1:5], found[5:10], found[10:15] = ADVANTAGE, ADVANTAGE / 2, -ADVANTAGE
    return found * np.sqrt(2500 / samples)


@dataclass(frozen=True)
class Sweep:
    """What a simulated sweep would observe if no setting had an advantage.

    Attributes:
        searched: Mean loss of each setting in the search, (CANDIDATES,).
        settings: Each setting's deviations on the validation and the test split,
            (2, CANDIDATES + 1, N); the last is the baseline.
        noise: Of whatever is drawn.
        generator: Draws the networks.
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


def probabilities(losses: Array) -> torch.Tensor:
    """Probabilities (N, 2) of which class 0 has these losses."""
    right = torch.from_numpy(np.exp(-_SHARED - losses))
    return torch.stack([right, 1 - right], dim=1)


def judge(
    sweep: Sweep,
    gains: Array,
    runs: dict[int, list[Array]],
    seeds: int,
    finalists: int,
    on_test: bool,
) -> tuple[Difference, float]:
    """Select among the finalists, and compare with the baseline; also the true difference."""
    first = np.argsort(sweep.searched - gains)[:finalists]
    means = {k: np.mean([each[0].mean() for each in runs[k][:seeds]]) - gains[k] for k in first}
    best = min(means, key=lambda k: means[k])

    def group(setting: int) -> list[torch.Tensor]:
        gain = 0.0 if setting == CANDIDATES else gains[setting]
        return [probabilities(each[int(on_test)] - gain) for each in runs[setting][:seeds]]

    found = difference(
        "nll",
        group(best),
        group(CANDIDATES),
        torch.zeros(sweep.settings.shape[2], dtype=torch.int64),
        candidates=CANDIDATES,
        finalists=finalists,
        fresh_samples=on_test,
        others=[group(k) for k in first if k != best],
    )
    return found, -gains[best]


def simulate(
    noise: Noise, samples: int, repetitions: int, finalists: int, on_test: bool
) -> Counter[object]:
    """How often what was seen, by truth, seeds and event."""
    counts: Counter[object] = Counter()
    for repetition in range(repetitions):
        sweep = draw_sweep(np.random.default_rng(repetition), samples, noise)
        runs: dict[int, list[Array]] = {CANDIDATES: sweep.runs(CANDIDATES, max(SEEDS))}
        for truth in TRUTHS:
            gains = advantages(truth, samples)
            for setting in np.argsort(sweep.searched - gains)[:finalists]:
                if setting not in runs:
                    runs[setting] = sweep.runs(setting, max(SEEDS))
            for seeds in SEEDS:
                found, true = judge(sweep, gains, runs, seeds, finalists, on_test)
                counts[truth, seeds, "covers"] += found.low <= true <= found.high
                counts[truth, seeds, found.verdict] += 1
                counts[truth, seeds, "false"] += found.verdict == "supported" and true >= 0
    return counts


def main() -> None:
    """Simulate and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repetitions", type=int, default=500)
    parser.add_argument("--samples", type=int, nargs="+", default=[300, 2500, 50_000])
    parser.add_argument("--finalists", type=int, default=FINALISTS)
    parser.add_argument("--split", choices=["validation", "test"], default="validation")
    parser.add_argument("--noise", nargs="+", choices=list(NOISES), default=list(NOISES))
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    heads = " | ".join(f"{seeds} seeds" for seeds in SEEDS)
    print(f"| noise | true advantage | n | {heads} |\n{'| --- ' * (3 + len(SEEDS))}|")
    for name in arguments.noise:
        for samples in arguments.samples:
            repetitions = max(100, min(arguments.repetitions, 5_000_000 // samples))
            counts = simulate(
                NOISES[name], samples, repetitions, arguments.finalists, arguments.split == "test"
            )
            for truth in TRUTHS:
                cells = []
                for seeds in SEEDS:
                    events = ("covers", "supported", "false")
                    shares = (counts[truth, seeds, event] / repetitions for event in events)
                    cells.append(" / ".join(f"{100 * share:.1f}" for share in shares))
                print(f"| {name} | {truth} | {samples:,} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
