"""Coverage and width of confidence intervals of metrics, by simulation from known distributions.

A law (data distribution) is a pool of samples with the model's probabilities and the true
probabilities; for real predictions, the labels take the place of the latter. A repetition draws n
samples and their labels. An interval covers if it contains the metric's value on the whole pool.

Run `python -m benchmarks.intervals` (hours on one core; `--repetitions`, `--metrics`, `--samples`,
`--classes` and `--laws` shorten it). Each row is written to `--results` when it is measured, and is
not measured again, so an interrupted run continues. `--summary` prints the lowest and mean coverage
per interval, for `docs/intervals.md`; `--print` prints all rows. If the method of an interval
changes, delete its rows from the file by hand. `--predictions FILE.npz` (arrays `logits` and
`labels`) adds real predictions. `--rivals` compares methods for the interval of ECE instead.
"""

import argparse
import json
import os
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.fft import dct, idct
from scipy.ndimage import uniform_filter1d
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax

from trainables import metrics as M
from trainables.metrics._ranked import equal_width_boundaries, rank_top_label
from trainables.metrics.inference.direction import direction_of_top_label
from trainables.metrics.inference.intervals import METHODS, OF_GAPS, Ranked, top_label_interval
from trainables.metrics.inference.inversion import Cells, invert
from trainables.metrics.inference.sampled_errors import sampled_errors
from trainables.metrics.inference.top_label_gaps import binned_error_of_gaps
from trainables.metrics.proper_scores import probability_floor

Array = NDArray[np.float64]

NUM_BINS = 15
TEMPERATURES = {
    "calibrated": 1.0,
    "slightly overconfident": 1.05,
    "much overconfident": 1.5,
    "slightly underconfident": 0.95,
    "much underconfident": 0.6,
}
OTHER_LAWS = ("label noise", "classes unlike", "mixed subgroups", "overconfident subgroup")
STEPS = {"steps of .01": 100, "steps of .1": 10}
TIED = (
    *(f"{name}, {step}" for name in ("calibrated", "much overconfident") for step in STEPS),
    "one confidence",
)
FEW_ERRORS = ("accurate", "accurate, spread", "accurate, overconfident", "one-hot", "top bin wrong")
RARE_CLASS = ("rare class", "rare class, two kinds")
LATER = ("cubic", "heavy tail", "confused class")  # invented after the methods were fixed
LATEST = ("votes", "smoothed labels", "shortcut")  # invented after those
LAWS = (
    *(*TEMPERATURES, *OTHER_LAWS, *(f"{name}, scaled" for name in OTHER_LAWS), *TIED),
    *(*FEW_ERRORS, *RARE_CLASS, *LATER, *LATEST),
)
FAMILIES = (
    *("one temperature", "no temperature", "ties", "real logits", "few errors", "rare class"),
    *("later laws", "latest laws"),
)
FULL = 1000  # repetitions
LEVEL = 0.95
COVERING = 0.9  # minimum measured coverage, allowing for few repetitions
RESAMPLES = 400
NEIGHBOURS = 1200  # samples that have about the same confidence, in a pool of 60,000
PARTS = ("gap", "over", "under")  # of calsweep.metrics.direction
RESULTS = Path(__file__).with_name("intervals.jsonl")
RESAMPLED_CELLS = 300  # cells of confidence for the bootstrap of correct and wrong predictions


@dataclass(frozen=True)
class Law:
    """Samples (P, K) to draw from: the model's probabilities and the true ones."""

    name: str
    probs: Array
    truth: Array
    is_real: bool = False

    @cached_property
    def top(self) -> tuple[Array, Array]:
        """Confidence and true probability of the predicted class, (P,) each."""
        rows, top = np.arange(len(self.probs)), self.probs.argmax(axis=1)
        return self.probs[rows, top], self.truth[rows, top]

    @cached_property
    def _steps(self) -> Array:
        return self.truth.cumsum(axis=1)

    def draw(self, count: int, random: np.random.Generator) -> tuple[torch.Tensor, torch.Tensor]:
        """Probabilities (N, K) and labels (N,)."""
        chosen = random.integers(0, len(self.probs), count)
        below = self._steps[chosen] < random.random(count)[:, None]
        labels = np.minimum(below.sum(axis=1), self.probs.shape[1] - 1)
        return torch.from_numpy(self.probs[chosen]), torch.from_numpy(labels)

    def draw_top_label(
        self, count: int, random: np.random.Generator
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Confidences (N,) and correctness (N,)."""
        confidence, accuracy = self.top
        chosen = random.integers(0, len(confidence), count)
        correct = random.random(count) < accuracy[chosen]
        return torch.from_numpy(confidence[chosen]), torch.from_numpy(correct)


def simulated(name: str, num_classes: int, size: int) -> Law:
    """A simulated classifier, with the true probabilities of a law.

    Temperature: the true logits are those of the classifier at that temperature. Label noise: the
    classifier is calibrated, but 5% of the labels are random. Classes unlike: the true logits
    differ from the classifier's by a constant per class, from -0.8 to 0.8. Mixed subgroups: half of
    the samples are overconfident (1.6), half underconfident (0.6). Overconfident subgroup: 15% of
    the samples are very overconfident (8), the others calibrated. Scaled: the logits are divided by
    the best temperature for the law. Steps: the probabilities are rounded, and rows sum to one. One
    confidence: it is always .9, and 80% of the predictions are right.
    """
    if name in OF_FEW:
        return Law(name, *OF_FEW[name](num_classes, size, np.random.default_rng(num_classes)))
    if name == "one confidence":
        return one_confidence(num_classes, size)
    kind, _, change = name.partition(", ")
    random = np.random.default_rng(num_classes)
    logits = 2.0 * random.standard_normal((size, num_classes))
    logits[:, 0] += np.log2(num_classes) * random.standard_normal(size) ** 2
    if kind == "label noise":
        truth = 0.95 * softmax(logits) + 0.05 / num_classes
    elif kind == "classes unlike":
        truth = softmax(logits + np.linspace(-0.8, 0.8, num_classes))
    elif kind == "mixed subgroups":
        truth = softmax(logits / np.where(random.random((size, 1)) < 0.5, 1.6, 0.6))
    elif kind == "overconfident subgroup":
        truth = softmax(logits / np.where(random.random((size, 1)) < 0.15, 8.0, 1.0))
    else:
        truth = softmax(logits / TEMPERATURES[kind])
    if change in STEPS:
        return Law(name, rounded(softmax(logits), STEPS[change]), truth)
    return Law(name, softmax(logits / best_temperature(logits, truth) if change else logits), truth)


def rounded(probs: Array, steps: int) -> Array:
    """Probabilities as multiples of 1 / steps; the largest one takes what is missing to one."""
    found = np.round(probs * steps)
    rows, top = np.arange(len(probs)), probs.argmax(axis=1)
    found[rows, top] += steps - found.sum(axis=1)
    return np.asarray(found / steps)


def one_confidence(num_classes: int, size: int) -> Law:
    rows, top = np.arange(size), np.arange(size) % num_classes
    probs, truth = (np.full((size, num_classes), (1 - p) / (num_classes - 1)) for p in (0.9, 0.8))
    probs[rows, top], truth[rows, top] = 0.9, 0.8
    return Law("one confidence", probs, truth)


Pair = tuple[Array, Array]


def of_top(classes: int, confidence: Array, accuracy: Array, random: np.random.Generator) -> Pair:
    """Predicted and true probabilities; the other classes share the rest unequally."""
    rest = random.dirichlet(np.full(classes - 1, 0.5), len(confidence))
    rest = (rest + 1e-3) / (rest + 1e-3).sum(axis=1, keepdims=True)
    top = random.integers(0, classes, len(confidence))
    columns = (top[:, None] + np.arange(classes)) % classes
    found = []
    for own in (confidence, accuracy):
        table = np.empty((len(own), classes))
        values = np.concatenate([own[:, None], (1 - own)[:, None] * rest], axis=1)
        np.put_along_axis(table, columns, values, axis=1)
        found.append(table)
    return found[0], found[1]


def accurate(classes: int, size: int, random: np.random.Generator) -> Pair:
    """Calibrated, with 1 % errors: one confidence."""
    sure = np.full(size, 0.99)
    return of_top(classes, sure, sure, random)


def accurate_spread(classes: int, size: int, random: np.random.Generator) -> Pair:
    """Calibrated, with 2 % errors: confidences from .5 to 1 - 1e-7."""
    sure = 1 / (1 + np.exp(-np.abs(7 + 3 * random.standard_normal(size))))
    sure = np.maximum(sure, 1.01 / classes)
    return of_top(classes, sure, sure, random)


def accurate_overconfident(classes: int, size: int, random: np.random.Generator) -> Pair:
    """3 % errors, logits too large by half."""
    score = np.abs(5 + 2 * random.standard_normal(size))
    return of_top(classes, 1 / (1 + np.exp(-1.5 * score)), 1 / (1 + np.exp(-score)), random)


def one_hot(classes: int, size: int, random: np.random.Generator) -> Pair:
    """A tree or a vote: probabilities of 0 and 1, .5 % errors."""
    return of_top(classes, np.ones(size), np.full(size, 0.995), random)


def top_bin_wrong(classes: int, size: int, random: np.random.Generator) -> Pair:
    """80 % have confidence 1 - 1e-7, and 95 % of these are right; the others are calibrated."""
    top = random.random(size) < 0.8
    sure = np.where(top, 1 - 1e-7, 0.5 + 0.5 * random.random(size))
    return of_top(classes, sure, np.where(top, 0.95, sure), random)


def rare_class(classes: int, size: int, random: np.random.Generator, spread: float = 1.3) -> Pair:
    """Calibrated; the last of two classes has 1.2 %, the last of several .4 %."""
    if classes == 2:
        event = 1 / (1 + np.exp(5.1 - spread * random.standard_normal(size)))
        probs = np.stack([1 - event, event], axis=1)
    else:
        logits = 1.5 * random.standard_normal((size, classes))
        logits[:, -1] -= 4.4
        probs = softmax(logits)
    return probs, probs


def two_kinds(classes: int, size: int, random: np.random.Generator) -> Pair:
    """A rare class of which most members are easy and some look like the others."""
    share = 0.012 if classes == 2 else 0.004
    kind = random.random(size)
    rare = np.where(kind < share, 0.9, np.where(kind < 0.1, share / 4, share / 8))
    rare = np.clip(rare * np.exp(0.3 * random.standard_normal(size)), 1e-5, 0.95)
    rest = softmax(random.standard_normal((size, classes - 1)))
    probs = np.concatenate([(1 - rare)[:, None] * rest, rare[:, None]], axis=1)
    return probs, probs


def cubic(classes: int, size: int, random: np.random.Generator) -> Pair:
    """Confidences skewed to 1; too high below .9 and too low above, by a cubic."""
    sure = 1 / classes + (1 - 1 / classes) * random.beta(6, 0.7, size)
    off = 0.8 * (1 - sure) * (sure - 1 / classes) * (0.9 - sure)
    return of_top(classes, sure, np.clip(sure - off, 0, 1), random)


def heavy_tail(classes: int, size: int, random: np.random.Generator) -> Pair:
    """Half of the confidences above 1 - 1e-4; errors are twice to ten times as frequent."""
    rest = np.minimum(random.beta(0.12, 2, size), 1 - 1.02 / classes)
    return of_top(classes, 1 - rest, 1 - np.minimum(2 * rest**0.8, 0.95), random)


def confused_class(classes: int, size: int, random: np.random.Generator) -> Pair:
    """1 % of the samples are of the last class, and a third of these look like the first."""
    rare = random.random(size) < 0.01
    logits = 2 * random.standard_normal((size, classes))
    logits[:, -1] += np.where(rare & (random.random(size) < 2 / 3), 5, -5)
    truth = 0.2 * softmax(logits)
    truth[rare, -1] += 0.8
    truth[~rare] += 0.8 * softmax(2 * logits[~rare])
    return softmax(logits), truth


def with_rare_last(classes: int, size: int, share: float, random: np.random.Generator) -> Array:
    """True probabilities: Laplace scores, of which those of the last class are lower."""
    logits = random.laplace(0, 1.6, (size, classes))
    logits[:, -1] += np.log(share) - 3
    return softmax(logits)


def votes(classes: int, size: int, random: np.random.Generator) -> Pair:
    """Shares of the votes of 40 trees, which often are all for one class, and too often."""
    truth = with_rare_last(classes, size, 0.03, random)
    more = truth**1.5 / (truth**1.5).sum(axis=1, keepdims=True)
    return random.multinomial(40, more) / 40, truth


def smoothed_labels(classes: int, size: int, random: np.random.Generator) -> Pair:
    """Logits pressed below a bound, as label smoothing does: confidences of .9 are right in .99."""
    truth = with_rare_last(classes, size, 0.02, random)
    logits = np.log(truth) - np.log(truth).mean(axis=1, keepdims=True)
    return softmax(1.1 * np.tanh(0.5 * logits) + 0.05 * random.standard_normal(truth.shape)), truth


def shortcut(classes: int, size: int, random: np.random.Generator) -> Pair:
    """Odds of an error are log-normal; 4 % of the samples show a mark that misleads the model."""
    odds = np.exp(-5 + 2 * random.standard_normal(size))
    sure = np.maximum(1 / (1 + odds), 1.01 / classes)
    misled = random.random(size) < 0.04
    sure[misled] = 1 - 1e-4 * random.random(int(misled.sum()))
    right = np.where(misled, 0.7, sure)
    return of_top(classes, sure, right, random)


OF_FEW: dict[str, Callable[[int, int, np.random.Generator], Pair]] = {
    "accurate": accurate,
    "accurate, spread": accurate_spread,
    "accurate, overconfident": accurate_overconfident,
    "one-hot": one_hot,
    "top bin wrong": top_bin_wrong,
    "rare class": rare_class,
    "rare class, two kinds": two_kinds,
    "cubic": cubic,
    "heavy tail": heavy_tail,
    "confused class": confused_class,
    "votes": votes,
    "smoothed labels": smoothed_labels,
    "shortcut": shortcut,
}


def best_temperature(logits: Array, truth: Array) -> float:
    """The temperature with the lowest NLL on a law."""

    def loss(log_temperature: float) -> float:
        log_probs = log_softmax(logits / np.exp(log_temperature), axis=1)
        return float(-(truth * log_probs).sum(axis=1).mean())

    found = minimize_scalar(loss, bounds=(-2, 3), method="bounded")
    return float(np.exp(found.x))


def real(path: Path) -> Law:
    """The law of real predictions in a file."""
    arrays = np.load(path)
    logits = arrays["logits"].astype(np.float64)
    return Law(
        f"real: {path.stem}", softmax(logits), np.eye(logits.shape[1])[arrays["labels"]], True
    )


def softmax(logits: Array) -> Array:
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def population_value(metric: str, law: Law) -> float:
    """The metric on infinitely many samples of a law; nan if undefined."""
    if metric in OF_CLASSES:
        return float(OF_CLASSES[metric](law.probs, law.truth))
    if metric == "kde_ece" and law.is_real:  # the accuracy given the confidence is unknown
        return float("nan")
    return float(OF_TOP_LABEL[metric](*law.top))


def floor_of(probs: Array) -> float:
    """What calsweep takes for a probability of 0."""
    return probability_floor(torch.from_numpy(probs))


def brier(probs: Array, truth: Array) -> float:
    return float(((probs**2).sum(axis=1) + 1 - 2 * (truth * probs).sum(axis=1)).mean())


def over_classes(metric: Callable[[Array, Array], float]) -> Callable[[Array, Array], float]:
    """The mean over classes of a metric of the predicted and true probabilities of one class."""
    return lambda probs, truth: float(
        np.mean([metric(p, q) for p, q in zip(probs.T, truth.T, strict=True)])
    )


def risk_coverage(confidence: Array, accuracy: Array) -> float:
    order = np.argsort(-confidence, kind="stable")
    return float(((1 - accuracy[order]).cumsum() / np.arange(1, len(order) + 1)).mean())


def excess_risk_coverage(confidence: Array, accuracy: Array) -> float:
    right = float(accuracy.mean())
    return risk_coverage(confidence, accuracy) - (1 - right + right * np.log(right))


def gaps_of_bins(scores: Array, shares: Array, metric: str) -> Array:
    if metric == "ece":
        cell = np.maximum(np.ceil(scores * NUM_BINS - 1e-6).astype(int) - 1, 0)
    else:
        cell = equal_mass_cells(scores)
    return np.asarray(np.bincount(cell, scores - shares, NUM_BINS) / len(scores))


def equal_mass_cells(scores: Array) -> NDArray[np.intp]:
    """The bin of each score (P,); a boundary inside a tie moves to its nearer end."""
    _, place, count = np.unique(scores, return_inverse=True, return_counts=True)
    last = count.cumsum()
    even = np.arange(1, NUM_BINS) * len(scores) / NUM_BINS
    tie = np.searchsorted(last, even, side="right")
    before = last[tie] - count[tie]
    ends = np.where(even - before <= last[tie] - even, before, last[tie])
    return np.searchsorted(ends, last - count, side="right")[place]


def gaps_given_confidence(confidence: Array, accuracy: Array) -> Array:
    """Mean gap of samples with the same confidence, or of the `NEIGHBOURS` most similar ones."""
    values, place, count = np.unique(confidence, return_inverse=True, return_counts=True)
    if len(values) < len(confidence) / NEIGHBOURS:
        return np.asarray((np.bincount(place, confidence - accuracy) / count)[place])
    gaps = (confidence - accuracy)[np.argsort(confidence, kind="stable")]
    return np.asarray(uniform_filter1d(gaps, min(NEIGHBOURS, len(gaps)), mode="nearest"))


def binned(scores: Array, shares: Array, metric: str) -> float:
    gaps = gaps_of_bins(scores, shares, metric)
    if metric == "debiased_ece":
        share = np.bincount(equal_mass_cells(scores), minlength=NUM_BINS) / len(scores)
        return float(np.sqrt((gaps**2 / np.where(share, share, 1)).sum()))
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
    """AUROC of scores, for samples that are positive with the given probabilities."""
    values, place = np.unique(scores, return_inverse=True)
    positive = np.bincount(place, shares, len(values))
    negative = np.bincount(place, 1 - shares, len(values))
    below = negative.cumsum() - negative / 2
    return float((positive * below).sum() / positive.sum() / negative.sum())


def event_error(probs: Array, truth: Array) -> float:
    """Of the less frequent of two classes."""
    event = int(truth[:, 1].mean() <= 0.5)
    return binned(probs[:, event], truth[:, event], "adaptive_ece")


OF_CLASSES: dict[str, Callable[[Array, Array], float]] = {
    "classwise_ece": over_classes(lambda p, q: binned(p, q, "ece")),
    "classwise_adaptive_ece": over_classes(lambda p, q: binned(p, q, "adaptive_ece")),
    "nll": lambda p, q: float(-(q * np.log(np.maximum(p, floor_of(p)))).sum(axis=1).mean()),
    "brier": brier,
    "root_brier": lambda p, q: brier(p, q) ** 0.5,
    "auroc": over_classes(area),
    "event_ece": lambda p, q: event_error(p, q) if p.shape[1] == 2 else float("nan"),
}
OF_TOP_LABEL: dict[str, Callable[[Array, Array], float]] = {
    "ece": lambda c, a: binned(c, a, "ece"),
    "adaptive_ece": lambda c, a: binned(c, a, "adaptive_ece"),
    "debiased_ece": lambda c, a: binned(c, a, "debiased_ece"),
    "smooth_ece": smooth,
    "kde_ece": lambda c, a: float(np.abs(gaps_given_confidence(c, a)).mean()),
    "gap": lambda c, a: float((c - a).mean()),
    "over": lambda c, a: float(np.maximum(gaps_of_bins(c, a, "ece"), 0).sum()),
    "under": lambda c, a: float(np.maximum(-gaps_of_bins(c, a, "ece"), 0).sum()),
    "accuracy": lambda c, a: float(a.mean()),
    "error": lambda c, a: 1 - float(a.mean()),
    "failure_auroc": area,
    "aurc": risk_coverage,
    "e_aurc": excess_risk_coverage,
}


Ends = tuple[float, float]


@dataclass(frozen=True)
class Interval:
    """A method for intervals, from confidences and correctness, or probabilities and labels."""

    ends: Callable[[torch.Tensor, torch.Tensor], Ends]
    of_top_label: bool = True


@dataclass(frozen=True)
class Row:
    """Measurements of one interval, law and number of samples.

    The shares refer to the repetitions in which the interval is defined: it covers, is below the
    true value, or is above it. Also the mean width, and CPU seconds per interval.
    """

    classes: int
    law: str
    interval: str
    truth: float
    samples: int
    repetitions: int
    covers: float
    below: float
    above: float
    width: float
    seconds: float

    @property
    def key(self) -> tuple[int, str, str, int]:
        """The measured interval, number of classes, law and number of samples."""
        return self.classes, self.law, self.interval, self.samples

    @property
    def family(self) -> str:
        """The kind of law, one of `FAMILIES`."""
        if self.law.startswith("real: "):
            return "real logits"
        if self.law in TIED:
            return "ties"
        of_family: dict[str, tuple[str, ...]] = {
            "few errors": FEW_ERRORS,
            "rare class": RARE_CLASS,
            "later laws": LATER,
            "latest laws": LATEST,
        }
        for family, laws in of_family.items():
            if self.law in laws:
                return family
        return "one temperature" if self.law in TEMPERATURES else "no temperature"


def measure(
    law: Law,
    name: str,
    interval: Interval,
    truth: float,
    samples: int,
    repetitions: int,
    seed: int,
) -> Row:
    """Coverage of an interval; the same seed draws the same samples for each."""
    random = np.random.default_rng(seed)
    draw = law.draw_top_label if interval.of_top_label else law.draw
    ends, seconds = [], 0.0
    for _ in range(repetitions):
        sample = draw(samples, random)
        start = time.process_time()
        ends.append(interval.ends(*sample))
        seconds += (time.process_time() - start) / repetitions
    low, high = np.array([pair for pair in ends if not np.isnan(pair[0])]).reshape(-1, 2).T
    below, above = high < truth - 1e-9, low > truth + 1e-9
    shares = (np.nan, np.nan, np.nan, np.nan)
    if len(low):
        missed = float((below | above).mean())
        width = float((high - low).mean())
        shares = (1 - missed, float(below.mean()), float(above.mean()), width)
    return Row(
        law.probs.shape[1],
        law.name,
        name,
        truth,
        samples,
        repetitions,
        *shares,
        seconds,
    )


def of_metric(name: str) -> Interval:
    """The interval that calsweep reports."""
    if name in PARTS:
        return Interval(
            lambda top, right: getattr(direction_of_top_label(top, right, LEVEL), name)[1:]
        )
    if name in OF_GAPS:
        return Interval(lambda scores, right: top_label_interval(name, scores, right, LEVEL))
    return Interval(lambda probs, labels: METHODS[name](Ranked(probs, labels), LEVEL), False)


def resampled_errors(confidence: torch.Tensor, correct: torch.Tensor) -> tuple[float, Array]:
    """ECE and bootstrap ECEs, from multinomial draws of correct and wrong predictions per cell."""
    scores, right = confidence.numpy(), correct.numpy()
    cell = np.minimum((scores * RESAMPLED_CELLS).astype(int), RESAMPLED_CELLS - 1)
    bins = np.maximum(np.ceil(scores * NUM_BINS).astype(int) - 1, 0)
    kind, place = np.unique(np.stack([bins, cell, right]), axis=1, return_inverse=True)
    count = np.bincount(place)
    gaps = np.bincount(place, scores - right) / count
    drawn = np.random.default_rng(0).multinomial(len(scores), count / len(scores), size=RESAMPLES)
    in_bin = (kind[0][:, None] == np.arange(NUM_BINS)).astype(float)
    sums = np.vstack([count, drawn]) * gaps @ in_bin / len(scores)
    errors = np.abs(sums).sum(axis=1)
    return float(errors[0]), errors[1:]


def percentile(confidence: torch.Tensor, correct: torch.Tensor) -> Ends:
    _, drawn = resampled_errors(confidence, correct)
    low, high = np.quantile(drawn, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return float(low), float(high)


def basic(confidence: torch.Tensor, correct: torch.Tensor) -> Ends:
    value, drawn = resampled_errors(confidence, correct)
    low, high = np.quantile(drawn, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return max(0.0, 2 * value - float(high)), max(0.0, 2 * value - float(low))


def along(direction: Callable[[Cells], Array]) -> Interval:
    """The same test inversion, along a line other than the fitted curve."""

    def ends(confidence: torch.Tensor, correct: torch.Tensor) -> Ends:
        ranked = rank_top_label(confidence, correct)
        cells, error = binned_error_of_gaps(ranked, equal_width_boundaries(ranked, NUM_BINS))
        observed = float(np.abs(cells.gaps).sum())
        lines = direction(cells), -cells.confidence
        return invert(sampled_errors(cells, error), observed, LEVEL, lines)

    return Interval(ends)


def observed_gaps(cells: Cells) -> Array:
    return cells.positives / cells.count - cells.confidence


def true_gaps(law: Law) -> Callable[[Cells], Array]:
    """True gaps of the law in the bins, unknown in practice; they give the narrowest interval."""
    confidence, accuracy = law.top
    cell = np.maximum(np.ceil(confidence * NUM_BINS).astype(int) - 1, 0)
    sums = np.bincount(cell, accuracy - confidence, NUM_BINS)
    gaps: Array = sums / np.maximum(np.bincount(cell, minlength=NUM_BINS), 1)

    def direction(cells: Cells) -> Array:
        return gaps[np.maximum(np.ceil(cells.confidence * NUM_BINS).astype(int) - 1, 0)]

    return direction


RIVALS: dict[str, Callable[[Law], Interval]] = {
    "percentile bootstrap": lambda _: Interval(percentile),
    "basic bootstrap": lambda _: Interval(basic),
    "inversion along the observed gaps": lambda _: along(observed_gaps),
    "inversion along the true gaps": lambda law: along(true_gaps(law)),
}
"""Other ways to an interval of ECE, made for a law."""


def intervals_of(law: Law, names: Iterable[str]) -> dict[str, tuple[float, Interval]]:
    """Truth and interval of each name: a metric, or a rival for the interval of ECE."""
    found = {}
    for name in names:
        truth = population_value("ece" if name in RIVALS else name, law)
        interval = RIVALS[name](law) if name in RIVALS else of_metric(name)
        if not np.isnan(truth):
            found[name] = truth, interval
    return found


class Results:
    """Rows in a file, one JSON object per line."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.rows: dict[tuple[int, str, str, int], Row] = {}
        if path.exists():
            rows = [Row(**json.loads(line)) for line in path.read_text().splitlines()]
            self.rows = {row.key: row for row in rows}

    def add(self, row: Row) -> None:
        """Store a row, replacing one with the same key."""
        self.rows[row.key] = row
        text = "".join(json.dumps(asdict(row)) + "\n" for row in self.rows.values())
        unfinished = self.path.with_suffix(".unfinished")
        unfinished.write_text(text)
        os.replace(unfinished, self.path)

    def table(self, names: Iterable[str]) -> str:
        """One line per interval and law: coverage in percent and mean width by number of samples.

        The number of repetitions follows if it is not 1,000.
        """
        rows = [row for row in self.rows.values() if row.interval in set(names)]
        samples = sorted({row.samples for row in rows})
        lines = [
            "| interval | K | distribution | truth | "
            + " | ".join(f"n = {n:,}" for n in samples)
            + " |",
            "| --- | --- | --- | --- |" + " --- |" * len(samples),
        ]
        for name in names:
            for classes, law in dict.fromkeys((r.classes, r.law) for r in rows):
                found = [self.rows.get((classes, law, name, n)) for n in samples]
                known = [row for row in found if row]
                if known:
                    cells = [_cell(row) if row else "" for row in found]
                    first = [name, str(classes), law, f"{known[0].truth:.4f}"]
                    lines.append("| " + " | ".join([*first, *cells]) + " |")
        return "\n".join(lines)

    def summary(self, names: Iterable[str]) -> str:
        """Lowest / mean coverage in percent (and number of rows), per interval and family."""
        lines = [f"| interval | {' | '.join(FAMILIES)} |", "| --- |" + " --- |" * len(FAMILIES)]
        for name in names:
            cells = [
                [
                    100 * row.covers
                    for row in self.rows.values()
                    if row.interval == name and row.family == family
                ]
                for family in FAMILIES
            ]
            if any(cells):
                texts = (f"{min(c):.1f} / {np.mean(c):.1f} ({len(c)})" if c else "" for c in cells)
                lines.append(f"| `{name}` | {' | '.join(texts)} |")
        return "\n".join(lines)

    def relative_widths(self) -> str:
        """Width of the ECE interval relative to the narrowest that covers, one line per law.

        The comparison includes all measured methods with a coverage of at least `COVERING`.
        """
        rows = [row for row in self.rows.values() if row.interval == "ece"]
        samples = sorted({row.samples for row in rows})
        lines = [
            "| K | distribution | " + " | ".join(f"n = {n:,}" for n in samples) + " |",
            "| --- | --- |" + " --- |" * len(samples),
        ]
        for classes, law in dict.fromkeys((row.classes, row.law) for row in rows):
            cells = [self._relative_width(classes, law, count) for count in samples]
            if any(cells):
                lines.append("| " + " | ".join([str(classes), law, *cells]) + " |")
        return "\n".join(lines)

    def _relative_width(self, classes: int, law: str, samples: int) -> str:
        ours = self.rows.get((classes, law, "ece", samples))
        others = [self.rows.get((classes, law, name, samples)) for name in RIVALS]
        covering = [row for row in others if row and row.covers >= COVERING]
        if ours is None or not covering:
            return ""
        narrowest = min(covering, key=lambda row: row.width)
        return f"{ours.width / narrowest.width:.2f}, {narrowest.interval}"


def _cell(row: Row) -> str:
    text = f"{100 * row.covers:.1f} / {row.width:.3g}"
    return text if row.repetitions == FULL else f"{text} ({row.repetitions:,})"


def main() -> None:
    """Measure missing rows, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=FULL)
    known = [*(name for name in M.METRIC_NAMES if name != "mce"), "event_ece", *PARTS]
    parser.add_argument("--metrics", nargs="+", default=known, choices=known)
    parser.add_argument("--samples", type=int, nargs="+", default=[200, 500, 2000, 10_000, 50_000])
    parser.add_argument("--classes", type=int, nargs="*", default=[10, 2, 100])
    parser.add_argument("--laws", nargs="+", default=list(LAWS), choices=list(LAWS))
    parser.add_argument("--predictions", type=Path, nargs="*", default=[])
    parser.add_argument("--pool", type=int, default=60_000, help="samples of a simulated law")
    parser.add_argument("--rivals", action="store_true", help="ways to make an interval of ECE")
    parser.add_argument("--results", type=Path, default=RESULTS, help="a file to continue with")
    parser.add_argument("--print", action="store_true", help="only print what is available")
    parser.add_argument("--summary", action="store_true", help="only print the lowest and mean")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    results = Results(arguments.results)
    names = ["ece", *RIVALS] if arguments.rivals else arguments.metrics
    if arguments.summary:
        print(results.summary(names))
        return
    if not arguments.print:
        laws = [
            simulated(name, num_classes, arguments.pool)
            for num_classes in arguments.classes
            for name in arguments.laws
        ]
        laws += [real(path) for path in arguments.predictions]
        fill(results, laws, names, arguments.samples, arguments.repetitions)
    print(results.table(names))
    if arguments.rivals:
        print(results.relative_widths())


def fill(
    results: Results, laws: list[Law], names: list[str], samples: list[int], repetitions: int
) -> None:
    """Measure rows that are missing or have fewer repetitions, one metric at a time."""
    for name in names:
        intervals = [intervals_of(law, [name]) for law in laws]
        for count in samples:
            for law, known in zip(laws, intervals, strict=True):
                key = law.probs.shape[1], law.name, name, count
                there = results.rows.get(key)
                if name not in known or (there and there.repetitions >= repetitions):
                    continue
                truth, interval = known[name]
                row = measure(law, name, interval, truth, count, repetitions, seed=count)
                results.add(row)
                print(row, flush=True)


if __name__ == "__main__":
    main()
