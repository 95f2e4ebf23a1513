"""Several networks that a sweep has already trained, averaged, and the verdict about them.

There are two ensembles: the best networks of all settings, and the seeds of cross-entropy. Several
networks nearly always beat one, so the first is compared with equally many of the second.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Final, Literal

from sweeps.evidence.comparison import compare_trained
from sweeps.evidence.prediction_sets import COVERAGE, one_class, set_rows
from sweeps.messages.formatting import counted
from sweeps.results.columns import LeaderboardRow, shown_metrics
from sweeps.results.evidence import EnsembleEvidence, Member
from sweeps.results.verdicts import ENSEMBLE, ERROR, Arm, Comparison, Split, Verdict, error_of
from sweeps.search.ranking import Ranking
from sweeps.search.record import TrialRecord
from trainables.contract.config import ScalingWay
from trainables.contract.metric_names import MetricName
from trainables.contract.setting import BASELINE_LOSS
from trainables.files.rows import ReadRows

if TYPE_CHECKING:
    from torch import Tensor

    from trainables.export.prediction_sets import Labelled, Sets
    from trainables.posthoc.ensembles import Ensemble, Fit

_MOST_READ: Final = 40  # trials whose predictions are read, the best single ones
_LOSS: Final = "val_nll_scaled"


@dataclass(frozen=True)
class Selected:
    """An ensemble of a sweep's trials.

    Attributes:
        kind: Whether it is the ensemble, or the mean of seeds of cross-entropy.
        trials: The members, ascending.
        ensemble: Their temperatures, and the scaling of the mean.
        pool: The candidates that `fit` selected them from.
        fit: Finds the ensemble of logits on the validation split.
        read: Returns a trial's predictions.
    """

    kind: Literal["ensemble", "seeds"]
    trials: tuple[TrialRecord, ...]
    ensemble: Ensemble
    pool: Pool
    fit: Fit
    read: ReadRows

    @property
    def networks(self) -> int:
        """Number of networks, which is the cost of a prediction."""
        return len(self.trials)

    @property
    def label(self) -> str:
        """For tables and files."""
        if self.kind == "ensemble":
            return f"ensemble of {counted(self.networks, 'network')}"
        return f"mean of {counted(self.networks, 'seed')} of {BASELINE_LOSS}"

    @cached_property
    def crossed(self) -> Labelled:
        """The validation split, by ensembles selected on the other half of it."""
        from trainables.export.prediction_sets import Labelled
        from trainables.posthoc.ensembles import cross_fitted_ensemble

        labels, groups = self.pool.labels, self.pool.groups
        crossed = cross_fitted_ensemble(self.pool.logits, labels, self.fit, groups)
        return Labelled(crossed, labels, groups)

    @property
    def temperature(self) -> float:
        """That of the scaling of the mean; 1 if it has none."""
        return float(self.ensemble.scaling.temperature)

    @cached_property
    def on_test(self) -> Labelled:
        """The test split; errors are those of :func:`select`."""
        mean = self.mean_on_test
        return mean._replace(logits=self.ensemble.scaling(mean.logits))

    @cached_property
    def mean_on_test(self) -> Labelled:
        """The test split before the scaling of the mean."""
        members = dict(zip(self.ensemble.members, self.trials, strict=True))
        found = {key: one_class(self.read("test", trial.number)) for key, trial in members.items()}
        known = {key: each for key, each in found.items() if each is not None}  # all, as above
        logits = self.ensemble.mean({key: each.logits for key, each in known.items()})
        return next(iter(known.values()))._replace(logits=logits)

    def sets(self, coverages: Sequence[float]) -> Sets:
        """Its prediction sets."""
        from trainables.export.prediction_sets import fit_prediction_sets

        return fit_prediction_sets(self.crossed, self.on_test, coverages)

    def metric(self, name: str) -> float:
        """A metric on the test split."""
        from trainables import metrics as M

        return M.evaluate(self.on_test.logits, self.on_test.labels, [name])[name]


@dataclass(frozen=True)
class Pool:
    """The candidates of an ensemble: trials, their logits on the validation split, labels.

    ``groups`` (N,) are those of the samples, if any.
    """

    trials: tuple[TrialRecord, ...]
    logits: list[Tensor]
    labels: Tensor
    groups: Tensor | None


def select(ranking: Ranking, read: ReadRows) -> Selected | None:
    """Select an ensemble among the finished trials within the guard.

    It has at most as many networks as cross-entropy has seeds, so that equally many of both can be
    compared, and at most ``selection.networks``. None if fewer than three trials qualify, or a
    sample has several decisions. Raises OSError or ValueError if predictions cannot be read.
    """
    from trainables.posthoc.ensembles import LEAST_NETWORKS, fit_ensemble

    own = [c for c in ranking.candidates if c.feasible and not ranking.repeats_baseline(c)]
    feasible = [trial for each in own for trial in each.trials]
    trials = sorted(_known(feasible), key=lambda trial: trial.outcome[_LOSS])[:_MOST_READ]
    seeds, networks = len(_seeds(ranking)), ranking.rule.networks
    most = min(networks, seeds) if seeds >= LEAST_NETWORKS else networks
    if len(trials) < LEAST_NETWORKS:
        return None
    return _selected("ensemble", trials, read, partial(fit_ensemble, most=most, way=_way(ranking)))


def select_seeds(ranking: Ranking, read: ReadRows, most: int | None = None) -> Selected | None:
    """The mean of the seeds of cross-entropy, in the order of their training; see :func:`select`.

    `most` is the number of seeds, None for all. None if fewer have finished, or there is one.
    """
    from trainables.posthoc.ensembles import fit_mean

    trials = _seeds(ranking)
    if len(trials) < max(2, most or 0):
        return None
    return _selected("seeds", trials[:most], read, partial(fit_mean, way=_way(ranking)))


def judge_ensemble(
    ranking: Ranking, read: ReadRows, sweeps: int = 1, name: str = "NAME"
) -> list[EnsembleEvidence]:
    """The evidence on the ensemble, and on all seeds of cross-entropy.

    On the validation split everything is cross-fitted: members and temperatures for one half are
    selected on the other. If there is no ensemble of three networks, or all of them are seeds of
    cross-entropy, the evidence is that on these seeds alone; empty if there are fewer than three of
    these too. `sweeps` is the number of sweeps that were evaluated on the test split, and `name`
    that of the sweep, for the command that exports the networks. Errors are those of
    :func:`select`.
    """
    from trainables.posthoc.ensembles import LEAST_NETWORKS

    ours, seeds = select(ranking, read), select_seeds(ranking, read)
    if ours is None or ours.networks < LEAST_NETWORKS or _are_among(ours, seeds):
        if seeds is None or seeds.networks < LEAST_NETWORKS:
            return []
        advice = _advice_on_seeds(seeds, name)
        return [replace(_evidence(ranking, seeds), why=(advice,), advice=advice)]
    rival = seeds
    if seeds is None or seeds.networks != ours.networks:
        rival = select_seeds(ranking, read, ours.networks)
    comparisons = [] if rival is None else _comparisons(ours, rival, sweeps)
    found = replace(
        _evidence(ranking, ours),
        seeds=None if seeds is None else _evidence(ranking, seeds),
        comparisons=tuple(comparisons),
        offered="seeds" if _is_no_better(comparisons) else "ensemble",
        why=tuple(_sentences(ranking, ours, rival, comparisons)),
        advice=_advice(ours, rival, comparisons, name),
    )
    return [found]


def _are_among(ours: Selected, seeds: Selected | None) -> bool:
    """Whether all networks of an ensemble are seeds of cross-entropy, compared with themselves."""
    known = () if seeds is None else seeds.trials
    return {trial.number for trial in ours.trials} <= {trial.number for trial in known}


def _known(trials: Sequence[TrialRecord]) -> list[TrialRecord]:
    return [each for each in trials if math.isfinite(each.outcome.get(_LOSS, math.nan))]


def _seeds(ranking: Ranking) -> list[TrialRecord]:
    """The finished trials of cross-entropy, in the order of their training."""
    trials = () if ranking.baseline is None else ranking.baseline.trials
    return sorted(_known(trials), key=lambda trial: trial.number)


def _way(ranking: Ranking) -> ScalingWay:
    """How the mean is scaled, with temperatures fitted by NLL."""
    return ScalingWay(ranking.rule.scaling.name)


def _selected(
    kind: Literal["ensemble", "seeds"], trials: Sequence[TrialRecord], read: ReadRows, fit: Fit
) -> Selected | None:
    rows = [read("validation", trial.number) for trial in trials]
    known = [each for each in map(one_class, rows) if each is not None]
    if len(known) < len(trials):
        return None
    pool = Pool(tuple(trials), [each.logits for each in known], *known[0][1:])
    found = fit(pool.logits, pool.labels, pool.groups)
    members = tuple(pool.trials[index] for index in found.members)
    return Selected(kind, members, found, pool, fit, read)


def _comparisons(ours: Selected, theirs: Selected, sweeps: int) -> list[Comparison]:
    """The ensemble against equally many seeds of cross-entropy, by NLL on both splits.

    All networks are already trained, so the intervals are over samples alone. All sweeps that are
    evaluated on the test split share the allowed error.
    """
    from trainables import metrics as M

    found = []
    splits: tuple[tuple[Split, int | None], ...] = (("test", sweeps), ("validation", None))
    for split, corrected_for in splits:
        a, b = (each.on_test if split == "test" else each.crossed for each in (ours, theirs))
        error = ERROR if corrected_for is None else error_of(corrected_for)
        design = M.Design(confidence=1 - error, clusters=a.groups)
        arms = Arm(ENSEMBLE), Arm(f"the {theirs.label}", scaled=True)
        each = compare_trained(arms, (a.logits, b.logits), a.labels, design)
        found.append(replace(each, split=split, corrected_for=corrected_for))
    return found


def _evidence(ranking: Ranking, selected: Selected) -> EnsembleEvidence:
    members = zip(selected.trials, selected.ensemble.temperatures, strict=True)
    row = _row(ranking, selected)
    return EnsembleEvidence(
        row=row,
        members=tuple(Member(trial.number, trial.label, each) for trial, each in members),
        networks=selected.networks,
        temperature=selected.temperature,
        nll=selected.metric("nll"),
        scaling=selected.ensemble.scaling.to_json(),
        sets=tuple(set_rows(row.loss, [selected.sets((COVERAGE,))])),
    )


def _row(ranking: Ranking, selected: Selected) -> LeaderboardRow:
    from trainables import metrics as M

    named = shown_metrics(ranking.rule.objective, rare=ranking.rare_class)
    shown = [key for key in named if key != "temperature"]
    names = sorted({MetricName.parse(key).metric for key in shown} & M.METRICS.keys())
    scaled, labels, _ = selected.on_test
    measured = {
        "val": M.evaluate(selected.crossed.logits, selected.crossed.labels, names),
        "test": M.evaluate(selected.mean_on_test.logits, labels, names),
        "scaled": M.evaluate(scaled, labels, names),
    }
    found = {"temperature": selected.temperature}
    for key in shown:
        name = MetricName.parse(key)
        kind = "scaled" if name.split == "test" and name.scaled else name.split
        found[key] = measured[kind].get(name.metric, math.nan)
    networks = selected.networks
    return LeaderboardRow(
        selected.kind,
        ENSEMBLE if selected.kind == "ensemble" else f"{BASELINE_LOSS} × {networks}",
        counted(networks, "network"),
        found,
    )


_VERDICTS: Final[dict[Verdict, str]] = {
    "supported": "beats",
    "not supported": "is not shown to beat",
    "worse": "is worse than",
}


def _sentences(
    ranking: Ranking, ours: Selected, rival: Selected | None, comparisons: Sequence[Comparison]
) -> list[str]:
    networks = counted(ours.networks, "network")
    labels = ", ".join(dict.fromkeys(trial.label for trial in ours.trials))
    lines = [
        f"Ensemble of {networks} that this sweep has trained (each prediction costs {networks}): "
        f"{labels}."
    ]
    if rival is None:
        seeds = counted(len(_seeds(ranking)), "seed")
        return [
            *lines,
            f"Whether it beats {ours.networks} seeds of cross-entropy is not decided: "
            f"cross-entropy was trained with {seeds} (selection.baseline_seeds).",
        ]
    on_test = comparisons[0]
    return [
        *lines,
        f"By NLL on the test split it {_VERDICTS[on_test.verdict]} {on_test.theirs} "
        f"({on_test.difference}). Its ECE is {ours.metric('ece'):.4f}, theirs "
        f"{rival.metric('ece'):.4f}.",
    ]


def _is_no_better(comparisons: Sequence[Comparison]) -> bool:
    """Whether it is not shown to beat equally many seeds of cross-entropy on the test split."""
    return bool(comparisons) and comparisons[0].verdict != "supported"


def _advice(
    ours: Selected, rival: Selected | None, comparisons: Sequence[Comparison], name: str
) -> str:
    """What to do if several networks per prediction are affordable; empty if undecided."""
    if rival is None:
        return ""
    if not _is_no_better(comparisons):
        return (
            f"For the lowest NLL export the {ours.label} that this sweep has trained "
            f"(`calsweep export {name} --ensemble`): its NLL is lower than that of equally many "
            f"seeds of cross-entropy, by more than chance, its ECE is "
            f"{ours.metric('ece'):.4f}, and a prediction costs that many networks."
        )
    return (
        f"{_advice_on_seeds(rival, name)} The ensemble of all settings is not shown to be better."
    )


def _advice_on_seeds(seeds: Selected, name: str) -> str:
    return (
        f"For a lower NLL average {seeds.networks} seeds of cross-entropy: their "
        f"NLL is {seeds.metric('nll'):.4f} and their ECE "
        f"{seeds.metric('ece'):.4f}, and a prediction costs that many networks (`calsweep "
        f"export {name} --ensemble`)."
    )
