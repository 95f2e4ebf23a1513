"""What searches hand out after equally many trainings, on random splits of many datasets.

    python -m benchmarks.tabular.equal_trainings benchmarks/tabular/wide/*.yaml --into ../recordings
    python -m benchmarks.tabular.equal_trainings benchmarks/tabular/wide/*.yaml --into ../recordings
        --show

Each search tries as many settings; its finalists get the same fresh seeds. The trials that a replay
needs are trained, and kept in ``--into`` as :mod:`benchmarks.tabular.wide` does. For each replay,
validation and test samples are pooled and split anew. From these predictions, the evidence, the
recommendation and its scaling are those of a sweep. A guided search starts from the records of the
other datasets. Results are in ``equal_trainings.jsonl`` of a dataset's folder; an interrupted run
continues. Several may run concurrently, with different datasets.

Columns are means over replays. NLL and ECE are those of what is handed out, on the test split. It
is compared with one network of cross-entropy with a temperature, and with the mean of as many as it
has networks; z is that difference in standard errors over samples. Regret is the test ECE of the
selected setting less that of the best one: the setting with the lowest recorded test ECE within the
guard, with two other seeds.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from statistics import fmean, median

import numpy as np
import optuna
import pyarrow.parquet as pq
import torch
from torch import Tensor

from benchmarks.tabular.curves import Curves, Trials, parser_of_recordings, read_trials
from benchmarks.tabular.predictions import SPLITS
from benchmarks.tabular.priors import Prior, known_of
from benchmarks.tabular.regret import QUICKSTART
from benchmarks.tabular.replay import replay, with_values
from benchmarks.tabular.wide import order, record
from sweeps.evidence.comparison import compare, compare_on_test_split
from sweeps.evidence.ensemble import judge_ensemble, select, select_seeds
from sweeps.evidence.scaling import double_tensors, judge_scalings, scaled_rows
from sweeps.planning.data import load_data
from sweeps.results.evidence import Evidence
from sweeps.results.recommendation import recommend
from sweeps.search.ranking import Ranking
from sweeps.search.rules import rule_of
from sweeps.search.space import SearchSpace
from sweeps.sweep_file.loading import load_sweep
from trainables import metrics as M
from trainables.contract.config import USUAL_SCALING, ScalingWay
from trainables.contract.messages import Entry
from trainables.contract.setting import BASELINE, Setting
from trainables.files.rows import ReadRows, Rows
from trainables.metrics.proper_scores import log_losses_of_logits
from trainables.posthoc.ensembles import fit_mean
from trainables.trials.outcome import Extent, summarise

SEEDS = (0, 1, 2, 3)  # of the search, then of the finalists
FRESH = 8  # at most: a fresh seed of each of 3 finalists, 2 of the best, 3 of the baseline
OF_BEST = (3, 4)
METRICS = ("nll", "error", "ece")
RESULTS = "equal_trainings.jsonl"
LARGE_REGRET = 0.008
TEMPERATURE = ScalingWay("temperature")


class Dataset:
    """A dataset with its sweep, and its trials, which are trained when they are needed."""

    def __init__(self, file: str, into: Path) -> None:
        self.name = Path(file).stem
        self.folder = into / self.name
        self.folder.mkdir(parents=True, exist_ok=True)
        self.sweep = load_sweep(file, [QUICKSTART])
        self._recorded, self._table = load_sweep(file), Path(file).with_suffix(".parquet")
        self.data = load_data(self._recorded)
        trials = order(self._recorded, self.data.num_classes)
        losses = {section.name for section in self.sweep.losses} | {BASELINE.loss}
        self.numbers = {setting: n for n, setting, _ in trials if setting.loss in losses}
        labels = [getattr(self.data, split).labels for split in SPLITS]
        self.labels = np.concatenate(labels)

    def trial(self, setting: Setting, seed: int) -> tuple[list[Entry], np.ndarray]:
        """The history, and the last logits of the validation and test samples, (P, K)."""
        at = self.folder / f"{self.numbers[setting]:04d}-{seed}.parquet"
        if not at.exists():
            record(self._recorded, self.data, setting, seed, at)
        ((_, _, history),) = read_trials(at)
        if len(history) < self._recorded.training.epochs:
            return history, np.empty((0, 0))
        table = pq.read_table(at.with_suffix(".logits"))
        flat = [np.array(table[split][-1].as_py(), np.float32) for split in SPLITS]
        return history, np.concatenate(flat).reshape(len(self.labels), -1)

    @cached_property
    def searched(self) -> list[Setting]:
        """The settings that are not published ones, in random order."""
        count = len(SearchSpace(self._recorded.losses).initial_settings(self.data.num_classes))
        return [setting for setting, number in self.numbers.items() if number >= count]

    @cached_property
    def best(self) -> Setting:
        """The recorded setting with the lowest test ECE within the guard."""
        last: dict[Setting, list[Entry]] = {}
        for setting, _, history in read_trials(self._table):
            if setting in self.numbers and len(history) == self._recorded.training.epochs:
                last.setdefault(setting, []).append(history[-1])
        ece, error = (
            {s: fmean(entry[metric] for entry in own) for s, own in last.items()}
            for metric in ("test_ece", "test_error")
        )
        limit = error[BASELINE] + self.sweep.search.guard
        return min((s for s in ece if error[s] <= limit), key=lambda s: ece[s])


class Split(Curves):
    """The trials of a dataset on a random split into validation and test samples."""

    def __init__(self, dataset: Dataset, number: int) -> None:
        trials: Trials = [(setting, SEEDS[0], []) for setting in dataset.numbers]
        super().__init__(trials, SearchSpace(dataset.sweep.losses))
        self.number, self._dataset = number, dataset
        count = len(dataset.data.validation)
        mixed = np.random.default_rng(number).permutation(len(dataset.labels))
        self._index = dict(zip(SPLITS, (mixed[:count], mixed[count:]), strict=True))
        self._known: dict[tuple[Setting, int], tuple[list[Entry], dict[str, Rows]]] = {}

    def history(self, setting: Setting, seed: int) -> list[Entry]:
        return self._trial(setting, seed)[0]

    def rows(self, setting: Setting, seed: int, split: str) -> Rows:
        """The predictions after the last epoch."""
        return self._trial(setting, seed)[1][split]

    def mean_of_baselines(self, networks: int, way: ScalingWay = TEMPERATURE) -> Tensor:
        """Test logits of the mean of this many networks of cross-entropy, after its scaling."""
        own = {
            split: [double_tensors(self.rows(BASELINE, seed, split))[0] for seed in range(networks)]
            for split in SPLITS
        }
        labels = double_tensors(self.rows(BASELINE, 0, "validation"))[1]
        return fit_mean(own["validation"], labels, way=way)(own["test"])

    def _trial(self, setting: Setting, seed: int) -> tuple[list[Entry], dict[str, Rows]]:
        if (setting, seed) not in self._known:
            history, logits = self._dataset.trial(setting, seed)
            if not len(logits):
                return history, {}
            labels = self._dataset.labels
            rows = {split: Rows(logits[i], labels[i]) for split, i in self._index.items()}
            extent = Extent.of_search(METRICS, {}, ended=True)
            found = summarise(rows["validation"], rows["test"], extent=extent)
            last = {"epoch": history[-1]["epoch"], **found}
            self._known[setting, seed] = [*history[:-1], last], rows
        return self._known[setting, seed]


@dataclass(frozen=True)
class Search:
    """A policy.

    Attributes:
        sampler: With its usual scheduler: none, but ASHA with ``tpe``.
        prior: What a guided search starts from.
    """

    sampler: str
    prior: Prior = "none"

    def __call__(self, dataset: Dataset, split: Split, trials: int) -> Ranking:
        """A replay; the number of the split is the seed of the search."""
        values = {
            "search.sampler": self.sampler,
            "search.trials": trials,
            "search.seed": split.number,
            "scheduler.name": "asha" if self.sampler == "tpe" else "none",
        }
        sweep = with_values(dataset.sweep, [f"{key}={value}" for key, value in values.items()])
        records = replay(
            sweep,
            split,
            dataset.data.num_classes,
            SEEDS,
            initial=self._initial(dataset, trials),
            recorded=known_of(sweep, self.prior),
        )
        return Ranking(records, rule_of(sweep))

    def _initial(self, dataset: Dataset, trials: int) -> Sequence[Setting] | None:
        """For a random search the same settings in all replays, which saves trainings."""
        return [BASELINE, *dataset.searched[: trials - 1]] if self.sampler == "random" else None


SEARCHES: dict[str, Search] = {
    "guided": Search("guided", "shipped"),
    "guided, from all recorded datasets": Search("guided", "all"),
    "published first": Search("tpe"),
    "random": Search("random"),
}
BASELINES = "cross-entropy only"


@dataclass(frozen=True)
class Row:
    """A replay of a search; see the module.

    Attributes:
        kind: Of the recommendation; ``seeds`` is the mean of networks of cross-entropy.
        against_one: Its NLL less that of one network of cross-entropy with a temperature.
        against_equal: The same, of the mean of as many networks.
        error: Standard error of `against_equal` over samples.
        beyond_guard: Whether the selected setting's test error is, with the seeds it has.
    """

    dataset: str
    search: str
    trials: int
    replay: int
    kind: str
    networks: int
    nll: float
    ece: float
    against_one: float
    against_equal: float
    error: float
    regret: float
    beyond_guard: bool
    trainings: int
    epochs: int

    @property
    def key(self) -> tuple[str, int, int]:
        return self.search, self.trials, self.replay


def row_of(dataset: Dataset, split: Split, name: str, trials: int) -> Row:
    """Replay a search, or train cross-entropy as often as all trials would be."""
    if name == BASELINES:
        networks = trainings = trials + FRESH
        kind, logits = "seeds", split.mean_of_baselines(networks, USUAL_SCALING)
        regret, beyond_guard = math.nan, False
        epochs = networks * dataset.sweep.training.epochs
    else:
        ranking = SEARCHES[name](dataset, split, trials)
        kind, networks, logits = handed_out(ranking, split)
        chosen, baseline = ranking.chosen, ranking.baseline
        assert chosen is not None
        assert baseline is not None
        best = fmean(split.history(dataset.best, seed)[-1]["test_ece"] for seed in OF_BEST)
        regret = chosen.mean("test_ece") - best
        excess = chosen.mean("test_error") - baseline.mean("test_error")
        beyond_guard = bool(excess > dataset.sweep.search.guard)
        trainings = len(ranking.records)
        epochs = sum(trial.epochs for trial in ranking.records)
    labels = double_tensors(split.rows(BASELINE, 0, "test"))[1]
    losses = log_losses_of_logits(logits, labels)
    one, equal = (
        losses - log_losses_of_logits(split.mean_of_baselines(count), labels)
        for count in (1, networks)
    )
    return Row(
        dataset=dataset.name,
        search=name,
        trials=trials,
        replay=split.number,
        kind=kind,
        networks=networks,
        nll=float(losses.mean()),
        ece=M.evaluate(logits, labels, ["ece"])["ece"],
        against_one=float(one.mean()),
        against_equal=float(equal.mean()),
        error=float(equal.std()) / math.sqrt(len(equal)),
        regret=regret,
        beyond_guard=beyond_guard,
        trainings=trainings,
        epochs=epochs,
    )


def handed_out(ranking: Ranking, split: Split) -> tuple[str, int, Tensor]:
    """The kind of what a sweep recommends, its number of networks, and its scaled test logits."""
    read = reader(ranking, split)
    ensemble = next(iter(judge_ensemble(ranking, read)), None)
    evidence = Evidence(
        (*compare_on_test_split(ranking, read), *compare(ranking, read)),
        ensemble=ensemble,
        scalings=tuple(judge_scalings(ranking, read)),
    )
    recommended = recommend(ranking, evidence, with_ensemble=True)
    assert recommended is not None
    if recommended.kind != "ensemble":
        trial = next(r for r in ranking.records if (r.number,) == recommended.trials)
        rows = scaled_rows(read, trial, ranking.rule.scaling)
        return recommended.kind, 1, double_tensors(rows)[0]
    assert ensemble is not None
    found = (select_seeds if ensemble.offered == "seeds" else select)(ranking, read)
    assert found is not None
    return found.kind, found.networks, found.on_test.logits


def reader(ranking: Ranking, split: Split) -> ReadRows:
    """Reads the predictions of a replay's trials."""
    trials = {trial.number: trial for trial in ranking.records}
    first = min(trial.seed for trial in ranking.records)

    def read(of: str, number: int) -> Rows:
        trial = trials[number]
        return split.rows(trial.setting, SEEDS[trial.seed - first], of)

    return read


def run(dataset: Dataset, searches: Sequence[str], trials: int, replays: int) -> None:
    """Add the rows that the file of a dataset lacks."""
    file = dataset.folder / RESULTS
    known = {row.key for row in read_rows(file)}
    for number in range(replays):
        split = Split(dataset, number)
        for name in searches:
            if (name, trials, number) not in known:
                row = row_of(dataset, split, name, trials)
                with file.open("a") as lines:
                    lines.write(json.dumps(asdict(row)) + "\n")
                print(row, flush=True)


def read_rows(file: Path) -> list[Row]:
    lines = file.read_text().splitlines() if file.exists() else []
    return [Row(**json.loads(line)) for line in lines]


def show(rows: Sequence[Row]) -> None:
    """Print a table of the datasets and one of the means, for each number of trials.

    A cell has the values of the searches that were replayed, or one if they are equal.
    """
    for trials in sorted({row.trials for row in rows}):
        found: dict[str, dict[str, list[Row]]] = {}
        for row in rows:
            if row.trials == trials:
                found.setdefault(row.dataset, {}).setdefault(row.search, []).append(row)
        searches = dict.fromkeys(search for own in found.values() for search in own)
        print(
            f"\n{trials} trials of the search, {trials + FRESH} trainings; {' / '.join(searches)}"
        )
        print(f"\n| dataset | {' | '.join(COLUMNS)} |\n{'| --- ' * (len(COLUMNS) + 1)}|")
        for name, of_searches in found.items():
            cells = []
            for cell in COLUMNS.values():
                values = [cell(of_searches[each]) for each in searches if each in of_searches]
                cells.append(values[0] if len(set(values)) == 1 else " / ".join(values))
            print(f"| {name} | {' | '.join(cells)} |")
        print()
        _print_means(
            {name: [own[name] for own in found.values() if name in own] for name in searches}
        )


def _kinds(rows: Sequence[Row]) -> str:
    kinds = [f"{row.kind} × {row.networks}" for row in rows]
    counts = {kind: kinds.count(kind) for kind in dict.fromkeys(kinds)}
    if len(counts) == 1:
        return kinds[0]
    return ", ".join(f"{count} {kind}" for kind, count in counts.items())


COLUMNS: dict[str, Callable[[Sequence[Row]], str]] = {
    "replays": lambda rows: str(len(rows)),
    "handed out": _kinds,
    "NLL": lambda rows: f"{_mean(rows, 'nll'):.4f}",
    "against one": lambda rows: f"{_relative(rows, 'against_one'):+.1%}",
    "against as many": lambda rows: f"{_relative(rows, 'against_equal'):+.1%}",
    "z": lambda rows: f"{_z(rows):+.1f}",
    "ECE": lambda rows: f"{_mean(rows, 'ece'):.4f}",
    "regret": lambda rows: f"{_mean(rows, 'regret'):+.4f}",
    "beyond the guard": lambda rows: f"{_mean(rows, 'beyond_guard'):.0%}",
    "trainings": lambda rows: f"{_mean(rows, 'trainings'):.0f}",
    "epochs": lambda rows: f"{_mean(rows, 'epochs'):,.0f}",
}


def _print_means(of_searches: Mapping[str, Sequence[Sequence[Row]]]) -> None:
    """Means over the datasets."""
    print(
        "| search | datasets | NLL against one | median | worst | against as many | worst z | ECE "
        "| regret | at most .008 | beyond the guard | trainings | epochs |"
    )
    print("| --- " * 13 + "|")
    for search, sets in of_searches.items():
        one = sorted(_relative(rows, "against_one") for rows in sets)
        regrets = [_mean(rows, "regret") for rows in sets]
        cells = (
            f"{len(sets)}",
            f"{fmean(one):+.1%}",
            f"{median(one):+.1%}",
            f"{one[-1]:+.1%}",
            f"{fmean(_relative(rows, 'against_equal') for rows in sets):+.2%}",
            f"{max(map(_z, sets)):+.1f}",
            f"{fmean(_mean(rows, 'ece') for rows in sets):.4f}",
            f"{fmean(regrets):+.4f}",
            f"{sum(regret <= LARGE_REGRET for regret in regrets)}",
            f"{fmean(_mean(rows, 'beyond_guard') for rows in sets):.0%}",
            f"{fmean(_mean(rows, 'trainings') for rows in sets):.1f}",
            f"{fmean(_mean(rows, 'epochs') for rows in sets):.0f}",
        )
        print(f"| {search} | {' | '.join(cells)} |")


def _mean(rows: Sequence[Row], name: str) -> float:
    return fmean(getattr(row, name) for row in rows)


def _relative(rows: Sequence[Row], name: str) -> float:
    """The mean difference of NLLs as a share of the other NLL."""
    return fmean(getattr(row, name) / (row.nll - getattr(row, name)) for row in rows)


def _z(rows: Sequence[Row]) -> float:
    """In standard errors, which more replays of the same samples do not reduce."""
    error = _mean(rows, "error")
    return _mean(rows, "against_equal") / error if error else 0.0


def main() -> None:
    """Replay, or print the tables."""
    parser = parser_of_recordings(__doc__.splitlines()[0])
    parser.add_argument("--into", type=Path, required=True, help="folder of trials and results")
    parser.add_argument("--searches", nargs="+", default=list(SEARCHES), metavar="NAME")
    parser.add_argument("--trials", type=int, default=4, help="settings that a search tries")
    parser.add_argument("--replays", type=int, default=4, help="replays, each with its split")
    parser.add_argument("--show", action="store_true", help="print the tables")
    arguments = parser.parse_args()
    if arguments.show:
        folders = (arguments.into / Path(file).stem for file in arguments.sweeps)
        show([row for folder in folders for row in read_rows(folder / RESULTS)])
        return
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    torch.set_num_threads(1)
    for file in arguments.sweeps:
        dataset = Dataset(file, arguments.into)
        run(dataset, arguments.searches, arguments.trials, arguments.replays)


if __name__ == "__main__":
    main()
