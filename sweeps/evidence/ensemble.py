"""The ensemble of networks that a sweep has already trained, and its verdicts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from sweeps.evidence.comparison import ENSEMBLE, ERROR, SCALED, Comparison, Split
from sweeps.evidence.prediction_sets import COVERAGE, Read, read_one_class, set_rows
from sweeps.messages.formatting import counted
from sweeps.results.columns import shown_metrics
from sweeps.search.ranking import Ranking
from sweeps.search.record import TrialRecord
from trainables.contract.metric_names import MetricName

if TYPE_CHECKING:
    from torch import Tensor

    from trainables.export.prediction_sets import Sets
    from trainables.posthoc.ensembles import Ensemble

_MOST_READ: Final = 40  # trials whose predictions are read, the best single ones
_LOSS: Final = "val_nll_scaled"


@dataclass(frozen=True)
class Selected:
    """An ensemble of a sweep's trials, which are repeated by weight."""

    trials: tuple[TrialRecord, ...]
    ensemble: Ensemble
    pool: Pool

    @property
    def networks(self) -> int:
        """Number of different networks, which is the cost of a prediction."""
        return len({trial.number for trial in self.trials})

    @cached_property
    def crossed(self) -> Tensor:
        """Logits on the validation split, of ensembles selected on the other half of it."""
        from trainables.posthoc.ensembles import cross_fitted_ensemble

        return cross_fitted_ensemble(self.pool.logits, self.pool.labels)

    def on_test(self, read: Read) -> tuple[Tensor, Tensor]:
        """Logits and labels on the test split; errors are those of :func:`select`."""
        logits = {}
        labels = self.pool.labels
        for index, trial in dict(zip(self.ensemble.members, self.trials, strict=True)).items():
            found = read_one_class(read("test", trial.number))
            assert found is not None  # as on the validation split
            logits[index], labels = found
        return self.ensemble(logits), labels

    def sets(self, on_test: tuple[Tensor, Tensor], coverages: Sequence[float]) -> Sets:
        """Its prediction sets, given :meth:`on_test`."""
        from trainables.export.prediction_sets import fit_prediction_sets

        return fit_prediction_sets((self.crossed, self.pool.labels), on_test, coverages)


@dataclass(frozen=True)
class Pool:
    """The candidates of an ensemble: trials, their logits on the validation split, labels."""

    trials: tuple[TrialRecord, ...]
    logits: list[Tensor]
    labels: Tensor


def select(ranking: Ranking, read: Read) -> Selected | None:
    """Select an ensemble among the finished trials within the guard; `read` reads validation files.

    None if fewer than two trials qualify, or a sample has several decisions. Raises OSError or
    ValueError if predictions cannot be read.
    """
    from trainables.posthoc.ensembles import fit_ensemble

    pool = _pool(ranking, read)
    if pool is None:
        return None
    found = fit_ensemble(pool.logits, pool.labels)
    return Selected(tuple(pool.trials[index] for index in found.members), found, pool)


def judge_ensemble(ranking: Ranking, read: Read, sweeps: int = 1) -> list[dict[str, Any]]:
    """Results of the ensemble, as plain data: a row, sentences, members, comparisons, sets.

    On the validation split everything is cross-fitted: members and temperatures for one half are
    selected on the other. None if there is no ensemble of two networks. `sweeps` is the number of
    sweeps that were evaluated on the test split. Errors are those of :func:`select`.
    """
    selected = select(ranking, read)
    if selected is None or selected.networks < 2:
        return []
    on_test = selected.on_test(read)
    comparisons = _comparisons(ranking, read, selected, on_test, sweeps)
    seeds = 0 if ranking.baseline is None else len(ranking.baseline.trials)
    found = {
        "members": [
            {"trial": trial.number, "label": trial.label, "temperature": temperature}
            for trial, temperature in zip(
                selected.trials, selected.ensemble.temperatures, strict=True
            )
        ],
        "networks": selected.networks,
        "temperature": selected.ensemble.temperature,
        "row": _row(ranking, selected, on_test),
        "why": _sentences(selected, comparisons, seeds),
        "comparisons": [asdict(each) for each in comparisons],
        "sets": set_rows(ENSEMBLE, [selected.sets(on_test, (COVERAGE,))]),
    }
    return [found]


def _pool(ranking: Ranking, read: Read) -> Pool | None:
    feasible = [trial for each in ranking.candidates if each.feasible for trial in each.trials]
    known = [trial for trial in feasible if math.isfinite(trial.outcome.get(_LOSS, math.nan))]
    trials = sorted(known, key=lambda trial: trial.outcome[_LOSS])[:_MOST_READ]
    if len(trials) < 2:
        return None
    read_all = (read_one_class(read("validation", trial.number)) for trial in trials)
    found = [each for each in read_all if each is not None]
    if len(found) < len(trials):
        return None
    return Pool(tuple(trials), [logits for logits, _ in found], found[0][1])


def _comparisons(
    ranking: Ranking,
    read: Read,
    selected: Selected,
    on_test: tuple[Tensor, Tensor],
    sweeps: int,
) -> list[Comparison]:
    """Comparisons with the best run, and with the mean of equally many runs, of cross-entropy + T.

    All networks are already trained, so the intervals are over samples alone.
    """
    from trainables import metrics as M
    from trainables.posthoc import TemperatureScaling, cross_fitted

    labels, (unseen, test_labels) = selected.pool.labels, on_test
    found = []
    for name, (validation, test) in _rivals(ranking, read, selected.networks).items():
        scaler = TemperatureScaling().fit(validation, labels)
        # All sweeps that are evaluated on the test split share the allowed error.
        fresh = M.difference(
            "nll",
            [unseen.softmax(dim=1)],
            [scaler(test).softmax(dim=1)],
            test_labels,
            confidence=1 - ERROR / sweeps,
        )
        again = M.difference(
            "nll",
            [selected.crossed.softmax(dim=1)],
            [cross_fitted(validation, labels).softmax(dim=1)],
            labels,
        )
        of_split: dict[Split, Any] = {"test": (fresh, sweeps), "validation": (again, None)}
        found += [
            Comparison(
                *(ENSEMBLE, name, "nll", each.value, each.low, each.high, each.verdict),
                seeds=1,
                split=split,
                corrected_for=corrected_for,
            )
            for split, (each, corrected_for) in of_split.items()
        ]
    return sorted(found, key=lambda each: each.split)


def _rivals(ranking: Ranking, read: Read, networks: int) -> dict[str, tuple[Tensor, Tensor]]:
    from trainables.posthoc.ensembles import averaged

    baseline = ranking.baseline
    if baseline is None:
        return {}
    runs = []
    for trial in sorted(baseline.trials, key=lambda trial: trial.outcome.get(_LOSS, math.inf)):
        on_both = [read_one_class(read(split, trial.number)) for split in ("validation", "test")]
        runs.append([each[0] for each in on_both if each is not None])
    name = f"{baseline.loss}{SCALED}"
    count = counted(len(runs), "seed")
    best, *others = runs
    rivals = {name if not others else f"the best of {count} of {name}": (best[0], best[1])}
    several = runs[:networks]
    if len(several) > 1:
        validation, test = (averaged([run[split] for run in several]) for split in (0, 1))
        rivals[f"the mean of {counted(len(several), 'seed')} of {name}"] = validation, test
    return rivals


def _row(ranking: Ranking, selected: Selected, on_test: tuple[Tensor, Tensor]) -> dict[str, Any]:
    from trainables import metrics as M

    shown = shown_metrics(ranking.rule.objective)
    ensemble, (scaled, labels) = selected.ensemble, on_test
    measured = {
        "val": M.evaluate(selected.crossed, selected.pool.labels),
        "test": M.evaluate(scaled * ensemble.temperature, labels),
        "scaled": M.evaluate(scaled, labels),
    }
    row: dict[str, Any] = {
        "loss": ENSEMBLE,
        "hyperparameters": {},
        "trials": {},
        "temperature": ensemble.temperature,
        "objective": math.nan,
        "seeds": 0,
        "note": counted(selected.networks, "network"),
    }
    for key in shown:
        if key != "temperature":
            name = MetricName.parse(key)
            kind = "scaled" if name.split == "test" and name.scaled else name.split
            row[key] = measured[kind].get(name.metric, math.nan)
    return row


def _sentences(selected: Selected, comparisons: Sequence[Comparison], seeds: int) -> list[str]:
    lines = [
        f"Ensemble of {counted(selected.networks, 'network')} that this sweep has trained (each "
        f"prediction costs {counted(selected.networks, 'network')}): "
        f"{', '.join(dict.fromkeys(trial.label for trial in selected.trials))}."
    ]
    if comparisons and seeds < selected.networks:
        lines.append(
            f"Whether {counted(selected.networks, 'seed')} of cross-entropy would do as well is "
            f"unknown: it was trained with {counted(seeds, 'seed')}."
        )
    return lines
