"""Several networks: what a sweep offers against equally expensive seeds of cross-entropy.

    python -m benchmarks.tabular.several benchmarks/tabular/digits.yaml --folder FOLDER

Trains 20 seeds of cross-entropy and four of published settings of five losses (minutes); their
logits are kept in ``FOLDER``, from where an interrupted run continues. For each replay, the
validation and test samples are pooled and split anew, and a sweep with ``selection.ensemble:
if_supported`` is replayed on them, with the queue, the ranking and the verdicts of live sweeps,
once for each number of networks that a prediction may cost. A row has the trainings, the networks
of a prediction, and the test NLL with its standard error over replays; *offered* is what ``calsweep
export --ensemble`` writes.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from benchmarks.tabular.curves import Curves, Trials, parser_of_recordings
from benchmarks.tabular.regret import mean_and_error
from benchmarks.tabular.replay import replay, with_values
from benchmarks.tabular.resplits import SPLITS, Trained, resplit, trained
from sweeps.evidence.ensemble import judge_ensemble, select, select_seeds
from sweeps.planning.data import load_data
from sweeps.search.ranking import Ranking
from sweeps.search.rules import rule_of
from sweeps.search.space import SearchSpace
from sweeps.sweep_file.loading import load_sweep
from sweeps.sweep_file.schema import SweepFile
from trainables import metrics as M
from trainables.contract.setting import BASELINE, Setting
from trainables.files.rows import Rows
from trainables.files.storage import Folder
from trainables.posthoc.ensembles import fit_mean

LOSSES = ("label_smoothing", "focal", "dual_focal", "inverse_focal", "mbls")
OF_A_LOSS = 2
SEEDS_OF_BASELINE = 20
SEEDS = 4
REFERENCES = (1, 5, 10, SEEDS_OF_BASELINE)
NETWORKS = (5, 10)

Found = dict[str, tuple[int, int, float]]
"""Trainings, networks and test NLL of each way."""
Parts = dict[str, torch.Tensor]
"""Indices of the samples of each split."""
Known = dict[tuple[Setting, int], Trained]


def trials_of(sweep: SweepFile, num_classes: int) -> Trials:
    """Settings and seeds to train, with an empty history each."""
    published = SearchSpace(sweep.losses).initial_settings(num_classes)
    by_loss = {loss: [s for s in published if s.loss == loss][:OF_A_LOSS] for loss in LOSSES}
    found: list[tuple[Setting, int]] = [(BASELINE, seed) for seed in range(SEEDS_OF_BASELINE)]
    found += [(s, seed) for each in by_loss.values() for s in each for seed in range(SEEDS)]
    return [(setting, seed, [{}] * sweep.training.epochs) for setting, seed in found]


def run(sweep: SweepFile, found: Sequence[Trained], num_validation: int, number: int) -> Found:
    """The replays on one pair of splits; their number determines the splits and the seeds."""
    random = np.random.default_rng(number)
    order = torch.from_numpy(random.permutation(len(found[0].labels)))
    parts = dict(zip(SPLITS, (order[:num_validation], order[num_validation:]), strict=True))
    known = {(each.setting, each.seed): each for each in found}
    result: Found = {}
    for networks in NETWORKS:
        result |= _replay(sweep, found, (parts, known), number, networks)
    return _of_baseline(known, parts, random) | result


def _replay(
    sweep: SweepFile,
    found: Sequence[Trained],
    given: tuple[Parts, Known],
    number: int,
    networks: int,
) -> Found:
    parts, known = given
    random = np.random.default_rng(number)
    settings = list(dict.fromkeys(each.setting for each in found))
    sets = [f"search.trials={len(settings)}", "search.sampler=tpe", "scheduler.name=none"]
    sets += ["selection.ensemble=if_supported", f"selection.networks={networks}"]
    sweep = with_values(sweep, sets)
    of_baseline = SEEDS + random.permutation(SEEDS_OF_BASELINE - SEEDS)
    seeds = [*random.permutation(SEEDS).tolist(), *of_baseline.tolist()][: len(sweep.seeds)]
    count = len(parts["validation"])
    curves = Curves(resplit(found, count, number), SearchSpace(sweep.losses))
    classes = found[0].logits.shape[1]
    records = replay(sweep, curves, classes, seeds, initial=settings)
    ranking = Ranking(records, rule_of(sweep))
    in_place = dict(zip(sweep.seeds, seeds, strict=True))
    labels = found[0].labels[parts["test"]]
    result: Found = {}
    with tempfile.TemporaryDirectory(prefix="calsweep-several-") as folder:
        place = Folder(folder)
        for record in records:
            own = known[record.setting, in_place[record.seed]]
            for split, index in parts.items():
                rows = Rows(own.logits[index].float().numpy(), own.labels[index].numpy())
                rows.write(place / str(record.number), split)

        def read(split: str, trial: int) -> Rows:
            return Rows.read(place / str(trial), split)

        judged = judge_ensemble(ranking, read)
        choose = select if judged and judged[0].offered == "ensemble" else select_seeds
        for name, each in (
            (f"ensemble of at most {networks}", select(ranking, read)),
            (f"offered, at most {networks}", choose(ranking, read)),
        ):
            if each is not None:
                nll = M.evaluate(each.on_test.logits, labels, ["nll"])["nll"]
                result[name] = len(records), each.networks, nll
    return result


def _of_baseline(known: Known, parts: Parts, random: np.random.Generator) -> Found:
    """Means of seeds of cross-entropy with temperatures."""
    found: Found = {}
    order = random.permutation(SEEDS_OF_BASELINE).tolist()
    for count in REFERENCES:
        runs = [known[BASELINE, seed] for seed in order[:count]]
        logits, labels = (
            {split: [getattr(run, what)[index] for run in runs] for split, index in parts.items()}
            for what in ("logits", "labels")
        )
        ensemble = fit_mean(logits["validation"], labels["validation"][0])
        test = ensemble([each.double() for each in logits["test"]])
        nll = M.evaluate(test, labels["test"][0], ["nll"])["nll"]
        found[f"cross_entropy × {count}"] = count, count, nll
    return found


def main() -> None:
    """Train what is missing, replay, and print a table."""
    parser = parser_of_recordings(__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path, required=True, help="where logits are kept")
    parser.add_argument("--replays", type=int, default=20, help="replays, each with its splits")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    print(f"| data | recommended | trainings | networks | test NLL |\n{'| --- ' * 5}|", flush=True)
    for file in arguments.sweeps:
        sweep = load_sweep(file)
        dataset = load_data(sweep)
        trials = trials_of(sweep, dataset.num_classes)
        found = list(trained(sweep, dataset, trials, arguments.folder / Path(file).stem))
        count = len(dataset.validation)
        replays = [run(sweep, found, count, number) for number in range(arguments.replays)]
        for name in dict.fromkeys(name for each in replays for name in each):
            own = [each[name] for each in replays if name in each]
            trainings, networks, losses = zip(*own, strict=True)
            costs = (math.fsum(each) / len(own) for each in (trainings, networks))
            cells = " | ".join(f"{each:.1f}" for each in costs)
            print(f"| {sweep.name} | {name} | {cells} | {mean_and_error(losses)} |", flush=True)


if __name__ == "__main__":
    main()
