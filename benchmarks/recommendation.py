"""How often `choose` finds that predictions need scaling, and what it then gains.

Labels are drawn from known probabilities. Where the predictions are these probabilities, every
recommendation other than none is false. Otherwise, predictions favour some classes
(`offsets`: vector scaling repairs it) or confuse pairs of classes in one direction (`pairs`: matrix
scaling repairs it). The gain is the NLL with a temperature less the NLL with the selected method,
on 20,000 fresh samples.

    python -m benchmarks.recommendation --classes 5 50 --samples 500 10000
"""

import argparse
import math
import time
from collections.abc import Callable
from statistics import fmean

import torch
from torch import Tensor

from trainables import metrics as M
from trainables.posthoc import TemperatureScaling, choose
from trainables.posthoc.chosen import fitted

FRESH = 20_000
FRESH_ELEMENTS = 4_000_000
Pair = tuple[Tensor, Tensor]


def normal(count: int, classes: int, draw: torch.Generator) -> Tensor:
    return 2 * torch.randn(count, classes, generator=draw)


def imbalanced(count: int, classes: int, draw: torch.Generator) -> Tensor:
    return 1.5 * torch.randn(count, classes, generator=draw) + torch.linspace(0, -4, classes)


def accurate(count: int, classes: int, draw: torch.Generator) -> Tensor:
    logits = torch.randn(count, classes, generator=draw)
    favoured = torch.randint(classes, (count, 1), generator=draw)
    margin = 8 * torch.rand(count, 1, generator=draw) + math.log(classes)
    return logits.scatter_add_(1, favoured, margin)


def nearly_perfect(count: int, classes: int, draw: torch.Generator) -> Tensor:
    """About one error in 100."""
    logits = torch.randn(count, classes, generator=draw)
    favoured = torch.randint(classes, (count, 1), generator=draw)
    return logits.scatter_add_(1, favoured, torch.full((count, 1), 5.0 + math.log(classes)))


def as_they_are(truth: Tensor) -> Tensor:
    return truth


def offsets(truth: Tensor) -> Tensor:
    """Every second class is favoured, by a factor of 2.2."""
    return truth + 0.8 * (torch.arange(truth.shape[1]) % 2)


def pairs(truth: Tensor) -> Tensor:
    """Each second class is confused with the class before it, but not the reverse."""
    shifted = truth.clone()
    shifted[:, 1::2] += 0.5 * truth[:, : 2 * (truth.shape[1] // 2) : 2]
    return shifted


LAWS = {each.__name__: each for each in (normal, imbalanced, accurate, nearly_perfect)}
FAULTS: dict[str, Callable[[Tensor], Tensor]] = {
    "calibrated": as_they_are,
    "offsets": offsets,
    "pairs": pairs,
}


def sample(law: str, fault: str, count: int, classes: int, draw: torch.Generator) -> Pair:
    """Logits (N, K) of predictions, and labels (N,) of the true probabilities."""
    truth = LAWS[law](count, classes, draw)
    labels = torch.multinomial(truth.softmax(dim=1), 1, generator=draw)[:, 0]
    return FAULTS[fault](truth), labels


def repetition(law: str, fault: str, count: int, classes: int, seed: int) -> tuple[str, float]:
    """The name of the selected method, and its gain over a temperature on fresh samples."""
    draw = torch.Generator().manual_seed(seed)
    logits, labels = sample(law, fault, count, classes, draw)
    best = choose(logits, labels).candidate
    selected = fitted((best,), logits, labels)[best]
    if selected.name == "temperature":
        return selected.name, 0.0
    fresh, truth = sample(law, fault, min(FRESH, FRESH_ELEMENTS // classes), classes, draw)
    plain = TemperatureScaling().fit(logits, labels)
    before, after = (M.evaluate(f(fresh), truth, ["nll"])["nll"] for f in (plain, selected))
    return selected.name, before - after


def main() -> None:
    """Print one row per law, fault, number of classes and number of samples."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--laws", nargs="+", default=list(LAWS), choices=list(LAWS))
    parser.add_argument("--faults", nargs="+", default=list(FAULTS), choices=list(FAULTS))
    parser.add_argument("--classes", type=int, nargs="+", default=[5, 50, 100, 1000])
    parser.add_argument("--samples", type=int, nargs="+", default=[500, 2000, 10_000])
    parser.add_argument("--repetitions", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=math.inf, help="CPU time per row")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    print("| predictions | law | K | n | draws | none | vector | matrix | mean gain, smallest |")
    print("| --- " * 9 + "|")
    for fault in arguments.faults:
        for classes in arguments.classes:
            for count in arguments.samples:
                for law in arguments.laws:
                    found: list[tuple[str, float]] = []
                    end = time.process_time() + arguments.seconds
                    while len(found) < arguments.repetitions and time.process_time() < end:
                        found.append(repetition(law, fault, count, classes, len(found)))
                    print(row(fault, law, classes, count, found), flush=True)


def row(fault: str, law: str, classes: int, count: int, found: list[tuple[str, float]]) -> str:
    names = [name for name, _ in found]
    gains = [gain for name, gain in found if name != "temperature"]
    shares = [f"{names.count(kind) / len(names):.0%}" for kind in ("none", "vector", "matrix")]
    gain = f"{fmean(gains):+.4f}, {min(gains):+.4f}" if gains else ""
    cells = [fault, law, str(classes), f"{count:,}", str(len(found)), *shares, gain]
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    main()
