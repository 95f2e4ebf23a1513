"""Coverage of intervals about the probability of an event, by simulation.

Calibration intercept and slope where scores follow several laws, and the prior that is estimated
from scores alone (``python -m benchmarks.event [--draws 200]``). Nominal: 95 %. Also what is said
of later data: that the prior has shifted, or the odds, or more.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Mapping

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import expit, logit

from sweeps.judging.applied import NamedScaling
from sweeps.judging.events import event_found
from sweeps.judging.inputs import Predicted, Scores, check_predicted
from sweeps.judging.later import prior_shift
from sweeps.judging.thresholds import CostThreshold, cost_threshold
from trainables.metrics.inference.influence import proportion_interval
from trainables.metrics.inference.recalibration import calibration_intercept, calibration_slope
from trainables.posthoc.prior_shift import prior_interval
from trainables.posthoc.scaling import Scaling

Array = NDArray[np.float64]
LEVEL = 0.95
ENOUGH = 400_000  # samples whose value counts as the true one
LINES: Mapping[str, tuple[float, float, Callable[[Array], Array]]] = {
    "calibrated": (-3.5, 1.0, lambda z: z),
    "too low": (-4.5, 1.0, lambda z: z + 0.8),
    "too extreme": (-4.0, 2.0, lambda z: 0.7 * z - 1),
    "bent": (-2.5, 1.2, lambda z: np.where(z > -1.5, -1.5 + 0.2 * (z + 1.5), z)),
}
"""Mean and deviation of the scores, and the true logit for a score."""


def of_lines(samples: int, draws: int) -> None:
    """Print the coverage of intercept and slope for each law."""
    random = np.random.default_rng(0)
    for name, (mean, deviation, true_logit) in LINES.items():
        z = random.normal(mean, deviation, ENOUGH)
        known = random.random(ENOUGH) < expit(true_logit(z))
        whole = torch.from_numpy(z), torch.from_numpy(known)
        true = [each(*whole)[0] for each in (calibration_intercept, calibration_slope)]
        inside: list[list[bool]] = [[], []]
        for _ in range(draws):
            z = random.normal(mean, deviation, samples)
            event = torch.from_numpy(random.random(samples) < expit(true_logit(z)))
            found = [
                each(torch.from_numpy(z), event)
                for each in (calibration_intercept, calibration_slope)
            ]
            for hits, (_, low, high), value in zip(inside, found, true, strict=True):
                if not np.isnan(low):
                    hits.append(low <= value <= high)
        shown = " | ".join(f"{np.mean(hits):.1%}" for hits in inside)
        print(f"| {name} | {samples:,} | {shown} |", flush=True)


def of_priors(samples: int, draws: int) -> None:
    """Print the coverage of the estimated prior, for two strengths of the scores."""
    random = np.random.default_rng(1)
    for strength in (1.5, 3.0):
        for old, new in ((0.03, 0.08), (0.3, 0.15)):
            inside = []
            for _ in range(draws):
                earlier = random.binomial(samples, old) / samples
                known = earlier, *proportion_interval(earlier, samples, LEVEL)
                evidence = random.normal(strength * (random.random(samples) < new), 1)
                ratio = strength * evidence - strength**2 / 2
                probs = torch.from_numpy(expit(ratio + logit(old)))
                _, low, high = prior_interval(probs, known)
                inside.append(low <= new <= high)
            print(f"| {strength:g} | {old:g} → {new:g} | {samples:,} | {np.mean(inside):.1%} |")


SHIFTS: Mapping[str, tuple[float, float, float]] = {
    "nothing": (0.05, 0.05, 0.0),
    "prior": (0.02, 0.05, 0.0),
    "prior, frequent event": (0.4, 0.15, 0.0),
    "risk of all, by .8": (0.05, 0.05, 0.8),
    "inputs, still calibrated": (0.05, 0.12, math.inf),
    "scores, by a factor of 1.7": (0.05, 0.05, math.nan),
}
"""Frequency of the event then and now, and how much its logit has risen for the same inputs.

Infinite: the scores know the new frequency. NaN: they become too extreme.
"""


def of_shifts(samples: int, draws: int) -> None:
    """Print the share of files whose first sentence is about each cause.

    The input of an event has a gamma distribution of shape 3, that of the others of shape 1.
    """
    random = np.random.default_rng(2)
    names = ("ok", "event")

    def rows(rate: float, prior: float, rise: float) -> Predicted:
        event = random.random(samples) < rate
        score = np.log(random.gamma(np.where(event, 3.0, 1.0), 1) ** 2 / 2) + logit(prior)
        if math.isfinite(rise) and rise:
            event = random.random(samples) < expit(score + rise)
        if math.isinf(rise):
            score += logit(rate) - logit(prior)
        if math.isnan(rise):
            score = 1.7 * score + 1
        both = np.stack([expit(-score), expit(score)], axis=1)
        return check_predicted("file", Scores(both, classes=names), event.astype(int))

    for name, (before, now, rise) in SHIFTS.items():
        said = dict.fromkeys(("prior", "either", "odds", "shape"), 0)
        for _ in range(draws):
            old, new = rows(before, before, 0), rows(now, before, rise)
            found = prior_shift(new, event_found(new, 1), old, NamedScaling(Scaling(), names))[0]
            if found is not None and found.cause != "none":
                said[found.cause] += 1
        shares = " | ".join(f"{count / draws:.1%}" for count in said.values())
        print(f"| {name} | {samples:,} | {shares} |", flush=True)


def of_costs(samples: int, draws: int) -> None:
    """Print the coverage of what a threshold by costs of 1 and 20 gives; scores are too extreme."""
    random = np.random.default_rng(3)
    figures = ("cost", "usual", "saved", "alarms", "caught")

    def found(count: int) -> CostThreshold:
        z = -4 + 1.8 * random.standard_normal(count)
        event = random.random(count) < expit(0.8 * z - 0.5)
        return cost_threshold(
            "event", torch.from_numpy(expit(z)), torch.from_numpy(event), (1.0, 20.0), None
        )

    true, inside = found(5 * ENOUGH), {name: list[bool]() for name in figures}
    for _ in range(draws):
        each = found(samples)
        for name in figures:
            measured, value = getattr(each, name), getattr(true, name).value
            if not math.isnan(measured.low):
                inside[name].append(measured.low <= value <= measured.high)
    print(f"| {samples:,} |", *(f"{np.mean(hits):.1%} |" for hits in inside.values()), flush=True)


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, nargs="+", default=[500, 2000])
    parser.add_argument("--draws", type=int, default=200)
    given = parser.parse_args()
    torch.set_num_threads(1)
    print("| law | samples | intercept | slope |\n| --- | --- | --- | --- |")
    for samples in given.samples:
        of_lines(samples, given.draws)
    print("\n| strength | prior | samples | coverage |\n| --- | --- | --- | --- |")
    for samples in given.samples:
        of_priors(samples, given.draws)
    print("\n| changed | samples | prior | either | odds | shape |")
    print("| --- | --- | --- | --- | --- | --- |")
    for samples in given.samples:
        of_shifts(samples, given.draws)
    print("\n| samples | cost | usual | saved | alarms | caught |")
    print("| --- | --- | --- | --- | --- | --- |")
    for samples in given.samples:
        of_costs(samples, given.draws)


if __name__ == "__main__":
    main()
