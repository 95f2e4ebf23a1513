"""Several networks: what a sweep recommends against equally expensive seeds of cross-entropy.

    python -m benchmarks.tabular.several benchmarks/tabular/digits.yaml --folder FOLDER

Trains 20 seeds of cross-entropy and four of published settings of five losses (minutes); their
logits are kept in ``FOLDER``, from where an interrupted run continues. For each replay, the
validation and test samples are pooled and split anew. A sweep with ``selection.ensemble:
if_supported`` is replayed with the queue, the ranking and the verdicts of live sweeps.
"""

from __future__ import annotations

from pathlib import Path

from benchmarks.tabular.curves import Trials, parser_of_recordings
from benchmarks.tabular.resplits import trained
from sweeps.planning.data import load_data
from sweeps.search.space import SearchSpace
from sweeps.sweep_file.loading import load_sweep
from sweeps.sweep_file.schema import SweepFile
from trainables.contract.setting import BASELINE, Setting

LOSSES = ("label_smoothing", "focal", "dual_focal", "inverse_focal", "mbls")
OF_A_LOSS = 2
SEEDS_OF_BASELINE = 20
SEEDS = 4


def trials_of(sweep: SweepFile, num_classes: int) -> Trials:
    """Settings and seeds to train, with an empty history each."""
    published = SearchSpace(sweep).initial_settings(num_classes)
    by_loss = {loss: [s for s in published if s.loss == loss][:OF_A_LOSS] for loss in LOSSES}
    found: list[tuple[Setting, int]] = [(BASELINE, seed) for seed in range(SEEDS_OF_BASELINE)]
    found += [(s, seed) for each in by_loss.values() for s in each for seed in range(SEEDS)]
    return [(setting, seed, [{}] * sweep.training.epochs) for setting, seed in found]


def main() -> None:
    """Train what is missing."""
    parser = parser_of_recordings(__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path, required=True, help="where logits are kept")
    arguments = parser.parse_args()
    for file in arguments.sweeps:
        sweep = load_sweep(file)
        dataset = load_data(sweep)
        trials = trials_of(sweep, dataset.num_classes)
        found = list(trained(sweep, dataset, trials, arguments.folder / Path(file).stem))
        print(file, len(found))


if __name__ == "__main__":
    main()
