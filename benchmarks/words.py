"""How often words and verdicts are false, by simulation of files that should have none.

``python -m benchmarks.words [--repetitions 400]`` prints a table. A word is *overconfident* or
*underconfident*: of any group, of any predicted class, or of the whole file, where predictions are
calibrated. A verdict is one of the NLL between a file and itself, rounded; or between equally good
networks on one test split, in any of ten or twenty sweeps.
"""

import argparse
from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray

from sweeps.judging.gaps import gap_of
from sweeps.judging.inputs import check_predicted
from sweeps.judging.judgement import compared
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
    probs = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    labels = (probs.cumsum(axis=1) < random.random((count, 1))).sum(axis=1)
    full = check_predicted("full", probs, labels)
    rounded = check_predicted("rounded", probs.round(decimals), labels)
    return compared("nll", rounded, full, LEVEL).verdict == "supported"


def any_sweep(sweeps: int, count: int, random: Random) -> bool:
    """Whether any interval on one test split misses, each of a sweep's network less a baseline.

    Samples are as hard for all networks, and each has noise of its own.
    """
    hard, baseline = random.standard_exponential(count), random.standard_normal(count)
    theirs = torch.from_numpy(hard + 0.5 * baseline)
    for sweep in range(1, sweeps + 1):
        ours = torch.from_numpy(hard + 0.5 * random.standard_normal(count))
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
}


def main() -> None:
    """Print one line per case."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=400)
    repetitions = parser.parse_args().repetitions
    torch.set_num_threads(1)
    print("| case | false | repetitions |\n| --- | --- | --- |")
    for seed, (name, case) in enumerate(CASES.items()):
        random = np.random.default_rng(seed)
        share = float(np.mean([case(random) for _ in range(repetitions)]))
        print(f"| {name} | {100 * share:.1f} % | {repetitions} |", flush=True)


if __name__ == "__main__":
    main()
