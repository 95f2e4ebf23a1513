"""How often words and verdicts are false, by simulation of files that should have none.

``python -m benchmarks.words [--repetitions 400]`` prints a table. A word is *overconfident* or
*underconfident*: of any group, of any predicted class, or of the whole file, where predictions are
calibrated. A verdict is one of the NLL between a file and itself, rounded; or between equally good
networks on one test split, in any of ten or twenty sweeps.
"""

import argparse
from collections.abc import Callable
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray

from sweeps.judging.events import share_of
from sweeps.judging.gaps import gap_of
from sweeps.judging.inputs import Scores, check_predicted
from sweeps.judging.judgement import compared
from sweeps.judging.thresholds import accepted_share
from sweeps.results.verdicts import error_of
from trainables import metrics as M
from trainables.metrics.inference.direction import direction_of_top_label

Array = NDArray[np.float64]
Random = np.random.Generator
Confidences = Callable[[int, Random], Array]

LEVEL = 0.95


def constant(confidence: float) -> Confidences:
    return lambda count, random: np.full(count, confidence)


def spread(count: int, random: Random) -> Array:
    """Logits of mean 5 and deviation 2."""
    return np.asarray(1 / (1 + np.exp(-np.abs(5 + 2 * random.standard_normal(count)))))


def near_one(count: int, random: Random) -> Array:
    """Half above .9995, the others down to .5."""
    return np.asarray(1 - random.beta(0.1, 3, count) / 2)


def between(low: float, high: float) -> Confidences:
    return lambda count, random: random.uniform(low, high, count)


def of_votes(count: int, random: Random) -> Array:
    """Steps of 1/40, most of them 1; calibrated, so that none with 1 is wrong."""
    return np.asarray(1 - random.binomial(40, 0.5 * random.beta(0.15, 2, count)) / 40)


def of_smoothed_labels(count: int, random: Random) -> Array:
    """Most at .98, none above."""
    return np.asarray(0.98 - 0.4 * random.beta(0.3, 4, count))


def log_normal(count: int, random: Random) -> Array:
    """Odds of an error with median .004, which differ by factors of ten."""
    return np.asarray(1 / (1 + np.minimum(1, np.exp(-5.5 + 2.3 * random.standard_normal(count)))))


def any_word(confidences: Confidences, sizes: list[int], random: Random) -> bool:
    """Whether any of several groups, or classes, of calibrated predictions has a word."""
    level = 1 - (1 - LEVEL) / len(sizes)
    for size in sizes:
        sure = confidences(size, random)
        right = torch.from_numpy((random.random(size) < sure).astype(float))
        if gap_of(torch.from_numpy(sure), right, level, None).word != "neither":
            return True
    return False


def word_of_file(confidences: Confidences, count: int, random: Random) -> bool:
    sure = confidences(count, random)
    right = torch.from_numpy(random.random(count) < sure)
    return direction_of_top_label(torch.from_numpy(sure), right, LEVEL).word != "neither"


def beats_itself(classes: int, decimals: int, count: int, random: Random) -> bool:
    """Whether predictions, rounded, have an NLL that is supported to be lower."""
    logits = 2.5 * random.standard_normal((count, classes))
    return _beats_itself(logits, lambda probs: probs.round(decimals), random)


def sharp_beats_itself(change: Callable[[Array], Array], random: Random) -> bool:
    """The same of a network with half of its confidences above .999, three classes."""
    return _beats_itself(random.laplace(0, 5, (1500, 3)), change, random)


def _beats_itself(logits: Array, change: Callable[[Array], Array], random: Random) -> bool:
    """Of calibrated predictions; in either direction."""
    probs = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    draws = random.random((len(probs), 1))
    labels = np.minimum((probs.cumsum(axis=1) < draws).sum(axis=1), probs.shape[1] - 1)
    full = check_predicted("full", Scores(probs), labels)
    rounded = check_predicted("rounded", Scores(change(probs)), labels)
    return compared("nll", rounded, full, LEVEL).verdict != "not supported"


def in_half_precision(probs: Array) -> Array:
    return probs.astype(np.float16).astype(np.float64)


def to_tenths(probs: Array) -> Array:
    rounded = probs.round(1)
    return np.asarray(rounded / rounded.sum(axis=1, keepdims=True))


def share_is_wrong(classes: int, count: int, random: Random) -> bool:
    """Whether the mean probability of any class is called too low or too high."""
    logits = random.laplace(0, 2, (count, classes)) - 0.3 * np.arange(classes)
    probs = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    labels = (probs.cumsum(axis=1) < random.random((count, 1))).sum(axis=1)
    level = 1 - (1 - LEVEL) / (classes if classes > 2 else 1)
    each = [
        share_of(torch.from_numpy(p), torch.from_numpy(labels == k), None, level)
        for k, p in enumerate(probs.T.copy())
    ]
    return any(share.word != "neither" for share in each)


def rare_share_is_wrong(count: int, random: Random) -> bool:
    """Of an event with .7 %, from log-normal odds."""
    probs = 1 / (1 + np.exp(6 - 1.5 * random.standard_normal(count)))
    happened = torch.from_numpy(random.random(count) < probs)
    return share_of(torch.from_numpy(probs), happened, None).word != "neither"


def accepts_too_many(confidences: Confidences, allowed: float, random: Random) -> bool:
    """Whether accepted predictions are wrong more often than allowed, by their true error."""
    sure = confidences(1000, random)
    true = 1 - (1 - sure) * 1.5  # overconfident
    right = torch.from_numpy(random.random(len(sure)) < true)
    found = accepted_share(torch.from_numpy(sure), right, allowed)
    if found.threshold is None:
        return False
    further = confidences(20_000, random)
    return float(np.mean(1.5 * (1 - further[further >= found.threshold]))) > allowed


def any_sweep(
    sweeps: int, count: int, random: Random, noise: Callable[[int], Array] | None = None
) -> bool:
    """Whether any interval on one test split misses, each of a sweep's network less a baseline.

    Samples are as hard for all networks, and each has noise of its own, by default normal.
    """
    draw = noise or random.standard_normal
    hard, baseline = random.standard_exponential(count), draw(count)
    theirs = torch.from_numpy(hard + 0.5 * baseline)
    for sweep in range(1, sweeps + 1):
        ours = torch.from_numpy(hard + 0.5 * draw(count))
        design = M.Design(confidence=1 - error_of(sweep))
        found = M.mean_difference("nll", [ours], [theirs], design)
        if not found.low <= 0 <= found.high:
            return True
    return False


def unequal(groups: int, rows: int) -> list[int]:
    """Sizes of groups from 20 to several hundred."""
    shares = 1 / np.arange(1, groups + 1)
    return [max(20, int(rows * share)) for share in shares / shares.sum()]


CASES: dict[str, Callable[[Random], bool]] = {
    "word: any of 40 groups of 25, confidence .99": lambda r: any_word(
        constant(0.99), [25] * 40, r
    ),
    "word: any of 40 groups of 25, confidence .97": lambda r: any_word(
        constant(0.97), [25] * 40, r
    ),
    "word: any of 100 classes of 50, .95 to .98": lambda r: any_word(
        between(0.95, 0.98), [50] * 100, r
    ),
    "word: file of 100, 1 % errors": lambda r: word_of_file(constant(0.99), 100, r),
    "word: file of 300, .3 % errors": lambda r: word_of_file(constant(0.997), 300, r),
    "word: file of 100, spread confidences": lambda r: word_of_file(spread, 100, r),
    "verdict: rounded to .1, two classes": lambda r: beats_itself(2, 1, 1000, r),
    "verdict: rounded to .01, two classes": lambda r: beats_itself(2, 2, 1000, r),
    "verdict: rounded to .001, two classes": lambda r: beats_itself(2, 3, 1000, r),
    "verdict: rounded to .01, five classes": lambda r: beats_itself(5, 2, 1000, r),
    "verdict: rounded to .01, ten classes": lambda r: beats_itself(10, 2, 2000, r),
    "interval: any of 10 sweeps": lambda r: any_sweep(10, 300, r),
    "interval: any of 20 sweeps": lambda r: any_sweep(20, 300, r),
    # Invented after the methods were fixed.
    "later, word: any of 30 unequal groups, near one": lambda r: any_word(
        near_one, unequal(30, 3000), r
    ),
    "later, word: any of 20 classes of 40, .5 to 1": lambda r: any_word(
        between(0.5, 1.0), [40] * 20, r
    ),
    "later, word: file of 500, near one": lambda r: word_of_file(near_one, 500, r),
    # Invented after those.
    **{
        f"latest, word: {what}, {law.__name__.replace('_', ' ')}": partial(case, law)
        for law in (of_votes, of_smoothed_labels, log_normal)
        for what, case in {
            "any of 50 unequal groups": lambda law, r: any_word(law, unequal(50, 4000), r),
            "any of 30 classes of 15": lambda law, r: any_word(law, [15] * 30, r),
            "file of 60": lambda law, r: word_of_file(law, 60, r),
            "file of 1,500": lambda law, r: word_of_file(law, 1500, r),
            "accepted, error .03": lambda law, r: accepts_too_many(law, 0.03, r),
        }.items()
    },
    "latest, word: rare event of 400": lambda r: rare_share_is_wrong(400, r),
    "latest, word: rare event of 4,000": lambda r: rare_share_is_wrong(4000, r),
    "latest, word: any of 20 classes' shares": lambda r: share_is_wrong(20, 1000, r),
    "latest, word: shares of two classes": lambda r: share_is_wrong(2, 150, r),
    "latest, verdict: sharp, in half precision": lambda r: sharp_beats_itself(in_half_precision, r),
    "latest, verdict: sharp, rounded to .001": lambda r: sharp_beats_itself(
        lambda p: p.round(3), r
    ),
    "latest, verdict: sharp, rounded to .1": lambda r: sharp_beats_itself(to_tenths, r),
    "latest, interval: any of 15 sweeps, noise of Laplace": lambda r: any_sweep(
        15, 200, r, lambda count: r.laplace(size=count)
    ),
    "latest, interval: any of 15 sweeps, skewed noise": lambda r: any_sweep(
        15, 200, r, r.standard_exponential
    ),
    "latest, interval: any of 15 sweeps, Student's t of 4": lambda r: any_sweep(
        15, 200, r, lambda count: r.standard_t(4, size=count)
    ),
}


def main() -> None:
    """Print one line per case."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=400)
    parser.add_argument("--only", default="", help="cases whose name begins so")
    given = parser.parse_args()
    repetitions = given.repetitions
    torch.set_num_threads(1)
    print("| case | false | repetitions |\n| --- | --- | --- |")
    for seed, (name, case) in enumerate(CASES.items()):
        if not name.startswith(given.only):
            continue
        random = np.random.default_rng(seed)
        share = float(np.mean([case(random) for _ in range(repetitions)]))
        print(f"| {name} | {100 * share:.1f} % | {repetitions} |", flush=True)


if __name__ == "__main__":
    main()
