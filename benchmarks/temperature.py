"""What a temperature costs and gains on few samples, with and without the prior of ln T.

Predictions are too confident by a known factor, 1 if they are calibrated. The table has the NLL on
20,000 fresh samples less that of the best temperature: without scaling, with the pure maximum
likelihood fit, and with the default fit; each as mean and worst of the draws.

    python -m benchmarks.temperature
"""

import argparse
from statistics import fmean
from typing import Final

import torch

from benchmarks.recommendation import FRESH, LAWS
from trainables import metrics as M
from trainables.posthoc import TemperatureScaling
from trainables.posthoc.temperature import Criterion

FITS: Final[tuple[Criterion, ...]] = ("nll_unpenalised", "nll")


def excesses(law: str, factor: float, count: int, seed: int) -> list[float]:
    """NLL on fresh samples less the lowest, as given and with each fit."""
    draw = torch.Generator().manual_seed(seed)
    truth = LAWS[law](count + FRESH, 10, draw)
    labels = torch.multinomial(truth.softmax(dim=1), 1, generator=draw)[:, 0]
    logits = factor * truth
    few, fresh = slice(count), slice(count, None)
    scalers = [TemperatureScaling(each).fit(logits[few], labels[few]) for each in FITS]
    divisors = [factor, 1.0, *(scaler.temperature for scaler in scalers)]
    best, *others = (
        M.evaluate(logits[fresh] / divisor, labels[fresh], ["nll"])["nll"] for divisor in divisors
    )
    return [other - best for other in others]


def main() -> None:
    """Print one row per law, factor and number of samples."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--laws", nargs="+", default=list(LAWS), choices=list(LAWS))
    parser.add_argument("--factors", type=float, nargs="+", default=[0.6, 1.0, 2.0])
    parser.add_argument("--samples", type=int, nargs="+", default=[50, 200, 1000, 5000])
    parser.add_argument("--draws", type=int, default=100)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    print("| law | factor | n | as given | maximum likelihood | with the prior |")
    print("| --- | --- | --- | --- | --- | --- |")
    for law in arguments.laws:
        for factor in arguments.factors:
            for count in arguments.samples:
                found = [excesses(law, factor, count, seed) for seed in range(arguments.draws)]
                columns = list(zip(*found, strict=True))
                cells = [f"{fmean(each):.4f} / {max(each):.4f}" for each in columns]
                print(f"| {law} | {factor:g} | {count:,} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
