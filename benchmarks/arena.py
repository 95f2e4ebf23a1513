"""Ranks losses on recorded datasets, and a new loss among them.

    python -m benchmarks.arena                                 # the ranking in docs/arena.md
    python -m benchmarks.arena --datasets                      # a row for each dataset and loss
    python -m benchmarks.arena --loss my_module:MyLoss --set gamma=2 --set gamma=3   # 15 minutes
    python -m benchmarks.arena --score ../recordings           # from the logits of recorded trials
    python -m benchmarks.arena --false-positives               # cross-entropy against itself

A loss is shown at the setting with the lowest validation NLL after a temperature, of its published
settings; test metrics are means over seeds. A new loss is trained on :data:`SMALL` with
:data:`SEEDS`, with the settings that ``--set`` names (several values of one setting are joined by
commas), or with its defaults. Losses are compared by the ratio of their test NLL to that of
cross-entropy with the same scaling: its geometric mean over datasets has a 97 % interval of
Student's t, with datasets as samples. A loss is better if all of it is below 1, which is false in
at most 2.5 %. The tables that are not in ``../shared`` come from
:mod:`benchmarks.tabular.sources`.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import product
from multiprocessing import get_context
from pathlib import Path
from statistics import fmean, stdev
from tempfile import TemporaryDirectory

import numpy as np
import optuna
import pyarrow as pa
import pyarrow.parquet as pq
import torch
import yaml
from scipy.stats import t as student
from torch import Tensor

from benchmarks.tabular.curves import read_trials
from benchmarks.tabular.predictions import SPLITS
from benchmarks.tabular.record import settings, trial_of, write
from benchmarks.tabular.wide import POINTS
from sweeps.messages.formatting import format_hyperparameters
from sweeps.planning.data import load_data
from sweeps.sweep_file.loading import load_sweep
from trainables import metrics as M
from trainables.contract.config import ScalingMethod, ScalingWay, trial_folder
from trainables.contract.messages import Failed
from trainables.contract.setting import BASELINE, BASELINE_LOSS, Setting
from trainables.files.rows import Rows
from trainables.files.storage import Folder
from trainables.posthoc import cross_fitted
from trainables.posthoc.chosen import fit_scaling
from trainables.trials.scaling import inverse_of

FOLDER = Path(__file__).parent / "tabular/wide"
KNOWN = Path(__file__).parent / "results/arena.parquet"
SMALL = ("churn", "german", "hpc", "phoneme", "satellite", "spam", "vehicle", "wine")
SEEDS = (0, 1, 2)
_QUANTILE = 0.985  # .975 gave up to 3.2 % of false positives on the small datasets
SCALINGS: Mapping[ScalingMethod, str] = {
    "none": "as trained",
    "temperature": "with a temperature",
    "auto": "chosen scaling",
}


@dataclass(frozen=True)
class Score:
    """The test metrics of a network with a scaling.

    Attributes:
        dataset: Name of the recorded dataset.
        setting: Its setting.
        seed: Its seed.
        scaling: A key of :data:`SCALINGS`.
        val_nll: Validation NLL after a cross-fitted temperature, by which settings are selected.
        nll: Test NLL.
        ece: Test ECE.
        error: Test error.
    """

    dataset: str
    setting: Setting
    seed: int
    scaling: str
    val_nll: float
    nll: float
    ece: float
    error: float


@dataclass(frozen=True)
class Place:
    """A loss's place: the mean relative NLL, its interval, its ECE, and ranks of 95 % of draws."""

    loss: str
    ratio: float
    low: float
    high: float
    ece: float
    first: int
    last: int


def scores_of(
    dataset: str,
    trial: tuple[Setting, int],
    logits: Sequence[Tensor],
    labels: Sequence[Tensor],
    scalings: Iterable[ScalingMethod] = SCALINGS,
) -> Iterator[Score]:
    """The scores of one network: logits and labels of the validation and the test split."""
    validation, test = (each.double() for each in logits)
    setting, seed = trial
    val_nll = M.evaluate(cross_fitted(validation, labels[0]), labels[0], ["nll"])["nll"]
    inverse = inverse_of(setting.loss, setting.hyperparameters, test.shape[1])
    for name in scalings:
        scaling, _ = fit_scaling(validation, labels[0], ScalingWay(name), inverse=inverse)
        found = M.evaluate(scaling(test), labels[1], ["nll", "ece", "error"])
        yield Score(dataset, setting, seed, name, val_nll, **found)


def recorded_scores(name: str, recordings: Path) -> Iterator[Score]:
    """The scores of a recorded dataset; with a chosen scaling only of the selected settings."""
    sweep = load_sweep(str(FOLDER / f"{name}.yaml"))
    found: list[Score] = []
    for setting, seed, history in read_trials(FOLDER / f"{name}.parquet"):
        if len(history) == sweep.training.epochs:
            last = history[-1]
            for scaling, end in (("none", ""), ("temperature", "_scaled")):
                test = {each: last[f"test_{each}{end}"] for each in ("nll", "ece", "error")}
                found.append(Score(name, setting, seed, scaling, last["val_nll_scaled"], **test))
    yield from found
    data = load_data(sweep)
    numbers = {each: n for n, each in enumerate(settings(sweep, data.num_classes, POINTS))}
    labels = [torch.tensor(split.labels) for split in (data.validation, data.test)]
    for own in selected(found, "temperature")[name].values():
        for each in own:
            path = recordings / name / f"{numbers[each.setting]:04d}-{each.seed}.logits"
            if not path.exists():
                continue
            table = pq.read_table(path)
            last_epoch = [
                table[split][-1].values.to_numpy(zero_copy_only=False) for split in SPLITS
            ]
            logits = [
                torch.tensor(z, dtype=torch.float32).reshape(len(y), -1)
                for z, y in zip(last_epoch, labels, strict=True)
            ]
            yield from scores_of(name, (each.setting, each.seed), logits, labels, ["auto"])


def trained_scores(name: str, setting: Setting) -> list[Score]:
    """The scores of a setting, trained with each of :data:`SEEDS`."""
    torch.set_num_threads(1)
    sweep = load_sweep(str(FOLDER / f"{name}.yaml"))
    data = load_data(sweep)
    labels = [torch.tensor(split.labels) for split in (data.validation, data.test)]
    found: list[Score] = []
    for seed in SEEDS:
        with TemporaryDirectory(prefix="calsweep-arena-") as folder:
            run = trial_of(sweep, data, setting, seed, [sweep.training.epochs], folder)
            while not isinstance(report := run.advance(), Failed):
                if report.done:
                    break
            else:
                raise SystemExit(f"{setting} on {name}: {report.reason}")
            trial = Folder(folder) / trial_folder(0)
            logits = [torch.tensor(Rows.read(trial, split).logits) for split in SPLITS]
        found += scores_of(name, (setting, seed), logits, labels)
    return found


def read() -> list[Score]:
    if not KNOWN.exists():
        return []
    rows = pq.read_table(KNOWN).to_pylist()
    return [Score(**{**row, "setting": Setting(**json.loads(row["setting"]))}) for row in rows]


def save(scores: Sequence[Score]) -> None:
    rows = [
        vars(score)
        | {
            "setting": json.dumps(
                {"loss": score.setting.loss, "hyperparameters": score.setting.hyperparameters}
            )
        }
        for score in scores
    ]
    write(pa.Table.from_pylist(rows), KNOWN)


Losses = Mapping[str, Mapping[str, Sequence[Score]]]
"""By dataset and loss, the scores of its selected setting, one per seed."""


def selected(scores: Sequence[Score], scaling: str) -> Losses:
    """Of each loss the setting with the lowest mean validation NLL after a temperature."""
    groups: dict[str, dict[str, dict[Setting, list[Score]]]] = {}
    for each in scores:
        if each.scaling == scaling:
            by_loss = groups.setdefault(each.dataset, {}).setdefault(each.setting.loss, {})
            by_loss.setdefault(each.setting, []).append(each)
    return {
        dataset: {loss: _lowest(list(found.values())) for loss, found in by_loss.items()}
        for dataset, by_loss in groups.items()
    }


def _lowest(settings: Sequence[Sequence[Score]]) -> Sequence[Score]:
    """Of those with most seeds, as the recording may have more of some."""
    most = max(map(len, settings))
    known = [own for own in settings if len(own) == most]
    return min(known, key=lambda own: fmean(score.val_nll for score in own))


def log_ratios(losses: Losses, loss: str) -> list[float]:
    """The logarithm of the NLL ratio to cross-entropy, of each dataset."""
    return [
        math.log(_nll(own[loss]) / _nll(own[BASELINE_LOSS]))
        for own in losses.values()
        if loss in own
    ]


def _nll(own: Sequence[Score]) -> float:
    return fmean(score.nll for score in own)


def interval(values: Sequence[float]) -> tuple[float, float, float]:
    """The mean and its 97 % interval by Student's t."""
    mean = fmean(values)
    half = student.ppf(_QUANTILE, len(values) - 1) * stdev(values) / math.sqrt(len(values))
    return mean, mean - half, mean + half


def places(losses: Losses, draws: int = 2000) -> list[Place]:
    """All losses, best first. Ranks are those of 95 % of draws of datasets with replacement."""
    names = sorted(set.intersection(*({*own} for own in losses.values())))
    ratios = np.array([log_ratios(losses, name) for name in names])
    random = np.random.default_rng(0)
    drawn = random.integers(ratios.shape[1], size=(draws, ratios.shape[1]))
    ranks = 1 + ratios[:, drawn].mean(axis=2).argsort(axis=0).argsort(axis=0)
    first, last = np.quantile(ranks, [0.025, 0.975], axis=1, method="nearest")
    found = []
    for row, name in enumerate(names):
        ece = fmean(score.ece for own in losses.values() for score in own[name])
        mean, low, high = (math.exp(each) - 1 for each in interval(ratios[row].tolist()))
        found.append(Place(name, mean, low, high, ece, int(first[row]), int(last[row])))
    return sorted(found, key=lambda place: place.ratio)


def print_places(scores: Sequence[Score]) -> None:
    """A row for each loss, best with a chosen scaling first."""
    found = {name: {p.loss: p for p in places(selected(scores, name))} for name in SCALINGS}
    seeds = {score.seed for score in scores}
    print(f"{len({score.dataset for score in scores})} datasets, seeds {sorted(seeds)}\n")
    print("| rank | loss | " + " | ".join(f"NLL {each}" for each in SCALINGS.values()), end="")
    print(" | ECE as trained | ECE, chosen scaling |")
    print("| --- " * (4 + len(SCALINGS)) + "|")
    for loss, best in found["auto"].items():
        own = [found[name][loss] for name in SCALINGS]
        cells = [f"{p.ratio:+.1%} [{p.low:+.1%}, {p.high:+.1%}]" for p in own]
        cells += [f"{own[0].ece:.4f}", f"{best.ece:.4f}"]
        print(f"| {best.first} to {best.last} | `{loss}` | {' | '.join(cells)} |")


def print_datasets(scores: Sequence[Score]) -> None:
    """A table of each loss on each dataset: relative NLL ± the 95 % interval over seeds."""
    print("| dataset | loss | setting | " + " | ".join(SCALINGS.values()) + " | ECE | error |")
    print("| --- " * (3 + len(SCALINGS) + 2) + "|")
    by_scaling = {scaling: selected(scores, scaling) for scaling in SCALINGS}
    for dataset, losses in by_scaling["none"].items():
        for loss, own in losses.items():
            cells = [
                _relative(found[dataset], loss) if loss in found.get(dataset, {}) else "–"
                for found in by_scaling.values()
            ]
            values = format_hyperparameters(own[0].setting.hyperparameters)
            ece, error = fmean(each.ece for each in own), fmean(each.error for each in own)
            row = (dataset, f"`{loss}`", values, *cells, f"{ece:.4f}", f"{error:.4f}")
            print(f"| {' | '.join(row)} |")


def _relative(losses: Mapping[str, Sequence[Score]], loss: str) -> str:
    """The NLL relative to cross-entropy's; the deviation over seeds is that of all losses."""
    logs = {name: [math.log(score.nll) for score in own] for name, own in losses.items()}
    squares = sum((x - fmean(own)) ** 2 for own in logs.values() for x in own)
    freedom = sum(len(own) - 1 for own in logs.values())
    ours, theirs = logs[loss], logs[BASELINE_LOSS]
    if loss == BASELINE_LOSS:
        return f"{_nll(losses[loss]):.4f}"
    error = math.sqrt(squares / freedom * (1 / len(ours) + 1 / len(theirs)))
    half = student.ppf(0.975, freedom) * error
    return f"{fmean(ours) - fmean(theirs):+.1%} ± {half:.1%}"


def false_positives(scores: Sequence[Score], draws: int = 20_000) -> Iterator[str]:
    """How often cross-entropy is "better" than itself: random seeds against the others."""
    random = np.random.default_rng(0)
    for scaling, names, ours in product(SCALINGS, (SMALL, None), (2, 3)):
        known: dict[str, list[float]] = {}
        for each in scores:
            if each.scaling == scaling and each.setting == BASELINE:
                known.setdefault(each.dataset, []).append(each.nll)
        nll = np.array([known[name] for name in names or known])
        drawn = random.permuted(np.tile(nll, (draws, 1, 1)), axis=2)
        logs = np.log(drawn[..., :ours].mean(axis=2) / drawn[..., ours:].mean(axis=2))
        error = logs.std(axis=1, ddof=1) / math.sqrt(len(nll))
        better = logs.mean(axis=1) + student.ppf(_QUANTILE, len(nll) - 1) * error < 0
        words = (
            f"{SCALINGS[scaling]}, {len(nll)} datasets, {ours} seeds against {nll.shape[1] - ours}"
        )
        yield f"{words}: better in {better.mean():.1%}"


def settings_of(loss: str, sets: Sequence[str]) -> list[Setting]:
    parsed = [dict(pair.split("=", 1) for pair in each.split(",")) for each in sets] or [{}]
    return [Setting(loss, {k: yaml.safe_load(v) for k, v in each.items()}) for each in parsed]


def main() -> None:
    """Score recordings, rank a new loss, or print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--loss", help="module:Class, ranked on the small datasets")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE,...")
    parser.add_argument("--score", type=Path, metavar="FOLDER", help="recorded logits")
    parser.add_argument("--datasets", action="store_true", help="a row for each dataset")
    parser.add_argument("--false-positives", action="store_true")
    arguments = parser.parse_args()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    scores = read()
    spawned = get_context("spawn")
    if arguments.score is not None:
        torch.set_num_threads(1)
        known = {each.dataset for each in scores}
        for file in sorted(FOLDER.glob("*.yaml")):
            if file.stem not in known:
                scores += recorded_scores(file.stem, arguments.score)
                save(scores)
                print(file.stem, len(scores), flush=True)
    if arguments.loss is not None:
        scores = [each for each in scores if each.dataset in SMALL]
        with ProcessPoolExecutor(2, mp_context=spawned) as pool:
            jobs = list(product(SMALL, settings_of(arguments.loss, arguments.set)))
            for found in pool.map(trained_scores, *zip(*jobs, strict=True)):
                scores += found
                print(f"{found[0].dataset}: {found[0].setting}", flush=True)
    if arguments.false_positives:
        print("\n".join(false_positives(scores)))
    elif arguments.datasets:
        print_datasets(scores)
    else:
        print_places(scores)


if __name__ == "__main__":
    main()
