"""Coverage of intervals for rows in clusters (customers, patients, images), by simulation.

Groups have equal, geometric or heavy-tailed (log-normal) sizes, and there are two kinds of data.
Copula: two classes; confidence varies between groups and rows, and so does correctness, which is
correlated within a group (a Gaussian copula with correlation 0.3). Offsets: five classes; each
group has offsets of the true logits that the model does not know, and larger groups are easier.
Diagnoses, of prediction sets only: four classes; all rows of a group have one label, and the model
knows nothing about a tenth of the groups.

Run `python -m benchmarks.clustered` (an hour on one core; `--repetitions`, `--groups`, `--metrics`
and `--sizes` shorten it). With `--differences`, it measures the intervals of `M.difference` between
two models with two networks each, and how often a wrong verdict is given. With `--sets`, it
measures the intervals of the coverage of prediction sets (LAC), which are fitted on as many other
groups. `--independent` adds what happens if rows are taken as independent.
"""

import argparse
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import expit, log_softmax, ndtri
from torch import Tensor

from trainables import metrics as M
from trainables.export.prediction_sets import COVERAGES, Labelled, fit_prediction_sets

Array = NDArray[np.float64]
Sizes = Literal["equal", "geometric", "heavy-tailed"]
Data = Literal["copula", "offsets", "diagnoses"]

CORRELATION = 0.3
CLASSES = 5
SIZES: tuple[Sizes, ...] = ("equal", "geometric", "heavy-tailed")
KINDS: tuple[Data, ...] = ("copula", "offsets")
KINDS_OF_SETS: tuple[Data, ...] = (*KINDS, "diagnoses")
OVERCONFIDENCE = (1.0, 1.5)  # logits are too large by these factors
PAIRS = ((1.0, 1.0), (1.3, 1.3), (1.0, 1.5))
METRICS = ("ece", "adaptive_ece", "smooth_ece", "classwise_ece", "nll", "error", "auroc", "aurc")
POPULATION = 20_000  # groups
SEED_NOISE = 0.1  # of the logarithm of a network's factor


@dataclass(frozen=True)
class Law:
    """A distribution of data; the logits of the model are too large by ``factor``."""

    sizes: Sizes
    data: Data = "copula"
    factor: float = 1.0


def draw(law: Law, groups: int, random: np.random.Generator) -> tuple[Tensor, Tensor, Tensor]:
    """Probabilities (N, K), labels (N,) and the group of each row (N,)."""
    logits, labels, ids = _draw(law, groups, random)
    return _probs(law.factor * logits), torch.from_numpy(labels), torch.from_numpy(ids)


def draw_two(
    factors: tuple[float, float], law: Law, groups: int, random: np.random.Generator
) -> tuple[list[list[Tensor]], Tensor, Tensor]:
    """Two networks of each of two models on the same rows, labels and groups; see :func:`draw`."""
    logits, labels, ids = _draw(law, groups, random)

    def network(factor: float) -> Tensor:
        noise = np.exp(SEED_NOISE * random.standard_normal((len(logits), 1)))
        own = factor * np.exp(SEED_NOISE / 3 * random.standard_normal())
        return _probs(own * logits * noise)

    models = [[network(factor) for _ in range(2)] for factor in factors]
    return models, torch.from_numpy(labels), torch.from_numpy(ids)


def _draw(
    law: Law, groups: int, random: np.random.Generator
) -> tuple[Array, NDArray[np.int64], NDArray[np.int64]]:
    """Logits that are right on average, labels and groups."""
    sizes = {
        "equal": np.full(groups, 20),
        "geometric": random.geometric(1 / 8, groups),
        "heavy-tailed": np.ceil(np.exp(1.2 + 1.2 * random.standard_normal(groups))),
    }[law.sizes].astype(int)
    ids = np.repeat(np.arange(groups), sizes)
    rows = len(ids)
    if law.data == "diagnoses":
        labels = random.integers(0, 4, groups)[ids]
        known = (random.random(groups) < 0.9)[ids, None]
        noise = 0.8 * random.standard_normal((groups, 4))[ids] + random.standard_normal((rows, 4))
        return 3 * known * np.eye(4)[labels] + noise, labels, ids
    if law.data == "copula":
        shared, luck = random.standard_normal((2, groups, 1))[:, ids, 0]
        sure = np.abs(1.5 + shared + random.standard_normal(rows))
        own = np.sqrt(1 - CORRELATION) * random.standard_normal(rows)
        right = np.sqrt(CORRELATION) * luck + own < ndtri(expit(sure))
        said = random.random(rows) < 0.5
        signed = np.where(said, sure, -sure) / 2
        return np.stack([-signed, signed], 1), np.where(right, said, ~said).astype(int), ids
    logits = 1.2 * random.standard_normal((rows, CLASSES))
    offsets = 0.7 * random.standard_normal((groups, CLASSES))[ids]
    easier = (0.8 + 0.15 * np.log(sizes))[ids, None]
    gumbel = random.gumbel(size=(rows, CLASSES))
    return logits, (easier * logits + offsets + gumbel).argmax(1), ids


def _probs(logits: Array) -> Tensor:
    return torch.from_numpy(np.exp(log_softmax(logits, axis=1)))


def differences(given: argparse.Namespace) -> Iterator[str]:
    """A row for each kind of data, metric and pair of models."""
    yield from _heading(given, ("sizes", "data", "metric", "logits too large by", "difference"))
    for kind, data, factors in product(given.sizes, KINDS, PAIRS):
        law, truth, rows = Law(kind, data), {}, {}
        models, labels, _ = draw_two(factors, law, POPULATION, np.random.default_rng(1))
        for name in ("ece", "nll"):
            measure = M.METRICS[name].function
            ours, theirs = (np.mean([measure(p, labels) for p in runs]) for runs in models)
            truth[name] = 0.0 if factors[0] == factors[1] else float(ours - theirs)
            of = f"{factors[0]:g}, {factors[1]:g} | {truth[name]:+.4f}"
            rows[name] = f"| {kind} | {data} | {name} | {of} |"
        for groups in given.groups:
            random = np.random.default_rng(groups)
            covers: Counter[tuple[str, bool]] = Counter()
            wrong: Counter[tuple[str, bool]] = Counter()
            for _ in range(given.repetitions):
                (one, other), labels, ids = draw_two(factors, law, groups, random)
                for name, clusters in product(rows, _ways(ids, given)):
                    found = M.difference(name, one, other, labels, clusters=clusters)
                    key = name, clusters is None
                    covers[key] += found.low <= truth[name] <= found.high
                    wrong[key] += found.verdict == "supported" and truth[name] >= 0
            for name, independent in product(rows, [False, True][: 1 + given.independent]):
                for each in (covers, wrong):
                    rows[name] += f" {100 * each[name, independent] / given.repetitions:.1f} |"
        yield from rows.values()


def values(given: argparse.Namespace) -> Iterator[str]:
    """A row for each metric and distribution."""
    yield from _heading(given, ("metric", "sizes", "data", "logits too large by", "truth"))
    for kind, data, factor in product(given.sizes, KINDS, OVERCONFIDENCE):
        law = Law(kind, data, factor)
        probs, labels, _ = draw(law, POPULATION, np.random.default_rng(1))
        truth = M.evaluate(probs.log(), labels, given.metrics)
        of = f"{kind} | {data} | {factor:g}"
        rows = {name: f"| {name} | {of} | {truth[name]:.4f} |" for name in given.metrics}
        for groups in given.groups:
            random = np.random.default_rng(groups)
            covers: Counter[tuple[str, bool]] = Counter()
            for _ in range(given.repetitions):
                probs, labels, ids = draw(law, groups, random)
                for clusters in _ways(ids, given):
                    found = M.intervals(probs, labels, given.metrics, clusters=clusters)
                    for name, (_, low, high) in found.items():
                        covers[name, clusters is None] += low <= truth[name] <= high
            for name, independent in product(rows, [False, True][: 1 + given.independent]):
                rows[name] += f" {100 * covers[name, independent] / given.repetitions:.1f} |"
        yield from rows.values()


def sets(given: argparse.Namespace) -> Iterator[str]:
    """A row for each distribution and coverage of prediction sets."""
    yield from _heading(given, ("sizes", "data", "sets for"))
    for kind, data in product(given.sizes, KINDS_OF_SETS):
        law, targets = Law(kind, data), [f"{each:g}" for each in COVERAGES]
        probs, labels, _ = draw(law, POPULATION, np.random.default_rng(1))
        outside = 1 - probs.gather(1, labels[:, None])[:, 0]
        outside[probs.argmax(1) == labels] = 0  # the most likely class is always in the set
        outside = outside.sort().values
        rows = {target: f"| {kind} | {data} | {target} |" for target in targets}
        for groups in given.groups:
            random = np.random.default_rng(groups)
            covers: Counter[tuple[str, bool]] = Counter()
            for _ in range(given.repetitions):
                known, tested = (draw(law, groups, random) for _ in range(2))
                for clusters in _ways(tested[2], given):
                    found = fit_prediction_sets(
                        Labelled(known[0].log(), known[1]),
                        Labelled(tested[0].log(), tested[1], clusters),
                    )["lac"]
                    for target, each in found.items():
                        within = torch.searchsorted(outside, each["threshold"], right=True)
                        truth = float(within) / len(outside)
                        covers[target, clusters is None] += each["low"] <= truth <= each["high"]
            for target, independent in product(rows, [False, True][: 1 + given.independent]):
                rows[target] += f" {100 * covers[target, independent] / given.repetitions:.1f} |"
        yield from rows.values()


def _heading(given: argparse.Namespace, first: tuple[str, ...]) -> Iterator[str]:
    measured = ["covers", "falsely supported"] if given.differences else ["covers"]
    if given.independent:
        measured += [f"{each}, as if independent" for each in measured]
    columns = [*first, *(f"{n:,} groups: {each}" for n in given.groups for each in measured)]
    yield f"| {' | '.join(columns)} |"
    yield "|" + " --- |" * len(columns)


def _ways(ids: Tensor, given: argparse.Namespace) -> list[Tensor | None]:
    return [ids, None] if given.independent else [ids]


def main() -> None:
    """Print the table, row by row."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=400, help="samples to draw")
    parser.add_argument(
        "--groups", type=int, nargs="+", default=[30, 100, 400], help="numbers of groups"
    )
    parser.add_argument("--sizes", nargs="+", default=list(SIZES), help="sizes of groups")
    parser.add_argument("--metrics", nargs="+", default=list(METRICS), help="names of metrics")
    parser.add_argument(
        "--differences", action="store_true", help="intervals of differences instead"
    )
    parser.add_argument("--sets", action="store_true", help="prediction sets instead")
    parser.add_argument("--independent", action="store_true", help="also as if independent")
    given = parser.parse_args()
    for row in (differences if given.differences else sets if given.sets else values)(given):
        print(row, flush=True)


if __name__ == "__main__":
    main()
