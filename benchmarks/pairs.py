"""Rates of `judge A B` and of prediction sets, by simulation.

Pairs: two networks that are equal in law judge the same samples, so every verdict is false. The
table has the share of draws with any of the four verdicts, corrected (as printed) and each at 95 %.
Sets: an ensemble is selected among six networks, cross-fitted on the validation split, and
calibrates sets there; the table has their mean coverage of 5,000 fresh samples.

    python -m benchmarks.pairs
"""

import argparse
from collections.abc import Sequence

import torch
from torch import Tensor

from sweeps.judging.facts import Compared
from sweeps.judging.inputs import Scores, check_predicted
from sweeps.judging.judgement import COMPARED, compared, verdicts
from trainables.export.prediction_sets import Labelled, fit_prediction_sets
from trainables.posthoc.ensembles import cross_fitted_ensemble, fit_ensemble

CLASSES = 5
FRESH = 5000
NOISE = 0.7  # of each network's logits


def networks(count: int, samples: int, draw: torch.Generator) -> tuple[list[Tensor], Tensor]:
    """Logits (N, K) of each network, equal in law and overconfident, and labels (N,)."""
    truth = 2 * torch.randn(samples, CLASSES, generator=draw, dtype=torch.float64)
    labels = torch.multinomial(truth.softmax(dim=1), 1, generator=draw)[:, 0]
    noise = torch.randn(count, samples, CLASSES, generator=draw, dtype=torch.float64)
    return [truth + NOISE * each for each in noise], labels


def any_verdict(samples: int, seed: int) -> tuple[bool, bool]:
    """Whether two networks get any verdict, corrected and uncorrected."""
    logits, labels = networks(2, samples, torch.Generator().manual_seed(seed))
    ours, theirs = (
        check_predicted(name, Scores(each, logits=True), labels)
        for name, each in zip("ab", logits, strict=True)
    )
    single = [compared(metric, ours, theirs, 0.95) for metric in COMPARED]
    return _decided(verdicts(COMPARED, ours, theirs)), _decided(single)


def _decided(found: Sequence[Compared]) -> bool:
    return any(each.verdict != "not supported" for each in found)


def coverage(samples: int, target: float, seed: int) -> list[float]:
    """Coverage of the sets of an ensemble on fresh samples, by LAC, APS and RAPS."""
    logits, labels = networks(6, samples + FRESH, torch.Generator().manual_seed(seed))
    known, truth = [each[:samples] for each in logits], labels[:samples]
    crossed = cross_fitted_ensemble(known, truth, fit_ensemble)
    fresh = fit_ensemble(known, truth)([each[samples:] for each in logits])
    tested = Labelled(fresh, labels[samples:])
    sets = fit_prediction_sets(Labelled(crossed, truth), tested, (target,))
    return [found[f"{target:g}"]["coverage"] for found in sets.values()]


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--samples", type=int, nargs="+", default=[300, 2000])
    parser.add_argument("--draws", type=int, default=400)
    parser.add_argument("--sets", type=int, default=100, help="draws for prediction sets")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    print("| n | pairs: any verdict, corrected | uncorrected |")
    print("| --- | --- | --- |")
    for samples in arguments.samples:
        found = torch.tensor([any_verdict(samples, seed) for seed in range(arguments.draws)])
        corrected, single = found.double().mean(dim=0).tolist()
        print(f"| {samples:,} | {corrected:.1%} | {single:.1%} |", flush=True)
    print("\n| n | target | LAC | APS | RAPS |")
    print("| --- | --- | --- | --- | --- |")
    for samples in arguments.samples:
        for target in (0.8, 0.9):
            each = [coverage(samples, target, seed) for seed in range(arguments.sets)]
            means = torch.tensor(each).mean(dim=0).tolist()
            print(f"| {samples:,} | {target:g} | {' | '.join(f'{m:.3f}' for m in means)} |")


if __name__ == "__main__":
    main()
