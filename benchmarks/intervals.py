"""Coverage and width of the intervals of metrics, by simulation from known laws.

A law is a pool of samples with the model's probabilities and the true ones (for real predictions,
whose law is the pool itself, the labels). A repetition draws n samples of it and their labels; an
interval covers if it holds the metric's value on the whole law.

Run `python -m benchmarks.intervals` (hours on one core; `--repetitions`, `--metrics`, `--samples`,
`--classes` and `--laws` make it shorter). `--predictions FILE.npz` (arrays `logits` and `labels`)
adds real predictions. `--rivals` compares ways to make an interval of ECE instead.
"""

import argparse
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.fft import dct, idct

from trainables import metrics as M
from trainables.metrics._inversion import Cells, DrawnErrors, ErrorOfGaps, invert

Array = NDArray[np.float64]

NUM_BINS = 15
TEMPERATURES = {
    "calibrated": 1.0,
    "slightly overconfident": 1.05,
    "much overconfident": 1.5,
    "slightly underconfident": 0.95,
    "much underconfident": 0.6,
}
CALIBRATION = (
    "ece",
    "adaptive_ece",
    "classwise_ece",
    "classwise_adaptive_ece",
    "smooth_ece",
    "kde_ece",
    "debiased_ece",
)


@dataclass(frozen=True)
class Law:
    """Samples (P, K) to draw from: the model's probabilities and the true ones."""

    name: str
    probs: Array
    truth: Array
    is_real: bool = False

    def draw(self, count: int, random: np.random.Generator) -> tuple[torch.Tensor, torch.Tensor]:
        chosen = random.integers(0, len(self.probs), count)
        below = self.truth[chosen].cumsum(axis=1) < random.random(count)[:, None]
        labels = np.minimum(below.sum(axis=1), self.probs.shape[1] - 1)
        return torch.from_numpy(self.probs[chosen]), torch.from_numpy(labels)


def simulated(name: str, num_classes: int, size: int) -> Law:
    """A classifier whose logits at the law's temperature are the true ones."""
    random = np.random.default_rng(num_classes)
    logits = 2.0 * random.standard_normal((size, num_classes))
    logits[:, 0] += np.log2(num_classes) * random.standard_normal(size) ** 2
    return Law(name, softmax(logits), softmax(logits / TEMPERATURES[name]))


def real(path: Path) -> Law:
    """Predictions that somebody's model made."""
    arrays = np.load(path)
    logits = arrays["logits"].astype(np.float64)
    return Law(
        f"real: {path.stem}", softmax(logits), np.eye(logits.shape[1])[arrays["labels"]], True
    )


def softmax(logits: Array) -> Array:
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def population_value(metric: str, law: Law) -> float:
    """The metric on endlessly many samples of a law; nan where it is not defined."""
    if metric in OF_CLASSES:
        return float(OF_CLASSES[metric](law.probs, law.truth))
    if metric == "kde_ece" and law.is_real:  # nobody knows the accuracy given a confidence
        return float("nan")
    top = law.probs.argmax(axis=1)
    rows = np.arange(len(top))
    return float(OF_TOP_LABEL[metric](law.probs[rows, top], law.truth[rows, top]))


def brier(probs: Array, truth: Array) -> float:
    return float(((probs**2).sum(axis=1) + 1 - 2 * (truth * probs).sum(axis=1)).mean())


def over_classes(metric: Callable[[Array, Array], float]) -> Callable[[Array, Array], float]:
    """The mean of a metric of one class's probabilities and true ones."""
    return lambda probs, truth: float(
        np.mean([metric(p, q) for p, q in zip(probs.T, truth.T, strict=True)])
    )


def risk_coverage(confidence: Array, accuracy: Array) -> float:
    order = np.argsort(-confidence, kind="stable")
    return float(((1 - accuracy[order]).cumsum() / np.arange(1, len(order) + 1)).mean())


def excess_risk_coverage(confidence: Array, accuracy: Array) -> float:
    right = float(accuracy.mean())
    return risk_coverage(confidence, accuracy) - (1 - right + right * np.log(right))


def binned(scores: Array, shares: Array, metric: str) -> float:
    if metric == "ece":
        cell = np.maximum(np.ceil(scores * NUM_BINS).astype(int) - 1, 0)
    else:
        cell = np.argsort(np.argsort(scores, kind="stable")) * NUM_BINS // len(scores)
    gaps = np.bincount(cell, scores - shares, NUM_BINS) / len(scores)
    if metric == "debiased_ece":
        return float(np.sqrt(NUM_BINS * (gaps**2).sum()))
    return float(np.abs(gaps).sum())


def smooth(confidence: Array, accuracy: Array, size: int = 8192) -> float:
    cell = np.minimum((confidence * size).astype(int), size - 1)
    waves = dct(np.bincount(cell, confidence - accuracy, size) / len(confidence))
    frequencies = np.pi * np.arange(size)

    def error(width: float) -> float:
        return float(np.abs(idct(waves * np.exp(-((width * frequencies) ** 2) / 2))).sum())

    low, high = 1e-3, 1.0
    if error(low) <= low:
        return error(low)
    for _ in range(40):
        middle = (low * high) ** 0.5
        low, high = (middle, high) if error(middle) > middle else (low, middle)
    return high


def area(scores: Array, shares: Array) -> float:
    """AUROC of scores whose samples are positive with the given probabilities."""
    values, place = np.unique(scores, return_inverse=True)
    positive = np.bincount(place, shares, len(values))
    negative = np.bincount(place, 1 - shares, len(values))
    below = negative.cumsum() - negative / 2
    return float((positive * below).sum() / positive.sum() / negative.sum())


OF_CLASSES: dict[str, Callable[[Array, Array], float]] = {
    "classwise_ece": over_classes(lambda p, q: binned(p, q, "ece")),
    "classwise_adaptive_ece": over_classes(lambda p, q: binned(p, q, "adaptive_ece")),
    "nll": lambda p, q: float(-(q * np.log(np.maximum(p, 1e-300))).sum(axis=1).mean()),
    "brier": brier,
    "root_brier": lambda p, q: brier(p, q) ** 0.5,
    "auroc": over_classes(area),
}
OF_TOP_LABEL: dict[str, Callable[[Array, Array], float]] = {
    "ece": lambda c, a: binned(c, a, "ece"),
    "adaptive_ece": lambda c, a: binned(c, a, "adaptive_ece"),
    "debiased_ece": lambda c, a: binned(c, a, "debiased_ece"),
    "smooth_ece": smooth,
    "kde_ece": lambda c, a: float(np.abs(c - a).mean()),
    "accuracy": lambda c, a: float(a.mean()),
    "error": lambda c, a: 1 - float(a.mean()),
    "failure_auroc": area,
    "aurc": risk_coverage,
    "e_aurc": excess_risk_coverage,
}


@dataclass(frozen=True)
class Coverage:
    """Shares of repetitions whose interval covers, lies below, lies above; mean width, seconds."""

    covers: float
    below: float
    above: float
    width: float
    seconds: float


Interval = Callable[[torch.Tensor, torch.Tensor], tuple[float, float]]


def measure(
    law: Law,
    intervals: dict[str, tuple[float, Interval]],
    count: int,
    repetitions: int,
    seed: int,
) -> dict[str, Coverage]:
    """Coverage of intervals, each with the truth, over the same samples of `count`.

    Repetitions in which an interval is undefined are left out of its coverage.
    """
    random = np.random.default_rng(seed)
    ends: dict[str, list[tuple[float, float]]] = {name: [] for name in intervals}
    seconds = dict.fromkeys(intervals, 0.0)
    for _ in range(repetitions):
        sample = law.draw(count, random)
        for name, (_, interval) in intervals.items():
            start = time.perf_counter()
            ends[name].append(interval(*sample))
            seconds[name] += (time.perf_counter() - start) / repetitions
    return {
        name: summarise(np.array(ends[name]), truth, seconds[name])
        for name, (truth, _) in intervals.items()
    }


def summarise(ends: Array, truth: float, seconds: float) -> Coverage:
    low, high = ends[~np.isnan(ends[:, 0])].T
    if len(low) == 0:
        return Coverage(*[float("nan")] * 4, seconds)
    below, above = high < truth - 1e-9, low > truth + 1e-9
    return Coverage(
        1 - float((below | above).mean()),
        float(below.mean()),
        float(above.mean()),
        float((high - low).mean()),
        seconds,
    )


def of_metric(name: str) -> Interval:
    return lambda probs, labels: M.interval(name, probs, labels)[1:]


def percentile(probs: torch.Tensor, labels: torch.Tensor) -> tuple[float, float]:
    return M.bootstrap(M.expected_calibration_error, probs, labels, num_resamples=400)[1:]


def basic(probs: torch.Tensor, labels: torch.Tensor) -> tuple[float, float]:
    value, low, high = M.bootstrap(M.expected_calibration_error, probs, labels, num_resamples=400)
    return max(0.0, 2 * value - high), max(0.0, 2 * value - low)


def cells_of(probs: torch.Tensor, labels: torch.Tensor) -> Cells:
    bins = M.reliability_bins(probs, labels)
    filled = bins.count.numpy() > 0
    count, confidence, accuracy = (
        t.numpy()[filled] for t in (bins.count, bins.confidence, bins.accuracy)
    )
    return Cells(count, confidence, accuracy * count, np.arange(len(count)))


ABSOLUTE = ErrorOfGaps(
    lambda gaps: np.abs(gaps).sum(axis=1), lambda gaps: float(np.abs(gaps).sum())
)


def along(direction: Callable[[Cells], Array]) -> Interval:
    """The same inversion, along another line than the fitted curve."""

    def interval(probs: torch.Tensor, labels: torch.Tensor) -> tuple[float, float]:
        cells = cells_of(probs, labels)
        observed = float(np.abs(cells.gaps).sum())
        model = DrawnErrors(cells, ABSOLUTE, 0)
        return invert(model, observed, 0.95, (direction(cells), -cells.confidence))

    return interval


def observed_gaps(cells: Cells) -> Array:
    return cells.positives / cells.count - cells.confidence


def true_gaps(law: Law) -> Callable[[Cells], Array]:
    """Gaps of the law in the bins: what nobody knows, for the least width there can be."""
    top = law.probs.argmax(axis=1)
    rows = np.arange(len(top))
    confidence, accuracy = law.probs[rows, top], law.truth[rows, top]
    cell = np.maximum(np.ceil(confidence * NUM_BINS).astype(int) - 1, 0)
    gaps = np.bincount(cell, accuracy - confidence, NUM_BINS)
    gaps /= np.maximum(np.bincount(cell, minlength=NUM_BINS), 1)

    def direction(cells: Cells) -> Array:
        return gaps[np.maximum(np.ceil(cells.confidence * NUM_BINS).astype(int) - 1, 0)]

    return direction


def table(
    laws: Sequence[Law],
    samples: Sequence[int],
    repetitions: int,
    intervals_of: Callable[[Law], dict[str, tuple[float, Interval]]],
) -> None:
    """Print a row per law and interval: coverage in percent and mean width by n."""
    print("| K | law | interval | truth |", " | ".join(f"n = {n:,}" for n in samples), "|")
    print("| --- | --- | --- | --- |" + " --- |" * len(samples), flush=True)
    for law in laws:
        intervals = intervals_of(law)
        results = [measure(law, intervals, count, repetitions, seed=count) for count in samples]
        for name, (truth, _) in intervals.items():
            cells = [f"{100 * r[name].covers:.1f} / {r[name].width:.3g}" for r in results]
            row = [str(law.probs.shape[1]), law.name, name, f"{truth:.4f}", *cells]
            print("|", " | ".join(row), "|", flush=True)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=1000)
    parser.add_argument("--metrics", nargs="+", default=[n for n in M.METRIC_NAMES if n != "mce"])
    parser.add_argument("--samples", type=int, nargs="+", default=[200, 500, 2000, 10_000, 50_000])
    parser.add_argument("--classes", type=int, nargs="*", default=[2, 10, 100])
    parser.add_argument("--laws", nargs="+", default=list(TEMPERATURES), choices=list(TEMPERATURES))
    parser.add_argument("--predictions", type=Path, nargs="*", default=[])
    parser.add_argument("--pool", type=int, default=60_000, help="samples of a simulated law")
    parser.add_argument("--rivals", action="store_true", help="ways to make an interval of ECE")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    laws = [
        simulated(name, num_classes, arguments.pool)
        for num_classes in arguments.classes
        for name in arguments.laws
    ]
    laws += [real(path) for path in arguments.predictions]

    def rivals(law: Law) -> dict[str, tuple[float, Interval]]:
        truth = population_value("ece", law)
        methods = {
            "percentile bootstrap": percentile,
            "basic bootstrap": basic,
            "inversion along the observed gaps": along(observed_gaps),
            "inversion along the true gaps": along(true_gaps(law)),
            "inversion along the fitted curve": of_metric("ece"),
        }
        return {name: (truth, method) for name, method in methods.items()}

    def all_metrics(law: Law) -> dict[str, tuple[float, Interval]]:
        truths = {name: population_value(name, law) for name in arguments.metrics}
        return {n: (truth, of_metric(n)) for n, truth in truths.items() if not np.isnan(truth)}

    table(
        laws,
        arguments.samples,
        arguments.repetitions,
        rivals if arguments.rivals else all_metrics,
    )


if __name__ == "__main__":
    main()
