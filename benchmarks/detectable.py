"""Checks the power that `detectable_difference` promises, by simulation.

Two networks predict the same samples with independent noise, so that some samples are correct for
only one of them. The second is more overconfident, by the difference that the function returns for
the split. `python -m benchmarks.detectable` counts how often `difference` detects it. With
`--power 0.3` the difference is the one that `chance_of_detection` promises to detect in 30 %.
"""

import argparse

import numpy as np
import torch
from scipy.special import ndtri

from trainables.metrics import detectable_difference, difference, expected_calibration_error

CLASSES = 10
LARGE = 60_000


def draw(
    random: np.random.Generator, samples: int, factors: tuple[float, float], noise: float
) -> tuple[list[torch.Tensor], torch.Tensor]:
    """Probabilities (N, 10) of two networks whose logits are too large by factors, and labels."""
    honest = 3.5 * random.standard_normal((samples, CLASSES))
    labels = torch.softmax(torch.from_numpy(honest), dim=1).numpy().cumsum(axis=1)
    targets = (labels < random.random((samples, 1))).sum(axis=1).clip(max=CLASSES - 1)
    runs = [
        torch.softmax(
            torch.from_numpy(factor * (honest + noise * random.standard_normal(honest.shape))), 1
        )
        for factor in factors
    ]
    return runs, torch.from_numpy(targets)


def measure(samples: int, factor: float, noise: float, repetitions: int, power: float) -> str:
    """A row of the table."""

    def errors(second: float) -> tuple[float, float]:
        runs, labels = draw(np.random.default_rng(0), LARGE, (factor, second), noise)
        first, other = (expected_calibration_error(run, labels) for run in runs)
        return first, other

    runs, labels = draw(np.random.default_rng(0), LARGE, (factor, factor), noise)
    right = [run.argmax(dim=1) == labels for run in runs]
    error = 1 - float(right[0].double().mean())
    disagreement = float((right[0] ^ right[1]).double().mean())
    usual = detectable_difference(samples, error, disagreement=disagreement, power=0.8)
    wanted = usual * (ndtri(0.975) + ndtri(power)) / (ndtri(0.975) + ndtri(0.8))
    low, high = factor, 4 * factor
    for _ in range(8):
        middle = (low + high) / 2
        first, other = errors(middle)
        low, high = (middle, high) if other - first < wanted else (low, middle)
    random = np.random.default_rng(1)
    found = 0
    for _ in range(repetitions):
        (first_run, second_run), labels = draw(random, samples, (factor, high), noise)
        found += difference("ece", [first_run], [second_run], labels).verdict == "supported"
    return (
        f"| {samples:,} | {error:.3f} | {disagreement:.3f} | {errors(high)[0]:.4f} | {wanted:.4f}"
        f" | {100 * found / repetitions:.0f}% |"
    )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=500, help="samples to draw")
    parser.add_argument(
        "--samples", type=int, nargs="+", default=[500, 2000, 10_000], help="numbers of samples"
    )
    parser.add_argument("--power", type=float, default=0.8, help="promised power")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    print("| n | error | disagreement | ECE of the better | difference | found |")
    print("| --- | --- | --- | --- | --- | --- |")
    for factor in (0.8, 1.1):
        for samples in arguments.samples:
            row = measure(samples, factor, 1.0, arguments.repetitions, arguments.power)
            print(row, flush=True)


if __name__ == "__main__":
    main()
